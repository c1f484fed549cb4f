/*
 * One thing, and two processes that want it as their own: the second one comes between two
 * instructions of the first (tests/kill/race.h). Each of the two gets one for itself, and what the
 * second one has stays its own.
 */
#include "ring/op/watch.h"
#include "shm/history/named.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/evict.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/sweep.h"
#include "tests/kill/race.h"

/* ---- copies of the bus ---- */

static uint64_t asked_by_reader, asked_by_writer;

static void ask_by_reader(void *context)
{
        (void)context;
        asked_by_reader = sb_durable_want_copy(&reader.segment);
}

/* The log has begun one more, and another client asks for the next one. */
static void begin_one_and_ask_by_writer(void)
{
        sb_add_full(&writer.segment.super->copies_begun, 1);
        asked_by_writer = sb_durable_want_copy(&writer.segment);
}

static bool both_are_wanted(void)
{
        uint64_t wanted = sb_load_acquire(&writer.segment.super->copies_wanted);

        return wanted >= asked_by_reader && (!came || wanted >= asked_by_writer);
}

static void test_two_that_ask_for_a_copy_at_once_both_get_theirs(void)
{
        const struct race race = {.begin = begin_plain,
                .operation = ask_by_reader,
                .beside = begin_one_and_ask_by_writer,
                .right = both_are_wanted};

        CHECK(race_all(&race) > 2);
}

/* ---- marks ---- */

static struct sb_named_value marks[2]; /* of the operation, and of the other client */

static bool make_mark(struct sb_handle *handle, struct sb_named_value *ret)
{
        uint32_t snapshot;
        uint64_t cut;
        bool made = !sb_snapshot_open(handle, &snapshot, &cut) &&
                    !sb_named_take(handle, snapshot, cut, ret);

        if (made)
                sb_snapshot_close(handle, snapshot);
        return made;
}

static bool begin_without_marks(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .mark_count = 2};

        return make_bus_of(&wish);
}

static void mark_by_reader(void *context)
{
        (void)context;
        broken |= !make_mark(&reader, &marks[0]);
}

static void mark_by_writer(void)
{
        broken |= !make_mark(&writer, &marks[1]);
}

static bool marks_stand(void)
{
        bool right = true;

        for (uint32_t i = 0; i < 1 + (uint32_t)came; i++) {
                right &= sb_named_stands(&writer.segment, &marks[i]) &&
                         sb_load_relaxed(&writer.segment.marks[marks[i].index].cut) == marks[i].cut;
                sb_named_let_go(&writer, &marks[i]);
        }
        return right;
}

static void test_two_marks_that_are_made_at_once_are_two(void)
{
        const struct race race = {.begin = begin_without_marks,
                .operation = mark_by_reader,
                .beside = mark_by_writer,
                .right = marks_stand};

        CHECK(race_all(&race) > 10);
}

static struct sb_named_value mark, next_mark; /* of one place */

static bool begin_with_mark(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .mark_count = 1};

        return make_bus_of(&wish) && make_mark(&writer, &mark);
}

static void drop_mark(void *context)
{
        (void)context;
        sb_named_let_go(&reader, &mark);
}

static void drop_and_make_mark(void)
{
        sb_named_let_go(&writer, &mark);
        broken |= !make_mark(&writer, &next_mark);
}

static bool next_mark_stands(void)
{
        bool right = !sb_named_stands(&writer.segment, &mark) &&
                     (!came || sb_named_stands(&writer.segment, &next_mark));

        if (came)
                sb_named_let_go(&writer, &next_mark);
        return right;
}

static void test_a_mark_that_is_made_anew_stands_beside_another_drop_of_the_one_before(void)
{
        const struct race race = {.begin = begin_with_mark,
                .operation = drop_mark,
                .beside = drop_and_make_mark,
                .right = next_mark_stands};

        CHECK(race_all(&race) > 1);
}

/* The mark that stands has no key, and its maker is gone: a repair frees it. */
static void repair_by_reader(void *context)
{
        (void)context;
        sb_named_repair(&reader);
}

static uint32_t making; /* the announcement of the next mark, which has no key yet */

static void repair_and_begin_mark(void)
{
        uint64_t cut;

        sb_named_repair(&writer);
        broken |= sb_named_stands(&writer.segment, &mark);
        broken |= sb_snapshot_open(&writer, &making, &cut) ||
                  sb_named_take(&writer, making, cut, &next_mark);
}

