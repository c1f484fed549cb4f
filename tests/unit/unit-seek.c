/*
 * Reading the ordered index (shm/keys/seek.c): runs and walks of any length meet each key once and
 * in order, also of branches that lie deep; and damage ends them, and is told.
 */
#include <unistd.h>

#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "tests/unit/bus.h"
#include "tests/unit/order-model.h"

#define PATIENCE_S 30u

/* Each key is the beginning of the next one: as many branches as keys lie below one another, more
 * than a run remembers. */
static void test_a_run_goes_through_more_levels_than_it_remembers(void)
{
        enum { KEYS = 300 };
        static unsigned char key[KEYS];
        uint32_t i;

        CHECK(begin(4 << 20));
        memset(key, 'x', sizeof(key));
        for (i = 0; i < KEYS; i++) {
                struct sb_node *node = make_node(key, (i * 7 + 3) % KEYS + 1);

                CHECK(insert(&writer, node) == node);
                model_insert(node);
        }
        CHECK(index_is_right());
        for (i = 0; i < KEYS; i++)
                CHECK(answers_are_right(key, i + 1));
        /* A key that differs in the second half of a byte goes on down all the same: where it
         * belongs is far above the end of its way. */
        for (i = 0; i < KEYS; i++)
                for (uint32_t k = 0; k < 2; k++) {
                        key[i] = k ? 'w' : 'y';
                        CHECK(answers_are_right(key, KEYS) && answers_are_right(key, i + 1));
                        CHECK(run_is_right(key, KEYS, SB_ORDER_RUN));
                        key[i] = 'x';
                }
        /* From the top down, too. */
        CHECK(run_is_right("y", 1, SB_ORDER_RUN) && run_is_right("", 0, SB_ORDER_RUN));
        while (sorted_count) {
                CHECK(remove_node(&writer, sorted[sorted_count / 2]));
                model_remove(sorted_count / 2);
                CHECK(index_is_right());
        }
        unmake_bus();
}

static void test_a_walk_by_next_meets_every_key_once_and_in_order(void)
{
        enum { KEYS = 1000 };
        struct sb_order_cursor cursor;
        struct sb_node *node;
        uint32_t i;

        CHECK(begin(2 << 20));
        for (i = 0; i < KEYS; i++) {
                char key[16];

                snprintf(key, sizeof(key), "%u", (i * 7919) % KEYS);
                node = make_text(key);
                CHECK(node && insert(&writer, node) == node);
                model_insert(node);
        }
        node = sb_order_first(&reader, "0", 0, false, &cursor);
        for (i = 0; i < KEYS; i++) {
                CHECK(node == sorted[i]);
                node = sb_order_next(&reader, &cursor);
        }
        CHECK(!node);
        unmake_bus();
}

/* What a walk met. Where @removes, it takes each node out as it meets it. */
struct met {
        uint32_t count, left;
        bool in_order, removes;
};

static void meet(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct met *met = context;

        (void)handle;
        met->in_order &= met->left > 0 && node == sorted[met->count];
        met->count++;
        met->left -= met->left > 0;
        if (met->removes)
                CHECK(remove_node(&writer, node));
}

/* Walks of 0 to 200 keys: fewer than a pin's, as many, and more; with neighbours on both sides. */
static void test_a_walk_meets_every_key_with_its_prefix_and_no_other(void)
{
        for (uint32_t keys = 0; keys<200; keys += keys> 60 && keys < 66 ? 1 : 13)
                for (uint32_t removes = 0; removes < 2; removes++) {
                        struct met met = {.left = keys, .in_order = true, .removes = removes};
                        static const char *others[] = {"o", "oz", "q", "P", "p"};
                        uint32_t i;

                        CHECK(begin(2 << 20));
                        sb_unpin(&reader);
                        for (i = 0; i < 5 + keys; i++) {
                                struct sb_node *node;
                                char key[16];

                                snprintf(key, sizeof(key), "p/%u", i);
                                node = make_text(i < keys ? key : others[i - keys]);
                                CHECK(node && insert(&writer, node) == node);
                                if (i < keys)
                                        model_insert(node);
                        }
                        CHECK(sb_order_walk(&reader, "p/", 2, meet, &met));
                        CHECK(met.in_order && met.left == 0);
                        CHECK_EQ(met.count, keys);
                        met = (struct met){.count = 0};
                        CHECK(sb_order_walk(&reader, NULL, 0, meet, &met));
                        CHECK_EQ(met.count, removes ? 5 : keys + 5);
                        CHECK(!sb_load_relaxed(&reader.record->pin));
                        unmake_bus();
                }
}

/* In the branch of all keys, the last slot leads to the branch, to nowhere, or to a node that has
 * no key. */
