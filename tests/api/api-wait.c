/*
 * Waits of a bus, through the public interface: what one ends by, and by nothing else; that it
 * costs no processor's time; and which of the watches have something then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "tests/api/watched.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

static struct sb_bus *second_bus;

/* A while later, another client sets the key. */
static void *set_later(void *key)
{
        rest(20 * MS);
        return (void *)(intptr_t)sb_set(second_bus, b(key), b("late"), NULL, NULL);
}

static void *interrupt_later(void *argument)
{
        (void)argument;
        rest(20 * MS);
        sb_interrupt(bus);
        return NULL;
}

static void test_a_sleeping_watch_is_woken_by_a_change(void)
{
        struct sb_watch *watch = NULL, *idle = NULL;
        struct sb_guard change = {0};
        pthread_t thread;
        void *result;

        BEGIN();
        second_bus = world_bus(&world);
        CHECK(second_bus);
        CHECK_EQ(sb_watch_open(bus, b("idle"), 0, SB_ANY_REV, &idle), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        for (unsigned round = 0; round < 3; round++) {
                CHECK_EQ(pthread_create(&thread, NULL, set_later, "key"), 0);
                if (round == 1)
                        CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
                CHECK_EQ(sb_watch_next(watch, round == 1 ? 0 : SB_FOREVER, &change), 0);
                CHECK(is(change.value, "late"));
                sb_guard_release(&change);
                CHECK_EQ(pthread_join(thread, &result), 0);
                CHECK(!result);
        }
        CHECK(nothing(idle) && nothing(watch));
        sb_watch_close(idle);
        sb_watch_close(watch);
        second_bus = sb_close(second_bus);
        END();
}

static uint64_t processor_ns(void)
{
        struct timespec time;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void test_a_wait_ends_at_its_deadline_or_by_an_interrupt(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        pthread_t thread;
        uint64_t begun;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        begun = now_ns();
        CHECK_EQ(sb_watch_next(watch, begun + 30 * MS, &change), SB_E_TIMED_OUT);
        CHECK(now_ns() >= begun + 30 * MS);
        CHECK_EQ(sb_wait(bus, now_ns() + 5 * MS), SB_E_TIMED_OUT);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        CHECK_EQ(sb_wait(bus, 1), SB_E_TIMED_OUT);
        CHECK_EQ(pthread_create(&thread, NULL, interrupt_later, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), -EINTR);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        /* While it spins, too, however long that may be. */
        bus->watches.spin_ns = UINT64_MAX;
        CHECK_EQ(pthread_create(&thread, NULL, interrupt_later, NULL), 0);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), -EINTR);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        /* Behind it the thread sleeps. */
        bus->watches.spin_ns = MS;
        begun = processor_ns();
        CHECK_EQ(sb_wait(bus, now_ns() + 500 * MS), SB_E_TIMED_OUT);
        CHECK(processor_ns() - begun < 50 * MS);
        bus->watches.spin_ns = 0;
        /* Before the wait: the next one, and no further one. */
        sb_interrupt(bus);
        sb_interrupt(bus);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), -EINTR);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        /* What is there comes first. */
        sb_interrupt(bus);
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
        CHECK(next_rev_is(watch, "v", NULL, 1));
        CHECK_EQ(sb_wait(bus, 0), -EINTR);
        sb_interrupt(NULL);
        sb_watch_close(watch);
        END();
}

static void do_nothing(int number)
{
        (void)number;
}

static void test_a_signal_ends_a_wait(void)
{
        struct sigaction action = {.sa_handler = do_nothing}, before;
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        timer_t timer;

        BEGIN();
        CHECK_EQ(sigaction(SIGALRM, &action, &before), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
        CHECK_EQ(timer_settime(timer, 0,
                         &(struct itimerspec){
                                 .it_value.tv_nsec = 20000000, .it_interval.tv_nsec = 20000000},
                         NULL),
                0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), -EINTR);
        CHECK_EQ(timer_delete(timer), 0);
        CHECK_EQ(sigaction(SIGALRM, &before, NULL), 0);
        sb_watch_close(watch);
        END();
}

static void do_interrupt(int unused)
{
        (void)unused;
        sb_interrupt(bus);
}

