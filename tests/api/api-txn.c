/*
 * Transactions: what they read, what others see of them, when they conflict, and what misuse gets.
 * Histories of many at once are judged elsewhere; here each sentence stands for itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/core/txn.h"
#include "test.h"
#include "world.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus, *other;
static const struct sb_bytes none = {NULL, 0};

#define BEGIN() BEGIN_SIZE(16 * MIB)
#define BEGIN_SIZE(size)                                                                           \
        do {                                                                                       \
                WORLD_BEGIN(size);                                                                 \
                other = world_bus(&world);                                                         \
                CHECK(other != NULL);                                                              \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                other = sb_close(other);                                                           \
                WORLD_END();                                                                       \
        } while (0)

/* As plain writes of another client. */
static int put(const char *key, const char *value)
{
        return sb_set(other, b(key), b(value), NULL, NULL);
}
static int take(const char *key)
{
        return sb_delete(other, b(key), SB_ANY_REV, NULL, NULL);
}
static bool lacks(const char *key)
{
        struct sb_guard guard = {0};

        return sb_get(other, b(key), &guard) == SB_E_NOT_FOUND;
}
static uint64_t rev_of(const char *key)
{
        struct sb_guard guard = {0};
        uint64_t rev = sb_get(other, b(key), &guard) == 0 ? guard.rev : 0;

        sb_guard_release(&guard);
        return rev;
}

/* Whether a transaction sees exactly this value; NULL: none. */
static bool sees(struct sb_txn *txn, const char *key, const char *value)
{
        struct sb_guard guard = {0};
        int r = sb_txn_get(txn, b(key), &guard);
        bool same;

        if (value == NULL)
                return r == SB_E_NOT_FOUND && guard.bus == NULL;
        same = r == 0 && guard.value.len == strlen(value) && guard.key.len == strlen(key) &&
               memcmp(guard.value.data, value, guard.value.len) == 0 &&
               memcmp(guard.key.data, key, guard.key.len) == 0 && guard.kind == SB_VALUE;
        sb_guard_release(&guard);
        return same;
}

static int set(struct sb_txn *txn, const char *key, const char *value)
{
        return sb_txn_set(txn, b(key), b(value));
}

static struct sb_txn *begin(uint32_t isolation)
{
        struct sb_txn *txn = NULL;

        return sb_txn_begin(bus, isolation, &txn) == 0 ? txn : NULL;
}

static bool conflict_is(const struct sb_txn *txn, const char *key)
{
        struct sb_bytes named = sb_txn_conflict(txn);

        return named.data != NULL && named.len == strlen(key) &&
               memcmp(named.data, key, named.len) == 0;
}

/* ---- reads ---- */

static void test_reads_are_at_the_cut_whatever_is_written_afterwards(void)
{
        struct sb_txn *txn;

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK(put("changed", "before") == 0 && put("deleted", "before") == 0);
                txn = begin(isolation);
                CHECK(txn != NULL && sb_txn_cut(txn) > 0);
                CHECK(put("changed", "after") == 0 && take("deleted") == 0);
                CHECK(put("made", "after") == 0);
                for (unsigned i = 0; i < 2; i++) {
                        CHECK(sees(txn, "changed", "before") && sees(txn, "deleted", "before"));
                        CHECK(sees(txn, "made", NULL));
                }
                CHECK(sb_txn_end(txn) == NULL);
                END();
        }
}

static void test_a_cut_has_what_was_written_before_begin(void)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn;

        BEGIN();
        for (unsigned i = 0; i < 100; i++) {
                char text[16];

                snprintf(text, sizeof(text), "%u", i);
                CHECK_EQ(put("key", text), 0);
                txn = begin(SB_SNAPSHOT);
                CHECK(sees(txn, "key", text));
                CHECK_EQ(sb_txn_get(txn, b("key"), &guard), 0);
                CHECK(guard.rev == i + 1 && guard.cut <= sb_txn_cut(txn) && guard.txn == 0);
                sb_guard_release(&guard);
                CHECK(sb_txn_end(txn) == NULL);
        }
        END();
}

static void test_own_writes_are_read_first(void)
{
        struct sb_guard guard = {.rev = 7, .cut = 7, .txn = 7, .missed = 7};
        struct sb_txn *txn;

        BEGIN();
        CHECK_EQ(put("key", "theirs"), 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "key", "mine"), 0);
        CHECK(sees(txn, "key", "mine"));
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), 0);
        CHECK(guard.rev == 0 && guard.cut == 0 && guard.txn == 0 && guard.missed == 0);
        CHECK(guard.bus == bus && guard.old_value.data == NULL);
        sb_guard_release(&guard);
        CHECK_EQ(set(txn, "key", ""), 0);
        CHECK(sees(txn, "key", ""));
        CHECK_EQ(sb_txn_delete(txn, b("key")), 0);
        CHECK(sees(txn, "key", NULL));
        CHECK_EQ(set(txn, "key", "again"), 0);
        CHECK(sees(txn, "key", "again"));
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

static void test_writes_are_nobodys_business_before_the_commit_nor_without_one(void)
{
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("key", "old") == 0 && put("kept", "old") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "key", "new") == 0 && set(txn, "made", "new") == 0);
        CHECK_EQ(sb_txn_delete(txn, b("kept")), 0);
        CHECK(has(other, "key", "old") && has(bus, "kept", "old") && lacks("made"));
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(has(other, "key", "old") && has(bus, "kept", "old") && lacks("made"));
        CHECK(rev_of("key") == 1 && rev_of("kept") == 1);
        END();
}

