/*
 * The descriptors and maps of agentd, by kind: what each of its processes holds when it has nothing
 * to do, and again after each thing that can happen to it; and what it does where it may open no
 * more. The program under test is $AGENTD.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/result.h"
#include "shm/layout/segment.h"
#include "shm/upkeep/handle.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

/* What a name in /proc/PID/fd contains; behind these: files and directories. */
static const char *const kinds[] = {"memfd:", "socket:", "signalfd", "pidfd", "eventpoll",
        "timerfd", "inotify", "pipe:", "/proc/"};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What a process holds beside its standard streams. */
struct holding {
        unsigned count[KINDS + 1];
        unsigned inherited; /* by what the process would exec */
        unsigned maps;      /* of the segment */
};
/* Directory, lock, the listening socket and the channel, the segment, the signals, the kernel's
 * word of the other process, and what tells of maps that go; the supervisor has a word of itself,
 * too, which its engine gets. Of the scribe: the kernel's word, the pipe's end, both ends of the
 * one that says that agentd has ended, and where the lines go. */
static const struct holding supervisor_holds = {.count = {1, 2, 1, 3, 0, 0, 1, 4, 0, 2}, .maps = 1};
static const struct holding engine_holds = {.count = {1, 2, 1, 2, 1, 1, 1, 4, 0, 2}, .maps = 2};

static unsigned flags_of(pid_t pid, const char *fd)
{
        char path[300], line[128];
        unsigned flags = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)pid, fd);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file) && sscanf(line, "flags: %o", &flags) != 1)
                ;
        if (file)
                fclose(file);
        return flags;
}

static unsigned maps_of(pid_t pid)
{
        char path[64], line[512];
        unsigned count = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
                count += !!strstr(line, "memfd:statebus");
        if (file)
                fclose(file);
        return count;
}

static void look(pid_t pid, struct holding *ret)
{
        char path[300], name[512];
        struct dirent *entry;
        DIR *stream;

        *ret = (struct holding){.maps = maps_of(pid)};
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        stream = opendir(path);
        while (stream && (entry = readdir(stream))) {
                size_t kind = 0;
                ssize_t len;

                snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
                len = readlink(path, name, sizeof(name) - 1);
                if (len < 0 || atoi(entry->d_name) <= 2)
                        continue;
                name[len] = 0;
                while (kind < KINDS && !strstr(name, kinds[kind]))
                        kind++;
                ret->count[kind]++;
                ret->inherited += !(flags_of(pid, entry->d_name) & O_CLOEXEC);
        }
        if (stream)
                closedir(stream);
}

/* The number of the descriptor of which the file's name has this in it; -1. */
static int number_of(pid_t pid, const char *kind)
{
        char path[64], name[512];

        for (int fd = 3; fd < 64; fd++) {
                ssize_t len;

                snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
                len = readlink(path, name, sizeof(name) - 1);
                name[len > 0 ? len : 0] = 0;
                if (strstr(name, kind))
                        return fd;
        }
        return -1;
}

/* Whether a process holds these, and so many pidfds more. What it is about to close it may hold
 * still: ask again. */
static bool holds(pid_t pid, const struct holding *expected, unsigned more_pidfds)
{
        struct holding found;

        look(pid, &found);
        found.count[3] -= found.count[3] >= more_pidfds ? more_pidfds : 0;
        return memcmp(&found, expected, sizeof(found)) == 0;
}