/* Whether the handler runs before the wait, while it looks, or while it sleeps. */
static void test_an_interrupt_out_of_a_handler_ends_one_wait(void)
{
        struct sigaction action = {.sa_handler = do_interrupt}, before;
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        timer_t timer;

        BEGIN();
        CHECK_EQ(sigaction(SIGALRM, &action, &before), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
        /* Before the wait, which no signal ends that has come already. */
        CHECK_EQ(raise(SIGALRM), 0);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), -EINTR);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        /* While it looks, which no signal ends by itself. */
        bus->watches.spin_ns = UINT64_MAX;
        CHECK_EQ(timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 20000000}, NULL),
                0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), -EINTR);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        bus->watches.spin_ns = 0;
        for (int i = 0; i < 5; i++) {
                CHECK_EQ(timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 20000000},
                                 NULL),
                        0);
                CHECK_EQ(i % 2 ? sb_wait(bus, SB_FOREVER)
                               : sb_watch_next(watch, SB_FOREVER, &change),
                        -EINTR);
                CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_TIMED_OUT);
        }
        CHECK_EQ(timer_delete(timer), 0);
        CHECK_EQ(sigaction(SIGALRM, &before, NULL), 0);
        sb_watch_close(watch);
        END();
}

/* One wait for many watches; more than a record has dirty bits. */
static void test_a_wait_knows_which_of_many_watches_has_something(void)
{
        enum { MANY = 5000 };
        static struct sb_watch *watches[MANY];
        char key[16];

        WORLD_BEGIN(64 * MIB);
        for (unsigned i = 0; i < MANY; i++) {
                snprintf(key, sizeof(key), "key/%u", i);
                CHECK_EQ(sb_watch_open(bus, b(key), 0, SB_ANY_REV, &watches[i]), 0);
        }
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        for (unsigned i = 0; i < MANY; i += 613) {
                snprintf(key, sizeof(key), "key/%u", i);
                CHECK_EQ(sb_set(bus, b(key), b("v"), NULL, NULL), 0);
                CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
                CHECK(next_rev_is(watches[i], "v", NULL, 1));
                CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        }
        for (unsigned i = 0; i < MANY; i++)
                CHECK(!sb_watch_close(watches[i]));
        END();
}

/* A caller that asks which watch is ready goes by no other, and each comes in its turn. */
static void test_the_bus_says_which_watches_have_something(void)
{
        enum { MANY = 5000, CHANGED = 9 };
        static struct sb_watch *watches[MANY], *prefix;
        struct sb_watch_options how = {.size = sizeof(how), .after = SB_ANY_REV};
        struct sb_guard change = {0};
        struct sb_watch *watch;
        unsigned seen[CHANGED] = {0};
        char key[16];

        WORLD_BEGIN(64 * MIB);
        CHECK(!sb_watch_ready(NULL) && !sb_watch_ready(bus) && !sb_watch_data(NULL));
        for (unsigned i = 0; i < MANY; i++) {
                snprintf(key, sizeof(key), "key/%u", i);
                how.data = &watches[i];
                CHECK_EQ(sb_watch_open_at(bus, b(key), &how, &watches[i]), 0);
                CHECK(sb_watch_data(watches[i]) == &watches[i]);
        }
        CHECK(!sb_watch_ready(bus));
        /* Two changes each: a watch of which one was read comes behind the others. */
        for (unsigned i = 0; i < 2 * CHANGED; i++) {
                snprintf(key, sizeof(key), "key/%u", 600 * (i % CHANGED));
                CHECK_EQ(sb_set(bus, b(key), b("v"), NULL, NULL), 0);
        }
        for (unsigned i = 0; i < 2 * CHANGED; i++) {
                watch = sb_watch_ready(bus);
                CHECK(watch);
                size_t number = (size_t)((struct sb_watch **)sb_watch_data(watch) - watches) / 600;

                CHECK(number < CHANGED && watch == watches[600 * number]);
                CHECK_EQ(seen[number]++, i / CHANGED);
                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                CHECK_EQ(change.rev, seen[number]);
                sb_guard_release(&change);
        }
        CHECK(!sb_watch_ready(bus));
        /* One that is not asked stays ready, and does not keep the others from being said. */
        CHECK_EQ(sb_watch_open(bus, b("key/"), SB_PREFIX, SB_ANY_REV, &prefix), 0);
        CHECK_EQ(sb_set(bus, b("key/7"), b("v"), NULL, NULL), 0);
        for (unsigned i = 0; i < 6; i++) {
                watch = sb_watch_ready(bus);
                CHECK(watch == watches[7] || watch == prefix);
                seen[i % 2] = watch == prefix;
                CHECK(i % 2 == 0 || seen[0] + seen[1] == 1);
        }
        watches[7] = sb_watch_close(watches[7]);
        CHECK(sb_watch_ready(bus) == prefix && sb_watch_ready(bus) == prefix);
        CHECK(!sb_watch_data(prefix));
        prefix = sb_watch_close(prefix);
        CHECK(!sb_watch_ready(bus));
        /* The place of one that was closed serves the next. */
        how.data = key;
        CHECK_EQ(sb_watch_open_at(bus, b("key/7"), &how, &watches[7]), 0);
        CHECK_EQ(sb_set(bus, b("key/7"), b("v"), NULL, NULL), 0);
        CHECK(sb_watch_ready(bus) == watches[7] && sb_watch_data(watches[7]) == key);
        for (unsigned i = 0; i < MANY; i++)
                CHECK(!sb_watch_close(watches[i]));
        END();
}

