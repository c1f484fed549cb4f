/*
 * The sweep (shm/upkeep/sweep.h): what the private lists of handles lost, at any step of its way
 * out, is found by its bit and goes; all else stays. Counted by the bitmaps of all units. What it
 * does by eras, unit-sweep-eras shows.
 */
#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/report.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"
#include "tests/unit/swept.h"
#include "tests/unit/units.h"

/* ---- slices ---- */

static void test_a_slice_is_so_many_units_from_the_cursor_on_and_each_block_in_them(void)
{
        uint32_t most = 0;
        uint64_t offset;

        CHECK(begin(1 << 20));
        sb_pin(&writer);
        for (uint32_t i = 0; i < 500; i++) {
                char key[8];

                snprintf(key, sizeof(key), "%u", i);
                CHECK(push(key, SB_VERSION_VALUE, 20 + i % 80));
                if (i % 5 == 0) /* of other classes */
                        CHECK(take(48 + draw(1500), 0));
                if (i % 50 == 0) /* which no sweep looks at */
                        CHECK(!sb_slab_take(&writer, SB_UNIT_GUARDS, 128, 0, &offset));
        }
        sb_unpin(&writer);
        while (sweep_whole(&writer)) /* the placeholders */
                ;
        for (uint32_t step = 0; step < 400; step++) {
                uint32_t start = draw(3 * units()), count = draw(2 * units()), cursor = start;
                uint64_t before = reader.counters.swept, expected = 0;

                for (uint32_t i = 0; i < count; i++)
                        expected += taken_in((start + i) % units());
                CHECK_EQ(sb_sweep(&reader, &cursor, count), 0);
                CHECK(!is_pinned());
                CHECK_EQ(reader.counters.swept - before, expected);
                CHECK_EQ(cursor % units(), (start + count) % units());
                CHECK(cursor <= units() || !count);
                most += expected > 1000;
        }
        CHECK(most > 50);
        unmake_bus();
}

/* ---- what was lost ---- */

enum lost {
        SUPERSEDED,
        TOMBSTONE,
        BARE, /* a placeholder alone */
        DYING_APART,
        DYING_IN_CHAIN,
        DATED,
        NODE_WITHOUT_CELL,
        NODE_GONE_IN_INDEX,
        NODE_GONE_FROZEN,
        NODE_GONE_DATED,
        NODE_DYING,
        FROZEN,
        VALUE,
        INTENT,
        NOT_PUBLISHED,
        IN_HAND,
        CASES
};

/* Leaves one thing behind. Return: how many blocks of it stay; -1: it could not be made. */
static int leave(enum lost lost, const char *key)
{
        uint32_t era = sb_load_relaxed(&super()->era);
        struct sb_version *head = NULL, *old;
        struct sb_descriptor *commit;
        struct sb_node *node;
        struct sb_spot spot;

        switch (lost) {
        case DYING_APART:
                return take(70, SB_RETIRE_DYING) ? 0 : -1;
        case DATED:
                return take(70, era) ? 0 : -1;
        case NOT_PUBLISHED:
                return take(70, 0) ? 1 : -1;
        case IN_HAND:
                return take(70, SB_RETIRE_FREEING | writer.slot) ? 1 : -1;
        default:
                break;
        }
        if (!spot_of(key, &spot))
                return -1;
        node = sb_node_at(&writer.segment, spot.head->node);
        if (lost == BARE)
                return 0;
        if (lost == SUPERSEDED || lost == DYING_IN_CHAIN || lost == INTENT)
                for (uint32_t i = 1 + draw(5); i; i--)
                        if (!push(key, draw(3) ? SB_VERSION_VALUE : SB_VERSION_DELETED, 20))
                                return -1;
        old = push(key, SB_VERSION_VALUE, 30);
        if (lost == SUPERSEDED || lost == VALUE)
                return old ? 2 : -1;
        if (lost == DYING_IN_CHAIN) {
                head = push(key, SB_VERSION_VALUE, 40);
                return head && sb_limbo_begin(&writer, &old->block) ? 2 : -1;
        }
        if (lost == INTENT) {
                commit = make_descriptor(50, 1, 0);
                head = commit ? push(key, SB_VERSION_VALUE, intent_of(commit)) : NULL;
                if (!head)
                        return -1;
                commit->write[0] = sb_offset_of(&writer.segment, head);
                sb_store_relaxed(&head->block.retire, SB_RETIRE_HELD);
                return 4;
        }
        head = push(key, SB_VERSION_DELETED, 60);
        if (!head || !spot_of(key, &spot))
                return -1;
        if (lost == TOMBSTONE)
                return 0;
        if (lost == FROZEN || lost == NODE_GONE_FROZEN) {
                sb_or_full(spot.cell, SB_CELL_FROZEN);
                if (lost == FROZEN)
                        return 0;
                sb_store_relaxed(&node->cell, SB_NODE_GONE);
                sb_order_remove(&writer, node);
                return 0;
        }
        /* Of the others no cell is left; all versions are on their way out. */
        while (head) {
                sb_store_relaxed(&head->block.retire, SB_RETIRE_DYING);
                head = sb_version_at(
                        &writer.segment, sb_load_relaxed(&head->prev) & SB_OFFSET_MASK);
        }
        sb_store_relaxed(spot.cell, 0);
        sb_store_relaxed(&node->cell, lost == NODE_WITHOUT_CELL ? 0 : SB_NODE_GONE);
        if (lost == NODE_GONE_DATED || lost == NODE_DYING)
                sb_order_remove(&writer, node);
        if (lost == NODE_GONE_DATED)
                sb_store_relaxed(&node->unhooked, era);
        if (lost == NODE_DYING)
                sb_store_relaxed(&node->block.retire, SB_RETIRE_DYING);
        return 0;
}

