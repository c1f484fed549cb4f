/*
 * What agentctl makes of a log whose frames have the right checksum, and are not what agentd writes
 * all the same; and of a batch that can be told from what an earlier use left in a file.
 *
 * Each log is one file, forged: batch 1 says that it has the whole bus, and batch 2 is the test's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/logged.h"
#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "tests/harness/test.h"

#define SIZE     (16u * SB_WAL_BLOCK)
#define SALT     5u
#define SECOND   (2u * SB_WAL_BLOCK) /* where batch 2 begins */
#define LEFTOVER (3u * SB_WAL_BLOCK) /* and what stands behind it */

static char directory[] = "/tmp/sb-logged-XXXXXX";
static unsigned char forged[SIZE], payload[1024];
static uint32_t payload_len;
static struct cli_logged logged;

static void add(const struct sb_wal_entry *entry)
{
        if (sb_wal_entry_encode(entry, payload + payload_len))
                abort();
        memcpy(payload + payload_len + SB_WAL_ENTRY_HEAD, entry->key, entry->key_len);
        payload_len += (uint32_t)sb_wal_entry_size(entry->key_len, entry->value_len);
}

static void add_word_of(enum sb_wal_word which, uint64_t value)
{
        const struct sb_wal_entry entry = {
                .kind = SB_WAL_WORD, .which = which, .key = "", .rev = value};

        add(&entry);
}

static void add_word(enum sb_wal_word which)
{
        add_word_of(which, 0);
}

static void add_version(const char *key, uint64_t rev)
{
        const struct sb_wal_entry entry = {.kind = SB_WAL_VALUE,
                .key = key,
                .key_len = (uint32_t)strlen(key),
                .value_len = 5,
                .rev = rev};

        add(&entry);
}

/* Puts the payload into the file as a batch. */
static void put_batch(uint64_t sequence, uint64_t offset)
{
        const struct sb_wal_frame frame = {.batch = {.sequence = sequence,
                                                   .cut = 10 * sequence,
                                                   .previous_cut = 10 * (sequence - 1),
                                                   .realtime_ns = sequence * 1000000000},
                .payload_len = payload_len,
                .flags = SB_WAL_FRAME_FIRST | SB_WAL_FRAME_LAST,
                .file_offset = offset};

        memcpy(forged + offset + SB_WAL_FRAME_HEAD, payload, payload_len);
        sb_wal_frame_seal(forged + offset, &frame, SALT);
        payload_len = 0;
}

/* A log with its first batch. */
static void begin(enum sb_wal_word word)
{
        const struct sb_wal_file file = {
                .salt = SALT, .number = 1, .first_sequence = 1, .size = SIZE, .id = "id"};

        cli_logged_close(&logged);
        memset(forged, 0, sizeof(forged));
        memset(payload, 0, sizeof(payload));
        payload_len = 0;
        sb_wal_file_encode(&file, forged);
        add_word(word);
        put_batch(1, SB_WAL_BLOCK);
}

/* Reads the log. Return: as cli_logged_open(). */
static int look(void)
{
        char name[SB_WAL_FILE_NAME_MAX], path[128];
        int fd;

        cli_logged_close(&logged);
        sb_wal_file_name(1, name);
        snprintf(path, sizeof(path), "%s/%s", directory, name);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || pwrite(fd, forged, SIZE, 0) != (ssize_t)SIZE)
                abort();
        close(fd);
        return cli_logged_open(directory, &logged);
}

static void test_versions_of_one_key_that_stand_together_count_once(void)
{
        begin(SB_WAL_WORD_WHOLE);
        add_version("a", 1);
        add_version("a", 2);
        add_version("ab", 1);
        add_word(SB_WAL_WORD_FORGOTTEN);
        put_batch(2, SECOND);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_CLEAN);
        CHECK_EQ(logged.batch_count, 2);
        CHECK_EQ(logged.batches[1].entries, 4);
        CHECK_EQ(logged.batches[1].keys, 2);
        CHECK_EQ(logged.batches[1].bytes, 56 + 56 + 56 + 48);
        CHECK(logged.batches[0].since == 1 && !logged.batches[1].since);
        CHECK_EQ(logged.sum.entries, 5);
        CHECK_EQ(logged.sum.cut, 20);
        CHECK_EQ(logged.sum.realtime_ns, 2000000000);
        CHECK(!*cli_logged_words(&logged) && !*cli_logged_advice(&logged));
}

