/*
 * The log, read; see wal-reader.h. Both passes use a cursor (wal-cursor.h): the first to find how
 * far it comes, the second to hand out what it passes.
 */
#define _GNU_SOURCE
#include "ring/wal/wal-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wal/wal-cursor.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-gather.h"
#include "ring/wal/wal-place.h"
#include "shm/base/fault.h"

/* ---- the first pass ---- */

static void wal_reader_damaged(
        struct sb_wal_reader *reader, uint64_t file, uint64_t offset, const char *what)
{
        reader->end.ending = SB_WAL_DAMAGED;
        reader->end.file = file;
        reader->end.offset = offset;
        reader->end.what = what;
}

/* Whether what stands behind the end shows that the batch behind the last whole one was on the disk
 * as a whole. A header is enough, of whatever payload: it was written behind the answer to the sync
 * of the batch before. Headers of that batch itself show nothing, for a power failure leaves any of
 * its blocks without the others. Faults LATER_HEAD_UNSEEN, OWN_HEAD_BELIEVED: one rule each is not
 * so. */
static bool wal_reader_is_later(
        const struct sb_wal_cursor *cursor, const struct sb_wal_place *place)
{
        uint64_t torn = cursor->sequence + 1;

        if (place->whole && place->frame.batch.sequence != torn)
                return true;
        return place->headed && !SB_FAULT(LATER_HEAD_UNSEEN) &&
               (place->frame.batch.sequence > torn || SB_FAULT(OWN_HEAD_BELIEVED));
}

/* Looks behind the end of the last file for what began there. Return: 0, -errno. */
static int wal_reader_judge_tail(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *file = &reader->files[cursor->index];
        uint64_t seen = cursor->offset, offset, space;
        struct sb_wal_place place;
        int r;

        for (offset = cursor->offset; offset < file->size; offset += SB_WAL_BLOCK) {
                r = sb_wal_place_next(cursor->fd, file, &reader->ends[cursor->index], &offset,
                        reader->bytes, &place);
                if (r)
                        return r;
                if (wal_reader_is_later(cursor, &place)) {
                        wal_reader_damaged(reader, file->number, cursor->offset,
                                "a frame is bad, and frames of a later batch follow");
                        return 0;
                }
                space = place.whole ? sb_wal_frame_space(place.frame.payload_len) : SB_WAL_BLOCK;
                if (place.begins && seen < offset + space)
                        seen = offset + space;
        }
        if (!cursor->begun && seen == cursor->offset)
                return 0; /* CLEAN */
        reader->end.ending = SB_WAL_TORN;
        reader->end.file = cursor->begun ? cursor->begun_file : file->number;
        reader->end.offset = cursor->begun ? cursor->begun_offset : cursor->offset;
        reader->end.dropped = (cursor->begun ? cursor->begun_bytes : 0) + seen - cursor->offset;
        return 0;
}

/* A closed last file has all batches that it promises, or it was changed. Fault
 * BACKUP_END_UNCHECKED: it may lack some. */
static void wal_reader_judge_promise(struct sb_wal_reader *reader)
{
        const struct sb_wal_cursor *cursor = &reader->cursor;
        const struct sb_wal_file *file = &reader->files[cursor->index];

        if (reader->end.ending > SB_WAL_TORN || cursor->sequence >= file->last_sequence ||
                SB_FAULT(BACKUP_END_UNCHECKED))
                return;
        wal_reader_damaged(reader, file->number,
                reader->end.ending == SB_WAL_TORN ? reader->end.offset : cursor->offset,
                "a frame is bad in a file that was closed behind it");
}

/* Whether something came to a closed file behind its end. Fault BACKUP_GROWTH_UNSEEN: none does. */
static bool wal_reader_is_longer(const struct sb_wal_file *file, uint64_t size)
{
        return file->last_sequence && size > file->size && !SB_FAULT(BACKUP_GROWTH_UNSEEN);
}

/* Walks through one file. Return: 0: the cursor stands behind what counts of it, or there is
 * damage; -errno. */
