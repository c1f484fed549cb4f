/*
 * Loading (ring/log/load.h), sentence by sentence: what is taken and what is passed over, what
 * stays, what is refused, and what the segment says of itself afterwards. A whole bus with its past
 * is loaded by unit-load-bus; memory is unit-load-memory's matter.
 */
#include <errno.h>

#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "shm/history/named.h"
#include "shm/history/times.h"
#include "shm/keys/index.h"
#include "shm/mvcc/clock.h"
#include "tests/unit/draw.h"
#include "tests/unit/load.h"

/* ---- readings ---- */

static void test_a_loaded_key_reads_as_it_was_written(void)
{
        struct sb_load_version version = {.key = "key",
                .key_len = 3,
                .value = "some value",
                .value_len = 10,
                .rev = 77,
                .stamp = 50,
                .txn = SB_RECORD_NUMBER(1, 9),
                .slot = 5};
        struct sb_version *got;
        uint64_t number;

        CHECK(begin(1 << 20) && !turn(60));
        CHECK(!sb_load_version(&load, &version) && !end_load());
        sb_pin(&reader);
        got = find("key");
        CHECK(got);
        CHECK_EQ(got->rev, 77);
        CHECK_EQ(sb_load_relaxed(&got->stamp), 50);
        CHECK_EQ(got->shape, SB_SHAPE(10, 3, SB_VERSION_VALUE | SB_VERSION_HAS_TXN, 5));
        CHECK(!memcmp(got->bytes, "keysome value", 13));
        memcpy(&number, got->bytes + 13, 8);
        CHECK_EQ(number, SB_RECORD_NUMBER(1, 9));
        sb_unpin(&reader);
        CHECK(sound());
        unmake_bus();
}

static void test_loading_begins_in_an_empty_segment_alone(void)
{
        CHECK(make_bus(1 << 20) && !put(&reader, "k", "v", 1));
        CHECK_EQ(sb_load_begin(&writer, &load), -EEXIST);
        unmake_bus();
        CHECK(make_bus(1 << 20));
        sb_clock_take_cut(&reader);
        CHECK_EQ(sb_load_begin(&writer, &load), -EEXIST);
        unmake_bus();
}

static void test_there_are_two_readings_and_each_takes_its_own_keys(void)
{
        CHECK(begin(1 << 20));
        CHECK_EQ(end_load(), -EINVAL);
        CHECK(!value("k", 1, 10) && !rev_of("k"));
        CHECK(!rule("k", true, ALL, 5, 1, 10));
        CHECK(!turn(40));
        CHECK_EQ(turn(50), -EINVAL);
        CHECK(!rule("k", true, LAST, 6, 2, 11)); /* passed over */
        CHECK(!value("k", 1, 10) && rev_of("k") == 1);
        CHECK(!end_load());
        sb_pin(&reader);
        CHECK(sb_past_kept(&reader, "k", 1, 5) && !sb_past_kept(&reader, "k", 1, 4));
        sb_unpin(&reader);
        CHECK(sound());
        unmake_bus();
}

static void test_of_the_buss_own_keys_the_newest_versions_are_loaded(void)
{
        struct sb_check_report report;

        CHECK(begin(1 << 20));
        for (uint64_t rev = 1; rev < 100; rev++) {
                CHECK(!rule("k", true, SB_RULE_WORD(SB_RULE_LAST, rev), 5, rev, 10 + rev));
                CHECK(is_sound_so_far(&report) && report.versions == 1);
        }
        CHECK(!turn(200) && !end_load() && sound());
        {
                uint64_t word;

                CHECK(!sb_keep_look_up(&reader, "k", 1, true, &word));
                CHECK_EQ(word, SB_RULE_WORD(SB_RULE_LAST, 99));
        }
        unmake_bus();
}

/* ---- order ---- */

static void test_what_is_not_newer_is_passed_over(void)
{
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 2, 1, 3) && !turn(60));
        CHECK(!value("k", 1, 10) && !value("k", 2, 20) && !value("k", 3, 30));
        CHECK(!value("k", 1, 10) && !value("k", 2, 20) && !value("k", 3, 30));
        CHECK(chain_is("k", "3-2-1-"));
        CHECK(!value("k", 4, 40) && !value("k", 3, 30) && chain_is("k", "4-3-2-1-"));
        CHECK(!value("plain", 1, 10) && !value("plain", 2, 20) && !value("plain", 1, 10));
        CHECK(chain_is("plain", "2~"));
        CHECK(!end_load() && sound());
        unmake_bus();
}

