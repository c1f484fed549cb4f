/*
 * What durability costs: writes that wait for the disk, against one write and one fdatasync of a
 * file that was written before; writes that do not wait, against those of a bus without a log; what
 * the log's copies of the bus do to those that wait; how fast a bus comes back; and how many bytes
 * the disk gets for each byte of a user. Beside the writes stand other projects' stores, where they
 * are built in (disk.h).
 *
 * The file system is that of --directory. Slices of the contenders take turns, and of all slices of
 * one the median counts. Processes that write at once are processes, each with a bus of its own.
 *
 * Always true: what is not durable is not counted. What fails ends the program; its processes and
 * its buses go with it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/disk.h"
#include "bench/latency.h"
#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "ring/attach/place.h"

#define ROUNDS_MAX  5u
#define AT_ONCE     16u
#define FILE_SIZE   (16u << 20)
#define BLOCK       4096u
#define VALUE_LEN   100u
#define KEYS        10000u
#define COPIED_KEYS 200000u
#define RANDOM_KEYS 300000u
#define RANDOM_LEN  64u /* bytes of their values */

/* What processes share. */
struct shared {
        uint64_t counts[AT_ONCE];
        struct latency latency[AT_ONCE];
};

static char directory[256], bus_directory[300];
static const char *parent = "/tmp";
static struct shared *shared;
static struct sb_bus *bus;
static unsigned char value[BLOCK], large[1u << 20];
static uint64_t slice_ns = 500000000, recovered_keys = 1000000;
static uint32_t rounds = ROUNDS_MAX;
static bool recovery_alone;

static void fail(const char *what, int r)
{
        fprintf(stderr, "bench-log: %s: %s\n", what, sb_strerror(r));
        exit(1);
}

/* ---- buses ---- */

static struct sb_bus *open_bus(uint64_t spin_ns)
{
        struct sb_options options = {.size = sizeof(options),
                .bus = bus_directory,
                .access = SB_PEER,
                .spin_ns = spin_ns};
        struct sb_bus *opened;
        int r = sb_open(&options, &opened);

        if (r)
                fail("sb_open", r);
        return opened;
}

static void flush(void)
{
        int r = sb_flush(bus, SB_FOREVER);

        if (r)
                fail("sb_flush", r);
}

static void start_bus(const char *size, const char *durability, const char *checkpoint)
{
        const char *options[] = {"--size", size, "--clients", "64", "--durability", durability,
                "--checkpoint-bytes", checkpoint, NULL};
        int r;

        snprintf(bus_directory, sizeof(bus_directory), "%s/bus", directory);
        r = sb_admin_start(bus_directory, options, NULL);
        if (r)
                fail("agentd", r);
        bus = open_bus(0);
        if (strcmp(durability, "volatile") != 0)
                flush(); /* the first batch, and its file */
}

/* Until all of agentd's processes are gone, and their memory: then the directory's lock is free. */
static void wait_for_end(void)
{
        char path[320];
        int fd;

        snprintf(path, sizeof(path), "%s/" SB_PLACE_LOCK, bus_directory);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) < 0)
                fail("the lock", -errno);
        close(fd);
}

/* @signal: SIGTERM; SIGKILL: all of agentd's processes at once. */
static void end_bus(int signal)
{
        pid_t pid;

        bus = sb_close(bus);
        if (sb_admin_supervisor(bus_directory, &pid) == 0)
                kill(signal == SIGKILL ? -pid : pid, signal);
        while (sb_admin_supervisor(bus_directory, &pid) == 0)
                usleep(1000);
        wait_for_end();
}

static void remove_bus(void)
{
        char command[400];

        snprintf(command, sizeof(command), "rm -r '%s'", bus_directory);
        if (system(command))
                fputs("bench-log: the directory of a bus is left behind\n", stderr);
}

static void set_value(
        struct sb_bus *to, uint64_t number, unsigned char *bytes, size_t len, bool strict)
{
        struct sb_write how = {.size = sizeof(how), .durability = strict ? SB_STRICT : SB_DEFAULT};
        char key[24];
        int r, key_len = snprintf(key, sizeof(key), "log/%012" PRIu64, number);

        memcpy(bytes, &number, sizeof(number));
        r = sb_set(to, (struct sb_bytes){key, (size_t)key_len}, (struct sb_bytes){bytes, len},
                strict ? &how : NULL, NULL);
        if (r)
                fail("sb_set", r);
}

static void set(struct sb_bus *to, uint64_t number, size_t len, bool strict)
{
        set_value(to, number, value, len, strict);
}

/* ---- slices: operations a second ---- */

