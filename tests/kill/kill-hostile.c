/*
 * Every operation beside hostile neighbours (tests/harness/step/hostile.h): lengths in shared
 * memory are written over before one of its accesses to it; and where versions move, and in a long
 * run, links, stamps, cells and words of units; and where clients watch, the words of rings and
 * bells.
 *
 * SB_TEST_LONG=1: before every access. SB_FIRST=n: a quick run takes others.
 * runs.h names other variables.
 */
#include <stdlib.h>

#include "tests/harness/faults.h"
#include "tests/harness/step/hostile.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/test.h"

#define EVERY      4  /* a quick run takes every fourth access */
#define EVERY_ROWS 16 /* where versions move, or prefixes are watched, one in 16 */
#define ROWS_SHARE 3

static uint64_t first;
static uint64_t every;
static uint32_t shared_count; /* scenarios that share the kinds of damage */

/* Where versions move, or clients watch: in a quick run each scenario has a third of the kinds of
 * damage, the next one another third. */
static bool is_passed_by(const struct step_scenario *scenario, uint32_t target)
{
        return (scenario->flags & (TRIAL_ROWS | TRIAL_WATCHES)) && every > 1 &&
               (target + shared_count) % ROWS_SHARE != first % ROWS_SHARE;
}

/* Whether a scenario has this kind of damage. */
static bool has(const struct step_scenario *scenario, uint32_t target)
{
        if (target >= HOSTILE_HINTS)
                return scenario->flags & TRIAL_PREFIXES;
        if (target >= HOSTILE_RINGS)
                return scenario->flags & TRIAL_WATCHES;
        if (every == 1)
                return true;
        if (scenario->flags & TRIAL_ROWS)
                return !(scenario->flags & TRIAL_WATCHES);
        return target < HOSTILE_LENGTHS;
}

/* The scenario's operation, with each kind of damage. */
static bool hostile(const struct step_scenario *scenario, struct trial_report *report)
{
        bool rows = scenario->flags & (TRIAL_ROWS | TRIAL_PREFIXES);
        uint64_t some = rows && every > 1 ? EVERY_ROWS : every;

        shared_count += (scenario->flags & (TRIAL_ROWS | TRIAL_WATCHES)) != 0;
        for (uint32_t target = 0; target < HOSTILE_TARGETS; target++)
                if (has(scenario, target) && !is_passed_by(scenario, target) &&
                        !trial_hostile(scenario, target, first, some, report))
                        return false;
        return true;
}

static void test_a_length_that_changes_after_its_check_leads_nowhere(void)
{
        CHECK_EQ(runs_all(hostile, "damaged", first, 1, 0), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10) : 0;
        every = getenv("SB_TEST_LONG") ? 1 : EVERY;
        RUN(test_a_length_that_changes_after_its_check_leads_nowhere);
        TEST_NOTE("hostile: %llu points, damage before %llu accesses, %s (SB_FIRST=%llu)",
                (unsigned long long)runs_total.points, (unsigned long long)runs_total.branches,
                getenv("SB_TEST_LONG") ? "all of them" : "every fourth, or one in 16",
                (unsigned long long)first);
        return test_end();
}
