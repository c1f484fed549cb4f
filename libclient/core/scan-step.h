/*
 * Steps of a scan: from where the scan stands to the next key or the one before, with the
 * transaction's write set merged in; and what a struct sb_scan is inside. See scan.c.
 *
 * Always true: at AT_NODE the scan's guard word holds the node; elsewhere that word holds nothing.
 */
#ifndef SB_SCAN_STEP_H
#define SB_SCAN_STEP_H

#include "libclient/core/bus.h"
#include "libclient/core/txn.h"
#include "shm/base/fault.h"
#include "shm/keys/ahead.h"
#include "shm/keys/order.h"

enum sb_scan_position { AT_KEY, AT_NODE, AT_END };

struct sb_scan {
        struct sb_bus *bus;           /* NULL: it was closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        struct sb_bus_reader reader;  /* in a transaction */
        bool in_txn;                  /* it reads at the cut of a transaction */
        uint64_t cut;
        uint32_t snapshot;     /* index of the cut's announcement */
        uint32_t guard;        /* index of the guard word that holds the node */
        struct sb_ahead ahead; /* memory that was fetched ahead */
        enum sb_scan_position position;
        /* AT_KEY: the scan stands right behind the key, else right before it */
        bool after;
        bool sought;   /* and the caller named it, who may have it from an earlier scan */
        bool reserved; /* the prefix asks for the bus's own keys */
        bool reverse;  /* next goes down */
        bool plain;    /* next goes up, no write set is merged in, and no rule has to be asked */
        /* The cut was taken before, and no mark keeps it: rules alone promise that all of it is
         * left, until end_ns. */
        bool past;
        bool watched;    /* a watch keeps the cut (libclient/core/watches.h) */
        bool lapped;     /* the cut was taken away, which each step says from now on */
        bool trimmed;    /* the version found is not that of the cut, but the oldest that is left */
        uint64_t end_ns; /* CLOCK_MONOTONIC */
        uint64_t rules;  /* count of changes of rules when the scan looked at them */
        uint64_t left;   /* keys that it may still give */
        uint32_t key_len, prefix_len;
        uint64_t node; /* AT_NODE: its offset */
        /* How many nodes the scan has passed; AT_NODE: and whether the key is that of one of them,
         * to compare with later ones. */
        uint32_t passed;
        bool compares;
        /* A scan that goes down: nodes below where it stands, ascending. Each has a value in the
         * cut, and so stays as long as the cut does, under no pin. */
        uint32_t run_count, runs; /* and how many such runs were taken since it last went up */
        uint64_t run[SB_ORDER_RUN];
        unsigned char key[SB_KEY_LEN_MAX];
        unsigned char prefix[SB_KEY_LEN_MAX];
        bool bounded; /* the scan's keys are those below end */
        uint32_t end_len;
        unsigned char end[]; /* end_len bytes */
};

/* Stand right before @key (@after: right behind it); the key need not exist. */
void sb_scan_stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after);
/* It was moved: nothing is known of what lies below. Fault SCAN_RUN_KEPT: it goes by what was. */
static inline void sb_scan_step_forget(struct sb_scan *scan)
{
        scan->runs = 0;
        if (!SB_FAULT(SCAN_RUN_KEPT))
                scan->run_count = 0;
}
/* Stand behind the last key. */
void sb_scan_stand_at_end(struct sb_scan *scan);
/* Go to the next key, or the one before, and hold its version. Return: as sb_scan_next(); then the
 * scan has moved, unless it answered SB_E_FULL or -ENOMEM. */
int sb_scan_step(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard);

/* The short way of a step on, of a scan that is plain and stands at a node. False: the scan has not
 * moved, and the long way has to be gone. */
bool sb_scan_step_short(struct sb_scan *scan, struct sb_guard *ret_guard);

#endif
