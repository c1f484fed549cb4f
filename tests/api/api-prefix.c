/*
 * Watches of all keys with a prefix, through the public interface: what comes and in which order,
 * whichever watches stand beside each other, and that a watch and a scan at its cut fit together.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/layout/reserved.h"
#include "tests/api/prefix.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

static const struct sb_bytes none = {"", 0};

/* ---- what comes ---- */

static void test_every_change_of_its_keys_comes_once_whatever_made_it(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        struct sb_txn *txn = NULL;
        uint64_t count, cut, rev;
        uint32_t number, generation;
        int64_t sum;

        BEGIN();
        CHECK_EQ(sb_client(bus, &number, &generation), 0);
        CHECK_EQ(sb_set(bus, b("n/0"), b("before"), NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
        CHECK_EQ(open_watch(bus, "n/", &watch), 0);
        CHECK(nothing(watch));
        CHECK_EQ(sb_set(bus, b("n/1"), b("1"), NULL, &rev), 0);
        CHECK_EQ(sb_set(bus, b("m/1"), b("not this one"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("n"), b("nor this"), NULL, NULL), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
        CHECK(is(change.key, "n/1") && is(change.value, "1") && is(change.old_value, NULL));
        CHECK(change.rev == rev && change.writer == number && change.txn == 0);
        CHECK(change.cut > sb_watch_cut(watch) && change.missed == 0 && change.kind == SB_VALUE);
        sb_guard_release(&change);
        CHECK_EQ(sb_cas(bus, b("n/1"), rev, b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_cas(bus, b("n/1"), rev, b("9"), NULL, NULL), SB_E_CONFLICT);
        CHECK(next_is(watch, "n/1", "2", "1"));
        CHECK_EQ(sb_incr(bus, b("n/1"), 5, NULL, &sum, NULL), 0);
        CHECK(next_is(watch, "n/1", "7", "2"));
        CHECK_EQ(sb_append(bus, b("n/1"), b("0"), NULL, NULL), 0);
        /* A cut between them, so that their order is known. */
        CHECK(take_cut());
        CHECK_EQ(sb_set(bus, b("n/0"), b("x"), NULL, NULL), 0);
        CHECK(next_is(watch, "n/1", "70", "7"));
        CHECK(next_is(watch, "n/0", "x", "before"));
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("n/1"), b("never")), 0);
        CHECK(nothing(watch));
        txn = sb_txn_end(txn);
        CHECK(nothing(watch));
        CHECK_EQ(sb_delete(bus, b("n/1"), SB_ANY_REV, NULL, NULL), 0);
        CHECK(next_is(watch, "n/1", NULL, "70"));
        CHECK_EQ(sb_delete(bus, b("n/1"), SB_ANY_REV, NULL, NULL), SB_E_NOT_FOUND);
        CHECK_EQ(sb_set(bus, b("n/1"), b("again"), NULL, NULL), 0);
        CHECK(next_is(watch, "n/1", "again", NULL));
        CHECK(nothing(watch));
        /* Many at once are one transaction. */
        CHECK_EQ(sb_delete_range(bus, NULL, b("n/"), (struct sb_bytes){0}, SB_PREFIX, NULL, &count),
                0);
        CHECK_EQ(count, 2);
        {
                struct seen seen[3];

                CHECK_EQ(all_of(watch, seen, 3), 2);
                CHECK(seen[0].txn && seen[0].txn == seen[1].txn && seen[0].kind == SB_DELETED &&
                        seen[1].kind == SB_DELETED && strcmp(seen[0].key, seen[1].key) != 0);
        }
        CHECK_EQ(sb_restore(bus, b("n/"), SB_PREFIX, cut, NULL), 0);
        CHECK(next_is(watch, "n/0", "before", NULL));
        CHECK(nothing(watch));
        CHECK(!sb_watch_close(watch));
        CHECK_EQ(sb_mark_drop(bus, b("mark")), 0);
        END();
}

/* Keys of all lengths below prefixes of all lengths; values from none to large. */
static void test_keys_prefixes_and_values_of_any_length(void)
{
        static const size_t lengths[] = {0, 1, 31, 32, 33, 63, 64, 65, 511, 1018};
        enum { MANY = sizeof(lengths) / sizeof(*lengths) };
        static const size_t values[] = {0, 1, 100, 5000, 300000};
        struct sb_watch *watches[MANY], *other;
        struct sb_guard change = {0};
        static char key[2048], value[300000];
        size_t longest, key_max;

        BEGIN();
        memset(key, 'k', sizeof(key));
        memset(value, 'v', sizeof(value));
        key_max = bus->handle.segment.key_len_max;
        longest = key_max - SB_WATCH_PREFIX;
        for (unsigned i = 0; i < MANY; i++) {
                size_t len = lengths[i] < longest ? lengths[i] : longest;

                CHECK_EQ(sb_watch_open(bus, (struct sb_bytes){key, len}, SB_PREFIX, SB_ANY_REV,
                                 &watches[i]),
                        0);
        }
        CHECK_EQ(sb_watch_open(
                         bus, (struct sb_bytes){key, longest + 1}, SB_PREFIX, SB_ANY_REV, &other),
                -ENAMETOOLONG);
        CHECK_EQ(open_watch(bus, "kkkkx", &other), 0);
        for (size_t len = 1; len <= key_max; len += len < 70 ? 1 : 53) {
                size_t value_len = values[len % 5];

                CHECK_EQ(sb_set(bus, (struct sb_bytes){key, len},
                                 (struct sb_bytes){value, value_len}, NULL, NULL),
                        0);
                for (unsigned i = 0; i < MANY; i++) {
                        int r = sb_watch_next(watches[i], 0, &change);

                        CHECK_EQ(r, (lengths[i] < longest ? lengths[i] : longest) <= len
                                            ? 0
                                            : SB_E_TIMED_OUT);
                        CHECK(r || (change.key.len == len && change.value.len == value_len &&
                                           memcmp(change.key.data, key, len) == 0 &&
                                           memcmp(change.value.data, value, value_len) == 0));
                        sb_guard_release(&change);
                }
        }
        CHECK_EQ(sb_set(bus, (struct sb_bytes){key, key_max}, none, NULL, NULL), 0);
        for (unsigned i = 0; i < MANY; i++) {
                CHECK_EQ(sb_watch_next(watches[i], 0, &change), 0);
                CHECK(change.key.len == key_max && change.value.len == 0);
                sb_guard_release(&change);
        }
        /* What differs in the last byte of the prefix alone. */
        key[longest - 1] = 'x';
        CHECK_EQ(sb_set(bus, (struct sb_bytes){key, longest}, none, NULL, NULL), 0);
        CHECK(nothing(watches[MANY - 1]) && nothing(other));
        CHECK_EQ(sb_watch_next(watches[MANY - 2], 0, &change), 0);
        sb_guard_release(&change);
        for (unsigned i = 0; i < MANY; i++)
                CHECK(!sb_watch_close(watches[i]));
        CHECK(!sb_watch_close(other));
        END();
}

static void test_the_empty_prefix_has_all_keys_and_none_of_the_buss_own(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 3};
        struct sb_watch *watch, *key, *other;
        static const struct sb_bytes own = {"\0sb\0", 4}, below = {"\0sb", 3};
        uint64_t cut;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, (struct sb_bytes){NULL, 0}, SB_PREFIX, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sb_watch_open(bus, own, SB_PREFIX, SB_ANY_REV, &other), 0);
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
        CHECK_EQ(sb_keep(bus, b("kept/"), SB_PREFIX, &rule), 0);
        CHECK_EQ(sb_watch_open(bus, b("absent"), 0, SB_ANY_REV, &key), 0);
        world_prune(&world, bus);
        CHECK(nothing(watch) && nothing(other));
        CHECK_EQ(sb_set(bus, b("kept/1"), b("v"), NULL, NULL), 0);
        CHECK(next_is(watch, "kept/1", "v", NULL));
        CHECK_EQ(sb_set(bus, below, b("a user's"), NULL, NULL), 0);
        CHECK_EQ(sb_mark_drop(bus, b("mark")), 0);
        key = sb_watch_close(key);
        CHECK(take_cut());
        CHECK_EQ(sb_set(bus, b("x"), b("v"), NULL, NULL), 0);
        {
                struct sb_guard change = {0};

                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                CHECK_EQ(change.key.len, below.len);
                sb_guard_release(&change);
        }
        CHECK(next_is(watch, "x", "v", NULL));
        world_prune(&world, bus);
        CHECK(nothing(watch) && nothing(other));
        CHECK(!sb_watch_close(watch) && !sb_watch_close(other));
        END();
}

static void test_a_key_that_was_forgotten_begins_again_and_nothing_is_missed(void)
{
        struct sb_watch *watch, *key;
        struct sb_guard change = {0};
        struct sb_admin_stat stat;
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(open_watch(bus, "n/", &watch), 0);
        for (unsigned i = 0; i < 5; i++) {
                CHECK_EQ(sb_set(bus, b("n/key"), b("v"), NULL, NULL), 0);
                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                CHECK(change.rev > rev && change.missed == 0 && is(change.value, "v"));
                rev = change.rev;
                sb_guard_release(&change);
                CHECK_EQ(sb_delete(bus, b("n/key"), SB_ANY_REV, NULL, NULL), 0);
                /* Not before the watch has it. */
                CHECK(take_cut());
                for (unsigned sweeps = 0; sweeps < (i == 0 ? 4u : 1u); sweeps++)
                        world_prune(&world, bus);
                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                CHECK(change.kind == SB_DELETED && change.rev == rev + 1 &&
                        is(change.old_value, "v"));
                sb_guard_release(&change);
                rev++;
                CHECK(nothing(watch));
        }
        /* Others fill the ring: then it is forgotten, and made again. */
        for (unsigned i = 0; i < 4 * KEPT; i++)
                CHECK_EQ(sb_set(bus, b("n/other"), b("v"), NULL, NULL), 0);
        world_prune(&world, bus);
        world_prune(&world, bus);
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK_EQ(stat.keys_deleted, 0);
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(nothing(watch));
        CHECK_EQ(sb_watch_open(bus, b("n/key"), 0, SB_ANY_REV, &key), 0);
        CHECK_EQ(sb_set(bus, b("n/key"), b("2"), NULL, NULL), 0);
        CHECK(next_is(watch, "n/key", "2", NULL));
        CHECK(next_is(key, "n/key", "2", NULL));
        CHECK(!sb_watch_close(watch) && !sb_watch_close(key));
        END();
}

/* ---- the order ---- */

/* Transactions that began before all of it commit between plain writes of keys of their own and of
 * others: all that has one stamp. */
static void test_what_has_one_cut_comes_in_an_order_that_keeps_keys_and_transactions(void)
{
        enum { KEYS = 40, TXNS = 10, ROUNDS = 20 };
        static struct seen seen[2000];
        struct sb_watch *watch;
        char key[16], value[16];
        unsigned seed = (unsigned)now_ns();
        int made = 0, count, one_cut = 0;

        TEST_NOTE("api-prefix: seed %u", seed);
        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
                struct sb_txn *txns[TXNS];
                bool done[TXNS] = {0};
                unsigned left = TXNS;

                for (unsigned i = 0; i < TXNS; i++) {
                        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txns[i]), 0);
                        for (unsigned k = 0; k < 4; k++) {
                                snprintf(key, sizeof(key), "k/%u", i + TXNS * k);
                                snprintf(value, sizeof(value), "%u", i);
                                CHECK_EQ(sb_txn_set(txns[i], b(key), b(value)), 0);
                        }
                }
                made = 0;
                while (left > 0) {
                        unsigned i = (unsigned)rand_r(&seed) % TXNS, k;

                        if (!done[i]) {
                                CHECK_EQ(sb_txn_commit(txns[i], NULL), 0);
                                sb_txn_end(txns[i]);
                                done[i] = true;
                                left--;
                                made += 4;
                        }
                        /* Plain ones behind the commits, of these keys, too. */
                        for (k = 0; k < 6; k++) {
                                unsigned n = (unsigned)rand_r(&seed) % KEYS;

                                if (!done[n % TXNS])
                                        continue;
                                snprintf(key, sizeof(key), "k/%u", n);
                                CHECK_EQ(sb_set(bus, b(key), b("plain"), NULL, NULL), 0);
                                made++;
                        }
                }
                if (made > (int)KEPT)
                        TEST_FAIL("%d changes", made);
                count = all_of(watch, seen, 2000);
                CHECK_EQ(count, made);
                if (order_breaks(seen, count))
                        TEST_FAIL("round %u: %s", round, order_breaks(seen, count));
                for (int i = 0; i < count; i += 4)
                        one_cut += seen[i].txn && seen[i].cut == seen[count - 1].cut;
                for (int i = 0; i < count; i++)
                        CHECK(!seen[i].txn == !strcmp(seen[i].value, "plain"));
        }
        CHECK(one_cut > 0);
        CHECK(!sb_watch_close(watch));
        END();
}

