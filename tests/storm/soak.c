/*
 * The soak: hours of churn at constant size on a real agentd, with figures every minute. A bus that
 * is old must cost what it cost when it was young, so flat lines are the test.
 *
 * Workers turn a constant number of keys over (each key gives way to one that never was), overwrite
 * and read them, commit transactions, hold snapshots, scan, make marks and drop them. One prefix
 * has a rule of history. The test process kills and stops workers, and kills the engine, all the
 * while. Every SB_STEP seconds it looks at the bus and prints a line: speeds (for people: no time
 * fails a test), buckets that an absent lookup passes, units by kind, work that is left behind.
 *
 * Always true: what is judged is counts. The first quarter is the way to a steady state; of the
 * rest the later half is compared with the earlier one.
 * Arguments: none. SB_SECONDS, SB_STEP, SB_SEED.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"
#include "tests/storm/random.h"

#define SIZE        (16u << 20)
#define WORKERS     4u
#define KEYS        16000u /* live at any time, of all workers together */
#define RULED       64u    /* keys under a rule of history, of each worker */
#define SECONDS     7200u
#define STEP        60u
#define LINES_MAX   4096u
#define PROBES      4096u
#define LARGE_VALUE 24000u
#define NO_KEY      UINT32_MAX
#define HOLD_MS     300u /* a snapshot is held at most so long */
#define STOP_MS     700u
/* So many operations a worker does in a tenth of a second. What a cut keeps while its holder is
 * halted grows with what the others do meanwhile, and must fit. */
#define PACE 500u

/* What a worker tells the test process, and the next worker in its seat. */
struct seat {
        pid_t pid;
        uint64_t resume_ms; /* when it goes on; 0: it is not halted */
        uint32_t under_way; /* the key that it is turning over, or NO_KEY */
        uint64_t turnovers, writes, reads, commits, full, swept;
        bool complained;
        char complaint[128];
};
static struct table {
        struct seat seat[WORKERS];
        uint32_t life[KEYS];
        bool stop;
} * table;

/* One line of figures. */
enum { BUCKETS, SWEPT, VERSIONS, NODES, LARGE, EMPTY, FREE, BEHIND, HISTORY, FIGURES };
static const char *const figure_name[FIGURES] = {"buckets an absent lookup passes",
        "blocks swept by workers a turnover", "version units", "node units", "large units",
        "empty units", "free units", "sweeps behind", "bytes of history"};
struct line {
        double figure[FIGURES];
        uint64_t turnovers, writes, reads, commits, swept;
};
static struct line lines[LINES_MAX];
static uint32_t line_count;

static struct world world;
static struct sb_bus *bus;
static uint64_t seed, kills, stops, engine_kills;

