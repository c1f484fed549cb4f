/*
 * The work on memory as a whole: what an operation does on its way out, what a writer does that
 * finds the bus full, and the engine's tick.
 */
#ifndef SB_UPKEEP_WORK_H
#define SB_UPKEEP_WORK_H

#include "shm/layout/handle.h"

/* The work on memory that is due by now; not under a pin. */
void sb_work_due(struct sb_peer *peer);
/* A bus's work on memory, all that can be done without waiting; called when room is short, and by
 * close. */
void sb_work_all(struct sb_peer *peer, bool whole_sweep);

/* Engine, every few milliseconds: raise `safe` when anything changed, work off the private lists,
 * sweep in slices when somebody left work behind. Return: whether there is more to do at once. */
bool sb_work_tick(struct sb_peer *engine, uint32_t *cursor);

/* Engine: whether a sweep is under way; and have one begin with the next tick. */
bool sb_work_sweeping(const struct sb_peer *peer);
void sb_work_ask(struct sb_peer *peer);

#endif
