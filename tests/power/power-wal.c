/*
 * The log after a power failure (ring/wal, agentd/wal), at every moment of its life.
 *
 * A writer works on a directory, and all that it does with files is recorded. Then, for each
 * beginning of the record, directories are made as a power failure may leave them (states.h), and
 * the real reader reads them. Of each it must find
 * - no damage: the log is clean, or torn at its end;
 * - all batches that were acknowledged, and are not a checkpoint's alone, as they were written;
 * - beyond them at most the batch that was being written, whole, and as it was written.
 * One of these states is where the next writer goes on: a log lives through several failures. In a
 * second test calls fail meanwhile, and the writer begins anew.
 *
 * SB_SEED takes other choices, SB_ROUNDS more of them. Without both, the two tests make 50,000
 * states at least.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/power/recorder.h"
#include "tests/power/states.h"
#include "tests/unit/draw.h"

#define GENERATIONS    4u
#define STEPS          24u
#define SEQUENCES_MAX  1024u
#define ATTEMPTS_MAX   (STEPS + 1)
#define ALL_SUBSETS_OF 4u /* so many waiting writes and names are tried in all combinations */
#define SOME_SUBSETS   16u
#define TORN_SUBSETS   64u
#define BLOCK_SUBSETS  16u
#define SAME_MAX       4u /* so many states in a row that were seen before end a place's */
#define NAMES_MANY     8u
#define LOST_MAX       16u

static struct recorder recorder;
static struct states states;
static struct story story;
static int work_fd, store_fd, image_fd;
static char work_path[64], store_path[64], image_path[64];

/* What is known of the log at the present place of the record. */
static struct {
        uint64_t durable, released;
        bool release_failed;
        uint64_t settled[SEQUENCES_MAX]; /* seeds of durable batches */
        uint64_t attempts[SEQUENCES_MAX][ATTEMPTS_MAX];
        uint32_t attempt_count[SEQUENCES_MAX];
} known;

/* Where the next generation begins. */
static struct {
        struct states_links links;
        struct states_file files[LINKS_MAX];
        struct story story;
} chosen;

static struct {
        uint64_t made, states, blocks, torn, unfinished, places, failures, recycled, gaps,
                same_cuts;
} counts;

static uint64_t states_in_all;
static uint32_t same; /* states in a row that were seen before */
static char wrong[400];

/* ---- judging ---- */

static bool blame(const char *what, const struct states_choice *choice)
{
        snprintf(wrong, sizeof(wrong),
                "%s; record %u of %u, writes %jx of %u, names %jx of %u, torn %u; durable %ju, "
                "found %ju (first %ju, %u batches)%s%s",
                what, states.at, recorder.count, (uintmax_t)choice->writes, states.write_count,
                (uintmax_t)choice->names, states.names_waiting, choice->torn,
                (uintmax_t)known.durable, (uintmax_t)story.end.sequence, (uintmax_t)story.first,
                story.count, story.end.what ? ": " : "", story.end.what ? story.end.what : "");
        return false;
}

static bool is_attempt(uint64_t sequence, uint64_t seed)
{
        for (uint32_t i = 0; i < known.attempt_count[sequence]; i++)
                if (known.attempts[sequence][i] == seed)
                        return true;
        return false;
}

