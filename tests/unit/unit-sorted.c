/*
 * The ordered index, made at once (shm/keys/sorted.h): keys are made as clients make them, their
 * order is noted, then the index is made anew: the order is what it was, and no block is lost.
 */
#include <stdlib.h>

#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/keys/sorted.h"
#include "shm/layout/block.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/check.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define KEYS_MAX 20000u

/* A key, before the length was cut. */
struct key {
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len;
};

/* The nodes in their order, as they were noted. */
static struct sb_node *nodes[KEYS_MAX];
static uint32_t node_count;

static bool put_key(const void *key, uint32_t key_len)
{
        struct sb_op_write write = {.key = key,
                .key_len = key_len,
                .value = "v",
                .value_len = 1,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return !sb_op_write(&writer, &write, &result);
}

static void note_node(struct sb_handle *handle, struct sb_node *node, void *context)
{
        (void)handle;
        (void)context;
        if (node_count < KEYS_MAX)
                nodes[node_count++] = node;
}

static void note_order(void)
{
        node_count = 0;
        CHECK(sb_order_walk(&writer, NULL, 0, note_node, NULL) && !is_pinned());
}

static uint32_t compared;
static bool same;

static void compare_node(struct sb_handle *handle, struct sb_node *node, void *context)
{
        (void)handle;
        (void)context;
        same = same && compared < node_count && nodes[compared] == node;
        compared++;
}

static bool order_is_as_noted(void)
{
        compared = 0;
        same = true;
        return sb_order_walk(&writer, NULL, 0, compare_node, NULL) && same &&
               compared == node_count;
}

/* Take the branches apart: the index has no key. */
static void take_apart(uint64_t word)
{
        struct sb_branch_view view;

        if (!(word & SB_OFFSET_MASK) || (word & SB_SLOT_LEAF) ||
                !sb_branch_view(&writer.segment, word, 0, &view))
                return;
        for (uint32_t i = 0; i < view.slots; i++)
                take_apart(sb_load_relaxed(&view.branch->slot[i]));
        sb_slab_give_back(&writer, word & SB_OFFSET_MASK);
}

static void spoil_order(void)
{
        take_apart(sb_load_relaxed(&writer.segment.super->order));
        sb_store_relaxed(&writer.segment.super->order, 0);
        sb_slab_settle(&writer);
}

static bool is_sound(uint32_t nodes_wanted)
{
        struct sb_check_report report;

        if (sb_check(&reader, true, &report))
                return false;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                printf("# %s\n", report.problems[i]);
        return !report.problem_count && !report.blocks_lost && report.nodes == nodes_wanted;
}

static void link_all(bool sorts)
{
        uint64_t count = sb_sorted_count(&writer);
        void *space = sorts ? malloc(count * SB_SORTED_SPACE + 1) : NULL;

        CHECK_EQ(sb_sorted_link(&writer, space, count), 0);
        CHECK(!is_pinned());
        free(space);
}

/* Sorted, over what is there or over nothing, and each for itself, the index is what it was. */
static bool comes_back(void)
{
        note_order();
        for (uint32_t way = 0; way < 3; way++) {
                if (way)
                        spoil_order();
                if (sb_sorted_count(&writer) < node_count)
                        return false;
                link_all(way < 2);
                if (!order_is_as_noted() || !is_sound(node_count))
                        return false;
        }
        return true;
}

static void test_any_number_of_keys_from_none_on_is_put_in_order(void)
{
        static const uint32_t counts[] = {0, 1, 2, 3, 11, 12, 13, 14, 100, 3000};

        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                CHECK(make_bus(8 << 20));
                for (uint32_t k = 0; k < counts[i]; k++) {
                        uint64_t key = draw_word();

                        CHECK(put_key(&key, sizeof(key)));
                }
                CHECK(comes_back());
                CHECK_EQ(node_count, counts[i]);
                unmake_bus();
        }
}

