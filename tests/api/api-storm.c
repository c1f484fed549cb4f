/*
 * The whole bus in a storm: workers, the engine and the supervisor are ended by SIGKILL and halted
 * by SIGSTOP at random moments, while workers attach, count by compare and set, and close.
 *
 * Always true: what a worker was told lies in a table that outlives it, so at the end the counter
 * must be what was acknowledged, plus at most the one increment that each killed worker had under
 * way. The supervisor is killed only while an engine works: both dead is a bus that has ended.
 * Arguments: none. SB_SEED, SB_SECONDS; SB_TEST_LONG: twenty times as long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/statebus.h"
#include "ring/attach/place.h"
#include "ring/op/get.h"
#include "shm/base/os.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/upkeep/check.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define WORKERS 5u
#define SECONDS 6u
#define ROUNDS  300u /* of a worker, between attaching and closing */
#define TOTAL   "total"

/* A worker writes the words of its place; after its death the parent does. */
static struct table {
        struct {
                pid_t pid;
                uint64_t acknowledged, attached;
                bool under_way, stopped;
        } place[WORKERS];
        char complaint[128];
} * table;

static struct {
        uint64_t workers, engines, supervisors, stops;
} killed;

static struct sb_bytes bytes_of(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* Increment the counter once. Return: as sb_cas(). */
static int count(struct sb_bus *bus)
{
        struct sb_guard guard = {0};
        uint64_t value = 0, rev = 0;
        int r;

        r = sb_get(bus, bytes_of(TOTAL), &guard);
        if (r && r != SB_E_NOT_FOUND)
                return r;
        if (!r) {
                memcpy(&value, guard.value.data, sizeof(value));
                rev = guard.rev;
                sb_guard_release(&guard);
        }
        value++;
        return sb_cas(
                bus, bytes_of(TOTAL), rev, (struct sb_bytes){&value, sizeof(value)}, NULL, NULL);
}

/* Write a key that no other worker writes, and read it back. Return: 0, or as the calls. */
static int keep_own(struct sb_bus *bus, const char *own)
{
        struct sb_guard guard = {0};
        int r = sb_set(bus, bytes_of(own), bytes_of(own), NULL, NULL);

        if (!r)
                r = sb_get(bus, bytes_of(own), &guard);
        if (!r &&
                (guard.value.len != strlen(own) || memcmp(guard.value.data, own, guard.value.len)))
                r = -EBADMSG;
        sb_guard_release(&guard);
        return r;
}

static void complain(const char *what, int r)
{
        snprintf(table->complaint, sizeof(table->complaint), "%s said %d", what, r);
        _exit(1);
}

static void work(const struct daemon *daemon, unsigned place)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon->place.directory, .access = SB_PEER};
        struct sb_bus *bus;
        char own[16];
        int r;

        snprintf(own, sizeof(own), "own%u", place);
        for (;;) {
                r = sb_open(&options, &bus);
                if (r)
                        complain("sb_open()", r);
                table->place[place].attached++;
                for (unsigned i = 0; i < ROUNDS; i++) {
                        table->place[place].under_way = true;
                        r = count(bus);
                        if (!r)
                                table->place[place].acknowledged++;
                        table->place[place].under_way = false;
                        if (r == SB_E_CONFLICT)
                                continue;
                        if (r)
                                complain("counting", r);
                        r = keep_own(bus, own);
                        if (r)
                                complain("a key of its own", r);
                }
                sb_close(bus);
        }
}

static void start_worker(const struct daemon *daemon, unsigned place)
{
        pid_t pid = fork();

        if (pid == 0)
                work(daemon, place);
        table->place[place].pid = pid;
        table->place[place].stopped = false;
}

/* End a worker. Return: whether it worked until then; *uncertain: how many more increments may have
 * happened and were not acknowledged. */
static bool end_worker(unsigned place, uint64_t *uncertain)
{
        int end = daemon_end_child(table->place[place].pid);

        *uncertain += table->place[place].under_way;
        table->place[place].under_way = false;
        return worker_ended_well(
                end, false, "a worker", table->complaint, sizeof(table->complaint));
}

static bool kill_engine(const struct sb_attachment *attachment, bool halt_first)
{
        pid_t engine = daemon_engine(attachment);

        if (halt_first) {
                kill(engine, SIGSTOP);
                killed.stops++;
                sb_os_linux.pause(NULL, 10000000);
        }
        kill(engine, SIGKILL);
        killed.engines++;
        return WAIT(daemon_engine(attachment) != engine);
}