static uint64_t number_of(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t now_ms(void)
{
        return now_ns() / 1000000;
}

/* ---- a worker ---- */

static unsigned char value_bytes[LARGE_VALUE];

static struct sb_bytes key_of(uint32_t key, uint32_t life, char ret[48])
{
        int len = snprintf(ret, 48, "soak/%05u/%u", key, life);

        return (struct sb_bytes){ret, (size_t)len};
}

static struct sb_bytes value_of(uint64_t random)
{
        uint64_t kind = random % 1000, more = random >> 20;
        size_t len = kind < 1    ? 12000 + more % (LARGE_VALUE - 12000)
                     : kind < 40 ? 256 + more % 1024
                                 : 8 + more % 48;

        return (struct sb_bytes){value_bytes, len};
}

static bool may_be(struct seat *seat, int r, const char *what)
{
        if (r == SB_E_FULL)
                seat->full++;
        if (r == 0 || r == SB_E_NOT_FOUND || r == SB_E_CONFLICT || r == SB_E_FULL ||
                r == SB_E_LAPPED || r == -EINTR)
                return true;
        snprintf(seat->complaint, sizeof(seat->complaint), "%s: %s", what, sb_strerror(r));
        seat->complained = true;
        return false;
}

/* The key gives way to one that never was. A worker that is killed in here is followed by one that
 * does it again. */
static void turn_over(struct sb_bus *own, struct seat *seat, uint32_t key, uint64_t random)
{
        char text[48];
        int r;

        __atomic_store_n(&seat->under_way, key, __ATOMIC_SEQ_CST);
        r = sb_delete(own, key_of(key, table->life[key], text), SB_ANY_REV, NULL, NULL);
        may_be(seat, r, "delete");
        r = sb_set(own, key_of(key, table->life[key] + 1, text), value_of(random), NULL, NULL);
        may_be(seat, r, "set");
        __atomic_store_n(&table->life[key], table->life[key] + 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&seat->under_way, NO_KEY, __ATOMIC_SEQ_CST);
        seat->turnovers++;
}

static void commit(struct sb_bus *own, struct seat *seat, const uint32_t *keys, uint64_t random)
{
        struct sb_txn *txn;
        char text[48];
        int r = sb_txn_begin(own, random & 1 ? SB_SERIALIZABLE : SB_SNAPSHOT, &txn);

        if (!may_be(seat, r, "begin") || r)
                return;
        for (uint32_t i = 0; i < 4 && !r; i++)
                r = sb_txn_set(
                        txn, key_of(keys[i], table->life[keys[i]], text), value_of(random >> i));
        if (!r)
                r = sb_txn_commit(txn, NULL);
        may_be(seat, r, "commit");
        sb_txn_end(txn);
        seat->commits++;
}

/* Hold a cut for a while, as a slow reader does, and look at keys in it. */
static void scan_slowly(struct sb_bus *own, struct seat *seat, uint64_t random)
{
        uint64_t until = now_ms() + random % HOLD_MS;
        struct sb_scan *scan;
        struct sb_guard guard = {0};
        int r = sb_scan_open(own, NULL, b("soak/"), &scan);

        if (!may_be(seat, r, "scan") || r)
                return;
        while (now_ms() < until && !table->stop && (r = sb_scan_next(scan, &guard)) == 0) {
                sb_guard_release(&guard);
                seat->reads++;
        }
        may_be(seat, r, "scan next");
        sb_scan_close(scan);
}

static void mark(struct sb_bus *own, struct seat *seat, uint32_t number)
{
        uint64_t cut;
        char name[32];
        int r;

        snprintf(name, sizeof(name), "soak-%u", number);
        r = sb_mark_drop(own, b(name));
        may_be(seat, r, "drop");
        r = sb_mark(own, b(name), &cut);
        may_be(seat, r, "mark");
}

/* Under the rule of history: keys that are written again and again, and keys that are made once and
 * deleted, ever new ones. */
static void write_ruled(struct sb_bus *own, struct seat *seat, uint32_t number, uint64_t random)
{
        char text[48];
        int r;

        snprintf(text, sizeof(text), "rule/%u/%u", number, (uint32_t)(random % RULED));
        r = sb_set(own, b(text), value_of(random >> 8), NULL, NULL);
        may_be(seat, r, "set under a rule");
        snprintf(text, sizeof(text), "rule/%u/once/%016" PRIx64, number, random);
        r = sb_set(own, b(text), value_of(random >> 8), NULL, NULL);
        may_be(seat, r, "set once");
        r = sb_delete(own, b(text), SB_ANY_REV, NULL, NULL);
        may_be(seat, r, "delete once");
}

static void read_keys(struct sb_bus *own, struct seat *seat, uint32_t first)
{
        struct sb_guard guard = {0};
        char text[48];

        for (uint32_t i = 0; i < 8; i++) {
                uint32_t key = (first + i * 977) % KEYS;
                int r = sb_get(own, key_of(key, table->life[key], text), &guard);

                may_be(seat, r, "get");
                sb_guard_release(&guard);
                seat->reads++;
        }
}

static uint32_t own_key(uint32_t number, uint64_t random)
{
        return (uint32_t)(random % (KEYS / WORKERS)) * WORKERS + number;
}

static void work_once(struct sb_bus *own, struct seat *seat, uint32_t number, uint64_t *state)
{
        uint64_t random = storm_random(state), what = storm_random(state) % 10000;
        uint32_t keys[4];
        char text[48];

        for (uint32_t i = 0; i < 4; i++)
                keys[i] = own_key(number, storm_random(state));
        if (what < 4000) {
                turn_over(own, seat, keys[0], random);
        } else if (what < 6000) {
                int r = sb_set(own, key_of(keys[0], table->life[keys[0]], text), value_of(random),
                        NULL, NULL);

                may_be(seat, r, "overwrite");
                seat->writes++;
        } else if (what < 9000) {
                read_keys(own, seat, keys[0]);
        } else if (what < 9900) {
                commit(own, seat, keys, random);
        } else if (what < 9960) {
                write_ruled(own, seat, number, random);
        } else if (what < 9980) {
                scan_slowly(own, seat, random);
        } else {
                mark(own, seat, number);
        }
}

static void be_worker(uint32_t number)
{
        struct seat *seat = &table->seat[number];
        uint64_t state = seed * 1000 + (uint64_t)getpid();
        struct sb_bus *own;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        own = world_bus(&world);
        if (!own) {
                may_be(seat, -EAGAIN, "attach");
                _exit(1);
        }
        if (seat->under_way != NO_KEY)
                turn_over(own, seat, seat->under_way, storm_random(&state));
        while (!table->stop && !seat->complained) {
                uint64_t next = now_ms() + 100, swept = own->handle.counters.swept;
                struct timespec rest = {0};

                for (uint32_t i = 0; i < PACE && !table->stop && !seat->complained; i++)
                        work_once(own, seat, number, &state);
                seat->swept += own->handle.counters.swept - swept;
                rest.tv_nsec = next > now_ms() ? (long)(next - now_ms()) * 1000000 : 0;
                nanosleep(&rest, NULL);
        }
        sb_close(own);
        _exit(seat->complained);
}

/* ---- figures ---- */

/* Buckets that a lookup of a key passes that is not there, on average. */
static double look_at_buckets(const struct sb_segment *segment)
{
        uint64_t state = seed, buckets = 0;

        for (uint32_t i = 0; i < PROBES; i++) {
                uint64_t hash = storm_random(&state);
                struct sb_path path = sb_path_first(segment, hash);

                do
                        buckets++;
                while (sb_path_next(segment, hash, &path));
        }
        return (double)buckets / PROBES;
}

static void look_at_units(const struct sb_segment *segment, struct line *line)
{
        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++)
                /* Relaxed: a figure for people and for a comparison of sums. */
                switch (SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit]))) {
                case SB_UNIT_VERSIONS:
                        line->figure[VERSIONS]++;
                        break;
                case SB_UNIT_NODES:
                        line->figure[NODES]++;
                        break;
                case SB_UNIT_LARGE:
                case SB_UNIT_PART:
                        line->figure[LARGE]++;
                        break;
                case SB_UNIT_EMPTY:
                        line->figure[EMPTY]++;
                        break;
                case SB_UNIT_FREE:
                        line->figure[FREE]++;
                        break;
                default:
                        break;
                }
}

