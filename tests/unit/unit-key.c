/*
 * A key's life (shm/upkeep/key.h), the work that comes behind (reclaim.h, work.h) and the stable
 * cut (stable.h): it is made once, removed when no cut can tell, and its revisions go on.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/node.h"
#include "shm/layout/record.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/work.h"
#include "tests/unit/chain.h"
#include "tests/unit/flush.h"

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

static uint64_t settled_blocks(void)
{
        struct sb_check_report report;

        for (uint32_t i = 0; i < 4; i++) {
                sb_work_all(&writer, true);
                sb_work_all(&reader, true);
        }
        sb_slab_release_all(&writer);
        sb_slab_release_all(&reader);
        if (sb_check(&writer, true, &report))
                return UINT64_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count ? UINT64_MAX : report.blocks_used;
}

static bool key_find(const char *key, struct sb_spot *ret)
{
        return sb_key_find(
                &writer, key, (uint32_t)strlen(key), hash_of(key, (uint32_t)strlen(key)), ret);
}

static bool is_there(const char *key)
{
        struct sb_spot spot;
        bool there;

        sb_pin(&writer);
        there = key_find(key, &spot);
        sb_unpin(&writer);
        return there;
}

static uint64_t rev_of(const char *key)
{
        struct sb_version *version;

        sb_pin(&reader);
        version = find(key);
        sb_unpin(&reader);
        return version ? version->rev : 0;
}

static uint64_t cell_number_of(const char *key)
{
        struct sb_spot spot;
        bool there;

        sb_pin(&reader);
        there = key_find(key, &spot);
        sb_unpin(&reader);
        return there ? spot.cell_number : 0;
}

static uint64_t home_of(const char *key)
{
        return sb_index_home(&writer.segment, hash_of(key, (uint32_t)strlen(key)));
}

static bool take_supplies(uint32_t key_len, struct sb_key_supplies *ret)
{
        return !sb_key_take_supplies(&writer, key_len, 0, ret);
}

static void test_a_key_that_is_made_has_a_node_a_cell_and_a_placeholder(void)
{
        static char longest[SB_KEY_LEN_MAX + 1];
        const char *keys[] = {"k", "another-key", longest};

        CHECK(make_bus(2 << 20));
        memset(longest, 'x', SB_KEY_LEN_MAX);
        sb_pin(&writer);
        for (uint32_t i = 0; i < 3; i++) {
                uint32_t len = (uint32_t)strlen(keys[i]);
                uint64_t hash = hash_of(keys[i], len);
                struct sb_key_supplies supplies = {0}, more = {0};
                struct sb_node *node, *mine;
                struct sb_spot spot;

                CHECK(!key_find(keys[i], &spot));
                CHECK(take_supplies(len, &supplies) && take_supplies(len, &more));
                node = sb_node_at(&writer.segment, supplies.node);
                CHECK_EQ(sb_key_make(&writer, keys[i], len, hash, &supplies), 0);
                CHECK(!supplies.node && !supplies.placeholder);
                CHECK(key_find(keys[i], &spot));
                CHECK(sb_order_find(&writer, keys[i], len) == node);
                CHECK_EQ(spot.head->node, sb_offset_of(&writer.segment, node));
                CHECK_EQ(spot.cell_number, sb_load_relaxed(&node->cell));
                CHECK_EQ(SB_SHAPE_KIND(spot.head->shape), SB_VERSION_PLACEHOLDER);
                CHECK_EQ(sb_load_relaxed(&spot.head->stamp), SB_STAMP_PLACEHOLDER);
                CHECK_EQ(spot.head->rev, 0);
                CHECK_EQ(spot.word & SB_TAG_MASK, hash & SB_TAG_MASK);
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), spot.head->node);
                /* A second maker keeps its placeholder. Its node was noted, so it waits for a grace
                 * period, from after the note on. */
                mine = sb_node_at(&writer.segment, more.node);
                CHECK_EQ(sb_key_make(&writer, keys[i], len, hash, &more), 0);
                CHECK(!more.node && more.placeholder);
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), spot.head->node);
                CHECK_EQ(sb_load_relaxed(&mine->block.retire),
                        sb_load_relaxed(&writer.segment.super->era));
                CHECK_EQ(writer.limbo.count, i + 1);
                /* When it comes back it looks first, notes the node that it finds, which may be
                 * another one by then, and keeps what it brought. */
                sb_store_relaxed(&writer.record->operation, 0);
                CHECK(take_supplies(len, &more));
                CHECK_EQ(sb_key_make(&writer, keys[i], len, hash, &more), 0);
                CHECK(more.node && more.placeholder);
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), spot.head->node);
                CHECK_EQ(writer.limbo.count, i + 1);
                CHECK(sb_order_find(&writer, keys[i], len) == node);
        }
        unmake_bus();
}

