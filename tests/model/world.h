/*
 * Scenarios of the write path for the model checker: a tiny bus, a start state, and for each thread
 * a few operations.
 *
 * Each thread is one client. The scenario keeps what each operation answered, and judges it at the
 * end: revisions are dense and each was given once, a cas has one winner, an operation sees what
 * was finished before it began, a scan is exact at its cut, reads in a snapshot repeat. Then the
 * dead are reaped, all clients leave, memory is swept, and the segment must be sound and hold
 * nothing but what its keys need.
 *
 * Always true: world.c, keys.c, start.c and judge.c are instrumented like the protocol files,
 * because they call inline functions of these.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include "shm/base/fault.h"
#include "shm/layout/segment.h"
#include "tests/harness/model/model.h"

#define WORLD_KEYS 3u
#define WORLD_OPS  5u

enum world_key { KEY_A, KEY_B, KEY_C };

enum world_op_kind {
        OP_NONE,
        OP_SET,
        OP_PUT, /* set a value that is too small for the short way of a write here */
        OP_CAS, /* expects the start state's revision */
        OP_CREATE,
        OP_DELETE,
        OP_GET,      /* under a guard, released at once */
        OP_HOLD,     /* under a guard that stays */
        OP_SCAN,     /* snapshot, all keys in order, close */
        OP_SNAPSHOT, /* snapshot, read the key twice, close */
        OP_MEMORY,   /* memory work with a whole sweep */
        OP_WORK,     /* memory work without a sweep */
        OP_STABLE,
        OP_SWEEP,
        OP_TICK,    /* the engine's own: its thread is the engine */
        OP_FINI,    /* the thread's client leaves */
        OP_OBSERVE, /* the key at the stable cut, twice, stamping nothing */
        OP_REAP,    /* reap the dead client of the start state */
        OP_PAST,    /* the key in the snapshot of the start state */
        OP_CHECK,   /* the validator, while the others go on */
        OP_LARGE,   /* set a value of several units */
        OP_READ,    /* read once more what OP_HOLD or OP_HOLD_FAR holds */
        /* as OP_GET and OP_HOLD, by a guard word in a chunk, which is made if necessary */
        OP_GET_FAR,
        OP_HOLD_FAR,
        OP_MANY,   /* all keys by sb_op_get_many(), released at once */
        OP_ATTACH, /* claim a record, set the key as a new client, leave */
        /* the engine's own: evict all snapshots of the others; WAY_PAST: those of START_MARKED's
         * cut alone, and of older ones */
        OP_EVICT,
        OP_AT,     /* take a cut, announce nothing, read the key in it twice */
        OP_KEEP,   /* keep all of the key's past from now on, then as OP_AT: nothing is lost */
        OP_MARK,   /* mark a cut, read the key in it twice, drop the mark */
        OP_ARRIVE, /* become an observer, read the key at the stable cut, twice; leave */
        OP_TXN,
        OP_FREE,    /* free what is in limbo, until nothing is */
        OP_PASS,    /* take two blocks of a size that no key has, and give them back */
        OP_SPARE,   /* take a block, do not use it, and keep it as a spare */
        OP_DUE,     /* the look that a write takes at times: what it replaced becomes spares */
        OP_BUDGET,  /* a sweep found more past than history may keep: up to a later cut by key */
        OP_LOOK,    /* all keys at the stable cut, twice, stamping nothing */
        OP_AGES,    /* so many eras pass that a sweep labels what is older */
        OP_FLAGS,   /* the key's cell gets a flag and loses it again */
        OP_HISTORY, /* users: all versions of the key */
        OP_FIND,    /* users: the key in the cut of the start state's mark, if that is found */
        OP_DROP,    /* users: drop that mark */
        OP_TOLD,    /* users: the key twice in the cut that a writer was told of last */
        OP_CLEAR,   /* users: all keys are deleted at one moment */
        OP_RESTORE, /* users: all keys, or with WAY_SHORT the key, become what they were at the
                       start state's mark */
        /* what lives in the unit of the key's version of the start state moves, as for a large
         * value (upkeep/move.h) */
        OP_MOVE,
        OP_WATCH, /* begin to watch the key; WAY_PAST: from behind what the start state had;
                     WAY_SHORT: twice as deep as others; WAY_BACK: it keeps the first two, and drops
                   */
        OP_NEXT,  /* take the bits of the bell, and all that there is to see; WAY_SHORT: one change.
                     The last one is held until the next look. WAY_MANY: of a prefix: as if its bit
                     was set */
        OP_SLEEP, /* the next change; sleep until it comes; WAY_TURN: as behind a descriptor */
        OP_UNWATCH,
        OP_PRESS, /* a sweep of a client that waits for memory: rings give way; WAY_MANY: all memory
                   * work
                   */
        /* begin to watch all keys; WAY_SHORT: those that begin as the key does; WAY_BACK: it keeps
         * the first two, and drops; WAY_PAST: from an
         * earlier cut on. OP_NEXT, OP_SLEEP and OP_UNWATCH are of this watch then */
        OP_PREFIX,
        OP_VIEW, /* users: all keys in the cut that this watch began at */
        /* a batch of the thread's log; WAY_BACK: the disk does not take it; WAY_PAST: by a log that
         * begins anew; WAY_SHORT: both; WAY_MANY: with room for one version; WAY_TURN: and a
         * copy begins, of which it has what is marked, and the next batch the rest; WAY_SEEK: it
         * has the first word of buckets, too, and the disk does not take it */
        OP_LOG,
};