static void test_keys_and_values_are_copied(void)
{
        char key[] = "key", value[] = "value";
        struct sb_txn *txn;

        BEGIN();
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, key, value), 0);
        memset(key, 'x', 3);
        memset(value, 'x', 5);
        CHECK(sees(txn, "key", "value"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(has(other, "key", "value") && lacks("xxx"));
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

/* ---- commit ---- */

static void test_a_commit_makes_all_writes_visible_at_one_cut_under_one_number(void)
{
        struct sb_guard guards[3] = {0}, plain = {0};
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("b", "old") == 0 && put("plain", "old") == 0 && put("c", "old") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "c", "three") == 0 && set(txn, "a", "one") == 0 &&
                set(txn, "b", "two") == 0);
        CHECK_EQ(sb_txn_commit(txn, &how), 0);
        CHECK(cut > sb_txn_cut(txn));
        CHECK(has(other, "a", "one") && has(other, "b", "two") && has(other, "c", "three"));
        CHECK_EQ(sb_get(other, b("a"), &guards[0]), 0);
        CHECK_EQ(sb_get(other, b("b"), &guards[1]), 0);
        CHECK_EQ(sb_get(other, b("c"), &guards[2]), 0);
        for (unsigned i = 0; i < 3; i++) {
                CHECK(guards[i].cut == cut && guards[i].txn != 0);
                CHECK_EQ(guards[i].txn, guards[0].txn);
                sb_guard_release(&guards[i]);
        }
        CHECK(rev_of("a") == 1 && rev_of("b") == 2 && rev_of("c") == 2);
        CHECK_EQ(sb_get(other, b("plain"), &plain), 0);
        CHECK_EQ(plain.txn, 0);
        sb_guard_release(&plain);
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

static void test_each_way_to_read_tells_the_transaction_that_wrote(void)
{
        struct sb_bytes keys[2];
        struct sb_guard guards[4] = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        keys[0] = b("a key of some length, for the long way");
        keys[1] = b("123456789ab");
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_set(txn, keys[0], b("x")), 0);
        CHECK_EQ(sb_txn_set(txn, keys[1], none), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK_EQ(sb_get(bus, keys[1], &guards[0]), 0);
        CHECK_EQ(sb_get_many(bus, keys, 2, guards + 1), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guards[3]), 0);
        CHECK(guards[0].txn != 0 && guards[0].value.len == 0);
        for (unsigned i = 0; i < 4; i++) {
                CHECK_EQ(guards[i].txn, guards[0].txn);
                sb_guard_release(&guards[i]);
        }
        CHECK(sb_scan_close(scan) == NULL);
        /* The next one has another number; a plain write none. */
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_set(txn, keys[0], b("y")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK_EQ(sb_get(bus, keys[0], &guards[1]), 0);
        CHECK(guards[1].txn != 0 && guards[1].txn != guards[0].txn);
        sb_guard_release(&guards[1]);
        CHECK_EQ(sb_set(bus, keys[0], b("z"), NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, keys[0], &guards[1]), 0);
        CHECK_EQ(guards[1].txn, 0);
        sb_guard_release(&guards[1]);
        END();
}

static void test_a_commit_without_writes_gives_the_cut_that_was_read_at(void)
{
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_txn *txn;

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK_EQ(put("key", "old"), 0);
                txn = begin(isolation);
                CHECK(sees(txn, "key", "old"));
                CHECK_EQ(put("key", "new"), 0);
                CHECK_EQ(sb_txn_commit(txn, &how), 0);
                CHECK_EQ(cut, sb_txn_cut(txn));
                CHECK(sb_txn_conflict(txn).data == NULL);
                CHECK(sb_txn_end(txn) == NULL);
                END();
        }
}

static void test_delete_takes_values_away_with_the_commit(void)
{
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("one", "1") == 0 && put("two", "2") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_delete(txn, b("one")), 0);
        CHECK_EQ(sb_txn_delete(txn, b("one")), SB_E_NOT_FOUND);
        CHECK_EQ(sb_txn_delete(txn, b("absent")), SB_E_NOT_FOUND);
        CHECK_EQ(set(txn, "two", "mine"), 0);
        CHECK_EQ(sb_txn_delete(txn, b("two")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(lacks("one") && lacks("two") && lacks("absent"));
        CHECK_EQ(put("one", "again"), 0);
        CHECK_EQ(rev_of("one"), 3);
        END();
}

static void test_delete_of_an_own_new_key_takes_the_write_back(void)
{
        struct sb_txn *txn;
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};

        BEGIN();
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "key", "mine"), 0);
        CHECK_EQ(sb_txn_delete(txn, b("key")), 0);
        CHECK(sees(txn, "key", NULL));
        CHECK_EQ(sb_txn_delete(txn, b("key")), SB_E_NOT_FOUND);
        /* Nothing is left to write: nobody's write is in conflict with it. */
        CHECK_EQ(put("key", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, &how), 0);
        CHECK_EQ(cut, sb_txn_cut(txn));
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(has(other, "key", "theirs") && rev_of("key") == 1);
        /* Set once more, it is written. */
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "new", "1") == 0 && sb_txn_delete(txn, b("new")) == 0);
        CHECK(set(txn, "new", "2") == 0 && sees(txn, "new", "2"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(has(other, "new", "2") && rev_of("new") == 1);
        END();
}

static void test_thousands_of_keys_are_one_commit(void)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn;
        uint64_t number = 0;
        char key[32];

        BEGIN_SIZE(64 * MIB);
        txn = begin(SB_SERIALIZABLE);
        for (unsigned i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "key-%u", i * 7919 % 20000);
                CHECK_EQ(set(txn, key, key), 0);
        }
        CHECK(sees(txn, "key-777", "key-777"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        for (unsigned i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "key-%u", i);
                CHECK_EQ(sb_get(other, b(key), &guard), 0);
                CHECK(guard.rev == 1 && guard.value.len == strlen(key) &&
                        memcmp(guard.value.data, key, guard.value.len) == 0);
                CHECK(i == 0 || guard.txn == number);
                number = guard.txn;
                sb_guard_release(&guard);
        }
        txn = begin(SB_SNAPSHOT);
        for (unsigned i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "key-%u", i);
                CHECK_EQ(sb_txn_delete(txn, b(key)), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(lacks("key-0") && lacks("key-19999"));
        END();
}

static void test_values_up_to_eight_bytes_less_than_a_plain_one_fit(void)
{
        size_t most = 4 * MIB;
        char *large = calloc(1, most);
        struct sb_guard guard = {0};
        struct sb_txn *txn;

        BEGIN();
        /* Page sizes round a segment up, and its largest value. */
        most = bus->peer.segment.value_len_max;
        large = realloc(large, most);
        memset(large, 'v', most);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, most - 7}), -EMSGSIZE);
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, SIZE_MAX}), -EMSGSIZE);
        CHECK(sees(txn, "key", NULL));
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, most - 8}), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK_EQ(sb_get(other, b("key"), &guard), 0);
        CHECK(guard.value.len == most - 8 && memcmp(guard.value.data, large, most - 8) == 0);
        CHECK(guard.txn != 0);
        sb_guard_release(&guard);
        free(large);
        END();
}

