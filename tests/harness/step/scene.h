/*
 * A tiny bus in one process, with several clients on it, and the acts that a scenario can tell them
 * to do.
 *
 * The clients are the engine (record 0), the subject (the one that is stepped, killed or stopped),
 * another one, and a newcomer that attaches later. All their private memory and the segment itself
 * lie in one struct, so that one copy saves a whole scene or puts it back. Keys and values are
 * numbered: key k has fixed bytes, a value is {tag, length}, its bytes follow from these, and each
 * reading verifies them.
 *
 * The acts call the functions of ring/op, or with TRIAL_USERS the public calls of the library.
 *
 * Always true: nothing here takes a lock, allocates or calls the system, so a signal handler may do
 * acts.
 */
#ifndef SB_TESTS_SCENE_H
#define SB_TESTS_SCENE_H

#include "libclient/core/bus.h"
#include "ring/log/batch.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

#define SCENE_IMAGE_MAX (48u << 10)
#define SCENE_KEYS      10
#define SCENE_HEAP      (40u << 10) /* of a client that makes the public calls */
#define SCENE_SPACE     1024u
#define SCENE_CROWD     160u
#define SCENE_VALUE_MAX 8192u
#define SCENE_WATCHES   3u /* of a client */

enum scene_actor { ENGINE, SUBJECT, OTHER, NEWCOMER, SCENE_PEERS };

enum act_kind {
        ACT_END,
        SET,      /* key, tag, len */
        CAS,      /* key, tag, len, expect */
        DELETE,   /* key, expect */
        GET,      /* key; the guard is released at once */
        GET_MANY, /* keys key .. key + len - 1 */
        HOLD,     /* key; the guard stays */
        LET_GO,   /* reads what is held, then releases it */
        SCAN,     /* snapshot opened, walked, closed */
        SNAPSHOT, /* opened and kept open */
        SNAPSHOT_READ,
        SNAPSHOT_END,
        GROW_GUARDS, /* memory for guard word len */
        WORK,        /* sb_work_all; len: whole sweep */
        DUE,         /* sb_reclaim_due */
        SWEEP,       /* all units once */
        /* slices, as a write does them that finds no memory, until one lap is over; with a len,
         * code: how many deleted keys are left beyond the one that a stopped client is taking out
         */
        LAP,
        STABLE, /* sb_stable_raise */
        TICK,   /* sb_work_tick */
        ATTACH, /* the engine claims a record for client `key`, which starts on it */
        DETACH, /* sb_handle_fini */
        REAP,   /* the engine reaps client `key` */
        /* a new engine takes over from a dead one, and reaps it and every client that is not alive
         */
        ADOPT,
        FILL, /* keys from key on get ever smaller values until no block is left for any */
        MARK, /* name the present cut "m" */
        MARK_DROP,
        MARK_FIND, /* seen[0].rev: whether that mark exists */
        KEEP,      /* a rule for all keys: the last `len` versions; 0: none; KEEP_ALL */
        EVICT,     /* the engine evicts the snapshots of client `key` */
        VALIDATE,  /* sb_check, not quiescent; code: number of problems */
        TXN, /* keys key .. in one transaction, again and again while it conflicts; len: below */
        TXN_COMMIT, /* the same, one attempt, at the cut that SNAPSHOT opened; closes it */
        /* the same keys become what they were at the cut that SNAPSHOT opened, as sb_restore()
         * does; users: all keys, by that call, and as in the cut of mark "m"; len: below */
        RESTORE,
        /* users only: */
        PAST, /* the first len keys, or all, in the cut that mark "m" had */
        /* all versions of the key that are left, newest first, in seen[]; with a len they are only
         * read: while others take them away, no moment has them all */
        HISTORY,
        GET_MANY_AT, /* as GET_MANY, at one moment */
        SCAN_MANY,   /* as SCAN, two keys with each call, below an end that lies above all keys */
        SCAN_SEEK,   /* as SCAN, each key by going behind it and one back, and before it and on */
        CLEAR,       /* all keys are deleted at one moment; rev: how many had a value */
        UPDATE,      /* key, tag, len: by sb_update(), which reads before it writes */
        /* key, tag, len bytes of key and value, or the key alone (0: deletes): written, and no
         * block is left in its unit; expect: so many more units have none */
        APART,
        THIN,  /* what APART took is free again, and the client owns no slab */
        LARGE, /* key, tag, len: set, read, deleted; while a stopped client is pinned: or full */
        /* watches of a client have numbers, which are in len: */
        WATCH, /* key; tag: after this revision, 0: from now on; expect: THEN: twice as deep, STALE:
                  it drops */
        WATCH_NEXT,  /* key: what it gives without waiting; rev: of the change */
        WATCH_CLOSE, /* key */
        WAIT,        /* sb_wait(), without sleeping */
        SLEEP,       /* sb_wait(): the client sleeps until its next act, or code 0: it did not */
        STAND,       /* the same, when its descriptor waits in its place */
        /* a watch of all keys that begin with the first `tag` bytes of `key`; WATCH_NEXT, key: that
         * one; expect THEN: from the cut of mark "m" on, which the setup made */
        PREFIX,
        /* a batch of the client's log, which begins with the first; len: below; seen: what its disk
         * has then */
        LOG,
        PRESSED, /* all memory work, of a client that waits for memory */
};

