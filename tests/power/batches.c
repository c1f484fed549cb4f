/* Batches that are known by a number; see batches.h. */
#define _GNU_SOURCE
#include "tests/power/batches.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_MAX     (5u << 20)
#define SCRATCHES_MAX 64u

static uint64_t batch_mix(uint64_t seed, uint64_t i)
{
        uint64_t word = seed * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xd1342543de82ef95);

        word ^= word >> 32;
        word *= UINT64_C(0xd6e8feb86659fd93);
        return word ^ word >> 32;
}

static uint32_t batch_count(uint64_t seed)
{
        switch (seed % BATCH_SHAPES) {
        case BATCH_ONE:
        case BATCH_VALUE:
                return 1;
        case BATCH_FEW:
                return 2 + batch_mix(seed, 0) % 7;
        case BATCH_KINDS:
                return 9;
        case BATCH_PAGES:
                return 12;
        case BATCH_FRAMES:
                return 40;
        case BATCH_HUGE:
                return 4;
        }
        return 0;
}

static uint32_t batch_value_len(uint64_t seed, uint64_t word)
{
        switch (seed % BATCH_SHAPES) {
        case BATCH_PAGES:
        case BATCH_FRAMES:
                return 100 + word % 400;
        case BATCH_VALUE:
                return 3000 + word % 9000;
        case BATCH_HUGE:
                return (uint32_t)(word % VALUE_MAX);
        }
        return word % 40;
}

/* The entry with the number @i; its key and value stay until the next call. */
static void batch_entry(uint64_t seed, uint32_t i, struct sb_wal_entry *ret)
{
        static unsigned char key[SB_WAL_ENTRY_KEY_MAX], value[VALUE_MAX];
        uint64_t word = batch_mix(seed, i + 1);

        *ret = (struct sb_wal_entry){
                .kind = seed % BATCH_SHAPES == BATCH_KINDS ? SB_WAL_VALUE + i % 4 : SB_WAL_VALUE,
                .flags = word >> 60 & SB_WAL_BORN,
                .writer = (uint16_t)(word >> 40),
                .key_len = 1 + (word >> 8) % (i % 5 ? 20 : SB_WAL_ENTRY_KEY_MAX / 8),
                .rev = batch_mix(seed, word),
                .stamp = batch_mix(seed + 1, word),
                .transaction = word >> 3 & 1 ? word : 0,
                .expiry_ns = word >> 5 & 1 ? word * 3 : 0,
        };
        if (ret->kind == SB_WAL_VALUE)
                ret->value_len = batch_value_len(seed, word >> 20);
        if (ret->kind == SB_WAL_FLOOR) {
                ret->key_len = 0;
                ret->which = ret->stamp;
                ret->stamp = 0;
        }
        for (uint32_t at = 0; at < ret->key_len; at++)
                key[at] = (unsigned char)(word >> at % 8 * 8) ^ (unsigned char)at;
        for (uint32_t at = 0; at < ret->value_len; at += 8) {
                uint64_t part = batch_mix(word, at);

                memcpy(value + at, &part, ret->value_len - at < 8 ? ret->value_len - at : 8);
        }
        ret->key = key;
        ret->value = value;
}

int batch_write(struct sb_wal_writer *writer, uint64_t seed, uint64_t cut)
{
        struct sb_wal_entry entry;
        int r = sb_wal_writer_begin(writer, cut, seed, batch_mix(seed, cut));

        for (uint32_t i = 0; i < batch_count(seed) && !r; i++) {
                batch_entry(seed, i, &entry);
                r = sb_wal_writer_add(writer, &entry);
        }
        return r ? r : sb_wal_writer_end(writer);
}

/* ---- reading ---- */

uint64_t story_skip;

static int story_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct story *story = context;

        *ret_skip = batch->cut <= story_skip;
        story->skipped += *ret_skip;
        if (story->begun)
                story->wrong = "a batch begins within another";
        if (story->count == 0)
                story->first = batch->sequence;
        else if (batch->sequence != story->first + story->count)
                story->wrong = "a sequence is missing, or comes twice";
        else if (batch->previous_cut != story->cuts[story->count - 1])
                story->wrong = "the cut before is another one";
        if (batch->boottime_ns != batch_mix(batch->realtime_ns, batch->cut))
                story->wrong = "the times of a batch are others";
        if (story->count == STORY_MAX)
                story->wrong = "more batches than were written";
        if (story->wrong)
                return -1;
        story->seeds[story->count] = batch->realtime_ns;
        story->cuts[story->count] = batch->cut;
        story->begun = true;
        story->entry = 0;
        return 0;
}

static bool story_same_entry(const struct sb_wal_entry *a, const struct sb_wal_entry *b)
{
        return a->kind == b->kind && a->flags == b->flags && a->writer == b->writer &&
               a->key_len == b->key_len && a->value_len == b->value_len && a->rev == b->rev &&
               a->stamp == b->stamp && a->which == b->which && a->transaction == b->transaction &&
               a->expiry_ns == b->expiry_ns && !memcmp(a->key, b->key, a->key_len) &&
               !memcmp(a->value, b->value, a->value_len);
}

