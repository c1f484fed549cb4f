/*
 * The memory that rules of history keep (shm/history/budget.h): what one sweep sums up, where the
 * floor comes to lie for a limit, and how far a pruner looks when no sweep is under way.
 */
#include <inttypes.h>

#include "ring/op/keep.h"
#include "ring/op/past.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/rules.h"
#include "shm/keys/node.h"
#include "shm/layout/reserved.h"
#include "shm/memory/guard.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
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

/* It is of the last step; and it is counted while a sweep looks at blocks, not between. */
static void test_what_ended_since_the_sweep_began_counts_where_the_sweep_looks(void)
{
        const struct sb_version *version = sized(60);

        CHECK(begin(1000, 10));
        sb_budget_begin(&writer);
        sb_sweep_slice_begin(&writer, true);
        CHECK(sb_budget_count(&writer, &keeps_all, version, 1001));
        CHECK(sb_budget_count(&writer, &keeps_all, version, 100000));
        sb_sweep_slice_end(&writer);
        CHECK(!sb_budget_count(&writer, &keeps_all, version, 500));
        sb_budget_end(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), 2 * 64);
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
                bool rose;

                CHECK(begin(clock, from));
                sb_store_relaxed(&super()->history_limit, limit);
                sb_budget_begin(&writer);
                for (uint32_t i = 0; i < VERSIONS; i++) {
                        successors[i] = from + 1 + draw((uint32_t)(clock - from));
                        CHECK(sb_budget_count(&writer, &keeps_all, version, successors[i]));
                }
                rose = sb_budget_end(&writer);
                floor = sb_load_relaxed(&super()->history_floor);
                CHECK(floor >= from);
                CHECK_EQ(rose, floor != from);
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

/* ---- a bus that rules fill ---- */

/* As a client that waits for memory, with no engine there: a slice of a sweep, and try again. */
static int churn_one(bool deletes, const char *key)
{
        int r, slices = 0;

        do
                r = deletes ? delete (&writer, key) : put(&writer, key, "value123", 8);
        while (r == SB_E_FULL && slices++ < 3000 && (sb_work_slice(&writer) || slices % 100));
        return r;
}

static uint64_t take_cut(void)
{
        uint64_t cut = 0;
        uint32_t index;

        if (!sb_snapshot_open(&reader, &index, &cut))
                sb_snapshot_close(&reader, index);
        return cut;
}

/* Ever new keys, each set and deleted. Return: whether no call found the bus full. */
static bool churn(uint32_t pairs, bool moving)
{
        char key[32];
        int r;

        for (uint32_t i = 0; i < pairs; i++) {
                snprintf(key, sizeof(key), "s/%08u", i);
                r = churn_one(false, key);
                r = r ? r : churn_one(true, key);
                if (r) {
                        TEST_NOTE("pair %u: %d", i, r);
                        return false;
                }
                if (moving && i % 50 == 0)
                        take_cut();
        }
        return true;
}

static int past_of(const char *key, uint64_t cut)
{
        struct sb_version *version;

        return sb_past_get(&reader, key, (uint32_t)strlen(key), cut, 0, &version);
}

/* Both with many cuts and with one. The last keys are remembered as long as there is memory for
 * them; of older ones it is not known any more that they were there, and no answer says otherwise.
 */
static void test_deleted_keys_that_a_rule_keeps_are_forgotten_before_they_fill_the_bus(void)
{
        const uint64_t size = 8 << 20, limit = size / 4;

        for (uint32_t moving = 0; moving < 2; moving++) {
                uint32_t pairs = !moving ? 30000 : getenv("SB_TEST_LONG") ? 500000 : 100000;
                uint64_t early, late;
                char key[32];

                CHECK(make_bus(size));
                CHECK_EQ(sb_guard_grow(&reader, 0), 0);
                sb_store_relaxed(&super()->history_limit, limit);
                CHECK_EQ(sb_keep_write(&writer, "s/", 2, true, SB_RULE_WORD(SB_RULE_LAST, 1)), 0);
                early = take_cut();
                CHECK(churn(pairs, moving));
                late = take_cut();
                for (uint32_t i = 0; i < 3; i++)
                        sb_work_all(&writer, true);
                TEST_NOTE("%u pairs, %s: %" PRIu64 " bytes kept of %" PRIu64, pairs,
                        moving ? "many cuts" : "one cut", sb_load_relaxed(&super()->history_bytes),
                        limit);
                CHECK(sb_load_relaxed(&super()->history_bytes) <= limit);
                CHECK(!moving || sb_load_relaxed(&super()->history_bytes) > limit / 4);
                snprintf(key, sizeof(key), "s/%08u", pairs - 1);
                CHECK_EQ(past_of(key, late), SB_E_NOT_FOUND);
                CHECK_EQ(past_of("s/00000001", early), SB_E_LAPPED);
                CHECK_EQ(past_of("s/00000001", late), SB_E_NOT_FOUND);
                unmake_bus();
        }
}