/* ---- conflicts ---- */

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
                CHECK(sb_txn_conflict(txn).data == NULL);
                CHECK_EQ(put("m", "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, &how), SB_E_CONFLICT);
                CHECK(conflict_is(txn, "m") && cut == 77);
                CHECK(has(other, "a", "old") && has(other, "m", "theirs") && lacks("new"));
                CHECK(sb_txn_end(txn) == NULL);
                /* No revision was used up. */
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
        CHECK(sb_txn_end(txn) == NULL);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "there", "mine"), 0);
        CHECK_EQ(take("there"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "there"));
        CHECK(sb_txn_end(txn) == NULL);
        CHECK_EQ(put("there", "back"), 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_delete(txn, b("there")), 0);
        CHECK_EQ(put("there", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "there"));
        CHECK(sb_txn_end(txn) == NULL);
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
        CHECK(sb_txn_end(first) == NULL && sb_txn_end(second) == NULL);
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
        CHECK(sb_txn_end(second) == NULL && sb_txn_end(first) == NULL);
        CHECK(has(other, "key", "first"));
        END();
}

/* Two that each read what the other writes. Return: how many committed. */
static unsigned skew(uint32_t isolation)
{
        struct sb_txn *one = begin(isolation), *two = NULL;
        unsigned committed = 0;

        if (one == NULL || sb_txn_begin(other, isolation, &two) != 0 || !sees(one, "x", "0") ||
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

/* What happens beside a serializable transaction that reads and then writes "out". */
struct beside {
        const char *read;    /* a key; or a prefix that is scanned for @scanned steps */
        int scanned;         /* 0: a get; < 0: backwards from the end */
        const char *written; /* by another; '-' in front: deleted */
        const char *named;   /* the conflict; NULL: it commits */
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
                /* To the end: everything with the prefix, also what is new or goes. */
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
                /* As far as it came. */
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
                if (beside->named == NULL) {
                        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                        CHECK(has(other, "out", "mine"));
                } else {
                        if (sb_txn_commit(txn, NULL) != SB_E_CONFLICT)
                                TEST_FAIL("case %zu committed", i);
                        CHECK(conflict_is(txn, beside->named) && lacks("out"));
                }
                CHECK(sb_txn_end(txn) == NULL);
                END();
        }
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
        CHECK(sb_txn_end(txn) == NULL);
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
        CHECK(sb_txn_end(txn) == NULL);
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
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

/* Reads of @count keys, from two sides inwards; every second one is there. */
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

        /* They take a quarter of the largest value: here half a mebibyte. */
        BEGIN_SIZE(8 * MIB);
        for (unsigned i = 1; i <= COUNT; i += 2) {
                snprintf(key, sizeof(key), "a rather long name of a key %06u", i);
                CHECK_EQ(put(key, "0"), 0);
        }
        /* Nothing has changed: it commits. */
        txn = begin(SB_SERIALIZABLE);
        CHECK(read_many(txn, COUNT));
        CHECK(put("a", "1") == 0 && put("b", "1") == 0);
        CHECK_EQ(set(txn, "out", "1"), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        /* Each single change is found. */
        for (unsigned i = 1; i < COUNT; i += 3001) {
                snprintf(key, sizeof(key), "a rather long name of a key %06u", i);
                txn = begin(SB_SERIALIZABLE);
                CHECK(read_many(txn, COUNT));
                CHECK_EQ(set(txn, "out", "2"), 0);
                CHECK_EQ(i % 2 ? put(key, "0") : put(key, "1"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
                CHECK(conflict_is(txn, key));
                CHECK(sb_txn_end(txn) == NULL);
                if (i % 2 == 0)
                        CHECK_EQ(take(key), 0);
        }
        END();
}

/* ---- guards ---- */

static void test_guards_stay_valid_after_the_end(void)
{
        struct sb_guard theirs = {0}, first = {0}, second = {0};
        struct sb_txn *txn;

        BEGIN();
        CHECK_EQ(put("key", "theirs"), 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_get(txn, b("key"), &theirs), 0);
        CHECK_EQ(set(txn, "key", "first"), 0);
        CHECK_EQ(sb_txn_get(txn, b("key"), &first), 0);
        CHECK_EQ(set(txn, "key", "second"), 0);
        CHECK_EQ(sb_txn_get(txn, b("key"), &second), 0);
        CHECK_EQ(sb_txn_delete(txn, b("key")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        for (unsigned i = 0; i < 3000; i++)
                CHECK(put("key", "other") == 0 && take("key") == 0);
        CHECK(theirs.value.len == 6 && memcmp(theirs.value.data, "theirs", 6) == 0);
        CHECK(first.value.len == 5 && memcmp(first.value.data, "first", 5) == 0);
        CHECK(second.value.len == 6 && memcmp(second.value.data, "second", 6) == 0);
        CHECK(second.key.len == 3 && memcmp(second.key.data, "key", 3) == 0);
        sb_guard_release(&theirs);
        sb_guard_release(&first);
        sb_guard_release(&second);
        END();
}

static void test_guards_of_own_writes_and_their_copies_are_released_once(void)
{
        struct sb_guard guard = {0}, copy, next = {0}, third = {0};
        struct sb_txn *txn;

        BEGIN();
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "key", "value"), 0);
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), 0);
        copy = guard;
        sb_guard_release(&guard);
        sb_guard_release(&guard);
        /* The next one takes the same place. */
        CHECK_EQ(sb_txn_get(txn, b("key"), &next), 0);
        sb_guard_release(&copy);
        /* A copy that is filled anew, too. */
        CHECK_EQ(put("plain", "plain"), 0);
        CHECK_EQ(sb_get(bus, b("plain"), &copy), 0);
        CHECK_EQ(sb_get(bus, b("plain"), &third), 0);
        sb_guard_release(&copy);
        sb_guard_release(&third);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(next.value.len == 5 && memcmp(next.value.data, "value", 5) == 0);
        sb_guard_release(&next);
        END();
}

static void test_a_bus_that_is_closed_ends_all_guards_of_own_writes(void)
{
        struct sb_guard open = {0}, ended = {0};
        struct sb_txn *txn = NULL, *past = NULL;

        BEGIN();
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &past), 0);
        CHECK(set(txn, "key", "value") == 0 && set(past, "key", "value") == 0);
        CHECK_EQ(sb_txn_get(txn, b("key"), &open), 0);
        CHECK_EQ(sb_txn_get(past, b("key"), &ended), 0);
        CHECK(sb_txn_end(past) == NULL);
        other = sb_close(other);
        CHECK(sb_txn_end(txn) == NULL);
        other = world_bus(&world);
        CHECK(other != NULL);
        END();
}

