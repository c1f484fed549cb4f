/* The reader's cursor; see wal-cursor.h. */
#define _GNU_SOURCE
#include "ring/wal/wal-cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring/wal/wal-place.h"
#include "shm/base/fault.h"

/* ---- one file ---- */

int sb_wal_cursor_open_number(const struct sb_wal_reader *reader, uint64_t number, int *ret_fd)
{
        if (reader->file_fd < 0)
                return sb_wal_file_open(reader->directory_fd, number, ret_fd);
        *ret_fd = fcntl(reader->file_fd, F_DUPFD_CLOEXEC, 0);
        return *ret_fd < 0 ? -errno : 0;
}

/* ---- the cursor ---- */

void sb_wal_cursor_leave(struct sb_wal_cursor *cursor)
{
        if (cursor->fd >= 0)
                close(cursor->fd);
        cursor->fd = -1;
}

/* Opens the file at which the cursor stands. Return: 0; -ESTALE: its header is another one now;
 * -errno. */
int sb_wal_cursor_enter(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *file = &reader->files[cursor->index];
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        struct sb_wal_file now = {0};
        uint32_t version;
        int r;

        r = sb_wal_cursor_open_number(reader, file->number, &cursor->fd);
        if (r)
                return r == -ENOENT ? -ESTALE : r;
        r = sb_wal_file_read_header(cursor->fd, &now, &header, &version);
        if (r)
                return r;
        cursor->offset = reader->is_from && !cursor->index ? reader->from.offset : SB_WAL_BLOCK;
        return header == SB_WAL_HEADER_GOOD && now.salt == file->salt ? 0 : -ESTALE;
}

/* Finds which batches do not count in which file. A file that begins within a batch lets it count
 * in the files before; one that begins with it does not, and it may be any later one: a batch can
 * have failed in its second file. */
void sb_wal_cursor_find_limits(struct sb_wal_reader *reader)
{
        uint64_t limit = UINT64_MAX;

        for (size_t i = reader->file_count; i-- > 0;) {
                const struct sb_wal_file *file = &reader->files[i];
                uint64_t own = file->first_sequence + (file->first_frame > 0);

                reader->limits[i] = limit;
                if (own < limit)
                        limit = own;
        }
}

/* Whether the frame does not count, because of what later files say that they follow. */
static bool wal_cursor_is_void(const struct sb_wal_reader *reader, const struct sb_wal_frame *frame)
{
        const struct sb_wal_file *next = &reader->files[reader->cursor.index + 1];

        if (SB_FAULT(SEQUENCE_UNCHECKED))
                return false;
        if (frame->batch.sequence >= reader->limits[reader->cursor.index])
                return true;
        return reader->cursor.index + 1 < reader->file_count &&
               frame->batch.sequence == next->first_sequence && frame->index >= next->first_frame;
}

static bool wal_cursor_same_batch(const struct sb_wal_batch *a, const struct sb_wal_batch *b)
{
        return a->sequence == b->sequence && a->cut == b->cut &&
               a->previous_cut == b->previous_cut && a->realtime_ns == b->realtime_ns &&
               a->boottime_ns == b->boottime_ns;
}

/* Whether the frame is the one that has to come here. */
static bool wal_cursor_follows(const struct sb_wal_cursor *cursor, const struct sb_wal_frame *frame)
{
        if (!cursor->begun)
                return frame->flags & SB_WAL_FRAME_FIRST && !frame->index &&
                       !frame->stream_offset &&
                       (SB_FAULT(SEQUENCE_UNCHECKED) ||
                               (frame->batch.sequence == cursor->sequence + 1 &&
                                       frame->batch.previous_cut == cursor->cut));
        if (frame->flags & SB_WAL_FRAME_FIRST || frame->index != cursor->next_frame ||
                frame->stream_offset != cursor->stream_offset)
                return false;
        /* Of a batch without its beginning the header knows the sequence alone. */
        return cursor->headless ? frame->batch.sequence == cursor->batch.sequence
                                : wal_cursor_same_batch(&frame->batch, &cursor->batch);
}

