/*
 * The reaper (shm/upkeep/reap.h): a dead client's record with each kind of thing that a process
 * leaves. What it did is finished, what it held is let go, and every block that it took comes back.
 */
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/unit/chain.h"

static uint64_t blocks_before;

/* All memory work done; how many blocks are in use; UINT64_MAX: something is wrong. */
static uint64_t settled_blocks(void)
{
        struct sb_check_report report;

        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        if (sb_check(&writer, true, &report))
                return UINT64_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count ? UINT64_MAX : report.blocks_used;
}

static bool begin(void)
{
        if (!make_bus_for(2 << 20, 3) || put(&writer, "k1", "one", 3) ||
                put(&writer, "k2", "two", 3))
                return false;
        blocks_before = settled_blocks();
        return blocks_before != UINT64_MAX;
}

/* The reader dies. What is left is what was there before, and @more blocks. */
static bool reaped_to(uint64_t more)
{
        uint32_t generation;

        sb_reap_record(&writer, reader.slot, reader.generation);
        if (sb_roster_state(&writer.segment, reader.slot, &generation) != SB_RECORD_FREE ||
                generation != reader.generation + 1)
                return false;
        for (uint32_t i = 0; i < writer.segment.geometry.unit_count; i++)
                if (SB_UNIT_KIND(sb_unit_word(&writer.segment, i)) < SB_UNIT_PART &&
                        SB_UNIT_OWNER(sb_unit_word(&writer.segment, i)) == sb_unit_owner(&reader))
                        return false;
        return settled_blocks() == blocks_before + more;
}

static struct sb_version *head_of(const char *key)
{
        struct sb_version *head = NULL;
        struct sb_spot spot;

        sb_pin(&writer);
        if (sb_key_find(&writer, key, (uint32_t)strlen(key), hash_of(key, (uint32_t)strlen(key)),
                    &spot))
                head = spot.head;
        sb_unpin(&writer);
        return head;
}

static void test_a_record_that_is_free_or_of_another_life_is_left_alone(void)
{
        CHECK(begin());
        sb_store_relaxed(&reader.record->pin, 5);
        sb_reap_record(&writer, reader.slot, reader.generation + 1);
        CHECK_EQ(sb_roster_state(&writer.segment, reader.slot, NULL), SB_RECORD_ATTACHED);
        CHECK_EQ(sb_load_relaxed(&reader.record->pin), 5);
        sb_store_relaxed(&reader.record->tag, SB_RECORD_TAG(7, SB_RECORD_DEAD));
        sb_reap_record(&writer, reader.slot, 6);
        CHECK_EQ(sb_load_relaxed(&reader.record->tag), SB_RECORD_TAG(7, SB_RECORD_DEAD));
        sb_store_relaxed(&reader.record->tag, SB_RECORD_TAG(reader.generation, SB_RECORD_ATTACHED));
        CHECK(reaped_to(0));
        sb_reap_record(&writer, reader.slot, reader.generation);
        sb_reap_record(&writer, reader.slot, reader.generation + 1); /* it is free */
        CHECK_EQ(sb_load_relaxed(&reader.record->tag),
                SB_RECORD_TAG(reader.generation + 1, SB_RECORD_FREE));
        unmake_bus();
}

static void test_a_record_that_was_only_claimed_or_half_reaped_is_freed(void)
{
        static const enum sb_record_state states[] = {SB_RECORD_CLAIMED, SB_RECORD_DEAD};

        for (uint32_t i = 0; i < 2; i++) {
                CHECK(begin());
                sb_store_relaxed(&reader.record->tag, SB_RECORD_TAG(reader.generation, states[i]));
                CHECK(reaped_to(0));
                unmake_bus();
        }
}

static void test_pins_guards_snapshots_and_notes_go(void)
{
        uint32_t index;
        uint64_t cut;

        CHECK(begin());
        sb_pin(&reader);
        CHECK(!sb_snapshot_open(&reader, &index, &cut) && !sb_snapshot_open(&reader, &index, &cut));
        CHECK(!sb_guard_grow(&reader, 3));
        sb_guard_set(&reader, 3, sb_offset_of(&writer.segment, head_of("k1")));
        CHECK(reaped_to(0));
        CHECK(!sb_load_relaxed(&reader.record->pin) &&
                !sb_load_relaxed(&sb_record_snapshots(reader.record)[index]) &&
                !sb_load_relaxed(&reader.guards.words[3]) &&
                !sb_load_relaxed(&reader.record->guard_high));
        CHECK(sb_load_relaxed(&writer.segment.super->sweep_wanted) > 0);
        unmake_bus();
}

