/*
 * Every operation, stopped after every instruction. First it is stopped for good: others do the
 * same to the same key and much else, run out of nothing, and `check` is clean. Then it is stopped
 * for a while: others go on, the stopped operation resumes and ends, and all results are those of
 * one of the possible orders.
 *
 * SB_TEST_LONG=1: both kinds of keys everywhere; stopped twice, and public calls once, at every
 * point; beside the reaper in all scenarios. runs.h names other variables.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/harness/faults.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/test.h"

#define EVERY_TWICE      11
#define EVERY_BESIDE     7
#define EVERY_CALL       5 /* public calls: most of their instructions are in private memory */
#define SCENARIOS_BESIDE 3

static uint64_t first;

/* Takes the scenarios in which others act. */
static bool stopped(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->others[0].kind || trial_stall(scenario, report);
}

/* A quick run takes other scenarios each time. */
static bool turn(const struct step_scenario *scenario, uint64_t number)
{
        uint32_t i = 0;

        while (scenario_at(i) != scenario)
                i++;
        return (i + number) % SCENARIOS_BESIDE == 0;
}

static bool twice(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->pause ||
               trial_twice(scenario, first, getenv("SB_TEST_LONG") ? 1 : EVERY_TWICE, report);
}

static bool beside(const struct step_scenario *scenario, struct trial_report *report)
{
        if (!scenario->others[0].kind)
                return true;
        if (getenv("SB_TEST_LONG"))
                return trial_beside(scenario, 6, first, 3, report);
        return !turn(scenario, first) || trial_beside(scenario, 1, first, EVERY_BESIDE, report);
}

static bool reaping(const struct step_scenario *scenario, struct trial_report *report)
{
        if (!scenario->others[0].kind)
                return true;
        if (getenv("SB_TEST_LONG"))
                return trial_reaping(scenario, 6, first, 3, report);
        return !turn(scenario, first / 2) ||
               trial_reaping(scenario, 1, first, EVERY_BESIDE, report);
}

static bool resume(const struct step_scenario *scenario, struct trial_report *report)
{
        bool some = (scenario->flags & TRIAL_USERS) && !getenv("SB_TEST_LONG");

        return !scenario->others[0].kind ||
               trial_resume(scenario, some ? first : 0, some ? EVERY_CALL : 1, report);
}

/* On a full segment a quick run takes one kind of keys. */
static uint32_t full_count(uint32_t keys_count)
{
        return getenv("SB_TEST_LONG") ? keys_count : 1;
}

static void test_stopped_at_every_instruction_each_operation_stops_no_other(void)
{
        CHECK_EQ(runs_all(stopped, "stopped", 0, 2, full_count(2)), 0);
}

static void test_resumed_after_others_went_on_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(runs_all(resume, "resumed", first, getenv("SB_TEST_LONG") ? 2 : 1, full_count(2)),
                0);
}

static void test_stopped_twice_and_resumed_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(runs_all(twice, "stopped twice", first, 1, full_count(1)), 0);
}

static void test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order(void)
{
        CHECK_EQ(runs_all(beside, "stopped beside the reaper", first, 1, full_count(1)), 0);
}

static void test_reaper_stopped_while_others_write_resumes_and_ends_well(void)
{
        CHECK_EQ(runs_all(reaping, "reaper stopped", first, 1, full_count(1)), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        /* Each run takes other points; a few runs together take all of them. */
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10)
                                   : (uint64_t)time(NULL) % 1000;
        RUN(test_stopped_at_every_instruction_each_operation_stops_no_other);
        RUN(test_resumed_after_others_went_on_each_operation_ends_in_some_order);
        RUN(test_stopped_twice_and_resumed_each_operation_ends_in_some_order);
        RUN(test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order);
        RUN(test_reaper_stopped_while_others_write_resumes_and_ends_well);
        TEST_NOTE("stall: points %llu, distinct images %llu, resumed %llu (SB_FIRST=%llu)",
                (unsigned long long)runs_total.points, (unsigned long long)runs_total.images,
                (unsigned long long)runs_total.branches, (unsigned long long)first);
        return test_end();
}
