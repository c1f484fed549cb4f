/*
 * Trials: one scenario, with the stepped peer killed, or stopped, or stopped and resumed, after
 * every instruction.
 *
 * What is right is not written down per scenario. It is taken from the same acts done without
 * interruption, in each order that could have been: story k is "the first k acts of the operation,
 * then the others' acts, then the rest". A killed or stopped operation must look like one of these
 * stories, each later point like the same or a later one, and the point behind the last instruction
 * like the last: wholly or not at all, and never taken back.
 *
 *      trial_kill    at each distinct image: the engine reaps, check is clean, a newcomer finds
 * what a story says, does everything to every key, and when all is deleted no block is left
 *      trial_late    as trial_kill, but the others' acts come first, at an earlier point
 *      trial_stall   at each distinct image: the others' acts end and look like a story; hundreds
 * of writes more find memory; check is clean; then the stopped one is reaped, and no block is left
 *      trial_resume  at points: the others' acts, then the operation goes on to its end: results
 * and facts are a story's; check is clean; no block is left trial_reaper  at some or all distinct
 * images of a kill: the reaping, or a new engine's adoption, is itself killed after every
 *                    instruction, and a new engine reaps both
 *      trial_beside  at some distinct images of a kill: another one's writes are stopped at points,
 * there the dead one is reaped, and they resume trial_reaping the other way round: the reaping is
 * stopped at points, others write and work, and it resumes trial_twice   like trial_resume, with
 * two stops, the others' acts shared out
 */
#ifndef SB_TESTS_TRIAL_H
#define SB_TESTS_TRIAL_H

#include "scene.h"

#define TRIAL_SETUP_MAX     32
#define TRIAL_OPERATION_MAX 6
#define TRIAL_OTHERS_MAX    12

/* Revisions may differ from a story's, because the key may have begun a new life meanwhile. They
 * still grow. */
#define TRIAL_NEW_LIVES 1u
/* The segment is nearly full: writes may say so, deletes may not. */
#define TRIAL_FULL 2u
/* Somebody reads at `safe` without a mark: nothing that he needs may go. */
#define TRIAL_OBSERVED 4u
/* Eras run over their end soon. */
#define TRIAL_ERA_WRAPS 8u
/* What others do in the middle of it makes it take other ways: for trial_late in a quick run. */
#define TRIAL_LATE 16u

struct step_scenario {
        const char *name;
        struct sb_geometry_wish wish; /* zero: the tiny one */
        uint32_t key_count, flags;
        /* trial_twice: so many of the others' acts come at the first stop; 0: not for that trial */
        uint32_t pause;
        struct act setup[TRIAL_SETUP_MAX], operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
};

struct trial_report {
        uint64_t points, images, branches;
        char failure[640]; /* empty: passed */
};

/* Each returns whether it passed, and adds to the counts. @every, @first: points first, first +
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
