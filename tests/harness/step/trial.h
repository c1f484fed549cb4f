/*
 * Trials: one scenario, with the stepped client killed, or stopped, or stopped and resumed, after
 * every instruction.
 *
 * No scenario says what is right. Right is what the same acts do without interruption, in each
 * order that was possible: story k is "the first k acts of the operation, then the others' acts,
 * then the rest". A killed or stopped operation must look like one of these stories, each later
 * point like the same or a later one, and the point after the last instruction like the last: the
 * operation has happened wholly or not at all, and is never taken back.
 *
 * Others come at points before an instruction that loads or stores in the segment: before any other
 * one they find and leave what they find and leave behind it. These points are the stops.
 *
 *      trial_kill     at each distinct image: the engine reaps, check is clean, a newcomer finds
 *                     what a story says and does everything to every key, and when it has deleted
 *                     all keys no block is left
 *      trial_late     as trial_kill, but the others' acts come first, at an earlier point
 *      trial_stall    at each distinct image: the others' acts end and look like a story, hundreds
 *                     of writes more find memory, check is clean; then the stopped client is
 *                     reaped, and no block is left
 *      trial_resume   at points: the others' acts, then the operation goes on to its end; results
 *                     and facts are a story's, check is clean, no block is left
 *      trial_reaper   at some or all distinct images of a kill: the reaping, or a new engine's
 *                     adoption, is itself killed after every instruction, and a new engine reaps
 *                     both
 *      trial_beside   at some distinct images of a kill: another client's writes are stopped at
 *                     points, there the dead client is reaped, and the writes resume
 *      trial_reaping  the other way round: the reaping is stopped at points, others write and
 *                     work, and it resumes
 *      trial_twice    as trial_resume, with two stops, and some of the others' acts at each
 */
#ifndef SB_TESTS_TRIAL_H
#define SB_TESTS_TRIAL_H

#include "tests/harness/step/story.h"

/* The operation's acts, for the stepper. */
void trial_operation(void *context);

/* Each returns whether it passed, and adds to the counts. @every, @first: stops first, first +
 * every, ... */
bool trial_kill(const struct step_scenario *scenario, struct trial_report *report);
bool trial_late(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report);
bool trial_stall(const struct step_scenario *scenario, struct trial_report *report);
bool trial_resume(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report);
bool trial_twice(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report);
bool trial_beside(const struct step_scenario *scenario, uint32_t image_limit, uint64_t first,
        uint64_t every, struct trial_report *report);
bool trial_reaping(const struct step_scenario *scenario, uint32_t image_limit, uint64_t first,
        uint64_t every, struct trial_report *report);
bool trial_reaper(
        const struct step_scenario *scenario, uint32_t image_limit, struct trial_report *report);

#endif
