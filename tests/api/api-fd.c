/*
 * The descriptor of a bus in event loops: poll, epoll and io_uring find out by it that there is
 * something, no change is missed, and no loop runs for nothing. $STATEBUS_FD says what waits behind
 * it; without that, what this machine has. Which process and thread has it, api-fd-owner shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/core/waiter.h"
#include "tests/api/fd.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

/* ---- what it says ---- */

static void test_it_can_be_read_until_a_call_finds_nothing(void)
{
        struct sb_watch *watch = NULL;
        int fd;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sb_fd_kind(bus), SB_FD_NONE);
        fd = sb_fd(bus);
        CHECK(fd >= 0);
        CHECK_EQ(sb_fd(bus), fd);
        CHECK(sb_fd_kind(bus) != SB_FD_NONE);
        for (unsigned round = 0; round < 3; round++) {
                CHECK(rests(fd));
                CHECK(set("key", "1") && readable(fd, LONG_MS));
                CHECK(set("other", "1") && set("key", "2"));
                /* One at a time, as a loop may take them. */
                CHECK(readable(fd, 0));
                CHECK_EQ(next(watch), 0);
                CHECK(readable(fd, 0));
                CHECK_EQ(round == 1 ? sb_wait(bus, 0) : next(watch), 0);
                if (round == 1)
                        CHECK_EQ(next(watch), 0);
                CHECK(readable(fd, 0));
                CHECK_EQ(round == 1 ? sb_wait(bus, 0) : next(watch), SB_E_TIMED_OUT);
        }
        CHECK(rests(fd));
        sb_watch_close(watch);
        END();
}

static uint64_t processor_ns(void)
{
        struct timespec time;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void test_what_waits_behind_it_takes_no_processor_time(void)
{
        uint64_t before;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK(fd >= 0 && rests(fd));
        before = processor_ns();
        CHECK(!readable(fd, 500));
        CHECK(processor_ns() - before < 50000000u);
        END();
}

/* Whether an io_uring can wait here. */
static bool has_io_uring(void)
{
        const struct sb_waiter_task task = {.segment = &bus->handle.segment,
                .bell = &bus->handle.record->bell,
                .eventfd = sb_fd(bus),
                .look_ns = bus->watches.sleep_max_ns};
        struct sb_waiter *waiter = NULL;

        if (sb_waiter_ring(&task, &waiter) != 0)
                return false;
        waiter->kind->end(waiter, false);
        return true;
}

static void test_the_bus_says_what_waits(void)
{
        const char *wanted = getenv("STATEBUS_FD");
        unsigned threads = threads_here();
        enum sb_fd_kind kind;

        BEGIN();
        CHECK(sb_fd(bus) >= 0);
        kind = sb_fd_kind(bus);
        CHECK(kind == SB_FD_THREAD || (kind == SB_FD_IO_URING && !wanted));
        CHECK_EQ(threads_here(), threads + (kind == SB_FD_THREAD));
        if (!wanted && kind == SB_FD_THREAD)
                CHECK(!has_io_uring());
        END();
        if (!wanted && kind == SB_FD_THREAD)
                TEST_SKIP("no io_uring with futex waits here: a thread waits");
}

static void test_watches_that_come_and_go_count(void)
{
        struct sb_watch *first = NULL, *second = NULL;
        struct sb_guard guard = {0};
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK(fd >= 0 && rests(fd));
        CHECK(set("key", "0") && set("key", "1"));
        CHECK(rests(fd)); /* it has no watch */
        CHECK_EQ(sb_watch_open(bus, b("idle"), 0, SB_ANY_REV, &second), 0);
        CHECK(rests(fd));
        CHECK(set("idle", "1") && readable(fd, LONG_MS));
        CHECK_EQ(next(second), 0);
        CHECK_EQ(next(second), SB_E_TIMED_OUT);
        CHECK(rests(fd));
        /* One that has something from its beginning. */
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, 1, &first), 0);
        CHECK(readable(fd, 0));
        CHECK_EQ(next(second), SB_E_TIMED_OUT);
        CHECK(readable(fd, 0)); /* the other one has something */
        CHECK_EQ(next(first), 0);
        CHECK_EQ(next(first), SB_E_TIMED_OUT);
        CHECK(rests(fd));
        /* With all of them gone there is nothing, whatever was there. */
        CHECK(set("key", "2") && set("idle", "2") && readable(fd, LONG_MS));
        CHECK(!sb_watch_close(first));
        CHECK(readable(fd, 0));
        CHECK(!sb_watch_close(second));
        CHECK(rests(fd));
        CHECK(set("key", "3") && rests(fd));
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        sb_guard_release(&guard);
        END();
}

