/*
 * Real processes on one segment, ended by SIGKILL and halted by SIGSTOP at random moments, the
 * engine among them.
 *
 * Workers count by compare and set, write and delete keys, hold guards, scan at cuts; an engine
 * ticks, attaches and reaps. The test process is everybody's parent: it kills, waits for the death
 * that the kernel reports, tells the engine, and starts another one. What workers were told lies in
 * a table that outlives them, so at the end each counter must be exactly what was acknowledged,
 * plus at most the one increment that each killed worker had under way.
 *
 * Always true: a worker that sees something impossible writes it into the table and ends with
 * status 1. Arguments: none. SB_SEED, SB_SECONDS.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/op.h"
#include "shm/base/result.h"
#include "shm/check.h"
#include "shm/epoch.h"
#include "shm/guard.h"
#include "shm/reap.h"
#include "shm/slot.h"
#include "shm/snapshot.h"
#include "shm/walk.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define WORKERS   6u
#define COUNTERS  4u
#define CHURN     40u
#define SIZE      (1u << 20)
#define SECONDS   12u
#define TICK_MS   2
#define VALUE_MAX 3000u
#define PLACES    (WORKERS + 1) /* the engine's place is the last */

enum { COMMAND_REAP = 'r', COMMAND_CLAIM = 'c', COMMAND_END = 'e' };

/* What outlives a process. A place's words are its holder's, the parent's after its death. */
struct place {
        uint32_t slot, generation;
        bool attached;
        pid_t pid;
        /* counter + 1 while its increment may have happened and is not acknowledged */
        uint64_t under_way;
        uint64_t operations, full, conflicts;
};

static struct table {
        struct place place[PLACES];
        uint64_t acknowledged[COUNTERS]; /* by atomic adds: many workers */
        uint64_t uncertain[COUNTERS];    /* the parent's */
        char complaint[256];
        bool complained, stop;
} * table;

static unsigned char *segment_base;
static uint64_t seed;
static int commands[2], replies[2];

/* ---- small things ---- */

static uint64_t next_random(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void __attribute__((format(printf, 1, 2))) complain(const char *format, ...)
{
        va_list arguments;

        if (__atomic_exchange_n(&table->complained, true, __ATOMIC_SEQ_CST))
                return;
        va_start(arguments, format);
        vsnprintf(table->complaint, sizeof(table->complaint), format, arguments);
        va_end(arguments);
}

static struct sb_segment open_segment(void)
{
        struct sb_segment segment;

        if (sb_os_register() || sb_segment_open(segment_base, SIZE, &sb_os_linux, &segment))
                _exit(3);
        return segment;
}

/* ---- a worker ---- */

struct worker {
        struct sb_peer peer;
        struct place *place;
        uint64_t random;
        uint64_t least_rev[COUNTERS]; /* revisions of a key never go back */
        struct sb_version *held;
        unsigned char held_copy[VALUE_MAX + 64];
        size_t held_len;
};

static uint32_t counter_key(uint32_t counter, char *ret)
{
        return (uint32_t)sprintf(ret, "counter/%u", counter);
}
static uint32_t churn_key(uint32_t number, char *ret)
{
        return (uint32_t)sprintf(
                ret, "churn/%u/%.*s", number, (int)(number % 20), "xxxxxxxxxxxxxxxxxxxx");
}

static const unsigned char *value_of(const struct sb_version *version, uint64_t *ret_len)
{
        *ret_len = SB_SHAPE_VALUE_LEN(version->shape);
        return version->bytes + SB_SHAPE_KEY_LEN(version->shape);
}

/* A churn value: a length, then bytes that follow from it and from the key's number. */
static void fill(unsigned char *value, uint32_t len, uint32_t number)
{
        for (uint32_t i = 0; i < len; i++)
                value[i] = (unsigned char)(number * 31 + len + i * 7);
}

static bool filled_right(const unsigned char *value, uint64_t len, uint32_t number)
{
        for (uint64_t i = 0; i < len; i++)
                if (value[i] != (unsigned char)(number * 31 + len + i * 7))
                        return false;
        return true;
}

static void increment(struct worker *w)
{
        uint32_t counter = next_random(&w->random) % COUNTERS;
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = counter_key(counter, key),
                .kind = SB_VERSION_VALUE,
                .value_len = 8};
        struct sb_version *version;
        struct sb_op_result result = {0};
        uint64_t value = 0, len;
        int r = sb_op_get(&w->peer, key, write.key_len, 0, &version);

        if (r == 0) {
                if (value_of(version, &len), len != 8)
                        complain("a counter has %llu bytes", (unsigned long long)len);
                memcpy(&value, value_of(version, &len), 8);
                write.expected_rev = version->rev;
                sb_guard_set(&w->peer, 0, 0);
                if (write.expected_rev < w->least_rev[counter])
                        complain("revision of a counter went back");
                w->least_rev[counter] = write.expected_rev;
        }
        value++;
        write.value = &value;
        __atomic_store_n(&w->place->under_way, counter + 1, __ATOMIC_SEQ_CST);
        r = sb_op_write(&w->peer, &write, &result);
        if (r == 0)
                __atomic_fetch_add(&table->acknowledged[counter], 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&w->place->under_way, 0, __ATOMIC_SEQ_CST);
        w->place->conflicts += r == SB_E_CONFLICT;
        w->place->full += r == SB_E_FULL;
        if (r == 0 && write.expected_rev && result.rev != write.expected_rev + 1)
                complain("cas at %llu gave revision %llu", (unsigned long long)write.expected_rev,
                        (unsigned long long)result.rev);
}