static void test_versions_with_one_stamp_come_in_the_order_of_their_revisions(void)
{
        CHECK(begin(1 << 20) && !rule("k", true, ALL, 2, 1, 3) && !turn(60));
        CHECK(!value("k", 1, 10) && !value("k", 2, 10) && !deleted("k", 3, 10));
        CHECK(!value("k", 4, 10) && !value("k", 2, 10) && chain_is("k", "4-3d-2-1-"));
        CHECK(!value("plain", 1, 10) && !value("plain", 2, 10) && chain_is("plain", "2~"));
        CHECK(!end_load() && sound());
        CHECK_EQ(past_of("k", 10), 4);
        unmake_bus();
}

static void test_what_contradicts_itself_is_refused(void)
{
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 2, 1, 3) && !turn(60));
        CHECK(!value("k", 5, 30));
        CHECK_EQ(value("k", 6, 29), -EBADMSG);
        CHECK_EQ(value("k", 4, 31), -EBADMSG);
        CHECK_EQ(value("k", 5, 31), -EBADMSG);
        CHECK_EQ(value("k", 5, 29), -EBADMSG);
        CHECK(chain_is("k", "5~"));
        CHECK(!value("k", 6, 31) && !end_load() && sound());
        unmake_bus();
}

static void test_what_makes_no_sense_is_refused(void)
{
        uint32_t key_max;
        uint64_t value_max;

        CHECK(begin(1 << 20) && !turn(60));
        key_max = writer.segment.key_len_max;
        value_max = writer.segment.value_len_max;
        CHECK_EQ(give("k", 0, SB_VERSION_VALUE, 1, 10, NULL, 0), -EINVAL);
        CHECK_EQ(give("k", 1, SB_VERSION_PLACEHOLDER, 1, 10, NULL, 0), -EINVAL);
        CHECK_EQ(give("k", 1, SB_VERSION_VALUE | SB_VERSION_HAS_TXN, 1, 10, NULL, 0), -EINVAL);
        CHECK_EQ(give("k", 1, SB_VERSION_DELETED, 1, 10, "v", 1), -EINVAL);
        CHECK_EQ(value("k", 0, 10), -EINVAL);
        CHECK_EQ(value("k", UINT64_MAX, 10), -EINVAL);
        CHECK_EQ(value("k", 1, 0), -EINVAL);
        CHECK_EQ(value("k", 1, SB_STAMP_PLACEHOLDER), -EINVAL);
        CHECK_EQ(value("k", 1, SB_STAMP_ABORTED), -EINVAL);
        CHECK_EQ(give(bytes, key_max + 1, SB_VERSION_VALUE, 1, 10, NULL, 0), -EMSGSIZE);
        CHECK_EQ(give("k", 1, SB_VERSION_VALUE, 1, 10, bytes, value_max + 1), -EMSGSIZE);
        load.cut = 0; /* as in the first reading, where no cut bounds the stamp */
        CHECK_EQ(value("k", 1, UINT64_MAX >> 1), -EINVAL);
        load.cut = 60;
        {
                struct sb_load_version version = {
                        .key = "k", .key_len = 1, .rev = 1, .stamp = 10, .slot = 4096};

                CHECK_EQ(sb_load_version(&load, &version), -EINVAL);
                version.slot = 4095;
                CHECK(!sb_load_version(&load, &version));
        }
        CHECK(!give(bytes + 1, key_max, SB_VERSION_VALUE, 1, 10, NULL, 0));
        CHECK(!give("large", 5, SB_VERSION_VALUE, 1, 10, bytes, value_max));
        CHECK(!end_load() && sound());
        unmake_bus();
}

static void test_nothing_above_the_cut_is_loaded(void)
{
        struct sb_load_words none = {.cut = 1};

        CHECK(begin(1 << 20) && !rule("k", false, ALL, 2, 1, 50));
        CHECK_EQ(turn(49), -EBADMSG);
        CHECK(!turn(50));
        CHECK_EQ(value("k", 1, 51), -EBADMSG);
        CHECK(!rev_of("k") && !value("k", 1, 50));
        CHECK(!end_load() && sound());
        unmake_bus();
        CHECK(begin(1 << 20));
        CHECK_EQ(sb_load_turn(&load, &none), -EINVAL);
        CHECK_EQ(turn(UINT64_MAX), -EINVAL);
        CHECK(!mark_of("m", 40, 0, SB_RECORD_NUMBER(1, 1), 20));
        CHECK_EQ(turn(30), -EBADMSG);
        CHECK(!turn(40));
        unmake_bus();
}

