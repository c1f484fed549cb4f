/* Pending cells and blocks in limbo; see retire.h. */
#include "retire.h"

#include "base/fault.h"
#include "guard.h"
#include "node.h"
#include "slab.h"
#include "snapshot.h"
#include "stock.h"
#include "txn.h"

#define FIRST_GRACE                                                                                \
        UINT64_C(1) /* low bit of sb_limbo.offset: a node whose first grace period this is */

void sb_retire_leave(struct sb_peer *peer)
{
        peer->left_behind++;
        sb_add_full(&peer->segment.super->sweep_wanted, 1);
}

void sb_retire_later(struct sb_peer *peer, uint64_t cell_number, uint64_t stamp)
{
        if (SB_UNLIKELY(peer->pending_tail - peer->pending_head == SB_PENDING_MAX)) {
                sb_retire_leave(peer);
                return;
        }
        peer->pending[peer->pending_tail++ % SB_PENDING_MAX] =
                (struct sb_pending){.cell_number = cell_number, .stamp = stamp};
}

void sb_retire_wait(struct sb_peer *peer, uint64_t offset, uint32_t era, bool first_grace)
{
        struct sb_block *block = sb_block_at(&peer->segment, offset);

        if (SB_UNLIKELY(peer->limbo_count == SB_LIMBO_MAX)) {
                sb_retire_leave(peer);
                return;
        }
        peer->limbo[peer->limbo_count] = (struct sb_limbo){
                .offset = offset | (first_grace ? FIRST_GRACE : 0),
                .era = era,
                .birth = sb_load_relaxed(&block->birth), /* Relaxed: an older value only holds the
                                                            block for longer. */
                .unit_kind = sb_slab_kind_of(&peer->segment, offset),
        };
        sb_retire_count(peer);
}

void sb_retire_finish(struct sb_peer *peer, struct sb_block *block)
{
        /* A:era. Read after the unlink, so that whoever reads the block now is pinned at this era
         * or before. */
        uint32_t era = SB_FAULT(RETIRE_ERA_EARLY) ? SB_ERA_MIN
                                                  : sb_load_acquire(&peer->segment.super->era);

        if (sb_cas32_full(&block->retire, SB_RETIRE_DYING, era))
                sb_retire_wait(peer, sb_offset_of(&peer->segment, block), era, false);
}

void sb_retire_pending(struct sb_peer *peer)
{
        uint32_t count = peer->pending_tail - peer->pending_head, kept = 0;
        struct sb_superblock *super = peer->segment.super;
        const struct sb_view *view = &peer->view;

        if (!count)
                return;
        /* A:observers, A:safe. */
        if (sb_load_acquire(&super->observers) &&
                peer->pending[peer->pending_head % SB_PENDING_MAX].stamp >
                        sb_load_acquire(&super->safe))
                sb_safe_raise(peer);
        sb_view_renew(peer);
        sb_pin(peer);
        while (count--) {
                struct sb_pending pending = peer->pending[peer->pending_head++ % SB_PENDING_MAX];

                if (pending.stamp > view->bound) {
                        sb_retire_later(peer, pending.cell_number, pending.stamp);
                        continue;
                }
                kept += sb_prune_cell(peer, pending.cell_number, view);
                sb_node_try_remove(peer, pending.cell_number, view);
        }
        sb_unpin(peer);
        /* An open snapshot needs it: whoever sweeps after that is closed finds it. */
        if (kept)
                sb_retire_leave(peer);
}

/* ---- freeing ---- */

struct batch {
        uint64_t blocked[(SB_LIMBO_MAX + 63) / 64];
        uint64_t filter[16]; /* which offsets are in limbo, roughly */
        uint32_t count;
};

static void block(struct batch *batch, uint32_t i)
{
        batch->blocked[i / 64] |= UINT64_C(1) << (i % 64);
}