/* For a failure: what is too much, or missing. */
static bool complain(const char *name, pid_t pid)
{
        struct holding found;

        look(pid, &found);
        for (size_t i = 0; i <= KINDS; i++)
                if (found.count[i])
                        TEST_NOTE("%s holds %u %s", name, found.count[i],
                                i < KINDS ? kinds[i] : "files");
        TEST_NOTE("%s would leave %u to a program that it ran, and has %u maps", name,
                found.inherited, found.maps);
        return false;
}
#define HOLDS(pid, expected, more_pidfds)                                                          \
        CHECK(WAIT(holds(pid, expected, more_pidfds)) || complain(#expected, pid))

/* How many lines with this beginning say more about a process's descriptors. */
static unsigned said_of(pid_t pid, const char *beginning)
{
        char path[300], line[256];
        unsigned count = 0;
        struct dirent *entry;
        DIR *stream;

        snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)pid);
        stream = opendir(path);
        while (stream && (entry = readdir(stream))) {
                FILE *file;

                snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)pid, entry->d_name);
                file = fopen(path, "re");
                while (file && fgets(line, sizeof(line), file))
                        count += strncmp(line, beginning, strlen(beginning)) == 0;
                if (file)
                        fclose(file);
        }
        if (stream)
                closedir(stream);
        return count;
}

/* How many descriptors the engine waits for. */
static unsigned waits_for(pid_t pid)
{
        return said_of(pid, "tfd:");
}

/* Of how many files a process is told when they are closed. */
static unsigned told_of(pid_t pid)
{
        return said_of(pid, "inotify wd:");
}

static int dial(const struct daemon *daemon)
{
        struct sockaddr_un address;
        int through, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (sb_place_address(&daemon->place, SB_PLACE_SOCKET, &address, &through))
                return -1;
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                close(fd);
                fd = -1;
        }
        if (through >= 0)
                close(through);
        return fd;
}

/* Send a request and wait for its answer. Return: the connection. */
static int ask(const struct daemon *daemon, uint32_t verb, uint32_t access, uint64_t ticket)
{
        struct sb_hello_request request;
        struct pollfd look = {.fd = dial(daemon), .events = POLLIN};

        sb_hello_ask(verb, access, ticket, &request);
        if (look.fd >= 0 && send(look.fd, &request, sizeof(request), MSG_NOSIGNAL) > 0)
                (void)WAIT(poll(&look, 1, 0) == 1);
        return look.fd;
}

/* A bus of which the directory has a name that is too long for an address, and another mode than
 * agentd gives it; with pages of any size. */
static bool start(struct daemon *daemon)
{
        char name[300];

        snprintf(name, sizeof(name), "%s/%0100d", daemon_home, 7);
        if (sb_place_resolve(name, &daemon->place) || mkdir(name, 0700))
                return false;
        SPAWN(daemon, "--size", "4M", "--clients", "3");
        return daemon_hear(daemon, "ready\n");
}

/* The bus's table is full: one that asks is refused, and so is one that asks for what there is not,
 * or says nothing that has a meaning; an operator asks for a client that is not there. */
static void be_refused(const struct daemon *daemon, pid_t engine)
{
        struct sb_attachment more;
        uint32_t count = 77;
        int fd;

        CHECK_EQ(daemon_attach(daemon, &more, &daemon_other), SB_E_FULL);
        close(ask(daemon, SB_HELLO_ATTACH, SB_PEER + 1, 5));
        close(ask(daemon, SB_HELLO_ATTACH, SB_PEER - 1, 5));
        close(ask(daemon, 77, SB_PEER, 5));
        /* agentd itself, and behind the last one. */
        CHECK_EQ(sb_attach_evict(&daemon->place, (uint64_t)engine << 32, false, &count),
                SB_E_NOT_FOUND);
        CHECK_EQ(sb_attach_evict(&daemon->place, 5, false, &count), SB_E_NOT_FOUND);
        CHECK_EQ(count, 77);
        fd = dial(daemon);
        CHECK(fd >= 0);
        close(fd);
}

static void come_and_go(const struct daemon *daemon)
{
        struct sb_attachment more;

        CHECK_EQ(daemon_attach(daemon, &more, &daemon_other), 0);
        daemon_detach(&more, &daemon_other);
}