static void test_the_clock_goes_on_above_the_cut(void)
{
        CHECK(begin(1 << 20));
        for (uint64_t stamp = 2; stamp < 20; stamp += stamp % 3) {
                CHECK(!rule("k", true, ALL, 2, stamp, stamp));
                CHECK(sb_load_relaxed(&super()->clock) > stamp);
        }
        unmake_bus();
        for (uint64_t cut = 2; cut < 100; cut += 7) {
                struct sb_version *version;

                CHECK(begin(1 << 20) && !turn(cut));
                CHECK(!value("k", 9, cut) && !end_load());
                CHECK(sb_load_relaxed(&super()->clock) > cut);
                CHECK(sb_load_relaxed(&super()->stable) >= cut);
                CHECK(sb_load_relaxed(&super()->sweep_wanted) != sb_load_relaxed(&super()->swept));
                CHECK(sb_load_relaxed(&super()->stable) < sb_load_relaxed(&super()->clock));
                CHECK_EQ(past_of("k", cut), 9);
                CHECK(!put(&reader, "k", "v", 1) && rev_of("k") == 10);
                sb_pin(&reader);
                version = find("k");
                CHECK(sb_load_relaxed(&version->stamp) > cut);
                sb_unpin(&reader);
                CHECK(sound());
                unmake_bus();
        }
}

/* ---- links ---- */

static void test_a_link_says_what_may_be_missing_behind_it(void)
{
        struct sb_load_version born = {
                .key = "born", .key_len = 4, .rev = 12, .stamp = 10, .born = true};

        CHECK(begin(1 << 20) && !rule("", true, ALL, 2, 1, 3) && !turn(60));
        CHECK(!value("first", 1, 10) && !value("first", 2, 20) && chain_is("first", "2-1-"));
        CHECK(!value("later", 2, 10) && chain_is("later", "2~"));
        CHECK(!sb_load_version(&load, &born) && chain_is("born", "12-"));
        CHECK(!value("born", 13, 20) && !value("born", 15, 30) && chain_is("born", "15~13-12-"));
        born.key = "later"; /* it has an older one, so something is missing */
        born.key_len = 5;
        CHECK(!sb_load_version(&load, &born) && chain_is("later", "12~2~"));
        CHECK(!deleted("later", 13, 20) && !value("later", 14, 30));
        CHECK(chain_is("later", "14-13d-12~2~"));
        CHECK(!end_load() && sound());
        CHECK_EQ(past_of("born", 9), -1);
        CHECK(past_of("first", 9) == 0 && past_of("first", 19) == 1);
        CHECK_EQ(past_of("born", 30), 15);
        CHECK_EQ(past_of("born", 19), -1);
        CHECK_EQ(past_of("later", 29), 0);
        CHECK_EQ(past_of("later", 9), -1);
        unmake_bus();
}

static void test_what_no_rule_and_no_mark_keeps_is_freed_at_once(void)
{
        struct sb_check_report report;

        CHECK(begin(1 << 20) && !turn(1000));
        for (uint64_t rev = 1; rev <= 500; rev++) {
                CHECK(!give("k", 1, SB_VERSION_VALUE, rev, rev + 2, bytes, 40 + rev * 13 % 30000));
                CHECK(is_sound_so_far(&report) && report.versions == 1);
                CHECK_EQ(report.blocks_waiting, 0);
                CHECK(report.blocks_used - report.blocks_private == 2);
        }
        CHECK(chain_is("k", "500~") && !end_load() && sound());
        CHECK(past_of("k", 502) == 500 && past_of("k", 501) == -1);
        unmake_bus();
}

/* ---- rules ---- */

static void test_a_rule_keeps_what_came_before_its_key_and_after(void)
{
        struct sb_load_version version = {
                .key = "all/x", .key_len = 5, .rev = 1, .stamp = 10, .born = true};

        CHECK(begin(1 << 20));
        for (uint32_t reading = 0; reading < 2; reading++) {
                CHECK(!sb_load_version(&load, &version));
                CHECK(!rule("all/", true, ALL, 11, 1, 11) && !rule("last", false, LAST, 12, 1, 12));
                CHECK(!rule("gone/", true, ALL, 11, 1, 11));
                for (uint64_t rev = 2; rev < 9; rev++) {
                        CHECK(!value("all/x", rev, 10 + rev) && !value("last", rev, 10 + rev));
                        CHECK(!value("plain", rev, 10 + rev) && !value("gone/x", rev, 10 + rev));
                }
                {
                        unsigned char name[SB_KEY_LEN_MAX];
                        uint32_t len = sb_rules_key("gone/", 5, true, name);

                        CHECK(!give(name, len, SB_VERSION_DELETED, 2, 50, NULL, 0));
                }
                if (!reading)
                        CHECK(!turn(60));
        }
        CHECK(!end_load() && sound());
        CHECK(chain_is("all/x", "8-7-6-5-4-3-2-1-"));
        CHECK(chain_is("plain", "8~") && chain_is("gone/x", "8~"));
        sb_work_all(&writer, true);
        CHECK(chain_is("last", "8-7-6~"));
        CHECK_EQ(past_of("all/x", 12), 2);
        CHECK_EQ(past_of("all/y", 12), 0);
        CHECK_EQ(past_of("all/y", 10), -1);
        CHECK_EQ(past_of("gone/y", 12), -1);
        CHECK(!put(&writer, "all/x", "v", 1) && chain_is("all/x", "9-8-7-6-5-4-3-2-1-"));
        unmake_bus();
}

