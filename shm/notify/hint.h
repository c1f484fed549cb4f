/*
 * The ring of a watched prefix: hints, each of which names a cell where something changed
 * (models: hints, pwatch).
 *
 *      tail        how many hints there were; hint n is in slot n modulo their count
 *      slots       {lap's low bits, number of a cell}
 *      given       a cut: what was superseded above it stays in its chain
 *      mark        what the clock said half a ring ago, or a quarter more: what `given` rises to
 * next
 *
 * A hint says where to look, never what is there: a change is read off the chain of its key. So a
 * hint that comes late, twice, or of a key that went does no harm.
 *
 * How it works: a process loads the tail, puts its hint into that slot by a CAS from what an older
 * lap left there, and moves the tail; any process that finds the slot filled moves it, too. Nothing
 * is reserved, so a process that is stopped in here holds no other up.
 *
 * What is kept. A process that takes versions out asks behind the stamp of the successor whether
 * that lies above `given` (prefix.h). With each half of the ring that is filled, `given` rises to
 * what the clock said when the half before was begun: by then each hint of a change at or below it
 * is about to be overwritten. So a ring holds what so many changes replaced, and no reader holds
 * more, however slow it is. A reader that looks at `given` behind its reading, and finds it at or
 * below the cut that it has read to, has missed nothing.
 *
 * Always true: `given`, tail and mark only rise. A slot's lap only rises.
 */
#ifndef SB_NOTIFY_HINT_H
#define SB_NOTIFY_HINT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/notify/ring.h"

/* Slots of a ring that keeps so many changes at least. */
static inline uint32_t sb_hint_slots(uint32_t depth)
{
        return 2 * (depth + depth / 4 + 1);
}

/* A ring may have several rows of slots: where a watch wants more changes than there is room for, a
 * block with as many is hung in behind `more`, and each change leaves a hint in each row. A watch
 * reads one of them, which says by its own `given` what it keeps. */

/* Under a pin: go on to the next row, behind this block. @left: as for sb_ring_further(). Return:
 * false: there is none. */
bool sb_hint_further(struct sb_handle *handle, struct sb_ring_view *view, uint64_t *left);
/* Under a pin: the first row from @ring on that has so many slots. Return: false: none has. */
bool sb_hint_row(struct sb_handle *handle, const struct sb_ring_view *ring, uint32_t slot_count,
        struct sb_ring_view *ret);

/* Under a pin: put a hint in. Return: the number of the cell that the overwritten hint named, of
 * which nothing is kept for this ring any more; 0: none. */
uint64_t sb_hint_push(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t cell_number);

/* For the client that watches, which the ring's entry keeps the ring for. */
static inline uint64_t sb_hint_tail(const struct sb_ring_view *view)
{
        return sb_load_acquire(&view->ring->tail); /* A:hint. */
}
/* Whether hint @number, or a later one in its slot, is in: until then that has the one of the lap
 * before, or none. So a reader learns it however late it looks, but one lap before a multiple of
 * 2^20: then its bell says so. Of a row without slots, none is in. A reader goes by the slots,
 * never by the tail: each process that tells has to have that line for itself. */
bool sb_hint_is_there(const struct sb_ring_view *view, uint64_t number);
/* Read hint @number, which is there. Return: the number of its cell; 0: it was overwritten. */
uint64_t sb_hint_read(const struct sb_ring_view *view, uint64_t number);

/* What was superseded above this cut is in its chain. */
static inline uint64_t sb_hint_gone(const struct sb_ring_view *view)
{
        return sb_load_acquire(&view->ring->given); /* A:gone. */
}
/* Give up what is kept up to @cut. */
void sb_hint_raise_gone(const struct sb_ring_view *view, uint64_t cut);

/* For the validator, under a pin, behind sb_ring_fault(): what is wrong with the ring of a node as
 * one of hints, or that it is one; NULL: nothing. */
const char *sb_hint_fault(struct sb_handle *handle, struct sb_node *node);

#endif
