/*
 * Every operation, killed after every instruction: the reaper, then `check`, then a newcomer who
 * finds it wholly done or not at all, does everything to every key, and leaves no block behind.
 * Then the reaper itself, killed after every instruction at images that these kills left.
 *
 * SB_SCENARIO=name: that one alone. SB_TEST_LONG=1: all images in the trials of the reaper.
 * SB_VERBOSE=1: counts of each.
 */
#include <stdlib.h>

#include "tests/harness/faults.h"
#include "tests/harness/scenarios.h"
#include "tests/harness/test.h"

#define REAPER_IMAGES_QUICK 1
#define REAPER_IMAGES_LONG  256

static struct trial_report total;

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
                if (only && strcmp(only, step_scenarios[i].name) != 0)
                        continue;
                for (uint32_t keys = 0;
                        keys < ((step_scenarios[i].flags & TRIAL_FULL) ? 1 : keys_count); keys++) {
                        scene_use_long_keys((keys_first + i + keys) & 1);
                        failures += !run_one(trial, what, &step_scenarios[i]);
                }
        }
        return failures;
}

static bool reaper(const struct step_scenario *scenario, struct trial_report *report)
{
        /* Ten times as many instructions as others. */
        if ((scenario->flags & TRIAL_FULL) && !getenv("SB_TEST_LONG"))
                return true;
        return trial_reaper(scenario,
                getenv("SB_TEST_LONG") ? REAPER_IMAGES_LONG : REAPER_IMAGES_QUICK, report);
}

static void test_killed_at_every_instruction_each_operation_is_whole_or_nothing(void)
{
        CHECK_EQ(run_all(trial_kill, "killed", 0, 2), 0);
}

static void test_reaper_killed_at_every_instruction_is_finished_by_the_next(void)
{
        CHECK_EQ(run_all(reaper, "reaper killed", 0, getenv("SB_TEST_LONG") ? 2 : 1), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_killed_at_every_instruction_each_operation_is_whole_or_nothing);
        RUN(test_reaper_killed_at_every_instruction_is_finished_by_the_next);
        TEST_NOTE("kill: points %llu, distinct images %llu", (unsigned long long)total.points,
                (unsigned long long)total.images);
        return test_end();
}
