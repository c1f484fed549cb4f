/*
 * The reaper; see reap.h.
 *
 * Order in sb_reap_record(): the dead client's operation is finished while its pin still stands,
 * then notes, announcements and pin go, then its slabs are looked through for blocks that it took
 * and never published, at last the record is FREE.
 */

#include "shm/upkeep/reap.h"

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reclaim.h"

/* ---- the magazine ---- */

/* Give back the block at @offset, which the dead client had in hand: live if it is linked, else
 * dated. It may have been ready to be built in, and half built: the model checker takes it as
 * allocated from here on and judges no load of it. */
static void reap_give_back(
        struct sb_handle *handle, struct sb_block *block, uint64_t offset, uint64_t size)
{
        uint64_t era;
        bool linked;

        (void)size; /* the model checker alone is told */
        sb_model_block(offset, size, 2);
        sb_model_unchecked_begin();
        linked = sb_reach_version(handle, (struct sb_version *)block);
        era = sb_load_acquire(&handle->segment.super->era); /* A:era. After it was out of reach. */
        /* R:retire > A:retire. No other process touches what is in hand, and none can link it. */
        sb_store_release(&block->retire, linked ? 0 : sb_era_low(era));
        if (!linked)
                sb_limbo_wait(handle, offset, era, false);
        sb_model_unchecked_end();
}

/* Whether there is a block of one of these kinds at @offset that the dead client has in hand. The
 * word that led here may be old: the block may be another's by now, and where it began may lie the
 * bytes of a value. So the pin covers both halves of the look: from the first one on, the unit
 * keeps its kind and class, and what is read as a retire word is one. */
static bool reap_is_in_hand(struct sb_handle *handle, uint64_t offset, uint32_t slot,
        const enum sb_unit_kind *kinds, uint32_t kind_count, uint64_t *ret_size)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);
        bool set, won;
        uint32_t i;

        if (!block)
                return false;
        do {
                set = false;
                for (i = 0; i < kind_count && !set; i++)
                        set = sb_unit_is_block(&handle->segment, offset, kinds[i], ret_size);
                /* The bit before the word: a block that was taken again has its word reset before
                 * its bit is set. A:retire. */
                won = set && sb_load_acquire(&block->retire) == (SB_RETIRE_FREEING | slot);
        } while (!SB_FAULT(REAP_LOOK_UNCOVERED) && !sb_pin_covers(handle));
        return won;
}

/* One block that the dead client's magazine names. */
static void reap_entry(struct sb_handle *handle, uint64_t offset, uint32_t slot)
{
        static const enum sb_unit_kind versions = SB_UNIT_VERSIONS;
        uint64_t size = 0;

        if (reap_is_in_hand(handle, offset, slot, &versions, 1, &size))
                reap_give_back(handle, sb_block_at(&handle->segment, offset), offset, size);
}

static uint32_t reap_entry_count(const struct sb_segment *segment)
{
        return SB_FAULT(REAP_FORGETS_MAGAZINE) ? 0 : segment->geometry.magazine_count;
}

static void reap_magazine(struct sb_handle *handle, struct sb_record *dead, uint32_t slot)
{
        struct sb_word64 *words = sb_record_magazine(&handle->segment, dead);
        uint32_t i;

        for (i = 0; i < reap_entry_count(&handle->segment); i++) {
                uint64_t offset = sb_load_acquire(&words[i]); /* A:magazine. */

                if (offset)
                        reap_entry(handle, offset, slot);
        }
}

/* ---- the operation ---- */

/* Whether an announcement of the dead client keeps @cut still. */
static bool reap_keeps(const struct sb_segment *segment, struct sb_record *dead, uint64_t cut)
{
        uint32_t i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                /* A:announce. */
                if ((sb_load_acquire(&sb_record_snapshots(dead)[i]) & ~SB_SNAPSHOT_EVICTING) == cut)
                        return true;
        return false;
}

/* Abort a transaction of which the cut was taken away: perhaps its owner had not looked yet, as it
 * does behind the note, and the versions that the transaction goes by may be gone. */
static void reap_cancel_evicted(
        struct sb_handle *handle, struct sb_record *dead, struct sb_descriptor *descriptor)
{
        if (!reap_keeps(&handle->segment, dead, descriptor->cut) && !SB_FAULT(REAP_COMMITS_EVICTED))
                sb_descriptor_cancel(descriptor);
}

/* The descriptor that the dead client has noted, or NULL. */
static struct sb_descriptor *reap_descriptor(struct sb_handle *handle, uint64_t at)
{
        if (!sb_unit_is_block(&handle->segment, at, SB_UNIT_VERSIONS, NULL) ||
                SB_FAULT(REAP_FORGETS_TXN))
                return NULL;
        return sb_descriptor_at(&handle->segment, at);
}

