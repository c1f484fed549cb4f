/*
 * A log as it is meant to be (ring/wal, agentd/wal): what is written is read again, through both
 * back ends, by one writer and by the next ones. Damaged logs: unit-wal-damage; a file that is a
 * log by itself: unit-wal-closed; a writer of which calls fail: unit-wal-writer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agentd/wal/wal-uring.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/unit/wal.h"

static const char no_uring[] = "io_uring is not permitted here";

static bool uring_is_there(void)
{
        bool there = begin_log(SB_WAL_URING, 0, 0);

        end_log();
        return there;
}

static void write_and_read(enum sb_wal_backend backend)
{
        /* Frames of a page, of an odd size, and as large as they may be. */
        static const uint32_t payloads[] = {4000, 1000, 0};

        for (uint32_t i = 0; i < 3; i++) {
                CHECK(begin_log(backend, 64 << 10, payloads[i]));
                CHECK_EQ(write_shapes("01234560123456"), 0);
                CHECK(reads_back(14));
                /* A second writer goes on in a file of its own. */
                CHECK_EQ(write_shapes("5430"), 0);
                CHECK(reads_back(18));
                end_log();
        }
        CHECK(begin_log(backend, 0, 0));
        CHECK_EQ(write_shapes("717270"), 0);
        CHECK(reads_back(6));
        end_log();
}

static void test_what_the_sync_back_end_writes_is_read(void)
{
        write_and_read(SB_WAL_SYNC);
}

static void test_what_the_uring_back_end_writes_is_read(void)
{
        if (!uring_is_there())
                TEST_SKIP(no_uring);
        write_and_read(SB_WAL_URING);
}

static void test_an_empty_directory_is_an_empty_log(void)
{
        CHECK(begin_log(SB_WAL_SYNC, 32 << 10, 0));
        CHECK(reads_back(0));
        CHECK_EQ(story.end.file, 0);
        end_log();
}

static void test_files_are_private_and_have_their_whole_size(void)
{
        struct stat status;

        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 0));
        CHECK_EQ(write_shapes("0"), 0);
        CHECK(!fstatat(dir, NAME_1, &status, 0));
        CHECK_EQ(status.st_mode & 07777, 0600);
        CHECK_EQ(status.st_size, 32 << 10);
        end_log();
}

static void test_files_below_a_checkpoint_are_used_again(void)
{
        struct sb_wal_writer *writer;
        struct stat status;

        CHECK(begin_log(SB_WAL_AUTO, 16 << 10, 4000));
        CHECK(!sb_wal_writer_open(&options, &writer));
        CHECK(!sb_wal_writer_prepare(writer) && !sb_wal_writer_prepare(writer));
        for (uint64_t sequence = 1; sequence <= 200; sequence++) {
                CHECK(!batch_write(writer, batch_seed(sequence, BATCH_ONE), 10 * sequence));
                if (sequence % 10 == 0)
                        CHECK(!sb_wal_writer_release(writer, 10 * (sequence - 5)));
        }
        sb_wal_writer_close(writer);
        CHECK(!story_read(dir, &story) && !story.wrong);
        /* What the checkpoint does not have is there, and not much more; three batches a file. */
        CHECK_EQ(story.end.ending, SB_WAL_CLEAN);
        CHECK_EQ(story.end.sequence, 200);
        CHECK(story.first <= 196 && story.first > 185);
        CHECK_EQ(story.end.first_after, 10 * (story.first - 1));
        CHECK(fstatat(dir, NAME_1, &status, 0) < 0 && errno == ENOENT);
        end_log();
}

static void test_a_file_that_begins_within_a_batch_is_read_from_the_next_one_on(void)
{
        struct sb_wal_writer *writer;

        CHECK(begin_log(SB_WAL_AUTO, 16 << 10, 1000));
        CHECK(!sb_wal_writer_open(&options, &writer));
        for (uint64_t sequence = 1; sequence <= 40; sequence++) {
                CHECK(!batch_write(writer, batch_seed(sequence, BATCH_FRAMES), 10 * sequence));
                /* Each of these batches is longer than a file: those before it go at once. */
                CHECK(!sb_wal_writer_release(writer, 10 * sequence));
                CHECK(!story_read(dir, &story) && !story.wrong);
                CHECK_EQ(story.end.ending, SB_WAL_CLEAN);
                CHECK_EQ(story.end.sequence, sequence);
        }
        sb_wal_writer_close(writer);
        end_log();
}

static void test_a_writer_opens_where_it_is_told_and_what_lies_behind_is_void(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 0));
        CHECK_EQ(write_shapes("01200"), 0);
        /* The bus knows three batches as durable: the other two come once more, as others. */
        options.sequence = 3;
        options.cut = 30;
        CHECK_EQ(write_shapes("5"), 0);
        CHECK(reads_back(4));
        CHECK_EQ(story.seeds[3], batch_seed(4, BATCH_VALUE));
        options.sequence = 1;
        CHECK_EQ(write_shapes("0"), -EINVAL);
        end_log();
}

static void test_a_batch_that_is_not_wanted_is_passed_over(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 1000));
        CHECK_EQ(write_shapes("4545"), 0);
        CHECK(reads_back(4));
        story_skip = 30; /* cuts up to this one */
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.count, 4);
        CHECK_EQ(story.skipped, 3);
        story_skip = 0;
        end_log();
}

/* Bytes that this process has read. 0: the kernel does not say. */
static uint64_t bytes_read(void)
{
        FILE *file = fopen("/proc/self/io", "re");
        unsigned long long bytes = 0;

        if (!file || fscanf(file, "rchar: %llu", &bytes) != 1)
                bytes = 0;
        if (file)
                fclose(file);
        return bytes;
}

