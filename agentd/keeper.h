/*
 * The keeper: the process that was started. It makes the segment and the socket, holds them, and
 * sees to it that there is an engine. It attaches nobody, reads nothing of the segment but its
 * first line, and so has little to die of.
 */
#ifndef SB_KEEPER_H
#define SB_KEEPER_H

#include <sys/types.h>

#include "agentd/config.h"
#include "agentd/directory.h"
#include "agentd/memory.h"

struct sb_keeper {
        const struct sb_config *config;
        struct sb_directory directory;
        struct sb_memory memory;
        uint32_t kept_max; /* connections with a record that an engine has descriptors for */
        int signal_fd; /* SIGTERM, SIGINT, SIGHUP: blocked, and read here by keeper and engine alike
                        */
        int self_fd;   /* pidfd of the keeper itself: the engine inherits it */
        int engine_fd; /* pidfd of the engine, or -1 */
        int channel; /* to the engine: it says SB_KEEPER_ADOPTED, the keeper says SB_KEEPER_STOP; or
                        -1 */
        pid_t engine;
        bool adopted; /* this engine has adopted the segment */
        bool unsound; /* in an engine that is over: the segment is not to be adopted */
        bool said_ready;
        uint64_t adopted_ns, retry_ns; /* retry_ns: no new engine before; 0: at once */
        uint32_t failures;             /* engines in a row that did not get to work */
        uint32_t crashes;              /* those among them that crashed in adoption */
};

#define SB_KEEPER_ADOPTED 'a'
#define SB_KEEPER_STOP    's'

/**
 * sb_keeper_run() - serve the bus until told to stop
 * @keeper:     config, directory, memory and signal_fd are there
 *
 * Return: the exit status of the process; also in the engine, which comes out of the same call.
 */
int sb_keeper_run(struct sb_keeper *keeper);

#endif
