/*
 * The bus's directory; see directory.h.
 *
 * The socket listens before the segment is made. So a client that connects early waits in the
 * socket's queue until an engine answers, and a client that finds no socket knows that no agentd
 * holds the lock yet.
 */
#define _GNU_SOURCE
#include "agentd/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "agentd/log.h"

/* The processes of a killed agentd hold the lock until the kernel has taken them apart. */
#define LOCK_PATIENCE_MS 250
#define LOCK_TRIES       8

/* Whether the directory holds only files that belong to a bus. */
static bool directory_is_bus_alone(int fd)
{
        static const char *const ours[] = {".", "..", SB_PLACE_SOCKET, SB_PLACE_LOCK, SB_PLACE_LOG};
        bool alone = true;
        struct dirent *entry;
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;

        if (!stream) {
                if (copy >= 0)
                        close(copy);
                return false;
        }
        while (alone && (entry = readdir(stream))) {
                alone = false;
                for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
                        alone = alone || !strcmp(entry->d_name, ours[i]);
        }
        closedir(stream);
        return alone;
}

/* Another user that may write in the directory could put another socket there: refuse such a
 * directory. */
static int directory_judge(const char *name, int fd)
{
        struct stat status;

        if (fstat(fd, &status) < 0) {
                sb_log("%s: %s", name, strerror(errno));
                return -1;
        }
        if (status.st_uid != geteuid()) {
                sb_log("%s belongs to user %u: give a directory of your own, or chown it", name,
                        (unsigned)status.st_uid);
                return -1;
        }
        if ((status.st_mode & 07777) == 0711)
                return 0;
        /* A directory that holds only a bus is put in order; the mode of any other directory is
         * left as it is. */
        if (directory_is_bus_alone(fd)) {
                if (!fchmod(fd, 0711))
                        return 0;
                sb_log("%s: cannot set its mode to 0711: %s", name, strerror(errno));
                return -1;
        }
        if (status.st_mode & 022) {
                sb_log("%s can be written by others, and they could put another socket there: "
                       "chmod "
                       "0711 it, or give a directory "
                       "of its own",
                        name);
                return -1;
        }
        return 0;
}

static void directory_on_alarm(int signal)
{
        (void)signal;
}

/* Take the lock. Wait a moment for processes that were killed just now. Return: 0, -EWOULDBLOCK,
 * -errno. */
static int directory_lock(int fd)
{
        struct itimerval patience = {
                .it_value.tv_usec = LOCK_PATIENCE_MS * 1000,
                /* Repeated, in case the first signal comes before the wait. */
                .it_interval.tv_usec = LOCK_PATIENCE_MS * 1000,
        };
        struct sigaction action = {.sa_handler = directory_on_alarm}, old;
        sigset_t mask, waiting;
        int r = 0;

        if (!flock(fd, LOCK_EX | LOCK_NB))
                return 0;
        if (errno != EWOULDBLOCK)
                return -errno;
        sigaction(SIGALRM, &action, &old);
        sigprocmask(SIG_SETMASK, NULL, &mask);
        waiting = mask;
        sigdelset(&waiting, SIGALRM);
        sigprocmask(SIG_SETMASK, &waiting, NULL);
        setitimer(ITIMER_REAL, &patience, NULL);
        if (flock(fd, LOCK_EX) < 0)
                r = errno == EINTR ? -EWOULDBLOCK : -errno;
        patience = (struct itimerval){0};
        setitimer(ITIMER_REAL, &patience, NULL);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        sigaction(SIGALRM, &old, NULL);
        return r;
}

static void directory_say_taken(const struct sb_place *place)
{
        char word[SB_PLACE_WORD_MAX];
        pid_t pid;

        if (!sb_place_supervisor(place, &pid))
                sb_log("agentd with pid %d serves %s already: `agentctl -b %s stop` ends it",
                        (int)pid, place->directory, sb_place_word(place->directory, word));
        else if (!sb_place_homeless(place, &pid))
                sb_log("agentd with pid %d holds %s: its own directory was removed, and its log "
                       "goes on in this one, but no client can attach. `agentctl -b %s stop` ends "
                       "it when all is saved there; then start it again",
                        (int)pid, place->directory, sb_place_word(place->directory, word));
        else
                sb_log("another agentd is just starting on %s", place->directory);
}

/* The same for all processes of an agentd that was killed, however long the kernel takes for their
 * memory. One that lives keeps the lock. Return: as above. */
static int directory_outwait(const struct sb_place *place, int fd)
{
        int r = -EWOULDBLOCK;
        pid_t pid;

        /* Bound: result. Behind a lock without a supervisor an engine ends, or another agentd
         * begins.
         */
        for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
                do
                        r = directory_lock(fd);
                while (r == -EWOULDBLOCK && !sb_place_supervisor(place, &pid) &&
                        sb_place_ending(pid));
                if (r != -EWOULDBLOCK || !sb_place_supervisor(place, &pid))
                        break;
        }
        return r;
}

