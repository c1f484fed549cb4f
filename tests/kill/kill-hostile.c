/*
 * Every operation beside hostile neighbours (tests/harness/step/hostile.h): lengths in shared
 * memory are written over before one of its accesses to it.
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
#define EVERY_ROWS 32 /* where versions move, one in 32: there are many */

static uint64_t first;
static uint64_t every;

/* The scenario's operation, with each kind of damage. */
static bool hostile(const struct step_scenario *scenario, struct trial_report *report)
{
        uint64_t some = scenario->flags & TRIAL_ROWS && every > 1 ? EVERY_ROWS : every;

        for (uint32_t target = 0; target < HOSTILE_TARGETS; target++)
                if (!trial_hostile(scenario, target, first, some, report))
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
                getenv("SB_TEST_LONG") ? "all of them" : "every fourth", (unsigned long long)first);
        return test_end();
}
