/* The prune horizon, read from announcements and marks; see horizon.h. */

#include "shm/upkeep/horizon.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/clock.h"

/* Each further round means that another process got on. So many in a row mean a damaged segment, in
 * which no process shall hang. */
#define ROUNDS_MAX 1024u

static void horizon_add_cut(struct sb_horizon *horizon, uint64_t cut)
{
        uint32_t i;

        if (horizon->cut_count == SB_HORIZON_CUTS_MAX) {
                /* Too many to tell apart: everything from the last one on counts as needed. */
                horizon->overflow = true;
                if (cut < horizon->cuts[horizon->cut_count - 1])
                        horizon->cuts[horizon->cut_count - 1] = cut;
                for (i = horizon->cut_count - 1; i && horizon->cuts[i - 1] > horizon->cuts[i];
                        i--) {
                        uint64_t swap = horizon->cuts[i];

                        horizon->cuts[i] = horizon->cuts[i - 1];
                        horizon->cuts[i - 1] = swap;
                }
                return;
        }
        for (i = horizon->cut_count; i && horizon->cuts[i - 1] > cut; i--)
                horizon->cuts[i] = horizon->cuts[i - 1];
        horizon->cuts[i] = cut;
        horizon->cut_count++;
}

/* The client that announced has not taken its cut yet: take one for it. @cut: what the announcement
 * says. Return: what it says then; 0: it says PENDING for ever, and by this horizon nothing is
 * pruned. */
static uint64_t horizon_end_pending(
        struct sb_handle *handle, struct sb_word64 *word, uint64_t cut, struct sb_horizon *horizon)
{
        uint32_t rounds;

        for (rounds = 0; rounds < ROUNDS_MAX && !SB_FAULT(PRUNE_PENDING_IGNORED); rounds++) {
                /* R:announce > A:announce. The cut is taken behind the horizon's bound. */
                sb_cas64_full(word, cut, sb_clock_take_cut(handle));
                cut = sb_load_acquire(word); /* A:announce. */
                if (!(cut & SB_SNAPSHOT_PENDING))
                        return cut;
        }
        if (!SB_FAULT(PRUNE_PENDING_IGNORED))
                horizon->bound = 0; /* damaged */
        return 0;
}

static void horizon_read_announcement(
        struct sb_handle *handle, struct sb_word64 *word, struct sb_horizon *horizon)
{
        uint64_t cut = sb_load_acquire(word); /* A:announce. */

        if (cut & SB_SNAPSHOT_PENDING)
                cut = horizon_end_pending(handle, word, cut, horizon);
        /* Until it says EVICTED, its client may be reading at it. */
        cut &= ~SB_SNAPSHOT_EVICTING;
        if (cut > SB_SNAPSHOT_EVICTED)
                horizon_add_cut(horizon, cut);
}

/* The next record to look at: a client that attaches later announces after the bound was read. */
static bool horizon_next_record(struct sb_roster_walk *walk, uint32_t *ret_slot)
{
        return !SB_FAULT(PRUNE_IGNORES_SNAPSHOTS) && sb_roster_next(walk, ret_slot);
}

static void horizon_read_announcements(struct sb_handle *handle, struct sb_horizon *horizon)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_roster_walk walk = {.segment = segment};
        uint32_t slot, i;

        while (horizon_next_record(&walk, &slot))
                for (i = 0; i < segment->geometry.snapshot_count; i++)
                        horizon_read_announcement(handle,
                                &sb_record_snapshots(sb_record_at(segment, slot))[i], horizon);
}

/* Marked cuts. Each was announced by its maker until it was in the table: so the table is read
 * behind the announcements. */
static void horizon_read_marks(struct sb_segment *segment, struct sb_horizon *horizon)
{
        uint64_t high = sb_load_acquire(&segment->super->mark_high), cut; /* A:mark. */
        uint32_t i;

        for (i = 0; i < high && i < segment->geometry.mark_count; i++)
                if (sb_named_keeps(segment, i, &cut))
                        horizon_add_cut(horizon, cut);
}

/* Announcements, then marks. Fault PRUNE_MARKS_FIRST: the other way round. */
static void horizon_read_cuts(struct sb_handle *handle, struct sb_horizon *horizon)
{
        if (SB_FAULT(PRUNE_MARKS_FIRST))
                horizon_read_marks(&handle->segment, horizon);
        horizon_read_announcements(handle, horizon);
        if (!SB_FAULT(PRUNE_MARKS_FIRST))
                horizon_read_marks(&handle->segment, horizon);
}

void sb_horizon_take(struct sb_handle *handle, struct sb_horizon *ret)
{
        struct sb_segment *segment = &handle->segment;

        ret->cut_count = 0;
        ret->overflow = false;
        /* A:clock. First the bound: a snapshot that is announced behind the look at the
         * announcements takes its cut at the bound or above. The clock before the observers: a
         * client that becomes one later reads at a cut that is not below that clock. */
        ret->bound = sb_load_acquire(&segment->super->clock);
        if (sb_load_acquire(&segment->super->observers))               /* A:observers. */
                ret->bound = sb_load_acquire(&segment->super->stable); /* A:stable. */
        segment->os->membarrier(segment->os->context);
        horizon_read_cuts(handle, ret);
}

void sb_horizon_renew(struct sb_handle *handle)
{
        /* A:clock. */
        if (sb_load_acquire(&handle->segment.super->clock) != handle->horizon.bound)
                sb_horizon_take(handle, &handle->horizon);
}
