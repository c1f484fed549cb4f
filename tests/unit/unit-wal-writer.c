/*
 * The log's writer (agentd/wal) when calls fail: each call that it makes of its back end, one at a
 * time, and writes that a real file system cuts short. The writer says so, leaves the file alone,
 * and goes on in another one when it is resumed; what was acknowledged is read back. Both back ends
 * do all of it; where the kernel permits no io_uring, the program ends with 77 when it is run for
 * that alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mimalloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agentd/wal/wal-uring.h"
#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-files.h"
#include "agentd/wal/wal-named.h"
#include "agentd/wal/wal-sync.h"
#include "ring/wal/wal-file.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/power/recorder.h"
#include "tests/unit/blocks.h"

#define BATCHES 12u

static const char no_uring[] = "io_uring is not permitted here";
static struct recorder recorder;
static struct sb_wal_io below, io;
static struct story story;
static char path[64];
static int dir;
static const char *reason;

static int open_before; /* descriptors, before a log begins */

/* What the present run has acknowledged. */
static struct {
        uint64_t sequence, cut, released;
        uint64_t seeds[BATCHES + 1];
        bool failed; /* a call that failed was reported */
} present;

static int open_now(void)
{
        int count = 0;

        for (int fd = 0; fd < 64; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static bool begin_log(enum sb_wal_backend backend)
{
        memset(&present, 0, sizeof(present));
        open_before = open_now();
        dir = scratch_make(path, sizeof(path));
        if (dir < 0)
                return false;
        if (!sb_wal_backend_open(backend, dir, &below, &reason)) {
                recorder_begin(&recorder, &below, &io);
                return true;
        }
        scratch_remove(dir, path);
        return false;
}

static void end_log(void)
{
        recorder_end(&recorder);
        sb_wal_backend_close(&below);
        scratch_remove(dir, path);
}

/* Whether nothing is left of a log that has ended. */
static bool leaves_nothing(void)
{
        return open_now() == open_before && blocks == 0;
}

static int open_writer(struct sb_wal_writer **ret)
{
        struct sb_wal_writer_options options = {
                .directory_fd = dir,
                .io = &io,
                .sequence = present.sequence,
                .cut = present.cut,
                .file_size = 16 << 10,
                .payload_max = 1000,
                .spares_wanted = 1,
        };

        return sb_wal_writer_open(&options, ret);
}

/* Whether the log has all that was acknowledged and is not released, and at most one batch more. */
static const char *what_is_lost(bool exactly)
{
        if (story_read(dir, &story) || story.wrong)
                return "the log cannot be read";
        if (story.end.ending == SB_WAL_DAMAGED)
                return story.end.what;
        if (exactly && (story.end.ending != SB_WAL_CLEAN || story.end.sequence != present.sequence))
                return "the log is not clean at its end";
        if (story.end.sequence < present.sequence || story.end.sequence > present.sequence + 1)
                return "an acknowledged batch is lost";
        if (present.sequence > present.released && story.first > present.released + 1)
                return "a batch is gone that was not released";
        for (uint32_t i = 0; i < story.count; i++)
                if (story.first + i <= present.sequence &&
                        story.seeds[i] != present.seeds[story.first + i])
                        return "a batch is another one";
        return NULL;
}

/* Writes the next batch, again and in another shape after a failure. Return: what is wrong. */
static const char *write_next(struct sb_wal_writer *writer)
{
        static const uint32_t shapes[] = {BATCH_ONE, BATCH_FRAMES, BATCH_FEW, BATCH_VALUE};
        uint64_t sequence = present.sequence + 1, durable, cut = 10 * sequence;
        uint64_t seed = batch_seed(sequence, shapes[sequence % 4]);
        int r = batch_write(writer, seed, cut);
        const char *wrong;

        if (r) {
                present.failed = true;
                if (r != recorder.error)
                        return "the failure is another one";
                if (sb_wal_writer_begin(writer, cut, 0, 0) != r || sb_wal_writer_end(writer) != r)
                        return "a writer that failed goes on";
                wrong = what_is_lost(false);
                if (wrong)
                        return wrong;
                if (sb_wal_writer_resume(writer))
                        return "the writer cannot be resumed";
                seed = batch_seed(sequence, BATCH_PAGES);
                cut++;
                if (batch_write(writer, seed, cut))
                        return "it fails again";
        }
        sb_wal_writer_durable(writer, &durable, &present.cut);
        if (durable != sequence || present.cut != cut)
                return "the last durable batch is another one";
        present.sequence = sequence;
        present.seeds[sequence] = seed;
        return NULL;
}

/* Writes all batches, with a second writer for the later ones. Return: what is wrong. */
static const char *live(void)
{
        struct sb_wal_writer *writer = NULL;
        const char *wrong = NULL;

        for (uint32_t i = 0; i < BATCHES && !wrong; i++) {
                if (i == 8)
                        writer = sb_wal_writer_close(writer);
                for (uint32_t tries = 0; !writer; tries++) {
                        int r = open_writer(&writer);

                        if (!r)
                                break;
                        present.failed = true;
                        if (r != recorder.error || tries)
                                return "the writer cannot be opened";
                        /* What comes next is another process. */
                        memset(recorder.poisoned, 0, sizeof(recorder.poisoned));
                }
                if (i == 3 || i == 5)
                        present.failed |= sb_wal_writer_prepare(writer) == recorder.error;
                if (i == 6 || i == 10) {
                        present.released = present.sequence - 2;
                        present.failed |= sb_wal_writer_release(writer,
                                                  10 * present.released + 9) == recorder.error;
                }
                wrong = write_next(writer);
        }
        sb_wal_writer_close(writer);
        wrong = wrong ? wrong : recorder.wrong;
        return wrong ? wrong : what_is_lost(true);
}

/* Lets each call fail, one a run, until a run has no such call any more. */
static void fail_each_call(enum sb_wal_backend backend, enum recorder_failure failure, int error)
{
        uint32_t runs = 0, reported = 0;
        bool reached = true;

        for (uint64_t at = 1; reached; at++, runs++) {
                const char *wrong;

                CHECK(begin_log(backend));
                recorder.fail_at = at;
                recorder.failure = failure;
                recorder.error = error;
                wrong = live();
                reached = recorder.calls >= at;
                reported += present.failed;
                end_log();
                if (wrong)
                        TEST_FAIL("call %ju: %s", (uintmax_t)at, wrong);
        }
        /* Only that a spare that is not needed any more stays in the directory is not said. */
        CHECK(runs > 100 && reported + 3 >= runs - 1);
}

static void fail_all(enum sb_wal_backend backend)
{
        fail_each_call(backend, FAIL_BEFORE, -EIO);
        fail_each_call(backend, FAIL_PART, -ENOSPC);
}

static bool uring_is_there(void)
{
        if (!begin_log(SB_WAL_URING))
                return false;
        end_log();
        return true;
}

static void test_a_failed_call_is_said_and_loses_nothing_with_the_sync_back_end(void)
{
        fail_all(SB_WAL_SYNC);
}

static void test_a_failed_call_is_said_and_loses_nothing_with_the_uring_back_end(void)
{
        if (!uring_is_there())
                TEST_SKIP(no_uring);
        fail_all(SB_WAL_URING);
}

/* ---- files that cannot be let go ---- */

static uint64_t count_names(bool spares)
{
        struct sb_wal_names names;
        uint64_t count;

        if (sb_wal_file_list(dir, &names))
                return 0;
        count = spares ? names.spare_count : names.number_count;
        sb_wal_file_list_end(&names);
        return count;
}

static uint64_t count_files(void)
{
        return count_names(false);
}

/* Each call of a release fails once: the name's, and the sync of the directory. */
static void test_files_that_could_not_go_go_with_the_next_ones(void)
{
        for (uint64_t call = 1; call <= 6; call++) {
                struct sb_wal_writer *writer;

                CHECK(begin_log(SB_WAL_SYNC) && !open_writer(&writer));
                for (uint32_t i = 0; i < BATCHES - 1; i++)
                        CHECK(!write_next(writer));
                CHECK(count_files() > 4);
                recorder.fail_at = recorder.calls + call;
                recorder.error = -EIO;
                present.released = present.sequence;
                CHECK_EQ(sb_wal_writer_release(writer, present.cut), -EIO);
                CHECK(count_files() > 1);
                CHECK(!sb_wal_writer_release(writer, present.cut));
                CHECK_EQ(count_files(), 1);
                CHECK(count_names(true) <= 1); /* no more than are wanted */
                CHECK(!write_next(writer));
                sb_wal_writer_close(writer);
                CHECK(!what_is_lost(true));
                end_log();
        }
}

/* A user removed a file by hand. */
static void test_a_file_that_is_gone_already_holds_none_behind_it(void)
{
        struct sb_wal_writer *writer;
        char name[SB_WAL_FILE_NAME_MAX];

        CHECK(begin_log(SB_WAL_SYNC) && !open_writer(&writer));
        for (uint32_t i = 0; i < BATCHES - 1; i++)
                CHECK(!write_next(writer));
        sb_wal_file_name(1, name);
        CHECK(!unlinkat(dir, name, 0));
        CHECK(!sb_wal_writer_release(writer, present.cut));
        present.released = present.sequence;
        CHECK_EQ(count_files(), 1);
        CHECK(!write_next(writer));
        sb_wal_writer_close(writer);
        CHECK(!what_is_lost(true));
        end_log();
}

/* Return: how many there were. */
static uint64_t remove_spares(void)
{
        char name[SB_WAL_FILE_NAME_MAX];
        struct sb_wal_names names;
        uint64_t count;

        if (sb_wal_file_list(dir, &names))
                return 0;
        count = names.spare_count;
        for (uint64_t i = 0; i < count; i++) {
                sb_wal_file_spare_name(names.spares[i], name);
                (void)unlinkat(dir, name, 0);
        }
        sb_wal_file_list_end(&names);
        return count;
}

/* The same of what is ready for the next one. */
static void test_a_spare_that_is_gone_already_is_passed_over(void)
{
        struct sb_wal_writer *writer;
        uint64_t removed = 0;

        CHECK(begin_log(SB_WAL_SYNC) && !open_writer(&writer));
        for (uint32_t i = 0; i < BATCHES - 1; i++) {
                CHECK(!sb_wal_writer_prepare(writer));
                removed += remove_spares();
                CHECK(!write_next(writer));
        }
        CHECK(removed > 3 && count_files() > 4);
        sb_wal_writer_close(writer);
        CHECK(!what_is_lost(true));
        end_log();
}

/* The bus could not be read any further: no call has failed, and the batch is another one then. */
static void test_a_batch_that_was_begun_is_dropped_and_the_next_one_takes_its_place(void)
{
        static const unsigned char value[3000];
        struct sb_wal_entry entry = {.kind = SB_WAL_VALUE,
                .rev = 1,
                .key = "k",
                .key_len = 1,
                .value = value,
                .value_len = sizeof(value)};

        for (uint32_t entries = 0; entries < 3; entries++) {
                struct sb_wal_writer *writer;

                CHECK(begin_log(SB_WAL_SYNC) && !open_writer(&writer));
                CHECK(!write_next(writer));
                CHECK(!sb_wal_writer_begin(writer, 15, 0, 0));
                for (uint32_t i = 0; i < entries; i++)
                        CHECK(!sb_wal_writer_add(writer, &entry));
                CHECK(!sb_wal_writer_resume(writer));
                CHECK(!write_next(writer) && !write_next(writer));
                sb_wal_writer_close(writer);
                CHECK(!what_is_lost(true));
                end_log();
        }
}

/* Whether files are missing, of a log that has some of 1 to 4 and was in file @last. */
static bool lacks(unsigned there, uint64_t above, uint64_t last)
{
        struct sb_wal_files_entry list[4];
        struct sb_wal_files files = {.list = list};

        for (uint64_t number = 1; number <= 4; number++)
                if (there >> number & 1)
                        list[files.count++] = (struct sb_wal_files_entry){
                                .number = number, .reaches_cut = 10 * (number - 1)};
        return sb_wal_named_lacks(&files, above, last);
}

static void test_files_are_missing_in_front_between_two_others_and_behind(void)
{
        const unsigned all = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;

        CHECK(!lacks(all, 0, 4) && !lacks(all, 100, 4) && !lacks(all, 100, 0));
        CHECK(lacks(0, 100, 0));
        /* In front: none that the batches above the cut are in. */
        CHECK(!lacks(all & ~(1u << 1), 10, 4) && lacks(all & ~(1u << 1), 9, 4));
        CHECK(!lacks(1 << 4, 30, 4) && lacks(1 << 4, 29, 4));
        /* Between two others, whichever of them the cut is in. */
        CHECK(lacks(all & ~(1u << 2), 100, 4) && lacks(all & ~(1u << 3), 100, 4));
        CHECK(lacks(1 << 1 | 1 << 4, 0, 4));
        CHECK(!lacks(all & ~(1u << 4), 100, 3) && lacks(all & ~(1u << 4), 100, 4));
}

/* The name of the file that is written, or of one before it. */
static void lose_a_name(uint64_t number)
{
        struct sb_wal_writer *writer;
        char name[SB_WAL_FILE_NAME_MAX];

        CHECK(begin_log(SB_WAL_AUTO) && !open_writer(&writer));
        for (uint32_t i = 0; i < BATCHES - 1; i++)
                CHECK(!write_next(writer) && !sb_wal_writer_look(writer));
        CHECK(count_files() > 2);
        sb_wal_file_name(number ? number : count_files(), name);
        CHECK(!renameat(dir, name, dir, "elsewhere"));
        CHECK_EQ(batch_write(writer, batch_seed(BATCHES, BATCH_FRAMES), 1000), -ENOENT);
        CHECK_EQ(sb_wal_writer_begin(writer, 1000, 0, 0), -ENOENT);
        CHECK(sb_wal_writer_lacks(writer, UINT64_MAX, 0) && !sb_wal_writer_resume(writer));
        CHECK(!sb_wal_writer_lacks(writer, UINT64_MAX, 0));
        CHECK(!batch_write(writer, batch_seed(BATCHES, BATCH_FRAMES), 1000));
        CHECK(!sb_wal_writer_look(writer));
        sb_wal_writer_close(writer);
        CHECK(!unlinkat(dir, "elsewhere", 0));
        end_log();
}

/* The clock of a file system goes in steps: a change in the step of a look shows by no time. */
static void test_a_name_that_goes_in_the_step_of_a_look_is_missed_all_the_same(void)
{
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) + 10}};
        struct sb_wal_writer *writer;
        char name[SB_WAL_FILE_NAME_MAX];

        CHECK(begin_log(SB_WAL_SYNC) && !open_writer(&writer));
        while (count_files() < 2)
                CHECK(!write_next(writer));
        CHECK(!futimens(dir, times));
        CHECK(!sb_wal_writer_look(writer) && !sb_wal_writer_look(writer));
        sb_wal_file_name(1, name);
        CHECK(!renameat(dir, name, dir, "elsewhere"));
        CHECK(!futimens(dir, times));
        CHECK_EQ(sb_wal_writer_look(writer), -ENOENT);
        sb_wal_writer_close(writer);
        CHECK(!unlinkat(dir, "elsewhere", 0));
        end_log();
}

