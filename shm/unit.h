/*
 * Units, the pieces that memory is divided into: whose one is, what blocks are in it, and its way
 * from one life to the next. What is taken out of them is slab.c's; what everybody may ask is
 * declared in slab.h.
 */
#ifndef SB_UNIT_H
#define SB_UNIT_H

#include "slab.h"

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

#endif
