/*
 * The reaper; see reap.h.
 *
 * Order in sb_reap_slot(): the dead client's operation is finished while its pin still stands, then
 * notes, announcements and pin go, then its slabs are looked through for blocks that it took and
 * never published, at last the record is FREE.
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
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reclaim.h"

/* ---- the magazine ---- */

/* Give back the block at @offset, which the dead client had in hand: live if it is linked, else
 * dated. It may have been ready to be built in, and half built: the model checker takes it as
 * allocated from here on and judges no load of it. */
static void reap_give_back(
        struct sb_peer *peer, struct sb_block *block, uint64_t offset, uint64_t size)
{
        uint32_t era;
        bool linked;

        (void)size; /* the model checker alone is told */
        sb_model_block(offset, size, 2);
        sb_model_unchecked_begin();
        linked = sb_reach_version(peer, (struct sb_version *)block);
        era = sb_load_acquire(&peer->segment.super->era); /* A:era. After it was out of reach. */
        /* R:retire > A:retire. No other process touches what is in hand, and none can link it. */
        sb_store_release(&block->retire, linked ? 0 : era);
        if (!linked)
                sb_limbo_wait(peer, offset, era, false);
        sb_model_unchecked_end();
}

/* One block that the dead client's magazine names. */
static void reap_entry(struct sb_peer *peer, uint64_t offset, uint32_t slot)
{
        struct sb_block *block = sb_block_at(&peer->segment, offset);
        uint64_t size = 0;
        bool set = block && sb_unit_is_block(&peer->segment, offset, SB_UNIT_VERSIONS, &size);

        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. A:retire. */
        if (set && sb_load_acquire(&block->retire) == (SB_RETIRE_FREEING | slot))
                reap_give_back(peer, block, offset, size);
}

static uint32_t reap_entry_count(const struct sb_segment *segment)
{
        return SB_FAULT(REAP_FORGETS_STOCK) ? 0 : segment->geometry.stock_count;
}

static void reap_magazine(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        struct sb_cell64 *words = sb_client_stock(&peer->segment, dead);
        uint32_t i;

        for (i = 0; i < reap_entry_count(&peer->segment); i++) {
                uint64_t offset = sb_load_acquire(&words[i]); /* A:magazine. */

                if (offset)
                        reap_entry(peer, offset, slot);
        }
}

/* ---- the operation ---- */

/* Whether an announcement of the dead client keeps @cut still. */
static bool reap_keeps(const struct sb_segment *segment, struct sb_client *dead, uint64_t cut)
{
        uint32_t i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                /* A:announce. */
                if ((sb_load_acquire(&sb_client_snapshots(dead)[i]) & ~SB_SNAPSHOT_EVICTING) == cut)
                        return true;
        return false;
}

/* Abort a transaction of which the cut was taken away: perhaps its owner had not looked yet, as it
 * does behind the note, and the versions that the transaction goes by may be gone. */
static void reap_cancel_evicted(
        struct sb_peer *peer, struct sb_client *dead, struct sb_commit *descriptor)
{
        if (!reap_keeps(&peer->segment, dead, descriptor->cut) && !SB_FAULT(REAP_COMMITS_EVICTED))
                sb_commit_cancel(descriptor);
}

/* The descriptor that the dead client has noted, or NULL. */
static struct sb_commit *reap_descriptor(struct sb_peer *peer, uint64_t at)
{
        if (!sb_unit_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL) ||
                SB_FAULT(REAP_FORGETS_TXN))
                return NULL;
        return sb_commit_at(&peer->segment, at);
}

/* Bring a transaction to its end, however far helpers have brought it. What it replaced a sweep
 * finds. */
static void reap_finish_commit(struct sb_peer *peer, struct sb_client *dead, uint64_t at)
{
        struct sb_commit *descriptor = reap_descriptor(peer, at);

        if (!descriptor)
                return;
        reap_cancel_evicted(peer, dead, descriptor);
        sb_finish_noted(peer, descriptor, &dead->operation);
}

/* What `operation` names: its write is stamped if it was installed, each placeholder is asked
 * about, and a bare key or a node without a cell begins to go. */
static void reap_finish_operation(struct sb_peer *peer, struct sb_client *dead)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t at = sb_pin_load(peer, &dead->operation), own;
        struct sb_node *node;
        struct sb_cell64 *cell;
        struct sb_version *head;

        if (at & SB_OPERATION_COMMIT) {
                reap_finish_commit(peer, dead, at & SB_OFFSET_MASK);
                return;
        }
        if (!at || !sb_unit_is_block(segment, at, SB_UNIT_NODES, NULL))
                return;
        node = sb_node_at(segment, at);
        if (!sb_reach_node(peer, node))
                return; /* never linked: one of its private blocks */
        sb_index_confirm_all(peer, node->hash, at);
        own = sb_pin_load(peer, &node->cell);
        if (!own) {
                sb_key_abandon(peer, node);
                return;
        }
        cell = sb_cell_at(segment, own);
        head = cell ? sb_version_at(segment, sb_pin_load(peer, cell) & SB_OFFSET_MASK) : NULL;
        if (!head || head->node != at)
                return;
        if (SB_SHAPE_KIND(head->shape) != SB_VERSION_BIRTH &&
                (sb_stamp(peer, head) & SB_STAMP_INTENT))
                return; /* of a transaction, or aborted: that was not the dead client's write */
        /* What it replaced is to be pruned, or the bare placeholder removed. */
        sb_limbo_later(peer, own, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

/* ---- the block that it was freeing ---- */

/* The block that the dead client noted, if it has won the retire word without clearing the bit.
 * Return: its offset, or 0. */
static uint64_t reap_freeing(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        uint64_t at = sb_load_acquire(&dead->freeing); /* A:freeing. */
        struct sb_block *block = at ? sb_block_at(&peer->segment, at) : NULL;
        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. */
        bool set = block && (sb_unit_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL) ||
                                    sb_unit_is_block(&peer->segment, at, SB_UNIT_NODES, NULL) ||
                                    sb_unit_is_block(&peer->segment, at, SB_UNIT_GUARDS, NULL));

        /* A:retire. */
        return set && !SB_FAULT(REAP_FORGETS_FREEING) &&
                               sb_load_acquire(&block->retire) == (SB_RETIRE_FREEING | slot)
                       ? at
                       : 0;
}

