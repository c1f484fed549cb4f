/* Units: their words, births and bitmaps, and the end of a unit's life; see unit.h. */

#include "shm/memory/unit.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/vacancy.h"

uint32_t sb_unit_class(const struct sb_segment *segment, uint64_t size)
{
        uint32_t low = 0, high = segment->class_count;

        if (SB_LIKELY(size <= (SB_CLASS_TABLE - 1) * 16))
                return segment->class_of[(size + 15) / 16];
        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (segment->class_size[middle] < size)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct sb_word64 *sb_unit_bitmap(const struct sb_segment *segment, uint32_t unit)
{
        return (struct sb_word64 *)(segment->base + segment->geometry.bitmaps_at +
                                    (uint64_t)unit * segment->geometry.bitmap_stride);
}

uint32_t sb_unit_block_count(const struct sb_segment *segment, uint64_t unit_word)
{
        if (SB_UNIT_KIND(unit_word) == SB_UNIT_LARGE)
                return 1;
        if (SB_UNIT_CLASS(unit_word) >= segment->class_count)
                return 0;
        return segment->geometry.unit_size / segment->class_size[SB_UNIT_CLASS(unit_word)];
}

static void unit_set_word(const struct sb_segment *segment, uint32_t unit, uint64_t word)
{
        /* R:unit-owned > A:unit-owned. The bits come first, then any process may own the slab.
         * Locked, so that the hint that follows it comes behind it. */
        sb_exchange_full(&segment->unit_words[unit], word);
}

uint64_t sb_unit_free_bits(
        const struct sb_segment *segment, uint32_t unit, uint32_t word, uint32_t block_count)
{
        uint64_t valid = block_count - word * 64 >= 64
                                 ? UINT64_MAX
                                 : (UINT64_C(1) << (block_count - word * 64)) - 1;

        /* A:block-freed. The reclaimer is done with the block before its bit is clear. */
        return ~sb_load_acquire(&sb_unit_bitmap(segment, unit)[word]) & valid;
}

/* The compiler's builtin is a call where the processor may lack the instruction. */
static uint32_t unit_count_bits(uint64_t word)
{
        word -= word >> 1 & UINT64_C(0x5555555555555555);
        word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
        word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
}

uint32_t sb_unit_count_some(
        const struct sb_segment *segment, uint32_t unit, uint32_t block_count, uint32_t enough)
{
        uint32_t count = 0, word;

        for (word = 0; word * 64 < block_count && count < enough; word++)
                count += unit_count_bits(sb_unit_free_bits(segment, unit, word, block_count));
        return count;
}

uint32_t sb_unit_count_free(const struct sb_segment *segment, uint32_t unit, uint32_t block_count)
{
        return sb_unit_count_some(segment, unit, block_count, UINT32_MAX);
}

bool sb_unit_is_empty(const struct sb_segment *segment, uint32_t unit)
{
        uint32_t word;

        for (word = 0; word < segment->geometry.bitmap_stride / 8; word++)
                /* A:block-freed. As in sb_unit_free_bits(). */
                if (sb_load_acquire(&sb_unit_bitmap(segment, unit)[word]))
                        return false;
        return true;
}

uint32_t sb_unit_large_count(const struct sb_segment *segment, uint32_t unit)
{
        uint32_t count = 1;

        while (unit + count < segment->geometry.unit_count &&
                sb_unit_word(segment, unit + count) == SB_UNIT_WORD(SB_UNIT_PART, 0, 0, unit))
                count++;
        return count;
}

static bool unit_has_free(const struct sb_segment *segment, uint32_t unit, uint32_t block_count)
{
        uint32_t word;

        for (word = 0; word * 64 < block_count; word++)
                if (sb_unit_free_bits(segment, unit, word, block_count))
                        return true;
        return false;
}

/* The lists of vacancies that the unit is fit for. Return: how many. */
static uint32_t unit_lists(const struct sb_segment *segment, uint32_t unit, uint32_t ret[2])
{
        uint64_t word = sb_unit_word(segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(word), was;
        uint32_t count = 0;

        if (!word)
                ret[count++] = SB_VACANCY_FREE;
        if (kind == SB_UNIT_EMPTY)
                ret[count++] = SB_VACANCY_EMPTY;
        was = kind == SB_UNIT_EMPTY ? (enum sb_unit_kind)SB_UNIT_WAS(word) : kind;
        if (was == SB_UNIT_FREE || was >= SB_UNIT_LARGE ||
                SB_UNIT_CLASS(word) >= segment->class_count)
                return count;
        if (kind == SB_UNIT_EMPTY ||
                (!SB_UNIT_OWNER(word) &&
                        unit_has_free(segment, unit, sb_unit_block_count(segment, word))))
                ret[count++] = sb_vacancy_list(segment, was, SB_UNIT_CLASS(word));
        return count;
}

void sb_unit_hint(const struct sb_segment *segment, uint32_t unit)
{
        uint32_t lists[2], count = unit_lists(segment, unit, lists);

        while (count--)
                sb_vacancy_set(segment, lists[count], unit);
}

bool sb_unit_is_hinted(const struct sb_segment *segment, uint32_t unit)
{
        uint32_t lists[2], count = unit_lists(segment, unit, lists);

        while (count--)
                if (!sb_vacancy_has(segment, lists[count], unit) ||
                        sb_vacancy_next(segment, lists[count], unit, unit + 1) != unit)
                        return false;
        return true;
}

void sb_unit_unhint(const struct sb_segment *segment, uint32_t list, uint32_t unit)
{
        sb_vacancy_clear(segment, list, unit);
        if (!SB_FAULT(VACANCY_CLEAR_LATE))
                sb_unit_hint(segment, unit);
}

void sb_unit_taken(const struct sb_segment *segment, uint32_t unit, uint64_t word)
{
        enum sb_unit_kind kind = SB_UNIT_KIND(word);

        if (kind == SB_UNIT_FREE) {
                sb_vacancy_clear(segment, SB_VACANCY_FREE, unit);
                return;
        }
        if (kind == SB_UNIT_EMPTY) {
                sb_vacancy_clear(segment, SB_VACANCY_EMPTY, unit);
                kind = (enum sb_unit_kind)SB_UNIT_WAS(word);
        }
        if (kind != SB_UNIT_FREE && kind < SB_UNIT_LARGE &&
                SB_UNIT_CLASS(word) < segment->class_count)
                sb_vacancy_clear(
                        segment, sb_vacancy_list(segment, kind, SB_UNIT_CLASS(word)), unit);
}

/* Make an empty unit EMPTY, dated with the era. For its owner. */
static void unit_set_empty(struct sb_handle *handle, uint32_t unit, uint64_t word)
{
        /* A:era. Loaded after the unit was found empty: its blocks' readers were pinned before. */
        unit_set_word(&handle->segment, unit,
                SB_UNIT_EMPTY_WORD(SB_UNIT_CLASS(word), SB_UNIT_KIND(word),
                        sb_load_acquire(&handle->segment.super->era)));
}

bool sb_unit_past_grace(const struct sb_handle *handle, uint32_t unit, uint64_t word)
{
        /* A:unit-owned. Where the birth is another by now, so is the word. */
        return SB_UNIT_KIND(word) == SB_UNIT_EMPTY &&
               sb_era_clear(handle, SB_UNIT_ERA(word),
                       sb_era_of_birth(
                               handle, sb_load_acquire(&handle->segment.unit_births[unit])));
}

void sb_unit_set_birth(struct sb_handle *handle, uint32_t unit)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t era;

        do {
                era = sb_load_acquire(&super->era); /* A:era. */
                /* R:unit-owned > A:unit-owned: the birth comes before the first bit. */
                sb_store_release(&handle->segment.unit_births[unit], sb_era_low(era));
                /* A:era. Once more, as in sb_pin_give_birth(). */
        } while (SB_UNLIKELY(sb_load_acquire(&super->era) - era > SB_ERA_OLD));
}

void sb_unit_set_slab(
        struct sb_handle *handle, uint32_t unit, enum sb_unit_kind kind, uint32_t class_)
{
        unit_set_word(
                &handle->segment, unit, SB_UNIT_WORD(kind, class_, 0, 0) | sb_unit_owner(handle));
        sb_unit_set_birth(handle, unit);
}

void sb_unit_set_large(struct sb_handle *handle, uint32_t unit, uint32_t head)
{
        unit_set_word(&handle->segment, unit,
                unit == head ? SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(handle)
                             : SB_UNIT_WORD(SB_UNIT_PART, 0, 0, head));
}

/* The parts go first and the head last, so that a kill leaves a shorter run with the same owner. */
void sb_unit_free_large(struct sb_handle *handle, uint32_t unit)
{
        uint32_t count = sb_unit_large_count(&handle->segment, unit);

        while (count-- > 1) {
                unit_set_word(&handle->segment, unit + count, 0);
                sb_unit_hint(&handle->segment, unit + count);
        }
        unit_set_empty(handle, unit, SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0));
        sb_unit_hint(&handle->segment, unit);
}

