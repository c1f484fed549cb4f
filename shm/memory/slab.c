/* Slabs and blocks: taking memory and giving it back; see slab.h. */

#include "shm/memory/slab.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"

#define NO_UNIT      UINT32_MAX
#define UNITS_SHARED 64u
#define EXHAUSTED_MAX                                                                              \
        ((uint32_t)(sizeof(((struct sb_peer *)0)->slabs.exhausted) / sizeof(uint32_t)))

static void exhaust(struct sb_peer *peer, uint32_t unit)
{
        /* More than fit are found by their words, when the operation is over. */
        if (SB_LIKELY(peer->slabs.exhausted_count < EXHAUSTED_MAX))
                peer->slabs.exhausted[peer->slabs.exhausted_count++] = unit;
        else
                peer->slabs.exhausted_many = true;
}

/* Make an EMPTY unit of a slab of nobody's in which no block is left. */
static void empty_slab(struct sb_peer *peer, uint32_t unit, uint64_t word)
{
        if (SB_UNIT_OWNER(word) || !SB_UNIT_KIND(word) || SB_UNIT_KIND(word) >= SB_UNIT_LARGE ||
                !sb_unit_is_empty(&peer->segment, unit))
                return;
        if (sb_cas64_full(&peer->segment.unit_words[unit], word, word | sb_unit_owner(peer)))
                sb_unit_give_up(peer, unit);
}

enum effort { EASY, ANY_FREE_BLOCK, AFTER_GRACE, EFFORTS };

struct search {
        uint64_t wanted; /* unit word with us as the owner */
        uint32_t first, count, block_count;
        enum effort effort;
        /* slabs of this class without an owner, with less than a quarter free */
        uint32_t looked_at;
        uint32_t best, best_count; /* the emptiest of them */
        uint32_t next;             /* where the next search goes on */
        bool roomy;                /* only what is three quarters free will do */
};
#define LOOK_BELOW 16u
#define LOOK_AT                                                                                    \
        64u /* of those, before the emptiest is taken: a search of the whole segment would cost    \
               more than it finds */

/* Whether the unit, whose word is @word, serves; if so it is ours now. */
static bool try_unit(struct sb_peer *peer, struct search *search, uint32_t unit, uint64_t word)
{
        const struct sb_segment *segment = &peer->segment;
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
                if (!same && !sb_unit_past_grace(peer, unit, word))
                        return false;
        } else if (word == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0)) {
                sb_unit_finish_large(peer, unit);
                return false;
        } else if (word) {
                if (search->effort == ANY_FREE_BLOCK)
                        empty_slab(peer, unit, word);
                return false;
        } else {
                same = false;
        }
        if (!sb_cas64_full(&segment->unit_words[unit], word, search->wanted))
                return false;
        if (!same)
                sb_unit_set_birth(peer, unit);
        return true;
}

/* Before the never used unit @fresh is broken: a slab further down that is nearly empty. On a bus
 * with few keys slabs so stay at the low end, and do not wander up with the search until some block
 * of them lies in every run that a large value needs. Where to look depends on @fresh: elsewhere
 * each time. */
static uint32_t search_below(struct sb_peer *peer, struct search *search, uint32_t fresh)
{
        uint32_t i, unit, from = (uint32_t)((uint64_t)(fresh * UINT32_C(2654435769)) * fresh >> 32);

        search->roomy = true;
        for (i = 0; i < LOOK_BELOW && i < fresh; i++) {
                unit = (from + i) % fresh;
                if (sb_unit_word(&peer->segment, unit) &&
                        try_unit(peer, search, unit, sb_unit_word(&peer->segment, unit)))
                        break;
        }
        search->roomy = false;
        if (i == LOOK_BELOW || i == fresh)
                return NO_UNIT;
        search->next = unit;
        return unit;
}

