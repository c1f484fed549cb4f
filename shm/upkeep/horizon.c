/* The prune horizon, read from announcements and marks; see horizon.h. */

#include "shm/upkeep/horizon.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/mvcc/clock.h"

#define DIGIT_BITS 4u /* of a cut, as it is sorted */
#define DIGITS     (1u << DIGIT_BITS)

/* How many cuts can be open or marked at once. */
static uint64_t horizon_cuts_max(const struct sb_geometry *geometry)
{
        return (uint64_t)geometry->record_count * geometry->snapshot_count + geometry->mark_count;
}

uint64_t sb_horizon_space(const struct sb_geometry *geometry)
{
        return 2 * sizeof(uint64_t) * horizon_cuts_max(geometry);
}

void sb_horizon_init(struct sb_handle *handle, void *space)
{
        handle->horizon = (struct sb_horizon){.cuts = space};
}

static void horizon_add_cut(struct sb_horizon *horizon, uint64_t cut)
{
        horizon->cuts[horizon->cut_count++] = cut;
}

/* The client that announced has not taken its cut yet: take one for it. @pending: what the
 * announcement says. Return: its cut; 0: there is none that this horizon has to know. */
static uint64_t horizon_end_pending(
        struct sb_handle *handle, struct sb_word64 *word, uint64_t pending)
{
        uint64_t cut;

        if (SB_FAULT(PRUNE_PENDING_IGNORED))
                return 0;
        /* R:announce > A:announce. The cut is taken behind the horizon's bound. */
        sb_cas64_full(word, pending, sb_clock_take_cut(handle));
        cut = sb_load_acquire(word); /* A:announce. */
        /* Another one is pending: it was announced behind the first look, and so behind the bound,
         * and its cut is taken behind that. */
        return cut & SB_SNAPSHOT_PENDING ? 0 : cut;
}

static void horizon_read_announcement(
        struct sb_handle *handle, struct sb_word64 *word, struct sb_horizon *horizon)
{
        uint64_t cut = sb_load_acquire(word); /* A:announce. */

        if (cut & SB_SNAPSHOT_PENDING)
                cut = horizon_end_pending(handle, word, cut);
        /* Until it says EVICTED, its client may be reading at it. */
        cut &= ~SB_SNAPSHOT_EVICTING;
        if (cut > SB_SNAPSHOT_EVICTED)
                horizon_add_cut(horizon, cut);
}

/* The next record to look at: a client that attaches later announces after the bound was read. */
static struct sb_record *horizon_next_record(struct sb_roster_walk *walk)
{
        return SB_FAULT(PRUNE_IGNORES_SNAPSHOTS) ? NULL : sb_roster_next(walk);
}

static void horizon_read_announcements(struct sb_handle *handle, struct sb_horizon *horizon)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_roster_walk walk = {.segment = segment};
        struct sb_record *record;
        uint32_t i;

        while ((record = horizon_next_record(&walk)))
                for (i = 0; i < segment->geometry.snapshot_count; i++)
                        horizon_read_announcement(handle, &sb_record_snapshots(record)[i], horizon);
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

/* Sort @count cuts from @from into @to by one digit. */
static void horizon_sort_digit(const uint64_t *from, uint64_t *to, uint32_t count, uint32_t shift)
{
        uint32_t ends[DIGITS] = {0}, i, end = 0;

        for (i = 0; i < count; i++)
                ends[from[i] >> shift & (DIGITS - 1)]++;
        for (i = 0; i < DIGITS; i++) {
                uint32_t here = ends[i];

                ends[i] = end;
                end += here;
        }
        for (i = 0; i < count; i++)
                to[ends[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

/* Sort the cuts, and leave out all but one of equal ones: from the lowest digit to the highest, to
 * and fro between the two halves of the space, passing by digits that are the same in all. So it
 * takes a few steps for each cut, at any number. */
static void horizon_sort(struct sb_horizon *horizon, uint64_t *spare)
{
        uint64_t *from = horizon->cuts, *to = spare, differ = 0;
        uint32_t count = horizon->cut_count, shift, i;

        for (i = 1; i < count; i++)
                differ |= from[i] ^ from[0];
        for (shift = 0; shift < 64; shift += DIGIT_BITS) {
                uint64_t *sorted = to;

                if (!(differ >> shift & (DIGITS - 1)))
                        continue;
                horizon_sort_digit(from, to, count, shift);
                to = from;
                from = sorted;
        }
        horizon->cut_count = 0;
        for (i = 0; i < count; i++)
                if (!i || from[i] != from[i - 1])
                        horizon_add_cut(horizon, from[i]);
}

void sb_horizon_take(struct sb_handle *handle, struct sb_horizon *ret)
{
        struct sb_segment *segment = &handle->segment;

        ret->cut_count = 0;
        /* A:clock. First the bound: a snapshot that is announced behind the look at the
         * announcements takes its cut at the bound or above. The clock before the observers: a
         * client that becomes one later reads at a cut that is not below that clock. */
        ret->bound = sb_load_acquire(&segment->super->clock);
        if (sb_load_acquire(&segment->super->observers))               /* A:observers. */
                ret->bound = sb_load_acquire(&segment->super->stable); /* A:stable. */
        segment->os->membarrier(segment->os->context);
        horizon_read_cuts(handle, ret);
        horizon_sort(ret, ret->cuts + horizon_cuts_max(&segment->geometry));
}

/* Whether an announced cut reads what was current from @stamp until @successor, which is not above
 * the bound of a horizon that was taken before. What is pending now was announced behind that, or
 * has had its cut since: that lies at the bound or above. Fault OWN_UNANNOUNCED: not asked. */
static bool horizon_is_announced(struct sb_handle *handle, uint64_t stamp, uint64_t successor)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_roster_walk walk = {.segment = segment};
        struct sb_record *record;
        uint32_t i;

        while (!SB_FAULT(OWN_UNANNOUNCED) && (record = sb_roster_next(&walk)))
                for (i = 0; i < segment->geometry.snapshot_count; i++) {
                        /* A:announce. */
                        uint64_t cut = sb_load_acquire(&sb_record_snapshots(record)[i]);

                        cut &= ~SB_SNAPSHOT_EVICTING;
                        if (cut > SB_SNAPSHOT_EVICTED && cut >= stamp && cut < successor)
                                return true;
                }
        return false;
}

bool sb_horizon_keeps(struct sb_handle *handle, const struct sb_horizon *horizon,
        const struct sb_version *version, uint64_t stamp, uint64_t successor)
{
        uint64_t shape;

        if (!sb_horizon_needs(horizon, stamp, successor))
                return false;
        shape = sb_version_shape(&handle->segment, version);
        if (successor > horizon->bound || SB_FAULT(OWN_MARKED) ||
                !sb_reserved_is(version->bytes, SB_SHAPE_KEY_LEN(shape)))
                return true;
        return horizon_is_announced(handle, stamp, successor);
}

void sb_horizon_renew(struct sb_handle *handle)
{
        /* A:clock. */
        if (sb_load_acquire(&handle->segment.super->clock) != handle->horizon.bound)
                sb_horizon_take(handle, &handle->horizon);
}
