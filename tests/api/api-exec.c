/*
 * Processes that live on and leave the bus: by exec(). And processes that only look like it: they
 * close all their descriptors, end threads, or end their main thread. The program under test is
 * $AGENTD.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "ring/attach/place.h"
#include "shm/base/result.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define GUARDS 300u

static struct sb_bus *open_bus(const char *directory)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;

        return sb_open(&options, &bus) ? NULL : bus;
}

static struct sb_bytes bytes_of(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* Write and hold much: guards in chunks, cuts, a magazine, a slab. */
static bool hold_much(struct sb_bus *bus)
{
        static struct sb_guard guards[GUARDS];
        static char value[1000];
        struct sb_scan *scan;
        struct sb_txn *txn;
        char key[32];
        int r = 0;

        for (uint32_t i = 0; i < GUARDS && !r; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                for (int again = 0; again < 3 && !r; again++)
                        r = sb_set(bus, bytes_of(key), (struct sb_bytes){value, sizeof(value)},
                                NULL, NULL);
                if (!r)
                        r = sb_get(bus, bytes_of(key), &guards[i]);
        }
        return !r && !sb_txn_begin(bus, SB_SNAPSHOT, &txn) &&
               !sb_scan_open(bus, NULL, bytes_of("key"), &scan);
}

/* ---- what children do; each writes a byte to descriptor 1 when it has done it ---- */

static _Noreturn void become_sleep(void)
{
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
}

static _Noreturn void child_exec(const char *directory)
{
        struct sb_bus *bus = open_bus(directory);

        if (!bus || !hold_much(bus))
                _exit(1);
        (void)!write(1, "x", 1);
        become_sleep();
}

/* Close all descriptors; then, when asked, read and write. */
static _Noreturn void child_closes_all(const char *directory)
{
        struct sb_bus *bus = open_bus(directory);
        char byte;

        if (!bus || !hold_much(bus) || syscall(SYS_close_range, 3u, ~0u, 0u))
                _exit(1);
        (void)!write(1, "x", 1);
        while (read(0, &byte, 1) == 1)
                if (sb_set(bus, bytes_of("after"), bytes_of("all"), NULL, NULL) ||
                        write(1, "y", 1) != 1)
                        _exit(1);
        _exit(0);
}

static void *open_and_end(void *directory)
{
        return open_bus(directory);
}

static void *open_and_serve(void *directory)
{
        struct sb_bus *bus = open_bus(directory);
        char byte;

        if (!bus)
                _exit(1);
        (void)!write(1, "x", 1);
        while (read(0, &byte, 1) == 1)
                if (sb_set(bus, bytes_of("after"), bytes_of("all"), NULL, NULL) ||
                        write(1, "y", 1) != 1)
                        _exit(1);
        _exit(0);
}

/* One thread opens a bus and ends, one serves, and the main thread ends before both. */
static _Noreturn void child_ends_threads(const char *directory)
{
        pthread_t ended, serving;
        void *bus = NULL;

        if (pthread_create(&ended, NULL, open_and_end, (void *)(uintptr_t)directory) ||
                pthread_join(ended, &bus) || !bus ||
                pthread_create(&serving, NULL, open_and_serve, (void *)(uintptr_t)directory))
                _exit(1);
        pthread_exit(NULL);
}

static void *pause_for_ever(void *unused)
{
        for (;;)
                pause();
        return unused;
}

/* Open a bus, and have a second thread. */
static _Noreturn void child_has_two_threads(const char *directory)
{
        struct sb_bus *bus = open_bus(directory);
        pthread_t second;

        if (!bus || pthread_create(&second, NULL, pause_for_ever, NULL))
                _exit(1);
        (void)!write(1, "x", 1);
        pause_for_ever(NULL);
        _exit(1);
}

/* A child with pipes at its descriptors 0 and 1. */
struct child {
        pid_t pid;
        int in, out;
};

static bool start(struct child *child, void (*act)(const char *), const struct daemon *daemon)
{
        int in[2], out[2];
        char byte = 0;

        if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
                abort();
        child->pid = fork();
        if (child->pid == 0) {
                dup2(in[0], 0);
                dup2(out[1], 1);
                act(daemon->place.directory);
        }
        close(in[0]);
        close(out[1]);
        child->in = in[1];
        child->out = out[0];
        return read(child->out, &byte, 1) == 1 && byte == 'x';
}

static void end(struct child *child)
{
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
        close(child->in);
        close(child->out);
}

/* Whether the child can still write to the bus. */
static bool serves(const struct child *child)
{
        char byte = 0;

        return write(child->in, "?", 1) == 1 && read(child->out, &byte, 1) == 1 && byte == 'y';
}

