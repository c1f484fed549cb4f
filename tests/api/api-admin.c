/* The calls behind the commands stat, clients and check of agentctl. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/notify/durable.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

/* A look is over: what goes meanwhile waits for it no longer. */
#define CHECK_LOOK_ENDS() CHECK(!sb_load_relaxed(&bus->handle.record->pin))

static void test_stat_counts_keys_memory_and_clients(void)
{
        struct sb_admin_stat before, after;
        char value[10000] = {0}, key[16];
        struct sb_bus *other;

        BEGIN();
        CHECK_EQ(sb_admin_stat(bus, &before), 0);
        CHECK_LOOK_ENDS();
        CHECK(before.cells_used == 0 && before.cells_away == 0 && before.cells >= 100);
        CHECK(before.keys == 0 && before.clients == 1 && before.segment_bytes >= 16 * MIB);
        CHECK(before.data_free_bytes <= before.data_bytes &&
                before.data_bytes < before.segment_bytes);
        CHECK(before.value_len_max >= 4 * MIB && before.key_len_max == 1024);
        other = world_bus(&world);
        CHECK(other);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(sb_set(other, b(key), (struct sb_bytes){value, sizeof(value)}, NULL, NULL),
                        0);
        }
        CHECK_EQ(sb_delete(other, b("key7"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_admin_stat(bus, &after), 0);
        CHECK_EQ(after.keys, 99);
        CHECK(after.keys_deleted <= 1 && after.clients == 2);
        CHECK_EQ(after.cells_used, 99 + after.keys_deleted);
        CHECK_EQ(after.cells, before.cells);
        CHECK(before.data_free_bytes - after.data_free_bytes >= 99 * sizeof(value));
        CHECK(!sb_close(other));
        CHECK_EQ(sb_admin_stat(bus, &after), 0);
        CHECK_EQ(after.clients, 1);
        END();
}

/* Find the record of this process that is not @bus's own: the one with @guards guards. */
static bool find_client(uint32_t guards, struct sb_admin_client *ret)
{
        uint32_t number = 1;

        while (sb_admin_client_next(bus, &number, ret) == 0)
                if (ret->pid == (uint32_t)getpid() && ret->guards == guards)
                        return !sb_load_relaxed(&bus->handle.record->pin);
        return false;
}

static void test_clients_show_how_much_each_holds(void)
{
        struct sb_guard guards[100] = {0}, large = {0};
        struct sb_admin_client client;
        struct sb_scan *scan = NULL;
        struct sb_bus *other;
        char *value = calloc(1, 2 * MIB);

        CHECK(value);
        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_set(bus, b("small"), (struct sb_bytes){value, 1000}, NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("large"), (struct sb_bytes){value, 2 * MIB}, NULL, NULL), 0);
        for (unsigned i = 0; i < 100; i++)
                CHECK_EQ(sb_get(other, b("small"), &guards[i]), 0);
        CHECK(find_client(100, &client));
        CHECK(client.pinned_bytes >= 100 * 1000 && client.pinned_bytes <= 100 * 2500);
        CHECK(client.snapshots == 0 && client.access == SB_PEER &&
                client.number == guards[0].writer + 1);
        CHECK_EQ(sb_get(other, b("large"), &large), 0);
        CHECK_EQ(sb_scan_open(other, NULL, (struct sb_bytes){0}, &scan), 0);
        CHECK(find_client(101, &client));
        CHECK(client.pinned_bytes >= 2 * MIB + 100 * 1000 && client.snapshots == 1);
        for (unsigned i = 0; i < 100; i++)
                sb_guard_release(&guards[i]);
        CHECK(find_client(1, &client));
        CHECK(client.pinned_bytes >= 2 * MIB && client.pinned_bytes < 3 * MIB);
        sb_guard_release(&large);
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_close(other));
        free(value);
        END();
}

/* What a walk over all watches has seen. */
struct seen {
        uint32_t count, behind;
        uint64_t rev;
        struct sb_admin_watch last;
};

