/*
 * The scenarios in which threads make the public calls; see lists.h, lists.c and users.c.
 */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define KA 1u
#define KB 2u
#define KC 4u
#define TXN(...) {OP_TXN, KEY_A, {__VA_ARGS__}}
#define SET_A     {OP_SET, KEY_A}
#define SET_B     {OP_SET, KEY_B}
#define SET_C     {OP_SET, KEY_C}
#define CAS_A     {OP_CAS, KEY_A}
#define DELETE_A  {OP_DELETE, KEY_A}
#define DELETE_B  {OP_DELETE, KEY_B}
#define GET_A     {OP_GET, KEY_A}
#define GET_B     {OP_GET, KEY_B}
#define GET_C     {OP_GET, KEY_C}
#define HOLD_A    {OP_HOLD, KEY_A}
#define HOLD_C    {OP_HOLD, KEY_C}
#define READ      {OP_READ, KEY_A}
#define MANY_A    {OP_MANY, KEY_A}
#define MANY_C    {OP_MANY, KEY_C}
#define SCAN      {OP_SCAN, KEY_A}
#define BACK      {OP_SCAN, KEY_A, .way = WAY_BACK}
#define TURN      {OP_SCAN, KEY_A, .way = WAY_TURN}
#define BATCHES   {OP_SCAN, KEY_A, .way = WAY_MANY}
#define SEEKS     {OP_SCAN, KEY_A, .way = WAY_SEEK}
#define AT_ONCE   {OP_MANY, KEY_A, .way = WAY_MANY}
#define AT_ALL_A  {OP_AT, KEY_A, .way = WAY_MANY}
#define CLEAR     {OP_CLEAR, KEY_A}
#define TOLD_A    {OP_TOLD, KEY_A}
#define TOLD_MANY {OP_TOLD, KEY_A, .way = WAY_MANY}
#define RESTORE   {OP_RESTORE, KEY_A}
#define UNDO_A    {OP_RESTORE, KEY_A, .way = WAY_SHORT}
#define SNAP_A    {OP_SNAPSHOT, KEY_A}
#define AT_A      {OP_AT, KEY_A}
#define KEEP_A    {OP_KEEP, KEY_A}
#define MARK_A    {OP_MARK, KEY_A}
#define HISTORY_A {OP_HISTORY, KEY_A}
#define PAST_ALL  {OP_HISTORY, KEY_A, .way = WAY_BACK}
#define WORK      {OP_WORK, KEY_A}
#define MEMORY    {OP_MEMORY, KEY_A}
#define SWEEP     {OP_SWEEP, KEY_A}
#define FREE      {OP_FREE, KEY_A}
#define HOLD_B    {OP_HOLD, KEY_B}
#define FIRST_A   {OP_HISTORY, KEY_A, .way = WAY_SHORT}
#define PASSING_A {OP_HISTORY, KEY_A, .way = WAY_TURN}
#define OLD_SCAN  {OP_SCAN, KEY_A, .way = WAY_PAST}
#define DELETE_C  {OP_DELETE, KEY_C}
#define FIND_A    {OP_FIND, KEY_A}
#define DROP      {OP_DROP, KEY_A}
#define RENEW     {OP_DROP, KEY_A, .way = WAY_TURN}
#define SER(read, keys) TXN(.reads = read, .writes = keys, .serializable = true)
#define EVICT     {OP_EVICT, KEY_A}
#define EVICT_OLD {OP_EVICT, KEY_A, .way = WAY_PAST}