static void churn_set(struct worker *w)
{
        unsigned char value[VALUE_MAX];
        uint32_t number = next_random(&w->random) % CHURN;
        uint32_t len = next_random(&w->random) % 16 ? next_random(&w->random) % 200
                                                    : next_random(&w->random) % VALUE_MAX;
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = churn_key(number, key),
                .kind = SB_VERSION_VALUE,
                .value = value,
                .value_len = len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        fill(value, len, number);
        w->place->full += sb_op_write(&w->peer, &write, &result) == SB_E_FULL;
}

static void churn_delete(struct worker *w)
{
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = churn_key(next_random(&w->random) % CHURN, key),
                .kind = SB_VERSION_DELETED,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        w->place->full += sb_op_write(&w->peer, &write, &result) == SB_E_FULL;
}

static void churn_get(struct worker *w)
{
        uint32_t number = next_random(&w->random) % CHURN;
        char key[64];
        uint32_t key_len = churn_key(number, key);
        struct sb_version *version;
        uint64_t len;

        if (sb_op_get(&w->peer, key, key_len, 0, &version))
                return;
        if (SB_SHAPE_KEY_LEN(version->shape) != key_len ||
                memcmp(version->bytes, key, key_len) != 0 ||
                !filled_right(value_of(version, &len), SB_SHAPE_VALUE_LEN(version->shape), number))
                complain("key %u has a wrong value", number);
        sb_guard_set(&w->peer, 0, 0);
}

/* Hold a version over many operations; its bytes must not change. */
static void hold_or_let_go(struct worker *w)
{
        char key[64];
        uint64_t len;

        if (!w->held) {
                if (sb_op_get(&w->peer, key, churn_key(next_random(&w->random) % CHURN, key), 1,
                            &w->held)) {
                        w->held = NULL;
                        return;
                }
                value_of(w->held, &len);
                w->held_len = SB_SHAPE_KEY_LEN(w->held->shape) + len;
                memcpy(w->held_copy, w->held->bytes, w->held_len);
                return;
        }
        if (memcmp(w->held_copy, w->held->bytes, w->held_len) != 0)
                complain("a held version changed");
        w->held = NULL;
        sb_guard_set(&w->peer, 1, 0);
}

/* Look at a node of a walk at @cut. A tombstone and no version are the same: a key may be removed
 * between two walks. */