static void test_a_rule_that_was_being_written_is_finished_later(void)
{
        CHECK(begin(1 << 20) && !rule("k", true, ALL, 0, 1, 10) && !turn(60));
        CHECK(!value("k", 1, 20) && !value("k", 2, 30) && !end_load());
        CHECK(chain_is("k", "2-1-") && past_of("ka", 40) == -1);
        CHECK(!sb_keep_repair(&writer));
        CHECK(past_of("ka", 40) == -1 && !past_of("ka", sb_clock_take_cut(&writer)));
        CHECK(sound());
        unmake_bus();
}

/* Deletes of other keys, so many that what is noted is worked off. */
static bool work(uint64_t stamp)
{
        char key[16];

        for (uint32_t i = 0; i < 200; i++) {
                snprintf(key, sizeof(key), "work%03u", i);
                if (deleted(key, 1, stamp))
                        return false;
        }
        return true;
}

static void test_a_delete_that_was_replaced_above_the_floor_stays(void)
{
        static const uint64_t words_of_rules[] = {SB_RULE_WORD(SB_RULE_LAST, 5),
                SB_RULE_WORD(SB_RULE_SPAN, 1), SB_RULE_WORD(SB_RULE_ALL, 0)};

        for (uint32_t i = 0; i < 3; i++) {
                struct sb_load_words words = {.cut = 1000, .history_floor = 500};

                CHECK(begin(1 << 20) && !rule("k", true, words_of_rules[i], 5, 1, 10));
                CHECK(!sb_load_turn(&load, &words));
                CHECK(!value("k", 63, 397) && !value("k", 64, 398) && work(390));
                CHECK(!value("k", 128, 399) && !deleted("k", 129, 400) && work(401));
                CHECK(!value("k", 130, 600) && !end_load());
                CHECK(past_of("k", 600) == 130 && past_of("k", 550) == 0);
                CHECK(!strncmp(chain_of("k"), "130-129d", 8) && sound());
                unmake_bus();
        }
}

static void test_the_last_versions_alone_stay_of_a_key_that_has_many(void)
{
        struct sb_check_report report;

        CHECK(begin(1 << 24) && !rule("", true, LAST, 2, 1, 3) && !turn(200000));
        for (uint64_t i = 0; i < 40000; i++)
                CHECK(!value(i % 2 ? "one" : "other", i / 2 + 1, 10 + i));
        CHECK(is_sound_so_far(&report) && report.versions < 20000);
        CHECK(!end_load() && past_of("one", 200000) == 20000);
        CHECK(past_of("one", 40007) == 19999 && past_of("one", 40005) == 19998);
        unmake_bus();
}

