/*
 * Ways to the past: reads and scans at old cuts, all versions of a key, undo. What is there to be
 * read, rules say (api-rules.c).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/memory/guard.h"
#include "tests/api/past.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"
#include "tests/unit/copy.h"

static const struct sb_bytes all = {NULL, 0};

static void test_a_marked_cut_can_be_read_until_the_mark_is_dropped(void)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};
        uint64_t cut = 0;

        BEGIN();
        CHECK(!put("a", "1") && !put("gone", "1") && !put("same", "1"));
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        for (int i = 0; i < 10; i++)
                CHECK(!put("a", "2"));
        CHECK_EQ(sb_delete(bus, b("gone"), SB_ANY_REV, NULL, NULL), 0);
        CHECK(!put("new", "2") && !put("new", "3"));
        world_prune(&world, bus);
        AT("a", cut, "1");
        AT("gone", cut, "1");
        AT("same", cut, "1");
        AT("new", cut, "-");
        AT("never", cut, "-");
        how.cut = cut;
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), 0);
        CHECK_EQ(sb_scan_cut(scan), cut);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 1 && guard.value.len == 1 && *(const char *)guard.value.data == '1');
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 4 && memcmp(guard.key.data, "gone", 4) == 0);
        sb_guard_release(&guard);
        /* From here on the scan keeps the cut. */
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 4 && memcmp(guard.key.data, "same", 4) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        scan = sb_scan_close(scan);
        world_prune(&world, bus);
        AT("a", cut, "?2");
        AT("never", cut, "?");
        AT("same", cut, "1"); /* known only because nothing happened to this key */
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), SB_E_LAPPED);
        END();
}

static void test_a_scan_of_the_past_ends_when_its_rule_is_taken_away(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k1", "1") && !put("k2", "2") && !put("k3", "3"));
        how.cut = cut_now();
        CHECK(!put("k1", "now"));
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(keep("else", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
        END();
}

/* A process that is stopped for an hour once it has looked at the time so often. */
static unsigned looks_left;
static uint64_t stopped_now_ns(void *context)
{
        looks_left -= looks_left > 0;
        return sb_os_linux.now_ns(context) + (looks_left > 0 ? 0 : UINT64_C(3600000000000));
}

/* A batch that comes to a key of which too little is left, and only then to the end of its rule,
 * has nothing to take back there. */
static void test_a_batch_of_the_past_that_outlasts_its_rule_ends_at_the_last_whole_key(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guards[3], untouched;
        const struct sb_os *before;
        struct sb_os stopped = sb_os_linux;
        size_t count = 0;

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_SPAN, UINT64_C(60000000000)), 0);
        CHECK_EQ(keep("k2", 0, SB_KEEP_LAST, 2), 0);
        CHECK(!put("k1", "then") && !put("k2", "then") && !put("k3", "then"));
        how.cut = cut_now();
        CHECK(!put("k1", "now"));
        for (int i = 0; i < 4; i++)
                CHECK(!put("k2", "now") && cut_now());
        world_tick(&world);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        memset(guards, 0x5a, sizeof(guards));
        memset(&untouched, 0x5a, sizeof(untouched));
        stopped.now_ns = stopped_now_ns;
        looks_left = 2;
        before = bus->handle.segment.os;
        bus->handle.segment.os = &stopped;
        CHECK_EQ(sb_scan_next_many(scan, guards, 3, &count), 0);
        CHECK_EQ(count, 1);
        CHECK(memcmp(guards[0].key.data, "k1", 2) == 0 && guards[0].cut <= how.cut);
        CHECK(memcmp(&guards[1], &untouched, sizeof(untouched)) == 0);
        sb_guard_release(&guards[0]);
        CHECK_EQ(sb_scan_next(scan, &guards[0]), SB_E_LAPPED);
        bus->handle.segment.os = before;
        CHECK_EQ(sb_scan_next(scan, &guards[0]), SB_E_LAPPED);
        scan = sb_scan_close(scan);
        for (uint32_t i = 0; i < bus->guard_count; i++)
                CHECK_EQ(sb_guard_read(&bus->handle.segment, bus->handle.record, i), 0);
        END();
}

