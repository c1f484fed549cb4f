/*
 * Memory beside clients that are stopped under a pin: any number of them costs what was alive when
 * each stopped, and nothing that came later. Their records are written by the test.
 */
#include "ring/op/put.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define CLIENTS 1000u
#define FIRST   3u /* record of the first stopped client */

static char bytes[1024];

static bool begin(uint64_t size)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(size, CLIENTS + 2))
                return false;
        for (uint32_t i = 0; i < CLIENTS; i++)
                if (sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation) ||
                        slot != FIRST + i)
                        return false;
        return true;
}

/* Stop clients, each in an era of its own, with a few sets between them. */
static int stop(uint32_t count)
{
        int r = 0;

        for (uint32_t i = 0; i < count && !r; i++) {
                sb_pin(&reader);
                sb_store_relaxed(&sb_record_at(&writer.segment, FIRST + i)->pin,
                        sb_load_relaxed(&reader.record->pin));
                sb_unpin(&reader);
                sb_era_advance(&writer);
                r = put(&writer, i % 2 ? "one" : "two", bytes, 10);
        }
        return r;
}

static uint32_t fill(const char *prefix, uint64_t value_len)
{
        uint32_t count = 0;
        char key[32];

        do
                snprintf(key, sizeof(key), "%s%07u", prefix, count++);
        while (!put(&writer, key, bytes, value_len));
        return count - 1;
}

static int delete_all(const char *prefix, uint32_t count)
{
        char key[32];
        int r = 0;

        while (count-- && !r) {
                snprintf(key, sizeof(key), "%s%07u", prefix, count);
                r = delete (&writer, key);
        }
        return r;
}

static uint32_t problems(void)
{
        struct sb_check_report report;

        if (sb_check(&writer, false, &report))
                return UINT32_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count;
}

static void test_values_of_another_size_fit_beside_any_number_of_stopped_clients(void)
{
        static const uint32_t counts[] = {0, 16, 17, 100, 1000};
        uint32_t first = 0;

        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                uint32_t small, large;

                CHECK(begin(8 << 20));
                CHECK_EQ(stop(counts[i]), 0);
                small = fill("s", 10);
                CHECK_EQ(delete_all("s", small), 0);
                large = fill("l", 1000);
                TEST_NOTE("%u stopped: %u values of 10 bytes, then %u of 1000", counts[i], small,
                        large);
                if (!i)
                        first = large;
                /* Each holds the versions of two keys, which it may be reading. */
                CHECK(large > 100 && large * 10 > first * 9);
                CHECK_EQ(problems(), 0);
                unmake_bus();
        }
}

static uint32_t overwrite_all(uint32_t count)
{
        uint32_t i;
        char key[32];

        for (i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "k%07u", i);
                if (put(&writer, key, bytes, 10))
                        break;
        }
        return i;
}

static uint64_t barriers;

static void count_barrier(void *context)
{
        barriers++;
        sb_os_linux.membarrier(context);
}

/* Return: ticks in which a sweep was under way. */
static uint32_t tick(uint32_t count, uint32_t *cursor)
{
        uint32_t busy = 0;

        while (count--)
                busy += sb_work_tick(&reader, cursor);
        return busy;
}

