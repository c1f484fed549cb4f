/* Running a command in a shell; see shell.h. */
#define _GNU_SOURCE
#include "cli/shell.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

FILE *cli_shell_input(void)
{
        int fd = memfd_create("agentctl-input", MFD_CLOEXEC), error;
        FILE *input;

        if (fd < 0)
                return NULL;
        input = fdopen(fd, "w");
        if (!input) {
                error = errno;
                close(fd);
                errno = error;
        }
        return input;
}

/* Begin the command, with the signal mask @mask. Return: 0, or an errno. */
static int shell_begin(const char *command, int input_fd, const sigset_t *mask, pid_t *ret_pid)
{
        const char *const words[] = {"sh", "-c", command, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t how;
        sigset_t defaults;
        int r;

        r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return r;
        r = posix_spawnattr_init(&how);
        if (r != 0) {
                posix_spawn_file_actions_destroy(&actions);
                return r;
        }
        sigemptyset(&defaults);
        sigaddset(&defaults, SIGPIPE);
        posix_spawnattr_setsigdefault(&how, &defaults);
        posix_spawnattr_setsigmask(&how, mask);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        r = posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
        if (r == 0)
                r = posix_spawn(ret_pid, "/bin/sh", &actions, &how, (char *const *)words, environ);
        posix_spawnattr_destroy(&how);
        posix_spawn_file_actions_destroy(&actions);
        return r;
}

/* Sleep until SIGCHLD, which is @child and blocked, comes or the deadline is over. Return: whether
 * it came. */
static bool shell_sleep(const sigset_t *child, uint64_t deadline_ns)
{
        struct timespec now, span;
        uint64_t now_ns, left_ns;

        clock_gettime(CLOCK_MONOTONIC, &now);
        now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        span.tv_sec = (time_t)(left_ns / 1000000000u);
        span.tv_nsec = (long)(left_ns % 1000000000u);
        /* Another signal ends the sleep early: the caller looks again. */
        return sigtimedwait(child, NULL, deadline_ns == SB_FOREVER ? NULL : &span) >= 0 ||
               errno != EAGAIN;
}

/* Wait for the command. Return: 0; SB_E_TIMED_OUT: it runs; -errno. */
static int shell_wait(pid_t pid, const sigset_t *child, uint64_t deadline_ns, int *ret_status)
{
        bool in_time = true;
        pid_t ended;

        for (;;) {
                ended = waitpid(pid, ret_status, WNOHANG);
                if (ended == pid)
                        return 0;
                if (ended < 0 && errno != EINTR)
                        return -errno;
                if (!in_time)
                        return SB_E_TIMED_OUT;
                in_time = shell_sleep(child, deadline_ns);
        }
}

/* Say how the command ended, unless that was well. Return: an exit code. */
static int shell_say_end(const char *command, int status)
{
        if (WIFSIGNALED(status))
                cli_say("%s was killed by signal %d (%s)", cli_word(command), WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
        else if (WEXITSTATUS(status) != 0)
                cli_say("%s ended with exit status %d", cli_word(command), WEXITSTATUS(status));
        else
                return CLI_DONE;
        return CLI_FAILED;
}

int cli_shell_run(const char *command, FILE *input, uint64_t deadline_ns)
{
        bool is_whole =
                fflush(input) == 0 && !ferror(input) && lseek(fileno(input), 0, SEEK_SET) == 0;
        int error = is_whole ? 0 : errno, status = 0, r = 0;
        sigset_t child, before;
        pid_t pid = 0;

        /* A parent of agentctl may have left SIGCHLD ignored: then no end of a child is told. */
        signal(SIGCHLD, SIG_DFL);
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        sigprocmask(SIG_BLOCK, &child, &before);
        if (error == 0)
                error = shell_begin(command, fileno(input), &before, &pid);
        fclose(input);
        if (error == 0)
                r = shell_wait(pid, &child, deadline_ns, &status);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (error != 0 || r < 0) {
                cli_say("cannot %s %s: %s", error != 0 ? "run" : "wait for", cli_word(command),
                        strerror(error != 0 ? error : -r));
                return CLI_FAILED;
        }
        if (r == SB_E_TIMED_OUT) {
                cli_say("%s still runs, as process %d, and goes on: the deadline is over",
                        cli_word(command), (int)pid);
                return CLI_TIMED_OUT;
        }
        return shell_say_end(command, status);
}
