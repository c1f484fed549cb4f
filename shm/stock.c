/* Blocks in a client's own hands; see stock.h. */
#include "stock.h"

#include "reach.h"
#include "retire.h"

void sb_stock_ready(struct sb_peer *peer, const struct sb_limbo *limbo)
{
        sb_stock_put(peer, limbo->unit_kind & 63, limbo->place);
        peer->count_freed++;
        sb_model_block(limbo->offset, peer->segment.class_size[limbo->unit_kind & 63], 0);
}

void sb_stock_release(struct sb_peer *peer, struct sb_limbo *limbo)
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
        sb_stock_vacate(peer, limbo->place);
        limbo->place = 0;
}

void sb_stock_limit(struct sb_peer *peer)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        /* A:roster. Records that were ever in use; the engine's is not counted. */
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high);
        uint64_t share = high > 1 ? g->unit_count / 2 / (high - 1) : g->unit_count / 2;

        peer->stock_limit = g->stock_count;
        if (g->stock_count < SB_STOCK_BATCH_MIN) /* was asked for */
                return;
        if (share < peer->stock_limit)
                peer->stock_limit = share < SB_STOCK_BATCH_MIN ? 0 : (uint32_t)share;
        if (peer->stock_held > peer->stock_limit)
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
                        sb_slab_clear(peer, offset);
                        sb_stock_vacate(peer, place);
                }
        peer->stock_short = false;
}

static void reap_one(struct sb_peer *peer, uint64_t offset, uint32_t slot)
{
        struct sb_block *block = sb_block_at(&peer->segment, offset);
        uint64_t size = 0;
        bool set = block && sb_slab_is_block(&peer->segment, offset, SB_UNIT_VERSIONS, &size),
             linked;
        uint32_t era;

        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. A:retire. */
        if (!set || sb_load_acquire(&block->retire) != (SB_RETIRE_FREEING | slot))
                return;
        sb_model_block(offset, size, 2); /* it may have been ready */
        sb_model_unchecked_begin();      /* and half built */
        linked = sb_reach_version(peer, (struct sb_version *)block);
        era = sb_load_acquire(&peer->segment.super->era); /* A:era. After it was out of reach. */
        /* R:retire > A:retire. Nobody else touches what is in hand, and nobody can link it. */
        sb_store_release(&block->retire, linked ? 0 : era);
        if (!linked)
                sb_retire_wait(peer, offset, era, false);
        sb_model_unchecked_end();
}

void sb_stock_reap(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        struct sb_cell64 *words = sb_client_stock(&peer->segment, dead);
        uint32_t i;

        for (i = 0; i < peer->segment.geometry.stock_count && !SB_FAULT(REAP_FORGETS_STOCK); i++) {
                uint64_t offset = sb_load_acquire(&words[i]); /* A:stock. */

                if (offset)
                        reap_one(peer, offset, slot);
        }
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
