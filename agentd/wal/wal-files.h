/*
 * The log's files as their writer has them: which ones there are, and where the next one comes
 * from. ring/wal/wal-file.h says what is in a file.
 *
 * A file that becomes part of the log goes this way, and each step is on the disk before the next:
 *
 *      a spare:  made, zeros written to its whole size       sync
 *                (or: a file of the log, renamed             sync of the directory)
 *      header with a new salt                                sync
 *      renamed to the next number                            sync of the directory
 *      its first frame
 *
 * So a file that has a number has its whole size and its header, whatever a power failure takes
 * away, and a header never changes under a number. Zeros are written so that no frame changes
 * anything but bytes: an fdatasync has no size and no blocks of the file to write.
 *
 * Files leave at the log's beginning, one after the other, with a sync of the directory behind
 * each: so no power failure takes one out of the middle, unless such a sync has failed.
 *
 * Always true: the numbers of the files that are there have no gap, as long as no power fails.
 * Where a file was not named for good, its number is given again, and the new file replaces it.
 * Nothing else is replaced: what has a name of the log's and is none of its files, because a person
 * or a program has put it there, is renamed when that name is needed, and told of (wal-stranger.h).
 */
#ifndef SB_WAL_FILES_H
#define SB_WAL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agentd/wal/wal-io.h"
#include "agentd/wal/wal-stranger.h"
#include "ring/wal/wal-file.h"

#define SB_WAL_SPARES_MAX 8u

struct sb_wal_files_entry {
        uint64_t number, reaches_cut, size;
        uint64_t inode; /* of one that was made here; else 0 */
        bool failed;    /* a write or a sync of it: it is not used again */
        bool leaving;   /* a call that was to let it go has failed: it may be gone */
        bool linked;    /* it has another name, too, under which it is to stay as it is */
};

struct sb_wal_files {
        const struct sb_wal_io *io;
        unsigned char id[16];
        uint64_t hash_seed, file_size;
        struct sb_wal_files_entry *list; /* in order; the last one is written, or was last */
        size_t count, room;
        uint64_t first_sequence; /* of the last one; 0: there is none */
        uint32_t spares[SB_WAL_SPARES_MAX];
        uint32_t spare_count, spares_wanted;
        uint32_t next_spare;
        int directory_fd;
        int64_t named_ns; /* the directory's last change, behind which all names were there */
        struct sb_wal_strangers *strangers; /* or NULL: they are not told of */
};

/* Lists what is in the directory, which stays open. The caller has set all members up to file_size,
 * spares_wanted
 * and strangers. What is no file gets another name.
 * Return: 0; -EBADMSG: a file of the log has no good header, or is of another bus; -errno. */
int sb_wal_files_open(struct sb_wal_files *files, int directory_fd);
void sb_wal_files_close(struct sb_wal_files *files);
/* Makes sure that the last file's bytes are on the disk, not only in memory, where a writer that
 * was killed may have left them; of a log without a file, the names that lead to its directory.
 * Return: 0, -errno. */
int sb_wal_files_settle(struct sb_wal_files *files);
/* Whether the disk may have room for @count files, spares among them. */
bool sb_wal_files_have_room(const struct sb_wal_files *files, uint32_t count);
/* The size of the next file: file_size, unless it @may_be_smaller, others are there, and the disk
 * has room for a smaller one alone. */
uint64_t sb_wal_files_next_size(const struct sb_wal_files *files, bool may_be_smaller);
/* Makes the next file of the log, out of a spare if there is one. @file says what its header says;
 * its id, hash_seed, salt and number are set here. Return: 0: *ret_file is open and can be
 * written behind its header; -errno: the log is as it was. */
int sb_wal_files_take(struct sb_wal_files *files, struct sb_wal_file *file, int *ret_file);
/* The inode that has the name of the file @number, and its bytes. Return: 0, -errno. */
int sb_wal_files_inode(
        const struct sb_wal_files *files, uint64_t number, uint64_t *ret, uint64_t *ret_size);
/* A write or a sync of the last file has failed. */
void sb_wal_files_abandon(struct sb_wal_files *files);
/* Makes one spare, if there are fewer than wanted. Return: 0, -errno. */
int sb_wal_files_prepare(struct sb_wal_files *files);
/* Lets go of the files with no batch above @cut, but for the last one: they become spares, or go.
 * Return: 0; -errno: the next call goes on. A file that left without a sync of the directory may
 * be back after a power failure, and the one behind it not: recovery passes over that gap
 * (ring/wal/wal-behind.h), because what is let go is in front of a copy of the whole bus. */
int sb_wal_files_release(struct sb_wal_files *files, uint64_t cut);

#endif
