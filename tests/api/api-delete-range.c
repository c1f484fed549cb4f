/* Deleting a range: the keys of a range go at one moment, and none that others write there is
 * missed. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "shm/base/word.h"
#include "tests/api/txns.h"

static uint64_t count;

static int clear(const char *from, const char *to)
{
        return sb_delete_range(bus, NULL, b(from), b(to), 0, NULL, &count);
}
static int clear_prefix(const char *prefix)
{
        return sb_delete_range(bus, NULL, b(prefix), none, SB_PREFIX, NULL, &count);
}

/* Whether these keys are there, and no others. */
static bool left(const char *expected)
{
        struct sb_scan *scan = NULL;
        bool right = sb_scan_open(bus, NULL, none, &scan) == 0 && gives(scan, false, expected);

        sb_scan_close(scan);
        return right;
}

static int give(const char *key)
{
        return put(key, key);
}

static void test_the_keys_of_a_range_go_and_no_others(void)
{
        BEGIN();
        CHECK(!give("a") && !give("b") && !give("b1") && !give("b2") && !give("c") && !give("d"));
        CHECK(clear("b1", "c") == 0 && count == 2);
        CHECK(left("a b c d "));
        CHECK(clear("b1", "c") == 0 && count == 0);
        CHECK(clear("c", "c") == 0 && count == 0);
        CHECK(clear("d", "a") == 0 && count == 0);
        CHECK(clear("", "") == 0 && count == 0);
        CHECK(left("a b c d "));
        CHECK(clear("", "b") == 0 && count == 1);
        CHECK(left("b c d "));
        CHECK(!give("bb") && !give("bc"));
        CHECK(clear_prefix("b") == 0 && count == 3);
        CHECK(clear_prefix("b") == 0 && count == 0);
        CHECK(left("c d "));
        CHECK_EQ(sb_delete_range(bus, NULL, none, none, SB_PREFIX, NULL, NULL), 0);
        CHECK(left(""));
        END();
}

static void test_revisions_go_on_behind_a_range_that_was_deleted(void)
{
        uint64_t before;

        BEGIN();
        CHECK(!give("a") && !give("a"));
        before = rev_of("a");
        CHECK(clear_prefix("a") == 0 && count == 1);
        CHECK(!give("a"));
        CHECK(rev_of("a") > before + 1);
        END();
}

static void test_the_buss_own_keys_stay_and_cannot_be_named(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 3};
        static const struct sb_bytes reserved = {"\0sb\0", 4}, below = {"\0sb", 3},
                                     above = {"\0sc", 3};
        struct sb_rule kept;
        uint64_t cut, found;

        BEGIN();
        CHECK(!give("a") && !give("b"));
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
        CHECK_EQ(sb_keep(bus, b("a"), 0, &rule), 0);
        CHECK_EQ(sb_delete_range(bus, NULL, reserved, above, 0, NULL, &count), -EPERM);
        CHECK_EQ(sb_delete_range(bus, NULL, reserved, none, SB_PREFIX, NULL, &count), -EPERM);
        CHECK(sb_delete_range(bus, NULL, below, above, 0, NULL, &count) == 0 && count == 0);
        CHECK(sb_delete_range(bus, NULL, below, none, SB_PREFIX, NULL, &count) == 0 && count == 0);
        CHECK(clear_prefix("") == 0 && count == 2);
        CHECK(sb_mark_find(bus, b("mark"), &found) == 0 && found == cut);
        CHECK_EQ(sb_kept(bus, b("a"), 0, &kept), 0);
        CHECK_EQ(sb_mark_drop(bus, b("mark")), 0);
        END();
}

static void test_a_key_as_long_as_a_key_can_be_goes_too(void)
{
        static char longest[4096];
        struct sb_bytes key = {longest, sizeof(longest)};

        BEGIN();
        memset(longest, 'k', sizeof(longest));
        while (key.len > 0 && sb_set(other, key, b("value"), NULL, NULL) == -ENAMETOOLONG)
                key.len--;
        CHECK(key.len >= 256 && key.len < sizeof(longest));
        CHECK_EQ(sb_set(other, (struct sb_bytes){longest, 1}, b("value"), NULL, NULL), 0);
        CHECK(clear_prefix("kk") == 0 && count == 1);
        CHECK(left("k "));
        CHECK(clear_prefix("") == 0 && count == 1);
        END();
}

