/*
 * YCSB's workloads (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010), beside
 * stores that other projects make:
 *
 *      A  half reads, half updates     B  95 % reads, 5 % updates      C  reads
 *      D  95 % reads of what was inserted last, 5 % inserts
 *      E  95 % short scans of 1 to 100 keys, 5 % inserts
 *      F  half reads, half read, change and write back
 *
 * Keys of 23 bytes, values of 1,000; which key, Zipf says (0.99), D and E as above. Each contender
 * has one table and several workers, processes where it permits that; nothing waits for the disk,
 * and what was written is there a moment later, as its users have it.
 *
 * Always true: contenders alternate within each round; numbers of keys, lengths and choices are
 * made before the clock starts, and are the same for all of them.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/disk.h"
#include "shm/base/word.h"

#define KEY_LEN     23u
#define VALUE_LEN   1000u
#define CHOICES     (1u << 20) /* before they repeat; a power of two */
#define ROUNDS_MAX  5u
#define WORKERS_MAX 16u
#define SCAN_MAX    100u
#define THETA       0.99

struct workload {
        char name;
        uint32_t writes; /* of 100 */
        bool inserts;    /* writes are of new keys */
        bool latest;     /* reads are of the newest keys */
        bool scans;      /* reads are scans */
        bool rewrites;   /* a write reads first */
};
static const struct workload workloads[] = {
        {'A', 50, false, false, false, false},
        {'B', 5, false, false, false, false},
        {'C', 0, false, false, false, false},
        {'F', 50, false, false, false, true},
        {'D', 5, true, true, false, false},
        {'E', 5, true, false, true, false},
};
#define WORKLOADS (sizeof(workloads) / sizeof(*workloads))

/* What is done next: of 100, which decides between reading and writing; which rank of key. */
struct choice {
        uint32_t rank;
        uint8_t percent, scan_len;
};

/* What a contender's workers share. */
struct shared {
        struct sb_word32 ready, go;
        uint64_t done[WORKERS_MAX];
        uint64_t inserted[WORKERS_MAX]; /* so far, by each worker; of all slices */
};

struct contender {
        const char *name;
        const struct disk_peer *const *peer;
        void *store, *access; /* the access of one that has a single process */
        struct shared *shared;
        double load_rate; /* the keys that are there at first, a second, by one process */
        double rates[WORKLOADS][ROUNDS_MAX];
};
static struct contender contenders[] = {
        {.name = "statebus", .peer = &disk_statebus},
        {.name = "LMDB", .peer = &disk_lmdb},
        {.name = "RocksDB", .peer = &disk_rocksdb},
        {.name = "SQLite", .peer = &disk_sqlite},
        {.name = "Redis", .peer = &disk_redis},
};
#define CONTENDERS (sizeof(contenders) / sizeof(*contenders))

static struct disk_way way = {.waits = false, .pipeline = 1};
static struct choice *choices;
static uint64_t slice_ns = 500000000;
static uint32_t records = 200000, rounds = ROUNDS_MAX, workers = 2;
static char directory[256];
static const char *only = "ABCDEF";

static void fail(const char *name, const char *what)
{
        fprintf(stderr, "bench-ycsb: %s: %s failed\n", name, what);
        exit(1);
}

/* ---- keys and choices ---- */

