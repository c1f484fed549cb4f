/*
 * The commands start and stop, which start agentd in the background and end it.
 *
 * agentctl looks for agentd in $STATEBUS_AGENTD, next to itself, where the build tree has it, and
 * on the PATH.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mimalloc.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "libclient/core/admin.h"
#include "ring/attach/limit.h"
#include "ring/attach/place.h"

#define START_WAIT_MS 250
#define STOP_SAY_MS   1000
#define STOP_WAIT_MS  30000
#define STOP_LOOK_MS  2

extern char **environ;

/* What $STATEBUS_AGENTD says; NULL: nothing. */
static const char *serve_agentd_wanted(void)
{
        const char *wanted = getenv("STATEBUS_AGENTD");

        return wanted && *wanted ? wanted : NULL;
}

/* sb_admin_start() looks only in the environment and on the PATH, so an agentd that is found
 * elsewhere is named in the environment. */
static void serve_find_agentd(void)
{
        static const char *const candidates[] = {"agentd", "../agentd/agentd"};
        char path[PATH_MAX];
        ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);
        char *slash;

        if (serve_agentd_wanted() || len < 0)
                return;
        path[len] = '\0';
        slash = strrchr(path, '/');
        for (size_t i = 0; slash && i < sizeof(candidates) / sizeof(candidates[0]); i++) {
                strcpy(slash + 1, candidates[i]);
                if (access(path, X_OK) == 0) {
                        setenv("STATEBUS_AGENTD", path, 1);
                        return;
                }
        }
}

/* Let agentd itself check its options and complain on this terminal, before it is started in the
 * background. Return: 0, or an exit code. */
