/* The prune horizon; see horizon.h. */

#include "shm/upkeep/horizon.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/clock.h"

/* Each further round means that somebody else got on; so many in a row mean a damaged segment, in
 * which nobody shall hang. */
#define ROUNDS_MAX 1024u

static void add_cut(struct sb_horizon *view, uint64_t cut)
{
        uint32_t i;

        if (view->cut_count == SB_HORIZON_CUTS_MAX) {
                /* Too many to tell apart: everything from the lowest of the last on counts as
                 * needed. */
                view->overflow = true;
                if (cut < view->cuts[view->cut_count - 1])
                        view->cuts[view->cut_count - 1] = cut;
                for (i = view->cut_count - 1; i && view->cuts[i - 1] > view->cuts[i]; i--) {
                        uint64_t swap = view->cuts[i];

                        view->cuts[i] = view->cuts[i - 1];
                        view->cuts[i - 1] = swap;
                }
                return;
        }
        for (i = view->cut_count; i && view->cuts[i - 1] > cut; i--)
                view->cuts[i] = view->cuts[i - 1];
        view->cuts[i] = cut;
        view->cut_count++;
}

static void read_announcement(struct sb_peer *peer, struct sb_cell64 *word, struct sb_horizon *view)
{
        uint64_t cut = sb_load_acquire(word); /* A:announce. */
        uint32_t rounds = 0;

        while (cut & SB_SNAPSHOT_PENDING) {
                if (SB_FAULT(PRUNE_PENDING_IGNORED))
                        return;
                if (rounds++ == ROUNDS_MAX) {
                        view->bound = 0; /* damaged: then nothing is pruned */
                        return;
                }
                sb_cas64_full(word, cut, sb_cut_take(peer));
                cut = sb_load_acquire(word); /* A:announce. */
        }
        /* Until it says EVICTED, somebody may be reading at it. */
        cut &= ~SB_SNAPSHOT_EVICTING;
        if (cut > SB_SNAPSHOT_EVICTED)
                add_cut(view, cut);
}

/* Marked cuts, each of which was announced by its maker until it was in the table. */
static void read_marks(struct sb_segment *segment, struct sb_horizon *view)
{
        uint64_t high = sb_load_acquire(&segment->super->mark_high), cut; /* A:mark. */
        uint32_t i;

        for (i = 0; i < high && i < segment->geometry.mark_count; i++)
                if (sb_mark_keeps(segment, i, &cut))
                        add_cut(view, cut);
}

void sb_view_take(struct sb_peer *peer, struct sb_horizon *ret)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t high;
        uint32_t slot, i;

        ret->cut_count = 0;
        ret->overflow = false;
        /* A:clock, A:observers, A:safe. First the bound: a snapshot that is announced after we
         * looked takes its cut at it or above. The clock before the observers: whoever becomes one
         * after we looked reads at a cut that is not below that clock. */
        ret->bound = sb_load_acquire(&segment->super->clock);
        if (sb_load_acquire(&segment->super->observers))             /* A:observers. */
                ret->bound = sb_load_acquire(&segment->super->safe); /* A:safe. */
        segment->os->membarrier(segment->os->context);
        if (SB_FAULT(PRUNE_MARKS_FIRST))
                read_marks(segment, ret);
        high = sb_load_acquire(&segment->super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < segment->geometry.client_count &&
                       !SB_FAULT(PRUNE_IGNORES_SNAPSHOTS);
                slot++)
                for (i = 0; i < segment->geometry.snapshot_count; i++)
                        read_announcement(
                                peer, &sb_client_snapshots(sb_client_at(segment, slot))[i], ret);
        if (!SB_FAULT(PRUNE_MARKS_FIRST))
                read_marks(segment, ret);
}

void sb_view_renew(struct sb_peer *peer)
{
        /* A:clock. */
        if (sb_load_acquire(&peer->segment.super->clock) != peer->horizon.bound)
                sb_view_take(peer, &peer->horizon);
}
