/*
 * Loading (ring/log/load.h) and memory: a log that is longer than the segment is loaded all the
 * same, a full segment says so and loses nothing; and how fast loading is.
 */
#include "tests/harness/faults.h"
#include "tests/unit/load.h"

/* ---- memory ---- */

/* A value in the place of what the branches of the ordered index need, which are made at the end.
 */
static bool hold_room(void)
{
        return !give("hold", 4, SB_VERSION_VALUE, 1, 9, bytes, 128 << 10);
}

static bool make_room(uint64_t stamp)
{
        bool made = !give("hold", 4, SB_VERSION_DELETED, 2, stamp, NULL, 0);

        sb_work_all(&writer, true);
        return made;
}

/* Ends, and gives up what the loader has in hand: what it lost is nothing's then. */
static bool ends_without_loss(void)
{
        if (end_load())
                return false;
        sb_handle_fini(&writer);
        return sound();
}

static void test_a_full_segment_says_so_and_has_what_came_before(void)
{
        uint64_t count, rev = 0;
        char key[16];
        int r = 0;

        CHECK(begin(1 << 20) && !rule("first", true, ALL, 2, 1, 3) && !turn(100000));
        CHECK(hold_room() && !value("first", 1, 10));
        for (count = 0; !r; count++) {
                snprintf(key, sizeof(key), "%06u", (uint32_t)count);
                r = give(key, 6, SB_VERSION_VALUE, 1, 20 + count, bytes, 300);
        }
        CHECK_EQ(r, SB_E_FULL);
        CHECK(count > 1000 && sound_so_far());
        /* Neither a new key nor another version of one that is there; a delete goes on. */
        CHECK_EQ(give(key, 6, SB_VERSION_VALUE, 1, 20 + count, bytes, 300), SB_E_FULL);
        CHECK_EQ(give("first", 5, SB_VERSION_VALUE, 2, 20 + count, bytes, 3000), SB_E_FULL);
        CHECK(!rev_of(key) && rev_of("first") == 1 && sound_so_far());
        CHECK(!deleted("first", 2, 20 + count) && !rev_of("first") && chain_is("first", "2d-1-"));
        for (uint64_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "%06u", (uint32_t)i);
                rev += rev_of(key);
        }
        CHECK_EQ(rev, count - 1);
        CHECK_EQ(end_load(), SB_E_FULL);
        CHECK(make_room(99999) && ends_without_loss());
        unmake_bus();
}

/* New keys "000000" and so on, until there is no room for the smallest. Return: how many; 0: there
 * was another answer than SB_E_FULL. */
static uint32_t fill_to_the_last_block(void)
{
        static const uint32_t lens[] = {400, 120, 0};
        uint32_t made = 0;
        char key[16];

        for (uint32_t i = 0; i < 3; i++)
                for (int r = 0; !r; made += !r) {
                        snprintf(key, sizeof(key), "%06u", made);
                        r = give(key, 6, SB_VERSION_VALUE, 1, 10, bytes, lens[i]);
                        if (r && r != SB_E_FULL)
                                return 0;
                }
        return made;
}

static void test_what_is_full_takes_deletes_and_what_they_freed_serves(void)
{
        uint64_t rev = 1;
        char key[16];
        uint32_t made;

        CHECK(begin(1 << 20) && !rule("kept", false, ALL, 2, 1, 3) && !turn(2000000));
        CHECK(hold_room());
        made = fill_to_the_last_block();
        CHECK(made > 1000 && !deleted("000000", 2, 11) && sound_so_far());
        sb_work_all(&writer, true);
        while (!give("kept", 4, SB_VERSION_VALUE, rev, 10, bytes, 0))
                rev++;
        CHECK(rev > 1 && sound_so_far());
        CHECK_EQ(give("000001", 6, SB_VERSION_VALUE, 2, 11, bytes, 1), SB_E_FULL);
        /* One block is not enough for a new key; nothing of it stays. */
        CHECK(!deleted("000002", 2, 11));
        CHECK_EQ(give("new", 3, SB_VERSION_VALUE, 1, 11, bytes, 1), SB_E_FULL);
        CHECK(!rev_of("new"));
        for (uint32_t i = 2; i < 40; i++) {
                snprintf(key, sizeof(key), "%06u", i * 2);
                CHECK(!give(key, 6, SB_VERSION_DELETED, 2, 11, NULL, 0));
        }
        CHECK(!give("000001", 6, SB_VERSION_VALUE, 2, 11, bytes, 1));
        CHECK(make_room(12) && ends_without_loss());
        unmake_bus();
}

