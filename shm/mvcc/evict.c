/* Taking snapshots away; see evict.h. */

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

#define ROUNDS_MAX 1024u /* more only in a damaged segment */

/* A commit at this cut that is under way was asked for before: it comes to its end while pruners
 * still keep what it goes by. One that is noted later is given up by its owner, who looks at the
 * announcement behind the note. */
static void end_commit(struct sb_peer *peer, struct sb_client *client, uint64_t cut)
{
        struct sb_commit *commit;
        uint64_t at;

        sb_pin(peer);
        at = sb_pin_load(peer, &client->operation);
        commit = at & SB_OPERATION_COMMIT ? sb_commit_at(&peer->segment, at) : NULL;
        if (commit && commit->cut == cut)
                sb_txn_decide(peer, commit);
        sb_unpin(peer);
}

/* Return: whether this call took it away. */
static bool evict(struct sb_peer *peer, struct sb_client *client, uint32_t index, uint64_t cut_max)
{
        struct sb_cell64 *word = &sb_client_snapshots(client)[index];
        uint32_t rounds;

        for (rounds = 0; rounds < ROUNDS_MAX; rounds++) {
                uint64_t cut = sb_load_acquire(word); /* A:announce. */

                if (cut <= SB_SNAPSHOT_EVICTED || (cut & SB_SNAPSHOT_PENDING) ||
                        (cut & ~SB_SNAPSHOT_EVICTING) > cut_max)
                        return false;
                /* R:announce > A:announce. A full barrier: whoever reads at the cut from here on
                 * says that it is lost. */
                if (!(cut & SB_SNAPSHOT_EVICTING) &&
                        !sb_cas64_full(word, cut, cut | SB_SNAPSHOT_EVICTING))
                        continue;
                cut &= ~SB_SNAPSHOT_EVICTING;
                if (!SB_FAULT(EVICT_BESIDE_COMMIT))
                        end_commit(peer, client, cut);
                /* R:announce > A:announce. Its owner may have ended it meanwhile. */
                return sb_cas64_full(word, cut | SB_SNAPSHOT_EVICTING, SB_SNAPSHOT_EVICTED);
        }
        return false;
}

static uint32_t evict_words(struct sb_peer *peer, uint32_t slot, uint64_t cut_max)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t count = 0, i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                count += evict(peer, sb_client_at(segment, slot), i, cut_max);
        return count;
}

uint32_t sb_evict_client(struct sb_peer *peer, uint32_t slot, uint64_t cut_max)
{
        uint32_t count = evict_words(peer, slot, cut_max);

        /* Pruners kept for them what nobody needs any more. */
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
                        struct sb_client *client = sb_client_at(segment, slot);
                        uint64_t cut =
                                sb_load_acquire(&sb_client_snapshots(client)[i]); /* A:announce. */

                        if (!(cut & SB_SNAPSHOT_PENDING) && (cut & SB_SNAPSHOT_EVICTING))
                                evict(peer, client, i, cut & ~SB_SNAPSHOT_EVICTING);
                }
}
