/*
 * The ring of a watched prefix (shm/notify/hint.h): hints come out in order or are known to be
 * overwritten, over many laps; and in a damaged one each call ends, and says so.
 */
#include <errno.h>

#include "ring/op/prefix.h"
#include "shm/notify/hint.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define DEPTH 16u
#define AHEAD (UINT64_C(0x7ffff) << 44) /* half of all laps, less one */

static struct sb_op_prefix watch;

static int begin(struct sb_handle *handle, struct sb_op_prefix *ret)
{
        return sb_op_prefix_begin(handle, "a", 1, 0, DEPTH, ret);
}

static void test_hints_come_in_order_or_are_known_to_be_overwritten(void)
{
        struct sb_ring_view *ring = &watch.watch.ring;
        uint64_t number, over;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(begin(&reader, &watch), 0);
        for (number = 0; number < 10 * ring->slot_count; number++) {
                CHECK_EQ(sb_hint_tail(ring), number);
                CHECK(!sb_hint_is_there(ring, number));
                over = sb_hint_push(&writer, ring, number + 7);
                CHECK_EQ(over, number < ring->slot_count ? 0 : number + 7 - ring->slot_count);
                CHECK(sb_hint_is_there(ring, number));
                CHECK_EQ(sb_hint_read(ring, number), number + 7);
                if (number >= ring->slot_count) {
                        CHECK(sb_hint_is_there(ring, number - ring->slot_count));
                        CHECK_EQ(sb_hint_read(ring, number - ring->slot_count), 0);
                }
        }
        unmake_bus();
}

static void test_a_reader_that_is_any_number_of_laps_behind_learns_that_it_is(void)
{
        static const uint64_t laps[] = {1, 2, 1 << 18, (1 << 19) - 1, 1 << 19, (1 << 19) + 1,
                (1 << 20) - 2, (1 << 20) - 1, (1 << 20) + 1, 3 << 20 | 5};
        struct sb_ring_view *ring = &watch.watch.ring;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(begin(&reader, &watch), 0);
        for (size_t i = 0; i < sizeof(laps) / sizeof(laps[0]); i++)
                for (uint64_t from = 0; from < 5; from += 2) {
                        uint64_t lap = from + laps[i], number = from * ring->slot_count + 3;

                        sb_store_release(&ring->slots[3], (lap & 0xfffff) << 44 | 1);
                        /* It is there, and is not the one. But one lap less than all is not told
                         * from the lap before. */
                        CHECK_EQ(sb_hint_is_there(ring, number),
                                laps[i] % (1 << 20) != (1 << 20) - 1);
                        CHECK_EQ(sb_hint_read(ring, number), 0);
                }
        unmake_bus();
}

/* A neighbour wrote all slots over: they say that they are of later laps, each of which a process
 * would move the tail by. */
static void test_slots_that_are_ahead_hold_no_writer_up(void)
{
        struct sb_ring_view *ring = &watch.watch.ring;
        uint64_t clock;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(begin(&reader, &watch), 0);
        for (uint32_t i = 0; i < ring->slot_count; i++)
                sb_store_release(&ring->slots[i], AHEAD | 1);
        CHECK_EQ(put(&writer, "a", "one", 3), 0);
        clock = sb_load_acquire(&writer.segment.super->clock);
        CHECK(sb_hint_tail(ring) <= ring->slot_count);
        /* The reader begins anew. */
        CHECK_EQ(sb_load_acquire(&ring->ring->given), clock);
        unmake_bus();
}

/* No cut comes behind what is given up there. */
static void test_a_watch_does_not_begin_where_all_is_given_up_for_ever(void)
{
        struct sb_op_prefix second;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(begin(&reader, &watch), 0);
        sb_store_release(&watch.watch.ring.ring->given, UINT64_MAX);
        CHECK_EQ(begin(&writer, &second), -EIO);
        CHECK(!sb_op_prefix_again(&reader, &watch));
        unmake_bus();
}

static void test_a_watch_does_not_begin_on_a_ring_without_slots(void)
{
        struct sb_op_prefix second;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(begin(&reader, &watch), 0);
        watch.watch.ring.ring->slot_count = 0;
        CHECK_EQ(begin(&writer, &second), -EIO);
        CHECK_EQ(put(&writer, "a", "one", 3), 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_hints_come_in_order_or_are_known_to_be_overwritten);
        RUN(test_a_reader_that_is_any_number_of_laps_behind_learns_that_it_is);
        RUN(test_slots_that_are_ahead_hold_no_writer_up);
        RUN(test_a_watch_does_not_begin_where_all_is_given_up_for_ever);
        RUN(test_a_watch_does_not_begin_on_a_ring_without_slots);
        return test_end();
}
