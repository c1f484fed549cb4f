/*
 * Pins and grace periods: interval reclamation (models: retire, hold, claim; interval-based
 * reclamation: Wen et al., PPoPP 2018).
 *
 * A pin is one word in the owner's record, {lo, hi}: the eras in which the owner may be following
 * offsets. It is a plain store: whoever frees pays with a membarrier. Every load that is followed
 * looks at the era again and raises hi.
 */
#ifndef SB_EPOCH_H
#define SB_EPOCH_H

#include "base/fault.h"
#include "peer.h"

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

        peer->hi = era;
        if (!SB_FAULT(PIN_LATE))
                sb_pin_publish(peer, era, era);
}

/* Go on under the pin that a dead process left in this record: it stays, and grows up to now. */
void sb_pin_resume(struct sb_peer *peer);

static inline void sb_unpin(struct sb_peer *peer)
{
        peer->hi = 0;
        /* R:unpin > A:pins. All that was read under the pin was read before it is gone. */
        sb_store_release(&peer->client->pin, 0);
}

void sb_pin_raise(struct sb_peer *peer, uint32_t era);

/* After loading a word of a block that no link led to: true when hi still is the era; else hi is
 * raised: load again. */
static inline bool sb_pin_covers(struct sb_peer *peer)
{
        /* A:era. If the era is still hi, what was loaded before was born in hi at the latest. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        if (SB_LIKELY(era == peer->hi) || SB_FAULT(PIN_NO_RECHECK))
                return true;
        sb_pin_raise(peer, era);
        return false;
}

/* Load a word whose offset will be followed. */
static inline uint64_t sb_load_pinned(struct sb_peer *peer, const struct sb_cell64 *cell)
{
        uint64_t word;

        do
                /* A:publish. The object that the word names is complete. */
                word = sb_load_acquire(cell);
        while (SB_UNLIKELY(!sb_pin_covers(peer)));
        if (SB_FAULT(PIN_LATE))
                sb_pin_publish(peer, peer->hi, peer->hi);
        return word;
}

/* Retire word 0 -> DYING: on its way out; before anything that links the block goes. True: this
 * call did it. */
bool sb_retire_begin(struct sb_peer *peer, struct sb_block *block);
void sb_era_advance(struct sb_peer *peer);
/* Advance the era, flush everybody's stores, look at the pins of the others. */
void sb_era_look(struct sb_peer *peer);
/* By that look: nobody was pinned at @era or before who can know what was born in @birth. */
bool sb_era_clear(const struct sb_peer *peer, uint32_t era, uint32_t birth);
/* Eras compare by unsigned difference, so that they may wrap. That is right while all that are
 * compared lie within 2^31: births are raised by every sweep to SB_ERA_OLD behind the era at least,
 * and the era stands still rather than run further ahead than that allows. */
#define SB_ERA_OLD  (1u << 28) /* a sweep raises births that are older */
#define SB_ERA_ASK  (1u << 29) /* one is asked for when the floor is that far behind */
#define SB_ERA_STOP (1u << 30) /* the era does not advance when it is that far behind */
static inline bool sb_era_before(uint32_t a, uint32_t b)
{
        return (int32_t)(a - b) < 0;
}

#endif
