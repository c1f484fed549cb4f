/*
 * Starting agentd in the background, for sb_open() with SB_START and for agentctl.
 *
 *      this process -> watcher -> agentd
 *
 * The daemon is a grandchild, so that this process need not wait for it when it ends some day.
 * Three things tell how the start went. A datagram in the manner of sd_notify says READY. The
 * kernel hangs up a pipe, which all processes of agentd but the log hold, when they have ended,
 * that which writes their lines last; when the program cannot be run, the grandchild writes the
 * reason into that pipe. And the watcher, a child that lives until the start is over, says with
 * which status agentd ended.
 *
 * agentd shall not depend on the process that happened to start it. What it gets and what it does
 * not get of that process is in docs/operating.md, "What agentd inherits".
 *
 * Always true: when sb_attach_start() returns, this process has no descriptor of the start left,
 * and its only child has been waited for. Children make system calls alone, for they were forked
 * from a program of unknown threads; none of that program's signal handlers runs in them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/attach.h"
#include "ring/attach/limit.h"

#define OPTIONS_MAX     32
#define ENVIRONMENT_MAX 4096

extern char **environ;

struct start {
        const char *argv[OPTIONS_MAX + 4];
        const char *environment[ENVIRONMENT_MAX + 2];
        char program[PATH_MAX], directory[SB_PLACE_MAX]; /* absolute */
        char notify[64];                                 /* NOTIFY_SOCKET=@... */
        int log_fd, notify_fd, life[2], watch[2];
        off_t log_from; /* where this start's lines begin */
        pid_t watcher;
};

/* Make a path absolute: agentd's directory is another. Return: 0, -ENAMETOOLONG, -errno. */
static int start_make_absolute(const char *path, char *ret, size_t size)
{
        char here[PATH_MAX] = "";

        if (*path != '/' && !getcwd(here, sizeof(here)))
                return -errno;
        return (size_t)snprintf(ret, size, "%s%s%s", here, *path != '/' ? "/" : "", path) < size
                       ? 0
                       : -ENAMETOOLONG;
}

/* Find the program as execvp() would. Return: 0, -ENOENT, -EACCES, other -errno. */
static int start_find_program(struct start *start)
{
        const char *name = secure_getenv("STATEBUS_AGENTD"), *path = secure_getenv("PATH");
        char candidate[PATH_MAX];
        int r = -ENOENT;

        if (!name || !*name)
                name = "agentd";
        if (strchr(name, '/'))
                return start_make_absolute(name, start->program, sizeof(start->program));
        if (!path)
                path = "/usr/local/bin:/usr/bin:/bin";
        for (;; path++) {
                int len = (int)strcspn(path, ":");
                struct stat status;

                if (snprintf(candidate, sizeof(candidate), "%.*s/%s", len ? len : 1,
                            len ? path : ".", name) < (int)sizeof(candidate) &&
                        !stat(candidate, &status) && S_ISREG(status.st_mode)) {
                        if (!euidaccess(candidate, X_OK))
                                return start_make_absolute(
                                        candidate, start->program, sizeof(start->program));
                        r = -EACCES;
                }
                path += len;
                if (!*path)
                        return r;
        }
}

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

/* The next start is to write into a log that is new: the umask may have taken bits from its mode,
 * and a process of root's gives it to the directory's owner, whose bus agentd will not serve for
 * it. */
static void start_give_log(const struct start *start)
{
        struct stat directory;

        (void)fchmod(start->log_fd, 0600);
        if (!geteuid() && !stat(start->directory, &directory) && directory.st_uid)
                (void)!fchown(start->log_fd, directory.st_uid, directory.st_gid);
}

/* Open the log, and note where it ends now. Return: 0, -errno. */
static int start_open_log(struct start *start)
{
        const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
        char path[SB_PLACE_MAX + 16];
        struct stat status;

        snprintf(path, sizeof(path), "%s/" SB_PLACE_LOG, start->directory);
        start->log_fd = open(path, flags | O_EXCL, 0600);
        if (start->log_fd >= 0)
                start_give_log(start);
        else if (errno == EEXIST)
                start->log_fd = open(path, flags, 0600);
        if (start->log_fd < 0 || fstat(start->log_fd, &status) < 0)
                return -errno;
        start->log_from = status.st_size;
        return 0;
}

