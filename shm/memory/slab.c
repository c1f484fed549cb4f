/* Filling and emptying slab caches, giving slabs up, and large blocks; see slab.h. */

#include "shm/memory/slab.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/slab-search.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"

#define NO_UNIT     SB_SLAB_NO_UNIT
#define REFILL_FEW  2u  /* blocks */
#define COUNT_APART 16u /* slabs taken between two counts of the clients */
#define USED_MAX    256 /* blocks of a class: more do not count */
#define USED_WORTH  16u /* blocks: fewer are not worth a slab */
#define USED_LASTS  64u /* times that slabs are given up; then all counts are halved */
/* So many blocks are in a slab cache at most; in the model checker a scenario says how many. */
#ifndef SB_SLAB_TAKES
#define SB_SLAB_TAKES SB_SLAB_CACHE_MAX
#endif
#define EXHAUSTED_MAX                                                                              \
        ((uint32_t)(sizeof(((struct sb_handle *)0)->slabs.exhausted) / sizeof(uint32_t)))

/* Note a unit to give up when the operation is over. */
static void slab_exhaust(struct sb_handle *handle, uint32_t unit)
{
        /* What does not fit is found by its unit's word then. */
        if (SB_LIKELY(handle->slabs.exhausted_count < EXHAUSTED_MAX))
                handle->slabs.exhausted[handle->slabs.exhausted_count++] = unit;
        else
                handle->slabs.exhausted_many = true;
}

/* To be called before the bit is set. The fault ALLOC_BIT_FIRST leaves it to slab_reset_late(). */
static void slab_reset_first(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind)
{
        if (!SB_FAULT(ALLOC_BIT_FIRST))
                sb_unit_reset_block(handle, offset, kind);
}

static void slab_reset_late(
        struct sb_handle *handle, const struct sb_slab_cache *cache, enum sb_unit_kind kind)
{
        for (uint32_t i = 0; SB_FAULT(ALLOC_BIT_FIRST) && i < cache->count; i++)
                sb_unit_reset_block(handle, cache->offset[i], kind);
}

/* Prefetch a block. A write fills it and then waits for its stores: its lines are there by then. */
static void slab_fetch(
        const struct sb_segment *segment, uint64_t offset, uint64_t size, uint64_t from)
{
        for (uint64_t at = from; at < size && at < 4 * SB_LINE; at += SB_LINE)
                sb_prefetch(segment->base + offset + at);
}

/* Prefetch the blocks of the next refill: those of @free_mask, from @first on. */
static void slab_fetch_next(
        const struct sb_segment *segment, uint64_t first, uint64_t size, uint64_t free_mask)
{
        for (uint32_t i = 0; free_mask && i < SB_SLAB_CACHE_MAX; i++, free_mask &= free_mask - 1)
                slab_fetch(segment, first + (uint32_t)__builtin_ctzll(free_mask) * size, size, 0);
}

/* How many blocks to take at once. Where the slab is given up when the operation is over, few: what
 * is not used then must be given back, if it does not become spares. Of guards, one. */
static uint32_t slab_refill_count(
        const struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_)
{
        uint32_t wanted = SB_SLAB_TAKES, few;

        if (kind == SB_UNIT_GUARDS)
                return 1;
        if (SB_UNLIKELY(handle->slabs.many)) {
                wanted = kind == SB_UNIT_VERSIONS ? sb_spare_wants(handle, class_) : 0;
                /* One is used at once. */
                few = kind == SB_UNIT_NODES ? 1 : REFILL_FEW;
                wanted = wanted < few ? few : wanted;
        }
        return wanted < SB_SLAB_TAKES ? wanted : SB_SLAB_TAKES;
}