/* More plain writes than any list begins with, none of which a cut lies between. */
static void test_many_writes_without_a_cut_between_them_come_by_key_in_order(void)
{
        static struct seen seen[2000];
        struct sb_watch *watch;
        char key[16], value[16];
        uint64_t last[7] = {0};
        int count;

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned i = 0; i < 1000; i++) {
                snprintf(key, sizeof(key), "k/%u", i * i % 7);
                snprintf(value, sizeof(value), "%u", i);
                if (i % 11 == 10)
                        (void)!sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);
                else
                        CHECK_EQ(sb_set(bus, b(key), b(value), NULL, NULL), 0);
        }
        count = all_of(watch, seen, 2000);
        CHECK_EQ(count, 1000);
        CHECK(!order_breaks(seen, count));
        for (int i = 0; i < count; i++) {
                unsigned n = (unsigned)atoi(seen[i].key + 2);
                uint64_t number = strtoull(seen[i].value, NULL, 10);

                if (seen[i].kind == SB_DELETED)
                        continue;
                CHECK(number >= last[n]);
                last[n] = number;
        }
        CHECK(!sb_watch_close(watch));
        END();
}

/* As many keys as a ring keeps changes come whole; of more, all or none. */
static void test_a_transaction_of_many_keys_comes_whole_or_is_lapped(void)
{
        static const unsigned sizes[] = {1, 2, 64, 700, KEPT, KEPT + 200, 3 * KEPT};
        static struct seen seen[4 * KEPT];
        struct sb_watch *watch;
        struct sb_txn *txn;
        char key[16];

        BEGIN();
        CHECK_EQ(open_watch(bus, "k/", &watch), 0);
        for (unsigned i = 0; i < 7; i++) {
                int count;

                CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
                for (unsigned k = 0; k < sizes[i]; k++) {
                        snprintf(key, sizeof(key), "k/%u", k);
                        CHECK_EQ(sb_txn_set(txn, b(key), b("t")), 0);
                }
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                txn = sb_txn_end(txn);
                count = all_of(watch, seen, 4 * KEPT);
                CHECK(count == (int)sizes[i] || (count == -1 && sizes[i] > KEPT));
                for (int k = 0; k < count; k++)
                        CHECK(seen[k].txn == seen[0].txn && seen[k].txn);
                CHECK_EQ(sb_set(bus, b("k/plain"), b("v"), NULL, NULL), 0);
                CHECK(all_of(watch, seen, 4) == 1 && !seen[0].txn);
        }
        CHECK(!sb_watch_close(watch));
        END();
}