/* ---- scans ---- */

/* What a scan gives from here on, a space behind each; own writes in brackets. */
static bool gives(struct sb_scan *scan, bool backwards, const char *expected)
{
        struct sb_guard guard = {0};
        char got[1024] = "";

        while ((backwards ? sb_scan_prev(scan, &guard) : sb_scan_next(scan, &guard)) == 0) {
                size_t len = strlen(got);

                snprintf(got + len, sizeof(got) - len, guard.rev ? "%.*s " : "[%.*s] ",
                        (int)guard.key.len, (const char *)guard.key.data);
                sb_guard_release(&guard);
        }
        if (strcmp(got, expected) != 0)
                printf("got '%s', expected '%s'\n", got, expected);
        return strcmp(got, expected) == 0;
}

static void test_a_scan_has_own_writes_merged_in_order(void)
{
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK(put("b", "0") == 0 && put("d", "0") == 0 && put("f", "0") == 0);
                CHECK(put("h", "0") == 0);
                txn = begin(isolation);
                CHECK(set(txn, "a", "1") == 0 && set(txn, "c", "1") == 0 &&
                        set(txn, "d", "1") == 0);
                CHECK(set(txn, "i", "1") == 0 && set(txn, "e", "1") == 0);
                CHECK(sb_txn_delete(txn, b("f")) == 0 && sb_txn_delete(txn, b("e")) == 0);
                CHECK_EQ(put("g", "too late"), 0);
                CHECK_EQ(sb_scan_open(bus, txn, none, &scan), 0);
                CHECK_EQ(sb_scan_cut(scan), sb_txn_cut(txn));
                CHECK(gives(scan, false, "[a] b [c] [d] h [i] "));
                CHECK(gives(scan, true, "[i] h [d] [c] b [a] "));
                CHECK(gives(scan, false, "[a] b [c] [d] h [i] "));
                CHECK_EQ(sb_scan_seek(scan, b("c")), 0);
                CHECK(gives(scan, false, "[c] [d] h [i] "));
                CHECK_EQ(sb_scan_seek(scan, b("c1")), 0);
                CHECK(gives(scan, true, "[c] b [a] "));
                CHECK_EQ(sb_scan_seek_end(scan), 0);
                CHECK(gives(scan, true, "[i] h [d] [c] b [a] "));
                CHECK(sb_scan_close(scan) == NULL);
                CHECK(sb_txn_end(txn) == NULL);
                END();
        }
}

static void test_a_scan_of_a_prefix_has_only_own_writes_with_the_prefix(void)
{
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("b2", "0") == 0 && put("c", "0") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "a\xff", "1") == 0 && set(txn, "b", "1") == 0 && set(txn, "b1", "1") == 0);
        CHECK(set(txn, "b\xff\xff", "1") == 0 && set(txn, "c", "1") == 0);
        CHECK_EQ(sb_scan_open(bus, txn, b("b"), &scan), 0);
        CHECK(gives(scan, false, "[b] [b1] b2 [b\xff\xff] "));
        CHECK(gives(scan, true, "[b\xff\xff] b2 [b1] [b] "));
        CHECK_EQ(sb_scan_seek(scan, b("a")), 0);
        CHECK(gives(scan, false, "[b] [b1] b2 [b\xff\xff] "));
        CHECK_EQ(sb_scan_seek(scan, b("bz")), 0);
        CHECK(gives(scan, true, "b2 [b1] [b] "));
        CHECK(sb_scan_close(scan) == NULL);
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

