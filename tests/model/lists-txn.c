/* The scenarios of transactions; see lists.h and lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define KA 1u
#define KB 2u
#define KC 4u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}
/* Snapshot isolation names its writes; serializable names reads, then writes; a cut names its
 * reads. */
#define SI(keys)           TXN(.writes = keys)
#define SI_EARLY(keys)     TXN(.writes = keys, .early = true)
#define PREPARED(keys)     TXN(.writes = keys, .early = true, .prepared = true)
#define SER(read, keys)    TXN(.reads = read, .writes = keys, .serializable = true)
#define SER_EARLY(read, keys) TXN(.reads = read, .writes = keys, .serializable = true, .early = true)
#define RANGE(count, keys) TXN(.scan = count, .writes = keys, .serializable = true)
#define RANGE_EARLY(count, keys) TXN(.scan = count, .writes = keys, .serializable = true, .early = true)
#define CUT(keys)          TXN(.reads = keys)
#define SER_IN(read, keys) TXN(.reads = read, .writes = keys, .serializable = true, .early = true, .prepared = true, .in = keys)
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define SET_C    {OP_SET, KEY_C}
#define LARGE_C  {OP_LARGE, KEY_C}
#define CAS_A    {OP_CAS, KEY_A}
#define CREATE_A {OP_CREATE, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define DELETE_B {OP_DELETE, KEY_B}
#define GET_A    {OP_GET, KEY_A}
#define GET_B    {OP_GET, KEY_B}
#define MANY     {OP_MANY, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define STABLE     {OP_STABLE, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define FREE     {OP_FREE, KEY_A}
#define LOOK     {OP_LOOK, KEY_A}
#define FLAGS    {OP_FLAGS, KEY_A}
#define FINI     {OP_FINI, KEY_A}
#define CHECK    {OP_CHECK, KEY_A}
#define EVICT    {OP_EVICT, KEY_A}

