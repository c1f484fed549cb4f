/*
 * The place of a bus: its directory, and the files in it that clients and the daemon both know.
 *
 *      BUS/            0711    agentd makes it
 *      BUS/socket      0666    clients attach here
 *      BUS/lock        0600    says which process serves the bus
 *      BUS/agentd.log  0600    what an agentd prints that was started in the background
 *      BUS/log.lock    0600    held by the process that writes the log of a durable bus
 *      BUS/backup.lock 0600    held by processes that copy that log, shared: meanwhile none of its
 *                              files goes
 *
 * Supervisor and engine share an open file description that flock()s the lock, so the lock is held
 * as long as either of them lives. A POSIX lock on the file says which process is the supervisor;
 * the file's text is that process's pid, for people.
 *
 * Always true: no function allocates or prints; in a set-user-id program none believes the
 * environment.
 */
#ifndef SB_PLACE_H
#define SB_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#define SB_PLACE_MAX      3840u /* bytes of a directory's name, so that files in it fit PATH_MAX */
#define SB_PLACE_WORD_MAX (2 * SB_PLACE_MAX)
#define SB_PLACE_SOCKET   "socket"
#define SB_PLACE_LOCK     "lock"
#define SB_PLACE_LOG      "agentd.log"
#define SB_PLACE_WRITER   "log.lock"
#define SB_PLACE_BACKUP   "backup.lock"

/* What agentd logs last of a stop behind which something is missing; agentctl looks for it. */
#define SB_PLACE_LOST "what was written last is not durable, and is lost"

struct sb_place {
        char directory[SB_PLACE_MAX];
};

/**
 * sb_place_resolve() - finds the directory of a bus
 * @bus:        a name, or a directory when it contains '/'; NULL: $STATEBUS, then "default"
 *
 * Return: 0; -EINVAL (an empty name, "." or ".."); -ENAMETOOLONG; -ENOENT (@bus is a name, and
 * neither $XDG_STATE_HOME nor $HOME says where).
 */
int sb_place_resolve(const char *bus, struct sb_place *ret);

/**
 * sb_place_address() - makes a socket address for a file in the bus's directory, however long
 * the directory's name is
 * @ret_fd:     -1, or a descriptor that the address goes through: the caller closes it after bind()
 *              or connect()
 *
 * Return: 0; -errno (only where the name is too long for an address, and the directory could not
 * be opened).
 */
int sb_place_address(
        const struct sb_place *place, const char *file, struct sockaddr_un *ret, int *ret_fd);

/* A bus or a path as a word of a command that a message names, so that a shell takes it as it is:
 * in quotes, where it has blanks or the like; as $'...' where it is not all ASCII, for messages
 * are.
 * Return: @ret, or @path, if it needs no quotes, or does not fit. */
const char *sb_place_word(const char *path, char ret[SB_PLACE_WORD_MAX]);

/* Says which process is the bus's supervisor. Return: 0; -ESRCH: there is none, or it is just
 * starting; -errno. */
int sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid);

/* Says whether a process of an agentd has the lock: behind the death of a supervisor its engine has
 * it, before that is the supervisor, and one that begins has it, too. */
bool sb_place_held(const struct sb_place *place);

/* Where a bus's directory was removed and made again, its agentd writes this into the lock of the
 * new one, behind its supervisor's pid: its log goes on there, but no client finds it. A POSIX lock
 * on this byte says which process the log is; one that has ended with all durable leaves no text.
 */
#define SB_PLACE_HOMELESS      "homeless"
#define SB_PLACE_HOMELESS_BYTE 1

/* Says which process is the supervisor of such an agentd, if one holds the directory. Return: 0;
 * -ESRCH: none does; -errno. */
int sb_place_homeless(const struct sb_place *place, pid_t *ret_pid);
/* The same, for a caller that ends it: *ret_fd is a pidfd of that process, whatever has its pid
 * meanwhile, and the caller closes it. Return: 0; -ESRCH: none holds the directory, or it cannot be
 * told which; -errno. */
int sb_place_homeless_open(const struct sb_place *place, pid_t *ret_pid, int *ret_fd);
/* Says whether the last one that held the directory has ended without all being durable there. */
bool sb_place_homeless_lost(const struct sb_place *place);

/* Says whether a process was killed, or ends, and waits for the kernel to take its memory back: for
 * a large bus that takes hundreds of milliseconds, and it holds its locks until then. False where
 * there is no /proc. */
bool sb_place_ending(pid_t pid);
/* Says whether a process is there, and the kernel has not begun to end it. False where there is no
 * /proc. */
bool sb_place_lives(pid_t pid);

/* Makes the directory and those above it, before a daemon is started. Return: 0, also if the
 * directory was there; -errno. */
int sb_place_make(const struct sb_place *place);

/* Has the names on the disk that lead to an open directory, up to the one where its file system is
 * mounted, or to one that this process may not read: so what is durable in it is found after a
 * power
 * failure, however new the directory is. Return: 0, -errno. */
int sb_place_sync(int directory_fd);

#endif
