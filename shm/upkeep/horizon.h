/*
 * The prune horizon: what a pruner knows of the cuts that are open, or marked (models: prune).
 */
#ifndef SB_UPKEEP_HORIZON_H
#define SB_UPKEEP_HORIZON_H

#include "shm/layout/handle.h"

/* Read the bound, flush everybody's stores, read the announcements. */
void sb_view_take(struct sb_peer *peer, struct sb_horizon *ret);
/* Bring the peer's own view up to date if a cut was taken since. */
void sb_view_renew(struct sb_peer *peer);
/* By @view: whether some cut, open or to come, reads a version that was current from @stamp until
 * @successor. */
static inline bool sb_view_needs(const struct sb_horizon *view, uint64_t stamp, uint64_t successor)
{
        uint32_t i;

        if (stamp == successor)
                return false;
        if (successor > view->bound)
                return true;
        for (i = 0; i < view->cut_count; i++) {
                if (view->cuts[i] >= successor)
                        return false;
                if (view->cuts[i] >= stamp || (view->overflow && i == view->cut_count - 1))
                        return true;
        }
        return false;
}

/* By the peer's own view: whether no cut, open or to come, reads what was current from @old_stamp
 * until @stamp. The view says so for good, however old it is, if that was before its bound. */
static inline __attribute__((always_inline)) bool sb_horizon_passed(
        const struct sb_peer *peer, uint64_t stamp, uint64_t old_stamp)
{
        if (stamp == old_stamp)
                return true;
        return stamp <= peer->horizon.bound &&
               (!peer->horizon.cut_count || !sb_view_needs(&peer->horizon, old_stamp, stamp));
}

#endif