static int wal_reader_walk(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        struct sb_wal_file *file = &reader->files[cursor->index];
        enum sb_wal_found found;
        struct sb_wal_frame frame;
        struct stat status;
        bool is_short, is_long;
        int r;

        if (fstat(cursor->fd, &status) < 0)
                return -errno;
        is_short = (uint64_t)status.st_size < file->size;
        is_long = wal_reader_is_longer(file, (uint64_t)status.st_size);
        if (is_short)
                file->size = (uint64_t)status.st_size; /* no reading goes beyond it */
        for (;;) {
                r = sb_wal_cursor_look_over(reader, &frame, &found);
                if (r)
                        return r;
                if (found == SB_WAL_FOUND_WRONG)
                        wal_reader_damaged(reader, file->number, cursor->offset,
                                "a whole frame is not the one that has to come");
                if (found != SB_WAL_FOUND_FRAME)
                        break;
                if (!cursor->begun && !reader->end.first_sequence) {
                        reader->end.first_sequence = frame.batch.sequence;
                        reader->end.first_after = cursor->cut;
                }
                sb_wal_cursor_pass(reader, &frame);
        }
        /* No power failure does that; but what stands before its end is whole. Of any other file
         * the next one says whether something is missing. */
        if ((is_short || is_long) && cursor->index + 1 == reader->file_count &&
                reader->end.ending != SB_WAL_DAMAGED)
                wal_reader_damaged(reader, file->number, file->size,
                        is_short ? "the file is shorter than its header says"
                                 : "the file is longer than its header says");
        return 0;
}

/* What was found of the last batch; fault LAST_FRAME_UNCHECKED: one without its end counts. */
static void wal_reader_note_last(struct sb_wal_reader *reader)
{
        const struct sb_wal_cursor *cursor = &reader->cursor;
        bool partly = SB_FAULT(LAST_FRAME_UNCHECKED) && cursor->begun && !cursor->headless;

        reader->end.sequence = partly ? cursor->batch.sequence : cursor->sequence;
        reader->end.cut = partly ? cursor->batch.cut : cursor->cut;
}

/* Finds the end of the log. Return: 0, -errno. */
static int wal_reader_find_end(struct sb_wal_reader *reader)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        int r = 0;

        for (sb_wal_cursor_begin(reader); !r;) {
                const struct sb_wal_file *file = &reader->files[cursor->index];

                r = sb_wal_cursor_enter(reader);
                r = r ? r : wal_reader_walk(reader);
                if (r || reader->end.ending == SB_WAL_DAMAGED)
                        break;
                if (cursor->index + 1 == reader->file_count && cursor->bad_file) {
                        wal_reader_damaged(reader, cursor->bad_file, cursor->bad_offset,
                                "a frame is bad, and the next file says that it was whole");
                        break;
                }
                if (cursor->index + 1 == reader->file_count) {
                        r = wal_reader_judge_tail(reader);
                        wal_reader_judge_promise(reader);
                        break;
                }
                if (file[1].number != file->number + 1) {
                        wal_reader_damaged(reader, file->number + 1, 0, "a file is missing");
                        break;
                }
                r = sb_wal_cursor_cross(reader);
                if (r <= 0) {
                        wal_reader_damaged(reader,
                                cursor->bad_file ? cursor->bad_file : file->number,
                                cursor->bad_file ? cursor->bad_offset : cursor->offset,
                                "a frame is bad, and the next file says that it was whole");
                        break;
                }
                r = 0;
        }
        sb_wal_cursor_leave(cursor);
        wal_reader_note_last(reader);
        return r;
}

/* ---- opening ---- */

/* Takes what the header says into the list; @size: of the file. Return: whether the log can be read
 * on. */
static bool wal_reader_take_header(struct sb_wal_reader *reader, uint64_t number,
        enum sb_wal_header header, const struct sb_wal_file *file, off_t size,
        const unsigned char *id)
{
        if (header == SB_WAL_HEADER_GOOD && file->number == number) {
                if (!reader->file_count) {
                        memcpy(reader->end.id, file->id, sizeof(file->id));
                        reader->end.hash_seed = file->hash_seed;
                }
                if (memcmp(file->id, id ? id : reader->end.id, sizeof(file->id)) != 0) {
                        reader->end.ending = SB_WAL_OTHER_BUS;
                        return false;
                }
                reader->ends[reader->file_count] = UINT64_MAX;
                reader->files[reader->file_count++] = *file;
                return true;
        }
        if (header == SB_WAL_HEADER_OTHER_VERSION)
                reader->end.ending = SB_WAL_OTHER_VERSION;
        else if (header == SB_WAL_HEADER_OTHER_ENDIAN)
                reader->end.ending = SB_WAL_OTHER_ENDIAN;
        else
                wal_reader_damaged(reader, number, 0,
                        !size                 ? "the file is empty"
                        : size < SB_WAL_BLOCK ? "the file ends within its header"
                        : header == SB_WAL_HEADER_GOOD
                                ? "the file has another number in its header: it was renamed or "
                                  "copied"
                                : "the file's header is bad");
        return false;
}

