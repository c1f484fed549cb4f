/*
 * The log, as a disk may give it back: read (ring/wal/wal-reader.h), and brought back into a
 * segment (agentd/wal/wal-recover.h).
 *
 * Checksums would stop most of what is changed at random at the door, so an input's first byte says
 * what becomes of the others:
 *
 *      bits 0-1, 6     which log they are about (log-seed.h)
 *      bits 2-3        0 changes of it (log-image.h); checksums are not mended: no change may be
 *                        believed
 *                      1 changes of it, and all checksums are right again behind them
 *                      2 they are the first file; with the next byte odd, checksums are right
 *                      3 they are the entries of one batch; the next byte says how long frames are
 *      bit 4           agentd is told to go on from the last whole cut
 *      bit 5           it has a segment that is soon full
 *
 * What must hold, whatever the input: the reader hands out a run of batches without a gap, whole
 * ones, each entry within its bounds; it needs no more memory than its header says, and reads each
 * block a few times. What is brought back is a sound segment, or there is none, and agentd has said
 * why. Where no checksum was mended, each batch is one that was written, in its order, from the
 * first one on, and the segment is the one that an undamaged log gives at that cut; and a log is
 * clean only when nothing of what is missing can be seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/log-image.h"
#include "tests/fuzz/log-loaded.h"
#include "tests/fuzz/log-seed.h"
#include "tests/power/batches.h"

enum { KIND_EDITED, KIND_MENDED, KIND_RAW, KIND_ENTRIES };
#define GO_ON     16u
#define SMALL     32u
#define BATCH_CUT 1000000u
/* Two readers with a frame each, an entry that grows in both, and the private side of a client. */
#define MEMORY_MORE  (2 * SB_WAL_FRAME_MAX + (256u << 10))
#define MEMORY_TIMES 4u /* the bytes of the files */
#define READS_MORE   64u
#define READS_TIMES  20u /* a look and recovery read a log eight times, a block twice */

static struct log_seed seeds[LOG_SEEDS];
/* The segment that the whole log gives at the cut of each batch; the small one behind the large. */
static struct log_loaded states[2 * LOG_SEEDS][LOG_WRITTEN_MAX];
/* The same of LOG_PIECES where its copy lacks a piece, so that all comes from before it. */
static struct log_loaded from_before[2][LOG_WRITTEN_MAX];
static struct log_image image, stored;
static int directory = -1;
static char path[64];

/* ---- what is counted ---- */

/* Memory that was asked for, and reads, since an input came. The program is linked so that these
 * calls come here first (see meson.build). */
static uint64_t asked_bytes, reads;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
        asked_bytes += size;
        return __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
        asked_bytes += count * size;
        return __real_calloc(count, size);
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
        asked_bytes += size;
        return __real_realloc(block, size);
}

ssize_t __real_pread64(int fd, void *bytes, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t len, off_t offset)
{
        reads++;
        return __real_pread64(fd, bytes, len, offset);
}

/* Salts are the same in each run. */
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags)
{
        static unsigned char next;

        (void)flags;
        memset(bytes, ++next, len);
        return (ssize_t)len;
}

/* ---- what the reader hands out ---- */

struct looking {
        const struct log_seed *seed; /* of which each batch must be; NULL: of none */
        uint64_t bytes;              /* of all files */
        uint64_t batches, entries, sequence, cut, hash;
        uint64_t passed;  /* batches that are not handed out, for they have no change */
        uint32_t written; /* which one the last batch is */
        bool open;        /* it has not ended */
};

static bool is_whole(const struct log_seed *seed, uint64_t sequence);

/* Behind the last batch. One that is passed over is bad, and had the cut of that one. */
static void look_between(struct looking *looking, const struct sb_wal_batch *batch)
{
        const struct log_seed *seed = looking->seed;

        FUZZ_CHECK(batch->sequence > looking->sequence && batch->previous_cut == looking->cut);
        for (uint64_t sequence = looking->sequence + 1; sequence < batch->sequence; sequence++) {
                looking->passed++;
                FUZZ_CHECK(!seed || !is_whole(seed, sequence));
                for (uint32_t i = 0; seed && i < seed->written_count; i++)
                        FUZZ_CHECK(seed->written[i].sequence != sequence ||
                                   seed->written[i].cut == looking->cut);
        }
}

static int look_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct looking *looking = context;

        *ret_skip = false;
        FUZZ_CHECK(!looking->open);
        if (looking->batches)
                look_between(looking, batch);
        looking->batches++;
        looking->open = true;
        looking->sequence = batch->sequence;
        looking->cut = batch->cut;
        looking->hash = log_hash_begin(batch);
        return 0;
}