static void test_a_batch_is_not_durable_in_a_log_whose_files_lose_their_names(void)
{
        lose_a_name(0);
        lose_a_name(1);
        lose_a_name(2);
}

/* Whether the second of two writes, with a look for the file's name between them, leaves the file
 * with the time of the first one. */
static void write_twice(const struct sb_wal_files *files, int fd, bool *ret_keeps)
{
        struct timespec between;
        struct stat status;
        uint64_t inode, size;

        /* Whichever kernel dates each write that follows a question dates the first one now. */
        CHECK(!fstat(fd, &status) && pwrite(fd, "a", 1, 0) == 1);
        CHECK(!clock_gettime(CLOCK_REALTIME, &between));
        CHECK(!sb_wal_files_inode(files, 1, &inode, &size) && inode == status.st_ino);
        CHECK(pwrite(fd, "b", 1, 0) == 1 && !fstat(fd, &status));
        *ret_keeps = status.st_mtim.tv_sec < between.tv_sec ||
                     (status.st_mtim.tv_sec == between.tv_sec &&
                             status.st_mtim.tv_nsec <= between.tv_nsec);
}

static void test_a_look_for_a_name_gives_the_next_write_no_time_of_its_own(void)
{
        struct sb_wal_files files = {0};
        char name[SB_WAL_FILE_NAME_MAX];
        bool kept = false;
        int fd;

        CHECK(begin_log(SB_WAL_SYNC));
        files.directory_fd = dir;
        sb_wal_file_name(1, name);
        fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(fd >= 0);
        /* The clock of the file system may step between two writes, but not each time. */
        for (uint32_t i = 0; i < 1000 && !kept; i++)
                write_twice(&files, fd, &kept);
        CHECK(kept);
        close(fd);
        end_log();
}