/* Looks at the frame at the cursor. Return: 0, -errno. */
static int wal_cursor_look(
        struct sb_wal_reader *reader, struct sb_wal_frame *ret, enum sb_wal_found *ret_found)
{
        const struct sb_wal_cursor *cursor = &reader->cursor;
        struct sb_wal_place place;
        int r = sb_wal_place_read(
                cursor->fd, &reader->files[cursor->index], cursor->offset, reader->bytes, &place);

        if (r)
                return r;
        *ret = place.frame;
        if (!place.whole)
                *ret_found = SB_WAL_FOUND_NONE;
        else if (wal_cursor_is_void(reader, ret))
                *ret_found = SB_WAL_FOUND_LIMIT;
        else
                *ret_found =
                        wal_cursor_follows(cursor, ret) ? SB_WAL_FOUND_FRAME : SB_WAL_FOUND_WRONG;
        return 0;
}

/* The cursor goes over the frame that it has looked at. */
void sb_wal_cursor_pass(struct sb_wal_reader *reader, const struct sb_wal_frame *frame)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        uint64_t space = sb_wal_frame_space(frame->payload_len);

        if (!cursor->begun) {
                cursor->headless = false;
                cursor->begun_file = reader->files[cursor->index].number;
                cursor->begun_offset = cursor->offset;
                cursor->begun_bytes = 0;
        }
        cursor->begun = !(frame->flags & SB_WAL_FRAME_LAST);
        cursor->batch = frame->batch;
        cursor->next_frame = frame->index + 1;
        cursor->stream_offset = frame->stream_offset + frame->payload_len;
        cursor->begun_bytes += space;
        cursor->offset += space;
        if (!cursor->begun) {
                cursor->sequence = frame->batch.sequence;
                cursor->cut = frame->batch.cut;
        }
}

/* The cursor stands before the first frame of the first file. */
void sb_wal_cursor_begin(struct sb_wal_reader *reader)
{
        const struct sb_wal_file *first = &reader->files[0];
        struct sb_wal_cursor *cursor = &reader->cursor;

        sb_wal_cursor_leave(cursor);
        if (reader->is_from) {
                *cursor = reader->from;
                return;
        }
        *cursor = (struct sb_wal_cursor){
                .fd = -1,
                .sequence = first->first_sequence - 1,
                .cut = first->previous_cut,
                .begun = first->first_frame > 0,
                .headless = first->first_frame > 0,
                .batch.sequence = first->first_sequence,
                .next_frame = first->first_frame,
                .stream_offset = first->stream_offset,
                .begun_file = first->number,
                .begun_offset = SB_WAL_BLOCK,
        };
}

/* ---- batches that are passed over ---- */

/* The batch behind the last whole one is bad, from the cursor on or from an earlier file on, and
 * the one behind it goes on from the cut of the one before: so it has no change, but pieces of a
 * copy alone, and the cursor goes over it. Return: 0, -ENOMEM. */
static int wal_cursor_pass_over(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        struct sb_wal_end *end = &reader->end;
        uint64_t sequence = ++cursor->sequence;
        size_t room = reader->passed_room ? 2 * reader->passed_room : 16;
        uint64_t *passed;

        if (!end->passed) {
                end->passed_file =
                        cursor->bad_file ? cursor->bad_file : reader->files[cursor->index].number;
                end->passed_offset = cursor->bad_file ? cursor->bad_offset : cursor->offset;
        }
        cursor->begun = false;
        cursor->bad_file = 0;
        if (end->first_sequence == sequence)
                end->first_sequence = 0; /* none was handed out of it */
        if (end->passed && reader->passed[end->passed - 1] >= sequence)
                return 0; /* in a second pass */
        if (end->passed == reader->passed_room) {
                passed = realloc(reader->passed, room * sizeof(*passed));
                if (!passed)
                        return -ENOMEM;
                reader->passed = passed;
                reader->passed_room = room;
        }
        reader->passed[end->passed++] = sequence;
        return 0;
}

/* Whether the batch is one that the first pass went over. */
bool sb_wal_cursor_is_passed(const struct sb_wal_reader *reader, uint64_t sequence)
{
        for (uint64_t i = 0; i < reader->end.passed; i++)
                if (reader->passed[i] == sequence)
                        return true;
        return false;
}

/* Looks behind a bad frame, in its file, for the beginning of the batch behind its own; and if that
 * shows that its own has no change, goes there. Fault PIECES_NEEDED: it never does. Return: 0:
 * *ret_passed; -errno. */
