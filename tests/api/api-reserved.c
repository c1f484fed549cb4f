/* The bus's own keys: every call reads them, and none of those that write takes one. So no caller
 * forges, changes or drops a mark or a rule but by the calls for marks and rules. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/layout/reserved.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static uint64_t marked;
static const struct sb_bytes none = {NULL, 0};

#define KEY(text)                                                                                  \
        {                                                                                          \
                text, sizeof(text) - 1                                                             \
        }
/* The keys of the mark and of the rule below, keys that would forge one, and keys of no meaning; of
 * lengths that a write takes the short way with, and of others. */
static const struct sb_bytes own[] = {KEY("\0sb\0"), KEY("\0sb\0mark\0there"),
        KEY("\0sb\0mark\0forged"), KEY("\0sb\0keep\0Pkept/"), KEY("\0sb\0keep\0P"),
        KEY("\0sb\0xxxx"), KEY("\0sb\0lease\0and so on")};
#define OWN_COUNT (sizeof(own) / sizeof(own[0]))
/* Keys beside them, which are anybody's. */
static const struct sb_bytes near[] = {KEY("\0"), KEY("\0s"), KEY("\0sb"), KEY("\0sb\1"),
        KEY("\0sb\1mark\0there"), KEY("\0sa\377xxxxx"), KEY("\0sc\0mark\0x"), KEY("sb\0mark\0x"),
        KEY("\0\0sb\0mark\0x")};
#define NEAR_COUNT (sizeof(near) / sizeof(near[0]))

static const struct sb_rule all_of_it = {.size = sizeof(struct sb_rule), .kind = SB_KEEP_ALL};

/* A bus with a mark and a rule, which both stand at the end. */
static void begin(void)
{
        CHECK_EQ(sb_mark(bus, b("there"), &marked), 0);
        CHECK_EQ(sb_keep(bus, b("kept/"), SB_PREFIX, &all_of_it), 0);
}
static void end(void)
{
        struct sb_rule rule;
        uint64_t cut = 0;

        CHECK_EQ(sb_mark_find(bus, b("there"), &cut), 0);
        CHECK_EQ(cut, marked);
        CHECK_EQ(sb_mark_find(bus, b("forged"), &cut), SB_E_NOT_FOUND);
        CHECK_EQ(sb_kept(bus, b("kept/"), SB_PREFIX, &rule), 0);
        CHECK_EQ(rule.kind, SB_KEEP_ALL);
        CHECK_EQ(sb_kept(bus, none, SB_PREFIX, &rule), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark_drop(bus, b("there")), 0);
}
#define BEGIN()                                                                                    \
        do {                                                                                       \
                WORLD_BEGIN(16 * MIB);                                                             \
                begin();                                                                           \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                end();                                                                             \
                WORLD_END();                                                                       \
        } while (0)

/* The revision of a key; 0: it has no value. */
static uint64_t rev_of(struct sb_bytes key)
{
        struct sb_guard guard = {0};
        uint64_t rev = sb_get(bus, key, &guard) == 0 ? guard.rev : 0;

        sb_guard_release(&guard);
        return rev;
}

static int never_called(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)old;
        *(bool *)argument = true;
        *ret_value = b("x");
        return 0;
}

