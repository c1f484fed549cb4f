/*
 * The messages of the attach protocol (ring/attach/hello.h), sent and read without the library:
 * what lies, floods and silence do, answers that are not read, records that are given back, and
 * tickets. The same protocol, as the library speaks it: api-attach. The program under test is
 * $AGENTD.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/result.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

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

/* Connect to agentd without the library. Return: the socket. */
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

/* Send @len bytes with @fd_count descriptors, and read the answer. Return: the answer's result, or
 * -EPIPE. */
static int ask_raw(const struct daemon *daemon, const void *bytes, size_t len, unsigned fd_count,
        struct sb_hello_answer *ret)
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
                ssize_t got = recv(fd, packet, sizeof(packet), 0); /* this takes no descriptor */

                r = got <= 0 ? -EPIPE : sb_hello_hear(packet, (size_t)got, ret);
        }
        close(fd);
        return r ? r : ret->result;
}

/* For a process that has become another user. Return: 0: it heard one answer, and the next message
 * closed its connection; else where that went wrong. */
static int ask_twice_as_a_stranger(const struct daemon *daemon)
{
        struct sb_hello_request request;
        struct sb_hello_answer answer;
        char packet[256];
        ssize_t got;
        int fd = dial(daemon);

        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 1, &request);
        if (fd < 0 || send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
                return 1;
        got = recv(fd, packet, sizeof(packet), 0);
        if (got <= 0 || sb_hello_hear(packet, (size_t)got, &answer) || answer.result != SB_E_DENIED)
                return 2;
        if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
                return 3;
        return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1,
                       (int)(daemon_patience_ns() / 1000000)) != 1
                       ? 4
               : recv(fd, packet, sizeof(packet), 0) > 0 ? 5
                                                         : 0;
}

