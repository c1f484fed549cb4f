/*
 * Every operation, stopped after every instruction. First for good: others do the same to the same
 * key and much else, run out of nothing, and `check` is clean. Then for a while: others go on, the
 * stopped one resumes and ends, and all results are those of one of the possible orders.
 *
 * SB_SCENARIO=name: that one alone. SB_TEST_LONG=1: resumed at every point, not at every
 * EVERY_QUICK-th.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/harness/faults.h"
#include "tests/harness/scenarios.h"
#include "tests/harness/test.h"

#define EVERY_QUICK      13
#define EVERY_TWICE      31
#define EVERY_BESIDE     23
#define SCENARIOS_BESIDE 3

static struct trial_report total;
static uint64_t first;

static bool run_one(bool (*trial)(const struct step_scenario *, struct trial_report *),
        const char *what, const struct step_scenario *scenario)
{
        struct trial_report report = {0};
        bool passed = trial(scenario, &report);

        if (!passed)
                printf("# %s: %s\n", what, report.failure);
        if (getenv("SB_VERBOSE"))
                printf("# %s: %s: points %llu, distinct images %llu, resumed %llu\n", what,
                        scenario->name, (unsigned long long)report.points,
                        (unsigned long long)report.images, (unsigned long long)report.branches);
        total.points += report.points;
        total.images += report.images;
        total.branches += report.branches;
        return passed;
}

/* Each scenario with both kinds of keys, or with one, which alternates. */
static uint32_t run_all(bool (*trial)(const struct step_scenario *, struct trial_report *),
        const char *what, uint64_t keys_first, uint32_t keys_count)
{
        const char *only = getenv("SB_SCENARIO");
        uint32_t failures = 0;

        for (uint32_t i = 0; i < step_scenario_count; i++) {
                if (!step_scenarios[i].others[0].kind ||
                        (only && strcmp(only, step_scenarios[i].name) != 0))
                        continue;
                /* What takes ten times as many instructions as others: one, in a quick run. */
                uint32_t count = (step_scenarios[i].flags & TRIAL_FULL) && !getenv("SB_TEST_LONG")
                                         ? 1
                                         : keys_count;

                for (uint32_t keys = 0; keys < count; keys++) {
                        scene_use_long_keys((keys_first + i + keys) & 1);
                        failures += !run_one(trial, what, &step_scenarios[i]);
                }
        }
        return failures;
}

static bool twice(const struct step_scenario *scenario, struct trial_report *report)
{
        return !scenario->pause ||
               trial_twice(scenario, first, getenv("SB_TEST_LONG") ? 1 : EVERY_TWICE, report);
}

static bool beside(const struct step_scenario *scenario, struct trial_report *report)
{
        if (getenv("SB_TEST_LONG"))
                return trial_beside(scenario, 6, first, 3, report);
        /* In a quick run, other scenarios each time. */
        return ((uint64_t)(scenario - step_scenarios) + first) % SCENARIOS_BESIDE != 0 ||
               trial_beside(scenario, 1, first, EVERY_BESIDE, report);
}

static bool reaping(const struct step_scenario *scenario, struct trial_report *report)
{
        if (getenv("SB_TEST_LONG"))
                return trial_reaping(scenario, 6, first, 3, report);
        return ((uint64_t)(scenario - step_scenarios) + first / 2) % SCENARIOS_BESIDE != 0 ||
               trial_reaping(scenario, 1, first, EVERY_BESIDE, report);
}

static bool resume(const struct step_scenario *scenario, struct trial_report *report)
{
        return trial_resume(scenario, first, getenv("SB_TEST_LONG") ? 1 : EVERY_QUICK, report);
}

static void test_stopped_at_every_instruction_each_operation_stops_nobody(void)
{
        CHECK_EQ(run_all(trial_stall, "stopped", 0, 2), 0);
}

static void test_resumed_after_others_went_on_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(run_all(resume, "resumed", 0, 2), 0);
}

static void test_stopped_twice_and_resumed_each_operation_ends_in_some_order(void)
{
        CHECK_EQ(run_all(twice, "stopped twice", first, 1), 0);
}

static void test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order(void)
{
        CHECK_EQ(run_all(beside, "stopped beside the reaper", first, 1), 0);
}

static void test_reaper_stopped_while_others_write_resumes_and_ends_well(void)
{
        CHECK_EQ(run_all(reaping, "reaper stopped", first, 1), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        /* Other points in each run: over a few runs, all of them. */
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10)
                                   : (uint64_t)time(NULL) % 1000;
        RUN(test_stopped_at_every_instruction_each_operation_stops_nobody);
        RUN(test_resumed_after_others_went_on_each_operation_ends_in_some_order);
        RUN(test_stopped_twice_and_resumed_each_operation_ends_in_some_order);
        RUN(test_stopped_while_a_dead_one_is_reaped_writes_end_in_some_order);
        RUN(test_reaper_stopped_while_others_write_resumes_and_ends_well);
        TEST_NOTE("stall: points %llu, distinct images %llu, resumed %llu (SB_FIRST=%llu)",
                (unsigned long long)total.points, (unsigned long long)total.images,
                (unsigned long long)total.branches, (unsigned long long)first);
        return test_end();
}
