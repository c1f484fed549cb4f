/*
 * Times of single events: a clock that costs little, and histograms of what it said.
 *
 * A histogram has 64 buckets for each power of two, so a percentile is right to one part in 64.
 *
 * Always true: a histogram is plain data without pointers; two of them are added bucket by bucket.
 */
#ifndef SB_BENCH_LATENCY_H
#define SB_BENCH_LATENCY_H

#include <stdint.h>

#include "bench/bench.h"

#define LATENCY_PARTS   64u /* buckets of a power of two */
#define LATENCY_BUCKETS (36u * LATENCY_PARTS)

struct latency {
        uint64_t count;
        uint32_t buckets[LATENCY_BUCKETS];
};

/* The processor's own clock, read behind all loads before it: the same for all its cores, but for
 * what bench-watch measures. Elsewhere the system's clock. */
static inline uint64_t latency_ticks(void)
{
#ifdef __x86_64__
        unsigned core;

        return __builtin_ia32_rdtscp(&core);
#else
        return bench_now_ns();
#endif
}
/* Nanoseconds of a tick; the first call measures for some 20 ms. */
double latency_tick_ns(void);

/* Count an event; a negative time counts as 0. */
void latency_add(struct latency *latency, double ns);
void latency_merge(struct latency *latency, const struct latency *more);
/* The time that @share (0 to 1) of all events do not exceed; 0: there are none. */
double latency_at(const struct latency *latency, double share);
/* The least time of bucket @index. */
double latency_floor(uint32_t index);

#endif
