/*
 * Real processes that watch prefixes, sleep and write under SIGKILL and SIGSTOP, engines killed
 * beside them.
 *
 * Always true: a watcher begins with a scan at its watch's cut, and again where it is told that it
 * was lapped. From there on each revision of each key comes once and in order, transactions whole,
 * cuts ascending. Its sleeps, in calls or on a descriptor, have no deadline and no look in between,
 * so that a wake that was lost shows: behind the last write all watchers come to the last revision
 * of each key, or the test fails. Keys that come and go are forgotten and made again: of those each
 * change follows from the one before. A watcher with a queue that drops sees the keys that keep
 * their lives, by their prefix: what it was given and what it was told as dropped are all changes
 * there.
 *
 * Arguments: none. SB_SEED, SB_SECONDS; SB_TEST_LONG: ten times as long.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/upkeep/check.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/api/prefix-storm.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define SECONDS 10u

struct storm_table *table;

static struct {
        uint64_t watchers, writers, engines, stops;
} killed;

struct sb_bytes key_of(unsigned key)
{
        static char names[ALL][16];

        snprintf(names[key], sizeof(names[key]), "storm/%c/%u",
                key < KEYS ? 'k'
                : key % 2  ? 'a'
                           : 'b',
                key);
        return (struct sb_bytes){names[key], strlen(names[key])};
}

unsigned number_of(const struct sb_guard *guard)
{
        char text[16] = {0};

        if (guard->key.len < 9 || guard->key.len >= sizeof(text))
                return ALL;
        memcpy(text, guard->key.data, guard->key.len);
        return (unsigned)atoi(text + 8);
}

struct sb_bus *attach(const struct daemon *daemon)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon->place.directory, .access = SB_PEER};
        struct sb_bus *bus;
        int r = sb_open(&options, &bus);

        if (r)
                COMPLAIN("sb_open() said %d", r);
        bus->watches.sleep_max_ns = UINT64_C(1) << 61;
        return bus;
}

/* A delete that the cut has counts: what keeps the key's life keeps it. */
uint64_t revision_at(struct sb_bus *bus, unsigned key, uint64_t cut)
{
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        uint64_t rev = 0;

        if (sb_history_open(bus, key_of(key), 0, &history))
                return 0;
        while (!rev && !sb_history_next(history, &guard, NULL)) {
                rev = guard.cut <= cut ? guard.rev : 0;
                sb_guard_release(&guard);
        }
        sb_history_close(history);
        return rev;
}

/* ---- writers ---- */

static int write_txn(struct sb_bus *bus, unsigned *seed)
{
        unsigned first = (unsigned)rand_r(seed) % ALL, count = 2 + (unsigned)rand_r(seed) % 3,
                 kept = 0;
        struct sb_txn *txn = NULL;
        char value[16];
        int r = sb_txn_begin(bus, rand_r(seed) % 2 ? SB_SNAPSHOT : SB_SERIALIZABLE, &txn);

        /* Each of its keys says how many there are, and how many that keep their lives. */
        for (unsigned i = 0; i < count; i++)
                kept += (first + i) % ALL < KEYS;
        snprintf(value, sizeof(value), "t%u%u", count, kept);
        for (unsigned i = 0; i < count && !r; i++)
                r = sb_txn_set(
                        txn, key_of((first + i) % ALL), (struct sb_bytes){value, strlen(value)});
        if (!r)
                r = sb_txn_commit(txn, NULL);
        sb_txn_end(txn);
        return r == SB_E_CONFLICT || r == SB_E_LAPPED ? 0 : r;
}

static int write_some(struct sb_bus *bus, unsigned *seed)
{
        unsigned key = (unsigned)rand_r(seed) % ALL;
        int r;

        switch (rand_r(seed) % 8) {
        case 0:
        case 1:
                return write_txn(bus, seed);
        case 2:
        case 3:
        case 4:
                r = sb_delete(bus, key_of(key), SB_ANY_REV, NULL, NULL);
                return r == SB_E_NOT_FOUND ? 0 : r;
        default:
                return sb_set(bus, key_of(key), (struct sb_bytes){"value", 5}, NULL, NULL);
        }
}

static void be_writer(const struct daemon *daemon, unsigned seed)
{
        struct sb_bus *bus = attach(daemon);

        while (!*(volatile bool *)&table->over) {
                int r = write_some(bus, &seed);

                if (r)
                        COMPLAIN("a write said %d", r);
                /* Now and then far more than a ring holds. */
                if (rand_r(&seed) % 2048 == 0)
                        for (unsigned i = 0; i < 6000 && !r; i++)
                                r = write_some(bus, &seed);
                if (rand_r(&seed) % 16 == 0)
                        sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 1500) * 1000);
        }
        sb_close(bus);
        _exit(0);
}