static void test_rules_that_are_there_are_announced_and_no_others(void)
{
        unsigned char name[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key("four", 4, true, name);

        CHECK(begin(1 << 20) && !rule("abc", true, ALL, 2, 1, 10) &&
                !rule("de", false, ALL, 2, 1, 10));
        CHECK(!give(name, len, SB_VERSION_DELETED, 5, 11, NULL, 0) && !turn(60));
        CHECK_EQ(sb_load_relaxed(&super()->rule_count), 2);
        CHECK_EQ(sb_load_relaxed(&super()->rule_lengths[0]), 1 << 3);
        unmake_bus();
}

static void test_what_the_floor_of_history_let_go_is_not_known(void)
{
        struct sb_load_words words = {.cut = 60, .history_floor = 30};

        CHECK(begin(1 << 20) && !rule("k", true, ALL, 5, 1, 10));
        CHECK(!sb_load_turn(&load, &words) && !end_load());
        CHECK(past_of("k", 29) == -1 && past_of("k", 30) == 0);
        unmake_bus();
        words.history_floor = 70; /* read later than the cut */
        CHECK(begin(1 << 20) && !rule("k", true, ALL, 5, 1, 10));
        CHECK(!sb_load_turn(&load, &words) && !end_load());
        CHECK(past_of("k", 59) == -1 && past_of("k", 60) == 0);
        unmake_bus();
}

/* ---- marks ---- */

static void test_a_mark_keeps_its_cut_wherever_its_key_was_stored(void)
{
        for (uint32_t first = 0; first < 2; first++) {
                CHECK(begin(1 << 20));
                for (uint32_t reading = 0; reading < 2; reading++) {
                        if (first)
                                CHECK(!mark_of("m", 25, 3, SB_RECORD_NUMBER(1, 7), 41));
                        for (uint64_t rev = 1; rev < 7; rev++)
                                CHECK(!value("k", rev, rev * 10));
                        CHECK(!value("young", 1, 26) && !value("young", 2, 30));
                        CHECK(!value("old", 4, 20) && !deleted("old", 5, 30));
                        CHECK(!deleted("dead", 5, 25));
                        if (!first)
                                CHECK(!mark_of("m", 25, 3, SB_RECORD_NUMBER(1, 7), 41));
                        if (!reading)
                                CHECK(!turn(60));
                }
                CHECK(!end_load() && sound());
                CHECK(chain_is("k", "6~2~") && chain_is("young", "2~") && chain_is("old", "5d-4~"));
                CHECK(past_of("k", 25) == 2 && past_of("young", 25) == 0);
                CHECK(past_of("old", 25) == 4 && past_of("dead", 25) == 0);
                CHECK(past_of("k", 35) == -1 && past_of("k", 60) == 6);
                sb_work_all(&writer, true);
                CHECK(chain_is("k", "6~2~") && chain_is("old", "5d-4~"));
                CHECK(!sb_op_mark_drop(&writer, "m", 1));
                sb_work_all(&writer, true);
                CHECK(chain_is("k", "6~") && chain_is("old", "") && chain_is("dead", ""));
                CHECK(sound());
                unmake_bus();
        }
}

static void test_marks_are_known_also_where_the_clock_stood_already(void)
{
        char name[16];

        CHECK(begin(1 << 20) && !mark_of("m", 25, 0, SB_RECORD_NUMBER(1, 7), 100));
        /* So many deletes that horizons are taken, the last one by a clock right above the cut. */
        for (uint64_t i = 0; i < 128; i++) {
                uint32_t len = (uint32_t)snprintf(name, sizeof(name), "%cm%03u", 0, (uint32_t)i);

                memcpy(name, SB_RESERVED, 3);
                name[3] = 0;
                len = 4 + (uint32_t)snprintf(name + 4, 8, "x%03u", (uint32_t)i);
                CHECK(!give(name, len, SB_VERSION_DELETED, 2, 100, NULL, 0));
        }
        CHECK(!turn(100));
        CHECK(!value("k", 1, 10) && !value("k", 2, 30) && chain_is("k", "2-1-"));
        unmake_bus();
}

static void test_the_newer_of_two_keys_has_the_mark(void)
{
        for (uint32_t first = 0; first < 2; first++) {
                const char *names[] = {"m", "n"};
                uint64_t cut;

                CHECK(begin(1 << 20));
                CHECK(!mark_of(names[first], 25, 3, SB_RECORD_NUMBER(1, 7), 30));
                CHECK(!mark_of(names[!first], 20, 3, SB_RECORD_NUMBER(1, 8), 31));
                CHECK(!turn(60) && !end_load());
                CHECK_EQ(sb_op_mark_find(&reader, names[first], 1, &cut), SB_E_NOT_FOUND);
                CHECK(!sb_op_mark_find(&reader, names[!first], 1, &cut) && cut == 20);
                CHECK(sb_past_marked(&reader.segment, 20));
                CHECK(!sb_past_marked(&reader.segment, 25));
                CHECK(!sb_past_marked(&reader.segment, 30));
                CHECK(!sb_op_mark(&writer, "later", 5, &cut) &&
                        sb_past_marked(&reader.segment, cut));
                CHECK(sound());
                unmake_bus();
        }
}

static void test_more_marks_than_the_table_takes_are_too_many(void)
{
        uint32_t count, i;

        CHECK(begin(1 << 20));
        count = writer.segment.geometry.mark_count;
        CHECK(!mark_of("m", 25, count - 1, SB_RECORD_NUMBER(1, 7), 30) && !turn(60));
        CHECK(sb_past_marked(&reader.segment, 25));
        unmake_bus();
        CHECK(begin(1 << 20));
        CHECK(!mark_of("m", 25, 0, SB_RECORD_NUMBER(1, 6), 30));
        CHECK(!mark_of("n", 25, count, SB_RECORD_NUMBER(1, 7), 30));
        CHECK_EQ(turn(60), SB_E_FULL);
        for (i = 0; i < count; i++)
                CHECK(!sb_load_relaxed(&writer.segment.marks[i].owner) &&
                        !sb_load_relaxed(&writer.segment.marks[i].cut));
        unmake_bus();
}

static void test_a_key_that_names_no_mark_makes_none(void)
{
        CHECK(begin(1 << 20));
        CHECK(!mark_of("none", 25, 0, 0, 30));
        CHECK(!mark_of("making", 26, 1, SB_NAMED_MAKING | 5, 30));
        CHECK(!give(SB_RESERVED_MARK "short", SB_MARK_PREFIX + 5, SB_VERSION_VALUE, 1, 20, "x", 1));
        CHECK(!turn(60) && !end_load());
        CHECK(!sb_load_relaxed(&super()->mark_high));
        CHECK(!sb_past_marked(&reader.segment, 25) && !sb_past_marked(&reader.segment, 26));
        unmake_bus();
}

static void test_numbers_of_transactions_and_marks_are_not_given_again(void)
{
        struct sb_load_version version = {
                .key = "k", .key_len = 1, .rev = 3, .stamp = 20, .txn = SB_RECORD_NUMBER(2, 300)};
        uint32_t records;

        CHECK(begin(1 << 20));
        records = writer.segment.geometry.record_count;
        CHECK(!mark_of("m", 25, 0, SB_RECORD_NUMBER(1, 70), 30));
        CHECK(!mark_of("n", 25, 1, SB_RECORD_NUMBER(1, 60), 30));
        CHECK(!mark_of("o", 25, 2, SB_RECORD_NUMBER(records, 60), 30));
        CHECK(!turn(60) && !sb_load_version(&load, &version));
        version.rev = 4;
        version.txn = SB_RECORD_NUMBER(2, 200);
        CHECK(!sb_load_version(&load, &version));
        version.rev = 5;
        version.txn = SB_RECORD_NUMBER(records, 200);
        CHECK(!sb_load_version(&load, &version));
        CHECK_EQ(sb_load_relaxed(&sb_record_at(&writer.segment, 1)->opens), 70);
        CHECK_EQ(sb_load_relaxed(&sb_record_at(&writer.segment, 2)->commits), 300);
        CHECK_EQ(sb_load_relaxed(&sb_record_at(&writer.segment, 0)->commits), 0);
        unmake_bus();
}

/* ---- deleted keys ---- */

static void test_a_deleted_key_is_made_anew_above_its_revisions(void)
{
        struct sb_check_report report;

        CHECK(begin(1 << 20) && !turn(60));
        CHECK(!value("k", 40, 10) && !deleted("k", 41, 20) && !rev_of("k"));
        CHECK(!deleted("alone", 90, 30));
        CHECK(!end_load() && is_sound(&report));
        CHECK_EQ(report.nodes, 0);
        CHECK_EQ(sb_load_relaxed(&super()->forgotten), 30);
        CHECK(!put(&writer, "k", "v", 1) && rev_of("k") > 41);
        CHECK(!put(&writer, "alone", "v", 1) && rev_of("alone") > 90);
        CHECK(sound());
        unmake_bus();
}

static void test_a_key_that_comes_back_in_the_log_is_there(void)
{
        CHECK(begin(1 << 20) && !turn(60));
        CHECK(!value("k", 1, 10) && !deleted("k", 2, 20) && !value("k", 3, 30));
        CHECK(rev_of("k") == 3 && !deleted("k", 4, 40));
        sb_work_all(&writer, false); /* it is gone */
        CHECK(!value("k", 9, 50) && !end_load() && sound());
        CHECK(chain_is("k", "9~"));
        unmake_bus();
}

static void test_what_was_forgotten_before_stays_forgotten(void)
{
        for (uint64_t forgotten = 0; forgotten < 90; forgotten += 10) {
                struct sb_load_words words = {.cut = 60, .forgotten = forgotten};

                CHECK(begin(1 << 20) && !sb_load_turn(&load, &words));
                CHECK(!deleted("k", 5, 33) && !end_load());
                CHECK_EQ(sb_load_relaxed(&super()->forgotten), forgotten < 33   ? 33
                                                               : forgotten < 60 ? forgotten
                                                                                : 60);
                unmake_bus();
        }
}

static void test_a_reserved_key_that_went_in_the_first_reading_is_forgotten(void)
{
        struct sb_load_words words = {.cut = 200, .forgotten = 20};
        char key[32];

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 200; i++) {
                memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
                snprintf(key + SB_MARK_PREFIX, 8, "%03u", i);
                CHECK(!give(key, SB_MARK_PREFIX + 3, SB_VERSION_DELETED, 2, 90, NULL, 0));
                CHECK(!give(key, SB_MARK_PREFIX + 2, SB_VERSION_VALUE, i + 1, 91 + i / 2, "", 0));
        }
        CHECK_EQ(sb_load_relaxed(&super()->forgotten), 90);
        CHECK(!sb_load_turn(&load, &words));
        CHECK_EQ(sb_load_relaxed(&super()->forgotten), 90);
        unmake_bus();
}

