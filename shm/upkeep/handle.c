/* A handle's beginning and end: each module's part of it, in order; see handle.h. */

#include "shm/upkeep/handle.h"

#include <string.h>

#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/reclaim.h"

void sb_peer_init(
        struct sb_peer *peer, const struct sb_segment *segment, uint32_t slot, uint32_t generation)
{
        memset(peer, 0, sizeof(*peer));
        peer->segment = *segment;
        peer->client = sb_client_at(segment, slot);
        peer->slot = slot;
        peer->generation = generation;
        sb_guard_init(peer);
        sb_slab_init(peer);
        sb_stock_init(peer);
        sb_era_init(peer);
}

void sb_peer_fini(struct sb_peer *peer)
{
        uint32_t chunk;

        /* Twice: a removed node has a second grace period. */
        sb_reclaim_pending(peer);
        sb_reclaim_free(peer);
        sb_reclaim_free(peer);
        sb_stock_release_all(peer);
        if (sb_limbo_pending(peer) || !sb_limbo_is_empty(peer))
                sb_limbo_leave(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, peer->slot, peer->generation, chunk);
        sb_slab_release_all(peer);
        sb_slot_release(&peer->segment, peer->slot, peer->generation);
}
