/* Any misuse of the interface gets a result with a name, changes nothing, and does no harm to any
 * process. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static char large[2048];

#define BEGIN()                                                                                    \
        do {                                                                                       \
                WORLD_BEGIN(4 * MIB);                                                              \
                CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, NULL), 0);                        \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                struct sb_guard end_guard = {0};                                                   \
                CHECK_EQ(sb_get(bus, b("key"), &end_guard), 0);                                    \
                CHECK(end_guard.rev == 1 && end_guard.value.len == 5);                             \
                sb_guard_release(&end_guard);                                                      \
                WORLD_END();                                                                       \
        } while (0)

static const struct sb_bytes value = {"v", 1}, no_data = {NULL, 3}, empty = {"", 0},
                             none = {NULL, 0};

static void test_open_refuses_bad_options(void)
{
        struct sb_bus *opened = NULL;
        struct {
                struct sb_options options;
                uint64_t later;
        } larger = {
                .options = {.size = sizeof(larger), .bus = "/nonexistent/bus", .access = SB_PEER},
                .later = 1};
        struct sb_options options = {
                .size = sizeof(options), .bus = "/nonexistent/bus", .access = SB_PEER};

        CHECK_EQ(sb_open(NULL, &opened), -EINVAL);
        CHECK_EQ(sb_open(&options, NULL), -EINVAL);
        CHECK_EQ(sb_open(&larger.options, &opened), -EINVAL);
        larger.later = 0;
        CHECK_EQ(sb_open(&larger.options, &opened), -EINVAL);
        CHECK_EQ(sb_open(&options, &opened), -ECONNREFUSED);
        options.size--;
        CHECK_EQ(sb_open(&options, &opened), -EINVAL);
        options.size = SIZE_MAX;
        CHECK_EQ(sb_open(&options, &opened), -EINVAL);
        options.size = sizeof(options);
        options.flags = 2;
        CHECK_EQ(sb_open(&options, &opened), -EINVAL);
        options.flags = 0;
        options.access = SB_PEER + 1;
        CHECK_EQ(sb_open(&options, &opened), -EINVAL);
        options.access = SB_OBSERVER;
        CHECK_EQ(sb_open(&options, &opened), -ENOTSUP);
        options.access = SB_MEDIATED;
        CHECK_EQ(sb_open(&options, &opened), -ENOTSUP);
        options.access = SB_PEER;
        options.bus = "";
        CHECK_EQ(sb_open(&options, &opened), -EINVAL);
        CHECK(!opened);
}

static int do_nothing(void *argument, struct sb_txn *txn)
{
        (void)argument;
        (void)txn;
        return 0;
}

static void test_null_bus_is_einval_everywhere(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_watch *watch = NULL;
        struct sb_txn *txn = NULL;
        struct sb_bytes key = b("key");

        CHECK_EQ(sb_granted(NULL), SB_OBSERVER);
        CHECK(!sb_close(NULL));
        CHECK_EQ(sb_get(NULL, key, &guard), -EINVAL);
        CHECK_EQ(sb_get_many(NULL, &key, 1, &guard), -EINVAL);
        CHECK_EQ(sb_set(NULL, key, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_cas(NULL, key, 1, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_delete(NULL, key, 1, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_flush(NULL, 0), -EINVAL);
        CHECK_EQ(sb_scan_open(NULL, NULL, key, &scan), -EINVAL);
        CHECK_EQ(sb_watch_open(NULL, key, 0, 0, &watch), -EINVAL);
        CHECK_EQ(sb_wait(NULL, 0), -EINVAL);
        CHECK_EQ(sb_fd(NULL), -EINVAL);
        CHECK_EQ(sb_txn_begin(NULL, SB_SNAPSHOT, &txn), -EINVAL);
        CHECK_EQ(sb_transact(NULL, SB_SNAPSHOT, do_nothing, NULL, NULL), -EINVAL);
        sb_guard_release(NULL);
        sb_guard_release(&guard);
        CHECK(!scan && !watch && !txn);
}

static void test_null_scan_watch_and_transaction_are_einval(void)
{
        struct sb_guard guard = {0};
        struct sb_bytes key = b("key");

        CHECK_EQ(sb_scan_next(NULL, &guard), -EINVAL);
        CHECK_EQ(sb_scan_seek(NULL, key), -EINVAL);
        CHECK_EQ(sb_scan_cut(NULL), 0);
        CHECK(!sb_scan_close(NULL));
        CHECK_EQ(sb_watch_next(NULL, 0, &guard), -EINVAL);
        CHECK(!sb_watch_close(NULL));
        CHECK_EQ(sb_txn_get(NULL, key, &guard), -EINVAL);
        CHECK_EQ(sb_txn_set(NULL, key, value), -EINVAL);
        CHECK_EQ(sb_txn_delete(NULL, key), -EINVAL);
        CHECK_EQ(sb_txn_commit(NULL, NULL), -EINVAL);
        CHECK_EQ(sb_txn_cut(NULL), 0);
        CHECK(!sb_txn_conflict(NULL).data);
        CHECK(!sb_txn_end(NULL));
}

static void test_null_and_empty_arguments_are_einval(void)
{
        struct sb_guard guard = {0}, guards[2] = {0};
        struct sb_bytes keys[2];
        struct sb_scan *scan = NULL;

        BEGIN();
        keys[0] = b("key");
        keys[1] = empty;
        CHECK_EQ(sb_get(bus, b("key"), NULL), -EINVAL);
        CHECK_EQ(sb_get(bus, empty, &guard), -EINVAL);
        CHECK_EQ(sb_get(bus, none, &guard), -EINVAL);
        CHECK_EQ(sb_get(bus, no_data, &guard), -EINVAL);
        CHECK_EQ(sb_get_many(bus, NULL, 2, guards), -EINVAL);
        CHECK_EQ(sb_get_many(bus, keys, 2, NULL), -EINVAL);
        CHECK_EQ(sb_get_many(bus, keys, 2, guards), -EINVAL);
        CHECK(!guards[0].bus && !guards[1].bus && !guard.bus);
        CHECK_EQ(sb_set(bus, empty, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_set(bus, no_data, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_set(bus, b("key"), no_data, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_cas(bus, empty, 1, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_delete(bus, empty, 1, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_scan_open(bus, NULL, no_data, &scan), -EINVAL);
        CHECK_EQ(sb_scan_open(bus, NULL, none, NULL), -EINVAL);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, NULL), -EINVAL);
        CHECK_EQ(sb_scan_seek(scan, no_data), -EINVAL);
        CHECK(!sb_scan_close(scan));
        END();
}

static int keep_as_it_is(void *argument, const struct sb_guard *old, struct sb_bytes *ret_new)
{
        (void)argument;
        *ret_new = old->value;
        return 0;
}

/* Each call about the past and about the values that a key had: one wrong argument at a time. */
static void test_each_wrong_argument_alone_is_einval(void)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 2},
                       found = {.size = sizeof(found)};
        struct sb_bytes key = b("key");
        struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        struct sb_txn *txn = NULL;
        uint64_t cut = 0, now = 0;
        int64_t sum;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("other"), value, NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("here"), &now), 0);
        CHECK_EQ(sb_cut_at(NULL, 1, &cut), -EINVAL);
        CHECK_EQ(sb_cut_at(bus, 1, NULL), -EINVAL);
        CHECK_EQ(sb_mark(NULL, b("name"), &cut), -EINVAL);
        CHECK_EQ(sb_mark(bus, none, &cut), -EINVAL);
        CHECK_EQ(sb_mark(bus, empty, &cut), -EINVAL);
        CHECK_EQ(sb_mark_find(NULL, b("here"), &cut), -EINVAL);
        CHECK_EQ(sb_mark_find(bus, b("here"), NULL), -EINVAL);
        CHECK_EQ(sb_mark_find(bus, none, &cut), -EINVAL);
        CHECK_EQ(sb_mark_drop(NULL, b("here")), -EINVAL);
        CHECK_EQ(sb_mark_drop(bus, none), -EINVAL);
        CHECK_EQ(sb_keep(NULL, key, 0, &rule), -EINVAL);
        CHECK_EQ(sb_keep(bus, no_data, 0, &rule), -EINVAL);
        CHECK_EQ(sb_keep(bus, no_data, SB_PREFIX, &rule), -EINVAL);
        CHECK_EQ(sb_keep(bus, none, 0, &rule), -EINVAL);
        CHECK_EQ(sb_keep(bus, key, 2, &rule), -EINVAL);
        CHECK_EQ(sb_keep(bus, key, 0, NULL), -EINVAL);
        CHECK_EQ(sb_kept(NULL, key, 0, &found), -EINVAL);
        CHECK_EQ(sb_kept(bus, no_data, SB_PREFIX, &found), -EINVAL);
        CHECK_EQ(sb_kept(bus, key, 2, &found), -EINVAL);
        CHECK_EQ(sb_kept(bus, key, 0, NULL), -EINVAL);
        CHECK_EQ(sb_get_at(NULL, key, now, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, key, now, NULL), -EINVAL);
        CHECK_EQ(sb_get_at(bus, key, 0, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, no_data, now, &guard), -EINVAL);
        CHECK_EQ(sb_history_open(NULL, key, 0, &walk), -EINVAL);
        CHECK_EQ(sb_history_open(bus, key, 0, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, key, SB_REVERSE << 1, &walk), -EINVAL);
        CHECK_EQ(sb_history_open(bus, no_data, 0, &walk), -EINVAL);
        CHECK_EQ(sb_history_next(NULL, &guard, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, key, 0, &walk), 0);
        CHECK_EQ(sb_history_next(walk, NULL, NULL), -EINVAL);
        CHECK(!sb_history_close(walk));
        CHECK_EQ(sb_restore(NULL, key, 0, now, NULL), -EINVAL);
        CHECK_EQ(sb_restore(bus, no_data, SB_PREFIX, now, NULL), -EINVAL);
        CHECK_EQ(sb_restore(bus, key, 2, now, NULL), -EINVAL);
        CHECK_EQ(sb_restore(bus, key, 0, 0, NULL), -EINVAL);
        CHECK_EQ(sb_update(NULL, key, keep_as_it_is, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_update(bus, key, NULL, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_incr(NULL, key, 1, NULL, &sum, NULL), -EINVAL);
        CHECK_EQ(sb_max(NULL, key, 1, NULL, &sum, NULL), -EINVAL);
        CHECK_EQ(sb_append(NULL, key, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_append(bus, key, no_data, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_transact(bus, SB_SERIALIZABLE + 1, do_nothing, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE + 1, &txn), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, NULL), -EINVAL);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_get(txn, key, NULL), -EINVAL);
        CHECK_EQ(sb_txn_get(txn, no_data, &guard), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, key, no_data), -EINVAL);
        CHECK_EQ(sb_txn_set(txn, no_data, value), -EINVAL);
        CHECK_EQ(sb_txn_delete(txn, empty), -EINVAL);
        CHECK(!sb_txn_end(txn));
        CHECK(!guard.bus && !cut);
        END();
}

