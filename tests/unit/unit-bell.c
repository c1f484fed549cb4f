/*
 * The doorbell (shm/notify/bell.h): each bit that is set is taken once, a client sleeps only where
 * none is set, and is woken once for a sleep, however many processes have something for it.
 */
#include "shm/notify/bell.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

/* What the system was asked for, instead of being asked. */
static uint32_t waits, wakes;
static uint32_t expected;          /* of the last wait */
static void (*while_asleep)(void); /* what happens then */
static struct sb_word32 stop;

static int wait_recorded(
        void *context, struct sb_word32 *word, uint32_t expected_now, uint64_t deadline_ns)
{
        (void)context, (void)deadline_ns;
        waits++;
        expected = expected_now;
        /* As the kernel does, under a lock of its own. Relaxed: one thread. */
        if (sb_load_relaxed(word) != expected_now)
                return 0;
        if (while_asleep)
                while_asleep();
        return 0;
}

static void wake_recorded(void *context, struct sb_word32 *word)
{
        (void)context, (void)word;
        wakes++;
}

static struct sb_os os;

static bool begin(void)
{
        if (!make_bus(1 << 20))
                return false;
        os = sb_os_linux;
        os.wait = wait_recorded;
        os.wake = wake_recorded;
        reader.segment.os = writer.segment.os = &os;
        waits = wakes = 0;
        while_asleep = NULL;
        sb_store_relaxed(&stop, 0); /* Relaxed: one thread. */
        return true;
}

static void ring(uint32_t bit)
{
        sb_bell_ring(&writer.segment, reader.slot, bit);
}