static uint64_t next_random(uint64_t *state)
{
        /* Xorshift (Marsaglia, 2003). */
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

/* The text of key @number: "user", and sixteen letters for its hash, so that keys that are inserted
 * one after the other lie anywhere in the order. */
static void write_key(uint64_t number, char key[KEY_LEN])
{
        uint64_t halves[2];

        /* MurmurHash3's last step (Appleby). */
        number ^= number >> 33;
        number *= UINT64_C(0xff51afd7ed558ccd);
        number ^= number >> 33;
        number *= UINT64_C(0xc4ceb9fe1a85ec53);
        number ^= number >> 33;
        for (uint32_t i = 0; i < 2; i++) {
                uint64_t letters = (uint32_t)(number >> 32 * i);

                letters = (letters | letters << 16) & UINT64_C(0x0000ffff0000ffff);
                letters = (letters | letters << 8) & UINT64_C(0x00ff00ff00ff00ff);
                letters = (letters | letters << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
                halves[i] = letters + UINT64_C(0x6161616161616161);
        }
        memcpy(key, "user", 4);
        memcpy(key + 4, halves, 16);
        memcpy(key + 20, "key", 3);
}

/* Ranks as YCSB draws them (Gray et al., Quickly Generating Billion-Record Synthetic Databases,
 * 1994). */
static void make_choices(void)
{
        uint64_t state = BENCH_SEED;
        double zeta = 0, zeta2 = 1 + pow(2, -THETA), eta;

        choices = malloc(CHOICES * sizeof(*choices));
        if (!choices)
                fail("choices", "memory");
        for (uint32_t i = 1; i <= records; i++)
                zeta += pow(i, -THETA);
        eta = (1 - pow(2.0 / records, 1 - THETA)) / (1 - zeta2 / zeta);
        for (uint32_t i = 0; i < CHOICES; i++) {
                double at = (double)(next_random(&state) >> 11) * 0x1p-53;
                double rank = at * zeta < 1 ? 0
                              : at * zeta < zeta2
                                      ? 1
                                      : records * pow(eta * at - eta + 1, 1 / (1 - THETA));

                choices[i].rank = rank < records ? (uint32_t)rank : records - 1;
                choices[i].percent = (uint8_t)(next_random(&state) % 100);
                choices[i].scan_len = (uint8_t)(1 + next_random(&state) % SCAN_MAX);
        }
}

/* ---- workers ---- */

struct worker {
        struct contender *contender;
        const struct workload *workload;
        void *access;
        uint32_t index;
};

/* The key that is so many ranks from the newest that this worker knows, which is its own. */
static uint64_t newest_but(const struct worker *worker, uint32_t rank)
{
        uint64_t own = worker->contender->shared->inserted[worker->index];

        return rank < own ? records + (own - 1 - rank) * workers + worker->index
                          : records - 1 - (rank - own) % records;
}

static void write_one(struct worker *worker, const struct choice *choice, void *value)
{
        const struct disk_peer *peer = *worker->contender->peer;
        uint64_t *inserted = &worker->contender->shared->inserted[worker->index], number;
        char key[KEY_LEN];

        number = worker->workload->inserts ? records + *inserted * workers + worker->index
                                           : choice->rank;
        write_key(number, key);
        if (worker->workload->rewrites && peer->get(worker->access, key, KEY_LEN) != VALUE_LEN)
                fail(worker->contender->name, "a read before a write");
        memcpy(value, &number, sizeof(number));
        if (peer->set(worker->access, key, KEY_LEN, value, VALUE_LEN) != 1)
                fail(worker->contender->name, "a write");
        *inserted += worker->workload->inserts;
}

static void read_one(struct worker *worker, const struct choice *choice)
{
        const struct disk_peer *peer = *worker->contender->peer;
        char key[KEY_LEN];

        write_key(worker->workload->latest ? newest_but(worker, choice->rank) : choice->rank, key);
        if (!worker->workload->scans) {
                if (peer->get(worker->access, key, KEY_LEN) != VALUE_LEN)
                        fail(worker->contender->name, "a read");
        } else if (peer->scan(worker->access, key, KEY_LEN, choice->scan_len) < 1) {
                fail(worker->contender->name, "a scan");
        }
}

/* Waits until all workers have their access, and works for a slice. */
static void work(struct worker *worker)
{
        struct shared *shared = worker->contender->shared;
        uint32_t at = CHOICES / WORKERS_MAX * worker->index;
        unsigned char value[VALUE_LEN] = {0};
        uint64_t begun_ns, done = 0;

        sb_add_full(&shared->ready, 1);
        while (!sb_load_acquire(&shared->go))
                sched_yield();
        begun_ns = bench_now_ns();
        while (done % 16 || bench_now_ns() - begun_ns < slice_ns) {
                const struct choice *choice = &choices[at++ % CHOICES];

                if (choice->percent < worker->workload->writes)
                        write_one(worker, choice, value);
                else
                        read_one(worker, choice);
                done++;
        }
        shared->done[worker->index] = done;
}

static void *work_in_thread(void *worker)
{
        work(worker);
        return NULL;
}

static void start_worker(struct worker *worker, pthread_t *ret_thread)
{
        const struct disk_peer *peer = *worker->contender->peer;
        pid_t parent = getpid();

        if (peer->one_process) {
                worker->access = worker->contender->access;
                if (pthread_create(ret_thread, NULL, work_in_thread, worker))
                        fail(worker->contender->name, "a thread");
                return;
        }
        fflush(stdout);
        if (fork())
                return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        worker->access = peer->open(worker->contender->store, &way);
        if (!worker->access)
                fail(worker->contender->name, "an access");
        work(worker);
        peer->close(worker->access);
        _exit(0);
}

/* Return: operations a second, of all workers. */
static double run_slice(struct contender *contender, const struct workload *workload)
{
        struct shared *shared = contender->shared;
        struct worker crew[WORKERS_MAX];
        pthread_t threads[WORKERS_MAX];
        uint64_t sum = 0;
        int status = 0;

        sb_store_release(&shared->ready, 0);
        sb_store_release(&shared->go, 0);
        for (uint32_t i = 0; i < workers; i++) {
                crew[i] = (struct worker){contender, workload, NULL, i};
                start_worker(&crew[i], &threads[i]);
        }
        while (sb_load_acquire(&shared->ready) < workers)
                if (waitpid(-1, &status, WNOHANG) > 0)
                        fail(contender->name, "a worker");
                else
                        usleep(1000);
        sb_store_release(&shared->go, 1);
        for (uint32_t i = 0; i < workers; i++) {
                if ((*contender->peer)->one_process)
                        pthread_join(threads[i], NULL);
                else if (wait(&status) < 0 || status)
                        fail(contender->name, "a worker");
                sum += shared->done[i];
        }
        return (double)sum * 1e9 / (double)slice_ns;
}

/* ---- stores ---- */

static void load(struct contender *contender)
{
        const struct disk_peer *peer = *contender->peer;
        unsigned char value[VALUE_LEN] = {0};
        uint64_t begun_ns;
        char key[KEY_LEN];

        contender->shared = mmap(NULL, sizeof(*contender->shared), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        contender->store = peer->begin(directory, &way);
        contender->access = contender->store ? peer->open(contender->store, &way) : NULL;
        if (contender->shared == MAP_FAILED || !contender->access)
                fail(contender->name, "its start");
        begun_ns = bench_now_ns();
        for (uint64_t number = 0; number < records; number++) {
                write_key(number, key);
                memcpy(value, &number, sizeof(number));
                if (peer->set(contender->access, key, KEY_LEN, value, VALUE_LEN) != 1)
                        fail(contender->name, "loading");
        }
        contender->load_rate = records * 1e9 / (double)(bench_now_ns() - begun_ns);
        if (!peer->one_process)
                peer->close(contender->access);
}

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

static bool has(const struct contender *contender, const struct workload *workload)
{
        return *contender->peer && strchr(only, workload->name) &&
               (!workload->scans || (*contender->peer)->scan);
}

static void print_rate(double rate, double scale, int digits)
{
        if (rate > 0 && scale > 0)
                printf(" %9.*f", digits, rate / scale);
        else
                printf(" %9s", "-");
}

static void print_table(void)
{
        double best[WORKLOADS + 1] = {0};

        printf("thousand operations a second, %u workers, %u keys of 23 bytes, values of 1,000\n",
                workers, records);
        printf("%-20s %9s", "", "load");
        for (size_t w = 0; w < WORKLOADS; w++)
                printf(" %9c", workloads[w].name);
        for (size_t c = 0; c < CONTENDERS; c++) {
                if (!*contenders[c].peer)
                        continue;
                printf("\n%-20s", contenders[c].name);
                print_rate(contenders[c].load_rate, 1e3, 0);
                for (size_t w = 0; w < WORKLOADS; w++)
                        print_rate(median(contenders[c].rates[w]), 1e3, 0);
                for (size_t w = 0; c && w <= WORKLOADS; w++) {
                        double rate = w < WORKLOADS ? median(contenders[c].rates[w])
                                                    : contenders[c].load_rate;

                        best[w] = rate > best[w] ? rate : best[w];
                }
        }
        printf("\n%-20s", "against the best");
        print_rate(contenders[0].load_rate, best[WORKLOADS], 2);
        for (size_t w = 0; w < WORKLOADS; w++)
                print_rate(median(contenders[0].rates[w]), best[w], 2);
        putchar('\n');
}

static void leave(void)
{
        char command[400];

        snprintf(command, sizeof(command), "rm -r '%s'", directory);
        (void)!system(command);
}

/* Return: whether to go on. */
static bool take_options(int argc, char **argv, int *ret)
{
        static const struct option options[] = {{"agentd", required_argument, NULL, 'a'},
                {"directory", required_argument, NULL, 'd'}, {"quick", no_argument, NULL, 'q'},
                {"processes", required_argument, NULL, 'p'}, {"only", required_argument, NULL, 'o'},
                {"help", no_argument, NULL, 'h'}, {0}};
        const char *parent = "/dev/shm";
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                unsigned long number = optarg ? strtoul(optarg, NULL, 10) : 0;

                if (option == 'a') {
                        setenv("STATEBUS_AGENTD", optarg, 1);
                } else if (option == 'd') {
                        parent = optarg;
                } else if (option == 'o') {
                        only = optarg;
                } else if (option == 'q') {
                        way.small = true;
                        records = 2000;
                        rounds = 1;
                        slice_ns = 20000000;
                } else if (option == 'p' && number - 1 < WORKERS_MAX) {
                        workers = (uint32_t)number;
                } else {
                        fputs("usage: bench-ycsb [--agentd PATH] [--directory DIR, /dev/shm unless "
                              "given] [--processes 1 .. 16, 2 unless given] "
                              "[--only LETTERS] [--quick]\n",
                                option == 'h' ? stdout : stderr);
                        *ret = option == 'h' ? 0 : 2;
                        return false;
                }
        }
        snprintf(directory, sizeof(directory), "%s/sb-ycsb-XXXXXX", parent);
        if (!mkdtemp(directory)) {
                perror(directory);
                *ret = 1;
                return false;
        }
        return true;
}

int main(int argc, char **argv)
{
        int r = 0;

        if (!take_options(argc, argv, &r))
                return r;
        make_choices();
        for (size_t c = 0; c < CONTENDERS; c++)
                if (*contenders[c].peer)
                        load(&contenders[c]);
        for (uint32_t round = 0; round < rounds; round++)
                for (size_t w = 0; w < WORKLOADS; w++)
                        for (size_t c = 0; c < CONTENDERS; c++)
                                if (has(&contenders[c], &workloads[w]))
                                        contenders[c].rates[w][round] =
                                                run_slice(&contenders[c], &workloads[w]);
        print_table();
        for (size_t c = 0; c < CONTENDERS; c++) {
                if (!*contenders[c].peer)
                        continue;
                if ((*contenders[c].peer)->one_process)
                        (*contenders[c].peer)->close(contenders[c].access);
                (*contenders[c].peer)->end(contenders[c].store);
        }
        leave();
        return 0;
}
