/*
 * A waiter: what waits for a client's bell in the client's place, and then makes an eventfd
 * readable. That is the descriptor of sb_fd() (fd.h). There are two:
 *
 *      waiter-ring.c    an io_uring of the client's own, with a futex wait on the bell. The kernel
 *                       itself writes the eventfd; no thread runs
 *      waiter-thread.c  a thread of the client's own, which sleeps on the bell and writes the
 *                       eventfd: where the kernel has no such wait (before Linux 6.7), or does not
 *                       let the process have an io_uring
 *
 * A waiter waits for one bell at a time, and in addition for the end of agentd.
 *
 * Always true: a wait that is over is seen by is_over() before the eventfd can be read. So an owner
 * that takes the count of the eventfd, and asks is_over() behind that, has missed nothing.
 */
#ifndef SB_WAITER_H
#define SB_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"

/* What a waiter is made for. All of it stays as long as the waiter. */
struct sb_waiter_task {
        const struct sb_segment *segment;
        struct sb_word32 *bell; /* in the segment */
        int eventfd;
        uint64_t look_ns; /* how long a wait lasts before it is asked whether agentd is there */
};

/* How an io_uring notices agentd's end: by a pidfd, or so. A thread looks by itself. */
#define SB_WAITER_NO_LIFE (-1) /* not at all: there is no agentd */
#define SB_WAITER_TIMED   (-2) /* that wait is over after look_ns, and the owner looks */

struct sb_waiter;
struct sb_waiter_kind {
        enum sb_fd_kind kind;
        /* Begin to wait while the bell is @count, if the bell's wait is over, and for @life, if
         * that wait is over. Return: 0, -errno. */
        int (*begin)(struct sb_waiter *waiter, uint32_t count, int life);
        /* Whether a wait that was begun may be over: a load or two. */
        bool (*is_over)(struct sb_waiter *waiter);
        /* Take note of what is over. Return: 0, with what still goes on; -errno: the waiter serves
         * no more. */
        int (*take)(struct sb_waiter *waiter, bool *ret_bell, bool *ret_life);
        /* End the waiter. The bell has been rung behind the last begin(). @forked: it is the
         * parent's, of which the caller has a copy. */
        void (*end)(struct sb_waiter *waiter, bool forked);
};
struct sb_waiter {
        const struct sb_waiter_kind *kind;
};

/* Make a waiter. Return: 0; -ENOSYS and other -errno: this process cannot have one. */
int sb_waiter_ring(const struct sb_waiter_task *task, struct sb_waiter **ret_waiter);
int sb_waiter_thread(const struct sb_waiter_task *task, struct sb_waiter **ret_waiter);

#endif
