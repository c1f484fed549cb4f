/*
 * The stock: blocks that a client has in its own hands, to be used again by itself.
 *
 * A version that was replaced and that no cut needs would go a long way: out of the chain, dated,
 * found free by a batch, its bit cleared, set again by whoever owns its slab then. An overwriting
 * client goes a short one: it takes the replaced version in hand, lets its grace period pass, and
 * builds one of its next versions in it. The block stays warm in its cache, and no word that others
 * write is touched.
 *
 * Always true:
 *
 * - A block whose retire word is FREEING | slot is noted in that client's record, in `stock` (or
 *   `freeing`), before the word says so and as long as it does: who finds the client dead finds it.
 *
 * - Such a block is left alone by everybody but that client and its reaper, linked or not.
 *
 * - So a version that is published out of the stock is in hand until its retire word is 0 again,
 *   which follows the install, and one that is replaced is in hand before it is unlinked: no kill
 *   finds a block that is neither linked nor noted.
 *
 * - The record has room for a fixed number of blocks: what one client can hoard is a small part of
 *   the segment.
 *
 * (Magazines of free objects for each processor: Bonwick and Adams, USENIX 2001.)
 */
#ifndef SB_MEMORY_MAGAZINE_H
#define SB_MEMORY_MAGAZINE_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/unit.h"

/* The place of a block of this class that is ready to be built in, or 0. It stays where it is until
 * sb_stock_take(). */
static inline uint32_t sb_stock_first(const struct sb_peer *peer, uint32_t class_)
{
        return peer->magazine.ready[class_];
}
/* Whether blocks of this class are for the magazine at all. */
static inline bool sb_stock_serves(const struct sb_peer *peer, uint32_t class_)
{
        return class_ < peer->magazine.class_end;
}
static inline uint64_t sb_stock_offset(const struct sb_peer *peer, uint32_t place)
{
        return sb_load_relaxed(&peer->magazine.words[place]); /* Relaxed: the own word. */
}
static inline void sb_stock_take(struct sb_peer *peer, uint32_t class_, uint32_t place)
{
        peer->magazine.ready[class_] = peer->magazine.next[place];
}
static inline void sb_stock_put(struct sb_peer *peer, uint32_t class_, uint32_t place)
{
        peer->magazine.next[place] = (uint16_t)peer->magazine.ready[class_];
        peer->magazine.ready[class_] = (uint16_t)place;
}

/* The block at @place was just installed: everybody's from now on. Then the place is noted for
 * another block, or emptied. */
static inline void sb_stock_publish(struct sb_peer *peer, struct sb_block *block)
{
        (void)peer;
        /* R:retire > A:retire. Behind the install, and before the note goes. */
        sb_store_release(&block->retire, 0);
}
static inline void sb_stock_vacate(struct sb_peer *peer, uint32_t place)
{
        /* R:stock > A:stock. The block is linked, or another client's. */
        sb_store_release(&peer->magazine.words[place], 0);
        peer->magazine.next[place] = (uint16_t)peer->magazine.free;
        peer->magazine.free = (uint16_t)place;
        peer->magazine.held--;
}

/* Take @old, which this peer has just replaced with @version, in hand, and out of the chain: @place
 * is the new one's in the stock, or 0. True: done, and the place is the old one's. False: nothing
 * happened; it is for the long way. */
static inline __attribute__((always_inline)) bool sb_stock_hold(struct sb_peer *peer,
        struct sb_version *version, struct sb_version *old, uint64_t offset, uint32_t place)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t unit_kind = sb_unit_kind_of(segment, offset), used = place;

        /* A:publish. The last of its chain: then nothing can be taken out behind it, and no mark is
         * needed. */
        if (SB_UNLIKELY(sb_load_acquire(&old->prev) & SB_OFFSET_MASK) ||
                SB_UNLIKELY((unit_kind ^ SB_UNIT_VERSIONS << 6) >= peer->magazine.class_end) ||
                SB_UNLIKELY(peer->limbo.count == SB_LIMBO_MAX))
                return false;
        if (!place) {
                used = peer->magazine.free;
                if (SB_UNLIKELY(peer->magazine.held >= peer->magazine.limit)) {
                        peer->magazine.lacking = true;
                        return false;
                }
        }
        /* R:stock > A:stock. Noted, then in hand, then out of the chain: whoever finds us dead in
         * between finds it. */
        if (!SB_FAULT(STOCK_NOTE_LATE))
                sb_store_release(&peer->magazine.words[used], offset);
        if (SB_UNLIKELY(!sb_cas32_full(&old->block.retire, 0, SB_RETIRE_FREEING | peer->slot)))
                goto undo;
        if (SB_UNLIKELY(!sb_cas64_full(&version->prev, offset, SB_PREV_TRIMMED))) {
                /* R:retire. Our version is on its way out itself: this one is linked by its
                 * successor now. */
                sb_store_release(&old->block.retire, 0);
                goto undo;
        }
        if (SB_FAULT(STOCK_NOTE_LATE))
                /* R:stock, too late: that is the fault. */
                sb_store_release(&peer->magazine.words[used], offset);
        if (!place) {
                peer->magazine.free = peer->magazine.next[used];
                peer->magazine.held++;
        }
        peer->limbo.entries[peer->limbo.count] = (struct sb_limbo_entry){
                .offset = offset,
                .era = sb_load_acquire(&segment->super->era), /* A:era. After the unlink, as in
                                                                 sb_limbo_date(). */
                .birth = sb_load_relaxed(&old->block.birth),  /* Relaxed: as in sb_limbo_wait(). */
                .unit_kind = unit_kind,
                .held = used,
        };
        sb_limbo_count(peer);
        return true;
undo:
        if (!place)
                sb_store_release(&peer->magazine.words[used], 0); /* R:stock. */
        return false;
}

/* Its grace period is over: ready to be built in. */
void sb_stock_ready(struct sb_peer *peer, const struct sb_limbo_entry *limbo);
/* How many blocks this client may hold: all clients together about as many as half the units, since
 * a unit in which one lies cannot change its class. */
void sb_stock_limit(struct sb_peer *peer);
/* Give back all that is ready. */
void sb_stock_empty(struct sb_peer *peer);
/* Give back what is ready when an entry was missing: blocks of classes that are not asked for any
 * more. */
static inline void sb_stock_make_way(struct sb_peer *peer)
{
        if (peer->magazine.lacking)
                sb_stock_empty(peer);
}
/* Whether client @slot has the block at @offset in hand. */
bool sb_stock_noted(const struct sb_segment *segment, uint32_t slot, uint64_t offset);
/* It waits too long in here: dated, and everybody's to free. @limbo becomes an ordinary one. */
void sb_stock_release(struct sb_peer *peer, struct sb_limbo_entry *limbo);

/* When the next batch is due, with @old ones in limbo that may stay there for long. */
void sb_stock_expect(struct sb_peer *peer, uint32_t old);
/* Let go of what is in hand: all that is ready, and what waits becomes everybody's. */
void sb_stock_release_all(struct sb_peer *peer);

/* All entries free, for a handle that begins. */
void sb_stock_init(struct sb_peer *peer);
/* What waits in hand becomes any process's to free. Return: how much is in hand then, 0. */
uint32_t sb_stock_release_waiting(struct sb_peer *peer);

#endif