static uint32_t search_units(struct sb_peer *peer, struct search *search)
{
        uint32_t i, unit,
                start = peer->slabs.search_unit >= search->first
                                ? peer->slabs.search_unit - search->first
                                : 0;

        for (i = 0; i < search->count && search->looked_at < LOOK_AT; i++) {
                uint64_t word;

                unit = search->first + (start + i) % search->count;
                word = sb_unit_word(&peer->segment, unit);
                if (!word && !search->first && search->effort == EASY) {
                        uint32_t below = search_below(peer, search, unit);

                        if (below != NO_UNIT)
                                return below;
                }
                search->next = unit;
                if (try_unit(peer, search, unit, word))
                        return unit;
        }
        search->looked_at = 0;
        unit = search->best;
        if (unit != NO_UNIT) {
                uint64_t unowned = search->wanted & ~UINT64_C(0x003fffffffffffff);

                search->best = NO_UNIT;
                if (sb_cas64_full(&peer->segment.unit_words[unit], unowned, search->wanted))
                        return unit;
        }
        return NO_UNIT;
}

static uint32_t acquire_slab(
        struct sb_peer *peer, enum sb_unit_kind kind, uint32_t class_, bool reserve)
{
        const struct sb_geometry *g = &peer->segment.geometry;
        struct search search = {
                .wanted = SB_UNIT_WORD(kind, class_, 0, 0) | sb_unit_owner(peer),
                .count = g->unit_count - g->reserve_count,
                .best = NO_UNIT,
        };
        uint32_t unit = NO_UNIT;

        /* Eras pass with what is taken, too: what comes now is younger than whoever is stopped. */
        sb_era_advance(peer);
        search.block_count = sb_unit_block_count(&peer->segment, search.wanted);
        if (reserve) {
                search.first = search.count;
                search.count = g->reserve_count;
        }
        for (; search.effort < EFFORTS && unit == NO_UNIT; search.effort++) {
                if (search.effort == AFTER_GRACE)
                        sb_era_look(peer);
                unit = search_units(peer, &search);
        }
        if (unit != NO_UNIT && !reserve)
                peer->slabs.search_unit = search.next;
        return unit;
}

/* A new life. The retire word comes last: whoever still holds the offset from the life before, and
 * finds 0 there, finds nothing else of that life behind it. */
static void reset_block(struct sb_peer *peer, uint64_t offset, enum sb_unit_kind kind)
{
        struct sb_block *block = sb_block_at(&peer->segment, offset);

        sb_model_unchecked_begin();
        if (kind == SB_UNIT_NODES) {
                /* Relaxed, both: ordered by the release below. */
                sb_store_relaxed(&((struct sb_node *)block)->cell, 0);
                sb_store_relaxed(&((struct sb_node *)block)->unhooked, 0);
        } else if (kind == SB_UNIT_GUARDS) {
                ((struct sb_guard_chunk *)block)->owner = 0;
        }
        /* R:retire > A:retire. */
        sb_store_release(&block->retire, 0);
        sb_model_unchecked_end();
}

/* A write fills a block and then waits for its stores: have its lines by then. */
static void fetch_block(
        const struct sb_segment *segment, uint64_t offset, uint64_t size, uint64_t from)
{
        for (uint64_t at = from; at < size && at < 4 * SB_LINE; at += SB_LINE)
                __builtin_prefetch(segment->base + offset + at, 1);
}

