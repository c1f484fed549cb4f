/*
 * Real processes that watch, sleep and write under SIGKILL and SIGSTOP, engines killed beside them.
 *
 * Always true: each watcher accounts for every revision of every key: given, or counted as missed,
 * which none is that the bus had to keep: the last 64 of a key, and of a watch that drops the first
 * ones that there was room for. Its sleeps have no deadline and no look in between, so that a wake
 * that was lost shows: behind the last write all watchers come to the last revision of each key, or
 * the test fails.
 * Arguments: none. SB_SEED, SB_SECONDS; SB_TEST_LONG: six times as long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/upkeep/check.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define WATCHERS 5u
/* Watchers with a descriptor; the others sleep in calls. */
#define WITH_RING   1u
#define WITH_THREAD 2u
/* Its watches drop what there is no room for. */
#define DROPPING 3u
#define ROOM     8u
#define KEPT     64u /* changes of each key */
#define WRITERS  3u
#define WORKERS  (WATCHERS + WRITERS)
#define KEYS     6u
#define SECONDS  10u

static struct table {
        struct {
                pid_t pid;
                bool stopped;
                /* Of a watcher, in one store: {the revision that it has come to, how many of those
                 * up to it were missed}. */
                uint64_t come[KEYS];
                uint64_t dropped[KEYS]; /* and how many behind that one were dropped */
        } place[WORKERS];
        bool over; /* writers end */
        char complaint[128];
} * table;

static struct {
        uint64_t watchers, writers, engines, stops;
} killed;

static void complain(const char *what, int r)
{
        snprintf(table->complaint, sizeof(table->complaint), "%s said %d", what, r);
        _exit(1);
}

static struct sb_bytes key_of(unsigned key)
{
        static char names[KEYS][16];

        snprintf(names[key], sizeof(names[key]), "storm/%u", key);
        return (struct sb_bytes){names[key], strlen(names[key])};
}

static struct sb_bus *attach(const struct daemon *daemon)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon->place.directory, .access = SB_PEER};
        struct sb_bus *bus;
        int r = sb_open(&options, &bus);

        if (r)
                complain("sb_open()", r);
        bus->watches.sleep_max_ns = UINT64_C(1) << 61;
        return bus;
}

/* ---- writers ---- */

/* Two keys in one transaction, or one: each counts its own revisions, as text. */
static int write_some(struct sb_bus *bus, unsigned *seed)
{
        unsigned first = (unsigned)rand_r(seed) % KEYS, second = (unsigned)rand_r(seed) % KEYS;
        struct sb_txn *txn = NULL;
        int r;

        switch (rand_r(seed) % 8) {
        case 0:
                r = sb_txn_begin(bus, rand_r(seed) % 2 ? SB_SNAPSHOT : SB_SERIALIZABLE, &txn);
                if (!r)
                        r = sb_txn_set(txn, key_of(first), (struct sb_bytes){"t", 1});
                if (!r)
                        r = sb_txn_set(txn, key_of(second), (struct sb_bytes){"t", 1});
                if (!r)
                        r = sb_txn_commit(txn, NULL);
                sb_txn_end(txn);
                return r == SB_E_CONFLICT || r == SB_E_LAPPED ? 0 : r;
        case 1:
                r = sb_delete(bus, key_of(first), SB_ANY_REV, NULL, NULL);
                return r == SB_E_NOT_FOUND ? 0 : r;
        default:
                return sb_set(bus, key_of(first), (struct sb_bytes){"value", 5}, NULL, NULL);
        }
}

static void be_writer(const struct daemon *daemon, unsigned seed)
{
        struct sb_bus *bus = attach(daemon);
        int r;

        while (!*(volatile bool *)&table->over) {
                r = write_some(bus, &seed);
                if (r)
                        complain("a write", r);
                if (rand_r(&seed) % 64 == 0)
                        sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 2000) * 1000);
        }
        sb_close(bus);
        _exit(0);
}

/* ---- watchers ---- */

static uint32_t last_of(uint64_t come)
{
        return (uint32_t)(come >> 32);
}
static uint32_t missed_of(uint64_t come)
{
        return (uint32_t)come;
}

