/* What a watch of a prefix that drops has waiting; see backlog.h. */

#include "libclient/core/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/reading.h"
#include "ring/op/prefix.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/hint.h"
#include "shm/notify/queue.h"
#include "shm/upkeep/work.h"

/* A change that waits. */
struct waiting {
        struct sb_op_listed listed;
        uint64_t run;
        uint64_t dropped; /* how many were, before it */
};

struct sb_backlog {
        uint32_t room;
        bool ended; /* the last run has ended, and the next one waits for room */
        bool owed;  /* something was dropped, and some of it may not be counted yet */
        struct waiting *waiting;
        size_t next, count, capacity;
        uint64_t base;     /* hints of the ring that stand for nothing that waited or was dropped */
        uint64_t accepted; /* changes that waited */
        uint64_t dropped;  /* for want of room; */
        uint64_t lost;     /* of those that waited, for want of memory */
        uint64_t said;     /* of both, as far as guards have said it */
        uint64_t given_up; /* what the queue's row said of hints that could not be put in */
        uint64_t heard;    /* up to which stamp it is known that some went for want of memory */
};

struct sb_backlog *sb_backlog_new(uint32_t room)
{
        struct sb_backlog *backlog = calloc(1, sizeof(*backlog));

        if (backlog)
                backlog->room = room;
        return backlog;
}

void sb_backlog_free(struct sb_backlog *backlog)
{
        if (backlog)
                free(backlog->waiting);
        free(backlog);
}

/* Hints that the ring had. */
static uint64_t backlog_told(const struct sb_prefix_watch *watch)
{
        return sb_hint_tail(&watch->op.watch.row);
}

void sb_backlog_begin(struct sb_prefix_watch *watch)
{
        watch->backlog->base = watch->op.before;
        watch->backlog->given_up = sb_hint_gone(&watch->op.row);
}

static size_t backlog_waiting(const struct sb_backlog *backlog)
{
        return backlog->count - backlog->next;
}

/* What there is room for. */
static uint32_t backlog_left(const struct sb_backlog *backlog)
{
        return backlog->room - (uint32_t)backlog_waiting(backlog);
}

/* ---- counting ---- */

/* Of what was told by then all that did not wait was dropped. */
static void backlog_count(struct sb_backlog *backlog, uint64_t told)
{
        uint64_t dropped = told - backlog->base - backlog->accepted;

        if ((int64_t)(dropped - backlog->dropped) > 0)
                backlog->dropped = dropped;
}

/* Behind a reading that dropped nothing. @told: before it; all that came since was listed. */
static void backlog_count_on(struct sb_prefix_watch *watch, uint64_t told)
{
        struct sb_backlog *backlog = watch->backlog;

        if (backlog->owed)
                backlog_count(backlog, told);
        /* Each hint stands for a change that was listed or dropped, or was put in twice. */
        if (!watch->noted && backlog_told(watch) == told) {
                backlog->base = told - backlog->accepted - backlog->dropped;
                backlog->owed = false;
        }
}

/* Where memory was short, changes have gone that no reading had listed yet: they count as dropped.
 * What is lost above the cut of this reading may have its hint only behind it, and what goes later
 * there says nothing new: so the next one hears of it again. */
static void backlog_hear_lost(struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;
        uint64_t lost = sb_queue_lost(&watch->op.row);

        if (lost <= backlog->heard || SB_FAULT(LOST_UNHEARD))
                return;
        backlog->owed = true;
        backlog->heard = lost < watch->cut ? lost : watch->cut;
}

/* ---- what waits ---- */

