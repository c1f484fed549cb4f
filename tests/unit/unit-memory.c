/*
 * Memory when a process is stopped, idle or short of it: what comes back, to which process, and
 * without the help of which other one.
 */
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reclaim.h"
#include "tests/unit/bus.h"

static char large[4096];

/* Set ever new keys until the segment is full. Return: how many keys were set. */
static uint32_t fill(
        struct sb_handle *handle, const char *prefix, uint64_t value_len, int *ret_result)
{
        uint32_t count = 0;
        char key[32];

        do {
                snprintf(key, sizeof(key), "%s%05u", prefix, count++);
                *ret_result = put_patiently(handle, key, large, value_len);
        } while (!*ret_result);
        return count - 1;
}

static int delete_all(struct sb_handle *handle, const char *prefix, uint32_t count)
{
        int r = 0;
        char key[32];

        while (count-- && !r) {
                snprintf(key, sizeof(key), "%s%05u", prefix, count);
                r = delete (handle, key);
        }
        return r;
}

static uint32_t problems(void)
{
        struct sb_check_report report;

        if (sb_check(&writer, false, &report))
                return UINT32_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count;
}

static void test_memory_comes_back_for_values_of_every_size(void)
{
        static const uint64_t sizes[] = {10, 3000, 100, 1000, 0, 4000, 10};
        uint32_t first = 0, count, i;
        int r;

        CHECK(make_bus(1 << 20));
        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                count = fill(&writer, "k", sizes[i], &r);
                CHECK_EQ(r, SB_E_FULL);
                if (!i)
                        first = count;
                CHECK_EQ(problems(), 0);
                CHECK_EQ(delete_all(&writer, "k", count), 0);
        }
        CHECK(count * 10 > first * 9); /* as many as on the empty bus, but for half-used slabs */
        unmake_bus();
}

static void test_reader_stopped_on_an_empty_bus_holds_nothing_that_came_later(void)
{
        static const uint64_t sizes[] = {10, 1000, 100, 3000, 10};
        uint32_t count, i, first = 0;
        int r;

        CHECK(make_bus(1 << 20));
        sb_pin(&reader); /* this pin is never taken off */
        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                count = fill(&writer, "k", sizes[i], &r);
                CHECK_EQ(r, SB_E_FULL);
                if (!i)
                        first = count;
                CHECK(count > 10);
                CHECK_EQ(delete_all(&writer, "k", count), 0);
        }
        CHECK(count * 10 > first * 9);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_reader_stopped_on_a_full_bus_holds_what_was_alive_and_no_more(void)
{
        struct sb_version *version;
        uint32_t count, later;
        int r;

        CHECK(make_bus(1 << 20));
        count = fill(&writer, "k", 100, &r);
        sb_pin(&reader);
        version = find("k00007");
        CHECK(version);
        CHECK_EQ(delete_all(&writer, "k", count), 0);
        later = fill(&writer, "n", 100, &r);
        CHECK_EQ(r, SB_E_FULL);
        CHECK(later < count / 10);
        CHECK(!memcmp(version->bytes, "k00007", 6));
        sb_unpin(&reader);
        CHECK(fill(&writer, "m", 100, &r) > count / 2);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_memory_that_an_idle_process_filled_serves_others_once_it_is_deleted(void)
{
        uint32_t count, again;
        int r;

        CHECK(make_bus(1 << 20));
        count = fill(&reader, "k", 100, &r);
        CHECK_EQ(delete_all(&writer, "k", count), 0);
        again = fill(&writer, "k", 1000, &r);
        CHECK(again * 1000 > count * 100 / 2);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* Each process has written values of every size and keeps one key: what is left of the slabs that
 * it took blocks from serves the next writer. */
static void test_idle_processes_that_wrote_values_of_every_size_leave_memory_for_others(void)
{
        enum { CLIENTS = 100 };
        static struct sb_handle idle[CLIENTS];
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation, count;
        char key[32];
        int r;

        CHECK(make_bus_for(4 << 20, CLIENTS + 2));
        for (uint32_t i = 0; i < CLIENTS; i++) {
                CHECK_EQ(sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation), 0);
                make_handle(&idle[i], &writer.segment, slot, generation);
                snprintf(key, sizeof(key), "i%05u", i);
                for (uint64_t len = 10; len < 2000; len += len / 8 + 1)
                        CHECK_EQ(put(&idle[i], key, large, len), 0);
        }
        count = fill(&writer, "k", 1000, &r);
        TEST_NOTE("memory for %u values of 1000 bytes beside %u idle clients", count, CLIENTS);
        CHECK(count * 1000 > (4 << 20) / 8);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_writers_get_on_with_a_roster_that_was_written_over(void)
{
        static const uint64_t rosters[] = {0, 1, 6, UINT32_MAX, UINT64_MAX};

        CHECK(make_bus_for(4 << 20, 2));
        for (uint32_t i = 0; i < sizeof(rosters) / sizeof(rosters[0]); i++) {
                for (uint32_t word = 0; word < SB_RECORDS_MAX / 64; word++)
                        sb_store_relaxed(&writer.segment.super->roster[word], rosters[i]);
                for (uint64_t len = 10; len < 2000; len += len / 8 + 1)
                        CHECK_EQ(put(&writer, "key", large, len), 0);
        }
        unmake_bus();
}

static void test_full_bus_still_says_conflict_and_not_found_and_keeps_every_value(void)
{
        struct sb_op_write write = {.key = "k00003",
                .key_len = 6,
                .value = large,
                .value_len = 100,
                .expected_rev = 17};
        struct sb_op_result result = {0};
        uint32_t count, i;
        uint64_t offset;
        char key[32];
        int r;

        CHECK(make_bus(1 << 20));
        count = fill(&writer, "k", 100, &r);
        CHECK_EQ(sb_op_write(&writer, &write, &result), SB_E_CONFLICT);
        CHECK_EQ(result.rev, 1);
        write.key = "absent";
        CHECK_EQ(sb_op_write(&writer, &write, &result), SB_E_CONFLICT);
        CHECK_EQ(result.rev, 0);
        CHECK_EQ(delete (&writer, "absent"), SB_E_NOT_FOUND);
        /* Without memory for a tombstone, too. */
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(struct sb_version) + 6,
                SB_SLAB_LARGER | SB_SLAB_RESERVE, &offset))
                ;
        CHECK_EQ(delete (&writer, "absent"), SB_E_NOT_FOUND);
        CHECK_EQ(delete (&writer, "k00003"), SB_E_FULL);
        sb_pin(&reader);
        for (i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "k%05u", i);
                CHECK(find(key));
        }
        sb_unpin(&reader);
        unmake_bus();
}

