/*
 * Going back to a cut (agentd/wal/wal-aside.h), when the power goes meanwhile.
 *
 * agentd's own recovery (agentd/wal/wal-recover.h) goes back in a log, and all that it does with
 * files is recorded; behind that a writer goes on. Then, for each beginning of the record,
 * directories are made as a power failure may leave them (states.h), and recovery reads them: as a
 * start without an option does, and as the same command does once more. Of each it must find
 * - the bus as it was at the end of the log, or at the cut asked for, and nothing in between;
 * behind "ready" it is that cut, and what was acknowledged since;
 * - where it is that cut, a directory that has all files of the log as it was, with their bytes;
 * - where the log was damaged, a line that names the command that goes on.
 * The same of a start that passes over a damaged file in front of a copy of the bus.
 * From some of these states another start is recorded in the same way: with the same cut, with an
 * earlier one, with none. In a second test each call fails in turn.
 *
 * SB_TEST_LONG: more of all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "shm/base/hash.h"
#include "tests/fuzz/log-loaded.h"
#include "tests/fuzz/log-seed.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/power/calls.h"
#include "tests/power/tries.h"
#include "tests/unit/draw.h"

#define OUTCOMES_MAX 12u
#define VALUE_LEN    2600u
#define BATCHES      2u /* that are written behind that */
#define IS_LONG      (!!getenv("SB_TEST_LONG"))
#define TARGETS_MAX  (IS_LONG ? 8u : 3u)  /* cuts that one log goes back to */
#define PLACE_OF     (IS_LONG ? 1u : 25u) /* of so many places one, behind a failed call */
#define SECOND_OF    (IS_LONG ? 3u : 16u) /* of so many states one is started again */

/* A bus that may be found. */
struct outcome {
        uint64_t cut, digest;
        bool went; /* its log went back: the log as it was is aside */
};

/* What may be found at the present place of a record. */
struct known {
        struct outcome outcomes[OUTCOMES_MAX];
        uint32_t first, count; /* those from first on */
        bool refused;          /* or a line that names the command */
        uint64_t to;           /* the command's cut; 0: there is no more such command */
        uint32_t wanted;       /* what it gives */
};

enum damage { NO_DAMAGE, TORN, DAMAGED, FRONT_DAMAGED, DAMAGES };

static struct recorder first, second;
static struct states states, behind;
static struct tries tries;
static struct log_seed seed;
static struct log_image image, nothing;
static int work_fd, image_fd;
static char work_path[64], image_path[64];
static char wrong[400];
static uint64_t seconds, failures, fronts;
static uint64_t earlier; /* a cut before the one that the first start goes back to; 0: none */

/* ---- judging ---- */

static bool blame(const struct states *at, const char *what, const struct log_loaded *loaded)
{
        snprintf(wrong, sizeof(wrong),
                "%s; record %u of %u, %u writes, %u names wait; %d, cut %ju: %s", what, at->at,
                at->recorder->count, at->write_count, at->names_waiting,
                loaded ? loaded->result : 0, loaded ? (uintmax_t)loaded->cut : 0,
                loaded ? loaded->said : "");
        return false;
}

/* Which of the outcomes it is; OUTCOMES_MAX: none. */
static uint32_t which(const struct known *known, const struct log_loaded *loaded)
{
        for (uint32_t i = known->first; i < known->count; i++)
                if (loaded->cut == known->outcomes[i].cut &&
                        loaded->digest == known->outcomes[i].digest)
                        return i;
        return OUTCOMES_MAX;
}

/* The file at @i of the log as it was stands in the directory. */
static bool is_kept_in(const struct states *at, const char *directory, uint32_t i)
{
        char name[NAME_MAX_LEN];
        int node;

        snprintf(name, sizeof(name), "%.30s/wal-%016x", directory, i + 1);
        node = states_find(at, name);
        return node >= 0 && at->file[node].size == image.files[i].size &&
               !memcmp(at->file[node].bytes, image.files[i].bytes, image.files[i].size);
}

