/*
 * Moving (shm/upkeep/move.h): what a copy is, how much one call does, what moves and what stays,
 * and that nothing can tell a copy from its original. That room comes of it, unit-move-room shows.
 */
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/copy.h"
#include "tests/unit/draw.h"
#include "tests/unit/scatter.h"

/* Own a unit as a window of one. */
static bool own(uint32_t unit)
{
        uint64_t word = sb_unit_word(&writer.segment, unit);

        sb_window_begin(&writer);
        sb_window_take(&writer, 1, limit);
        if (SB_UNIT_KIND(word) != SB_UNIT_VERSIONS || SB_UNIT_OWNER(word) ||
                !sb_cas64_full(
                        &writer.segment.unit_words[unit], word, word | sb_unit_owner(&writer)))
                return false;
        writer.window.first = unit;
        writer.window.count = 1;
        return true;
}

/* ---- a copy ---- */

/* Move what lies in the unit. Return: whether it is empty by then. */
static bool drain(uint32_t unit)
{
        bool empty;

        sb_slab_release_all(&writer);
        if (!own(unit))
                return false;
        for (uint32_t i = 0; i < 8 && sb_window_count(&writer); i++)
                sb_move(&writer);
        empty = sb_unit_is_empty(&writer.segment, unit);
        sb_window_end(&writer);
        sb_slab_release_all(&writer);
        return empty && !owned_by(&writer);
}

/* Drain each slab of versions there is, once. */
static bool drain_all(void)
{
        bool drained = true;

        sb_slab_release_all(&writer);
        for (uint32_t unit = 0; unit < limit; unit++)
                if (SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)) == SB_UNIT_VERSIONS)
                        drained = drain(unit) && drained;
        return drained;
}

/* What is told of a version apart from where it lies. */
struct link {
        struct sb_version *version;
        uint64_t rev, stamp, node, shape;
        uint32_t birth;
        unsigned char bytes[64];
};

static uint32_t list_chain(const char *key, struct link *links, uint32_t most)
{
        struct sb_version *version = look(key);
        uint32_t count = 0;

        for (; version && count < most; count++) {
                struct link *link = &links[count];
                uint64_t size = sb_version_size(version->shape) - sizeof(*version);

                memset(link, 0, sizeof(*link));
                link->version = version;
                link->rev = version->rev;
                link->stamp = sb_load_relaxed(&version->stamp);
                link->node = version->node;
                link->shape = version->shape;
                link->birth = sb_load_relaxed(&version->block.birth);
                memcpy(link->bytes, version->bytes,
                        size < sizeof(link->bytes) ? size : sizeof(link->bytes));
                version = sb_version_at(
                        &writer.segment, sb_load_relaxed(&version->prev) & SB_OFFSET_MASK);
        }
        return count;
}