/* Make all that the children need, since after fork() they may only make system calls. Return: 0,
 * -errno; the caller closes the descriptors. */
static int start_prepare(
        const struct sb_place *place, const char *const *options, struct start *start)
{
        size_t count = 0;
        int r;

        r = start_find_program(start);
        r = r ? r : start_make_absolute(place->directory, start->directory, SB_PLACE_MAX);
        if (r)
                return r;
        start->argv[count++] = start->program;
        start->argv[count++] = "-b";
        start->argv[count++] = start->directory;
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
        r = r ? r : start_open_log(start);
        if (r)
                return r;
        if (pipe2(start->life, O_CLOEXEC) < 0 ||
                socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start->watch) < 0)
                return -errno;
        return start_open_notify(start);
}

/* ---- the children ---- */

static void start_close_from(unsigned first)
{
        struct rlimit files;

        if (!syscall(SYS_close_range, first, ~0u, 0))
                return;
        /* Linux before 5.9, or a filter of system calls. */
        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max > 1u << 20)
                files.rlim_max = 1u << 20;
        for (unsigned fd = first; fd < files.rlim_max; fd++)
                close((int)fd);
}

/* Give up what belongs to the program that asked for the start: its directory, session, signals,
 * priority and soft limits. What may not be given up stays. */
static void start_reset(void)
{
        static const int limits[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_AS};
        struct sigaction standard = {.sa_handler = SIG_DFL};
        struct sched_param parameter = {0};
        struct rlimit limit;

        setsid();
        umask(022);
        (void)!chdir("/");
        for (int signal = 1; signal < NSIG; signal++)
                (void)sigaction(signal, &standard, NULL);
        (void)sched_setscheduler(0, SCHED_OTHER, &parameter);
        (void)setpriority(PRIO_PROCESS, 0, 0);
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                if (getrlimit((__rlimit_resource_t)limits[i], &limit) < 0)
                        continue;
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit((__rlimit_resource_t)limits[i], &limit);
        }
}

/* Turn the grandchild into agentd: 0 is /dev/null, 1 and 2 the log, 3 the pipe that shows whether
 * it lives. */
static void start_become_agentd(const struct start *start)
{
        /* A program may have closed 0, 1 and 2, and ours may have these numbers: they are moved. */
        int log = fcntl(start->log_fd, F_DUPFD, 4), life = fcntl(start->life[1], F_DUPFD, 4);
        int null = open("/dev/null", O_RDWR), error;
        sigset_t none;

        if (log >= 0 && life >= 0 && null >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 &&
                dup2(log, 2) == 2 && dup2(life, 3) == 3) {
                life = 3;
                start_close_from(4);
                start_reset();
                sigemptyset(&none);
                sigprocmask(SIG_SETMASK, &none, NULL);
                execvpe(start->program, (char *const *)start->argv,
                        (char *const *)start->environment);
        }
        error = errno;
        (void)!write(life >= 0 ? life : start->life[1], &error, sizeof(error));
        _exit(127);
}

/* The watcher: wait until agentd has ended, and say how, or until the start is over. */
static void start_watch(const struct start *start, pid_t agentd)
{
        int watch = dup2(start->watch[1], 0), status;
        struct pollfd fds[2];

        if (watch < 0)
                _exit(1);
        start_close_from(1);
        fds[0] = (struct pollfd){.fd = watch, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, agentd, 0), .events = POLLIN};
        /* Linux before 5.3, or a filter of system calls: how agentd ends is not told then. */
        if (fds[1].fd < 0)
                _exit(1);
        if (poll(fds, 2, -1) > 0 && fds[1].revents && waitpid(agentd, &status, 0) == agentd)
                (void)!send(watch, &status, sizeof(status), MSG_NOSIGNAL);
        _exit(0);
}

/* Fork the watcher, and agentd from it. Signals wait meanwhile, so that no handler of the program's
 * runs in a child. Return: 0, -errno. */
