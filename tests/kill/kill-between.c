/*
 * Another process does something whole between two instructions of one.
 *
 * An operation is stopped before each instruction that loads or stores in the segment, in a bus of
 * its own for each; there another client acts, and the operation goes on to its end. What the other
 * client did stands, and the operation has done nothing over it: a CAS that has to fail there
 * failed, and a look was repeated.
 */
#include "ring/op/keep.h"
#include "ring/op/past.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/order.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reclaim.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/bus.h"

struct race {
        bool (*begin)(void); /* the bus */
        void (*operation)(void *context);
        /* at one point */
        void (*beside)(void);
        /* there, and at each later one; NULL: the operation ends without another point */
        void (*behind)(void);
        bool (*right)(void); /* behind the operation; @came: whether there was the point */
};

static bool broken; /* what the other client did failed, or was found undone */
static bool came;
static bool looked;      /* what the other client did shows its effect once */
static uint64_t stop_at; /* so many instructions of the operation come first, or a few more */

static uintptr_t stopped_before; /* the operation's next instruction there */

static enum step_verdict race_point(void *context, uint64_t number, uintptr_t address)
{
        const struct race *race = *(const struct race **)context;

        if (number < stop_at)
                return STEP_ON;
        if (!came) {
                came = true;
                stop_at = number;
                stopped_before = address;
                race->beside();
        }
        if (!race->behind)
                return STEP_STOP;
        race->behind();
        return STEP_ON;
}

/* One point, or none. Return: NULL, or what is wrong. */
static const char *race_once(const struct race *race, struct step_run *run)
{
        static struct sb_check_report report;
        enum step_end end;

        broken = came = looked = false;
        if (!race->begin())
                return "there is no bus";
        run->shared = (struct step_memory){writer.segment.base, writer.segment.geometry.size};
        end = step_run(run);
        if (end != STEP_DONE)
                return step_end_text(end);
        if (broken)
                return "the other client was answered wrongly, or the operation was";
        if (!race->right())
                return "not as it should be behind it";
        if (sb_check(&writer, false, &report) || report.problem_count)
                return report.problems[0];
        unmake_bus();
        return NULL;
}

/* At each point. Return: how many there are; 0: one of them failed. */
static uint32_t race_all(const struct race *race)
{
        struct step_run run = {.operation = race->operation,
                .point = race_point,
                .context = &race,
                .wanted = STEP_TOUCHING,
                .point_limit = 1000000};
        uint32_t count = 0;

        for (stop_at = 0, came = true; came; stop_at++) {
                const char *wrong = race_once(race, &run);

                if (wrong) {
                        TEST_NOTE("point %u, instruction %lu, before %s: %s", count,
                                (unsigned long)stop_at, step_where(stopped_before), wrong);
                        return 0;
                }
                count += came;
        }
        return count;
}

/* ---- rules of history ---- */

#define ALL    SB_RULE_WORD(SB_RULE_ALL, 0)
#define LAST   SB_RULE_WORD(SB_RULE_LAST, 1)
#define NEWEST SB_RULE_WORD(SB_RULE_NEWEST, 0)
#define GUARD  0u

/* The key "key", for which there is a rule: its own, or that of the prefix "k". */
static bool begin_ruled(bool prefix)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2};

        return make_bus_of(&wish) && !put(&writer, "key", "1", 1) &&
               !sb_keep_write(&writer, "key", prefix ? 1 : 3, prefix, ALL) &&
               !sb_guard_grow(&writer, GUARD);
}

static bool begin_with_rule(void)
{
        return begin_ruled(false);
}

static bool begin_with_wider_rule(void)
{
        return begin_ruled(true);
}

static void keep_last(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 3, false, LAST) != 0;
}

static void end_wider_rule(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 1, true, NEWEST) != 0;
}

static void keep_all(void)
{
        broken |= sb_keep_write(&writer, "key", 3, false, ALL) != 0;
}

/* The rule that applies to the key; and what its node says. */
static bool read_rule(struct sb_rule_found *ret, uint64_t *ret_copied)
{
        struct sb_node *node;

        sb_pin(&writer);
        node = sb_order_find(&writer, "key", 3);
        sb_rules_find(&writer, "key", 3, false, ret);
        if (node)
                *ret_copied = sb_rules_of_node(node);
        sb_unpin(&writer);
        return node;
}

/* What the key has now is there still when it has been overwritten. */
static bool is_kept(void)
{
        uint64_t cut = sb_clock_take_cut(&writer);
        struct sb_version *version;

        if (put(&writer, "key", "2", 1))
                return false;
        sb_work_all(&writer, true);
        return !sb_past_get(&writer, "key", 3, cut, GUARD, &version);
}

/* As long as the rule covers what is written. */
static void overwrite_and_look_back(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        broken |= !read_rule(&found, &copied);
        /* Only where the node does not say so can it be lost. */
        if (found.value.word != ALL || !found.value.since || copied == ALL || looked)
                return;
        looked = true;
        broken |= !is_kept();
}

/* Of the two the last one that was written. */
static bool has_rule(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        return read_rule(&found, &copied) && found.value.since && copied == found.value.word;
}

static void test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be(void)
{
        const struct race race = {
                begin_with_rule, keep_last, keep_all, overwrite_and_look_back, has_rule};

        CHECK(race_all(&race) > 100);
}

static bool is_kept_by_its_own(void)
{
        return !came || is_kept();
}

static void test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one(void)
{
        const struct race race = {
                begin_with_wider_rule, end_wider_rule, keep_all, NULL, is_kept_by_its_own};

        CHECK(race_all(&race) > 100);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be);
        RUN(test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one);
        return test_end();
}