/* Move up to SB_SLAB_CACHE_MAX free blocks of the owned slab into the reserve. */
static bool refill_from(struct sb_peer *peer, struct sb_slab_cache *reserve, enum sb_unit_kind kind,
        uint32_t class_)
{
        const struct sb_segment *segment = &peer->segment;
        uint64_t size = segment->class_size[class_], base = sb_unit_offset(segment, reserve->unit);
        uint32_t block_count = segment->geometry.unit_size / (uint32_t)size, word;

        for (word = 0; word * 64 < block_count; word++) {
                uint64_t free_mask = sb_unit_free_bits(segment, reserve->unit, word, block_count),
                         taken = 0;
                struct sb_cell64 *bits = &sb_unit_bitmap(segment, reserve->unit)[word];

                while (free_mask && reserve->count < SB_SLAB_CACHE_MAX) {
                        uint64_t bit = free_mask & -free_mask;
                        uint64_t offset =
                                base + (word * 64 + (uint32_t)__builtin_ctzll(bit)) * size;

                        free_mask ^= bit;
                        taken |= bit;
                        if (!SB_FAULT(ALLOC_BIT_FIRST))
                                reset_block(peer, offset, kind);
                        fetch_block(segment, offset, size, SB_LINE);
                        reserve->offset[reserve->count++] = offset;
                }
                if (!taken)
                        continue;
                /* R:block-taken. The reset words come first: whoever sees the bit sees a block that
                 * is nobody's to free. */
                sb_or_full(bits, taken);
                for (uint32_t i = 0; i < reserve->count; i++)
                        sb_model_block(reserve->offset[i], size, 1);
                /* And those of the next refill. */
                for (uint32_t i = 0; free_mask && i < SB_SLAB_CACHE_MAX;
                        i++, free_mask &= free_mask - 1)
                        fetch_block(segment,
                                base + (word * 64 + (uint32_t)__builtin_ctzll(free_mask)) * size,
                                size, 0);
                if (SB_FAULT(ALLOC_BIT_FIRST))
                        for (uint32_t i = 0; i < reserve->count; i++)
                                reset_block(peer, reserve->offset[i], kind);
                return true;
        }
        return false;
}

/* Whether this peer has more slabs than it may keep when it is idle: however many clients there
 * are, and sizes that each of them once wrote, a quarter of the units is left for who writes next.
 */
static bool has_many(const struct sb_peer *peer)
{
        uint64_t unit_count = peer->segment.geometry.unit_count;
        /* A:roster. Records that were ever in use, the engine's too. */
        uint64_t high = sb_load_acquire(&peer->segment.super->client_high), count = 0;

        if (unit_count < UNITS_SHARED) /* shared out, so few are none */
                return false;
        for (uint32_t i = 0; i < peer->segment.class_count; i++)
                count += (peer->slabs.versions[i].unit != NO_UNIT) +
                         (peer->slabs.nodes[i].unit != NO_UNIT);
        /* A sixteenth, shared out; two for everybody, while those are few. Multiplied, not divided:
         * the roster is input. */
        return count * high > unit_count / 16 && (count > 2 || high > unit_count / 4);
}

static bool refill(struct sb_peer *peer, struct sb_slab_cache *reserve, enum sb_unit_kind kind,
        uint32_t class_)
{
        for (;;) {
                if (reserve->unit != NO_UNIT) {
                        if (refill_from(peer, reserve, kind, class_))
                                return true;
                        exhaust(peer, reserve->unit);
                        reserve->unit = NO_UNIT;
                }
                reserve->unit =
                        acquire_slab(peer, kind, class_, reserve == &peer->slabs.tombstones);
                if (reserve->unit == NO_UNIT)
                        return false;
                peer->slabs.many = has_many(peer);
        }
}

static struct sb_slab_cache *reserve_of(
        struct sb_peer *peer, enum sb_unit_kind kind, uint32_t class_)
{
        return kind == SB_UNIT_GUARDS  ? &peer->slabs.guards
               : kind == SB_UNIT_NODES ? &peer->slabs.nodes[class_]
                                       : &peer->slabs.versions[class_];
}

/* Claim @count units in a row: the head says whose they are, each part where its head is. */
static uint32_t claim_run(struct sb_peer *peer, uint32_t first, uint32_t count)
{
        struct sb_cell64 *words = peer->segment.unit_words;
        uint32_t claimed = 1;

        if (!sb_cas64_full(
                    &words[first], 0, SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(peer)))
                return 0;
        while (claimed < count &&
                sb_cas64_full(&words[first + claimed], 0, SB_UNIT_WORD(SB_UNIT_PART, 0, 0, first)))
                claimed++;
        sb_unit_set_birth(peer, first);
        if (claimed < count)
                sb_unit_free_large(peer, first);
        return claimed;
}

/* Empty slabs of nobody's are units again once their grace period is over, so that a run can be
 * found among them. */
