/*
 * Watches of all keys with a prefix, through the public interface: what is kept for one that reads
 * late or comes back, how a wait ends, and what is left behind the last watch.
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
#include "shm/layout/reserved.h"
#include "tests/api/prefix.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

/* Scan at the watch's cut. Return: 0: @key has this value there, and the scan comes to its end; as
 * sb_scan_open_at(), sb_scan_next(). */
static int scan_sees(
        const struct sb_watch *watch, const char *prefix, const char *key, const char *value)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = sb_watch_cut(watch)};
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        bool seen = false;
        int r = sb_scan_open_at(bus, b(prefix), &how, &scan);

        if (r != 0)
                return r;
        while (!(r = sb_scan_next(scan, &guard))) {
                if (is(guard.key, key))
                        seen = is(guard.value, value);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        return r != SB_E_NOT_FOUND ? r : seen ? 0 : -EPROTO;
}

/* More watches than a client may have cuts; and a transaction finds one left beside them. */
static void test_the_cut_is_kept_until_the_first_next_and_no_longer_than_changes(void)
{
        enum { MANY = 40 };
        struct sb_watch *watches[MANY];
        unsigned lapped = 0;
        int r;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("k/1"), b("old"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("j/1"), b("old"), NULL, NULL), 0);
        for (unsigned i = 0; i < MANY; i++)
                CHECK_EQ(open_watch(bus, "k/", &watches[i]), 0);
        CHECK(take_cut());
        CHECK_EQ(sb_set(bus, b("k/1"), b("new"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("j/1"), b("new"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("k/2"), b("new"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("k/2"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        for (unsigned i = 0; i < MANY; i++) {
                struct seen seen[4];

                CHECK_EQ(scan_sees(watches[i], "k/", "k/1", "old"), 0);
                /* What the watch does not keep: a held cut has it, or it is said. */
                r = scan_sees(watches[i], "j/", "j/1", "old");
                CHECK(r == 0 || r == SB_E_LAPPED);
                CHECK_EQ(scan_sees(watches[i], "", "j/1", "old"), r);
                lapped += r == SB_E_LAPPED;
                CHECK_EQ(all_of(watches[i], seen, 4), 3);
                r = scan_sees(watches[i], "k/", "k/1", "old");
                CHECK(r == 0 || r == SB_E_LAPPED);
        }
        CHECK(lapped > 0 && lapped <= MANY - 16);
        for (unsigned i = 0; i < 4 * KEPT; i++)
                CHECK_EQ(sb_set(bus, b("k/1"), b("over"), NULL, NULL), 0);
        world_prune(&world, bus);
        for (unsigned i = 0; i < MANY; i++) {
                CHECK_EQ(scan_sees(watches[i], "k/", "k/1", "old"), SB_E_LAPPED);
                CHECK(!sb_watch_close(watches[i]));
        }
        CHECK_EQ(sb_watch_cut(NULL), 0);
        END();
}

/* What waits for a watch, or asks whether it has anything, reads ahead for it. */
static void kept_behind_waits(const struct sb_watch_options *how)
{
        struct sb_watch *watch = NULL;
        struct seen seen[4];

        BEGIN();
        CHECK_EQ(sb_set(bus, b("k/1"), b("old"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("j/1"), b("old"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_open_at(bus, b("k/"), how, &watch), 0);
        CHECK(take_cut());
        CHECK_EQ(sb_set(bus, b("j/1"), b("new"), NULL, NULL), 0);
        CHECK(!sb_watch_ready(bus));
        for (unsigned i = 0; i < 3; i++) {
                CHECK_EQ(sb_set(bus, b("k/1"), b("new"), NULL, NULL), 0);
                CHECK_EQ(sb_wait(bus, 0), 0);
                CHECK(sb_watch_ready(bus) == watch);
        }
        world_prune(&world, bus);
        CHECK_EQ(scan_sees(watch, "k/", "k/1", "old"), 0);
        /* No watch keeps that: the cut does. */
        CHECK_EQ(scan_sees(watch, "", "j/1", "old"), 0);
        CHECK_EQ(all_of(watch, seen, 4), 3);
        CHECK(!sb_watch_close(watch));
        END();
}

static void test_a_wait_before_the_scan_leaves_the_cut_as_it_is(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX, .after = SB_ANY_REV};

        kept_behind_waits(&how);
        how.flags |= SB_BUFFERED;
        how.depth = 4;
        kept_behind_waits(&how);
}

/* Of a watch whose cut is not held, a scan goes by the chains, beside writers. */
static void test_a_scan_at_a_cut_that_is_not_held_is_right_or_lapped(void)
{
        enum { HELD = 16, KEYS = 300 };
        struct sb_watch *watches[HELD + 1];
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        char key[16];
        int r;

        BEGIN();
        for (unsigned i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "k/%03u", i);
                CHECK_EQ(sb_set(bus, b(key), b("old"), NULL, NULL), 0);
        }
        for (unsigned i = 0; i <= HELD; i++)
                CHECK_EQ(open_watch(bus, "k/", &watches[i]), 0);
        for (unsigned i = 0; i < HELD; i++)
                watches[i] = sb_watch_close(watches[i]);
        for (unsigned writes = 0; writes < 200; writes += 7) {
                struct sb_scan_options how = {
                        .size = sizeof(how), .cut = sb_watch_cut(watches[HELD])};
                unsigned count = 0, seed = writes;

                r = sb_scan_open_at(bus, b("k/"), &how, &scan);
                if (r == SB_E_LAPPED)
                        break;
                CHECK_EQ(r, 0);
                while (!(r = sb_scan_next(scan, &guard))) {
                        CHECK(is(guard.value, "old"));
                        snprintf(key, sizeof(key), "k/%03u", count++);
                        CHECK(is(guard.key, key));
                        sb_guard_release(&guard);
                        for (unsigned i = 0; i < writes / 10; i++) {
                                snprintf(key, sizeof(key), "k/%03u",
                                        (unsigned)rand_r(&seed) % (KEYS + 20));
                                if (i % 4)
                                        CHECK_EQ(sb_set(bus, b(key), b("new"), NULL, NULL), 0);
                                else
                                        (void)!sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);
                        }
                        if (count % 100 == 0)
                                world_tick(&world);
                }
                CHECK(r == SB_E_LAPPED || (r == SB_E_NOT_FOUND && count == KEYS));
                scan = sb_scan_close(scan);
        }
        CHECK_EQ(r, SB_E_LAPPED);
        CHECK(!sb_watch_close(watches[HELD]));
        END();
}

static void test_a_watch_after_a_cut_goes_on_where_another_ended(void)
{
        static struct seen seen[64];
        struct sb_watch *watch, *more;
        struct sb_guard change = {0};
        uint64_t cut;
        int r;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("k/0"), b("0"), NULL, NULL), 0);
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        cut = change.cut;
        sb_guard_release(&change);
        CHECK(nothing(watch));
        CHECK_EQ(sb_set(bus, b("k/1"), b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("k/2"), b("3"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("k/0"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        /* The first watch stands still: what came since is kept for it. */
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, cut, &more), 0);
        CHECK_EQ(sb_watch_cut(more), cut);
        CHECK_EQ(all_of(more, seen, 64), 3);
        CHECK(!order_breaks(seen, 3));
        CHECK_EQ(all_of(watch, seen, 64), 3);
        CHECK(!sb_watch_close(watch) && !sb_watch_close(more));
        CHECK(ends_unattended());
        world_prune(&world, bus);
        /* Nothing is kept: all of it is in the chains, or it is said. */
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, cut, &more), 0);
        r = all_of(more, seen, 64);
        CHECK(r == -1 || r == 3);
        CHECK_EQ(sb_set(bus, b("k/3"), b("4"), NULL, NULL), 0);
        CHECK(next_is(more, "k/3", "4", NULL) && nothing(more));
        CHECK(!sb_watch_close(more));
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, 0, &more), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, UINT64_MAX, &more), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, cut + 1000000, &more),
                -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_AFTER_CUT, cut, &more), -EINVAL);
        END();
}

