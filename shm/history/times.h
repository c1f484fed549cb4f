/*
 * Which cut was taken when: the engine's notes, from which anybody tells how old a cut is, when a
 * version was written, and what the bus was like at a time.
 *
 * Always true: one process writes, the engine; a new one goes on where the one before stopped. The
 * times of an entry were read after its cut was taken: so nothing in a cut is younger than its
 * times. Ever coarser rings keep the far past: each tick, second, minute and hour.
 */
#ifndef SB_HISTORY_TIMES_H
#define SB_HISTORY_TIMES_H

#include "shm/layout/segment.h"

/* What one entry says. */
struct sb_moment {
        uint64_t cut;
        uint64_t realtime_ns, monotonic_ns;
};

/* For the engine: @now->cut was taken before the times were read. */
void sb_times_note(struct sb_segment *segment, const struct sb_moment *now);
/* The same with `safe`, which was raised just now, and the clocks. *ret: what was noted. */
void sb_times_tick(struct sb_segment *segment, struct sb_moment *ret);
/* The newest entry whose real time is not after @realtime_ns. False: there is none that old. */
bool sb_times_at(const struct sb_segment *segment, uint64_t realtime_ns, struct sb_moment *ret);
/* The same by the monotonic clock. */
bool sb_times_at_monotonic(
        const struct sb_segment *segment, uint64_t monotonic_ns, struct sb_moment *ret);
/* The same, of what was @span_ns ago, from those rings alone which hold everything for twice as
 * long: so what is found never lies before what anybody found until then. False also where no ring
 * does. */
bool sb_times_horizon(const struct sb_segment *segment, uint64_t span_ns, struct sb_moment *ret);
/* The newest entry whose cut is below @stamp: what has that stamp was written later. */
bool sb_times_before(const struct sb_segment *segment, uint64_t stamp, struct sb_moment *ret);
/* The oldest entry whose cut is not below @cut: @cut was taken no later. */
bool sb_times_behind(const struct sb_segment *segment, uint64_t cut, struct sb_moment *ret);

#endif
