/*
 * What statebus.h says of costs that can be counted: which calls make system calls, and how many.
 *
 * How it works: a child opens a bus of its own and does the work between two calls of getppid();
 * the parent traces it and counts the system calls in between. The first round of the work, which
 * fills caches and allocates private memory, is not counted.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB         (UINT64_C(1) << 20)
#define ROUNDS      10000u
#define KEYS        64u
#define SETS_A_CALL 200u /* some 320 were measured: docs/benchmarks.md */

static struct world world;
static struct sb_bus *bus;
static struct sb_bytes keys[KEYS];

typedef bool work(void);

static bool open_world(void)
{
        static char texts[KEYS][16];

        if (world_open(&world, 16 * MIB, 8) || !(bus = world_bus(&world)))
                return false;
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(texts[i], sizeof(texts[i]), "key/%02u", i);
                keys[i] = b(texts[i]);
                if (sb_set(bus, keys[i], b("value"), NULL, NULL) != 0)
                        return false;
        }
        return true;
}

static void child(work *function)
{
        bool done;

        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(77);
        raise(SIGSTOP);
        if (!open_world() || !function())
                _exit(1);
        syscall(SYS_getppid);
        done = function();
        syscall(SYS_getppid);
        _exit(done ? 0 : 1);
}

/* At a stop of the child: whether it is entering a system call, and which. */
static bool entering(pid_t pid, uint64_t *ret_number)
{
        struct __ptrace_syscall_info info = {0};

        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) <= 0)
                return false;
        *ret_number = info.entry.nr;
        return info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

#define ANY (-1L)

/* Return: how many system calls of a number, or of any, one round of @function makes; -1: it
 * failed; -77: no tracing. */
static long count_of(work *function, long counted)
{
        uint64_t number;
        long count = 0;
        int status, marks = 0;
        pid_t pid = fork();

        if (pid == 0)
                child(function);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        if (WIFSTOPPED(status))
                ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
        while (WIFSTOPPED(status)) {
                if (entering(pid, &number)) {
                        marks += number == SYS_getppid;
                        count += marks == 1 && number != SYS_getppid &&
                                 (counted == ANY || number == (uint64_t)counted);
                }
                if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid)
                        return -1;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                return -77;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 && marks == 2 ? count : -1;
}

static long count_calls(work *function)
{
        return count_of(function, ANY);
}

#define CHECK_CALLS(function, most) CHECK_CALLS_OF(function, ANY, most)
#define CHECK_CALLS_OF(function, number, most)                                                     \
        do {                                                                                       \
                long calls = count_of(function, number);                                           \
                if (calls == -77)                                                                  \
                        TEST_SKIP("tracing is not permitted here");                                \
                CHECK(calls >= 0);                                                                 \
                CHECK(calls <= (long)(most));                                                      \
        } while (0)

static bool get(void)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < ROUNDS; i++) {
                if (sb_get(bus, keys[i % KEYS], &guard) != 0)
                        return false;
                sb_guard_release(&guard);
        }
        return true;
}

static bool get_many(void)
{
        struct sb_guard guards[KEYS] = {0};

        for (uint32_t i = 0; i < ROUNDS / KEYS; i++) {
                if (sb_get_many(bus, keys, KEYS, guards) != 0)
                        return false;
                for (uint32_t j = 0; j < KEYS; j++)
                        sb_guard_release(&guards[j]);
        }
        return true;
}

static bool read_in_transactions(void)
{
        struct sb_guard guard = {0};
        struct sb_txn *txn;

        for (uint32_t i = 0; i < ROUNDS / KEYS; i++) {
                if (sb_txn_begin(bus, SB_SERIALIZABLE, &txn) != 0)
                        return false;
                for (uint32_t j = 0; j < KEYS; j++) {
                        if (sb_txn_get(txn, keys[j], &guard) != 0)
                                return false;
                        sb_guard_release(&guard);
                }
                if (sb_txn_commit(txn, NULL) != 0)
                        return false;
                sb_txn_end(txn);
        }
        return true;
}

static bool scan(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *walk;

        for (uint32_t i = 0; i < ROUNDS / KEYS; i++) {
                if (sb_scan_open(bus, NULL, b("key/"), &walk) != 0)
                        return false;
                while (sb_scan_next(walk, &guard) == 0)
                        sb_guard_release(&guard);
                sb_scan_close(walk);
        }
        return true;
}

static bool set(void)
{
        for (uint32_t i = 0; i < ROUNDS; i++)
                if (sb_set(bus, keys[i % KEYS], b("other"), NULL, NULL) != 0)
                        return false;
        return true;
}

#define TURNS 100u

/* A watch with a descriptor, which the first round makes. */
static struct sb_watch *watched(void)
{
        static struct sb_watch *watch;