/* Move free blocks of the owned slab into its empty slab cache. */
static bool slab_refill_from(struct sb_handle *handle, struct sb_slab_cache *cache,
        enum sb_unit_kind kind, uint32_t class_)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t size = segment->class_size[class_], base = sb_unit_offset(segment, cache->unit);
        bool reserve = cache == &handle->slabs.tombstones;
        uint32_t wanted = slab_refill_count(handle, kind, class_), word,
                 block_count = sb_slab_search_block_count(handle, class_, reserve);

        for (word = 0; word * 64 < block_count; word++) {
                uint64_t free_mask = sb_unit_free_bits(segment, cache->unit, word, block_count),
                         taken = 0;
                struct sb_word64 *bits = &sb_unit_bitmap(segment, cache->unit)[word];

                while (free_mask && cache->count < wanted) {
                        uint64_t bit = free_mask & -free_mask;
                        uint64_t offset =
                                base + (word * 64 + (uint32_t)__builtin_ctzll(bit)) * size;

                        free_mask ^= bit;
                        taken |= bit;
                        slab_reset_first(handle, offset, kind);
                        slab_fetch(segment, offset, size, SB_LINE);
                        cache->offset[cache->count++] = offset;
                }
                if (!taken)
                        continue;
                /* R:block-taken. The reset comes first: a process that sees the bit sees a block
                 * that it may not free. */
                sb_or_full(bits, taken);
                for (uint32_t i = 0; i < cache->count; i++)
                        sb_model_block(cache->offset[i], size, 1);
                if (SB_LIKELY(!handle->slabs.many)) /* else the slab is given up before that */
                        slab_fetch_next(segment, base + word * 64 * size, size, free_mask);
                slab_reset_late(handle, cache, kind);
                return true;
        }
        return false;
}

/* Whether a slab of this kind and class is owned from now on. */
static void slab_note_owned(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_, bool owned)
{
        uint64_t *classes = &handle->slabs.owned[kind == SB_UNIT_NODES];

        *classes = (*classes & ~(UINT64_C(1) << class_)) | (uint64_t)owned << class_;
}

/* So many blocks of the class were taken, or fewer than none: they go back. They count as used. */
static void slab_note_used(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_, int32_t count)
{
        uint16_t *used = &handle->uses.blocks[kind == SB_UNIT_NODES][class_];

        count += *used;
        *used = (uint16_t)(count < 0 ? 0 : count < USED_MAX ? count : USED_MAX);
}

/* How many slabs an idle client may keep: a sixteenth of the units, shared out; but two for each
 * client, or one, as long as that is half of the units at most. However many clients there are, and
 * sizes that each of them once wrote: the other half is left for the next writer. */
static uint64_t slab_share(const struct sb_handle *handle)
{
        uint64_t unit_count = handle->segment.geometry.unit_count, share, least;

        if (unit_count < SB_UNITS_SHARED) /* so few cannot be shared out */
                return UINT64_MAX;
        share = unit_count / 16 / handle->slabs.clients;
        least = unit_count / 2 / handle->slabs.clients;
        least = least < 2 ? least : 2;
        return share < least ? least : share;
}

/* A slab was taken: whether there are more now than an idle client may keep. */
static void slab_look_at_share(struct sb_handle *handle)
{
        const uint64_t *owned = handle->slabs.owned;

        /* The engine's record counts, too. Clients come and go slowly, and slabs are taken fast. */
        if (handle->slabs.acquired++ % COUNT_APART == 0)
                handle->slabs.clients = sb_roster_count(&handle->segment);
        handle->slabs.many = (uint64_t)(__builtin_popcountll(owned[0]) +
                                        __builtin_popcountll(owned[1])) > slab_share(handle);
}

/* What was used long ago counts for less and less. */
static void slab_age_used(struct sb_handle *handle)
{
        if (SB_LIKELY(++handle->uses.left % USED_LASTS))
                return;
        for (uint32_t i = 0; i < SB_CLASS_MAX; i++) {
                handle->uses.blocks[0][i] /= 2;
                handle->uses.blocks[1][i] /= 2;
        }
}

/* Where there are: the slab cache that is kept all the same, the one that this client uses most; or
 * NULL. Once in an operation. */