static void test_a_stranger_is_answered_once_and_then_closed(void)
{
        struct daemon daemon;
        int status;
        pid_t child;

        if (geteuid() != 0)
                TEST_SKIP("only root can become another user");
        CHECK(daemon_start(&daemon));
        child = fork();
        if (child == 0) {
                if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
                        _exit(99);
                _exit(ask_twice_as_a_stranger(&daemon));
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_hostile_messages_are_refused_and_cost_nothing(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request good, bad;
        struct sb_hello_answer answer;
        char noise[4096];
        unsigned files, seed = 7;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 1, &good);
        CHECK_EQ(ask_raw(&daemon, &good, sizeof(good), 0, &answer),
                0); /* before anything is counted, agentd opens what it opens lazily */
        files = open_files(daemon_engine(&attachment));
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
        /* agentd takes no descriptors that it did not ask for. */
        for (int i = 0; i < 20; i++) {
                bad = good, bad.verb = 99;
                CHECK_EQ(ask_raw(&daemon, &bad, sizeof(bad), 16, &answer), -EINVAL);
        }
        CHECK(WAIT(open_files(daemon_engine(&attachment)) <= files));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK(!strstr(daemon.said, "starting another"));
}

static void test_an_engine_says_its_layout_and_gives_no_record_away_for_it(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, second;
        uint32_t layout, slot;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        slot = attachment.slot;
        for (int i = 0; i < 50; i++) {
                layout = 0;
                CHECK_EQ(sb_attach_layout(&daemon.place, &layout), 0);
                CHECK_EQ(layout, SB_LAYOUT_VERSION);
        }
        CHECK_EQ(daemon_attach(&daemon, &second, &daemon_other), 0);
        CHECK_EQ(second.slot, slot + 1);
        daemon_detach(&second, &daemon_other);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        layout = 77;
        CHECK_EQ(sb_attach_layout(&daemon.place, &layout), -ECONNREFUSED);
        CHECK_EQ(layout, 77);
}

static void test_silent_connections_hold_no_client_up(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        unsigned before;
        int fds[300];

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        before = open_files(daemon_engine(&attachment));
        for (int i = 0; i < 300; i++) {
                fds[i] = dial(&daemon);
                CHECK(fds[i] >= 0);
                if (i % 50 == 49) {
                        struct sb_attachment more;

                        CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                        daemon_detach(&more, &daemon_other);
                }
        }
        CHECK(open_files(daemon_engine(&attachment)) <= before + 64 + 8);
        for (int i = 0; i < 300; i++)
                close(fds[i]);
        CHECK(WAIT(open_files(daemon_engine(&attachment)) <=
                   before + 1)); /* a descriptor of the record that was used last */
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_a_client_that_goes_before_the_answer_leaves_no_record_taken(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        struct sb_hello_request request;
        int r;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        for (uint64_t i = 1; i <= 200; i++) {
                int fd = dial(&daemon);

                CHECK(fd >= 0);
                sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, i, &request);
                CHECK_EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
                if (i % 3 == 0) { /* close it after the answer came, unread */
                        struct pollfd look = {.fd = fd, .events = POLLIN};

                        CHECK(WAIT(poll(&look, 1, 0) == 1));
                }
                close(fd);
        }
        /* agentd takes connections in turn: when this one is answered, and be it that no record is
         * free, all before it were heard, and the number of records in use can only fall. */
        r = daemon_attach(&daemon, &more, &daemon_other);
        CHECK(r == 0 || r == SB_E_FULL);
        if (!r)
                daemon_detach(&more, &daemon_other);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Ask to attach with @ticket, wait for the answer and do not read it. Return: the connection, or
 * -1. */
static int leave_unread(const struct daemon *daemon, uint64_t ticket)
{
        struct sb_hello_request request;
        struct pollfd look = {.fd = dial(daemon), .events = POLLIN};

        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, ticket, &request);
        if (send(look.fd, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) &&
                WAIT(poll(&look, 1, 0) == 1))
                return look.fd;
        return -1;
}

/* More connections than agentd keeps for clients that were given nothing: all answers are unread at
 * once. */
static void test_many_that_never_read_their_answers_leave_no_record_taken(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        int fds[150];

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "16M", "--clients", "200");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        for (unsigned i = 0; i < 150; i++)
                CHECK((fds[i] = leave_unread(&daemon, i + 1)) >= 0);
        CHECK_EQ(daemon_attached(&attachment), 151);
        for (unsigned i = 0; i < 150; i++)
                close(fds[i]);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* With the fewest descriptors that agentd takes, it forgets the oldest unread answers and refuses
 * no client. */
static void test_many_unread_answers_and_few_descriptors_keep_no_client_out(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        int fds[190];

        daemon_place(&daemon.place);
        daemon_files = 320;
        SPAWN(&daemon, "--size", "16M", "--clients", "200");
        daemon_files = 0;
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        /* A connection that has ended, though agentd has not heard of it yet, is forgotten before
         * one that is open. */
        for (unsigned i = 0; i < 150; i++) {
                int fd = leave_unread(&daemon, 1000 + i);

                CHECK(fd >= 0);
                close(fd);
        }
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        for (unsigned i = 0; i < 190; i++)
                CHECK((fds[i] = leave_unread(&daemon, i + 1)) >= 0);
        CHECK_EQ(daemon_attached(&attachment), 191);
        for (unsigned i = 0; i < 40; i++) {
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                daemon_detach(&more, &daemon_other);
        }
        for (unsigned i = 0; i < 190; i++)
                close(fds[i]);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Ask for a record on the connection @fd, and keep the descriptor of the segment instead of mapping
 * it. Return: the descriptor; -1. */
static int ask_on(int fd, uint32_t verb, uint64_t ticket, struct sb_hello_answer *ret)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec part = {.iov_base = ret, .iov_len = sizeof(*ret)};
        struct msghdr message = {.msg_iov = &part,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control)};
        struct sb_hello_request request;
        int held = -1;

        sb_hello_ask(verb, SB_PEER, ticket, &request);
        if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request) &&
                recvmsg(fd, &message, MSG_CMSG_CLOEXEC) == (ssize_t)sizeof(*ret) &&
                CMSG_FIRSTHDR(&message))
                memcpy(&held, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
        return held;
}

