/*
 * Pins and grace periods: interval reclamation (models: retire, hold, claim; interval-based
 * reclamation: Wen et al., PPoPP 2018).
 *
 * A pin is one word in the owner's record, {lo, hi}: the eras in which the owner may be following
 * offsets. It is a plain store: whoever frees pays with a membarrier. Every load that is followed
 * looks at the era again and raises hi.
 */
#ifndef SB_MEMORY_PIN_H
#define SB_MEMORY_PIN_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"

static inline void sb_pin_publish(struct sb_peer *peer, uint64_t lo, uint32_t hi)
{
        /* Relaxed and no fence: a locked instruction here would keep the reader's cache misses from
         * overlapping. Whoever frees flushes this store out with a membarrier before it reads the
         * pins (M:pins). */
        sb_store_relaxed(&peer->client->pin, lo << 32 | hi);
        sb_compiler_barrier();
}

/* Not nested. */
static inline void sb_pin(struct sb_peer *peer)
{
        /* A:era. What was retired in an era before this one was unlinked before this load. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        peer->pin.hi = era;
        if (!SB_FAULT(PIN_LATE))
                sb_pin_publish(peer, era, era);
}

/* Go on under the pin that a dead process left in this record: it stays, and grows up to now. */
void sb_pin_resume(struct sb_peer *peer);

static inline void sb_unpin(struct sb_peer *peer)
{
        peer->pin.hi = 0;
        /* R:unpin > A:pins. All that was read under the pin was read before it is gone. */
        sb_store_release(&peer->client->pin, 0);
}

void sb_pin_raise(struct sb_peer *peer, uint32_t era);

/* Under a pin: the era up to which it covers. What is built under it is born then. */
static inline uint32_t sb_pin_era(const struct sb_peer *peer)
{
        return peer->pin.hi;
}

/* After loading a word of a block that no link led to: true when hi still is the era; else hi is
 * raised: load again. */
static inline bool sb_pin_covers(struct sb_peer *peer)
{
        /* A:era. If the era is still hi, what was loaded before was born in hi at the latest. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        if (SB_LIKELY(era == peer->pin.hi) || SB_FAULT(PIN_NO_RECHECK))
                return true;
        sb_pin_raise(peer, era);
        return false;
}

/* Load a word whose offset will be followed. */
static inline uint64_t sb_pin_load(struct sb_peer *peer, const struct sb_cell64 *cell)
{
        uint64_t word;

        do
                /* A:publish. The object that the word names is complete. */
                word = sb_load_acquire(cell);
        while (SB_UNLIKELY(!sb_pin_covers(peer)));
        if (SB_FAULT(PIN_LATE))
                sb_pin_publish(peer, peer->pin.hi, peer->pin.hi);
        return word;
}

#endif