static uint64_t floors[4096];

static bool load_floors(uint64_t seed, uint64_t count)
{
        for (uint64_t i = 0; i < count; i++)
                if (sb_load_floor_of(&load, seed, i, count, floors[i]))
                        return false;
        return true;
}

static void test_a_floor_is_a_keys_or_of_a_bucket(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2};

        CHECK(begin(1 << 20) && !turn(60));
        sb_load_floor(&load, "k", 1, 500);
        sb_load_floor(&load, "k", 1, 400);
        CHECK(!end_load() && !put(&writer, "k", "v", 1) && rev_of("k") == 501);
        unmake_bus();
        /* In a bus with as many buckets each has its own again. */
        wish.bucket_count = 0;
        CHECK(make_bus_of(&wish) && !sb_load_begin(&writer, &load) && !turn(60));
        CHECK(writer.segment.bucket_count <= 4096);
        for (uint32_t i = 0; i < writer.segment.bucket_count; i++)
                floors[i] = draw(1000);
        CHECK(load_floors(7, writer.segment.bucket_count));
        for (uint32_t i = 0; i < writer.segment.bucket_count; i++)
                CHECK_EQ(sb_load_relaxed(&writer.segment.floors[i]), floors[i]);
        unmake_bus();
        for (uint32_t count = 1; count <= 4096; count = count * 3 / 2 + 1)
                for (wish.bucket_count = 16; wish.bucket_count <= 1024; wish.bucket_count *= 4) {
                        CHECK(make_bus_of(&wish) && !sb_load_begin(&writer, &load));
                        CHECK(!turn(60));
                        for (uint32_t i = 0; i < count; i++)
                                floors[i] = draw(3) ? draw(1000) : 0;
                        CHECK(load_floors(7, count));
                        for (uint64_t hash = 0; hash < UINT32_MAX; hash += UINT32_MAX / 5000) {
                                uint64_t home = sb_index_home(&writer.segment, hash), low, most = 0;

                                CHECK(sb_index_floor(&writer.segment, hash) >=
                                        floors[hash * count >> 32]);
                                /* No higher than some bucket that shares a hash with this one. */
                                low = (home << 32) / wish.bucket_count * count >> 32;
                                for (; low <= ((home + 1) << 32) / wish.bucket_count * count >> 32;
                                        low++)
                                        if (low < count && most < floors[low])
                                                most = floors[low];
                                CHECK(sb_index_floor(&writer.segment, hash) <= most);
                        }
                        floors[0] = 5, floors[1] = 2000, floors[2] = 7;
                        CHECK(load_floors(8, 3));
                        CHECK_EQ(sb_index_floor(&writer.segment, 0), 2000);
                        CHECK_EQ(sb_index_floor(&writer.segment, UINT32_MAX), 2000);
                        unmake_bus();
                }
}

