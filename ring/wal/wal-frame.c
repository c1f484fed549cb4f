/* Frames: sealed and looked at; see wal-frame.h. */
#include "ring/wal/wal-frame.h"

#include <string.h>

#include "ring/wal/wal-bytes.h"
#include "shm/base/hash.h"

#define FRAME_MARK 0x4d415246u /* "FRAM" */

/* Where each word of the header stands. */
enum {
        AT_CHECKSUM = 0,
        AT_SALT = 8,
        AT_MARK = 16,
        AT_PAYLOAD_LEN = 20,
        AT_INDEX = 24,
        AT_FLAGS = 28,
        AT_SEQUENCE = 32,
        AT_CUT = 40,
        AT_PREVIOUS_CUT = 48,
        AT_REALTIME = 56,
        AT_BOOTTIME = 64,
        AT_STREAM_OFFSET = 72,
        AT_FILE_OFFSET = 80,
        AT_ZERO = 88,
};

static uint64_t wal_frame_checksum(const unsigned char *bytes, uint32_t payload_len, uint64_t salt)
{
        return sb_hash_key(
                bytes + AT_SALT, SB_WAL_FRAME_HEAD - AT_SALT + (size_t)payload_len, salt);
}

void sb_wal_frame_seal(unsigned char *bytes, const struct sb_wal_frame *frame, uint64_t salt)
{
        size_t end = SB_WAL_FRAME_HEAD + (size_t)frame->payload_len;

        sb_wal_bytes_put64(bytes + AT_SALT, salt);
        sb_wal_bytes_put32(bytes + AT_MARK, FRAME_MARK);
        sb_wal_bytes_put32(bytes + AT_PAYLOAD_LEN, frame->payload_len);
        sb_wal_bytes_put32(bytes + AT_INDEX, frame->index);
        sb_wal_bytes_put32(bytes + AT_FLAGS, frame->flags);
        sb_wal_bytes_put64(bytes + AT_SEQUENCE, frame->batch.sequence);
        sb_wal_bytes_put64(bytes + AT_CUT, frame->batch.cut);
        sb_wal_bytes_put64(bytes + AT_PREVIOUS_CUT, frame->batch.previous_cut);
        sb_wal_bytes_put64(bytes + AT_REALTIME, frame->batch.realtime_ns);
        sb_wal_bytes_put64(bytes + AT_BOOTTIME, frame->batch.boottime_ns);
        sb_wal_bytes_put64(bytes + AT_STREAM_OFFSET, frame->stream_offset);
        sb_wal_bytes_put64(bytes + AT_FILE_OFFSET, frame->file_offset);
        sb_wal_bytes_put64(bytes + AT_ZERO, 0);
        sb_wal_bytes_put64(
                bytes + AT_CHECKSUM, wal_frame_checksum(bytes, frame->payload_len, salt));
        memset(bytes + end, 0, sb_wal_frame_space(frame->payload_len) - end);
}

bool sb_wal_frame_begins(const unsigned char *bytes, uint64_t salt)
{
        return sb_wal_bytes_get64(bytes + AT_SALT) == salt;
}

bool sb_wal_frame_decode(
        const unsigned char *bytes, uint64_t salt, uint64_t file_offset, struct sb_wal_frame *ret)
{
        struct sb_wal_frame frame = {
                .batch =
                        {
                                .sequence = sb_wal_bytes_get64(bytes + AT_SEQUENCE),
                                .cut = sb_wal_bytes_get64(bytes + AT_CUT),
                                .previous_cut = sb_wal_bytes_get64(bytes + AT_PREVIOUS_CUT),
                                .realtime_ns = sb_wal_bytes_get64(bytes + AT_REALTIME),
                                .boottime_ns = sb_wal_bytes_get64(bytes + AT_BOOTTIME),
                        },
                .stream_offset = sb_wal_bytes_get64(bytes + AT_STREAM_OFFSET),
                .file_offset = sb_wal_bytes_get64(bytes + AT_FILE_OFFSET),
                .payload_len = sb_wal_bytes_get32(bytes + AT_PAYLOAD_LEN),
                .index = sb_wal_bytes_get32(bytes + AT_INDEX),
                .flags = sb_wal_bytes_get32(bytes + AT_FLAGS),
        };

        if (!sb_wal_frame_begins(bytes, salt) ||
                sb_wal_bytes_get32(bytes + AT_MARK) != FRAME_MARK ||
                frame.file_offset != file_offset || frame.payload_len > SB_WAL_PAYLOAD_MAX ||
                sb_wal_bytes_get64(bytes + AT_ZERO) != 0)
                return false;
        *ret = frame;
        return true;
}

bool sb_wal_frame_is_whole(
        const unsigned char *bytes, const struct sb_wal_frame *frame, uint64_t salt)
{
        return sb_wal_bytes_get64(bytes + AT_CHECKSUM) ==
               wal_frame_checksum(bytes, frame->payload_len, salt);
}
