/*
 * Attaching, as the library does it: which clients are let in, how many, what becomes of the
 * records of those that go, and which engines it outlasts. The same protocol by other messages than
 * the library's: api-attach-messages. The program under test is $AGENTD.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/upkeep/handle.h"
#include "tests/api/daemon.h"
#include "tests/harness/space.h"
#include "tests/harness/test.h"

static void test_clients_says_how_many_and_records_come_back(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        uint64_t killed;
        pid_t child;
        int r;

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off", "--clients", "3");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        child = daemon_child(&daemon, 2, &r);
        CHECK_EQ(r, 0);
        CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
        killed = daemon_now_ns();
        daemon_end_child(child); /* two records of one process */
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        TEST_NOTE("api-agentd: a killed process's two records were free after %.1f ms",
                (double)(daemon_now_ns() - killed) / 1e6);
        /* A record that its owner closes is free when the call returns. */
        for (int i = 0; i < 50; i++) {
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                daemon_detach(&more, &daemon_other);
        }
        CHECK_EQ(daemon_attached(&attachment), 1);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_a_bus_with_all_its_clients_has_a_place_for_agentctl(void)
{
        struct daemon daemon;
        struct sb_attachment attachments[3], more;
        struct sb_handle handles[3];
        struct sb_admin_stat stat;
        struct sb_admin_client client;
        struct sb_bus *bus, *second;
        uint32_t number = 4;
        pid_t engine;

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off", "--clients", "3");
        CHECK(daemon_hear(&daemon, "ready\n"));
        for (int i = 0; i < 3; i++) {
                CHECK_EQ(daemon_attach(&daemon, &attachments[i], &handles[i]), 0);
                CHECK_EQ(attachments[i].slot, i + 1);
        }
        for (int round = 0; round < 3; round++) {
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
                CHECK_EQ(sb_admin_open(daemon.place.directory, &bus), 0);
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
                CHECK_EQ(sb_admin_open(daemon.place.directory, &second), SB_E_FULL);
                CHECK_EQ(sb_admin_stat(bus, &stat), 0);
                CHECK(stat.clients == 3 && stat.clients_max == 3);
                number = 4;
                CHECK_EQ(sb_admin_client_next(bus, &number, &client), 0);
                CHECK(client.number == 4 && client.pid == (uint32_t)getpid());
                sb_close(bus);
                /* The next engine keeps the place, too. */
                engine = daemon_engine(&attachments[0]);
                kill(engine, SIGKILL);
                CHECK(WAIT(daemon_engine(&attachments[0]) != engine));
        }
        CHECK(daemon_hear(&daemon, "all 3 clients of --clients are attached"));
        /* Where there is room, agentctl takes no client's place, and a second one takes one. */
        daemon_detach(&attachments[2], &handles[2]);
        CHECK_EQ(sb_admin_open(daemon.place.directory, &bus), 0);
        CHECK_EQ(daemon_attach(&daemon, &attachments[2], &handles[2]), 0);
        CHECK_EQ(attachments[2].slot, 3);
        daemon_detach(&attachments[2], &handles[2]);
        CHECK_EQ(sb_admin_open(daemon.place.directory, &second), 0);
        CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
        sb_close(second);
        sb_close(bus);
        for (int i = 0; i < 2; i++)
                daemon_detach(&attachments[i], &handles[i]);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static unsigned times_said(const struct daemon *daemon, const char *words)
{
        unsigned count = 0;

        for (const char *at = daemon->said; (at = strstr(at, words)); at++)
                count++;
        return count;
}

static void test_a_full_table_is_said_once_until_there_was_a_place_again(void)
{
        static const char words[] = "all 1 clients of --clients are attached";
        struct daemon daemon;
        struct sb_attachment attachment, more;

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off", "--clients", "1");
        CHECK(daemon_hear(&daemon, "ready\n"));
        for (unsigned round = 1; round <= 2; round++) {
                CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
                for (unsigned i = 0; i < 3; i++)
                        CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
                CHECK(WAIT((daemon_hear_more(&daemon), times_said(&daemon, words) == round)));
                daemon_detach(&attachment, &daemon_handle);
        }
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK_EQ(times_said(&daemon, words), 2);
}

static void test_a_full_table_outlasts_engines(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        pid_t child;
        int r;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        child = daemon_child(&daemon, 15, &r);
        CHECK_EQ(r, 0);
        for (int i = 0; i < 10; i++) {
                pid_t engine = daemon_engine(&attachment);

                kill(engine, SIGKILL);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
                CHECK_EQ(daemon_attached(&attachment), 16);
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), SB_E_FULL);
        }
        /* The next engine finds a client that dies while there is no engine, or while the engine is
         * stopped. */
        kill(daemon_engine(&attachment), SIGSTOP);
        daemon_end_child(child);
        kill(daemon_engine(&attachment), SIGKILL);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_a_pid_that_was_given_to_another_process_is_dead_to_the_next_engine(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t child, engine;
        int r;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        child = daemon_child(&daemon, 2, &r);
        CHECK_EQ(r, 0);
        CHECK_EQ(daemon_attached(&attachment), 3);
        /* Write the segment as if the kernel had given the pid of a dead client to this child. */
        for (uint32_t slot = 1; slot < attachment.segment.geometry.record_count; slot++)
                if (sb_record_at(&attachment.segment, slot)->pid == (uint32_t)child) {
                        sb_record_at(&attachment.segment, slot)->pid_start--;
                        break;
                }
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        CHECK_EQ(daemon_attached(&attachment),
                2); /* the other record of the same process is still its own */
        daemon_end_child(child);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_another_user_is_refused(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        int status;
        pid_t child;

        if (geteuid() != 0)
                TEST_SKIP("only root can become another user");
        CHECK(daemon_start(&daemon));
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
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* An engine that refuses at once has closed its end. */
static int send_nothing(void)
{
        struct sock_filter look[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 1, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPIPE),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(look) / sizeof(look[0]), look};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void test_a_refusal_that_came_before_the_request_is_heard(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        int status;
        pid_t child;

        if (geteuid() != 0)
                TEST_SKIP("only root can become another user");
        if (prctl(PR_GET_SECCOMP) < 0)
                TEST_SKIP("this kernel has no filters for system calls");
        CHECK(daemon_start(&daemon));
        child = fork();
        if (child == 0) {
                if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ||
                        send_nothing())
                        _exit(99);
                _exit(sb_attach(&daemon.place, SB_PEER, &attachment));
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), SB_E_DENIED);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_other_access_than_peer_is_not_there_yet(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(sb_attach(&daemon.place, SB_OBSERVER, &attachment), -ENOTSUP);
        CHECK_EQ(sb_attach(&daemon.place, SB_MEDIATED, &attachment), -ENOTSUP);
        CHECK_EQ(sb_attach(&daemon.place, 77, &attachment), -EINVAL);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Limit the number of open files to those that are open now and @more. Return: the limit before. */
static rlim_t limit_files(unsigned more)
{
        struct rlimit limit;
        rlim_t before;
        int next = dup(0); /* the lowest free descriptor */

        close(next);
        getrlimit(RLIMIT_NOFILE, &limit);
        before = limit.rlim_cur;
        limit.rlim_cur = (rlim_t)next + more;
        setrlimit(RLIMIT_NOFILE, &limit);
        return before;
}

static void test_a_client_without_a_descriptor_for_the_segment_gives_its_record_back(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        struct rlimit limit;
        rlim_t before;
        int r = 0;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        getrlimit(RLIMIT_NOFILE, &limit);
        for (unsigned spare = 0; spare < 4; spare++) {
                before = limit_files(spare);
                for (int i = 0; i < 30 && (!i || r); i++) {
                        r = sb_attach(&daemon.place, SB_PEER, &more);
                        if (r != 0 && r != -EMFILE)
                                break;
                }
                limit.rlim_cur = before;
                setrlimit(RLIMIT_NOFILE, &limit);
                if (!r) {
                        sb_handle_init(&daemon_other, &more.segment, more.slot, more.generation,
                                test_space(&more.segment));
                        daemon_detach(&more, &daemon_other);
                        break;
                }
                CHECK_EQ(r, -EMFILE);
                CHECK(WAIT(daemon_attached(&attachment) == 1));
        }
        CHECK_EQ(r, 0); /* so the loop tried each number of descriptors that is too small */
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Descriptors 0 to 2 are as good as others, and are free again afterwards. */
static void test_a_process_without_standard_streams_attaches(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        int status;
        pid_t child;

        CHECK(daemon_start(&daemon));
        child = fork();
        if (child == 0) {
                for (int fd = 0; fd <= 2; fd++)
                        close(fd);
                if (daemon_attach(&daemon, &attachment, &daemon_handle) ||
                        daemon_set(&daemon_handle, "key", "value"))
                        _exit(1);
                daemon_detach(&attachment, &daemon_handle);
                _exit(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 ? 0 : 2);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* The state of a process, as the kernel shows it by a letter; 0: it is not there. */
static char state_of(pid_t pid)
{
        char path[64], state = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = fopen(path, "r");
        if (!file)
                return 0;
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
                state = 0;
        fclose(file);
        return state;
}

/* The kernel says that supervisor and engine died, and an engine that has not said anything yet is
 * there. Return: that engine, which is stopped; 0: that failed. */
static pid_t leave_silent_engine(const struct daemon *daemon, struct sb_superblock *super)
{
        pid_t engine = (pid_t)sb_load_relaxed(&super->engine);

        if (kill(engine, SIGSTOP) || !WAIT(state_of(engine) == 'T') || kill(daemon->pid, SIGKILL) ||
                !WAIT(sb_load_relaxed(&super->supervisor_life) & SB_LIFE_DIED))
                return 0;
        return engine;
}

/* Both of agentd's processes seem dead while a new engine has not said so: then the socket tells,
 * and where this process cannot ask, it does not take the bus for lost. A process that listens and
 * lives is another one, though it has the pid of the one that died. */
static void test_a_bus_is_lost_only_when_another_process_listens_or_none(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_superblock *super;
        struct rlimit limit;
        uint32_t lives[2];
        pid_t engine;
        bool lost;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        super = attachment.segment.super;
        CHECK(!sb_attach_lost(&daemon.place, &attachment.segment));
        lives[0] = sb_load_relaxed(&super->supervisor_life);
        lives[1] = sb_load_relaxed(&super->engine_life);
        sb_store_relaxed(&super->supervisor_life, lives[0] | SB_LIFE_DIED);
        CHECK(sb_segment_serving(&attachment.segment)); /* the engine lives */
        sb_store_relaxed(&super->engine_life, lives[1] | SB_LIFE_DIED);
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        sb_store_relaxed(&super->supervisor_life, lives[0]);
        CHECK(!sb_attach_lost(&daemon.place, &attachment.segment));
        engine = leave_silent_engine(&daemon, super);
        CHECK(engine);
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(!sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
        limit.rlim_cur = limit_files(0);
        lost = sb_attach_lost(&daemon.place, &attachment.segment);
        CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
        CHECK(!lost);
        sb_store_relaxed(&super->supervisor, (uint64_t)getpid());
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        sb_store_relaxed(&super->supervisor, (uint64_t)daemon.pid);
        CHECK(!sb_attach_lost(&daemon.place, &attachment.segment));
        sb_store_relaxed(&super->engine_life, lives[1]);
        CHECK(!kill(engine, SIGCONT));
        CHECK(WAIT(sb_load_relaxed(&super->supervisor) == (uint64_t)engine));
        CHECK(!sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        daemon_detach(&attachment, &daemon_handle);
        CHECK(!kill(engine, SIGTERM));
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
}

/* The engine that agentd runs now, by the kernel's list of children; 0: there is none. */
static pid_t engine_of(const struct daemon *daemon)
{
        char path[64];
        FILE *file;
        int engine = 0;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)daemon->pid,
                (int)daemon->pid);
        file = fopen(path, "r");
        if (file && fscanf(file, "%d", &engine) != 1)
                engine = 0;
        if (file)
                fclose(file);
        return engine;
}

/* Runs in a process of its own: each time that a client got through, end the engine at some moment
 * of what comes next, and every third time its successor too, as soon as there is one. */
static _Noreturn void end_engines(
        const struct daemon *daemon, _Atomic uint32_t *through, _Atomic uint32_t *killed)
{
        uint32_t seen = 0;
        unsigned seed = 11;

        for (unsigned i = 0;; i++) {
                pid_t engine, next;

                /* Two clients, because the first may have been served by the engine that is dead by
                 * now. */
                while (*through - seen < 2)
                        sb_os_linux.pause(NULL, 100000);
                sb_os_linux.pause(NULL, (uint64_t)rand_r(&seed) % 2000000);
                engine = engine_of(daemon);
                if (engine)
                        *killed += kill(engine, SIGKILL) == 0;
                if (i % 3 == 0) {
                        while (!(next = engine_of(daemon)) || next == engine)
                                sb_os_linux.pause(NULL, 20000);
                        *killed += kill(next, SIGKILL) == 0;
                }
                seen = *through;
        }
}

static void test_attaching_outlasts_engines_that_die_meanwhile(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        _Atomic uint32_t *counts = mmap(NULL, 2 * sizeof(*counts), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t killer;

        CHECK(counts != MAP_FAILED);
        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        killer = fork();
        if (killer == 0)
                end_engines(&daemon, &counts[0], &counts[1]);
        while (counts[1] < 100 || counts[0] < 1000) {
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                CHECK_EQ(daemon_set(&daemon_other, "key", "value"), 0);
                daemon_detach(&more, &daemon_other);
                counts[0]++;
        }
        CHECK_EQ(daemon_end_child(killer), DAEMON_KILLED);
        CHECK_EQ(daemon_attached(&attachment), 1);
        TEST_NOTE("api-attach: %u attachments, %u engines killed meanwhile", (unsigned)counts[0],
                (unsigned)counts[1]);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        munmap((void *)counts, 2 * sizeof(*counts));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_clients_says_how_many_and_records_come_back);
        RUN(test_a_bus_with_all_its_clients_has_a_place_for_agentctl);
        RUN(test_a_full_table_is_said_once_until_there_was_a_place_again);
        RUN(test_a_full_table_outlasts_engines);
        RUN(test_a_pid_that_was_given_to_another_process_is_dead_to_the_next_engine);
        RUN(test_another_user_is_refused);
        RUN(test_a_refusal_that_came_before_the_request_is_heard);
        RUN(test_other_access_than_peer_is_not_there_yet);
        RUN(test_a_client_without_a_descriptor_for_the_segment_gives_its_record_back);
        RUN(test_a_process_without_standard_streams_attaches);
        RUN(test_a_bus_is_lost_only_when_another_process_listens_or_none);
        RUN(test_attaching_outlasts_engines_that_die_meanwhile);
        return daemon_end(test_end());
}
