/*
 * A waiter that is an io_uring; see waiter.h.
 *
 * Two requests go on at most: a futex wait on the bell, and the wait for agentd's end. When one is
 * over, the kernel writes the eventfd that is registered with the ring, at once and in the context
 * of the process that rang.
 *
 * The ring runs its work when its owner calls io_uring_enter(), and at no other time
 * (IORING_SETUP_DEFER_TASKRUN). Otherwise the kernel would interrupt the owner's thread for each
 * completion, and an epoll_wait() that is going on there would return EINTR. The ring's own
 * descriptor is of no use then: it cannot be read until that work has run. So it is an eventfd.
 *
 * System calls, without liburing: docs/decisions.md 64. Only the owner's thread submits, and the
 * kernel posts completions in the owner's calls alone; so the two queues need no order between
 * threads.
 *
 * Always true: the ring's map is not inherited by a forked child, and its descriptor is closed by
 * exec().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libclient/core/waiter.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"

/* Since Linux 6.7; the headers of Debian 12 are older. */
#define WAITER_OP_FUTEX_WAIT 51
#define WAITER_FUTEX_U32     2 /* FUTEX2_SIZE_U32, and not private to the process */
#define WAITER_FUTEX_ANY     UINT32_MAX

#define WAITER_ENTRIES 4u
/* What requests say of themselves. */
#define WAITER_OF_BELL UINT64_C(1)
#define WAITER_OF_LIFE UINT64_C(2)

struct waiter_ring {
        struct sb_waiter waiter;
        struct sb_waiter_task task;
        int fd;
        char *queues; /* the map with both queues */
        size_t queues_size;
        struct io_uring_sqe *entries; /* to be submitted */
        struct sb_word32 *submit_tail, *submit_flags, *submit_array;
        struct sb_word32 *done_head, *done_tail;
        const struct io_uring_cqe *done;
        uint32_t submit_mask, done_mask;
        bool waits_bell, waits_life;
        struct __kernel_timespec look;
};

static struct waiter_ring *waiter_ring_of(struct sb_waiter *waiter)
{
        return (struct waiter_ring *)waiter;
}

static int waiter_ring_enter(struct waiter_ring *self, uint32_t count)
{
        long r;

        do
                r = syscall(
                        SYS_io_uring_enter, self->fd, count, 0, IORING_ENTER_GETEVENTS, NULL, 0);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        return r == (long)count ? 0 : -EIO;
}

/* A free entry of the queue; @index: of the ones that the next call submits. */
static struct io_uring_sqe *waiter_ring_entry(struct waiter_ring *self, uint32_t index)
{
        /* Relaxed: the owner's own. */
        uint32_t at = (sb_load_relaxed(self->submit_tail) + index) & self->submit_mask;

        sb_store_relaxed(&self->submit_array[at], at); /* Relaxed: as above. */
        memset(&self->entries[at], 0, sizeof(self->entries[at]));
        return &self->entries[at];
}

static void waiter_ring_ask_bell(struct io_uring_sqe *entry, struct sb_word32 *bell, uint32_t count)
{
        entry->opcode = WAITER_OP_FUTEX_WAIT;
        entry->fd = WAITER_FUTEX_U32;
        entry->addr = (uintptr_t)bell;
        entry->addr2 = count;
        entry->addr3 = WAITER_FUTEX_ANY;
        entry->user_data = WAITER_OF_BELL;
}

static void waiter_ring_ask_life(struct waiter_ring *self, struct io_uring_sqe *entry, int life)
{
        entry->user_data = WAITER_OF_LIFE;
        if (life != SB_WAITER_TIMED) {
                entry->opcode = IORING_OP_POLL_ADD;
                entry->fd = life;
                entry->poll32_events = POLLIN;
                return;
        }
        self->look.tv_sec = (long long)(self->task.look_ns / 1000000000u);
        self->look.tv_nsec = (long long)(self->task.look_ns % 1000000000u);
        entry->opcode = IORING_OP_TIMEOUT;
        entry->fd = -1;
        entry->addr = (uintptr_t)&self->look;
        entry->len = 1;
}

static int waiter_ring_begin(struct sb_waiter *waiter, uint32_t count, int life)
{
        struct waiter_ring *self = waiter_ring_of(waiter);
        uint32_t tail = sb_load_relaxed(self->submit_tail); /* Relaxed: the owner's own. */
        uint32_t asked = 0;
        int r;

        if (!self->waits_bell)
                waiter_ring_ask_bell(waiter_ring_entry(self, asked++), self->task.bell, count);
        if (!self->waits_life && life != SB_WAITER_NO_LIFE)
                waiter_ring_ask_life(self, waiter_ring_entry(self, asked++), life);
        if (asked == 0)
                return 0;
        sb_store_relaxed(self->submit_tail, tail + asked); /* Relaxed: the call comes behind it. */
        r = waiter_ring_enter(self, asked);
        if (r != 0)
                return r;
        self->waits_bell = true;
        self->waits_life = self->waits_life || life != SB_WAITER_NO_LIFE;
        return 0;
}