static bool is_as_it_has_to_be(enum lost lost, const char *key)
{
        uint32_t len = (uint32_t)strlen(key);
        bool there, right,
                has_key = lost == SUPERSEDED || lost == DYING_IN_CHAIN || lost == VALUE ||
                          lost == INTENT;
        struct sb_spot spot;

        sb_pin(&reader);
        there = sb_key_find(&reader, key, len, hash_of(key, len), &spot);
        right = there == has_key && !sb_order_find(&reader, key, len) == !has_key;
        if (right && there)
                right = !(sb_load_relaxed(&spot.head->prev) & SB_OFFSET_MASK) == (lost != INTENT);
        sb_unpin(&reader);
        return right;
}

static void test_whatever_lists_lost_goes_by_sweeps_alone_and_the_rest_stays(void)
{
        enum { KEYS = 160 };
        static enum lost losts[KEYS];
        static char names[KEYS][8];

        /* Each by itself, then mixtures. */
        for (uint32_t round = 0; round < CASES + 12; round++) {
                uint32_t count = round < CASES ? 3 : KEYS;
                uint64_t stays = 0, freed = 0, before;

                CHECK(begin(2 << 20));
                draw_state = round;
                sb_pin(&writer);
                for (uint32_t i = 0; i < count; i++) {
                        int left;

                        losts[i] = round < CASES ? round : draw(CASES);
                        snprintf(names[i], sizeof(names[i]), "key%u", i);
                        left = leave(losts[i], names[i]);
                        CHECK(left >= 0);
                        stays += (uint64_t)left;
                }
                sb_unpin(&writer);
                sb_slab_release_all(&writer);
                lose_lists(&writer);
                before = taken();
                for (uint32_t i = 0; i < 5; i++) {
                        /* Its own lists help no further than to the end of the sweep. */
                        freed += sweep_whole(i % 2 ? &writer : &reader);
                        lose_lists(&writer);
                        lose_lists(&reader);
                }
                sb_slab_release_all(&writer);
                sb_slab_release_all(&reader);
                stays += branches_below(sb_load_relaxed(&writer.segment.super->order));
                if (taken() != stays)
                        TEST_FAIL("round %u: %ju of %ju blocks are left, not %ju", round,
                                (uintmax_t)taken(), (uintmax_t)before, (uintmax_t)stays);
                CHECK(freed >= before - stays); /* and branches, of which copies were made */
                for (uint32_t i = 0; i < count; i++)
                        if (!is_as_it_has_to_be(losts[i], names[i]))
                                TEST_FAIL("round %u: key %u, case %u", round, i, losts[i]);
                CHECK_EQ(sweep_whole(&reader), 0);
                unmake_bus();
        }
}

