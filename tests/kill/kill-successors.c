/*
 * agentd under SIGKILL at its system calls: its engine while it takes a killed one's place; its log
 * while it does.
 *
 * Starts are killed at their calls alone (kill-starts). Engines and logs work in a segment that
 * others use: every other one is killed some instructions behind a call.
 *
 * Always true: behind each killed engine or log the clients' writes have gone on meanwhile, none
 * has failed for good, strict ones are answered, and the bus is sound; in the end the log brings
 * back the same bus.
 *
 * A quick run tries a part of the calls; SB_FIRST takes others. SB_TEST_LONG: all of them.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"
#include "tests/kill/contents.h"
#include "tests/kill/traced.h"

#define KEYS    1500u  /* of each writer */
#define REAPING 30000u /* instructions: in some of them an engine reaps a client */
#define ENOUGH  20u    /* strict writes that show that all is at work again */
#define STRICT  2u
#define WRITERS (STRICT + 2)
#define WALKER  STRICT       /* it does not wait for the log */
#define VICTIM  (STRICT + 1) /* it is killed each time */

static_assert(WRITERS <= TRACED_CLIENTS, "a writer is one of these clients");

static struct table {
        uint64_t tried[WRITERS], done[WRITERS];
        uint64_t full; /* writes that found no memory, and were made again */
        bool steps;    /* engines go on by single instructions for a while */
} * table;

/* What happens to an engine, or a log, that takes a place. */
struct fate {
        enum role role;
        bool stops; /* it is stopped for a while first */
        bool reaps; /* it looks whether the client lives that was killed: behind that it reaps */
};

/* A set, which may find no memory where an engine is stepped: it takes some thousand times as long
 * for its work, and with each load its pin reaches up to the era of now. So what all others replace
 * meanwhile waits; behind its death, until the next engine adopts. One that is stopped, or killed
 * at full speed, holds a version of each key at most, and no write fails. Return: as sb_set(). */
static int set_in_the_end(
        struct sb_bus *bus, const char *key, const char *value, const struct sb_write *how)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        int r;

        while ((r = sb_set(bus, bytes_of(key), bytes_of(value), how, NULL)) == SB_E_FULL &&
                table->steps && daemon_now_ns() < end_ns) {
                table->full++;
                sb_os_linux.pause(NULL, 1000000);
        }
        return r;
}

/* A client that counts, in many keys: what a log left out stays old. */
static void be_writer(unsigned number)
{
        struct sb_write how = {
                .size = sizeof(how), .durability = number < STRICT ? SB_STRICT : SB_BATCHED};
        struct sb_bus *bus = NULL;
        char key[32], value[32];
        int r;

        do
                r = traced_open(&bus);
        while (r == -ECONNREFUSED);
        if (r)
                traced_complain("writer %u: open: %s", number, text_of(r));
        for (uint64_t count = table->tried[number] + 1; !*traced_complaint; count++) {
                snprintf(key, sizeof(key), "%u/%ju", number, (uintmax_t)(count % KEYS));
                snprintf(value, sizeof(value), "%ju", (uintmax_t)count);
                table->tried[number] = count;
                r = set_in_the_end(bus, key, value, &how);
                if (r)
                        traced_complain("writer %u: %s", number, text_of(r));
                table->done[number] = count;
                /* Beside an engine that is stepped it would only take the processor. */
                if (number == WALKER && table->steps)
                        sb_os_linux.pause(NULL, 50000);
        }
        _exit(1);
}

/* Whether writers have gone on by so many writes behind what they had tried then. */
static bool went_on(const uint64_t *tried, unsigned first, unsigned end, uint64_t writes)
{
        for (unsigned number = first; number < end; number++)
                if (table->done[number] < tried[number] + writes)
                        return false;
        return true;
}

/* Let all go on until these writers did. */
static bool await_writers(unsigned first, unsigned end, uint64_t writes)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns(), tried[WRITERS];
        bool any;

        memcpy(tried, table->tried, sizeof(tried));
        while (!went_on(tried, first, end, writes) && !*traced_complaint) {
                enum role role = traced_hear(&any);

                if (role < ROLES)
                        traced_go_on(traced.pid[role], 0);
                if (daemon_now_ns() < end_ns)
                        continue;
                for (unsigned number = first; number < end; number++)
                        if (table->done[number] < tried[number] + writes)
                                traced_complain("writer %u waits for ever", number);
        }
        return !*traced_complaint;
}

/* So many instructions. The first one may be a call that waits, for others that stand meanwhile; at
 * the next call the process stands before it is made, and stepping ends. */