/* The revision that a watcher comes to: of a value, or of what was deleted. */
static uint64_t revision(struct sb_bus *bus, unsigned key)
{
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        uint64_t rev = 0;

        if (!sb_history_open(bus, key_of(key), 0, &history) &&
                !sb_history_next(history, &guard, NULL))
                rev = guard.rev;
        sb_guard_release(&guard);
        sb_history_close(history);
        return rev;
}

/* A watch, and what this life of it was given. */
struct life {
        struct sb_watch *watch;
        uint64_t given, missed;
        /* It began behind more than is kept: the places of what is gone are those of later ones. */
        bool late;
};

/* What a watch has, all of it. */
static void drain(struct sb_bus *bus, struct life *life, unsigned place, unsigned key)
{
        volatile uint64_t *come = &table->place[place].come[key];
        struct sb_guard change = {0};
        bool lapped = false;
        int r;

        while ((r = sb_watch_next(life->watch, 0, &change)) != SB_E_TIMED_OUT) {
                if (r == SB_E_LAPPED && !lapped && place != DROPPING) {
                        lapped = true;
                        continue;
                }
                if (r)
                        complain("sb_watch_next()", r);
                if (change.rev != last_of(*come) + change.missed + 1)
                        complain("a change is out of order: its revision", (int)change.rev);
                if (place != DROPPING && lapped != (change.missed != 0))
                        complain("a lap and what it missed", (int)change.missed);
                /* It is the oldest that is left, of so many at least. */
                if (place != DROPPING && change.missed &&
                        change.rev + KEPT - 1 > revision(bus, key))
                        complain("it missed what is kept, before revision", (int)change.rev);
                if (place == DROPPING && change.missed && !life->late && life->given < ROOM)
                        complain("it dropped what there was room for, before", (int)change.rev);
                life->given++;
                life->missed += change.missed;
                *come = change.rev << 32 | (missed_of(*come) + change.missed);
                lapped = false;
                sb_guard_release(&change);
        }
        if (place != DROPPING)
                return;
        if (sb_watch_dropped(life->watch) < life->missed)
                complain("it counted too few as dropped", (int)life->missed);
        *(volatile uint64_t *)&table->place[place].dropped[key] =
                sb_watch_dropped(life->watch) - life->missed;
}

/* Sleep until something is there: in a call, or in poll() for what an io_uring or a thread hears.
 */
static void sleep_on(struct sb_bus *bus, int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};
        int r = fd < 0 ? sb_wait(bus, SB_FOREVER) : 0;

        if (fd >= 0 && poll(&look, 1, -1) < 0 && errno != EINTR)
                complain("poll()", errno);
        if (r && r != -EINTR)
                complain("sb_wait()", r);
}

static void be_watcher(const struct daemon *daemon, unsigned place)
{
        struct sb_bus *bus = attach(daemon);
        struct sb_watch_options how = {.size = sizeof(how)};
        struct life lives[KEYS] = {0};
        int fd = -1;

        if (place == WITH_THREAD)
                setenv("STATEBUS_FD", "thread", 1);
        if (place == WITH_THREAD || place == WITH_RING) {
                fd = sb_fd(bus);
                if (fd < 0)
                        complain("sb_fd()", fd);
        }
        for (unsigned key = 0; key < KEYS; key++) {
                /* A new life of a watcher goes on behind the last one's. */
                int r;

                how.flags = place == DROPPING ? SB_BUFFERED : 0;
                how.depth = place == DROPPING ? ROOM : 0;
                how.after = last_of(table->place[place].come[key]);
                r = sb_watch_open_at(bus, key_of(key), &how, &lives[key].watch);
                if (r)
                        complain("sb_watch_open_at()", r);
                lives[key].late = revision(bus, key) >= how.after + KEPT;
        }
        for (;;) {
                for (unsigned key = 0; key < KEYS; key++)
                        drain(bus, &lives[key], place, key);
                /* One watch alone now and then, as the others' bits come meanwhile. */
                sleep_on(bus, fd);
        }
}

/* ---- the storm ---- */

