/*
 * Where a bus lives: its directory, and the files in it that clients and the daemon both know.
 *
 *      BUS/            0711    agentd makes it
 *      BUS/socket      0666    where clients attach
 *      BUS/lock        0600    who serves it
 *      BUS/agentd.log  0600    what an agentd started in the background says
 *
 * The lock is flock()ed by an open file description that keeper and engine share, so it is held as
 * long as either lives. A POSIX lock on it says which process is the keeper; its text is that pid,
 * for people.
 *
 * Always true: no allocation, no printing; the environment is not believed in a set-user-id
 * program.
 */
#ifndef SB_PLACE_H
#define SB_PLACE_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#define SB_PLACE_MAX    3840u /* bytes of a directory's name, so that files in it fit PATH_MAX */
#define SB_PLACE_SOCKET "socket"
#define SB_PLACE_LOCK   "lock"
#define SB_PLACE_LOG    "agentd.log"

struct sb_place {
        char directory[SB_PLACE_MAX];
};

/**
 * sb_place_resolve() - the directory of a bus
 * @bus:        a name, or a directory when it contains '/'; NULL: $STATEBUS, then "default"
 *
 * Return: 0; -EINVAL (an empty name, "." or ".."); -ENAMETOOLONG; -ENOENT (a name, and neither
 * $XDG_STATE_HOME nor $HOME says where).
 */
int sb_place_resolve(const char *bus, struct sb_place *ret);

/**
 * sb_place_address() - a socket address for a file in the bus's directory, however long the
 * directory's name is
 * @ret_fd:     -1, or a descriptor that the address goes through: close it after bind() or
 * connect()
 *
 * Return: 0, -errno (only for names too long for an address: the directory could not be opened).
 */
int sb_place_address(
        const struct sb_place *place, const char *file, struct sockaddr_un *ret, int *ret_fd);

/* Which process is the bus's keeper. Return: 0; -ESRCH: none, or one that starts just
 * now; -errno. */
int sb_place_keeper(const struct sb_place *place, pid_t *ret_pid);

/* Make the directory and those above it, for whoever starts the daemon. Return: 0 (also when it was
 * there), -errno. */
int sb_place_make(const struct sb_place *place);

#endif
