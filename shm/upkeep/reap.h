/*
 * The reaper: finishes what a dead client left, from shared memory alone.
 *
 * How it works: what a client is about to do is noted in its record before other processes can see
 * any of it (`operation`, `freeing`, the magazine's words). The reaper goes through these notes
 * while the dead client's pin still stands, then frees what the client took and never published.
 *
 * Always true: each step can be done twice. A reaper that dies in here is finished by the next one,
 * and the record is FREE only after the last step.
 */
#ifndef SB_UPKEEP_REAP_H
#define SB_UPKEEP_REAP_H

#include "shm/layout/handle.h"

/* Engine: the process behind record @slot, generation @generation, is dead (the kernel said so).
 * Finish its operation, then clear its pin and announcements, recover its blocks and slabs, free
 * the record. A record that is not of that generation any more, or FREE: nothing. A new engine
 * reaps the old one's record with a handle that sits in that very record (the table may be full);
 * then it claims the record anew. */
void sb_reap_record(struct sb_handle *engine, uint32_t slot, uint32_t generation);

#endif