static bool is_same(const struct link *a, const struct link *b)
{
        return a->rev == b->rev && a->stamp == b->stamp && a->node == b->node &&
               a->shape == b->shape && a->birth == b->birth &&
               !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Chains of values, deletes and transactions' versions, at stamps 10, 20, ...; a cut is open at
 * each. */
static void test_a_version_that_moved_is_the_same_write(void)
{
        static const uint32_t kinds[] = {SB_VERSION_VALUE, SB_VERSION_DELETED,
                SB_VERSION_VALUE | SB_VERSION_HAS_TXN, SB_VERSION_DELETED | SB_VERSION_HAS_TXN};
        uint64_t moved = 0;

        for (uint32_t round = 0; round < 40; round++) {
                struct link before[4][8], after[4][8];
                uint32_t counts[4], cuts = 0;

                CHECK(begin(1 << 18, round % 2 ? 256 : 1024));
                draw_state = 900 + round;
                for (uint32_t stamp = 10; stamp <= 60; stamp += 10) {
                        sb_store_relaxed(sb_record_snapshots(reader.record) + cuts++, stamp);
                        sb_pin(&writer);
                        for (uint32_t i = 0; i < 4; i++)
                                if (stamp == 10 || draw(3)) {
                                        CHECK(push(key_of(i), kinds[draw(4)], stamp));
                                }
                        sb_unpin(&writer);
                        sb_store_relaxed(&writer.segment.super->clock, stamp + 5);
                }
                sb_store_relaxed(&writer.segment.super->clock, 100);
                sb_store_relaxed(&writer.segment.super->stable, 90);
                sb_work_all(&writer, true); /* placeholders go */
                for (uint32_t i = 0; i < 4; i++)
                        counts[i] = list_chain(key_of(i), before[i], 8);
                writer.counters.moved = 0;
                sb_era_advance(&writer);
                CHECK(drain_all());
                moved += writer.counters.moved;
                for (uint32_t i = 0; i < 4; i++) {
                        bool txn_above = false;

                        CHECK_EQ(list_chain(key_of(i), after[i], 8), counts[i]);
                        for (uint32_t j = 0; j < counts[i]; j++) {
                                uint64_t link = sb_load_relaxed(&after[i][j].version->prev);

                                CHECK(is_same(&before[i][j], &after[i][j]));
                                CHECK(!(link & (SB_PREV_TRIMMED | SB_PREV_MARKED)));
                                txn_above = SB_SHAPE_KIND(after[i][j].shape) & SB_VERSION_HAS_TXN;
                                CHECK(txn_above || !(link & SB_PREV_SETTLED));
                                CHECK(!txn_above || (link & SB_PREV_SETTLED));
                        }
                        /* What was read in each cut is read there still. (A key of which
                         * nothing but a delete was there is gone.) */
                        for (uint64_t cut = 12; counts[i] && cut < 70; cut += 10) {
                                struct sb_version *version;
                                uint32_t j = 0;

                                sb_pin(&reader);
                                version = sb_find_at(
                                        &reader, key_of(i), 6, hash_of(key_of(i), 6), cut);
                                sb_unpin(&reader);
                                while (before[i][j].stamp > cut)
                                        j++;
                                if (SB_SHAPE_KIND(before[i][j].shape) & SB_VERSION_DELETED)
                                        CHECK(!version || version->rev == before[i][j].rev);
                                else
                                        CHECK(version && version->rev == before[i][j].rev);
                        }
                }
                unmake_bus();
        }
        CHECK(moved > 300);
}

/* A birth that a sweep may be about to label is not passed on, for the sweep may have been where
 * the copy lies. */
static void test_a_copy_is_as_old_as_its_original_unless_that_is_too_old_to_say(void)
{
        static const struct {
                uint64_t age;
                bool labelled, same;
        } rows[] = {{1000, false, true}, {SB_ERA_OLD / 8 * 3, false, true},
                {SB_ERA_OLD / 8 * 5, false, false}, {SB_ERA_OLD / 8 * 7, false, false},
                {SB_ERA_OLD / 8 * 7, true, true}};

        for (uint32_t i = 0; i < 5; i++) {
                struct sb_version *version;
                uint64_t era;
                uint32_t birth;

                CHECK(begin(1 << 20, 1024));
                CHECK(!put(&writer, "k", "1", 1));
                sb_slab_release_all(&writer);
                version = look("k");
                era = sb_load_relaxed(&writer.segment.super->era);
                if (rows[i].labelled) {
                        sb_store_relaxed(&reader.record->base[0], SB_BASE(era, 5));
                        sb_store_relaxed(&version->block.birth,
                                SB_BIRTH_OF(reader.slot * SB_RECORD_BASES, 5));
                }
                birth = sb_load_relaxed(&version->block.birth);
                sb_store_relaxed(&writer.segment.super->era, sb_era_whole(era + rows[i].age));
                CHECK(drain(unit_of(version)));
                CHECK(look("k") != version);
                CHECK_EQ(sb_load_relaxed(&look("k")->block.birth),
                        rows[i].same ? birth : SB_BIRTH_FIRST);
                unmake_bus();
        }
}

/* ---- how much one call does ---- */

static void test_one_call_moves_so_many_versions_or_bytes_and_the_next_one_goes_on(void)
{
        static const struct {
                uint64_t size;
                uint32_t unit_size, count, len, most; /* most: versions in one call */
        } rows[] = {{8 << 20, 64 << 10, 300, 60, 64}, {32 << 20, 1 << 20, 12, 60000, 5}};

        for (uint32_t i = 0; i < 2; i++) {
                uint32_t unit;
                uint64_t moved;

                CHECK(begin(rows[i].size, rows[i].unit_size));
                while (key_count < rows[i].count)
                        CHECK(!set(key_count++, rows[i].len));
                sb_slab_release_all(&writer);
                unit = unit_of(look(key_of(0)));
                CHECK_EQ(unit_of(look(key_of(key_count - 1))), unit);
                CHECK(own(unit));
                do {
                        moved = writer.counters.moved;
                        CHECK(sb_move(&writer));
                        moved = writer.counters.moved - moved;
                        CHECK(moved > 0 && moved <= rows[i].most);
                        /* A call that moved something has not waited in vain. */
                        CHECK_EQ(sb_window_waited(&writer), 0);
                } while (writer.counters.moved < key_count);
                CHECK_EQ(sb_window_count(&writer), 1);
                sb_window_end(&writer);
                CHECK(all_there());
                CHECK(is_sound());
                unmake_bus();
        }
}

/* Of a slice of work, too: a write that waits pauses when there is nothing to do. */
static void test_as_long_as_it_searches_or_moves_there_is_something_to_do(void)
{
        CHECK(begin(8 << 20, 1024));
        CHECK(limit > 4096);
        sb_window_begin(&writer);
        CHECK_EQ(sb_window_take(&writer, limit, limit), SB_VACANCY_NONE);
        CHECK(sb_move(&writer));
        CHECK(!sb_window_count(&writer));
        sb_window_end(&writer);
        CHECK(!put(&writer, "k", "1", 1));
        sb_slab_release_all(&writer);
        while (sb_work_slice(&writer) || !writer.work.rest_left)
                ;
        CHECK(own(unit_of(look("k"))));
        CHECK(sb_work_slice(&writer));
        CHECK_EQ(writer.counters.moved, 1);
        sb_window_end(&writer);
        unmake_bus();
}

/* The cut that needed the older version has ended since the mover asked last. */
static void test_what_no_cut_needs_goes_and_is_not_copied(void)
{
        struct sb_version *old;
        uint32_t snapshot;
        uint64_t cut;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "k", "1", 1));
        old = look("k");
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(!put(&writer, "k", "2", 1));
        sb_work_all(&writer, true);
        CHECK(look("k") != old && !sb_load_relaxed(&old->block.retire));
        sb_snapshot_close(&reader, snapshot);
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(drain(unit_of(old)));
        CHECK_EQ(writer.counters.moved, 1);
        sb_snapshot_close(&reader, snapshot);
        CHECK(is_sound());
        unmake_bus();
}

