/*
 * Rules of history (shm/history/rules.h): which rule a key has, against a search through all of
 * them; what it keeps and lets go; and where nodes and cells say so.
 */
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/keys/order.h"
#include "shm/layout/reserved.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define RULES_MAX 120u

struct rule {
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len;
        bool prefix;
        uint64_t word, since;
};
static struct rule rules[RULES_MAX];
static uint32_t rule_count;

static uint64_t now_ns;
static uint64_t read_clock(void *context)
{
        (void)context;
        return now_ns;
}
static void flush(void *context)
{
        (void)context;
}
static const struct sb_os clock_of_the_test = {
        .now_ns = read_clock, .realtime_ns = read_clock, .membarrier = flush};

static bool begin(uint64_t size)
{
        rule_count = 0;
        draw_state = size;
        if (!make_bus(size))
                return false;
        writer.segment.os = reader.segment.os = &clock_of_the_test;
        return true;
}

/* A rule that is there before is replaced. */
static bool set_rule_since(
        const void *key, uint32_t len, bool prefix, uint64_t word, uint64_t since)
{
        struct sb_rule_value value = {.word = word, .since = since};
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t at = 0, bytes_len = sb_rules_key(key, len, prefix, bytes);
        uint64_t rev;

        while (at < rule_count && (rules[at].len != len || rules[at].prefix != prefix ||
                                          memcmp(rules[at].key, len ? key : "", len)))
                at++;
        rules[at].len = len;
        rules[at].prefix = prefix;
        rules[at].word = word;
        rules[at].since = since;
        if (len)
                memcpy(rules[at].key, key, len);
        rule_count += at == rule_count;
        sb_rules_announce(&writer, len, prefix);
        return !sb_op_write_reserved(
                &writer, bytes, bytes_len, &value, sizeof(value), SB_OP_ANY_REV, &rev);
}

static bool set_rule(const void *key, uint32_t len, bool prefix, uint64_t word)
{
        return set_rule_since(key, len, prefix, word, 1);
}

static const struct rule *rule_of(const void *key, uint32_t len, bool prefix)
{
        for (uint32_t i = 0; i < rule_count; i++)
                if (rules[i].len == len && rules[i].prefix == prefix &&
                        !memcmp(rules[i].key, len ? key : "", len))
                        return &rules[i];
        return NULL;
}

/* What sb_rules_find() has to say. *ret_since: the latest cut that a longer one left; 0: one of
 * them is being taken away. */
static const struct rule *expected(
        const unsigned char *key, uint32_t len, bool prefix, uint64_t *ret_since)
{
        const struct rule *rule = prefix ? NULL : rule_of(key, len, false);
        bool leaving = false;

        *ret_since = 1;
        for (uint32_t at = len + 1;; rule = rule_of(key, at, true)) {
                if (rule && SB_RULE_KIND(rule->word) != SB_RULE_NEWEST)
                        break;
                leaving |= rule && !rule->since;
                if (rule && rule->since > *ret_since)
                        *ret_since = rule->since;
                if (at-- == 0)
                        return NULL;
        }
        if (rule->since > *ret_since || !rule->since)
                *ret_since = rule->since;
        *ret_since = leaving ? 0 : *ret_since;
        return rule;
}

static bool finds_the_right_one(const unsigned char *key, uint32_t len, bool prefix)
{
        struct sb_rule_found found;
        const struct rule *rule;
        uint64_t since;

        rule = expected(key, len, prefix, &since);
        sb_pin(&reader);
        sb_rules_find(&reader, key, len, prefix, &found);
        sb_unpin(&reader);
        if (!rule)
                return !found.key_len && !found.value.word;
        return found.value.word == rule->word && (found.renewed ? 0 : found.value.since) == since &&
               found.key_len == rule->len + SB_KEEP_PREFIX;
}

static uint32_t draw_key(unsigned char *ret)
{
        static const unsigned char letters[] = {0, 'a', 0xff};
        uint32_t len = draw(6);

        for (uint32_t i = 0; i < len; i++)
                ret[i] = letters[draw(3)];
        return len;
}

