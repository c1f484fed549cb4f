/*
 * Windows: where a large value will lie that finds no units in a row, or a slab that finds no unit.
 *
 * A unit that holds a single small block may keep a run apart for long: while the rest of the unit
 * is free, the next small values go there. So may a value of a few units. And where each unit is a
 * slab of some size with blocks that are free, a value of another size finds none. A writer
 * that waits for memory takes the units in a row in which the fewest bytes live, its window, and
 * becomes the owner of each. Other clients take no blocks there any more; what lives there moves
 * elsewhere (upkeep/move.h), or is replaced, deleted or let go by history. When the window is empty
 * it is the run, or one of one unit becomes the slab.
 *
 * Always true:
 *
 * - A window lasts for one call that waits, and no longer. A client has one at most, as long as the
 *   value that it writes.
 *
 * - Each unit of it is a slab, or in a large block all of which is in the window, that this client
 *   owns as it could own it otherwise: other processes, and the reaper of a dead owner, need not
 *   know windows.
 *
 * - The units serve as a run only after a grace period that began when the last of them was empty.
 *
 * - A run that was given back while the client waits stays the client's until the wait is over: of
 *   the large values of a commit each needs a window, one after the other.
 */
#ifndef SB_MEMORY_WINDOW_H
#define SB_MEMORY_WINDOW_H

#include "shm/layout/handle.h"

/* A large block of more bytes stays where it is: to copy it is no work for between two looks. */
#define SB_WINDOW_BLOCK_MAX (256u << 10)

/* From now on this client waits for memory: what finds no run may have a window. */
void sb_window_begin(struct sb_handle *handle);
/* The wait is over: the window is given up. */
void sb_window_end(struct sb_handle *handle);

/* No @count units in a row below @limit are FREE: this client wants a window of so many. Return:
 * the first of @count units that are one large block of this client's, made of the window that it
 * has; SB_VACANCY_NONE: it has none, or there is something in it still. Cost: sometimes a look at
 * all pins. */
uint32_t sb_window_take(struct sb_handle *handle, uint32_t count, uint32_t limit);

/* A large block was given back, which no other process has seen. */
void sb_window_keep(struct sb_handle *handle);
/* Whether the unit begins such a block, and so stays this client's. */
bool sb_window_keeps(const struct sb_handle *handle, uint32_t unit);
/* The first of @count units that are such a block; SB_VACANCY_NONE: there is none. Cost: where some
 * were given back, a look at all units' words. */
uint32_t sb_window_take_kept(struct sb_handle *handle, uint32_t count);

/* Become the owner of @count units in a row below @limit, as one large block: of a run that was
 * given back, of FREE units, of those that can be made FREE, or of this client's window; for what
 * moves out of that, not of the first and the last. Return: the first, or SB_VACANCY_NONE. */
uint32_t sb_window_row(struct sb_handle *handle, uint32_t count, uint32_t limit);

/* For a client that waits: become the owner of a unit that can be made a slab, as above; but where
 * no slab has a free block to move something to, nothing is wanted. Return: the unit, or
 * SB_VACANCY_NONE. */
uint32_t sb_window_emptied(struct sb_handle *handle);

/* Until sb_window_moved(): blocks are taken for what moves out of the window. */
void sb_window_move(struct sb_handle *handle);
void sb_window_moved(struct sb_handle *handle);

/* If this client wants a window, look for one, some units further with each call. Return: whether
 * there is one. Cost: up to 4,096 words of units and bitmaps. */
bool sb_window_find(struct sb_handle *handle);
/* Whether the next call of it begins a search. */
static inline bool sb_window_begins(const struct sb_handle *handle)
{
        return handle->window.wanted && !handle->window.count &&
               handle->window.cursor == handle->window.limit;
}
/* Whether the next call of it goes on from where the last one came to. */
static inline bool sb_window_searches(const struct sb_handle *handle)
{
        return handle->window.wanted && handle->window.cursor != handle->window.limit;
}
/* Its units. */
static inline uint32_t sb_window_first(const struct sb_handle *handle)
{
        return handle->window.first;
}
static inline uint32_t sb_window_count(const struct sb_handle *handle)
{
        return handle->window.count;
}
static inline bool sb_window_has(const struct sb_handle *handle, uint32_t unit)
{
        return unit - handle->window.first < handle->window.count;
}
/* So many looks have found all moved, and something there still. */
static inline uint32_t sb_window_waited(const struct sb_handle *handle)
{
        return handle->window.waited;
}
/* Give up the window, because something in @unit does not move: no other window has this unit in
 * it, until there is none without such units; then they are looked at again. */
void sb_window_refuse(struct sb_handle *handle, uint32_t unit);
/* The window was given up because nothing there has room elsewhere. Return: whether to look for
 * another one at once; a few times in a row: then it is time to rest. */
bool sb_window_found_no_room(struct sb_handle *handle);
/* All that lives in the window has moved, and waits for its grace period. Return: false: wait, too;
 * true: it has waited for so long that the window was given up, as by sb_window_refuse(): a client
 * holds something there, or is pinned and can know units there. */
bool sb_window_wait(struct sb_handle *handle);

#endif
