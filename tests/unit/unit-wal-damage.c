/*
 * What the log's reader (ring/wal) says of files that are not as a writer left them: another
 * version's or another bus's, torn, damaged at any byte, lost in part, or hostile, with checksums
 * that are right. Nothing is believed that no writer wrote, and the place of the damage is named.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/unit/wal.h"

/* ---- what is not as it was written ---- */

static void test_a_log_of_another_version_says_which(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 0));
        CHECK_EQ(write_shapes("00"), 0);
        CHECK(change_header(8, 9));
        CHECK(!story_read(dir, &story));
        CHECK_EQ(story.end.ending, SB_WAL_OTHER_VERSION);
        CHECK_EQ(story.end.version, 9);
        CHECK_EQ(story.count, 0);
        CHECK(change_header(8, 1) && change_header(12, 0x04030201));
        CHECK(!story_read(dir, &story));
        CHECK_EQ(story.end.ending, SB_WAL_OTHER_ENDIAN);
        end_log();
}

static void test_a_log_of_another_bus_is_not_read(void)
{
        struct sb_wal_reader *reader = NULL;

        CHECK(begin_log(SB_WAL_AUTO, 32 << 10, 0));
        CHECK_EQ(write_shapes("00"), 0);
        CHECK(!sb_wal_reader_open(dir, (const unsigned char *)"another bus's id", &reader));
        CHECK_EQ(sb_wal_reader_end(reader)->ending, SB_WAL_OTHER_BUS);
        reader = sb_wal_reader_close(reader);
        CHECK(!sb_wal_reader_open(dir, options.id, &reader));
        CHECK_EQ(sb_wal_reader_end(reader)->ending, SB_WAL_CLEAN);
        CHECK_EQ(sb_wal_reader_end(reader)->hash_seed, 77);
        CHECK(!memcmp(sb_wal_reader_end(reader)->id, options.id, 16));
        reader = sb_wal_reader_close(reader);
        end_log();
}

static void test_a_torn_end_is_told_apart_from_damage(void)
{
        unsigned char zeros[SB_WAL_BLOCK] = {0};

        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("0004"), 0);
        /* Blocks: header, three batches, then one with several frames. */
        CHECK(write_at(NAME_1, 5 * SB_WAL_BLOCK, zeros, 512));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_TORN);
        CHECK_EQ(story.end.sequence, 3);
        CHECK_EQ(story.end.file, 1);
        CHECK_EQ(story.end.offset, 4 * SB_WAL_BLOCK);
        CHECK_EQ(story.end.dropped, 4 * SB_WAL_BLOCK); /* of this batch alone */
        /* A bad frame before whole ones of a later batch. */
        CHECK(write_at(NAME_1, 2 * SB_WAL_BLOCK + 200, "x", 1));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK_EQ(story.end.sequence, 1);
        CHECK_EQ(story.end.cut, 10);
        CHECK_EQ(story.end.file, 1);
        CHECK_EQ(story.end.offset, 2 * SB_WAL_BLOCK);
        end_log();
}

/* The payload of the frame at this place is another one; its header is as it was. */
static bool rots(const char *name, uint64_t block)
{
        return write_at(name, block * SB_WAL_BLOCK + SB_WAL_FRAME_HEAD + 3, "x", 1);
}

