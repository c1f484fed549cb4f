/*
 * Notes as links (shm/mvcc/note.h): what a record notes is dated by its owner or by its reaper,
 * after the note is gone. So a process that found a block in a note may read it until its pin ends,
 * wherever the owner is stopped, whichever process sweeps, and if the owner is killed.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/unit/chain.h"

/* The writer is the owner of a note, the reader follows it, and this one sweeps and reaps. */
static struct sb_handle sweeper;

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

static bool begin(void)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(1 << 20, 4) ||
                sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                return false;
        make_handle(&sweeper, &writer.segment, slot, generation);
        sb_store_relaxed(&super()->clock, 100);
        sb_sweep_begin(&sweeper); /* before the owner's pin: that one is no older */
        return true;
}

static uint64_t at(const void *block)
{
        return sb_offset_of(&writer.segment, block);
}

static bool is_block(uint64_t offset, enum sb_unit_kind kind)
{
        return sb_unit_is_block(&writer.segment, offset, kind, NULL);
}

static void sweep_all_units(void)
{
        uint32_t cursor = 0;

        sb_sweep(&sweeper, &cursor, sweeper.segment.geometry.unit_count);
}

/* Time passes: more eras, and everything that other processes can free is freed. */
static void go_on(void)
{
        for (uint32_t i = 0; i < 3; i++) {
                sb_era_advance(&sweeper);
                sweep_all_units();
        }
}

/* A commit of one key as its owner leaves it right before the note goes: decided, copied, let go,
 * and the descriptor on its way out. */
static struct sb_descriptor *commit_until_dying(void)
{
        struct sb_descriptor *commit;
        struct sb_version *version;

        sb_pin(&writer);
        commit = make_descriptor(99, 1, 0);
        version = commit ? intend(commit, 0, "k") : NULL;
        if (!version || !install_intent(version, "k"))
                return NULL;
        sb_unpin(&writer); /* to take blocks makes eras; a commit does that before its pin */
        sb_pin(&writer);
        sb_exchange_full(&writer.record->operation, at(commit) | SB_OPERATION_DESCRIPTOR);
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 0);
        sb_store_relaxed(
                &version->stamp, sb_descriptor_outcome(sb_descriptor_stamped(&writer, commit)));
        sb_store_relaxed(&version->block.retire, 0);
        return sb_limbo_begin(&writer, &commit->block) ? commit : NULL;
}

static uint32_t retire_of(const struct sb_descriptor *commit)
{
        return sb_load_relaxed(&commit->block.retire);
}

/* The owner is stopped between DYING and the end of its note; a sweeper with a pin as old as the
 * owner's comes by; then a reader finds the descriptor in the note, under a younger pin. */
static void test_a_descriptor_found_in_a_note_stays_until_its_readers_pin_ends(void)
{
        for (uint32_t killed = 0; killed < 2; killed++) {
                struct sb_descriptor *commit;
                uint64_t wanted;

                CHECK(begin());
                CHECK((commit = commit_until_dying()));
                sweep_all_units();
                CHECK_EQ(retire_of(commit), SB_RETIRE_DYING);
                wanted = sb_load_relaxed(&super()->sweep_wanted);
                go_on();
                CHECK_EQ(retire_of(commit), SB_RETIRE_DYING);
                /* No sweep is asked for, however long the owner is stopped. */
                CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), wanted);
                sb_pin(&reader);
                CHECK_EQ(
                        sb_note_load(&reader, writer.record), at(commit) | SB_OPERATION_DESCRIPTOR);
                if (killed) {
                        sb_reap_record(&sweeper, writer.slot, writer.generation);
                        CHECK(sb_load_relaxed(&super()->sweep_wanted) > wanted);
                } else {
                        sb_finish_noted(&writer, commit, &writer.record->operation);
                        sb_unpin(&writer);
                }
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
                CHECK(retire_of(commit) >= (uint32_t)(sb_load_relaxed(&reader.record->pin) >> 32));
                go_on();
                CHECK(is_block(at(commit), SB_UNIT_VERSIONS));
                CHECK(sb_descriptor_at(&reader.segment, at(commit)) == commit);
                sb_unpin(&reader);
                go_on();
                CHECK(!is_block(at(commit), SB_UNIT_VERSIONS));
                unmake_bus();
        }
}

/* Stopped or killed right behind the note: then it is the sweeper's. */
static void test_what_no_record_notes_any_more_is_dated_by_a_sweep(void)
{
        struct sb_descriptor *commit;

        CHECK(begin());
        CHECK((commit = commit_until_dying()));
        sb_exchange_full(&writer.record->operation, 0);
        CHECK(!sb_note_names(&sweeper.segment, at(commit)));
        sweep_all_units();
        CHECK(retire_of(commit) >= SB_ERA_MIN);
        sb_limbo_date(&writer, &commit->block); /* the owner goes on, and comes too late */
        CHECK(sb_limbo_is_empty(&writer));
        go_on();
        CHECK(is_block(at(commit), SB_UNIT_VERSIONS)); /* the owner may still read it */
        sb_unpin(&writer);
        go_on();
        CHECK(!is_block(at(commit), SB_UNIT_VERSIONS));
        unmake_bus();
}

