/*
 * The keeper; see keeper.h.
 *
 *      make segment -> fork engine -> wait for: a signal, a word from the engine, its death
 *                          ^                                              |
 *                          +---- new segment, when this one is unsound <--+
 *
 * The engine is a fork of the keeper, so it has all that a keeper needs: when the kernel says that
 * the keeper is dead, the engine returns from its own loop into the keeper's, and forks an engine.
 */
#define _GNU_SOURCE
#include "agentd/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/life.h"
#include "agentd/log.h"

#define SECOND_NS        UINT64_C(1000000000)
#define FAILURES_AT_ONCE 2u /* so many engines in a row may fail before the next waits a second */
#define CRASHES_MAX      3u /* so many crashes in adoption are the segment's fault */
#define STOP_PATIENCE_MS 2000

static uint64_t now_ns(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

static int close_fd(int fd)
{
        if (fd >= 0)
                close(fd);
        return -1;
}

/* This process is the keeper now. */
static int become(struct sb_keeper *keeper)
{
        prctl(PR_SET_NAME, "agentd");
        keeper->engine = 0;
        keeper->engine_fd = keeper->channel = -1;
        keeper->adopted = false;
        keeper->failures = keeper->crashes = 0;
        keeper->retry_ns = 0;
        keeper->self_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        if (keeper->self_fd < 0) {
                sb_log("this system cannot tell who lives (pidfd_open: %s): Linux 5.3 or later is "
                       "needed",
                        strerror(errno));
                return -1;
        }
        sb_life_hold(keeper->memory.super, SB_LIFE_KEEPER);
        sb_store_relaxed(&keeper->memory.super->keeper,
                (uint64_t)getpid()); /* relaxed: for people, and for sb_attach_lost() */
        sb_directory_own(&keeper->directory);
        return 0;
}

/* An engine that could not be started, or did not get to work: the next one at once, or after a
 * second. */
static void note_failure(struct sb_keeper *keeper)
{
        if (++keeper->failures >= FAILURES_AT_ONCE)
                keeper->retry_ns = now_ns() + SECOND_NS;
}

static bool is_readable(int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        return poll(&look, 1, 0) == 1;
}

/* Fork. Return: 0; 1: in the engine, *ret_end says how it ended. */
static int start_engine(struct sb_keeper *keeper, enum sb_engine_end *ret_end)
{
        int channel[2] = {-1, -1};
        pid_t child;

        keeper->retry_ns = 0;
        keeper->adopted = false;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel) < 0) {
                sb_log("cannot start an engine: %s", strerror(errno));
                note_failure(keeper);
                return 0;
        }
        child = fork();
        if (child == 0) {
                close(channel[0]);
                keeper->channel = channel[1];
                *ret_end = sb_engine_run(keeper);
                keeper->unsound = *ret_end == SB_ENGINE_UNSOUND;
                /* Whatever this engine could not do, nobody else is left to try it another way. */
                if (*ret_end != SB_ENGINE_STOPPED && is_readable(keeper->self_fd))
                        *ret_end = SB_ENGINE_KEEPER_DIED;
                keeper->channel = close_fd(keeper->channel);
                keeper->self_fd = close_fd(keeper->self_fd);
                return 1;
        }
        close(channel[1]);
        if (child < 0) {
                sb_log("cannot start an engine: %s", strerror(errno));
                close(channel[0]);
                note_failure(keeper);
                return 0;
        }
        /* The child is this process's to wait for, so the pid is its own until then. */
        keeper->engine_fd = (int)syscall(SYS_pidfd_open, child, 0);
        if (keeper->engine_fd < 0) {
                sb_log("cannot watch the engine: %s", strerror(errno));
                close(channel[0]);
                (void)kill(child, SIGKILL);
                (void)waitpid(child, NULL, 0);
                note_failure(keeper);
                return 0;
        }
        keeper->engine = child;
        keeper->channel = channel[0];
        return 0;
}

static bool is_crash(int signal)
{
        return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
               signal == SIGABRT || signal == SIGTRAP;
}

/* The segment is not to be had: a new one. Return: 0, -1. */
static int replace_segment(struct sb_keeper *keeper)
{
        sb_life_let_go();
        sb_memory_drop(&keeper->memory);
        sb_log("making a new segment; what was in the old one is lost, and clients have to open "
               "the bus again");
        if (sb_memory_make(keeper->config, &keeper->memory))
                return -1;
        keeper->failures = keeper->crashes = 0;
        keeper->retry_ns = 0;
        sb_life_hold(keeper->memory.super, SB_LIFE_KEEPER);
        sb_store_relaxed(&keeper->memory.super->keeper, (uint64_t)getpid()); /* as in become() */
        return 0;
}

/* The word that an engine sends when it works. */
static void listen_to_engine(struct sb_keeper *keeper)
{
        char word;

        if (keeper->adopted || keeper->channel < 0 ||
                recv(keeper->channel, &word, 1, MSG_DONTWAIT) != 1 || word != SB_KEEPER_ADOPTED)
                return;
        keeper->adopted = true;
        keeper->adopted_ns = now_ns();
        keeper->crashes = 0;
        if (keeper->said_ready)
                return;
        keeper->said_ready = true;
        sb_log_word("ready");
        (void)sd_notifyf(0, "READY=1\nMAINPID=%d", (int)getpid());
}

