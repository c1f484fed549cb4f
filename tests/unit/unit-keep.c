/*
 * Rules of history and marks, written (ring/op/keep.h, mark.h): against a plain list of them; what
 * a process that died in the middle left is finished; and what a rule that goes leaves to wider
 * ones these cover from then on.
 */
#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/keys/order.h"
#include "shm/layout/reserved.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/evict.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

static const char *const keys[] = {"a", "ab", "abc", "abd", "b", "ba", "c"};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static uint32_t len_of(uint32_t i)
{
        return (uint32_t)strlen(keys[i]);
}

static bool begin(void)
{
        draw_state = 8;
        if (!make_bus(2 << 20))
                return false;
        for (uint32_t i = 0; i < KEYS; i++)
                if (put(&writer, keys[i], "x", 1))
                        return false;
        return true;
}

static bool read_rule(uint32_t i, bool prefix, struct sb_rule_found *ret)
{
        bool found;

        *ret = (struct sb_rule_found){0};
        sb_pin(&reader);
        found = sb_rules_read(&reader, keys[i], len_of(i), prefix, ret);
        sb_unpin(&reader);
        return found;
}

/* What the node of a key says. */
static uint64_t word_of(uint32_t i)
{
        struct sb_node *node;
        uint64_t word;

        sb_pin(&reader);
        node = sb_order_find(&reader, keys[i], len_of(i));
        word = node ? sb_rules_of_node(node) : 1;
        sb_unpin(&reader);
        return word;
}

/* The words of the rules, by key and [prefix]; 0: none. */
static uint64_t model[KEYS][2];

static uint64_t model_word(uint32_t i)
{
        uint64_t word = 0;

        for (uint32_t j = 0; j < KEYS; j++) /* the longest prefix is the last one */
                if (model[j][1] && !strncmp(keys[i], keys[j], len_of(j)))
                        word = model[j][1];
        return model[i][0] ? model[i][0] : word;
}

static void test_what_was_written_last_is_looked_up_and_stands_in_every_node(void)
{
        CHECK(begin());
        memset(model, 0, sizeof(model));
        for (uint32_t step = 0; step < 1500; step++) {
                uint32_t i = draw(KEYS), prefix = draw(2);
                uint64_t word = draw(4) ? SB_RULE_WORD(1 + draw(3), 1 + draw(9)) : 0, found = 0;
                uint64_t before = sb_load_relaxed(&writer.segment.super->clock);
                struct sb_rule_found rule, old;
                bool stands = read_rule(i, prefix, &old) && model[i][prefix] == word;

                CHECK_EQ(sb_keep_write(
                                 draw(2) ? &writer : &reader, keys[i], len_of(i), prefix, word),
                        0);
                CHECK(!is_pinned());
                model[i][prefix] = word;
                /* A place of one that went says from when on others cover its keys. */
                CHECK(read_rule(i, prefix, &rule) ? rule.value.word == word && rule.value.since
                                                  : !word);
                /* Of a new rule a cut that was taken behind that; one that stood covers what it
                 * covered. */
                CHECK(!word || (stands ? rule.value.since == old.value.since
                                       : rule.value.since >= before));
                for (uint32_t j = 0; j < KEYS; j++) {
                        for (uint32_t k = 0; k < 2; k++) {
                                int r = sb_keep_look_up(&writer, keys[j], len_of(j), k, &found);

                                CHECK_EQ(r, model[j][k] ? 0 : SB_E_NOT_FOUND);
                                CHECK(r || found == model[j][k]);
                                CHECK(!is_pinned());
                        }
                        CHECK_EQ(word_of(j), model_word(j));
                }
        }
        unmake_bus();
}

static void test_a_rule_that_is_not_there_is_taken_away_without_a_write(void)
{
        const struct sb_superblock *super;
        uint64_t clock;

        CHECK(begin());
        super = writer.segment.super;
        clock = sb_load_relaxed(&super->clock);
        for (uint32_t i = 0; i < KEYS; i++)
                for (uint32_t prefix = 0; prefix < 2; prefix++)
                        CHECK_EQ(sb_keep_write(&writer, keys[i], len_of(i), prefix, 0), 0);
        CHECK_EQ(sb_load_relaxed(&super->clock), clock);
        /* Readers of rules look for none of these lengths. */
        for (uint32_t i = 0; i < sizeof(super->rule_lengths) / sizeof(super->rule_lengths[0]); i++)
                CHECK_EQ(sb_load_relaxed(&super->rule_lengths[i]), 0);
        unmake_bus();
}