static void test_without_an_empty_cell_no_key_is_made_and_its_placeholder_stays_the_makers(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 2};
        struct sb_key_supplies supplies = {0};
        char key[8];

        CHECK(make_bus_of(&wish)); /* fourteen cells */
        for (uint32_t i = 0; i < 14; i++) {
                snprintf(key, sizeof(key), "%u", i);
                CHECK_EQ(put(&writer, key, "x", 1), 0);
        }
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 0);
        CHECK_EQ(put(&writer, "more", "x", 1), SB_E_FULL);
        CHECK(sb_load_relaxed(&writer.segment.super->sweep_wanted) > 0); /* of its node */
        sb_pin(&writer);
        CHECK(take_supplies(4, &supplies));
        CHECK_EQ(sb_key_make(&writer, "mare", 4, hash_of("mare", 4), &supplies), SB_E_FULL);
        CHECK(!supplies.node && supplies.placeholder);
        sb_slab_give_back(&writer, supplies.placeholder);
        sb_store_relaxed(&writer.record->operation, 0);
        sb_unpin(&writer);
        /* One of the same home. */
        for (uint32_t i = 0; i < 14; i++) {
                snprintf(key, sizeof(key), "%u", i);
                if (home_of(key) == home_of("more"))
                        break;
        }
        CHECK_EQ(delete (&writer, key), 0);
        CHECK(settled_blocks() != UINT64_MAX); /* what was half made has gone */
        CHECK_EQ(put(&writer, "more", "x", 1), 0);
        CHECK_EQ(rev_of("more"), 3); /* behind the floor that the removed key left */
        unmake_bus();
}

/* A sweep took the node of a maker for an abandoned one, and came no further than to say so. */
static void test_a_node_that_is_gone_makes_way_for_the_next_maker_of_its_key(void)
{
        struct sb_key_supplies supplies = {0};
        struct sb_node *gone, *node;
        struct sb_spot spot;
        uint64_t before;

        CHECK(make_bus(2 << 20));
        before = settled_blocks();
        sb_pin(&writer);
        CHECK_EQ(sb_key_take_supplies(&writer, 3, 0, &supplies), 0);
        CHECK_EQ(sb_key_make(&writer, "key", 3, hash_of("key", 3), &supplies), 0);
        gone = sb_order_find(&writer, "key", 3);
        CHECK(gone && key_find("key", &spot));
        CHECK(sb_limbo_begin(&writer, &spot.head->block));
        sb_store_relaxed(spot.cell, 0);
        sb_limbo_date(&writer, &spot.head->block);
        sb_store_relaxed(&gone->cell, SB_NODE_GONE);
        sb_store_relaxed(&writer.record->operation, 0);
        sb_unpin(&writer);
        CHECK_EQ(put(&reader, "key", "x", 1), 0);
        sb_pin(&writer);
        node = sb_order_find(&writer, "key", 3);
        CHECK(node && node != gone && sb_load_relaxed(&node->cell) != SB_NODE_GONE);
        CHECK_EQ(rev_of("key"), 1);
        sb_unpin(&writer);
        /* The sweep that said so goes on. */
        sb_limbo_leave(&writer);
        CHECK_EQ(delete (&reader, "key"), 0);
        settled_blocks();
        CHECK_EQ(settled_blocks(), before);
        unmake_bus();
}