static void test_a_header_of_a_later_batch_shows_that_the_one_before_was_on_the_disk(void)
{
        unsigned char zeros[SB_WAL_BLOCK] = {0};

        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 4000));
        CHECK_EQ(write_shapes("00000"), 0);
        /* One bad batch at the end may be torn; of two, the last one's header says what was. */
        CHECK(rots(NAME_1, 5));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK(story.end.ending == SB_WAL_TORN && story.end.sequence == 4);
        CHECK(rots(NAME_1, 4));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK(story.end.sequence == 3 && story.end.cut == 30 && story.end.file == 1);
        CHECK_EQ(story.end.offset, 4 * SB_WAL_BLOCK);
        /* The damaged batch has lost its header, too. */
        CHECK(write_at(NAME_1, 4 * SB_WAL_BLOCK, zeros, sizeof(zeros)));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK(story.end.ending == SB_WAL_DAMAGED && story.end.sequence == 3);
        CHECK_EQ(story.end.offset, 4 * SB_WAL_BLOCK);
        /* Without any, nothing shows it. */
        CHECK(write_at(NAME_1, 5 * SB_WAL_BLOCK, zeros, 512));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK(story.end.ending == SB_WAL_CLEAN && story.end.sequence == 3);
        end_log();
        /* Headers of the last batch itself are left by a power failure, in front and behind. */
        CHECK(begin_log(SB_WAL_AUTO, 256 << 10, 1000));
        CHECK_EQ(write_shapes("04"), 0);
        for (uint64_t block = 2; block < 9; block++) {
                CHECK(rots(NAME_1, block));
                CHECK(!story_read(dir, &story) && !story.wrong);
                CHECK(story.end.ending == SB_WAL_TORN && story.end.sequence == 1);
        }
        end_log();
}

static void test_so_do_headers_in_the_next_file(void)
{
        /* Three batches a file: the fourth is alone in the second one. */
        CHECK(begin_log(SB_WAL_AUTO, 16 << 10, 4000));
        CHECK_EQ(write_shapes("0000"), 0);
        CHECK(rots(NAME_1, 3) && rots(NAME_2, 1));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK(story.end.ending == SB_WAL_DAMAGED && story.end.sequence == 2);
        CHECK(story.end.file == 1 && story.end.offset == 3 * SB_WAL_BLOCK);
        end_log();
        /* A batch that goes on in the second file, with a bad frame there. */
        CHECK(begin_log(SB_WAL_AUTO, 64 << 10, 1000));
        CHECK_EQ(write_shapes("00000000004"), 0);
        CHECK(reads_back(11) && rots(NAME_2, 1));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK(story.end.ending == SB_WAL_TORN && story.end.sequence == 10);
        end_log();
}

static void test_a_changed_version_is_damage_and_no_other_version(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 16 << 10, 4000));
        CHECK_EQ(write_shapes("00000"), 0);
        /* The checksum is that of a header of the version that is read here. */
        for (uint32_t bit = 0; bit < 32; bit++) {
                uint32_t version = SB_WAL_VERSION ^ 1u << bit;

                CHECK(write_at(NAME_2, 8, &version, 4) && !story_read(dir, &story) && !story.wrong);
                CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
                CHECK(story.end.file == 2 && !story.end.offset && story.end.sequence == 3);
                CHECK(story.end.cut == 30 && story.count == 3);
        }
        CHECK(write_at(NAME_2, 8, &(uint32_t){SB_WAL_VERSION}, 4) && reads_back(5));
        end_log();
}

static void test_a_short_a_missing_and_a_foreign_file_are_damage(void)
{
        CHECK(begin_log(SB_WAL_AUTO, 16 << 10, 4000));
        CHECK_EQ(write_shapes("00000000"), 0);
        CHECK(reads_back(8));
        CHECK(!renameat(dir, NAME_2, dir, "aside"));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK_EQ(story.end.file, 2);
        CHECK_EQ(story.end.sequence, 3);
        CHECK_EQ(story.count, 3);
        /* Another file in its place: the header says a number. */
        CHECK(!linkat(dir, NAME_1, dir, NAME_2, 0));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK_EQ(story.end.file, 2);
        CHECK(!renameat(dir, "aside", dir, NAME_2));
        CHECK(reads_back(8));
        CHECK(!truncate_file(NAME_2, 10000));
        CHECK(!story_read(dir, &story) && !story.wrong);
        CHECK_EQ(story.end.ending, SB_WAL_DAMAGED);
        CHECK_EQ(story.end.file, 2);
        CHECK_EQ(story.end.offset, 8192); /* the frame that the next file says was whole */
        end_log();
}

/* The sanitizers make each look some times as long. */
#ifdef __SANITIZE_ADDRESS__
#define BYTES_STEP 5
#else
#define BYTES_STEP 1
#endif

/* Each byte of each file is changed, one at a time. What is read is a beginning of what was
 * written; all of it, or the end is said to be torn or damaged. */
