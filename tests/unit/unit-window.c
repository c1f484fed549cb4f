/*
 * Which units in a row a client that waits for memory becomes the owner of (shm/memory/window.h):
 * those in which least lives, without what cannot move; of which lengths and sizes; and which come
 * next where these were refused. What becomes of them then, unit-window-owned shows. The blocks in
 * the units are bare: nothing moves here (unit-move.c).
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"
#include "tests/unit/windows.h"

#define NEVER UINT64_MAX

/* They name no owner. */
static uint32_t parts_in_window(void)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < sb_window_count(&writer); i++)
                count += SB_UNIT_KIND(word_of(sb_window_first(&writer) + i)) == SB_UNIT_PART;
        return count;
}

/* Bytes that live in a unit, as far as a window may have it in it. */
static uint64_t model_cost(uint32_t unit)
{
        uint64_t word = word_of(unit);
        uint32_t count = sb_unit_block_count(&writer.segment, word);

        if (SB_UNIT_KIND(word) == SB_UNIT_FREE || SB_UNIT_KIND(word) == SB_UNIT_EMPTY)
                return 0;
        if (SB_UNIT_KIND(word) == SB_UNIT_PART)
                word = word_of((uint32_t)word);
        if (word == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0))
                return writer.segment.geometry.unit_size;
        if (SB_UNIT_KIND(word) != SB_UNIT_VERSIONS || SB_UNIT_OWNER(word))
                return NEVER;
        return (uint64_t)(count - sb_unit_count_free(&writer.segment, unit, count)) *
               writer.segment.class_size[SB_UNIT_CLASS(word)];
}

/* The highest row in which an eighth of it or less lives; else the one in which least does, of
 * several the highest. It has all of a large block, or nothing. */
static uint32_t model_window(uint32_t count)
{
        uint64_t best_cost = NEVER, cheap = (uint64_t)count * writer.segment.geometry.unit_size / 8;
        uint32_t best = NONE;

        for (uint32_t first = limit - count; first != UINT32_MAX && best_cost > cheap; first--) {
                uint64_t sum = 0, cost;

                for (uint32_t i = 0; i < count && sum != NEVER; i++) {
                        cost = model_cost(first + i);
                        sum = cost == NEVER ? NEVER : sum + cost;
                }
                if (sum < best_cost && SB_UNIT_KIND(word_of(first)) != SB_UNIT_PART &&
                        SB_UNIT_KIND(word_of(first + count)) != SB_UNIT_PART) {
                        best = first;
                        best_cost = sum;
                }
        }
        return best;
}

static void test_the_cheapest_units_in_a_row_become_the_window(void)
{
        static const uint32_t counts[] = {2, 3, 5, 17, 64, 65, 300, 700};
        uint32_t found = 0, none = 0;
        uint64_t offset;

        for (uint32_t round = 0; round < 60; round++) {
                uint32_t most = round % 3 ? 6 : 16, wanted, first;

                CHECK(begin(1 << 20, 1024));
                for (uint32_t i = draw(20); i; i--) /* nodes do not move */
                        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_NODES, 400, 0, &offset), 0);
                sb_slab_release_all(&reader);
                CHECK(fill(64));
                for (uint32_t i = 0; i < limit; i++)
                        if (SB_UNIT_KIND(word_of(i)) == SB_UNIT_VERSIONS)
                                leave_blocks(i, draw(most + 1));
                for (uint32_t i = draw(40); i; i--)
                        sb_slab_take(&reader, SB_UNIT_VERSIONS, (1 + draw(4)) * 1024, 0, &offset);
                sb_slab_release_all(&reader);
                /* Some are of a slab cache, or in a large value. */
                CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 64, 0, &offset), 0);
                for (uint32_t i = draw(4); i; i--)
                        sb_slab_take(&reader, SB_UNIT_VERSIONS, 2048, 0, &offset);
                for (uint32_t i = 0; i < 8; i++) {
                        wanted = model_window(counts[i]);
                        begin_wait(counts[i]);
                        first = find_window();
                        CHECK_EQ(first, wanted);
                        CHECK_EQ(owned_by(&writer) + parts_in_window(),
                                first == NONE ? 0 : counts[i]);
                        *(first == NONE ? &none : &found) += 1;
                        sb_window_end(&writer);
                        CHECK_EQ(owned_by(&writer), 0);
                }
                unmake_bus();
        }
        TEST_NOTE("%u windows, %u times none", found, none);
        CHECK(found > 200 && none >= 20);
}

