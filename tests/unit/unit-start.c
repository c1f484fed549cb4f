/*
 * Starting agentd (libclient/core/attach.h) with a program that is no agentd: this one, which says
 * and does what its environment tells it. What the caller learns of how that ended. And attaching
 * to one that answers what it likes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "ring/attach/hello.h"
#include "ring/attach/limit.h"
#include "shm/layout/geometry.h"
#include "tests/harness/test.h"

extern char **environ;

#define SAYS      "UNIT_START_SAYS"      /* this program is agentd, and these are its lines */
#define NOTIFY    "UNIT_START_NOTIFY"    /* what it says to the socket of systemd's kind */
#define STATUS    "UNIT_START_STATUS"    /* how it ends; or a signal, below 0 */
#define OPTIONS   "UNIT_START_OPTIONS"   /* so many options it has to be given */
#define UNWATCHED "UNIT_START_UNWATCHED" /* no process waits for its end */

/* ---- the program that is started ---- */

static void notify(const char *words)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *name = getenv("NOTIFY_SOCKET");
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        size_t len = name ? strlen(name) : 0;

        if (len < 2 || len >= sizeof(address.sun_path) || *name != '@')
                _exit(90);
        memcpy(address.sun_path + 1, name + 1, len - 1);
        if (sendto(fd, words, strlen(words), 0, (struct sockaddr *)&address,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
                _exit(91);
        close(fd);
}

/* Whether all signals wait in the watcher, a child of a program that may have handlers. It has
 * ended where it cannot watch. */
static bool watcher_hears_nothing(void)
{
        char path[32], line[128];
        uint64_t blocked = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)getppid());
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
                if (!strncmp(line, "SigBlk:", 7))
                        blocked = strtoull(line + 7, NULL, 16);
        if (file)
                fclose(file);
        for (int number = 1; number < NSIG; number++)
                if (number != SIGKILL && number != SIGSTOP && !(blocked >> (number - 1) & 1) &&
                        (number < 32 || number >= SIGRTMIN))
                        return false;
        return true;
}

/* Whether this process was given what an agentd needs, and nothing of the process that asked. */
static bool is_given_well(int argc, char **argv)
{
        const char *options = getenv(OPTIONS);
        char here[64] = "";

        for (int fd = 4; fd < 64; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                        return false;
        if (argc != 3 + (options ? atoi(options) : 0) || strcmp(argv[1], "-b") || *argv[2] != '/')
                return false;
        for (int i = 3; i < argc; i++)
                if (atoi(argv[i]) != i - 3)
                        return false;
        return getcwd(here, sizeof(here)) && !strcmp(here, "/") && getsid(0) == getpid();
}

static int be_agentd(int argc, char **argv, const char *says)
{
        const char *words = getenv(NOTIFY), *status = getenv(STATUS);
        int end = status ? atoi(status) : 0;

        if (!is_given_well(argc, argv) || (!getenv(UNWATCHED) && !watcher_hears_nothing()))
                return 92;
        (void)!write(STDERR_FILENO, says, strlen(says));
        if (words)
                notify(words);
        if (end < 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
                (void)signal(-end, SIG_DFL);
                kill(getpid(), -end);
        }
        return end;
}

/* ---- the process that asks for it ---- */

/* Linux before 5.9; before 5.3. */
static bool no_close_range, no_pidfds;
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c);
long __wrap_syscall(long number, long a, long b, long c)
{
        if ((number == SYS_close_range && no_close_range) ||
                (number == SYS_pidfd_open && no_pidfds)) {
                errno = ENOSYS;
                return -1;
        }
        return __real_syscall(number, a, b, c);
}

static char home[64];
static struct sb_place place;
static struct sb_attach_end end;
static sigset_t mask_at_first;

/* Start a program that says @says, and that does as told before. Return: as sb_attach_start(). */
static int start(const char *says, const char *const *options)
{
        setenv(SAYS, says, 1);
        memset(&end, 0x5a, sizeof(end));
        return sb_attach_start(&place, options, &end);
}

static int lowest_descriptor(void)
{
        int fd = dup(STDIN_FILENO);

        close(fd);
        return fd;
}

static void tell(const char *notify_words, const char *status, const char *options)
{
        unsetenv(NOTIFY);
        unsetenv(STATUS);
        unsetenv(OPTIONS);
        if (notify_words)
                setenv(NOTIFY, notify_words, 1);
        if (status)
                setenv(STATUS, status, 1);
        if (options)
                setenv(OPTIONS, options, 1);
}

