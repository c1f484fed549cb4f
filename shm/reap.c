/*
 * The reaper; see reap.h.
 *
 * Order in sb_reap_slot(): the dead one's operation is finished while its pin still stands, then
 * notes, announcements and pin go, then its slabs are looked through for blocks that it took and
 * never published, at last the record is FREE. Each step can be done twice.
 */
#include "reap.h"

#include "base/fault.h"
#include "epoch.h"
#include "guard.h"
#include "index.h"
#include "node.h"
#include "reach.h"
#include "retire.h"
#include "slab.h"
#include "slot.h"
#include "snapshot.h"
#include "stock.h"
#include "txn.h"

#define SWEEP_SLICE    64u /* units a tick */
#define SWEEP_REST_MAX 64u /* ticks between sweeps that free nothing */

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
        struct sb_commit *commit = sb_slab_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL)
                                           ? sb_commit_at(&peer->segment, at)
                                           : NULL;

        if (!commit || SB_FAULT(REAP_FORGETS_TXN))
                return;
        /* Its cut was taken away: perhaps its owner had not looked yet, as he does behind the note,
         * and what it goes by may be gone. */
        if (!keeps(&peer->segment, dead, commit->cut) && !SB_FAULT(REAP_COMMITS_EVICTED))
                sb_txn_cancel(commit);
        sb_txn_finish(peer, commit, &dead->operation);
}

/* What the operation slot names: stamped if installed, every birth asked, a bare key or cell-less
 * node on its way out. */
