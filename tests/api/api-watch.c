/*
 * Watches and waits, through the public interface: what comes and in which order, what a wait ends
 * by, and that no watch costs what it should not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)

static struct world world;
static struct sb_bus *bus;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static bool is(struct sb_bytes bytes, const char *text)
{
        return text ? bytes.data && bytes.len == strlen(text) &&
                               memcmp(bytes.data, text, bytes.len) == 0
                    : !bytes.data;
}

/* Whether the next change is this one; it is released. */
static bool next_is(struct sb_watch *watch, const char *value, const char *old, uint64_t rev)
{
        struct sb_guard change = {0};
        bool same = sb_watch_next(watch, 0, &change) == 0 && change.rev == rev &&
                    change.missed == 0 && is(change.old_value, old) &&
                    (value ? is(change.value, value) && change.kind == SB_VALUE
                           : change.kind == SB_DELETED);

        sb_guard_release(&change);
        return same;
}

static bool nothing(struct sb_watch *watch)
{
        struct sb_guard change = {.rev = 77};

        return sb_watch_next(watch, 0, &change) == SB_E_TIMED_OUT && change.rev == 77 &&
               !change.bus;
}

static void test_a_watch_gives_every_change_once_whatever_made_it(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        struct sb_txn *txn = NULL;
        int64_t sum;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("n"), 0, SB_ANY_REV, &watch), 0);
        CHECK(nothing(watch));
        CHECK_EQ(sb_set(bus, b("n"), b("1"), NULL, NULL), 0);
        CHECK(next_is(watch, "1", NULL, 1));
        CHECK_EQ(sb_cas(bus, b("n"), 1, b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_cas(bus, b("n"), 1, b("9"), NULL, NULL), SB_E_CONFLICT);
        CHECK_EQ(sb_incr(bus, b("n"), 5, NULL, &sum, NULL), 0);
        CHECK(next_is(watch, "2", "1", 2));
        CHECK(next_is(watch, "7", "2", 3));
        CHECK_EQ(sb_append(bus, b("n"), b("0"), NULL, NULL), 0);
        CHECK(next_is(watch, "70", "7", 4));
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("n"), b("71")), 0);
        CHECK(nothing(watch)); /* not committed */
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        txn = sb_txn_end(txn);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        CHECK(change.txn != 0 && change.rev == 5 && is(change.value, "71") &&
                is(change.old_value, "70"));
        sb_guard_release(&change);
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("n"), b("never")), 0);
        txn = sb_txn_end(txn);
        CHECK(nothing(watch));
        CHECK_EQ(sb_delete(bus, b("n"), SB_ANY_REV, NULL, NULL), 0);
        CHECK(next_is(watch, NULL, "71", 6));
        CHECK_EQ(sb_delete(bus, b("n"), SB_ANY_REV, NULL, NULL), SB_E_NOT_FOUND);
        CHECK(nothing(watch));
        watch = sb_watch_close(watch);
        CHECK(!watch);
        END();
}

static void test_a_watch_after_what_was_read_misses_nothing_in_between(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard guard = {0};
        uint64_t rev;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        rev = guard.rev;
        sb_guard_release(&guard);
        CHECK_EQ(sb_set(bus, b("key"), b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, rev, &watch), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("3"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
        CHECK(is(guard.value, "2") && guard.rev == 2);
        sb_guard_release(&guard);
        CHECK(next_is(watch, "3", "2", 3));
        sb_watch_close(watch);
        /* After what is to come: it waits for that. */
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 4, &watch), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("4"), NULL, NULL), 0);
        CHECK(nothing(watch));
        CHECK_EQ(sb_set(bus, b("key"), b("5"), NULL, NULL), 0);
        CHECK(next_is(watch, "5", "4", 5));
        sb_watch_close(watch);
        END();
}

