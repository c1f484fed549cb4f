/*
 * The prune horizon: what a pruner knows of the cuts that are open, or marked (models: prune).
 *
 * How it works: sb_horizon_take() reads a bound, then the announcements of all records and the
 * marks. A cut that it does not see is taken at the bound or above. So a version with a successor
 * stamped at the bound or below is needed by the cuts in the horizon alone, and no later cut reads
 * it.
 *
 * Always true: what a horizon says holds for good; an old one only says "needed" more often. It
 * knows every cut that the segment has a word for: so at any number of them nothing is kept that no
 * cut needs.
 */
#ifndef SB_UPKEEP_HORIZON_H
#define SB_UPKEEP_HORIZON_H

#include "shm/base/fault.h"
#include "shm/layout/handle.h"
#include "shm/layout/superblock.h"

/* For a handle that begins: it has not looked yet. @space: of sb_horizon_space() bytes. */
uint64_t sb_horizon_space(const struct sb_geometry *geometry);
void sb_horizon_init(struct sb_handle *handle, void *space);
/* Read the bound, flush the store buffers of all processes, read announcements and marks into
 * ret->cuts, which the caller provides. Cost: a membarrier, a look at all records that were ever
 * used, and a few steps for each cut. */
void sb_horizon_take(struct sb_handle *handle, struct sb_horizon *ret);
/* Bring the handle's own horizon up to date, if a cut was taken since. */
void sb_horizon_renew(struct sb_handle *handle);
/* The index of the last cut, where there is one. Fault HORIZON_LAST_MISSED: of the one before. */
static inline uint32_t sb_horizon_last(const struct sb_horizon *horizon)
{
        uint32_t last = horizon->cut_count - 1;

        return SB_FAULT(HORIZON_LAST_MISSED) && last ? last - 1 : last;
}
/* By @horizon: whether some cut, open or to come, reads a version that was current from @stamp
 * until @successor. */
static inline bool sb_horizon_needs(
        const struct sb_horizon *horizon, uint64_t stamp, uint64_t successor)
{
        uint32_t low = 0, high = sb_horizon_last(horizon);

        if (stamp == successor)
                return false;
        if (successor > horizon->bound)
                return true;
        /* What lies above all cuts is the usual case. */
        if (!horizon->cut_count || horizon->cuts[high] < stamp)
                return false;
        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (horizon->cuts[middle] < stamp)
                        low = middle + 1;
                else
                        high = middle;
        }
        return horizon->cuts[low] < successor;
}

/* The same for @version, of which @stamp is. Of the bus's own keys marks keep nothing: so the keys
 * of marks do not keep one another's, and where marks keep all memory, what the first one's end
 * needs is there again for the next one's. An open cut keeps them. */
bool sb_horizon_keeps(struct sb_handle *handle, const struct sb_horizon *horizon,
        const struct sb_version *version, uint64_t stamp, uint64_t successor);

/* Whether any cut was open when the handle took its horizon. */
static inline bool sb_horizon_has_cuts(const struct sb_handle *handle)
{
        return handle->horizon.cut_count > 0;
}
/* By the handle's own horizon: whether no cut, open or to come, reads what was current from
 * @old_stamp until @stamp. However old the horizon is, it says so for good where @stamp is not
 * above its bound. */
static inline __attribute__((always_inline)) bool sb_horizon_passed(
        const struct sb_handle *handle, uint64_t stamp, uint64_t old_stamp)
{
        if (stamp == old_stamp)
                return true;
        return stamp <= handle->horizon.bound &&
               (!handle->horizon.cut_count ||
                       !sb_horizon_needs(&handle->horizon, old_stamp, stamp));
}

#endif
