/*
 * The roster: which process has which client record. The engine claims a record for a process that
 * attaches. The owner frees it, or the reaper of a dead owner.
 *
 * Always true: the tag tells a record's state and generation in one word, and its identity is
 * written before the tag says ATTACHED. record_high is above a record before its owner can pin, so
 * that loops over the records below record_high miss no pin.
 */
#ifndef SB_LAYOUT_ROSTER_H
#define SB_LAYOUT_ROSTER_H

#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* What the engine knows of the process that attaches; see struct sb_record. */
struct sb_roster_identity {
        uint32_t pid, uid, access;
        uint64_t pid_start, attached_ns, ticket;
};

/* Take the first free record from @first on (0 is the engine's own) and make it ATTACHED. Return:
 * 0, SB_E_FULL. Threads: one engine. A kill leaves CLAIMED, which the reaper frees. */
int sb_roster_claim(struct sb_segment *segment, uint32_t first,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation);
/* Clear the record, and make it FREE with the next generation. For its owner. */
void sb_roster_release(struct sb_segment *segment, uint32_t slot, uint32_t generation);
/* Clear a record's announcements, guards, notes and, last, its pin. For its owner, or the reaper of
 * a dead one. */
void sb_roster_clear(const struct sb_segment *segment, uint32_t slot);
/* The state of a record; @ret_generation may be NULL. Both come from one load. */
enum sb_record_state sb_roster_state(
        const struct sb_segment *segment, uint32_t slot, uint32_t *ret_generation);

#endif