static void take_line(uint64_t step_s)
{
        const struct sb_superblock *super = bus->handle.segment.super;
        struct line *line = &lines[line_count], *before = line_count ? line - 1 : NULL;

        *line = (struct line){0};
        line->figure[BUCKETS] = look_at_buckets(&bus->handle.segment);
        look_at_units(&bus->handle.segment, line);
        /* Relaxed, all: figures. */
        line->figure[BEHIND] =
                (double)(sb_load_relaxed(&super->sweep_wanted) != sb_load_relaxed(&super->swept));
        line->figure[HISTORY] = (double)sb_load_relaxed(&super->history_bytes);
        for (uint32_t i = 0; i < WORKERS; i++) {
                line->turnovers += table->seat[i].turnovers;
                line->writes += table->seat[i].writes;
                line->reads += table->seat[i].reads;
                line->commits += table->seat[i].commits;
                line->swept += table->seat[i].swept;
        }
        line->figure[SWEPT] = (double)(line->swept - (before ? before->swept : 0)) /
                              (double)(line->turnovers - (before ? before->turnovers : 0) + 1);
        TEST_NOTE("soak %5" PRIu64 " s: %7" PRIu64 " turnovers/s %7" PRIu64 " sets/s %7" PRIu64
                  " gets/s %6" PRIu64
                  " commits/s; %.3f buckets; %.2f swept; units: %.0f versions %.0f nodes "
                  "%.0f large %.0f empty %.0f free; history %.0f KiB",
                (line_count + 1) * step_s,
                (line->turnovers - (before ? before->turnovers : 0)) / step_s,
                (line->writes - (before ? before->writes : 0)) / step_s,
                (line->reads - (before ? before->reads : 0)) / step_s,
                (line->commits - (before ? before->commits : 0)) / step_s, line->figure[BUCKETS],
                line->figure[SWEPT], line->figure[VERSIONS], line->figure[NODES],
                line->figure[LARGE], line->figure[EMPTY], line->figure[FREE],
                line->figure[HISTORY] / 1024);
        line_count++;
}

