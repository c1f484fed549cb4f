/*
 * Strict writers of real processes under SIGKILL: everything at once, again and again, the engine
 * or the log alone in between, on one directory.
 *
 * Always true: what a writer was told is durable is there when agentd starts again: each writer's
 * counter is not below the last one that was acknowledged, nor above the last one that it tried;
 * the two counters of a writer that counts in transactions are equal; what a batched writer wrote
 * is there up to some moment, without a gap. In a second test the engine alone, and its log with
 * it, is killed beside strict writers: on several buses, because engines that do not come to work
 * are replaced once a second. No write fails, whichever of them dies. Arguments: none. SB_SEED,
 * SB_SECONDS; SB_TEST_LONG: forty times as long. SB_ROUNDS: so many times everything, however long
 * that takes. SB_ENGINES: how many engines are killed in the second test.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/layout/report.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define SINGLE  2u /* count in one key, each write strict */
#define PAIRS   2u /* count in two keys, each transaction strict */
#define BATCHED 1u /* writes "next" keys without waiting */
#define WRITERS (SINGLE + PAIRS + BATCHED)
#define SECONDS 8u

static struct table {
        struct {
                pid_t pid;
                uint64_t tried, acknowledged; /* batched: what came back before */
        } writer[WRITERS];
        char complaint[160];
} * table;

/* The second test: a bus each, with a strict writer. */
#define BUSES   12u
#define ENGINES 3000u

static struct fleet {
        struct {
                pid_t pid;
                uint64_t tried, acknowledged, worst_ns;
        } writer[BUSES];
        char complaint[160];
} * fleet;

static struct daemon daemon_;
static struct {
        uint64_t rounds, engines, logs, writes, batched;
} counted;
static uint64_t seed;

static uint64_t draw_below(uint64_t below)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (seed >> 33) % below;
}

/* ---- in a writer ---- */

static void complain(const char *what, int r)
{
        snprintf(table->complaint, sizeof(table->complaint), "%s said %d (%s)", what, r,
                r > 0 ? sb_strerror(r) : strerror(-r));
        _exit(1);
}

static struct sb_bytes key_of(unsigned writer, char which, char text[32])
{
        snprintf(text, 32, "writer-%u-%c", writer, which);
        return (struct sb_bytes){text, strlen(text)};
}

/* Return: the counter in a key; 0: there is none. */
static uint64_t read_counter(struct sb_bus *bus, unsigned writer, char which)
{
        struct sb_guard guard = {0};
        char name[32], text[32] = "";
        uint64_t counter = 0;
        int r = sb_get(bus, key_of(writer, which, name), &guard);

        if (r == 0) {
                memcpy(text, guard.value.data, guard.value.len < 31 ? guard.value.len : 31);
                counter = strtoull(text, NULL, 10);
                sb_guard_release(&guard);
        } else if (r != SB_E_NOT_FOUND) {
                complain("get", r);
        }
        return counter;
}

static struct sb_bytes bytes_of(uint64_t counter, char text[300])
{
        /* Of many lengths, so that frames end anywhere. */
        int len = snprintf(text, 300, "%" PRIu64 " %*s", counter, (int)(counter % 250), "");

        return (struct sb_bytes){text, (size_t)len};
}

static int write_pair(struct sb_bus *bus, unsigned writer, uint64_t counter)
{
        struct sb_write how = {.size = sizeof(how), .durability = SB_STRICT};
        struct sb_txn *txn = NULL;
        char a[32], b[32], text[300];
        int r = sb_txn_begin(bus, SB_SNAPSHOT, &txn);

        if (r == 0)
                r = sb_txn_set(txn, key_of(writer, 'a', a), bytes_of(counter, text));
        if (r == 0)
                r = sb_txn_set(txn, key_of(writer, 'b', b), bytes_of(counter, text));
        if (r == 0)
                r = sb_txn_commit(txn, &how);
        sb_txn_end(txn);
        return r;
}

