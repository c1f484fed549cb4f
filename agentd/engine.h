/*
 * The engine: the process that attaches clients, reaps dead ones and reclaims memory. It is a child
 * of the supervisor, and may be killed or stopped at any instruction: all that counts is in the
 * segment, and the next engine validates and adopts it.
 *
 *      engine    waits for everything, and does a little of it at a time
 *      adopt     from the descriptor to a validated segment with this engine in record 0
 *      accept    the attach protocol
 *      reaper    pidfds of the attached, and what is done when one speaks
 *
 * Always true: what is read from the segment or from a client is input; nothing here asserts on it.
 */
#ifndef SB_ENGINE_H
#define SB_ENGINE_H

#include "agentd/supervisor.h"
#include "shm/peer.h"

#define SB_CONNECTIONS_MAX 64u /* of peers that were given no record, or not yet */
#define SB_STRANGERS_MAX   8u  /* and of users who were refused and have not gone yet */
#define SB_KEPT_MIN        16u /* of peers with a record, where descriptors are short */

enum sb_connection_state {
        SB_CONNECTION_FREE,
        SB_CONNECTION_SILENT,   /* has not asked yet */
        SB_CONNECTION_ANSWERED, /* has been told something, and has not gone yet */
};
struct sb_connection {
        int fd;
        uint32_t state; /* enum sb_connection_state */
        uint32_t pid, uid;
        uint32_t slot, generation; /* of the record that it was given; slot 0: none */
        uint64_t number;           /* counts connections: the least is the oldest */
};

/* The process behind a record. */
struct sb_watcher {
        int pidfd; /* or -1 */
        uint32_t generation;
};

struct sb_engine {
        struct sb_supervisor *supervisor;
        struct sb_peer peer;               /* record 0 */
        struct sb_watcher *watchers;       /* one for each record */
        struct sb_connection *connections; /* of strangers, of peers, of records by their number */
        uint32_t connection_max;
        uint32_t kept, kept_max;   /* of those with a record, now and at once */
        uint64_t connection_count; /* ever made */
        uint32_t sweep_cursor;
        uint64_t interval_ns; /* of the timer */
        uint64_t history_ns;  /* when to look after it next */
        uint64_t history_pause_ns, history_trace;
        uint64_t trace; /* of what others did, at the last tick */
        int epoll_fd, timer_fd;
        bool attached; /* record 0 is this engine's */
        bool deaf; /* no descriptor was left for another connection: listen again at the next tick
                    */
};

/* How an engine ends that is not killed: its exit status. */
enum sb_engine_end {
        SB_ENGINE_STOPPED = 0,
        SB_ENGINE_FAILED = 1,          /* could not work; the segment may be sound */
        SB_ENGINE_UNSOUND = 3,         /* the segment is not to be adopted */
        SB_ENGINE_SUPERVISOR_DIED = 4, /* never a status: this process becomes the supervisor */
};

/* Be the engine, in a fresh child of the supervisor. Return: how it ended; everything that it opened is
 * closed. */
enum sb_engine_end sb_engine_run(struct sb_supervisor *supervisor);

/* What an event is about. */
enum sb_event {
        SB_EVENT_LISTEN,
        SB_EVENT_TIMER,
        SB_EVENT_SIGNAL,
        SB_EVENT_CHANNEL,
        SB_EVENT_SUPERVISOR,
        SB_EVENT_CONNECTION,
        SB_EVENT_CLIENT
};

/* Wait for @events on @fd, too; @index says which connection or record it is. Return: 0, -errno. */
int sb_engine_add(
        struct sb_engine *engine, int fd, uint32_t events, enum sb_event event, uint32_t index);

/* adopt.c. Return: SB_ENGINE_STOPPED: adopted; else how the engine ends, said. */
enum sb_engine_end sb_adopt(struct sb_engine *engine);

/* accept.c */
void sb_accept_new(struct sb_engine *engine);
void sb_accept_ready(struct sb_engine *engine, uint32_t index);
void sb_accept_close_all(struct sb_engine *engine);

/* reaper.c */
/* Look after all records that are in use: the dead are reaped, the living watched. */
void sb_reaper_adopt(struct sb_engine *engine);
/* Record @slot belongs to the process behind @pidfd, which is the reaper's to close from now on. */
void sb_reaper_watch(struct sb_engine *engine, uint32_t slot, uint32_t generation, int pidfd);
/* The process behind @slot is dead. */
void sb_reaper_ready(struct sb_engine *engine, uint32_t slot);
/* Reap whoever is dead and has not been looked at yet. Return: how many. */
uint32_t sb_reaper_collect(struct sb_engine *engine);
/* A record that its process will never use. */
void sb_reaper_give_back(struct sb_engine *engine, uint32_t slot, uint32_t generation);
/* Take a client's snapshots away; with @kill, end its process. @pid: 0, or whose it must be.
 * Return: 0; SB_E_NOT_FOUND: there is no such client; -errno of the kill. */
int sb_reaper_evict(
        struct sb_engine *engine, uint32_t slot, uint64_t pid, bool kill, uint32_t *ret_count);
void sb_reaper_close_all(struct sb_engine *engine);
/* When a process was started, in clock ticks. Return: 0, -errno. */
int sb_reaper_start_time(uint32_t pid, uint64_t *ret);

#endif
