/*
 * Watches of keys, through the public interface: what comes and in which order, what is kept and
 * what is counted as lost, and that no watch costs what it should not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/watched.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

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
        CHECK(next_rev_is(watch, "1", NULL, 1));
        CHECK_EQ(sb_cas(bus, b("n"), 1, b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_cas(bus, b("n"), 1, b("9"), NULL, NULL), SB_E_CONFLICT);
        CHECK_EQ(sb_incr(bus, b("n"), 5, NULL, &sum, NULL), 0);
        CHECK(next_rev_is(watch, "2", "1", 2));
        CHECK(next_rev_is(watch, "7", "2", 3));
        CHECK_EQ(sb_append(bus, b("n"), b("0"), NULL, NULL), 0);
        CHECK(next_rev_is(watch, "70", "7", 4));
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
        CHECK(next_rev_is(watch, NULL, "71", 6));
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
        CHECK(next_rev_is(watch, "3", "2", 3));
        sb_watch_close(watch);
        /* After what is to come: it waits for that. */
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 4, &watch), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("4"), NULL, NULL), 0);
        CHECK(nothing(watch));
        CHECK_EQ(sb_set(bus, b("key"), b("5"), NULL, NULL), 0);
        CHECK(next_rev_is(watch, "5", "4", 5));
        sb_watch_close(watch);
        END();
}

/* What read the value, and then waits for what comes behind it, would never learn that it went. */
static void test_a_watch_after_a_revision_says_that_the_key_is_forgotten_since(void)
{
        struct sb_watch *value = NULL, *gone = NULL, *none = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("key"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 1, &value), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 2, &gone), 0);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 0, &none), 0);
        CHECK_EQ(sb_wait(bus, 0), 0);
        CHECK_EQ(sb_watch_next(value, 0, &guard), SB_E_LAPPED);
        CHECK(nothing(value) && nothing(gone) && nothing(none));
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        CHECK_EQ(sb_set(bus, b("key"), b("2"), NULL, NULL), 0);
        for (unsigned i = 0; i < 3; i++) {
                struct sb_watch *watch = i == 0 ? value : i == 1 ? gone : none;

                CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
                CHECK(is(guard.value, "2") && guard.missed == 0 && guard.rev > 2);
                sb_guard_release(&guard);
                CHECK(nothing(watch));
                CHECK(!sb_watch_close(watch));
        }
        END();
}

