/*
 * Judging a recorded history of transactions: is it what snapshot isolation, or serializability,
 * allows?
 *
 * A history is a set of transactions, each with what it read and wrote: versions of objects, which
 * are numbered in the order in which they became current (0: not there yet). From that the checker
 * draws who must come before whom (Adya, 1999), and looks for a cycle:
 *
 *      ww  overwrote its version        wr  read its version        rw  read what it overwrote
 *      rt  had ended before it began (where times were recorded)
 *
 *      G0             a cycle of ww alone
 *      G1a            what an aborted transaction wrote was read
 *      G1b            what its writer overwrote itself was read
 *      G1c            a cycle of ww and wr
 *      G-single       a cycle with one rw: read skew, lost update
 *      G-nonadjacent  a cycle with several rw, never two in a row: long fork
 *      G2-item        a cycle with two rw in a row: write skew; snapshot isolation allows it
 *      unwritten      what nobody wrote was read: no history of this bus at all
 *      unordered      two transactions committed the same version: likewise
 *
 * Snapshot isolation is: no cycle in which no two rw are in a row (Cerone and Gotsman, 2016). With
 * -rt behind the name the cycle needs an rt: the bus promises real time, too.
 *
 * A key that was forgotten and made again is another object: {key, life}. What a transaction reads
 * of its own writes is not recorded. A key that was looked for and not found is read as version 0,
 * or as its tombstone's.
 *
 * Cost: linear in operations but for a history that is wrong; 2M operations take about a second.
 */
#ifndef SB_TESTS_HISTORY_H
#define SB_TESTS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* HISTORY_UNKNOWN: it ended in mid-commit, and nobody could say. It counts as committed if somebody
 * who counts read what it wrote. */
enum history_outcome { HISTORY_COMMITTED, HISTORY_ABORTED, HISTORY_UNKNOWN };
enum history_level { HISTORY_SNAPSHOT, HISTORY_SERIALIZABLE };

struct history;
struct history_verdict {
        const char *anomaly; /* NULL: none */
        char text[1024];     /* who did what to whom */
        uint64_t txns;       /* that count */
        uint64_t operations, edges;
};

#define HISTORY_ANYONE UINT32_MAX

struct history *history_make(void);
struct history *history_unmake(struct history *history); /* NULL is fine; returns NULL */
/* The next transaction; returns its number, from 0. Times by one clock, or both 0. */
uint32_t history_txn(
        struct history *history, enum history_outcome outcome, uint64_t began, uint64_t ended);
/* It read @version, and by what it saw @writer wrote it; HISTORY_ANYONE: it could not tell. */
void history_read(
        struct history *history, uint32_t txn, uint64_t object, uint64_t version, uint32_t writer);
void history_write(struct history *history, uint32_t txn, uint64_t object, uint64_t version);

/* Return: whether @level allows it. @ret: why not, and how much was looked at. Once for each
 * history and level: operations are put into order. */
bool history_check(struct history *history, enum history_level level, struct history_verdict *ret);

#endif