/* Its delete is nowhere any more. */
static void test_a_watch_after_a_cut_that_a_forgotten_key_had_is_lapped(void)
{
        struct sb_watch *watch;
        struct sb_guard change = {0};
        struct sb_admin_stat stat;
        uint64_t cut;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("k/0"), b("0"), NULL, NULL), 0);
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        cut = sb_watch_cut(watch);
        CHECK(!sb_watch_close(watch));
        CHECK_EQ(sb_delete(bus, b("k/0"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, cut, &watch), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        sb_guard_release(&change);
        CHECK(!sb_watch_close(watch));
        CHECK(ends_unattended());
        for (unsigned i = 0; i < 100; i++) {
                CHECK(take_cut());
                world_prune(&world, bus);
                CHECK_EQ(sb_admin_stat(bus, &stat), 0);
                if (!stat.keys_deleted)
                        break;
        }
        CHECK_EQ(stat.keys_deleted, 0);
        CHECK_EQ(sb_watch_open(bus, b("k/"), SB_PREFIX | SB_AFTER_CUT, cut, &watch), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(sb_watch_cut(watch) > cut && nothing(watch));
        CHECK(!sb_watch_close(watch));
        END();
}

/* ---- what is kept ---- */

static void test_1024_changes_are_kept_and_behind_more_it_begins_anew_once(void)
{
        static struct seen seen[2000];
        struct sb_watch *watch, *key;
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard change = {0};
        struct sb_scan *scan;
        char name[16], value[16];
        uint64_t first;

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned round = 0; round < 4; round++) {
                for (unsigned i = 0; i < KEPT; i++) {
                        snprintf(name, sizeof(name), "k/%u", round & 1 ? i : i % 3);
                        snprintf(value, sizeof(value), "%u", i);
                        CHECK_EQ(sb_set(bus, b(name), b(value), NULL, NULL), 0);
                        if (i % 100 == 99)
                                world_tick(&world);
                }
                world_prune(&world, bus);
                CHECK_EQ(all_of(watch, seen, 2000), KEPT);
                CHECK(!order_breaks(seen, KEPT));
        }
        first = sb_watch_cut(watch);
        for (unsigned i = 0; i < 20 * KEPT; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK_EQ(sb_set(bus, b(i % 2 ? "k/0" : "k/new"), b(value), NULL, NULL), 0);
        }
        CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(!change.bus);
        how.cut = sb_watch_cut(watch);
        CHECK(how.cut > first);
        CHECK_EQ(sb_set(bus, b("k/0"), b("after"), NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, b("k/"), &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &change), 0);
        CHECK(is(change.key, "k/0") && is(change.value, value));
        sb_guard_release(&change);
        scan = sb_scan_close(scan);
        CHECK(next_is(watch, "k/0", "after", value) && nothing(watch));
        /* The others of the prefix do not wait for this one, and a key's own watch is one of its
         * own. */
        CHECK_EQ(sb_watch_open(bus, b("k/0"), 0, SB_ANY_REV, &key), 0);
        CHECK_EQ(sb_set(bus, b("k/0"), b("last"), NULL, NULL), 0);
        CHECK(next_is(key, "k/0", "last", "after") && next_is(watch, "k/0", "last", "after"));
        CHECK(!sb_watch_close(watch) && !sb_watch_close(key));
        END();
}

/* One that never reads, beside writers of a hundred times the bus's memory. */
static void test_a_watch_that_does_not_read_costs_no_more_than_its_ring(void)
{
        static char value[1000];
        struct sb_watch *watch, *reads;
        struct sb_guard change = {0};
        uint64_t before, at_first, later, now;
        char key[16];

        BEGIN();
        memset(value, 'v', sizeof(value));
        for (unsigned i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "k/%u", i);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, sizeof(value)}, NULL, NULL),
                        0);
        }
        world_prune(&world, bus);
        before = free_bytes();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        CHECK_EQ(open_watch(bus, "k/", &reads), 0);
        at_first = later = before;
        for (unsigned i = 0; i < 30000; i++) {
                snprintf(key, sizeof(key), "k/%u", i % 100);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, sizeof(value)}, NULL, NULL),
                        0);
                if (i % 50 == 0)
                        while (!sb_watch_next(reads, 0, &change))
                                sb_guard_release(&change);
                /* What waits for its grace period is now more and now less: the least of many looks
                 * is compared with the least of as many later ones. */
                if (i < 5000 || i % 50 != 0)
                        continue;
                now = free_bytes();
                if (i < 17500)
                        at_first = now < at_first ? now : at_first;
                else
                        later = now < later ? now : later;
        }
        TEST_NOTE("api-prefix: free %llu, then %llu, %llu", (unsigned long long)before,
                (unsigned long long)at_first, (unsigned long long)later);
        /* Of 30 MB that were written: what the ring names, and what waits for its grace period. */
        CHECK(before - later < 8 * MIB && later + MIB > at_first);
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(nothing(watch));
        CHECK(is_attended());
        CHECK(!sb_watch_close(watch) && !sb_watch_close(reads));
        CHECK(ends_unattended());
        for (unsigned i = 0; i < 1000; i++) {
                snprintf(key, sizeof(key), "k/%u", i % 100);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, sizeof(value)}, NULL, NULL),
                        0);
        }
        /* A remote engine comes to it some seconds later. */
        CHECK(world.remote || comes_to_free(before - MIB / 2));
        END();
}