/* Behind a sweep that freed nothing the next ones rest, for they look at the whole segment. */
static void test_what_deletes_left_serves_also_while_sweeps_rest(void)
{
        uint64_t rev = 1;
        uint32_t made;
        char key[16];

        CHECK(begin(1 << 20) && !rule("kept", false, ALL, 2, 1, 3) && !turn(2000000));
        CHECK(hold_room());
        made = fill_to_the_last_block();
        /* Of a key that is there, so that no node is needed. */
        for (uint32_t len = 400; len; len /= 10)
                while (!give("kept", 4, SB_VERSION_VALUE, rev, 10, bytes, len))
                        rev++;
        CHECK(load.rest > 100 && made > 1000);
        sb_work_all(&writer, true);
        /* Too few that the loader would look for what they left by itself. */
        for (uint32_t i = 0; i < SB_PENDING_BATCH / 8; i++) {
                snprintf(key, sizeof(key), "%06u", i);
                CHECK(!give(key, 6, SB_VERSION_DELETED, 2, 11, NULL, 0));
        }
        for (uint32_t i = 0; i < SB_PENDING_BATCH / 16; i++)
                CHECK(!give("kept", 4, SB_VERSION_VALUE, rev++, 11, bytes, 400));
        CHECK(load.rest > 0 && make_room(12) && ends_without_loss());
        unmake_bus();
}

/* Two of three values are deleted in each unit: a large one finds no units in a row. */
static void test_what_lies_in_the_way_of_a_large_value_moves(void)
{
        uint32_t count = 0;
        char key[16];

        CHECK(begin(1 << 20) && !turn(100) && hold_room());
        for (int r = 0; !r; count += !r) {
                snprintf(key, sizeof(key), "%06u", count);
                r = give(key, 6, SB_VERSION_VALUE, 1, 10, bytes, 1100);
        }
        for (uint32_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "%06u", i);
                CHECK(i % 3 == 0 || !deleted(key, 2, 11));
        }
        CHECK(!give("large", 5, SB_VERSION_VALUE, 1, 12, bytes, 200 << 10));
        CHECK(!give("larger", 6, SB_VERSION_VALUE, 1, 12, bytes, 240 << 10));
        for (uint32_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "%06u", i);
                CHECK_EQ(rev_of(key), i % 3 == 0);
        }
        CHECK(rev_of("large") == 1 && make_room(13) && ends_without_loss());
        unmake_bus();
}

static void test_an_index_without_an_empty_cell_is_full(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 16};
        struct sb_check_report report;
        uint32_t made = 0;
        char key[16];
        int r = 0;

        CHECK(make_bus_of(&wish) && !sb_load_begin(&writer, &load) && !turn(100));
        for (; !r; made += !r) {
                snprintf(key, sizeof(key), "%06u", made);
                r = give(key, 6, SB_VERSION_VALUE, 1, 10, "v", 1);
        }
        CHECK_EQ(r, SB_E_FULL);
        CHECK_EQ(made, 16 * SB_BUCKET_CELLS);
        for (uint32_t i = 0; i < 300; i++) {
                snprintf(key, sizeof(key), "more%03u", i);
                CHECK_EQ(give(key, 7, SB_VERSION_VALUE, 1, 10, bytes, 1000), SB_E_FULL);
        }
        CHECK(!deleted("000000", 2, 11) && ends_without_loss());
        sb_work_all(&reader, true);
        CHECK(is_sound(&report));
        CHECK_EQ(report.keys, made - 1);
        CHECK_EQ(report.nodes, made - 1);
        unmake_bus();
}

static void test_a_million_overwrites_need_no_more_memory_than_the_keys(void)
{
        struct sb_check_report report;
        char key[16];

        CHECK(begin(1 << 20) && !turn(2000000));
        for (uint64_t i = 0; i < 1000000; i++) {
                uint32_t n = (uint32_t)(i % 1000);

                snprintf(key, sizeof(key), "k%04u", n);
                if (give(key, 5, SB_VERSION_VALUE, i / 1000 + 1, i + 10, bytes, 100 + i * 31 % 200))
                        TEST_FAIL("version %ju", (uintmax_t)i);
        }
        CHECK(!end_load() && is_sound(&report));
        CHECK(report.keys == 1000 && report.versions == 1000 && rev_of("k0999") == 1000);
        unmake_bus();
}

static void test_large_values_that_are_replaced_leave_their_units(void)
{
        CHECK(begin(4 << 20) && !turn(2000));
        for (uint64_t rev = 1; rev <= 300; rev++)
                CHECK(!give("large", 5, SB_VERSION_VALUE, rev, rev + 5, bytes,
                        (1 << 19) + rev % 5 * 100000));
        CHECK(!end_load() && sound());
        unmake_bus();
}

static void test_keys_that_came_and_went_leave_no_memory_behind(void)
{
        struct sb_check_report report;
        char key[16];

        CHECK(begin(1 << 20) && !turn(2000000));
        for (uint32_t i = 0; i < 100000; i++) {
                snprintf(key, sizeof(key), "k%06u", i);
                CHECK(!give(key, 7, SB_VERSION_VALUE, 1, i + 10, bytes, 100));
                CHECK(!give(key, 7, SB_VERSION_DELETED, 2, i + 10, NULL, 0));
        }
        CHECK_EQ(writer.counters.swept, 0);
        CHECK(!end_load() && is_sound(&report) && report.nodes == 0);
        unmake_bus();
}