static int write_once(struct sb_bus *bus, unsigned writer, uint64_t counter)
{
        struct sb_write how = {.size = sizeof(how), .durability = SB_STRICT};
        char name[32], text[300];

        if (writer < SINGLE)
                return sb_set(bus, key_of(writer, 'a', name), bytes_of(counter, text), &how, NULL);
        if (writer < SINGLE + PAIRS)
                return write_pair(bus, writer, counter);
        /* Four keys in turn: of what comes back the highest is followed by no gap. */
        return sb_set(bus, key_of(writer, (char)('a' + counter % 4), name), bytes_of(counter, text),
                NULL, NULL);
}

static void be_writer(unsigned writer)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon_.place.directory, .access = SB_PEER};
        struct sb_bus *bus;
        uint64_t counter;
        int r;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        do
                r = sb_open(&options, &bus);
        while (r == -ECONNREFUSED);
        if (r)
                complain("open", r);
        counter = table->writer[writer].tried;
        for (;;) {
                table->writer[writer].tried = ++counter;
                r = write_once(bus, writer, counter);
                if (r)
                        complain("a write", r);
                if (writer < SINGLE + PAIRS)
                        table->writer[writer].acknowledged = counter;
        }
}

/* ---- the judge ---- */

static bool is_right(struct sb_bus *bus, unsigned writer)
{
        uint64_t first = read_counter(bus, writer, 'a'), other, highest = first;
        uint64_t tried = table->writer[writer].tried,
                 acknowledged = table->writer[writer].acknowledged;
        bool right = true;

        if (writer < SINGLE + PAIRS) {
                right = first >= acknowledged && first <= tried;
                if (writer >= SINGLE)
                        right &= read_counter(bus, writer, 'b') == first;
                if (!right)
                        snprintf(table->complaint, sizeof(table->complaint),
                                "writer %u: %ju, acknowledged %ju, tried %ju, other %ju", writer,
                                (uintmax_t)first, (uintmax_t)acknowledged, (uintmax_t)tried,
                                (uintmax_t)read_counter(bus, writer, 'b'));
                return right;
        }
        for (unsigned i = 1; i < 4; i++) {
                other = read_counter(bus, writer, (char)('a' + i));
                highest = other > highest ? other : highest;
        }
        for (uint64_t i = 0; i < 4 && i < highest; i++)
                if (read_counter(bus, writer, (char)('a' + (highest - i) % 4)) != highest - i) {
                        snprintf(table->complaint, sizeof(table->complaint),
                                "batched: %ju is there, and %ju is not", (uintmax_t)highest,
                                (uintmax_t)(highest - i));
                        right = false;
                }
        if (right && (highest > tried || highest < acknowledged)) {
                snprintf(table->complaint, sizeof(table->complaint),
                        "batched: %ju is there, of %ju, and %ju was there before",
                        (uintmax_t)highest, (uintmax_t)tried, (uintmax_t)acknowledged);
                right = false;
        }
        counted.batched += highest > acknowledged;
        table->writer[writer].acknowledged = highest;
        /* What was written in vain counts no more: the next writer goes on where there is no gap,
         * also if it is killed behind its first write. */
        table->writer[writer].tried = highest;
        return right;
}

static bool judge(void)
{
        struct sb_check_report report;
        struct sb_bus *bus = NULL;
        bool right = true;

        if (sb_admin_open(daemon_.place.directory, &bus))
                return false;
        for (unsigned writer = 0; writer < WRITERS; writer++)
                right &= is_right(bus, writer);
        if (sb_admin_check(bus, &report) || report.problem_count) {
                snprintf(table->complaint, sizeof(table->complaint), "not sound: %.120s",
                        report.problems[0]);
                right = false;
        }
        sb_close(bus);
        return right;
}

/* ---- one round ---- */

static void start_writer(unsigned writer)
{
        pid_t child = fork();

        if (child == 0)
                be_writer(writer);
        table->writer[writer].pid = child;
}