/* ---- a real file system that cuts writes short ---- */

static void cut_short(enum sb_wal_backend backend)
{
        struct rlimit limit, all;
        struct sb_wal_writer *writer;
        int r;

        signal(SIGXFSZ, SIG_IGN);
        CHECK(!getrlimit(RLIMIT_FSIZE, &all));
        /* Within a frame, or at its end: then the next one has no room at all. */
        for (uint32_t end = 2 * SB_WAL_BLOCK; end < 3 * SB_WAL_BLOCK; end += 1024) {
                CHECK(begin_log(backend));
                io = below; /* nothing between the writer and its back end */
                CHECK(!open_writer(&writer));
                present.seeds[1] = batch_seed(1, BATCH_ONE);
                CHECK(!batch_write(writer, present.seeds[1], 10));
                present.sequence = 1;
                present.cut = 10;
                CHECK(!sb_wal_writer_prepare(writer));
                limit = all;
                limit.rlim_cur = end;
                CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
                r = batch_write(writer, batch_seed(2, BATCH_VALUE), 20);
                CHECK(!setrlimit(RLIMIT_FSIZE, &all));
                CHECK(r == -EIO || r == -EFBIG);
                CHECK(!what_is_lost(false));
                CHECK(!sb_wal_writer_resume(writer));
                present.seeds[2] = batch_seed(2, BATCH_FEW);
                CHECK(!batch_write(writer, present.seeds[2], 21));
                present.sequence = 2;
                sb_wal_writer_close(writer);
                CHECK(!what_is_lost(true));
                end_log();
        }
}

