/*
 * The two lists of a handle (shm/memory/limbo.h): blocks that wait for their grace period, each
 * once and with its date; and cells to look at again, each once, however often it is written. What
 * finds no space is left to a sweep.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/limbo.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/retired.h"

static void test_a_block_begins_to_go_once_and_is_dated_once(void)
{
        struct sb_block *block;

        CHECK(begin(700));
        block = retired(650, 0);
        sb_store_relaxed(&writer.segment.super->era, 700);
        CHECK(block && sb_limbo_begin(&writer, block));
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_DYING);
        CHECK(!sb_limbo_begin(&reader, block));
        CHECK(sb_limbo_is_empty(&writer));
        sb_limbo_date(&writer, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), 700);
        CHECK_EQ(writer.limbo.count, 1);
        CHECK_EQ(writer.limbo.entries[0].era, 700);
        CHECK_EQ(writer.limbo.entries[0].birth, 650);
        sb_store_relaxed(&writer.segment.super->era, 701);
        sb_limbo_date(&reader, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), 700);
        CHECK(sb_limbo_is_empty(&reader));
        sb_store_relaxed(&block->retire, SB_RETIRE_HELD);
        CHECK(!sb_limbo_begin(&writer, block));
        sb_limbo_date(&writer, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_HELD);
        unmake_bus();
}

static void test_what_finds_no_space_is_left_to_a_sweep(void)
{
        struct sb_block *block;
        uint64_t offset;

        CHECK(begin(700));
        block = retired(650, 660);
        offset = sb_offset_of(&writer.segment, block);
        for (uint32_t i = 0; i < SB_LIMBO_MAX; i++)
                sb_limbo_wait(&writer, offset, 660, i % 2);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX);
        CHECK(sb_limbo_half_full(&writer) && sb_limbo_due(&writer));
        CHECK_EQ(writer.limbo.left_behind, 0);
        CHECK_EQ(writer.limbo.entries[5].offset, offset | SB_LIMBO_FIRST_GRACE);
        sb_limbo_wait(&writer, offset, 660, false);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX);
        CHECK_EQ(writer.limbo.left_behind, 1);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 1);
        unmake_bus();
}

static void test_cells_to_look_at_again_come_in_order_however_often_the_list_goes_round(void)
{
        uint64_t in = 0, out = 0;

        CHECK(begin(700));
        for (uint32_t step = 0; step < 20; step++) {
                while (sb_limbo_pending(&writer) < SB_PENDING_MAX)
                        in++, sb_limbo_later(&writer, in, in * 3);
                CHECK(sb_limbo_pending_due(&writer));
                CHECK_EQ(writer.limbo.left_behind, step);
                sb_limbo_later(&writer, UINT64_MAX, 9); /* one too many */
                CHECK_EQ(writer.limbo.left_behind, step + 1);
                for (uint32_t i = 1 + draw(SB_PENDING_MAX); i; i--) {
                        struct sb_pending pending;

                        out++;
                        CHECK_EQ(sb_limbo_see_pending(&writer, 0)->cell_number, out);
                        pending = sb_limbo_take_pending(&writer);
                        CHECK(pending.cell_number == out && pending.since == out * 3 &&
                                pending.due == out * 3 && pending.last == out * 3);
                }
        }
        unmake_bus();
}

static void test_a_cell_that_is_written_again_is_in_the_list_once(void)
{
        static const uint64_t stamps[] = {10, 12, 8, 11};
        struct sb_pending pending;

        CHECK(begin(700));
        for (uint32_t i = 0; i < 4; i++)
                sb_limbo_later(&writer, 77, stamps[i]);
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        pending = sb_limbo_take_pending(&writer);
        CHECK(pending.since == 8 && pending.due == 8 && pending.last == 12);
        sb_limbo_later(&writer, 77, 20); /* what was taken is looked at */
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        for (uint32_t i = 5; i < SB_PENDING_BATCH; i++) {
                CHECK(!sb_limbo_pending_due(&writer));
                sb_limbo_later(&writer, 77, 20);
        }
        CHECK(sb_limbo_pending_due(&writer));
        sb_limbo_look(&writer, 10000);
        for (uint32_t i = 0; i < SB_PENDING_BATCH + 10000 / 32; i++) {
                CHECK(!sb_limbo_pending_due(&writer));
                sb_limbo_later(&writer, 77, 20);
        }
        CHECK(sb_limbo_pending_due(&writer));
        sb_limbo_look(&writer, 4000000); /* never more than there is space for */
        for (uint32_t i = 0; i < SB_PENDING_MAX / 2; i++)
                sb_limbo_later(&writer, i, 20);
        CHECK(sb_limbo_pending_due(&writer));
        CHECK_EQ(writer.limbo.left_behind, 0);
        unmake_bus();
}

