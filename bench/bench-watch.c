/*
 * What it takes until another process has what was set, and what the watching costs the process
 * that sets it.
 *
 * Every case has a slice (slice.h) in each round, in an order that moves on by one every round, so
 * that a drift meets all alike; a ratio is one within a round. System calls are counted apart, by
 * tracing a process that does nothing but set.
 *
 * Prints its tables, and lines `CURVE SERIES X Y` of which bench/curves makes the pictures.
 *
 * Always true: all cases of a run use one bus, with the same keys in it.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/slice.h"
#include "bench/wake.h"

#define ROUNDS_MAX 101u
#define LOOK_NS    2000u /* a pause in which the others look again */
#define SLEEP_NS   30000u
#define DEEP_NS    5000000u

enum {
        THE_LINE,
        A_WORD,
        SPINNING,
        A_FUTEX,
        A_CONDITION,
        SLEEPING,
        DEEP_FUTEX,
        DEEP_CONDITION,
        DEEP,
        PREFIX_SPINNING,
        PREFIX_SLEEPING,
        UNWATCHED,
        STOPPED,
        CROWDS
};

#define LOOKS(picture_, way_)                                                                      \
        .picture = (picture_), .kind = SLICE_EXCHANGE, .way = &(way_), .watchers = 1,              \
        .pause_ns = LOOK_NS, .spins = true
#define SLEEPS(picture_, way_)                                                                     \
        .picture = (picture_), .kind = SLICE_EXCHANGE, .way = &(way_), .watchers = 1,              \
        .pause_ns = SLEEP_NS
#define SLEEPS_DEEP(way_)                                                                          \
        .kind = SLICE_EXCHANGE, .way = &(way_), .watchers = 1, .pause_ns = DEEP_NS, .deep = true
#define CROWD(way_, count)                                                                         \
        {                                                                                          \
                .name = "crowd of " #count, .kind = SLICE_EXCHANGE, .way = &(way_),                \
                .watchers = (count), .pause_ns = SLEEP_NS, .shared = true                          \
        }
#define CROWD_PAIR(count) CROWD(wake_futex, count), CROWD(wake_bus, count)

static const struct slice_case cases[] = {
        [THE_LINE] = {"a cache line, one way", .kind = SLICE_LINE, .watchers = 1},
        [A_WORD] = {"a word that is looked at", .series = "word", LOOKS("spinning", wake_word)},
        [SPINNING] = {"set, the watch spins", .series = "set", LOOKS("spinning", wake_bus)},
        [A_FUTEX] = {"futex, asleep for 30 us", .series = "futex", SLEEPS("sleeping", wake_futex)},
        [A_CONDITION] = {"condition variable, asleep for 30 us", .series = "condition-variable",
                SLEEPS("sleeping", wake_condition)},
        [SLEEPING] = {"set, the watch sleeps for 30 us", .series = "set",
                SLEEPS("sleeping", wake_bus)},
        [DEEP_FUTEX] = {"futex, asleep for 5 ms", SLEEPS_DEEP(wake_futex)},
        [DEEP_CONDITION] = {"condition variable, asleep for 5 ms", SLEEPS_DEEP(wake_condition)},
        [DEEP] = {"set, the watch sleeps for 5 ms", SLEEPS_DEEP(wake_bus)},
        /* Left out where sb_watch_open() does not know SB_PREFIX. */
        [PREFIX_SPINNING] = {"set, a watch of the prefix spins", .series = "set-prefix",
                LOOKS("spinning", wake_bus), .prefix = true},
        [PREFIX_SLEEPING] = {"set, a watch of the prefix sleeps for 30 us", .series = "set-prefix",
                SLEEPS("sleeping", wake_bus), .prefix = true},
        [UNWATCHED] = {"set, no watch", .kind = SLICE_EXCHANGE, .way = &wake_bus,
                .pause_ns = LOOK_NS},
        [STOPPED] = {"set, the watch sleeps, and is stopped", .kind = SLICE_EXCHANGE,
                .way = &wake_bus, .watchers = 1, .pause_ns = LOOK_NS, .stopped = true},
        [CROWDS] = CROWD_PAIR(1),
        CROWD_PAIR(2),
        CROWD_PAIR(4),
        CROWD_PAIR(8),
        CROWD_PAIR(16),
        CROWD_PAIR(32),
        CROWD_PAIR(64)};
