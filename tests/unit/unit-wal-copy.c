/*
 * A copy of the bus on its way into the log (agentd/wal/wal-copy.h): when one begins, how much of
 * it a batch has, what stays behind it. What a copy has and what comes back of it: api-copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agentd/wal/wal-copy.h"
#include "ring/attach/place.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/power/batches.h"
#include "tests/unit/bus.h"

#define PIECE     (UINT64_C(256) << 10)
#define PAUSE_NS  UINT64_C(10000000)
#define SECOND_NS UINT64_C(1000000000)
#define LONG_NS   (SECOND_NS << 32) /* no machine has been up for so long */

static struct sb_config config;
static struct sb_wal_log log;
static struct sb_superblock *super;

/* What the copy has asked others to do. */
static uint32_t begun, begun_once, some, released;
static uint64_t some_words, released_cut;
static int release_error;
static uint32_t lines; /* for people */

__attribute__((format(printf, 1, 2))) void __wrap_sb_log(const char *format, ...);
void __wrap_sb_log(const char *format, ...)
{
        (void)format;
        lines++;
}

void __wrap_sb_batch_copy(struct sb_batch *batch);
void __wrap_sb_batch_copy(struct sb_batch *batch)
{
        CHECK(batch == &log.batch);
        begun++;
}

void __wrap_sb_batch_copy_once(struct sb_batch *batch);
void __wrap_sb_batch_copy_once(struct sb_batch *batch)
{
        CHECK(batch == &log.batch);
        begun_once++;
}

void __wrap_sb_batch_copy_some(
        const struct sb_handle *handle, struct sb_batch *batch, uint32_t words);
void __wrap_sb_batch_copy_some(
        const struct sb_handle *handle, struct sb_batch *batch, uint32_t words)
{
        CHECK(handle == &log.handle && batch == &log.batch);
        some++;
        some_words = words;
}

int __wrap_sb_wal_writer_release(struct sb_wal_writer *writer, uint64_t cut);
int __wrap_sb_wal_writer_release(struct sb_wal_writer *writer, uint64_t cut)
{
        (void)writer;
        released++;
        released_cut = cut;
        return release_error;
}

/* A log that has written some batches; no copy is wanted. */
static bool begin(void)
{
        if (!make_bus(1 << 20))
                return false;
        config = (struct sb_config){.checkpoint_bytes = 1000};
        log = (struct sb_wal_log){.config = &config, .directory_fd = -1, .sequence = 8};
        log.handle = writer;
        log.batch.above = 70;
        super = writer.segment.super;
        begun = begun_once = some = released = lines = 0;
        release_error = 0;
        return true;
}

static uint64_t wanted(void)
{
        return sb_load_relaxed(&super->copies_wanted);
}

/* What asks for more than two ahead is damaged: it asks for one. */
static void test_clients_ask_for_two_copies_ahead_at_most(void)
{
        static const uint64_t cases[][3] = {/* begun, wanted, and what is asked for */
                {0, 0, 0}, {0, 1, 1}, {0, 2, 2}, {0, 3, 1}, {5, 3, 3}, {5, 5, 5}, {5, 7, 7},
                {5, 8, 6}, {5, UINT64_MAX, 6}, {UINT64_MAX, 0, 0}};

        CHECK(begin());
        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                sb_store_relaxed(&super->copies_begun, cases[i][0]);
                sb_store_relaxed(&super->copies_wanted, cases[i][1]);
                CHECK_EQ(sb_wal_copy_asked(&log), cases[i][2]);
                CHECK_EQ(wanted(), cases[i][2]);
                CHECK_EQ(sb_wal_copy_is_wanted(&log), cases[i][2] > cases[i][0]);
        }
        unmake_bus();
}

static void test_a_copy_is_due_by_bytes_or_by_time_behind_a_write(void)
{
        CHECK(begin());
        log.written = 1000;
        CHECK(!sb_wal_copy_is_wanted(&log));
        log.written = 1001;
        CHECK(sb_wal_copy_is_wanted(&log));
        log.written = 1;
        CHECK(!sb_wal_copy_is_wanted(&log));
        config.checkpoint_ns = 1;
        CHECK(sb_wal_copy_is_wanted(&log));
        log.written = 0;
        CHECK(!sb_wal_copy_is_wanted(&log));
        log.written = 1;
        config.checkpoint_ns = LONG_NS;
        CHECK(!sb_wal_copy_is_wanted(&log));
        unmake_bus();
}

