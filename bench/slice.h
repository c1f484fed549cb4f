/*
 * A slice of a benchmark of watches: one process tells, others wait, and count themselves when they
 * have what it told; and the bus on which that is done.
 *
 * In a slice, exchanges come in batches. One during which the kernel gave a core to another process
 * does not count (but where watchers share cores), and a slice of which less than half counts is
 * left out. Between two exchanges the others look again, or sleep. What the clocks of two cores
 * differ by is measured first, and taken out.
 *
 * Always true: the process that tells has core 0, the others have all others. What fails ends the
 * program, its processes and its bus.
 */
#ifndef SB_BENCH_SLICE_H
#define SB_BENCH_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/latency.h"
#include "bench/wake.h"

#define SLICE_TRACED 1000u /* sets of which system calls are counted */

enum slice_kind { SLICE_LINE, SLICE_EXCHANGE };
struct slice_case {
        const char *name;
        const char *picture, *series; /* or NULL */
        enum slice_kind kind;
        const struct wake_way *way;
        uint32_t watchers, pause_ns;
        bool spins, stopped, prefix;
        bool deep;   /* of few exchanges, and none in a quick run */
        bool shared; /* watchers share cores, so that losing one is their own affair */
};

/* What a slice gave. */
struct slice {
        struct latency had, last, cost; /* of each watcher; of the last one; the call */
        bool left_out;                  /* its processes did not run side by side */
};

/* What a traced process did in SLICE_TRACED sets. */
struct slice_calls {
        uint32_t futex, other;
        bool counted;
};

extern uint32_t slice_cores;

/* Start a bus with so many keys, take core 0, and measure the clocks. */
void slice_begin(uint64_t key_count);
void slice_end(void);
/* By how much the clock of the first watcher's core is ahead. */
double slice_apart_ns(void);
/* Run one slice. Return: false: this version of statebus has no such watches. */
bool slice_run(const struct slice_case *case_, uint64_t slice_ns, struct slice *ret);
/* Count the system calls of a process that does nothing but set; none where that cannot be. */
struct slice_calls slice_count_calls(const struct slice_case *case_);

#endif