/* A transaction: begin, read, commit. Without writes it is a cut, at which the first key is read
 * once more at the end. */
struct world_txn {
        uint8_t reads, writes, deletes; /* a bit for each key; deletes are read, too */
        uint8_t scan;                   /* how many keys it reads in order, from the first on */
        bool serializable;
        bool early;    /* begun before any thread runs; one for each thread */
        bool prepared; /* early, and ready to be installed: one key, or two */
        uint8_t in;    /* of the prepared keys: installed already */
        bool many;     /* users: it reads keys with one call */
        bool ends;     /* users: the scan has an end, and gives two keys with each call */
        bool own;      /* users: it reads what it read and wrote once more before its commit */
        bool large;    /* not users: its values take a unit each */
};

/* users: how a scan or a history goes. */
enum world_way {
        WAY_ON,
        WAY_BACK, /* in reverse */
        /* to the end, and back again; a history lets go each version at once; OP_MOVE: out of where
         * the version lies by now */
        WAY_TURN,
        WAY_SHORT, /* a history: only the first step */
        /* a scan: two keys with each call; OP_MANY: all keys at one moment; OP_AT: by the call for
         * many keys */
        WAY_MANY,
        WAY_SEEK, /* a scan: each key by going behind it and one back, and before it and on; the
                   * last by going behind the end */
        WAY_PAST, /* a scan: in the cut of START_TRIMMED; OP_AT: in the cut of START_RULED */
};

struct world_op {
        enum world_op_kind kind;
        enum world_key key;
        struct world_txn txn;
        enum world_way way;
};

enum world_start {
        START_EMPTY,
        START_VALUE, /* A has a value */
        /* A has a value and an older version that no client needs, and that no client took out */
        START_OLD,
        START_RETIRED,      /* as OLD; the older version is out and waits for its grace period */
        START_DELETED,      /* A was deleted, and the stable cut is past that */
        START_PAIR,         /* A and B have values, in one bucket */
        START_PAIR_DELETED, /* A was deleted, B has a value */
        /* A has a value that an open snapshot of the engine's needs, and a tombstone above it */
        START_SNAPSHOT,
        START_MARKED, /* A has a value over an older one, which a mark keeps */
        /* as MARKED, and all clients know of the mark: a write takes out what it replaces, and the
         * older one stays below */
        START_MARKED_BELOW,
        START_MARKED_MADE, /* as MARKED, and B was made since */
        /* A has a value over an older one, which an open snapshot of the engine's needs, and all
         * clients know the cuts of now */
        START_KEPT,
        /* A has a value; a rule keeps the last version of each key. What A was in a cut before is
         * gone. */
        START_TRIMMED,
        START_SEEN, /* A has a value, which an open snapshot of the engine's needs */
        /* A has a value over an older one; a rule keeps the last two versions of each key, and all
         * clients know the cuts of now */
        START_RULED,
        START_TXN, /* as PAIR, and a transaction wrote both over older ones, which a mark keeps */
        START_BOTH_DELETED, /* A and B were deleted, C has a value */
        START_ALL_DELETED,
        START_CHAIN, /* A has three versions; no client needs the first, and only the lag of the
                        stable cut keeps the second */
        /* A has a value; blocks that were versions, nodes and placeholders lie free with all that
         * was in them */
        START_FREED,
        START_DEAD, /* as PAIR_DELETED, and a client was killed right before it wrote A */
        /* A has a value; a client was killed behind its freeing of a block, and its note names the
         * block still, in a unit that is FREE since */
        START_NOTED,
        START_LARGE,  /* A has a value of several units */
        START_SINGLE, /* A has a value that takes one unit */
        /* A has a value; the client that made it has a block from before in its magazine, ready */
        START_MAGAZINE,
        START_SPARE,  /* the same, but the block is a spare */
        START_FULL,   /* A has a value, and the free blocks hardly suffice for one more */
        START_HINTED, /* as FULL, with no block left, and hints at all units */
        /* A has a value, and all blocks are taken but those with which thread 0 can make B once */
        START_SHORT,
        /* A and B have values, each in a unit of which the rest is free, side by side; all else is
         * taken, but that the thread that sets a large value has blocks of the size of theirs */
        START_APART,
        START_ALL,          /* all keys have values */
        START_PLACEHOLDERS, /* A and B are being made: no client has written them yet */
        /* A and B have values, and above A's is an intent of a transaction that was aborted and is
         * not over for all clients */
        START_ABORTED,
        /* As ALL, and above B's value is an aborted intent that is over for all; no client has
         * looked at the chain since */
        START_ABORTED_OVER,
        START_ABORTED_PLACEHOLDER, /* as ABORTED, but A never existed */
        START_ABORTED_DELETED,     /* as ABORTED, but A was deleted */
        START_ABORTED_MEANWHILE,   /* as ALL; since transactions were prepared another one was
                                      aborted; its intent is above B's value, of an earlier era */
};

