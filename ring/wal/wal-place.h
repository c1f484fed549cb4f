/*
 * What stands at one place of a file of the log: a whole frame, one that is not whole, or none of
 * this use of the file.
 *
 * Always true: files are input. The header of a frame that is not whole is believed by no caller
 * but as a sign that a frame was written there; frame.batch.sequence says of which batch, because
 * the header lies in one sector, with the salt of this use of the file and its own place in it.
 */
#ifndef SB_WAL_PLACE_H
#define SB_WAL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"

struct sb_wal_place {
        struct sb_wal_frame frame; /* where it is headed */
        bool begins;               /* a frame has begun there in this use of the file */
        bool headed;               /* and its header says what a header there can say */
        bool whole;                /* and header and payload are as they were sealed */
};

/* Reads what stands at @offset; of a frame that may be whole, all of it: @bytes has
 * SB_WAL_FRAME_MAX
 * bytes. Return: 0, -errno. Cost: a block, or a frame and its checksum. */
int sb_wal_place_read(int fd, const struct sb_wal_file *file, uint64_t offset, unsigned char *bytes,
        struct sb_wal_place *ret);

/* The same of the first place from *offset on where a frame has begun; *offset is where that is, or
 * the file's size. *end: no frame has begun from there on, as far as is known: UINT64_MAX at first.
 * Return: 0, -errno. Cost: what lies before it is read by large pieces, what lies behind *end is
 * not read again. */
int sb_wal_place_next(int fd, const struct sb_wal_file *file, uint64_t *end, uint64_t *offset,
        unsigned char *bytes, struct sb_wal_place *ret);

#endif
