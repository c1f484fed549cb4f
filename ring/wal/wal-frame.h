/*
 * Frames: the pieces that a batch is written in.
 *
 * A *batch* is all changes up to one cut. Its entries (wal-entry.h) are one stream of bytes, cut
 * into frames of up to 1 MiB at any multiple of 8, so that a writer and a reader need memory for
 * a frame or two, however large a batch or a value is. A frame is
 *
 *      0   checksum 64         XXH3 of all that follows, header and payload, seeded by the salt
 *      8   salt 64             of this use of the file (wal-file.h)
 *      16  mark 32 | payload_len 32
 *      24  index 32 | flags 32 {FIRST, LAST}
 *      32  sequence 64         of the batch: 1, 2, 3 ...
 *      40  cut 64 | previous_cut 64 | realtime_ns 64 | boottime_ns 64
 *      72  stream_offset 64    payload of the batch in frames before this one
 *      80  file_offset 64      where the frame stands: one that was written elsewhere is none
 *      88  0 64
 *      96  payload, then zeros up to a multiple of 4096
 *
 * Why blocks of 4096: the kernel writes whole pages, so a frame that shared its first page with
 * the end of an acknowledged batch would have that page written once more, and a device that loses
 * power within a sector of it would take acknowledged bytes away. So no sector that holds
 * acknowledged bytes is ever written again. A batch costs the device a page in either way, and a
 * write of whole pages never has to read one first, which a recycled file's page would need.
 *
 * Always true: a batch counts when its LAST frame and all frames before it are whole. A frame is
 * whole by its checksum alone. The salt is random, and stands in the file alone: so neither what an
 * earlier use left in a recycled file nor a value that looks like a frame is one.
 */
#ifndef SB_WAL_FRAME_H
#define SB_WAL_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define SB_WAL_BLOCK       4096u
#define SB_WAL_FRAME_HEAD  96u        /* bytes of a frame's header */
#define SB_WAL_PAYLOAD_MAX (1u << 20) /* bytes of a frame's payload */
#define SB_WAL_FRAME_MAX   (SB_WAL_PAYLOAD_MAX + SB_WAL_BLOCK)

enum {
        SB_WAL_FRAME_FIRST = 1,
        SB_WAL_FRAME_LAST = 2,
};

struct sb_wal_batch {
        uint64_t sequence; /* 1, 2, 3 ... */
        uint64_t cut;
        uint64_t previous_cut; /* of the batch before; 0: there is none */
        uint64_t realtime_ns;  /* when the cut was taken */
        uint64_t boottime_ns;
};

struct sb_wal_frame {
        struct sb_wal_batch batch;
        uint64_t stream_offset, file_offset;
        uint32_t payload_len, index, flags;
};

/* Bytes that a frame with a payload of @payload_len bytes takes in a file. */
static inline uint64_t sb_wal_frame_space(uint64_t payload_len)
{
        return (SB_WAL_FRAME_HEAD + payload_len + SB_WAL_BLOCK - 1) & ~(uint64_t)(SB_WAL_BLOCK - 1);
}

/* Writes the header of @frame in front of the payload, which stands at bytes + SB_WAL_FRAME_HEAD,
 * and zeros behind it; @bytes has sb_wal_frame_space() bytes. Cost: one pass over the payload. */
void sb_wal_frame_seal(unsigned char *bytes, const struct sb_wal_frame *frame, uint64_t salt);
/* Whether the @bytes, of SB_WAL_FRAME_HEAD, are how a frame of this use of the file begins. That
 * it is whole they do not say. */
bool sb_wal_frame_begins(const unsigned char *bytes, uint64_t salt);
/* What the header of a frame at @file_offset says. Return: whether a frame can say so; then
 * payload_len is at most SB_WAL_PAYLOAD_MAX, and no more is known. */
bool sb_wal_frame_decode(
        const unsigned char *bytes, uint64_t salt, uint64_t file_offset, struct sb_wal_frame *ret);
/* Whether header and payload of the decoded @frame are as they were sealed. Cost: one pass. */
bool sb_wal_frame_is_whole(
        const unsigned char *bytes, const struct sb_wal_frame *frame, uint64_t salt);

#endif
