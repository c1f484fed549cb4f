/* Scenarios of watches; see lists.h and watcher.c. Each line as in lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define PUT_A    {OP_PUT, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define STABLE   {OP_STABLE, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define TICK     {OP_TICK, KEY_A}
#define WATCH_A  {OP_WATCH, KEY_A}
#define NEXT     {OP_NEXT, KEY_A}
#define FIRST    {OP_NEXT, KEY_A, .way = WAY_SHORT}
#define SLEEP    {OP_SLEEP, KEY_A}
#define WAIT     {OP_SLEEP, KEY_A, .way = WAY_MANY}
#define STAND    {OP_SLEEP, KEY_A, .way = WAY_TURN}
#define UNWATCH  {OP_UNWATCH, KEY_A}
#define PRESS    {OP_PRESS, KEY_A}

#define MOVE_A   {OP_MOVE, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define PAST_A   {OP_WATCH, KEY_A, .way = WAY_PAST}
#define DEEP_A   {OP_WATCH, KEY_A, .way = WAY_SHORT}
#define DROPS_A  {OP_WATCH, KEY_A, .way = WAY_BACK}
#define CUT_A    {OP_TXN, KEY_A, {.reads = KA}}
#define KA 1u
#define KB 2u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}

static const struct world_case watches[] = {
        /* A watch begins. */
        {"watch: joins beside a set", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(SET_A)}}, 2, 2},
        {"watch: joins beside a set, the long way", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(PUT_A)}}, 2, 2},
        {"watch: joins beside two sets and work", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(SET_A, SET_A, WORK)}}, 2, 2},
        {"watch: joins beside a make", {START_EMPTY, {OPS(WATCH_A, NEXT), OPS(SET_A)}}, 2, 2},
        {"watch: two join a key that is not there", {START_EMPTY, {OPS(WATCH_A, NEXT), OPS(WATCH_A, NEXT)}}, 2, 2},
        {"watch: joins beside a delete and a removal", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(DELETE_A, WORK, WORK)}}, 2, 2},
        {"watch: joins beside a removal", {START_DELETED, {OPS(WATCH_A, NEXT), OPS(WORK, WORK)}, .setup_by = 1}, 2, 2},
        {"watch: joins beside a removal and a set", {START_DELETED, {OPS(WATCH_A, NEXT), OPS(WORK, WORK), OPS(SET_A)},
                .setup_by = 1}, 3, 2},
        {"watch: two join, and a set", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(WATCH_A, NEXT), OPS(SET_A)}}, 3, 2},
        {"watch: two more join, and a set", {START_VALUE, {OPS(NEXT), OPS(WATCH_A, NEXT), OPS(WATCH_A, NEXT), OPS(SET_A)},
                .watched = 1}, 4, 2},
        {"watch: joins beside a commit", {START_PAIR, {OPS(WATCH_A, NEXT), OPS(TXN(.writes = KA | KB))}}, 2, 2, .whole = true},
        {"watch: joins beside a commit over what a cut needs", {START_KEPT, {OPS(WATCH_A, NEXT), OPS(TXN(.writes = KA), WORK)},
                .focus = FOCUS_CUTS}, 2, 3},
        {"watch: joins where memory is full", {START_FULL, {OPS(WATCH_A, NEXT), OPS(SET_A)}, .unit_count = 8}, 2, 2},
        {"watch: killed while it joins", {START_VALUE, {OPS(WATCH_A), OPS(WATCH_A, NEXT)}}, 2, 0, .crashes = 1, .crash_mask = 1,
                .reaper = true},
        /* It ends, and the engine clears. */
        {"watch: joins beside a clearing", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(WATCH_A, NEXT)}, .engine = true, .ring = RING_LEFT},
                2, 2, .whole = true},
        {"watch: joins beside a clearing and a set", {START_VALUE, {OPS(SWEEP), OPS(WATCH_A, NEXT), OPS(SET_A)}, .engine = true,
                .ring = RING_LEFT}, 3, 2},
        {"watch: leaves and joins beside a clearing", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(UNWATCH, WATCH_A, NEXT), OPS(SET_A)},
                .engine = true, .watched = 2}, 3, 2},
        {"watch: two join beside a clearing", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(WATCH_A, NEXT), OPS(WATCH_A, NEXT)}, .engine = true,
                .ring = RING_LEFT}, 3, 2},
        {"watch: killed clearing", {START_VALUE, {OPS(SWEEP), OPS(WATCH_A, NEXT)}, .engine = true, .ring = RING_LEFT}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"watch: leaves beside a delete and a removal", {START_VALUE, {OPS(SWEEP, TICK), OPS(NEXT, UNWATCH), OPS(DELETE_A, WORK, WORK)},
                .engine = true, .watched = 2}, 3, 2},
        /* It reads. */
        {"watch: reads beside sets", {START_VALUE, {OPS(NEXT, NEXT), OPS(SET_A, SET_A)}, .watched = 1}, 2, 2},
        {"watch: reads beside a set and a prune", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .watched = 1, .behind = 2}, 2, 2},
        {"watch: lapped beside sets and prunes", {START_VALUE, {OPS(NEXT), OPS(SET_A, SET_A, WORK, SET_A, WORK)}, .watched = 1,
                .behind = 2}, 2, 2},
        {"watch: reads beside two writers", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK), OPS(PUT_A, WORK)}, .watched = 1,
                .behind = 1}, 3, 2},
        {"watch: reads while memory is short", {START_VALUE, {OPS(NEXT, NEXT), OPS(PRESS, SET_A, PRESS)}, .watched = 1, .behind = 2}, 2, 2},
        {"watch: reads beside a delete", {START_VALUE, {OPS(NEXT, NEXT), OPS(DELETE_A, WORK, SET_A, WORK)}, .watched = 1}, 2, 2},
        {"watch: a deleted key stays", {START_DELETED, {OPS(NEXT), OPS(PRESS, PRESS, SET_A)}, .watched = 1, .setup_by = 1}, 2, 2},
        {"watch: reads beside a mover", {START_VALUE, {OPS(NEXT), OPS(MOVE_A)}, .watched = 1, .behind = 1, .setup_by = 1}, 2, 2},
        {"watch: reads beside a mover and a set", {START_VALUE, {OPS(NEXT), OPS(MOVE_A), OPS(SET_A, WORK)}, .watched = 1, .behind = 1,
                .setup_by = 1}, 3, 2},
        {"watch: killed reader", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .watched = 1, .behind = 2}, 2, 0, .crashes = 1,
                .crash_mask = 1,
                .reaper = true},
        {"watch: from before it began", {START_VALUE, {OPS(PAST_A, NEXT), OPS(SET_A, WORK)}, .ring = RING_LEFT}, 2, 2},
        {"watch: from before it began, cleared", {START_MAGAZINE, {OPS(SET_A, WORK, PAST_A, FIRST, SET_A), OPS(WATCH_A, NEXT)},
                .ring = RING_BARE, .magazine = 2}, 2, 2},
        {"watch: reads and holds beside two writers", {START_VALUE, {OPS(FIRST, FIRST), OPS(SET_A), OPS(SET_A, SET_A, WORK)},
                .watched = 1, .magazine = 2, .setup_by = 2}, 3, 2},
        {"watch: reads beside a commit while memory is short", {START_VALUE, {OPS(NEXT), OPS(TXN(.writes = KA), PRESS)}, .watched = 1,
                .behind = 2, .focus = FOCUS_CUTS}, 2, 3},
        {"watch: holds while memory is short", {START_VALUE, {OPS(FIRST, FIRST), OPS(PRESS, SET_A, SET_A)}, .watched = 1, .behind = 2,
                .magazine = 2, .setup_by = 1}, 2, 2},
        /* It sleeps. */
        {"watch: sleeps beside a set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .watched = 1}, 2, 3},
        {"watch: sleeps beside a set, buffers", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .watched = 1}, 2, 3, .delays = 2,
                .whole = true},
        {"watch: sleeps beside two writers", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(SET_A), OPS(PUT_A)}, .watched = 1}, 3, 2, .whole = true},
        {"watch: a descriptor beside a set", {START_VALUE, {OPS(STAND), OPS(SET_A)}, .watched = 1}, 2, 3},
        {"watch: a descriptor beside two writers", {START_VALUE, {OPS(STAND, STAND), OPS(SET_A), OPS(PUT_A)}, .watched = 1}, 3, 2},
        {"watch: a descriptor beside a stopped set", {START_VALUE, {OPS(STAND), OPS(SET_A), OPS(SET_A)}, .watched = 1}, 3, 0,
                .crashes = 1, .crash_mask = 2},
        {"watch: two sleep beside a set", {START_VALUE, {OPS(SLEEP), OPS(SLEEP), OPS(SET_A)}, .watched = 3}, 3, 2, .whole = true},
        {"watch: sleeps beside a killed set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .watched = 1}, 2, 0, .crashes = 1, .crash_mask = 2,
                .reaper = true},
        {"watch: sleeps beside a stopped set", {START_VALUE, {OPS(SLEEP), OPS(SET_A), OPS(SET_A)}, .watched = 1}, 3, 0, .crashes = 1,
                .crash_mask = 2},
        {"watch: sleeps beside a stopped set and a cut", {START_VALUE, {OPS(SLEEP), OPS(PUT_A), OPS(STABLE)}, .watched = 1}, 3, 0,
                .crashes = 1, .crash_mask = 2},
        {"watch: stopped asleep beside two sets", {START_VALUE, {OPS(SLEEP), OPS(SET_A, SET_A)}, .watched = 1}, 2, 0, .crashes = 1,
                .crash_mask = 1},
        {"watch: sleeps beside a delete", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(DELETE_A, SET_A, WORK)}, .watched = 1}, 2, 2},
        {"watch: sleeps beside a commit", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB))}, .watched = 1}, 2, 2},
        {"watch: sleeps beside a killed commit", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB))}, .watched = 1}, 2, 0, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"watch: sleeps beside a stopped commit and a cut", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB)), OPS(STABLE)},
                .watched = 1}, 3, 0, .crashes = 1, .crash_mask = 2},
        {"watch: sleeps beside a commit and a set", {START_PAIR, {OPS(SLEEP), OPS(TXN(.reads = KA, .writes = KA)), OPS(SET_A)},
                .watched = 1}, 3, 2, .whole = true},
        /* Versions that stay by their number, and rings that get more slots. */
        {"depth: two writers", {START_VALUE, {OPS(SET_A, SET_A), OPS(SET_A, SET_A)}, .ring = RING_RULE}, 2, 2},
        {"depth: two writers with magazines", {START_VALUE, {OPS(SET_A, SET_A), OPS(SET_A, SET_A)}, .ring = RING_RULE,
                .magazine = 2}, 2, 2},
        {"depth: two writers, the long way", {START_VALUE, {OPS(SET_A, PUT_A, WORK), OPS(PUT_A, WORK)}, .ring = RING_RULE}, 2, 2},
        {"depth: beside a cut", {START_VALUE, {OPS(CUT_A), OPS(SET_A, SET_A, SET_A, WORK)}, .ring = RING_RULE, .magazine = 2}, 2, 2},
        {"depth: beside a cut and a writer", {START_VALUE, {OPS(CUT_A), OPS(SET_A, SET_A), OPS(SET_A)}, .ring = RING_RULE}, 3, 2},
        {"depth: beside a sweep", {START_VALUE, {OPS(SWEEP), OPS(SET_A, SET_A)}, .ring = RING_RULE, .engine = true}, 2, 2},
        {"depth: beside a mover", {START_VALUE, {OPS(MOVE_A), OPS(SET_A, SET_A)}, .ring = RING_RULE, .setup_by = 1}, 2, 2},
        {"depth: beside a commit", {START_PAIR, {OPS(TXN(.writes = KA | KB)), OPS(SET_A, SET_A)}, .ring = RING_RULE}, 2, 2},
        {"depth: beside a commit that conflicts", {START_VALUE, {OPS(TXN(.reads = KA, .writes = KA)), OPS(SET_A, WORK)},
                .ring = RING_RULE}, 2, 2},
        {"depth: beside a delete and a removal", {START_VALUE, {OPS(SET_A, SET_A), OPS(DELETE_A, WORK, WORK)}, .ring = RING_RULE}, 2, 2},
        {"depth: beside a watch", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(SET_A, SET_A)}, .ring = RING_RULE}, 2, 2},
        {"depth: beside a watch that ends", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(NEXT, UNWATCH), OPS(SET_A, SET_A)}, .ring = RING_RULE,
                .engine = true, .watched = 2}, 3, 2},
        {"depth: a ring comes beside a set", {START_RULED, {OPS(SET_A, SET_A, WORK), OPS(SET_A, WORK)}}, 2, 2},
        {"depth: a ring comes beside a watch", {START_RULED, {OPS(SET_A, SET_A, WORK), OPS(WATCH_A, NEXT)}}, 2, 2},
        {"depth: killed set", {START_VALUE, {OPS(SET_A), OPS(SET_A, SET_A)}, .ring = RING_RULE, .magazine = 2}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"depth: killed work, as a ring comes", {START_RULED, {OPS(SET_A, SET_A, WORK), OPS(SET_A, WORK)}}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"depth: a deeper watch joins beside sets", {START_VALUE, {OPS(DEEP_A, NEXT), OPS(SET_A, SET_A, SET_A), OPS(NEXT)},
                .watched = 4}, 3, 2},
        {"depth: deeper watches join", {START_VALUE, {OPS(DEEP_A, NEXT), OPS(DEEP_A, NEXT), OPS(SET_A)}, .watched = 0}, 3, 2},
        {"depth: a deeper watch joins beside a clearing", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(DEEP_A, NEXT), OPS(SET_A)},
                .engine = true, .ring = RING_LEFT}, 3, 2},
        {"depth: killed while a deeper watch joins", {START_VALUE, {OPS(DEEP_A), OPS(DEEP_A, NEXT)}, .ring = RING_LEFT}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"drops: beside sets and prunes", {START_VALUE, {OPS(DROPS_A, NEXT), OPS(SET_A, SET_A, SET_A, SET_A, WORK)}}, 2, 2},
        {"drops: beside two writers", {START_VALUE, {OPS(DROPS_A, FIRST, NEXT), OPS(SET_A, SET_A, WORK), OPS(SET_A, SET_A)}}, 3, 2},
        {"drops: beside a commit and a set", {START_PAIR, {OPS(DROPS_A, NEXT), OPS(TXN(.writes = KA | KB)),
                OPS(SET_A, SET_A, SET_A)}}, 3, 2},
        {"drops: two watches, one ends", {START_VALUE, {OPS(DROPS_A, UNWATCH), OPS(DROPS_A, NEXT), OPS(SET_A, SET_A, SET_A, WORK)}}, 3, 2},
        {"drops: reads while memory is short", {START_VALUE, {OPS(FIRST, NEXT), OPS(PRESS, SET_A)}, .watched = 1, .drops = 1,
                .behind = 4}, 2, 2},
        {"drops: reads beside a mover", {START_VALUE, {OPS(FIRST, NEXT), OPS(MOVE_A)}, .watched = 1, .drops = 1, .behind = 4,
                .setup_by = 1}, 2, 2},
        {"drops: reads beside a set while memory is short", {START_VALUE, {OPS(FIRST, NEXT), OPS(PRESS), OPS(SET_A, WORK)},
                .watched = 1, .drops = 1, .behind = 4}, 3, 2},
        {"drops: sleeps beside sets", {START_VALUE, {OPS(DROPS_A, SLEEP), OPS(SET_A, SET_A, SET_A)}}, 2, 2},
        {"drops: killed", {START_VALUE, {OPS(DROPS_A, FIRST), OPS(DROPS_A, NEXT), OPS(SET_A, SET_A, SET_A)}}, 3, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        /* By the public calls. */
        {"watch: users: opens beside a set", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(SET_A)}, .users = true, .guards = 4}, 2, 2},
        {"watch: users: reads beside sets", {START_VALUE, {OPS(NEXT, NEXT, UNWATCH), OPS(SET_A, SET_A, WORK)}, .watched = 1,
                .users = true, .guards = 4}, 2, 2},
        {"watch: users: sleeps beside a set and a delete", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(SET_A, DELETE_A)}, .watched = 1,
                .users = true, .guards = 4}, 2, 2},
        {"watch: users: waits beside a set", {START_VALUE, {OPS(SLEEP, WAIT), OPS(SET_A, SET_A)}, .watched = 1, .users = true,
                .guards = 4}, 2, 2},
        {"watch: users: waits beside a stopped set", {START_VALUE, {OPS(WAIT), OPS(SET_A)}, .watched = 1, .users = true,
                .guards = 4}, 2, 0, .crashes = 1, .crash_mask = 2},
};

