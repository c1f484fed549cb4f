/*
 * agentd's supervisor (agentd/supervisor.h) over engines that end as a script says: when the next
 * one is started, when the segment is given up, and what the superblock says of it all. Directory,
 * memory, log and systemd are this program's, and so is the time: a wait for the next engine passes
 * at once, and is counted.
 *
 * The program is linked so that some of the supervisor's system calls come here first (see
 * meson.build).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "agentd/life.h"
#include "agentd/log.h"
#include "agentd/supervisor.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"

#define SECOND_NS   UINT64_C(1000000000)
#define PATIENCE_MS 4000
#define SEGMENTS    4u
#define ENGINES     16u

/* How an engine ends; or a signal's number. */
enum {
        SERVES = 0,
        FAILS = -1,
        UNSOUND = -2,
        IS_DEAF = -3,
        UNSOUND_AT_LAST = -4,
        HANGS_UP = -5,
        HASTE = -6,
        LOSES = -7 /* what was written last; and its supervisor is killed meanwhile */
};

struct engine {
        bool adopts; /* says so first */
        int end;
        uint64_t works_ns; /* before it ends */
};

/* What the processes share. */
static struct {
        union {
                struct sb_superblock super;
                char page[8192];
        } segments[SEGMENTS];
        struct engine script[ENGINES]; /* behind its end, engines serve */
        struct {
                uint64_t waited_ms; /* by the supervisor, before this engine */
                uint32_t segment;
                pid_t pid;
        } seen[ENGINES];
        _Atomic uint64_t now_ns, clock_reads, waited_ms;
        _Atomic uint32_t started, working, polls, made, dropped, owned, left, ready,
                stopped_by_word, scribes_ended;
        bool make_fails, held_when_dropped;
        char said[4096], notified[1024];
} * shared;

/* ---- what stands for the rest of agentd ---- */

static uint64_t fake_now_ns(void *context)
{
        (void)context;
        shared->clock_reads++;
        return shared->now_ns;
}
const struct sb_os sb_os_linux = {.now_ns = fake_now_ns};

/* Calls that fail in a process that is forked from now on: which, and how often. */
enum { NONE, OWN_PIDFD, ENGINES_PIDFD, SOCKETS, FORK, WAITING };
static int broken;
static unsigned broken_times;

static bool breaks(int call)
{
        if (broken != call || broken_times == 0)
                return false;
        broken_times--;
        errno = call == WAITING ? EINTR : EMFILE;
        return true;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
        int got;

        shared->polls++;
        if (count == 4 && breaks(WAITING))
                return -1;
        if (timeout_ms <= 0)
                return __real_poll(fds, count, timeout_ms);
        if (count == 2) { /* for an engine that was told to stop */
                got = __real_poll(fds, 2, shared->script[0].end == IS_DEAF ? 10 : PATIENCE_MS);
                if (got == 0)
                        shared->now_ns += (uint64_t)timeout_ms * 1000000;
                return got;
        }
        shared->waited_ms += (uint64_t)timeout_ms;
        shared->now_ns += (uint64_t)timeout_ms * 1000000;
        return __real_poll(fds, count, 0);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c);
long __wrap_syscall(long number, long a, long b, long c)
{
        if (number == SYS_pidfd_open && breaks(a == getpid() ? OWN_PIDFD : ENGINES_PIDFD))
                return -1;
        return __real_syscall(number, a, b, c);
}

int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
        return breaks(SOCKETS) ? -1 : __real_socketpair(domain, type, protocol, fds);
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
        return breaks(FORK) ? -1 : __real_fork();
}

static void append(char *text, size_t size, const char *format, va_list arguments)
{
        size_t len = strlen(text);

        vsnprintf(text + len, size - len, format, arguments);
        len = strlen(text);
        snprintf(text + len, size - len, "\n");
}

void sb_log(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        append(shared->said, sizeof(shared->said), format, arguments);
        va_end(arguments);
}

void sb_log_word(const char *word)
{
        sb_log("%s", word);
        shared->ready += strcmp(word, "ready") == 0;
}

