/*
 * Keeping a log aside, of which agentd takes only what it has up to a cut.
 *
 * Each of its files gets a second name, in a directory of the bus's own: `aside-` and the cut. No
 * byte is copied, and so none can be missing. The writer goes on in a new file, and lets a file
 * with a second name go without using it again (wal-files.h). So what is in that directory is the
 * log as it was, which `agentctl log`, verify and restore-from read.
 *
 * Always true: when it returns 0, all names are on the disk. Killed before, it has taken nothing
 * away; the next start makes another directory.
 */
#ifndef SB_WAL_ASIDE_H
#define SB_WAL_ASIDE_H

#include <stdint.h>

#define SB_WAL_ASIDE_NAME_MAX 48u /* bytes, with the zero */

/* Keep the log in @directory_fd. Return: 0: in the directory of that name; -errno: the file system
 * has no second names, or no room. */
int sb_wal_aside(int directory_fd, uint64_t cut, char ret_name[SB_WAL_ASIDE_NAME_MAX]);

#endif
