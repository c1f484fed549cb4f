/*
 * The reaper; see reap.h.
 *
 * Order in sb_reap_slot(): the dead one's operation is finished while its pin still stands, then
 * notes, announcements and pin go, then its slabs are looked through for blocks that it took and
 * never published, at last the record is FREE. Each step can be done twice.
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

static void reap_one(struct sb_peer *peer, uint64_t offset, uint32_t slot)
{
        struct sb_block *block = sb_block_at(&peer->segment, offset);
        uint64_t size = 0;
        bool set = block && sb_unit_is_block(&peer->segment, offset, SB_UNIT_VERSIONS, &size),
             linked;
        uint32_t era;

        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. A:retire. */
        if (!set || sb_load_acquire(&block->retire) != (SB_RETIRE_FREEING | slot))
                return;
        sb_model_block(offset, size, 2); /* it may have been ready */
        sb_model_unchecked_begin();      /* and half built */
        linked = sb_reach_version(peer, (struct sb_version *)block);
        era = sb_load_acquire(&peer->segment.super->era); /* A:era. After it was out of reach. */
        /* R:retire > A:retire. Nobody else touches what is in hand, and nobody can link it. */
        sb_store_release(&block->retire, linked ? 0 : era);
        if (!linked)
                sb_limbo_wait(peer, offset, era, false);
        sb_model_unchecked_end();
}

static void reap_stock(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        struct sb_cell64 *words = sb_client_stock(&peer->segment, dead);
        uint32_t i;

        for (i = 0; i < peer->segment.geometry.stock_count && !SB_FAULT(REAP_FORGETS_STOCK); i++) {
                uint64_t offset = sb_load_acquire(&words[i]); /* A:stock. */

                if (offset)
                        reap_one(peer, offset, slot);
        }
}

/* Whether an announcement of the dead one's keeps @cut still. */
static bool keeps(const struct sb_segment *segment, struct sb_client *dead, uint64_t cut)
{
        uint32_t i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                /* A:announce. */
                if ((sb_load_acquire(&sb_client_snapshots(dead)[i]) & ~SB_SNAPSHOT_EVICTING) == cut)
                        return true;
        return false;
}

/* A transaction: to its end, whoever helped it there. What it replaced a sweep finds. */
static void finish_commit(struct sb_peer *peer, struct sb_client *dead, uint64_t at)
{
        struct sb_commit *commit = sb_unit_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL)
                                           ? sb_commit_at(&peer->segment, at)
                                           : NULL;

        if (!commit || SB_FAULT(REAP_FORGETS_TXN))
                return;
        /* Its cut was taken away: perhaps its owner had not looked yet, as he does behind the note,
         * and what it goes by may be gone. */
        if (!keeps(&peer->segment, dead, commit->cut) && !SB_FAULT(REAP_COMMITS_EVICTED))
                sb_commit_cancel(commit);
        sb_finish_noted(peer, commit, &dead->operation);
}

/* What the operation slot names: stamped if installed, every birth asked, a bare key or cell-less
 * node on its way out. */
static void finish_operation(struct sb_peer *peer, struct sb_client *dead)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t at = sb_pin_load(peer, &dead->operation), own;
        struct sb_node *node;
        struct sb_cell64 *cell;
        struct sb_version *head;

        if (at & SB_OPERATION_COMMIT) {
                finish_commit(peer, dead, at & SB_OFFSET_MASK);
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
                return; /* somebody's transaction, or aborted: that was not the dead one's write */
        /* Whatever it replaced, or a bare birth. */
        sb_limbo_later(peer, own, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

/* A block whose retire word it may have won without clearing the bit. */
static void finish_freeing(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        uint64_t at = sb_load_acquire(&dead->freeing); /* A:freeing. */
        struct sb_block *block = at ? sb_block_at(&peer->segment, at) : NULL;
        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. */
        bool set = block && (sb_unit_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL) ||
                                    sb_unit_is_block(&peer->segment, at, SB_UNIT_NODES, NULL) ||
                                    sb_unit_is_block(&peer->segment, at, SB_UNIT_GUARDS, NULL));

        if (SB_FAULT(REAP_FORGETS_FREEING))
                return;
        /* A:retire. */
        if (!set || sb_load_acquire(&block->retire) != (SB_RETIRE_FREEING | slot))
                return;
        if (!SB_FAULT(FINISH_FREEING_NO_DISPOSE))
                sb_reclaim_dispose(peer, at);
        sb_unit_clear(peer, at);
}

/* Blocks in a unit that its dead owner took and never published. */
static void recover_unit(struct sb_peer *peer, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t count = sb_unit_block_count(segment, word), index;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint64_t size = kind == SB_UNIT_LARGE ? 0 : segment->class_size[SB_UNIT_CLASS(word)];

        for (index = 0; index < count && !SB_FAULT(REAP_FORGETS_BLOCKS); index++) {
                uint64_t at = sb_unit_offset(segment, unit) + index * size;
                struct sb_cell64 *bits = &sb_unit_bitmap(segment, unit)[index / 64];

                /* A:block-taken. Bits that are set stay set while its words are looked at: only a
                 * freer of something that was published clears them. */
                if (!(sb_load_acquire(bits) >> (index % 64) & 1))
                        continue;
                if (!sb_reach_published(peer, at, kind))
                        sb_unit_clear(peer, at);
        }
        sb_unit_give_up(peer, unit);
}

static void recover_units(struct sb_peer *peer, uint32_t slot, uint32_t generation)
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
                recover_unit(peer, unit, word);
                sb_unpin(peer);
        }
}

void sb_reap_slot(struct sb_peer *peer, uint32_t slot, uint32_t generation)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_client *dead = sb_client_at(segment, slot);
        uint32_t current, chunk;
        enum sb_client_state state = sb_slot_state(segment, slot, &current);

        if (state == SB_CLIENT_FREE || current != generation)
                return;
        if (state != SB_CLIENT_DEAD && !sb_cas64_full(&dead->tag, SB_CLIENT_TAG(generation, state),
                                               SB_CLIENT_TAG(generation, SB_CLIENT_DEAD)))
                return;
        if (SB_FAULT(REAP_PIN_FIRST))
                sb_store_release(&dead->pin, 0); /* R:unpin. */
        if (slot == peer->slot)
                sb_pin_resume(peer);
        else
                sb_pin(peer);
        finish_operation(peer, dead);
        finish_freeing(peer, dead, slot);
        reap_stock(peer, dead, slot);
        sb_unpin(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, slot, generation, chunk);
        sb_slot_clear(segment, slot);
        recover_units(peer, slot, generation);
        /* Its private lists went with it: a sweep finds what was on them. */
        sb_limbo_leave(peer);
        /* R:slot-tag > A:slot-tag. */
        sb_store_release(&dead->tag, SB_CLIENT_TAG(generation + 1, SB_CLIENT_FREE));
}