int sd_notifyf(int unset, const char *format, ...)
{
        va_list arguments;

        (void)unset;
        va_start(arguments, format);
        append(shared->notified, sizeof(shared->notified), format, arguments);
        va_end(arguments);
        return 0;
}

int sd_notify(int unset, const char *text)
{
        return sd_notifyf(unset, "%s", text);
}

uint64_t sb_scribe_renew(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        (void)scribe, (void)memory;
        return UINT64_MAX;
}

void sb_scribe_end(struct sb_scribe *scribe, const struct sb_memory *memory)
{
        (void)scribe, (void)memory;
        shared->scribes_ended++;
}

void sb_directory_own(const struct sb_directory *directory)
{
        (void)directory;
        shared->owned++;
}

void sb_directory_leave(const struct sb_directory *directory)
{
        (void)directory;
        shared->left++;
}

static int make_segment(const struct sb_config *config, int directory_fd, struct sb_memory *ret)
{
        (void)config, (void)directory_fd;
        if (shared->make_fails || shared->made == SEGMENTS)
                return -1;
        *ret = (struct sb_memory){.fd = -1, .super = &shared->segments[shared->made++].super};
        sb_store_relaxed(&ret->super->state, SB_SEGMENT_SERVING); /* a plain value, as below */
        return 0;
}

/* Whether the kernel would mark words when this process dies now. */
static bool holds_a_life(void)
{
        struct robust_list_head *head;
        size_t size;

        return __real_syscall(SYS_get_robust_list, 0, &head, &size) ||
               head->list.next != &head->list;
}

void sb_memory_drop(struct sb_memory *memory)
{
        sb_store_relaxed(&memory->super->state, SB_SEGMENT_REPLACED);
        shared->held_when_dropped |= holds_a_life();
        shared->dropped++;
        *memory = (struct sb_memory){.fd = -1};
}

/* ---- an engine ---- */

