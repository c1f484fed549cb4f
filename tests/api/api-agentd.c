/*
 * agentd as a program: started, stopped, killed in parts and as a whole, lied to and flooded, with clients attached all the while.
 * The program under test is $AGENTD. Each test has a bus of its own in a fresh directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/attach.h"
#include "ring/hello.h"
#include "ring/op.h"
#include "shm/base/result.h"
#include "shm/check.h"
#include "shm/epoch.h"
#include "shm/slot.h"
#include "test.h"

#define PATIENCE_NS UINT64_C(20000000000)

static char home[64];              /* of all buses of this run */
static unsigned bus_count;
static struct sb_peer peer, other; /* large */

struct daemon {
        struct sb_place place;
        pid_t pid;
        int err;
        char said[16384]; /* so far */
        size_t len;
};

static uint64_t now_ns(void)
{
        return sb_os_linux.now_ns(NULL);
}

static void rest(void)
{
        sb_os_linux.pause(NULL, 1000000);
}

/* Wait until @condition holds. */
#define WAIT(condition)                                                                             \
        ({                                                                                          \
                uint64_t wait_end_ = now_ns() + PATIENCE_NS;                                        \
                while (!(condition) && now_ns() < wait_end_)                                        \
                        rest();                                                                     \
                (condition);                                                                        \
        })

static void new_place(struct sb_place *ret)
{
        char name[96];

        snprintf(name, sizeof(name), "%s/bus%u", home, bus_count++);
        if (sb_place_resolve(name, ret))
                abort();
}

/* Run agentd with @arguments (NULL at the end) on daemon->place; what it says comes through a pipe. */
static void spawn(struct daemon *daemon, const char *const *arguments)
{
        const char *argv[24] = {getenv("AGENTD"), "-b", daemon->place.directory};
        int pipe_fds[2], count = 3;

        for (; *arguments; arguments++)
                argv[count++] = *arguments;
        if (pipe2(pipe_fds, O_CLOEXEC))
                abort();
        daemon->pid = fork();
        if (daemon->pid == 0) {
                dup2(pipe_fds[1], 1);
                dup2(pipe_fds[1], 2);
                execv(argv[0], (char *const *)argv);
                _exit(127);
        }
        close(pipe_fds[1]);
        daemon->err = pipe_fds[0];
        daemon->len = 0;
        daemon->said[0] = 0;
}
#define SPAWN(daemon, ...) spawn((daemon), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Read what it says until @word is there. Return: whether it came. */
static bool hear(struct daemon *daemon, const char *word)
{
        uint64_t end = now_ns() + PATIENCE_NS;

        while (!strstr(daemon->said, word)) {
                struct pollfd look = {.fd = daemon->err, .events = POLLIN};
                ssize_t len;

                if (now_ns() > end || daemon->len == sizeof(daemon->said) - 1)
                        return false;
                if (poll(&look, 1, 100) < 1)
                        continue;
                len = read(daemon->err, daemon->said + daemon->len, sizeof(daemon->said) - 1 - daemon->len);
                if (len <= 0)
                        return strstr(daemon->said, word);
                daemon->len += (size_t)len;
                daemon->said[daemon->len] = 0;
        }
        return true;
}

static bool start(struct daemon *daemon)
{
        new_place(&daemon->place);
        SPAWN(daemon, "--size", "4M", "--hugepages", "off", "--clients", "16");
        return hear(daemon, "ready\n");
}

/* Wait for the process to end. Return: its exit status, 128 + signal, or -1: it did not end. */
static int ended(struct daemon *daemon)
{
        uint64_t end = now_ns() + PATIENCE_NS;
        int status = 0;

        while (now_ns() < end) {
                if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
                        (void)hear(daemon, "\1"); /* all that it said */
                        close(daemon->err);
                        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                }
                rest();
        }
        return -1;
}

static int stop(struct daemon *daemon)
{
        kill(daemon->pid, SIGTERM);
        return ended(daemon);
}

static pid_t engine_of(const struct sb_attachment *attachment)
{
        return (pid_t)sb_load_relaxed(&attachment->segment.super->engine);
}

