/* The log's files: names, header blocks, lists; see wal-file.h. */
#define _GNU_SOURCE
#include "ring/wal/wal-file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-frame.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"

#define FILE_MARK   0x01020304u
#define FILE_PREFIX "wal-"
#define FILE_SPARE  "wal-spare-"
#define FILE_MIN    (2 * SB_WAL_BLOCK) /* a header and the smallest frame */

enum {
        AT_MAGIC = 0,
        AT_VERSION = 8,
        AT_MARK = 12,
        AT_ID = 16,
        AT_HASH_SEED = 32,
        AT_SALT = 40,
        AT_NUMBER = 48,
        AT_FIRST_SEQUENCE = 56,
        AT_PREVIOUS_CUT = 64,
        AT_REACHES_CUT = 72,
        AT_FIRST_FRAME = 80,
        AT_BLOCK = 84,
        AT_STREAM_OFFSET = 88,
        AT_SIZE = 96,
        AT_LAST_SEQUENCE = 104,
        AT_CHECKSUM = 4088,
};

void sb_wal_file_name(uint64_t number, char ret[SB_WAL_FILE_NAME_MAX])
{
        snprintf(ret, SB_WAL_FILE_NAME_MAX, FILE_PREFIX "%016llx", (unsigned long long)number);
}

void sb_wal_file_spare_name(uint32_t number, char ret[SB_WAL_FILE_NAME_MAX])
{
        snprintf(ret, SB_WAL_FILE_NAME_MAX, FILE_SPARE "%08x", number);
}

void sb_wal_file_encode(const struct sb_wal_file *file, unsigned char *ret_block)
{
        memset(ret_block, 0, SB_WAL_BLOCK);
        memcpy(ret_block + AT_MAGIC, SB_WAL_FILE_MAGIC, 8);
        sb_wal_bytes_put32(ret_block + AT_VERSION, SB_WAL_VERSION);
        sb_wal_bytes_put32(ret_block + AT_MARK, FILE_MARK);
        memcpy(ret_block + AT_ID, file->id, sizeof(file->id));
        sb_wal_bytes_put64(ret_block + AT_HASH_SEED, file->hash_seed);
        sb_wal_bytes_put64(ret_block + AT_SALT, file->salt);
        sb_wal_bytes_put64(ret_block + AT_NUMBER, file->number);
        sb_wal_bytes_put64(ret_block + AT_FIRST_SEQUENCE, file->first_sequence);
        sb_wal_bytes_put64(ret_block + AT_PREVIOUS_CUT, file->previous_cut);
        sb_wal_bytes_put64(ret_block + AT_REACHES_CUT, file->reaches_cut);
        sb_wal_bytes_put32(ret_block + AT_FIRST_FRAME, file->first_frame);
        sb_wal_bytes_put32(ret_block + AT_BLOCK, SB_WAL_BLOCK);
        sb_wal_bytes_put64(ret_block + AT_STREAM_OFFSET, file->stream_offset);
        sb_wal_bytes_put64(ret_block + AT_SIZE, file->size);
        sb_wal_bytes_put64(ret_block + AT_LAST_SEQUENCE, file->last_sequence);
        sb_wal_bytes_put64(ret_block + AT_CHECKSUM, sb_hash_key(ret_block, AT_CHECKSUM, 0));
}

/* Whether a block of another version is a header of this one, but for the version. Fault
 * VERSION_BELIEVED: none is. */
static bool wal_file_was_ours(const unsigned char *block)
{
        unsigned char ours[SB_WAL_BLOCK];

        memcpy(ours, block, sizeof(ours));
        sb_wal_bytes_put32(ours + AT_VERSION, SB_WAL_VERSION);
        return sb_wal_bytes_get64(ours + AT_CHECKSUM) == sb_hash_key(ours, AT_CHECKSUM, 0) &&
               !SB_FAULT(VERSION_BELIEVED);
}

