/*
 * The operating system, as a table of functions: clocks, membarrier and sleeping.
 *
 * Always true: shm and ring/op call nothing else of the system, so that tests can put a table of
 * their own in its place and drive them.
 */
#ifndef SB_BASE_OS_H
#define SB_BASE_OS_H

#include <stdint.h>

struct sb_os {
        uint64_t (*now_ns)(void *context);      /* CLOCK_MONOTONIC */
        uint64_t (*realtime_ns)(void *context); /* CLOCK_REALTIME */
        /* When it returns, every other thread of the segment has passed a full barrier. */
        void (*membarrier)(void *context);
        void (*pause)(void *context, uint64_t ns); /* give way for about that long */
        void *context;
};

/* The real table. Its context is not used. */
extern const struct sb_os sb_os_linux;
/* Let other processes' membarriers reach this one: called once per process, before it pins. Return:
 * 0, or -errno where the kernel lacks MEMBARRIER_CMD_GLOBAL_EXPEDITED. */
int sb_os_register(void);

#endif
