/* A watch of one key: beginning, looking, ending; see watch.h. */

#include "ring/op/watch.h"

#include <errno.h>

#include "ring/op/make.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/work.h"

/* Each further round means that another process got on: a key went, a ring was closed, the last
 * entry was taken. So many in a row mean that the segment is damaged. */
#ifndef SB_WATCH_ROUNDS_MAX
#define SB_WATCH_ROUNDS_MAX 1024u
#endif

#define AGAIN (-1) /* look again; otherwise 0 or a result */

/* What a block is to be: a ring, more watchers, or more slots. */
enum form { RING, WATCHERS, SLOTS };

/* A watch on its way. */
struct beginning {
        const void *key;
        uint32_t key_len, bit, depth;
        uint64_t hash;
        uint64_t block; /* taken; 0: none */
        enum form form; /* what it is taken for */
        enum form want; /* what is missing, where the answer is AGAIN */
        bool hints;     /* the ring is a prefix's */
};

/* ---- beginning ---- */

static uint32_t watch_slots(const struct beginning *begin)
{
        return begin->form == WATCHERS ? 0 : begin->depth;
}
static uint32_t watch_entries(const struct beginning *begin)
{
        return begin->form == SLOTS ? 0 : SB_WATCH_ENTRIES;
}

static int watch_take_block(struct sb_handle *handle, const struct beginning *begin, uint64_t *ret)
{
        uint64_t size = sb_ring_size(watch_slots(begin), watch_entries(begin));
        int r;

        if (size > handle->segment.value_len_max)
                return SB_E_FULL;
        r = sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, ret);
        if (!r)
                return 0;
        sb_slab_settle(handle);
        (void)sb_work_lists(handle);
        return sb_slab_take(handle, SB_UNIT_VERSIONS, size, SB_SLAB_LARGER, ret);
}

static void watch_give_back(struct sb_handle *handle, struct beginning *begin)
{
        if (begin->block)
                sb_slab_give_back(handle, begin->block);
        begin->block = 0;
        sb_slab_settle(handle);
}

/* Publishes a block of this form in @link, which is 0. Return: 0; AGAIN: it is to be taken first,
 * or another process hung one in. */
static int watch_publish(struct sb_handle *handle, struct beginning *begin, enum form form,
        struct sb_word64 *link, struct sb_node *node)
{
        uint64_t at = sb_offset_of(&handle->segment, node);

        begin->want = form;
        if (!begin->block || begin->form != form)
                return AGAIN;
        sb_ring_fill(
                handle, begin->block, at, watch_slots(begin), watch_entries(begin), begin->hints);
        if (!sb_cas64_full(link, 0, begin->block)) { /* R:publish > A:publish. */
                sb_ring_retire(handle, node);        /* if it is a closed one */
                return AGAIN;
        }
        begin->block = 0;
        return 0;
}

/* The ring of the key's node, with enough slots: the one that it has, or a new one. Return: 0;
 * AGAIN: a block is to be taken first, or another one came in between. */
static int watch_ring(struct sb_handle *handle, struct beginning *begin, struct sb_node *node,
        struct sb_ring_view *ret)
{
        if (!sb_pin_load(handle, &node->ring) &&
                watch_publish(handle, begin, RING, &node->ring, node))
                return AGAIN;
        if (!sb_ring_of(handle, node, ret))
                return sb_pin_load(handle, &node->ring) ? -EIO : AGAIN;
        /* A prefix's ring stays as it was made: what reads it goes by one row of slots. */
        if (sb_ring_depth(handle, node) >= begin->depth || begin->hints || SB_FAULT(DEPTH_LEFT_OUT))
                return 0;
        return watch_publish(handle, begin, SLOTS, sb_ring_last(handle, ret), node);
}

/* Enters the watch among the watchers. Return: 0, AGAIN. */
static int watch_enter(struct sb_handle *handle, struct beginning *begin, struct sb_node *node,
        struct sb_op_watch *watch)
{
        if (sb_ring_enter(handle, &watch->ring, begin->bit, &watch->entry))
                return 0;
        if (watch_publish(handle, begin, WATCHERS, sb_ring_last(handle, &watch->ring), node))
                return AGAIN;
        return sb_ring_enter(handle, &watch->ring, begin->bit, &watch->entry) ? 0 : AGAIN;
}

/* The key's cell as it is now, and its effective version: what is not decided comes later, and is
 * told then. Return: false: the key is not there. */
static bool watch_find(struct sb_handle *handle, const struct beginning *begin,
        struct sb_spot *ret_spot, struct sb_version **ret_effective)
{
        struct sb_settled settled;

        while (sb_key_find(handle, begin->key, begin->key_len, begin->hash, ret_spot)) {
                *ret_effective = sb_stamp_effective(handle, ret_spot->head, &settled);
                if (*ret_effective || sb_damage_met(handle))
                        return *ret_effective;
        }
        return false;
}

