/*
 * The look of a new engine at a whole segment, divided among processes (agentd/inspect.h): it
 * counts what one process counts, finds what is damaged in each part, and finds it too where a
 * child has no record, cannot be made, or is killed.
 *
 * The program is linked so that fork() comes here first (see meson.build).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/inspect.h"
#include "agentd/memory.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define KEYS 3000u

static struct sb_check_report report, alone;
static uint32_t forks, refused; /* so many; from this one on none, where it is not 0 */
static bool kills;              /* each child ends before it does anything */

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
        pid_t child;

        errno = EAGAIN;
        forks++;
        if (refused && forks >= refused)
                return -1;
        child = __real_fork();
        if (!child && kills)
                raise(SIGKILL);
        return child;
}

int sb_reaper_start_time(uint32_t pid, uint64_t *ret)
{
        *ret = pid;
        return 0;
}

/* A bus with some keys, and records for so many clients besides the two handles. */
static bool make_filled_bus(uint32_t clients)
{
        char key[24];

        if (!make_bus_for(4 << 20, clients + 2))
                return false;
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "%u-%u", i % 97, i);
                if (put(&writer, key, "value", i % 6))
                        return false;
                if (i % 10 == 0 && delete (&writer, key))
                        return false;
        }
        forks = refused = 0;
        kills = false;
        return sb_check(&writer, false, &alone) == 0 && alone.problem_count == 0;
}

/* What is counted besides clients: of these, children are some while they look. */
static bool counts_as_one(void)
{
        alone.clients = report.clients;
        alone.pinned = report.pinned;
        return memcmp(&report, &alone, sizeof(report)) == 0;
}

/* Records that are in use. */
static uint32_t in_use(void)
{
        return sb_roster_count(&writer.segment);
}

static bool no_child_is_left(void)
{
        return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static void test_it_counts_what_one_process_counts_in_any_number_of_parts(void)
{
        uint32_t before;

        CHECK(make_filled_bus(20));
        before = in_use();
        for (uint32_t parts = 1; parts <= SB_MEMORY_PARTS_MAX; parts++) {
                forks = 0;
                CHECK_EQ(sb_inspect(&writer, 20, parts, &report), 0);
                /* This process is one of the parts in each of two steps. */
                CHECK_EQ(forks, 2 * (parts - 1));
                CHECK(counts_as_one());
                CHECK(report.keys == KEYS - KEYS / 10 && report.nodes >= report.keys);
                CHECK_EQ(in_use(), before);
                CHECK(no_child_is_left());
        }
        unmake_bus();
}

/* Damage the @number-th of @of places: cells of the buckets in turn. Return: what puts it back. */
static struct sb_word64 *damage_cell(uint32_t number, uint32_t of, uint64_t *ret_word)
{
        const struct sb_segment *segment = &writer.segment;
        uint32_t count = segment->geometry.bucket_count, bucket = count * number / of, index;

        for (;; bucket = (bucket + 1) % count)
                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        struct sb_word64 *cell = &segment->buckets[bucket].cell[index];

                        *ret_word = sb_load_relaxed(cell);
                        if (!*ret_word)
                                continue;
                        sb_store_relaxed(cell, *ret_word ^ UINT64_C(1) << 60); /* its tag */
                        return cell;
                }
}

static void test_damage_in_each_part_is_found(void)
{
        uint64_t word;

        CHECK(make_filled_bus(20));
        for (uint32_t number = 0; number < 24; number++) {
                struct sb_word64 *cell = damage_cell(number, 24, &word);

                CHECK_EQ(sb_inspect(&writer, 20, 2 + number % 6, &report), 0);
                CHECK(report.problem_count == 1 &&
                        strstr(report.problems[0], "the key does not belong in this bucket"));
                sb_store_relaxed(cell, word);
        }
        /* A unit of which the word makes no sense: each in its turn. */
        for (uint32_t unit = 0; unit < writer.segment.geometry.unit_count; unit += 7) {
                struct sb_word64 *at = &writer.segment.unit_words[unit];

                word = sb_load_relaxed(at);
                if (SB_UNIT_KIND(word) != SB_UNIT_FREE)
                        continue;
                sb_store_relaxed(at, UINT64_C(15) << 60);
                CHECK_EQ(sb_inspect(&writer, 20, 2 + unit % 6, &report), 0);
                CHECK(report.problem_count == 1 &&
                        strstr(report.problems[0], "its word f000000000000000 makes no sense"));
                sb_store_relaxed(at, word);
        }
        CHECK(no_child_is_left());
        unmake_bus();
}

/* A part without an answer is the engine's own. */
static void check_damage_is_found(uint32_t clients)
{
        uint64_t word;
        struct sb_word64 *cell;
        uint32_t before = in_use();

        CHECK_EQ(sb_inspect(&writer, clients, 5, &report), 0);
        CHECK(counts_as_one());
        for (uint32_t number = 0; number < 8; number++) {
                cell = damage_cell(number, 8, &word);
                forks = 0;
                CHECK_EQ(sb_inspect(&writer, clients, 5, &report), 0);
                CHECK_EQ(report.problem_count, 1);
                sb_store_relaxed(cell, word);
        }
        CHECK_EQ(in_use(), before);
        CHECK(no_child_is_left());
}

static void test_what_no_child_looks_at_the_engine_does(void)
{
        CHECK(make_filled_bus(0));
        check_damage_is_found(0); /* no record is free */
        unmake_bus();
        CHECK(make_filled_bus(1));
        check_damage_is_found(3); /* one is */
        refused = 1;
        check_damage_is_found(3);
        refused = 3;
        check_damage_is_found(3);
        refused = 0;
        kills = true;
        check_damage_is_found(3);
        unmake_bus();
}

/* Its record has its own pid, so that it is a dead client's, and no part of another engine's. */
static void test_a_child_has_a_record_with_its_own_pid(void)
{
        uint32_t slot = 3;

        CHECK(make_filled_bus(1));
        CHECK_EQ(sb_inspect(&writer, 3, 2, &report), 0);
        CHECK(sb_roster_state(&writer.segment, slot, NULL) == SB_RECORD_FREE);
        CHECK(sb_record_at(&writer.segment, slot)->pid != (uint32_t)getpid());
        CHECK_EQ(sb_record_at(&writer.segment, slot)->pid_start,
                sb_record_at(&writer.segment, slot)->pid);
        CHECK(sb_record_at(&writer.segment, slot)->pid > 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_it_counts_what_one_process_counts_in_any_number_of_parts);
        RUN(test_damage_in_each_part_is_found);
        RUN(test_what_no_child_looks_at_the_engine_does);
        RUN(test_a_child_has_a_record_with_its_own_pid);
        return test_end();
}