static void step_here(pid_t pid, uint64_t steps)
{
        int status = 0;

        for (uint64_t step = 0; step < steps; step++) {
                unsigned looks = 0;

                if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
                        return;
                while (waitpid(pid, &status, step ? __WALL : __WALL | WNOHANG) == 0)
                        if (++looks > 20000)
                                return;
                if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || status >> 16)
                        return;
        }
}

/* On one processor: a step is then a switch to the other one and back, and wakes no processor. */
static void step_some(pid_t pid, uint64_t steps)
{
        cpu_set_t before, here;

        (void)sched_getaffinity(0, sizeof(before), &before);
        CPU_ZERO(&here);
        CPU_SET((unsigned)sched_getcpu(), &here);
        (void)sched_setaffinity(0, sizeof(here), &here);
        (void)sched_setaffinity(pid, sizeof(here), &here);
        step_here(pid, steps);
        (void)sched_setaffinity(pid, sizeof(before), &before);
        (void)sched_setaffinity(0, sizeof(before), &before);
}

static uint64_t draw_below(uint64_t below)
{
        static uint64_t seed = 1;

        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (seed >> 33) % below;
}

/* The engine is killed, and a client with it. What then takes the place is killed, too, at its call
 * @at or behind it. Return: whether it came so far. */
static bool kill_successor(const struct fate *fate, uint64_t at)
{
        uint64_t engines = traced.begun[ENGINE], logs = traced.begun[LOG], tried[WRITERS];
        bool any, came = false, rests = false;
        pid_t pid, victim = traced_clients[VICTIM];

        traced.steps[ENGINE] = traced.steps[LOG] = false;
        (void)kill(traced.pid[ENGINE], SIGKILL);
        traced_end_client(VICTIM);
        traced.steps[fate->role] = true;
        /* Those of the killed ones that are left stop no more. */
        while (!came && !*traced_complaint && !rests) {
                enum role role = traced_hear(&any);

                if (traced.begun[LOG] == logs)
                        memcpy(tried, table->tried, sizeof(tried));
                rests = traced.begun[LOG] > logs && went_on(tried, 0, STRICT, ENOUGH);
                if (role == ROLES)
                        continue;
                came = role == fate->role && traced.begun[ENGINE] > engines &&
                       (role == ENGINE || traced.begun[LOG] > logs) &&
                       (fate->reaps ? traced.call == SYS_pidfd_open &&
                                               traced.argument == (uint64_t)victim
                                    : traced.calls[role] >= at);
                if (!came)
                        traced_go_on(traced.pid[role], 0);
        }
        pid = traced.pid[fate->role];
        if (came) {
                if (fate->reaps)
                        step_some(pid, draw_below(REAPING));
                else if (draw_below(2))
                        step_some(pid, draw_below(UINT64_C(2) << draw_below(12)));
                /* A stopped one holds up none but those that wait for it. */
                if (fate->stops)
                        (void)await_writers(WALKER, WALKER + 1, 50);
                (void)kill(pid, SIGKILL);
                /* Mostly: another log alone comes a second later. */
                if (fate->role == LOG && traced.pid[ENGINE] && draw_below(8))
                        (void)kill(traced.pid[ENGINE], SIGKILL);
        }
        traced.steps[fate->role] = false;
        traced_start_client(VICTIM, be_writer);
        (void)await_writers(0, WRITERS, 1);
        return came;
}

/* How many records are neither free nor a client's. */
static uint32_t count_half(const struct sb_segment *segment)
{
        uint32_t count = 0;

        for (uint32_t slot = 0; slot < segment->geometry.record_count; slot++) {
                enum sb_record_state state = sb_roster_state(segment, slot, NULL);

                count += state == SB_RECORD_DEAD || state == SB_RECORD_CLAIMED;
        }
        return count;
}

/* What a client finds when all have gone on. */
static void judge_bus(void *context)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        static struct sb_check_report report;
        struct sb_admin_stat stat;
        struct sb_bus *bus = NULL;

        (void)context;
        traced_must(sb_admin_open(traced_agentd.place.directory, &bus), "open");
        traced_must(sb_admin_check(bus, &report), "check");
        if (report.problem_count)
                traced_complain("not sound: %.120s", report.problems[0]);
        do
                traced_must(sb_admin_stat(bus, &stat), "stat");
        while ((stat.clients != WRITERS || count_half(&bus->handle.segment)) &&
                daemon_now_ns() < end_ns);
        if (stat.clients != WRITERS || count_half(&bus->handle.segment))
                traced_complain("of %u clients %u are listed, and %u records are in between",
                        WRITERS, stat.clients, count_half(&bus->handle.segment));
        sb_close(bus);
}

