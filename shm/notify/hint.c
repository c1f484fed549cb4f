/* The ring of a watched prefix; see hint.h. */

#include "shm/notify/hint.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"

#define LAP_SHIFT 44u
#define LAP_BITS  20u
#define LAP_MASK  ((UINT64_C(1) << LAP_BITS) - 1)
#define CELL_MASK ((UINT64_C(1) << LAP_SHIFT) - 1)

static uint64_t hint_lap(const struct sb_ring_view *view, uint64_t number)
{
        return number / view->slot_count;
}

static struct sb_word64 *hint_slot(const struct sb_ring_view *view, uint64_t number)
{
        return &view->slots[number % view->slot_count];
}

static uint64_t hint_word(const struct sb_ring_view *view, uint64_t number, uint64_t cell_number)
{
        return hint_lap(view, number) << LAP_SHIFT | (cell_number & CELL_MASK);
}

/* By how many laps a slot's word is ahead of hint @number's, modulo all laps; below half of them:
 * it is, or is of the same one. An empty slot is behind all. */
static bool hint_is_reached(const struct sb_ring_view *view, uint64_t word, uint64_t number)
{
        uint64_t ahead = (word >> LAP_SHIFT) - hint_lap(view, number);

        return word && !(ahead >> (LAP_BITS - 1) & 1);
}

/* Whether a slot's word is of the lap before hint @number's, or none. */
static bool hint_is_before(const struct sb_ring_view *view, uint64_t word, uint64_t number)
{
        return !word || word >> LAP_SHIFT == ((hint_lap(view, number) - 1) & LAP_MASK);
}

void sb_hint_raise_gone(const struct sb_ring_view *view, uint64_t cut)
{
        uint64_t gone;

        do
                gone = sb_hint_gone(view);
        while (gone < cut && !sb_cas64_full(&view->ring->given, gone, cut) && /* R:gone > A:gone. */
                !SB_FAULT(HINT_RAISED_ONCE));
}

/* A half of the ring begins with hint @number: what the mark says is given up, and the mark moves
 * on. A process that comes late leaves both as they are: then more is kept until the next half.
 * Fault HINT_KEEPS_ALL: nothing is given up. */
static void hint_begin_half(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t number)
{
        uint64_t mark = sb_load_acquire(&view->ring->mark), clock; /* A:gone. */

        /* Behind the load of the mark: where the next half has begun, it may be that one's, up to
         * which nothing is given up before the half behind that. */
        if (SB_FAULT(HINT_KEEPS_ALL) || sb_hint_tail(view) - number > view->slot_count / 2)
                return;
        sb_hint_raise_gone(view, mark);
        clock = sb_load_acquire(&handle->segment.super->clock); /* A:clock. */
        if (sb_hint_tail(view) - number <= view->slot_count / 10 + 1)
                sb_cas64_full(&view->ring->mark, mark, clock); /* R:gone > A:gone. */
}

/* A change is not hinted: all that has a stamp by now is given up, and readers begin anew. */
static void hint_give_up(struct sb_handle *handle, const struct sb_ring_view *view)
{
        /* A:clock. */
        sb_hint_raise_gone(view, sb_load_acquire(&handle->segment.super->clock));
}

/* Fault HINT_TAIL_FIRST: the tail is moved before the slot is filled. */
static void hint_fault_tail(const struct sb_ring_view *view, uint64_t number)
{
        if (SB_FAULT(HINT_TAIL_FIRST))
                sb_cas64_full(&view->ring->tail, number, number + 1); /* R:hint, too early. */
}

uint64_t sb_hint_push(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t cell_number)
{
        uint32_t left = view->slot_count;

        for (;;) {
                uint64_t number = sb_hint_tail(view);
                struct sb_word64 *slot = hint_slot(view, number);
                uint64_t word;

                /* A watcher that spins has the slot's line: it is fetched once, for both. */
                sb_prefetch_write(slot);
                word = sb_load_acquire(slot); /* A:hint. */

                /* Lock-free: each further round means that another process's hint went in. Any lap
                 * but the one before may be there, where this process stopped behind the tail. */
                if (!hint_is_before(view, word, number)) {
                        /* R:hint > A:hint. The tail of a process that stopped behind its slot. */
                        sb_cas64_full(&view->ring->tail, number, number + 1);
                        /* Bound: result. A whole lap came in between, or slots say so in a damaged
                         * segment: SB_E_LAPPED for each reader. */
                        if (--left > 0)
                                continue;
                        hint_give_up(handle, view);
                        return 0;
                }
                hint_fault_tail(view, number);
                /* R:hint > A:hint. It expects an older lap's. */
                if (!sb_cas64_full(slot, word, hint_word(view, number, cell_number)))
                        continue;
                /* R:hint > A:hint. Behind the slot. Failed: another process moved it. */
                sb_cas64_full(&view->ring->tail, number, number + 1);
                /* What a queue keeps it says by itself. */
                if (number % (view->slot_count / 2) == 0 && view->want_count == 0)
                        hint_begin_half(handle, view, number);
                return word & CELL_MASK;
        }
}

