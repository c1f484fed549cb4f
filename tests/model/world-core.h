/* The inside of the scenarios: world.c (what threads do), keys.c (how they write and read), start.c
 * (start states) and judge.c (checks at the end) share this. */
#ifndef TESTS_MODEL_WORLD_CORE_H
#define TESTS_MODEL_WORLD_CORE_H

#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/prefix.h"
#include "ring/log/batch.h"
#include "ring/op/watch.h"
#include "ring/op/write.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "tests/model/world.h"

#define PEERS       (MODEL_THREADS + 1)
#define NOTE_DONE   0u               /* + key: the highest finished revision */
#define NOTE_OVER   WORLD_KEYS       /* how many operations each thread has finished, 8 bits each */
#define NOTE_STABLE (WORLD_KEYS + 1) /* the highest stable cut that was seen */
#define NOTE_MARKS  (WORLD_KEYS + 2) /* the same of where the marks end */
#define NOTE_TOLD   (WORLD_KEYS + 3) /* of the last write that was finished: its cut */
#define NOTE_FLOOR  (WORLD_KEYS + 4) /* the highest floor of births */
#define NOTE_LIMIT  (WORLD_KEYS + 5) /* the highest floor of history */
#define NOTE_SLEEPS (WORLD_KEYS + 6) /* so often a client began to sleep */
#define NOTE_WAKES  (WORLD_KEYS + 7) /* so often one was woken by a system call */
#define WORLD_SPACE 1024u            /* bytes of a handle's space */
#define DEAD_PEER   (PEERS - 1)      /* of START_DEAD */

/* What one operation answered. */
struct outcome {
        bool ran, finished;
        int r;
        uint64_t rev, cut, done_before;
        uint64_t done_all[WORLD_KEYS]; /* before a snapshot, or a get of all */
        uint64_t seen[WORLD_KEYS];     /* revisions with a value, 0 for none */
        /* In scenarios with transactions (serial.c): */
        uint64_t over_before;           /* NOTE_OVER */
        uint32_t tags[WORLD_KEYS];      /* which operation wrote what was seen */
        uint8_t looked, wrote, deleted; /* keys: seen[] counts; what the commit wishes */
        bool begun;                     /* read_cut is valid */
        uint64_t read_cut;
        uint32_t cause;
};
#define TAG_SETUP 40u /* and above: the start state's */
#define NO_TAG    UINT32_MAX

#define WORLD_MARK "s" /* of START_MARKED and those like it */

/* What a user holds of a key from one operation to the next. */
struct world_guard {
        struct sb_guard guard;
        uint32_t tag;
        uint64_t rev;
};

#define WATCH_DEPTH   SB_WATCH_DEPTH /* slots of a ring */
#define WATCH_GOT_MAX 12u
#define WATCH_BIT     1u /* each client has one watch */
/* What a watch gave; tag: NO_TAG: a tombstone. */
struct world_change {
        uint64_t rev, missed;
        uint32_t tag;
};
struct world_watch {
        struct sb_op_watch op;
        struct sb_anchors anchors; /* of one that drops */
        bool deep;                 /* twice the depth */
        bool drops;                /* it keeps the first WATCH_DEPTH, and drops what comes then */
        bool open, lapped;
        bool idle;                     /* the last look found nothing */
        const struct sb_version *held; /* by guard 0: the last change, if no look came since */
        enum world_key key;
        uint64_t start;
        uint32_t count;
        struct world_change got[WATCH_GOT_MAX];
        struct sb_watch *user; /* users: instead of op, of which `last` alone counts */
        struct sb_guard guard; /* users: the last change */
};

#define PREFIX_GIVEN_MAX   24u
#define PREFIX_SPANS_MAX   6u
#define PREFIX_WRITTEN_MAX 16u
#define PREFIX_ROOM        2u
/* A change that a watch of a prefix gave, or that was written; tag: NO_TAG: a tombstone; txn: 0:
 * none. */