static const struct world_case txns[] = {
        {"txn: one", {START_PAIR, {OPS(SI(KA | KB))}}, 1, 0},
        {"txn: two on the same two keys", {START_PAIR, {OPS(SI_EARLY(KA | KB)), OPS(SI_EARLY(KA | KB))}}, 2, 3},
        {"txn: two on the same two keys, late", {START_PAIR, {OPS(SI(KA | KB)), OPS(SI(KA | KB), CUT(KA | KB))}},
                2, 3, .costly = true},
        {"txn: two on the same key, flags", {START_VALUE, {OPS(SI_EARLY(KA)), OPS(FLAGS), OPS(SI_EARLY(KA))}}, 3, 2},
        {"txn: three on the same key", {START_VALUE, {OPS(SI_EARLY(KA)), OPS(SI_EARLY(KA)), OPS(SI_EARLY(KA))}},
                3, 3, .costly = true},
        {"txn: three crossing", {START_ALL, {OPS(SI_EARLY(KA | KB)), OPS(SI_EARLY(KB | KC)), OPS(SI_EARLY(KA | KC))}}, 3, 2},
        {"txn: three crossing, deeper", {START_ALL, {OPS(SI_EARLY(KA | KB)), OPS(SI_EARLY(KB | KC)), OPS(SI_EARLY(KA | KC))},
                .focus = FOCUS_INTENTS}, 3, 3, .costly = true},
        {"txn: two crossing, one key each", {START_ALL, {OPS(SI_EARLY(KA | KB)), OPS(SI_EARLY(KB | KC)), OPS(CUT(KA | KB | KC))}}, 3, 2},
        {"txn: cut", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB))}}, 2, 4, .costly = true},
        {"txn: cut and set", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB)), OPS(SET_B)}}, 3, 2},
        {"txn: cut and get", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB)), OPS(GET_A, GET_B)}}, 3, 2},
        {"txn: two cuts", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB)), OPS(CUT(KB | KA))}}, 3, 2},
        {"txn: scan", {START_PAIR, {OPS(SI(KA | KC)), OPS(TXN(.scan = 3), TXN(.scan = 3))}}, 2, 3, .costly = true},
        {"txn: cut under buffers", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB), GET_B)}}, 2, 2, .delays = 2},
        {"txn: plain writes", {START_VALUE, {OPS(SI_EARLY(KA)), OPS(CAS_A), OPS(DELETE_A)}}, 3, 3},
        {"txn: plain set and get", {START_VALUE, {OPS(SI(KA)), OPS(SET_A, GET_A)}}, 2, 3},
        {"txn: many", {START_PAIR, {OPS(SI(KA | KB)), OPS(MANY)}}, 2, 3},
        {"txn: many and an aborted one", {START_PAIR, {OPS(SI_EARLY(KA | KB)), OPS(SI_EARLY(KB | KA)), OPS(MANY)}}, 3, 2},
        {"txn: many and a serializable one", {START_PAIR, {OPS(SER(KA, KB)), OPS(MANY), OPS(SET_A)}}, 3, 2},
        {"txn: delete", {START_PAIR, {OPS(TXN(.deletes = KA, .writes = KB)), OPS(GET_B, GET_A), OPS(SET_A)}}, 3, 2},
        {"txn: delete and delete", {START_PAIR, {OPS(TXN(.deletes = KA, .writes = KB)), OPS(DELETE_A, GET_B)}}, 2, 3},
        {"txn: make", {START_EMPTY, {OPS(SI(KA)), OPS(SET_A), OPS(SET_A)}}, 3, 2},
        {"txn: make and create", {START_EMPTY, {OPS(SI(KA)), OPS(CREATE_A)}}, 2, 3},
        {"txn: two make", {START_EMPTY, {OPS(SI(KA | KB)), OPS(SI(KA | KB))}}, 2, 2},
        {"txn: make and remove", {START_DELETED, {OPS(SI(KA)), OPS(WORK), OPS(SET_A)}, .setup_by = 1}, 3, 2},
        {"txn: make where it was removed", {START_DELETED, {OPS(SI(KA | KB)), OPS(WORK, SET_B)}, .setup_by = 1}, 2, 2},
        {"txn: make beside set, delete, remove", {START_EMPTY, {OPS(SI(KA)), OPS(SET_A, DELETE_A, WORK)}}, 2, 2},
        {"txn: a cell taken by another key", {START_DELETED, {OPS(SI(KA)), OPS(WORK), OPS(SET_B)}, .setup_by = 1}, 3, 2},
        {"txn: skew", {START_PAIR, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}}, 2, 3},
        {"txn: skew, late", {START_PAIR, {OPS(SER(KA, KB)), OPS(SER(KB, KA))}}, 2, 3},
        {"txn: skew, both in", {START_PAIR, {OPS(SER_IN(KA, KB)), OPS(SER_IN(KB, KA))}}, 2, 3},
        {"txn: skew and get", {START_PAIR, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA)), OPS(GET_A, GET_B)}}, 3, 2},
        {"txn: skew under buffers", {START_PAIR, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}}, 2, 2, .delays = 2},
        {"txn: cycle of three", {START_ALL, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KC)), OPS(SER_EARLY(KC, KA))}}, 3, 2},
        {"txn: cycle of three, all in", {START_ALL, {OPS(SER_IN(KA, KB)), OPS(SER_IN(KB, KC)), OPS(SER_IN(KC, KA))}}, 3, 2},
        {"txn: cycle of three, deeper", {START_ALL, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KC)), OPS(SER_EARLY(KC, KA))},
                .focus = FOCUS_INTENTS}, 3, 3, .costly = true},
        {"txn: reads", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, GET_B), OPS(GET_B, GET_A)}}, 3, 2},
        {"txn: reads at cuts", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, CUT(KB)), OPS(CUT(KA | KB))}}, 3, 2},
        {"txn: set and reads", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, GET_B)}}, 2, 4},
        {"txn: set and cut", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, CUT(KB))}}, 2, 4, .costly = true},
        {"txn: two sets and cut", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, SET_B), OPS(CUT(KA | KB))}}, 3, 2},
        {"txn: two sets and cut, deeper", {START_PAIR, {OPS(SER(KA, KB)), OPS(SET_A, SET_B), OPS(CUT(KA | KB))},
                .focus = FOCUS_INTENTS}, 3, 3},
        {"txn: phantoms", {START_EMPTY, {OPS(RANGE_EARLY(2, KA)), OPS(RANGE_EARLY(2, KB))}}, 2, 3, .costly = true},
        {"txn: phantoms, placeholders", {START_PLACEHOLDERS, {OPS(RANGE_EARLY(2, KA)), OPS(RANGE_EARLY(2, KB))}}, 2, 3},
        {"txn: phantoms, own key in the range", {START_PAIR, {OPS(RANGE_EARLY(2, KA)), OPS(SET_A)}}, 2, 3},
        {"txn: phantoms, forked", {START_EMPTY, {OPS(RANGE_EARLY(2, KA)), OPS(RANGE_EARLY(2, KB))}, .forked = true}, 2, 2},
        {"txn: absent keys", {START_EMPTY, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}}, 2, 3, .costly = true},
        {"txn: range and delete", {START_PAIR, {OPS(RANGE_EARLY(2, KC)), OPS(DELETE_A, WORK, SET_A)}}, 2, 2},
        {"txn: range over a removal", {START_PAIR_DELETED, {OPS(RANGE_EARLY(2, KC)), OPS(WORK, SET_A)}, .setup_by = 1}, 2, 2},
        {"txn: range, set, delete, remove", {START_VALUE, {OPS(RANGE_EARLY(2, KC)), OPS(SET_B, DELETE_B, WORK)}}, 2, 2},
        {"txn: range and a key that goes", {START_PAIR, {OPS(RANGE_EARLY(2, KC)), OPS(DELETE_A, WORK), OPS(GET_A)}}, 3, 1},
        {"txn: range, read once and gone", {START_PAIR_DELETED, {OPS(RANGE(2, KC)), OPS(SET_A, DELETE_A, MEMORY)}}, 2, 2},
        {"txn: both kinds", {START_PAIR, {OPS(SI_EARLY(KA | KB)), OPS(SER_EARLY(KA, KB))}}, 2, 3},
        {"txn: both kinds, crossing", {START_PAIR, {OPS(SI_EARLY(KA | KB)), OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}}, 3, 2},
        {"txn: both kinds, cycle", {START_ALL, {OPS(SI_EARLY(KA | KB)), OPS(SER_EARLY(KB, KC)), OPS(SER_EARLY(KC, KA))}}, 3, 2},
        {"txn: both kinds, cycle, deeper", {START_ALL, {OPS(SI_EARLY(KA | KB)), OPS(SER_EARLY(KB, KC)), OPS(SER_EARLY(KC, KA))},
                .focus = FOCUS_INTENTS}, 3, 3, .costly = true},
        {"txn: serializable and set", {START_PAIR, {OPS(SER_EARLY(KA, KA | KB)), OPS(SET_B, SET_A)}}, 2, 3},
        {"txn: stable cut", {START_PAIR, {OPS(SI(KA | KB)), OPS(STABLE, LOOK)}}, 2, 3},
        {"txn: stable cut and get", {START_PAIR, {OPS(SI(KA | KB)), OPS(STABLE, LOOK), OPS(GET_A, GET_B)}}, 3, 2},
        {"txn: stable cut of others", {START_PAIR, {OPS(SI(KA | KB)), OPS(STABLE), OPS(LOOK, LOOK)}}, 3, 2},
        {"txn: stable cut of others, deeper", {START_PAIR, {OPS(SI(KA | KB)), OPS(STABLE), OPS(LOOK, LOOK)}, .focus = FOCUS_CUTS},
                3, 3, .costly = true},
        {"txn: evicted beside a delete and its removal", {START_PAIR, {OPS(EVICT), OPS(SER_EARLY(KA, KB)),
                OPS(DELETE_A, WORK, WORK)}, .engine = true}, 3, 2},
        {"txn: evicted while it reads", {START_PAIR, {OPS(EVICT), OPS(CUT(KA | KB)), OPS(SET_A, WORK)}, .engine = true}, 3, 2},
        {"txn: evicted, a range", {START_PAIR, {OPS(EVICT), OPS(RANGE_EARLY(2, KC)), OPS(DELETE_A, WORK)}, .engine = true}, 3, 2},
        {"txn: evicted under buffers", {START_PAIR, {OPS(EVICT), OPS(SER_EARLY(KA, KB)), OPS(DELETE_A, WORK, WORK)}, .engine = true},
                3, 1, .delays = 2},
        {"txn: evicted, killed before it looks", {START_PAIR, {OPS(EVICT), OPS(SER_EARLY(KA, KB)),
                OPS(DELETE_A, WORK, WORK, GET_B)}, .engine = true}, 3, 1, .crashes = 1, .crash_mask = 2, .costly = true},
        {"txn: evicted, its delete removed", {START_PAIR, {OPS(EVICT), OPS(TXN(.deletes = KA, .writes = KB, .early = true)),
                OPS(MEMORY, WORK)}, .engine = true}, 3, 2},
        {"txn: evicted, its delete removed, killed", {START_PAIR, {OPS(EVICT), OPS(TXN(.deletes = KA, .writes = KB, .early = true)),
                OPS(MEMORY, GET_B)}, .engine = true}, 3, 1, .crashes = 1, .crash_mask = 2, .costly = true},
        {"txn: evicted beside one that makes a key", {START_VALUE, {OPS(EVICT), OPS(SER_EARLY(KA, KB)),
                OPS(DELETE_A, MEMORY, SET_A)}, .engine = true}, 3, 1},
        {"txn: stable cut, serializable", {START_PAIR, {OPS(SER(KA, KB)), OPS(STABLE, LOOK), OPS(SET_A)}}, 3, 2},
};