/* The engine, or the log, of the agentd that serves; 0: there is none now. */
static pid_t look_for(bool log)
{
        struct sb_admin_stat stat;
        struct sb_bus *bus = NULL;
        pid_t pid = 0;

        if (sb_admin_open(daemon_.place.directory, &bus) == 0 && sb_admin_stat(bus, &stat) == 0)
                pid = (pid_t)(log ? stat.log_pid : stat.engine_pid);
        sb_close(bus);
        return pid;
}

static void kill_one(bool log)
{
        pid_t pid = look_for(log);

        if (pid <= 0 || kill(pid, SIGKILL))
                return;
        if (log)
                counted.logs++;
        else
                counted.engines++;
}

/* Whether a process is an agentd of this bus. */
static bool is_agentd(const char *pid)
{
        char path[64], text[512];
        size_t len, at = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
        file = fopen(path, "re");
        if (!file)
                return false;
        len = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[len] = 0;
        while (at < len && strcmp(text + at, daemon_.place.directory))
                at += strlen(text + at) + 1;
        return at < len;
}

/* Send a signal to all processes of agentd: of one that is stopped none begins. */
static void signal_agentd(int signal)
{
        DIR *directory = opendir("/proc");
        struct dirent *entry;

        while (directory && (entry = readdir(directory)))
                if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && is_agentd(entry->d_name))
                        (void)kill(atoi(entry->d_name), signal);
        closedir(directory);
}

/* None has time for anything: first all are stopped, twice, because the first time one may have
 * begun another. */
static void kill_all(void)
{
        for (unsigned writer = 0; writer < WRITERS; writer++)
                (void)kill(table->writer[writer].pid, SIGSTOP);
        signal_agentd(SIGSTOP);
        signal_agentd(SIGSTOP);
        signal_agentd(SIGKILL);
        for (unsigned writer = 0; writer < WRITERS; writer++) {
                int end = daemon_end_child(table->writer[writer].pid);

                if (end != DAEMON_KILLED && !*table->complaint)
                        snprintf(table->complaint, sizeof(table->complaint),
                                "writer %u ended by itself: %d", writer, end);
        }
        daemon_hear_more(&daemon_);
        if (daemon_ended(&daemon_) != DAEMON_KILLED && !*table->complaint)
                snprintf(table->complaint, sizeof(table->complaint), "agentd ended by itself");
        if (agentd_crashed(daemon_.said) && !*table->complaint)
                snprintf(table->complaint, sizeof(table->complaint), "an engine or a log crashed");
}

static bool play_round(void)
{
        for (unsigned writer = 0; writer < WRITERS; writer++)
                start_writer(writer);
        for (uint64_t events = draw_below(4); events && !*table->complaint; events--) {
                sb_os_linux.pause(NULL, draw_below(60000000));
                kill_one(draw_below(2));
        }
        sb_os_linux.pause(NULL, 5000000 + draw_below(120000000));
        kill_all();
        return !*table->complaint;
}

static bool serve(const char *io)
{
        SPAWN(&daemon_, "--size", "4M", "--clients", "16", "--durability", "batched", "--flush-ms",
                "10", "--checkpoint-bytes", "1M", "--io", io);
        return daemon_hear(&daemon_, "ready\n");
}

/* Whether each writer has come so far that its end can show something. */
static bool each_has_written(void)
{
        for (unsigned writer = 0; writer < WRITERS; writer++)
                if (!table->writer[writer].acknowledged)
                        return false;
        return counted.batched;
}

/* A round for each second, however long that takes here. Where writers hardly come to run, each
 * round may end before they have begun: more rounds make up for that. SB_ROUNDS means so many. */
static bool goes_on(uint64_t rounds, uint64_t seconds, uint64_t end_ns)
{
        if (rounds)
                return counted.rounds < rounds;
        if (counted.rounds < seconds || daemon_now_ns() < end_ns)
                return true;
        return counted.rounds < 10 * seconds && !each_has_written();
}