static void test_a_watch_has_the_depth_that_it_wants(void)
{
        struct sb_watch_options how = {.size = sizeof(how), .depth = 5000, .after = SB_ANY_REV};
        struct sb_watch *deep = NULL, *plain = NULL, *none = NULL;
        struct sb_guard change = {0};
        uint64_t rev;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("k"), 0, SB_ANY_REV, &plain), 0);
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &deep), 0);
        for (rev = 1; rev <= 5000; rev++)
                CHECK_EQ(sb_incr(bus, b("k"), 1, NULL, NULL, NULL), 0);
        world_prune(&world, bus);
        for (rev = 1; rev <= 5000; rev++) {
                CHECK_EQ(sb_watch_next(deep, 0, &change), 0);
                CHECK(change.rev == rev && change.missed == 0);
                sb_guard_release(&change);
                /* What one watch wants all have. */
                CHECK_EQ(sb_watch_next(plain, 0, &change), 0);
                CHECK(change.rev == rev && change.missed == 0);
                sb_guard_release(&change);
        }
        CHECK(nothing(deep) && nothing(plain));
        CHECK_EQ(sb_watch_dropped(deep), 0);
        /* From a revision on, which is still there. */
        how.after = 4000;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &none), 0);
        CHECK_EQ(sb_watch_next(none, 0, &change), 0);
        CHECK(change.rev == 4001 && change.missed == 0);
        sb_guard_release(&change);
        none = sb_watch_close(none);
        how.depth = UINT32_MAX;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &none), SB_E_FULL);
        CHECK(!none);
        sb_watch_close(deep);
        sb_watch_close(plain);
        END();
}

/* What the first of the seeds promises of its channels: 16 are kept, and what comes then is
 * dropped; each that is read makes room; no writer waits. */
static void test_a_watch_that_drops_keeps_the_first_that_were_not_read(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_BUFFERED, .depth = 16, .after = SB_ANY_REV};
        struct sb_watch *first = NULL, *second = NULL, *plain = NULL;
        struct sb_guard change = {0};

        BEGIN();
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &first), 0);
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &second), 0);
        CHECK_EQ(sb_watch_open(bus, b("k"), 0, SB_ANY_REV, &plain), 0);
        for (uint32_t i = 0; i < 1000; i++)
                CHECK_EQ(sb_incr(bus, b("k"), 1, NULL, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_dropped(first), 984);
        CHECK(next_is(first, "1", NULL, 1));
        CHECK(next_is(first, "2", "1", 2));
        /* Room for two. */
        CHECK_EQ(sb_incr(bus, b("k"), 1000, NULL, NULL, NULL), 0);
        CHECK_EQ(sb_incr(bus, b("k"), 1000, NULL, NULL, NULL), 0);
        CHECK_EQ(sb_incr(bus, b("k"), 1000, NULL, NULL, NULL), 0);
        for (uint32_t i = 0; i < 500; i++)
                CHECK_EQ(sb_incr(bus, b("k"), 1, NULL, NULL, NULL), 0);
        world_prune(&world, bus);
        for (uint64_t rev = 3; rev <= 16; rev++) {
                CHECK_EQ(sb_wait(bus, 0), 0);
                CHECK_EQ(sb_watch_next(first, 0, &change), 0);
                CHECK(change.rev == rev && change.missed == 0 && change.old_value.data);
                sb_guard_release(&change);
        }
        CHECK_EQ(sb_watch_next(first, 0, &change), 0);
        CHECK(change.rev == 1001 && change.missed == 984 && is(change.value, "2000") &&
                is(change.old_value, "1000"));
        sb_guard_release(&change);
        CHECK(next_is(first, "3000", "2000", 1002));
        CHECK(nothing(first));
        CHECK_EQ(sb_watch_dropped(first), 984 + 501);
        CHECK_EQ(sb_watch_dropped(plain), 0);
        /* The other one has not read. */
        CHECK_EQ(sb_watch_dropped(second), 1503 - 16);
        CHECK(next_is(second, "1", NULL, 1));
        first = sb_watch_close(first);
        second = sb_watch_close(second);
        plain = sb_watch_close(plain);
        END();
}

static void test_how_a_watch_is_opened_is_checked_first(void)
{
        struct sb_watch_options how = {.size = sizeof(how), .after = SB_ANY_REV};
        struct sb_watch *watch = NULL;

        BEGIN();
        CHECK_EQ(sb_watch_open_at(bus, b("k"), NULL, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, NULL), -EINVAL);
        CHECK_EQ(sb_watch_open_at(NULL, b("k"), &how, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open_at(bus, b(""), &how, &watch), -EINVAL);
        how.size = sizeof(how) - 1;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &watch), -EINVAL);
        how.size = sizeof(how) + 8;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &watch), -EINVAL);
        how.size = sizeof(how);
        how.flags = 4;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &watch), -EINVAL);
        how.flags = SB_AFTER_CUT;
        CHECK_EQ(sb_watch_open_at(bus, b("k"), &how, &watch), -EINVAL);
        how.flags = SB_PREFIX | SB_BUFFERED;
        CHECK_EQ(sb_watch_open_at(bus, b(""), &how, &watch), 0);
        watch = sb_watch_close(watch);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_BUFFERED, SB_ANY_REV, &watch), -EINVAL);
        CHECK(!watch);
        CHECK_EQ(sb_watch_dropped(NULL), 0);
        END();
}