static void test_a_scan_of_the_past_says_whether_the_oldest_version_left_is_a_delete(void)
{
        static const enum sb_kind kinds[] = {SB_VALUE, SB_DELETED};
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(keep("k1", 0, SB_KEEP_LAST, 1), 0);
        CHECK_EQ(keep("k2", 0, SB_KEEP_LAST, 1), 0);
        CHECK(!put("k1", "then") && !put("k2", "then"));
        how.cut = cut_now();
        CHECK(!put("k1", "now") && cut_now() && !put("k1", "now"));
        CHECK(!put("k2", "now") && cut_now());
        CHECK_EQ(sb_delete(bus, b("k2"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
                CHECK(guard.key.len == 2 && ((const char *)guard.key.data)[1] == (char)('1' + i));
                CHECK_EQ(guard.kind, kinds[i]);
                sb_guard_release(&guard);
        }
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        END();
}

static void test_a_scan_of_the_past_shows_what_rules_kept(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t cut;
        unsigned count = 0;
        char key[16];

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(keep("k55", 0, SB_KEEP_LAST, 2), 0);
        for (unsigned i = 10; i < 60; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK(!put(key, "then"));
        }
        cut = how.cut = cut_now();
        for (unsigned i = 0; i < 70; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                if (i % 3 == 0 && i >= 10 && i < 60)
                        CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
                else
                        CHECK(!put(key, "now"));
                cut_now();
        }
        CHECK(!put("k55", "now") && !put("k55", "now"));
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), SB_E_LAPPED);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        for (int r; (r = sb_scan_next(scan, &guard)) != SB_E_NOT_FOUND; count++) {
                if (guard.key.len == 3 && memcmp(guard.key.data, "k55", 3) == 0) {
                        CHECK_EQ(r, SB_E_LAPPED);
                        CHECK(guard.cut > cut);
                } else {
                        CHECK_EQ(r, 0);
                        CHECK(guard.cut <= cut && guard.value.len == 4);
                }
                sb_guard_release(&guard);
        }
        CHECK_EQ(count, 50);
        scan = sb_scan_close(scan);
        how.flags = SB_REVERSE;
        how.limit = 2;
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(memcmp(guard.key.data, "k59", 3) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(memcmp(guard.key.data, "k58", 3) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        scan = sb_scan_close(scan);
        how.cut = UINT64_MAX - 1;
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), -EINVAL);
        END();
}

/* The processor's time of this thread. */
static uint64_t cpu_now_ns(void)
{
        struct timespec now = {0};

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Goes through the keys with "k". Return: the time that it took. */
static uint64_t time_scan(const struct sb_scan_options *how, uint32_t *ret_count)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t began = cpu_now_ns();
        int r = sb_scan_open_at(bus, b("k"), how, &scan);

        for (*ret_count = 0; r == 0; *ret_count += r == 0) {
                r = sb_scan_next(scan, &guard);
                sb_guard_release(&guard);
        }
        return cpu_now_ns() - began;
}

/* It does not look at one many times, nor at keys behind its own. */
static void test_a_scan_of_the_past_goes_once_over_the_keys_that_came_later(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        uint64_t now_ns, past_ns;
        uint32_t count;
        char key[16];

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k", "then"));
        how.cut = cut_now();
        for (uint32_t i = 0; i < 2000; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK(!put(key, "now"));
        }
        for (uint32_t i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "l%u", i);
                CHECK(!put(key, "now"));
        }
        now_ns = time_scan(NULL, &count);
        CHECK_EQ(count, 2001);
        for (how.limit = 0; how.limit < 4; how.limit++) {
                past_ns = time_scan(&how, &count);
                CHECK_EQ(count, 1);
                /* At one look for each, about as long; with few nodes at a time some five times. */
                CHECK(past_ns < 20 * now_ns);
        }
        END();
}

static void test_a_long_history_comes_whole_and_in_both_orders(void)
{
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0}, held[3] = {0};
        uint64_t time_ns = 0, last_ns = UINT64_MAX;

        BEGIN();
        CHECK_EQ(keep("k", 0, SB_KEEP_ALL, 0), 0);
        for (unsigned i = 1; i <= 1000; i++) {
                CHECK(!put("k", "v"));
                if (i % 100 == 0)
                        world_tick(&world);
        }
        world_prune(&world, bus);
        for (uint32_t flags = 0; flags <= SB_REVERSE; flags += SB_REVERSE) {
                CHECK_EQ(sb_history_open(bus, b("k"), flags, &walk), 0);
                for (uint64_t i = 1; i <= 1000; i++) {
                        CHECK_EQ(sb_history_next(walk, &guard, &time_ns), 0);
                        CHECK_EQ(guard.rev, flags ? i : 1001 - i);
                        CHECK_EQ(guard.missed, 0);
                        if (!flags) {
                                CHECK(time_ns <= last_ns);
                                last_ns = time_ns;
                        }
                        sb_guard_release(&guard);
                }
                CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_NOT_FOUND);
                walk = sb_history_close(walk);
        }
        /* Guards outlive the walk; a walk that is closed early releases the rest. */
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        for (int i = 0; i < 3; i++)
                CHECK_EQ(sb_history_next(walk, &held[i], NULL), 0);
        walk = sb_history_close(walk);
        CHECK_EQ(keep("k", 0, SB_KEEP_NEWEST, 0), 0);
        world_prune(&world, bus);
        for (int i = 0; i < 3; i++) {
                CHECK(held[i].rev == 1000 - (uint64_t)i &&
                        *(const char *)held[i].value.data == 'v');
                sb_guard_release(&held[i]);
        }
        END();
}

