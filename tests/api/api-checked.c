/* The checked mode (STATEBUS_CHECKED=1): a bus that two threads use at once, that a forked child
 * uses, or that was closed ends its program with a line that says so; and a program that makes none
 * of these mistakes notices nothing. Each mistake is made in a child, which has a world of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes all = {NULL, 0};

/* What the child has of the bus before its mistake. */
static struct sb_guard held, own, copy;
static struct sb_scan *scan;
static struct sb_txn *txn;
static struct sb_history *history;
static struct sb_watch *prefix;

static int do_nothing(void *argument, struct sb_txn *attempt)
{
        (void)argument;
        (void)attempt;
        return 0;
}
static int is_so(void *argument, const struct sb_guard *guards, size_t of)
{
        (void)argument;
        (void)guards;
        return of != 1;
}
static int set_nothing(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)argument;
        (void)old;
        (void)ret_value;
        return -EALREADY;
}

/* ---- each call ---- */

static struct sb_guard got;
static struct sb_history *new_history;
static struct sb_scan *new_scan;
static struct sb_txn *new_txn;
static struct sb_watch *watch;
static struct sb_rule rule = {.size = sizeof(rule)};
static struct sb_watch_options watch_options = {.size = sizeof(watch_options), .after = SB_ANY_REV};
static uint64_t cut;
static uint32_t number, generation;
static size_t count;

#define CALLS(X)                                                                                   \
        X(sb_get, (bus, b("key"), &got))                                                           \
        X(sb_get_many, (bus, &(struct sb_bytes){"key", 3}, 1, &got))                               \
        X(sb_get_many_at, (bus, &(struct sb_bytes){"key", 3}, 1, 0, &got))                         \
        X(sb_set, (bus, b("key"), b("v"), NULL, NULL))                                             \
        X(sb_cas, (bus, b("key"), 1, b("v"), NULL, NULL))                                          \
        X(sb_delete, (bus, b("key"), SB_ANY_REV, NULL, NULL))                                      \
        X(sb_delete_range, (bus, NULL, b("a"), b("z"), 0, NULL, NULL))                             \
        X(sb_update, (bus, b("key"), set_nothing, NULL, NULL, NULL))                               \
        X(sb_incr, (bus, b("key"), 1, NULL, NULL, NULL))                                           \
        X(sb_max, (bus, b("key"), 1, NULL, NULL, NULL))                                            \
        X(sb_append, (bus, b("key"), b("v"), NULL, NULL))                                          \
        X(sb_flush, (bus, 0))                                                                      \
        X(sb_client, (bus, &number, &generation))                                                  \
        X(sb_alive, (bus, 1, 1))                                                                   \
        X(sb_watch_open, (bus, b("key"), 0, 0, &watch))                                            \
        X(sb_watch_open_at, (bus, b("key"), &watch_options, &watch))                               \
        X(sb_watch_next, (prefix, 0, &got))                                                        \
        X(sb_watch_dropped, (prefix))                                                              \
        X(sb_watch_ready, (bus))                                                                   \
        X(sb_wait, (bus, 0))                                                                       \
        X(sb_wait_until, (bus, &(struct sb_bytes){"key", 3}, 1, is_so, NULL, 0))                   \
        X(sb_fd, (bus))                                                                            \
        X(sb_txn_begin, (bus, SB_SNAPSHOT, &new_txn))                                              \
        X(sb_txn_get, (txn, b("key"), &got))                                                       \
        X(sb_txn_get_many, (txn, &(struct sb_bytes){"key", 3}, 1, &got))                           \
        X(sb_txn_set, (txn, b("key"), b("v")))                                                     \
        X(sb_txn_delete, (txn, b("key")))                                                          \
        X(sb_txn_commit, (txn, NULL))                                                              \
        X(sb_transact, (bus, SB_SNAPSHOT, do_nothing, NULL, NULL))                                 \
        X(sb_scan_open, (bus, NULL, all, &new_scan))                                               \
        X(sb_scan_open_at, (bus, all, NULL, &new_scan))                                            \
        X(sb_scan_next, (scan, &got))                                                              \
        X(sb_scan_next_many, (scan, &got, 1, &count))                                              \
        X(sb_scan_prev, (scan, &got))                                                              \
        X(sb_scan_seek, (scan, b("key")))                                                          \
        X(sb_scan_seek_last, (scan, b("key")))                                                     \
        X(sb_scan_seek_end, (scan))                                                                \
        X(sb_cut_at, (bus, 1, &cut))                                                               \
        X(sb_mark, (bus, b("mark"), &cut))                                                         \
        X(sb_mark_find, (bus, b("mark"), &cut))                                                    \
        X(sb_mark_drop, (bus, b("mark")))                                                          \
        X(sb_keep, (bus, b("key"), 0, &rule))                                                      \
        X(sb_kept, (bus, b("key"), 0, &rule))                                                      \
        X(sb_get_at, (bus, b("key"), 2, &got))                                                     \
        X(sb_history_open, (bus, b("key"), 0, &new_history))                                       \
        X(sb_history_next, (history, &got, NULL))                                                  \
        X(sb_restore, (bus, b("key"), 0, 2, NULL))