/* Transactions push out what leaves, too. */
static void test_a_rule_of_the_last_few_holds_for_transactions(void)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 20};
        struct sb_guard version = {0};
        struct sb_history *history;
        uint64_t oldest;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("k"), 0, &rule), 0);
        for (uint32_t i = 0; i < 400; i++) {
                struct sb_txn *txn = NULL;

                CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
                CHECK_EQ(sb_txn_set(txn, b("k"), b("value")), 0);
                CHECK_EQ(sb_txn_set(txn, b("other"), b("value")), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                sb_txn_end(txn);
        }
        world_prune(&world, bus);
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &history), 0);
        oldest = 0;
        for (uint32_t i = 0; i < 20; i++) {
                CHECK_EQ(sb_history_next(history, &version, NULL), 0);
                oldest = version.rev;
                sb_guard_release(&version);
        }
        CHECK_EQ(oldest, 381);
        sb_history_close(history);
        END();
}

static void test_64_changes_are_kept_and_what_is_lost_is_counted(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        char value[16];

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        for (unsigned i = 1; i <= 64; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK_EQ(sb_set(bus, b("key"), b(value), NULL, NULL), 0);
        }
        world_prune(&world, bus);
        for (unsigned i = 1; i <= 64; i++) {
                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                snprintf(value, sizeof(value), "%u", i);
                CHECK(is(change.value, value) && change.rev == i && change.missed == 0);
                sb_guard_release(&change);
        }
        for (unsigned i = 65; i <= 1000; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK_EQ(sb_set(bus, b("key"), b(value), NULL, NULL), 0);
        }
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(!change.bus);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        CHECK(change.missed > 0 && change.missed <= 936 - 64 && change.rev == 65 + change.missed);
        sb_guard_release(&change);
        sb_watch_close(watch);
        END();
}