void sb_unit_give_up(struct sb_handle *handle, uint32_t unit)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_unit_word(segment, unit);

        if (SB_UNIT_KIND(word) == SB_UNIT_LARGE) {
                if (sb_unit_is_empty(segment, unit)) {
                        sb_unit_free_large(handle, unit);
                        return;
                }
                unit_set_word(segment, unit, SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0));
                return;
        }
        /* Only the owner sets bits: an empty unit stays empty until it has another owner. */
        if (sb_unit_is_empty(segment, unit))
                unit_set_empty(handle, unit, word);
        else
                unit_set_word(segment, unit, word & ~UINT64_C(0x003fffffffffffff));
        sb_unit_hint(segment, unit);
}

void sb_unit_empty(struct sb_handle *handle, uint32_t unit)
{
        uint64_t word = sb_unit_word(&handle->segment, unit);

        if (SB_UNIT_OWNER(word) || !SB_UNIT_KIND(word) || SB_UNIT_KIND(word) >= SB_UNIT_LARGE ||
                !sb_unit_is_empty(&handle->segment, unit))
                return;
        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (sb_cas64_full(&handle->segment.unit_words[unit], word, word | sb_unit_owner(handle)))
                sb_unit_give_up(handle, unit);
}

void sb_unit_repair(struct sb_handle *handle, uint32_t unit)
{
        if (sb_unit_word(&handle->segment, unit) == SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0))
                sb_unit_finish_large(handle, unit);
        else
                sb_unit_empty(handle, unit);
        sb_unit_hint(&handle->segment, unit);
}