static const struct sb_slab_cache *slab_kept(struct sb_handle *handle)
{
        const struct sb_slab_cache *kept = NULL;
        uint32_t most = USED_WORTH;

        slab_age_used(handle);
        if (!slab_share(handle))
                return NULL;
        for (uint32_t nodes = 0; nodes < 2; nodes++)
                for (uint64_t left = handle->slabs.owned[nodes]; left; left &= left - 1) {
                        uint32_t class_ = (uint32_t)__builtin_ctzll(left);
                        const struct sb_slab_cache *cache =
                                &(nodes ? handle->slabs.nodes : handle->slabs.versions)[class_];
                        uint32_t used = handle->uses.blocks[nodes][class_];

                        /* What is in the cache was taken, and not used yet. */
                        if (used < most + cache->count)
                                continue;
                        kept = cache;
                        most = used - cache->count;
                }
        return kept;
}

/* Whether the slabs of this kind, and out of this slab cache, are shared out: guards and the
 * reserve are not. */
static bool slab_is_shared_out(
        const struct sb_handle *handle, const struct sb_slab_cache *cache, enum sb_unit_kind kind)
{
        return kind != SB_UNIT_GUARDS && cache != &handle->slabs.tombstones;
}

/* Fill an empty slab cache, out of its slab or of another one. False: none has a free block. */
static bool slab_refill(struct sb_handle *handle, struct sb_slab_cache *cache,
        enum sb_unit_kind kind, uint32_t class_, enum sb_slab_effort effort)
{
        for (;;) {
                if (cache->unit != NO_UNIT) {
                        if (slab_refill_from(handle, cache, kind, class_)) {
                                if (slab_is_shared_out(handle, cache, kind))
                                        slab_note_used(handle, kind, class_, (int32_t)cache->count);
                                return true;
                        }
                        slab_exhaust(handle, cache->unit);
                        cache->unit = NO_UNIT;
                }
                cache->unit = sb_slab_search(
                        handle, kind, class_, effort, cache == &handle->slabs.tombstones);
                if (slab_is_shared_out(handle, cache, kind))
                        slab_note_owned(handle, kind, class_, cache->unit != NO_UNIT);
                if (cache->unit == NO_UNIT)
                        return false;
                slab_look_at_share(handle);
        }
}

static struct sb_slab_cache *slab_cache_of(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_)
{
        return kind == SB_UNIT_GUARDS  ? &handle->slabs.guards
               : kind == SB_UNIT_NODES ? &handle->slabs.nodes[class_]
                                       : &handle->slabs.versions[class_];
}

/* Take a large block: units in a row, the first of which names this client as the owner. */
static int slab_take_large(struct sb_handle *handle, uint64_t size, uint64_t *ret_offset)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t count = (size + segment->geometry.unit_size - 1) >> segment->unit_shift;
        uint32_t limit = segment->geometry.unit_count - segment->geometry.reserve_count, unit, i;

        if (count > limit)
                return SB_E_FULL;
        sb_era_advance(handle); /* As for a slab. */
        unit = sb_window_row(handle, (uint32_t)count, limit);
        if (unit == NO_UNIT)
                return SB_E_FULL;
        for (i = 0; i < count; i++)
                sb_unit_taken(segment, unit + i, 0);
        *ret_offset = sb_unit_offset(segment, unit);
        sb_unit_reset_block(handle, *ret_offset, SB_UNIT_VERSIONS);
        /* R:block-taken. As for small ones. */
        sb_or_full(&sb_unit_bitmap(segment, unit)[0], 1);
        sb_model_block(*ret_offset, count << segment->unit_shift, 1);
        slab_exhaust(handle, unit);
        return 0;
}

