/*
 * The ordered index (shm/keys/order.h) and its nodes (shm/keys/node.h), against a sorted array:
 * nodes that the test makes itself, of any height, with keys that are short, long, and alike.
 */
#include <stdlib.h>
#include <unistd.h>

#include "shm/base/bytes.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
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

static struct sb_node *make_node(const void *key, uint32_t key_len, uint32_t height)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(
                    &writer, SB_UNIT_NODES, sb_node_size(height, key_len), SB_SLAB_LARGER, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        node->key_len = (uint16_t)key_len;
        node->height = (uint16_t)height;
        memcpy(&node->next[height], key, key_len);
        return node;
}

static struct sb_node *make_text(const char *key, uint32_t height)
{
        return make_node(key, (uint32_t)strlen(key), height);
}

static int compare_to(const struct sb_node *node, const void *key, uint32_t key_len)
{
        return sb_bytes_compare(&node->next[node->height], node->key_len, key, key_len);
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
        uint32_t at = count_below(&node->next[node->height], node->key_len, false);

        memmove(&sorted[at + 1], &sorted[at], (sorted_count - at) * sizeof(sorted[0]));
        sorted[at] = node;
        sorted_count++;
}

static void model_remove(uint32_t at)
{
        sorted_count--;
        memmove(&sorted[at], &sorted[at + 1], (sorted_count - at) * sizeof(sorted[0]));
}

/* Every level holds, in their order, those nodes of the model that are high enough; with @whole
 * all of them, else any, but at level 0. */
static bool levels_are_right(bool whole)
{
        struct sb_segment *segment = &writer.segment;

        for (uint32_t level = 0; level < segment->height_max; level++) {
                uint64_t word = sb_load_relaxed(&segment->super->order[level]);

                for (uint32_t i = 0; i < sorted_count; i++) {
                        if (sorted[i]->height <= level)
                                continue;
                        if (word != sb_offset_of(segment, sorted[i])) {
                                if (whole || !level)
                                        return false;
                                continue;
                        }
                        word = sb_load_relaxed(&sorted[i]->next[level]);
                }
                if (word)
                        return false;
        }
        return true;
}

/* What seek, below and find say of a key is what the model says. */
static bool answers_are_right(const void *key, uint32_t key_len)
{
        uint32_t low = count_below(key, key_len, false), high = count_below(key, key_len, true);
        struct sb_node *first = low < sorted_count ? sorted[low] : NULL,
                       *second = high < sorted_count ? sorted[high] : NULL;

        return sb_order_seek(&reader, key, key_len, false) == first &&
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
                        sb_order_remove(draw(2) ? &writer : &reader, node);
                        model_remove(at);
                        key.len = node->key_len;
                        memcpy(key.bytes, &node->next[node->height], key.len);
                        sb_slab_give_back(&writer, sb_offset_of(&writer.segment, node));
                } else {
                        node = make_node(key.bytes, key.len, 1 + draw(writer.segment.height_max));
                        CHECK(node);
                        at = count_below(key.bytes, key.len, false);
                        if (count_below(key.bytes, key.len, true) > at) {
                                CHECK(sb_order_insert(&writer, node) == sorted[at]);
                                sb_slab_give_back(&writer, sb_offset_of(&writer.segment, node));
                        } else {
                                CHECK(sb_order_insert(&writer, node) == node);
                                model_insert(node);
                        }
                }
                CHECK(answers_are_right(key.bytes, key.len));
                CHECK(step % 64 || levels_are_right(true));
        }
        CHECK(sorted_count > 100);
        CHECK(levels_are_right(true));
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
        a = make_node(least, 1, 1);
        b = make_node(most, 2, 2);
        CHECK(a && b && sb_order_insert(&writer, b) == b && sb_order_insert(&writer, a) == a);
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
                node = make_node(key, len, 1 + i % writer.segment.height_max);
                CHECK(node && sb_order_insert(&writer, node) == node);
                model_insert(node);
        }
        for (i = len - 1; i > len - 20; i--) {
                struct sb_node *node = make_node(key, i, 1);

                CHECK(node && sb_order_insert(&writer, node) == node);
                model_insert(node);
        }
        CHECK(levels_are_right(true));
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
        uint64_t links[2];

        CHECK(begin(1 << 20));
        first = make_text("twice", 2);
        second = make_text("twice", 2);
        CHECK(first && second && sb_order_insert(&writer, first) == first);
        links[0] = sb_load_relaxed(&writer.segment.super->order[0]);
        links[1] = sb_load_relaxed(&writer.segment.super->order[1]);
        CHECK(sb_order_insert(&reader, second) == first);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->order[0]), links[0]);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->order[1]), links[1]);
        CHECK_EQ(sb_load_relaxed(&first->next[0]), 0);
        unmake_bus();
}