/* ---- many keys, many writers ---- */

#define MANY        3000u
#define PATIENCE_NS UINT64_C(20000000000)

static struct sb_word32 stops, torn, seen_turns;

static void *count_keys(void *argument)
{
        struct sb_bus *own = argument;
        unsigned last = UINT32_MAX, turns = 0;

        while (!sb_load_relaxed(&stops)) {
                struct sb_scan *scan = NULL;
                struct sb_guard guard = {0};
                unsigned seen = 0;

                if (sb_scan_open(own, NULL, b("many/"), &scan) != 0)
                        break;
                for (; sb_scan_next(scan, &guard) == 0; seen++)
                        sb_guard_release(&guard);
                scan = sb_scan_close(scan);
                if (seen != 0 && seen != MANY)
                        sb_store_relaxed(&torn, seen);
                turns += seen != last;
                last = seen;
                sb_store_relaxed(&seen_turns, turns);
        }
        return NULL;
}

static int set_many(void *argument, struct sb_txn *txn)
{
        char key[24];
        int r = 0;

        (void)argument;
        for (unsigned i = 0; i < MANY && r == 0; i++) {
                snprintf(key, sizeof(key), "many/%u", i);
                r = sb_txn_set(txn, b(key), b(key));
        }
        return r;
}

static void test_thousands_of_keys_go_at_one_moment(void)
{
        uint64_t end = now_ns() + PATIENCE_NS;
        pthread_t thread;

        BEGIN();
        sb_store_relaxed(&stops, 0);
        sb_store_relaxed(&torn, 0);
        CHECK_EQ(pthread_create(&thread, NULL, count_keys, other), 0);
        /* Until the other one has seen both states, in turn. */
        for (unsigned i = 0; sb_load_relaxed(&seen_turns) < 6 && now_ns() < end; i++) {
                CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, set_many, NULL, NULL), 0);
                CHECK(clear(i % 2 ? "many/" : "many", "many0") == 0 && count == MANY);
        }
        sb_store_relaxed(&stops, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(sb_load_relaxed(&torn), 0);
        CHECK(sb_load_relaxed(&seen_turns) >= 6);
        END();
}

static struct sb_word32 born;

/* Ever new keys in the range, and old ones deleted. */
static void *bear_keys(void *argument)
{
        struct sb_bus *own = argument;
        char key[24];

        for (unsigned i = 0; !sb_load_relaxed(&stops); i++) {
                snprintf(key, sizeof(key), "range/%u", i % 64);
                if (sb_set(own, b(key), b("x"), NULL, NULL) != 0)
                        break;
                sb_store_relaxed(&born, i);
                if (i % 3 == 0)
                        (void)!sb_delete(own, b(key), SB_ANY_REV, NULL, NULL);
                for (unsigned pause = 0; pause < 4000; pause++)
                        __asm__ volatile("" ::: "memory");
        }
        return NULL;
}

/* All of the past is kept; so a scan at the cut of the delete tells what was left then: nothing of
 * an earlier cut. */
static void test_no_key_is_left_that_came_while_the_range_was_deleted(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        uint64_t deleted = 0, end = now_ns() + PATIENCE_NS;
        unsigned lost = 0, rounds = 0, behind = 0;
        struct sb_guard guard = {0};
        pthread_t thread;

        BEGIN_SIZE(64 * MIB);
        sb_store_relaxed(&stops, 0);
        CHECK_EQ(sb_keep(bus, b("range/"), SB_PREFIX, &rule), 0);
        CHECK_EQ(pthread_create(&thread, NULL, bear_keys, other), 0);
        /* Until some hundred keys came in between. */
        for (; deleted < 300 && now_ns() < end; rounds++) {
                struct sb_scan_options at = {.size = sizeof(at)};
                struct sb_write how = {.size = sizeof(how), .ret_cut = &at.cut};
                struct sb_scan *scan = NULL;
                uint64_t later;
                int r = sb_delete_range(bus, NULL, b("range/"), b("range0"), 0, &how, &count);

                if (r == SB_E_CONFLICT) {
                        lost++;
                        continue;
                }
                CHECK_EQ(r, 0);
                deleted += count;
                /* The first cut that contains the deletes can be read at once a later one is taken.
                 * With none to delete it is the one that was read at. */
                CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &later), 0);
                CHECK_EQ(sb_scan_open_at(bus, b("range/"), &at, &scan), 0);
                /* A key that came right behind the delete may be of the same cut. */
                while ((r = sb_scan_next(scan, &guard)) == 0) {
                        CHECK(count > 0 && guard.cut == at.cut);
                        sb_guard_release(&guard);
                        behind++;
                }
                CHECK_EQ(r, SB_E_NOT_FOUND);
                CHECK(!sb_scan_close(scan));
        }
        sb_store_relaxed(&stops, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        printf("# %lu keys deleted of %u that came, in %u rounds, %u right behind a delete; 100 "
               "attempts lost %u times\n",
                deleted, sb_load_relaxed(&born), rounds, behind, lost);
        CHECK(deleted >= 300 && lost < rounds);
        END();
}