/* A slab cache that serves @class_ and is filled; NULL: none can be. */
static struct sb_slab_cache *slab_cache_serving(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_, uint32_t also)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_slab_cache *own = slab_cache_of(handle, kind, class_), *cache;
        uint32_t larger;

        handle->slabs.look_skipped = false;
        /* A bus that has come back with more units than its --size had gets no keys by what is free
         * in their slabs, or each start would need some more of them. */
        if (kind == SB_UNIT_NODES && !own->count && sb_slab_search_holds(handle, 0))
                return NULL;
        if (own->count || slab_refill(handle, own, kind, class_, SB_SLABS_FRESH))
                return own;
        for (larger = class_ + 1; (also & SB_SLAB_LARGER) && larger < segment->class_count;
                larger++) {
                cache = slab_cache_of(handle, kind, larger);
                if (cache->count || slab_refill(handle, cache, kind, larger, SB_SLABS_ALONE))
                        return cache;
        }
        if (handle->slabs.look_skipped &&
                slab_refill(handle, own, kind, class_, SB_SLABS_FRESH_LAST))
                return own;
        cache = &handle->slabs.tombstones;
        handle->slabs.takes_own = also & SB_SLAB_OWN;
        /* Its blocks are versions. */
        if ((also & SB_SLAB_RESERVE) && kind == SB_UNIT_VERSIONS &&
                class_ <= segment->reserve_class &&
                (cache->count || slab_refill(handle, cache, kind, segment->reserve_class,
                                         SB_SLABS_FRESH_LAST)))
                return cache;
        own->unit = kind == SB_UNIT_GUARDS ? NO_UNIT : sb_window_emptied(handle);
        if (own->unit == NO_UNIT)
                return NULL;
        sb_unit_set_slab(handle, own->unit, kind, class_);
        slab_note_owned(handle, kind, class_, true);
        return slab_refill(handle, own, kind, class_, SB_SLABS_ALONE) ? own : NULL;
}

int sb_slab_take(struct sb_handle *handle, enum sb_unit_kind kind, uint64_t size, uint32_t also,
        uint64_t *ret_offset)
{
        uint32_t class_ = sb_unit_class(&handle->segment, size);
        struct sb_slab_cache *cache;

        if (class_ == handle->segment.class_count)
                return slab_take_large(handle, size, ret_offset);
        cache = slab_cache_of(handle, kind, class_);
        if (kind == SB_UNIT_GUARDS && cache->unit != NO_UNIT) {
                /* Chunks differ in class: the next one needs another slab. */
                slab_exhaust(handle, cache->unit);
                cache->unit = NO_UNIT;
        }
        if (SB_UNLIKELY(!cache->count)) {
                cache = slab_cache_serving(handle, kind, class_, also);
                if (!cache)
                        return SB_E_FULL;
        }
        *ret_offset = cache->offset[--cache->count];
        return 0;
}