static bool is_kept(const struct states *at)
{
        for (uint32_t link = 0; link < at->links.count; link++) {
                const char *directory = at->links.link[link].name;
                bool whole = at->kind[at->links.link[link].node] == STATES_DIRECTORY;

                for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                        whole = whole && (!image.files[i].there || is_kept_in(at, directory, i));
                if (whole)
                        return true;
        }
        return false;
}

/* Whether no file of the log as it was has lost its name. */
static bool is_all_there(const struct states *at)
{
        char name[NAME_MAX_LEN];

        for (uint32_t i = 0; i < LOG_FILES_MAX; i++) {
                snprintf(name, sizeof(name), "wal-%016x", i + 1);
                if (image.files[i].there && states_find(at, name) < 0)
                        return false;
        }
        return true;
}

/* The same command once more, and a start without it. The state lies in the image. */
static bool judge_command(const struct states *at, const struct known *known)
{
        struct log_loaded loaded;

        log_load(image_fd, known->to, false, &loaded);
        if (loaded.result || which(known, &loaded) != known->wanted)
                return blame(at, "the command does not go on", &loaded);
        log_load(image_fd, 0, false, &loaded);
        if (loaded.result || which(known, &loaded) != known->wanted)
                return blame(
                        at, "where the command has gone on, a start finds another bus", &loaded);
        return true;
}

/* *ret: which of the outcomes a start finds; OUTCOMES_MAX: it is refused, with the command. The
 * state lies in the image then. */
static bool judge_start(const struct states *at, const struct known *known, uint32_t *ret)
{
        struct log_loaded loaded;

        states_lay(at, image_fd);
        log_load(image_fd, 0, false, &loaded);
        if (states_find(at, "going-back") >= 0) {
                scratch_empty(image_fd);
                states_lay(at, image_fd);
        }
        *ret = OUTCOMES_MAX;
        if (loaded.result)
                return (known->refused && strstr(loaded.said, "--recover-to ")) ||
                       blame(at, "a start is refused", &loaded);
        *ret = which(known, &loaded);
        if (*ret == OUTCOMES_MAX)
                return blame(at, "a start finds a bus of no moment that was asked for", &loaded);
        if ((known->outcomes[*ret].went || !is_all_there(at)) && !is_kept(at))
                return blame(
                        at, "the log has gone back, and as it was it is not all aside", &loaded);
        return true;
}

static bool judge(struct states *at, const void *context)
{
        const struct known *known = context;
        uint32_t found;
        bool good = judge_start(at, known, &found) && (!known->to || judge_command(at, known));

        scratch_empty(image_fd);
        return good;
}

static uint64_t number_of(const struct known *known)
{
        return sb_hash_key(known, sizeof(*known), 1);
}

/* ---- a second start ---- */

static bool try_place(struct states *at, const struct known *known, tries_judge judge_state)
{
        struct states_choice choice;
        const size_t len = strlen(wrong);

        if (tries_all(&tries, at, known, number_of(known), judge_state, &choice))
                return true;
        if (len == strlen(wrong))
                snprintf(wrong + len, sizeof(wrong) - len, "no reason");
        return false;
}

/* All states of a second start, which finds @found of what is known where it finds nothing to do.
 */
static bool try_second(const struct known *before, uint32_t found, uint64_t to)
{
        struct known known = {.to = to ? to : before->to, .refused = found == OUTCOMES_MAX};
        struct log_loaded loaded;

        if (found < OUTCOMES_MAX)
                known.outcomes[known.count++] = before->outcomes[found];
        log_load(image_fd, to, false, &loaded);
        calls_end();
        scratch_empty(image_fd);
        /* The log may not have the earlier cut, or not be taken without one: nothing is done then.
         */
        if (loaded.result)
                return (!second.count && (to == earlier || found == OUTCOMES_MAX)) ||
                       blame(&behind, "a second start fails", &loaded);
        known.wanted = which(&known, &loaded);
        if (known.wanted == OUTCOMES_MAX) {
                if (!to && found < OUTCOMES_MAX)
                        return blame(&behind, "a second start finds another bus", &loaded);
                known.wanted = known.count++;
                known.outcomes[known.wanted] = (struct outcome){loaded.cut, loaded.digest, true};
        }
        known.to = to;
        for (;;) {
                if (behind.at == second.count) {
                        known.first = known.wanted; /* "ready" */
                        known.refused = false;
                }
                if (!try_place(&behind, &known, judge))
                        return false;
                if (behind.at == second.count)
                        return true;
                states_step(&behind);
        }
}

