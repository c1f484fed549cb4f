/* The place of a bus: paths, the socket's address, the lock; see place.h. */
#define _GNU_SOURCE

#include "ring/attach/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/base/fault.h"

#define EXITING 0x4u /* PF_EXITING, of the flags that the kernel shows of a process */

/* Appends @text at @at. Return: the new end; SIZE_MAX: it does not fit, or @at says that something
 * before did not. */
static size_t place_append(char *buffer, size_t size, size_t at, const char *text)
{
        size_t len = strlen(text);

        if (at == SIZE_MAX || len >= size - at)
                return SIZE_MAX;
        memcpy(buffer + at, text, len + 1);
        return at + len;
}

/* Return: the variable's value; NULL: it is not set, empty, or not to be believed. */
static const char *place_environment(const char *name)
{
        const char *value = secure_getenv(name);

        return value && *value ? value : NULL;
}

/* Whether a part of @path is longer than any file's name can be. */
static bool place_has_long_name(const char *path)
{
        size_t len;

        for (; *path; path += len + (path[len] == '/')) {
                len = strcspn(path, "/");
                if (len > NAME_MAX)
                        return true;
        }
        return false;
}

int sb_place_resolve(const char *bus, struct sb_place *ret)
{
        struct sb_place place;
        const char *above = NULL;
        size_t at = 0;

        if (!bus)
                bus = place_environment("STATEBUS");
        if (!bus)
                bus = "default";
        if (!*bus || !strcmp(bus, ".") || !strcmp(bus, ".."))
                return -EINVAL;
        if (!strchr(bus, '/')) {
                const char *state = place_environment("XDG_STATE_HOME"),
                           *home = place_environment("HOME");

                /* The XDG specification says to ignore a relative path. */
                if (geteuid() == 0) {
                        above = "/var/lib/statebus/";
                } else if (state && *state == '/') {
                        above = "/statebus/";
                        at = place_append(place.directory, sizeof(place.directory), 0, state);
                } else if (home && *home == '/') {
                        above = "/.local/state/statebus/";
                        at = place_append(place.directory, sizeof(place.directory), 0, home);
                } else {
                        return -ENOENT;
                }
                at = place_append(place.directory, sizeof(place.directory), at, above);
        }
        at = place_append(place.directory, sizeof(place.directory), at, bus);
        if (at == SIZE_MAX || place_has_long_name(bus))
                return -ENAMETOOLONG;
        while (at > 1 && place.directory[at - 1] == '/')
                place.directory[--at] = 0;
        memset(place.directory + at, 0, sizeof(place.directory) - at);
        *ret = place;
        return 0;
}

/* place_append() for a number, in decimal. */
static size_t place_append_number(char *buffer, size_t size, size_t at, unsigned number)
{
        char digits[12];
        size_t first = sizeof(digits) - 1;

        digits[first] = 0;
        do
                digits[--first] = (char)('0' + number % 10);
        while (number /= 10);
        return place_append(buffer, size, at, digits + first);
}

int sb_place_address(
        const struct sb_place *place, const char *file, struct sockaddr_un *ret, int *ret_fd)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t at, size = sizeof(address.sun_path);
        int fd = -1;

        at = place_append(address.sun_path, size, 0, place->directory);
        at = place_append(address.sun_path, size, at, "/");
        at = place_append(address.sun_path, size, at, file);
        if (at == SIZE_MAX) {
                /* An address holds 108 bytes; a longer one goes through a descriptor of the
                 * directory. */
                fd = open(place->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        return -errno;
                at = place_append(address.sun_path, size, 0, "/proc/self/fd/");
                at = place_append_number(address.sun_path, size, at, (unsigned)fd);
                at = place_append(address.sun_path, size, at, "/");
                at = place_append(address.sun_path, size, at, file);
                if (at == SIZE_MAX) {
                        close(fd);
                        return -ENAMETOOLONG;
                }
        }
        *ret = address;
        *ret_fd = fd;
        return 0;
}

/* Whether a shell takes all of it as it is. */
static bool place_is_plain(const char *path)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "/._-+,:=@%";

        return *path && path[strspn(path, plain)] == 0;
}

