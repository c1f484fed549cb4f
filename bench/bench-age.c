/*
 * What age, fill and neighbours cost: the speed of single operations against the fill of a bus, the
 * times that its keys were turned over, the cuts that are open, the clients that are stopped, and
 * the clients that were ever attached.
 *
 * Each curve has a bus of its own and one process that works. What is "stopped" is a handle of this
 * process that stays pinned, which is what a process leaves that is stopped in the middle of a
 * call. A point is the mean of thousands, in nanoseconds an operation. Read a curve by its
 * ratios: all of its points come from one run.
 *
 * Prints lines `CURVE SERIES X NANOSECONDS`; bench/curves draws them.
 *
 * Always true: nothing is left out of a curve. A set that ends with SB_E_FULL ends the curve, and
 * so does a batch that takes longer than BATCH_NS_MAX: its point is the last one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/memory/pin.h"

#define BATCH        256u
#define BATCHES_MAX  (1u << 16)
#define BATCH_NS_MAX 20e9
#define HOLDERS_MAX  4000u
#define CUTS_A_BUS   30u

static char directory[64];
static struct sb_bus *bus, *holders[HOLDERS_MAX];
static uint32_t holder_count;
static double batch_ns[BATCHES_MAX];
static unsigned char value[65536];
static size_t key_len = 16; /* or 8 */
static bool quick;

static void fail(const char *what, int r)
{
        fprintf(stderr, "bench-age: %s: %s\n", what, sb_strerror(r));
        exit(1);
}

/* ---- the bus of a curve ---- */

static struct sb_bus *open_bus(void)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};
        struct sb_bus *opened;
        int r = sb_open(&options, &opened);

        if (r)
                fail("sb_open", r);
        return opened;
}

static void begin(const char *size, const char *clients)
{
        const char *options[] = {
                "--size", size, "--clients", clients, "--durability", "volatile", NULL};
        int r;

        strcpy(directory, "/tmp/sb-age-XXXXXX");
        if (!mkdtemp(directory))
                fail("mkdtemp", -errno);
        r = sb_admin_start(directory, options, NULL);
        if (r)
                fail("agentd", r);
        bus = open_bus();
}

static void end(void)
{
        char command[96];
        pid_t pid;

        while (holder_count)
                sb_close(holders[--holder_count]);
        bus = sb_close(bus);
        if (sb_admin_supervisor(directory, &pid) == 0)
                kill(pid, SIGTERM);
        while (sb_admin_supervisor(directory, &pid) == 0)
                usleep(10000);
        snprintf(command, sizeof(command), "rm -r '%s'", directory);
        if (system(command))
                fputs("bench-age: the directory of a bus is left behind\n", stderr);
}

/* ---- operations ---- */

static struct sb_bytes key_of(uint64_t number, char ret[32])
{
        uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);

        memcpy(ret, "age/", 4);
        memcpy(ret + 4, &mixed, 8);
        memcpy(ret + 12, &number, 4);
        return key_len == 8 ? (struct sb_bytes){ret + 4, 8} : (struct sb_bytes){ret, 16};
}

static int set(uint64_t number, size_t len)
{
        char key[32];

        return sb_set(bus, key_of(number, key), (struct sb_bytes){value, len}, NULL, NULL);
}

static void set_or_fail(uint64_t number, size_t len)
{
        int r = set(number, len);

        if (r)
                fail("sb_set", r);
}

static void get(uint64_t number)
{
        struct sb_guard guard = {0};
        char key[32];
        int r = sb_get(bus, key_of(number, key), &guard);

        if (r && r != SB_E_NOT_FOUND)
                fail("sb_get", r);
        sb_guard_release(&guard);
}

static void delete (uint64_t number)
{
        char key[32];
        int r = sb_delete(bus, key_of(number, key), SB_ANY_REV, NULL, NULL);

        if (r)
                fail("sb_delete", r);
}

static void point(const char *curve, const char *series, double x, double ns)
{
        printf("%s %s %g %.1f\n", curve, series, x, ns);
        fflush(stdout);
}

/* The mean time of what @statement does with `number`, from @from on, @count times: of all of it,
 * so that work that comes seldom counts. */
