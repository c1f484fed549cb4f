/*
 * Every operation, killed after every instruction: the reaper, then `check`, then a newcomer who finds it wholly done or not at all,
 * does everything to every key, and leaves no block behind. Then the reaper itself, killed after every instruction at images that these
 * kills left.
 *
 * Arguments: none; or a scenario's name. SB_TEST_LONG=1: all images of the reaper's trials.
 */
#include <stdlib.h>

#include "tests/harness/faults.h"
#include "tests/harness/scenarios.h"
#include "tests/harness/test.h"

#define REAPER_IMAGES_QUICK 2
#define REAPER_IMAGES_LONG  256

static struct trial_report total;

static uint32_t run_all(bool (*trial)(const struct step_scenario *, struct trial_report *), const char *what)
{
        const char *only = getenv("SB_SCENARIO");
        uint32_t failures = 0;

        for (uint32_t i = 0; i < step_scenario_count; i++) {
                struct trial_report report = {0};

                if (only && strcmp(only, step_scenarios[i].name) != 0)
                        continue;
                if (!trial(&step_scenarios[i], &report)) {
                        failures++;
                        printf("# %s: %s\n", what, report.failure);
                }
                if (getenv("SB_VERBOSE"))
                        printf("# %s: %s: points %llu, distinct images %llu\n", what, step_scenarios[i].name,
                                (unsigned long long)report.points, (unsigned long long)report.images);
                total.points += report.points;
                total.images += report.images;
        }
        return failures;
}

static bool reaper(const struct step_scenario *scenario, struct trial_report *report)
{
        return trial_reaper(scenario, getenv("SB_TEST_LONG") ? REAPER_IMAGES_LONG : REAPER_IMAGES_QUICK, report);
}

static void test_killed_at_every_instruction_each_operation_is_whole_or_nothing(void)
{
        CHECK_EQ(run_all(trial_kill, "killed"), 0);
}

static void test_reaper_killed_at_every_instruction_is_finished_by_the_next(void)
{
        CHECK_EQ(run_all(reaper, "reaper killed"), 0);
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