/* A byte of a path, as $'...' of a shell has it: agentd and agentctl write ASCII alone. */
static size_t place_append_escaped(char *ret, size_t at, unsigned char byte)
{
        char text[8];

        if (byte < 0x20 || byte > 0x7e)
                snprintf(text, sizeof(text), "\\x%02x", byte);
        else
                snprintf(
                        text, sizeof(text), "%s%c", byte == '\'' || byte == '\\' ? "\\" : "", byte);
        return place_append(ret, SB_PLACE_WORD_MAX, at, text);
}

static bool place_is_ascii(const char *path)
{
        while (*path >= 0x20 && *path < 0x7f)
                path++;
        return !*path;
}

const char *sb_place_word(const char *path, char ret[SB_PLACE_WORD_MAX])
{
        bool ascii = place_is_ascii(path);
        size_t at;

        if (place_is_plain(path))
                return path;
        at = place_append(ret, SB_PLACE_WORD_MAX, 0, ascii ? "'" : "$'");
        for (const char *from = path; *from; from++) {
                const char byte[] = {*from, 0};

                if (!ascii)
                        at = place_append_escaped(ret, at, (unsigned char)*from);
                else
                        at = place_append(
                                ret, SB_PLACE_WORD_MAX, at, *from == '\'' ? "'\"'\"'" : byte);
        }
        at = place_append(ret, SB_PLACE_WORD_MAX, at, "'");
        return at == SIZE_MAX ? path : ret;
}

/* Return: a descriptor of the lock; -ESRCH: there is none; -errno. */
static int place_open_lock(const struct sb_place *place)
{
        char path[SB_PLACE_MAX + 16];
        size_t at;
        int fd;

        at = place_append(path, sizeof(path), 0, place->directory);
        (void)place_append(path, sizeof(path), at, "/" SB_PLACE_LOCK);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR ? -ESRCH : -errno;
        return fd;
}

/* Which process has a POSIX lock on this byte. Return: 0; -ESRCH: none; -errno. */
static int place_holder(int fd, off_t byte, pid_t *ret_pid)
{
        struct flock holder = {
                .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

        if (fcntl(fd, F_GETLK, &holder) < 0)
                return -errno;
        if (holder.l_type == F_UNLCK)
                return -ESRCH;
        *ret_pid = holder.l_pid;
        return 0;
}

int sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid)
{
        int fd = place_open_lock(place), r;

        if (fd < 0)
                return fd;
        r = place_holder(fd, 0, ret_pid);
        close(fd);
        return r;
}

