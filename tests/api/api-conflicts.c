/* When transactions are in conflict and when they are not, and which key they name. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "tests/api/txns.h"

static void test_a_key_that_another_wrote_since_the_cut_is_a_conflict_and_named(void)
{
        struct sb_txn *txn;
        uint64_t cut = 77;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK(put("a", "old") == 0 && put("m", "old") == 0 && put("z", "old") == 0);
                txn = begin(isolation);
                CHECK(set(txn, "a", "mine") == 0 && set(txn, "m", "mine") == 0);
                CHECK(set(txn, "z", "mine") == 0 && set(txn, "new", "mine") == 0);
                CHECK(!sb_txn_conflict(txn).data);
                CHECK_EQ(put("m", "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, &how), SB_E_CONFLICT);
                CHECK(conflict_is(txn, "m") && cut == 77);
                CHECK(has(other, "a", "old") && has(other, "m", "theirs") && lacks("new"));
                CHECK(!sb_txn_end(txn));
                /* The failed commit used up no revision. */
                CHECK_EQ(put("a", "next"), 0);
                CHECK(rev_of("a") == 2 && rev_of("m") == 2 && rev_of("z") == 1);
                END();
        }
}

static void test_a_key_that_another_made_or_deleted_since_the_cut_is_a_conflict(void)
{
        struct sb_txn *txn;

        BEGIN();
        CHECK_EQ(put("there", "old"), 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "absent", "mine"), 0);
        CHECK_EQ(put("absent", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "absent"));
        CHECK(!sb_txn_end(txn));
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "there", "mine"), 0);
        CHECK_EQ(take("there"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "there"));
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(put("there", "back"), 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_delete(txn, b("there")), 0);
        CHECK_EQ(put("there", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "there"));
        CHECK(!sb_txn_end(txn));
        CHECK(has(other, "absent", "theirs") && has(other, "there", "theirs"));
        END();
}

static void test_of_two_that_write_one_key_the_first_to_commit_wins(void)
{
        struct sb_txn *first, *second = NULL;

        BEGIN();
        CHECK_EQ(put("key", "old"), 0);
        first = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &second), 0);
        CHECK(set(first, "key", "first") == 0 && set(second, "key", "second") == 0);
        CHECK_EQ(sb_txn_commit(second, NULL), 0);
        CHECK_EQ(sb_txn_commit(first, NULL), SB_E_CONFLICT);
        CHECK(has(bus, "key", "second") && rev_of("key") == 2);
        CHECK(!sb_txn_end(first) && !sb_txn_end(second));
        END();
}

static void test_two_of_one_bus_conflict_as_those_of_two(void)
{
        struct sb_txn *first, *second;

        BEGIN();
        first = begin(SB_SNAPSHOT);
        second = begin(SB_SNAPSHOT);
        CHECK(set(first, "key", "first") == 0 && set(second, "key", "second") == 0);
        CHECK(sees(first, "key", "first") && sees(second, "key", "second"));
        CHECK_EQ(sb_txn_commit(first, NULL), 0);
        CHECK(sees(second, "key", "second"));
        CHECK_EQ(sb_txn_commit(second, NULL), SB_E_CONFLICT);
        CHECK(!sb_txn_end(second) && !sb_txn_end(first));
        CHECK(has(other, "key", "first"));
        END();
}

/* Run two transactions that each read what the other writes. Return: how many committed. */
static unsigned skew(uint32_t isolation)
{
        struct sb_txn *one = begin(isolation), *two = NULL;
        unsigned committed = 0;

        if (!one || sb_txn_begin(other, isolation, &two) != 0 || !sees(one, "x", "0") ||
                !sees(two, "y", "0") || set(one, "y", "1") != 0 || set(two, "x", "1") != 0)
                return 99;
        committed += sb_txn_commit(one, NULL) == 0;
        committed += sb_txn_commit(two, NULL) == 0;
        sb_txn_end(one);
        sb_txn_end(two);
        return committed;
}