/* ---- the storm ---- */

/* Of writers, and of engines. */
static uint64_t deaths(void)
{
        return killed.writers + killed.engines;
}

static void start(const struct daemon *daemon, unsigned place, unsigned seed)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (place == DROPPING)
                        be_queue(daemon, place);
                if (place < WATCHERS)
                        be_watcher(daemon, place);
                be_writer(daemon, seed);
        }
        table->place[place].pid = pid;
        table->place[place].stopped = false;
        table->place[place].deaths = deaths();
}

/* End one that is to go on until then; a writer may end when all is over. */
static bool end_worker(unsigned place)
{
        int end = daemon_end_child(table->place[place].pid);

        table->place[place].pid = 0;
        return worker_ended_well(end, place >= WATCHERS && table->over,
                place < WATCHERS ? "a watcher" : "a writer", table->complaint,
                sizeof(table->complaint));
}

static bool act(const struct daemon *daemon, const struct sb_attachment *attachment, unsigned *seed)
{
        unsigned what = (unsigned)rand_r(seed) % 16, place = (unsigned)rand_r(seed) % WORKERS;
        pid_t engine;

        if (what == 0) {
                engine = daemon_engine(attachment);
                kill(engine, SIGKILL);
                killed.engines++;
                return WAIT(daemon_engine(attachment) != engine);
        }
        if (what < 9) {
                kill(table->place[place].pid, table->place[place].stopped ? SIGCONT : SIGSTOP);
                table->place[place].stopped = !table->place[place].stopped;
                killed.stops++;
                return true;
        }
        if (!end_worker(place))
                return false;
        *(place < WATCHERS ? &killed.watchers : &killed.writers) += 1;
        start(daemon, place, (unsigned)rand_r(seed));
        return true;
}

static bool all_came_to(const uint64_t *revisions)
{
        for (unsigned place = 0; place < DROPPING; place++)
                for (unsigned key = 0; key < KEYS; key++)
                        if (*(volatile uint64_t *)&table->place[place].last[key] != revisions[key])
                                return false;
        return true;
}

/* What the queue was given and what it dropped are all changes. What a writer was killed with may
 * have been told of already, and counts twice then: a transaction of each, and again where the
 * engine was killed that told of it. A change that is dropped is nothing to see, and wakes no call:
 * so the queue is asked. */
static bool queue_has_all(struct sb_bus *bus, char *text, size_t size)
{
        uint64_t sum = 0, seen = *(volatile uint64_t *)&table->place[DROPPING].seen,
                 ended = deaths() - table->place[DROPPING].deaths;

        kill(table->place[DROPPING].pid, SIGUSR1);
        for (unsigned key = 0; key < KEYS; key++)
                sum += revision_at(bus, key, UINT64_MAX);
        snprintf(text, size, "%" PRIu64 " of %" PRIu64 " changes, %" PRIu64 " deaths", seen, sum,
                ended);
        return seen >= sum && seen <= sum + ended * 4;
}

static void ask_queue(struct sb_bus *bus)
{
        char text[100];

        *(volatile bool *)&table->asked = true;
        if (!WAIT(queue_has_all(bus, text, sizeof(text))))
                TEST_FAIL("the queue does not say all: %s; %s", text, table->complaint);
}

/* Writers end: some are killed in their last write, or stay stopped in it. Watchers go on. */
static void end_writers(void)
{
        *(volatile bool *)&table->over = true;
        for (unsigned place = 0; place < WATCHERS; place++)
                kill(table->place[place].pid, SIGCONT);
        for (unsigned place = WATCHERS; place < WORKERS; place++) {
                if (table->place[place].stopped && place % 2)
                        continue;
                (void)end_worker(place);
                killed.writers++;
        }
}

static bool is_unattended(const struct sb_bus *bus)
{
        return sb_load_relaxed(&bus->handle.segment.super->attention) == 0;
}

