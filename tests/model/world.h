/*
 * Scenarios of the write path for the model checker: a tiny bus, a start state, and for each thread a few operations.
 *
 * One thread is one peer. What each operation answered is kept, and judged at the end: revisions are dense and each was
 * given once, a cas has one winner, what was finished before an operation began is seen by it, a scan is exact at its cut,
 * reads in a snapshot repeat. Then the dead are reaped, everybody leaves, memory is swept, and the segment must be sound
 * and hold nothing but what its keys need.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include "ring/op.h"
#include "tests/harness/model.h"

#define WORLD_KEYS 3u
#define WORLD_OPS  3u

enum world_key { KEY_A, KEY_B, KEY_C };

enum world_op_kind {
        OP_NONE,
        OP_SET,
        OP_CAS,      /* expects the start state's revision */
        OP_CREATE,
        OP_DELETE,
        OP_GET,      /* under a guard, let go at once */
        OP_HOLD,     /* under a guard that stays */
        OP_SCAN,     /* snapshot, all keys in order, close */
        OP_SNAPSHOT, /* snapshot, read the key twice, close */
        OP_MEMORY,   /* memory work with a whole sweep */
        OP_WORK,     /* memory work without */
        OP_SAFE,
        OP_SWEEP,
        OP_TICK,     /* the engine's own: its thread is the engine */
        OP_FINI,     /* the thread's peer leaves */
};

struct world_op {
        enum world_op_kind kind;
        enum world_key key;
};

enum world_start {
        START_EMPTY,
        START_VALUE,    /* A has a value */
        START_OLD,      /* A has a value and an older version that nobody needs, but nobody took out */
        START_RETIRED,  /* as OLD; the older version is out and waits for its grace period */
        START_DELETED,  /* A was deleted, and safe is past that */
        START_PAIR,     /* A and B have values, in one bucket */
        START_PAIR_DELETED, /* A was deleted, B has a value */
        START_SNAPSHOT, /* A has a value that an open snapshot of the engine's needs, and a tombstone above it */
};

struct world_spec {
        enum world_start start;
        struct world_op ops[MODEL_THREADS][WORLD_OPS];
        uint32_t unit_count; /* [16] */
        bool tall;           /* the keys' nodes have two levels */
        bool engine;         /* thread 0 is the engine's own peer */
};

extern struct model_scenario world_scenario(const char *name, const struct world_spec *spec, uint32_t thread_count,
        uint32_t preemptions);

#endif
