/*
 * Watches of prefixes and the processes that write, commit or log beside them: a watch that joins
 * is told, a transaction is listed whole, and no hint is lost, also where one comes between two
 * instructions of the other (tests/kill/race.h).
 */
#include "ring/op/commit.h"
#include "ring/op/prefix.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/hint.h"
#include "shm/notify/prefix.h"
#include "shm/notify/turn.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/work.h"
#include "tests/kill/race.h"

static struct sb_handle engine;

static bool begin_served(void)
{
        return race_begin_served(&engine);
}

/* ---- watches of prefixes ---- */

static struct sb_op_prefix watch;

static void ask_for_all(void *context)
{
        (void)context;
        sb_unlogged_ask_all(&reader.segment);
}

static void ask_above_a_cut(void *context)
{
        (void)context;
        sb_unlogged_ask_above(&reader.segment, 5);
}

static void watch_keys(void)
{
        broken |= sb_op_prefix_begin(&writer, "k", 1, 1, SB_PREFIX_DEPTH, &watch) != 0;
}

static bool watch_is_told(void)
{
        uint64_t hints = came ? sb_hint_tail(&watch.row) : 0;

        return !came || (!put(&reader, "key", "1", 1) && sb_hint_tail(&watch.row) > hints);
}

static void test_a_watch_of_a_prefix_that_joins_where_a_log_asks_is_told(void)
{
        static void (*const operations[])(void *) = {ask_for_all, ask_above_a_cut};

        for (uint32_t i = 0; i < 2; i++) {
                const struct race race = {.begin = begin_plain,
                        .operation = operations[i],
                        .beside = watch_keys,
                        .right = watch_is_told};

                CHECK(race_all(&race) > 1);
        }
}

static bool begin_watched(void)
{
        return begin_plain() && !put(&writer, "key", "1", 1) &&
               !sb_op_prefix_begin(&reader, "k", 1, 1, SB_PREFIX_DEPTH, &watch);
}

static void watch_anew(void *context)
{
        (void)context;
        broken |= !sb_op_prefix_again(&reader, &watch);
}

/* More than the ring has hints for. */
static void write_much(void)
{
        for (uint32_t i = 0; i < 4 * sb_hint_slots(SB_PREFIX_DEPTH); i++)
                broken |= put(&writer, i % 2 ? "key" : "kex", "2", 1) != 0;
}

static bool watch_is_whole(void)
{
        bool right = sb_op_prefix_whole(&watch);

        sb_op_prefix_end(&reader, &watch);
        return right;
}

static void test_a_watch_of_a_prefix_begins_behind_what_was_given_up(void)
{
        const struct race race = {.begin = begin_watched,
                .operation = watch_anew,
                .beside = write_much,
                .right = watch_is_whole};

        CHECK(race_all(&race) > 10);
}

/* ---- a transaction below a prefix ---- */

static uint64_t cells[2]; /* of its two keys */
static uint32_t listed;
static bool serializable;

static uint64_t cell_number_of(const char *key)
{
        uint64_t number;

        sb_pin(&reader);
        number = sb_load_acquire(&sb_node_at(&reader.segment, find(key)->node)->cell);
        sb_unpin(&reader);
        return number;
}

static bool begin_with_two_keys(void)
{
        if (!begin_watched() || put(&writer, "kex", "1", 1))
                return false;
        cells[0] = cell_number_of("kex");
        cells[1] = cell_number_of("key");
        watch.cut = sb_clock_take_cut(&reader);
        listed = 0;
        return true;
}

static void commit_two(void *context)
{
        struct sb_commit_write writes[] = {{.key = "kex", .key_len = 3},
                {.key = "key", .key_len = 3, .value = "2", .value_len = 1}};
        struct sb_commit_wish wish = {
                .writes = writes, .write_count = 2, .serializable = serializable};
        struct sb_commit_result result;

        (void)context;
        broken |= sb_snapshot_open(&writer, &wish.snapshot, &wish.cut) != 0;
        broken |= sb_commit_run(&writer, &wish, &result) != 0;
        sb_snapshot_close(&writer, wish.snapshot);
}

static void count_listed(const struct sb_op_listed *one, void *context)
{
        (void)one, (void)context;
        listed++;
}

/* What has happened since the watch's cut. */
static void list_up_to_now(void)
{
        uint64_t cut = sb_clock_take_cut(&reader);

        for (uint32_t i = 0; i < 2; i++)
                (void)sb_op_prefix_list(&reader, &watch, cells[i], cut, count_listed, NULL);
        broken |= listed == 1;
        watch.cut = cut;
}

static bool both_were_listed(void)
{
        list_up_to_now();
        sb_op_prefix_end(&reader, &watch);
        return !broken && listed == 2;
}

