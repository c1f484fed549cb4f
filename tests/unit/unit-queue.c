/*
 * The queue of a watch of a prefix that drops (shm/notify/queue.h): a run takes hints up to its
 * room and is closed by the process that uses it up, and by none that took its cut before the watch
 * said how much room there is; runs want what was current in them and nothing else; what a watch
 * leaves behind serves the next one, and a dead client's wants nothing any more.
 */
#include "shm/notify/queue.h"

#include "ring/op/prefix.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/hint.h"
#include "shm/notify/ring.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define ROOM 4u
#define CELL 64u /* of no key */

static struct sb_op_prefix watch;
static const struct sb_ring_view *const row = &watch.row;

static bool begin(void)
{
        return make_bus(1 << 20) &&
               !sb_op_prefix_begin_dropping(&reader, "k", 1, 3, ROOM, 0, &watch);
}

/* What a write with the stamp of now tells. Return: that. */
static uint64_t tell(void)
{
        uint64_t stamp = sb_load_acquire(&writer.segment.super->clock);

        sb_pin(&writer);
        sb_queue_tell(&writer, row, CELL, stamp);
        sb_unpin(&writer);
        return stamp;
}

static bool is_open(void)
{
        return sb_queue_high(row) & SB_QUEUE_OPEN;
}

static void test_a_run_is_closed_with_the_last_hint_that_has_room(void)
{
        uint64_t stamp, last;

        CHECK(begin());
        stamp = tell();
        for (uint32_t i = 1; i < ROOM - 1; i++) {
                CHECK_EQ(tell(), stamp);
                CHECK(is_open());
        }
        last = tell();
        /* The cut that closes it has all of them, and what comes then is above it. */
        CHECK_EQ(last, stamp);
        CHECK_EQ(sb_queue_high(row), stamp);
        CHECK_EQ(sb_hint_tail(row), ROOM);
        CHECK(tell() > stamp);
        CHECK_EQ(sb_hint_tail(row), ROOM);
        /* One that comes late belongs to the run still; of one that is not known it may be so. */
        sb_pin(&writer);
        sb_queue_tell(&writer, row, CELL, stamp);
        sb_queue_tell(&writer, row, CELL, 0);
        sb_unpin(&writer);
        CHECK_EQ(sb_hint_tail(row), ROOM + 2);
        /* What the watch has seen is hinted no more. */
        sb_queue_say_seen(row, stamp);
        sb_pin(&writer);
        sb_queue_tell(&writer, row, CELL, stamp);
        sb_unpin(&writer);
        CHECK_EQ(sb_hint_tail(row), ROOM + 2);
        unmake_bus();
}

/* A run names its last hint by 44 bits, and the row of a bus that runs for months has more. */
static void test_a_run_has_its_room_where_the_numbers_of_hints_wrap(void)
{
        static const uint64_t before[] = {0, 1, ROOM - 1, ROOM, ROOM + 1};

        for (uint32_t i = 0; i < 2 * sizeof(before) / sizeof(before[0]); i++) {
                uint64_t tail = ((i % 2 + UINT64_C(1)) << 44) - before[i / 2];

                CHECK(begin());
                sb_store_relaxed(&row->ring->tail, tail); /* Relaxed: one thread. */
                CHECK(sb_queue_set_room(row, tail + ROOM));
                for (uint32_t told = 1; told < ROOM; told++) {
                        tell();
                        CHECK(is_open());
                }
                tell();
                CHECK(!is_open());
                CHECK_EQ(sb_hint_tail(row), tail + ROOM);
                sb_queue_open_run(&reader, row, 1, tail + ROOM, 2);
                tell();
                CHECK(is_open());
                tell();
                CHECK(!is_open());
                unmake_bus();
        }
}

static void test_what_was_before_the_watch_is_not_hinted(void)
{
        CHECK(begin());
        for (uint32_t i = 0; i < 10; i++)
                sb_clock_take_cut(&writer);
        sb_queue_begin(row, 5, 0, ROOM);
        sb_pin(&writer);
        for (uint64_t stamp = 1; stamp < 10; stamp++) {
                sb_queue_tell(&writer, row, CELL, stamp);
                CHECK_EQ(sb_hint_tail(row), stamp <= 5 ? 0 : stamp - 5);
        }
        sb_unpin(&writer);
        unmake_bus();
}

