/* A watch of one key: beginning, looking, ending; see watch.h. */

#include "ring/op/watch.h"

#include <errno.h>

#include "ring/op/anchor.h"
#include "ring/op/make.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/hint.h"
#include "shm/notify/queue.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/work.h"

/* Each further round means that another process got on: a key went, a ring was closed, the last
 * entry was taken. So many in a row mean that the segment is damaged. */
#ifndef SB_WATCH_ROUNDS_MAX
#define SB_WATCH_ROUNDS_MAX 1024u
#endif

#define AGAIN (-1) /* look again; otherwise 0 or a result */

/* What a block is to be: a ring, more watchers, or more slots. */
enum form { RING, WATCHERS, SLOTS, WANTS };

/* A watch on its way. */
struct beginning {
        const void *key;
        uint32_t key_len, bit, depth;
        uint32_t want_count; /* of a watch that drops; else 0 */
        uint32_t queue;      /* slots of its row, of a prefix */
        uint64_t hash;
        uint64_t block;    /* taken; 0: none */
        enum form form;    /* what it is taken for */
        enum form missing; /* where the answer is AGAIN */
        bool hints;        /* the ring is a prefix's */
};

/* ---- beginning ---- */

static struct sb_ring_form watch_form(const struct beginning *begin)
{
        switch (begin->form) {
        case WATCHERS:
                return (struct sb_ring_form){.watcher_count = SB_WATCH_ENTRIES};
        case SLOTS:
                return (struct sb_ring_form){.slot_count = begin->depth, .hints = begin->hints};
        case WANTS:
                return (struct sb_ring_form){.slot_count = begin->queue,
                        .watcher_count = 1,
                        .want_count = begin->want_count,
                        .hints = begin->hints};
        default:
                return (struct sb_ring_form){.slot_count = begin->depth,
                        .watcher_count = SB_WATCH_ENTRIES,
                        .hints = begin->hints};
        }
}

static int watch_take_block(struct sb_handle *handle, const struct beginning *begin, uint64_t *ret)
{
        uint64_t size = sb_ring_size(watch_form(begin));
        int r;

        if (size > handle->segment.value_len_max)
                return -E2BIG;
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
        struct sb_ring_form of = watch_form(begin);

        begin->missing = form;
        if (!begin->block || begin->form != form)
                return AGAIN;
        sb_ring_fill(handle, begin->block, sb_offset_of(&handle->segment, node), &of);
        if (!sb_cas64_full(link, 0, begin->block)) { /* R:publish > A:publish. */
                sb_ring_retire(handle, node);        /* if it is a closed one */
                return AGAIN;
        }
        begin->block = 0;
        return 0;
}

/* Whether the ring has enough slots: of a prefix, in one row. */
static bool watch_is_deep(struct sb_handle *handle, const struct beginning *begin,
        struct sb_node *node, struct sb_op_watch *watch)
{
        watch->row = watch->ring;
        /* A prefix's ring without slots is damage, which its caller finds. */
        if (SB_FAULT(DEPTH_LEFT_OUT) || (begin->hints && watch->ring.slot_count < 2))
                return true;
        return begin->hints ? sb_hint_row(handle, &watch->ring, begin->depth, &watch->row)
                            : sb_ring_depth(handle, node) >= begin->depth;
}

/* The ring of the key's node, with enough slots: the one that it has, or a new one. Return: 0;
 * AGAIN: a block is to be taken first, or another one came in between. */
static int watch_ring(struct sb_handle *handle, struct beginning *begin, struct sb_node *node,
        struct sb_op_watch *watch)
{
        struct sb_ring_view *ret = &watch->ring;

        if (!sb_pin_load(handle, &node->ring) &&
                watch_publish(handle, begin, RING, &node->ring, node))
                return AGAIN;
        /* It went since, and perhaps another one came; or what is there is none, in each round.
         * Fault RING_GONE_DAMAGED: another one is taken for that. */
        if (!sb_ring_of(handle, node, ret))
                return SB_FAULT(RING_GONE_DAMAGED) && sb_pin_load(handle, &node->ring) ? -EIO
                                                                                       : AGAIN;
        if (watch_is_deep(handle, begin, node, watch))
                return 0;
        (void)watch_publish(handle, begin, SLOTS, sb_ring_last(handle, ret), node);
        return watch_is_deep(handle, begin, node, watch) ? 0 : AGAIN;
}

