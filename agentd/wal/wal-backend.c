/* Which back end writes the log; see wal-backend.h. */
#include "agentd/wal/wal-backend.h"

#include <errno.h>

#include "agentd/wal/wal-sync.h"
#include "agentd/wal/wal-uring.h"

/* Why there is no io_uring, for people. */
static const char *wal_backend_reason(int r)
{
        switch (r) {
        case -ENOSYS:
                return "this kernel has no io_uring, or a filter of system calls hides it";
        case -EPERM:
                return "io_uring is not permitted here (kernel.io_uring_disabled, or a filter of "
                       "system calls)";
        case -ENOMEM:
                return "io_uring may not lock memory (RLIMIT_MEMLOCK), or there is none";
        case -EMFILE:
        case -ENFILE:
                return "there is no file descriptor for io_uring";
        }
        return "io_uring cannot be set up here";
}

int sb_wal_backend_open(enum sb_wal_backend backend, int directory_fd, struct sb_wal_io *ret,
        const char **ret_reason)
{
        const char *reason = NULL;
        int r = 0;

        if (backend != SB_WAL_SYNC) {
                r = sb_wal_uring_open(directory_fd, ret);
                if (r)
                        reason = wal_backend_reason(r);
        }
        if (backend == SB_WAL_SYNC || (r && backend == SB_WAL_AUTO))
                r = sb_wal_sync_open(directory_fd, ret);
        *ret_reason = reason;
        return r;
}

void sb_wal_backend_close(struct sb_wal_io *io)
{
        if (io->fini)
                io->fini(io->context);
        *io = (struct sb_wal_io){0};
}
