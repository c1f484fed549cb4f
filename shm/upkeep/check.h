/*
 * The one validator: it walks a whole segment and says whether it is sound. Tests use it on images
 * of segments, an engine on a segment that it adopts, agentctl on the bus.
 *
 * How it works: four passes, over the ordered index, the buckets with their chains, the units with
 * their blocks (check-units.h), and the records. The pass over the units follows links without a
 * bound of its own: it is for a segment in which the first two found nothing. Each pass can be
 * divided, for several processes, each with a handle of its own: in a large bus it takes seconds.
 *
 * Always true: clients may go on reading and writing meanwhile; what looks wrong is looked at again
 * before it is a finding. The segment is hostile input: the validator asserts nothing of what is in
 * it, and every loop has a bound.
 */
#ifndef SB_UPKEEP_CHECK_H
#define SB_UPKEEP_CHECK_H

#include "shm/layout/handle.h"
#include "shm/layout/report.h"

enum sb_check_pass {
        SB_CHECK_ORDER, /* the ordered index; in one part alone */
        SB_CHECK_BUCKETS,
        SB_CHECK_UNITS,
        SB_CHECK_RECORDS
};

/* One of several equal parts of a pass. */
struct sb_check_part {
        enum sb_check_pass pass;
        uint32_t part, parts; /* part < parts */
};

/* Validate the segment of an attached handle; not under a pin: the validator pins while it walks.
 * @quiescent: no other process is running, so private blocks of free records and the like are
 * findings, too. Return: 0 (see problem_count), or -EBADMSG when the superblock is unusable. */
int sb_check(struct sb_handle *handle, bool quiescent, struct sb_check_report *ret);

/* The same in parts, beside other processes: first this, which looks at the superblock. *ret: what
 * it found. Return: as sb_check(). */
int sb_check_begin(struct sb_handle *handle, struct sb_check_report *ret);
/* Then each part of each pass; the findings and counts are added to @report. The first two passes
 * may go on side by side; the others come behind them, when they found nothing. Not under a pin. */
void sb_check_part(
        struct sb_handle *handle, struct sb_check_part part, struct sb_check_report *report);

#endif
