/* Scenarios of watches of a prefix; see lists.h and prefixes.c. Each line as in lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define SET_C    {OP_SET, KEY_C}
#define FIVE_SETS OPS(SET_A, SET_A, SET_A, SET_A, SET_A)
#define PUT_A    {OP_PUT, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define STABLE   {OP_STABLE, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define PRESS    {OP_PRESS, KEY_A}
#define MOVE_A   {OP_MOVE, KEY_A}
#define ALL      {OP_PREFIX, KEY_A}
#define WITHIN   {OP_PREFIX, KEY_A, .way = WAY_SHORT}
#define QUEUE    {OP_PREFIX, KEY_A, .way = WAY_BACK}
#define PAST     {OP_PREFIX, KEY_A, .way = WAY_PAST}
#define NEXT     {OP_NEXT, KEY_A}
#define LOOK     {OP_NEXT, KEY_A, .way = WAY_MANY}
#define FIRST    {OP_NEXT, KEY_A, .way = WAY_SHORT}
#define VIEW     {OP_VIEW, KEY_A}
#define WAIT     {OP_SLEEP, KEY_A, .way = WAY_MANY}
#define SLEEP    {OP_SLEEP, KEY_A}
#define UNWATCH  {OP_UNWATCH, KEY_A}
#define KA 1u
#define KB 2u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}

static const struct world_case prefixes[] = {
        /* A watch begins. */
        {"prefix: joins beside a set", {START_VALUE, {OPS(ALL, NEXT), OPS(SET_A)}}, 2, 3, .whole = true},
        {"prefix: joins beside a set, buffers", {START_VALUE, {OPS(ALL, NEXT), OPS(SET_A)}}, 2, 2, .delays = 1, .whole = true},
        {"prefix: joins beside a set, the long way", {START_VALUE, {OPS(ALL, NEXT), OPS(PUT_A)}}, 2, 2},
        {"prefix: joins beside sets and a sweep", {START_VALUE, {OPS(ALL, NEXT), OPS(SWEEP), OPS(SET_A, SET_A)}}, 3, 2},
        {"prefix: joins beside a make", {START_EMPTY, {OPS(WITHIN, NEXT), OPS(SET_A)}}, 2, 2},
        {"prefix: joins beside a delete and a removal", {START_VALUE, {OPS(ALL, NEXT), OPS(DELETE_A, WORK, WORK)}}, 2, 1},
        {"prefix: joins beside a commit", {START_PAIR, {OPS(ALL, NEXT), OPS(TXN(.writes = KA | KB))}}, 2, 2},
        {"prefix: two join, and a set", {START_VALUE, {OPS(ALL, NEXT), OPS(WITHIN, NEXT), OPS(SET_A)}}, 3, 1},
        {"prefix: killed while it joins", {START_VALUE, {OPS(ALL), OPS(ALL, NEXT), OPS(SET_A)}}, 3, 0, .crashes = 1, .crash_mask = 1,
                .reaper = true},
        {"prefix: from an earlier cut, beside a set", {START_PAIR, {OPS(PAST, NEXT), OPS(SET_A)}, .past = "xsb"}, 2, 2},
        {"prefix: from an earlier cut, beside sets and prunes", {START_PAIR, {OPS(PAST, NEXT), OPS(SET_A, SET_A, WORK)},
                .past = "xasbk"}, 2, 1},
        {"prefix: from an earlier cut, beside a removal", {START_PAIR, {OPS(PAST, NEXT), OPS(WORK, WORK, SET_A)}, .past = "xAs",
                .setup_by = 1}, 2, 2},
        {"prefix: from an earlier cut, beside a delete", {START_PAIR, {OPS(PAST, NEXT), OPS(DELETE_A, WORK, WORK)}, .past = "xs"}, 2, 1},
        {"prefix: from an earlier cut, beside a mover", {START_PAIR, {OPS(PAST, NEXT), OPS(MOVE_A)}, .past = "xa", .setup_by = 1}, 2, 2},
        {"prefix: from an earlier cut, beside a commit", {START_PAIR, {OPS(PAST, NEXT), OPS(TXN(.writes = KA | KB))}, .past = "xa"}, 2, 1},
        {"prefix: from an earlier cut, beside a make", {START_VALUE, {OPS(PAST, NEXT), OPS(SET_B)}, .past = "xsa"}, 2, 2},
        /* It ends, and the engine clears. */
        {"prefix: joins beside a clearing", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, NEXT), OPS(SET_A)}, .engine = true, .prefixed = 2,
                .within = 2, .past = "u"}, 3, 1},
        {"prefix: another joins beside a clearing", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, NEXT), OPS(SET_A)}, .engine = true,
                .prefixed = 10, .within = 2, .past = "u"}, 3, 1},
        {"prefix: leaves and joins beside a clearing", {START_VALUE, {OPS(MEMORY, MEMORY), OPS(UNWATCH, WITHIN, NEXT), OPS(SET_A)},
                .engine = true, .prefixed = 2}, 3, 1},
        {"prefix: killed clearing", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, NEXT), OPS(SET_A)}, .engine = true, .prefixed = 2, .past = "u"},
                3, 0, .crashes = 1, .crash_mask = 1, .reaper = true},
        {"prefix: joins beside the end of a join", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, NEXT), OPS(SET_A)}, .engine = true,
                .past = "j"}, 3, 1},
        /* It reads. */
        {"prefix: reads beside a set", {START_VALUE, {OPS(LOOK, NEXT), OPS(SET_A)}, .prefixed = 1}, 2, 4, .whole = true},
        {"prefix: reads beside a set, the long way", {START_VALUE, {OPS(LOOK, NEXT), OPS(PUT_A)}, .prefixed = 1}, 2, 2},
        {"prefix: reads beside two writers", {START_VALUE, {OPS(LOOK), OPS(SET_A), OPS(SET_B)}, .prefixed = 1}, 3, 2},
        {"prefix: reads beside a set and a prune", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .prefixed = 1, .past = "sak"}, 2, 2},
        {"prefix: one stamp, and a prune", {START_VALUE, {OPS(NEXT), OPS(WORK, SET_A, WORK)}, .prefixed = 1, .past = "aak"}, 2, 1},
        {"prefix: reads beside a commit", {START_PAIR, {OPS(LOOK), OPS(TXN(.writes = KA | KB))}, .prefixed = 1}, 2, 2},
        {"prefix: reads beside a commit and a set", {START_PAIR, {OPS(LOOK), OPS(TXN(.writes = KA | KB)), OPS(SET_B)},
                .prefixed = 1}, 3, 1},
        {"prefix: reads beside a delete and a removal", {START_VALUE, {OPS(LOOK), OPS(DELETE_A, WORK, WORK)}, .prefixed = 1}, 2, 1},
        {"prefix: a deleted key stays", {START_VALUE, {OPS(NEXT), OPS(WORK, WORK, SET_A)}, .prefixed = 1, .past = "As",
                .setup_by = 1}, 2, 2},
        {"prefix: reads beside a second life", {START_VALUE, {OPS(LOOK, NEXT), OPS(DELETE_A, WORK, WORK, SET_A)}, .prefixed = 1}, 2, 1},
        {"prefix: reads beside a mover", {START_VALUE, {OPS(NEXT), OPS(MOVE_A)}, .prefixed = 1, .past = "a", .setup_by = 1}, 2, 2},
        {"prefix: reads while memory is short", {START_VALUE, {OPS(NEXT), OPS(PRESS, SET_A, PRESS)}, .prefixed = 1, .past = "sasa"}, 2, 2},
        {"prefix: two nested, beside a set", {START_VALUE, {OPS(LOOK), OPS(NEXT), OPS(SET_A, WORK)}, .past = "k", .prefixed = 3,
                .within = 2}, 3, 1},
        {"prefix: killed reader", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .prefixed = 1, .past = "sak"}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"prefix: lapped beside sets", {START_PAIR, {OPS(NEXT), OPS(SET_A, SET_A, SET_A, WORK)}, .prefixed = 1, .past = "sarsba"}, 2, 2},
        {"prefix: lapped beside a late commit", {START_PAIR, {OPS(LOOK), OPS(TXN(.writes = KA | KB)), OPS(SET_A, SET_B, SET_A)},
                .prefixed = 1, .past = "arb"}, 3, 1},
        {"prefix: lapped beside a late half", {START_PAIR, {OPS(LOOK), OPS(SET_A), OPS(SET_A, SET_A, SET_A)}, .prefixed = 1,
                .past = "arb"}, 3, 1},
        {"prefix: unread, and sets", {START_VALUE, {OPS(FIRST), OPS(SET_A, STABLE, SET_A, SET_A, SET_A)}, .prefixed = 1,
                .past = "sasasasa", .keeps = true}, 2, 1},
        {"prefix: two pushers, and a third stops", {START_PAIR, {OPS(LOOK), OPS(SET_A), OPS(SET_B), OPS(SET_A)}, .prefixed = 1}, 4, 0,
                .crashes = 1, .crash_mask = 2},
        {"prefix: lapped beside a prune, and a late reader", {START_PAIR, {OPS(NEXT), OPS(SET_A, WORK), OPS(SET_B, SET_B)},
                .prefixed = 1, .past = "sbsak"}, 3, 1},
        {"prefix: reads beside a killed second life", {START_VALUE, {OPS(NEXT), OPS(DELETE_A, WORK, SET_A)}, .prefixed = 1}, 2, 0,
                .crashes = 1, .crash_mask = 2, .reaper = true},
        {"prefix: nested, lapped, and a delete", {START_PAIR, {OPS(NEXT), OPS(NEXT), OPS(DELETE_A, SET_A, WORK)}, .prefixed = 3,
                .within = 2, .past = "sba"}, 3, 1},
        {"prefix: joins where memory is full", {START_FULL, {OPS(ALL, NEXT), OPS(SET_A)}, .unit_count = 8}, 2, 1},
        /* It drops. */
        {"queue: joins beside sets", {START_VALUE, {OPS(QUEUE, NEXT), OPS(SET_A, SET_A)}}, 2, 2},
        {"queue: joins beside three sets", {START_VALUE, {OPS(QUEUE, NEXT), OPS(SET_A, SET_A, SET_A)}, .joins = true}, 2, 2},
        {"queue: after a cut, beside three sets", {START_VALUE, {OPS(QUEUE, NEXT), OPS(SET_A, SET_A, SET_A)}, .past = "xa",
                .joins = true}, 2, 2},
        {"queue: after a cut, beside four sets", {START_VALUE, {OPS(QUEUE, NEXT), OPS(SET_A, SET_A, SET_A, SET_A)}, .past = "x",
                .joins = true}, 2, 2},
        {"queue: after a cut, beside a commit", {START_PAIR, {OPS(QUEUE, NEXT), OPS(TXN(.writes = KA | KB))}, .past = "xa",
                .joins = true}, 2, 1},
        {"queue: after a cut, beside prunes", {START_PAIR, {OPS(QUEUE, NEXT), OPS(SET_A, SET_A, WORK)}, .past = "xasbk",
                .joins = true}, 2, 1},
        {"queue: begins again beside sets", {START_VALUE, {OPS(QUEUE, NEXT, NEXT), OPS(SET_A, SET_A, SET_A)}, .past = "xaaa",
                .joins = true}, 2, 1},
        {"queue: beside a late hint", {START_VALUE, {OPS(FIRST, SET_A, SET_A), OPS(SET_A)}, .prefixed = 1, .drops = 1, .roomy = true},
                2, 2},
        {"queue: two join beside sets", {START_VALUE, {OPS(QUEUE, NEXT), OPS(QUEUE, NEXT), OPS(SET_A, SET_A, SET_A)}, .joins = true}, 3, 1},
        {"queue: reads beside sets", {START_VALUE, {OPS(FIRST, LOOK), OPS(SET_A, SET_A, SET_B)}, .prefixed = 1, .drops = 1}, 2, 2},
        {"queue: full, beside sets and prunes", {START_VALUE, {OPS(FIRST, NEXT), OPS(SET_A, WORK, SET_A, WORK)}, .prefixed = 1,
                .drops = 1, .past = "sasasa"}, 2, 1},
        {"queue: beside two writers", {START_PAIR, {OPS(FIRST, LOOK), OPS(SET_A, WORK), OPS(SET_B)}, .prefixed = 1, .drops = 1,
                .past = "sa"}, 3, 1},
        {"queue: two writers fill it", {START_PAIR, {OPS(NEXT), OPS(SET_A, SET_A), OPS(SET_B, WORK)}, .prefixed = 1, .drops = 1}, 3, 1},
        {"queue: beside a commit", {START_PAIR, {OPS(LOOK, NEXT), OPS(TXN(.writes = KA | KB), SET_A)}, .prefixed = 1, .drops = 1}, 2, 2},
        {"queue: a commit without room", {START_PAIR, {OPS(LOOK, NEXT), OPS(SET_A, TXN(.writes = KA | KB))}, .prefixed = 1,
                .drops = 1}, 2, 2},
        {"queue: beside a second life", {START_VALUE, {OPS(LOOK, NEXT), OPS(DELETE_A, WORK, WORK, SET_A)}, .prefixed = 1, .drops = 1},
                2, 1},
        {"queue: beside a mover", {START_VALUE, {OPS(FIRST, NEXT), OPS(MOVE_A)}, .prefixed = 1, .drops = 1, .past = "aa", .setup_by = 1},
                2, 1},
        {"queue: while memory is short", {START_VALUE, {OPS(FIRST, NEXT), OPS(PRESS, SET_A, PRESS)}, .prefixed = 1, .drops = 1,
                .past = "sasa"}, 2, 1},
        {"queue: killed writer", {START_VALUE, {OPS(LOOK, NEXT), OPS(SET_A, SET_A)}, .prefixed = 1, .drops = 1}, 2, 0, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"queue: killed reader", {START_VALUE, {OPS(NEXT, NEXT), OPS(SET_A, WORK)}, .prefixed = 1, .drops = 1, .past = "sasa"}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"queue: not read, and sets", {START_VALUE, {OPS(FIRST), OPS(SET_A, STABLE, SET_A, SET_A)}, .prefixed = 1,
                .drops = 1, .past = "sasasasasa", .keeps = true}, 2, 1},
        {"queue: fills, and is not read", {START_VALUE, {OPS(FIRST), FIVE_SETS, FIVE_SETS, FIVE_SETS}, .prefixed = 1, .drops = 1,
                .keeps = true}, 4, 0},
        {"queue: sleeps beside a set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .prefixed = 1, .drops = 1}, 2, 2},
        {"queue: sleeps full, beside sets", {START_VALUE, {OPS(FIRST, FIRST, SLEEP), OPS(SET_A)}, .prefixed = 1, .drops = 1,
                .past = "aaa"}, 2, 2},
        /* It sleeps. */
        {"prefix: sleeps beside a set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .prefixed = 1}, 2, 2},
        {"prefix: sleeps beside two writers", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(SET_A), OPS(PUT_A)}, .prefixed = 1}, 3, 2,
                .whole = true},
        {"prefix: sleeps beside a commit", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB))}, .prefixed = 1}, 2, 1},
        {"prefix: sleeps beside a killed set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .prefixed = 1}, 2, 0, .crashes = 1, .crash_mask = 2,
                .reaper = true},
        {"prefix: sleeps beside a killed commit", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB))}, .prefixed = 1}, 2, 0,
                .crashes = 1, .crash_mask = 2, .reaper = true},
        {"prefix: sleeps beside a stopped set", {START_VALUE, {OPS(SLEEP), OPS(SET_A), OPS(SET_A)}, .prefixed = 1}, 3, 0, .crashes = 1,
                .crash_mask = 2},
        {"prefix: sleeps beside a stopped set and a cut", {START_VALUE, {OPS(SLEEP), OPS(PUT_A), OPS(STABLE)}, .prefixed = 1}, 3, 0,
                .crashes = 1, .crash_mask = 2},
        {"prefix: sleeps beside a stopped commit and a cut", {START_PAIR, {OPS(SLEEP), OPS(TXN(.writes = KA | KB)), OPS(STABLE)},
                .prefixed = 1}, 3, 0, .crashes = 1, .crash_mask = 2},
        /* By the public calls. */
        {"prefix: users: opens beside a set", {START_VALUE, {OPS(ALL, NEXT), OPS(SET_A)}, .users = true, .guards = 4}, 2, 2},
        {"prefix: users: reads beside a commit", {START_PAIR, {OPS(NEXT, NEXT), OPS(TXN(.writes = KA | KB))}, .prefixed = 1,
                .users = true, .guards = 4}, 2, 2},
        {"prefix: users: reads beside sets and prunes", {START_VALUE, {OPS(NEXT, NEXT), OPS(SET_A, SET_A, WORK)}, .prefixed = 1,
                .past = "sak", .users = true, .guards = 4}, 2, 1},
        {"prefix: users: from an earlier cut, beside a delete", {START_PAIR, {OPS(PAST, NEXT), OPS(DELETE_A, WORK, WORK)}, .past = "xs",
                .users = true, .guards = 4}, 2, 1},
        {"prefix: users: a view beside sets and a prune", {START_PAIR, {OPS(ALL, VIEW, NEXT), OPS(SET_A, SET_A, WORK)}, .users = true,
                .past = "k",
                .guards = 4}, 2, 1},
        {"prefix: users: a late view beside sets and a prune", {START_PAIR, {OPS(VIEW, NEXT), OPS(SET_A, SET_A, WORK)}, .prefixed = 1,
                .past = "sbk", .users = true, .guards = 4}, 2, 2},
        {"prefix: users: a late view beside a delete and a removal", {START_PAIR, {OPS(VIEW, NEXT), OPS(DELETE_A, WORK, WORK)},
                .prefixed = 1, .users = true, .guards = 4}, 2, 2},
        {"prefix: users: a late view while memory is short", {START_PAIR, {OPS(VIEW, NEXT), OPS(PRESS, SET_A, PRESS)}, .prefixed = 1,
                .past = "sa", .users = true, .guards = 4}, 2, 2},
        {"prefix: users: closes and opens beside sets", {START_VALUE, {OPS(NEXT, UNWATCH, WITHIN, NEXT), OPS(SET_A, SET_A)}, .prefixed = 1,
                .users = true, .guards = 4}, 2, 1},
        {"prefix: users: sleeps beside a set and a delete", {START_VALUE, {OPS(SLEEP, SLEEP), OPS(SET_A, DELETE_A)}, .prefixed = 1,
                .users = true, .guards = 4}, 2, 2},
        {"prefix: users: waits beside a set", {START_VALUE, {OPS(WAIT), OPS(SET_A, SET_A)}, .prefixed = 1, .users = true,
                .guards = 4}, 2, 2},
        {"prefix: users: waits beside a stopped set", {START_VALUE, {OPS(WAIT), OPS(SET_A)}, .prefixed = 1, .users = true,
                .guards = 4}, 2, 0, .crashes = 1, .crash_mask = 2},
};

