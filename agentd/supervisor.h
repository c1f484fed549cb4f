/*
 * The supervisor: the process that the user started. It makes the segment and the socket, holds
 * both, and starts a new engine when the engine dies. It attaches no client and, once the segment
 * is made, maps only its first page; so it has few ways to fail.
 *
 * Always true: while the supervisor or the engine lives, the bus lives. When the supervisor dies,
 * the engine becomes the supervisor.
 */
#ifndef SB_SUPERVISOR_H
#define SB_SUPERVISOR_H

#include <sys/types.h>

#include "agentd/config.h"
#include "agentd/directory.h"
#include "agentd/memory.h"
#include "agentd/scribe.h"

/* How an engine that is not killed ends: its exit status. */
enum sb_engine_end {
        SB_ENGINE_STOPPED = 0,
        SB_ENGINE_FAILED = 1,          /* could not work; the segment may be sound */
        SB_ENGINE_UNSOUND = 3,         /* the segment must not be adopted */
        SB_ENGINE_GAVE_UP = 5,         /* the log cannot be written, and agentd is to stop then */
        SB_ENGINE_LOST = 6,            /* stopped, and the log could not write what came last */
        SB_ENGINE_SUPERVISOR_DIED = 4, /* never a status: this process becomes the supervisor */
};

struct sb_supervisor {
        /* Be the engine, in a fresh child (sb_engine_run()). Return: how the engine ended. */
        enum sb_engine_end (*run_engine)(struct sb_supervisor *supervisor);
        /* Make the segment, from the log if there is one (sb_wal_recover()). Return: 0, -1. */
        int (*make_segment)(
                const struct sb_config *config, int directory_fd, struct sb_memory *ret);
        const struct sb_config *config;
        struct sb_directory directory;
        struct sb_memory memory;
        struct sb_scribe scribe;
        uint32_t kept_max; /* connections with a record that an engine has descriptors for */
        /* SIGTERM, SIGINT and SIGHUP are blocked; the supervisor and the engine read them here. */
        int signal_fd;
        int self_fd; /* pidfd of the supervisor itself: the engine inherits it */
        /* inotify, or -1: tells the engine that a map of the segment may be gone. All processes
         * have one description of it: the end of the last one waits in the kernel, for seconds
         * where many end. */
        int maps_fd;
        int engine_fd; /* pidfd of the engine, or -1 */
        /* A socket between both, or -1: the engine sends SB_SUPERVISOR_ADOPTED, the supervisor
         * sends SB_SUPERVISOR_STOP. */
        int channel;
        pid_t engine;
        bool adopted; /* this engine has adopted the segment */
        bool unsound; /* set by an engine that has ended: the segment must not be adopted */
        bool said_ready;
        uint64_t adopted_ns;
        uint64_t retry_ns; /* no new engine is started before this time; 0: at once */
        uint32_t failures; /* engines in a row that did not get to work */
        uint32_t crashes;  /* engines that crashed before adoption, since one last adopted the
                              segment */
};

#define SB_SUPERVISOR_ADOPTED 'a'
#define SB_SUPERVISOR_STOP    's'

/**
 * sb_supervisor_run() - serve the bus until a signal stops it
 * @supervisor:  the caller has set config, directory, memory, scribe, signal_fd and
 *               run_engine
 *
 * Return: the exit status of the process. The engine, which is forked in here, returns from the
 * same call.
 */
int sb_supervisor_run(struct sb_supervisor *supervisor);

#endif