static int story_entry(void *context, const struct sb_wal_entry *entry)
{
        struct story *story = context;
        struct sb_wal_entry wanted;

        if (!story->begun || story->entry >= batch_count(story->seeds[story->count])) {
                story->wrong = "more entries than were written";
                return -1;
        }
        batch_entry(story->seeds[story->count], story->entry++, &wanted);
        if (!story_same_entry(entry, &wanted)) {
                story->wrong = "an entry is not what was written";
                return -1;
        }
        return 0;
}

static int story_end(void *context, const struct sb_wal_batch *batch)
{
        struct story *story = context;

        if (batch->cut > story_skip && story->entry != batch_count(batch->realtime_ns))
                story->wrong = "fewer entries than were written";
        story->begun = false;
        story->count++;
        return story->wrong ? -1 : 0;
}

static int story_read_from(int directory_fd, bool behind, struct story *ret)
{
        static const struct sb_wal_visitor visitor = {
                .begin = story_begin, .entry = story_entry, .end = story_end};
        struct sb_wal_reader *reader = NULL;
        int r;

        ret->first = 0;
        ret->count = 0;
        ret->skipped = 0;
        ret->wrong = NULL;
        ret->begun = false;
        r = sb_wal_reader_open(directory_fd, NULL, &reader);
        if (r)
                return r;
        /* Each gap lies behind the one before. */
        while (behind && !r && sb_wal_reader_end(reader)->ending == SB_WAL_DAMAGED &&
                strstr(sb_wal_reader_end(reader)->what, "missing"))
                r = sb_wal_reader_go_behind(reader, sb_wal_reader_end(reader));
        ret->end = *sb_wal_reader_end(reader);
        ret->first_file = sb_wal_reader_first_file(reader);
        r = r ? r : sb_wal_reader_visit(reader, &visitor, ret);
        if (ret->begun && !ret->wrong)
                ret->wrong = "a batch has no end";
        sb_wal_reader_close(reader);
        return ret->wrong ? 0 : r;
}

int story_read(int directory_fd, struct story *ret)
{
        return story_read_from(directory_fd, false, ret);
}

int story_read_behind(int directory_fd, struct story *ret)
{
        return story_read_from(directory_fd, true, ret);
}

/* ---- directories ---- */

/* Those of this process that are still there. A test that fails returns at once, and leaves its own
 * to the end of the program. */
static struct {
        char path[64];
        int fd;
        pid_t owner; /* a child has a copy of this, and its parent's directories are not its own */
} scratches[SCRATCHES_MAX];
static uint32_t scratch_count;

static void scratch_end(void)
{
        for (uint32_t i = scratch_count; i-- > 0;)
                if (scratches[i].owner == getpid())
                        scratch_remove(scratches[i].fd, scratches[i].path);
}

static void scratch_note(int fd, const char *path)
{
        static bool ends;

        if (!ends)
                ends = atexit(scratch_end) == 0;
        if (scratch_count == SCRATCHES_MAX)
                return; /* it is removed by scratch_remove() alone */
        scratches[scratch_count].fd = fd;
        scratches[scratch_count].owner = getpid();
        snprintf(scratches[scratch_count++].path, sizeof(scratches[0].path), "%s", path);
}

static void scratch_forget(int fd)
{
        for (uint32_t i = 0; i < scratch_count; i++)
                if (scratches[i].fd == fd) {
                        scratches[i] = scratches[--scratch_count];
                        return;
                }
}

int scratch_make(char *ret_path, uint32_t path_max)
{
        int fd;

        /* Readers come and go by the thousand: their memory stays. */
        mallopt(M_MMAP_THRESHOLD, 64 << 20);
        mallopt(M_TRIM_THRESHOLD, 128 << 20);
        snprintf(ret_path, path_max, "/dev/shm/statebus-test-XXXXXX");
        if (!mkdtemp(ret_path)) {
                snprintf(ret_path, path_max, "/tmp/statebus-test-XXXXXX");
                if (!mkdtemp(ret_path))
                        return -1;
        }
        fd = open(ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                scratch_note(fd, ret_path);
        return fd;
}

/* Remove an entry of a directory, which may be a directory: a log that was put aside is one. */
static void scratch_take_out(int directory_fd, const char *name)
{
        int fd;

        if (unlinkat(directory_fd, name, 0) == 0 || errno != EISDIR)
                return;
        fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return;
        scratch_empty(fd);
        close(fd);
        (void)unlinkat(directory_fd, name, AT_REMOVEDIR);
}

void scratch_empty(int directory_fd)
{
        int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;

        while (stream && (entry = readdir(stream)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        scratch_take_out(directory_fd, entry->d_name);
        if (stream)
                closedir(stream);
}

void scratch_remove(int directory_fd, const char *path)
{
        scratch_empty(directory_fd);
        (void)rmdir(path);
        scratch_forget(directory_fd);
        close(directory_fd);
}
