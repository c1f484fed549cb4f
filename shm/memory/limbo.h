/*
 * What a handle has yet to do about memory, in two lists. Limbo: blocks that wait for a grace
 * period. Pending: cells of which the chains can be shortened once the prune horizon has moved.
 *
 * A block's way, told by its retire word: live -> DYING (sb_limbo_begin), before the first link to
 * it goes -> dated with an era (sb_limbo_date), after the last one went -> free, when no process
 * can be reading it any more (grace.h finds that out, upkeep/reclaim.h frees it).
 *
 * Always true: both lists are private hints. What counts is in the blocks' retire words, where a
 * sweep finds what a list had no space for, or what was lost with its process.
 */
#ifndef SB_MEMORY_LIMBO_H
#define SB_MEMORY_LIMBO_H

#include "shm/base/assert.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/era.h"

/* Low bit of an entry's offset: the entry is a node in the first of its two grace periods. */
#define SB_LIMBO_FIRST_GRACE UINT64_C(1)

static inline uint64_t sb_limbo_offset(const struct sb_limbo_entry *entry)
{
        return entry->offset & ~SB_LIMBO_FIRST_GRACE;
}

/* Retire word 0 -> DYING: the block is on its way out. To be called before any link to it goes.
 * True: this call did it. */
bool sb_limbo_begin(struct sb_handle *handle, struct sb_block *block);
/* Date a DYING block to which no link is left, and let it wait for its grace period. Idempotent: of
 * several processes one dates it. Under a pin. */
void sb_limbo_date(struct sb_handle *handle, struct sb_block *block);
/* Let a block that is dated with @era wait, or a node in its first grace period. */
void sb_limbo_wait(struct sb_handle *handle, uint64_t offset, uint64_t era, bool first_grace);
/* Count the entry that was just written. Near the next batch the era advances, so that by then few
 * clients are pinned in the eras of what waits. */
static inline void sb_limbo_count(struct sb_handle *handle)
{
        if (SB_UNLIKELY(++handle->limbo.count == handle->limbo.ripe)) {
                sb_era_advance(handle);
                handle->limbo.ripened = true;
        }
}

/* Note a cell of which a version was superseded at @stamp: it is to be looked at again once the
 * prune horizon's bound reaches that; all of its chain, if a sweep is asked for or under way. */
void sb_limbo_later(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp);
/* The same where a sweep may miss the chain, because its newest version has moved: unless no sweep
 * is asked for or under way. */
void sb_limbo_moved(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp);
/* Which request for a sweep is not answered; 0: none. A sweep may miss a chain that is written
 * meanwhile, for its newest version may come to lie where the sweep was already. */
uint64_t sb_limbo_asked(const struct sb_handle *handle);
/* Put back what was taken and is not due, or is to be looked at once more. */
void sb_limbo_again(struct sb_handle *handle, const struct sb_pending *pending);
/* Ask for a sweep: some work stays behind that nothing else will find. */
void sb_limbo_leave(struct sb_handle *handle);

/* How often this handle asked for a sweep. */
static inline uint64_t sb_limbo_left_behind(const struct sb_handle *handle)
{
        return handle->limbo.left_behind;
}
/* How many blocks wait. */
static inline uint32_t sb_limbo_waiting(const struct sb_handle *handle)
{
        return handle->limbo.count;
}
static inline bool sb_limbo_is_empty(const struct sb_handle *handle)
{
        return !handle->limbo.count;
}
/* So many blocks wait that a look at all clients is worth its membarrier. */
static inline bool sb_limbo_due(const struct sb_handle *handle)
{
        return handle->limbo.count >= handle->limbo.wake;
}
/* More than half of the list is taken: a sweep frees blocks before it goes on. */
static inline bool sb_limbo_half_full(const struct sb_handle *handle)
{
        return handle->limbo.count > SB_LIMBO_MAX / 2;
}
/* How many cells wait. sb_limbo_take_pending() takes the oldest; there must be one. */
static inline uint32_t sb_limbo_pending(const struct sb_handle *handle)
{
        return handle->limbo.pending_tail - handle->limbo.pending_head;
}
/* A write took out what it replaced, and went by what is noted already: that counts as well, so
 * that what waits there does not wait for the writes of other keys. */
static inline void sb_limbo_pass(struct sb_handle *handle)
{
        handle->limbo.noted += handle->limbo.pending_head != handle->limbo.pending_tail;
}
/* So much was noted that a new prune horizon is worth what it costs. */
static inline bool sb_limbo_pending_due(const struct sb_handle *handle)
{
        return handle->limbo.noted >= SB_PENDING_BATCH &&
               handle->limbo.noted >= handle->limbo.batch;
}
/* All of the list is looked at now, with a horizon of @cut_count cuts. The next look is the later,
 * the more they are: so a write's share in reading and sorting them stays small. */
static inline void sb_limbo_look(struct sb_handle *handle, uint32_t cut_count)
{
        uint32_t batch = SB_PENDING_BATCH + cut_count / 32;

        handle->limbo.noted = 0;
        handle->limbo.batch = batch < SB_PENDING_MAX / 2 ? batch : SB_PENDING_MAX / 2;
}
/* The @number-th of them, from the oldest one, which is 0. */
static inline const struct sb_pending *sb_limbo_see_pending(
        const struct sb_handle *handle, uint32_t number)
{
        return &handle->limbo.pending[(handle->limbo.pending_head + number) % SB_PENDING_MAX];
}
static inline struct sb_pending sb_limbo_take_pending(struct sb_handle *handle)
{
        return handle->limbo.pending[handle->limbo.pending_head++ % SB_PENDING_MAX];
}

#endif
