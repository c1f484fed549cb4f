/* Watched prefixes; see prefix.h. */

#include "shm/notify/prefix.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/notify/hint.h"
#include "shm/notify/queue.h"
#include "shm/notify/ring.h"
#include "shm/notify/turn.h"

#define LENGTH_BITS UINT64_C(0xffffffff)
#define LENGTH_JOIN (UINT64_C(1) << 32)
/* Places for one cell among those that say what was noted. */
#define NOTED_PLACES 4u
/* In them, where a cell was noted for a sweep: no block has this offset. */
#define NOTED_SWEEP 1u

uint32_t sb_prefix_key(const void *prefix, uint32_t prefix_len, unsigned char ret[SB_KEY_LEN_MAX])
{
        memcpy(ret, SB_RESERVED_WATCH, SB_WATCH_PREFIX);
        if (prefix_len)
                memcpy(ret + SB_WATCH_PREFIX, prefix, prefix_len);
        return SB_WATCH_PREFIX + prefix_len;
}

/* ---- the watched prefixes of a key ---- */

/* The prefixes of a key that have a ring, in turn. */
struct prefix_walk {
        unsigned char bytes[SB_WATCH_PREFIX + SB_KEY_LEN_MAX];
        uint32_t key_len, word;
        uint32_t bits; /* lengths of this word that were not looked up yet */
        uint64_t left; /* blocks of a ring that is gone through */
};

/* The lengths of word @word, as far as a key of @key_len bytes goes. */
static uint32_t prefix_lengths(const struct sb_segment *segment, uint32_t word, uint32_t key_len)
{
        uint32_t longest = key_len - word * 32;
        /* A:attention. */
        uint32_t bits = (uint32_t)sb_load_acquire(&segment->super->prefix_lengths[word]);

        return longest < 31 ? bits & ((2u << longest) - 1) : bits;
}

/* Return: false: no prefix of this key is watched. */
static bool prefix_walk_begin(
        struct sb_handle *handle, const void *key, uint32_t key_len, struct prefix_walk *walk)
{
        if (key_len > SB_KEY_LEN_MAX || sb_reserved_is(key, key_len))
                return false;
        walk->key_len = key_len;
        walk->word = 0;
        walk->bits = prefix_lengths(&handle->segment, 0, key_len);
        (void)sb_prefix_key(key, key_len, walk->bytes);
        return true;
}

/* The node of exactly this key, which never has a value; NULL: there is none. */
static struct sb_node *prefix_find(struct sb_handle *handle, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_probe probe = sb_probe_first(segment, sb_hash_key(key, key_len, segment->seed));
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(segment, &probe))) {
                uint64_t word = sb_pin_load(handle, cell);
                struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                /* A:stamp. What is not confirmed may be of a life that is over: a slow maker's. */
                if (!(word & SB_CELL_FROZEN) && version &&
                        sb_version_is(segment, version, key, key_len) &&
                        sb_load_acquire(&version->stamp))
                        return sb_node_at(segment, version->node);
        }
        return NULL;
}

/* The ring of a prefix that is watched, or was a moment ago. */
static bool prefix_ring(
        struct sb_handle *handle, const void *key, uint32_t key_len, struct sb_ring_view *ret)
{
        struct sb_node *node = prefix_find(handle, key, key_len);
        uint64_t at = node ? sb_pin_load(handle, &node->ring) : 0;

        return at && sb_ring_view(handle, at, ret) && ret->slot_count > 1 &&
               sb_once(ret->ring->hints);
}

static bool prefix_walk_next(
        struct sb_handle *handle, struct prefix_walk *walk, struct sb_ring_view *ret)
{
        for (;;) {
                uint32_t len;

                while (!walk->bits) {
                        if (++walk->word * 32 > walk->key_len)
                                return false;
                        walk->bits = prefix_lengths(&handle->segment, walk->word, walk->key_len);
                }
                len = walk->word * 32 + (uint32_t)__builtin_ctz(walk->bits);
                walk->bits &= walk->bits - 1;
                if (prefix_ring(handle, walk->bytes, SB_WATCH_PREFIX + len, ret)) {
                        walk->left = sb_damage_bound(&handle->segment);
                        return true;
                }
        }
}

/* Go on to the next row or queue of the ring. Fault ROW_FIRST_ALONE: to none. */
static bool prefix_walk_row(
        struct sb_handle *handle, struct prefix_walk *walk, struct sb_ring_view *view)
{
        return !SB_FAULT(ROW_FIRST_ALONE) && sb_hint_further(handle, view, &walk->left);
}

/* ---- telling ---- */

