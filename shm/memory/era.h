/*
 * Eras: the clock by which blocks and units grow old enough to be used again.
 *
 * The era is one word of the superblock, shared by all. A block or unit notes the era of its birth,
 * and a block that is linked by nothing any more is dated with the era of that moment. It is free
 * once no process has a pin that was begun in that era or before and reaches its birth (pin.h).
 * This file advances the era, and answers that question from one look at all pins; units need no
 * more. Blocks may be held by guards too: grace.h asks for both.
 *
 * Eras compare by unsigned difference, so that they may wrap. Always true: all eras that are
 * compared lie within 2^31 of each other. Every sweep raises births to SB_ERA_OLD behind the era at
 * least, and the era stands still rather than run further ahead than that allows.
 */
#ifndef SB_MEMORY_ERA_H
#define SB_MEMORY_ERA_H

#include "shm/layout/handle.h"

#define SB_ERA_OLD  (1u << 28) /* a sweep raises births that are older than this */
#define SB_ERA_ASK  (1u << 29) /* a sweep is asked for when the floor is that far behind */
#define SB_ERA_STOP (1u << 30) /* the era does not advance when the floor is that far behind */

/* Whether @a is an earlier era than @b. */
static inline bool sb_era_before(uint32_t a, uint32_t b)
{
        return (int32_t)(a - b) < 0;
}

/* Advance the era by one, or see that another process has. The era stands still where a sweep is
 * SB_ERA_STOP behind. Cost: a CAS on a word that all readers load. */
void sb_era_advance(struct sb_handle *handle);
/* Advance the era, flush all clients' stores, and look at the pins of all other clients. What was
 * seen stays in the handle, for the calls below. Cost: a membarrier, a load for each record, and a
 * few steps for each client that is pinned since before. */
void sb_era_look(struct sb_handle *handle);
/* The last part of a look: read the pins, of which none counts that was begun after @era. The
 * caller has loaded the era @era, and then flushed all clients' stores. */
void sb_era_read_pins(struct sb_handle *handle, uint32_t era);
/* The era of the last look. */
static inline uint32_t sb_era_looked(const struct sb_handle *handle)
{
        return handle->era.looked;
}
/* By the last look: whether another client may be reading what was born in @birth and was unlinked
 * in @era. For what is known to have been unlinked before that look. However many are pinned, it
 * takes a few steps. */
bool sb_era_protected(const struct sb_handle *handle, uint32_t era, uint32_t birth);
/* By the last look: true when no other client is pinned that may be reading what was born in @birth
 * and was out of use in @era, and that era was over at the look. */
bool sb_era_clear(const struct sb_handle *handle, uint32_t era, uint32_t birth);
/* A sum of the pins of other clients that were begun before @era, as they are now. It changes when
 * one of them ends or grows. 0: there is none. */
uint64_t sb_era_sum_pins(const struct sb_handle *handle, uint32_t era);
/* By the last look: an era, SB_ERA_OLD ago or more, before which no other client is pinned. */
uint32_t sb_era_bygone(const struct sb_handle *handle);
/* For a handle that begins. @space: of sb_era_space() bytes. */
uint64_t sb_era_space(const struct sb_geometry *geometry);
void sb_era_init(struct sb_handle *handle, void *space);

#endif
