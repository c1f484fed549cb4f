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
#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/notify/bell.h"
#include "shm/notify/hint.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/check.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define WATCHERS 7u
/* Watchers with a descriptor; the others sleep in calls. */
#define WITH_RING   4u
#define WITH_THREAD 5u
/* It drops what its queue has no room for. */
#define DROPPING 6u
#define WRITERS  3u
/* Changes that can be seen and of which their writers have not told yet: a transaction of each, and
 * as many again of killed ones that are not reaped. */
#define UNTOLD  (2 * WRITERS * 4u)
#define WORKERS (WATCHERS + WRITERS)
#define KEYS    6u  /* that keep their lives: each is watched by itself, too */
#define COMING  40u /* that come and go */
#define ALL     (KEYS + COMING)
#define SECONDS 10u

static struct table {
        struct {
                pid_t pid;
                bool stopped;
                uint64_t last[KEYS]; /* of a watcher: the revision that it has come to */
                /* Of one that drops: the sum of these, with what it dropped; deaths when it began.
                 */
                uint64_t seen, deaths;
                uint64_t given, dropped, lapped, late, scans, txns;
        } place[WORKERS];
        bool over;  /* writers end */
        bool asked; /* the queue is woken to say what it dropped: nothing else comes any more */
        char complaint[160];
} * table;

static struct {
        uint64_t watchers, writers, engines, stops;
} killed;

#define COMPLAIN(...)                                                                              \
        do {                                                                                       \
                snprintf(table->complaint, sizeof(table->complaint), __VA_ARGS__);                 \
                _exit(1);                                                                          \
        } while (0)

static struct sb_bytes key_of(unsigned key)
{
        static char names[ALL][16];

        snprintf(names[key], sizeof(names[key]), "storm/%c/%u",
                key < KEYS ? 'k'
                : key % 2  ? 'a'
                           : 'b',
                key);
        return (struct sb_bytes){names[key], strlen(names[key])};
}

static unsigned number_of(const struct sb_guard *guard)
{
        char text[16] = {0};

        if (guard->key.len < 9 || guard->key.len >= sizeof(text))
                return ALL;
        memcpy(text, guard->key.data, guard->key.len);
        return (unsigned)atoi(text + 8);
}

static struct sb_bus *attach(const struct daemon *daemon)
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

/* ---- watchers ---- */

/* What a watcher knows of each key. */
struct known {
        enum { UNKNOWN, ABSENT, PRESENT } state;
        uint64_t rev; /* 0: not known */
};
struct follower {
        struct sb_bus *bus;
        struct sb_watch *watch;
        struct sb_bytes prefix;
        unsigned place;
        struct known known[ALL];
        uint64_t cut, txn; /* of the last change */
        unsigned txn_left;
        /* Of a queue that drops: revisions; how many changes of those before a change, and in all,
         * were dropped, as it says; revisions that it skipped. */
        uint64_t seen, missed, dropped, gaps;
};

/* The revision of a delete that the cut has: what keeps the key's life keeps it, too. */
static uint64_t revision_at(struct sb_bus *bus, unsigned key, uint64_t cut)
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

static void look_at_all(struct follower *follower)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = sb_watch_cut(follower->watch)};
        struct sb_guard guard = {0};
        struct known before[ALL];
        struct sb_scan *scan;
        int r;

        memcpy(before, follower->known, sizeof(before));
        memset(follower->known, 0, sizeof(follower->known));
        r = sb_scan_open_at(follower->bus, (struct sb_bytes){"storm/", 6}, &how, &scan);
        if (r)
                COMPLAIN("a scan at the watch's cut said %d", r);
        while (!(r = sb_scan_next(scan, &guard))) {
                follower->known[number_of(&guard)] = (struct known){PRESENT, guard.rev};
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        /* An operator's or the engine's doing; not in here. */
        if (r != SB_E_NOT_FOUND)
                COMPLAIN("a scan at the watch's cut ended with %d", r);
        for (unsigned key = 0; key < ALL; key++) {
                struct known *known = &follower->known[key];

                if (known->state != PRESENT)
                        *known = (struct known){
                                ABSENT, key < KEYS ? revision_at(follower->bus, key, how.cut) : 0};
                if (known->rev && known->rev < before[key].rev)
                        COMPLAIN("key %u: a scan went back from %" PRIu64 " to %" PRIu64, key,
                                before[key].rev, known->rev);
                if (key < KEYS && known->rev)
                        *(volatile uint64_t *)&table->place[follower->place].last[key] = known->rev;
        }
        follower->cut = how.cut;
        follower->txn = follower->txn_left = 0;
        table->place[follower->place].scans++;
}

