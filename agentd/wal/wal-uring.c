/*
 * The back end of io_uring; see wal-uring.h. A file is a place in the table of registered files.
 *
 * Always true: the answer to a request is taken before its buffer or its place is used again. A
 * ring that fails itself (its requests are not taken, or not answered) is never used again: what it
 * holds could be done at any time. From then on all is done by ordinary system calls.
 */
#define _GNU_SOURCE
#include "agentd/wal/wal-uring.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <mimalloc.h>

#include "agentd/wal/wal-sync.h"
#include "shm/base/assert.h"

#define URING_ENTRIES 8u
#define URING_FILES   8u /* open at a time: the writer has two */

struct wal_uring {
        struct io_uring ring;
        int directory_fd;
        unsigned char *buffers[SB_WAL_IO_BUFFERS];
        int fds[URING_FILES]; /* -1: free */
        /* The one frame that is on its way: of which file, and its length; 0: none is. */
        int pushed_file;
        size_t pushed_len;
        int failed[URING_FILES]; /* how a pushed frame failed; 0: none did */
        int broken;              /* how the ring itself failed; 0: it did not */
};

/* What the next request says for itself, by its place in a chain. */
struct wal_uring_answers {
        int results[2];
};

/* Takes the answers of @count requests. Return: 0; -errno: the ring itself fails. */
static int wal_uring_take(
        struct wal_uring *uring, uint32_t count, struct wal_uring_answers *ret_answers)
{
        while (count > 0) {
                struct io_uring_cqe *cqe;
                int r = io_uring_wait_cqe(&uring->ring, &cqe);

                if (r == -EINTR)
                        continue;
                if (r < 0)
                        return uring->broken = r;
                ret_answers->results[io_uring_cqe_get_data64(cqe) & 1] = cqe->res;
                io_uring_cqe_seen(&uring->ring, cqe);
                count--;
        }
        return 0;
}

static int wal_uring_submit(struct wal_uring *uring, uint32_t count)
{
        int r;

        do {
                r = io_uring_submit(&uring->ring);
        } while (r == -EINTR);
        if (r != (int)count)
                return uring->broken = r < 0 ? r : -EIO;
        return 0;
}

/* A place for a request. The ring has more than a writer uses at a time. */
static struct io_uring_sqe *wal_uring_request(struct wal_uring *uring)
{
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

        sb_assert(sqe);
        return sqe;
}

static void wal_uring_ask_write(struct wal_uring *uring, int file, uint32_t buffer, size_t len,
        uint64_t file_offset, uint32_t flags)
{
        struct io_uring_sqe *sqe = wal_uring_request(uring);

        io_uring_prep_write_fixed(
                sqe, file, uring->buffers[buffer], (unsigned)len, file_offset, (int)buffer);
        io_uring_sqe_set_data64(sqe, 0);
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE | flags);
}

static void wal_uring_ask_sync(struct wal_uring *uring, int file)
{
        struct io_uring_sqe *sqe = wal_uring_request(uring);

        io_uring_prep_fsync(sqe, file, IORING_FSYNC_DATASYNC);
        io_uring_sqe_set_data64(sqe, 1);
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
}

static int wal_uring_judge_write(int result, size_t len)
{
        if (result < 0)
                return result;
        return (size_t)result == len ? 0 : -EIO;
}

/* Waits for the frame that is on its way, if one is, and notes how that went with its file. */
static void wal_uring_settle(struct wal_uring *uring)
{
        struct wal_uring_answers answers = {0};
        size_t len = uring->pushed_len;
        int r;

        if (!len)
                return;
        r = uring->broken;
        r = r ? r : wal_uring_take(uring, 1, &answers);
        r = r ? r : wal_uring_judge_write(answers.results[0], len);
        uring->pushed_len = 0;
        uring->failed[uring->pushed_file] = r; /* no frame is pushed behind one that failed */
}

/* The same, and whether a frame of this file has failed before. */
static int wal_uring_ready(struct wal_uring *uring, int file)
{
        wal_uring_settle(uring);
        return uring->failed[file];
}

/* ---- the table ---- */

static int wal_uring_push(
        void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        struct wal_uring *uring = context;
        int r = wal_uring_ready(uring, file);

        if (r)
                return r;
        if (uring->broken)
                return sb_wal_sync_write(
                        uring->fds[file], uring->buffers[buffer], len, file_offset);
        wal_uring_ask_write(uring, file, buffer, len, file_offset, 0);
        r = wal_uring_submit(uring, 1);
        if (r)
                return r;
        uring->pushed_file = file;
        uring->pushed_len = len;
        return 0;
}

static int wal_uring_sync(void *context, int file)
{
        struct wal_uring *uring = context;
        struct wal_uring_answers answers = {0};
        int r = wal_uring_ready(uring, file);

        if (r)
                return r;
        if (uring->broken)
                return fdatasync(uring->fds[file]) < 0 ? -errno : 0;
        wal_uring_ask_sync(uring, file);
        r = wal_uring_submit(uring, 1);
        r = r ? r : wal_uring_take(uring, 1, &answers);
        return r ? r : answers.results[1];
}

/* A frame that is a batch by itself, as a process waits for it. The kernel hands each sync of a
 * ring to a thread of its own. The log has nothing to do meanwhile, so that would be two wake-ups
 * more. */
static int wal_uring_finish_alone(
        struct wal_uring *uring, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        int r = sb_wal_sync_write(uring->fds[file], uring->buffers[buffer], len, file_offset);

        if (r)
                return r;
        return fdatasync(uring->fds[file]) < 0 ? -errno : 0;
}

