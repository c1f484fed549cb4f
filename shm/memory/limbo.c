/* Putting blocks and cells on a handle's lists; see limbo.h. */

#include "shm/memory/limbo.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/unit.h"

bool sb_limbo_begin(struct sb_handle *handle, struct sb_block *block)
{
        (void)handle;
        /* R:retire > A:retire. Before the first link goes. */
        return sb_cas32_full(&block->retire, 0, SB_RETIRE_DYING);
}

void sb_limbo_leave(struct sb_handle *handle)
{
        handle->limbo.left_behind++;
        /* R:sweep > A:sweep. What is left behind is visible to the sweep that this asks for. */
        sb_add_full(&handle->segment.super->sweep_wanted, 1);
}

/* The entries with a cell's hash. A bucket's cells have numbers side by side (Fibonacci hashing;
 * Knuth, volume 3). */
static uint32_t *limbo_latest(struct sb_limbo *limbo, uint64_t cell_number)
{
        return &limbo->latest[(cell_number * UINT64_C(0x9e3779b97f4a7c15) >> 32) %
                              SB_PENDING_LATEST];
}

/* The cell's entry; NULL: it has none. What was taken out of the list ends a way through it: all
 * that is older was taken out, too. */
static struct sb_pending *limbo_find(struct sb_limbo *limbo, uint64_t cell_number)
{
        uint32_t at = *limbo_latest(limbo, cell_number),
                 span = limbo->pending_tail - limbo->pending_head;

        while (at - limbo->pending_head < span) {
                struct sb_pending *entry = &limbo->pending[at % SB_PENDING_MAX];

                if (entry->cell_number == cell_number)
                        return entry;
                span = at - limbo->pending_head;
                at = entry->older;
        }
        return NULL;
}

/* A cell that has no entry. */
static void limbo_append(struct sb_handle *handle, const struct sb_pending *pending)
{
        struct sb_limbo *limbo = &handle->limbo;
        uint32_t *latest = limbo_latest(limbo, pending->cell_number);
        struct sb_pending *entry;

        if (SB_UNLIKELY(limbo->pending_tail - limbo->pending_head == SB_PENDING_MAX)) {
                sb_limbo_leave(handle);
                return;
        }
        entry = &limbo->pending[limbo->pending_tail % SB_PENDING_MAX];
        *entry = *pending;
        entry->older = *latest;
        *latest = limbo->pending_tail++;
}

void sb_limbo_again(struct sb_handle *handle, const struct sb_pending *pending)
{
        struct sb_pending *same = limbo_find(&handle->limbo, pending->cell_number);

        if (!same) {
                limbo_append(handle, pending);
                return;
        }
        same->whole |= pending->whole;
        if (pending->since < same->since)
                same->since = pending->since;
        if (pending->due < same->due)
                same->due = pending->due;
        if (pending->last > same->last)
                same->last = pending->last;
}

uint64_t sb_limbo_asked(const struct sb_handle *handle)
{
        const struct sb_superblock *super = handle->segment.super;
        uint64_t wanted = sb_load_acquire(&super->sweep_wanted); /* A:sweep. */

        /* A:sweep. */
        return wanted == sb_load_acquire(&super->swept) || SB_FAULT(LIMBO_IGNORES_SWEEPS) ? 0
                                                                                          : wanted;
}

void sb_limbo_later(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp)
{
        handle->limbo.noted++;
        sb_limbo_again(handle, &(struct sb_pending){.cell_number = cell_number,
                                       .since = stamp,
                                       .due = stamp,
                                       .last = stamp,
                                       .whole = sb_limbo_asked(handle) != 0});
}

void sb_limbo_moved(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp)
{
        if (sb_limbo_asked(handle))
                sb_limbo_later(handle, cell_number, stamp);
}

void sb_limbo_wait(struct sb_handle *handle, uint64_t offset, uint64_t era, bool first_grace)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);

        if (SB_UNLIKELY(handle->limbo.count == SB_LIMBO_MAX)) {
                sb_limbo_leave(handle);
                return;
        }
        handle->limbo.entries[handle->limbo.count] = (struct sb_limbo_entry){
                .offset = offset | (first_grace ? SB_LIMBO_FIRST_GRACE : 0),
                .era = era,
                /* Relaxed: an older value only holds the block for longer. */
                .birth = sb_era_of_birth(handle, sb_load_relaxed(&block->birth)),
                .unit_kind = sb_unit_kind_of(&handle->segment, offset),
        };
        sb_limbo_count(handle);
}

/* The era to date a block with to which no link is left. The fault RETIRE_ERA_EARLY takes one from
 * before the unlink. */
static uint64_t limbo_era_after_unlink(const struct sb_handle *handle)
{
        if (SB_FAULT(RETIRE_ERA_EARLY))
                return SB_ERA_MIN;
        /* A:era. Loaded after the unlink, so that a process that reads the block now has a pin of
         * this era or an earlier one. */
        return sb_load_acquire(&handle->segment.super->era);
}

void sb_limbo_date(struct sb_handle *handle, struct sb_block *block)
{
        uint64_t era = limbo_era_after_unlink(handle);

        /* R:retire > A:retire. One process dates the block, and waits for it. */
        if (sb_cas32_full(&block->retire, SB_RETIRE_DYING, sb_era_low(era)))
                sb_limbo_wait(handle, sb_offset_of(&handle->segment, block), era, false);
}