static void test_more_than_a_list_holds_is_freed_by_one_sweep(void)
{
        enum { COUNT = 3 * SB_LIMBO_MAX + 77 };

        CHECK(begin(64 << 20)); /* units of many words of bits */
        CHECK(writer.segment.geometry.unit_size / 64 > 200);
        for (uint32_t i = 0; i < COUNT; i++)
                CHECK(take(49 + i % 16, SB_ERA_MIN));
        sb_slab_release_all(&writer);
        CHECK_EQ(taken(), COUNT);
        CHECK_EQ(sweep_whole(&reader), COUNT);
        CHECK_EQ(taken(), 0);
        unmake_bus();
}

/* Units of 256 KiB have up to 4,096 blocks, which are 8 chunks: each is looked at once in a lap of
 * the engine's ticks, and in one of slices that two clients take part in; and no slice is long. */
static void test_a_lap_of_slices_looks_at_each_block_once_and_no_slice_is_long(void)
{
        struct sb_geometry_wish wish = {.size = 8 << 20, .clients = 2, .unit_size = 256 << 10};
        uint64_t count, before, chunks;
        uint32_t cursor = 0;
        char key[16], value[96] = {0};

        CHECK(make_bus_of(&wish));
        for (uint32_t i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK_EQ(put(&writer, key, value, 1 + i % 90), 0);
        }
        while (sweep_whole(&writer)) /* the placeholders */
                ;
        count = taken();
        CHECK(count >= 40000);
        sb_work_ask(&reader);
        before = reader.counters.swept;
        do {
                uint64_t looked = reader.counters.swept;

                CHECK(sb_work_tick(&reader, &cursor));
                CHECK(reader.counters.swept - looked < 2048);
        } while (sb_work_sweeping(&reader));
        CHECK_EQ(reader.counters.swept - before, count);

        chunks = sb_sweep_chunks(&writer.segment);
        CHECK_EQ(chunks, 8 * (uint64_t)units());
        before = writer.counters.swept + reader.counters.swept;
        while (sb_load_relaxed(&writer.segment.super->sweep_next) < chunks) {
                struct sb_handle *handle = draw(2) ? &writer : &reader;
                uint64_t looked = handle->counters.swept;

                CHECK(sb_work_slice(handle));
                CHECK(handle->counters.swept - looked < 2048);
        }
        /* The last slice goes on into the next lap: it ends by its blocks. */
        count += 2048;
        CHECK(writer.counters.swept + reader.counters.swept - before < count);
        CHECK(writer.counters.swept + reader.counters.swept - before >= count - 2048);
        unmake_bus();
}

static void test_a_large_block_is_swept_as_one(void)
{
        CHECK(begin(4 << 20));
        for (uint32_t count = 2; count < 9; count++) {
                struct sb_version *version =
                        take((uint64_t)count * writer.segment.geometry.unit_size - 200, 0);

                CHECK(version);
                sb_slab_release_all(&writer);
                CHECK_EQ(taken(), 1);
                CHECK_EQ(sweep_whole(&reader), 0);
                sb_store_relaxed(&version->block.retire, SB_RETIRE_DYING);
                CHECK_EQ(sweep_whole(&reader), 1);
                CHECK_EQ(taken(), 0);
                for (uint32_t unit = 0; unit < units(); unit++)
                        CHECK(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)) != SB_UNIT_PART);
        }
        unmake_bus();
}

static void test_what_is_dying_and_still_linked_is_not_dated(void)
{
        struct sb_version *version;

        CHECK(begin(1 << 20));
        sb_pin(&writer);
        CHECK((version = push("k", SB_VERSION_VALUE, 20)));
        sb_unpin(&writer);
        CHECK(sb_limbo_begin(&writer, &version->block)); /* which no pruner does to a head */
        for (uint32_t i = 0; i < 4; i++) {
                sweep_whole(&reader);
                CHECK_EQ(sb_load_relaxed(&version->block.retire), SB_RETIRE_DYING);
        }
        unmake_bus();
}

