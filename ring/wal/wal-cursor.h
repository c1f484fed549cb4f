/*
 * The reader's cursor: it walks from frame to frame and from file to file, and knows what has to
 * come next. Both passes of the reader (wal-reader.h) use it.
 *
 * Of a batch that is bad, and of which the one behind it says that it goes on from the cut of the
 * one before, nothing is missing but pieces of a copy of the bus: the cursor goes over it. The
 * first pass notes which these are, so that the second one hands out nothing of them.
 */
#ifndef SB_WAL_CURSOR_H
#define SB_WAL_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/wal/wal-end.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"
#include "ring/wal/wal-gather.h"

struct sb_wal_cursor {
        size_t index;      /* of the file */
        int fd;            /* of the file, or -1 */
        uint64_t offset;   /* where the next frame has to begin */
        uint64_t sequence; /* of the last whole batch, and its cut */
        uint64_t cut;
        /* The batch that has begun and not ended. */
        bool begun;
        bool headless; /* its beginning was in a file that is gone: it is not handed out */
        struct sb_wal_batch batch;
        uint32_t next_frame;
        uint64_t stream_offset;
        uint64_t begun_file, begun_offset, begun_bytes; /* where it begins, and how much was seen */
        uint64_t bad_file, bad_offset; /* it is bad there, in a file before; 0: it is not */
};

struct sb_wal_reader {
        int directory_fd;
        int file_fd;               /* -1, or the one file of all */
        struct sb_wal_file *files; /* by number */
        size_t file_count;
        uint64_t *limits; /* by file: batches from this sequence on begin anew in a later file */
        uint64_t *ends;   /* by file: from there on nothing has begun, as far as was looked */
        unsigned char *bytes; /* one frame */
        bool is_from;         /* the log is read as if it began at this cursor, in the first file */
        struct sb_wal_cursor from;
        struct sb_wal_cursor cursor;
        struct sb_wal_end end;
        struct sb_wal_gather gather;
        uint64_t *passed; /* sequences of the batches that are passed over, ascending */
        size_t passed_room;
};

/* What the cursor finds. */
enum sb_wal_found {
        SB_WAL_FOUND_FRAME,
        SB_WAL_FOUND_NONE,  /* no whole frame */
        SB_WAL_FOUND_LIMIT, /* a frame that does not count: the next file begins before it */
        SB_WAL_FOUND_WRONG, /* a whole frame that cannot come here */
};

/* Finds which batches do not count in which file. A file that begins within a batch lets it count
 * in the files before; one that begins with it does not, and it may be any later one: a batch can
 * have failed in its second file. */
void sb_wal_cursor_find_limits(struct sb_wal_reader *reader);
/* Opens the file at which the cursor stands. Return: 0; -ESTALE: its header is another one now;
 * -errno. */
int sb_wal_cursor_enter(struct sb_wal_reader *reader);
/* Closes the file. */
void sb_wal_cursor_leave(struct sb_wal_cursor *cursor);
/* Looks at the frame at the cursor, or at the next one that counts. Return: 0, -errno. */
int sb_wal_cursor_look_over(
        struct sb_wal_reader *reader, struct sb_wal_frame *ret, enum sb_wal_found *ret_found);
/* The cursor goes over the frame that it has looked at. */
void sb_wal_cursor_pass(struct sb_wal_reader *reader, const struct sb_wal_frame *frame);
/* The cursor stands before the first frame of the first file. */
void sb_wal_cursor_begin(struct sb_wal_reader *reader);
/* Goes into the next file. Return: 1: it is there; 0: something is missing before it; -ENOMEM. */
int sb_wal_cursor_cross(struct sb_wal_reader *reader);
/* Whether the batch is one that the first pass went over. */
bool sb_wal_cursor_is_passed(const struct sb_wal_reader *reader, uint64_t sequence);
/* Opens a file of the log. Return: 0, -errno. */
int sb_wal_cursor_open_number(const struct sb_wal_reader *reader, uint64_t number, int *ret_fd);

#endif