static int set(struct sb_peer *writer, const char *key, const char *value)
{
        struct sb_op_write write = {.key = key, .key_len = (uint32_t)strlen(key), .value = value, .value_len = strlen(value),
                .kind = SB_VERSION_VALUE, .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(writer, &write, &result);
}

static bool has(struct sb_peer *reader, const char *key, const char *value)
{
        struct sb_version *version;
        uint64_t len = strlen(value);
        bool same;

        if (sb_op_get(reader, key, (uint32_t)strlen(key), 0, &version))
                return false;
        same = SB_SHAPE_VALUE_LEN(version->shape) == len && !memcmp(version->bytes + strlen(key), value, len);
        sb_guard_set(reader, 0, 0);
        return same;
}

static int attach(const struct daemon *daemon, struct sb_attachment *ret, struct sb_peer *ret_peer)
{
        int r = sb_attach(&daemon->place, SB_PEER, ret);

        if (!r && ret_peer)
                sb_peer_init(ret_peer, &ret->segment, ret->slot, ret->generation);
        return r;
}

static void detach(struct sb_attachment *attachment, struct sb_peer *of)
{
        sb_peer_fini(of);
        sb_attach_unmap(attachment);
}

static unsigned attached(const struct sb_attachment *attachment)
{
        unsigned count = 0;

        for (uint32_t slot = 1; slot < attachment->segment.geometry.client_count; slot++)
                count += sb_slot_state(&attachment->segment, slot, NULL) != SB_CLIENT_FREE;
        return count;
}

/* A process that attaches @count times, then stays until it is killed. Return: its pid; *ret_result what attaching said. */
static pid_t child_attaches(const struct daemon *daemon, unsigned count, int *ret_result)
{
        int pipe_fds[2], r = 0;
        pid_t pid;

        if (pipe2(pipe_fds, O_CLOEXEC))
                abort();
        pid = fork();
        if (pid == 0) {
                struct sb_attachment attachment;

                for (unsigned i = 0; i < count && !r; i++)
                        r = sb_attach(&daemon->place, SB_PEER, &attachment);
                (void)!write(pipe_fds[1], &r, sizeof(r));
                for (;;)
                        pause();
        }
        close(pipe_fds[1]);
        if (read(pipe_fds[0], ret_result, sizeof(int)) != (ssize_t)sizeof(int))
                *ret_result = -EPIPE;
        close(pipe_fds[0]);
        return pid;
}

static void end_child(pid_t pid)
{
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

static unsigned mode_of(const struct sb_place *place, const char *file)
{
        char path[SB_PLACE_MAX + 32];
        struct stat status;

        snprintf(path, sizeof(path), "%s/%s", place->directory, file);
        return stat(path, &status) ? 0 : status.st_mode & 07777;
}

static unsigned open_files(pid_t pid)
{
        char path[64];
        unsigned count = 0;
        DIR *stream;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        stream = opendir(path);
        while (stream && readdir(stream))
                count++;
        if (stream)
                closedir(stream);
        return count;
}

static void test_start_says_ready_and_sigterm_ends_it_clean(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(start(&daemon));
        CHECK_EQ(mode_of(&daemon.place, "."), 0711);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_SOCKET), 0666);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_LOCK), 0600);
        CHECK_EQ(attach(&daemon, &attachment, NULL), 0);
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK_EQ(stop(&daemon), 0);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_SOCKET), 0);
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(sb_attach(&daemon.place, SB_PEER, &attachment), -ECONNREFUSED);
}

static void test_sigint_ends_it_clean(void)
{
        struct daemon daemon;

        CHECK(start(&daemon));
        kill(daemon.pid, SIGINT);
        CHECK_EQ(ended(&daemon), 0);
}

static void test_sigterm_ends_it_although_the_engine_is_stopped(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        kill(engine_of(&attachment), SIGSTOP);
        CHECK_EQ(set(&peer, "key", "value"), 0); /* and clients go on while it is stopped */
        CHECK_EQ(stop(&daemon), 0);
        sb_attach_unmap(&attachment);
}

static void test_second_agentd_fails_at_once_and_names_the_first(void)
{
        struct daemon first, second;
        char pid[32];
        uint64_t begun;

        CHECK(start(&first));
        second.place = first.place;
        begun = now_ns();
        SPAWN(&second, "--size", "4M", "--hugepages", "off");
        CHECK_EQ(ended(&second), 1);
        CHECK(now_ns() - begun < 5 * UINT64_C(1000000000));
        snprintf(pid, sizeof(pid), "pid %d ", (int)first.pid);
        CHECK(strstr(second.said, pid));
        CHECK_EQ(stop(&first), 0);
}