/* A mover was stopped at each version of a key (shm/upkeep/move.h): so a batch of a walk ends
 * between a copy and its original, too. */
static void test_a_version_that_is_there_twice_is_listed_once(void)
{
        struct sb_guard guard = {0};

        for (unsigned versions = 1; versions <= 100; versions += versions % 32 == 31 ? 2 : 31) {
                BEGIN();
                CHECK_EQ(keep("k", 0, SB_KEEP_ALL, 0), 0);
                for (unsigned i = 1; i <= versions; i++)
                        CHECK(!put("k", i % 2 ? "odd" : "even"));
                for (int round = 0; round < 3; round++) {
                        /* Once more, above copies; then the originals are taken out. */
                        if (round < 2)
                                CHECK(copy_above_all(&bus->handle, "k", 1) >= versions);
                        else
                                world_prune(&world, bus);
                        CHECK(world_sound(&world, bus));
                        for (uint32_t flags = 0; flags <= SB_REVERSE; flags += SB_REVERSE) {
                                sb_auto(sb_history_closep) struct sb_history *walk = NULL;

                                CHECK_EQ(sb_history_open(bus, b("k"), flags, &walk), 0);
                                for (uint64_t i = 1; i <= versions; i++) {
                                        CHECK_EQ(sb_history_next(walk, &guard, NULL), 0);
                                        CHECK_EQ(guard.rev, flags ? i : versions + 1 - i);
                                        CHECK_EQ(guard.missed, 0);
                                        CHECK_EQ(guard.value.len, guard.rev % 2 ? 3 : 4);
                                        sb_guard_release(&guard);
                                }
                                CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_NOT_FOUND);
                        }
                }
                END();
        }
}

/* From the newest of 64 that a rule keeps: half of them are given, and then so many more are
 * written. Some of the others go, or all with the one at which the walk stands. */
static void walk_beside_a_pruner(unsigned more, unsigned given)
{
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        unsigned count = 0;
        int r;

        BEGIN();
        CHECK_EQ(keep("k", 0, SB_KEEP_LAST, 64), 0);
        for (unsigned i = 0; i < 64; i++)
                CHECK(!put("k", "v"));
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        while ((r = sb_history_next(walk, &guard, NULL)) == 0) {
                CHECK_EQ(guard.rev, 64 - count);
                sb_guard_release(&guard);
                if (++count != 32)
                        continue;
                for (unsigned i = 0; i < more; i++)
                        CHECK(!put("k", "v"));
                world_prune(&world, bus);
        }
        CHECK_EQ(r, SB_E_LAPPED);
        CHECK_EQ(count, given);
        END();
}

static void test_a_walk_goes_on_while_what_it_stands_on_is_pruned(void)
{
        walk_beside_a_pruner(16, 48);
        walk_beside_a_pruner(48, 32);
}