/* Starts once more in the state, and records that. */
static bool start_again(struct states *at, const struct known *known, uint32_t found)
{
        const uint64_t cuts[] = {known->to, 0, earlier};
        uint64_t to = cuts[seconds++ % 3];
        bool good;

        recorder_clear(&second);
        states_begin_behind(&behind, at, &second);
        states_lay(at, image_fd);
        calls_begin(&second, image_path, image_fd);
        good = try_second(known, found, to);
        states_end(&behind);
        return good;
}

static bool judge_first(struct states *at, const void *context)
{
        const struct known *known = context;
        uint32_t found;

        bool good = judge_start(at, known, &found) && (!known->to || judge_command(at, known));

        scratch_empty(image_fd);
        return good && (known->first || draw(SECOND_OF) || start_again(at, known, found));
}

/* ---- the first start, and what is written behind it ---- */

static int add(struct sb_wal_writer *writer, const struct sb_wal_entry *entry)
{
        return sb_wal_writer_add(writer, entry);
}

static int write_batch(struct sb_wal_writer *writer, uint64_t cut, uint32_t number)
{
        static char bytes[VALUE_LEN] = "of more than a frame, and no sector of it is all zeros";
        char key[16];
        struct sb_wal_entry floor = {.kind = SB_WAL_WORD, .which = SB_WAL_WORD_HISTORY_FLOOR},
                            forgotten = {.kind = SB_WAL_WORD,
                                    .which = SB_WAL_WORD_FORGOTTEN,
                                    .rev = 1},
                            value = {.kind = SB_WAL_VALUE,
                                    .flags = SB_WAL_BORN,
                                    .writer = 1,
                                    .key = key,
                                    .key_len = (uint32_t)snprintf(
                                            key, sizeof(key), "behind-%u", number),
                                    .value = bytes,
                                    .value_len = VALUE_LEN,
                                    .rev = 1,
                                    .stamp = cut - 1};
        int r;

        for (uint32_t i = 256; i < VALUE_LEN; i += 256)
                memset(bytes + i, (int)number + 1, 16);
        r = sb_wal_writer_begin(writer, cut, UINT64_C(1800000000000000000) + cut, cut);

        r = r ? r : add(writer, &floor);
        r = r ? r : add(writer, &forgotten);
        r = r ? r : add(writer, &value);
        return r ? r : sb_wal_writer_end(writer);
}

/* The next log goes on, and each of its batches is an outcome. Return: whether it could. */
static bool write_behind(struct known *known)
{
        struct sb_wal_io io;
        struct sb_wal_writer_options options = {
                .directory_fd = work_fd, .io = &io, .file_size = 16u << 10, .payload_max = 1600};
        struct sb_wal_writer *writer = NULL;
        struct sb_wal_reader *reader;
        struct log_loaded loaded;
        const char *reason;
        int r = sb_wal_reader_open(work_fd, NULL, &reader);

        if (r)
                return false;
        options.sequence = sb_wal_reader_end(reader)->sequence;
        options.cut = sb_wal_reader_end(reader)->cut;
        options.hash_seed = sb_wal_reader_end(reader)->hash_seed;
        memcpy(options.id, sb_wal_reader_end(reader)->id, sizeof(options.id));
        sb_wal_reader_close(reader);
        if (sb_wal_backend_open(SB_WAL_SYNC, work_fd, &io, &reason))
                return false;
        r = sb_wal_writer_open(&options, &writer);
        for (uint32_t i = 0; i < BATCHES && !r; i++) {
                r = write_batch(writer, options.cut + 10 * (i + 1), i);
                recorder_note(&first, RECORD_DURABLE, known->wanted + i + 1, 0);
                calls_end();
                log_load(work_fd, 0, false, &loaded);
                calls_resume();
                r = r ? r : loaded.result;
                known->outcomes[known->wanted + i + 1] =
                        (struct outcome){loaded.cut, loaded.digest, true};
        }
        sb_wal_writer_close(writer);
        sb_wal_backend_close(&io);
        return !r;
}

