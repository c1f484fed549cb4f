/*
 * The one validator: it walks a whole segment and says whether it is sound. Tests use it on images
 * of segments, an engine on a segment that it adopts, agentctl on the bus.
 *
 * How it works: four passes, over the ordered index level by level, the buckets with their chains,
 * the units with their blocks (check-units.h), and the records. A pass that follows links without a
 * bound of its own runs only when the passes before it found nothing.
 *
 * Always true: clients may go on reading and writing meanwhile; what looks wrong is looked at again
 * before it is a finding. The segment is hostile input: the validator asserts nothing of what is in
 * it, and every loop has a bound.
 */
#ifndef SB_UPKEEP_CHECK_H
#define SB_UPKEEP_CHECK_H

#include "shm/layout/handle.h"
#include "shm/layout/report.h"

/* Validate the segment of an attached handle; not under a pin: the validator pins while it walks.
 * @quiescent: no other process is running, so private blocks of free records and the like are
 * findings, too. Return: 0 (see problem_count), or -EBADMSG when the superblock is unusable. */
int sb_check(struct sb_handle *handle, bool quiescent, struct sb_check_report *ret);

#endif
