/*
 * The scribe; see scribe.h.
 *
 * Its own descriptors have fixed numbers. It keeps 3, too: a program that starts agentd in the
 * background has a pipe there that tells it that agentd has ended, and then reads the last line.
 */
#define _GNU_SOURCE
#include "agentd/scribe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/log.h"
#include "shm/base/os.h"
#include "shm/base/word.h"

#define RETRY_NS  UINT64_C(1000000000)
#define PIPE_SIZE 65536u /* what a pipe has at most, as agentd makes it */

/* The scribe's descriptors. */
enum { IN = 0, ENDED = 1, OUT = 2, LIFE = 3, OWN };

static struct sb_word32 *scribe_lost; /* lines, shared by all processes of this agentd */

/* ---- copying ---- */

static struct {
        int in, out, ended;
        uint32_t lost; /* lines that @out did not take */
        bool torn;     /* what @out has ends within a line */
        bool orphaned; /* agentd has ended, and this process stays for what @out takes later */
        size_t at, len;
        char text[2 * PIPE_SIZE];
} scribe_copy;

/* Read what is in the pipe. Return: whether that was something. */
static bool scribe_read(void)
{
        /* A line is lost behind those that are in the pipe then, so it is missing behind what is
         * read now, which is all that a pipe can have. */
        uint32_t lost = sb_exchange_full(scribe_lost, 0); /* A:lost. */
        ssize_t len = read(scribe_copy.in, scribe_copy.text + scribe_copy.len, PIPE_SIZE);

        scribe_copy.lost += lost;
        scribe_copy.len += len > 0 ? (size_t)len : 0;
        return len > 0;
}

/* A terminal is stopped, or the reader of a pipe reads no more, and agentd has ended. Its exit does
 * not wait: a child of the scribe takes what is left, and ends with it, or with the reader. */
static void scribe_stay(void)
{
        (void)scribe_read();
        if (fork())
                _exit(EXIT_SUCCESS);
        close(scribe_copy.in); /* and with it the lock of another one's turn */
        scribe_copy.ended = -1;
        scribe_copy.orphaned = true;
}

static void scribe_wait(void)
{
        struct pollfd fds[2] = {
                {.fd = scribe_copy.out, .events = POLLOUT}, {.fd = scribe_copy.ended, .events = 0}};

        while (!fds[0].revents) {
                if (poll(fds, 2, -1) > 0 && !fds[0].revents) {
                        scribe_stay();
                        fds[1].fd = -1;
                }
        }
}

/* Write up to PIPE_BUF bytes: a pipe takes them whole. Return: whether all of them were taken. */
static bool scribe_write_piece(const char *text, size_t len)
{
        size_t done = 0;
        ssize_t n = 1;

        scribe_wait();
        if (scribe_copy.torn && write(scribe_copy.out, "\n", 1) != 1)
                return false;
        for (scribe_copy.torn = false; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
                n = write(scribe_copy.out, text + done, len - done);
        scribe_copy.torn = done && text[done - 1] != '\n';
        return done == len;
}

/* Write what was read. A full disk takes none of it, or a part. */
static void scribe_write(void)
{
        while (scribe_copy.at < scribe_copy.len) {
                const char *text = scribe_copy.text + scribe_copy.at, *end;
                size_t piece = scribe_copy.len - scribe_copy.at;

                piece = piece < PIPE_BUF ? piece : PIPE_BUF;
                end = memrchr(text, '\n', piece);
                piece = end ? (size_t)(end - text) + 1 : piece;
                if (!scribe_write_piece(text, piece))
                        for (size_t i = 0; i < piece; i++)
                                scribe_copy.lost += text[i] == '\n';
                scribe_copy.at += piece;
        }
        scribe_copy.at = scribe_copy.len = 0;
}

static void scribe_say_lost(void)
{
        char line[SB_LOG_LINE_MAX];
        size_t len = sb_log_make(line,
                "%u line%s lost here: the disk, or what reads these lines, did not take %s",
                scribe_copy.lost, scribe_copy.lost == 1 ? " was" : "s were",
                scribe_copy.lost == 1 ? "it" : "them");

        if (scribe_write_piece(line, len))
                scribe_copy.lost = 0;
}

/* Copy lines until agentd has ended and the pipe is empty. */
static void scribe_run(int in, int out, int ended)
{
        struct pollfd fds[2] = {{.fd = in, .events = POLLIN}, {.fd = ended, .events = 0}};
        bool any;

        scribe_copy.in = in;
        scribe_copy.out = out;
        scribe_copy.ended = ended;
        do {
                while (poll(fds, 2, -1) < 0)
                        ;
                any = scribe_read();
                scribe_write();
                if (scribe_copy.lost)
                        scribe_say_lost();
        } while ((any || !fds[1].revents) && !scribe_copy.orphaned);
}

/* ---- the process ---- */

/* In a fresh child. */
static _Noreturn void scribe_be(const struct sb_scribe *scribe, const struct sb_memory *memory)
{
        sigset_t all;
        int in;

        prctl(PR_SET_NAME, "agentd-scribe");
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL); /* those that end agentd, or stop what writes on a
                                                 terminal */
        if (dup2(scribe->in, IN) < 0 || dup2(scribe->ended, ENDED) < 0 ||
                dup2(scribe->out, OUT) < 0)
                _exit(EXIT_FAILURE);
        if (fcntl(LIFE, F_GETFD) & FD_CLOEXEC)
                close(LIFE);    /* agentd's own */
        close(scribe->serving); /* this process shall see it hung up, also on Linux before 5.9 */
        (void)syscall(SYS_close_range, OWN, ~0u, 0);
        if (memory->super)
                munmap(memory->super, memory->page_size);
        /* An engine that became the supervisor knows the scribe that there was when it was forked.
         * If there is a later one, it has started a second one: that waits here for its turn. A
         * lock of this process alone needs a description of its own. */
        in = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        in = in < 0 ? IN : in;
        (void)flock(in, LOCK_EX);
        scribe_run(in, OUT, ENDED);
        _exit(EXIT_SUCCESS);
}