static double mean_of(uint32_t from, uint32_t to, uint32_t figure)
{
        double sum = 0;

        for (uint32_t i = from; i < to; i++)
                sum += lines[i].figure[figure];
        return to > from ? sum / (to - from) : 0;
}

/* Whether a figure stays where it was: the mean of the last three eighths is at most a tenth above
 * the mean of the three before, and what is small may differ by @slack. */
static bool is_flat(uint32_t figure, double slack, double *ret_before, double *ret_after)
{
        uint32_t first = line_count / 4, middle = first + (line_count - first) / 2;

        *ret_before = mean_of(first, middle, figure);
        *ret_after = mean_of(middle, line_count, figure);
        return *ret_after <= *ret_before * 1.1 + slack;
}

/* ---- the parent ---- */

static void start_worker(uint32_t number)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                be_worker(number);
        table->seat[number].pid = pid;
        table->seat[number].resume_ms = 0;
}

static void end_worker(uint32_t number, int signal_)
{
        struct seat *seat = &table->seat[number];
        int status;

        if (signal_)
                kill(seat->pid, signal_);
        kill(seat->pid, SIGCONT);
        waitpid(seat->pid, &status, 0);
}

static void disturb(uint64_t *state)
{
        uint32_t number = storm_random(state) % WORKERS, what = storm_random(state) % 100;
        struct seat *seat = &table->seat[number];
        struct sb_admin_stat stat;

        if (what < 45) {
                end_worker(number, SIGKILL);
                kills++;
                start_worker(number);
        } else if (what < 97 && !seat->resume_ms) {
                kill(seat->pid, SIGSTOP);
                seat->resume_ms = now_ms() + storm_random(state) % STOP_MS;
                stops++;
        } else if (what >= 97 && sb_admin_stat(bus, &stat) == 0 && stat.engine_pid) {
                kill((pid_t)stat.engine_pid, SIGKILL);
                engine_kills++;
        }
}

static void churn(uint64_t seconds, uint64_t step_s)
{
        uint64_t began = now_ms(), next = began + step_s * 1000, state = seed;

        for (uint32_t i = 0; i < WORKERS; i++)
                start_worker(i);
        while (now_ms() < began + seconds * 1000 && line_count < LINES_MAX) {
                struct timespec wait = {.tv_nsec = 200000000};

                nanosleep(&wait, NULL);
                for (uint32_t i = 0; i < WORKERS; i++) {
                        struct seat *seat = &table->seat[i];

                        if (seat->complained)
                                goto end;
                        if (seat->resume_ms && seat->resume_ms <= now_ms()) {
                                kill(seat->pid, SIGCONT);
                                seat->resume_ms = 0;
                        }
                }
                if (storm_random(&state) % 5 == 0)
                        disturb(&state);
                if (now_ms() >= next) {
                        take_line(step_s);
                        next += step_s * 1000;
                }
        }
end:
        table->stop = true;
        for (uint32_t i = 0; i < WORKERS; i++)
                end_worker(i, 0);
}