static void test_blocks_that_were_taken_and_not_published_come_back(void)
{
        uint64_t offset;

        CHECK(begin());
        for (uint32_t i = 0; i < 300; i++) {
                CHECK(!sb_slab_take(
                        &reader, i % 2 ? SB_UNIT_NODES : SB_UNIT_VERSIONS, 64 + 7 * i, 0, &offset));
                if (i % 10 == 0) /* a version, filled and never shown */
                        memset((unsigned char *)sb_block_at(&writer.segment, offset) + 8, 0xab, 56);
        }
        CHECK(!sb_slab_take(&reader, SB_UNIT_VERSIONS, 50000, 0, &offset));
        CHECK(!sb_slab_take(&reader, SB_UNIT_GUARDS, 500, 0, &offset));
        CHECK(reaped_to(0));
        unmake_bus();
}

static void test_chunks_of_guard_words_come_back(void)
{
        CHECK(begin());
        for (uint32_t i = 0; i < 3000; i += 50)
                CHECK(!sb_guard_grow(&reader, i));
        CHECK(reaped_to(0));
        for (uint32_t i = 0; i < SB_GUARD_CHUNKS; i++)
                CHECK(!sb_load_relaxed(&reader.record->guard_chunk[i]));
        unmake_bus();
}

static void test_a_write_that_was_installed_is_stamped(void)
{
        struct sb_version *head;

        CHECK(begin());
        CHECK(!put(&reader, "k1", "three", 5));
        head = head_of("k1");
        sb_store_relaxed(&head->stamp, 0);
        sb_store_relaxed(&reader.record->operation, head->node);
        sb_store_relaxed(&writer.segment.super->clock, 60);
        sb_reap_record(&writer, reader.slot, reader.generation);
        CHECK_EQ(sb_load_relaxed(&head->stamp), 60);
        CHECK_EQ(sb_limbo_pending(&writer), 1);    /* without a sweep: what it replaced */
        CHECK_EQ(settled_blocks(), blocks_before); /* what it replaced is gone */
        CHECK(head_of("k1") == head && head->rev == 2);
        unmake_bus();
}

/* As far as a maker gets: @steps 1: linked; 2: placed; 3: confirmed. */
static bool make_half(const char *key, uint32_t steps)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_key_supplies supplies = {0};
        struct sb_version *placeholder;
        struct sb_node *node;
        bool made;

        sb_pin(&reader);
        if (sb_key_take_supplies(&reader, len, 0, &supplies))
                return false;
        node = sb_node_at(&reader.segment, supplies.node);
        placeholder = sb_version_at(&reader.segment, supplies.placeholder);
        made = !sb_key_make(&reader, key, len, hash_of(key, len), &supplies);
        if (steps < 3) {
                sb_store_relaxed(&placeholder->stamp, 0);
                made &= sb_load_relaxed(&node->cell) >= 8;
                if (steps < 2)
                        sb_store_relaxed(
                                sb_cell_at(&reader.segment, sb_load_relaxed(&node->cell)), 0);
                sb_store_relaxed(&node->cell, 0);
        }
        return made &&
               sb_load_relaxed(&reader.record->operation) == sb_offset_of(&reader.segment, node);
}

static void test_a_key_that_was_being_made_goes_again_however_far_it_came(void)
{
        for (uint32_t steps = 1; steps <= 3; steps++) {
                struct sb_node *node;

                CHECK(begin());
                CHECK(make_half("half", steps));
                node = sb_node_at(&writer.segment, sb_load_relaxed(&reader.record->operation));
                sb_reap_record(&writer, reader.slot, reader.generation);
                /* At once, without a sweep: on its way out, or to be looked at. */
                CHECK_EQ(sb_load_relaxed(&node->cell) == SB_NODE_GONE, steps == 1);
                CHECK_EQ(sb_limbo_pending(&writer), steps > 1);
                CHECK_EQ(settled_blocks(), blocks_before);
                CHECK(!head_of("half"));
                sb_pin(&writer);
                CHECK(!sb_order_find(&writer, "half", 4));
                sb_unpin(&writer);
                CHECK(!put(&writer, "half", "x", 1));
                CHECK_EQ(head_of("half")->rev, 1);
                unmake_bus();
        }
}