#define CASE_COUNT (sizeof(cases) / sizeof(cases[0]))

/* What all slices of a case gave. */
struct found {
        struct latency had, last, cost;
        double had_p50[ROUNDS_MAX], cost_p50[ROUNDS_MAX]; /* 0: the slice does not count */
        uint32_t slices, left_out;
        bool missing;
};

static struct found all_found[CASE_COUNT];
/* ---- rounds ---- */

static void round_add(struct found *found, const struct slice *slice, uint32_t round)
{
        found->slices++;
        found->left_out += slice->left_out;
        if (slice->left_out)
                return;
        latency_merge(&found->had, &slice->had);
        latency_merge(&found->last, &slice->last);
        latency_merge(&found->cost, &slice->cost);
        found->had_p50[round] = latency_at(&slice->had, 0.5);
        found->cost_p50[round] = latency_at(&slice->cost, 0.5);
}

/* The names of --only, each with a line end behind it; none: all cases. */
static char wanted[256];

static bool is_wanted(const struct slice_case *case_)
{
        char names[sizeof(wanted)], *rest = names, *name;

        strcpy(names, wanted);
        while ((name = strsep(&rest, "\n")) && *name)
                if (strstr(case_->name, name))
                        return true;
        return !wanted[0];
}

static void rounds_run(uint32_t rounds, uint64_t slice_ns, bool quick)
{
        static struct slice slice;

        for (uint32_t round = 0; round < rounds; round++)
                for (uint32_t i = 0; i < CASE_COUNT; i++) {
                        uint32_t at = (i + round) % CASE_COUNT;
                        struct slice_case case_ = cases[at];
                        struct found *found = &all_found[at];

                        if (found->missing || !is_wanted(&case_) ||
                                (quick && (case_.deep || case_.watchers > 4)))
                                continue;
                        /* The times of a quick run say nothing, so all of them count. */
                        case_.shared |= quick;
                        found->missing =
                                !slice_run(&case_, case_.deep ? 5 * slice_ns : slice_ns, &slice);
                        if (!found->missing)
                                round_add(found, &slice, round);
                }
}

/* ---- tables ---- */

struct spread {
        double low, middle, high;
        uint32_t count;
};

static int compare(const void *a, const void *b)
{
        double left = *(const double *)a, right = *(const double *)b;

        return (left > right) - (left < right);
}

/* Median and quartiles of the ratios (or, with @minus, differences) of two rows of rounds. */
static struct spread spread_of(const double *above, const double *below, bool minus)
{
        double values[ROUNDS_MAX];
        uint32_t count = 0;

        for (uint32_t i = 0; i < ROUNDS_MAX; i++)
                if (above[i] > 0 && below[i] > 0)
                        values[count++] = minus ? above[i] - below[i] : above[i] / below[i];
        if (!count)
                return (struct spread){0};
        qsort(values, count, sizeof(*values), compare);
        return (struct spread){values[count / 4], values[count / 2], values[count * 3 / 4], count};
}

static void print_share(const struct latency *latency, double share)
{
        /* Of fewer events the last ones alone would decide. */
        if ((double)latency->count * (1 - share) < 1)
                fputs(" |", stdout);
        else
                printf(" %.0f |", latency_at(latency, share));
}