static int look_entry(void *context, const struct sb_wal_entry *entry)
{
        struct looking *looking = context;

        looking->entries++;
        FUZZ_CHECK(looking->open);
        FUZZ_CHECK(looking->entries <= looking->bytes / SB_WAL_ENTRY_HEAD);
        FUZZ_CHECK(entry->key_len <= SB_WAL_ENTRY_KEY_MAX && entry->value_len <= looking->bytes);
        looking->hash = log_hash_entry(looking->hash, entry); /* reads each byte */
        return 0;
}

static int look_end(void *context, const struct sb_wal_batch *batch)
{
        struct looking *looking = context;
        const struct log_seed *seed = looking->seed;

        FUZZ_CHECK(looking->open && batch->sequence == looking->sequence);
        looking->open = false;
        if (!seed)
                return 0;
        for (uint32_t i = 0; i < seed->written_count; i++)
                if (seed->written[i].hash == looking->hash) {
                        looking->written = i;
                        return 0;
                }
        FUZZ_CHECK(!"this batch was never written");
        return 0;
}

static uint32_t first_file(const struct log_seed *seed)
{
        uint32_t i = 0;

        while (!seed->image.files[i].there)
                i++;
        return i;
}

/* Whether a frame is as it was, in a file with its header: the reader can see it. */
static bool is_seen(const struct log_seed *seed, const struct log_frame *frame)
{
        const struct log_file *was = &seed->image.files[frame->file],
                              *is = &image.files[frame->file];

        return is->there && is->size == was->size && !memcmp(is->bytes, was->bytes, SB_WAL_BLOCK) &&
               !memcmp(is->bytes + frame->offset, was->bytes + frame->offset, frame->space);
}

static bool is_whole(const struct log_seed *seed, uint64_t sequence)
{
        for (uint32_t i = 0; i < seed->frame_count; i++)
                if (seed->frames[i].sequence == sequence && !is_seen(seed, &seed->frames[i]))
                        return false;
        return true;
}

/* A log of which something is missing is not clean, as long as a frame behind can be seen. */
static void look_at_ending(const struct log_seed *seed, const struct sb_wal_end *end)
{
        if (end->ending != SB_WAL_CLEAN)
                return;
        for (uint32_t i = 0; i < seed->frame_count; i++)
                FUZZ_CHECK(seed->frames[i].sequence <= end->sequence ||
                           !is_seen(seed, &seed->frames[i]));
}

/* The last ones may be passed over, too. */
static void look_behind(struct looking *looking, const struct sb_wal_end *end)
{
        const struct sb_wal_batch behind = {
                .sequence = end->sequence + 1, .previous_cut = end->cut};

        look_between(looking, &behind);
        FUZZ_CHECK(looking->passed <= end->passed);
}

/* Return: how the log ends; *ret says what it has. */
static struct sb_wal_end look(const struct log_seed *seed, struct looking *ret)
{
        static const struct sb_wal_visitor visitor = {
                .begin = look_begin, .entry = look_entry, .end = look_end};
        struct sb_wal_reader *reader = NULL;
        struct sb_wal_end end;
        int r;

        *ret = (struct looking){.seed = seed, .bytes = log_image_bytes(&image)};
        r = sb_wal_reader_open(directory, NULL, &reader);
        FUZZ_CHECK(!r);
        end = *sb_wal_reader_end(reader);
        r = sb_wal_reader_visit(reader, &visitor, ret);
        sb_wal_reader_close(reader);
        FUZZ_CHECK(!r || r == -EBADMSG || r == -EPROTONOSUPPORT);
        FUZZ_CHECK((end.ending != SB_WAL_DAMAGED) == !end.what);
        if (r) {
                FUZZ_CHECK(!seed);
        } else {
                FUZZ_CHECK(!ret->open);
                if (ret->batches)
                        look_behind(ret, &end);
        }
        if (seed) {
                FUZZ_CHECK(!ret->batches || end.first_sequence == seed->first ||
                           !image.files[first_file(seed)].there);
                look_at_ending(seed, &end);
        }
        return end;
}

/* ---- what is brought back ---- */

/* Whether agentd has to take a log that ends so. */
static bool is_taken(const struct sb_wal_end *end, bool go_on)
{
        return end->ending == SB_WAL_CLEAN || end->ending == SB_WAL_TORN ||
               (end->ending == SB_WAL_DAMAGED && go_on && end->cut);
}

/* Whether this is the bus at the end of a batch. */
static bool is_state(
        uint32_t head, uint32_t kind, uint32_t written, const struct log_loaded *loaded)
{
        bool small = head & SMALL;
        const struct log_loaded *state = &states[2 * kind + small][written],
                                *other = &from_before[small][written];

        return (state->keys && state->digest == loaded->digest) ||
               (kind == LOG_PIECES && other->keys && other->digest == loaded->digest);
}

