/* Times of single events; see latency.h. */
#include "bench/latency.h"

#include "bench/bench.h"

#define SETTLE_NS UINT64_C(20000000)

double latency_tick_ns(void)
{
        static double tick_ns;
        uint64_t start_ns, start, now_ns;

        if (tick_ns != 0)
                return tick_ns;
        start_ns = bench_now_ns();
        start = latency_ticks();
        do
                now_ns = bench_now_ns();
        while (now_ns - start_ns < SETTLE_NS);
        tick_ns = (double)(now_ns - start_ns) / (double)(latency_ticks() - start);
        return tick_ns;
}

static uint32_t bucket_of(double ns)
{
        uint64_t whole = ns < 1 ? 0 : ns > 1e12 ? UINT64_C(1000000000000) : (uint64_t)ns;
        uint32_t power, index;

        if (whole < LATENCY_PARTS)
                return (uint32_t)whole;
        power = 63 - (uint32_t)__builtin_clzll(whole); /* 6: the first with parts */
        index = (power - 5) * LATENCY_PARTS + (uint32_t)(whole >> (power - 6)) % LATENCY_PARTS;
        return index < LATENCY_BUCKETS ? index : LATENCY_BUCKETS - 1;
}

double latency_floor(uint32_t index)
{
        uint32_t power = index / LATENCY_PARTS, part = index % LATENCY_PARTS;

        if (power == 0)
                return part;
        return (double)((uint64_t)(LATENCY_PARTS + part) << (power - 1));
}

void latency_add(struct latency *latency, double ns)
{
        latency->count++;
        latency->buckets[bucket_of(ns)]++;
}

void latency_merge(struct latency *latency, const struct latency *more)
{
        latency->count += more->count;
        for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
                latency->buckets[i] += more->buckets[i];
}

double latency_at(const struct latency *latency, double share)
{
        double left = share * (double)latency->count;

        for (uint32_t i = 0; i < LATENCY_BUCKETS && latency->count; i++) {
                left -= latency->buckets[i];
                if (left <= 0 && latency->buckets[i])
                        return (latency_floor(i) + latency_floor(i + 1)) / 2;
        }
        return 0;
}
