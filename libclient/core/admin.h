/*
 * Looking at a bus as a whole, and at the agentd behind it. For agentctl and tests; not installed.
 *
 * These functions treat the segment as hostile input: they show numbers that make no sense, and
 * follow an offset only as far as the segment reaches. Those that take a bus read the segment
 * through it; those that take the name of a bus need no attachment, and so no free record either.
 *
 * Always true: SB_E_DETACHED comes before any look at the segment, and @ret is untouched unless the
 * function returns 0.
 */
#ifndef SB_ADMIN_H
#define SB_ADMIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "shm/layout/report.h"
#include "shm/layout/superblock.h"

/* What the log of a bus has done since the segment was made. */
struct sb_admin_log {
        uint64_t lag_ns;              /* what was written longer ago is durable */
        uint64_t batches, batch_most; /* most: bytes of the largest */
        uint64_t bytes, user_bytes;   /* that were written; keys and values in them that changed */
        uint64_t copies;              /* of the bus, that were written to their end */
        uint64_t copy_done, copy_all; /* of one that goes on, in parts; 0, 0: none does */
        uint64_t syncs[SB_LOG_SYNCS]; /* [n]: last writes of a batch with their syncs that took up
                                         to 2^n us, and more than half of that; the last: and those
                                         that took longer */
};

struct sb_admin_stat {
        uint64_t segment_bytes, huge_bytes;   /* huge: of these, in huge pages */
        uint64_t data_bytes, data_free_bytes; /* of units: what keys, values and guards share */
        uint64_t reserve_bytes;               /* of data_bytes: kept back for tombstones */
        uint64_t held_bytes; /* of data_bytes: stays free, as the bus came back in more than --size
                              */
        uint64_t value_len_max;
        uint32_t key_len_max;
        uint32_t unit_size;
        uint64_t buckets, cells;
        uint64_t cells_used, cells_away; /* away: of keys that are not in their home bucket */
        uint64_t keys, keys_deleted;     /* deleted: the tombstone is still there */
        uint64_t clock, stable;
        uint64_t history_bytes, history_limit; /* kept for rules at the last sweep; 0: no limit */
        uint32_t marks, marks_max;
        uint64_t era;
        uint32_t clients, clients_max; /* the engine, and agentctl in its place, do not count */
        uint64_t engine_generation;
        uint32_t supervisor_pid, engine_pid;
        uint64_t age_ns;
        uint64_t id[2];
        uint32_t durability; /* enum sb_durability that the bus was started with */
        int log_error;       /* errno: why nothing becomes durable now; 0: it does */
        uint64_t durable;    /* the last cut that survives power loss */
        uint32_t log_pid;    /* 0: the log does not run */
        struct sb_admin_log log;
};

struct sb_admin_client {
        uint32_t number; /* what guards call writer; 0: the engine */
        uint32_t pid, uid, access;
        uint64_t age_ns;
        uint32_t guards;
        uint64_t pinned_bytes; /* of the blocks that the guards hold */
        uint32_t snapshots;    /* open cuts */
        uint32_t evicted;      /* cuts that were taken away from it, and not ended yet */
        uint64_t cut;          /* the oldest of the open ones; 0: none */
        uint64_t cut_age_ns;   /* its least possible age */
        bool reading;          /* pinned just now */
        bool sleeps;           /* until one of its watches has something */
        bool is_log;           /* agentd's own process that writes the log */
};

/* One watch. */
struct sb_admin_watch {
        /* The key, or a prefix; it lies in the segment: good for the call that it is given to. */
        struct sb_bytes key;
        bool prefix;
        uint64_t rev;    /* the key's newest one, which may be undecided; of a prefix a count
                            of changes */
        uint64_t place;  /* no other watch that stands now has it */
        uint32_t client; /* number */
        uint32_t bit;    /* by which its client is told */
        uint32_t wakes;  /* a count that moves when the client is woken */
        bool behind;     /* something came since the client last waited */
};
typedef void sb_admin_watch_seen(void *argument, const struct sb_admin_watch *watch);

/* What the units are used for: what keys, values and guards share. */
struct sb_admin_memory {
        uint64_t all_bytes, free_bytes;
        uint64_t values_bytes; /* slabs of versions, and of what transactions and watches need */
        uint64_t keys_bytes;   /* slabs of nodes */
        uint64_t guards_bytes, large_bytes;
        uint64_t emptied_bytes; /* free again as soon as no process can be reading there */
        uint64_t history_bytes; /* of the values: kept for rules at the last sweep */
};

/* Which clients and marks hold which cuts, and how much memory is kept for them. */
#define SB_ADMIN_MARKS UINT32_MAX /* holder of marked cuts */
struct sb_admin_holder {
        uint32_t client;     /* or SB_ADMIN_MARKS */
        uint32_t cut_count;  /* a holder may have the same cut several times */
        uint64_t *cuts;      /* ascending */
        uint64_t held_bytes; /* of the superseded versions that at least one of its cuts needs */
};
struct sb_admin_holders {
        struct sb_admin_holder *holders;
        uint32_t count;
        uint64_t *cuts_;
};

/* Open a bus as agentctl does: also when it has all its clients, unless another agentctl has it
 * open, too. Return: as sb_open(). */
int sb_admin_open(const char *bus, struct sb_bus **ret_bus);