static void test_a_block_that_was_being_freed_is_freed_if_it_was_won(void)
{
        uint64_t offset;
        struct sb_block *block;

        for (uint32_t won = 0; won < 2; won++) {
                CHECK(begin());
                sb_pin(&writer);
                CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset));
                block = sb_block_at(&writer.segment, offset);
                sb_store_relaxed(&block->birth, sb_pin_era(&writer));
                sb_unpin(&writer);
                sb_store_relaxed(&block->retire, SB_RETIRE_FREEING | (won ? reader.slot : 0));
                sb_store_relaxed(&reader.record->freeing, offset);
                sb_reap_record(&writer, reader.slot, reader.generation);
                CHECK_EQ(sb_unit_is_block(&writer.segment, offset, SB_UNIT_VERSIONS, NULL), !won);
                CHECK_EQ(sb_load_relaxed(&reader.record->freeing), 0);
                unmake_bus();
        }
}

static void test_hostile_notes_lead_nowhere(void)
{
        static const uint64_t hostile[] = {
                1, 8, 16, UINT64_MAX, UINT64_MAX - 15, SB_OFFSET_MASK, UINT64_C(1) << 47, 0xfff0};

        for (uint32_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
                uint64_t at;

                CHECK(begin());
                at = i == 7 ? sb_offset_of(&writer.segment, head_of("k1")) : hostile[i];
                sb_store_relaxed(&reader.record->operation, at);
                sb_store_relaxed(&reader.record->freeing, at);
                sb_store_relaxed(&reader.record->guard_chunk[1], at);
                sb_store_relaxed(&reader.record->guard_high, UINT64_MAX);
                sb_store_relaxed(&sb_record_snapshots(reader.record)[0], at);
                CHECK(reaped_to(0));
                CHECK(head_of("k1") && head_of("k2"));
                unmake_bus();
        }
}

/* Its blocks would be of no size. */
static void test_a_unit_of_a_class_that_is_none_is_left_alone(void)
{
        uint32_t unit, generation;
        uint64_t word;

        CHECK(begin());
        unit = writer.segment.geometry.unit_count - 1;
        CHECK_EQ(sb_unit_word(&writer.segment, unit), 0);
        sb_store_relaxed(sb_unit_bitmap(&writer.segment, unit), UINT64_MAX);
        for (uint32_t class_ = writer.segment.class_count; class_ < 64; class_++) {
                word = (uint64_t)SB_UNIT_VERSIONS << 60 | (uint64_t)class_ << 54 |
                       sb_unit_owner(&reader);
                CHECK(SB_UNIT_KIND(word) == SB_UNIT_VERSIONS && SB_UNIT_CLASS(word) == class_);
                sb_store_relaxed(&writer.segment.unit_words[unit], word);
                sb_reap_record(&writer, reader.slot, reader.generation);
                CHECK_EQ(sb_unit_word(&writer.segment, unit), word);
                CHECK_EQ(sb_load_relaxed(sb_unit_bitmap(&writer.segment, unit)), UINT64_MAX);
                CHECK_EQ(
                        sb_roster_state(&writer.segment, reader.slot, &generation), SB_RECORD_FREE);
                sb_store_relaxed(
                        &reader.record->tag, SB_RECORD_TAG(reader.generation, SB_RECORD_ATTACHED));
        }
        CHECK(head_of("k1") && head_of("k2"));
        unmake_bus();
}

/* The cell of the key that a dead client was writing is damaged: it holds nothing, or another key's
 * version. Nothing is left there that the dead one could have written. */
static void test_a_noted_key_of_which_the_cell_has_no_version_is_left(void)
{
        for (uint32_t other = 0; other < 2; other++) {
                struct sb_version *head;
                struct sb_word64 *cell;
                struct sb_node *node;
                uint32_t count;

                CHECK(begin());
                CHECK((head = head_of("k1")) && (node = sb_node_at(&writer.segment, head->node)));
                CHECK((cell = sb_cell_at(&writer.segment, sb_load_relaxed(&node->cell))));
                sb_store_relaxed(cell, other ? sb_offset_of(&writer.segment, head_of("k2")) : 0);
                sb_store_relaxed(&reader.record->operation, head->node);
                count = sb_limbo_pending(&writer);
                sb_reap_record(&writer, reader.slot, reader.generation);
                CHECK_EQ(sb_load_relaxed(&reader.record->tag),
                        SB_RECORD_TAG(reader.generation + 1, SB_RECORD_FREE));
                CHECK_EQ(sb_limbo_pending(&writer), count);
                unmake_bus();
        }
}