static void test_a_walk_ends_at_damage_and_says_so(void)
{
        for (uint32_t kind = 0; kind < 6; kind++) {
                struct met met = {.left = 4, .in_order = true};
                struct sb_node *nodes[4];
                struct sb_branch_view view;
                uint64_t links[6], root;
                struct sb_word64 *slot;

                CHECK(begin(1 << 20));
                make_letters(nodes, 4);
                view = root_branch();
                root = sb_load_relaxed(&writer.segment.super->order);
                slot = &view.branch->slot[3];
                links[0] = root;
                links[1] = 16;
                links[2] = UINT64_C(1) << 47;
                links[3] = SB_OFFSET_MASK;
                links[4] = sb_offset_of(&writer.segment, nodes[3]); /* no leaf: a branch */
                links[5] = sb_load_relaxed(slot) & (SB_OFFSET_MASK | SB_SLOT_LEAF);
                sb_store_relaxed(slot, SB_SLOT_TO(sb_load_relaxed(slot), links[kind]));
                if (kind == 5)
                        nodes[3]->key_len = 0;
                alarm(PATIENCE_S);
                CHECK(sb_order_find(&reader, "a", 1) == nodes[0]);
                CHECK(!sb_order_find(&reader, "d", 1));
                (void)sb_damage_take(&reader);
                (void)sb_order_below(&reader, "e", 1, false);
                (void)sb_order_seek(&reader, "d", 1, false);
                CHECK(sb_damage_take(&reader));
                sb_unpin(&reader);
                CHECK(!sb_order_walk(&reader, "", 0, meet, &met) || kind == 5);
                CHECK(met.in_order && met.count == 3);
                CHECK(!sb_load_relaxed(&reader.record->pin));
                sb_pin(&reader);
                CHECK(!remove_node(&writer, nodes[3]) || kind == 5);
                alarm(0);
                unmake_bus();
        }
}

/* The slots from a key of the model on, or those up to it, lead to one node. */
static void scribble(uint32_t first, uint32_t end, const struct sb_node *to)
{
        for (uint32_t i = first; i < end; i++) {
                uint64_t link = sb_offset_of(&writer.segment, sorted[i]) | SB_SLOT_LEAF;
                struct sb_word64 *words = (void *)writer.segment.base;

                for (uint64_t k = 0; k < writer.segment.geometry.size / 8; k++)
                        if (SB_SLOT_SYMBOL(sb_load_relaxed(&words[k])) &&
                                SB_SLOT_LINK(sb_load_relaxed(&words[k])) == link)
                                sb_store_relaxed(&words[k],
                                        SB_SLOT_TO(sb_load_relaxed(&words[k]),
                                                sb_offset_of(&writer.segment, to) | SB_SLOT_LEAF));
        }
}

static bool make_numbers(uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                struct sb_node *node;
                char key[16];

                snprintf(key, sizeof(key), "%04u", i);
                node = make_text(key);
                if (!node || insert(&writer, node) != node)
                        return false;
                model_insert(node);
        }
        return true;
}

/* Slots lead to nodes of other keys, so that what comes next in the index is not what comes next
 * among the keys. A walk that goes on behind the key that was found comes to an end. */
static void test_a_key_that_is_not_on_its_side_ends_a_walk_and_is_damage(void)
{
        enum { KEYS = 200 };
        struct sb_order_cursor cursor;
        struct sb_node *node;
        uint32_t steps = 0;

        CHECK(begin(2 << 20) && make_numbers(KEYS));
        scribble(40, KEYS, sorted[0]);
        for (node = sb_order_first(&reader, "", 0, false, &cursor); node && steps < 10 * KEYS;
                node = sb_order_next(&reader, &cursor))
                steps++;
        CHECK(!node && sb_damage_take(&reader));
        CHECK(!sb_order_seek(&reader, "0039", 4, true) && sb_damage_take(&reader));
        CHECK(sb_order_seek(&reader, "0038", 4, true) == sorted[39] && !sb_damage_take(&reader));
        unmake_bus();

        CHECK(begin(2 << 20) && make_numbers(KEYS));
        scribble(0, 160, sorted[KEYS - 1]);
        CHECK(!sb_order_below(&reader, "0160", 4, false) && sb_damage_take(&reader));
        CHECK(sb_order_below(&reader, "0161", 4, false) == sorted[160]);
        CHECK(sb_order_below(&reader, "0160", 4, true) == sorted[160] && !sb_damage_take(&reader));
        unmake_bus();
}

static void test_a_node_with_a_length_that_cannot_be_has_no_key_and_is_behind_all(void)
{
        struct sb_node *node, *last;
        uint64_t at, room;

        CHECK(begin(1 << 20));
        node = make_text("key");
        CHECK(node && sb_node_key(&writer.segment, node).bytes == node->key);
        CHECK_EQ(sb_node_compare(&writer.segment, node, "key", 3), 0);
        CHECK(sb_node_compare(&writer.segment, node, "ke", 2) > 0);
        CHECK(sb_node_compare(&writer.segment, node, "keyz", 4) < 0);
        node->key_len = 0;
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        CHECK_EQ(sb_node_compare(&writer.segment, node, "\xff\xff", 2), 1);
        node->key_len = (uint16_t)(writer.segment.key_len_max + 1);
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        node->key_len = (uint16_t)writer.segment.key_len_max;
        CHECK(sb_node_key(&writer.segment, node).bytes);
        /* At the last place of a block: a key that ends within the segment is one. */
        at = writer.segment.geometry.units_at + writer.segment.blocks_span;
        room = writer.segment.geometry.size - at - sizeof(*last);
        last = sb_node_at(&writer.segment, at);
        CHECK(last);
        for (uint32_t len = 1; len <= writer.segment.key_len_max; len++) {
                last->key_len = (uint16_t)len;
                CHECK_EQ(!!sb_node_key(&writer.segment, last).bytes, len <= room);
        }
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_run_goes_through_more_levels_than_it_remembers);
        RUN(test_a_walk_by_next_meets_every_key_once_and_in_order);
        RUN(test_a_walk_meets_every_key_with_its_prefix_and_no_other);
        RUN(test_a_walk_ends_at_damage_and_says_so);
        RUN(test_a_key_that_is_not_on_its_side_ends_a_walk_and_is_damage);
        RUN(test_a_node_with_a_length_that_cannot_be_has_no_key_and_is_behind_all);
        return test_end();
}