static bool begins(void)
{
        uint32_t before = begun;

        sb_wal_copy_begin(&log);
        return begun != before;
}

static void test_one_copy_begins_at_a_time_and_none_beside_a_batch_of_all(void)
{
        CHECK(begin());
        CHECK(!begins());
        log.written = 1001;
        log.grown = 5;
        log.batch.all = true;
        CHECK(!begins());
        log.batch.all = false;
        log.sequence = 0;
        CHECK(!begins());
        log.sequence = 8;
        sb_store_relaxed(&super->copies_ended, 3);
        sb_store_relaxed(&super->copy_done, 99);
        CHECK(begins());
        CHECK(log.copy.since == 9 && log.copy.above == 69 && log.copy.words == 1);
        CHECK(log.copy.begins && !log.copy.changed && !log.copy.due_ns);
        CHECK(!log.written && !log.grown);
        CHECK_EQ(sb_load_relaxed(&super->copies_begun), 4);
        CHECK_EQ(sb_load_relaxed(&super->copies_ended), 3);
        CHECK_EQ(sb_load_relaxed(&super->copy_done), 0);
        CHECK_EQ(sb_load_relaxed(&super->copy_all),
                writer.segment.bucket_count + (writer.segment.bucket_count + 63) / 64);
        log.written = 1001;
        CHECK(!begins());
        /* At a clean end nothing has to ask for it. */
        log = (struct sb_wal_log){.config = &config, .handle = writer, .sequence = 8, .last = true};
        CHECK(begins());
        unmake_bus();
}

static void test_a_copy_that_files_call_for_comes_with_a_batch_of_all_or_behind_it(void)
{
        CHECK(begin());
        log.batch.all = true;
        log.call = SB_WAL_CALL_SOON;
        CHECK(sb_wal_copy_is_wanted(&log) && !begins() && log.call == SB_WAL_CALL_SOON);
        log.batch.all = false;
        CHECK(begins() && !begun_once && !log.call && log.copy.soon && !log.copy.once);
        /* Its pieces are large, and have no pause. */
        log.copy.due_ns = LONG_NS;
        sb_wal_copy_some(&log);
        CHECK(log.copy.pieces == 32 && some_words == 32);
        log.copy.since = 0;
        log.batch.all = true;
        log.call = SB_WAL_CALL_ONCE;
        CHECK(!begins() && begun_once == 1 && !log.call && log.copy.once && log.copy.since == 9);
        sb_wal_copy_some(&log);
        CHECK_EQ(some_words, ((uint64_t)writer.segment.bucket_count + 63) / 64);
        unmake_bus();
}

/* In a batch that begins @after ns behind the time at which the next pieces are due. */
static uint64_t pieces_of(uint64_t after)
{
        log.begun_ns = log.copy.due_ns + after;
        sb_wal_copy_some(&log);
        return log.copy.pieces;
}

static void test_pieces_come_together_unless_a_client_waits_for_the_batch(void)
{
        CHECK(begin());
        sb_wal_copy_some(&log);
        CHECK(!some);
        log.copy = (struct sb_wal_copy){.since = 9, .words = 3, .due_ns = 50 * SECOND_NS};
        log.batch.whole = true;
        sb_wal_copy_some(&log);
        CHECK(!some);
        log.batch.whole = false;
        CHECK(pieces_of(0) == 10 && some == 1 && some_words == 30);
        CHECK_EQ(log.copy.due_ns, 50 * SECOND_NS + PAUSE_NS);
        log.begun_ns = log.copy.due_ns - 1;
        sb_wal_copy_some(&log);
        CHECK(!log.copy.pieces && some == 2 && !some_words);
        CHECK_EQ(log.copy.due_ns, 50 * SECOND_NS + PAUSE_NS);
        log.waited_ns = log.copy.due_ns + 7 - SECOND_NS;
        CHECK(pieces_of(6) == 1 && some_words == 3);
        log.waited_ns = log.copy.due_ns + 7 - SECOND_NS;
        CHECK(pieces_of(7) == 10 && some_words == 30);
        log.last = true;
        log.begun_ns = 1;
        sb_wal_copy_some(&log);
        CHECK(log.copy.pieces == 32 && some_words == 96);
        unmake_bus();
}