/* What has the name of a file and is none is no damage: a person or a program has put it there, and
 * can take it away. So it is looked for before anything is opened. */
static bool wal_reader_finds_other_kind(
        struct sb_wal_reader *reader, const struct sb_wal_names *names)
{
        struct sb_wal_end *end = &reader->end;

        for (size_t i = 0; reader->file_fd < 0 && i < names->number_count && !end->what; i++) {
                end->what = sb_wal_file_other_kind(reader->directory_fd, names->numbers[i]);
                if (end->what) {
                        end->ending = SB_WAL_NO_FILE;
                        end->file = names->numbers[i];
                }
        }
        return end->what;
}

/* Whether that header is of the same bus as the files that can be read: those before it, or the
 * first one behind the file @index of the list. */
static bool wal_reader_is_own(const struct sb_wal_reader *reader, const struct sb_wal_names *names,
        size_t index, const struct sb_wal_file *file)
{
        struct sb_wal_file other;
        enum sb_wal_header header;
        uint32_t version;
        int fd;

        if (reader->file_count)
                return !memcmp(file->id, reader->end.id, sizeof(file->id));
        for (size_t i = index + 1; i < names->number_count; i++) {
                if (sb_wal_cursor_open_number(reader, names->numbers[i], &fd))
                        continue;
                header = SB_WAL_HEADER_BAD;
                (void)sb_wal_file_read_header(fd, &other, &header, &version);
                close(fd);
                if (header == SB_WAL_HEADER_GOOD)
                        return !memcmp(file->id, other.id, sizeof(file->id));
        }
        return true;
}

/* The file @index of the list has another number in its header. Where a file has that name, it is a
 * copy; where none has, it was renamed. */
static void wal_reader_note_renamed(struct sb_wal_reader *reader, const struct sb_wal_names *names,
        size_t index, const struct sb_wal_file *file)
{
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(file->number, name);
        if (reader->file_fd >= 0 ||
                !faccessat(reader->directory_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) ||
                !wal_reader_is_own(reader, names, index, file))
                return;
        reader->end.renamed_from = file->number;
        reader->end.renamed_to = names->numbers[index];
}

/* Reads the headers of all files, up to one that cannot be read on from. What the machine keeps in
 * memory of the last file is let go of first, where it can be: after a failed sync that may be
 * something that never came to the disk. Return: 0, -errno. */
static int wal_reader_take_headers(
        struct sb_wal_reader *reader, const struct sb_wal_names *names, const unsigned char *id)
{
        bool on = true;