/* Whether the log is damaged in batch 2, for this reason, and one can go on from batch 1. */
static bool is_damaged_there(const char *why)
{
        return logged.end.ending == SB_WAL_DAMAGED && !cli_logged_is_good(&logged) &&
               logged.batch_count == 1 && logged.sum.cut == 10 &&
               strstr(cli_logged_words(&logged), "batch 2: ") == cli_logged_words(&logged) &&
               strstr(cli_logged_words(&logged), why) &&
               strstr(cli_logged_advice(&logged), "--recover-to 10`");
}

static void test_entries_that_recovery_refuses_are_damage_under_a_right_checksum(void)
{
        /* Half an entry. */
        begin(SB_WAL_WORD_WHOLE);
        add_version("key", 1);
        payload_len -= 8;
        put_batch(2, SECOND);
        CHECK_EQ(look(), 0);
        CHECK(is_damaged_there("entries that no agentd writes"));
        /* A key that is too long. */
        begin(SB_WAL_WORD_WHOLE);
        add_version("key", 1);
        sb_wal_bytes_put32(payload + 4, SB_WAL_ENTRY_KEY_MAX + 1);
        put_batch(2, SECOND);
        CHECK_EQ(look(), 0);
        CHECK(is_damaged_there("entries that no agentd writes"));
        /* A kind that comes later. */
        begin(SB_WAL_WORD_WHOLE);
        add_version("key", 1);
        payload[0] = SB_WAL_TIME + 1;
        put_batch(2, SECOND);
        CHECK_EQ(look(), 0);
        CHECK(is_damaged_there("a later one may have written it"));
}

static void test_a_log_in_which_no_batch_has_the_whole_bus_is_damaged(void)
{
        begin(SB_WAL_WORD_FORGOTTEN);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_DAMAGED);
        CHECK(strstr(cli_logged_words(&logged), "no batch has the whole bus"));
        CHECK(!strstr(cli_logged_advice(&logged), "--recover-to"));
}

static void test_a_log_without_a_batch_is_whole_only_if_none_was_before_it(void)
{
        struct sb_wal_file file = {
                .salt = SALT, .number = 1, .first_sequence = 1, .size = SIZE, .id = "id"};

        begin(SB_WAL_WORD_WHOLE);
        memset(forged + SB_WAL_BLOCK, 0, SIZE - SB_WAL_BLOCK);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_CLEAN);
        file.first_sequence = 3;
        file.previous_cut = file.reaches_cut = 20;
        sb_wal_file_encode(&file, forged);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_DAMAGED);
        CHECK(strstr(cli_logged_words(&logged), "batches were before the first file"));
        CHECK(strstr(cli_logged_advice(&logged), "no cut to go on from"));
        CHECK(!strstr(cli_logged_advice(&logged), "--recover-to"));
        /* The same, where the batch that comes next is torn. */
        add_version("key", 1);
        put_batch(3, SB_WAL_BLOCK);
        forged[SB_WAL_BLOCK + 100] ^= 1;
        CHECK_EQ(look(), 0);
        CHECK(logged.end.ending == SB_WAL_DAMAGED && !cli_logged_is_good(&logged));
}

static void test_of_a_file_under_another_name_the_right_name_is_said(void)
{
        const struct sb_wal_file file = {
                .salt = SALT, .number = 2, .first_sequence = 1, .size = SIZE, .id = "id"};

        begin(SB_WAL_WORD_WHOLE);
        sb_wal_file_encode(&file, forged);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_DAMAGED);
        CHECK(strstr(cli_logged_words(&logged), "renamed or copied"));
        CHECK(strstr(cli_logged_advice(&logged),
                "by its header wal-0000000000000001 is wal-0000000000000002"));
}

static void test_a_copy_says_from_which_batch_on_the_log_counts(void)
{
        static const uint64_t wrong[] = {0, 3, UINT64_MAX};

        begin(SB_WAL_WORD_FORGOTTEN);
        add_word_of(SB_WAL_WORD_SINCE, 1);
        put_batch(2, SECOND);
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_CLEAN);
        CHECK_EQ(logged.batches[1].since, 1);
        for (uint32_t i = 0; i < 3; i++) {
                begin(SB_WAL_WORD_WHOLE);
                add_word_of(SB_WAL_WORD_SINCE, wrong[i]);
                put_batch(2, SECOND);
                CHECK_EQ(look(), 0);
                CHECK(is_damaged_there("entries that no agentd writes"));
        }
}