/* Lays the log into the directory of the first start, and begins the record. */
static void lay_out(void)
{
        char name[NAME_MAX_LEN];

        scratch_empty(work_fd);
        memset(&nothing, 0, sizeof(nothing));
        log_image_store(work_fd, &image, &nothing);
        recorder_clear(&first);
        states_begin(&states, &first, -1, -1);
        for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                if (image.files[i].there) {
                        snprintf(name, sizeof(name), "wal-%016x", i + 1);
                        states_add(&states, name, recorder_add(&first, name), image.files[i].bytes,
                                image.files[i].size);
                }
}

/* What the log has before, and what it goes back to. Return: whether it does. */
static bool find_outcomes(uint64_t to, struct known *ret)
{
        struct known known = {.to = to};
        struct log_loaded loaded;

        memset(&nothing, 0, sizeof(nothing));
        log_image_store(image_fd, &image, &nothing);
        log_load(image_fd, 0, false, &loaded);
        known.refused = loaded.result;
        if (!loaded.result)
                known.outcomes[known.count++] = (struct outcome){loaded.cut, loaded.digest, false};
        log_load(image_fd, to, false, &loaded);
        scratch_empty(image_fd);
        if (!to)
                known.count = 0;
        if (loaded.result || which(&known, &loaded) < OUTCOMES_MAX)
                return false;
        known.wanted = known.count;
        known.outcomes[known.count++] = (struct outcome){loaded.cut, loaded.digest, to};
        fronts += !to;
        *ret = known;
        return true;
}

static bool try_first(struct known *known)
{
        const struct record *record;

        /* Outcomes that come later are none yet. */
        known->count = known->wanted + 1;
        for (;;) {
                if (!try_place(&states, known, known->first ? judge : judge_first))
                        return false;
                do {
                        if (states.at == first.count)
                                return true;
                        record = &first.records[states.at];
                        states_step(&states);
                        if (record->kind == RECORD_DURABLE) {
                                known->refused = false;
                                known->first = (uint32_t)record->sequence;
                                known->count = known->first + 1;
                                if (known->first > known->wanted)
                                        known->to = 0;
                                if (known->first < known->wanted + BATCHES)
                                        known->count++;
                        }
                } while (record->kind == RECORD_DURABLE);
        }
}

static bool go_back(uint64_t to)
{
        struct known known;
        struct log_loaded loaded;
        bool good;

        if (!find_outcomes(to, &known))
                return true;
        lay_out();
        calls_begin(&first, work_path, work_fd);
        log_load(work_fd, to, false, &loaded);
        recorder_note(&first, RECORD_DURABLE, known.wanted, 0);
        good = !loaded.result || blame(&states, "the log does not go back", &loaded);
        good = good &&
               (write_behind(&known) || blame(&states, "the next log does not go on", &loaded));
        calls_end();
        good = good && try_first(&known);
        states_end(&states);
        return good;
}

static bool begin(void)
{
        draw_state = 1;
        wrong[0] = '\0';
        seconds = failures = fronts = 0;
        tries_begin(&tries);
        work_fd = scratch_make(work_path, sizeof(work_path));
        image_fd = scratch_make(image_path, sizeof(image_path));
        return work_fd >= 0 && image_fd >= 0;
}

static void end(void)
{
        scratch_remove(work_fd, work_path);
        scratch_remove(image_fd, image_path);
}

/* ---- a new bus ---- */

static bool judge_new(struct states *at, const void *context)
{
        const struct known *known = context;
        struct log_loaded loaded = {.said = "it is not there", .result = -1};
        int fd;

        states_lay(at, image_fd);
        fd = openat(image_fd, "deep/bus", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
                log_load(fd, 0, false, &loaded);
                close(fd);
        }
        scratch_empty(image_fd);
        if (fd < 0 ? !known->first : !loaded.result && which(known, &loaded) < OUTCOMES_MAX)
                return true;
        return blame(at, "a new bus has lost what was acknowledged", &loaded);
}