static void test_what_was_acknowledged_is_there_however_often_everything_is_killed(void)
{
        const char *seed_text = getenv("SB_SEED"), *seconds_text = getenv("SB_SECONDS");
        const char *rounds_text = getenv("SB_ROUNDS");
        uint64_t seconds = getenv("SB_TEST_LONG") ? 40 * SECONDS : SECONDS, end;
        uint64_t rounds = rounds_text ? strtoull(rounds_text, NULL, 10) : 0;

        if (seconds_text)
                seconds = strtoull(seconds_text, NULL, 10);
        seed = seed_text ? strtoull(seed_text, NULL, 10) : daemon_now_ns();
        TEST_NOTE("SB_SEED=%ju", (uintmax_t)seed);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(table != MAP_FAILED);
        daemon_place(&daemon_.place);
        end = daemon_now_ns() + seconds * UINT64_C(1000000000);
        while (goes_on(rounds, seconds, end)) {
                if (!serve(counted.rounds % 2 ? "sync" : "auto")) {
                        TEST_FAIL("round %ju: agentd does not start: %s", (uintmax_t)counted.rounds,
                                daemon_.said);
                        return;
                }
                if (!judge() || !play_round())
                        TEST_FAIL("round %ju: %s; agentd said: %s", (uintmax_t)counted.rounds,
                                table->complaint, daemon_.said);
                counted.rounds++;
        }
        CHECK(serve("auto") && judge());
        CHECK_EQ(daemon_stop(&daemon_), 0);
        for (unsigned writer = 0; writer < WRITERS; writer++)
                counted.writes += table->writer[writer].tried;
        TEST_NOTE("%ju rounds, %ju writes, batched ones came back behind %ju of them; %ju engines "
                  "and %ju logs killed alone",
                (uintmax_t)counted.rounds, (uintmax_t)counted.writes, (uintmax_t)counted.batched,
                (uintmax_t)counted.engines, (uintmax_t)counted.logs);
        CHECK(counted.engines && counted.logs);
        /* Of a few rounds that were asked for, all may be too short for that. */
        CHECK(each_has_written() || (rounds && rounds <= 10));
}

/* ---- the engine alone ---- */

/* The writer of one bus: by one key, or by two in a transaction. */
static void be_one_of_fleet(const struct daemon *daemon, unsigned number)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon->place.directory, .access = SB_PEER};
        const unsigned as = number % (SINGLE + PAIRS);
        struct sb_bus *bus;
        int r = sb_open(&options, &bus);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint64_t counter = 1; !r; counter++) {
                uint64_t begin_ns = daemon_now_ns(), spent_ns;

                fleet->writer[number].tried = counter;
                r = write_once(bus, as, counter);
                if (r)
                        break;
                fleet->writer[number].acknowledged = counter;
                spent_ns = daemon_now_ns() - begin_ns;
                if (spent_ns > fleet->writer[number].worst_ns)
                        fleet->writer[number].worst_ns = spent_ns;
        }
        snprintf(fleet->complaint, sizeof(fleet->complaint), "writer %u: %d (%s)", number, r,
                r > 0 ? sb_strerror(r) : strerror(-r));
        _exit(1);
}

/* Everything of one bus is killed at once; behind that, what was acknowledged is there. */
static bool fleet_comes_back(struct daemon *daemon, unsigned number)
{
        const unsigned as = number % (SINGLE + PAIRS);
        struct sb_bus *bus = NULL;
        uint64_t first, other;

        daemon_ = *daemon;
        if (daemon_end_child(fleet->writer[number].pid) != DAEMON_KILLED)
                return false;
        signal_agentd(SIGSTOP);
        signal_agentd(SIGSTOP);
        signal_agentd(SIGKILL);
        if (daemon_ended(&daemon_) != DAEMON_KILLED || agentd_crashed(daemon_.said) ||
                !serve("auto") || sb_admin_open(daemon_.place.directory, &bus))
                return false;
        first = read_counter(bus, as, 'a');
        other = as < SINGLE ? first : read_counter(bus, as, 'b');
        sb_close(bus);
        if (first < fleet->writer[number].acknowledged || first > fleet->writer[number].tried ||
                other != first)
                snprintf(fleet->complaint, sizeof(fleet->complaint),
                        "bus %u: %ju and %ju, acknowledged %ju", number, (uintmax_t)first,
                        (uintmax_t)other, (uintmax_t)fleet->writer[number].acknowledged);
        return !*fleet->complaint && daemon_stop(&daemon_) == 0;
}

