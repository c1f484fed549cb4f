/*
 * Commits of many keys (ring/op/commit.h), one after another in one process: what they write, when
 * they conflict, and that those that do not happen leave nothing behind.
 */
#include "ring/op/commit.h"
#include "ring/op/prefix.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"

#define MANY 3000u
#define KEYS 300u

static char value[100000];

struct txn {
        uint32_t snapshot;
        uint64_t cut;
};

static bool begin(struct sb_handle *handle, struct txn *txn)
{
        return !sb_snapshot_open(handle, &txn->snapshot, &txn->cut);
}

static struct sb_commit_write write_of(const char *key, const char *text)
{
        return (struct sb_commit_write){.key = key,
                .key_len = (uint32_t)strlen(key),
                .kind = text ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                .value = text,
                .value_len = text ? strlen(text) : 0};
}

static struct sb_commit_range point(const char *key)
{
        return (struct sb_commit_range){
                .low = key, .low_len = (uint32_t)strlen(key), .flags = SB_RANGE_POINT};
}

/* Commit a transaction and end it. */
static int commit(struct sb_handle *handle, struct txn *txn, struct sb_commit_write *writes,
        uint32_t write_count, const struct sb_commit_range *ranges, uint32_t range_count,
        struct sb_commit_result *ret)
{
        struct sb_commit_wish wish = {.writes = writes,
                .write_count = write_count,
                .ranges = ranges,
                .range_count = range_count,
                .serializable = ranges,
                .snapshot = txn->snapshot,
                .cut = txn->cut};
        int r = sb_commit_run(handle, &wish, ret);

        sb_snapshot_close(handle, txn->snapshot);
        return r;
}

static bool reads(const char *key, const char *text)
{
        struct sb_version *version;
        bool same;

        sb_pin(&reader);
        version = find(key);
        if (version && SB_SHAPE_KIND(version->shape) & SB_VERSION_DELETED)
                version = NULL;
        same = version ? text && SB_SHAPE_VALUE_LEN(version->shape) == strlen(text) &&
                                 !memcmp(version->bytes + strlen(key), text, strlen(text))
                       : !text;
        sb_unpin(&reader);
        return same;
}

static uint64_t rev_of(const char *key)
{
        struct sb_version *version;
        uint64_t rev;

        sb_pin(&reader);
        version = find(key);
        rev = version ? version->rev : 0;
        sb_unpin(&reader);
        return rev;
}

/* Do all memory work and check the segment. Return: how many blocks are in use, UINT64_MAX when
 * something is wrong. */
static uint64_t settled_blocks(void)
{
        struct sb_check_report report;
        int i;

        for (i = 0; i < 4; i++) {
                sb_work_all(&writer, true);
                sb_work_all(&reader, true);
        }
        sb_slab_release_all(&writer);
        sb_slab_release_all(&reader);
        if (sb_check(&writer, true, &report))
                return UINT64_MAX;
        for (uint32_t j = 0; j < report.problem_count && j < 8; j++)
                TEST_NOTE("%s", report.problems[j]);
        return report.problem_count ? UINT64_MAX : report.blocks_used;
}

static void test_a_commit_writes_all_its_keys(void)
{
        struct sb_commit_write writes[] = {
                write_of("a", "1"), write_of("key-number-2", "twotwotwo"), write_of("z", "")};
        struct sb_commit_result result;
        struct txn txn;

        CHECK(make_bus(4 << 20) && !put(&writer, "a", "0", 1));
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 3, NULL, 0, &result), 0);
        CHECK(reads("a", "1") && reads("key-number-2", "twotwotwo") && reads("z", ""));
        CHECK_EQ(rev_of("a"), 2);
        CHECK(result.cut > txn.cut);
        CHECK(!put(&writer, "key-number-2", "fourfourfour", 12));
        CHECK(reads("key-number-2", "fourfourfour"));
        CHECK_EQ(rev_of("key-number-2"), 2);
        CHECK(settled_blocks() != UINT64_MAX);
        unmake_bus();
}

