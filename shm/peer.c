/* A handle's beginning and end; see peer.h. */
#include "peer.h"

#include <string.h>

#include "epoch.h"
#include "guard.h"
#include "retire.h"
#include "slab.h"
#include "slot.h"

void sb_peer_init(struct sb_peer *peer, const struct sb_segment *segment, uint32_t slot, uint32_t generation)
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
        if (peer->pending_head != peer->pending_tail || peer->limbo_count)
                sb_retire_leave(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, peer->slot, peer->generation, chunk);
        sb_slab_release_all(peer);
        sb_slot_release(&peer->segment, peer->slot, peer->generation);
}