struct world_given {
        uint64_t rev, cut, txn;
        uint32_t tag;
        uint8_t key;
};
/* From where a watch of a prefix began, or began anew, up to a cut to which all is given. */
struct world_span {
        uint64_t begun, reached;
        uint64_t dropped; /* by then */
        uint32_t first;   /* of what was given */
        bool lapped;      /* it ended so */
};
struct world_prefix {
        bool open;
        struct sb_prefix_watch *watch; /* NULL: users: */
        struct sb_watch *user;         /* its last change is held by its thread's watch's guard */
        bool within;                   /* of keys that begin as @key does; else of all */
        bool drops;                    /* it has room for PREFIX_ROOM */
        uint32_t given_first;          /* by looks that take one change */
        bool idle;                     /* the last look found nothing */
        bool told;                     /* the next one takes a cut, whatever hints say */
        enum world_key key;
        const struct sb_version *held; /* by guard 0: the last change, if no look came since */
        uint32_t count, span_count;
        uint64_t viewed, view[WORLD_KEYS]; /* OP_VIEW: the cut, or 0; revisions, or 0 */
        struct world_span span[PREFIX_SPANS_MAX];
        struct world_given given[PREFIX_GIVEN_MAX];
};

#define LOG_SPACE       8u
#define LOG_BATCHES_MAX 8u
#define LOG_GIVEN_MAX   40u
/* A batch, and what was read at its cut in another way: revisions with a value, 0 for none. */
struct world_batch {
        uint64_t cut, above;
        bool read, whole, written, ended;
        bool copies, copy_begins, copy_ends; /* it has a piece of a copy: the first, the last one */
        uint32_t first, count;               /* of what was given */
        uint64_t seen[WORLD_KEYS];
        uint32_t tags[WORLD_KEYS];
};
struct world_log {
        bool open, narrow; /* narrow: there is room for one version */
        bool copy_begins;  /* with the next batch */
        uint32_t room, batch_count, given_count;
        struct sb_batch batch;
        uint64_t space[LOG_SPACE];
        struct world_batch batches[LOG_BATCHES_MAX];
        struct world_given given[LOG_GIVEN_MAX];
};

struct world_state {
        struct sb_bus peers[PEERS];             /* 0: the engine's */
        struct sb_handle guests[MODEL_THREADS]; /* OP_ATTACH */
        uint64_t spaces[PEERS + MODEL_THREADS][WORLD_SPACE / 8];
        bool here[MODEL_THREADS]; /* a guest holds its record */
        struct sb_version *held[MODEL_THREADS];
        enum world_key held_key[MODEL_THREADS];
        struct outcome outcomes[MODEL_THREADS][WORLD_OPS];
        uint64_t start_rev[WORLD_KEYS];  /* highest ever given */
        uint64_t start_seen[WORLD_KEYS]; /* with a value; 0 none */
        uint64_t start_cut[WORLD_KEYS];  /* stamp of start_rev */
        uint32_t engine_snapshot;
        uint64_t engine_cut, past_seen;
        /* which operations wrote what the keys were at the start state's mark; NO_TAG: no value */
        uint32_t mark_tag[WORLD_KEYS];
        bool left[PEERS];
        bool adopted, reaped;
        bool serial; /* the scenario has transactions: serial.c judges */
        uint32_t early_index[MODEL_THREADS];
        uint64_t early_cut[MODEL_THREADS];
        struct sb_descriptor *prepared[MODEL_THREADS];
        struct world_guard guards[MODEL_THREADS][WORLD_KEYS];
        struct sb_txn *early_txn[MODEL_THREADS];
        uint32_t start_tag[WORLD_KEYS], setup_writes;
        uint32_t mimic_word; /* what could be a block's retire word in large values; 0: nothing */
        uint32_t move_unit[WORLD_KEYS]; /* of the start state's committed head */
        struct world_watch watches[MODEL_THREADS];
        uint64_t watch_after;
        struct world_prefix prefixes[MODEL_THREADS];
        struct world_given written[PREFIX_WRITTEN_MAX]; /* since these began, at the start */
        uint32_t written_count;
        uint64_t prefix_after;
        struct world_log logs[MODEL_THREADS + 1]; /* the last one: the engine's */
        uint64_t end_seen[WORLD_KEYS];            /* with a value; 0 none */
        uint32_t end_tag[WORLD_KEYS];
};
extern struct world_state world;
/* keys.c. In order. A and B can go the short ways (shm/mvcc/find-plain.h), unless
 * spec()->short_keys; C cannot. */