static void test_a_bus_without_rules_has_none_for_any_key(void)
{
        CHECK(begin(1 << 20));
        CHECK(!sb_rules_any(&reader.segment));
        CHECK(finds_the_right_one((const unsigned char *)"key", 3, false));
        CHECK(finds_the_right_one((const unsigned char *)"", 0, true));
        unmake_bus();
}

static void test_an_own_rule_comes_before_the_longest_prefix(void)
{
        unsigned char key[SB_KEY_LEN_MAX];

        CHECK(begin(4 << 20));
        for (uint32_t step = 0; step < 4000; step++) {
                uint32_t len = draw_key(key);

                if (rule_count < RULES_MAX - 1 && !draw(8)) {
                        bool prefix = !len || draw(2);

                        CHECK(set_rule_since(key, len, prefix,
                                draw(4) ? SB_RULE_WORD(1 + draw(3), step) : 0, draw(6)));
                }
                len = draw_key(key);
                CHECK(finds_the_right_one(key, len, len && !draw(3)));
        }
        CHECK(rule_count > 100 && sb_rules_any(&reader.segment));
        unmake_bus();
}

static void test_prefixes_of_every_length_are_found(void)
{
        static const uint32_t lens[] = {1, 62, 63, 64, 65, 127, 128, 500, 511, 512};
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t most;

        CHECK(begin(4 << 20));
        most = writer.segment.key_len_max - SB_KEEP_PREFIX;
        memset(key, 'p', sizeof(key));
        for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
                CHECK(set_rule(key, lens[i], true, SB_RULE_WORD(SB_RULE_LAST, lens[i])));
        for (uint32_t len = 1; len <= writer.segment.key_len_max; len++)
                CHECK(finds_the_right_one(key, len, false));
        CHECK(set_rule(key, most, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        CHECK(set_rule(key, most - 1, false, SB_RULE_WORD(SB_RULE_LAST, 9)));
        for (uint32_t len = most - 3; len <= writer.segment.key_len_max; len++)
                CHECK(finds_the_right_one(key, len, false));
        unmake_bus();
}

static void test_the_buss_own_keys_have_no_rule(void)
{
        struct sb_rule_found found = {.key_len = 1};

        CHECK(begin(1 << 20));
        CHECK(set_rule("", 0, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        sb_pin(&reader);
        sb_rules_find(&reader, SB_RESERVED_MARK "x", SB_MARK_PREFIX + 1, false, &found);
        CHECK(!found.key_len && !found.value.word);
        sb_rules_find(&reader, SB_RESERVED_END "x", SB_RESERVED_LEN + 1, false, &found);
        CHECK_EQ(found.value.word, SB_RULE_WORD(SB_RULE_ALL, 0));
        sb_unpin(&reader);
        unmake_bus();
}

static void test_a_rule_that_is_no_rules_value_does_not_count(void)
{
        unsigned char bytes[SB_KEY_LEN_MAX];
        struct sb_rule_found found;
        uint64_t rev;
        uint32_t len;

        CHECK(begin(1 << 20));
        CHECK(set_rule("k", 1, false, SB_RULE_WORD(SB_RULE_LAST, 2)));
        len = sb_rules_key("k", 1, false, bytes);
        CHECK_EQ(len, SB_KEEP_PREFIX + 1);
        CHECK(!memcmp(bytes, "\0sb\0keep\0Kk", len));
        sb_pin(&reader);
        CHECK(sb_rules_read(&reader, "k", 1, false, &found));
        CHECK_EQ(found.rev, 1);
        CHECK(!sb_rules_read(&reader, "k", 1, true, &found));
        sb_unpin(&reader);
        CHECK(!sb_op_write_reserved(&writer, bytes, len, "too short", 9, SB_OP_ANY_REV, &rev));
        sb_pin(&reader);
        CHECK(!sb_rules_read(&reader, "k", 1, false, &found));
        sb_unpin(&reader);
        CHECK(set_rule("k", 1, false, SB_RULE_WORD(SB_RULE_LAST, 2)));
        CHECK(!sb_op_write_reserved(&writer, bytes, len, NULL, 0, SB_OP_ANY_REV, &rev));
        sb_pin(&reader);
        CHECK(!sb_rules_read(&reader, "k", 1, false, &found));
        sb_unpin(&reader);
        unmake_bus();
}

static void test_what_a_rule_keeps_depends_on_its_kind_and_never_lies_under_the_floor(void)
{
        for (uint32_t step = 0; step < 100000; step++) {
                enum sb_rule_kind kind = draw(4);
                uint64_t value = draw(6), number = 1 + draw(8), successor = draw(30),
                         stamp = draw(30);
                struct sb_keeping keeping = {
                        .word = SB_RULE_WORD(kind, value), .floor = draw(12), .horizon = draw(30)};
                bool above = successor > keeping.floor, keep = false, forget = false;

                switch (kind) {
                case SB_RULE_NEWEST:
                        forget = true;
                        break;
                case SB_RULE_LAST:
                        keep = number <= value;
                        break;
                case SB_RULE_SPAN:
                        keep = successor > keeping.horizon;
                        forget = stamp <= keeping.horizon;
                        break;
                case SB_RULE_ALL:
                        keep = true;
                        break;
                }
                CHECK_EQ(sb_rules_keep(&keeping, number, successor), keep && above);
                CHECK_EQ(sb_rules_forget(&keeping, stamp), forget || stamp <= keeping.floor);
        }
}

static bool says(const char *key, uint64_t word)
{
        struct sb_spot spot;
        struct sb_node *node;
        bool right;

        sb_pin(&writer);
        right = sb_key_find(
                &writer, key, (uint32_t)strlen(key), hash_of(key, (uint32_t)strlen(key)), &spot);
        node = right ? sb_node_at(&writer.segment, spot.head->node) : NULL;
        right = right && sb_rules_of_node(node) == word && !(spot.word & SB_CELL_KEPT) == !word;
        sb_unpin(&writer);
        return right;
}

static void test_applied_to_all_with_a_prefix_it_stands_in_their_nodes_and_cells_alone(void)
{
        enum { KEYS = 230 };
        static char names[KEYS][8];
        uint64_t word = SB_RULE_WORD(SB_RULE_LAST, 4), special = SB_RULE_WORD(SB_RULE_ALL, 0);

        CHECK(begin(4 << 20));
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(names[i], sizeof(names[i]), "%c%03u", "abc"[i % 3], i);
                CHECK(!put(&writer, names[i], "1", 1));
        }
        CHECK(set_rule("b", 1, true, word) && set_rule(names[1], 4, false, special));
        sb_rules_apply_all(&reader, "b", 1, true);
        for (uint32_t i = 0; i < KEYS; i++)
                CHECK(says(names[i], i % 3 != 1 ? 0 : i == 1 ? special : word));
        /* For one key, and no other that begins so. */
        CHECK(set_rule(names[0], 4, false, word));
        CHECK(!put(&writer, "a0000", "1", 1));
        CHECK(set_rule("a0000", 5, false, special)); /* written, and not applied yet */
        sb_rules_apply_all(&reader, names[0], 4, false);
        CHECK(!is_pinned());
        CHECK(says(names[0], word) && says("a0000", 0) && says(names[3], 0));
        /* Taken away, and only that one. */
        CHECK(set_rule("b", 1, true, SB_RULE_WORD(SB_RULE_NEWEST, 0)));
        sb_rules_apply_all(&reader, "b", 1, true);
        for (uint32_t i = 1; i < KEYS; i++)
                CHECK(says(names[i], i == 1 ? special : 0));
        unmake_bus();
}

static void test_all_keys_of_a_bus_have_an_empty_prefix(void)
{
        uint64_t word = SB_RULE_WORD(SB_RULE_SPAN, 77);
        char name[8];

        CHECK(begin(2 << 20));
        for (uint32_t i = 0; i < 128; i++) { /* two pins' worth, exactly */
                snprintf(name, sizeof(name), "%c%u", (char)(1 + i), i);
                CHECK(!put(&writer, name, "1", 1));
        }
        CHECK(set_rule(NULL, 0, true, word));
        sb_rules_apply_all(&reader, NULL, 0, true);
        for (uint32_t i = 0; i < 128; i++) {
                snprintf(name, sizeof(name), "%c%u", (char)(1 + i), i);
                CHECK(says(name, word));
        }
        CHECK(!put(&writer, "new", "1", 1)); /* its maker looks for itself */
        CHECK(says("new", word));
        unmake_bus();
}

static void test_a_cell_that_is_going_and_a_node_without_one_get_no_flag(void)
{
        uint64_t word = SB_RULE_WORD(SB_RULE_LAST, 1), old;
        struct sb_node *node;
        struct sb_spot spot;

        CHECK(begin(1 << 20));
        CHECK(!put(&writer, "k", "1", 1) && set_rule("k", 1, false, word));
        sb_pin(&writer);
        CHECK(spot_of("k", &spot));
        node = sb_node_at(&writer.segment, spot.head->node);
        sb_or_full(spot.cell, SB_CELL_FROZEN);
        sb_rules_apply(&writer, node);
        CHECK_EQ(sb_rules_of_node(node), word);
        CHECK_EQ(sb_load_relaxed(spot.cell), spot.word | SB_CELL_FROZEN);
        old = sb_exchange_full(&node->cell, SB_NODE_GONE);
        sb_rules_apply(&writer, node);
        sb_store_relaxed(&node->cell, 0);
        sb_rules_apply(&writer, node);
        CHECK_EQ(sb_load_relaxed(spot.cell), spot.word | SB_CELL_FROZEN);
        sb_store_relaxed(&node->cell, old);
        sb_and_full(spot.cell, ~SB_CELL_FROZEN);
        sb_rules_apply(&writer, node);
        CHECK_EQ(sb_load_relaxed(spot.cell), spot.word | SB_CELL_KEPT);
        unmake_bus();
}

#define TICK UINT64_C(5000000)

static void test_the_horizon_of_a_span_is_the_newest_cut_that_is_older(void)
{
        uint32_t count, known = 0;

        CHECK(begin(4 << 20));
        count = writer.segment.geometry.times_count;
        CHECK(count >= 16);
        now_ns = 1000 * TICK;
        for (uint64_t cut = 2; cut < 300; cut++) {
                struct sb_moment moment = {
                        .cut = cut, .realtime_ns = now_ns, .monotonic_ns = now_ns};

                sb_times_note(&writer.segment, &moment);
                for (uint64_t ticks = 0; ticks < count / 2; ticks += 3) {
                        uint64_t horizon = sb_rules_horizon(&reader, ticks * TICK);

                        CHECK_EQ(horizon, cut < ticks + 2 ? 0 : cut - ticks);
                        known += horizon != 0;
                }
                now_ns += TICK;
        }
        CHECK(known > 1000);
        CHECK_EQ(sb_rules_horizon(&reader, UINT64_MAX >> 3), 0); /* longer than the table */
        unmake_bus();
}

static void test_what_a_pruner_is_told_is_what_node_and_bus_say_now(void)
{
        struct sb_moment moment = {.cut = 40};
        struct sb_keeping keeping;
        struct sb_node *node;

        CHECK(begin(4 << 20));
        CHECK(!put(&writer, "k", "1", 1));
        sb_pin(&writer);
        node = sb_order_find(&writer, "k", 1);
        sb_store_relaxed(&writer.segment.super->history_floor, 17);
        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_LAST, 6));
        sb_rules_keeping(&writer, node, 100, &keeping);
        CHECK_EQ(keeping.word, SB_RULE_WORD(SB_RULE_LAST, 6));
        CHECK(keeping.floor == 17 && keeping.horizon == 0);
        moment.monotonic_ns = moment.realtime_ns = 1000 * TICK;
        now_ns = 1001 * TICK;
        sb_times_note(&writer.segment, &moment);
        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_SPAN, TICK));
        sb_rules_keeping(&writer, node, 100, &keeping);
        CHECK_EQ(keeping.horizon, 40);
        /* What was worked out for a bound holds as long as that: it keeps more. */
        moment.cut = 50;
        moment.monotonic_ns = 1002 * TICK;
        now_ns = 1003 * TICK;
        sb_times_note(&writer.segment, &moment);
        sb_rules_keeping(&writer, node, 100, &keeping);
        CHECK_EQ(keeping.horizon, 40);
        sb_rules_keeping(&writer, node, 101, &keeping);
        CHECK_EQ(keeping.horizon, 50);
        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_SPAN, 2 * TICK));
        sb_rules_keeping(&writer, node, 101, &keeping);
        CHECK_EQ(keeping.horizon, 40);
        unmake_bus();
}