static bool kill_supervisor(const struct daemon *daemon, const struct sb_attachment *attachment)
{
        pid_t engine = daemon_engine(attachment), supervisor;

        if (!WAIT(!sb_place_supervisor(&daemon->place, &supervisor)))
                return false;
        /* Its orphans become children of this process. */
        if (daemon_end_child(supervisor) != DAEMON_KILLED)
                return false;
        killed.supervisors++;
        return WAIT(daemon_engine(attachment) != engine);
}

static bool act(const struct daemon *daemon, const struct sb_attachment *attachment, unsigned *seed,
        uint64_t *uncertain)
{
        unsigned what = (unsigned)rand_r(seed) % 16, place = (unsigned)rand_r(seed) % WORKERS;

        switch (what) {
        case 0:
                return kill_supervisor(daemon, attachment);
        case 1:
        case 2:
        case 3:
                return kill_engine(attachment, false);
        case 4:
                return kill_engine(attachment, true);
        case 5:
        case 6:
        case 7:
                kill(table->place[place].pid, table->place[place].stopped ? SIGCONT : SIGSTOP);
                table->place[place].stopped = !table->place[place].stopped;
                killed.stops++;
                return true;
        default:
                if (!end_worker(place, uncertain))
                        return false;
                killed.workers++;
                start_worker(daemon, place);
                return true;
        }
}

static void test_a_bus_in_a_storm_counts_exactly(void)
{
        const char *seed_text = getenv("SB_SEED"), *seconds_text = getenv("SB_SECONDS");
        unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)daemon_now_ns();
        uint64_t seconds = getenv("SB_TEST_LONG") ? 20 * SECONDS : SECONDS;
        uint64_t end, uncertain = 0, acknowledged = 0, attached = 0, total = 0;
        struct sb_attachment attachment;
        struct sb_check_report report;
        struct sb_version *version;
        struct daemon daemon;
        pid_t supervisor;
        bool acted;
        int status;

        TEST_NOTE("api-storm: seed %u", seed);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(table != MAP_FAILED);
        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_other), 0);
        for (unsigned i = 0; i < WORKERS; i++)
                start_worker(&daemon, i);
        if (seconds_text)
                seconds = strtoull(seconds_text, NULL, 10);
        end = daemon_now_ns() + seconds * 1000000000;
        while (daemon_now_ns() < end) {
                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 20) * 1000000);
                acted = act(&daemon, &attachment, &seed, &uncertain);
                daemon_hear_more(&daemon);
                if (*table->complaint)
                        TEST_FAIL("%s", table->complaint);
                CHECK(acted && !strstr(daemon.said, "not adopted"));
                if (agentd_crashed(daemon.said))
                        TEST_FAIL("agentd said: %s", daemon.said);
        }
        for (unsigned i = 0; i < WORKERS; i++) {
                if (!end_worker(i, &uncertain))
                        TEST_FAIL("%s", table->complaint);
                acknowledged += table->place[i].acknowledged;
                attached += table->place[i].attached;
        }
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK_EQ(sb_check(&daemon_other, false, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK_EQ(sb_op_get(&daemon_other, TOTAL, sizeof(TOTAL) - 1, 0, &version), 0);
        memcpy(&total, version->bytes + sizeof(TOTAL) - 1, sizeof(total));
        sb_guard_set(&daemon_other, 0, 0);
        TEST_NOTE("api-storm: %" PRIu64 " increments, %" PRIu64 " attachments; killed: %" PRIu64
                  " workers, %" PRIu64 " engines, %" PRIu64 " supervisors; %" PRIu64 " stops",
                total, attached, killed.workers, killed.engines, killed.supervisors, killed.stops);
        if (total < acknowledged || total > acknowledged + uncertain)
                TEST_FAIL("%" PRIu64 " counted, %" PRIu64 " acknowledged, %" PRIu64 " uncertain",
                        total, acknowledged, uncertain);
        CHECK(killed.workers && killed.engines && killed.supervisors);
        CHECK(!strstr(daemon.said, "not adopted"));
        daemon_detach(&attachment, &daemon_other);
        CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), 0);
        kill(supervisor, SIGTERM);
        CHECK_EQ(waitpid(supervisor, &status, 0), supervisor);
        CHECK_EQ(status, 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_a_bus_in_a_storm_counts_exactly);
        return daemon_end(test_end());
}
