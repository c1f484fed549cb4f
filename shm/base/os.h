/*
 * The table of functions through which everything that is not memory comes in: clock, membarrier,
 * sleeping, liveness. shm and ring call nothing else of the system, so that tests can drive them.
 */
#ifndef SB_BASE_OS_H
#define SB_BASE_OS_H

#include <stdint.h>

struct sb_os {
        uint64_t (*now_ns)(void *context);      /* CLOCK_MONOTONIC */
        uint64_t (*realtime_ns)(void *context); /* CLOCK_REALTIME */
        /* every other thread of the segment has passed a full barrier */
        void (*membarrier)(void *context);
        void (*pause)(void *context, uint64_t ns); /* give way for about that long */
        void *context;
};

/* The real one. Calling sb_os_register() once per process is what makes membarrier reach it. */
extern const struct sb_os sb_os_linux;
/* Return: 0, or -errno where the kernel lacks MEMBARRIER_CMD_GLOBAL_EXPEDITED. */
int sb_os_register(void);

#endif