/* When as much was changed as a copy may wait for, the copy is over. */
static void test_a_copy_keeps_up_with_what_is_changed(void)
{
        uint64_t all;

        CHECK(begin());
        all = ((uint64_t)writer.segment.bucket_count + 63) / 64;
        log.copy = (struct sb_wal_copy){.since = 9, .words = 1, .due_ns = LONG_NS};
        log.copy.changed = 1000;
        sb_wal_copy_some(&log);
        CHECK_EQ(some_words, all);
        log.batch.copy_next = all - 1;
        sb_wal_copy_some(&log);
        CHECK_EQ(some_words, 1);
        log.batch.copy_next = all + 1;
        sb_wal_copy_some(&log);
        CHECK_EQ(some_words, 0);
        log.batch.copy_next = 0;
        log.copy.changed = UINT64_C(1) << 62;
        sb_wal_copy_some(&log);
        CHECK_EQ(some_words, UINT32_MAX);
        unmake_bus();
}

static void test_pieces_become_larger_and_smaller_by_what_they_had(void)
{
        static const struct {
                uint64_t words, pieces, bytes, words_after, pauses; /* 0: as it was */
        } cases[] = {{4, 0, PIECE * 9, 4, 0}, {4, 1, PIECE / 2 - 1, 8, 0}, {4, 1, PIECE / 2, 4, 0},
                {4, 1, PIECE, 4, 0}, {4, 1, PIECE + 1, 2, 0}, {1, 1, PIECE + 1, 1, 0},
                {2, 1, PIECE + 1, 1, 0}, {4, 1, 2 * PIECE, 2, 2}, {4, 10, 10 * PIECE, 4, 10},
                {4, 10, 5 * PIECE - 1, 8, 4}, {4, 32, 40 * PIECE, 2, 10},
                {1 << 30, 1, 1, 1 << 30, 0}};

        CHECK(begin());
        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                log.begun_ns = 70;
                log.changed = 1000;
                log.copy = (struct sb_wal_copy){.since = 9,
                        .words = cases[i].words,
                        .pieces = cases[i].pieces,
                        .floor_end = 5,
                        .due_ns = 3};
                sb_wal_copy_count(&log, cases[i].bytes + 1000);
                CHECK_EQ(log.copy.words, cases[i].words_after);
                CHECK_EQ(log.copy.floor_next, 5);
                CHECK_EQ(log.copy.due_ns, cases[i].pauses ? 70 + cases[i].pauses * PAUSE_NS : 3);
        }
        log.copy =
                (struct sb_wal_copy){.since = 9, .words = writer.segment.bucket_count, .pieces = 1};
        sb_wal_copy_count(&log, 1000);
        CHECK_EQ(log.copy.words, writer.segment.bucket_count);
        /* Fewer bytes than those of its changes are none. */
        log.copy = (struct sb_wal_copy){.since = 9, .words = 4, .pieces = 1};
        sb_wal_copy_count(&log, 999);
        CHECK_EQ(log.copy.words, 8);
        unmake_bus();
}

static void test_a_copy_is_over_with_the_last_floor_and_is_no_growth_itself(void)
{
        CHECK(begin());
        log.written = 5000;
        log.copy = (struct sb_wal_copy){.floor_end = writer.segment.bucket_count};
        CHECK(!sb_wal_copy_is_over(&log));
        sb_wal_copy_count(&log, 10);
        CHECK(log.written == 5000 && !log.copy.floor_next);
        log.copy = (struct sb_wal_copy){.since = 9, .above = 69, .words = 1, .changed = 44};
        log.copy.floor_end = writer.segment.bucket_count - 1;
        CHECK(!sb_wal_copy_is_over(&log));
        sb_wal_copy_count(&log, 10);
        CHECK(log.copy.since == 9 && log.written == 5000 && !log.release_cut);
        log.copy.floor_end++;
        CHECK(sb_wal_copy_is_over(&log));
        sb_wal_copy_count(&log, 10);
        CHECK(!log.copy.since && !log.copy.floor_end && log.written == 44);
        CHECK_EQ(sb_load_relaxed(&super->copied_above), 69);
        unmake_bus();
}