/* Batch 1 is damaged, and batch 2 has this word. Return: whether agentd takes the log; -1: it is
 * not damaged there, or what is said of it is wrong. */
static int is_taken_behind_damage(enum sb_wal_word word, uint64_t value)
{
        begin(SB_WAL_WORD_WHOLE);
        forged[SB_WAL_BLOCK + SB_WAL_FRAME_HEAD] ^= 1;
        add_version("key", 1);
        add_word_of(word, value);
        put_batch(2, SECOND);
        if (look() || logged.end.ending != SB_WAL_DAMAGED || logged.end.offset != SB_WAL_BLOCK ||
                logged.is_whole_behind != !!strstr(cli_logged_advice(&logged), "costs nothing"))
                return -1;
        return logged.is_whole_behind;
}

static void test_damage_before_the_whole_bus_costs_nothing(void)
{
        static const uint64_t wrong[] = {0, 1, 3, UINT64_MAX};

        CHECK_EQ(is_taken_behind_damage(SB_WAL_WORD_WHOLE, 0), 1);
        CHECK_EQ(is_taken_behind_damage(SB_WAL_WORD_SINCE, 2), 1);
        CHECK_EQ(cli_logged_go_behind(&logged), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_CLEAN);
        CHECK_EQ(logged.batch_count, 1);
        CHECK_EQ(logged.batches[0].sequence, 2);
        CHECK_EQ(is_taken_behind_damage(SB_WAL_WORD_FORGOTTEN, 0), 0);
        for (uint32_t i = 0; i < 4; i++)
                CHECK_EQ(is_taken_behind_damage(SB_WAL_WORD_SINCE, wrong[i]), 0);
        CHECK_EQ(cli_logged_go_behind(&logged), -ENODATA);
        CHECK_EQ(logged.end.ending, SB_WAL_DAMAGED);
}

/* Batches 1 and 3 are damaged, and batch 4 has this word. Return: as cli_logged_open(). */
static int look_at_two_damages(enum sb_wal_word word)
{
        begin(SB_WAL_WORD_WHOLE);
        add_word(SB_WAL_WORD_WHOLE);
        put_batch(2, SECOND);
        add_version("key", 1);
        put_batch(3, SECOND + SB_WAL_BLOCK);
        add_word(word);
        put_batch(4, SECOND + 2 * SB_WAL_BLOCK);
        forged[SB_WAL_BLOCK + SB_WAL_FRAME_HEAD] ^= 1;
        forged[SECOND + SB_WAL_BLOCK + SB_WAL_FRAME_HEAD] ^= 1;
        return look();
}

static void test_of_two_damages_the_last_whole_part_counts(void)
{
        CHECK_EQ(look_at_two_damages(SB_WAL_WORD_WHOLE), 0);
        CHECK(logged.is_whole_behind);
        CHECK_EQ(cli_logged_go_behind(&logged), 0);
        CHECK_EQ(logged.batch_count, 1);
        CHECK_EQ(logged.batches[0].sequence, 4);
        /* Then it ends with more damage. */
        CHECK_EQ(look_at_two_damages(SB_WAL_WORD_FORGOTTEN), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_DAMAGED);
        CHECK(!logged.is_whole_behind);
        CHECK_EQ(logged.cut_behind, 20);
        CHECK(strstr(cli_logged_advice(&logged), "--recover-to 20`"));
}

static void test_what_an_earlier_use_left_is_no_torn_batch_and_the_next_batch_is_one(void)
{
        /* The batch that comes next, of another salt, as if a byte of it had rotted. */
        begin(SB_WAL_WORD_WHOLE);
        add_version("key", 1);
        put_batch(2, SECOND);
        add_version("key", 2);
        put_batch(3, LEFTOVER);
        forged[LEFTOVER + 8] ^= 1;
        CHECK_EQ(look(), 0);
        CHECK_EQ(logged.end.ending, SB_WAL_TORN);
        CHECK(logged.end.file == 1 && logged.end.offset == LEFTOVER && logged.batch_count == 2);
        /* Its mark. */
        forged[LEFTOVER + 8] ^= 1;
        forged[LEFTOVER + 16] ^= 1;
        CHECK_EQ(look(), 0);
        CHECK(logged.end.ending == SB_WAL_TORN && logged.end.offset == LEFTOVER);
        /* Another batch of another salt was there before. */
        memset(forged + LEFTOVER, 0, SB_WAL_BLOCK);
        add_version("key", 2);
        put_batch(9, LEFTOVER);
        forged[LEFTOVER + 8] ^= 1;
        CHECK_EQ(look(), 0);
        CHECK(logged.end.ending == SB_WAL_CLEAN && logged.batch_count == 2);
}

