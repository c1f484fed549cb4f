/* Marked cuts, cuts by time, and the bus's own keys behind them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes all = {NULL, 0};

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static uint64_t real_ns(void)
{
        return sb_os_linux.realtime_ns(NULL);
}

/* How much memory marks keep. */
static uint64_t held_by_marks(uint32_t *ret_cuts)
{
        struct sb_admin_holders holders;
        uint64_t bytes = 0;

        *ret_cuts = 0;
        if (sb_admin_holders(bus, &holders) != 0 || sb_load_relaxed(&bus->handle.record->pin))
                return UINT64_MAX;
        for (uint32_t i = 0; i < holders.count; i++)
                if (holders.holders[i].client == SB_ADMIN_MARKS) {
                        bytes = holders.holders[i].held_bytes;
                        *ret_cuts = holders.holders[i].cut_count;
                }
        sb_admin_holders_free(&holders);
        return bytes;
}

static void test_a_name_marks_one_cut_until_it_is_dropped(void)
{
        uint64_t first = 0, second = 0, found = 7;

        BEGIN();
        CHECK_EQ(sb_mark_find(bus, b("before"), &found), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark_drop(bus, b("before")), SB_E_NOT_FOUND);
        CHECK_EQ(found, 7);
        CHECK_EQ(sb_mark(bus, b("before"), &first), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("before"), &second), SB_E_CONFLICT);
        CHECK_EQ(sb_mark(bus, b("after"), &second), 0);
        CHECK(second > first && first > 1);
        CHECK_EQ(sb_mark_find(bus, b("before"), &found), 0);
        CHECK_EQ(found, first);
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        CHECK_EQ(sb_mark_drop(bus, b("before")), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark_find(bus, b("before"), &found), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark(bus, b("before"), &first), 0);
        CHECK(first >= second);
        CHECK_EQ(sb_mark_find(bus, b("after"), &found), 0);
        CHECK_EQ(found, second);
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        CHECK_EQ(sb_mark_drop(bus, b("after")), 0);
        END();
}

static void test_a_mark_keeps_what_was_there_and_lets_it_go(void)
{
        char *value = calloc(1, 100000), key[16];
        uint64_t cut = 0;
        uint32_t cuts;
        int r = 0;

        CHECK(value);
        BEGIN();
        for (unsigned i = 0; i < 20; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL), 0);
        }
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        for (unsigned round = 0; round < 20 && r == 0; round++)
                for (unsigned i = 0; i < 20 && r == 0; i++) {
                        snprintf(key, sizeof(key), "key%u", i);
                        r = sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL);
                }
        CHECK_EQ(r, 0);
        CHECK(held_by_marks(&cuts) >= 20 * 100000);
        CHECK_EQ(cuts, 1);
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        CHECK_EQ(held_by_marks(&cuts), 0);
        CHECK_EQ(cuts, 0);
        for (unsigned round = 0; round < 10 && r == 0; round++)
                for (unsigned i = 0; i < 60 && r == 0; i++) {
                        snprintf(key, sizeof(key), "key%u", i);
                        r = sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL);
                }
        CHECK_EQ(r, 0);
        free(value);
        END();
}

static void test_marks_are_as_many_as_the_table_holds(void)
{
        uint32_t count = 0;
        uint64_t cut;
        char name[16];

        BEGIN();
        for (;; count++) {
                snprintf(name, sizeof(name), "m%u", count);
                if (sb_mark(bus, b(name), &cut) != 0)
                        break;
        }
        CHECK(count >= 4 && count <= 64);
        CHECK_EQ(sb_mark(bus, b(name), &cut), SB_E_FULL);
        CHECK_EQ(sb_mark_find(bus, b(name), &cut), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark_drop(bus, b("m1")), 0);
        CHECK_EQ(sb_mark(bus, b(name), &cut), 0);
        CHECK_EQ(sb_mark_drop(bus, b(name)), 0);
        for (uint32_t i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                CHECK_EQ(sb_mark_drop(bus, b(name)), i == 1 ? SB_E_NOT_FOUND : 0);
        }
        END();
}

/* Writes or deletes keys one after the other, from key @first on, until there is no memory for one
 * more. Return: how many. */