static void test_the_shortest_and_the_longest_keys_are_in_order(void)
{
        struct key key;

        CHECK(make_bus(8 << 20));
        for (uint32_t byte = 0; byte < 256; byte++) {
                key.bytes[0] = (unsigned char)byte;
                CHECK(put_key(key.bytes, 1));
        }
        memset(key.bytes, 0x55, sizeof(key.bytes));
        for (uint32_t byte = 0; byte < 256; byte++) {
                key.bytes[SB_KEY_LEN_MAX - 1] = (unsigned char)byte;
                CHECK(put_key(key.bytes, SB_KEY_LEN_MAX));
        }
        CHECK(comes_back());
        CHECK_EQ(node_count, 512);
        unmake_bus();
}

/* Each key is the beginning of the next one, and what follows is zeros, as behind a key's end. */
static void test_keys_that_are_each_others_beginnings_go_by_their_lengths(void)
{
        static const unsigned char zeros[SB_KEY_LEN_MAX];

        CHECK(make_bus(8 << 20));
        for (uint32_t i = 0; i < SB_KEY_LEN_MAX; i++)
                CHECK(put_key(zeros, (i * 7 + 3) % SB_KEY_LEN_MAX + 1));
        CHECK(comes_back());
        CHECK_EQ(node_count, SB_KEY_LEN_MAX);
        unmake_bus();
}

/* Of few letters, with one of a few beginnings: they differ early, late, or by their lengths. */
static void test_keys_with_the_same_beginnings_are_in_order(void)
{
        static const unsigned char letters[] = {0, 1, 0x7f, 0x80, 0xff};
        static const uint32_t starts[] = {0, 7, 8, 9, 16, 500, 1000};
        struct key key;

        CHECK(make_bus(64 << 20));
        for (uint32_t i = 0; i < KEYS_MAX; i++) {
                uint32_t start = starts[draw(7)];

                key.len = start + 1 + draw(20);
                memset(key.bytes, 0xff, start);
                for (uint32_t k = start; k < key.len; k++)
                        key.bytes[k] = letters[draw(5)];
                CHECK(put_key(key.bytes, key.len));
        }
        CHECK(comes_back());
        CHECK(node_count > KEYS_MAX / 2);
        unmake_bus();
}

static void test_keys_that_were_made_in_order_are_in_order(void)
{
        for (uint32_t falls = 0; falls < 2; falls++) {
                char key[24];

                CHECK(make_bus(64 << 20));
                for (uint32_t i = 0; i < KEYS_MAX - 1; i++) {
                        snprintf(key, sizeof(key), "job/%09u", falls ? KEYS_MAX - i : i);
                        CHECK(put_key(key, (uint32_t)strlen(key)));
                }
                CHECK(comes_back());
                CHECK_EQ(node_count, KEYS_MAX - 1);
                unmake_bus();
        }
}

/* What a removal left does not come back; a node that found no cell stays for the sweep. */
static void test_nodes_without_a_cell_stay_as_they_were(void)
{
        uint64_t offset;
        struct sb_node *node, *linked;
        char key[8];

        CHECK(make_bus(8 << 20));
        for (uint32_t i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "k%03u", i);
                CHECK(!put(&writer, key, "v", 1));
        }
        for (uint32_t i = 0; i < 100; i += 2) {
                snprintf(key, sizeof(key), "k%03u", i);
                CHECK(!delete (&writer, key));
        }
        sb_work_all(&writer, true);
        sb_work_all(&writer, true);
        CHECK(!sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(4), 0, &offset));
        node = sb_node_at(&writer.segment, offset);
        node->key_len = 4;
        memcpy(node->key, "k050", 4);
        sb_pin(&writer);
        CHECK(!sb_order_insert(&writer, node, 0, NULL, &linked) && linked == node);
        sb_unpin(&writer);
        note_order();
        CHECK_EQ(node_count, 51);
        for (uint32_t i = 0; i < 3; i++)
                link_all(true);
        CHECK(order_is_as_noted());
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_any_number_of_keys_from_none_on_is_put_in_order);
        RUN(test_the_shortest_and_the_longest_keys_are_in_order);
        RUN(test_keys_that_are_each_others_beginnings_go_by_their_lengths);
        RUN(test_keys_with_the_same_beginnings_are_in_order);
        RUN(test_keys_that_were_made_in_order_are_in_order);
        RUN(test_nodes_without_a_cell_stay_as_they_were);
        return test_end();
}