/* The same for a watch that drops, in a block of its own. */
static int watch_enter_wants(struct sb_handle *handle, struct beginning *begin,
        struct sb_node *node, struct sb_op_watch *watch)
{
        if (!sb_ring_enter_wants(
                    handle, &watch->ring, begin->bit, begin->want_count, &watch->wants)) {
                (void)watch_publish(handle, begin, WANTS, sb_ring_last(handle, &watch->ring), node);
                return AGAIN;
        }
        watch->entry = watch->wants.watchers;
        /* The block may have room for more. What a queue's words say: notify/queue.h. */
        if (!begin->hints)
                watch->wants.want_count = begin->want_count;
        return 0;
}

/* Enters the watch among the watchers. Return: 0, AGAIN. */
static int watch_enter(struct sb_handle *handle, struct beginning *begin, struct sb_node *node,
        struct sb_op_watch *watch)
{
        if (begin->want_count)
                return watch_enter_wants(handle, begin, node, watch);
        if (sb_ring_enter(handle, &watch->ring, begin->bit, &watch->entry))
                return 0;
        if (watch_publish(handle, begin, WATCHERS, sb_ring_last(handle, &watch->ring), node))
                return AGAIN;
        return sb_ring_enter(handle, &watch->ring, begin->bit, &watch->entry) ? 0 : AGAIN;
}

/* As sb_stamp_lasts(): what lies under an intent that was undecided may be long superseded, where
 * what it replaced was taken out since. Fault WATCH_OLD_BELOW: not asked. */
static bool watch_lasts(struct sb_handle *handle, const struct sb_word64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled)
{
        return SB_FAULT(WATCH_OLD_BELOW) || sb_stamp_lasts(handle, cell, word, head, settled);
}

/* The key's cell as it is now, and its effective version: what is not decided comes later, and is
 * told then. Return: false: the key is not there. */
static bool watch_find_key(struct sb_handle *handle, const struct beginning *begin,
        struct sb_spot *ret_spot, struct sb_version **ret_effective)
{
        struct sb_settled settled;