static const struct world_case users[] = {
        {"users: get under set and free", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .users = true}, 2, 2},
        {"users: get under set and free, the long way", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .users = true,
                .short_keys = true}, 2, 2},
        {"users: hold, get, read under sets", {START_MAGAZINE, {OPS(HOLD_A, GET_A, READ), OPS(SET_A, WORK, SET_A)}, .users = true,
                .magazine = 2, .setup_by = 1}, 2, 2},
        {"users: hold two, get, read", {START_PAIR, {OPS(HOLD_A, HOLD_B, GET_A, READ), OPS(SET_A, SET_B, WORK)}, .users = true,
                .guards = 2}, 2, 2},
        {"users: cas and cas", {START_VALUE, {OPS(CAS_A), OPS(CAS_A)}, .users = true}, 2, 3},
        {"users: many, a slow key first", {START_PAIR, {OPS(MANY_C), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: many", {START_PAIR, {OPS(MANY_A), OPS(SET_B, WORK, DELETE_A)}, .users = true, .guards = 3}, 2, 2},
        {"users: many at one moment", {START_PAIR, {OPS(AT_ONCE), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: many at one moment beside deletes", {START_PAIR, {OPS(AT_ONCE), OPS(DELETE_A, SET_B, WORK)}, .users = true,
                .guards = 4}, 2, 2},
        {"users: evict beside many at one moment", {START_PAIR, {OPS(EVICT), OPS(AT_ONCE), OPS(SET_B, DELETE_A, WORK, WORK)},
                .users = true, .guards = 4, .engine = true}, 3, 2},
        {"users: killed read at one moment", {START_PAIR, {OPS(AT_ONCE), OPS(SET_A, WORK)}, .users = true, .guards = 4}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"users: scan beside sets", {START_PAIR, {OPS(SCAN), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: scan over keys that go", {START_BOTH_DELETED, {OPS(SCAN), OPS(WORK, WORK)}, .users = true, .guards = 4,
                .setup_by = 1}, 2, 2},
        {"users: scan back over keys that go", {START_BOTH_DELETED, {OPS(BACK), OPS(WORK, WORK)}, .users = true, .guards = 4,
                .setup_by = 1}, 2, 2},
        {"users: scan from a node that goes", {START_ALL_DELETED, {OPS(SCAN), OPS(WORK, WORK, WORK, MEMORY)}, .users = true, .guards = 4,
                .setup_by = 1}, 2, 2},
        {"users: scan by nodes that nothing holds", {START_ALL_DELETED, {OPS(SCAN), OPS(WORK, WORK, WORK, MEMORY)}, .users = true,
                .guards = 4, .setup_by = 1, .ahead = 3}, 2, 2},
        {"users: scan by nodes ahead beside sets", {START_PAIR, {OPS(SCAN), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 4,
                .ahead = 3}, 2, 2},
        {"users: scan by nodes ahead and back", {START_PAIR, {OPS(TURN), OPS(DELETE_A, WORK)}, .users = true, .guards = 6,
                .ahead = 3}, 2, 2},
        {"users: scan of a past that is gone", {START_TRIMMED, {OPS(OLD_SCAN), OPS(SET_A, WORK)}, .users = true, .guards = 3,
                .setup_by = 1}, 2, 2},
        {"users: scan and back", {START_PAIR, {OPS(TURN), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: scan by batches beside sets", {START_PAIR, {OPS(BATCHES), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: scan by batches over keys that go", {START_BOTH_DELETED, {OPS(BATCHES), OPS(WORK, WORK)}, .users = true, .guards = 4,
                .setup_by = 1}, 2, 2},
        {"users: scan by seeks beside sets", {START_PAIR, {OPS(SEEKS), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 8}, 2, 2},
        {"users: scan by seeks over keys that go", {START_BOTH_DELETED, {OPS(SEEKS), OPS(WORK, WORK)}, .users = true, .guards = 8,
                .setup_by = 1}, 2, 2},
        {"users: killed scan by seeks", {START_PAIR, {OPS(SEEKS), OPS(SET_A, WORK)}, .users = true, .guards = 8}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"users: evict beside a scan", {START_PAIR, {OPS(EVICT), OPS(SCAN), OPS(DELETE_A, WORK, WORK)}, .users = true, .guards = 4,
                .engine = true}, 3, 2},
        {"users: evict beside a scan and back", {START_PAIR, {OPS(EVICT), OPS(TURN), OPS(DELETE_A, WORK, WORK)}, .users = true,
                .guards = 6, .engine = true}, 3, 2},
        {"users: evict beside a scan by nodes ahead", {START_PAIR, {OPS(EVICT), OPS(SCAN), OPS(DELETE_A, WORK, WORK)}, .users = true,
                .guards = 4, .engine = true, .ahead = 3}, 3, 2},
        {"users: a cut", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: past", {START_VALUE, {OPS(AT_A), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: past by the call for many", {START_VALUE, {OPS(AT_ALL_A), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: past beside a delete and a removal", {START_PAIR, {OPS(AT_A), OPS(DELETE_A, WORK, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: told of a cut", {START_VALUE, {OPS(TOLD_A), OPS(SET_A, SET_A)}, .users = true, .guards = 3}, 2, 2},
        {"users: told of a cut, by the call for many", {START_VALUE, {OPS(TOLD_MANY), OPS(SET_A, SET_A)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: told of a cut beside another writer", {START_VALUE, {OPS(TOLD_A), OPS(SET_A), OPS(DELETE_A, WORK)},
                .users = true, .guards = 3}, 3, 2},
        {"users: keep", {START_VALUE, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: mark", {START_VALUE, {OPS(MARK_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: find and drop a mark", {START_MARKED, {OPS(FIND_A), OPS(DROP, WORK, WORK)}, .users = true, .guards = 3,
                .setup_by = 1}, 2, 2},
        {"users: set above a cut, held", {START_MARKED_BELOW, {OPS(HOLD_A, READ), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: set above a cut that is read", {START_MARKED_BELOW, {OPS(FIND_A), OPS(SET_A, WORK)}, .users = true, .guards = 3,
                .magazine = 2}, 2, 2},
        {"users: set above a cut beside another set", {START_MARKED_BELOW, {OPS(SET_A, SET_A), OPS(SET_A)}, .users = true,
                .guards = 3, .magazine = 2}, 2, 2},
        {"users: set above a cut, another comes", {START_MARKED_BELOW, {OPS(SNAP_A), OPS(SET_A, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: set above a cut, another comes, the long way", {START_MARKED_BELOW, {OPS(SNAP_A), OPS(SET_A, WORK)}, .users = true,
                .guards = 3, .short_keys = true}, 2, 2},
        {"users: set above a cut, its mark dropped", {START_MARKED_BELOW, {OPS(DROP, WORK), OPS(SET_A, SET_A)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: set above a cut, evicted", {START_MARKED_BELOW, {OPS(EVICT), OPS(SNAP_A), OPS(SET_A, WORK)}, .users = true,
                .guards = 3, .engine = true}, 3, 2},
        {"users: set above a cut, history", {START_MARKED_BELOW, {OPS(HISTORY_A), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: killed set above a cut", {START_MARKED_BELOW, {OPS(SET_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"users: spares out of a slab, sets", {START_VALUE, {OPS(SET_B, SET_A, SET_B)}, .users = true, .unit_count = 96, .takes = 3,
                .magazine = 4, .setup_by = 2}, 1, 1},
        {"users: spares out of a slab, sets and sweep", {START_VALUE, {OPS(SET_B, SET_A, SET_B), OPS(SWEEP, FREE, SET_A)},
                .users = true, .unit_count = 96, .takes = 3, .magazine = 4, .setup_by = 2}, 2, 2},
        {"users: spares out of a slab, sets and get", {START_VALUE, {OPS(SET_B, SET_A, SET_A), OPS(GET_A, GET_B)},
                .users = true, .unit_count = 96, .takes = 3, .magazine = 4, .setup_by = 2}, 2, 2},
        {"users: spares out of a slab, killed", {START_VALUE, {OPS(SET_B, SET_A)}, .users = true, .unit_count = 96, .takes = 3,
                .magazine = 4, .setup_by = 2}, 1, 1, .crashes = 1},
        {"users: evict beside a cut", {START_PAIR, {OPS(EVICT), OPS(SNAP_A), OPS(DELETE_A, WORK, WORK)}, .users = true, .guards = 3,
                .engine = true}, 3, 2},
        {"users: killed mark", {START_VALUE, {OPS(MARK_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"users: killed scan", {START_PAIR, {OPS(SCAN), OPS(SET_A, WORK)}, .users = true, .guards = 4}, 2, 0, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"users: history", {START_CHAIN, {OPS(HISTORY_A), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: history, passing on", {START_CHAIN, {OPS(PASSING_A), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: history, the newest", {START_CHAIN, {OPS(FIRST_A), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: history, oldest first", {START_CHAIN, {OPS(PAST_ALL), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: drop a mark that is dropped and made again", {START_MARKED, {OPS(DROP), OPS(RENEW)}, .users = true, .guards = 3,
                .setup_by = 3}, 2, 2},
};

static const struct world_case users_txn[] = {
        {"users: txn reads and writes", {START_VALUE, {OPS(TXN(.reads = KA | KB, .writes = KB)), OPS(SET_A, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: txn reads two", {START_PAIR, {OPS(TXN(.reads = KA | KB)), OPS(SET_A, SET_B, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: txn, its own writes", {START_PAIR, {OPS(TXN(.reads = KA, .writes = KB, .own = true)), OPS(SET_A, SET_B)}, .users = true,
                .guards = 4}, 2, 2},
        {"users: txn, its own writes in a scan", {START_PAIR, {OPS(TXN(.scan = 3, .writes = KB | KC, .deletes = KA, .own = true)),
                OPS(SET_A, WORK)}, .users = true, .guards = 9}, 2, 2},
        {"users: txn, a range", {START_PAIR, {OPS(TXN(.scan = 3, .writes = KC, .serializable = true, .own = true)),
                OPS(SET_A, SET_C)}, .users = true, .guards = 9}, 2, 2},
        {"users: txn, a range that changed and goes", {START_PAIR, {OPS(TXN(.scan = 3, .writes = KC, .serializable = true)),
                OPS(DELETE_A, WORK, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: txn, a range with a key that comes and goes", {START_VALUE, {OPS(TXN(.scan = 3, .writes = KA, .serializable = true,
                .early = true)), OPS(SET_C, DELETE_C, WORK, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: txn, a range with an end", {START_PAIR, {OPS(TXN(.scan = 2, .writes = KC, .serializable = true, .ends = true,
                .own = true)), OPS(SET_B, SET_C)}, .users = true, .guards = 9}, 2, 2},
        {"users: txn, a range with an end, a key that comes", {START_VALUE, {OPS(TXN(.scan = 2, .writes = KC, .serializable = true,
                .ends = true)), OPS(SET_B, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: txn reads many, and its own", {START_PAIR, {OPS(TXN(.reads = KA | KB | KC, .writes = KB, .many = true, .own = true)),
                OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 8}, 2, 2},
        {"users: skew by batches", {START_PAIR, {OPS(TXN(.reads = KA | KC, .writes = KB, .many = true, .serializable = true)),
                OPS(TXN(.reads = KB | KC, .writes = KA, .many = true, .serializable = true))}, .users = true, .guards = 4}, 2, 2},
        {"users: delete a range beside a key that comes", {START_PAIR, {OPS(CLEAR), OPS(SET_C, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: delete a range beside a set and a delete", {START_PAIR, {OPS(CLEAR), OPS(SET_B, DELETE_B)}, .users = true,
                .guards = 4}, 2, 2},
        {"users: delete an empty range beside a set", {START_EMPTY, {OPS(CLEAR), OPS(SET_B, GET_B)}, .users = true, .guards = 4}, 2, 2},
        {"users: two delete a range", {START_PAIR, {OPS(CLEAR), OPS(CLEAR, SET_B)}, .users = true, .guards = 4}, 2, 2},
        {"users: delete a range beside a transaction", {START_PAIR, {OPS(CLEAR), OPS(SER(KA, KB))}, .users = true, .guards = 4}, 2, 2},
        {"users: killed delete of a range", {START_PAIR, {OPS(CLEAR), OPS(SET_C, WORK)}, .users = true, .guards = 4}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"users: restore beside a key that comes", {START_MARKED, {OPS(RESTORE), OPS(SET_B, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: restore beside sets", {START_MARKED, {OPS(RESTORE), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: restore beside a delete and a removal", {START_MARKED_MADE, {OPS(RESTORE), OPS(DELETE_B, WORK, WORK)},
                .users = true, .guards = 6}, 2, 2},
        {"users: restore a key beside sets", {START_MARKED, {OPS(UNDO_A), OPS(SET_A, DELETE_A, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: restore beside a cut", {START_MARKED_MADE, {OPS(RESTORE), OPS(SCAN)}, .users = true, .guards = 6}, 2, 2},
        {"users: two restore", {START_MARKED_MADE, {OPS(RESTORE), OPS(RESTORE, SET_B)}, .users = true, .guards = 6}, 2, 2},
        {"users: restore beside a transaction", {START_MARKED_MADE, {OPS(RESTORE), OPS(SER(KA | KB, KC))}, .users = true,
                .guards = 6}, 2, 2},
        {"users: restore beside a sweep", {START_MARKED_MADE, {OPS(RESTORE), OPS(SET_A, MEMORY)}, .users = true, .guards = 6}, 2, 2},
        {"users: restore, its mark dropped", {START_MARKED_MADE, {OPS(RESTORE), OPS(DROP, WORK, SET_A, WORK)}, .users = true,
                .guards = 6, .setup_by = 1}, 2, 2},
        {"users: restore, evicted beside a key that goes", {START_MARKED_MADE, {OPS(EVICT), OPS(RESTORE), OPS(SET_B, WORK, WORK)},
                .users = true, .guards = 6, .engine = true, .setup_by = 2}, 3, 2},
        {"users: restore, its past evicted", {START_MARKED_MADE, {OPS(EVICT_OLD), OPS(RESTORE), OPS(DROP, WORK, WORK)},
                .users = true, .guards = 6, .engine = true, .setup_by = 2}, 3, 2},
        {"users: killed restore", {START_MARKED_MADE, {OPS(RESTORE), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 0,
                .crashes = 1, .crash_mask = 1, .reaper = true},
        {"users: two transactions, one after the other", {START_PAIR, {OPS(SER(KA, KB), SER(KC, KC)), OPS(SET_A)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: phantoms", {START_EMPTY, {OPS(TXN(.scan = 2, .writes = KA, .serializable = true)),
                OPS(TXN(.scan = 2, .writes = KB, .serializable = true))}, .users = true, .guards = 4}, 2, 2},
        {"users: skew", {START_PAIR, {OPS(SER(KA, KB)), OPS(SER(KB, KA))}, .users = true, .guards = 3}, 2, 2},
        {"users: skew of absent keys", {START_EMPTY, {OPS(SER(KA, KB)), OPS(SER(KB, KA))}, .users = true, .guards = 3}, 2, 2},
        {"users: evict beside a transaction", {START_PAIR, {OPS(EVICT), OPS(TXN(.reads = KA | KB)), OPS(DELETE_A, WORK, WORK)},
                .users = true, .guards = 3, .engine = true}, 3, 2},
        {"users: killed transaction", {START_PAIR, {OPS(TXN(.scan = 3, .writes = KC, .serializable = true)), OPS(SET_A, WORK)},
                .users = true, .guards = 4}, 2, 0, .crashes = 1, .crash_mask = 1, .reaper = true},
};
/* clang-format on */

const struct world_list world_users = {"users", users, sizeof users / sizeof *users};
const struct world_list world_users_txn = {
        "users-txn", users_txn, sizeof users_txn / sizeof *users_txn};
