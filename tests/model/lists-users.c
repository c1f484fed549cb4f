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
#define SNAP_A    {OP_SNAPSHOT, KEY_A}
#define AT_A      {OP_AT, KEY_A}
#define KEEP_A    {OP_KEEP, KEY_A}
#define MARK_A    {OP_MARK, KEY_A}
#define HISTORY_A {OP_HISTORY, KEY_A}
#define PAST_ALL  {OP_HISTORY, KEY_A, .way = WAY_BACK}
#define WORK      {OP_WORK, KEY_A}
#define MEMORY    {OP_MEMORY, KEY_A}
#define EVICT     {OP_EVICT, KEY_A}

static const struct world_case users[] = {
        {"users: get under set and free", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .users = true}, 2, 2},
        {"users: get, the long way", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .users = true, .short_keys = true}, 2, 2},
        {"users: get and hold beside two sets", {START_MAGAZINE, {OPS(HOLD_A, GET_A, READ), OPS(SET_A, WORK, SET_A)}, .users = true,
                .magazine = 2, .setup_by = 1}, 2, 2},
        {"users: many, a slow key first", {START_ALL, {OPS(MANY_C), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: scan", {START_PAIR, {OPS(SCAN), OPS(SET_A, SET_B, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: scan over a removal", {START_PAIR, {OPS(SCAN), OPS(DELETE_A, WORK, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: scan back", {START_PAIR, {OPS(BACK), OPS(DELETE_A, WORK, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: scan and back", {START_PAIR, {OPS(TURN), OPS(SET_A, WORK)}, .users = true, .guards = 4}, 2, 2},
        {"users: a cut", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: past", {START_VALUE, {OPS(AT_A), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: keep", {START_VALUE, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: mark", {START_VALUE, {OPS(MARK_A), OPS(SET_A, WORK)}, .users = true, .guards = 3}, 2, 2},
        {"users: history", {START_CHAIN, {OPS(HISTORY_A), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
        {"users: history, oldest first", {START_CHAIN, {OPS(PAST_ALL), OPS(SET_A, WORK)}, .users = true, .guards = 6}, 2, 2},
};

static const struct world_case users_txn[] = {
        {"users: txn reads and writes", {START_PAIR, {OPS(TXN(.reads = KA, .writes = KB)), OPS(SET_A, WORK)}, .users = true,
                .guards = 3}, 2, 2},
        {"users: txn, its own writes", {START_PAIR, {OPS(TXN(.reads = KA, .writes = KB, .own = true)), OPS(SET_A, SET_B)}, .users = true,
                .guards = 4}, 2, 2},
        {"users: txn, a range", {START_PAIR, {OPS(TXN(.scan = 3, .writes = KC, .serializable = true, .own = true)),
                OPS(SET_A, SET_C)}, .users = true, .guards = 8}, 2, 2},
        {"users: phantoms", {START_EMPTY, {OPS(TXN(.scan = 2, .writes = KA, .serializable = true)),
                OPS(TXN(.scan = 2, .writes = KB, .serializable = true))}, .users = true, .guards = 4}, 2, 2},
        {"users: skew", {START_PAIR, {OPS(TXN(.reads = KA, .writes = KB, .serializable = true)),
                OPS(TXN(.reads = KB, .writes = KA, .serializable = true))}, .users = true, .guards = 3}, 2, 2},
};
/* clang-format on */

const struct world_list world_users = {"users", users, sizeof users / sizeof *users};
const struct world_list world_users_txn = {
        "users-txn", users_txn, sizeof users_txn / sizeof *users_txn};
