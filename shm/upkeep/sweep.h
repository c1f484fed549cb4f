/*
 * The sweep: looks at every block of some units and brings what nobody needs a step nearer to being
 * free. It finds whatever private lists lost: superseded versions, removals that stopped half way,
 * blocks that are dated and wait. Declared in reap.h.
 */
#ifndef SB_UPKEEP_SWEEP_H
#define SB_UPKEEP_SWEEP_H

#include "shm/layout/handle.h"

/* Anybody: look at @count units from *cursor on, and bring every block in them that nobody needs a
 * step nearer to being free. Advances *cursor, modulo unit_count. Return: blocks freed. */
uint64_t sb_sweep(struct sb_peer *peer, uint32_t *cursor, uint32_t count);

/* Around the calls of one whole sweep: births that are very old are brought up to date on the way,
 * so that 32 bits last for ever. */
void sb_sweep_begin(struct sb_peer *peer);
void sb_sweep_end(struct sb_peer *peer);

#endif