static void test_a_short_write_is_a_failed_one_with_the_sync_back_end(void)
{
        cut_short(SB_WAL_SYNC);
}

static void test_a_short_write_is_a_failed_one_with_the_uring_back_end(void)
{
        if (!uring_is_there())
                TEST_SKIP(no_uring);
        cut_short(SB_WAL_URING);
}

/* ---- what is left ---- */

static void test_a_log_leaves_no_memory_and_no_descriptor_behind(void)
{
        for (uint32_t i = 0; i < 2; i++) {
                if (i && !uring_is_there())
                        TEST_SKIP(no_uring);
                CHECK(begin_log(i ? SB_WAL_URING : SB_WAL_SYNC));
                CHECK(!live());
                end_log();
                CHECK(leaves_nothing());
        }
}

/* The list gives up what it has, and so does the writer that it was for. */
static void test_a_log_that_cannot_be_opened_leaves_nothing_behind_either(void)
{
        struct sb_wal_writer *writer = NULL;

        CHECK(begin_log(SB_WAL_SYNC));
        CHECK(!open_writer(&writer));
        CHECK(!batch_write(writer, batch_seed(1, BATCH_ONE), 10));
        writer = sb_wal_writer_close(writer);
        CHECK_EQ(mkdirat(dir, "wal-spare-99999999", 0700), 0);
        CHECK_EQ(open_writer(&writer), -EISDIR);
        CHECK(!writer);
        end_log();
        CHECK(leaves_nothing());
}

