/* The lock of a log's files; see wal-lock.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/log.h"
#include "ring/attach/place.h"

int sb_wal_lock(const char *directory, int directory_fd)
{
        int fd = openat(
                directory_fd, SB_PLACE_WRITER, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0) {
                fd = -errno;
                sb_log("%s/%s cannot be opened: %s", directory, SB_PLACE_WRITER, strerror(-fd));
                return fd;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                sb_log("the log waits: another process writes in %s still, perhaps one that hangs "
                       "in the disk",
                        directory);
                (void)flock(fd, LOCK_EX);
        }
        return fd;
}

bool sb_wal_lock_is_homeless(int directory_fd)
{
        struct stat status;

        return fstat(directory_fd, &status) == 0 && status.st_nlink == 0;
}

/* Return: a descriptor; -errno. */
static int wal_lock_take(int directory_fd, const char *name)
{
        int fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        int r = 0;

        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                r = errno == EWOULDBLOCK ? -EBUSY : -errno;
        if (r)
                close(fd);
        return r ? r : fd;
}

/* What finds the lock held is told by which agentd: it is no supervisor's lock. */
static void wal_lock_say_holder(int lock_fd, pid_t supervisor)
{
        struct flock byte = {.l_type = F_WRLCK,
                .l_whence = SEEK_SET,
                .l_start = SB_PLACE_HOMELESS_BYTE,
                .l_len = 1};
        char text[64];
        int len = snprintf(text, sizeof(text), "%d " SB_PLACE_HOMELESS "\n", (int)supervisor);

        (void)fcntl(lock_fd, F_SETLK, &byte);
        if (!ftruncate(lock_fd, 0))
                (void)!pwrite(lock_fd, text, (size_t)len, 0);
}

void sb_wal_lock_say_well(int lock_fd)
{
        (void)!ftruncate(lock_fd, 0);
}

int sb_wal_lock_again(const char *directory, int directory_fd, pid_t supervisor, int *ret_fd)
{
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        int serve = -1, write = -1, r = 0;
        struct stat status;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &status) < 0)
                r = -errno;
        else if (status.st_uid != geteuid() || (status.st_mode & 022))
                r = -EPERM; /* as directory.c has it: others could write there */
        if (!r)
                r = serve = wal_lock_take(fd, SB_PLACE_LOCK);
        if (r >= 0)
                r = write = wal_lock_take(fd, SB_PLACE_WRITER);
        if (r >= 0 && dup2(fd, directory_fd) < 0)
                r = -errno;
        if (r >= 0)
                wal_lock_say_holder(serve, supervisor);
        if (r >= 0)
                *ret_fd = serve;
        if (r < 0 && serve >= 0)
                close(serve);
        if (r < 0 && write >= 0)
                close(write);
        close(fd);
        return r < 0 ? r : 0;
}