static void test_a_frozen_cell_that_leads_to_no_node_is_emptied(void)
{
        struct sb_spot spot;
        uint32_t waiting;

        CHECK(make_bus(2 << 20));
        CHECK_EQ(put(&writer, "key", "x", 1), 0);
        sb_pin(&writer);
        CHECK(key_find("key", &spot));
        waiting = sb_limbo_waiting(&writer);
        for (uint32_t i = 0; i < 2; i++) {
                uint64_t word = (i ? 16 : spot.word) | SB_CELL_FROZEN;

                spot.head->node = 16;
                sb_store_relaxed(spot.cell, word);
                sb_key_unhook(&writer, spot.cell_number, word ^ SB_CELL_KEPT);
                CHECK_EQ(sb_load_relaxed(spot.cell), word); /* of another one it is not told */
                sb_key_unhook(&writer, spot.cell_number, word);
                CHECK_EQ(sb_load_relaxed(spot.cell), 0);
                CHECK_EQ(sb_load_relaxed(&spot.head->block.retire), 0);
        }
        CHECK_EQ(sb_limbo_waiting(&writer), waiting);
        sb_unpin(&writer);
        unmake_bus();
}

static void test_of_a_key_that_is_not_there_a_conflict_tells_revision_0(void)
{
        struct sb_op_write write = {
                .key = "absent", .key_len = 6, .value = "x", .value_len = 1, .expected_rev = 5};
        struct sb_op_result result = {.rev = 99};

        CHECK(make_bus(1 << 20));
        CHECK_EQ(sb_op_write(&writer, &write, &result), SB_E_CONFLICT);
        CHECK_EQ(result.rev, 0);
        unmake_bus();
}

/* Every block of 300 bytes is taken, and every second one given back. */
static uint64_t taken[1 << 14];
static uint32_t taken_count;

static bool leave_no_unit(void)
{
        taken_count = 0;
        while (taken_count < 1 << 14 &&
                !sb_slab_take(&writer, SB_UNIT_VERSIONS, 300, 0, &taken[taken_count]))
                taken_count++;
        for (uint32_t i = 0; i < taken_count; i += 2)
                sb_slab_give_back(&writer, taken[i]);
        return taken_count > 100 && taken_count < 1 << 14;
}

/* A key that needs a branch for which there is no memory is refused before its node is noted. */
static void test_a_key_without_memory_for_its_branch_leaves_nothing_behind(void)
{
        struct sb_key_supplies supplies = {0};
        uint64_t left_behind;
        char key[] = "k0";

        CHECK(make_bus(1 << 20));
        for (; key[1] < '6'; key[1]++)
                CHECK_EQ(put(&writer, key, "x", 1), 0);
        CHECK(leave_no_unit());
        left_behind = sb_limbo_left_behind(&writer);
        sb_pin(&writer);
        CHECK(take_supplies(2, &supplies));
        CHECK_EQ(sb_key_make(&writer, key, 2, hash_of(key, 2), &supplies), SB_E_FULL);
        CHECK(supplies.node && supplies.placeholder);
        CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
        CHECK(!sb_order_find(&writer, key, 2));
        sb_unpin(&writer);
        CHECK_EQ(put(&writer, key, "x", 1), SB_E_FULL);
        CHECK_EQ(sb_limbo_left_behind(&writer), left_behind);
        sb_slab_give_back(&writer, supplies.node);
        sb_slab_give_back(&writer, supplies.placeholder);
        for (uint32_t i = 1; i < taken_count; i += 2)
                sb_slab_give_back(&writer, taken[i]);
        sb_slab_release_all(&writer);
        CHECK_EQ(put(&writer, key, "x", 1), 0);
        unmake_bus();
}

/* Of many leaves, the anchor goes by a copy. There is no memory for it, and then there is: a sweep
 * is asked for, which takes the node out. */
