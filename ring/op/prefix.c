/* A watch of a prefix; see prefix.h. */

#include "ring/op/prefix.h"

#include <errno.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/hint.h"
#include "shm/notify/prefix.h"
#include "shm/notify/queue.h"

/* ---- beginning and ending ---- */

/* Take the cut that the watch begins at. A snapshot holds it, so that a scan can be opened there;
 * where half of them are in use, none does. */
static uint64_t prefix_take_cut(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        uint64_t cut;

        watch->holds = !sb_snapshot_open_spare(handle, &watch->snapshot, &cut);
        return watch->holds ? cut : sb_clock_take_cut(handle);
}

void sb_op_prefix_let_go(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        if (watch->holds)
                sb_snapshot_close(handle, watch->snapshot);
        watch->holds = false;
}

/* Fault AGAIN_HINTS_LATE: the tail is taken behind the cut. */
static void prefix_fault_tail(struct sb_op_prefix *watch)
{
        if (SB_FAULT(AGAIN_HINTS_LATE))
                watch->hint = sb_hint_tail(&watch->row);
}

/* Whether a cut can come behind what was given up: that was a stamp, or said by the clock. */
static bool prefix_gone_is_past(struct sb_handle *handle, const struct sb_ring_view *ring)
{
        uint64_t gone = sb_hint_gone(ring);

        /* A:clock. Behind the other load. */
        if (gone <= sb_load_acquire(&handle->segment.super->clock))
                return true;
        sb_damage_note(handle);
        return false;
}

bool sb_op_prefix_again(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        const struct sb_ring_view *ring = &watch->watch.row;

        /* Lock-free: a round that gives up meanwhile means that others filled half of the ring.
         * Bound: damage. What was given up is ahead of the clock. */
        do {
                if (!prefix_gone_is_past(handle, ring))
                        return false;
                sb_op_prefix_let_go(handle, watch);
                /* Before the cut: a change above it is hinted behind this. */
                watch->hint = sb_hint_tail(&watch->row);
                watch->before = sb_hint_tail(ring);
                watch->cut = watch->joined = prefix_take_cut(handle, watch);
                prefix_fault_tail(watch);
                /* R:gone > A:gone. Of a new ring: it keeps from here on. */
                sb_cas64_full(&ring->ring->given, 0, watch->cut);
        } while (!sb_op_prefix_whole(watch));
        return true;
}

/* Writers look for it, and then its cut is taken. Fault PREFIX_CUT_EARLY: the other way round. */
static bool prefix_show_and_cut(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        bool late = SB_FAULT(PREFIX_CUT_EARLY), again;

        if (!late)
                sb_prefix_join(handle, watch->prefix_len);
        again = sb_op_prefix_again(handle, watch);
        if (late)
                sb_prefix_join(handle, watch->prefix_len);
        return again;
}

/* The entry stands: have writers look for it, and take the watch's cut. Return: 0, -EIO. */
static int prefix_join(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        /* A damaged ring may have no slots. */
        if (watch->watch.row.slot_count < 2 || !prefix_show_and_cut(handle, watch)) {
                sb_op_prefix_end(handle, watch);
                return -EIO;
        }
        return 0;
}

int sb_op_prefix_begin(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint32_t bit, uint32_t depth, struct sb_op_prefix *ret)
{
        unsigned char key[SB_KEY_LEN_MAX];
        int r;

        *ret = (struct sb_op_prefix){.prefix = prefix, .prefix_len = prefix_len};
        r = sb_op_watch_begin(handle, key, sb_prefix_key(prefix, prefix_len, key), bit,
                sb_hint_slots(depth), SB_WATCH_HINTS, &ret->watch);
        if (r)
                return r;
        ret->row = ret->watch.row;
        return prefix_join(handle, ret);
}

int sb_op_prefix_begin_dropping(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint32_t bit, uint32_t room, uint64_t after, struct sb_op_prefix *ret)
{
        unsigned char key[SB_KEY_LEN_MAX];
        int r;

        *ret = (struct sb_op_prefix){.prefix = prefix, .prefix_len = prefix_len, .drops = true};
        r = sb_op_watch_begin_queue(handle, key, sb_prefix_key(prefix, prefix_len, key), bit,
                sb_hint_slots(SB_WATCH_DEPTH), room, &ret->watch);
        if (r)
                return r;
        ret->row = ret->watch.wants;
        if (!after)
                after = sb_load_acquire(&handle->segment.super->clock); /* A:clock. */
        /* Before writers look for the watch: a change above its cut finds the run. */
        sb_queue_begin(&ret->row, after, sb_hint_tail(&ret->row), room);
        r = prefix_join(handle, ret);
        if (!r)
                sb_queue_say_seen(&ret->row, ret->cut);
        return r;
}