static int serve_check_options(const struct cli *cli)
{
        const char *wanted = serve_agentd_wanted(), *agentd = wanted ? wanted : "agentd";
        char **argv = mi_calloc((size_t)cli->operand_count + 5, sizeof(*argv));
        posix_spawn_file_actions_t actions;
        int r, count = 0, status;
        pid_t pid;

        if (!argv)
                return cli_fail(cli, "start", -ENOMEM);
        argv[count++] = (char *)agentd;
        if (cli->bus) {
                argv[count++] = "-b";
                argv[count++] = (char *)cli->bus;
        }
        /* Before the others: behind an option without its value, it would be the value. */
        argv[count++] = "--check-config";
        for (int i = 0; i < cli->operand_count; i++)
                argv[count++] = cli->operands[i];
        /* The program that ran agentctl may ignore it, and no child would have a status. */
        (void)signal(SIGCHLD, SIG_DFL);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        r = posix_spawnp(&pid, agentd, &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        mi_free(argv);
        if (r != 0) {
                cli_say("cannot run agentd ('%s': %s): install it, or name it in $STATEBUS_AGENTD",
                        agentd, strerror(r));
                return CLI_FAILED;
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return cli_fail(cli, "start", -errno);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
                return CLI_USAGE;
        cli_say("`%s --check-config` did not say that the options are right: is it agentd?%s",
                agentd, wanted ? " $STATEBUS_AGENTD names it" : "");
        return CLI_FAILED;
}

/* Say why agentd has ended that was to be started. */
static void serve_say_end(const struct sb_attach_end *end, const char *directory)
{
        char how[128] = "ended before it was ready";

        if (end->status >= 0 && WIFSIGNALED(end->status)) {
                int len = snprintf(how, sizeof(how), "was killed by signal %d (%s)",
                        WTERMSIG(end->status), strsignal(WTERMSIG(end->status)));

                if (WTERMSIG(end->status) == SIGKILL && end->memory_limit != SB_LIMIT_NONE)
                        snprintf(how + len, sizeof(how) - (size_t)len,
                                "; its memory cgroup allows %llu MiB",
                                (unsigned long long)end->memory_limit >> 20);
        }
        if (!end->line[0])
                cli_say("agentd %s; it wrote nothing to %s/agentd.log", how, directory);
        else
                cli_say("agentd %s; the last line of %s/agentd.log: %s", how, directory, end->line);
}

/* Wait for a supervisor that was killed just now: it looks alive until the kernel has its memory.
 * Return: whether it is gone. */
static bool serve_is_gone(pid_t supervisor)
{
        struct pollfd ended = {.fd = pidfd_open(supervisor, 0), .events = POLLIN};
        int got;

        if (ended.fd < 0)
                return errno == ESRCH;
        do
                got = poll(&ended, 1, START_WAIT_MS);
        while (got == 0 && sb_place_ending(supervisor));
        close(ended.fd);
        return got > 0;
}

/* No agentd was there to say why. */
static void serve_say_not_started(int r, const char *directory)
{
        switch (r) {
        case -EROFS: /* of a bus it means another thing */
                cli_say("cannot start agentd on %s: that is on a file system that is mounted "
                        "read-only, and agentd writes there",
                        directory);
                break;
        case -EACCES:
                cli_say("cannot start agentd on %s: this user may not write there, or not into %s "
                        "there, to which agentd appends its lines, or not run agentd",
                        directory, SB_PLACE_LOG);
                break;
        case -EISDIR:
                cli_say("cannot start agentd on %s: %s there is a directory, and agentd writes its "
                        "lines into a file of that name: move it away",
                        directory, SB_PLACE_LOG);
                break;
        case -ELOOP:
                cli_say("cannot start agentd on %s: %s there is a symbolic link, and agentd writes "
                        "through none: move it away. Or that path is a circle of links",
                        directory, SB_PLACE_LOG);
                break;
        default:
                cli_say("cannot start agentd on %s: %s", directory, sb_strerror(r));
        }
}

/* Whether getopt_long() of agentd takes the word for this option: a value may be in the word,
 * behind = or behind a letter, and a name may be shortened to @least bytes. */
static bool serve_is_option(const char *word, const char *name, size_t least)
{
        size_t len = name[1] == '-' ? strcspn(word, "=") : least;

        return len >= least && strncmp(word, name, len) == 0;
}

/* Look for what agentd knows and a start must not have. Another bus would be served, and not the
 * one that is waited for; or none. Return: 0, or an exit code. */
static int serve_check_words(const struct cli *cli)
{
        /* least: bytes of the name from which on it is no other option's */
        static const struct {
                const char *name;
                size_t least;
                const char *says;
        } refused[] = {{"-b", 2, "-b BUS stands before start"},
                {"--bus", 3, "-b BUS stands before start"},
                {"-h", 2, "`agentctl help start` explains it, `agentd --help` its options"},
                {"--help", 4, "`agentctl help start` explains it, `agentd --help` its options"},
                {"--version", 3, "--version serves no bus: ask agentd itself, `agentd --version`"},
                {"--check-config", 8,
                        "--check-config serves no bus: ask agentd itself, `agentd "
                        "--check-config`"}};

        for (int i = 0; i < cli->operand_count; i++)
                for (size_t j = 0; j < sizeof(refused) / sizeof(refused[0]); j++)
                        if (serve_is_option(cli->operands[i], refused[j].name, refused[j].least))
                                return cli_usage("%s", refused[j].says);
        return 0;
}

int cli_start(struct cli *cli)
{
        const char **options = mi_calloc((size_t)cli->operand_count + 1, sizeof(*options));
        char directory[PATH_MAX];
        struct sb_attach_end end;
        pid_t supervisor;
        int r;

        if (!options)
                return cli_fail(cli, "start", -ENOMEM);
        for (int i = 0; i < cli->operand_count; i++)
                options[i] = cli->operands[i];
        r = serve_check_words(cli);
        if (r != 0)
                return r;
        r = cli_place(cli, directory, sizeof(directory));
        if (r != 0)
                return r;
        if (sb_admin_supervisor(cli->bus, &supervisor) == 0 && !serve_is_gone(supervisor)) {
                cli_say("%s serves the bus in %s already; `agentctl %sstop` ends it%s",
                        cli_agentd(supervisor), directory, cli_bus_words(cli),
                        supervisor > 0 ? "" : " there");
                return CLI_FAILED;
        }
        serve_find_agentd();
        r = serve_check_options(cli);
        if (r != 0)
                return r;
        r = sb_admin_start(cli->bus, options, &end);
        mi_free(options);
        if (r == 0)
                return CLI_DONE;
        if (end.status >= 0 || end.line[0]) {
                serve_say_end(&end, directory);
                return CLI_FAILED;
        }
        serve_say_not_started(r, directory);
        return cli_code_of(-r);
}

static bool serve_is_there(pid_t pid)
{
        return kill(pid, 0) == 0 || errno != ESRCH;
}

/* No process is known as the supervisor. Return: as below. */
static int serve_judge_lock(const struct cli *cli, pid_t *ret_pid, int *ret_fd)
{
        pid_t pid;
        int r;

        if (sb_admin_held(cli->bus)) {
                /* The process that the lock names is no agentd's, unless it wrote that just now. */
                if (sb_admin_homeless(cli->bus, &pid) == 0 && serve_is_there(pid))
                        return sb_admin_homeless_open(cli->bus, ret_pid, ret_fd);
                return -EAGAIN;
        }
        r = sb_admin_listener(cli->bus, ret_pid);
        if (r != 0)
                return r == -EAGAIN ? r : -ESRCH;
        /* It has the lock now, or was killed, and its engine listens next. */
        if (sb_admin_held(cli->bus) || (*ret_pid > 0 && !serve_is_there(*ret_pid)))
                return -EAGAIN;
        return -EADDRINUSE;
}

/* A pidfd of the supervisor, or of that of an agentd which has lost its directory and holds this
 * one. Return: 0; -ESRCH: there is none; -EAGAIN: it has just ended, or another process is to be
 * the supervisor soon; -EXDEV: this process cannot see it; -EADDRINUSE: its lock was removed;
 * -errno. */
static int serve_open_process(const struct cli *cli, pid_t *ret_pid, int *ret_fd)
{
        int fd, r = sb_admin_supervisor(cli->bus, ret_pid);
        pid_t again;

        if (r == -ESRCH) {
                r = sb_admin_homeless_open(cli->bus, ret_pid, ret_fd);
                return r == -ESRCH ? serve_judge_lock(cli, ret_pid, ret_fd) : r;
        }
        if (r != 0)
                return r;
        if (*ret_pid <= 0)
                return -EXDEV;
        fd = pidfd_open(*ret_pid, 0);
        if (fd < 0)
                return errno == ESRCH ? -EAGAIN : -errno;
        /* The supervisor may have ended before pidfd_open(), and its pid may be another process's.
         * When the pid is the supervisor's still, the pidfd is the supervisor's, too. */
        if (sb_admin_supervisor(cli->bus, &again) == 0 && again == *ret_pid) {
                *ret_fd = fd;
                return 0;
        }
        close(fd);
        return -EAGAIN;
}

/* End one process and wait for it. Return: 0 (it ended), -ETIMEDOUT, -errno. */
static int serve_end_process(int fd, pid_t pid)
{
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        int got;

        if (pidfd_send_signal(fd, SIGTERM, NULL, 0) < 0 && errno != ESRCH)
                return -errno;
        /* One that is stopped hears it when it goes on, and wakes its own processes. */
        (void)pidfd_send_signal(fd, SIGCONT, NULL, 0);
        do
                got = poll(&ended, 1, STOP_SAY_MS);
        while (got < 0 && errno == EINTR);
        if (got == 0)
                cli_say("waiting for agentd (pid %d): it writes what is not on the disk, and may "
                        "copy the bus into its log; agentd.log says how far it is",
                        (int)pid);
        while (got == 0 || (got < 0 && errno == EINTR)) {
                got = poll(&ended, 1, STOP_WAIT_MS - STOP_SAY_MS);
                if (got == 0)
                        break;
        }
        return got < 0 ? -errno : got == 0 ? -ETIMEDOUT : 0;
}

/* Whether agentd has logged behind @from that the disk did not take what was written last. */
static bool serve_has_lost(const char *path, off_t from)
{
        char text[4096];
        struct stat status;
        ssize_t len;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0)
                return false;
        /* It is what comes last. */
        if (!fstat(fd, &status) && status.st_size - from >= (off_t)sizeof(text))
                from = status.st_size - (off_t)sizeof(text) + 1;
        len = pread(fd, text, sizeof(text) - 1, from);
        close(fd);
        text[len > 0 ? len : 0] = '\0';
        return strstr(text, SB_PLACE_LOST);
}

static void serve_note_alarm(int number)
{
        (void)number;
}

/* Attach to a bus that is about to end: its segment says at the end what its log, which may lie on
 * the same disk, cannot. Return: NULL: no engine answers within a second, or there is no place. */
static struct sb_bus *serve_attach(const struct cli *cli)
{
        /* Again and again: one that comes right before the wait ends nothing. */
        struct itimerval second = {.it_value.tv_sec = 1, .it_interval.tv_sec = 1}, never = {0};
        struct sb_bus *bus = NULL;

        sigaction(SIGALRM, &(struct sigaction){.sa_handler = serve_note_alarm}, NULL);
        setitimer(ITIMER_REAL, &second, NULL);
        if (sb_admin_open(cli->bus, &bus) != 0)
                bus = NULL;
        setitimer(ITIMER_REAL, &never, NULL);
        return bus;
}

/* All processes have ended. Return: an exit code; behind a loss, after a message. */
static int serve_say_stopped(
        const struct cli *cli, struct sb_bus *bus, const char *path, off_t from)
{
        int error = bus ? sb_admin_log_error(bus) : 0;
        bool said = serve_has_lost(path, from);

        sb_close(bus);
        if (sb_admin_homeless_lost(cli->bus)) {
                cli_say("agentd has ended, but it had lost its directory, and not all of its bus "
                        "is in the one that was made again");
                return CLI_FAILED;
        }
        if (error <= 0 && !said)
                return CLI_DONE;
        if (said)
                cli_say("agentd has ended, but " SB_PLACE_LOST
                        ": the disk did not take it, and %s says why",
                        path);
        else
                cli_say("agentd has ended, but " SB_PLACE_LOST ": the disk did not take it: %s",
                        strerror(error));
        return CLI_FAILED;
}

static int64_t serve_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A wait for a supervisor, while agentd has none. */
struct serve_gap {
        int64_t began_ms; /* 0: there was one just now */
        bool said;
};

/* Behind the death of a supervisor its engine takes the place, and tells no other process of it.
 * Return: 0, -ETIMEDOUT. */
static int serve_await_supervisor(struct serve_gap *gap)
{
        int64_t now_ms = serve_now_ms();

        if (gap->began_ms == 0)
                gap->began_ms = now_ms;
        if (now_ms - gap->began_ms >= STOP_WAIT_MS)
                return -ETIMEDOUT;
        if (now_ms - gap->began_ms >= STOP_SAY_MS && !gap->said) {
                cli_say("waiting for agentd, which has no supervisor now: its engine takes the "
                        "place of one that was killed, or it just starts. If it goes on: is it "
                        "stopped? `ps -o pid,stat,args -C agentd-engine` shows it, a stopped one "
                        "with state T; `kill -CONT` with its pid helps");
                gap->said = true;
        }
        poll(NULL, 0, STOP_LOOK_MS);
        return 0;
}

/* The bus is served still. Return: the exit code for that. */
static int serve_fail_stop(const struct cli *cli, int result, pid_t pid, const char *directory)
{
        switch (result) {
        case -EXDEV:
                cli_say("%s serves the bus in %s: stop it there, or from outside of this container",
                        cli_agentd(pid), directory);
                return CLI_NOT_PERMITTED;
        case -EADDRINUSE:
                return cli_fail_lockless(directory, pid);
        case -ETIMEDOUT:
                cli_say("agentd (pid %d) has not ended in 30 seconds: is it stopped, or its "
                        "agentd-log, or does the disk hang? `kill -CONT` wakes a process that is "
                        "stopped; `kill -KILL %d` ends agentd without what is not on the disk",
                        (int)pid, (int)pid);
                return CLI_TIMED_OUT;
        default:
                return cli_fail(cli, directory, result);
        }
}

/* More than one process may have to end: when a supervisor is killed, its engine becomes the
 * supervisor. Return: 0: no process serves the bus any more; an exit code, after a message. */
static int serve_end_all(struct cli *cli, const char *directory, bool *ret_ended)
{
        struct serve_gap gap = {0};
        int fd = -1, r;
        pid_t pid = 0;

        for (;;) {
                r = serve_open_process(cli, &pid, &fd);
                if (r == -ESRCH || r == -ENOENT)
                        return 0;
                if (r == -EAGAIN && serve_await_supervisor(&gap) != 0) {
                        cli_say("agentd has had no supervisor for 30 seconds, and has not ended: "
                                "`ps -o pid,stat,args -C agentd-engine` shows its engine; `kill "
                                "-CONT` wakes one that is stopped (state T)");
                        return CLI_TIMED_OUT;
                }
                if (r == 0) {
                        gap = (struct serve_gap){0};
                        r = serve_end_process(fd, pid);
                        close(fd);
                }
                if (r != 0 && r != -EAGAIN)
                        return serve_fail_stop(cli, r, pid, directory);
                *ret_ended = true;
        }
}

int cli_stop(struct cli *cli)
{
        char directory[PATH_MAX], path[PATH_MAX + sizeof(SB_PLACE_LOG)];
        struct stat log = {0};
        bool ended = false;
        struct sb_bus *bus;
        int r;

        r = cli_place(cli, directory, sizeof(directory));
        if (r != 0)
                return r;
        snprintf(path, sizeof(path), "%s/" SB_PLACE_LOG, directory);
        if (stat(path, &log) < 0)
                log.st_size = 0;
        bus = serve_attach(cli);
        r = serve_end_all(cli, directory, &ended);
        if (r != 0)
                return r;
        return ended ? serve_say_stopped(cli, bus, path, log.st_size)
                     : cli_fail(cli, "stop", -ECONNREFUSED);
}
