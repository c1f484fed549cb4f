/*
 * Windows (shm/memory/window.h): which units in a row a client that waits for memory becomes the
 * owner of, when they are a run, and what is left of a window when the wait is over or its owner is
 * dead. The blocks in the units are bare: nothing moves here (unit-move.c).
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define NONE  SB_VACANCY_NONE
#define NEVER UINT64_MAX

static uint32_t limit; /* the units from here on are a reserve */

static bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 2,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        draw_state = size ^ unit_size;
        if (!make_bus_of(&wish))
                return false;
        limit = writer.segment.geometry.unit_count - writer.segment.geometry.reserve_count;
        return true;
}

static uint64_t word_of(uint32_t unit)
{
        return sb_unit_word(&writer.segment, unit);
}

/* Blocks of this size in all units that are left, without an owner. */
static bool fill(uint64_t size)
{
        uint64_t offset;
        int r;

        do
                r = sb_slab_take(&reader, SB_UNIT_VERSIONS, size, 0, &offset);
        while (!r);
        sb_slab_release_all(&reader);
        return r == SB_E_FULL;
}

/* Leave the unit so many of its blocks; a unit with none becomes EMPTY. */
static void leave_blocks(uint32_t unit, uint32_t count)
{
        uint64_t word = word_of(unit), size = writer.segment.class_size[SB_UNIT_CLASS(word)];

        for (uint32_t i = count; i < sb_unit_block_count(&writer.segment, word); i++)
                sb_unit_clear(&reader, sb_unit_offset(&writer.segment, unit) + i * size);
}

/* The same for a row of units. */
static void leave_rows(uint32_t first, uint32_t end, uint32_t count)
{
        for (; first < end; first++)
                leave_blocks(first, count);
}

static void begin_wait(uint32_t count)
{
        sb_window_begin(&writer);
        if (sb_window_take(&writer, count, limit) != NONE)
                abort();
}

/* Look until there is a window or there is nothing to look at. Return: its first unit. */
static uint32_t find_window(void)
{
        while (!sb_window_find(&writer) && sb_window_searches(&writer))
                ;
        return sb_window_count(&writer) ? sb_window_first(&writer) : NONE;
}

static uint32_t owned_by(const struct sb_handle *handle)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < writer.segment.geometry.unit_count; i++)
                count += word_of(i) && SB_UNIT_KIND(word_of(i)) < SB_UNIT_PART &&
                         SB_UNIT_OWNER(word_of(i)) == sb_unit_owner(handle);
        return count;
}

/* They name no owner. */
static uint32_t parts_in_window(void)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < sb_window_count(&writer); i++)
                count += SB_UNIT_KIND(word_of(sb_window_first(&writer) + i)) == SB_UNIT_PART;
        return count;
}

static uint32_t count_kind(enum sb_unit_kind kind)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < limit; i++)
                count += SB_UNIT_KIND(word_of(i)) == kind;
        return count;
}

/* ---- choosing ---- */

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

/* ---- owning ---- */

static void test_no_other_client_takes_blocks_in_a_window(void)
{
        uint64_t offset;

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(64));
        leave_rows(0, limit, 8);
        begin_wait(20);
        CHECK_EQ(find_window(), limit - 20);
        while (!sb_slab_take(&reader, SB_UNIT_VERSIONS, 64, 0, &offset))
                CHECK(sb_unit_of(&writer.segment, offset) < limit - 20);
        for (uint32_t unit = limit - 20; unit < limit; unit++)
                CHECK_EQ(sb_unit_count_free(&writer.segment, unit, 16), 8);
        sb_slab_release_all(&reader);
        sb_window_end(&writer);
        /* And now one does. */
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 64, 0, &offset), 0);
        CHECK(sb_unit_of(&writer.segment, offset) >= limit - 20);
        unmake_bus();
}

static void test_an_operation_that_gives_up_all_its_slabs_keeps_the_window(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        leave_rows(0, limit, 1);
        begin_wait(20);
        CHECK_EQ(find_window(), limit - 20);
        writer.slabs.exhausted_many = true; /* more slabs ran out than the list holds */
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 20);
        for (uint32_t unit = limit - 20; unit < limit; unit++)
                CHECK_EQ(SB_UNIT_OWNER(word_of(unit)), sb_unit_owner(&writer));
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        unmake_bus();
}

