/*
 * The lock of a log's files: one process at a time writes them, or reads them to bring a bus back.
 *
 * A process that was killed ends only behind what it had the kernel do last: a write, a rename, a
 * sync. It holds the lock until then, so what the next one reads is what stays.
 */
#ifndef SB_WAL_LOCK_H
#define SB_WAL_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/* What is said of a log that has lost its directory. */
#define SB_WAL_LOCK_HOMELESS                                                                       \
        "its directory was removed, and nothing of the bus is on the disk: make the directory "    \
        "again, and all of it is written there"

/* Lock the log in the directory of that name, and wait for that; a wait is logged. Return: a
 * descriptor that holds the lock until it is closed in all processes; -errno, which was logged. */
int sb_wal_lock(const char *directory, int directory_fd);

/* Whether the directory that is open was removed. One that was renamed was not. */
bool sb_wal_lock_is_homeless(int directory_fd);
/* Where one of that name is there again: have @directory_fd be that one, and hold its locks as long
 * as this process lives, so that no other agentd serves a bus there, and no log is written. The
 * lock names @supervisor, for sb_place_homeless(); *ret_fd is that lock's, for as long. Return: 0;
 * -ENOENT: there is none; -EBUSY: another agentd has it; -errno. */
int sb_wal_lock_again(const char *directory, int directory_fd, pid_t supervisor, int *ret_fd);
/* All is durable there, and this process ends: the lock says nothing any more. */
void sb_wal_lock_say_well(int lock_fd);

#endif