struct row {
        const char *name;
        double (*slice)(const struct row *row);
        const struct disk_peer *const *peer; /* with its way, or NULL */
        struct disk_way way;
        void *store, *access;
        uint64_t spin_ns; /* how long a strict write looks before it sleeps */
        double rates[ROUNDS_MAX];
        struct latency latency;
};

static double slice_rate(uint32_t processes, uint64_t begun_ns)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < processes; i++)
                sum += shared->counts[i];
        return (double)sum * 1e9 / (double)(bench_now_ns() - begun_ns);
}

static double slice_file(const struct row *row)
{
        static int fd = -1;
        uint64_t begun_ns = bench_now_ns(), count = 0;
        char path[300];

        (void)row;
        if (fd < 0) {
                snprintf(path, sizeof(path), "%s/file", directory);
                fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
                for (uint64_t at = 0; at < FILE_SIZE; at += BLOCK)
                        if (pwrite(fd, value, BLOCK, (off_t)at) != BLOCK)
                                fail("the file", -errno);
                if (fsync(fd))
                        fail("the file", -errno);
                begun_ns = bench_now_ns();
        }
        memset(shared, 0, sizeof(*shared));
        while (bench_now_ns() - begun_ns < slice_ns) {
                uint64_t since = latency_ticks();

                if (pwrite(fd, value, BLOCK, (off_t)(count % (FILE_SIZE / BLOCK) * BLOCK)) !=
                                BLOCK ||
                        fdatasync(fd))
                        fail("the file", -errno);
                latency_add(
                        &shared->latency[0], (double)(latency_ticks() - since) * latency_tick_ns());
                shared->counts[0] = ++count;
        }
        return slice_rate(1, begun_ns);
}

/* The same keys and values into another project's store. */
static void write_elsewhere(const struct row *row, void *access, uint32_t me, uint64_t begun_ns)
{
        for (uint64_t i = 0; bench_now_ns() - begun_ns < slice_ns; i++) {
                uint64_t since = latency_ticks(), number = i % KEYS * AT_ONCE + me;
                char key[24];
                int key_len = snprintf(key, sizeof(key), "log/%012" PRIu64, number);
                int64_t answered;

                memcpy(value, &number, sizeof(number));
                answered = (*row->peer)->set(access, key, (size_t)key_len, value, VALUE_LEN);
                if (answered < 0)
                        fail(row->name, -EIO);
                if (row->way.pipeline == 1)
                        latency_add(&shared->latency[me],
                                (double)(latency_ticks() - since) * latency_tick_ns());
                shared->counts[me] += (uint64_t)answered;
        }
}

static double slice_elsewhere(const struct row *row)
{
        uint64_t begun_ns = bench_now_ns();

        memset(shared, 0, sizeof(*shared));
        write_elsewhere(row, row->access, 0, begun_ns);
        return slice_rate(1, begun_ns);
}

static void write_strictly(struct sb_bus *to, uint32_t me, uint64_t begun_ns)
{
        for (uint64_t i = 0; bench_now_ns() - begun_ns < slice_ns; i++) {
                uint64_t since = latency_ticks();

                set(to, i % KEYS * AT_ONCE + me, VALUE_LEN, true);
                latency_add(&shared->latency[me],
                        (double)(latency_ticks() - since) * latency_tick_ns());
                shared->counts[me]++;
        }
}

static double slice_strict(const struct row *row)
{
        struct sb_bus *to = row->spin_ns ? open_bus(row->spin_ns) : bus;
        uint64_t begun_ns = bench_now_ns();

        memset(shared, 0, sizeof(*shared));
        write_strictly(to, 0, begun_ns);
        if (to != bus)
                sb_close(to);
        return slice_rate(1, begun_ns);
}

/* Processes that write for a slice: into the bus, or into the row's store. */
static double slice_at_once(const struct row *row)
{
        uint64_t begun_ns = bench_now_ns();
        int status;

        memset(shared, 0, sizeof(*shared));
        fflush(stdout);
        for (uint32_t i = 0; i < AT_ONCE; i++) {
                if (fork())
                        continue;
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (!row->peer)
                        write_strictly(open_bus(0), i, begun_ns);
                else
                        write_elsewhere(
                                row, (*row->peer)->open(row->store, &row->way), i, begun_ns);
                _exit(0);
        }
        for (uint32_t i = 0; i < AT_ONCE; i++)
                if (wait(&status) < 0 || status)
                        fail("a writer", -ECHILD);
        return slice_rate(AT_ONCE, begun_ns);
}

