/* The scenarios; see lists.h. Each line: name, start, what the threads do; then the bounds. */
#include "tests/model/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define SET_C    {OP_SET, KEY_C}
#define PUT_A    {OP_PUT, KEY_A}
#define PUT_B    {OP_PUT, KEY_B}
#define CAS_A    {OP_CAS, KEY_A}
#define CREATE_A {OP_CREATE, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define DELETE_B {OP_DELETE, KEY_B}
#define GET_A    {OP_GET, KEY_A}
#define GET_B    {OP_GET, KEY_B}
#define HOLD_A   {OP_HOLD, KEY_A}
#define SCAN     {OP_SCAN, KEY_A}
#define SNAP_A   {OP_SNAPSHOT, KEY_A}
#define SNAP_B   {OP_SNAPSHOT, KEY_B}
#define SNAP_C   {OP_SNAPSHOT, KEY_C}
#define MEMORY   {OP_MEMORY, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define STABLE     {OP_STABLE, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define DUE      {OP_DUE, KEY_A}
#define FREE     {OP_FREE, KEY_A}
#define PASS     {OP_PASS, KEY_A}
#define SPARE    {OP_SPARE, KEY_A}
#define AGES     {OP_AGES, KEY_A}
#define BUDGET_A {OP_BUDGET, KEY_A}
#define BUDGET_B {OP_BUDGET, KEY_B}
#define TICK     {OP_TICK, KEY_A}
#define FINI     {OP_FINI, KEY_A}
#define OBSERVE  {OP_OBSERVE, KEY_A}
#define REAP     {OP_REAP, KEY_A}
#define LARGE_A  {OP_LARGE, KEY_A}
#define LARGE_B  {OP_LARGE, KEY_B}
#define READ     {OP_READ, KEY_A}
#define GET_FAR  {OP_GET_FAR, KEY_A}
#define HOLD_FAR {OP_HOLD_FAR, KEY_A}
#define MANY     {OP_MANY, KEY_A}
#define ATTACH_A {OP_ATTACH, KEY_A}
#define ATTACH_B {OP_ATTACH, KEY_B}
#define ARRIVE   {OP_ARRIVE, KEY_A}
#define CHECK    {OP_CHECK, KEY_A}
#define PAST_A   {OP_PAST, KEY_A}
#define EVICT    {OP_EVICT, KEY_A}
#define MARK     {OP_MARK, KEY_A}
#define AT_A     {OP_AT, KEY_A}
#define KEEP_A   {OP_KEEP, KEY_A}

static const struct world_case keys[] = {
        {"three sets", {START_VALUE, {OPS(SET_A), OPS(SET_A), OPS(SET_A)}}, 3, 2},
        {"three cas", {START_VALUE, {OPS(CAS_A), OPS(CAS_A), OPS(CAS_A)}}, 3, 3},
        {"set, delete, cas", {START_VALUE, {OPS(SET_A), OPS(DELETE_A), OPS(CAS_A)}}, 3, 2},
        {"set, delete, get", {START_VALUE, {OPS(SET_A), OPS(DELETE_A), OPS(GET_A, GET_A)}}, 3, 2},
        {"three sets, the long way", {START_VALUE, {OPS(SET_A), OPS(SET_A), OPS(SET_A)}, .short_keys = true}, 3, 2},
        {"set, delete, get, the long way", {START_VALUE, {OPS(SET_A), OPS(DELETE_A), OPS(GET_A, GET_A)},
                .short_keys = true}, 3, 2},
        {"three make", {START_EMPTY, {OPS(SET_A), OPS(SET_A), OPS(SET_A)}}, 3, 2},
        {"three create", {START_EMPTY, {OPS(CREATE_A), OPS(CREATE_A), OPS(GET_A)}}, 3, 2},
        {"make and make", {START_EMPTY, {OPS(SET_A), OPS(CREATE_A)}}, 2, 3},
        {"make two keys of one bucket", {START_EMPTY, {OPS(SET_A), OPS(SET_B)}}, 2, 3},
        {"make neighbours, forked", {START_EMPTY, {OPS(SET_A), OPS(SET_C), OPS(SET_B)}, .forked = true}, 3, 2},
        {"remove and make", {START_DELETED, {OPS(WORK), OPS(SET_A)}}, 2, 3},
        {"remove, make, make", {START_DELETED, {OPS(WORK), OPS(SET_A), OPS(SET_A)}}, 3, 2},
        {"remove, make, get", {START_DELETED, {OPS(WORK), OPS(SET_A), OPS(GET_A)}}, 3, 2},
        {"remove and make a neighbour", {START_DELETED, {OPS(WORK), OPS(SET_B, SNAP_B)}}, 2, 3, .costly = true},
        {"remove and make a neighbour, forked", {START_DELETED, {OPS(WORK), OPS(SET_B, SNAP_B)},
                .forked = true}, 2, 2},
        {"two neighbours removed", {START_PAIR_DELETED, {OPS(WORK), OPS(DELETE_B, WORK)}}, 2, 2},
        {"make and make, note reader", {START_EMPTY, {OPS(SET_A, FINI), OPS(SET_A, STABLE)}, .focus = FOCUS_NOTES}, 2, 3},
        {"make, delete, remove, late make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK)}}, 2, 2},
        {"late make in short memory, forked", {START_SHORT, {OPS(SET_B), OPS(SWEEP, WORK, WORK)}, .forked = true, .setup_by = 1,
                .unit_count = 12, .hasty = true, .focus = FOCUS_INDEX}, 2, 2},
        {"make, delete, remove, late make, forked", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 4, .costly = true},
        {"make twice, remove, late make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, MEMORY,
                MEMORY)}}, 2, 2},
        {"late make over memory used again", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, MEMORY,
                MEMORY), OPS(SET_C)}}, 3, 1},
        {"remove, a cell taken by another key", {START_DELETED, {OPS(WORK), OPS(SET_B), OPS(SET_A)}}, 3, 2},
        {"two neighbours removed, one made again", {START_PAIR_DELETED, {OPS(WORK, SET_B), OPS(SET_B, DELETE_B, WORK)},
                .focus = FOCUS_INDEX}, 2, 2},
};

