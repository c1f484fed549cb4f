/*
 * The prune horizon: what a pruner knows of the cuts that are open, or marked (models: prune).
 *
 * How it works: sb_horizon_take() reads a bound, then the announcements of all records and the
 * marks. A cut that it does not see is taken at the bound or above. So a version with a successor
 * stamped at the bound or below is needed by the cuts in the horizon alone, and no later cut reads
 * it.
 *
 * Always true: what a horizon says holds for good; an old one only says "needed" more often. It has
 * space for SB_HORIZON_CUTS_MAX cuts: with more, what any cut above the last one might read counts
 * as needed.
 */
#ifndef SB_UPKEEP_HORIZON_H
#define SB_UPKEEP_HORIZON_H

#include "shm/layout/handle.h"

/* Read the bound, flush the store buffers of all processes, read announcements and marks.
 * Cost: a membarrier and a look at all records that were ever used. */
void sb_horizon_take(struct sb_handle *handle, struct sb_horizon *ret);
/* Bring the handle's own horizon up to date, if a cut was taken since. */
void sb_horizon_renew(struct sb_handle *handle);
/* By @horizon: whether some cut, open or to come, reads a version that was current from @stamp
 * until @successor. */
static inline bool sb_horizon_needs(
        const struct sb_horizon *horizon, uint64_t stamp, uint64_t successor)
{
        uint32_t i;

        if (stamp == successor)
                return false;
        if (successor > horizon->bound)
                return true;
        for (i = 0; i < horizon->cut_count; i++) {
                if (horizon->cuts[i] >= successor)
                        return false;
                if (horizon->cuts[i] >= stamp || (horizon->overflow && i == horizon->cut_count - 1))
                        return true;
        }
        return false;
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