static void test_no_changed_byte_is_believed(void)
{
        uint32_t counts[3] = {0}, files = 0, unseen = 0;
        char name[SB_WAL_FILE_NAME_MAX];

        CHECK(begin_log(SB_WAL_AUTO, 12 << 10, 4000));
        CHECK_EQ(write_shapes("031"), 0);
        CHECK(reads_back(3));
        for (uint64_t number = 1; number <= 9; number++) {
                struct stat status;

                sb_wal_file_name(number, name);
                if (fstatat(dir, name, &status, 0) < 0)
                        break;
                files++;
                for (uint64_t offset = 0; offset < (uint64_t)status.st_size; offset += BYTES_STEP) {
                        unsigned char byte, other;

                        CHECK(read_at(name, offset, &byte, 1));
                        other = byte ^ (unsigned char)(1u << offset % 8);
                        CHECK(write_at(name, offset, &other, 1));
                        CHECK_EQ(story_read(dir, &story), 0);
                        if (story.wrong)
                                TEST_FAIL("file %ju, byte %ju: %s", (uintmax_t)number,
                                        (uintmax_t)offset, story.wrong);
                        /* A header of another version, of another byte order. */
                        CHECK(story.count == story.end.sequence || story.end.ending > 2);
                        /* Without its salt, nothing shows that the last frame ever was. */
                        if (story.count < 3 && story.end.ending == SB_WAL_CLEAN) {
                                CHECK_EQ(story.count, 2);
                                unseen++;
                        }
                        counts[story.end.ending > 2 ? 2 : story.end.ending]++;
                        CHECK(write_at(name, offset, &byte, 1));
                }
        }
        CHECK(reads_back(3));
        CHECK(unseen <= 8 && files >= 2 && counts[SB_WAL_TORN] > 80 / BYTES_STEP &&
                counts[SB_WAL_DAMAGED] > 8000 / BYTES_STEP);
        TEST_NOTE("%u files, one byte changed: %u times it does not matter, %u torn, %u damaged",
                files, counts[0], counts[1], counts[2]);
        end_log();
}

/* ---- pieces of a copy ---- */

/* Writes batches, of which some have no change: their cut is that of the batch before. */
static int write_pieces(const char *shapes, const char *cuts)
{
        struct sb_wal_writer *writer;
        int r = sb_wal_writer_open(&options, &writer);

        for (uint32_t i = 0; shapes[i] && !r; i++)
                r = batch_write(writer, batch_seed(i + 1, (uint32_t)(shapes[i] - '0')),
                        10 * (uint64_t)(cuts[i] - '0'));
        sb_wal_writer_close(writer);
        return r;
}

struct run {
        char begun[32], ended[32];
        struct sb_wal_end end;
};

static int run_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct run *run = context;

        *ret_skip = false;
        run->begun[strlen(run->begun)] = (char)('0' + batch->sequence);
        return 0;
}

static int run_entry(void *context, const struct sb_wal_entry *entry)
{
        (void)context;
        (void)entry;
        return 0;
}

static int run_end(void *context, const struct sb_wal_batch *batch)
{
        struct run *run = context;

        run->ended[strlen(run->ended)] = (char)('0' + batch->sequence);
        return 0;
}

/* Which batches are handed out, from their beginning to their end. */
static bool read_run(struct run *ret)
{
        static const struct sb_wal_visitor visitor = {
                .begin = run_begin, .entry = run_entry, .end = run_end};
        struct sb_wal_reader *reader = NULL;
        int r = 1;

        *ret = (struct run){0};
        if (!sb_wal_reader_open(dir, NULL, &reader)) {
                r = sb_wal_reader_visit(reader, &visitor, ret);
                ret->end = *sb_wal_reader_end(reader);
        }
        sb_wal_reader_close(reader);
        return !r && !strcmp(ret->begun, ret->ended);
}