static void test_a_guard_of_a_key_that_is_not_there_stays_as_it_was(void)
{
        struct sb_guard guard, before;
        uint64_t now;

        BEGIN();
        CHECK_EQ(sb_mark(bus, b("here"), &now), 0);
        memset(&before, 0xee, sizeof(before));
        guard = before;
        CHECK_EQ(sb_get(bus, b("none"), &guard), SB_E_NOT_FOUND);
        CHECK(!memcmp(&guard, &before, sizeof(guard)));
        CHECK_EQ(sb_get_at(bus, b("none"), now, &guard), SB_E_NOT_FOUND);
        CHECK(!memcmp(&guard, &before, sizeof(guard)));
        END();
}

static void test_too_long_a_key_is_enametoolong(void)
{
        struct sb_bytes key = {large, 1025}, keys[2];
        struct sb_guard guard = {0}, guards[2] = {0};
        struct sb_scan *scan = NULL;

        BEGIN();
        keys[0] = b("key");
        keys[1] = key;
        CHECK_EQ(sb_get(bus, key, &guard), -ENAMETOOLONG);
        CHECK_EQ(sb_get_many(bus, keys, 2, guards), -ENAMETOOLONG);
        CHECK_EQ(sb_set(bus, key, value, NULL, NULL), -ENAMETOOLONG);
        CHECK_EQ(sb_cas(bus, key, 0, value, NULL, NULL), -ENAMETOOLONG);
        CHECK_EQ(sb_delete(bus, key, 1, NULL, NULL), -ENAMETOOLONG);
        CHECK_EQ(sb_scan_open(bus, NULL, key, &scan), -ENAMETOOLONG);
        key.len = SIZE_MAX;
        CHECK_EQ(sb_get(bus, key, &guard), -ENAMETOOLONG);
        CHECK_EQ(sb_set(bus, key, value, NULL, NULL), -ENAMETOOLONG);
        key.len = 1024;
        CHECK_EQ(sb_set(bus, key, value, NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, key, SB_ANY_REV, NULL, NULL), 0);
        END();
}