static void start(const struct daemon *daemon, unsigned place, unsigned seed)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (place < WATCHERS)
                        be_watcher(daemon, place);
                be_writer(daemon, seed);
        }
        table->place[place].pid = pid;
        table->place[place].stopped = false;
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
        for (unsigned place = 0; place < WATCHERS; place++)
                for (unsigned key = 0; key < KEYS; key++)
                        if (last_of(*(volatile uint64_t *)&table->place[place].come[key]) +
                                        *(volatile uint64_t *)&table->place[place].dropped[key] !=
                                revisions[key])
                                return false;
        return true;
}

static void test_every_revision_is_given_or_counted_and_no_watcher_sleeps_on(void)
{
        const char *seed_text = getenv("SB_SEED"), *seconds_text = getenv("SB_SECONDS");
        unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)daemon_now_ns();
        uint64_t seconds = getenv("SB_TEST_LONG") ? 6 * SECONDS : SECONDS;
        uint64_t end, missed = 0, dropped = 0, sum = 0, revisions[KEYS];
        struct sb_attachment attachment;
        struct sb_check_report report;
        struct daemon daemon;
        struct sb_watch *watches[KEYS];
        struct sb_bus *bus;
        bool acted;

        TEST_NOTE("api-watch-storm: seed %u", seed);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(table != MAP_FAILED);
        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_other), 0);
        /* Watched from the first revision on, and all the time: so keys keep their lives. */
        bus = attach(&daemon);
        for (unsigned key = 0; key < KEYS; key++)
                CHECK_EQ(sb_watch_open(bus, key_of(key), 0, SB_ANY_REV, &watches[key]), 0);
        for (unsigned place = 0; place < WORKERS; place++)
                start(&daemon, place, (unsigned)rand_r(&seed));
        if (seconds_text)
                seconds = strtoull(seconds_text, NULL, 10);
        end = daemon_now_ns() + seconds * 1000000000;
        while (daemon_now_ns() < end) {
                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 20) * 1000000);
                acted = act(&daemon, &attachment, &seed);
                daemon_hear_more(&daemon);
                if (*table->complaint)
                        TEST_FAIL("%s", table->complaint);
                CHECK(acted);
                if (agentd_crashed(daemon.said))
                        TEST_FAIL("agentd said: %s", daemon.said);
        }
        /* Some writers are killed in their last write, or stopped in it for good. */
        *(volatile bool *)&table->over = true;
        for (unsigned place = 0; place < WATCHERS; place++)
                kill(table->place[place].pid, SIGCONT);
        for (unsigned place = WATCHERS; place < WORKERS; place++) {
                if (table->place[place].stopped && place % 2)
                        continue;
                (void)end_worker(place);
        }
        for (unsigned key = 0; key < KEYS; key++) {
                revisions[key] = revision(bus, key);
                sum += revisions[key];
        }
        if (!WAIT(all_came_to(revisions)))
                TEST_FAIL("a watcher sleeps with something to see; %s", table->complaint);
        if (*table->complaint)
                TEST_FAIL("%s", table->complaint);
        for (unsigned place = 0; place < WORKERS; place++) {
                for (unsigned key = 0; place < WATCHERS && key < KEYS; key++)
                        *(place == DROPPING ? &dropped : &missed) +=
                                missed_of(table->place[place].come[key]) +
                                table->place[place].dropped[key];
                if (table->place[place].pid)
                        (void)end_worker(place);
        }
        if (*table->complaint)
                TEST_FAIL("%s", table->complaint);
        TEST_NOTE("api-watch-storm: %" PRIu64 " revisions; of %u watchers %u missed %" PRIu64
                  " and one dropped %" PRIu64 "; killed: %" PRIu64 " watchers, %" PRIu64
                  " writers, %" PRIu64 " engines; %" PRIu64 " stops",
                sum, WATCHERS, WATCHERS - 1, missed, dropped, killed.watchers, killed.writers,
                killed.engines, killed.stops);
        CHECK(killed.watchers && killed.writers && killed.engines && killed.stops);
        for (unsigned key = 0; key < KEYS; key++)
                CHECK(!sb_watch_close(watches[key]));
        sb_close(bus);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK_EQ(sb_check(&daemon_other, false, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK_EQ(report.blocks_lost, 0);
        daemon_detach(&attachment, &daemon_other);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_every_revision_is_given_or_counted_and_no_watcher_sleeps_on);
        return daemon_end(test_end());
}