static void free_empty_slabs(struct sb_peer *peer, uint32_t limit)
{
        uint32_t unit;

        for (unit = 0; unit < limit; unit++) {
                uint64_t word = sb_unit_word(&peer->segment, unit);

                if (word == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0))
                        sb_unit_finish_large(peer, unit);
                else
                        empty_slab(peer, unit, word);
        }
        sb_era_look(peer);
        for (unit = 0; unit < limit; unit++) {
                uint64_t word = sb_unit_word(&peer->segment, unit);

                if (sb_unit_past_grace(peer, unit, word))
                        sb_cas64_full(&peer->segment.unit_words[unit], word, 0);
        }
}

static int take_large(struct sb_peer *peer, uint64_t size, uint64_t *ret_offset)
{
        const struct sb_segment *segment = &peer->segment;
        uint64_t count = (size + segment->geometry.unit_size - 1) >> segment->unit_shift;
        uint32_t limit = segment->geometry.unit_count - segment->geometry.reserve_count, end, unit,
                 run, round;

        if (count > limit)
                return SB_E_FULL;
        sb_era_advance(peer); /* as for a slab */
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
                        run = claim_run(peer, unit, (uint32_t)count);
                        if (run < count) {
                                end = unit + run;
                                continue;
                        }
                        *ret_offset = sb_unit_offset(segment, unit);
                        reset_block(peer, *ret_offset, SB_UNIT_VERSIONS);
                        /* R:block-taken. As for small ones. */
                        sb_or_full(&sb_unit_bitmap(segment, unit)[0], 1);
                        sb_model_block(*ret_offset, count << segment->unit_shift, 1);
                        exhaust(peer, unit);
                        return 0;
                }
                free_empty_slabs(peer, limit);
        }
        return SB_E_FULL;
}

/* The reserve that serves @class_, filled; NULL: none can. */
static struct sb_slab_cache *serving(
        struct sb_peer *peer, enum sb_unit_kind kind, uint32_t class_, uint32_t also)
{
        const struct sb_segment *segment = &peer->segment;
        uint32_t end = (also & SB_SLAB_LARGER) ? segment->class_count : class_ + 1, larger;
        struct sb_slab_cache *reserve;

        for (larger = class_; larger < end; larger++) {
                reserve = reserve_of(peer, kind, larger);
                if (reserve->count || refill(peer, reserve, kind, larger))
                        return reserve;
        }
        if (!(also & SB_SLAB_RESERVE) || class_ > segment->reserve_class)
                return NULL;
        reserve = &peer->slabs.tombstones;
        return reserve->count || refill(peer, reserve, kind, segment->reserve_class) ? reserve
                                                                                     : NULL;
}

int sb_slab_take(struct sb_peer *peer, enum sb_unit_kind kind, uint64_t size, uint32_t also,
        uint64_t *ret_offset)
{
        uint32_t class_ = sb_unit_class(&peer->segment, size);
        struct sb_slab_cache *reserve;

        if (class_ == peer->segment.class_count)
                return take_large(peer, size, ret_offset);
        reserve = reserve_of(peer, kind, class_);
        if (kind == SB_UNIT_GUARDS && reserve->unit != NO_UNIT) {
                /* Chunks differ in class and are rare: one slab each, given up with the operation.
                 */
                exhaust(peer, reserve->unit);
                reserve->unit = NO_UNIT;
                while (reserve->count)
                        sb_unit_clear(peer, reserve->offset[--reserve->count]);
        }
        if (SB_UNLIKELY(!reserve->count)) {
                reserve = serving(peer, kind, class_, also);
                if (!reserve)
                        return SB_E_FULL;
        }
        *ret_offset = reserve->offset[--reserve->count];
        return 0;
}