static void test_every_revision_comes_once_and_no_watcher_of_a_prefix_sleeps_on(void)
{
        const char *seed_text = getenv("SB_SEED"), *seconds_text = getenv("SB_SECONDS");
        unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)daemon_now_ns();
        uint64_t seconds = getenv("SB_TEST_LONG") ? 10 * SECONDS : SECONDS;
        uint64_t end, given = 0, lapped = 0, late = 0, scans = 0, txns = 0, sum = 0,
                      revisions[KEYS];
        struct sb_attachment attachment;
        struct sb_check_report report;
        struct daemon daemon;
        struct sb_watch *watches[KEYS];
        struct sb_bus *bus;
        bool acted;

        TEST_NOTE("api-prefix-storm: seed %u", seed);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(table != MAP_FAILED);
        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_other), 0);
        bus = attach(&daemon);
        for (unsigned key = 0; key < KEYS; key++)
                CHECK_EQ(sb_watch_open(bus, key_of(key), 0, SB_ANY_REV, &watches[key]), 0);
        for (unsigned place = 0; place < WORKERS; place++)
                start(&daemon, place, (unsigned)rand_r(&seed));
        if (seconds_text)
                seconds = strtoull(seconds_text, NULL, 10);
        end = daemon_now_ns() + seconds * 1000000000;
        while (daemon_now_ns() < end || !killed.engines || !killed.stops || !killed.watchers ||
                !killed.writers || !table->place[DROPPING].dropped) {
                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 20) * 1000000);
                acted = act(&daemon, &attachment, &seed);
                daemon_hear_more(&daemon);
                if (*table->complaint)
                        TEST_FAIL("%s", table->complaint);
                CHECK(acted);
                if (agentd_crashed(daemon.said))
                        TEST_FAIL("agentd said: %s", daemon.said);
        }
        end_writers();
        for (unsigned key = 0; key < KEYS; key++) {
                revisions[key] = revision_at(bus, key, UINT64_MAX);
                sum += revisions[key];
        }
        if (!WAIT(all_came_to(revisions)))
                TEST_FAIL("a watcher sleeps with something to see; %s", table->complaint);
        if (*table->complaint)
                TEST_FAIL("%s", table->complaint);
        /* Changes of writers that are stopped, the last ones too, are told of behind their deaths.
         */
        for (unsigned place = WATCHERS; place < WORKERS; place++)
                if (table->place[place].pid) {
                        (void)end_worker(place);
                        killed.writers++;
                }
        CHECK(WAIT(daemon_attached(&attachment) == WATCHERS + 2));
        ask_queue(bus);
        for (unsigned place = 0; place < WORKERS; place++) {
                given += table->place[place].given;
                lapped += table->place[place].lapped;
                late += table->place[place].late;
                scans += table->place[place].scans;
                txns += table->place[place].txns;
                if (table->place[place].pid)
                        (void)end_worker(place);
        }
        if (*table->complaint)
                TEST_FAIL("%s", table->complaint);
        TEST_NOTE("api-prefix-storm: %" PRIu64
                  " revisions of kept keys; %u watchers were given %" PRIu64 " changes, %" PRIu64
                  " transactions in them, %" PRIu64
                  " too late for what was replaced; lapped %" PRIu64 " times, %" PRIu64
                  " scans; the queue dropped %" PRIu64 "; killed: %" PRIu64 " watchers, %" PRIu64
                  " writers, %" PRIu64 " engines; %" PRIu64 " stops",
                sum, WATCHERS, given, txns, late, lapped, scans, table->place[DROPPING].dropped,
                killed.watchers, killed.writers, killed.engines, killed.stops);
        CHECK(given && txns);
        for (unsigned key = 0; key < KEYS; key++)
                CHECK(!sb_watch_close(watches[key]));
        /* The engine rests between sweeps that find nothing, some seconds. */
        if (getenv("SB_TEST_LONG"))
                CHECK(WAIT(is_unattended(bus)));
        sb_close(bus);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK_EQ(sb_check(&daemon_other, false, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK_EQ(report.blocks_lost, 0);
        daemon_detach(&attachment, &daemon_other);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_a_sleeping_watcher_of_a_prefix_learns_that_agentd_is_gone(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER};
        struct sb_guard change = {0};
        struct sb_watch *watch = NULL;
        struct daemon daemon;
        struct sb_bus *bus;

        CHECK(daemon_start(&daemon));
        options.bus = daemon.place.directory;
        CHECK_EQ(sb_open(&options, &bus), 0);
        CHECK_EQ(sb_watch_open(bus, (struct sb_bytes){"storm/", 6}, SB_PREFIX, SB_ANY_REV, &watch),
                0);
        CHECK_EQ(sb_watch_next(watch, daemon_now_ns() + 1000000, &change), SB_E_TIMED_OUT);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), SB_E_DETACHED);
        CHECK_EQ(sb_wait(bus, SB_FOREVER), SB_E_DETACHED);
        CHECK(!sb_watch_close(watch) && !sb_close(bus));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        if (!daemon_begin())
                return 1;
        RUN(test_every_revision_comes_once_and_no_watcher_of_a_prefix_sleeps_on);
        RUN(test_a_sleeping_watcher_of_a_prefix_learns_that_agentd_is_gone);
        return daemon_end(test_end());
}