static uint64_t add_up(struct worker *w, struct sb_node *node, uint64_t cut, uint64_t sum)
{
        struct sb_version *version = sb_walk_at(&w->peer, node, cut);

        if (!version || SB_SHAPE_KIND(version->shape) != SB_VERSION_VALUE)
                return sum;
        return sum * 31 + version->rev + SB_SHAPE_VALUE_LEN(version->shape) * 7 + node->key_len;
}

/* A walk over all keys at a cut, which must come in order. Returns a sum over what has a value
 * there. */
static uint64_t walk(struct worker *w, uint64_t cut)
{
        struct sb_node *node;
        char last[SB_KEY_LEN_MAX];
        uint32_t last_len = 0;
        uint64_t sum = 0;
        bool gone = false;

        sb_pin(&w->peer);
        node = sb_walk_seek(&w->peer, "", 0, false);
        while (node) {
                const char *key = (const char *)&node->next[node->height];
                uint32_t len = node->key_len, shorter = len < last_len ? len : last_len;
                int order = memcmp(last, key, shorter);

                if (len > sizeof(last) || order > 0 || (order == 0 && last_len >= len)) {
                        complain("a scan is out of order: %.*s after %.*s", (int)len, key,
                                (int)last_len, last);
                        break;
                }
                memcpy(last, key, len);
                last_len = len;
                sum = add_up(w, node, cut, sum);
                node = sb_walk_next(&w->peer, node, &gone);
                if (gone) {
                        sb_unpin(&w->peer);
                        sb_pin(&w->peer);
                        node = sb_walk_seek(&w->peer, last, last_len, true);
                        gone = false;
                }
        }
        sb_unpin(&w->peer);
        return sum;
}

/* The same cut twice, with writes in between. */
static void scan(struct worker *w)
{
        uint32_t index;
        uint64_t cut, before;

        if (sb_snapshot_open(&w->peer, &index, &cut))
                return;
        before = walk(w, cut);
        increment(w);
        churn_set(w);
        churn_delete(w);
        if (walk(w, cut) != before)
                complain("the same cut read twice differs");
        sb_snapshot_close(&w->peer, index);
}

static void work(uint32_t number)
{
        static struct worker w;
        struct sb_segment segment = open_segment();

        w.place = &table->place[number];
        w.random = seed * 1000 + (uint64_t)getpid();
        sb_peer_init(&w.peer, &segment, w.place->slot, w.place->generation);
        if (sb_guard_grow(&w.peer, 1))
                complain("no room for a guard");
        while (!__atomic_load_n(&table->stop, __ATOMIC_RELAXED) && !table->complained) {
                uint64_t what = next_random(&w.random) % 100;

                if (what < 30)
                        increment(&w);
                else if (what < 55)
                        churn_set(&w);
                else if (what < 70)
                        churn_delete(&w);
                else if (what < 90)
                        churn_get(&w);
                else if (what < 97)
                        hold_or_let_go(&w);
                else
                        scan(&w);
                w.place->operations++;
        }
        sb_peer_fini(&w.peer);
        _exit(table->complained);
}

/* ---- the engine ---- */

static bool place_is_at(uint32_t slot, uint32_t generation)
{
        for (uint32_t i = 0; i < WORKERS; i++)
                if (table->place[i].attached && table->place[i].slot == slot &&
                        table->place[i].generation == generation)
                        return true;
        return false;
}

/* A new engine's first work: take record 0, reap whoever is in nobody's place. */
static void adopt(struct sb_peer *engine, struct sb_segment *segment)
{
        struct sb_slot_identity identity = {.pid = (uint32_t)getpid(), .access = SB_PEER};
        uint32_t slot, generation;

        if (sb_slot_state(segment, 0, &generation) != SB_CLIENT_FREE) {
                sb_peer_init(engine, segment, 0, generation);
                sb_reap_slot(engine, 0, generation);
        }
        if (sb_slot_claim(segment, 0, &identity, &slot, &generation)) {
                complain("an engine cannot take record 0");
                _exit(1);
        }
        sb_peer_init(engine, segment, slot, generation);
        for (slot = 1; slot < segment->geometry.client_count; slot++)
                if (sb_slot_state(segment, slot, &generation) != SB_CLIENT_FREE &&
                        !place_is_at(slot, generation))
                        sb_reap_slot(engine, slot, generation);
}

