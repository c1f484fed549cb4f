/*
 * The ordered index against a sorted array of its nodes: the test makes nodes itself, and enters
 * into both what it inserts, and takes out of both what it removes.
 */
#ifndef SB_TEST_UNIT_ORDER_MODEL_H
#define SB_TEST_UNIT_ORDER_MODEL_H

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define NODES_MAX 2048u

/* The model: what is in the index, ascending. */
static struct sb_node *sorted[NODES_MAX];
static uint32_t sorted_count;

static inline struct sb_node *make_node(const void *key, uint32_t key_len)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(key_len), SB_SLAB_LARGER, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        node->key_len = (uint16_t)key_len;
        memcpy(node->key, key, key_len);
        return node;
}

static inline struct sb_node *make_text(const char *key)
{
        return make_node(key, (uint32_t)strlen(key));
}

/* The key's node, behind the insertion of @node. */
static inline struct sb_node *insert(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node *found = NULL;

        return node && !sb_order_insert(handle, node, SB_SLAB_LARGER, NULL, &found) ? found : NULL;
}

static inline bool remove_node(struct sb_handle *handle, struct sb_node *node)
{
        sb_store_relaxed(&node->cell, SB_NODE_GONE);
        return sb_order_remove(handle, node);
}

static inline int compare_to(const struct sb_node *node, const void *key, uint32_t key_len)
{
        return sb_bytes_compare(node->key, node->key_len, key, key_len);
}

/* How many nodes of the model are below the key, or not above it. */
static inline uint32_t count_below(const void *key, uint32_t key_len, bool inclusive)
{
        uint32_t count = 0;

        while (count < sorted_count && compare_to(sorted[count], key, key_len) < inclusive)
                count++;
        return count;
}

static inline void model_insert(struct sb_node *node)
{
        uint32_t at = count_below(node->key, node->key_len, false);

        memmove(&sorted[at + 1], &sorted[at], (sorted_count - at) * sizeof(sorted[0]));
        sorted[at] = node;
        sorted_count++;
}

static inline void model_remove(uint32_t at)
{
        sorted_count--;
        memmove(&sorted[at], &sorted[at + 1], (sorted_count - at) * sizeof(sorted[0]));
}

/* What is below a word of the index: keys of the model from *at on, in their order; branches that
 * are deeper, and of two at least, and not larger than they need be; each anchor leads on. */
static inline bool is_right_below(uint64_t word, uint32_t depth, uint32_t *at)
{
        uint32_t symbols = 0, count = 0;
        struct sb_branch_view view;

        if (word & SB_SLOT_LEAF)
                return *at < sorted_count &&
                       sb_offset_of(&writer.segment, sorted[(*at)++]) == (word & SB_OFFSET_MASK);
        if (!sb_branch_view(&writer.segment, word, depth, &view) ||
                !(sb_load_relaxed(&view.branch->slot[view.anchor]) & SB_OFFSET_MASK) ||
                sb_load_relaxed(&view.branch->block.retire))
                return false;
        for (uint32_t symbol = 1; symbol <= SB_BRANCH_SYMBOLS; symbol++)
                for (uint32_t i = 0; i < view.slots; i++) {
                        uint64_t own = sb_load_relaxed(&view.branch->slot[i]);

                        if (SB_SLOT_SYMBOL(own) != symbol)
                                continue;
                        if (symbols >> symbol & 1 || (own & SB_SLOT_FROZEN))
                                return false;
                        symbols |= 1u << symbol;
                        count += (own & SB_OFFSET_MASK) != 0;
                        if ((own & SB_OFFSET_MASK) && !is_right_below(own, view.depth + 1, at))
                                return false;
                }
        return count > 1 && (view.slots == SB_BRANCH_FEW ||
                                    count > (view.slots == SB_BRANCH_MORE ? SB_BRANCH_FEW / 2
                                                                          : SB_BRANCH_MORE / 2));
}

static inline bool index_is_right(void)
{
        uint64_t root = sb_load_relaxed(&writer.segment.super->order);
        uint32_t at = 0;

        return (!(root & SB_OFFSET_MASK) || is_right_below(root, 0, &at)) && at == sorted_count;
}

/* A run of @most nodes, or all of @there. Where more branches lie below one another than a run
 * remembers, it may end before that, and says that there are more. */
static inline bool is_long_enough(const struct sb_order_run *run, uint32_t there, uint32_t most)
{
        uint32_t count = there < most ? there : most;

        return run->count <= count && (run->count || !there) && (run->more || run->count == there);
}

/* A run from a key on is what the model has there. */
static inline bool run_is_right(const void *key, uint32_t key_len, uint32_t most)
{
        uint32_t low = count_below(key, key_len, false), high = count_below(key, key_len, true), i;
        struct sb_order_run run;

        sb_order_take_run(&reader, key, key_len, true, false, most, &run);
        if (!is_long_enough(&run, sorted_count - low, most))
                return false;
        for (i = 0; i < run.count; i++)
                if (run.node[i] != sorted[low + i])
                        return false;
        sb_order_take_run(&reader, key, key_len, true, true, most, &run);
        if (!is_long_enough(&run, high, most))
                return false;
        for (i = 0; i < run.count; i++)
                if (run.node[i] != sorted[high - 1 - i])
                        return false;
        return true;
}

/* What seek, below and find say of a key is what the model says. */
static inline bool answers_are_right(const void *key, uint32_t key_len)
{
        uint32_t low = count_below(key, key_len, false), high = count_below(key, key_len, true);
        struct sb_node *first = low < sorted_count ? sorted[low] : NULL,
                       *second = high < sorted_count ? sorted[high] : NULL;

        return run_is_right(key, key_len, 1 + draw(SB_ORDER_RUN)) &&
               sb_order_seek(&reader, key, key_len, false) == first &&
               sb_order_seek(&reader, key, key_len, true) == second &&
               sb_order_below(&reader, key, key_len, false) == (low ? sorted[low - 1] : NULL) &&
               sb_order_below(&reader, key, key_len, true) == (high ? sorted[high - 1] : NULL) &&
               sb_order_find(&reader, key, key_len) == (high > low ? first : NULL);
}

static inline bool begin(uint64_t size)
{
        sorted_count = 0;
        draw_state = size;
        if (!make_bus(size))
                return false;
        sb_pin(&writer);
        sb_pin(&reader);
        return true;
}

/* Nodes "a", "b" and so on, in the index and in the model. */
static inline void make_letters(struct sb_node **nodes, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                const char key[] = {(char)('a' + i), 0};

                nodes[i] = make_text(key);
                CHECK(insert(&writer, nodes[i]) == nodes[i]);
                model_insert(nodes[i]);
        }
}

/* The branch below the root. */
static inline struct sb_branch_view root_branch(void)
{
        struct sb_branch_view view = {0};

        (void)sb_branch_view(
                &writer.segment, sb_load_relaxed(&writer.segment.super->order), 0, &view);
        return view;
}

#endif
