/*
 * A trial with hostile neighbours: one scenario, and before accesses of its operation to the
 * segment one kind of length, offset or word in shared memory is written over, in all blocks or
 * units at once.
 * What the operation has checked before, and uses behind, is the copy that it checked: so it comes
 * to an end and reads nothing outside the segment. What it answers is not judged.
 */
#ifndef SB_TESTS_HOSTILE_H
#define SB_TESTS_HOSTILE_H

#include "tests/harness/step/trial.h"

/* What is written over, in all blocks of its kind. */
enum hostile_target {
        KEY_LEN,
        BRANCH_SHAPE,
        BRANCH_SLOTS,
        BRANCH_ROUND, /* they lead to the branch itself */
        VALUE_LEN,
        SHAPE_KEY_LEN,
        WRITE_COUNT,
        RANGE_COUNT,
        RANGES_LEN,
        RANGES, /* both numbers of the ranges */
        WRITES, /* the offsets in the lists */
        VERSION_NODE,
        HOSTILE_LENGTHS, /* these are for all scenarios, the next ones for those where versions move
                          */
        VERSION_LINK = HOSTILE_LENGTHS,
        LINK_ROUND, /* it leads to the version itself */
        VERSION_STAMP,
        NODE_CELL,
        UNIT_CLASS,
        UNIT_BITMAP,
        HOSTILE_RINGS, /* these are for those with watches */
        NODE_RING = HOSTILE_RINGS,
        RING_COUNTS,
        RING_SLOTS,
        RING_OLD_SLOTS, /* they lead to this block */
        RING_WATCHERS,
        RING_MORE,
        RING_ROUND, /* it leads to the ring itself */
        RING_STATE,
        RING_GONE,
        BELL_WORDS,
        HOSTILE_HINTS, /* these are for those with watches of prefixes */
        RING_SLOT_COUNT = HOSTILE_HINTS,
        RING_HINTS,
        RING_TAIL,
        RING_AHEAD, /* slots say that they are half of all laps ahead */
        RING_MARK,
        ATTENTION,
        PREFIX_LENGTHS,
        PREFIXES,
        HOSTILE_TARGETS
};

/* At stops @first, first + every, ... Return: whether it passed. */
bool trial_hostile(const struct step_scenario *scenario, enum hostile_target what, uint64_t first,
        uint64_t every, struct trial_report *report);

#endif
