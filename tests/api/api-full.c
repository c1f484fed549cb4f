/* A full segment: its result has a name, nothing is lost, and memory comes back; only the clients
 * themselves are at work. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/layout/report.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/upkeep/check.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
/* A write that tries once and does not wait. */
static const struct sb_write at_once = {.size = sizeof(at_once), .deadline_ns = 1};

#define BEGIN() WORLD_BEGIN(4 * MIB)
#define END()   WORLD_END()

static struct sb_bytes key_of(unsigned number, char text[32])
{
        snprintf(text, 32, "key/%07u", number);
        return b(text);
}

/* Make new keys until one finds no memory in that time. Return: how many were made, or UINT32_MAX
 * when one ended with another result than SB_E_FULL. */
static unsigned fill_patiently(size_t value_len, uint64_t wait_ns)
{
        static char value[65536];
        struct sb_write how = {.size = sizeof(how)};
        char text[32];

        for (unsigned count = 0;; count++) {
                int r;

                memset(value, 'a' + count % 26, value_len);
                how.deadline_ns = now_ns() + wait_ns;
                r = sb_set(
                        bus, key_of(count, text), (struct sb_bytes){value, value_len}, &how, NULL);
                if (r != 0)
                        return r == SB_E_FULL ? count : UINT32_MAX;
        }
}

static unsigned fill(size_t value_len)
{
        return fill_patiently(value_len, 0);
}

/* Whether keys first .. end-1 have the values that fill() gave them. */
static bool readable(unsigned first, unsigned end, size_t value_len)
{
        char text[32];

        for (unsigned i = first; i < end; i++) {
                struct sb_guard guard = {0};
                bool right;

                if (sb_get(bus, key_of(i, text), &guard) != 0)
                        return false;
                right = guard.value.len == value_len &&
                        (value_len == 0 || *(const char *)guard.value.data == (char)('a' + i % 26));
                sb_guard_release(&guard);
                if (!right)
                        return false;
        }
        return true;
}

