/*
 * Loading what a bus knows of its past (ring/log/load.h), sentence by sentence: rules and the
 * versions that they keep, marks, and the times of cuts. What is loaded of the keys themselves,
 * unit-load shows.
 */
#include <errno.h>

#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "shm/history/times.h"
#include "shm/mvcc/clock.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/load.h"

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

/* Six versions of a key, replaced at 20, 30 and so on; @copied: of a copy of the bus. */
static bool six_versions(const char *key, bool copied)
{
        for (uint64_t rev = 1; rev < 7; rev++) {
                struct sb_load_version version = {.key = key,
                        .key_len = (uint32_t)strlen(key),
                        .rev = rev,
                        .stamp = rev * 10,
                        .born = rev == 1,
                        .copied = copied};

                if (sb_load_version(&load, &version))
                        return false;
        }
        return true;
}

static bool turn_forward(void)
{
        struct sb_load_words words = {.cut = 100, .forward = true};

        return !sb_load_turn(&load, &words);
}

static void test_what_was_replaced_before_its_rule_does_not_come_back(void)
{
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51) && !turn(100));
        CHECK(six_versions("k", false) && !end_load() && sound());
        CHECK(chain_is("k", "6-5~"));
        CHECK(past_of("k", 50) == 5 && past_of("k", 49) == -1);
        unmake_bus();
        /* By a rule of all keys, which is older. */
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51));
        CHECK(!rule("", true, ALL, 30, 2, 31) && !turn(100));
        CHECK(six_versions("k", false) && six_versions("l", false) && !end_load() && sound());
        CHECK(chain_is("k", "6-5-4-3~") && chain_is("l", "6-5-4-3~"));
        unmake_bus();
        /* By one that is younger than the key's own. */
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 30, 2, 31));
        CHECK(!rule("", true, ALL, 50, 2, 51) && !turn(100));
        CHECK(six_versions("k", false) && six_versions("l", false) && !end_load() && sound());
        CHECK(chain_is("k", "6-5-4-3~") && chain_is("l", "6-5~"));
        unmake_bus();
}

/* Another rule may have kept the same past: one of which this one took the place, or one that was
 * taken away since, or one of which only the copy of the bus knows. */
static void test_what_a_rule_of_before_may_have_kept_comes_back(void)
{
        unsigned char name[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key("", 0, true, name);

        for (uint32_t forward = 0; forward < 2; forward++) {
                const char *wanted = forward ? "6-5~" : "6-5-4-3-2-1-";

                CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 4, 51));
                CHECK(forward ? turn_forward() : !turn(100));
                CHECK(six_versions("k", false) && !end_load() && chain_is("k", wanted) && sound());
                unmake_bus();
                CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51));
                CHECK(!give(name, len, SB_VERSION_DELETED, 4, 50, NULL, 0));
                CHECK(forward ? turn_forward() : !turn(100));
                CHECK(six_versions("k", false) && !end_load() && chain_is("k", wanted) && sound());
                unmake_bus();
                CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51));
                CHECK(forward ? turn_forward() : !turn(100));
                CHECK(six_versions("k", true) && !end_load() && chain_is("k", wanted) && sound());
                unmake_bus();
        }
}

/* It may have kept more than the rule of all keys. */
static void test_the_place_of_a_rule_that_went_comes_back(void)
{
        for (uint32_t forward = 0; forward < 2; forward++) {
                CHECK(begin(1 << 20) && !rule("", true, ALL, 20, 2, 21));
                CHECK(!rule("k", true, SB_RULE_WORD(SB_RULE_NEWEST, 0), 50, 4, 51));
                CHECK(forward ? turn_forward() : !turn(100));
                CHECK(six_versions("k", false) && !end_load() && sound());
                CHECK(chain_is("k", forward ? "6-5~" : "6-5-4-3-2-1-"));
                CHECK(past_of("kx", 45) == -1 && past_of("kx", 50) == 0);
                CHECK(past_of("l", 15) == -1 && past_of("l", 45) == 0);
                CHECK(!sb_keep_repair(&writer));
                CHECK(past_of("kx", 45) == -1 && past_of("kx", 50) == 0);
                unmake_bus();
        }
        /* A key of which the rule says all; a narrow one had the place of another one before. */
        CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51));
        CHECK(!rule("o", true, SB_RULE_WORD(SB_RULE_NEWEST, 0), 49, 4, 50) && !turn(100));
        CHECK(six_versions("k", false) && !end_load() && sound());
        CHECK(chain_is("k", "6-5-4-3-2-1-"));
        unmake_bus();
}

