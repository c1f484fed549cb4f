/*
 * Which unit becomes a client's slab (shm/memory/slab-search.h): where many units are free, one
 * that has a quarter of its blocks to give, or a free one; in a fuller bus, any that has a block.
 */
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/slab-search.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "tests/unit/bus.h"
#include "tests/unit/taken.h"
#include "tests/unit/units.h"

#define SIZE  128u /* of each block, bytes */
#define EACH  (4096u / SIZE)
#define LOOKS 8u /* slabs that one search looks at */

/* Take all blocks of so many units, the first ones of the bus, and give the units up. */
static bool fill(uint32_t count)
{
        for (uint32_t i = 0; i < count * EACH; i++)
                if (take(&writer, SB_UNIT_VERSIONS, SIZE, 0) != 0)
                        return false;
        sb_slab_release_all(&writer);
        return count_kind(SB_UNIT_VERSIONS) == count;
}

/* Give back so many blocks of a unit. Return: whether it had them. */
static bool clear_some(uint32_t unit, uint32_t count)
{
        for (uint32_t i = taken_count; count && i-- > 0;)
                if (sb_unit_of(&writer.segment, taken[i].offset) == unit) {
                        clear_one(&reader, i);
                        count--;
                }
        return !count;
}

/* The unit of the block that is taken next. */
static uint32_t unit_taken(void)
{
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, SIZE, 0, &offset) != 0)
                return UINT32_MAX;
        sb_slab_give_back(&writer, offset);
        sb_slab_release_all(&writer);
        return sb_unit_of(&writer.segment, offset);
}

/* The first unit that is none of the lowest three eighths of what is searched. */
static uint32_t plenty(void)
{
        return units_for_all() / 8 * 3;
}

static void test_a_slab_with_little_room_waits_while_units_are_free(void)
{
        CHECK(begin(1 << 20, 0));
        CHECK(fill(4));
        CHECK(clear_some(0, EACH / 4 - 1));
        CHECK_EQ(unit_taken(), 4);
        /* One block more, and it is worth its turn, which comes behind that of the unit that was
         * broken into and is an empty slab now. */
        CHECK(clear_some(0, 1));
        CHECK_EQ(unit_taken(), 4);
        CHECK_EQ(unit_taken(), 0);
        unmake_bus();
}

static void test_in_a_fuller_bus_it_serves_at_once(void)
{
        CHECK(begin(1 << 20, 0));
        CHECK(fill(plenty() - 1));
        CHECK(clear_some(0, 1));
        CHECK_EQ(unit_taken(), plenty() - 1);
        unmake_bus();

        CHECK(begin(1 << 20, 0));
        CHECK(fill(plenty()));
        CHECK(clear_some(0, 1));
        CHECK_EQ(unit_taken(), 0);
        unmake_bus();
}

/* What moves out of the way of a large value would else take the units that such values need. */
static void test_what_moves_goes_where_it_is_dense(void)
{
        CHECK(begin(1 << 20, 0));
        CHECK(fill(4));
        CHECK(clear_some(0, 1));
        writer.window.moves = true;
        CHECK_EQ(unit_taken(), 0);
        writer.window.moves = false;
        unmake_bus();
}

static void test_a_search_of_the_reserve_takes_no_other_unit(void)
{
        uint32_t unit;

        CHECK(begin(1 << 20, 0));
        CHECK(fill(4));
        CHECK(clear_some(0, EACH / 2));
        unit = sb_slab_search(&writer, SB_UNIT_VERSIONS, sb_unit_class(&writer.segment, SIZE),
                SB_SLABS_FRESH, true);
        CHECK(unit != SB_SLAB_NO_UNIT && unit >= units_for_all());
        sb_unit_give_up(&writer, unit);
        unmake_bus();
}