static void fill_and_drain(size_t value_len)
{
        unsigned count, again;
        char text[32];
        uint64_t rev = 0;

        BEGIN();
        count = fill(value_len);
        CHECK(count != UINT32_MAX && count > 10);
        CHECK(readable(0, count, value_len));
        /* A full segment does not hide a conflict or an absent key. */
        CHECK_EQ(sb_cas(bus, key_of(0, text), 5, b("x"), &at_once, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 1);
        CHECK_EQ(sb_delete(bus, b("absent"), SB_ANY_REV, &at_once, NULL), SB_E_NOT_FOUND);
        for (unsigned i = 0; i < count; i++)
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        /* This waits, because an engine at work pins for moments what it frees. */
        again = fill_patiently(value_len, 300000000);
        CHECK(again != UINT32_MAX);
        if (again < count - count / 10)
                TEST_FAIL("%u keys fitted, but only %u after all were deleted", count, again);
        CHECK(readable(0, again, value_len));
        END();
}

static void test_small_values_fill_the_segment_and_memory_comes_back(void)
{
        fill_and_drain(10);
}
static void test_middling_values_fill_the_segment_and_memory_comes_back(void)
{
        fill_and_drain(1000);
}
static void test_large_values_fill_the_segment_and_memory_comes_back(void)
{
        fill_and_drain(60000);
}
static void test_empty_values_fill_the_segment_and_memory_comes_back(void)
{
        fill_and_drain(0);
}

/* Not one key for each delete: a new key may need a branch of the ordered index, where the deleted
 * one shared its branch with others, which stays. */
static void test_a_few_deletes_free_memory_for_half_as_many_new_keys(void)
{
        char text[32], value[1000];
        unsigned count;

        BEGIN();
        count = fill(sizeof(value));
        CHECK(count != UINT32_MAX && count > 400);
        memset(value, 'z', sizeof(value));
        for (unsigned i = 0; i < 400; i += 40) {
                for (unsigned k = i; k < i + 40; k++)
                        CHECK_EQ(sb_delete(bus, key_of(k, text), SB_ANY_REV, &at_once, NULL), 0);
                for (unsigned k = i; k < i + 20; k++)
                        CHECK_EQ(sb_set(bus, key_of(count + k, text),
                                         (struct sb_bytes){value, sizeof(value)}, NULL, NULL),
                                0);
        }
        CHECK(readable(400, count, sizeof(value)));
        END();
}

static void test_ever_new_keys_each_deleted_again_need_no_more_memory(void)
{
        char text[32];

        BEGIN();
        for (unsigned i = 0; i < 100000; i++) {
                CHECK_EQ(sb_set(bus, key_of(i, text), b("0123456789012345678901234567890123456789"),
                                 &at_once, NULL),
                        0);
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        }
        END();
}

/* Make new keys after @first until one finds no memory in @wait_ns (0: the default deadline).
 * Memory that comes back late (the placeholders of the last keys, after a grace period) is used up
 * on the way. Return: how long the last write waited; 0: one ended with another result. */
static uint64_t wait_until_full(unsigned *first, uint64_t wait_ns)
{
        for (;;) {
                uint64_t begin = now_ns();
                struct sb_write how = {.size = sizeof(how), .deadline_ns = begin + wait_ns};
                char text[32];
                int r = sb_set(bus, key_of((*first)++, text), b("0123456789"),
                        wait_ns != 0 ? &how : NULL, NULL);

                if (r != 0)
                        return r == SB_E_FULL ? now_ns() - begin : 0;
        }
}

/* An open cut keeps what is deleted, so deletes use up what is reserved for them, too. Then nothing
 * is written any more, and the commit clock stands still. */
static void test_what_a_closed_cut_kept_is_found_though_nothing_is_written(void)
{
        struct sb_txn *txn = NULL;
        unsigned count, deleted = 0;
        char text[32];

        BEGIN();
        count = fill(10);
        CHECK(count > 1000 && count != UINT32_MAX);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        while (sb_delete(bus, key_of(deleted, text), SB_ANY_REV, &at_once, NULL) == 0)
                deleted++;
        CHECK(deleted > 10 && deleted < count);
        CHECK_EQ(sb_set(bus, key_of(count, text), b("0123456789"), &at_once, NULL), SB_E_FULL);
        CHECK(!sb_txn_end(txn));
        for (unsigned i = 0; i < deleted / 2; i++)
                CHECK_EQ(sb_set(bus, key_of(count + i, text), b("0123456789"), NULL, NULL), 0);
        END();
}

static void test_a_write_waits_a_second_for_memory_unless_told_otherwise(void)
{
        unsigned next;
        uint64_t took;

        BEGIN();
        next = fill(10);
        CHECK(next != UINT32_MAX);
        took = wait_until_full(&next, 200000000);
        CHECK(took >= 200000000);
        took = wait_until_full(&next, 0);
        CHECK(took >= 1000000000);
        END();
}

static pthread_t writer;

static void *delete_soon(void *argument)
{
        struct sb_bus *other = argument;
        char text[32];

        /* No memory comes before. */
        sb_os_linux.pause(NULL, 50000000);
        for (unsigned i = 0; i < 50; i++)
                if (sb_delete(other, key_of(i, text), SB_ANY_REV, &at_once, NULL) != 0)
                        return other;
        return NULL;
}

static void test_a_write_that_waits_gets_the_memory_that_another_makes(void)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = SB_FOREVER};
        struct sb_bus *other;
        void *wrong = NULL;
        char text[32], value[1000] = {0};
        unsigned count;
        uint64_t begun;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        count = fill(1000);
        CHECK(count != UINT32_MAX && count > 100);
        begun = now_ns();
        CHECK_EQ(pthread_create(&writer, NULL, delete_soon, other), 0);
        CHECK_EQ(sb_set(bus, key_of(count, text), (struct sb_bytes){value, sizeof(value)}, &how,
                         NULL),
                0);
        CHECK(now_ns() - begun >= 50000000);
        pthread_join(writer, &wrong);
        CHECK(!wrong);
        CHECK(!sb_close(other));
        END();
}

static void on_alarm(int number)
{
        (void)number;
}

