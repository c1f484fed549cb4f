/*
 * The engine: the process that attaches clients, reaps the dead ones and reclaims memory. It is a
 * child of the supervisor. It may be killed or stopped at any instruction: all the state that
 * counts is in the segment, and the next engine validates the segment and adopts it.
 *
 *      engine    waits for all events, and dispatches them
 *      adopt     makes a validated segment, with this engine in record 0, out of a descriptor
 *      accept    is the engine's half of the attach protocol
 *      reaper    watches the attached processes by pidfd, and cleans up after the dead ones
 *      log       is a process of its own, which the engine starts (wal/wal-process.h)
 *
 * Always true: one process, one thread. All that the engine reads from the segment or from a client
 * is input, and no code here asserts on it.
 */
#ifndef SB_ENGINE_H
#define SB_ENGINE_H

#include "agentd/supervisor.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/evict.h"

/*
 * A connection is admitted when its process runs as the bus's user or as root; all others are
 * strangers, which are refused. So strangers cannot use up the entries of admitted processes.
 */
#define SB_CONNECTIONS_MAX 64u /* admitted connections without a record */
#define SB_STRANGERS_MAX   8u  /* strangers that were refused and have not closed yet */
#define SB_KEPT_MIN        16u /* kept connections, where descriptors are short */

enum sb_connection_state {
        SB_CONNECTION_FREE,
        SB_CONNECTION_SILENT,   /* the process has not sent its request yet */
        SB_CONNECTION_ANSWERED, /* the answer was sent; the process has not closed yet */
};
struct sb_connection {
        int fd;
        uint32_t state; /* enum sb_connection_state */
        uint32_t pid, uid;
        uint32_t slot, generation; /* of the record that the process was given; slot 0: none */
        uint64_t number;           /* by age: the oldest connection has the least */
};

/* The process behind a record. */
struct sb_watcher {
        int pidfd; /* or -1 */
        uint32_t generation;
};

struct sb_engine {
        struct sb_supervisor *supervisor;
        struct sb_handle handle;     /* the handle on record 0 */
        void *space;                 /* the handle's */
        struct sb_watcher *watchers; /* one for each record */
        /* SB_STRANGERS_MAX entries for strangers, SB_CONNECTIONS_MAX for admitted connections
         * without a record, then one entry for each record. */
        struct sb_connection *connections;
        uint32_t connection_max;
        uint32_t kept, kept_max;   /* connections with a record: now, and at most */
        uint64_t connection_count; /* connections ever made */
        uint32_t sweep_cursor;
        uint64_t interval_ns; /* of the timer */
        uint64_t history_ns;  /* when history may need its next sweep */
        uint64_t history_pause_ns, history_trace;
        /* With --max-snapshot-age: each announcement that was seen, and when to look again. */
        struct sb_evict_seen *seen;
        uint64_t seen_ns;
        bool damaged;       /* damage was met, and the log says so */
        bool rules_left;    /* a rule is left in the middle: there was no memory for the rest */
        uint64_t repair_ns; /* when to try again */
        uint64_t trace;     /* what engine_is_idle() saw last */
        int epoll_fd, timer_fd;
        int maps_fd; /* the supervisor's; -1: nothing tells that a map of the segment is gone */
        /* A look at all records for maps that are gone: the next record; 0: no look is under way.
         */
        uint32_t look_next, look_ticks;
        uint32_t collect_next; /* without inotify: behind the record that was looked at last */
        bool look_wanted;
        bool collect_wanted; /* maps may be gone that no refused client has asked for */
        bool attached;       /* record 0 is this engine's */
        bool said_full;      /* the log says that all records are in use */
        /* There was no descriptor for another connection, so the engine does not listen until the
         * next tick. */
        bool deaf;
        bool sent_on;    /* a signal to stop, to the supervisor */
        int log_fd;      /* pidfd of the log, a child of this process; or -1 */
        pid_t log_pid;   /* of that one */
        uint64_t log_ns; /* when to start another */
};

