/*
 * A bus's directory (agentd/directory.h): what it has to be like, its mode, and its lock, also
 * where the process that has that is just ending, or a call fails. What hinders is said, and
 * nothing stays open.
 *
 * The program is linked so that the calls by which it is taken come here first (see meson.build).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "agentd/directory.h"
#include "ring/attach/place.h"
#include "tests/harness/test.h"
#include "tests/unit/agentd.h"

static struct {
        bool locked;     /* the first time that a lock is asked for, another process has it */
        int lock_fails;  /* how each try to lock ends, the second as if a signal came; 0: well */
        unsigned ending; /* so many looks at the process that has the lock find it ending */
        sigset_t held;   /* signals that wait while a process waits for the lock */
} machine;

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
        errno = EPERM;
        return fails == LIST ? NULL : __real_fdopendir(fd);
}

int __real_listen(int fd, int count);
int __wrap_listen(int fd, int count);
int __wrap_listen(int fd, int count)
{
        errno = EPERM;
        return fails == LISTEN ? -1 : __real_listen(fd, count);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
        bool locked = machine.locked;

        machine.locked = false;
        if (!(operation & LOCK_NB))
                sigprocmask(SIG_SETMASK, NULL, &machine.held);
        errno = machine.lock_fails == EWOULDBLOCK && !(operation & LOCK_NB) ? EINTR
                : machine.lock_fails                                        ? machine.lock_fails
                                                                            : EWOULDBLOCK;
        return locked || machine.lock_fails ? -1 : __real_flock(fd, operation);
}

/* A process has the lock of which the end takes so many looks; then the lock is free. */
int __real_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid);
int __wrap_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid);
int __wrap_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid)
{
        if (!machine.ending)
                return __real_sb_place_supervisor(place, ret_pid);
        *ret_pid = 1;
        return 0;
}

bool __real_sb_place_ending(pid_t pid);
bool __wrap_sb_place_ending(pid_t pid);
bool __wrap_sb_place_ending(pid_t pid)
{
        if (!machine.ending)
                return __real_sb_place_ending(pid);
        if (!--machine.ending)
                machine.lock_fails = 0;
        return true;
}

