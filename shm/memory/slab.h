/*
 * Memory: units, slabs of one class in them, blocks; and large blocks of several units.
 *
 * A block is allocated when its bit in the slab's bitmap is set: no list that a crash can tear. A
 * slab has an owner only while somebody takes blocks from it; only the owner sets bits, anybody who
 * won a block's retire word clears its bit. An owner gives a slab up at the end of the operation in
 * which it ran out, so that what was taken but not published always lies in slabs owned by its
 * taker: that is where the reaper looks for it.
 */
#ifndef SB_MEMORY_SLAB_H
#define SB_MEMORY_SLAB_H

#include "shm/base/assert.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

enum { SB_SLAB_LARGER = 1, SB_SLAB_RESERVE = 2 };
/* Take a block of @size bytes for @kind (SB_UNIT_VERSIONS, _NODES, _GUARDS). @also: where there is
 * none of the size's class, blocks of larger classes may serve (so that what a delete freed serves
 * what is smaller), and the units kept back for tombstones. Its retire word is 0 and, in a node, so
 * are cell and unhooked. Return: 0, SB_E_FULL. Cost: a few instructions; every 16th a locked one.
 */
int sb_slab_take(struct sb_peer *peer, enum sb_unit_kind kind, uint64_t size, uint32_t also,
        uint64_t *ret_offset);
/* The same for a version, if one is in the peer's reserve; false: go the long way. */
static inline bool sb_slab_take_ready(struct sb_peer *peer, uint64_t size, uint64_t *ret_offset)
{
        struct sb_slab_cache *reserve;

        if (size > (SB_CLASS_TABLE - 1) * 16)
                return false;
        reserve = &peer->slabs.versions[peer->segment.class_of[(size + 15) / 16]];
        if (!reserve->count)
                return false;
        *ret_offset = reserve->offset[--reserve->count];
        return true;
}
/* The same in two steps, for the short way of a write: the block stays where it is until the write
 * has happened. */
static inline bool sb_slab_peek(const struct sb_peer *peer, uint32_t class_, uint64_t *ret_offset)
{
        const struct sb_slab_cache *cache = &peer->slabs.versions[class_];

        if (SB_UNLIKELY(!cache->count))
                return false;
        *ret_offset = cache->offset[cache->count - 1];
        return true;
}
static inline void sb_slab_take_peeked(struct sb_peer *peer, uint32_t class_)
{
        peer->slabs.versions[class_].count--;
}
/* For a handle that begins. */
void sb_slab_init(struct sb_peer *peer);
/* Give back a block that was taken in this operation and never published. */
void sb_slab_give_back(struct sb_peer *peer, uint64_t offset);
/* End of an operation: nothing that was taken is unpublished any more, so slabs that ran out are
 * given up. */
void sb_slab_settle_some(struct sb_peer *peer);
static inline void sb_slab_settle(struct sb_peer *peer)
{
        if (SB_UNLIKELY(peer->slabs.exhausted_count || peer->slabs.many ||
                        peer->slabs.tombstones.unit != UINT32_MAX))
                sb_slab_settle_some(peer);
}
/* Give up all reserves and slabs. */
void sb_slab_release_all(struct sb_peer *peer);

#endif
