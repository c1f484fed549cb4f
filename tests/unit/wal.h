/*
 * A log in a directory of its own (ring/wal, agentd/wal): batches are written into it, and read
 * back; and its files are changed behind the writer's back.
 */
#ifndef SB_TEST_UNIT_WAL_H
#define SB_TEST_UNIT_WAL_H

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "shm/base/hash.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"

#define NAME_1 "wal-0000000000000001"
#define NAME_2 "wal-0000000000000002"

static char path[64];
static int dir; /* the log's directory */
static struct sb_wal_io io;
static const char *reason; /* why it is not io_uring */
static struct story story; /* what was read last */
/* Of the next writer: it goes on where write_shapes() ended. */
static struct sb_wal_writer_options options;

/* A directory with no log in it yet. */
static inline bool begin_log(enum sb_wal_backend backend, uint64_t file_size, uint32_t payload_max)
{
        dir = scratch_make(path, sizeof(path));
        options = (struct sb_wal_writer_options){.directory_fd = dir,
                .io = &io,
                .id = "the bus's number",
                .hash_seed = 77,
                .file_size = file_size,
                .payload_max = payload_max,
                .spares_wanted = 2};
        return dir >= 0 && !sb_wal_backend_open(backend, dir, &io, &reason);
}

static inline void end_log(void)
{
        sb_wal_backend_close(&io);
        scratch_remove(dir, path);
}

/* Opens the log, writes batches of the shapes in @shapes, and closes it. */
static inline int write_shapes(const char *shapes)
{
        struct sb_wal_writer *writer;
        int r = sb_wal_writer_open(&options, &writer);

        if (r)
                return r;
        for (; *shapes && !r; shapes++) {
                uint64_t sequence = options.sequence + 1;

                r = batch_write(
                        writer, batch_seed(sequence, (uint32_t)(*shapes - '0')), 10 * sequence);
                if (!r) {
                        options.sequence = sequence;
                        options.cut = 10 * sequence;
                }
        }
        sb_wal_writer_close(writer);
        return r;
}

/* Whether the log has exactly the batches up to @sequence that write_shapes() wrote, whole. */
static inline bool reads_back(uint64_t sequence)
{
        if (story_read(dir, &story) || story.wrong || story.end.ending != SB_WAL_CLEAN ||
                story.end.sequence != sequence || story.count != sequence ||
                story.first != (sequence ? 1 : 0))
                return false;
        for (uint32_t i = 0; i < story.count; i++)
                if (story.cuts[i] != 10 * (i + 1) || story.seeds[i] / BATCH_SHAPES != i + 1)
                        return false;
        return true;
}

static inline bool write_at(const char *name, uint64_t offset, const void *bytes, size_t len)
{
        int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
        bool good = fd >= 0 && pwrite(fd, bytes, len, (off_t)offset) == (ssize_t)len;

        close(fd);
        return good;
}

static inline bool read_at(const char *name, uint64_t offset, void *bytes, size_t len)
{
        int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        bool good = fd >= 0 && pread(fd, bytes, len, (off_t)offset) == (ssize_t)len;

        close(fd);
        return good;
}

/* Changes the first file's header, checksum and all. */
static inline bool change_header(uint64_t offset, uint32_t word)
{
        unsigned char block[SB_WAL_BLOCK];

        if (!read_at(NAME_1, 0, block, sizeof(block)))
                return false;
        sb_wal_bytes_put32(block + offset, word);
        sb_wal_bytes_put64(block + SB_WAL_BLOCK - 8, sb_hash_key(block, SB_WAL_BLOCK - 8, 0));
        return write_at(NAME_1, 0, block, sizeof(block));
}

static inline int truncate_file(const char *name, off_t size)
{
        int fd = openat(dir, name, O_RDWR | O_CLOEXEC), r = ftruncate(fd, size);

        close(fd);
        return r;
}

#endif