static int scribe_start(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        pid_t child = fork();

        if (child == 0)
                scribe_be(scribe, memory);
        if (child < 0)
                return -errno;
        scribe->pidfd = (int)syscall(SYS_pidfd_open, child, 0);
        return scribe->pidfd < 0 ? -errno : 0;
}

/* Give a descriptor a number that is none of the scribe's. Return: that, -1. */
static int scribe_move(int fd)
{
        int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, OWN);

        if (fd >= 0)
                close(fd);
        return moved;
}

static int scribe_prepare(struct sb_scribe *scribe, int *ret_write)
{
        int lines[2] = {-1, -1}, life[2] = {-1, -1};
        void *page;

        if (pipe2(lines, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(life, O_CLOEXEC) < 0)
                return -errno;
        scribe->in = scribe_move(lines[0]);
        scribe->ended = scribe_move(life[0]);
        scribe->serving = scribe_move(life[1]);
        scribe->out = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, OWN);
        *ret_write = scribe_move(lines[1]);
        if (scribe->in < 0 || scribe->ended < 0 || scribe->serving < 0 || scribe->out < 0 ||
                *ret_write < 0)
                return -errno;
        page = mmap(NULL, sizeof(*scribe_lost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
        if (page == MAP_FAILED)
                return -errno;
        scribe_lost = page;
        return 0;
}

int sb_scribe_begin(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        struct stat status;
        int lines = -1, r;
        bool is_file;

        *scribe = (struct sb_scribe){-1, -1, -1, -1, -1, 0};
        is_file = !fstat(STDERR_FILENO, &status) && S_ISREG(status.st_mode);
        r = scribe_prepare(scribe, &lines);
        if (!r)
                r = scribe_start(scribe, memory);
        if (!r && dup2(lines, STDERR_FILENO) < 0)
                r = -errno;
        if (r) {
                sb_log("the process that writes these lines cannot be started: %s", strerror(-r));
                return -1; /* agentd ends, and its descriptors with it */
        }
        close(lines);
        sb_log_into_pipe(is_file, scribe_lost);
        scribe->retry_ns = sb_os_linux.now_ns(sb_os_linux.context) + RETRY_NS;
        return 0;
}

uint64_t sb_scribe_renew(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        struct pollfd gone = {.fd = scribe->pidfd, .events = POLLIN};
        uint64_t now = sb_os_linux.now_ns(sb_os_linux.context);
        siginfo_t unused;

        if (scribe->out < 0 || (scribe->pidfd >= 0 && poll(&gone, 1, 0) == 0))
                return UINT64_MAX;
        if (scribe->pidfd >= 0) {
                /* Where this process was the engine, it is no child. */
                (void)waitid(P_PIDFD, (id_t)scribe->pidfd, &unused, WEXITED | WNOHANG);
                close(scribe->pidfd);
                scribe->pidfd = -1;
        }
        if (now < scribe->retry_ns)
                return scribe->retry_ns;
        scribe->retry_ns = now + RETRY_NS;
        if (scribe_start(scribe, memory))
                return scribe->retry_ns;
        sb_log("another process writes these lines now: the one before was killed");
        return UINT64_MAX;
}

static void scribe_await(struct sb_scribe *scribe)
{
        struct pollfd gone = {.fd = scribe->pidfd, .events = POLLIN};

        while (scribe->pidfd >= 0 && poll(&gone, 1, -1) < 0)
                ;
        if (scribe->pidfd >= 0)
                close(scribe->pidfd);
        scribe->pidfd = -1;
}

void sb_scribe_end(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        struct pollfd left = {.fd = scribe->in, .events = POLLIN};

        if (scribe->out < 0)
                return;
        close(scribe->serving);
        if (scribe->pidfd >= 0) /* one that is stopped would be waited for */
                (void)syscall(SYS_pidfd_send_signal, scribe->pidfd, SIGCONT, NULL, 0);
        scribe_await(scribe);
        /* One that was killed has left something: another one writes it. */
        if (poll(&left, 1, 0) == 1 && left.revents & POLLIN && !scribe_start(scribe, memory))
                scribe_await(scribe);
}
