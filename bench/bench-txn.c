/*
 * What transactions cost one process: commits compared with as many plain sets, begin and end, gets
 * in a transaction compared with plain gets, and sets while snapshots are held.
 *
 * Every case is run once in each round. The order of the cases moves on by one every round, so that
 * a drift meets all alike; a ratio, or a difference, is one within a round. Transactions write to
 * keys of their own, because their versions have another size. Before each slice of the cases with
 * snapshots every key is written once, so that no slice pays for what the one before left behind. A
 * case does its work in batches of keys that were chosen before the clock starts; a batch during
 * which the kernel gave the core to another process does not count. What several processes cost
 * each other is in bench-keys (cases bank-N).
 *
 * Prints its tables: medians, with the quartiles.
 *
 * Always true: the two sides of a ratio ran in the same round, on the same bus.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/bench.h"
#include "libclient/statebus.h"

#define ROUNDS_MAX    1001u
#define SNAPSHOTS_MAX 32u
#define VALUE_LEN     64u

struct bench {
        struct sb_bus *bus, *holder; /* holder: the handle that holds the snapshots */
        uint32_t *order;
        uint32_t at, key_count;
        bool upper; /* which half of the keys the case uses */
        struct bench_key keys[BENCH_BATCH];
        unsigned char value[VALUE_LEN];
        struct sb_scan *snapshots[SNAPSHOTS_MAX];
        bool failed;
};

/* What a case does with one batch of keys. @number: the number of the case. */
typedef void work(struct bench *bench, uint32_t number);

struct bench_case {
        const char *name;
        work *work;
        uint32_t number;
        uint32_t units;                    /* of work in a batch: a figure is for one unit */
        const char *beside;                /* the case that it is compared with, or NULL */
        enum { LOWER, UPPER, HELD } group; /* of keys; HELD: all keys are written first */
        uint32_t snapshots;                /* held while the case runs */
};

static struct sb_bytes key_of(const struct bench *bench, uint32_t i)
{
        return (struct sb_bytes){bench->keys[i].bytes, bench->keys[i].len};
}

static struct sb_bytes value_of(const struct bench *bench)
{
        return (struct sb_bytes){bench->value, VALUE_LEN};
}

static void expect(struct bench *bench, int r)
{
        bench->failed = bench->failed || r;
}

/* ---- the cases ---- */

static void sets(struct bench *bench, uint32_t number)
{
        (void)number;
        for (uint32_t i = 0; i < BENCH_BATCH; i++)
                expect(bench, sb_set(bench->bus, key_of(bench, i), value_of(bench), NULL, NULL));
}

static void commits_of(struct bench *bench, uint32_t number, enum sb_isolation isolation)
{
        for (uint32_t i = 0; i < BENCH_BATCH; i += number) {
                struct sb_txn *txn;

                expect(bench, sb_txn_begin(bench->bus, isolation, &txn));
                if (bench->failed)
                        return;
                for (uint32_t k = i; k < i + number; k++)
                        expect(bench, sb_txn_set(txn, key_of(bench, k), value_of(bench)));
                expect(bench, sb_txn_commit(txn, NULL));
                sb_txn_end(txn);
        }
}

static void commits(struct bench *bench, uint32_t number)
{
        commits_of(bench, number, SB_SNAPSHOT);
}

/* Each commit reads as many keys as it writes, other ones. */
static void reading_commits(struct bench *bench, uint32_t number)
{
        enum sb_isolation isolation = number & 1 ? SB_SERIALIZABLE : SB_SNAPSHOT;
        struct sb_guard guard = {0};

        number &= ~1u;
        for (uint32_t i = 0; i < BENCH_BATCH; i += 2 * number) {
                struct sb_txn *txn;

                expect(bench, sb_txn_begin(bench->bus, isolation, &txn));
                if (bench->failed)
                        return;
                for (uint32_t k = i; k < i + number; k++) {
                        expect(bench, sb_txn_get(txn, key_of(bench, k), &guard));
                        sb_guard_release(&guard);
                        expect(bench, sb_txn_set(txn, key_of(bench, k + number), value_of(bench)));
                }
                expect(bench, sb_txn_commit(txn, NULL));
                sb_txn_end(txn);
        }
}