/* Those that end something, which a forked child may do, too. */
#define ENDS(X)                                                                                    \
        X(sb_guard_release, (&held))                                                               \
        X(sb_txn_end, (txn))                                                                       \
        X(sb_scan_close, (scan))                                                                   \
        X(sb_history_close, (history))                                                             \
        X(sb_watch_close, (prefix))                                                                \
        X(sb_close, (bus))

#define FUNCTION(name, arguments)                                                                  \
        static void call_##name(void)                                                              \
        {                                                                                          \
                (void)!name arguments;                                                             \
        }
#define ROW(name, arguments) {#name, call_##name},
#define END_FUNCTION(name, arguments)                                                              \
        static void call_##name(void)                                                              \
        {                                                                                          \
                (void)name arguments;                                                              \
        }
CALLS(FUNCTION)
ENDS(END_FUNCTION)
static const struct {
        const char *name;
        void (*call)(void);
} calls[] = {CALLS(ROW)}, ends[] = {ENDS(ROW)};
#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))
#define END_COUNT  (sizeof(ends) / sizeof(ends[0]))

/* ---- the child ---- */

static char said[1024]; /* the child's standard error */

/* Run @function in a child, with the checked mode on or off, on a bus with one of each. Return: its
 * status as of waitpid(). */
static int run_child(bool checked, void (*function)(void (*)(void)), void (*call)(void))
{
        int ends_of[2], status = -1;
        size_t len = 0;
        ssize_t part;
        pid_t pid;

        if (pipe(ends_of) < 0)
                return -1;
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){0});
                signal(SIGABRT, SIG_DFL);
                dup2(ends_of[1], STDERR_FILENO);
                close(ends_of[0]);
                close(ends_of[1]);
                setenv("STATEBUS_CHECKED", checked ? "1" : "0", 1);
                unsetenv("SB_API_WORLD");
                if (world_open(&world, 4 * MIB, 8))
                        _exit(3);
                bus = world_bus(&world);
                if (!bus || sb_set(bus, b("key"), b("1"), NULL, NULL) != 0 ||
                        sb_get(bus, b("key"), &held) != 0 ||
                        sb_txn_begin(bus, SB_SNAPSHOT, &txn) != 0 ||
                        sb_txn_set(txn, b("key"), b("2")) != 0 ||
                        sb_txn_get(txn, b("key"), &own) != 0 ||
                        sb_scan_open(bus, NULL, all, &scan) != 0 ||
                        sb_history_open(bus, b("key"), 0, &history) != 0 ||
                        sb_watch_open(bus, all, SB_PREFIX, SB_ANY_REV, &prefix) != 0)
                        _exit(4);
                function(call);
                _exit(0);
        }
        close(ends_of[1]);
        while ((part = read(ends_of[0], said + len, sizeof(said) - 1 - len)) > 0)
                len += (size_t)part;
        close(ends_of[0]);
        said[len] = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        return status;
}