/* Small blocks everywhere, but for a large one of @count units in the middle. */
static bool begin_with_run(uint32_t count, uint32_t *ret_unit)
{
        uint64_t offset;

        if (!begin(1 << 20, 1024) || !fill(64))
                return false;
        *ret_unit = limit / 2;
        leave_rows(*ret_unit, *ret_unit + count, 0);
        for (uint32_t i = 0; i < 4; i++)
                sb_era_advance(&writer);
        if (sb_slab_take(&reader, SB_UNIT_VERSIONS, count * 1024, 0, &offset))
                return false;
        sb_slab_release_all(&reader);
        return sb_unit_of(&writer.segment, offset) == *ret_unit;
}

/* The process that freed it was stopped behind the bit: its parts name its first unit still. */
static void test_a_run_that_is_being_freed_is_in_no_window(void)
{
        uint32_t unit;

        CHECK(begin_with_run(2, &unit));
        sb_and_full(&sb_unit_bitmap(&writer.segment, unit)[0], ~UINT64_C(1));
        leave_rows(unit - 2, unit, 0);
        begin_wait(3);
        CHECK_EQ(find_window(), unit - 3);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        unmake_bus();
}

/* Half of it with a free unit would cost less. All else are nodes, which do not move. */
static void test_a_window_has_all_of_a_large_block_or_nothing(void)
{
        uint64_t free_one, offset, node;
        uint32_t unit;

        CHECK(begin(1 << 20, 1024));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 2048, 0, &offset), 0);
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 1024, 0, &free_one), 0);
        unit = sb_unit_of(&writer.segment, offset);
        CHECK_EQ(sb_unit_of(&writer.segment, free_one), unit - 1);
        while (!sb_slab_take(&reader, SB_UNIT_NODES, 400, 0, &node))
                ;
        sb_slab_give_back(&reader, free_one);
        sb_slab_release_all(&reader);
        begin_wait(2);
        CHECK_EQ(find_window(), unit);
        CHECK_EQ(owned_by(&writer) + parts_in_window(), 2);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(sb_unit_large_count(&writer.segment, unit), 2);
        begin_wait(3);
        CHECK_EQ(find_window(), unit - 1);
        sb_window_end(&writer);
        unmake_bus();
}

/* To copy such a one is no work for between two looks. Nodes do not move at all. */
static void test_a_large_block_of_more_than_so_many_bytes_is_in_no_window(void)
{
        for (uint32_t more = 0; more < 2; more++) {
                uint32_t count = SB_WINDOW_BLOCK_MAX / 4096 + more;
                uint64_t offset, node;

                CHECK(begin(4 << 20, 4096));
                CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, count * 4096ull, 0, &offset), 0);
                while (!sb_slab_take(&reader, SB_UNIT_NODES, 400, 0, &node))
                        ;
                sb_slab_release_all(&reader);
                begin_wait(count);
                CHECK_EQ(find_window(), more ? NONE : sb_unit_of(&writer.segment, offset));
                sb_window_end(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK_EQ(sb_unit_large_count(&writer.segment, sb_unit_of(&writer.segment, offset)),
                        count);
                unmake_bus();
        }
}

/* A large block of one unit is as dear as a unit is. */
static void test_a_block_that_fills_a_unit_is_in_a_window_where_nothing_is_cheaper(void)
{
        uint32_t unit;

        CHECK(begin_with_run(1, &unit));
        leave_rows(unit - 2, unit, 0);
        leave_rows(unit - 3, unit - 2, 15);
        begin_wait(3);
        CHECK_EQ(find_window(), unit - 3);
        sb_window_end(&writer);
        leave_rows(unit - 4, unit - 3, 1); /* and five units then cost less than with the block */
        leave_rows(unit + 1, unit + 3, 0);
        begin_wait(5);
        CHECK_EQ(find_window(), unit - 2);
        CHECK_EQ(owned_by(&writer), 5);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(SB_UNIT_KIND(word_of(unit)), SB_UNIT_LARGE);
        unmake_bus();
}