static void test_a_node_that_stayed_linked_without_memory_is_left_to_a_sweep(void)
{
        static uint64_t nodes[1 << 14];
        uint32_t cursor = 0, count = 0;
        char key[] = "k0";
        struct sb_node *node;

        CHECK(make_bus(1 << 20));
        for (; key[1] < '8'; key[1]++)
                CHECK_EQ(put(&writer, key, "x", 1), 0);
        CHECK(leave_no_unit());
        while (count < 1 << 14 &&
                !sb_slab_take(&writer, SB_UNIT_NODES, 80, SB_SLAB_LARGER, &nodes[count]))
                count++;
        CHECK(count < 1 << 14);
        sb_pin(&reader);
        node = sb_order_find(&reader, "k0", 2);
        sb_unpin(&reader);
        CHECK(node && !delete (&writer, "k0"));
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, false);
        CHECK_EQ(sb_load_relaxed(&node->cell), SB_NODE_GONE);
        sb_pin(&reader);
        CHECK(sb_order_find(&reader, "k0", 2) == node);
        sb_unpin(&reader);
        while (count)
                sb_slab_give_back(&writer, nodes[--count]);
        for (uint32_t i = 1; i < taken_count; i += 2)
                sb_slab_give_back(&writer, taken[i]);
        sb_slab_release_all(&writer);
        for (uint32_t i = 0; i < 1000; i++)
                (void)sb_work_tick(&reader, &cursor);
        sb_pin(&reader);
        CHECK(!sb_order_find(&reader, "k0", 2));
        sb_unpin(&reader);
        CHECK(sb_load_relaxed(&node->unhooked));
        unmake_bus();
}

static void test_revisions_go_on_above_what_was_ever_removed_from_the_bucket(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 16};
        uint64_t before, floor;
        char key[16];

        CHECK(make_bus_of(&wish));
        before = settled_blocks();
        for (uint32_t life = 0; life < 5; life++) {
                uint64_t rev = rev_of("k");

                CHECK_EQ(rev, 0);
                for (uint32_t i = 0; i < 3 + life; i++) {
                        CHECK_EQ(put(&writer, "k", "x", 1), 0);
                        CHECK(rev_of("k") > rev);
                        CHECK(!rev || rev_of("k") == rev + 1);
                        rev = rev_of("k");
                }
                CHECK_EQ(delete (&reader, "k"), 0);
                CHECK(rev_of("k") == rev + 1 ||
                        !rev_of("k")); /* a tombstone, if it is still there */
                CHECK_EQ(settled_blocks(), before);
                CHECK(!is_there("k"));
                floor = sb_index_floor(&writer.segment, hash_of("k", 1));
                CHECK_EQ(floor, rev + 1);
                CHECK_EQ(put(&writer, "k", "x", 1), 0);
                CHECK_EQ(rev_of("k"), floor + 1);
                CHECK_EQ(delete (&writer, "k"), 0);
                CHECK_EQ(settled_blocks(), before);
        }
        floor = sb_index_floor(&writer.segment, hash_of("k", 1));
        for (uint32_t i = 0; i < 60; i++) {
                snprintf(key, sizeof(key), "o%u", i);
                CHECK_EQ(put(&writer, key, "x", 1), 0);
                CHECK_EQ(rev_of(key), home_of(key) == home_of("k") ? floor + 1 : 1);
        }
        unmake_bus();
}