static void test_a_scan_shows_writes_that_are_made_ahead_of_it(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("b", "0") == 0 && put("d", "0") == 0 && put("f", "0") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_scan_open(bus, txn, none, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK(set(txn, "a", "behind") == 0 && set(txn, "c", "ahead") == 0);
        CHECK(sb_txn_delete(txn, b("d")) == 0 && set(txn, "g", "ahead") == 0);
        CHECK(gives(scan, false, "[c] f [g] "));
        CHECK(gives(scan, true, "[g] f [c] b [a] "));
        CHECK(sb_scan_close(scan) == NULL);
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

/* A mirror of what a transaction sees: keys 00..ff as they are there. */
struct mirror {
        bool there[256], own[256];
};

/* A step of both. False: they differ. */
static bool step_mirrored(
        struct sb_scan *scan, const struct mirror *mirror, int *position, bool back)
{
        struct sb_guard guard = {0};
        int at = *position, r;
        char key[8];

        /* The scan stands before key number `at`. */
        for (at -= back; at >= 0 && at < 256 && !mirror->there[at];)
                at += back ? -1 : 1;
        r = back ? sb_scan_prev(scan, &guard) : sb_scan_next(scan, &guard);
        if (at < 0 || at == 256) {
                *position = at < 0 ? 0 : 256;
                return r == SB_E_NOT_FOUND;
        }
        *position = back ? at : at + 1;
        snprintf(key, sizeof(key), "k%02x", (unsigned)at);
        if (r != 0 || guard.key.len != 3 || memcmp(guard.key.data, key, 3) != 0 ||
                (guard.rev == 0) != mirror->own[at])
                return false;
        sb_guard_release(&guard);
        return true;
}

static bool change_mirrored(struct sb_txn *txn, struct mirror *mirror, unsigned number, bool away)
{
        char key[8];

        snprintf(key, sizeof(key), "k%02x", number);
        if (away) {
                if (sb_txn_delete(txn, b(key)) != (mirror->there[number] ? 0 : SB_E_NOT_FOUND))
                        return false;
        } else if (set(txn, key, "own") != 0) {
                return false;
        }
        mirror->there[number] = mirror->own[number] = !away;
        return true;
}

static void test_scans_among_random_writes_of_their_transaction_are_exact(void)
{
        struct sb_scan *scan = NULL;
        struct mirror mirror = {0};
        struct sb_txn *txn;
        uint64_t random = 0x5eed;
        int position = 0;
        char key[8];

        BEGIN();
        for (unsigned i = 0; i < 256; i += 1 + i % 5) {
                snprintf(key, sizeof(key), "k%02x", i);
                CHECK_EQ(put(key, "theirs"), 0);
                mirror.there[i] = true;
        }
        CHECK(put("j", "0") == 0 && put("l", "0") == 0);
        txn = begin(SB_SERIALIZABLE);
        CHECK_EQ(sb_scan_open(bus, txn, b("k"), &scan), 0);
        for (unsigned i = 0; i < 20000; i++) {
                unsigned what, number;

                random = random * 6364136223846793005u + 1442695040888963407u;
                what = random >> 60;
                number = random >> 40 & 255;
                if (what < 4) {
                        CHECK(change_mirrored(txn, &mirror, number, what < 2));
                } else if (what == 4) {
                        snprintf(key, sizeof(key), "k%02x", number);
                        CHECK_EQ(sb_scan_seek(scan, b(key)), 0);
                        position = (int)number;
                } else if (!step_mirrored(scan, &mirror, &position, what < 10)) {
                        TEST_FAIL("step %u is wrong", i);
                }
        }
        CHECK(sb_scan_close(scan) == NULL);
        /* Nobody changed anything: all that was read stands. */
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        for (unsigned i = 0; i < 256; i++) {
                snprintf(key, sizeof(key), "k%02x", i);
                CHECK(mirror.there[i] ? has(other, key, mirror.own[i] ? "own" : "theirs")
                                      : lacks(key));
        }
        END();
}

static void test_a_scan_of_a_transaction_ends_with_it(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *ended = NULL, *decided = NULL, *plain = NULL;
        struct sb_txn *txn;
        uint64_t cut;

        BEGIN();
        CHECK_EQ(put("key", "value"), 0);
        txn = begin(SB_SNAPSHOT);
        cut = sb_txn_cut(txn);
        CHECK_EQ(sb_scan_open(bus, txn, none, &ended), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &plain), 0);
        CHECK_EQ(sb_scan_next(ended, &guard), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(guard.value.len == 5 && memcmp(guard.value.data, "value", 5) == 0);
        sb_guard_release(&guard);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_scan_open(bus, txn, none, &decided), 0);
        CHECK_EQ(sb_scan_next(decided, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        for (unsigned i = 0; i < 2; i++) {
                struct sb_scan *scan = i ? ended : decided;

                CHECK_EQ(sb_scan_next(scan, &guard), -EINVAL);
                CHECK_EQ(sb_scan_prev(scan, &guard), -EINVAL);
                CHECK_EQ(sb_scan_seek(scan, b("key")), -EINVAL);
                CHECK_EQ(sb_scan_seek_end(scan), -EINVAL);
        }
        CHECK_EQ(sb_scan_cut(ended), cut);
        CHECK(gives(plain, false, "key "));
        CHECK(sb_scan_close(ended) == NULL && sb_scan_close(plain) == NULL);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(sb_scan_close(decided) == NULL);
        END();
}

/* ---- limits ---- */

static void test_32_cuts_are_open_and_not_one_more(void)
{
        struct sb_txn *txns[31], *txn = NULL;
        struct sb_scan *scan = NULL, *inside = NULL, *more = NULL;

        BEGIN();
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        for (unsigned i = 0; i < 31; i++)
                CHECK((txns[i] = begin(SB_SNAPSHOT)) != NULL);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), SB_E_FULL);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &more), SB_E_FULL);
        CHECK(txn == NULL && more == NULL);
        /* One in a transaction has its cut; one that is decided has none. */
        CHECK_EQ(sb_scan_open(bus, txns[0], none, &inside), 0);
        CHECK_EQ(sb_txn_commit(txns[1], NULL), 0);
        CHECK((txn = begin(SB_SNAPSHOT)) != NULL);
        CHECK(sb_scan_close(inside) == NULL && sb_scan_close(scan) == NULL);
        CHECK(sb_txn_end(txn) == NULL);
        for (unsigned i = 0; i < 31; i++)
                CHECK(sb_txn_end(txns[i]) == NULL);
        END();
}

