/*
 * A log that is kept aside (agentd/wal/wal-aside.h): which files get a second name and which lose
 * their own, in which order, and when each of that is on the disk. What agentd makes of it with
 * whole logs: api-copies, kill-starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/wal/wal-aside.h"
#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "ring/wal/wal-file.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"

static char path[64];
static int dir;

/* What was done to directories: a letter for each name that came or went, S for each sync of the
 * log's directory, s for one of another. */
static char done[128];
static unsigned calls;
static unsigned fails_at; /* the call that fails, from 1; 0: none */
static bool lost_directory;
static int memory_error, open_error; /* of what takes memory; of a file of the log */
static int left_open;                /* lists and back ends that nothing has ended */
static int free_fd;                  /* the first descriptor that is free */

static bool fails(char what)
{
        size_t len = strlen(done);

        if (++calls == fails_at) {
                errno = EIO;
                return true;
        }
        if (len + 1 < sizeof(done)) {
                done[len] = what;
                done[len + 1] = 0;
        }
        errno = EDOM; /* of an earlier call, as far as the caller knows */
        return false;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
        return fails(fd == dir ? 'S' : 's') ? -1 : __real_fsync(fd);
}

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags)
{
        if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return __real_unlinkat(fd, name, flags);
        return fails(name[0] == 'w' ? name[strlen(name) - 1] : 'u')
                       ? -1
                       : __real_unlinkat(fd, name, flags);
}

int __real_linkat(int from, const char *name, int to, const char *as, int flags);
int __wrap_linkat(int from, const char *name, int to, const char *as, int flags);
int __wrap_linkat(int from, const char *name, int to, const char *as, int flags)
{
        return fails('l') ? -1 : __real_linkat(from, name, to, as, flags);
}

int __real_symlinkat(const char *text, int fd, const char *name);
int __wrap_symlinkat(const char *text, int fd, const char *name);
int __wrap_symlinkat(const char *text, int fd, const char *name)
{
        return fails('m') ? -1 : __real_symlinkat(text, fd, name);
}

int __real_renameat(int from, const char *name, int to, const char *as);
int __wrap_renameat(int from, const char *name, int to, const char *as);
int __wrap_renameat(int from, const char *name, int to, const char *as)
{
        return fails('r') ? -1 : __real_renameat(from, name, to, as);
}

int __real_mkdirat(int fd, const char *name, mode_t mode);
int __wrap_mkdirat(int fd, const char *name, mode_t mode);
int __wrap_mkdirat(int fd, const char *name, mode_t mode)
{
        if (lost_directory) /* another process has taken it away at once */
                return 0;
        return fails('d') ? -1 : __real_mkdirat(fd, name, mode);
}

int __real_sb_wal_file_list(int fd, struct sb_wal_names *ret);
int __wrap_sb_wal_file_list(int fd, struct sb_wal_names *ret);
int __wrap_sb_wal_file_list(int fd, struct sb_wal_names *ret)
{
        int r = memory_error;

        *ret = (struct sb_wal_names){0};
        r = r ? r : __real_sb_wal_file_list(fd, ret);
        left_open += !r;
        return r;
}

void __real_sb_wal_file_list_end(struct sb_wal_names *names);
void __wrap_sb_wal_file_list_end(struct sb_wal_names *names);
void __wrap_sb_wal_file_list_end(struct sb_wal_names *names)
{
        left_open--;
        __real_sb_wal_file_list_end(names);
}

int __real_sb_wal_file_open(int fd, uint64_t number, int *ret_fd);
int __wrap_sb_wal_file_open(int fd, uint64_t number, int *ret_fd);
int __wrap_sb_wal_file_open(int fd, uint64_t number, int *ret_fd)
{
        *ret_fd = -1;
        return open_error ? open_error : __real_sb_wal_file_open(fd, number, ret_fd);
}

int __real_sb_wal_backend_open(
        enum sb_wal_backend backend, int fd, struct sb_wal_io *ret, const char **ret_reason);
int __wrap_sb_wal_backend_open(
        enum sb_wal_backend backend, int fd, struct sb_wal_io *ret, const char **ret_reason);
int __wrap_sb_wal_backend_open(
        enum sb_wal_backend backend, int fd, struct sb_wal_io *ret, const char **ret_reason)
{
        int r = memory_error ? memory_error
                             : __real_sb_wal_backend_open(backend, fd, ret, ret_reason);

        left_open += !r;
        return r;
}