enum sb_wal_header sb_wal_file_decode(
        const unsigned char *block, struct sb_wal_file *ret, uint32_t *ret_version)
{
        uint32_t version = sb_wal_bytes_get32(block + AT_VERSION);
        uint32_t mark = sb_wal_bytes_get32(block + AT_MARK);
        struct sb_wal_file file = {
                .hash_seed = sb_wal_bytes_get64(block + AT_HASH_SEED),
                .salt = sb_wal_bytes_get64(block + AT_SALT),
                .number = sb_wal_bytes_get64(block + AT_NUMBER),
                .first_sequence = sb_wal_bytes_get64(block + AT_FIRST_SEQUENCE),
                .previous_cut = sb_wal_bytes_get64(block + AT_PREVIOUS_CUT),
                .reaches_cut = sb_wal_bytes_get64(block + AT_REACHES_CUT),
                .first_frame = sb_wal_bytes_get32(block + AT_FIRST_FRAME),
                .stream_offset = sb_wal_bytes_get64(block + AT_STREAM_OFFSET),
                .size = sb_wal_bytes_get64(block + AT_SIZE),
                .last_sequence = sb_wal_bytes_get64(block + AT_LAST_SEQUENCE),
        };

        memcpy(file.id, block + AT_ID, sizeof(file.id));
        if (memcmp(block + AT_MAGIC, SB_WAL_FILE_MAGIC, 8) != 0)
                return SB_WAL_HEADER_BAD;
        if (mark == __builtin_bswap32(FILE_MARK))
                return SB_WAL_HEADER_OTHER_ENDIAN;
        if (mark != FILE_MARK)
                return SB_WAL_HEADER_BAD;
        /* What another version has behind its number, this one does not know: not even where its
         * checksum is. But the checksum of a header of this version says that it is one. */
        if (version != SB_WAL_VERSION && !wal_file_was_ours(block)) {
                *ret_version = version;
                return SB_WAL_HEADER_OTHER_VERSION;
        }
        if (version != SB_WAL_VERSION ||
                sb_wal_bytes_get64(block + AT_CHECKSUM) != sb_hash_key(block, AT_CHECKSUM, 0) ||
                sb_wal_bytes_get32(block + AT_BLOCK) != SB_WAL_BLOCK || !file.first_sequence ||
                file.size < FILE_MIN || file.size % SB_WAL_BLOCK != 0 ||
                file.size > (uint64_t)INT64_MAX ||
                (file.last_sequence && file.last_sequence < file.first_sequence))
                return SB_WAL_HEADER_BAD;
        *ret = file;
        return SB_WAL_HEADER_GOOD;
}

int sb_wal_file_read_header(
        int fd, struct sb_wal_file *ret, enum sb_wal_header *ret_header, uint32_t *ret_version)
{
        unsigned char block[SB_WAL_BLOCK];
        ssize_t len = pread(fd, block, sizeof(block), 0);

        if (len < 0)
                return -errno;
        *ret_header = len == sizeof(block) ? sb_wal_file_decode(block, ret, ret_version)
                                           : SB_WAL_HEADER_BAD;
        return 0;
}

int sb_wal_file_open(int directory_fd, uint64_t number, int *ret_fd)
{
        char name[SB_WAL_FILE_NAME_MAX];
        struct stat status;
        int fd, r = 0;

        sb_wal_file_name(number, name);
        /* A FIFO under this name would let the caller wait for ever. */
        fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) /* of a link, a socket, a device that is not there */
                return errno == ELOOP || errno == ENXIO || errno == ENODEV ? -EBADMSG : -errno;
        if (fstat(fd, &status) < 0)
                r = -errno;
        else if (!S_ISREG(status.st_mode))
                r = -EBADMSG;
        if (r)
                close(fd);
        else
                *ret_fd = fd;
        return r;
}

const char *sb_wal_file_other_kind(int directory_fd, uint64_t number)
{
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(number, name);
        return sb_wal_file_name_kind(directory_fd, name);
}