static const struct world_case txn_memory[] = {
        {"txn: late helper", {START_PAIR, {OPS(SI_EARLY(KA | KB), FREE), OPS(SET_A, FREE), OPS(SET_B)}}, 3, 3, .costly = true},
        {"txn: one gives way late", {START_ALL, {
                OPS(TXN(.reads = KA | KB, .writes = KC, .serializable = true, .early = true, .prepared = true, .in = KC)),
                OPS(TXN(.writes = KB | KC, .early = true, .prepared = true, .in = KB)),
                OPS(SET_A, SET_B)}, .focus = FOCUS_INTENTS}, 3, 3},
        {"txn: aborted and freed", {START_PAIR, {OPS(SI_EARLY(KA | KB), FREE, WORK), OPS(SET_B, GET_A, SET_A, FREE)}},
                2, 3, .costly = true},
        {"txn: two aborted", {START_PAIR, {OPS(SI_EARLY(KA | KB), FREE), OPS(SI_EARLY(KA | KB), FREE), OPS(SET_B)}}, 3, 2},
        {"txn: helper over memory used again", {START_PAIR, {OPS(SI_EARLY(KA | KB), FREE, SET_C, WORK), OPS(SET_A), OPS(SET_B)}}, 3, 2},
        {"txn: revisions over aborted ones", {START_PAIR, {OPS(SI_EARLY(KA | KB)), OPS(SET_B, SET_A)}}, 2, 3},
        {"txn: link to an aborted one", {START_ABORTED_OVER, {OPS(WORK, WORK), OPS(SI(KA | KB)), OPS(SET_A)}, .focus = FOCUS_CUTS},
                3, 3, .costly = true},
        {"txn: link to an aborted one, two writers", {START_ABORTED_OVER, {OPS(WORK, WORK), OPS(SI(KB)), OPS(SI(KB))}}, 3, 2},
        {"txn: link to one aborted meanwhile", {START_ABORTED_MEANWHILE, {OPS(PREPARED(KA | KB)), OPS(SET_A), OPS(FREE, WORK)},
                .setup_by = 2}, 3, 3, .costly = true},
        {"txn: link to one aborted meanwhile, late helper", {START_ABORTED_MEANWHILE, {
                OPS(SET_A), OPS(TXN(.writes = KA | KB, .early = true, .prepared = true, .in = KA)), OPS(FREE, WORK)}, .setup_by = 2}, 3, 2},
        {"txn: helper and prune", {START_PAIR, {OPS(SI(KA | KB), WORK), OPS(SET_A)}}, 2, 3},
        {"txn: link and prune", {START_OLD, {OPS(WORK, WORK), OPS(SI(KA)), OPS(SET_A, WORK)}}, 3, 2},
        /* An open snapshot keeps what is older still. */
        {"txn: get, and what it came by pruned", {START_SNAPSHOT, {
                OPS(TXN(.writes = KA, .early = true, .prepared = true, .in = KA)), OPS(WORK), OPS(GET_A)}, .setup_by = 1}, 3, 2},
        {"txn: aborted over a placeholder", {START_ABORTED_PLACEHOLDER, {OPS(FREE, WORK), OPS(SWEEP), OPS(SET_A)}}, 3, 2},
        {"txn: aborted over a tombstone", {START_ABORTED_DELETED, {OPS(FREE, WORK), OPS(SWEEP), OPS(SET_A)}}, 3, 2},
        {"txn: aborted over a tombstone, txn", {START_ABORTED_DELETED, {OPS(FREE, WORK, WORK), OPS(SI(KA | KB)), OPS(GET_A)}}, 3, 2},
        {"txn: aborted over a value", {START_ABORTED, {OPS(FREE, WORK), OPS(DELETE_A, WORK), OPS(CUT(KA))}}, 3, 2},
        {"txn: aborted, memory work of two", {START_ABORTED_DELETED, {OPS(MEMORY), OPS(MEMORY)}}, 2, 2},
        {"txn: aborted, sets and work", {START_ABORTED, {OPS(FREE, WORK), OPS(SET_A, WORK), OPS(SET_A)}}, 3, 2},
        {"txn: killed", {START_PAIR, {OPS(SI(KA | KB))}}, 1, 0, .crashes = 1},
        {"txn: killed, three keys made", {START_EMPTY, {OPS(SI(KA | KB | KC))}}, 1, 0, .crashes = 1},
        {"txn: killed, serializable", {START_ALL, {OPS(SER(KA, KB | KC))}}, 1, 0, .crashes = 1},
        {"txn: killed, then reaped", {START_PAIR, {OPS(SI(KA | KB)), OPS(SET_B, FREE)}}, 2, 1, .crashes = 1, .crash_mask = 1},
        {"txn: killed, reaped meanwhile", {START_PAIR, {OPS(SI(KA | KB)), OPS(SET_B, FREE)}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true},
        {"txn: killed early one, reaped meanwhile", {START_PAIR, {OPS(SI_EARLY(KA | KB), FREE), OPS(SET_B, FREE), OPS(SET_A)}},
                3, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed, reaped under cut", {START_PAIR, {OPS(SI(KA | KB)), OPS(CUT(KA | KB))}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed serializable, reaped under txn", {START_PAIR, {OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed, killed reaper", {START_PAIR, {OPS(SI(KA | KB)), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"txn: killed make, reaped meanwhile", {START_EMPTY, {OPS(SI(KA | KB)), OPS(SET_B)}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed delete, reaped meanwhile", {START_PAIR, {OPS(TXN(.deletes = KA, .writes = KB)), OPS(GET_B, GET_A)}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed helper", {START_PAIR, {OPS(SET_A), OPS(SI(KA | KB), FREE)}}, 2, 2, .crashes = 1, .crash_mask = 1},
        {"txn: killed disposal", {START_ABORTED, {OPS(FREE)}}, 1, 0, .crashes = 1},
        {"txn: killed disposal, then reaped", {START_ABORTED, {OPS(FREE, WORK), OPS(SET_A)}}, 2, 1, .crashes = 1, .crash_mask = 1},
        {"txn: killed disposal, reaped under txn", {START_ABORTED, {OPS(FREE, WORK), OPS(SI(KA | KB), FREE)}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: killed disposal, killed reaper", {START_ABORTED, {OPS(FREE), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"txn: killed disposal, sweep", {START_ABORTED, {OPS(FREE), OPS(MEMORY)}},
                2, 1, .crashes = 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"txn: magazine", {START_MAGAZINE, {OPS(SI(KA)), OPS(SET_A, SET_A)}, .magazine = 2}, 2, 3},
        {"txn: magazine and work", {START_MAGAZINE, {OPS(SI(KA), WORK), OPS(SET_A, WORK, SET_A)}, .magazine = 2}, 2, 2},
        {"txn: magazine, two and sweep", {START_MAGAZINE, {OPS(SI(KA)), OPS(SET_A), OPS(SWEEP)}, .magazine = 2}, 3, 2},
        {"txn: note reader", {START_RETIRED, {OPS(FREE, STABLE), OPS(SI(KA), FREE, SI(KA))}}, 2, 3},
        {"txn: note reader under buffers", {START_ALL, {OPS(LARGE_C, STABLE), OPS(SI(KA), FREE)}}, 2, 2, .delays = 1},
        {"txn: note reader and sweep", {START_PAIR, {OPS(SI(KA), SWEEP), OPS(SWEEP, STABLE)},
                .focus = FOCUS_NOTES}, 2, 3, .costly = true},
        {"txn: note reader and sweep, killed", {START_PAIR, {OPS(SI(KA)), OPS(SWEEP, STABLE)},
                .focus = FOCUS_NOTES}, 2, 2, .crashes = 1, .crash_mask = 1, .reaper = true},
        {"txn: note reader and sweep, evicted", {START_PAIR, {OPS(SWEEP, EVICT), OPS(SI_EARLY(KA), SWEEP)},
                .focus = FOCUS_NOTES, .engine = true}, 2, 3, .costly = true},
        {"txn: leave", {START_PAIR, {OPS(SI_EARLY(KA | KB), FINI), OPS(SET_B, SET_A)}}, 2, 2},
        {"txn: check", {START_PAIR, {OPS(CHECK), OPS(SI(KA | KB), WORK)}}, 2, 1},
        {"txn: check of aborted ones", {START_ABORTED, {OPS(CHECK), OPS(FREE, WORK), OPS(SI(KA | KB))}, .setup_by = 1}, 3, 1},
        {"txn: full", {START_FULL, {OPS(SI(KA)), OPS(SET_A)}, .unit_count = 8}, 2, 1},
        {"txn: killed when full", {START_FULL, {OPS(SI(KA), SI(KA)), OPS(SET_A)}, .unit_count = 9}, 2, 0, .crashes = 1, .crash_mask = 1,
                .reaper = true},
};

static const struct world_case txn_deep[] = {
        {"deep: txn, note reader, sweep by another", {START_PAIR, {OPS(SI_EARLY(KA), FREE), OPS(SWEEP, FREE), OPS(STABLE)},
                .focus = FOCUS_NOTES}, 3, 3},
        {"deep: txn, note reader and sweep, killed", {START_PAIR, {OPS(SI(KA)), OPS(SWEEP, STABLE, SWEEP)}, .focus = FOCUS_NOTES},
                2, 2, .crashes = 1, .crash_mask = 1, .reaper = true},
        {"deep: txn, note reader and sweep, killed reaper", {START_PAIR, {OPS(SI(KA)), OPS(SWEEP, STABLE)}, .focus = FOCUS_NOTES},
                2, 1, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"deep: txn, note reader and sweep, buffers", {START_PAIR, {OPS(SI(KA), SWEEP), OPS(SWEEP, STABLE)}, .unit_count = 8,
                .focus = FOCUS_NOTES}, 2, 2, .delays = 1},
};
/* clang-format on */

const struct world_list world_txn = {"txn", txns, sizeof txns / sizeof *txns};
const struct world_list world_txn_memory = {
        "txn-memory", txn_memory, sizeof txn_memory / sizeof *txn_memory};
const struct world_list world_txn_deep = {"txn-deep", txn_deep, sizeof txn_deep / sizeof *txn_deep};
