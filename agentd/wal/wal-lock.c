/* The lock of a log's files; see wal-lock.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agentd/log.h"
#include "ring/attach/place.h"

int sb_wal_lock(const char *directory, int directory_fd)
{
        int fd = openat(
                directory_fd, SB_PLACE_WRITER, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0) {
                sb_log("%s/%s cannot be opened: %s", directory, SB_PLACE_WRITER, strerror(errno));
                return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                sb_log("the log waits: another process writes in %s still, perhaps one that hangs "
                       "in the disk",
                        directory);
                (void)flock(fd, LOCK_EX);
        }
        return fd;
}