/* Whether the log in the image is what may be found at this place. */
static bool judge(const struct states_choice *choice)
{
        if (story_read(image_fd, &story))
                return blame("the log cannot be read", choice);
        /* Files that were let go may be back, with a gap behind them, as recovery passes over. */
        if (story.end.ending == SB_WAL_DAMAGED && known.release_failed) {
                if (story_read_behind(image_fd, &story))
                        return blame("nothing can be read behind the gap", choice);
                counts.gaps++;
        }
        if (story.wrong)
                return blame(story.wrong, choice);
        if (story.end.ending != SB_WAL_CLEAN && story.end.ending != SB_WAL_TORN)
                return blame("damage", choice);
        if (story.end.sequence < known.durable)
                return blame("an acknowledged batch is lost", choice);
        if (story.count && story.first + story.count - 1 != story.end.sequence)
                return blame("not all batches that count are handed out", choice);
        if (known.durable > known.released && (!story.count || story.first > known.released + 1))
                return blame("a batch is gone that no checkpoint has", choice);
        for (uint32_t i = 0; i < story.count; i++) {
                uint64_t sequence = story.first + i;

                if (sequence <= known.durable && sequence > known.released
                                ? story.seeds[i] != known.settled[sequence]
                                : sequence > known.durable && !is_attempt(sequence, story.seeds[i]))
                        return blame("a batch is another one than was written", choice);
        }
        counts.unfinished += story.end.sequence > known.durable;
        counts.torn += story.end.ending == SB_WAL_TORN;
        return true;
}

/* Keeps the state, so that each of the generation is as likely to be the last that is kept. */
static void choose(uint64_t states_here)
{
        if (draw_word() % states_here)
                return;
        chosen.links = states.links;
        chosen.story = story;
        for (uint32_t i = 0; i < states.links.count; i++) {
                const struct states_file *from = &states.file[states.links.link[i].node];

                /* What is in spares is of no interest. */
                chosen.files[i].size = 0;
                if (!strncmp(states.links.link[i].name, "wal-spare", 9))
                        continue;
                if (!chosen.files[i].bytes)
                        chosen.files[i].bytes = malloc(FILE_MAX);
                memcpy(chosen.files[i].bytes, from->bytes, from->size);
                chosen.files[i].size = from->size;
        }
}

static bool try_state(const struct states_choice *choice, uint64_t *states_here)
{
        counts.made++;
        same++;
        if (!states_make(&states, choice, known.durable << 32 | known.released))
                return true;
        same = 0;
        counts.states++;
        if (!judge(choice))
                return false;
        choose(++*states_here);
        return true;
}

/* The same of a disk that writes blocks whole, below a journal: names come in their order. */
static bool try_blocks(uint64_t *states_here)
{
        struct states_choice choice = {.blocks = true};
        uint32_t names = states.names_waiting < 63 ? states.names_waiting : 63;
        uint64_t before = counts.states;

        if (!states_visible_long(&states) && (names < 2 || !states_visible(&states)))
                return true;
        same = 0;
        for (uint32_t i = 0; i < BLOCK_SUBSETS && same < SAME_MAX; i++) {
                choice.torn = 1 + draw(7);
                choice.seed = draw_word();
                choice.writes = i & 1 ? draw_word() : UINT64_MAX;
                choice.names = (UINT64_C(1) << draw(names + 1)) - 1;
                if (!try_state(&choice, states_here))
                        return false;
        }
        counts.blocks += counts.states - before;
        return true;
}

/* All that may be left at this place of the record, or enough of it. */
static bool try_states(uint64_t *states_here)
{
        uint32_t waiting = states.write_count + states.names_waiting;
        struct states_choice choice = {.writes = UINT64_MAX, .names = UINT64_MAX};
        uint32_t visible = states_visible(&states);
        uint32_t torn_subsets = visible ? TORN_SUBSETS : 0;

        same = 0;
        counts.places++;
        if (waiting <= ALL_SUBSETS_OF) {
                for (uint64_t subset = 0; subset < UINT64_C(1) << waiting; subset++) {
                        choice.writes = subset;
                        choice.names = subset >> states.write_count;
                        if (!try_state(&choice, states_here))
                                return false;
                }
        } else {
                for (uint32_t i = 0; i < SOME_SUBSETS && same < SAME_MAX; i++) {
                        choice.writes = i & 1 ? draw_word() : 0 - (uint64_t)(i >> 1 & 1);
                        choice.names = i & 2 ? draw_word() : 0 - (uint64_t)(i >> 2 & 1);
                        if (!try_state(&choice, states_here))
                                return false;
                }
        }
        same = 0;
        for (uint32_t i = 0; i < torn_subsets && same < SAME_MAX; i++) {
                choice.torn = 1 + draw(7);
                choice.seed = draw_word();
                choice.writes = i & 1 ? draw_word() : UINT64_MAX;
                choice.names = draw_word();
                if (!try_state(&choice, states_here))
                        return false;
        }
        return try_blocks(states_here);
}