static void test_restore_undoes_what_came_after_a_cut(void)
{
        uint64_t cut = 0, rev = 0;

        BEGIN();
        CHECK(!put("a/changed", "1") && !put("a/gone", "1") && !put("a/same", "1") &&
                !put("b", "1"));
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        CHECK(!put("a/changed", "2") && !put("a/new", "2") && !put("b", "2") && !put("b/x", "2"));
        CHECK_EQ(sb_delete(bus, b("a/gone"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_restore(bus, b("a/"), SB_PREFIX, cut, NULL), 0);
        CHECK(has(bus, "a/changed", "1") && has(bus, "a/gone", "1") && has(bus, "a/same", "1") &&
                !has(bus, "a/new", "2") && has(bus, "b", "2"));
        /* A key that was the same was not written; the others have new revisions. */
        CHECK_EQ(sb_cas(bus, b("a/same"), 1, b("1"), NULL, &rev), 0);
        CHECK_EQ(sb_cas(bus, b("a/changed"), 3, b("3"), NULL, &rev), 0);
        CHECK_EQ(sb_restore(bus, b("b"), 0, cut, NULL), 0);
        CHECK(has(bus, "b", "1") && has(bus, "b/x", "2"));
        CHECK_EQ(sb_restore(bus, b("b/x"), 0, cut, NULL), 0);
        CHECK(!has(bus, "b/x", "2"));
        CHECK_EQ(sb_restore(bus, all, SB_PREFIX, cut, NULL), 0);
        CHECK(has(bus, "a/changed", "1"));
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_restore(bus, all, SB_PREFIX, cut, NULL), SB_E_LAPPED);
        CHECK_EQ(sb_restore(bus, b("absent"), 0, cut, NULL), SB_E_LAPPED);
        CHECK(has(bus, "a/changed", "1"));
        CHECK(!put("b", "6"));
        world_prune(&world, bus);
        CHECK_EQ(sb_restore(bus, b("b"), 0, cut, NULL), SB_E_LAPPED);
        CHECK(has(bus, "b", "6"));
        END();
}

static void test_misuse_has_a_name(void)
{
        const struct sb_rule good = {.size = sizeof(good), .kind = SB_KEEP_ALL};
        struct sb_rule bad = good;
        struct sb_scan_options how = {.size = 1};
        struct sb_history *walk = NULL;
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_get_at(bus, b("k"), 0, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, b("k"), UINT64_MAX, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(NULL, b("k"), 2, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, all, 2, &guard), -EINVAL);
        CHECK_EQ(sb_keep(bus, all, 0, &good), -EINVAL);
        CHECK_EQ(sb_keep(bus, b("k"), 8, &good), -EINVAL);
        CHECK_EQ(sb_keep(bus, b("k"), 0, NULL), -EINVAL);
        bad.value = 1;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        bad.kind = SB_KEEP_LAST;
        bad.value = 0;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        bad.kind = 9;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        CHECK_EQ(sb_kept(bus, b("k"), 0, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, b("k"), 1, &walk), -EINVAL);
        CHECK_EQ(sb_history_next(NULL, &guard, NULL), -EINVAL);
        CHECK(!sb_history_close(NULL));
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), -EINVAL);
        CHECK_EQ(sb_restore(bus, all, 0, 2, NULL), -EINVAL);
        CHECK_EQ(sb_restore(NULL, b("k"), 0, 2, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        CHECK_EQ(sb_history_next(walk, NULL, NULL), -EINVAL);
        bus = sb_close(bus);
        CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_DETACHED);
        CHECK(!sb_history_close(walk));
        bus = world_bus(&world);
        CHECK(bus);
        END();
}

#define WRITES_A_ROUND 500u
static struct sb_word32 writer_may, writer_stops, writer_ended, written;
static bool write_once(struct sb_bus *own, unsigned i)
{
        char value[24];

        snprintf(value, sizeof(value), "%u", i);
        return sb_set(own, b("pair/a"), b(value), NULL, NULL) == 0 &&
               sb_set(own, b("pair/b"), b(value), NULL, NULL) == 0 &&
               (i % 64 || sb_delete(own, b("pair/a"), SB_ANY_REV, NULL, NULL) == 0);
}

/* So many writes for each round of the reader, or what the rule keeps would fill the bus. Return:
 * NULL; @argument: a write failed. */
static void *write_on(void *argument)
{
        unsigned i = 0;
        bool well = true;

        while (well && !sb_load_relaxed(&writer_stops))
                if (i < sb_load_relaxed(&writer_may)) {
                        well = write_once(argument, i++);
                        sb_store_relaxed(&written, i);
                } else {
                        sched_yield();
                }
        sb_store_relaxed(&writer_ended, 1);
        return well ? NULL : argument;
}

/* The writer goes on; return when it has written, or has ended. */
static void let_write(void)
{
        uint32_t before = sb_load_relaxed(&written);

        sb_store_relaxed(&writer_may, sb_load_relaxed(&writer_may) + WRITES_A_ROUND);
        while (sb_load_relaxed(&written) == before && !sb_load_relaxed(&writer_ended))
                sched_yield();
}