        /* Lock-free: another round means that another process wrote, or ended a transaction. */
        while (sb_key_find(handle, begin->key, begin->key_len, begin->hash, ret_spot)) {
                *ret_effective = sb_stamp_effective(handle, ret_spot->head, &settled);
                if (sb_damage_met(handle))
                        return *ret_effective;
                if (*ret_effective && watch_lasts(handle, ret_spot->cell, ret_spot->word,
                                              ret_spot->head, settled))
                        return true;
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
        while (watch_find_key(handle, begin, &spot, &effective) && spot.head->node == watch->node) {
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

        if (!watch_find_key(handle, begin, &spot, &effective))
                return SB_E_NOT_FOUND;
        watch->node = spot.head->node;
        node = sb_node_at(&handle->segment, watch->node);
        if (!node)
                return -EIO;
        begin->missing = RING;
        r = watch_ring(handle, begin, node, watch);
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

static int watch_begin(struct sb_handle *handle, struct beginning *begin, struct sb_op_watch *ret)
{
        uint32_t round;
        int r = AGAIN;

        *ret = (struct sb_op_watch){0};
        /* Bound: result. -EIO: as SB_WATCH_ROUNDS_MAX says. */
        for (round = 0; r == AGAIN && round < SB_WATCH_ROUNDS_MAX; round++) {
                r = 0;
                if (begin->block && begin->form != begin->missing)
                        watch_give_back(handle, begin);
                begin->form = begin->missing;
                if (!begin->block && round)
                        r = watch_take_block(handle, begin, &begin->block);
                if (r)
                        break;
                sb_pin(handle);
                r = watch_try(handle, begin, ret);
                sb_unpin(handle);
                if (r == SB_E_NOT_FOUND) {
                        watch_give_back(handle, begin);
                        r = sb_make_key(
                                handle, begin->key, begin->key_len, begin->hash, SB_SLAB_LARGER);
                        if (!r)
                                r = AGAIN;
                        else
                                sb_limbo_leave(handle); /* perhaps of a node without a cell */
                }
        }
        watch_give_back(handle, begin);
        return r == AGAIN ? -EIO : r;
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

        return watch_begin(handle, &begin, ret);
}

int sb_op_watch_begin_queue(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t bit, uint32_t slot_count, uint32_t room, struct sb_op_watch *ret)
{
        struct beginning begin = {.key = key,
                .hints = true,
                .key_len = key_len,
                .bit = bit,
                .depth = slot_count,
                .want_count = sb_queue_words(room),
                .queue = sb_queue_slots(room),
                .hash = sb_hash_key(key, key_len, handle->segment.seed)};

        return watch_begin(handle, &begin, ret);
}

void sb_op_watch_end(struct sb_handle *handle, struct sb_op_watch *watch)
{
        /* R:want > A:want. Before the entry: the next watch there wants nothing yet. */
        if (watch->wants.want_count)
                sb_store_release(&watch->wants.ring->state, 0);
        /* R:watcher > A:watcher. From here on the ring may go. */
        sb_store_release(watch->entry, 0);
        /* A sweep of the engine's finds the ring without a watch. */
        sb_limbo_leave(handle);
}

/* ---- looking ---- */

/* The next committed version down the chain, or NULL. *trimmed: set where one went in between. */
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
                /* A:stamp. An aborted one counts for nothing, and the original of a moving one. */
                if (sb_load_acquire(&next->stamp) != SB_STAMP_ABORTED && next->rev < version->rev)
                        return next;
                here = next;
        }
        return NULL;
}

/* Where the walk down to revision @want begins: at the first later one that a slot may be followed
 * to, or one near to it, by steps that double; else at @newest. */
static struct sb_version *watch_begin_walk(struct sb_handle *handle,
        const struct sb_op_watch *watch, struct sb_version *newest, uint64_t want)
{
        uint64_t gone = sb_ring_gone(&watch->ring), from = want > gone ? want : gone, step;
        struct sb_version *version;

        /* A ring that is not open says that all is gone. */
        for (step = 1; from < newest->rev && step < newest->rev - from; step *= 2) {
                version = sb_ring_find(handle, &watch->ring, from + step);
                if (version)
                        return version;
        }
        return newest;
}

/* The oldest version of the chain, from @newest on, that is not older than revision @want.
 * *trimmed: whether one may have been taken out right below it. @descent: of this walk. */
static struct sb_version *watch_oldest(struct sb_handle *handle, struct sb_version *newest,
        uint64_t want, bool *ret_trimmed, struct sb_descent *descent)
{
        struct sb_version *version = newest, *next;

        for (;;) {
                *ret_trimmed = false;
                if (version->rev == want)
                        return version;
                next = watch_below(handle, version, ret_trimmed);
                if (!next || next->rev < want)
                        return version;
                sb_anchor_pass(&handle->segment, descent, version);
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
        ret->version = NULL;
        /* Lock-free: another round means that the transaction at the head has ended. */
        do {
                ret->word = sb_pin_load(handle, watch->cell);
                ret->head = sb_version_at(&handle->segment, ret->word & SB_OFFSET_MASK);
                /* The reader wants the value, too, which begins in the next line as a rule. */
                if (ret->head)
                        sb_prefetch((const unsigned char *)ret->head + SB_LINE);
                if (!ret->head || !sb_version_fits(&handle->segment, ret->head))
                        return false;
                ret->version = sb_stamp_effective(handle, ret->head, &ret->settled);
        } while (SB_UNLIKELY(ret->settled.outcome == SB_OUTCOME_UNDECIDED) &&
                 !watch_lasts(handle, watch->cell, ret->word, ret->head, ret->settled));
        return ret->version && SB_SHAPE_KIND(ret->version->shape) != SB_VERSION_PLACEHOLDER &&
               ret->version->rev > watch->last;
}

/* How many revisions behind the last one the key was forgotten, of which nothing tells any more; 0:
 * it was not. @newest: where watch_newest() found nothing. A placeholder's revision is as high as
 * those of all lives before. Fault LIFE_UNSAID: it never was. */
static uint64_t watch_forgotten(const struct sb_op_watch *watch, const struct newest *newest)
{
        const struct sb_version *version = newest->version;
        bool is = version && SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER &&
                  watch->last && !SB_FAULT(LIFE_UNSAID);

        return is && version->rev > watch->last ? version->rev - watch->last : 0;
}

/* The version of revision @want, or else the oldest above it. *trimmed: as of watch_oldest(). */
static struct sb_version *watch_at(struct sb_handle *handle, struct sb_op_watch *watch,
        const struct newest *newest, uint64_t want, bool *ret_trimmed)
{
        struct sb_version *version = sb_ring_find(handle, &watch->ring, want);
        struct sb_descent descent = {0};

        *ret_trimmed = false;
        if (version) {
                if (watch->anchors)
                        sb_anchor_drop(handle, watch->anchors);
                return version;
        }
        if (watch->anchors)
                version = sb_anchor_find(handle, watch->anchors, want);
        if (!version)
                version = watch_begin_walk(handle, watch, newest->version, want);
        version = watch_oldest(handle, version, want, ret_trimmed, &descent);
        if (watch->anchors)
                sb_anchor_keep(handle, watch->anchors, &descent);
        watch->walked = descent.steps;
        return version;
}

/* The version of the change behind the last revision; NULL with some missed: the key was forgotten
 * behind these. *ret_missed: how many are lost before it. */
static struct sb_version *watch_find_change(
        struct sb_handle *handle, struct sb_op_watch *watch, uint64_t *ret_missed)
{
        uint64_t want = watch->last + 1;
        struct sb_version *version;
        struct newest newest;
        bool trimmed;

        /* Lock-free: a look that does not last means that another process wrote. */
        do {
                if (!watch_newest(handle, watch, &newest)) {
                        *ret_missed = watch_forgotten(watch, &newest);
                        return NULL;
                }
                /* A watcher that keeps up needs no ring. */
                if (newest.version->rev == want)
                        return newest.version;
                version = watch_at(handle, watch, &newest, want, &trimmed);
                if (version->rev == want || (!trimmed && (!watch->last || SB_FAULT(LIFE_UNSAID))))
                        return version; /* behind no revision it misses none of another life */
        } while (!sb_stamp_lasts(handle, watch->cell, newest.word, newest.head, newest.settled));
        *ret_missed = version->rev - want;
        return trimmed ? version : NULL; /* NULL: it is the first one of another life */
}

/* ---- a watch that drops ---- */

/* The place of what was read, or is lost, takes another revision: the first one behind the latest
 * that was wanted and the newest that is there. */
static void watch_want_next(
        struct sb_handle *handle, struct sb_op_watch *watch, struct newest *newest)
{
        uint64_t rev, spare = watch->ring.slot_count / 2;

        /* Lock-free: a further round means that other processes wrote half as many changes as the
         * ring keeps, between the look and the wish. */
        do {
                if (newest->version->rev > watch->latest) {
                        watch->dropped += newest->version->rev - watch->latest;
                        watch->latest = newest->version->rev;
                }
                rev = watch->latest + 1;
                sb_ring_want_next(&watch->wants, watch->passed, rev);
        } while (watch_newest(handle, watch, newest) && newest->version->rev >= rev + spare);
        watch->latest = rev;
        sb_ring_want_from(&watch->wants, ++watch->passed);
}

/* The version of the next revision that is wanted. What is lost is dropped. */
static struct sb_version *watch_find_wanted(
        struct sb_handle *handle, struct sb_op_watch *watch, uint64_t *ret_missed)
{
        struct sb_version *version;
        struct newest newest;
        uint64_t want;
        bool trimmed;

        /* Lock-free: another round means that memory was short, or that another process wrote. */
        for (;;) {
                want = sb_ring_wanted(&watch->wants, watch->passed);
                if (!watch_newest(handle, watch, &newest) || newest.version->rev < want)
                        return NULL;
                version = watch_at(handle, watch, &newest, want, &trimmed);
                if (version->rev == want)
                        break;
                if (!sb_stamp_lasts(handle, watch->cell, newest.word, newest.head, newest.settled))
                        continue;
                watch->dropped++;
                watch_want_next(handle, watch, &newest);
        }
        *ret_missed = want - watch->last - 1;
        return version;
}

/* A pruner looks at the whole chain: once for so many parts of the places of a watch that drops. */
#define PASS_PARTS 8u

/* Note the cell for a pruner, which looks when a batch of such is noted. */
static void watch_note(struct sb_handle *handle, const struct sb_op_watch *watch)
{
        const struct sb_node *node = sb_node_at(&handle->segment, watch->node);

        if (node)
                sb_limbo_later(handle, sb_pin_load(handle, &node->cell), SB_STAMP_PLACEHOLDER + 1);
}

/* Behind what was read: its place is free, and a pruner may take it. */
static void watch_pass(
        struct sb_handle *handle, struct sb_op_watch *watch, const struct sb_version *version)
{
        uint64_t rev = version->rev;
        struct newest newest;

        /* It gives the version itself, at least: the watch stands before it still. */
        if (!watch_newest(handle, watch, &newest))
                return;
        watch_want_next(handle, watch, &newest);
        if (newest.version->rev - rev < watch->ring.slot_count)
                return;
        watch->passed_deep++;
        if (watch->passed_deep % (1 + watch->wants.want_count / (PASS_PARTS * SB_PENDING_BATCH)) ==
                0)
                watch_note(handle, watch);
}

/* All was read. Return: whether a pruner is to look now, for none would soon. */
static bool watch_pass_all(struct sb_handle *handle, struct sb_op_watch *watch)
{
        if (watch->passed_deep < SB_PENDING_BATCH)
                return false;
        watch->passed_deep = 0;
        watch_note(handle, watch);
        return true;
}

int sb_op_watch_begin_dropping(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t bit, uint32_t depth, uint32_t want_count, uint64_t after, struct sb_op_watch *ret)
{
        struct beginning begin = {.key = key,
                .key_len = key_len,
                .bit = bit,
                .depth = depth > want_count ? depth : want_count,
                .want_count = want_count,
                .hash = sb_hash_key(key, key_len, handle->segment.seed)};
        struct newest newest;
        int r = watch_begin(handle, &begin, ret);
        uint32_t i;

        if (r)
                return r;
        if (after != UINT64_MAX)
                ret->last = after;
        sb_pin(handle);
        /* Lock-free: a further round means that others wrote much meanwhile; then it begins later.
         */
        do {
                if (after == UINT64_MAX && watch_newest(handle, ret, &newest))
                        ret->start = ret->last = newest.version->rev;
                ret->latest = ret->last + ret->wants.want_count;
                for (i = 0; i < ret->wants.want_count; i++)
                        /* R:want. It counts when sb_ring_want() says so. */
                        sb_store_release(&ret->wants.wants[i], ret->last + 1 + i);
                sb_ring_want_from(&ret->wants, 0);
                sb_ring_want(&ret->wants);
        } while (after == UINT64_MAX && watch_newest(handle, ret, &newest) &&
                 newest.version->rev > ret->last + ret->ring.slot_count / 2);
        sb_unpin(handle);
        return 0;
}

uint64_t sb_op_watch_dropped(struct sb_handle *handle, const struct sb_op_watch *watch)
{
        uint64_t dropped = watch->dropped;
        struct newest newest;

        if (!watch->wants.want_count)
                return 0;
        sb_pin(handle);
        if (watch_newest(handle, watch, &newest) && newest.version->rev > watch->latest)
                dropped += newest.version->rev - watch->latest;
        sb_unpin(handle);
        return dropped;
}

/* ---- a look ---- */

static struct sb_version *watch_find(
        struct sb_handle *handle, struct sb_op_watch *watch, uint64_t *ret_missed)
{
        *ret_missed = 0;
        return watch->wants.want_count ? watch_find_wanted(handle, watch, ret_missed)
                                       : watch_find_change(handle, watch, ret_missed);
}

enum sb_watched sb_op_watch_look(struct sb_handle *handle, struct sb_op_watch *watch,
        uint32_t guard, uint32_t old_guard, struct sb_op_change *ret)
{
        enum sb_watched watched = SB_WATCHED_CHANGE;
        bool prunes = false;

        sb_pin(handle);
        ret->version = watch_find(handle, watch, &ret->missed);
        if (!ret->version) {
                watched = ret->missed ? SB_WATCHED_LAPPED : SB_WATCHED_NOTHING;
                watch->last += ret->missed;
                prunes = watch_pass_all(handle, watch);
        } else if (ret->missed && !watch->lapped && !watch->wants.want_count) {
                watch->lapped = true;
                watched = SB_WATCHED_LAPPED;
        } else {
                watch->lapped = false;
                ret->cut = sb_stamp(handle, ret->version);
                ret->old = sb_op_watch_replaced(handle, ret->version);
                sb_guard_set(handle, guard, sb_offset_of(&handle->segment, ret->version));
                if (ret->old)
                        sb_guard_set(handle, old_guard, sb_offset_of(&handle->segment, ret->old));
                if (watch->wants.want_count)
                        watch_pass(handle, watch, ret->version);
                watch->last = ret->version->rev;
        }
        sb_unpin(handle);
        if (prunes)
                sb_reclaim_pending(handle);
        if (watch->wants.want_count)
                sb_work_due(handle);
        return watched;
}

bool sb_op_watch_has(struct sb_handle *handle, struct sb_op_watch *watch)
{
        struct newest newest;
        uint64_t missed;
        bool has;

        sb_pin(handle);
        has = watch->wants.want_count
                      ? (bool)watch_find_wanted(handle, watch, &missed)
                      : watch_newest(handle, watch, &newest) || watch_forgotten(watch, &newest) > 0;
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