static void test_free_and_empty_units_are_owned_in_a_window_and_come_back(void)
{
        uint32_t kinds[2][7] = {{0}};

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        for (uint32_t unit = 0; unit < limit; unit++)
                leave_blocks(unit, unit % 3 ? 1 : 0);
        /* Some of the EMPTY ones become FREE. */
        for (uint32_t unit = limit - 30; unit < limit; unit += 2)
                if (SB_UNIT_KIND(word_of(unit)) == SB_UNIT_EMPTY)
                        sb_store_relaxed(&writer.segment.unit_words[unit], 0);
        for (uint32_t kind = 0; kind < 7; kind++)
                kinds[0][kind] = count_kind(kind);
        begin_wait(30);
        CHECK_EQ(find_window(), limit - 30);
        CHECK_EQ(owned_by(&writer), 30);
        CHECK_EQ(count_kind(SB_UNIT_FREE), 0);
        CHECK_EQ(count_kind(SB_UNIT_LARGE), kinds[0][SB_UNIT_FREE]);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        for (uint32_t kind = 0; kind < 7; kind++)
                kinds[1][kind] = count_kind(kind);
        /* What was FREE waits for a grace period. */
        CHECK_EQ(kinds[1][SB_UNIT_VERSIONS], kinds[0][SB_UNIT_VERSIONS]);
        CHECK_EQ(kinds[1][SB_UNIT_EMPTY], kinds[0][SB_UNIT_EMPTY] + kinds[0][SB_UNIT_FREE]);
        unmake_bus();
}

/* ---- the run ---- */

static void test_a_window_is_a_run_when_it_is_empty_and_past_its_grace_period(void)
{
        uint64_t offset;

        for (uint32_t round = 0; round < 2; round++) {
                CHECK(begin(1 << 20, 1024));
                CHECK(fill(512));
                leave_rows(0, limit, 1);
                begin_wait(20);
                CHECK_EQ(find_window(), limit - 20);
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 20 * 1024, 0, &offset), SB_E_FULL);
                leave_rows(limit - 20, limit - 1, 0);
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 20 * 1024, 0, &offset), SB_E_FULL);
                /* A reader follows offsets that lead there. */
                if (round)
                        sb_pin(&reader);
                leave_rows(limit - 1, limit, 0);
                for (uint32_t i = 0; round && i < 50; i++)
                        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 20 * 1024, 0, &offset),
                                SB_E_FULL);
                if (round)
                        sb_unpin(&reader);
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 20 * 1024, 0, &offset), 0);
                CHECK_EQ(offset, sb_unit_offset(&writer.segment, limit - 20));
                CHECK_EQ(sb_unit_large_count(&writer.segment, limit - 20), 20);
                CHECK_EQ(owned_by(&writer), 1);
                sb_slab_settle(&writer);
                sb_window_end(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(sb_unit_is_block(&writer.segment, offset, SB_UNIT_VERSIONS, NULL));
                unmake_bus();
        }
}

/* A client that is stopped under a pin knows all units that there were. The window that waits for
 * it is given up, and one of units that are younger serves. */
static void test_a_window_that_a_stopped_reader_knows_is_left_for_a_younger_one(void)
{
        uint32_t young, waits = 0, tries = 0, first;
        uint64_t offset;

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        /* The lower half begins another life while the reader is stopped. */
        leave_rows(0, limit / 2, 0);
        sb_era_advance(&writer);
        sb_era_look(&writer);
        for (uint32_t unit = 0; unit < limit / 2; unit++)
                CHECK(sb_unit_past_grace(&writer, unit, word_of(unit)));
        sb_pin(&reader);
        sb_era_advance(&writer);
        sb_era_advance(&writer);
        young = limit / 2;
        for (uint32_t i = 0; i < 2 * young; i++)
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 448, 0, &offset), 0);
        sb_slab_release_all(&writer);
        leave_rows(0, young, 1);
        leave_rows(limit - 20, limit, 0);
        begin_wait(20);
        CHECK_EQ(find_window(), limit - 20);
        do {
                CHECK_EQ(sb_window_take(&writer, 20, limit), NONE);
                waits++;
        } while (!sb_window_wait(&writer));
        CHECK(waits < 100);
        CHECK_EQ(owned_by(&writer), 0);
        do {
                first = find_window();
                CHECK(first != NONE && tries++ < limit);
                leave_rows(first, first + 20, 0);
                for (waits = 0; waits < 100; waits++)
                        if (sb_window_take(&writer, 20, limit) != NONE || sb_window_wait(&writer))
                                break;
        } while (SB_UNIT_KIND(word_of(first)) != SB_UNIT_LARGE);
        CHECK(first < young);
        sb_unit_give_up(&writer, first);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        sb_unpin(&reader);
        unmake_bus();
}

static void test_where_a_stopped_reader_knows_all_units_they_are_tried_again(void)
{
        uint32_t tries = 0;

        CHECK(begin(1 << 20, 1024));
        CHECK(fill(512));
        sb_pin(&reader);
        sb_era_advance(&writer);
        sb_era_advance(&writer);
        leave_rows(limit - 20, limit, 0);
        begin_wait(20);
        CHECK_EQ(find_window(), limit - 20);
        do
                CHECK_EQ(sb_window_take(&writer, 20, limit), NONE);
        while (!sb_window_wait(&writer));
        CHECK_EQ(find_window(), NONE);
        while (find_window() == NONE)
                CHECK(tries++ < 8);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        sb_unpin(&reader);
        unmake_bus();
}

