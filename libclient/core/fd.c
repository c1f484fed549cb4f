/*
 * The descriptor of a bus; see fd.h.
 *
 * The order is what counts (watch_settle() in watch.c has it). The eventfd's count is taken first,
 * and then this side looks: at the watches; behind its word that the owner sleeps, at the bits; and
 * at what the waiter has done. What came before a look is seen by it, and the descriptor is made
 * readable again. What comes later finds that the owner sleeps, and the waiter writes. A waiter may
 * write a moment after its wait was seen to be over: that costs one turn with nothing.
 *
 * agentd's end is seen by a pidfd of its engine. While no engine lives, and where the pidfd cannot
 * be had, the descriptor can be read each quarter of a second, and the next call looks.
 *
 * The public calls are described in statebus.h.
 */
#define _GNU_SOURCE
#include "libclient/core/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/core/waiter.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "shm/notify/bell.h"

struct sb_fd {
        int fd;
        bool waits; /* the waiter waits for the bell, as far as is known */
        int life;   /* as for a waiter */
        struct sb_waiter *waiter;
        struct sb_waiter_task task;
};

/* ---- agentd's end ---- */

/* Return: a pidfd of the engine, or what stands for one. */
static int fd_open_life(struct sb_bus *bus)
{
        const struct sb_superblock *super = bus->handle.segment.super;
        /* Relaxed, all: an engine that is dead, or another one by now, is seen by the word. */
        uint32_t holder = sb_load_relaxed(&super->engine_life);
        int fd;

        if (!bus->home)
                return SB_WAITER_NO_LIFE;
        /* Where agentd knows this process by another number, it has other numbers, too. */
        if (bus->handle.record->pid != (uint32_t)getpid() || holder == 0 ||
                (holder & SB_LIFE_DIED) || sb_load_relaxed(&super->engine) != holder)
                return SB_WAITER_TIMED;
        fd = (int)syscall(SYS_pidfd_open, (int)holder, 0);
        if (fd < 0)
                return SB_WAITER_TIMED;
        /* The kernel writes the word before it gives the number to another process. */
        if (sb_load_relaxed(&super->engine_life) != holder) {
                close(fd);
                return SB_WAITER_TIMED;
        }
        return fd;
}

static void fd_close_life(struct sb_fd *fd)
{
        if (fd->life >= 0)
                close(fd->life);
        fd->life = SB_WAITER_NO_LIFE;
}

/* ---- the eventfd ---- */

void sb_fd_show(struct sb_bus *bus)
{
        uint64_t one = 1;

        if (write(bus->watches.fd->fd, &one, sizeof(one)) < 0)
                return; /* the count is full: it can be read */
}

/* Return: whether it could be read. */
static bool fd_clear(struct sb_fd *fd)
{
        uint64_t count;

        return !SB_FAULT(FD_COUNT_STAYS) && read(fd->fd, &count, sizeof(count)) > 0;
}

int sb_fd_number(const struct sb_bus *bus)
{
        return bus->watches.fd->fd;
}

/* ---- the waiter ---- */

/* Whether the environment asks for a thread. */
static bool fd_wants_thread(void)
{
        const char *wanted = getenv("STATEBUS_FD");

        return wanted && strcmp(wanted, "thread") == 0;
}

static void fd_end_waiter(struct sb_bus *bus, struct sb_fd *fd, bool forked)
{
        if (!fd->waiter)
                return;
        if (!forked) {
                sb_bell_wake(&bus->handle.segment, bus->handle.slot);
                sb_bell_unstand(&bus->handle);
        }
        fd->waiter->kind->end(fd->waiter, forked);
        fd->waiter = NULL;
        fd->waits = false;
        fd_close_life(fd);
}

static bool fd_is_over(const struct sb_fd *fd)
{
        return fd->waiter && fd->waiter->kind->is_over(fd->waiter);
}

/* Learn what the waiter has done. One that serves no more (an io_uring serves the thread alone that
 * made it) is ended; the next is a thread. */
static void fd_take(struct sb_bus *bus, struct sb_fd *fd)
{
        bool bell = false, life = false;

        if (!fd->waiter)
                return;
        if (fd->waiter->kind->take(fd->waiter, &bell, &life) < 0) {
                fd_end_waiter(bus, fd, false);
                return;
        }
        if (!life)
                fd_close_life(fd);
        if (!bell && fd->waits) {
                fd->waits = false;
                sb_bell_unstand(&bus->handle);
        }
}

/* Have the waiter wait for what it does not wait for yet. Return: whether it waits for all. */
static bool fd_wait(struct sb_bus *bus, struct sb_fd *fd)
{
        uint32_t count = 0;

        if (!fd->waiter)
                return false;
        if (!fd->waits && !sb_bell_stand(&bus->handle, &bus->watches.interrupted, &count))
                return false;
        /* A thread looks at the segment itself. */
        if (fd->life == SB_WAITER_NO_LIFE && fd->waiter->kind->kind == SB_FD_IO_URING)
                fd->life = fd_open_life(bus);
        fd->waits = fd->waiter->kind->begin(fd->waiter, count, fd->life) == 0;
        if (!fd->waits)
                fd_end_waiter(bus, fd, false);
        return fd->waits;
}

bool sb_fd_hear(struct sb_bus *bus)
{
        struct sb_fd *fd = bus->watches.fd;
        bool over = fd_is_over(fd);

        if (over)
                fd_take(bus, fd);
        return fd_clear(fd) || over || !fd->waits;
}

bool sb_fd_wait(struct sb_bus *bus)
{
        struct sb_fd *fd = bus->watches.fd;

        /* Without a waiter the descriptor can be read until there is one. */
        if (!fd->waiter)
                (void)sb_waiter_thread(&fd->task, &fd->waiter);
        /* Relaxed: sb_bell_stand() looks behind its word that the owner sleeps. What came
         * meanwhile may have been taken with the count. */
        return !sb_load_relaxed(&bus->watches.interrupted) && fd_wait(bus, fd) && !fd_is_over(fd);
}

/* ---- making one, and its end ---- */

int sb_fd_new(struct sb_bus *bus)
{
        struct sb_fd *fd = calloc(1, sizeof(*fd));
        int r = -ENOSYS;

        if (!fd)
                return -ENOMEM;
        fd->life = SB_WAITER_NO_LIFE;
        fd->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd->fd < 0) {
                r = -errno;
                free(fd);
                return r;
        }
        fd->task = (struct sb_waiter_task){.segment = &bus->handle.segment,
                .bell = &bus->handle.record->bell,
                .eventfd = fd->fd,
                .look_ns = bus->watches.sleep_max_ns};
        if (!fd_wants_thread())
                r = sb_waiter_ring(&fd->task, &fd->waiter);
        if (r != 0)
                r = sb_waiter_thread(&fd->task, &fd->waiter);
        if (r != 0) {
                close(fd->fd);
                free(fd);
                return r;
        }
        bus->watches.fd = fd;
        return 0;
}

enum sb_fd_kind sb_fd_kind(const struct sb_bus *bus)
{
        const struct sb_fd *fd = bus ? bus->watches.fd : NULL;

        return fd && fd->waiter ? fd->waiter->kind->kind : SB_FD_NONE;
}

void sb_fd_end(struct sb_bus *bus, bool forked)
{
        struct sb_fd *fd = bus->watches.fd;

        if (!fd)
                return;
        fd_end_waiter(bus, fd, forked);
        close(fd->fd);
        free(fd);
        bus->watches.fd = NULL;
}
