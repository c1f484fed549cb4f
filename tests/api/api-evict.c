/* Snapshots that an operator takes away: what was read stays, a read says that the cut is gone, and
 * memory comes back. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/mvcc/evict.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus, *other;
static const struct sb_bytes all = {NULL, 0};

#define BEGIN()                                                                                    \
        WORLD_BEGIN(16 * MIB);                                                                     \
        other = world_bus(&world);                                                                 \
        CHECK(other)
#define END()                                                                                      \
        other = sb_close(other);                                                                   \
        WORLD_END()

static int evict(uint32_t number, uint32_t *ret_count)
{
        if (world.remote)
                return sb_admin_evict(world.directory, number, 0, false, ret_count);
        *ret_count = sb_evict_client(world.engine, number, UINT64_MAX);
        return 0;
}

/* How much memory @holder keeps by its cuts. */
static uint64_t held_by(struct sb_bus *holder, uint32_t *ret_cuts)
{
        struct sb_admin_holders holders;
        uint64_t bytes = 0;

        *ret_cuts = 0;
        if (sb_admin_holders(bus, &holders) != 0)
                return UINT64_MAX;
        for (uint32_t i = 0; i < holders.count; i++)
                if (holders.holders[i].client == holder->handle.slot) {
                        bytes = holders.holders[i].held_bytes;
                        *ret_cuts = holders.holders[i].cut_count;
                }
        sb_admin_holders_free(&holders);
        return bytes;
}

static void test_an_evicted_scan_says_lapped_and_its_guards_stay(void)
{
        struct sb_guard first = {0}, none = {0};
        struct sb_scan *scan = NULL, *fresh = NULL;
        uint32_t count = 0;

        BEGIN();
        CHECK(!sb_set(bus, b("a"), b("old a"), NULL, NULL) &&
                !sb_set(bus, b("b"), b("old b"), NULL, NULL));
        CHECK_EQ(sb_scan_open(other, NULL, all, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &first), 0);
        CHECK(!sb_set(bus, b("a"), b("new a"), NULL, NULL) &&
                !sb_set(bus, b("b"), b("new b"), NULL, NULL));
        CHECK_EQ(evict(other->handle.slot, &count), 0);
        CHECK_EQ(count, 1);
        CHECK_EQ(sb_scan_next(scan, &none), SB_E_LAPPED);
        CHECK_EQ(sb_scan_prev(scan, &none), SB_E_LAPPED);
        CHECK_EQ(sb_scan_seek(scan, b("z")), 0);
        CHECK_EQ(sb_scan_next(scan, &none), SB_E_LAPPED);
        /* No key is left behind it, but whether one was in the cut is not known. */
        CHECK_EQ(sb_scan_next(scan, &none), SB_E_LAPPED);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK_EQ(sb_scan_next(scan, &none), SB_E_LAPPED);
        CHECK(!none.bus);
        for (unsigned i = 0; i < 1000; i++)
                CHECK_EQ(sb_set(bus, b("a"), b("newer"), NULL, NULL), 0);
        CHECK(first.value.len == 5 && memcmp(first.value.data, "old a", 5) == 0);
        sb_guard_release(&first);
        /* The snapshot's entry is in use until the scan is closed; another scan is not affected. */
        CHECK_EQ(sb_scan_open(other, NULL, all, &fresh), 0);
        CHECK_EQ(sb_scan_next(fresh, &none), 0);
        CHECK(none.value.len == 5 && memcmp(none.value.data, "newer", 5) == 0);
        sb_guard_release(&none);
        sb_scan_close(fresh);
        sb_scan_close(scan);
        CHECK_EQ(evict(other->handle.slot, &count), 0);
        CHECK_EQ(count, 0);
        END();
}