/* The same on a connection of its own, as a client does. */
static int ask_and_hold_as(
        const struct daemon *daemon, uint32_t verb, uint64_t ticket, struct sb_hello_answer *ret)
{
        int fd = dial(daemon), held = ask_on(fd, verb, ticket, ret);

        close(fd);
        return held;
}

static int ask_and_hold(const struct daemon *daemon, uint64_t ticket, struct sb_hello_answer *ret)
{
        return ask_and_hold_as(daemon, SB_HELLO_ATTACH, ticket, ret);
}

static bool give_back(int fd)
{
        struct sb_hello_request request;

        sb_hello_ask(SB_HELLO_GIVE_BACK, SB_PEER, 5, &request);
        return send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request);
}

/* It has its connection until then, however many come and go meanwhile; and it need not close what
 * it was sent. */
static void test_a_client_that_cannot_map_gives_its_record_back(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        struct sb_hello_answer answer;
        int fd, held;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        fd = dial(&daemon);
        held = ask_on(fd, SB_HELLO_ATTACH, 5, &answer);
        CHECK(held >= 0);
        for (int i = 0; i < 40; i++) {
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
                daemon_detach(&more, &daemon_other);
        }
        CHECK_EQ(daemon_attached(&attachment), 2);
        CHECK(give_back(fd));
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        close(held);
        close(fd);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Before Linux 6.5 a socket does not say which process is at its other end by more than its pid. */
static int be_an_older_kernel(void)
{
        struct sock_filter look[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_PEERPIDFD, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(look) / sizeof(look[0]), look};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void test_by_a_pid_alone_the_living_are_told_from_the_dead(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_answer answer;
        struct sb_hello_request request;
        siginfo_t gone;
        uint32_t before, after;
        pid_t child;
        int fd, held, r;

        if (prctl(PR_GET_SECCOMP) < 0)
                TEST_SKIP("this kernel has no filters for system calls");
        daemon_prepare = be_an_older_kernel;
        CHECK(daemon_start(&daemon));
        daemon_prepare = NULL;
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        child = daemon_child(&daemon, 2, &r);
        CHECK_EQ(r, 0);
        CHECK_EQ(daemon_attached(&attachment), 3);
        daemon_end_child(child);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        /* One that has said more by now is not gone. */
        kill(daemon_engine(&attachment), SIGSTOP);
        fd = dial(&daemon);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 5, &request);
        CHECK_EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
        CHECK(give_back(fd));
        kill(daemon_engine(&attachment), SIGCONT);
        CHECK_EQ(recv(fd, &answer, sizeof(answer), 0), sizeof(answer));
        CHECK_EQ(answer.result, 0);
        close(fd);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        /* One that has died is given nothing, as another process may have its pid by now. */
        (void)sb_roster_state(&attachment.segment, answer.slot, &before);
        kill(daemon_engine(&attachment), SIGSTOP);
        child = fork();
        if (child == 0) {
                fd = dial(&daemon);
                _exit(send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request));
        }
        CHECK_EQ(waitid(P_PID, (id_t)child, &gone, WEXITED | WNOWAIT), 0);
        CHECK_EQ(gone.si_status, 0);
        kill(daemon_engine(&attachment), SIGCONT);
        held = ask_and_hold(&daemon, 6, &answer);
        CHECK(held >= 0);
        (void)sb_roster_state(&attachment.segment, answer.slot, &after);
        CHECK_EQ(after, before); /* a place has been given back no more often */
        close(held);
        waitpid(child, NULL, 0);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK(!strstr(daemon.said, "cannot be watched"));
}

