/*
 * Grace periods: which of the blocks in a handle's limbo no process can be reading any more, by the
 * pins and guard words of all clients (models: retire, hold).
 *
 * One look serves a whole batch. It drops the entries that other processes have brought further,
 * flushes the clients' stores with a membarrier, and marks what a pin protects and what a guard
 * holds. The rest is free to go:
 *
 *      sb_grace_look() -> sb_grace_next(), for each block that is free to go -> sb_unpin()
 *              -> sb_grace_end()
 *
 * What becomes of such a block, the caller decides: upkeep/reclaim.c.
 *
 * Always true: all pins are read before the first guard word, and both after the membarrier, so
 * that a reader that goes over from its pin to a guard is seen in one of the two.
 */
#ifndef SB_MEMORY_GRACE_H
#define SB_MEMORY_GRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout/handle.h"

struct sb_grace {
        uint64_t blocked[(SB_LIMBO_MAX + 63) / 64]; /* entries that a pin or a guard holds */
        uint32_t count, next; /* entries at the look; where sb_grace_next() goes on */
        /* Once there is a guard, the entries by offset: first[hash] and then[entry] are numbers of
         * entries + 1; 0: none. */
        bool indexed;
        uint16_t first[SB_LIMBO_MAX], then[SB_LIMBO_MAX];
};

/* Look at all clients once. Begins a pin, under which the caller goes on. Cost: a membarrier, and
 * loads of every client's pin and guards. */
void sb_grace_look(struct sb_handle *handle, struct sb_grace *ret);
/* Take the next entry out of limbo that was free to go at that look. False: none is left. */
bool sb_grace_next(struct sb_handle *handle, struct sb_grace *grace, struct sb_limbo_entry *ret);
/* Under that pin, before the retire word of an entry's block is won: whether the block is taken, so
 * that a date there is one. */
bool sb_grace_may_go(const struct sb_handle *handle, const struct sb_limbo_entry *entry);
/* To be called after the pin: close the gaps in limbo, and set when the next look is due. */
void sb_grace_end(struct sb_handle *handle);

#endif