static void test_a_removed_node_is_marked_at_all_levels_and_its_key_can_come_again(void)
{
        struct sb_node *before, *old, *again;
        bool gone;

        CHECK(begin(1 << 20));
        before = make_text("j", 1);
        old = make_text("k", 3);
        again = make_text("k", 4);
        CHECK(before && old && again);
        CHECK(sb_order_insert(&writer, before) == before && sb_order_insert(&writer, old) == old);
        CHECK(sb_order_next(&reader, before, &gone) == old && !gone);
        sb_order_remove(&writer, old);
        sb_order_remove(&reader, old); /* and once more, which changes nothing */
        for (uint32_t level = 0; level < old->height; level++)
                CHECK(sb_load_relaxed(&old->next[level]) & SB_PREV_MARKED);
        CHECK(!sb_order_next(&reader, old, &gone) && gone);
        CHECK(!sb_order_next(&reader, before, &gone) && !gone);
        CHECK(!sb_order_find(&reader, "k", 1));
        CHECK(sb_order_insert(&writer, again) == again);
        CHECK(sb_order_find(&reader, "k", 1) == again);
        sb_order_remove(&writer, old); /* the old life's removal does not touch the new one */
        CHECK(sb_order_find(&reader, "k", 1) == again);
        CHECK(sb_order_next(&reader, before, &gone) == again && !gone);
        unmake_bus();
}

/* As a process leaves it that dies in the middle of a removal: marked from the top down to @level.
 */
static void mark_down_to(struct sb_node *node, uint32_t level)
{
        for (uint32_t i = node->height; i-- > level;)
                sb_or_full(&node->next[i], SB_PREV_MARKED);
}

static void test_a_half_made_removal_counts_from_level_0_on_and_any_walk_finishes_it(void)
{
        struct sb_node *nodes[3];

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 3; i++) {
                const char key[] = {(char)('a' + i), 0};

                nodes[i] = make_text(key, 4);
                CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
                model_insert(nodes[i]);
        }
        mark_down_to(nodes[1], 1);
        CHECK(answers_are_right("b", 1) && answers_are_right("a", 1) && answers_are_right("c", 1));
        CHECK(levels_are_right(false));
        mark_down_to(nodes[1], 0);
        model_remove(1);
        CHECK(answers_are_right("b", 1));
        CHECK(answers_are_right("c", 1));
        CHECK(levels_are_right(true)); /* out of every level by now */
        unmake_bus();
}

static void test_a_node_that_is_linked_at_level_0_alone_is_in_and_can_be_removed(void)
{
        struct sb_node *low, *high, *between;

        CHECK(begin(1 << 20));
        low = make_text("a", 3);
        high = make_text("c", 3);
        between = make_text("b", 3);
        CHECK(low && high && between);
        CHECK(sb_order_insert(&writer, low) == low && sb_order_insert(&writer, high) == high);
        model_insert(low);
        model_insert(high);
        /* As a maker leaves it that dies behind its first CAS. */
        for (uint32_t level = 0; level < 3; level++)
                sb_store_relaxed(&between->next[level], sb_offset_of(&writer.segment, high));
        sb_store_relaxed(&low->next[0], sb_offset_of(&writer.segment, between));
        model_insert(between);
        CHECK(answers_are_right("b", 1) && answers_are_right("bb", 2));
        CHECK(levels_are_right(false));
        sb_order_remove(&reader, between);
        model_remove(1);
        CHECK(answers_are_right("b", 1));
        CHECK(levels_are_right(true));
        unmake_bus();
}