/* Whether this handle noted the cell since the row gave up what it gives up now; if not, it has
 * from now on, as far as there is a place for that: one of the few that the cell may have, if that
 * one says nothing, or what the row gave up before; else, in turn, one that another row's cell has.
 */
static bool prefix_was_noted(struct sb_handle *handle, const struct sb_prefix_noted *now)
{
        struct sb_prefix_noted *places =
                &handle->prefixes.noted[(now->cell_number * UINT64_C(0x9e3779b97f4a7c15) >> 32) %
                                        (SB_PREFIX_NOTED / NOTED_PLACES) * NOTED_PLACES];
        struct sb_prefix_noted *stale = &places[handle->prefixes.noted_turn++ % NOTED_PLACES];

        for (uint32_t i = 0; i < NOTED_PLACES; i++) {
                bool row = places[i].row == now->row, gone = places[i].gone == now->gone;

                /* Fault HINT_NOTED_ONCE: what is given up is not compared. */
                if (places[i].cell_number == now->cell_number && row &&
                        (gone || SB_FAULT(HINT_NOTED_ONCE)))
                        return true;
                if ((row && !gone) || !places[i].row)
                        stale = &places[i];
        }
        /* Of a row that has all of its places, some cells are noted each time. */
        if (stale->row != now->row || stale->gone != now->gone)
                *stale = *now;
        return false;
}

/* A hint that named this cell was overwritten: the cell is to be looked at. If it was noted since
 * the row gave up what it gives up now, that is to come, or was done: and what that look leaves, a
 * watch of another row keeps, or a cut, or it is replaced behind the look. Then its own hint is
 * overwritten later. */
static void prefix_note_over(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t cell_number)
{
        const struct sb_prefix_noted now = {.cell_number = cell_number,
                .row = sb_offset_of(&handle->segment, view->ring),
                .gone = sb_hint_gone(view)};

        if (prefix_was_noted(handle, &now))
                sb_limbo_pass(handle);
        else
                sb_limbo_later(handle, cell_number, SB_STAMP_PLACEHOLDER);
}

/* Put a hint into a row, or into a queue that takes it. */
static void prefix_hint(struct sb_handle *handle, const struct sb_ring_view *view,
        uint64_t cell_number, uint64_t stamp)
{
        uint64_t over;

        if (SB_FAULT(PREFIX_UNTOLD))
                return;
        if (view->want_count) {
                sb_queue_tell(handle, view, cell_number, stamp);
                return;
        }
        over = sb_hint_push(handle, view, cell_number);
        /* Each process that fills a slot sees to what it overwrote: so no more is kept than the
         * ring names, and none walks over all of it. */
        if (over && sb_cell_at(&handle->segment, over))
                prefix_note_over(handle, view, over);
}

void sb_prefix_leave(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp)
{
        struct sb_prefix_noted now = {
                .cell_number = cell_number, .row = NOTED_SWEEP, .gone = sb_limbo_asked(handle)};

        /* One look at all of the chain answers a request. Fault AWAITED_UNSWEPT: none comes. */
        if (now.gone && !SB_FAULT(AWAITED_UNSWEPT) && !prefix_was_noted(handle, &now))
                sb_limbo_later(handle, cell_number, stamp);
}

/* Behind the hint: what the row says of what the change replaced. */
static enum sb_prefix_told prefix_keeps(const struct sb_ring_view *row, uint64_t stamp)
{
        if (row->want_count)
                return SB_PREFIX_ASKS;
        return stamp > sb_hint_gone(row) ? SB_PREFIX_STAYS : SB_PREFIX_GOES;
}

enum sb_prefix_told sb_prefix_tell(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint64_t cell_number, uint64_t stamp)
{
        enum sb_prefix_told told = SB_PREFIX_GOES, keeps;
        struct prefix_walk walk;
        struct sb_ring_view ring, row;

        if (!prefix_walk_begin(handle, key, key_len, &walk))
                return told;
        while (prefix_walk_next(handle, &walk, &ring)) {
                row = ring;
                do {
                        prefix_hint(handle, &row, cell_number, stamp);
                        keeps = prefix_keeps(&row, stamp);
                        told = keeps > told ? keeps : told;
                } while (prefix_walk_row(handle, &walk, &row));
                /* Fault PREFIX_UNWOKEN: left out. */
                if (!SB_FAULT(PREFIX_UNWOKEN))
                        sb_ring_wake(handle, &ring);
        }
        return told;
}