static bool was_aborted(int status)
{
        return status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* ---- two threads ---- */

static sem_t inside, leave;

static int stay_inside(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)argument;
        (void)old;
        (void)ret_value;
        sem_post(&inside);
        while (sem_wait(&leave) < 0)
                ;
        return -EALREADY;
}

static void *use_it_elsewhere(void *argument)
{
        pthread_setname_np(pthread_self(), "elsewhere");
        if (sb_update(bus, b("key"), stay_inside, argument, NULL, NULL) != -EALREADY)
                _exit(5);
        return NULL;
}

static void call_beside_a_thread(void (*call)(void))
{
        pthread_t thread;

        sem_init(&inside, 0, 0);
        sem_init(&leave, 0, 0);
        pthread_setname_np(pthread_self(), "here");
        if (pthread_create(&thread, NULL, use_it_elsewhere, NULL) != 0)
                _exit(6);
        while (sem_wait(&inside) < 0)
                ;
        call();
        sem_post(&leave);
        pthread_join(thread, NULL);
}

static void test_a_call_beside_another_threads_names_both(void)
{
        for (size_t i = 0; i < CALL_COUNT + END_COUNT; i++) {
                const char *name = i < CALL_COUNT ? calls[i].name : ends[i - CALL_COUNT].name;
                unsigned one, other;
                char line[128];
                int whole = 0;

                CHECK(was_aborted(run_child(true, call_beside_a_thread,
                        i < CALL_COUNT ? calls[i].call : ends[i - CALL_COUNT].call)));
                snprintf(line, sizeof(line),
                        "statebus: %s() by thread %%u (here) while thread %%u "
                        "(elsewhere) is in sb_update() on the same bus%%n",
                        name);
                if (sscanf(said, line, &one, &other, &whole) != 2 || !whole || one == other ||
                        !strstr(said, "in sb_update() on the same bus: a bus belongs to one thread "
                                      "at a time\n"))
                        TEST_FAIL("%s: %s", name, said);
        }
}

static void *use_it_for_ever(void *argument)
{
        struct sb_guard guard = {0};

        for (;;) {
                if (argument)
                        (void)!sb_set(bus, b("key"), b("value"), NULL, NULL);
                else if (sb_get(bus, b("key"), &guard) == 0)
                        sb_guard_release(&guard);
        }
        return NULL;
}

static void race(void (*call)(void))
{
        pthread_t thread;

        (void)call;
        alarm(60);
        if (pthread_create(&thread, NULL, use_it_for_ever, bus) != 0)
                _exit(6);
        use_it_for_ever(NULL);
}

static void test_two_threads_that_share_a_bus_are_found(void)
{
        CHECK(was_aborted(run_child(true, race, NULL)));
        CHECK(strstr(said, "on the same bus: a bus belongs to one thread at a time\n"));
}

/* ---- fork ---- */

static void call_in_a_child(void (*call)(void))
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                call();
                _exit(0);
        }
        if (waitpid(pid, &status, 0) != pid)
                _exit(6);
        if (WIFSIGNALED(status))
                raise(WTERMSIG(status));
        /* The parent goes on. */
        if (sb_set(bus, b("key"), b("more"), NULL, NULL) != 0)
                _exit(7);
        _exit(WEXITSTATUS(status));
}

static void test_a_call_in_a_forked_child_names_both_processes(void)
{
        for (size_t i = 0; i < CALL_COUNT; i++) {
                unsigned one, other;
                char line[128];

                CHECK(was_aborted(run_child(true, call_in_a_child, calls[i].call)));
                snprintf(line, sizeof(line),
                        "statebus: %s() in process %%u on a bus that process %%u opened:",
                        calls[i].name);
                if (sscanf(said, line, &one, &other) != 2 || one == other ||
                        !strstr(said, " fork(),"))
                        TEST_FAIL("%s: %s", calls[i].name, said);
        }
}

static void test_a_forked_child_may_end_what_it_has(void)
{
        for (size_t i = 0; i < END_COUNT; i++)
                if (run_child(true, call_in_a_child, ends[i].call) != 0 || said[0])
                        TEST_FAIL("%s: %s", ends[i].name, said);
}