static int wal_uring_finish(
        void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        struct wal_uring *uring = context;
        struct wal_uring_answers answers = {0};
        bool alone = !uring->pushed_len;
        /* The chain orders its two requests and no earlier ones: those are over before it begins.
         */
        int r = wal_uring_ready(uring, file);

        if (r)
                return r;
        if (alone || uring->broken)
                return wal_uring_finish_alone(uring, file, buffer, len, file_offset);
        wal_uring_ask_write(uring, file, buffer, len, file_offset, IOSQE_IO_LINK);
        wal_uring_ask_sync(uring, file);
        r = wal_uring_submit(uring, 2);
        r = r ? r : wal_uring_take(uring, 2, &answers);
        r = r ? r : wal_uring_judge_write(answers.results[0], len);
        return r ? r : answers.results[1];
}

static int wal_uring_write(
        void *context, int file, const void *bytes, size_t len, uint64_t file_offset)
{
        struct wal_uring *uring = context;
        int r = wal_uring_ready(uring, file);

        return r ? r : sb_wal_sync_write(uring->fds[file], bytes, len, file_offset);
}

static void wal_uring_close(void *context, int file)
{
        struct wal_uring *uring = context;
        int none = -1;

        wal_uring_settle(uring);
        if (!uring->broken)
                (void)io_uring_register_files_update(&uring->ring, (unsigned)file, &none, 1);
        close(uring->fds[file]);
        uring->fds[file] = -1;
        uring->failed[file] = 0;
}

/* Opens a file and registers it. */
static int wal_uring_take_file(struct wal_uring *uring, const char *name, int flags, int *ret_file)
{
        int file = 0, r;

        while (file < (int)URING_FILES && uring->fds[file] >= 0)
                file++;
        if (file == (int)URING_FILES)
                return -EMFILE;
        r = sb_wal_sync_open_file(uring->directory_fd, name, flags, &uring->fds[file]);
        if (r)
                return r;
        r = uring->broken ? 0
                          : io_uring_register_files_update(
                                    &uring->ring, (unsigned)file, &uring->fds[file], 1);
        if (r < 0) {
                close(uring->fds[file]);
                uring->fds[file] = -1;
                return r;
        }
        *ret_file = file;
        return 0;
}

static int wal_uring_create(void *context, const char *name, int *ret_file)
{
        return wal_uring_take_file(context, name, O_RDWR | O_CREAT | O_EXCL, ret_file);
}

static int wal_uring_open(void *context, const char *name, int *ret_file)
{
        return wal_uring_take_file(context, name, O_RDWR, ret_file);
}

static int wal_uring_rename(void *context, const char *from, const char *to)
{
        struct wal_uring *uring = context;

        return sb_wal_sync_rename(uring->directory_fd, from, to);
}

static int wal_uring_unlink(void *context, const char *name)
{
        struct wal_uring *uring = context;

        return sb_wal_sync_unlink(uring->directory_fd, name);
}

static int wal_uring_directory(void *context)
{
        struct wal_uring *uring = context;

        return sb_wal_sync_directory(uring->directory_fd);
}

static int wal_uring_random(void *context, uint64_t *ret)
{
        (void)context;
        return sb_wal_sync_random(ret);
}

static void wal_uring_fini(void *context)
{
        struct wal_uring *uring = context;

        wal_uring_settle(uring);
        for (size_t i = 0; i < URING_FILES; i++)
                if (uring->fds[i] >= 0)
                        close(uring->fds[i]);
        io_uring_queue_exit(&uring->ring);
        sb_wal_sync_drop_buffers(uring->buffers);
        mi_free(uring);
}

/* Registers buffers and places for files with a ring that is there. */
static int wal_uring_register(struct wal_uring *uring, const struct sb_wal_io *io)
{
        struct iovec buffers[SB_WAL_IO_BUFFERS];
        int r;

        for (size_t i = 0; i < SB_WAL_IO_BUFFERS; i++) {
                uring->buffers[i] = io->buffers[i];
                buffers[i].iov_base = io->buffers[i];
                buffers[i].iov_len = io->buffer_size;
        }
        for (size_t i = 0; i < URING_FILES; i++)
                uring->fds[i] = -1;
        r = io_uring_register_buffers(&uring->ring, buffers, SB_WAL_IO_BUFFERS);
        return r ? r : io_uring_register_files(&uring->ring, uring->fds, URING_FILES);
}

int sb_wal_uring_open(int directory_fd, struct sb_wal_io *ret)
{
        struct wal_uring *uring = mi_zalloc(sizeof(*uring));
        struct sb_wal_io io = {
                .context = uring,
                .create = wal_uring_create,
                .open = wal_uring_open,
                .write = wal_uring_write,
                .push = wal_uring_push,
                .finish = wal_uring_finish,
                .sync = wal_uring_sync,
                .close = wal_uring_close,
                .rename = wal_uring_rename,
                .unlink = wal_uring_unlink,
                .sync_directory = wal_uring_directory,
                .random = wal_uring_random,
                .fini = wal_uring_fini,
        };
        int r = uring ? sb_wal_sync_take_buffers(&io) : -ENOMEM;

        if (r)
                goto no_buffers;
        r = io_uring_queue_init(URING_ENTRIES, &uring->ring, 0);
        if (r)
                goto no_ring;
        uring->directory_fd = directory_fd;
        r = wal_uring_register(uring, &io);
        if (r)
                goto not_registered;
        *ret = io;
        return 0;
not_registered:
        io_uring_queue_exit(&uring->ring);
no_ring:
        sb_wal_sync_drop_buffers(io.buffers);
no_buffers:
        mi_free(uring);
        return r;
}
