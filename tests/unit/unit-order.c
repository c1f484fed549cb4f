/*
 * The ordered index (shm/keys/order.h) and its nodes (shm/keys/node.h), against a sorted array:
 * nodes that the test makes itself, with keys that are short, long, and alike.
 */
#include <stdlib.h>
#include <unistd.h>

#include "shm/base/bytes.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define NODES_MAX  2048u
#define PATIENCE_S 30u

struct key {
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len;
};

/* The model: what is in the index, ascending. */
static struct sb_node *sorted[NODES_MAX];
static uint32_t sorted_count;

static struct sb_node *make_node(const void *key, uint32_t key_len)
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

static struct sb_node *make_text(const char *key)
{
        return make_node(key, (uint32_t)strlen(key));
}

/* The key's node, behind the insertion of @node. */
static struct sb_node *insert(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node *found = NULL;

        return node && !sb_order_insert(handle, node, SB_SLAB_LARGER, NULL, &found) ? found : NULL;
}

static bool remove_node(struct sb_handle *handle, struct sb_node *node)
{
        sb_store_relaxed(&node->cell, SB_NODE_GONE);
        return sb_order_remove(handle, node);
}

static int compare_to(const struct sb_node *node, const void *key, uint32_t key_len)
{
        return sb_bytes_compare(node->key, node->key_len, key, key_len);
}

/* How many nodes of the model are below the key, or not above it. */
static uint32_t count_below(const void *key, uint32_t key_len, bool inclusive)
{
        uint32_t count = 0;

        while (count < sorted_count && compare_to(sorted[count], key, key_len) < inclusive)
                count++;
        return count;
}

static void model_insert(struct sb_node *node)
{
        uint32_t at = count_below(node->key, node->key_len, false);

        memmove(&sorted[at + 1], &sorted[at], (sorted_count - at) * sizeof(sorted[0]));
        sorted[at] = node;
        sorted_count++;
}

static void model_remove(uint32_t at)
{
        sorted_count--;
        memmove(&sorted[at], &sorted[at + 1], (sorted_count - at) * sizeof(sorted[0]));
}

/* What is below a word of the index: keys of the model from *at on, in their order; branches that
 * are deeper, and of two at least, and not larger than they need be; each anchor leads on. */
static bool is_right_below(uint64_t word, uint32_t depth, uint32_t *at)
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

static bool index_is_right(void)
{
        uint64_t root = sb_load_relaxed(&writer.segment.super->order);
        uint32_t at = 0;

        return (!(root & SB_OFFSET_MASK) || is_right_below(root, 0, &at)) && at == sorted_count;
}

/* A run of @most nodes, or all of @there. Where more branches lie below one another than a run
 * remembers, it may end before that, and says that there are more. */
static bool is_long_enough(const struct sb_order_run *run, uint32_t there, uint32_t most)
{
        uint32_t count = there < most ? there : most;

        return run->count <= count && (run->count || !there) && (run->more || run->count == there);
}

/* A run from a key on is what the model has there. */
static bool run_is_right(const void *key, uint32_t key_len, uint32_t most)
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
static bool answers_are_right(const void *key, uint32_t key_len)
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

static bool begin(uint64_t size)
{
        sorted_count = 0;
        draw_state = size;
        if (!make_bus(size))
                return false;
        sb_pin(&writer);
        sb_pin(&reader);
        return true;
}

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

/* Nodes "a", "b" and so on, in the index and in the model. */
static void make_letters(struct sb_node **nodes, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                const char key[] = {(char)('a' + i), 0};

                nodes[i] = make_text(key);
                CHECK(insert(&writer, nodes[i]) == nodes[i]);
                model_insert(nodes[i]);
        }
}

/* The branch below the root. */
static struct sb_branch_view root_branch(void)
{
        struct sb_branch_view view = {0};

        (void)sb_branch_view(
                &writer.segment, sb_load_relaxed(&writer.segment.super->order), 0, &view);
        return view;
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
        /* From the top down, too. */
        CHECK(run_is_right("y", 1, SB_ORDER_RUN) && run_is_right("", 0, SB_ORDER_RUN));
        while (sorted_count) {
                CHECK(remove_node(&writer, sorted[sorted_count / 2]));
                model_remove(sorted_count / 2);
                CHECK(index_is_right());
        }
        unmake_bus();
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

static void test_a_node_with_a_length_that_cannot_be_has_no_key_and_is_behind_all(void)
{
        struct sb_node *node, *last;
        uint64_t end;

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
        /* Just before the segment's end: what fits is a key, one byte more is none. */
        end = writer.segment.geometry.size;
        last = sb_node_at(&writer.segment, end - SB_BLOCK_MIN);
        CHECK(last);
        last->key_len = SB_BLOCK_MIN - sizeof(*last);
        CHECK(sb_node_key(&writer.segment, last).bytes);
        last->key_len++;
        CHECK(!sb_node_key(&writer.segment, last).bytes);
        unmake_bus();
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
        RUN(test_a_run_goes_through_more_levels_than_it_remembers);
        RUN(test_of_two_leaves_each_goes_without_memory);
        RUN(test_a_place_that_was_found_before_is_as_good_as_one_that_is_looked_for);
        RUN(test_without_memory_for_a_branch_nothing_changes);
        RUN(test_a_walk_by_next_meets_every_key_once_and_in_order);
        RUN(test_a_walk_meets_every_key_with_its_prefix_and_no_other);
        RUN(test_a_walk_ends_at_damage_and_says_so);
        RUN(test_a_key_that_is_not_on_its_side_ends_a_walk_and_is_damage);
        RUN(test_a_slot_with_a_symbol_that_there_is_not_is_not_copied);
        RUN(test_a_node_with_a_length_that_cannot_be_has_no_key_and_is_behind_all);
        return test_end();
}