void __real_sb_wal_backend_close(struct sb_wal_io *io);
void __wrap_sb_wal_backend_close(struct sb_wal_io *io);
void __wrap_sb_wal_backend_close(struct sb_wal_io *io)
{
        left_open--;
        __real_sb_wal_backend_close(io);
}

/* From here on calls are counted. */
static void forget_calls(unsigned fail_at)
{
        done[0] = 0;
        calls = 0;
        fails_at = fail_at;
}

/* A file of the log. @says: the number in its header; 0: it has none. */
static bool make_file(uint64_t number, uint64_t says, uint64_t first_sequence)
{
        struct sb_wal_file file = {
                .salt = 5, .number = says, .first_sequence = first_sequence, .size = 64 << 10};
        unsigned char block[SB_WAL_BLOCK] = {0};
        char name[SB_WAL_FILE_NAME_MAX];
        bool good;
        int fd;

        sb_wal_file_name(number, name);
        fd = openat(dir, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (says)
                sb_wal_file_encode(&file, block);
        good = fd >= 0 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block);
        close(fd);
        return good;
}

static bool is_there(const char *name)
{
        return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Files 2 to 5, of batches from 1, 4, 7 and 10 on. */
static bool begin(void)
{
        dir = scratch_make(path, sizeof(path));
        for (uint64_t number = 2; number <= 5; number++)
                if (!make_file(number, number, 3 * number - 5))
                        return false;
        free_fd = dup(dir);
        close(free_fd);
        forget_calls(0);
        return dir >= 0;
}

/* What was opened is closed, and no list is left. */
static void end(void)
{
        int fd = dup(dir);

        CHECK_EQ(fd, free_fd);
        close(fd);
        CHECK_EQ(left_open, 0);
        forget_calls(0);
        scratch_remove(dir, path);
}

/* Whether the log has the files of these numbers, as digits, and no others. */
static bool has(const char *numbers)
{
        struct sb_wal_names names;
        bool right;

        if (sb_wal_file_list(dir, &names))
                return false;
        right = names.number_count == strlen(numbers);
        for (size_t i = 0; i < names.number_count && right; i++)
                right = names.numbers[i] == (uint64_t)(numbers[i] - '0');
        sb_wal_file_list_end(&names);
        return right;
}

static bool marks(const char *cut)
{
        char text[32] = "";

        return readlinkat(dir, "going-back", text, sizeof(text) - 1) > 0 && !strcmp(text, cut);
}

/* Whether the file of that number in the directory @name is the log's own one. */
static bool is_same(const char *name, unsigned number)
{
        struct stat own, second;
        char file[32], other[80];

        snprintf(file, sizeof(file), "wal-%016x", number);
        snprintf(other, sizeof(other), "%s/%s", name, file);
        return !fstatat(dir, file, &own, 0) && !fstatat(dir, other, &second, 0) &&
               own.st_ino == second.st_ino && own.st_nlink == second.st_nlink;
}

static void test_each_file_has_a_second_name_on_the_disk(void)
{
        char name[SB_WAL_ASIDE_NAME_MAX];
        struct stat status;

        CHECK(begin());
        CHECK_EQ(sb_wal_aside(dir, 7, name), 0);
        CHECK(!strcmp(name, "aside-7") && has("2345"));
        CHECK(!strcmp(done, "dllllsS"));
        for (unsigned number = 2; number <= 5; number++)
                CHECK(is_same(name, number));
        CHECK(!fstatat(dir, name, &status, 0) && (status.st_mode & 0777) == 0700);
        end();
}

/* A start that was killed has left a directory, and a further one a directory more. */
static void test_each_time_it_is_another_directory(void)
{
        char name[SB_WAL_ASIDE_NAME_MAX], made[SB_WAL_ASIDE_NAME_MAX] = "aside-7";

        CHECK(begin());
        CHECK_EQ(mkdirat(dir, made, 0700), 0);
        for (unsigned number = 2; number < 1000; number++) {
                snprintf(made, sizeof(made), "aside-7-%u", number);
                if (number == 2 || number == 999) {
                        CHECK_EQ(sb_wal_aside(dir, 7, name), 0);
                        CHECK(!strcmp(name, made) && is_same(name, 2) && is_same(name, 5));
                } else {
                        CHECK_EQ(mkdirat(dir, made, 0700), 0);
                }
        }
        CHECK_EQ(sb_wal_aside(dir, 7, name), -EEXIST);
        CHECK_EQ(sb_wal_aside(dir, 8, name), 0);
        CHECK(!strcmp(name, "aside-8") && has("2345"));
        end();
}

static void test_what_cannot_be_kept_aside_is_said(void)
{
        char name[SB_WAL_ASIDE_NAME_MAX];
        int fd;

        for (unsigned at = 1; at <= 7; at++) {
                CHECK(begin());
                forget_calls(at);
                CHECK_EQ(sb_wal_aside(dir, 7, name), -EIO);
                CHECK(has("2345"));
                end();
        }
        CHECK(begin());
        lost_directory = true;
        CHECK_EQ(sb_wal_aside(dir, 7, name), -ENOENT);
        lost_directory = false;
        memory_error = -ENOMEM;
        CHECK_EQ(sb_wal_aside(dir, 7, name), -ENOMEM);
        CHECK_EQ(sb_wal_aside_take(dir, 0, 1, 9), -ENOMEM);
        CHECK_EQ(sb_wal_aside_end(dir, &(struct sb_wal_end){0}, 1, 1), -ENOMEM);
        memory_error = 0;
        CHECK(has("2345") && !is_there("aside-7"));
        fd = dup(dir);
        close(fd);
        CHECK_EQ(sb_wal_aside(fd, 7, name), -EBADF);
        CHECK_EQ(sb_wal_aside_take(fd, 0, 1, 0), -EBADF);
        CHECK_EQ(sb_wal_aside_take(fd, 0, UINT64_MAX, 3), -EBADF);
        CHECK_EQ(sb_wal_aside_unmark(fd), -EBADF);
        CHECK_EQ(sb_wal_aside_end(fd, &(struct sb_wal_end){0}, 1, 1), -EBADF);
        end();
}

/* Batches up to @last stay, and the files in which they are. The last file goes first. */
static void test_files_behind_the_cut_go_from_the_last_one_on(void)
{
        static const struct {
                uint64_t last;
                const char *left, *calls;
        } cases[] = {{UINT64_MAX, "2345", ""}, {10, "2345", ""}, {9, "234", "5S"}, {7, "234", "5S"},
                {6, "23", "5S4S"}, {1, "2", "5S4S3S"}, {0, "", "5S4S3S2S"}};

        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                CHECK(begin());
                CHECK_EQ(sb_wal_aside_take(dir, 0, cases[i].last, 0), 0);
                CHECK(has(cases[i].left) && !strcmp(done, cases[i].calls));
                CHECK(!is_there("going-back"));
                end();
        }
}

