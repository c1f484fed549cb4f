/*
 * agentd: makes a bus and serves it until a signal stops it. Its processes are the supervisor,
 * which the user started, and its children: the engine, and the scribe, which writes their lines.
 *
 *      options -> limits, signals -> directory, lock, socket -> segment -> scribe -> supervisor
 *
 * Always true: nothing is made before the options, the limits and the signals are in order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agentd/config.h"
#include "agentd/engine.h"
#include "agentd/life.h"
#include "agentd/log.h"
#include "agentd/supervisor.h"
#include "agentd/wal/wal-recover.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"

#define DESCRIPTORS_BESIDES (SB_CONNECTIONS_MAX + SB_STRANGERS_MAX + SB_KEPT_MIN + 32u)

/* Raise the limit on descriptors. Each client needs one by which it is watched, and a second one
 * for its connection until it has read the answer. *ret_kept: how many of the second kind there may
 * be, SB_KEPT_MIN at least. Return: 0, -1. */
static int main_raise_limit(uint32_t clients, uint32_t *ret_kept)
{
        rlim_t needed = (rlim_t)clients + DESCRIPTORS_BESIDES, wanted = needed + clients;
        struct rlimit limit;

        *ret_kept = SB_KEPT_MIN + clients;
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
                return 0;
        if (limit.rlim_max < needed) {
                sb_log("--clients %u needs %lu open files and this process may have %lu: raise the "
                       "limit (ulimit -Hn), or give fewer "
                       "clients",
                        clients, (unsigned long)needed, (unsigned long)limit.rlim_max);
                return -1;
        }
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        *ret_kept = SB_KEPT_MIN + (uint32_t)(limit.rlim_cur - needed);
        return setrlimit(RLIMIT_NOFILE, &limit);
}

/* In a build with seeded faults: break what the environment names. Return: 0, -1. */
static int main_choose_fault(void)
{
#ifdef SB_FAULTS
#define MAIN_FAULT_NAME(name, text) #name,
        static const char *const names[] = {"NONE", SB_FAULT_TABLE(MAIN_FAULT_NAME)};
        const char *wanted = getenv("SB_AGENTD_FAULT");

        for (uint32_t fault = 0; wanted && fault < SB_FAULT_COUNT; fault++)
                if (strcmp(wanted, names[fault]) == 0) {
                        sb_fault_chosen = (enum sb_fault)fault;
                        return 0;
                }
        if (wanted) {
                sb_log("SB_AGENTD_FAULT=%s: there is no such fault", wanted);
                return -1;
        }
#endif
        return 0;
}

/* The process that started agentd may have closed the standard streams. Put /dev/null there, so
 * that no file of the bus takes their place and gets the lines for people. */
static int main_keep_streams(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        return -1;
        return 0;
}

/* What agentd makes it uses again, whatever umask it was started with. */
static void main_keep_own_bits(void)
{
        umask(umask(0) & 0077);
}

/* Whether /proc shows this process, and so those that attach: their deaths are told apart by what
 * it says. It may be missing, or have been mounted in another pid namespace. */
static bool main_sees_processes(void)
{
        char name[16], wanted[16];
        ssize_t len = readlink("/proc/self", name, sizeof(name) - 1);

        snprintf(wanted, sizeof(wanted), "%d", (int)getpid());
        if (len < 0 && access("/proc/version", F_OK) < 0) {
                sb_log("/proc is not mounted, and agentd looks there at the processes that attach: "
                       "`mount -t proc proc /proc` as root");
                return false;
        }
        name[len > 0 ? len : 0] = 0;
        if (!strcmp(name, wanted))
                return true;
        sb_log("/proc is that of another pid namespace (this process has number %s here and %s "
               "there), and agentd looks there at the processes that attach: `mount -t proc proc "
               "/proc` as root in this namespace",
                wanted, *name ? name : "none");
        return false;
}

/* Whether this system has what no engine works without: the next one would be tried again and
 * again, and a program that waits for the start with it. */
