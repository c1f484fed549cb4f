/*
 * A file that is there whole or not at all (cli/partial.h): what is under its name, and under the
 * name that it has before, whatever was there, comes meanwhile, fails or is interrupted.
 *
 * The test's own flock(), fsync() and renameat2() let another process come in between, and fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/partial.h"
#include "tests/harness/test.h"

static char directory[] = "/tmp/sb-partial-XXXXXX";
static int directory_fd;
static struct cli_partial partial;

/* What happens in the next call of that kind, once. */
static struct {
        void (*in_flock)(void);
        int rename_fails, sync_fails;
} next;

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
        void (*comes)(void) = next.in_flock;

        next.in_flock = NULL;
        if (comes)
                comes();
        return __real_flock(fd, operation);
}

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
        errno = next.rename_fails;
        next.rename_fails = 0;
        return errno ? -1 : __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
        errno = next.sync_fails;
        next.sync_fails = 0;
        return errno ? -1 : __real_fsync(fd);
}

static void put(const char *name, const char *text)
{
        int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                abort();
        close(fd);
}

/* Whether the file has this text; NULL: there is no such file. */
static bool has(const char *name, const char *text)
{
        int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char bytes[256] = "";
        ssize_t len;

        if (fd < 0)
                return !text && errno == ENOENT;
        len = read(fd, bytes, sizeof(bytes) - 1);
        close(fd);
        return text && len == (ssize_t)strlen(text) && !strcmp(bytes, text);
}

static bool begin(void)
{
        return !cli_partial_begin(directory_fd, "name", &partial);
}

/* Writes over the mark, as a command does at its end. */
static bool fill(const char *text)
{
        return !cli_partial_write(&partial, text, strlen(text), 0) &&
               !ftruncate(partial.fd, (off_t)strlen(text));
}

static void clear(void)
{
        cli_partial_drop(&partial);
        (void)unlinkat(directory_fd, "name", 0);
        (void)unlinkat(directory_fd, "name.partial", 0);
        (void)unlinkat(directory_fd, "other", 0);
        memset(&next, 0, sizeof(next));
}

/* What a killed command leaves. */
static void leave_behind(void)
{
        if (!begin())
                abort();
        close(partial.fd);
        partial.fd = -1;
}

static void test_a_file_gets_its_name_when_it_is_finished(void)
{
        struct stat status;

        CHECK(begin());
        CHECK(has("name", NULL) && !has("name.partial", NULL) && !partial.replaced);
        CHECK(cli_partial_is(partial.fd) && fill("whole"));
        CHECK(!cli_partial_is(partial.fd) && has("name", NULL));
        CHECK_EQ(cli_partial_finish(&partial), 0);
        CHECK(has("name", "whole") && has("name.partial", NULL) && partial.fd < 0);
        CHECK(!fstatat(directory_fd, "name", &status, 0));
        CHECK_EQ(status.st_mode & 07777, 0600);
        clear();
        CHECK(begin());
        cli_partial_drop(&partial);
        cli_partial_drop(&partial);
        CHECK(has("name", NULL) && has("name.partial", NULL));
        clear();
}

static void test_a_name_that_is_taken_stays_as_it_is(void)
{
        put("name", "mine");
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EEXIST);
        CHECK(has("name", "mine") && has("name.partial", NULL));
        clear();
        /* It comes when all is written. */
        for (int without = 0; without < 2; without++) {
                CHECK(begin() && fill("whole"));
                put("name", "mine");
                next.rename_fails = without ? EINVAL : 0;
                CHECK_EQ(cli_partial_finish(&partial), -EEXIST);
                CHECK(has("name", "mine") && has("name.partial", NULL) && partial.fd < 0);
                clear();
        }
        /* A link to nothing is a name. */
        CHECK(!symlinkat("nowhere", directory_fd, "name"));
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EEXIST);
        clear();
}

static void test_where_nothing_can_be_renamed_without_replacing_it_gets_a_second_name(void)
{
        CHECK(begin() && fill("whole"));
        next.rename_fails = EINVAL;
        CHECK_EQ(cli_partial_finish(&partial), 0);
        CHECK(has("name", "whole") && has("name.partial", NULL));
        clear();
        CHECK(begin() && fill("whole"));
        next.rename_fails = EROFS;
        CHECK_EQ(cli_partial_finish(&partial), -EROFS);
        CHECK(has("name", NULL) && has("name.partial", NULL));
        clear();
}