static void test_each_bit_is_taken_once(void)
{
        static const uint32_t bits[] = {0, 1, 63, 64, 65, 4095, 2048, 4094};
        uint32_t word, seen = 0;
        uint64_t taken;

        CHECK(begin());
        CHECK(!sb_bell_is_dirty(&reader) && !sb_bell_take(&reader, &word, &taken));
        for (uint32_t twice = 0; twice < 2; twice++)
                for (uint32_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
                        ring(bits[i]);
        CHECK(sb_bell_is_dirty(&reader));
        while (sb_bell_take(&reader, &word, &taken))
                for (; taken; taken &= taken - 1) {
                        uint32_t bit = word * 64 + (uint32_t)__builtin_ctzll(taken), i = 0;

                        while (bits[i] != bit && i < 7)
                                i++;
                        CHECK_EQ(bits[i], bit);
                        seen++;
                }
        CHECK_EQ(seen, sizeof(bits) / sizeof(bits[0]));
        CHECK(!sb_bell_is_dirty(&reader));
        CHECK_EQ(wakes, 0); /* it did not sleep */
        /* What is beyond the bits of a record shares one. */
        ring(4096 + 7);
        CHECK(sb_bell_take(&reader, &word, &taken) && word == 0 && taken == 1 << 7);
        unmake_bus();
}

static void ring_three_times(void)
{
        for (uint32_t bit = 1; bit < 4; bit++)
                ring(bit);
}

static void test_a_sleeper_is_woken_once_however_many_ring(void)
{
        uint32_t word, count;
        uint64_t taken;

        CHECK(begin());
        for (count = 0; count < 5; count++) {
                while_asleep = ring_three_times;
                CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
                CHECK_EQ(waits, count + 1);
                CHECK_EQ(wakes, count + 1);
                CHECK_EQ(expected, count); /* each wake counts the bell on by one */
                while (sb_bell_take(&reader, &word, &taken))
                        ;
        }
        ring(1);
        CHECK_EQ(wakes, count); /* awake */
        unmake_bus();
}

/* A process that counted the bell on, and was stopped before it woke. */
static void ring_behind_a_stopped_waker(void)
{
        sb_cas32_full(&reader.record->bell, 0, 1);
        ring(1);
}

static void test_a_waker_that_stopped_keeps_no_other_from_waking(void)
{
        CHECK(begin());
        while_asleep = ring_behind_a_stopped_waker;
        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
        CHECK_EQ(wakes, 1);
        unmake_bus();
}

static void test_no_client_sleeps_on_what_is_set_already(void)
{
        uint32_t word;
        uint64_t taken;

        CHECK(begin());
        ring(9);
        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
        CHECK_EQ(waits, 0);
        CHECK(sb_bell_take(&reader, &word, &taken));
        sb_store_relaxed(&stop, 1); /* Relaxed: one thread. */
        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
        CHECK_EQ(waits, 0);
        sb_store_relaxed(&stop, 0); /* Relaxed: one thread. */
        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
        CHECK_EQ(waits, 1);
        unmake_bus();
}

static void wake_without_a_bit(void)
{
        sb_bell_wake(&writer.segment, reader.slot);
}

static void test_a_wake_needs_no_bit_and_wakes_no_client_that_is_awake(void)
{
        CHECK(begin());
        wake_without_a_bit();
        CHECK_EQ(wakes, 0);
        while_asleep = wake_without_a_bit;
        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
        CHECK_EQ(wakes, 1);
        unmake_bus();
}

/* Something waits in the client's place, and the client goes on. */
static void test_what_waits_for_a_client_is_woken_once(void)
{
        uint32_t word, count;
        uint64_t taken;

        CHECK(begin());
        for (uint32_t round = 0; round < 3; round++) {
                CHECK(sb_bell_stand(&reader, &stop, &count));
                CHECK_EQ(count, round);
                CHECK_EQ(wakes, round);
                ring_three_times();
                CHECK_EQ(wakes, round + 1);
                sb_bell_unstand(&reader);
                /* Nothing is to wait for what is there, or beside a wish to stop. */
                CHECK(!sb_bell_stand(&reader, &stop, &count));
                while (sb_bell_take(&reader, &word, &taken))
                        ;
                sb_store_relaxed(&stop, 1); /* Relaxed: one thread. */
                CHECK(!sb_bell_stand(&reader, &stop, &count));
                sb_store_relaxed(&stop, 0); /* Relaxed: one thread. */
                ring(9);
                CHECK_EQ(wakes, round + 1);
                CHECK(sb_bell_take(&reader, &word, &taken));
        }
        CHECK_EQ(waits, 0);
        unmake_bus();
}

static void test_a_sleep_takes_nothing_back_of_what_waits(void)
{
        uint32_t count;

        CHECK(begin());
        CHECK(sb_bell_stand(&reader, &stop, &count));
        CHECK_EQ(sb_bell_sleep(&reader, &stop, 0), 0); /* until its deadline */
        CHECK_EQ(waits, 1);
        ring(1);
        CHECK_EQ(wakes, 1);
        ring(2);
        CHECK_EQ(wakes, 1);
        /* Woken, it sleeps anew, and a wake for that reaches what waited before, too. */
        sb_bell_take(&reader, &(uint32_t){0}, &(uint64_t){0});
        while_asleep = ring_behind_a_stopped_waker;
        CHECK_EQ(sb_bell_sleep(&reader, &stop, 0), 0);
        CHECK_EQ(wakes, 2);
        sb_bell_unstand(&reader);
        CHECK_EQ(sb_bell_sleep(&reader, &stop, 0), 0);
        ring(3);
        CHECK_EQ(wakes, 2);
        unmake_bus();
}

/* Counts wrap round after 2^32 sleeps. */
static void test_the_count_may_wrap_round(void)
{
        CHECK(begin());
        /* Relaxed, both: one thread. */
        sb_store_relaxed(&reader.record->bell, UINT32_MAX);
        sb_store_relaxed(&reader.record->rung, UINT32_MAX);
        for (uint32_t sleep = 1; sleep < 4; sleep++) {
                while_asleep = ring_three_times;
                CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
                CHECK_EQ(wakes, sleep);
                for (uint32_t word; sb_bell_is_dirty(&reader);) {
                        uint64_t taken;

                        (void)sb_bell_take(&reader, &word, &taken);
                }
        }
        unmake_bus();
}

/* A process is stopped in its wake, and meanwhile others wake the client this often. */
static uint32_t wakes_meanwhile;

static void wake_very_late(void *context, struct sb_word32 *word)
{
        uint32_t bell = sb_load_relaxed(word) + wakes_meanwhile; /* Relaxed, all: one thread. */

        os.wake = wake_recorded;
        sb_store_relaxed(word, bell);
        sb_store_relaxed(&reader.record->rung, bell);
        wake_recorded(context, word);
}

static void test_a_process_that_is_stopped_for_ages_in_its_wake_silences_no_bell(void)
{
        static const uint32_t ages[] = {
                0, 1, 1000, INT32_MAX, UINT32_C(1) << 31, UINT32_C(3) << 30, UINT32_MAX - 1};
        uint64_t taken;

        for (uint32_t age = 0; age < sizeof(ages) / sizeof(ages[0]); age++) {
                CHECK(begin());
                wakes_meanwhile = ages[age];
                os.wake = wake_very_late;
                while_asleep = ring_three_times;
                CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
                for (uint32_t sleep = 1, before; sleep < 4; sleep++) {
                        for (uint32_t word; sb_bell_is_dirty(&reader);)
                                (void)sb_bell_take(&reader, &word, &taken);
                        before = wakes;
                        CHECK_EQ(sb_bell_sleep(&reader, &stop, UINT64_MAX), 0);
                        CHECK_EQ(wakes, before + 1);
                }
                unmake_bus();
        }
}

static void test_a_record_that_is_given_back_sleeps_no_more(void)
{
        CHECK(begin());
        sb_store_relaxed(&reader.record->sleeps, SB_BELL_SLEEPS); /* Relaxed: one thread. */
        sb_roster_release(&reader.segment, reader.slot, reader.generation);
        ring(3);
        CHECK_EQ(wakes, 0);
        unmake_bus();
}

/* The system's own: a wait ends by a wake, by another value, and at its deadline. */
static void test_the_system_waits_and_wakes(void)
{
        static struct sb_word32 word;
        uint64_t now = sb_os_linux.now_ns(NULL);

        sb_store_relaxed(&word, 5); /* Relaxed: one thread. */
        CHECK_EQ(sb_os_linux.wait(NULL, &word, 4, UINT64_MAX), 0);
        CHECK_EQ(sb_os_linux.wait(NULL, &word, 5, now + 1000000), 0);
        CHECK(sb_os_linux.now_ns(NULL) >= now + 1000000);
        CHECK_EQ(sb_os_linux.wait(NULL, &word, 5, 0), 0);
        sb_os_linux.wake(NULL, &word);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_each_bit_is_taken_once);
        RUN(test_a_sleeper_is_woken_once_however_many_ring);
        RUN(test_a_waker_that_stopped_keeps_no_other_from_waking);
        RUN(test_no_client_sleeps_on_what_is_set_already);
        RUN(test_a_wake_needs_no_bit_and_wakes_no_client_that_is_awake);
        RUN(test_what_waits_for_a_client_is_woken_once);
        RUN(test_a_sleep_takes_nothing_back_of_what_waits);
        RUN(test_the_count_may_wrap_round);
        RUN(test_a_process_that_is_stopped_for_ages_in_its_wake_silences_no_bell);
        RUN(test_a_record_that_is_given_back_sleeps_no_more);
        RUN(test_the_system_waits_and_wakes);
        return test_end();
}
