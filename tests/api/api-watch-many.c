/*
 * Many watches: thousands of them in one process, and hundreds of processes with a hundred each, or
 * with one of a prefix that all of them watch. Each key is set once, and each watch has that
 * change. Half of the processes close their watches, the others are killed; then the memory comes
 * back, though nothing else happens. The program under test is $AGENTD.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define WATCHES_MAX 5000u
#define CROWD_MAX   200u

static struct daemon served;
static struct sb_bus *own;
static struct sb_watch *watches[WATCHES_MAX];

static struct sb_bus *open_bus(void)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = served.place.directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;
        int r = sb_open(&options, &bus);

        if (r)
                TEST_NOTE("sb_open: %s", sb_strerror(r));
        return bus;
}

static struct sb_bytes key_of(uint32_t number, char text[32])
{
        return (struct sb_bytes){text, (size_t)snprintf(text, 32, "key/%u", number)};
}

/* Blocks of memory that are in use, and do not wait to be used again; 0: the segment is not sound.
 */
static uint64_t used_blocks(void)
{
        struct sb_check_report report = {0};

        if (sb_admin_check(own, &report) || report.problem_count || report.blocks_lost)
                return 0;
        return report.blocks_used - report.blocks_waiting;
}

/* Whether each of the watches has one change, and no second one; within the deadline. */
static bool hear_all(struct sb_bus *bus, uint32_t count)
{
        uint64_t deadline_ns = daemon_now_ns() + 2 * daemon_patience_ns();
        static bool heard[WATCHES_MAX];
        struct sb_guard change = {0};
        uint32_t left = count;

        for (;;) {
                for (uint32_t i = 0; i < count; i++) {
                        while (!sb_watch_next(watches[i], 0, &change)) {
                                if (heard[i] || change.missed)
                                        return false;
                                heard[i] = true;
                                left--;
                                sb_guard_release(&change);
                        }
                }
                if (!left || sb_wait(bus, deadline_ns))
                        return !left;
        }
}

static void set_all(uint32_t count)
{
        char text[32];

        for (uint32_t i = 0; i < count; i++)
                CHECK(!sb_set(own, key_of(i, text), (struct sb_bytes){"x", 1}, NULL, NULL));
}

/* Whether a watch of all keys has one change of each, and no second one; within the deadline. */
static bool hear_prefix(uint32_t count)
{
        uint64_t deadline_ns = daemon_now_ns() + 2 * daemon_patience_ns();
        static bool heard[WATCHES_MAX];
        struct sb_guard change = {0};
        char text[32];
        bool sound = true;

        for (uint32_t left = count; left && sound; left--) {
                uint32_t number;

                if (sb_watch_next(watches[0], deadline_ns, &change))
                        return false;
                snprintf(text, sizeof(text), "%.*s", (int)change.key.len,
                        (const char *)change.key.data);
                number = (uint32_t)strtoul(text + 4, NULL, 10);
                sound = number < count && !heard[number];
                heard[number % count] = true;
                sb_guard_release(&change);
        }
        return sound && sb_watch_next(watches[0], 0, &change) == SB_E_TIMED_OUT;
}

/* What the members of a crowd do: @count keys are set. */
struct task {
        uint32_t processes, count;
        bool prefix; /* one watch of all keys, not one of each */
};

static bool open_all(struct sb_bus *bus, const struct task *task)
{
        char text[32];

        if (task->prefix)
                return !sb_watch_open(
                        bus, (struct sb_bytes){"key/", 4}, SB_PREFIX, SB_ANY_REV, &watches[0]);
        for (uint32_t i = 0; i < task->count; i++)
                if (sb_watch_open(bus, key_of(i, text), 0, SB_ANY_REV, &watches[i]))
                        return false;
        return true;
}

/* A process with watches; @stays: until it is killed. Return: its exit status. */
static int member(const struct task *task, int news, bool stays)
{
        struct sb_bus *bus = open_bus();

        if (!bus || !open_all(bus, task))
                return 1;
        if (write(news, "w", 1) != 1 ||
                !(task->prefix ? hear_prefix(task->count) : hear_all(bus, task->count)) ||
                write(news, "h", 1) != 1)
                return 2;
        while (stays)
                pause();
        for (uint32_t i = 0; i < (task->prefix ? 1 : task->count); i++)
                sb_watch_close(watches[i]);
        sb_close(bus);
        return 0;
}

/* A word from each member. */
static void hear_members(int news, uint32_t processes, char expected)
{
        char word;

        for (uint32_t i = 0; i < processes; i++)
                CHECK(read(news, &word, 1) == 1 && word == expected);
}

/* Each second one is killed, behind the last one that closes its watches: then the engine has
 * swept already, and rests. */
static void end_members(const pid_t members[], uint32_t processes)
{
        int status;

        for (uint32_t i = 0; i < processes; i += 2)
                CHECK(waitpid(members[i], &status, 0) == members[i] && status == 0);
        for (uint32_t i = 1; i < processes; i += 2)
                CHECK(kill(members[i], SIGKILL) == 0);
        for (uint32_t i = 1; i < processes; i += 2)
                CHECK(waitpid(members[i], &status, 0) == members[i] && WIFSIGNALED(status));
}

static void watch_and_set(const struct task *task)
{
        uint32_t processes = task->processes;
        uint64_t before, most, after;
        pid_t members[CROWD_MAX];
        int news[2];

        CHECK(pipe(news) == 0);
        set_all(task->count);
        before = used_blocks();
        CHECK(before);
        fflush(stdout);
        for (uint32_t i = 0; i < processes; i++) {
                members[i] = fork();
                if (members[i] == 0)
                        _exit(member(task, news[1], i % 2));
                CHECK(members[i] > 0);
        }
        hear_members(news[0], processes, 'w');
        most = used_blocks();
        CHECK(most > before);
        set_all(task->count);
        hear_members(news[0], processes, 'h');
        end_members(members, processes);
        /* Most of what the watches took; some blocks lie in lists of the process that writes. */
        CHECK(WAIT((after = used_blocks()) && after <= before + (most - before) / 4));
        close(news[0]);
        close(news[1]);
}

static void crowd(struct task task)
{
        served = (struct daemon){0};
        daemon_place(&served.place);
        daemon_durability = "volatile";
        SPAWN(&served, "--size", "128M", "--clients", "220");
        CHECK(daemon_hear(&served, "ready\n"));
        own = open_bus();
        CHECK(own);
        watch_and_set(&task);
        sb_close(own);
        CHECK_EQ(daemon_stop(&served), 0);
}

static void test_a_process_with_thousands_of_watches_hears_of_each(void)
{
        crowd((struct task){.processes = 1, .count = 5000});
}

static void test_hundreds_of_processes_with_a_hundred_watches_each_hear_of_all(void)
{
        crowd((struct task){.processes = 200, .count = 100});
}

static void test_hundreds_of_processes_with_a_watch_of_one_prefix_hear_of_all(void)
{
        crowd((struct task){.processes = 200, .count = 1000, .prefix = true});
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_a_process_with_thousands_of_watches_hears_of_each);
        RUN(test_hundreds_of_processes_with_a_hundred_watches_each_hear_of_all);
        RUN(test_hundreds_of_processes_with_a_watch_of_one_prefix_hear_of_all);
        return daemon_end(test_end());
}
