/*
 * The work on memory as a whole: what an operation does on its way out, what a writer does that
 * finds the bus full, and what the engine does at each tick.
 *
 * How it works: sb_work_due() works off the handle's private lists when a batch of them is due.
 * sb_work_tick() raises the stable cut, works off the engine's lists, and sweeps in slices while
 * some process has left work behind since the last whole sweep (`sweep_wanted`, `swept`).
 *
 * A writer that finds the bus full works off its own lists, and tries again. Where that was not
 * enough, and its deadline is not over, it calls sb_work_slice(), tries again, and so on: it looks
 * at the time between slices. Slices go round the segment from where any client's last one ended
 * (`sweep_next`). A lap of them that freed nothing is followed by a rest, which ends early when a
 * process leaves work behind.
 *
 * Always true: work that a handle leaves behind counts in `sweep_wanted`, and a sweep that begins
 * after that looks at all of the segment. A sweep that frees nothing is followed by a rest, which
 * grows: what a stopped reader or an open snapshot holds shall not keep a processor busy. A rest is
 * as long in an idle bus as in a busy one.
 */
#ifndef SB_UPKEEP_WORK_H
#define SB_UPKEEP_WORK_H

#include "shm/layout/handle.h"

/* The work on memory that is due by now; not under a pin. */
void sb_work_due(struct sb_handle *handle);
/* All the work on memory that can be done without waiting; not under a pin. Return: with
 * @whole_sweep, whether the floor of history rose, so that the next one will find what to free.
 * Cost: with @whole_sweep, a look at every block. */
bool sb_work_all(struct sb_handle *handle, bool whole_sweep);

/* For an operation that finds no memory; not under a pin. Work off the handle's own lists. Return:
 * false when they are empty. */
bool sb_work_lists(struct sb_handle *handle);
/* Whether so much is in them that this is better than a larger block. */
bool sb_work_lists_worth(const struct sb_handle *handle);
/* The same for a caller that has time: a slice of a sweep. Return: false: there is no point in one
 * now; wait for others. Cost: a look at about a thousand blocks. */
bool sb_work_slice(struct sb_handle *handle);

/* Engine, every few milliseconds. @cursor: the unit that a sweep goes on from.
 * Return: whether there is more to do at once. */
bool sb_work_tick(struct sb_handle *engine, uint32_t *cursor);
/* Engine: it left out so many ticks, because nothing happened. The rest between two sweeps is a
 * time, and goes on meanwhile. */
void sb_work_pass(struct sb_handle *engine, uint64_t ticks);

/* Engine: whether a sweep is under way; and have one begin with the next tick. */
bool sb_work_sweeping(const struct sb_handle *handle);
/* Engine: whether some client was in a write at the last tick: a stopped one's watchers wait for
 * the next one. */
bool sb_work_is_noted(const struct sb_handle *handle);
void sb_work_ask(struct sb_handle *handle);

#endif