static void test_what_agentd_holds_it_needs_whatever_happened_before(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_hello_request back;
        struct holding own, after;
        pid_t children[2], engine, supervisor;
        int r, fd, unread;

        CHECK(start(&daemon));
        supervisor = daemon.pid;
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        HOLDS(supervisor, &supervisor_holds, 0);
        HOLDS(engine, &engine_holds, 1);
        /* The engine asked, and the supervisor holds it: no engine's death waits for the kernel to
         * take it down. Nor does the lock: what was opened last is closed first. */
        CHECK(told_of(engine) == 1 && told_of(supervisor) == 1);
        CHECK(number_of(supervisor, "inotify") > 2);
        CHECK(number_of(supervisor, "inotify") < number_of(supervisor, "/lock"));
        for (unsigned i = 0; i < 2; i++) {
                children[i] = daemon_child(&daemon, 1, &r);
                CHECK_EQ(r, 0);
        }
        look(getpid(), &own);
        be_refused(&daemon, engine);
        HOLDS(engine, &engine_holds, 3);
        /* One dies and is reaped; many come and go, more than there are entries for. */
        daemon_end_child(children[0]);
        HOLDS(engine, &engine_holds, 2);
        for (unsigned i = 0; i < 40; i++)
                come_and_go(&daemon);
        look(getpid(), &after);
        CHECK(memcmp(&own, &after, sizeof(own)) == 0 || complain("a client", getpid()));
        HOLDS(engine, &engine_holds, 3); /* the one of the last, until its place is given again */
        /* One is given a place, and gives it back. */
        fd = ask(&daemon, SB_HELLO_ATTACH, SB_PEER, 5);
        sb_hello_ask(SB_HELLO_GIVE_BACK, SB_PEER, 5, &back);
        CHECK_EQ(send(fd, &back, sizeof(back), MSG_NOSIGNAL), sizeof(back));
        HOLDS(engine, &engine_holds, 2);
        close(fd);
        /* One never reads its answer, and another comes and goes meanwhile: the place comes back.
         */
        unread = ask(&daemon, SB_HELLO_ATTACH_OPERATOR, SB_PEER, 6);
        come_and_go(&daemon);
        close(unread);
        CHECK(WAIT(daemon_attached(&attachment) == 2));
        /* Another dies while no engine looks; nothing has waited for it when the next one does. */
        kill(engine, SIGSTOP);
        kill(children[1], SIGKILL);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        engine = daemon_engine(&attachment);
        HOLDS(engine, &engine_holds, 1);
        HOLDS(supervisor, &supervisor_holds, 0);
        CHECK(told_of(engine) == 1 && told_of(supervisor) == 1);
        waitpid(children[1], NULL, 0);
        /* The engine becomes the supervisor, in the middle of a conversation. */
        unread = ask(&daemon, SB_HELLO_ATTACH, SB_PEER, 7);
        kill(supervisor, SIGKILL);
        supervisor = engine;
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        engine = daemon_engine(&attachment);
        HOLDS(supervisor, &supervisor_holds, 0);
        HOLDS(engine, &engine_holds, 2); /* this process has two records */
        close(unread);
        /* The segment is given up for another. */
        attachment.segment.super->geometry.units_at = UINT64_MAX - 64;
        kill(engine, SIGKILL);
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        HOLDS(supervisor, &supervisor_holds, 0);
        HOLDS(daemon_engine(&attachment), &engine_holds, 1);
        daemon_detach(&attachment, &daemon_handle);
        kill(supervisor, SIGTERM);
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
}

/* Let a process open no more descriptors than it has; or, with @more, so many more. */
static void limit_files_of(pid_t pid, unsigned more)
{
        struct rlimit limit;
        unsigned next = 0; /* behind the last that it may have */
        char path[64], name[8];

        for (unsigned left = more + 1; left > 0; next++) {
                snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, next);
                left -= readlink(path, name, sizeof(name)) < 0;
        }
        prlimit(pid, RLIMIT_NOFILE, NULL, &limit);
        limit.rlim_cur = next - 1;
        prlimit(pid, RLIMIT_NOFILE, &limit, NULL);
}

