/*
 * Transactions: what they read, what other clients see of them, their guards and scans. Tests of
 * what makes them fail are in api-conflicts.c and api-limits.c; histories of many transactions at
 * once are judged elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "tests/api/txns.h"

/* ---- reads ---- */

static void test_reads_are_at_the_cut_whatever_is_written_afterwards(void)
{
        struct sb_txn *txn;

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK(put("changed", "before") == 0 && put("deleted", "before") == 0);
                txn = begin(isolation);
                CHECK(txn && sb_txn_cut(txn) > 0);
                CHECK(put("changed", "after") == 0 && take("deleted") == 0);
                CHECK(put("made", "after") == 0);
                for (unsigned i = 0; i < 2; i++) {
                        CHECK(sees(txn, "changed", "before") && sees(txn, "deleted", "before"));
                        CHECK(sees(txn, "made", NULL));
                }
                CHECK(!sb_txn_end(txn));
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
                CHECK(!sb_txn_end(txn));
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
        CHECK(guard.bus == bus && !guard.old_value.data);
        sb_guard_release(&guard);
        CHECK_EQ(set(txn, "key", ""), 0);
        CHECK(sees(txn, "key", ""));
        CHECK_EQ(sb_txn_delete(txn, b("key")), 0);
        CHECK(sees(txn, "key", NULL));
        CHECK_EQ(set(txn, "key", "again"), 0);
        CHECK(sees(txn, "key", "again"));
        CHECK(!sb_txn_end(txn));
        END();
}

static void test_no_other_client_sees_writes_before_the_commit_nor_without_one(void)
{
        struct sb_txn *txn;

        BEGIN();
        CHECK(put("key", "old") == 0 && put("kept", "old") == 0);
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "key", "new") == 0 && set(txn, "made", "new") == 0);
        CHECK_EQ(sb_txn_delete(txn, b("kept")), 0);
        CHECK(has(other, "key", "old") && has(bus, "kept", "old") && lacks("made"));
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(sb_get(bus, keys[1], &guards[0]), 0);
        CHECK_EQ(sb_get_many(bus, keys, 2, guards + 1), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guards[3]), 0);
        CHECK(guards[0].txn != 0 && guards[0].value.len == 0);
        for (unsigned i = 0; i < 4; i++) {
                CHECK_EQ(guards[i].txn, guards[0].txn);
                sb_guard_release(&guards[i]);
        }
        CHECK(!sb_scan_close(scan));
        /* The next transaction has another number; a plain write has none. */
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_set(txn, keys[0], b("y")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
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
                CHECK(!sb_txn_conflict(txn).data);
                CHECK(!sb_txn_end(txn));
                END();
        }
}

static void test_delete_takes_values_away_with_the_commit(void)
{
        struct sb_admin_client client;
        struct sb_txn *txn;
        uint32_t number;

        BEGIN();
        CHECK(put("one", "1") == 0 && put("two", "2") == 0);
        txn = begin(SB_SNAPSHOT);
        number = bus->handle.slot;
        CHECK_EQ(sb_txn_delete(txn, b("one")), 0);
        CHECK_EQ(sb_txn_delete(txn, b("one")), SB_E_NOT_FOUND);
        CHECK_EQ(sb_txn_delete(txn, b("absent")), SB_E_NOT_FOUND);
        /* The delete looked at the value and holds no guard on it. */
        CHECK(sb_admin_client_next(other, &number, &client) == 0 && number > bus->handle.slot);
        CHECK_EQ(client.guards, 0);
        CHECK_EQ(set(txn, "two", "mine"), 0);
        CHECK_EQ(sb_txn_delete(txn, b("two")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
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
        /* Nothing is left to write, so no write of another client is in conflict with it. */
        CHECK_EQ(put("key", "theirs"), 0);
        CHECK_EQ(sb_txn_commit(txn, &how), 0);
        CHECK_EQ(cut, sb_txn_cut(txn));
        CHECK(!sb_txn_end(txn));
        CHECK(has(other, "key", "theirs") && rev_of("key") == 1);
        /* A key that is set once more is written. */
        txn = begin(SB_SNAPSHOT);
        CHECK(set(txn, "new", "1") == 0 && sb_txn_delete(txn, b("new")) == 0);
        CHECK(set(txn, "new", "2") == 0 && sees(txn, "new", "2"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
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
        /* The page size rounds a segment up, and with it the largest value. */
        most = bus->handle.segment.value_len_max;
        large = realloc(large, most);
        memset(large, 'v', most);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, most - 7}), -EMSGSIZE);
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, SIZE_MAX}), -EMSGSIZE);
        CHECK(sees(txn, "key", NULL));
        CHECK_EQ(sb_txn_set(txn, b("key"), (struct sb_bytes){large, most - 8}), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(sb_get(other, b("key"), &guard), 0);
        CHECK(guard.value.len == most - 8 && memcmp(guard.value.data, large, most - 8) == 0);
        CHECK(guard.txn != 0);
        sb_guard_release(&guard);
        free(large);
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
        CHECK(!sb_txn_end(txn));
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
        /* The next guard takes the same entry. */
        CHECK_EQ(sb_txn_get(txn, b("key"), &next), 0);
        sb_guard_release(&copy);
        /* The same holds for a copy that is filled anew. */
        CHECK_EQ(put("plain", "plain"), 0);
        CHECK_EQ(sb_get(bus, b("plain"), &copy), 0);
        CHECK_EQ(sb_get(bus, b("plain"), &third), 0);
        sb_guard_release(&copy);
        sb_guard_release(&third);
        CHECK(!sb_txn_end(txn));
        CHECK(next.value.len == 5 && memcmp(next.value.data, "value", 5) == 0);
        CHECK(bus->held);
        sb_guard_release(&next);
        CHECK(!bus->held);
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
        CHECK(!sb_txn_end(past));
        other = sb_close(other);
        CHECK(!sb_txn_end(txn));
        sb_guard_release(&open);
        sb_guard_release(&ended);
        other = world_bus(&world);
        CHECK(other);
        END();
}