/* The engine is dead. Return: 0: another one is due, -1: no more. */
static int judge_death(struct sb_keeper *keeper)
{
        int status = 0, signal;

        listen_to_engine(keeper);
        while (waitpid(keeper->engine, &status, 0) < 0 && errno == EINTR)
                ;
        keeper->engine_fd = close_fd(keeper->engine_fd);
        keeper->channel = close_fd(keeper->channel);
        signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == SB_ENGINE_UNSOUND)
                return replace_segment(keeper);
        if (signal)
                sb_log("the engine (pid %d) was ended by signal %d (%s)%s; starting another",
                        (int)keeper->engine, signal, strsignal(signal),
                        keeper->adopted ? "" : " before it had adopted the segment");
        else
                sb_log("the engine (pid %d) ended with status %d; starting another",
                        (int)keeper->engine, WEXITSTATUS(status));
        /* One that worked and was killed says nothing about the next one; one that crashes as soon
         * as it works does. */
        if (keeper->adopted && !(is_crash(signal) && now_ns() - keeper->adopted_ns < SECOND_NS) &&
                signal) {
                keeper->failures = 0;
                return 0;
        }
        note_failure(keeper);
        if (is_crash(signal) && !keeper->adopted && ++keeper->crashes >= CRASHES_MAX) {
                sb_log("%u engines in a row crashed on this segment: it is not adopted",
                        keeper->crashes);
                return replace_segment(keeper);
        }
        return 0;
}

/* Until the engine is gone; one that does not go when asked is killed: it has nothing that could be
 * torn. */
static void stop_engine(struct sb_keeper *keeper)
{
        char word = SB_KEEPER_STOP;
        struct pollfd gone = {.fd = keeper->engine_fd, .events = POLLIN};

        if (keeper->engine_fd < 0)
                return;
        if (keeper->channel < 0 || send(keeper->channel, &word, 1, MSG_NOSIGNAL) != 1 ||
                poll(&gone, 1, STOP_PATIENCE_MS) < 1)
                (void)kill(keeper->engine, SIGKILL);
        while (waitpid(keeper->engine, NULL, 0) < 0 && errno == EINTR)
                ;
        keeper->engine_fd = close_fd(keeper->engine_fd);
        keeper->channel = close_fd(keeper->channel);
}

static bool is_told_to_stop(const struct sb_keeper *keeper)
{
        struct signalfd_siginfo info;

        return read(keeper->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

static int leave(struct sb_keeper *keeper, int status)
{
        (void)sd_notify(0, "STOPPING=1");
        sb_directory_leave(&keeper->directory);
        if (keeper->memory.super) {
                /* Relaxed, as in sb_memory_drop(). Clients see that nobody serves them before the
                 * engine goes. */
                sb_store_relaxed(&keeper->memory.super->state, SB_SEGMENT_REPLACED);
        }
        stop_engine(keeper);
        keeper->self_fd = close_fd(keeper->self_fd);
        return status;
}

/* Wait for what comes next. Return: 0: go on; 1: told to stop; -1: it cannot go on. */
static int wait_once(struct sb_keeper *keeper)
{
        struct pollfd fds[3] = {
                {.fd = keeper->signal_fd, .events = POLLIN},
                {.fd = keeper->adopted ? -1 : keeper->channel,
                        .events = POLLIN}, /* its death is the pidfd's to tell */
                {.fd = keeper->engine_fd, .events = POLLIN},
        };
        uint64_t now;
        int timeout_ms = -1;

        if (keeper->engine_fd < 0) {
                now = now_ns();
                timeout_ms =
                        keeper->retry_ns > now ? (int)((keeper->retry_ns - now) / 1000000 + 1) : 0;
        }
        if (poll(fds, 3, timeout_ms) < 0)
                return errno == EINTR ? 0 : -1;
        if (fds[0].revents && is_told_to_stop(keeper))
                return 1;
        if (fds[2].revents)
                return judge_death(keeper);
        if (fds[1].revents & POLLIN)
                listen_to_engine(keeper);
        if (fds[1].revents && !keeper->adopted)
                keeper->channel = close_fd(keeper->channel); /* hung up: it is about to end */
        return 0;
}

int sb_keeper_run(struct sb_keeper *keeper)
{
        enum sb_engine_end end;
        int r;

        if (become(keeper))
                return leave(keeper, SB_EXIT_FAILURE);
        for (;;) {
                if (keeper->engine_fd < 0 && now_ns() >= keeper->retry_ns &&
                        start_engine(keeper, &end)) {
                        if (end != SB_ENGINE_KEEPER_DIED)
                                return (int)end;
                        sb_log("the keeper is dead: pid %d is the keeper now", (int)getpid());
                        if (become(keeper) || (keeper->unsound && replace_segment(keeper)))
                                return leave(keeper, SB_EXIT_FAILURE);
                        (void)sd_notifyf(0, "MAINPID=%d", (int)getpid());
                        continue;
                }
                r = wait_once(keeper);
                if (r > 0) {
                        sb_log("told to stop");
                        return leave(keeper, 0);
                }
                if (r < 0)
                        return leave(keeper, SB_EXIT_FAILURE);
        }
}