static void test_a_commit_without_room_says_so_stays_open_and_can_be_done_again(void)
{
        struct sb_write soon = {.size = sizeof(soon), .deadline_ns = 1};
        static char large[20000];
        struct sb_txn *txn;
        char key[32];
        unsigned count;

        BEGIN_SIZE(4 * MIB);
        CHECK_EQ(put("a", "old"), 0);
        for (count = 0;; count++) {
                snprintf(key, sizeof(key), "fill-%u", count);
                if (sb_set(other, b(key), (struct sb_bytes){large, sizeof(large)}, &soon, NULL) !=
                        0)
                        break;
        }
        txn = begin(SB_SERIALIZABLE);
        CHECK_EQ(set(txn, "a", "new"), 0);
        for (unsigned i = 0; i < 10; i++) {
                snprintf(key, sizeof(key), "mine-%u", i);
                CHECK_EQ(sb_txn_set(txn, b(key), (struct sb_bytes){large, sizeof(large)}), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, &soon), SB_E_FULL);
        CHECK(has(other, "a", "old") && lacks("mine-0"));
        CHECK(sees(txn, "a", "new") && sees(txn, "b", NULL));
        CHECK_EQ(set(txn, "b", "too"), 0);
        CHECK(sb_txn_end(txn) == NULL);
        /* With room, and not before, the same goes through. What is deleted after the cut stays
         * for the cut: so this one's begins behind. */
        for (unsigned i = 0; i < 20; i++) {
                snprintf(key, sizeof(key), "fill-%u", i);
                CHECK_EQ(take(key), 0);
        }
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "a", "new"), 0);
        for (unsigned i = 0; i < 30; i++) {
                snprintf(key, sizeof(key), "mine-%u", i);
                CHECK_EQ(sb_txn_set(txn, b(key), (struct sb_bytes){large, sizeof(large)}), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, &soon), SB_E_FULL);
        for (unsigned i = 10; i < 30; i++) {
                snprintf(key, sizeof(key), "mine-%u", i);
                CHECK_EQ(sb_txn_delete(txn, b(key)), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(has(other, "a", "new") && !lacks("mine-9") && lacks("mine-10"));
        END();
}

static void test_a_transaction_that_never_fits_is_emsgsize(void)
{
        struct sb_txn *txn;
        char key[32];

        BEGIN_SIZE(1 * MIB);
        CHECK_EQ(put("a", "old"), 0);
        txn = begin(SB_SNAPSHOT);
        /* Their offsets alone are more than the largest value. */
        for (unsigned i = 0; i <= bus->peer.segment.value_len_max / 8; i++) {
                snprintf(key, sizeof(key), "%u", i);
                CHECK_EQ(set(txn, key, ""), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, NULL), -EMSGSIZE);
        CHECK_EQ(sb_txn_commit(txn, NULL), -EMSGSIZE);
        CHECK(lacks("0") && lacks("77"));
        CHECK(sees(txn, "a", "old"));
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

static void test_begun_and_ended_for_ever_needs_no_more_memory(void)
{
        struct sb_txn *txn;
        char text[16];

        BEGIN_SIZE(1 * MIB);
        for (unsigned i = 0; i < 20000; i++) {
                snprintf(text, sizeof(text), "%u", i);
                txn = begin(i % 2);
                CHECK(txn != NULL);
                CHECK(set(txn, "one", text) == 0 && set(txn, "two", text) == 0);
                CHECK(set(txn, text, text) == 0);
                if (i % 3 == 0)
                        CHECK_EQ(put("two", "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), i % 3 == 0 ? SB_E_CONFLICT : 0);
                CHECK(sb_txn_end(txn) == NULL);
                if (i % 3 != 0)
                        CHECK_EQ(take(text), 0);
        }
        END();
}

/* ---- what is taken away, and misuse ---- */

static void test_a_cut_that_was_taken_away_is_lapped(void)
{
        struct sb_guard guard = {.rev = 7}, kept = {0};
        struct sb_scan *scan = NULL, *plain = NULL;
        struct sb_txn *txn, *reader;
        struct sb_cell64 *words;

        BEGIN();
        CHECK(put("a", "old") == 0 && put("b", "old") == 0);
        words = sb_client_snapshots(bus->peer.client);
        txn = begin(SB_SERIALIZABLE);
        reader = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &plain), 0);
        CHECK_EQ(sb_scan_open(bus, txn, none, &scan), 0);
        CHECK_EQ(sb_txn_get(txn, b("a"), &kept), 0);
        CHECK_EQ(set(txn, "mine", "mine"), 0);
        for (unsigned i = 0; i < 3; i++)
                sb_store_release(&words[i], 1);
        CHECK_EQ(sb_txn_get(txn, b("a"), &guard), SB_E_LAPPED);
        CHECK_EQ(sb_txn_get(txn, b("absent"), &guard), SB_E_LAPPED);
        CHECK_EQ(sb_txn_delete(txn, b("a")), SB_E_LAPPED);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
        CHECK_EQ(sb_scan_prev(scan, &guard), SB_E_LAPPED);
        CHECK_EQ(sb_scan_next(plain, &guard), SB_E_LAPPED);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_LAPPED);
        CHECK_EQ(sb_txn_commit(reader, NULL), SB_E_LAPPED);
        CHECK(guard.rev == 7 && guard.bus == NULL && lacks("mine"));
        /* What is held stays. */
        CHECK(kept.value.len == 3 && memcmp(kept.value.data, "old", 3) == 0);
        sb_guard_release(&kept);
        CHECK(sb_scan_close(scan) == NULL && sb_scan_close(plain) == NULL);
        CHECK(sb_txn_end(txn) == NULL && sb_txn_end(reader) == NULL);
        END();
}

static void test_after_its_decision_only_the_end_is_left(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;
        uint64_t cut;

        for (unsigned conflicts = 0; conflicts < 2; conflicts++) {
                BEGIN();
                txn = begin(SB_SNAPSHOT);
                cut = sb_txn_cut(txn);
                CHECK_EQ(set(txn, "key", "mine"), 0);
                if (conflicts)
                        CHECK_EQ(put("key", "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), conflicts ? SB_E_CONFLICT : 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), -EINVAL);
                CHECK_EQ(sb_txn_get(txn, b("key"), &guard), -EINVAL);
                CHECK_EQ(set(txn, "key", "again"), -EINVAL);
                CHECK_EQ(sb_txn_delete(txn, b("key")), -EINVAL);
                CHECK_EQ(sb_scan_open(bus, txn, none, &scan), -EINVAL);
                CHECK_EQ(sb_txn_cut(txn), cut);
                CHECK_EQ(sb_txn_conflict(txn).data != NULL, conflicts);
                CHECK_EQ(rev_of("key"), 1);
                sb_txn_endp(&txn);
                CHECK(txn == NULL);
                sb_txn_endp(&txn);
                CHECK(txn == NULL);
                END();
        }
}

static void test_misuse_is_named_and_changes_nothing(void)
{
        static char key_long[1025];
        struct sb_guard guard = {.rev = 7};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn, *none_yet = NULL;

        BEGIN();
        CHECK_EQ(sb_txn_begin(NULL, SB_SNAPSHOT, &none_yet), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE + 1, &none_yet), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, NULL), -EINVAL);
        CHECK(none_yet == NULL);
        CHECK_EQ(put("key", "value"), 0);
        txn = begin(SB_SERIALIZABLE);
        CHECK_EQ(sb_txn_get(NULL, b("key"), &guard), -EINVAL);
        CHECK_EQ(sb_txn_get(txn, b("key"), NULL), -EINVAL);
        CHECK_EQ(sb_txn_get(txn, none, &guard), -EINVAL);
        CHECK_EQ(sb_txn_get(txn, b(""), &guard), -EINVAL);
        CHECK_EQ(sb_txn_get(txn, (struct sb_bytes){key_long, 1025}, &guard), -ENAMETOOLONG);
        CHECK_EQ(sb_txn_set(NULL, b("key"), b("x")), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, b(""), b("x")), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){NULL, 3}), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, (struct sb_bytes){key_long, 1025}, b("x")), -ENAMETOOLONG);
        CHECK_EQ(sb_txn_delete(NULL, b("key")), -EINVAL);
        CHECK_EQ(sb_txn_delete(txn, none), -EINVAL);
        CHECK_EQ(sb_txn_delete(txn, (struct sb_bytes){key_long, 1025}), -ENAMETOOLONG);
        CHECK_EQ(sb_txn_commit(NULL, NULL), -EINVAL);
        CHECK_EQ(sb_txn_cut(NULL), 0);
        CHECK(sb_txn_conflict(NULL).data == NULL && sb_txn_end(NULL) == NULL);
        CHECK_EQ(sb_scan_open(other, txn, none, &scan), -EINVAL);
        CHECK(scan == NULL && guard.rev == 7 && guard.bus == NULL);
        CHECK(sees(txn, "key", "value"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK_EQ(rev_of("key"), 1);
        END();
}

static void test_how_is_judged_before_anything_happens(void)
{
        uint64_t cut = 77;
        struct sb_write how = {.size = sizeof(how), .ttl_ns = 1, .ret_cut = &cut};
        struct sb_txn *txn;

        BEGIN();
        /* Also when there is nothing to write. */
        for (unsigned writes = 0; writes < 2; writes++) {
                txn = begin(SB_SNAPSHOT);
                if (writes)
                        CHECK_EQ(set(txn, "key", "mine"), 0);
                how.ttl_ns = 1;
                how.durability = SB_DEFAULT;
                CHECK_EQ(sb_txn_commit(txn, &how), -ENOTSUP);
                how.ttl_ns = 0;
                how.durability = SB_BATCHED;
                CHECK_EQ(sb_txn_commit(txn, &how), -ENOTSUP);
                how.durability = SB_STRICT;
                CHECK_EQ(sb_txn_commit(txn, &how), SB_E_NOT_DURABLE);
                how.durability = SB_STRICT + 1;
                CHECK_EQ(sb_txn_commit(txn, &how), -EINVAL);
                how.durability = SB_VOLATILE;
                how.flags = 1;
                CHECK_EQ(sb_txn_commit(txn, &how), -EINVAL);
                how.flags = 0;
                how.size--;
                CHECK_EQ(sb_txn_commit(txn, &how), -EINVAL);
                how.size++;
                CHECK(cut == 77 && lacks("key"));
                CHECK_EQ(sb_txn_commit(txn, &how), 0);
                CHECK(cut != 77);
                cut = 77;
                CHECK(sb_txn_end(txn) == NULL);
        }
        END();
}

static void test_a_transaction_whose_bus_was_closed_is_detached(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn = NULL, *second = NULL;

        BEGIN();
        CHECK_EQ(sb_txn_begin(other, SB_SERIALIZABLE, &txn), 0);
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &second), 0);
        CHECK_EQ(set(txn, "key", "mine"), 0);
        CHECK_EQ(sb_scan_open(other, txn, none, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        other = sb_close(other);
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), SB_E_DETACHED);
        CHECK_EQ(set(txn, "key", "mine"), SB_E_DETACHED);
        CHECK_EQ(sb_txn_delete(txn, b("key")), SB_E_DETACHED);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_DETACHED);
        CHECK(sb_txn_cut(txn) > 0);
        CHECK(sb_txn_end(txn) == NULL && sb_txn_end(second) == NULL);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_DETACHED);
        CHECK(sb_scan_close(scan) == NULL);
        other = world_bus(&world);
        CHECK(other != NULL && lacks("key"));
        END();
}