static void rest(void)
{
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Say that the segment is adopted, and wait until the supervisor has noted when. */
static void adopt(const struct sb_supervisor *supervisor)
{
        uint64_t reads = shared->clock_reads;

        (void)!send(supervisor->channel, &(char){SB_SUPERVISOR_ADOPTED}, 1, MSG_NOSIGNAL);
        while (shared->clock_reads == reads)
                rest();
}

/* Serve until the supervisor says stop, or is dead. */
static enum sb_engine_end serve(const struct sb_supervisor *supervisor, int end)
{
        struct pollfd fds[2] = {{.fd = supervisor->channel, .events = POLLIN},
                {.fd = supervisor->self_fd, .events = POLLIN}};
        char word = 0;

        if (end == IS_DEAF)
                fds[0].fd = -1;
        if (end == HANGS_UP)
                close(supervisor->channel);
        while (__real_poll(fds, 2, -1) > 0) {
                if (fds[1].revents)
                        return end == UNSOUND_AT_LAST ? SB_ENGINE_UNSOUND
                                                      : SB_ENGINE_SUPERVISOR_DIED;
                if (recv(supervisor->channel, &word, 1, 0) != 1)
                        fds[0].fd = -1;
                if (word != SB_SUPERVISOR_STOP)
                        continue;
                shared->stopped_by_word++;
                if (end != LOSES)
                        return SB_ENGINE_STOPPED;
                kill(getppid(), SIGKILL);
                (void)__real_poll(&fds[1], 1, PATIENCE_MS);
                return SB_ENGINE_LOST;
        }
        return SB_ENGINE_FAILED;
}

static enum sb_engine_end run_engine(struct sb_supervisor *supervisor)
{
        uint32_t number = shared->started;
        const struct engine *engine = &shared->script[number];

        if (number == ENGINES - 1)
                _exit(99);
        shared->seen[number].waited_ms = shared->waited_ms;
        shared->seen[number].segment =
                (uint32_t)((char *)supervisor->memory.super - (char *)shared->segments) /
                (uint32_t)sizeof(shared->segments[0]);
        shared->seen[number].pid = getpid();
        shared->started++;
        sb_life_hold(supervisor->memory.super, SB_LIFE_ENGINE);
        if (engine->adopts || engine->end == SERVES)
                adopt(supervisor);
        if (engine->end == HASTE) {
                /* The supervisor reads the word when this process is dead. */
                kill(getppid(), SIGSTOP);
                (void)!send(supervisor->channel, &(char){SB_SUPERVISOR_ADOPTED}, 1, MSG_NOSIGNAL);
                shared->working = number + 1;
                kill(getpid(), SIGKILL);
        }
        shared->now_ns += engine->works_ns;
        shared->working = number + 1;
        if (engine->end == FAILS)
                return SB_ENGINE_FAILED;
        if (engine->end == UNSOUND)
                return SB_ENGINE_UNSOUND;
        if (engine->end <= 0)
                return serve(supervisor, engine->end);
        (void)signal(engine->end, SIG_DFL);
        kill(getpid(), engine->end);
        for (;;)
                pause();
}

/* ---- a supervisor ---- */

static pid_t supervisor_pid;
static enum sb_log_mode mode = SB_LOG_NONE; /* of the next one */

static int supervise(const sigset_t *stops)
{
        const struct sb_config config = {.mode = mode};
        struct sb_supervisor supervisor = {.run_engine = run_engine,
                .config = &config,
                .make_segment = make_segment,
                .scribe = {.out = -1, .pidfd = -1},
                .signal_fd = signalfd(-1, stops, SFD_CLOEXEC | SFD_NONBLOCK),
                .self_fd = -1,
                .engine_fd = -1,
                .maps_fd = -1,
                .channel = -1};

        return make_segment(&config, -1, &supervisor.memory) ? 98 : sb_supervisor_run(&supervisor);
}

/* A failed test leaves processes behind, which are children of this one in the end. */
static void end_leftovers(void)
{
        char path[64];
        int child = 0;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        for (;;) {
                FILE *file = fopen(path, "re");
                bool any = file && fscanf(file, "%d", &child) == 1;

                if (file)
                        fclose(file);
                if (!any)
                        return;
                kill(child, SIGKILL);
                waitpid(child, NULL, 0);
        }
}

static void begin(const struct engine *script, size_t count)
{
        sigset_t stops;

        end_leftovers();
        memset((void *)shared, 0, sizeof(*shared));
        shared->now_ns = SECOND_NS;
        memcpy(shared->script, script, count * sizeof(*script));
        sigemptyset(&stops);
        sigaddset(&stops, SIGTERM);
        sigprocmask(SIG_BLOCK, &stops, NULL);
        supervisor_pid = __real_fork();
        if (supervisor_pid == 0)
                _exit(supervise(&stops));
}
#define BEGIN(...)                                                                                 \
        begin((const struct engine[]){__VA_ARGS__},                                                \
                sizeof((const struct engine[]){__VA_ARGS__}) / sizeof(struct engine))

/* Wait until @condition holds, but not for ever. */
#define WAIT(condition)                                                                            \
        ({                                                                                         \
                int left_ = PATIENCE_MS * 5;                                                       \
                while (!(condition) && left_-- > 0)                                                \
                        rest();                                                                    \
                condition;                                                                         \
        })
/* Wait until engine @number works, the first of which is 0. */
#define WORKS(number) WAIT(shared->working == (number) + 1)

/* End what is left. Return: the supervisor's exit status; 128 + signal. */
static int end(pid_t supervisor, int number)
{
        int status, left = PATIENCE_MS * 5;

        if (supervisor <= 0)
                return -1;
        kill(supervisor, number);
        while (waitpid(supervisor, &status, WNOHANG) == 0 && left-- > 0)
                rest();
        if (left <= 0)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether engine @number came so many seconds of waiting after the first one. */
static bool waited(uint32_t number, uint64_t seconds)
{
        uint64_t ms = shared->seen[number].waited_ms;

        return ms >= seconds * 1000 && ms <= seconds * 1001;
}

static uint64_t pid_word(uint32_t segment)
{
        return sb_load_relaxed(&shared->segments[segment].super.supervisor);
}
static uint32_t supervisor_word(uint32_t segment)
{
        return sb_load_relaxed(&shared->segments[segment].super.supervisor_life);
}
static uint32_t engine_word(uint32_t segment)
{
        return sb_load_relaxed(&shared->segments[segment].super.engine_life);
}

static const struct engine killed = {.adopts = true, .end = SIGKILL}, crashes = {.end = SIGSEGV},
                           fails = {.end = FAILS};

/* ---- tests ---- */

static void test_engines_that_fail_in_a_row_are_replaced_once_a_second(void)
{
        BEGIN(fails, fails, fails, fails);
        CHECK(WORKS(4));
        CHECK(waited(1, 0) && waited(2, 1) && waited(3, 2) && waited(4, 3));
        CHECK_EQ(shared->made, 1);
        CHECK(strstr(shared->said, "ended with status 1; starting another"));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_an_engine_that_worked_ends_the_count_of_failures(void)
{
        BEGIN(fails, fails, killed, fails, fails);
        CHECK(WORKS(5));
        CHECK(waited(1, 0) && waited(2, 1) && waited(3, 1) && waited(4, 1) && waited(5, 2));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_engines_killed_while_they_work_are_replaced_at_once_however_many(void)
{
        BEGIN(killed, killed, killed, killed, killed, killed);
        CHECK(WORKS(6));
        CHECK(waited(6, 0));
        CHECK_EQ(shared->ready, 1);
        CHECK(strstr(shared->said, "was ended by signal 9 (Killed); starting another"));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_an_engine_that_is_killed_before_its_word_is_read_has_worked(void)
{
        struct pollfd gone = {.events = POLLIN};

        BEGIN(fails, {.end = HASTE}, fails);
        CHECK(WORKS(1));
        gone.fd = (int)syscall(SYS_pidfd_open, shared->seen[1].pid, 0);
        CHECK_EQ(__real_poll(&gone, 1, PATIENCE_MS), 1);
        close(gone.fd);
        kill(supervisor_pid, SIGCONT);
        CHECK(WORKS(3));
        CHECK(waited(3, 0));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

/* A crash counts as a failure in the first second of work, and as an accident later. The segment is
 * not given up for either. */
static void test_a_crash_soon_after_adoption_is_a_failure(void)
{
        struct engine soon = {.adopts = true, .end = SIGSEGV, .works_ns = SECOND_NS - 1};
        struct engine late = {.adopts = true, .end = SIGSEGV, .works_ns = SECOND_NS};
        struct engine ends = {.adopts = true, .end = FAILS, .works_ns = 5 * SECOND_NS};

        BEGIN(soon, soon, soon, soon, late, soon, late);
        CHECK(WORKS(7));
        CHECK(waited(1, 0) && waited(2, 1) && waited(3, 2) && waited(4, 3));
        CHECK(waited(5, 3) && waited(6, 3) && waited(7, 3));
        CHECK_EQ(shared->made, 1);
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        BEGIN(late, late, late, ends, ends);
        CHECK(WORKS(5));
        CHECK(waited(3, 0) && waited(4, 0) && waited(5, 1));
        CHECK_EQ(shared->made, 1);
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_three_crashes_before_adoption_are_the_segments_fault_and_other_ends_are_not(void)
{
        static const struct {
                int end;
                uint32_t made;
        } cases[] = {{SIGSEGV, 2}, {SIGBUS, 2}, {SIGILL, 2}, {SIGFPE, 2}, {SIGABRT, 2},
                {SIGTRAP, 2}, {SIGKILL, 1}, {SIGHUP, 1}, {SIGSYS, 1}, {SIGUSR1, 1}, {FAILS, 1}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct engine one = {.end = cases[i].end};

                BEGIN(one, one, one);
                CHECK(WORKS(3));
                CHECK_EQ(shared->seen[2].segment, 0);
                CHECK_EQ(shared->seen[3].segment, cases[i].made - 1);
                CHECK_EQ(shared->made, cases[i].made);
                CHECK_EQ(!!strstr(shared->said, "3 engines in a row crashed"), cases[i].made - 1);
                CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        }
}

static void test_crashes_are_counted_from_the_last_adoption_or_the_last_segment(void)
{
        BEGIN(crashes, crashes, killed, crashes, crashes, killed, crashes, crashes);
        CHECK(WORKS(8));
        CHECK_EQ(shared->made, 1);
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        /* A new segment is tried at once, and as often as the one before. */
        BEGIN(crashes, crashes, crashes, crashes, crashes, crashes, fails);
        CHECK(WORKS(7));
        CHECK(waited(2, 1) && waited(3, 1) && waited(4, 1) && waited(5, 2) && waited(6, 2));
        CHECK(waited(7, 2));
        CHECK_EQ(shared->seen[5].segment, 1);
        CHECK_EQ(shared->seen[6].segment, 2);
        CHECK_EQ(shared->made, 3);
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_an_unsound_segment_is_replaced_at_once_and_the_new_one_names_its_processes(void)
{
        struct engine unsound = {.end = UNSOUND};

        BEGIN(fails, fails, unsound, fails);
        CHECK(WORKS(4));
        CHECK(waited(2, 1) && waited(3, 1) && waited(4, 1));
        CHECK(shared->made == 2 && shared->dropped == 1 && !shared->held_when_dropped);
        CHECK_EQ(shared->seen[3].segment, 1);
        CHECK_EQ(sb_load_relaxed(&shared->segments[0].super.state), SB_SEGMENT_REPLACED);
        CHECK_EQ(pid_word(1), supervisor_pid);
        CHECK_EQ(supervisor_word(1), supervisor_pid);
        CHECK_EQ(engine_word(1), shared->seen[4].pid);
        /* The kernel marks what has died; clients go by that. */
        kill(shared->seen[4].pid, SIGSTOP);
        CHECK_EQ(end(supervisor_pid, SIGKILL), 128 + SIGKILL);
        CHECK_EQ(supervisor_word(1) & SB_LIFE_DIED, SB_LIFE_DIED);
        CHECK_EQ(engine_word(1), shared->seen[4].pid);
        CHECK_EQ(end(shared->seen[4].pid, SIGKILL), 128 + SIGKILL);
        CHECK_EQ(engine_word(1) & SB_LIFE_DIED, SB_LIFE_DIED);
}

static void test_of_a_new_segment_it_is_said_what_is_in_it(void)
{
        static const struct {
                enum sb_log_mode mode;
                const char *says, *says_not;
        } cases[] = {{SB_LOG_NONE, "what was in the old one is lost", "from what the log has"},
                {SB_LOG_BATCHED, "from what the log has", "what was in the old one is lost"}};

        for (uint32_t i = 0; i < 2; i++) {
                mode = cases[i].mode;
                BEGIN({.end = UNSOUND}, {.end = SERVES});
                mode = SB_LOG_NONE;
                CHECK(WORKS(1));
                CHECK(strstr(shared->said, cases[i].says));
                CHECK(!strstr(shared->said, cases[i].says_not));
                CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        }
}

/* For what stops it and has its segment still; @before: what the segment said. */
static bool stop_says(int how, uint32_t before, int status, uint32_t says)
{
        mode = SB_LOG_BATCHED;
        BEGIN({.adopts = true, .end = how});
        mode = SB_LOG_NONE;
        if (!WORKS(0))
                return false;
        sb_store_relaxed(&shared->segments[0].super.log_error, before);
        return end(supervisor_pid, SIGTERM) == status &&
               sb_load_relaxed(&shared->segments[0].super.log_error) == says;
}

static void test_the_last_word_of_a_durable_bus_is_whether_something_is_lost(void)
{
        CHECK(stop_says(SERVES, 0, 0, 0));
        CHECK(stop_says(SERVES, ENOSPC, 0, 0)); /* there was trouble, and all is written */
        CHECK(stop_says(IS_DEAF, 0, SB_EXIT_FAILURE, EIO));
        CHECK(stop_says(IS_DEAF, ENOSPC, SB_EXIT_FAILURE, ENOSPC));
}

static void test_where_no_new_segment_can_be_made_the_bus_ends(void)
{
        BEGIN({.end = IS_DEAF});
        CHECK(WORKS(0));
        shared->make_fails = true;
        shared->script[1].end = UNSOUND;
        kill(shared->seen[0].pid, SIGKILL);
        CHECK_EQ(end(supervisor_pid, 0), SB_EXIT_FAILURE);
        CHECK_EQ(shared->left, 1);
        CHECK(strstr(shared->notified, "STOPPING=1"));
}

static void test_an_engine_that_becomes_the_supervisor_counts_anew(void)
{
        struct engine serves = {.end = SERVES};
        char mainpid[32], path[64], name[32] = "";
        pid_t second;
        FILE *file;

        BEGIN(fails, crashes, crashes, serves, crashes, crashes);
        CHECK(WORKS(3));
        second = shared->seen[3].pid;
        CHECK(waited(3, 2));
        CHECK_EQ(pid_word(0), supervisor_pid);
        CHECK_EQ(end(supervisor_pid, SIGKILL), 128 + SIGKILL);
        CHECK(WORKS(6));
        CHECK(waited(4, 2) && waited(5, 2) && waited(6, 3));
        CHECK_EQ(shared->made, 1);
        CHECK_EQ(shared->owned, 2);
        CHECK_EQ(pid_word(0), second);
        CHECK_EQ(supervisor_word(0), second);
        CHECK_EQ(engine_word(0), shared->seen[6].pid);
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)second);
        file = fopen(path, "re");
        CHECK(file && fgets(name, sizeof(name), file));
        fclose(file);
        CHECK(strcmp(name, "agentd\n") == 0);
        snprintf(mainpid, sizeof(mainpid), "MAINPID=%d\n", (int)second);
        CHECK(strstr(shared->notified, mainpid));
        CHECK_EQ(end(second, SIGTERM), 0);
        CHECK_EQ(shared->left, 1);
}

static void test_the_last_process_replaces_a_segment_that_it_found_unsound(void)
{
        BEGIN({.adopts = true, .end = UNSOUND_AT_LAST});
        CHECK(WORKS(0));
        CHECK_EQ(end(supervisor_pid, SIGKILL), 128 + SIGKILL);
        CHECK(WORKS(1));
        CHECK_EQ(shared->seen[1].segment, 1);
        CHECK_EQ(pid_word(1), shared->seen[0].pid);
        CHECK_EQ(supervisor_word(1), shared->seen[0].pid);
        CHECK_EQ(end(shared->seen[0].pid, SIGTERM), 0);
}

static void test_a_stop_asks_the_engine_and_kills_one_that_does_not_hear(void)
{
        BEGIN({.end = SERVES});
        CHECK(WORKS(0));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        CHECK_EQ(shared->stopped_by_word, 1);
        CHECK_EQ(shared->left, 1);
        CHECK_EQ(sb_load_relaxed(&shared->segments[0].super.state), SB_SEGMENT_REPLACED);
        CHECK(strstr(shared->notified, "READY=1") && strstr(shared->notified, "STOPPING=1"));
        BEGIN({.adopts = true, .end = IS_DEAF});
        CHECK(WORKS(0));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        CHECK_EQ(shared->stopped_by_word, 0);
        CHECK_EQ(kill(shared->seen[0].pid, 0), -1);
}

static void test_an_engine_that_was_told_to_stop_does_not_go_on_as_the_supervisor(void)
{
        BEGIN({.end = LOSES});
        CHECK(WORKS(0));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 128 + SIGKILL);
        CHECK_EQ(end(shared->seen[0].pid, 0), SB_ENGINE_LOST);
        CHECK_EQ(shared->stopped_by_word, 1);
        CHECK_EQ(shared->started, 1);
}

/* An engine that hangs up and lives on is left alone, without being looked at again and again. */
static void test_an_engine_that_hangs_up_is_waited_for(void)
{
        uint32_t polls;

        BEGIN({.end = HANGS_UP});
        CHECK(WORKS(0));
        polls = shared->polls;
        for (int i = 0; i < 50; i++)
                rest();
        CHECK(shared->polls < polls + 3);
        CHECK(shared->started == 1 && shared->ready == 0);
        kill(shared->seen[0].pid, SIGKILL);
        CHECK(WORKS(1));
        CHECK_EQ(shared->ready, 1);
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

/* How many children a process has, those included that nothing has waited for. */
static unsigned children_of(pid_t pid)
{
        char path[64];
        unsigned count = 0;
        FILE *file;
        int child;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        file = fopen(path, "re");
        while (file && fscanf(file, "%d", &child) == 1)
                count++;
        if (file)
                fclose(file);
        return count;
}

/* An engine that cannot be started is one that fails. */
static void test_an_engine_that_cannot_be_started_is_tried_again_once_a_second(void)
{
        static const struct {
                int call;
                const char *says;
        } cases[] = {{SOCKETS, "cannot start an engine"}, {FORK, "cannot start an engine"},
                {ENGINES_PIDFD, "cannot watch the engine"}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                broken = cases[i].call;
                broken_times = 3;
                BEGIN({.end = SERVES});
                broken = NONE;
                CHECK(WAIT(shared->ready == 1));
                CHECK(shared->waited_ms >= 2000 && shared->waited_ms <= 2002);
                CHECK(strstr(shared->said, cases[i].says));
                CHECK_EQ(shared->made, 1);
                CHECK_EQ(children_of(supervisor_pid), 1);
                CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
        }
}

static void test_a_wait_that_is_interrupted_goes_on(void)
{
        broken = WAITING;
        broken_times = 3;
        BEGIN(killed);
        broken = NONE;
        CHECK(WORKS(1));
        CHECK_EQ(end(supervisor_pid, SIGTERM), 0);
}

static void test_a_supervisor_that_cannot_watch_processes_starts_no_engine(void)
{
        broken = OWN_PIDFD;
        broken_times = 1;
        BEGIN({.end = SERVES});
        broken = NONE;
        CHECK_EQ(end(supervisor_pid, 0), SB_EXIT_FAILURE);
        CHECK(shared->started == 0 && shared->left == 1);
        CHECK(strstr(shared->said, "Linux 5.3 or later"));
}

int main(int argc, char **argv)
{
        struct rlimit none = {0, 0};

        test_begin(argc, argv);
        shared = mmap(
                NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                return 1;
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        RUN(test_engines_that_fail_in_a_row_are_replaced_once_a_second);
        RUN(test_an_engine_that_worked_ends_the_count_of_failures);
        RUN(test_engines_killed_while_they_work_are_replaced_at_once_however_many);
        RUN(test_an_engine_that_is_killed_before_its_word_is_read_has_worked);
        RUN(test_a_crash_soon_after_adoption_is_a_failure);
        RUN(test_three_crashes_before_adoption_are_the_segments_fault_and_other_ends_are_not);
        RUN(test_crashes_are_counted_from_the_last_adoption_or_the_last_segment);
        RUN(test_an_unsound_segment_is_replaced_at_once_and_the_new_one_names_its_processes);
        RUN(test_of_a_new_segment_it_is_said_what_is_in_it);
        RUN(test_the_last_word_of_a_durable_bus_is_whether_something_is_lost);
        RUN(test_where_no_new_segment_can_be_made_the_bus_ends);
        RUN(test_an_engine_that_becomes_the_supervisor_counts_anew);
        RUN(test_the_last_process_replaces_a_segment_that_it_found_unsound);
        RUN(test_a_stop_asks_the_engine_and_kills_one_that_does_not_hear);
        RUN(test_an_engine_that_was_told_to_stop_does_not_go_on_as_the_supervisor);
        RUN(test_an_engine_that_hangs_up_is_waited_for);
        RUN(test_an_engine_that_cannot_be_started_is_tried_again_once_a_second);
        RUN(test_a_wait_that_is_interrupted_goes_on);
        RUN(test_a_supervisor_that_cannot_watch_processes_starts_no_engine);
        end_leftovers();
        return test_end();
}