void sb_slab_give_back(struct sb_handle *handle, uint64_t offset)
{
        uint32_t unit = sb_unit_of(&handle->segment, offset);
        uint64_t word = sb_unit_word(&handle->segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        struct sb_slab_cache *cache;

        if (kind == SB_UNIT_LARGE) {
                /* R:block-freed. sb_slab_settle() gives the unit up, or it is kept. */
                sb_and_full(&sb_unit_bitmap(&handle->segment, unit)[0], ~UINT64_C(1));
                sb_model_block(offset,
                        (uint64_t)sb_unit_large_count(&handle->segment, unit)
                                << handle->segment.unit_shift,
                        0);
                sb_window_keep(handle);
                return;
        }
        cache = unit == handle->slabs.tombstones.unit
                        ? &handle->slabs.tombstones
                        : slab_cache_of(handle, kind, SB_UNIT_CLASS(word));
        if (cache->unit == unit && cache->count < SB_SLAB_TAKES) {
                sb_unit_reset_block(handle, offset, kind);
                cache->offset[cache->count++] = offset;
                return;
        }
        sb_unit_clear(handle, offset);
}

static void slab_release(struct sb_handle *handle, struct sb_slab_cache *cache)
{
        while (cache->count)
                sb_unit_clear(handle, cache->offset[--cache->count]);
        if (cache->unit != NO_UNIT) {
                sb_unit_give_up(handle, cache->unit);
                cache->unit = NO_UNIT;
        }
}

static bool slab_is_cached(const struct sb_handle *handle, enum sb_unit_kind kind, uint32_t unit)
{
        uint32_t i;

        if (kind == SB_UNIT_GUARDS)
                return handle->slabs.guards.unit == unit;
        for (i = 0; i < handle->segment.class_count; i++)
                if ((kind == SB_UNIT_NODES ? &handle->slabs.nodes[i] : &handle->slabs.versions[i])
                                ->unit == unit)
                        return true;
        return handle->slabs.tombstones.unit == unit;
}

/* What ran out is given up, but for what a client that waits needs at its next try. */
static void slab_give_up(struct sb_handle *handle, uint32_t unit)
{
        if (!sb_window_keeps(handle, unit))
                sb_unit_give_up(handle, unit);
}

/* After an operation that took more slabs than the list holds: give up all owned units out of which
 * no slab cache is filled. What the list had is another client's by now, perhaps. */
static void slab_give_up_rest(struct sb_handle *handle)
{
        uint32_t unit;

        for (unit = 0; unit < handle->segment.geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(&handle->segment, unit);

                if (word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                        SB_UNIT_OWNER(word) == sb_unit_owner(handle) &&
                        !slab_is_cached(handle, SB_UNIT_KIND(word), unit) &&
                        !sb_window_has(handle, unit))
                        slab_give_up(handle, unit);
        }
        handle->slabs.exhausted_many = false;
}

/* Make spares of what is in the slab cache of a class, if that is wanted. */
static void slab_keep_spares(struct sb_handle *handle, uint32_t class_)
{
        struct sb_slab_cache *cache = &handle->slabs.versions[class_];
        uint32_t wanted = sb_spare_wants(handle, class_);

        while (wanted-- && cache->count && sb_spare_keep(handle, cache->offset[cache->count - 1]))
                cache->count--;
}

/* Give up the slabs and what is in their caches; @leave: behind an operation, after which the
 * client goes on: not the blocks for its next writes, nor the slab that it may keep. */
static void slab_release_classes(struct sb_handle *handle, bool leave)
{
        const struct sb_slab_cache *kept = leave ? slab_kept(handle) : NULL;

        for (enum sb_unit_kind kind = SB_UNIT_VERSIONS; kind <= SB_UNIT_NODES; kind++)
                for (uint64_t left = handle->slabs.owned[kind == SB_UNIT_NODES]; left;
                        left &= left - 1) {
                        uint32_t class_ = (uint32_t)__builtin_ctzll(left);

                        struct sb_slab_cache *cache = slab_cache_of(handle, kind, class_);

                        if (cache == kept)
                                continue;
                        if (leave && kind == SB_UNIT_VERSIONS)
                                slab_keep_spares(handle, class_);
                        slab_note_used(handle, kind, class_, -(int32_t)cache->count);
                        slab_note_owned(handle, kind, class_, false);
                        slab_release(handle, cache);
                }
        handle->slabs.many = false;
}

void sb_slab_settle_some(struct sb_handle *handle)
{
        while (SB_UNLIKELY(handle->slabs.exhausted_count))
                slab_give_up(handle, handle->slabs.exhausted[--handle->slabs.exhausted_count]);
        if (SB_UNLIKELY(handle->slabs.exhausted_many))
                slab_give_up_rest(handle);
        /* The reserve is there for all clients: none keeps a part of it for later. */
        if (SB_UNLIKELY(handle->slabs.tombstones.unit != NO_UNIT))
                slab_release(handle, &handle->slabs.tombstones);
        if (SB_UNLIKELY(handle->slabs.many))
                slab_release_classes(handle, true);
}

void sb_slab_leave_guards(struct sb_handle *handle)
{
        slab_release(handle, &handle->slabs.guards);
}

void sb_slab_release_all(struct sb_handle *handle)
{
        sb_slab_settle(handle);
        slab_release_classes(handle, false);
        sb_slab_leave_guards(handle);
        slab_release(handle, &handle->slabs.tombstones);
}

void sb_slab_init(struct sb_handle *handle)
{
        uint32_t i;

        for (i = 0; i < SB_CLASS_MAX; i++)
                handle->slabs.versions[i].unit = handle->slabs.nodes[i].unit = NO_UNIT;
        handle->slabs.tombstones.unit = handle->slabs.guards.unit = NO_UNIT;
}
