/*
 * The soak: hours of churn at constant size on a real agentd, with figures every minute. A bus that
 * is old must cost what it cost when it was young, so flat lines are the test.
 *
 * The test process kills and stops workers (soak-worker.h), and kills the engine, all the while.
 * Every SB_STEP seconds it looks at the bus and prints a line: operations, the processor time of
 * each, buckets that an absent lookup passes, units by kind, sweeps, work that is left behind.
 *
 * Lines are judged from the steady state on, which is a state of the bus and no time: the workers
 * fill the history of the rules until its limit lets the oldest part go; then they go on with their
 * usual mix until all that they filled in has been let go, too, and until history has come to its
 * limit once more, and each key was turned over several times. (What was filled in fast lies at few
 * cuts, and most of it goes at once.) A slow machine takes longer for that, and SB_SECONDS begin
 * only then.
 *
 * Always true: what is judged is counts; times are figures for people. Of the lines of the steady
 * state the later half is compared with the earlier one.
 * Arguments: none. SB_SECONDS, SB_STEP, SB_SEED. The output has lines for bench/curves, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
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
#include "tests/storm/soak-worker.h"

#define SIZE      (16u << 20)
#define SECONDS   7200u
#define STEP      60u
#define LINES_MAX 4096u
#define PROBES    4096u
#define STOP_MS   700u
#define LAPS      8u /* each key is turned over so often, on average, before lines are judged */
/* A write under the rule keeps at least so many bytes, and after sixteen times the limit without a
 * part of history let go, none will be. */
#define RULED_BYTES 64u
#define LIMITS_MOST 16u

/* One line of figures. */
enum {
        BUCKETS,
        SWEPT,
        VERSIONS,
        NODES,
        LARGE,
        EMPTY,
        FREE,
        BEHIND,
        HISTORY,
        LIMBO,
        PENDING,
        JUDGED
};
static const char *const figure_name[JUDGED] = {"buckets an absent lookup passes",
        "blocks swept by workers a turnover", "version units", "node units", "large units",
        "empty units", "free units", "askings for a sweep not served", "bytes of history",
        "longest limbo", "longest list of chains"};
struct line {
        double figure[JUDGED];
        uint64_t at_ms, done[SOAK_KINDS], cpu_ns[SOAK_KINDS], swept, slices, full;
        uint64_t asked, chunks; /* for sweeps, ever; of shared slices, ever */
        uint64_t sweeps;        /* that the engine ended, ever: as seen every 200 ms */
        uint64_t engine_ns;     /* processor time of all engines */
        uint64_t unstable;      /* deepest: cuts that were taken, and not stable */
};
static struct line lines[LINES_MAX], last; /* the last one, of the way to the steady state, too */
static uint32_t line_count;                /* of the steady state */

static struct world world;
static struct sb_bus *bus;
static uint64_t seed, kills, stops, engine_kills;
static uint64_t ended_badly; /* workers that were not killed, and ended or crashed */
static const char *never;    /* why there is no steady state */

/* What the test process sees between two lines. */
static struct watch {
        uint64_t swept, sweeps, behind, unstable;
        pid_t engine;
        uint64_t engine_before_ns, engine_ns;
} watch;

static uint64_t now_ms(void)
{
        return now_ns() / 1000000;
}

static uint64_t sum_done(enum soak_kind kind)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < SOAK_WORKERS; i++)
                sum += soak_table->seat[i].done[kind];
        return sum;
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

/* The processor time of the engine since the last look. One that was killed since takes the rest of
 * its time with it. */
static void look_at_engine(pid_t engine)
{
        struct timespec time;
        clockid_t clock;
        uint64_t ns;

        if (clock_getcpuclockid(engine, &clock) || clock_gettime(clock, &time) < 0)
                return;
        ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
        if (engine != watch.engine)
                watch.engine_before_ns = 0;
        watch.engine_ns += ns - watch.engine_before_ns;
        watch.engine = engine;
        watch.engine_before_ns = ns;
}

/* Between two lines, every 200 ms. */
static void look_often(void)
{
        const struct sb_superblock *super = bus->handle.segment.super;
        /* Relaxed, all: figures. */
        uint64_t swept = sb_load_relaxed(&super->swept);
        uint64_t behind = sb_load_relaxed(&super->sweep_wanted) - swept;
        uint64_t stable = sb_load_relaxed(&super->stable);
        uint64_t unstable = sb_load_relaxed(&super->clock) - stable;

        watch.sweeps += swept != watch.swept;
        watch.swept = swept;
        if (behind > watch.behind)
                watch.behind = behind;
        if (unstable > watch.unstable)
                watch.unstable = unstable;
        look_at_engine((pid_t)sb_load_relaxed(&super->engine));
}