/* ---- tests ---- */

static void test_the_last_line_of_a_start_that_failed_is_told(void)
{
        static const struct {
                const char *says, *line;
        } cases[] = {
                {"", ""},
                {"\n", ""},
                {"agentd: words\n", "words"},
                {"agentd: words", "words"},
                {"agentd: words\n\n\n", "words"},
                {"agentd: one\nagentd: another\n", "another"},
                {"\n\nagentd: words\n", "words"},
                {"2026-01-01T00:00:00Z agentd: words\n", "words"},
                {"sh: nothing of its own\n", "sh: nothing of its own"},
                /* The line before says more. */
                {"agentd: words\nagentd: see agentd --help\n", "words"},
                {"agentd: first\nagentd: words\nagentd: see agentd --help\n\n", "words"},
                {"agentd: see agentd --help\n", "see agentd --help"},
        };
        int fd = lowest_descriptor();

        tell(NULL, "2", NULL);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                CHECK_EQ(start(cases[i].says, NULL), -ECONNREFUSED);
                CHECK(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 2);
                if (strcmp(end.line, cases[i].line) != 0)
                        TEST_FAIL("of \"%s\" it told \"%s\"", cases[i].says, end.line);
        }
        /* The log has the lines of them all, and those of one start count. */
        CHECK_EQ(start("", NULL), -ECONNREFUSED);
        CHECK_EQ(end.line[0], 0);
        CHECK_EQ(sb_attach_start(&place, NULL, NULL), -ECONNREFUSED);
        CHECK_EQ(lowest_descriptor(), fd);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void test_a_long_log_and_a_long_line_are_cut(void)
{
        static char says[20000];
        size_t len = 0;

        tell(NULL, "2", NULL);
        while (len < 15000)
                len += (size_t)snprintf(says + len, sizeof(says) - len, "agentd: line %zu\n", len);
        snprintf(says + len, sizeof(says) - len, "agentd: the last\n");
        CHECK_EQ(start(says, NULL), -ECONNREFUSED);
        CHECK_EQ(strcmp(end.line, "the last"), 0);
        memset(says, 'x', 9000);
        snprintf(says + 9000, sizeof(says) - 9000, "\n");
        memcpy(says, "agentd: words ", 14);
        CHECK_EQ(start(says, NULL), -ECONNREFUSED);
        CHECK_EQ(strspn(end.line, "x"), sizeof(end.line) - 1);
        says[sizeof(end.line) + 7] = '\n'; /* a line that just fits */
        says[sizeof(end.line) + 8] = 0;
        CHECK_EQ(start(says, NULL), -ECONNREFUSED);
        CHECK_EQ(strlen(end.line), sizeof(end.line) - 1);
        CHECK_EQ(strncmp(end.line, "words xxx", 9), 0);
}

static void test_what_ended_it_is_told(void)
{
        tell(NULL, "-11", NULL);
        CHECK_EQ(start("agentd: words\n", NULL), -ECONNREFUSED);
        CHECK(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV);
        CHECK_EQ(strcmp(end.line, "words"), 0);
        /* Where a cgroup limits memory, SIGKILL says that this limit was met. */
        tell(NULL, "-9", NULL);
        CHECK_EQ(start("", NULL), end.memory_limit == SB_LIMIT_NONE ? -ECONNREFUSED : -ENOMEM);
        CHECK(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL);
        tell(NULL, "0", NULL);
        CHECK_EQ(start("", NULL), -ECONNREFUSED);
        CHECK(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
        setenv("STATEBUS_AGENTD", "/nonexistent/agentd", 1);
        CHECK_EQ(start("", NULL), -ENOENT);
        CHECK(end.status == -1 && end.memory_limit == SB_LIMIT_NONE && !end.line[0]);
        setenv("STATEBUS_AGENTD", "/proc/self/exe", 1);
}

static void test_without_an_agentd_nothing_is_made(void)
{
        struct sb_place before = place;
        char path[96];
        int r;

        snprintf(path, sizeof(path), "%s/none", home);
        CHECK_EQ(sb_place_resolve(path, &place), 0);
        setenv("STATEBUS_AGENTD", "no-such-agentd", 1);
        r = start("", NULL);
        setenv("STATEBUS_AGENTD", "/proc/self/exe", 1);
        place = before;
        CHECK_EQ(r, -ENOENT);
        CHECK(access(path, F_OK) < 0);
}

static void test_a_start_is_over_when_it_says_ready_and_not_before(void)
{
        static const struct {
                const char *words;
                int r;
        } cases[] = {{"READY=1", 0}, {"STATUS=x\nREADY=1", 0}, {"READY=1\nMAINPID=7", 0},
                {"STATUS=x", -ECONNREFUSED}, {"STATUS=READY=1", -ECONNREFUSED},
                {"READY=0", -ECONNREFUSED}};
        int fd = lowest_descriptor();

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                tell(cases[i].words, "3", NULL);
                CHECK_EQ(start("", NULL), cases[i].r);
                if (cases[i].r)
                        CHECK(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 3);
                CHECK_EQ(lowest_descriptor(), fd);
                CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        }
}

