/*
 * Real processes on one segment, ended by SIGKILL and halted by SIGSTOP at random moments, the
 * engine among them.
 *
 * Workers count by compare and set, write and delete keys, hold guards, scan at cuts (see
 * keys-worker.h); an engine ticks, attaches and reaps. The test process is the parent of all: it
 * kills, waits for the death that the kernel reports, tells the engine, and starts another one.
 * What workers were told lies in a table that outlives them, so at the end each counter must be
 * exactly what was acknowledged, plus at most the one increment that each killed worker had under
 * way.
 *
 * Always true: a worker that sees something impossible writes it into the table and ends with
 * status 1. Arguments: none. SB_SEED, SB_SECONDS.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/op/get.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/harness/space.h"
#include "tests/harness/test.h"
#include "tests/storm/keys-worker.h"

#define WORKERS (KEYS_SEATS - 1)
#define SIZE    (1u << 20)
#define SECONDS 12u
#define TICK_MS 2

enum { COMMAND_REAP = 'r', COMMAND_CLAIM = 'c', COMMAND_END = 'e' };

static unsigned char *segment_base;
static uint64_t seed;
static int commands[2], replies[2];

/* ---- small things ---- */

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct sb_segment open_segment(void)
{
        struct sb_segment segment;

        if (sb_os_register() || sb_segment_open(segment_base, SIZE, &sb_os_linux, &segment))
                _exit(3);
        return segment;
}

/* ---- the engine ---- */

static bool is_seated(uint32_t slot, uint32_t generation)
{
        for (uint32_t i = 0; i < WORKERS; i++)
                if (keys_table->seat[i].attached && keys_table->seat[i].slot == slot &&
                        keys_table->seat[i].generation == generation)
                        return true;
        return false;
}

/* A new engine's first work: takes record 0, reaps each client that no seat has. */
static void adopt(struct sb_handle *engine, struct sb_segment *segment)
{
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid(), .access = SB_PEER};
        uint32_t slot, generation;

        if (sb_roster_state(segment, 0, &generation) != SB_RECORD_FREE) {
                sb_handle_init(engine, segment, 0, generation, test_space(segment));
                sb_reap_record(engine, 0, generation);
        }
        if (sb_roster_claim(segment, 0, &identity, &slot, &generation)) {
                keys_complain("an engine cannot take record 0");
                _exit(1);
        }
        sb_handle_init(engine, segment, slot, generation, test_space(segment));
        for (slot = 1; slot < segment->geometry.record_count; slot++)
                if (sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE &&
                        !is_seated(slot, generation))
                        sb_reap_record(engine, slot, generation);
}

struct command {
        char what;
        uint32_t seat;
};

static void obey(struct sb_handle *engine, const struct command *command)
{
        struct keys_seat *seat = &keys_table->seat[command->seat];
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid(), .access = SB_PEER};

        if (command->what == COMMAND_REAP) {
                sb_reap_record(engine, seat->slot, seat->generation);
                seat->attached = false;
        } else if (command->what == COMMAND_CLAIM) {
                if (sb_roster_claim(&engine->segment, 1, &identity, &seat->slot, &seat->generation))
                        keys_complain("no record is free");
                else
                        seat->attached = true;
        }
        if (write(replies[1], "", 1) != 1)
                _exit(1);
}

static void be_engine(void)
{
        static struct sb_handle engine;
        struct sb_segment segment = open_segment();
        struct command command = {0};
        uint32_t cursor = 0;

        adopt(&engine, &segment);
        while (command.what != COMMAND_END) {
                struct pollfd ready = {.fd = commands[0], .events = POLLIN};

                while (sb_work_tick(&engine, &cursor))
                        ;
                if (poll(&ready, 1, TICK_MS) > 0) {
                        if (read(commands[0], &command, sizeof(command)) != sizeof(command))
                                _exit(0);
                        obey(&engine, &command);
                }
        }
        sb_handle_fini(&engine);
        _exit(0);
}

/* ---- the parent ---- */

static struct {
        uint64_t worker_kills, engine_kills, stops;
        uint64_t random;
        /* when the halted process goes on; 0: it is not halted */
        uint64_t resume_ms[KEYS_SEATS];
        bool engine_lost, ended_badly;
} parent;

static pid_t start(void (*be)(uint32_t), uint32_t number)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                be(number);
                _exit(0);
        }
        return pid;
}

static void be_worker(uint32_t number)
{
        struct sb_segment segment = open_segment();

        keys_work(&segment, &keys_table->seat[number], seed * 1000 + (uint64_t)getpid());
        _exit(keys_table->complained);
}

static void be_engine_at(uint32_t number)
{
        (void)number;
        close(commands[1]);
        close(replies[0]);
        be_engine();
}

static void start_engine(void)
{
        if (pipe(commands) || pipe(replies))
                abort();
        keys_table->seat[WORKERS].pid = start(be_engine_at, 0);
        close(commands[0]);
        close(replies[1]);
}