static void sum_seats(struct line *line)
{
        for (uint32_t i = 0; i < SOAK_WORKERS; i++) {
                struct soak_seat *seat = &soak_table->seat[i];

                for (uint32_t kind = 0; kind < SOAK_KINDS; kind++) {
                        line->done[kind] += seat->done[kind];
                        line->cpu_ns[kind] += seat->cpu_ns[kind];
                }
                line->swept += seat->swept;
                line->slices += seat->slices;
                line->full += seat->full;
                if (seat->limbo_most > line->figure[LIMBO])
                        line->figure[LIMBO] = seat->limbo_most;
                if (seat->pending_most > line->figure[PENDING])
                        line->figure[PENDING] = seat->pending_most;
                seat->limbo_most = seat->pending_most = 0;
        }
}

static void look_at_bus(struct line *line)
{
        const struct sb_superblock *super = bus->handle.segment.super;

        line->at_ms = now_ms();
        sum_seats(line);
        line->figure[BUCKETS] = look_at_buckets(&bus->handle.segment);
        look_at_units(&bus->handle.segment, line);
        line->figure[BEHIND] = (double)watch.behind;
        /* Relaxed, all: figures. */
        line->figure[HISTORY] = (double)sb_load_relaxed(&super->history_bytes);
        line->asked = sb_load_relaxed(&super->sweep_wanted);
        line->chunks = sb_load_relaxed(&super->sweep_next);
        line->sweeps = watch.sweeps;
        line->engine_ns = watch.engine_ns;
        line->unstable = watch.unstable;
        line->figure[SWEPT] = (double)(line->swept - last.swept) /
                              (double)(line->done[SOAK_TURNOVER] - last.done[SOAK_TURNOVER] + 1);
        watch.behind = watch.unstable = 0;
}

/* The processor time of an operation, in a line's time. */
static uint64_t cpu_of(const struct line *line, enum soak_kind kind)
{
        return (line->cpu_ns[kind] - last.cpu_ns[kind]) / (line->done[kind] - last.done[kind] + 1);
}

static void print_line(const struct line *line, uint64_t second, const char *state)
{
        static const struct {
                enum soak_kind kind;
                const char *name;
        } curve[] = {{SOAK_TURNOVER, "turnover"}, {SOAK_SET, "set"}, {SOAK_GET, "get"},
                {SOAK_COMMIT, "commit-of-4"}};
        const double *figure = line->figure;
        uint64_t ms = line->at_ms - last.at_ms + 1;
        uint64_t turnovers = line->done[SOAK_TURNOVER] - last.done[SOAK_TURNOVER];

        TEST_NOTE("soak %5" PRIu64 " s %s: %" PRIu64 " turnovers/s; ns of processor time: %" PRIu64
                  " a turnover, %" PRIu64 " a set, %" PRIu64 " a get, %" PRIu64
                  " a commit; engine %" PRIu64 " us/s",
                second, state, turnovers * 1000 / ms, cpu_of(line, SOAK_TURNOVER),
                cpu_of(line, SOAK_SET), cpu_of(line, SOAK_GET), cpu_of(line, SOAK_COMMIT),
                (line->engine_ns - last.engine_ns) / ms);
        TEST_NOTE("     %.3f buckets; units: %.0f versions %.0f nodes %.0f large %.0f empty %.0f "
                  "free; history %.0f KiB; full %" PRIu64,
                figure[BUCKETS], figure[VERSIONS], figure[NODES], figure[LARGE], figure[EMPTY],
                figure[FREE], figure[HISTORY] / 1024, line->full - last.full);
        TEST_NOTE("     sweeps: %" PRIu64 " asked for, %" PRIu64
                  " ended, at most %.0f askings behind; workers: %" PRIu64
                  " slices, %.2f blocks a turnover; longest limbo %.0f, chains %.0f; at most "
                  "%" PRIu64 " cuts unstable",
                line->asked - last.asked, line->sweeps - last.sweeps, figure[BEHIND],
                line->slices - last.slices, figure[SWEPT], figure[LIMBO], figure[PENDING],
                line->unstable);
        for (uint32_t i = 0; i < sizeof(curve) / sizeof(*curve); i++)
                printf("soak %s %.1f %" PRIu64 "\n", curve[i].name, (double)second / 60,
                        cpu_of(line, curve[i].kind));
}

static void take_line(uint64_t began, bool steady)
{
        struct line line = {0};

        look_at_bus(&line);
        print_line(&line, (line.at_ms - began) / 1000, steady ? "steady" : "on the way");
        if (steady)
                lines[line_count++] = line;
        last = line;
}

