/*
 * Finding units for slabs and large blocks, and filling the slab cache; see slab.h.
 *
 * Slabs are looked for from where the last search ended, unit by unit, with growing effort (enum
 * effort). Large blocks are looked for from the top of the segment, where slabs leave them runs.
 */

#include "shm/memory/slab.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"

#define NO_UNIT      UINT32_MAX
#define UNITS_SHARED 64u
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

/* Make a slab EMPTY that has no owner and no blocks. */
static void slab_empty(struct sb_handle *handle, uint32_t unit, uint64_t word)
{
        if (SB_UNIT_OWNER(word) || !SB_UNIT_KIND(word) || SB_UNIT_KIND(word) >= SB_UNIT_LARGE ||
                !sb_unit_is_empty(&handle->segment, unit))
                return;
        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (sb_cas64_full(&handle->segment.unit_words[unit], word, word | sb_unit_owner(handle)))
                sb_unit_give_up(handle, unit);
}

/* EASY: a fresh unit, an EMPTY one, or a slab without an owner that has a quarter free.
 * ANY_FREE_BLOCK: such a slab with any free block. AFTER_GRACE: a new look at all pins comes first,
 * by which more EMPTY units may serve another kind or class. */
enum effort { EASY, ANY_FREE_BLOCK, AFTER_GRACE, EFFORTS };

#define LOOK_BELOW 16u /* units, at most */
#define LOOK_AT    64u /* more would cost more than they find */

struct search {
        uint64_t wanted; /* the unit's word, with this client as its owner */
        uint32_t first, count, block_count;
        enum effort effort;
        uint32_t looked_at;        /* slabs that serve but have less than a quarter free */
        uint32_t best, best_count; /* the emptiest of them: taken after LOOK_AT */
        uint32_t next;             /* where the next search goes on */
        bool roomy;                /* only a slab that is three quarters free will do */
};

/* Whether the unit, of which the word is @word, serves. If it does, this client owns it now. */
static bool slab_try_unit(
        struct sb_handle *handle, struct search *search, uint32_t unit, uint64_t word)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t unowned = search->wanted & ~UINT64_C(0x003fffffffffffff);
        bool same = true; /* kind and class as before */

        if (word == unowned) {
                uint32_t free_count = sb_unit_count_free(segment, unit, search->block_count);

                if (!free_count || (search->roomy && free_count * 4 < search->block_count * 3))
                        return false;
                if (search->effort == EASY && free_count * 4 < search->block_count) {
                        search->looked_at++;
                        if (free_count > search->best_count) {
                                search->best = unit;
                                search->best_count = free_count;
                        }
                        return false;
                }
        } else if (SB_UNIT_KIND(word) == SB_UNIT_EMPTY) {
                same = SB_UNIT_CLASS(word) == SB_UNIT_CLASS(unowned) &&
                       (SB_UNIT_OWNER(word) >> 32) == SB_UNIT_KIND(unowned);
                if (!same && !sb_unit_past_grace(handle, unit, word))
                        return false;
        } else if (word == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0)) {
                sb_unit_finish_large(handle, unit);
                return false;
        } else if (word) {
                if (search->effort == ANY_FREE_BLOCK)
                        slab_empty(handle, unit, word);
                return false;
        } else {
                same = false;
        }
        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (!sb_cas64_full(&segment->unit_words[unit], word, search->wanted))
                return false;
        if (!same)
                sb_unit_set_birth(handle, unit);
        return true;
}

/* Before the fresh unit @fresh is broken into: a slab further down that is nearly empty. So on a
 * bus with few keys slabs stay at the low end. They would wander up with the search, until each run
 * of units that a large value needs had some block of theirs in it. Where to look depends on
 * @fresh: elsewhere each time. */