/* Behind a batch of the whole bus all that had asked before it are answered. */
static void test_those_who_asked_before_a_batch_of_all_are_answered_by_it(void)
{
        CHECK(begin());
        sb_store_relaxed(&super->copies_begun, 4);
        log.wanted = 5;
        sb_wal_copy_count_ended(&log);
        CHECK(sb_load_relaxed(&super->copies_ended) == 4 && log.copied_ns);
        log.batch.whole = true;
        sb_wal_copy_count_ended(&log);
        CHECK_EQ(sb_load_relaxed(&super->copies_begun), 5);
        CHECK_EQ(sb_load_relaxed(&super->copies_ended), 5);
        log.wanted = 3;
        sb_wal_copy_count_ended(&log);
        CHECK_EQ(sb_load_relaxed(&super->copies_ended), 5);
        unmake_bus();
}

static void test_the_copy_before_the_last_one_stays(void)
{
        static const struct {
                uint64_t before, above;
                bool nameless;
                uint64_t release;
        } cases[] = {{0, 30, false, 0}, {30, 50, false, 30}, {50, 50, false, 50},
                {60, 50, false, 50}, {30, 50, true, 50}};

        CHECK(begin());
        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                sb_store_relaxed(&super->copied_above, cases[i].before);
                log.nameless = cases[i].nameless;
                sb_wal_copy_keep_two(&log, cases[i].above);
                CHECK_EQ(log.release_cut, cases[i].release);
                CHECK_EQ(sb_load_relaxed(&super->copied_above), cases[i].above);
        }
        unmake_bus();
}

static void test_old_files_go_when_no_backup_reads_them(void)
{
        char path[64];
        int dir = scratch_make(path, sizeof(path)), reader_fd, free_fd, fd;

        CHECK(dir >= 0 && begin());
        log.directory_fd = dir;
        snprintf(config.place.directory, sizeof(config.place.directory), "%s", path);
        reader_fd = openat(dir, SB_PLACE_BACKUP, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        free_fd = dup(dir);
        close(free_fd);
        sb_wal_copy_release(&log);
        CHECK(!released);
        log.release_cut = 30;
        CHECK(reader_fd >= 0 && !flock(reader_fd, LOCK_SH));
        /* That is said once. */
        for (uint32_t i = 0; i < 3; i++) {
                sb_wal_copy_release(&log);
                CHECK(!released && log.release_cut == 30 && log.release_put_off && lines == 1);
        }
        CHECK(!flock(reader_fd, LOCK_UN));
        sb_wal_copy_release(&log);
        CHECK(released == 1 && released_cut == 30 && !log.release_cut && !log.release_put_off);
        CHECK_EQ(lines, 1);
        /* The lock is let go of, too. */
        CHECK(!flock(reader_fd, LOCK_SH | LOCK_NB));
        fd = dup(dir);
        CHECK_EQ(fd, free_fd);
        close(fd);
        close(reader_fd);
        /* One that cannot be asked keeps no file. */
        log.release_cut = 40;
        log.directory_fd = -1;
        release_error = -EIO;
        sb_wal_copy_release(&log);
        CHECK(released == 2 && released_cut == 40 && !log.release_cut && lines == 2);
        unmake_bus();
        scratch_remove(dir, path);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_clients_ask_for_two_copies_ahead_at_most);
        RUN(test_a_copy_is_due_by_bytes_or_by_time_behind_a_write);
        RUN(test_one_copy_begins_at_a_time_and_none_beside_a_batch_of_all);
        RUN(test_a_copy_that_files_call_for_comes_with_a_batch_of_all_or_behind_it);
        RUN(test_pieces_come_together_unless_a_client_waits_for_the_batch);
        RUN(test_a_copy_keeps_up_with_what_is_changed);
        RUN(test_pieces_become_larger_and_smaller_by_what_they_had);
        RUN(test_a_copy_is_over_with_the_last_floor_and_is_no_growth_itself);
        RUN(test_those_who_asked_before_a_batch_of_all_are_answered_by_it);
        RUN(test_the_copy_before_the_last_one_stays);
        RUN(test_old_files_go_when_no_backup_reads_them);
        return test_end();
}