static int wal_cursor_try_over(struct sb_wal_reader *reader, bool *ret_passed)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *file = &reader->files[cursor->index];
        struct sb_wal_place place;
        uint64_t offset = cursor->offset, space = SB_WAL_BLOCK;
        int r;

        *ret_passed = false;
        /* Nothing behind its own counts in this file, which is then read no further: behind a clean
         * end the rest of it is empty. */
        if (reader->limits[cursor->index] <= cursor->sequence + 2 && !SB_FAULT(SEQUENCE_UNCHECKED))
                return 0;
        for (; offset < file->size && !SB_FAULT(PIECES_NEEDED); offset += space) {
                r = sb_wal_place_next(cursor->fd, file, &reader->ends[cursor->index], &offset,
                        reader->bytes, &place);
                if (r)
                        return r;
                space = place.whole ? sb_wal_frame_space(place.frame.payload_len) : SB_WAL_BLOCK;
                if (!place.whole || place.frame.batch.sequence == cursor->sequence + 1)
                        continue;
                if (wal_cursor_is_void(reader, &place.frame) ||
                        place.frame.batch.sequence != cursor->sequence + 2 ||
                        !(place.frame.flags & SB_WAL_FRAME_FIRST) ||
                        place.frame.batch.previous_cut != cursor->cut)
                        return 0;
                r = wal_cursor_pass_over(reader);
                cursor->offset = offset;
                *ret_passed = !r;
                return r;
        }
        return 0;
}

/* Goes into the next file though not all is there that it says was before it: it begins with the
 * batch behind a bad one that has no change, or within the bad one, of which more will show.
 * Return: 1: it is there; 0: that is not so; -ENOMEM. */
static int wal_cursor_cross_over(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *file = &reader->files[cursor->index], *next = file + 1;
        int r = 0;

        if (cursor->cut != next->previous_cut || SB_FAULT(PIECES_NEEDED))
                return 0;
        if (next->first_sequence == cursor->sequence + 2 && !next->first_frame) {
                r = wal_cursor_pass_over(reader);
        } else if (next->first_sequence == cursor->sequence + 1 && next->first_frame) {
                if (!cursor->bad_file) {
                        cursor->bad_file = file->number;
                        cursor->bad_offset = cursor->offset;
                }
        } else {
                return 0;
        }
        return r ? r : 1;
}

/* Whether all that the next file says was before it is there. */
static bool wal_cursor_reaches_next(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *next = &reader->files[cursor->index + 1];

        if (cursor->bad_file ||
                (!SB_FAULT(SEQUENCE_UNCHECKED) && (cursor->sequence != next->first_sequence - 1 ||
                                                          cursor->cut != next->previous_cut)))
                return false;
        if (next->first_frame == 0 || next->first_sequence >= reader->limits[cursor->index + 1])
                cursor->begun = false;
        else if (!cursor->begun || cursor->next_frame != next->first_frame ||
                 cursor->stream_offset != next->stream_offset)
                return false;
        return true;
}

/* Goes into the next file. Return: 1: it is there; 0: something is missing before it; -ENOMEM. */
int sb_wal_cursor_cross(struct sb_wal_reader *reader)
{
        int r = wal_cursor_reaches_next(reader) ? 1 : wal_cursor_cross_over(reader);

        if (r > 0) {
                sb_wal_cursor_leave(&reader->cursor);
                reader->cursor.index++;
        }
        return r;
}

/* Looks at the frame at the cursor, or at the next one that counts. Return: 0, -errno. */
int sb_wal_cursor_look_over(
        struct sb_wal_reader *reader, struct sb_wal_frame *ret, enum sb_wal_found *ret_found)
{
        bool passed = false;
        int r = 0;

        *ret_found = SB_WAL_FOUND_NONE;
        /* Of a batch that is bad in a file before, no frame is the next one. */
        if (!reader->cursor.bad_file)
                r = wal_cursor_look(reader, ret, ret_found);
        if (r || *ret_found != SB_WAL_FOUND_NONE)
                return r;
        r = wal_cursor_try_over(reader, &passed);
        return r || !passed ? r : wal_cursor_look(reader, ret, ret_found);
}