static void test_a_watch_of_a_prefix_shows(void)
{
        struct sb_watch *first = NULL, *all = NULL;
        struct sb_txn *txn = NULL;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("a/"), SB_PREFIX, SB_ANY_REV, &all), 0);
        CHECK_EQ(sb_watch_open(bus, b("a/1"), 0, SB_ANY_REV, &first), 0);
        for (unsigned round = 0; round < 3; round++) {
                CHECK(rests(fd));
                CHECK(set("b/1", "1") && rests(fd));
                CHECK_EQ(sb_txn_begin(other, SB_SNAPSHOT, &txn), 0);
                CHECK_EQ(sb_txn_set(txn, b("a/1"), b("1")), 0);
                CHECK_EQ(sb_txn_set(txn, b("a/2"), b("2")), 0);
                CHECK(rests(fd)); /* not committed */
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                txn = sb_txn_end(txn);
                CHECK(readable(fd, LONG_MS));
                CHECK_EQ(next(first), 0);
                CHECK_EQ(next(first), SB_E_TIMED_OUT);
                CHECK(readable(fd, 0)); /* the other one has two changes */
                CHECK_EQ(next(all), 0);
                CHECK(readable(fd, 0));
                CHECK_EQ(next(all), 0);
                CHECK_EQ(next(all), SB_E_TIMED_OUT);
        }
        CHECK(rests(fd));
        sb_watch_close(first);
        CHECK(set("a/9", "1") && readable(fd, LONG_MS));
        sb_watch_close(all);
        CHECK(rests(fd));
        END();
}

static int is_late(void *argument, const struct sb_guard *guards, size_t count)
{
        (void)argument;
        return count == 1 && guards[0].bus && has(bus, "key", "late") ? 1 : 0;
}

static void *set_later(void *key)
{
        rest(10000000);
        return (void *)(intptr_t)!set(key, "late");
}

/* A wait of the bus says itself that it sleeps, and what it says must not end what the descriptor
 * waits for. */
static void test_waits_in_between_leave_it_as_it_was(void)
{
        struct sb_bytes key = b("key");
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        pthread_t thread;
        void *failed;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        for (unsigned round = 0; round < 2; round++) {
                CHECK_EQ(sb_watch_next(watch, now_ns() + 2000000, &change), SB_E_TIMED_OUT);
                CHECK(rests(fd));
                CHECK(set("key", "1") && readable(fd, LONG_MS));
                CHECK_EQ(sb_wait(bus, SB_FOREVER), 0);
                CHECK_EQ(next(watch), 0);
                CHECK_EQ(sb_wait(bus, now_ns() + 2000000), SB_E_TIMED_OUT);
                CHECK(rests(fd));
                /* A wait that sleeps and is woken. */
                CHECK_EQ(pthread_create(&thread, NULL, set_later, "key"), 0);
                if (round == 1)
                        CHECK_EQ(sb_wait_until(bus, &key, 1, is_late, NULL, SB_FOREVER), 1);
                CHECK_EQ(sb_watch_next(watch, SB_FOREVER, &change), 0);
                sb_guard_release(&change);
                CHECK_EQ(pthread_join(thread, &failed), 0);
                CHECK(!failed && set("key", "2"));
                CHECK(readable(fd, LONG_MS));
                CHECK_EQ(next(watch), 0);
                CHECK_EQ(next(watch), SB_E_TIMED_OUT);
                CHECK(rests(fd));
        }
        sb_watch_close(watch);
        END();
}

#define MOMENTS 3000u

static struct sb_word32 asked; /* for so many changes or interrupts */

