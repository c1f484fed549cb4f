/* The magazine's slow ways: how much it may hold, giving blocks back, and a dead client's notes;
 * see magazine.h. */

#include "shm/memory/magazine.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"

/* Tell the model checker, to which a block that is ready is free memory until it is built in. */
static void magazine_tell(
        const struct sb_peer *peer, uint64_t offset, uint32_t class_, int allocated)
{
        sb_model_block(offset, peer->segment.class_size[class_], allocated);
}

/* Classes up to the size that the geometry's share is meant for, or up to what a larger share
 * allows. */
static uint32_t magazine_class_end(const struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint32_t class_end = 0;
        uint64_t most;

        if (!g->stock_count)
                return 0;
        most = (uint64_t)g->unit_count * g->unit_size / 16 / g->client_count / g->stock_count;
        if (most < SB_STOCK_BLOCK)
                most = SB_STOCK_BLOCK;
        while (class_end < segment->class_count && segment->class_size[class_end] <= most)
                class_end++;
        return class_end;
}

void sb_stock_init(struct sb_peer *peer)
{
        uint32_t entry;

        peer->magazine.words = sb_client_stock(&peer->segment, peer->client) - 1;
        for (entry = peer->segment.geometry.stock_count; entry; entry--) {
                peer->magazine.next[entry] = peer->magazine.free;
                peer->magazine.free = (uint16_t)entry;
        }
        peer->magazine.class_end = magazine_class_end(&peer->segment);
        sb_stock_expect(peer, 0);
}

void sb_stock_ready(struct sb_peer *peer, const struct sb_limbo_entry *waiting)
{
        uint32_t class_ = waiting->unit_kind & 63;

        sb_stock_put(peer, class_, waiting->held);
        peer->counters.freed++;
        magazine_tell(peer, waiting->offset, class_, 0);
}

void sb_stock_release(struct sb_peer *peer, struct sb_limbo_entry *waiting)
{
        struct sb_block *block = sb_block_at(&peer->segment, waiting->offset);
        /* A:era. As for every block that is dated. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        sb_assert(block);
        /* It was in hand for so long that no process is pinned since then (see sb_era_advance()).
         * It gets a date of now, before the old one would seem to lie ahead. */
        if (SB_UNLIKELY(era - waiting->era > SB_ERA_STOP + SB_ERA_OLD)) {
                waiting->era = waiting->birth = era;
                sb_store_relaxed(&block->birth, era); /* Relaxed: published with the date. */
        }
        /* R:retire > A:retire. From here on a sweep finds it. */
        sb_store_release(&block->retire, waiting->era);
        sb_stock_vacate(peer, waiting->held);
        waiting->held = 0;
}

uint32_t sb_stock_release_waiting(struct sb_peer *peer)
{
        uint32_t i;

        for (i = 0; i < peer->limbo.count; i++)
                if (peer->limbo.entries[i].held)
                        sb_stock_release(peer, &peer->limbo.entries[i]);
        return 0;
}

void sb_stock_empty(struct sb_peer *peer)
{
        uint32_t class_, entry;

        for (class_ = 0; class_ < SB_CLASS_MAX; class_++)
                while ((entry = sb_stock_first(peer, class_)) != 0) {
                        uint64_t offset = sb_stock_offset(peer, entry);

                        sb_stock_take(peer, class_, entry);
                        magazine_tell(peer, offset, class_, 1);
                        /* The retire word says FREEING already. The bit goes before the note. */
                        sb_unit_clear(peer, offset);
                        sb_stock_vacate(peer, entry);
                }
        peer->magazine.lacking = false;
}

void sb_stock_release_all(struct sb_peer *peer)
{
        sb_stock_release_waiting(peer);
        sb_stock_empty(peer);
}

void sb_stock_limit(struct sb_peer *peer)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        /* A:roster. Records that were ever in use; the engine's is not counted. */
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high);
        uint64_t share = high > 1 ? g->unit_count / 2 / (high - 1) : g->unit_count / 2;

        peer->magazine.limit = g->stock_count;
        if (g->stock_count < SB_STOCK_BATCH_MIN) /* such a count was asked for */
                return;
        if (share < peer->magazine.limit)
                peer->magazine.limit = share < SB_STOCK_BATCH_MIN ? 0 : (uint32_t)share;
        if (peer->magazine.held > peer->magazine.limit)
                sb_stock_empty(peer);
}

void sb_stock_expect(struct sb_peer *peer, uint32_t old)
{
        uint32_t limit;

        sb_stock_limit(peer);
        limit = peer->magazine.limit;
        peer->limbo.ripe = UINT32_MAX;
        peer->limbo.wake = SB_LIMBO_MAX / 2;
        if (limit >= SB_STOCK_BATCH_MIN) {
                /* When no block of the magazine is ready any more. */
                peer->limbo.wake = old + limit - limit / 16;
                peer->limbo.ripe = old + limit - limit / 8;
        } else if (SB_LIMBO_MAX >= SB_STOCK_BATCH_MIN) {
                peer->limbo.wake = SB_LIMBO_MAX / 2 + old / 2;
                peer->limbo.ripe = peer->limbo.wake - SB_LIMBO_MAX / 16;
        }
}

bool sb_stock_noted(const struct sb_segment *segment, uint32_t slot, uint64_t offset)
{
        struct sb_client *record;
        uint32_t i;

        if (slot >= segment->geometry.client_count)
                return false;
        record = sb_client_at(segment, slot);
        /* A:freeing. The note comes before the retire word that brought the caller here. */
        if (sb_load_acquire(&record->freeing) == offset)
                return true;
        for (i = 0; i < segment->geometry.stock_count; i++)
                /* A:magazine. As above. */
                if (sb_load_acquire(&sb_client_stock(segment, record)[i]) == offset)
                        return true;
        return false;
}
