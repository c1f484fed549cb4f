/*
 * The memory cgroup's limit; see limit.h.
 *
 * /proc/self/cgroup has a line `NUMBER:CONTROLLERS:PATH` for each hierarchy. The unified one has
 * number 0 and no controllers; an old one for memory names it. A limit of any directory from PATH
 * up to the root counts.
 */
#define _GNU_SOURCE
#include "ring/attach/limit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNLIMITED (UINT64_C(1) << 60) /* the old hierarchy has a number near 2^63 for "none" */

/* Read the beginning of a file. Return: whether there was anything. */
static int limit_read(const char *path, char *ret, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd >= 0 ? read(fd, ret, size - 1) : -1;

        if (fd >= 0)
                close(fd);
        ret[len > 0 ? len : 0] = 0;
        return len > 0;
}

/* The least limit from @path, which is cut short meanwhile, up to the root. */
static uint64_t limit_of(const char *root, char *path, const char *file)
{
        char name[PATH_MAX], text[32];
        uint64_t least = SB_LIMIT_NONE;

        for (;;) {
                char *slash = strrchr(path, '/');

                if (snprintf(name, sizeof(name), "%s%s/%s", root, path, file) < (int)sizeof(name) &&
                        limit_read(name, text, sizeof(text)) && *text >= '0' && *text <= '9') {
                        uint64_t limit = strtoull(text, NULL, 10);

                        least = limit < UNLIMITED && limit < least ? limit : least;
                }
                if (!slash)
                        return least;
                *slash = 0;
        }
}

uint64_t sb_limit_memory(void)
{
        char text[4096], *line, *next;
        uint64_t least = SB_LIMIT_NONE, limit;

        if (!limit_read("/proc/self/cgroup", text, sizeof(text)))
                return SB_LIMIT_NONE;
        for (line = text; line && *line; line = next) {
                char *controllers = strchr(line, ':');
                char *path = controllers ? strchr(controllers + 1, ':') : NULL;

                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                if (!path || (next && path > next))
                        continue;
                *path++ = 0;
                if (!*++controllers)
                        limit = limit_of("/sys/fs/cgroup", path, "memory.max");
                else if (!strcmp(controllers, "memory"))
                        limit = limit_of("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
                else
                        continue;
                least = limit < least ? limit : least;
        }
        return least;
}