/* In the child of a fork: 0, or the line where something was not as it should be. */
static int use_inherited(struct sb_txn *txn, struct sb_scan *scan, struct sb_guard *guard)
{
#define EXPECT(...)                                                                                \
        do {                                                                                       \
                if (!(__VA_ARGS__))                                                                \
                        return __LINE__;                                                           \
        } while (0)
        struct sb_guard mine = {0};
        struct sb_scan *opened = NULL;
        struct sb_txn *begun = NULL;

        EXPECT(sb_txn_begin(bus, SB_SNAPSHOT, &begun) == SB_E_DETACHED);
        EXPECT(sb_txn_get(txn, b("key"), &mine) == SB_E_DETACHED);
        EXPECT(sb_txn_get(txn, b("mine"), &mine) == SB_E_DETACHED);
        EXPECT(set(txn, "key", "child's") == SB_E_DETACHED);
        EXPECT(sb_txn_delete(txn, b("key")) == SB_E_DETACHED);
        EXPECT(sb_txn_commit(txn, NULL) == SB_E_DETACHED);
        EXPECT(sb_scan_open(bus, txn, none, &opened) == SB_E_DETACHED);
        EXPECT(sb_scan_next(scan, &mine) == SB_E_DETACHED);
        EXPECT(sb_transact(bus, SB_SNAPSHOT, NULL, NULL, NULL) == -EINVAL);
        EXPECT(guard->value.len == 4 && memcmp(guard->value.data, "mine", 4) == 0);
        sb_guard_release(guard);
        EXPECT(sb_txn_end(txn) == NULL);
        EXPECT(sb_scan_close(scan) == NULL);
        EXPECT(sb_close(bus) == NULL);
        return 0;
#undef EXPECT
}