static int start_spawn(struct start *start)
{
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigset_t all, before;
        int error;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        start->watcher = fork();
        error = errno;
        if (start->watcher == 0) {
                pid_t agentd;

                /* A program that ignores SIGCHLD would never learn a status. */
                (void)sigaction(SIGCHLD, &standard, NULL);
                agentd = fork();
                if (agentd == 0)
                        start_become_agentd(start);
                if (agentd > 0)
                        start_watch(start, agentd);
                error = errno;
                (void)!write(start->life[1], &error, sizeof(error));
                _exit(1);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        close(start->life[1]);
        close(start->watch[1]);
        start->life[1] = start->watch[1] = -1;
        return start->watcher < 0 ? -error : 0;
}

/* ---- the outcome ---- */

/* Read the last line that was logged since the start began, without the time and the name before
 * it; an empty one when there is none. */
static void start_read_line(const struct start *start, char *ret, size_t size)
{
        static const char advice[] = "agentd: see agentd --help";
        char text[2048], *line, *end;
        struct stat status;
        off_t from = start->log_from;
        ssize_t len;

        *ret = 0;
        if (fstat(start->log_fd, &status) < 0)
                return;
        if (status.st_size - from > (off_t)sizeof(text) - 1)
                from = status.st_size - (off_t)sizeof(text) + 1;
        len = pread(start->log_fd, text, sizeof(text) - 1, from);
        if (len <= 0)
                return;
        for (end = text + len;; end = line) {
                while (end > text && end[-1] == '\n')
                        end--;
                *end = 0;
                line = strrchr(text, '\n');
                line = line ? line + 1 : text;
                if (line == text || strcmp(line, advice) != 0)
                        break;
        }
        if (strstr(line, "agentd: "))
                line = strstr(line, "agentd: ") + 8;
        snprintf(ret, size, "%.*s", (int)size - 1, line);
}

/* agentd has ended before it was ready: find out how. Return: as sb_attach_start(). */
static int start_judge_end(const struct start *start, struct sb_attach_end *ret_end)
{
        struct sb_attach_end end = {.status = -1, .memory_limit = sb_limit_memory()};
        int status;

        if (recv(start->watch[0], &status, sizeof(status), 0) == (ssize_t)sizeof(status))
                end.status = status;
        start_read_line(start, end.line, sizeof(end.line));
        if (ret_end)
                *ret_end = end;
        /* Of a memory cgroup's limit the kernel tells in this way alone. */
        return end.status >= 0 && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL &&
                               end.memory_limit != SB_LIMIT_NONE
                       ? -ENOMEM
                       : -ECONNREFUSED;
}

/* Wait until agentd is ready or has ended. Return: as sb_attach_start(). */
static int start_wait_ready(const struct start *start, struct sb_attach_end *ret_end)
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
                                       : start_judge_end(start, ret_end);
                }
        }
}

static void start_close(int fd)
{
        if (fd >= 0)
                close(fd);
}

/* The start is over: the watcher may go. */
static void start_end_watcher(const struct start *start)
{
        if (start->watcher <= 0)
                return;
        (void)!send(start->watch[0], "", 1, MSG_NOSIGNAL);
        /* ECHILD: the program ignores SIGCHLD, and the kernel has waited for the child. */
        while (waitpid(start->watcher, NULL, 0) < 0 && errno == EINTR)
                ;
}

int sb_attach_start(
        const struct sb_place *place, const char *const *options, struct sb_attach_end *ret_end)
{
        struct start start = {
                .log_fd = -1, .notify_fd = -1, .life = {-1, -1}, .watch = {-1, -1}, .watcher = -1};
        int r;

        if (ret_end)
                *ret_end = (struct sb_attach_end){.status = -1, .memory_limit = SB_LIMIT_NONE};
        r = start_prepare(place, options, &start);
        if (!r)
                r = start_spawn(&start);
        if (!r)
                r = start_wait_ready(&start, ret_end);
        start_end_watcher(&start);
        start_close(start.log_fd);
        start_close(start.notify_fd);
        for (int i = 0; i < 2; i++) {
                start_close(start.life[i]);
                start_close(start.watch[i]);
        }
        return r;
}
