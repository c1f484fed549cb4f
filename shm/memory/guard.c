/* Guard words, and the chunks that hold more of them: which chunk has which words, making a chunk,
 * and freeing one; see guard.h. */

#include "shm/memory/guard.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"

static uint64_t guard_chunk_owner(uint32_t slot, uint32_t generation, uint32_t chunk)
{
        return (uint64_t)generation << 32 | (uint64_t)slot << 16 | chunk;
}

/* Words in a chunk of the largest class. */
static uint32_t guard_chunk_words_most(const struct sb_segment *segment)
{
        return (uint32_t)((segment->class_size[segment->class_count - 1] -
                                  sizeof(struct sb_guard_chunk)) /
                          8);
}

/* Words in chunk @chunk > 0: as many as all before it together, as long as a slab has a class for
 * them. */
static uint32_t guard_chunk_words(const struct sb_segment *segment, uint32_t chunk)
{
        uint64_t words = (uint64_t)segment->geometry.guard_inline
                         << (chunk - 1 < 16 ? chunk - 1 : 16);
        uint32_t most = guard_chunk_words_most(segment);

        return words < most ? (uint32_t)words : most;
}

/* Which chunk holds guard word *@index, which becomes the index in that chunk; SB_GUARD_CHUNKS: no
 * chunk can. */
static uint32_t guard_chunk_of(const struct sb_segment *segment, uint32_t *index)
{
        uint32_t chunk = 0, words = segment->geometry.guard_inline,
                 most = guard_chunk_words_most(segment);

        while (*index >= words) {
                *index -= words;
                chunk++;
                words = guard_chunk_words(segment, chunk);
                if (words == most) {
                        /* All chunks that follow are as large. */
                        chunk += *index / most;
                        *index %= most;
                }
        }
        return chunk < SB_GUARD_CHUNKS ? chunk : SB_GUARD_CHUNKS;
}

struct sb_word64 *sb_guard_word(
        const struct sb_segment *segment, struct sb_record *record, uint32_t index)
{
        uint32_t chunk = guard_chunk_of(segment, &index);
        uint64_t offset, size;

        if (!chunk)
                return &sb_record_guards(segment, record)[index];
        if (chunk >= SB_GUARD_CHUNKS)
                return NULL;
        /* A:guard-chunk. Its words are zero, or guards. */
        offset = sb_load_acquire(&record->guard_chunk[chunk]);
        if (!offset || !sb_block_at(segment, offset) ||
                !sb_unit_is_block(segment, offset, SB_UNIT_GUARDS, &size) ||
                sizeof(struct sb_guard_chunk) + 8 * ((uint64_t)index + 1) > size)
                return NULL;
        return &((struct sb_guard_chunk *)sb_block_at(segment, offset))->guard[index];
}

/* The first index behind chunk @chunk. */
static uint32_t guard_chunk_end(const struct sb_segment *segment, uint32_t chunk)
{
        uint32_t end = segment->geometry.guard_inline;

        for (uint32_t i = 1; i <= chunk; i++)
                end += guard_chunk_words(segment, i);
        return end < SB_GUARDS_MAX ? end : SB_GUARDS_MAX;
}

/* Reclaimers read to @index at least. The fault GUARD_BEYOND leaves it out. */
static void guard_raise(struct sb_handle *handle, uint32_t index)
{
        /* Relaxed: the owner reads back its own word. */
        if (index >= sb_load_relaxed(&handle->record->guard_high) && !SB_FAULT(GUARD_BEYOND))
                /* R:guard > A:guard. The bound comes before the guards that it bounds. */
                sb_store_release(&handle->record->guard_high, index + 1);
}

/* The last guard of the top chunk was let go: reclaimers need not read that chunk any more, nor the
 * empty ones below. */
static void guard_lower(struct sb_handle *handle)
{
        struct sb_guards *guards = &handle->guards;

        while (guards->top && !guards->used[guards->top])
                guards->top--;
        /* R:guard > A:guard. Behind the words that are 0 now. */
        sb_store_release(
                &handle->record->guard_high, guard_chunk_end(&handle->segment, guards->top));
}

