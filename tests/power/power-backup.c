/*
 * The commands backup and restore-from (cli/backup.c), when the power goes meanwhile.
 *
 * The command runs in this process, and all that it does with files is recorded. Then, for each
 * beginning of the record, directories are made as a power failure may leave them (states.h), and
 * read by agentctl's reader and by agentd's recovery. Of each must be true
 * - under the name that was asked for is nothing, or all that was copied; behind the command's end
 *   it is the latter;
 * - what stands under another name is taken for no backup, unless it is whole;
 * - the same command makes it, or says that it is there. For some states that is recorded, too.
 * In a second test each call fails in turn: the command says so, and leaves nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/logged.h"
#include "tests/fuzz/log-loaded.h"
#include "tests/fuzz/log-seed.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/power/calls.h"
#include "tests/power/tries.h"
#include "tests/unit/draw.h"

#define IS_LONG   (!!getenv("SB_TEST_LONG"))
#define FILE_1    "wal-0000000000000001"
#define PLACE_OF  (IS_LONG ? 1u : 30u) /* of so many places one, behind a failed call */
#define SECOND_OF (IS_LONG ? 3u : 30u)

/* A command, and what is there then. */
static const struct way {
        const char *to;    /* below the directory that is recorded */
        const char *final; /* what has its name last */
        bool restores, is_old;
        const char *there; /* a directory that is there before */
} ways[] = {
        {.to = "monday", .final = "monday"},
        {.to = "monday", .final = "monday", .is_old = true},
        {.to = "copies/", .final = "copies/" FILE_1},
        {.to = "there", .final = "there/" FILE_1, .there = "there"},
        {.to = "bus", .final = "bus/" FILE_1, .restores = true},
        {.to = "bus", .final = "bus/" FILE_1, .restores = true, .is_old = true},
        {.to = "there", .final = "there/" FILE_1, .restores = true, .there = "there"},
        {.to = "one/two/bus", .final = "one/two/bus/" FILE_1, .restores = true},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

struct known {
        uint64_t way;
        bool done;
};

static struct recorder first, second;
static struct states states, behind;
static struct tries tries;
static struct log_seed seed;
static struct log_image nothing;
static int work_fd, image_fd, source_fd, look_fd, said_fd;
static char work_path[64], image_path[64], source_path[64], look_path[64];
static char wrong[600], said[1024];
static uint64_t seconds, failures;
static struct log_loaded source; /* what a copy has */

/* ---- the command ---- */

/* Runs the command; what it says is in `said`. Return: its exit code. */
static int command(const struct way *way, const char *path)
{
        char to[PATH_MAX], from[PATH_MAX];
        char *backup[] = {"agentctl", "-b", source_path, "backup", to, NULL};
        char *restore[] = {"agentctl", "-b", to, "restore-from", from, NULL};
        struct cli cli = {0};
        int stderr_fd = dup(STDERR_FILENO), r;
        ssize_t len;

        snprintf(to, sizeof(to), "%s/%s", path, way->to);
        snprintf(from, sizeof(from), "%s", source_path);
        (void)ftruncate(said_fd, 0);
        (void)lseek(said_fd, 0, SEEK_SET);
        dup2(said_fd, STDERR_FILENO);
        calls_age(way->is_old);
        r = cli_run(&cli, 5, way->restores ? restore : backup);
        fflush(stderr);
        dup2(stderr_fd, STDERR_FILENO);
        close(stderr_fd);
        len = pread(said_fd, said, sizeof(said) - 1, 0);
        said[len > 0 ? len : 0] = '\0';
        said[strcspn(said, "\n")] = '\0'; /* the first line */
        return r;
}

/* ---- judging ---- */

static bool blame(const struct states *at, const struct way *way, const char *what)
{
        snprintf(wrong, sizeof(wrong),
                "%s %s%s: %s; record %u of %u, %u writes, %u names wait: %.300s",
                way->restores ? "restore-from into" : "backup", way->to,
                way->is_old ? ", without renameat2()" : "", what, at->at, at->recorder->count,
                at->write_count, at->names_waiting, said);
        return false;
}

/* Whether a reader takes the file for a log, or a backup, that is good. *ret_whole: it is all. */
static bool is_believed(const char *path, bool *ret_whole)
{
        static struct cli_logged logged;
        bool good;
        int r = cli_logged_open(path, &logged);

        if (r)
                return false;
        good = logged.batch_count && cli_logged_is_good(&logged);
        *ret_whole = good && logged.sum.cut == source.cut && logged.end.ending == SB_WAL_CLEAN &&
                     logged.sum.sequence == seed.last;
        cli_logged_close(&logged);
        return good;
}

/* Whether the file is all that was copied: for agentctl, and for recovery. */
static bool is_whole(const char *directory, const char *name)
{
        struct log_loaded loaded;
        char path[PATH_MAX];
        bool whole = false;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        if (!is_believed(path, &whole) || !whole)
                return false;
        if (linkat(AT_FDCWD, path, look_fd, FILE_1, 0) < 0)
                return false;
        log_load(look_fd, 0, false, &loaded);
        scratch_empty(look_fd);
        return !loaded.result && loaded.cut == source.cut && loaded.digest == source.digest;
}

/* What no command has given its name is no backup, or a whole one. */
static bool judge_others(const struct states *at, const struct way *way)
{
        char path[PATH_MAX];
        bool whole = false;

        for (uint32_t i = 0; i < at->links.count; i++) {
                const char *name = at->links.link[i].name;

                if (at->kind[at->links.link[i].node] != STATES_FILE || states_find(at, name) < 0 ||
                        !strcmp(name, way->final))
                        continue;
                snprintf(path, sizeof(path), "%s/%s", image_path, name);
                if (is_believed(path, &whole) && !whole)
                        return blame(at, way, "half a backup is believed");
        }
        return true;
}

/* The state lies in the image. */
static bool judge_laid(const struct states *at, const struct known *known)
{
        const struct way *way = &ways[known->way];
        bool is_there = states_find(at, way->final) >= 0;
        int r;

        said[0] = '\0';
        if (!is_there && known->done)
                return blame(at, way, "the command has ended, and what it made is gone");
        if (is_there && !is_whole(image_path, way->final))
                return blame(at, way, "what has its name is not whole");
        if (!judge_others(at, way))
                return false;
        r = command(way, image_path);
        if (is_there)
                return (r == CLI_FAILED && strstr(said, "already")) ||
                       blame(at, way, "what is there already is not said to be");
        if (r || !is_whole(image_path, way->final))
                return blame(at, way, "the command does not go on");
        return true;
}

static bool judge(struct states *at, const void *known)
{
        bool good;

        states_lay(at, image_fd);
        good = judge_laid(at, known);
        scratch_empty(image_fd);
        return good;
}

static bool try_place(struct states *at, const struct known *known, tries_judge judge_state)
{
        struct states_choice choice;

        return tries_all(&tries, at, known, known->way << 1 | known->done, judge_state, &choice);
}

/* The command once more, in the state, recorded. */
static bool command_again(struct states *at, const struct known *before)
{
        struct known known = {.way = before->way};
        bool good = true;
        int r;

        seconds++;
        recorder_clear(&second);
        states_begin_behind(&behind, at, &second);
        states_lay(at, image_fd);
        calls_begin(&second, image_path, image_fd);
        r = command(&ways[known.way], image_path);
        calls_end();
        scratch_empty(image_fd);
        while (good && behind.at < second.count) {
                states_step(&behind);
                known.done = behind.at == second.count && !r;
                good = try_place(&behind, &known, judge);
        }
        states_end(&behind);
        return good;
}

static bool judge_first(struct states *at, const void *context)
{
        const struct known *known = context;

        return judge(at, known) && (known->done || draw(SECOND_OF) || command_again(at, known));
}

/* ---- the first run ---- */

static void lay_out(const struct way *way)
{
        scratch_empty(work_fd);
        recorder_clear(&first);
        states_begin(&states, &first, -1, -1);
        if (!way->there)
                return;
        (void)mkdirat(work_fd, way->there, 0700);
        states_add_directory(&states, way->there, recorder_add(&first, way->there));
}

static bool run_way(uint32_t number)
{
        const struct way *way = &ways[number];
        struct known known = {.way = number};
        bool good;

        lay_out(way);
        calls_begin(&first, work_path, work_fd);
        good = !command(way, work_path) || blame(&states, way, "it does not work");
        calls_end();
        while (good) {
                known.done = states.at == first.count;
                good = try_place(&states, &known, judge_first);
                if (known.done)
                        break;
                states_step(&states);
        }
        states_end(&states);
        return good;
}

/* The log that is copied. */
static void make_source(void)
{
        memset(&seed, 0, sizeof(seed));
        memset(&nothing, 0, sizeof(nothing));
        log_seed_make(LOG_COPY, source_fd, &seed);
        log_image_store(source_fd, &seed.image, &nothing);
        log_load(source_fd, 0, false, &source);
}

static bool every_way(bool (*run)(uint32_t number))
{
        make_source();
        for (uint32_t number = 0; number < WAYS; number++)
                if (!run(number))
                        return false;
        return true;
}

static bool begin(void)
{
        draw_state = 1;
        wrong[0] = '\0';
        seconds = failures = 0;
        tries_begin(&tries);
        work_fd = scratch_make(work_path, sizeof(work_path));
        image_fd = scratch_make(image_path, sizeof(image_path));
        source_fd = scratch_make(source_path, sizeof(source_path));
        look_fd = scratch_make(look_path, sizeof(look_path));
        said_fd = memfd_create("said", MFD_CLOEXEC);
        return work_fd >= 0 && image_fd >= 0 && source_fd >= 0 && look_fd >= 0 && said_fd >= 0;
}

static void end(void)
{
        close(said_fd);
        scratch_remove(work_fd, work_path);
        scratch_remove(image_fd, image_path);
        scratch_remove(source_fd, source_path);
        scratch_remove(look_fd, look_path);
}

static void test_a_power_failure_leaves_a_whole_backup_and_a_whole_bus_or_none(void)
{
        bool good;

        CHECK(begin());
        good = every_way(run_way);
        end();
        TEST_NOTE("%ju states after %ju calls (%ju drawn), %ju with torn writes; %ju second runs",
                (uintmax_t)tries.states, (uintmax_t)tries.places, (uintmax_t)tries.made,
                (uintmax_t)tries.torn, (uintmax_t)seconds);
        if (!good)
                TEST_FAIL("%s", wrong);
        CHECK(tries.states > 1000 && seconds > 10);
}

/* ---- calls that fail ---- */

/* Whether a file is left of the command that failed. */
static bool is_left(void)
{
        for (uint32_t i = 0; i < first.name_count; i++)
                if (strstr(first.names[i].name, "monday") || strstr(first.names[i].name, "wal-"))
                        return true;
        return false;
}

/* Behind a command that failed, or was killed, it is given again, and the power goes meanwhile. */
static bool give_again(struct known *known, enum recorder_failure how)
{
        const struct way *way = &ways[known->way];
        int r;

        first.fail_at = 0;
        calls_resume();
        r = command(way, work_path);
        calls_end();
        /* A killed one may have come so far. */
        if (r && (how != FAIL_REST || !strstr(said, "already")))
                return blame(&states, way, "behind a failed call the command does not go on");
        while (states.at < first.count) {
                states_step(&states);
                known->done = states.at == first.count && !r;
                if ((known->done || !draw(PLACE_OF)) && !try_place(&states, known, judge))
                        return false;
        }
        return is_whole(work_path, way->final) ||
               blame(&states, way, "behind a failed call something else is made");
}

static bool fail_at(uint32_t number, uint64_t call, int error, enum recorder_failure how)
{
        const struct way *way = &ways[number];
        struct known known = {.way = number};
        int r;

        lay_out(way);
        first.fail_at = call;
        first.error = error;
        first.failure = how;
        calls_begin(&first, work_path, work_fd);
        r = command(way, work_path);
        calls_end();
        if (r && !strstr(said, strerror(-error)))
                return blame(&states, way, "what failed is not said");
        if (r && how != FAIL_REST && is_left())
                return blame(&states, way, "something is left of a command that failed");
        known.done = !r;
        while (states.at < first.count)
                states_step(&states);
        if (!try_place(&states, &known, judge))
                return false;
        return known.done || give_again(&known, how);
}

static bool fail_each(uint32_t number)
{
        static const enum recorder_failure hows[] = {
                FAIL_BEFORE, FAIL_PART, FAIL_BEFORE, FAIL_REST};

        for (uint64_t call = 1, more = 1; more; call++)
                for (uint32_t i = IS_LONG ? 0 : (uint32_t)(call + number) % 4,
                              last = IS_LONG ? 3 : i;
                        i <= last && more; i++) {
                        bool good = fail_at(number, call, i < 2 ? -EIO : -ENOSPC, hows[i]);

                        more = first.calls >= call;
                        failures += more;
                        states_end(&states);
                        if (!good) {
                                printf("# call %ju of %ju, way %u\n", (uintmax_t)call,
                                        (uintmax_t)first.calls, i);
                                return false;
                        }
                }
        return true;
}

static void test_a_call_that_fails_is_said_and_nothing_is_left_of_the_command(void)
{
        bool good;

        CHECK(begin());
        good = every_way(fail_each);
        end();
        TEST_NOTE(
                "%ju calls that failed; %ju states", (uintmax_t)failures, (uintmax_t)tries.states);
        if (!good)
                TEST_FAIL("%s", wrong);
        CHECK(failures > 100);
}

/* ---- what is there ---- */

static void test_a_backup_that_is_there_is_not_touched_by_another_one_of_its_name(void)
{
        const struct way *way = &ways[0];
        char path[PATH_MAX];
        int fd, r;

        CHECK(begin());
        make_source();
        lay_out(way);
        snprintf(path, sizeof(path), "%s/%s", work_path, way->final);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        close(fd);
        recorder_add(&first, way->final);
        calls_begin(&first, work_path, work_fd);
        r = command(way, work_path);
        calls_end();
        states_end(&states);
        end();
        CHECK(fd >= 0 && r == CLI_FAILED && strstr(said, "already"));
        CHECK(!first.count);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_power_failure_leaves_a_whole_backup_and_a_whole_bus_or_none);
        RUN(test_a_call_that_fails_is_said_and_nothing_is_left_of_the_command);
        RUN(test_a_backup_that_is_there_is_not_touched_by_another_one_of_its_name);
        return test_end();
}