static void test_plain_writes_refuse_the_buss_own_keys_and_change_nothing(void)
{
        uint64_t rev = 7, cut = 7;
        const struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        /* As long as a mark's value and a rule's: what a forger would write. */
        const struct sb_bytes value = {"                ", 16},
                              longer = {"                        ", 24};
        bool called = false;
        int64_t sum = 7;

        BEGIN();
        for (size_t i = 0; i < OWN_COUNT; i++) {
                uint64_t before = rev_of(own[i]);

                CHECK_EQ(sb_set(bus, own[i], value, NULL, NULL), -EPERM);
                CHECK_EQ(sb_set(bus, own[i], longer, NULL, &rev), -EPERM);
                CHECK_EQ(sb_set(bus, own[i], longer, &how, &rev), -EPERM);
                CHECK_EQ(sb_set(bus, own[i], none, &how, &rev), -EPERM);
                CHECK_EQ(sb_cas(bus, own[i], before, longer, NULL, &rev), -EPERM);
                CHECK_EQ(sb_cas(bus, own[i], before + 1, longer, NULL, &rev), -EPERM);
                CHECK_EQ(sb_delete(bus, own[i], SB_ANY_REV, NULL, &rev), -EPERM);
                CHECK_EQ(sb_delete(bus, own[i], before + 1, &how, &rev), -EPERM);
                CHECK_EQ(sb_update(bus, own[i], never_called, &called, NULL, &rev), -EPERM);
                CHECK_EQ(sb_incr(bus, own[i], 1, NULL, &sum, &rev), -EPERM);
                CHECK_EQ(sb_max(bus, own[i], 1, NULL, &sum, &rev), -EPERM);
                CHECK_EQ(sb_append(bus, own[i], b("x"), NULL, &rev), -EPERM);
                CHECK_EQ(sb_append(bus, own[i], none, &how, &rev), -EPERM);
                CHECK_EQ(rev_of(own[i]), before);
        }
        CHECK(rev == 7 && cut == 7 && sum == 7 && !called);
        END();
}

static int write_own(void *argument, struct sb_txn *txn)
{
        return sb_txn_set(txn, *(const struct sb_bytes *)argument, b("x"));
}

static void test_transactions_refuse_them_at_the_call(void)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn = NULL;

        BEGIN();
        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                CHECK_EQ(sb_txn_begin(bus, isolation, &txn), 0);
                CHECK_EQ(sb_txn_set(txn, b("beside"), b("x")), 0);
                for (size_t i = 0; i < OWN_COUNT; i++) {
                        CHECK_EQ(sb_txn_set(txn, own[i], b("x")), -EPERM);
                        CHECK_EQ(sb_txn_delete(txn, own[i]), -EPERM);
                }
                /* Reads are as they were, and the transaction is open. */
                CHECK_EQ(sb_txn_get(txn, own[1], &guard), 0);
                sb_guard_release(&guard);
                CHECK_EQ(sb_txn_get(txn, own[2], &guard), SB_E_NOT_FOUND);
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                CHECK(!sb_txn_end(txn));
                CHECK(has(bus, "beside", "x"));
        }
        for (size_t i = 0; i < OWN_COUNT; i++)
                CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, write_own, (void *)&own[i], NULL), -EPERM);
        END();
}

static void test_marks_and_rules_do_not_take_such_names(void)
{
        uint64_t cut = 7;

        BEGIN();
        for (size_t i = 0; i < OWN_COUNT; i++) {
                CHECK_EQ(sb_mark(bus, own[i], &cut), -EPERM);
                CHECK_EQ(sb_keep(bus, own[i], 0, &all_of_it), -EPERM);
                CHECK_EQ(sb_keep(bus, own[i], SB_PREFIX, &all_of_it), -EPERM);
        }
        CHECK_EQ(cut, 7);
        END();
}