static void end_engine_pipes(void)
{
        close(commands[1]);
        close(replies[0]);
}

static void go_on(uint32_t number)
{
        if (parent.resume_ms[number])
                kill(keys_table->seat[number].pid, SIGCONT);
        parent.resume_ms[number] = 0;
}

static void replace_engine(void)
{
        int status;

        waitpid(keys_table->seat[WORKERS].pid, &status, 0);
        parent.resume_ms[WORKERS] = 0;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
                keys_complain("an engine ended by itself, status %d", status);
                parent.engine_lost = true;
        }
        end_engine_pipes();
        start_engine();
}

/* Asks the engine, and again if it died meanwhile. */
static void ask(char what, uint32_t seat)
{
        struct command command = {what, seat};
        char byte;

        go_on(WORKERS);
        while (!parent.engine_lost) {
                if (write(commands[1], &command, sizeof(command)) == sizeof(command) &&
                        read(replies[0], &byte, 1) == 1)
                        return;
                replace_engine();
        }
}

static void start_worker(uint32_t number)
{
        ask(COMMAND_CLAIM, number);
        if (!parent.engine_lost && keys_table->seat[number].attached)
                keys_table->seat[number].pid = start(be_worker, number);
}

static void bury_worker(uint32_t number)
{
        struct keys_seat *seat = &keys_table->seat[number];
        int status;

        waitpid(seat->pid, &status, 0);
        parent.resume_ms[number] = 0;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                parent.ended_badly = true;
        if (seat->under_way)
                keys_table->uncertain[seat->under_way - 1]++;
        seat->under_way = 0;
        ask(COMMAND_REAP, number);
}

static void do_something(void)
{
        uint32_t what = storm_random(&parent.random) % 100,
                 number = storm_random(&parent.random) % WORKERS;

        if (what < 50) {
                kill(keys_table->seat[number].pid, SIGKILL);
                parent.worker_kills++;
                bury_worker(number);
                start_worker(number);
        } else if (what < 90) {
                number = what < 55 ? WORKERS : number;
                if (parent.resume_ms[number])
                        return;
                kill(keys_table->seat[number].pid, SIGSTOP);
                parent.resume_ms[number] = now_ms() + storm_random(&parent.random) % 60 + 1;
                parent.stops++;
        } else if (what < 94) {
                kill(keys_table->seat[WORKERS].pid, SIGKILL);
                parent.engine_kills++;
                replace_engine();
        }
}

/* Let the storm go on by itself for a random time. */
static void let_pass(uint64_t us)
{
        struct timespec wait = {.tv_nsec = (long)us * 1000};

        nanosleep(&wait, NULL);
}

static bool ended_well(pid_t pid)
{
        uint64_t deadline = now_ms() + 30000;
        int status;

        while (now_ms() < deadline) {
                if (waitpid(pid, &status, WNOHANG) == pid)
                        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
                let_pass(2000);
        }
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return false;
}

static void storm(uint64_t until_ms)
{
        for (uint32_t i = 0; i < WORKERS; i++)
                start_worker(i);
        while (now_ms() < until_ms && !keys_table->complained && !parent.engine_lost &&
                !parent.ended_badly) {
                let_pass(storm_random(&parent.random) % 6000);
                for (uint32_t i = 0; i < KEYS_SEATS; i++)
                        if (parent.resume_ms[i] && parent.resume_ms[i] <= now_ms())
                                go_on(i);
                do_something();
        }
        __atomic_store_n(&keys_table->stop, true, __ATOMIC_SEQ_CST);
        for (uint32_t i = 0; i < KEYS_SEATS; i++)
                go_on(i);
        for (uint32_t i = 0; i < WORKERS; i++)
                if (keys_table->seat[i].pid && !ended_well(keys_table->seat[i].pid))
                        parent.ended_badly = true;
        ask(COMMAND_END, 0);
        if (!parent.engine_lost && !ended_well(keys_table->seat[WORKERS].pid))
                parent.ended_badly = true;
        end_engine_pipes();
}

