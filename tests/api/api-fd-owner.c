/*
 * Which process and which thread has the descriptor of a bus: a forked child has none, another
 * thread may go on with it, and behind its close, or where it could not be made, nothing is left.
 * $STATEBUS_FD says what waits behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "tests/api/fd.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

static unsigned descriptors_here(void)
{
        return entries_of("/proc/self/fd");
}

static void test_a_forked_child_has_no_descriptor_and_disturbs_none(void)
{
        struct sb_watch *watch = NULL;
        int fd, status = -1;
        pid_t child;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        child = fork();
        if (child == 0) {
                unsigned before = descriptors_here();
                bool sound = sb_fd(bus) == -ENOTCONN && next(watch) == SB_E_DETACHED;

                sb_watch_close(watch);
                sb_close(bus);
                _exit(sound && descriptors_here() < before ? 0 : 1);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        CHECK(rests(fd));
        CHECK(set("key", "1") && readable(fd, LONG_MS));
        CHECK_EQ(next(watch), 0);
        CHECK_EQ(next(watch), SB_E_TIMED_OUT);
        CHECK(rests(fd));
        sb_watch_close(watch);
        END();
}

static void test_close_leaves_neither_descriptor_nor_thread(void)
{
        unsigned descriptors, threads = threads_here();
        struct sb_watch *watch = NULL;
        struct sb_bus *third;

        BEGIN();
        descriptors = descriptors_here();
        for (unsigned round = 0; round < 4; round++) {
                third = world_bus(&world);
                CHECK(third);
                CHECK_EQ(sb_watch_open(third, b("key"), 0, SB_ANY_REV, &watch), 0);
                CHECK(sb_fd(third) >= 0);
                if (round >= 1)
                        CHECK(set("key", "1"));
                if (round >= 2)
                        CHECK_EQ(next(watch), 0);
                if (round == 3)
                        CHECK_EQ(next(watch), SB_E_TIMED_OUT);
                /* While it waits; woken; taken; while it waits anew. */
                CHECK(!sb_close(third));
                CHECK_EQ(sb_fd_kind(NULL), SB_FD_NONE);
                CHECK(!sb_watch_close(watch));
                CHECK_EQ(descriptors_here(), descriptors);
                CHECK_EQ(threads_here(), threads);
        }
        END();
}

static void test_without_descriptors_it_says_so_and_leaves_none(void)
{
        struct rlimit before, none;
        unsigned descriptors, threads;
        int fd;

        BEGIN();
        descriptors = descriptors_here();
        threads = threads_here();
        CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
        /* One more each time, until it is enough. The listing takes . and .., and one. */
        for (unsigned more = 0; more < 4; more++) {
                none = before;
                none.rlim_cur = descriptors - 3 + more;
                CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
                fd = sb_fd(bus);
                CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
                if (fd >= 0)
                        break;
                CHECK_EQ(fd, -EMFILE);
                CHECK_EQ(sb_fd_kind(bus), SB_FD_NONE);
                CHECK_EQ(descriptors_here(), descriptors);
                CHECK_EQ(threads_here(), threads);
        }
        CHECK(fd >= 0 && rests(fd));
        END();
}

static void *look_elsewhere(void *watch)
{
        return (void *)(intptr_t)(next(watch) != 0 || next(watch) != SB_E_TIMED_OUT);
}

/* An io_uring serves the thread that made it, and no other. */
static void test_a_bus_may_go_to_another_thread(void)
{
        struct sb_watch *watch = NULL;
        pthread_t thread;
        void *failed;
        int fd;

        BEGIN();
        fd = sb_fd(bus);
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK(set("key", "1") && readable(fd, LONG_MS));
        CHECK_EQ(pthread_create(&thread, NULL, look_elsewhere, watch), 0);
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        CHECK_EQ(sb_fd_kind(bus), SB_FD_THREAD);
        CHECK(rests(fd));
        CHECK(set("key", "2") && readable(fd, LONG_MS));
        CHECK_EQ(next(watch), 0);
        CHECK_EQ(next(watch), SB_E_TIMED_OUT);
        CHECK(rests(fd));
        sb_watch_close(watch);
        END();
}

static void *make_elsewhere(void *fd)
{
        *(int *)fd = sb_fd(bus);
        return NULL;
}

/* What waits may be over with the thread that made it: that shows, and the next call sees to it. Or
 * the kernel lets it go on: then the next change shows. */
static void test_the_thread_that_made_it_may_end(void)
{
        struct sb_watch *watch = NULL;
        pthread_t thread;
        int fd = -1;

        BEGIN();
        CHECK_EQ(sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch), 0);
        CHECK_EQ(pthread_create(&thread, NULL, make_elsewhere, &fd), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK(fd >= 0);
        for (unsigned round = 0; round < 2; round++) {
                CHECK(rests(fd));
                CHECK(set("key", "1") && readable(fd, LONG_MS));
                CHECK_EQ(next(watch), 0);
                CHECK_EQ(next(watch), SB_E_TIMED_OUT);
        }
        sb_watch_close(watch);
        END();
}

static void test_the_programs_signals_come_to_its_own_threads(void)
{
        struct sigaction action = {.sa_handler = interrupt_by_signal}, before;
        sigset_t only, pending, mask;

        BEGIN();
        sigemptyset(&only);
        sigaddset(&only, SIGUSR1);
        CHECK(sb_fd(bus) >= 0);
        CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, &only, &mask), 0);
        CHECK(!sigismember(&mask, SIGUSR1));
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
        CHECK_EQ(sb_wait(bus, 0), -EINTR);
        CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_forked_child_has_no_descriptor_and_disturbs_none);
        RUN(test_close_leaves_neither_descriptor_nor_thread);
        RUN(test_without_descriptors_it_says_so_and_leaves_none);
        RUN(test_a_bus_may_go_to_another_thread);
        RUN(test_the_thread_that_made_it_may_end);
        RUN(test_the_programs_signals_come_to_its_own_threads);
        return test_end();
}
