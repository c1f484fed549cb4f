/*
 * The log: a process that writes what changes on the bus into the files of its directory, one batch
 * after another (ring/log/batch.h, wal-writer.h).
 *
 *      engine -> fork -> lock, record -> { wait -> batch -> on the disk -> `durable` -> wake } ...
 *
 * It is a child of the engine, and a client like any other: with a record of its own, the last one,
 * and a handle. So a disk that hangs holds up this process alone. What it leaves when it is killed
 * the engine reaps, and starts another one. When the engine dies, the kernel ends the log, too.
 *
 * A batch begins when --flush-ms have passed and something has changed, and at once where a client
 * waits for one. Those that come while a batch is on its way share the next one.
 *
 * Where the disk has trouble, clients that wait are told, and the log tries again each second; what
 * it does besides --on-disk-error says.
 *
 * Always true: one log writes into a directory, which a lock says: one that hangs in the disk keeps
 * it, and the next one waits.
 */
#ifndef SB_WAL_PROCESS_H
#define SB_WAL_PROCESS_H

#include <sys/types.h>

#include "agentd/config.h"
#include "shm/layout/segment.h"

/* Its exit status, where the log cannot be written and agentd is to stop then. */
#define SB_WAL_PROCESS_GAVE_UP 3

/* Start the log of the bus in this directory; the caller has @segment mapped. Return: its pid, of
 * which *ret_pidfd is; -errno. The child does not return. */
int sb_wal_process_start(const struct sb_config *config, int directory_fd,
        const struct sb_segment *segment, int *ret_pidfd);

#endif