static void gets_and_sets(struct bench *bench, uint32_t number)
{
        struct sb_guard guard = {0};

        (void)number;
        for (uint32_t i = 0; i < BENCH_BATCH; i += 2) {
                expect(bench, sb_get(bench->bus, key_of(bench, i), &guard));
                sb_guard_release(&guard);
                expect(bench,
                        sb_set(bench->bus, key_of(bench, i + 1), value_of(bench), NULL, NULL));
        }
}

static void begins(struct bench *bench, uint32_t number)
{
        (void)number;
        for (uint32_t i = 0; i < BENCH_BATCH; i++) {
                struct sb_txn *txn;

                expect(bench, sb_txn_begin(bench->bus, SB_SNAPSHOT, &txn));
                if (bench->failed)
                        return;
                sb_txn_end(txn);
        }
}

static void gets(struct bench *bench, uint32_t number)
{
        struct sb_guard guard = {0};
        uint64_t sum = 0;

        (void)number;
        for (uint32_t i = 0; i < BENCH_BATCH; i++) {
                expect(bench, sb_get(bench->bus, key_of(bench, i), &guard));
                sum += bench_consume(guard.value.data, VALUE_LEN);
                sb_guard_release(&guard);
        }
        bench_use(sum);
}

/* Do all gets of a batch in one transaction. */
static void txn_gets(struct bench *bench, uint32_t number)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn;
        uint64_t sum = 0;

        expect(bench, sb_txn_begin(bench->bus, (enum sb_isolation)number, &txn));
        for (uint32_t i = 0; i < BENCH_BATCH && !bench->failed; i++) {
                expect(bench, sb_txn_get(txn, key_of(bench, i), &guard));
                if (guard.bus)
                        sum += bench_consume(guard.value.data, VALUE_LEN);
                sb_guard_release(&guard);
        }
        if (!bench->failed)
                sb_txn_end(txn);
        bench_use(sum);
}

static const struct bench_case cases[] = {
        {"1 set", sets, 0, BENCH_BATCH, NULL, LOWER, 0},
        {"commit of 1 key", commits, 1, BENCH_BATCH, "1 set", UPPER, 0},
        {"2 sets", sets, 0, BENCH_BATCH / 2, NULL, LOWER, 0},
        {"commit of 2 keys", commits, 2, BENCH_BATCH / 2, "2 sets", UPPER, 0},
        {"4 sets", sets, 0, BENCH_BATCH / 4, NULL, LOWER, 0},
        {"commit of 4 keys", commits, 4, BENCH_BATCH / 4, "4 sets", UPPER, 0},
        {"16 sets", sets, 0, BENCH_BATCH / 16, NULL, LOWER, 0},
        {"commit of 16 keys", commits, 16, BENCH_BATCH / 16, "16 sets", UPPER, 0},
        {"4 gets and 4 sets", gets_and_sets, 0, BENCH_BATCH / 8, NULL, LOWER, 0},
        {"4 read, 4 written in one", reading_commits, 4, BENCH_BATCH / 8, "4 gets and 4 sets",
                UPPER, 0},
        {"the same, serializable", reading_commits, 4 | 1, BENCH_BATCH / 8, "4 gets and 4 sets",
                UPPER, 0},
        {"begin and end", begins, 0, BENCH_BATCH, NULL, LOWER, 0},
        {"get", gets, 0, BENCH_BATCH, NULL, LOWER, 0},
        {"get in a transaction", txn_gets, SB_SNAPSHOT, BENCH_BATCH, "get", LOWER, 0},
        {"get in a serializable one", txn_gets, SB_SERIALIZABLE, BENCH_BATCH, "get", LOWER, 0},
        {"set, no snapshot held", sets, 0, BENCH_BATCH, NULL, HELD, 0},
        {"set, 1 snapshot held", sets, 0, BENCH_BATCH, "set, no snapshot held", HELD, 1},
        {"set, 32 snapshots held", sets, 0, BENCH_BATCH, "set, no snapshot held", HELD,
                SNAPSHOTS_MAX},
};
#define CASE_COUNT (sizeof(cases) / sizeof(cases[0]))

