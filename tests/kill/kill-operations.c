/*
 * Every operation, killed after every instruction: then the reaper, then `check`, then a newcomer,
 * which finds the operation wholly done or not at all, does everything to every key, and leaves no
 * block behind. After that the reaper itself is killed after every instruction, at images that
 * these kills left.
 *
 * SB_TEST_LONG=1: all images in the trials of the reaper, and all stops. SB_FIRST=n: a quick run
 * takes other stops. runs.h names other variables.
 */
#include <stdlib.h>

#include "tests/harness/faults.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/test.h"

#define REAPER_IMAGES_QUICK 24
#define REAPER_IMAGES_ADOPT 6
#define PREFIXES_SHARE      4 /* of watches of prefixes, a quick run takes one in so many */
#define REAPER_IMAGES_LONG  UINT32_MAX
#define EVERY_LATE          8

static uint64_t first;

/* Watches that an engine worked on when it died: it takes a whole adoption for each image. */
static bool adopts(const struct step_scenario *scenario)
{
        return (scenario->flags & TRIAL_WATCHES) && scenario->operation[0].actor == ENGINE;
}

static bool reaper(const struct step_scenario *scenario, struct trial_report *report)
{
        uint32_t images = adopts(scenario) ? REAPER_IMAGES_ADOPT : REAPER_IMAGES_QUICK;

        /* A full segment takes ten times as many instructions as others. */
        if ((scenario->flags & TRIAL_FULL) && !getenv("SB_TEST_LONG"))
                return true;
        if (getenv("SB_TEST_LONG"))
                return trial_reaper(scenario, REAPER_IMAGES_LONG, report);
        if (scenario->flags & TRIAL_PREFIXES)
                images /= PREFIXES_SHARE;
        return trial_reaper(scenario, images, report);
}

/* A quick run takes the scenarios that ask for it by TRIAL_LATE. */
static bool late(const struct step_scenario *scenario, struct trial_report *report)
{
        bool all = getenv("SB_TEST_LONG");

        if (!scenario->others[0].kind || !(all || (scenario->flags & TRIAL_LATE)))
                return true;
        return trial_late(scenario, first, all ? 1 : EVERY_LATE, report);
}

static void test_killed_at_every_instruction_each_operation_is_whole_or_nothing(void)
{
        CHECK_EQ(runs_all(trial_kill, "killed", 0, 2, 1), 0);
}

static void test_reaper_killed_at_every_instruction_is_finished_by_the_next(void)
{
        CHECK_EQ(runs_all(reaper, "reaper killed", 0, getenv("SB_TEST_LONG") ? 2 : 1, 1), 0);
}

/* Others go on while the operation is stopped; it resumes, and is killed later. */
static void test_killed_later_than_others_went_on_each_operation_is_whole_or_nothing(void)
{
        uint64_t before = runs_total.branches;

        CHECK_EQ(runs_all(late, "killed later", first, 1, 0), 0);
        TEST_NOTE("killed later: others came at %llu stops, %s (SB_FIRST=%llu)",
                (unsigned long long)(runs_total.branches - before),
                getenv("SB_TEST_LONG") ? "all of them" : "one in 8 of the scenarios marked for it",
                (unsigned long long)first);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10) : 0;
        RUN(test_killed_at_every_instruction_each_operation_is_whole_or_nothing);
        RUN(test_killed_later_than_others_went_on_each_operation_is_whole_or_nothing);
        RUN(test_reaper_killed_at_every_instruction_is_finished_by_the_next);
        runs_note("kill");
        return test_end();
}