static void test_restore_leaves_marks_and_rules_as_they_are(void)
{
        static const struct sb_bytes prefixes[] = {KEY(""), KEY("\0"), KEY("\0sb")};
        struct sb_rule rule;
        uint64_t before, cut;

        BEGIN();
        CHECK_EQ(sb_keep(bus, none, SB_PREFIX, &all_of_it), 0);
        CHECK_EQ(sb_set(bus, near[2], b("old"), NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("gone"), &before), 0);
        CHECK_EQ(sb_mark(bus, b("before"), &before), 0);
        CHECK_EQ(sb_mark_drop(bus, b("gone")), 0);
        CHECK_EQ(sb_mark(bus, b("new"), &cut), 0);
        CHECK_EQ(sb_keep(bus, b("new/"), SB_PREFIX, &all_of_it), 0);
        for (size_t i = 0; i < OWN_COUNT; i++) {
                CHECK_EQ(sb_restore(bus, own[i], 0, before, NULL), -EPERM);
                CHECK_EQ(sb_restore(bus, own[i], SB_PREFIX, before, NULL), -EPERM);
        }
        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
                struct sb_guard guard = {0};

                CHECK_EQ(sb_set(bus, near[2], b("newer"), NULL, NULL), 0);
                CHECK_EQ(sb_restore(bus, prefixes[i], SB_PREFIX, before, NULL), 0);
                CHECK_EQ(sb_get(bus, near[2], &guard), 0);
                CHECK(guard.value.len == 3 && memcmp(guard.value.data, "old", 3) == 0);
                sb_guard_release(&guard);
                CHECK_EQ(sb_mark_find(bus, b("gone"), &cut), SB_E_NOT_FOUND);
                CHECK_EQ(sb_mark_find(bus, b("new"), &cut), 0);
                CHECK_EQ(sb_kept(bus, b("new/"), SB_PREFIX, &rule), 0);
        }
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        CHECK_EQ(sb_mark_drop(bus, b("new")), 0);
        rule = (struct sb_rule){.size = sizeof(rule), .kind = SB_KEEP_NEWEST};
        CHECK_EQ(sb_keep(bus, none, SB_PREFIX, &rule), 0);
        END();
}

static void test_keys_beside_them_are_like_any_other(void)
{
        struct sb_txn *txn = NULL;
        uint64_t rev, cut;
        int64_t sum = 0;

        BEGIN();
        for (size_t i = 0; i < NEAR_COUNT; i++) {
                CHECK_EQ(sb_set(bus, near[i], b("12345678"), NULL, NULL), 0);
                CHECK_EQ(sb_set(bus, near[i], b("23456789"), NULL, &rev), 0); /* the short way */
                CHECK_EQ(sb_cas(bus, near[i], rev, b("34567890"), NULL, NULL), 0);
                CHECK_EQ(sb_incr(bus, near[i], 1, NULL, &sum, NULL), 0);
                CHECK_EQ(sum, 34567891);
                CHECK_EQ(sb_max(bus, near[i], 40000000, NULL, &sum, NULL), 0);
                CHECK_EQ(sb_append(bus, near[i], b("1"), NULL, NULL), 0);
                CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE, &txn), 0);
                CHECK_EQ(sb_txn_delete(txn, near[i]), 0);
                CHECK_EQ(sb_txn_set(txn, near[i], b("x")), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                CHECK(!sb_txn_end(txn));
                CHECK_EQ(sb_mark(bus, near[i], &cut), 0);
                CHECK_EQ(sb_restore(bus, near[i], 0, cut, NULL), 0);
                CHECK_EQ(sb_mark_drop(bus, near[i]), 0);
                CHECK_EQ(sb_keep(bus, near[i], 0, &all_of_it), 0);
                CHECK_EQ(sb_delete(bus, near[i], SB_ANY_REV, NULL, NULL), 0);
        }
        END();
}

static void test_the_buss_own_keys_are_read_as_others_are(void)
{
        static const struct sb_bytes marks = {SB_RESERVED_MARK, SB_MARK_PREFIX};
        struct sb_guard guards[2] = {0};
        struct sb_history *history = NULL;
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK_EQ(sb_get(bus, own[1], &guards[0]), 0);
        CHECK_EQ(guards[0].value.len, sizeof(struct sb_named_value));
        sb_guard_release(&guards[0]);
        CHECK_EQ(sb_get_many(bus, &own[1], 2, guards), 0);
        CHECK(guards[0].bus && !guards[1].bus);
        sb_guard_release(&guards[0]);
        /* A mark keeps none of them: it is not known whether there was one. */
        CHECK_EQ(sb_get_at(bus, own[2], marked, &guards[0]), SB_E_LAPPED);
        CHECK_EQ(sb_history_open(bus, own[1], 0, &history), 0);
        CHECK_EQ(sb_history_next(history, &guards[0], NULL), 0);
        sb_guard_release(&guards[0]);
        CHECK(!sb_history_close(history));
        CHECK_EQ(sb_scan_open(bus, NULL, marks, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guards[0]), 0);
        CHECK(guards[0].key.len == own[1].len &&
                memcmp(guards[0].key.data, own[1].data, own[1].len) == 0);
        sb_guard_release(&guards[0]);
        CHECK_EQ(sb_scan_next(scan, &guards[0]), SB_E_NOT_FOUND);
        CHECK(!sb_scan_close(scan));
        END();
}