static uint32_t until_full(uint32_t first, bool deletes)
{
        struct sb_write at_once = {.size = sizeof(at_once), .deadline_ns = 1};
        uint32_t count = first;
        char key[16];
        int r = 0;

        while (r == 0) {
                snprintf(key, sizeof(key), "key %u", count++);
                r = deletes ? sb_delete(bus, b(key), SB_ANY_REV, &at_once, NULL)
                            : sb_set(bus, b(key), b("0123456789"), &at_once, NULL);
        }
        return r == SB_E_FULL ? count - 1 - first : 0;
}

/* Deletes keys, from @first on. Return: whether all of them were there. */
static bool delete_some(uint32_t first, uint32_t count)
{
        char key[16];

        for (uint32_t i = first; i < first + count; i++) {
                snprintf(key, sizeof(key), "key %u", i);
                if (sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL) != 0)
                        return false;
        }
        world_prune(&world, bus);
        return true;
}

static void keep_all_by_a_mark_and_drop_it(void)
{
        uint32_t end = until_full(0, false), first = 0;
        uint64_t cut = 0;
        char key[16];

        for (; sb_mark(bus, b("m"), &cut) == SB_E_FULL && first < end / 2; first += 20)
                CHECK(delete_some(first, 20));
        CHECK(cut != 0);
        /* The mark keeps what is deleted, so deletes use up what is reserved for them, too. */
        for (int r = 0; r != SB_E_FULL; first++) {
                CHECK(r == 0 && first < end);
                snprintf(key, sizeof(key), "key %u", first);
                r = sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);
        }
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("key 0"), b("0123456789"), NULL, NULL), 0);
}

static void test_a_mark_that_keeps_all_memory_can_be_dropped(void)
{
        WORLD_BEGIN(2 * MIB);
        keep_all_by_a_mark_and_drop_it();
        END();
}

/* The reserve is three units or more, two, one. */
static void test_on_the_smallest_buses_too_a_mark_that_keeps_all_memory_can_be_dropped(void)
{
        for (uint64_t size = 1024; size >= 128; size /= 2) {
                WORLD_BEGIN(size * 1024);
                keep_all_by_a_mark_and_drop_it();
                END();
        }
}

/* Each but the last is one that a later one could keep. */
static void test_on_a_full_bus_all_marks_can_be_dropped_oldest_first(void)
{
        uint64_t largest = getenv("SB_TEST_LONG") ? 8192 : 2048;

        for (uint64_t size = largest; size >= 128; size /= 2) {
                uint32_t count = 0, end;
                uint64_t cut;
                char name[16];

                WORLD_BEGIN(size * 1024);
                end = until_full(0, false);
                CHECK(delete_some(0, end / 2));
                for (int r = 0; r == 0; count += r == 0) {
                        snprintf(name, sizeof(name), "m%u", count);
                        r = sb_mark(bus, b(name), &cut);
                }
                CHECK(count >= 4);
                for (uint32_t fills = 0; fills < 3; fills++) {
                        world_prune(&world, bus); /* what is in its grace period */
                        (void)until_full(end + 100000 * fills, false);
                }
                CHECK(until_full(end / 2, true) > 0);
                for (uint32_t i = 0; i < count; i++) {
                        snprintf(name, sizeof(name), "m%u", i);
                        CHECK_EQ(sb_mark_drop(bus, b(name)), 0);
                        world_prune(&world, bus);
                }
                snprintf(name, sizeof(name), "key %u", end - 1);
                CHECK_EQ(sb_delete(bus, b(name), SB_ANY_REV, NULL, NULL), 0);
                END();
        }
}

static void test_an_open_cut_has_the_marks_that_stood_then(void)
{
        struct sb_bytes key = {"\0sb\0mark\0before", 15};
        struct sb_guard guard = {0};
        struct sb_txn *txn = NULL;
        uint64_t cut = 0;

        BEGIN();
        CHECK_EQ(sb_mark(bus, b("before"), &cut), 0);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_mark(bus, b("after"), &cut), 0);
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_get(bus, key, &guard), SB_E_NOT_FOUND);
        CHECK_EQ(sb_txn_get(txn, key, &guard), 0);
        sb_guard_release(&guard);
        sb_txn_end(txn);
        CHECK_EQ(sb_mark_drop(bus, b("after")), 0);
        END();
}