void sb_slab_give_back(struct sb_peer *peer, uint64_t offset)
{
        uint32_t unit = sb_unit_of(&peer->segment, offset);
        uint64_t word = sb_unit_word(&peer->segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        struct sb_slab_cache *reserve;

        if (kind == SB_UNIT_LARGE) {
                /* It is on the list of what sb_slab_settle() gives up. */
                sb_and_full(&sb_unit_bitmap(&peer->segment, unit)[0], ~UINT64_C(1));
                sb_model_block(offset,
                        (uint64_t)sb_unit_large_count(&peer->segment, unit)
                                << peer->segment.unit_shift,
                        0);
                return;
        }
        reserve = unit == peer->slabs.tombstones.unit ? &peer->slabs.tombstones
                                                      : reserve_of(peer, kind, SB_UNIT_CLASS(word));
        if (reserve->unit == unit && reserve->count < SB_SLAB_CACHE_MAX) {
                reset_block(peer, offset, kind);
                reserve->offset[reserve->count++] = offset;
                return;
        }
        sb_unit_clear(peer, offset);
}

static void release(struct sb_peer *peer, struct sb_slab_cache *reserve)
{
        while (reserve->count)
                sb_unit_clear(peer, reserve->offset[--reserve->count]);
        if (reserve->unit != NO_UNIT) {
                sb_unit_give_up(peer, reserve->unit);
                reserve->unit = NO_UNIT;
        }
}

static bool in_reserve(const struct sb_peer *peer, enum sb_unit_kind kind, uint32_t unit)
{
        uint32_t i;

        if (kind == SB_UNIT_GUARDS)
                return peer->slabs.guards.unit == unit;
        for (i = 0; i < peer->segment.class_count; i++)
                if ((kind == SB_UNIT_NODES ? &peer->slabs.nodes[i] : &peer->slabs.versions[i])
                                ->unit == unit)
                        return true;
        return peer->slabs.tombstones.unit == unit;
}

/* Behind an operation that took more slabs than the list has room for: all that are ours and not in
 * reserve. */
static void give_up_all(struct sb_peer *peer)
{
        uint32_t unit;

        for (unit = 0; unit < peer->segment.geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(&peer->segment, unit);

                if (word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                        SB_UNIT_OWNER(word) == sb_unit_owner(peer) &&
                        !in_reserve(peer, SB_UNIT_KIND(word), unit))
                        sb_unit_give_up(peer, unit);
        }
        peer->slabs.exhausted_count = 0;
        peer->slabs.exhausted_many = false;
}

static void release_slabs(struct sb_peer *peer)
{
        for (uint32_t i = 0; i < SB_CLASS_MAX; i++) {
                release(peer, &peer->slabs.versions[i]);
                release(peer, &peer->slabs.nodes[i]);
        }
        peer->slabs.many = false;
}

void sb_slab_settle_some(struct sb_peer *peer)
{
        if (SB_UNLIKELY(peer->slabs.exhausted_many))
                give_up_all(peer);
        while (SB_UNLIKELY(peer->slabs.exhausted_count))
                sb_unit_give_up(peer, peer->slabs.exhausted[--peer->slabs.exhausted_count]);
        /* What is in reserve is everybody's: nobody keeps it for the next time. */
        if (SB_UNLIKELY(peer->slabs.tombstones.unit != NO_UNIT))
                release(peer, &peer->slabs.tombstones);
        if (SB_UNLIKELY(peer->slabs.many))
                release_slabs(peer);
}

void sb_slab_release_all(struct sb_peer *peer)
{
        sb_slab_settle(peer);
        release_slabs(peer);
        release(peer, &peer->slabs.guards);
        release(peer, &peer->slabs.tombstones);
}

void sb_slab_init(struct sb_peer *peer)
{
        const struct sb_geometry *geometry = &peer->segment.geometry;
        uint32_t i;

        /* Apart from each other, so that clients seldom want the same slab. */
        peer->slabs.search_unit = peer->slot % (geometry->unit_count - geometry->reserve_count);
        for (i = 0; i < SB_CLASS_MAX; i++)
                peer->slabs.versions[i].unit = peer->slabs.nodes[i].unit = NO_UNIT;
        peer->slabs.tombstones.unit = peer->slabs.guards.unit = NO_UNIT;
}