static void test_write_skew_is_possible_in_snapshot_and_not_in_serializable(void)
{
        BEGIN();
        CHECK(put("x", "0") == 0 && put("y", "0") == 0);
        CHECK_EQ(skew(SB_SNAPSHOT), 2);
        CHECK(put("x", "0") == 0 && put("y", "0") == 0);
        CHECK_EQ(skew(SB_SERIALIZABLE), 1);
        END();
}

/* What another client does beside a serializable transaction that reads and then writes "out". */
struct beside {
        const char *read;    /* a key; or a prefix that is scanned for @scanned steps */
        int scanned;         /* 0: a get; < 0: backwards from the end */
        const char *written; /* by another client; '-' in front: it deletes the key */
        const char *named;   /* the key that the conflict names; NULL: the transaction commits */
};

static int look(struct sb_txn *txn, const struct beside *beside)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        int r;

        if (beside->scanned == 0) {
                r = sb_txn_get(txn, b(beside->read), &guard);
                sb_guard_release(&guard);
                return r == SB_E_NOT_FOUND ? 0 : r;
        }
        r = sb_scan_open(bus, txn, b(beside->read), &scan);
        if (r == 0 && beside->scanned < 0)
                r = sb_scan_seek_end(scan);
        for (int i = 0; r == 0 && i < abs(beside->scanned); i++) {
                r = beside->scanned > 0 ? sb_scan_next(scan, &guard) : sb_scan_prev(scan, &guard);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        return r == SB_E_NOT_FOUND ? 0 : r;
}

static void test_serializable_conflicts_with_changes_of_what_it_read_and_of_nothing_else(void)
{
        static const struct beside cases[] = {
                {"b", 0, "b", "b"},
                {"b", 0, "-b", "b"},
                {"b", 0, "a", NULL},
                {"b", 0, "bb", NULL},
                {"absent", 0, "absent", "absent"},
                {"absent", 0, "absent2", NULL},
                /* A scan to its end has read everything with the prefix, also keys that are new or
                 * go. */
                {"k", 99, "k1", "k1"},
                {"k", 99, "-k5", "k5"},
                {"k", 99, "k", "k"},
                {"k", 99, "k0", "k0"},
                {"k", 99, "k4", "k4"},
                {"k", 99, "k99", "k99"},
                {"k", 99, "k\xff\xff", "k\xff\xff"},
                {"k", 99, "j\xff", NULL},
                {"k", 99, "l", NULL},
                {"", 99, "\x01", "\x01"},
                {"", 99, "zzz", "zzz"},
                {"\xff", 99, "\xff\xff", "\xff\xff"},
                {"\xff", 99, "z", NULL},
                /* A scan that stopped has read as far as it came. */
                {"k", 2, "k0", "k0"},
                {"k", 2, "k2", "k2"},
                {"k", 2, "k3", "k3"},
                {"k", 2, "k3a", NULL},
                {"k", 2, "k4", NULL},
                {"k", 2, "-k5", NULL},
                {"k", -1, "k5", "k5"},
                {"k", -1, "k5a", "k5a"},
                {"k", -1, "k4", NULL},
                {"k", -1, "k3", NULL},
                {"k", -2, "k4", "k4"},
                {"k", -2, "k3", "k3"},
                {"k", -2, "k2", NULL},
                {"k", -99, "k0", "k0"},
                {"k", -99, "j", NULL},
        };
        struct sb_txn *txn;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct beside *beside = &cases[i];

                BEGIN_SIZE(4 * MIB);
                CHECK(put("a", "0") == 0 && put("b", "0") == 0 && put("k1", "0") == 0);
                CHECK(put("k3", "0") == 0 && put("k5", "0") == 0);
                txn = begin(SB_SERIALIZABLE);
                CHECK_EQ(look(txn, beside), 0);
                CHECK_EQ(set(txn, "out", "mine"), 0);
                CHECK_EQ(beside->written[0] == '-' ? take(beside->written + 1)
                                                   : put(beside->written, "theirs"),
                        0);
                if (!beside->named) {
                        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                        CHECK(has(other, "out", "mine"));
                } else {
                        if (sb_txn_commit(txn, NULL) != SB_E_CONFLICT)
                                TEST_FAIL("case %zu committed", i);
                        CHECK(conflict_is(txn, beside->named) && lacks("out"));
                }
                CHECK(!sb_txn_end(txn));
                END();
        }
}

