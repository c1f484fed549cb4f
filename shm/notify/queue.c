/* The queue of a watch of a prefix that drops; see queue.h. */

#include "shm/notify/queue.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/hint.h"
#include "shm/notify/ring.h"

enum { SEEN, LOST, MOVED, FIRST, LAST, RUNS };

static uint32_t queue_run_count(const struct sb_ring_view *view)
{
        return (view->want_count - RUNS) / 2;
}

static struct sb_word64 *queue_low(const struct sb_ring_view *view, uint64_t run)
{
        return &view->wants[RUNS + 2 * (run % queue_run_count(view))];
}
static struct sb_word64 *queue_high(const struct sb_ring_view *view, uint64_t run)
{
        return queue_low(view, run) + 1;
}

/* Whether the words are those of a watch of a prefix that stands. */
static bool queue_counts(const struct sb_ring_view *view)
{
        return view->want_count > RUNS + 1 && sb_ring_counts(view);
}

/* ---- writers and pruners ---- */

/* The room is used up: the run ends with what has a stamp by now. Fault QUEUE_STAYS_OPEN: it does
 * not. */
static void queue_close(struct sb_handle *handle, struct sb_word64 *word, uint64_t high)
{
        struct sb_word64 *clock = &handle->segment.super->clock;
        /* A:clock. As in mvcc/clock.c, which lies above: a cut. */
        uint64_t cut = sb_load_acquire(clock);

        if (SB_FAULT(QUEUE_STAYS_OPEN))
                return;
        sb_cas64_full(clock, cut, cut + 1); /* R:clock > A:clock. */
        /* R:want > A:want. Failed: there is more room, or another process closed it. */
        sb_cas64_full(word, high, cut);
}

/* Whether the row has come to the hint that an open high names, or goes past it: by less than half
 * of all hints that a high can name, which come again after 2^44. */
static bool queue_is_used_up(const struct sb_ring_view *view, uint64_t high)
{
        return ((sb_hint_tail(view) - high) & SB_QUEUE_HINT) <= SB_QUEUE_HINT / 2;
}

void sb_queue_tell(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t cell_number,
        uint64_t stamp)
{
        struct sb_word64 *word;
        uint64_t high;

        if (!queue_counts(view))
                return;
        /* A:want, all. Behind the stamp: the run that was open when a later cut was taken, or one
         * behind it. */
        word = queue_high(view, sb_load_acquire(&view->wants[LAST]));
        high = sb_load_acquire(word);
        if (stamp && ((!(high & SB_QUEUE_OPEN) && stamp > high) ||
                             stamp <= sb_load_acquire(&view->wants[SEEN]))) /* A:want. */
                return;
        /* Fault QUEUE_UNTOLD: left out. */
        if (!SB_FAULT(QUEUE_UNTOLD))
                (void)sb_hint_push(handle, view, cell_number);
        if ((high & SB_QUEUE_OPEN) && queue_is_used_up(view, high))
                queue_close(handle, word, high);
}

bool sb_queue_wants(const struct sb_ring_view *view, uint64_t stamp, uint64_t newer)
{
        uint64_t first, run, end, middle;
        bool wants;

        if (!queue_counts(view) || SB_FAULT(QUEUE_UNASKED))
                return false;
        /* Lock-free: another round means that the watch is through with a run. */
        do {
                first = run = sb_load_acquire(&view->wants[FIRST]); /* A:want. */
                end = sb_load_acquire(&view->wants[LAST]);          /* A:want. */
                /* Runs that are no queue's, of a damaged block, want nothing. */
                if (end - first >= queue_run_count(view))
                        end = first;
                /* The first that ends at @stamp or later; the last one does, or none. */
                while (run < end) {
                        middle = run + (end - run) / 2;
                        if (sb_load_acquire(queue_high(view, middle)) < stamp) /* A:want. */
                                run = middle + 1;
                        else
                                end = middle;
                }
                wants = newer > sb_load_acquire(queue_low(view, run)) && /* A:want, all. */
                        stamp <= sb_load_acquire(queue_high(view, run)); /* A:want. */
                /* A:want. */
        } while (!SB_FAULT(QUEUE_ASKED_ONCE) && sb_load_acquire(&view->wants[FIRST]) != first);
        return wants;
}

