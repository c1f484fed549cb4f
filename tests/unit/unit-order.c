/*
 * What changes the ordered index (shm/keys/order.h), against a sorted array: nodes with keys that
 * are short, long, and alike come and go, whatever a killed process left of a branch, and without
 * memory. Runs and walks, and damage in their way, are in unit-seek.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/slab.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/order-model.h"

struct key {
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len;
};

/* Of a few letters, with one of three beginnings: most keys are prefixes of others or differ late.
 */
static void draw_key(struct key *ret)
{
        static const unsigned char letters[] = {0, 1, 0x7f, 0x80, 0xff};
        static const uint32_t starts[] = {0, 0, 7, 8, 60, 1000};
        uint32_t start = starts[draw(6)];

        ret->len = start + 1 + draw(draw(8) ? 3 : 24);
        memset(ret->bytes, 0xff, start);
        for (uint32_t i = start; i < ret->len; i++)
                ret->bytes[i] = letters[draw(5)];
}

static void test_any_nodes_at_random_are_found_as_in_a_sorted_array(void)
{
        struct key key;

        CHECK(begin(8 << 20));
        for (uint32_t step = 0; step < 6000; step++) {
                struct sb_node *node;
                uint32_t at;

                draw_key(&key);
                CHECK(answers_are_right(key.bytes, key.len));
                if (sorted_count == 600 || (sorted_count && !draw(3))) {
                        at = draw(sorted_count);
                        node = sorted[at];
                        CHECK(remove_node(draw(2) ? &writer : &reader, node));
                        model_remove(at);
                        key.len = node->key_len;
                        memcpy(key.bytes, node->key, key.len);
                        sb_slab_give_back(&writer, sb_offset_of(&writer.segment, node));
                } else {
                        node = make_node(key.bytes, key.len);
                        CHECK(node);
                        at = count_below(key.bytes, key.len, false);
                        if (count_below(key.bytes, key.len, true) > at) {
                                CHECK(insert(&writer, node) == sorted[at]);
                                sb_slab_give_back(&writer, sb_offset_of(&writer.segment, node));
                        } else {
                                CHECK(insert(&writer, node) == node);
                                model_insert(node);
                        }
                }
                CHECK(answers_are_right(key.bytes, key.len));
                CHECK(step % 64 || index_is_right());
        }
        CHECK(sorted_count > 100);
        CHECK(index_is_right());
        unmake_bus();
}

static void test_an_empty_index_has_nothing_anywhere(void)
{
        static const unsigned char key[] = {0};

        CHECK(begin(1 << 20));
        CHECK(answers_are_right(key, 0) && answers_are_right(key, 1));
        CHECK(answers_are_right("zzz", 3));
        unmake_bus();
}

static void test_the_empty_key_is_below_all_and_a_key_above_all_is_behind(void)
{
        static const unsigned char least[] = {0}, most[] = {0xff, 0xff, 0xff};
        struct sb_node *a, *b;

        CHECK(begin(1 << 20));
        a = make_node(least, 1);
        b = make_node(most, 2);
        CHECK(a && b && insert(&writer, b) == b && insert(&writer, a) == a);
        CHECK(sb_order_seek(&reader, least, 0, false) == a);
        CHECK(sb_order_seek(&reader, least, 0, true) == a);
        CHECK(!sb_order_below(&reader, least, 0, true));
        CHECK(!sb_order_below(&reader, least, 1, false));
        CHECK(!sb_order_seek(&reader, most, 3, false));
        CHECK(sb_order_below(&reader, most, 3, false) == b);
        unmake_bus();
}

static void test_the_longest_keys_differ_in_their_last_byte_or_their_length(void)
{
        static unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len, i;

        CHECK(begin(8 << 20));
        len = writer.segment.key_len_max;
        CHECK_EQ(len, SB_KEY_LEN_MAX);
        memset(key, 0xfe, sizeof(key));
        for (i = 0; i < 256; i++) {
                struct sb_node *node;

                key[len - 1] = (unsigned char)(i * 167); /* all 256, in no order */
                node = make_node(key, len);
                CHECK(node && insert(&writer, node) == node);
                model_insert(node);
        }
        for (i = len - 1; i > len - 20; i--) {
                struct sb_node *node = make_node(key, i);

                CHECK(node && insert(&writer, node) == node);
                model_insert(node);
        }
        CHECK(index_is_right());
        for (i = 0; i < 256; i++) {
                key[len - 1] = (unsigned char)i;
                CHECK(answers_are_right(key, len));
                CHECK(answers_are_right(key, len - i % 30));
        }
        unmake_bus();
}