/* ---- beside each other ---- */

static void test_watches_of_one_prefix_and_nested_ones_each_have_all(void)
{
        enum { MANY = 20 };
        static const char *nested[] = {"", "a", "a/", "a/b", "a/b/", "a/b/c"};
        struct sb_watch *same[MANY], *in[6];

        BEGIN();
        for (unsigned i = 0; i < MANY; i++)
                CHECK_EQ(open_watch(bus, "a/b/", &same[i]), 0);
        for (unsigned i = 0; i < 6; i++)
                CHECK_EQ(open_watch(bus, nested[i], &in[i]), 0);
        for (unsigned round = 0; round < 3; round++) {
                CHECK_EQ(sb_set(bus, b("a/b/c"), b("1"), NULL, NULL), 0);
                CHECK_EQ(sb_set(bus, b("a/b"), b("2"), NULL, NULL), 0);
                CHECK_EQ(sb_delete(bus, b("a/b/c"), SB_ANY_REV, NULL, NULL), 0);
                CHECK_EQ(sb_delete(bus, b("a/b"), SB_ANY_REV, NULL, NULL), 0);
                for (unsigned i = round; i < MANY; i++)
                        CHECK(next_is(same[i], "a/b/c", "1", NULL) &&
                                next_is(same[i], "a/b/c", NULL, "1") && nothing(same[i]));
                for (unsigned i = 0; i < 4; i++) {
                        struct seen seen[8];

                        CHECK_EQ(all_of(in[i], seen, 8), 4);
                        CHECK(!order_breaks(seen, 4));
                }
                for (unsigned i = 4; i < 6; i++)
                        CHECK(next_is(in[i], "a/b/c", "1", NULL) &&
                                next_is(in[i], "a/b/c", NULL, "1") && nothing(in[i]));
                CHECK(!sb_watch_close(same[round]));
        }
        for (unsigned i = 3; i < MANY; i++)
                CHECK(!sb_watch_close(same[i]));
        for (unsigned i = 0; i < 6; i++)
                CHECK(!sb_watch_close(in[i]));
        END();
}

