/*
 * The one validator: walks a whole segment and says whether it is sound. Used by tests on images,
 * by an engine that adopts a segment, and by agentctl. Clients may go on reading and writing
 * meanwhile: what looks wrong is looked at again. Treats the segment as hostile input: never
 * asserts on it, every loop has a bound.
 */
#ifndef SB_UPKEEP_CHECK_H
#define SB_UPKEEP_CHECK_H

#include "shm/layout/handle.h"
#include "shm/upkeep/report.h"

/* @peer: an attached handle (pins while it walks). @quiescent: nobody else is running, so private
 * blocks of free records and the like are reported too. Return: 0 (see problem_count), or -EBADMSG
 * when the superblock is unusable. */
int sb_check(struct sb_peer *peer, bool quiescent, struct sb_check_report *ret);

#endif