static void test_what_lay_in_the_magazine_is_live_if_it_is_linked_and_else_waits(void)
{
        struct sb_version *linked;
        struct sb_block *block;
        uint64_t offset;
        struct sb_word64 *notes;

        CHECK(begin());
        CHECK(writer.segment.geometry.magazine_count > 3);
        notes = sb_record_magazine(&writer.segment, reader.record);
        linked = head_of("k1");
        sb_pin(&reader);
        CHECK(!sb_slab_take(&reader, SB_UNIT_VERSIONS, 100, 0, &offset));
        block = sb_block_at(&writer.segment, offset);
        memset(block + 1, 0, 92);
        sb_store_relaxed(&block->birth, sb_pin_era(&reader));
        sb_store_relaxed(&block->retire, SB_RETIRE_FREEING | reader.slot);
        sb_store_relaxed(&linked->block.retire, SB_RETIRE_FREEING | reader.slot);
        sb_store_relaxed(&notes[1], offset);
        sb_store_relaxed(&notes[2], sb_offset_of(&writer.segment, linked));
        sb_store_relaxed(&notes[3], sb_offset_of(&writer.segment, head_of("k2"))); /* not its own */
        sb_unpin(&reader);
        sb_reap_record(&writer, reader.slot, reader.generation);
        CHECK_EQ(sb_load_relaxed(&linked->block.retire), 0);
        CHECK(sb_load_relaxed(&block->retire) >= SB_ERA_MIN &&
                sb_load_relaxed(&block->retire) < SB_RETIRE_FREEING);
        CHECK(!sb_load_relaxed(&notes[1]) && !sb_load_relaxed(&notes[2]) &&
                !sb_load_relaxed(&notes[3]));
        CHECK_EQ(settled_blocks(), blocks_before);
        CHECK(head_of("k1") == linked && head_of("k2"));
        unmake_bus();
}

static void test_a_transaction_comes_to_its_end_by_its_cut(void)
{
        for (uint32_t kept = 0; kept < 2; kept++) {
                struct sb_descriptor *commit;
                uint32_t index;
                uint64_t cut;

                CHECK(begin());
                CHECK(!sb_snapshot_open(&reader, &index, &cut));
                sb_pin(&writer);
                commit = make_descriptor(cut + !kept, 0, 0); /* of a cut that is there, or not */
                sb_unpin(&writer);
                CHECK(commit);
                sb_store_relaxed(&reader.record->operation,
                        sb_offset_of(&writer.segment, commit) | SB_OPERATION_DESCRIPTOR);
                sb_reap_record(&writer, reader.slot, reader.generation);
                CHECK_EQ(SB_STATUS_STATE(sb_descriptor_status(commit)),
                        kept ? SB_STATUS_COMMITTED : SB_STATUS_ABORTED);
                CHECK_EQ(sb_load_relaxed(&reader.record->operation), 0);
                CHECK_EQ(settled_blocks(), blocks_before); /* and the descriptor goes */
                unmake_bus();
        }
}

static void test_an_engine_reaps_the_record_that_it_sits_in(void)
{
        uint64_t offset;

        CHECK(begin());
        CHECK(!sb_slab_take(&reader, SB_UNIT_VERSIONS, 100, 0, &offset));
        sb_pin(&reader);
        sb_reap_record(&reader, reader.slot, reader.generation);
        CHECK_EQ(sb_load_relaxed(&reader.record->tag),
                SB_RECORD_TAG(reader.generation + 1, SB_RECORD_FREE));
        CHECK_EQ(sb_load_relaxed(&reader.record->pin), 0);
        CHECK_EQ(settled_blocks(), blocks_before);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_record_that_is_free_or_of_another_life_is_left_alone);
        RUN(test_a_record_that_was_only_claimed_or_half_reaped_is_freed);
        RUN(test_pins_guards_snapshots_and_notes_go);
        RUN(test_blocks_that_were_taken_and_not_published_come_back);
        RUN(test_chunks_of_guard_words_come_back);
        RUN(test_a_write_that_was_installed_is_stamped);
        RUN(test_a_key_that_was_being_made_goes_again_however_far_it_came);
        RUN(test_a_block_that_was_being_freed_is_freed_if_it_was_won);
        RUN(test_hostile_notes_lead_nowhere);
        RUN(test_a_unit_of_a_class_that_is_none_is_left_alone);
        RUN(test_a_noted_key_of_which_the_cell_has_no_version_is_left);
        RUN(test_what_lay_in_the_magazine_is_live_if_it_is_linked_and_else_waits);
        RUN(test_a_transaction_comes_to_its_end_by_its_cut);
        RUN(test_an_engine_reaps_the_record_that_it_sits_in);
        return test_end();
}