#define MEASURE(ret, from, count, statement)                                                       \
        do {                                                                                       \
                uint64_t start_ = bench_now_ns();                                                  \
                for (uint64_t number = (from); number < (from) + (count); number++)                \
                        statement;                                                                 \
                (ret) = (double)(bench_now_ns() - start_) / (double)(count);                       \
        } while (0)

/* ---- fill ---- */

/* Set new keys until the bus is full. The points are means of a percent of all that fitted, so that
 * nothing slow is left out. */
static void fill(const char *series, uint64_t from, double first_percent, size_t len)
{
        uint32_t batches = 0, percent, done = 0;
        int r = 0;

        while (!r && batches < BATCHES_MAX &&
                (!batches || batch_ns[batches - 1] < BATCH_NS_MAX / BATCH)) {
                uint64_t start = bench_now_ns();
                uint32_t i;

                for (i = 0; i < BATCH && !r; i++)
                        r = set(from + (uint64_t)batches * BATCH + i, len);
                batch_ns[batches++] = (double)(bench_now_ns() - start) / BATCH;
        }
        if (r && r != SB_E_FULL)
                fail("sb_set", r);
        for (percent = 1; percent <= 100 && batches > 1; percent++) {
                uint32_t to = (uint32_t)((uint64_t)(batches - 1) * percent / 100), i;
                double sum = 0;

                for (i = done; i < to; i++)
                        sum += batch_ns[i];
                if (to > done)
                        point("fill", series, first_percent + percent * (100 - first_percent) / 100,
                                sum / (to - done));
                done = to;
        }
}

static void curve_fill(void)
{
        uint64_t count = 0, random = BENCH_SEED;

        begin("64M", "16");
        fill("new-keys-of-64-bytes", 0, 0, 64);
        end();
        begin("64M", "16");
        fill("new-keys-of-8-bytes", 0, 0, 8);
        end();
        /* Mixed sizes, until full; then all but every third key go. */
        begin("64M", "16");
        for (int r = 0; !r; count++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
                r = set(count, 8u << (random >> 60 & 7));
        }
        for (uint64_t i = 0; i + 1 < count; i++)
                if (i % 3)
                        delete (i);
        fill("after-mixed-sizes", UINT64_C(1) << 31, 33, 64);
        end();
}

/* ---- turnovers ---- */

static void turn(const char *series, double share)
{
        struct sb_admin_stat stat;
        uint64_t count, first = 0;
        char name[64];
        double ns;
        int r = 0;

        begin("64M", "16");
        sb_admin_stat(bus, &stat);
        count = (uint64_t)((double)stat.buckets * 7 * share);
        for (uint64_t i = 0; i < count && !r; i++)
                r = set(i, 8);
        for (uint32_t turnover = 0; !r && turnover <= (quick ? 3 : 50); turnover++) {
                MEASURE(ns, UINT64_C(1) << 31, 65536, get(number));
                snprintf(name, sizeof(name), "absent-get-%s", series);
                point("turnovers", name, turnover, ns);
                MEASURE(ns, first, count, {
                        delete (number);
                        set_or_fail(number + count, 8);
                });
                snprintf(name, sizeof(name), "set-and-delete-%s", series);
                point("turnovers", name, turnover, ns);
                first += count;
        }
        end();
}

static void curve_turnovers(void)
{
        turn("30", 0.30);
        turn("60", 0.60);
        /* Nine tenths of the memory: no other keys take as many cells. */
        key_len = 8;
        turn("69", 0.69);
        key_len = 16;
}

/* ---- cuts ---- */

static void move_clock(void)
{
        struct sb_txn *txn;

        if (sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0)
                sb_txn_end(txn);
}

static void open_cuts(uint32_t from, uint32_t to)
{
        for (uint32_t i = from; i < to; i++) {
                struct sb_scan *scan; /* ends with its bus */
                int r;

                if (i % CUTS_A_BUS == 0)
                        holders[holder_count++] = open_bus();
                r = sb_scan_open(holders[holder_count - 1], NULL, (struct sb_bytes){0}, &scan);
                if (r)
                        fail("sb_scan_open", r);
                set_or_fail(0, 64);
        }
}