/* Room for @more. Return: false: no memory. */
static bool backlog_grow(struct sb_backlog *backlog, size_t more)
{
        size_t waiting = backlog_waiting(backlog), capacity = backlog->capacity;
        struct waiting *grown;

        if (backlog->next > 0) {
                memmove(backlog->waiting, backlog->waiting + backlog->next,
                        waiting * sizeof(*backlog->waiting));
                backlog->next = 0;
                backlog->count = waiting;
        }
        if (waiting + more <= capacity)
                return true;
        while (capacity < waiting + more)
                capacity = capacity != 0 ? 2 * capacity : backlog->room < 64 ? backlog->room : 64;
        grown = realloc(backlog->waiting, capacity * sizeof(*grown));
        if (!grown)
                return false;
        backlog->waiting = grown;
        backlog->capacity = capacity;
        return true;
}

/* How many changes from @first on come together. */
static size_t backlog_together(const struct sb_prefix_watch *watch, size_t first)
{
        const struct sb_op_listed *list = watch->listed;
        size_t end = first + 1;

        /* Fault QUEUE_TEARS: each by itself. */
        while (list[first].txn != 0 && end < watch->listed_count && !SB_FAULT(QUEUE_TEARS) &&
                list[end].txn == list[first].txn)
                end++;
        return end - first;
}

/* Where memory was short, nothing says whether it is all of a transaction. */
static bool backlog_is_torn(const struct sb_prefix_watch *watch, const struct sb_op_listed *listed)
{
        return listed->txn != 0 && listed->stamp <= sb_queue_lost(&watch->op.row);
}

/* Take what was listed, as long as there is room, and up to the stamp @limit, above which the run
 * wants nothing. Return: how far that went in the list. *ret_dropped: how many in all were not
 * taken. */
static size_t backlog_accept(struct sb_prefix_watch *watch, uint64_t limit, size_t *ret_dropped)
{
        struct sb_backlog *backlog = watch->backlog;
        size_t first = 0, together, taken = 0, i;

        for (; first < watch->listed_count; first += together) {
                together = backlog_together(watch, first);
                if (watch->listed[first].stamp > limit)
                        break;
                if (backlog_is_torn(watch, &watch->listed[first]))
                        continue;
                if (together > backlog_left(backlog))
                        break;
                for (i = first; i < first + together; i++)
                        backlog->waiting[backlog->count++] =
                                (struct waiting){.listed = watch->listed[i],
                                        .run = sb_queue_last(&watch->op.row),
                                        .dropped = backlog->dropped};
                taken += together;
        }
        backlog->accepted += taken;
        *ret_dropped = watch->listed_count - taken;
        return first;
}

/* What was listed from @first on is not kept any more. */
static void backlog_let_go(struct sb_bus *bus, const struct sb_prefix_watch *watch, size_t first)
{
        for (size_t i = first; i < watch->listed_count; i++)
                sb_limbo_later(&bus->handle, watch->listed[i].cell_number, SB_STAMP_PLACEHOLDER);
}

/* ---- runs ---- */

/* Whether something of the last run waits. Then it is the last that waits. */
static const struct waiting *backlog_last_waiting(const struct sb_prefix_watch *watch)
{
        const struct sb_backlog *backlog = watch->backlog;
        const struct waiting *last =
                backlog_waiting(backlog) ? &backlog->waiting[backlog->count - 1] : NULL;

        return last && last->run == sb_queue_last(&watch->op.row) ? last : NULL;
}

/* The watch has its cut: what comes behind it has the room that is left. What was hinted up to here
 * takes none, since most of it was listed. The tail may lie before the last hint that was read, for
 * the process may have stopped that put it in. Return: false: the run is closed. */
static bool backlog_say_room(struct sb_prefix_watch *watch)
{
        uint64_t told = sb_hint_tail(&watch->op.row);

        sb_queue_say_seen(&watch->op.row, watch->cut);
        if (told < watch->op.hint)
                told = watch->op.hint;
        return sb_queue_set_room(&watch->op.row, told + backlog_left(watch->backlog));
}

/* Open a run. One of which nothing waits is opened anew: so there are no more than there is room
 * for changes. */
static void backlog_open_run(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        uint64_t run = sb_queue_last(&watch->op.row) + (backlog_last_waiting(watch) ? 1 : 0);

        /* Before the cut: a change above it is hinted behind this. */
        watch->op.hint = sb_hint_tail(&watch->op.row);
        sb_queue_open_run(
                &bus->handle, &watch->op.row, run, watch->op.hint, backlog_left(watch->backlog));
        watch->backlog->ended = false;
}

