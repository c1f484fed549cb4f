/*
 * Units, the pieces that the segment's memory is divided into: which client owns a unit, which
 * blocks in it are taken, and how it passes from one life to the next.
 *
 * A unit is a slab of blocks of one kind and size class, or part of one large block, or it is FREE
 * or EMPTY. Its word says so (layout/block.h draws it), its birth says since which era, and its
 * bitmap has a bit for each block. Taking blocks out of units is slab.h's.
 *
 * Always true:
 *
 * - Only a unit's owner sets bits. A bit is cleared by the process that won the block's retire
 *   word, or by the reaper of the client that took the block.
 *
 * - A unit that its owner found empty becomes EMPTY, dated with the era. It serves another kind or
 *   class only after a grace period: until then, what a slow reader takes for a retire word is one.
 */
#ifndef SB_MEMORY_UNIT_H
#define SB_MEMORY_UNIT_H

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* ---- what a unit is ---- */

static inline uint64_t sb_unit_word(const struct sb_segment *segment, uint32_t unit)
{
        /* A:unit-owned. A process that reads that a unit has no owner also sees the bits that the
         * last owner set. */
        return sb_load_acquire(&segment->unit_words[unit]);
}
/* {kind : 4, class : 6} of the unit that a block lies in. @offset: within the units. */
static inline uint32_t sb_unit_kind_of(const struct sb_segment *segment, uint64_t offset)
{
        /* A:unit-owned. As in sb_unit_word(). */
        return (uint32_t)(sb_load_acquire(
                                  &segment->unit_words[(offset - segment->geometry.units_at) >>
                                                       segment->unit_shift]) >>
                          54);
}
/* The owner's bits in the words of the units that this client owns. */
static inline uint64_t sb_unit_owner(const struct sb_handle *handle)
{
        return (uint64_t)(handle->slot + 1) << 32 | handle->generation;
}
/* The size class of @size bytes, or class_count when no class is that large. */
uint32_t sb_unit_class(const struct sb_segment *segment, uint64_t size);
/* Blocks in a unit with this word: in a slab as many as its class allows, 1 in a large block. */
uint32_t sb_unit_block_count(const struct sb_segment *segment, uint64_t unit_word);
/* Units of the large block that begins at @unit. */
uint32_t sb_unit_large_count(const struct sb_segment *segment, uint32_t unit);

/* ---- which of its blocks are taken ---- */

/* Which block of its slab begins at @offset, in a class that there is: also its bit. Exact: the
 * distance is a multiple of the size, and less than 2^32. */
static inline uint32_t sb_unit_index(
        const struct sb_segment *segment, uint64_t offset, uint32_t class_)
{
        uint64_t within = (offset - segment->geometry.units_at) & (segment->geometry.unit_size - 1);

        return (uint32_t)(within * segment->class_inverse[class_] >> 32);
}
/* A unit's bitmap: geometry.bitmap_stride / 8 words. */
struct sb_word64 *sb_unit_bitmap(const struct sb_segment *segment, uint32_t unit);
/* A bit for each free block of word @word of the bitmap; @block_count: of the whole unit. */
uint64_t sb_unit_free_bits(
        const struct sb_segment *segment, uint32_t unit, uint32_t word, uint32_t block_count);
uint32_t sb_unit_count_free(const struct sb_segment *segment, uint32_t unit, uint32_t block_count);
/* The same, but for a caller to which @enough blocks are as good as all. */
uint32_t sb_unit_count_some(
        const struct sb_segment *segment, uint32_t unit, uint32_t block_count, uint32_t enough);
/* Whether no block of the unit is taken. */
bool sb_unit_is_empty(const struct sb_segment *segment, uint32_t unit);
/* Whether @offset is the start of a block of @kind (LARGE counts as VERSIONS) that is taken;
 * @ret_size may be NULL. */
bool sb_unit_is_block(const struct sb_segment *segment, uint64_t offset, enum sb_unit_kind kind,
        uint64_t *ret_size);
/* Fetch the memory of the block at @offset, which may be any number. How many lines it takes, its
 * unit says before its first line is there. */
static inline void sb_unit_fetch_block(const struct sb_segment *segment, uint64_t offset)
{
        uint64_t within = offset - segment->geometry.units_at;
        const unsigned char *at = segment->base + offset, *end;

        if (SB_UNLIKELY(within > segment->blocks_span))
                return;
        sb_prefetch(at);
        sb_prefetch(at + SB_LINE);
        sb_model_unchecked_begin();
        /* Relaxed: a hint. */
        end = at + segment->class_fetch[SB_UNIT_CLASS(
                           sb_load_relaxed(&segment->unit_words[within >> segment->unit_shift]))];
        sb_model_unchecked_end();
        for (at += 2 * SB_LINE; at <= end; at += SB_LINE)
                sb_prefetch(at);
        sb_prefetch(end); /* of one that begins within a line */
}
/* Fetch what sb_unit_is_block() will read of a block. */
void sb_unit_fetch_bit(const struct sb_segment *segment, uint64_t offset);
/* Clear the bit of a block, which ends its life. The caller has won the block's retire word, or is
 * the reaper of the dead client that took the block. */
void sb_unit_clear(struct sb_handle *handle, uint64_t offset);

/* ---- from one life to the next ---- */

/* Whether an EMPTY unit may serve any kind: its grace period is over, by the last sb_era_look(). */
bool sb_unit_past_grace(const struct sb_handle *handle, uint32_t unit, uint64_t word);
/* Note the era in which a unit begins another life. For its new owner, before it sets any bit. */
void sb_unit_set_birth(struct sb_handle *handle, uint32_t unit);
/* End the owner's part in a unit: it becomes EMPTY when no block is left in it, else it has no
 * owner from now on. For the owner, or the reaper of a dead one. */
void sb_unit_give_up(struct sb_handle *handle, uint32_t unit);
/* Make the unit, which is empty and past its grace period, a slab. For its owner. */
void sb_unit_set_slab(
        struct sb_handle *handle, uint32_t unit, enum sb_unit_kind kind, uint32_t class_);
/* Make the unit, which is empty, the large block that begins at @head, or a part of it. For the
 * owner of both. */
void sb_unit_set_large(struct sb_handle *handle, uint32_t unit, uint32_t head);
/* Free the empty large block that begins at @unit. For its owner. */
void sb_unit_free_large(struct sb_handle *handle, uint32_t unit);
/* Free the large block that begins at @unit, if it has no owner and its bit is clear. Of several
 * processes that try, one becomes its owner and frees it. */
void sb_unit_finish_large(struct sb_handle *handle, uint32_t unit);
/* Make a slab EMPTY that has no owner and no blocks. */
void sb_unit_empty(struct sb_handle *handle, uint32_t unit);

/* ---- hints at it ---- */

/* Set the hints at the unit that are right as it is now; behind a locked instruction. */
void sb_unit_hint(const struct sb_segment *segment, uint32_t unit);
/* Whether they are all set. */
bool sb_unit_is_hinted(const struct sb_segment *segment, uint32_t unit);
/* Clear a hint that was wrong, unless it is right again. */
void sb_unit_unhint(const struct sb_segment *segment, uint32_t list, uint32_t unit);
/* Clear the hints at a unit of which the word was @word, and which this client owns now. */
void sb_unit_taken(const struct sb_segment *segment, uint32_t unit, uint64_t word);
/* Go on with what a killed process left undone at the unit, and set its hints. */
void sb_unit_repair(struct sb_handle *handle, uint32_t unit);

/* Begin another life of a block, before its bit is set. A process that holds its offset may look at
 * it just now. */
void sb_unit_reset_block(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind);

#endif