/* A log may have floors of the bus as it was before it began anew with another size. */
static void test_floors_of_buses_of_different_sizes_count_together(void)
{
        CHECK(begin(1 << 20) && !turn(60));
        CHECK(!sb_load_floor_of(&load, 7, 0, 8, 5));
        CHECK(!sb_load_floor_of(&load, 7, 4095, 4096, 9));
        CHECK(!sb_load_floor_of(&load, 7, 7, 8, 6));
        CHECK_EQ(sb_index_floor(&writer.segment, 0), 5);
        CHECK_EQ(sb_index_floor(&writer.segment, UINT32_MAX), 9);
        CHECK_EQ(sb_index_floor(&writer.segment, UINT32_MAX - UINT32_MAX / 12), 6);
        CHECK_EQ(sb_index_floor(&writer.segment, UINT32_MAX / 2), 0);
        unmake_bus();
}

static void test_a_floor_that_no_bus_has_is_refused(void)
{
        CHECK(begin(1 << 20) && !turn(60));
        CHECK_EQ(sb_load_floor_of(&load, 7, 0, 0, 5), -EBADMSG);
        CHECK_EQ(sb_load_floor_of(&load, 7, 8, 8, 5), -EBADMSG);
        CHECK_EQ(sb_load_floor_of(&load, 7, 5, UINT64_C(1) << 32, 5), -EBADMSG);
        CHECK_EQ(sb_load_floor_of(&load, 7, UINT64_MAX - 1, UINT64_MAX, 5), -EBADMSG);
        CHECK_EQ(sb_load_floor_of(&load, 7, 0, 8, UINT64_MAX), -EBADMSG);
        for (uint32_t i = 0; i < writer.segment.bucket_count; i++)
                CHECK_EQ(sb_load_relaxed(&writer.segment.floors[i]), 0);
        unmake_bus();
}

/* ---- times ---- */

static uint64_t now_ns, real_ns;
static uint64_t read_now(void *context)
{
        (void)context;
        return now_ns;
}
static uint64_t read_real(void *context)
{
        (void)context;
        return real_ns;
}
static void flush(void *context)
{
        (void)context;
}
static const struct sb_os os = {.now_ns = read_now, .realtime_ns = read_real, .membarrier = flush};