/* Sets that do not wait; of a row with a pipeline, a flush behind as many as that has. */
static double slice_plain(const struct row *row)
{
        uint32_t count = row->way.pipeline ? row->way.pipeline : 100;
        uint64_t begun_ns = bench_now_ns();

        memset(shared, 0, sizeof(*shared));
        while (bench_now_ns() - begun_ns < slice_ns) {
                for (uint32_t i = 0; i < count; i++)
                        set(bus, shared->counts[0]++ % KEYS, VALUE_LEN, false);
                if (row->way.pipeline && sb_flush(bus, UINT64_MAX))
                        fail(row->name, SB_E_NOT_DURABLE);
        }
        return slice_rate(1, begun_ns);
}

/* A key out of many. Its digits are written by hand: snprintf() would take longer than the set. */
static void set_random(uint64_t number)
{
        char key[] = "random/000000000";
        int r;

        for (char *digit = key + sizeof(key) - 2; number; number /= 10)
                *digit-- = (char)('0' + number % 10);
        r = sb_set(bus, (struct sb_bytes){key, sizeof(key) - 1},
                (struct sb_bytes){value, RANDOM_LEN}, NULL, NULL);
        if (r)
                fail("sb_set", r);
}

static double slice_random(const struct row *row)
{
        static uint64_t state = 88172645463325252;
        uint64_t begun_ns = bench_now_ns();

        (void)row;
        memset(shared, 0, sizeof(*shared));
        while (bench_now_ns() - begun_ns < slice_ns)
                for (uint32_t i = 0; i < 256; i++) {
                        /* Xorshift (Marsaglia, 2003). */
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        set_random(state % RANDOM_KEYS);
                        shared->counts[0]++;
                }
        return slice_rate(1, begun_ns);
}

/* ---- tables ---- */

static int compare(const void *a, const void *b)
{
        double one = *(const double *)a, other = *(const double *)b;

        return (one > other) - (one < other);
}

static double median(double *rates)
{
        qsort(rates, rounds, sizeof(*rates), compare);
        return rates[rounds / 2];
}

/* Open the stores of other projects. Rows of what is not built in are dropped. Return: the rows. */
static uint32_t open_rows(struct row *rows, uint32_t count)
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < count; i++) {
                const struct disk_peer *peer = rows[i].peer ? *rows[i].peer : NULL;

                if (rows[i].peer && !peer)
                        continue;
                rows[kept] = rows[i];
                if (peer) {
                        rows[kept].store = peer->begin(directory, &rows[i].way);
                        if (!rows[kept].store)
                                fail(rows[i].name, -ENOENT);
                        if (rows[i].slice == slice_elsewhere)
                                rows[kept].access = peer->open(rows[kept].store, &rows[i].way);
                        if (rows[i].slice == slice_elsewhere && !rows[kept].access)
                                fail(rows[i].name, -ENOENT);
                }
                kept++;
        }
        return kept;
}

static void close_rows(struct row *rows, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                if (rows[i].access)
                        (*rows[i].peer)->close(rows[i].access);
                if (rows[i].store)
                        (*rows[i].peer)->end(rows[i].store);
        }
}

static void run_rows(struct row *rows, uint32_t count, uint32_t round)
{
        for (uint32_t i = 0; i < count; i++) {
                rows[i].rates[round] = rows[i].slice(&rows[i]);
                for (uint32_t k = 0; k < AT_ONCE; k++)
                        latency_merge(&rows[i].latency, &shared->latency[k]);
        }
}

static void print_rows(struct row *rows, uint32_t count)
{
        double first = median(rows[0].rates);

        printf("%-44s %12s %8s %10s %10s\n", "", "a second", "ratio", "p50 us", "p99 us");
        for (uint32_t i = 0; i < count; i++) {
                printf("%-44s %12.0f %8.2f", rows[i].name, median(rows[i].rates),
                        median(rows[i].rates) / first);
                if (rows[i].latency.count)
                        printf(" %10.0f %10.0f", latency_at(&rows[i].latency, 0.5) / 1e3,
                                latency_at(&rows[i].latency, 0.99) / 1e3);
                putchar('\n');
        }
        putchar('\n');
        fflush(stdout);
}

