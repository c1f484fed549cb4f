/* Evicting snapshots: one announcement word after the other; see evict.h. */

#include "shm/mvcc/evict.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
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
static void evict_decide_noted(struct sb_peer *peer, struct sb_client *record, uint64_t cut)
{
        struct sb_commit *descriptor;
        uint64_t at;

        sb_pin(peer);
        at = sb_pin_load(peer, &record->operation);
        descriptor = at & SB_OPERATION_COMMIT ? sb_commit_at(&peer->segment, at) : NULL;
        if (descriptor && descriptor->cut == cut)
                sb_txn_decide(peer, descriptor);
        sb_unpin(peer);
}

static void evict_end_commit(struct sb_peer *peer, struct sb_client *record, uint64_t cut)
{
        if (!SB_FAULT(EVICT_BESIDE_COMMIT))
                evict_decide_noted(peer, record, cut);
}

/* Return: whether this call took the snapshot away. */
static bool evict_word(
        struct sb_peer *peer, struct sb_client *record, uint32_t index, uint64_t cut_max)
{
        struct sb_cell64 *word = &sb_client_snapshots(record)[index];
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
                evict_end_commit(peer, record, cut);
                /* R:announce > A:announce. Failed: its owner has ended the snapshot meanwhile. */
                return sb_cas64_full(word, cut | SB_SNAPSHOT_EVICTING, SB_SNAPSHOT_EVICTED);
        }
        return false;
}

static uint32_t evict_words(struct sb_peer *peer, uint32_t slot, uint64_t cut_max)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t count = 0, i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                count += evict_word(peer, sb_client_at(segment, slot), i, cut_max);
        return count;
}

uint32_t sb_evict_client(struct sb_peer *peer, uint32_t slot, uint64_t cut_max)
{
        uint32_t count = evict_words(peer, slot, cut_max);

        /* Pruners kept versions for these snapshots alone. */
        if (count)
                sb_limbo_leave(peer);
        return count;
}

uint32_t sb_evict_all(struct sb_peer *peer, uint64_t cut_max)
{
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high); /* A:roster. */
        uint32_t slot, count = 0;

        for (slot = 1; slot < high && slot < peer->segment.geometry.client_count; slot++)
                count += evict_words(peer, slot, cut_max);
        if (count)
                sb_limbo_leave(peer);
        return count;
}

void sb_evict_finish(struct sb_peer *peer)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t slot, i;

        for (slot = 1; slot < segment->geometry.client_count; slot++)
                for (i = 0; i < segment->geometry.snapshot_count; i++) {
                        struct sb_client *record = sb_client_at(segment, slot);
                        uint64_t cut =
                                sb_load_acquire(&sb_client_snapshots(record)[i]); /* A:announce. */

                        if (!(cut & SB_SNAPSHOT_PENDING) && (cut & SB_SNAPSHOT_EVICTING))
                                evict_word(peer, record, i, cut & ~SB_SNAPSHOT_EVICTING);
                }
}