static void test_a_node_is_marked_before_it_is_linked_above_and_does_not_stay_there(void)
{
        struct sb_node *node, *other;

        CHECK(begin(1 << 20));
        node = make_text("m", 4);
        other = make_text("z", 4);
        CHECK(node && other && sb_order_insert(&writer, other) == other);
        CHECK(sb_order_insert(&writer, node) == node);
        model_insert(other);
        sb_order_remove(&writer, node);
        /* A slow maker's link at level 2, made behind the remover's pass. */
        sb_store_relaxed(&writer.segment.super->order[2], sb_offset_of(&writer.segment, node));
        CHECK(!levels_are_right(true));
        sb_order_remove(&reader, node); /* the second look */
        CHECK(levels_are_right(true));
        unmake_bus();
}

static void test_a_walk_by_next_meets_every_key_once_and_in_order(void)
{
        enum { KEYS = 1000 };
        struct sb_node *node;
        bool gone = false;
        uint32_t i;

        CHECK(begin(2 << 20));
        for (i = 0; i < KEYS; i++) {
                char key[16];

                snprintf(key, sizeof(key), "%u", (i * 7919) % KEYS);
                node = make_text(key, 1 + i % writer.segment.height_max);
                CHECK(node && sb_order_insert(&writer, node) == node);
                model_insert(node);
        }
        node = sb_order_seek(&reader, "0", 0, false);
        for (i = 0; i < KEYS; i++) {
                CHECK(node == sorted[i] && !gone);
                node = sb_order_next(&reader, node, &gone);
        }
        CHECK(!node && !gone);
        unmake_bus();
}

/* What a walk met. Where @removes, it takes each node out as it meets it, and its successor. */
struct met {
        uint32_t count, left;
        bool in_order, removes;
        struct sb_node *skipped;
};

static void meet(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct met *met = context;
        bool gone;

        met->in_order &= met->left > 0 && node == sorted[met->count];
        met->count++;
        met->left -= met->left > 0;
        if (!met->removes)
                return;
        met->skipped = sb_order_next(handle, node, &gone);
        sb_order_remove(&writer, node);
        if (met->left > 0 && met->skipped) {
                sb_order_remove(&writer, met->skipped);
                model_remove(met->count);
                met->left--;
        }
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
                                node = make_text(i < keys ? key : others[i - keys], 1 + i % 3);
                                CHECK(node && sb_order_insert(&writer, node) == node);
                                if (i < keys)
                                        model_insert(node);
                        }
                        CHECK(sb_order_walk(&reader, "p/", 2, meet, &met));
                        CHECK(met.in_order && met.left == 0);
                        CHECK_EQ(met.count, removes ? (keys + 1) / 2 : keys);
                        met = (struct met){.count = 0};
                        CHECK(sb_order_walk(&reader, NULL, 0, meet, &met));
                        CHECK_EQ(met.count, removes ? 5 : keys + 5);
                        unmake_bus();
                }
}

static void test_a_walk_ends_at_damage_and_says_so(void)
{
        for (uint32_t back = 0; back < 4; back++) {
                struct met met = {.left = 4, .in_order = true};
                struct sb_node *nodes[4];

                CHECK(begin(1 << 20));
                sb_unpin(&reader);
                for (uint32_t i = 0; i < 4; i++) {
                        const char key[] = {(char)('a' + i), 0};

                        nodes[i] = make_text(key, 1);
                        CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
                        model_insert(nodes[i]);
                }
                sb_store_relaxed(&nodes[3]->next[0], sb_offset_of(&writer.segment, nodes[back]));
                alarm(PATIENCE_S);
                CHECK(!sb_order_walk(&reader, "", 0, meet, &met));
                CHECK(met.in_order && met.count == 4);
                alarm(0);
                unmake_bus();
        }
}

