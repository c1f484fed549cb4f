/*
 * A write that comes between two instructions of an operation which only marks what it meets: a
 * cell that gets a flag, a version that is held no longer (tests/kill/race.h). What the write did
 * stays. And the other way round, a stop of the bus that comes between two instructions of a write.
 */
#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "ring/log/batch.h"
#include "ring/op/commit.h"
#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/watch.h"
#include "shm/history/rules.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/harness/step/story.h"
#include "tests/kill/race.h"

#define ALL   SB_RULE_WORD(SB_RULE_ALL, 0)
#define DEPTH 8u

static unsigned char space[2][1 << 16] __attribute__((aligned(64))); /* of handles */

static bool newest_is(uint64_t rev, const char *value)
{
        struct sb_version *version;
        bool is;

        sb_pin(&reader);
        version = find("key");
        is = version && version->rev == rev && version->bytes[3] == (unsigned char)*value;
        sb_unpin(&reader);
        return is;
}

static void write_two(void)
{
        broken |= put(&writer, "key", "2", 1) != 0;
}

/* ---- the flag of a watch ---- */

static struct sb_op_watch watch;

static bool begin_with_key(void)
{
        return begin_plain() && !put(&writer, "key", "1", 1) && !sb_guard_grow(&reader, 0) &&
               !sb_guard_grow(&reader, 1);
}

static void begin_watch(void *context)
{
        (void)context;
        broken |= sb_op_watch_begin(&reader, "key", 3, 1, DEPTH, SB_WATCH_VERSIONS, &watch) != 0;
}

/* What came behind its beginning, it gives. */
static bool watched_write_stays(void)
{
        struct sb_op_change change;
        enum sb_watched end = sb_op_watch_look(&reader, &watch, 0, 1, &change);
        bool right = end == (watch.start < 1u + came ? SB_WATCHED_CHANGE : SB_WATCHED_NOTHING);

        sb_op_watch_end(&reader, &watch);
        return right && newest_is(1 + came, came ? "2" : "1");
}

static void test_a_write_beside_the_beginning_of_a_watch_stays(void)
{
        const struct race race = {.begin = begin_with_key,
                .operation = begin_watch,
                .beside = write_two,
                .right = watched_write_stays};

        CHECK(race_all(&race) > 10);
}

/* ---- the flag of a rule ---- */

static bool begin_with_rule(void)
{
        return begin_plain() && !sb_keep_write(&writer, "k", 1, true, ALL);
}

static void make_key(void *context)
{
        (void)context;
        broken |= put(&reader, "key", "1", 1) != 0;
}

/* Of the two, either was first. */
static bool both_writes_count(void)
{
        return came ? newest_is(2, "1") || newest_is(2, "2") : newest_is(1, "1");
}

static void test_a_write_beside_the_making_of_a_key_that_has_a_rule_stays(void)
{
        const struct race race = {.begin = begin_with_rule,
                .operation = make_key,
                .beside = write_two,
                .right = both_writes_count};

        CHECK(race_all(&race) > 10);
}

/* ---- a mark, and the log ---- */

static struct sb_batch batch;
static void *batch_space;
static uint64_t marked_cut;
static uint32_t logged; /* revisions of the key, as bits */

static bool log_take(const struct sb_batch_entry *entry, void *context)
{
        (void)context;
        if (entry->key_len >= 3 && !memcmp(entry->key, "key", 3))
                logged |= 1u << entry->rev;
        return true;
}

static int log_room(uint64_t size, void *context)
{
        (void)size, (void)context;
        return -1;
}

static bool log_once(void)
{
        bool good = !sb_batch_begin(&writer, &batch) &&
                    !sb_batch_each(&writer, &batch, log_take, log_room, NULL);

        sb_batch_end(&writer, &batch, good);
        return good;
}

/* A log that has all but the key. No mark was ever made. */
static bool begin_with_log(void)
{
        if (!begin_plain() || put(&writer, "other", "1", 1))
                return false;
        free(batch_space);
        batch_space = calloc(1, sb_batch_space(&writer.segment.geometry));
        if (!batch_space)
                return false;
        logged = 0;
        sb_unlogged_ask_all(&writer.segment);
        sb_batch_init(&writer.segment, batch_space, 0, &batch);
        return log_once() && !put(&writer, "key", "1", 1);
}

static void make_mark(void *context)
{
        (void)context;
        broken |= sb_op_mark(&reader, "m", 1, &marked_cut) != 0;
}