void sb_guard_set_far(struct sb_handle *handle, uint32_t index, uint64_t offset)
{
        struct sb_word64 *word = sb_guard_word(&handle->segment, handle->record, index);
        uint32_t within = index, chunk = guard_chunk_of(&handle->segment, &within);
        struct sb_guards *guards = &handle->guards;
        bool was_set;

        sb_assert(word && chunk < SB_GUARD_CHUNKS);
        was_set = sb_load_relaxed(word) != 0; /* Relaxed: the owner's own word. */
        if (offset)
                guard_raise(handle, index);
        /* R:guard > A:guard. As in sb_guard_set(). */
        sb_store_release(word, offset);
        guards->used[chunk] += (offset != 0) - was_set;
        if (guards->used[chunk] && chunk > guards->top)
                guards->top = chunk;
        if (was_set && !guards->used[chunk] && chunk == guards->top)
                guard_lower(handle);
}

/* Load a guard word in a chunk that may be freed at this moment. A chunk is freed as soon as its
 * owner is gone, without a grace period. Then what is loaded is no guard, and at worst it keeps one
 * block for one round more. A living owner's chunk stays. */
static uint64_t guard_load_unchecked(const struct sb_word64 *word)
{
        uint64_t held;

        sb_model_unchecked_begin();
        /* A:guard. The reclaimer has read the pins before. */
        held = sb_load_acquire(word);
        sb_model_unchecked_end();
        return held;
}

uint64_t sb_guard_read(const struct sb_segment *segment, struct sb_record *record, uint32_t index)
{
        const struct sb_word64 *word = sb_guard_word(segment, record, index);

        return word ? guard_load_unchecked(word) : 0;
}

int sb_guard_grow(struct sb_handle *handle, uint32_t index)
{
        struct sb_record *record = handle->record;
        uint32_t within = index, chunk = guard_chunk_of(&handle->segment, &within), words;
        struct sb_guard_chunk *block;
        uint64_t offset;
        int r;

        if (index >= SB_GUARDS_MAX || chunk >= SB_GUARD_CHUNKS)
                return SB_E_FULL;
        if (chunk && !sb_guard_word(&handle->segment, record, index)) {
                words = guard_chunk_words(&handle->segment, chunk);
                r = sb_slab_take(
                        handle, SB_UNIT_GUARDS, sizeof(*block) + 8 * (uint64_t)words, 0, &offset);
                if (r)
                        return r;
                block = sb_block_at(&handle->segment, offset);
                block->owner = guard_chunk_owner(handle->slot, handle->generation, chunk);
                for (uint32_t i = 0; i < words; i++)
                        /* Relaxed: published by the release below. */
                        sb_store_relaxed(&block->guard[i], 0);
                /* R:guard-chunk > A:guard-chunk. The chunk's words are zero before it is named. */
                sb_store_release(&record->guard_chunk[chunk], offset);
                sb_slab_leave_guards(handle);
                sb_slab_settle(handle);
        }
        /* Words of a chunk are read from the first guard in them on. */
        if (!chunk)
                guard_raise(handle, index);
        return 0;
}

/* Whether @offset is the chunk of which the block says @owner. A look that the pin does not cover
 * is repeated: else the unit could be of another kind behind the first half of the look. The owner
 * of the chunk asks without a pin; its unit stays what it is. */
static bool guard_is_chunk(struct sb_handle *handle, uint64_t offset, uint64_t owner)
{
        const struct sb_guard_chunk *block = sb_block_at(&handle->segment, offset);
        bool is;

        do
                is = sb_unit_is_block(&handle->segment, offset, SB_UNIT_GUARDS, NULL) &&
                     block->owner == owner;
        while (handle->pin.hi && !sb_pin_covers(handle));
        return is;
}

bool sb_guard_chunk_free(
        struct sb_handle *handle, uint32_t slot, uint32_t generation, uint32_t chunk)
{
        struct sb_record *record = sb_record_at(&handle->segment, slot);
        /* A:guard-chunk. The chunk's owner word is written before. */
        uint64_t offset = sb_load_acquire(&record->guard_chunk[chunk]);
        struct sb_guard_chunk *block = sb_block_at(&handle->segment, offset);
        bool freed = false;

        if (offset && block &&
                guard_is_chunk(handle, offset, guard_chunk_owner(slot, generation, chunk))) {
                /* Relaxed: the CAS below orders it (R:freeing). */
                sb_store_relaxed(&handle->record->freeing, offset);
                /* R:retire > A:retire. One of several that free this chunk wins. */
                if (sb_cas32_full(&block->block.retire, 0, SB_RETIRE_FREEING | handle->slot)) {
                        sb_unit_clear(handle, offset);
                        freed = true;
                }
                /* R:freed. The bit is clear before the note is gone. */
                sb_store_release(&handle->record->freeing, 0);
        }
        /* R:guard-chunk. The record names the chunk until it is free, so that a kill loses none. */
        sb_store_release(&record->guard_chunk[chunk], 0);
        return freed;
}