static void test_a_signal_ends_the_wait_for_memory(void)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = SB_FOREVER};
        struct itimerval soon = {.it_value = {.tv_usec = 50000}, .it_interval = {.tv_usec = 50000}},
                         never = {0};
        char value[1000] = {0};

        BEGIN();
        CHECK(fill_patiently(1000, 100000000) != UINT32_MAX);
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
        setitimer(ITIMER_REAL, &soon, NULL);
        CHECK_EQ(sb_set(bus, b("waits"), (struct sb_bytes){value, sizeof(value)}, &how, NULL),
                -EINTR);
        setitimer(ITIMER_REAL, &never, NULL);
        END();
}

/* It is the next wait for a change that it ends. */
static void test_an_interrupt_does_not_end_the_wait_for_memory(void)
{
        static const char value[1000];
        struct sb_write how = {.size = sizeof(how)};
        unsigned count;
        char text[32];

        BEGIN();
        count = fill(sizeof(value));
        CHECK(count != UINT32_MAX);
        sb_interrupt(bus);
        how.deadline_ns = now_ns() + 20000000;
        CHECK_EQ(sb_set(bus, key_of(count, text), (struct sb_bytes){value, sizeof(value)}, &how,
                         NULL),
                SB_E_FULL);
        CHECK(now_ns() >= how.deadline_ns);
        CHECK_EQ(sb_wait(bus, 0), -EINTR);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        END();
}

static void test_guards_hold_their_memory_and_give_it_back(void)
{
        struct sb_guard guards[20] = {0};
        unsigned count, less, again;
        char text[32];

        BEGIN();
        count = fill(60000);
        CHECK(count != UINT32_MAX && count > 20);
        for (unsigned i = 0; i < 20; i++)
                CHECK_EQ(sb_get(bus, key_of(i, text), &guards[i]), 0);
        for (unsigned i = 0; i < count; i++)
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        less = fill(60000);
        CHECK(less != UINT32_MAX && less <= count - 20);
        for (unsigned i = 0; i < 20; i++) {
                CHECK(guards[i].value.len == 60000 &&
                        *(const char *)guards[i].value.data == (char)('a' + i % 26));
                sb_guard_release(&guards[i]);
        }
        for (unsigned i = 0; i < less; i++)
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        again = fill_patiently(60000, 300000000);
        CHECK(again != UINT32_MAX && again >= count - 1);
        END();
}

/* All guard words are in use but the one that a get tries first, and there is no block for more. A
 * get that needs another one ends half way, and its client does nothing more. */
static void test_a_get_that_finds_no_guard_word_holds_up_no_memory(void)
{
        static struct sb_guard guards[4096];
        struct sb_guard guard = {0};
        unsigned count, again, held = 0, small = 100000;
        struct sb_bus *other;
        uint64_t slices;
        char text[32];

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        count = fill(1000);
        CHECK(count != UINT32_MAX && count > 1000);
        CHECK(wait_until_full(&small, 20000000) > 0);
        while (held < count && sb_get(other, key_of(held, text), &guards[held]) == 0)
                held++;
        CHECK(held > 1 && held < count / 10);
        sb_guard_release(&guards[1]); /* the first get made the words */
        /* Until one comes in the rest between sweeps. */
        do {
                slices = other->handle.counters.slices;
                CHECK_EQ(sb_get(other, b("absent"), &guard), SB_E_FULL);
        } while (slices != other->handle.counters.slices);
        for (unsigned i = 0; i < count; i++)
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        again = fill_patiently(1000, 300000000);
        if (again == UINT32_MAX || again + held < count - count / 10)
                TEST_FAIL("%u keys fitted, but only %u after all were deleted", count, again);
        for (unsigned i = 0; i < held; i++)
                sb_guard_release(&guards[i]);
        CHECK(!sb_close(other));
        END();
}

/* ---- what a full bus costs ---- */

/* A clock that the test drives: each look at it is 300 us later. It notes how many slices of a
 * sweep were done when it said for the first time that the deadline is over. */
static struct {
        struct sb_os os;
        uint64_t now, deadline, slices_by_then;
} fake;

static uint64_t fake_now_ns(void *context)
{
        (void)context;
        if (fake.now < fake.deadline && fake.now + 300000 >= fake.deadline)
                fake.slices_by_then = bus->handle.counters.slices;
        fake.now += 300000;
        return fake.now;
}

