/*
 * agentd under SIGKILL at its system calls: all of it, while it starts and brings a bus back from
 * its log.
 *
 * A process shares files with others by system calls alone, and a segment with them from the moment
 * that it answers one. So a start that is killed at each call leaves all that a start can leave.
 * What takes the place of a killed process: kill-successors.
 *
 * Always true: behind each killed start the next one, by the same command, gives the same bus, and
 * takes a write that outlives another kill; a client that tried to attach all the while saw that
 * bus or none; of the log's files none was changed.
 *
 * A quick run tries a part of the calls; SB_FIRST takes others. SB_TEST_LONG: all of them.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/layout/report.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"
#include "tests/kill/contents.h"
#include "tests/kill/traced.h"

#define POINTS_MAX    3000u /* no start has so many calls */
#define REST          40u   /* calls behind "ready" that belong to the start, too */
#define PARTS         8u    /* of a bus's life before the starts */
#define PARTS_A_START 2u

static struct table {
        unsigned last_part; /* up to which the bus comes back; its cut */
        uint64_t cut;
        uint64_t attached, turned_away;
} * table;

/* ---- the log that a start finds ---- */

static void set(struct sb_bus *bus, const char *key, const char *value)
{
        traced_must(sb_set(bus, bytes_of(key), bytes_of(value), NULL, NULL), key);
}

/* A part of the bus's life, which is a batch of its own. */
static void live(struct sb_bus *bus, unsigned part)
{
        char key[32], value[64];

        for (unsigned i = 0; i < 12; i++) {
                snprintf(key, sizeof(key), "%s/%u", i < 4 ? "kept" : "key", i % 4 + i / 8);
                snprintf(value, sizeof(value), "%u of part %u", i, part);
                set(bus, key, value);
                if (part % 2 && i % 3 == 1)
                        traced_must(
                                sb_delete(bus, bytes_of(key), SB_ANY_REV, NULL, NULL), "delete");
        }
        traced_must(sb_flush(bus, UINT64_MAX), "flush");
}

/* In a client: writes the parts of a bus from one on, as far as a start goes. *context: the first
 * of them. */
static void write_some(void *context)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        unsigned part = *(unsigned *)context, end = part + PARTS_A_START;
        struct sb_bus *bus = NULL;
        uint64_t cut;

        traced_must(traced_open(&bus), "open");
        if (!part)
                traced_must(sb_keep(bus, bytes_of("kept/"), SB_PREFIX, &rule), "keep");
        for (; part < end; part++) {
                live(bus, part);
                if (!part)
                        traced_must(sb_mark(bus, bytes_of("mark"), &cut), "mark");
                if (part == table->last_part) {
                        traced_must(sb_flush(bus, UINT64_MAX), "flush");
                        contents_keep(bus);
                        table->cut = sb_durable(bus);
                }
        }
        traced_must(sb_flush(bus, UINT64_MAX), "flush");
        sb_close(bus);
}

/* ---- starts ---- */

static const char *const forth[] = {TRACED_OPTIONS, NULL};

/* A client that tries to attach all the while. */
static void be_attacher(unsigned number)
{
        static struct contents contents;

        (void)number;
        for (;;) {
                struct sb_bus *bus = NULL;
                int r = traced_open(&bus);

                if (!r) {
                        r = contents_read(bus, &contents);
                        if (!r)
                                contents_compare(&contents);
                        else if (r != SB_E_DETACHED)
                                traced_complain(
                                        "a client that attached got %d (%s)", r, text_of(r));
                        table->attached += r == 0;
                } else {
                        table->turned_away++;
                        sb_os_linux.pause(NULL, 300000);
                }
                sb_close(bus);
        }
}

/* What a client finds behind a start. *context: whether it writes a key, or looks for it. */
static void judge(void *context)
{
        struct sb_write how = {.size = sizeof(how), .durability = SB_STRICT};
        static struct sb_check_report report;
        static struct contents contents;
        struct sb_guard guard = {0};
        struct sb_bus *bus = NULL;

        traced_must(sb_admin_open(traced_agentd.place.directory, &bus), "open");
        traced_must(contents_read(bus, &contents), "contents");
        contents_compare(&contents);
        traced_must(sb_admin_check(bus, &report), "check");
        if (report.problem_count)
                traced_complain("not sound: %.120s", report.problems[0]);
        if (*(bool *)context) {
                traced_must(sb_set(bus, bytes_of("z"), bytes_of("later"), &how, NULL),
                        "a strict write");
        } else {
                traced_must(sb_get(bus, bytes_of("z"), &guard), "what was acknowledged");
                sb_guard_release(&guard);
        }
        sb_close(bus);
}

static char template[128], back_to[32];

/* A shell's command: $bus is the bus's directory, $log that of the log as it was. */
static bool run(const char *command)
{
        char text[8192];

        snprintf(text, sizeof(text), "bus='%s' log='%s'; %s", traced_agentd.place.directory,
                template, command);
        return system(text) == 0;
}

/* The log as it was left, where agentd looks. */
static bool restore(void)
{
        return run("rm -rf \"$bus\"/* && cp -a \"$log\"/wal-* \"$bus\"/");
}

static bool files_are_as_before(void)
{
        return run("for f in \"$log\"/wal-0*; do cmp -s \"$f\" \"$bus/${f##*/}\" || exit 1; done");
}