bool sb_hint_is_there(const struct sb_ring_view *view, uint64_t number)
{
        uint64_t word;

        if (view->slot_count < 2)
                return false;
        word = sb_load_acquire(hint_slot(view, number)); /* A:hint. */
        return word && word >> LAP_SHIFT != ((hint_lap(view, number) - 1) & LAP_MASK);
}

uint64_t sb_hint_read(const struct sb_ring_view *view, uint64_t number)
{
        uint64_t word = sb_load_acquire(hint_slot(view, number)); /* A:hint. */
        bool same = word >> LAP_SHIFT == (hint_lap(view, number) & LAP_MASK);

        return same || SB_FAULT(HINT_LAP_UNASKED) ? word & CELL_MASK : 0;
}

/* ---- rows ---- */

bool sb_hint_further(struct sb_handle *handle, struct sb_ring_view *view, uint64_t *left)
{
        while (sb_ring_further(handle, view, left))
                if (view->slot_count > 1 && sb_once(view->ring->hints))
                        return true;
        return false;
}

bool sb_hint_row(struct sb_handle *handle, const struct sb_ring_view *ring, uint32_t slot_count,
        struct sb_ring_view *ret)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_ring_view each = *ring;

        do {
                if (each.want_count == 0 && each.slot_count >= slot_count) {
                        *ret = each;
                        return true;
                }
        } while (sb_hint_further(handle, &each, &left));
        return false;
}

/* ---- the validator ---- */

static const char *hint_slots_fault(struct sb_handle *handle, const struct sb_ring_view *view)
{
        uint64_t tail = sb_hint_tail(view), word;
        uint32_t i;

        for (i = 0; i < view->slot_count; i++) {
                word = sb_load_acquire(&view->slots[i]) & CELL_MASK; /* A:hint. */
                if (word && !sb_cell_at(&handle->segment, word))
                        return "a hint of its ring names no cell";
        }
        /* A process fills a slot only behind a tail that has come to it. */
        word = sb_load_acquire(hint_slot(view, tail + 1)); /* A:hint. */
        if (hint_is_reached(view, word, tail + 1) && sb_hint_tail(view) == tail)
                return "the tail of its ring is behind its hints";
        word = sb_load_acquire(hint_slot(view, tail - 1)); /* A:hint. */
        if (tail && !hint_is_reached(view, word, tail - 1) && sb_hint_tail(view) == tail)
                return "the tail of its ring is before its hints";
        return NULL;
}

/* What is wrong with a row: of a queue, too, which says by itself what is kept. */
static const char *hint_row_fault(struct sb_handle *handle, const struct sb_ring_view *view)
{
        uint64_t gone = sb_hint_gone(view), mark;

        mark = sb_load_acquire(&view->ring->mark); /* A:gone. */
        /* A:clock. Behind them: they are what it said. */
        if ((gone > mark ? gone : mark) > sb_load_acquire(&handle->segment.super->clock))
                return "its ring gives up what is to come";
        return hint_slots_fault(handle, view);
}

const char *sb_hint_fault(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        uint64_t at = sb_pin_load(handle, &node->ring);
        const char *fault;
        struct sb_ring_view view;
        bool hints;

        if (!at || !sb_ring_view(handle, at, &view))
                return NULL;
        hints = key.bytes && key.len >= SB_WATCH_PREFIX &&
                !memcmp(key.bytes, SB_RESERVED_WATCH, SB_WATCH_PREFIX);
        if (hints != (sb_once(view.ring->hints) != 0))
                return hints ? "its ring has no hints" : "its ring has hints, and it is no prefix";
        if (!hints)
                return NULL;
        if (view.slot_count < 2)
                return "its ring is none";
        do
                fault = hint_row_fault(handle, &view);
        while (!fault && sb_hint_further(handle, &view, &left));
        return sb_pin_load(handle, &node->ring) == at ? fault : NULL;
}
