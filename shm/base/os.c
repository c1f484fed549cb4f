/* The real table of os.h, on Linux. */
#define _GNU_SOURCE
#include "shm/base/os.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/base/word.h"

static uint64_t os_read_clock(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t os_now_ns(void *context)
{
        (void)context;
        return os_read_clock(CLOCK_MONOTONIC);
}

static uint64_t os_realtime_ns(void *context)
{
        (void)context;
        return os_read_clock(CLOCK_REALTIME);
}

static void os_membarrier(void *context)
{
        (void)context;
        /* After registration this call has no failure that leaves the process running. */
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
                __builtin_trap();
        /* M:pins. The call was a barrier for all other threads; this one is the caller's own. */
        sb_fence_full();
}

static void os_pause(void *context, uint64_t ns)
{
        struct timespec wait = {
                .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

        (void)context;
        nanosleep(&wait, NULL);
}

static void os_spin(void *context, uint32_t turns)
{
        (void)context;
        while (turns--)
                sb_stall();
}

static int os_wait(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                .tv_nsec = (long)(deadline_ns % 1000000000u)};
        long r;

        (void)context;
        r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
                deadline_ns == UINT64_MAX ? NULL : &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
        return r < 0 && errno == EINTR ? -EINTR : 0;
}

static void os_wake(void *context, struct sb_word32 *word)
{
        (void)context;
        (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

const struct sb_os sb_os_linux = {
        .now_ns = os_now_ns,
        .realtime_ns = os_realtime_ns,
        .membarrier = os_membarrier,
        .pause = os_pause,
        .spin = os_spin,
        .wait = os_wait,
        .wake = os_wake,
};

/* The address of the stack and the seed make the number of turns. */
void sb_os_give_way(const struct sb_os *os, uint64_t seed, uint32_t bits)
{
        uint64_t mixed = ((uint64_t)(uintptr_t)&seed >> 4 ^ seed) * 0x9e3779b97f4a7c15u;

        os->spin(os->context, (uint32_t)(mixed >> 32) & ((UINT32_C(1) << bits) - 1));
}

int sb_os_register(void)
{
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0)
                return -errno;
        return 0;
}