static void test_a_second_node_of_a_key_stays_out_and_changes_nothing(void)
{
        struct sb_node *first, *second;
        uint64_t root;

        CHECK(begin(1 << 20));
        first = make_text("twice");
        second = make_text("twice");
        CHECK(first && second && insert(&writer, first) == first);
        root = sb_load_relaxed(&writer.segment.super->order);
        CHECK(insert(&reader, second) == first);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->order), root);
        unmake_bus();
}

static void test_a_node_takes_the_place_of_one_of_its_key_that_is_gone(void)
{
        struct sb_node *before, *old, *again;

        CHECK(begin(1 << 20));
        before = make_text("j");
        old = make_text("k");
        again = make_text("k");
        CHECK(before && old && again);
        CHECK(insert(&writer, before) == before && insert(&writer, old) == old);
        sb_store_relaxed(&old->cell, SB_NODE_GONE);
        CHECK(insert(&reader, again) == again);
        CHECK(sb_order_find(&reader, "k", 1) == again);
        CHECK(sb_order_remove(
                &writer, old)); /* the old life's removal does not touch the new one */
        CHECK(sb_order_find(&reader, "k", 1) == again);
        CHECK(remove_node(&writer, again) && sb_order_remove(&reader, again));
        CHECK(!sb_order_find(&reader, "k", 1) && sb_order_find(&reader, "j", 1) == before);
        CHECK(remove_node(&writer, before));
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->order), 0);
        unmake_bus();
}

/* As a process leaves a branch that was killed while it replaced it: @frozen slots are FROZEN. */
static void test_a_branch_that_is_frozen_in_part_is_read_and_replaced(void)
{
        for (uint32_t frozen = 1; frozen <= SB_BRANCH_FEW; frozen++)
                for (uint32_t removes = 0; removes < 2; removes++) {
                        struct sb_node *nodes[4];
                        struct sb_branch_view view;

                        CHECK(begin(1 << 20));
                        make_letters(nodes, 3);
                        nodes[3] = make_text("d");
                        view = root_branch();
                        for (uint32_t i = 0; i < frozen; i++)
                                sb_or_full(&view.branch->slot[i], SB_SLOT_FROZEN);
                        for (char key[] = "a"; key[0] < 'e'; key[0]++)
                                CHECK(answers_are_right(key, 1));
                        CHECK(sb_order_reaches(&reader, view.branch));
                        if (removes) {
                                CHECK(remove_node(&reader, nodes[0]));
                                model_remove(0);
                        } else {
                                CHECK(insert(&reader, nodes[3]) == nodes[3]);
                                model_insert(nodes[3]);
                        }
                        for (char key[] = "a"; key[0] < 'e'; key[0]++)
                                CHECK(answers_are_right(key, 1));
                        /* The slot that it came to was free, or of the leaf. */
                        CHECK(frozen < 4 || index_is_right());
                        unmake_bus();
                }
}

/* As a process leaves it that was killed before, or behind, the CAS of the link. */
static void test_a_branch_that_is_dying_is_replaced_or_dated_by_a_sweep(void)
{
        for (uint32_t out = 0; out < 2; out++) {
                struct sb_node *nodes[3];
                struct sb_branch_view view;

                CHECK(begin(1 << 20));
                make_letters(nodes, 3);
                view = root_branch();
                for (uint32_t i = 0; i < view.slots; i++)
                        sb_or_full(&view.branch->slot[i], SB_SLOT_FROZEN);
                if (out) { /* another process has replaced it, and dated it */
                        CHECK(remove_node(&writer, nodes[0]));
                        model_remove(0);
                }
                sb_store_relaxed(&view.branch->block.retire, SB_RETIRE_DYING);
                CHECK_EQ(sb_order_reaches(&reader, view.branch), !out);
                sb_order_finish(&reader, view.branch);
                CHECK(sb_load_relaxed(&view.branch->block.retire) >= SB_ERA_MIN);
                CHECK(!sb_order_reaches(&reader, view.branch));
                CHECK(index_is_right());
                unmake_bus();
        }
}

