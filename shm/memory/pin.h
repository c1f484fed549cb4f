/*
 * Pins: in which eras a client may be following offsets (models: retire, hold, claim).
 *
 * A pin is one word in its owner's record, which says two eras, lo and hi. Both begin as the era of
 * now. lo stays; every load of an offset that is followed looks at the era again and raises hi. So
 * a pin protects each block that was born in hi or before and was unlinked in lo or after. This is
 * interval-based reclamation: Wen et al., PPoPP 2018. grace.h frees what no pin protects.
 *
 * The word is {hi : 48, back : 16}, and lo is hi - back. When hi has gone so far that back is too
 * small for it, lo goes back to the beginning: that holds nothing more of what is born later.
 *
 * Publishing a pin is a plain store without a fence, since readers are many and hurry. A process
 * that frees blocks pays instead: one membarrier, before it reads the pins of all records.
 *
 * Always true: an offset is followed under a pin of which hi is no older than the era in which the
 * offset was loaded; or under a guard, behind which the word that named it was looked at again.
 * Only the owner writes its pin, and the reaper of a dead owner.
 */
#ifndef SB_MEMORY_PIN_H
#define SB_MEMORY_PIN_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/era.h"

/* Write SB_PIN(@hi, @back) into the caller's own record. */
static inline void sb_pin_publish(struct sb_handle *handle, uint64_t hi, uint32_t back)
{
        /* Relaxed and no fence: a locked instruction here would keep the reader's cache misses from
         * overlapping. A reclaimer flushes this store out with a membarrier before it reads the
         * pins (R:pins > A:pins, by M:pins). */
        sb_store_relaxed(&handle->record->pin, SB_PIN(hi, back));
        sb_compiler_barrier(); /* The compiler, too, keeps later loads behind the store. */
}

/* A pin of one era, at its beginning. */
static inline void sb_pin_publish_first(struct sb_handle *handle, uint64_t era)
{
        if (!SB_FAULT(PIN_LATE))
                sb_pin_publish(handle, era, 0);
}

/* The fault PIN_LATE: the pin is published after the load that it should have covered. */
static inline void sb_pin_publish_late(struct sb_handle *handle)
{
        if (SB_FAULT(PIN_LATE))
                sb_pin_publish(handle, handle->pin.hi, 0);
}

/* Begin a pin. Pins do not nest. */
static inline void sb_pin(struct sb_handle *handle)
{
        /* A:era. What was dated with an earlier era was unlinked before this load. */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        handle->pin.hi = era;
        sb_pin_publish_first(handle, era);
}

/* Continue the pin that a dead process left in this record: lo stays, hi becomes the era of now.
 * For the reaper. */
void sb_pin_resume(struct sb_handle *handle);

/* End the pin. No offset that was loaded under it is followed any more, unless a guard holds it. */
static inline void sb_unpin(struct sb_handle *handle)
{
        handle->pin.hi = 0;
        /* R:unpin > A:pins. All reads under the pin, and all guards set under it, come before. */
        sb_store_release(&handle->record->pin, 0);
}

/* Raise hi to @era. */
void sb_pin_raise(struct sb_handle *handle, uint64_t era);

/* Under a pin: hi, the era up to which it covers. What is built under the pin is born then. */
static inline uint64_t sb_pin_era(const struct sb_handle *handle)
{
        return handle->pin.hi;
}

/* Whether @era, read just now, is still the pin's hi. */
static inline bool sb_pin_reaches(const struct sb_handle *handle, uint64_t era)
{
        return SB_LIKELY(era == handle->pin.hi) || SB_FAULT(PIN_NO_RECHECK);
}

/* To be called after a load. True: hi still is the era, so the pin covers what was loaded. False:
 * hi has been raised, and the caller must load again. */
static inline bool sb_pin_covers(struct sb_handle *handle)
{
        /* A:era. If the era is still hi, what was loaded before was born in hi at the latest. */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        if (sb_pin_reaches(handle, era))
                return true;
        sb_pin_raise(handle, era);
        return false;
}

/* Say when a block is born that no other process can reach yet: now, by the pin. The process may
 * have been stopped for ages before the store, so it looks at the era again behind it; from there
 * on a sweep sees the birth in the block. Under a pin. */
static inline void sb_pin_give_birth(struct sb_handle *handle, struct sb_block *block)
{
        uint64_t era;

        for (;;) {
                /* Relaxed: published with the block. */
                sb_store_relaxed(&block->birth, sb_era_low(handle->pin.hi));
                era = sb_load_acquire(&handle->segment.super->era); /* A:era. */
                if (SB_LIKELY(era - handle->pin.hi <= SB_ERA_OLD) || SB_FAULT(BIRTH_STALE))
                        return;
                sb_pin_raise(handle, era);
        }
}

/* Load a word that holds an offset which will be followed. Under a pin. */
static inline uint64_t sb_pin_load(struct sb_handle *handle, const struct sb_word64 *source)
{
        uint64_t word;

        do
                /* A:publish. The object that the word names is complete. */
                word = sb_load_acquire(source);
        while (SB_UNLIKELY(!sb_pin_covers(handle)));
        sb_pin_publish_late(handle);
        return word;
}

#endif