/* ---- a kernel that permits no io_uring ---- */

/* The system call with this number fails with @error from here on. */
static bool forbid(uint32_t number, int error)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

        return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
               !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a process of its own. Return: 0: as it should be; 77: there are no filters here. */
static int try_forbidden(int error, const char *word)
{
        if (!forbid(SYS_io_uring_setup, error))
                return 77;
        if (begin_log(SB_WAL_URING) || !leaves_nothing())
                return 1;
        if (!begin_log(SB_WAL_AUTO) || !reason || !strstr(reason, word))
                return 2;
        if (live())
                return 3;
        end_log();
        return 0;
}

static void test_without_io_uring_auto_says_why_and_writes_all_the_same(void)
{
        static const struct {
                int error;
                const char *word;
        } cases[] = {{EPERM, "not permitted"}, {ENOSYS, "no io_uring"}, {ENOMEM, "lock memory"}};

        for (uint32_t i = 0; i < 3; i++) {
                int status = -1;
                pid_t pid = fork();

                if (!pid)
                        _exit(try_forbidden(cases[i].error, cases[i].word));
                CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
                if (WEXITSTATUS(status) == 77)
                        TEST_SKIP("filters of system calls are not permitted here");
                CHECK_EQ(WEXITSTATUS(status), 0);
        }
}