/* What is left of a branch of two takes its place, so that no memory is needed: also for the
 * anchor, which else goes with a copy. */
static void test_of_two_leaves_each_goes_without_memory(void)
{
        for (uint32_t which = 0; which < 2; which++) {
                struct sb_node *nodes[2];
                uint64_t offset;

                CHECK(begin(1 << 20));
                make_letters(nodes, 2);
                while (!sb_slab_take(
                        &writer, SB_UNIT_NODES, sb_branch_size(SB_BRANCH_FEW), 0, &offset))
                        ;
                CHECK(remove_node(&writer, nodes[which]));
                model_remove(which);
                CHECK(index_is_right());
                unmake_bus();
        }
}

static bool put_text(const char *key)
{
        struct sb_node *node = make_text(key);

        if (insert(&reader, node) != node)
                return false;
        model_insert(node);
        return true;
}

static bool take_text(const char *key)
{
        uint32_t len = (uint32_t)strlen(key), at = count_below(key, len, false);

        if (at == sorted_count || compare_to(sorted[at], key, len))
                return true;
        if (!remove_node(&reader, sorted[at]))
                return false;
        model_remove(at);
        return true;
}

/* A maker finds a key's place, and links its node there later. What others did meanwhile makes it
 * look again. */
static void test_a_place_that_was_found_before_is_as_good_as_one_that_is_looked_for(void)
{
        static const char *const before[][3] = {{0}, {"ka"}, {"ka", "kb"}, {"ka", "x"}, {"g"}};
        /* - : removed. */
        static const char *const meanwhile[][3] = {{0}, {"kc"}, {"ka1"}, {"k"}, {"kc", "-kc"},
                {"-ka"}, {"-ka", "-kb"}, {"kd", "ke", "kf"}, {"l", "z"}};
        uint32_t i, j, k;

        for (i = 0; i < sizeof(before) / sizeof(*before); i++)
                for (j = 0; j < sizeof(meanwhile) / sizeof(*meanwhile); j++) {
                        struct sb_order_target target;
                        struct sb_node *node, *found = NULL, *other;

                        CHECK(begin(1 << 20));
                        for (k = 0; k < 3 && before[i][k]; k++)
                                CHECK(put_text(before[i][k]));
                        CHECK_EQ(sb_order_prepare(&writer, "kc", 2, 0, &target), 0);
                        node = make_text("kc");
                        for (k = 0; k < 3 && meanwhile[j][k]; k++)
                                if (*meanwhile[j][k] != '-')
                                        CHECK(put_text(meanwhile[j][k]));
                                else
                                        CHECK(take_text(meanwhile[j][k] + 1));
                        other = sb_order_find(&writer, "kc", 2);
                        CHECK_EQ(sb_order_insert(&writer, node, 0, &target, &found), 0);
                        CHECK(found == (other ? other : node));
                        if (!other)
                                model_insert(node);
                        CHECK(index_is_right());
                        unmake_bus();
                }
}

