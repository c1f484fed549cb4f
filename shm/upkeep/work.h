/*
 * The work on memory as a whole: what an operation does on its way out, what a writer does that
 * finds the bus full, and what the engine does at each tick.
 *
 * How it works: sb_work_due() works off the handle's private lists when a batch of them is due.
 * sb_work_all() does all that can be done without waiting, if asked to with a sweep of the whole
 * segment. sb_work_tick() raises the stable cut, works off the engine's lists, and sweeps in slices
 * while some process has left work behind since the last whole sweep (`sweep_wanted`, `swept`).
 *
 * Always true: work that a handle leaves behind counts in `sweep_wanted`, and a sweep that begins
 * after that looks at all of the segment. A sweep that frees nothing is followed by a rest, which
 * grows: what a stopped reader or an open snapshot holds shall not keep a processor busy.
 */
#ifndef SB_UPKEEP_WORK_H
#define SB_UPKEEP_WORK_H

#include "shm/layout/handle.h"

/* The work on memory that is due by now; not under a pin. */
void sb_work_due(struct sb_handle *handle);
/* All the work on memory that can be done without waiting, for when memory is short and for close;
 * not under a pin. Cost: with @whole_sweep, a look at every block. */
void sb_work_all(struct sb_handle *handle, bool whole_sweep);

/* Engine, every few milliseconds. @cursor: the unit that a sweep goes on from.
 * Return: whether there is more to do at once. */
bool sb_work_tick(struct sb_handle *engine, uint32_t *cursor);

/* Engine: whether a sweep is under way; and have one begin with the next tick. */
bool sb_work_sweeping(const struct sb_handle *handle);
void sb_work_ask(struct sb_handle *handle);

#endif
