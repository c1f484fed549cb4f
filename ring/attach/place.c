/* Where a bus lives; see place.h. */
#define _GNU_SOURCE

#include "ring/attach/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Append @text at @at. Return: the new end, or SIZE_MAX when it does not fit. */
static size_t append(char *buffer, size_t size, size_t at, const char *text)
{
        size_t len = strlen(text);

        if (at == SIZE_MAX || len >= size - at)
                return SIZE_MAX;
        memcpy(buffer + at, text, len + 1);
        return at + len;
}

static const char *environment(const char *name)
{
        const char *value = secure_getenv(name);

        return value && *value ? value : NULL;
}

/* No file can be called so. */
static bool has_long_name(const char *path)
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
                bus = environment("STATEBUS");
        if (!bus)
                bus = "default";
        if (!*bus || !strcmp(bus, ".") || !strcmp(bus, ".."))
                return -EINVAL;
        if (!strchr(bus, '/')) {
                const char *state = environment("XDG_STATE_HOME"), *home = environment("HOME");

                if (geteuid() == 0)
                        above = "/var/lib/statebus/";
                else if (state &&
                         *state == '/') /* the specification says to ignore a relative one */
                        above = "/statebus/",
                        at = append(place.directory, sizeof(place.directory), 0, state);
                else if (home)
                        above = "/.local/state/statebus/",
                        at = append(place.directory, sizeof(place.directory), 0, home);
                else
                        return -ENOENT;
                at = append(place.directory, sizeof(place.directory), at, above);
        }
        at = append(place.directory, sizeof(place.directory), at, bus);
        if (at == SIZE_MAX || has_long_name(bus))
                return -ENAMETOOLONG;
        while (at > 1 && place.directory[at - 1] == '/')
                place.directory[--at] = 0;
        memset(place.directory + at, 0, sizeof(place.directory) - at);
        *ret = place;
        return 0;
}

static size_t append_number(char *buffer, size_t size, size_t at, unsigned number)
{
        char digits[12];
        size_t first = sizeof(digits) - 1;

        digits[first] = 0;
        do
                digits[--first] = (char)('0' + number % 10);
        while (number /= 10);
        return append(buffer, size, at, digits + first);
}

int sb_place_address(
        const struct sb_place *place, const char *file, struct sockaddr_un *ret, int *ret_fd)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t at, size = sizeof(address.sun_path);
        int fd = -1;

        at = append(address.sun_path, size, 0, place->directory);
        at = append(address.sun_path, size, at, "/");
        at = append(address.sun_path, size, at, file);
        if (at == SIZE_MAX) {
                /* 108 bytes are all that an address holds: go through a descriptor of the
                 * directory. */
                fd = open(place->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        return -errno;
                at = append(address.sun_path, size, 0, "/proc/self/fd/");
                at = append_number(address.sun_path, size, at, (unsigned)fd);
                at = append(address.sun_path, size, at, "/");
                at = append(address.sun_path, size, at, file);
                if (at == SIZE_MAX) {
                        close(fd);
                        return -ENAMETOOLONG;
                }
        }
        *ret = address;
        *ret_fd = fd;
        return 0;
}

int sb_place_keeper(const struct sb_place *place, pid_t *ret_pid)
{
        struct flock who = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        char path[SB_PLACE_MAX + 16];
        size_t at;
        int fd, r;

        at = append(path, sizeof(path), 0, place->directory);
        (void)append(path, sizeof(path), at, "/" SB_PLACE_LOCK);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR ? -ESRCH : -errno;
        if (fcntl(fd, F_GETLK, &who) < 0) {
                r = -errno;
        } else if (who.l_type != F_UNLCK) {
                *ret_pid = who.l_pid;
                r = 0;
        } else {
                r = -ESRCH;
        }
        close(fd);
        return r;
}

int sb_place_make(const struct sb_place *place)
{
        char path[SB_PLACE_MAX];
        size_t len = strlen(place->directory);

        memcpy(path, place->directory, sizeof(path));
        for (size_t i = 1; i < len; i++) {
                if (path[i] != '/')
                        continue;
                path[i] = 0;
                if (mkdir(path, 0755) < 0 && errno != EEXIST)
                        return -errno;
                path[i] = '/';
        }
        if (mkdir(path, 0711) < 0) {
                if (errno != EEXIST)
                        return -errno;
                return 0;
        }
        /* Whatever the umask was. */
        return chmod(path, 0711) < 0 ? -errno : 0;
}
