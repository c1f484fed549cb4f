/*
 * Recovery (agentd/wal/wal-recover.h) from logs whose batches are written by hand: which entries of
 * a batch count, and for what; and which logs are refused, for files of them are missing. Logs that
 * are changed at random: tests/fuzz/fuzz-log.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "ring/wal/wal-file.h"
#include "tests/fuzz/log-loaded.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/unit/blocks.h"

#define FLOOR     7u /* words of the bus */
#define FORGOTTEN 5u
#define BUCKETS   64u
#define FILE_SIZE (64u << 10)
#define NAME_1    "wal-0000000000000001"
#define NAME_2    "wal-0000000000000002"
#define NAME_3    "wal-0000000000000003"
#define NAME_0    "wal-0000000000000000"
#define NAME_5    "wal-0000000000000005"

static char path[64];
static int dir = -1;
static struct sb_wal_io io;
static struct sb_wal_writer_options options;
static struct sb_wal_writer *writer;
static uint64_t clock; /* the cut of the last batch */

/* ---- logs ---- */

static bool begin_log(void)
{
        const char *reason;

        options = (struct sb_wal_writer_options){.io = &io,
                .id = "the bus's number",
                .hash_seed = 77,
                .file_size = FILE_SIZE,
                .payload_max = 4000};
        clock = 10;
        dir = scratch_make(path, sizeof(path));
        options.directory_fd = dir;
        return dir >= 0 && !sb_wal_backend_open(SB_WAL_SYNC, dir, &io, &reason) &&
               !sb_wal_writer_open(&options, &writer);
}

static bool end_log(struct log_loaded *ret)
{
        sb_wal_writer_close(writer);
        sb_wal_backend_close(&io);
        log_load(dir, 0, false, ret);
        scratch_remove(dir, path);
        return !ret->result && blocks == 0; /* a supervisor that recovers lives on */
}

static bool begin_batch(void)
{
        return !sb_wal_writer_begin(writer, clock + 10, clock * 1000000000, clock * 1000000000);
}

static bool end_batch(void)
{
        clock += 10;
        options.sequence++;
        options.cut = clock;
        return !sb_wal_writer_end(writer);
}

static bool add(enum sb_wal_kind kind, uint64_t which, uint64_t rev)
{
        struct sb_wal_entry entry = {.kind = kind, .which = which, .rev = rev};

        return !sb_wal_writer_add(writer, &entry);
}

static bool add_words(void)
{
        return add(SB_WAL_WORD, SB_WAL_WORD_HISTORY_FLOOR, FLOOR) &&
               add(SB_WAL_WORD, SB_WAL_WORD_FORGOTTEN, FORGOTTEN);
}

/* First versions of keys 0 to @count. */
static bool add_keys(uint32_t count)
{
        bool added = true;

        for (uint32_t i = 0; i < count; i++) {
                char name[16];
                struct sb_wal_entry entry = {.kind = SB_WAL_VALUE,
                        .flags = SB_WAL_BORN,
                        .writer = 1,
                        .key = name,
                        .key_len = (uint32_t)snprintf(name, sizeof(name), "key-%u", i),
                        .value = "value",
                        .value_len = 5,
                        .rev = 1,
                        .stamp = 12 + i % 5};

                added = added && !sb_wal_writer_add(writer, &entry);
        }
        return added;
}

/* All of the bus, as a log says it that does not know what the one before it had taken. */
static bool write_whole(uint32_t keys)
{
        return begin_batch() && add(SB_WAL_WORD, SB_WAL_WORD_WHOLE, 0) && add_keys(keys) &&
               add_words() && end_batch();
}

/* A log of so many files, with a batch in each: the first one has the whole bus, at cut 20, and the
 * others have changes up to cuts 30, 40 and so on. */
static bool write_files(uint32_t count)
{
        bool written = begin_log() && write_whole(3);

        for (uint32_t i = 1; i < count && written; i++) {
                sb_wal_writer_close(writer);
                written = !sb_wal_writer_open(&options, &writer) && begin_batch() && add_words() &&
                          end_batch();
        }
        sb_wal_writer_close(writer);
        sb_wal_backend_close(&io);
        return written;
}

