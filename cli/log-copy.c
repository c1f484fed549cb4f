/* A log, copied into one file; see log-copy.h. */
#include "cli/log-copy.h"

#include <errno.h>
#include <mimalloc.h>
#include <string.h>
#include <sys/random.h>

#include "cli/progress.h"
#include "ring/wal/wal-file.h"

struct log_copy {
        const struct cli_logged *logged;
        struct cli_partial *partial;
        struct sb_wal_file file; /* what its header will say; its size: what was written so far */
        struct cli_log_copied copied;
        struct cli_progress progress;
        uint64_t last_sequence; /* that was begun */
        unsigned char *bytes;   /* one frame */
};

static int log_copy_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct log_copy *copy = context;

        *ret_skip = batch->sequence < copy->logged->sum.since;
        if (*ret_skip)
                return 0;
        /* A batch that is passed over stays a bad one: a block of zeros. */
        if (copy->last_sequence && batch->sequence != copy->last_sequence + 1)
                copy->file.size += SB_WAL_BLOCK;
        copy->last_sequence = batch->sequence;
        if (copy->file.first_sequence)
                return 0;
        copy->file.first_sequence = batch->sequence;
        copy->file.previous_cut = copy->file.reaches_cut = batch->previous_cut;
        return 0;
}

static int log_copy_frame(
        void *context, const struct sb_wal_frame *frame, const unsigned char *payload)
{
        struct log_copy *copy = context;
        struct sb_wal_frame placed = *frame;
        const uint64_t space = sb_wal_frame_space(frame->payload_len);
        int r;

        placed.file_offset = copy->file.size;
        memcpy(copy->bytes + SB_WAL_FRAME_HEAD, payload, frame->payload_len);
        sb_wal_frame_seal(copy->bytes, &placed, copy->file.salt);
        r = cli_partial_write(copy->partial, copy->bytes, space, placed.file_offset);
        if (r)
                return r;
        copy->file.size += space;
        if (frame->flags & SB_WAL_FRAME_LAST) {
                copy->file.last_sequence = frame->batch.sequence;
                copy->copied.batches++;
        }
        cli_progress_step(&copy->progress, copy->copied.batches, copy->file.size);
        return 0;
}

/* Write the header, when all frames are there. */
static int log_copy_close(struct log_copy *copy)
{
        unsigned char block[SB_WAL_BLOCK];

        /* What the first reading listed is what was copied. */
        if (copy->file.first_sequence != copy->logged->sum.since ||
                copy->file.last_sequence != copy->logged->sum.sequence)
                return -ESTALE;
        sb_wal_file_encode(&copy->file, block);
        return cli_partial_write(copy->partial, block, sizeof(block), 0);
}

static int log_copy_all(struct log_copy *copy)
{
        static const struct sb_wal_visitor visitor = {

                .begin = log_copy_begin, .frame = log_copy_frame};
        int r;

        copy->bytes = mi_malloc(SB_WAL_FRAME_MAX);
        if (!copy->bytes)
                return -ENOMEM;
        if (getrandom(&copy->file.salt, sizeof(copy->file.salt), 0) !=
                        (ssize_t)sizeof(copy->file.salt) ||
                getrandom(copy->file.id, sizeof(copy->file.id), 0) !=
                        (ssize_t)sizeof(copy->file.id))
                r = -EIO;
        else
                r = sb_wal_reader_visit(copy->logged->reader, &visitor, copy);
        mi_free(copy->bytes);
        return r ? r : log_copy_close(copy);
}

int cli_log_copy(const struct cli_logged *logged, const char *what, struct cli_partial *partial,
        struct cli_log_copied *ret)
{
        struct log_copy copy = {.logged = logged,
                .partial = partial,
                .file = {.number = 1, .size = SB_WAL_BLOCK, .hash_seed = logged->end.hash_seed}};
        int r;

        cli_progress_begin(&copy.progress, what, 0);
        copy.progress.unit = "batches";
        r = log_copy_all(&copy);
        cli_progress_end(&copy.progress);
        if (r)
                return r;
        copy.copied.first_sequence = copy.file.first_sequence;
        copy.copied.sequence = logged->sum.sequence;
        copy.copied.cut = logged->sum.cut;
        copy.copied.realtime_ns = logged->sum.realtime_ns;
        copy.copied.bytes = copy.file.size;
        *ret = copy.copied;
        return 0;
}
