/* The scenarios of movers; see lists.h, lists.c and mover.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define KA 1u
#define KB 2u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}
#define SI(keys)           TXN(.writes = keys)
#define SI_EARLY(keys)     TXN(.writes = keys, .early = true)
#define SER_EARLY(read, keys) TXN(.reads = read, .writes = keys, .serializable = true, .early = true)
#define SER_IN(read, keys) TXN(.reads = read, .writes = keys, .serializable = true, .early = true, .prepared = true, .in = keys)
#define PREPARED(keys)     TXN(.writes = keys, .early = true, .prepared = true)
#define CUT(keys)          TXN(.reads = keys)
#define SER(read, keys)    TXN(.reads = read, .writes = keys, .serializable = true)
#define LARGES(keys)       TXN(.writes = keys, .large = true)
#define DELETE_B {OP_DELETE, KEY_B}
#define SNAP_B   {OP_SNAPSHOT, KEY_B}
#define LARGE_B  {OP_LARGE, KEY_B}
#define FINI     {OP_FINI, KEY_A}
#define MOVE_B   {OP_MOVE, KEY_B}
#define RESTORE  {OP_RESTORE, KEY_A}
#define SEEKS    {OP_SCAN, KEY_A, .way = WAY_SEEK}
#define AT_ONCE  {OP_MANY, KEY_A, .way = WAY_MANY}
#define MOVE_A   {OP_MOVE, KEY_A}
#define MOVE_ON_A {OP_MOVE, KEY_A, .way = WAY_TURN}
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define CAS_A    {OP_CAS, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define GET_A    {OP_GET, KEY_A}
#define HOLD_A   {OP_HOLD, KEY_A}
#define READ     {OP_READ, KEY_A}
#define MANY     {OP_MANY, KEY_A}
#define SNAP_A   {OP_SNAPSHOT, KEY_A}
#define PAST_A   {OP_PAST, KEY_A}
#define AT_A     {OP_AT, KEY_A}
#define RULED_A  {OP_AT, KEY_A, .way = WAY_PAST}
#define KEEP_A   {OP_KEEP, KEY_A}
#define SCAN     {OP_SCAN, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define CHECK    {OP_CHECK, KEY_A}
#define FREE     {OP_FREE, KEY_A}
#define TICK     {OP_TICK, KEY_A}
#define STABLE   {OP_STABLE, KEY_A}
#define OBSERVE  {OP_OBSERVE, KEY_A}
#define EVICT    {OP_EVICT, KEY_A}
#define DUE      {OP_DUE, KEY_A}
#define HISTORY_A {OP_HISTORY, KEY_A}
#define PAST_ALL  {OP_HISTORY, KEY_A, .way = WAY_BACK}
#define FIND_A   {OP_FIND, KEY_A}
#define GET_B    {OP_GET, KEY_B}
#define LARGE_A  {OP_LARGE, KEY_A}
#define APART    .setup_by = MODEL_THREADS, .unit_count = 14
/* A client that does no more, on a bus so small that it keeps its slabs. */
#define MAKER    .setup_by = 3, .unit_count = 14