/* What a call of @bus was short of that has just answered SB_E_FULL. */
enum sb_admin_full {
        SB_ADMIN_FULL_MEMORY, /* in the segment */
        SB_ADMIN_FULL_GUARDS, /* 65,536 are held */
        SB_ADMIN_FULL_CUTS    /* as many transactions and scans are open as a bus may have */
};
enum sb_admin_full sb_admin_full(const struct sb_bus *bus);

/* Fill in all of @ret. Return: 0, SB_E_DETACHED. Cost: a walk over all cells and all units. */
int sb_admin_stat(struct sb_bus *bus, struct sb_admin_stat *ret);
/* What the log has met: errno; 0: nothing; -1: the bus has none. Cost: two loads. */
int sb_admin_log_error(const struct sb_bus *bus);

/* Since when, on CLOCK_MONOTONIC, a call of @bus waits for the disk; 0: none does. Any thread may
 * ask. */
uint64_t sb_admin_waits_since(const struct sb_bus *bus);

/* What there is in @stat of the log. */
void sb_admin_log_read(const struct sb_segment *segment, struct sb_admin_stat *stat);
/* What it has done. Zeros: the bus has no log. */
void sb_admin_log_counts(const struct sb_bus *bus, struct sb_admin_log *ret);
/* Have the log copy the whole bus, as it is from now on; *ret_number names the copy. Return: 0;
 * SB_E_NOT_DURABLE: the bus has no log; SB_E_DETACHED. */
int sb_admin_log_copy(struct sb_bus *bus, uint64_t *ret_number);
/* Wait until that copy is durable. Return: 0; SB_E_TIMED_OUT; SB_E_NOT_DURABLE: the disk has
 * trouble; SB_E_DETACHED; -EINTR. */
int sb_admin_log_wait(struct sb_bus *bus, uint64_t number, uint64_t deadline_ns);

/* Describe the first attached client from record *number on; *number moves behind it. Return: 0,
 * SB_E_NOT_FOUND, SB_E_DETACHED. Cost: a look at each guard word of that record. */
int sb_admin_client_next(struct sb_bus *bus, uint32_t *number, struct sb_admin_client *ret);

/* Describe all watches, those of a key one after the other. Return: 0, SB_E_DETACHED. Cost: a look
 * at each cell's word, and at each watch. */
int sb_admin_watches(struct sb_bus *bus, sb_admin_watch_seen *seen, void *argument);
/* Whether that client's watch is behind now. */
bool sb_admin_watch_is_behind(struct sb_bus *bus, uint32_t client, uint32_t bit);

/* Return: 0, SB_E_DETACHED. Cost: a look at each unit's word. */
int sb_admin_memory(struct sb_bus *bus, struct sb_admin_memory *ret);

/* Describe all holders of cuts; sb_admin_holders_free() gives the memory back. Return: 0,
 * SB_E_DETACHED, -ENOMEM. Cost: a walk over all versions. */
int sb_admin_holders(struct sb_bus *bus, struct sb_admin_holders *ret);
void sb_admin_holders_free(struct sb_admin_holders *holders);

/* Ask which layout of the segment the bus's agentd has, of any version of it. Return: 0, else as
 * sb_attach(). */
int sb_admin_layout(const char *bus, uint32_t *ret_layout);

/* Ask the engine to take all cuts of client @number away, if it is of process @pid (0: of any), and
 * with @kill to end that process. *ret_count: the cuts that were taken away. It needs no record.
 * Return: 0, SB_E_NOT_FOUND, else as sb_attach(). */
int sb_admin_evict(const char *bus, uint32_t number, uint32_t pid, bool kill, uint32_t *ret_count);

/* Run the validator on the live segment. Return: 0 (see problem_count), SB_E_DETACHED, -EBADMSG. */
int sb_admin_check(struct sb_bus *bus, struct sb_check_report *ret);

/* Name the directory of a bus. Return: 0, -errno of sb_place_resolve(). */
int sb_admin_directory(const char *bus, char *ret_directory, size_t size);
/* Find the supervisor of a bus. Return: 0; -ESRCH: no agentd serves the bus; -errno. */
int sb_admin_supervisor(const char *bus, pid_t *ret_pid);
/* Whether a process of an agentd has the lock of a bus, be it no supervisor yet. */
bool sb_admin_held(const char *bus);
/* Find which process listens for clients of a bus, also where its lock was removed. Return: as
 * sb_attach_listener(). */
int sb_admin_listener(const char *bus, pid_t *ret_pid);
/* Find the supervisor of an agentd that has lost its directory, and holds by its log the one that
 * was made again. Return: 0; -ESRCH: there is none; -errno. */
int sb_admin_homeless(const char *bus, pid_t *ret_pid);
/* The same, with a pidfd, to end it. Return: as above. */
int sb_admin_homeless_open(const char *bus, pid_t *ret_pid, int *ret_fd);
/* Tell whether the last one has ended without all being durable in the directory. */
bool sb_admin_homeless_lost(const char *bus);
/* Tell whether an agentd takes clients of a bus. Return: 0; -ECONNREFUSED: none does; -errno. */
int sb_admin_served(const char *bus);
/* Start agentd in the background with more options (NULL at the end), and wait until it is ready.
 * Return: as sb_attach_start(). */
int sb_admin_start(const char *bus, const char *const *options, struct sb_attach_end *ret_end);

#endif