/* One of which nothing can be read goes, too: it says of itself that it is another file, or
 * nothing, or it is no file. */
static void test_files_without_a_good_header_count_for_nothing(void)
{
        CHECK(begin());
        CHECK(make_file(6, 0, 0) && make_file(7, 8, 1));
        CHECK_EQ(mkfifoat(dir, "wal-0000000000000008", 0600), 0);
        CHECK_EQ(sb_wal_aside_take(dir, 0, 9, 0), 0);
        CHECK(has("234"));
        CHECK(!strcmp(done, "8S7S6S5S"));
        end();
        /* What lies before one that counts stays. */
        CHECK(begin());
        CHECK(make_file(4, 0, 0) && make_file(6, 6, 13));
        CHECK_EQ(sb_wal_aside_take(dir, 0, 12, 0), 0);
        CHECK(has("2345"));
        end();
}

/* One that cannot be read now has, perhaps, what counts. */
static void test_a_file_that_cannot_be_opened_stays(void)
{
        CHECK(begin());
        open_error = -EIO;
        CHECK_EQ(sb_wal_aside_take(dir, 0, 6, 0), -EIO);
        open_error = 0;
        CHECK(has("2345"));
        end();
}

static void test_files_before_the_first_one_go_from_the_first_on(void)
{
        CHECK(begin());
        CHECK_EQ(sb_wal_aside_take(dir, 0, UINT64_MAX, 2), 0);
        CHECK(has("2345") && !done[0]);
        CHECK_EQ(sb_wal_aside_take(dir, 0, 9, 4), 0);
        CHECK(has("4") && !strcmp(done, "5S2S3S"));
        end();
}

/* Where a name cannot be taken away, or not for good, the ones that come next stay. */
static void test_a_name_that_stays_keeps_those_behind_it(void)
{
        static const char *const left[] = {"2345", "234", "234", "23", "23", "3", "3", ""};

        for (unsigned at = 1; at <= 8; at++) {
                CHECK(begin());
                forget_calls(at);
                CHECK_EQ(sb_wal_aside_take(dir, 0, 6, 4), -EIO);
                CHECK(has(left[at - 1]));
                end();
        }
        CHECK(begin());
        forget_calls(9);
        CHECK_EQ(sb_wal_aside_take(dir, 0, 6, 4), 0);
        CHECK(has(""));
        end();
}