static void finish_operation(struct sb_peer *peer, struct sb_client *dead)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t at = sb_load_pinned(peer, &dead->operation), own;
        struct sb_node *node;
        struct sb_cell64 *cell;
        struct sb_version *head;

        if (at & SB_OPERATION_COMMIT) {
                finish_commit(peer, dead, at & SB_OFFSET_MASK);
                return;
        }
        if (!at || !sb_slab_is_block(segment, at, SB_UNIT_NODES, NULL))
                return;
        node = sb_node_at(segment, at);
        if (!sb_reach_node(peer, node))
                return; /* never linked: one of its private blocks */
        sb_index_confirm_all(peer, node->hash, at);
        own = sb_load_pinned(peer, &node->cell);
        if (!own) {
                sb_node_abandon(peer, node);
                return;
        }
        cell = sb_cell_at(segment, own);
        head = cell ? sb_version_at(segment, sb_load_pinned(peer, cell) & SB_OFFSET_MASK) : NULL;
        if (!head || head->node != at)
                return;
        if (SB_SHAPE_KIND(head->shape) != SB_VERSION_BIRTH &&
                (sb_stamp(peer, head) & SB_STAMP_INTENT))
                return; /* somebody's transaction, or aborted: that was not the dead one's write */
        /* Whatever it replaced, or a bare birth. */
        sb_retire_later(peer, own, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

/* A block whose retire word it may have won without clearing the bit. */
static void finish_freeing(struct sb_peer *peer, struct sb_client *dead, uint32_t slot)
{
        uint64_t at = sb_load_acquire(&dead->freeing); /* A:freeing. */
        struct sb_block *block = at ? sb_block_at(&peer->segment, at) : NULL;
        /* The bit before the word: a block that was taken again has its word reset before its bit
         * is set. */
        bool set = block && (sb_slab_is_block(&peer->segment, at, SB_UNIT_VERSIONS, NULL) ||
                                    sb_slab_is_block(&peer->segment, at, SB_UNIT_NODES, NULL) ||
                                    sb_slab_is_block(&peer->segment, at, SB_UNIT_GUARDS, NULL));

        if (SB_FAULT(REAP_FORGETS_FREEING))
                return;
        /* A:retire. */
        if (!set || sb_load_acquire(&block->retire) != (SB_RETIRE_FREEING | slot))
                return;
        if (!SB_FAULT(FINISH_FREEING_NO_DISPOSE))
                sb_retire_dispose(peer, at);
        sb_slab_clear(peer, at);
}

/* Blocks in a unit that its dead owner took and never published. */
static void recover_unit(struct sb_peer *peer, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t count = sb_slab_block_count(segment, word), index;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint64_t size = kind == SB_UNIT_LARGE ? 0 : segment->class_size[SB_UNIT_CLASS(word)];

        for (index = 0; index < count && !SB_FAULT(REAP_FORGETS_BLOCKS); index++) {
                uint64_t at = sb_unit_offset(segment, unit) + index * size;
                struct sb_cell64 *bits = &sb_slab_bitmap(segment, unit)[index / 64];

                /* A:block-taken. Bits that are set stay set while its words are looked at: only a
                 * freer of something that was published clears them. */
                if (!(sb_load_acquire(bits) >> (index % 64) & 1))
                        continue;
                if (!sb_reach_published(peer, at, kind))
                        sb_slab_clear(peer, at);
        }
        sb_slab_give_up(peer, unit);
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
        sb_stock_reap(peer, dead, slot);
        sb_unpin(peer);
        for (chunk = 1; chunk < SB_GUARD_CHUNKS; chunk++)
                sb_guard_chunk_free(peer, slot, generation, chunk);
        sb_slot_clear(segment, slot);
        recover_units(peer, slot, generation);
        /* Its private lists went with it: a sweep finds what was on them. */
        sb_retire_leave(peer);
        /* R:slot-tag > A:slot-tag. */
        sb_store_release(&dead->tag, SB_CLIENT_TAG(generation + 1, SB_CLIENT_FREE));
}

/* Begin a sweep when somebody left work behind, unless the last one freed nothing and its rest is
 * not over: what a stopped reader or an open snapshot holds shall not keep a processor busy. */
static bool begin_sweep(struct sb_peer *peer, uint32_t *cursor)
{
        struct sb_superblock *super = peer->segment.super;
        uint64_t wanted = sb_load_acquire(&super->sweep_wanted); /* A:sweep. */

        if (wanted == sb_load_acquire(&super->swept)) /* A:sweep. */
                return false;
        if (peer->sweep_rest_left) {
                peer->sweep_rest_left--;
                return false;
        }
        peer->sweep_goal = wanted;
        peer->sweep_left = peer->segment.geometry.unit_count;
        peer->sweep_freed = 0;
        sb_sweep_begin(peer);
        *cursor = 0;
        return true;
}

static void end_sweep(struct sb_peer *peer)
{
        sb_sweep_end(peer);
        sb_store_release(&peer->segment.super->swept, peer->sweep_goal); /* R:sweep > A:sweep. */
        if (peer->sweep_freed)
                peer->sweep_rest = 0;
        else
                peer->sweep_rest = peer->sweep_rest < SWEEP_REST_MAX / 2 ? peer->sweep_rest * 2 + 1
                                                                         : SWEEP_REST_MAX;
        /* And among busy writers there is always something to be found: it has a fifth of the time.
         */
        peer->sweep_rest_left = peer->segment.geometry.unit_count / SWEEP_SLICE * 4;
        if (peer->sweep_rest_left < peer->sweep_rest)
                peer->sweep_rest_left = peer->sweep_rest;
}

bool sb_reap_tick(struct sb_peer *peer, uint32_t *cursor)
{
        uint32_t count;

        sb_safe_raise(peer);
        sb_retire_pending(peer);
        sb_retire_free(peer);
        if (!peer->sweep_left && !begin_sweep(peer, cursor))
                return false;
        count = peer->sweep_left < SWEEP_SLICE ? peer->sweep_left : SWEEP_SLICE;
        peer->sweep_left -= count;
        peer->sweep_freed += sb_sweep(peer, cursor, count);
        if (!peer->sweep_left)
                end_sweep(peer);
        return true;
}
