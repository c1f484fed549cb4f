/*
 * A segment with damage in it: the engine comes to an end with what it walks through there, and so
 * does a write. SIGALRM ends a test that does not.
 */
#include <errno.h>
#include <unistd.h>

#include "ring/op/commit.h"
#include "ring/op/keep.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/order.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"
#include "tests/unit/chain.h"

#define PATIENCE_S 30u

static struct sb_node *node_of(const char *key)
{
        struct sb_node *node;

        sb_pin(&reader);
        node = sb_order_find(&reader, key, (uint32_t)strlen(key));
        sb_unpin(&reader);
        return node;
}

/* Make the slot of "k5" in its branch lead to the root's branch. */
static bool make_a_round(void)
{
        static const char *const keys[] = {"k1", "k2", "k3", "k4", "k5", "x"};
        struct sb_word64 *slot;
        uint32_t i;

        if (!make_bus(1 << 20))
                return false;
        for (i = 0; i < 6; i++)
                if (put(&writer, keys[i], "1", 1))
                        return false;
        slot = node_of("k5") ? slot_of(node_of("k5")) : NULL;
        if (!slot)
                return false;
        sb_store_relaxed(slot,
                SB_SLOT_TO(sb_load_relaxed(slot), sb_load_relaxed(&writer.segment.super->order)));
        return true;
}

static void test_a_walk_that_came_to_its_bound_stays_there(void)
{
        uint64_t left;

        CHECK(make_bus(1 << 20));
        left = 3;
        for (uint32_t i = 0; i < 10; i++)
                CHECK_EQ(sb_damage_step(&writer, &left), i < 3);
        CHECK(sb_damage_take(&writer) && !sb_damage_take(&writer));
        unmake_bus();
}

static void test_a_round_in_the_index_ends_the_look_at_what_was_read(void)
{
        struct sb_commit_write write = {
                .key = "x", .key_len = 1, .kind = SB_VERSION_VALUE, .value = "2", .value_len = 1};
        struct sb_commit_range range = {.low = "k", .low_len = 1, .flags = SB_RANGE_NO_END};
        struct sb_commit_wish wish = {.writes = &write,
                .write_count = 1,
                .ranges = &range,
                .range_count = 1,
                .serializable = true};
        struct sb_commit_result result;

        CHECK(make_a_round());
        CHECK(!sb_snapshot_open(&writer, &wish.snapshot, &wish.cut));
        alarm(PATIENCE_S);
        /* What lies behind the damage is not known, so nothing is committed by a guess. */
        CHECK_EQ(sb_commit_run(&writer, &wish, &result), SB_E_CONFLICT);
        alarm(0);
        CHECK(sb_damage_take(&writer) && !sb_damage_take(&writer));
        CHECK(find("x")->rev == 1);
        unmake_bus();
}

static void test_a_round_in_the_index_ends_the_making_and_the_removal_of_keys(void)
{
        CHECK(make_a_round());
        alarm(PATIENCE_S);
        CHECK_EQ(put(&writer, "k5x", "1", 1), -EIO);
        CHECK(sb_damage_take(&writer));
        CHECK(!find("k5x"));
        CHECK_EQ(put(&writer, "k2", "2", 1), 0);
        CHECK_EQ(put(&writer, "a", "1", 1), 0);
        CHECK(!sb_damage_take(&writer));
        /* A key whose node cannot be taken out of the index: it is deleted all the same, and its
         * node is never freed. */
        CHECK_EQ(delete (&writer, "k5"), 0);
        for (uint32_t i = 0; i < 5; i++)
                sb_work_all(&writer, true);
        CHECK(sb_damage_take(&writer));
        alarm(0);
        CHECK(!find("k5"));
        CHECK_EQ(put(&writer, "k2", "3", 1), 0);
        unmake_bus();
}

/* The version of @key that the newest one replaced. */
static struct sb_version *old_of(const char *key)
{
        return sb_version_at(&reader.segment, sb_load_relaxed(&find(key)->prev) & SB_OFFSET_MASK);
}

