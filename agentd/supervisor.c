/*
 * The supervisor's loop; see supervisor.h.
 *
 *      make segment -> fork engine -> wait for: a signal, a word from the engine, its death
 *                          ^                                              |
 *                          +---- new segment, when this one is unsound <--+
 *
 * The engine is a fork of the supervisor, so it has all that a supervisor needs: when the kernel
 * says that the supervisor is dead, the engine returns from its own loop into the supervisor's, and
 * forks a new engine.
 *
 * Always true: an engine that was killed while it worked is replaced at once. Engines that fail one
 * after another are replaced once a second; when several of them crash before they have adopted the
 * segment, the segment is replaced.
 */
#define _GNU_SOURCE
#include "agentd/supervisor.h"

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

#include "agentd/life.h"
#include "agentd/log.h"
#include "shm/base/os.h"

#define SECOND_NS        UINT64_C(1000000000)
#define FAILURES_AT_ONCE 2u /* engines that fail in a row before the next one waits a second */
#define CRASHES_MAX      3u /* crashes before adoption that count as the segment's fault */
#define STOP_PATIENCE_MS 2000
#define SECOND_SIGNAL_NS UINT64_C(500000000) /* behind the first one */
#define LOG_PATIENCE_MS  60000               /* while the log writes what is there */

static uint64_t supervisor_now_ns(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

static int supervisor_close_fd(int fd)
{
        if (fd >= 0)
                close(fd);
        return -1;
}

/* This process is the supervisor from now on. Return: 0, -1. */
static int supervisor_become(struct sb_supervisor *supervisor)
{
        prctl(PR_SET_NAME, "agentd");
        supervisor->engine_fd = supervisor->channel = -1;
        /* A process that was the engine was forked with what its supervisor had counted by then. */
        supervisor->failures = supervisor->crashes = 0;
        supervisor->self_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        if (supervisor->self_fd < 0) {
                sb_log("this system cannot watch processes (pidfd_open: %s): Linux 5.3 or later is "
                       "needed",
                        strerror(errno));
                return -1;
        }
        sb_life_hold(supervisor->memory.super, SB_LIFE_SUPERVISOR);
        sb_store_relaxed(&supervisor->memory.super->supervisor,
                (uint64_t)getpid()); /* relaxed: for people, and for sb_attach_lost() */
        sb_directory_own(&supervisor->directory);
        return 0;
}

/* An engine could not be started, or ended before it worked. The next one is started at once, or
 * after a second. */
static void supervisor_note_failure(struct sb_supervisor *supervisor)
{
        if (++supervisor->failures >= FAILURES_AT_ONCE)
                supervisor->retry_ns = supervisor_now_ns() + SECOND_NS;
}

static bool supervisor_fd_is_readable(int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        return poll(&look, 1, 0) == 1;
}

/* Fork an engine. Return: 0: in the supervisor; 1: in the engine, which has ended: *ret_end says
 * how. */
static int supervisor_start_engine(struct sb_supervisor *supervisor, enum sb_engine_end *ret_end)
{
        int channel[2] = {-1, -1};
        pid_t child;

        supervisor->adopted = false;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel) < 0) {
                sb_log("cannot start an engine: %s", strerror(errno));
                supervisor_note_failure(supervisor);
                return 0;
        }
        child = fork();
        if (child == 0) {
                close(channel[0]);
                supervisor->channel = channel[1];
                *ret_end = supervisor->run_engine(supervisor);
                supervisor->unsound = *ret_end == SB_ENGINE_UNSOUND;
                /* When the supervisor is dead as well, no other process is left to try again. */
                if (*ret_end != SB_ENGINE_STOPPED && *ret_end != SB_ENGINE_LOST &&
                        supervisor_fd_is_readable(supervisor->self_fd))
                        *ret_end = SB_ENGINE_SUPERVISOR_DIED;
                supervisor->channel = supervisor_close_fd(supervisor->channel);
                supervisor->self_fd = supervisor_close_fd(supervisor->self_fd);
                return 1;
        }
        close(channel[1]);
        if (child < 0) {
                sb_log("cannot start an engine: %s", strerror(errno));
                close(channel[0]);
                supervisor_note_failure(supervisor);
                return 0;
        }
        /* Only this process waits for the child, so the pid cannot pass to another process before
         * that. */
        supervisor->engine_fd = (int)syscall(SYS_pidfd_open, child, 0);
        if (supervisor->engine_fd < 0) {
                sb_log("cannot watch the engine: %s", strerror(errno));
                close(channel[0]);
                (void)kill(child, SIGKILL);
                (void)waitpid(child, NULL, 0);
                supervisor_note_failure(supervisor);
                return 0;
        }
        supervisor->engine = child;
        supervisor->channel = channel[0];
        return 0;
}

