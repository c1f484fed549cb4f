/*
 * Transactions in a storm: a real agentd, workers and a watcher ended by SIGKILL and halted by
 * SIGSTOP at random moments, the engine killed now and then; afterwards everything that was read
 * and written is judged.
 *
 * Three storms, one after the other: transactions with snapshot isolation alone, serializable ones
 * alone, and both on the same keys, of which only the weaker is asked. What the processes do is in
 * work.h, what they write down and how it is judged in record.h. The test process is the parent of
 * all: it kills, waits, and starts another one.
 *
 * To show that the judgement finds what is wrong, one note of a real record is made to lie.
 * Arguments: none. SB_SEED, SB_OPERATIONS and SB_LEAST_MS (of each storm, at least).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/storm/bank.h"
#include "tests/storm/work.h"

#define WORKERS    5u
#define WATCHER    WORKERS
#define PROCESSES  (WORKERS + 1)
#define END_SEAT   PROCESSES
#define SEATS      (PROCESSES + 1) /* of records: the last is what is read at the end */
#define OPERATIONS 750000u
#define LEAST_MS   2000u
#define SIZE       (16u << 20)

static struct world world;
static struct sb_bus *bus;
static struct record *records[SEATS];
static struct record_verdict verdict;
static uint64_t seed, operations_wanted, least_wanted_ms, randomness;

static struct {
        uint64_t worker_kills, engine_kills, stops;
        uint64_t resume_ms[PROCESSES]; /* when the halted process goes on; 0: it is not halted */
        uint64_t engine_resume_ms;
        pid_t engine; /* the one that was halted or killed last */
        bool ended_badly;
        uint64_t operations, commits, aborted, edges, unknown, believed, unseen, absent, lives;
} parent;

static uint64_t now_ms(void)
{
        return work_now_ns() / 1000000;
}

/* ---- processes ---- */

static void be(uint32_t number)
{
        uint64_t own_seed = seed * 1000 + (uint64_t)getpid();
        struct sb_bus *own;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        own = world_bus(&world);
        if (!own)
                work_complain("a process cannot attach");
        else if (number == WATCHER)
                work_watch(own, number, own_seed);
        else
                work_transactions(own, number, records[number], own_seed);
        sb_close(own);
        _exit(work_table->complained);
}

static void start(uint32_t number)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                be(number);
        work_table->seat[number].pid = pid;
        parent.resume_ms[number] = 0;
}

/* Wait until the last note of a worker says that it commits, but not for long: most of a
 * transaction is elsewhere. */
static void catch_in_commit(uint32_t number)
{
        const struct record *record = records[number];
        uint64_t end = work_now_ns() + 300000, count;

        do
                count = __atomic_load_n(&record->count, __ATOMIC_ACQUIRE);
        while ((!count || record->notes[count - 1].what != RECORD_TRY) && work_now_ns() < end);
}