/* What came back is the log up to the last batch of which all frames are as they were, or a later
 * one, of which zeros behind the payload were changed. */
static void look_at_last(
        uint32_t head, uint32_t kind, const struct log_seed *seed, const struct log_loaded *loaded)
{
        uint64_t last = 0;
        bool found = false;

        if (!seed)
                return;
        for (uint32_t i = 0; i < seed->frame_count; i++)
                if (seed->frames[i].sequence > last && is_whole(seed, seed->frames[i].sequence))
                        last = seed->frames[i].sequence;
        for (uint32_t i = 0; i < seed->written_count; i++)
                found |= seed->written[i].sequence >= last && is_state(head, kind, i, loaded);
        FUZZ_CHECK(found);
}

static void bring_back(
        uint32_t head, uint32_t kind, const struct looking *looking, const struct sb_wal_end *end)
{
        const struct log_seed *seed = looking->seed;
        bool go_on = head & GO_ON, small = head & SMALL;
        const struct log_loaded *state = &states[2 * kind + small][looking->written];
        struct log_loaded loaded;

        log_load(directory, go_on ? end->cut : 0, small, &loaded);
        /* Damage before a whole copy costs nothing: what comes back is the end of the log. */
        if (end->ending == SB_WAL_DAMAGED && !loaded.result && !is_taken(end, go_on)) {
                look_at_last(head, kind, seed, &loaded);
                return;
        }
        if (!is_taken(end, go_on))
                FUZZ_CHECK(loaded.result);
        if (!seed || !is_taken(end, go_on))
                return;
        if (!looking->batches) {
                FUZZ_CHECK(loaded.result || !loaded.keys);
                return;
        }
        /* A log that begins later may lack what was before; one that ends before its copy does. */
        if (end->first_sequence == seed->first && state->keys)
                FUZZ_CHECK(!loaded.result);
        if (!loaded.result && state->keys)
                FUZZ_CHECK(is_state(head, kind, looking->written, &loaded));
}

/* ---- inputs ---- */

/* Bring back what the whole log has up to a cut. */
static void load_whole(
        const struct log_seed *seed, uint64_t cut, bool small, struct log_loaded *ret)
{
        log_image_store(directory, &seed->image, &stored);
        log_load(directory, cut, small, ret);
}

/* What a whole log gives at each of its cuts. */
static void note_states(uint32_t kind)
{
        const struct log_seed *seed = &seeds[kind];
        struct looking looking;
        struct sb_wal_end end;

        log_image_store(directory, &seed->image, &stored);
        log_image_copy(&image, &seed->image);
        end = look(seed, &looking);
        FUZZ_CHECK(end.ending == SB_WAL_CLEAN && looking.sequence == seed->last);
        FUZZ_CHECK(seed->frame_count > 0 && looking.batches == seed->last - seed->first + 1);
        for (uint32_t i = 0; i < seed->written_count; i++) {
                const struct log_written *written = &seed->written[i];

                /* Of two of one sequence the later one is in the log. */
                if (i + 1 < seed->written_count &&
                        seed->written[i + 1].sequence <= written->sequence)
                        continue;
                load_whole(seed, written->cut, false, &states[2 * kind][i]);
                load_whole(seed, written->cut, true, &states[2 * kind + 1][i]);
                if (kind != LOG_COPY)
                        FUZZ_CHECK(!states[2 * kind][i].result && states[2 * kind][i].keys);
        }
        load_whole(seed, 0, false, &states[2 * kind][looking.written]);
        FUZZ_CHECK(!states[2 * kind][looking.written].result);
        FUZZ_CHECK(states[2 * kind][looking.written].keys);
}

/* The same, with a piece of the copy that is bad and passed over. */
static void note_states_from_before(void)
{
        const struct log_seed *seed = &seeds[LOG_PIECES];
        struct log_frame piece = {0};
        struct looking looking;

        for (uint32_t i = 1; i < seed->written_count; i++)
                for (uint32_t j = 0; j < seed->frame_count && !piece.space; j++)
                        if (seed->written[i].cut == seed->written[i - 1].cut &&
                                seed->frames[j].sequence == seed->written[i].sequence)
                                piece = seed->frames[j];
        FUZZ_CHECK(piece.space);
        log_image_copy(&image, &seed->image);
        memset(image.files[piece.file].bytes + piece.offset, 0, SB_WAL_FRAME_HEAD);
        log_image_store(directory, &image, &stored);
        FUZZ_CHECK(look(seed, &looking).ending == SB_WAL_CLEAN && looking.passed == 1);
        for (uint32_t i = 0; i < seed->written_count; i++)
                for (uint32_t small = 0; small < 2; small++) {
                        log_image_store(directory, &image, &stored);
                        log_load(directory, seed->written[i].cut, small, &from_before[small][i]);
                        FUZZ_CHECK(small || (!from_before[0][i].result &&
                                                    from_before[0][i].keys ==
                                                            states[2 * LOG_PIECES][i].keys));
                }
}