static void print_delivery(uint32_t at, uint32_t against, double most)
{
        const struct found *found = &all_found[at];
        struct spread ratio;

        if (!found->had.count)
                return;
        printf("| %s |", cases[at].name);
        print_share(&found->had, 0.5);
        print_share(&found->had, 0.9);
        print_share(&found->had, 0.99);
        print_share(&found->had, 0.999);
        ratio = spread_of(found->had_p50, all_found[against].had_p50, false);
        if (!ratio.count || at == against)
                fputs(" |", stdout);
        else
                printf(" %.2f x %s (%.2f .. %.2f) |", ratio.middle,
                        against == THE_LINE ? "the line" : "futex", ratio.low, ratio.high);
        if (most > 0 && ratio.count)
                printf(" %.2f: %s |\n", most, ratio.middle <= most ? "reached" : "missed");
        else
                puts(" |");
}

static void print_deliveries(void)
{
        puts("\nFrom the beginning of the call until the other process has the value, in ns.\n");
        puts("| | p50 | p90 | p99 | p99.9 | against | at most |\n|---|---|---|---|---|---|---|");
        print_delivery(THE_LINE, THE_LINE, 0);
        print_delivery(A_WORD, THE_LINE, 0);
        print_delivery(SPINNING, THE_LINE, 4);
        print_delivery(PREFIX_SPINNING, THE_LINE, 0);
        print_delivery(A_FUTEX, A_FUTEX, 0);
        print_delivery(A_CONDITION, A_FUTEX, 0);
        print_delivery(SLEEPING, A_FUTEX, 1.15);
        print_delivery(PREFIX_SLEEPING, A_FUTEX, 0);
        print_delivery(DEEP_FUTEX, DEEP_FUTEX, 0);
        print_delivery(DEEP_CONDITION, DEEP_FUTEX, 0);
        print_delivery(DEEP, DEEP_FUTEX, 0);
        if (all_found[PREFIX_SPINNING].missing)
                puts("\nThis version does not have watches of a prefix.");
}

static void print_crowds(void)
{
        puts("\nMany processes that sleep, on the cores that the writer leaves: from the beginning "
             "of the call\nuntil each of them, and until the last one, has the value; ns, p50.\n");
        puts("| watchers | set: each | the last | the call | futex: each | the last | the call |\n"
             "|---|---|---|---|---|---|---|");
        for (uint32_t at = CROWDS; at + 1 < CASE_COUNT; at += 2) {
                const struct found *futex = &all_found[at], *set = &all_found[at + 1];

                if (!futex->had.count || !set->had.count)
                        continue;
                printf("| %u | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n", cases[at].watchers,
                        latency_at(&set->had, 0.5), latency_at(&set->last, 0.5),
                        latency_at(&set->cost, 0.5), latency_at(&futex->had, 0.5),
                        latency_at(&futex->last, 0.5), latency_at(&futex->cost, 0.5));
        }
}

static void print_cost(uint32_t at, bool traced)
{
        const struct found *found = &all_found[at];
        struct spread more = spread_of(found->cost_p50, all_found[UNWATCHED].cost_p50, true);
        double line = latency_at(&all_found[THE_LINE].had, 0.5);
        struct slice_calls calls = {0};

        if (!found->cost.count)
                return;
        printf("| %s |", cases[at].name);
        print_share(&found->cost, 0.5);
        print_share(&found->cost, 0.99);
        if (at == UNWATCHED || !more.count)
                fputs(" | |", stdout);
        else
                printf(" %.0f (%.0f .. %.0f) | %.1f |", more.middle, more.low, more.high,
                        line > 0 ? more.middle / line : 0);
        if (traced)
                calls = slice_count_calls(&cases[at]);
        if (calls.counted)
                printf(" %.3f | %.3f |\n", (double)calls.futex / SLICE_TRACED,
                        (double)calls.other / SLICE_TRACED);
        else
                puts(" | |");
}

