/*
 * The log's writer; see wal-writer.h.
 *
 * The payload of the frame that is being filled begins behind the space for its header. How much
 * fits is known when the frame begins: the file's end is one limit. A full frame is sealed and
 * pushed when more bytes come, so the one that is open at a batch's end is its last.
 */
#include "agentd/wal/wal-writer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <mimalloc.h>

#include "agentd/wal/wal-files.h"
#include "agentd/wal/wal-named.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"

struct sb_wal_writer {
        struct sb_wal_files files;
        uint32_t payload_max;
        uint64_t sequence, cut; /* of the last durable batch */
        int failed;             /* the first failure since the last resume; 0: none */
        bool nameless;          /* that is how it has failed */
        int file;               /* which is written; -1: none yet */
        uint64_t size;          /* of that file */
        uint64_t offset, salt;  /* where its next frame begins; its salt */
        /* The batch and the frame that are being filled. */
        bool begun;
        struct sb_wal_batch batch;
        uint32_t frame_index, buffer;
        uint32_t payload_len, payload_room;
        uint64_t stream_offset;
        uint64_t written;
        bool unsynced; /* a seeded fault has put off a sync */
};

/* ---- opening ---- */

static bool wal_writer_options_fit(const struct sb_wal_writer_options *options)
{
        return options->file_size % SB_WAL_BLOCK == 0 &&
               (!options->file_size || options->file_size >= 2 * SB_WAL_BLOCK) &&
               options->file_size <= (uint64_t)INT64_MAX && options->payload_max % 8 == 0 &&
               options->payload_max <= SB_WAL_PAYLOAD_MAX &&
               options->spares_wanted <= SB_WAL_SPARES_MAX &&
               options->io->buffer_size >= SB_WAL_FRAME_MAX;
}

int sb_wal_writer_open(const struct sb_wal_writer_options *options, struct sb_wal_writer **ret)
{
        struct sb_wal_writer *writer;
        int r;

        if (!wal_writer_options_fit(options))
                return -EINVAL;
        writer = mi_zalloc(sizeof(*writer));
        if (!writer)
                return -ENOMEM;
        writer->files.io = options->io;
        memcpy(writer->files.id, options->id, sizeof(options->id));
        writer->files.hash_seed = options->hash_seed;
        writer->files.file_size = options->file_size ? options->file_size : SB_WAL_FILE_SIZE;
        writer->files.spares_wanted = options->spares_wanted;
        writer->files.strangers = options->strangers;
        writer->payload_max = options->payload_max ? options->payload_max : SB_WAL_PAYLOAD_MAX;
        writer->sequence = options->sequence;
        writer->cut = options->cut;
        writer->file = -1;
        r = sb_wal_files_open(&writer->files, options->directory_fd);
        r = r ? r : sb_wal_files_settle(&writer->files);
        if (!r && options->sequence + 1 < writer->files.first_sequence)
                r = -EINVAL;
        if (r)
                sb_wal_writer_close(writer);
        else
                *ret = writer;
        return r;
}

static void wal_writer_leave_file(struct sb_wal_writer *writer)
{
        if (writer->file >= 0)
                writer->files.io->close(writer->files.io->context, writer->file);
        writer->file = -1;
}

struct sb_wal_writer *sb_wal_writer_close(struct sb_wal_writer *writer)
{
        if (!writer)
                return NULL;
        wal_writer_leave_file(writer);
        sb_wal_files_close(&writer->files);
        mi_free(writer);
        return NULL;
}

/* From here on every call says so, until the writer is resumed. */
static int wal_writer_fail(struct sb_wal_writer *writer, int r)
{
        writer->failed = r;
        writer->begun = false;
        if (writer->file >= 0)
                sb_wal_files_abandon(&writer->files);
        return r;
}

/* ---- files ---- */

/* Syncs the file that a batch leaves for the next one; fault FSYNC_LEFT_OUT: does not. */
static int wal_writer_sync_part(struct sb_wal_writer *writer)
{
        if (SB_FAULT(FSYNC_LEFT_OUT))
                return 0;
        return writer->files.io->sync(writer->files.io->context, writer->file);
}

/* The log must begin a file before a copy can let old ones go: so that one may be smaller. */
static uint64_t wal_writer_next_size(const struct sb_wal_writer *writer)
{
        return sb_wal_files_next_size(&writer->files, !writer->written);
}

/* Begins the next file, in which the frame @first_frame of the batch behind the last durable one
 * comes first. */