struct command {
        char what;
        uint32_t place;
};

static void obey(struct sb_peer *engine, const struct command *command)
{
        struct place *place = &table->place[command->place];
        struct sb_slot_identity identity = {.pid = (uint32_t)getpid(), .access = SB_PEER};

        if (command->what == COMMAND_REAP) {
                sb_reap_slot(engine, place->slot, place->generation);
                place->attached = false;
        } else if (command->what == COMMAND_CLAIM) {
                if (sb_slot_claim(&engine->segment, 1, &identity, &place->slot, &place->generation))
                        complain("no record is free");
                else
                        place->attached = true;
        }
        if (write(replies[1], "", 1) != 1)
                _exit(1);
}

static void be_engine(void)
{
        static struct sb_peer engine;
        struct sb_segment segment = open_segment();
        struct command command = {0};
        uint32_t cursor = 0;

        adopt(&engine, &segment);
        while (command.what != COMMAND_END) {
                struct pollfd ready = {.fd = commands[0], .events = POLLIN};

                while (sb_reap_tick(&engine, &cursor))
                        ;
                if (poll(&ready, 1, TICK_MS) > 0) {
                        if (read(commands[0], &command, sizeof(command)) != sizeof(command))
                                _exit(0);
                        obey(&engine, &command);
                }
        }
        sb_peer_fini(&engine);
        _exit(0);
}

/* ---- the parent ---- */

static struct {
        uint64_t worker_kills, engine_kills, stops;
        uint64_t random;
        uint64_t resume_ms[PLACES]; /* when the one that stands goes on; 0: it does not stand */
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
        table->place[WORKERS].pid = start(be_engine_at, 0);
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
                kill(table->place[number].pid, SIGCONT);
        parent.resume_ms[number] = 0;
}

static void replace_engine(void)
{
        int status;

        waitpid(table->place[WORKERS].pid, &status, 0);
        parent.resume_ms[WORKERS] = 0;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
                complain("an engine ended by itself, status %d", status);
                parent.engine_lost = true;
        }
        end_engine_pipes();
        start_engine();
}

/* Ask the engine, again when it died over it. */
static void ask(char what, uint32_t place)
{
        struct command command = {what, place};
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
        if (!parent.engine_lost && table->place[number].attached)
                table->place[number].pid = start(work, number);
}

static void bury_worker(uint32_t number)
{
        struct place *place = &table->place[number];
        int status;

        waitpid(place->pid, &status, 0);
        parent.resume_ms[number] = 0;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                parent.ended_badly = true;
        if (place->under_way)
                table->uncertain[place->under_way - 1]++;
        place->under_way = 0;
        ask(COMMAND_REAP, number);
}

static void do_something(void)
{
        uint32_t what = next_random(&parent.random) % 100,
                 number = next_random(&parent.random) % WORKERS;

        if (what < 50) {
                kill(table->place[number].pid, SIGKILL);
                parent.worker_kills++;
                bury_worker(number);
                start_worker(number);
        } else if (what < 90) {
                number = what < 55 ? WORKERS : number;
                if (parent.resume_ms[number])
                        return;
                kill(table->place[number].pid, SIGSTOP);
                parent.resume_ms[number] = now_ms() + next_random(&parent.random) % 60 + 1;
                parent.stops++;
        } else if (what < 94) {
                kill(table->place[WORKERS].pid, SIGKILL);
                parent.engine_kills++;
                replace_engine();
        }
}