/* Of a batch, in len. */
#define LOG_ANEW  1u /* by a log that begins anew, from `durable` on */
#define LOG_FAILS 2u /* the disk does not take it */
/* a copy of the bus begins with what is marked; each batch behind it has 64 buckets more of it */
#define LOG_COPIES 4u

/* Of a transaction, in len: how many keys it writes, and how. */
#define TXN_KEYS(len)    ((len)&15u)
#define TXN_SERIALIZABLE 0x10u  /* reads all keys, as a range; else the keys that it writes */
#define TXN_ADD          0x20u  /* the new tag is `tag` plus the sum of the tags that it read */
#define TXN_DELETE       0x40u  /* deletes the keys that have a value */
#define TXN_LARGE        0x80u  /* values of 600 bytes, else of 10 */
#define TXN_MANY         0x100u /* users: with TXN_SERIALIZABLE, all keys by one call */
#define TXN_LONGER       0x200u /* users: values of 40 bytes */

/* Of a rule by the public call, in len: all versions are kept; in tag: of the key alone. */
#define KEEP_ALL 0xffffu
#define KEEP_ONE 1u

/* Of a restore by the public call, in len. */
#define RESTORE_ONE  1u /* the key alone */
#define RESTORE_GONE 2u /* its rule may be gone: then the call may say that this past is lost */

/* What a compare and swap expects. */
enum act_expect {
        ANY = 0,
        NOTHING,
        THEN,
        STALE
}; /* THEN: the revision when the setup was done; STALE: one below */

struct act {
        uint8_t actor, kind, key, tag;
        uint16_t len;
        uint8_t expect;
};

struct fact {           /* what a key holds */
        uint32_t state; /* FACT_NONE, FACT_VALUE, FACT_BROKEN */
        uint32_t tag, len;
        uint64_t rev;
};
enum { FACT_NONE, FACT_VALUE, FACT_BROKEN };

struct result {
        int code;
        uint64_t rev;
        struct fact seen[SCENE_KEYS]; /* by key */
};

/* What a watch of a prefix has given last. */
struct scene_prefix {
        bool stands;
        bool drops;        /* it has room for two */
        uint32_t key, len; /* it begins with the first `len` bytes of this key */
        uint64_t cut;      /* of the last change */
        struct {
                bool known, value; /* known: nothing was lost since, or since the watch began */
                uint64_t rev;      /* 0: none yet */
        } last[SCENE_KEYS];
};

struct scene_log {
        bool stands;
        struct sb_batch batch;
        uint64_t space[8];
};
/* What is durable; facts[current] counts. */
struct scene_disk {
        uint32_t current;
        struct fact facts[2][SCENE_KEYS];
        struct fact copy[2][SCENE_KEYS]; /* what the batches of the copy under way say alone */
        bool copied_wrong;               /* a copy that was whole was not what the disk has */
};

struct scene {
        struct sb_segment segment;                    /* the tests' own handle of it */
        struct sb_bus bus[SCENE_PEERS];               /* with each client's handle */
        uint64_t space[SCENE_PEERS][SCENE_SPACE / 8]; /* the handles' */
        bool attached[SCENE_PEERS];                   /* and alive */
        uint32_t cursor[SCENE_PEERS];
        uint32_t snapshot[SCENE_PEERS];
        uint64_t snapshot_cut[SCENE_PEERS];
        bool snapshot_was_read[SCENE_PEERS];      /* the snapshot that is open */
        struct result snapshot_read[SCENE_PEERS]; /* at the last reading */
        struct sb_version *held[SCENE_PEERS];
        uint64_t then[SCENE_KEYS]; /* revisions when the setup was done */
        uint32_t key_count;
        /* Clients other than the engine make the public calls. Their private heaps follow the
         * image. */
        bool users;
        uint32_t running;                   /* the client of which an act is under way */
        struct sb_guard guard[SCENE_PEERS]; /* users: by HOLD */
        struct sb_txn *txn[SCENE_PEERS];    /* users: by SNAPSHOT */
        struct sb_watch *watch[SCENE_PEERS][SCENE_WATCHES];
        uint32_t watch_key[SCENE_PEERS][SCENE_WATCHES];
        uint64_t watch_rev[SCENE_PEERS][SCENE_WATCHES]; /* the last one that came; 0: none yet */
        struct scene_prefix prefix[SCENE_PEERS][SCENE_WATCHES];
        struct scene_log log[SCENE_PEERS];
        struct scene_disk disk;
        uint32_t stepped; /* the client that is */
        bool is_set_up;
        bool asleep[SCENE_PEERS], woken[SCENE_PEERS];
        void *bed[SCENE_PEERS][5]; /* where a call that sleeps is left */
        uint32_t strays;           /* users: guards that showed bytes of nothing here */
        uint64_t marked_cut;
        struct fact marked[SCENE_KEYS]; /* what the keys had in it */
        uint64_t ways_given;            /* behind lost races for a word */
        uint64_t slept_ns;              /* by writes that wait for memory, at work or asleep */
        uint64_t crowd[SCENE_CROWD];    /* blocks that APART took */
        uint32_t crowd_count;
        size_t image_size;
        unsigned char image[SCENE_IMAGE_MAX + SCENE_PEERS * SCENE_HEAP]
                __attribute__((aligned(4096)));
};