/* The remover of a key died between the mark in the node and the emptying of the cell. However far
 * from its home the cell is, it is emptied with the node, and all of the key goes. */
static void test_a_removal_that_ended_at_its_node_is_finished_in_whichever_cell_it_is(void)
{
        enum { KEYS = 2 * SB_BUCKET_CELLS - 1 };
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 2};
        uint32_t outside = 0;
        struct sb_check_report report;
        char key[8];

        CHECK(make_bus_of(&wish));
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK_EQ(put(&writer, key, "1", 1), 0);
        }
        for (uint32_t i = 0; i < KEYS; i++) {
                struct sb_spot spot;
                struct sb_node *node;

                snprintf(key, sizeof(key), "k%u", i);
                sb_pin(&writer);
                CHECK(spot_of(key, &spot));
                node = sb_node_at(&writer.segment, spot.head->node);
                outside += sb_path_first(&writer.segment, node->hash).bucket !=
                           spot.cell_number / 8 - 1;
                sb_unpin(&writer);
                sb_or_full(spot.cell, SB_CELL_FROZEN);
                CHECK(sb_limbo_begin(&writer, &spot.head->block));
                sb_store_relaxed(&node->cell, SB_NODE_GONE);
        }
        CHECK(outside > 0 && outside < KEYS);
        lose_lists(&writer);
        for (uint32_t i = 0; i < 8; i++) {
                sweep_whole(&reader);
                sb_slab_release_all(&writer);
                sb_slab_release_all(&reader);
        }
        CHECK_EQ(sb_check(&reader, true, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK_EQ(report.blocks_used, 0);
        for (uint32_t i = 0; i < 2 * SB_BUCKET_CELLS; i++)
                CHECK_EQ(sb_load_relaxed(&writer.segment.buckets[i / SB_BUCKET_CELLS]
                                                  .cell[i % SB_BUCKET_CELLS]),
                        0);
        unmake_bus();
}

static void test_an_empty_unit_is_free_again_once_no_process_can_know_its_life(void)
{
        for (uint32_t pinned = 0; pinned < 2; pinned++) {
                uint32_t unit = 0;
                uint64_t offset;

                CHECK(begin(1 << 20));
                CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 70, 0, &offset));
                unit = sb_unit_of(&writer.segment, offset);
                if (pinned)
                        sb_pin(&reader);
                sb_slab_give_back(&writer, offset);
                sb_slab_release_all(&writer);
                CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)), SB_UNIT_EMPTY);
                sweep_whole(&writer);
                CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)),
                        pinned ? SB_UNIT_EMPTY : SB_UNIT_FREE);
                sb_unpin(&reader);
                sweep_whole(&writer);
                CHECK_EQ(sb_unit_word(&writer.segment, unit), 0);
                unmake_bus();
        }
}

/* ---- laps beside writers, and the work of lists ---- */

/* A sweep may miss a key that is written meanwhile, for its newest version may come to lie where
 * the sweep was already. The writer, which looks at what it replaced, then looks at what lies
 * below. */
static void test_keys_that_are_written_during_a_sweep_keep_nothing_of_an_ended_cut(void)
{
        enum { KEYS = 1500 };
        struct sb_check_report report;
        uint32_t cursor = 0, index, i, round;
        uint64_t cut;
        char key[16];

        CHECK(begin(1 << 20));
        for (round = 0; round < 2; round++) {
                for (i = 0; i < KEYS; i++) {
                        snprintf(key, sizeof(key), "k%u", i);
                        CHECK_EQ(put(&writer, key, "", 0), 0);
                }
                if (!round)
                        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
        }
        sb_work_all(&writer, false);
        for (i = 0; i < 1000; i++)
                sb_work_tick(&reader, &cursor);
        sb_snapshot_close(&writer, index);
        for (i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "k%u", i * 7 % KEYS);
                CHECK_EQ(delete (&writer, key), 0);
                if (i % 100 == 0)
                        sb_work_tick(&reader, &cursor);
        }
        sb_work_all(&writer, false);
        sb_work_all(&writer, false);
        for (i = 0; i < 1000; i++)
                sb_work_tick(&reader, &cursor);
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK_EQ(report.keys_deleted, 0);
        CHECK_EQ(report.versions, 0);
        unmake_bus();
}