static uint32_t filter_bit(uint64_t offset)
{
        return (uint32_t)((offset >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}

static bool retire_words_wait(const struct sb_limbo *limbo, struct sb_block *block_)
{
        struct sb_node *node = (struct sb_node *)block_;

        if (!(limbo->offset & FIRST_GRACE))
                return sb_load_acquire(&block_->retire) == limbo->era; /* A:retire. */
        /* A:retire, all three. */
        return !sb_load_acquire(&block_->retire) && sb_load_acquire(&node->cell) == SB_NODE_GONE &&
               sb_load_acquire(&node->unhooked) == limbo->era;
}

/* Kind and class as they were, before and after: so it is a block's start still, and its retire
 * word one; once our pin covers the era, the unit cannot have been anything else in between, nor
 * become it while we are pinned. */
static bool still_waits(struct sb_peer *peer, const struct sb_limbo *limbo, struct sb_block *block_)
{
        uint64_t offset = limbo->offset & ~FIRST_GRACE;

        return sb_slab_kind_of(&peer->segment, offset) == limbo->unit_kind &&
               retire_words_wait(limbo, block_) &&
               sb_slab_kind_of(&peer->segment, offset) == limbo->unit_kind;
}

#define FETCH_AHEAD 8u

/* What it takes to free a block: its retire word and its bit. */
static void fetch(const struct sb_segment *segment, const struct sb_limbo *limbo)
{
        uint64_t within = (limbo->offset & ~FIRST_GRACE) - segment->geometry.units_at;
        uint32_t class_ = limbo->unit_kind & 63, index = 0;

        if (class_ < segment->class_count)
                index = (uint32_t)(within & (segment->geometry.unit_size - 1)) /
                        segment->class_size[class_];
        __builtin_prefetch(segment->base + (limbo->offset & ~FIRST_GRACE), 1);
        __builtin_prefetch(
                segment->base + segment->geometry.bitmaps_at +
                        (within >> segment->unit_shift) * segment->geometry.bitmap_stride +
                        index / 8,
                1);
}

static void keep(
        struct sb_peer *peer, struct batch *batch, uint32_t i, const struct sb_limbo *limbo)
{
        uint32_t bit = filter_bit(limbo->offset & ~FIRST_GRACE);

        peer->limbo[i] = *limbo;
        batch->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
}

/* Forget what somebody else has brought further meanwhile (what is in hand, nobody has). Read under
 * our pin: what is dated before the pin's era cannot be dated the same in a later life; what is
 * dated in it cannot be freed by others. */
static void drop_stale(struct sb_peer *peer, struct batch *batch)
{
        uint32_t i, kept = 0;

        for (i = 0; i < peer->limbo_count; i++) {
                struct sb_limbo *limbo = &peer->limbo[i];
                uint64_t offset = limbo->offset & ~FIRST_GRACE;
                struct sb_block *block_ = sb_block_at(&peer->segment, offset);
                bool same;

                if (limbo->place) {
                        keep(peer, batch, kept++, limbo);
                        continue;
                }
                if (i + FETCH_AHEAD < peer->limbo_count && !peer->limbo[i + FETCH_AHEAD].place)
                        fetch(&peer->segment, &peer->limbo[i + FETCH_AHEAD]);
                do {
                        same = still_waits(peer, limbo, block_);
                } while (!sb_pin_covers(peer));
                if (!same)
                        continue;
                keep(peer, batch, kept++, limbo);
        }
        peer->limbo_count = kept;
        batch->count = kept;
}

static void mark_pinned(struct sb_peer *peer, struct batch *batch)
{
        /* A:roster. */
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high);
        uint32_t slot, i;

        for (slot = 0; slot < high && slot < peer->segment.geometry.client_count; slot++) {
                /* A:pins. The membarrier before has made every pin visible that covers a load
                 * before the unlink. */
                uint64_t pin = sb_load_acquire(&sb_client_at(&peer->segment, slot)->pin);
                uint32_t lo = (uint32_t)(pin >> 32), hi = (uint32_t)pin;

                if (!pin || slot == peer->slot || SB_FAULT(FREE_IGNORES_PINS))
                        continue;
                for (i = 0; i < batch->count; i++)
                        if (!sb_era_before(peer->limbo[i].era, lo) &&
                                !sb_era_before(hi, peer->limbo[i].birth))
                                block(batch, i);
        }
}

static void mark_guarded(struct sb_peer *peer, struct batch *batch)
{
        struct sb_segment *segment = &peer->segment;
        /* A:roster. */
        uint64_t high = sb_load_acquire(&segment->super->client_high), count, offset;
        uint32_t slot, i, index;

        for (slot = 0; slot < high && slot < segment->geometry.client_count &&
                       !SB_FAULT(FREE_IGNORES_GUARDS);
                slot++) {
                struct sb_client *client = sb_client_at(segment, slot);

                count = sb_load_acquire(&client->guard_high); /* A:guard. */
                for (index = 0; index < count && index < SB_GUARDS_MAX; index++) {
                        offset = sb_guard_read(segment, client, index);
                        if (!offset || !(batch->filter[filter_bit(offset) / 64] >>
                                                       (filter_bit(offset) % 64) &
                                               1))
                                continue;
                        for (i = 0; i < batch->count; i++)
                                if ((peer->limbo[i].offset & ~FIRST_GRACE) == offset)
                                        block(batch, i);
                }
        }
}

void sb_retire_dispose(struct sb_peer *peer, uint64_t offset)
{
        uint32_t kind = sb_slab_kind_of(&peer->segment, offset) >> 6;
        const struct sb_version *version = sb_block_at(&peer->segment, offset);
        struct sb_commit *commit = NULL;

        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_COMMIT &&
                (kind == SB_UNIT_VERSIONS || kind == SB_UNIT_LARGE))
                commit = sb_commit_at(&peer->segment, offset);

        if (commit)
                sb_txn_dispose(peer, commit);
}