        for (size_t i = 0; i < names->number_count && on; i++) {
                enum sb_wal_header header = SB_WAL_HEADER_BAD;
                struct stat status = {.st_size = SB_WAL_BLOCK};
                struct sb_wal_file file = {0};
                int fd = -1, r;

                r = sb_wal_cursor_open_number(reader, names->numbers[i], &fd);
                if (!r) {
                        if (i + 1 == names->number_count)
                                (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
                        r = sb_wal_file_read_header(fd, &file, &header, &reader->end.version);
                        (void)fstat(fd, &status); /* for the words alone */
                        close(fd);
                }
                if (r && r != -EBADMSG)
                        return r;
                on = wal_reader_take_header(
                        reader, names->numbers[i], header, &file, status.st_size, id);
                if (header == SB_WAL_HEADER_GOOD && file.number != names->numbers[i])
                        wal_reader_note_renamed(reader, names, i, &file);
        }
        return 0;
}

/* Finds the first batch that begins in the first file behind @offset. Return: 0: the log is read as
 * if it began there; -ENODATA: none begins; -errno. */
static int wal_reader_find_begin(struct sb_wal_reader *reader, uint64_t offset)
{
        const struct sb_wal_file *file = &reader->files[0];
        struct sb_wal_place place = {0};
        bool found = false;
        struct stat status;
        int fd, r;

        r = sb_wal_cursor_open_number(reader, file->number, &fd);
        if (r)
                return r;
        if (fstat(fd, &status) < 0)
                r = -errno;
        else if ((uint64_t)status.st_size < file->size)
                r = -ENODATA; /* all of it is damaged, as for a walk */
        for (offset -= offset % SB_WAL_BLOCK; !r && !found && offset < file->size;) {
                offset += SB_WAL_BLOCK;
                r = sb_wal_place_next(fd, file, &reader->ends[0], &offset, reader->bytes, &place);
                found = place.whole && place.frame.flags & SB_WAL_FRAME_FIRST &&
                        place.frame.batch.sequence < reader->limits[0];
        }
        close(fd);
        if (r || !found)
                return r ? r : -ENODATA;
        reader->is_from = true;
        reader->from = (struct sb_wal_cursor){.fd = -1,
                .offset = offset,
                .sequence = place.frame.batch.sequence - 1,
                .cut = place.frame.batch.previous_cut};
        return 0;
}

/* The files that were found are walked through, unless one of them is of another version or bus; a
 * header that is bad ends the log before it. */
static int wal_reader_find_all(struct sb_wal_reader *reader, uint64_t first_offset)
{
        struct sb_wal_end before = reader->end;
        int r;

        if (before.ending != SB_WAL_CLEAN && before.ending != SB_WAL_DAMAGED)
                return 0;
        if (!reader->file_count)
                return 0;
        reader->end.ending = SB_WAL_CLEAN;
        sb_wal_cursor_find_limits(reader);
        if (first_offset) {
                r = wal_reader_find_begin(reader, first_offset);
                if (r)
                        return r;
        }
        r = wal_reader_find_end(reader);
        /* The first place is the one to name. */
        if (before.ending == SB_WAL_DAMAGED && reader->end.ending != SB_WAL_DAMAGED)
                wal_reader_damaged(reader, before.file, before.offset, before.what);
        return r;
}

static int wal_reader_make_room(struct sb_wal_reader *reader, size_t file_count)
{
        free(reader->files);
        free(reader->limits);
        free(reader->ends);
        reader->files = calloc(file_count + 1, sizeof(*reader->files));
        reader->limits = calloc(file_count + 1, sizeof(*reader->limits));
        reader->ends = calloc(file_count + 1, sizeof(*reader->ends));
        if (!reader->bytes)
                reader->bytes = malloc(SB_WAL_FRAME_MAX);
        return reader->files && reader->limits && reader->ends && reader->bytes ? 0 : -ENOMEM;
}

/* Reads the log, as if it began in that file, behind that offset. Return: 0, -errno. */
static int wal_reader_read(struct sb_wal_reader *reader, const unsigned char *id,
        uint64_t first_file, uint64_t first_offset)
{
        struct sb_wal_names names;
        int r = reader->file_fd < 0 ? sb_wal_file_list(reader->directory_fd, &names)
                                    : sb_wal_file_list_one(reader->file_fd, &names);

        if (r)
                return r;
        sb_wal_file_list_from(&names, first_file);
        reader->end = (struct sb_wal_end){0};
        reader->file_count = 0;
        reader->is_from = false;
        r = wal_reader_make_room(reader, names.number_count);
        if (r || wal_reader_finds_other_kind(reader, &names)) {
                sb_wal_file_list_end(&names);
                return r;
        }
        r = wal_reader_take_headers(reader, &names, id);
        r = r ? r : wal_reader_find_all(reader, first_offset);
        sb_wal_file_list_end(&names);
        return r;
}

/* Opens the log in the directory, or in the one file. */
static int wal_reader_open(
        int directory_fd, int file_fd, const unsigned char *id, struct sb_wal_reader **ret)
{
        struct sb_wal_reader *reader = calloc(1, sizeof(*reader));
        int r;

        if (!reader)
                return -ENOMEM;
        reader->directory_fd = directory_fd;
        reader->file_fd = file_fd;
        reader->cursor.fd = -1;
        r = wal_reader_read(reader, id, 0, 0);
        if (r)
                sb_wal_reader_close(reader);
        else
                *ret = reader;
        return r;
}

int sb_wal_reader_open(int directory_fd, const unsigned char *id, struct sb_wal_reader **ret)
{
        return wal_reader_open(directory_fd, -1, id, ret);
}

int sb_wal_reader_go_behind(struct sb_wal_reader *reader, const struct sb_wal_end *damage)
{
        const struct sb_wal_end from = *damage; /* it may be the reader's own */
        const unsigned char *id = from.hash_seed ? from.id : NULL;
        int r = -ENODATA;

        if (from.offset)
                r = wal_reader_read(reader, id, from.file, from.offset);
        if (r == -ENODATA && from.file < UINT64_MAX)
                r = wal_reader_read(reader, id, from.file + 1, 0);
        return r;
}

int sb_wal_reader_open_file(int fd, struct sb_wal_reader **ret)
{
        return wal_reader_open(-1, fd, NULL, ret);
}

const struct sb_wal_end *sb_wal_reader_end(const struct sb_wal_reader *reader)
{
        return &reader->end;
}

uint64_t sb_wal_reader_first_file(const struct sb_wal_reader *reader)
{
        return reader->file_count ? reader->files[0].number : 0;
}

struct sb_wal_reader *sb_wal_reader_close(struct sb_wal_reader *reader)
{
        if (!reader)
                return NULL;
        sb_wal_cursor_leave(&reader->cursor);
        free(reader->files);
        free(reader->limits);
        free(reader->ends);
        free(reader->bytes);
        free(reader->passed);
        sb_wal_gather_end(&reader->gather);
        free(reader);
        return NULL;
}

/* ---- the second pass ---- */

/* Hands out what one frame of a batch says. Return: as sb_wal_reader_visit(). */
static int wal_reader_visit_frame(struct sb_wal_reader *reader, const struct sb_wal_frame *frame,
        const struct sb_wal_visitor *visitor, void *context, bool *skip)
{
        const struct sb_wal_taker taker = {visitor->entry, visitor->ahead, context};
        int r = 0;

        if (frame->flags & SB_WAL_FRAME_FIRST) {
                *skip = false;
                sb_wal_gather_begin(&reader->gather);
                if (visitor->begin)
                        r = visitor->begin(context, &frame->batch, skip);
        }
        if (!r && !*skip && visitor->frame)
                r = visitor->frame(context, frame, reader->bytes + SB_WAL_FRAME_HEAD);
        else if (!r && !*skip)
                r = sb_wal_gather_payload(&reader->gather, reader->bytes + SB_WAL_FRAME_HEAD,
                        frame->payload_len, &taker);
        if (r || !(frame->flags & SB_WAL_FRAME_LAST))
                return r;
        if (!*skip && sb_wal_gather_is_amid(&reader->gather))
                return -EBADMSG;
        return visitor->end ? visitor->end(context, &frame->batch) : 0;
}

int sb_wal_reader_visit(
        struct sb_wal_reader *reader, const struct sb_wal_visitor *visitor, void *context)
{
        struct sb_wal_cursor *cursor = &reader->cursor;
        enum sb_wal_found found;
        struct sb_wal_frame frame;
        bool skip = true;
        int r = 0;

        if (!reader->end.first_sequence)
                return 0;
        sb_wal_cursor_begin(reader);
        while (!r && cursor->sequence < reader->end.sequence) {
                if (cursor->fd < 0)
                        r = sb_wal_cursor_enter(reader);
                r = r ? r : sb_wal_cursor_look_over(reader, &frame, &found);
                if (r)
                        break;
                if (cursor->sequence >= reader->end.sequence)
                        break; /* the last one is passed over */
                if (found == SB_WAL_FOUND_FRAME) {
                        if (!(cursor->begun && cursor->headless) &&
                                !sb_wal_cursor_is_passed(reader, frame.batch.sequence))
                                r = wal_reader_visit_frame(reader, &frame, visitor, context, &skip);
                        sb_wal_cursor_pass(reader, &frame);
                } else if (cursor->index + 1 == reader->file_count ||
                           sb_wal_cursor_cross(reader) <= 0) {
                        r = SB_FAULT(LAST_FRAME_UNCHECKED) ? 0 : -ESTALE;
                        break;
                }
        }
        sb_wal_cursor_leave(cursor);
        return r;
}
