/*
 * A bus that is read-only, because its log cannot be written: each call that writes answers -EROFS
 * and has done nothing, each other one goes on; and all of it works again behind that.
 */
#include <errno.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define MIB (1u << 20)

static struct world world;
static struct sb_bus *bus;

static void turn(bool read_only)
{
        sb_store_release(
                &world.segment.super->state, read_only ? SB_SEGMENT_READ_ONLY : SB_SEGMENT_SERVING);
}

static bool is_at(const char *key, const char *value, uint64_t rev)
{
        struct sb_guard guard = {0};
        int r = sb_get(bus, b(key), &guard);
        bool same = r == 0 && guard.rev == rev && guard.value.len == strlen(value) &&
                    memcmp(guard.value.data, value, guard.value.len) == 0;

        if (r == 0)
                sb_guard_release(&guard);
        return same;
}

static int append_x(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)argument, (void)old;
        *ret_value = b("x");
        return 0;
}

static int set_two(void *argument, struct sb_txn *txn)
{
        int r = sb_txn_set(txn, b("one"), b("x"));

        (void)argument;
        return r != 0 ? r : sb_txn_set(txn, b("two"), b("x"));
}

/* Each call that writes a key. Return: how many answered @wanted. */
static unsigned calls_that_say(int wanted)
{
        const struct sb_write how = {.size = sizeof(how)};
        uint64_t rev = 0, count = 0;
        int64_t number = 0;
        unsigned said = 0;

        said += sb_set(bus, b("one"), b("2"), NULL, NULL) == wanted;
        said += sb_set(bus, b("one"), b("3"), &how, &rev) == wanted;
        said += sb_set(bus, b("new"), b("4"), NULL, NULL) == wanted;
        said += sb_delete(bus, b("new"), SB_ANY_REV, NULL, NULL) == wanted;
        said += sb_update(bus, b("one"), append_x, NULL, NULL, NULL) == wanted;
        said += sb_incr(bus, b("number"), 1, NULL, &number, NULL) == wanted;
        said += sb_append(bus, b("one"), b("y"), NULL, NULL) == wanted;
        said += sb_transact(bus, SB_SNAPSHOT, set_two, NULL, NULL) == wanted;
        said += sb_delete_range(bus, NULL, b("tw"), b("tx"), 0, NULL, &count) == wanted;
        return said;
}

static void test_a_read_only_bus_takes_no_write_and_all_else(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        struct sb_txn *txn = NULL;
        struct sb_guard guard = {0};
        uint64_t cut = 0, then = 0;

        WORLD_BEGIN(4 * MIB);
        CHECK_EQ(sb_set(bus, b("one"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("two"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("number"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("before"), &then), 0);
        CHECK_EQ(sb_set(bus, b("two"), b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        turn(true);
        CHECK_EQ(calls_that_say(-EROFS), 9);
        CHECK_EQ(sb_cas(bus, b("one"), 1, b("2"), NULL, NULL), -EROFS);
        CHECK_EQ(sb_cas(bus, b("new"), 0, b("2"), NULL, NULL), -EROFS);
        CHECK_EQ(sb_keep(bus, b("one"), 0, &rule), -EROFS);
        CHECK_EQ(sb_mark(bus, b("later"), &cut), -EROFS);
        CHECK_EQ(sb_mark_drop(bus, b("before")), -EROFS);
        CHECK_EQ(sb_restore(bus, b("two"), 0, then, NULL), -EROFS);
        CHECK(is_at("one", "1", 1) && is_at("two", "2", 2) && is_at("number", "1", 1));
        CHECK_EQ(sb_get(bus, b("new"), &guard), SB_E_NOT_FOUND);
        CHECK_EQ(sb_mark_find(bus, b("before"), &cut), 0);
        CHECK(cut == then);
        /* A transaction collects, and is asked when it commits; one that writes nothing commits. */
        CHECK_EQ(sb_txn_get(txn, b("one"), &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_txn_set(txn, b("one"), b("mine")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), -EROFS);
        turn(false);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn) && is_at("one", "mine", 2));
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE, &txn), 0);
        turn(true);
        CHECK_EQ(sb_txn_get(txn, b("one"), &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        turn(false);
        CHECK_EQ(calls_that_say(0), 9);
        CHECK_EQ(sb_mark_drop(bus, b("before")), 0);
        WORLD_END();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_a_read_only_bus_takes_no_write_and_all_else);
        return test_end();
}