static const struct world_case moves[] = {
        {"move: alone", {START_VALUE, {OPS(MOVE_A)}, MAKER}, 1, 0},
        {"move: head beside set", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 2},
        {"move: head beside set, the long way", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER, .short_keys = true}, 2, 2},
        {"move: head beside delete", {START_VALUE, {OPS(MOVE_A), OPS(DELETE_A)}, MAKER}, 2, 2},
        {"move: head beside cas", {START_VALUE, {OPS(MOVE_A), OPS(CAS_A)}, MAKER}, 2, 2},
        {"move: head beside cas and set", {START_VALUE, {OPS(MOVE_A), OPS(CAS_A), OPS(SET_A)}, MAKER}, 3, 2},
        {"move: head beside two sets", {START_VALUE, {OPS(MOVE_A), OPS(SET_A, SET_A), OPS(SNAP_A)}, MAKER}, 3, 1},
        {"move: chain beside a pruner", {START_CHAIN, {OPS(MOVE_A), OPS(WORK)}, .setup_by = 1}, 2, 2},
        {"move: chain beside a sweep", {START_CHAIN, {OPS(MOVE_A), OPS(SWEEP)}, MAKER}, 2, 2},
        {"move: over an old snapshot beside a set", {START_KEPT, {OPS(MOVE_A), OPS(SET_A, PAST_A)}, MAKER}, 2, 2},
        {"move: over an old snapshot beside reads", {START_KEPT, {OPS(MOVE_A), OPS(PAST_A, GET_A)}, MAKER}, 2, 2},
        {"move: over an old snapshot that ends", {START_KEPT, {OPS(EVICT, WORK), OPS(MOVE_A), OPS(SET_A)}, MAKER, .engine = true}, 3, 1},
        {"move: seen by an old snapshot beside a set", {START_SEEN, {OPS(MOVE_A), OPS(SET_A, PAST_A)}, MAKER}, 2, 2},
        {"move: get", {START_VALUE, {OPS(MOVE_A), OPS(GET_A)}, MAKER}, 2, 3},
        {"move: hold", {START_VALUE, {OPS(MOVE_A), OPS(HOLD_A, READ)}, MAKER}, 2, 3},
        {"move: many", {START_PAIR, {OPS(MOVE_A), OPS(MANY)}, MAKER}, 2, 2},
        {"move: snapshot", {START_VALUE, {OPS(MOVE_A), OPS(SNAP_A)}, MAKER}, 2, 2},
        {"move: snapshot, set, prune", {START_VALUE, {OPS(MOVE_A), OPS(SNAP_A), OPS(SET_A, WORK)}, MAKER}, 3, 1},
        {"move: scan", {START_PAIR, {OPS(MOVE_A), OPS(SCAN), OPS(SET_B)}, MAKER}, 3, 1},
        {"move: past beside a set", {START_VALUE, {OPS(MOVE_A), OPS(AT_A), OPS(SET_A)}, MAKER}, 3, 2},
        {"move: keep beside sets", {START_VALUE, {OPS(MOVE_A), OPS(KEEP_A), OPS(SET_A)}, MAKER}, 3, 1},
        {"move: ruled, read", {START_RULED, {OPS(MOVE_A, RULED_A), OPS(RULED_A)}, MAKER}, 2, 2},
        {"move: ruled beside a pruner", {START_RULED, {OPS(MOVE_A), OPS(SWEEP, RULED_A)}, MAKER}, 2, 2},
        {"move: ruled beside a set", {START_RULED, {OPS(MOVE_A), OPS(SET_A, WORK)}, MAKER}, 2, 2},
        {"move: two movers", {START_VALUE, {OPS(MOVE_A), OPS(MOVE_A)}, MAKER}, 2, 2},
        {"move: two movers of two", {START_PAIR, {OPS(MOVE_A), OPS(MOVE_A), OPS(SET_A)}, MAKER}, 3, 1},
        {"move: tombstone beside its removal", {START_DELETED, {OPS(MOVE_A), OPS(WORK)}, .setup_by = 1, .focus = FOCUS_CUTS}, 2, 3},
        {"move: tombstone beside a sweep", {START_DELETED, {OPS(MOVE_A), OPS(MEMORY)}, MAKER}, 2, 1},
        {"move: tombstone beside a set", {START_DELETED, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 2},
        {"move: beside a sweep", {START_VALUE, {OPS(MOVE_A), OPS(SWEEP)}, MAKER}, 2, 2},
        {"move: beside a sweep and a set", {START_VALUE, {OPS(MOVE_A), OPS(SWEEP), OPS(SET_A)}, MAKER}, 3, 1},
        {"move: check", {START_VALUE, {OPS(MOVE_A), OPS(CHECK)}, MAKER}, 2, 2},
        {"move: observer", {START_VALUE, {OPS(MOVE_A), OPS(OBSERVE, OBSERVE), OPS(SET_A, STABLE)}, MAKER}, 3, 1},
        {"move: under buffers", {START_VALUE, {OPS(MOVE_A), OPS(GET_A)}, MAKER}, 2, 1, .delays = 1},
        {"move: beside set under buffers", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 1, .delays = 1},
        {"move: into a magazine", {START_VALUE, {OPS(MOVE_A), OPS(SET_A, WORK, SET_A)}, MAKER, .magazine = 2}, 2, 2},
        {"move: into a magazine, killed", {START_VALUE, {OPS(SET_A, SET_A), OPS(MOVE_A)}, MAKER, .magazine = 2}, 2, 0, 1, .crash_mask = 1,
                .reaper = true},
        {"move: beside what is in hand", {START_MAGAZINE, {OPS(MOVE_A), OPS(SET_A, WORK, SET_A)}, .setup_by = 1, .magazine = 2}, 2, 2},
        {"move: magazine over a kept one", {START_KEPT, {OPS(MOVE_A), OPS(SET_A, SET_A, WORK)}, .setup_by = 3, .magazine = 2}, 2, 2},
        {"move: spare", {START_SPARE, {OPS(MOVE_A), OPS(SET_A, DUE, SET_A)}, .setup_by = 1, .magazine = 4}, 2, 2},
        {"move: txn", {START_VALUE, {OPS(MOVE_A), OPS(SI(KA))}, MAKER}, 2, 2},
        {"move: txn of two", {START_PAIR, {OPS(MOVE_A), OPS(SI(KA | KB)), OPS(CUT(KA | KB))}, MAKER}, 3, 1},
        {"move: txn and its helper", {START_SEEN, {OPS(MOVE_A), OPS(SI(KA)), OPS(GET_A)}, MAKER}, 3, 2},
        {"move: txn and set", {START_SEEN, {OPS(MOVE_A), OPS(SI(KA)), OPS(SET_A)}, MAKER}, 3, 2},
        {"move: txn, prepared", {START_SEEN, {OPS(MOVE_A), OPS(PREPARED(KA)), OPS(SET_A)}, MAKER}, 3, 2},
        {"move: txn, serializable", {START_PAIR, {OPS(MOVE_A), OPS(SER(KA, KB))}, MAKER}, 2, 2},
        {"move: txn, serializable, and set", {START_PAIR, {OPS(MOVE_A), OPS(SER(KA, KB)), OPS(SET_A)}, MAKER}, 3, 1},
        {"move: what a txn wrote", {START_TXN, {OPS(MOVE_A), OPS(SI(KA)), OPS(GET_A, GET_B)}, MAKER}, 3, 1},
        {"move: what a txn wrote beside a sweep", {START_TXN, {OPS(MOVE_A), OPS(SWEEP)}, MAKER}, 2, 2},
        {"move: aborted above", {START_ABORTED, {OPS(MOVE_A), OPS(SET_A, WORK)}, MAKER}, 2, 2},
        {"move: aborted above beside a sweep", {START_ABORTED, {OPS(MOVE_A), OPS(MEMORY)}, MAKER}, 2, 1},
        {"move: aborted above a tombstone", {START_ABORTED_DELETED, {OPS(MOVE_A), OPS(WORK)}, .setup_by = 1}, 2, 2},
        {"move: txn, late helper", {START_PAIR, {OPS(MOVE_A), OPS(SI_EARLY(KA | KB)), OPS(SET_B)}, MAKER}, 3, 1},
        {"move: txn, skew", {START_PAIR, {OPS(MOVE_A), OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}, MAKER}, 3, 1},
        {"move: txn, skew, both in", {START_PAIR, {OPS(MOVE_A), OPS(SER_IN(KA, KB)), OPS(SER_IN(KB, KA))}, MAKER}, 3, 1},
        {"move: txn, link to an aborted one", {START_ABORTED_OVER, {OPS(MOVE_B), OPS(SI(KB)), OPS(WORK, WORK)}, MAKER}, 3, 1},
        {"move: txn, link to one aborted meanwhile", {START_ABORTED_MEANWHILE, {OPS(MOVE_B), OPS(PREPARED(KA | KB)), OPS(FREE, WORK)},
                MAKER}, 3, 1},
        {"move: killed, then reaped", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 0, 1, .crash_mask = 1},
        {"move: killed, reaped meanwhile", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed, and another mover", {START_VALUE, {OPS(MOVE_A), OPS(MOVE_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed, and a sweep", {START_VALUE, {OPS(MOVE_A), OPS(SWEEP)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed over an old snapshot", {START_KEPT, {OPS(MOVE_A), OPS(SET_A, PAST_A)}, MAKER}, 2, 0, 1, .crash_mask = 1,
                .reaper = true},
        {"move: killed, ruled", {START_RULED, {OPS(MOVE_A), OPS(SWEEP, RULED_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed, a tombstone", {START_DELETED, {OPS(MOVE_A), OPS(MEMORY)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed set", {START_VALUE, {OPS(SET_A), OPS(MOVE_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed pruner", {START_CHAIN, {OPS(WORK), OPS(MOVE_A)}, .setup_by = 0}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed removal", {START_DELETED, {OPS(WORK), OPS(MOVE_A)}, .setup_by = 0}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: killed txn", {START_SEEN, {OPS(SI(KA)), OPS(MOVE_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: tick", {START_CHAIN, {OPS(TICK, TICK), OPS(MOVE_A), OPS(GET_A)}, .setup_by = 0, .engine = true}, 3, 1},
        {"move: users: history", {START_RULED, {OPS(MOVE_A), OPS(HISTORY_A)}, MAKER, .users = true, .guards = 4}, 2, 2},
        {"move: users: history back", {START_RULED, {OPS(MOVE_A), OPS(PAST_ALL)}, MAKER, .users = true, .guards = 4}, 2, 2},
        {"move: users: history, what it came by moves and goes", {START_RULED, {OPS(MOVE_A, SET_A, WORK), OPS(HISTORY_A)}, MAKER,
                .users = true, .guards = 4}, 2, 1},
        {"move: users: history, what it came by moves twice", {START_KEPT, {OPS(MOVE_A, MOVE_ON_A), OPS(HISTORY_A)}, MAKER,
                .users = true, .guards = 4}, 2, 1},
        {"move: old snapshot, what it came by moves twice", {START_KEPT, {OPS(MOVE_A, MOVE_ON_A), OPS(PAST_A)}, MAKER}, 2, 1},
        {"move: users: killed, history", {START_RULED, {OPS(MOVE_A), OPS(HISTORY_A, PAST_ALL)}, MAKER, .users = true, .guards = 4},
                2, 0, 1, .crash_mask = 1},
        {"move: users: restore", {START_MARKED, {OPS(MOVE_A), OPS(RESTORE)}, MAKER, .users = true, .guards = 6}, 2, 2},
        {"move: users: scan by seeks", {START_PAIR, {OPS(MOVE_A), OPS(SEEKS)}, MAKER, .users = true, .guards = 8}, 2, 2},
        {"move: users: many at one moment", {START_PAIR, {OPS(MOVE_A), OPS(AT_ONCE)}, MAKER, .users = true, .guards = 4}, 2, 2},
        {"move: users: marked, and set", {START_MARKED_BELOW, {OPS(MOVE_A), OPS(FIND_A), OPS(SET_A, WORK)}, MAKER, .users = true,
                .guards = 3}, 3, 1},
        {"move: one unit, alone", {START_SINGLE, {OPS(MOVE_A)}, MAKER}, 1, 0},
        {"move: one unit, beside get", {START_SINGLE, {OPS(MOVE_A), OPS(GET_A, GET_A)}, MAKER}, 2, 2},
        {"move: one unit, beside hold", {START_SINGLE, {OPS(MOVE_A), OPS(HOLD_A, READ)}, MAKER}, 2, 2},
        {"move: one unit, beside a set", {START_SINGLE, {OPS(MOVE_A), OPS(SET_A, WORK)}, MAKER}, 2, 2},
        {"move: one unit, beside large", {START_SINGLE, {OPS(MOVE_A), OPS(LARGE_A, WORK)}, MAKER}, 2, 1},
        {"move: one unit, beside a delete", {START_SINGLE, {OPS(MOVE_A), OPS(DELETE_A, WORK, WORK)}, MAKER}, 2, 1},
        {"move: one unit, beside a cut", {START_SINGLE, {OPS(MOVE_A), OPS(SNAP_A), OPS(SET_A, WORK)}, MAKER}, 3, 1},
        {"move: one unit, beside a sweep", {START_SINGLE, {OPS(MOVE_A), OPS(MEMORY)}, MAKER}, 2, 1},
        {"move: one unit, beside check", {START_SINGLE, {OPS(MOVE_A), OPS(CHECK)}, MAKER}, 2, 1},
        {"move: one unit, two movers", {START_SINGLE, {OPS(MOVE_A), OPS(MOVE_A)}, MAKER}, 2, 2},
        {"move: one unit, killed", {START_SINGLE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: one unit, killed, and another mover", {START_SINGLE, {OPS(MOVE_A), OPS(MOVE_A)}, MAKER}, 2, 0, 1, .crash_mask = 1,
                .reaper = true},
        {"move: one unit, killed set", {START_SINGLE, {OPS(SET_A), OPS(MOVE_A)}, MAKER}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: users: large alone", {START_APART, {OPS(LARGE_A)}, APART, .users = true}, 1, 0},
        {"move: users: large, killed", {START_APART, {OPS(LARGE_A)}, APART, .users = true}, 1, 0, 1},
        {"move: large alone", {START_APART, {OPS(LARGE_A)}, APART}, 1, 0},
        {"move: large beside get", {START_APART, {OPS(LARGE_A), OPS(GET_A, GET_B)}, APART}, 2, 1},
        {"move: large beside set", {START_APART, {OPS(LARGE_A), OPS(SET_B)}, APART}, 2, 1},
        {"move: large beside a sweep", {START_APART, {OPS(LARGE_A), OPS(SWEEP)}, APART}, 2, 1},
        {"move: large beside check", {START_APART, {OPS(LARGE_A), OPS(CHECK)}, APART}, 2, 1},
        {"move: large beside a delete", {START_APART, {OPS(LARGE_A), OPS(DELETE_B, WORK, WORK)}, APART}, 2, 1},
        {"move: large beside a cut", {START_APART, {OPS(LARGE_A), OPS(SNAP_B)}, APART}, 2, 1},
        {"move: large beside large", {START_APART, {OPS(LARGE_A), OPS(LARGE_B)}, APART}, 2, 1},
        {"move: large beside a leaver", {START_APART, {OPS(LARGE_A), OPS(SET_B, FINI)}, APART}, 2, 1},
        {"move: large, killed", {START_APART, {OPS(LARGE_A), OPS(GET_B)}, APART}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"move: two large in a txn", {START_APART, {OPS(LARGES(KA | KB))}, APART}, 1, 0},
        {"move: two large in a txn beside get", {START_APART, {OPS(LARGES(KA | KB)), OPS(GET_A, GET_B)}, APART}, 2, 1},
        {"move: two large in a txn beside set", {START_APART, {OPS(LARGES(KA | KB)), OPS(SET_B)}, APART}, 2, 1},
        {"move: two large in a txn beside a sweep", {START_APART, {OPS(LARGES(KA | KB)), OPS(SWEEP)}, APART}, 2, 1},
        {"move: two large in a txn, killed", {START_APART, {OPS(LARGES(KA | KB)), OPS(GET_B)}, APART}, 2, 0, 1, .crash_mask = 1,
                .reaper = true},
        {"move: large beside a slow sweep", {START_APART, {OPS(LARGE_A), OPS(SWEEP, FREE)}, APART, .mimic_eras = 22}, 2, 2},
};

/* More preemptions, or one beside a kill. */
static const struct world_case moves_deep[] = {
        {"deep: move, killed, then reaped", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 1, 1, .crash_mask = 1},
        {"deep: move, killed, reaped meanwhile", {START_VALUE, {OPS(MOVE_A), OPS(SET_A)}, MAKER}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed, and another mover", {START_VALUE, {OPS(MOVE_A), OPS(MOVE_A)}, MAKER}, 2, 1, 1, .crash_mask = 1,
                .reaper = true},
        {"deep: move, killed, and a sweep", {START_VALUE, {OPS(MOVE_A), OPS(SWEEP)}, MAKER}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed over an old snapshot", {START_KEPT, {OPS(MOVE_A), OPS(SET_A, PAST_A)}, MAKER}, 2, 1, 1, .crash_mask = 1,
                .reaper = true},
        {"deep: move, killed, ruled", {START_RULED, {OPS(MOVE_A), OPS(SWEEP, RULED_A)}, MAKER}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed set", {START_VALUE, {OPS(SET_A), OPS(MOVE_A)}, MAKER}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed pruner", {START_CHAIN, {OPS(WORK), OPS(MOVE_A)}, .setup_by = 0}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed removal", {START_DELETED, {OPS(WORK), OPS(MOVE_A)}, .setup_by = 0}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed txn", {START_SEEN, {OPS(SI(KA)), OPS(MOVE_A)}, MAKER}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: move, killed, killed reaper", {START_VALUE, {OPS(MOVE_A), OPS(GET_A)}, MAKER}, 2, 0, 2, .crash_mask = 1 | MODEL_REAPER,
                .reaper = true},
        {"deep: move, head beside set", {START_VALUE, {OPS(MOVE_A), OPS(SET_A, SET_A)}, MAKER}, 2, 3},
        {"deep: move, chain beside a pruner", {START_CHAIN, {OPS(MOVE_A), OPS(WORK)}, .setup_by = 1, .focus = FOCUS_CUTS}, 2, 3},
        {"deep: move, txn and its helper", {START_SEEN, {OPS(MOVE_A), OPS(SI(KA)), OPS(GET_A)}, MAKER, .focus = FOCUS_CUTS}, 3, 3},
        {"deep: move, txn, late helper", {START_PAIR, {OPS(MOVE_A), OPS(SI_EARLY(KA | KB)), OPS(SET_B)}, MAKER, .focus = FOCUS_CUTS}, 3, 2},
        {"deep: move, txn, skew", {START_PAIR, {OPS(MOVE_A), OPS(SER_EARLY(KA, KB)), OPS(SER_EARLY(KB, KA))}, MAKER,
                .focus = FOCUS_CUTS}, 3, 2},
        {"deep: move, txn, link to an aborted one", {START_ABORTED_OVER, {OPS(MOVE_B), OPS(SI(KB)), OPS(WORK, WORK)}, MAKER,
                .focus = FOCUS_CUTS}, 3, 2},
        {"deep: move, txn, link to one aborted meanwhile", {START_ABORTED_MEANWHILE, {OPS(MOVE_B), OPS(PREPARED(KA | KB)),
                OPS(FREE, WORK)}, MAKER, .focus = FOCUS_CUTS}, 3, 3},
        {"deep: move, users: restore beside a set", {START_MARKED, {OPS(MOVE_A), OPS(RESTORE), OPS(SET_A)}, MAKER, .users = true,
                .guards = 6, .focus = FOCUS_CUTS}, 3, 2},
        {"deep: move, txn and set", {START_SEEN, {OPS(MOVE_A), OPS(SI(KA)), OPS(SET_A)}, MAKER, .focus = FOCUS_CUTS}, 3, 3},
        {"deep: move, ruled, pruner and read", {START_RULED, {OPS(MOVE_A), OPS(SWEEP), OPS(RULED_A)}, MAKER, .focus = FOCUS_CUTS}, 3, 2},
        {"deep: move, large beside set and work", {START_APART, {OPS(LARGE_A), OPS(SET_B, WORK)}, APART, .focus = FOCUS_MEMORY}, 2, 2},
        {"deep: move, large beside a sweep", {START_APART, {OPS(LARGE_A), OPS(SWEEP)}, APART, .focus = FOCUS_MEMORY}, 2, 2},
        {"deep: move, large, killed", {START_APART, {OPS(LARGE_A), OPS(GET_B, SET_B)}, APART, .focus = FOCUS_MEMORY}, 2, 1, 1,
                .crash_mask = 1, .reaper = true},
};
/* clang-format on */

const struct world_list world_moves = {"moves", moves, sizeof moves / sizeof *moves};
const struct world_list world_moves_deep = {
        "moves_deep", moves_deep, sizeof moves_deep / sizeof *moves_deep};