static void test_too_large_a_value_is_emsgsize(void)
{
        struct sb_bytes huge = {large, (size_t)(4 * MIB)};

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), huge, NULL, NULL), -EMSGSIZE);
        huge.len = SIZE_MAX;
        CHECK_EQ(sb_set(bus, b("key"), huge, NULL, NULL), -EMSGSIZE);
        CHECK_EQ(sb_cas(bus, b("key"), 1, huge, NULL, NULL), -EMSGSIZE);
        END();
}

static void test_revisions_that_cannot_be_meant_are_einval(void)
{
        BEGIN();
        CHECK_EQ(sb_cas(bus, b("key"), SB_ANY_REV, value, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_delete(bus, b("key"), 0, NULL, NULL), -EINVAL);
        END();
}

static void test_bad_struct_sb_write_is_einval(void)
{
        uint64_t rev = 9, cut = 9;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct {
                struct sb_write how;
                unsigned char later[8];
        } larger = {.how = {.size = sizeof(larger)}, .later = {0, 0, 1}};

        BEGIN();
        how.size = 0;
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), -EINVAL);
        how.size = sizeof(how) - 1;
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), -EINVAL);
        how.size = SIZE_MAX;
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), -EINVAL);
        how.size = sizeof(how);
        how.flags = 1;
        CHECK_EQ(sb_cas(bus, b("key"), 1, value, &how, &rev), -EINVAL);
        how.flags = 0;
        how.durability = SB_STRICT + 1;
        CHECK_EQ(sb_delete(bus, b("key"), 1, &how, &rev), -EINVAL);
        CHECK_EQ(sb_set(bus, b("key"), value, &larger.how, &rev), -EINVAL);
        larger.later[2] = 0;
        CHECK_EQ(sb_set(bus, b("key"), value, &larger.how, &rev), -EINVAL);
        CHECK(rev == 9 && cut == 9);
        END();
}

