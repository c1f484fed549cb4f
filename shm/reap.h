/*
 * Finishing what the dead left, from shared memory alone. Idempotent: whoever dies in here is
 * finished by the next.
 */
#ifndef SB_REAP_H
#define SB_REAP_H

#include "peer.h"

/* Engine: the process behind record @slot, generation @generation, is dead (the kernel said so).
 * Finish its operation, then clear its pin and announcements, recover its blocks and slabs, free
 * the record. A record that is not that generation any more, or FREE: nothing. A new engine reaps
 * the old one's record with a peer that sits in that very record (the table may be full): then
 * claims it anew. */
void sb_reap_slot(struct sb_peer *engine, uint32_t slot, uint32_t generation);

/* Anybody: look at @count units from *cursor on, and bring every block in them that nobody needs a
 * step nearer to being free. Advances *cursor, modulo unit_count. Return: blocks freed. */
uint64_t sb_sweep(struct sb_peer *peer, uint32_t *cursor, uint32_t count);

/* Around the calls of one whole sweep: births that are very old are brought up to date on the way,
 * so that 32 bits last for ever. */
void sb_sweep_begin(struct sb_peer *peer);
void sb_sweep_end(struct sb_peer *peer);

/* Engine, every few milliseconds: raise `safe` when anything changed, work off the private lists,
 * sweep in slices when somebody left work behind. Return: whether there is more to do at once. */
bool sb_reap_tick(struct sb_peer *engine, uint32_t *cursor);

#endif