/* The accesses at which threads may be preempted or killed. */
enum world_focus {
        FOCUS_ALL,
        FOCUS_INDEX,   /* at the ordered index, nodes and buckets */
        FOCUS_MEMORY,  /* at the era, client records, retire words, unit words and bitmaps, cells */
        FOCUS_INTENTS, /* at stamps of versions, statuses of transactions, cells */
        FOCUS_NOTES, /* at the era, pins and notes in records, retire words, nodes' cells, stamps */
        FOCUS_CUTS,  /* at clock, stable cut, announcements, stamps and links of versions, cells */
};

/* A was watched, and written, and is so no more. RING_BARE: an engine was killed while it cleared
 * the cell, and the next one went on: the ring is there, and the cell says nothing. RING_RULE: no
 * watch was there, but a rule keeps the last two versions of each key, and A has a ring for that.
 */
enum world_ring { RING_NONE, RING_LEFT, RING_BARE, RING_RULE };

struct world_spec {
        enum world_start start;
        struct world_op ops[MODEL_THREADS][WORLD_OPS];
        uint32_t unit_count; /* [16] */
        /* thread of which the client makes the start state, and has its lists; MODEL_THREADS: the
         * engine */
        uint32_t setup_by;
        bool forked;    /* the third key differs from the others before these differ */
        uint32_t slots; /* of the smallest branch [2] */
        bool hasty;     /* a write that finds no memory does no slice of a sweep */
        /* there are two buckets, and the one that is home to all keys is full of other keys: each
         * key's cell is in the other bucket */
        bool away;
        bool short_keys;       /* too short for the short ways here (meson.build) */
        uint32_t takes;        /* blocks that a client takes out of a slab at once [1] */
        uint32_t ahead;        /* nodes that a scan takes at first [1]; 3 at most */
        uint32_t magazine;     /* entries in each record's magazine [none] */
        uint32_t free_records; /* the last ones, which no client has at the start */
        enum world_focus focus;
        /* large values look like blocks that the dead client of START_NOTED frees, wherever a
         * block can begin */
        bool mimic;
        /* the same, but the blocks look as if they were unlinked that many eras after the start
         * state [0: they do not] */
        uint32_t mimic_eras;
        bool engine; /* thread 0 is the engine itself */
        /* the threads but the engine make the public calls, and what is read is held by guards */
        bool users;
        uint8_t watched;      /* a bit for each thread that watches A from the start state on */
        uint8_t behind;       /* so often A was written since */
        enum world_ring ring; /* what is left of a watch of A from before that */
        uint8_t prefixed;     /* a bit for each thread that watches all keys from the start on */
        uint8_t within;       /* of these: those that begin as A does */
        uint8_t drops;        /* of these, or of `watched`: they keep the first two, and drop */
        /* A queue begins beside writers, after the cut of WAY_PAST where there is one: it may count
         * a change that was on its way then. */
        bool joins;
        bool roomy; /* where its first look gives something, a queue has room for what comes then */
        /* What came since: a, b, c: the key is set; A: it is deleted; s: the stable cut is raised;
         * w: memory work; k: a sweep is asked for, so that what a write leaves is looked at; x: the
         * cut of WAY_PAST is taken; r: the watches of prefixes read all; u: those of threads that
         * do something end; j: a client has joined for a prefix as long as A's within, and was
         * killed and reaped; l: the logs make a batch; f: one that fails */
        const char *past;
        /* a bit for each thread that has a log, which has all that the start state has without
         * `past` */
        uint8_t logged;
        uint32_t buckets; /* [1 or 2] 128: the keys' homes differ, in one word of marks */
        bool keeps;       /* no key has more than a full ring names, at the end */
        uint32_t guards;  /* users: guard words that are made at the start, and free [1] */
};

struct world_case {
        const char *name;
        struct world_spec spec;
        uint32_t threads, preemptions, crashes, delays;
        uint32_t crash_mask; /* [all] */
        bool reaper;         /* a killed thread is reaped while the others run, not after them */
        bool costly;         /* a second or more: as a whole for `make test-long` */
        bool whole;          /* much of it in little time: as a whole every day */
};

/* Chosen after the start state was made. */
extern enum sb_fault world_fault;
extern const char *const world_fault_names[SB_FAULT_COUNT];

/* Whether an offset is in the focus. */
bool world_focused(const struct sb_segment *segment, enum world_focus focus, uint64_t offset);
/* Names an offset in the segment. */
void world_where(const struct sb_segment *segment, uint64_t offset, char ret_text[64]);

struct model_scenario world_scenario(const struct world_case *the_case);

#endif