static void fake_begin(void)
{
        fake.os = *bus->handle.segment.os;
        fake.os.now_ns = fake_now_ns;
        fake.now = 1000000000;
        fake.deadline = 0;
        bus->handle.segment.os = &fake.os;
}

/* Set a new key with a millisecond to wait. */
static int set_within_a_millisecond(unsigned number)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = fake.now + 1000000};
        char text[32];

        fake.deadline = how.deadline_ns;
        return sb_set(bus, key_of(number, text), b("0123456789"), &how, NULL);
}

static void test_a_full_bus_says_so_within_the_deadline_and_one_slice_of_a_sweep(void)
{
        unsigned count, full = 0;

        BEGIN();
        count = fill(10);
        CHECK(count != UINT32_MAX);
        fake_begin();
        for (unsigned i = 0; i < 200; i++) {
                uint64_t slices = bus->handle.counters.slices;
                int r = set_within_a_millisecond(count + i);

                CHECK(r == 0 || r == SB_E_FULL);
                full += r == SB_E_FULL;
                CHECK(bus->handle.counters.slices <= slices + 4);
                if (r == SB_E_FULL)
                        CHECK(bus->handle.counters.slices <= fake.slices_by_then + 1);
        }
        CHECK(full > 100);
        bus->handle.segment.os = &sb_os_linux;
        END();
}

static void test_a_deadline_in_the_past_sweeps_nothing(void)
{
        struct sb_txn *txn = NULL;
        unsigned count;
        uint64_t swept;
        char text[32];

        BEGIN();
        count = fill(10);
        CHECK(count != UINT32_MAX);
        swept = bus->handle.counters.swept;
        for (unsigned i = 0; i < 100; i++)
                CHECK_EQ(sb_set(bus, key_of(count + i, text), b("0123456789"), &at_once, NULL),
                        SB_E_FULL);
        CHECK_EQ(sb_txn_begin(bus, 0, &txn), 0);
        for (unsigned i = 0; i < 300; i++)
                CHECK_EQ(sb_txn_set(txn, key_of(count + i, text), b("0123456789")), 0);
        CHECK_EQ(sb_txn_commit(txn, &at_once), SB_E_FULL);
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(bus->handle.counters.swept, swept);
        CHECK(readable(0, count, 10));
        END();
}

static void test_a_full_bus_is_not_swept_again_and_again_for_nothing(void)
{
        unsigned count;
        uint64_t swept;

        BEGIN();
        count = fill(10);
        CHECK(count != UINT32_MAX);
        fake_begin();
        swept = bus->handle.counters.swept;
        for (unsigned i = 0; i < 2000; i++)
                (void)set_within_a_millisecond(count + i);
        /* A version and a node for each key. Among 2,000 writers' looks are fewer than 100 sweeps.
         */
        swept = (bus->handle.counters.swept - swept) / (2 * count);
        TEST_NOTE("%llu sweeps for 2,000 sets on a full bus", (unsigned long long)swept);
        CHECK(swept < 200);
        bus->handle.segment.os = &sb_os_linux;
        END();
}

/* Every second value of 1000 bytes is deleted: no unit becomes free, but half of the memory is. The
 * seed of a bus is drawn, so that every run has other keys with high nodes. */
static void test_larger_blocks_serve_small_values_before_any_sweep(void)
{
        unsigned count, small = 0;
        uint64_t swept;
        char text[32];

        BEGIN();
        count = fill(1000);
        CHECK(count != UINT32_MAX && count > 1000);
        for (unsigned i = 0; i < count; i += 2)
                CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, &at_once, NULL), 0);
        swept = bus->handle.counters.swept;
        while (small < count &&
                sb_set(bus, key_of(count + small, text), b("0123456789"), &at_once, NULL) == 0)
                small++;
        TEST_NOTE("%u small values without a sweep, where %u of 1000 bytes were deleted", small,
                count / 2);
        CHECK(small > count / 4);
        CHECK_EQ(bus->handle.counters.swept, swept);
        END();
}