static void test_a_mark_keeps_what_was_replaced_before_a_rule(void)
{
        for (uint32_t forward = 0; forward < 2; forward++) {
                CHECK(begin(1 << 20) && !rule("k", false, ALL, 50, 2, 51));
                CHECK(!mark_of("m", 25, 3, SB_RECORD_NUMBER(1, 7), 26));
                CHECK(forward ? turn_forward() : !turn(100));
                CHECK(six_versions("k", false) && !end_load() && sound());
                CHECK(chain_is("k", "6-5~2~") && past_of("k", 25) == 2);
                unmake_bus();
        }
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

static void test_history_gives_way_where_it_is_more_than_there_is_room_for(void)
{
        static const uint64_t words_of_rules[] = {
                SB_RULE_WORD(SB_RULE_ALL, 0), SB_RULE_WORD(SB_RULE_LAST, 100000)};

        /* Each version superseded at a cut of its own; or many at one; or all. */
        for (uint64_t each = 1; each <= 100000; each *= 316) {
                for (uint32_t i = 0; i < 2; i++) {
                        CHECK(begin(1 << 20) && !rule("", true, words_of_rules[i], 2, 1, 3));
                        sb_store_relaxed(&super()->history_limit, 1 << 18);
                        CHECK(!turn(200000));
                        for (uint64_t n = 0; n < 60000; n++)
                                CHECK(!value(n % 3 ? "one" : "other", n + 1, 10 + n / each));
                        CHECK(!end_load() && past_of("one", 200000) == 60000 && sound());
                        unmake_bus();
                }
        }
}

/* The reserve is used up, and the last sweep freed nothing, or has to be asked again. */
static void test_history_gives_way_also_where_no_reserve_is_left(void)
{
        for (uint32_t rests = 0; rests < 2; rests++) {
                uint64_t n;

                CHECK(begin(1 << 20) && !rule("one", false, ALL, 2, 1, 3) && !turn(200000));
                for (n = 1; !load.rest; n++) /* without a limit, until a sweep frees nothing */
                        CHECK(!value("one", n, 10 + n));
                sb_store_relaxed(&super()->history_limit, 1 << 14);
                load.borrowed = UINT64_MAX;
                if (!rests)
                        load.rest = 0;
                for (; n <= 60000; n++)
                        CHECK(!value("one", n, 10 + n));
                CHECK(!end_load() && past_of("one", 200000) == 60000 && sound());
                unmake_bus();
        }
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

/* The stored bus lived for 90 s, with a note every 10 s, and kept 60 s; then the machine began
 * anew. A key that had come and gone by then may have been forgotten, by the clock of before. */
static void test_a_span_covers_no_cut_that_the_stored_bus_may_have_let_go(void)
{
        uint64_t since[] = {5, 16};

        for (uint32_t late = 0; late < 2; late++) {
                CHECK(begin(1 << 24));
                writer.segment.os = reader.segment.os = &os;
                now_ns = 30 * SECOND;
                real_ns = 4960 * SECOND;
                CHECK(!rule("s/", true, SB_RULE_WORD(SB_RULE_SPAN, 60 * SECOND), since[late], 2,
                        since[late] + 1));
                CHECK(!rule("long/", true, SB_RULE_WORD(SB_RULE_SPAN, 95 * SECOND), 5, 2, 6));
                CHECK(!rule("all/", true, ALL, 5, 2, 6) && !turn(1000));
                for (uint64_t i = 0; i < 10; i++)
                        sb_load_time(&load, 10 + i, (4850 + i * 10) * SECOND);
                CHECK(!end_load() && sound());
                /* 60 s before the last one was at 4880: cut 13. */
                CHECK_EQ(past_of("s/x", late ? 15 : 13), -1);
                CHECK_EQ(past_of("s/x", late ? 16 : 14), 0);
                /* Nothing was that old. */
                CHECK(past_of("long/x", 5) == 0 && past_of("all/x", 5) == 0);
                CHECK(past_of("long/x", 4) == -1 && past_of("all/x", 4) == -1);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_rule_keeps_what_came_before_its_key_and_after);
        RUN(test_what_was_replaced_before_its_rule_does_not_come_back);
        RUN(test_what_a_rule_of_before_may_have_kept_comes_back);
        RUN(test_the_place_of_a_rule_that_went_comes_back);
        RUN(test_a_mark_keeps_what_was_replaced_before_a_rule);
        RUN(test_a_rule_that_was_being_written_is_finished_later);
        RUN(test_a_delete_that_was_replaced_above_the_floor_stays);
        RUN(test_the_last_versions_alone_stay_of_a_key_that_has_many);
        RUN(test_rules_that_are_there_are_announced_and_no_others);
        RUN(test_history_gives_way_where_it_is_more_than_there_is_room_for);
        RUN(test_history_gives_way_also_where_no_reserve_is_left);
        RUN(test_what_the_floor_of_history_let_go_is_not_known);
        RUN(test_a_mark_keeps_its_cut_wherever_its_key_was_stored);
        RUN(test_marks_are_known_also_where_the_clock_stood_already);
        RUN(test_the_newer_of_two_keys_has_the_mark);
        RUN(test_more_marks_than_the_table_takes_are_too_many);
        RUN(test_a_key_that_names_no_mark_makes_none);
        RUN(test_numbers_of_transactions_and_marks_are_not_given_again);
        RUN(test_cuts_of_before_are_found_by_their_time);
        RUN(test_a_time_to_come_counts_as_now);
        RUN(test_a_span_covers_no_cut_that_the_stored_bus_may_have_let_go);
        return test_end();
}