/* The bytes of the block for @bytes: of a class, or whole units. */
static uint64_t block_of(uint64_t bytes)
{
        const struct sb_segment *s = &writer.segment;
        uint32_t class_ = sb_unit_class(s, bytes), unit = s->geometry.unit_size;

        return class_ < s->class_count ? s->class_size[class_] : (bytes + unit - 1) / unit * unit;
}

static void test_a_deleted_key_counts_as_its_tombstone_and_its_node(void)
{
        static const unsigned char bytes[3000];
        uint64_t expected = 0;
        char key[200];

        CHECK(make_bus(4 << 20));
        CHECK_EQ(sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 2)), 0);
        for (uint32_t i = 0; i < 100; i++) {
                uint32_t len = 8 + i, value_len = i % 2 ? 8 : 3000;

                snprintf(key, sizeof(key), "%0*u", (int)len, i);
                CHECK(!put(&writer, key, bytes, value_len));
                if (i % 3 == 0)
                        continue; /* it has a value, and no past */
                CHECK(!delete (&writer, key));
                expected += block_of(sizeof(struct sb_version) + len) +
                            block_of(sizeof(struct sb_version) + len + value_len) +
                            block_of(sb_node_size(len));
        }
        take_cut();
        sb_work_all(&writer, true);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), expected);
        unmake_bus();
}

/* It waits for the cut, not for its rule. */
static void test_a_deleted_key_that_a_cut_needs_does_not_count(void)
{
        uint32_t index;
        uint64_t cut;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 1)), 0);
        CHECK(!put(&writer, "key", "value", 5));
        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
        CHECK(!delete (&writer, "key"));
        sb_work_all(&writer, true);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), 0);
        sb_snapshot_close(&reader, index);
        sb_work_all(&writer, true);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes),
                block_of(sizeof(struct sb_version) + 3) + block_of(sb_node_size(3)));
        unmake_bus();
}

static uint64_t head_stamp(const char *key)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_version *head;
        uint64_t stamp;

        sb_pin(&writer);
        head = sb_find_newest(&writer, key, len, hash_of(key, len));
        stamp = head ? sb_load_relaxed(&head->stamp) : 0;
        sb_unpin(&writer);
        return stamp;
}

/* A sweep goes by the stable cut where there are observers. What was deleted in that very cut is
 * history; what was deleted behind it is not yet. */
static void test_a_key_that_was_deleted_in_the_last_cut_of_a_sweep_counts(void)
{
        uint64_t each;
        uint32_t cursor = 0;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 1)), 0);
        sb_store_relaxed(&super()->observers, 1);
        CHECK(!put(&writer, "key1", "value", 5));
        CHECK(!delete (&writer, "key1"));
        sb_work_all(&writer, true);
        CHECK_EQ(sb_load_relaxed(&super()->stable), head_stamp("key1"));
        each = block_of(sizeof(struct sb_version) + 4) + block_of(sb_node_size(4));
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), each);
        CHECK(!put(&writer, "key2", "value", 5));
        CHECK(!delete (&writer, "key2"));
        sb_sweep_begin(&writer);
        sb_sweep(&writer, &cursor, writer.segment.geometry.unit_count);
        sb_sweep_end(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->history_bytes), each);
        unmake_bus();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_a_bus_without_rules_counts_nothing);
        RUN(test_each_version_counts_as_the_block_that_it_takes);
        RUN(test_what_ended_since_the_sweep_began_counts_where_the_sweep_looks);
        RUN(test_the_floor_rises_until_what_is_kept_is_within_the_limit_and_not_much_more);
        RUN(test_a_floor_that_another_raised_meanwhile_does_not_sink);
        RUN(test_a_deleted_key_counts_as_its_tombstone_and_its_node);
        RUN(test_deleted_keys_that_a_rule_keeps_are_forgotten_before_they_fill_the_bus);
        RUN(test_beside_a_sweep_only_a_short_past_is_looked_through);
        RUN(test_a_deleted_key_that_a_cut_needs_does_not_count);
        RUN(test_a_key_that_was_deleted_in_the_last_cut_of_a_sweep_counts);
        return test_end();
}