static void bench_strict(void)
{
        struct row rows[] = {
                {.name = "write and fdatasync of a written file", .slice = slice_file},
                {.name = "strict, one process", .slice = slice_strict},
                {.name = "the same, both sides spin", .slice = slice_strict, .spin_ns = 2000000},
                {.name = "strict, 16 processes at once", .slice = slice_at_once},
                {.name = "SQLite, WAL, synchronous FULL",
                        .slice = slice_elsewhere,
                        .peer = &disk_sqlite,
                        .way = {true, 1}},
                {.name = "RocksDB, sync",
                        .slice = slice_elsewhere,
                        .peer = &disk_rocksdb,
                        .way = {true, 1}},
                {.name = "LMDB", .slice = slice_elsewhere, .peer = &disk_lmdb, .way = {true, 1}},
                {.name = "Redis, always, one process",
                        .slice = slice_elsewhere,
                        .peer = &disk_redis,
                        .way = {true, 1}},
        };
        uint32_t count = open_rows(rows, sizeof(rows) / sizeof(*rows));

        start_bus("256M", "batched", "1G");
        for (uint32_t round = 0; round < rounds; round++)
                run_rows(rows, count, round);
        end_bus(SIGTERM);
        remove_bus();
        close_rows(rows, count);
        print_rows(rows, count);
}

static void bench_at_once(void)
{
        struct row rows[] = {
                {.name = "strict, 16 processes at once", .slice = slice_at_once},
                {.name = "one process, 16 sets and a flush",
                        .slice = slice_plain,
                        .way = {true, AT_ONCE}},
                {.name = "Redis, always, 16 processes",
                        .slice = slice_at_once,
                        .peer = &disk_redis,
                        .way = {true, 1}},
        };
        struct row pipelined[] = {
                {.name = "one process, 16 sets and a flush",
                        .slice = slice_plain,
                        .way = {true, AT_ONCE}},
                {.name = "strict, 16 processes at once", .slice = slice_at_once},
                {.name = "Redis, always, one process, 16 in a pipeline",
                        .slice = slice_elsewhere,
                        .peer = &disk_redis,
                        .way = {true, AT_ONCE}},
        };
        struct row *tables[] = {rows, pipelined};

        for (uint32_t i = 0; i < 2; i++) {
                uint32_t count = open_rows(tables[i], 3);

                start_bus("256M", "batched", "1G");
                for (uint32_t round = 0; round < rounds; round++)
                        run_rows(tables[i], count, round);
                end_bus(SIGTERM);
                remove_bus();
                close_rows(tables[i], count);
                print_rows(tables[i], count);
        }
}

/* The same bus of 200,000 keys, with a log that never copies it, and with one that always does. */
static void bench_copies(void)
{
        struct row rows[] = {{.name = "strict, one process", .slice = slice_strict},
                {.name = "the same, beside copies of 100 MB", .slice = slice_strict}};

        for (uint32_t copies = 0; copies < 2; copies++) {
                start_bus("512M", "batched", copies ? "1M" : "1G");
                for (uint64_t i = 0; i < COPIED_KEYS; i++)
                        set(bus, 1000000 + i, 500, false);
                flush();
                for (uint32_t round = 0; round < rounds; round++)
                        run_rows(&rows[copies], 1, round);
                end_bus(SIGTERM);
                remove_bus();
        }
        print_rows(rows, 2);
}

/* A bus of each mode, made anew for each slice, and stores of other projects besides. */
static void bench_batched(void)
{
        static const char *const modes[] = {"volatile", "batched"};
        struct row rows[] = {
                {.name = "set, volatile", .slice = slice_plain},
                {.name = "set, batched every 100 ms", .slice = slice_plain},
                {.name = "Redis, everysec",
                        .slice = slice_elsewhere,
                        .peer = &disk_redis,
                        .way = {false, 1}},
                {.name = "LMDB, synced every 100 ms",
                        .slice = slice_elsewhere,
                        .peer = &disk_lmdb,
                        .way = {false, 1}},
                {.name = "RocksDB, not synced",
                        .slice = slice_elsewhere,
                        .peer = &disk_rocksdb,
                        .way = {false, 1}},
                {.name = "SQLite, WAL, synchronous NORMAL",
                        .slice = slice_elsewhere,
                        .peer = &disk_sqlite,
                        .way = {false, 1}},
        };
        uint32_t count = open_rows(rows, sizeof(rows) / sizeof(*rows));

        for (uint32_t round = 0; round < rounds; round++) {
                for (uint32_t i = 0; i < 2; i++) {
                        start_bus("256M", modes[i], "100M");
                        (void)slice_plain(&rows[i]); /* all keys are there */
                        run_rows(&rows[i], 1, round);
                        end_bus(SIGTERM);
                        remove_bus();
                }
                run_rows(rows + 2, count - 2, round);
        }
        close_rows(rows, count);
        print_rows(rows, count);
}