static int wal_writer_next_file(struct sb_wal_writer *writer, uint32_t first_frame)
{
        struct sb_wal_file file = {
                .size = wal_writer_next_size(writer),
                .first_sequence = writer->sequence + 1,
                .previous_cut = writer->cut,
                .reaches_cut = first_frame ? writer->batch.cut : writer->cut,
                .first_frame = first_frame,
                .stream_offset = first_frame ? writer->stream_offset : 0,
        };
        int r = 0;

        /* With another order, a file could say that there are frames before it that are lost. */
        if (first_frame)
                r = wal_writer_sync_part(writer);
        if (r)
                return r;
        wal_writer_leave_file(writer);
        r = sb_wal_files_take(&writer->files, &file, &writer->file);
        if (r)
                return r;
        writer->offset = SB_WAL_BLOCK;
        writer->size = file.size;
        writer->salt = file.salt;
        return 0;
}

/* ---- frames ---- */

uint64_t sb_wal_writer_left(const struct sb_wal_writer *writer)
{
        return writer->file >= 0 ? writer->size - writer->offset : 0;
}

uint64_t sb_wal_writer_room(const struct sb_wal_writer *writer)
{
        return writer->file >= 0 ? sb_wal_writer_left(writer)
                                 : wal_writer_next_size(writer) - SB_WAL_BLOCK;
}

uint64_t sb_wal_writer_old(const struct sb_wal_writer *writer)
{
        return writer->files.count - (writer->files.count && writer->file >= 0);
}

bool sb_wal_writer_is_tight(const struct sb_wal_writer *writer)
{
        return !sb_wal_files_have_room(&writer->files, writer->file >= 0 ? 1 : 2);
}

static void wal_writer_begin_frame(struct sb_wal_writer *writer)
{
        uint64_t left = sb_wal_writer_left(writer);

        /* Where nothing fits any more, the frame goes into the next file. */
        if (!left)
                left = writer->files.file_size - SB_WAL_BLOCK;
        writer->payload_len = 0;
        writer->payload_room = writer->payload_max;
        if (left - SB_WAL_FRAME_HEAD < writer->payload_room)
                writer->payload_room = (uint32_t)(left - SB_WAL_FRAME_HEAD);
}

/* Writes the last frame of a batch for good; fault WATERMARK_EARLY or NEXT_BATCH_BEFORE_FSYNC:
 * leaves the sync for later. */
static int wal_writer_finish(struct sb_wal_writer *writer, size_t len)
{
        const struct sb_wal_io *io = writer->files.io;

        if (SB_FAULT(WATERMARK_EARLY) || (SB_FAULT(NEXT_BATCH_BEFORE_FSYNC) && !writer->unsynced)) {
                writer->unsynced = true;
                return io->push(io->context, writer->file, writer->buffer, len, writer->offset);
        }
        writer->unsynced = false;
        return io->finish(io->context, writer->file, writer->buffer, len, writer->offset);
}

/* Seals the frame that was filled, and writes it. */
static int wal_writer_flush(struct sb_wal_writer *writer, bool last)
{
        const struct sb_wal_io *io = writer->files.io;
        uint64_t space = sb_wal_frame_space(writer->payload_len);
        struct sb_wal_frame frame = {
                .batch = writer->batch,
                .stream_offset = writer->stream_offset,
                .payload_len = writer->payload_len,
                .index = writer->frame_index,
                .flags = (writer->frame_index ? 0u : SB_WAL_FRAME_FIRST) |
                         (last ? SB_WAL_FRAME_LAST : 0u),
        };
        int r = 0;

        if (writer->file < 0 || writer->offset + space > writer->size)
                r = wal_writer_next_file(writer, writer->frame_index);
        if (r)
                return r;
        frame.file_offset = writer->offset;
        sb_wal_frame_seal(io->buffers[writer->buffer], &frame, writer->salt);
        if (last)
                r = wal_writer_finish(writer, space);
        else
                r = io->push(io->context, writer->file, writer->buffer, space, writer->offset);
        if (r)
                return r;
        writer->offset += space;
        writer->written += space;
        writer->stream_offset += writer->payload_len;
        writer->frame_index++;
        writer->buffer ^= 1;
        return 0;
}

/* Puts bytes behind those of the batch. */
static int wal_writer_append(struct sb_wal_writer *writer, const void *bytes, uint64_t len)
{
        const unsigned char *from = bytes;
        int r;

        while (len > 0) {
                uint32_t room = writer->payload_room - writer->payload_len;
                uint32_t part = len < room ? (uint32_t)len : room;

                memcpy(writer->files.io->buffers[writer->buffer] + SB_WAL_FRAME_HEAD +
                                writer->payload_len,
                        from, part);
                writer->payload_len += part;
                from += part;
                len -= part;
                if (!len)
                        break;
                r = wal_writer_flush(writer, false);
                if (r)
                        return r;
                wal_writer_begin_frame(writer);
        }
        return 0;
}

/* ---- batches ---- */