static bool begun_mark_stands(void)
{
        bool right = next_mark_stands();

        if (came)
                sb_snapshot_close(&writer, making);
        return right;
}

static void test_a_mark_that_is_being_made_stands_beside_a_repair_of_the_one_before(void)
{
        const struct race race = {.begin = begin_with_mark,
                .operation = repair_by_reader,
                .beside = repair_and_begin_mark,
                .right = begun_mark_stands};

        CHECK(race_all(&race) > 3);
}

/* ---- announcements ---- */

static uint32_t snapshot; /* the owner's */
static uint64_t snapshot_cut, evict_max;

static bool begin_with_snapshot(void)
{
        if (!begin_plain() || put(&writer, "key", "1", 1) ||
                sb_snapshot_open(&reader, &snapshot, &snapshot_cut))
                return false;
        evict_max = snapshot_cut;
        return true;
}

static void evict(void *context)
{
        (void)context;
        sb_evict_client(&writer, reader.slot, evict_max);
}

/* In the same word: the first that is free. */
static void open_next(void)
{
        sb_snapshot_close(&reader, snapshot);
        broken |= put(&writer, "key", "2", 1) != 0 ||
                  sb_snapshot_open(&reader, &snapshot, &snapshot_cut) != 0;
}

static void close_alone(void)
{
        sb_snapshot_close(&reader, snapshot);
}

static bool next_one_holds(void)
{
        bool right = !came || sb_snapshot_holds(&reader, snapshot, snapshot_cut);

        sb_snapshot_close(&reader, snapshot);
        return right;
}

static bool word_is_free(void)
{
        return !came || !sb_load_relaxed(&sb_record_snapshots(reader.record)[snapshot]);
}

static void test_a_snapshot_that_is_opened_beside_the_end_of_the_one_before_is_not_taken_away(void)
{
        const struct race race = {.begin = begin_with_snapshot,
                .operation = evict,
                .beside = open_next,
                .right = next_one_holds};

        CHECK(race_all(&race) > 3);
}

static void test_an_announcement_that_has_ended_is_not_taken_away(void)
{
        const struct race race = {.begin = begin_with_snapshot,
                .operation = evict,
                .beside = close_alone,
                .right = word_is_free};

        CHECK(race_all(&race) > 3);
}

/* ---- units ---- */

#define SMALL 64u /* bytes of a block */

static uint64_t block; /* alone in its unit */
static uint64_t other; /* the other client's */

/* A unit without an owner and without a block: its last owner was killed before it said EMPTY. */
static bool begin_with_left_unit(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .unit_size = 4096};

        if (!make_bus_of(&wish) || sb_slab_take(&writer, SB_UNIT_VERSIONS, SMALL, 0, &block))
                return false;
        sb_slab_release_all(&writer);
        sb_store_relaxed(sb_unit_bitmap(&writer.segment, sb_unit_of(&writer.segment, block)), 0);
        return true;
}

static void repair(void *context)
{
        (void)context;
        sb_unit_repair(&reader, sb_unit_of(&reader.segment, block));
}

static void take_other(void)
{
        broken |= sb_slab_take(&writer, SB_UNIT_VERSIONS, SMALL, 0, &other) != 0;
}

static bool other_is_owned(void)
{
        uint64_t word =
                came ? sb_unit_word(&writer.segment, sb_unit_of(&writer.segment, other)) : 0;
        bool right =
                !came || (SB_UNIT_OWNER(word) == sb_unit_owner(&writer) &&
                                 sb_unit_is_block(&writer.segment, other, SB_UNIT_VERSIONS, NULL));

        if (came)
                sb_slab_give_back(&writer, other);
        sb_slab_release_all(&writer);
        return right;
}

static void test_a_unit_that_is_taken_beside_its_repair_stays_with_its_owner(void)
{
        const struct race race = {.begin = begin_with_left_unit,
                .operation = repair,
                .beside = take_other,
                .right = other_is_owned};

        CHECK(race_all(&race) > 3);
}

/* ---- bases ---- */

static struct sb_handle stopped; /* for ages, now and again */
static uint64_t pinned_since;    /* the last time */

/* It goes on, and is stopped again. */
static void stop_again(void)
{
        sb_unpin(&stopped);
        sb_pin(&stopped);
        pinned_since = SB_PIN_HI(sb_load_relaxed(&stopped.record->pin));
        sb_add_full(&writer.segment.super->era, 3 * (uint64_t)SB_ERA_OLD);
}