static void test_engines_that_are_killed_by_thousands_lose_no_strict_write_and_fail_none(void)
{
        static struct daemon daemons[BUSES];
        const char *text = getenv("SB_ENGINES");
        uint64_t wanted = text ? strtoull(text, NULL, 10) : ENGINES, engines = 0, served = 0,
                 writes = 0, worst_ns = 0, begin_ns;
        uint64_t seen[BUSES] = {0};
        struct sb_bus *buses[BUSES] = {NULL};
        struct sb_admin_stat stat;
        pid_t last[BUSES] = {0}, child;

        seed = getenv("SB_SEED") ? strtoull(getenv("SB_SEED"), NULL, 10) : daemon_now_ns();
        TEST_NOTE("SB_SEED=%ju", (uintmax_t)seed);
        fleet = mmap(
                NULL, sizeof(*fleet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(fleet != MAP_FAILED);
        for (unsigned i = 0; i < BUSES; i++) {
                memset(&daemon_, 0, sizeof(daemon_));
                daemon_place(&daemon_.place);
                CHECK(serve(i % 2 ? "sync" : "auto"));
                daemons[i] = daemon_;
                CHECK(!sb_admin_open(daemon_.place.directory, &buses[i]));
                child = fork();
                if (child == 0)
                        be_one_of_fleet(&daemons[i], i);
                CHECK(child > 0);
                fleet->writer[i].pid = child;
        }
        begin_ns = daemon_now_ns();
        while (engines < wanted && !*fleet->complaint) {
                for (unsigned i = 0; i < BUSES; i++) {
                        daemon_hear_more(&daemons[i]);
                        /* Some before they have served a strict write. */
                        if (sb_admin_stat(buses[i], &stat) || stat.engine_pid <= 0 ||
                                (pid_t)stat.engine_pid == last[i] ||
                                (fleet->writer[i].acknowledged == seen[i] && draw_below(40)) ||
                                kill((pid_t)stat.engine_pid, SIGKILL))
                                continue;
                        last[i] = (pid_t)stat.engine_pid;
                        served += fleet->writer[i].acknowledged != seen[i];
                        seen[i] = fleet->writer[i].acknowledged;
                        engines++;
                }
                sb_os_linux.pause(NULL, draw_below(40000000));
        }
        TEST_NOTE("%ju engines killed in %ju s, on %u buses, %ju with a write since the one before",
                (uintmax_t)engines, (uintmax_t)((daemon_now_ns() - begin_ns) / 1000000000), BUSES,
                (uintmax_t)served);
        CHECK(served > engines / 2);
        for (unsigned i = 0; i < BUSES; i++) {
                uint64_t before = fleet->writer[i].acknowledged;

                /* The last engine is replaced, and the log goes on. */
                (void)WAIT(fleet->writer[i].acknowledged > before + 1 || *fleet->complaint);
                if (fleet->writer[i].acknowledged == before && !*fleet->complaint)
                        snprintf(fleet->complaint, sizeof(fleet->complaint), "bus %u stands", i);
                writes += fleet->writer[i].acknowledged;
                if (fleet->writer[i].worst_ns > worst_ns)
                        worst_ns = fleet->writer[i].worst_ns;
                sb_close(buses[i]);
        }
        for (unsigned i = 0; i < BUSES; i++)
                if (*fleet->complaint || !fleet_comes_back(&daemons[i], i))
                        TEST_FAIL("%s", fleet->complaint);
        TEST_NOTE("%ju strict writes acknowledged, the longest took %ju ms", (uintmax_t)writes,
                (uintmax_t)(worst_ns / 1000000));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_what_was_acknowledged_is_there_however_often_everything_is_killed);
        if (getenv("SB_TEST_LONG") || getenv("SB_ENGINES"))
                RUN(test_engines_that_are_killed_by_thousands_lose_no_strict_write_and_fail_none);
        return daemon_end(test_end());
}