/* What an event is about. */
enum sb_event {
        SB_EVENT_LISTEN,
        SB_EVENT_TIMER,
        SB_EVENT_SIGNAL,
        SB_EVENT_CHANNEL,
        SB_EVENT_SUPERVISOR,
        SB_EVENT_CONNECTION,
        SB_EVENT_MAP,
        SB_EVENT_LOG,
        SB_EVENT_CLIENT
};

/* Be the engine, in a fresh child of the supervisor. Return: how the engine ended; everything that
 * it opened is closed. */
enum sb_engine_end sb_engine_run(struct sb_supervisor *supervisor);
/* Wait for @events on @fd as well. @index: the connection or the record that the event is about.
 * Return: 0, -errno. */
int sb_engine_add(
        struct sb_engine *engine, int fd, uint32_t events, enum sb_event event, uint32_t index);

/* Map the segment, validate it, and take record 0. Return: SB_ENGINE_STOPPED: the segment is
 * adopted; otherwise how the engine has to end: the reason was logged. */
enum sb_engine_end sb_adopt(struct sb_engine *engine);

/* Accept the connections that wait on the socket. */
void sb_accept_new(struct sb_engine *engine);
/* Connection @index may have a message, or may be closed. */
void sb_accept_ready(struct sb_engine *engine, uint32_t index);
void sb_accept_close_all(struct sb_engine *engine);

/* Look at all records that are in use: reap those of dead processes, watch the others. */
void sb_reaper_adopt(struct sb_engine *engine);
/* Record @slot belongs to the process behind @pidfd. The reaper closes @pidfd. */
void sb_reaper_watch(struct sb_engine *engine, uint32_t slot, uint32_t generation, int pidfd);
/* The process behind record @slot may be dead: reap the record if it is. */
void sb_reaper_ready(struct sb_engine *engine, uint32_t slot);
/* Open the segment's file for one client, which maps the segment by this description alone. Return:
 * a descriptor; -1: it cannot be opened so, and nothing tells when the client's map is gone. */
int sb_reaper_open_map(const struct sb_engine *engine);
/* Let the description behind @fd stand for record @slot. Return: 0, -errno. */
int sb_reaper_lock_map(int fd, uint32_t slot);
/* Close what sb_reaper_open_map() opened, or -1, when no client was given it: this is no reason to
 * look for maps that are gone. */
void sb_reaper_close_unused(struct sb_engine *engine, int fd);
/* Ask to be told when maps go. */
void sb_reaper_watch_maps(struct sb_engine *engine);
/* Maps may be gone. */
void sb_reaper_hear_maps(struct sb_engine *engine);
/* Look at some records for maps that are gone, if some may be. Return: whether there are more to
 * look at. */
bool sb_reaper_look(struct sb_engine *engine);
/* Reap the records of all processes that are dead by now, or called exec(). Return: how
 * many. */
uint32_t sb_reaper_collect(struct sb_engine *engine);
/* The process that was given record @slot will never use it. */
void sb_reaper_give_back(struct sb_engine *engine, uint32_t slot, uint32_t generation);
/* Finish the marks and rules that processes left in the middle. What finds no memory is tried again
 * at later ticks. */
void sb_reaper_repair(struct sb_engine *engine);
/* Take a client's snapshots away; with @kill, end its process as well. @pid: 0, or the pid that the
 * client must have. Return: 0; SB_E_NOT_FOUND: there is no such client; -errno of the kill. */
int sb_reaper_evict(
        struct sb_engine *engine, uint32_t slot, uint64_t pid, bool kill, uint32_t *ret_count);
void sb_reaper_close_all(struct sb_engine *engine);
/* When a process was started, in clock ticks. Return: 0, -errno. */
int sb_reaper_start_time(uint32_t pid, uint64_t *ret);

#endif