/* The reader does the engine's work. */
static void test_what_stopped_clients_hold_is_looked_at_once_and_again_when_they_go_on(void)
{
        enum { KEYS = 5000 };
        struct sb_os os = sb_os_linux;
        uint32_t cursor = 0, i;
        uint64_t freed;

        os.membarrier = count_barrier;
        CHECK(begin(32 << 20));
        writer.segment.os = reader.segment.os = &os;
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK_EQ(stop(CLIENTS), 0);
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(reader.sweep.held > KEYS - SB_LIMBO_MAX);
        barriers = 0;
        CHECK_EQ(tick(2000, &cursor), 0);
        CHECK_EQ(barriers, 0);
        /* One goes on and ends its pin: the others still hold all. */
        sb_store_relaxed(&sb_record_at(&writer.segment, FIRST + CLIENTS / 2)->pin, 0);
        freed = reader.counters.freed;
        CHECK(tick(2000, &cursor) > 0);
        CHECK_EQ(tick(2000, &cursor), 0);
        CHECK(reader.counters.freed <= freed + 2);
        for (i = 0; i < CLIENTS; i++)
                sb_store_relaxed(&sb_record_at(&writer.segment, FIRST + i)->pin, 0);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(reader.counters.freed > freed + KEYS - SB_LIMBO_MAX);
        CHECK_EQ(reader.sweep.held, 0);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* Blocks that wait for a grace period. */
static uint64_t waiting(void)
{
        struct sb_check_report report;

        return sb_check(&writer, false, &report) ? UINT64_MAX : report.blocks_waiting;
}

static void test_a_next_engine_frees_what_a_stopped_client_held(void)
{
        enum { KEYS = 5000 };
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t cursor = 0, slot, generation;

        CHECK(begin(32 << 20));
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK_EQ(stop(1), 0);
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(reader.sweep.held > 0);
        sb_handle_fini(&reader);
        CHECK_EQ(sb_roster_claim(&writer.segment, 2, &identity, &slot, &generation), 0);
        make_handle(&reader, &writer.segment, slot, generation);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(waiting() > KEYS - SB_LIMBO_MAX);
        sb_store_relaxed(&sb_record_at(&writer.segment, FIRST)->pin, 0);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(waiting() < SB_LIMBO_MAX);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* Nodes have two grace periods, and wait for stopped clients in the first one already. */
static void test_deleted_keys_that_stopped_clients_hold_are_looked_at_once(void)
{
        enum { KEYS = 5000 };
        uint32_t cursor = 0;

        CHECK(begin(32 << 20));
        CHECK_EQ(overwrite_all(KEYS), KEYS);
        CHECK_EQ(stop(CLIENTS), 0);
        CHECK_EQ(delete_all("k", KEYS), 0);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(waiting() > KEYS);
        CHECK_EQ(tick(2000, &cursor), 0);
        for (uint32_t i = 0; i < CLIENTS; i++)
                sb_store_relaxed(&sb_record_at(&writer.segment, FIRST + i)->pin, 0);
        CHECK(tick(2000, &cursor) > 0);
        CHECK(waiting() < SB_LIMBO_MAX);
        CHECK_EQ(tick(2000, &cursor), 0);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* A process was killed between the unlink of a version and its date; and another one is stopped,
 * that might be about to date it. */
static void test_what_a_killed_process_left_beside_a_stopped_one_is_looked_at_once(void)
{
        struct sb_block *block;
        uint32_t cursor = 0;
        uint64_t offset;

        CHECK(begin(8 << 20));
        CHECK_EQ(put(&writer, "key", bytes, 10), 0);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset), 0);
        block = sb_block_at(&writer.segment, offset);
        sb_store_relaxed(&block->birth, SB_ERA_MIN);
        sb_store_relaxed(&block->retire, SB_RETIRE_DYING);
        sb_slab_release_all(&writer);
        CHECK_EQ(stop(1), 0);
        sb_limbo_leave(&writer);
        CHECK(tick(1000, &cursor) > 0);
        CHECK_EQ(tick(1000, &cursor), 0);
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_DYING);
        sb_store_relaxed(&sb_record_at(&writer.segment, FIRST)->pin, 0);
        CHECK(tick(1000, &cursor) > 0);
        CHECK(sb_load_relaxed(&block->retire) != SB_RETIRE_DYING);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_values_of_another_size_fit_beside_any_number_of_stopped_clients);
        RUN(test_what_stopped_clients_hold_is_looked_at_once_and_again_when_they_go_on);
        RUN(test_a_next_engine_frees_what_a_stopped_client_held);
        RUN(test_deleted_keys_that_stopped_clients_hold_are_looked_at_once);
        RUN(test_what_a_killed_process_left_beside_a_stopped_one_is_looked_at_once);
        return test_end();
}