static void test_a_copy_keeps_no_less_than_its_rule_and_hardly_more(void)
{
        draw_state = 11;
        CHECK_EQ(sb_rules_copy(SB_RULE_WORD(SB_RULE_NEWEST, 0), 5), 0);
        for (uint32_t step = 0; step < 10000; step++) {
                uint64_t value = step ? draw_word() >> (2 + draw(62)) : SB_RULE_VALUE(UINT64_MAX),
                         tag = draw_word();
                uint64_t span = sb_rules_copy(SB_RULE_WORD(SB_RULE_SPAN, value), tag),
                         last = sb_rules_copy(SB_RULE_WORD(SB_RULE_LAST, value), tag),
                         all = sb_rules_copy(SB_RULE_WORD(SB_RULE_ALL, 0), tag), kept;

                CHECK_EQ(SB_RULE_KIND(sb_rules_of_copy(span)), SB_RULE_SPAN);
                kept = SB_RULE_VALUE(sb_rules_of_copy(span));
                CHECK(kept >= value && kept - value <= value >> 25);
                CHECK_EQ(sb_rules_of_copy(last),
                        SB_RULE_WORD(SB_RULE_LAST, value < UINT32_MAX ? value : UINT32_MAX));
                CHECK_EQ(sb_rules_of_copy(all), SB_RULE_WORD(SB_RULE_ALL, 0));
                /* Another tag is another copy of the same rule. */
                CHECK(span != sb_rules_copy(SB_RULE_WORD(SB_RULE_SPAN, value), tag + 1));
                CHECK(last != sb_rules_copy(SB_RULE_WORD(SB_RULE_LAST, value), tag + 1));
                CHECK(all != sb_rules_copy(SB_RULE_WORD(SB_RULE_ALL, 0), tag + 1));
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bus_without_rules_has_none_for_any_key);
        RUN(test_an_own_rule_comes_before_the_longest_prefix);
        RUN(test_prefixes_of_every_length_are_found);
        RUN(test_the_buss_own_keys_have_no_rule);
        RUN(test_a_rule_that_is_no_rules_value_does_not_count);
        RUN(test_what_a_rule_keeps_depends_on_its_kind_and_never_lies_under_the_floor);
        RUN(test_applied_to_all_with_a_prefix_it_stands_in_their_nodes_and_cells_alone);
        RUN(test_all_keys_of_a_bus_have_an_empty_prefix);
        RUN(test_a_cell_that_is_going_and_a_node_without_one_get_no_flag);
        RUN(test_the_horizon_of_a_span_is_the_newest_cut_that_is_older);
        RUN(test_what_a_pruner_is_told_is_what_node_and_bus_say_now);
        RUN(test_a_copy_keeps_no_less_than_its_rule_and_hardly_more);
        return test_end();
}