/* Some moment up to a few microseconds behind each request. Every fourth is an interrupt. */
static void *answer_at_some_moment(void *argument)
{
        uint64_t random = 0x9e3779b97f4a7c15u;

        for (uint32_t i = 1; i <= MOMENTS; i++) {
                while (sb_load_acquire(&asked) != i)
                        ;
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                for (uint64_t steps = random % 4096; steps; steps--)
                        (void)sb_load_acquire(&asked);
                if (i % 4 == 0)
                        sb_interrupt(bus);
                else if (!set("key", "v"))
                        return argument;
        }
        return NULL;
}

/* A call finds nothing, while a change or an interrupt comes: at any moment of it. It is the first
 * call behind the change before, which ends what waited, so that it begins to wait anew. */
static void test_what_comes_as_a_call_finds_nothing_shows(void)
{
        struct sb_watch *watch = NULL;
        pthread_t thread;
        void *failed;
        int fd, r;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        sb_store_relaxed(&asked, 0);
        CHECK_EQ(pthread_create(&thread, NULL, answer_at_some_moment, "failed"), 0);
        for (uint32_t i = 1; i <= MOMENTS; i++) {
                sb_store_release(&asked, i);
                do {
                        r = i % 4 ? next(watch) : sb_wait(bus, 0);
                        if (r == SB_E_TIMED_OUT && !readable(fd, LONG_MS))
                                break;
                } while (r == SB_E_TIMED_OUT);
                if (r != (i % 4 ? 0 : -EINTR))
                        TEST_FAIL("moment %u: %d, and nothing shows", i, r);
        }
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        sb_watch_close(watch);
        END();
}

static void *interrupt(void *argument)
{
        (void)argument;
        sb_interrupt(bus);
        return NULL;
}

static void test_an_interrupt_shows(void)
{
        struct sigaction action = {.sa_handler = interrupt_by_signal}, before;
        struct sb_watch *watch = NULL;
        pthread_t thread;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
        for (unsigned round = 0; round < 3; round++) {
                CHECK(rests(fd));
                if (round == 1) {
                        CHECK_EQ(raise(SIGUSR1), 0);
                } else {
                        CHECK_EQ(pthread_create(&thread, NULL, interrupt, NULL), 0);
                        CHECK_EQ(pthread_join(thread, NULL), 0);
                }
                CHECK(readable(fd, LONG_MS));
                /* What there is comes first, and then the interrupt is still to come. */
                if (round == 2) {
                        CHECK(set("key", "1"));
                        CHECK_EQ(next(watch), 0);
                        CHECK(readable(fd, 0));
                }
                CHECK_EQ(sb_wait(bus, 0), -EINTR);
                CHECK(readable(fd, 0));
                CHECK_EQ(next(watch), SB_E_TIMED_OUT);
        }
        CHECK(rests(fd));
        CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
        sb_watch_close(watch);
        END();
}

/* ---- loops ---- */

#define CHANGES 1000u

/* Changes, some in bursts and some each by itself. */
static void *change_often(void *argument)
{
        uint64_t random = 0x9e3779b97f4a7c15u;

        for (unsigned i = 0; i < CHANGES; i++) {
                if (sb_incr(other, b(i % 3 == 0 ? "a" : "b"), 1, NULL, NULL, NULL) != 0)
                        return argument;
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                if (random % 4 == 0)
                        rest((long)(random >> 8) % 200000);
        }
        return NULL;
}

struct loop {
        struct sb_watch *watches[2];
        /* Changes, with those that are said to be lost; turns, and turns with nothing. */
        unsigned got, turns, idle;
};

/* Take the next change of a watch, if there is one. Return: whether there was. */
static bool take_one(struct loop *loop, unsigned i, bool *sound)
{
        struct sb_guard change = {0};
        int r = sb_watch_next(loop->watches[i], 0, &change);

        if (r == SB_E_LAPPED)
                r = sb_watch_next(loop->watches[i], 0, &change);
        if (r == 0)
                loop->got += 1 + (unsigned)change.missed;
        else if (r != SB_E_TIMED_OUT)
                *sound = false;
        sb_guard_release(&change);
        return r == 0;
}

/* Take what there is; @all: until there is nothing. Return: whether nothing was wrong. */
static bool take(struct loop *loop, bool all)
{
        unsigned before = loop->got;
        bool sound = true, more;

        loop->turns++;
        do {
                more = take_one(loop, 0, &sound);
                more |= take_one(loop, 1, &sound);
        } while (sound && all && more);
        loop->idle += loop->got == before;
        return sound;
}