static void test_a_transaction_beside_a_look_is_listed_whole_and_once(void)
{
        const struct race race = {.begin = begin_with_two_keys,
                .operation = commit_two,
                .beside = list_up_to_now,
                .right = both_were_listed};

        /* A serializable one has a stamp for a while before it is decided. */
        for (uint32_t kind = 0; kind < 2; kind++) {
                serializable = kind == 1;
                CHECK(race_all(&race) > 50);
        }
}

/* ---- hints that others put in ---- */

static uint64_t highest;

/* A process was stopped between its slot and the tail. */
static bool begin_behind_a_slot(void)
{
        if (!begin_watched())
                return false;
        sb_pin(&writer);
        (void)sb_hint_push(&writer, &watch.row, 7);
        sb_unpin(&writer);
        /* Relaxed: one thread. */
        sb_store_relaxed(&watch.row.ring->tail, sb_hint_tail(&watch.row) - 1);
        highest = 0;
        return true;
}

static void push_hint(void *context)
{
        (void)context;
        sb_pin(&writer);
        (void)sb_hint_push(&writer, &watch.row, 8);
        sb_unpin(&writer);
}

static void push_more(void)
{
        sb_pin(&reader);
        for (uint32_t i = 0; i < 3; i++)
                (void)sb_hint_push(&reader, &watch.row, 9);
        sb_unpin(&reader);
}

static void look_at_tail(void)
{
        uint64_t tail = sb_hint_tail(&watch.row);

        broken |= tail < highest;
        highest = tail;
}

static bool all_are_in(void)
{
        look_at_tail();
        return !broken && sb_hint_tail(&watch.row) == watch.hint + (came ? 5 : 2);
}

static void test_the_tail_of_hints_never_falls(void)
{
        const struct race race = {.begin = begin_behind_a_slot,
                .operation = push_hint,
                .beside = push_more,
                .behind = look_at_tail,
                .right = all_are_in,
                .bare = true};

        CHECK(race_all(&race) > 5);
}

/* ---- a process that goes on ages behind ---- */

#define AGES   ((UINT64_C(1) << 19) + 3) /* laps: more than half of those that a slot can tell */
#define WANTED 16u                       /* changes that the watch wants to be kept */

static uint32_t pushed;
static uint64_t clocks[256]; /* when hint n was put in */

/* A change, and its hint. */
static void push_change(struct sb_handle *handle)
{
        (void)sb_clock_take_cut(handle);
        clocks[pushed++ % 256] = sb_load_acquire(&handle->segment.super->clock);
        sb_pin(handle);
        (void)sb_hint_push(handle, &watch.row, 1 + pushed % 8);
        sb_unpin(handle);
}

static bool begin_with_laps(void)
{
        if (!begin_plain() || put(&writer, "key", "1", 1) ||
                sb_op_prefix_begin(&reader, "k", 1, 1, WANTED, &watch))
                return false;
        pushed = 0;
        for (uint32_t i = 0; i < 2 * watch.row.slot_count; i++)
                push_change(&reader);
        return !(sb_hint_tail(&watch.row) % watch.row.slot_count);
}

static void push_one_change(void *context)
{
        (void)context;
        push_change(&writer);
}

/* So many laps as if others had put hints in. */
static void let_ages_go_by(void)
{
        for (uint32_t i = 0; i < watch.row.slot_count; i++) {
                struct sb_word64 *slot = &watch.row.slots[i];

                /* Relaxed, all: one thread. A lap that does not fit the word's bits goes. */
                sb_store_relaxed(slot, sb_load_relaxed(slot) + (AGES << 44));
        }
        sb_store_relaxed(
                &watch.row.ring->tail, sb_hint_tail(&watch.row) + AGES * watch.row.slot_count);
}

/* The hint went in behind all others, and so does each one that comes. */
static bool hints_go_on(void)
{
        push_change(&reader); /* the tail may have been left to the next one */
        for (uint32_t i = 0; i < 2 * watch.row.slot_count; i++) {
                uint64_t tail = sb_hint_tail(&watch.row);

                if (!sb_hint_read(&watch.row, tail - 1) || sb_hint_is_there(&watch.row, tail))
                        return false;
                push_change(&reader);
                if (sb_hint_tail(&watch.row) != tail + 1)
                        return false;
        }
        return true;
}

static void test_a_hint_of_a_process_that_goes_on_ages_behind_takes_no_slot_away(void)
{
        const struct race race = {.begin = begin_with_laps,
                .operation = push_one_change,
                .beside = let_ages_go_by,
                .right = hints_go_on,
                .bare = true};

        CHECK(race_all(&race) > 5);
}

/* The next half begins, too. */
static void push_a_half(void)
{
        for (uint32_t i = 0; i <= watch.row.slot_count / 2; i++)
                push_change(&reader);
}

/* What the last changes replaced is kept, as many as the watch wants. */
static bool last_ones_are_kept(void)
{
        return sb_hint_gone(&watch.row) < clocks[sb_hint_tail(&watch.row) - WANTED];
}