/* ---- on a full bus ---- */

static unsigned fill(unsigned from)
{
        static const struct sb_write at_once = {.size = sizeof(at_once), .deadline_ns = 1};
        char key[24];
        unsigned i;

        for (i = from; i < 100000; i++) {
                snprintf(key, sizeof(key), "full/%05u", i);
                if (sb_set(bus, b(key), b("x"), &at_once, NULL) != 0)
                        break;
        }
        return i;
}

static unsigned keys_there(void)
{
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        unsigned seen = 0;

        if (sb_scan_open(bus, NULL, b("full/"), &scan) != 0)
                return UINT32_MAX;
        for (; sb_scan_next(scan, &guard) == 0; seen++)
                sb_guard_release(&guard);
        sb_scan_close(scan);
        return seen;
}

/* The deletes of all keys find no memory at once: nothing happens. Those of parts do. */
static void test_a_full_bus_is_emptied_part_by_part(void)
{
        struct sb_write how = {.size = sizeof(how)};
        unsigned there, part = 0;
        char from[24], to[24];
        int r;

        WORLD_WITHOUT_LOG();
        BEGIN_SIZE(2 * MIB);
        there = fill(0);
        CHECK(there > 1000 && keys_there() == there);
        count = 9;
        how.deadline_ns = now_ns() + 50000000;
        r = sb_delete_range(bus, NULL, b("full/"), none, SB_PREFIX, &how, &count);
        if (r == SB_E_FULL) {
                CHECK(count == 9 && keys_there() == there);
                for (unsigned i = 0; i < there; i += 20) {
                        snprintf(from, sizeof(from), "full/%05u", i);
                        snprintf(to, sizeof(to), "full/%05u", i + 20);
                        CHECK_EQ(clear(from, to), 0);
                        part += (unsigned)count;
                        world_tick(&world);
                }
                CHECK_EQ(part, there);
        } else {
                CHECK(r == 0 && count == there);
        }
        CHECK_EQ(keys_there(), 0);
        for (unsigned i = 0; i < 8; i++)
                world_tick(&world);
        CHECK(fill(0) > there / 2);
        CHECK(clear("full/00000", "full/00010") == 0 && count == 10);
        END();
}

/* ---- in a transaction ---- */

static void test_in_a_transaction_the_deletes_are_its_writes(void)
{
        struct sb_txn *txn;

        BEGIN();
        CHECK(!give("a") && !give("b1") && !give("b2") && !give("c"));
        txn = begin(SB_SERIALIZABLE);
        CHECK(!set(txn, "b2", "mine") && !set(txn, "b3", "mine") && !set(txn, "d", "mine"));
        CHECK_EQ(sb_txn_delete(txn, b("c")), 0);
        CHECK_EQ(sb_delete_range(bus, txn, b("b"), b("d"), 0, NULL, &count), 0);
        CHECK_EQ(count, 3); /* b1, b2, b3: c has no value any more */
        CHECK(sees(txn, "a", "a") && sees(txn, "b1", NULL) && sees(txn, "b2", NULL) &&
                sees(txn, "b3", NULL) && sees(txn, "c", NULL) && sees(txn, "d", "mine"));
        CHECK_EQ(sb_delete_range(bus, txn, b("b"), none, SB_PREFIX, NULL, &count), 0);
        CHECK_EQ(count, 0);
        CHECK(!set(txn, "b1", "again"));
        CHECK(left("a b1 b2 c "));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK(left("a b1 d "));
        CHECK(has(other, "b1", "again") && lacks("b3"));
        /* An end takes all of it back. */
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_delete_range(bus, txn, none, none, SB_PREFIX, NULL, &count), 0);
        CHECK_EQ(count, 3);
        CHECK(!sb_txn_end(txn));
        CHECK(left("a b1 d "));
        END();
}

