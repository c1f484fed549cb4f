/*
 * A worker of the soak, and the table that outlives it. Workers turn a constant number of keys over
 * (each key gives way to one that never was), overwrite and read them, commit transactions, hold
 * snapshots, scan, make marks and drop them, and write under a rule of history.
 *
 * How it works: a worker does a batch of one kind of work after the other, so many in a tenth of a
 * second, and adds up the processor time of each kind. That time goes on being comparable when
 * other programs run, too.
 *
 * Always true: a worker that meets a result that it should not writes it into the table, and all
 * end.
 */
#ifndef SB_TESTS_SOAK_WORKER_H
#define SB_TESTS_SOAK_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libclient/core/bus.h"
#include "tests/api/world.h"
#include "tests/storm/random.h"

#define SOAK_WORKERS 4u
#define SOAK_KEYS    16000u /* live at any time, of all workers together */
#define SOAK_RULED   64u    /* keys under a rule of history, of each worker */
#define SOAK_NO_KEY  UINT32_MAX

enum soak_kind {
        SOAK_TURNOVER, /* delete, and set a key that never was */
        SOAK_SET,
        SOAK_GET,
        SOAK_COMMIT, /* of four keys */
        SOAK_RULED_KEY,
        SOAK_SCAN,
        SOAK_MARK,
        SOAK_KINDS
};

/* What a worker tells the test process, and the next worker in its seat. */
struct soak_seat {
        pid_t pid;
        uint64_t resume_ms;                /* when it goes on; 0: it is not halted */
        uint32_t under_way;                /* the key that it turns over, or SOAK_NO_KEY */
        uint64_t done[SOAK_KINDS];         /* operations of finished batches */
        uint64_t cpu_ns[SOAK_KINDS];       /* that they took */
        uint64_t full;                     /* results SB_E_FULL */
        uint64_t swept, slices;            /* blocks looked at and slices of its own sweeps */
        uint32_t limbo_most, pending_most; /* entries of its lists; the parent resets them */
        bool complained;
        char complaint[128];
};
struct soak_table {
        struct soak_seat seat[SOAK_WORKERS];
        uint32_t life[SOAK_KEYS];
        bool filling; /* write under the rule more often, until history has reached its limit */
        bool stop;
};

extern struct soak_table *soak_table;

/* A number of the environment; @otherwise: when it is not set. */
uint64_t soak_number(const char *name, uint64_t otherwise);
struct sb_bytes soak_key(uint32_t key, uint32_t life, char ret[48]);
/* Most are short, some larger, a few take units of their own. */
struct sb_bytes soak_value(uint64_t random);

/* Be worker @number until the table says stop, in a process of its own. Does not return. */
void soak_work(struct world *world, uint32_t number, uint64_t seed);

#endif