static void curve_cuts(void)
{
        static const uint32_t counts[] = {0, 1, 10, 100, 1000, 10000};
        uint32_t opened = 0;
        double ns;

        begin("256M", "400");
        for (uint64_t i = 0; i < 10240; i++)
                set_or_fail(i, 64);
        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                uint32_t wanted = quick && counts[i] > 100 ? 100 : counts[i];

                open_cuts(opened, wanted);
                opened = wanted;
                MEASURE(ns, 0, 65536, set_or_fail(0 * number, 64));
                point("cuts", "hot-set-clock-still", counts[i], ns);
                MEASURE(ns, 0, 65536, {
                        if (number % 16 == 0)
                                move_clock();
                        set_or_fail(0, 64);
                });
                point("cuts", "hot-set-clock-moving", counts[i], ns);
                MEASURE(ns, 0, 65536, {
                        if (number % 16 == 0)
                                move_clock();
                        set_or_fail(number % 10240, 64);
                });
                point("cuts", "set-clock-moving", counts[i], ns);
                MEASURE(ns, 0, 65536, get(number % 10240));
                point("cuts", "get", counts[i], ns);
        }
        end();
}

/* ---- neighbours ---- */

static void measure_beside(const char *curve, uint32_t count)
{
        double ns;

        MEASURE(ns, 0, 131072, set_or_fail(number % 10240, 64 + (number >> 14 & 1) * 64));
        point(curve, "set", count, ns);
        MEASURE(ns, 0, 65536, {
                set_or_fail(20000 + number, 64);
                delete (20000 + number);
        });
        point(curve, "set-and-delete", count, ns);
        MEASURE(ns, 0, 65536, get(number % 10240));
        point(curve, "get", count, ns);
}

static void curve_stopped(void)
{
        static const uint32_t counts[] = {0, 1, 16, 17, 100, 300, 1000};

        begin("256M", "1100");
        for (uint64_t i = 0; i < 10240; i++)
                set_or_fail(i, 64);
        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                while (holder_count < (quick && counts[i] > 20 ? 20 : counts[i])) {
                        holders[holder_count] = open_bus();
                        sb_pin(&holders[holder_count++]->handle);
                        /* Each one stops in another era. */
                        for (uint64_t k = 0; k < 64; k++)
                                set_or_fail(k, 64);
                }
                measure_beside("stopped", counts[i]);
        }
        for (uint32_t i = 0; i < holder_count; i++)
                sb_unpin(&holders[i]->handle);
        end();
}

static void curve_attached(void)
{
        static const uint32_t counts[] = {0, 100, 1000, 3900};

        begin("256M", "3999");
        for (uint64_t i = 0; i < 10240; i++)
                set_or_fail(i, 64);
        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                while (holder_count < (quick && counts[i] > 20 ? 20 : counts[i]))
                        holders[holder_count++] = open_bus();
                measure_beside("attached", counts[i]);
        }
        while (holder_count)
                sb_close(holders[--holder_count]);
        usleep(100000); /* agentd takes note of those that left */
        measure_beside("attached-then-gone", 3900);
        end();
}

static const struct curve {
        const char *name;
        void (*run)(void);
} curves[] = {
        {"fill", curve_fill},
        {"turnovers", curve_turnovers},
        {"cuts", curve_cuts},
        {"stopped", curve_stopped},
        {"attached", curve_attached},
};

int main(int argc, char **argv)
{
        static const struct option options[] = {{"agentd", required_argument, NULL, 'a'},
                {"only", required_argument, NULL, 'o'}, {"quick", no_argument, NULL, 'q'},
                {NULL, 0, NULL, 0}};
        const char *only = "";
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
                if (option == 'a')
                        setenv("STATEBUS_AGENTD", optarg, 1);
                else if (option == 'o')
                        only = optarg;
                else if (option == 'q')
                        quick = true;
                else
                        return fputs("usage: bench-age [--agentd PATH] [--only CURVE] [--quick]\n",
                                       stderr),
                               2;
        for (uint32_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
                if (strstr(curves[i].name, only))
                        curves[i].run();
        return 0;
}
