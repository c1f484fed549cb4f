/*
 * The log's files by their names and headers (ring/wal/wal-file.h), and a frame's bytes; no writer
 * is needed for these. What a whole log has: unit-wal, unit-wal-damage.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-stranger.h"
#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"
#include "ring/wal/wal-place.h"
#include "ring/wal/wal-reader.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"

#define NAME_2 "wal-0000000000000002"

static char path[64];
static int dir;

/* An empty file. */
static bool make(const char *name)
{
        int fd = openat(dir, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

        return fd >= 0 && !close(fd);
}

/* A file whose header says that its first frame is of this batch. */
static bool make_from(uint64_t number, uint64_t first_sequence)
{
        struct sb_wal_file file = {.salt = 5,
                .number = number,
                .first_sequence = first_sequence,
                .previous_cut = 10 * (first_sequence - 1),
                .size = 64 << 10};
        unsigned char block[SB_WAL_BLOCK];
        char name[SB_WAL_FILE_NAME_MAX];
        bool good;
        int fd;

        sb_wal_file_name(number, name);
        fd = openat(dir, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        sb_wal_file_encode(&file, block);
        good = fd >= 0 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block) &&
               !ftruncate(fd, 64 << 10);
        close(fd);
        return good;
}

/* Whatever the memory had, so that the checksum is of nothing else. */
static void test_a_header_has_zeros_where_it_says_nothing(void)
{
        struct sb_wal_file file = {.salt = 5, .number = 2, .first_sequence = 3, .size = 64 << 10};
        unsigned char one[SB_WAL_BLOCK], other[SB_WAL_BLOCK];

        memset(one, 0xaa, sizeof(one));
        memset(other, 0x55, sizeof(other));
        sb_wal_file_encode(&file, one);
        sb_wal_file_encode(&file, other);
        CHECK(!memcmp(one, other, sizeof(one)));
}

static void test_other_names_are_no_files_of_the_log(void)
{
        static const char *const others[] = {"wal-000000000000000g", "wal-000000000000000A",
                "wal-00000000000000 1", "wal-spare-0000000:", "wal-1", "wal-spare-000000001",
                "wal-", "Wal-0000000000000001"};
        struct sb_wal_names names;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0);
        for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                CHECK(make(others[i]));
        CHECK_EQ(sb_wal_file_list(dir, &names), 0);
        CHECK(!names.number_count && !names.spare_count);
        sb_wal_file_list_end(&names);
        CHECK(make("wal-00000000000000af") && make("wal-spare-00000019"));
        CHECK_EQ(sb_wal_file_list(dir, &names), 0);
        CHECK(names.number_count == 1 && names.numbers[0] == 0xaf && names.spare_count == 1);
        sb_wal_file_list_end(&names);
        scratch_remove(dir, path);
}

/* agentctl may be started without a standard input. */
static void test_files_are_listed_by_descriptor_0_too(void)
{
        struct sb_wal_names names;
        int kept, r;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && make("wal-0000000000000001"));
        kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        close(STDIN_FILENO);
        r = sb_wal_file_list(dir, &names);
        if (kept >= 0) {
                dup2(kept, STDIN_FILENO);
                close(kept);
        }
        CHECK_EQ(r, 0);
        CHECK_EQ(names.number_count, 1);
        sb_wal_file_list_end(&names);
        scratch_remove(dir, path);
}

static uint32_t readable = UINT32_MAX; /* so many entries of directories can be read */

struct dirent *__real_readdir64(DIR *stream);
struct dirent *__wrap_readdir64(DIR *stream);
struct dirent *__wrap_readdir64(DIR *stream)
{
        if (readable == 0) {
                errno = EIO;
                return NULL;
        }
        readable--;
        return __real_readdir64(stream);
}

/* Else a log would seem to end before its last files, or to begin behind its first ones. */
static void test_a_directory_that_cannot_be_read_to_its_end_is_no_shorter_log(void)
{
        struct sb_wal_names names = {.number_count = 77};
        int free_fd, fd;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && make("wal-0000000000000001") && make("wal-0000000000000002"));
        free_fd = dup(dir);
        close(free_fd);
        CHECK_EQ(sb_wal_file_list(free_fd, &names), -EBADF);
        for (uint32_t i = 0; i <= 4; i++) {
                readable = i;
                CHECK_EQ(sb_wal_file_list(dir, &names), -EIO);
                CHECK_EQ(names.number_count, 77);
        }
        readable = UINT32_MAX;
        CHECK_EQ(sb_wal_file_list(dir, &names), 0);
        CHECK_EQ(names.number_count, 2);
        sb_wal_file_list_end(&names);
        fd = dup(dir);
        CHECK_EQ(fd, free_fd);
        close(fd);
        scratch_remove(dir, path);
}