static bool make_segment(void)
{
        struct sb_geometry_wish wish = {.size = SIZE, .clients = WORKERS + 1};
        struct sb_geometry geometry;
        uint64_t id[2] = {seed, 1};

        segment_base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        keys_table = mmap(NULL, sizeof(*keys_table), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (segment_base == MAP_FAILED || keys_table == MAP_FAILED ||
                sb_geometry_fit(&wish, &geometry))
                return false;
        sb_segment_format(segment_base, &geometry, seed, id, 1);
        return true;
}

/* ---- what must be true behind the storm ---- */

static struct sb_handle judge;

static void test_every_process_that_was_not_killed_ended_well(void)
{
        uint64_t operations = 0, found = 0, held = 0, scans = 0;

        if (keys_table->complained)
                TEST_FAIL("%s", keys_table->complaint);
        CHECK(!parent.engine_lost && !parent.ended_badly);
        for (uint32_t i = 0; i < WORKERS; i++) {
                operations += keys_table->seat[i].operations;
                found += keys_table->seat[i].found;
                held += keys_table->seat[i].held;
                scans += keys_table->seat[i].scans;
        }
        CHECK(found > 1000 && held > 100 && scans > 100);
        CHECK(operations > 1000 && parent.worker_kills > 20 && parent.stops > 20 &&
                parent.engine_kills > 0);
}

static void test_counters_are_what_was_acknowledged(void)
{
        struct sb_segment segment = open_segment();

        adopt(&judge, &segment);
        CHECK(sb_guard_grow(&judge, 0) == 0);
        for (uint32_t i = 0; i < KEYS_COUNTERS; i++) {
                struct sb_version *version;
                uint64_t value = 0, len;
                char key[64];

                if (sb_op_get(&judge, key, keys_counter_key(i, key), 0, &version) == 0) {
                        CHECK_EQ(SB_SHAPE_VALUE_LEN(version->shape), 8);
                        memcpy(&value, keys_value_of(version, &len), 8);
                        sb_guard_set(&judge, 0, 0);
                }
                CHECK(value > 0);
                if (value < keys_table->acknowledged[i] ||
                        value > keys_table->acknowledged[i] + keys_table->uncertain[i])
                        TEST_FAIL("counter %u is %llu: %llu acknowledged, %llu uncertain", i,
                                (unsigned long long)value,
                                (unsigned long long)keys_table->acknowledged[i],
                                (unsigned long long)keys_table->uncertain[i]);
        }
}

static bool delete_key(const char *key, uint32_t key_len)
{
        struct sb_op_write write = {.key = key,
                .key_len = key_len,
                .kind = SB_VERSION_DELETED,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;
        int r = sb_op_write(&judge, &write, &result);

        return r == 0 || r == SB_E_NOT_FOUND;
}

static void test_check_is_clean_and_every_block_comes_back(void)
{
        struct sb_check_report report;
        uint32_t cursor = 0, round;
        char key[64];

        CHECK_EQ(sb_check(&judge, true, &report), 0);
        if (report.problem_count)
                TEST_FAIL("check finds %u: %s", report.problem_count, report.problems[0]);
        CHECK_EQ(report.guards_stale, 0);
        CHECK_EQ(report.blocks_lost, 0);
        for (uint32_t i = 0; i < KEYS_COUNTERS; i++)
                CHECK(delete_key(key, keys_counter_key(i, key)));
        for (uint32_t i = 0; i < KEYS_CHURN; i++)
                CHECK(delete_key(key, keys_churn_key(i, key)));
        for (round = 0; round < 20; round++) {
                while (sb_work_tick(&judge, &cursor))
                        ;
                sb_work_all(&judge, true);
        }
        CHECK_EQ(sb_check(&judge, true, &report), 0);
        if (report.problem_count)
                TEST_FAIL("check finds %u: %s", report.problem_count, report.problems[0]);
        CHECK_EQ(report.guards_stale, 0);
        CHECK_EQ(report.keys + report.keys_deleted + report.placeholders, 0);
        CHECK_EQ(report.blocks_used, report.blocks_private);
}

int main(int argc, char **argv)
{
        uint64_t seconds = getenv("SB_TEST_LONG") ? 20 * SECONDS : SECONDS, operations = 0,
                 conflicts = 0, full = 0;

        test_begin(argc, argv);
        fault_from_environment();
        signal(SIGPIPE, SIG_IGN);
        seed = getenv("SB_SEED") ? strtoull(getenv("SB_SEED"), NULL, 10) : (uint64_t)time(NULL);
        seconds = getenv("SB_SECONDS") ? strtoull(getenv("SB_SECONDS"), NULL, 10) : seconds;
        parent.random = seed;
        if (!make_segment())
                return 1;
        start_engine();
        storm(now_ms() + seconds * 1000);
        RUN(test_every_process_that_was_not_killed_ended_well);
        RUN(test_counters_are_what_was_acknowledged);
        RUN(test_check_is_clean_and_every_block_comes_back);
        for (uint32_t i = 0; i < WORKERS; i++) {
                operations += keys_table->seat[i].operations;
                conflicts += keys_table->seat[i].conflicts;
                full += keys_table->seat[i].full;
        }
        TEST_NOTE("storm: %llu operations, %llu workers killed, %llu engines killed, %llu stops, "
                  "%llu conflicts, %llu full (SB_SEED=%llu)",
                (unsigned long long)operations, (unsigned long long)parent.worker_kills,
                (unsigned long long)parent.engine_kills, (unsigned long long)parent.stops,
                (unsigned long long)conflicts, (unsigned long long)full, (unsigned long long)seed);
        return test_end();
}
