/*
 * The engine (agentd/engine.h) where the segment or the system fails it: it cannot map the memory,
 * or that is gone, or damaged, or it cannot wait for its clients. And what agentd says and knows of
 * processes: lines of the log (agentd/log.h), whole and never waited for, sizes, and when a process
 * was started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/log.h"
#include "agentd/memory.h"
#include "ring/attach/map.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"
#include "tests/unit/agentd.h"

static struct {
        struct sb_superblock *torn; /* a client damages it, once this engine has opened it */
} machine;

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
        if (machine.torn)
                machine.torn->geometry.unit_size++;
        return __real_geteuid();
}

/* ---- the engine ---- */

static void test_an_engine_that_cannot_map_the_segment_has_failed(void)
{
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};

        MACHINE();
        CHECK(forget_said());
        CHECK(!make_memory(&supervisor.memory));
        engine.supervisor = &supervisor;
        fails = FIRST_MAP;
        maps = 0;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_FAILED);
        CHECK(said("the engine cannot map the segment: Operation not permitted"));
        sb_memory_drop(&supervisor.memory);
}

static unsigned said_times(const char *words)
{
        char text[8192], *at = text;
        ssize_t len = pread(said_fd, text, sizeof(text) - 1, 0);
        unsigned count = 0;

        text[len > 0 ? len : 0] = 0;
        while ((at = strstr(at, words))) {
                at += strlen(words);
                count++;
        }
        return count;
}

/* Adopt a segment in which @count cells lead far outside. */
static void adopt_damaged(uint32_t count, uint64_t size)
{
        static struct sb_engine engine;
        struct sb_config large = config;
        struct sb_supervisor supervisor = {.config = &large};
        struct sb_segment segment;

        CHECK(forget_said());
        CHECK(!make_memory(&supervisor.memory));
        large.size = size;
        CHECK(!sb_segment_open(sb_map_segment(supervisor.memory.fd, supervisor.memory.size),
                supervisor.memory.size, &sb_os_linux, &segment));
        for (uint32_t i = 0; i < count; i++)
                sb_store_relaxed(&segment.buckets[i].cell[6], UINT64_C(0x00007ffffffffff0));
        engine.supervisor = &supervisor;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_UNSOUND);
        mi_free(engine.space);
        munmap(engine.handle.segment.base, engine.handle.segment.geometry.size);
        munmap(segment.base, segment.geometry.size);
        sb_memory_drop(&supervisor.memory);
}

static void test_an_unsound_segment_is_told_by_its_first_places(void)
{
        const char *place = "the segment is not adopted: bucket ";

        MACHINE();
        adopt_damaged(1, config.size);
        CHECK(said_times(place) == 1 && said_times("not adopted") == 1);
        CHECK(said("bucket 0, cell 6: leads out of the segment\n"));
        adopt_damaged(8, config.size);
        CHECK(said_times(place) == 8 && said_times("not adopted") == 8);
        adopt_damaged(12, config.size);
        CHECK(said_times(place) == 8 && said_times("not adopted") == 8);
}

static void test_a_look_that_takes_seconds_is_announced(void)
{
        MACHINE();
        adopt_damaged(1, (UINT64_C(1) << 30) - 1);
        CHECK(!said("looking at the whole segment"));
        adopt_damaged(1, UINT64_C(1) << 30);
        CHECK(said("looking at the whole segment before it is served\n"));
}

/* Clients write meanwhile, and one may go wrong at any time. */
static void test_a_segment_that_is_damaged_during_its_adoption_is_refused(void)
{
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};

        MACHINE();
        CHECK(forget_said());
        CHECK(!make_memory(&supervisor.memory));
        engine.supervisor = &supervisor;
        machine.torn = supervisor.memory.super;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_UNSOUND);
        machine.torn = NULL;
        CHECK(said("the segment is not adopted: it cannot be checked (Bad message)"));
        munmap(engine.handle.segment.base, engine.handle.segment.geometry.size);
        sb_memory_drop(&supervisor.memory);
}