static void write_and_log(void)
{
        write_two();
        broken |= !log_once();
}

/* What the mark keeps is on the disk: so it is there when the bus comes back. */
static bool marked_version_is_logged(void)
{
        struct sb_version *version;
        bool right = log_once();

        sb_pin(&writer);
        version = sb_find_at(
                &writer, "key", 3, sb_hash_key("key", 3, writer.segment.seed), marked_cut);
        right &= version && (logged >> version->rev & 1);
        sb_unpin(&writer);
        return right;
}

static void test_what_the_first_mark_keeps_is_logged_wherever_a_batch_comes_in_between(void)
{
        const struct race race = {.begin = begin_with_log,
                .operation = make_mark,
                .beside = write_and_log,
                .right = marked_version_is_logged};

        CHECK(race_all(&race) > 10);
        free(batch_space);
        batch_space = NULL;
}

/* ---- a stop ---- */

static const struct sb_word32 living = {1};
static struct sb_bus bus;
static struct sb_bytes stopped_key; /* a short one goes the long way, here: SB_OVERWRITE_MIN */
static const struct sb_bytes stopped_value = {"a value", 8};
static uint64_t rev_before, rev_behind;
static int answer;

/* A bus of the public calls, of which a log has all. The client has blocks to build in. */
static bool begin_stoppable(void)
{
        bool good = begin_with_log();

        memset(space, 0, sizeof(space));
        bus = (struct sb_bus){0};
        sb_bus_init(&bus, &living, &reader.segment, reader.slot, reader.generation, space[0]);
        scene_heap_begin(&scene, scene.running);
        for (uint32_t i = 0; i < 8; i++) {
                good &= !sb_set(&bus, stopped_key, stopped_value, NULL, &rev_before);
                sb_work_all(&bus.handle, true);
        }
        good &= log_once();
        logged = 0;
        rev_behind = 0;
        return good;
}

static void set_key(void *context)
{
        (void)context;
        answer = sb_set(&bus, stopped_key, stopped_value, NULL, &rev_behind);
}

static void cas_key(void *context)
{
        (void)context;
        answer = sb_cas(&bus, stopped_key, rev_before, stopped_value, NULL, &rev_behind);
}

static void delete_key(void *context)
{
        (void)context;
        answer = sb_delete(&bus, stopped_key, SB_ANY_REV, NULL, &rev_behind);
}

static void commit_key(void *context)
{
        struct sb_txn *txn = NULL;

        (void)context;
        answer = sb_txn_begin(&bus, SB_SNAPSHOT, &txn);
        if (answer == 0)
                answer = sb_txn_set(txn, stopped_key, stopped_value);
        if (answer == 0)
                answer = sb_txn_commit(txn, NULL);
        rev_behind = rev_before + 1;
        sb_txn_end(txn);
}

/* As the supervisor does, and the log when it is told to end. */
static void stop_and_log(void)
{
        sb_store_relaxed(&writer.segment.super->state, SB_SEGMENT_REPLACED);
        broken |= !log_once();
}

/* What answered 0 is in the last batch, or there was no stop. */
static bool answered_write_is_logged(void)
{
        if (answer == 0)
                return rev_behind == rev_before + 1 && (!came || logged >> rev_behind & 1);
        return came && answer == SB_E_DETACHED;
}

static void test_a_write_that_answered_0_is_in_the_last_batch_wherever_the_bus_is_stopped(void)
{
        static void (*const calls[])(void *context) = {set_key, cas_key, delete_key, commit_key};
        static const struct sb_bytes keys[] = {{"key", 3}, {"key of a short way", 18}};

        for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(*calls); i++) {
                const struct race race = {.begin = begin_stoppable,
                        .operation = calls[i / 2],
                        .beside = stop_and_log,
                        .right = answered_write_is_logged};

                stopped_key = keys[i % 2];
                CHECK(race_all(&race) > 10);
        }
        free(batch_space);
        batch_space = NULL;
}

/* ---- what a transaction held ---- */

#define SIZE (1u << 18)

static unsigned char *copy;
/* In the copy: the writer, and a client that is pinned when the other one is killed. */
static struct sb_handle other, pinned;
static uint32_t kills, dated;
static const char *wrong;