/* Begin the next run, if there is room. What came before it is dropped. */
static void backlog_begin_run(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;
        uint64_t told = backlog_told(watch);

        backlog->owed = true;
        watch->cell_count = 0;
        if (backlog_left(backlog) != 0) {
                backlog_open_run(bus, watch);
                watch->op.cut = watch->cut = sb_clock_take_cut(&bus->handle);
                (void)backlog_say_room(watch);
        }
        backlog_count(backlog, told);
}

/* The last run ends behind what waits of it. */
static void backlog_end_run(struct sb_prefix_watch *watch)
{
        const struct waiting *last = backlog_last_waiting(watch);

        sb_queue_close_run(&watch->op.row, last ? last->listed.stamp : 0);
        watch->backlog->ended = true;
}

/* Say what is wanted still: of the first run that counts, what lies behind what was given. */
static void backlog_pass(struct sb_prefix_watch *watch)
{
        const struct sb_backlog *backlog = watch->backlog;
        const struct waiting *first = &backlog->waiting[backlog->next];

        if (backlog_waiting(backlog) != 0)
                sb_queue_pass(&watch->op.row, first->run, first->listed.stamp - 1);
        else
                sb_queue_pass(&watch->op.row, sb_queue_last(&watch->op.row), watch->op.cut);
}

/* ---- a reading ---- */

/* Hints were overwritten, or not put in: all keys are looked at. */
static void backlog_collect_lost(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        uint64_t given_up = sb_hint_gone(&watch->op.row);

        if (!watch->lapped && given_up == watch->backlog->given_up)
                return;
        watch->backlog->given_up = given_up;
        watch->op.hint = sb_hint_tail(&watch->op.row);
        watch->lapped = false;
        (void)sb_reading_collect_all(bus, watch);
}

/* A process that had taken its cut before this reading has closed the run: what came behind that
 * cut was not kept while it was listed, and does not wait. */
static size_t backlog_take_back(struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;
        uint64_t high = sb_queue_high(&watch->op.row);
        size_t before = backlog->count;

        while (backlog_last_waiting(watch) && backlog_last_waiting(watch)->listed.stamp > high)
                backlog->count--;
        backlog->accepted -= before - backlog->count;
        return before - backlog->count;
}

/* What was listed was taken as far as there is room. The run goes on, or the next one begins. */
static void backlog_go_on(struct sb_bus *bus, struct sb_prefix_watch *watch, uint64_t told,
        bool closed, size_t behind, size_t dropped)
{
        if (!closed && !backlog_say_room(watch)) {
                dropped += backlog_take_back(watch);
                behind = 0;
        }
        if (!closed && dropped == 0) {
                backlog_count_on(watch, told);
        } else {
                backlog_end_run(watch);
                backlog_let_go(bus, watch, behind);
                backlog_begin_run(bus, watch);
        }
        backlog_pass(watch);
}

/* Behind a cut of before: some of what came since is not kept. All is left out, and the caller is
 * told. */
static void backlog_lap(struct sb_prefix_watch *watch)
{
        backlog_end_run(watch);
        watch->cell_count = 0;
}