/* The key and cell of a node; false: damaged, or it has no cell. */
static bool prefix_of_node(struct sb_handle *handle, struct sb_node *node,
        struct sb_node_key *ret_key, uint64_t *ret_cell)
{
        *ret_key = sb_node_key(&handle->segment, node);
        *ret_cell = sb_pin_load(handle, &node->cell);
        return ret_key->bytes && sb_cell_at(&handle->segment, *ret_cell);
}

void sb_prefix_tell_node(struct sb_handle *handle, struct sb_node *node, uint64_t stamp)
{
        struct sb_node_key key;
        uint64_t cell_number;

        if (sb_prefix_any(&handle->segment) && prefix_of_node(handle, node, &key, &cell_number))
                (void)sb_prefix_tell(handle, key.bytes, key.len, cell_number, stamp);
}

void sb_prefix_wake(struct sb_handle *handle, struct sb_node *node)
{
        struct prefix_walk walk;
        struct sb_ring_view view;
        struct sb_node_key key;
        uint64_t cell_number;

        if (!sb_prefix_any(&handle->segment) || !prefix_of_node(handle, node, &key, &cell_number) ||
                !prefix_walk_begin(handle, key.bytes, key.len, &walk))
                return;
        while (prefix_walk_next(handle, &walk, &view))
                sb_ring_wake(handle, &view);
}

/* ---- keeping ---- */

/* Whether a row or a queue keeps what was current from @stamp until @newer. */
static bool prefix_row_awaits(const struct sb_ring_view *view, uint64_t stamp, uint64_t newer)
{
        return view->want_count ? sb_queue_wants(view, stamp, newer) : newer > sb_hint_gone(view);
}

/* Fault GIVE_WAY_UNSAID: it is given up, and not said. */
static void prefix_give_way(const struct sb_ring_view *view, uint64_t stamp, uint64_t newer)
{
        if (view->want_count)
                sb_queue_say_lost(view, stamp);
        else if (!SB_FAULT(GIVE_WAY_UNSAID))
                sb_hint_raise_gone(view, newer);
}

bool sb_prefix_awaits_any(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, uint64_t newer, bool give_way)
{
        uint64_t shape = sb_version_shape(&handle->segment, version);
        struct prefix_walk walk;
        struct sb_ring_view view;

        if (!prefix_walk_begin(handle, version->bytes, SB_SHAPE_KEY_LEN(shape), &walk))
                return false;
        while (prefix_walk_next(handle, &walk, &view)) {
                do {
                        if (!prefix_row_awaits(&view, stamp, newer))
                                continue;
                        if (!give_way)
                                return true;
                        prefix_give_way(&view, stamp, newer);
                } while (prefix_walk_row(handle, &walk, &view));
        }
        return false;
}

void sb_prefix_say_moved(struct sb_handle *handle, const struct sb_version *version, uint64_t stamp)
{
        uint64_t shape = sb_version_shape(&handle->segment, version);
        struct prefix_walk walk;
        struct sb_ring_view view;

        if (!sb_prefix_any(&handle->segment) ||
                !prefix_walk_begin(handle, version->bytes, SB_SHAPE_KEY_LEN(shape), &walk))
                return;
        while (prefix_walk_next(handle, &walk, &view)) {
                do {
                        if (view.want_count)
                                sb_queue_say_moved(&view, stamp);
                        else if (stamp > sb_hint_gone(&view) && !SB_FAULT(GIVE_WAY_UNSAID))
                                sb_hint_raise_gone(&view, stamp);
                } while (prefix_walk_row(handle, &walk, &view));
        }
}

void sb_prefix_say_removed_any(
        struct sb_handle *handle, const struct sb_version *tombstone, uint64_t stamp)
{
        uint64_t shape = sb_version_shape(&handle->segment, tombstone);
        struct prefix_walk walk;
        struct sb_ring_view view;

        if (!prefix_walk_begin(handle, tombstone->bytes, SB_SHAPE_KEY_LEN(shape), &walk))
                return;
        while (prefix_walk_next(handle, &walk, &view)) {
                do {
                        if (view.want_count && sb_queue_wants(&view, stamp, stamp))
                                sb_queue_say_lost(&view, stamp);
                } while (prefix_walk_row(handle, &walk, &view));
        }
}

void sb_prefix_ask_floor(
        struct sb_handle *handle, const struct sb_version *version, struct sb_prefix_floor *floor)
{
        uint64_t shape, gone;
        struct prefix_walk walk;
        struct sb_ring_view view;

