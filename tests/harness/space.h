/*
 * The space of a handle (shm/upkeep/handle.h) in tests with real processes.
 */
#ifndef SB_TESTS_SPACE_H
#define SB_TESTS_SPACE_H

#include <stdlib.h>
#include <sys/mman.h>

#include "shm/layout/segment.h"
#include "shm/upkeep/handle.h"

/* Memory that is never given back: a process begins few handles. */
static inline void *test_space(const struct sb_segment *segment)
{
        void *space = mmap(NULL, sb_handle_space(&segment->geometry), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (space == MAP_FAILED)
                abort();
        return space;
}

#endif
