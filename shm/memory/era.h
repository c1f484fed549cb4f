/*
 * Eras: the clock by which blocks and units grow old enough to be used again.
 *
 * The era is one word of the superblock, shared by all. A block or unit notes the era of its birth,
 * and a block that is linked by nothing any more is dated with the era of that moment. It is free
 * once no process has a pin that was begun in that era or before and reaches its birth (pin.h).
 * This file advances the era, and answers that question from one look at all pins; units need no
 * more. Blocks may be held by guards too: grace.h asks for both.
 *
 * The era has 46 bits, and so has a pin: they last for centuries. A block has space for less. Its
 * birth and its date are the low bits of an era, and mean the first era from birth_floor on that
 * has those bits. Every whole sweep raises that floor: a birth below it becomes a *label*, which
 * names a word `base` in some client's record, with an era that is no later than the birth. There
 * is such a base for each client that is pinned since before the floor, right behind its pin. So a
 * label tells of every such client whether it can know the block, exactly, however long it has
 * been stopped.
 *
 * Always true:
 *
 * - What a birth is read as is never later than the era in which the block was published; what a
 *   date is read as is never earlier than the era in which the last link went. A floor that was
 *   read too early (for a birth) or a date that was written too late (by a slow process) only holds
 *   the block for longer.
 *
 * - A base stays the same as long as its tag does. A label of which the tag is over means: born at
 *   the beginning.
 *
 * - No birth that is not a label lies before birth_floor: the era stands still rather than run
 *   SB_ERA_STOP ahead of it. That waits for sweeps, never for a client that is stopped.
 */
#ifndef SB_MEMORY_ERA_H
#define SB_MEMORY_ERA_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The model checker's are small. */
#ifndef SB_ERA_OLD
#define SB_ERA_OLD  (1u << 28) /* a sweep labels births that are older than this */
#define SB_ERA_ASK  (1u << 29) /* a sweep is asked for when the floor is that far behind */
#define SB_ERA_STOP (1u << 30) /* the era does not advance when the floor is that far behind */
#endif
static_assert(SB_ERA_STOP <= SB_ERA_LOW / 2 + 1u, "era");

/* ---- in blocks ---- */

/* The low bits of an era, as births and dates have them. */
static inline uint32_t sb_era_low(uint64_t era)
{
        return (uint32_t)era & SB_ERA_LOW;
}
/* @era, or the next one of which the low bits can be a date. */
static inline uint64_t sb_era_whole(uint64_t era)
{
        return sb_era_low(era) < SB_ERA_MIN ? era | SB_ERA_MIN : era;
}
/* The first era from @floor on of which these are the low bits. */
static inline uint64_t sb_era_from(uint64_t floor, uint32_t low)
{
        return floor + ((low - floor) & SB_ERA_LOW);
}
/* The era that a label names, or 0. */
uint64_t sb_era_of_label(const struct sb_segment *segment, uint32_t birth);
/* The era of a birth. It was loaded behind the handle's last look. */
static inline uint64_t sb_era_of_birth(const struct sb_handle *handle, uint32_t birth)
{
        if (SB_UNLIKELY(birth & SB_BIRTH_LABEL))
                return sb_era_of_label(&handle->segment, birth);
        return sb_era_from(handle->era.floor, birth);
}
/* The era of a date, which was just loaded. */
uint64_t sb_era_of_date(const struct sb_segment *segment, uint32_t date);

/* ---- the era ---- */

/* Advance the era by one, or see that another process has. The era stands still where a sweep is
 * SB_ERA_STOP behind. Cost: a CAS on a word that all readers load. */
void sb_era_advance(struct sb_handle *handle);
/* Whether the era stands still: until some process has ended a whole sweep, what was retired in it
 * waits for each client that is pinned, and an empty unit for ever. */
bool sb_era_stands(const struct sb_segment *segment);

/* ---- looks ---- */

/* Advance the era, flush all clients' stores, and look at the pins of all other clients. What was
 * seen stays in the handle, for the calls below. Cost: a membarrier, a load for each client, and a
 * few steps for each that is pinned since before. */
void sb_era_look(struct sb_handle *handle);
/* The last part of a look: read the pins, of which none counts that was begun after @era. The
 * caller has loaded the era @era, and then flushed all clients' stores. */
void sb_era_read_pins(struct sb_handle *handle, uint64_t era);
/* The era of the last look. */
static inline uint64_t sb_era_looked(const struct sb_handle *handle)
{
        return handle->era.looked;
}
/* By the last look: whether another client may be reading what was born in @birth and was unlinked
 * in @era. For what is known to have been unlinked before that look. However many are pinned, it
 * takes a few steps. */
bool sb_era_protected(const struct sb_handle *handle, uint64_t era, uint64_t birth);
/* The era in which the first of those pins was begun: none protects what was dated before it.
 * UINT64_MAX: there is none. */
static inline uint64_t sb_era_oldest(const struct sb_handle *handle)
{
        return handle->era.pin_count ? handle->era.pins[0].lo : UINT64_MAX;
}
/* By the last look: true when no other client is pinned that may be reading what was born in @birth
 * and was out of use in @era, and that era was over at the look. */
bool sb_era_clear(const struct sb_handle *handle, uint64_t era, uint64_t birth);
/* Whether the last look was so short a time ago that no date which it judged has come again. */
bool sb_era_looked_lately(const struct sb_handle *handle);
/* A sum of the pins of other clients that were begun before @era, as they are now. It changes when
 * one of them ends or grows. 0: there is none. */
uint64_t sb_era_sum_pins(const struct sb_handle *handle, uint64_t era);

/* ---- labels ---- */

/* For a whole sweep that begins, behind a look. Finds a base for every client that is pinned since
 * before @floor, and notes the bases that none needs any more. Return: the floor up to which births
 * can be labelled, @floor or, where a record has no space for another base yet, less; never less
 * than @before. */
uint64_t sb_era_find_bases(struct sb_handle *handle, uint64_t before, uint64_t floor);
/* The label of a birth in @era: the youngest base that is no later. */
uint32_t sb_era_label(const struct sb_handle *handle, uint64_t era);
/* Whether some bases are noted to go, so that blocks with their labels need others. */
static inline bool sb_era_drops_bases(const struct sb_handle *handle)
{
        return handle->era.drop_count;
}
/* At the end of that sweep, which has looked at all blocks: the bases that were noted go. */
void sb_era_drop_bases(struct sb_handle *handle);

/* For a handle that begins. @space: of sb_era_space() bytes. */
uint64_t sb_era_space(const struct sb_geometry *geometry);
void sb_era_init(struct sb_handle *handle, void *space);

#endif