static void begin(void)
{
        const char *given = getenv("SB_FUZZ_DIRECTORY");

        directory = given ? open(given, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                          : scratch_make(path, sizeof(path));
        FUZZ_CHECK(directory >= 0);
        for (uint32_t kind = 0; kind < LOG_SEEDS; kind++)
                log_seed_make(kind, directory, &seeds[kind]);
        for (uint32_t kind = 0; kind < LOG_SEEDS; kind++)
                note_states(kind);
        note_states_from_before();
}

/* The header of the first log, and one batch with these entries. */
static void make_entries(struct fuzz_input *input)
{
        uint64_t payload_max = 8 * (1 + fuzz_take(input, 1) * 3);
        struct log_file *file = &image.files[0];
        uint64_t salt = sb_wal_bytes_get64(file->bytes + 40), done = 0;
        uint32_t offset = SB_WAL_BLOCK;
        struct sb_wal_frame frame = {
                .batch = {.sequence = 1, .cut = BATCH_CUT}, .flags = SB_WAL_FRAME_FIRST};

        memset(file->bytes + offset, 0, file->size - offset);
        do {
                unsigned char *bytes = file->bytes + offset;

                frame.payload_len =
                        (uint32_t)(input->left < payload_max ? input->left : payload_max);
                if (frame.payload_len)
                        memcpy(bytes + SB_WAL_FRAME_HEAD, input->at, frame.payload_len);
                input->at += frame.payload_len;
                input->left -= frame.payload_len;
                frame.payload_len = (frame.payload_len + 7) & ~7u;
                frame.stream_offset = done;
                frame.file_offset = offset;
                offset += (uint32_t)sb_wal_frame_space(frame.payload_len);
                if (!input->left || offset + 2 * SB_WAL_BLOCK > file->size)
                        frame.flags |= SB_WAL_FRAME_LAST;
                sb_wal_frame_seal(bytes, &frame, salt);
                done += frame.payload_len;
                frame.index++;
                frame.flags &= ~(uint32_t)SB_WAL_FRAME_FIRST;
        } while (!(frame.flags & SB_WAL_FRAME_LAST));
}

static void make_raw(struct fuzz_input *input)
{
        bool mended = fuzz_take(input, 1) & 1;
        struct log_file *file = &image.files[0];

        file->size = (uint32_t)(input->left < LOG_FILE_MAX ? input->left : LOG_FILE_MAX);
        if (file->size)
                memcpy(file->bytes, input->at, file->size);
        for (uint32_t i = 1; i < LOG_FILES_MAX; i++)
                image.files[i].there = false, image.files[i].size = 0;
        if (mended)
                log_image_mend(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        uint32_t head = (uint32_t)fuzz_take(&input, 1), kind = (head & 3) | (head >> 4 & 4);
        const struct log_seed *seed = NULL;
        struct looking looking;
        struct sb_wal_end end;
        uint64_t bytes;

        if (directory < 0)
                begin();
        if ((head >> 2 & 3) == KIND_RAW || (head >> 2 & 3) == KIND_ENTRIES)
                kind = LOG_PLAIN;
        if (kind >= LOG_SEEDS)
                kind &= 3;
        log_image_copy(&image, &seeds[kind].image);
        switch (head >> 2 & 3) {
        case KIND_EDITED:
                log_image_edit(&image, &input);
                seed = &seeds[kind];
                break;
        case KIND_MENDED:
                log_image_edit(&image, &input);
                log_image_mend(&image);
                break;
        case KIND_RAW:
                make_raw(&input);
                break;
        case KIND_ENTRIES:
                make_entries(&input);
                break;
        }
        log_image_store(directory, &image, &stored);
        bytes = log_image_bytes(&image);
        asked_bytes = reads = 0;
        end = look(seed, &looking);
        bring_back(head, kind, &looking, &end);
        FUZZ_CHECK(asked_bytes <= MEMORY_TIMES * bytes + MEMORY_MORE);
        FUZZ_CHECK(reads <= READS_TIMES * (bytes / SB_WAL_BLOCK + LOG_FILES_MAX) + READS_MORE);
        return 0;
}
