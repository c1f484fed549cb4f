/* The scenarios of the ordered index; see lists.h and lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define SET_B    {OP_SET, KEY_B}
#define SET_C    {OP_SET, KEY_C}
#define DELETE_A {OP_DELETE, KEY_A}
#define DELETE_B {OP_DELETE, KEY_B}
#define DELETE_C {OP_DELETE, KEY_C}
#define SCAN     {OP_SCAN, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define CHECK    {OP_CHECK, KEY_A}

/* A and B lie in one branch, of which A is the anchor. Forked: that and C lie in the root's. */
static const struct world_case order_cases[] = {
        /* Where a slot is free, a maker needs one CAS. */
        {"branch: copied beside a maker", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C)},
                .slots = 3, .focus = FOCUS_INDEX}, 2, 3},
        {"branch: copied beside two makers", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C), OPS(SET_A)},
                .slots = 3, .focus = FOCUS_INDEX}, 3, 2},
        {"branch: made anew beside a maker", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C, SET_A)},
                .slots = 3, .focus = FOCUS_INDEX}, 2, 2},
        /* Where none is, it needs a larger copy. */
        {"branch: grows beside a removal", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C)},
                .focus = FOCUS_INDEX}, 2, 3},
        {"branch: grows beside a removal of another", {START_PAIR, {OPS(DELETE_B, WORK), OPS(SET_C)},
                .setup_by = 1, .focus = FOCUS_INDEX}, 2, 3},
        {"branch: grows beside two", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C), OPS(SET_A)},
                .focus = FOCUS_INDEX}, 3, 2},
        {"branch: two removed, one made", {START_BOTH_DELETED, {OPS(WORK), OPS(SET_A), OPS(DELETE_C, WORK)},
                .focus = FOCUS_INDEX}, 3, 2},
        {"branch: all removed", {START_BOTH_DELETED, {OPS(WORK), OPS(DELETE_C, WORK), OPS(SET_B)},
                .slots = 3, .focus = FOCUS_INDEX}, 3, 2},
        /* A branch and the one above it. */
        {"branch: replaced below one that is", {START_BOTH_DELETED, {OPS(WORK), OPS(DELETE_C, WORK)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 3},
        {"branch: replaced below one that grows", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C, DELETE_C, WORK)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 3},
        {"branch: replaced below, made again", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C, SET_A)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 3},
        {"branch: three below one another", {START_ALL, {OPS(DELETE_A, WORK), OPS(DELETE_C, WORK), OPS(DELETE_B)},
                .setup_by = 1, .forked = true, .focus = FOCUS_INDEX}, 3, 2},
        /* A reader goes on in what was replaced, and its memory is used again. */
        {"branch: scan over copies", {START_PAIR_DELETED, {OPS(SCAN), OPS(WORK, SET_C, DELETE_B, WORK, MEMORY)},
                .setup_by = 1, .focus = FOCUS_INDEX}, 2, 2},
        {"branch: scan over copies, forked", {START_BOTH_DELETED, {OPS(SCAN), OPS(WORK, SET_A, DELETE_C, WORK, MEMORY)},
                .setup_by = 1, .forked = true, .focus = FOCUS_INDEX}, 2, 2},
        {"branch: scan beside two", {START_PAIR_DELETED, {OPS(SCAN), OPS(WORK, MEMORY), OPS(SET_C, DELETE_C, WORK, MEMORY)},
                .setup_by = 1, .focus = FOCUS_INDEX}, 3, 2},
        {"branch: late maker over copies", {START_PAIR_DELETED, {OPS(SET_C), OPS(WORK, SET_A, DELETE_B, WORK, MEMORY)},
                .setup_by = 1, .focus = FOCUS_INDEX}, 2, 2},
        {"branch: scan, made, copied and freed", {START_PAIR, {OPS(SCAN), OPS(SET_C, DELETE_A, WORK, DELETE_C, MEMORY)},
                .setup_by = 1, .slots = 3}, 2, 2},
        /* Stopped twice: before it loads the slots, and with a leaf from them that is younger than
         * its pin. The validator keeps no cut open, so the leaf can go. */
        {"branch: check over one that is younger", {START_ALL, {OPS(CHECK), OPS(DELETE_B, MEMORY, SET_B), OPS(DELETE_B, MEMORY, MEMORY)},
                .setup_by = 1, .slots = 3, .focus = FOCUS_INDEX}, 3, 2},
        {"branch: check beside two that go", {START_BOTH_DELETED, {OPS(WORK), OPS(DELETE_C, WORK), OPS(CHECK)},
                .forked = true, .focus = FOCUS_INDEX}, 3, 3, .costly = true},
        {"branch: check beside one that is used again", {START_BOTH_DELETED, {OPS(WORK, MEMORY, SET_B), OPS(CHECK)},
                .focus = FOCUS_MEMORY}, 2, 2},
        /* What kills leave: the sweep and the reaper work beside others. */
        {"branch: killed removal, swept", {START_PAIR_DELETED, {OPS(WORK), OPS(SWEEP, SET_C, SWEEP)},
                .focus = FOCUS_INDEX}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"branch: killed removal, forked, swept", {START_BOTH_DELETED, {OPS(WORK), OPS(SWEEP, SET_A, SWEEP)},
                .forked = true, .focus = FOCUS_INDEX}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"branch: killed growth, swept", {START_PAIR, {OPS(SET_C), OPS(DELETE_A, SWEEP, SWEEP)},
                .setup_by = 1, .focus = FOCUS_INDEX}, 2, 1, 1, .crash_mask = 1, .reaper = true},
        {"branch: killed removal beside a scan", {START_PAIR_DELETED, {OPS(WORK), OPS(SCAN), OPS(SWEEP, SWEEP)},
                .focus = FOCUS_INDEX}, 3, 1, 1, .crash_mask = 1, .reaper = true},
        {"branch: stopped removal beside a sweep", {START_PAIR_DELETED, {OPS(WORK), OPS(SET_C, DELETE_B, WORK), OPS(SWEEP)},
                .focus = FOCUS_INDEX}, 3, 2},
};

const struct world_list world_order = {
        "order", order_cases, sizeof order_cases / sizeof *order_cases};