static void test_at_a_mark_the_bus_own_keys_are_not_known_any_more(void)
{
        struct sb_bytes key = {"\0sb\0mark\0before", 15}, marks = {key.data, 9};
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK_EQ(sb_mark(bus, b("before"), &how.cut), 0);
        CHECK_EQ(sb_mark(bus, b("after"), &how.cut), 0);
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_get_at(bus, key, how.cut, &guard), SB_E_LAPPED);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_open_at(bus, marks, &how, &scan), SB_E_LAPPED);
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        sb_scan_close(scan);
        CHECK_EQ(sb_mark_drop(bus, b("after")), 0);
        END();
}

static void test_a_drop_that_finds_no_memory_leaves_the_mark(void)
{
        uint64_t cut = 0, found = 0, other;
        struct sb_txn *txn = NULL;
        uint32_t drops = 0;
        int r = SB_E_FULL;
        char name[16];

        WORLD_BEGIN(2 * MIB);
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        for (uint32_t i = 0; i < 8; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                CHECK_EQ(sb_mark(bus, b(name), &other), 0);
        }
        CHECK(until_full(0, false) > 1000);
        /* An open cut keeps what is deleted, so deletes use up what is reserved for them, too, and
         * drops what is reserved for drops. */
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK(until_full(0, true) > 0);
        do {
                snprintf(name, sizeof(name), "m%u", drops);
                r = sb_mark_drop(bus, b(name));
                drops += r == 0;
        } while (r == 0 && drops < 8);
        CHECK(r == SB_E_FULL && drops > 0);
        CHECK_EQ(sb_mark_drop(bus, b("m")), SB_E_FULL);
        CHECK_EQ(sb_mark_find(bus, b("m"), &found), 0);
        CHECK_EQ(found, cut);
        sb_txn_end(txn);
        /* Each try does a few slices of the sweep that finds what the cut kept. */
        for (uint32_t tries = 0; r == SB_E_FULL && tries < 1000; tries++)
                r = sb_mark_drop(bus, b("m"));
        CHECK_EQ(r, 0);
        CHECK_EQ(sb_mark_find(bus, b("m"), &found), SB_E_NOT_FOUND);
        END();
}

static void test_the_bus_own_keys_are_not_among_the_others(void)
{
        static const struct sb_bytes low = {"\0a", 2}, high = {"\0sc", 3}, own = {"\0sb\0", 4};
        struct sb_admin_stat stat;
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t cut;
        unsigned count = 0;

        BEGIN();
        CHECK_EQ(sb_mark(bus, b("name"), &cut), 0);
        CHECK(!sb_set(bus, low, b("v"), NULL, NULL) && !sb_set(bus, high, b("v"), NULL, NULL) &&
                !sb_set(bus, b("z"), b("v"), NULL, NULL));
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK_EQ(stat.keys, 3);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        while (sb_scan_next(scan, &guard) == 0) {
                CHECK(guard.key.len < 4);
                sb_guard_release(&guard);
                count++;
        }
        CHECK_EQ(count, 3);
        while (sb_scan_prev(scan, &guard) == 0) {
                CHECK(guard.key.len < 4);
                sb_guard_release(&guard);
                count--;
        }
        CHECK_EQ(count, 0);
        scan = sb_scan_close(scan);
        CHECK_EQ(sb_scan_open(bus, NULL, own, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        scan = sb_scan_close(scan);
        CHECK_EQ(sb_mark_drop(bus, b("name")), 0);
        END();
}

static void test_a_time_names_the_last_cut_that_was_not_after_it(void)
{
        uint64_t before, between, cut = 0, then = 0, stamp = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &stamp};
        uint64_t end = now_ns() + UINT64_C(20000000000);

        BEGIN();
        CHECK_EQ(sb_cut_at(bus, 1000, &then), SB_E_LAPPED);
        CHECK_EQ(then, 0);
        /* A bus in which nothing was written has no cut yet that can be read at. */
        CHECK_EQ(sb_set(bus, b("first"), b("v"), NULL, NULL), 0);
        do
                world_tick(&world);
        while (sb_cut_at(bus, real_ns(), &cut) == SB_E_LAPPED && now_ns() < end);
        CHECK(cut > 1);
        before = real_ns();
        CHECK_EQ(sb_set(bus, b("key"), b("v"), &how, NULL), 0);
        between = real_ns();
        /* A later cut, which agentd's next tick notes. */
        do {
                world_tick(&world);
                CHECK_EQ(sb_cut_at(bus, real_ns(), &cut), 0);
        } while (cut < stamp && now_ns() < end);
        CHECK(cut >= stamp);
        if (sb_cut_at(bus, before, &then) == 0)
                CHECK(then < stamp);
        CHECK_EQ(sb_cut_at(bus, between, &then), 0);
        CHECK(then <= cut);
        /* A time that has not come yet means now. */
        CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &then), 0);
        CHECK(then >= cut);
        END();
}

