/*
 * What the processes of storm-txn do: workers run random transactions over a few hot keys, plain
 * operations in between, and move money in a bank (bank.h); a watcher adds the bank up all the
 * while. A worker has a timer; its signal halts the worker between any two instructions, for up to
 * 200 us.
 *
 * Always true: a process that sees something impossible writes it into the table, and all end.
 */
#ifndef SB_TESTS_WORK_H
#define SB_TESTS_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libclient/statebus.h"
#include "tests/storm/random.h"
#include "tests/storm/record.h"

#define WORK_GROUPS  3u /* prefixes */
#define WORK_MEMBERS 5u /* keys of each */
#define WORK_KEYS    (WORK_GROUPS * WORK_MEMBERS)

enum work_isolation { WORK_SNAPSHOT, WORK_SERIALIZABLE, WORK_MIXED };

/* What outlives the process in a seat, and is the next one's there. */
struct work_seat {
        pid_t pid;
        uint64_t operations, commits, conflicts, full; /* operations: the recorded ones */
        uint64_t transfers, sums, torn; /* torn: sums of plain gets that did not add up */
};

struct work_table {
        struct work_seat seat[RECORD_SEATS];
        char complaint[256];
        bool complained, stop;
        enum work_isolation isolation;
        uint64_t halts; /* halts of workers by a signal of their own, at any instruction */
};

extern struct work_table *work_table;

void __attribute__((format(printf, 1, 2))) work_complain(const char *format, ...);
uint32_t work_below(uint64_t *state, uint32_t limit);
uint64_t work_now_ns(void);
void work_rest(uint64_t us);
struct sb_bytes work_key(uint32_t number, char text[16]);

/* Until the table says stop. */
void work_transactions(struct sb_bus *bus, uint32_t seat, struct record *record, uint64_t seed);
void work_watch(struct sb_bus *bus, uint32_t seat, uint64_t seed);

/* For a process that is alone on the bus: work_clear() deletes all keys, work_read_end() reads what
 * is there into @record. */
bool work_clear(struct sb_bus *bus);
void work_read_end(struct sb_bus *bus, uint32_t seat, struct record *record);

#endif