/* Takes what the test noted in the record. */
static void learn(const struct record *record)
{
        uint64_t sequence = record->sequence;

        switch (record->kind) {
        case RECORD_BEGIN:
                known.attempts[sequence][known.attempt_count[sequence]++] = record->seed;
                break;
        case RECORD_DURABLE:
                for (; known.durable < sequence; known.durable++)
                        known.settled[known.durable + 1] =
                                known.attempts[known.durable + 1]
                                              [known.attempt_count[known.durable + 1] - 1];
                break;
        case RECORD_RELEASED:
                known.released = sequence;
                break;
        case RECORD_RELEASE_FAILED:
                known.release_failed = true;
                break;
        default:
                break;
        }
}

static bool try_record(void)
{
        uint64_t states_here = 0;

        if (!try_states(&states_here))
                return false;
        while (states.at < recorder.count) {
                const struct record *record = &recorder.records[states.at];

                states_step(&states);
                learn(record);
                if (record->kind == RECORD_BEGIN || record->kind == RECORD_RELEASED ||
                        record->kind == RECORD_RELEASE_FAILED)
                        continue;
                if (!try_states(&states_here))
                        return false;
        }
        return true;
}

/* ---- writing ---- */

/* The present, while the record is made. */
static struct {
        uint64_t sequence, cut, released;
        uint64_t cuts[SEQUENCES_MAX]; /* of durable batches */
        uint64_t number;              /* of batches that were begun */
        uint32_t attempt;
} present;

static uint32_t draw_shape(void)
{
        static const uint32_t shapes[] = {BATCH_ONE, BATCH_ONE, BATCH_FEW, BATCH_KINDS, BATCH_PAGES,
                BATCH_FRAMES, BATCH_VALUE, BATCH_EMPTY};

        return shapes[draw(8)];
}

/* Writes a batch; after a failure the writer begins anew. Return: whether the writer goes on. */
static bool write_batch(struct sb_wal_writer *writer)
{
        uint64_t seed = batch_seed(++present.number, draw_shape()), durable, cut;
        uint64_t sequence = present.sequence + 1;
        /* Pieces of a copy have the cut of the batch before. */
        bool is_same = sequence > 1 && !draw(3);
        int r;

        recorder_note(&recorder, RECORD_BEGIN, sequence, seed);
        r = batch_write(writer, seed, is_same ? present.cut : 10 * sequence + present.attempt);
        sb_wal_writer_durable(writer, &durable, &cut);
        if (!r) {
                recorder_note(&recorder, RECORD_DURABLE, durable, 0);
                present.sequence = sequence;
                present.cut = present.cuts[sequence] = cut;
                counts.same_cuts += is_same;
                present.attempt = 0;
                return true;
        }
        counts.failures++;
        present.attempt = (present.attempt + 1) % 10;
        for (uint32_t i = 0; i < 3; i++)
                if (!sb_wal_writer_resume(writer))
                        return true;
        return false;
}

static void release(struct sb_wal_writer *writer)
{
        uint64_t left = present.sequence - present.released;

        if (recorder.name_count < NAMES_MANY && left)
                left = draw((uint32_t)left);
        else
                left = 0;
        present.released = present.sequence - left;
        /* All batches of that cut go with it. */
        while (left && present.cuts[present.released + 1] == present.cuts[present.released]) {
                present.released++;
                left--;
        }
        recorder_note(&recorder, RECORD_RELEASED, present.released, 0);
        if (sb_wal_writer_release(writer, left ? present.cuts[present.released] : present.cut))
                recorder_note(&recorder, RECORD_RELEASE_FAILED, present.released, 0);
}