/* A client is refused only when all that have a place live, however many there are. */
static void test_all_that_died_meanwhile_are_collected(void)
{
        enum { CLIENTS = 100 };
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t count, slot, generation;
        struct pollfd gone;
        pid_t child;

        MACHINE();
        config.clients = CLIENTS;
        CHECK(!make_memory(&supervisor.memory));
        config.clients = 4;
        count = supervisor.memory.geometry.record_count;
        engine.supervisor = &supervisor;
        engine.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        engine.watchers = calloc(count, sizeof(*engine.watchers));
        CHECK(count > CLIENTS && engine.epoll_fd >= 0 && engine.watchers);
        for (slot = 0; slot < count; slot++)
                engine.watchers[slot].pidfd = -1;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_STOPPED);
        child = fork();
        if (child == 0)
                _exit(0);
        gone = (struct pollfd){(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
        CHECK_EQ(poll(&gone, 1, -1), 1);
        for (uint32_t i = 1; i < count; i++) {
                CHECK_EQ(sb_roster_claim(&engine.handle.segment, i, &identity, &slot, &generation),
                        0);
                CHECK_EQ(slot, i);
                sb_reaper_watch(&engine, slot, generation, (int)syscall(SYS_pidfd_open, child, 0));
        }
        CHECK_EQ(sb_roster_count(&engine.handle.segment), count);
        /* A look at all of them goes on at once, and then ends. */
        engine.look_wanted = true;
        CHECK(sb_reaper_look(&engine));
        CHECK(!sb_reaper_look(&engine));
        CHECK_EQ(sb_reaper_collect(&engine), count - 1);
        CHECK_EQ(sb_roster_count(&engine.handle.segment), 1);
        CHECK_EQ(waitpid(child, NULL, 0), child);
        close(gone.fd);
        close(engine.maps_fd);
        close(engine.epoll_fd);
        free(engine.watchers);
        munmap(engine.handle.segment.base, engine.handle.segment.geometry.size);
        sb_memory_drop(&supervisor.memory);
}

/* A supervisor for sb_engine_run(), with descriptors that never report anything. */
static bool supervise_nothing(struct sb_supervisor *ret)
{
        *ret = (struct sb_supervisor){.config = &config, .kept_max = 4};
        if (make_memory(&ret->memory))
                return false;
        ret->signal_fd = eventfd(0, EFD_CLOEXEC);
        ret->directory.listen_fd = eventfd(0, EFD_CLOEXEC);
        ret->channel = eventfd(0, EFD_CLOEXEC);
        ret->self_fd = eventfd(0, EFD_CLOEXEC);
        return forget_said();
}

/* Be the engine, in a child, where nothing is left behind but what it said. Return: how it ended;
 * 90: it ended well by the next SIGBUS, too. */
static int engine_ends(struct sb_supervisor *supervisor)
{
        struct sigaction action;
        int status = -1;
        pid_t child = fork();

        if (!child) {
                enum sb_engine_end end;

                alarm(20); /* where it serves after all */
                end = sb_engine_run(supervisor);

                _exit(sigaction(SIGBUS, NULL, &action) || action.sa_handler != SIG_DFL ? 90 : end);
        }
        return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)
                       ? -1
                       : WEXITSTATUS(status);
}

static void test_memory_that_is_gone_ends_the_engines_work_and_not_its_process(void)
{
        struct sb_supervisor supervisor;
        char page[4096];
        int sealed;

        MACHINE();
        CHECK(supervise_nothing(&supervisor));
        /* Of the same bytes, and not sealed: but for its beginning it goes. */
        sealed = supervisor.memory.fd;
        supervisor.memory.fd = memfd_create("statebus", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        for (off_t at = 0; at < 1 << 17; at += (off_t)sizeof(page)) {
                CHECK_EQ(pread(sealed, page, sizeof(page), at), sizeof(page));
                CHECK_EQ(pwrite(supervisor.memory.fd, page, sizeof(page), at), sizeof(page));
        }
        CHECK_EQ(engine_ends(&supervisor), SB_ENGINE_UNSOUND);
        CHECK(said("the segment is given up: part of its memory is gone (SIGBUS)"));
        close(sealed);
        sb_memory_drop(&supervisor.memory);
}

static void test_an_engine_that_cannot_wait_for_all_that_it_serves_does_not_start(void)
{
        struct sb_supervisor supervisor;
        int *const fds[] = {&supervisor.signal_fd, &supervisor.directory.listen_fd,
                &supervisor.channel, &supervisor.self_fd};

        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
                MACHINE();
                CHECK(supervise_nothing(&supervisor));
                close(*fds[i]);
                *fds[i] = -1;
                CHECK_EQ(engine_ends(&supervisor), SB_ENGINE_FAILED);
                CHECK(said("the engine cannot start: Bad file descriptor"));
                for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++)
                        if (k != i)
                                close(*fds[k]);
                sb_memory_drop(&supervisor.memory);
        }
}

/* ---- words and processes ---- */

