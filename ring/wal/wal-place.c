/* Places in a file of the log; see wal-place.h. */
#define _GNU_SOURCE
#include "ring/wal/wal-place.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/base/fault.h"

#define PIECE_MAX (256u << 10) /* bytes that are looked through at once, at most */

static_assert(PIECE_MAX <= SB_WAL_FRAME_MAX, "a piece fits where a frame does");

/* Reads @len bytes; what lies behind the file's end is zeros. Return: 0, -errno. */
static int wal_place_fill(int fd, unsigned char *bytes, size_t len, uint64_t offset)
{
        while (len > 0) {
                ssize_t n = pread(fd, bytes, len, (off_t)offset);

                if (n < 0)
                        return -errno;
                if (n == 0) {
                        memset(bytes, 0, len);
                        return 0;
                }
                bytes += n;
                len -= (size_t)n;
                offset += (uint64_t)n;
        }
        return 0;
}

int sb_wal_place_read(int fd, const struct sb_wal_file *file, uint64_t offset, unsigned char *bytes,
        struct sb_wal_place *ret)
{
        uint64_t space;
        int r;

        ret->begins = ret->headed = ret->whole = false;
        if (offset + SB_WAL_BLOCK > file->size)
                return 0;
        r = wal_place_fill(fd, bytes, SB_WAL_BLOCK, offset);
        if (r)
                return r;
        ret->begins = sb_wal_frame_begins(bytes, file->salt);
        ret->headed = sb_wal_frame_decode(bytes, file->salt, offset, &ret->frame);
        space = ret->headed ? sb_wal_frame_space(ret->frame.payload_len) : UINT64_MAX;
        if (space > file->size - offset)
                return 0;
        r = wal_place_fill(fd, bytes + SB_WAL_BLOCK, space - SB_WAL_BLOCK, offset + SB_WAL_BLOCK);
        if (r)
                return r;
        ret->whole =
                SB_FAULT(FRAME_UNCHECKED) || sb_wal_frame_is_whole(bytes, &ret->frame, file->salt);
        return 0;
}

/* Goes on to the first place where a frame has begun, or to the end. Behind the end of the log most
 * of a file is empty, so each piece that shows nothing is followed by a larger one. Return: 0,
 * -errno. */
static int wal_place_seek(int fd, const struct sb_wal_file *file, uint64_t end, uint64_t *offset,
        unsigned char *bytes)
{
        uint64_t piece = SB_WAL_BLOCK, at;

        while (*offset + SB_WAL_BLOCK <= end) {
                int r;

                if (piece > end - *offset)
                        piece = (end - *offset) & ~(uint64_t)(SB_WAL_BLOCK - 1);
                r = wal_place_fill(fd, bytes, piece, *offset);
                if (r && piece == SB_WAL_BLOCK)
                        return r;
                if (r) { /* what cannot be read counts where it is come to, not before */
                        piece = SB_WAL_BLOCK;
                        continue;
                }
                for (at = 0; at < piece; at += SB_WAL_BLOCK)
                        if (sb_wal_frame_begins(bytes + at, file->salt)) {
                                *offset += at;
                                return 0;
                        }
                *offset += piece;
                if (piece < PIECE_MAX)
                        piece *= 2;
        }
        return 0;
}

int sb_wal_place_next(int fd, const struct sb_wal_file *file, uint64_t *end, uint64_t *offset,
        unsigned char *bytes, struct sb_wal_place *ret)
{
        uint64_t first = *offset, last = *end < file->size ? *end : file->size;
        int r = wal_place_seek(fd, file, last, offset, bytes);

        ret->begins = ret->headed = ret->whole = false;
        if (r || *offset + SB_WAL_BLOCK <= last)
                return r ? r : sb_wal_place_read(fd, file, *offset, bytes, ret);
        *offset = file->size;
        if (first < *end)
                *end = first;
        return 0;
}
