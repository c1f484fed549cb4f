/*
 * Which cut was taken when: the engine's notes. From these any process tells how old a cut is, when
 * a version was written, and what the bus was like at a time.
 *
 * How it works: four circular tables of entries {cut, real time, monotonic time}, ever coarser: one
 * entry for each tick of the engine, for each second, minute and hour. So the last ticks are known
 * exactly, the far past roughly.
 *
 * Always true: one process writes, the engine; a new engine goes on where the one before stopped.
 * The times of an entry were read after its cut was taken: so nothing in a cut is younger than its
 * times.
 */
#ifndef SB_HISTORY_TIMES_H
#define SB_HISTORY_TIMES_H

#include "shm/layout/segment.h"

/* What one entry says. */
struct sb_moment {
        uint64_t cut;
        uint64_t realtime_ns, monotonic_ns;
};

/* For the engine: note @now, of which the cut was taken before the times were read. */
void sb_times_note(struct sb_segment *segment, const struct sb_moment *now);
/* For a process that is alone in the segment: note that @cut was taken at that real time, perhaps
 * when the machine ran another time; cuts ascend. */
void sb_times_load(struct sb_segment *segment, uint64_t cut, uint64_t realtime_ns);
/* For the engine: note the stable cut, which it has just raised, with the times that the clocks
 * show. *ret: what was noted. */
void sb_times_tick(struct sb_segment *segment, struct sb_moment *ret);
/* The newest entry with a real time not after @realtime_ns. False: there is none that old.
 * Cost, of this one and of those below: a look at all entries. */
bool sb_times_at(const struct sb_segment *segment, uint64_t realtime_ns, struct sb_moment *ret);
/* The same by the monotonic clock, for the moment @span_ns ago, from those tables alone that hold
 * everything for twice as long: so what is found never lies before what any process found until
 * then. False also where no table does. */
bool sb_times_horizon(const struct sb_segment *segment, uint64_t span_ns, struct sb_moment *ret);
/* All entries, in no order; some may be there twice. @ret has room for times_count of each level.
 * Return: how many. */
uint32_t sb_times_list(const struct sb_segment *segment, struct sb_moment *ret);
/* The newest entry with a cut below @stamp: what has that stamp was written later. */
bool sb_times_before(const struct sb_segment *segment, uint64_t stamp, struct sb_moment *ret);
/* The oldest entry with a cut not below @cut: @cut was taken no later. */
bool sb_times_behind(const struct sb_segment *segment, uint64_t cut, struct sb_moment *ret);

#endif