static uint32_t slab_search_below(struct sb_handle *handle, struct search *search, uint32_t fresh)
{
        uint32_t i, unit, from = (uint32_t)((uint64_t)(fresh * UINT32_C(2654435769)) * fresh >> 32);

        search->roomy = true;
        for (i = 0; i < LOOK_BELOW && i < fresh; i++) {
                unit = (from + i) % fresh;
                if (sb_unit_word(&handle->segment, unit) &&
                        slab_try_unit(handle, search, unit, sb_unit_word(&handle->segment, unit)))
                        break;
        }
        search->roomy = false;
        if (i == LOOK_BELOW || i == fresh)
                return NO_UNIT;
        search->next = unit;
        return unit;
}

/* One round over the units, with the effort of this round. Return: the unit that this client owns
 * now, or NO_UNIT. */
static uint32_t slab_search(struct sb_handle *handle, struct search *search)
{
        uint32_t i, unit,
                start = handle->slabs.search_unit >= search->first
                                ? handle->slabs.search_unit - search->first
                                : 0;

        for (i = 0; i < search->count && search->looked_at < LOOK_AT; i++) {
                uint64_t word;

                unit = search->first + (start + i) % search->count;
                word = sb_unit_word(&handle->segment, unit);
                if (!word && !search->first && search->effort == EASY) {
                        uint32_t below = slab_search_below(handle, search, unit);

                        if (below != NO_UNIT)
                                return below;
                }
                search->next = unit;
                if (slab_try_unit(handle, search, unit, word))
                        return unit;
        }
        search->looked_at = 0;
        unit = search->best;
        if (unit != NO_UNIT) {
                uint64_t unowned = search->wanted & ~UINT64_C(0x003fffffffffffff);

                search->best = NO_UNIT;
                /* R:unit-owned > A:unit-owned. It may have an owner by now. */
                if (sb_cas64_full(&handle->segment.unit_words[unit], unowned, search->wanted))
                        return unit;
        }
        return NO_UNIT;
}

/* Become the owner of a unit that serves as a slab. Return: the unit, or NO_UNIT. */
static uint32_t slab_acquire(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_, bool reserve)
{
        const struct sb_geometry *g = &handle->segment.geometry;
        struct search search = {
                .wanted = SB_UNIT_WORD(kind, class_, 0, 0) | sb_unit_owner(handle),
                .count = g->unit_count - g->reserve_count,
                .best = NO_UNIT,
        };
        uint32_t unit = NO_UNIT;

        /* Eras pass with what is taken, too: a client that is stopped protects nothing younger. */
        sb_era_advance(handle);
        search.block_count = sb_unit_block_count(&handle->segment, search.wanted);
        if (reserve) {
                search.first = search.count;
                search.count = g->reserve_count;
        }
        for (; search.effort < EFFORTS && unit == NO_UNIT; search.effort++) {
                if (search.effort == AFTER_GRACE)
                        sb_era_look(handle);
                unit = slab_search(handle, &search);
        }
        if (unit != NO_UNIT && !reserve)
                handle->slabs.search_unit = search.next;
        return unit;
}

static void slab_reset_words(struct sb_block *block, enum sb_unit_kind kind)
{
        if (kind == SB_UNIT_NODES) {
                /* Relaxed, both: ordered by the release below. */
                sb_store_relaxed(&((struct sb_node *)block)->cell, 0);
                sb_store_relaxed(&((struct sb_node *)block)->unhooked, 0);
        } else if (kind == SB_UNIT_GUARDS) {
                ((struct sb_guard_chunk *)block)->owner = 0;
        }
        /* R:retire > A:retire. It comes last: a process that holds the offset from the life before,
         * and finds 0 here, finds nothing else of that life. */
        sb_store_release(&block->retire, 0);
}

/* Begin another life of a block. A process that holds its offset may look at it just now. */
static void slab_reset(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind)
{
        sb_model_unchecked_begin();
        slab_reset_words(sb_block_at(&handle->segment, offset), kind);
        sb_model_unchecked_end();
}

