/* Which blocks in limbo are free to go; see grace.h. */

#include "shm/memory/grace.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"

static void block(struct sb_grace *grace, uint32_t i)
{
        grace->blocked[i / 64] |= UINT64_C(1) << (i % 64);
}

static uint32_t filter_bit(uint64_t offset)
{
        return (uint32_t)((offset >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}

static bool retire_words_wait(const struct sb_limbo_entry *limbo, struct sb_block *block_)
{
        struct sb_node *node = (struct sb_node *)block_;

        if (!(limbo->offset & SB_LIMBO_FIRST_GRACE))
                return sb_load_acquire(&block_->retire) == limbo->era; /* A:retire. */
        /* A:retire, all three. */
        return !sb_load_acquire(&block_->retire) && sb_load_acquire(&node->cell) == SB_NODE_GONE &&
               sb_load_acquire(&node->unhooked) == limbo->era;
}

/* Kind and class as they were, before and after: so it is a block's start still, and its retire
 * word one; once our pin covers the era, the unit cannot have been anything else in between, nor
 * become it while we are pinned. */
static bool still_waits(
        struct sb_peer *peer, const struct sb_limbo_entry *limbo, struct sb_block *block_)
{
        uint64_t offset = limbo->offset & ~SB_LIMBO_FIRST_GRACE;

        return sb_unit_kind_of(&peer->segment, offset) == limbo->unit_kind &&
               retire_words_wait(limbo, block_) &&
               sb_unit_kind_of(&peer->segment, offset) == limbo->unit_kind;
}

#define FETCH_AHEAD 8u

/* What it takes to free a block: its retire word and its bit. */
static void fetch(const struct sb_segment *segment, const struct sb_limbo_entry *limbo)
{
        uint64_t within = (limbo->offset & ~SB_LIMBO_FIRST_GRACE) - segment->geometry.units_at;
        uint32_t class_ = limbo->unit_kind & 63, index = 0;

        if (class_ < segment->class_count)
                index = (uint32_t)(within & (segment->geometry.unit_size - 1)) /
                        segment->class_size[class_];
        __builtin_prefetch(segment->base + (limbo->offset & ~SB_LIMBO_FIRST_GRACE), 1);
        __builtin_prefetch(
                segment->base + segment->geometry.bitmaps_at +
                        (within >> segment->unit_shift) * segment->geometry.bitmap_stride +
                        index / 8,
                1);
}

static void keep(struct sb_peer *peer, struct sb_grace *grace, uint32_t i,
        const struct sb_limbo_entry *limbo)
{
        uint32_t bit = filter_bit(limbo->offset & ~SB_LIMBO_FIRST_GRACE);

        peer->limbo.entries[i] = *limbo;
        grace->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
}

/* Forget what somebody else has brought further meanwhile (what is in hand, nobody has). Read under
 * our pin: what is dated before the pin's era cannot be dated the same in a later life; what is
 * dated in it cannot be freed by others. */
static void drop_stale(struct sb_peer *peer, struct sb_grace *grace)
{
        uint32_t i, kept = 0;

        for (i = 0; i < peer->limbo.count; i++) {
                struct sb_limbo_entry *limbo = &peer->limbo.entries[i];
                uint64_t offset = limbo->offset & ~SB_LIMBO_FIRST_GRACE;
                struct sb_block *block_ = sb_block_at(&peer->segment, offset);
                bool same;

                if (limbo->held) {
                        keep(peer, grace, kept++, limbo);
                        continue;
                }
                if (i + FETCH_AHEAD < peer->limbo.count &&
                        !peer->limbo.entries[i + FETCH_AHEAD].held)
                        fetch(&peer->segment, &peer->limbo.entries[i + FETCH_AHEAD]);
                do {
                        same = still_waits(peer, limbo, block_);
                } while (!sb_pin_covers(peer));
                if (!same)
                        continue;
                keep(peer, grace, kept++, limbo);
        }
        peer->limbo.count = kept;
        grace->count = kept;
}

static void mark_pinned(struct sb_peer *peer, struct sb_grace *grace)
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
                for (i = 0; i < grace->count; i++)
                        if (!sb_era_before(peer->limbo.entries[i].era, lo) &&
                                !sb_era_before(hi, peer->limbo.entries[i].birth))
                                block(grace, i);
        }
}

static void mark_guarded(struct sb_peer *peer, struct sb_grace *grace)
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
                        if (!offset || !(grace->filter[filter_bit(offset) / 64] >>
                                                       (filter_bit(offset) % 64) &
                                               1))
                                continue;
                        for (i = 0; i < grace->count; i++)
                                if ((peer->limbo.entries[i].offset & ~SB_LIMBO_FIRST_GRACE) ==
                                        offset)
                                        block(grace, i);
                }
        }
}

void sb_grace_look(struct sb_peer *peer, struct sb_grace *ret)
{
        memset(ret, 0, sizeof(*ret));
        if (!peer->limbo.ripened)
                sb_era_advance(peer);
        peer->limbo.ripened = false;
        sb_pin(peer);
        drop_stale(peer, ret);
        if (SB_FAULT(FREE_GUARDS_FIRST))
                mark_guarded(peer, ret);
        if (!SB_FAULT(NO_MEMBARRIER))
                peer->segment.os->membarrier(peer->segment.os->context); /* M:pins. */
        mark_pinned(peer, ret);
        if (!SB_FAULT(FREE_GUARDS_FIRST))
                mark_guarded(peer, ret);
}

void sb_grace_end(struct sb_peer *peer)
{
        uint32_t i, kept = 0, held = 0;

        for (i = 0; i < peer->limbo.count; i++)
                if (peer->limbo.entries[i].offset) {
                        held += peer->limbo.entries[i].held != 0;
                        peer->limbo.entries[kept++] = peer->limbo.entries[i];
                }
        peer->limbo.count = kept;
        /* What somebody's pin or guard keeps is not for the stock. */
        if (held > peer->magazine.limit / 2)
                held = sb_stock_release_waiting(peer);
        /* It is dated: the next sweep finds it, and here is room for more. */
        if (kept > SB_LIMBO_MAX / 2) {
                held = sb_stock_release_waiting(peer);
                peer->limbo.count = SB_LIMBO_MAX / 4;
                sb_limbo_leave(peer);
        }
        sb_stock_expect(peer, peer->limbo.count - held);
}