static void see(void *argument, const struct sb_admin_watch *watch)
{
        struct seen *seen = argument;

        seen->count++;
        seen->behind += watch->behind;
        CHECK(watch->key.len == 1 || watch->key.len == 2);
        if (memcmp(watch->key.data, "a", 1) == 0)
                seen->rev = watch->rev;
        seen->last = *watch;
}

static void test_watches_are_listed_and_those_that_are_behind(void)
{
        struct sb_watch *watches[20] = {NULL};
        struct sb_guard guard = {0};
        struct sb_bus *other;
        struct seen seen = {0};

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK_LOOK_ENDS();
        CHECK_EQ(seen.count, 0);
        /* More of one key than a ring has room for, and of a key that is not there. */
        for (int i = 0; i < 19; i++)
                CHECK_EQ(sb_watch_open(i % 2 ? bus : other, b("a"), 0, SB_ANY_REV, &watches[i]), 0);
        CHECK_EQ(sb_watch_open(other, b("bb"), 0, SB_ANY_REV, &watches[19]), 0);
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK(seen.count == 20 && seen.behind == 0);
        CHECK_EQ(sb_set(bus, b("a"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("a"), b("2"), NULL, NULL), 0);
        memset(&seen, 0, sizeof(seen));
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK(seen.count == 20 && seen.behind == 19 && seen.rev == 2);
        /* A client that waits has taken note of all its watches. */
        CHECK_EQ(sb_wait(bus, 0), 0);
        CHECK_EQ(sb_watch_next(watches[1], 0, &guard), 0);
        sb_guard_release(&guard);
        memset(&seen, 0, sizeof(seen));
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK(seen.count == 20 && seen.behind == 10);
        CHECK_EQ(sb_admin_watch_is_behind(bus, seen.last.client, seen.last.bit), seen.last.behind);
        CHECK(!sb_admin_watch_is_behind(bus, UINT32_MAX, 0));
        for (int i = 0; i < 19; i += 2)
                sb_watch_close(watches[i]);
        CHECK(!sb_close(other));
        memset(&seen, 0, sizeof(seen));
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK(seen.count == 9 && seen.behind == 0);
        for (int i = 1; i < 19; i += 2)
                sb_watch_close(watches[i]);
        sb_watch_close(watches[19]);
        memset(&seen, 0, sizeof(seen));
        CHECK_EQ(sb_admin_watches(bus, see, &seen), 0);
        CHECK_EQ(seen.count, 0);
        END();
}

static void test_memory_is_told_by_kind_and_adds_up(void)
{
        struct sb_admin_memory before, after;
        static char large[300000];
        struct sb_admin_stat stat;

        BEGIN();
        CHECK_EQ(sb_admin_memory(bus, &before), 0);
        CHECK_LOOK_ENDS();
        CHECK_EQ(sb_set(bus, b("small"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("large"), (struct sb_bytes){large, sizeof(large)}, NULL, NULL), 0);
        CHECK_EQ(sb_admin_memory(bus, &after), 0);
        CHECK(after.large_bytes - before.large_bytes >= sizeof(large));
        CHECK(after.values_bytes > before.values_bytes && after.keys_bytes > before.keys_bytes);
        CHECK_EQ(after.free_bytes + after.values_bytes + after.keys_bytes + after.guards_bytes +
                         after.large_bytes + after.emptied_bytes,
                after.all_bytes);
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK(after.all_bytes == stat.data_bytes && after.free_bytes == stat.data_free_bytes);
        CHECK_EQ(stat.held_bytes, 0);
        bus->handle.segment.super->held_units = 3;
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK(stat.held_bytes == 3 * (uint64_t)stat.unit_size);
        bus->handle.segment.super->held_units = 0;
        END();
}

/* A process that had the log's record, and is gone, is none; and a bus without a log has nothing of
 * one, whatever the words say. */
static void test_a_log_is_told_where_there_is_one(void)
{
        struct sb_segment *segment;
        struct sb_admin_stat stat;

        BEGIN();
        segment = &bus->handle.segment;
        if (!world.remote) { /* there an engine goes by these words, too */
                sb_record_at(segment, sb_durable_slot(segment))->pid = 77;
                sb_store_relaxed(&segment->super->durable, 1);
                CHECK_EQ(sb_admin_stat(bus, &stat), 0);
                CHECK(!stat.durable && !stat.log_pid);
                sb_store_relaxed(&segment->super->log_mode, SB_LOG_STRICT);
                CHECK_EQ(sb_admin_stat(bus, &stat), 0);
                CHECK(stat.durable == 1 && !stat.log_pid);
        }
        END();
}

/* No process is left that could wake the one that waits. */
static void *end_bus(void *argument)
{
        const struct sb_segment *segment = argument;

        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        sb_store_relaxed(&segment->super->state, SB_SEGMENT_REPLACED);
        return NULL;
}

static void test_a_wait_for_a_copy_of_the_bus_ends_with_agentd_and_not_at_its_deadline(void)
{
        struct sb_segment *segment;
        uint64_t number = 0, begun;
        pthread_t thread;

        BEGIN();
        segment = &bus->handle.segment;
        if (!world.remote) {
                sb_store_relaxed(&segment->super->log_mode, SB_LOG_STRICT);
                CHECK_EQ(sb_admin_log_copy(bus, &number), 0);
                begun = now_ns();
                CHECK_EQ(sb_admin_log_wait(bus, number, begun + 300000000), SB_E_TIMED_OUT);
                CHECK(now_ns() - begun >= 300000000);
                CHECK_EQ(pthread_create(&thread, NULL, end_bus, segment), 0);
                CHECK_EQ(sb_admin_log_wait(bus, number, now_ns() + 20000000000), SB_E_DETACHED);
                CHECK(now_ns() - begun < 10000000000);
                CHECK_EQ(pthread_join(thread, NULL), 0);
                sb_store_relaxed(&segment->super->state, SB_SEGMENT_SERVING);
                bus->lost = false;
        }
        END();
}

static void test_check_counts_what_is_there(void)
{
        struct sb_check_report report;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_set(bus, b("a"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("b"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, b("a"), &guard), 0);
        CHECK_EQ(sb_admin_check(bus, &report), 0);
        CHECK_LOOK_ENDS();
        CHECK(report.problem_count == 0 && report.keys == 2 && report.guards == 1 &&
                report.blocks_lost == 0);
        sb_guard_release(&guard);
        END();
}

static void test_a_damaged_chain_is_found_and_named(void)
{
        struct sb_check_report report;
        struct sb_guard guard = {0};
        struct sb_version *version;

        BEGIN();
        if (world.remote) {
                sb_close(bus);
                world_close(&world);
                TEST_SKIP("the test damages the segment itself");
        }
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        version = (struct sb_version *)((unsigned char *)(uintptr_t)guard.key.data -
                                        sizeof(*version));
        version->shape = SB_SHAPE(UINT32_MAX, 3, SB_VERSION_VALUE, 1);
        CHECK_EQ(sb_admin_check(bus, &report), 0);
        CHECK(report.problem_count > 0 && report.problems[0][0] != '\0');
        sb_guard_release(&guard);
        world_drop(&world);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_stat_counts_keys_memory_and_clients);
        RUN(test_clients_show_how_much_each_holds);
        RUN(test_watches_are_listed_and_those_that_are_behind);
        RUN(test_memory_is_told_by_kind_and_adds_up);
        RUN(test_a_log_is_told_where_there_is_one);
        RUN(test_a_wait_for_a_copy_of_the_bus_ends_with_agentd_and_not_at_its_deadline);
        RUN(test_check_counts_what_is_there);
        RUN(test_a_damaged_chain_is_found_and_named);
        return test_end();
}