/* A key that was not given does not count: the end of the limit would look like the end. */
/* What comes next is as it was in the cut; whether all of the cut is there is not known. */
static void test_an_evicted_scan_over_what_did_not_change_says_lapped(void)
{
        struct sb_guard guards[3] = {0};
        struct sb_scan *scan = NULL;
        uint32_t evicted = 0;
        size_t count = 0;

        BEGIN();
        for (unsigned i = 0; i < 5; i++)
                CHECK_EQ(sb_set(bus, (struct sb_bytes){&"abcde"[i], 1}, b("same"), NULL, NULL), 0);
        CHECK_EQ(sb_scan_open(other, NULL, all, &scan), 0);
        CHECK_EQ(sb_scan_next_many(scan, guards, 2, &count), 0);
        CHECK_EQ(count, 2);
        CHECK_EQ(evict(other->handle.slot, &evicted), 0);
        CHECK_EQ(evicted, 1);
        CHECK_EQ(sb_scan_next(scan, &guards[2]), SB_E_LAPPED);
        CHECK_EQ(sb_scan_next_many(scan, &guards[2], 1, &count), SB_E_LAPPED);
        CHECK(!guards[2].bus);
        sb_guard_release(&guards[0]);
        sb_guard_release(&guards[1]);
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_an_evicted_scan_never_comes_to_its_limit(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .limit = 1};
        struct sb_guard none = {0};
        struct sb_scan *scan = NULL;
        uint32_t count = 0;

        BEGIN();
        CHECK(!sb_set(bus, b("a"), b("a"), NULL, NULL));
        CHECK_EQ(sb_scan_open_at(other, all, &how, &scan), 0);
        CHECK(!sb_set(bus, b("a"), b("b"), NULL, NULL) && !evict(other->handle.slot, &count));
        CHECK_EQ(count, 1);
        for (unsigned i = 0; i < 3; i++)
                CHECK_EQ(sb_scan_next(scan, &none), SB_E_LAPPED);
        CHECK(!none.bus);
        sb_scan_close(scan);
        END();
}

static void test_all_snapshots_of_one_client_go_and_no_others(void)
{
        struct sb_scan *scans[32], *mine = NULL;
        struct sb_guard guard = {0};
        uint32_t count = 0;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("a"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &mine), 0);
        for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 32; i++)
                        CHECK_EQ(sb_scan_open(other, NULL, all, &scans[i]), 0);
                CHECK_EQ(evict(other->handle.slot, &count), 0);
                CHECK_EQ(count, 32);
                for (int i = 0; i < 32; i++) {
                        CHECK_EQ(sb_scan_next(scans[i], &guard), SB_E_LAPPED);
                        CHECK(!sb_scan_close(scans[i]));
                }
        }
        CHECK_EQ(sb_scan_next(mine, &guard), 0);
        sb_guard_release(&guard);
        sb_scan_close(mine);
        if (world.remote) {
                CHECK_EQ(sb_admin_evict(world.directory, 0, 0, false, &count), SB_E_NOT_FOUND);
                CHECK_EQ(sb_admin_evict(world.directory, 7, 0, false, &count), SB_E_NOT_FOUND);
                CHECK_EQ(sb_admin_evict(world.directory, 4711, 0, true, &count), SB_E_NOT_FOUND);
                CHECK_EQ(sb_admin_evict(world.directory, other->handle.slot, 1, true, &count),
                        SB_E_NOT_FOUND);
        }
        END();
}

static void test_what_was_kept_for_an_evicted_snapshot_is_used_again(void)
{
        char *value = calloc(1, 100000), key[16];
        struct sb_scan *scan = NULL;
        uint32_t cuts, count;
        int r = 0;

        CHECK(value);
        BEGIN();
        for (unsigned i = 0; i < 40; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL), 0);
        }
        CHECK_EQ(sb_scan_open(other, NULL, all, &scan), 0);
        CHECK_EQ(held_by(other, &cuts), 0);
        CHECK_EQ(cuts, 1);
        for (unsigned i = 0; i < 40; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL), 0);
        }
        CHECK(held_by(other, &cuts) >= 40 * 100000);
        CHECK_EQ(evict(other->handle.slot, &count), 0);
        CHECK_EQ(held_by(other, &cuts), 0);
        CHECK_EQ(cuts, 0);
        /* Write as much as the segment holds, over and over. */
        for (unsigned round = 0; round < 10 && r == 0; round++)
                for (unsigned i = 0; i < 40 && r == 0; i++) {
                        snprintf(key, sizeof(key), "key%u", i);
                        r = sb_set(bus, b(key), (struct sb_bytes){value, 100000}, NULL, NULL);
                }
        CHECK_EQ(r, 0);
        sb_scan_close(scan);
        free(value);
        END();
}

