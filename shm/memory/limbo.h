/*
 * What a handle has yet to do about memory: cells of which the chains can be shortened once the
 * stable cut has moved (pending), and blocks that wait for a grace period (limbo). Both lists are
 * private hints: what counts is in the blocks' retire words, and a sweep finds it there.
 *
 * A block's way: live -> DYING (sb_limbo_begin) -> dated with an era, when nothing links it any
 * more (sb_limbo_date) -> free, when no process can be reading it (grace.h, upkeep/reclaim.h).
 */
#ifndef SB_MEMORY_LIMBO_H
#define SB_MEMORY_LIMBO_H

#include "shm/base/assert.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/era.h"

/* Retire word 0 -> DYING: on its way out; before anything that links the block goes. True: this
 * call did it. */
bool sb_limbo_begin(struct sb_peer *peer, struct sb_block *block);

/* The block is linked by nothing any more: date it and let it wait for its grace period.
 * Idempotent; under a pin. */
void sb_limbo_date(struct sb_peer *peer, struct sb_block *block);
/* Let a dated block, or a node in its first grace period, wait. */
void sb_limbo_wait(struct sb_peer *peer, uint64_t offset, uint32_t era, bool first_grace);
/* One more is in limbo. */
static inline void sb_limbo_count(struct sb_peer *peer)
{
        if (SB_UNLIKELY(++peer->limbo.count == peer->limbo.ripe)) {
                sb_era_advance(peer);
                peer->limbo.ripened = true;
        }
}

/* A cell to look at again once `safe` reaches @stamp. */
void sb_limbo_later(struct sb_peer *peer, uint64_t cell_number, uint64_t stamp);
/* Something stays behind that only a sweep will find. */
void sb_limbo_leave(struct sb_peer *peer);

/* Low bit of sb_limbo.offset: a node whose first grace period this is. */
#define SB_LIMBO_FIRST_GRACE UINT64_C(1)

static inline bool sb_limbo_is_empty(const struct sb_peer *peer)
{
        return !peer->limbo.count;
}
/* So many blocks wait that a look at all clients is worth its membarrier. */
static inline bool sb_limbo_due(const struct sb_peer *peer)
{
        return peer->limbo.count >= peer->limbo.wake;
}
/* More than half of the list is taken: a sweep frees before it goes on. */
static inline bool sb_limbo_half_full(const struct sb_peer *peer)
{
        return peer->limbo.count > SB_LIMBO_MAX / 2;
}
/* Cells that wait for sb_limbo_take_pending(), which gives the oldest. */
static inline uint32_t sb_limbo_pending(const struct sb_peer *peer)
{
        return peer->limbo.pending_tail - peer->limbo.pending_head;
}
static inline bool sb_limbo_pending_due(const struct sb_peer *peer)
{
        return sb_limbo_pending(peer) >= SB_PENDING_MAX / 4;
}
static inline const struct sb_pending *sb_limbo_first_pending(const struct sb_peer *peer)
{
        return &peer->limbo.pending[peer->limbo.pending_head % SB_PENDING_MAX];
}
static inline struct sb_pending sb_limbo_take_pending(struct sb_peer *peer)
{
        return peer->limbo.pending[peer->limbo.pending_head++ % SB_PENDING_MAX];
}

#endif