/* Leaves the file its header alone; @size: of the file then. */
static bool empty_file(const char *name, off_t size)
{
        int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
        bool emptied = fd >= 0 && !ftruncate(fd, SB_WAL_BLOCK) && !ftruncate(fd, size);

        close(fd);
        return emptied;
}

/* Changes one byte. */
static bool change_file(const char *name, off_t offset)
{
        int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
        char byte = 0;
        bool changed = fd >= 0 && pread(fd, &byte, 1, offset) == 1;

        byte ^= 1;
        changed = changed && pwrite(fd, &byte, 1, offset) == 1;
        close(fd);
        return changed;
}

/* Has its header name another bus. */
static bool change_id(const char *name)
{
        unsigned char block[SB_WAL_BLOCK];
        int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
        bool changed = fd >= 0 && pread(fd, block, sizeof(block), 0) == SB_WAL_BLOCK;
        struct sb_wal_file file = {0};
        uint32_t version;

        changed = changed && sb_wal_file_decode(block, &file, &version) == SB_WAL_HEADER_GOOD;
        file.id[0] ^= 1;
        sb_wal_file_encode(&file, block);
        changed = changed && pwrite(fd, block, sizeof(block), 0) == SB_WAL_BLOCK;
        close(fd);
        return changed;
}

/* Whether the start that goes back to that cut (0: that does not) is refused, in these words; and
 * names a cut to go back to only where it is @offered. */
static bool refuses(uint64_t recover_to, const char *words, uint64_t offered)
{
        struct log_loaded loaded;
        char offer[64];

        snprintf(offer, sizeof(offer), "--recover-to %ju`", (uintmax_t)offered);
        log_load(dir, recover_to, false, &loaded);
        return loaded.result && strstr(loaded.said, words) &&
               (offered ? !!strstr(loaded.said, offer) : !strstr(loaded.said, "--recover-to"));
}

/* Whether a start brings back so many keys. */
static bool brings_back(uint64_t keys)
{
        struct log_loaded loaded;

        log_load(dir, 0, false, &loaded);
        return !loaded.result && loaded.keys == keys;
}

static void test_a_batch_that_is_the_whole_bus_counts_alone_and_whole(void)
{
        struct log_loaded alone, behind;

        CHECK(begin_log() && write_whole(3) && end_log(&alone));
        CHECK_EQ(alone.keys, 3);
        for (uint32_t before = 1; before < 4; before++) {
                CHECK(begin_log());
                for (uint32_t i = 0; i < before; i++)
                        CHECK(begin_batch() && add_keys(before < 3 ? before : 20) && add_words() &&
                                end_batch());
                CHECK(write_whole(3) && end_log(&behind));
                CHECK_EQ(behind.keys, 3);
                CHECK(behind.digest == alone.digest);
        }
}

/* Floors of buckets have the numbers that words of the bus have, too. */
static void test_a_floor_of_a_bucket_is_no_word_of_the_bus(void)
{
        struct log_loaded loaded;

        CHECK(begin_log() && begin_batch() && add(SB_WAL_WORD, SB_WAL_WORD_WHOLE, 0) &&
                add_keys(3) && add_words() && add(SB_WAL_WORD, SB_WAL_WORD_BUCKETS, BUCKETS));
        for (uint64_t bucket = 0; bucket < BUCKETS; bucket++)
                CHECK(add(SB_WAL_FLOOR, bucket, 1 + bucket % 9));
        CHECK(end_batch() && end_log(&loaded));
        CHECK_EQ(loaded.history_floor, FLOOR);
        CHECK_EQ(loaded.forgotten, FORGOTTEN);
}

