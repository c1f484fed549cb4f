/* Reclaiming; see reclaim.h. */

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

void sb_reclaim_pending(struct sb_peer *peer)
{
        uint32_t count = sb_limbo_pending(peer), kept = 0;
        struct sb_superblock *super = peer->segment.super;
        const struct sb_horizon *view = &peer->horizon;

        if (!count)
                return;
        /* A:observers, A:safe. */
        if (sb_load_acquire(&super->observers) &&
                sb_limbo_first_pending(peer)->stamp > sb_load_acquire(&super->safe))
                sb_safe_raise(peer);
        sb_view_renew(peer);
        sb_pin(peer);
        while (count--) {
                struct sb_pending pending = sb_limbo_take_pending(peer);

                if (pending.stamp > view->bound) {
                        sb_limbo_later(peer, pending.cell_number, pending.stamp);
                        continue;
                }
                kept += sb_prune_cell(peer, pending.cell_number, view);
                sb_key_try_remove(peer, pending.cell_number, view);
        }
        sb_unpin(peer);
        /* An open snapshot needs it: whoever sweeps after that is closed finds it. */
        if (kept)
                sb_limbo_leave(peer);
}

void sb_reclaim_dispose(struct sb_peer *peer, uint64_t offset)
{
        uint32_t kind = sb_unit_kind_of(&peer->segment, offset) >> 6;
        const struct sb_version *version = sb_block_at(&peer->segment, offset);
        struct sb_commit *commit = NULL;

        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_COMMIT &&
                (kind == SB_UNIT_VERSIONS || kind == SB_UNIT_LARGE))
                commit = sb_commit_at(&peer->segment, offset);

        if (commit)
                sb_finish_dispose(peer, commit);
}

static bool free_one(struct sb_peer *peer, const struct sb_limbo_entry *limbo)
{
        struct sb_block *block_ = sb_block_at(&peer->segment, limbo->offset);

        /* R:freeing. Who finds us dead finds here what we may have won without clearing its bit. */
        sb_store_release(&peer->client->freeing, limbo->offset);
        if (SB_FAULT(FREE_TWO_WINNERS)) {
                sb_unit_clear(peer, limbo->offset);
                return true;
        }
        if (!sb_cas32_full(&block_->retire, limbo->era, SB_RETIRE_FREEING | peer->slot))
                return false;
        sb_reclaim_dispose(peer, limbo->offset);
        sb_unit_clear(peer, limbo->offset);
        return true;
}

uint64_t sb_reclaim_free(struct sb_peer *peer)
{
        struct sb_limbo_entry entry;
        struct sb_grace grace;
        uint64_t freed = 0;

        sb_stock_make_way(peer);
        if (sb_limbo_is_empty(peer))
                return 0;
        sb_grace_look(peer, &grace);
        while (sb_grace_next(peer, &grace, &entry)) {
                if (entry.held)
                        sb_stock_ready(peer, &entry);
                else if (entry.offset & SB_LIMBO_FIRST_GRACE)
                        sb_key_second_look(peer,
                                sb_node_at(&peer->segment, entry.offset & ~SB_LIMBO_FIRST_GRACE));
                else
                        freed += free_one(peer, &entry);
        }
        sb_store_release(&peer->client->freeing, 0); /* R:freeing. After the last bit. */
        sb_unpin(peer);
        sb_grace_end(peer);
        return freed;
}