/* What was in the buffer before comes to no disk. */
static void test_behind_a_payload_a_frame_is_zero(void)
{
        static unsigned char bytes[3 * SB_WAL_BLOCK];
        struct sb_wal_frame frame = {.batch = {.sequence = 1, .cut = 2}};

        for (frame.payload_len = 0; frame.payload_len < 5000; frame.payload_len += 619) {
                uint64_t space = sb_wal_frame_space(frame.payload_len);

                memset(bytes, 0xff, sizeof(bytes));
                sb_wal_frame_seal(bytes, &frame, 7);
                for (uint64_t i = SB_WAL_FRAME_HEAD; i < sizeof(bytes); i++)
                        CHECK_EQ(bytes[i],
                                i < SB_WAL_FRAME_HEAD + frame.payload_len || i >= space ? 0xff : 0);
        }
}

static void test_a_full_frame_is_one_and_a_longer_one_is_none(void)
{
        static unsigned char bytes[SB_WAL_FRAME_MAX];
        struct sb_wal_frame frame = {.batch = {.sequence = 1, .cut = 2},
                .file_offset = SB_WAL_BLOCK,
                .payload_len = SB_WAL_PAYLOAD_MAX};
        struct sb_wal_frame read;

        sb_wal_frame_seal(bytes, &frame, 7);
        CHECK(sb_wal_frame_decode(bytes, 7, SB_WAL_BLOCK, &read));
        CHECK(read.payload_len == SB_WAL_PAYLOAD_MAX && sb_wal_frame_is_whole(bytes, &read, 7));
        sb_wal_bytes_put32(bytes + 20, SB_WAL_PAYLOAD_MAX + 1);
        CHECK(!sb_wal_frame_decode(bytes, 7, SB_WAL_BLOCK, &read));
}

/* The reader keeps one buffer, which has the last frame in it still. */
static void test_where_a_file_has_become_shorter_stands_nothing(void)
{
        static unsigned char bytes[SB_WAL_FRAME_MAX];
        struct sb_wal_file file = {.salt = 7, .size = 3 * SB_WAL_BLOCK};
        struct sb_wal_frame frame = {.batch = {.sequence = 1, .cut = 2},
                .file_offset = SB_WAL_BLOCK,
                .payload_len = SB_WAL_BLOCK};
        struct sb_wal_place place;
        int fd;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && make(NAME_2));
        fd = openat(dir, NAME_2, O_RDWR | O_CLOEXEC);
        memset(bytes + SB_WAL_FRAME_HEAD, 0x55, frame.payload_len);
        sb_wal_frame_seal(bytes, &frame, 7);
        CHECK(pwrite(fd, bytes, 2 * SB_WAL_BLOCK, SB_WAL_BLOCK) == 2 * SB_WAL_BLOCK);
        CHECK(!sb_wal_place_read(fd, &file, SB_WAL_BLOCK, bytes, &place) && place.whole);
        /* Within its payload, and before it. */
        CHECK(!ftruncate(fd, 2 * SB_WAL_BLOCK + 50));
        CHECK(!sb_wal_place_read(fd, &file, SB_WAL_BLOCK, bytes, &place));
        CHECK(place.headed && !place.whole);
        memset(bytes + SB_WAL_FRAME_HEAD, 0x55, frame.payload_len);
        sb_wal_frame_seal(bytes, &frame, 7);
        CHECK(!ftruncate(fd, SB_WAL_BLOCK));
        CHECK(!sb_wal_place_read(fd, &file, SB_WAL_BLOCK, bytes, &place));
        CHECK(!place.begins && !place.headed && !place.whole);
        close(fd);
        scratch_remove(dir, path);
}

/* ---- the next place ---- */

#define PLACES 300u

static const unsigned begun[] = {1, 2, 5, 16, 70, 71, 200};

/* The first of them from that block on, of so many blocks; @count: none is. */
static unsigned begun_from(unsigned block, unsigned count)
{
        for (unsigned i = 0; i < sizeof(begun) / sizeof(begun[0]); i++)
                if (begun[i] >= block)
                        return begun[i] < count ? begun[i] : count;
        return count;
}

