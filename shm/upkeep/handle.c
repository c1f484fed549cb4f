/* A handle's beginning and end: each module's part of it, in order; see handle.h. */

#include "shm/upkeep/handle.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/slab.h"
#include "shm/memory/window.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/sweep.h"

uint64_t sb_handle_space(const struct sb_geometry *geometry)
{
        return sb_era_space(geometry) + sb_horizon_space(geometry);
}

void sb_handle_init(struct sb_handle *handle, const struct sb_segment *segment, uint32_t slot,
        uint32_t generation, void *space)
{
        memset(handle, 0, sizeof(*handle));
        handle->segment = *segment;
        handle->record = sb_record_at(segment, slot);
        handle->slot = slot;
        handle->generation = generation;
        sb_guard_init(handle);
        sb_slab_init(handle);
        sb_magazine_init(handle);
        sb_era_init(handle, space);
        sb_horizon_init(handle, (char *)space + sb_era_space(&segment->geometry));
}

/* The fault ROSTER_UNLISTED_EARLY: the record leaves the roster before its owner's last pins. */
static void handle_unlist_early(struct sb_handle *handle)
{
        if (SB_FAULT(ROSTER_UNLISTED_EARLY))
                sb_roster_unlist(&handle->segment, handle->slot);
}

void sb_handle_fini(struct sb_handle *handle)
{
        uint32_t chunk;

        handle_unlist_early(handle);
        sb_window_end(handle); /* a thread that was cancelled in a wait had one */
        /* Twice: a removed node has a second grace period. */
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        sb_reclaim_free(handle);
        sb_magazine_release_all(handle);
        if (sb_limbo_pending(handle) || !sb_limbo_is_empty(handle) || sb_sweep_lets_lie(handle))
                sb_limbo_leave(handle);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(handle, handle->slot, handle->generation, chunk);
        sb_slab_release_all(handle);
        sb_roster_release(&handle->segment, handle->slot, handle->generation);
}