static void print_costs(bool traced)
{
        puts("\nWhat a set costs the process that makes it, in ns, and its system calls.\n");
        puts("| | p50 | p99 | more than without a watch | in lines | futex calls | others |\n"
             "|---|---|---|---|---|---|---|");
        print_cost(UNWATCHED, traced);
        print_cost(SPINNING, traced);
        print_cost(SLEEPING, traced);
        print_cost(STOPPED, traced);
        print_cost(PREFIX_SPINNING, traced);
        print_cost(PREFIX_SLEEPING, traced);
}

/* For bench/curves: of each bucket the middle, and its share of all exchanges. */
static void print_pictures(void)
{
        for (uint32_t at = 0; at < CASE_COUNT; at++) {
                const struct latency *had = &all_found[at].had;

                for (uint32_t i = 0; cases[at].series && i + 1 < LATENCY_BUCKETS; i++)
                        if (had->buckets[i])
                                printf("latency-%s %s %.1f %.7f\n", cases[at].picture,
                                        cases[at].series,
                                        (latency_floor(i) + latency_floor(i + 1)) / 2,
                                        (double)had->buckets[i] / (double)had->count);
        }
        for (uint32_t at = CROWDS; at < CASE_COUNT; at++)
                if (all_found[at].last.count)
                        printf("watchers %s %u %.0f\n", cases[at].way->name, cases[at].watchers,
                                latency_at(&all_found[at].last, 0.5));
}

static void print_run(uint32_t rounds, uint64_t key_count)
{
        uint32_t slices = 0, left_out = 0;

        for (uint32_t at = 0; at < CASE_COUNT; at++) {
                slices += all_found[at].slices;
                left_out += all_found[at].left_out;
        }
        printf("%u rounds, %u cores, %llu keys; %u of %u slices do not count: their processes did "
               "not run side by side; the clock of the second core is %.0f ns ahead, which is "
               "taken out\n",
                rounds, slice_cores, (unsigned long long)key_count, left_out, slices,
                slice_apart_ns());
}

static int usage(void)
{
        fputs("usage: bench-watch [--agentd PATH] [--rounds N] [--seconds S] [--keys N] [--only "
              "CASE] [--quick]\n"
              "  --seconds S  of one slice; --keys N: that the bus has, all with the prefix that "
              "is watched\n"
              "  --only CASE  cases with CASE in their name; it may be given several times\n",
                stderr);
        return 2;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"agentd", required_argument, NULL, 'a'},
                {"rounds", required_argument, NULL, 'r'}, {"seconds", required_argument, NULL, 's'},
                {"keys", required_argument, NULL, 'k'}, {"only", required_argument, NULL, 'o'},
                {"quick", no_argument, NULL, 'q'}, {NULL, 0, NULL, 0}};
        uint64_t key_count = 1000000, slice_ns = 200000000;
        uint32_t rounds = 15;
        bool quick = false;
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
                switch (option) {
                case 'a':
                        setenv("STATEBUS_AGENTD", optarg, 1);
                        break;
                case 'r':
                        rounds = (uint32_t)strtoul(optarg, NULL, 10);
                        break;
                case 's':
                        slice_ns = (uint64_t)(strtod(optarg, NULL) * 1e9);
                        break;
                case 'k':
                        key_count = strtoull(optarg, NULL, 10);
                        break;
                case 'o':
                        if (strlen(wanted) + strlen(optarg) + 2 > sizeof(wanted))
                                return usage();
                        strcat(strcat(wanted, optarg), "\n");
                        break;
                case 'q':
                        quick = true;
                        key_count = 1000;
                        rounds = 1;
                        slice_ns = 1000000;
                        break;
                default:
                        return usage();
                }
        if (optind != argc || !rounds || rounds > ROUNDS_MAX || key_count > BENCH_KEYS_MAX)
                return usage();
        slice_begin(key_count);
        rounds_run(rounds, slice_ns, quick);
        print_run(rounds, key_count);
        print_deliveries();
        print_crowds();
        print_costs(true);
        print_pictures();
        slice_end();
        return 0;
}