/* Which batch has a frame in this block of a file; 0: none, or the block is not its first one. */
static uint64_t batch_at(const char *name, uint64_t block)
{
        unsigned char head[SB_WAL_BLOCK], bytes[SB_WAL_FRAME_HEAD];
        struct sb_wal_frame frame;

        if (!block || !read_at(name, 0, head, sizeof(head)) ||
                !read_at(name, block * SB_WAL_BLOCK, bytes, sizeof(bytes)) ||
                !sb_wal_frame_decode(
                        bytes, sb_wal_bytes_get64(head + 40), block * SB_WAL_BLOCK, &frame))
                return 0;
        return frame.batch.sequence;
}

/* Whether the log is read as it has to be with a bad frame in a batch: 2 and 4 have pieces alone,
 * the fifth is the last one. */
static bool is_read_without(uint64_t bad, const char *name, uint64_t block)
{
        static const char *const runs[] = {"", "", "1345", "12", "1235", "1234"};
        char number[SB_WAL_FILE_NAME_MAX];
        struct run run;

        if (!read_run(&run) || strcmp(run.begun, runs[bad]) != 0)
                return false;
        sb_wal_file_name(run.end.passed_file, number);
        if (bad == 2 || bad == 4)
                return run.end.ending == SB_WAL_CLEAN && run.end.passed == 1 &&
                       run.end.sequence == 5 && !strcmp(number, name) &&
                       run.end.passed_offset == block * SB_WAL_BLOCK;
        return !run.end.passed && run.end.ending != SB_WAL_CLEAN &&
               (bad == 5 || run.end.ending == SB_WAL_DAMAGED);
}

static void test_where_a_batch_has_no_change_a_bad_frame_of_it_costs_nothing(void)
{
        static const uint32_t sizes[] = {
                8 << 10, 12 << 10, 16 << 10, 20 << 10, 48 << 10, 256 << 10};
        unsigned char zeros[SB_WAL_BLOCK] = {0}, block[SB_WAL_BLOCK];
        char name[SB_WAL_FILE_NAME_MAX];
        uint32_t pieces = 0, changes = 0;
        struct run run;

        for (uint32_t i = 0; i < 6; i++) {
                CHECK(begin_log(SB_WAL_AUTO, sizes[i], 1000));
                CHECK_EQ(write_pieces("04343", "11223"), 0);
                CHECK(read_run(&run) && !strcmp(run.begun, "12345"));
                CHECK(run.end.ending == SB_WAL_CLEAN && !run.end.passed);
                for (uint64_t at = 0; at < 200 * 64; at++) {
                        uint64_t bad;

                        sb_wal_file_name(1 + at / 64, name);
                        bad = faccessat(dir, name, F_OK, 0) ? 0 : batch_at(name, at % 64);
                        if (!bad)
                                continue;
                        *(bad == 2 || bad == 4 ? &pieces : &changes) += 1;
                        CHECK(read_at(name, at % 64 * SB_WAL_BLOCK, block, sizeof(block)));
                        CHECK(rots(name, at % 64));
                        CHECK(is_read_without(bad, name, at % 64));
                        /* Not a trace of it, and of a batch that is the last one none is missed. */
                        CHECK(write_at(name, at % 64 * SB_WAL_BLOCK, zeros, sizeof(zeros)));
                        CHECK(is_read_without(bad, name, at % 64) || bad == 5);
                        CHECK(write_at(name, at % 64 * SB_WAL_BLOCK, block, sizeof(block)));
                }
                CHECK(read_run(&run) && !strcmp(run.begun, "12345"));
                end_log();
        }
        TEST_NOTE("%u bad frames of pieces, %u of changes", pieces, changes);
        CHECK(pieces > 100 && changes > 50);
}