/* Sets the bit in the cell, as long as the key has this node. Return: 0; AGAIN: the key went. */
static int watch_mark(struct sb_handle *handle, const struct beginning *begin, struct sb_node *node,
        uint64_t bit, struct sb_op_watch *watch)
{
        struct sb_version *effective;
        struct sb_spot spot;

        /* Lock-free: a CAS that fails means that another process wrote. */
        while (watch_find(handle, begin, &spot, &effective) && spot.head->node == watch->node) {
                watch->cell = spot.cell;
                watch->start = watch->last = effective->rev;
                if (!(spot.word & (SB_CELL_KEPT | SB_CELL_WATCHED)) && !SB_FAULT(RING_BEFORE_START))
                        sb_ring_say_gone(handle, node, spot.head->rev);
                /* R:publish > A:publish. The revision in the word is where the watch begins. */
                if ((spot.word & bit) || sb_cas64_full(spot.cell, spot.word, spot.word | bit))
                        return 0;
        }
        return AGAIN;
}

/* One try, under a pin. Return: 0; AGAIN; SB_E_NOT_FOUND: the key is to be made. */
static int watch_try(struct sb_handle *handle, struct beginning *begin, struct sb_op_watch *watch)
{
        struct sb_version *effective;
        struct sb_spot spot;
        struct sb_node *node;
        uint64_t bit;
        int r;

        if (!watch_find(handle, begin, &spot, &effective))
                return SB_E_NOT_FOUND;
        watch->node = spot.head->node;
        node = sb_node_at(&handle->segment, watch->node);
        if (!node)
                return -EIO;
        begin->want = RING;
        r = watch_ring(handle, begin, node, &watch->ring);
        if (!r) {
                sb_ring_open(handle, node, &watch->ring);
                r = watch_enter(handle, begin, node, watch);
        }
        if (r)
                return r;
        bit = sb_ring_join(&watch->ring);
        r = bit ? watch_mark(handle, begin, node, bit, watch) : AGAIN;
        if (r) {
                /* R:watcher. The ring goes, or the node with it: it is the pin that keeps it. */
                sb_store_release(watch->entry, 0);
                if (!bit)
                        sb_ring_retire(handle, node);
        }
        return r;
}

int sb_op_watch_begin(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t bit,
        uint32_t depth, enum sb_watch_slots slots, struct sb_op_watch *ret)
{
        struct beginning begin = {.key = key,
                .hints = slots == SB_WATCH_HINTS,
                .key_len = key_len,
                .bit = bit,
                .depth = depth,
                .hash = sb_hash_key(key, key_len, handle->segment.seed)};
        uint32_t round;
        int r = AGAIN;

        *ret = (struct sb_op_watch){0};
        /* Bound: result. -EIO: as SB_WATCH_ROUNDS_MAX says. */
        for (round = 0; r < 0 && r != -EIO && round < SB_WATCH_ROUNDS_MAX; round++) {
                r = 0;
                if (begin.block && begin.form != begin.want)
                        watch_give_back(handle, &begin);
                begin.form = begin.want;
                if (!begin.block && round)
                        r = watch_take_block(handle, &begin, &begin.block);
                if (r)
                        break;
                sb_pin(handle);
                r = watch_try(handle, &begin, ret);
                sb_unpin(handle);
                if (r == SB_E_NOT_FOUND) {
                        watch_give_back(handle, &begin);
                        r = sb_make_key(handle, key, key_len, begin.hash, SB_SLAB_LARGER);
                        if (!r)
                                r = AGAIN;
                        else
                                sb_limbo_leave(handle); /* perhaps of a node without a cell */
                }
        }
        watch_give_back(handle, &begin);
        return r < 0 ? -EIO : r;
}

void sb_op_watch_end(struct sb_handle *handle, struct sb_op_watch *watch)
{
        /* R:watcher > A:watcher. From here on the ring may go. */
        sb_store_release(watch->entry, 0);
        /* A sweep of the engine's finds the ring without a watch. */
        sb_limbo_leave(handle);
}

/* ---- looking ---- */

/* The next version down the chain that was committed; NULL: none. *trimmed: set where one was taken
 * out in between. */
static struct sb_version *watch_below(
        struct sb_handle *handle, const struct sb_version *version, bool *trimmed)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        const struct sb_version *here = version;

        /* Bound: damage. A chain that goes round. */
        while (sb_damage_step(handle, &left)) {
                uint64_t link = sb_pin_load(handle, &here->prev);
                struct sb_version *next = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);

                *trimmed |= (link & SB_PREV_TRIMMED) != 0;
                if (!(link & SB_OFFSET_MASK) || !next || !sb_version_fits(&handle->segment, next) ||
                        SB_SHAPE_KIND(next->shape) == SB_VERSION_PLACEHOLDER)
                        return NULL;
                /* A:stamp. An aborted one, and the original of one that moves, count for nothing.
                 */
                if (sb_load_acquire(&next->stamp) != SB_STAMP_ABORTED && next->rev < version->rev)
                        return next;
                here = next;
        }
        return NULL;
}