static const struct world_case memory[] = {
        {"get under set and free", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}}, 2, 3},
        {"get under two sets and frees", {START_RETIRED, {OPS(GET_A), OPS(WORK, SET_A, SET_A, WORK)},
                .setup_by = 1}, 2, 3},
        {"hold under set and free", {START_VALUE, {OPS(HOLD_A), OPS(SET_A, WORK)}}, 2, 3},
        {"get under set and free, the long way", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .short_keys = true}, 2, 3},
        {"get under two sets and frees, the long way", {START_RETIRED, {OPS(GET_A), OPS(WORK, SET_A, SET_A, WORK)},
                .setup_by = 1, .short_keys = true}, 2, 3},
        {"hold under set and free, the long way", {START_VALUE, {OPS(HOLD_A), OPS(SET_A, WORK)}, .short_keys = true}, 2, 3},
        {"get, then others set and free", {START_VALUE, {OPS(GET_A, GET_A), OPS(SET_A, WORK), OPS(SET_A,
                WORK)}}, 3, 2},
        {"get under buffers", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .setup_by = 1},
                2, 2, .delays = 1},
        {"hold under buffers", {START_VALUE, {OPS(HOLD_A, GET_A), OPS(SET_A, WORK)}, .setup_by = 1},
                2, 2, .delays = 1},
        {"two gets under buffers", {START_RETIRED, {OPS(GET_A), OPS(WORK, SET_A, WORK)}, .setup_by = 1},
                2, 2, .delays = 2},
        {"get under buffers, the long way", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}, .setup_by = 1, .short_keys = true},
                2, 2, .delays = 1},
        {"hold under buffers, the long way", {START_VALUE, {OPS(HOLD_A, GET_A), OPS(SET_A, WORK)}, .setup_by = 1,
                .short_keys = true}, 2, 2, .delays = 1},
        {"two gets under buffers, the long way", {START_RETIRED, {OPS(GET_A), OPS(WORK, SET_A, WORK)}, .setup_by = 1,
                .short_keys = true}, 2, 2, .delays = 2},
        {"late era", {START_OLD, {OPS(GET_A), OPS(WORK, WORK, SET_A, WORK)}, .setup_by = 1}, 2, 2},
        {"late era, the long way", {START_OLD, {OPS(GET_A), OPS(WORK, WORK, SET_A, WORK)}, .setup_by = 1, .short_keys = true}, 2, 2},
        {"take what was freed, sweep", {START_FREED, {OPS(SET_A), OPS(MEMORY)}}, 2, 2},
        {"take what was freed, make, sweep", {START_FREED, {OPS(SET_C), OPS(MEMORY)}}, 2, 2},
        {"two sweeps", {START_RETIRED, {OPS(MEMORY), OPS(MEMORY)}}, 2, 2},
        {"two sweeps, one set", {START_RETIRED, {OPS(MEMORY), OPS(MEMORY), OPS(SET_A)}}, 3, 1},
        {"ages, stopped get", {START_VALUE, {OPS(GET_A), OPS(SET_A, AGES, MEMORY, SET_A, MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 2, 2},
        {"ages, stopped get, the long way", {START_VALUE, {OPS(GET_A), OPS(SET_A, AGES, MEMORY, SET_A, MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY, .short_keys = true}, 2, 2},
        {"ages, stopped scan", {START_PAIR, {OPS(SCAN), OPS(DELETE_A, AGES, MEMORY, AGES, MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 2, 3},
        {"ages, stopped set", {START_VALUE, {OPS(SET_A, GET_A), OPS(AGES, MEMORY, SET_A, WORK)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 2, 3},
        {"ages, stopped set, the long way", {START_VALUE, {OPS(SET_A, GET_A), OPS(AGES, MEMORY, SET_A, WORK)},
                .setup_by = 1, .focus = FOCUS_MEMORY, .short_keys = true}, 2, 3},
        {"ages, set that stays", {START_VALUE, {OPS(SET_A), OPS(AGES, MEMORY)}, .setup_by = 1, .focus = FOCUS_MEMORY}, 2, 1},
        {"ages, set that stays, the long way", {START_VALUE, {OPS(SET_A), OPS(AGES, MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY, .short_keys = true}, 2, 1},
        {"ages, two sweeps", {START_VALUE, {OPS(GET_A), OPS(SET_A, AGES, MEMORY), OPS(MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 3, 2},
        {"ages, the floor of two sweeps", {START_VALUE, {OPS(AGES, MEMORY), OPS(AGES, MEMORY)}}, 2, 2},
        {"ages, stopped twice", {START_VALUE, {OPS(GET_A, GET_A), OPS(SET_A, AGES, MEMORY, AGES, MEMORY)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 2, 3},
        {"ages, stopped twice, the long way", {START_VALUE, {OPS(GET_A, GET_A), OPS(SET_A, AGES, MEMORY, AGES, MEMORY)},
                .setup_by = 1, .focus = FOCUS_MEMORY, .short_keys = true}, 2, 3},
        {"two free one", {START_VALUE, {OPS(SET_A, WORK), OPS(MEMORY)}}, 2, 2},
        {"sweep and free, taken again", {START_VALUE, {OPS(SET_A, WORK), OPS(MEMORY), OPS(SET_A)}}, 3, 2},
        {"full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A)}, .unit_count = 6}, 2, 2},
        {"full, delete", {START_FULL, {OPS(SET_A, SET_B), OPS(DELETE_A)}, .unit_count = 8}, 2, 1},
        {"full, hinted at, make and free", {START_HINTED, {OPS(SET_B), OPS(DELETE_A, MEMORY)}, .unit_count = 8}, 2, 2},
        {"leave and set", {START_VALUE, {OPS(SET_A, FINI), OPS(SET_A)}}, 2, 2},
        {"leave and sweep", {START_VALUE, {OPS(SET_A, FINI), OPS(MEMORY)}}, 2, 2},
        {"remove under get", {START_DELETED, {OPS(WORK), OPS(GET_A, GET_A)}}, 2, 2},
        {"remove, free, under make", {START_DELETED, {OPS(WORK, WORK), OPS(SET_A)}}, 2, 2},
        {"remove, free, under scan", {START_PAIR_DELETED, {OPS(WORK, WORK), OPS(SCAN)}}, 2, 2},
        {"remove by sweep under make", {START_DELETED, {OPS(MEMORY), OPS(SET_A)}, .setup_by = 3}, 2, 2},
        {"remove twice by sweep", {START_DELETED, {OPS(MEMORY), OPS(MEMORY)}, .setup_by = 3}, 2, 1},
        {"remove under buffers", {START_DELETED, {OPS(WORK, WORK), OPS(SET_A)}}, 2, 2, .delays = 1},
        {"engine's tick", {START_DELETED, {OPS(TICK, TICK), OPS(SET_A)}, .engine = true}, 2, 2},
        {"take an empty unit beside a sweep", {START_VALUE, {OPS(SPARE, MEMORY), OPS(SET_A, SET_A, SET_A, SET_A)}, .setup_by = 2,
                .focus = FOCUS_MEMORY}, 2, 2},
};

static const struct world_case magazines[] = {
        {"magazine, get under sets and work", {START_MAGAZINE, {OPS(GET_A), OPS(SET_A, WORK, SET_A)}, .setup_by = 1, .magazine = 2}, 2, 3},
        {"magazine, get under sets and work, one entry", {START_MAGAZINE, {OPS(GET_A), OPS(SET_A, WORK, SET_A)}, .setup_by = 1,
                .magazine = 1}, 2, 2},
        {"magazine, get under sets and work, the long way", {START_MAGAZINE, {OPS(GET_A), OPS(SET_A, WORK, SET_A)},
                .setup_by = 1, .magazine = 2,
                .short_keys = true}, 2, 2},
        {"magazine, hold under sets and work", {START_MAGAZINE, {OPS(HOLD_A, READ), OPS(SET_A, WORK, SET_A)}, .setup_by = 1, .magazine = 2},
                2, 3},
        {"magazine, get under buffers", {START_MAGAZINE, {OPS(GET_A), OPS(SET_A, WORK, SET_A)}, .setup_by = 1, .magazine = 2}, 2,
                2, .delays = 1},
        {"magazine, get under buffers, the long way", {START_MAGAZINE, {OPS(GET_A), OPS(SET_A, WORK, SET_A)}, .setup_by = 1,
                .magazine = 2, .short_keys = true}, 2, 2, .delays = 1},
        {"magazine, set and set", {START_MAGAZINE, {OPS(SET_A, SET_A), OPS(SET_A, SET_A)}, .magazine = 2}, 2, 3},
        {"magazine, set and set, long and short", {START_MAGAZINE, {OPS(PUT_A, SET_A), OPS(SET_A, PUT_A)}, .magazine = 2}, 2, 2},
        {"magazine, three sets", {START_MAGAZINE, {OPS(SET_A), OPS(SET_A), OPS(SET_A)}, .magazine = 2}, 3, 2},
        {"magazine, set and sweep", {START_MAGAZINE, {OPS(SET_A), OPS(SWEEP)}, .magazine = 2}, 2, 3},
        {"magazine, set, set and sweep", {START_MAGAZINE, {OPS(SET_A), OPS(SET_A), OPS(SWEEP)}, .magazine = 2}, 3, 2},
        {"magazine, sets and memory work", {START_MAGAZINE, {OPS(SET_A, SET_A), OPS(MEMORY)}, .magazine = 2}, 2, 2},
        {"magazine, set and delete", {START_MAGAZINE, {OPS(SET_A, WORK), OPS(DELETE_A, WORK)}, .magazine = 2}, 2, 2},
        {"magazine, set, delete, get", {START_MAGAZINE, {OPS(SET_A), OPS(DELETE_A), OPS(GET_A)}, .magazine = 2}, 3, 2},
        {"magazine, cas and set", {START_MAGAZINE, {OPS(CAS_A), OPS(SET_A)}, .magazine = 2}, 2, 3},
        {"magazine, snapshot and set", {START_MAGAZINE, {OPS(SNAP_A), OPS(SET_A, WORK, SET_A)}, .magazine = 2}, 2, 3},
        {"magazine, set over an old snapshot", {START_SNAPSHOT, {OPS(PAST_A), OPS(SET_A, SET_A, WORK, SET_A)}, .magazine = 2}, 2, 2},
        {"magazine, observer and set", {START_MAGAZINE, {OPS(OBSERVE), OPS(SET_A), OPS(STABLE)}, .magazine = 2}, 3, 2},
        {"magazine, a late observer and sets", {START_MAGAZINE, {OPS(ARRIVE), OPS(SET_A, SET_A)}, .magazine = 2}, 2, 2},
        {"magazine, leave and set", {START_MAGAZINE, {OPS(SET_A, FINI), OPS(SET_A, SET_A)}, .magazine = 2}, 2, 2},
        {"magazine, leave and sweep", {START_MAGAZINE, {OPS(SET_A, FINI), OPS(MEMORY)}, .magazine = 2}, 2, 2},
        {"magazine, many under sets", {START_MAGAZINE, {OPS(MANY), OPS(SET_A, WORK, SET_A)}, .magazine = 2}, 2, 2},
        {"magazine, check and sets", {START_MAGAZINE, {OPS(CHECK), OPS(SET_A, SET_A)}, .magazine = 2}, 2, 1},
        {"magazine, killed set, then reaped", {START_MAGAZINE, {OPS(SET_A)}, .magazine = 2}, 1, 1, .crashes = 1},
        {"magazine, killed sets and set", {START_MAGAZINE, {OPS(SET_A, WORK, SET_A), OPS(SET_A, WORK)}, .magazine = 2}, 2, 1,
                .crashes = 1, .crash_mask = 1},
        {"magazine, killed set and sweep", {START_MAGAZINE, {OPS(SET_A), OPS(SWEEP)}, .magazine = 2}, 2, 1, .crashes = 1, .crash_mask = 1},
        {"magazine, killed set reaped under get and set", {START_MAGAZINE, {OPS(SET_A), OPS(GET_A, SET_A)}, .magazine = 2}, 2, 1,
                .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"magazine, killed set reaped under memory work", {START_MAGAZINE, {OPS(SET_A), OPS(MEMORY)}, .magazine = 2}, 2, 1, .crashes = 1,
                .crash_mask = 1, .reaper = true},
        {"magazine, killed memory work", {START_MAGAZINE, {OPS(SET_A, MEMORY), OPS(SET_A)}, .magazine = 2}, 2, 1, .crashes = 1,
                .crash_mask = 1},
        {"magazine, killed set, killed reaper", {START_MAGAZINE, {OPS(SET_A), OPS(GET_A)}, .magazine = 2},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"magazine, killed leaver, killed reaper", {START_MAGAZINE, {OPS(SET_A, FINI), OPS(SET_A)}, .magazine = 2},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"magazine, killed set, reaped, attached", {START_MAGAZINE, {OPS(SET_A), OPS(ATTACH_A)}, .magazine = 2},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"magazine, two killed, each with the other's block", {START_MAGAZINE, {OPS(SET_A, SET_A), OPS(SET_A, WORK)}, .magazine = 2},
                2, 1, 2, .costly = true},
        {"magazine, own guard over own sets", {START_MAGAZINE, {OPS(HOLD_A, SET_A, WORK, SET_A, READ), OPS(SWEEP)}, .setup_by = 0,
                .magazine = 2}, 2, 2},
        {"magazine, reap, sets and sweep", {START_MAGAZINE, {OPS(REAP), OPS(SET_A, SET_A, WORK), OPS(SWEEP)}, .setup_by = 1, .magazine = 2,
                .focus = FOCUS_MEMORY, .engine = true}, 3, 2},
        {"magazine, tick and sets", {START_MAGAZINE, {OPS(TICK, TICK), OPS(SET_A, SET_A, WORK, SET_A)}, .setup_by = 1, .magazine = 2,
                .engine = true}, 2, 2},
        {"magazine, full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A, DELETE_A)}, .unit_count = 8, .magazine = 2}, 2, 1},
        {"magazine, full, two make and delete", {START_FULL, {OPS(SET_B, DELETE_B), OPS(SET_A, DELETE_A)}, .unit_count = 9, .magazine = 2},
                2, 1},
        {"magazine, delete, make, sweep", {START_MAGAZINE, {OPS(DELETE_A, SET_A, WORK), OPS(SET_A), OPS(MEMORY)}, .magazine = 2}, 3, 1},
        {"magazine, snapshots over three sets", {START_MAGAZINE, {OPS(SNAP_A, SNAP_A), OPS(SET_A, STABLE, SET_A, SET_A)},
                .magazine = 2}, 2, 3},
        {"magazine, built in again in a dead one's slab", {START_MAGAZINE, {OPS(REAP), OPS(LARGE_B, SET_A, SET_A, WORK, SET_B)},
                .setup_by = 1,
                .magazine = 2, .focus = FOCUS_MEMORY, .engine = true}, 2, 4, .costly = true},
        {"spare, get under sets", {START_SPARE, {OPS(GET_A), OPS(SET_A, DUE, SET_A)}, .setup_by = 1, .magazine = 4}, 2, 3},
        {"spare, hold under sets", {START_SPARE, {OPS(HOLD_A, READ), OPS(SET_A, DUE, SET_A)}, .setup_by = 1, .magazine = 4}, 2, 2},
        {"spare, get under buffers", {START_SPARE, {OPS(GET_A), OPS(SET_A, DUE, SET_A)}, .setup_by = 1, .magazine = 4}, 2, 2, .delays = 1},
        {"spare, set and set", {START_SPARE, {OPS(SET_A, DUE, SET_A), OPS(SET_A, DUE, SET_A)}, .magazine = 4}, 2, 2},
        {"spare, set and sweep", {START_SPARE, {OPS(SET_A), OPS(SWEEP, FREE)}, .magazine = 4}, 2, 2},
        {"spare, sets, sweep and set", {START_SPARE, {OPS(SET_A, SET_A), OPS(SWEEP, FREE), OPS(SET_A)}, .magazine = 4,
                .focus = FOCUS_MEMORY}, 3, 1},
        {"spare, sets, sweep and get", {START_SPARE, {OPS(SET_A, SET_A), OPS(SWEEP, FREE), OPS(GET_A)}, .magazine = 4,
                .focus = FOCUS_MEMORY}, 3, 2},
        {"spare, sets and memory work", {START_SPARE, {OPS(SET_A, SET_A), OPS(MEMORY)}, .magazine = 4}, 2, 1},
        {"spare, out of a slab", {START_SPARE, {OPS(SPARE, SET_A, SET_A), OPS(SWEEP, FREE, SET_A)}, .magazine = 4}, 2, 1},
        {"spare, set and delete", {START_SPARE, {OPS(SET_A, DUE), OPS(DELETE_A, WORK)}, .magazine = 4}, 2, 1},
        {"spare, snapshot and set", {START_SPARE, {OPS(SNAP_A), OPS(SET_A, DUE, SET_A)}, .magazine = 4}, 2, 2},
        {"spare, check and sets", {START_SPARE, {OPS(CHECK), OPS(SET_A, SET_A)}, .magazine = 4}, 2, 1},
        {"spare, leave and sweep", {START_SPARE, {OPS(SET_A, FINI), OPS(MEMORY)}, .magazine = 4}, 2, 1},
        {"spare, killed set, then reaped", {START_SPARE, {OPS(SET_A)}, .magazine = 4}, 1, 1, .crashes = 1},
        {"spare, killed keeper, then reaped", {START_SPARE, {OPS(SPARE, SET_A)}, .magazine = 4}, 1, 1, .crashes = 1},
        {"spare, killed set and sweep", {START_SPARE, {OPS(SET_A), OPS(SWEEP, FREE)}, .magazine = 4}, 2, 1, .crashes = 1, .crash_mask = 1},
        {"spare, killed set reaped under memory work", {START_SPARE, {OPS(SET_A), OPS(MEMORY)}, .magazine = 4}, 2, 1, .crashes = 1,
                .crash_mask = 1, .reaper = true, .costly = true},
        {"spare, killed set, killed reaper", {START_SPARE, {OPS(SET_A), OPS(GET_A)}, .magazine = 4},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"spare, tick and sets", {START_SPARE, {OPS(TICK, TICK), OPS(SET_A, DUE, SET_A)}, .setup_by = 1, .magazine = 4, .engine = true},
                2, 2},
        {"magazine, killed leaving", {START_MAGAZINE, {OPS(SET_A, FINI), OPS(SET_A)}, .magazine = 2}, 2, 1, .crashes = 1, .crash_mask = 1},
};

static const struct world_case snapshots[] = {
        {"evict beside reads, a set, a prune", {START_VALUE, {OPS(EVICT), OPS(SNAP_A), OPS(SET_A, WORK)}, .engine = true},
                3, 2},
        {"evict beside reads, a delete, a removal", {START_VALUE, {OPS(EVICT), OPS(SNAP_A), OPS(DELETE_A, WORK)},
                .engine = true}, 3, 2},
        {"evict beside a scan under buffers", {START_VALUE, {OPS(EVICT, WORK), OPS(SCAN), OPS(SET_A)}, .engine = true},
                3, 1, .delays = 1},
        {"past beside two sets", {START_VALUE, {OPS(AT_A), OPS(SET_A, SET_A, WORK)}}, 2, 3},
        {"past over an old snapshot", {START_SNAPSHOT, {OPS(AT_A), OPS(SET_A, WORK)}, .setup_by = 1}, 2, 3},
        {"past beside two sets, the long way", {START_VALUE, {OPS(AT_A), OPS(SET_A, SET_A, WORK)}, .short_keys = true}, 2, 3},
        {"past beside sets out of the magazine", {START_MAGAZINE, {OPS(AT_A), OPS(SET_A, WORK, SET_A)}, .magazine = 2}, 2, 3},
        {"past beside a set and a pruner", {START_OLD, {OPS(AT_A), OPS(SET_A, SET_A), OPS(WORK)}}, 3, 2},
        {"past beside a delete and a removal", {START_PAIR, {OPS(AT_A), OPS(DELETE_A, WORK, WORK)}}, 2, 3},
        {"past beside delete, removal, make", {START_PAIR, {OPS(AT_A), OPS(DELETE_A, WORK, SET_A)}}, 2, 2},
        {"past under buffers", {START_VALUE, {OPS(AT_A), OPS(SET_A, SET_A)}}, 2, 2, .delays = 1},
        {"keep beside sets", {START_VALUE, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}}, 2, 2},
        {"keep beside sets, the long way", {START_VALUE, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}, .short_keys = true}, 2, 2},
        {"keep beside sets out of the magazine", {START_MAGAZINE, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}, .magazine = 2}, 2, 2},
        {"keep beside a set and a pruner", {START_OLD, {OPS(KEEP_A), OPS(SET_A), OPS(WORK)}}, 3, 2},
        {"keep beside a set, and a set and a pruner", {START_VALUE, {OPS(KEEP_A), OPS(SET_A), OPS(SET_A, WORK)},
                .focus = FOCUS_CUTS}, 3, 2},
        {"keep beside the making of the key", {START_EMPTY, {OPS(KEEP_A), OPS(SET_A, SET_A, WORK)}}, 2, 2},
        {"keep beside the making of the key by two", {START_EMPTY, {OPS(KEEP_A), OPS(SET_A, SET_A), OPS(SET_A, WORK)}}, 3, 1},
        {"keep beside a delete and a removal", {START_PAIR, {OPS(KEEP_A), OPS(DELETE_A, WORK, WORK)}}, 2, 2},
        {"keep beside keep and sets", {START_VALUE, {OPS(KEEP_A), OPS(KEEP_A), OPS(SET_A, SET_A)}}, 3, 1},
        {"keep beside the same", {START_EMPTY, {OPS(KEEP_A), OPS(KEEP_A)}}, 2, 2},
        {"killed keep", {START_VALUE, {OPS(KEEP_A), OPS(SET_A)}}, 2, 0, .crashes = 1, .crash_mask = 1},
        {"mark beside a set and a prune", {START_VALUE, {OPS(MARK), OPS(SET_A, WORK)}}, 2, 3},
        {"mark, set, prune, stable cut moves", {START_VALUE, {OPS(MARK), OPS(SET_A, WORK), OPS(STABLE)}}, 3, 1},
        {"mark, evicted before", {START_VALUE, {OPS(EVICT), OPS(MARK), OPS(SET_A, WORK)}, .engine = true}, 3, 2},
        {"mark, evicted, under buffers", {START_VALUE, {OPS(EVICT), OPS(MARK), OPS(SET_A, WORK)}, .engine = true}, 3, 1, .delays = 1},
        {"mark under buffers", {START_VALUE, {OPS(MARK), OPS(SET_A, WORK)}}, 2, 1, .delays = 1},
        {"snapshot and set", {START_VALUE, {OPS(SNAP_A), OPS(SET_A)}}, 2, 3},
        {"snapshot and set, the long way", {START_VALUE, {OPS(SNAP_A), OPS(SET_A)}, .short_keys = true}, 2, 3},
        {"snapshot, set, prune", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK)}}, 2, 3},
        {"snapshot, set, prune, stable cut moves", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK), OPS(STABLE)}}, 3, 2},
        {"snapshot, two sets, prune", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, STABLE, SET_A, WORK)}}, 2, 3},
        {"snapshot twice", {START_VALUE, {OPS(SNAP_A, SNAP_A), OPS(SET_A, WORK)}}, 2, 2},
        {"two snapshots, set, prune", {START_OLD, {OPS(SNAP_A), OPS(SNAP_A), OPS(SET_A, WORK)}}, 3, 2},
        {"old and young snapshot, two sets, prune", {START_SNAPSHOT, {OPS(SNAP_A), OPS(SET_A, SET_A, WORK)}}, 2, 2},
        {"snapshot under buffers", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK)}}, 2, 2, .delays = 1},
        {"set, set over it, cut", {START_VALUE, {OPS(SET_A), OPS(SET_A), OPS(SNAP_A)}}, 3, 3},
        {"set, set over it, cut, the long way", {START_VALUE, {OPS(SET_A), OPS(SET_A), OPS(SNAP_A)},
                .short_keys = true}, 3, 3},
        {"delete, delete again, cut", {START_VALUE, {OPS(DELETE_A), OPS(DELETE_A, SNAP_A)}}, 2, 3},
        {"delete, get, cut", {START_VALUE, {OPS(DELETE_A), OPS(GET_A, SNAP_A)}}, 2, 3},
        {"delete, create, cut", {START_VALUE, {OPS(DELETE_A), OPS(CREATE_A, SNAP_A)}}, 2, 3},
        {"cause and effect", {START_PAIR, {OPS(SET_A), OPS(GET_A, SET_B), OPS(SCAN)}}, 3, 2},
        {"scan, two sets", {START_PAIR, {OPS(SCAN), OPS(SET_A, SET_B)}}, 2, 3},
        {"scan, make and delete", {START_PAIR, {OPS(SCAN), OPS(SET_C, DELETE_A)}}, 2, 2},
        {"scan, delete, remove, make again", {START_PAIR, {OPS(SCAN), OPS(DELETE_A, WORK, SET_A)}}, 2, 2},
        {"scan, remove, make another", {START_PAIR_DELETED, {OPS(SCAN), OPS(WORK, SET_C)}, .setup_by = 1},
                2, 3},
        {"scan, remove, make between, forked", {START_PAIR_DELETED, {OPS(SNAP_C), OPS(WORK, SET_C)},
                .setup_by = 1, .forked = true}, 2, 3},
        {"scan, remove, make, forked", {START_PAIR_DELETED, {OPS(SCAN), OPS(WORK), OPS(SET_A)},
                .setup_by = 1, .forked = true}, 3, 2},
        {"an old snapshot and a removal", {START_SNAPSHOT, {OPS(PAST_A, PAST_A), OPS(WORK), OPS(SET_A)},
                .setup_by = 1}, 3, 2},
        {"an old snapshot and a sweep", {START_SNAPSHOT, {OPS(PAST_A, PAST_A), OPS(MEMORY)},
                .setup_by = 1}, 2, 2},
        {"over an old snapshot: sets beside reads", {START_KEPT, {OPS(SET_A, SET_A), OPS(PAST_A, GET_A)}}, 2, 3},
        {"over an old snapshot: two set", {START_KEPT, {OPS(SET_A, SET_A), OPS(SET_A, PAST_A)}}, 2, 3},
        {"over an old snapshot: two set, a third prunes", {START_KEPT, {OPS(SET_A), OPS(SET_A, PAST_A), OPS(MEMORY)}}, 3, 2},
        {"over an old snapshot: set beside a young one", {START_KEPT, {OPS(SET_A, SET_A), OPS(SNAP_A), OPS(PAST_A)}}, 3, 2},
        {"over an old snapshot: set, delete, removal", {START_KEPT, {OPS(SET_A, SET_A), OPS(DELETE_A, WORK)}}, 2, 3},
        {"over an old snapshot: set beside eviction", {START_KEPT, {OPS(EVICT, WORK), OPS(SET_A, SET_A), OPS(SNAP_A)},
                .engine = true}, 3, 2},
        {"over an old snapshot: sets beside a rule", {START_KEPT, {OPS(KEEP_A), OPS(SET_A, SET_A)}}, 2, 2},
        {"over an old snapshot: out of the magazine", {START_KEPT, {OPS(SET_A, SET_A, WORK), OPS(SET_A, PAST_A)},
                .magazine = 2}, 2, 2},
        {"over an old snapshot: under buffers", {START_KEPT, {OPS(SET_A, SET_A), OPS(SNAP_A)}}, 2, 2, .delays = 1},
        {"over an old snapshot: killed set", {START_KEPT, {OPS(SET_A, SET_A), OPS(SET_A, PAST_A)}}, 2, 0, 1,
                .crash_mask = 1, .reaper = true},
        {"two prune a chain", {START_CHAIN, {OPS(MEMORY), OPS(MEMORY)}}, 2, 2},
        {"two prune a chain by list and sweep", {START_CHAIN, {OPS(WORK), OPS(SWEEP, SWEEP)}}, 2, 3, .costly = true},
        {"prune a chain under get", {START_CHAIN, {OPS(WORK), OPS(SNAP_A)}}, 2, 3},
        {"prune a chain under set", {START_CHAIN, {OPS(WORK), OPS(SET_A, WORK)}}, 2, 2},
        {"observer, set, stable cut", {START_VALUE, {OPS(SET_A), OPS(STABLE, OBSERVE)}}, 2, 3},
        {"observer, set, get, stable cut", {START_VALUE, {OPS(SET_A), OPS(GET_A), OPS(STABLE, OBSERVE)}}, 3, 3},
        {"observer, set, get, stable cut, the long way", {START_VALUE, {OPS(SET_A), OPS(GET_A), OPS(STABLE, OBSERVE)},
                .short_keys = true}, 3, 3},
        {"observer, set, stable cut, get, buffers", {START_VALUE, {OPS(SET_A), OPS(STABLE, OBSERVE)}},
                2, 2, .delays = 1},
        {"evict beside two snapshots", {START_VALUE, {OPS(EVICT), OPS(SNAP_A, SNAP_A)}, .engine = true}, 2, 3},
        {"two marks", {START_VALUE, {OPS(MARK), OPS(MARK)}}, 2, 3},
        {"floor of history raised by two", {START_VALUE, {OPS(BUDGET_A), OPS(BUDGET_B)}}, 2, 2},
        {"stable cut raised by two", {START_VALUE, {OPS(STABLE), OPS(SET_A, STABLE)}}, 2, 2},
};

static const struct world_case reaps[] = {
        {"killed set, then reaped", {START_VALUE, {OPS(SET_A), OPS(SET_A)}}, 2, 1, 1, .crash_mask = 1},
        {"killed set, reaped meanwhile", {START_VALUE, {OPS(SET_A), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed make, then reaped", {START_EMPTY, {OPS(SET_A), OPS(SET_A)}}, 2, 1, 1, .crash_mask = 1},
        {"killed make, reaped meanwhile", {START_EMPTY, {OPS(SET_A), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        /* B's node needs a branch, so there are accesses between its note and its link. */
        {"killed make, reaped under note reader", {START_VALUE, {OPS(SET_B), OPS(STABLE)}, .focus = FOCUS_NOTES},
                2, 2, 1, .crash_mask = 1, .reaper = true},
        {"killed make, reaped under get", {START_FREED, {OPS(SET_C), OPS(GET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed remove", {START_DELETED, {OPS(WORK), OPS(SET_A)}}, 2, 1, 1, .crash_mask = 1},
        {"killed remove, reaped meanwhile", {START_DELETED, {OPS(WORK), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed delete and remove", {START_VALUE, {OPS(DELETE_A, WORK), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1},
        {"killed prune", {START_CHAIN, {OPS(WORK), OPS(SET_A)}}, 2, 1, 1, .crash_mask = 1},
        {"killed prune, reaped meanwhile", {START_CHAIN, {OPS(WORK), OPS(SNAP_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed free", {START_VALUE, {OPS(SET_A, WORK), OPS(SET_A)}}, 2, 1, 1, .crash_mask = 1},
        {"killed free, reaped, taken again", {START_VALUE, {OPS(SET_A, WORK), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed sweep", {START_RETIRED, {OPS(MEMORY), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"ages, killed sweep", {START_VALUE, {OPS(AGES, MEMORY), OPS(SET_A, WORK)}, .setup_by = 1,
                .focus = FOCUS_MEMORY}, 2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed get, reaped", {START_VALUE, {OPS(GET_A), OPS(SET_A, WORK)}},
                2, 2, 1, .crash_mask = 1, .reaper = true},
        {"noted block, reaped in another life", {START_NOTED, {OPS(REAP), OPS(SET_A, WORK, PASS, MEMORY, LARGE_B)}, .unit_count = 6,
                .setup_by = 1, .mimic = true, .focus = FOCUS_MEMORY, .engine = true}, 2, 3},
        {"killed snapshot, reaped", {START_VALUE, {OPS(SNAP_A), OPS(SET_A, WORK)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed late make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK)}},
                2, 2, 1, .crash_mask = 1, .costly = true},
        {"killed late make, reaped meanwhile", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK,
                WORK)}}, 2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"reap over a removal", {START_DEAD, {OPS(REAP), OPS(WORK)}, .setup_by = 1, .engine = true}, 2, 3},
        {"reap over a removal and a set", {START_DEAD, {OPS(REAP), OPS(WORK, WORK), OPS(SET_A)},
                .setup_by = 1, .engine = true}, 3, 2},
        {"killed set over a removal, reaped", {START_DELETED, {OPS(SET_A), OPS(WORK, WORK)},
                .setup_by = 1}, 2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed engine's tick", {START_DELETED, {OPS(TICK, TICK), OPS(SET_A)}, .engine = true},
                2, 1, 1, .crash_mask = 1},
        {"killed engine's tick, a new one", {START_DELETED, {OPS(TICK, TICK), OPS(SET_A)}, .engine = true},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed engine's tick on a chain, a new one", {START_CHAIN, {OPS(TICK, TICK), OPS(SNAP_A)},
                .setup_by = 0, .engine = true}, 2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed set, killed reaper", {START_VALUE, {OPS(SET_A), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"killed make, killed reaper", {START_EMPTY, {OPS(SET_A), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"killed remove, killed reaper", {START_DELETED, {OPS(WORK, WORK), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"killed leaver", {START_VALUE, {OPS(SET_A, FINI), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed make of a neighbour, forked", {START_VALUE, {OPS(SET_B), OPS(SET_C)}, .forked = true},
                2, 1, 1, .crash_mask = 1,
                .reaper = true, .costly = true},
        {"killed when nearly full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A)}, .unit_count = 5},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed when full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A)}, .unit_count = 4},
                2, 0, 1, .crash_mask = 1, .reaper = true},
        /* The third slab is one more than a client may keep: it gives all of them up. */
        {"killed with slabs of three sizes", {START_EMPTY, {OPS(SET_A, PUT_B), OPS(SET_A)}, .unit_count = 64},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
};
/* Keys outside their home: a maker signs, a remover and a sweep heal. More of them among the deep
 * ones. */
static const struct world_case aways[] = {
        {"away: two make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, GET_A)}, .away = true}, 2, 2},
        {"away: three make", {START_EMPTY, {OPS(SET_A), OPS(SET_A), OPS(SET_A)}, .away = true}, 3, 2},
        {"away: make and get", {START_PAIR_DELETED, {OPS(SET_C), OPS(SET_C), OPS(GET_A, GET_B)}, .away = true}, 3, 2},
        {"away: make, remove, get", {START_DELETED, {OPS(WORK), OPS(SET_B, GET_B)}, .away = true}, 2, 2},
        {"away: remove and make", {START_DELETED, {OPS(WORK), OPS(SET_A, GET_A)}, .away = true}, 2, 2},
        {"away: remove and two make", {START_DELETED, {OPS(WORK), OPS(SET_A), OPS(SET_A)}, .away = true}, 3, 2},
        {"away: remove and two make two", {START_DELETED, {OPS(WORK), OPS(SET_B), OPS(SET_A)}, .away = true}, 3, 2},
        {"away: two remove", {START_PAIR_DELETED, {OPS(WORK), OPS(DELETE_B, WORK), OPS(GET_B)}, .away = true}, 3, 2},
        {"away: two remove, one makes", {START_PAIR_DELETED, {OPS(WORK), OPS(DELETE_B, WORK, SET_B)}, .away = true}, 2, 2},
        {"away: remove, make, get", {START_DELETED, {OPS(WORK), OPS(SET_A), OPS(GET_A, GET_A)}, .away = true}, 3, 2},
        {"away: make, delete, remove, late make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK)}, .away = true}, 2, 2},
        {"away: sweep beside a make", {START_DELETED, {OPS(SWEEP), OPS(SET_A, GET_A)}, .away = true}, 2, 2},
        {"away: sweep beside a removal and a make", {START_DELETED, {OPS(SWEEP), OPS(WORK), OPS(SET_B)}, .away = true}, 3, 1},
        {"away: snapshot beside remove and make", {START_DELETED, {OPS(SNAP_A), OPS(WORK, SET_A)}, .away = true}, 2, 2},
        {"away: check beside remove and make", {START_DELETED, {OPS(CHECK), OPS(WORK, SET_B)}, .away = true}, 2, 2},
        {"away: killed make, then reaped", {START_EMPTY, {OPS(SET_A), OPS(SET_A)}, .away = true}, 2, 0, 1, .crash_mask = 1},
        {"away: killed make, reaped meanwhile", {START_EMPTY, {OPS(SET_A), OPS(SET_A)}, .away = true},
                2, 0, 1, .crash_mask = 1, .reaper = true},
        {"away: killed make", {START_EMPTY, {OPS(SET_A), OPS(GET_A)}, .away = true},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"away: killed remove", {START_DELETED, {OPS(WORK), OPS(GET_A)}, .away = true}, 2, 1, 1, .crash_mask = 1},
        {"away: killed remove, and a make", {START_DELETED, {OPS(WORK), OPS(SET_A)}, .away = true}, 2, 0, 1, .crash_mask = 1},
        {"away: killed late make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK)}, .away = true,
                .focus = FOCUS_INDEX}, 2, 1, 1, .crash_mask = 1},
};

/* Large blocks: several units, claimed and freed part by part. */
static const struct world_case larges[] = {
        {"large over small", {START_VALUE, {OPS(LARGE_A), OPS(SET_A)}}, 2, 2},
        {"large over large", {START_LARGE, {OPS(LARGE_A, WORK), OPS(LARGE_A)}}, 2, 3},
        {"large, large", {START_VALUE, {OPS(LARGE_A), OPS(LARGE_B)}}, 2, 3},
        {"large, large, with memory for one", {START_VALUE, {OPS(LARGE_A), OPS(LARGE_B)}, .unit_count = 10}, 2, 2},
        {"large, and slabs", {START_VALUE, {OPS(LARGE_A), OPS(SET_B, SET_C)}, .unit_count = 10}, 2, 2},
        {"large freed under get", {START_LARGE, {OPS(GET_A), OPS(SET_A, WORK)}}, 2, 3},
        {"large freed under hold", {START_LARGE, {OPS(HOLD_A, READ), OPS(SET_A, WORK)}}, 2, 2},
        {"large freed under get, taken again", {START_LARGE, {OPS(GET_A, GET_A), OPS(SET_A, WORK, LARGE_A, WORK)},
                .unit_count = 10}, 2, 2},
        {"large freed under a snapshot", {START_LARGE, {OPS(SNAP_A), OPS(SET_A, WORK)}}, 2, 2},
        {"large deleted", {START_LARGE, {OPS(DELETE_A, WORK, WORK), OPS(SET_A)}}, 2, 2},
        {"large freed by two", {START_LARGE, {OPS(SET_A, WORK), OPS(MEMORY)}}, 2, 2},
        {"large freed, others want large", {START_LARGE, {OPS(SET_A, WORK), OPS(LARGE_B)}, .unit_count = 10}, 2, 2},
        {"large freed, others want slabs", {START_LARGE, {OPS(SET_A, WORK), OPS(SET_B, SET_C), OPS(GET_A)}, .unit_count = 10},
                3, 1},
        {"large and check", {START_LARGE, {OPS(CHECK), OPS(LARGE_A, WORK)}}, 2, 2},
        {"killed large", {START_VALUE, {OPS(LARGE_A), OPS(LARGE_B)}}, 2, 1, 1, .crash_mask = 1},
        {"killed large, reaped meanwhile", {START_VALUE, {OPS(LARGE_A), OPS(SET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed large, reaped, others want large", {START_VALUE, {OPS(LARGE_A), OPS(LARGE_B)}, .unit_count = 10},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed free of large", {START_LARGE, {OPS(SET_A, WORK), OPS(GET_A)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed free of large, others want large", {START_LARGE, {OPS(SET_A, WORK), OPS(LARGE_B)}, .unit_count = 10},
                2, 1, 1, .crash_mask = 1},
        {"killed leaver, large", {START_LARGE, {OPS(LARGE_A, FINI), OPS(LARGE_B)}}, 2, 0, 1, .crash_mask = 1, .reaper = true},
        {"killed large, killed reaper", {START_LARGE, {OPS(LARGE_A, WORK), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        /* As in a bus of many units: large values and nodes are taken from above, versions from below. */
        {"nodes from above, make and make", {START_EMPTY, {OPS(SET_A), OPS(SET_B)}, .unit_count = 64, .focus = FOCUS_MEMORY}, 2, 2},
        {"nodes from above beside a large value", {START_VALUE, {OPS(LARGE_A), OPS(SET_B)}, .unit_count = 64, .focus = FOCUS_MEMORY}, 2, 2},
        {"killed make, nodes from above", {START_VALUE, {OPS(SET_B), OPS(LARGE_A)}, .unit_count = 64},
                2, 0, 1, .crash_mask = 1, .reaper = true},
        {"large over an empty unit that is taken", {START_VALUE, {OPS(SPARE, LARGE_B), OPS(SET_A, SET_A, SET_A, SET_A)}, .setup_by = 2,
                .unit_count = 8, .focus = FOCUS_MEMORY}, 2, 1},
};
/* More guard words than fit the record, many keys at once, records claimed and freed, observers
 * that come late. */
static const struct world_case records[] = {
        {"far guard", {START_VALUE, {OPS(GET_FAR, GET_FAR), OPS(SET_A, WORK)}}, 2, 2},
        {"far guard held again", {START_VALUE, {OPS(GET_FAR, HOLD_FAR, READ), OPS(SET_A, WORK)}}, 2, 2},
        {"far guard held", {START_VALUE, {OPS(HOLD_FAR, READ), OPS(SET_A, WORK)}}, 2, 3},
        {"far guard, then leave", {START_VALUE, {OPS(HOLD_FAR, FINI), OPS(SET_A, WORK)}}, 2, 2},
        {"far guard and sweep", {START_RETIRED, {OPS(HOLD_FAR, READ), OPS(MEMORY)}, .setup_by = 1}, 2, 2},
        {"far guard under buffers", {START_VALUE, {OPS(HOLD_FAR, READ), OPS(SET_A, WORK)}, .setup_by = 1},
                2, 1, .delays = 1},
        {"two make far guards", {START_VALUE, {OPS(HOLD_FAR, READ), OPS(HOLD_FAR, READ), OPS(SET_A, WORK)}}, 3, 1},
        {"far guard and check", {START_VALUE, {OPS(CHECK), OPS(HOLD_FAR, FINI)}}, 2, 2},
        {"killed far guard", {START_VALUE, {OPS(HOLD_FAR), OPS(SET_A, WORK)}}, 2, 1, 1, .crash_mask = 1},
        {"killed far guard, reaped meanwhile", {START_VALUE, {OPS(HOLD_FAR), OPS(SET_A, WORK)}},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"killed leaver with a far guard", {START_VALUE, {OPS(HOLD_FAR, FINI), OPS(SET_A, WORK)}},
                2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
        {"killed far guard, killed reaper", {START_VALUE, {OPS(HOLD_FAR), OPS(GET_A)}},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"many, set, set", {START_PAIR, {OPS(MANY), OPS(SET_A, SET_B)}}, 2, 3},
        {"many, set and free", {START_PAIR, {OPS(MANY, MANY), OPS(SET_A, WORK, SET_B, WORK)}}, 2, 2},
        {"many, delete, remove, make", {START_PAIR, {OPS(MANY), OPS(DELETE_A, WORK, SET_A, SET_C)}}, 2, 2},
        {"many under buffers", {START_PAIR, {OPS(MANY), OPS(SET_A, WORK)}, .setup_by = 1}, 2, 1, .delays = 1},
        {"attach, attach", {START_VALUE, {OPS(ATTACH_A), OPS(ATTACH_A)}, .free_records = 2}, 2, 2},
        {"attach, attach to one record", {START_VALUE, {OPS(ATTACH_A), OPS(ATTACH_B)}, .free_records = 1}, 2, 3},
        {"attach under free", {START_RETIRED, {OPS(ATTACH_A), OPS(WORK, SET_A, WORK)}, .setup_by = 1, .free_records = 1}, 2, 2},
        {"attach to what is reaped", {START_DEAD, {OPS(REAP), OPS(ATTACH_A)}, .setup_by = 1, .engine = true}, 2, 3},
        {"attach to what is left", {START_VALUE, {OPS(SET_A, FINI), OPS(ATTACH_A)}}, 2, 3},
        {"attach and check", {START_VALUE, {OPS(CHECK), OPS(ATTACH_A)}, .free_records = 1}, 2, 2},
        {"killed attach", {START_VALUE, {OPS(ATTACH_A), OPS(SET_A)}, .free_records = 1}, 2, 1, 1, .crash_mask = 1},
        {"killed attach, reaped, attached", {START_VALUE, {OPS(ATTACH_A), OPS(ATTACH_B)}, .free_records = 1},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"observer arrives, set, prune", {START_VALUE, {OPS(ARRIVE), OPS(SET_A, WORK)}}, 2, 3},
        {"observer arrives, chain", {START_CHAIN, {OPS(ARRIVE), OPS(WORK, SET_A, WORK)}, .setup_by = 1}, 2, 3},
        {"observer arrives, two set", {START_OLD, {OPS(ARRIVE), OPS(SET_A, WORK), OPS(SET_A)}}, 3, 3, .costly = true},
        {"observer arrives, stable cut moves", {START_OLD, {OPS(ARRIVE), OPS(SET_A, WORK), OPS(STABLE)}}, 3, 2},
        {"observer arrives, delete, remove", {START_VALUE, {OPS(ARRIVE), OPS(DELETE_A, WORK, WORK)}}, 2, 2},
        {"observers come and go", {START_VALUE, {OPS(ARRIVE, ARRIVE), OPS(ARRIVE), OPS(SET_A, WORK)}}, 3, 1},
        {"observer arrives under buffers", {START_VALUE, {OPS(ARRIVE), OPS(SET_A, WORK)}}, 2, 1, .delays = 1},
        {"observer arrives, killed set", {START_VALUE, {OPS(SET_A, WORK), OPS(ARRIVE)}}, 2, 1, 1, .crash_mask = 1,
                .reaper = true, .costly = true},
};
/* The validator runs among others, and finds nothing wrong. */
static const struct world_case checks[] = {
        {"check, set", {START_VALUE, {OPS(CHECK), OPS(SET_A, WORK)}}, 2, 2},
        {"check, make", {START_EMPTY, {OPS(CHECK), OPS(SET_A)}}, 2, 2},
        {"check, make, make", {START_EMPTY, {OPS(CHECK), OPS(SET_A), OPS(SET_A)}}, 3, 1},
        {"check, make, delete, remove", {START_EMPTY, {OPS(CHECK), OPS(SET_A, DELETE_A, WORK)}}, 2, 2},
        {"check, remove, make", {START_DELETED, {OPS(CHECK), OPS(WORK, SET_A, DELETE_A, WORK)}, .setup_by = 1}, 2, 2},
        {"check, what is behind a removed node", {START_DELETED, {OPS(CHECK), OPS(SET_B, WORK, DELETE_B, MEMORY), OPS(SET_C)},
                .setup_by = 1}, 3, 2},
        {"check, chain", {START_CHAIN, {OPS(CHECK), OPS(WORK), OPS(SET_A, WORK)}}, 3, 1},
        {"check, leave", {START_VALUE, {OPS(CHECK), OPS(SET_A, SET_B, FINI)}}, 2, 2},
        {"check, memory", {START_DELETED, {OPS(CHECK), OPS(MEMORY, SET_C, FINI)}}, 2, 2},
        {"check, full", {START_FULL, {OPS(CHECK), OPS(SET_A, SET_A)}, .unit_count = 8}, 2, 2},
        {"check, forked", {START_PAIR_DELETED, {OPS(CHECK), OPS(WORK), OPS(SET_A)}, .setup_by = 1, .forked = true}, 3, 1},
        {"check, killed set", {START_VALUE, {OPS(SET_A), OPS(CHECK)}}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"check, killed make, forked", {START_EMPTY, {OPS(SET_A), OPS(CHECK)}, .forked = true}, 2, 1, 1, .crash_mask = 1, .reaper = true,
                .costly = true},
        {"check, killed leave", {START_VALUE, {OPS(SET_A, FINI), OPS(CHECK)}}, 2, 1, 1, .crash_mask = 1, .reaper = true, .costly = true},
};

/* Deeper than a walk over all accesses could go. */
static const struct world_case deep[] = {
        {"deep: away, two make", {START_EMPTY, {OPS(SET_A), OPS(SET_A, GET_A)}, .away = true, .focus = FOCUS_INDEX}, 2, 3},
        {"deep: away, make, remove, get", {START_DELETED, {OPS(WORK), OPS(SET_B, GET_B)}, .away = true, .focus = FOCUS_INDEX}, 2, 3},
        {"deep: away, remove and make", {START_DELETED, {OPS(WORK), OPS(SET_A, GET_A)}, .away = true, .focus = FOCUS_INDEX}, 2, 3},
        {"deep: away, two remove, one makes", {START_PAIR_DELETED, {OPS(WORK), OPS(DELETE_B, WORK, SET_B)}, .away = true,
                .focus = FOCUS_INDEX}, 2, 2},
        {"deep: away, remove, make, make, get", {START_DELETED, {OPS(WORK), OPS(SET_A, GET_A), OPS(SET_A)}, .away = true,
                .focus = FOCUS_INDEX}, 3, 2},
        {"deep: away, make under buffers", {START_EMPTY, {OPS(SET_A), OPS(SET_A, GET_A)}, .away = true}, 2, 1, .delays = 1},
        {"deep: away, remove under buffers", {START_DELETED, {OPS(WORK), OPS(SET_A, GET_A)}, .away = true}, 2, 1, .delays = 1},
        {"deep: away, killed make, reaped meanwhile", {START_EMPTY, {OPS(SET_A), OPS(SET_A)}, .away = true},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: away, killed make, killed reaper", {START_EMPTY, {OPS(SET_A), OPS(GET_A)}, .away = true},
                2, 0, 2, .crash_mask = 1 | MODEL_REAPER, .reaper = true},
        {"deep: away, killed remove, reaped meanwhile", {START_DELETED, {OPS(WORK), OPS(SET_B)}, .away = true},
                2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: away, killed make beside a removal", {START_DELETED, {OPS(SET_A), OPS(WORK), OPS(GET_A)}, .away = true},
                3, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: away, killed late make, reaped meanwhile", {START_EMPTY, {OPS(SET_A), OPS(SET_A, DELETE_A, WORK,
                WORK)}, .away = true}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"deep: make and remove", {START_DELETED, {OPS(WORK), OPS(SET_A)}, .focus = FOCUS_INDEX}, 2, 4},
        {"deep: make and remove, forked", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_A)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 4},
        {"deep: remove and make neighbours, forked", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C),
                OPS(DELETE_B, WORK)}, .forked = true, .focus = FOCUS_INDEX}, 3, 2},
        {"deep: scan and make, forked", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_A), OPS(SCAN)},
                .forked = true, .focus = FOCUS_INDEX}, 3, 3},
        {"deep: get under two sets and frees", {START_RETIRED, {OPS(GET_A), OPS(WORK, SET_A, SET_A, WORK)},
                .setup_by = 1, .focus = FOCUS_MEMORY}, 2, 4},
        {"deep: hold and get", {START_VALUE, {OPS(HOLD_A, GET_A), OPS(SET_A, WORK, SET_A, WORK)},
                .focus = FOCUS_MEMORY}, 2, 4},
        {"deep: two sweeps and a set", {START_RETIRED, {OPS(MEMORY), OPS(MEMORY), OPS(SET_A)},
                .focus = FOCUS_MEMORY}, 3, 2},
        {"deep: free and take again", {START_VALUE, {OPS(SET_A, WORK), OPS(MEMORY)},
                .focus = FOCUS_MEMORY}, 2, 3},
        /* 5.5 million executions, since each set asks every unit; one preemption more takes days. */
        {"deep: full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A, DELETE_A)},
                .unit_count = 8, .focus = FOCUS_MEMORY}, 2, 2},
        /* Whether a set finds a block depends on where the other thread stands. */
        {"deep: nearly full", {START_FULL, {OPS(SET_A, SET_A), OPS(SET_A, DELETE_A)},
                .unit_count = 5, .focus = FOCUS_MEMORY}, 2, 3},
        {"deep: buffers", {START_RETIRED, {OPS(GET_A, HOLD_A), OPS(WORK, SET_A, WORK)},
                .setup_by = 1, .focus = FOCUS_MEMORY}, 2, 3, .delays = 2},
        {"deep: snapshot and prune", {START_OLD, {OPS(SNAP_A, SNAP_A), OPS(SET_A, STABLE, SET_A, WORK)},
                .focus = FOCUS_CUTS}, 2, 4},
        {"deep: two snapshots and a chain", {START_CHAIN, {OPS(SNAP_A), OPS(SNAP_A), OPS(SET_A, WORK)},
                .focus = FOCUS_CUTS}, 3, 3},
        {"deep: two prune a chain", {START_CHAIN, {OPS(SET_A, WORK), OPS(SET_A, WORK)},
                .focus = FOCUS_CUTS}, 2, 4},
        {"deep: cause and effect", {START_PAIR, {OPS(SET_A), OPS(GET_A, SET_B), OPS(SCAN)},
                .focus = FOCUS_CUTS}, 3, 4},
        {"deep: scan over sets and deletes", {START_PAIR, {OPS(SCAN), OPS(SET_A, DELETE_B), OPS(SET_B,
                SET_A)}, .focus = FOCUS_CUTS}, 3, 3},
        {"deep: observer", {START_VALUE, {OPS(SET_A, SET_A), OPS(STABLE), OPS(OBSERVE, OBSERVE)},
                .focus = FOCUS_CUTS}, 3, 3},
};
/* clang-format on */

#define LIST(cases)                                                                                \
        {                                                                                          \
#cases, cases, sizeof(cases) / sizeof *(cases)                                     \
        }
const struct world_list world_keys = LIST(keys);
const struct world_list world_memory = LIST(memory);
const struct world_list world_snapshot = LIST(snapshots);
const struct world_list world_reap = LIST(reaps);
const struct world_list world_magazine = LIST(magazines);
const struct world_list world_large = LIST(larges);
const struct world_list world_away = LIST(aways);
const struct world_list world_records = LIST(records);
const struct world_list world_checks = LIST(checks);
const struct world_list world_deep = LIST(deep);

struct world_list world_pairs(enum world_pairs_how how)
{
        static const struct {
                const char *name;
                struct world_op op;
        } ops[] = {
                {"set", SET_A},
                {"put", PUT_A},
                {"cas", CAS_A},
                {"delete", DELETE_A},
                {"get", GET_A},
                {"scan", SCAN},
                {"work", WORK},
                {"memory", MEMORY},
                {"snapshot", SNAP_A},
                {"stable cut", STABLE},
                {"create", CREATE_A},
                {"set other", SET_B},
        };
        static const struct {
                const char *name;
                enum world_start start;
        } starts[] = {
                {"value", START_VALUE},
                {"old version", START_OLD},
                {"deleted", START_DELETED},
                {"empty", START_EMPTY},
                {"freed memory", START_FREED},
                {"open snapshot", START_SNAPSHOT},
                {"value over a kept one", START_KEPT},
        };
        enum { OP_COUNT = sizeof ops / sizeof *ops, START_COUNT = sizeof starts / sizeof *starts };
        static struct world_case cases[START_COUNT * OP_COUNT * OP_COUNT];
        static char names[sizeof cases / sizeof *cases][64];
        uint32_t start, a, b, count = 0;

        for (start = 0; start < START_COUNT; start++) {
                for (a = 0; a < OP_COUNT; a++) {
                        /* The pair has an order when the first one is killed. */
                        for (b = how == PAIRS_KILLED ? 0 : a; b < OP_COUNT; b++) {
                                struct world_case *new = &cases[count];

                                snprintf(names[count], sizeof names[count], "%s%s and %s on %s%s",
                                        how == PAIRS_KILLED ? "killed " : "", ops[a].name,
                                        ops[b].name, starts[start].name,
                                        how == PAIRS_BUFFERED ? ", buffers" : "");
                                *new = (struct world_case){
                                        .name = names[count], .threads = 2, .preemptions = 2};
                                new->spec.start = starts[start].start;
                                new->spec.ops[0][0] = ops[a].op;
                                new->spec.ops[1][0] = ops[b].op;
                                new->delays = how == PAIRS_BUFFERED;
                                new->crashes = new->crash_mask = new->reaper = how == PAIRS_KILLED;
                                new->preemptions = how == PAIRS_PLAIN ? 2 : 1;
                                count++;
                        }
                }
        }
        return (struct world_list){"pairs", cases, count};
}

int world_main(int argc, char **argv, struct world_list list)
{
        struct model_scenario *scenarios = calloc(list.count, sizeof *scenarios);
        const char *fault = getenv("SB_FAULT"); /* by hand: walk with a seeded fault */
        uint32_t i;
        int r;

        for (i = 0; fault && i < SB_FAULT_COUNT; i++)
                if (!strcmp(fault, world_fault_names[i])) {
                        world_fault = (enum sb_fault)i;
                        fault = NULL;
                }
        if (fault) {
                printf("FAIL SB_FAULT=%s: shm/base/fault.h has no such fault\n", fault);
                free(scenarios);
                return 1;
        }
        for (i = 0; scenarios && i < list.count; i++)
                scenarios[i] = world_scenario(&list.cases[i]);
        r = scenarios ? model_main(argc, argv, scenarios, list.count) : 1;
        free(scenarios);
        return r;
}

const struct world_list *const world_chosen[WORLD_CHOSEN] = {&world_keys, &world_order,
        &world_memory, &world_snapshot, &world_reap, &world_magazine, &world_large, &world_away,
        &world_records, &world_checks, &world_txn, &world_txn_memory, &world_users,
        &world_users_txn, &world_moves, &world_watches, &world_prefixes, &world_batches};