/* All is written and deleted under an open cut; then that is closed, and nothing is written any
 * more: the commit clock stands still. */
static void test_a_lap_goes_by_the_cuts_that_are_open_when_it_begins(void)
{
        struct sb_check_report report;
        uint32_t index, laps;
        uint64_t cut;
        char key[16];

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 400; i++) {
                snprintf(key, sizeof(key), "k%u", i % 200);
                if (i == 200)
                        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
                CHECK_EQ(i < 200 ? put(&writer, key, "", 0) : delete (&writer, key), 0);
        }
        sb_work_all(&writer, true);
        sb_horizon_renew(&writer);
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK_EQ(report.keys_deleted, 200);
        sb_snapshot_close(&reader, index);
        for (laps = 0; laps < 4; laps++)
                while (sb_work_slice(&writer))
                        if (!writer.work.lap_end)
                                break;
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK_EQ(report.keys_deleted, 0);
        unmake_bus();
}

static uint64_t listed(void)
{
        return (uint64_t)sb_limbo_waiting(&writer) + sb_limbo_pending(&writer) +
               sb_spare_count(&writer);
}

/* Sets and deletes so many new keys. */
static bool come_and_go(uint32_t first, uint32_t count)
{
        char key[16];

        for (uint32_t i = first; i < first + count; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                if (put(&writer, key, "", 0) || delete (&writer, key))
                        return false;
        }
        return true;
}

/* A write does the lists' work before it takes a larger block: that must not cost a sweep. And what
 * it cannot free is no reason to do it again, until more has come. */
static void test_the_work_of_the_lists_frees_what_is_on_them_and_sweeps_nothing(void)
{
        uint64_t freed, stuck, more = 0;

        CHECK(begin(1 << 20));
        while (sb_work_lists(&writer) && listed())
                ;
        CHECK(!sb_work_lists(&writer));
        CHECK(come_and_go(0, 20));
        CHECK(listed() > 0);
        freed = writer.counters.freed;
        writer.counters.swept = 0;
        CHECK(sb_work_lists(&writer));
        CHECK(writer.counters.freed >= freed + 20);
        CHECK_EQ(writer.counters.swept, 0);
        sb_pin(&reader); /* it is stopped */
        CHECK(come_and_go(100, 20));
        CHECK(sb_work_lists(&writer));
        stuck = listed();
        CHECK(stuck >= 20);
        for (uint32_t i = 0; more < 64 && i < 200; i++) {
                CHECK(!sb_work_lists_worth(&writer));
                CHECK(come_and_go(200 + i, 1));
                more = listed() - stuck;
        }
        CHECK(more >= 64 && sb_work_lists_worth(&writer));
        writer.work.stuck = listed() - 64;
        CHECK(sb_work_lists_worth(&writer));
        writer.work.stuck++;
        CHECK(!sb_work_lists_worth(&writer));
        CHECK_EQ(writer.counters.swept, 0);
        sb_unpin(&reader);
        CHECK(sb_work_lists(&writer));
        CHECK_EQ(writer.counters.swept, 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_slice_is_so_many_units_from_the_cursor_on_and_each_block_in_them);
        RUN(test_whatever_lists_lost_goes_by_sweeps_alone_and_the_rest_stays);
        RUN(test_more_than_a_list_holds_is_freed_by_one_sweep);
        RUN(test_a_lap_of_slices_looks_at_each_block_once_and_no_slice_is_long);
        RUN(test_a_large_block_is_swept_as_one);
        RUN(test_what_is_dying_and_still_linked_is_not_dated);
        RUN(test_a_removal_that_ended_at_its_node_is_finished_in_whichever_cell_it_is);
        RUN(test_an_empty_unit_is_free_again_once_no_process_can_know_its_life);
        RUN(test_keys_that_are_written_during_a_sweep_keep_nothing_of_an_ended_cut);
        RUN(test_a_lap_goes_by_the_cuts_that_are_open_when_it_begins);
        RUN(test_the_work_of_the_lists_frees_what_is_on_them_and_sweeps_nothing);
        return test_end();
}
