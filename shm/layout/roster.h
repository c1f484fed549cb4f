/*
 * The roster: which process has which client record. The engine claims a record; its owner frees
 * it, or the reaper of a dead owner.
 */
#ifndef SB_LAYOUT_ROSTER_H
#define SB_LAYOUT_ROSTER_H

#include "shm/layout/record.h"
#include "shm/layout/segment.h"

struct sb_slot_identity {
        uint32_t pid, uid, access;
        uint64_t pid_start, attached_ns, ticket;
};

/* Engine: take the first free record from @first on (0 is the engine's own) and make it ATTACHED.
 * Return: 0, SB_E_FULL. Threads: one engine. A kill leaves CLAIMED, which the reaper frees. */
int sb_slot_claim(struct sb_segment *segment, uint32_t first,
        const struct sb_slot_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation);
/* The owner's way out: everything in the record cleared, then FREE with the next generation. */
void sb_slot_release(struct sb_segment *segment, uint32_t slot, uint32_t generation);
/* Clear a record's announcements, guards, notes and, last, its pin; by its owner, or its reaper. */
void sb_slot_clear(const struct sb_segment *segment, uint32_t slot);
/* State of a record as one load; ret_generation may be NULL. */
enum sb_client_state sb_slot_state(
        const struct sb_segment *segment, uint32_t slot, uint32_t *ret_generation);

#endif