/* ---- rounds ---- */

static double figures[CASE_COUNT][ROUNDS_MAX]; /* ns */
static const char *only;                       /* cases with this in their name, or NULL */

static void choose_keys(struct bench *bench)
{
        for (uint32_t i = 0; i < BENCH_BATCH; i++) {
                uint32_t number =
                        bench->order[bench->at++ & (BENCH_ORDER_LEN - 1)] & (BENCH_KEYS_MAX - 1);

                bench_key_write(
                        number / 2 + (bench->upper ? bench->key_count / 2 : 0), &bench->keys[i]);
        }
        bench->value[0]++;
}

static long switches(void)
{
        struct rusage usage;

        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nivcsw;
}

/* Hold @count snapshots at different cuts, all of them young. They are held by another handle,
 * because one handle cannot hold as many beside its work. */
static void hold(struct bench *bench, uint32_t count)
{
        for (uint32_t i = 0; i < SNAPSHOTS_MAX; i++) {
                if (i < count && !bench->failed) {
                        choose_keys(bench);
                        sets(bench, 0);
                        expect(bench, sb_scan_open(bench->holder, NULL, (struct sb_bytes){0},
                                              &bench->snapshots[i]));
                } else {
                        bench->snapshots[i] = sb_scan_close(bench->snapshots[i]);
                }
        }
}

static void write_all(struct bench *bench)
{
        for (uint32_t number = 0; number + BENCH_BATCH <= bench->key_count; number += BENCH_BATCH) {
                for (uint32_t i = 0; i < BENCH_BATCH; i++)
                        bench_key_write(number + i, &bench->keys[i]);
                sets(bench, 0);
        }
}

/* Return: ns for one unit; 0 when it failed. */
static double slice(struct bench *bench, const struct bench_case *case_, uint64_t slice_ns)
{
        uint64_t ns = 0, batches = 0, warm, end;

        bench->upper = case_->group == UPPER;
        if (case_->group == HELD)
                write_all(bench);
        hold(bench, case_->snapshots);
        warm = bench_now_ns() + slice_ns / 4;
        end = warm + slice_ns;
        for (uint64_t now = 0; (now < end || !batches) && !bench->failed;) {
                uint64_t start;
                long before;

                choose_keys(bench);
                before = switches();
                start = bench_now_ns();
                case_->work(bench, case_->number);
                now = bench_now_ns();
                if (start >= warm && switches() == before) {
                        ns += now - start;
                        batches++;
                }
        }
        hold(bench, 0);
        return bench->failed ? 0 : (double)ns / (double)(batches * case_->units);
}

static int compare(const void *a, const void *b)
{
        double left = *(const double *)a, right = *(const double *)b;

        return (left > right) - (left < right);
}

static void print_spread(const char *format, const double *values, uint32_t count)
{
        double sorted[ROUNDS_MAX];

        memcpy(sorted, values, count * sizeof(*values));
        qsort(sorted, count, sizeof(*sorted), compare);
        printf(format, sorted[count / 2], sorted[count / 4], sorted[3 * count / 4]);
}

static void print_case(uint32_t which, uint32_t rounds)
{
        double ratios[ROUNDS_MAX], beyond[ROUNDS_MAX];
        uint32_t other = 0;

        while (other < CASE_COUNT && (only || !cases[which].beside ||
                                             strcmp(cases[other].name, cases[which].beside) != 0))
                other++;
        printf("| %s | ", cases[which].name);
        if (other < CASE_COUNT) {
                for (uint32_t i = 0; i < rounds; i++) {
                        ratios[i] = figures[which][i] / figures[other][i];
                        beyond[i] = figures[which][i] - figures[other][i];
                }
                print_spread("%.2f (%.2f .. %.2f)", ratios, rounds);
                printf(" x %s | ", cases[other].name);
                print_spread("%.0f (%.0f .. %.0f) | ", beyond, rounds);
        } else {
                printf(" | | ");
        }
        print_spread("%.0f (%.0f .. %.0f) |\n", figures[which], rounds);
}