static double mean_of(uint32_t from, uint32_t to, uint32_t figure)
{
        double sum = 0;

        for (uint32_t i = from; i < to; i++)
                sum += lines[i].figure[figure];
        return to > from ? sum / (to - from) : 0;
}

/* Whether a figure stays where it was: the mean of the later half is at most a tenth above the mean
 * of the earlier one, and what is small may differ by @slack. */
static bool is_flat(uint32_t figure, double slack, double *ret_before, double *ret_after)
{
        uint32_t middle = line_count / 2;

        *ret_before = mean_of(0, middle, figure);
        *ret_after = mean_of(middle, line_count, figure);
        return *ret_after <= *ret_before * 1.1 + slack;
}

/* ---- the way to the steady state ---- */

/* Its stages, one after the other. */
enum stage {
        FILLING,   /* history has not reached its limit */
        TURNING,   /* it holds what was filled in */
        REFILLING, /* it is of the usual mix, and may be less than its limit */
        STEADY
};
static struct way {
        enum stage stage;
        uint64_t floor, ruled; /* when the stage began */
} way;

static void begin_stage(enum stage stage)
{
        const struct sb_superblock *super = bus->handle.segment.super;

        way.stage = stage;
        way.ruled = sum_done(SOAK_RULED_KEY);
        /* Relaxed, both. What is superseded from now on is superseded at a later cut. */
        way.floor = stage == TURNING ? sb_load_relaxed(&super->clock)
                                     : sb_load_relaxed(&super->history_floor);
        soak_table->filling = stage == FILLING;
}

/* Go on to the next stage when this one's end is reached. */
static void go_on(uint64_t began)
{
        static const char *const reached[] = {[TURNING] = "history has reached its limit",
                [REFILLING] = "all of history is of the usual mix",
                [STEADY] = "steady from here: it has reached its limit again"};
        const struct sb_superblock *super = bus->handle.segment.super;
        /* Relaxed, both: they only rise, and are looked at again. The limit stands. */
        uint64_t floor = sb_load_relaxed(&super->history_floor);
        uint64_t limit = sb_load_relaxed(&super->history_limit);

        if (way.stage == STEADY)
                return;
        if (sum_done(SOAK_RULED_KEY) - way.ruled > LIMITS_MOST * limit / RULED_BYTES) {
                never = "history never reached its limit";
                return;
        }
        if (floor <= way.floor ||
                (way.stage == REFILLING && sum_done(SOAK_TURNOVER) < (uint64_t)LAPS * SOAK_KEYS))
                return;
        begin_stage(way.stage + 1);
        TEST_NOTE("soak %5" PRIu64 " s: %s", (now_ms() - began) / 1000, reached[way.stage]);
        if (way.stage == STEADY)
                take_line(began, false);
}

/* ---- the parent ---- */

static void start_worker(uint32_t number)
{
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                soak_work(&world, number, seed * 1000 + (uint64_t)getpid());
        soak_table->seat[number].pid = pid;
        soak_table->seat[number].resume_ms = 0;
}

static void end_worker(uint32_t number, int signal_)
{
        struct soak_seat *seat = &soak_table->seat[number];
        int status;

        if (signal_)
                kill(seat->pid, signal_);
        kill(seat->pid, SIGCONT);
        if (waitpid(seat->pid, &status, 0) != seat->pid ||
                (signal_ ? !WIFSIGNALED(status) || WTERMSIG(status) != signal_ : status))
                ended_badly++;
}