/* A line is written whole, or not at all, and never waited for. */
static void test_a_log_that_nothing_reads_keeps_no_process_waiting(void)
{
        char bytes[4096] = {0}, line[64] = "";
        size_t filled = 0;
        int fds[2], status;
        ssize_t len;
        pid_t child;

        CHECK(!pipe2(fds, O_CLOEXEC | O_NONBLOCK));
        while ((len = write(fds[1], bytes, sizeof(bytes))) > 0)
                filled += (size_t)len;
        CHECK(!fcntl(fds[1], F_SETFL, 0));
        child = fork();
        if (child == 0) {
                dup2(fds[1], STDERR_FILENO);
                alarm(5);
                sb_log("this line is lost");
                sb_log_word("and this one");
                _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        for (; filled > 0; filled -= (size_t)len)
                CHECK((len = read(fds[0], bytes, sizeof(bytes))) > 0);
        child = fork();
        if (child == 0) {
                dup2(fds[1], STDERR_FILENO);
                sb_log("this %s is not", "line");
                _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK_EQ(read(fds[0], line, sizeof(line)), 25);
        CHECK_EQ(strcmp(line, "agentd: this line is not\n"), 0);
        close(fds[0]);
        close(fds[1]);
}

static void test_a_line_of_any_length_is_one_line_and_ends(void)
{
        char words[2048], text[4096];
        ssize_t len;

        for (size_t count = 980; count < 1080; count++) {
                size_t expected = count < 1014 - 21 ? count : 1014 - 21;

                memset(words, 'x', count);
                words[count] = 0;
                CHECK(forget_said());
                sb_log("%s", words);
                len = pread(said_fd, text, sizeof(text) - 1, 0);
                text[len > 0 ? len : 0] = 0;
                /* A file's lines begin with the time, of 21 bytes. */
                CHECK(text[4] == '-' && text[10] == 'T' && text[19] == 'Z' && text[20] == ' ');
                CHECK_EQ(strncmp(text + 21, "agentd: ", 8), 0);
                CHECK_EQ(strspn(text + 29, "x"), expected);
                CHECK_EQ(strcmp(text + 29 + expected, "\n"), 0);
        }
}

static void test_a_size_is_said_in_the_largest_unit_that_divides_it(void)
{
        static const struct {
                uint64_t bytes;
                const char *words;
        } cases[] = {{0, "0"}, {1, "1"}, {1023, "1023"}, {1024, "1K"}, {1025, "1025"},
                {1536, "1536"}, {3 << 20, "3M"}, {(1 << 20) + 1024, "1025K"},
                {UINT64_C(5) << 30, "5G"}, {UINT64_C(7) << 40, "7T"}, {UINT64_C(1) << 50, "1024T"},
                {UINT64_MAX, "18446744073709551615"}};
        char text[32];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (strcmp(sb_config_size_words(cases[i].bytes, text), cases[i].words) != 0)
                        TEST_FAIL("%s, not %s", text, cases[i].words);
}

/* The name of a process may hold anything, and nothing but the file counts. */
static void test_a_process_was_started_when_the_kernel_says_so(void)
{
        static const char *const names[] = {"plain", "a b c", ") 1 2 3 4 5 6", "(((", "))) 77 ) )"};
        uint64_t start, first = 0;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                CHECK(!prctl(PR_SET_NAME, names[i]));
                litter();
                CHECK_EQ(sb_reaper_start_time((uint32_t)getpid(), &start), 0);
                CHECK(start > 0 && (!first || start == first));
                first = start;
        }
        CHECK_EQ(sb_reaper_start_time(0, &start), -ENOENT);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!hear())
                return 1;
        RUN(test_an_engine_that_cannot_map_the_segment_has_failed);
        RUN(test_an_unsound_segment_is_told_by_its_first_places);
        RUN(test_a_look_that_takes_seconds_is_announced);
        RUN(test_a_segment_that_is_damaged_during_its_adoption_is_refused);
        RUN(test_all_that_died_meanwhile_are_collected);
        RUN(test_memory_that_is_gone_ends_the_engines_work_and_not_its_process);
        RUN(test_an_engine_that_cannot_wait_for_all_that_it_serves_does_not_start);
        RUN(test_a_log_that_nothing_reads_keeps_no_process_waiting);
        RUN(test_a_line_of_any_length_is_one_line_and_ends);
        RUN(test_a_size_is_said_in_the_largest_unit_that_divides_it);
        RUN(test_a_process_was_started_when_the_kernel_says_so);
        return test_end();
}
