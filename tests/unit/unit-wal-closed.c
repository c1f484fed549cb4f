/*
 * Files of the log that are closed (ring/wal), as those of a backup are: one is a log by itself,
 * under any name; its frames are handed out as they are; it has all that it promises, or is
 * damaged; and a log may go on behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ring/wal/wal-frame.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/unit/wal.h"

struct taken {
        uint32_t frames, batches;
        uint64_t bytes;
        bool wrong;
};

static int take_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        (void)context;
        *ret_skip = batch->sequence == 2;
        return 0;
}

static int take_frame(void *context, const struct sb_wal_frame *frame, const unsigned char *payload)
{
        struct taken *taken = context;
        static unsigned char sealed[SB_WAL_FRAME_MAX];
        struct sb_wal_frame again;

        /* What is handed out can be sealed anew. */
        memcpy(sealed + SB_WAL_FRAME_HEAD, payload, frame->payload_len);
        sb_wal_frame_seal(sealed, frame, 9);
        taken->wrong |= !sb_wal_frame_decode(sealed, 9, frame->file_offset, &again) ||
                        !sb_wal_frame_is_whole(sealed, &again, 9) || frame->batch.sequence == 2;
        taken->frames++;
        taken->batches += !!(frame->flags & SB_WAL_FRAME_LAST);
        taken->bytes += frame->payload_len;
        return taken->frames == 1000 ? -ECANCELED : 0;
}

static void test_frames_are_handed_out_as_they_are(void)
{
        static const struct sb_wal_visitor visitor = {.begin = take_begin, .frame = take_frame};
        struct sb_wal_reader *reader = NULL;
        struct taken taken = {0};

        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 1000));
        CHECK_EQ(write_shapes("5545"), 0);
        CHECK(reads_back(4));
        CHECK(!sb_wal_reader_open(dir, NULL, &reader));
        CHECK_EQ(sb_wal_reader_visit(reader, &visitor, &taken), 0);
        CHECK(!taken.wrong && taken.batches == 3 && taken.frames > 6 && taken.bytes > 3000);
        /* What the visitor says ends the visit. */
        taken.frames = 999;
        CHECK_EQ(sb_wal_reader_visit(reader, &visitor, &taken), -ECANCELED);
        sb_wal_reader_close(reader);
        end_log();
}

static void test_one_file_is_a_log_under_any_name(void)
{
        struct sb_wal_reader *reader = NULL;
        struct taken taken = {0};
        int fd;

        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0123"), 0);
        CHECK(!renameat(dir, NAME_1, dir, "backup"));
        fd = openat(dir, "backup", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && !sb_wal_reader_open_file(fd, &reader));
        CHECK_EQ(sb_wal_reader_end(reader)->ending, SB_WAL_CLEAN);
        CHECK_EQ(sb_wal_reader_end(reader)->sequence, 4);
        CHECK(!memcmp(sb_wal_reader_end(reader)->id, options.id, 16));
        /* A visit reads it once more, and again. */
        for (uint32_t i = 0; i < 2; i++) {
                taken = (struct taken){0};
                CHECK_EQ(sb_wal_reader_visit(reader,
                                 &(struct sb_wal_visitor){.begin = take_begin, .frame = take_frame},
                                 &taken),
                        0);
                CHECK(!taken.wrong && taken.batches == 3);
        }
        reader = sb_wal_reader_close(reader);
        CHECK(fcntl(fd, F_GETFD) >= 0);
        /* What is no file of a log, by its descriptor. */
        CHECK(write_at("backup", 0, "x", 1) && !sb_wal_reader_open_file(fd, &reader));
        CHECK_EQ(sb_wal_reader_end(reader)->ending, SB_WAL_DAMAGED);
        CHECK_EQ(sb_wal_reader_end(reader)->offset, 0);
        reader = sb_wal_reader_close(reader);
        CHECK_EQ(sb_wal_reader_open_file(dir, &reader), -EISDIR);
        close(fd);
        end_log();
}

/* The ending of the log in the directory, and that of its first file alone, when that promises so
 * many batches; -1: they are not the same. */
