/*
 * What a scan is inside: which keys are its own, and where it stands among them. See scan.c.
 *
 * Always true: a node at which a scan stands has a value in the cut, so it stays as long as the cut
 * does: who reads the node asks for the cut behind the beginning of its pin. Where rules alone keep
 * the cut, the scan's guard word holds the node.
 */
#ifndef SB_SCAN_PLACE_H
#define SB_SCAN_PLACE_H

#include "libclient/core/bus.h"
#include "libclient/core/txn.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/memory/guard.h"

enum sb_scan_position { AT_KEY, AT_NODE, AT_END };

/* A gap between two keys, to look from: right before this key, or right behind it. */
struct sb_scan_bound {
        uint32_t len;
        bool inclusive; /* behind the key: looking down, the key itself counts */
        unsigned char key[SB_KEY_LEN_MAX];
};

/* How many nodes a scan takes at once, and with how many left it takes more. */
#ifndef SB_SCAN_RUN
#define SB_SCAN_RUN     SB_ORDER_RUN
#define SB_SCAN_RUN_LOW 48u
#endif

/* A power of two. */
#define SB_SCAN_CELLS 32u

struct sb_scan {
        struct sb_bus *bus;           /* NULL: it was closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        struct sb_bus_reader reader;  /* in a transaction */
        bool in_txn;                  /* it reads at the cut of a transaction */
        uint64_t cut;
        uint32_t snapshot; /* index of the cut's announcement */
        uint32_t guard;    /* index of the scan's guard word */
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
         * below, up to run_count. No pin holds them. Those that have a value in the cut stay as
         * long as the cut does; what else is above may be free memory by now (scan-step.c). */
        bool run_up;                      /* they are above */
        bool run_ends;                    /* and no others come behind them */
        uint32_t run_at, run_count, runs; /* and how many such runs were taken since it turned */
        uint32_t run_most;                /* above: how many nodes the last one was to have */
        uint32_t wished;                  /* above: how many keys this call was asked for, or 0 */
        uint32_t short_to;                /* above: how far steps may go the short way (scan.c) */
        uint32_t before;                  /* above: how many nodes came before the run's first */
        /* Above: the last node that was taken, which the guard word holds, or 0: it may have no
         * value in the cut. Behind its key more are taken. */
        uint64_t last;
        uint32_t end_len;
        bool bounded; /* the scan's keys are those below end */
        /* From here on nothing is there before it is written. */
        struct sb_scan_bound from; /* behind which the last one was taken */
        unsigned char key[SB_KEY_LEN_MAX];
        unsigned char prefix[SB_KEY_LEN_MAX];
        uint64_t run[SB_SCAN_RUN + SB_SCAN_RUN_LOW];
        /* Above: the cells of the first ones of the run, or NULL (scan-step.c); each at its number,
         * counted from where the scan turned. */
        struct sb_word64 *cell[SB_SCAN_CELLS];
        unsigned char end[]; /* end_len bytes */
};

/* Before the scan gives its guard word back. */
void sb_scan_let_go(struct sb_scan *scan);
/* Stand right before @key (@after: right behind it); the key need not exist. */
void sb_scan_stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after);
/* Hold @node, or 0, in the guard word: the last node that was taken, or the one at which the scan
 * stands where rules alone keep the cut. Fault SCAN_NODE_KEPT: 0 is not written. */
static inline void sb_scan_place_hold(struct sb_scan *scan, uint64_t node)
{
        if (node ? !SB_FAULT(SCAN_NODE_NOT_HELD) : !SB_FAULT(SCAN_NODE_KEPT))
                sb_guard_set(&scan->bus->handle, scan->guard, node);
}
static inline void sb_scan_place_hold_last(struct sb_scan *scan, uint64_t last)
{
        if (last | scan->last)
                sb_scan_place_hold(scan, last);
        scan->last = last;
}
/* It was moved: nothing is known of what lies below or above. Fault SCAN_RUN_KEPT: it goes by what
 * was. */
static inline void sb_scan_place_forget(struct sb_scan *scan)
{
        bool kept = scan->run_up && SB_FAULT(SCAN_RUN_KEPT);

        scan->runs = scan->short_to = 0;
        scan->run_up = scan->run_ends = false;
        sb_scan_place_hold_last(scan, 0);
        if (!kept)
                scan->run_at = scan->run_count = 0;
}
/* Stand behind the last key. */
void sb_scan_stand_at_end(struct sb_scan *scan);
/* Stand at a node, under the pin under which it was found. */
void sb_scan_stand_at_node(struct sb_scan *scan, struct sb_node *node);
/* Whether the scan's nodes of keys that have a value in the cut can be read until the pin ends,
 * which began before: while the cut stands they are in the index. False: it was taken away. Where
 * rules alone keep it, the guard word holds the only one, and the others come under this pin. */
bool sb_scan_nodes_stay(const struct sb_scan *scan);
/* The key at which the scan stands. Return: whether it stands behind it. Under a pin. */
bool sb_scan_position(const struct sb_scan *scan, struct sb_node_key *ret);
/* Whether @key comes behind where the scan stands. */
bool sb_scan_is_ahead(
        struct sb_node_key at, bool after, const unsigned char *key, uint32_t key_len);
void sb_scan_bound_set(struct sb_scan_bound *ret, const void *key, uint32_t len, bool inclusive);
/* Say where the scan stands; if the cut was taken away, anywhere. Not under a pin. */
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
