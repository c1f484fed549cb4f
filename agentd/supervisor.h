/*
 * The supervisor: the process that was started. It makes the segment and the socket, holds them,
 * and sees to it that there is an engine. It attaches nobody, reads nothing of the segment but its
 * first line, and so has little to die of.
 */
#ifndef SB_SUPERVISOR_H
#define SB_SUPERVISOR_H

#include <sys/types.h>

#include "agentd/config.h"
#include "agentd/directory.h"
#include "agentd/memory.h"

struct sb_supervisor {
        const struct sb_config *config;
        struct sb_directory directory;
        struct sb_memory memory;
        uint32_t kept_max; /* connections with a record that an engine has descriptors for */
        int signal_fd; /* SIGTERM, SIGINT, SIGHUP: blocked, and read here by supervisor and engine
                        * alike
                        */
        int self_fd;   /* pidfd of the supervisor itself: the engine inherits it */
        int engine_fd; /* pidfd of the engine, or -1 */
        int channel;   /* to the engine: it says SB_SUPERVISOR_ADOPTED, the supervisor says
                          SB_SUPERVISOR_STOP; or   -1 */
        pid_t engine;
        bool adopted; /* this engine has adopted the segment */
        bool unsound; /* in an engine that is over: the segment is not to be adopted */
        bool said_ready;
        uint64_t adopted_ns, retry_ns; /* retry_ns: no new engine before; 0: at once */
        uint32_t failures;             /* engines in a row that did not get to work */
        uint32_t crashes;              /* those among them that crashed in adoption */
};

#define SB_SUPERVISOR_ADOPTED 'a'
#define SB_SUPERVISOR_STOP    's'

/**
 * sb_supervisor_run() - serve the bus until told to stop
 * @supervisor:     config, directory, memory and signal_fd are there
 *
 * Return: the exit status of the process; also in the engine, which comes out of the same call.
 */
int sb_supervisor_run(struct sb_supervisor *supervisor);

#endif