/* The same with kills at more places, and more threads. */
static const struct world_case deep[] = {
        {"watch deep: joins beside a clearing", {START_VALUE, {OPS(SWEEP, SWEEP), OPS(WATCH_A, NEXT)}, .engine = true,
                .ring = RING_LEFT}, 2, 3},
        {"watch deep: killed while it joins", {START_VALUE, {OPS(WATCH_A), OPS(WATCH_A, NEXT), OPS(SET_A)}}, 3, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"watch deep: killed clearing", {START_VALUE, {OPS(SWEEP), OPS(WATCH_A, NEXT), OPS(SET_A)}, .engine = true,
                .ring = RING_LEFT}, 3, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"watch deep: killed clearing beside a join", {START_VALUE, {OPS(SWEEP), OPS(WATCH_A, NEXT)}, .engine = true,
                .ring = RING_LEFT}, 2, 1,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"watch deep: killed reader", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .watched = 1, .behind = 2}, 2, 1, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"watch deep: sleeps beside two writers", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(SET_A), OPS(PUT_A)}, .watched = 1}, 3, 3},
        {"watch deep: sleeps beside a killed set", {START_VALUE, {OPS(SLEEP), OPS(SET_A), OPS(SET_A)}, .watched = 1}, 3, 1, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"watch deep: sleeps beside a killed commit", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB))}, .watched = 1}, 2, 1,
                .crashes = 1, .crash_mask = 2, .reaper = true},
};
/* clang-format on */

const struct world_list world_watches_deep = {"watch-deep", deep, sizeof deep / sizeof *deep};
const struct world_list world_watches = {"watch", watches, sizeof watches / sizeof *watches};
