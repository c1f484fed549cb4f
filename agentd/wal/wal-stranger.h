/*
 * Strangers: what has the name of a file of the log and is none of its files. A FIFO, a directory,
 * a link or a file of another bus comes there by a person or a program, and has nothing of this
 * log.
 *
 * When the log needs such a name it renames the stranger, and goes on: nothing of it is lost, and
 * no write waits for a person. Where that cannot be done (it is a mount point), it is trouble with
 * the disk, which names the stranger and ends when it is gone.
 */
#ifndef SB_WAL_STRANGER_H
#define SB_WAL_STRANGER_H

#include <stdint.h>

#include "agentd/wal/wal-io.h"
#include "ring/wal/wal-file.h"

#define SB_WAL_STRANGER_FILE     "a file with another header"
#define SB_WAL_STRANGER_NAME_MAX 64u /* bytes, with the zero */

/* Whom strangers are told. */
struct sb_wal_strangers {
        void *context;
        /* @now: its new name; NULL: it stays, and the call that met it fails. */
        void (*tell)(void *context, const char *name, const char *what, const char *now);
};

/* Renames what has the name of the file @number and is @what. Return: 0; -EEXIST: it cannot be
 * renamed; -errno. @strangers are told, unless it is NULL. */
int sb_wal_stranger_move(const struct sb_wal_strangers *strangers, const struct sb_wal_io *io,
        int directory_fd, uint64_t number, const char *what);
/* Before the file @number is made: the same for whatever has its name, unless that is a file of the
 * log with @id, which did not get its name for good. Return: 0: nothing has it, or such a file;
 * as above. */
int sb_wal_stranger_clear(const struct sb_wal_strangers *strangers, const struct sb_wal_io *io,
        int directory_fd, uint64_t number, const unsigned char *id);
/* One that is not renamed: it may be a damaged file of this log. */
void sb_wal_stranger_stays(
        const struct sb_wal_strangers *strangers, uint64_t number, const char *what);
/* What has the name of this spare could not be removed; it is told of if it is no file. */
void sb_wal_stranger_spare_stays(
        const struct sb_wal_strangers *strangers, int directory_fd, uint32_t spare);

#endif