/* Whether an agentd holds the lock, or one of its processes. */
static bool place_is_held(int fd)
{
        return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

bool sb_place_held(const struct sb_place *place)
{
        int fd = place_open_lock(place);
        bool held = fd >= 0 && place_is_held(fd);

        if (fd >= 0)
                close(fd);
        return held;
}

/* Return: the pid that stands in front of SB_PLACE_HOMELESS in the lock's text; 0: it does not say
 * that. */
static pid_t place_read_homeless(int fd)
{
        char text[64] = "", *end;
        long pid;

        if (pread(fd, text, sizeof(text) - 1, 0) < 0)
                return 0;
        pid = strtol(text, &end, 10);
        return pid > 0 && !strncmp(end, " " SB_PLACE_HOMELESS, sizeof(SB_PLACE_HOMELESS))
                       ? (pid_t)pid
                       : 0;
}

int sb_place_homeless(const struct sb_place *place, pid_t *ret_pid)
{
        int fd = place_open_lock(place), r = -ESRCH;
        pid_t pid;

        if (fd < 0)
                return fd;
        pid = place_read_homeless(fd);
        /* The text of one that has ended may stay; its lock does not. */
        if (pid && place_is_held(fd)) {
                *ret_pid = pid;
                r = 0;
        }
        close(fd);
        return r;
}

bool sb_place_homeless_lost(const struct sb_place *place)
{
        int fd = place_open_lock(place);
        bool lost;

        if (fd < 0)
                return false;
        lost = place_read_homeless(fd) && !place_is_held(fd);
        close(fd);
        return lost;
}

/* What the kernel says of a process behind its name, which may have anything in it: the text from
 * that one's end on; NULL: there is no such process, or that cannot be told. */
static const char *place_process(pid_t pid, char space[static 512])
{
        char path[32];
        ssize_t len;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        len = read(fd, space, 511);
        close(fd);
        space[len > 0 ? len : 0] = 0;
        return strrchr(space, ')');
}

/* Return: the pid of a process's parent; 0: it has none, or that cannot be told. */
static pid_t place_parent(pid_t pid)
{
        char space[512];
        const char *text = place_process(pid, space);
        int parent;

        return text && sscanf(text, ") %*c %d", &parent) == 1 ? parent : 0;
}

bool sb_place_lives(pid_t pid)
{
        char space[512];
        const char *text = place_process(pid, space);
        unsigned flags;

        /* Field 9; the name is field 2. */
        return text && sscanf(text, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
               !(flags & EXITING);
}

/* Whether the lock names the supervisor still, which is the engine's parent, as that is the log's.
 * The text alone may be of one that was killed, and its pid another process's. */
static bool place_is_homeless_of(int fd, pid_t supervisor)
{
        pid_t log, engine;

        if (place_read_homeless(fd) != supervisor || place_holder(fd, SB_PLACE_HOMELESS_BYTE, &log))
                return false;
        engine = log > 0 ? place_parent(log) : 0;
        return engine && place_parent(engine) == supervisor;
}

int sb_place_homeless_open(const struct sb_place *place, pid_t *ret_pid, int *ret_fd)
{
        int fd = place_open_lock(place), pidfd = -1;
        pid_t pid;

        if (fd < 0)
                return fd;
        pid = place_read_homeless(fd);
        if (pid)
                pidfd = pidfd_open(pid, 0);
        /* What is the engine's parent behind this is what had that pid before: an engine gets
         * another parent when its own ends, and none that comes later. */
        if (pidfd >= 0 && !place_is_homeless_of(fd, pid)) {
                close(pidfd);
                pidfd = -1;
        }
        close(fd);
        if (pidfd < 0)
                return -ESRCH;
        *ret_pid = pid;
        *ret_fd = pidfd;
        return 0;
}

bool sb_place_ending(pid_t pid)
{
        char path[32], text[64];
        ssize_t len;
        int fd;

        /* Its first number is the size of all that the process maps. */
        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        len = read(fd, text, sizeof(text));
        close(fd);
        return len >= 2 && text[0] == '0' && text[1] == ' ';
}

/* Makes a directory above, unless it is there. A umask that takes bits from the owner does not keep
 * the next one from being made in it. Return: 0, -errno. */
static int place_make_above(const char *path)
{
        struct stat status;

        if (mkdir(path, 0755) < 0)
                return errno == EEXIST ? 0 : -errno;
        if (stat(path, &status) < 0)
                return -errno;
        if ((status.st_mode & 0700) == 0700)
                return 0;
        return chmod(path, (status.st_mode & 07777) | 0700) < 0 ? -errno : 0;
}

int sb_place_make(const struct sb_place *place)
{
        char path[SB_PLACE_MAX];
        size_t len = strlen(place->directory);
        int r;

        memcpy(path, place->directory, sizeof(path));
        for (size_t i = 1; i < len; i++) {
                if (path[i] != '/')
                        continue;
                path[i] = 0;
                r = place_make_above(path);
                if (r)
                        return r;
                path[i] = '/';
        }
        if (mkdir(path, 0711) < 0) {
                if (errno != EEXIST)
                        return -errno;
                return 0;
        }
        /* The umask may have taken bits away. */
        return chmod(path, 0711) < 0 ? -errno : 0;
}

/* Syncs the directory above the one that is open, if it is of the same file system. Return: 1:
 * *ret_fd is open; 0: there is none; -errno. */
static int place_sync_above(int directory_fd, int *ret_fd)
{
        struct stat below, above;
        int fd = openat(directory_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

        if (fd < 0)
                return errno == EACCES ? 0 : -errno;
        if (fstat(directory_fd, &below) < 0 || fstat(fd, &above) < 0)
                r = -errno;
        else if (below.st_dev == above.st_dev && below.st_ino != above.st_ino)
                r = 1;
        /* A file system that can only be read, or syncs no directory, has nothing to sync. */
        if (r > 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
                r = -errno;
        if (r > 0)
                *ret_fd = fd;
        else
                close(fd);
        return r;
}

/* Fault PLACE_UNSYNCED: they may be in memory alone. */
int sb_place_sync(int directory_fd)
{
        int fd = directory_fd, r = !SB_FAULT(PLACE_UNSYNCED);

        while (r > 0) {
                int above = -1;

                r = place_sync_above(fd, &above);
                if (fd != directory_fd)
                        close(fd);
                fd = above;
        }
        return r;
}
