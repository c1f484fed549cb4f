/*
 * Finishing what the dead left, from shared memory alone. Idempotent: a reaper that dies in here is
 * finished by the next one.
 */
#ifndef SB_UPKEEP_REAP_H
#define SB_UPKEEP_REAP_H

#include "shm/layout/handle.h"

/* Engine: the process behind record @slot, generation @generation, is dead (the kernel said so).
 * Finish its operation, then clear its pin and announcements, recover its blocks and slabs, free
 * the record. A record that is not that generation any more, or FREE: nothing. A new engine reaps
 * the old one's record with a peer that sits in that very record (the table may be full): then
 * claims it anew. */
void sb_reap_slot(struct sb_peer *engine, uint32_t slot, uint32_t generation);

#endif