/* What a seeded fault has put off: fault WATERMARK_EARLY syncs a batch when the next one begins. */
static int wal_writer_catch_up(struct sb_wal_writer *writer)
{
        if (!SB_FAULT(WATERMARK_EARLY) || !writer->unsynced)
                return 0;
        writer->unsynced = false;
        return writer->files.io->sync(writer->files.io->context, writer->file);
}

int sb_wal_writer_begin(
        struct sb_wal_writer *writer, uint64_t cut, uint64_t realtime_ns, uint64_t boottime_ns)
{
        uint64_t ahead = SB_FAULT(NEXT_BATCH_BEFORE_FSYNC) && writer->unsynced;
        int r;

        sb_assert(!writer->begun && cut >= writer->cut);
        if (writer->failed)
                return writer->failed;
        r = wal_writer_catch_up(writer);
        if (r)
                return wal_writer_fail(writer, r);
        writer->begun = true;
        writer->batch = (struct sb_wal_batch){
                .sequence = writer->sequence + 1 + ahead,
                .cut = cut,
                .previous_cut = ahead ? writer->batch.cut : writer->cut,
                .realtime_ns = realtime_ns,
                .boottime_ns = boottime_ns,
        };
        writer->frame_index = 0;
        writer->stream_offset = 0;
        wal_writer_begin_frame(writer);
        return 0;
}

int sb_wal_writer_add(struct sb_wal_writer *writer, const struct sb_wal_entry *entry)
{
        static const unsigned char zeros[8];
        uint64_t len = SB_WAL_ENTRY_HEAD + (uint64_t)entry->key_len + entry->value_len;
        unsigned char head[SB_WAL_ENTRY_HEAD];
        int r;

        if (writer->failed)
                return writer->failed;
        sb_assert(writer->begun);
        r = sb_wal_entry_encode(entry, head);
        if (r)
                return r;
        r = wal_writer_append(writer, head, sizeof(head));
        r = r ? r : wal_writer_append(writer, entry->key, entry->key_len);
        r = r ? r : wal_writer_append(writer, entry->value, entry->value_len);
        r = r ? r
              : wal_writer_append(
                        writer, zeros, sb_wal_entry_size(entry->key_len, entry->value_len) - len);
        return r ? wal_writer_fail(writer, r) : 0;
}

int sb_wal_writer_end(struct sb_wal_writer *writer)
{
        int r;

        if (writer->failed)
                return writer->failed;
        sb_assert(writer->begun);
        r = wal_writer_flush(writer, true);
        if (r)
                return wal_writer_fail(writer, r);
        r = sb_wal_writer_look(writer);
        if (r)
                return r;
        writer->begun = false;
        if (SB_FAULT(NEXT_BATCH_BEFORE_FSYNC) && writer->unsynced)
                return 0;
        writer->sequence = writer->batch.sequence;
        writer->cut = writer->batch.cut;
        return 0;
}

int sb_wal_writer_look(struct sb_wal_writer *writer)
{
        int r = sb_wal_named_look(&writer->files, writer->file >= 0);

        if (!r)
                return 0;
        writer->nameless = true;
        return wal_writer_fail(writer, r);
}

bool sb_wal_writer_lacks(const struct sb_wal_writer *writer, uint64_t above, uint64_t last)
{
        return writer->nameless || (writer->sequence && writer->file < 0 && !writer->written &&
                                           sb_wal_named_lacks(&writer->files, above, last));
}

uint64_t sb_wal_writer_file(const struct sb_wal_writer *writer)
{
        return writer->files.count ? writer->files.list[writer->files.count - 1].number : 0;
}

void sb_wal_writer_durable(
        const struct sb_wal_writer *writer, uint64_t *ret_sequence, uint64_t *ret_cut)
{
        *ret_sequence = writer->sequence;
        *ret_cut = writer->cut;
}

uint64_t sb_wal_writer_written(const struct sb_wal_writer *writer)
{
        return writer->written;
}

uint64_t sb_wal_writer_bytes(const struct sb_wal_writer *writer)
{
        uint64_t bytes = 0;

        for (size_t i = 0; i < writer->files.count; i++)
                bytes += writer->files.list[i].size;
        return bytes;
}

int sb_wal_writer_resume(struct sb_wal_writer *writer)
{
        int r;

        wal_writer_leave_file(writer);
        writer->begun = false;
        writer->unsynced = false;
        r = wal_writer_next_file(writer, 0);
        if (r)
                return wal_writer_fail(writer, r);
        writer->failed = 0;
        writer->nameless = false;
        return 0;
}

int sb_wal_writer_prepare(struct sb_wal_writer *writer)
{
        return sb_wal_files_prepare(&writer->files);
}

int sb_wal_writer_release(struct sb_wal_writer *writer, uint64_t cut)
{
        return sb_wal_files_release(&writer->files, cut);
}