void sb_op_prefix_end(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        sb_op_prefix_let_go(handle, watch);
        sb_op_watch_end(handle, &watch->watch);
}

/* ---- hints ---- */

/* The cell of the next hint; NULL: there is none. */
static struct sb_word64 *prefix_next_cell(
        struct sb_handle *handle, const struct sb_op_prefix *watch)
{
        return watch->row.slot_count < 2
                       ? NULL
                       : sb_cell_at(&handle->segment, sb_hint_read(&watch->row, watch->hint));
}

void sb_op_prefix_fetch_cell(struct sb_handle *handle, const struct sb_op_prefix *watch)
{
        sb_prefetch_write(&handle->segment.super->clock);
        sb_prefetch(prefix_next_cell(handle, watch));
}

void sb_op_prefix_fetch_version(struct sb_handle *handle, const struct sb_op_prefix *watch)
{
        const struct sb_word64 *cell = prefix_next_cell(handle, watch);

        /* Relaxed: the address alone is used. */
        if (cell)
                sb_prefetch(
                        sb_version_at(&handle->segment, sb_load_relaxed(cell) & SB_OFFSET_MASK));
}

int sb_op_prefix_hint(struct sb_op_prefix *watch, uint64_t *ret_cell)
{
        if (!sb_prefix_is_hinted(watch))
                return 0;
        *ret_cell = sb_hint_read(&watch->row, watch->hint);
        if (!*ret_cell)
                return -1;
        watch->hint++;
        return 1;
}

bool sb_op_prefix_keeps(const struct sb_op_prefix *watch, uint64_t cut)
{
        return sb_hint_gone(&watch->watch.row) <= cut || SB_FAULT(GIVEN_UP_UNASKED);
}

bool sb_op_prefix_whole(const struct sb_op_prefix *watch)
{
        return sb_op_prefix_keeps(watch, watch->cut);
}

bool sb_op_prefix_was_whole(struct sb_handle *handle, struct sb_op_prefix *watch)
{
        bool asks = watch->asks, trimmed = watch->trimmed;

        watch->asks = watch->trimmed = false;
        if (!asks)
                return watch->drops || sb_op_prefix_whole(watch);
        /* What the ring says of a time before this watch counts for nothing: perhaps no watch
         * stood, and no process asked. A:forgotten. Behind the walk: of a key that it did not meet
         * any more this was said. */
        return !trimmed && sb_load_acquire(&handle->segment.super->forgotten) <= watch->cut;
}

/* ---- beginning before now ---- */

bool sb_op_prefix_after(struct sb_handle *handle, struct sb_op_prefix *watch, uint64_t cut,
        sb_order_visit *visit, void *context)
{
        sb_op_prefix_let_go(handle, watch);
        watch->cut = cut;
        watch->asks = true;
        return sb_order_walk(handle, watch->prefix, watch->prefix_len, visit, context);
}

/* ---- the changes of a key ---- */

/* The newest version in a cell, if its key has the prefix. The cell may be another key's by now. */
static struct sb_version *prefix_head(
        struct sb_handle *handle, const struct sb_op_prefix *watch, uint64_t cell_number)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, cell_number);
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0, len;
        struct sb_version *head = sb_version_at(&handle->segment, word & SB_OFFSET_MASK);

        if (!head)
                return NULL;
        len = SB_SHAPE_KEY_LEN(sb_version_shape(&handle->segment, head));
        return len >= watch->prefix_len && !memcmp(head->bytes, watch->prefix, watch->prefix_len) &&
                               !sb_reserved_is(head->bytes, len)
                       ? head
                       : NULL;
}

/* The number of the transaction that wrote the version; 0: none did. */
static uint64_t prefix_txn(const struct sb_segment *segment, const struct sb_version *version)
{
        uint64_t shape = sb_version_shape(segment, version), number = 0;

        if (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN)
                memcpy(&number,
                        version->bytes + SB_SHAPE_KEY_LEN(shape) + SB_SHAPE_VALUE_LEN(shape),
                        SB_TRAILER_TXN);
        return number;
}