/* What may be removed: a tombstone that no cut can tell from nothing. */
static void test_a_key_stays_while_a_cut_a_rule_or_a_transaction_needs_it(void)
{
        enum why {
                VALUE,
                ABOVE_THE_BOUND,
                SOMETHING_BELOW,
                WATCHED,
                RULED,
                HELD,
                HELD_ABORTED,
                INTENT,
                NOTHING,
                BARE,
                ABORTED_ABOVE,
                FORGOTTEN,
                CASES
        };

        for (enum why why = 0; why < CASES; why++) {
                struct sb_horizon horizon = {.bound = why == ABOVE_THE_BOUND ? 19 : 20};
                struct sb_version *head = NULL;
                struct sb_node *node;
                struct sb_spot spot;
                bool goes = why >= NOTHING;

                CHECK(make_bus(1 << 20));
                sb_pin(&writer);
                CHECK(spot_of("k", &spot));
                node = sb_node_at(&writer.segment, spot.head->node);
                if (why != BARE) {
                        head = push("k", why == VALUE ? SB_VERSION_VALUE : SB_VERSION_DELETED, 20);
                        CHECK(head);
                        if (why != SOMETHING_BELOW)
                                sb_store_relaxed(&head->prev, SB_PREV_TRIMMED);
                }
                if (why == HELD)
                        sb_store_relaxed(&head->block.retire, SB_RETIRE_HELD);
                if (why == HELD_ABORTED || why == ABORTED_ABOVE) {
                        head = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED);
                        CHECK(head);
                        if (why == HELD_ABORTED)
                                sb_store_relaxed(&head->block.retire, SB_RETIRE_HELD);
                }
                if (why == INTENT)
                        sb_store_relaxed(&head->stamp, intent_of(make_descriptor(5, 0, 0)));
                CHECK(key_find("k", &spot));
                if (why == WATCHED)
                        sb_or_full(spot.cell, SB_CELL_WATCHED & -SB_CELL_WATCHED);
                if (why == RULED || why == FORGOTTEN) {
                        sb_or_full(spot.cell, SB_CELL_KEPT);
                        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_ALL, 0));
                        sb_store_relaxed(&super()->history_floor, why == RULED ? 19 : 20);
                }
                sb_key_try_remove(&writer, spot.cell_number, &horizon);
                if (goes != !sb_load_relaxed(spot.cell))
                        TEST_FAIL("case %u", why);
                CHECK_EQ(sb_load_relaxed(&node->cell) == SB_NODE_GONE, goes);
                CHECK_EQ(!sb_order_find(&writer, "k", 1), goes);
                CHECK_EQ(sb_load_relaxed(&node->unhooked) != 0, goes);
                CHECK(!goes || !head || sb_load_relaxed(&head->block.retire) >= SB_ERA_MIN);
                unmake_bus();
        }
}

static void test_any_process_that_meets_a_removal_half_way_finishes_it(void)
{
        for (uint32_t steps = 0; steps < 3; steps++) {
                struct sb_version *head;
                struct sb_node *node;
                struct sb_spot spot, again;

                CHECK(make_bus(1 << 20));
                sb_pin(&writer);
                CHECK(push("k", SB_VERSION_DELETED, 20) && spot_of("k", &spot));
                head = spot.head;
                sb_store_relaxed(&head->prev, 0);
                node = sb_node_at(&writer.segment, head->node);
                sb_or_full(spot.cell, SB_CELL_FROZEN);
                if (steps > 0) {
                        sb_limbo_begin(&writer, &head->block);
                        sb_store_relaxed(&node->cell, SB_NODE_GONE);
                }
                if (steps > 1)
                        sb_order_remove(&writer, node);
                CHECK(!key_find("k", &again));
                CHECK_EQ(sb_load_relaxed(spot.cell), 0);
                CHECK_EQ(sb_load_relaxed(&node->cell), SB_NODE_GONE);
                CHECK(!sb_order_find(&writer, "k", 1));
                CHECK_EQ(sb_index_floor(&writer.segment, hash_of("k", 1)), head->rev);
                CHECK(sb_load_relaxed(&head->block.retire) >= SB_ERA_MIN);
                CHECK(writer.counters.helped == 1);
                unmake_bus();
        }
}

static void test_a_removed_node_waits_for_two_grace_periods(void)
{
        struct sb_horizon horizon = {.bound = 100};
        struct sb_node *node;
        struct sb_spot spot;

        CHECK(make_bus(1 << 20));
        sb_pin(&writer);
        CHECK(spot_of("k", &spot));
        node = sb_node_at(&writer.segment, spot.head->node);
        sb_key_try_remove(&writer, spot.cell_number, &horizon);
        sb_unpin(&writer);
        sb_pin(&reader); /* before either is over */
        CHECK_EQ(sb_reclaim_free(&writer), 0);
        CHECK_EQ(sb_load_relaxed(&node->block.retire), 0);
        sb_unpin(&reader);
        CHECK_EQ(sb_reclaim_free(&writer), 1); /* the placeholder */
        CHECK(sb_load_relaxed(&node->block.retire) >= SB_ERA_MIN);
        sb_pin(&reader);
        CHECK_EQ(sb_reclaim_free(&writer), 0);
        sb_unpin(&reader);
        CHECK_EQ(sb_reclaim_free(&writer), 1);
        CHECK(sb_limbo_is_empty(&writer));
        unmake_bus();
}

