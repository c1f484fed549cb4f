/*
 * Memory: units, slabs of one class in them, blocks; and large blocks of several units.
 *
 * A block is allocated when its bit in the slab's bitmap is set: no list that a crash can tear. A
 * slab has an owner only while somebody takes blocks from it; only the owner sets bits, anybody who
 * won a block's retire word clears its bit. An owner gives a slab up at the end of the operation in
 * which it ran out, so that what was taken but not published always lies in slabs owned by its
 * taker: that is where the reaper looks for it.
 */
#ifndef SB_SLAB_H
#define SB_SLAB_H

#include "peer.h"

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
        struct sb_reserve *reserve;

        if (size > (SB_CLASS_TABLE - 1) * 16)
                return false;
        reserve = &peer->versions[peer->segment.class_of[(size + 15) / 16]];
        if (!reserve->count)
                return false;
        *ret_offset = reserve->offset[--reserve->count];
        return true;
}
/* Give back a block that was taken in this operation and never published. */
void sb_slab_give_back(struct sb_peer *peer, uint64_t offset);
/* End of an operation: nothing that was taken is unpublished any more, so slabs that ran out are
 * given up. */
void sb_slab_settle_some(struct sb_peer *peer);
static inline void sb_slab_settle(struct sb_peer *peer)
{
        if (SB_UNLIKELY(peer->exhausted_count || peer->slabs_many ||
                        peer->tombstones.unit != UINT32_MAX))
                sb_slab_settle_some(peer);
}
/* Give up all reserves and slabs. */
void sb_slab_release_all(struct sb_peer *peer);
/* Clear the bit of a block; the caller has won its retire word, or is its dead taker's reaper. */
void sb_slab_clear(struct sb_peer *peer, uint64_t offset);
/* Take over unit @unit of a dead owner, or give up an own one: FREE when nothing is left in it,
 * else nobody's. */
void sb_slab_give_up(struct sb_peer *peer, uint32_t unit);

/* The size class of @size, or class_count when no class is that large. */
uint32_t sb_slab_class(const struct sb_segment *segment, uint64_t size);
/* Blocks in a slab of this class; 1 for a large block. */
uint32_t sb_slab_block_count(const struct sb_segment *segment, uint64_t unit_word);
/* Whether @offset is the start of a block of @kind (LARGE counts as VERSIONS) with its bit set;
 * ret_size may be NULL. */
bool sb_slab_is_block(const struct sb_segment *segment, uint64_t offset, enum sb_unit_kind kind,
        uint64_t *ret_size);
/* Bitmap words of a unit. */
struct sb_cell64 *sb_slab_bitmap(const struct sb_segment *segment, uint32_t unit);
/* Units of the large block that begins at @unit. */
uint32_t sb_slab_large_units(const struct sb_segment *segment, uint32_t unit);

/* {kind : 4, class : 6} of the unit that a block lies in. */
static inline uint32_t sb_slab_kind_of(const struct sb_segment *segment, uint64_t offset)
{
        /* A:unit-owned. */
        return (uint32_t)(sb_load_acquire(
                                  &segment->unit_words[(offset - segment->geometry.units_at) >>
                                                       segment->unit_shift]) >>
                          54);
}

static inline uint64_t sb_slab_owner(const struct sb_peer *peer)
{
        return (uint64_t)(peer->slot + 1) << 32 | peer->generation;
}

#ifdef SB_MODEL
/* 1: allocated, 0: freed, 2: allocated, perhaps as it was before. */
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);
#else
#define sb_model_block(offset, size, allocated) ((void)0)
#define sb_model_unchecked_begin()              ((void)0)
#define sb_model_unchecked_end()                ((void)0)
#endif

#endif