/* Whether the descriptor is there, and no signal came meanwhile. */
static bool comes(int epoll, int wait_ms)
{
        struct epoll_event event;
        int r;

        do
                r = epoll_wait(epoll, &event, 1, wait_ms);
        while (r < 0 && errno == EINTR && rings_ended-- > 0);
        return r == 1;
}

/* An epoll loop, in which each wait has to come by an event: no signal, no deadline. */
static bool run_loop(struct loop *loop, int fd, uint32_t events)
{
        struct epoll_event event = {.events = events};
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        bool sound = epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;

        while (sound && loop->got < CHANGES)
                sound = comes(epoll, LONG_MS) && take(loop, events & EPOLLET || loop->turns % 2);
        /* Where all of it is there, the loop rests. */
        while (sound && comes(epoll, QUIET))
                sound = take(loop, true);
        close(epoll);
        return sound;
}

/* The one entry of the ring's queue goes once more. */
static bool poll_again(int ring, const struct io_uring_params *params, char *queues)
{
        uint32_t *tail = (uint32_t *)(void *)(queues + params->sq_off.tail);

        ((uint32_t *)(void *)(queues + params->sq_off.array))[*tail % params->sq_entries] = 0;
        ++*tail; /* the call comes behind it */
        return syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1;
}

/* A ring of the program's own, which polls the descriptor. Return: its descriptor; -1. */
static int poll_by_ring(int fd, struct io_uring_params *params, char **ret_queues)
{
        int ring = (int)syscall(SYS_io_uring_setup, 2, params);
        struct io_uring_sqe *entry;

        if (ring < 0)
                return -1;
        *ret_queues = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
        entry = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
        if (*ret_queues == MAP_FAILED || entry == MAP_FAILED)
                return -1;
        entry->opcode = IORING_OP_POLL_ADD;
        entry->fd = fd;
        entry->poll32_events = POLLIN;
        return poll_again(ring, params, *ret_queues) ? ring : -1;
}

/* The same by an io_uring of the program, which polls the descriptor once in each turn. */
static bool run_ring_loop(struct loop *loop, int fd)
{
        struct io_uring_params params = {0};
        char *queues;
        int ring = poll_by_ring(fd, &params, &queues);
        bool sound = ring >= 0;

        while (sound && loop->got < CHANGES) {
                /* It fails where a signal came, and none is due. */
                while (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
                        if (errno != EINTR || rings_ended-- == 0)
                                return false;
                ++*(uint32_t *)(void *)(queues + params.cq_off.head);
                sound = take(loop, loop->turns % 2) && poll_again(ring, &params, queues);
        }
        if (sound)
                munmap(queues, 4096);
        close(ring);
        return sound;
}

/* @events: of epoll; 0: by an io_uring. */
static void run_loop_beside_a_writer(uint32_t events)
{
        struct loop loop = {0};
        pthread_t thread;
        void *failed;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("a"), 0, SB_ANY_REV, &loop.watches[0]), 0);
        CHECK_EQ(sb_watch_open(bus, b("b"), 0, SB_ANY_REV, &loop.watches[1]), 0);
        CHECK_EQ(pthread_create(&thread, NULL, change_often, bus), 0);
        CHECK(events ? run_loop(&loop, fd, events) : run_ring_loop(&loop, fd));
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        CHECK_EQ(loop.got, CHANGES);
        /* A change that was taken before its bell may cost a turn with nothing, the last one, too.
         */
        while (loop.idle <= CHANGES + 10 && readable(fd, QUIET))
                CHECK(take(&loop, true));
        CHECK(loop.idle <= CHANGES + 10);
        printf("# %u changes in %u turns, %u of them with nothing\n", loop.got, loop.turns,
                loop.idle);
        CHECK(rests(fd));
        for (unsigned i = 0; i < 2; i++)
                CHECK(!sb_watch_close(loop.watches[i]));
        END();
}