/* There is no memory for a branch: the key is refused, a removal waits, and nothing is FROZEN. */
static void test_without_memory_for_a_branch_nothing_changes(void)
{
        struct sb_node *nodes[SB_BRANCH_FEW + 1], *found;
        struct sb_order_target target;
        uint64_t offset;
        uint32_t i;

        CHECK(begin(1 << 20));
        for (i = 0; i <= SB_BRANCH_FEW; i++) {
                const char key[] = {(char)('a' + i), 0};

                nodes[i] = make_text(key);
                if (i == SB_BRANCH_FEW)
                        break;
                CHECK(insert(&writer, nodes[i]) == nodes[i]);
                model_insert(nodes[i]);
        }
        CHECK(sb_order_prepare(&writer, "g", 1, 0, &target) == 0);
        while (!sb_slab_take(&writer, SB_UNIT_NODES, sb_branch_size(SB_BRANCH_MORE), 0, &offset))
                ;
        while (!sb_slab_take(&writer, SB_UNIT_NODES, sb_branch_size(SB_BRANCH_FEW), 0, &offset))
                ;
        CHECK_EQ(sb_order_prepare(&writer, "g", 1, 0, &target), SB_E_FULL);
        CHECK_EQ(sb_order_insert(&writer, nodes[i], 0, NULL, &found), SB_E_FULL);
        CHECK_EQ(sb_order_prepare(&writer, "a", 1, 0, &target), 0);
        CHECK(index_is_right());
        CHECK(!remove_node(&writer, nodes[0]));
        CHECK(remove_node(&writer, nodes[1]));
        CHECK(sb_order_find(&reader, "a", 1) == nodes[0] && !sb_order_find(&reader, "b", 1));
        sb_slab_give_back(&writer, offset);
        sb_slab_settle(&writer);
        CHECK(sb_order_remove(&writer, nodes[0]));
        CHECK(!sb_order_find(&reader, "a", 1));
        unmake_bus();
}

/* How many words of the segment lead to the node, with this symbol. */
static uint32_t count_slots(const struct sb_node *node, uint32_t symbol)
{
        uint64_t link = SB_SLOT(symbol, sb_offset_of(&writer.segment, node) | SB_SLOT_LEAF);
        const struct sb_word64 *words = (const void *)writer.segment.base;
        uint32_t count = 0;

        for (uint64_t i = 0; i < writer.segment.geometry.size / 8; i++)
                count += (sb_load_relaxed(&words[i]) & ~SB_SLOT_FROZEN) == link;
        return count;
}

/* No key leads to such a slot, and no copy has a place for it: neither one that grows to a slot for
 * each symbol, nor one of that size without what is GONE. */
static void test_a_slot_with_a_symbol_that_there_is_not_is_not_copied(void)
{
        for (uint32_t removes = 0; removes < 2; removes++) {
                uint32_t count = removes ? SB_BRANCH_MORE + 5 : SB_BRANCH_MORE;
                struct sb_node *nodes[SB_BRANCH_MORE + 5], *next;
                struct sb_branch_view view;
                struct sb_word64 *slot;

                CHECK(begin(2 << 20));
                make_letters(nodes, count);
                next = make_text("o");
                view = root_branch();
                CHECK_EQ(view.slots, removes ? SB_BRANCH_SYMBOLS : SB_BRANCH_MORE);
                slot = &view.branch->slot[removes ? view.anchor + 4 : 4];
                CHECK_EQ(sb_load_relaxed(slot) & SB_OFFSET_MASK,
                        sb_offset_of(&writer.segment, nodes[4]));
                sb_store_relaxed(slot, SB_SLOT(0xfffe, SB_SLOT_LINK(sb_load_relaxed(slot))));
                if (removes)
                        CHECK(remove_node(&writer, nodes[0]));
                else
                        CHECK(insert(&writer, next) == next);
                CHECK(sb_damage_take(&writer));
                CHECK_EQ(count_slots(nodes[4], 0xfffe), 1);
                CHECK(root_branch().branch != view.branch);
                CHECK(sb_order_find(&reader, "f", 1) == nodes[5]);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_any_nodes_at_random_are_found_as_in_a_sorted_array);
        RUN(test_an_empty_index_has_nothing_anywhere);
        RUN(test_the_empty_key_is_below_all_and_a_key_above_all_is_behind);
        RUN(test_the_longest_keys_differ_in_their_last_byte_or_their_length);
        RUN(test_a_second_node_of_a_key_stays_out_and_changes_nothing);
        RUN(test_a_node_takes_the_place_of_one_of_its_key_that_is_gone);
        RUN(test_a_branch_that_is_frozen_in_part_is_read_and_replaced);
        RUN(test_a_branch_that_is_dying_is_replaced_or_dated_by_a_sweep);
        RUN(test_of_two_leaves_each_goes_without_memory);
        RUN(test_a_place_that_was_found_before_is_as_good_as_one_that_is_looked_for);
        RUN(test_without_memory_for_a_branch_nothing_changes);
        RUN(test_a_slot_with_a_symbol_that_there_is_not_is_not_copied);
        return test_end();
}
