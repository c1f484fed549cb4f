/* Inside the scenarios: what world.c (operations), start.c (start states) and judge.c (checks at
 * the end) share. */
#ifndef TESTS_MODEL_WORLD_CORE_H
#define TESTS_MODEL_WORLD_CORE_H

#include <string.h>

#include "shm/epoch.h"
#include "shm/guard.h"
#include "shm/reap.h"
#include "shm/slot.h"
#include "shm/snapshot.h"
#include "shm/walk.h"
#include "world.h"

#define PEERS     (MODEL_THREADS + 1)
#define NOTE_DONE 0u          /* + key: the highest finished revision */
#define DEAD_PEER (PEERS - 1) /* of START_DEAD */

/* What one operation answered. */
struct outcome {
        bool ran, finished;
        int r;
        uint64_t rev, cut, done_before;
        uint64_t done_all[WORLD_KEYS]; /* before a snapshot, or a get of all */
        uint64_t seen[WORLD_KEYS];     /* revisions with a value, 0 for none */
};

struct world_state {
        struct sb_peer peers[PEERS];          /* 0: the engine's */
        struct sb_peer guests[MODEL_THREADS]; /* OP_ATTACH */
        bool here[MODEL_THREADS];             /* a guest has its record */
        struct sb_version *held[MODEL_THREADS];
        enum world_key held_key[MODEL_THREADS];
        struct outcome outcomes[MODEL_THREADS][WORLD_OPS];
        uint64_t start_rev[WORLD_KEYS];  /* highest ever given */
        uint64_t start_seen[WORLD_KEYS]; /* with a value; 0 none */
        uint64_t start_cut[WORLD_KEYS];  /* stamp of start_rev */
        uint32_t engine_snapshot;
        uint64_t engine_cut, past_seen;
        bool left[PEERS];
        bool adopted, reaped;
};
extern struct world_state world;
/* In order. A and B can go the short ways (shm/find.h), unless spec()->short_keys; C cannot. */
const char *world_key(enum world_key key);
static inline uint32_t world_key_len(enum world_key key)
{
        return (uint32_t)strlen(world_key(key));
}

static inline const struct world_spec *spec(void)
{
        return model_spec();
}

static inline struct sb_peer *peer_of(uint32_t thread)
{
        return spec()->engine && !thread ? &world.peers[0] : &world.peers[thread + 1];
}

static inline bool is_write(enum world_op_kind kind)
{
        return kind == OP_SET || kind == OP_PUT || kind == OP_LARGE || kind == OP_ATTACH ||
               kind == OP_CAS || kind == OP_CREATE || kind == OP_DELETE;
}

#define VALUE_LEN   8u   /* the least of the short ways */
#define VALUE_TINY  2u   /* with any key in the class of tombstones and births */
#define VALUE_LARGE 300u /* two units */
#define VALUE_MAX   VALUE_LARGE
#define TOMBSTONE   UINT32_MAX

/* A value says who wrote it: thread and number of the operation, 9 for setup. @value_len:
 * VALUE_LEN, VALUE_TINY, TOMBSTONE or that of a large block. */
int world_write(struct sb_peer *peer, enum world_key key, uint32_t value_len, uint64_t expected,
        uint32_t tag, struct sb_op_result *ret);
/* A version in hand is whole: its own key, a revision, a value that somebody wrote. */
void world_check_version(const struct sb_version *version, enum world_key key);
/* What a new engine does with the record of the one before it. */
void world_adopt(void);
/* Reap every record that was claimed by somebody who is not known. */
void world_reap_strangers(void);
/* The scenario's setup and check. */
void world_start(void);
void world_judge(void);

#endif