static void test_misuse_has_a_name(void)
{
        char name[1024] = {0};
        uint64_t cut;

        BEGIN();
        CHECK_EQ(sb_mark(NULL, b("m"), &cut), -EINVAL);
        CHECK_EQ(sb_mark(bus, b("m"), NULL), -EINVAL);
        CHECK_EQ(sb_mark(bus, all, &cut), -EINVAL);
        CHECK_EQ(sb_mark_drop(NULL, b("m")), -EINVAL);
        CHECK_EQ(sb_mark_find(bus, b("m"), NULL), -EINVAL);
        CHECK_EQ(sb_cut_at(NULL, 1, &cut), -EINVAL);
        CHECK_EQ(sb_cut_at(bus, 1, NULL), -EINVAL);
        memset(name, 'x', sizeof(name));
        CHECK_EQ(sb_mark(bus, (struct sb_bytes){name, 1016}, &cut), -ENAMETOOLONG);
        CHECK_EQ(sb_mark(bus, (struct sb_bytes){name, 1015}, &cut), 0);
        CHECK_EQ(sb_mark_drop(bus, (struct sb_bytes){name, 1015}), 0);
        END();
}

static void test_a_mark_takes_no_name_that_means_another_moment(void)
{
        static const char *const others[] = {"now", "0", "5", "007", "20250601",
                "99999999999999999999999999", "@", "@5", "@5.25", "@soon", "2025-06-01",
                "1969-12-31", "5-1-1", "2025-06-01T12:30", "2025-06-01 12:30:00",
                "2025-06-01T12:30:00Z", "2025-06-01T12:30:00.25+02:00", "9999-12-31T23:59:59Z"};
        static const char *const names[] = {"nowhere", "Now", "now ", "5a", "-5", "5s", "1h", "1e9",
                "2025-06", "2025-06-01-before", "before 2025-06-01", "12:30", "me@home", "\xff\1"};
        static const struct sb_bytes zero = {"now", 4};
        uint64_t cut = 7;

        BEGIN();
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                if (sb_mark(bus, b(others[i]), &cut) != -EINVAL)
                        TEST_FAIL("'%s' is a name", others[i]);
                CHECK_EQ(sb_mark_find(bus, b(others[i]), &cut), SB_E_NOT_FOUND);
                CHECK_EQ(sb_mark_drop(bus, b(others[i])), SB_E_NOT_FOUND);
        }
        CHECK_EQ(cut, 7);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (sb_mark(bus, b(names[i]), &cut) != 0)
                        TEST_FAIL("'%s' is no name", names[i]);
                CHECK_EQ(sb_mark_drop(bus, b(names[i])), 0);
        }
        CHECK_EQ(sb_mark(bus, zero, &cut), 0);
        CHECK_EQ(sb_mark_drop(bus, zero), 0);
        END();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_a_name_marks_one_cut_until_it_is_dropped);
        RUN(test_a_mark_keeps_what_was_there_and_lets_it_go);
        RUN(test_marks_are_as_many_as_the_table_holds);
        RUN(test_a_mark_that_keeps_all_memory_can_be_dropped);
        RUN(test_on_the_smallest_buses_too_a_mark_that_keeps_all_memory_can_be_dropped);
        RUN(test_on_a_full_bus_all_marks_can_be_dropped_oldest_first);
        RUN(test_an_open_cut_has_the_marks_that_stood_then);
        RUN(test_at_a_mark_the_bus_own_keys_are_not_known_any_more);
        RUN(test_a_drop_that_finds_no_memory_leaves_the_mark);
        RUN(test_the_bus_own_keys_are_not_among_the_others);
        RUN(test_a_time_names_the_last_cut_that_was_not_after_it);
        RUN(test_misuse_has_a_name);
        RUN(test_a_mark_takes_no_name_that_means_another_moment);
        return test_end();
}