static void test_what_was_left_behind_goes_and_no_other_file_does(void)
{
        char text[200] = "";

        leave_behind();
        CHECK(begin() && partial.replaced);
        clear();
        /* Killed before its mark, and behind its header. */
        put("name.partial", "");
        CHECK(begin() && partial.replaced);
        clear();
        put("name.partial", "statewal, and so on");
        CHECK(begin() && partial.replaced);
        clear();
        /* Killed between its two names: the whole file stays whole when it was renamed since. */
        put("other", "statewal, a backup");
        CHECK(!linkat(directory_fd, "other", directory_fd, "name.partial", 0));
        CHECK(begin() && partial.replaced && fill("new") && !cli_partial_finish(&partial));
        CHECK(has("other", "statewal, a backup") && has("name", "new"));
        clear();
        put("name.partial", "a person's");
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EPERM);
        CHECK(has("name.partial", "a person's") && partial.fd < 0);
        clear();
        /* And one that is longer than the mark. */
        memset(text, 'p', sizeof(text) - 1);
        put("name.partial", text);
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EPERM);
        CHECK(has("name.partial", text) && partial.fd < 0);
        clear();
        put("other", "");
        CHECK(!symlinkat("other", directory_fd, "name.partial"));
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EPERM);
        CHECK(has("other", ""));
        clear();
        CHECK(!mkfifoat(directory_fd, "name.partial", 0600));
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EPERM);
        clear();
}

static struct cli_partial second;
static int second_said;

static void begin_second(void)
{
        second_said = cli_partial_begin(directory_fd, "name", &second);
}

static void test_of_two_commands_one_writes(void)
{
        CHECK(begin());
        begin_second();
        CHECK_EQ(second_said, -EBUSY);
        CHECK(fill("first") && !cli_partial_finish(&partial) && has("name", "first"));
        clear();
        /* The second one comes before the first has locked what it made: it takes that for left
         * behind. */
        next.in_flock = begin_second;
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EBUSY);
        CHECK_EQ(second_said, 0);
        CHECK(!cli_partial_write(&second, "second", 6, 0) && !ftruncate(second.fd, 6));
        CHECK(!cli_partial_finish(&second) && has("name", "second") && has("name.partial", NULL));
        clear();
        /* It takes away what the first one is about to take away, and begins. */
        leave_behind();
        next.in_flock = begin_second;
        CHECK_EQ(cli_partial_begin(directory_fd, "name", &partial), -EBUSY);
        CHECK(second_said == 0 && second.replaced);
        cli_partial_drop(&second);
        clear();
}

static void test_a_signal_ends_the_file_and_not_the_process(void)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
        struct sigaction now;

        for (uint32_t i = 0; i < 3; i++) {
                /* What started the test may ignore it. */
                signal(signals[i], SIG_DFL);
                CHECK(begin());
                CHECK(!raise(signals[i]));
                CHECK_EQ(cli_partial_write(&partial, "x", 1, 0), -EINTR);
                CHECK_EQ(cli_partial_finish(&partial), -EINTR);
                CHECK(has("name", NULL) && has("name.partial", NULL));
                CHECK(!sigaction(signals[i], NULL, &now) && now.sa_handler == SIG_DFL);
                /* The next one knows nothing of it. */
                CHECK(begin() && fill("whole") && !cli_partial_finish(&partial));
                clear();
        }
        signal(SIGHUP, SIG_IGN);
        CHECK(begin() && !raise(SIGHUP) && fill("whole") && !cli_partial_finish(&partial));
        CHECK(!sigaction(SIGHUP, NULL, &now) && now.sa_handler == SIG_IGN);
        signal(SIGHUP, SIG_DFL);
        clear();
}

static void test_what_fails_leaves_nothing(void)
{
        struct rlimit before, small = {1000, 0};
        char long_name[NAME_MAX + 1];

        CHECK(begin() && fill("whole"));
        next.sync_fails = EIO;
        CHECK_EQ(cli_partial_finish(&partial), -EIO);
        CHECK(has("name", NULL) && has("name.partial", NULL));
        /* A limit of the process is a failed write, and no signal that ends it. */
        CHECK(begin() && !getrlimit(RLIMIT_FSIZE, &before));
        small.rlim_max = before.rlim_max;
        CHECK(!setrlimit(RLIMIT_FSIZE, &small));
        CHECK_EQ(cli_partial_write(&partial, "x", 1, 1000), -EFBIG);
        CHECK(!setrlimit(RLIMIT_FSIZE, &before));
        cli_partial_drop(&partial);
        CHECK(has("name", NULL) && has("name.partial", NULL));
        memset(long_name, 'n', NAME_MAX);
        long_name[NAME_MAX] = '\0';
        CHECK_EQ(cli_partial_begin(directory_fd, long_name, &partial), -ENAMETOOLONG);
        CHECK_EQ(cli_partial_begin(-1, "name", &partial), -EBADF);
        clear();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        partial.fd = -1;
        if (!mkdtemp(directory))
                abort();
        directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(test_a_file_gets_its_name_when_it_is_finished);
        RUN(test_a_name_that_is_taken_stays_as_it_is);
        RUN(test_where_nothing_can_be_renamed_without_replacing_it_gets_a_second_name);
        RUN(test_what_was_left_behind_goes_and_no_other_file_does);
        RUN(test_of_two_commands_one_writes);
        RUN(test_a_signal_ends_the_file_and_not_the_process);
        RUN(test_what_fails_leaves_nothing);
        close(directory_fd);
        rmdir(directory);
        return test_end();
}
