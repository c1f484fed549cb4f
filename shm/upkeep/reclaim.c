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
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
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
                sb_limbo_see_pending(handle, 0)->due > sb_load_acquire(&super->stable))
                (void)sb_stable_raise(handle);
}

/* How far ahead of the cell that is looked at memory is fetched: cells. A chain is a row of lines
 * of which each names the next one. */
#define FETCH_CELL 12u
#define FETCH_HEAD 8u
#define FETCH_OLD  4u

/* The head of the cell that waits behind @ahead others, as a hint of what to fetch; or NULL. */
static const struct sb_version *reclaim_head(const struct sb_handle *handle, uint32_t ahead)
{
        const struct sb_pending *pending = sb_limbo_see_pending(handle, ahead);
        const struct sb_word64 *cell = sb_cell_at(&handle->segment, pending->cell_number);

        /* Relaxed: only a hint. */
        return cell ? sb_version_at(&handle->segment, sb_load_relaxed(cell) & SB_OFFSET_MASK)
                    : NULL;
}

/* Have the memory of the next cells come, of which @count are left. The model checker has no cache,
 * and a block that was freed meanwhile is a mistake to it. */
static void reclaim_fetch(const struct sb_handle *handle, uint32_t count)
{
        const struct sb_version *head = NULL;

#ifdef SB_MODEL
        return;
#endif
        if (count > FETCH_CELL)
                sb_prefetch(sb_cell_at(
                        &handle->segment, sb_limbo_see_pending(handle, FETCH_CELL)->cell_number));
        if (count > FETCH_HEAD)
                sb_prefetch(reclaim_head(handle, FETCH_HEAD));
        if (count > FETCH_OLD)
                head = reclaim_head(handle, FETCH_OLD);
        if (head) {
                /* Relaxed: only a hint. */
                sb_prefetch(handle->segment.base + (sb_load_relaxed(&head->prev) & SB_OFFSET_MASK));
                sb_prefetch(handle->segment.base + (head->node & SB_OFFSET_MASK));
        }
}

static uint64_t reclaim_look(struct sb_handle *handle, bool again);

/* How many more blocks limbo takes. */
static uint32_t reclaim_room(const struct sb_handle *handle)
{
        return SB_LIMBO_MAX - sb_limbo_waiting(handle);
}

/* Under a pin, which is another one afterwards: look at a chain. What watches of a prefix kept goes
 * by the thousand at once, which is more than limbo takes: so limbo is emptied where it is full.
 * Where that does not help, what it does not take is left to sweeps. */
static void reclaim_prune(
        struct sb_handle *handle, uint64_t cell_number, struct sb_prune_look *look)
{
        look->most = reclaim_room(handle);
        sb_prune_look(handle, cell_number, &handle->horizon, look);
        while (SB_UNLIKELY(look->more)) {
                sb_unpin(handle);
                reclaim_look(handle, handle->slot != 0);
                sb_pin(handle);
                look->taken = 0;
                look->most = reclaim_room(handle) > SB_LIMBO_MAX / 4 ? reclaim_room(handle) : 0;
                sb_prune_look(handle, cell_number, &handle->horizon, look);
        }
}

/* One cell that is due: prune its chain, remove its key, and put it back if something in it waits
 * for the next horizon. Return: whether a version was kept for good, as far as this list goes. */
static bool reclaim_cell(struct sb_handle *handle, const struct sb_pending *pending, uint64_t young)
{
        const struct sb_horizon *horizon = &handle->horizon;
        struct sb_prune_look look = {
                .since = pending->since, .young = young, .whole = pending->whole};
        struct sb_pending again = *pending;

        reclaim_prune(handle, pending->cell_number, &look);
        if (SB_UNLIKELY(look.ring))
                sb_prune_give_ring(handle, pending->cell_number);
        sb_key_try_remove(handle, pending->cell_number, horizon);
        /* Perhaps a tombstone that lies alone, above the bound. */
        if (!look.again && pending->last > horizon->bound)
                look.again = pending->last;
        if (look.again) {
                again.since = look.again;
                again.whole = 0;
                again.due = look.again > horizon->bound ? look.again : horizon->bound + 1;
                sb_limbo_again(handle, &again);
        }
        return look.kept;
}

void sb_reclaim_pending(struct sb_handle *handle)
{
        uint32_t count = sb_limbo_pending(handle);
        /* Cuts from here on were taken since the last look. */
        uint64_t young = handle->horizon.bound;
        bool kept = false;

        if (!count)
                return;
        reclaim_raise_stable(handle);
        sb_horizon_renew(handle);
        sb_limbo_look(handle, handle->horizon.cut_count);
        sb_pin(handle);
        for (; count; count--) {
                struct sb_pending pending;

                reclaim_fetch(handle, count);
                pending = sb_limbo_take_pending(handle);

                if (pending.due > handle->horizon.bound)
                        sb_limbo_again(handle, &pending);
                else
                        kept |= reclaim_cell(handle, &pending, young);
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
        if (!sb_cas32_full(
                    &block->retire, sb_era_low(limbo->era), SB_RETIRE_FREEING | handle->slot))
                return false;
        if (SB_LIKELY(sb_era_looked_lately(handle)))
                return true;
        /* This process was stopped for ages since the look: perhaps the date is one of a later
         * life. It begins its grace period again. R:retire; A:era. */
        sb_store_release(&block->retire, sb_era_low(sb_load_acquire(&handle->segment.super->era)));
        sb_limbo_leave(handle);
        return false;
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

/* One look for limbo; what was a spare since the last look is freed. @again: what this client
 * replaced becomes spares. */
static uint64_t reclaim_look(struct sb_handle *handle, bool again)
{
        struct sb_limbo_entry entry;
        struct sb_grace grace;
        uint64_t freed = 0;

        sb_magazine_make_way(handle);
        if (sb_limbo_is_empty(handle) && !sb_spare_count(handle))
                return 0;
        sb_grace_look(handle, &grace);
        while (sb_spare_next(handle, &entry))
                freed += reclaim_free_one(handle, &entry);
        while (sb_grace_next(handle, &grace, &entry)) {
                if (entry.held)
                        sb_magazine_ready(handle, &entry);
                else if (again && sb_spare_add(handle, &entry))
                        continue;
                else if (entry.offset & SB_LIMBO_FIRST_GRACE)
                        sb_key_second_look(handle,
                                sb_node_at(&handle->segment, entry.offset & ~SB_LIMBO_FIRST_GRACE));
                else if (sb_grace_may_go(handle, &entry))
                        freed += reclaim_free_one(handle, &entry);
        }
        sb_store_release(&handle->record->freeing, 0); /* R:freed. After the last bit. */
        sb_unpin(handle);
        sb_grace_end(handle);
        /* A key that goes may take a smaller branch. A client that does nothing but memory work, as
         * the engine, would keep each slab that runs out so. Fault RECLAIM_KEEPS_SLABS: it does. */
        if (!SB_FAULT(RECLAIM_KEEPS_SLABS))
                sb_slab_settle(handle);
        return freed;
}

uint64_t sb_reclaim_free(struct sb_handle *handle)
{
        return reclaim_look(handle, false);
}

void sb_reclaim_due(struct sb_handle *handle)
{
        reclaim_look(handle, true);
}