static void test_where_memory_is_short_writes_go_on_and_the_watch_says_so(void)
{
        static char value[100000];
        struct sb_watch *watch;
        struct sb_guard change = {0};
        uint64_t rev, made = 0, given = 0, lapped = 0;
        int r;

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned i = 0; i < 1000; i++) {
                CHECK_EQ(sb_set(bus, b("k/1"), (struct sb_bytes){value, sizeof(value)}, NULL, &rev),
                        0);
                made++;
        }
        r = sb_watch_next(watch, 0, &change);
        CHECK_EQ(r, SB_E_LAPPED);
        CHECK_EQ(sb_set(bus, b("k/1"), b("now"), NULL, &rev), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        CHECK(change.rev == rev && is(change.value, "now") &&
                change.old_value.len == sizeof(value));
        sb_guard_release(&change);
        /* One that keeps up has all. */
        for (unsigned i = 0; i < 500; i++) {
                CHECK_EQ(sb_set(bus, b("k/1"), (struct sb_bytes){value, sizeof(value)}, NULL, &rev),
                        0);
                while ((r = sb_watch_next(watch, 0, &change)) != SB_E_TIMED_OUT) {
                        lapped += r == SB_E_LAPPED;
                        given += r == 0;
                        sb_guard_release(&change);
                }
        }
        TEST_NOTE("api-prefix: memory short: %llu given, lapped %llu times",
                (unsigned long long)given, (unsigned long long)lapped);
        CHECK_EQ(given + lapped, 500);
        CHECK_EQ(lapped, 0);
        CHECK(!sb_watch_close(watch));
        END();
}