const char *world_key(enum world_key key);
static inline uint32_t world_key_len(enum world_key key)
{
        return (uint32_t)strlen(world_key(key));
}

static inline const struct world_spec *spec(void)
{
        return model_spec();
}

static inline struct sb_handle *world_peer(uint32_t number)
{
        return &world.peers[number].handle;
}

static inline uint32_t world_number(const struct sb_handle *handle)
{
        const char *bus = (const char *)handle - offsetof(struct sb_bus, handle);

        return (uint32_t)((const struct sb_bus *)bus - world.peers);
}

static inline struct sb_bus *bus_of(uint32_t thread)
{
        return &world.peers[spec()->engine && !thread ? 0 : thread + 1];
}

static inline struct sb_handle *handle_of(uint32_t thread)
{
        return world_peer(spec()->engine && !thread ? 0 : thread + 1);
}

/* The space of a peer, or of a guest: numbers from PEERS on. */
void *world_space(const struct sb_segment *segment, uint32_t number);

static inline bool is_write(enum world_op_kind kind)
{
        return kind == OP_SET || kind == OP_PUT || kind == OP_LARGE || kind == OP_ATTACH ||
               kind == OP_CAS || kind == OP_CREATE || kind == OP_DELETE;
}

#define VALUE_LEN     8u   /* the least of the short ways */
#define SLICES        2u   /* of a sweep: so many an operation does that finds no memory */
#define SLICES_MOVING 6u   /* the same where versions move first */
#define VALUE_TINY    2u   /* with any key in the class of tombstones and placeholders */
#define VALUE_UNIT    160u /* one unit */
#define VALUE_LARGE   300u /* two units */
#define VALUE_MAX     VALUE_LARGE
#define TOMBSTONE     UINT32_MAX

static inline uint32_t world_tag(uint32_t thread, uint32_t op)
{
        return thread * WORLD_OPS + op;
}

/* A value says which operation wrote it: world_tag(), or TAG_SETUP and above. @value_len:
 * VALUE_LEN, VALUE_TINY, TOMBSTONE or that of a large block. */
int world_write(struct sb_handle *handle, enum world_key key, uint32_t value_len, uint64_t expected,
        uint32_t tag, struct sb_op_result *ret);
/* Does an operation that writes its key, or OP_ATTACH's writing. */
void world_write_run(
        struct sb_handle *handle, const struct world_op *op, uint32_t tag, struct outcome *outcome);
/* Does an operation that writes or reads keys. Return: false: the operation is none of these. */
bool world_keys_run(uint32_t me, struct sb_handle *handle, const struct world_op *op, uint32_t tag,
        struct outcome *outcome);
/* Checks that a version is whole: its own key, a revision, a value that an operation wrote. */
void world_check_version(const struct sb_version *version, enum world_key key);
/* A value that was seen, or NULL: none. */
void world_see(struct outcome *outcome, enum world_key key, const struct sb_version *version);
void world_fill_value(unsigned char *value, uint64_t len, enum world_key key, uint32_t tag);
/* Reads the first @keys keys in order. */
void world_scan(struct sb_handle *handle, uint64_t cut, uint32_t keys, struct outcome *ret);
/* A size of blocks: larger than versions of VALUE_LEN. */
uint64_t world_passing_size(const struct sb_segment *segment);
/* observer.c: reads the key at the stable cut, twice; the same by an observer that comes and goes;
 * reads all keys. */
void world_observe(struct sb_handle *handle, const struct world_op *op);
void world_arrive(struct sb_handle *handle, const struct world_op *op);
void world_look(struct sb_handle *handle, struct outcome *outcome);
/* txn.c */
void world_txn_run(uint32_t me, struct sb_handle *handle, const struct world_op *op, uint32_t tag,
        struct outcome *outcome);
