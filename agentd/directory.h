/*
 * The bus's directory: made, locked, and with the socket in it. place.h says what lies there.
 *
 * Always true: only who holds the lock touches the socket's name. The lock's open file description
 * belongs to supervisor and engine together, so it is free exactly when both are dead.
 */
#ifndef SB_DIRECTORY_H
#define SB_DIRECTORY_H

#include "ring/attach/place.h"

struct sb_directory {
        int fd;      /* the directory */
        int lock_fd; /* BUS/lock, flock()ed */
        int listen_fd;
};

/* Make the directory and take it for this agentd; listen. Return: 0; -1: it could not be, and why
 * was said. */
int sb_directory_take(const struct sb_place *place, struct sb_directory *ret);
/* This process is the supervisor from now on: say so in the lock file. */
void sb_directory_own(const struct sb_directory *directory);
/* Nobody serves the bus any more: the socket goes. */
void sb_directory_leave(const struct sb_directory *directory);

#endif