/* The mark is on the disk before the first name goes. */
static void test_a_log_that_goes_back_has_a_mark(void)
{
        CHECK(begin());
        CHECK_EQ(sb_wal_aside_take(dir, 70, 9, 0), 0);
        CHECK(marks("70") && !strcmp(done, "mrS5S"));
        forget_calls(0);
        /* The one that is there may be in memory alone: it is made anew. */
        CHECK_EQ(sb_wal_aside_take(dir, 70, 9, 0), 0);
        CHECK(marks("70") && !strcmp(done, "mrS"));
        forget_calls(0);
        CHECK_EQ(sb_wal_aside_take(dir, UINT64_MAX, 9, 0), 0);
        CHECK(marks("18446744073709551615") && !strcmp(done, "mrS"));
        CHECK_EQ(sb_wal_aside_wanted(dir, 0), UINT64_MAX);
        forget_calls(0);
        CHECK_EQ(sb_wal_aside_unmark(dir), 0);
        CHECK(!is_there("going-back") && !strcmp(done, "SuS"));
        forget_calls(0);
        CHECK_EQ(sb_wal_aside_unmark(dir), 0);
        CHECK(!done[0]);
        end();
}

static void test_without_a_mark_no_name_goes(void)
{
        for (unsigned at = 1; at <= 4; at++) {
                CHECK(begin());
                CHECK_EQ(symlinkat("60", dir, "going-back"), 0);
                forget_calls(at);
                CHECK_EQ(sb_wal_aside_take(dir, 70, 0, 9), -EIO);
                CHECK(has("2345"));
                end();
        }
        for (unsigned at = 1; at <= 3; at++) {
                CHECK(begin());
                CHECK_EQ(symlinkat("60", dir, "going-back"), 0);
                forget_calls(at);
                CHECK_EQ(sb_wal_aside_unmark(dir), -EIO);
                end();
        }
}

static void test_what_an_interrupted_start_went_back_to_holds_unless_less_is_wanted(void)
{
        CHECK(begin());
        CHECK(sb_wal_aside_wanted(dir, 0) == 0 && sb_wal_aside_wanted(dir, 80) == 80);
        CHECK_EQ(symlinkat("70", dir, "going-back"), 0);
        CHECK_EQ(sb_wal_aside_wanted(dir, 0), 70);
        CHECK_EQ(sb_wal_aside_wanted(dir, 69), 69);
        CHECK_EQ(sb_wal_aside_wanted(dir, 70), 70);
        CHECK_EQ(sb_wal_aside_wanted(dir, 71), 70);
        end();
}

/* The log then ends with the batch that the file's header says is before it. */
static void test_the_file_that_ends_the_log_says_where(void)
{
        struct sb_wal_end wanted = {.hash_seed = 77, .id = "the bus's number"};
        static struct story story;

        CHECK(begin());
        scratch_empty(dir);
        /* The name of the file comes to the disk. */
        forget_calls(1);
        CHECK_EQ(sb_wal_aside_end(dir, &wanted, 12, 70), -EIO);
        scratch_empty(dir);
        forget_calls(0);
        CHECK_EQ(sb_wal_aside_end(dir, &wanted, 12, 70), 0);
        CHECK(!story_read(dir, &story) && !story.wrong && story.end.ending == SB_WAL_CLEAN);
        CHECK(story.end.sequence == 12 && story.end.cut == 70 && story.end.hash_seed == 77);
        CHECK(!memcmp(story.end.id, wanted.id, sizeof(wanted.id)));
        end();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_each_file_has_a_second_name_on_the_disk);
        RUN(test_each_time_it_is_another_directory);
        RUN(test_what_cannot_be_kept_aside_is_said);
        RUN(test_files_behind_the_cut_go_from_the_last_one_on);
        RUN(test_files_without_a_good_header_count_for_nothing);
        RUN(test_a_file_that_cannot_be_opened_stays);
        RUN(test_files_before_the_first_one_go_from_the_first_on);
        RUN(test_a_name_that_stays_keeps_those_behind_it);
        RUN(test_a_log_that_goes_back_has_a_mark);
        RUN(test_without_a_mark_no_name_goes);
        RUN(test_what_an_interrupted_start_went_back_to_holds_unless_less_is_wanted);
        RUN(test_the_file_that_ends_the_log_says_where);
        return test_end();
}