/* ---- what moves and what stays ---- */

/* One that reads just now lets go soon. */
static void test_what_a_client_reads_just_now_moves(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "k", "1", 1));
        sb_slab_release_all(&writer);
        CHECK(own(unit_of(look("k"))));
        sb_pin(&reader);
        CHECK(sb_move(&writer));
        sb_unpin(&reader);
        CHECK_EQ(writer.counters.moved, 1);
        sb_window_end(&writer);
        unmake_bus();
}

/* Under the writer's pin: a rule keeps the key's last versions. */
static void keep_last(const char *key, uint32_t count)
{
        struct sb_spot spot;

        if (!spot_of(key, &spot))
                abort();
        sb_or_full(spot.cell, SB_CELL_KEPT);
        sb_store_relaxed(&((struct sb_node *)sb_node_at(&writer.segment, spot.head->node))->rule,
                SB_RULE_WORD(SB_RULE_LAST, count));
}

static void test_what_is_in_a_hand_or_undecided_stays_and_another_window_is_found(void)
{
        enum { HELD, FREEING, INTENT, UNHELD, STATES }; /* UNHELD: an intent, as if damaged */

        for (uint32_t state = 0; state < STATES; state++) {
                struct sb_version *version;
                struct sb_descriptor *commit;
                uint64_t word, stamp, offset;
                uint32_t unit, number = 0;

                CHECK(begin(1 << 20, 4096));
                sb_pin(&writer);
                commit = make_descriptor(50, 1, 0);
                sb_unpin(&writer);
                CHECK(commit && scatter(1200, 3));
                /* In the highest slab, at which a search begins. */
                version = NULL;
                for (uint32_t i = 0; i < key_count; i++) {
                        struct sb_version *other = look(key_of(i));

                        if (keys[i].len > TINY && (!version || unit_of(other) > unit_of(version))) {
                                version = other;
                                number = i;
                        }
                }
                CHECK(version);
                unit = unit_of(version);
                word = sb_load_relaxed(&version->block.retire);
                stamp = sb_load_relaxed(&version->stamp);
                if (state == HELD || state == INTENT)
                        sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
                if (state == FREEING)
                        sb_store_relaxed(&version->block.retire, SB_RETIRE_FREEING);
                if (state == INTENT || state == UNHELD)
                        sb_store_relaxed(&version->stamp, intent_of(commit));
                /* What is in a hand gives the window up, and there is more to do. */
                sb_slab_release_all(&writer);
                CHECK(own(unit));
                CHECK_EQ(sb_move(&writer), state != UNHELD);
                CHECK_EQ(sb_window_count(&writer) == 0, state != UNHELD);
                sb_window_end(&writer);
                CHECK(!drain(unit));
                CHECK(state >= INTENT || look(key_of(number)) == version);
                CHECK(!owned_by(&writer));
                offset = wait_for(6);
                CHECK(offset);
                CHECK(unit < sb_unit_of(&writer.segment, offset) ||
                        unit >= sb_unit_of(&writer.segment, offset) + 6);
                CHECK_EQ(unit_of(version), unit);
                CHECK(sb_unit_is_block(&writer.segment, sb_offset_of(&writer.segment, version),
                        SB_UNIT_VERSIONS, NULL));
                sb_store_relaxed(&version->stamp, stamp);
                sb_store_relaxed(&version->block.retire, (uint32_t)word);
                CHECK(all_there());
                unmake_bus();
        }
}