static void kill_and_replace(uint32_t number)
{
        int status;

        if (number != WATCHER && storm_random(&randomness) % 2)
                catch_in_commit(number);
        kill(work_table->seat[number].pid, SIGKILL);
        waitpid(work_table->seat[number].pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                parent.ended_badly = true;
        parent.worker_kills++;
        start(number);
}

static void halt(uint32_t number)
{
        if (parent.resume_ms[number])
                return;
        if (number != WATCHER && storm_random(&randomness) % 2)
                catch_in_commit(number);
        kill(work_table->seat[number].pid, SIGSTOP);
        parent.resume_ms[number] = now_ms() + storm_random(&randomness) % 40 + 1;
        parent.stops++;
}

static void go_on(uint32_t number)
{
        if (parent.resume_ms[number])
                kill(work_table->seat[number].pid, SIGCONT);
        parent.resume_ms[number] = 0;
}

/* Halt or kill the engine if it is another one than last time, so that no pid is used twice. */
static void disturb_engine(bool deadly)
{
        struct sb_admin_stat stat;

        if (parent.engine_resume_ms || sb_admin_stat(bus, &stat) != 0 || !stat.engine_pid ||
                (pid_t)stat.engine_pid == parent.engine)
                return;
        if (deadly) {
                parent.engine = (pid_t)stat.engine_pid;
                kill(parent.engine, SIGKILL);
                parent.engine_kills++;
                return;
        }
        kill((pid_t)stat.engine_pid, SIGSTOP);
        work_rest(storm_random(&randomness) % 10000);
        kill((pid_t)stat.engine_pid, SIGCONT);
        parent.stops++;
}

static void disturb(void)
{
        uint32_t what = (uint32_t)(storm_random(&randomness) % 100),
                 number = (uint32_t)(storm_random(&randomness) % PROCESSES);

        if (what < 40)
                kill_and_replace(number);
        else if (what < 92)
                halt(number);
        else if (what < 96)
                disturb_engine(false);
        else
                disturb_engine(true);
}

static bool ended_well(pid_t pid)
{
        uint64_t deadline = now_ms() + 30000;
        int status;

        while (now_ms() < deadline) {
                if (waitpid(pid, &status, WNOHANG) == pid) {
                        if (WIFSIGNALED(status))
                                work_complain("a process ended by signal %d", WTERMSIG(status));
                        return status == 0;
                }
                work_rest(2000);
        }
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return false;
}

static uint64_t recorded(void)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < SEATS; i++)
                sum += __atomic_load_n(&work_table->seat[i].operations, __ATOMIC_RELAXED);
        return sum;
}

