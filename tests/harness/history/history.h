/*
 * The judge of a recorded history of transactions: does snapshot isolation, or serializability,
 * allow it?
 *
 * A history is a set of transactions, each with what it read and wrote: versions of objects,
 * numbered in the order in which they became current (0: the object did not exist yet). From that
 * the checker draws which transaction must come before which (Adya, 1999), and looks for a cycle:
 *
 *      ww  overwrote its version        wr  read its version        rw  read what it overwrote
 *      rt  had ended before it began (where times were recorded)
 *
 *      G0             a cycle of ww alone
 *      G1a            a transaction read what an aborted one wrote
 *      G1b            a transaction read what its writer itself overwrote
 *      G1c            a cycle of ww and wr
 *      G-single       a cycle with one rw: read skew, lost update
 *      G-nonadjacent  a cycle with several rw, never two in a row: long fork
 *      G2-item        a cycle with two rw in a row: write skew; snapshot isolation allows it
 *      unwritten      a transaction read what none wrote: this is no history of a bus
 *      unordered      two transactions committed the same version: likewise
 *
 * A history has snapshot isolation when each of its cycles has two rw in a row (Cerone and Gotsman,
 * 2016). A name that ends in -rt means a cycle that needs an rt: the bus promises real time, too.
 *
 * A key that the bus forgot and made again is another object: {key, life}. The history leaves out
 * what a transaction reads of its own writes. A key that a transaction looked for and did not find
 * counts as read at version 0, or at its tombstone's version.
 *
 * Cost: linear in operations, except for a wrong history; 2M operations take about a second.
 */
#ifndef SB_TESTS_HISTORY_H
#define SB_TESTS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* HISTORY_UNKNOWN: the process ended in mid-commit, and no witness remains. The transaction counts
 * as committed if a transaction that counts read what it wrote. */
enum history_outcome { HISTORY_COMMITTED, HISTORY_ABORTED, HISTORY_UNKNOWN };
enum history_level { HISTORY_SNAPSHOT, HISTORY_SERIALIZABLE };

struct history;
struct history_verdict {
        const char *anomaly; /* NULL: none */
        char text[1024];     /* which transactions make the anomaly, and how */
        uint64_t txns;       /* that count */
        uint64_t operations, edges;
};

#define HISTORY_ANYONE UINT32_MAX

struct history *history_make(void);
struct history *history_unmake(struct history *history); /* NULL is fine; returns NULL */
/* Adds a transaction and returns its number, from 0. Both times come from one clock, or both are 0.
 */
uint32_t history_txn(
        struct history *history, enum history_outcome outcome, uint64_t began, uint64_t ended);
/* The transaction read @version, and the value names @writer; HISTORY_ANYONE: it names none. */
void history_read(
        struct history *history, uint32_t txn, uint64_t object, uint64_t version, uint32_t writer);
void history_write(struct history *history, uint32_t txn, uint64_t object, uint64_t version);

/* Return: whether @level allows the history. @ret: the anomaly, and how much the check looked at.
 * It is called once for each history and level: it puts the operations into order. */
bool history_check(struct history *history, enum history_level level, struct history_verdict *ret);

#endif