/* Let go of what an aborted transaction lists, if the block is its descriptor. */
static void reap_dispose(struct sb_peer *peer, uint64_t at)
{
        if (!SB_FAULT(FINISH_FREEING_NO_DISPOSE))
                sb_reclaim_dispose(peer, at);
}

static void reap_finish_freeing(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        uint64_t at = reap_freeing(peer, dead, slot);

        if (!at)
                return;
        reap_dispose(peer, at);
        sb_unit_clear(peer, at);
}

/* ---- its units ---- */

static uint32_t reap_block_count(const struct sb_segment *segment, uint64_t word)
{
        return SB_FAULT(REAP_FORGETS_BLOCKS) ? 0 : sb_unit_block_count(segment, word);
}

/* Free the blocks in a unit that its dead owner took and never published. */
static void reap_unit(struct sb_peer *peer, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t count = reap_block_count(segment, word), index;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint64_t size = kind == SB_UNIT_LARGE ? 0 : segment->class_size[SB_UNIT_CLASS(word)];

        for (index = 0; index < count; index++) {
                uint64_t at = sb_unit_offset(segment, unit) + index * size;
                struct sb_cell64 *bits = &sb_unit_bitmap(segment, unit)[index / 64];

                /* A:block-taken. A bit that is set stays set while the words of its block are
                 * looked at: only a freer of something that was published clears it. */
                if (!(sb_load_acquire(bits) >> (index % 64) & 1))
                        continue;
                if (!sb_reach_published(peer, at, kind))
                        sb_unit_clear(peer, at);
        }
        sb_unit_give_up(peer, unit);
}

static void reap_units(struct sb_peer *peer, uint32_t slot, uint32_t generation)
{
        uint64_t owner = (uint64_t)(slot + 1) << 32 | generation;
        uint32_t unit;

        for (unit = 0; unit < peer->segment.geometry.unit_count; unit++) {
                /* A:unit-owned. */
                uint64_t word = sb_load_acquire(&peer->segment.unit_words[unit]);

                if (SB_UNIT_KIND(word) == SB_UNIT_FREE || SB_UNIT_KIND(word) >= SB_UNIT_PART ||
                        SB_UNIT_OWNER(word) != owner)
                        continue;
                if (SB_UNIT_KIND(word) < SB_UNIT_LARGE &&
                        SB_UNIT_CLASS(word) >= peer->segment.class_count)
                        continue;
                sb_pin(peer);
                reap_unit(peer, unit, word);
                sb_unpin(peer);
        }
}

/* ---- the record ---- */

/* Begin to reap: the record becomes DEAD, if it is not. False: it is of another generation by now,
 * or FREE, or another process changes its state. */
static bool reap_begin(
        struct sb_segment *segment, struct sb_client *dead, uint32_t slot, uint32_t generation)
{
        uint32_t current;
        enum sb_client_state state = sb_slot_state(segment, slot, &current);

        if (state == SB_CLIENT_FREE || current != generation)
                return false;
        return state == SB_CLIENT_DEAD ||
               sb_cas64_full(&dead->tag, SB_CLIENT_TAG(generation, state),
                       SB_CLIENT_TAG(generation, SB_CLIENT_DEAD));
}

/* Pin, and leave the dead client's pin as it is; in the reaper's own record that is its own pin.
 * Fault REAP_PIN_FIRST: the dead client's pin goes before its operation is finished. */
static void reap_pin(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        if (SB_FAULT(REAP_PIN_FIRST))
                sb_store_release(&dead->pin, 0); /* R:unpin, too early: that is the fault. */
        if (slot == peer->slot)
                sb_pin_resume(peer);
        else
                sb_pin(peer);
}

void sb_reap_slot(struct sb_peer *peer, uint32_t slot, uint32_t generation)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_client *dead = sb_client_at(segment, slot);
        uint32_t chunk;

        if (!reap_begin(segment, dead, slot, generation))
                return;
        reap_pin(peer, dead, slot);
        reap_finish_operation(peer, dead);
        reap_finish_freeing(peer, dead, slot);
        reap_magazine(peer, dead, slot);
        sb_unpin(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, slot, generation, chunk);
        sb_slot_clear(segment, slot);
        reap_units(peer, slot, generation);
        /* Its private lists went with it: a sweep finds what was on them. */
        sb_limbo_leave(peer);
        /* R:slot-tag > A:slot-tag. */
        sb_store_release(&dead->tag, SB_CLIENT_TAG(generation + 1, SB_CLIENT_FREE));
}