/* To be called before the bit is set. The fault ALLOC_BIT_FIRST leaves it to slab_reset_late(). */
static void slab_reset_first(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind)
{
        if (!SB_FAULT(ALLOC_BIT_FIRST))
                slab_reset(handle, offset, kind);
}

static void slab_reset_late(
        struct sb_handle *handle, const struct sb_slab_cache *cache, enum sb_unit_kind kind)
{
        for (uint32_t i = 0; SB_FAULT(ALLOC_BIT_FIRST) && i < cache->count; i++)
                slab_reset(handle, cache->offset[i], kind);
}

/* Tell the model checker which blocks were taken. */
static void slab_tell(const struct sb_slab_cache *cache, uint64_t size)
{
        for (uint32_t i = 0; i < cache->count; i++)
                sb_model_block(cache->offset[i], size, 1);
}

/* Prefetch a block. A write fills it and then waits for its stores: its lines are there by then. */
static void slab_fetch(
        const struct sb_segment *segment, uint64_t offset, uint64_t size, uint64_t from)
{
        for (uint64_t at = from; at < size && at < 4 * SB_LINE; at += SB_LINE)
                __builtin_prefetch(segment->base + offset + at, 1);
}

/* Prefetch the blocks of the next refill: those of @free_mask, from @first on. */
static void slab_fetch_next(
        const struct sb_segment *segment, uint64_t first, uint64_t size, uint64_t free_mask)
{
        for (uint32_t i = 0; free_mask && i < SB_SLAB_CACHE_MAX; i++, free_mask &= free_mask - 1)
                slab_fetch(segment, first + (uint32_t)__builtin_ctzll(free_mask) * size, size, 0);
}

/* Move up to SB_SLAB_CACHE_MAX free blocks of the owned slab into its empty slab cache. */
static bool slab_refill_from(struct sb_handle *handle, struct sb_slab_cache *cache,
        enum sb_unit_kind kind, uint32_t class_)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t size = segment->class_size[class_], base = sb_unit_offset(segment, cache->unit);
        uint32_t block_count = segment->geometry.unit_size / (uint32_t)size, word;

        for (word = 0; word * 64 < block_count; word++) {
                uint64_t free_mask = sb_unit_free_bits(segment, cache->unit, word, block_count),
                         taken = 0;
                struct sb_word64 *bits = &sb_unit_bitmap(segment, cache->unit)[word];

                while (free_mask && cache->count < SB_SLAB_CACHE_MAX) {
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
                slab_tell(cache, size);
                slab_fetch_next(segment, base + word * 64 * size, size, free_mask);
                slab_reset_late(handle, cache, kind);
                return true;
        }
        return false;
}

/* Whether this client owns more slabs than an idle client may keep. However many clients there are,
 * and sizes that each of them once wrote: a quarter of the units is left for the next writer. */
static bool slab_has_many(const struct sb_handle *handle)
{
        uint64_t unit_count = handle->segment.geometry.unit_count;
        /* The engine's too. */
        uint64_t clients = sb_roster_count(&handle->segment), count = 0;

        if (unit_count < UNITS_SHARED) /* so few cannot be shared out */
                return false;
        for (uint32_t i = 0; i < handle->segment.class_count; i++)
                count += (handle->slabs.versions[i].unit != NO_UNIT) +
                         (handle->slabs.nodes[i].unit != NO_UNIT);
        /* A sixteenth of the units, shared out; but two for each client, while those are few. */
        return count * clients > unit_count / 16 && (count > 2 || clients > unit_count / 4);
}

/* Fill an empty slab cache, out of its slab or of another one. False: none has a free block. */
static bool slab_refill(struct sb_handle *handle, struct sb_slab_cache *cache,
        enum sb_unit_kind kind, uint32_t class_)
{
        for (;;) {
                if (cache->unit != NO_UNIT) {
                        if (slab_refill_from(handle, cache, kind, class_))
                                return true;
                        slab_exhaust(handle, cache->unit);
                        cache->unit = NO_UNIT;
                }
                cache->unit =
                        slab_acquire(handle, kind, class_, cache == &handle->slabs.tombstones);
                if (cache->unit == NO_UNIT)
                        return false;
                handle->slabs.many = slab_has_many(handle);
        }
}