static bool supervisor_signal_is_crash(int signal)
{
        return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
               signal == SIGABRT || signal == SIGTRAP;
}

/* Give the segment up and make a new one. Return: 0, -1. */
static int supervisor_replace_segment(struct sb_supervisor *supervisor)
{
        sb_life_let_go();
        sb_memory_drop(&supervisor->memory);
        if (supervisor->config->mode == SB_LOG_NONE)
                sb_log("making a new segment; what was in the old one is lost, and clients have to "
                       "open the bus again");
        else
                sb_log("making a new segment, from what the log has; clients have to open the bus "
                       "again");
        if (supervisor->make_segment(
                    supervisor->config, supervisor->directory.fd, &supervisor->memory))
                return -1;
        supervisor->failures = supervisor->crashes = 0;
        supervisor->retry_ns = 0;
        sb_life_hold(supervisor->memory.super, SB_LIFE_SUPERVISOR);
        sb_store_relaxed(&supervisor->memory.super->supervisor,
                (uint64_t)getpid()); /* as in supervisor_become() */
        return 0;
}

/* Read the word that an engine sends once, when it has adopted the segment, if it is there. */
static void supervisor_listen_to_engine(struct sb_supervisor *supervisor)
{
        char word;

        if (recv(supervisor->channel, &word, 1, MSG_DONTWAIT) != 1 || word != SB_SUPERVISOR_ADOPTED)
                return;
        supervisor->adopted = true;
        supervisor->adopted_ns = supervisor_now_ns();
        supervisor->crashes = 0;
        if (supervisor->said_ready)
                return;
        supervisor->said_ready = true;
        sb_log_word("ready");
        (void)sd_notifyf(0, "READY=1\nMAINPID=%d", (int)getpid());
}

/* The engine is dead: say so, and decide what comes next. Return: 0: start another engine; -1: give
 * up. */
static int supervisor_judge_death(struct sb_supervisor *supervisor)
{
        int status = 0, signal;

        supervisor_listen_to_engine(supervisor);
        (void)waitpid(supervisor->engine, &status, 0); /* no signal has a handler here */
        supervisor->engine_fd = supervisor_close_fd(supervisor->engine_fd);
        supervisor->channel = supervisor_close_fd(supervisor->channel);
        signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == SB_ENGINE_GAVE_UP)
                return -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == SB_ENGINE_UNSOUND)
                return supervisor_replace_segment(supervisor);
        if (signal)
                sb_log("the engine (pid %d) was ended by signal %d (%s)%s; starting another",
                        (int)supervisor->engine, signal, strsignal(signal),
                        supervisor->adopted ? "" : " before it had adopted the segment");
        else
                sb_log("the engine (pid %d) ended with status %d; starting another",
                        (int)supervisor->engine, WEXITSTATUS(status));
        /* The death of an engine that worked and was killed says nothing about the next one. A
         * crash in the first second of work does. */
        if (supervisor->adopted &&
                !(supervisor_signal_is_crash(signal) &&
                        supervisor_now_ns() - supervisor->adopted_ns < SECOND_NS) &&
                signal) {
                supervisor->failures = 0;
                return 0;
        }
        supervisor_note_failure(supervisor);
        if (supervisor_signal_is_crash(signal) && !supervisor->adopted &&
                ++supervisor->crashes >= CRASHES_MAX) {
                sb_log("%u engines in a row crashed on this segment: it is not adopted",
                        supervisor->crashes);
                return supervisor_replace_segment(supervisor);
        }
        return 0;
}

