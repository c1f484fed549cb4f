/*
 * Clients below a filter of system calls (seccomp), of before sb_open() or of behind it: each call
 * that is forbidden has a result, or another way is taken; and docs/operating.md lists the calls
 * that a client makes.
 *
 * Always true: each filter is on a process of its own, which ends by itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/word.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define CALLS_MAX 40u
#define LATE_MS   20000

static struct daemon agentd;
static struct sb_bus *bus;
static struct sb_watch *watch;

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static int open_bus(void)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = agentd.place.directory, .access = SB_PEER};

        return sb_open(&options, &bus);
}

/* Filter this process's calls: the @count ones do @listed, all others @others. */
static bool filter(const int *calls, unsigned count, uint32_t listed, uint32_t others)
{
        struct sock_filter look[CALLS_MAX + 3] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        struct sock_fprog program = {(unsigned short)(count + 3), look};

        if (count > CALLS_MAX)
                return false;
        for (unsigned i = 0; i < count; i++)
                look[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                        (uint32_t)calls[i], (unsigned char)(count - i), 0);
        look[1 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
        look[2 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool forbid(int call, int error)
{
        return filter(&call, 1, SECCOMP_RET_ERRNO | (uint32_t)error, SECCOMP_RET_ALLOW);
}

/* How a process ended that runs @run: its exit status; 128 + signal. */
static int run_alone(int (*run)(int call, int error), int call, int error)
{
        pid_t child = fork();
        int status;

        if (child == 0)
                _exit(run(call, error));
        if (waitpid(child, &status, 0) != child)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const int errors[] = {EPERM, ENOSYS};

/* ---- sb_open() ---- */

static int open_below(int call, int error)
{
        int r;

        if (!forbid(call, error))
                return 99;
        r = open_bus();
        return r == -error && !bus ? 0 : r > 0 ? r : 98;
}

static void test_what_a_filter_forbids_is_no_refusal_of_the_bus(void)
{
        static const int calls[] = {SYS_socket, SYS_connect, SYS_sendto, SYS_recvmsg, SYS_fcntl,
                SYS_madvise, SYS_membarrier, SYS_getrandom};

        CHECK(daemon_start(&agentd));
        for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                for (unsigned e = 0; e < 2; e++)
                        CHECK_EQ(run_alone(open_below, calls[i], errors[e]), 0);
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* ---- descriptors ---- */

static bool readable(int wait_ms)
{
        struct pollfd look = {.fd = sb_fd(bus), .events = POLLIN};

        return poll(&look, 1, wait_ms) == 1;
}

/* Whether the descriptor says what there is, and rests behind a turn or two. */
static bool is_heard(void)
{
        struct sb_guard change = {0};
        unsigned turns = 0;
        int r;

        if (sb_set(bus, b("key"), b("1"), NULL, NULL) != 0 || !readable(LATE_MS) ||
                sb_watch_next(watch, 0, &change) != 0)
                return false;
        sb_guard_release(&change);
        do
                r = sb_watch_next(watch, 0, &change);
        while (r == SB_E_TIMED_OUT && readable(3) && ++turns < 4);
        return r == SB_E_TIMED_OUT && turns < 4;
}

/* @call, or with its sign turned round: forbidden behind sb_fd(). */
static int poll_below(int call, int error)
{
        if (open_bus() != 0 || sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch) != 0)
                return 1;
        if (call > 0 && !forbid(call, error))
                return 99;
        if (sb_fd(bus) < 0)
                return 2;
        if (call < 0 && !forbid(-call, error))
                return 99;
        for (unsigned i = 0; i < 3; i++)
                if (!is_heard())
                        return 3;
        if (call != SYS_pidfd_open && call != -SYS_pidfd_open && call != -SYS_io_uring_setup &&
                call != -SYS_io_uring_register && sb_fd_kind(bus) != SB_FD_THREAD)
                return 4;
        sb_close(bus);
        sb_watch_close(watch);
        return 0;
}

static void test_a_descriptor_needs_neither_an_io_uring_nor_pidfds(void)
{
        static const int calls[] = {
                SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_pidfd_open};

        CHECK(daemon_start(&agentd));
        for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                for (unsigned e = 0; e < 2; e++) {
                        CHECK_EQ(run_alone(poll_below, calls[i], errors[e]), 0);
                        CHECK_EQ(run_alone(poll_below, -calls[i], errors[e]), 0);
                }
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* ---- behind agentd's end ---- */

/* Relaxed: the value alone matters. */
static pid_t engine(void)
{
        return (pid_t)sb_load_relaxed(&bus->handle.segment.super->engine);
}

/* Both of agentd's processes; the caller waits for it to end. A supervisor that is stopped starts
 * no other engine in between. */
static bool kill_agentd(void)
{
        return kill(agentd.pid, SIGSTOP) == 0 && kill(engine(), SIGKILL) == 0 &&
               kill(agentd.pid, SIGKILL) == 0;
}

static int outlive_below(int call, int error)
{
        struct sb_guard change = {0};

        if (open_bus() != 0 || sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch) != 0 ||
                !forbid(call, error) || sb_set(bus, b("key"), b("1"), NULL, NULL) != 0)
                return 1;
        if (sb_watch_next(watch, 0, &change) != 0 || !kill_agentd())
                return 2;
        sb_guard_release(&change);
        if (sb_watch_next(watch, daemon_now_ns() + 5000000000u, &change) != SB_E_DETACHED)
                return 3;
        return sb_set(bus, b("key"), b("2"), NULL, NULL) == SB_E_DETACHED ? 0 : 4;
}

static void test_a_process_that_may_not_connect_any_more_hears_of_agentds_end(void)
{
        static const int calls[] = {SYS_socket, SYS_connect};

        for (unsigned i = 0; i < 2; i++)
                for (unsigned e = 0; e < 2; e++) {
                        CHECK(daemon_start(&agentd));
                        CHECK_EQ(run_alone(outlive_below, calls[i], errors[e]), 0);
                        CHECK_EQ(daemon_ended(&agentd), 128 + SIGKILL);
                }
}

/* ---- the list ---- */

/* As docs/operating.md has it; behind them, what this program and its C library need to end. */
static const int listed[] = {SYS_membarrier, SYS_futex, SYS_nanosleep, SYS_clock_nanosleep,
        SYS_clock_gettime, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect,
        SYS_socket, SYS_connect, SYS_getsockopt, SYS_close, SYS_eventfd2, SYS_io_uring_setup,
        SYS_io_uring_enter, SYS_io_uring_register, SYS_pidfd_open, SYS_getpid, SYS_read, SYS_write,
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_clone, SYS_clone3,
        SYS_set_robust_list, SYS_rseq, SYS_exit,
        /* This program's own. */
        SYS_poll, SYS_kill, SYS_exit_group};

static int work_below(int call, int error)
{
        static char value[3000];
        struct sb_guard guard = {0};
        struct sb_txn *txn = NULL;
        char key[16];

        (void)call, (void)error;
        if (open_bus() != 0 || !filter(listed, sizeof(listed) / sizeof(listed[0]),
                                       SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS))
                return 1;
        if (sb_watch_open(bus, b("key"), 0, SB_ANY_REV, &watch) != 0 || !is_heard())
                return 2;
        /* Memory is short, is freed, and is waited for. */
        for (unsigned i = 0; i < 5000; i++) {
                struct sb_write how = {
                        .size = sizeof(how), .deadline_ns = daemon_now_ns() + 1000000};
                int r;

                snprintf(key, sizeof(key), "key %u", i % 2000);
                r = sb_set(bus, b(key), (struct sb_bytes){value, sizeof(value)}, &how, NULL);
                if (r != 0 && r != SB_E_FULL)
                        return 3;
        }
        if (sb_txn_begin(bus, SB_SERIALIZABLE, &txn) != 0 || sb_txn_get(txn, b("key"), &guard) ||
                sb_txn_delete(txn, b("key")) != 0 || sb_txn_commit(txn, NULL) != 0)
                return 4;
        sb_guard_release(&guard);
        sb_txn_end(txn);
        if (sb_wait(bus, daemon_now_ns() + 2000000) != 0 || !kill_agentd())
                return 5;
        while (sb_watch_next(watch, SB_FOREVER, &guard) == 0)
                sb_guard_release(&guard);
        if (sb_wait(bus, SB_FOREVER) != SB_E_DETACHED)
                return 6;
        sb_close(bus);
        sb_watch_close(watch);
        return 0;
}

static void test_behind_open_a_client_makes_the_calls_of_the_list_alone(void)
{
        CHECK(daemon_start(&agentd));
        CHECK_EQ(run_alone(work_below, 0, 0), 0);
        CHECK_EQ(daemon_ended(&agentd), 128 + SIGKILL);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        if (prctl(PR_GET_SECCOMP) < 0) {
                printf("skip api-sandbox: this kernel has no filters for system calls\n");
                return daemon_end(77);
        }
        RUN(test_what_a_filter_forbids_is_no_refusal_of_the_bus);
        RUN(test_a_descriptor_needs_neither_an_io_uring_nor_pidfds);
        RUN(test_a_process_that_may_not_connect_any_more_hears_of_agentds_end);
        RUN(test_behind_open_a_client_makes_the_calls_of_the_list_alone);
        return daemon_end(test_end());
}
