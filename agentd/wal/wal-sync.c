/* The back end of ordinary system calls; see wal-sync.h. A file is its descriptor. */
#define _GNU_SOURCE
#include "agentd/wal/wal-sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <mimalloc.h>

#include "ring/wal/wal-frame.h"

struct wal_sync {
        int directory_fd;
        unsigned char *buffers[SB_WAL_IO_BUFFERS];
};

int sb_wal_sync_open_file(int directory_fd, const char *name, int flags, int *ret_fd)
{
        int fd = openat(directory_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

int sb_wal_sync_write(int fd, const void *bytes, size_t len, uint64_t file_offset)
{
        const char *from = bytes;

        /* A disk that is full takes a part; why it takes no more it says then. */
        while (len > 0) {
                ssize_t n = pwrite(fd, from, len, (off_t)file_offset);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                from += n;
                len -= (size_t)n;
                file_offset += (uint64_t)n;
        }
        return 0;
}

int sb_wal_sync_rename(int directory_fd, const char *from, const char *to)
{
        return renameat(directory_fd, from, directory_fd, to) < 0 ? -errno : 0;
}

int sb_wal_sync_unlink(int directory_fd, const char *name)
{
        return unlinkat(directory_fd, name, 0) < 0 ? -errno : 0;
}

int sb_wal_sync_directory(int directory_fd)
{
        return fsync(directory_fd) < 0 ? -errno : 0;
}

int sb_wal_sync_random(uint64_t *ret)
{
        uint64_t word;

        if (getrandom(&word, sizeof(word), 0) != (ssize_t)sizeof(word))
                return errno ? -errno : -EIO;
        *ret = word;
        return 0;
}

int sb_wal_sync_take_buffers(struct sb_wal_io *io)
{
        unsigned char *bytes = mmap(NULL, SB_WAL_IO_BUFFERS * (size_t)SB_WAL_FRAME_MAX,
                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (bytes == MAP_FAILED)
                return -errno;
        for (size_t i = 0; i < SB_WAL_IO_BUFFERS; i++)
                io->buffers[i] = bytes + i * SB_WAL_FRAME_MAX;
        io->buffer_size = SB_WAL_FRAME_MAX;
        return 0;
}

void sb_wal_sync_drop_buffers(unsigned char *const *buffers)
{
        (void)munmap(buffers[0], SB_WAL_IO_BUFFERS * (size_t)SB_WAL_FRAME_MAX);
}

/* ---- the table ---- */

static int wal_sync_create(void *context, const char *name, int *ret_file)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_open_file(sync->directory_fd, name, O_RDWR | O_CREAT | O_EXCL, ret_file);
}

static int wal_sync_open(void *context, const char *name, int *ret_file)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_open_file(sync->directory_fd, name, O_RDWR, ret_file);
}

static int wal_sync_write(
        void *context, int file, const void *bytes, size_t len, uint64_t file_offset)
{
        (void)context;
        return sb_wal_sync_write(file, bytes, len, file_offset);
}

static int wal_sync_push(void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_write(file, sync->buffers[buffer], len, file_offset);
}

static int wal_sync_sync(void *context, int file)
{
        (void)context;
        return fdatasync(file) < 0 ? -errno : 0;
}

static int wal_sync_finish(
        void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        int r = wal_sync_push(context, file, buffer, len, file_offset);

        return r ? r : wal_sync_sync(context, file);
}

static void wal_sync_close(void *context, int file)
{
        (void)context;
        close(file);
}

static int wal_sync_rename(void *context, const char *from, const char *to)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_rename(sync->directory_fd, from, to);
}

static int wal_sync_unlink(void *context, const char *name)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_unlink(sync->directory_fd, name);
}

static int wal_sync_directory(void *context)
{
        struct wal_sync *sync = context;

        return sb_wal_sync_directory(sync->directory_fd);
}

static int wal_sync_random(void *context, uint64_t *ret)
{
        (void)context;
        return sb_wal_sync_random(ret);
}

static void wal_sync_fini(void *context)
{
        struct wal_sync *sync = context;

        sb_wal_sync_drop_buffers(sync->buffers);
        mi_free(sync);
}

int sb_wal_sync_open(int directory_fd, struct sb_wal_io *ret)
{
        struct wal_sync *sync = mi_zalloc(sizeof(*sync));
        struct sb_wal_io io = {
                .context = sync,
                .create = wal_sync_create,
                .open = wal_sync_open,
                .write = wal_sync_write,
                .push = wal_sync_push,
                .finish = wal_sync_finish,
                .sync = wal_sync_sync,
                .close = wal_sync_close,
                .rename = wal_sync_rename,
                .unlink = wal_sync_unlink,
                .sync_directory = wal_sync_directory,
                .random = wal_sync_random,
                .fini = wal_sync_fini,
        };
        int r = sync ? sb_wal_sync_take_buffers(&io) : -ENOMEM;

        if (r) {
                mi_free(sync);
                return r;
        }
        sync->directory_fd = directory_fd;
        for (size_t i = 0; i < SB_WAL_IO_BUFFERS; i++)
                sync->buffers[i] = io.buffers[i];
        *ret = io;
        return 0;
}