/* Value and what it replaced stay, each by a guard word of its own, as long as the guard. */
static void test_a_guard_of_a_change_holds_both_values(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard first = {0}, second = {0}, copy;
        struct sb_bus *other;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("one"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("two"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &first), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &second), 0);
        watch = sb_watch_close(watch);
        for (unsigned i = 0; i < 2000; i++)
                CHECK_EQ(sb_set(bus, b("key"), b("more"), NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK(is(first.value, "one") && is(second.value, "two") && is(second.old_value, "one"));
        copy = second;
        sb_guard_release(&second);
        sb_guard_release(&copy); /* of a released one: nothing */
        sb_guard_release(&first);
        /* What a closed bus leaves. */
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_watch_open(other, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("x"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &first), 0);
        CHECK(!sb_close(other));
        CHECK_EQ(sb_watch_next(watch, 0, &second), SB_E_DETACHED);
        sb_guard_release(&first);
        CHECK(!sb_watch_close(watch));
        END();
}

/* ---- waiting ---- */

static struct sb_bus *second_bus;

static void rest(uint64_t ns)
{
        struct timespec wait = {
                .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

        nanosleep(&wait, NULL);
}

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
        CHECK(next_is(watch, "v", NULL, 1));
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

/* Whether the handler runs before the wait, or while it sleeps. */
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

/* Half of what a full bus has is deleted, and its memory lies in blocks of another size. */
static void test_opening_a_watch_makes_room_as_a_write_does(void)
{
        static char value[4000];
        struct sb_watch *watch = NULL;
        struct sb_bytes bytes = {value, sizeof(value)};
        unsigned count = 0;
        char key[16];
        int r = 0;

        WORLD_BEGIN(64 * MIB);
        for (; r == 0; count++) {
                snprintf(key, sizeof(key), "live/%u", count);
                r = sb_set(bus, b(key), bytes, NULL, NULL);
        }
        CHECK(r == SB_E_FULL && count > 1000);
        CHECK_EQ(sb_watch_open(bus, b("fr"), SB_PREFIX, SB_ANY_REV, &watch), SB_E_FULL);
        for (unsigned i = 0; i + 1 < count; i += 2) {
                snprintf(key, sizeof(key), "live/%u", i);
                CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK_EQ(sb_watch_open(bus, b("fr"), SB_PREFIX, SB_ANY_REV, &watch), 0);
        sb_watch_close(watch);
        CHECK_EQ(sb_watch_open_at(bus, b("fresh"),
                         &(struct sb_watch_options){.size = sizeof(struct sb_watch_options),
                                 .depth = 5000,
                                 .after = SB_ANY_REV},
                         &watch),
                0);
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
                CHECK(next_is(watches[i], "v", NULL, 1));
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

/* ---- until ---- */

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

/* A watcher that is alone with the writers of a counter sees each value, or is told how many not.
 */
#define COUNTS 3000u
static void *count_up(void *argument)
{
        struct sb_bus *own = argument;

        for (unsigned i = 0; i < COUNTS; i++)
                if (sb_incr(own, b("counter"), 1, NULL, NULL, NULL))
                        return own;
        return NULL;
}

static void test_beside_writers_every_change_is_given_or_counted(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        struct sb_bus *writers[2];
        uint64_t given = 0, missed = 0, last = 0;
        pthread_t threads[2];
        void *failed;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("counter"), 0, SB_ANY_REV, &watch), 0);
        for (unsigned i = 0; i < 2; i++) {
                writers[i] = world_bus(&world);
                CHECK(writers[i]);
                CHECK_EQ(pthread_create(&threads[i], NULL, count_up, writers[i]), 0);
        }
        while (last < 2 * COUNTS) {
                int r = sb_watch_next(watch, now_ns() + 20000 * MS, &change);

                if (r == SB_E_LAPPED)
                        continue;
                CHECK_EQ(r, 0);
                CHECK_EQ(change.rev, last + change.missed + 1);
                CHECK_EQ(strtoull(change.value.data, NULL, 10), change.rev);
                last = change.rev;
                missed += change.missed;
                given++;
                sb_guard_release(&change);
        }
        CHECK_EQ(given + missed, 2 * COUNTS);
        printf("# %u changes: %llu given, %llu counted as lost\n", 2 * COUNTS,
                (unsigned long long)given, (unsigned long long)missed);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQ(pthread_join(threads[i], &failed), 0);
                CHECK(!failed);
                writers[i] = sb_close(writers[i]);
        }
        sb_watch_close(watch);
        END();
}

static void test_a_forked_child_has_no_watch(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        int status = -1;
        pid_t child;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        child = fork();
        if (child == 0) {
                bool right = sb_watch_next(watch, SB_FOREVER, &change) == SB_E_DETACHED &&
                             sb_wait(bus, SB_FOREVER) == SB_E_DETACHED;

                sb_interrupt(bus);
                sb_watch_close(watch);
                sb_close(bus);
                _exit(right ? 0 : 1);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        CHECK(next_is(watch, "v", NULL, 1));
        sb_watch_close(watch);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_watch_gives_every_change_once_whatever_made_it);
        RUN(test_a_watch_after_what_was_read_misses_nothing_in_between);
        RUN(test_a_watch_has_the_depth_that_it_wants);
        RUN(test_a_watch_that_drops_keeps_the_first_that_were_not_read);
        RUN(test_how_a_watch_is_opened_is_checked_first);
        RUN(test_a_rule_of_the_last_few_holds_for_transactions);
        RUN(test_64_changes_are_kept_and_what_is_lost_is_counted);
        RUN(test_a_guard_of_a_change_holds_both_values);
        RUN(test_a_sleeping_watch_is_woken_by_a_change);
        RUN(test_a_wait_ends_at_its_deadline_or_by_an_interrupt);
        RUN(test_a_signal_ends_a_wait);
        RUN(test_an_interrupt_out_of_a_handler_ends_one_wait);
        RUN(test_opening_a_watch_makes_room_as_a_write_does);
        RUN(test_a_wait_knows_which_of_many_watches_has_something);
        RUN(test_the_bus_says_which_watches_have_something);
        RUN(test_until_asks_at_once_and_behind_each_change);
        RUN(test_beside_writers_every_change_is_given_or_counted);
        RUN(test_a_forked_child_has_no_watch);
        return test_end();
}
