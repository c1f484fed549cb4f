/*
 * What the programs that look at a bus's descriptor share: whether it can be read, changes by
 * another client, and what is open. With `world`, `bus` and `other`.
 */
#ifndef SB_TEST_FD_H
#define SB_TEST_FD_H

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>

#include "libclient/statebus.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB     (UINT64_C(1) << 20)
#define LONG_MS 20000 /* for what comes */
#define QUIET   3     /* for what does not */

static struct world world;
static struct sb_bus *bus, *other;
static unsigned rings_ended; /* each may interrupt its thread once (statebus.h) */

#define BEGIN()                                                                                    \
        do {                                                                                       \
                WORLD_BEGIN(16 * MIB);                                                             \
                other = world_bus(&world);                                                         \
                CHECK(other);                                                                      \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                rings_ended += sb_fd_kind(bus) == SB_FD_IO_URING;                                  \
                other = sb_close(other);                                                           \
                WORLD_END();                                                                       \
        } while (0)

static inline bool readable(int fd, int wait_ms)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        return poll(&look, 1, wait_ms) == 1 && look.revents == POLLIN;
}

/*
 * Whether it cannot be read. A thread that was just about to write it costs one turn. So does each
 * of the two requests of an io_uring that is no more, whenever the kernel gets round to them.
 */
static inline bool rests(int fd)
{
        for (unsigned turn = 0; readable(fd, QUIET); turn++)
                if (turn == 4 || sb_wait(bus, 0) != SB_E_TIMED_OUT ||
                        sb_fd_kind(bus) != SB_FD_THREAD)
                        return false;
        return true;
}

static inline bool set(const char *key, const char *value)
{
        return sb_set(other, b(key), b(value), NULL, NULL) == 0;
}

/* What the next change is, without waiting; it is released. */
static inline int next(struct sb_watch *watch)
{
        struct sb_guard change = {0};
        int r = sb_watch_next(watch, 0, &change);

        sb_guard_release(&change);
        return r;
}

static inline void rest(long ns)
{
        nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static inline unsigned entries_of(const char *directory)
{
        DIR *listing = opendir(directory);
        unsigned count = 0;

        while (listing && readdir(listing))
                count++;
        if (listing)
                closedir(listing);
        return count;
}
static inline unsigned threads_here(void)
{
        return entries_of("/proc/self/task");
}

static inline void interrupt_by_signal(int number)
{
        (void)number;
        sb_interrupt(bus);
}

#endif
