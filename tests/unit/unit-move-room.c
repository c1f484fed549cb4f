/*
 * Room by moving (shm/upkeep/move.h): a write that waits gets units in a row, or a slab, where
 * versions lie scattered. What a stopped client knows stays in the way, and a mover that dies loses
 * nothing.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/roster.h"
#include "shm/memory/era.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/scatter.h"

static void test_a_large_value_finds_room_where_versions_lie_scattered(void)
{
        static const uint32_t counts[] = {2, 3, 64, 65, 0};
        static const struct {
                uint64_t size;
                uint32_t unit_size, len;
        } shapes[] = {{1 << 20, 1024, 400}, {1 << 20, 4096, 1200}};

        for (uint32_t s = 0; s < 2; s++)
                for (uint32_t i = 0; i < 5; i++) {
                        uint32_t count = counts[i];
                        uint64_t offset;

                        CHECK(begin(shapes[s].size, shapes[s].unit_size));
                        CHECK(scatter(shapes[s].len, s ? 3 : 2));
                        count = count ? count : limit / 3;
                        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS,
                                         (uint64_t)count * shapes[s].unit_size, 0, &offset),
                                SB_E_FULL);
                        offset = wait_for(count);
                        if (!offset)
                                TEST_FAIL("%u of %u units of %u bytes: no room", count, limit,
                                        shapes[s].unit_size);
                        CHECK(writer.counters.moved > 0);
                        CHECK(all_there());
                        /* As a block that was never published. */
                        sb_slab_give_back(&writer, offset);
                        sb_slab_release_all(&writer);
                        CHECK_EQ(owned_by(&writer), 0);
                        CHECK(is_sound());
                        CHECK(all_there());
                        unmake_bus();
                }
}

/* Runs that are there without moving anything. */
static uint64_t runs[512];
static uint32_t run_count;

static void take_runs(uint32_t count)
{
        uint64_t size = (uint64_t)count * writer.segment.geometry.unit_size;

        for (run_count = 0; run_count < 512; run_count++)
                if (sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &runs[run_count]))
                        break;
}

static void give_runs_back(void)
{
        while (run_count)
                sb_slab_give_back(&writer, runs[--run_count]);
}

static void test_values_of_one_unit_or_several_move_for_a_larger_one(void)
{
        static const uint32_t counts[] = {4, 5, 20, 100}, lens[] = {900, 1900, 3000};

        for (uint32_t i = 0; i < 12; i++) {
                uint32_t count = counts[i % 4];
                uint64_t offset;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(lens[i / 4], 2));
                take_runs(count);
                writer.counters.moved = 0;
                offset = wait_for(count);
                if (!offset)
                        TEST_FAIL("values of %u bytes, %u units: no room", lens[i / 4], count);
                CHECK(writer.counters.moved > 0);
                CHECK(all_there());
                sb_slab_give_back(&writer, offset);
                give_runs_back();
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
}

/* No unit is free, and none is a slab of this size. */
static void test_where_all_units_have_blocks_of_another_size_one_is_emptied(void)
{
        static const struct {
                enum sb_unit_kind kind;
                uint64_t size;
        } wishes[] = {{SB_UNIT_VERSIONS, 200}, {SB_UNIT_NODES, 200}, {SB_UNIT_NODES, 500}};

        for (uint32_t i = 0; i < 3; i++) {
                uint64_t offset, size, taken[64];
                uint32_t count = 0;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(400, 2));
                /* Nodes have a part of the reserve. */
                while (count < 64 &&
                        !sb_slab_take(&writer, wishes[i].kind, wishes[i].size, 0, &taken[count]))
                        count++;
                CHECK(wishes[i].kind == SB_UNIT_NODES ? count > 0 && count < 64 : !count);
                sb_slab_settle(&writer);
                offset = wait_for_block(wishes[i].kind, wishes[i].size);
                CHECK(offset);
                CHECK(writer.counters.moved > 0);
                CHECK(sb_unit_is_block(&writer.segment, offset, wishes[i].kind, &size));
                CHECK(size >= wishes[i].size && size < 1024);
                CHECK(all_there());
                sb_slab_give_back(&writer, offset);
                while (count)
                        sb_slab_give_back(&writer, taken[--count]);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
}