static void test_segment_is_sealed_and_private(void)
{
        struct daemon daemon;
        char path[64];
        bool seen = false;

        CHECK(start(&daemon));
        for (int i = 3; i < 32; i++) {
                char name[64] = "";
                struct stat status;
                int fd;

                snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)daemon.pid, i);
                if (readlink(path, name, sizeof(name) - 1) < 0 || strncmp(name, "/memfd:", 7))
                        continue;
                fd = open(path, O_RDWR | O_CLOEXEC);
                CHECK(fd >= 0);
                CHECK(!fstat(fd, &status));
                CHECK_EQ(status.st_mode & 07777, 0600);
                CHECK_EQ(status.st_size, 4 << 20);
                CHECK_EQ(status.st_blocks * 512, 4 << 20); /* every page is there */
                CHECK_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
                close(fd);
                seen = true;
        }
        CHECK(seen);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_killed_engine_is_replaced_while_clients_go_on(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, second;
        struct sb_check_report report;
        uint64_t longest = 0;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        CHECK_EQ(set(&peer, "key", "before"), 0);
        for (int i = 0; i < 10; i++) {
                pid_t engine = engine_of(&attachment);
                uint64_t begun = now_ns();

                kill(engine, SIGKILL);
                CHECK_EQ(set(&peer, "other", "written without an engine"), 0);
                CHECK(WAIT(engine_of(&attachment) != engine));
                if (now_ns() - begun > longest)
                        longest = now_ns() - begun;
        }
        TEST_NOTE("api-agentd: longest time without an engine %.1f ms", (double)longest / 1e6);
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK(has(&peer, "key", "before"));
        CHECK_EQ(attach(&daemon, &second, &other), 0);
        CHECK(second.slot != attachment.slot);
        CHECK(has(&other, "key", "before"));
        CHECK_EQ(sb_check(&other, false, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        CHECK_EQ(attached(&attachment), 2);
        detach(&second, &other);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

/* A process that writes and deletes until it is killed. */
static pid_t child_writes(const struct daemon *daemon)
{
        pid_t pid = fork();

        if (pid == 0) {
                struct sb_attachment attachment;
                struct sb_op_write delete = {.key = "k1", .key_len = 2, .kind = SB_VERSION_DELETED, .expected_rev = SB_OP_ANY_REV};
                struct sb_op_result result;

                if (attach(daemon, &attachment, &peer))
                        _exit(1);
                for (;;) {
                        (void)set(&peer, "k1", "one");
                        (void)set(&peer, "k2", "another");
                        (void)sb_op_write(&peer, &delete, &result);
                }
        }
        return pid;
}

static void test_engine_killed_whenever_it_works_leaves_the_segment_sound(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_check_report report;
        unsigned seed = 1;
        pid_t writer;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        writer = child_writes(&daemon);
        for (int i = 0; i < 60; i++) {
                pid_t engine = engine_of(&attachment);

                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 20000) * 1000);
                if (i % 4 == 0) { /* work for the reaper, in the middle of which it is killed */
                        end_child(writer);
                        writer = child_writes(&daemon);
                }
                kill(engine, SIGKILL);
                CHECK(WAIT(engine_of(&attachment) != engine));
        }
        end_child(writer);
        CHECK(WAIT(attached(&attachment) == 1));
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK_EQ(sb_check(&peer, false, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
        CHECK(!strstr(daemon.said, "not adopted"));
}

static void test_engine_becomes_keeper_when_the_keeper_is_killed(void)
{
        struct daemon daemon, second;
        struct sb_attachment attachment;
        pid_t engine, keeper;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        CHECK_EQ(set(&peer, "key", "value"), 0);
        for (int i = 0; i < 3; i++) {
                CHECK_EQ(sb_place_keeper(&daemon.place, &keeper), 0);
                engine = engine_of(&attachment);
                kill(keeper, SIGKILL);
                CHECK(WAIT(engine_of(&attachment) != engine));
                CHECK_EQ(sb_place_keeper(&daemon.place, &keeper), 0);
                CHECK_EQ(keeper, engine);
                CHECK(sb_segment_serving(&attachment.segment));
        }
        /* The new one restarts engines, refuses a second agentd and stops like the first one. */
        engine = engine_of(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(engine_of(&attachment) != engine));
        second.place = daemon.place;
        SPAWN(&second, "--size", "4M", "--hugepages", "off");
        CHECK_EQ(ended(&second), 1);
        CHECK(has(&peer, "key", "value"));
        kill(keeper, SIGTERM);
        CHECK(WAIT(sb_place_keeper(&daemon.place, &keeper) == -ESRCH));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(ended(&daemon), 128 + SIGKILL);
        sb_attach_unmap(&attachment);
}

static void test_after_kill_of_everything_clients_know_and_the_next_one_starts(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, fresh;
        pid_t engine;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        engine = engine_of(&attachment);
        kill(engine, SIGSTOP); /* so that it cannot take over in between */
        kill(daemon.pid, SIGKILL);
        kill(engine, SIGKILL);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off");
        CHECK(hear(&daemon, "ready\n"));
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(attach(&daemon, &fresh, &other), 0);
        CHECK(!has(&other, "key", "value"));
        CHECK(memcmp(fresh.segment.super->id, attachment.segment.super->id, 16));
        detach(&fresh, &other);
        sb_attach_unmap(&attachment);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_clients_says_how_many_and_places_come_back(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        uint64_t killed;
        pid_t child;
        int r;

        new_place(&daemon.place);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off", "--clients", "3");
        CHECK(hear(&daemon, "ready\n"));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        child = child_attaches(&daemon, 2, &r);
        CHECK_EQ(r, 0);
        CHECK_EQ(attach(&daemon, &more, &other), SB_E_FULL);
        killed = now_ns();
        end_child(child); /* two places of one process */
        CHECK(WAIT(attached(&attachment) == 1));
        CHECK(now_ns() - killed < 1000000000);
        TEST_NOTE("api-agentd: a killed process's two places were free after %.1f ms", (double)(now_ns() - killed) / 1e6);
        /* What its owner closes is free when that returns. */
        for (int i = 0; i < 50; i++) {
                CHECK_EQ(attach(&daemon, &more, &other), 0);
                detach(&more, &other);
        }
        CHECK_EQ(attached(&attachment), 1);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_full_table_outlasts_engines(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        pid_t child;
        int r;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        child = child_attaches(&daemon, 15, &r);
        CHECK_EQ(r, 0);
        for (int i = 0; i < 10; i++) {
                pid_t engine = engine_of(&attachment);

                kill(engine, SIGKILL);
                CHECK(WAIT(engine_of(&attachment) != engine));
                CHECK_EQ(attached(&attachment), 16);
                CHECK_EQ(attach(&daemon, &more, &other), SB_E_FULL);
        }
        /* Who dies while there is no engine, or one that is stopped, is found by the next. */
        kill(engine_of(&attachment), SIGSTOP);
        end_child(child);
        kill(engine_of(&attachment), SIGKILL);
        CHECK(WAIT(attached(&attachment) == 1));
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_pid_that_was_given_to_another_process_is_dead_to_the_next_engine(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t child, engine;
        int r;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        child = child_attaches(&daemon, 2, &r);
        CHECK_EQ(r, 0);
        CHECK_EQ(attached(&attachment), 3);
        /* As if the kernel had given the pid of a dead client to this child. */
        for (uint32_t slot = 1; slot < attachment.segment.geometry.client_count; slot++)
                if (sb_client_at(&attachment.segment, slot)->pid == (uint32_t)child) {
                        sb_client_at(&attachment.segment, slot)->pid_start--;
                        break;
                }
        engine = engine_of(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(engine_of(&attachment) != engine));
        CHECK_EQ(attached(&attachment), 2); /* the other one of the same process is still its own */
        end_child(child);
        CHECK(WAIT(attached(&attachment) == 1));
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_another_user_is_refused(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        int status;
        pid_t child;

        if (geteuid() != 0)
                TEST_SKIP("only root can become another user");
        CHECK(start(&daemon));
        for (int i = 0; i < 20; i++) {
                child = fork();
                if (child == 0) {
                        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
                                _exit(99);
                        _exit(sb_attach(&daemon.place, SB_PEER, &attachment));
                }
                CHECK_EQ(waitpid(child, &status, 0), child);
                CHECK(WIFEXITED(status));
                CHECK_EQ(WEXITSTATUS(status), SB_E_DENIED);
        }
        CHECK_EQ(stop(&daemon), 0);
}

static void test_other_access_than_peer_is_not_there_yet(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(start(&daemon));
        CHECK_EQ(sb_attach(&daemon.place, SB_OBSERVER, &attachment), -ENOTSUP);
        CHECK_EQ(sb_attach(&daemon.place, SB_MEDIATED, &attachment), -ENOTSUP);
        CHECK_EQ(sb_attach(&daemon.place, 77, &attachment), -EINVAL);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_wrong_options_end_with_2_and_say_what_to_do(void)
{
        static const struct {
                const char *option, *value, *says;
        } cases[] = {
                {"--size", "64X", "--size 256M"},
                {"--size", "-1", "--size 256M"},
                {"--size", "99999999999999999999", "--size 256M"},
                {"--size", "8K", "the least that serves"},
                {"--hugepages", "perhaps", "auto, require or off"},
                {"--durability", "batched", "--durability volatile"},
                {"--durability", "strict", "--durability volatile"},
                {"--durability", "maybe", "volatile"},
                {"--flush-ms", "0", "1 to 60000"},
                {"--flush-ms", "1x", "1 to 60000"},
                {"--clients", "0", "1 to 4000"},
                {"--clients", "4001", "1 to 4000"},
                {"--recover-to", "7", "durable"},
                {"--no-such-option", "", "--help"},
                {"argument", "", "-b"},
                {"-b", "..", "name"},
        };
        struct daemon daemon;

        new_place(&daemon.place);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                SPAWN(&daemon, cases[i].option, *cases[i].value ? cases[i].value : NULL);
                CHECK_EQ(ended(&daemon), 2);
                if (!strstr(daemon.said, cases[i].says))
                        TEST_FAIL("%s %s said: %s", cases[i].option, cases[i].value, daemon.said);
        }
        CHECK_EQ(access(daemon.place.directory, F_OK), -1); /* and nothing was made */
}

static void test_the_least_size_that_is_named_serves(void)
{
        struct daemon daemon;
        const char *at;
        char least[32] = "";

        new_place(&daemon.place);
        SPAWN(&daemon, "--size", "16K", "--clients", "100", "--hugepages", "off");
        CHECK_EQ(ended(&daemon), 2);
        at = strstr(daemon.said, "serves is --size ");
        CHECK(at && sscanf(at, "serves is --size %31[0-9KM]", least) == 1);
        SPAWN(&daemon, "--size", least, "--clients", "100", "--hugepages", "off");
        CHECK(hear(&daemon, "ready\n"));
        CHECK_EQ(stop(&daemon), 0);
}

static void test_check_config_makes_nothing(void)
{
        struct daemon daemon;

        new_place(&daemon.place);
        SPAWN(&daemon, "--check-config", "--size", "1G");
        CHECK_EQ(ended(&daemon), 0);
        CHECK_EQ(access(daemon.place.directory, F_OK), -1);
        CHECK(strstr(daemon.said, daemon.place.directory));
        CHECK(strstr(daemon.said, "size = 1073741824\n"));
        SPAWN(&daemon, "--version");
        CHECK_EQ(ended(&daemon), 0);
        CHECK(strstr(daemon.said, "layout 1"));
        SPAWN(&daemon, "--help");
        CHECK_EQ(ended(&daemon), 0);
        CHECK(strstr(daemon.said, "--recover-to"));
        CHECK_EQ(access(daemon.place.directory, F_OK), -1);
}

static void test_a_long_directory_name_serves(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        char name[400];

        snprintf(name, sizeof(name), "%s/%0150d/%0150d", home, 1, 2);
        CHECK_EQ(sb_place_resolve(name, &daemon.place), 0);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off");
        CHECK(hear(&daemon, "ready\n"));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

/* A raw connection. */
static int dial(const struct daemon *daemon)
{
        struct sockaddr_un address;
        int fd, through;

        if (sb_place_address(&daemon->place, SB_PLACE_SOCKET, &address, &through))
                return -1;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
                close(fd);
                return -1;
        }
        return fd;
}

/* Send @len bytes with @fd_count descriptors, and hear what comes back. Return: the answer's result, or -EPIPE. */
static int ask_raw(const struct daemon *daemon, const void *bytes, size_t len, unsigned fd_count, struct sb_hello_answer *ret)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(16 * sizeof(int))];
        } control = {0};
        struct iovec part = {.iov_base = (void *)bytes, .iov_len = len};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        int fds[16], fd = dial(daemon), r;

        for (unsigned i = 0; i < fd_count; i++)
                fds[i] = 0;
        if (fd_count) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
                memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
        }
        r = sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -errno;
        if (!r) {
                char packet[256];
                ssize_t got = recv(fd, packet, sizeof(packet), 0); /* takes no descriptor */

                r = got <= 0 ? -EPIPE : sb_hello_hear(packet, (size_t)got, ret);
        }
        close(fd);
        return r ? r : ret->result;
}

static void test_hostile_messages_are_refused_and_cost_nothing(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request good, bad;
        struct sb_hello_answer answer;
        char noise[4096];
        unsigned files, seed = 7;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 1, &good);
        CHECK_EQ(ask_raw(&daemon, &good, sizeof(good), 0, &answer), 0); /* one that is not used: settles what is lazily opened */
        files = open_files(engine_of(&attachment));
        for (size_t len = 1; len < sizeof(good); len++)
                CHECK_EQ(ask_raw(&daemon, &good, len, 0, &answer), -EPROTO);
        memset(noise, 0, sizeof(noise));
        memcpy(noise, &good, sizeof(good));
        CHECK_EQ(ask_raw(&daemon, noise, sizeof(good) + 1, 0, &answer), -EPROTO);
        CHECK_EQ(ask_raw(&daemon, noise, sizeof(noise), 0, &answer), -EPROTO);
        bad = good, bad.protocol++;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EPROTONOSUPPORT);
        bad = good, bad.layout_version++;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EPROTONOSUPPORT);
        bad = good, bad.magic++;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EPROTO);
        bad = good, bad.verb = 99;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EINVAL);
        bad = good, bad.verb = SB_HELLO_GIVE_BACK;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EPROTO);
        bad = good, bad.ticket = 0;
        CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 0, &answer), -EINVAL);
        for (int i = 0; i < 500; i++) {
                size_t len = 1 + (size_t)rand_r(&seed) % 80;

                for (size_t j = 0; j < len; j++)
                        noise[j] = (char)rand_r(&seed);
                CHECK(ask_raw(&daemon, noise, len, 0, &answer) < 0);
        }
        /* Descriptors that nobody asked for are not taken. */
        for (int i = 0; i < 20; i++) {
                bad = good, bad.verb = 99;
                CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 16, &answer), -EINVAL);
        }
        CHECK(WAIT(open_files(engine_of(&attachment)) <= files));
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
        CHECK(!strstr(daemon.said, "starting another"));
}