/* What applies to a key, or to all with a prefix. */
static struct sb_rule_found find_rule(const char *key, bool prefix)
{
        struct sb_rule_found found;

        sb_pin(&reader);
        sb_rules_find(&reader, key, (uint32_t)strlen(key), prefix, &found);
        sb_unpin(&reader);
        return found;
}

/* Below a rule for all keys, which begins anew with none of them. */
static bool leave_places(uint32_t count)
{
        char key[16];

        for (uint32_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "place%u", i);
                if (sb_keep_write(&writer, key, (uint32_t)strlen(key), i % 2,
                            SB_RULE_WORD(SB_RULE_ALL, 0)) ||
                        sb_keep_write(&writer, key, (uint32_t)strlen(key), i % 2, 0))
                        return false;
        }
        return true;
}

/* How many places the rules have. */
static uint32_t count_places(void)
{
        uint32_t count = 0;
        char key[16];

        for (uint32_t i = 0; i < SB_KEEP_PLACES_MAX; i++) {
                struct sb_rule_found found = {0};

                snprintf(key, sizeof(key), "place%u", i);
                sb_pin(&reader);
                count += sb_rules_read(&reader, key, (uint32_t)strlen(key), i % 2, &found);
                sb_unpin(&reader);
        }
        return count;
}

static void test_a_rule_that_goes_leaves_its_keys_to_wider_ones_from_then_on(void)
{
        for (uint32_t prefix = 0; prefix < 2; prefix++) {
                uint64_t word = SB_RULE_WORD(SB_RULE_ALL, 0), clock;
                struct sb_rule_found before[KEYS], after;

                CHECK(begin());
                for (uint32_t i = 0; i < KEYS; i++)
                        CHECK(!sb_keep_write(&writer, keys[i], len_of(i), true, word));
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, word));
                for (uint32_t i = 0; i < KEYS; i++)
                        CHECK(read_rule(i, true, &before[i]));
                clock = sb_load_relaxed(&writer.segment.super->clock);
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, 0));
                for (uint32_t i = 0; i < KEYS; i++) {
                        if (i == 2 && prefix)
                                continue;
                        CHECK(read_rule(i, true, &after));
                        CHECK(after.rev == before[i].rev);
                        CHECK_EQ(after.value.since, before[i].value.since);
                        CHECK_EQ(after.value.word, word);
                }
                after = find_rule("abc", false);
                CHECK(after.value.word == word && after.value.since >= clock && !after.renewed);
                CHECK_EQ(find_rule("abcd", false).value.since >= clock, prefix);
                CHECK(find_rule("abd", false).value.since == before[3].value.since);
                CHECK(find_rule("abb", false).value.since == before[1].value.since);
                /* It goes but once, and comes back as a rule like any other. */
                clock = sb_load_relaxed(&writer.segment.super->clock);
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, 0));
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->clock), clock);
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, word));
                CHECK(find_rule("abc", false).value.since >= clock);
                unmake_bus();
        }
}

/* They are looked at by each scan of the past, so there are not too many. */
static void test_where_there_are_too_many_places_all_wider_rules_begin_anew(void)
{
        static const bool wider[KEYS] = {true, true}; /* of the key abc */

        for (uint32_t prefix = 0; prefix < 2; prefix++) {
                uint64_t word = SB_RULE_WORD(SB_RULE_ALL, 0), clock;
                struct sb_rule_found before[KEYS], after;

                CHECK(begin() && !sb_keep_write(&writer, "", 0, true, word));
                CHECK(leave_places(SB_KEEP_PLACES_MAX));
                CHECK_EQ(count_places(), SB_KEEP_PLACES_MAX);
                CHECK(find_rule("", true).value.since < find_rule("place1x", false).value.since);
                for (uint32_t i = 0; i < KEYS; i++)
                        CHECK(!sb_keep_write(&writer, keys[i], len_of(i), true, word));
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, word));
                for (uint32_t i = 0; i < KEYS; i++)
                        CHECK(read_rule(i, true, &before[i]));
                clock = sb_load_relaxed(&writer.segment.super->clock);
                CHECK(!sb_keep_write(&writer, "abc", 3, prefix, 0));
                for (uint32_t i = 0; i < KEYS; i++) {
                        bool renews = wider[i] || (i == 2 && !prefix);

                        CHECK_EQ(read_rule(i, true, &after), !(i == 2 && prefix));
                        if (i == 2 && prefix)
                                continue;
                        CHECK_EQ(after.value.since >= clock, renews);
                        CHECK(renews || after.rev == before[i].rev);
                        CHECK_EQ(after.value.word, word);
                }
                CHECK(find_rule("", true).value.since >= clock);
                /* Now they say nothing, and the next one that goes has them go. */
                CHECK(!sb_keep_write(&writer, "b", 1, true, 0));
                CHECK(!count_places() && read_rule(4, true, &after) && !after.value.word);
                unmake_bus();
        }
}