/* Of a word that is too long, the first 511 bytes count. */
static void test_a_long_word_is_read_as_far_as_there_is_space(void)
{
        static const char ready[] = "\nREADY=1";
        char words[700];

        for (size_t len = 505; len <= 600; len++) {
                memset(words, 'x', len);
                memcpy(words + len - strlen(ready), ready, sizeof(ready));
                tell(words, "3", NULL);
                CHECK_EQ(start("", NULL), len <= 511 ? 0 : -ECONNREFUSED);
                len += len >= 515 ? 40 : 0;
        }
}

static void test_options_are_given_on_up_to_32(void)
{
        static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
                "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23",
                "24", "25", "26", "27", "28", "29", "30", "31", "32", NULL};
        const char *options[34];

        tell("READY=1", NULL, "32");
        memcpy(options, numbers, sizeof(options));
        CHECK_EQ(start("", options), -E2BIG);
        options[32] = NULL;
        CHECK_EQ(start("", options), 0);
        tell("READY=1", NULL, "1");
        options[1] = NULL;
        CHECK_EQ(start("", options), 0);
}

/* What agentd is to be given of the environment has to fit. */
static void test_an_environment_is_given_whole_or_not_at_all(void)
{
        static char *many[4200], one[] = "X=1";
        char **before;
        size_t count = 0;

        tell("READY=1", NULL, NULL);
        setenv(SAYS, "", 1);
        before = environ;
        for (char **at = environ; *at && count < 4000; at++)
                if (strncmp(*at, "NOTIFY_SOCKET=", 14) != 0)
                        many[count++] = *at;
        while (count < 4096)
                many[count++] = one;
        environ = many;
        CHECK_EQ(sb_attach_start(&place, NULL, &end), 0);
        many[count] = one;
        CHECK_EQ(sb_attach_start(&place, NULL, &end), -E2BIG);
        environ = before;
}

/* An older kernel closes no range of descriptors in one call: as many as a process may have are
 * closed, and of those that may have any number, 1,048,576. */
static void test_no_descriptor_is_inherited_from_an_older_kernel_either(void)
{
        struct rlimit before, fewer;
        int fd = lowest_descriptor();

        tell("READY=1", NULL, NULL);
        CHECK(!getrlimit(RLIMIT_NOFILE, &before));
        no_close_range = true;
        CHECK_EQ(dup2(STDERR_FILENO, 60), 60); /* not closed on exec */
        CHECK_EQ(start("", NULL), 0);
        fewer = before;
        fewer.rlim_cur = fewer.rlim_max = 61;
        if (!setrlimit(RLIMIT_NOFILE, &fewer)) {
                CHECK_EQ(start("", NULL), 0);
        }
        no_close_range = false;
        close(60);
        CHECK_EQ(lowest_descriptor(), fd);
}

/* agentd ends there, and no process can tell how. */
static void test_a_start_that_fails_is_over_where_processes_cannot_be_watched(void)
{
        tell(NULL, "1", NULL);
        no_pidfds = true;
        setenv(UNWATCHED, "1", 1);
        CHECK_EQ(start("agentd: words\n", NULL), -ECONNREFUSED);
        CHECK_EQ(end.status, -1);
        CHECK_EQ(strcmp(end.line, "words"), 0);
        tell("READY=1", NULL, NULL);
        CHECK_EQ(start("", NULL), 0);
        unsetenv(UNWATCHED);
        no_pidfds = false;
}

/* The process that becomes agentd needs three more than the six of the one that asks. */
static void test_a_start_without_descriptors_says_so(void)
{
        struct rlimit before, few;
        int r[9];

        tell("READY=1", NULL, NULL);
        CHECK(!getrlimit(RLIMIT_NOFILE, &before));
        few = before;
        few.rlim_cur = (rlim_t)lowest_descriptor();
        for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++, few.rlim_cur++) {
                CHECK(!setrlimit(RLIMIT_NOFILE, &few));
                r[i] = start("", NULL);
        }
        CHECK(!setrlimit(RLIMIT_NOFILE, &before));
        for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++)
                CHECK_EQ(r[i], -EMFILE);
}