/* How many names wait for ever, because the sync of the directory that they waited for failed. */
static uint32_t count_lost_names(void)
{
        uint32_t waiting = 0, lost = 0;

        for (uint32_t i = 0; i < recorder.count; i++) {
                enum record_kind kind = recorder.records[i].kind;

                waiting += kind == RECORD_CREATE || kind == RECORD_RENAME || kind == RECORD_UNLINK;
                lost += kind == RECORD_DIRECTORY_FAILED ? waiting : 0;
                if (kind == RECORD_DIRECTORY || kind == RECORD_DIRECTORY_FAILED)
                        waiting = 0;
        }
        return lost;
}

/* A writer lives for some steps. Return: false: it broke a rule. */
static bool live(const struct sb_wal_io *io, bool failing)
{
        struct sb_wal_writer_options options = {
                .directory_fd = work_fd,
                .io = io,
                .hash_seed = 99,
                .sequence = present.sequence,
                .cut = present.cut,
                .file_size = SB_WAL_BLOCK * (2 + draw(7)),
                .payload_max = draw(3) ? 1000 + 8 * draw(1000) : 200 + 8 * draw(100),
                .spares_wanted = draw(3),
        };
        struct sb_wal_writer *writer;

        if (sb_wal_writer_open(&options, &writer)) {
                snprintf(wrong, sizeof(wrong), "the writer cannot go on from what was found");
                return false;
        }
        for (uint32_t step = 0; step < STEPS; step++) {
                uint32_t what = draw(10);

                if (failing && recorder.calls >= recorder.fail_at &&
                        count_lost_names() < LOST_MAX) {
                        recorder.fail_at = recorder.calls + 1 + draw(40);
                        recorder.failure = draw(2) ? FAIL_BEFORE : FAIL_PART;
                }
                if (recorder.name_count > NAMES_MANY || what == 0)
                        release(writer);
                if (what == 1)
                        (void)sb_wal_writer_prepare(writer);
                if (what > 1 && !write_batch(writer))
                        break;
        }
        sb_wal_writer_close(writer);
        if (recorder.wrong)
                snprintf(wrong, sizeof(wrong), "%s", recorder.wrong);
        return !recorder.wrong;
}

/* ---- generations ---- */

/* Lays the chosen state into the directory that the next writer works in. */
static bool lay_out(void)
{
        memset(&known, 0, sizeof(known));
        known.durable = present.sequence = chosen.story.end.sequence;
        present.cut = chosen.story.end.cut;
        known.released = chosen.story.count ? chosen.story.first - 1 : known.durable;
        present.released = known.released;
        present.attempt = 0;
        for (uint32_t i = 0; i < chosen.story.count; i++)
                known.settled[chosen.story.first + i] = chosen.story.seeds[i];
        for (uint32_t i = 0; i < chosen.story.count; i++)
                present.cuts[chosen.story.first + i] = chosen.story.cuts[i];
        for (uint32_t i = 0; i < chosen.links.count; i++) {
                const struct states_file *file = &chosen.files[i];
                const char *name = chosen.links.link[i].name;
                uint64_t number;
                int fd;
                bool good;

                /* Recovery takes away what is in front of a gap. */
                if (sscanf(name, "wal-%16" SCNx64, &number) == 1 &&
                        number < chosen.story.first_file)
                        continue;
                fd = openat(work_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
                good = fd >= 0 && write(fd, file->size ? (const void *)file->bytes : "",
                                          file->size) == (ssize_t)file->size;

                close(fd);
                if (!good)
                        return false;
                states_add(&states, name, recorder_add(&recorder, name),
                        file->size ? file->bytes : (const unsigned char *)"", file->size);
        }
        return true;
}

/* One writer, and all power failures that may end it. */
static bool generation(bool failing)
{
        struct sb_wal_io below, io;
        const char *reason;
        bool good;

        if (sb_wal_backend_open(SB_WAL_SYNC, work_fd, &below, &reason))
                return false;
        recorder_begin(&recorder, &below, &io);
        states_begin(&states, &recorder, store_fd, image_fd);
        snprintf(wrong, sizeof(wrong), "the directory cannot be laid out");
        good = lay_out() && live(&io, failing) && try_record();
        for (uint32_t i = 0; i < recorder.count; i++)
                counts.recycled += recorder.records[i].kind == RECORD_RENAME &&
                                   !strncmp(recorder.records[i].to, "wal-spare", 9);
        states_end(&states);
        recorder_end(&recorder);
        sb_wal_backend_close(&below);
        scratch_empty(work_fd);
        scratch_empty(image_fd);
        scratch_empty(store_fd);
        return good;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 0) : otherwise;
}

