/* Scenarios of the log; see lists.h and logger.c. Each line as in lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define SET_C    {OP_SET, KEY_C}
#define PUT_A    {OP_PUT, KEY_A}
#define PUT_B    {OP_PUT, KEY_B}
#define CAS_A    {OP_CAS, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define GONE     {OP_PRESS, KEY_A, .way = WAY_MANY}
#define MOVE_A   {OP_MOVE, KEY_A}
#define NEXT     {OP_NEXT, KEY_A}
#define EVICT    {OP_EVICT, KEY_A}
#define LOG      {OP_LOG, KEY_A}
#define FAIL     {OP_LOG, KEY_A, .way = WAY_BACK}
#define ANEW     {OP_LOG, KEY_A, .way = WAY_PAST}
#define ANEW_FAIL {OP_LOG, KEY_A, .way = WAY_SHORT}
#define NARROW   {OP_LOG, KEY_A, .way = WAY_MANY}
#define COPY     {OP_LOG, KEY_A, .way = WAY_TURN}
#define COPY_FAIL {OP_LOG, KEY_A, .way = WAY_SEEK}
#define KA 1u
#define KB 2u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}

static const struct world_case batches[] = {
        /* Beside a writer. */
        {"batch: beside a set", {START_VALUE, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 3},
        {"batch: beside a set, the long way", {START_VALUE, {OPS(LOG), OPS(PUT_A)}, .logged = 1}, 2, 3},
        {"batch: two beside a set", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A)}, .logged = 1}, 2, 2},
        {"batch: beside two sets", {START_VALUE, {OPS(LOG), OPS(SET_A, SET_A)}, .logged = 1}, 2, 2},
        {"batch: beside a second set", {START_VALUE, {OPS(LOG), OPS(PUT_A)}, .logged = 1, .past = "a"}, 2, 2},
        {"batch: beside a set of what is logged", {START_VALUE, {OPS(LOG), OPS(PUT_A)}, .logged = 1, .past = "al"}, 2, 2},
        {"batch: beside a make", {START_EMPTY, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 2},
        {"batch: beside a cas", {START_VALUE, {OPS(LOG), OPS(CAS_A)}, .logged = 1}, 2, 2},
        {"batch: beside two writers of a key", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 2},
        {"batch: beside a late half of a batch's writers", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A), OPS(SET_A)}, .logged = 1}, 3, 1},
        {"batch: beside writers of two keys", {START_PAIR, {OPS(LOG), OPS(SET_A), OPS(SET_B)}, .logged = 1}, 3, 1},
        {"batch: fails beside a set", {START_VALUE, {OPS(FAIL, LOG), OPS(SET_A)}, .logged = 1, .past = "a"}, 2, 2},
        {"batch: fails twice beside sets", {START_VALUE, {OPS(FAIL, FAIL), OPS(SET_A, SET_A)}, .logged = 1, .past = "f"}, 2, 1},
        {"batch: little room beside a set", {START_PAIR, {OPS(NARROW), OPS(SET_A)}, .logged = 1, .past = "ab"}, 2, 2},
        /* Beside a transaction. */
        {"batch: beside a commit", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 2},
        {"batch: two beside a commit", {START_PAIR, {OPS(LOG, LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 2},
        {"batch: beside a commit, which is serializable", {START_PAIR, {OPS(LOG), OPS(TXN(.reads = KA, .writes = KB,
                .serializable = true))}, .logged = 1}, 2, 2},
        {"batch: beside a commit that deletes", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA, .deletes = KB), GONE)}, .logged = 1}, 2, 1},
        {"batch: beside a commit and a set", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB)), OPS(SET_B)}, .logged = 1}, 3, 1},
        {"batch: beside a commit that makes a key", {START_VALUE, {OPS(LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 1},
        {"batch: beside a set over an aborted one", {START_ABORTED, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 2},
        {"batch: beside commits in conflict, and a set", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB, .early = true), SET_A),
                OPS(SET_B)}, .logged = 1}, 3, 1},
        /* Beside a removal. */
        {"batch: beside a delete and a removal", {START_VALUE, {OPS(LOG), OPS(DELETE_A, WORK, WORK)}, .logged = 1}, 2, 2},
        {"batch: two beside a delete and a removal", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, WORK, WORK)}, .logged = 1}, 2, 1},
        {"batch: beside a delete and memory work", {START_VALUE, {OPS(LOG), OPS(DELETE_A, MEMORY)}, .logged = 1}, 2, 1},
        {"batch: beside a removal, memory is short", {START_PAIR, {OPS(LOG), OPS(GONE)}, .logged = 1, .past = "A", .setup_by = 1}, 2, 2},
        {"batch: beside a delete, memory is short", {START_VALUE, {OPS(LOG), OPS(DELETE_A, GONE)}, .logged = 1}, 2, 2},
        {"batch: beside a second life", {START_VALUE, {OPS(LOG), OPS(DELETE_A, GONE, SET_A)}, .logged = 1}, 2, 1},
        {"batch: a second life, and a slow writer", {START_VALUE, {OPS(LOG), OPS(DELETE_A, GONE, SET_A), OPS(PUT_A)}, .logged = 1}, 3, 1},
        {"batch: fails beside a removal", {START_VALUE, {OPS(FAIL, LOG), OPS(GONE)}, .logged = 1, .past = "A", .setup_by = 1}, 2, 1},
        {"batch: what is removed is logged", {START_VALUE, {OPS(LOG), OPS(WORK, WORK, SET_B)}, .logged = 1, .past = "Al",
                .setup_by = 1}, 2, 1},
        /* A log that begins. */
        {"batch: the first one beside a set", {START_VALUE, {OPS(LOG), OPS(SET_A)}}, 2, 2},
        {"batch: the first two beside sets", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A, SET_A)}}, 2, 1},
        {"batch: the first one beside a delete and a removal", {START_VALUE, {OPS(LOG), OPS(DELETE_A, WORK, WORK)}}, 2, 2},
        {"batch: the first one beside a removal", {START_PAIR, {OPS(LOG), OPS(WORK, SET_B)}, .past = "A", .setup_by = 1}, 2, 2},
        {"batch: another log beside a set", {START_VALUE, {OPS(ANEW), OPS(SET_A)}, .logged = 1, .past = "af"}, 2, 2},
        {"batch: another log beside a removal", {START_VALUE, {OPS(ANEW, LOG), OPS(WORK, WORK, SET_A)}, .logged = 1, .past = "Af",
                .setup_by = 1}, 2, 1},
        {"batch: another log, which fails at first", {START_VALUE, {OPS(ANEW_FAIL, LOG), OPS(SET_A)},
                .logged = 1, .past = "af"}, 2, 1},
        /* Kills. */
        {"batch: killed log", {START_VALUE, {OPS(LOG), OPS(SET_A)}, .logged = 1, .past = "a"}, 2, 0, .crashes = 1, .crash_mask = 1,
                .reaper = true},
        {"batch: killed log, beside a set", {START_VALUE, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 1, .crashes = 1, .crash_mask = 1,
                .reaper = true},
        {"batch: killed log, and a removal", {START_PAIR, {OPS(LOG), OPS(WORK, GONE)}, .logged = 1, .past = "A", .setup_by = 1}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"batch: killed log, and a delete", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, WORK)}, .logged = 1}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"batch: stopped log, and a delete", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, WORK, SET_B)}, .logged = 1}, 2, 0, .crashes = 1,
                .crash_mask = 1},
        {"batch: killed log, and a commit", {START_PAIR, {OPS(LOG, LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"batch: killed set", {START_VALUE, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 1, .crashes = 1, .crash_mask = 2, .reaper = true},
        {"batch: killed set, the long way", {START_VALUE, {OPS(LOG), OPS(PUT_A)}, .logged = 1}, 2, 1, .crashes = 1, .crash_mask = 2,
                .reaper = true},
        {"batch: killed set, and another one", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 0, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"batch: stopped set, and another one", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 0, .crashes = 1,
                .crash_mask = 2},
        {"batch: killed make", {START_EMPTY, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 0, .crashes = 1, .crash_mask = 2, .reaper = true},
        {"batch: killed delete", {START_VALUE, {OPS(LOG), OPS(DELETE_A, WORK)}, .logged = 1}, 2, 0, .crashes = 1, .crash_mask = 2,
                .reaper = true},
        {"batch: killed removal", {START_PAIR, {OPS(LOG), OPS(GONE)}, .logged = 1, .past = "A", .setup_by = 1}, 2, 0, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"batch: killed commit", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 0, .crashes = 1, .crash_mask = 2,
                .reaper = true},
        {"batch: stopped commit, and a set", {START_PAIR, {OPS(LOG, LOG), OPS(TXN(.writes = KA | KB)), OPS(SET_B)}, .logged = 1}, 3, 0,
                .crashes = 1, .crash_mask = 2},
        {"batch: killed commit, and a delete", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB)), OPS(DELETE_A)}, .logged = 1}, 3, 0,
                .crashes = 1, .crash_mask = 2, .reaper = true},
        {"batch: evicted", {START_VALUE, {OPS(EVICT), OPS(LOG, LOG), OPS(SET_A, WORK)}, .engine = true, .logged = 2}, 3, 1},
        /* What moves, what is kept, what is watched. */
        {"batch: beside a mover", {START_VALUE, {OPS(LOG), OPS(MOVE_A)}, .logged = 1, .past = "a", .setup_by = 1}, 2, 2},
        {"batch: beside a mover and a set", {START_VALUE, {OPS(LOG), OPS(MOVE_A), OPS(SET_A)}, .logged = 1, .past = "a",
                .setup_by = 1}, 3, 1},
        {"batch: of a key with a rule", {START_RULED, {OPS(LOG), OPS(SET_A, SET_A)}, .logged = 1}, 2, 2},
        {"batch: of a key with a rule, little room", {START_RULED, {OPS(NARROW), OPS(SET_A)}, .logged = 1, .past = "aa"}, 2, 2},
        {"batch: beside a mark", {START_MARKED, {OPS(LOG), OPS(SET_A, WORK)}, .logged = 1}, 2, 2},
        {"batch: beside a watch of a prefix", {START_VALUE, {OPS(LOG), OPS(SET_A, WORK), OPS(NEXT)}, .logged = 1, .prefixed = 4}, 3, 1},
        /* Marks on two levels. */
        {"batch: two levels, beside a set", {START_PAIR, {OPS(LOG), OPS(SET_A)}, .logged = 1, .buckets = 128, .past = "b"}, 2, 2},
        {"batch: two levels, two writers", {START_PAIR, {OPS(LOG), OPS(SET_A), OPS(PUT_B)}, .logged = 1, .buckets = 128}, 3, 1},
        {"batch: two levels, killed set", {START_PAIR, {OPS(LOG), OPS(SET_A)}, .logged = 1, .buckets = 128}, 2, 0, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        /* Copies, in two pieces. */
        {"batch: a copy beside a set", {START_PAIR, {OPS(COPY, LOG), OPS(SET_A)}, .logged = 1, .buckets = 128, .past = "l"}, 2, 2},
        {"batch: a copy beside a set, in one bucket", {START_PAIR, {OPS(COPY, LOG), OPS(SET_A)}, .logged = 1, .past = "l"}, 2, 2},
        {"batch: a copy beside two writers", {START_PAIR, {OPS(COPY, LOG), OPS(SET_A), OPS(PUT_B)}, .logged = 1, .buckets = 128,
                .past = "l"}, 3, 1, .costly = true},
        {"batch: a copy beside a commit", {START_PAIR, {OPS(COPY, LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1, .buckets = 128,
                .past = "l"}, 2, 2},
        {"batch: a copy beside a delete and a removal", {START_PAIR, {OPS(COPY, LOG), OPS(DELETE_A, WORK, WORK)}, .logged = 1,
                .buckets = 128, .past = "l"}, 2, 2},
        {"batch: a copy beside a removal", {START_PAIR, {OPS(COPY, LOG), OPS(WORK, WORK, SET_A)}, .logged = 1, .buckets = 128,
                .past = "Al", .setup_by = 1}, 2, 2},
        {"batch: a copy that fails, beside a set", {START_PAIR, {OPS(COPY_FAIL, LOG), OPS(SET_A)}, .logged = 1, .buckets = 128,
                .past = "l"}, 2, 2},
        {"batch: a copy of which the end fails, beside a set", {START_PAIR, {OPS(COPY, FAIL), OPS(SET_A)}, .logged = 1,
                .buckets = 128, .past = "l"}, 2, 2},
        {"batch: a copy beside a removal, memory is short", {START_PAIR, {OPS(COPY, LOG), OPS(GONE)}, .logged = 1, .past = "Al",
                .buckets = 128, .setup_by = 1}, 2, 2},
        {"batch: a copy, and a killed set", {START_PAIR, {OPS(COPY, LOG), OPS(SET_A)}, .logged = 1, .buckets = 128, .past = "l"},
                2, 0, .crashes = 1, .crash_mask = 2, .reaper = true},
        {"batch: a copy by a log that is killed", {START_PAIR, {OPS(COPY, LOG), OPS(SET_A)}, .logged = 1, .buckets = 128, .past = "l"},
                2, 0, .crashes = 1, .crash_mask = 1, .reaper = true},
        {"batch: a copy beside a mover", {START_PAIR, {OPS(COPY, LOG), OPS(MOVE_A)}, .logged = 1, .buckets = 128, .past = "al",
                .setup_by = 1}, 2, 2},
        /* Store buffers. */
        {"batch: beside a set, buffers", {START_VALUE, {OPS(LOG), OPS(SET_A)}, .logged = 1}, 2, 1, .delays = 1},
        {"batch: beside a set, the long way, buffers", {START_VALUE, {OPS(LOG), OPS(PUT_A)}, .logged = 1}, 2, 1, .delays = 1},
};

/* The same with more preemptions, threads and kills. */
static const struct world_case deep[] = {
        {"batch deep: beside a set", {START_VALUE, {OPS(LOG, LOG), OPS(PUT_A)}, .logged = 1}, 2, 4},
        {"batch deep: beside two sets", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A, PUT_A)}, .logged = 1}, 2, 3},
        {"batch deep: beside two writers of a key", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 2},
        {"batch deep: beside two writers and a delete", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A), OPS(DELETE_A)}, .logged = 1},
                4, 1},
        {"batch deep: beside a commit", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 3},
        {"batch deep: beside a commit and a set", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB)), OPS(SET_B)}, .logged = 1}, 3, 2},
        {"batch deep: beside a commit, which is serializable, and a set", {START_PAIR, {OPS(LOG), OPS(TXN(.reads = KA, .writes = KB,
                .serializable = true)), OPS(PUT_A)}, .logged = 1}, 3, 2},
        {"batch deep: beside a delete and a removal", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, WORK)}, .logged = 1}, 2, 2},
        {"batch deep: beside a second life", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, GONE, SET_A)}, .logged = 1}, 2, 2},
        {"batch deep: a second life, and a slow writer", {START_VALUE, {OPS(LOG, LOG), OPS(DELETE_A, GONE, SET_A), OPS(PUT_A)},
                .logged = 1}, 3, 1},
        {"batch deep: the first one beside a removal", {START_PAIR, {OPS(LOG), OPS(GONE, SET_A)}, .past = "A", .setup_by = 1}, 2, 2},
        {"batch deep: fails beside sets", {START_VALUE, {OPS(FAIL, LOG), OPS(SET_A), OPS(SET_A)}, .logged = 1}, 3, 2},
        {"batch deep: another log beside sets", {START_VALUE, {OPS(ANEW, LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1, .past = "af"}, 3, 1},
        {"batch deep: killed log, beside two writers", {START_VALUE, {OPS(LOG, LOG), OPS(SET_A), OPS(DELETE_A, WORK)}, .logged = 1}, 3, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"batch deep: killed log, beside a set and a removal", {START_VALUE, {OPS(LOG), OPS(DELETE_A, GONE, SET_A)}, .logged = 1}, 2, 1,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"batch deep: killed set, and another one", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 1, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"batch deep: killed commit", {START_PAIR, {OPS(LOG), OPS(TXN(.writes = KA | KB))}, .logged = 1}, 2, 1, .crashes = 1,
                .crash_mask = 2, .reaper = true},
        {"batch deep: two killed", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 0, .crashes = 2, .crash_mask = 6,
                .reaper = true},
        {"batch deep: beside a mover and a set", {START_VALUE, {OPS(LOG), OPS(MOVE_A), OPS(SET_A)}, .logged = 1, .past = "a",
                .setup_by = 1}, 3, 2},
        {"batch deep: two levels, two writers", {START_PAIR, {OPS(LOG), OPS(SET_A), OPS(PUT_B)}, .logged = 1, .buckets = 128}, 3, 2},
        {"batch deep: two levels, a late writer", {START_PAIR, {OPS(LOG, LOG), OPS(SET_A)}, .logged = 1, .buckets = 128, .past = "b"},
                2, 3},
        {"batch deep: beside a set, buffers", {START_VALUE, {OPS(LOG, LOG), OPS(PUT_A)}, .logged = 1}, 2, 2, .delays = 1},
        {"batch deep: beside two writers, buffers", {START_VALUE, {OPS(LOG), OPS(SET_A), OPS(PUT_A)}, .logged = 1}, 3, 1, .delays = 1},
        {"batch deep: beside a removal, buffers", {START_PAIR, {OPS(LOG), OPS(GONE)}, .logged = 1, .past = "A", .setup_by = 1}, 2, 2,
                .delays = 1},
};
/* clang-format on */

const struct world_list world_batches = {"batch", batches, sizeof batches / sizeof *batches};
const struct world_list world_batches_deep = {"batch-deep", deep, sizeof deep / sizeof *deep};
