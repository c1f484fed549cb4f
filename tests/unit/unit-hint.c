/*
 * The ring of a watched prefix (shm/notify/hint.h): each hint is read once, by its number, until it
 * is overwritten, which is seen; a tail that a dead process left is moved; laps count on when their
 * bits begin anew; and what is given up follows half a ring behind.
 */
#include "ring/op/prefix.h"
#include "shm/layout/damage.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/hint.h"
#include "tests/unit/bus.h"

#define DEPTH 3u
#define SLOTS 8u

static struct sb_op_prefix watch;
static const struct sb_ring_view *const ring = &watch.watch.ring;
static uint64_t cell; /* of a key, for hints */

static bool begin(void)
{
        const struct sb_version *version;

        if (!make_bus(1 << 20) || put(&writer, "x", "1", 1))
                return false;
        sb_pin(&writer);
        version = sb_find_newest(&writer, "x", 1, sb_hash_key("x", 1, writer.segment.seed));
        cell = version ? sb_pin_load(&writer, &sb_node_at(&writer.segment, version->node)->cell)
                       : 0;
        sb_unpin(&writer);
        return cell && !sb_op_prefix_begin(&reader, "p", 1, 7, DEPTH, &watch) &&
               ring->slot_count == SLOTS && sb_hint_slots(DEPTH) == SLOTS;
}

/* Return: what it overwrote. */
static uint64_t push(uint64_t cell_number)
{
        uint64_t over;

        sb_pin(&writer);
        over = sb_hint_push(&writer, ring, cell_number);
        sb_unpin(&writer);
        return over;
}

static void test_a_hint_is_read_by_its_number_until_it_is_overwritten(void)
{
        CHECK(begin());
        CHECK_EQ(sb_hint_tail(ring), 0);
        for (uint64_t n = 0; n < 5 * SLOTS; n++) {
                CHECK_EQ(sb_hint_read(ring, n), 0);
                CHECK_EQ(push(n + 1), n < SLOTS ? 0 : n + 1 - SLOTS);
                CHECK_EQ(sb_hint_tail(ring), n + 1);
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
                if (n >= SLOTS - 1)
                        CHECK_EQ(sb_hint_read(ring, n + 1 - SLOTS), n + 2 - SLOTS);
                if (n >= SLOTS)
                        CHECK_EQ(sb_hint_read(ring, n - SLOTS), 0);
        }
        unmake_bus();
}

static void test_the_tail_of_a_process_that_stopped_is_moved(void)
{
        CHECK(begin());
        for (uint64_t n = 0; n < 3 * SLOTS; n++) {
                push(n + 1);
                /* As if it had stopped between slot and tail. */
                sb_store_relaxed(&ring->ring->tail, n); /* Relaxed, all here: one thread. */
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
                if (n % 2)
                        sb_store_relaxed(&ring->ring->tail, n + 1);
        }
        CHECK_EQ(sb_hint_tail(ring), 3 * SLOTS);
        for (uint64_t n = 2 * SLOTS; n < 3 * SLOTS; n++)
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
        unmake_bus();
}

/* A slot has 20 bits of the lap. */
static void test_laps_count_on_when_their_bits_begin_anew(void)
{
        const uint64_t around = (UINT64_C(1) << 20) * SLOTS;

        CHECK(begin());
        for (uint64_t begins = around / 2 - 2 * SLOTS; begins < 3 * around; begins += around / 2) {
                sb_store_relaxed(&ring->ring->tail, begins);
                for (uint64_t n = begins - SLOTS; n < begins; n++)
                        sb_store_relaxed(&ring->slots[n % SLOTS],
                                ((n / SLOTS) << 44) | 5); /* of the lap before */
                for (uint64_t n = begins; n < begins + 4 * SLOTS; n++) {
                        CHECK_EQ(push(n % 97 + 1), n < begins + SLOTS ? 5 : (n - SLOTS) % 97 + 1);
                        CHECK_EQ(sb_hint_tail(ring), n + 1);
                        CHECK_EQ(sb_hint_read(ring, n), n % 97 + 1);
                        CHECK_EQ(sb_hint_read(ring, n + 1 - SLOTS),
                                n + 1 < begins + SLOTS ? 5 : (n + 1 - SLOTS) % 97 + 1);
                        CHECK_EQ(sb_hint_read(ring, n - SLOTS), 0);
                }
        }
        unmake_bus();
}