static void test_of_a_file_that_a_restart_left_only_what_was_written_is_read(void)
{
        uint64_t before, size = 1 << 20;

        if (!bytes_read())
                TEST_SKIP("/proc/self/io does not say how much is read");
        CHECK(begin_log(SB_WAL_AUTO, size, 0));
        for (uint32_t i = 0; i < 8; i++)
                CHECK_EQ(write_shapes("0"), 0);
        before = bytes_read();
        CHECK(reads_back(8));
        /* All of the last one, for what may have begun there. */
        CHECK(bytes_read() - before >= size && bytes_read() - before < 2 * size);
        end_log();
}

static void test_an_entry_that_no_reader_takes_is_refused(void)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_VALUE, .key = "k", .key_len = 1};
        struct sb_wal_writer *writer;

        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 0));
        CHECK(!sb_wal_writer_open(&options, &writer));
        CHECK(!sb_wal_writer_begin(writer, 10, batch_seed(1, BATCH_EMPTY), 0));
        entry.kind = 5;
        CHECK_EQ(sb_wal_writer_add(writer, &entry), -EINVAL);
        entry.kind = SB_WAL_VALUE;
        entry.flags = 2;
        CHECK_EQ(sb_wal_writer_add(writer, &entry), -EINVAL);
        entry.flags = 0;
        entry.key_len = 1025;
        CHECK_EQ(sb_wal_writer_add(writer, &entry), -EINVAL);
        entry.key_len = 0;
        CHECK_EQ(sb_wal_writer_add(writer, &entry), -EINVAL);
        entry.key_len = 1;
        entry.kind = SB_WAL_TOMBSTONE;
        entry.value_len = 1;
        CHECK_EQ(sb_wal_writer_add(writer, &entry), -EINVAL);
        CHECK(!sb_wal_writer_end(writer));
        sb_wal_writer_close(writer);
        end_log();
}

static void test_auto_says_why_it_is_not_io_uring(void)
{
        struct sb_wal_io uring;
        int r;

        CHECK(begin_log(SB_WAL_AUTO, 0, 0));
        r = sb_wal_uring_open(dir, &uring);
        CHECK_EQ(!r, !reason);
        if (!r)
                sb_wal_backend_close(&uring);
        end_log();
}

/* The ring answers for a frame when the next request of its file is made. */
static void test_a_frame_that_failed_on_its_way_is_said_by_each_later_call_of_its_file(void)
{
        struct rlimit old, limit;
        int file = -1, other = -1, said[7];

        if (!uring_is_there())
                TEST_SKIP(no_uring);
        CHECK(begin_log(SB_WAL_URING, 0, 0));
        CHECK(!io.create(io.context, "failing", &file) && !io.create(io.context, "good", &other));
        signal(SIGXFSZ, SIG_IGN);
        CHECK(!getrlimit(RLIMIT_FSIZE, &old));
        limit = (struct rlimit){SB_WAL_BLOCK, old.rlim_max};
        CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
        said[0] = io.push(io.context, file, 0, SB_WAL_BLOCK, 2 * SB_WAL_BLOCK);
        said[1] = io.sync(io.context, file);
        said[2] = io.push(io.context, file, 0, SB_WAL_BLOCK, 0);
        said[3] = io.finish(io.context, file, 0, SB_WAL_BLOCK, 0);
        said[4] = io.sync(io.context, file);
        said[5] = io.push(io.context, other, 0, SB_WAL_BLOCK, 0);
        said[6] = io.sync(io.context, other);
        CHECK(!setrlimit(RLIMIT_FSIZE, &old));
        for (uint32_t i = 0; i < 7; i++)
                CHECK_EQ(said[i], i && i < 5 ? -EFBIG : 0);
        io.close(io.context, file);
        io.close(io.context, other);
        end_log();
}

static void test_sizes_that_no_file_has_are_refused(void)
{
        struct sb_wal_writer *writer;

        CHECK(begin_log(SB_WAL_AUTO, 4096, 0));
        CHECK_EQ(sb_wal_writer_open(&options, &writer), -EINVAL);
        options.file_size = 10000;
        CHECK_EQ(sb_wal_writer_open(&options, &writer), -EINVAL);
        options.file_size = 8192;
        options.payload_max = 12;
        CHECK_EQ(sb_wal_writer_open(&options, &writer), -EINVAL);
        options.payload_max = SB_WAL_PAYLOAD_MAX + 8;
        CHECK_EQ(sb_wal_writer_open(&options, &writer), -EINVAL);
        options.payload_max = 8;
        CHECK_EQ(write_shapes("0123"), 0);
        CHECK(reads_back(4));
        end_log();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_the_sync_back_end_writes_is_read);
        RUN(test_what_the_uring_back_end_writes_is_read);
        RUN(test_an_empty_directory_is_an_empty_log);
        RUN(test_files_are_private_and_have_their_whole_size);
        RUN(test_files_below_a_checkpoint_are_used_again);
        RUN(test_a_file_that_begins_within_a_batch_is_read_from_the_next_one_on);
        RUN(test_a_writer_opens_where_it_is_told_and_what_lies_behind_is_void);
        RUN(test_a_batch_that_is_not_wanted_is_passed_over);
        RUN(test_of_a_file_that_a_restart_left_only_what_was_written_is_read);
        RUN(test_an_entry_that_no_reader_takes_is_refused);
        RUN(test_auto_says_why_it_is_not_io_uring);
        RUN(test_a_frame_that_failed_on_its_way_is_said_by_each_later_call_of_its_file);
        RUN(test_sizes_that_no_file_has_are_refused);
        return test_end();
}