/* Whichever they were, the ones that the program blocks wait on, and no others. */
static void test_the_callers_signals_are_as_before(void)
{
        sigset_t before, after;

        tell("READY=1", NULL, NULL);
        for (int blocked = 0; blocked < 3; blocked++) {
                before = mask_at_first;
                for (int number = SIGHUP; number <= SIGTERM && blocked; number++)
                        if (number % 2 == blocked - 1)
                                sigaddset(&before, number);
                sigprocmask(SIG_SETMASK, &before, NULL);
                CHECK_EQ(start("", NULL), 0);
                /* What cannot be blocked is in no mask. */
                sigprocmask(SIG_SETMASK, &mask_at_first, &after);
                for (int number = 1; number < NSIG; number++)
                        if (number != SIGKILL && number != SIGSTOP)
                                CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
        }
}

/* The program may have closed its standard streams, and may ignore SIGCHLD. */
static void test_a_start_works_in_a_program_that_has_closed_its_streams(void)
{
        int status;
        pid_t child;

        tell("READY=1", NULL, NULL);
        child = fork();
        if (child == 0) {
                (void)signal(SIGCHLD, SIG_IGN);
                for (int fd = 0; fd <= 2; fd++)
                        close(fd);
                if (start("", NULL))
                        _exit(1);
                tell(NULL, "5", NULL);
                _exit(start("", NULL) == -ECONNREFUSED && WIFEXITED(end.status) &&
                                        WEXITSTATUS(end.status) == 5 && fcntl(0, F_GETFD) < 0
                                ? 0
                                : 2);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
}

/* ---- attaching ---- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static const struct answer_case {
        unsigned fds; /* descriptors that come with the answer; the segment is the first */
        int seals;
        uint32_t slot, other_size, other_id, no_magic, extra_bytes;
        int r;
} answer_cases[] = {
        {.fds = 1, .seals = SEALS, .slot = 1},
        {.fds = 4, .seals = SEALS, .slot = 2},
        {.fds = 0, .seals = SEALS, .slot = 1, .r = -EPROTO},
        {.fds = 1, .seals = 0, .slot = 1, .r = -EBADMSG},
        {.fds = 1, .seals = F_SEAL_SHRINK, .slot = 1, .r = -EBADMSG},
        {.fds = 1, .seals = F_SEAL_GROW, .slot = 1, .r = -EBADMSG},
        {.fds = 1, .seals = SEALS, .slot = 0, .r = -EBADMSG},
        {.fds = 1, .seals = SEALS, .slot = 3, .r = -EBADMSG}, /* as many as there are */
        {.fds = 1, .seals = SEALS, .slot = 1, .other_size = 1, .r = -EBADMSG},
        {.fds = 1, .seals = SEALS, .slot = 1, .other_id = 1, .r = -EBADMSG},
        {.fds = 1, .seals = SEALS, .slot = 1, .no_magic = 1, .r = -EBADMSG},
        {.fds = 3, .seals = SEALS, .slot = 1, .extra_bytes = 1, .r = -EPROTO},
};

/* A segment for two clients and the engine, and the answer that would be right. Return: its
 * descriptor, or -1. */
static int make_segment(const struct answer_case *how, struct sb_hello_answer *ret)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2};
        static const uint64_t id[2] = {11, 22};
        struct sb_geometry geometry;
        int fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct sb_superblock *super;

        if (fd < 0 || sb_geometry_fit(&wish, &geometry) || ftruncate(fd, (off_t)geometry.size))
                return -1;
        super = mmap(NULL, geometry.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (super == MAP_FAILED)
                return -1;
        sb_segment_format(super, &geometry, 7, id, 1);
        if (how->no_magic)
                super->magic = 0;
        munmap(super, geometry.size);
        sb_hello_refuse(0, ret);
        ret->access = SB_PEER;
        ret->slot = how->slot;
        ret->generation = 1;
        ret->size = geometry.size - how->other_size;
        memcpy(ret->id, id, sizeof(id));
        ret->id[1] += how->other_id;
        return fcntl(fd, F_ADD_SEALS, how->seals) ? -1 : fd;
}