static void test_the_past_reads_the_same_while_a_writer_goes_on(void)
{
        struct sb_bus *writers;
        pthread_t thread;
        char first[2][64], again[64], last[64] = "";
        unsigned read = 0, changes = 0;
        void *failed;

        BEGIN();
        writers = world_bus(&world);
        CHECK(writers);
        CHECK_EQ(keep("pair/", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        if (!world.remote)
                sb_store_release(&bus->handle.segment.super->history_limit, 2 * MIB);
        CHECK_EQ(pthread_create(&thread, NULL, write_on, writers), 0);
        for (unsigned i = 0; i < 300; i++) {
                uint64_t cut;

                let_write();
                cut = cut_now();
                strcpy(first[0], at("pair/a", cut));
                strcpy(first[1], at("pair/b", cut));
                changes += strcmp(first[1], last) != 0;
                strcpy(last, first[1]);
                for (unsigned k = 0; k < 8; k++) {
                        strcpy(again, at(k % 2 ? "pair/b" : "pair/a", cut));
                        /* A read gives the same value or SB_E_LAPPED, never another value. */
                        CHECK(strcmp(again, first[k % 2]) == 0 || again[0] == '?' ||
                                first[k % 2][0] == '?');
                        read += again[0] != '?';
                }
                if (i % 16 == 0)
                        world_prune(&world, bus);
        }
        sb_store_relaxed(&writer_stops, 1);
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        TEST_NOTE("%u read, %u changes, %u written", read, changes, sb_load_relaxed(&written));
        CHECK(read > 1000 && changes > 150);
        CHECK(!sb_close(writers));
        END();
}

static void test_a_cut_of_a_write_can_be_read_at_once_by_any_process(void)
{
        const struct sb_rule keep_all = {.size = sizeof(keep_all), .kind = SB_KEEP_ALL};
        uint64_t cut = 0, later = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_scan_options past = {.size = sizeof(past)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_keep(bus, b("k"), SB_PREFIX, &keep_all), 0);
        for (unsigned round = 0; round < 12; round++) {
                struct sb_bus *reader = round % 2 ? other : bus;

                CHECK_EQ(sb_set(bus, b("k1"), b("then"), &how, NULL), 0);
                past.cut = cut;
                if (round % 3 == 0) {
                        CHECK_EQ(sb_get_at(reader, b("k1"), cut, &guard), 0);
                        CHECK(guard.cut == cut && guard.value.len == 4);
                        sb_guard_release(&guard);
                } else if (round % 3 == 1) {
                        CHECK_EQ(sb_scan_open_at(reader, b("k"), &past, &scan), 0);
                        CHECK_EQ(sb_scan_next(scan, &guard), 0);
                        CHECK(guard.cut == cut && sb_scan_cut(scan) == cut);
                        sb_guard_release(&guard);
                        scan = sb_scan_close(scan);
                } else {
                        CHECK_EQ(sb_restore(reader, b("k"), SB_PREFIX, cut, NULL), 0);
                }
                /* The cut was taken: what comes now is not in it. */
                how.ret_cut = &later;
                CHECK_EQ(sb_set(other, b("k1"), b("later"), &how, NULL), 0);
                how.ret_cut = &cut;
                CHECK(later > cut);
                CHECK_EQ(sb_get_at(bus, b("k1"), cut, &guard), 0);
                CHECK(guard.value.len == 4);
                sb_guard_release(&guard);
                /* One that is above any that was given is none. */
                CHECK_EQ(sb_get_at(bus, b("k1"), later + 1000, &guard), -EINVAL);
        }
        CHECK(!sb_close(other));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_marked_cut_can_be_read_until_the_mark_is_dropped);
        RUN(test_a_scan_of_the_past_ends_when_its_rule_is_taken_away);
        RUN(test_a_batch_of_the_past_that_outlasts_its_rule_ends_at_the_last_whole_key);
        RUN(test_a_scan_of_the_past_says_whether_the_oldest_version_left_is_a_delete);
        RUN(test_a_scan_of_the_past_shows_what_rules_kept);
        RUN(test_a_scan_of_the_past_goes_once_over_the_keys_that_came_later);
        RUN(test_a_long_history_comes_whole_and_in_both_orders);
        RUN(test_a_version_that_is_there_twice_is_listed_once);
        RUN(test_a_walk_goes_on_while_what_it_stands_on_is_pruned);
        RUN(test_a_cut_of_a_write_can_be_read_at_once_by_any_process);
        RUN(test_restore_undoes_what_came_after_a_cut);
        RUN(test_the_past_reads_the_same_while_a_writer_goes_on);
        RUN(test_misuse_has_a_name);
        return test_end();
}