/* Wait for the end of the engine, and send a second signal on to it. Ctrl-C reaches all processes
 * at once, and the engine sends it here again: what comes so soon is the first one still. Return:
 * whether it has ended. */
static bool supervisor_await_engine(const struct sb_supervisor *supervisor, int patience_ms)
{
        struct pollfd fds[2] = {{.fd = supervisor->engine_fd, .events = POLLIN},
                {.fd = supervisor->signal_fd, .events = POLLIN}};
        uint64_t now = supervisor_now_ns(), second_ns = now + SECOND_SIGNAL_NS;
        uint64_t until_ns = now + (uint64_t)patience_ms * 1000000u;
        struct signalfd_siginfo info;
        char word = SB_SUPERVISOR_STOP;

        do { /* Bound: result. */
                if (poll(fds, 2, now < until_ns ? (int)((until_ns - now) / 1000000 + 1) : 0) < 0)
                        fds[0].revents = fds[1].revents = 0;
                if (fds[0].revents)
                        return true;
                now = supervisor_now_ns();
                if (fds[1].revents &&
                        read(fds[1].fd, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
                        now >= second_ns)
                        (void)send(supervisor->channel, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        } while (now < until_ns);
        return false;
}

/* Ask the engine to stop, and wait for its end. An engine that does not stop is killed, which tears
 * nothing: the segment is sound at every instruction. Return: 0: it did all that it had to do; 1:
 * another process killed it, or none was there; -1: it could not, or was late. */
static int supervisor_stop_engine(struct sb_supervisor *supervisor)
{
        char word = SB_SUPERVISOR_STOP;
        int patience_ms =
                supervisor->config->mode == SB_LOG_NONE ? STOP_PATIENCE_MS : LOG_PATIENCE_MS;
        bool asked, late = false;
        int status = 0;

        if (supervisor->engine_fd < 0)
                return 1;
        asked = supervisor->channel >= 0 && send(supervisor->channel, &word, 1, MSG_NOSIGNAL) == 1;
        if (asked) {
                (void)kill(supervisor->engine, SIGCONT); /* one that is stopped hears nothing */
                late = !supervisor_await_engine(supervisor, patience_ms);
        }
        if (!asked || late)
                (void)kill(supervisor->engine, SIGKILL);
        (void)waitpid(supervisor->engine, &status, 0);
        supervisor->engine_fd = supervisor_close_fd(supervisor->engine_fd);
        supervisor->channel = supervisor_close_fd(supervisor->channel);
        if (late && supervisor->config->mode != SB_LOG_NONE)
                sb_log("the log did not end within %u s: " SB_PLACE_LOST, LOG_PATIENCE_MS / 1000);
        if (late || (WIFEXITED(status) && WEXITSTATUS(status) != SB_ENGINE_STOPPED))
                return -1;
        return WIFSIGNALED(status);
}

/* The last word of a durable bus, for what stops it and has its segment still: whether something is
 * lost. */
static void supervisor_say_end(struct sb_supervisor *supervisor, bool lost)
{
        struct sb_superblock *super = supervisor->memory.super;
        uint32_t error;

        if (!super || supervisor->config->mode == SB_LOG_NONE)
                return;
        /* Relaxed, both: the log has ended, and readers look when this process has. */
        error = sb_load_relaxed(&super->log_error);
        sb_store_relaxed(&super->log_error, !lost ? 0 : error ? error : EIO);
}

/* This process ends, and the bus with it. Of a durable bus an engine has the log write what is
 * there; where it was killed, one more does. Return: the exit status, of such an engine, too: a
 * stop behind which something is lost is no clean one. */
static int supervisor_leave(struct sb_supervisor *supervisor, int status)
{
        bool is_logged = supervisor->config->mode != SB_LOG_NONE;
        enum sb_engine_end end;
        int left;

        (void)sd_notify(0, "STOPPING=1");
        if (supervisor->memory.super) {
                /* Relaxed, as in sb_memory_drop(). Clients see that the bus is not served any more
                 * before the engine goes; and the engine, before there is no socket, if this
                 * process is killed from here on. */
                sb_store_relaxed(&supervisor->memory.super->state, SB_SEGMENT_REPLACED);
        }
        sb_directory_leave(&supervisor->directory);
        left = supervisor_stop_engine(supervisor);
        if (left > 0 && status == 0 && is_logged) {
                if (supervisor_start_engine(supervisor, &end))
                        return (int)end;
                left = supervisor_stop_engine(supervisor);
                if (left > 0)
                        sb_log(SB_PLACE_LOST);
        }
        supervisor_say_end(supervisor, left);
        supervisor->self_fd = supervisor_close_fd(supervisor->self_fd);
        sb_scribe_end(&supervisor->scribe, &supervisor->memory);
        return left && is_logged ? SB_EXIT_FAILURE : status;
}

/* This process was the engine. Return: 0: it serves the bus from now on; 1: the supervisor was
 * killed while it ended the bus, and this process goes on with that; -1: it cannot. */
static int supervisor_take_over(struct sb_supervisor *supervisor)
{
        sb_log("the supervisor is dead: pid %d is the supervisor now", (int)getpid());
        if (supervisor_become(supervisor))
                return -1;
        /* Relaxed: the process that wrote it is dead. */
        if (sb_load_relaxed(&supervisor->memory.super->state) == SB_SEGMENT_REPLACED)
                return 1;
        if (supervisor->unsound && supervisor_replace_segment(supervisor))
                return -1;
        (void)sd_notifyf(0, "MAINPID=%d", (int)getpid());
        return 0;
}

/* Wait for one event. Return: 0: go on; 1: a signal says stop; -1: the supervisor cannot go on. */
static int supervisor_wait_once(struct sb_supervisor *supervisor)
{
        struct pollfd fds[4] = {
                {.fd = supervisor->signal_fd, .events = POLLIN},
                {.fd = supervisor->adopted ? -1 : supervisor->channel,
                        .events = POLLIN}, /* the engine's death is seen by its pidfd */
                {.fd = supervisor->engine_fd, .events = POLLIN},
        };
        uint64_t until_ns = sb_scribe_renew(&supervisor->scribe, &supervisor->memory), now;
        int timeout_ms = -1;

        fds[3] = (struct pollfd){.fd = supervisor->scribe.pidfd, .events = POLLIN};
        if (supervisor->engine_fd < 0 && supervisor->retry_ns < until_ns)
                until_ns = supervisor->retry_ns;
        if (until_ns < UINT64_MAX) {
                now = supervisor_now_ns();
                timeout_ms = until_ns > now ? (int)((until_ns - now) / 1000000 + 1) : 0;
        }
        if (poll(fds, 4, timeout_ms) < 0)
                return errno == EINTR ? 0 : -1;
        if (fds[0].revents)
                return 1; /* the signal stays where it is: this process ends */
        if (fds[2].revents)
                return supervisor_judge_death(supervisor);
        if (!fds[1].revents)
                return 0; /* the next engine may be started, or the next scribe */
        /* A word of the engine's, or it hung up and is about to end. */
        supervisor_listen_to_engine(supervisor);
        if (!supervisor->adopted)
                supervisor->channel = supervisor_close_fd(supervisor->channel);
        return 0;
}

int sb_supervisor_run(struct sb_supervisor *supervisor)
{
        enum sb_engine_end end;
        int r;

        if (supervisor_become(supervisor))
                return supervisor_leave(supervisor, SB_EXIT_FAILURE);
        for (;;) {
                if (supervisor->engine_fd < 0 && supervisor_now_ns() >= supervisor->retry_ns &&
                        supervisor_start_engine(supervisor, &end)) {
                        if (end != SB_ENGINE_SUPERVISOR_DIED)
                                return (int)end;
                        r = supervisor_take_over(supervisor);
                        if (r)
                                return supervisor_leave(supervisor, r > 0 ? 0 : SB_EXIT_FAILURE);
                        continue;
                }
                r = supervisor_wait_once(supervisor);
                if (r > 0) {
                        sb_log("told to stop");
                        return supervisor_leave(supervisor, 0);
                }
                if (r < 0)
                        return supervisor_leave(supervisor, SB_EXIT_FAILURE);
        }
}