static bool begin_at(int fd, unsigned block)
{
        unsigned char salt[8];

        sb_wal_bytes_put64(salt, 7);
        return pwrite(fd, salt, sizeof(salt), (off_t)block * SB_WAL_BLOCK + 8) ==
               (ssize_t)sizeof(salt);
}

static void test_the_next_place_is_the_one_that_a_look_at_each_finds(void)
{
        static unsigned char bytes[SB_WAL_FRAME_MAX];
        /* No place is at its end, which is within a block. */
        struct sb_wal_file file = {.salt = 7, .size = PLACES * SB_WAL_BLOCK + 100};
        struct sb_wal_place place;
        int fd;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && make(NAME_2));
        fd = openat(dir, NAME_2, O_RDWR | O_CLOEXEC);
        CHECK(!ftruncate(fd, (off_t)file.size));
        for (unsigned i = 0; i < sizeof(begun) / sizeof(begun[0]); i++)
                CHECK(begin_at(fd, begun[i]));
        CHECK(begin_at(fd, PLACES));
        for (unsigned block = 0; block <= PLACES; block++) {
                uint64_t first = (uint64_t)block * SB_WAL_BLOCK, offset = first, end = UINT64_MAX;
                unsigned expected = begun_from(block, PLACES);

                CHECK(!sb_wal_place_next(fd, &file, &end, &offset, bytes, &place));
                CHECK_EQ(place.begins, expected < PLACES);
                CHECK_EQ(offset,
                        place.begins ? (uint64_t)expected * SB_WAL_BLOCK : (uint64_t)file.size);
                CHECK_EQ(end, place.begins ? UINT64_MAX : first);
                if (place.begins)
                        continue;
                /* What is known to be empty is not read. */
                for (uint64_t again = first; again <= file.size; again += 16 * SB_WAL_BLOCK) {
                        offset = again;
                        CHECK(!sb_wal_place_next(-1, &file, &end, &offset, bytes, &place));
                        CHECK(!place.begins && offset == file.size && end == first);
                }
                offset = 0;
                CHECK(!sb_wal_place_next(fd, &file, &end, &offset, bytes, &place));
                CHECK(place.begins && offset == SB_WAL_BLOCK && end == first);
        }
        close(fd);
        scratch_remove(dir, path);
}

/* A process's memory is a file, of which a part cannot be read. */
static void test_a_place_that_cannot_be_read_counts_where_it_is_come_to(void)
{
        static unsigned char bytes[SB_WAL_FRAME_MAX];
        unsigned char *memory = mmap(NULL, (size_t)64 * SB_WAL_BLOCK, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t first = (uintptr_t)memory, offset = first, end = UINT64_MAX;
        struct sb_wal_file file = {.salt = 7, .size = first + (uint64_t)64 * SB_WAL_BLOCK};
        int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        struct sb_wal_place place;

        CHECK(memory != MAP_FAILED && fd >= 0);
        sb_wal_bytes_put64(memory + 16 * SB_WAL_BLOCK + 8, 7);
        CHECK(!munmap(memory + (size_t)20 * SB_WAL_BLOCK, SB_WAL_BLOCK));
        CHECK(!sb_wal_place_next(fd, &file, &end, &offset, bytes, &place));
        CHECK(place.begins && offset == first + 16 * SB_WAL_BLOCK);
        offset += SB_WAL_BLOCK;
        CHECK_EQ(sb_wal_place_next(fd, &file, &end, &offset, bytes, &place), -EIO);
        CHECK_EQ(end, UINT64_MAX);
        offset = first + 21 * SB_WAL_BLOCK;
        CHECK(!sb_wal_place_next(fd, &file, &end, &offset, bytes, &place));
        CHECK(!place.begins && end == first + 21 * SB_WAL_BLOCK);
        close(fd);
        munmap(memory, (size_t)64 * SB_WAL_BLOCK);
}

/* ---- several files ---- */

/* Whether batches @first to @last are said to begin in one file and to end in the other. */
static bool finds(uint64_t first, uint64_t last, uint64_t first_file, uint64_t last_file)
{
        uint64_t found_first = 0, found_last = 0;

        sb_wal_file_find_run(dir, first, last, &found_first, &found_last);
        return found_first == first_file && found_last == last_file;
}

static void test_the_files_of_a_run_of_batches_are_found_by_their_headers(void)
{
        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && finds(1, 9, 0, 0));
        CHECK(make_from(2, 1) && make_from(3, 5) && make_from(5, 9));
        CHECK(finds(1, 4, 2, 2) && finds(4, 5, 2, 3) && finds(5, 8, 3, 3) && finds(6, 100, 3, 5));
        /* One that has no header says nothing. */
        CHECK(make("wal-0000000000000004") && finds(6, 8, 3, 3) && finds(1, 9, 2, 5));
        scratch_remove(dir, path);
}