/* Nothing is stored, and each of the others has written each size once. */
static void test_on_the_smallest_buses_idle_clients_leave_more_than_half(void)
{
        static char value[4096];

        for (uint64_t size = 128; size <= 256; size += 64) {
                struct sb_bus *idle[2];
                unsigned alone, beside = 0;
                char text[32];

                WORLD_BEGIN(size * 1024);
                alone = fill_patiently(10, 50000000);
                CHECK(alone != UINT32_MAX && alone > 100);
                for (unsigned i = 0; i < alone; i++)
                        CHECK_EQ(sb_delete(bus, key_of(i, text), SB_ANY_REV, NULL, NULL), 0);
                world_prune(&world, bus);
                for (unsigned i = 0; i < 2; i++) {
                        idle[i] = world_bus(&world);
                        CHECK(idle[i]);
                        for (size_t len = 0; len < 3000; len += 16 + len / 8) {
                                struct sb_bytes bytes = {value, len};

                                CHECK_EQ(sb_set(idle[i], b("key"), bytes, NULL, NULL), 0);
                                CHECK_EQ(sb_delete(idle[i], b("key"), SB_ANY_REV, NULL, NULL), 0);
                        }
                        world_prune(&world, idle[i]);
                }
                beside = fill_patiently(10, 50000000);
                TEST_NOTE("%u KiB: %u keys, and %u beside two idle clients", (unsigned)size, alone,
                        beside);
                CHECK(beside != UINT32_MAX && beside > alone / 2);
                for (unsigned i = 0; i < 2; i++)
                        sb_close(idle[i]);
                END();
        }
}

/* ---- how much of a bus user data fills ---- */

/* Fill a bus of @size bytes with keys and values of these lengths; each key is written so many
 * times. Return: the bytes of keys and
 * values in it, in thousandths of @size; *ret_free: the bytes of free blocks, in thousandths of
 * those of all blocks. */
static unsigned fill_share(
        uint64_t size, unsigned key_len, unsigned value_len, unsigned writes, unsigned *ret_free)
{
        static char value[65536];
        struct sb_write how = {.size = sizeof(how)};
        struct sb_check_report report;
        uint64_t count = 0;
        char key[65];
        int r = 0;

        do {
                snprintf(key, sizeof(key), "%0*llu", (int)key_len, (unsigned long long)count);
                how.deadline_ns = now_ns() + 20000000;
                for (unsigned i = 0; i < writes && (i == 0 || r == 0); i++)
                        r = sb_set(bus, (struct sb_bytes){key, key_len},
                                (struct sb_bytes){value, value_len}, &how, NULL);
                count += r == 0;
        } while (r == 0);
        if (r != SB_E_FULL || sb_check(&bus->handle, false, &report) != 0)
                return 0;
        *ret_free = (unsigned)(report.bytes_free * 1000 / (report.bytes_free + report.bytes_used));
        return (unsigned)(count * (key_len + value_len) * 1000 / size);
}

/* docs/operating.md has the table. */
/* Whatever lies between what is free moves, as long as a write may wait. */
static void test_where_every_second_value_went_there_is_room_for_any_other_size(void)
{
        static const size_t lens[] = {100, 1000, 2500, 4000, 9000, 30000};
        static char value[60000];
        char text[32];

        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
                for (size_t other = 300; other <= sizeof(value); other = other * 5 / 2) {
                        unsigned count;

                        BEGIN();
                        count = fill(lens[i]);
                        CHECK(count != UINT32_MAX && count > 50);
                        for (unsigned key = 0; key < count; key += 2)
                                CHECK_EQ(sb_delete(bus, key_of(key, text), SB_ANY_REV, NULL, NULL),
                                        0);
                        for (unsigned more = 0; more < 5; more++) {
                                int r = sb_set(bus, key_of(count + more, text),
                                        (struct sb_bytes){value, other}, NULL, NULL);

                                if (r != 0)
                                        TEST_FAIL("of %u values of %zu bytes half went; one of "
                                                  "%zu says %d",
                                                count, lens[i], other, r);
                        }
                        for (unsigned key = 1; key < count; key += 2)
                                CHECK(readable(key, key + 1, lens[i]));
                        END();
                }
}