/* The first batch of a log, in a directory that was made for it. Return: its cut; 0: it failed. */
static uint64_t write_new(void)
{
        struct sb_wal_io io;
        struct sb_wal_writer_options options = {
                .io = &io, .file_size = 16u << 10, .payload_max = 1600, .hash_seed = 7};
        struct sb_wal_writer *writer = NULL;
        const char *reason;
        int r = -1;

        if (mkdirat(work_fd, "deep", 0700) < 0 || mkdirat(work_fd, "deep/bus", 0700) < 0)
                return 0;
        options.directory_fd = openat(work_fd, "deep/bus", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (!sb_wal_backend_open(SB_WAL_SYNC, options.directory_fd, &io, &reason)) {
                r = sb_wal_writer_open(&options, &writer);
                r = r ? r : write_batch(writer, 10, 0);
                sb_wal_writer_close(writer);
                sb_wal_backend_close(&io);
        }
        close(options.directory_fd);
        return r ? 0 : 10;
}

static void test_what_a_new_bus_has_acknowledged_is_there_though_its_directories_are_new(void)
{
        struct known known = {.count = 2};
        struct log_loaded loaded;
        bool good;
        int fd;

        CHECK(begin());
        log_load(work_fd, 0, false, &loaded);
        known.outcomes[0] = (struct outcome){loaded.cut, loaded.digest, false};
        memset(&image, 0, sizeof(image));
        lay_out();
        calls_begin(&first, work_path, work_fd);
        good = write_new();
        calls_end();
        fd = openat(work_fd, "deep/bus", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        log_load(fd, 0, false, &loaded);
        close(fd);
        known.outcomes[1] = (struct outcome){loaded.cut, loaded.digest, false};
        good = good && loaded.cut == 10;
        while (good && states.at < first.count) {
                states_step(&states);
                known.first = states.at == first.count;
                good = try_place(&states, &known, judge_new);
        }
        states_end(&states);
        end();
        if (!good)
                TEST_FAIL("%s", wrong);
        TEST_NOTE("%ju states", (uintmax_t)tries.states);
        CHECK(tries.states > 20);
}

/* ---- the logs ---- */

/* The log is as its writer left it, or its last batch is torn, or one in the middle was changed. */
static bool change(enum damage damage)
{
        const struct log_frame *frame = &seed.frames[seed.frame_count - 1];

        log_image_copy(&image, &seed.image);
        if (damage == FRONT_DAMAGED)
                memset(image.files[1].bytes, 0, SB_WAL_BLOCK);
        if (damage == FRONT_DAMAGED)
                return image.files[0].there && image.files[2].there;
        if (damage == DAMAGED)
                frame = &seed.frames[seed.frame_count / 2 + draw(2)];
        if (damage != NO_DAMAGE)
                image.files[frame->file].bytes[frame->offset + frame->space / 2] ^= 0x55;
        if (damage != NO_DAMAGE)
                image.files[frame->file].bytes[frame->offset + SB_WAL_BLOCK - 1] ^= 0x55;
        return damage == NO_DAMAGE || frame->offset;
}

static bool every_log(bool (*look)(uint64_t to))
{
        static const uint32_t kinds[] = {LOG_FILES, LOG_ANEW, LOG_COPY, LOG_PIECES, LOG_FRONT};

        for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                for (enum damage damage = NO_DAMAGE; damage < DAMAGES; damage++) {
                        uint32_t step;

                        scratch_empty(work_fd);
                        memset(&seed, 0, sizeof(seed));
                        log_seed_make(kinds[i], work_fd, &seed);
                        step = seed.written_count / TARGETS_MAX + 1;
                        if (!change(damage))
                                continue;
                        /* At first no cut is said: a start has nothing to do, but in front. */
                        for (uint32_t at = 0; at < seed.written_count; at += at ? step : 1) {
                                uint64_t to = at ? seed.written[at].cut : 0;

                                earlier = at ? seed.written[at - 1].cut : 0;
                                if ((!to && damage != FRONT_DAMAGED) || look(to))
                                        continue;
                                printf("# log %u, damage %u, to cut %ju: %s\n", kinds[i], damage,
                                        (uintmax_t)to, wrong);
                                return false;
                        }
                }
        return true;
}

static void test_a_power_failure_leaves_the_log_as_it_was_or_the_cut_that_was_asked_for(void)
{
        bool good;

        CHECK(begin());
        good = every_log(go_back);
        end();
        TEST_NOTE(
                "%ju states after %ju calls (%ju drawn), %ju with torn writes; %ju second starts; "
                "%ju logs that are damaged in front",
                (uintmax_t)tries.states, (uintmax_t)tries.places, (uintmax_t)tries.made,
                (uintmax_t)tries.torn, (uintmax_t)seconds, (uintmax_t)fronts);
        if (!good)
                TEST_FAIL("%s", wrong);
        CHECK(tries.states > 1000 && seconds > 10 && fronts);
}

/* ---- calls that fail ---- */

/* Behind a start that failed the command is given again, and the power goes meanwhile. */
static bool command_again(struct known *known)
{
        struct log_loaded loaded;

        first.fail_at = 0;
        calls_resume();
        log_load(work_fd, known->to, false, &loaded);
        calls_end();
        if (loaded.result || which(known, &loaded) != known->wanted)
                return blame(&states, "behind a failed call the command does not go on", &loaded);
        while (states.at < first.count) {
                states_step(&states);
                if (states.at == first.count) {
                        known->first = known->wanted;
                        known->refused = false;
                }
                if ((known->first || !draw(PLACE_OF)) && !try_place(&states, known, judge))
                        return false;
        }
        return true;
}

/* Whether a directory was left that has some files, and not all. */
static bool is_half_aside(void)
{
        uint32_t names = 0, files = 0;

        for (uint32_t i = 0; i < first.name_count; i++)
                names += !strncmp(first.names[i].name, "aside-", 6);
        for (uint32_t i = 0; i < LOG_FILES_MAX; i++)
                files += image.files[i].there;
        return names > 1 && names != files + 1;
}

/* One call of the start fails, and the power goes, or the command is given again. */
static bool fail_at(const struct known *before, uint64_t call, int error, enum recorder_failure how)
{
        struct known known = *before;
        struct log_loaded loaded;

        lay_out();
        first.fail_at = call;
        first.error = error;
        first.failure = how;
        calls_begin(&first, work_path, work_fd);
        log_load(work_fd, known.to, false, &loaded);
        calls_end();
        if (loaded.result && !strstr(loaded.said, strerror(-error)))
                return blame(&states, "what failed is not said", &loaded);
        if (loaded.result && how != FAIL_REST && is_half_aside())
                return blame(&states, "behind a failed call a part of the log is aside", &loaded);
        if (!loaded.result)
                known.first = known.wanted, known.refused = false;
        while (states.at < first.count)
                states_step(&states);
        if (!try_place(&states, &known, judge))
                return false;
        return command_again(&known);
}

static bool fail_each(uint64_t to)
{
        struct known known;

        if (!find_outcomes(to, &known))
                return true;
        for (uint64_t call = 1, more = 1; more; call++)
                for (uint32_t way = IS_LONG ? 0 : call % 4, end = IS_LONG ? 4 : way + 1;
                        way < end && more; way++) {
                        static const enum recorder_failure hows[] = {
                                FAIL_BEFORE, FAIL_PART, FAIL_BEFORE, FAIL_REST};
                        bool good = fail_at(&known, call, way < 2 ? -EIO : -ENOSPC, hows[way]);

                        more = first.calls >= call;
                        failures += more;
                        states_end(&states);
                        if (!good) {
                                printf("# call %ju of %ju, way %u\n", (uintmax_t)call,
                                        (uintmax_t)first.calls, way);
                                return false;
                        }
                }
        return true;
}

static void test_nor_does_one_behind_a_call_that_failed_and_that_call_is_said(void)
{
        bool good;

        CHECK(begin());
        good = every_log(fail_each);
        end();
        TEST_NOTE(
                "%ju calls that failed; %ju states", (uintmax_t)failures, (uintmax_t)tries.states);
        if (!good)
                TEST_FAIL("%s", wrong);
        CHECK(failures > 100);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_power_failure_leaves_the_log_as_it_was_or_the_cut_that_was_asked_for);
        RUN(test_what_a_new_bus_has_acknowledged_is_there_though_its_directories_are_new);
        RUN(test_nor_does_one_behind_a_call_that_failed_and_that_call_is_said);
        return test_end();
}