/* A while of random length in which the storm goes on by itself. */
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
        while (now_ms() < until_ms && !table->complained && !parent.engine_lost &&
                !parent.ended_badly) {
                let_pass(next_random(&parent.random) % 6000);
                for (uint32_t i = 0; i < PLACES; i++)
                        if (parent.resume_ms[i] && parent.resume_ms[i] <= now_ms())
                                go_on(i);
                do_something();
        }
        __atomic_store_n(&table->stop, true, __ATOMIC_SEQ_CST);
        for (uint32_t i = 0; i < PLACES; i++)
                go_on(i);
        for (uint32_t i = 0; i < WORKERS; i++)
                if (table->place[i].pid && !ended_well(table->place[i].pid))
                        parent.ended_badly = true;
        ask(COMMAND_END, 0);
        if (!parent.engine_lost && !ended_well(table->place[WORKERS].pid))
                parent.ended_badly = true;
        end_engine_pipes();
}

static bool make_segment(void)
{
        struct sb_geometry_wish wish = {.size = SIZE, .clients = WORKERS + 1};
        struct sb_geometry geometry;
        uint64_t id[2] = {seed, 1};

        segment_base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (segment_base == MAP_FAILED || table == MAP_FAILED || sb_geometry_fit(&wish, &geometry))
                return false;
        sb_segment_format(segment_base, &geometry, seed, id, 1);
        return true;
}

/* ---- what must be true behind the storm ---- */

static struct sb_peer judge;

static void test_everybody_who_was_not_killed_ended_well(void)
{
        uint64_t operations = 0;

        if (table->complained)
                TEST_FAIL("%s", table->complaint);
        CHECK(!parent.engine_lost && !parent.ended_badly);
        for (uint32_t i = 0; i < WORKERS; i++)
                operations += table->place[i].operations;
        CHECK(operations > 1000 && parent.worker_kills > 0 && parent.stops > 0);
}

static void test_counters_are_what_was_acknowledged(void)
{
        struct sb_segment segment = open_segment();

        adopt(&judge, &segment);
        CHECK(sb_guard_grow(&judge, 0) == 0);
        for (uint32_t i = 0; i < COUNTERS; i++) {
                struct sb_version *version;
                uint64_t value = 0, len;
                char key[64];

                if (sb_op_get(&judge, key, counter_key(i, key), 0, &version) == 0) {
                        CHECK_EQ(SB_SHAPE_VALUE_LEN(version->shape), 8);
                        memcpy(&value, value_of(version, &len), 8);
                        sb_guard_set(&judge, 0, 0);
                }
                CHECK(value > 0);
                if (value < table->acknowledged[i] ||
                        value > table->acknowledged[i] + table->uncertain[i])
                        TEST_FAIL("counter %u is %llu: %llu acknowledged, %llu uncertain", i,
                                (unsigned long long)value,
                                (unsigned long long)table->acknowledged[i],
                                (unsigned long long)table->uncertain[i]);
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
        CHECK_EQ(report.blocks_lost, 0);
        for (uint32_t i = 0; i < COUNTERS; i++)
                CHECK(delete_key(key, counter_key(i, key)));
        for (uint32_t i = 0; i < CHURN; i++)
                CHECK(delete_key(key, churn_key(i, key)));
        for (round = 0; round < 20; round++) {
                while (sb_reap_tick(&judge, &cursor))
                        ;
                sb_op_memory_work(&judge, true);
        }
        CHECK_EQ(sb_check(&judge, true, &report), 0);
        if (report.problem_count)
                TEST_FAIL("check finds %u: %s", report.problem_count, report.problems[0]);
        CHECK_EQ(report.keys + report.keys_deleted + report.births, 0);
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
        RUN(test_everybody_who_was_not_killed_ended_well);
        RUN(test_counters_are_what_was_acknowledged);
        RUN(test_check_is_clean_and_every_block_comes_back);
        for (uint32_t i = 0; i < WORKERS; i++) {
                operations += table->place[i].operations;
                conflicts += table->place[i].conflicts;
                full += table->place[i].full;
        }
        TEST_NOTE("storm: %llu operations, %llu workers killed, %llu engines killed, %llu stops, "
                  "%llu conflicts, %llu full (SB_SEED=%llu)",
                (unsigned long long)operations, (unsigned long long)parent.worker_kills,
                (unsigned long long)parent.engine_kills, (unsigned long long)parent.stops,
                (unsigned long long)conflicts, (unsigned long long)full, (unsigned long long)seed);
        return test_end();
}
