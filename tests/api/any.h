/*
 * A bus and a model of it: what the parts of api-any share.
 *
 * One thread does what chance says, through a few buses of one world, and keeps beside it what must
 * be true: for each key all changes that it ever had, each with its revision, its cut, its value.
 * So the model says what a key was in any cut. What a call gives is compared with that, byte by
 * byte, at once; and what a guard shows is compared again when it is released, however late.
 *
 * Where the bus may answer that it does not know (SB_E_LAPPED), or has no room (SB_E_FULL), both
 * are right: but not where a mark keeps the cut, or a rule all versions of the key; and never may
 * an answer be wrong.
 *
 * Always true: all keys, and all that is drawn, follow from the seed. The first thing that is wrong
 * ends the program, with seed and step.
 */
#ifndef SB_TEST_ANY_H
#define SB_TEST_ANY_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"
#include "tests/api/world.h"

#define ANY_KEYS    64u
#define ANY_KEY_LEN 1024u
#define ANY_BUSES   3u
#define ANY_GUARDS  48u
#define ANY_CUTS    64u
#define ANY_MARKS   7u
#define ANY_RULES   6u
#define ANY_SCANS   6u
#define ANY_TXNS    5u
#define ANY_WALKS   4u
#define ANY_WATCHES 4u

struct any_change {
        uint64_t rev, cut, txn; /* rev 0: of a delete of which it is not known */
        uint64_t time_ns;       /* at which it was written; 0: not known */
        char *value;
        uint32_t len;
        bool gone, txn_unknown;
};

struct any_key {
        struct any_change *change;
        uint32_t count, capacity, len;
        unsigned char bytes[ANY_KEY_LEN];
};

struct any_mark {
        uint64_t cut;
        uint32_t len;
        bool there;
        unsigned char name[ANY_KEY_LEN];
};

#define ANY_GONE 60u /* a bus has room for a few more */
struct any_rule {
        uint64_t value, since; /* since: a cut from which on it covers; UINT64_MAX: not known */
        uint32_t kind, len;
        bool prefix, there;
        unsigned char bytes[ANY_KEY_LEN];
};

/* What a transaction is to write into a key. */
enum any_kind { ANY_NOTHING, ANY_VALUE, ANY_DELETE };
struct any_write {
        enum any_kind kind;
        char *value;
        uint32_t len;
};

struct any_txn {
        struct sb_txn *txn; /* NULL: none is open */
        uint32_t bus;
        bool serializable, decided;
        bool lost; /* its cut was taken away */
        bool read[ANY_KEYS];
        uint64_t cut, reads_len; /* of what it has read, at most */
        struct any_write write[ANY_KEYS];
};

struct any_watch {
        struct sb_watch *watch; /* NULL: none is open */
        uint32_t bus, key, len; /* of one key; ANY_KEYS: of all with a prefix */
        uint32_t depth;         /* changes that are kept at least */
        uint32_t opened;        /* the first change that came since then; 0: all did */
        bool drops, after, held, lapped;
        uint32_t forgotten;      /* lapped: the changes of a key that had no value then; or 0 */
        uint32_t next[ANY_KEYS]; /* the change that comes next */
        uint64_t begun, last;    /* the cut at which it began, that of the last change */
        unsigned char prefix[ANY_KEY_LEN];
};

extern const char *any_test; /* the name of the test */
extern struct any {
        uint64_t seed, step, random;
        struct sb_bus *bus[ANY_BUSES];
        struct any_key key[ANY_KEYS]; /* ascending */
        uint32_t key_count, key_len_max;
        uint64_t value_len_max;
        uint64_t time_ns; /* of the bus's clock; 0: it is not the test's own */
        uint64_t looks;   /* at it, while it hurries */
        bool hurries;     /* it goes on with looks at it: a wait ends soon */
        struct {
                uint64_t cut, time_ns; /* at which it was taken */
        } cut[ANY_CUTS];               /* at which something was read, or can be */
        uint32_t cut_count;
        struct any_mark mark[ANY_MARKS];
        struct any_rule rule[ANY_RULES];
        struct any_rule gone[ANY_GONE]; /* their places; since: when they went */
        uint32_t gone_count;
        struct any_txn txn[ANY_TXNS];
        struct any_watch watch[ANY_WATCHES];
        struct {
                int fd; /* of the bus's descriptor */
                bool has_fd, has_ring, interrupted;
        } wait[ANY_BUSES];
        uint32_t asleep; /* 1 + a bus that sleeps in a call, while others go on; 0: none */
        uint64_t full, lapped, known, conflicts, watched, watch_lapped, watch_scans; /* how often */
        uint64_t slept, shown, rested;
} any;

/* ---- what goes wrong ---- */

void any_fail(const char *file, int line, const char *format, ...)
        __attribute__((format(printf, 3, 4), noreturn));
#define ANY_CHECK(condition, ...)                                                                  \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        any_fail(__FILE__, __LINE__, __VA_ARGS__);                                 \
        } while (0)

/* Whether there was no room, which is counted. */
bool any_is_full(int r);

/* ---- what is drawn ---- */

uint64_t any_below(uint64_t bound); /* 0 .. bound-1; 0 for 0 */
bool any_one_in(uint64_t count);
uint32_t any_bus(void); /* one that is in no call */
uint32_t any_key(void);
/* Until the next call. */
struct sb_bytes any_value(void);
/* Bytes near a key, or a beginning of one. Until the next call but one. */
struct sb_bytes any_near_key(void);
/* A cut of before; 0: there is none yet. */
uint64_t any_cut(void);
/* How to write: with one try for memory; *any_written: where its cut goes, or unused. */
const struct sb_write *any_how(bool with_cut);
extern uint64_t any_written;