/* The nodes right below a key, one behind the other; of a beginning that is marked, or of more
 * nodes of level 0 than a way takes, the one below alone. */
static void test_a_run_is_the_nodes_right_below_a_key(void)
{
        struct sb_node *nodes[900], *run[SB_ORDER_RUN];
        uint32_t count, longest = 0;
        char key[12];

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 900; i++) {
                snprintf(key, sizeof(key), "%04u", i);
                /* None is higher among the last ones. */
                nodes[i] = make_text(key, i < 500 ? 1 + (i % 4 == 1) + (i % 48 == 5) : 1);
                CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
        }
        for (uint32_t i = 0; i <= 900; i++) {
                for (uint32_t level = 1; level < 3; level++) {
                        bool inclusive = i % 2;

                        snprintf(key, sizeof(key), "%04u", inclusive ? i - 1 : i);
                        count = sb_order_run_below(&reader, key, 4, inclusive, level, run);
                        longest = count > longest ? count : longest;
                        CHECK(count <= SB_ORDER_RUN && count <= i && (count > 0 || i == 0));
                        for (uint32_t k = 0; k < count; k++)
                                CHECK(run[k] == nodes[i - count + k]);
                        CHECK(level == 2 || i > 500 || count <= 4);
                        CHECK(i < 800 || count == 1);
                }
        }
        CHECK_EQ(longest, SB_ORDER_RUN);
        /* A process was killed behind the mark of the node from which the way goes. */
        sb_store_relaxed(
                &nodes[53]->next[0], sb_load_relaxed(&nodes[53]->next[0]) | SB_PREV_MARKED);
        CHECK_EQ(sb_order_run_below(&reader, "0060", 4, false, 2, run), 1);
        CHECK(run[0] == nodes[59]);
        unmake_bus();
}

/* Whether the scout is where it says, @at being where the walk is. */
static bool scout_is_ahead(const struct sb_ahead *ahead, struct sb_node *at)
{
        struct sb_node *node = at;
        bool gone;

        for (uint32_t i = 0; node && i < ahead->scout_lead; i++)
                node = sb_order_next(&reader, node, &gone);
        return node == ahead->scout;
}

/* A walk over @count nodes from the first one on. @ret_fetches: how often memory was fetched.
 * Return: whether each fetch went on where the last one had ended, and the last one to the end; and
 * whether the stream was ahead of the walk wherever there was something ahead. */
static bool fetches_all(struct sb_ahead *ahead, uint32_t count, uint32_t *ret_fetches)
{
        struct sb_node *node = sb_order_begin(&reader, "", 0, false, ahead);
        uint32_t i, levels = 0, fetched = 0;
        bool gone, streams = false, right = ahead->level == SB_AHEAD_NEAR;

        *ret_fetches = 0;
        for (i = 0; node && i < count; i++) {
                bool due = !ahead->left;

                sb_order_fetch(&reader, ahead, node);
                *ret_fetches += due;
                levels |= 1u << ahead->level;
                streams = ahead->level == SB_AHEAD_FAR;
                right = right && !ahead->lost;
                fetched = streams ? i + 1 + ahead->lead : i + 1 + ahead->left;
                if (streams)
                        right = right && fetched <= count &&
                                ahead->lead >= (count - i - 1 < 64 ? count - i - 1 : 64);
                node = sb_order_next(&reader, node, &gone);
                if (streams && node)
                        right = right && scout_is_ahead(ahead, node) &&
                                (ahead->scout_lead >= 31 || i < 100);
        }
        return right && !node && i == count && !ahead->next && fetched == count &&
               levels == (count > 64 ? 6u : levels);
}