/* As for a commit of several large values, of which the last one has no room yet. */
static void test_runs_that_are_given_back_stay_until_the_wait_is_over(void)
{
        uint64_t offsets[3], again;

        for (uint32_t round = 0; round < 3; round++) {
                CHECK(begin(1 << 20, 1024));
                CHECK(fill(512));
                leave_rows(0, limit, 1);
                sb_window_begin(&writer);
                for (uint32_t i = 0; i < 3; i++) {
                        uint64_t size = i == 2 ? 7 * 1024 : 20 * 1024;

                        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &offsets[i]),
                                SB_E_FULL);
                        for (uint32_t j = 0; j < i; j++)
                                sb_slab_give_back(&writer, offsets[j]);
                        sb_slab_settle(&writer);
                        CHECK(find_window() != NONE);
                        leave_rows(sb_window_first(&writer),
                                sb_window_first(&writer) + sb_window_count(&writer), 0);
                        for (uint32_t j = 0; j <= i; j++)
                                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS,
                                                 j == 2 ? 7 * 1024 : 20 * 1024, 0, &again),
                                        0);
                        offsets[i] = again;
                        CHECK_EQ(owned_by(&writer), i + 1);
                }
                CHECK(offsets[0] != offsets[1]);
                /* All are given back; or one is published; or their owner dies. */
                for (uint32_t i = round == 1; i < 3; i++)
                        sb_slab_give_back(&writer, offsets[i]);
                writer.slabs.exhausted_many = round == 0;
                sb_slab_settle(&writer);
                CHECK_EQ(owned_by(&writer), round == 1 ? 2 : 3);
                if (round == 2)
                        sb_reap_record(&reader, writer.slot, writer.generation);
                else
                        sb_window_end(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK_EQ(count_kind(SB_UNIT_LARGE), round == 1);
                CHECK_EQ(count_kind(SB_UNIT_PART), round == 1 ? 19 : 0);
                unmake_bus();
        }
}

/* ---- the end ---- */

/* A window in one of its states: found; with its highest unit empty; empty; a run; a run that is
 * taken. */
static bool come_to(uint32_t state)
{
        uint64_t offset;

        begin_wait(20);
        if (find_window() != limit - 20)
                return false;
        if (state == 1)
                leave_rows(limit - 1, limit, 0);
        if (state >= 2)
                leave_rows(limit - 20, limit, 0);
        if (state == 3 && sb_window_take(&writer, 20, limit) != limit - 20)
                return false;
        return state < 4 || !sb_slab_take(&writer, SB_UNIT_VERSIONS, 20 * 1024, 0, &offset);
}

static void test_a_dead_owners_window_comes_back_whatever_its_state(void)
{
        for (uint32_t state = 0; state < 5; state++) {
                uint32_t generation;

                CHECK(begin(1 << 20, 1024));
                CHECK(fill(512));
                leave_rows(0, limit, 1);
                CHECK(come_to(state));
                CHECK(owned_by(&writer) > 0);
                /* Bare blocks, which the reaper takes for ones that were never published. */
                sb_reap_record(&reader, writer.slot, writer.generation);
                CHECK_EQ(
                        sb_roster_state(&writer.segment, writer.slot, &generation), SB_RECORD_FREE);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK_EQ(count_kind(SB_UNIT_LARGE) + count_kind(SB_UNIT_PART), 0);
                for (uint32_t unit = limit - 20; unit < limit; unit++)
                        CHECK(sb_unit_is_empty(&writer.segment, unit));
                for (uint32_t unit = 0; unit < limit - 20; unit++)
                        CHECK_EQ(sb_unit_count_free(&writer.segment, unit, 2), 1);
                unmake_bus();
        }
}

static void test_the_end_of_a_wait_leaves_no_owned_unit_whatever_the_windows_state(void)
{
        for (uint32_t state = 0; state < 3; state++) {
                CHECK(begin(1 << 20, 1024));
                CHECK(fill(512));
                leave_rows(0, limit, 1);
                CHECK(come_to(state));
                CHECK_EQ(owned_by(&writer), 20);
                sb_window_end(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                sb_window_end(&writer); /* and once more */
                CHECK(!sb_window_count(&writer) && !sb_window_searches(&writer));
                CHECK_EQ(count_kind(SB_UNIT_EMPTY), state == 0 ? 0 : state == 1 ? 1 : 20);
                unmake_bus();
        }
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
        RUN(test_no_other_client_takes_blocks_in_a_window);
        RUN(test_an_operation_that_gives_up_all_its_slabs_keeps_the_window);
        RUN(test_free_and_empty_units_are_owned_in_a_window_and_come_back);
        RUN(test_a_window_is_a_run_when_it_is_empty_and_past_its_grace_period);
        RUN(test_a_window_that_a_stopped_reader_knows_is_left_for_a_younger_one);
        RUN(test_where_a_stopped_reader_knows_all_units_they_are_tried_again);
        RUN(test_runs_that_are_given_back_stay_until_the_wait_is_over);
        RUN(test_a_dead_owners_window_comes_back_whatever_its_state);
        RUN(test_the_end_of_a_wait_leaves_no_owned_unit_whatever_the_windows_state);
        return test_end();
}