static int open_fds(void)
{
        int count = 0;

        for (int fd = 0; fd < 64; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

/* No directory is taken, this is said, no descriptor stays open, and the umask is as before. */
static bool refuses(const char *directory, const char *words)
{
        struct sb_directory untouched = {-7, -7, -7};
        mode_t mask = umask(0027);
        int before = open_fds();
        struct sb_place place;

        if (sb_place_resolve(directory, &place) || !forget_said() ||
                !sb_directory_take(&place, &untouched))
                return false;
        mask = umask(mask);
        return said(words) && open_fds() == before && mask == 0027 && untouched.fd == -7 &&
               untouched.lock_fd == -7;
}

/* Others could put another socket into it. */
static void test_a_directory_that_cannot_be_put_in_order_is_refused(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sb_place place;
        struct stat status;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        CHECK(forget_said());
        MACHINE();
        fails = MODE;
        CHECK_EQ(sb_directory_take(&place, &directory), -1);
        CHECK(said("cannot set its mode to 0711: Operation not permitted"));
        /* One of which nothing says that it is a bus's alone keeps the mode that it has. */
        MACHINE();
        fails = LIST;
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!stat(name, &status) && (status.st_mode & 07777) == 0700);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        close(directory.fd);
        MACHINE();
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!stat(name, &status) && (status.st_mode & 07777) == 0711);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

/* Other users could put another socket there. */
static void test_a_directory_that_others_own_or_may_write_in_is_refused(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX", file[64];
        struct stat status;

        MACHINE();
        CHECK(mkdtemp(name));
        snprintf(file, sizeof(file), "%s/another", name);
        close(open(file, O_CREAT | O_WRONLY, 0600));
        for (mode_t open = 0002; open <= 0020; open += 0016) {
                CHECK(!chmod(name, 0755 | open));
                CHECK(refuses(name, "can be written by others"));
                CHECK(!stat(name, &status) && (status.st_mode & 07777) == (0755 | open));
        }
        CHECK(!chmod(name, 0711));
        if (geteuid() == 0) {
                CHECK(!chown(name, 4711, 0));
                CHECK(refuses(name, "belongs to user 4711: give a directory of your own"));
        }
        CHECK(!unlink(file) && !rmdir(name));
}

static void test_what_hinders_a_new_agentd_in_its_directory_is_said(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX", file[64];

        CHECK(mkdtemp(name) && !chmod(name, 0711));
        MACHINE(.lock_fails = ENOLCK);
        CHECK(refuses(name, "/lock: cannot lock it: No locks available"));
        MACHINE(.lock_fails = EWOULDBLOCK);
        CHECK(refuses(name, "another agentd is just starting on /tmp"));
        snprintf(file, sizeof(file), "%s/socket", name);
        MACHINE();
        fails = LISTEN;
        CHECK(refuses(name, "/socket: cannot listen there: Operation not permitted"));
        MACHINE();
        CHECK(!unlink(file));
        CHECK(!mkdir(file, 0700));
        CHECK(refuses(name, "/socket: cannot listen there: Is a directory"));
        CHECK(!rmdir(file));
        snprintf(file, sizeof(file), "%s/lock/bus", name);
        CHECK(refuses(file, "cannot make this directory: Not a directory"));
        snprintf(file, sizeof(file), "%s/lock", name);
        CHECK(refuses(file, "/lock: Not a directory"));
        CHECK(!unlink(file) && !mkdir(file, 0700));
        CHECK(refuses(name, "/lock: Is a directory"));
        CHECK(!rmdir(file) && !rmdir(name));
}

/* The process that had it was killed just now, and its end takes a moment. */
static void test_a_lock_that_was_waited_for_leaves_no_alarm_behind(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sigaction action;
        struct itimerval timer;
        struct sb_place place;
        sigset_t before, after, all, mask;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        /* All wait but for the alarm: these among others, which the litter would let through. */
        sigfillset(&all);
        CHECK(!sigprocmask(SIG_SETMASK, &all, &mask));
        CHECK(!sigprocmask(SIG_SETMASK, NULL, &before));
        MACHINE(.locked = true);
        litter();
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!machine.locked);
        sigdelset(&all, SIGALRM);
        for (int number = 1; number < NSIG; number++)
                if (number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN))
                        CHECK_EQ(sigismember(&machine.held, number), sigismember(&all, number));
        CHECK(!getitimer(ITIMER_REAL, &timer));
        CHECK(!timer.it_value.tv_sec && !timer.it_value.tv_usec && !timer.it_interval.tv_usec);
        CHECK(!sigaction(SIGALRM, NULL, &action) && action.sa_handler == SIG_DFL);
        CHECK(!sigprocmask(SIG_SETMASK, NULL, &after));
        for (int number = 1; number < NSIG; number++)
                CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
        CHECK(!sigprocmask(SIG_SETMASK, &mask, NULL));
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

/* A killed agentd is outwaited, however long the kernel takes for its memory. */
static void test_a_lock_is_waited_for_as_long_as_the_process_that_had_it_ends(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sb_place place;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        MACHINE(.lock_fails = EWOULDBLOCK, .ending = 100);
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!machine.ending);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!hear())
                return 1;
        RUN(test_a_directory_that_cannot_be_put_in_order_is_refused);
        RUN(test_a_directory_that_others_own_or_may_write_in_is_refused);
        RUN(test_what_hinders_a_new_agentd_in_its_directory_is_said);
        RUN(test_a_lock_that_was_waited_for_leaves_no_alarm_behind);
        RUN(test_a_lock_is_waited_for_as_long_as_the_process_that_had_it_ends);
        return test_end();
}
