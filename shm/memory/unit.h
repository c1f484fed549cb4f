/*
 * Units, the pieces that memory is divided into: whose one is, what blocks are in it, and its way
 * from one life to the next. What is taken out of them is slab.c's; what everybody may ask is
 * declared in slab.h.
 */
#ifndef SB_MEMORY_UNIT_H
#define SB_MEMORY_UNIT_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

static inline uint64_t sb_unit_word(const struct sb_segment *segment, uint32_t unit)
{
        /* A:unit-owned. Whoever reads that a unit is nobody's also sees the bits that its last
         * owner set. */
        return sb_load_acquire(&segment->unit_words[unit]);
}

/* Blocks of word @word of the bitmap that are free. */
uint64_t sb_unit_free_bits(
        const struct sb_segment *segment, uint32_t unit, uint32_t word, uint32_t block_count);
uint32_t sb_unit_count_free(const struct sb_segment *segment, uint32_t unit, uint32_t block_count);
bool sb_unit_is_empty(const struct sb_segment *segment, uint32_t unit);
/* An EMPTY unit that may serve any kind: its grace period is over. */
bool sb_unit_past_grace(const struct sb_peer *peer, uint32_t unit, uint64_t word);
/* The owner of a unit that begins another life; before any of its bits is set. */
void sb_unit_set_birth(struct sb_peer *peer, uint32_t unit);
/* The owner's: the large block that begins at @unit is free. */
void sb_unit_free_large(struct sb_peer *peer, uint32_t unit);
/* A large block that nobody owns and whose bit is clear is free; whoever gets it frees it. */
void sb_unit_finish_large(struct sb_peer *peer, uint32_t unit);

/* Clear the bit of a block; the caller has won its retire word, or is its dead taker's reaper. */
void sb_unit_clear(struct sb_peer *peer, uint64_t offset);
/* Take over unit @unit of a dead owner, or give up an own one: FREE when nothing is left in it,
 * else nobody's. */
void sb_unit_give_up(struct sb_peer *peer, uint32_t unit);

/* The size class of @size, or class_count when no class is that large. */
uint32_t sb_unit_class(const struct sb_segment *segment, uint64_t size);
/* Blocks in a slab of this class; 1 for a large block. */
uint32_t sb_unit_block_count(const struct sb_segment *segment, uint64_t unit_word);
/* Whether @offset is the start of a block of @kind (LARGE counts as VERSIONS) with its bit set;
 * ret_size may be NULL. */
bool sb_unit_is_block(const struct sb_segment *segment, uint64_t offset, enum sb_unit_kind kind,
        uint64_t *ret_size);
/* Bitmap words of a unit. */
struct sb_cell64 *sb_unit_bitmap(const struct sb_segment *segment, uint32_t unit);
/* Units of the large block that begins at @unit. */
uint32_t sb_unit_large_count(const struct sb_segment *segment, uint32_t unit);

/* {kind : 4, class : 6} of the unit that a block lies in. */
static inline uint32_t sb_unit_kind_of(const struct sb_segment *segment, uint64_t offset)
{
        /* A:unit-owned. */
        return (uint32_t)(sb_load_acquire(
                                  &segment->unit_words[(offset - segment->geometry.units_at) >>
                                                       segment->unit_shift]) >>
                          54);
}

static inline uint64_t sb_unit_owner(const struct sb_peer *peer)
{
        return (uint64_t)(peer->slot + 1) << 32 | peer->generation;
}

#endif