/* Scan a range in a serializable transaction, to its end; then a mark is made, and the transaction
 * commits. Return: the result of that; -1: the scan did not give @count keys. */
static int read_and_commit(
        const struct sb_scan_options *how, const struct sb_bytes *seek, unsigned count)
{
        struct sb_scan_options in_txn = *how;
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn = NULL;
        uint64_t cut;
        int r;

        r = sb_txn_begin(bus, SB_SERIALIZABLE, &txn);
        in_txn.txn = txn;
        r = r != 0 ? r : sb_scan_open_at(bus, none, &in_txn, &scan);
        if (r == 0 && seek)
                r = sb_scan_seek(scan, *seek);
        for (; r == 0 && (r = sb_scan_next(scan, &guard)) == 0; count--)
                sb_guard_release(&guard);
        r = r == SB_E_NOT_FOUND && count == 0 ? 0 : -1;
        if (r == 0)
                r = sb_mark(bus, b("meanwhile"), &cut);
        if (r == 0)
                r = sb_txn_set(txn, b("written"), b("x"));
        if (r == 0)
                r = sb_txn_commit(txn, NULL);
        sb_scan_close(scan);
        sb_txn_end(txn);
        if (sb_mark_drop(bus, b("meanwhile")) != 0)
                r = -1;
        return r;
}

