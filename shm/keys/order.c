/*
 * The ordered index; see order.h.
 *
 * Everything begins with a way down the levels to the spot where a key belongs, which takes out the
 * marked nodes that it passes. A lost CAS means another way down.
 */

#include "shm/keys/order.h"

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"

#define KEYS_A_PIN 64u

/* Where a key belongs at each level: the link that leads past it, and the node behind. */
struct spot {
        struct sb_word64 *link[SB_HEIGHT_MAX];
        struct sb_node *behind[SB_HEIGHT_MAX];
        struct sb_node *before; /* at level 0; NULL: it is the first */
};

/* Never step down from a node that left meanwhile: its links lead past what came since. */
static bool order_may_step_down(uint64_t link)
{
        return !(link & SB_PREV_MARKED) || SB_FAULT(WALK_STEPS_DOWN);
}

enum descent { THERE, CHANGED, DAMAGED };

/* Go down the levels to where @key belongs, taking out marked nodes on the way. CHANGED: another
 * process changed a link first, look again. */
static enum descent order_descend(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after, struct spot *ret)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_word64 *tower = segment->super->order;
        uint64_t left = sb_damage_bound(segment);
        int level;

        ret->before = NULL;
        for (level = (int)segment->height_max - 1; level >= 0; level--) {
                uint64_t word = sb_pin_load(handle, &tower[level]);

                if (!order_may_step_down(word))
                        return CHANGED;
                for (;;) {
                        struct sb_node *node = sb_node_at(segment, word & SB_OFFSET_MASK);
                        uint64_t next;
                        int order;

                        if (!(word & SB_OFFSET_MASK) || !node || sb_once(node->height) <= level) {
                                ret->behind[level] = NULL;
                                break;
                        }
                        /* Bound: damage. Levels that go round. */
                        if (!sb_damage_step(handle, &left))
                                return DAMAGED;
                        next = sb_pin_load(handle, &node->next[level]);
                        if (next & SB_PREV_MARKED) {
                                /* R:publish > A:publish. What lies behind the marked node. */
                                if (!sb_cas64_full(&tower[level], word & SB_OFFSET_MASK,
                                            next & SB_OFFSET_MASK))
                                        return CHANGED;
                                word = next & SB_OFFSET_MASK;
                                continue;
                        }
                        order = sb_node_compare(segment, node, key, key_len);
                        if (order > 0 || (order == 0 && !after)) {
                                ret->behind[level] = node;
                                break;
                        }
                        ret->before = node;
                        tower = node->next;
                        word = next;
                }
                ret->link[level] = &tower[level];
        }
        return THERE;
}

/* Find where @key belongs. Return: false: the segment is damaged, and nothing is found. */
static bool order_find_spot(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after, struct spot *ret)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        enum descent descent;
        uint32_t level;

        /* Bound: damage. Each round means that another process changed a link, or that a link is
         * marked that leads to no node. */
        do {
                descent = order_descend(handle, key, key_len, after, ret);
                if (descent == THERE)
                        return true;
                handle->counters.retried++;
        } while (descent == CHANGED && sb_damage_step(handle, &left));
        ret->before = NULL;
        for (level = 0; level < SB_HEIGHT_MAX; level++) {
                ret->link[level] = &handle->segment.super->order[level];
                ret->behind[level] = NULL;
        }
        return false;
}

struct sb_node *sb_order_seek(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after)
{
        struct spot spot;

        (void)order_find_spot(handle, key, key_len, after, &spot);
        return spot.behind[0];
}

struct sb_node *sb_order_below(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive)
{
        struct spot spot;

        (void)order_find_spot(handle, key, key_len, inclusive, &spot);
        return spot.before;
}

/* The node of which the link at @level leads past the key; NULL: the index begins with it. */
static struct sb_node *order_before(
        const struct sb_segment *segment, const struct spot *spot, uint32_t level)
{
        struct sb_word64 *tower = spot->link[level] - level;

        return tower == segment->super->order ? NULL
                                              : (struct sb_node *)((unsigned char *)tower -
                                                                   offsetof(struct sb_node, next));
}

/* Where a way of the run begins, and what it has ahead. */
static struct sb_node *order_run_begin(struct sb_handle *handle, const struct spot *spot,
        uint32_t level, struct sb_ahead *ret_ahead)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_node *node = order_before(segment, spot, level);
        struct sb_word64 *links = node ? node->next : segment->super->order;

        /* Another process may take the node behind out meanwhile: it is a hint. */
        sb_ahead_begin_at(ret_ahead, SB_AHEAD_NEAR,
                sb_node_at(segment, sb_pin_load(handle, &links[SB_AHEAD_NEAR]) & SB_OFFSET_MASK));
        return node ? node : sb_node_at(segment, sb_pin_load(handle, &links[0]) & SB_OFFSET_MASK);
}