static void disturb(uint64_t *state)
{
        uint32_t number = storm_random(state) % SOAK_WORKERS, what = storm_random(state) % 100;
        struct soak_seat *seat = &soak_table->seat[number];
        struct sb_admin_stat stat;
        /* The first engine goes early, so that the shortest soak has one. */
        bool engine_is_due = engine_kills == 0 && kills + stops >= 40;

        if (engine_is_due)
                what = 97;
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

/* Let halted workers go on whose time is over. Return: whether no worker complains. */
static bool look_after_workers(void)
{
        for (uint32_t i = 0; i < SOAK_WORKERS; i++) {
                struct soak_seat *seat = &soak_table->seat[i];

                if (seat->complained)
                        return false;
                if (seat->resume_ms && seat->resume_ms <= now_ms()) {
                        kill(seat->pid, SIGCONT);
                        seat->resume_ms = 0;
                }
        }
        return true;
}

static void churn(uint64_t seconds, uint64_t step_s)
{
        uint64_t began = now_ms(), next = began + step_s * 1000, end = UINT64_MAX, state = seed;

        last.at_ms = began;
        begin_stage(FILLING);
        for (uint32_t i = 0; i < SOAK_WORKERS; i++)
                start_worker(i);
        while (now_ms() < end && line_count < LINES_MAX && !never && look_after_workers()) {
                struct timespec wait = {.tv_nsec = 200000000};

                nanosleep(&wait, NULL);
                look_often();
                go_on(began);
                if (way.stage == STEADY && end == UINT64_MAX) {
                        end = now_ms() + seconds * 1000;
                        next = now_ms() + step_s * 1000;
                }
                if (storm_random(&state) % 5 == 0)
                        disturb(&state);
                if (now_ms() >= next) {
                        take_line(began, way.stage == STEADY);
                        next += step_s * 1000;
                }
        }
        soak_table->stop = true;
        for (uint32_t i = 0; i < SOAK_WORKERS; i++)
                end_worker(i, 0);
}

/* ---- what must be true ---- */

static void test_no_worker_met_a_result_that_it_should_not(void)
{
        uint64_t full = 0;

        for (uint32_t i = 0; i < SOAK_WORKERS; i++) {
                if (soak_table->seat[i].complained)
                        TEST_FAIL("%s", soak_table->seat[i].complaint);
                full += soak_table->seat[i].full;
        }
        CHECK_EQ(ended_badly, 0);
        CHECK_EQ(full, 0);
        CHECK(kills > 0 && stops > 0 && engine_kills > 0);
}

static void test_the_steady_state_is_reached(void)
{
        if (never)
                TEST_FAIL("%s", never);
        CHECK(way.stage == STEADY);
        CHECK(line_count >= 8);
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
        static const double slack[JUDGED] = {[BUCKETS] = 0.02,
                [SWEPT] = 1,
                [VERSIONS] = 20,
                [NODES] = 20,
                [LARGE] = 40,
                [EMPTY] = 200,
                [FREE] = 4096,
                [BEHIND] = 200,
                [HISTORY] = 65536,
                [LIMBO] = 64,
                [PENDING] = 64};
        double before, after;

        for (uint32_t i = 0; i < JUDGED; i++)
                if (!is_flat(i, slack[i], &before, &after))
                        TEST_FAIL("%s: %.3f, later %.3f", figure_name[i], before, after);
}

static void test_the_bus_is_sound_and_has_its_keys(void)
{
        struct sb_admin_stat stat;

        CHECK(world_sound(&world, bus));
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        CHECK(stat.keys >= SOAK_KEYS && stat.keys <= SOAK_KEYS + SOAK_WORKERS * SOAK_RULED + 64);
}

static bool fill(void)
{
        uint64_t state = seed;
        char text[48];

        for (uint32_t key = 0; key < SOAK_KEYS; key++)
                if (sb_set(bus, soak_key(key, 0, text), soak_value(storm_random(&state)), NULL,
                            NULL))
                        return false;
        return true;
}

int main(int argc, char **argv)
{
        uint64_t step_s = soak_number("SB_STEP", STEP),
                 seconds = soak_number("SB_SECONDS", SECONDS);
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 4};
        const char *why;

        test_begin(argc, argv);
        seed = soak_number("SB_SEED", 1);
        why = world_open(&world, SIZE, 16);
        soak_table = mmap(NULL, sizeof(*soak_table), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        bus = why ? NULL : world_bus(&world);
        if (!bus || soak_table == MAP_FAILED || sb_keep(bus, b("rule/"), SB_PREFIX, &rule) ||
                !fill()) {
                printf("FAIL begin: %s\n", why ? why : "no bus, or it cannot be filled");
                return 1;
        }
        for (uint32_t i = 0; i < SOAK_WORKERS; i++)
                soak_table->seat[i].under_way = SOAK_NO_KEY;
        churn(seconds, step_s);
        RUN(test_no_worker_met_a_result_that_it_should_not);
        RUN(test_the_steady_state_is_reached);
        RUN(test_a_line_that_rises_is_seen);
        RUN(test_every_line_is_flat);
        RUN(test_the_bus_is_sound_and_has_its_keys);
        TEST_NOTE("soak: %" PRIu64 " workers killed, %" PRIu64 " stops, %" PRIu64
                  " engines killed, %" PRIu64 " turnovers (SB_SEED=%" PRIu64 ")",
                kills, stops, engine_kills, sum_done(SOAK_TURNOVER), seed);
        bus = sb_close(bus);
        if (!world_close(&world)) {
                printf("FAIL world_close: the bus did not end soundly\n");
                return 1;
        }
        return test_end();
}
