/* Snapshots: the owner's side of its announcement words; see snapshot.h. */

#include "shm/mvcc/snapshot.h"

#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/clock.h"

/* Whether an announcement is of a cut that is not being taken away. */
static bool snapshot_is_cut(uint64_t word)
{
        return word > SB_SNAPSHOT_EVICTED && !(word & (SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING));
}

/* An announcement word that is not in use. */
static int snapshot_free_word(struct sb_handle *handle, uint32_t *ret_index)
{
        struct sb_word64 *words = sb_record_snapshots(handle->record);
        uint32_t index = 0;

        /* Relaxed: the owner's own words; other processes only change what it has announced. */
        while (index < handle->segment.geometry.snapshot_count && sb_load_relaxed(&words[index]))
                index++;
        *ret_index = index;
        return index == handle->segment.geometry.snapshot_count ? SB_E_FULL : 0;
}

/* Count an announcement that is about to be made, so that the engine can tell it from the one
 * before, also when both are of the same cut. */
static void snapshot_count(struct sb_handle *handle, uint32_t index)
{
        struct sb_word64 *opened = &sb_record_opened(&handle->segment, handle->record)[index];

        /* Relaxed, both: the owner's own word; the announcement orders it (R:announce). */
        sb_store_relaxed(opened, sb_load_relaxed(opened) + 1);
}

/* A word that says that a snapshot is being opened, and differs from all that this client announced
 * before. */
static uint64_t snapshot_next_pending(struct sb_handle *handle)
{
        /* Relaxed, both: the owner's own word, in which it counts. */
        uint64_t opens = sb_load_relaxed(&handle->record->opens) + 1;

        sb_store_relaxed(&handle->record->opens, opens & ~SB_SNAPSHOT_PENDING);
        return SB_SNAPSHOT_PENDING | opens;
}

/* Return: the cut, or what a pruner and the engine made of the announcement. */
static uint64_t snapshot_announce_then_cut(
        struct sb_handle *handle, struct sb_word64 *word, uint64_t pending)
{
        uint64_t cut;

        /* R:announce > A:announce. A full barrier: announced before the cut is taken. */
        sb_exchange_full(word, pending);
        cut = sb_clock_take_cut(handle);
        /* R:announce > A:announce. Failed: a pruner gave the announcement its cut, A:announce; or
         * that was even taken away again. */
        return sb_cas64_full(word, pending, cut) ? cut : sb_load_acquire(word);
}

/* Fault CUT_BEFORE_ANNOUNCE. */
static uint64_t snapshot_cut_then_announce(struct sb_handle *handle, struct sb_word64 *word)
{
        uint64_t cut = sb_clock_take_cut(handle);

        sb_exchange_full(word, cut); /* R:announce, too late: that is the fault. */
        return cut;
}

static uint64_t snapshot_announce(struct sb_handle *handle, struct sb_word64 *word)
{
        uint64_t pending = snapshot_next_pending(handle);

        return SB_FAULT(CUT_BEFORE_ANNOUNCE) ? snapshot_cut_then_announce(handle, word)
                                             : snapshot_announce_then_cut(handle, word, pending);
}

int sb_snapshot_open(struct sb_handle *handle, uint32_t *ret_index, uint64_t *ret_cut)
{
        uint64_t cut;
        uint32_t index;
        int r = snapshot_free_word(handle, &index);

        if (r)
                return r;
        snapshot_count(handle, index);
        do
                cut = snapshot_announce(handle, &sb_record_snapshots(handle->record)[index]);
        while (!snapshot_is_cut(cut));
        *ret_index = index;
        *ret_cut = cut;
        return 0;
}

int sb_snapshot_open_spare(struct sb_handle *handle, uint32_t *ret_index, uint64_t *ret_cut)
{
        struct sb_word64 *words = sb_record_snapshots(handle->record);
        uint32_t count = handle->segment.geometry.snapshot_count, index, used = 0;

        /* Relaxed: as above. */
        for (index = 0; index < count; index++)
                used += sb_load_relaxed(&words[index]) != 0;
        return 2 * used < count ? sb_snapshot_open(handle, ret_index, ret_cut) : SB_E_FULL;
}

int sb_snapshot_open_at(struct sb_handle *handle, uint64_t cut, uint32_t *ret_index)
{
        uint32_t index;
        int r = snapshot_free_word(handle, &index);

        if (r)
                return r;
        snapshot_count(handle, index);
        /* R:announce > A:announce. A full barrier: the caller looks behind it for what else keeps
         * the cut. What is found to keep it did so when a pruner last looked without seeing this
         * announcement. */
        sb_exchange_full(&sb_record_snapshots(handle->record)[index], cut);
        *ret_index = index;
        return 0;
}

void sb_snapshot_close(struct sb_handle *handle, uint32_t index)
{
        struct sb_word64 *word = &sb_record_snapshots(handle->record)[index];
        /* Relaxed: this client's own word; only the cut in it is of use here, and if the cut was
         * taken away, any answer will do. A:clock. */
        bool moved = sb_load_acquire(&handle->segment.super->clock) >
                     (sb_load_relaxed(word) & ~SB_SNAPSHOT_EVICTING) + 1;

        /* R:announce > A:announce. The reads at the cut are over. */
        sb_store_release(word, 0);
        /* Later cuts were taken: pruners may have kept versions for this one alone. */
        if (moved)
                sb_limbo_leave(handle);
}