static void test_a_number_names_its_writer_however_many_commits_came_before(void)
{
        static const uint64_t commits[] = {
                0, (UINT64_C(1) << 48) - 2, (UINT64_C(1) << 48) - 1, UINT64_MAX};

        for (uint32_t i = 0; i < sizeof(commits) / sizeof(commits[0]); i++) {
                struct sb_commit_write writes[] = {write_of("a", "1"), write_of("b", "2")};
                struct sb_commit_result result;
                struct sb_version *version;
                struct txn txn;
                uint64_t number = 0;

                CHECK(make_bus(1 << 20));
                sb_store_relaxed(&writer.record->commits, commits[i]);
                CHECK(begin(&writer, &txn));
                CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), 0);
                sb_pin(&reader);
                version = find("b");
                CHECK(version && SB_SHAPE_KIND(version->shape) & SB_VERSION_HAS_TXN);
                if (version)
                        memcpy(&number, version->bytes + 2, sizeof(number));
                sb_unpin(&reader);
                CHECK_EQ(number >> 48, writer.slot + 1);
                unmake_bus();
        }
}

static void test_what_was_written_since_the_cut_is_a_conflict(void)
{
        struct sb_commit_write writes[] = {write_of("a", "1"), write_of("b", "1")};
        struct sb_commit_result result;
        struct txn txn;

        CHECK(make_bus(4 << 20) && !put(&writer, "a", "0", 1) && !put(&writer, "b", "0", 1));
        CHECK(begin(&writer, &txn));
        CHECK(!put(&reader, "b", "2", 1));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), SB_E_CONFLICT);
        CHECK_EQ(result.cause, 1);
        CHECK(reads("a", "0") && reads("b", "2"));
        CHECK_EQ(rev_of("a"), 1);
        CHECK(!put(&reader, "a", "3", 1));
        CHECK_EQ(rev_of("a"), 2);
        CHECK(settled_blocks() != UINT64_MAX);
        unmake_bus();
}

static void test_a_delete_in_a_commit_leaves_nothing(void)
{
        struct sb_commit_write writes[] = {write_of("a", NULL), write_of("b", NULL)};
        struct sb_commit_result result;
        struct txn txn;
        uint64_t before;

        CHECK(make_bus(4 << 20));
        before = settled_blocks();
        CHECK(!put(&writer, "a", "0", 1) && !put(&writer, "b", "0", 1));
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), 0);
        CHECK(reads("a", NULL) && reads("b", NULL));
        settled_blocks();
        CHECK_EQ(settled_blocks(), before);
        unmake_bus();
}

static void test_what_was_read_and_written_since_is_a_conflict_when_serializable(void)
{
        struct sb_commit_write writes[] = {write_of("b", "1")};
        struct sb_commit_range ranges[] = {point("a"), point("nothing")};
        struct sb_commit_result result;
        struct txn txn;

        CHECK(make_bus(4 << 20) && !put(&writer, "a", "0", 1));
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 1, ranges, 2, &result), 0);
        CHECK(reads("b", "1"));
        CHECK(begin(&writer, &txn));
        CHECK(!put(&reader, "nothing", "now", 3));
        CHECK_EQ(commit(&writer, &txn, writes, 1, ranges, 2, &result), SB_E_CONFLICT);
        CHECK_EQ(result.cause, 1 + 1);
        CHECK_EQ(rev_of("b"), 1);
        CHECK(!put(&reader, "b", "2", 1));
        CHECK_EQ(rev_of("b"), 2);
        CHECK(settled_blocks() != UINT64_MAX);
        unmake_bus();
}