static void test_a_key_that_comes_is_a_conflict_of_a_serializable_transaction_alone(void)
{
        static const struct {
                const char *key;
                uint32_t isolation;
                bool conflicts;
        } cases[] = {{"b15", SB_SERIALIZABLE, true}, {"b1", SB_SERIALIZABLE, true},
                {"c", SB_SERIALIZABLE, false}, {"b15", SB_SNAPSHOT, false},
                {"b1", SB_SNAPSHOT, true}};
        struct sb_txn *txn;

        BEGIN();
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                CHECK(!give("b1") && !give("b2"));
                txn = begin(cases[i].isolation);
                CHECK_EQ(sb_delete_range(bus, txn, b("b"), b("c"), 0, NULL, &count), 0);
                CHECK_EQ(count, 2);
                CHECK(!give(cases[i].key));
                CHECK_EQ(sb_txn_commit(txn, NULL), cases[i].conflicts ? SB_E_CONFLICT : 0);
                CHECK(!cases[i].conflicts || conflict_is(txn, cases[i].key));
                CHECK(!sb_txn_end(txn));
                CHECK_EQ(sb_delete_range(bus, NULL, none, none, SB_PREFIX, NULL, NULL), 0);
        }
        END();
}

static void test_misuse_has_a_name_and_deletes_nothing(void)
{
        static const struct sb_bytes no_data = {NULL, 3};
        const struct sb_write how = {.size = sizeof(how)};
        struct sb_write bad = {.size = sizeof(bad) + 8},
                        strict = {.size = sizeof(strict), .durability = SB_STRICT};
        static char large[1025];
        struct sb_bytes a = b("a"), z = b("z"), long_key = {large, 1025};
        struct sb_txn *txn, *others;

        WORLD_WITHOUT_LOG();
        BEGIN();
        CHECK(!give("a") && !give("b"));
        large[0] = 'a';
        count = 9;
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &others), 0);
        CHECK_EQ(sb_delete_range(NULL, NULL, a, z, 0, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, no_data, z, 0, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, no_data, 0, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, none, 0, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, none, none, 0, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, z, SB_PREFIX, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, z, 2, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, z, SB_REVERSE, NULL, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, long_key, z, 0, NULL, &count), -ENAMETOOLONG);
        CHECK_EQ(sb_delete_range(bus, NULL, a, long_key, 0, NULL, &count), -ENAMETOOLONG);
        CHECK_EQ(
                sb_delete_range(bus, NULL, long_key, none, SB_PREFIX, NULL, &count), -ENAMETOOLONG);
        CHECK_EQ(sb_delete_range(bus, NULL, a, z, 0, &bad, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, NULL, a, z, 0, &strict, &count), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_delete_range(bus, txn, a, z, 0, &how, &count), -EINVAL);
        CHECK_EQ(sb_delete_range(bus, others, a, z, 0, NULL, &count), -EINVAL);
        CHECK(!sb_txn_end(others));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK_EQ(sb_delete_range(bus, txn, a, z, 0, NULL, &count), -EINVAL);
        CHECK(!sb_txn_end(txn));
        CHECK(count == 9 && left("a b "));
        long_key.len = 1024;
        CHECK(sb_delete_range(bus, NULL, a, long_key, 0, &how, &count) == 0 && count == 1);
        CHECK(left("b "));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_the_keys_of_a_range_go_and_no_others);
        RUN(test_revisions_go_on_behind_a_range_that_was_deleted);
        RUN(test_the_buss_own_keys_stay_and_cannot_be_named);
        RUN(test_a_key_as_long_as_a_key_can_be_goes_too);
        RUN(test_thousands_of_keys_go_at_one_moment);
        RUN(test_no_key_is_left_that_came_while_the_range_was_deleted);
        RUN(test_a_full_bus_is_emptied_part_by_part);
        RUN(test_in_a_transaction_the_deletes_are_its_writes);
        RUN(test_a_key_that_comes_is_a_conflict_of_a_serializable_transaction_alone);
        RUN(test_misuse_has_a_name_and_deletes_nothing);
        return test_end();
}