static void test_memory_is_fetched_of_all_nodes_once(void)
{
        static const uint32_t counts[] = {1, 2, 5, 13, 50, 900, 4000};

        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                struct sb_ahead ahead;
                uint32_t fetches;

                CHECK(begin(1 << 20));
                for (uint32_t k = 0; k < counts[i]; k++) {
                        char key[12];
                        struct sb_node *node;

                        snprintf(key, sizeof(key), "%04u", k);
                        node = make_text(key, 1 + (k % 4 == 1) + (k % 16 == 5));
                        CHECK(node && sb_order_insert(&writer, node) == node);
                        sb_store_relaxed(&node->cell, draw_word()); /* any number: it is a hint */
                }
                CHECK(fetches_all(&ahead, counts[i], &fetches));
                CHECK(fetches >= 1 && fetches <= 5);
                unmake_bus();
        }
}

/* The first node from @from on that is higher than @level; NULL: none. */
static const struct sb_node *higher_from(
        struct sb_node *const *nodes, uint32_t count, uint32_t from, uint32_t level)
{
        while (from < count && nodes[from]->height <= level)
                from++;
        return from < count ? nodes[from] : NULL;
}

/* A walk that came by another way than down the levels. */
static void test_a_walk_finds_its_way_up_from_any_node(void)
{
        struct sb_node *nodes[400];
        struct sb_ahead ahead = {0};
        uint32_t i, level;

        CHECK(begin(1 << 20));
        for (i = 0; i < 400; i++) {
                char key[12];

                snprintf(key, sizeof(key), "%04u", i);
                nodes[i] = make_text(key, 1 + (i % 5 == 3) + (i % 20 == 13) + (i % 80 == 73));
                CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
        }
        for (i = 0; i < 400; i++) {
                for (level = 1; level <= 2; level++) {
                        sb_ahead_begin_at(&ahead, 0, NULL);
                        sb_ahead_climb(&reader.segment, &ahead, nodes[i], level);
                        CHECK(ahead.next == higher_from(nodes, 400, i, level));
                        CHECK(ahead.level == level && !ahead.left && !ahead.lost);
                }
                /* From the level on which it is; but not where that one led it astray. */
                sb_ahead_begin_at(&ahead, 1, nodes[3]);
                ahead.lost = i % 2;
                sb_ahead_climb(&reader.segment, &ahead, nodes[i], 2);
                CHECK(ahead.next == higher_from(nodes, 400, i % 2 ? i : 3, 2));
        }
        sb_ahead_begin_at(&ahead, 0, NULL);
        sb_order_fetch(&reader, &ahead, nodes[100]);
        CHECK(ahead.level == SB_AHEAD_NEAR && ahead.left >= 11 && ahead.next);
        unmake_bus();
}

/* A long way without a higher node, or one that leads to itself, is given up. */
static void test_a_way_up_ends(void)
{
        struct sb_node *nodes[200];
        struct sb_ahead ahead;
        uint32_t i;

        CHECK(begin(1 << 20));
        for (i = 0; i < 200; i++) {
                char key[12];

                snprintf(key, sizeof(key), "%04u", i);
                nodes[i] = make_text(key, 1 + (i == 150));
                CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
        }
        for (i = 0; i < 200; i++) {
                sb_ahead_begin_at(&ahead, 0, NULL);
                sb_ahead_climb(&reader.segment, &ahead, nodes[i], 1);
                CHECK(ahead.next == (i <= 150 && i >= 86 ? nodes[150] : NULL));
        }
        sb_store_relaxed(&nodes[10]->next[0], sb_offset_of(&reader.segment, nodes[10]));
        sb_ahead_begin_at(&ahead, 0, NULL);
        sb_ahead_climb(&reader.segment, &ahead, nodes[10], 1);
        CHECK(!ahead.next);
        unmake_bus();
}