const char *sb_wal_file_name_kind(int directory_fd, const char *name)
{
        struct stat status;

        if (fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return NULL; /* what opens it says why */
        switch (status.st_mode & S_IFMT) {
        case S_IFREG:
                return NULL;
        case S_IFDIR:
                return "a directory";
        case S_IFLNK:
                return "a symbolic link";
        case S_IFIFO:
                return "a FIFO";
        case S_IFSOCK:
                return "a socket";
        default:
                return "a device";
        }
}

/* Whether @name is @prefix and @digits hexadecimal digits, as they are written here. */
static bool wal_file_parse(const char *name, const char *prefix, size_t digits, uint64_t *ret)
{
        size_t prefix_len = strlen(prefix);
        uint64_t number = 0;

        if (strncmp(name, prefix, prefix_len) != 0 || strlen(name) != prefix_len + digits)
                return false;
        for (name += prefix_len; *name; name++) {
                if (*name >= '0' && *name <= '9')
                        number = number << 4 | (uint64_t)(*name - '0');
                else if (*name >= 'a' && *name <= 'f')
                        number = number << 4 | (uint64_t)(*name - 'a' + 10);
                else
                        return false;
        }
        *ret = number;
        return true;
}

static int wal_file_note_number(struct sb_wal_names *names, uint64_t number)
{
        uint64_t *numbers =
                realloc(names->numbers, (names->number_count + 1) * sizeof(*names->numbers));

        if (!numbers)
                return -ENOMEM;
        names->numbers = numbers;
        numbers[names->number_count++] = number;
        return 0;
}

static int wal_file_note_spare(struct sb_wal_names *names, uint32_t number)
{
        uint32_t *spares =
                realloc(names->spares, (names->spare_count + 1) * sizeof(*names->spares));

        if (!spares)
                return -ENOMEM;
        names->spares = spares;
        spares[names->spare_count++] = number;
        return 0;
}

static int wal_file_compare(const void *a, const void *b)
{
        const uint64_t *left = a, *right = b;

        return *left < *right ? -1 : *left > *right;
}

int sb_wal_file_list(int directory_fd, struct sb_wal_names *ret)
{
        struct sb_wal_names names = {0};
        struct dirent *entry;
        uint64_t number;
        DIR *stream;
        int fd, r = 0;

        fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        stream = fd >= 0 ? fdopendir(fd) : NULL;
        if (!stream) {
                r = -errno;
                if (fd >= 0)
                        close(fd);
                return r;
        }
        while (!r && (errno = 0, entry = readdir(stream))) {
                if (wal_file_parse(entry->d_name, FILE_PREFIX, 16, &number))
                        r = wal_file_note_number(&names, number);
                else if (wal_file_parse(entry->d_name, FILE_SPARE, 8, &number))
                        r = wal_file_note_spare(&names, (uint32_t)number);
        }
        r = r ? r : -errno;
        closedir(stream);
        if (r) {
                sb_wal_file_list_end(&names);
                return r;
        }
        if (names.number_count)
                qsort(names.numbers, names.number_count, sizeof(*names.numbers), wal_file_compare);
        *ret = names;
        return 0;
}

int sb_wal_file_list_one(int fd, struct sb_wal_names *ret)
{
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        struct sb_wal_file file = {.number = 1};
        struct sb_wal_names names = {0};
        uint32_t version;
        int r;

        r = sb_wal_file_read_header(fd, &file, &header, &version);
        r = r ? r : wal_file_note_number(&names, file.number);
        if (!r)
                *ret = names;
        return r;
}

void sb_wal_file_list_from(struct sb_wal_names *names, uint64_t first)
{
        size_t skipped = 0;

        while (skipped < names->number_count && names->numbers[skipped] < first)
                skipped++;
        names->number_count -= skipped;
        if (skipped)
                memmove(names->numbers, names->numbers + skipped,
                        names->number_count * sizeof(*names->numbers));
}

void sb_wal_file_list_end(struct sb_wal_names *names)
{
        free(names->numbers);
        free(names->spares);
        *names = (struct sb_wal_names){0};
}

void sb_wal_file_find_run(
        int directory_fd, uint64_t first, uint64_t last, uint64_t *ret_first, uint64_t *ret_last)
{
        enum sb_wal_header header;
        struct sb_wal_names names;
        struct sb_wal_file file;
        uint32_t version;
        int fd;

        if (sb_wal_file_list(directory_fd, &names))
                return;
        for (size_t i = 0; i < names.number_count; i++) {
                if (sb_wal_file_open(directory_fd, names.numbers[i], &fd))
                        continue;
                if (!sb_wal_file_read_header(fd, &file, &header, &version) &&
                        header == SB_WAL_HEADER_GOOD) {
                        if (file.first_sequence <= first)
                                *ret_first = file.number;
                        if (file.first_sequence <= last)
                                *ret_last = file.number;
                }
                close(fd);
        }
        sb_wal_file_list_end(&names);
}