/* ---- keys and what they were ---- */

int any_compare(const void *a, size_t a_len, const void *b, size_t b_len);
bool any_begins(const struct any_key *key, const void *prefix, size_t len);
bool any_is_own(struct sb_bytes key); /* the bus's own */
struct sb_bytes any_bytes(uint32_t key);
/* Draw the keys, which have no value yet; forget them. */
void any_make_keys(void);
void any_forget(void);
/* The last change of a key, or NULL; the value in a cut, or NULL; the present one, or NULL. */
struct any_change *any_last(uint32_t key);
struct any_change *any_at(uint32_t key, uint64_t cut);
struct any_change *any_now(uint32_t key);
/* A cut was taken now: nothing that was written is above it. */
void any_saw_cut(uint64_t cut);
struct any_change *any_add(uint32_t key, const struct any_change *change);
/* Whether a new revision is one that can come now. */
bool any_rev_is_next(uint32_t key, uint64_t rev);
/* Whether the bus must know what a key was in a cut. */
bool any_must_know(uint32_t key, uint64_t cut);
bool any_is_marked(uint64_t cut);
const struct any_rule *any_rule_of(uint32_t key);
/* From which cut on that one covers the key: not before a longer one went. */
uint64_t any_since(const struct any_rule *rule, uint32_t key);
/* The cut below which rules keep nothing any more. */
uint64_t any_floor(void);

/* ---- guards ---- */

/* Compare what a guard shows. */
void any_compare_guard(const struct sb_guard *guard, uint32_t key, const struct any_change *change);
/* The same of a key as a transaction sees it at @cut; @txn NULL: without one. */
void any_compare_seen(
        const struct sb_guard *guard, const struct any_txn *txn, uint64_t cut, uint32_t key);
/* Release it, now or some day. */
void any_let_go(struct sb_guard *guard);
void any_release_all(void);
/* A bus has ended: its guards are released. */
void any_guards_end(struct sb_bus *bus);

/* ---- transactions ---- */

bool any_txn_sees(const struct any_txn *txn, uint32_t key);
/* Note that the transaction has read a key. */
void any_txn_read(struct any_txn *txn, uint32_t key);
/* One that is open and not decided, and has its cut; or NULL. */
struct any_txn *any_open_txn(void);

/* ---- watches and waits ---- */

/* How many changes the watch has not given. */
uint64_t any_left_of(const struct any_watch *watch);
/* A watch of the bus that must have something, or NULL; whether this one must. */
const struct any_watch *any_must_have(uint32_t bus);
bool any_must_give(const struct any_watch *watch);
/* Ask for one change; the watch was said to have @has one. Return: whether there may be more. */
bool any_ask(struct any_watch *watch, bool has);
/* A call has looked at the watch, and there was nothing. */
void any_found_nothing(struct any_watch *watch);
/* The deadline of the next call, which waits for the watch (NULL: any of the bus). */
uint64_t any_may_sleep(uint32_t bus, struct any_watch *watch);
/* It has said @r. Return: that; SB_E_TIMED_OUT for what sb_interrupt() has ended before anything
 * came. */
int any_has_slept(int r);
/* The system's wait: nothing but the test itself can end it, so it does what is to come meanwhile,
 * and lets the time pass. */
int any_sleep(struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns);
/* A call has looked at the clock: something may come then, too. */
void any_look(void);
/* The descriptor of the bus, if it has one, can be read, because @why. */
void any_must_show(uint32_t bus, const char *why);

/* ---- the parts; each is one random call of the public interface ---- */

void any_set(void), any_cas(void), any_delete(void), any_number(void), any_append(void);
void any_get(void), any_get_at(void), any_get_many(void), any_take_cut(void), any_cut_at(void);
void any_scan_open(void), any_scan_step(void), any_scan_many(void), any_scan_seek(void);
void any_scan_whole(void);
void any_txn_begin(void), any_txn_set(void), any_txn_delete(void), any_txn_get(void);
void any_txn_commit(void), any_txn_lost(void), any_delete_range(void), any_restore(void);
void any_mark(void), any_keep(void), any_walk(void), any_walk_whole(void);
void any_watch_open(void), any_watch_next(void), any_watch_scan(void), any_tick(void);
void any_wait(void), any_wait_until(void), any_interrupt(void);
void any_fd(void), any_fd_look(void), any_fd_turn(void);

/* The end of what a bus has; ANY_CLOSED: it is closed already, so each says SB_E_DETACHED. */
enum any_end { ANY_OPEN, ANY_CLOSED };
void any_scans_end(uint32_t bus, enum any_end end);
void any_walks_end(uint32_t bus);
void any_txns_end(uint32_t bus, enum any_end end);
void any_watches_end(uint32_t bus, enum any_end end);
void any_fd_end(uint32_t bus); /* it is closed */
/* The cuts that a bus has announced are gone. */
void any_scans_lose(uint32_t bus);
void any_txns_lose(uint32_t bus);
void any_watches_lose(uint32_t bus);
/* Of one transaction that ends: its scans. */
void any_scans_of_txn_end(struct any_txn *txn);

#endif