/* Up to which cut the ring of the watched prefix has given up what was replaced. */
static uint64_t given_up(struct follower *follower)
{
        struct sb_handle *handle = &follower->bus->handle;
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len = sb_prefix_key(follower->prefix.data, (uint32_t)follower->prefix.len, key);
        struct sb_ring_view ring;
        struct sb_node *node;
        uint64_t cut = 0;

        sb_pin(handle);
        node = sb_order_find(handle, key, len);
        if (node && sb_ring_of(handle, node, &ring))
                cut = sb_hint_gone(&ring);
        sb_unpin(handle);
        return cut;
}

/* Whether a change of a key that had a value may come without it: its ring went round since the
 * change was listed, and no process need keep what the change replaced. */
static bool may_lack_old(struct follower *follower, const struct sb_guard *change)
{
        if (change->old_value.data)
                return true;
        if (given_up(follower) < change->cut)
                return false;
        table->place[follower->place].late++;
        return true;
}

/* A transaction comes whole: what of it the watch sees, @place in a value of its says. */
static void follow_txn(struct follower *follower, const struct sb_guard *change, unsigned place)
{
        if (follower->txn_left && change->txn != follower->txn)
                COMPLAIN("%.*s: in the middle of a transaction", (int)change->key.len,
                        (const char *)change->key.data);
        if (change->txn && !follower->txn_left) {
                follower->txn = change->txn;
                follower->txn_left = (unsigned)((const char *)change->value.data)[place] - '0';
                table->place[follower->place].txns++;
        }
        follower->txn_left -= change->txn != 0;
}

static void follow(struct follower *follower, const struct sb_guard *change)
{
        unsigned key = number_of(change);
        struct known *known = &follower->known[key];
        bool value = change->kind == SB_VALUE;

        if (key >= ALL || change->missed)
                COMPLAIN("a change of key %u", key);
        if (change->cut < follower->cut || change->cut <= sb_watch_cut(follower->watch))
                COMPLAIN("key %u: a cut goes back", key);
        if (key < KEYS && known->rev && change->rev != known->rev + 1)
                COMPLAIN("key %u: %" PRIu64 " comes behind %" PRIu64, key, change->rev, known->rev);
        if (change->rev <= known->rev)
                COMPLAIN("key %u: %" PRIu64 " comes again", key, change->rev);
        if (known->state == ABSENT ? !value || change->old_value.data
                                   : !may_lack_old(follower, change))
                COMPLAIN("key %u: kind %u, revision %" PRIu64 " behind %s, %" PRIu64
                         ", txn %" PRIu64,
                        key, change->kind, change->rev,
                        known->state == ABSENT ? "nothing" : "a value", known->rev, change->txn);
        *known = (struct known){value ? PRESENT : ABSENT, change->rev};
        follower->cut = change->cut;
        follow_txn(follower, change, 1);
        table->place[follower->place].given++;
        if (key < KEYS)
                *(volatile uint64_t *)&table->place[follower->place].last[key] = change->rev;
}

/* Of each key revisions ascend, and no more are skipped than were dropped by then, or are not told
 * yet. */
static void follow_queue(struct follower *follower, const struct sb_guard *change)
{
        unsigned key = number_of(change);
        struct known *known = &follower->known[key];

        if (key >= KEYS || change->cut < follower->cut || change->rev <= known->rev)
                COMPLAIN("the queue gives key %u: revision %" PRIu64 " behind %" PRIu64
                         ", cut %" PRIu64 " behind %" PRIu64,
                        key, change->rev, known->rev, change->cut, follower->cut);
        follower->missed += change->missed;
        follower->gaps += change->rev - known->rev - 1;
        if (follower->gaps > follower->missed + UNTOLD)
                COMPLAIN("key %u: the queue skipped %" PRIu64 " and says %" PRIu64, key,
                        follower->gaps, follower->missed);
        follow_txn(follower, change, 2);
        known->rev = change->rev;
        follower->cut = change->cut;
        follower->seen++;
        table->place[follower->place].given++;
}

/* What the queue has. Behind that what was dropped is all that was not given. */
static void drain_queue(struct follower *follower)
{
        struct sb_guard change = {0};
        uint64_t dropped;
        int r;

        while (!(r = sb_watch_next(follower->watch, 0, &change))) {
                follow_queue(follower, &change);
                sb_guard_release(&change);
        }
        if (r != SB_E_TIMED_OUT)
                COMPLAIN("sb_watch_next() of the queue said %d", r);
        dropped = sb_watch_dropped(follower->watch);
        if (dropped < follower->missed)
                COMPLAIN("the queue dropped %" PRIu64 ", and said %" PRIu64, dropped,
                        follower->missed);
        table->place[follower->place].dropped += dropped - follower->dropped;
        follower->dropped = dropped;
        *(volatile uint64_t *)&table->place[follower->place].seen = follower->seen + dropped;
}

