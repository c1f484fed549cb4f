/* The files of a log in memory; see log-image.h. */
#define _GNU_SOURCE
#include "tests/fuzz/log-image.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"
#include "shm/base/hash.h"

#define SECTOR 512u

static void file_copy(struct log_file *to, const struct log_file *from)
{
        to->there = from->there;
        to->size = from->size;
        memcpy(to->bytes, from->bytes, from->size);
}

static bool file_same(const struct log_file *a, const struct log_file *b)
{
        return a->there == b->there && a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

void log_image_copy(struct log_image *to, const struct log_image *from)
{
        for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                file_copy(&to->files[i], &from->files[i]);
}

uint64_t log_image_bytes(const struct log_image *image)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                bytes += image->files[i].size;
        return bytes;
}

/* ---- in a directory ---- */

void log_image_read(int directory_fd, struct log_image *ret)
{
        struct sb_wal_names names;

        for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                ret->files[i].there = false, ret->files[i].size = 0;
        FUZZ_CHECK(!sb_wal_file_list(directory_fd, &names));
        for (size_t i = 0; i < names.number_count; i++) {
                struct log_file *file = &ret->files[names.numbers[i] - 1];
                struct stat status;
                int fd;

                FUZZ_CHECK(names.numbers[i] <= LOG_FILES_MAX);
                FUZZ_CHECK(!sb_wal_file_open(directory_fd, names.numbers[i], &fd));
                FUZZ_CHECK(!fstat(fd, &status) && status.st_size <= LOG_FILE_MAX);
                file->there = true;
                file->size = (uint32_t)status.st_size;
                FUZZ_CHECK(pread(fd, file->bytes, file->size, 0) == (ssize_t)file->size);
                close(fd);
        }
        sb_wal_file_list_end(&names);
}

static void file_store(int directory_fd, uint64_t number, const struct log_file *file)
{
        char name[SB_WAL_FILE_NAME_MAX];
        int fd;

        sb_wal_file_name(number, name);
        if (!file->there) {
                (void)unlinkat(directory_fd, name, 0);
                return;
        }
        fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        FUZZ_CHECK(fd >= 0 && !ftruncate(fd, file->size));
        FUZZ_CHECK(pwrite(fd, file->bytes, file->size, 0) == (ssize_t)file->size);
        close(fd);
}

/* Recovery takes files away that come behind what it was told to bring back. */
static bool file_is_there(int directory_fd, uint64_t number)
{
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(number, name);
        return faccessat(directory_fd, name, F_OK, 0) == 0;
}

void log_image_store(int directory_fd, const struct log_image *image, struct log_image *stored)
{
        for (uint32_t i = 0; i < LOG_FILES_MAX; i++) {
                if (file_same(&image->files[i], &stored->files[i]) &&
                        file_is_there(directory_fd, i + 1) == image->files[i].there)
                        continue;
                file_store(directory_fd, i + 1, &image->files[i]);
                file_copy(&stored->files[i], &image->files[i]);
        }
}

/* ---- changes ---- */

static void edit_copy_block(
        struct log_image *image, struct log_file *to, uint32_t offset, uint32_t word)
{
        const struct log_file *from = &image->files[(word & 15) % LOG_FILES_MAX];
        uint32_t at = (word >> 4) * SB_WAL_BLOCK;

        offset &= ~(SB_WAL_BLOCK - 1);
        if (at + SB_WAL_BLOCK <= from->size && offset + SB_WAL_BLOCK <= to->size)
                memmove(to->bytes + offset, from->bytes + at, SB_WAL_BLOCK);
}

static void edit_swap(struct log_file *one, struct log_file *other)
{
        static struct log_file aside;

        file_copy(&aside, one);
        if (one != other)
                file_copy(one, other);
        file_copy(other, &aside);
}

static void edit_zero(struct log_file *file, uint32_t offset)
{
        offset &= ~(SECTOR - 1);
        if (offset < file->size)
                memset(file->bytes + offset, 0,
                        file->size - offset < SECTOR ? file->size - offset : SECTOR);
}

static void edit_once(struct log_image *image, struct fuzz_input *edits)
{
        uint32_t head = (uint32_t)fuzz_take(edits, 1), offset = (uint32_t)fuzz_take(edits, 2);
        struct log_file *file = &image->files[(head >> 3) % LOG_FILES_MAX];
        uint64_t word;

        switch (head & 7) {
        case 0:
        case 1:
                word = fuzz_take(edits, 1);
                if (offset < file->size)
                        file->bytes[offset] =
                                (unsigned char)(word ^ ((head & 7) == 0 ? file->bytes[offset] : 0));
                break;
        case 2:
                word = fuzz_take(edits, 8);
                if (offset + 8 <= file->size)
                        sb_wal_bytes_put64(file->bytes + offset, word);
                break;
        case 3:
                edit_zero(file, offset);
                break;
        case 4:
                if (offset < file->size)
                        file->size = offset;
                break;
        case 5:
                file->there = false;
                file->size = 0;
                break;
        case 6:
                edit_copy_block(image, file, offset, (uint32_t)fuzz_take(edits, 1));
                break;
        case 7:
                edit_swap(file, &image->files[fuzz_take(edits, 1) % LOG_FILES_MAX]);
                break;
        }
}

void log_image_edit(struct log_image *image, struct fuzz_input *edits)
{
        while (edits->left > 0)
                edit_once(image, edits);
}

/* ---- checksums ---- */

/* What stands at @offset, if it is how a frame begins. */
static void mend_frame(struct log_file *file, uint32_t offset, uint64_t salt)
{
        unsigned char *bytes = file->bytes + offset;
        struct sb_wal_frame frame;

        if (sb_wal_frame_decode(bytes, salt, offset, &frame) &&
                sb_wal_frame_space(frame.payload_len) <= file->size - offset)
                sb_wal_bytes_put64(
                        bytes, sb_hash_key(bytes + 8,
                                       SB_WAL_FRAME_HEAD - 8 + (size_t)frame.payload_len, salt));
}

void log_image_mend(struct log_image *image)
{
        for (uint32_t i = 0; i < LOG_FILES_MAX; i++) {
                struct log_file *file = &image->files[i];
                unsigned char *sum = file->bytes + SB_WAL_BLOCK - 8;
                uint32_t blocks = file->size / SB_WAL_BLOCK;

                if (!blocks)
                        continue;
                sb_wal_bytes_put64(sum, sb_hash_key(file->bytes, SB_WAL_BLOCK - 8, 0));
                /* The last one first: a frame may lie in another one's payload. */
                while (--blocks > 0)
                        mend_frame(
                                file, blocks * SB_WAL_BLOCK, sb_wal_bytes_get64(file->bytes + 40));
        }
}
