/*
 * Attaching (libclient/core/attach.h) to an engine that answers what a test says: what a client
 * believes of an answer, and that it keeps nothing of one that it does not believe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/os.h"
#include "shm/layout/geometry.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"

#define BOTH (F_SEAL_SHRINK | F_SEAL_GROW)

static const uint64_t id[2] = {77, 78};
static char home[64];
static struct sb_place place;
static struct sb_geometry geometry;
static int listener = -1;

/* What the engine sends. */
struct answer {
        struct sb_hello_answer words;
        size_t len;
        int fds[2];
        unsigned fd_count;
        unsigned silent; /* so many connections it closes without an answer, before */
};

/* How the connection went on. */
enum { ENDED, GAVE_BACK, ELSE };

/* ---- the engine ---- */

static int serve(const struct answer *answer)
{
        struct sb_hello_request request;
        struct iovec bytes = {
                .iov_base = (void *)(uintptr_t)&answer->words, .iov_len = answer->len};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(2 * sizeof(int))];
        } control = {0};
        struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
        ssize_t len;
        int fd;

        for (unsigned i = 0; i < answer->silent; i++) {
                fd = accept(listener, NULL, NULL);
                if (fd < 0 || recv(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
                        return ELSE;
                close(fd);
        }
        fd = accept(listener, NULL, NULL);
        if (fd < 0 || recv(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request) ||
                request.verb != SB_HELLO_ATTACH || !request.ticket)
                return ELSE;
        if (answer->fd_count) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(answer->fd_count * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(answer->fd_count * sizeof(int));
                memcpy(CMSG_DATA(&control.header), answer->fds, answer->fd_count * sizeof(int));
        }
        if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
                return ELSE;
        len = recv(fd, &request, sizeof(request), 0);
        if (len <= 0)
                return ENDED;
        return request.verb == SB_HELLO_GIVE_BACK ? GAVE_BACK : ELSE;
}

/* A segment in a memfd with these seals, @more bytes longer than it says. Return: -1, or it. */
static int make_memfd(int seals, uint64_t more, bool sound)
{
        int fd = memfd_create("unit-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        void *base;

        if (fd < 0 || ftruncate(fd, (off_t)(geometry.size + more)))
                return -1;
        base = mmap(NULL, geometry.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED)
                return -1;
        sb_segment_format(base, &geometry, 7, id, 1);
        if (!sound)
                ((struct sb_superblock *)base)->geometry.unit_count++;
        munmap(base, geometry.size);
        return fcntl(fd, F_ADD_SEALS, seals) ? -1 : fd;
}

/* ---- the client ---- */

static unsigned maps(void)
{
        char line[512];
        FILE *file = fopen("/proc/self/maps", "re");
        unsigned count = 0;

        while (file && fgets(line, sizeof(line), file))
                count++;
        if (file)
                fclose(file);
        return count;
}

static int lowest_descriptor(void)
{
        int fd = dup(STDIN_FILENO);

        close(fd);
        return fd;
}

static void good_answer(struct answer *ret)
{
        *ret = (struct answer){.len = sizeof(ret->words)};
        sb_hello_refuse(0, &ret->words);
        ret->words.layout_version = SB_LAYOUT_VERSION;
        ret->words.access = SB_PEER;
        ret->words.slot = 1;
        ret->words.generation = 5;
        ret->words.size = geometry.size;
        memcpy(ret->words.id, id, sizeof(id));
}

/* Attach to an engine that answers so. *ret_end: how the connection went on; ELSE, too, where
 * something of it is left. Return: as sb_attach(). */
static int attach(const struct answer *answer, int *ret_end)
{
        unsigned before = maps();
        int lowest = lowest_descriptor(), status, r;
        struct sb_attachment attachment = {0};
        pid_t engine = fork();

        if (engine == 0)
                _exit(serve(answer));
        r = sb_attach(&place, SB_PEER, &attachment);
        *ret_end = waitpid(engine, &status, 0) == engine && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                              : ELSE;
        if (!r && (attachment.slot != answer->words.slot || attachment.generation != 5 ||
                          attachment.access != SB_PEER || maps() != before + 1))
                *ret_end = ELSE;
        if (!r)
                sb_attach_unmap(&attachment);
        if (maps() != before || lowest_descriptor() != lowest)
                *ret_end = ELSE;
        return r;
}

/* ---- tests ---- */

static void test_an_answer_is_believed_as_far_as_it_can_be_checked(void)
{
        const uint32_t last = geometry.record_count - 1;
        const struct {
                const char *what;
                uint32_t slot;
                int seals;
                int64_t size;
                uint64_t more, id[2];
                bool unsound;
                int r;
        } cases[] = {
                {"the first record", 1, BOTH, 0, 0, {0}, false, 0},
                {"the last record", last, BOTH, 0, 0, {0}, false, 0},
                {"more seals", 1, BOTH | F_SEAL_SEAL, 0, 0, {0}, false, 0},
                {"the engine's record", 0, BOTH, 0, 0, {0}, false, -EBADMSG},
                {"no record", last + 1, BOTH, 0, 0, {0}, false, -EBADMSG},
                {"no record by far", UINT32_MAX, BOTH, 0, 0, {0}, false, -EBADMSG},
                {"no seal", 1, 0, 0, 0, {0}, false, -EBADMSG},
                {"may grow", 1, F_SEAL_SHRINK, 0, 0, {0}, false, -EBADMSG},
                {"may shrink", 1, F_SEAL_GROW, 0, 0, {0}, false, -EBADMSG},
                {"said to be larger", 1, BOTH, 4096, 0, {0}, false, -EBADMSG},
                {"said to be smaller", 1, BOTH, -4096, 0, {0}, false, -EBADMSG},
                {"longer than it says", 1, BOTH, 0, 4096, {0}, false, -EBADMSG},
                {"longer, and said to be", 1, BOTH, 4096, 4096, {0}, false, -EBADMSG},
                {"another segment", 1, BOTH, 0, 0, {1, 0}, false, -EBADMSG},
                {"another one by the second half", 1, BOTH, 0, 0, {0, 1}, false, -EBADMSG},
                {"an unsound one", 1, BOTH, 0, 0, {0}, true, -EBADMSG},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct answer answer;
                int end, r;

                good_answer(&answer);
                answer.words.slot = cases[i].slot;
                answer.words.size = (uint64_t)((int64_t)geometry.size + cases[i].size);
                answer.words.id[0] ^= cases[i].id[0];
                answer.words.id[1] ^= cases[i].id[1];
                answer.fds[0] = make_memfd(cases[i].seals, cases[i].more, !cases[i].unsound);
                answer.fd_count = 1;
                CHECK(answer.fds[0] >= 0);
                r = attach(&answer, &end);
                close(answer.fds[0]);
                if (r != cases[i].r || end != (r ? GAVE_BACK : ENDED))
                        TEST_FAIL("%s: %d, %d", cases[i].what, r, end);
        }
}

static void test_a_descriptor_that_is_no_segment_is_refused(void)
{
        char name[96];
        struct answer answer;
        int end, ends[2];

        good_answer(&answer);
        answer.fd_count = 1;
        /* A file of that size cannot be sealed. */
        snprintf(name, sizeof(name), "%s/file", home);
        answer.fds[0] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(answer.fds[0] >= 0 && !ftruncate(answer.fds[0], (off_t)geometry.size));
        CHECK_EQ(attach(&answer, &end), -EBADMSG);
        CHECK_EQ(end, GAVE_BACK);
        close(answer.fds[0]);
        CHECK(!pipe2(ends, O_CLOEXEC));
        answer.fds[0] = ends[0];
        CHECK_EQ(attach(&answer, &end), -EBADMSG);
        CHECK_EQ(end, GAVE_BACK);
        answer.words.size = 0;
        CHECK_EQ(attach(&answer, &end), -EBADMSG);
        CHECK_EQ(end, GAVE_BACK);
        close(ends[0]);
        close(ends[1]);
        good_answer(&answer);
        CHECK_EQ(attach(&answer, &end), -EPROTO);
        CHECK_EQ(end, GAVE_BACK);
}

static void test_of_two_descriptors_the_first_counts_and_none_stays(void)
{
        struct answer answer;
        int end;

        good_answer(&answer);
        answer.fd_count = 2;
        answer.fds[0] = make_memfd(BOTH, 0, true);
        answer.fds[1] = make_memfd(0, 0, false);
        CHECK(answer.fds[0] >= 0 && answer.fds[1] >= 0);
        CHECK_EQ(attach(&answer, &end), 0);
        CHECK_EQ(end, ENDED);
        /* A refusal may carry one, too, and a record is given back only by a client that has one.
         */
        answer.words.result = SB_E_FULL;
        CHECK_EQ(attach(&answer, &end), SB_E_FULL);
        CHECK_EQ(end, ENDED);
        /* One that is cut off is no answer. */
        answer.words.result = 0;
        answer.len--;
        CHECK_EQ(attach(&answer, &end), -EPROTO);
        CHECK_EQ(end, GAVE_BACK);
        close(answer.fds[0]);
        close(answer.fds[1]);
}

/* Engines that end before they answer: the next one gets the same question. */
static void test_a_connection_that_ends_without_an_answer_is_made_again(void)
{
        struct answer answer;
        int end;

        good_answer(&answer);
        answer.fd_count = 1;
        answer.fds[0] = make_memfd(BOTH, 0, true);
        CHECK(answer.fds[0] >= 0);
        answer.silent = 63;
        CHECK_EQ(attach(&answer, &end), 0);
        CHECK_EQ(end, ENDED);
        close(answer.fds[0]);
}

/* The kernel drops the descriptor, and says so. */
static void test_a_client_that_may_open_no_more_says_so(void)
{
        struct rlimit before, fewer;
        struct answer answer;
        int end, r, status;
        pid_t engine;
        struct sb_attachment attachment;

        good_answer(&answer);
        answer.fd_count = 1;
        answer.fds[0] = make_memfd(BOTH, 0, true);
        CHECK(answer.fds[0] >= 0 && !getrlimit(RLIMIT_NOFILE, &before));
        engine = fork();
        if (engine == 0)
                _exit(serve(&answer));
        fewer = before;
        fewer.rlim_cur = (rlim_t)lowest_descriptor() + 1; /* the socket */
        CHECK(!setrlimit(RLIMIT_NOFILE, &fewer));
        r = sb_attach(&place, SB_PEER, &attachment);
        CHECK(!setrlimit(RLIMIT_NOFILE, &before));
        CHECK(waitpid(engine, &status, 0) == engine && WIFEXITED(status));
        end = WEXITSTATUS(status);
        close(answer.fds[0]);
        CHECK_EQ(r, -EMFILE);
        CHECK_EQ(end, GAVE_BACK);
}

static int listen_at(const struct sb_place *at)
{
        struct sockaddr_un address;
        int through, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0 || sb_place_address(at, SB_PLACE_SOCKET, &address, &through) ||
                bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 100))
                return -1;
        if (through >= 0)
                close(through);
        return fd;
}

int main(int argc, char **argv)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 4};
        char clean[128];
        int status;

        test_begin(argc, argv);
        snprintf(home, sizeof(home), "/tmp/statebus-answer-XXXXXX");
        if (!mkdtemp(home) || sb_place_resolve(home, &place) || sb_geometry_fit(&wish, &geometry))
                return 1;
        listener = listen_at(&place);
        if (listener < 0)
                return 1;
        RUN(test_an_answer_is_believed_as_far_as_it_can_be_checked);
        RUN(test_a_descriptor_that_is_no_segment_is_refused);
        RUN(test_of_two_descriptors_the_first_counts_and_none_stays);
        RUN(test_a_connection_that_ends_without_an_answer_is_made_again);
        RUN(test_a_client_that_may_open_no_more_says_so);
        status = test_end();
        snprintf(clean, sizeof(clean), "rm -rf '%s'", home);
        return system(clean) ? 1 : status;
}