static void sweep_by(struct sb_handle *handle)
{
        uint32_t cursor = 0;

        sb_sweep_begin(handle);
        sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
        (void)sb_sweep_end(handle);
}

/* The reader is about to drop the base that the first stop had, and has made one for the second. */
static bool begin_with_a_base_to_drop(void)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(1 << 18, 3) ||
                sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                return false;
        make_handle(&stopped, &writer.segment, slot, generation);
        sb_pin(&stopped);
        stop_again();
        sweep_by(&writer);
        stop_again();
        sb_sweep_begin(&reader);
        return true;
}

static void end_sweep(void *context)
{
        (void)context;
        (void)sb_sweep_end(&reader);
}

/* The other one drops it first, and makes one for the third stop, in the same word. */
static void sweep_twice(void)
{
        sweep_by(&writer);
        stop_again();
        sweep_by(&writer);
}

static bool has_base(void)
{
        bool right = false;

        for (uint32_t i = 0; i < SB_RECORD_BASES; i++)
                right |= SB_BASE_ERA(sb_load_relaxed(&stopped.record->base[i])) == pinned_since + 1;
        sb_unpin(&stopped);
        return right;
}

static void test_a_base_that_is_made_anew_is_not_dropped_by_the_sweep_before(void)
{
        const struct race race = {.begin = begin_with_a_base_to_drop,
                .operation = end_sweep,
                .beside = sweep_twice,
                .right = has_base};

        CHECK(race_all(&race) > 3);
}

/* ---- watchers ---- */

#define DEPTH 8u

static struct sb_op_watch watches[2]; /* of the operation, and of the other client */

static bool begin_with_key(void)
{
        return begin_plain() && !put(&writer, "key", "1", 1);
}

static void watch_by_reader(void *context)
{
        (void)context;
        broken |=
                sb_op_watch_begin(&reader, "key", 3, 1, DEPTH, SB_WATCH_VERSIONS, &watches[0]) != 0;
}

static void watch_by_writer(void)
{
        broken |=
                sb_op_watch_begin(&writer, "key", 3, 2, DEPTH, SB_WATCH_VERSIONS, &watches[1]) != 0;
}

static void drop_by_reader(void *context)
{
        (void)context;
        broken |= sb_op_watch_begin_dropping(
                          &reader, "key", 3, 1, DEPTH, DEPTH, UINT64_MAX, &watches[0]) != 0;
}

static void drop_by_writer(void)
{
        broken |= sb_op_watch_begin_dropping(
                          &writer, "key", 3, 2, DEPTH, DEPTH, UINT64_MAX, &watches[1]) != 0;
}

static bool is_entered(const struct sb_handle *handle, uint32_t i)
{
        uint64_t word = sb_load_relaxed(watches[i].entry);

        return SB_WATCHER_SLOT(word) == handle->slot && SB_WATCHER_BIT(word) == i + 1;
}

static bool both_are_entered(void)
{
        bool right = is_entered(&reader, 0) && (!came || is_entered(&writer, 1));

        sb_op_watch_end(&reader, &watches[0]);
        if (came)
                sb_op_watch_end(&writer, &watches[1]);
        return right;
}

static void test_two_watches_that_begin_at_once_have_a_place_each(void)
{
        const struct race races[] = {{.begin = begin_with_key,
                                             .operation = watch_by_reader,
                                             .beside = watch_by_writer,
                                             .right = both_are_entered},
                {.begin = begin_with_key,
                        .operation = drop_by_reader,
                        .beside = drop_by_writer,
                        .right = both_are_entered}};

        CHECK(race_all(&races[0]) > 10);
        CHECK(race_all(&races[1]) > 10);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_two_that_ask_for_a_copy_at_once_both_get_theirs);
        RUN(test_two_marks_that_are_made_at_once_are_two);
        RUN(test_a_mark_that_is_made_anew_stands_beside_another_drop_of_the_one_before);
        RUN(test_a_mark_that_is_being_made_stands_beside_a_repair_of_the_one_before);
        RUN(test_a_snapshot_that_is_opened_beside_the_end_of_the_one_before_is_not_taken_away);
        RUN(test_an_announcement_that_has_ended_is_not_taken_away);
        RUN(test_a_unit_that_is_taken_beside_its_repair_stays_with_its_owner);
        RUN(test_a_base_that_is_made_anew_is_not_dropped_by_the_sweep_before);
        RUN(test_two_watches_that_begin_at_once_have_a_place_each);
        return test_end();
}