#ifndef TEST_SANITIZED
static void test_without_memory_there_is_no_back_end(void)
{
        struct sb_wal_io made;
        int uring, sync;

        memory_ends = true;
        uring = sb_wal_uring_open(-1, &made);
        sync = sb_wal_sync_open(-1, &made);
        memory_ends = false;
        CHECK(uring == -ENOMEM && sync == -ENOMEM);
}
#endif

/* There is a ring, and no memory for its buffers is permitted. In a process of its own. Return: as
 * try_forbidden(). */
static int try_unregistered_buffers(void)
{
        struct sb_wal_io uring;

        dir = scratch_make(path, sizeof(path));
        if (!forbid(SYS_io_uring_register, ENOMEM))
                return 77;
        open_before = open_now();
        if (sb_wal_uring_open(dir, &uring) != -ENOMEM || !leaves_nothing())
                return 1;
        scratch_remove(dir, path);
        if (!begin_log(SB_WAL_AUTO) || !reason || !strstr(reason, "lock memory") || live())
                return 2;
        end_log();
        return 0;
}

static void test_a_ring_without_buffers_is_none(void)
{
        int status = -1;
        pid_t pid;

        if (!uring_is_there())
                TEST_SKIP(no_uring);
        pid = fork();
        if (!pid)
                _exit(try_unregistered_buffers());
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                TEST_SKIP("filters of system calls are not permitted here");
        CHECK_EQ(WEXITSTATUS(status), 0);
}

/* In a process of its own. Return: as try_forbidden(). */
static int try_unregistered(void)
{
        struct sb_wal_io uring;
        int file, other;

        if (sb_wal_uring_open(dir, &uring))
                return 1;
        if (!forbid(SYS_io_uring_register, ENFILE))
                return 77;
        for (uint32_t i = 0; i < 100; i++)
                if (uring.create(uring.context, "wal-1", &file) != -ENFILE ||
                        uring.unlink(uring.context, "wal-1"))
                        return 2;
        /* It has the number of the last one, and no file of the back end's has. */
        other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        uring.fini(uring.context);
        return other >= 0 && fcntl(other, F_GETFD) >= 0 ? 0 : 3;
}

