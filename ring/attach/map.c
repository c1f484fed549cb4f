/* A process's map of a segment; see map.h. */
#define _GNU_SOURCE

#include "ring/attach/map.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* An aligned range of addresses in a larger one, of which the rest is given back. NULL: there are
 * not so many addresses. */
static void *map_reserve(uint64_t size)
{
        unsigned char *range = mmap(NULL, size + SB_MAP_HUGE_PAGE, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uint64_t front;

        if (range == MAP_FAILED)
                return NULL;
        front = -(uintptr_t)range & (SB_MAP_HUGE_PAGE - 1);
        if (front)
                munmap(range, front);
        munmap(range + front + size, SB_MAP_HUGE_PAGE - front);
        return range + front;
}

void *sb_map_segment(int fd, uint64_t size)
{
        void *range = size < SB_MAP_HUGE_PAGE ? NULL : map_reserve(size);
        void *base = mmap(
                range, size, PROT_READ | PROT_WRITE, MAP_SHARED | (range ? MAP_FIXED : 0), fd, 0);
        int error = errno;

        if (base != MAP_FAILED)
                return base;
        if (range)
                munmap(range, size);
        errno = error;
        return NULL;
}