/* What is there before the first batch of a new log, and nothing else. */
static void test_a_log_without_a_batch_is_new_only_if_none_was_before_it(void)
{
        static const char missing[] = "files are missing in front";

        CHECK(write_files(1) && empty_file(NAME_1, FILE_SIZE) && brings_back(0));
        scratch_remove(dir, path);
        /* The power failed between the name of the second file and its first batch. */
        CHECK(write_files(2) && empty_file(NAME_2, FILE_SIZE) && brings_back(3));
        CHECK(!unlinkat(dir, NAME_1, 0));
        CHECK(refuses(0, missing, 0));
        CHECK(refuses(20, "does not go back to cut 20", 0));
        CHECK(refuses(1000, missing, 0));
        scratch_remove(dir, path);
        /* Or within that batch. */
        CHECK(write_files(2) && change_file(NAME_2, SB_WAL_BLOCK + 100) && brings_back(3));
        CHECK(!unlinkat(dir, NAME_1, 0));
        CHECK(refuses(0, missing, 0));
        scratch_remove(dir, path);
}

static void test_no_cut_is_named_to_which_the_next_start_would_not_go_back(void)
{
        static const char none[] = "no cut to go on from";

        /* A file that ends behind its header, whatever cut that names as the one before it. */
        CHECK(write_files(2) && empty_file(NAME_2, SB_WAL_BLOCK));
        CHECK(refuses(0, "the file is shorter", 20));
        CHECK(!unlinkat(dir, NAME_1, 0));
        CHECK(refuses(0, none, 0));
        CHECK(refuses(20, "does not go back to cut 20", 0));
        scratch_remove(dir, path);
        /* Whole batches before the damage, and the bus is in none of them. */
        CHECK(write_files(3) && change_file(NAME_3, 100));
        CHECK(refuses(0, "header is bad", 30));
        CHECK(!unlinkat(dir, NAME_1, 0));
        CHECK(refuses(0, none, 0));
        CHECK(refuses(30, "does not go back to cut 30", 0));
        CHECK(refuses(1000, none, 0));
        scratch_remove(dir, path);
        /* Nothing at all before it. */
        CHECK(write_files(1) && change_file(NAME_1, 100));
        CHECK(refuses(0, "in its first batch", 0));
        scratch_remove(dir, path);
}

/* Its header says what it was called. */
static void test_a_file_that_was_renamed_is_to_be_renamed_back_and_nothing_is_lost(void)
{
        static const char back[] = "By its header wal-0000000000000005 is wal-0000000000000003",
                          from_front[] =
                                  "By its header wal-0000000000000000 is wal-0000000000000003",
                          from_amid[] = "By its header wal-0000000000000005 is "
                                        "wal-0000000000000002";

        CHECK(write_files(3) && !renameat(dir, NAME_3, dir, NAME_5));
        CHECK(refuses(0, back, 0));
        CHECK(!renameat(dir, NAME_5, dir, NAME_2) && refuses(0, "wal-0000000000000002 is", 0));
        scratch_remove(dir, path);
        /* In front of all others, which have the whole bus: but not what is in it. */
        CHECK(write_files(3) && !renameat(dir, NAME_3, dir, NAME_0));
        CHECK(refuses(0, from_front, 0));
        CHECK(!renameat(dir, NAME_0, dir, NAME_3) && brings_back(3));
        scratch_remove(dir, path);
        /* The gap that it left is met first. */
        CHECK(write_files(3) && !renameat(dir, NAME_2, dir, NAME_5));
        CHECK(refuses(0, from_amid, 0) && refuses(0, "a file is missing", 0));
        CHECK(!renameat(dir, NAME_5, dir, NAME_2) && brings_back(3));
        scratch_remove(dir, path);
        /* One of another bus has no name here. */
        CHECK(write_files(3) && !renameat(dir, NAME_3, dir, NAME_5) && change_id(NAME_5));
        CHECK(refuses(0, "it was renamed or copied", 30));
        scratch_remove(dir, path);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_batch_that_is_the_whole_bus_counts_alone_and_whole);
        RUN(test_a_floor_of_a_bucket_is_no_word_of_the_bus);
        RUN(test_a_log_without_a_batch_is_new_only_if_none_was_before_it);
        RUN(test_no_cut_is_named_to_which_the_next_start_would_not_go_back);
        RUN(test_a_file_that_was_renamed_is_to_be_renamed_back_and_nothing_is_lost);
        return test_end();
}