static void test_a_transaction_that_lost_its_cut_does_nothing(void)
{
        struct sb_txn *txn = NULL;
        struct sb_guard guard = {0};
        uint32_t count = 0;

        BEGIN();
        CHECK(!sb_set(bus, b("a"), b("1"), NULL, NULL) && !sb_set(bus, b("b"), b("1"), NULL, NULL));
        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                CHECK_EQ(sb_txn_begin(other, isolation, &txn), 0);
                CHECK_EQ(sb_txn_get(txn, b("a"), &guard), 0);
                CHECK_EQ(sb_txn_set(txn, b("b"), b("2")), 0);
                CHECK_EQ(evict(other->handle.slot, &count), 0);
                CHECK_EQ(count, 1);
                CHECK(guard.value.len == 1 && memcmp(guard.value.data, "1", 1) == 0);
                sb_guard_release(&guard);
                CHECK_EQ(sb_txn_get(txn, b("a"), &guard), SB_E_LAPPED);
                CHECK_EQ(sb_txn_commit(txn, NULL), SB_E_LAPPED);
                txn = sb_txn_end(txn);
                CHECK(has(bus, "b", "1"));
        }
        CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("b"), b("2")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        txn = sb_txn_end(txn);
        CHECK(has(bus, "b", "2"));
        END();
}

static void test_kill_ends_the_process_and_its_record_comes_back(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER};
        struct sb_admin_client client;
        uint32_t count = 0, number;
        int said[2], status;
        char byte;
        pid_t pid;

        BEGIN();
        if (!world.remote) {
                other = sb_close(other);
                bus = sb_close(bus);
                world_close(&world);
                TEST_SKIP("only agentd ends processes");
        }
        CHECK_EQ(pipe(said), 0);
        pid = fork();
        if (pid == 0) {
                struct sb_bus *own;
                struct sb_scan *scan;

                options.bus = world.directory;
                if (sb_open(&options, &own) != 0 || sb_scan_open(own, NULL, all, &scan) != 0 ||
                        write(said[1], "!", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        CHECK_EQ(read(said[0], &byte, 1), 1);
        for (number = 1; sb_admin_client_next(bus, &number, &client) == 0;)
                if (client.pid == (uint32_t)pid)
                        break;
        CHECK_EQ(client.pid, (uint32_t)pid);
        CHECK_EQ(client.snapshots, 1);
        CHECK(client.cut > 1);
        CHECK_EQ(sb_admin_evict(world.directory, client.number, (uint32_t)getpid(), true, &count),
                SB_E_NOT_FOUND);
        CHECK_EQ(sb_admin_evict(world.directory, client.number, (uint32_t)pid, true, &count), 0);
        CHECK_EQ(count, 1);
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(said[0]);
        close(said[1]);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_an_evicted_scan_says_lapped_and_its_guards_stay);
        RUN(test_an_evicted_scan_over_what_did_not_change_says_lapped);
        RUN(test_an_evicted_scan_never_comes_to_its_limit);
        RUN(test_all_snapshots_of_one_client_go_and_no_others);
        RUN(test_what_was_kept_for_an_evicted_snapshot_is_used_again);
        RUN(test_a_transaction_that_lost_its_cut_does_nothing);
        RUN(test_kill_ends_the_process_and_its_record_comes_back);
        return test_end();
}
