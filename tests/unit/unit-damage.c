/*
 * A segment with damage in it: the engine comes to an end with what it walks through there, and so
 * does a write. SIGALRM ends a test that does not.
 */
#include <errno.h>
#include <unistd.h>

#include "ring/op/commit.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/snapshot.h"
#include "tests/unit/bus.h"

#define PATIENCE_S 30u

static struct sb_node *node_of(const char *key)
{
        struct sb_node *node;

        sb_pin(&reader);
        node = sb_order_find(&reader, key, (uint32_t)strlen(key));
        sb_unpin(&reader);
        return node;
}

/* Make level 0 of the ordered index go from "k5" back to "k2". */
static bool make_a_round(void)
{
        static const char *const keys[] = {"k1", "k2", "k3", "k4", "k5", "x"};
        struct sb_node *first, *last;
        uint32_t i;

        if (!make_bus(1 << 20))
                return false;
        for (i = 0; i < 6; i++)
                if (put(&writer, keys[i], "1", 1))
                        return false;
        first = node_of("k2");
        last = node_of("k5");
        if (!first || !last)
                return false;
        sb_store_relaxed(&last->next[0], sb_offset_of(&writer.segment, first));
        return true;
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
        CHECK_EQ(sb_commit_run(&writer, &wish, &result), 0);
        alarm(0);
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
        CHECK_EQ(put(&writer, "k", "2", 1), SB_E_FULL);
        alarm(0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_round_in_the_index_ends_the_look_at_what_was_read);
        RUN(test_a_round_in_the_index_ends_the_applying_of_a_rule);
        RUN(test_a_descriptor_is_no_longer_than_its_block);
        RUN(test_a_write_to_a_key_with_a_lost_cell_ends);
        return test_end();
}
