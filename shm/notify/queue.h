/*
 * The queue of a watch of a prefix that drops: what it wants, which is not more than it has room
 * for (models: none; tests/model/lists-prefix.c).
 *
 * It is a further block of the prefix's ring, with one watcher, with a row of hints (hint.h) and
 * with words that say what the watch wants:
 *
 *      seen        a cut: what has a stamp up to it was looked at by the watch
 *      lost        a stamp: memory was short, and of what has one up to it some is gone
 *      moved       a stamp: of what has one up to it some lies elsewhere by now
 *      first, last numbers of runs: these count, and those in between
 *      runs        run n in slot n modulo their count: low, high: cuts
 *
 * A run is a span between two cuts in which there was room. Writers leave what was current in it,
 * and what was replaced in it: so the first changes stay, whichever keys they are of and however
 * many come later. All but the last run are closed. The last one is open as long as there is room:
 * its high says up to which hint of the row. The process that puts in that one takes a cut, and
 * closes the run with it. So a watch that is stopped keeps as many changes as it had room for, and
 * those that were on their way when the room was used up: a change or a transaction of each
 * process.
 *
 * The watch opens the next run when it has read something, and takes its cut behind that: a writer
 * with a later stamp finds it. What comes between two runs is dropped.
 *
 * Hints go into the row while a run is open; behind that those alone that belong to it still. So
 * the watch finds the keys that it wants, however many hints the ring's other rows have had since.
 *
 * Always true: all words but `lost`, `moved` and an open high are the watch's. They count while the
 * block's state says its entry, as with revisions that are wanted (ring.h). `low` of the last run
 * lies below every stamp that a hint in the row behind its beginning stands for and that is not
 * seen yet.
 */
#ifndef SB_NOTIFY_QUEUE_H
#define SB_NOTIFY_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/notify/ring.h"

/* A high that is no cut: the run is open, {1, counter : 19, hint up to which : 44}. The hint's
 * number wraps. Each time that the watch says how much room there is, it counts: so a process that
 * took its cut before that does not close the run with it. */
#define SB_QUEUE_OPEN (UINT64_C(1) << 63)
#define SB_QUEUE_HINT ((UINT64_C(1) << 44) - 1)

#ifndef SB_QUEUE_SPARE
#define SB_QUEUE_SPARE 32u
#endif

/* Words of what a queue with room for @depth changes wants, and slots of its row: twice as many,
 * and some for what is on its way. */
static inline uint32_t sb_queue_words(uint32_t depth)
{
        return 5 + 2 * (depth + 2);
}
static inline uint32_t sb_queue_slots(uint32_t depth)
{
        return 2 * (depth + SB_QUEUE_SPARE);
}

/* ---- for the processes that write and prune, of the block of a watch; under a pin ---- */

/* Put in a hint at the cell where something came with this stamp, if the queue takes it. @stamp 0:
 * not known: it does. */
void sb_queue_tell(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t cell_number,
        uint64_t stamp);
/* Whether the watch wants what was current from @stamp until @newer. Runs ascend: it is found by
 * halving. The watch is through with a run before another one takes its slot, so that all stand as
 * long as `first` does. Cost: some loads, however many runs there are. */
bool sb_queue_wants(const struct sb_ring_view *view, uint64_t stamp, uint64_t newer);
/* Say that what has this stamp is about to go, or to be moved. */
void sb_queue_say_lost(const struct sb_ring_view *view, uint64_t stamp);
void sb_queue_say_moved(const struct sb_ring_view *view, uint64_t stamp);

/* ---- for the client that watches ---- */

/* Before the block counts: its first run begins above @low, and has this much room from hint @hint
 * on. */
void sb_queue_begin(const struct sb_ring_view *view, uint64_t low, uint64_t hint, uint32_t room);
/* Open run @run, the next one or the last one anew, above what the clock says: the caller takes its
 * cut then. */
void sb_queue_open_run(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t run,
        uint64_t hint, uint32_t room);
/* The number of the last run. */
uint64_t sb_queue_last(const struct sb_ring_view *view);
/* What its high says: SB_QUEUE_OPEN and more, or a cut. */
uint64_t sb_queue_high(const struct sb_ring_view *view);
/* The last run has room up to hint @end. Return: false: it is closed. Otherwise no process closes
 * it with a cut that was taken before. */
bool sb_queue_set_room(const struct sb_ring_view *view, uint64_t end);
/* The last run ends at @high, which is no later than where it was closed. */
void sb_queue_close_run(const struct sb_ring_view *view, uint64_t high);
/* The last run wants nothing up to this cut, at which the watch stands. */
void sb_queue_say_seen(const struct sb_ring_view *view, uint64_t cut);
/* Run @run is the first that counts, and wants what is above @low. */
void sb_queue_pass(const struct sb_ring_view *view, uint64_t run, uint64_t low);
uint64_t sb_queue_lost(const struct sb_ring_view *view);
/* Whether a change with this stamp that was listed lies where it lay, as long as the pin is held.
 */
bool sb_queue_keeps(const struct sb_ring_view *view, uint64_t stamp);

#endif
