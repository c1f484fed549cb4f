/*
 * Guards: words in a client's record, each of which holds one version, or one node, in place for
 * any length of time. A reader sets one before it unpins, and so keeps the value without a copy.
 *
 * The first words, geometry.guard_inline of them, lie in the record itself. More of them lie in
 * chunks, which are blocks of the segment that the record names. Each chunk is as large as all
 * before it together, up to the largest size class. A chunk stays until its owner leaves, so that a
 * word never moves. When the last chunk with guards in it is empty, the owner lowers guard_high to
 * the end of the one before, and raises it again before the next guard beyond: reclaimers read the
 * guards of now, not as many as there once were.
 *
 * There are two ways to a guard. Under a pin that covers the block, a client sets it, and then
 * unpins. Without a pin, a client publishes it and then looks whether the word that named the block
 * still says so; before that it reads nothing of the block. This is a hazard pointer (Michael, IEEE
 * TPDS 2004) without the reader's fence: the membarrier of a reclaimer takes its place, as for
 * pins. If the word names the block, the block was linked when the guard was there; if it does not,
 * the guard means nothing, and holds for a moment whatever block there is.
 *
 * Always true: only the owner writes its guard words, and the reaper of a dead owner. Reclaimers
 * read the words of all records, up to each owner's guard_high, after the membarrier that follows
 * the unlink, and after they have read all pins: so a block passes from its reader's pin to its
 * guard without a gap (model: hold).
 */
#ifndef SB_MEMORY_GUARD_H
#define SB_MEMORY_GUARD_H

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* Guard word @index of a record; NULL when its chunk was never made. */
struct sb_word64 *sb_guard_word(
        const struct sb_segment *segment, struct sb_record *record, uint32_t index);
/* sb_guard_set() for a word outside the record. */
void sb_guard_set_far(struct sb_handle *handle, uint32_t index, uint64_t offset);
/* Whether a guard word lies in the record itself, as word 0 always does. */
static inline __attribute__((always_inline)) bool sb_guard_is_near(
        const struct sb_handle *handle, uint32_t index)
{
        return (__builtin_constant_p(index) && index == 0) ||
               SB_LIKELY(index < handle->segment.geometry.guard_inline);
}
/* Let the caller's guard word @index hold the block at @offset; 0 lets go. Called under the pin
 * that protects the block. sb_guard_grow() must have been called for this index once. */
static inline __attribute__((always_inline)) void sb_guard_set(
        struct sb_handle *handle, uint32_t index, uint64_t offset)
{
        /* R:guard > A:guard. Before the unpin: a reclaimer that saw no pin sees the guard. */
        if (sb_guard_is_near(handle, index))
                sb_store_release(&handle->guards.words[index], offset);
        else
                sb_guard_set_far(handle, index, offset);
}
/* The same without a pin: behind this the caller looks again at the word that named the block. No
 * fence, as in sb_pin_publish(): a reclaimer flushes the store out with its membarrier before it
 * reads the guards. The store is a release here, too: what was read under the guard that was in
 * this word before is read before, for a reclaimer may see this one alone. */
static inline __attribute__((always_inline)) void sb_guard_publish(
        struct sb_handle *handle, uint32_t index, uint64_t offset)
{
        sb_guard_set(handle, index, offset);
        sb_compiler_barrier(); /* The compiler, too, keeps the look behind the store. */
}
/* For a handle that begins. */
static inline void sb_guard_init(struct sb_handle *handle)
{
        handle->guards.words = sb_record_guards(&handle->segment, handle->record);
}
/* See to it that the caller's guard word @index exists, and that reclaimers read it; words in a
 * chunk they read once there is a guard in it. Return: 0, SB_E_FULL. */
int sb_guard_grow(struct sb_handle *handle, uint32_t index);

/* What guard word @index of any record holds; 0 when it holds nothing or was never made. */
uint64_t sb_guard_read(const struct sb_segment *segment, struct sb_record *record, uint32_t index);
/* Free chunk @chunk of record @slot, which is the caller's own or that of a dead client. True when
 * this call freed a block. */
bool sb_guard_chunk_free(
        struct sb_handle *handle, uint32_t slot, uint32_t generation, uint32_t chunk);

#endif