/* The node from which the next fetch was to begin has left meanwhile, or leads to itself. */
static void test_a_walk_that_was_led_astray_begins_anew(void)
{
        for (uint32_t damaged = 0; damaged < 2; damaged++) {
                struct sb_node *nodes[900], *far;
                struct sb_ahead ahead = {.level = SB_AHEAD_NEAR, .fetches = SB_AHEAD_TIMES};
                uint32_t i, lost = 0;

                CHECK(begin(1 << 20));
                for (i = 0; i < 900; i++) {
                        char key[12];

                        snprintf(key, sizeof(key), "%04u", i);
                        nodes[i] = make_text(key, 1 + 2 * (i % 16 == 5));
                        CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
                }
                sb_order_fetch(&reader, &ahead, nodes[0]);
                CHECK(ahead.level == SB_AHEAD_FAR && ahead.left >= 255 && ahead.next);
                far = sb_node_at(&reader.segment, sb_offset_of(&reader.segment, ahead.next));
                if (damaged)
                        sb_store_relaxed(&far->next[2], sb_offset_of(&reader.segment, far));
                else
                        sb_order_remove(&writer, far);
                for (i = 1; i < 900; i++) {
                        if (nodes[i] == far && !damaged)
                                continue;
                        sb_order_fetch(&reader, &ahead, nodes[i]);
                        lost += ahead.lost && !ahead.left;
                }
                CHECK(lost <= 2);
                CHECK(damaged || !ahead.lost);
                unmake_bus();
        }
}

/* A node in the segment's last bytes, or a cell that leads there: nothing behind it is fetched. */
static void test_no_memory_is_fetched_behind_the_segment(void)
{
        struct sb_ahead ahead = {0};
        struct sb_node *first, *second;
        uint64_t end;

        CHECK(begin(1 << 20));
        end = writer.segment.geometry.size;
        first = make_text("a", 1);
        second = make_text("b", 1);
        CHECK(first && second && sb_order_insert(&writer, second) == second);
        CHECK(sb_order_insert(&writer, first) == first);
        for (uint64_t at = end - 64; at < end; at += 16) {
                sb_store_relaxed(&first->cell, SB_CELL_NUMBER(0, 0));
                sb_store_relaxed(&writer.segment.buckets[0].cell[0], at);
                ahead = (struct sb_ahead){.level = SB_AHEAD_NEAR};
                sb_order_fetch(&reader, &ahead, first);
                CHECK_EQ(ahead.left, 1);
        }
        unmake_bus();
}

static void test_links_that_lead_anywhere_end_every_walk(void)
{
        static const uint64_t links[] = {16, 8, UINT64_MAX - 15, UINT64_C(1) << 47, 1};
        struct sb_node *a, *b;

        for (uint32_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
                CHECK(begin(1 << 20));
                a = make_text("a", 2);
                b = make_text("b", 2);
                CHECK(a && b && sb_order_insert(&writer, a) == a);
                CHECK(sb_order_insert(&writer, b) == b);
                alarm(PATIENCE_S);
                sb_store_relaxed(&a->next[1], links[i] & ~SB_PREV_MARKED);
                CHECK(sb_order_find(&reader, "b", 1) == b); /* a shortcut less */
                sb_store_relaxed(&b->next[0], links[i] & ~SB_PREV_MARKED);
                CHECK(!sb_order_seek(&reader, "b", 1, true));
                CHECK(sb_order_below(&reader, "c", 1, false) == b);
                alarm(0);
                unmake_bus();
        }
}

static void test_a_round_at_any_level_ends_every_walk(void)
{
        struct sb_node *nodes[4];

        for (uint32_t level = 0; level < 3; level++) {
                CHECK(begin(1 << 20));
                for (uint32_t i = 0; i < 4; i++) {
                        const char key[] = {(char)('a' + i), 0};

                        nodes[i] = make_text(key, 3);
                        CHECK(nodes[i] && sb_order_insert(&writer, nodes[i]) == nodes[i]);
                }
                sb_store_relaxed(&nodes[3]->next[level], sb_offset_of(&writer.segment, nodes[1]));
                alarm(PATIENCE_S);
                CHECK(!sb_order_find(&reader, "x", 1));
                CHECK(sb_order_find(&reader, "a", 1) == nodes[0]);
                alarm(0);
                unmake_bus();
        }
}