#define SECOND UINT64_C(1000000000)

static void test_cuts_of_before_are_found_by_their_time(void)
{
        struct sb_moment moment;

        CHECK(begin(1 << 24) && !turn(1000));
        writer.segment.os = reader.segment.os = &os;
        now_ns = 100 * SECOND; /* the machine has just begun, and the bus is older */
        real_ns = 5000 * SECOND;
        for (uint64_t i = 0; i < 10; i++)
                sb_load_time(&load, 10 + i, (4850 + i * 10) * SECOND);
        CHECK(sb_times_at(&reader.segment, 4849 * SECOND, &moment) == false);
        for (uint64_t i = 0; i < 10; i++) {
                CHECK(sb_times_at(&reader.segment, (4853 + i * 10) * SECOND, &moment));
                CHECK_EQ(moment.cut, 10 + i);
                CHECK_EQ(moment.realtime_ns, (4850 + i * 10) * SECOND);
                CHECK_EQ(moment.monotonic_ns, i < 5 ? 0 : (i * 10 - 50) * SECOND);
        }
        /* A span keeps what was taken in it, by the clock that has gone since the beginning. */
        CHECK(sb_times_horizon(&reader.segment, 75 * SECOND, &moment) && moment.cut == 17);
        CHECK(sb_times_horizon(&reader.segment, 100 * SECOND, &moment) && moment.cut == 15);
        CHECK(!sb_times_horizon(&reader.segment, 101 * SECOND, &moment));
        now_ns += 20 * SECOND;
        CHECK(sb_times_horizon(&reader.segment, 101 * SECOND, &moment) && moment.cut == 16);
        CHECK(!end_load());
        unmake_bus();
}

static void test_a_time_to_come_counts_as_now(void)
{
        struct sb_moment moment;

        CHECK(begin(1 << 24) && !turn(1000));
        writer.segment.os = reader.segment.os = &os;
        now_ns = 100 * SECOND;
        real_ns = 5000 * SECOND;
        sb_load_time(&load, 10, 6000 * SECOND);
        CHECK(sb_times_at(&reader.segment, 6000 * SECOND, &moment) && moment.cut == 10);
        CHECK_EQ(moment.monotonic_ns, now_ns);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_loaded_key_reads_as_it_was_written);
        RUN(test_loading_begins_in_an_empty_segment_alone);
        RUN(test_there_are_two_readings_and_each_takes_its_own_keys);
        RUN(test_of_the_buss_own_keys_the_newest_versions_are_loaded);
        RUN(test_what_is_not_newer_is_passed_over);
        RUN(test_versions_with_one_stamp_come_in_the_order_of_their_revisions);
        RUN(test_what_contradicts_itself_is_refused);
        RUN(test_what_makes_no_sense_is_refused);
        RUN(test_nothing_above_the_cut_is_loaded);
        RUN(test_the_clock_goes_on_above_the_cut);
        RUN(test_a_link_says_what_may_be_missing_behind_it);
        RUN(test_what_no_rule_and_no_mark_keeps_is_freed_at_once);
        RUN(test_a_rule_keeps_what_came_before_its_key_and_after);
        RUN(test_a_rule_that_was_being_written_is_finished_later);
        RUN(test_a_delete_that_was_replaced_above_the_floor_stays);
        RUN(test_the_last_versions_alone_stay_of_a_key_that_has_many);
        RUN(test_rules_that_are_there_are_announced_and_no_others);
        RUN(test_what_the_floor_of_history_let_go_is_not_known);
        RUN(test_a_mark_keeps_its_cut_wherever_its_key_was_stored);
        RUN(test_marks_are_known_also_where_the_clock_stood_already);
        RUN(test_the_newer_of_two_keys_has_the_mark);
        RUN(test_more_marks_than_the_table_takes_are_too_many);
        RUN(test_a_key_that_names_no_mark_makes_none);
        RUN(test_numbers_of_transactions_and_marks_are_not_given_again);
        RUN(test_a_deleted_key_is_made_anew_above_its_revisions);
        RUN(test_a_key_that_comes_back_in_the_log_is_there);
        RUN(test_what_was_forgotten_before_stays_forgotten);
        RUN(test_a_reserved_key_that_went_in_the_first_reading_is_forgotten);
        RUN(test_a_floor_is_a_keys_or_of_a_bucket);
        RUN(test_floors_of_buses_of_different_sizes_count_together);
        RUN(test_a_floor_that_no_bus_has_is_refused);
        RUN(test_cuts_of_before_are_found_by_their_time);
        RUN(test_a_time_to_come_counts_as_now);
        return test_end();
}