/* The bit of a large block without an owner is clear when the process that freed it was stopped
 * half way, or met an owner. */
void sb_unit_finish_large(struct sb_handle *handle, uint32_t unit)
{
        struct sb_word64 *word = &handle->segment.unit_words[unit];
        uint64_t unowned = SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0);

        if (!sb_unit_is_empty(&handle->segment, unit))
                return;
        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (sb_cas64_full(word, unowned, unowned | sb_unit_owner(handle)))
                sb_unit_give_up(handle, unit);
}

/* A bit was cleared, and @left are still set in its word: hint at the slab, unless it has an owner:
 * that does it when it gives the slab up. Where it was the last bit, the unit becomes EMPTY. */
static void unit_tell(struct sb_handle *handle, uint32_t unit, uint64_t left)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_unit_word(segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);

        if (SB_UNIT_OWNER(word) || kind == SB_UNIT_FREE || kind >= SB_UNIT_LARGE ||
                SB_UNIT_CLASS(word) >= segment->class_count)
                return;
        sb_vacancy_set(segment, sb_vacancy_list(segment, kind, SB_UNIT_CLASS(word)), unit);
        if (!left)
                sb_unit_empty(handle, unit);
}

void sb_unit_clear(struct sb_handle *handle, uint64_t offset)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t unit = sb_unit_of(segment, offset), index = 0;
        uint64_t word, size, before;

        if (unit == UINT32_MAX)
                return;
        word = sb_unit_word(segment, unit);
        if (SB_UNIT_KIND(word) == SB_UNIT_LARGE) {
                size = (uint64_t)sb_unit_large_count(segment, unit) << segment->unit_shift;
        } else {
                if (SB_UNIT_CLASS(word) >= segment->class_count)
                        return;
                size = segment->class_size[SB_UNIT_CLASS(word)];
                index = sb_unit_index(segment, offset, SB_UNIT_CLASS(word));
        }
        /* R:block-freed > A:block-freed. This process is done with the block. */
        before = sb_and_full(
                &sb_unit_bitmap(segment, unit)[index / 64], ~(UINT64_C(1) << (index % 64)));
        sb_model_block(offset, size, 0);
        handle->counters.freed++;
        if (SB_UNIT_KIND(word) == SB_UNIT_LARGE)
                sb_unit_finish_large(handle, unit);
        else
                unit_tell(handle, unit, before & ~(UINT64_C(1) << (index % 64)));
}

bool sb_unit_is_block(const struct sb_segment *segment, uint64_t offset, enum sb_unit_kind kind,
        uint64_t *ret_size)
{
        uint32_t unit = sb_unit_of(segment, offset), index;
        uint64_t word, size, within;

        if (unit == UINT32_MAX)
                return false;
        word = sb_unit_word(segment, unit);
        within = offset - sb_unit_offset(segment, unit);
        if (SB_UNIT_KIND(word) == SB_UNIT_LARGE && kind == SB_UNIT_VERSIONS) {
                size = (uint64_t)sb_unit_large_count(segment, unit) << segment->unit_shift;
                index = 0;
                if (within)
                        return false;
        } else {
                if (SB_UNIT_KIND(word) != kind || SB_UNIT_CLASS(word) >= segment->class_count)
                        return false;
                size = segment->class_size[SB_UNIT_CLASS(word)];
                index = (uint32_t)(within / size);
                if (within % size || index >= sb_unit_block_count(segment, word))
                        return false;
        }
        if (ret_size)
                *ret_size = size;
        /* A:block-freed, as in sb_unit_free_bits(). The unit's word is loaded again (A:unit-owned):
         * so the bit was one of this kind and class. While a pin covers the era, it stays one. */
        return (sb_load_acquire(&sb_unit_bitmap(segment, unit)[index / 64]) >> (index % 64) & 1) &&
               (sb_unit_word(segment, unit) ^ word) >> 54 == 0;
}

void sb_unit_fetch_bit(const struct sb_segment *segment, uint64_t offset)
{
        uint32_t unit = sb_unit_of(segment, offset), class_;

        if (unit == UINT32_MAX)
                return;
        class_ = SB_UNIT_CLASS(sb_unit_word(segment, unit));
        if (class_ < segment->class_count)
                sb_prefetch(&sb_unit_bitmap(
                        segment, unit)[sb_unit_index(segment, offset, class_) / 64]);
}

static void unit_reset_words(struct sb_block *block, enum sb_unit_kind kind)
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

void sb_unit_reset_block(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind)
{
        sb_model_unchecked_begin();
        unit_reset_words(sb_block_at(&handle->segment, offset), kind);
        sb_model_unchecked_end();
}
