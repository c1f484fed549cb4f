/*
 * Every operation, stopped after every instruction. First it is stopped for good: others do the
 * same to the same key and much else, run out of nothing, and `check` is clean. Then it is stopped
 * for a while: others go on, the stopped operation resumes and ends, and all results are those of
 * one of the possible orders. trial.h says which instructions that takes.
 *
 * SB_TEST_LONG=1: both kinds of keys everywhere, the reaper at more images, and all stops. A quick
 * run resumes at every fifth stop, and where versions move at every tenth one, beside a reaper
 * at every second one; each run begins with another one, which it names. SB_FIRST=n: with this one.
 * runs.h names other variables.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness/faults.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/test.h"

#define REAPER_IMAGES_QUICK 1
#define REAPER_IMAGES_LONG  24
#define EVERY_REAPER        2
#define EVERY_ROWS          10
#define EVERY_OTHERS        5
#define EVERY_LOGS          3 /* of two stops, each */

static uint64_t first;

static bool is_long(void)
{
        return getenv("SB_TEST_LONG");
}

static uint32_t reaper_images(void)
{
        return is_long() ? REAPER_IMAGES_LONG : REAPER_IMAGES_QUICK;
}

static uint64_t every_reaper(void)
{
        return is_long() ? 1 : EVERY_REAPER;
}

/* Each takes the scenarios in which others act. */
static bool stopped(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->others[0].kind || trial_stall(scenario, report);
}

static bool resume(const struct step_scenario *scenario, struct trial_report *report)
{
        uint64_t every = is_long() ? 1 : scenario->flags & TRIAL_ROWS ? EVERY_ROWS : EVERY_OTHERS;

        return !scenario->others[0].kind || trial_resume(scenario, first % every, every, report);
}

static bool twice(const struct step_scenario *scenario, struct trial_report *report)
{
        uint64_t every = (scenario->flags & TRIAL_LOGS) && !is_long() ? EVERY_LOGS : 1;

        return !scenario->pause || trial_twice(scenario, first % every, every, report);
}

static bool beside(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->others[0].kind || trial_beside(scenario, reaper_images(),
                                                    first % every_reaper(), every_reaper(), report);
}

static bool reaping(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->others[0].kind || trial_reaping(scenario, reaper_images(),
                                                    first % every_reaper(), every_reaper(), report);
}

/* How many kinds of keys are tried. */
static uint32_t kinds(bool both)
{
        return both || is_long() ? 2 : 1;
}

static void test_stopped_at_every_instruction_each_operation_stops_no_other(void)
{
        CHECK_EQ(runs_all(stopped, "stopped", 0, 2, kinds(false)), 0);
}

static void test_resumed_after_others_went_on_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(runs_all(resume, "resumed", 0, 2, kinds(false)), 0);
}

static void test_stopped_twice_and_resumed_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(runs_all(twice, "stopped twice", 0, 2, kinds(true)), 0);
}

static void test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order(void)
{
        CHECK_EQ(runs_all(beside, "stopped beside the reaper", 0, kinds(false), kinds(false)), 0);
}

static void test_reaper_stopped_while_others_write_resumes_and_ends_well(void)
{
        CHECK_EQ(runs_all(reaping, "reaper stopped", 0, kinds(false), kinds(false)), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        /* The whole tree of a day's runs takes them all. */
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10) : (uint64_t)getpid();
        RUN(test_stopped_at_every_instruction_each_operation_stops_no_other);
        RUN(test_resumed_after_others_went_on_each_operation_ends_in_some_order);
        RUN(test_stopped_twice_and_resumed_each_operation_ends_in_some_order);
        RUN(test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order);
        RUN(test_reaper_stopped_while_others_write_resumes_and_ends_well);
        runs_note("stall");
        TEST_NOTE("stall: resumed at %llu stops (SB_FIRST=%llu)",
                (unsigned long long)runs_total.branches, (unsigned long long)first);
        return test_end();
}
