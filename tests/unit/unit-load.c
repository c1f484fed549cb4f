/*
 * Loading (ring/log/load.h), sentence by sentence: which versions of keys are taken and which are
 * passed over, what is refused, and what becomes of deleted keys. What is kept of the past,
 * unit-load-history shows; a whole bus with its past is loaded by unit-load-bus; memory is
 * unit-load-memory's matter.
 */
#include <errno.h>

#include "ring/op/keep.h"
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
        CHECK(!sb_load_version(&load, &version) && !is_pinned() && !end_load());
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
        CHECK_EQ(value("k", 1, SB_LOAD_CUT_MAX + 1), -EINVAL);
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
        CHECK_EQ(turn(SB_LOAD_CUT_MAX + 1), -EINVAL);
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

static void test_a_floor_is_of_a_bucket_and_only_rises(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2};

        CHECK(begin(1 << 20) && !turn(60));
        CHECK(!sb_load_floor_of(&load, writer.segment.seed, 0, 1, 500));
        CHECK(!sb_load_floor_of(&load, writer.segment.seed, 0, 1, 400));
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
        RUN(test_a_deleted_key_is_made_anew_above_its_revisions);
        RUN(test_a_key_that_comes_back_in_the_log_is_there);
        RUN(test_what_was_forgotten_before_stays_forgotten);
        RUN(test_a_reserved_key_that_went_in_the_first_reading_is_forgotten);
        RUN(test_a_floor_is_of_a_bucket_and_only_rises);
        RUN(test_floors_of_buses_of_different_sizes_count_together);
        RUN(test_a_floor_that_no_bus_has_is_refused);
        return test_end();
}
