/*
 * The validator's pass over units and blocks (check.h has the whole validator).
 *
 * Always true of a sound segment: each block that is taken is linked, on its way out, in the hand
 * of a client that has noted it, or private to the live owner of its unit; and each version that an
 * aborted transaction holds is in that transaction's list.
 */
#ifndef SB_UPKEEP_CHECK_UNITS_H
#define SB_UPKEEP_CHECK_UNITS_H

#include "shm/keys/reach.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"

/* One look at a segment, as all passes of the validator share it. */
struct sb_look {
        struct sb_handle *handle;
        struct sb_segment *segment;
        struct sb_check_report *report;
        bool quiescent;        /* no other process is running */
        uint64_t held, listed; /* aborted versions that are held; those that transactions list */
        struct sb_reach reach;
};

/* The pass over the units from @first to @end, and their blocks. Not under a pin. */
void sb_look_at_units(struct sb_look *look, uint32_t first, uint32_t end);

/* Whether a block that is linked, or a unit in use, was born in an era to come. Its maker was
 * stopped for ages between the look at the era and the store, and did not look again: a reader that
 * is pinned does not count for what is born then. Asked when no other process is running: a sweep
 * labels births. */
bool sb_look_is_unborn(const struct sb_look *look, const struct sb_word32 *birth);

#endif