int sb_backlog_read(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;
        struct sb_op_prefix before = watch->op;
        uint64_t told = backlog_told(watch), high, limit;
        bool first = watch->op.asks, closed;
        size_t behind, dropped;
        int r;

        sb_reading_collect(bus, watch);
        backlog_collect_lost(bus, watch);
        high = sb_queue_high(&watch->op.row);
        closed = high <= watch->cut;
        /* Closed with this cut; where it lies before the watch's, the run wants nothing. */
        limit = !closed ? watch->cut : high > watch->op.cut ? high : watch->op.cut;
        if (!first) /* else what the run does not want is listed, too, and counts as dropped */
                watch->cut = limit;
        r = sb_reading_list(bus, watch, &before);
        if (r != 0)
                return r;
        if (watch->lapped) {
                backlog_lap(watch);
                return 0;
        }
        if (!backlog_grow(backlog, watch->listed_count < backlog_left(backlog)
                                           ? watch->listed_count
                                           : backlog_left(backlog))) {
                watch->failed = -ENOMEM;
                return sb_reading_undo(watch, &before);
        }
        backlog_hear_lost(watch); /* behind the listing */
        behind = backlog_accept(watch, limit, &dropped);
        if (first) {
                backlog->dropped = dropped;
                /* What came before the watch joined was hinted before that, and counts. */
                for (size_t i = 0; i < watch->listed_count; i++)
                        backlog->base -= watch->listed[i].stamp <= watch->op.joined;
        }
        watch->op.cut = watch->cut;
        backlog_go_on(bus, watch, told, closed, behind, dropped);
        return 0;
}

int sb_backlog_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told)
{
        int r;

        if (watch->lapped || backlog_waiting(watch->backlog) != 0)
                return 0;
        if (!told && watch->cell_count == 0 && !sb_prefix_is_hinted(&watch->op))
                return SB_E_TIMED_OUT;
        r = sb_backlog_read(bus, watch);
        if (r != 0)
                return r;
        return watch->lapped || backlog_waiting(watch->backlog) != 0 ? 0 : SB_E_TIMED_OUT;
}

/* ---- giving ---- */

/* One was given, or is lost: there is room for another. */
static void backlog_make_room(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        const struct sb_ring_view *row = &watch->op.row;
        uint64_t high = sb_queue_high(row);

        backlog_pass(watch);
        if (watch->backlog->ended)
                backlog_begin_run(bus, watch);
        else if (!(high & SB_QUEUE_OPEN) || !sb_queue_set_room(row, (high & SB_QUEUE_HINT) + 1))
                /* It was closed. Without memory it stays so until the next reading. */
                (void)sb_backlog_read(bus, watch);
}

/* Begin anew at a cut of now, which a snapshot holds, as any watch that was lapped. */
static int backlog_begin_again(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;

        backlog_open_run(bus, watch);
        watch->lapped = !sb_op_prefix_again(&bus->handle, &watch->op);
        watch->earlier = false;
        backlog->base = watch->op.before - backlog->accepted - backlog->dropped;
        watch->cut = watch->begun = watch->op.cut;
        (void)backlog_say_room(watch);
        backlog_pass(watch);
        return SB_E_LAPPED;
}

int sb_backlog_give(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t guard,
        uint32_t old_guard, struct sb_op_change *ret)
{
        struct sb_backlog *backlog = watch->backlog;

        if (watch->lapped)
                return backlog_begin_again(bus, watch);
        while (sb_backlog_fill(bus, watch, true) == 0) {
                struct waiting next = backlog->waiting[backlog->next++];
                bool taken = sb_op_prefix_take(
                        &bus->handle, &watch->op, &next.listed, guard, old_guard, ret);

                backlog->lost += !taken;
                backlog_make_room(bus, watch);
                sb_limbo_later(&bus->handle, next.listed.cell_number, SB_STAMP_PLACEHOLDER);
                sb_work_due(&bus->handle);
                if (taken) {
                        ret->missed = next.dropped + backlog->lost - backlog->said;
                        backlog->said = next.dropped + backlog->lost;
                        return 0;
                }
        }
        return SB_E_TIMED_OUT;
}

uint64_t sb_backlog_dropped(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        struct sb_backlog *backlog = watch->backlog;

        if (!backlog)
                return 0;
        if (bus && !watch->lapped) {
                if (!backlog->ended && !(sb_queue_high(&watch->op.row) & SB_QUEUE_OPEN))
                        (void)sb_backlog_read(bus, watch);
                if (backlog->ended)
                        backlog_count(backlog, backlog_told(watch));
        }
        return backlog->dropped + backlog->lost;
}