static void test_a_key_made_in_a_range_is_a_conflict_when_serializable(void)
{
        struct sb_commit_write writes[] = {write_of("x", "1")};
        struct sb_commit_range ranges[] = {{.low = "k", .low_len = 1, .high = "l", .high_len = 1}};
        struct sb_commit_result result;
        struct txn txn;

        CHECK(make_bus(4 << 20) && !put(&writer, "k1", "0", 1));
        CHECK(begin(&writer, &txn));
        CHECK(!put(&reader, "l", "outside", 7));
        CHECK_EQ(commit(&writer, &txn, writes, 1, ranges, 1, &result), 0);
        CHECK(begin(&writer, &txn));
        CHECK(!put(&reader, "k2", "new", 3));
        CHECK_EQ(commit(&writer, &txn, writes, 1, ranges, 1, &result), SB_E_CONFLICT);
        CHECK_EQ(result.cause, 1);
        CHECK(settled_blocks() != UINT64_MAX);
        unmake_bus();
}

static void test_thousands_of_keys_commit_together(void)
{
        static struct sb_commit_write writes[MANY];
        static char keys[MANY][16];
        struct sb_commit_range read = point("read");
        struct sb_commit_result result;
        uint64_t before;
        struct txn txn;
        uint32_t i;

        CHECK(make_bus(16 << 20));
        before = settled_blocks();
        for (i = 0; i < MANY; i++) {
                snprintf(keys[i], sizeof(keys[i]), "many%08u", i);
                writes[i] = write_of(keys[i], keys[i]);
        }
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, MANY, NULL, 0, &result), 0);
        for (i = 0; i < MANY; i++)
                CHECK(reads(keys[i], keys[i]));
        CHECK(settled_blocks() != UINT64_MAX);
        /* What is aborted is held no longer than its descriptor, which has units of its own. */
        CHECK(begin(&writer, &txn) && !put(&reader, "read", "0", 1));
        CHECK_EQ(commit(&writer, &txn, writes, MANY, &read, 1, &result), SB_E_CONFLICT);
        CHECK(!delete (&reader, "read"));
        CHECK(settled_blocks() != UINT64_MAX);
        for (i = 0; i < MANY; i++)
                writes[i] = write_of(keys[i], NULL);
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, MANY, NULL, 0, &result), 0);
        settled_blocks();
        CHECK_EQ(settled_blocks(), before);
        unmake_bus();
}

static void test_what_has_no_memory_changes_nothing_and_fits_when_there_is_some(void)
{
        struct sb_commit_write writes[] = {write_of("a", "1"), write_of("b", "1")};
        struct sb_commit_result result;
        struct txn txn;
        char key[32];
        uint32_t i;

        CHECK(make_bus(4 << 20) && !put(&writer, "a", "0", 1));
        writes[1].value = value;
        writes[1].value_len = sizeof(value);
        for (i = 0;; i++) {
                snprintf(key, sizeof(key), "fill%06u", i);
                if (put(&writer, key, value, 60000))
                        break;
        }
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), SB_E_FULL);
        CHECK(reads("a", "0") && reads("b", NULL));
        while (i--) {
                snprintf(key, sizeof(key), "fill%06u", i);
                CHECK(!delete (&writer, key));
        }
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), 0);
        CHECK(reads("a", "1"));
        CHECK(settled_blocks() != UINT64_MAX);
        unmake_bus();
}

/* A commit of deletes has the blocks that are left for that, where no other write has any. */
static void test_on_a_full_bus_a_commit_may_delete(void)
{
        struct sb_commit_write writes[2];
        struct sb_commit_result result;
        char keys[2][16];
        struct txn txn;
        uint32_t i = 0;

        CHECK(make_bus(1 << 20));
        do
                snprintf(keys[0], sizeof(keys[0]), "k%u", i++);
        while (!put_patiently(&writer, keys[0], value, 100));
        CHECK(i > 100);
        for (uint32_t j = 0; j < 2; j++) {
                snprintf(keys[j], sizeof(keys[j]), "k%u", j);
                writes[j] = write_of(keys[j], "12345678");
        }
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), SB_E_FULL);
        for (uint32_t j = 0; j < 2; j++)
                writes[j] = write_of(keys[j], NULL);
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), 0);
        CHECK(reads("k0", NULL) && reads("k1", NULL));
        unmake_bus();
}

