/* The limits of transactions, cuts that an operator takes away, and misuse: each has a result with
 * a name, and nothing happens. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "tests/api/txns.h"

/* ---- limits ---- */

static void test_32_cuts_are_open_and_not_one_more(void)
{
        struct sb_txn *txns[31], *txn = NULL;
        struct sb_scan *scan = NULL, *inside = NULL, *more = NULL;

        BEGIN();
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        for (unsigned i = 0; i < 31; i++)
                CHECK((txns[i] = begin(SB_SNAPSHOT)));
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), SB_E_FULL);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &more), SB_E_FULL);
        CHECK(!txn && !more && sb_admin_full(bus) == SB_ADMIN_FULL_CUTS);
        /* A scan in a transaction reads at the cut of the transaction, and takes none of its own; a
         * transaction that is decided holds no cut. */
        CHECK_EQ(sb_scan_open(bus, txns[0], none, &inside), 0);
        CHECK_EQ(sb_txn_commit(txns[1], NULL), 0);
        CHECK((txn = begin(SB_SNAPSHOT)));
        CHECK(!sb_scan_close(inside) && !sb_scan_close(scan));
        CHECK(!sb_txn_end(txn));
        for (unsigned i = 0; i < 31; i++)
                CHECK(!sb_txn_end(txns[i]));
        END();
}

static void test_a_commit_without_memory_says_so_stays_open_and_can_be_done_again(void)
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
        CHECK_EQ(sb_admin_full(bus), SB_ADMIN_FULL_MEMORY);
        CHECK(has(other, "a", "old") && lacks("mine-0"));
        CHECK(sees(txn, "a", "new") && sees(txn, "b", NULL));
        CHECK_EQ(set(txn, "b", "too"), 0);
        CHECK(!sb_txn_end(txn));
        /* With free memory, and not before, the same commit goes through. What is deleted after a
         * cut stays for that cut, so this transaction begins after the deletes. */
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
        CHECK(!sb_txn_end(txn));
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
        /* The offsets of these writes alone are more than the largest value. */
        for (unsigned i = 0; i <= bus->handle.segment.value_len_max / 8; i++) {
                snprintf(key, sizeof(key), "%u", i);
                CHECK_EQ(set(txn, key, ""), 0);
        }
        CHECK_EQ(sb_txn_commit(txn, NULL), -EMSGSIZE);
        CHECK_EQ(sb_txn_commit(txn, NULL), -EMSGSIZE);
        CHECK(lacks("0") && lacks("77"));
        CHECK(sees(txn, "a", "old"));
        CHECK(!sb_txn_end(txn));
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
                CHECK(txn);
                CHECK(set(txn, "one", text) == 0 && set(txn, "two", text) == 0);
                CHECK(set(txn, text, text) == 0);
                if (i % 3 == 0)
                        CHECK_EQ(put("two", "theirs"), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), i % 3 == 0 ? SB_E_CONFLICT : 0);
                CHECK(!sb_txn_end(txn));
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
        struct sb_word64 *words;

        BEGIN();
        CHECK(put("a", "old") == 0 && put("b", "old") == 0);
        words = sb_record_snapshots(bus->handle.record);
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
        CHECK(guard.rev == 7 && !guard.bus && lacks("mine"));
        /* Guards stay valid. */
        CHECK(kept.value.len == 3 && memcmp(kept.value.data, "old", 3) == 0);
        sb_guard_release(&kept);
        CHECK(!sb_scan_close(scan) && !sb_scan_close(plain));
        CHECK(!sb_txn_end(txn) && !sb_txn_end(reader));
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
                CHECK_EQ(!!sb_txn_conflict(txn).data, conflicts);
                CHECK_EQ(rev_of("key"), 1);
                sb_txn_endp(&txn);
                CHECK(!txn);
                sb_txn_endp(&txn);
                CHECK(!txn);
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
        CHECK(!none_yet);
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
        CHECK(!sb_txn_conflict(NULL).data && !sb_txn_end(NULL));
        CHECK_EQ(sb_scan_open(other, txn, none, &scan), -EINVAL);
        CHECK(!scan && guard.rev == 7 && !guard.bus);
        CHECK(sees(txn, "key", "value"));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(rev_of("key"), 1);
        END();
}

static void test_how_is_judged_before_anything_happens(void)
{
        uint64_t cut = 77;
        struct sb_write how = {.size = sizeof(how), .ttl_ns = 1, .ret_cut = &cut};
        struct sb_txn *txn;

        WORLD_WITHOUT_LOG();
        BEGIN();
        /* This holds when there is nothing to write, too. */
        for (unsigned writes = 0; writes < 2; writes++) {
                txn = begin(SB_SNAPSHOT);
                if (writes)
                        CHECK_EQ(set(txn, "key", "mine"), 0);
                how.ttl_ns = 1;
                how.durability = SB_DEFAULT;
                CHECK_EQ(sb_txn_commit(txn, &how), -ENOTSUP);
                how.ttl_ns = 0;
                how.durability = SB_BATCHED;
                CHECK_EQ(sb_txn_commit(txn, &how), SB_E_NOT_DURABLE);
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
                CHECK(!sb_txn_end(txn));
        }
        END();
}

static void test_a_transaction_on_a_closed_bus_is_detached(void)
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
        sb_guard_release(&guard);
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), SB_E_DETACHED);
        CHECK_EQ(set(txn, "key", "mine"), SB_E_DETACHED);
        CHECK_EQ(sb_txn_delete(txn, b("key")), SB_E_DETACHED);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_DETACHED);
        CHECK(sb_txn_cut(txn) > 0);
        CHECK(!sb_txn_end(txn) && !sb_txn_end(second));
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_DETACHED);
        CHECK(!sb_scan_close(scan));
        other = world_bus(&world);
        CHECK(other && lacks("key"));
        END();
}

/* Runs in the child of a fork. Return: 0, or the line where something was not as it should be. */
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
        EXPECT(!sb_txn_end(txn));
        EXPECT(!sb_scan_close(scan));
        EXPECT(!sb_close(bus));
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
        /* The parent's cut is still announced, its writes are in the transaction, and it
         * commits. */
        for (unsigned i = 0; i < 3000; i++)
                CHECK_EQ(put("key", "new"), 0);
        CHECK(sees(txn, "mine", "mine"));
        sb_guard_release(&guard);
        CHECK(gives(scan, false, "key [mine] "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_CONFLICT);
        CHECK(conflict_is(txn, "key"));
        CHECK(!sb_txn_end(txn));
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
        CHECK(!sb_txn_end(txn));
        CHECK(!sb_close(other) && !sb_close(bus));
        world_drop(&world);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_32_cuts_are_open_and_not_one_more);
        RUN(test_a_commit_without_memory_says_so_stays_open_and_can_be_done_again);
        RUN(test_a_transaction_that_never_fits_is_emsgsize);
        RUN(test_begun_and_ended_for_ever_needs_no_more_memory);
        RUN(test_a_cut_that_was_taken_away_is_lapped);
        RUN(test_after_its_decision_only_the_end_is_left);
        RUN(test_misuse_is_named_and_changes_nothing);
        RUN(test_how_is_judged_before_anything_happens);
        RUN(test_a_transaction_on_a_closed_bus_is_detached);
        RUN(test_a_forked_child_can_only_end_its_parents_transaction);
        RUN(test_a_transaction_of_a_segment_that_was_replaced_is_detached);
        return test_end();
}