/* ---- a closed bus ---- */

static void call_after_close(void (*call)(void))
{
        copy = own;
        sb_guard_release(&own);
        sb_close(bus);
        call();
}

static void release_a_copy(void)
{
        sb_guard_release(&held);
        sb_guard_release(&copy);
}

static void test_a_call_on_a_closed_bus_is_named(void)
{
        for (size_t i = 0; i < CALL_COUNT; i++) {
                int status = run_child(true, call_after_close, calls[i].call);
                char line[128];

                /* What came from the bus knows that it was closed. */
                if (!strstr(calls[i].name, "open") && !strstr(calls[i].name, "begin") &&
                        !strstr(calls[i].name, "ready") &&
                        (strstr(calls[i].name, "scan_") || strstr(calls[i].name, "txn_") ||
                                strstr(calls[i].name, "history_") ||
                                strstr(calls[i].name, "watch_"))) {
                        CHECK_EQ(status, 0);
                        continue;
                }
                snprintf(line, sizeof(line), "statebus: %s() on a bus that sb_close() has ended\n",
                        calls[i].name);
                if (!was_aborted(status) || strcmp(said, line) != 0)
                        TEST_FAIL("%s: %s", calls[i].name, said);
        }
        CHECK(was_aborted(run_child(true, call_after_close, call_sb_close)));
        CHECK(strcmp(said, "statebus: sb_close() on a bus that sb_close() has ended\n") == 0);
}

static void test_a_copy_of_a_released_guard_is_named_after_the_close(void)
{
        CHECK(was_aborted(run_child(true, call_after_close, release_a_copy)));
        CHECK(strstr(said, "statebus: sb_guard_release() of a copy of a guard that was released"));
        CHECK_EQ(run_child(true, call_after_close, call_sb_guard_release), 0);
}

/* ---- no mistake ---- */

static int use_within(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)old;
        *ret_value = b("5");
        return sb_set(argument, b("other"), b("v"), NULL, NULL) == 0 &&
                               sb_get(argument, b("other"), &got) == 0
                       ? 0
                       : -EBADMSG;
}

static void *use_and_hand_back(void *argument)
{
        (void)argument;
        for (size_t i = 0; i < CALL_COUNT; i++) {
                calls[i].call();
                sb_guard_release(&got);
        }
        if (sb_update(bus, b("key"), use_within, bus, NULL, NULL) != 0)
                _exit(8);
        sb_guard_release(&got);
        return NULL;
}

static void hand_over(void (*call)(void))
{
        pthread_t thread;

        (void)call;
        for (unsigned i = 0; i < 5; i++) {
                if (pthread_create(&thread, NULL, use_and_hand_back, NULL) != 0)
                        _exit(6);
                pthread_join(thread, NULL);
                use_and_hand_back(NULL);
        }
        for (size_t i = 0; i < END_COUNT; i++)
                ends[i].call();
        sb_guard_release(&own);
        sb_txn_end(new_txn);
        sb_scan_close(new_scan);
        sb_history_close(new_history);
}

static void test_a_bus_may_go_from_thread_to_thread(void)
{
        CHECK_EQ(run_child(true, hand_over, NULL), 0);
        CHECK(!said[0]);
}

static void test_nothing_is_checked_unless_asked_for(void)
{
        for (size_t i = 0; i < CALL_COUNT; i++)
                if (run_child(false, call_in_a_child, calls[i].call) != 0 || said[0])
                        TEST_FAIL("%s: %s", calls[i].name, said);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_call_beside_another_threads_names_both);
        RUN(test_two_threads_that_share_a_bus_are_found);
        RUN(test_a_call_in_a_forked_child_names_both_processes);
        RUN(test_a_forked_child_may_end_what_it_has);
        RUN(test_a_call_on_a_closed_bus_is_named);
        RUN(test_a_copy_of_a_released_guard_is_named_after_the_close);
        RUN(test_a_bus_may_go_from_thread_to_thread);
        RUN(test_nothing_is_checked_unless_asked_for);
        return test_end();
}
