/*
 * A window while a client owns it (shm/memory/window.h): no other client takes blocks in it, it is
 * a run when it is empty and past its grace period, and nothing of it is left when the wait is over
 * or its owner is dead. Which units it has, unit-window shows. The blocks in the units are bare:
 * nothing moves here (unit-move.c).
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
#include "shm/memory/window.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/units.h"
#include "tests/unit/windows.h"

/* Below the reserve. */
static uint32_t count_below(enum sb_unit_kind kind)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < limit; i++)
                count += SB_UNIT_KIND(word_of(i)) == kind;
        return count;
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
                kinds[0][kind] = count_below(kind);
        begin_wait(30);
        CHECK_EQ(find_window(), limit - 30);
        CHECK_EQ(owned_by(&writer), 30);
        CHECK_EQ(count_below(SB_UNIT_FREE), 0);
        CHECK_EQ(count_below(SB_UNIT_LARGE), kinds[0][SB_UNIT_FREE]);
        sb_window_end(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        for (uint32_t kind = 0; kind < 7; kind++)
                kinds[1][kind] = count_below(kind);
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
                CHECK_EQ(count_below(SB_UNIT_LARGE), round == 1);
                CHECK_EQ(count_below(SB_UNIT_PART), round == 1 ? 19 : 0);
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
                CHECK_EQ(count_below(SB_UNIT_LARGE) + count_below(SB_UNIT_PART), 0);
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
                CHECK_EQ(count_below(SB_UNIT_EMPTY), state == 0 ? 0 : state == 1 ? 1 : 20);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
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