static void test_a_round_in_a_chain_ends_a_read_at_a_cut_and_keeps_what_it_leads_to(void)
{
        struct sb_version *old, *newest, *other;
        uint32_t snapshot;
        uint64_t cut;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "k", "1", 1), 0);
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK_EQ(put(&writer, "k", "2", 1), 0);
        CHECK_EQ(put(&writer, "j", "1", 1), 0);
        sb_pin(&reader);
        newest = find("k");
        other = find("j");
        other->node = newest->node; /* as if it had been one of k's */
        old = old_of("k");
        CHECK(newest && old && sb_load_relaxed(&old->stamp) <= cut);
        /* Both are later than the cut now, and go round. */
        sb_store_relaxed(&old->stamp, sb_load_relaxed(&newest->stamp));
        sb_store_relaxed(&old->prev, sb_offset_of(&reader.segment, newest));
        alarm(PATIENCE_S);
        CHECK(!sb_find_at(&reader, "k", 1, newest->node ? node_of("k")->hash : 0, cut));
        CHECK(sb_damage_take(&reader));
        /* A block of which the chain does not tell whether it is linked is not freed. */
        sb_store_relaxed(&old->prev, sb_offset_of(&reader.segment, old));
        sb_store_relaxed(&newest->prev, sb_offset_of(&reader.segment, old));
        CHECK(sb_reach_version(&reader, other));
        CHECK(sb_damage_take(&reader));
        sb_unpin(&reader);
        alarm(0);
        sb_snapshot_close(&reader, snapshot);
        unmake_bus();
}

static void test_a_round_in_the_index_ends_the_applying_of_a_rule(void)
{
        CHECK(make_a_round());
        alarm(PATIENCE_S);
        CHECK_EQ(sb_rules_apply_all(&writer, "k", 1, true), -EIO);
        alarm(0);
        unmake_bus();
}

static void test_a_descriptor_is_no_longer_than_its_block(void)
{
        struct sb_descriptor *commit;
        uint64_t at;

        CHECK(make_bus(1 << 20));
        at = writer.segment.geometry.units_at;
        commit = sb_block_at(&writer.segment, at);
        commit->shape = SB_SHAPE(100, 0, SB_VERSION_DESCRIPTOR, 1);
        commit->write_count = 1u << 20;
        commit->ranges_len = 100 + sizeof(struct sb_version) - sizeof(*commit) -
                             8 * (uint64_t)commit->write_count;
        CHECK(!sb_descriptor_at(&writer.segment, at));
        commit->write_count = 2;
        commit->ranges_len = 100 + sizeof(struct sb_version) - sizeof(*commit) - 16;
        CHECK(sb_descriptor_at(&writer.segment, at) == commit);
        unmake_bus();
}

static void test_a_write_to_a_key_with_a_lost_cell_ends(void)
{
        struct sb_word64 *cell;
        struct sb_node *node;

        CHECK(make_bus(1 << 20) && !put(&writer, "k", "1", 1));
        node = node_of("k");
        CHECK(node);
        cell = sb_cell_at(&writer.segment, sb_load_relaxed(&node->cell));
        sb_store_relaxed(cell, 0);
        alarm(PATIENCE_S);
        CHECK_EQ(put(&writer, "k", "2", 1), -EIO);
        CHECK(sb_damage_take(&writer));
        alarm(0);
        unmake_bus();
}

/* Under a rule of history the removal of a deleted key asks its node. */
static void test_a_deleted_key_without_a_node_stays(void)
{
        struct sb_version *head;
        struct sb_word64 *cell;
        struct sb_node *node;
        uint64_t number, word;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(sb_keep_write(&writer, "k", 1, true, SB_RULE_WORD(SB_RULE_ALL, 0)), 0);
        CHECK(!put(&writer, "key", "1", 1) && !delete (&writer, "key"));
        node = node_of("key");
        CHECK(node);
        number = sb_load_relaxed(&node->cell);
        cell = sb_cell_at(&writer.segment, number);
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, true);
        word = sb_load_relaxed(cell);
        head = sb_version_at(&writer.segment, word & SB_OFFSET_MASK);
        CHECK((word & SB_CELL_KEPT) && head);
        head->node = 8; /* no block is there */
        sb_store_relaxed(&head->prev, 0);
        sb_pin(&writer);
        sb_horizon_renew(&writer);
        sb_key_try_remove(&writer, number, &writer.horizon);
        sb_unpin(&writer);
        CHECK_EQ(sb_load_relaxed(cell), word);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_walk_that_came_to_its_bound_stays_there);
        RUN(test_a_round_in_the_index_ends_the_look_at_what_was_read);
        RUN(test_a_round_in_the_index_ends_the_making_and_the_removal_of_keys);
        RUN(test_a_round_in_a_chain_ends_a_read_at_a_cut_and_keeps_what_it_leads_to);
        RUN(test_a_round_in_the_index_ends_the_applying_of_a_rule);
        RUN(test_a_descriptor_is_no_longer_than_its_block);
        RUN(test_a_write_to_a_key_with_a_lost_cell_ends);
        RUN(test_a_deleted_key_without_a_node_stays);
        return test_end();
}