static bool free_one(struct sb_peer *peer, const struct sb_limbo *limbo)
{
        struct sb_block *block_ = sb_block_at(&peer->segment, limbo->offset);

        /* R:freeing. Who finds us dead finds here what we may have won without clearing its bit. */
        sb_store_release(&peer->client->freeing, limbo->offset);
        if (SB_FAULT(FREE_TWO_WINNERS)) {
                sb_slab_clear(peer, limbo->offset);
                return true;
        }
        if (!sb_cas32_full(&block_->retire, limbo->era, SB_RETIRE_FREEING | peer->slot))
                return false;
        sb_retire_dispose(peer, limbo->offset);
        sb_slab_clear(peer, limbo->offset);
        return true;
}

/* What waits in hand becomes everybody's. Return: how much is in hand then. */
static uint32_t release_waiting(struct sb_peer *peer)
{
        uint32_t i;

        for (i = 0; i < peer->limbo_count; i++)
                if (peer->limbo[i].place)
                        sb_stock_release(peer, &peer->limbo[i]);
        return 0;
}

void sb_retire_release(struct sb_peer *peer)
{
        release_waiting(peer);
        sb_stock_empty(peer);
}

void sb_retire_expect(struct sb_peer *peer, uint32_t old)
{
        uint32_t stock;

        sb_stock_limit(peer);
        stock = peer->stock_limit;
        peer->limbo_ripe = UINT32_MAX;
        peer->limbo_wake = SB_LIMBO_MAX / 2;
        if (stock >= SB_STOCK_BATCH_MIN) {
                /* When nothing in stock is ready any more. */
                peer->limbo_wake = old + stock - stock / 16;
                peer->limbo_ripe = old + stock - stock / 8;
        } else if (SB_LIMBO_MAX >= SB_STOCK_BATCH_MIN) {
                peer->limbo_wake = SB_LIMBO_MAX / 2 + old / 2;
                peer->limbo_ripe = peer->limbo_wake - SB_LIMBO_MAX / 16;
        }
}

static void compact(struct sb_peer *peer)
{
        uint32_t i, kept = 0, held = 0;

        for (i = 0; i < peer->limbo_count; i++)
                if (peer->limbo[i].offset) {
                        held += peer->limbo[i].place != 0;
                        peer->limbo[kept++] = peer->limbo[i];
                }
        peer->limbo_count = kept;
        /* What somebody's pin or guard keeps is not for the stock. */
        if (held > peer->stock_limit / 2)
                held = release_waiting(peer);
        /* It is dated: the next sweep finds it, and here is room for more. */
        if (kept > SB_LIMBO_MAX / 2) {
                held = release_waiting(peer);
                peer->limbo_count = SB_LIMBO_MAX / 4;
                sb_retire_leave(peer);
        }
        sb_retire_expect(peer, peer->limbo_count - held);
}

uint64_t sb_retire_free(struct sb_peer *peer)
{
        struct batch batch = {0};
        uint64_t freed = 0;
        uint32_t i;

        if (peer->stock_short)
                sb_stock_empty(peer); /* blocks of classes that are not asked for any more */
        if (!peer->limbo_count)
                return 0;
        if (!peer->limbo_ripened)
                sb_era_advance(peer);
        peer->limbo_ripened = false;
        sb_pin(peer);
        drop_stale(peer, &batch);
        if (SB_FAULT(FREE_GUARDS_FIRST))
                mark_guarded(peer, &batch);
        if (!SB_FAULT(NO_MEMBARRIER))
                peer->segment.os->membarrier(peer->segment.os->context); /* M:pins. */
        mark_pinned(peer, &batch);
        if (!SB_FAULT(FREE_GUARDS_FIRST))
                mark_guarded(peer, &batch);
        for (i = 0; i < batch.count; i++) {
                struct sb_limbo limbo = peer->limbo[i];

                if ((batch.blocked[i / 64] >> (i % 64) & 1) &&
                        !(limbo.place && SB_FAULT(STOCK_NO_GRACE)))
                        continue;
                peer->limbo[i].offset = 0;
                if (limbo.place)
                        sb_stock_ready(peer, &limbo);
                else if (limbo.offset & FIRST_GRACE)
                        sb_node_second_look(
                                peer, sb_node_at(&peer->segment, limbo.offset & ~FIRST_GRACE));
                else
                        freed += free_one(peer, &limbo);
        }
        sb_store_release(&peer->client->freeing, 0); /* R:freeing. After the last bit. */
        sb_unpin(peer);
        compact(peer);
        return freed;
}