/* A bus of fourteen cells, of which keys have so many: "0" and on. */
static bool make_bus_of_cells(uint32_t taken)
{
        struct sb_geometry_wish shape = {.size = 1 << 20, .clients = 2, .bucket_count = 2};
        bool good = make_bus_of(&shape);
        char key[16];

        for (uint32_t i = 0; i < taken && good; i++) {
                snprintf(key, sizeof(key), "%u", i);
                good = !put(&writer, key, "old", 3);
        }
        return good;
}

static void test_without_a_cell_for_a_new_key_nothing_is_written_and_its_node_goes(void)
{
        struct sb_commit_write writes[] = {write_of("0", "new"), write_of("more", "new")};
        struct sb_commit_result result;
        uint64_t before, asked;
        struct txn txn;

        CHECK(make_bus_of_cells(14));
        before = settled_blocks();
        asked = sb_limbo_left_behind(&writer);
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), SB_E_FULL);
        CHECK(reads("0", "old") && reads("more", NULL));
        /* Its node is linked, and nothing but a sweep finds it. */
        CHECK(sb_limbo_left_behind(&writer) > asked);
        CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
        CHECK_EQ(settled_blocks(), before);
        unmake_bus();
}

/* Nothing but the writer's list knows that a key's cell can be given to another one. */
static void test_a_commit_works_off_its_list_before_it_says_that_there_is_no_cell(void)
{
        struct sb_commit_write writes[] = {write_of("more", "new")};
        struct sb_commit_result result;
        struct txn txn;

        CHECK(make_bus_of_cells(14));
        CHECK(!delete (&writer, "3"));
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 1, NULL, 0, &result), 0);
        CHECK(reads("more", "new") && reads("3", NULL));
        unmake_bus();
}

/* The first round gives its blocks back, and the second one makes a key of them. */
static void test_a_block_that_was_given_back_is_not_given_back_again_when_the_next_key_fails(void)
{
        char first[sizeof(struct sb_descriptor) + 2 * 8 - sizeof(struct sb_version) + 1];
        struct sb_commit_write writes[2];
        struct sb_commit_result result;
        struct sb_check_report report;
        struct txn txn;

        /* Its placeholder is as large as the descriptor. */
        memset(first, 'f', sizeof(first) - 1);
        first[sizeof(first) - 1] = 0;
        writes[0] = write_of(first, "new");
        writes[1] = write_of("more", "new");
        CHECK(make_bus_of_cells(13));
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, writes, 2, NULL, 0, &result), SB_E_FULL);
        CHECK(reads(first, NULL) && reads("more", NULL));
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        unmake_bus();
}

static void test_conflicts_for_ever_leave_nothing(void)
{
        struct sb_commit_write writes[] = {
                write_of("a", "1"), write_of("b", "1"), write_of("c", "1")};
        struct sb_commit_result result;
        uint64_t before;
        struct txn txn;
        uint32_t i;

        CHECK(make_bus(4 << 20));
        for (i = 0; i < 3; i++)
                CHECK(!put(&writer, writes[i].key, "0", 1));
        before = settled_blocks();
        for (i = 0; i < 20000; i++) {
                CHECK(begin(&writer, &txn));
                CHECK(!put(&reader, "c", "2", 1));
                CHECK_EQ(commit(&writer, &txn, writes, 3, NULL, 0, &result), SB_E_CONFLICT);
        }
        CHECK_EQ(rev_of("c"), 20001);
        CHECK_EQ(rev_of("a"), 1);
        settled_blocks();
        CHECK_EQ(settled_blocks(), before);
        unmake_bus();
}

/* Write all keys once, by the short way of a write, by the long one, or by commits. Return: false:
 * one failed, or a look through the list was worth it, and was not taken. */