static void test_a_file_that_cannot_be_registered_is_closed_once_and_takes_no_place(void)
{
        int status = -1;
        pid_t pid;

        if (!uring_is_there())
                TEST_SKIP(no_uring);
        dir = scratch_make(path, sizeof(path));
        CHECK(dir >= 0);
        pid = fork();
        if (!pid)
                _exit(try_unregistered());
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        scratch_remove(dir, path);
        if (WEXITSTATUS(status) == 77)
                TEST_SKIP("filters of system calls are not permitted here");
        CHECK_EQ(WEXITSTATUS(status), 0);
}

/* What each process with a log has: its files, and those of an earlier one that it put aside. */
static bool make_scratch_with_aside(void)
{
        int fd;

        dir = scratch_make(path, sizeof(path));
        if (dir < 0 || mkdirat(dir, "aside-30", 0700))
                return false;
        fd = openat(dir, "aside-30/wal-0000000000000001", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        close(fd);
        return fd >= 0;
}

static void test_a_scratch_directory_goes_with_what_was_put_aside_in_it(void)
{
        CHECK(make_scratch_with_aside());
        scratch_remove(dir, path);
        CHECK(access(path, F_OK) < 0 && errno == ENOENT);
}

static void test_a_scratch_directory_goes_with_its_process_and_no_child_takes_it_along(void)
{
        char told[sizeof(path)];
        int ends[2], status;
        pid_t pid;

        CHECK(make_scratch_with_aside() && pipe(ends) == 0);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (!make_scratch_with_aside() ||
                        write(ends[1], path, sizeof(path)) != sizeof(path))
                        _exit(1);
                exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(read(ends[0], told, sizeof(told)) == sizeof(told) && strcmp(told, path) != 0);
        close(ends[0]);
        close(ends[1]);
        CHECK(access(told, F_OK) < 0 && errno == ENOENT);
        CHECK(access(path, F_OK) == 0);
        scratch_remove(dir, path);
        CHECK(access(path, F_OK) < 0 && errno == ENOENT);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_failed_call_is_said_and_loses_nothing_with_the_sync_back_end);
        RUN(test_a_failed_call_is_said_and_loses_nothing_with_the_uring_back_end);
        RUN(test_files_that_could_not_go_go_with_the_next_ones);
        RUN(test_a_file_that_is_gone_already_holds_none_behind_it);
        RUN(test_a_spare_that_is_gone_already_is_passed_over);
        RUN(test_a_batch_that_was_begun_is_dropped_and_the_next_one_takes_its_place);
        RUN(test_files_are_missing_in_front_between_two_others_and_behind);
        RUN(test_a_batch_is_not_durable_in_a_log_whose_files_lose_their_names);
        RUN(test_a_name_that_goes_in_the_step_of_a_look_is_missed_all_the_same);
        RUN(test_a_look_for_a_name_gives_the_next_write_no_time_of_its_own);
        RUN(test_a_short_write_is_a_failed_one_with_the_sync_back_end);
        RUN(test_a_short_write_is_a_failed_one_with_the_uring_back_end);
        RUN(test_a_log_leaves_no_memory_and_no_descriptor_behind);
        RUN(test_a_log_that_cannot_be_opened_leaves_nothing_behind_either);
        RUN(test_without_io_uring_auto_says_why_and_writes_all_the_same);
#ifndef TEST_SANITIZED
        RUN(test_without_memory_there_is_no_back_end);
#endif
        RUN(test_a_ring_without_buffers_is_none);
        RUN(test_a_file_that_cannot_be_registered_is_closed_once_and_takes_no_place);
        RUN(test_a_scratch_directory_goes_with_what_was_put_aside_in_it);
        RUN(test_a_scratch_directory_goes_with_its_process_and_no_child_takes_it_along);
        return test_end();
}
