/* A full segment: its result has a name, nothing is lost, and memory comes back; only the clients
 * themselves are at work. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

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

/* Not one key for each delete: the tower of a new node may be higher than that of a deleted one,
 * and then the node is of another class of blocks. */
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

        /* The pause makes it likely that the writer waits by then; the test is right either way. */
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

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        count = fill(1000);
        CHECK(count != UINT32_MAX && count > 100);
        CHECK_EQ(pthread_create(&writer, NULL, delete_soon, other), 0);
        CHECK_EQ(sb_set(bus, key_of(count, text), (struct sb_bytes){value, sizeof(value)}, &how,
                         NULL),
                0);
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
        CHECK(fill(1000) != UINT32_MAX);
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
        setitimer(ITIMER_REAL, &soon, NULL);
        CHECK_EQ(sb_set(bus, b("waits"), (struct sb_bytes){value, sizeof(value)}, &how, NULL),
                -EINTR);
        setitimer(ITIMER_REAL, &never, NULL);
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

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_empty_values_fill_the_segment_and_memory_comes_back);
        RUN(test_small_values_fill_the_segment_and_memory_comes_back);
        RUN(test_middling_values_fill_the_segment_and_memory_comes_back);
        RUN(test_large_values_fill_the_segment_and_memory_comes_back);
        RUN(test_a_few_deletes_free_memory_for_half_as_many_new_keys);
        RUN(test_ever_new_keys_each_deleted_again_need_no_more_memory);
        RUN(test_a_write_waits_a_second_for_memory_unless_told_otherwise);
        RUN(test_a_write_that_waits_gets_the_memory_that_another_makes);
        RUN(test_a_signal_ends_the_wait_for_memory);
        RUN(test_guards_hold_their_memory_and_give_it_back);
        return test_end();
}
