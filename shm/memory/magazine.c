/* Blocks in a client's own hands; see magazine.h. */

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

/* All places free; classes up to what the geometry's share is meant for, or a larger share. */
void sb_stock_init(struct sb_peer *peer)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        uint32_t place, count = g->stock_count;
        uint64_t most =
                count ? (uint64_t)g->unit_count * g->unit_size / 16 / g->client_count / count : 0;

        peer->magazine.words = sb_client_stock(&peer->segment, peer->client) - 1;
        for (place = count; place; place--) {
                peer->magazine.next[place] = peer->magazine.free;
                peer->magazine.free = (uint16_t)place;
        }
        while (count && peer->magazine.class_end < peer->segment.class_count &&
                peer->segment.class_size[peer->magazine.class_end] <=
                        (most > SB_STOCK_BLOCK ? most : SB_STOCK_BLOCK))
                peer->magazine.class_end++;
        sb_stock_expect(peer, 0);
}

void sb_stock_ready(struct sb_peer *peer, const struct sb_limbo_entry *limbo)
{
        sb_stock_put(peer, limbo->unit_kind & 63, limbo->held);
        peer->counters.freed++;
        sb_model_block(limbo->offset, peer->segment.class_size[limbo->unit_kind & 63], 0);
}

void sb_stock_release(struct sb_peer *peer, struct sb_limbo_entry *limbo)
{
        struct sb_block *block = sb_block_at(&peer->segment, limbo->offset);
        uint32_t era = sb_load_acquire(&peer->segment.super->era); /* A:era. */

        sb_assert(block);
        /* In hand for so long that nobody can have been pinned then (see sb_era_advance()): a date
         * of now, before the old one would seem to lie ahead. */
        if (SB_UNLIKELY(era - limbo->era > SB_ERA_STOP + SB_ERA_OLD)) {
                limbo->era = limbo->birth = era;
                sb_store_relaxed(&block->birth, era); /* Relaxed: published with the date. */
        }
        /* R:retire > A:retire. From here on a sweep finds it. */
        sb_store_release(&block->retire, limbo->era);
        sb_stock_vacate(peer, limbo->held);
        limbo->held = 0;
}

void sb_stock_limit(struct sb_peer *peer)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        /* A:roster. Records that were ever in use; the engine's is not counted. */
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high);
        uint64_t share = high > 1 ? g->unit_count / 2 / (high - 1) : g->unit_count / 2;

        peer->magazine.limit = g->stock_count;
        if (g->stock_count < SB_STOCK_BATCH_MIN) /* was asked for */
                return;
        if (share < peer->magazine.limit)
                peer->magazine.limit = share < SB_STOCK_BATCH_MIN ? 0 : (uint32_t)share;
        if (peer->magazine.held > peer->magazine.limit)
                sb_stock_empty(peer);
}

void sb_stock_empty(struct sb_peer *peer)
{
        uint32_t class_, place;

        for (class_ = 0; class_ < SB_CLASS_MAX; class_++)
                while ((place = sb_stock_first(peer, class_)) != 0) {
                        uint64_t offset = sb_stock_offset(peer, place);

                        sb_stock_take(peer, class_, place);
                        /* In a slab like any other block that was taken, and in hand: then its bit,
                         * then the note. */
                        sb_model_block(offset, peer->segment.class_size[class_], 1);
                        sb_unit_clear(peer, offset);
                        sb_stock_vacate(peer, place);
                }
        peer->magazine.lacking = false;
}

bool sb_stock_noted(const struct sb_segment *segment, uint32_t slot, uint64_t offset)
{
        struct sb_client *client;
        uint32_t i;

        if (slot >= segment->geometry.client_count)
                return false;
        client = sb_client_at(segment, slot);
        if (sb_load_acquire(&client->freeing) == offset) /* A:freeing. */
                return true;
        for (i = 0; i < segment->geometry.stock_count; i++)
                if (sb_load_acquire(&sb_client_stock(segment, client)[i]) == offset) /* A:stock. */
                        return true;
        return false;
}

/* What waits in hand becomes everybody's. Return: how much is in hand then. */
uint32_t sb_stock_release_waiting(struct sb_peer *peer)
{
        uint32_t i;

        for (i = 0; i < peer->limbo.count; i++)
                if (peer->limbo.entries[i].held)
                        sb_stock_release(peer, &peer->limbo.entries[i]);
        return 0;
}

void sb_stock_release_all(struct sb_peer *peer)
{
        sb_stock_release_waiting(peer);
        sb_stock_empty(peer);
}

void sb_stock_expect(struct sb_peer *peer, uint32_t old)
{
        uint32_t stock;

        sb_stock_limit(peer);
        stock = peer->magazine.limit;
        peer->limbo.ripe = UINT32_MAX;
        peer->limbo.wake = SB_LIMBO_MAX / 2;
        if (stock >= SB_STOCK_BATCH_MIN) {
                /* When nothing in stock is ready any more. */
                peer->limbo.wake = old + stock - stock / 16;
                peer->limbo.ripe = old + stock - stock / 8;
        } else if (SB_LIMBO_MAX >= SB_STOCK_BATCH_MIN) {
                peer->limbo.wake = SB_LIMBO_MAX / 2 + old / 2;
                peer->limbo.ripe = peer->limbo.wake - SB_LIMBO_MAX / 16;
        }
}