/* Set ever new keys, few at a time: one in a hundred stays for a while, and 20 stay for ever. */
static void test_long_churn_leaves_memory_for_a_very_large_value(void)
{
        static char very_large[4 << 20];
        enum { KEPT = 400, FOREVER = 20 };
        uint32_t kept[KEPT] = {0}, i, victim;
        uint64_t seed = 1;
        char key[32];

        CHECK(make_bus(16 << 20));
        for (i = 1; i < 200000; i++) {
                struct sb_handle *handle = i % 3 ? &writer : &reader;

                snprintf(key, sizeof(key), "%u", i);
                CHECK_EQ(put(handle, key, large, i % 7 * 100), 0);
                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
                victim = i;
                if (i % 100 == 0) {
                        victim = kept[(seed >> 33) % KEPT];
                        kept[(seed >> 33) % KEPT] = i;
                }
                snprintf(key, sizeof(key), "%u", victim);
                CHECK(!victim || delete (handle, key) == 0);
        }
        for (i = FOREVER; i < KEPT; i++) {
                snprintf(key, sizeof(key), "%u", kept[i]);
                CHECK(!kept[i] || delete (&writer, key) == 0);
        }
        sb_reclaim_pending(&reader);
        sb_reclaim_free(&reader);
        sb_slab_release_all(&reader);
        CHECK_EQ(put(&writer, "very large", very_large, sizeof(very_large) - 4096), 0);
        CHECK_EQ(put(&writer, "very large too", very_large, sizeof(very_large) - 4096), 0);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_guard_words_fit_the_smallest_segments_and_their_memory_comes_back(void)
{
        static const uint64_t sizes[] = {1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20};
        uint32_t i, room, again;
        int r = 0;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                CHECK(make_bus(sizes[i]));
                room = fill(&writer, "k", 100, &r);
                CHECK_EQ(delete_all(&writer, "k", room), 0);
                for (uint32_t index = 0; index < SB_GUARDS_MAX; index++)
                        CHECK_EQ(sb_guard_grow(&reader, index), 0);
                CHECK_EQ(sb_guard_grow(&reader, SB_GUARDS_MAX), SB_E_FULL);
                for (uint32_t index = 0; index < SB_GUARDS_MAX; index++)
                        sb_guard_set(&reader, index, 16 * (uint64_t)index);
                for (uint32_t index = 0; index < SB_GUARDS_MAX; index++)
                        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, index),
                                16 * (uint64_t)index);
                for (uint32_t index = 0; index < SB_GUARDS_MAX; index++)
                        sb_guard_set(&reader, index, 0);
                sb_handle_fini(&reader);
                again = fill(&writer, "k", 100, &r);
                CHECK(again * 10 > room * 9);
                CHECK_EQ(problems(), 0);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_memory_comes_back_for_values_of_every_size);
        RUN(test_long_churn_leaves_memory_for_a_very_large_value);
        RUN(test_guard_words_fit_the_smallest_segments_and_their_memory_comes_back);
        RUN(test_reader_stopped_on_an_empty_bus_holds_nothing_that_came_later);
        RUN(test_reader_stopped_on_a_full_bus_holds_what_was_alive_and_no_more);
        RUN(test_memory_that_an_idle_process_filled_serves_others_once_it_is_deleted);
        RUN(test_idle_processes_that_wrote_values_of_every_size_leave_memory_for_others);
        RUN(test_writers_get_on_with_a_roster_that_was_written_over);
        RUN(test_full_bus_still_says_conflict_and_not_found_and_keeps_every_value);
        return test_end();
}