static void test_guards_are_released_late_and_in_any_order(void)
{
        enum { MANY = 600 };
        static struct sb_guard held[MANY];
        struct sb_watch *watch;
        char value[16], before[16];

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned i = 0; i < MANY; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK_EQ(sb_set(bus, b("k/1"), b(value), NULL, NULL), 0);
                CHECK_EQ(sb_watch_next(watch, 0, &held[i]), 0);
        }
        for (unsigned i = 0; i < 4 * KEPT; i++)
                CHECK_EQ(sb_set(bus, b("k/1"), b("over"), NULL, NULL), 0);
        watch = sb_watch_close(watch);
        world_prune(&world, bus);
        for (unsigned n = 0; n < MANY; n++) {
                unsigned i = (n * 7) % MANY;

                i = i < MANY ? i : 0;
                if (!held[i].bus)
                        continue;
                snprintf(value, sizeof(value), "%u", i);
                snprintf(before, sizeof(before), "%u", i - 1);
                CHECK(is(held[i].value, value) && is(held[i].old_value, i ? before : NULL));
                sb_guard_release(&held[i]);
        }
        for (unsigned i = 0; i < MANY; i++)
                sb_guard_release(&held[i]);
        END();
}

/* ---- waiting ---- */

static struct sb_bus *second_bus;

static void *set_later(void *key)
{
        rest(10 * MS);
        return (void *)(intptr_t)sb_set(second_bus, b(key), b("late"), NULL, NULL);
}

static void *interrupt_later(void *argument)
{
        (void)argument;
        rest(10 * MS);
        sb_interrupt(bus);
        return NULL;
}

static int is_late(void *argument, const struct sb_guard *guards, size_t count)
{
        (void)argument;
        return count == 1 && guards[0].bus && is(guards[0].value, "late");
}

static void do_nothing(int number)
{
        (void)number;
}