static void every_power_failure(bool failing, uint64_t rounds)
{
        uint64_t seed = number_from("SB_SEED", 1) + (failing ? 1000 : 0);

        rounds = number_from("SB_ROUNDS", rounds);
        memset(&counts, 0, sizeof(counts));
        work_fd = scratch_make(work_path, sizeof(work_path));
        store_fd = scratch_make(store_path, sizeof(store_path));
        image_fd = scratch_make(image_path, sizeof(image_path));
        CHECK(work_fd >= 0 && store_fd >= 0 && image_fd >= 0);
        for (uint64_t round = 0; round < rounds; round++) {
                draw_state = seed + round;
                recorder.salt = seed + round;
                present.number = 0;
                chosen.links.count = 0;
                memset(&chosen.story, 0, sizeof(chosen.story));
                for (uint32_t i = 0; i < GENERATIONS; i++)
                        if (!generation(failing)) {
                                scratch_remove(work_fd, work_path);
                                scratch_remove(store_fd, store_path);
                                scratch_remove(image_fd, image_path);
                                TEST_FAIL("SB_SEED=%ju, generation %u: %s",
                                        (uintmax_t)(seed + round), i, wrong);
                        }
        }
        scratch_remove(work_fd, work_path);
        scratch_remove(store_fd, store_path);
        scratch_remove(image_fd, image_path);
        TEST_NOTE("seed %ju: %ju states after %ju calls (%ju drawn), %ju by blocks alone; torn "
                  "%ju, with an "
                  "unacknowledged batch "
                  "%ju; %ju failures, %ju files used again, gaps passed over %ju; %ju batches with "
                  "the cut before",
                (uintmax_t)seed, (uintmax_t)counts.states, (uintmax_t)counts.places,
                (uintmax_t)counts.made, (uintmax_t)counts.blocks, (uintmax_t)counts.torn,
                (uintmax_t)counts.unfinished, (uintmax_t)counts.failures,
                (uintmax_t)counts.recycled, (uintmax_t)counts.gaps, (uintmax_t)counts.same_cuts);
        states_in_all += counts.states;
        CHECK(counts.states > 1000 * rounds && counts.torn > 50 * rounds);
        CHECK(counts.unfinished > 20 * rounds && counts.recycled > 0);
        CHECK(!failing == !counts.failures && counts.same_cuts > 5 * rounds);
        CHECK(!failing == !counts.gaps || (failing && rounds < 6));
}

static void test_no_power_failure_takes_what_was_acknowledged_or_damages_the_log(void)
{
        every_power_failure(false, 8);
}

static void test_nor_does_one_behind_writes_and_syncs_that_failed(void)
{
        every_power_failure(true, 6);
        /* Where the other one was not left out. */
        if (!getenv("SB_SEED") && !getenv("SB_ROUNDS") && states_in_all != counts.states)
                CHECK(states_in_all >= 50000);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_no_power_failure_takes_what_was_acknowledged_or_damages_the_log);
        RUN(test_nor_does_one_behind_writes_and_syncs_that_failed);
        return test_end();
}