static void test_a_bad_batch_is_passed_over_only_where_the_next_one_shows_that_it_may_be(void)
{
        struct run run;

        /* The second batch has a change. */
        CHECK(begin_log(SB_WAL_AUTO, 256 << 10, 4000));
        CHECK_EQ(write_pieces("0000", "1234"), 0);
        CHECK(rots(NAME_1, 2) && read_run(&run));
        CHECK(run.end.ending == SB_WAL_DAMAGED && !run.end.passed && !strcmp(run.begun, "1"));
        end_log();
        /* Nothing whole is behind it: it may be torn; or the beginning of the next one is bad. */
        CHECK(begin_log(SB_WAL_AUTO, 256 << 10, 4000));
        CHECK_EQ(write_pieces("00", "11"), 0);
        CHECK(rots(NAME_1, 2) && read_run(&run));
        CHECK(run.end.ending == SB_WAL_TORN && !run.end.passed && !strcmp(run.begun, "1"));
        end_log();
        CHECK(begin_log(SB_WAL_AUTO, 256 << 10, 4000));
        CHECK_EQ(write_pieces("0000", "1122"), 0);
        CHECK(rots(NAME_1, 2) && rots(NAME_1, 3) && read_run(&run));
        CHECK(run.end.ending == SB_WAL_DAMAGED && !run.end.passed && !strcmp(run.begun, "1"));
        CHECK(run.end.cut == 10 && run.end.offset == 2 * SB_WAL_BLOCK);
        end_log();
        /* Two of them, and a torn one behind. */
        CHECK(begin_log(SB_WAL_AUTO, 256 << 10, 4000));
        CHECK_EQ(write_pieces("000000", "112233"), 0);
        CHECK(rots(NAME_1, 2) && rots(NAME_1, 4) && rots(NAME_1, 6) && read_run(&run));
        CHECK(run.end.ending == SB_WAL_TORN && run.end.passed == 2 && !strcmp(run.begun, "135"));
        CHECK(run.end.sequence == 5 && run.end.cut == 30);
        end_log();
}

/* ---- hostile files ---- */

/* Writes a log of one frame that is whole, with this payload. */
static bool forge(const void *payload, uint32_t len)
{
        struct sb_wal_file file = {.salt = 5, .number = 1, .first_sequence = 1, .size = 64 << 10};
        static unsigned char bytes[64 << 10];
        struct sb_wal_frame frame = {
                .batch = {.sequence = 1, .cut = 10},
                .payload_len = len,
                .flags = SB_WAL_FRAME_FIRST | SB_WAL_FRAME_LAST,
                .file_offset = SB_WAL_BLOCK,
        };
        int fd = openat(dir, NAME_1, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        bool good;

        memset(bytes, 0, sizeof(bytes));
        memcpy(file.id, options.id, sizeof(file.id));
        sb_wal_file_encode(&file, bytes);
        memcpy(bytes + SB_WAL_BLOCK + SB_WAL_FRAME_HEAD, payload, len);
        sb_wal_frame_seal(bytes + SB_WAL_BLOCK, &frame, file.salt);
        good = fd >= 0 && pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes);
        close(fd);
        return good;
}

static int ignore_entry(void *context, const struct sb_wal_entry *entry)
{
        ++*(uint32_t *)context;
        (void)entry;
        return 0;
}

static int visit_forged(uint32_t *ret_entries)
{
        static const struct sb_wal_visitor visitor = {.entry = ignore_entry};
        struct sb_wal_reader *reader = NULL;
        int r = sb_wal_reader_open(dir, NULL, &reader);

        *ret_entries = 0;
        if (r)
                return 1;
        r = sb_wal_reader_end(reader)->ending == SB_WAL_CLEAN
                    ? sb_wal_reader_visit(reader, &visitor, ret_entries)
                    : 1;
        sb_wal_reader_close(reader);
        return r;
}

/* Revisions that were handed out, and announced, in their order; wrong: in another one. */
struct announced {
        uint64_t given, ahead;
        uint32_t wrong;
};

static int take_given(void *context, const struct sb_wal_entry *entry)
{
        struct announced *announced = context;

        announced->wrong += entry->rev != ++announced->given;
        /* As far ahead as there is something. */
        announced->wrong += announced->ahead < announced->given ||
                            (announced->ahead < announced->given + SB_WAL_AHEAD &&
                                    announced->ahead != 40 && announced->ahead != 29);
        return 0;
}

static void take_ahead(void *context, const struct sb_wal_entry *entry)
{
        struct announced *announced = context;

        announced->wrong += entry->rev != ++announced->ahead || entry->key_len != 3;
}