static void test_an_epoll_loop_misses_nothing_and_rests(void)
{
        run_loop_beside_a_writer(EPOLLIN);
}
static void test_an_edge_triggered_loop_misses_nothing_and_rests(void)
{
        run_loop_beside_a_writer(EPOLLIN | EPOLLET);
}
static void test_a_loop_of_an_io_uring_misses_nothing_and_rests(void)
{
        struct io_uring_params params = {0};
        int ring = (int)syscall(SYS_io_uring_setup, 2, &params);

        if (ring < 0)
                TEST_SKIP("no io_uring here");
        close(ring);
        run_loop_beside_a_writer(0);
}

static void test_an_io_uring_of_the_program_may_poll_it(void)
{
        struct io_uring_params params = {0};
        struct sb_watch *watch = NULL;
        pthread_t thread;
        char *queues;
        void *failed;
        int fd, ring;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        ring = poll_by_ring(fd, &params, &queues);
        if (ring < 0) {
                sb_watch_close(watch);
                END();
                TEST_SKIP("no io_uring here");
        }
        CHECK_EQ(*(uint32_t *)(void *)(queues + params.cq_off.tail), 0);
        CHECK_EQ(pthread_create(&thread, NULL, set_later, "key"), 0);
        CHECK_EQ(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), 0);
        CHECK_EQ(*(uint32_t *)(void *)(queues + params.cq_off.tail), 1);
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        CHECK_EQ(next(watch), 0);
        CHECK_EQ(next(watch), SB_E_TIMED_OUT);
        munmap(queues, 4096);
        close(ring);
        sb_watch_close(watch);
        END();
}

static void *poll_elsewhere(void *fd)
{
        return (void *)(intptr_t)!readable(*(int *)fd, LONG_MS);
}

/* The owner is in no call then, and sleeps in the kernel for a reason of its own. */
static void test_several_threads_may_poll_it(void)
{
        struct sb_watch *watch = NULL;
        pthread_t threads[3];
        void *failed;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        for (unsigned i = 0; i < 3; i++)
                CHECK_EQ(pthread_create(&threads[i], NULL, poll_elsewhere, &fd), 0);
        rest(2000000);
        CHECK(set("key", "1"));
        for (unsigned i = 0; i < 3; i++) {
                CHECK_EQ(pthread_join(threads[i], &failed), 0);
                CHECK(!failed);
        }
        CHECK_EQ(next(watch), 0);
        sb_watch_close(watch);
        END();
}

/* ---- what it costs others ---- */

static unsigned wakes;
static const struct sb_os *os_before;
static void wake_counted(void *context, struct sb_word32 *word)
{
        (void)context;
        wakes++;
        os_before->wake(os_before->context, word);
}

static void test_a_writer_wakes_once_until_the_owner_looks(void)
{
        struct sb_watch *watch = NULL;
        struct sb_os os;
        int fd;

        BEGIN();
        os_before = other->handle.segment.os;
        os = *os_before;
        os.wake = wake_counted;
        other->handle.segment.os = &os;
        wakes = 0;
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK(set("key", "0"));
        CHECK_EQ(wakes, 0);
        CHECK_EQ(next(watch), 0);
        fd = sb_fd(bus);
        for (unsigned round = 1; round <= 3; round++) {
                CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
                for (unsigned i = 0; i < 50; i++)
                        CHECK(set("key", "1"));
                CHECK_EQ(wakes, round);
                CHECK(readable(fd, LONG_MS));
                for (unsigned i = 0; i < 50; i++)
                        CHECK_EQ(next(watch), 0);
        }
        other->handle.segment.os = os_before;
        sb_watch_close(watch);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_an_epoll_loop_misses_nothing_and_rests);
        RUN(test_an_edge_triggered_loop_misses_nothing_and_rests);
        RUN(test_a_loop_of_an_io_uring_misses_nothing_and_rests);
        RUN(test_it_can_be_read_until_a_call_finds_nothing);
        RUN(test_what_waits_behind_it_takes_no_processor_time);
        RUN(test_the_bus_says_what_waits);
        RUN(test_watches_that_come_and_go_count);
        RUN(test_a_watch_of_a_prefix_shows);
        RUN(test_waits_in_between_leave_it_as_it_was);
        RUN(test_an_interrupt_shows);
        RUN(test_what_comes_as_a_call_finds_nothing_shows);
        RUN(test_an_io_uring_of_the_program_may_poll_it);
        RUN(test_several_threads_may_poll_it);
        RUN(test_a_writer_wakes_once_until_the_owner_looks);
        return test_end();
}