/* ---- what must be true ---- */

static void test_no_worker_met_a_result_that_it_should_not(void)
{
        uint64_t full = 0;

        for (uint32_t i = 0; i < WORKERS; i++) {
                if (table->seat[i].complained)
                        TEST_FAIL("%s", table->seat[i].complaint);
                full += table->seat[i].full;
        }
        CHECK_EQ(full, 0);
        CHECK(line_count >= 8 && kills > 0 && stops > 0);
}

static void test_a_line_that_rises_is_seen(void)
{
        static struct line kept[LINES_MAX];
        double before, after;
        uint32_t count = line_count;

        memcpy(kept, lines, sizeof(kept));
        line_count = 80;
        for (uint32_t i = 0; i < line_count; i++)
                lines[i].figure[BUCKETS] = 1 + 0.01 * i;
        bool flat = is_flat(BUCKETS, 0.02, &before, &after);
        memcpy(lines, kept, sizeof(kept));
        line_count = count;
        CHECK(!flat);
}

static void test_every_line_is_flat(void)
{
        static const double slack[FIGURES] = {[BUCKETS] = 0.02,
                [SWEPT] = 1,
                [VERSIONS] = 20,
                [NODES] = 20,
                [LARGE] = 40,
                [EMPTY] = 200,
                [FREE] = 4096,
                [BEHIND] = 0.5,
                [HISTORY] = 65536};
        double before, after;

        for (uint32_t i = 0; i < FIGURES; i++)
                if (!is_flat(i, slack[i], &before, &after))
                        TEST_FAIL("%s: %.3f, later %.3f", figure_name[i], before, after);
}

static void test_the_bus_is_sound_and_has_its_keys(void)
{
        struct sb_admin_stat stat;

        CHECK(world_sound(&world, bus));
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK(stat.keys >= KEYS && stat.keys <= KEYS + WORKERS * RULED + 64);
}

static bool fill(void)
{
        uint64_t state = seed;
        char text[48];

        for (uint32_t key = 0; key < KEYS; key++)
                if (sb_set(bus, key_of(key, 0, text), value_of(storm_random(&state)), NULL, NULL))
                        return false;
        return true;
}

int main(int argc, char **argv)
{
        uint64_t step_s = number_of("SB_STEP", STEP), seconds = number_of("SB_SECONDS", SECONDS);
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 4};
        const char *why;

        test_begin(argc, argv);
        seed = number_of("SB_SEED", 1);
        why = world_open(&world, SIZE, 16);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        bus = why ? NULL : world_bus(&world);
        if (!bus || table == MAP_FAILED || sb_keep(bus, b("rule/"), SB_PREFIX, &rule) || !fill()) {
                printf("FAIL begin: %s\n", why ? why : "no bus, or it cannot be filled");
                return 1;
        }
        for (uint32_t i = 0; i < WORKERS; i++)
                table->seat[i].under_way = NO_KEY;
        churn(seconds, step_s);
        RUN(test_no_worker_met_a_result_that_it_should_not);
        RUN(test_a_line_that_rises_is_seen);
        RUN(test_every_line_is_flat);
        RUN(test_the_bus_is_sound_and_has_its_keys);
        TEST_NOTE("soak: %" PRIu64 " workers killed, %" PRIu64 " stops, %" PRIu64
                  " engines killed, %" PRIu64 " turnovers (SB_SEED=%" PRIu64 ")",
                kills, stops, engine_kills, line_count ? lines[line_count - 1].turnovers : 0, seed);
        bus = sb_close(bus);
        if (!world_close(&world)) {
                printf("FAIL world_close: the bus did not end soundly\n");
                return 1;
        }
        return test_end();
}
