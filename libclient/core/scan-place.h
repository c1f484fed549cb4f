/*
 * What a scan is inside: which keys are its own, and where it stands among them. See scan.c.
 *
 * Always true: at AT_NODE the scan's guard word holds the node; elsewhere that word holds nothing.
 */
#ifndef SB_SCAN_PLACE_H
#define SB_SCAN_PLACE_H

#include "libclient/core/bus.h"
#include "libclient/core/txn.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"

enum sb_scan_position { AT_KEY, AT_NODE, AT_END };

struct sb_scan {
        struct sb_bus *bus;           /* NULL: it was closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        struct sb_bus_reader reader;  /* in a transaction */
        bool in_txn;                  /* it reads at the cut of a transaction */
        uint64_t cut;
        uint32_t snapshot; /* index of the cut's announcement */
        uint32_t guard;    /* index of the guard word that holds the node */
        enum sb_scan_position position;
        /* AT_KEY: the scan stands right behind the key, else right before it */
        bool after;
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
        /* Nodes of keys that come next, ascending: above where the scan stands, from run_at on; or
         * below, up to run_count. Each has a value in the cut, and so stays as long as the cut
         * does, under no pin. */
        bool run_up;                      /* they are above */
        bool run_ends;                    /* and no others come behind them */
        uint32_t run_at, run_count, runs; /* and how many such runs were taken since it turned */
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
static inline void sb_scan_place_forget(struct sb_scan *scan)
{
        scan->runs = 0;
        scan->run_up = scan->run_ends = false;
        if (!SB_FAULT(SCAN_RUN_KEPT))
                scan->run_at = scan->run_count = 0;
}
/* Stand behind the last key. */
void sb_scan_stand_at_end(struct sb_scan *scan);
/* A gap between two keys, to look from: right before this key, or right behind it. */
struct sb_scan_bound {
        uint32_t len;
        bool inclusive; /* behind the key: looking down, the key itself counts */
        unsigned char key[SB_KEY_LEN_MAX];
};

/* Stand at a node, under the pin under which it was found. */
void sb_scan_stand_at_node(struct sb_scan *scan, struct sb_node *node);
/* The key at which the scan stands. Return: whether it stands behind it. */
bool sb_scan_position(const struct sb_scan *scan, struct sb_node_key *ret);
/* Whether @key comes behind where the scan stands. */
bool sb_scan_is_ahead(
        struct sb_node_key at, bool after, const unsigned char *key, uint32_t key_len);
void sb_scan_bound_set(struct sb_scan_bound *ret, const void *key, uint32_t len, bool inclusive);
/* Say where the scan stands. */
void sb_scan_bound_of(const struct sb_scan *scan, struct sb_scan_bound *ret);

static inline bool sb_scan_place_has_prefix(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return key_len >= scan->prefix_len && sb_bytes_same(key, scan->prefix, scan->prefix_len);
}

static inline bool sb_scan_place_below_end(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return !scan->bounded || sb_bytes_compare(key, key_len, scan->end, scan->end_len) < 0;
}

/* Whether a key is one of the scan's. Each step asks. */
static inline __attribute__((always_inline)) bool sb_scan_place_in_range(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return sb_scan_place_has_prefix(scan, key, key_len) &&
               sb_scan_place_below_end(scan, key, key_len);
}

#endif