static void test_the_movers_own_slabs_are_not_in_the_way(void)
{
        uint32_t unit, end = 0, count;
        uint64_t word, offset;

        CHECK(begin(1 << 20, 1024));
        CHECK(scatter(400, 4));
        /* In the middle of the units below all nodes. */
        while (end < limit && SB_UNIT_KIND(sb_unit_word(&writer.segment, end)) != SB_UNIT_NODES)
                end++;
        for (unit = end / 2;; unit--) {
                word = sb_unit_word(&writer.segment, unit);
                if (SB_UNIT_KIND(word) == SB_UNIT_VERSIONS)
                        break;
                CHECK(unit);
        }
        CHECK(sb_cas64_full(&writer.segment.unit_words[unit], word, word | sb_unit_owner(&writer)));
        writer.slabs.versions[SB_UNIT_CLASS(word)].unit = unit;
        writer.slabs.owned[0] |= UINT64_C(1) << SB_UNIT_CLASS(word);
        count = end / 2 + 1;
        offset = wait_for(count);
        CHECK(offset);
        sb_slab_give_back(&writer, offset);
        sb_slab_release_all(&writer);
        CHECK(is_sound());
        CHECK(all_there());
        unmake_bus();
}

/* A copy is as old as its original, so that client would hold each copy as well, without end. */
static void test_what_a_stopped_client_knows_does_not_move(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(scatter(400, 4));
        sb_pin(&reader);
        for (uint32_t i = 0; i < 8; i++)
                sb_era_advance(&writer);
        writer.counters.moved = 0;
        CHECK_EQ(wait_for(limit / 4), 0);
        CHECK_EQ(writer.counters.moved, 0);
        sb_unpin(&reader);
        CHECK(wait_for(limit / 4) > 0);
        CHECK(writer.counters.moved > 0);
        sb_slab_release_all(&writer);
        unmake_bus();
}

static void test_where_nothing_can_move_it_is_full_and_nothing_is_lost(void)
{
        for (uint32_t round = 0; round < 2; round++) {
                uint32_t held = 0;

                CHECK(begin(1 << 20, 4096));
                CHECK(scatter(1200, 3));
                /* All versions are in a hand; or there is no block for a copy. */
                sb_pin(&writer);
                for (uint32_t i = 0; i < key_count && !round; i++) {
                        struct sb_version *version = look(key_of(i));

                        if (version && keys[i].len > TINY) {
                                sb_store_relaxed(&version->block.retire, SB_RETIRE_FREEING);
                                held++;
                        }
                }
                sb_unpin(&writer);
                if (round) {
                        uint64_t offset;

                        for (uint32_t class_ = writer.segment.class_count; class_--;)
                                while (!sb_slab_take(&reader, SB_UNIT_VERSIONS,
                                        writer.segment.class_size[class_], 0, &offset))
                                        ;
                        sb_slab_release_all(&reader);
                }
                CHECK_EQ(wait_for(20), 0);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(all_there());
                sb_pin(&writer);
                for (uint32_t i = 0; i < key_count && held; i++) {
                        struct sb_version *version = look(key_of(i));

                        if (sb_load_relaxed(&version->block.retire))
                                sb_store_relaxed(&version->block.retire, 0);
                }
                sb_unpin(&writer);
                if (!round) {
                        uint64_t offset = wait_for(20);

                        CHECK(offset);
                        sb_slab_give_back(&writer, offset);
                        sb_slab_release_all(&writer);
                        CHECK(is_sound());
                        CHECK(all_there());
                }
                unmake_bus();
        }
}

static void test_a_dead_mover_loses_nothing(void)
{
        static struct sb_handle third;
        uint64_t moved = 0;

        for (uint32_t rounds = 0; rounds < 12; rounds++) {
                struct sb_roster_identity identity = {.pid = 1};
                uint32_t slot, generation, i;
                uint64_t offset;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(400, 2));
                CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
                make_handle(&third, &writer.segment, slot, generation);
                sb_window_begin(&third);
                for (i = 0; i < rounds; i++) {
                        sb_work_slice(&third);
                        if (!sb_slab_take(&third, SB_UNIT_VERSIONS, 100 * 1024, 0, &offset))
                                break;
                }
                moved += third.counters.moved;
                sb_reap_record(&writer, slot, generation);
                CHECK_EQ(owned_by(&third), 0);
                CHECK(all_there());
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
        CHECK(moved > 300);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_large_value_finds_room_where_versions_lie_scattered);
        RUN(test_values_of_one_unit_or_several_move_for_a_larger_one);
        RUN(test_where_all_units_have_blocks_of_another_size_one_is_emptied);
        RUN(test_the_movers_own_slabs_are_not_in_the_way);
        RUN(test_what_a_stopped_client_knows_does_not_move);
        RUN(test_where_nothing_can_move_it_is_full_and_nothing_is_lost);
        RUN(test_a_dead_mover_loses_nothing);
        return test_end();
}