struct wish {
        const char *first, *second;
        unsigned asked;
        int answer;
};

static int as_wished(void *argument, const struct sb_guard *guards, size_t count)
{
        struct wish *wish = argument;

        wish->asked++;
        if (count != 2)
                return -EPROTO;
        return (wish->first ? guards[0].bus && is(guards[0].value, wish->first) : !guards[0].bus) &&
                               (wish->second ? guards[1].bus && is(guards[1].value, wish->second)
                                             : !guards[1].bus)
                       ? wish->answer
                       : 0;
}

static void test_until_asks_at_once_and_behind_each_change(void)
{
        struct sb_bytes keys[] = {b("a"), b("b")};
        struct wish wish = {.answer = 1};
        pthread_t thread;

        BEGIN();
        second_bus = world_bus(&world);
        CHECK(second_bus);
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, 0), 1); /* both are absent */
        CHECK(!sb_load_relaxed(&bus->handle.record->pin));
        CHECK_EQ(wish.asked, 1);
        wish = (struct wish){.first = "late", .answer = -ENOMSG};
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, 0), SB_E_TIMED_OUT);
        CHECK_EQ(pthread_create(&thread, NULL, set_later, "a"), 0);
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, SB_FOREVER), -ENOMSG);
        CHECK(wish.asked >= 3);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        wish = (struct wish){.first = "never", .answer = 1};
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, now_ns() + 20 * MS), SB_E_TIMED_OUT);
        CHECK_EQ(pthread_create(&thread, NULL, interrupt_later, NULL), 0);
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, SB_FOREVER), -EINTR);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(sb_wait_until(bus, keys, 0, as_wished, &wish, 0), -EINVAL);
        CHECK_EQ(sb_wait_until(bus, NULL, 1, as_wished, &wish, 0), -EINVAL);
        CHECK_EQ(sb_wait_until(bus, keys, 1, NULL, &wish, 0), -EINVAL);
        CHECK_EQ(sb_wait_until(NULL, keys, 1, as_wished, &wish, 0), -EINVAL);
        keys[1].len = 0;
        CHECK_EQ(sb_wait_until(bus, keys, 2, as_wished, &wish, 0), -EINVAL);
        second_bus = sb_close(second_bus);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_sleeping_watch_is_woken_by_a_change);
        RUN(test_a_wait_ends_at_its_deadline_or_by_an_interrupt);
        RUN(test_a_signal_ends_a_wait);
        RUN(test_an_interrupt_out_of_a_handler_ends_one_wait);
        RUN(test_a_wait_knows_which_of_many_watches_has_something);
        RUN(test_the_bus_says_which_watches_have_something);
        RUN(test_until_asks_at_once_and_behind_each_change);
        return test_end();
}