static bool make_records(void)
{
        for (uint32_t i = 0; i < SEATS; i++) {
                if (records[i])
                        munmap(records[i], sizeof(struct record));
                records[i] = mmap(NULL, sizeof(struct record), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (records[i] == MAP_FAILED)
                        return false;
                work_table->seat[i].operations = 0;
        }
        return true;
}

/* Whether a process has ended, although none was told to. */
static bool a_process_has_ended(void)
{
        for (uint32_t i = 0; i < PROCESSES; i++) {
                siginfo_t info = {0};

                if (waitid(P_PID, (id_t)work_table->seat[i].pid, &info,
                            WEXITED | WNOHANG | WNOWAIT) ||
                        info.si_pid)
                        return true;
        }
        return false;
}

/* Run a storm until @operations are recorded, and at least for @least_ms. Return: whether all
 * processes ended well. */
static bool storm(
        enum work_isolation isolation, uint64_t operations, uint64_t least_ms, bool deadly)
{
        uint64_t began = now_ms();

        if (!work_clear(bus) || !make_records())
                return false;
        work_table->isolation = isolation;
        __atomic_store_n(&work_table->stop, false, __ATOMIC_SEQ_CST);
        for (uint32_t i = 0; i < PROCESSES; i++)
                start(i);
        while ((recorded() < operations || now_ms() < began + least_ms) &&
                !work_table->complained && !parent.ended_badly && !a_process_has_ended()) {
                work_rest(storm_random(&randomness) % 4000);
                for (uint32_t i = 0; i < PROCESSES; i++)
                        if (parent.resume_ms[i] && parent.resume_ms[i] <= now_ms())
                                go_on(i);
                if (deadly)
                        disturb();
        }
        __atomic_store_n(&work_table->stop, true, __ATOMIC_SEQ_CST);
        for (uint32_t i = 0; i < PROCESSES; i++)
                go_on(i);
        for (uint32_t i = 0; i < PROCESSES; i++)
                if (!ended_well(work_table->seat[i].pid))
                        parent.ended_badly = true;
        work_read_end(bus, END_SEAT, records[END_SEAT]);
        return !parent.ended_badly && !work_table->complained;
}

static const char *judged(enum history_level level)
{
        static char text[1536];
        bool right = record_judge(records, SEATS, level, true, &verdict);

        parent.operations += verdict.history.operations;
        parent.commits += verdict.history.txns;
        parent.edges += verdict.history.edges;
        parent.aborted += verdict.aborted;
        parent.unknown += verdict.unknown;
        parent.believed += verdict.believed;
        parent.unseen += verdict.unseen;
        parent.absent += verdict.absent;
        parent.lives += verdict.lives;
        if (right)
                return NULL;
        snprintf(text, sizeof(text), "%s %s; %s (SB_SEED=%" PRIu64 ")",
                verdict.history.anomaly ? verdict.history.anomaly : "", verdict.history.text,
                verdict.text, seed);
        return text;
}

static void weather(enum work_isolation isolation, enum history_level level)
{
        const char *why;

        for (uint64_t done = 0; done < operations_wanted; done += verdict.history.operations) {
                uint64_t left = operations_wanted - done;

                if (!storm(isolation, left < 4 * OPERATIONS ? left : 4 * OPERATIONS,
                            least_wanted_ms, true))
                        TEST_FAIL("%s (SB_SEED=%" PRIu64 ")",
                                *work_table->complaint ? work_table->complaint
                                                       : "a process ended badly",
                                seed);
                why = judged(level);
                if (why)
                        TEST_FAIL("%s", why);
                CHECK(verdict.history.operations > 0);
        }
}

/* ---- the tests ---- */

static void test_snapshot_isolation_holds_in_a_storm(void)
{
        weather(WORK_SNAPSHOT, HISTORY_SNAPSHOT);
}

static void test_serializability_holds_in_a_storm(void)
{
        weather(WORK_SERIALIZABLE, HISTORY_SERIALIZABLE);
}

static void test_both_isolations_in_one_storm_hold_the_weaker(void)
{
        weather(WORK_MIXED, HISTORY_SNAPSHOT);
}

static void test_the_storms_were_storms(void)
{
        uint64_t transfers = 0, sums = 0, torn = 0;

        for (uint32_t i = 0; i < PROCESSES; i++) {
                transfers += work_table->seat[i].transfers;
                sums += work_table->seat[i].sums;
                torn += work_table->seat[i].torn;
        }
        TEST_NOTE("bank: %" PRIu64 " transfers, %" PRIu64
                  " sums at a cut, all right; of those by plain gets %" PRIu64 " were torn",
                transfers, sums, torn);
        CHECK(parent.worker_kills > 20 && parent.stops > 20 && parent.engine_kills > 0);
        CHECK(parent.aborted > 0 && parent.believed + parent.unknown > 0 && parent.absent > 0);
        CHECK(transfers > 0 && sums > 0 && torn > 0);
        CHECK(bank_adds_up(bus));
}

/* One note of a real record lies each time. */
static void test_every_lie_in_a_record_is_found(void)
{
        static const char *const names[RECORD_LIES] = {"an older version read",
                "a commit called off", "a conflict called a commit", "a value not found"};
        uint32_t cycles = 0;

        if (!storm(WORK_SERIALIZABLE, 20000, 0, false))
                TEST_FAIL("%s", work_table->complaint);
        CHECK(record_judge(records, SEATS, HISTORY_SERIALIZABLE, false, &verdict));
        for (uint32_t lie = 0; lie < RECORD_LIES; lie++)
                for (uint32_t i = 0; i < 5; i++) {
                        uint64_t number = storm_random(&randomness) % 1000 * WORKERS + i % WORKERS;
                        struct record_note said,
                                *note = record_lie(
                                        records, WORKERS, (enum record_lie)lie, number, &said),
                                before;

                        CHECK(note);
                        before = *note;
                        *note = said;
                        if (record_judge(records, SEATS, HISTORY_SERIALIZABLE, false, &verdict))
                                TEST_FAIL("%s was not found: number %" PRIu64 ", SB_SEED=%" PRIu64,
                                        names[lie], number, seed);
                        cycles += !!verdict.history.anomaly;
                        *note = before;
                }
        CHECK(record_judge(records, SEATS, HISTORY_SERIALIZABLE, false, &verdict));
        CHECK(cycles >= 5);
}

static void test_write_skew_of_snapshot_isolation_is_seen_when_more_is_asked_for(void)
{
        if (!storm(WORK_SNAPSHOT, 50000, 0, false))
                TEST_FAIL("%s", work_table->complaint);
        CHECK(record_judge(records, SEATS, HISTORY_SNAPSHOT, false, &verdict));
        CHECK(!record_judge(records, SEATS, HISTORY_SERIALIZABLE, false, &verdict));
        CHECK(verdict.history.anomaly && strncmp(verdict.history.anomaly, "G2-item", 7) == 0);
}

static bool all_others_are_reaped(void)
{
        struct sb_admin_stat stat;

        return sb_admin_stat(bus, &stat) == 0 && stat.clients == 1;
}

static bool delete_everything(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        int r = sb_scan_open(bus, NULL, (struct sb_bytes){0}, &scan);

        if (r)
                return false;
        while ((r = sb_scan_next(scan, &guard)) == 0) {
                r = sb_delete(bus, guard.key, SB_ANY_REV, NULL, NULL);
                sb_guard_release(&guard);
                if (r)
                        break;
        }
        sb_scan_close(scan);
        return r == SB_E_NOT_FOUND;
}

static void test_behind_the_storms_nothing_is_lost(void)
{
        uint64_t deadline = now_ms() + 20000;
        struct sb_check_report report;
        struct sb_admin_stat stat;
        void *large;
        int r;

        while (!all_others_are_reaped() && now_ms() < deadline)
                work_rest(5000);
        CHECK(all_others_are_reaped());
        CHECK_EQ(sb_admin_check(bus, &report), 0);
        if (report.problem_count)
                TEST_FAIL("check finds %u: %s", report.problem_count, report.problems[0]);
        CHECK_EQ(report.blocks_lost, 0);
        CHECK_EQ(report.snapshots, 0);
        CHECK(delete_everything());
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        large = calloc(1, stat.value_len_max);
        CHECK(large);
        r = sb_set(bus, b("large"), (struct sb_bytes){large, stat.value_len_max}, NULL, NULL);
        free(large);
        CHECK_EQ(r, 0);
        CHECK_EQ(sb_admin_check(bus, &report), 0);
        CHECK_EQ(report.problem_count, 0);
}

static bool begin(void)
{
        const char *text = getenv("SB_SEED");

        seed = text ? strtoull(text, NULL, 10) : work_now_ns() / 1000;
        randomness = seed;
        text = getenv("SB_OPERATIONS");
        operations_wanted = getenv("SB_TEST_LONG") ? 20 * OPERATIONS : OPERATIONS;
        operations_wanted = text ? strtoull(text, NULL, 10) : operations_wanted;
        text = getenv("SB_LEAST_MS");
        least_wanted_ms = text ? strtoull(text, NULL, 10) : LEAST_MS;
        setenv("SB_API_WORLD", "agentd", 1); /* a world with processes of its own */
        work_table = mmap(NULL, sizeof(*work_table), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (work_table == MAP_FAILED || world_open(&world, SIZE, 64))
                return false;
        bus = world_bus(&world);
        return bus && bank_open(bus);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        if (!begin()) {
                printf("FAIL begin: no bus\n");
                return 1;
        }
        RUN(test_every_lie_in_a_record_is_found);
        RUN(test_write_skew_of_snapshot_isolation_is_seen_when_more_is_asked_for);
        RUN(test_snapshot_isolation_holds_in_a_storm);
        RUN(test_serializability_holds_in_a_storm);
        RUN(test_both_isolations_in_one_storm_hold_the_weaker);
        RUN(test_the_storms_were_storms);
        RUN(test_behind_the_storms_nothing_is_lost);
        bus = sb_close(bus);
        TEST_NOTE("storm: %" PRIu64 " operations of %" PRIu64 " transactions judged, %" PRIu64
                  " edges; %" PRIu64 " aborted, %" PRIu64 " seen though killed, %" PRIu64
                  " unknown; %" PRIu64 " reads of nothing, %" PRIu64 " lives, %" PRIu64
                  " writes unseen (SB_SEED=%" PRIu64 ")",
                parent.operations, parent.commits, parent.edges, parent.aborted, parent.believed,
                parent.unknown, parent.absent, parent.lives, parent.unseen, seed);
        TEST_NOTE("storm: %" PRIu64 " processes killed, %" PRIu64 " engines killed, %" PRIu64
                  " stops, %" PRIu64 " pauses at any instruction",
                parent.worker_kills, parent.engine_kills, parent.stops, work_table->halts);
        if (!world_close(&world)) {
                printf("FAIL world_close: the bus did not end soundly\n");
                return 1;
        }
        return test_end();
}