static struct sb_slab_cache *slab_cache_of(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_)
{
        return kind == SB_UNIT_GUARDS  ? &handle->slabs.guards
               : kind == SB_UNIT_NODES ? &handle->slabs.nodes[class_]
                                       : &handle->slabs.versions[class_];
}

/* Claim @count units in a row: the head names the owner, each part names the head. Return: how many
 * could be claimed; if that is fewer than @count, they are given back. */
static uint32_t slab_claim_run(struct sb_handle *handle, uint32_t first, uint32_t count)
{
        struct sb_word64 *words = handle->segment.unit_words;
        uint32_t claimed = 1;

        /* R:unit-owned > A:unit-owned. The head first, so that the reaper finds the parts. */
        if (!sb_cas64_full(
                    &words[first], 0, SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(handle)))
                return 0;
        while (claimed < count && /* R:unit-owned. As above. */
                sb_cas64_full(&words[first + claimed], 0, SB_UNIT_WORD(SB_UNIT_PART, 0, 0, first)))
                claimed++;
        sb_unit_set_birth(handle, first);
        if (claimed < count)
                sb_unit_free_large(handle, first);
        return claimed;
}

/* Make FREE what is EMPTY and past its grace period, and slabs without an owner that are empty: so
 * that a run of units can be found. Below @limit. */
static void slab_free_empty(struct sb_handle *handle, uint32_t limit)
{
        uint32_t unit;

        for (unit = 0; unit < limit; unit++) {
                uint64_t word = sb_unit_word(&handle->segment, unit);

                if (word == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0))
                        sb_unit_finish_large(handle, unit);
                else
                        slab_empty(handle, unit, word);
        }
        sb_era_look(handle);
        for (unit = 0; unit < limit; unit++) {
                uint64_t word = sb_unit_word(&handle->segment, unit);

                if (sb_unit_past_grace(handle, unit, word))
                        /* R:unit-owned > A:unit-owned. The unit may be taken again by now. */
                        sb_cas64_full(&handle->segment.unit_words[unit], word, 0);
        }
}

/* Take a large block: units in a row, the first of which names this client as the owner. */
static int slab_take_large(struct sb_handle *handle, uint64_t size, uint64_t *ret_offset)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t count = (size + segment->geometry.unit_size - 1) >> segment->unit_shift;
        uint32_t limit = segment->geometry.unit_count - segment->geometry.reserve_count, end, unit,
                 run, round;

        if (count > limit)
                return SB_E_FULL;
        sb_era_advance(handle); /* As for a slab. */
        for (round = 0; round < 2; round++) {
                /* From the top: slabs are taken from below, so that runs stay. */
                for (end = limit; end >= count;) {
                        for (run = 0; run < count && !sb_unit_word(segment, end - 1 - run); run++)
                                ;
                        if (run < count) {
                                end -= run + 1;
                                continue;
                        }
                        unit = end - (uint32_t)count;
                        run = slab_claim_run(handle, unit, (uint32_t)count);
                        if (run < count) {
                                end = unit + run;
                                continue;
                        }
                        *ret_offset = sb_unit_offset(segment, unit);
                        slab_reset(handle, *ret_offset, SB_UNIT_VERSIONS);
                        /* R:block-taken. As for small ones. */
                        sb_or_full(&sb_unit_bitmap(segment, unit)[0], 1);
                        sb_model_block(*ret_offset, count << segment->unit_shift, 1);
                        slab_exhaust(handle, unit);
                        return 0;
                }
                slab_free_empty(handle, limit);
        }
        return SB_E_FULL;
}

