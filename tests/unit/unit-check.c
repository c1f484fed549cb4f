/*
 * The validator (shm/upkeep/check.h) on sound buses: it counts what a bus holds, and complains of
 * nothing that writers leave on their way; and its report keeps the first findings. What it finds
 * of damage, unit-check-damage shows.
 */
#include "ring/op/get.h"
#include "shm/base/word.h"
#include "shm/layout/report.h"
#include "shm/memory/guard.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "tests/unit/chain.h"
#include "tests/unit/checked.h"

static uint64_t units_in_use(void)
{
        uint64_t count = 0;

        for (uint32_t unit = 0; unit < writer.segment.geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(&writer.segment, unit);

                count += word && SB_UNIT_KIND(word) != SB_UNIT_EMPTY;
        }
        return count;
}

static void test_a_sound_bus_is_counted(void)
{
        struct sb_version *version;
        uint32_t index;
        uint64_t cut, unit_size;
        char key[16];

        CHECK(make_bus_for(2 << 20, 5));
        unit_size = writer.segment.geometry.unit_size;
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK(!report.problem_count && !report.keys && !report.blocks_used && !report.units_used);
        CHECK_EQ(report.units_free, writer.segment.geometry.unit_count);
        CHECK_EQ(report.bytes_free, writer.segment.geometry.unit_count * unit_size);
        CHECK_EQ(report.clients, 2);
        for (uint32_t i = 0; i < 200; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(put(&writer, key, "0123456789", i % 10), 0);
        }
        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
        for (uint32_t i = 0; i < 30; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(i < 20 ? put(&writer, key, "new", 3) : delete (&writer, key), 0);
        }
        CHECK(!sb_guard_grow(&reader, 0) && !sb_op_get(&reader, "key7", 4, 0, &version));
        settle();
        sb_pin(&reader);
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK(!sb_load_relaxed(&writer.record->pin));
        CHECK_EQ(report.problem_count, 0);
        CHECK(report.keys == 190 && report.keys_deleted == 10 && report.placeholders == 0);
        CHECK(report.nodes == 200 && report.versions == 230);
        CHECK(report.branches > 10 && report.branches < 100);
        CHECK_EQ(report.blocks_used, 430 + report.branches);
        CHECK(report.snapshots == 1 && report.guards == 1 && report.pinned == 1);
        CHECK_EQ(report.guards_stale, 0);
        sb_guard_set(&reader, 0, sb_offset_of(&reader.segment, version) + 16);
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK(report.problem_count == 0 && report.guards == 1 && report.guards_stale == 1);
        sb_guard_set(&reader, 0, 0);
        CHECK(!report.blocks_waiting && !report.blocks_private && !report.blocks_lost);
        CHECK_EQ(report.units_free + report.units_used, writer.segment.geometry.unit_count);
        CHECK_EQ(report.units_used, units_in_use());
        CHECK_EQ(report.bytes_free + report.bytes_used,
                writer.segment.geometry.unit_count * unit_size);
        unmake_bus();
}

/* What a transaction that is under way, or was aborted, leaves for the others to meet. */
static void test_intents_and_what_an_aborted_transaction_holds_are_sound(void)
{
        static const uint64_t statuses[] = {
                0, SB_STATUS_OF(SB_STATUS_COMMITTED, 0), SB_STATUS_OF(SB_STATUS_ABORTED, 0)};

        for (uint32_t i = 0; i < 5; i++) {
                struct sb_descriptor *commit;
                struct sb_version *version;

                CHECK(make_bus_for(1 << 20, 5));
                CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "k", "1", 1));
                settle();
                /* The last one has read so much that it takes a block of several units. */
                CHECK((commit = make_descriptor(1, 1, i < 4 ? 0 : 160000)));
                sb_pin(&writer);
                version = intend(commit, 0, "k");
                CHECK(version && install_intent(version, "k"));
                sb_unpin(&writer);
                sb_store_relaxed(&commit->status, statuses[i < 3 ? i : 2]);
                if (i > 2) { /* the outcome was copied; the list goes after a grace period */
                        sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                        sb_store_relaxed(&commit->block.retire, SB_RETIRE_DYING);
                }
                CHECK_EQ(sb_check(&reader, true, &report), 0);
                if (report.problem_count)
                        TEST_FAIL("status %u: %s", i, report.problems[0]);
                CHECK(report.keys == 2 && report.versions == 3);
                unmake_bus();
        }
}