static bool write_all(uint32_t form)
{
        static const char *const forms[] = {
                "twelve-%05u", "%u", "a-key-of-more-than-sixteen-bytes-%u", "%05u-commit"};

        for (uint32_t i = 0; i < KEYS; i++) {
                struct sb_commit_result result;
                struct sb_commit_write write;
                struct txn txn;
                char key[64];

                snprintf(key, sizeof(key), forms[form], i);
                write = write_of(key, "a value of 24 bytes ....");
                if (form < 3 && put(&writer, key, write.value, write.value_len))
                        return false;
                if (form == 3 && (!begin(&writer, &txn) ||
                                         commit(&writer, &txn, &write, 1, NULL, 0, &result)))
                        return false;
                if (sb_limbo_pending_due(&writer))
                        return false;
        }
        return true;
}

/* No engine ticks here, and none sweeps. */
static void test_each_way_of_a_write_works_off_its_list_and_leaves_nothing_to_an_engine(void)
{
        /* Without a watch, then beside one that keeps versions. */
        for (uint32_t turn = 0; turn < 8; turn++) {
                uint32_t form = turn % 4;
                struct sb_check_report report;
                struct sb_op_prefix watch;
                struct txn held;

                CHECK(make_bus(8 << 20));
                CHECK(turn < 4 || !sb_op_prefix_begin(&reader, "twelve", 6, 3, 16, &watch));
                CHECK(write_all(form) && write_all(form));
                for (uint32_t i = 0; i < 2; i++)
                        sb_work_all(&writer, false);
                CHECK_EQ(sb_check(&writer, true, &report), 0);
                CHECK(turn < 4 ? report.versions == KEYS : report.versions >= KEYS);
                /* While a cut needs what is replaced, each look is in vain, and is taken. */
                CHECK(begin(&reader, &held) && write_all(form) && write_all(form));
                sb_snapshot_close(&reader, held.snapshot);
                unmake_bus();
        }
}

/* A slot of a ring, which nothing protects, may lead to a block that was a version: by the node in
 * it a reader knows that it is one no more. */
static void test_a_descriptor_is_no_keys_version_whatever_was_there_before(void)
{
        struct sb_commit_write write = write_of("key", "value");
        struct sb_commit_result result;
        struct sb_descriptor *found = NULL;
        struct sb_geometry *g = &writer.segment.geometry;
        struct txn txn;

        CHECK(make_bus(1 << 20));
        memset(writer.segment.base + g->units_at, 0xff, g->size - g->units_at);
        CHECK(begin(&writer, &txn));
        CHECK_EQ(commit(&writer, &txn, &write, 1, NULL, 0, &result), 0);
        for (uint64_t at = g->units_at; at < g->size && !found; at += 16)
                if (sb_unit_is_block(&writer.segment, at, SB_UNIT_VERSIONS, NULL))
                        found = sb_descriptor_at(&writer.segment, at);
        CHECK(found && found->cut == txn.cut && found->write_count == 1);
        CHECK(!found->node && !sb_load_relaxed(&found->zero));
        CHECK(reads("key", "value"));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_commit_writes_all_its_keys);
        RUN(test_a_number_names_its_writer_however_many_commits_came_before);
        RUN(test_what_was_written_since_the_cut_is_a_conflict);
        RUN(test_a_delete_in_a_commit_leaves_nothing);
        RUN(test_what_was_read_and_written_since_is_a_conflict_when_serializable);
        RUN(test_a_key_made_in_a_range_is_a_conflict_when_serializable);
        RUN(test_thousands_of_keys_commit_together);
        RUN(test_what_has_no_memory_changes_nothing_and_fits_when_there_is_some);
        RUN(test_on_a_full_bus_a_commit_may_delete);
        RUN(test_without_a_cell_for_a_new_key_nothing_is_written_and_its_node_goes);
        RUN(test_a_commit_works_off_its_list_before_it_says_that_there_is_no_cell);
        RUN(test_a_block_that_was_given_back_is_not_given_back_again_when_the_next_key_fails);
        RUN(test_conflicts_for_ever_leave_nothing);
        RUN(test_each_way_of_a_write_works_off_its_list_and_leaves_nothing_to_an_engine);
        RUN(test_a_descriptor_is_no_keys_version_whatever_was_there_before);
        return test_end();
}
