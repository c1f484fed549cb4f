/*
 * The command line of the benchmarks, and the contenders that were built in.
 *
 * Always true: bench_peers[] and the masks of contenders have the same order.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench/bench.h"

/* Contenders that need software which may not be installed: 1 where it was found. */
#ifndef BENCH_LMDB
#define BENCH_LMDB 0
#endif
#ifndef BENCH_REDIS
#define BENCH_REDIS 0
#endif
#ifndef BENCH_FASTER
#define BENCH_FASTER 0
#endif
#define BENCH_PEERS       (4u + BENCH_LMDB + BENCH_REDIS + BENCH_FASTER)
#define BENCH_PEERS_USUAL (((1u << BENCH_PEERS) - 1) & ~8u) /* not direct */
#define BENCH_COUNTS_MAX  8u /* different numbers of processes in one run */

extern const struct bench_peer *const bench_peers[BENCH_PEERS];

struct bench_settings {
        uint32_t key_count;
        uint32_t rounds;
        uint64_t warm_ns, slice_ns;
        /* 0, or how many operations to run for an instruction counter, without a clock and without
         * processes */
        uint64_t profile_ops;
        uint32_t peer_mask;
        const char *only;
        const char *agentd;
        enum bench_pages pages;
        bool pages_required;
        uint32_t process_counts[BENCH_COUNTS_MAX];
        uint32_t process_count_count;
};

/* @settings holds the defaults. Return: 0; -EINVAL: print bench_options_usage(). */
int bench_options_parse(
        int argc, char **argv, struct bench_settings *settings, const char **ret_pages);
void bench_options_usage(void);

#endif
