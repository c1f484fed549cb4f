/*
 * Grace periods that are over: which of the blocks in a handle's limbo no process can be reading
 * any more, by the pins and guard words of all clients (models: retire, hold).
 *
 *      sb_grace_look() -> sb_grace_next(), for each block that is free to go -> sb_unpin()
 *              -> sb_grace_end()
 *
 * The caller decides what becomes of such a block: upkeep/reclaim.c.
 */
#ifndef SB_MEMORY_GRACE_H
#define SB_MEMORY_GRACE_H

#include "shm/base/fault.h"
#include "shm/layout/handle.h"

struct sb_grace {
        uint64_t blocked[(SB_LIMBO_MAX + 63) / 64]; /* entries that a pin or a guard holds */
        uint64_t filter[16];                        /* which offsets are in limbo, roughly */
        uint32_t count, next;
};

/* Look at all clients once. Begins a pin, under which the caller goes on. Cost: a membarrier. */
void sb_grace_look(struct sb_peer *peer, struct sb_grace *ret);
/* Take the next entry out of limbo that was clear at that look. False: there is none any more. */
static inline bool sb_grace_next(
        struct sb_peer *peer, struct sb_grace *grace, struct sb_limbo_entry *ret)
{
        for (; grace->next < grace->count; grace->next++) {
                uint32_t i = grace->next;

                if ((grace->blocked[i / 64] >> (i % 64) & 1) &&
                        !(peer->limbo.entries[i].held && SB_FAULT(STOCK_NO_GRACE)))
                        continue;
                *ret = peer->limbo.entries[i];
                peer->limbo.entries[i].offset = 0;
                grace->next++;
                return true;
        }
        return false;
}

/* Behind the pin: close the gaps in limbo, and say when the next look is due. */
void sb_grace_end(struct sb_peer *peer);

#endif