static void test_a_sleeping_watch_is_woken_and_a_wait_ends_as_any(void)
{
        struct sigaction action = {.sa_handler = do_nothing}, old;
        struct sb_watch *watch, *idle, *key;
        struct sb_bytes keys[] = {b("k/until")};
        struct sb_guard change = {0};
        pthread_t thread;
        timer_t timer;
        void *result;

        BEGIN();
        second_bus = world_bus(&world);
        CHECK(second_bus);
        CHECK_EQ(open_watch(bus, "idle/", &idle), 0);
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &key), 0);
        for (unsigned round = 0; round < 6; round++) {
                bus->watches.spin_ns = round < 3 ? 0 : 1000 * MS;
                CHECK_EQ(pthread_create(&thread, NULL, set_later, round % 3 == 2 ? "key" : "k/1"),
                        0);
                if (round % 3 > 0)
                        CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
                CHECK_EQ(sb_watch_next(
                                 round % 3 == 2 ? key : watch, round % 3 ? 0 : SB_FOREVER, &change),
                        0);
                CHECK(is(change.value, "late"));
                sb_guard_release(&change);
                CHECK_EQ(pthread_join(thread, &result), 0);
                CHECK(!result);
        }
        bus->watches.spin_ns = 0;
        CHECK(nothing(idle) && nothing(watch) && nothing(key));
        CHECK_EQ(sb_wait(bus, now_ns() + 3 * MS), SB_E_TIMED_OUT);
        /* A predicate beside it: what comes for one is not taken from the other. */
        CHECK_EQ(pthread_create(&thread, NULL, set_later, "k/until"), 0);
        CHECK_EQ(sb_wait_until(bus, keys, 1, is_late, NULL, SB_FOREVER), 1);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
        CHECK(next_is(watch, "k/until", "late", NULL));
        CHECK_EQ(pthread_join(thread, &result), 0);
        CHECK_EQ(pthread_create(&thread, NULL, interrupt_later, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), -EINTR);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(sigaction(SIGALRM, &action, &old), 0);
        CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
        CHECK_EQ(timer_settime(timer, 0,
                         &(struct itimerspec){
                                 .it_value.tv_nsec = 5000000, .it_interval.tv_nsec = 5000000},
                         NULL),
                0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), -EINTR);
        CHECK_EQ(timer_delete(timer), 0);
        CHECK_EQ(sigaction(SIGALRM, &old, NULL), 0);
        CHECK(!sb_watch_close(watch) && !sb_watch_close(idle) && !sb_watch_close(key));
        second_bus = sb_close(second_bus);
        END();
}