/* A version that an open snapshot needs leaves the writer's list: a sweep has to come for it. */
static void test_what_an_open_snapshot_keeps_is_left_to_a_sweep(void)
{
        struct sb_superblock *super;
        uint64_t wanted, cut;
        uint32_t index;

        CHECK(make_bus(1 << 20));
        super = writer.segment.super;
        CHECK_EQ(put(&writer, "k", "x", 1), 0);
        for (uint32_t open = 0; open < 2; open++) {
                if (open)
                        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
                sb_horizon_renew(&writer);
                CHECK_EQ(put(&writer, "k", "y", 1), 0);
                (void)sb_clock_take_cut(&writer); /* The write lies in the past. */
                wanted = sb_load_relaxed(&super->sweep_wanted);
                sb_limbo_later(&writer, cell_number_of("k"), sb_load_relaxed(&super->clock));
                for (uint32_t i = 0; i < 3; i++)
                        sb_reclaim_pending(&writer);
                CHECK_EQ(sb_load_relaxed(&super->sweep_wanted) > wanted, open);
        }
        sb_snapshot_close(&reader, index);
        unmake_bus();
}

static uint64_t flushed_cell;

/* While the writer looks at all announcements, the stable cut rises, and another process takes out
 * what lies below the newest version. */
static void chain_is_pruned(void)
{
        struct sb_superblock *super = writer.segment.super;
        struct sb_prune_look look = {.whole = true};

        sb_store_relaxed(&super->stable, sb_load_relaxed(&super->stable) + 1);
        sb_horizon_renew(&reader);
        sb_pin(&reader);
        sb_prune_look(&reader, flushed_cell, &reader.horizon, &look);
        sb_unpin(&reader);
}

/* With an observer, the horizon is the stable cut. */
static void test_a_tombstone_above_the_horizon_is_looked_at_again_though_it_lies_alone(void)
{
        struct sb_superblock *super;
        struct sb_spot spot;

        CHECK(make_bus(2 << 20));
        super = writer.segment.super;
        sb_store_relaxed(&super->observers, 1);
        CHECK(!put(&writer, "k", "x", 1) && !delete (&writer, "k"));
        sb_store_relaxed(&super->stable, sb_clock_take_cut(&writer));
        CHECK(!put(&writer, "k", "x", 1) && !delete (&writer, "k"));
        sb_pin(&writer);
        CHECK(key_find("k", &spot));
        sb_unpin(&writer);
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        flushed_cell = spot.cell_number;
        flush_begin(&writer, chain_is_pruned);
        sb_reclaim_pending(&writer);
        CHECK_EQ(flush_count, 1);
        CHECK_EQ(sb_load_relaxed(&super->stable), sb_load_relaxed(&spot.head->stamp));
        CHECK(!(sb_load_relaxed(&spot.head->prev) & SB_OFFSET_MASK));
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        sb_reclaim_pending(&writer);
        CHECK_EQ(sb_limbo_pending(&writer), 0);
        CHECK_EQ(sb_load_relaxed(spot.cell), 0); /* the key is gone */
        unmake_bus();
}

static void test_what_an_open_snapshot_needs_waits_for_its_end(void)
{
        uint64_t before, cut;
        uint32_t index;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "k", "x", 1), 0);
        before = settled_blocks();
        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
        for (uint32_t i = 0; i < 50; i++)
                CHECK_EQ(put(&writer, "k", "y", 1), 0);
        CHECK_EQ(delete (&writer, "k"), 0);
        CHECK_EQ(settled_blocks(), before + 1); /* the old one, and the tombstone for its sake */
        CHECK(is_there("k"));
        sb_snapshot_close(&reader, index);
        CHECK_EQ(settled_blocks(), before - 2);
        CHECK(!is_there("k"));
        unmake_bus();
}

