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
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/help.h"

#define ROUNDS_MAX                                                                                 \
        1024u /* each means that the owner changed the word: more only in a damaged segment */

/* Bring a commit at this cut that its owner has noted to its end, while pruners still keep what the
 * commit goes by. A commit that is noted later is given up by its owner, which looks at the
 * announcement after the note. */
static void evict_decide_noted(struct sb_handle *handle, struct sb_record *record, uint64_t cut)
{
        struct sb_descriptor *descriptor;
        uint64_t at;

        sb_pin(handle);
        at = sb_pin_load(handle, &record->operation);
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
        uint32_t rounds;

        for (rounds = 0; rounds < ROUNDS_MAX; rounds++) {
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
        return false;
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

uint32_t sb_evict_all(struct sb_handle *handle, uint64_t cut_max)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        uint32_t slot, count = 0;

        while (sb_roster_next(&walk, &slot))
                if (slot)
                        count += evict_words(handle, slot, cut_max);
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