/* It was forgotten, and has come back before the watch is opened. */
static void test_a_watch_after_a_revision_of_an_earlier_life_says_that_the_key_has_another(void)
{
        for (uint64_t sets = 1; sets <= 3; sets++) {
                struct sb_watch *watches[8];
                struct sb_guard guard = {0};
                uint64_t first;

                BEGIN();
                for (unsigned i = 0; i < 6; i++)
                        CHECK_EQ(sb_set(bus, b("key"), b("old"), NULL, NULL), 0);
                CHECK_EQ(sb_delete(bus, b("key"), SB_ANY_REV, NULL, NULL), 0);
                world_prune(&world, bus);
                CHECK_EQ(sb_set(bus, b("key"), b("new"), NULL, &first), 0);
                CHECK(first > 7);
                for (uint64_t i = 1; i < sets; i++)
                        CHECK_EQ(sb_set(bus, b("key"), b("new"), NULL, NULL), 0);
                for (uint64_t rev = 0; rev < 8; rev++)
                        CHECK_EQ(sb_watch_open(bus, b("key"), 0, rev, &watches[rev]), 0);
                /* After 0, which knows of no life, nothing is said, but that one is gone that was
                 * replaced; after the delete where other keys have raised the number that the
                 * next life began at. */
                for (uint64_t rev = 0; rev < 8; rev++) {
                        bool says = sets > 1 || (rev && rev + 1 < first);

                        CHECK_EQ(sb_watch_next(watches[rev], 0, &guard), says ? SB_E_LAPPED : 0);
                        if (says)
                                CHECK_EQ(sb_watch_next(watches[rev], 0, &guard), 0);
                        CHECK(is(guard.value, "new") && guard.rev >= first);
                        CHECK(sets > 1 || guard.missed == 0);
                        sb_guard_release(&guard);
                        while (!sb_watch_next(watches[rev], 0, &guard))
                                sb_guard_release(&guard);
                        CHECK(nothing(watches[rev]) && !sb_watch_close(watches[rev]));
                }
                END();
        }
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
        CHECK(next_rev_is(first, "1", NULL, 1));
        CHECK(next_rev_is(first, "2", "1", 2));
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
        CHECK(next_rev_is(first, "3000", "2000", 1002));
        CHECK(nothing(first));
        CHECK_EQ(sb_watch_dropped(first), 984 + 501);
        CHECK_EQ(sb_watch_dropped(plain), 0);
        /* The other one has not read. */
        CHECK_EQ(sb_watch_dropped(second), 1503 - 16);
        CHECK(next_rev_is(second, "1", NULL, 1));
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

static int is_true(void *argument, const struct sb_guard *guards, size_t count)
{
        (void)argument, (void)guards, (void)count;
        return 1;
}

/* Half of what a full bus has is deleted, and its memory lies in blocks of another size. */
static void test_opening_a_watch_makes_room_as_a_write_does(void)
{
        static char value[4000];
        struct sb_watch *watch = NULL;
        struct sb_bytes bytes = {value, sizeof(value)}, absent = b("absent");
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
        CHECK_EQ(sb_wait_until(bus, &absent, 1, is_true, NULL, SB_FOREVER), SB_E_FULL);
        for (unsigned i = 0; i + 1 < count; i += 2) {
                snprintf(key, sizeof(key), "live/%u", i);
                CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK_EQ(sb_watch_open(bus, b("fr"), SB_PREFIX, SB_ANY_REV, &watch), 0);
        sb_watch_close(watch);
        CHECK_EQ(sb_wait_until(bus, &absent, 1, is_true, NULL, SB_FOREVER), 1);
        CHECK_EQ(sb_watch_open_at(bus, b("fresh"),
                         &(struct sb_watch_options){.size = sizeof(struct sb_watch_options),
                                 .depth = 5000,
                                 .after = SB_ANY_REV},
                         &watch),
                0);
        sb_watch_close(watch);
        END();
}

/* A watcher that is alone with the writers of a counter sees each value, or is told how many not.
 */
#define COUNTS 3000u
static struct sb_word64 come_to; /* the watcher: to which revision */

/* Half of the time writers wait for the watcher, or they may have ended before it looks. */
static void *count_up(void *argument)
{
        struct sb_bus *own = argument;
        uint64_t end = now_ns() + 20000 * MS;
        int64_t sum;

        for (unsigned i = 0; i < COUNTS; i++) {
                if (sb_incr(own, b("counter"), 1, NULL, &sum, NULL))
                        return own;
                while (sum % 400 < 200 && (uint64_t)sum > sb_load_relaxed(&come_to) + 32) {
                        if (now_ns() > end)
                                return own;
                        sched_yield();
                }
        }
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
                sb_store_relaxed(&come_to, last);
                missed += change.missed;
                given++;
                sb_guard_release(&change);
        }
        CHECK(given > COUNTS / 2);
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
        CHECK(next_rev_is(watch, "v", NULL, 1));
        sb_watch_close(watch);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_watch_gives_every_change_once_whatever_made_it);
        RUN(test_a_watch_after_what_was_read_misses_nothing_in_between);
        RUN(test_a_watch_after_a_revision_says_that_the_key_is_forgotten_since);
        RUN(test_a_watch_after_a_revision_of_an_earlier_life_says_that_the_key_has_another);
        RUN(test_a_watch_has_the_depth_that_it_wants);
        RUN(test_a_watch_that_drops_keeps_the_first_that_were_not_read);
        RUN(test_how_a_watch_is_opened_is_checked_first);
        RUN(test_64_changes_are_kept_and_what_is_lost_is_counted);
        RUN(test_a_guard_of_a_change_holds_both_values);
        RUN(test_opening_a_watch_makes_room_as_a_write_does);
        RUN(test_beside_writers_every_change_is_given_or_counted);
        RUN(test_a_forked_child_has_no_watch);
        return test_end();
}