static void test_user_data_fills_the_share_of_a_bus_that_is_documented(void)
{
        static const struct {
                unsigned key_len, value_len, share;
        } rows[] = {{8, 8, 10}, {8, 64, 30}, {8, 256, 55}, {8, 1024, 60}, {8, 4096, 40},
                {8, 16384, 40}, {8, 65536, 70}, {64, 8, 22}, {64, 64, 33}, {64, 1024, 60},
                {64, 65536, 70}};
        uint64_t size = getenv("SB_TEST_LONG") ? 64 * MIB : 8 * MIB;

        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                unsigned share, free = 0;

                WORLD_BEGIN(size);
                share = fill_share(size, rows[i].key_len, rows[i].value_len, 1, &free);
                TEST_NOTE(
                        "keys of %u, values of %u bytes: %u.%u %%; %u.%u %% of blocks' bytes free",
                        rows[i].key_len, rows[i].value_len, share / 10, share % 10, free / 10,
                        free % 10);
                CHECK(share >= rows[i].share * 10);
                CHECK(free <= 100);
                END();
        }
}

/* A key's placeholder lives for a moment, and so does the version that is replaced at once. Units
 * that they leave half free must serve the next keys' nodes and versions. */
static void test_keys_that_are_born_and_overwritten_fill_as_much(void)
{
        unsigned share, free = 0;

        WORLD_BEGIN(8 * MIB);
        share = fill_share(8 * MIB, 8, 8, 2, &free);
        TEST_NOTE("%u.%u %% are keys and values; %u.%u %% of blocks' bytes free", share / 10,
                share % 10, free / 10, free % 10);
        CHECK(share >= 100);
        CHECK(free <= 100);
        END();
}

/* Eras as if others had written for hours beside an engine that is stopped. A block of another size
 * needs an era that is over, and so does one that is built in again at once. */
static void test_memory_comes_back_where_no_engine_has_swept_for_ages(void)
{
        static const size_t lens[] = {4000, 100, 20000, 1000};
        static char value[20000];
        struct sb_superblock *super;
        pid_t engine = 0;
        int r = 0;

        BEGIN();
        super = bus->handle.segment.super;
        if (world.remote)
                engine = (pid_t)sb_load_relaxed(&super->engine);
        CHECK(!engine || !kill(engine, SIGSTOP));
        sb_add_full(&super->era, SB_ERA_STOP);
        for (unsigned i = 0; i < 20000 && r == 0; i++)
                r = sb_set(bus, b("key"), (struct sb_bytes){value, lens[i / 5000]}, NULL, NULL);
        CHECK(!engine || !kill(engine, SIGCONT));
        CHECK_EQ(r, 0);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_empty_values_fill_the_segment_and_memory_comes_back);
        RUN(test_small_values_fill_the_segment_and_memory_comes_back);
        RUN(test_middling_values_fill_the_segment_and_memory_comes_back);
        RUN(test_large_values_fill_the_segment_and_memory_comes_back);
        RUN(test_a_few_deletes_free_memory_for_half_as_many_new_keys);
        RUN(test_ever_new_keys_each_deleted_again_need_no_more_memory);
        RUN(test_what_a_closed_cut_kept_is_found_though_nothing_is_written);
        RUN(test_a_write_waits_a_second_for_memory_unless_told_otherwise);
        RUN(test_a_write_that_waits_gets_the_memory_that_another_makes);
        RUN(test_a_signal_ends_the_wait_for_memory);
        RUN(test_an_interrupt_does_not_end_the_wait_for_memory);
        RUN(test_guards_hold_their_memory_and_give_it_back);
        RUN(test_a_get_that_finds_no_guard_word_holds_up_no_memory);
        RUN(test_a_full_bus_says_so_within_the_deadline_and_one_slice_of_a_sweep);
        RUN(test_a_deadline_in_the_past_sweeps_nothing);
        RUN(test_a_full_bus_is_not_swept_again_and_again_for_nothing);
        RUN(test_larger_blocks_serve_small_values_before_any_sweep);
        RUN(test_where_every_second_value_went_there_is_room_for_any_other_size);
        RUN(test_on_the_smallest_buses_idle_clients_leave_more_than_half);
        RUN(test_keys_that_are_born_and_overwritten_fill_as_much);
        RUN(test_memory_comes_back_where_no_engine_has_swept_for_ages);
        RUN(test_user_data_fills_the_share_of_a_bus_that_is_documented);
        return test_end();
}