static void test_a_thousand_prefixes_in_several_clients(void)
{
        enum { MANY = 1000, CLIENTS = 4 };
        static struct sb_watch *watches[MANY];
        struct sb_bus *clients[CLIENTS];
        uint64_t before;
        char key[16];

        WORLD_BEGIN(64 * MIB);
        before = free_bytes();
        for (unsigned i = 0; i < CLIENTS; i++) {
                clients[i] = i ? world_bus(&world) : bus;
                CHECK(clients[i]);
        }
        for (unsigned i = 0; i < MANY; i++) {
                snprintf(key, sizeof(key), "p%u/", i);
                CHECK_EQ(open_watch(clients[i < MANY / 2 ? 0 : i % CLIENTS], key, &watches[i]), 0);
        }
        for (unsigned i = 0; i < MANY; i += 97) {
                struct sb_bus *own = clients[i < MANY / 2 ? 0 : i % CLIENTS];

                snprintf(key, sizeof(key), "p%u/key", i);
                CHECK_EQ(sb_set(bus, b(key), b("v"), NULL, NULL), 0);
                CHECK_EQ(sb_wait(own, SB_FOREVER), 0);
                CHECK(next_is(watches[i], key, "v", NULL));
                CHECK_EQ(sb_wait(own, 0), SB_E_TIMED_OUT);
        }
        for (unsigned i = 0; i < MANY; i++)
                CHECK(!sb_watch_close(watches[i]));
        for (unsigned i = 1; i < CLIENTS; i++)
                clients[i] = sb_close(clients[i]);
        for (unsigned i = 0; i < MANY; i += 97) {
                snprintf(key, sizeof(key), "p%u/key", i);
                CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK(comes_to_free(before - 2 * MIB));
        END();
}

/* ---- the watch and a scan at its cut ---- */

#define SHARED   24u
#define LATE_MAX 20000u
static bool writers_end;

static void *write_on(void *argument)
{
        struct sb_bus *own = argument;
        unsigned seed = (unsigned)now_ns();
        struct sb_txn *txn;
        char key[16];
        int r = 0;

        while (!__atomic_load_n(&writers_end, __ATOMIC_RELAXED) && !r) {
                snprintf(key, sizeof(key), "s/%u", (unsigned)rand_r(&seed) % SHARED);
                switch (rand_r(&seed) % 8) {
                case 0:
                        r = sb_delete(own, b(key), SB_ANY_REV, NULL, NULL);
                        r = r == SB_E_NOT_FOUND ? 0 : r;
                        break;
                case 1:
                        r = sb_txn_begin(own, SB_SNAPSHOT, &txn);
                        if (r)
                                break;
                        r = sb_txn_set(txn, b(key), b("t"));
                        r = r ? r : sb_txn_set(txn, b("s/0"), b("t"));
                        r = r ? r : sb_txn_commit(txn, NULL);
                        r = r == SB_E_CONFLICT || r == SB_E_LAPPED ? 0 : r;
                        sb_txn_end(txn);
                        break;
                default:
                        r = sb_set(own, b(key), b("v"), NULL, NULL);
                }
        }
        return (void *)(intptr_t)r;
}

/* What a follower of the keys below s/ knows: each key's revision, and whether it has a value. */
struct known {
        uint64_t rev[SHARED];
        bool value[SHARED];
};

static unsigned number_of(const struct sb_guard *guard)
{
        char text[8] = {0};

        memcpy(text, guard->key.data, guard->key.len < 7 ? guard->key.len : 7);
        return (unsigned)atoi(text + 2) % SHARED;
}

static bool scan_at(struct sb_watch *watch, struct known *ret)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = sb_watch_cut(watch)};
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        int r;

        if (sb_scan_open_at(bus, b("s/"), &how, &scan) != 0)
                return false;
        for (unsigned i = 0; i < SHARED; i++)
                ret->value[i] = false;
        while (!(r = sb_scan_next(scan, &guard))) {
                unsigned key = number_of(&guard);

                ret->rev[key] = guard.rev;
                ret->value[key] = true;
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        return r == SB_E_NOT_FOUND;
}

