/* Evicting snapshots: one announcement word after the other; see evict.h. */

#include "shm/mvcc/evict.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/help.h"

/* Bring a commit at this cut that its owner has noted to its end, while pruners still keep what the
 * commit goes by. A commit that is noted later is given up by its owner, which looks at the
 * announcement after the note. */
static void evict_decide_noted(struct sb_handle *handle, struct sb_record *record, uint64_t cut)
{
        struct sb_descriptor *descriptor;
        uint64_t at;

        sb_pin(handle);
        at = sb_note_load(handle, record);
        descriptor = at & SB_OPERATION_DESCRIPTOR ? sb_descriptor_at(&handle->segment, at) : NULL;
        if (descriptor && descriptor->cut == cut)
                sb_help_decide(handle, descriptor);
        sb_unpin(handle);
}

static void evict_end_commit(struct sb_handle *handle, struct sb_record *record, uint64_t cut)
{
        if (!SB_FAULT(EVICT_BESIDE_COMMIT))
                evict_decide_noted(handle, record, cut);
}

/* Return: whether this call took the snapshot away. */
static bool evict_word(
        struct sb_handle *handle, struct sb_record *record, uint32_t index, uint64_t cut_max)
{
        struct sb_word64 *word = &sb_record_snapshots(record)[index];

        /* Without a bound: each further round means that the owner has ended a snapshot and begun
         * another one here. */
        for (;;) {
                uint64_t cut = sb_load_acquire(word); /* A:announce. */

                if (cut <= SB_SNAPSHOT_EVICTED || (cut & SB_SNAPSHOT_PENDING) ||
                        (cut & ~SB_SNAPSHOT_EVICTING) > cut_max)
                        return false;
                /* R:announce > A:announce. A full barrier: a read at the cut that ends after this
                 * says that the cut is lost, and of a commit at it this process sees the note, or
                 * the owner sees this. */
                if (!(cut & SB_SNAPSHOT_EVICTING) &&
                        !sb_cas64_full(word, cut, cut | SB_SNAPSHOT_EVICTING))
                        continue;
                cut &= ~SB_SNAPSHOT_EVICTING;
                evict_end_commit(handle, record, cut);
                /* R:announce > A:announce. Failed: its owner has ended the snapshot meanwhile. */
                return sb_cas64_full(word, cut | SB_SNAPSHOT_EVICTING, SB_SNAPSHOT_EVICTED);
        }
}

static uint32_t evict_words(struct sb_handle *handle, uint32_t slot, uint64_t cut_max)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t count = 0, i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                count += evict_word(handle, sb_record_at(segment, slot), i, cut_max);
        return count;
}

uint32_t sb_evict_client(struct sb_handle *handle, uint32_t slot, uint64_t cut_max)
{
        uint32_t count = evict_words(handle, slot, cut_max);

        /* Pruners kept versions for these snapshots alone. */
        if (count)
                sb_limbo_leave(handle);
        return count;
}

/* What tells an announcement from the next one in the same word: how many there were. Fault
 * EVICT_BY_CUT: its cut, which others may announce again and again. */
static uint64_t evict_count_opened(
        const struct sb_handle *handle, struct sb_record *record, uint32_t index, uint64_t cut)
{
        /* Relaxed: only whether it changed matters. */
        uint64_t opened = sb_load_relaxed(&sb_record_opened(&handle->segment, record)[index]);

        return SB_FAULT(EVICT_BY_CUT) ? cut : opened;
}

/* Look at one announcement. Return: whether it was taken away. */
static bool evict_if_held(struct sb_handle *handle, uint32_t slot, uint32_t index,
        struct sb_evict_seen *seen, uint64_t now_ns, uint64_t age_ns)
{
        struct sb_record *record = sb_record_at(&handle->segment, slot);
        /* A:announce. The owner counts first: with this announcement, its count is seen too. */
        uint64_t cut = sb_load_acquire(&sb_record_snapshots(record)[index]), opened;

        if (cut <= SB_SNAPSHOT_EVICTED || (cut & SB_SNAPSHOT_PENDING))
                return false;
        cut &= ~SB_SNAPSHOT_EVICTING;
        opened = evict_count_opened(handle, record, index, cut);
        if (seen->opened != opened) {
                *seen = (struct sb_evict_seen){.opened = opened, .since_ns = now_ns};
                return false;
        }
        /* No younger one that the owner may have opened there since the look. */
        return now_ns - seen->since_ns > age_ns && evict_word(handle, record, index, cut);
}

uint32_t sb_evict_held(
        struct sb_handle *handle, struct sb_evict_seen *seen, uint64_t now_ns, uint64_t age_ns)
{
        uint32_t words = handle->segment.geometry.snapshot_count, slot, i, count = 0;
        struct sb_roster_walk walk = {.segment = &handle->segment};

        while (sb_roster_next(&walk)) {
                slot = sb_roster_met(&walk);
                for (i = 0; slot && i < words; i++)
                        count += evict_if_held(
                                handle, slot, i, &seen[(uint64_t)slot * words + i], now_ns, age_ns);
        }
        if (count)
                sb_limbo_leave(handle);
        return count;
}

void sb_evict_finish(struct sb_handle *handle)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t slot, i;

        for (slot = 1; slot < segment->geometry.record_count; slot++)
                for (i = 0; i < segment->geometry.snapshot_count; i++) {
                        struct sb_record *record = sb_record_at(segment, slot);
                        uint64_t cut =
                                sb_load_acquire(&sb_record_snapshots(record)[i]); /* A:announce. */

                        if (!(cut & SB_SNAPSHOT_PENDING) && (cut & SB_SNAPSHOT_EVICTING))
                                evict_word(handle, record, i, cut & ~SB_SNAPSHOT_EVICTING);
                }
}