bool sb_op_prefix_list(struct sb_handle *handle, struct sb_op_prefix *watch, uint64_t cell_number,
        uint64_t cut, sb_op_take *take, void *context)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t left = sb_damage_bound(segment), above = 0, link;
        struct sb_version *version;
        bool later = false;

        sb_pin(handle);
        version = prefix_head(handle, watch, cell_number);
        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(segment, version) && sb_damage_step(handle, &left) &&
                SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER) {
                struct sb_settled settled = sb_stamp_settle(handle, version);
                bool committed = settled.outcome == SB_OUTCOME_COMMITTED;

                /* As in every read at a cut: if it commits, it is in the cut. */
                if (settled.outcome == SB_OUTCOME_UNDECIDED && settled.stamp &&
                        settled.stamp <= cut) {
                        sb_help_version(handle, version);
                        continue;
                }
                if (committed && settled.stamp <= watch->cut)
                        break;
                later |= committed && settled.stamp > cut;
                /* A version that moves is there twice. Fault LIST_COPY_TWICE: it is listed so. */
                if (committed && settled.stamp <= cut &&
                        (version->rev != above || SB_FAULT(LIST_COPY_TWICE)))
                        take(&(struct sb_op_listed){.stamp = settled.stamp,
                                     .cell_number = cell_number,
                                     .rev = version->rev,
                                     .txn = prefix_txn(segment, version),
                                     .at = sb_offset_of(segment, version)},
                                context);
                if (committed)
                        above = version->rev;
                link = sb_pin_load(handle, &version->prev);
                watch->trimmed |= (link & SB_PREV_TRIMMED) != 0;
                version = sb_version_at(segment, link & SB_OFFSET_MASK);
        }
        sb_unpin(handle);
        return later;
}

/* A change that was listed, where something above the watch's cut was given up since, or could go
 * from the beginning: it is looked for in its chain. NULL: it is gone. */
static struct sb_version *prefix_seek(struct sb_handle *handle, const struct sb_op_prefix *watch,
        const struct sb_op_listed *listed)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version = prefix_head(handle, watch, listed->cell_number);
        uint64_t left = sb_damage_bound(segment);

        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(segment, version) && sb_damage_step(handle, &left) &&
                SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER) {
                struct sb_settled settled = sb_stamp_settle(handle, version);

                if (settled.outcome == SB_OUTCOME_COMMITTED && settled.stamp == listed->stamp &&
                        version->rev == listed->rev)
                        return version;
                version = sb_version_at(
                        segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
        }
        return NULL;
}

/* Whether a change that was listed lies where it lay, under this pin. Of what came before the watch
 * joined, a process may take something out that had asked before. */
static bool prefix_stays(const struct sb_op_prefix *watch, const struct sb_op_listed *listed)
{
        return listed->stamp > watch->joined &&
               (watch->drops ? sb_queue_keeps(&watch->row, listed->stamp)
                             : sb_op_prefix_whole(watch));
}

/* Whether it is perhaps not whole any more: a transaction of which some went where memory was
 * short. */
static bool prefix_is_torn(const struct sb_op_prefix *watch, const struct sb_op_listed *listed)
{
        return watch->drops && listed->txn && listed->stamp <= sb_queue_lost(&watch->row);
}

bool sb_op_prefix_take(struct sb_handle *handle, const struct sb_op_prefix *watch,
        const struct sb_op_listed *listed, uint32_t guard, uint32_t old_guard,
        struct sb_op_change *ret)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version;
        bool found;

        sb_pin(handle);
        /* Behind the pin: where nothing above the watch's cut has left its chain yet, the version
         * is still where it was listed, and stays there under this pin. Fault TAKE_UNASKED: that is
         * not asked. */
        version = prefix_stays(watch, listed) || SB_FAULT(TAKE_UNASKED)
                          ? sb_version_at(segment, listed->at)
                          : prefix_seek(handle, watch, listed);
        found = version && sb_version_fits(segment, version) && !prefix_is_torn(watch, listed);
        if (found) {
                ret->version = version;
                ret->cut = listed->stamp;
                ret->missed = 0;
                ret->old = sb_op_watch_replaced(handle, version);
                /* Fault LISTED_UNHELD: left out. */
                if (!SB_FAULT(LISTED_UNHELD))
                        sb_guard_set(handle, guard, sb_offset_of(segment, version));
                if (ret->old)
                        sb_guard_set(handle, old_guard, sb_offset_of(segment, ret->old));
        }
        sb_unpin(handle);
        return found;
}