static bool main_can_serve(void)
{
        int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0), r;

        if (pidfd < 0) {
                sb_log("this system cannot watch processes (pidfd_open: %s): Linux 5.3 or later is "
                       "needed, and no filter of system calls that hides it",
                        strerror(errno));
                return false;
        }
        close(pidfd);
        r = sb_life_try();
        if (r) {
                sb_log("this system does not tell clients of agentd's end (set_robust_list: %s): a "
                       "filter of system calls hides it",
                        strerror(-r));
                return false;
        }
        r = sb_os_register();
        if (r)
                sb_log("this system has no membarrier of the kind that is needed (%s): Linux 4.16 "
                       "or later is needed, and no filter of system calls that hides it",
                        strerror(-r));
        return !r;
}

static void main_name_signals(sigset_t *ret)
{
        sigemptyset(ret);
        sigaddset(ret, SIGTERM);
        sigaddset(ret, SIGINT);
        sigaddset(ret, SIGHUP);
}

/* Make the signals that end the bus readable from a descriptor. Signals that would end it by
 * accident are ignored: a broken pipe and a file beyond the size limit (ulimit -f) become errors
 * with a message. Return: the descriptor, -1. */
static int main_take_signals(void)
{
        sigset_t set;

        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)signal(SIGCHLD, SIG_DFL);
        main_name_signals(&set);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -1;
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Make the segment, with what the log has. That may take long: a log is read, and perhaps waited
 * for first. Nothing reads the signals meanwhile, so they end this process as any other: to a log
 * that does no more harm than SIGKILL. Return: 0, -1. */
static int main_recover(struct sb_supervisor *supervisor)
{
        sigset_t ends, before;
        int r;

        main_name_signals(&ends);
        sigprocmask(SIG_UNBLOCK, &ends, &before);
        r = sb_wal_recover(supervisor->config, supervisor->directory.fd, &supervisor->memory);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

int main(int argc, char **argv)
{
        struct sb_config config;
        struct sb_supervisor supervisor = {.run_engine = sb_engine_run,
                .make_segment = sb_wal_recover,
                .scribe = {.out = -1, .pidfd = -1},
                .config = &config,
                .self_fd = -1,
                .engine_fd = -1,
                .channel = -1};
        char size_text[32];
        int status;

        if (main_keep_streams())
                return SB_EXIT_FAILURE;
        main_keep_own_bits();
        if (!sb_config_parse(argc, argv, &config, &status))
                return status;
        if (!main_sees_processes() || !main_can_serve() || main_choose_fault())
                return SB_EXIT_FAILURE;
        if (main_raise_limit(config.clients, &supervisor.kept_max))
                return SB_EXIT_FAILURE;
        /* Before the lock: a process's end closes what was opened last first, and a next agentd
         * shall not wait with the kernel for this one. */
        supervisor.maps_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        supervisor.signal_fd = main_take_signals();
        if (supervisor.signal_fd < 0) {
                sb_log("cannot wait for signals: %s", strerror(errno));
                return SB_EXIT_FAILURE;
        }
        if (sb_directory_take(&config.place, &supervisor.directory))
                return SB_EXIT_FAILURE;
        sb_directory_own(&supervisor.directory); /* before the slow part, so that a second agentd
                                                    finds the pid */
        sb_log("version %s starts with pid %d on %s, --size %s --clients %u", SB_VERSION,
                (int)getpid(), config.place.directory, sb_config_size_words(config.size, size_text),
                config.clients);
        if (main_recover(&supervisor)) {
                sb_directory_leave(&supervisor.directory);
                return SB_EXIT_FAILURE;
        }
        /* Once: a segment that is replaced later comes back with all that was written since. */
        config.recover_to = 0;
        if (!SB_FAULT(LINES_DIRECT) && sb_scribe_begin(&supervisor.scribe, &supervisor.memory)) {
                sb_directory_leave(&supervisor.directory);
                return SB_EXIT_FAILURE;
        }
        return sb_supervisor_run(&supervisor);
}