/* Bring a transaction to its end, however far helpers have brought it. What it replaced a sweep
 * finds. */
static void reap_finish_commit(struct sb_handle *handle, struct sb_record *dead, uint64_t at)
{
        struct sb_descriptor *descriptor = reap_descriptor(handle, at);

        if (!descriptor)
                return;
        reap_cancel_evicted(handle, dead, descriptor);
        sb_finish_noted(handle, descriptor, &dead->operation);
}

/* A noted node that no index leads to. If it was never linked it goes as all that was noted goes;
 * else it is on its way already. Fault REAP_FREES_NOTED: it is left to reap_unit(), which frees it
 * at once. */
static void reap_private_node(struct sb_handle *handle, struct sb_record *dead, uint64_t at)
{
        if (!sb_reach_published(handle, at, SB_UNIT_NODES) && !SB_FAULT(REAP_FREES_NOTED))
                sb_note_retire(handle, sb_block_at(&handle->segment, at), &dead->operation, 0);
}

/* The write of a key that is in the index: stamped, if it was installed; a bare key, or a node
 * without a cell, begins to go. */
static void reap_finish_write(struct sb_handle *handle, struct sb_node *node, uint64_t at)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t own = sb_pin_load(handle, &node->cell);
        struct sb_version *head;
        struct sb_word64 *cell;

        if (!own) {
                sb_key_abandon(handle, node);
                return;
        }
        cell = sb_cell_at(segment, own);
        head = cell ? sb_version_at(segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK) : NULL;
        if (!head || head->node != at)
                return;
        if (SB_SHAPE_KIND(head->shape) != SB_VERSION_PLACEHOLDER &&
                (sb_stamp(handle, head) & SB_STAMP_INTENT))
                return; /* of a transaction, or aborted: that was not the dead client's write */
        /* What it replaced is to be pruned, or the bare placeholder removed. */
        sb_limbo_later(handle, own, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

/* What `operation` names: its write is finished, each placeholder is asked about, and watchers are
 * told, whichever process wrote what they find. */
static void reap_finish_operation(struct sb_handle *handle, struct sb_record *dead)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t at = sb_pin_load(handle, &dead->operation);
        struct sb_node *node;

        if (at & SB_OPERATION_DESCRIPTOR) {
                reap_finish_commit(handle, dead, at & SB_OFFSET_MASK);
                return;
        }
        if (!at || !sb_unit_is_block(segment, at, SB_UNIT_NODES, NULL))
                return;
        node = sb_node_at(segment, at);
        /* On the whole way: it may have died before it signed. The key may be gone since, too. */
        sb_index_confirm_all(handle, node->hash, at, !SB_FAULT(REAP_BY_SIGN));
        if (!sb_reach_node(handle, node)) {
                reap_private_node(handle, dead, at);
                return;
        }
        reap_finish_write(handle, node, at);
        if (SB_FAULT(REAP_UNTOLD))
                return;
        if (!SB_FAULT(REAP_UNLOGGED))
                sb_unlogged_tell_node(handle, node);
        sb_ring_tell(handle, node, NULL);
        sb_prefix_tell_node(handle, node, 0);
}

/* ---- the block that it was freeing ---- */

/* The block that the dead client noted, if it has won the retire word without clearing the bit.
 * Return: its offset, or 0. */
static uint64_t reap_freeing(struct sb_handle *handle, struct sb_record *dead, uint32_t slot)
{
        static const enum sb_unit_kind kinds[] = {SB_UNIT_VERSIONS, SB_UNIT_NODES, SB_UNIT_GUARDS};
        uint64_t at = sb_load_acquire(&dead->freeing); /* A:freeing. */

        return at && !SB_FAULT(REAP_FORGETS_FREEING) &&
                               reap_is_in_hand(handle, at, slot, kinds, 3, NULL)
                       ? at
                       : 0;
}

/* Let go of what an aborted transaction lists, if the block is its descriptor. */
static void reap_dispose(struct sb_handle *handle, uint64_t at)
{
        if (!SB_FAULT(FINISH_FREEING_NO_DISPOSE))
                sb_reclaim_dispose(handle, at);
}

static void reap_finish_freeing(struct sb_handle *handle, struct sb_record *dead, uint32_t slot)
{
        uint64_t at = reap_freeing(handle, dead, slot);

        if (!at)
                return;
        reap_dispose(handle, at);
        sb_unit_clear(handle, at);
}

