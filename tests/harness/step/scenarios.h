/* The scenarios that kill and stall tests try; trial.h says what they do with them. */
#ifndef SB_TESTS_SCENARIOS_H
#define SB_TESTS_SCENARIOS_H

#include "tests/harness/step/scene.h"

#define TRIAL_SETUP_MAX     40
#define TRIAL_OPERATION_MAX 6
#define TRIAL_OTHERS_MAX    12

/* Revisions may differ from a story's, because the key may have begun a new life meanwhile. They
 * grow all the same. */
#define TRIAL_NEW_LIVES 1u
/* The segment is nearly full: a write may say so, a delete may not. */
#define TRIAL_FULL 2u
/* An observer reads at the stable cut without a mark: no version that it needs may go. */
#define TRIAL_OBSERVED 4u
/* Eras soon reach their end and begin again. */
#define TRIAL_ERA_WRAPS 8u
/* What others do in the middle makes the operation take other ways: for trial_late in a quick run.
 */
#define TRIAL_LATE 16u
/* The clients make the public calls. */
#define TRIAL_USERS 32u
/* All keys have the same home, the first of two buckets: beyond seven they are in the other. */
#define TRIAL_ONE_HOME 64u

/* Each unit holds a version or two: a large value needs that some move. The segment is larger than
 * wished, if the setup needs it, so that no run is left. When all is over, all units are there
 * again. */
#define TRIAL_ROWS 128u
/* There: the last so many versions of this key are kept. The cut of scene.marked_cut is read in it
 * by that rule, as long as it has the version that it had then. */
#define RULED_KEY   0
#define RULED_COUNT 2

/* A client watches; a prefix. */
#define TRIAL_WATCHES  256u
#define TRIAL_PREFIXES 512u
/* A log stands: when all is over, one more batch has all that is there, and so has another log's.
 */
#define TRIAL_LOGS 1024u

struct step_scenario {
        const char *name;
        struct sb_geometry_wish wish; /* zero: the tiny one */
        uint32_t key_count, flags;
        /* trial_twice: how many of the others' acts come at the first stop; 0: not for that trial
         */
        uint32_t pause;
        struct act setup[TRIAL_SETUP_MAX], operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
};

/* Scenarios with single keys, with transactions, by the public calls, with watches of keys, and of
 * prefixes, and with a log. */
extern const struct step_scenario step_scenarios[], step_scenarios_txn[], step_scenarios_users[],
        step_scenarios_watch[], step_scenarios_prefix[], step_scenarios_log[];
extern const uint32_t step_scenario_count, step_scenario_txn_count, step_scenario_users_count,
        step_scenario_watch_count, step_scenario_prefix_count, step_scenario_log_count;

/* Number @i of all scenarios, or NULL. */
const struct step_scenario *scenario_at(uint32_t i);
/* The scenario with this name, or NULL. */
const struct step_scenario *scenario_find(const char *name);

/* The tables are written with these. */
#define DO(actor_, kind_, ...)                                                                     \
        {                                                                                          \
                .actor = (actor_), .kind = (kind_), __VA_ARGS__                                    \
        }
#define K(n)    .key = (n)
#define V(t, l) .tag = (t), .len = (l)
/* Enough turns of the engine to remove a deleted key with all its blocks. */
#define REMOVE                                                                                     \
        DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1), DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1)
/* The other client makes two keys; the subject makes key 0. */
#define TWO_KEYS DO(OTHER, SET, K(1), V(11, 10)), DO(OTHER, SET, K(2), V(12, 30))
#define KEY_0    DO(SUBJECT, SET, K(0), V(10, 10))
/* The version lies in the other client's slab, so that scene_poison() overwrites what is freed
 * there. */
#define OTHERS_KEY_0 DO(OTHER, SET, K(0), V(10, 10))

#endif