static void test_the_same_ticket_gets_the_same_record(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_answer first, second;
        int fds[3];
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        fds[0] = ask_and_hold(&daemon, 4711, &first);
        CHECK(fds[0] >= 0);
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL); /* the next engine knows only what is in the segment */
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        fds[1] = ask_and_hold(&daemon, 4711, &second);
        CHECK(fds[1] >= 0);
        CHECK_EQ(first.slot, second.slot);
        CHECK_EQ(first.generation, second.generation);
        /* Either of the two descriptors keeps the record. */
        close(fds[0]);
        fds[2] = ask_and_hold(&daemon, 4712, &second);
        CHECK(fds[2] >= 0);
        CHECK(first.slot != second.slot);
        CHECK_EQ(daemon_attached(&attachment), 3);
        close(fds[1]);
        CHECK(WAIT(daemon_attached(&attachment) == 2));
        close(fds[2]);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* The same number from another process, or from one that had this pid before, is another ticket;
 * and a record that is free has none, whatever is written in it still. */
static void test_a_ticket_is_of_one_process_and_of_a_record_in_use(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_answer first, second, third,
                *others = mmap(NULL, sizeof(*others), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct sb_record *record;
        uint32_t generation;
        int fds[4];
        pid_t child;

        CHECK(others != MAP_FAILED);
        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        fds[0] = ask_and_hold(&daemon, 4711, &first);
        CHECK(fds[0] >= 0);
        record = sb_record_at(&attachment.segment, first.slot);
        CHECK(record->ticket == 4711 && record->pid == (uint32_t)getpid() &&
                record->uid == getuid() && record->access == SB_PEER && record->attached_ns);
        child = fork();
        if (child == 0)
                _exit(ask_and_hold(&daemon, 4711, others) < 0);
        waitpid(child, NULL, 0);
        CHECK(others->slot && others->slot != first.slot);
        record->pid_start++;
        fds[1] = ask_and_hold(&daemon, 4711, &second);
        CHECK(fds[1] >= 0 && second.slot != first.slot);
        record->pid_start--;
        record->pid++;
        sb_record_at(&attachment.segment, second.slot)->pid++;
        fds[2] = ask_and_hold(&daemon, 4711, &third);
        CHECK(fds[2] >= 0 && third.slot != first.slot && third.slot != second.slot);
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        fds[0] = ask_and_hold(&daemon, 4711, &second);
        CHECK(fds[0] >= 0);
        CHECK_EQ(
                sb_roster_state(&attachment.segment, second.slot, &generation), SB_RECORD_ATTACHED);
        CHECK_EQ(generation, second.generation);
        /* agentctl's place is the last one. */
        fds[1] = ask_and_hold_as(&daemon, SB_HELLO_ATTACH_OPERATOR, 4713, &first);
        fds[2] = ask_and_hold_as(&daemon, SB_HELLO_ATTACH_OPERATOR, 4713, &second);
        CHECK(fds[1] >= 0 && fds[2] >= 0);
        CHECK_EQ(first.slot, 17);
        CHECK_EQ(second.slot, 17);
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        munmap(others, sizeof(*others));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_a_stranger_is_answered_once_and_then_closed);
        RUN(test_hostile_messages_are_refused_and_cost_nothing);
        RUN(test_an_engine_says_its_layout_and_gives_no_record_away_for_it);
        RUN(test_silent_connections_hold_no_client_up);
        RUN(test_a_client_that_goes_before_the_answer_leaves_no_record_taken);
        RUN(test_many_that_never_read_their_answers_leave_no_record_taken);
        RUN(test_many_unread_answers_and_few_descriptors_keep_no_client_out);
        RUN(test_a_client_that_cannot_map_gives_its_record_back);
        RUN(test_by_a_pid_alone_the_living_are_told_from_the_dead);
        RUN(test_the_same_ticket_gets_the_same_record);
        RUN(test_a_ticket_is_of_one_process_and_of_a_record_in_use);
        return daemon_end(test_end());
}