static void test_a_process_that_begins_a_half_late_gives_up_nothing_of_the_next_one(void)
{
        const struct race race = {.begin = begin_with_laps,
                .operation = push_one_change,
                .beside = push_a_half,
                .right = last_ones_are_kept,
                .bare = true};

        CHECK(race_all(&race) > 5);
}

/* ---- a set below a prefix, and the end of its watch ---- */

#define TICKS 4u /* in so many the engine takes the ring back */

static bool begin_watched_and_served(void)
{
        return begin_served() && !put(&writer, "key", "1", 1) &&
               !sb_op_prefix_begin(&reader, "k", 1, 3, SB_PREFIX_DEPTH, &watch);
}

static void set_key(void *context)
{
        (void)context;
        broken |= put(&writer, "key", "2", 1) != 0;
}

/* The engine's ticks, until all is done that it was asked for. */
static void serve(uint32_t ticks)
{
        static uint32_t cursor;

        while (ticks--)
                (void)sb_work_tick(&engine, &cursor);
}

static void end_watch(void)
{
        sb_op_prefix_end(&reader, &watch);
        serve(100);
}

static void take_ring_back(void *context)
{
        (void)context;
        serve(TICKS);
}

static void set_beside(void)
{
        set_key(NULL);
}

static bool begin_without_watch(void)
{
        if (!begin_watched_and_served())
                return false;
        sb_op_prefix_end(&reader, &watch);
        return true;
}

static bool newest_alone_is_left(void)
{
        if (!came)
                end_watch();
        sb_work_all(&writer, false);
        serve(100);
        return !sb_prefix_any(&writer.segment) && chain_len("key") == 1;
}

static void test_of_a_set_beside_the_end_of_a_watch_nothing_stays(void)
{
        const struct race race = {.begin = begin_watched_and_served,
                .operation = set_key,
                .beside = end_watch,
                .right = newest_alone_is_left};
        const struct race other_way = {.begin = begin_without_watch,
                .operation = take_ring_back,
                .beside = set_beside,
                .right = newest_alone_is_left};

        CHECK(race_all(&race) > 10);
        CHECK(race_all(&other_way) > 10);
}

/* ---- what is watched ---- */

static void join_two(void *context)
{
        (void)context;
        sb_prefix_join(&writer, 2);
}

static void join_three(void)
{
        sb_prefix_join(&reader, 3);
}

static bool both_have_joined(void)
{
        uint64_t word = sb_load_relaxed(&writer.segment.super->prefix_lengths[0]);

        return word >> 32 == (came ? 2u : 1u) && (uint32_t)word == (came ? 0xcu : 0x4u);
}

static void test_two_lengths_that_are_joined_at_once_are_both_there(void)
{
        const struct race race = {.begin = begin_plain,
                .operation = join_two,
                .beside = join_three,
                .right = both_have_joined,
                .bare = true};

        CHECK(race_all(&race) > 2);
}

/* The engine has taken the bit of the first turn away. */
static bool begin_clearing(void)
{
        return begin_plain() && sb_turn_begin(&writer.segment.super->prefixes, 0);
}

static void end_turn(void *context)
{
        (void)context;
        sb_turn_end(&writer.segment.super->prefixes);
}

static int turn_of_join; /* the bit that it sets */

static void join_turn(void)
{
        turn_of_join = sb_turn_join(&reader.segment.super->prefixes);
}

/* It is counted, and its bit is the one that the engine takes away next: so the engine asks for it
 * first. */
static bool join_counts(void)
{
        uint64_t state = sb_load_relaxed(&writer.segment.super->prefixes);

        return sb_turn_of(state) == 1 && !(state & SB_TURN_CLEARING) &&
               state / SB_TURN_JOIN == (came ? 1u : 0u) && (!came || turn_of_join == 1);
}

static void test_a_watch_that_joins_at_the_end_of_a_turn_counts(void)
{
        const struct race race = {.begin = begin_clearing,
                .operation = end_turn,
                .beside = join_turn,
                .right = join_counts,
                .bare = true};

        CHECK(race_all(&race) > 1);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_watch_of_a_prefix_that_joins_where_a_log_asks_is_told);
        RUN(test_a_watch_of_a_prefix_begins_behind_what_was_given_up);
        RUN(test_a_transaction_beside_a_look_is_listed_whole_and_once);
        RUN(test_the_tail_of_hints_never_falls);
        RUN(test_a_hint_of_a_process_that_goes_on_ages_behind_takes_no_slot_away);
        RUN(test_a_process_that_begins_a_half_late_gives_up_nothing_of_the_next_one);
        RUN(test_two_lengths_that_are_joined_at_once_are_both_there);
        RUN(test_a_watch_that_joins_at_the_end_of_a_turn_counts);
        RUN(test_of_a_set_beside_the_end_of_a_watch_nothing_stays);
        return test_end();
}