/* Forges a log of 40 entries, of which one may be bad. */
static int visit_announced(uint32_t bad, struct announced *ret)
{
        static const struct sb_wal_visitor visitor = {.entry = take_given, .ahead = take_ahead};
        struct sb_wal_entry entry = {.kind = SB_WAL_VALUE, .key_len = 3, .value_len = 5};
        unsigned char bytes[40 * 56] = {0};
        struct sb_wal_reader *reader;
        int r;

        *ret = (struct announced){0};
        while (entry.rev < 40) {
                unsigned char *at = bytes + 56 * entry.rev++;

                if (sb_wal_entry_encode(&entry, at))
                        return 1;
                if (entry.rev == bad)
                        *at = 99;
        }
        if (!forge(bytes, sizeof(bytes)) || sb_wal_reader_open(dir, NULL, &reader))
                return 1;
        r = sb_wal_reader_visit(reader, &visitor, ret);
        sb_wal_reader_close(reader);
        return r;
}

static void test_entries_are_announced_before_they_are_handed_out(void)
{
        struct announced announced;

        CHECK(begin_log(SB_WAL_AUTO, 0, 0));
        CHECK_EQ(visit_announced(0, &announced), 0);
        CHECK_EQ(announced.wrong, 0);
        CHECK(announced.given == 40 && announced.ahead == 40);
        CHECK_EQ(visit_announced(30, &announced), -EPROTONOSUPPORT);
        CHECK_EQ(announced.wrong, 0);
        CHECK(announced.given == 29 && announced.ahead == 29);
        end_log();
}

static void test_entries_that_lie_are_refused(void)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_VALUE, .key_len = 3, .value_len = 5, .rev = 1};
        unsigned char bytes[200] = {0};
        uint32_t entries;

        CHECK(begin_log(SB_WAL_AUTO, 0, 0));
        CHECK(!sb_wal_entry_encode(&entry, bytes));
        CHECK(forge(bytes, 56) && !visit_forged(&entries));
        CHECK_EQ(entries, 1);
        /* Half an entry, half a header, a value that is longer than all files. */
        CHECK(forge(bytes, 48));
        CHECK_EQ(visit_forged(&entries), -EBADMSG);
        CHECK(forge(bytes, 24));
        CHECK_EQ(visit_forged(&entries), -EBADMSG);
        entry.value_len = UINT32_MAX;
        CHECK(!sb_wal_entry_encode(&entry, bytes) && forge(bytes, 200));
        CHECK_EQ(visit_forged(&entries), -EBADMSG);
        entry.value_len = 5;
        CHECK(!sb_wal_entry_encode(&entry, bytes));
        bytes[0] = SB_WAL_TIME + 1;
        CHECK(forge(bytes, 56));
        CHECK_EQ(visit_forged(&entries), -EPROTONOSUPPORT);
        bytes[0] = SB_WAL_VALUE;
        bytes[1] = 2;
        CHECK(forge(bytes, 56));
        CHECK_EQ(visit_forged(&entries), -EPROTONOSUPPORT);
        bytes[1] = 0;
        bytes[12] = 1;
        CHECK(forge(bytes, 56));
        CHECK_EQ(visit_forged(&entries), -EBADMSG);
        bytes[12] = 0;
        sb_wal_bytes_put32(bytes + 4, 1025);
        CHECK(forge(bytes, 56));
        CHECK_EQ(visit_forged(&entries), -EBADMSG);
        CHECK_EQ(entries, 0);
        end_log();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_log_of_another_version_says_which);
        RUN(test_a_log_of_another_bus_is_not_read);
        RUN(test_a_torn_end_is_told_apart_from_damage);
        RUN(test_a_header_of_a_later_batch_shows_that_the_one_before_was_on_the_disk);
        RUN(test_so_do_headers_in_the_next_file);
        RUN(test_a_changed_version_is_damage_and_no_other_version);
        RUN(test_a_short_a_missing_and_a_foreign_file_are_damage);
        RUN(test_no_changed_byte_is_believed);
        RUN(test_where_a_batch_has_no_change_a_bad_frame_of_it_costs_nothing);
        RUN(test_a_bad_batch_is_passed_over_only_where_the_next_one_shows_that_it_may_be);
        RUN(test_entries_are_announced_before_they_are_handed_out);
        RUN(test_entries_that_lie_are_refused);
        return test_end();
}