/* Take one connection on @listen_fd, and answer. Return: whether the client gave back what it was
 * given. */
static bool answer(int listen_fd, const struct answer_case *how)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(4 * sizeof(int))];
        } control = {0};
        struct {
                struct sb_hello_answer answer;
                char extra;
        } packet = {.extra = 0};
        struct iovec part = {.iov_base = &packet};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        struct sb_hello_request request;
        int fds[4], fd = accept(listen_fd, NULL, NULL), segment = make_segment(how, &packet.answer);

        part.iov_len = sizeof(packet.answer) + how->extra_bytes;
        for (unsigned i = 0; i < how->fds; i++)
                fds[i] = i ? listen_fd : segment;
        if (how->fds) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(how->fds * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(how->fds * sizeof(int));
                memcpy(CMSG_DATA(&control.header), fds, how->fds * sizeof(int));
        }
        if (fd < 0 || segment < 0 || recv(fd, &request, sizeof(request), 0) != sizeof(request) ||
                sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
                _exit(3);
        return recv(fd, &request, sizeof(request), 0) == sizeof(request) &&
               request.verb == SB_HELLO_GIVE_BACK;
}

static int open_fds(void)
{
        int count = 0;

        for (int fd = 0; fd < 64; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static void test_an_answer_that_cannot_be_used_is_given_back_and_leaves_nothing_open(void)
{
        struct sb_attachment attachment;
        struct sockaddr_un address;
        int listen_fd, through, status, before;
        pid_t child;

        CHECK_EQ(sb_place_make(&place), 0);
        CHECK(!sb_place_address(&place, SB_PLACE_SOCKET, &address, &through));
        for (size_t i = 0; i < sizeof(answer_cases) / sizeof(answer_cases[0]); i++) {
                const struct answer_case *how = &answer_cases[i];
                int r;

                listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
                CHECK(!bind(listen_fd, (struct sockaddr *)&address, sizeof(address)));
                CHECK(!listen(listen_fd, 1));
                child = fork();
                if (child == 0) {
                        alarm(20);
                        _exit(answer(listen_fd, how));
                }
                close(listen_fd);
                before = open_fds();
                r = sb_attach(&place, SB_PEER, &attachment);
                if (r != how->r)
                        TEST_FAIL("case %zu: %d", i, r);
                CHECK_EQ(open_fds(), before);
                if (!r) {
                        CHECK(attachment.slot == how->slot && attachment.generation == 1);
                        sb_attach_unmap(&attachment);
                }
                CHECK_EQ(waitpid(child, &status, 0), child);
                CHECK(WIFEXITED(status));
                CHECK_EQ(WEXITSTATUS(status), r != 0);
                CHECK(!unlink(address.sun_path));
        }
}

int main(int argc, char **argv)
{
        const char *says = getenv(SAYS);
        char clean[128];
        int status;

        if (says)
                return be_agentd(argc, argv, says);
        test_begin(argc, argv);
        sigprocmask(SIG_SETMASK, NULL, &mask_at_first);
        snprintf(home, sizeof(home), "/tmp/statebus-start-XXXXXX");
        if (!mkdtemp(home) || sb_place_resolve(home, &place))
                return 1;
        setenv("STATEBUS_AGENTD", "/proc/self/exe", 1);
        setenv("NOTIFY_SOCKET", "@another", 1);
        RUN(test_the_last_line_of_a_start_that_failed_is_told);
        RUN(test_a_long_log_and_a_long_line_are_cut);
        RUN(test_what_ended_it_is_told);
        RUN(test_without_an_agentd_nothing_is_made);
        RUN(test_a_start_is_over_when_it_says_ready_and_not_before);
        RUN(test_a_long_word_is_read_as_far_as_there_is_space);
        RUN(test_options_are_given_on_up_to_32);
        RUN(test_an_environment_is_given_whole_or_not_at_all);
        RUN(test_a_start_that_fails_is_over_where_processes_cannot_be_watched);
        RUN(test_a_start_without_descriptors_says_so);
        RUN(test_the_callers_signals_are_as_before);
        RUN(test_a_start_works_in_a_program_that_has_closed_its_streams);
        RUN(test_an_answer_that_cannot_be_used_is_given_back_and_leaves_nothing_open);
        RUN(test_no_descriptor_is_inherited_from_an_older_kernel_either);
        status = test_end();
        unsetenv(SAYS);
        snprintf(clean, sizeof(clean), "rm -rf '%s'", home);
        return system(clean) ? 1 : status;
}