/* The writers have ended: all that they wrote is made durable. */
static void take_reference(void *context)
{
        struct sb_bus *bus = NULL;

        (void)context;
        traced_must(sb_admin_open(traced_agentd.place.directory, &bus), "open");
        traced_must(sb_flush(bus, UINT64_MAX), "flush");
        contents_keep(bus);
        sb_close(bus);
}

static void judge_reference(void *context)
{
        static struct contents contents;
        struct sb_bus *bus = NULL;

        (void)context;
        traced_must(sb_admin_open(traced_agentd.place.directory, &bus), "open");
        traced_must(contents_read(bus, &contents), "contents");
        contents_compare(&contents);
        sb_close(bus);
}

static void end_writers(void)
{
        for (unsigned number = 0; number < WRITERS; number++)
                if (traced_clients[number])
                        traced_end_client(number);
}

/* Return: how many points there were; 0: the complaint says why. */
static uint64_t kill_successors(const struct fate *fate, uint64_t most)
{
        /* A copy of the bus makes good what a log has left out. In a long run files are many. */
        const char *arguments[] = {
                TRACED_OPTIONS, "--checkpoint-bytes", getenv("SB_TEST_LONG") ? "64M" : "2G", NULL};
        /* An engine makes some 105 calls, a log up to 160: so each has five points and more. */
        uint64_t every, points = 0, at = traced_first(most * 3 / 4, &every);
        bool came = true;

        memset(table, 0, sizeof(*table));
        traced_begin_test();
        table->steps = fate->reaps;
        if (!traced_serve(arguments))
                return 0;
        for (unsigned number = 0; number < WRITERS; number++)
                traced_start_client(number, be_writer);
        (void)await_writers(0, WRITERS, 1);
        /* Where it reaps is drawn: of a few draws none may leave a record half reaped. */
        every = fate->reaps ? every / 2 + 1 : every;
        for (; came && at <= most && !*traced_complaint; at += every) {
                came = kill_successor(fate, at);
                points += came;
                if (points % 16 == 0)
                        (void)traced_have_client(judge_bus, NULL);
        }
        if (!*traced_complaint)
                (void)traced_have_client(judge_bus, NULL);
        end_writers();
        if (!*traced_complaint)
                (void)traced_have_client(take_reference, NULL);
        traced_kill_all();
        if (!*traced_complaint && traced_serve(arguments))
                (void)traced_have_client(judge_reference, NULL);
        traced_kill_all();
        if (*traced_complaint)
                printf("# behind call %ju, point %ju\n", (uintmax_t)at, (uintmax_t)points);
        return *traced_complaint ? 0 : points;
}

static void check_successors(const struct fate *fate, uint64_t most)
{
        uint64_t points = kill_successors(fate, most);

        if (traced_denied)
                TEST_SKIP("tracing is not permitted here");
        if (!points)
                TEST_FAIL("%s; agentd said: %s", traced_complaint,
                        traced_agentd.said +
                                (traced_agentd.len > 500 ? traced_agentd.len - 500 : 0));
        TEST_NOTE("%ju points, %ju writes that were acknowledged, %ju made again",
                (uintmax_t)points, (uintmax_t)(table->done[0] + table->done[1]),
                (uintmax_t)table->full);
        CHECK(points > 4);
}

static void test_an_engine_that_is_killed_while_it_adopts_is_followed_by_another(void)
{
        check_successors(&(struct fate){.role = ENGINE}, 160);
}

static void test_the_same_where_it_is_killed_while_it_reaps(void)
{
        check_successors(&(struct fate){.role = ENGINE, .reaps = true}, 160);
}

static void test_a_log_that_is_killed_while_it_takes_over_is_followed_by_another(void)
{
        check_successors(&(struct fate){.role = LOG}, 160);
}

static void test_the_same_where_the_log_is_stopped_first(void)
{
        check_successors(&(struct fate){.role = LOG, .stops = true}, 160);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        table = traced_share(sizeof(*table));
        if (!table || !traced_begin() || !contents_begin() || !daemon_begin())
                return 1;
        RUN(test_an_engine_that_is_killed_while_it_adopts_is_followed_by_another);
        RUN(test_the_same_where_it_is_killed_while_it_reaps);
        RUN(test_a_log_that_is_killed_while_it_takes_over_is_followed_by_another);
        RUN(test_the_same_where_the_log_is_stopped_first);
        return daemon_end(test_end());
}