/* Where the half before the last began. */
static void test_what_is_given_up_is_half_a_ring_behind(void)
{
        uint64_t cuts[8 * SLOTS], first;

        CHECK(begin());
        first = sb_hint_gone(ring);
        CHECK(first > 0 && first <= watch.cut);
        for (uint64_t n = 0; n < 8 * SLOTS; n++) {
                uint64_t half = n - n % (SLOTS / 2), gone = sb_hint_gone(ring);

                cuts[n] = sb_clock_take_cut(&writer);
                push(cell);
                CHECK(sb_hint_gone(ring) >= gone);
                /* All of a half that is overwritten next is given up, and of the ring's newer half
                 * nothing is. */
                if (half >= SLOTS / 2)
                        CHECK(sb_hint_gone(ring) >= cuts[half - SLOTS / 2] &&
                                sb_hint_gone(ring) <= cuts[half - SLOTS / 2] + 1);
                else
                        CHECK(sb_hint_gone(ring) <= cuts[0] + 1);
        }
        first = sb_hint_gone(ring);
        sb_hint_raise_gone(ring, first - 1);
        CHECK_EQ(sb_hint_gone(ring), first);
        sb_hint_raise_gone(ring, first + 1);
        CHECK_EQ(sb_hint_gone(ring), first + 1);
        unmake_bus();
}

/* A reader that is behind by any number either has every hint, or learns that it has not. */
static void test_a_reader_has_every_hint_or_learns_that_it_has_not(void)
{
        for (uint64_t behind = 0; behind < 3 * SLOTS; behind++) {
                uint64_t number, begins;
                int r;

                CHECK(begin());
                for (uint64_t n = 0; n < 5; n++)
                        push(99);
                sb_op_prefix_again(&reader, &watch);
                begins = sb_hint_tail(ring);
                for (uint64_t n = 0; n < behind; n++)
                        push(n + 1);
                for (uint64_t n = 0; n < behind && behind <= SLOTS; n++)
                        CHECK(sb_op_prefix_hint(&watch, &number) == 1 && number == n + 1);
                r = sb_op_prefix_hint(&watch, &number);
                CHECK_EQ(r, behind > SLOTS ? -1 : 0);
                CHECK_EQ(watch.hint, behind > SLOTS ? begins : begins + behind);
                unmake_bus();
        }
}

/* Whatever a damaged ring says, a writer and a watch that begins anew come to their end. */
static void test_damage_to_a_ring_ends_no_call_in_a_loop(void)
{
        static const uint64_t tails[] = {0, 1, SLOTS, 2 * SLOTS + 1, 4 * SLOTS, UINT64_MAX,
                UINT64_MAX - SLOTS, UINT64_C(1) << 20, UINT64_C(1) << 43, UINT64_C(1) << 63};

        for (uint32_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
                CHECK(begin());
                for (uint64_t n = 0; n < 3 * SLOTS; n++)
                        push(cell);
                for (uint64_t n = 0; n < SLOTS; n += 2 - i % 2)
                        sb_store_relaxed(&ring->slots[n], (UINT64_C(77777) << 44) | cell);
                sb_store_relaxed(&ring->ring->tail, tails[i]);
                for (uint64_t n = 0; n < 3 * SLOTS; n++)
                        push(cell);
                for (uint64_t number, n = 0; sb_op_prefix_hint(&watch, &number) > 0; n++)
                        CHECK(n < 10 * SLOTS);
                sb_op_prefix_again(&reader, &watch);
                unmake_bus();
        }
        CHECK(begin());
        sb_store_relaxed(&ring->ring->given, UINT64_MAX);
        sb_op_prefix_again(&reader, &watch);
        CHECK(sb_damage_take(&reader));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_hint_is_read_by_its_number_until_it_is_overwritten);
        RUN(test_the_tail_of_a_process_that_stopped_is_moved);
        RUN(test_laps_count_on_when_their_bits_begin_anew);
        RUN(test_what_is_given_up_is_half_a_ring_behind);
        RUN(test_a_reader_has_every_hint_or_learns_that_it_has_not);
        RUN(test_damage_to_a_ring_ends_no_call_in_a_loop);
        return test_end();
}