static void test_a_forked_child_can_only_end_its_parents_transaction(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;
        int status;
        pid_t pid;

        BEGIN();
        CHECK_EQ(put("key", "old"), 0);
        txn = begin(SB_SERIALIZABLE);
        CHECK_EQ(set(txn, "mine", "mine"), 0);
        CHECK_EQ(sb_txn_get(txn, b("mine"), &guard), 0);
        CHECK_EQ(sb_scan_open(bus, txn, none, &scan), 0);
        pid = fork();
        if (pid == 0) {
                int line = use_inherited(txn, scan, &guard);

                if (line != 0)
                        fprintf(stderr, "api-txn.c:%d in the child\n", line);
                _exit(line != 0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
        /* The parent's cut is still announced, its writes are there, and it commits. */
        for (unsigned i = 0; i < 3000; i++)
                CHECK_EQ(put("key", "new"), 0);
        CHECK(sees(txn, "mine", "mine"));
        sb_guard_release(&guard);
        CHECK(gives(scan, false, "key [mine] "));
        CHECK(sb_scan_close(scan) == NULL);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "key"));
        CHECK(sb_txn_end(txn) == NULL);
        END();
}

static void test_a_transaction_of_a_segment_that_was_replaced_is_detached(void)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn;

        BEGIN();
        if (world.remote) {
                sb_close(other);
                sb_close(bus);
                world_close(&world);
                TEST_SKIP("the test writes the superblock itself");
        }
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(set(txn, "key", "mine"), 0);
        sb_store_release(&world.segment.super->state, SB_SEGMENT_REPLACED);
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), SB_E_DETACHED);
        CHECK_EQ(set(txn, "key", "mine"), SB_E_DETACHED);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_DETACHED);
        CHECK(sb_txn_end(txn) == NULL);
        CHECK(sb_close(other) == NULL && sb_close(bus) == NULL);
        world_drop(&world);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_reads_are_at_the_cut_whatever_is_written_afterwards);
        RUN(test_a_cut_has_what_was_written_before_begin);
        RUN(test_own_writes_are_read_first);
        RUN(test_writes_are_nobodys_business_before_the_commit_nor_without_one);
        RUN(test_keys_and_values_are_copied);
        RUN(test_a_commit_makes_all_writes_visible_at_one_cut_under_one_number);
        RUN(test_each_way_to_read_tells_the_transaction_that_wrote);
        RUN(test_a_commit_without_writes_gives_the_cut_that_was_read_at);
        RUN(test_delete_takes_values_away_with_the_commit);
        RUN(test_delete_of_an_own_new_key_takes_the_write_back);
        RUN(test_thousands_of_keys_are_one_commit);
        RUN(test_values_up_to_eight_bytes_less_than_a_plain_one_fit);
        RUN(test_a_key_that_another_wrote_since_the_cut_is_a_conflict_and_named);
        RUN(test_a_key_that_another_made_or_deleted_since_the_cut_is_a_conflict);
        RUN(test_of_two_that_write_one_key_the_first_to_commit_wins);
        RUN(test_two_of_one_bus_conflict_as_those_of_two);
        RUN(test_write_skew_is_possible_in_snapshot_and_not_in_serializable);
        RUN(test_serializable_conflicts_with_changes_of_what_it_read_and_of_nothing_else);
        RUN(test_snapshot_isolation_does_not_mind_what_it_read);
        RUN(test_own_writes_in_what_was_read_are_no_conflict);
        RUN(test_a_write_that_was_taken_back_leaves_what_it_found_absent);
        RUN(test_more_reads_than_a_commit_can_carry_only_make_it_coarser);
        RUN(test_guards_stay_valid_after_the_end);
        RUN(test_guards_of_own_writes_and_their_copies_are_released_once);
        RUN(test_a_bus_that_is_closed_ends_all_guards_of_own_writes);
        RUN(test_a_scan_has_own_writes_merged_in_order);
        RUN(test_a_scan_of_a_prefix_has_only_own_writes_with_the_prefix);
        RUN(test_a_scan_shows_writes_that_are_made_ahead_of_it);
        RUN(test_scans_among_random_writes_of_their_transaction_are_exact);
        RUN(test_a_scan_of_a_transaction_ends_with_it);
        RUN(test_32_cuts_are_open_and_not_one_more);
        RUN(test_a_commit_without_room_says_so_stays_open_and_can_be_done_again);
        RUN(test_a_transaction_that_never_fits_is_emsgsize);
        RUN(test_begun_and_ended_for_ever_needs_no_more_memory);
        RUN(test_a_cut_that_was_taken_away_is_lapped);
        RUN(test_after_its_decision_only_the_end_is_left);
        RUN(test_misuse_is_named_and_changes_nothing);
        RUN(test_how_is_judged_before_anything_happens);
        RUN(test_a_transaction_whose_bus_was_closed_is_detached);
        RUN(test_a_forked_child_can_only_end_its_parents_transaction);
        RUN(test_a_transaction_of_a_segment_that_was_replaced_is_detached);
        return test_end();
}
