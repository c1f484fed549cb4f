/* A file that is there whole or not at all; see partial.h. */
#define _GNU_SOURCE
#include "cli/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wal/wal-file.h"
#include "shm/base/fault.h"

#define TRIES_MAX 16 /* against commands that come and go at the same time */

static const char partial_mark[] =
        "statebus: a file that is being written. Without its process it can be removed.\n";

/* ---- signals ---- */

static const int partial_signals[CLI_PARTIAL_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
static volatile sig_atomic_t partial_told;

static void partial_hear(int signal_number)
{
        (void)signal_number;
        partial_told = 1;
}

static void partial_take_signals(struct cli_partial *partial)
{
        partial_told = 0;
        for (size_t i = 0; i < CLI_PARTIAL_SIGNALS; i++) {
                struct sigaction action = {.sa_handler = partial_hear, .sa_flags = SA_RESTART};

                sigaction(partial_signals[i], NULL, &partial->before[i]);
                if (partial_signals[i] == SIGXFSZ || partial->before[i].sa_handler == SIG_IGN)
                        action.sa_handler = SIG_IGN;
                sigaction(partial_signals[i], &action, NULL);
        }
}

static void partial_give_signals_back(const struct cli_partial *partial)
{
        for (size_t i = 0; i < CLI_PARTIAL_SIGNALS; i++)
                sigaction(partial_signals[i], &partial->before[i], NULL);
}

/* ---- what an earlier command left ---- */

bool cli_partial_is(int fd)
{
        char begins[sizeof(partial_mark)] = "";

        return pread(fd, begins, sizeof(begins) - 1, 0) > 0 && !strcmp(begins, partial_mark);
}

/* Whether the open file is no longer than the mark, and not all of its bytes came to the disk. */
static bool partial_is_begun(int fd, off_t size)
{
        char bytes[sizeof(partial_mark)] = "";

        if (size >= (off_t)sizeof(bytes) || pread(fd, bytes, (size_t)size, 0) != (ssize_t)size)
                return false;
        for (off_t i = 0; i < size; i++)
                if (bytes[i] && bytes[i] != partial_mark[i])
                        return false;
        return true;
}

/* Whether the open file is one that this module began: it has the mark, or it lost the mark to the
 * header of a log, or it did not come to the mark. */
static bool partial_is_ours(int fd)
{
        char begins[sizeof(SB_WAL_FILE_MAGIC)] = "";
        struct stat status;

        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
                return false;
        return partial_is_begun(fd, status.st_size) || cli_partial_is(fd) ||
               (pread(fd, begins, sizeof(begins) - 1, 0) > 0 && !strcmp(begins, SB_WAL_FILE_MAGIC));
}

/* Whether the name is that of the open file. */
static bool partial_has_name(const struct cli_partial *partial, int fd, const char *name)
{
        struct stat one, other;

        return !fstat(fd, &one) &&
               !fstatat(partial->directory_fd, name, &other, AT_SYMLINK_NOFOLLOW) &&
               one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static bool partial_is_named(const struct cli_partial *partial, int fd)
{
        return partial_has_name(partial, fd, partial->partial_name);
}

/* Take away what stands under NAME.partial. It is unlinked, never cut short: it may have another
 * name, too. Return: 0: it is gone; -EBUSY, -EPERM, -errno. */
static int partial_take_away(struct cli_partial *partial)
{
        int fd = openat(partial->directory_fd, partial->partial_name,
                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        int r = 0;

        if (fd < 0)
                return errno == ENOENT ? 0 : errno == ELOOP ? -EPERM : -errno;
        if (!partial_is_ours(fd))
                r = -EPERM;
        else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                r = errno == EWOULDBLOCK ? -EBUSY : -errno;
        else if (partial_is_named(partial, fd)) {
                if (unlinkat(partial->directory_fd, partial->partial_name, 0) < 0)
                        r = -errno;
                partial->replaced = true;
        }
        close(fd);
        return r;
}

/* ---- one file ---- */

/* Make NAME.partial. Return: 0: it is locked; -EEXIST: it is there; -EBUSY; -errno. */
static int partial_make(struct cli_partial *partial)
{
        int fd = openat(partial->directory_fd, partial->partial_name,
                O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return -errno;
        /* Another command may take it for left behind before it is locked. */
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !partial_is_named(partial, fd)) {
                close(fd);
                return -EBUSY;
        }
        partial->fd = fd;
        return 0;
}

static void partial_end(struct cli_partial *partial)
{
        close(partial->fd);
        partial->fd = -1;
        partial_give_signals_back(partial);
}

/* It is on the disk before what comes behind it: after a power failure a file that has grown and
 * does not begin with it could be any program's. Fault PARTIAL_UNMARKED: it is not. */
static int partial_write_mark(struct cli_partial *partial)
{
        int r = cli_partial_write(partial, partial_mark, sizeof(partial_mark) - 1, 0);

        if (r || SB_FAULT(PARTIAL_UNMARKED))
                return r;
        return fsync(partial->fd) < 0 ? -errno : 0;
}

int cli_partial_begin(int directory_fd, const char *name, struct cli_partial *ret)
{
        struct cli_partial *partial = ret;
        struct stat status;
        int len, r = -EEXIST;

        *partial = (struct cli_partial){.directory_fd = directory_fd, .fd = -1, .name = name};
        len = snprintf(partial->partial_name, sizeof(partial->partial_name), "%s.partial", name);
        if (len < 0 || (size_t)len >= sizeof(partial->partial_name))
                return -ENAMETOOLONG;
        if (!fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW))
                return -EEXIST;
        partial_take_signals(partial);
        for (unsigned tries = 0; r == -EEXIST && tries < TRIES_MAX; tries++) {
                r = partial_make(partial);
                if (r == -EEXIST) {
                        r = partial_take_away(partial);
                        r = r ? r : -EEXIST;
                }
        }
        if (r) {
                partial_give_signals_back(partial);
                return r == -EEXIST ? -EBUSY : r;
        }
        r = partial_write_mark(partial);
        if (r)
                cli_partial_drop(partial);
        return r;
}

int cli_partial_write(struct cli_partial *partial, const void *bytes, size_t len, uint64_t offset)
{
        const char *from = bytes;

        while (len > 0) {
                ssize_t n = pwrite(partial->fd, from, len, (off_t)offset);

                if (partial_told)
                        return -EINTR;
                if (n < 0 && errno != EINTR)
                        return -errno;
                n = n < 0 ? 0 : n;
                from += n;
                len -= (size_t)n;
                offset += (uint64_t)n;
        }
        return 0;
}

/* Rename it, where the file system can do so without replacing a file; else by a second name.
 * Return: 0, -EEXIST, -errno. */
static int partial_name(const struct cli_partial *partial)
{
        const int fd = partial->directory_fd;

        if (!renameat2(fd, partial->partial_name, fd, partial->name, RENAME_NOREPLACE))
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return -errno;
        if (linkat(fd, partial->partial_name, fd, partial->name, 0) < 0)
                return -errno;
        return unlinkat(fd, partial->partial_name, 0) < 0 ? -errno : 0;
}

/* Faults PARTIAL_NAMED_EARLY, PARTIAL_NAME_UNSYNCED: what it names, or the name, may be in memory
 * alone. */
int cli_partial_finish(struct cli_partial *partial)
{
        int r = !SB_FAULT(PARTIAL_NAMED_EARLY) && fsync(partial->fd) < 0 ? -errno : 0;

        if (!r && partial_told)
                r = -EINTR;
        r = r ? r : partial_name(partial);
        if (!r && !SB_FAULT(PARTIAL_NAME_UNSYNCED) && fsync(partial->directory_fd) < 0)
                r = -errno;
        if (r)
                cli_partial_drop(partial);
        else
                partial_end(partial);
        return r;
}

void cli_partial_drop(struct cli_partial *partial)
{
        if (partial->fd < 0)
                return;
        if (partial_is_named(partial, partial->fd))
                (void)unlinkat(partial->directory_fd, partial->partial_name, 0);
        /* It may have got its name, and not for good. */
        if (partial_has_name(partial, partial->fd, partial->name))
                (void)unlinkat(partial->directory_fd, partial->name, 0);
        partial_end(partial);
}