/* ---- scans ---- */

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
                CHECK(!sb_scan_close(scan));
                CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_txn_end(txn));
        END();
}

/* A mirror of what a transaction sees: which of the keys 00..ff are there. */
struct mirror {
        bool there[256], own[256];
};

/* Take a step in the scan and in the mirror. Return: false when they differ. */
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
        snprintf(key, sizeof(key), "k%02x", (uint8_t)at);
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
        CHECK(!sb_scan_close(scan));
        /* No client changed anything, so all that was read still holds. */
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
        CHECK(guard.value.len == 5 && memcmp(guard.value.data, "value", 5) == 0);
        sb_guard_release(&guard);
        /* The ended scan does not touch the next transaction. */
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_scan_next(ended, &guard), -EINVAL);
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
        CHECK(!sb_scan_close(ended) && !sb_scan_close(plain));
        CHECK(!sb_txn_end(txn));
        CHECK(!sb_scan_close(decided));
        END();
}

/* Whichever of them are closed before it ends, and in whichever order: the others learn that it has
 * ended. */
static void test_scans_of_a_transaction_are_closed_in_any_order(void)
{
        static const uint32_t orders[6][3] = {
                {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

        BEGIN();
        CHECK_EQ(put("a", "0"), 0);
        for (uint32_t i = 0; i < 6 * 4; i++) {
                const uint32_t *order = orders[i / 4], before = i % 4;
                struct sb_txn *txn = begin(SB_SERIALIZABLE);
                struct sb_scan *scans[3] = {NULL, NULL, NULL};
                struct sb_guard guard = {0};

                for (uint32_t j = 0; j < 3; j++)
                        CHECK_EQ(sb_scan_open(bus, txn, none, &scans[j]), 0);
                for (uint32_t j = 0; j < before; j++)
                        CHECK(!sb_scan_close(scans[order[j]]));
                CHECK(!sb_txn_end(txn));
                for (uint32_t j = before; j < 3; j++)
                        CHECK_EQ(sb_scan_next(scans[order[j]], &guard), -EINVAL);
                for (uint32_t j = before; j < 3; j++)
                        CHECK(!sb_scan_close(scans[order[j]]));
        }
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_reads_are_at_the_cut_whatever_is_written_afterwards);
        RUN(test_a_cut_has_what_was_written_before_begin);
        RUN(test_own_writes_are_read_first);
        RUN(test_no_other_client_sees_writes_before_the_commit_nor_without_one);
        RUN(test_keys_and_values_are_copied);
        RUN(test_a_commit_makes_all_writes_visible_at_one_cut_under_one_number);
        RUN(test_each_way_to_read_tells_the_transaction_that_wrote);
        RUN(test_a_commit_without_writes_gives_the_cut_that_was_read_at);
        RUN(test_delete_takes_values_away_with_the_commit);
        RUN(test_delete_of_an_own_new_key_takes_the_write_back);
        RUN(test_thousands_of_keys_are_one_commit);
        RUN(test_values_up_to_eight_bytes_less_than_a_plain_one_fit);
        RUN(test_guards_stay_valid_after_the_end);
        RUN(test_guards_of_own_writes_and_their_copies_are_released_once);
        RUN(test_a_bus_that_is_closed_ends_all_guards_of_own_writes);
        RUN(test_a_scan_has_own_writes_merged_in_order);
        RUN(test_a_scan_of_a_prefix_has_only_own_writes_with_the_prefix);
        RUN(test_a_scan_shows_writes_that_are_made_ahead_of_it);
        RUN(test_scans_among_random_writes_of_their_transaction_are_exact);
        RUN(test_a_scan_of_a_transaction_ends_with_it);
        RUN(test_scans_of_a_transaction_are_closed_in_any_order);
        return test_end();
}
