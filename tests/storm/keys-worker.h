/*
 * A worker of storm-keys, and the table that outlives it. Workers count by compare and set, write,
 * read and delete keys with values that follow from the keys, hold a version over many operations,
 * and walk over all keys at a cut, twice.
 *
 * Always true: a worker that sees something impossible writes it into the table, and all end.
 */
#ifndef SB_TESTS_KEYS_WORKER_H
#define SB_TESTS_KEYS_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "tests/storm/random.h"

#define KEYS_SEATS    7u /* the engine's is the last */
#define KEYS_COUNTERS 4u
#define KEYS_CHURN    40u

/* A seat of the table is taken by one process after the other, and outlives them. Its words are
 * written by the process in it, and by the parent after that one's death. */
struct keys_seat {
        uint32_t slot, generation;
        bool attached;
        pid_t pid;
        /* counter + 1 while its increment may have happened and is not acknowledged */
        uint64_t under_way;
        uint64_t operations, full, conflicts;
        uint64_t found, held, scans; /* gets with a value, holds, cuts that had keys, read twice */
};

struct keys_table {
        struct keys_seat seat[KEYS_SEATS];
        uint64_t acknowledged[KEYS_COUNTERS]; /* by atomic adds of many workers */
        uint64_t uncertain[KEYS_COUNTERS];    /* written by the parent */
        char complaint[256];
        bool complained, stop;
};

extern struct keys_table *keys_table;

void __attribute__((format(printf, 1, 2))) keys_complain(const char *format, ...);

/* Make the name of a key, which has fewer than 64 bytes. Return: its length. */
uint32_t keys_counter_key(uint32_t counter, char *ret);
uint32_t keys_churn_key(uint32_t number, char *ret);
const unsigned char *keys_value_of(const struct sb_version *version, uint64_t *ret_len);

/* Until the table says stop. */
void keys_work(const struct sb_segment *segment, struct keys_seat *seat, uint64_t seed);

#endif