/* The same for keys at random. */
static void bench_random(void)
{
        static const char *const modes[] = {"volatile", "batched"};
        struct row rows[] = {
                {.name = "set of 300,000 keys at random, volatile", .slice = slice_random},
                {.name = "the same, batched every 100 ms", .slice = slice_random},
        };

        for (uint32_t round = 0; round < rounds; round++)
                for (uint32_t i = 0; i < 2; i++) {
                        start_bus("512M", modes[i], "1G");
                        for (uint64_t number = 0; number < RANDOM_KEYS; number++)
                                set_random(number);
                        (void)slice_random(&rows[i]); /* the versions are in no order any more */
                        run_rows(&rows[i], 1, round);
                        end_bus(SIGTERM);
                        remove_bus();
                }
        print_rows(rows, 2);
}

/* ---- coming back ---- */

static uint64_t log_bytes(void)
{
        DIR *stream = opendir(bus_directory);
        struct dirent *entry;
        struct stat status;
        uint64_t bytes = 0;

        while (stream && (entry = readdir(stream)))
                if (!strncmp(entry->d_name, "wal-0", 5) &&
                        !fstatat(dirfd(stream), entry->d_name, &status, 0))
                        bytes += (uint64_t)status.st_size;
        if (stream)
                closedir(stream);
        return bytes;
}

static void fill_keys(void)
{
        for (uint64_t i = 0; i < recovered_keys; i++)
                set(bus, i, VALUE_LEN, false);
}

/* Few keys, again and again: each is in many batches. */
static void fill_few(void)
{
        for (uint64_t i = 0; log_bytes() < recovered_keys * 100;)
                for (uint64_t end = i + KEYS; i < end; i++)
                        set(bus, i % KEYS, VALUE_LEN, false);
}

static void fill_large(void)
{
        for (uint64_t i = 0; i * sizeof(large) < recovered_keys * 100; i++)
                set_value(bus, i, large, sizeof(large), false);
}

/* How long a bus that was killed takes until it serves again: the best and the median. */
static void bench_recovery_of(const char *name, const char *size, void (*fill)(void))
{
        double seconds[ROUNDS_MAX], middle, bytes;

        start_bus(size, "batched", "8G");
        if (fill)
                fill();
        flush();
        bytes = (double)log_bytes();
        for (uint32_t round = 0; round < rounds; round++) {
                uint64_t begun_ns;

                end_bus(SIGKILL);
                begun_ns = bench_now_ns();
                start_bus(size, "batched", "8G");
                seconds[round] = (double)(bench_now_ns() - begun_ns) / 1e9;
        }
        middle = median(seconds);
        printf("%-44s %12.0f %8.2f %10.2f\n", name, bytes / 1e6, seconds[0], middle);
        fflush(stdout);
        end_bus(SIGTERM);
        remove_bus();
}

static void bench_recovery(void)
{
        printf("%-44s %12s %8s %10s\n", "killed, started again", "MB of log", "best s", "median s");
        bench_recovery_of("an empty bus", "1G", NULL);
        bench_recovery_of("1M keys of 16 and 100 bytes", "1G", fill_keys);
        bench_recovery_of("10,000 keys, overwritten", "1G", fill_few);
        bench_recovery_of("the same, a bus of 256M", "256M", fill_few);
        bench_recovery_of("values of 1 MiB", "1G", fill_large);
        recovered_keys *= 10;
        bench_recovery_of("10M keys of 16 and 100 bytes", "4G", fill_keys);
}

static void leave(void)
{
        char command[400];

        snprintf(command, sizeof(command), "rm -r '%s'", directory);
        (void)!system(command);
}

static int take_options(int argc, char **argv)
{
        static const struct option options[] = {{"agentd", required_argument, NULL, 'a'},
                {"directory", required_argument, NULL, 'd'}, {"quick", no_argument, NULL, 'q'},
                {"recovery", no_argument, NULL, 'r'}, {0}};
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
                if (option == 'a') {
                        setenv("STATEBUS_AGENTD", optarg, 1);
                } else if (option == 'd') {
                        parent = optarg;
                } else if (option == 'q') {
                        slice_ns = 50000000;
                        rounds = 1;
                        recovered_keys = 10000;
                } else if (option == 'r') {
                        recovery_alone = true;
                } else {
                        return -1;
                }
        return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
        if (take_options(argc, argv) < 0)
                return fputs("usage: bench-log [--agentd PATH] [--directory DIR] [--quick] "
                             "[--recovery]\n",
                               stderr),
                       2;
        snprintf(directory, sizeof(directory), "%s/sb-log-XXXXXX", parent);
        if (!mkdtemp(directory))
                fail(parent, -errno);
        shared = mmap(
                NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                fail("memory", -errno);
        (void)latency_tick_ns();
        if (!recovery_alone) {
                bench_strict();
                bench_at_once();
                bench_copies();
                bench_batched();
                bench_random();
        }
        bench_recovery();
        leave();
        return 0;
}
