/*
 * Waiting for the durable cut (shm/notify/durable.h): a client sleeps only where its cut is not
 * durable, and the log wakes it; what it is told when the disk has trouble, or its time is over.
 *
 * The system is the test's: what the log does happens inside the client's look at the clock, or
 * inside its sleep.
 */
#include <errno.h>

#include "shm/base/os.h"
#include "shm/notify/bell.h"
#include "shm/notify/durable.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

static struct sb_os os;
static uint64_t now, sleeps, wakes;
static uint32_t looks; /* at the clock, before that one */
static void (*in_look)(void), (*in_sleep)(void);

static uint64_t look_at_clock(void *context)
{
        (void)context;
        if (in_look && !looks--)
                in_look();
        return now++;
}

static int sleep_on(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        (void)context;
        sleeps++;
        if (in_sleep)
                in_sleep();
        else if (sb_load_relaxed(word) == expected)
                now = deadline_ns == UINT64_MAX ? now + 1000 : deadline_ns;
        return 0;
}

static void wake(void *context, struct sb_word32 *word)
{
        (void)context, (void)word;
        wakes++;
}

static void spin(void *context, uint32_t turns)
{
        (void)context, (void)turns;
        now += 50;
}

static const struct sb_segment *begin(void)
{
        if (!make_bus(4 << 20))
                return NULL;
        os = sb_os_linux;
        os.now_ns = look_at_clock;
        os.wait = sleep_on;
        os.wake = wake;
        os.spin = spin;
        reader.segment.os = &os;
        now = sleeps = wakes = 0;
        in_look = in_sleep = NULL;
        return &reader.segment;
}

static void make_durable(void)
{
        sb_store_relaxed(&reader.segment.super->durable, 7); /* Relaxed: one thread. */
        sb_durable_tell(&reader.segment, 0);
}

static void meet_trouble(void)
{
        sb_durable_tell(&reader.segment, EIO);
}

static void test_what_is_durable_already_is_answered_at_once(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        make_durable();
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), 0);
        CHECK_EQ(sb_durable_wait(segment, 3, 0, 0), 0);
        CHECK_EQ(sleeps, 0);
        CHECK_EQ(wakes, 0);
        unmake_bus();
}

static void test_a_client_that_sleeps_is_woken_by_the_log(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        in_sleep = make_durable;
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), 0);
        CHECK_EQ(sleeps, 1);
        CHECK_EQ(wakes, 1);
        /* Without a sleeper the log makes no call. */
        make_durable();
        CHECK_EQ(wakes, 1);
        unmake_bus();
}

static void test_what_becomes_durable_before_the_sleep_is_seen_without_it(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        /* The client asks for the time at the beginning, looks, and asks again before it sleeps. */
        looks = 1;
        in_look = make_durable;
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), 0);
        CHECK_EQ(sleeps, 0);
        unmake_bus();
}

static void test_a_client_looks_for_a_while_before_it_sleeps(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        in_sleep = make_durable;
        CHECK_EQ(sb_durable_wait(segment, 7, 10000, UINT64_MAX), 0);
        CHECK(now >= 10000 && sleeps == 1);
        unmake_bus();
}

static void test_a_deadline_ends_the_wait(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        CHECK_EQ(sb_durable_wait(segment, 7, 0, 500000), SB_E_TIMED_OUT);
        CHECK(now >= 500000);
        CHECK_EQ(sb_durable_wait(segment, 7, 0, 0), SB_E_TIMED_OUT);
        unmake_bus();
}

static void test_trouble_with_the_disk_is_told_to_sleepers_and_to_later_ones(void)
{
        const struct sb_segment *segment = begin();

        CHECK(segment);
        in_sleep = meet_trouble;
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), SB_E_NOT_DURABLE);
        CHECK_EQ(wakes, 1);
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), SB_E_NOT_DURABLE);
        CHECK_EQ(sleeps, 1);
        make_durable();
        CHECK_EQ(sb_durable_wait(segment, 7, 0, UINT64_MAX), 0);
        unmake_bus();
}

static void test_the_wish_rises_and_rings_the_log(void)
{
        const struct sb_segment *segment = begin();
        struct sb_superblock *super;
        struct sb_record *log;

        CHECK(segment);
        super = segment->super;
        log = sb_record_at(segment, sb_durable_slot(segment));
        sb_durable_want(segment, 9);
        CHECK(sb_load_relaxed(&super->wanted) == 9 && sb_load_relaxed(&log->dirty_any));
        /* Another client's wish is above: the log is rung all the same, since that one may be
         * stopped in between. */
        sb_store_relaxed(&log->dirty_any, 0);
        sb_store_relaxed(&log->dirty[0], 0);
        sb_durable_want(segment, 5);
        CHECK(sb_load_relaxed(&super->wanted) == 9 && sb_load_relaxed(&log->dirty_any));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_is_durable_already_is_answered_at_once);
        RUN(test_a_client_that_sleeps_is_woken_by_the_log);
        RUN(test_what_becomes_durable_before_the_sleep_is_seen_without_it);
        RUN(test_a_client_looks_for_a_while_before_it_sleeps);
        RUN(test_a_deadline_ends_the_wait);
        RUN(test_trouble_with_the_disk_is_told_to_sleepers_and_to_later_ones);
        RUN(test_the_wish_rises_and_rings_the_log);
        return test_end();
}