static void test_a_directory_without_files_has_no_log(void)
{
        char empty[] = "/tmp/sb-logged-XXXXXX";

        CHECK(mkdtemp(empty));
        cli_logged_close(&logged);
        CHECK_EQ(cli_logged_open(empty, &logged), 0);
        CHECK_EQ(logged.files, 0);
        cli_logged_close(&logged);
        CHECK_EQ(rmdir(empty), 0);
        CHECK_EQ(cli_logged_open(empty, &logged), -ENOENT);
        CHECK_EQ(cli_logged_open("/dev/null", &logged), -EINVAL);
}

/* Reads the log as one file of another name. Return: as cli_logged_open(). */
static int look_at_file(uint64_t last_sequence)
{
        struct sb_wal_file file;
        char path[128];
        uint32_t version;
        int fd, r;

        if (sb_wal_file_decode(forged, &file, &version) != SB_WAL_HEADER_GOOD)
                abort();
        file.last_sequence = last_sequence;
        sb_wal_file_encode(&file, forged);
        cli_logged_close(&logged);
        snprintf(path, sizeof(path), "%s/backup", directory);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || pwrite(fd, forged, SIZE, 0) != (ssize_t)SIZE)
                abort();
        close(fd);
        r = cli_logged_open(path, &logged);
        unlink(path);
        return r;
}

static void test_a_closed_file_is_a_log_and_another_one_is_a_part_of_one(void)
{
        begin(SB_WAL_WORD_WHOLE);
        add_version("key", 1);
        put_batch(2, SECOND);
        CHECK_EQ(look_at_file(0), -EXDEV);
        CHECK_EQ(look_at_file(2), 0);
        CHECK(logged.single && logged.end.ending == SB_WAL_CLEAN && logged.files == 1);
        CHECK(logged.batch_count == 2 && logged.sum.cut == 20 && logged.file_bytes == SIZE);
        /* What is wrong is said of the file by its name. */
        forged[SECOND + 100] ^= 1;
        CHECK_EQ(look_at_file(2), 0);
        CHECK(logged.end.ending == SB_WAL_DAMAGED && logged.batch_count == 1);
        CHECK(strstr(cli_logged_words(&logged), "/backup, at byte 8192: "));
        CHECK(strstr(cli_logged_advice(&logged), "this backup was changed") &&
                strstr(cli_logged_advice(&logged), "--recover-to 10`"));
        begin(SB_WAL_WORD_FORGOTTEN);
        CHECK_EQ(look_at_file(1), 0);
        CHECK(logged.end.ending == SB_WAL_DAMAGED);
        CHECK(strstr(cli_logged_advice(&logged), "no whole bus"));
}

int main(int argc, char **argv)
{
        char name[SB_WAL_FILE_NAME_MAX], path[128];

        test_begin(argc, argv);
        if (!mkdtemp(directory))
                abort();
        logged.directory_fd = -1;
        RUN(test_versions_of_one_key_that_stand_together_count_once);
        RUN(test_entries_that_recovery_refuses_are_damage_under_a_right_checksum);
        RUN(test_a_log_in_which_no_batch_has_the_whole_bus_is_damaged);
        RUN(test_a_log_without_a_batch_is_whole_only_if_none_was_before_it);
        RUN(test_of_a_file_under_another_name_the_right_name_is_said);
        RUN(test_a_copy_says_from_which_batch_on_the_log_counts);
        RUN(test_damage_before_the_whole_bus_costs_nothing);
        RUN(test_of_two_damages_the_last_whole_part_counts);
        RUN(test_what_an_earlier_use_left_is_no_torn_batch_and_the_next_batch_is_one);
        RUN(test_a_directory_without_files_has_no_log);
        RUN(test_a_closed_file_is_a_log_and_another_one_is_a_part_of_one);
        cli_logged_close(&logged);
        sb_wal_file_name(1, name);
        snprintf(path, sizeof(path), "%s/%s", directory, name);
        unlink(path);
        rmdir(directory);
        return test_end();
}
