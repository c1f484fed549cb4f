/*
 * All scenarios, in groups: model-*.c walks one group each; model-faults.c looks for seeded faults
 * in all of them.
 */
#ifndef TESTS_MODEL_LISTS_H
#define TESTS_MODEL_LISTS_H

#include "tests/model/world.h"

struct world_list {
        const char *name;
        const struct world_case *cases;
        uint32_t count;
};

/* Every pair of operations on one key, from each start state. */
enum world_pairs_how {
        PAIRS_PLAIN,
        PAIRS_BUFFERED, /* under TSO */
        PAIRS_KILLED,   /* the first is killed, and reaped while the second goes on */
};
struct world_list world_pairs(enum world_pairs_how how);
/* Groups of chosen scenarios. */
extern const struct world_list world_keys;  /* install, make, remove */
extern const struct world_list world_order; /* lists-order.c: branches of the ordered index */
extern const struct world_list
        world_memory; /* retire, guard, free, take again; also with store buffers */
extern const struct world_list world_snapshot; /* cuts, the stable cut, prune, scan */
extern const struct world_list world_reap;     /* kills */
extern const struct world_list world_magazine; /* replaced versions that are built in again */
extern const struct world_list world_large;    /* blocks of several units */
extern const struct world_list world_moves;    /* lists-move.c: versions out of a window */
extern const struct world_list world_watches;  /* lists-watch.c: watches of a key */
extern const struct world_list world_prefixes; /* lists-prefix.c: watches of a prefix */
extern const struct world_list world_batches;  /* lists-batch.c: batches of the log */
extern const struct world_list world_away;     /* keys outside their home bucket */
extern const struct world_list
        world_records; /* guard chunks, many keys at once, records, observers */
extern const struct world_list world_checks;       /* the validator beside other operations */
extern const struct world_list world_txn;          /* lists-txn.c: what transactions promise */
extern const struct world_list world_txn_memory;   /* their blocks, and kills */
extern const struct world_list world_users;        /* lists-users.c: the public calls */
extern const struct world_list world_users_txn;    /* transactions by the public calls */
extern const struct world_list world_deep;         /* more preemptions, but only at some accesses */
extern const struct world_list world_txn_deep;     /* the same, with transactions */
extern const struct world_list world_moves_deep;   /* the same, with movers */
extern const struct world_list world_watches_deep; /* the same, with watches */
extern const struct world_list world_prefixes_deep; /* the same, of prefixes */
extern const struct world_list world_batches_deep;  /* the same, with logs */

/* All of them but the deep ones, which take long. */
#define WORLD_CHOSEN 18u
extern const struct world_list *const world_chosen[WORLD_CHOSEN];

/* Walks a list. Return: the exit status. */
int world_main(int argc, char **argv, struct world_list list);

#endif