static void commit_two(void *context)
{
        struct sb_commit_write writes[] = {{.key = "kex", .key_len = 3},
                {.key = "key", .key_len = 3, .value = "t", .value_len = 1}};
        struct sb_commit_wish wish = {.writes = writes, .write_count = 2};
        struct sb_commit_result result;

        (void)context;
        broken |= sb_snapshot_open(&reader, &wish.snapshot, &wish.cut) != 0;
        broken |= sb_commit_run(&reader, &wish, &result) != 0;
        sb_snapshot_close(&reader, wish.snapshot);
}

/* Where the two versions are; 0: there is no commit, or this one is not on its way out yet. */
static void find_dated(uint64_t ret[2])
{
        struct sb_record *record = sb_record_at(&other.segment, reader.slot);
        uint64_t at = sb_load_relaxed(&record->operation);
        struct sb_descriptor *commit =
                at & SB_OPERATION_DESCRIPTOR ? sb_descriptor_at(&other.segment, at) : NULL;

        ret[0] = ret[1] = 0;
        for (uint32_t i = 0; commit && i < 2; i++) {
                struct sb_version *version = sb_version_at(&other.segment, commit->write[i]);

                if (sb_load_relaxed(&version->block.retire) >= SB_ERA_MIN)
                        ret[i] = commit->write[i];
        }
}

/* What the commit let go of, others replace; it leaves its chain, and has a date. Only then is the
 * commit's client reaped. A client that is pinned since before may be reading it still. */
static const char *replace_and_reap(void)
{
        static struct sb_check_report report;
        struct sb_segment segment;
        uint64_t gone[2];

        memcpy(copy, reader.segment.base, SIZE);
        if (sb_segment_open(copy, SIZE, reader.segment.os, &segment))
                return "it cannot be opened";
        memset(space, 0, sizeof(space));
        sb_handle_init(&other, &segment, writer.slot, writer.generation, space[0]);
        sb_handle_init(&pinned, &segment, pinned.slot, pinned.generation, space[1]);
        sb_pin(&pinned);
        for (uint32_t i = 0; i < 4; i++)
                if (put(&other, i % 2 ? "key" : "kex", "2", 1))
                        return "a key cannot be written";
        sb_work_all(&other, true);
        find_dated(gone);
        dated += (gone[0] != 0) + (gone[1] != 0);
        sb_reap_record(&other, reader.slot, reader.generation);
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&other, true);
        for (uint32_t i = 0; i < 2; i++)
                if (gone[i] && !sb_unit_is_block(&segment, gone[i], SB_UNIT_VERSIONS, NULL))
                        return "what a pinned client may be reading is free";
        if (sb_check(&other, true, &report))
                return "it cannot be checked";
        return report.problem_count ? report.problems[0] : NULL;
}

static enum step_verdict kill_here(void *context, uint64_t number, uintptr_t address)
{
        (void)context, (void)number;
        kills++;
        stopped_before = address;
        wrong = replace_and_reap();
        return wrong ? STEP_STOP : STEP_ON;
}

static void test_what_a_killed_commit_wrote_and_others_replaced_keeps_its_grace_period(void)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        CHECK(make_bus_for(SIZE, 3) && writer.segment.geometry.size == SIZE);
        CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
        make_handle(&pinned, &writer.segment, slot, generation);
        CHECK(sb_handle_space(&writer.segment.geometry) <= sizeof(space[0]));
        CHECK(!put(&writer, "key", "1", 1) && !put(&writer, "kex", "1", 1));
        copy = aligned_alloc(UNIT_PAGE, SIZE);
        CHECK(copy);
        broken = false;
        run = (struct step_run){.operation = commit_two,
                .point = kill_here,
                .wanted = STEP_STORED,
                .shared = {writer.segment.base, SIZE},
                .point_limit = 1000000};
        CHECK_EQ(step_run(&run), STEP_DONE);
        if (wrong)
                TEST_FAIL("killed before %s: %s", step_where(stopped_before), wrong);
        CHECK(!broken && kills > 50 && dated > 0);
        free(copy);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_write_beside_the_beginning_of_a_watch_stays);
        RUN(test_what_the_first_mark_keeps_is_logged_wherever_a_batch_comes_in_between);
        RUN(test_a_write_that_answered_0_is_in_the_last_batch_wherever_the_bus_is_stopped);
        RUN(test_a_write_beside_the_making_of_a_key_that_has_a_rule_stays);
        RUN(test_what_a_killed_commit_wrote_and_others_replaced_keeps_its_grace_period);
        return test_end();
}
