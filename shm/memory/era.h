/*
 * Eras and grace periods: when no process can be reading a block any more.
 *
 * The era is one word. A block that is linked by nothing any more is dated with the era; it is free
 * when no pin is left that was published in that era or before, by a process that can know the
 * block.
 */
#ifndef SB_MEMORY_ERA_H
#define SB_MEMORY_ERA_H

#include "shm/layout/handle.h"

void sb_era_advance(struct sb_peer *peer);
/* Advance the era, flush everybody's stores, look at the pins of the others. */
void sb_era_look(struct sb_peer *peer);
/* By that look: nobody was pinned at @era or before who can know what was born in @birth. */
bool sb_era_clear(const struct sb_peer *peer, uint32_t era, uint32_t birth);
/* By that look: an era before which no process is pinned, SB_ERA_OLD ago at least. */
uint32_t sb_era_bygone(const struct sb_peer *peer);
/* For a handle that begins. */
void sb_era_init(struct sb_peer *peer);
/* Eras compare by unsigned difference, so that they may wrap. That is right while all that are
 * compared lie within 2^31: births are raised by every sweep to SB_ERA_OLD behind the era at least,
 * and the era stands still rather than run further ahead than that allows. */
#define SB_ERA_OLD  (1u << 28) /* a sweep raises births that are older */
#define SB_ERA_ASK  (1u << 29) /* one is asked for when the floor is that far behind */
#define SB_ERA_STOP (1u << 30) /* the era does not advance when it is that far behind */
static inline bool sb_era_before(uint32_t a, uint32_t b)
{
        return (int32_t)(a - b) < 0;
}

#endif
