/*
 * Keeping a log aside, of which agentd takes only what it has up to a cut, or behind damage.
 *
 * Each of its files gets a second name, in a directory of the bus's own: `aside-` and the cut. No
 * byte is copied, and so none can be missing. The writer goes on in a new file, and lets a file
 * with a second name go without using it again (wal-files.h). So what is in that directory is the
 * log as it was, which `agentctl log`, verify and restore-from read.
 *
 * Behind that, the files that begin later than what agentd takes lose their own names, the last one
 * first: the log goes on before them, and no file may say that other batches came before it. The
 * files up to damage in front go, too, the first one first.
 *
 * Then a file without a batch is made: its header says which batch comes next, and so what stands
 * behind the cut in the file before it counts no more, whether or not a batch ever comes.
 *
 * Always true: when sb_wal_aside() returns 0, all names are on the disk. Killed before, it has
 * taken nothing away; the next start makes another directory. Between the first name that goes and
 * the header the log ends somewhere behind the cut. As long as it may, there is a mark, a symbolic
 * link that has the cut as its text: a start that finds it goes on. The mark is on the disk before
 * the first name goes; one mark takes the place of another in one step; and it goes when all that
 * it stands for is on the disk, whichever start did that.
 */
#ifndef SB_WAL_ASIDE_H
#define SB_WAL_ASIDE_H

#include <stdint.h>

#include "ring/wal/wal-reader.h"

#define SB_WAL_ASIDE_NAME_MAX 48u /* bytes, with the zero */

/* Keep the log in @directory_fd. Return: 0: in the directory of that name; -errno: the file system
 * has no second names, or no room. */
int sb_wal_aside(int directory_fd, uint64_t cut, char ret_name[SB_WAL_ASIDE_NAME_MAX]);

/* Behind that: take the files out of the log that have nothing of the batches up to @last (none, if
 * that is UINT64_MAX), then those before the one of number @first. @cut, unless it is 0: the log
 * goes back to it for good, and has a mark from here on to sb_wal_aside_unmark(). Return: 0: for
 * good; -errno. */
int sb_wal_aside_take(int directory_fd, uint64_t cut, uint64_t last, uint64_t first);
int sb_wal_aside_unmark(int directory_fd);
/* Return: to which cut the log is to go back, where the operator says @recover_to: that, or the one
 * of a mark, with a line. 0: to none. */
uint64_t sb_wal_aside_wanted(int directory_fd, uint64_t recover_to);
/* Make the file that ends the log @end at this batch, with its cut. Return: 0: for good; -errno. */
int sb_wal_aside_end(
        int directory_fd, const struct sb_wal_end *end, uint64_t sequence, uint64_t cut);

#endif