static int run(struct bench *bench, uint32_t rounds, uint64_t slice_ns, bool held)
{
        for (uint32_t round = 0; round < rounds; round++) {
                for (uint32_t i = 0; i < CASE_COUNT; i++) {
                        uint32_t which = (i + round) % CASE_COUNT;

                        if ((cases[which].group == HELD) != held ||
                                (only && !strstr(cases[which].name, only)))
                                continue;
                        figures[which][round] = slice(bench, &cases[which], slice_ns);
                        if (bench->failed) {
                                fprintf(stderr, "bench-txn: \"%s\" failed\n", cases[which].name);
                                return -EIO;
                        }
                }
        }
        return 0;
}

static void print_cases(uint32_t rounds)
{
        printf("| | against plain operations | ns beyond them | ns |\n|---|---|---|---|\n");
        for (uint32_t i = 0; i < CASE_COUNT; i++)
                if (!only || strstr(cases[i].name, only))
                        print_case(i, rounds);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"keys", 1, NULL, 'k'}, {"rounds", 1, NULL, 'r'},
                {"seconds", 1, NULL, 's'}, {"agentd", 1, NULL, 'a'}, {"only", 1, NULL, 'o'},
                {NULL, 0, NULL, 0}};
        struct bench_shape shape = {.key_count = 100000, .value_len = VALUE_LEN};
        uint32_t rounds = 21;
        uint64_t slice_ns = 20000000;
        static struct bench bench;
        void *store = NULL, *handles[2] = {NULL, NULL};
        int option, r;

        shape.agentd = "agentd/agentd";
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == 'k')
                        shape.key_count = (uint32_t)strtoul(optarg, NULL, 10);
                else if (option == 'r')
                        rounds = (uint32_t)strtoul(optarg, NULL, 10);
                else if (option == 's')
                        slice_ns = (uint64_t)(strtod(optarg, NULL) * 1e9);
                else if (option == 'o')
                        only = optarg;
                else if (option == 'a')
                        shape.agentd = optarg;
                else
                        rounds = 0;
        }
        if (optind != argc || !rounds || rounds > ROUNDS_MAX || shape.key_count < BENCH_BATCH ||
                shape.key_count > BENCH_KEYS_MAX || !slice_ns) {
                fputs("usage: bench-txn [--keys N] [--rounds N] [--seconds S] [--only CASE] "
                      "[--agentd PATH]\n",
                        stderr);
                return 2;
        }
        bench.order = bench_order_new(BENCH_UNIFORM, shape.key_count, 0);
        r = bench.order ? bench_statebus.create(&shape, &store) : -ENOMEM;
        for (uint32_t i = 0; i < 2 && !r; i++)
                r = bench_statebus.attach(store, i, &handles[i]);
        if (!r) {
                setpriority(PRIO_PROCESS, 0,
                        -20); /* without the right to do so, the priority stays as it is */
                bench.bus = bench_statebus_bus(handles[0]);
                bench.holder = bench_statebus_bus(handles[1]);
                bench.key_count = shape.key_count;
                r = run(&bench, rounds, slice_ns, false);
                if (!r)
                        r = run(&bench, rounds, slice_ns, true);
                if (!r)
                        print_cases(rounds);
        } else {
                fprintf(stderr, "bench-txn: no bus: %s\n", sb_strerror(r));
        }
        for (uint32_t i = 0; i < 2; i++)
                if (handles[i])
                        bench_statebus.detach(handles[i]);
        if (store)
                bench_statebus.destroy(store);
        free(bench.order);
        return r ? 1 : 0;
}
