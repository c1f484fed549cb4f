/*
 * A waiter that is a thread; see waiter.h.
 *
 * The thread waits for an order, then on the bell, writes the eventfd, and waits for the next
 * order. All signals are blocked in it, so that the program's handlers run elsewhere. It looks
 * whether agentd is there as often as a wait of the client itself would.
 *
 * Always true: between an order and `over` the thread alone waits; `over` comes before the eventfd
 * is written.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/core/waiter.h"
#include "shm/base/assert.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"

struct waiter_thread {
        struct sb_waiter waiter;
        struct sb_waiter_task task;
        pthread_t thread;
        sem_t orders;
        uint32_t count;        /* the order: wait while the bell is that */
        bool ordered;          /* the owner's: since it last saw that a wait was over */
        struct sb_word32 over; /* the order is done */
        struct sb_word32 ends; /* the thread is to end */
};

static struct waiter_thread *waiter_thread_of(struct sb_waiter *waiter)
{
        return (struct waiter_thread *)waiter;
}

static void waiter_thread_wait(struct waiter_thread *self)
{
        const struct sb_os *os = self->task.segment->os;

        /* Relaxed, both: the owner looks at what counts by itself. */
        do {
                uint64_t end = os->now_ns(os->context) + self->task.look_ns;

                (void)os->wait(os->context, self->task.bell, self->count, end);
        } while (sb_load_relaxed(self->task.bell) == self->count && !sb_load_relaxed(&self->ends) &&
                 sb_segment_serving(self->task.segment));
}

static void *waiter_thread_run(void *argument)
{
        struct waiter_thread *self = argument;
        uint64_t one = 1;

        for (;;) {
                while (sem_wait(&self->orders) < 0)
                        ;
                if (sb_load_relaxed(&self->ends)) /* Relaxed: the order came behind it. */
                        return NULL;
                waiter_thread_wait(self);
                /* R:waiter > A:waiter. Before the eventfd can be read. */
                sb_store_release(&self->over, 1);
                /* It fails when the count is full: then the eventfd can be read. */
                if (write(self->task.eventfd, &one, sizeof(one)) < 0)
                        continue;
        }
}

static int waiter_thread_begin(struct sb_waiter *waiter, uint32_t count, int life)
{
        struct waiter_thread *self = waiter_thread_of(waiter);

        (void)life;
        if (self->ordered)
                return 0;
        self->count = count;
        self->ordered = true;
        sb_store_relaxed(&self->over, 0); /* Relaxed: the order comes behind it. */
        sem_post(&self->orders);
        return 0;
}

static bool waiter_thread_is_over(struct sb_waiter *waiter)
{
        /* A:waiter. */
        return sb_load_acquire(&waiter_thread_of(waiter)->over) != 0;
}

static int waiter_thread_take(struct sb_waiter *waiter, bool *ret_bell, bool *ret_life)
{
        struct waiter_thread *self = waiter_thread_of(waiter);

        if (waiter_thread_is_over(waiter))
                self->ordered = false;
        *ret_bell = *ret_life = self->ordered;
        return 0;
}

static void waiter_thread_end(struct sb_waiter *waiter, bool forked)
{
        struct waiter_thread *self = waiter_thread_of(waiter);

        /* In a forked child there is no such thread. */
        if (!forked) {
                sb_store_relaxed(&self->ends, 1); /* Relaxed: the order comes behind it. */
                sem_post(&self->orders);
                pthread_join(self->thread, NULL);
                sem_destroy(&self->orders);
        }
        free(self);
}

static const struct sb_waiter_kind waiter_thread_kind = {
        .kind = SB_FD_THREAD,
        .begin = waiter_thread_begin,
        .is_over = waiter_thread_is_over,
        .take = waiter_thread_take,
        .end = waiter_thread_end,
};

int sb_waiter_thread(const struct sb_waiter_task *task, struct sb_waiter **ret_waiter)
{
        struct waiter_thread *self = calloc(1, sizeof(*self));
        sigset_t all, before;
        int r;

        if (!self)
                return -ENOMEM;
        self->waiter.kind = &waiter_thread_kind;
        self->task = *task;
        sem_init(&self->orders, 0, 0);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&self->thread, NULL, waiter_thread_run, self);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r != 0) {
                sem_destroy(&self->orders);
                free(self);
                return -r;
        }
        *ret_waiter = &self->waiter;
        return 0;
}
