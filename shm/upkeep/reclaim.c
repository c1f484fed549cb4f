/* Reclaiming: the two lists of a handle, worked off; see reclaim.h. */

#include "shm/upkeep/reclaim.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/grace.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/stable.h"

/* The oldest pending cell waits for a stable cut that has not been raised so far: raise it. Without
 * observers pruners go by the clock, and nothing waits for the stable cut. */
static void reclaim_raise_stable(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;

        /* A:observers, A:stable. */
        if (sb_load_acquire(&super->observers) &&
                sb_limbo_first_pending(handle)->stamp > sb_load_acquire(&super->stable))
                sb_stable_raise(handle);
}

void sb_reclaim_pending(struct sb_handle *handle)
{
        uint32_t count = sb_limbo_pending(handle), kept = 0;
        const struct sb_horizon *horizon = &handle->horizon;

        if (!count)
                return;
        reclaim_raise_stable(handle);
        sb_horizon_renew(handle);
        sb_pin(handle);
        while (count--) {
                struct sb_pending pending = sb_limbo_take_pending(handle);

                if (pending.stamp > horizon->bound) {
                        sb_limbo_later(handle, pending.cell_number, pending.stamp);
                        continue;
                }
                kept += sb_prune_cell(handle, pending.cell_number, horizon);
                sb_key_try_remove(handle, pending.cell_number, horizon);
        }
        sb_unpin(handle);
        /* An open snapshot needs what was kept: a sweep finds it once that is closed. */
        if (kept)
                sb_limbo_leave(handle);
}

void sb_reclaim_dispose(struct sb_handle *handle, uint64_t offset)
{
        uint32_t kind = sb_unit_kind_of(&handle->segment, offset) >> 6;
        const struct sb_version *version = sb_block_at(&handle->segment, offset);
        struct sb_descriptor *descriptor = NULL;

        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_DESCRIPTOR &&
                (kind == SB_UNIT_VERSIONS || kind == SB_UNIT_LARGE))
                descriptor = sb_descriptor_at(&handle->segment, offset);

        if (descriptor)
                sb_finish_dispose(handle, descriptor);
}

/* Win the retire word of a block in limbo. False: another process frees it. */
static bool reclaim_win(struct sb_handle *handle, const struct sb_limbo_entry *limbo)
{
        struct sb_block *block = sb_block_at(&handle->segment, limbo->offset);

        /* R:retire > A:retire. Behind the note in `freeing`. */
        return sb_cas32_full(&block->retire, limbo->era, SB_RETIRE_FREEING | handle->slot);
}

/* Fault FREE_TWO_WINNERS: the bit is cleared, whichever process won the retire word. */
static bool reclaim_free_unwon(struct sb_handle *handle, uint64_t offset)
{
        if (!SB_FAULT(FREE_TWO_WINNERS))
                return false;
        sb_unit_clear(handle, offset);
        return true;
}

static bool reclaim_free_one(struct sb_handle *handle, const struct sb_limbo_entry *limbo)
{
        /* R:freeing > A:freeing. A process that finds this client dead finds here what the client
         * may have won without clearing its bit. */
        sb_store_release(&handle->record->freeing, limbo->offset);
        if (reclaim_free_unwon(handle, limbo->offset))
                return true;
        if (!reclaim_win(handle, limbo))
                return false;
        sb_reclaim_dispose(handle, limbo->offset);
        sb_unit_clear(handle, limbo->offset);
        return true;
}

uint64_t sb_reclaim_free(struct sb_handle *handle)
{
        struct sb_limbo_entry entry;
        struct sb_grace grace;
        uint64_t freed = 0;

        sb_magazine_make_way(handle);
        if (sb_limbo_is_empty(handle))
                return 0;
        sb_grace_look(handle, &grace);
        while (sb_grace_next(handle, &grace, &entry)) {
                if (entry.held)
                        sb_magazine_ready(handle, &entry);
                else if (entry.offset & SB_LIMBO_FIRST_GRACE)
                        sb_key_second_look(handle,
                                sb_node_at(&handle->segment, entry.offset & ~SB_LIMBO_FIRST_GRACE));
                else
                        freed += reclaim_free_one(handle, &entry);
        }
        sb_store_release(&handle->record->freeing, 0); /* R:freed. After the last bit. */
        sb_unpin(handle);
        sb_grace_end(handle);
        return freed;
}
