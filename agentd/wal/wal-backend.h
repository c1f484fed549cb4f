/*
 * Which back end writes the log: io_uring, or ordinary system calls where the kernel does not let
 * this process have that.
 */
#ifndef SB_WAL_BACKEND_H
#define SB_WAL_BACKEND_H

#include "agentd/wal/wal-io.h"

enum sb_wal_backend {
        SB_WAL_AUTO, /* io_uring, where the kernel lets this process use it */
        SB_WAL_URING,
        SB_WAL_SYNC,
};

/* Opens a back end for the files in a directory, which stays open until sb_wal_backend_close().
 * Return: 0, -errno; with both, *ret_reason says why it is not io_uring, if that was wanted or AUTO
 * could not have it, else it is NULL; static text. */
int sb_wal_backend_open(enum sb_wal_backend backend, int directory_fd, struct sb_wal_io *ret,
        const char **ret_reason);
/* Takes one that was never opened, too: all zeros. */
void sb_wal_backend_close(struct sb_wal_io *io);

#endif