        if (!watch && (sb_watch_open(bus, keys[0], 0, SB_ANY_REV, &watch) != 0 || sb_fd(bus) < 0))
                return NULL;
        return watch;
}

static bool find_nothing(void)
{
        struct sb_guard change = {0};

        for (uint32_t i = 0; i < TURNS; i++)
                if (!watched() || sb_watch_next(watched(), 0, &change) != SB_E_TIMED_OUT)
                        return false;
        return true;
}

/* A change of its own, which rings its own bell; it is taken, and then there is nothing. */
static bool turn_round(void)
{
        struct sb_guard change = {0};

        for (uint32_t i = 0; i < TURNS; i++) {
                if (!watched() || sb_set(bus, keys[0], b("new"), NULL, NULL) != 0 ||
                        sb_watch_next(watched(), 0, &change) != 0)
                        return false;
                sb_guard_release(&change);
                if (sb_watch_next(watched(), 0, &change) != SB_E_TIMED_OUT)
                        return false;
        }
        return true;
}

/* A watch of each key and one of them all, by a client that does not sleep; it reads each change.
 */
static bool set_watched(void)
{
        static struct sb_watch *watches[KEYS], *all;
        struct sb_guard change = {0};

        if (!all && sb_watch_open(bus, b("key/"), SB_PREFIX, SB_ANY_REV, &all) != 0)
                return false;
        for (uint32_t i = 0; i < ROUNDS; i++) {
                struct sb_watch **watch = &watches[i % KEYS];

                if (!*watch && sb_watch_open(bus, keys[i % KEYS], 0, SB_ANY_REV, watch) != 0)
                        return false;
                if (sb_set(bus, keys[i % KEYS], b("other"), NULL, NULL) != 0 ||
                        sb_wait(bus, 0) != 0 || sb_watch_next(*watch, 0, &change) != 0)
                        return false;
                sb_guard_release(&change);
                if (sb_watch_next(all, 0, &change) != 0)
                        return false;
                sb_guard_release(&change);
        }
        return true;
}

/* A wait that ends while it still looks, and one that does not look. */
static bool wait_for(uint64_t spin_ns)
{
        static struct sb_watch *watch;

        if (!watch && sb_watch_open(bus, keys[0], 0, SB_ANY_REV, &watch) != 0)
                return false;
        bus->watches.spin_ns = spin_ns;
        return sb_wait(bus, now_ns() + 2000000) == SB_E_TIMED_OUT;
}
static bool wait_spinning(void)
{
        return wait_for(UINT64_MAX);
}
static bool wait_asleep(void)
{
        return wait_for(0);
}

/* The counting itself: this makes one for each round. */
static bool make_calls(void)
{
        for (uint32_t i = 0; i < 100; i++)
                syscall(SYS_gettid);
        return true;
}

static void test_system_calls_are_counted(void)
{
        long calls = count_calls(make_calls);

        if (calls == -77)
                TEST_SKIP("tracing is not permitted here");
        CHECK_EQ(calls, 100);
}

static void test_a_get_and_its_release_make_no_system_call(void)
{
        CHECK_CALLS(get, 0);
        CHECK_CALLS(get_many, 0);
}

static void test_reads_at_a_cut_make_no_system_call(void)
{
        CHECK_CALLS(read_in_transactions, 0);
        CHECK_CALLS(scan, 0);
}

static void test_hundreds_of_sets_share_one_system_call(void)
{
        CHECK_CALLS(set, ROUNDS / SETS_A_CALL);
        TEST_NOTE("%u sets: %ld system calls", ROUNDS, count_calls(set));
}

static void test_sets_make_none_for_watches_of_clients_that_do_not_sleep(void)
{
        CHECK_CALLS_OF(set_watched, SYS_futex, 0);
        TEST_NOTE("%u sets that are watched, and read: %ld system calls", ROUNDS,
                count_calls(set_watched));
}

static void test_a_wait_makes_none_while_it_looks(void)
{
        CHECK_CALLS(wait_spinning, 0);
        TEST_NOTE("a wait that sleeps: %ld", count_calls(wait_asleep));
}

static void test_a_descriptor_costs_what_the_header_says(void)
{
        CHECK_CALLS(find_nothing, TURNS);
        CHECK_CALLS(turn_round, 4 * TURNS + 1);
        TEST_NOTE("%u changes by a descriptor: %ld system calls, the writer's among them", TURNS,
                count_calls(turn_round));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_system_calls_are_counted);
        RUN(test_a_get_and_its_release_make_no_system_call);
        RUN(test_reads_at_a_cut_make_no_system_call);
        RUN(test_hundreds_of_sets_share_one_system_call);
        RUN(test_sets_make_none_for_watches_of_clients_that_do_not_sleep);
        RUN(test_a_wait_makes_none_while_it_looks);
        RUN(test_a_descriptor_costs_what_the_header_says);
        return test_end();
}