static void test_open_then_scan_at_its_cut_has_no_gap_and_nothing_twice(void)
{
        struct sb_bus *writers[2];
        pthread_t threads[2];
        void *result;
        uint64_t given = 0;
        unsigned lapped = 0;

        BEGIN();
        writers_end = false;
        for (unsigned i = 0; i < 2; i++) {
                writers[i] = world_bus(&world);
                CHECK(writers[i]);
                CHECK_EQ(pthread_create(&threads[i], NULL, write_on, writers[i]), 0);
        }
        for (unsigned round = 0; round < 30; round++) {
                struct known known = {0};
                struct sb_guard change = {0};
                struct sb_watch *watch;
                bool late = false;

                CHECK_EQ(open_watch(bus, "s/", &watch), 0);
                CHECK(scan_at(watch, &known));
                for (unsigned i = 0; i < 200 || late; i++) {
                        int r = sb_watch_next(watch, now_ns() + 20000 * MS, &change);
                        unsigned key;

                        CHECK(i < LATE_MAX);

                        if (r == SB_E_LAPPED) {
                                lapped++;
                                late = false;
                                CHECK(scan_at(watch, &known));
                                continue;
                        }
                        CHECK_EQ(r, 0);
                        key = number_of(&change);
                        /* A key without a value: its revision is not known. */
                        if (known.value[key])
                                CHECK(known.value[key] && change.rev == known.rev[key] + 1);
                        else
                                CHECK(change.kind == SB_VALUE && change.rev > known.rev[key]);
                        /* What changes replaced may go while they are given: then the ring has
                         * passed the watch, whose next reading says so. */
                        late |= known.value[key] && !change.old_value.data;
                        CHECK(known.value[key] || !change.old_value.data);
                        known.rev[key] = change.rev;
                        known.value[key] = change.kind == SB_VALUE;
                        given++;
                        sb_guard_release(&change);
                }
                CHECK(!sb_watch_close(watch));
        }
        __atomic_store_n(&writers_end, true, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQ(pthread_join(threads[i], &result), 0);
                CHECK(!result);
                writers[i] = sb_close(writers[i]);
        }
        TEST_NOTE("api-prefix: %llu changes behind scans; lapped %u times",
                (unsigned long long)given, lapped);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_every_change_of_its_keys_comes_once_whatever_made_it);
        RUN(test_keys_prefixes_and_values_of_any_length);
        RUN(test_the_empty_prefix_has_all_keys_and_none_of_the_buss_own);
        RUN(test_a_key_that_was_forgotten_begins_again_and_nothing_is_missed);
        RUN(test_what_has_one_cut_comes_in_an_order_that_keeps_keys_and_transactions);
        RUN(test_many_writes_without_a_cut_between_them_come_by_key_in_order);
        RUN(test_a_transaction_of_many_keys_comes_whole_or_is_lapped);
        RUN(test_watches_of_one_prefix_and_nested_ones_each_have_all);
        RUN(test_a_thousand_prefixes_in_several_clients);
        RUN(test_open_then_scan_at_its_cut_has_no_gap_and_nothing_twice);
        return test_end();
}