static bool take_supplies(const char *key, struct sb_key_supplies *ret)
{
        uint32_t len = (uint32_t)strlen(key);

        return !sb_key_take_supplies(&writer, len, 0, ret);
}

/* Two make one key. The node of the one that comes second was noted and never linked: a process
 * that found it in the note may read it, too. */
static void test_a_node_found_in_a_note_stays_although_it_was_never_linked(void)
{
        struct sb_key_supplies first = {0}, second = {0};
        uint64_t mine;

        CHECK(begin());
        sb_pin(&writer);
        CHECK(take_supplies("new", &first) && take_supplies("new", &second));
        mine = second.node;
        sb_exchange_full(&writer.record->operation, mine); /* as the second one's maker does */
        go_on();
        sb_pin(&reader);
        CHECK_EQ(sb_note_load(&reader, writer.record), mine);
        CHECK_EQ(sb_key_make(&writer, "new", 3, hash_of("new", 3), &first), 0);
        CHECK_EQ(sb_key_make(&writer, "new", 3, hash_of("new", 3), &second), 0);
        CHECK(!second.node && second.placeholder); /* it is not the maker's to free */
        CHECK(sb_load_relaxed(&writer.record->operation) != mine);
        sb_slab_give_back(&writer, second.placeholder);
        sb_store_relaxed(&writer.record->operation, 0);
        sb_unpin(&writer);
        sb_slab_release_all(&writer);
        go_on();
        CHECK(is_block(mine, SB_UNIT_NODES));
        sb_unpin(&reader);
        go_on();
        CHECK(!is_block(mine, SB_UNIT_NODES));
        unmake_bus();
}

static void test_the_reaper_keeps_a_node_that_was_never_linked_for_readers_of_the_note(void)
{
        /* Its maker was killed with the note alone, or DYING already. */
        for (uint32_t dying = 0; dying < 2; dying++) {
                struct sb_key_supplies supplies = {0};
                struct sb_node *node;

                CHECK(begin());
                sb_pin(&writer);
                CHECK(take_supplies("new", &supplies));
                node = sb_node_at(&writer.segment, supplies.node);
                sb_store_relaxed(&node->block.birth, sb_pin_era(&writer));
                node->hash = hash_of("new", 3);
                node->key_len = 3;
                memcpy(node->key, "new", 3);
                sb_exchange_full(&writer.record->operation, supplies.node);
                if (dying)
                        CHECK(sb_limbo_begin(&writer, &node->block));
                go_on();
                sb_pin(&reader);
                CHECK_EQ(sb_note_load(&reader, writer.record), supplies.node);
                sb_reap_record(&sweeper, writer.slot, writer.generation);
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
                go_on();
                CHECK(is_block(supplies.node, SB_UNIT_NODES));
                CHECK(!is_block(supplies.placeholder, SB_UNIT_VERSIONS));
                sb_unpin(&reader);
                go_on();
                CHECK(!is_block(supplies.node, SB_UNIT_NODES));
                unmake_bus();
        }
}

/* Every record counts, and of each the whole note. */
static void test_a_block_is_noted_by_any_record_under_either_meaning(void)
{
        struct sb_segment *segment = &writer.segment;
        uint64_t offset, other;

        CHECK(begin());
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset));
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &other));
        for (uint32_t slot = 0; slot < segment->geometry.record_count; slot++) {
                struct sb_word64 *operation = &sb_record_at(segment, slot)->operation;
                bool used = sb_roster_lists(segment, slot);

                sb_store_relaxed(operation, offset);
                CHECK_EQ(sb_note_names(segment, offset), used);
                CHECK(!sb_note_names(segment, other));
                sb_store_relaxed(operation, offset | SB_OPERATION_DESCRIPTOR);
                CHECK_EQ(sb_note_names(segment, offset), used);
                CHECK(!sb_note_names(segment, other));
                sb_store_relaxed(operation, 0);
                CHECK(!sb_note_names(segment, offset));
        }
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_descriptor_found_in_a_note_stays_until_its_readers_pin_ends);
        RUN(test_what_no_record_notes_any_more_is_dated_by_a_sweep);
        RUN(test_a_node_found_in_a_note_stays_although_it_was_never_linked);
        RUN(test_the_reaper_keeps_a_node_that_was_never_linked_for_readers_of_the_note);
        RUN(test_a_block_is_noted_by_any_record_under_either_meaning);
        return test_end();
}