static void test_units_of_any_size_in_segments_of_any_size_can_be_a_window(void)
{
        static const uint64_t sizes[] = {
                UINT64_C(1) << 20, UINT64_C(64) << 20, UINT64_C(256) << 20, UINT64_C(256) << 20};
        static const uint32_t unit_sizes[] = {256, 0, 0, 1 << 20};

        for (uint32_t i = 0; i < 4; i++) {
                uint32_t third, taken;

                CHECK(begin(sizes[i], unit_sizes[i]));
                CHECK(fill(writer.segment.geometry.unit_size / 2));
                for (uint32_t unit = 0; unit < limit; unit++)
                        leave_blocks(unit, 1);
                third = limit / 3;
                begin_wait(third);
                CHECK_EQ(find_window(), limit - third);
                for (uint32_t unit = limit - third; unit < limit; unit++)
                        sb_unit_clear(&reader, sb_unit_offset(&writer.segment, unit));
                for (taken = NONE; taken == NONE;)
                        taken = sb_window_take(&writer, third, limit);
                CHECK_EQ(taken, limit - third);
                CHECK_EQ(sb_unit_large_count(&writer.segment, taken), third);
                sb_unit_give_up(&writer, taken);
                sb_window_end(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                unmake_bus();
        }
}

/* Without a client that waits there are no windows: a run is there, or the call says full. */
static void test_a_client_that_does_not_wait_has_no_window(void)
{
        uint64_t offset;

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        leave_rows(0, limit, 1);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 5000, 0, &offset), SB_E_FULL);
        CHECK(!sb_window_find(&writer) && !sb_window_searches(&writer));
        begin_wait(5);
        CHECK(find_window() != NONE);
        sb_window_end(&writer);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 5000, 0, &offset), SB_E_FULL);
        CHECK(!sb_window_find(&writer) && !sb_window_searches(&writer));
        CHECK_EQ(owned_by(&writer), 0);
        unmake_bus();
}

static void test_what_was_refused_is_tried_again_when_nothing_else_is_left(void)
{
        uint32_t first, rounds = 0;

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        leave_rows(0, limit, 1);
        begin_wait(10);
        for (uint32_t end = limit; (first = find_window()) != NONE; rounds++) {
                CHECK_EQ(first, end - 10);
                end = first + rounds % 10; /* the highest unit that can be in the next one */
                sb_window_refuse(&writer, end);
                CHECK_EQ(owned_by(&writer), 0);
        }
        CHECK(rounds > limit / 10 && rounds <= limit);
        /* There was none, and the caller is told so before the next search. */
        CHECK(!sb_window_count(&writer) && !sb_window_searches(&writer));
        CHECK_EQ(find_window(), limit - 10);
        sb_window_refuse(&writer, limit - 5);
        CHECK_EQ(find_window(), limit - 15);
        sb_window_end(&writer);
        begin_wait(10);
        CHECK_EQ(find_window(), limit - 10);
        sb_window_end(&writer);
        unmake_bus();
}

/* The sum of the last one is no cost of the next: what is cheap enough is taken again, though less
 * lives further down. */
static void test_a_search_begins_with_nothing_that_lives(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(fill(64));
        leave_rows(0, limit - 10, 1);
        leave_rows(limit - 10, limit, 2);
        for (uint32_t i = 0; i < 3; i++) {
                begin_wait(10);
                CHECK_EQ(find_window(), limit - 10);
                sb_window_end(&writer);
        }
        unmake_bus();
}

static void test_another_size_gives_the_window_up(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        leave_rows(0, limit, 1);
        begin_wait(10);
        CHECK_EQ(find_window(), limit - 10);
        CHECK_EQ(sb_window_take(&writer, 7, limit), NONE);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(find_window(), limit - 7);
        CHECK_EQ(owned_by(&writer), 7);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_the_cheapest_units_in_a_row_become_the_window);
        RUN(test_a_run_that_is_being_freed_is_in_no_window);
        RUN(test_a_window_has_all_of_a_large_block_or_nothing);
        RUN(test_a_large_block_of_more_than_so_many_bytes_is_in_no_window);
        RUN(test_a_block_that_fills_a_unit_is_in_a_window_where_nothing_is_cheaper);
        RUN(test_units_of_any_size_in_segments_of_any_size_can_be_a_window);
        RUN(test_a_client_that_does_not_wait_has_no_window);
        RUN(test_what_was_refused_is_tried_again_when_nothing_else_is_left);
        RUN(test_a_search_begins_with_nothing_that_lives);
        RUN(test_another_size_gives_the_window_up);
        return test_end();
}