/* ---- its units ---- */

static uint32_t reap_block_count(const struct sb_segment *segment, uint64_t word)
{
        return SB_FAULT(REAP_FORGETS_BLOCKS) ? 0 : sb_unit_block_count(segment, word);
}

/* Free the blocks in a unit that its dead owner took and never published. */
static void reap_unit(
        struct sb_handle *handle, uint32_t unit, uint64_t word, struct sb_reach *reach)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t count = reap_block_count(segment, word), index;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint64_t size = kind == SB_UNIT_LARGE ? 0 : segment->class_size[SB_UNIT_CLASS(word)];

        for (index = 0; index < count; index++) {
                uint64_t at = sb_unit_offset(segment, unit) + index * size;
                struct sb_word64 *bits = &sb_unit_bitmap(segment, unit)[index / 64];

                /* A:block-taken. A bit that is set stays set while the words of its block are
                 * looked at: only a reclaimer of something that was published clears it. */
                if (!(sb_load_acquire(bits) >> (index % 64) & 1))
                        continue;
                if (!sb_reach_published_of_many(handle, at, kind, reach))
                        sb_unit_clear(handle, at);
        }
        sb_unit_give_up(handle, unit);
}

static void reap_units(struct sb_handle *handle, uint32_t slot, uint32_t generation)
{
        uint64_t owner = (uint64_t)(slot + 1) << 32 | generation;
        struct sb_reach reach;
        uint32_t unit;

        sb_reach_begin(handle, &reach);
        for (unit = 0; unit < handle->segment.geometry.unit_count; unit++) {
                /* A:unit-owned. */
                uint64_t word = sb_load_acquire(&handle->segment.unit_words[unit]);

                if (SB_UNIT_KIND(word) == SB_UNIT_FREE || SB_UNIT_KIND(word) >= SB_UNIT_PART ||
                        SB_UNIT_OWNER(word) != owner)
                        continue;
                if (SB_UNIT_KIND(word) < SB_UNIT_LARGE &&
                        SB_UNIT_CLASS(word) >= handle->segment.class_count)
                        continue;
                sb_pin(handle);
                reap_unit(handle, unit, word, &reach);
                sb_unpin(handle);
        }
}

/* ---- the record ---- */

/* Begin to reap: the record becomes DEAD, if it is not. False: it is of another generation by now,
 * or FREE, or another process changes its state. */
static bool reap_begin(
        struct sb_segment *segment, struct sb_record *dead, uint32_t slot, uint32_t generation)
{
        uint32_t current;
        enum sb_record_state state = sb_roster_state(segment, slot, &current);

        if (state == SB_RECORD_FREE || current != generation)
                return false;
        /* R:record-tag > A:record-tag. Of several reapers, and the owner's close, one comes first.
         */
        return state == SB_RECORD_DEAD ||
               sb_cas64_full(&dead->tag, SB_RECORD_TAG(generation, state),
                       SB_RECORD_TAG(generation, SB_RECORD_DEAD));
}

/* Pin, and leave the dead client's pin as it is; in the reaper's own record that is its own pin.
 * Fault REAP_PIN_FIRST: the dead client's pin goes before its operation is finished. */
static void reap_pin(struct sb_handle *handle, struct sb_record *dead, uint32_t slot)
{
        if (SB_FAULT(REAP_PIN_FIRST))
                sb_store_release(&dead->pin, 0); /* R:unpin, too early: that is the fault. */
        if (slot == handle->slot)
                sb_pin_resume(handle);
        else
                sb_pin(handle);
}

void sb_reap_record(struct sb_handle *handle, uint32_t slot, uint32_t generation)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_record *dead = sb_record_at(segment, slot);
        uint32_t chunk;

        if (!reap_begin(segment, dead, slot, generation))
                return;
        reap_pin(handle, dead, slot);
        reap_finish_operation(handle, dead);
        reap_finish_freeing(handle, dead, slot);
        reap_magazine(handle, dead, slot);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(handle, slot, generation, chunk);
        /* The pin last: in the reaper's own record it is what keeps the noted node. */
        sb_roster_clear(segment, slot);
        sb_unpin(handle);
        reap_units(handle, slot, generation);
        /* Its private lists went with it: a sweep finds what was on them. */
        sb_limbo_leave(handle);
        /* Only now: in a record 0 that an engine left, the next engine pins while it reaps. */
        sb_roster_unlist(segment, slot);
        /* R:record-tag > A:record-tag. */
        sb_store_release(&dead->tag, SB_RECORD_TAG(generation + 1, SB_RECORD_FREE));
}