static void test_a_run_wants_what_was_current_in_it(void)
{
        uint64_t low, high;

        CHECK(begin());
        low = watch.cut;
        for (uint32_t i = 0; i < 10; i++)
                sb_clock_take_cut(&writer);
        for (uint32_t i = 0; i < ROOM; i++)
                tell();
        high = sb_queue_high(row);
        CHECK(high > low && !is_open());
        sb_queue_pass(row, 0, low);
        CHECK(sb_queue_wants(row, 1, low + 1) && sb_queue_wants(row, low + 1, low + 1));
        CHECK(sb_queue_wants(row, high, high + 9) && sb_queue_wants(row, 1, high + 9));
        CHECK(!sb_queue_wants(row, 1, low) && !sb_queue_wants(row, high + 1, high + 1));
        /* Behind it another one. */
        for (uint32_t i = 0; i < 10; i++)
                sb_clock_take_cut(&writer);
        sb_queue_open_run(&reader, row, 1, sb_hint_tail(row), 1);
        CHECK_EQ(sb_queue_last(row), 1);
        CHECK(sb_queue_wants(row, high, high + 9) && !sb_queue_wants(row, high + 1, high + 9));
        CHECK(sb_queue_wants(row, high + 12, high + 99));
        sb_queue_pass(row, 1, high + 20);
        CHECK(!sb_queue_wants(row, low + 1, low + 1) && !sb_queue_wants(row, high + 12, high + 20));
        CHECK(sb_queue_wants(row, high + 12, high + 21));
        sb_queue_close_run(row, 0);
        CHECK(!sb_queue_wants(row, high + 12, high + 21));
        unmake_bus();
}

/* Whatever a process had loaded before the watch said how much room there is, it fails with it,
 * also where that is as much as before. */
static void test_room_that_is_said_again_is_another_word(void)
{
        uint64_t high;

        CHECK(begin());
        high = sb_queue_high(row);
        CHECK(sb_queue_set_room(row, high & SB_QUEUE_HINT));
        CHECK(sb_queue_high(row) != high);
        CHECK_EQ(sb_queue_high(row) & SB_QUEUE_HINT, high & SB_QUEUE_HINT);
        for (uint32_t i = 0; i < 1u << 20; i++)
                CHECK(sb_queue_set_room(row, 9) && is_open());
        CHECK_EQ(sb_queue_high(row) & SB_QUEUE_HINT, 9);
        CHECK(sb_queue_set_room(row, sb_hint_tail(row) + 1));
        tell();
        CHECK(!is_open());
        high = sb_queue_high(row);
        CHECK(!sb_queue_set_room(row, 100));
        CHECK_EQ(sb_queue_high(row), high);
        unmake_bus();
}

static void test_what_is_lost_or_moved_is_not_where_it_was_listed(void)
{
        CHECK(begin());
        CHECK(sb_queue_keeps(row, 1));
        sb_queue_say_moved(row, 5);
        CHECK(!sb_queue_keeps(row, 5) && sb_queue_keeps(row, 6) && sb_queue_lost(row) == 0);
        sb_queue_say_lost(row, 7);
        sb_queue_say_lost(row, 6);
        CHECK(!sb_queue_keeps(row, 7) && sb_queue_keeps(row, 8) && sb_queue_lost(row) == 7);
        unmake_bus();
}

/* Its block serves the next one, which begins with nothing of it. */
static void test_a_queue_that_ended_wants_nothing_and_serves_the_next(void)
{
        struct sb_op_prefix next;

        CHECK(begin());
        sb_queue_say_lost(row, 7);
        for (uint32_t i = 0; i < ROOM; i++)
                tell();
        CHECK(sb_queue_wants(row, 1, sb_queue_high(row)));
        sb_op_prefix_end(&reader, &watch);
        CHECK(!sb_queue_wants(row, 1, sb_queue_high(row)));
        CHECK_EQ(tell() > 0, true);
        CHECK_EQ(sb_hint_tail(row), ROOM);
        CHECK_EQ(sb_op_prefix_begin_dropping(&reader, "k", 1, 3, ROOM - 1, 0, &next), 0);
        CHECK(next.row.ring == row->ring);
        CHECK_EQ(sb_queue_lost(&next.row), 0);
        CHECK(sb_queue_high(&next.row) & SB_QUEUE_OPEN);
        /* What was replaced before it is not its own, though it was the last one's. */
        CHECK(sb_queue_wants(&next.row, 1, UINT64_MAX) && !sb_queue_wants(&next.row, 1, next.cut));
        for (uint32_t i = 0; i < ROOM - 1; i++)
                tell();
        CHECK(!is_open());
        sb_op_prefix_end(&reader, &next);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_run_is_closed_with_the_last_hint_that_has_room);
        RUN(test_a_run_has_its_room_where_the_numbers_of_hints_wrap);
        RUN(test_what_was_before_the_watch_is_not_hinted);
        RUN(test_a_run_wants_what_was_current_in_it);
        RUN(test_room_that_is_said_again_is_another_word);
        RUN(test_what_is_lost_or_moved_is_not_where_it_was_listed);
        RUN(test_a_queue_that_ended_wants_nothing_and_serves_the_next);
        return test_end();
}
