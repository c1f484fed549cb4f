/* The real table of base/os.h, on Linux. */
#define _GNU_SOURCE
#include "shm/base/os.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/base/word.h"

static uint64_t read_clock(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void *context)
{
        (void)context;
        return read_clock(CLOCK_MONOTONIC);
}

static uint64_t realtime_ns(void *context)
{
        (void)context;
        return read_clock(CLOCK_REALTIME);
}

static void membarrier_expedited(void *context)
{
        (void)context;
        /* After registration this call has no failure that leaves the process running. */
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
                __builtin_trap();
        /* M:pins. The others passed a barrier in the call; this one is the caller's own. */
        sb_fence_full();
}

static void pause_ns(void *context, uint64_t ns)
{
        struct timespec wait = {
                .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

        (void)context;
        nanosleep(&wait, NULL);
}

const struct sb_os sb_os_linux = {
        .now_ns = now_ns,
        .realtime_ns = realtime_ns,
        .membarrier = membarrier_expedited,
        .pause = pause_ns,
};

int sb_os_register(void)
{
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0)
                return -errno;
        return 0;
}
