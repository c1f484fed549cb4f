/* Snapshots; see snapshot.h. */

#include "shm/mvcc/snapshot.h"

#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/clock.h"

/* Whether an announcement is of a cut that nobody takes away. */
static bool is_cut(uint64_t word)
{
        return word > SB_SNAPSHOT_EVICTED && !(word & (SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING));
}

/* An announcement word that is not in use. */
static int free_word(struct sb_peer *peer, uint32_t *ret_index)
{
        struct sb_cell64 *words = sb_client_snapshots(peer->client);
        uint32_t index = 0;

        /* Relaxed: the owner's own words; others only change what it has announced. */
        while (index < peer->segment.geometry.snapshot_count && sb_load_relaxed(&words[index]))
                index++;
        *ret_index = index;
        return index == peer->segment.geometry.snapshot_count ? SB_E_FULL : 0;
}

int sb_snapshot_open(struct sb_peer *peer, uint32_t *ret_index, uint64_t *ret_cut)
{
        struct sb_cell64 *words = sb_client_snapshots(peer->client);
        uint64_t pending, cut;
        uint32_t index;
        int r = free_word(peer, &index);

        if (r)
                return r;
        do {
                pending = SB_SNAPSHOT_PENDING | (sb_load_relaxed(&peer->client->opens) + 1);
                sb_store_relaxed(&peer->client->opens, pending & ~SB_SNAPSHOT_PENDING);
                if (SB_FAULT(CUT_BEFORE_ANNOUNCE)) {
                        cut = sb_cut_take(peer);
                        /* R:announce, too late: that is the fault. */
                        sb_exchange_full(&words[index], cut);
                        break;
                }
                /* R:announce > A:announce. A full barrier: announced before the cut is taken. */
                sb_exchange_full(&words[index], pending);
                cut = sb_cut_take(peer);
                if (!sb_cas64_full(&words[index], pending, cut))
                        /* A:announce. A pruner gave it its cut; or that was even taken away again.
                         */
                        cut = sb_load_acquire(&words[index]);
        } while (!is_cut(cut));
        *ret_index = index;
        *ret_cut = cut;
        return 0;
}

int sb_snapshot_open_at(struct sb_peer *peer, uint64_t cut, uint32_t *ret_index)
{
        uint32_t index;
        int r = free_word(peer, &index);

        if (r)
                return r;
        /* R:announce > A:announce. A full barrier: whoever is found to keep the cut behind this did
         * so when the last view without it was taken. */
        sb_exchange_full(&sb_client_snapshots(peer->client)[index], cut);
        *ret_index = index;
        return 0;
}

bool sb_snapshot_holds(const struct sb_peer *peer, uint32_t index, uint64_t cut)
{
        /* A:announce. Whoever took it away stored that before he pruned: what was read before this
         * look was whole. */
        return sb_load_acquire(&sb_client_snapshots(peer->client)[index]) == cut ||
               SB_FAULT(EVICT_NO_LOOK);
}

void sb_snapshot_close(struct sb_peer *peer, uint32_t index)
{
        /* Relaxed: the own word, in which what was taken away counts as little as it says. A:clock.
         */
        bool moved = sb_load_acquire(&peer->segment.super->clock) >
                     (sb_load_relaxed(&sb_client_snapshots(peer->client)[index]) &
                             ~SB_SNAPSHOT_EVICTING) +
                             1;

        /* R:announce. Reads in it are over. */
        sb_store_release(&sb_client_snapshots(peer->client)[index], 0);
        /* Later cuts were taken: pruners may have kept for this one what nobody needs any more. */
        if (moved)
                sb_limbo_leave(peer);
}