static void test_reserved_keys_that_came_and_went_leave_no_memory_behind(void)
{
        char key[32];

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 100000; i++) {
                memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
                snprintf(key + SB_MARK_PREFIX, 8, "%06u", i);
                CHECK(!give(key, SB_MARK_PREFIX + 6, SB_VERSION_VALUE, 1, i + 10, bytes, 24));
                CHECK(!give(key, SB_MARK_PREFIX + 6, SB_VERSION_DELETED, 2, i + 11, NULL, 0));
        }
        CHECK(!turn(200000) && !end_load() && sound());
        unmake_bus();
}

static void test_a_history_of_the_last_versions_fits_where_it_fitted(void)
{
        static const uint32_t numbers[] = {3, 40, 200};
        char key[16];

        for (uint32_t which = 0; which < 3; which++) {
                uint32_t keys = 1500 / numbers[which];
                struct sb_check_report report;

                CHECK(begin(1 << 20));
                CHECK(!rule("", true, SB_RULE_WORD(SB_RULE_LAST, numbers[which]), 2, 1, 3));
                CHECK(!turn(2000000));
                for (uint64_t i = 0; i < 200000; i++) {
                        snprintf(key, sizeof(key), "k%04u", (uint32_t)(i % keys));
                        if (give(key, 5, SB_VERSION_VALUE, i / keys + 1, i + 10, bytes, 150))
                                TEST_FAIL("last %u: version %ju", numbers[which], (uintmax_t)i);
                }
                CHECK(!end_load() && sound());
                sb_work_all(&writer, true);
                CHECK(is_sound(&report));
                /* One more of each, and the rule's key. */
                CHECK(report.versions <= (uint64_t)(numbers[which] + 1) * keys + 1);
                CHECK(report.versions >= (uint64_t)numbers[which] * keys);
                for (uint32_t i = 0; i < numbers[which]; i++)
                        CHECK(past_of("k0000", sb_load_relaxed(&super()->clock) - 1) > 0);
                unmake_bus();
        }
}

/* ---- speed ---- */

static uint64_t elapsed_ns(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

/* Key @i of @count: its number is its place times @step. */
static const char *numbered(uint32_t i, uint32_t count, uint32_t step, char key[16])
{
        uint64_t place = (uint64_t)i * step % count;

        for (uint32_t digit = 8; digit-- > 0; place /= 10)
                key[digit] = (char)('0' + place % 10);
        return key;
}

/* Loads all of them. Return: versions a second. */
static double load_keys(uint32_t count, uint32_t step, uint64_t rev)
{
        uint64_t from = elapsed_ns();
        char key[16];

        for (uint32_t i = 0; i < count; i++) {
                sb_load_fetch(&load, numbered(i + 2 * SB_LOAD_FETCH, count, step, key), 8);
                if (give(numbered(i, count, step, key), 8, SB_VERSION_VALUE, rev, 10 + rev, bytes,
                            100))
                        return 0;
        }
        return count * 1e9 / (double)(elapsed_ns() - from);
}

static void test_many_keys_are_loaded(void)
{
        const uint32_t count = 200000;
        struct sb_check_report report;
        double ordered, again, mixed;

        CHECK(begin(UINT64_C(256) << 20) && !turn(100));
        ordered = load_keys(count, 1, 1);
        again = load_keys(count, 77977, 2);
        CHECK(ordered > 0 && again > 0);
        CHECK(!end_load() && is_sound(&report));
        CHECK(report.keys == count && report.versions == count);
        unmake_bus();
        CHECK(begin(UINT64_C(256) << 20) && !turn(100));
        mixed = load_keys(count, 77977, 1);
        CHECK(mixed > 0 && !end_load());
        unmake_bus();
        TEST_NOTE("million versions a second: keys in order %.2f, in any order %.2f, overwrites "
                  "%.2f",
                ordered / 1e6, mixed / 1e6, again / 1e6);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_full_segment_says_so_and_has_what_came_before);
        RUN(test_what_is_full_takes_deletes_and_what_they_freed_serves);
        RUN(test_what_deletes_left_serves_also_while_sweeps_rest);
        RUN(test_what_lies_in_the_way_of_a_large_value_moves);
        RUN(test_an_index_without_an_empty_cell_is_full);
        RUN(test_a_million_overwrites_need_no_more_memory_than_the_keys);
        RUN(test_large_values_that_are_replaced_leave_their_units);
        RUN(test_keys_that_came_and_went_leave_no_memory_behind);
        RUN(test_reserved_keys_that_came_and_went_leave_no_memory_behind);
        RUN(test_a_history_of_the_last_versions_fits_where_it_fitted);
        RUN(test_many_keys_are_loaded);
        return test_end();
}