static void test_a_forked_child_and_a_closed_bus_have_no_watch(void)
{
        struct sb_watch *watch, *other;
        struct sb_guard change = {0}, held = {0};
        struct sb_bus *own;
        int status = -1;
        pid_t child;

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("v"), NULL, NULL), 0);
        child = fork();
        if (child == 0) {
                bool right = sb_watch_next(watch, SB_FOREVER, &change) == SB_E_DETACHED &&
                             sb_wait(bus, SB_FOREVER) == SB_E_DETACHED &&
                             open_watch(bus, "k/", &other) == SB_E_DETACHED;

                sb_watch_close(watch);
                sb_close(bus);
                _exit(right ? 0 : 1);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK(next_is(watch, "k/1", "v", NULL));
        own = world_bus(&world);
        CHECK(own);
        CHECK_EQ(open_watch(own, "k/", &other), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("w"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("x"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(other, 0, &held), 0);
        CHECK(!sb_close(own));
        CHECK_EQ(sb_watch_next(other, 0, &change), SB_E_DETACHED);
        (void)sb_watch_cut(other);
        sb_guard_release(&held);
        CHECK(!sb_watch_close(other));
        CHECK(next_is(watch, "k/1", "w", "v") && next_is(watch, "k/1", "x", "w"));
        CHECK(!sb_watch_close(watch));
        CHECK(ends_unattended());
        END();
}

static void test_misuse_is_told_and_begins_nothing(void)
{
        struct sb_watch *watch = NULL;
        const struct sb_bytes no_data = {NULL, 3};

        BEGIN();
        CHECK_EQ(sb_watch_open(NULL, b("k"), SB_PREFIX, SB_ANY_REV, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_PREFIX, SB_ANY_REV, NULL), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, no_data, SB_PREFIX, SB_ANY_REV, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_PREFIX, 0, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_PREFIX, 7, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_PREFIX | 4, SB_ANY_REV, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("k"), SB_AFTER_CUT, SB_ANY_REV, &watch), -EINVAL);
        CHECK(!watch && !is_attended());
        CHECK_EQ(open_watch(bus, "k", &watch), 0);
        CHECK_EQ(sb_watch_next(watch, 0, NULL), -EINVAL);
        CHECK(!sb_watch_close(watch));
        CHECK_EQ(sb_watch_open(bus, b("k"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sb_watch_cut(watch), 0);
        CHECK(!sb_watch_close(watch));
        END();
}

/* The ring of a watched prefix stands at a key of the bus's own. */
static void test_a_key_of_the_buss_own_is_watched_by_no_other_way(void)
{
        static const char own[] = SB_RESERVED_WATCH "k/";
        const struct sb_bytes key = {own, sizeof(own) - 1};
        struct sb_watch *watch = NULL, *other = NULL;

        BEGIN();
        for (unsigned round = 0; round < 2; round++) {
                CHECK_EQ(sb_watch_open(bus, key, 0, SB_ANY_REV, &other), -EPERM);
                CHECK_EQ(sb_wait_until(bus, &key, 1, is_late, NULL, 0), -EPERM);
                CHECK(!other);
                if (!watch)
                        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
                CHECK_EQ(sb_set(bus, b("k/1"), b("v"), NULL, NULL), 0);
                CHECK(next_is(watch, "k/1", "v", round ? "v" : NULL) && nothing(watch));
        }
        CHECK(!sb_watch_close(watch));
        END();
}

/* What no ring can have is refused, and leaves none that others stand in. */
static void test_a_depth_beyond_all_memory_is_refused(void)
{
        static const uint32_t depths[] = {UINT32_MAX, UINT32_MAX / 4 + 1, 1717986918, 1717986919};
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX, .after = SB_ANY_REV};
        struct sb_watch *watch = NULL;

        BEGIN();
        for (unsigned i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
                how.depth = depths[i];
                CHECK_EQ(sb_watch_open_at(bus, b("k/"), &how, &watch), SB_E_FULL);
        }
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        CHECK_EQ(sb_set(bus, b("k/1"), b("v"), NULL, NULL), 0);
        CHECK(next_is(watch, "k/1", "v", NULL) && nothing(watch));
        CHECK(!sb_watch_close(watch));
        END();
}

/* No watch of a prefix keeps what was at the bus's own keys. */
static void test_a_scan_of_the_buss_own_keys_at_a_watchs_cut_is_not_guessed(void)
{
        static const struct sb_bytes marks = {SB_RESERVED_MARK, SB_MARK_PREFIX};
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_watch *watch = NULL;
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK_EQ(sb_mark(bus, b("m"), &how.cut), 0);
        CHECK_EQ(open_watch(bus, "", &watch), 0);
        how.cut = sb_watch_cut(watch);
        CHECK(nothing(watch));
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        CHECK_EQ(sb_scan_open_at(bus, marks, &how, &scan), SB_E_LAPPED);
        CHECK_EQ(sb_scan_open_at(bus, b("k/"), &how, &scan), 0);
        scan = sb_scan_close(scan);
        CHECK(!sb_watch_close(watch));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_the_cut_is_kept_until_the_first_next_and_no_longer_than_changes);
        RUN(test_a_wait_before_the_scan_leaves_the_cut_as_it_is);
        RUN(test_a_scan_at_a_cut_that_is_not_held_is_right_or_lapped);
        RUN(test_a_watch_after_a_cut_goes_on_where_another_ended);
        RUN(test_a_watch_after_a_cut_that_a_forgotten_key_had_is_lapped);
        RUN(test_1024_changes_are_kept_and_behind_more_it_begins_anew_once);
        RUN(test_a_watch_that_does_not_read_costs_no_more_than_its_ring);
        RUN(test_where_memory_is_short_writes_go_on_and_the_watch_says_so);
        RUN(test_guards_are_released_late_and_in_any_order);
        RUN(test_a_sleeping_watch_is_woken_and_a_wait_ends_as_any);
        RUN(test_a_forked_child_and_a_closed_bus_have_no_watch);
        RUN(test_misuse_is_told_and_begins_nothing);
        RUN(test_a_key_of_the_buss_own_is_watched_by_no_other_way);
        RUN(test_a_depth_beyond_all_memory_is_refused);
        RUN(test_a_scan_of_the_buss_own_keys_at_a_watchs_cut_is_not_guessed);
        return test_end();
}
