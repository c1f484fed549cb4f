/*
 * The lock of a log's files: one process at a time writes them, or reads them to bring a bus back.
 *
 * A process that was killed ends only behind what it had the kernel do last: a write, a rename, a
 * sync. It holds the lock until then, so what the next one reads is what stays.
 */
#ifndef SB_WAL_LOCK_H
#define SB_WAL_LOCK_H

/* Lock the log in the directory of that name, and wait for that; a wait is logged. Return: a
 * descriptor that holds the lock until it is closed in all processes; -1: the reason was logged. */
int sb_wal_lock(const char *directory, int directory_fd);

#endif