static bool lives(const struct child *child)
{
        return waitpid(child->pid, NULL, WNOHANG) == 0;
}

/* ---- tests ---- */

static struct sb_attachment attachment;

static bool begin(struct daemon *daemon)
{
        return daemon_start(daemon) && !daemon_attach(daemon, &attachment, &daemon_handle);
}

static void finish(struct daemon *daemon)
{
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(daemon), 0);
}

/* Let the engine look at all records: it does so whenever a map is gone. */
static void make_it_look(struct daemon *daemon, unsigned attached)
{
        struct child child;

        for (int i = 0; i < 2; i++) {
                CHECK(start(&child, child_exec, daemon));
                CHECK(WAIT(daemon_attached(&attachment) == attached));
                end(&child);
        }
}

static void nothing_is_held(struct daemon *daemon)
{
        struct sb_check_report report;
        struct sb_bus *bus;

        CHECK_EQ(sb_admin_open(daemon->place.directory, &bus), 0);
        CHECK_EQ(sb_admin_check(bus, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK(!report.guards && !report.snapshots && !report.blocks_lost);
        sb_close(bus);
}

static void test_exec_gives_back_what_the_process_held(void)
{
        struct daemon daemon;
        struct child child;
        uint64_t began;

        CHECK(begin(&daemon));
        CHECK(start(&child, child_exec, &daemon));
        began = daemon_now_ns();
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        TEST_NOTE("its record was free after %.1f ms", (double)(daemon_now_ns() - began) / 1e6);
        CHECK(lives(&child));
        nothing_is_held(&daemon);
        CHECK(daemon_hear(&daemon, "it called exec() with the bus open"));
        end(&child);
        finish(&daemon);
}

static void test_exec_without_an_engine_is_seen_by_the_next(void)
{
        struct daemon daemon;
        struct child child;
        pid_t engine;

        CHECK(begin(&daemon));
        CHECK(start(&child, child_closes_all, &daemon));
        end(&child);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        for (int i = 0; i < 3; i++) {
                engine = daemon_engine(&attachment);
                CHECK(start(&child, child_exec, &daemon));
                kill(engine, SIGKILL);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
                CHECK(WAIT(daemon_attached(&attachment) == 1));
                CHECK(lives(&child));
                end(&child);
        }
        nothing_is_held(&daemon);
        finish(&daemon);
}

/* Where the number of watches on files is used up, nothing tells of a map that is gone. */
static int have_no_watches(void)
{
        struct sock_filter look[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_inotify_add_watch, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(look) / sizeof(look[0]), look};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* No lock shows that a client maps the segment. */
static int have_no_locks(void)
{
        struct sock_filter look[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(look) / sizeof(look[0]), look};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Its exec() would not be seen, and its place would be lost. */
static void test_a_client_that_cannot_be_told_from_one_that_called_exec_gets_no_place(void)
{
        struct daemon daemon;

        if (prctl(PR_GET_SECCOMP) < 0)
                TEST_SKIP("this kernel has no filters for system calls");
        daemon_prepare = have_no_locks;
        CHECK(daemon_start(&daemon));
        daemon_prepare = NULL;
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), -ECONNREFUSED);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Whether the child is `sleep` by now, and waits: what it mapped before is gone then. */
static bool sleeps(const struct child *child)
{
        char path[64], text[64] = "";
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)child->pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        (void)!read(fd, text, sizeof(text) - 1);
        close(fd);
        return strstr(text, "(sleep) S");
}

static void test_where_nothing_tells_of_an_exec_its_place_comes_back_when_one_is_wanted(void)
{
        struct sb_attachment more;
        struct daemon daemon;
        struct child child;

        if (prctl(PR_GET_SECCOMP) < 0)
                TEST_SKIP("this kernel has no filters for system calls");
        daemon_prepare = have_no_watches;
        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off", "--clients", "2");
        daemon_prepare = NULL;
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        for (int i = 0; i < 3; i++) {
                CHECK(start(&child, child_exec, &daemon));
                CHECK(WAIT(sleeps(&child)));
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                CHECK(lives(&child));
                daemon_detach(&more, &daemon_other);
                end(&child);
        }
        finish(&daemon);
}

static void test_a_process_that_closes_all_descriptors_keeps_its_place(void)
{
        struct daemon daemon;
        struct child child;
        pid_t engine;

        CHECK(begin(&daemon));
        CHECK(start(&child, child_closes_all, &daemon));
        make_it_look(&daemon, 2);
        CHECK(serves(&child));
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        make_it_look(&daemon, 2);
        CHECK(serves(&child));
        end(&child);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        nothing_is_held(&daemon);
        finish(&daemon);
}

static void test_threads_that_end_and_the_main_thread_take_no_place_with_them(void)
{
        struct daemon daemon;
        struct child child;

        CHECK(begin(&daemon));
        CHECK(start(&child, child_ends_threads, &daemon));
        CHECK_EQ(daemon_attached(&attachment), 3);
        make_it_look(&daemon, 3);
        CHECK(serves(&child));
        CHECK_EQ(daemon_attached(&attachment), 3);
        end(&child);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        finish(&daemon);
}

/* The second thread of a process with two; 0: there is none. */
static pid_t second_thread(pid_t pid)
{
        char path[64];
        struct dirent *entry;
        pid_t found = 0;
        DIR *threads;

        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        threads = opendir(path);
        while (threads && (entry = readdir(threads)))
                if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != pid)
                        found = atoi(entry->d_name);
        if (threads)
                closedir(threads);
        return found;
}

/* The kernel takes the maps of a process that was killed before it says that the process is dead.
 * Here long before: this process traces a thread of it, and has not taken note of that one's end.
 */
static void test_a_killed_process_is_not_said_to_have_called_exec(void)
{
        struct daemon daemon;
        struct child child;
        pid_t thread;

        CHECK(begin(&daemon));
        CHECK(start(&child, child_has_two_threads, &daemon));
        thread = second_thread(child.pid);
        CHECK(thread && !ptrace(PTRACE_SEIZE, thread, NULL, NULL));
        kill(child.pid, SIGKILL);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK_EQ(waitpid(child.pid, NULL, WNOHANG), 0);
        CHECK_EQ(waitpid(thread, NULL, __WALL), thread);
        end(&child);
        nothing_is_held(&daemon);
        daemon_detach(&attachment, &daemon_handle);
        kill(daemon.pid, SIGTERM);
        CHECK(daemon_hear(&daemon, "told to stop"));
        CHECK(!strstr(daemon.said, "has no map"));
        CHECK_EQ(daemon_ended(&daemon), 0);
}

/* A worker that starts anew by exec(), more often than there are places, and attaches each time. */
static void test_a_process_may_exec_and_attach_any_number_of_times(void)
{
        struct daemon daemon;
        char value[SB_PLACE_MAX + 32], byte = 0;
        int out[2], status = -1;
        pid_t pid;

        CHECK(begin(&daemon));
        CHECK(!pipe2(out, O_CLOEXEC));
        snprintf(value, sizeof(value), "100 %s", daemon.place.directory);
        setenv("API_EXEC_AGAIN", value, 1);
        pid = fork();
        if (pid == 0) {
                dup2(out[1], 1);
                execl("/proc/self/exe", "api-exec", (char *)NULL);
                _exit(2);
        }
        unsetenv("API_EXEC_AGAIN");
        close(out[1]);
        CHECK(read(out[0], &byte, 1) == 1 && byte == 'x');
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        close(out[0]);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        nothing_is_held(&daemon);
        finish(&daemon);
}

/* That worker. */
static int exec_again(const char *what)
{
        char next[SB_PLACE_MAX + 32], *directory;
        unsigned long left = strtoul(what, &directory, 10);
        struct sb_bus *bus = open_bus(directory + 1);

        if (!bus)
                return 1;
        if (!left) {
                sb_close(bus);
                return write(1, "x", 1) != 1;
        }
        snprintf(next, sizeof(next), "%lu %s", left - 1, directory + 1);
        setenv("API_EXEC_AGAIN", next, 1);
        execl("/proc/self/exe", "api-exec", (char *)NULL);
        return 2;
}

int main(int argc, char **argv)
{
        if (getenv("API_EXEC_AGAIN"))
                return exec_again(getenv("API_EXEC_AGAIN"));
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_exec_gives_back_what_the_process_held);
        RUN(test_exec_without_an_engine_is_seen_by_the_next);
        RUN(test_a_client_that_cannot_be_told_from_one_that_called_exec_gets_no_place);
        RUN(test_where_nothing_tells_of_an_exec_its_place_comes_back_when_one_is_wanted);
        RUN(test_a_process_that_closes_all_descriptors_keeps_its_place);
        RUN(test_threads_that_end_and_the_main_thread_take_no_place_with_them);
        RUN(test_a_killed_process_is_not_said_to_have_called_exec);
        RUN(test_a_process_may_exec_and_attach_any_number_of_times);
        return daemon_end(test_end());
}