/* Cells that are written in turn, of which many have the same hash, whatever it is: each has one
 * entry, of all that was noted, also behind others that were put back meanwhile. */
static void test_each_cell_waits_once_however_many_are_written_in_turn(void)
{
        const uint32_t cells = SB_PENDING_MAX - 1;

        CHECK(begin(700));
        for (uint64_t turn = 1; turn <= 5; turn++) {
                for (uint64_t i = 1; i <= cells; i++)
                        sb_limbo_later(&writer, 8 * i, 1000 * turn + i);
                CHECK_EQ(sb_limbo_pending(&writer), cells);
                for (uint32_t i = 0; i < cells / 3; i++) {
                        struct sb_pending pending = sb_limbo_take_pending(&writer);

                        sb_limbo_again(&writer, &pending);
                }
                CHECK_EQ(sb_limbo_pending(&writer), cells);
        }
        CHECK_EQ(sb_limbo_left_behind(&writer), 0);
        while (sb_limbo_pending(&writer)) {
                struct sb_pending pending = sb_limbo_take_pending(&writer);
                uint64_t i = pending.cell_number / 8;

                CHECK_EQ(pending.since, 1000 + i);
                CHECK_EQ(pending.due, 1000 + i);
                CHECK_EQ(pending.last, 5000 + i);
        }
        unmake_bus();
}

/* Numbers of entries go round behind four billion; one that was left from before may name itself.
 */
static void test_a_way_through_old_entries_ends(void)
{
        CHECK(begin(700));
        writer.limbo.pending_head = writer.limbo.pending_tail = 1000;
        for (uint32_t i = 0; i < SB_PENDING_LATEST; i++)
                writer.limbo.latest[i] = 1001;
        sb_limbo_later(&writer, 8, 1);
        sb_limbo_later(&writer, 16, 2);
        writer.limbo.pending[1001 % SB_PENDING_MAX].older = 1001;
        for (uint32_t i = 3; i < 30; i++)
                sb_limbo_later(&writer, 8 * i, i);
        CHECK_EQ(sb_limbo_pending(&writer), 29);
        unmake_bus();
}

static void test_a_ripe_batch_moves_the_era_on_before_it_is_looked_at(void)
{
        struct sb_block *block, *last;
        uint32_t ripe;

        CHECK(begin(700));
        ripe = writer.limbo.ripe;
        CHECK(ripe && ripe <= writer.limbo.wake);
        block = retired(690, 700);
        last = retired(690, 701);
        sb_store_relaxed(&writer.segment.super->era, 700);
        for (uint32_t i = 0; i < ripe; i++) {
                CHECK_EQ(era_now(), 700);
                sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 700, false);
        }
        CHECK_EQ(era_now(), 701);
        CHECK(writer.limbo.ripened);
        /* And what comes behind that: the writer's own pin, of the same era, does not hold it. */
        sb_limbo_wait(&writer, sb_offset_of(&writer.segment, last), 701, false);
        CHECK_EQ(look((bool[BLOCKS]){0}), ripe + 1);
        CHECK_EQ(era_now(), 701); /* and not once more */
        CHECK(!writer.limbo.ripened);
        unmake_bus();
}