static int ending_of(uint32_t promised)
{
        struct sb_wal_reader *reader = NULL;
        int ending = -1, fd = openat(dir, NAME_1, O_RDONLY | O_CLOEXEC);

        if (change_header(104, promised) && !story_read(dir, &story) && !story.wrong &&
                !sb_wal_reader_open_file(fd, &reader) &&
                sb_wal_reader_end(reader)->ending == story.end.ending &&
                sb_wal_reader_end(reader)->cut == story.end.cut)
                ending = (int)story.end.ending;
        sb_wal_reader_close(reader);
        close(fd);
        return ending;
}

static void test_a_closed_file_has_all_that_it_promises_or_is_damaged(void)
{
        unsigned char zeros[SB_WAL_BLOCK] = {0};

        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0000"), 0);
        CHECK_EQ(ending_of(4), SB_WAL_CLEAN);
        /* One more than there is; fewer: what stands behind has come since. */
        CHECK_EQ(ending_of(5), SB_WAL_DAMAGED);
        CHECK(story.end.sequence == 4 && story.end.file == 1);
        CHECK_EQ(story.end.offset, 5 * SB_WAL_BLOCK);
        CHECK_EQ(ending_of(3), SB_WAL_CLEAN);
        /* The last batch rots: of a file that is not closed it would be torn. */
        CHECK(write_at(NAME_1, 4 * SB_WAL_BLOCK + 100, "x", 1));
        CHECK_EQ(ending_of(0), SB_WAL_TORN);
        CHECK_EQ(ending_of(4), SB_WAL_DAMAGED);
        CHECK(story.end.cut == 30 && story.count == 3 && story.end.what);
        CHECK_EQ(story.end.offset, 4 * SB_WAL_BLOCK);
        /* It is gone without a trace. */
        CHECK(write_at(NAME_1, 4 * SB_WAL_BLOCK, zeros, sizeof(zeros)));
        CHECK_EQ(ending_of(0), SB_WAL_CLEAN);
        CHECK_EQ(ending_of(4), SB_WAL_DAMAGED);
        end_log();
}

static void test_a_closed_file_that_has_grown_is_damaged(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0000"), 0);
        CHECK(truncate_file(NAME_1, (64 << 10) + 1) == 0);
        /* One that an agentd goes on with may be any length. */
        CHECK_EQ(ending_of(0), SB_WAL_CLEAN);
        CHECK_EQ(ending_of(4), SB_WAL_DAMAGED);
        CHECK(story.end.file == 1 && story.end.offset == 64 << 10 &&
                strstr(story.end.what, "long"));
        CHECK(story.end.cut == 40 && story.count == 4);
        /* What comes behind it is no part of it. */
        CHECK(truncate_file(NAME_1, 64 << 10) == 0);
        CHECK_EQ(ending_of(4), SB_WAL_CLEAN);
        CHECK(change_header(104, 4));
        CHECK_EQ(write_shapes("50"), 0);
        CHECK(truncate_file(NAME_1, (64 << 10) + 1) == 0 && reads_back(6));
        end_log();
}

static void test_a_log_goes_on_behind_a_closed_file(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0123"), 0);
        CHECK(change_header(104, 4));
        CHECK_EQ(write_shapes("50"), 0);
        CHECK(reads_back(6));
        end_log();
        /* From an earlier batch, too: what the next file says counts. */
        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0123"), 0);
        CHECK(change_header(104, 4));
        options.sequence = 3;
        options.cut = 30;
        CHECK_EQ(write_shapes("0"), 0);
        CHECK(reads_back(4));
        /* A header that promises what lies before it is none. */
        CHECK(change_header(56, 3) && change_header(104, 2));
        CHECK(!story_read(dir, &story));
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK_EQ(story.end.offset, 0);
        end_log();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_frames_are_handed_out_as_they_are);
        RUN(test_one_file_is_a_log_under_any_name);
        RUN(test_a_closed_file_has_all_that_it_promises_or_is_damaged);
        RUN(test_a_closed_file_that_has_grown_is_damaged);
        RUN(test_a_log_goes_on_behind_a_closed_file);
        return test_end();
}