static void test_silent_connections_hold_nobody_up(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        unsigned before;
        int fds[300];

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        before = open_files(engine_of(&attachment));
        for (int i = 0; i < 300; i++) {
                fds[i] = dial(&daemon);
                CHECK(fds[i] >= 0);
                if (i % 50 == 49) {
                        struct sb_attachment more;

                        CHECK_EQ(attach(&daemon, &more, &other), 0);
                        detach(&more, &other);
                }
        }
        CHECK(open_files(engine_of(&attachment)) <= before + 64 + 8);
        for (int i = 0; i < 300; i++)
                close(fds[i]);
        CHECK(WAIT(open_files(engine_of(&attachment)) <= before + 1)); /* of the place that was used last */
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_client_that_goes_before_the_answer_leaves_no_place_taken(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request request;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        for (uint64_t i = 1; i <= 200; i++) {
                int fd = dial(&daemon);

                CHECK(fd >= 0);
                sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, i, &request);
                CHECK_EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
                if (i % 3 == 0) { /* after the answer came, unread */
                        struct pollfd look = {.fd = fd, .events = POLLIN};

                        CHECK_EQ(poll(&look, 1, 10000), 1);
                }
                close(fd);
        }
        CHECK(WAIT(attached(&attachment) == 1));
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_client_that_cannot_map_gives_its_place_back(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request request;
        char packet[128];
        int fd;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        fd = dial(&daemon);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 5, &request);
        CHECK_EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
        CHECK_EQ(recv(fd, packet, sizeof(packet), 0), sizeof(struct sb_hello_answer));
        CHECK_EQ(attached(&attachment), 2);
        sb_hello_ask(SB_HELLO_GIVE_BACK, SB_PEER, 5, &request);
        CHECK_EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
        CHECK(WAIT(attached(&attachment) == 1));
        close(fd);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_the_same_ticket_gets_the_same_place(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request request;
        struct sb_hello_answer first, second;
        pid_t engine;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 4711, &request);
        CHECK_EQ(ask_raw(&daemon, &request, sizeof(request), 0, &first), 0);
        engine = engine_of(&attachment);
        kill(engine, SIGKILL); /* the next one knows nothing but what is in the segment */
        CHECK(WAIT(engine_of(&attachment) != engine));
        CHECK_EQ(ask_raw(&daemon, &request, sizeof(request), 0, &second), 0);
        CHECK_EQ(first.slot, second.slot);
        CHECK_EQ(first.generation, second.generation);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 4712, &request);
        CHECK_EQ(ask_raw(&daemon, &request, sizeof(request), 0, &second), 0);
        CHECK(first.slot != second.slot);
        CHECK_EQ(attached(&attachment), 3);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_attaching_outlasts_engines_that_die_meanwhile(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        pid_t killer;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        killer = fork();
        if (killer == 0) {
                /* The map is not inherited, so the victims are found in the kernel's list of children. */
                for (;;) {
                        char path[64];
                        FILE *file;
                        int engine;

                        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)daemon.pid, (int)daemon.pid);
                        file = fopen(path, "r");
                        if (file && fscanf(file, "%d", &engine) == 1)
                                kill(engine, SIGKILL);
                        if (file)
                                fclose(file);
                        sb_os_linux.pause(NULL, 30000000);
                }
        }
        for (int i = 0; i < 100; i++) {
                CHECK_EQ(attach(&daemon, &more, &other), 0);
                CHECK_EQ(set(&other, "key", "value"), 0);
                detach(&more, &other);
        }
        end_child(killer);
        CHECK_EQ(attached(&attachment), 1);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_segment_that_fails_the_check_is_not_adopted(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, fresh;
        struct sb_bucket *bucket;
        pid_t engine;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        CHECK_EQ(set(&peer, "key", "value"), 0);
        /* A cell that names a block far outside. */
        bucket = &attachment.segment.buckets[attachment.segment.geometry.bucket_count / 2];
        sb_store_release(&bucket->cell[6], UINT64_C(0x00007ffffffffff0));
        engine = engine_of(&attachment);
        kill(engine, SIGKILL);
        CHECK(hear(&daemon, "not adopted"));
        CHECK(hear(&daemon, "making a new segment"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(attach(&daemon, &fresh, &other), 0);
        CHECK(memcmp(fresh.segment.super->id, attachment.segment.super->id, 16));
        CHECK_EQ(set(&other, "key", "again"), 0);
        detach(&fresh, &other);
        sb_attach_unmap(&attachment);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_a_superblock_scribbled_over_is_not_adopted(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t engine;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        engine = engine_of(&attachment);
        attachment.segment.super->geometry.units_at = UINT64_MAX - 64;
        kill(engine, SIGKILL);
        CHECK(hear(&daemon, "not adopted"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        sb_attach_unmap(&attachment);
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

static void test_start_in_the_background_by_many_at_once(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t children[6], keeper;
        int status;

        new_place(&daemon.place);
        setenv("STATEBUS_AGENTD", getenv("AGENTD"), 1);
        for (int i = 0; i < 6; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        const char *const options[] = {"--size", "4M", "--hugepages", "off", NULL};
                        int r = sb_attach(&daemon.place, SB_PEER, &attachment);

                        if (r == -ECONNREFUSED) {
                                (void)sb_attach_start(&daemon.place, options);
                                r = sb_attach(&daemon.place, SB_PEER, &attachment);
                        }
                        _exit(r ? 1 : 0);
                }
        }
        for (int i = 0; i < 6; i++) {
                CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
                CHECK_EQ(status, 0);
        }
        CHECK_EQ(sb_place_keeper(&daemon.place, &keeper), 0);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_LOG), 0600);
        CHECK_EQ(sb_attach_start(&daemon.place, NULL), -ECONNREFUSED); /* there is one already */
        kill(keeper, SIGTERM);
        CHECK(WAIT(sb_place_keeper(&daemon.place, &keeper) == -ESRCH));
}

static void test_an_idle_engine_hardly_runs(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct timespec before, after;
        clockid_t clock;
        double used;

        CHECK(start(&daemon));
        CHECK_EQ(attach(&daemon, &attachment, &peer), 0);
        CHECK_EQ(set(&peer, "key", "value"), 0);
        CHECK(!clock_getcpuclockid(engine_of(&attachment), &clock));
        sb_os_linux.pause(NULL, 500000000);
        clock_gettime(clock, &before);
        sb_os_linux.pause(NULL, 1000000000);
        clock_gettime(clock, &after);
        used = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
        TEST_NOTE("api-agentd: an idle engine used %.3f ms of a second", used * 1e3);
        CHECK(used < 0.02);
        detach(&attachment, &peer);
        CHECK_EQ(stop(&daemon), 0);
}

/* What a failed test left running, the orphans included: this process is their reaper. */
static void end_leftovers(void)
{
        char path[64];
        bool any = true;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
        while (any) {
                FILE *file = fopen(path, "r");
                int child;

                any = file && fscanf(file, "%d", &child) == 1;
                if (file)
                        fclose(file);
                if (any)
                        end_child(child);
        }
}

int main(int argc, char **argv)
{
        char clean[128];
        int status;

        test_begin(argc, argv);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (!getenv("AGENTD")) {
                printf("FAIL main: $AGENTD names no program to test\n");
                return 1;
        }
        snprintf(home, sizeof(home), "/tmp/statebus-test-XXXXXX");
        if (!mkdtemp(home) || chmod(home, 0711))
                return 1;
        RUN(test_start_says_ready_and_sigterm_ends_it_clean);
        RUN(test_sigint_ends_it_clean);
        RUN(test_sigterm_ends_it_although_the_engine_is_stopped);
        RUN(test_second_agentd_fails_at_once_and_names_the_first);
        RUN(test_segment_is_sealed_and_private);
        RUN(test_killed_engine_is_replaced_while_clients_go_on);
        RUN(test_engine_killed_whenever_it_works_leaves_the_segment_sound);
        RUN(test_engine_becomes_keeper_when_the_keeper_is_killed);
        RUN(test_after_kill_of_everything_clients_know_and_the_next_one_starts);
        RUN(test_clients_says_how_many_and_places_come_back);
        RUN(test_a_full_table_outlasts_engines);
        RUN(test_a_pid_that_was_given_to_another_process_is_dead_to_the_next_engine);
        RUN(test_another_user_is_refused);
        RUN(test_other_access_than_peer_is_not_there_yet);
        RUN(test_wrong_options_end_with_2_and_say_what_to_do);
        RUN(test_the_least_size_that_is_named_serves);
        RUN(test_check_config_makes_nothing);
        RUN(test_a_long_directory_name_serves);
        RUN(test_hostile_messages_are_refused_and_cost_nothing);
        RUN(test_silent_connections_hold_nobody_up);
        RUN(test_a_client_that_goes_before_the_answer_leaves_no_place_taken);
        RUN(test_a_client_that_cannot_map_gives_its_place_back);
        RUN(test_the_same_ticket_gets_the_same_place);
        RUN(test_attaching_outlasts_engines_that_die_meanwhile);
        RUN(test_a_segment_that_fails_the_check_is_not_adopted);
        RUN(test_a_superblock_scribbled_over_is_not_adopted);
        RUN(test_start_in_the_background_by_many_at_once);
        RUN(test_an_idle_engine_hardly_runs);
        end_leftovers();
        status = test_end();
        snprintf(clean, sizeof(clean), "rm -rf '%s'", home);
        return system(clean) ? 1 : status;
}