/* A connection that cannot be accepted is no reason to look at it without rest, nor to listen no
 * more once there are descriptors again. */
static void test_without_descriptors_agentd_rests_and_then_listens_again(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, more;
        struct sb_hello_request request;
        struct pollfd answer = {.events = POLLIN};
        unsigned before;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        HOLDS(engine, &engine_holds, 1);
        before = waits_for(engine);
        for (unsigned round = 0; round < 2; round++) {
                limit_files_of(engine, 0);
                answer.fd = dial(&daemon);
                sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 5, &request);
                CHECK_EQ(send(answer.fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
                CHECK(WAIT(waits_for(engine) == before - 1));
                CHECK_EQ(poll(&answer, 1, 0), 0);
                limit_files_of(engine, 100);
                CHECK(WAIT(poll(&answer, 1, 0) == 1));
                CHECK(WAIT(waits_for(engine) >= before));
                close(answer.fd);
                CHECK(WAIT(daemon_attached(&attachment) == 1));
                HOLDS(engine, &engine_holds, 1);
        }
        CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), 0);
        daemon_detach(&more, &daemon_other);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static int lower_soft_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit))
                return -1;
        limit.rlim_cur = 100;
        return setrlimit(RLIMIT_NOFILE, &limit);
}

/* Up to the hard one, as far as its clients may need. */
static void test_agentd_raises_its_soft_limit_itself(void)
{
        struct rlimit limit;
        struct daemon daemon;

        daemon_prepare = lower_soft_limit;
        CHECK(daemon_start(&daemon));
        daemon_prepare = NULL;
        CHECK(!prlimit(daemon.pid, RLIMIT_NOFILE, NULL, &limit));
        CHECK(limit.rlim_cur > 100 && limit.rlim_cur <= limit.rlim_max);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* A client that agentd has no descriptor to watch by is refused, and the log says why. Of one that
 * was dead before its turn came it says nothing. */
static void test_a_client_that_cannot_be_watched_is_refused_and_said(void)
{
        static const char words[] = "cannot be watched, so it is not attached: ";
        struct daemon daemon;
        struct sb_attachment attachment, more;
        struct sb_hello_request request;
        pid_t engine, child;
        int fd;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        HOLDS(engine, &engine_holds, 1);
        sb_hello_ask(SB_HELLO_ATTACH, SB_PEER, 5, &request);
        kill(engine, SIGSTOP);
        child = fork();
        if (child == 0) {
                fd = dial(&daemon);
                _exit(send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request));
        }
        CHECK_EQ(waitpid(child, NULL, 0), child);
        kill(engine, SIGCONT);
        /* There is one for the connection, and none for the process; or none for what /proc says of
         * it. */
        for (unsigned more_files = 1; more_files <= 2; more_files++) {
                come_and_go(&daemon);
                HOLDS(engine, &engine_holds, 2); /* the one of the last */
                daemon_hear_more(&daemon);
                CHECK_EQ(!!strstr(daemon.said, words), more_files == 2);
                limit_files_of(engine, more_files);
                CHECK_EQ(daemon_attach(&daemon, &more, &daemon_other), -EMFILE);
                limit_files_of(engine, 100);
                CHECK(WAIT((daemon_hear_more(&daemon), strstr(daemon.said, words))));
                CHECK_EQ(daemon_attached(&attachment), 1);
                HOLDS(engine, &engine_holds, 2);
        }
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        /* What this process was started with is not agentd's. */
        if (!daemon_begin() || close_range(3, ~0U, CLOSE_RANGE_CLOEXEC))
                return 1;
        RUN(test_what_agentd_holds_it_needs_whatever_happened_before);
        RUN(test_without_descriptors_agentd_rests_and_then_listens_again);
        RUN(test_agentd_raises_its_soft_limit_itself);
        RUN(test_a_client_that_cannot_be_watched_is_refused_and_said);
        return daemon_end(test_end());
}