static bool waiter_ring_is_over(struct sb_waiter *waiter)
{
        struct waiter_ring *self = waiter_ring_of(waiter);

        /* Relaxed: the kernel sets the flag before it writes the eventfd, and reading that was a
         * system call. The tail it moves in calls of this thread. */
        return (sb_load_relaxed(self->submit_flags) &
                       (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) ||
               sb_load_relaxed(self->done_head) != sb_load_relaxed(self->done_tail);
}

/* Note what one completion says. Return: 0; -errno: the kernel cannot wait so. */
static int waiter_ring_note(struct waiter_ring *self, const struct io_uring_cqe *done)
{
        if (done->user_data == WAITER_OF_LIFE) {
                self->waits_life = false;
                return done->res < 0 && done->res != -ETIME ? done->res : 0;
        }
        self->waits_bell = false;
        /* -EAGAIN: the bell had changed. */
        return done->res < 0 && done->res != -EAGAIN ? done->res : 0;
}

static int waiter_ring_take(struct sb_waiter *waiter, bool *ret_bell, bool *ret_life)
{
        struct waiter_ring *self = waiter_ring_of(waiter);
        int r = waiter_ring_enter(self, 0);

        if (r != 0)
                return r;
        for (;;) {
                uint32_t head = sb_load_relaxed(self->done_head); /* Relaxed: the owner's own. */

                /* Relaxed: moved in the call above. */
                if (head == sb_load_relaxed(self->done_tail))
                        break;
                r = waiter_ring_note(self, &self->done[head & self->done_mask]);
                sb_store_relaxed(self->done_head, head + 1); /* Relaxed: the owner's own. */
                if (r != 0)
                        return r;
        }
        *ret_bell = self->waits_bell;
        *ret_life = self->waits_life;
        return 0;
}

static void waiter_ring_end(struct sb_waiter *waiter, bool forked)
{
        struct waiter_ring *self = waiter_ring_of(waiter);

        if (!forked) {
                munmap(self->entries, WAITER_ENTRIES * sizeof(*self->entries));
                munmap(self->queues, self->queues_size);
        }
        /* The kernel ends what goes on, when no process has the descriptor any more. */
        close(self->fd);
        free(self);
}

/* ---- making one ---- */

static struct sb_word32 *waiter_ring_word(const struct waiter_ring *self, uint32_t offset)
{
        return (struct sb_word32 *)(void *)(self->queues + offset);
}

static int waiter_ring_map(struct waiter_ring *self, const struct io_uring_params *params)
{
        size_t submit = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
        size_t done = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
        size_t entries_size = WAITER_ENTRIES * sizeof(*self->entries);
        void *entries, *queues;

        self->queues_size = submit > done ? submit : done;
        queues = mmap(NULL, self->queues_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
                IORING_OFF_SQ_RING);
        if (queues == MAP_FAILED)
                return -errno;
        entries = mmap(
                NULL, entries_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, IORING_OFF_SQES);
        if (entries == MAP_FAILED) {
                munmap(queues, self->queues_size);
                return -errno;
        }
        (void)madvise(queues, self->queues_size, MADV_DONTFORK);
        (void)madvise(entries, entries_size, MADV_DONTFORK);
        self->queues = queues;
        self->entries = entries;
        self->submit_tail = waiter_ring_word(self, params->sq_off.tail);
        self->submit_flags = waiter_ring_word(self, params->sq_off.flags);
        self->submit_array = waiter_ring_word(self, params->sq_off.array);
        self->submit_mask = params->sq_entries - 1;
        self->done_head = waiter_ring_word(self, params->cq_off.head);
        self->done_tail = waiter_ring_word(self, params->cq_off.tail);
        self->done = (const void *)(self->queues + params->cq_off.cqes);
        self->done_mask = params->cq_entries - 1;
        return 0;
}

/* Whether the kernel has futex waits of a ring. */
static bool waiter_ring_can_wait(int fd)
{
        struct {
                struct io_uring_probe probe;
                struct io_uring_probe_op ops[WAITER_OP_FUTEX_WAIT + 1];
        } known;

        memset(&known, 0, sizeof(known));
        return syscall(SYS_io_uring_register, fd, IORING_REGISTER_PROBE, &known,
                       WAITER_OP_FUTEX_WAIT + 1) >= 0 &&
               known.probe.ops_len > WAITER_OP_FUTEX_WAIT &&
               (known.ops[WAITER_OP_FUTEX_WAIT].flags & IO_URING_OP_SUPPORTED);
}

static const struct sb_waiter_kind waiter_ring_kind = {
        .kind = SB_FD_IO_URING,
        .begin = waiter_ring_begin,
        .is_over = waiter_ring_is_over,
        .take = waiter_ring_take,
        .end = waiter_ring_end,
};

/* Fault FD_RING_EAGER: the ring runs its work whenever it comes. */
static uint32_t waiter_ring_flags(void)
{
        if (SB_FAULT(FD_RING_EAGER))
                return 0;
        return IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
}

int sb_waiter_ring(const struct sb_waiter_task *task, struct sb_waiter **ret_waiter)
{
        struct io_uring_params params = {.flags = waiter_ring_flags()};
        struct waiter_ring *self = calloc(1, sizeof(*self));
        int r = 0;

        if (!self)
                return -ENOMEM;
        self->waiter.kind = &waiter_ring_kind;
        self->task = *task;
        self->fd = (int)syscall(SYS_io_uring_setup, WAITER_ENTRIES, &params);
        if (self->fd < 0) {
                r = -errno;
                free(self);
                return r;
        }
        if (!(params.features & IORING_FEAT_SINGLE_MMAP) || !waiter_ring_can_wait(self->fd))
                r = -ENOSYS;
        else if (syscall(SYS_io_uring_register, self->fd, IORING_REGISTER_EVENTFD, &task->eventfd,
                         1) < 0)
                r = -errno;
        else
                r = waiter_ring_map(self, &params);
        if (r != 0) {
                close(self->fd);
                free(self);
                return r;
        }
        *ret_waiter = &self->waiter;
        return 0;
}