        /* A:clock. Before the loads that follow. */
        floor->asked = sb_load_acquire(&handle->segment.super->clock);
        floor->gone = UINT64_MAX;
        floor->queues = false;
        if (!sb_prefix_any(&handle->segment) || !sb_version_fits(&handle->segment, version))
                return;
        shape = sb_version_shape(&handle->segment, version);
        if (!prefix_walk_begin(handle, version->bytes, SB_SHAPE_KEY_LEN(shape), &walk))
                return;
        while (prefix_walk_next(handle, &walk, &view)) {
                do {
                        gone = view.want_count ? UINT64_MAX : sb_hint_gone(&view);
                        floor->queues |= view.want_count != 0;
                        if (gone < floor->gone)
                                floor->gone = gone;
                } while (prefix_walk_row(handle, &walk, &view));
        }
}

/* ---- joining ---- */

void sb_prefix_join(struct sb_handle *handle, uint32_t prefix_len)
{
        struct sb_superblock *super = handle->segment.super;
        struct sb_word64 *lengths = &super->prefix_lengths[prefix_len / 32];
        uint64_t old, length = UINT64_C(1) << (prefix_len % 32);

        /* R:attention > A:attention, both. Counted, too, so that the engine which found no watch of
         * this length loses its CAS. Before the bit that sends writers here. */
        do
                old = sb_load_acquire(lengths); /* A:attention. */
        while (!sb_cas64_full(lengths, old, (old | length) + LENGTH_JOIN));
        /* R:attention > A:attention. Before the watch's cut: each writer with a later stamp sees
         * it. */
        sb_or_full(&super->attention, sb_turn_join(&super->prefixes) > 0 ? SB_ATTENTION_PREFIXES_1
                                                                         : SB_ATTENTION_PREFIXES_0);
}

/* ---- the engine's whole sweeps ---- */

void sb_prefix_sweep_begin(struct sb_handle *handle)
{
        struct sb_prefixes *prefixes = &handle->prefixes;
        const struct sb_superblock *super = handle->segment.super;
        uint32_t i;

        prefixes->sweeps = handle->slot == 0;
        prefixes->any = false;
        memset(prefixes->used, 0, sizeof(prefixes->used));
        /* A:watcher, A:attention. Before the look at the rings. */
        prefixes->state = sb_load_acquire(&super->prefixes);
        for (i = 0; i < SB_PREFIX_LENGTHS; i++)
                prefixes->lengths[i] =
                        sb_load_acquire(&super->prefix_lengths[i]); /* A:attention. */
}

void sb_prefix_sweep_saw(struct sb_handle *handle, const struct sb_node *node)
{
        uint32_t len = sb_node_key(&handle->segment, node).len;

        if (len < SB_WATCH_PREFIX || len - SB_WATCH_PREFIX > SB_KEY_LEN_MAX)
                return;
        len -= SB_WATCH_PREFIX;
        handle->prefixes.used[len / 32] |= UINT32_C(1) << (len % 32);
        handle->prefixes.any = true;
}

/* Take the lengths away of which no watch was met. */
static void prefix_clear_lengths(struct sb_handle *handle)
{
        struct sb_prefixes *prefixes = &handle->prefixes;
        struct sb_word64 *lengths = handle->segment.super->prefix_lengths;
        uint32_t i;

        for (i = 0; i < SB_PREFIX_LENGTHS; i++) {
                uint64_t old = prefixes->lengths[i],
                         left = old & (~LENGTH_BITS | prefixes->used[i]);

                /* Fault LENGTHS_UNASKED: a watch that joined meanwhile loses its length. */
                if (left != old && SB_FAULT(LENGTHS_UNASKED))
                        sb_and_full(&lengths[i], left | ~LENGTH_BITS); /* R:attention. */
                else if (left != old)
                        /* R:attention > A:attention. Failed: a watch has joined since. */
                        sb_cas64_full(&lengths[i], old, left);
        }
}

void sb_prefix_sweep_end(struct sb_handle *handle)
{
        struct sb_prefixes *prefixes = &handle->prefixes;
        struct sb_superblock *super = handle->segment.super;
        uint64_t state = prefixes->state, bit;

        if (!prefixes->sweeps)
                return;
        prefixes->sweeps = false;
        prefix_clear_lengths(handle);
        /* CLEARING: an engine died in here. */
        if (!(state & SB_TURN_CLEARING) && (prefixes->any || !sb_prefix_any(&handle->segment) ||
                                                   !sb_turn_begin(&super->prefixes, state)))
                return;
        bit = sb_turn_of(state) ? SB_ATTENTION_PREFIXES_1 : SB_ATTENTION_PREFIXES_0;
        sb_and_full(&super->attention, ~bit); /* R:attention > A:attention. */
        sb_turn_end(&super->prefixes);
}