static void test_a_placeholder_and_a_descriptor_stay(void)
{
        struct sb_descriptor *commit;
        struct sb_spot spot;

        CHECK(begin(1 << 20, 1024));
        sb_pin(&writer);
        CHECK(spot_of("bare", &spot));
        sb_unpin(&writer);
        CHECK(!drain(unit_of(spot.head)));
        sb_pin(&writer);
        commit = make_descriptor(50, 20, 0);
        CHECK(commit);
        sb_unpin(&writer);
        CHECK(!drain(unit_of((struct sb_version *)commit)));
        CHECK_EQ(writer.counters.moved, 0);
        CHECK_EQ(sb_load_relaxed(spot.cell), spot.word);
        unmake_bus();
}

static void test_what_lies_too_deep_stays_and_what_lies_above_moves(void)
{
        static struct link before[600], after[600];
        uint32_t same = 0, count;

        CHECK(begin(1 << 20, 1024));
        sb_store_relaxed(&writer.segment.super->clock, 5000);
        sb_pin(&writer);
        for (uint32_t i = 0; i < 500; i++)
                CHECK(push("deep", SB_VERSION_VALUE, 10 + i));
        keep_last("deep", 1000);
        sb_unpin(&writer);
        sb_work_all(&writer, true);
        count = list_chain("deep", before, 600);
        drain_all();
        CHECK_EQ(list_chain("deep", after, 600), count);
        for (uint32_t i = 0; i < count; i++) {
                CHECK(is_same(&before[i], &after[i]));
                same += before[i].version == after[i].version;
        }
        TEST_NOTE("%u of %u versions stayed", same, count);
        CHECK(same > 200 && same < 300);
        /* No wait would help. */
        CHECK(own(unit_of(after[count - 1].version)));
        CHECK(sb_move(&writer));
        CHECK_EQ(sb_window_count(&writer), 0);
        sb_window_end(&writer);
        unmake_bus();
}

static void test_what_is_on_its_way_out_is_not_copied(void)
{
        struct sb_version *old;

        CHECK(begin(1 << 20, 1024));
        sb_pin(&writer);
        sb_store_relaxed(&writer.segment.super->clock, 50);
        CHECK((old = push("k", SB_VERSION_VALUE, 10)) && push("k", SB_VERSION_VALUE, 20));
        CHECK(sb_limbo_begin(&writer, &old->block));
        sb_unpin(&writer);
        sb_slab_release_all(&writer);
        CHECK(own(unit_of(old)));
        for (uint32_t i = 0; i < 4; i++)
                sb_move(&writer);
        CHECK(writer.counters.moved <= 1); /* the newest */
        sb_window_end(&writer);
        unmake_bus();
}

/* ---- what goes by it ---- */

/* Copies lie above the versions of a key under a rule, and some originals are in a client's hand.
 */
