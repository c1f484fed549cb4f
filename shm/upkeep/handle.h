/*
 * A handle's beginning and end (layout/handle.h has the struct).
 */
#ifndef SB_UPKEEP_HANDLE_H
#define SB_UPKEEP_HANDLE_H

#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* Take over a claimed record (state ATTACHED). No store to the segment. */
void sb_peer_init(
        struct sb_peer *peer, const struct sb_segment *segment, uint32_t slot, uint32_t generation);
/* Do what can be done of the private work, give up slabs and reserves, clear announcements, free
 * the record. */
void sb_peer_fini(struct sb_peer *peer);

#endif
