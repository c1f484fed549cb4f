/* The past: cuts by time. */
#include "libclient/core/bus.h"
#include "shm/snapshot.h"
#include "shm/times.h"

/**
 * sb_cut_at() - what the bus was like at a time
 * @bus:        bus with any access
 * @realtime_ns: CLOCK_REALTIME
 * @ret_cut:    the last cut that is known to be not after it; one that is taken now, when that time
 *              has not come yet
 *
 * That a cut has a number does not say that it can still be read: that takes a mark or a rule.
 *
 * Return:   0; SB_E_LAPPED: it is known no more; SB_E_DETACHED; -EINVAL.
 * Threads:  the bus's own.
 * Progress: wait-free.
 * Cost:     a walk over agentd's notes, 100 KB at most.
 */
int sb_cut_at(struct sb_bus *bus, uint64_t realtime_ns, uint64_t *ret_cut)
{
        const struct sb_segment *segment;
        struct sb_moment moment;
        uint64_t cut;

        if (bus == NULL || ret_cut == NULL)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        segment = &bus->peer.segment;
        if (segment->os->realtime_ns(segment->os->context) <= realtime_ns) {
                cut = sb_cut_take(&bus->peer);
                /* Taken before that time, by a look at the clock behind it. */
                if (segment->os->realtime_ns(segment->os->context) <= realtime_ns) {
                        *ret_cut = cut;
                        return 0;
                }
        }
        if (!sb_times_at(segment, realtime_ns, &moment))
                return SB_E_LAPPED;
        *ret_cut = moment.cut;
        return 0;
}
