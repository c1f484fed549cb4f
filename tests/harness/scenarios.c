/* The scenarios; see scenarios.h. Lengths: at 512-byte units blocks have 64 to 256 bytes, so 10 bytes are the least class, 30 the
 * next, 100 a middle one, and 300 and more are large blocks of several units. */
#include "scenarios.h"

#include <string.h>

#define DO(who_, kind_, ...) {.who = (who_), .kind = (kind_), __VA_ARGS__}
#define K(n)   .key = (n)
#define V(t, l) .tag = (t), .len = (l)
/* Enough turns of the engine for a deleted key to go away with all its blocks. */
#define REMOVE DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1), DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1)
/* Two keys by the other one; key 0 by the subject. */
#define TWO_KEYS DO(OTHER, SET, K(1), V(11, 10)), DO(OTHER, SET, K(2), V(12, 30))
#define KEY_0    DO(SUBJECT, SET, K(0), V(10, 10))
/* What others do beside a write to key 0. */
#define OTHERS_WRITE                                                                                        \
        DO(OTHER, GET, K(0)), DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, GET, K(0)), DO(OTHER, SET, K(1), V(21, 14)),       \
                DO(OTHER, SCAN)
#define OTHERS_CAS  DO(OTHER, CAS, K(0), V(20, 12), .expect = THEN), DO(OTHER, GET, K(0)), DO(OTHER, SCAN)
#define OTHERS_CHURN                                                                                        \
        DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, SET, K(0), V(21, 12)), DO(OTHER, DELETE, K(1)), DO(OTHER, SET, K(0), V(22, 12)),\
                DO(OTHER, WORK, .len = 1), DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1), DO(OTHER, SET, K(2), V(23, 30)),  \
                DO(OTHER, WORK, .len = 1)