/* All of the log is in one of the directories that lie aside. */
static bool is_kept_aside(void)
{
        return run("for d in \"$bus\"/aside-*; do ok=1; for f in \"$log\"/wal-0*; do cmp -s \"$f\" "
                   "\"$d/${f##*/}\" || ok=; done; [ -z \"$ok\" ] || exit 0; done; exit 1");
}

/* Agentd starts, and is killed at call @at of all of its processes. Return: whether it was not at
 * rest before that. */
static bool start_and_kill(const char *const *arguments, uint64_t at, uint64_t *ret_calls)
{
        uint64_t calls = 0, rest = 0;
        bool any, ready = false;

        if (!traced_spawn(arguments, true))
                return false;
        traced_go_on(traced_agentd.pid, 0);
        while (calls < at && rest < REST && traced.pid[SUPERVISOR]) {
                enum role role = traced_hear(&any);

                if (role == ROLES)
                        continue;
                ready = ready || traced_is_ready();
                rest += ready;
                if (++calls < at)
                        traced_go_on(traced.pid[role], 0);
        }
        *ret_calls = calls;
        return calls == at;
}

/* What a start has brought back when it says that it is ready stays so: from there on each start
 * goes on, without saying what to go back to. */
static bool try_start(const char *const *arguments, uint64_t at, bool back)
{
        const char *const *again;
        uint64_t calls;
        bool writes = true;

        /* A start may have some calls fewer than the one that was counted: then it is at rest. */
        if (!restore() || (!start_and_kill(arguments, at, &calls) && !traced_is_ready()))
                traced_complain("the start is over before");
        traced_kill_all();
        if (!back && !traced.begun[LOG] && !files_are_as_before())
                traced_complain("a file of the log was changed");
        again = strstr(traced_agentd.said, "ready\n") ? forth : arguments;
        for (int i = 0; i < 2 && !*traced_complaint; i++) {
                if (traced_serve(i ? forth : again))
                        (void)traced_have_client(judge, &writes);
                traced_kill_all();
                writes = false;
        }
        if (back && !is_kept_aside())
                traced_complain("what comes behind the cut is not kept aside");
        return !*traced_complaint;
}

/* Each start begins a file. */
static bool make_log(void)
{
        for (unsigned part = 0; part < PARTS; part += PARTS_A_START) {
                bool done = traced_serve(forth) && traced_have_client(write_some, &part);

                traced_kill_all();
                if (!done)
                        return false;
        }
        snprintf(back_to, sizeof(back_to), "%ju", (uintmax_t)table->cut);
        snprintf(template, sizeof(template), "%s/template", daemon_home);
        return run("rm -rf \"$log\" && mkdir \"$log\" && cp -a --sparse=always \"$bus\"/wal-* "
                   "\"$log\"/");
}

/* Smaller steps about the time at which agentd says that it is ready. */
static uint64_t step_of(uint64_t at, uint64_t count, uint64_t every)
{
        return at + every > count - REST && every > REST / 5 ? REST / 5 : every;
}

static void kill_starts(bool back)
{
        const char *arguments[] = {TRACED_OPTIONS, back ? "--recover-to" : NULL, back_to, NULL};
        uint64_t count, every, points = 0;

        memset(table, 0, sizeof(*table));
        traced_begin_test();
        table->last_part = back ? PARTS / 2 : PARTS - 1;
        if (!make_log() || traced_denied) {
                if (traced_denied)
                        TEST_SKIP("tracing is not permitted here");
                TEST_FAIL("%s", traced_complaint);
        }
        CHECK(restore());
        (void)start_and_kill(arguments, POINTS_MAX, &count);
        traced_kill_all();
        if (count == POINTS_MAX || !traced.begun[LOG] || count < 2 * REST)
                TEST_FAIL("a start of %ju calls, with %ju logs: %s", (uintmax_t)count,
                        (uintmax_t)traced.begun[LOG], traced_agentd.said);
        traced_start_client(0, be_attacher);
        for (uint64_t at = traced_first(count, &every); at < count;
                at += step_of(at, count, every), points++)
                if (!try_start(arguments, at, back)) {
                        traced_end_client(0);
                        TEST_FAIL("killed at call %ju of %ju: %s", (uintmax_t)at, (uintmax_t)count,
                                traced_complaint);
                }
        traced_end_client(0);
        if (*traced_complaint)
                TEST_FAIL("%s", traced_complaint);
        TEST_NOTE("%ju of %ju calls; a client attached %ju times, and was turned away %ju times",
                (uintmax_t)points, (uintmax_t)count, (uintmax_t)table->attached,
                (uintmax_t)table->turned_away);
        CHECK(table->attached && table->turned_away);
}

static void test_behind_a_start_that_was_killed_the_next_one_gives_the_same_bus(void)
{
        kill_starts(false);
}

static void test_the_same_where_the_bus_goes_back_to_a_cut(void)
{
        kill_starts(true);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        table = traced_share(sizeof(*table));
        if (!table || !traced_begin() || !contents_begin() || !daemon_begin())
                return 1;
        RUN(test_behind_a_start_that_was_killed_the_next_one_gives_the_same_bus);
        RUN(test_the_same_where_the_bus_goes_back_to_a_cut);
        return daemon_end(test_end());
}