static void test_a_block_that_another_brought_further_is_dropped(void)
{
        bool free[BLOCKS];
        uint32_t unit;

        CHECK(begin(900));
        for (uint32_t i = 0; i < 40; i++)
                CHECK(wait_for(800, 880));
        sb_slab_release_all(&writer);
        sb_store_relaxed(&((struct sb_block *)sb_block_at(&writer.segment, blocks[0]))->retire, 0);
        sb_store_relaxed(
                &((struct sb_block *)sb_block_at(&writer.segment, blocks[1]))->retire, 881);
        sb_store_relaxed(&((struct sb_block *)sb_block_at(&writer.segment, blocks[2]))->retire,
                SB_RETIRE_FREEING | reader.slot);
        CHECK_EQ(look(free), 37);
        CHECK(!free[0] && !free[1] && !free[2] && free[3] && free[39]);
        CHECK(sb_limbo_is_empty(&writer));
        /* Its unit serves another class by now, or another kind. */
        unit = sb_unit_of(&writer.segment, blocks[10]);
        for (uint32_t i = 0; i < 3; i++) {
                uint64_t word = sb_unit_word(&writer.segment, unit);

                sb_limbo_wait(&writer, blocks[10], 880, false);
                sb_store_relaxed(&writer.segment.unit_words[unit],
                        word ^ (i == 0          ? UINT64_C(1) << 54
                                       : i == 1 ? UINT64_C(3) << 60
                                                : UINT64_C(5) << 32));
                CHECK_EQ(look(free), i == 2); /* but another owner counts not */
                CHECK(sb_limbo_is_empty(&writer));
                sb_store_relaxed(&writer.segment.unit_words[unit], word);
        }
        unmake_bus();
}

static void test_a_node_waits_for_the_first_time_while_it_is_gone_and_not_on_its_way(void)
{
        bool free[BLOCKS];
        struct sb_node *node;

        CHECK(begin(900));
        for (uint32_t i = 0; i < 5; i++) {
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_NODES, 100, 0, &blocks[i]), 0);
                node = sb_node_at(&writer.segment, blocks[i]);
                sb_store_relaxed(&node->block.birth, 850);
                sb_store_relaxed(&node->cell, i == 1 ? 8 : SB_NODE_GONE);
                sb_store_relaxed(&node->unhooked, i == 2 ? 881 : 880);
                sb_store_relaxed(&node->block.retire, i == 3 ? SB_RETIRE_DYING : 0);
                sb_limbo_wait(&writer, blocks[i], 880, true);
                block_count++;
        }
        sb_limbo_wait(&writer, blocks[4], 880, false); /* that would be the second time */
        set_pin(4, 870, 870);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, 2);
        CHECK_EQ(writer.limbo.entries[0].offset, blocks[0] | SB_LIMBO_FIRST_GRACE);
        set_pin(4, 0, 0);
        CHECK_EQ(look(free), 2);
        CHECK(free[0] && free[4]);
        unmake_bus();
}

static void test_a_list_full_of_what_is_pinned_is_left_to_a_sweep_but_for_a_quarter(void)
{
        struct sb_block *block;
        bool free[BLOCKS];

        CHECK(begin(900));
        block = retired(850, 880);
        set_pin(4, 870, 890);
        for (uint32_t i = 0; i < SB_LIMBO_MAX / 2; i++)
                sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 880, false);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX / 2);
        CHECK(writer.limbo.wake > SB_LIMBO_MAX / 2); /* not at once again */
        sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 880, false);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX / 4);
        CHECK_EQ(writer.limbo.left_behind, 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_block_begins_to_go_once_and_is_dated_once);
        RUN(test_what_finds_no_space_is_left_to_a_sweep);
        RUN(test_cells_to_look_at_again_come_in_order_however_often_the_list_goes_round);
        RUN(test_a_cell_that_is_written_again_is_in_the_list_once);
        RUN(test_each_cell_waits_once_however_many_are_written_in_turn);
        RUN(test_a_way_through_old_entries_ends);
        RUN(test_a_ripe_batch_moves_the_era_on_before_it_is_looked_at);
        RUN(test_a_block_that_another_brought_further_is_dropped);
        RUN(test_a_node_waits_for_the_first_time_while_it_is_gone_and_not_on_its_way);
        RUN(test_a_list_full_of_what_is_pinned_is_left_to_a_sweep_but_for_a_quarter);
        return test_end();
}
