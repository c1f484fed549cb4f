/*
 * The ordered index, made at once (shm/keys/sorted.h): keys are made as clients make them, their
 * links are noted, then every link is spoiled. What is linked anew must be what was noted: a list
 * of which each node is at all its levels is one alone.
 */
#include <stdlib.h>

#include "shm/base/word.h"
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

/* The nodes of level 0 in their order, and the links that were noted of them. */
static uint64_t nodes[KEYS_MAX];
static uint64_t links[KEYS_MAX][SB_HEIGHT_MAX], beginnings[SB_HEIGHT_MAX];
static uint32_t node_count;

static struct sb_node *node_of(uint32_t i)
{
        return sb_node_at(&writer.segment, nodes[i]);
}

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

static void note_links(void)
{
        const struct sb_word64 *order = writer.segment.super->order;
        uint64_t at = sb_load_relaxed(&order[0]);

        for (uint32_t level = 0; level < SB_HEIGHT_MAX; level++)
                beginnings[level] = sb_load_relaxed(&order[level]);
        for (node_count = 0; at && node_count < KEYS_MAX; node_count++) {
                nodes[node_count] = at;
                for (uint32_t level = 0; level < node_of(node_count)->height; level++)
                        links[node_count][level] =
                                sb_load_relaxed(&node_of(node_count)->next[level]);
                at = links[node_count][0];
        }
}

static void spoil_links(uint64_t with)
{
        for (uint32_t level = 0; level < SB_HEIGHT_MAX; level++)
                sb_store_relaxed(&writer.segment.super->order[level], 0);
        for (uint32_t i = 0; i < node_count; i++)
                for (uint32_t level = 0; level < node_of(i)->height; level++)
                        sb_store_relaxed(&node_of(i)->next[level], with);
}

static bool links_are_as_noted(void)
{
        const struct sb_word64 *order = writer.segment.super->order;

        for (uint32_t level = 0; level < SB_HEIGHT_MAX; level++)
                if (sb_load_relaxed(&order[level]) != beginnings[level])
                        return false;
        for (uint32_t i = 0; i < node_count; i++)
                for (uint32_t level = 0; level < node_of(i)->height; level++)
                        if (sb_load_relaxed(&node_of(i)->next[level]) != links[i][level])
                                return false;
        return true;
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

        sb_sorted_link(&writer, space, count);
        free(space);
}

/* Sorted, and each for itself, the index is what it was. */
static bool comes_back(void)
{
        uint32_t noted;

        note_links();
        noted = node_count;
        spoil_links(0x123456789);
        if (sb_sorted_count(&writer) < noted)
                return false;
        link_all(true);
        if (!links_are_as_noted() || !is_sound(noted))
                return false;
        spoil_links(0);
        link_all(false);
        return links_are_as_noted() && is_sound(noted);
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
        struct sb_node *node;
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
        CHECK(!sb_slab_take(&writer, SB_UNIT_NODES, sizeof(*node) + 16 + 4, 0, &offset));
        node = sb_node_at(&writer.segment, offset);
        node->height = 2;
        node->key_len = 4;
        memcpy(&node->next[2], "k050", 4);
        sb_pin(&writer);
        CHECK(sb_order_insert(&writer, node) == node);
        sb_unpin(&writer);
        note_links();
        CHECK_EQ(node_count, 51);
        for (uint32_t i = 0; i < 3; i++)
                link_all(true);
        CHECK(links_are_as_noted());
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