#define RUN_STEPS 256u /* of a way; most are a tenth as long */

uint32_t sb_order_run_below(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool inclusive, uint32_t level, struct sb_node *ret_nodes[SB_ORDER_RUN])
{
        struct sb_node *ring[SB_ORDER_RUN], *node;
        struct sb_ahead ahead;
        uint32_t count = 0, i;
        struct spot spot;
        bool gone = false;

        if (!order_find_spot(handle, key, key_len, inclusive, &spot) || !spot.before)
                return 0;
        /* Bound: result. The node before the key alone is the run. */
        for (node = order_run_begin(handle, &spot, level, &ahead);
                node && node != spot.behind[0] && !gone && count < RUN_STEPS; count++) {
                ring[count % SB_ORDER_RUN] = node;
                if (!sb_ahead_pass(&handle->segment, &ahead))
                        sb_ahead_nodes(&handle->segment, &ahead, node);
                node = sb_order_next(handle, node, &gone);
        }
        if (gone || node != spot.behind[0] || !count) {
                ret_nodes[0] = spot.before;
                return 1;
        }
        for (i = count < SB_ORDER_RUN ? count : SB_ORDER_RUN; i; i--)
                *ret_nodes++ = ring[(count - i) % SB_ORDER_RUN];
        return count < SB_ORDER_RUN ? count : SB_ORDER_RUN;
}

struct sb_node *sb_order_find(struct sb_handle *handle, const void *key, uint32_t key_len)
{
        struct sb_node *node = sb_order_seek(handle, key, key_len, false);

        return node && !sb_node_compare(&handle->segment, node, key, key_len) ? node : NULL;
}

/* Link the upper levels of a node that is in at level 0. A kill in here leaves fewer shortcuts, or
 * one that was made after the mark; so does a maker that goes when it finds a higher level marked.
 * The second look before the node is freed takes that out. */
static void order_link_above(
        struct sb_handle *handle, struct sb_node *node, struct sb_node_key key, struct spot *spot)
{
        uint64_t own = sb_offset_of(&handle->segment, node);
        uint32_t level;

        for (level = 1; level < key.height; level++) {
                for (;;) {
                        uint64_t next = sb_pin_load(handle, &node->next[level]), wanted;

                        if (next & SB_PREV_MARKED)
                                return;
                        wanted = spot->behind[level]
                                         ? sb_offset_of(&handle->segment, spot->behind[level])
                                         : 0;
                        if (spot->behind[level] == node)
                                break;
                        /* R:publish > A:publish, both: the node is complete, and so is what its
                         * link leads to. */
                        if (next != wanted && !sb_cas64_full(&node->next[level], next, wanted))
                                continue;
                        /* R:publish > A:publish. As above. */
                        if (sb_cas64_full(spot->link[level], wanted, own))
                                break;
                        if (!order_find_spot(handle, key.bytes, key.len, false, spot) ||
                                spot->behind[0] != node)
                                return;
                }
        }
        /* A:order-mark. Marked meanwhile: what was linked after the remover passed is taken out
         * again. */
        if (sb_load_acquire(&node->next[0]) & SB_PREV_MARKED)
                (void)order_find_spot(handle, key.bytes, key.len, true, spot);
}

struct sb_node *sb_order_insert(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        struct spot spot;
        uint32_t level;

        for (;;) {
                if (!order_find_spot(handle, key.bytes, key.len, false, &spot))
                        return NULL;
                if (spot.behind[0] &&
                        !sb_node_compare(&handle->segment, spot.behind[0], key.bytes, key.len))
                        return spot.behind[0];
                for (level = 0; level < key.height; level++)
                        /* Relaxed: the node is private until the CAS publishes it. */
                        sb_store_relaxed(&node->next[level],
                                spot.behind[level]
                                        ? sb_offset_of(&handle->segment, spot.behind[level])
                                        : 0);
                /* R:publish > A:publish. The node is complete. */
                if (sb_cas64_full(spot.link[0],
                            spot.behind[0] ? sb_offset_of(&handle->segment, spot.behind[0]) : 0,
                            sb_offset_of(&handle->segment, node)))
                        break;
        }
        order_link_above(handle, node, key, &spot);
        return node;
}

/* The level that a remover marks as its @i-th of @height, from 1. From the top down: a process that
 * found the node unmarked at one level was there before the node was marked at the level below. */
static uint32_t order_level_to_mark(uint32_t height, uint32_t i)
{
        return SB_FAULT(WALK_STEPS_DOWN) ? i - 1 : height - i;
}