static void test_a_range_that_ends_beside_them_or_among_them_is_read_without_them(void)
{
        const struct sb_scan_options up = {.size = sizeof(up)},
                                     down = {.size = sizeof(down), .flags = SB_REVERSE};
        struct sb_scan_options to;

        BEGIN();
        CHECK_EQ(sb_set(bus, near[2], b("below"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, near[3], b("above"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("written"), b(""), NULL, NULL), 0);
        CHECK_EQ(read_and_commit(&up, NULL, 3), 0);
        CHECK_EQ(read_and_commit(&down, NULL, 3), 0);
        for (unsigned i = 0; i < OWN_COUNT; i++) {
                CHECK_EQ(read_and_commit(&up, &own[i], 2), 0);
                CHECK_EQ(read_and_commit(&down, &own[i], 1), 0);
                to = up;
                to.end = own[i];
                CHECK_EQ(read_and_commit(&to, NULL, 1), 0);
                to.flags = SB_REVERSE;
                CHECK_EQ(read_and_commit(&to, NULL, 1), 0);
        }
        to = up;
        to.end = near[3];
        CHECK_EQ(read_and_commit(&to, NULL, 1), 0);
        END();
}

/* In a forked child all calls on the parent's bus are SB_E_DETACHED. Return: 0, or the line where
 * something was not as it should be. */
static int write_detached(struct sb_txn *txn)
{
        uint64_t cut;

        if (sb_set(bus, b("key"), b("x"), NULL, NULL) != SB_E_DETACHED ||
                sb_txn_set(txn, b("key"), b("x")) != SB_E_DETACHED)
                return __LINE__;
        if (sb_set(bus, own[1], b("x"), NULL, NULL) != -EPERM ||
                sb_delete(bus, own[1], SB_ANY_REV, NULL, NULL) != -EPERM)
                return __LINE__;
        if (sb_txn_set(txn, own[1], b("x")) != -EPERM || sb_txn_delete(txn, own[1]) != -EPERM)
                return __LINE__;
        if (sb_mark(bus, own[1], &cut) != -EPERM || sb_mark(bus, b("now"), &cut) != -EINVAL)
                return __LINE__;
        if (sb_keep(bus, own[1], 0, &all_of_it) != -EPERM ||
                sb_restore(bus, own[1], 0, 2, NULL) != -EPERM)
                return __LINE__;
        return 0;
}

static void test_misuse_comes_first_and_detached_behind(void)
{
        static char large[2000] = SB_RESERVED "x";
        const struct sb_bytes too_long = {large, sizeof(large)}, no_data = {NULL, 3};
        const struct sb_write wrong = {.size = sizeof(wrong), .flags = 1};
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST};
        struct sb_txn *txn = NULL;
        int status;
        pid_t pid;

        BEGIN();
        CHECK_EQ(sb_set(NULL, own[1], b("x"), NULL, NULL), -EINVAL);
        CHECK_EQ(sb_set(bus, own[1], no_data, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_set(bus, own[1], b("x"), &wrong, NULL), -EINVAL);
        CHECK_EQ(sb_set(bus, too_long, b("x"), NULL, NULL), -ENAMETOOLONG);
        CHECK_EQ(sb_cas(bus, own[1], SB_ANY_REV, b("x"), NULL, NULL), -EINVAL);
        CHECK_EQ(sb_delete(bus, own[1], 0, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_update(bus, own[1], NULL, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_incr(bus, own[1], 1, &wrong, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_restore(bus, own[1], 0, 0, NULL), -EINVAL);
        CHECK_EQ(sb_restore(bus, own[1], 0, marked, &wrong), -EINVAL);
        CHECK_EQ(sb_restore(bus, too_long, SB_PREFIX, marked, NULL), -ENAMETOOLONG);
        CHECK_EQ(sb_keep(bus, own[1], 0, &rule), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, own[1], no_data), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, too_long, b("x")), -ENAMETOOLONG);
        pid = fork();
        if (pid == 0)
                _exit(write_detached(txn) & 255);
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0)
                TEST_FAIL("line %d (modulo 256) in the child", WEXITSTATUS(status));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK_EQ(sb_txn_set(txn, own[1], b("x")), -EINVAL); /* decided */
        CHECK(!sb_txn_end(txn));
        END();
}

/* The least time of many scans that give one key. */
static uint64_t time_scans(void)
{
        uint64_t least_ns = UINT64_MAX, began_ns, took_ns;
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;

        for (uint32_t i = 0; i < 500; i++) {
                began_ns = now_ns();
                if (sb_scan_open(bus, NULL, none, &scan) != 0 || sb_scan_next(scan, &guard) != 0)
                        return UINT64_MAX;
                sb_guard_release(&guard);
                sb_scan_close(scan);
                took_ns = now_ns() - began_ns;
                least_ns = took_ns < least_ns ? took_ns : least_ns;
        }
        return least_ns;
}

/* Each prefix that is watched has a key of the bus's own, without a value. */
static void test_a_scan_passes_over_many_of_the_buss_own_keys_as_over_few(void)
{
        struct sb_watch *watches[400] = {0};
        uint64_t few_ns = 0, many_ns;
        char prefix[16];

        WORLD_BEGIN(16 * MIB); /* no mark, no rule */
        CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, NULL), 0);
        for (uint32_t i = 0; i < 400; i++) {
                snprintf(prefix, sizeof(prefix), "prefix/%u", i);
                CHECK_EQ(sb_watch_open(bus, b(prefix), SB_PREFIX, SB_ANY_REV, &watches[i]), 0);
                if (i == 20)
                        few_ns = time_scans();
        }
        many_ns = time_scans();
        CHECK(few_ns != UINT64_MAX && many_ns < 3 * few_ns);
        for (uint32_t i = 0; i < 400; i++)
                CHECK(!sb_watch_close(watches[i]));
        WORLD_END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_plain_writes_refuse_the_buss_own_keys_and_change_nothing);
        RUN(test_transactions_refuse_them_at_the_call);
        RUN(test_marks_and_rules_do_not_take_such_names);
        RUN(test_restore_leaves_marks_and_rules_as_they_are);
        RUN(test_keys_beside_them_are_like_any_other);
        RUN(test_the_buss_own_keys_are_read_as_others_are);
        RUN(test_a_range_that_ends_beside_them_or_among_them_is_read_without_them);
        RUN(test_misuse_comes_first_and_detached_behind);
        RUN(test_a_scan_passes_over_many_of_the_buss_own_keys_as_over_few);
        return test_end();
}