static void test_a_rule_counts_a_version_that_is_there_twice_once(void)
{
        for (uint32_t round = 0; round < 40; round++) {
                struct sb_horizon horizon = {.bound = 1000};
                uint32_t last = 1 + round % 4, revs = 0, hands = 0;
                struct link links[40];
                struct sb_spot spot;

                CHECK(begin(1 << 18, 1024));
                draw_state = round;
                sb_store_relaxed(&writer.segment.super->clock, 1000);
                sb_store_relaxed(&writer.segment.super->stable, 1000);
                sb_pin(&writer);
                for (uint32_t i = 0; i < 8; i++)
                        CHECK(push("k", SB_VERSION_VALUE, 10 + 10 * i));
                CHECK(spot_of("k", &spot));
                keep_last("k", last);
                sb_unpin(&writer);
                CHECK_EQ(copy_above_all(&writer, "k", 1), 8);
                sb_pin(&writer);
                for (uint32_t i = 1, count = list_chain("k", links, 40); i < count; i++)
                        if (links[i].rev == links[i - 1].rev && draw(3) == 0) {
                                sb_store_relaxed(
                                        &links[i].version->block.retire, SB_RETIRE_FREEING);
                                hands++;
                        }
                sb_prune_cell(&writer, spot.cell_number, &horizon);
                for (uint32_t i = 0, count = list_chain("k", links, 40); i < count; i++) {
                        bool in_hand = sb_load_relaxed(&links[i].version->block.retire);

                        revs += !i || links[i].rev != links[i - 1].rev;
                        CHECK(revs <= last || in_hand || i + 1 == count);
                        /* The past of what the rule keeps is whole. */
                        CHECK(revs >= last || i + 1 == count ||
                                !(sb_load_relaxed(&links[i].version->prev) & SB_PREV_TRIMMED));
                }
                CHECK(revs >= last);
                for (uint32_t i = 0; i < last; i++) {
                        struct sb_version *version = NULL;

                        CHECK_EQ(sb_past_find(
                                         &writer, "k", 1, hash_of("k", 1), 85 - 10 * i, &version),
                                SB_PAST_FOUND);
                        CHECK_EQ(version->rev, 8 - i);
                }
                sb_unpin(&writer);
                unmake_bus();
        }
}

static void test_a_tombstone_that_moved_lets_its_key_be_removed(void)
{
        struct sb_version *tombstone;
        uint64_t offset, cut;
        struct sb_node *node;
        uint32_t snapshot;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "goes", "1", 1) && !put(&writer, "stays", "1", 1));
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(!delete (&writer, "goes"));
        sb_work_all(&writer, true);
        tombstone = look("goes");
        CHECK(tombstone);
        offset = tombstone->node;
        node = sb_node_at(&writer.segment, offset);
        CHECK(drain_all());
        CHECK(look("goes") != tombstone && look("goes")->node == offset);
        CHECK(!sb_load_relaxed(&node->block.retire));
        sb_snapshot_close(&reader, snapshot);
        for (uint32_t i = 0; i < 3; i++)
                sb_work_all(&writer, true);
        CHECK(!look("goes") && look("stays"));
        CHECK(!sb_unit_is_block(&writer.segment, offset, SB_UNIT_NODES, NULL));
        unmake_bus();
}

/* The client that deleted it is idle, and no process sweeps. */
static void test_a_mover_sees_to_the_key_of_a_tombstone_that_it_moved(void)
{
        struct sb_version *tombstone;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "goes", "1", 1) && !put(&writer, "stays", "1", 1));
        sb_work_all(&writer, true);
        CHECK(!delete (&reader, "goes"));
        sb_slab_release_all(&reader);
        sb_work_all(&writer, false);
        tombstone = look("goes");
        CHECK(tombstone);
        writer.counters.moved = 0;
        CHECK(drain(unit_of(tombstone)));
        CHECK(writer.counters.moved > 0);
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, false);
        CHECK(!look("goes") && look("stays"));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_a_client_reads_just_now_moves);
        RUN(test_a_version_that_moved_is_the_same_write);
        RUN(test_a_copy_is_as_old_as_its_original_unless_that_is_too_old_to_say);
        RUN(test_one_call_moves_so_many_versions_or_bytes_and_the_next_one_goes_on);
        RUN(test_as_long_as_it_searches_or_moves_there_is_something_to_do);
        RUN(test_what_no_cut_needs_goes_and_is_not_copied);
        RUN(test_what_is_in_a_hand_or_undecided_stays_and_another_window_is_found);
        RUN(test_a_placeholder_and_a_descriptor_stay);
        RUN(test_what_lies_too_deep_stays_and_what_lies_above_moves);
        RUN(test_what_is_on_its_way_out_is_not_copied);
        RUN(test_a_rule_counts_a_version_that_is_there_twice_once);
        RUN(test_a_tombstone_that_moved_lets_its_key_be_removed);
        RUN(test_a_mover_sees_to_the_key_of_a_tombstone_that_it_moved);
        return test_end();
}