static inline struct sb_handle *scene_handle(struct scene *scene, uint32_t actor)
{
        return &scene->bus[actor].handle;
}

/* Whether the scenes made from now on have keys of 8 to 32 bytes, with which the common operations
 * go the short way, or other ones, of which most are too short for that here. */
void scene_use_long_keys(bool use);
/* Whether the clients of scenes made from now on make the public calls. */
void scene_use_calls(bool use);
/* heap.c: an empty heap for a client that begins. */
void scene_heap_begin(struct scene *scene, uint32_t actor);
/* scene-users.c: does an act by the public calls. Return: false: it has none of its own. */
bool scene_call(struct scene *scene, const struct act *act, struct result *ret);
/* The key of what a guard shows; SCENE_KEYS: none. */
uint32_t scene_guard_key(const struct sb_guard *guard);
/* What a guard shows, as a value of this key. */
struct fact scene_guard_fact(struct scene *scene, const struct sb_guard *guard, uint32_t key);
/* Makes the bus and attaches the engine, the subject and the other client. @one_home: all keys have
 * the same home bucket. Return: 0, -errno. */
int scene_make(struct scene *scene, const struct sb_geometry_wish *wish, uint32_t key_count,
        bool one_home);
/* The client claims a record, from number @first on, and begins. Return: 0, SB_E_*, -errno. */
int scene_attach(struct scene *scene, uint32_t actor, uint32_t first);
/* Does what a new engine does: it reaps its predecessor from the predecessor's own record, takes
 * the record, and reaps all clients that are not alive. Return: as above. */
int scene_adopt(struct scene *scene);
/* Remembers the revisions for THEN and STALE. */
void scene_set_up(struct scene *scene);
/* scene-acts.c: does an act. */
void scene_do(struct scene *scene, const struct act *act, struct result *ret);
/* A free block may hold any bytes. This overwrites the free blocks, except where @stopped may be
 * about to take one. */
void scene_poison(struct scene *scene, enum scene_actor stopped);
/* Counts the keys with a newest version that is committed without a stamp, or is an intent that no
 * client has settled. */
uint32_t scene_unstamped(struct scene *scene);
/* What an observer sees at @cut, which stamps nothing. */
void scene_observe(struct scene *scene, uint64_t cut, struct fact ret[SCENE_KEYS]);
/* scene-watch.c: does an act about watches. Return: false: it is none. */
bool scene_watch(struct scene *scene, const struct act *act, struct result *ret);
/* scene-prefix.c: watches of prefixes, which scene-watch.c leaves to it. */
void scene_prefix_open(struct scene *scene, const struct act *act, struct result *ret);
void scene_prefix_next(struct scene *scene, const struct act *act, struct result *ret);
/* scene-log.c: does an act about the log. Return: false: it is none. */
bool scene_log(struct scene *scene, const struct act *act, struct result *ret);
/* What the watch begins at is what the keys have now: no client is in the middle of a write. */
void scene_prefix_begin(struct scene *scene, uint32_t actor, uint32_t watch);
/* Where the watch has given all: a key that it did not give as it is; SCENE_KEYS: there is none. */
uint32_t scene_prefix_missing(struct scene *scene, uint32_t actor, uint32_t watch);
/* The system's part of sleeping and waking; a client that sleeps wakes up for its next act. */
int scene_wait(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns);
void scene_wake(void *context, struct sb_word32 *word);
void scene_wake_up(struct scene *scene, uint32_t actor);
/* scene-rows.c: does an act about units in a row. Return: false: it is none. */
bool scene_rows(struct scene *scene, const struct act *act, struct result *ret);
/* Whether a client besides this one is pinned. A stopped one keeps all memory that goes meanwhile.
 */
bool scene_other_is_pinned(struct scene *scene, uint32_t actor);
/* Now, for the clients. */
uint64_t scene_time(const struct scene *scene);
/* Does an act that is a transaction. */
void scene_txn(struct scene *scene, const struct act *act, struct result *ret);
/* What a version is as a value of this key; NULL: none. */
struct fact scene_fact_of(struct scene *scene, struct sb_version *version, uint32_t key);
/* Bytes of the value with this tag. */
const unsigned char *scene_value(uint32_t tag);
/* Reads all keys by get. */
void scene_facts(struct scene *scene, enum scene_actor actor, struct fact ret[SCENE_KEYS]);
size_t scene_size(const struct scene *scene); /* bytes to copy for a whole scene */
const char *scene_act_text(const struct act *act);
struct sb_bytes scene_key(uint32_t key);
/* Number of the key with these bytes, or SCENE_KEYS. */
uint32_t scene_key_number(const void *data, size_t len);
bool scene_fact_equal(const struct fact *a, const struct fact *b, bool revisions);

#endif
