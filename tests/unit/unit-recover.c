/*
 * Recovery (agentd/wal/wal-recover.h) from logs whose batches are written by hand: which entries of
 * a batch count, and for what. Logs that are changed at random: tests/fuzz/fuzz-log.c.
 */
#include <stdio.h>
#include <string.h>

#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "tests/fuzz/log-loaded.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/unit/blocks.h"

#define FLOOR     7u /* words of the bus */
#define FORGOTTEN 5u
#define BUCKETS   64u

static char path[64];
static int dir = -1;
static struct sb_wal_io io;
static struct sb_wal_writer *writer;
static uint64_t clock;

/* ---- logs ---- */

static bool begin_log(void)
{
        struct sb_wal_writer_options options = {.io = &io,
                .id = "the bus's number",
                .hash_seed = 77,
                .file_size = 64u << 10,
                .payload_max = 4000};
        const char *reason;

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

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_batch_that_is_the_whole_bus_counts_alone_and_whole);
        RUN(test_a_floor_of_a_bucket_is_no_word_of_the_bus);
        return test_end();
}
