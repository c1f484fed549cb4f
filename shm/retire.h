/*
 * What a handle has yet to do about memory: cells whose chains can be shortened once `safe` has
 * moved, and blocks that wait for a grace period. Both lists are private hints: what counts is in
 * the blocks' retire words, and a sweep finds it there.
 */
#ifndef SB_RETIRE_H
#define SB_RETIRE_H

#include "epoch.h"
#include "peer.h"

/* A cell to look at again once `safe` reaches @stamp. */
void sb_retire_later(struct sb_peer *peer, uint64_t cell_number, uint64_t stamp);
/* The block is linked by nothing any more: date it and let it wait for its grace period.
 * Idempotent; under a pin. */
void sb_retire_finish(struct sb_peer *peer, struct sb_block *block);
/* Let a dated block, or a node in its first grace period, wait. */
void sb_retire_wait(struct sb_peer *peer, uint64_t offset, uint32_t era, bool first_grace);
/* One more is in limbo. */
static inline void sb_retire_count(struct sb_peer *peer)
{
        if (SB_UNLIKELY(++peer->limbo_count == peer->limbo_ripe)) {
                sb_era_advance(peer);
                peer->limbo_ripened = true;
        }
}
/* Before a block that is in the caller's hand is freed: if it is a transaction's descriptor, its
 * aborted versions are let go. */
void sb_retire_dispose(struct sb_peer *peer, uint64_t offset);
/* When the next batch is due, with @old ones in limbo that may stay there for long. */
void sb_retire_expect(struct sb_peer *peer, uint32_t old);
/* Prune and remove what is due; not under a pin. */
void sb_retire_pending(struct sb_peer *peer);
/* Free what nobody can be reading; not under a pin. Return: blocks freed. */
uint64_t sb_retire_free(struct sb_peer *peer);
/* Let go of what is in hand: all that is ready, and what waits becomes everybody's. */
void sb_retire_release(struct sb_peer *peer);
/* Something stays behind that only a sweep will find. */
void sb_retire_leave(struct sb_peer *peer);

#endif