/* Where the walk down to revision @want begins: at the nearest later one that a slot names, by
 * steps that double; else at @newest. */
static struct sb_version *watch_begin_walk(struct sb_handle *handle,
        const struct sb_op_watch *watch, struct sb_version *newest, uint64_t want)
{
        struct sb_version *version;
        uint64_t step;

        for (step = 1; want + step < newest->rev; step *= 2) {
                version = sb_ring_find(handle, &watch->ring, want + step);
                if (version)
                        return version;
        }
        return newest;
}

/* The oldest version of the chain, from @newest on, that is not older than revision @want.
 * *trimmed: whether one may have been taken out right below it. */
static struct sb_version *watch_oldest(
        struct sb_handle *handle, struct sb_version *newest, uint64_t want, bool *ret_trimmed)
{
        struct sb_version *version = newest, *next;

        for (;;) {
                *ret_trimmed = false;
                if (version->rev == want)
                        return version;
                next = watch_below(handle, version, ret_trimmed);
                if (!next || next->rev < want)
                        return version;
                version = next;
        }
}

struct sb_version *sb_op_watch_replaced(struct sb_handle *handle, const struct sb_version *version)
{
        bool trimmed = false;
        struct sb_version *old = watch_below(handle, version, &trimmed);

        return old && !trimmed && sb_version_has_value(old) ? old : NULL;
}

/* The newest version that counts, and how it was found. */
struct newest {
        struct sb_version *head, *version;
        struct sb_settled settled;
        uint64_t word;
};

/* Whether there is something behind the last revision. */
static bool watch_newest(
        struct sb_handle *handle, const struct sb_op_watch *watch, struct newest *ret)
{
        ret->word = sb_pin_load(handle, watch->cell);
        ret->head = sb_version_at(&handle->segment, ret->word & SB_OFFSET_MASK);
        if (!ret->head || !sb_version_fits(&handle->segment, ret->head))
                return false;
        ret->version = sb_stamp_effective(handle, ret->head, &ret->settled);
        return ret->version && SB_SHAPE_KIND(ret->version->shape) != SB_VERSION_PLACEHOLDER &&
               ret->version->rev > watch->last;
}

/* The version of the change behind the last revision. *ret_missed: how many are lost before it. */
static struct sb_version *watch_find_change(
        struct sb_handle *handle, const struct sb_op_watch *watch, uint64_t *ret_missed)
{
        uint64_t want = watch->last + 1;
        struct sb_version *version;
        struct newest newest;
        bool trimmed;

        *ret_missed = 0;
        /* Lock-free: a look that does not last means that another process wrote. */
        do {
                if (!watch_newest(handle, watch, &newest))
                        return NULL;
                version = sb_ring_find(handle, &watch->ring, want);
                if (version)
                        return version;
                version = watch_begin_walk(handle, watch, newest.version, want);
                version = watch_oldest(handle, version, want, &trimmed);
                if (version->rev == want || !trimmed)
                        return version; /* or the key's first one in another life */
        } while (!sb_stamp_lasts(handle, watch->cell, newest.word, newest.head, newest.settled));
        *ret_missed = version->rev - want;
        return version;
}

enum sb_watched sb_op_watch_look(struct sb_handle *handle, struct sb_op_watch *watch,
        uint32_t guard, uint32_t old_guard, struct sb_op_change *ret)
{
        enum sb_watched watched = SB_WATCHED_CHANGE;

        sb_pin(handle);
        ret->version = watch_find_change(handle, watch, &ret->missed);
        if (!ret->version) {
                watched = SB_WATCHED_NOTHING;
        } else if (ret->missed && !watch->lapped) {
                watch->lapped = true;
                watched = SB_WATCHED_LAPPED;
        } else {
                watch->lapped = false;
                watch->last = ret->version->rev;
                ret->cut = sb_stamp(handle, ret->version);
                ret->old = sb_op_watch_replaced(handle, ret->version);
                sb_guard_set(handle, guard, sb_offset_of(&handle->segment, ret->version));
                if (ret->old)
                        sb_guard_set(handle, old_guard, sb_offset_of(&handle->segment, ret->old));
        }
        sb_unpin(handle);
        return watched;
}

bool sb_op_watch_has(struct sb_handle *handle, const struct sb_op_watch *watch)
{
        struct newest newest;
        bool has;

        sb_pin(handle);
        has = watch_newest(handle, watch, &newest);
        sb_unpin(handle);
        return has;
}

bool sb_op_watch_skip(struct sb_handle *handle, struct sb_op_watch *watch)
{
        struct newest newest;
        bool has;

        sb_pin(handle);
        has = watch_newest(handle, watch, &newest);
        if (has)
                watch->last = newest.version->rev;
        sb_unpin(handle);
        return has;
}