static int directory_take_lock(const struct sb_place *place, int directory_fd, int *ret)
{
        int fd, r;

        fd = openat(directory_fd, SB_PLACE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
                sb_log("%s/" SB_PLACE_LOCK ": %s", place->directory, strerror(errno));
                return -1;
        }
        r = directory_outwait(place, fd);
        if (r) {
                if (r == -EWOULDBLOCK)
                        directory_say_taken(place);
                else
                        sb_log("%s/" SB_PLACE_LOCK ": cannot lock it: %s", place->directory,
                                strerror(-r));
                close(fd);
                return -1;
        }
        (void)!ftruncate(fd, 0); /* what another agentd has said there */
        *ret = fd;
        return 0;
}

/* Whether a process listens at the socket that is there, although the lock is this process's: the
 * file of the lock was removed from under it. One that ends just now closes the lock first, and
 * then hangs up. */
static bool directory_is_served(const struct sockaddr_un *address, pid_t *ret_pid)
{
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd hung_up = {.fd = fd};
        struct ucred listener = {0};
        socklen_t len = sizeof(listener);
        bool served = false;

        if (fd >= 0 && !connect(fd, (const struct sockaddr *)address, sizeof(*address)))
                served = poll(&hung_up, 1, LOCK_PATIENCE_MS * LOCK_TRIES) == 0 &&
                         !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &len);
        if (fd >= 0)
                close(fd);
        *ret_pid = listener.pid;
        return served;
}

/* Make the socket and listen on it. The caller holds the lock. */
static int directory_make_socket(const struct sb_place *place, int directory_fd, int *ret)
{
        struct sockaddr_un address;
        int fd = -1, through, r;
        mode_t mask;
        pid_t pid;

        r = sb_place_address(place, SB_PLACE_SOCKET, &address, &through);
        if (r)
                return r;
        if (directory_is_served(&address, &pid)) {
                if (pid > 0)
                        sb_log("agentd with pid %d serves %s, and its lock file was removed: "
                               "`kill %d` ends it; then start again",
                                (int)pid, place->directory, (int)pid);
                else
                        sb_log("an agentd of another pid namespace serves %s, and its lock file "
                               "was removed: end it there, then start again",
                                place->directory);
                r = -EADDRINUSE;
        } else if (unlinkat(directory_fd, SB_PLACE_SOCKET, 0) < 0 && errno != ENOENT) {
                /* One that is there and not served was left by an agentd that was killed. */
                r = -errno;
        } else {
                fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                r = fd < 0 ? -errno : 0;
        }
        if (!r) {
                /* Any process may connect: the engine decides by its credentials. */
                mask = umask(0111);
                if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
                        listen(fd, SOMAXCONN) < 0)
                        r = -errno;
                umask(mask);
        }
        if (through >= 0)
                close(through);
        if (r && fd >= 0)
                close(fd);
        if (!r)
                *ret = fd;
        return r;
}

int sb_directory_take(const struct sb_place *place, struct sb_directory *ret)
{
        struct sb_directory directory = {-1, -1, -1};
        int r;

        r = sb_place_make(place);
        if (r) {
                sb_log("%s: cannot make this directory: %s", place->directory, strerror(-r));
                return -1;
        }
        directory.fd = open(place->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory.fd < 0) {
                sb_log("%s: %s", place->directory, strerror(errno));
                return -1;
        }
        if (directory_judge(place->directory, directory.fd) ||
                directory_take_lock(place, directory.fd, &directory.lock_fd))
                goto failed;
        r = directory_make_socket(place, directory.fd, &directory.listen_fd);
        if (r) {
                if (r != -EADDRINUSE) /* of which more was said */
                        sb_log("%s/" SB_PLACE_SOCKET ": cannot listen there: %s", place->directory,
                                strerror(-r));
                goto failed;
        }
        *ret = directory;
        return 0;
failed:
        if (directory.lock_fd >= 0)
                close(directory.lock_fd);
        close(directory.fd);
        return -1;
}

void sb_directory_own(const struct sb_directory *directory)
{
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        char text[16];
        int len = snprintf(text, sizeof(text), "%d\n", (int)getpid());

        /* A POSIX lock shows which process is the supervisor. Where a file system refuses the lock,
         * the text shows it. */
        (void)fcntl(directory->lock_fd, F_SETLK, &whole);
        if (ftruncate(directory->lock_fd, 0) < 0 ||
                pwrite(directory->lock_fd, text, (size_t)len, 0) != len)
                sb_log("the lock file cannot be written: %s", strerror(errno));
        /* The kernel names the process that called this last as the other end of new connections.
         */
        (void)listen(directory->listen_fd, SOMAXCONN);
}

void sb_directory_leave(const struct sb_directory *directory)
{
        (void)unlinkat(directory->fd, SB_PLACE_SOCKET, 0);
        (void)!ftruncate(directory->lock_fd, 0);
}