static void test_what_comes_later_says_so_and_writes_nothing(void)
{
        uint64_t rev = 9, cut = 9;
        struct sb_write how = {.size = sizeof(how), .ttl_ns = 1, .ret_cut = &cut};
        struct sb_watch *watch = NULL;

        WORLD_WITHOUT_LOG();
        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), -ENOTSUP);
        how.ttl_ns = 0;
        how.durability = SB_BATCHED;
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), SB_E_NOT_DURABLE);
        how.durability = SB_STRICT;
        CHECK_EQ(sb_set(bus, b("key"), value, &how, &rev), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_cas(bus, b("key"), 1, value, &how, &rev), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_delete(bus, b("key"), 1, &how, &rev), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_flush(bus, 0), SB_E_NOT_DURABLE);
        CHECK(rev == 9 && cut == 9);
        how.durability = SB_VOLATILE;
        CHECK_EQ(sb_set(bus, b("key2"), value, &how, &rev), 0);
        CHECK_EQ(sb_watch_open(bus, none, 0, 0, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("key"), 8, 0, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("key"), SB_AFTER_CUT, 0, &watch), -EINVAL);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 0, NULL), -EINVAL);
        CHECK(!watch);
        END();
}

static void test_a_released_guard_and_its_copies_let_go_of_nothing_else(void)
{
        struct sb_guard guard = {0}, copy, next = {0};

        BEGIN();
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        copy = guard;
        sb_guard_release(&guard);
        sb_guard_release(&guard);
        /* The next guard takes the same guard word. */
        CHECK_EQ(sb_get(bus, b("key"), &next), 0);
        sb_guard_release(&copy);
        for (unsigned i = 0; i < 5000; i++) {
                CHECK_EQ(sb_set(bus, b("other"), b("other"), NULL, NULL), 0);
                CHECK_EQ(sb_delete(bus, b("other"), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK(next.value.len == 5 && memcmp(next.value.data, "value", 5) == 0);
        sb_guard_release(&next);
        END();
}

static void test_a_scan_on_a_closed_bus_is_detached(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL, *second = NULL;
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_scan_open(other, NULL, none, &scan), 0);
        CHECK_EQ(sb_scan_open(other, NULL, none, &second), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK(!sb_close(other));
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_scan_seek(scan, b("key")), SB_E_DETACHED);
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_scan_close(second));
        END();
}

/* Runs in the child of a fork. Return: 0, or the line where something was not as it should be. */
static int use_inherited_bus(struct sb_guard *guard, struct sb_scan *scan)
{
#define EXPECT(...)                                                                                \
        do {                                                                                       \
                if (!(__VA_ARGS__))                                                                \
                        return __LINE__;                                                           \
        } while (0)
        struct sb_guard mine = {0};
        struct sb_bytes key = b("key");
        struct sb_scan_options past = {.size = sizeof(past), .cut = 2};
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        struct sb_history *history = NULL;
        struct sb_scan *opened = NULL;
        struct sb_watch *watch = NULL;
        struct sb_txn *txn = NULL;
        uint64_t rev = 9;
        size_t count = 9;
        uint32_t number, generation;

        EXPECT(sb_get(bus, key, &mine) == SB_E_DETACHED);
        EXPECT(sb_get_many(bus, &key, 1, &mine) == SB_E_DETACHED);
        EXPECT(sb_get_many_at(bus, &key, 1, 0, &mine) == SB_E_DETACHED);
        EXPECT(sb_get_many_at(bus, &key, 1, past.cut, &mine) == SB_E_DETACHED);
        EXPECT(sb_delete_range(bus, NULL, key, none, SB_PREFIX, NULL, &rev) == SB_E_DETACHED);
        EXPECT(sb_client(bus, &number, &generation) == SB_E_DETACHED);
        EXPECT(sb_alive(bus, 1, 1) == SB_E_DETACHED);
        EXPECT(sb_set(bus, key, value, NULL, &rev) == SB_E_DETACHED);
        EXPECT(sb_cas(bus, key, 1, value, NULL, &rev) == SB_E_DETACHED);
        EXPECT(sb_delete(bus, key, 1, NULL, &rev) == SB_E_DETACHED);
        EXPECT(sb_flush(bus, 0) == SB_E_DETACHED);
        EXPECT(sb_scan_open(bus, NULL, none, &opened) == SB_E_DETACHED);
        EXPECT(sb_scan_next(scan, &mine) == SB_E_DETACHED);
        EXPECT(sb_scan_seek(scan, key) == SB_E_DETACHED);
        EXPECT(sb_scan_seek_last(scan, key) == SB_E_DETACHED);
        EXPECT(sb_scan_next_many(scan, &mine, 1, &count) == SB_E_DETACHED);
        EXPECT(sb_watch_open(bus, key, 0, 0, &watch) == SB_E_DETACHED);
        EXPECT(sb_wait(bus, 0) == SB_E_DETACHED);
        EXPECT(sb_fd(bus) == -ENOTCONN);
        EXPECT(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == SB_E_DETACHED);
        EXPECT(sb_transact(bus, SB_SNAPSHOT, do_nothing, NULL, NULL) == SB_E_DETACHED);
        EXPECT(sb_scan_prev(scan, &mine) == SB_E_DETACHED);
        EXPECT(sb_scan_seek_end(scan) == SB_E_DETACHED);
        EXPECT(sb_scan_open_at(bus, none, &past, &opened) == SB_E_DETACHED);
        EXPECT(sb_get_at(bus, key, past.cut, &mine) == SB_E_DETACHED);
        EXPECT(sb_history_open(bus, key, 0, &history) == SB_E_DETACHED);
        EXPECT(sb_restore(bus, key, 0, past.cut, NULL) == SB_E_DETACHED);
        EXPECT(sb_cut_at(bus, now_ns(), &rev) == SB_E_DETACHED);
        EXPECT(sb_mark(bus, key, &rev) == SB_E_DETACHED);
        EXPECT(sb_mark_find(bus, key, &rev) == SB_E_DETACHED);
        EXPECT(sb_mark_drop(bus, key) == SB_E_DETACHED);
        EXPECT(sb_keep(bus, key, 0, &rule) == SB_E_DETACHED);
        EXPECT(sb_kept(bus, key, 0, &rule) == SB_E_DETACHED);
        EXPECT(sb_get(bus, empty, &mine) == -EINVAL); /* the library looks for misuse first */
        EXPECT(!mine.bus && rev == 9 && count == 9);
        sb_guard_release(guard);
        EXPECT(!guard->bus);
        EXPECT(!sb_scan_close(scan));
        EXPECT(!sb_close(bus));
        return 0;
#undef EXPECT
}

static void test_a_forked_child_cannot_use_its_parents_bus_nor_harm_it(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        pid_t pid;
        int status;

        BEGIN();
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        pid = fork();
        if (pid == 0) {
                int line = use_inherited_bus(&guard, scan);

                if (line != 0)
                        fprintf(stderr, "api-misuse.c:%d in the child\n", line);
                _exit(line != 0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
        /* The parent's guard, scan and bus work as before. */
        CHECK(guard.value.len == 5 && memcmp(guard.value.data, "value", 5) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK(!sb_scan_close(scan));
        END();
}

/* Make a value that no call needs. */
static int make_value(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)argument;
        (void)old;
        *ret_value = value;
        return 0;
}

/* Whether each write says that the bus is lost, also one that the bus could not do: the program is
 * to open it again, not to ask for less. */
static bool writes_say_detached(struct sb_txn *txn, const struct sb_write *how)
{
        struct sb_bytes key = b("key");

        return sb_set(bus, key, value, how, NULL) == SB_E_DETACHED &&
               sb_cas(bus, key, 1, value, how, NULL) == SB_E_DETACHED &&
               sb_delete(bus, key, 1, how, NULL) == SB_E_DETACHED &&
               sb_update(bus, key, make_value, NULL, how, NULL) == SB_E_DETACHED &&
               sb_incr(bus, key, 1, how, NULL, NULL) == SB_E_DETACHED &&
               sb_transact(bus, SB_SNAPSHOT, do_nothing, NULL, how) == SB_E_DETACHED &&
               sb_delete_range(bus, NULL, key, none, SB_PREFIX, how, NULL) == SB_E_DETACHED &&
               sb_restore(bus, key, 0, 2, how) == SB_E_DETACHED &&
               sb_txn_commit(txn, how) == SB_E_DETACHED;
}

static void test_a_segment_that_was_replaced_is_detached(void)
{
        const struct sb_write strict = {.size = sizeof(strict), .durability = SB_STRICT};
        struct sb_guard guard = {0}, other = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn = NULL;

        BEGIN();
        if (world.remote) {
                sb_close(bus);
                world_close(&world);
                TEST_SKIP("the test writes the superblock itself");
        }
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_set(bus, b("key"), value, &strict, NULL), SB_E_NOT_DURABLE);
        sb_store_release(&world.segment.super->state, SB_SEGMENT_REPLACED);
        CHECK(writes_say_detached(txn, NULL));
        CHECK(writes_say_detached(txn, &strict));
        CHECK(!sb_txn_end(txn));
        CHECK_EQ(sb_get(bus, b("key"), &other), SB_E_DETACHED);
        CHECK_EQ(sb_set(bus, b("key"), value, NULL, NULL), SB_E_DETACHED);
        CHECK_EQ(sb_scan_next(scan, &other), SB_E_DETACHED);
        CHECK_EQ(sb_wait(bus, 0), SB_E_DETACHED);
        /* The guard stays valid. */
        CHECK(guard.value.len == 5 && memcmp(guard.value.data, "value", 5) == 0);
        sb_guard_release(&guard);
        CHECK(!sb_scan_close(scan));
        bus = sb_close(bus);
        world_drop(&world);
}

static void test_every_result_has_words(void)
{
        CHECK(strcmp(sb_strerror(SB_E_CONFLICT), "another writer came first") == 0);
        CHECK(strcmp(sb_strerror(SB_E_NOT_FOUND), "the key has no value") == 0);
        CHECK(strlen(sb_strerror(0)) > 0);
        CHECK(strcmp(sb_strerror(-EINVAL), strerror(EINVAL)) == 0);
        CHECK(strlen(sb_strerror(-123456)) > 0 && strlen(sb_strerror(99)) > 0);
        CHECK(strlen(sb_strerror(INT32_MIN)) > 0 && strlen(sb_strerror(INT32_MAX)) > 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_open_refuses_bad_options);
        RUN(test_null_bus_is_einval_everywhere);
        RUN(test_null_scan_watch_and_transaction_are_einval);
        RUN(test_null_and_empty_arguments_are_einval);
        RUN(test_each_wrong_argument_alone_is_einval);
        RUN(test_a_guard_of_a_key_that_is_not_there_stays_as_it_was);
        RUN(test_too_long_a_key_is_enametoolong);
        RUN(test_too_large_a_value_is_emsgsize);
        RUN(test_revisions_that_cannot_be_meant_are_einval);
        RUN(test_bad_struct_sb_write_is_einval);
        RUN(test_what_comes_later_says_so_and_writes_nothing);
        RUN(test_a_released_guard_and_its_copies_let_go_of_nothing_else);
        RUN(test_a_scan_on_a_closed_bus_is_detached);
        RUN(test_a_forked_child_cannot_use_its_parents_bus_nor_harm_it);
        RUN(test_a_segment_that_was_replaced_is_detached);
        RUN(test_every_result_has_words);
        return test_end();
}
