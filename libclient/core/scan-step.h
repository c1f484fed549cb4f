/*
 * Steps of a scan: from where it stands to the next key or the one before, with a transaction's own
 * writes merged in. See scan.c.
 *
 * Always true: at AT_NODE the scan's place holds the node; elsewhere it holds nothing.
 */
#ifndef SB_SCAN_STEP_H
#define SB_SCAN_STEP_H

#include "libclient/core/bus.h"
#include "libclient/core/txn.h"

enum sb_scan_position { AT_KEY, AT_NODE, AT_END };

struct sb_scan {
        struct sb_bus *bus;           /* NULL: closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        struct sb_txn *txn;           /* NULL: none, or ended */
        bool in_txn;                  /* not a cut of its own */
        uint64_t cut;
        uint32_t snapshot;       /* the cut's announcement */
        uint32_t place;          /* whose guard word holds the node */
        uint32_t ahead, fetched; /* keys to fetch the memory of next time; that it is there of */
        enum sb_scan_position position;
        /* AT_KEY: the first key above it, rather than the first not below it */
        bool after;
        bool reserved; /* the bus's own keys are asked for */
        bool reverse;  /* next goes down */
        /* A cut that was taken before: nobody promises that all of it is left but rules, until
         * end_ns. */
        bool past;
        bool trimmed;    /* what was found is not what was there, but the oldest that is left */
        uint64_t end_ns; /* CLOCK_MONOTONIC */
        uint64_t rules;  /* so many had been written when they were looked at */
        uint64_t left;   /* so many keys more */
        uint32_t key_len, prefix_len;
        uint64_t node; /* AT_NODE: its offset */
        unsigned char key[SB_KEY_LEN_MAX];
        unsigned char prefix[SB_KEY_LEN_MAX];
};

/* Go on at the first key not below @key (@after: above it). */
void sb_scan_stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after);
void sb_scan_stand_at_end(struct sb_scan *scan);
/* To the next key, or the one before, and hold its version. Return: as sb_scan_next(). */
int sb_scan_step(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard);

#endif