/* Whether a reader says that file 2 is no file, but that, and leaves it there. */
static bool is_named(const char *kind)
{
        struct sb_wal_reader *reader = NULL;
        const struct sb_wal_end *end;
        bool named = !sb_wal_reader_open(dir, NULL, &reader);
        int fd;

        end = named ? sb_wal_reader_end(reader) : NULL;
        named = named && end->ending == SB_WAL_NO_FILE && end->file == 2 &&
                !strcmp(end->what, kind) && !end->hash_seed && !end->sequence;
        sb_wal_reader_close(reader);
        if (sb_wal_file_open(dir, 2, &fd) != -EBADMSG)
                return false;
        return !unlinkat(dir, NAME_2, strcmp(kind, "a directory") ? 0 : AT_REMOVEDIR) && named;
}

static void test_what_is_no_file_is_no_damage_and_is_named(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && make_from(1, 1) && make_from(3, 5));
        CHECK(!symlinkat("wal-0000000000000001", dir, NAME_2) && is_named("a symbolic link"));
        CHECK(!symlinkat("nowhere", dir, NAME_2) && is_named("a symbolic link"));
        CHECK(!mkfifoat(dir, NAME_2, 0600) && is_named("a FIFO"));
        CHECK(!mkdirat(dir, NAME_2, 0700) && is_named("a directory"));
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" NAME_2, dir);
        CHECK(!bind(fd, (struct sockaddr *)&address, sizeof(address)) && is_named("a socket"));
        close(fd);
        /* Damage before it does not hide it. */
        CHECK(!unlinkat(dir, "wal-0000000000000001", 0) && make("wal-0000000000000001"));
        CHECK(!mkfifoat(dir, NAME_2, 0600) && is_named("a FIFO"));
        scratch_remove(dir, path);
}

/* The next file's name is cleared of what is no file of this log: also of one that is a good file
 * of another log. */
static void test_a_file_of_another_log_keeps_what_it_has_under_another_name(void)
{
        static const unsigned char own[16], others[16] = "another one";
        struct sb_wal_io io;
        const char *reason;

        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0 && !sb_wal_backend_open(SB_WAL_SYNC, dir, &io, &reason));
        CHECK_EQ(sb_wal_stranger_clear(NULL, &io, dir, 2, own), 0); /* there is none */
        CHECK(make_from(2, 1));
        CHECK_EQ(sb_wal_stranger_clear(NULL, &io, dir, 2, own), 0);
        CHECK_EQ(faccessat(dir, NAME_2, F_OK, 0), 0);
        CHECK_EQ(sb_wal_stranger_clear(NULL, &io, dir, 2, others), 0);
        CHECK(faccessat(dir, NAME_2, F_OK, 0) < 0);
        CHECK_EQ(faccessat(dir, NAME_2 ".stranger-1", F_OK, 0), 0);
        /* And of one without a header, whatever it has in the place of an id. */
        CHECK(make(NAME_2) && !sb_wal_stranger_clear(NULL, &io, dir, 2, own));
        CHECK_EQ(faccessat(dir, NAME_2 ".stranger-2", F_OK, 0), 0);
        sb_wal_backend_close(&io);
        scratch_remove(dir, path);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_header_has_zeros_where_it_says_nothing);
        RUN(test_other_names_are_no_files_of_the_log);
        RUN(test_files_are_listed_by_descriptor_0_too);
        RUN(test_a_directory_that_cannot_be_read_to_its_end_is_no_shorter_log);
        RUN(test_behind_a_payload_a_frame_is_zero);
        RUN(test_a_full_frame_is_one_and_a_longer_one_is_none);
        RUN(test_where_a_file_has_become_shorter_stands_nothing);
        RUN(test_the_next_place_is_the_one_that_a_look_at_each_finds);
        RUN(test_a_place_that_cannot_be_read_counts_where_it_is_come_to);
        RUN(test_the_files_of_a_run_of_batches_are_found_by_their_headers);
        RUN(test_what_is_no_file_is_no_damage_and_is_named);
        RUN(test_a_file_of_another_log_keeps_what_it_has_under_another_name);
        return test_end();
}