/* A slab cache that serves @class_ and is filled; NULL: none can be. */
static struct sb_slab_cache *slab_cache_serving(
        struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_, uint32_t also)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t end = (also & SB_SLAB_LARGER) ? segment->class_count : class_ + 1, larger;
        struct sb_slab_cache *cache;

        for (larger = class_; larger < end; larger++) {
                cache = slab_cache_of(handle, kind, larger);
                if (cache->count || slab_refill(handle, cache, kind, larger))
                        return cache;
        }
        if (!(also & SB_SLAB_RESERVE) || class_ > segment->reserve_class)
                return NULL;
        cache = &handle->slabs.tombstones;
        return cache->count || slab_refill(handle, cache, kind, segment->reserve_class) ? cache
                                                                                        : NULL;
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
                /* Chunks differ in class and are rare: each has a slab, given up at once. */
                slab_exhaust(handle, cache->unit);
                cache->unit = NO_UNIT;
                while (cache->count)
                        sb_unit_clear(handle, cache->offset[--cache->count]);
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
                /* R:block-freed. sb_slab_settle() gives the unit up. */
                sb_and_full(&sb_unit_bitmap(&handle->segment, unit)[0], ~UINT64_C(1));
                sb_model_block(offset,
                        (uint64_t)sb_unit_large_count(&handle->segment, unit)
                                << handle->segment.unit_shift,
                        0);
                return;
        }
        cache = unit == handle->slabs.tombstones.unit
                        ? &handle->slabs.tombstones
                        : slab_cache_of(handle, kind, SB_UNIT_CLASS(word));
        if (cache->unit == unit && cache->count < SB_SLAB_CACHE_MAX) {
                slab_reset(handle, offset, kind);
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

/* After an operation that took more slabs than the list holds: give up all owned units out of which
 * no slab cache is filled. */
static void slab_give_up_all(struct sb_handle *handle)
{
        uint32_t unit;

        for (unit = 0; unit < handle->segment.geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(&handle->segment, unit);

                if (word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                        SB_UNIT_OWNER(word) == sb_unit_owner(handle) &&
                        !slab_is_cached(handle, SB_UNIT_KIND(word), unit))
                        sb_unit_give_up(handle, unit);
        }
        handle->slabs.exhausted_count = 0;
        handle->slabs.exhausted_many = false;
}

static void slab_release_classes(struct sb_handle *handle)
{
        for (uint32_t i = 0; i < SB_CLASS_MAX; i++) {
                slab_release(handle, &handle->slabs.versions[i]);
                slab_release(handle, &handle->slabs.nodes[i]);
        }
        handle->slabs.many = false;
}

void sb_slab_settle_some(struct sb_handle *handle)
{
        if (SB_UNLIKELY(handle->slabs.exhausted_many))
                slab_give_up_all(handle);
        while (SB_UNLIKELY(handle->slabs.exhausted_count))
                sb_unit_give_up(handle, handle->slabs.exhausted[--handle->slabs.exhausted_count]);
        /* The reserve is there for all clients: none keeps a part of it for later. */
        if (SB_UNLIKELY(handle->slabs.tombstones.unit != NO_UNIT))
                slab_release(handle, &handle->slabs.tombstones);
        if (SB_UNLIKELY(handle->slabs.many))
                slab_release_classes(handle);
}

void sb_slab_release_all(struct sb_handle *handle)
{
        sb_slab_settle(handle);
        slab_release_classes(handle);
        slab_release(handle, &handle->slabs.guards);
        slab_release(handle, &handle->slabs.tombstones);
}

void sb_slab_init(struct sb_handle *handle)
{
        const struct sb_geometry *geometry = &handle->segment.geometry;
        uint32_t i;

        /* Clients begin apart from each other, so that they seldom want the same slab. */
        handle->slabs.search_unit = handle->slot % (geometry->unit_count - geometry->reserve_count);
        for (i = 0; i < SB_CLASS_MAX; i++)
                handle->slabs.versions[i].unit = handle->slabs.nodes[i].unit = NO_UNIT;
        handle->slabs.tombstones.unit = handle->slabs.guards.unit = NO_UNIT;
}