/* Whether any thread does it. */
bool world_does(enum world_op_kind kind);
/* Whether some thread has a watch of a key that drops. */
bool world_has_queue(void);
/* Whether cuts may be taken away; whether the start state's mark may be. */
bool world_evicts(void);
bool world_drops(void);
/* The setup of aborted intents, and of transactions that begin early. */
void world_txn_start_placeholder(struct sb_handle *handle, enum world_key key);
void world_txn_start_aborted(struct sb_handle *handle, enum world_key in, enum world_key changed);
void world_txn_start_early(void);
/* serial.c: some order of all that was done explains all that was seen. */
void world_serial_judge(void);
/* Does what a new engine does with the record of the one before it. */
void world_adopt(void);
/* Reaps every record that belongs to no handle of the scenario. */
void world_reap_strangers(void);
/* mover.c: what lives in the unit of the key's version moves. */
void world_move(struct sb_handle *handle, const struct world_op *op, struct outcome *outcome);
/* Behind the start state: what @handle made of it lies in units without an owner. */
void world_move_start(struct sb_handle *handle);
/* All clients are gone: no rule and no cut keeps an original below its copy. */
void world_move_judge(struct sb_handle *engine);
/* watcher.c: watches of a key; those that are open at the start; what they gave, and whether one
 * sleeps that has something to see. */
void world_watch_run(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome);
void world_watch_start(void);
/* As model_os; counts the wakes. */
const struct sb_os *world_os(void);
void world_watch_judge(struct sb_handle *engine);
uint64_t world_watch_hash(uint64_t hash);
/* prefixes.c: watches of a prefix. Return: false: the operation is none of theirs. */
bool world_prefix_run(uint32_t me, const struct world_op *op, struct outcome *outcome);
/* Those that are open at the start; they read all; those of threads that do something end; a write
 * at the start. */
void world_prefix_start(void);
void world_prefix_start_read(void);
void world_prefix_start_end(void);
void world_prefix_note(enum world_key key, uint64_t rev, uint64_t cut, uint32_t tag);
/* The next change. Return: 0, SB_E_LAPPED, SB_E_TIMED_OUT; @deadline_ns counts for users. */
int world_prefix_look(uint32_t me, struct world_prefix *prefix, uint64_t deadline_ns);
/* As the same of watches of a key. */
void world_prefix_judge(struct sb_handle *engine);
uint64_t world_prefix_hash(uint64_t hash);
/* logger.c: a batch of the thread's log. Return: false: the operation is none of theirs. */
bool world_log_run(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome);
/* Those that are there at the start make a batch. */
void world_log_start(bool durable);
/* A thread was reaped: if it had a log, the next one begins. */
void world_log_reaped(struct sb_handle *engine, uint32_t dead);
bool world_log_stands(void);
/* Each batch is the bus at its cut; one more, before the clients leave; another one, behind that.
 */
void world_log_judge(void);
void world_log_go_on(struct sb_handle *engine);
void world_log_end(struct sb_handle *engine);
uint64_t world_log_hash(uint64_t hash);
/* past.c: operations on the past; and the end of what they leave for good. */
void world_past_run(struct sb_handle *handle, const struct world_op *op, struct outcome *outcome);
void world_past_clean_up(struct sb_handle *engine);
/* users.c: does an operation by the public calls. Return: false: it has none of its own. */
bool user_run(uint32_t me, const struct world_op *op, uint32_t tag, struct outcome *outcome);
/* users-prefix.c: begin; the next change, which the watch's guard holds until the next look; sleep
 * until it comes, @any: for any watch of the client. */
void user_prefix_open(uint32_t me, const struct world_op *op, struct outcome *outcome);
void user_prefix_view(struct world_prefix *prefix);
void user_prefix_let_go(uint32_t me, const struct world_prefix *prefix);
int user_prefix_next(uint32_t me, struct world_prefix *prefix, uint64_t deadline_ns);
void user_prefix_sleep(uint32_t me, struct world_prefix *prefix, bool any);
/* users-watch.c: the next change of a watch; what it gives at the end. */
int user_watch_next(struct world_watch *watch, uint64_t deadline_ns);
void user_watch_judge(uint32_t thread);
/* The guard words that its last change holds, a bit for each. */
uint64_t user_watch_holds(uint32_t thread);
/* The thread's bus, when it has finished. */
void user_check_idle(uint32_t me);
struct sb_txn *user_begin(struct sb_bus *bus, const struct world_txn *what);
/* The scenario's setup and check. */
void world_start(void);
void world_judge(void);

#endif
