/*
 * What the processes of the storm over watched prefixes (api-prefix-storm) share: its keys, the
 * table in which each says how far it has come, and what they are.
 */
#ifndef SB_TEST_PREFIX_STORM_H
#define SB_TEST_PREFIX_STORM_H

#include <inttypes.h> /* for COMPLAIN() */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "libclient/statebus.h"
#include "tests/api/daemon.h"

#define WATCHERS 7u
/* It drops what its queue has no room for. */
#define DROPPING 6u
#define WRITERS  3u
#define WORKERS  (WATCHERS + WRITERS)
#define KEYS     6u  /* that keep their lives: each is watched by itself, too */
#define COMING   40u /* that come and go */
#define ALL      (KEYS + COMING)

struct storm_table {
        struct {
                pid_t pid;
                bool stopped;
                uint64_t last[KEYS]; /* of a watcher: the revision that it has come to */
                /* Of one that drops: the sum of these, with what it dropped; deaths when it began.
                 */
                uint64_t seen, deaths;
                uint64_t given, dropped, lapped, late, scans, txns;
        } place[WORKERS];
        bool over;  /* writers end */
        bool asked; /* the queue is woken to say what it dropped: nothing else comes any more */
        char complaint[160];
};
extern struct storm_table *table;

#define COMPLAIN(...)                                                                              \
        do {                                                                                       \
                snprintf(table->complaint, sizeof(table->complaint), __VA_ARGS__);                 \
                _exit(1);                                                                          \
        } while (0)

struct sb_bytes key_of(unsigned key);

/* Return: ALL where it is no key of the storm's. */
unsigned number_of(const struct sb_guard *guard);

struct sb_bus *attach(const struct daemon *daemon);

/* The revision of a key at a cut, of a delete too where the key's life is kept; 0: none. */
uint64_t revision_at(struct sb_bus *bus, unsigned key, uint64_t cut);

/* ---- prefix-storm-watcher.c ---- */

/* What a watcher knows of each key. */
struct known {
        enum { UNKNOWN, ABSENT, PRESENT } state;
        uint64_t rev; /* 0: not known */
};

struct follower {
        struct sb_bus *bus;
        struct sb_watch *watch;
        struct sb_bytes prefix;
        unsigned place;
        struct known known[ALL];
        uint64_t cut, txn; /* of the last change */
        unsigned txn_left;
        /* Of a queue that drops: revisions; how many changes of those before a change, and in all,
         * were dropped, as it says; revisions that it skipped. */
        uint64_t seen, missed, dropped, gaps;
};

/* Scan at the watch's cut: what a watcher knows from there on. */
void look_at_all(struct follower *follower);

/* A transaction comes whole: what of it the watch sees, @place in a value of its says. */
void follow_txn(struct follower *follower, const struct sb_guard *change, unsigned place);

/* Until something is there, in a call or, @fd not negative, on it. Return: 0, -EINTR. */
int sleep_on(struct sb_bus *bus, int fd);

/* Watch everything. It does not return. */
void be_watcher(const struct daemon *daemon, unsigned place);

/* ---- prefix-storm-queue.c ---- */

/* Watch the keys that keep their lives, with a queue that drops. It does not return. */
void be_queue(const struct daemon *daemon, unsigned place);

#endif