/* Nodes cannot move: what is free among them is used first, however little. */
static void test_a_slab_of_nodes_never_waits(void)
{
        uint32_t unit;
        uint64_t offset;

        CHECK(begin(1 << 20, 0));
        for (uint32_t i = 0; i < EACH; i++)
                CHECK_EQ(take(&writer, SB_UNIT_NODES, SIZE, 0), 0);
        unit = sb_unit_of(&writer.segment, taken[0].offset);
        sb_slab_release_all(&writer);
        clear_one(&reader, 0);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_NODES, SIZE, 0, &offset), 0);
        CHECK_EQ(sb_unit_of(&writer.segment, offset), unit);
        unmake_bus();
}

/* From either end: the first unit and the last one serve, too. */
static void test_a_full_bus_has_no_unit_left(void)
{
        static const enum sb_unit_kind kinds[] = {SB_UNIT_VERSIONS, SB_UNIT_NODES};

        for (uint32_t i = 0; i < 2; i++) {
                uint32_t unit;

                CHECK(begin(1 << 20, 0));
                while (take(&writer, kinds[i], SIZE, 0) == 0)
                        ;
                for (unit = 0; unit < units_for_all(); unit++)
                        CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)), kinds[i]);
                unmake_bus();
        }
}

/* A search looks at a few slabs, and the next one goes on behind them, and round. */
static void test_each_slab_gets_its_turn(void)
{
        enum { SLABS = 3 * LOOKS };
        uint32_t unit;

        CHECK(begin(1 << 20, 0));
        CHECK(SLABS < plenty() - 3);
        CHECK(fill(SLABS));
        for (unit = 0; unit < SLABS; unit++)
                CHECK(clear_some(unit, 1));
        CHECK(clear_some(SLABS - 1, EACH / 4 - 1));
        /* Two searches look at eight slabs each in vain, and break into a unit. */
        CHECK(unit_taken() >= SLABS);
        CHECK(unit_taken() >= SLABS);
        CHECK_EQ(unit_taken(), SLABS - 1);
        /* Behind the last one the first one comes. */
        CHECK(clear_some(0, EACH / 4 - 1));
        do
                unit = unit_taken();
        while (unit >= SLABS);
        CHECK_EQ(unit, 0);
        unmake_bus();
}

/* Blocks come and go at random: what is taken comes in quarters of slabs, and what lies free in
 * slabs is no more than a third of what is used. */
static void test_slabs_stay_dense_and_each_is_worth_its_search(void)
{
        enum { LIVE = 2000, TURNS = 20 * LIVE };
        uint32_t acquired, slabs;

        CHECK(begin(4 << 20, 0));
        while (taken_count < LIVE)
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, SIZE, 0), 0);
        CHECK(plenty() > 2 * LIVE / EACH);
        acquired = writer.slabs.acquired;
        for (uint32_t i = 0; i < TURNS; i++) {
                clear_one(&reader, draw(taken_count));
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, SIZE, 0), 0);
                sb_slab_settle(&writer);
        }
        acquired = writer.slabs.acquired - acquired;
        slabs = count_kind(SB_UNIT_VERSIONS);
        TEST_NOTE("%u blocks of %u: %u slabs where %u would do; %u taken for %u blocks", LIVE, SIZE,
                slabs, LIVE / EACH, acquired, TURNS);
        CHECK(acquired <= TURNS / (EACH / 4));
        CHECK(slabs <= (LIVE / EACH) * 4 / 3 + 1);
        CHECK(blocks_are_sound());
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_slab_with_little_room_waits_while_units_are_free);
        RUN(test_in_a_fuller_bus_it_serves_at_once);
        RUN(test_what_moves_goes_where_it_is_dense);
        RUN(test_a_search_of_the_reserve_takes_no_other_unit);
        RUN(test_a_slab_of_nodes_never_waits);
        RUN(test_a_full_bus_has_no_unit_left);
        RUN(test_each_slab_gets_its_turn);
        RUN(test_slabs_stay_dense_and_each_is_worth_its_search);
        return test_end();
}
