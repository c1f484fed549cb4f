/*
 * The memory that rules of history keep (shm/history/budget.h): what one sweep sums up, where the
 * floor comes to lie for a limit, and how far a pruner looks when no sweep is under way.
 */
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/rules.h"
#include "shm/memory/unit.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

static bool begin(uint64_t clock, uint64_t floor)
{
        draw_state = clock;
        if (!make_bus(1 << 20))
                return false;
        sb_store_relaxed(&super()->rule_count, 1);
        sb_store_relaxed(&super()->clock, clock);
        sb_store_relaxed(&super()->history_floor, floor);
        return true;
}

static const struct sb_keeping keeps_all = {.word = SB_RULE_WORD(SB_RULE_ALL, 0)};

/* A version of so many bytes in all: its shape is all that counts. */
static const struct sb_version *sized(uint64_t bytes)
{
        static struct sb_version version;

        version.shape = SB_SHAPE(bytes - sizeof(version) - 3, 3, SB_VERSION_VALUE, 1);
        return &version;
}

static void test_a_bus_without_rules_counts_nothing(void)
{
        const struct sb_version *version = sized(100);

        CHECK(begin(100, 0));
        sb_store_relaxed(&super()->rule_count, 0);
        sb_store_relaxed(&super()->history_limit, 1);
        sb_budget_begin(&writer);
        CHECK(!sb_budget_count(&writer, &keeps_all, version, 50));
        sb_budget_end(&writer);
        CHECK(!sb_load_relaxed(&super()->history_bytes) &&
                !sb_load_relaxed(&super()->history_floor));
        unmake_bus();
}

static void test_each_version_counts_as_the_block_that_it_takes(void)
{
        const struct sb_segment *s = &writer.segment;
        uint64_t total = 0;

        CHECK(begin(1000, 10));
        sb_budget_begin(&writer);
        for (uint32_t i = 0; i < 500; i++) {
                uint64_t bytes = 52 + draw(draw(3) ? 2000 : 100000);
                const struct sb_version *version = sized(bytes);
                uint32_t class_ = sb_unit_class(s, bytes);

                CHECK(sb_budget_count(&writer, &keeps_all, version, 11 + draw(989)));
                total += class_ < s->class_count ? s->class_size[class_]
                                                 : (bytes + 4095) / 4096 * 4096;
                /* What the floor lets go is not kept, and not counted. */
                CHECK(sb_budget_count(&writer, &keeps_all, version, 1 + draw(10)));
        }
        sb_budget_end(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), total);
        CHECK_EQ(sb_load_relaxed(&super()->history_floor), 10); /* without a limit it stays */
        CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), 0);
        unmake_bus();
}

static void test_the_floor_rises_until_what_is_kept_is_within_the_limit_and_not_much_more(void)
{
        enum { VERSIONS = 300 };

        for (uint32_t round = 0; round < 200; round++) {
                uint64_t from = draw(50), clock = from + 1 + draw(round % 2 ? 50 : 5000),
                         limit = 64 * (uint64_t)(1 + draw(VERSIONS + 50)), successors[VERSIONS],
                         floor, above = 0, step = (clock - from) / SB_BUDGET_STEPS + 1,
                         above_less = 0;
                const struct sb_version *version = sized(60); /* in a block of 64 */

                CHECK(begin(clock, from));
                sb_store_relaxed(&super()->history_limit, limit);
                sb_budget_begin(&writer);
                for (uint32_t i = 0; i < VERSIONS; i++) {
                        successors[i] = from + 1 + draw((uint32_t)(clock - from));
                        CHECK(sb_budget_count(&writer, &keeps_all, version, successors[i]));
                }
                sb_budget_end(&writer);
                floor = sb_load_relaxed(&super()->history_floor);
                CHECK(floor >= from);
                for (uint32_t i = 0; i < VERSIONS; i++) {
                        above += successors[i] > floor ? 64 : 0;
                        above_less += successors[i] > floor - step ? 64 : 0;
                }
                CHECK(above <= limit);
                CHECK(floor == from || above_less > limit); /* one step less would not do */
                CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), floor != from);
                CHECK_EQ(sb_load_relaxed(&super()->history_bytes), 64 * VERSIONS);
                unmake_bus();
        }
}

static void test_a_floor_that_another_raised_meanwhile_does_not_sink(void)
{
        const struct sb_version *version = sized(60);

        CHECK(begin(1000, 0));
        sb_store_relaxed(&super()->history_limit, 64);
        sb_budget_begin(&writer);
        for (uint64_t cut = 100; cut < 200; cut++)
                CHECK(sb_budget_count(&writer, &keeps_all, version, cut));
        sb_store_relaxed(&super()->history_floor, 900);
        sb_budget_end(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->history_floor), 900);
        unmake_bus();
}

static void test_beside_a_sweep_only_a_short_past_is_looked_through(void)
{
        static const struct {
                uint64_t word;
                bool further;
        } cases[] = {{SB_RULE_WORD(SB_RULE_ALL, 0), false}, {SB_RULE_WORD(SB_RULE_SPAN, 5), false},
                {SB_RULE_WORD(SB_RULE_LAST, 1), true}, {SB_RULE_WORD(SB_RULE_LAST, 64), true},
                {SB_RULE_WORD(SB_RULE_LAST, 65), false}};
        const struct sb_version *version = sized(60);

        CHECK(begin(1000, 0));
        for (uint32_t i = 0; i < 5; i++) {
                struct sb_keeping keeping = {.word = cases[i].word};

                CHECK_EQ(sb_budget_count(&writer, &keeping, version, 100), cases[i].further);
        }
        sb_budget_begin(&writer);
        for (uint32_t i = 0; i < 5; i++) {
                struct sb_keeping keeping = {.word = cases[i].word};

                CHECK(sb_budget_count(&writer, &keeping, version, 100));
        }
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bus_without_rules_counts_nothing);
        RUN(test_each_version_counts_as_the_block_that_it_takes);
        RUN(test_the_floor_rises_until_what_is_kept_is_within_the_limit_and_not_much_more);
        RUN(test_a_floor_that_another_raised_meanwhile_does_not_sink);
        RUN(test_beside_a_sweep_only_a_short_past_is_looked_through);
        return test_end();
}
