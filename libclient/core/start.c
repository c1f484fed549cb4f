/*
 * Starting agentd in the background, for sb_open() with SB_START and for agentctl.
 *
 * The daemon is a grandchild, so that this process need not wait for it when it ends some day. Two
 * things tell how the start went. A datagram in the manner of sd_notify says READY. And the kernel
 * hangs up a pipe, which agentd and its engine hold, when both have ended; when the program cannot
 * be run, the grandchild writes the reason into that pipe.
 *
 * Always true: when sb_attach_start() returns, this process has no descriptor of the start left,
 * and its only child has been waited for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/attach.h"

#define OPTIONS_MAX     32
#define ENVIRONMENT_MAX 4096

extern char **environ;

struct start {
        const char *program;
        const char *argv[OPTIONS_MAX + 4];
        const char *environment[ENVIRONMENT_MAX + 2];
        char notify[64]; /* NOTIFY_SOCKET=@... */
        int log_fd, notify_fd, life[2];
};

/* Make a datagram socket with a random abstract name, and put that name into the child's
 * environment. Return: 0, -errno. */
static int start_open_notify(struct start *start)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        unsigned long long number[2];
        int len;

        if (getrandom(number, sizeof(number), 0) != (ssize_t)sizeof(number))
                return -errno;
        snprintf(start->notify, sizeof(start->notify), "NOTIFY_SOCKET=@statebus-%016llx%016llx",
                number[0], number[1]);
        len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s",
                strchr(start->notify, '@') + 1);
        start->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (start->notify_fd < 0)
                return -errno;
        if (bind(start->notify_fd, (struct sockaddr *)&address,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) < 0)
                return -errno;
        return 0;
}

/* Make all that the child needs, since after fork() it may only make system calls. Return: 0,
 * -errno; the caller closes the descriptors. */
static int start_prepare(
        const struct sb_place *place, const char *const *options, struct start *start)
{
        char log_path[SB_PLACE_MAX + 16];
        size_t count = 0;
        int r;

        start->program = secure_getenv("STATEBUS_AGENTD");
        if (!start->program || !*start->program)
                start->program = "agentd";
        start->argv[count++] = start->program;
        start->argv[count++] = "-b";
        start->argv[count++] = place->directory;
        for (; options && *options; options++) {
                if (count == OPTIONS_MAX + 3)
                        return -E2BIG;
                start->argv[count++] = *options;
        }
        count = 0;
        for (char **at = environ; at && *at; at++) {
                if (!strncmp(*at, "NOTIFY_SOCKET=", 14))
                        continue;
                if (count == ENVIRONMENT_MAX)
                        return -E2BIG;
                start->environment[count++] = *at;
        }
        start->environment[count++] = start->notify;
        r = sb_place_make(place);
        if (r)
                return r;
        snprintf(log_path, sizeof(log_path), "%s/" SB_PLACE_LOG, place->directory);
        start->log_fd =
                open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (start->log_fd < 0 || pipe2(start->life, O_CLOEXEC) < 0)
                return -errno;
        return start_open_notify(start);
}

/* Turn the grandchild into agentd. It was forked from a program of unknown threads, so it makes
 * system calls alone. */
static void start_become_agentd(const struct start *start)
{
        sigset_t none;
        /* A program may have closed 0, 1 and 2, and ours may have these numbers: they are moved. */
        int log = fcntl(start->log_fd, F_DUPFD_CLOEXEC, 3),
            life = fcntl(start->life[1], F_DUPFD, 3);
        int null = open("/dev/null", O_RDWR), error;

        setsid();
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (log < 0 || life < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
                dup2(log, 2) < 0)
                _exit(127);
        if (null > 2)
                close(null);
        execvpe(start->program, (char *const *)start->argv, (char *const *)start->environment);
        error = errno;
        (void)!write(life, &error, sizeof(error));
        _exit(127);
}

/* Fork twice, and wait for the child in between. Return: 0: the grandchild runs; -errno. */
static int start_spawn(struct start *start)
{
        pid_t child = fork();
        int status;

        if (child < 0)
                return -errno;
        if (child == 0) {
                pid_t grandchild = fork();

                if (grandchild == 0)
                        start_become_agentd(start);
                _exit(grandchild < 0 ? 1 : 0);
        }
        close(start->life[1]);
        start->life[1] = -1;
        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        /* ECHILD: the program ignores SIGCHLD, and the pipe will tell. */
                        return errno == ECHILD ? 0 : -errno;
        return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EAGAIN;
}

/* Wait until agentd is ready or has ended. Return: as sb_attach_start(). */
static int start_wait_ready(const struct start *start)
{
        struct pollfd fds[2] = {{.fd = start->notify_fd, .events = POLLIN},
                {.fd = start->life[0], .events = POLLIN}};
        char words[512];

        for (;;) {
                if (poll(fds, 2, -1) < 0)
                        return -errno;
                if (fds[0].revents) {
                        ssize_t len =
                                recv(start->notify_fd, words, sizeof(words) - 1, MSG_DONTWAIT);

                        words[len > 0 ? len : 0] = 0;
                        if (!strncmp(words, "READY=1", 7) || strstr(words, "\nREADY=1"))
                                return 0;
                } else if (fds[1].revents) {
                        int error;

                        return read(start->life[0], &error, sizeof(error)) == sizeof(error)
                                       ? -error
                                       : -ECONNREFUSED;
                }
        }
}

int sb_attach_start(const struct sb_place *place, const char *const *options)
{
        struct start start = {.log_fd = -1, .notify_fd = -1, .life = {-1, -1}};
        int r;

        r = start_prepare(place, options, &start);
        if (!r)
                r = start_spawn(&start);
        if (!r)
                r = start_wait_ready(&start);
        if (start.log_fd >= 0)
                close(start.log_fd);
        if (start.notify_fd >= 0)
                close(start.notify_fd);
        if (start.life[0] >= 0)
                close(start.life[0]);
        if (start.life[1] >= 0)
                close(start.life[1]);
        return r;
}
