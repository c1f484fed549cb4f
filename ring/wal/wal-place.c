/* Places in a file of the log; see wal-place.h. */
#define _GNU_SOURCE
#include "ring/wal/wal-place.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/base/fault.h"

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
