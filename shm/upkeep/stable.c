/* The stable cut; see stable.h. */

#include "shm/upkeep/stable.h"

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"

/* Whatever an operation slot shows as being written gets its stamp. */
static void resolve_slot(struct sb_peer *peer, struct sb_client *client)
{
        uint64_t at = sb_pin_load(peer, &client->operation);
        struct sb_node *node = at ? sb_node_at(&peer->segment, at) : NULL;
        struct sb_commit *commit;
        struct sb_version *head;
        struct sb_cell64 *cell;

        if (at & SB_OPERATION_COMMIT) {
                commit = SB_FAULT(SAFE_SKIPS_TXN) ? NULL : sb_commit_at(&peer->segment, at);
                if (commit)
                        sb_txn_resolve(peer, commit);
                return;
        }
        if (!node)
                return;
        /* A node that was noted and never linked is freed at once when its maker is reaped. Another
         * node's cell does no harm. */
        sb_model_unchecked_begin();
        cell = sb_cell_at(&peer->segment, sb_pin_load(peer, &node->cell));
        sb_model_unchecked_end();
        head = cell ? sb_version_at(&peer->segment, sb_pin_load(peer, cell) & SB_OFFSET_MASK)
                    : NULL;
        /* Only the newest can be unstamped: a successor is installed over what is stamped alone. */
        if (head && head->node == at && SB_SHAPE_KIND(head->shape) != SB_VERSION_BIRTH)
                sb_stamp(peer, head);
}

void sb_safe_raise(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        uint64_t cut = sb_cut_take(peer), high, safe;
        uint32_t slot;

        sb_pin(peer);
        high = sb_load_acquire(&super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < peer->segment.geometry.client_count &&
                       !SB_FAULT(SAFE_SKIPS_SLOTS);
                slot++)
                resolve_slot(peer, sb_client_at(&peer->segment, slot));
        sb_unpin(peer);
        for (;;) {
                safe = sb_load_acquire(&super->safe); /* A:safe. */
                /* R:safe > A:safe. */
                if (safe >= cut || sb_cas64_full(&super->safe, safe, cut))
                        return;
        }
}