/* What the watch has, or with a deadline waits for, all of it. */
static void drain(struct follower *follower, uint64_t deadline)
{
        struct sb_guard change = {0};
        int r;

        while ((r = sb_watch_next(follower->watch, deadline, &change)) != SB_E_TIMED_OUT) {
                if (r == SB_E_LAPPED) {
                        table->place[follower->place].lapped++;
                        look_at_all(follower);
                } else if (!r) {
                        follow(follower, &change);
                        sb_guard_release(&change);
                } else if (r != -EINTR) {
                        COMPLAIN("sb_watch_next() said %d", r);
                }
        }
}

/* Drain a watch of other keys, or of a part of them; each change has the prefix. */
static void drain_other(struct sb_watch *watch, struct sb_bytes prefix)
{
        struct sb_guard change = {0};
        int r;

        while ((r = sb_watch_next(watch, 0, &change)) != SB_E_TIMED_OUT) {
                if (r && r != SB_E_LAPPED)
                        COMPLAIN("another sb_watch_next() said %d", r);
                if (!r && (change.key.len < prefix.len ||
                                  memcmp(change.key.data, prefix.data, prefix.len) != 0))
                        COMPLAIN("a change of another prefix");
                sb_guard_release(&change);
        }
}

/* Return: what the watcher polls; -1: it sleeps in calls. */
static int descriptor(struct sb_bus *bus, unsigned place)
{
        int fd = -1;

        if (place == WITH_THREAD)
                setenv("STATEBUS_FD", "thread", 1);
        if (place == WITH_THREAD || place == WITH_RING) {
                fd = sb_fd(bus);
                if (fd < 0)
                        COMPLAIN("sb_fd() said %d", fd);
        }
        return fd;
}

/* Return: 0, -EINTR. */
static int sleep_on(struct sb_bus *bus, int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};
        int r = fd < 0 ? sb_wait(bus, SB_FOREVER) : 0;

        if (fd >= 0 && poll(&look, 1, -1) < 0 && errno != EINTR)
                COMPLAIN("poll() failed: %d", errno);
        if (r && r != -EINTR)
                COMPLAIN("sb_wait() said %d", r);
        return r;
}

static void be_woken(int signal)
{
        (void)signal;
}

static void be_queue(const struct daemon *daemon, unsigned place)
{
        static const uint32_t rooms[] = {5, 8, 100, 2000};
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | SB_BUFFERED,
                .after = SB_ANY_REV,
                .depth = rooms[(unsigned)getpid() % (sizeof(rooms) / sizeof(rooms[0]))]};
        const struct sigaction woken = {.sa_handler = be_woken};
        const volatile bool *asked = &table->asked;
        struct follower follower = {.bus = attach(daemon), .place = place};
        bool overslept = false;
        uint64_t given;
        int r = sb_watch_open_at(
                follower.bus, (struct sb_bytes){"storm/k/", 8}, &how, &follower.watch);

        if (r)
                COMPLAIN("sb_watch_open_at() said %d", r);
        look_at_all(&follower);
        for (unsigned key = 0; key < KEYS; key++)
                follower.seen += follower.known[key].rev;
        sigaction(SIGUSR1, &woken, NULL);
        for (;;) {
                given = table->place[place].given;
                drain_queue(&follower);
                if (overslept && given != table->place[place].given)
                        COMPLAIN("the queue sleeps with something to see");
                overslept = sleep_on(follower.bus, -1) == -EINTR && *asked &&
                            !sb_bell_is_dirty(&follower.bus->handle);
        }
}

static void be_watcher(const struct daemon *daemon, unsigned place)
{
        static const struct sb_bytes part = {"storm/a/", 8};
        struct sb_bytes prefix = {"storm/", place == 3 ? 0 : 6};
        struct follower follower = {.bus = attach(daemon), .prefix = prefix, .place = place};
        struct sb_watch *other = NULL, *one = NULL;
        int fd = descriptor(follower.bus, place);
        int r = sb_watch_open(follower.bus, prefix, SB_PREFIX, SB_ANY_REV, &follower.watch);

        if (!r && place > 1)
                r = sb_watch_open(follower.bus, part, SB_PREFIX, SB_ANY_REV, &other);
        if (!r && place > 1)
                r = sb_watch_open(follower.bus, key_of(0), 0, SB_ANY_REV, &one);
        if (r)
                COMPLAIN("sb_watch_open() said %d", r);
        look_at_all(&follower);
        if (place <= 1)
                drain(&follower, SB_FOREVER);
        for (;;) {
                drain(&follower, 0);
                drain_other(other, part);
                drain_other(one, key_of(0));
                sleep_on(follower.bus, fd);
        }
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
        if (!daemon_begin())
                return 1;
        RUN(test_every_revision_comes_once_and_no_watcher_of_a_prefix_sleeps_on);
        RUN(test_a_sleeping_watcher_of_a_prefix_learns_that_agentd_is_gone);
        return daemon_end(test_end());
}
