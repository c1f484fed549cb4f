/*
 * The bus's directory: agentd makes it, locks it, and puts the socket into it. ring/attach/place.h
 * lists the files in it.
 *
 * Always true: only the process that holds the lock touches the socket's name. The lock belongs to
 * an open file description that the supervisor and the engine share, so the lock is free exactly
 * when both are dead.
 */
#ifndef SB_DIRECTORY_H
#define SB_DIRECTORY_H

#include "ring/attach/place.h"

struct sb_directory {
        int fd;      /* the directory */
        int lock_fd; /* BUS/lock, flock()ed */
        int listen_fd;
};

/* Make the directory, lock it for this agentd, and listen on its socket. Return: 0; -1: the reason
 * was logged. */
int sb_directory_take(const struct sb_place *place, struct sb_directory *ret);
/* This process is the supervisor from now on: write that into the lock file. */
void sb_directory_own(const struct sb_directory *directory);
/* The bus is not served any more: remove the socket. */
void sb_directory_leave(const struct sb_directory *directory);

#endif