static void order_mark(struct sb_handle *handle, struct sb_node *node, uint32_t level)
{
        for (;;) {
                uint64_t next = sb_pin_load(handle, &node->next[level]);

                /* R:order-mark > A:order-mark. */
                if ((next & SB_PREV_MARKED) ||
                        sb_cas64_full(&node->next[level], next, next | SB_PREV_MARKED))
                        return;
        }
}

/* Mark a node at all its levels, then pass it and so take it out. The way leads past the key: at an
 * upper level a new node of the same key may stand before this one. */
static bool order_mark_and_pass(
        struct sb_handle *handle, struct sb_node *node, struct sb_node_key key, struct spot *spot)
{
        uint32_t i;

        for (i = 1; i <= key.height; i++)
                order_mark(handle, node, order_level_to_mark(key.height, i));
        return order_find_spot(handle, key.bytes, key.len, !SB_FAULT(ORDER_STOPS_AT_KEY), spot);
}

/* Fault ORDER_UNMARKED: links are set (R:publish) past a node that can still be linked behind. */
static bool order_unlink_unmarked(
        struct sb_handle *handle, struct sb_node *node, struct sb_node_key key, struct spot *spot)
{
        int level;

        (void)order_find_spot(handle, key.bytes, key.len, false, spot);
        for (level = (int)key.height - 1; level >= 0; level--)
                if (spot->behind[level] == node)
                        /* R:publish, over a node without a mark: that is the fault. */
                        sb_cas64_full(spot->link[level], sb_offset_of(&handle->segment, node),
                                sb_pin_load(handle, &node->next[level]));
        return true;
}

bool sb_order_remove(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        struct spot spot;

        if (!key.bytes)
                return true;
        return SB_FAULT(ORDER_UNMARKED) ? order_unlink_unmarked(handle, node, key, &spot)
                                        : order_mark_and_pass(handle, node, key, &spot);
}

struct sb_node *sb_order_next(struct sb_handle *handle, struct sb_node *node, bool *ret_gone)
{
        uint64_t word = sb_pin_load(handle, &node->next[0]);

        *ret_gone = word & SB_PREV_MARKED;
        return word & SB_OFFSET_MASK ? sb_node_at(&handle->segment, word & SB_OFFSET_MASK) : NULL;
}

struct sb_node *sb_order_begin(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool after, struct sb_ahead *ret_ahead)
{
        struct spot spot;

        (void)order_find_spot(handle, key, key_len, after, &spot);
        sb_ahead_begin_at(ret_ahead, SB_AHEAD_NEAR, spot.behind[SB_AHEAD_NEAR]);
        return spot.behind[0];
}

void sb_order_fetch_more(
        struct sb_handle *handle, struct sb_ahead *ahead, const struct sb_node *node)
{
        const struct sb_segment *segment = &handle->segment;

        if (ahead->level == 0)
                sb_ahead_climb(segment, ahead, node, SB_AHEAD_NEAR);
        else if (ahead->lost || ahead->level == SB_AHEAD_FAR || ahead->fetches == SB_AHEAD_TIMES)
                sb_ahead_climb(segment, ahead, node, SB_AHEAD_FAR);
        sb_ahead_nodes(segment, ahead, node);
        (void)sb_ahead_pass(segment, ahead);
}

bool sb_order_walk(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        sb_order_visit *visit, void *context)
{
        unsigned char at[SB_KEY_LEN_MAX];
        uint32_t at_len = prefix_len;
        bool after = false, going = true;

        if (prefix_len)
                memcpy(at, prefix, prefix_len);
        while (going) {
                struct sb_node *node;
                uint32_t i;

                sb_pin(handle);
                node = sb_order_seek(handle, at, at_len, after);
                /* Bound: slice. The walk goes on under another pin. */
                for (i = 0; i < KEYS_A_PIN; i++) {
                        struct sb_node_key key = {0};
                        bool gone;

                        if (node)
                                key = sb_node_key(&handle->segment, node);
                        going = key.bytes && key.len >= prefix_len &&
                                !memcmp(key.bytes, prefix_len ? prefix : "", prefix_len);
                        if (!going)
                                break;
                        /* Keys ascend; in a damaged segment the walk could go round for ever. */
                        if (after && sb_bytes_compare(key.bytes, key.len, at, at_len) <= 0) {
                                sb_damage_note(handle);
                                going = false;
                                break;
                        }
                        visit(handle, node, context);
                        at_len = key.len;
                        memcpy(at, key.bytes, at_len);
                        after = true;
                        node = sb_order_next(handle, node, &gone);
                        if (gone)
                                break;
                }
                sb_unpin(handle);
        }
        return !sb_damage_met(handle);
}