/* A look at more keys than are looked at in one go: it goes on where it was. */
static void test_of_a_long_range_the_first_key_that_changed_is_named(void)
{
        static const uint32_t changed[] = {0, 255, 256, 257, 258, 511, 512, 513, 514, 599};
        const struct beside all_keys = {"k", 9999, NULL, NULL};
        struct sb_txn *txn;
        char key[16];

        BEGIN_SIZE(4 * MIB);
        for (uint32_t i = 0; i < 600; i++) {
                snprintf(key, sizeof(key), "k%03u", i);
                CHECK_EQ(put(key, "0"), 0);
        }
        for (uint32_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
                txn = begin(SB_SERIALIZABLE);
                CHECK_EQ(look(txn, &all_keys), 0);
                CHECK_EQ(set(txn, "out", "mine"), 0);
                CHECK_EQ(put("k599", "theirs"), 0);
                snprintf(key, sizeof(key), "k%03u", changed[i]);
                CHECK_EQ(put(key, "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
                CHECK(conflict_is(txn, key) && lacks("out"));
                CHECK(!sb_txn_end(txn));
        }
        END();
}

static void test_the_buss_own_keys_are_in_no_scan_of_all_and_marking_is_no_conflict(void)
{
        static const struct sb_bytes zero = {"\0", 1};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;
        uint64_t cut;

        BEGIN();
        CHECK(put("a", "0") == 0 && put("b", "0") == 0);
        CHECK_EQ(sb_mark(other, b("there"), &cut), 0);
        for (unsigned i = 0; i < 4; i++) {
                bool back = i % 2, whole = i / 2;

                txn = begin(SB_SERIALIZABLE);
                CHECK_EQ(set(txn, "out", "x"), 0);
                CHECK_EQ(sb_scan_open(bus, txn, whole ? none : zero, &scan), 0);
                if (back)
                        CHECK_EQ(sb_scan_seek_end(scan), 0);
                CHECK(gives(scan, back, !whole ? "" : back ? "[out] b a " : "a b [out] "));
                CHECK(!sb_scan_close(scan));
                CHECK_EQ(sb_mark(other, b("beside"), &cut), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                CHECK(!sb_txn_end(txn));
                CHECK_EQ(sb_mark_drop(other, b("beside")), 0);
                CHECK_EQ(take("out"), 0);
        }
        /* But around the transaction's own writes there is a conflict. */
        txn = begin(SB_SERIALIZABLE);
        CHECK_EQ(sb_scan_open(bus, txn, none, &scan), 0);
        CHECK(gives(scan, false, "a b "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(set(txn, "out", "x"), 0);
        CHECK_EQ(sb_set(other, zero, b("x"), NULL, NULL), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(!sb_txn_end(txn));
        END();
}

static void test_snapshot_isolation_does_not_mind_what_it_read(void)
{
        struct beside beside = {"", 99, "a", NULL};
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("a", "0") == 0 && put("b", "0") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(look(txn, &beside), 0);
        CHECK(sees(txn, "a", "0"));
        CHECK_EQ(set(txn, "out", "mine"), 0);
        CHECK(put("a", "1") == 0 && put("c", "1") == 0 && take("b") == 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        END();
}

static void test_own_writes_in_what_was_read_are_no_conflict(void)
{
        struct beside beside = {"k", 99, "", NULL};
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("k1", "0") == 0 && put("k3", "0") == 0 && put("k5", "0") == 0);
        txn = begin(SB_SERIALIZABLE);
        CHECK(sees(txn, "k1", "0") && sees(txn, "k7", NULL));
        CHECK(set(txn, "k1", "1") == 0 && set(txn, "k2", "1") == 0 && set(txn, "k7", "1") == 0);
        CHECK_EQ(sb_txn_delete(txn, b("k3")), 0);
        CHECK_EQ(look(txn, &beside), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK(has(other, "k1", "1") && has(other, "k2", "1") && lacks("k3"));
        END();
}

static void test_a_write_that_was_taken_back_leaves_what_it_found_absent(void)
{
        struct sb_txn *txn;

        BEGIN();
        txn = begin(SB_SERIALIZABLE);
        CHECK(set(txn, "key", "mine") == 0 && sb_txn_delete(txn, b("key")) == 0);
        CHECK_EQ(set(txn, "out", "mine"), 0);
        CHECK_EQ(put("key", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "key"));
        CHECK(!sb_txn_end(txn));
        END();
}

/* Read @count keys, from two sides inwards; every second key has a value. */
static bool read_many(struct sb_txn *txn, unsigned count)
{
        char key[64];

        for (unsigned i = 0; i < count; i++) {
                unsigned number = i % 2 ? count - i / 2 : i / 2;

                snprintf(key, sizeof(key), "a rather long name of a key %06u", number);
                if (!sees(txn, key, number % 2 ? "0" : NULL))
                        return false;
        }
        return true;
}

static void test_more_reads_than_a_commit_can_carry_only_make_it_coarser(void)
{
        enum { COUNT = 20000 };
        struct sb_txn *txn;
        char key[64];

        /* The read set takes a quarter of the largest value: here half a mebibyte. */
        BEGIN_SIZE(8 * MIB);
        for (unsigned i = 1; i <= COUNT; i += 2) {
                snprintf(key, sizeof(key), "a rather long name of a key %06u", i);
                CHECK_EQ(put(key, "0"), 0);
        }
        /* Nothing has changed, so the transaction commits. */
        txn = begin(SB_SERIALIZABLE);
        CHECK(read_many(txn, COUNT));
        CHECK(put("a", "1") == 0 && put("b", "1") == 0);
        CHECK_EQ(set(txn, "out", "1"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        /* The transaction finds each single change. */
        for (unsigned i = 1; i < COUNT; i += 3001) {
                snprintf(key, sizeof(key), "a rather long name of a key %06u", i);
                txn = begin(SB_SERIALIZABLE);
                CHECK(read_many(txn, COUNT));
                CHECK_EQ(set(txn, "out", "2"), 0);
                CHECK_EQ(i % 2 ? put(key, "0") : put(key, "1"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
                CHECK(conflict_is(txn, key));
                CHECK(!sb_txn_end(txn));
                if (i % 2 == 0)
                        CHECK_EQ(take(key), 0);
        }
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_key_that_another_wrote_since_the_cut_is_a_conflict_and_named);
        RUN(test_a_key_that_another_made_or_deleted_since_the_cut_is_a_conflict);
        RUN(test_of_two_that_write_one_key_the_first_to_commit_wins);
        RUN(test_two_of_one_bus_conflict_as_those_of_two);
        RUN(test_write_skew_is_possible_in_snapshot_and_not_in_serializable);
        RUN(test_serializable_conflicts_with_changes_of_what_it_read_and_of_nothing_else);
        RUN(test_of_a_long_range_the_first_key_that_changed_is_named);
        RUN(test_the_buss_own_keys_are_in_no_scan_of_all_and_marking_is_no_conflict);
        RUN(test_snapshot_isolation_does_not_mind_what_it_read);
        RUN(test_own_writes_in_what_was_read_are_no_conflict);
        RUN(test_a_write_that_was_taken_back_leaves_what_it_found_absent);
        RUN(test_more_reads_than_a_commit_can_carry_only_make_it_coarser);
        return test_end();
}