/* The same with more preemptions, threads and kills. */
static const struct world_case deep[] = {
        {"prefix deep: reads beside two writers", {START_VALUE, {OPS(LOOK), OPS(SET_A), OPS(SET_B)}, .prefixed = 1}, 3, 2},
        {"prefix deep: reads beside a commit", {START_PAIR, {OPS(LOOK, NEXT), OPS(TXN(.writes = KA | KB))}, .prefixed = 1}, 2, 3},
        {"prefix deep: reads beside a commit and a set", {START_PAIR, {OPS(LOOK), OPS(TXN(.writes = KA | KB)), OPS(SET_B)},
                .prefixed = 1}, 3, 2},
        {"prefix deep: reads beside a set and a prune", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .prefixed = 1, .past = "sak"}, 2, 3},
        {"prefix deep: reads beside a second life", {START_VALUE, {OPS(LOOK, NEXT), OPS(DELETE_A, WORK, WORK, SET_A)},
                .prefixed = 1}, 2, 2},
        {"prefix deep: joins beside the end of a join", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, SET_A, NEXT)}, .engine = true,
                .past = "j"}, 2, 2},
        {"prefix deep: lapped beside a late half", {START_PAIR, {OPS(NEXT), OPS(SET_A), OPS(SET_A, SET_A, SET_A)}, .prefixed = 1,
                .past = "arb"}, 3, 2},
        {"prefix deep: unread, and two writers", {START_PAIR, {OPS(FIRST), OPS(SET_A, STABLE, SET_A), OPS(SET_B, SET_B)}, .prefixed = 1,
                .past = "sasasasa", .keeps = true}, 3, 1},
        {"prefix deep: sleeps beside a set, buffers", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .prefixed = 1}, 2, 2, .delays = 1},
        {"prefix deep: reads beside a set and a prune, buffers", {START_VALUE, {OPS(NEXT), OPS(SET_A, WORK)}, .prefixed = 1,
                .past = "sak"}, 2, 1,
                .delays = 2},
        {"prefix deep: joins beside the end of a join, buffers", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, SET_A, NEXT)}, .engine = true,
                .past = "j"}, 2, 1, .delays = 2},
        {"prefix deep: reads beside a mover", {START_VALUE, {OPS(LOOK), OPS(MOVE_A, WORK)},
                .prefixed = 1, .past = "a", .setup_by = 1}, 2, 3},
        {"prefix deep: reads while memory is short", {START_VALUE, {OPS(LOOK), OPS(PRESS, SET_A), OPS(SET_A)}, .prefixed = 1,
                .past = "sasa"}, 3, 1},
        {"prefix deep: two pushers and a killed one", {START_PAIR, {OPS(LOOK), OPS(SET_A), OPS(SET_B), OPS(SET_A)}, .prefixed = 1}, 4, 0,
                .crashes = 2, .crash_mask = 6, .reaper = true},
        {"prefix deep: killed set beside a reader", {START_VALUE, {OPS(LOOK, NEXT), OPS(SET_A)}, .prefixed = 1}, 2, 1, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"prefix deep: killed commit beside a reader", {START_PAIR, {OPS(LOOK), OPS(TXN(.writes = KA | KB))}, .prefixed = 1}, 2, 1,
                .crashes = 1, .crash_mask = 2, .reaper = true},
        {"prefix deep: killed clearing beside a join", {START_VALUE, {OPS(MEMORY), OPS(WITHIN, NEXT)}, .engine = true, .past = "j"}, 2, 1,
                .crashes = 1, .crash_mask = 1, .reaper = true},
};
/* clang-format on */

const struct world_list world_prefixes = {"prefix", prefixes, sizeof prefixes / sizeof *prefixes};
const struct world_list world_prefixes_deep = {"prefix-deep", deep, sizeof deep / sizeof *deep};