static void test_a_node_with_lengths_that_cannot_be_has_no_key_and_is_behind_all(void)
{
        struct sb_node *node, *last;
        uint64_t end;

        CHECK(begin(1 << 20));
        node = make_text("key", 2);
        CHECK(node && sb_node_key(&writer.segment, node).bytes == (unsigned char *)&node->next[2]);
        CHECK_EQ(sb_node_compare(&writer.segment, node, "key", 3), 0);
        CHECK(sb_node_compare(&writer.segment, node, "ke", 2) > 0);
        CHECK(sb_node_compare(&writer.segment, node, "keyz", 4) < 0);
        node->height = 0;
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        node->height = SB_HEIGHT_MAX + 1;
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        CHECK_EQ(sb_node_compare(&writer.segment, node, "\xff\xff", 2), 1);
        node->height = 2;
        node->key_len = 0;
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        node->key_len = (uint16_t)(writer.segment.key_len_max + 1);
        CHECK(!sb_node_key(&writer.segment, node).bytes);
        node->key_len = (uint16_t)writer.segment.key_len_max;
        CHECK(sb_node_key(&writer.segment, node).bytes);
        /* Just before the segment's end: what fits is a key, one byte more is none. */
        end = writer.segment.geometry.size;
        last = sb_node_at(&writer.segment, end - sizeof(*last) - 8 * SB_HEIGHT_MAX);
        CHECK(last);
        last->height = 10;
        last->key_len = 8 * (SB_HEIGHT_MAX - 10);
        CHECK(sb_node_key(&writer.segment, last).bytes);
        last->key_len++;
        CHECK(!sb_node_key(&writer.segment, last).bytes);
        unmake_bus();
}

static void test_of_four_nodes_one_is_higher_up_to_the_segments_height(void)
{
        uint32_t counts[SB_HEIGHT_MAX + 2] = {0}, height;

        CHECK(begin(64 << 20));
        for (uint32_t i = 0; i < 1u << 16; i++) {
                height = sb_node_height(&writer.segment, draw_word());
                CHECK(height >= 1 && height <= writer.segment.height_max);
                counts[height]++;
        }
        for (height = 1; height < 5; height++) {
                uint32_t expected = (3u << 16) >> 2 * height;

                CHECK(counts[height] > expected * 9 / 10 && counts[height] < expected * 11 / 10);
        }
        /* The bits that choose the bucket, and the tag but for what is above, say nothing. */
        CHECK_EQ(sb_node_height(&writer.segment, 0x1ffff), 1);
        CHECK_EQ(sb_node_height(&writer.segment, 0x4ffff), 2);
        CHECK_EQ(sb_node_height(&writer.segment, 0xffff), writer.segment.height_max);
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
        RUN(test_a_removed_node_is_marked_at_all_levels_and_its_key_can_come_again);
        RUN(test_a_half_made_removal_counts_from_level_0_on_and_any_walk_finishes_it);
        RUN(test_a_node_that_is_linked_at_level_0_alone_is_in_and_can_be_removed);
        RUN(test_a_node_is_marked_before_it_is_linked_above_and_does_not_stay_there);
        RUN(test_a_walk_by_next_meets_every_key_once_and_in_order);
        RUN(test_a_walk_meets_every_key_with_its_prefix_and_no_other);
        RUN(test_a_walk_ends_at_damage_and_says_so);
        RUN(test_a_run_is_the_nodes_right_below_a_key);
        RUN(test_memory_is_fetched_of_all_nodes_once);
        RUN(test_a_walk_finds_its_way_up_from_any_node);
        RUN(test_a_way_up_ends);
        RUN(test_a_walk_that_was_led_astray_begins_anew);
        RUN(test_no_memory_is_fetched_behind_the_segment);
        RUN(test_links_that_lead_anywhere_end_every_walk);
        RUN(test_a_round_at_any_level_ends_every_walk);
        RUN(test_a_node_with_lengths_that_cannot_be_has_no_key_and_is_behind_all);
        RUN(test_of_four_nodes_one_is_higher_up_to_the_segments_height);
        return test_end();
}