/* A client that is stopped with an open cut keeps the keys of rules that stood then. */
static void test_rules_that_an_open_cut_keeps_do_not_count_as_rules(void)
{
        struct sb_rule_value value = {.word = SB_RULE_WORD(SB_RULE_ALL, 0), .since = 1};
        uint64_t revs[SB_KEEP_LOOKS_MAX], cut, since;
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t snapshot;

        CHECK(begin());
        for (uint32_t round = 0; round < 2; round++) {
                for (uint32_t i = 0; i < SB_KEEP_LOOKS_MAX; i++) {
                        char key[8];
                        uint32_t len = (uint32_t)snprintf(key, sizeof(key), "A%u", i);

                        len = sb_rules_key(key, len, true, bytes);
                        CHECK(!sb_op_write_reserved(&writer, bytes, len, round ? NULL : &value,
                                round ? 0 : sizeof(value), round ? revs[i] : 0, &revs[i]));
                }
                if (!round)
                        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        }
        CHECK(!sb_keep_write(&writer, "", 0, true, value.word));
        since = find_rule("", true).value.since;
        CHECK(!sb_keep_write(&writer, "abc", 3, true, value.word));
        CHECK(!sb_keep_write(&writer, "abc", 3, true, 0));
        CHECK_EQ(find_rule("", true).value.since, since);
        CHECK(find_rule("abc", true).value.since > since);
        sb_snapshot_close(&reader, snapshot);
        unmake_bus();
}

/* The widest one covers nothing of that time any more. */
static void test_a_place_goes_when_no_wider_rule_covers_a_cut_before_it(void)
{
        uint64_t all = SB_RULE_WORD(SB_RULE_ALL, 0);
        struct sb_rule_found found;

        for (uint32_t way = 0; way < 3; way++) {
                CHECK(begin() && !sb_keep_write(&writer, "", 0, true, all));
                CHECK(leave_places(3));
                CHECK_EQ(count_places(), 3);
                if (way == 0)
                        CHECK(!sb_keep_write(&writer, "", 0, true, 0));
                if (way == 1)
                        CHECK(!sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 4)));
                if (way == 2)
                        CHECK(!sb_keep_write(&writer, "pl", 2, true, all));
                CHECK(!sb_keep_write(&writer, "a", 1, true, all));
                CHECK(!sb_keep_write(&writer, "b", 1, true, all));
                CHECK(!sb_keep_write(&writer, "ab", 2, true, all));
                CHECK(!sb_keep_write(&writer, "ab", 2, true, 0));
                CHECK_EQ(count_places(), 0);
                CHECK(read_rule(1, true, &found) && !found.value.word);
                unmake_bus();
        }
}

static uint64_t now_ns;
static uint64_t read_clock(void *context)
{
        (void)context;
        return now_ns;
}

/* The engine notes a cut. */
static void note_time(uint64_t seconds)
{
        struct sb_moment moment = {.cut = sb_clock_take_cut(&writer)};

        moment.realtime_ns = moment.monotonic_ns = now_ns = seconds * UINT64_C(1000000000);
        sb_times_note(&writer.segment, &moment);
}

