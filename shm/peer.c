/* A handle's beginning and end; see peer.h. */
#include "peer.h"

#include <string.h>

#include "epoch.h"
#include "guard.h"
#include "retire.h"
#include "slab.h"
#include "slot.h"
#include "stock.h"

/* All places free; classes up to what the geometry's share is meant for, or a larger share. */
static void stock_init(struct sb_peer *peer)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        uint32_t place, count = g->stock_count;
        uint64_t most =
                count ? (uint64_t)g->unit_count * g->unit_size / 16 / g->client_count / count : 0;

        peer->stock = sb_client_stock(&peer->segment, peer->client) - 1;
        for (place = count; place; place--) {
                peer->stock_next[place] = peer->stock_free;
                peer->stock_free = (uint16_t)place;
        }
        while (count && peer->stock_class_end < peer->segment.class_count &&
                peer->segment.class_size[peer->stock_class_end] <=
                        (most > SB_STOCK_BLOCK ? most : SB_STOCK_BLOCK))
                peer->stock_class_end++;
        sb_retire_expect(peer, 0);
}

void sb_peer_init(
        struct sb_peer *peer, const struct sb_segment *segment, uint32_t slot, uint32_t generation)
{
        uint32_t i, units = segment->geometry.unit_count - segment->geometry.reserve_count;

        memset(peer, 0, sizeof(*peer));
        peer->segment = *segment;
        peer->client = sb_client_at(segment, slot);
        peer->guard_words = sb_client_guards(&peer->segment, peer->client);
        peer->slot = slot;
        peer->generation = generation;
        /* Apart from each other, so that peers seldom want the same slab. */
        peer->search_unit = slot % units;
        stock_init(peer);
        for (i = 0; i < SB_CLASS_MAX; i++)
                peer->versions[i].unit = peer->nodes[i].unit = UINT32_MAX;
        peer->tombstones.unit = peer->guards.unit = UINT32_MAX;
        /* Nothing looked at yet: no date is that old. A:era. */
        peer->looked_era = peer->horizon = sb_load_acquire(&segment->super->era) - SB_ERA_STOP;
}

void sb_peer_fini(struct sb_peer *peer)
{
        uint32_t chunk;

        sb_retire_pending(peer);
        sb_retire_free(peer);
        sb_retire_free(peer);
        sb_retire_release(peer);
        if (peer->pending_head != peer->pending_tail || peer->limbo_count)
                sb_retire_leave(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, peer->slot, peer->generation, chunk);
        sb_slab_release_all(peer);
        sb_slot_release(&peer->segment, peer->slot, peer->generation);
}