static void queue_raise(struct sb_word64 *word, uint64_t stamp)
{
        uint64_t old;

        do
                old = sb_load_acquire(word);                      /* A:gone. */
        while (old < stamp && !sb_cas64_full(word, old, stamp) && /* R:gone > A:gone. */
                !SB_FAULT(QUEUE_RAISED_ONCE));
}

void sb_queue_say_lost(const struct sb_ring_view *view, uint64_t stamp)
{
        /* Fault QUEUE_LOST_UNSAID: left out. */
        if (queue_counts(view) && !SB_FAULT(QUEUE_LOST_UNSAID))
                queue_raise(&view->wants[LOST], stamp);
}

void sb_queue_say_moved(const struct sb_ring_view *view, uint64_t stamp)
{
        if (queue_counts(view))
                queue_raise(&view->wants[MOVED], stamp);
}

/* ---- the watch ---- */

void sb_queue_begin(const struct sb_ring_view *view, uint64_t low, uint64_t hint, uint32_t room)
{
        /* R:want, all. They count when sb_ring_want() says so. */
        sb_store_release(&view->wants[SEEN], low);
        sb_store_release(&view->wants[LOST], 0);
        sb_store_release(&view->wants[MOVED], 0);
        sb_store_release(&view->wants[FIRST], 0);
        sb_store_release(&view->wants[LAST], 0);
        sb_store_release(queue_low(view, 0), low);
        sb_store_release(queue_high(view, 0), SB_QUEUE_OPEN | ((hint + room) & SB_QUEUE_HINT));
        sb_ring_want(view);
}

void sb_queue_open_run(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t run,
        uint64_t hint, uint32_t room)
{
        /* A:clock. */
        sb_store_release(queue_low(view, run), sb_load_acquire(&handle->segment.super->clock));
        sb_store_release(queue_high(view, run), SB_QUEUE_OPEN | ((hint + room) & SB_QUEUE_HINT));
        /* R:want > A:want. A full barrier: before the load of the clock that is the watch's cut. */
        sb_exchange_full(&view->wants[LAST], run);
}

uint64_t sb_queue_last(const struct sb_ring_view *view)
{
        return sb_load_relaxed(&view->wants[LAST]); /* Relaxed: the client's own. */
}

uint64_t sb_queue_high(const struct sb_ring_view *view)
{
        return sb_load_acquire(queue_high(view, sb_queue_last(view))); /* A:want. */
}

bool sb_queue_set_room(const struct sb_ring_view *view, uint64_t end)
{
        uint64_t high = sb_queue_high(view), counter = high + SB_QUEUE_HINT + 1;

        /* R:want > A:want. */
        return (high & SB_QUEUE_OPEN) &&
               sb_cas64_full(queue_high(view, sb_queue_last(view)), high,
                       SB_QUEUE_OPEN | (counter & ~SB_QUEUE_HINT) | (end & SB_QUEUE_HINT));
}

void sb_queue_close_run(const struct sb_ring_view *view, uint64_t high)
{
        /* R:want > A:want. Over an open one, too: a process that is about to close it fails. */
        sb_exchange_full(queue_high(view, sb_queue_last(view)), high);
}

void sb_queue_say_seen(const struct sb_ring_view *view, uint64_t cut)
{
        sb_store_release(&view->wants[SEEN], cut); /* R:want > A:want. */
}

void sb_queue_pass(const struct sb_ring_view *view, uint64_t run, uint64_t low)
{
        /* R:want > A:want. Both only rise. */
        sb_store_release(queue_low(view, run), low);
        sb_store_release(&view->wants[FIRST], run);
}

uint64_t sb_queue_lost(const struct sb_ring_view *view)
{
        return sb_load_acquire(&view->wants[LOST]); /* A:gone. */
}

bool sb_queue_keeps(const struct sb_ring_view *view, uint64_t stamp)
{
        /* A:gone, both. */
        return stamp > sb_queue_lost(view) && stamp > sb_load_acquire(&view->wants[MOVED]);
}