/* Its span has gone by. */
static void test_a_place_below_a_rule_with_a_span_goes_with_that(void)
{
        struct sb_os os = sb_os_linux;

        os.now_ns = read_clock;
        CHECK(begin());
        writer.segment.os = reader.segment.os = &os;
        note_time(1000);
        CHECK(!sb_keep_write(
                &writer, "", 0, true, SB_RULE_WORD(SB_RULE_SPAN, UINT64_C(60000000000))));
        CHECK(leave_places(3));
        note_time(2000);
        CHECK(!sb_keep_write(&writer, "b", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        CHECK(!sb_keep_write(&writer, "b", 1, true, 0));
        CHECK_EQ(count_places(), 3);
        note_time(3000);
        CHECK(!sb_keep_write(&writer, "b", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        CHECK(!sb_keep_write(&writer, "b", 1, true, 0));
        CHECK_EQ(count_places(), 0);
        unmake_bus();
}

static void test_what_a_dead_process_left_in_the_middle_is_finished(void)
{
        for (uint32_t step = 0; step < KEYS * 4; step++) {
                uint32_t i = step / 4, len;
                bool prefix = step & 1, goes = step & 2;
                struct sb_rule_value value = {.word = goes ? 0 : SB_RULE_WORD(SB_RULE_LAST, 5)};
                unsigned char bytes[SB_KEY_LEN_MAX];
                struct sb_rule_found done, again, half;
                uint64_t rev, other = SB_RULE_WORD(SB_RULE_ALL, 0);

                CHECK(begin());
                CHECK(!sb_keep_write(&writer, "a", 1, true, other));
                CHECK(!sb_keep_write(&writer, keys[i], len_of(i), prefix, other));
                CHECK(read_rule(0, true, &done));
                sb_rules_announce(&writer, len_of(i), prefix);
                len = sb_rules_key(keys[i], len_of(i), prefix, bytes);
                CHECK(!sb_op_write_reserved(
                        &writer, bytes, len, &value, sizeof(value), SB_OP_ANY_REV, &rev));
                CHECK(read_rule(i, prefix, &half));
                /* Half taken away is away. */
                CHECK_EQ(sb_keep_look_up(&reader, keys[i], len_of(i), prefix, &rev),
                        goes ? SB_E_NOT_FOUND : 0);
                sb_keep_repair(&reader);
                /* Where a wider rule covers its keys from now on, its place says so. */
                CHECK_EQ(read_rule(i, prefix, &half),
                        !goes || (keys[i][0] == 'a' && !(prefix && !i)));
                CHECK(half.value.word == value.word && (goes || half.value.since));
                if (!goes)
                        CHECK_EQ(word_of(i), value.word);
                else
                        CHECK_EQ(word_of(i), keys[i][0] == 'a' && !(prefix && !i) ? other : 0);
                /* What was complete is as it was, and nothing is done twice. */
                CHECK((prefix && !i) || (read_rule(0, true, &again) && again.value.word == other));
                CHECK((prefix && !i) || again.rev == done.rev);
                rev = sb_load_relaxed(&writer.segment.super->clock);
                sb_keep_repair(&writer);
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->clock), rev);
                unmake_bus();
        }
}

/* What a process that died in the middle of taking a rule away leaves. */
static bool leave_half(const char *key, bool prefix, uint64_t *ret_rev)
{
        struct sb_rule_value value = {.word = 0};
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key(key, (uint32_t)strlen(key), prefix, bytes);

        return !sb_op_write_reserved(
                &writer, bytes, len, &value, sizeof(value), SB_OP_ANY_REV, ret_rev);
}

static void test_repair_passes_by_the_keys_of_rules_that_are_gone(void)
{
        uint64_t moved[2], rev, cut;
        struct sb_rule_found found;
        uint32_t snapshot;

        for (uint32_t gone = 0; gone < 2; gone++) {
                CHECK(begin());
                CHECK(!sb_keep_write(&writer, "a", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
                CHECK(!sb_keep_write(&writer, "b", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
                /* An open cut: what was a rule's key stays in the index. */
                CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
                if (gone)
                        CHECK(!sb_keep_write(&writer, "b", 1, true, 0));
                CHECK(leave_half("a", true, &rev));
                moved[gone] = sb_load_relaxed(&writer.segment.super->clock);
                CHECK(!sb_keep_repair(&writer));
                moved[gone] = sb_load_relaxed(&writer.segment.super->clock) - moved[gone];
                CHECK(!read_rule(0, true, &found));
                CHECK_EQ(read_rule(4, true, &found), !gone);
                sb_snapshot_close(&reader, snapshot);
                unmake_bus();
        }
        /* One rule was finished, with one cut or none; the other was left alone. */
        CHECK_EQ(moved[0], moved[1]);
}

/* Fill the bus with values of every size. */
static bool fill(void)
{
        static char value[4096];
        char key[16];
        uint32_t i = 0;

        for (uint64_t len = sizeof(value); len; len = len > 64 ? len / 2 : len - 1) {
                int r = 0;

                while (!r) {
                        snprintf(key, sizeof(key), "fill%u", i++);
                        r = put(&writer, key, value, len);
                }
                if (r != SB_E_FULL)
                        return false;
        }
        return true;
}

static void test_no_rule_is_gone_before_wider_ones_begin_anew_however_full_the_bus_is(void)
{
        uint64_t word = SB_RULE_WORD(SB_RULE_ALL, 0), clock, rev;
        struct sb_rule_found wide, found;
        char key[16];

        CHECK(begin() && !sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 1)));
        CHECK(leave_places(SB_KEEP_PLACES_MAX));
        CHECK(!sb_keep_write(&writer, "a", 1, true, word));
        CHECK(!sb_keep_write(&writer, "abc", 3, true, word));
        CHECK(read_rule(0, true, &wide));
        sb_rules_announce(&writer, 3, true);
        CHECK(leave_half("abc", true, &rev));
        CHECK(fill());
        clock = sb_load_relaxed(&writer.segment.super->clock);
        /* The delete of the narrow rule's key would find memory; the write of the wide one's does
         * not. */
        CHECK_EQ(sb_keep_repair(&reader), SB_E_FULL);
        CHECK(read_rule(0, true, &found) && found.value.since == wide.value.since);
        CHECK(read_rule(2, true, &found) && !found.value.since && found.rev == rev);
        CHECK_EQ(sb_keep_write(&reader, "abc", 3, true, 0), SB_E_FULL);
        sb_pin(&reader);
        sb_rules_find(&reader, "abcd", 4, false, &found);
        sb_unpin(&reader);
        CHECK(found.renewed); /* the wide rule says that it does not cover this key */
        for (uint32_t i = 0; i < 200; i++) {
                snprintf(key, sizeof(key), "fill%u", i);
                (void)delete (&writer, key);
        }
        sb_work_all(&writer, true);
        CHECK_EQ(sb_keep_repair(&reader), 0);
        CHECK(!read_rule(2, true, &found));
        CHECK(read_rule(0, true, &found) && found.value.since >= clock);
        unmake_bus();
}

/* A process stops with a wide rule in hand: every node is done, and the cut taken from which the
 * rule covers. Meanwhile a narrow rule goes, which kept less. */
static void test_a_rule_that_has_no_past_yet_begins_behind_a_narrow_one_that_goes(void)
{
        struct sb_rule_value value = {.word = SB_RULE_WORD(SB_RULE_ALL, 0)};
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key("a", 1, true, bytes);
        struct sb_rule_found found;
        uint64_t rev, ignored, clock;

        CHECK(begin() && !sb_keep_write(&writer, "", 0, true, value.word));
        CHECK(leave_places(SB_KEEP_PLACES_MAX));
        CHECK(!sb_keep_write(&writer, "ab", 2, true, SB_RULE_WORD(SB_RULE_SPAN, 1)));
        sb_rules_announce(&writer, 1, true);
        CHECK(!sb_op_write_reserved(
                &writer, bytes, len, &value, sizeof(value), SB_OP_ANY_REV, &rev));
        CHECK(!sb_rules_apply_all(&writer, "a", 1, true));
        value.since = sb_clock_take_cut(&writer);
        CHECK(!sb_keep_write(&reader, "ab", 2, true, 0));
        clock = sb_load_relaxed(&writer.segment.super->clock);
        CHECK_EQ(sb_op_write_reserved(&writer, bytes, len, &value, sizeof(value), rev, &ignored),
                SB_E_CONFLICT);
        /* It is done again, by that process or for it. */
        CHECK(read_rule(0, true, &found) && !found.value.since);
        CHECK_EQ(sb_keep_repair(&reader), 0);
        CHECK(read_rule(0, true, &found) && found.value.since >= clock);
        CHECK_EQ(found.value.word, value.word);
        unmake_bus();
}

/* The same, where there is a place for the narrow one: that says from when on the wide one covers
 * its keys. */
static void test_a_rule_that_has_no_past_yet_covers_no_place_from_before(void)
{
        struct sb_rule_value value = {.word = SB_RULE_WORD(SB_RULE_ALL, 0)};
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key("a", 1, true, bytes);
        uint64_t rev, clock;

        CHECK(begin());
        CHECK(!sb_keep_write(&writer, "ab", 2, true, SB_RULE_WORD(SB_RULE_SPAN, 1)));
        sb_rules_announce(&writer, 1, true);
        CHECK(!sb_op_write_reserved(
                &writer, bytes, len, &value, sizeof(value), SB_OP_ANY_REV, &rev));
        CHECK(!sb_rules_apply_all(&writer, "a", 1, true));
        value.since = sb_clock_take_cut(&writer);
        clock = sb_load_relaxed(&writer.segment.super->clock);
        CHECK(!sb_keep_write(&reader, "ab", 2, true, 0));
        CHECK(!sb_op_write_reserved(&writer, bytes, len, &value, sizeof(value), rev, &rev));
        CHECK(find_rule("abc", false).value.since >= clock);
        CHECK_EQ(find_rule("ax", false).value.since, value.since);
        unmake_bus();
}

/* A scan asks the rules anew where their count has changed since it began. So the count rises
 * behind the write of a rule's key as well, before any node has the rule. */
static void test_rules_are_counted_behind_the_write_of_their_key_too(void)
{
        uint64_t rev, count;

        CHECK(begin());
        CHECK(!sb_keep_write(&writer, "a", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        sb_rules_announce(&writer, 1, true);
        CHECK(leave_half("a", true, &rev));
        count = sb_load_relaxed(&writer.segment.super->rule_count);
        CHECK_EQ(sb_keep_repair(&reader), 0);
        CHECK(sb_load_relaxed(&writer.segment.super->rule_count) > count);
        unmake_bus();
}

/* ---- marks ---- */

/* Entries of the table that are in use. */
static uint32_t entries(void)
{
        uint32_t used = 0;
        uint64_t cut;

        for (uint32_t i = 0; i < writer.segment.geometry.mark_count; i++)
                used += sb_named_read(&writer.segment, i, &cut);
        return used;
}

/* How many versions of a key are in its chain; the newest has @rev, and each further one is right
 * behind the one before. 0: it is not so. */
static uint32_t versions_in_a_row(const char *key, uint64_t rev)
{
        struct sb_version *version;
        uint32_t count = 0;

        sb_pin(&reader);
        for (version = find(key);
                version && SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER;
                version = sb_version_at(
                        &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK))
                if (version->rev != rev - count++) {
                        count = 0;
                        break;
                }
        sb_unpin(&reader);
        return count;
}

/* The writer knows of no cut that needs what it replaces, so the rule alone keeps it. Lengths of
 * the short way of a write and of the long one, and a write by each way after each. */
static void test_what_a_rule_keeps_stays_by_each_way_of_a_write(void)
{
        static const uint32_t key_lens[] = {1, 8, 9, 12, 16, 17, 40},
                              value_lens[] = {0, 7, 8, 64, 512, 513, 2000};
        static const char value[2000];

        for (uint32_t i = 0; i < 49; i++) {
                char key[41] = {0};

                memset(key, 'k', key_lens[i / 7]);
                CHECK(begin() && !put(&writer, key, value, 64));
                CHECK(!sb_keep_write(
                        &writer, key, key_lens[i / 7], i % 2, SB_RULE_WORD(SB_RULE_LAST, 3)));
                for (uint64_t rev = 2; rev <= 8; rev++) {
                        sb_horizon_renew(&writer);
                        CHECK(!put(&writer, key, value, rev % 3 ? value_lens[i % 7] : 64));
                        CHECK(versions_in_a_row(key, rev) >= (rev < 3 ? rev : 3));
                }
                sb_work_all(&writer, true);
                CHECK_EQ(versions_in_a_row(key, 8), 3);
                unmake_bus();
        }
}

static void test_a_name_has_one_mark_until_that_is_dropped(void)
{
        uint64_t cuts[KEYS] = {0}, cut, least = 0;

        CHECK(begin());
        for (uint32_t step = 0; step < 1500; step++) {
                uint32_t i = draw(KEYS), standing = 0;
                int r;

                if (draw(2)) {
                        r = sb_op_mark(&writer, keys[i], len_of(i), &cut);
                        CHECK_EQ(r, cuts[i] ? SB_E_CONFLICT : 0);
                        CHECK(r || cut > least); /* each its own */
                        if (!r)
                                cuts[i] = least = cut;
                } else {
                        CHECK_EQ(sb_op_mark_drop(&reader, keys[i], len_of(i)),
                                cuts[i] ? 0 : SB_E_NOT_FOUND);
                        cuts[i] = 0;
                }
                for (uint32_t j = 0; j < KEYS; j++) {
                        r = sb_op_mark_find(&reader, keys[j], len_of(j), &cut);
                        CHECK_EQ(r, cuts[j] ? 0 : SB_E_NOT_FOUND);
                        CHECK(r || cut == cuts[j]);
                        standing += !r;
                }
                CHECK_EQ(entries(), standing);
        }
        unmake_bus();
}

static void test_a_full_table_is_full_but_for_what_dead_makers_left(void)
{
        uint32_t count, dead = 0;
        uint64_t cut;
        char name[16];

        CHECK(begin());
        count = writer.segment.geometry.mark_count;
        for (uint32_t i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                CHECK(!sb_op_mark(&writer, name, (uint32_t)strlen(name), &cut));
        }
        CHECK_EQ(sb_op_mark(&writer, "more", 4, &cut), SB_E_FULL);
        CHECK_EQ(sb_op_mark_find(&writer, "more", 4, &cut), SB_E_NOT_FOUND);
        for (uint32_t i = 0; i < count; i += 3, dead++) /* as if its key had never been written */
                sb_store_relaxed(&writer.segment.marks[i].owner, UINT64_C(2) << 48 | (500000 + i));
        for (uint32_t i = 0; i < dead; i++) {
                snprintf(name, sizeof(name), "n%u", i);
                CHECK(!sb_op_mark(&writer, name, (uint32_t)strlen(name), &cut));
        }
        CHECK_EQ(sb_op_mark(&writer, "more", 4, &cut), SB_E_FULL);
        /* The names of which the marks are gone name none, and are free. */
        CHECK_EQ(sb_op_mark_find(&writer, "m3", 2, &cut), SB_E_NOT_FOUND);
        CHECK(!sb_op_mark_drop(&writer, "n0", 2));
        CHECK(!sb_op_mark(&writer, "m3", 2, &cut));
        CHECK(!sb_op_mark_find(&writer, "m1", 2, &cut));
        unmake_bus();
}

/* A clock and barriers that take the writer's cuts away at the next barrier, when @armed. */
static struct sb_os evicting;
static bool armed;
static void evict_at_barrier(void *context)
{
        sb_os_linux.membarrier(context);
        if (!armed)
                return;
        armed = false;
        (void)sb_evict_client(&reader, writer.slot, UINT64_MAX);
}

static void test_a_mark_of_a_cut_that_was_taken_away_meanwhile_is_none(void)
{
        uint32_t lapped = 0, made = 0;
        uint64_t cut, found;

        CHECK(begin());
        evicting = sb_os_linux;
        evicting.membarrier = evict_at_barrier;
        writer.segment.os = &evicting;
        for (uint32_t step = 0; step < 3000 && lapped < 5; step++) {
                int r;

                /* Replaced versions gather until a write, at times the one of the mark's own key,
                 * frees them, behind a barrier. */
                for (uint32_t i = draw(40); i; i--)
                        CHECK(!delete (&writer, keys[0]) && !put(&writer, keys[0], "y", 1));
                cut = 7;
                armed = true;
                r = sb_op_mark(&writer, "m", 1, &cut);
                armed = false;
                CHECK(r == 0 || r == SB_E_LAPPED);
                CHECK_EQ(sb_op_mark_find(&reader, "m", 1, &found), r ? SB_E_NOT_FOUND : 0);
                CHECK_EQ(entries(), !r);
                CHECK((r && cut == 7) || (!r && found == cut));
                lapped += r == SB_E_LAPPED;
                made += !r;
                CHECK_EQ(sb_op_mark_drop(&writer, "m", 1), r ? SB_E_NOT_FOUND : 0);
        }
        CHECK(lapped == 5 && made);
        unmake_bus();
}

static void test_the_longest_key_and_name_can_be_written(void)
{
        static char longest[SB_KEY_LEN_MAX];
        uint32_t len;
        uint64_t word = SB_RULE_WORD(SB_RULE_LAST, 2), cut, found;

        CHECK(begin());
        memset(longest, 'z', sizeof(longest));
        len = sb_keep_len_max(&writer);
        CHECK_EQ(len, writer.segment.key_len_max - SB_KEEP_PREFIX);
        CHECK(!sb_keep_write(&writer, longest, len, true, word));
        CHECK(!sb_keep_look_up(&writer, longest, len, true, &found) && found == word);
        CHECK_EQ(sb_keep_look_up(&writer, longest, len - 1, true, &found), SB_E_NOT_FOUND);
        len = sb_op_mark_name_max(&writer);
        CHECK_EQ(len, writer.segment.key_len_max - SB_MARK_PREFIX);
        CHECK(!sb_op_mark(&writer, longest, len, &cut));
        CHECK(!sb_op_mark_find(&writer, longest, len, &found) && found == cut);
        unmake_bus();
}

/* Damages the length of the value that a rule's key has. */
static bool damage_rule(uint32_t i)
{
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key(keys[i], len_of(i), true, bytes);
        struct sb_version *version;

        sb_pin(&reader);
        version = sb_find_newest(&reader, bytes, len, sb_hash_key(bytes, len, reader.segment.seed));
        if (version)
                version->shape -= SB_SHAPE(1, 0, 0, 0);
        sb_unpin(&reader);
        return version;
}

static void test_a_rule_that_cannot_be_read_is_written_anew_or_taken_away(void)
{
        struct sb_rule_found found;
        uint64_t word = SB_RULE_WORD(SB_RULE_LAST, 2);

        CHECK(begin());
        CHECK(!sb_keep_write(&writer, "a", 1, true, word));
        CHECK(read_rule(0, true, &found) && damage_rule(0));
        CHECK(!read_rule(0, true, &found) && found.rev);
        CHECK(!sb_keep_write(&writer, "a", 1, true, word));
        CHECK(read_rule(0, true, &found) && found.value.word == word && found.value.since);
        CHECK(damage_rule(0));
        CHECK(!sb_keep_write(&writer, "a", 1, true, SB_RULE_WORD(SB_RULE_NEWEST, 0)));
        CHECK(!read_rule(0, true, &found) && !found.rev);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_was_written_last_is_looked_up_and_stands_in_every_node);
        RUN(test_a_rule_that_is_not_there_is_taken_away_without_a_write);
        RUN(test_a_rule_that_goes_leaves_its_keys_to_wider_ones_from_then_on);
        RUN(test_where_there_are_too_many_places_all_wider_rules_begin_anew);
        RUN(test_rules_that_an_open_cut_keeps_do_not_count_as_rules);
        RUN(test_a_place_goes_when_no_wider_rule_covers_a_cut_before_it);
        RUN(test_a_place_below_a_rule_with_a_span_goes_with_that);
        RUN(test_what_a_dead_process_left_in_the_middle_is_finished);
        RUN(test_repair_passes_by_the_keys_of_rules_that_are_gone);
        RUN(test_no_rule_is_gone_before_wider_ones_begin_anew_however_full_the_bus_is);
        RUN(test_a_rule_that_has_no_past_yet_begins_behind_a_narrow_one_that_goes);
        RUN(test_a_rule_that_has_no_past_yet_covers_no_place_from_before);
        RUN(test_rules_are_counted_behind_the_write_of_their_key_too);
        RUN(test_what_a_rule_keeps_stays_by_each_way_of_a_write);
        RUN(test_a_name_has_one_mark_until_that_is_dropped);
        RUN(test_a_full_table_is_full_but_for_what_dead_makers_left);
        RUN(test_a_mark_of_a_cut_that_was_taken_away_meanwhile_is_none);
        RUN(test_the_longest_key_and_name_can_be_written);
        RUN(test_a_rule_that_cannot_be_read_is_written_anew_or_taken_away);
        return test_end();
}