static void test_the_stable_cut_rises_and_has_nothing_open_below(void)
{
        struct sb_version *head, *intent;
        struct sb_descriptor *commit;
        uint64_t cut;

        CHECK(make_bus(1 << 20));
        sb_store_relaxed(&super()->clock, 70);
        sb_pin(&writer);
        CHECK((head = push("k", SB_VERSION_VALUE, 0)));
        commit = make_descriptor(60, 1, 0);
        CHECK(commit && (intent = push("t", SB_VERSION_VALUE, intent_of(commit))));
        commit->write[0] = sb_offset_of(&writer.segment, intent);
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 0);
        sb_unpin(&writer);
        /* Two that stopped before the stamp. */
        sb_store_relaxed(&writer.record->operation, head->node);
        sb_store_relaxed(&reader.record->operation,
                sb_offset_of(&writer.segment, commit) | SB_OPERATION_DESCRIPTOR);
        sb_stable_raise(&writer);
        cut = sb_load_relaxed(&super()->stable);
        CHECK_EQ(cut, 70);
        CHECK_EQ(sb_load_relaxed(&head->stamp), 71); /* above the cut, and nothing comes below */
        CHECK_EQ(SB_STATUS_VALUE(sb_descriptor_status(commit)), 71);
        sb_store_relaxed(&super()->stable, 500); /* never goes back */
        sb_stable_raise(&reader);
        CHECK_EQ(sb_load_relaxed(&super()->stable), 500);
        /* Notes that lead nowhere. */
        sb_store_relaxed(&writer.record->operation, UINT64_MAX);
        sb_store_relaxed(&reader.record->operation, 16);
        sb_store_relaxed(&super()->clock, 600);
        sb_stable_raise(&reader);
        CHECK_EQ(sb_load_relaxed(&super()->stable), 600);
        unmake_bus();
}

static void test_the_engine_sweeps_when_it_is_asked_and_rests_when_that_freed_nothing(void)
{
        uint32_t cursor = 0, ticks = 0, rest = 0;

        CHECK(make_bus(1 << 20)); /* more than 64 units: several ticks */
        CHECK(!sb_work_tick(&writer, &cursor));
        CHECK(!sb_work_sweeping(&writer));
        sb_limbo_leave(&reader);
        while (sb_work_tick(&writer, &cursor)) {
                ticks++;
                CHECK(ticks < 100);
        }
        CHECK_EQ(ticks, (writer.segment.geometry.unit_count + 63) / 64);
        CHECK(!sb_work_sweeping(&writer));
        CHECK_EQ(sb_load_relaxed(&super()->swept), sb_load_relaxed(&super()->sweep_wanted));
        sb_limbo_leave(&reader);
        while (!sb_work_tick(&writer, &cursor)) {
                rest++;
                CHECK(rest < 1000);
        }
        CHECK(rest > 0);
        while (sb_work_tick(&writer, &cursor))
                ;
        sb_work_ask(&writer); /* by an operator: at once */
        CHECK(sb_work_tick(&writer, &cursor) && sb_work_sweeping(&writer));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_key_that_is_made_has_a_node_a_cell_and_a_placeholder);
        RUN(test_without_an_empty_cell_no_key_is_made_and_its_placeholder_stays_the_makers);
        RUN(test_a_node_that_is_gone_makes_way_for_the_next_maker_of_its_key);
        RUN(test_a_frozen_cell_that_leads_to_no_node_is_emptied);
        RUN(test_of_a_key_that_is_not_there_a_conflict_tells_revision_0);
        RUN(test_a_key_without_memory_for_its_branch_leaves_nothing_behind);
        RUN(test_a_node_that_stayed_linked_without_memory_is_left_to_a_sweep);
        RUN(test_revisions_go_on_above_what_was_ever_removed_from_the_bucket);
        RUN(test_a_key_stays_while_a_cut_a_rule_or_a_transaction_needs_it);
        RUN(test_any_process_that_meets_a_removal_half_way_finishes_it);
        RUN(test_a_removed_node_waits_for_two_grace_periods);
        RUN(test_what_an_open_snapshot_keeps_is_left_to_a_sweep);
        RUN(test_a_tombstone_above_the_horizon_is_looked_at_again_though_it_lies_alone);
        RUN(test_what_an_open_snapshot_needs_waits_for_its_end);
        RUN(test_the_stable_cut_rises_and_has_nothing_open_below);
        RUN(test_the_engine_sweeps_when_it_is_asked_and_rests_when_that_freed_nothing);
        return test_end();
}