const struct step_scenario step_scenarios[] = {
        /* ---- set ---- */
        {.name = "set a new key", .key_count = 3, .setup = {TWO_KEYS},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "set a new key on an empty bus", .key_count = 2,
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "overwrite", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "overwrite again and again", .key_count = 2, .setup = {KEY_0, KEY_0, KEY_0},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10)), DO(SUBJECT, SET, K(0), V(31, 10)),
                        DO(SUBJECT, SET, K(0), V(32, 10)), DO(SUBJECT, SET, K(0), V(33, 10))},
                .others = {OTHERS_WRITE}},
        {.name = "overwrite with a grown value", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 100))}, .others = {OTHERS_WRITE}},
        {.name = "overwrite with an empty value", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, SET, K(0), V(0, 0))}, .others = {OTHERS_WRITE}},
        {.name = "overwrite what another one wrote", .key_count = 3, .setup = {TWO_KEYS, DO(OTHER, SET, K(0), V(10, 10))},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "set over a tombstone", .key_count = 3, .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0))},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "set a key that was removed", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0)), REMOVE},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))}, .others = {OTHERS_WRITE}},
        {.name = "set a key while it is being removed", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0))},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10))},
                .others = {REMOVE, DO(OTHER, GET, K(0)), DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, DELETE, K(0)),
                        REMOVE, DO(OTHER, SET, K(1), V(21, 14))}},
        {.name = "set, delete, set", .key_count = 3, .flags = TRIAL_NEW_LIVES, .setup = {TWO_KEYS},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10)), DO(SUBJECT, DELETE, K(0)),
                        DO(SUBJECT, SET, K(0), V(31, 30))},
                .others = {DO(OTHER, GET, K(0)), REMOVE, DO(OTHER, SCAN)}},
        {.name = "set a large value", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 1500))}, .others = {OTHERS_WRITE}},
        {.name = "overwrite a large value", .key_count = 3,
                .setup = {TWO_KEYS, DO(SUBJECT, SET, K(0), V(10, 1500))},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 700)), DO(SUBJECT, SET, K(0), V(31, 1500)),
                        DO(SUBJECT, WORK, .len = 1)},
                .others = {OTHERS_WRITE, DO(OTHER, SET, K(2), V(22, 1000))}},
        {.name = "set a new key that spills", .wish = {.bucket_count = 1}, .key_count = 10,
                .setup = {DO(OTHER, SET, K(1), V(11, 10)), DO(OTHER, SET, K(2), V(12, 10)), DO(OTHER, SET, K(3), V(13, 10)),
                        DO(OTHER, SET, K(4), V(14, 10)), DO(OTHER, SET, K(5), V(15, 10)), DO(OTHER, SET, K(6), V(16, 10)),
                        DO(OTHER, SET, K(7), V(17, 10))},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10)), DO(SUBJECT, SET, K(8), V(31, 10))},
                .others = {DO(OTHER, SET, K(9), V(40, 10)), OTHERS_WRITE}},
        {.name = "set in new classes", .key_count = 4, .setup = {TWO_KEYS},
                .operation = {DO(SUBJECT, SET, K(0), V(30, 10)), DO(SUBJECT, SET, K(1), V(31, 60)),
                        DO(SUBJECT, SET, K(2), V(32, 120)), DO(SUBJECT, SET, K(3), V(33, 190))},
                .others = {OTHERS_WRITE}},
        /* ---- cas ---- */
        {.name = "cas that wins", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, CAS, K(0), V(30, 10), .expect = THEN)}, .others = {OTHERS_CAS}},
        {.name = "cas that is stale", .key_count = 3, .setup = {TWO_KEYS, KEY_0, KEY_0},
                .operation = {DO(SUBJECT, CAS, K(0), V(30, 10), .expect = STALE)}, .others = {OTHERS_CAS}},
        {.name = "create", .key_count = 3, .setup = {TWO_KEYS},
                .operation = {DO(SUBJECT, CAS, K(0), V(30, 10), .expect = NOTHING)},
                .others = {DO(OTHER, CAS, K(0), V(20, 12), .expect = NOTHING), DO(OTHER, GET, K(0)), DO(OTHER, SCAN)}},
        {.name = "create what is there", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, CAS, K(0), V(30, 10), .expect = NOTHING)},
                .others = {DO(OTHER, DELETE, K(0)), DO(OTHER, GET, K(0)), DO(OTHER, SCAN)}},
        {.name = "create over a tombstone", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0))},
                .operation = {DO(SUBJECT, CAS, K(0), V(30, 10), .expect = NOTHING)},
                .others = {REMOVE, DO(OTHER, CAS, K(0), V(20, 12), .expect = NOTHING), DO(OTHER, GET, K(0))}},
        /* ---- delete ---- */
        {.name = "delete", .key_count = 3, .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, DELETE, K(0))},
                .others = {OTHERS_WRITE}},
        {.name = "delete at a revision", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, DELETE, K(0), .expect = THEN)}, .others = {OTHERS_CAS}},
        {.name = "delete what is not there", .key_count = 3, .setup = {TWO_KEYS},
                .operation = {DO(SUBJECT, DELETE, K(0))}, .others = {OTHERS_WRITE}},
        {.name = "delete twice beside another delete", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, DELETE, K(0)), DO(SUBJECT, DELETE, K(0))},
                .others = {DO(OTHER, DELETE, K(0)), REMOVE, DO(OTHER, GET, K(0))}},
        {.name = "delete a large value", .key_count = 2, .flags = TRIAL_NEW_LIVES,
                .setup = {DO(SUBJECT, SET, K(0), V(10, 2000))},
                .operation = {DO(SUBJECT, DELETE, K(0)), DO(SUBJECT, WORK, .len = 1), DO(SUBJECT, WORK, .len = 1)},
                .others = {DO(OTHER, SET, K(1), V(20, 2000)), DO(OTHER, GET, K(0)), DO(OTHER, DELETE, K(1))}},
        /* ---- get ---- */
        {.name = "get", .key_count = 3, .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, GET, K(0))},
                .others = {OTHERS_CHURN}},
        {.name = "get what is not there", .key_count = 3, .setup = {TWO_KEYS}, .operation = {DO(SUBJECT, GET, K(0))},
                .others = {OTHERS_CHURN}},
        {.name = "get what is deleted", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0))}, .operation = {DO(SUBJECT, GET, K(0))},
                .others = {REMOVE, DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, DELETE, K(0)), REMOVE}},
        {.name = "hold", .key_count = 3, .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, HOLD, K(0))},
                .others = {OTHERS_CHURN}},
        {.name = "let go", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, DO(SUBJECT, HOLD, K(0)), DO(OTHER, SET, K(0), V(19, 10))},
                .operation = {DO(SUBJECT, LET_GO, K(0))}, .others = {OTHERS_CHURN}},
        {.name = "get many", .key_count = 4, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, GET_MANY, K(0), .len = 4)},
                .others = {DO(OTHER, SET, K(3), V(24, 10)), OTHERS_CHURN}},
        /* ---- scan ---- */
        {.name = "scan", .key_count = 4, .setup = {TWO_KEYS, KEY_0}, .operation = {DO(SUBJECT, SCAN)},
                .others = {OTHERS_WRITE, DO(OTHER, SET, K(3), V(24, 10))}},
        {.name = "scan while keys go away", .key_count = 4, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(1)), DO(OTHER, DELETE, K(2))},
                .operation = {DO(SUBJECT, SCAN)},
                .others = {REMOVE, DO(OTHER, SET, K(2), V(24, 10)), DO(OTHER, DELETE, K(0)), REMOVE}},
        {.name = "snapshot, read, end", .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, SNAPSHOT)}, .others = {OTHERS_CHURN}},
        {.name = "end a snapshot", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, DO(SUBJECT, SNAPSHOT), DO(OTHER, SET, K(0), V(19, 10)), DO(OTHER, DELETE, K(1))},
                .operation = {DO(SUBJECT, SNAPSHOT_END)}, .others = {DO(OTHER, WORK, .len = 1), DO(OTHER, SCAN)}},
        /* ---- memory ---- */
        {.name = "memory work of a writer", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, KEY_0, KEY_0, DO(SUBJECT, SET, K(1), V(15, 40)), DO(SUBJECT, SET, K(2), V(16, 40))},
                .operation = {DO(SUBJECT, WORK), DO(SUBJECT, WORK), DO(SUBJECT, WORK, .len = 1)},
                .others = {OTHERS_WRITE}},
        {.name = "memory work after deletes", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(SUBJECT, DELETE, K(0)), DO(SUBJECT, DELETE, K(1))},
                .operation = {DO(SUBJECT, WORK), DO(SUBJECT, WORK, .len = 1), DO(SUBJECT, WORK, .len = 1)},
                .others = {DO(OTHER, GET, K(0)), DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, SCAN), DO(OTHER, WORK, .len = 1)}},
        {.name = "memory work beside an open snapshot", .key_count = 3,
                .setup = {TWO_KEYS, DO(OTHER, SNAPSHOT), KEY_0, KEY_0, DO(SUBJECT, SET, K(1), V(15, 40))},
                .operation = {DO(SUBJECT, WORK), DO(SUBJECT, WORK, .len = 1)},
                .others = {DO(OTHER, SNAPSHOT_READ), OTHERS_WRITE}},
        {.name = "sweep", .key_count = 3, .setup = {TWO_KEYS, KEY_0, KEY_0, DO(OTHER, SET, K(1), V(15, 40)), DO(ENGINE, SAFE)},
                .operation = {DO(SUBJECT, SWEEP), DO(SUBJECT, SWEEP)}, .others = {OTHERS_WRITE}},
        {.name = "publish safe", .key_count = 3, .setup = {TWO_KEYS, KEY_0, KEY_0},
                .operation = {DO(SUBJECT, SAFE)}, .others = {OTHERS_WRITE, DO(OTHER, SAFE)}},
        {.name = "publish safe, as the engine", .key_count = 3, .setup = {TWO_KEYS, KEY_0, KEY_0},
                .operation = {DO(ENGINE, SAFE)}, .others = {OTHERS_WRITE, DO(OTHER, SAFE)}},
        {.name = "more guards", .wish = {.guard_inline = 12}, .key_count = 3, .setup = {TWO_KEYS, KEY_0},
                .operation = {DO(SUBJECT, GROW_GUARDS, .len = 13), DO(SUBJECT, GET, K(0))}, .others = {OTHERS_WRITE}},
        /* ---- the engine ---- */
        {.name = "the engine removes keys", .key_count = 3, .flags = TRIAL_NEW_LIVES,
                .setup = {TWO_KEYS, KEY_0, DO(OTHER, DELETE, K(0)), DO(OTHER, DELETE, K(1))},
                .operation = {DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1), DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1)},
                .others = {DO(OTHER, GET, K(0)), DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, SCAN)}},
        {.name = "the engine removes a key that spilled", .wish = {.bucket_count = 1}, .key_count = 10,
                .flags = TRIAL_NEW_LIVES,
                .setup = {DO(OTHER, SET, K(1), V(11, 10)), DO(OTHER, SET, K(2), V(12, 10)), DO(OTHER, SET, K(3), V(13, 10)),
                        DO(OTHER, SET, K(4), V(14, 10)), DO(OTHER, SET, K(5), V(15, 10)), DO(OTHER, SET, K(6), V(16, 10)),
                        DO(OTHER, SET, K(7), V(17, 10)), DO(OTHER, SET, K(0), V(18, 10)), DO(OTHER, SET, K(8), V(19, 10)),
                        DO(OTHER, DELETE, K(0)), DO(OTHER, DELETE, K(3))},
                .operation = {DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1), DO(ENGINE, TICK), DO(ENGINE, WORK, .len = 1)},
                .others = {DO(OTHER, GET, K(0)), DO(OTHER, SET, K(0), V(20, 12)), DO(OTHER, SET, K(9), V(21, 10)), DO(OTHER, SCAN)}},
        {.name = "the engine works", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, KEY_0, KEY_0, DO(OTHER, SET, K(1), V(15, 40))},
                .operation = {DO(ENGINE, TICK), DO(ENGINE, TICK), DO(ENGINE, TICK)}, .others = {OTHERS_WRITE}},
        {.name = "the engine attaches", .key_count = 3, .setup = {TWO_KEYS},
                .operation = {DO(ENGINE, ATTACH, K(NEWCOMER))}, .others = {OTHERS_WRITE}},
        {.name = "the engine reaps", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, KEY_0, DO(SUBJECT, HOLD, K(0)), DO(SUBJECT, SNAPSHOT), DO(SUBJECT, GROW_GUARDS, .len = 13)},
                .operation = {DO(ENGINE, REAP, K(SUBJECT))}, .others = {OTHERS_WRITE}},
        {.name = "the engine checks", .key_count = 3, .setup = {TWO_KEYS, KEY_0, KEY_0},
                .operation = {DO(ENGINE, VALIDATE)}, .others = {OTHERS_WRITE}},
        {.name = "detach", .key_count = 3,
                .setup = {TWO_KEYS, KEY_0, KEY_0, DO(SUBJECT, HOLD, K(0)), DO(SUBJECT, SNAPSHOT), DO(SUBJECT, GROW_GUARDS, .len = 13),
                        DO(SUBJECT, SET, K(1), V(18, 40))},
                .operation = {DO(SUBJECT, DETACH)}, .others = {OTHERS_WRITE}},
};
const uint32_t step_scenario_count = sizeof(step_scenarios) / sizeof(step_scenarios[0]);

const struct step_scenario *scenario_find(const char *name)
{
        for (uint32_t i = 0; i < step_scenario_count; i++)
                if (strcmp(step_scenarios[i].name, name) == 0)
                        return &step_scenarios[i];
        return NULL;
}