/* Its remover was stopped behind the marks: the walk passes by it at each level, once. */
static void test_a_node_that_is_leaving_is_passed(void)
{
        struct sb_version *version;
        struct sb_word64 *cell;
        struct sb_node *node;

        CHECK(make_bus_for(1 << 20, 5));
        CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "k", "1", 1) &&
                !put(&writer, "z", "1", 1));
        settle();
        sb_pin(&writer);
        CHECK((node = sb_order_find(&writer, "k", 1)));
        sb_unpin(&writer);
        CHECK((cell = sb_cell_at(&writer.segment, sb_load_relaxed(&node->cell))));
        version = sb_version_at(&writer.segment, sb_load_relaxed(cell) & SB_OFFSET_MASK);
        sb_store_relaxed(cell, sb_load_relaxed(cell) | SB_CELL_FROZEN);
        sb_store_relaxed(&version->block.retire, SB_RETIRE_DYING);
        sb_store_relaxed(&node->cell, SB_NODE_GONE);
        sb_store_relaxed(
                slot_of(node), sb_load_relaxed(slot_of(node)) & ~(SB_OFFSET_MASK | SB_SLOT_LEAF));
        CHECK_EQ(sb_check(&reader, true, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        CHECK_EQ(report.nodes, 2);
        CHECK_EQ(report.branches, 2);
        unmake_bus();
}

/* The maker places it, signs it in its home, and confirms it. */
static void test_only_what_is_not_confirmed_may_lie_where_no_sign_leads(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 4};
        uint64_t home, sign;
        struct sb_word64 *signs;
        struct sb_node *node;
        struct sb_spot spot;
        uint32_t count = 0;
        char key[16];

        CHECK(make_bus_of(&wish));
        home = sb_index_home(&writer.segment, hash_of("c0", 2));
        for (uint32_t i = 0; count < SB_BUCKET_CELLS + 1; i++) {
                uint64_t hash;

                snprintf(key, sizeof(key), "c%u", i);
                hash = hash_of(key, (uint32_t)strlen(key));
                if (sb_index_home(&writer.segment, hash) != home || ++count > SB_BUCKET_CELLS)
                        continue;
                CHECK_EQ(put(&writer, key, "x", 1), 0);
        }
        settle();
        signs = &writer.segment.buckets[home].sign;
        CHECK_EQ(sb_load_relaxed(signs), 0);
        sb_pin(&writer);
        CHECK(spot_of(key, &spot) && spot.cell_number / 8 - 1 != home);
        node = sb_node_at(&writer.segment, spot.head->node);
        sign = sb_load_relaxed(signs);
        CHECK(sign);
        sb_store_relaxed(&writer.record->operation, spot.head->node);
        CHECK_EQ(sb_check(&reader, false, &report), 0);
        CHECK(report.problem_count == 0 && report.placeholders == 1);
        sb_store_relaxed(signs, 0);
        CHECK_EQ(sb_check(&reader, false, &report), 0);
        CHECK(report.problem_count == 1 && strstr(report.problems[0], "does not belong"));
        sb_store_relaxed(&spot.head->stamp, 0);
        sb_store_relaxed(&node->cell, 0);
        CHECK_EQ(sb_check(&reader, false, &report), 0);
        CHECK(report.problem_count == 0 && report.placeholders == 1);
        sb_unpin(&writer);
        unmake_bus();
}

static void test_only_the_first_findings_are_told_and_all_are_counted(void)
{
        char longer[400];

        memset(longer, 'x', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        memset(&report, 0, sizeof(report));
        for (uint32_t i = 0; i < 1000; i++)
                sb_report_problem(&report, "%u %s", i, i == 3 ? longer : "short");
        CHECK_EQ(report.problem_count, 1000);
        for (uint32_t i = 0; i < 8; i++) {
                char expected[16];

                snprintf(expected, sizeof(expected), "%u %s", i, i == 3 ? "xxxx" : "short");
                CHECK(!strncmp(report.problems[i], expected, strlen(expected)));
                CHECK(strlen(report.problems[i]) < sizeof(report.problems[i]));
        }
        CHECK(!report.keys && !report.clients);
}

static void test_the_versions_of_a_long_chain_are_checked_in_a_few_steps_each(void)
{
        uint64_t begun;

        CHECK(make_bus_for(8 << 20, 2));
        sb_pin(&writer);
        for (uint32_t i = 0; i < 20000; i++)
                CHECK(push("log", SB_VERSION_VALUE, 1));
        sb_unpin(&writer);
        begun = writer.counters.walked;
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        CHECK(report.versions >= 20000 && !report.blocks_lost);
        CHECK(writer.counters.walked - begun <= 4 * 20000);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_sound_bus_is_counted);
        RUN(test_the_versions_of_a_long_chain_are_checked_in_a_few_steps_each);
        RUN(test_intents_and_what_an_aborted_transaction_holds_are_sound);
        RUN(test_a_node_that_is_leaving_is_passed);
        RUN(test_only_what_is_not_confirmed_may_lie_where_no_sign_leads);
        RUN(test_only_the_first_findings_are_told_and_all_are_counted);
        return test_end();
}
