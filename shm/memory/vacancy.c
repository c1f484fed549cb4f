/* Bits for units, in two levels; see vacancy.h. */

#include "shm/memory/vacancy.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/geometry.h"
#include "shm/layout/segment.h"

/* Words for the units of a list. */
static uint32_t vacancy_words(const struct sb_segment *segment)
{
        return (segment->geometry.unit_count + 63) / 64;
}

/* Words that one bit of the list's first word stands for. */
static uint32_t vacancy_span(const struct sb_segment *segment)
{
        return (vacancy_words(segment) + 63) / 64;
}

/* The word that says where in the list a bit is set. */
static struct sb_word64 *vacancy_sum(const struct sb_segment *segment, uint32_t list)
{
        return &segment->vacancies[list];
}

static struct sb_word64 *vacancy_bits(
        const struct sb_segment *segment, uint32_t list, uint32_t index)
{
        return &segment->vacancies[SB_GEOMETRY_LISTS(segment->class_count) +
                                   (uint64_t)list * vacancy_words(segment) + index];
}

bool sb_vacancy_any(const struct sb_segment *segment, uint32_t list)
{
        return sb_load_acquire(vacancy_sum(segment, list)); /* A:vacancy. */
}

bool sb_vacancy_has(const struct sb_segment *segment, uint32_t list, uint32_t unit)
{
        /* A:vacancy. */
        return sb_load_acquire(vacancy_bits(segment, list, unit / 64)) >> (unit % 64) & 1;
}

uint32_t sb_vacancy_next(
        const struct sb_segment *segment, uint32_t list, uint32_t first, uint32_t end)
{
        uint32_t words = (end + 63) / 64, index = first / 64, span = vacancy_span(segment);
        uint64_t sum = sb_load_acquire(vacancy_sum(segment, list)); /* A:vacancy. */

        while (index < words) {
                uint64_t ahead = sum >> (index / span);
                uint64_t bits;

                if (!ahead)
                        break;
                if (!(ahead & 1)) {
                        index = (index / span + (uint32_t)__builtin_ctzll(ahead)) * span;
                        continue;
                }
                bits = sb_load_acquire(vacancy_bits(segment, list, index)); /* A:vacancy. */
                if (index == first / 64)
                        bits &= UINT64_MAX << (first % 64);
                if (bits) {
                        uint32_t unit = index * 64 + (uint32_t)__builtin_ctzll(bits);

                        return unit < end ? unit : SB_VACANCY_NONE;
                }
                index++;
        }
        return SB_VACANCY_NONE;
}

uint32_t sb_vacancy_run(
        const struct sb_segment *segment, uint32_t list, uint32_t count, uint32_t end)
{
        uint32_t run = 0;

        while (end) {
                uint32_t unit = end - 1;
                /* A:vacancy. */
                uint64_t bits = sb_load_acquire(vacancy_bits(segment, list, unit / 64))
                                << (63 - unit % 64);
                /* Of the bits from this unit's downwards: how many are clear, or set. */
                uint32_t clear = bits ? (uint32_t)__builtin_clzll(bits) : unit % 64 + 1;
                uint32_t full = ~bits ? (uint32_t)__builtin_clzll(~bits) : 64;

                if (clear) {
                        run = 0;
                        end -= clear;
                        continue;
                }
                run += full;
                if (run >= count)
                        return end - full + (run - count);
                end -= full;
        }
        return SB_VACANCY_NONE;
}

void sb_vacancy_set(const struct sb_segment *segment, uint32_t list, uint32_t unit)
{
        uint32_t index = unit / 64;
        uint64_t bit = UINT64_C(1) << (unit % 64), part = UINT64_C(1)
                                                          << (index / vacancy_span(segment));

        if (SB_FAULT(VACANCY_NOT_SET))
                return;
        /* A:vacancy. Mostly it is set. A process that clears it looks at the unit afterwards. */
        if (!(sb_load_acquire(vacancy_bits(segment, list, index)) & bit))
                /* R:vacancy > A:vacancy. Behind what made the unit fit. */
                sb_or_full(vacancy_bits(segment, list, index), bit);
        /* A:vacancy. */
        if (!(sb_load_acquire(vacancy_sum(segment, list)) & part))
                sb_or_full(vacancy_sum(segment, list), part); /* R:vacancy. Behind the bit. */
}

/* Whether some unit of this part of the list has its bit set. */
static bool vacancy_part_has_any(const struct sb_segment *segment, uint32_t list, uint32_t index)
{
        uint32_t span = vacancy_span(segment), end = (index / span + 1) * span;

        if (end > vacancy_words(segment))
                end = vacancy_words(segment);
        for (index = index / span * span; index < end; index++)
                if (sb_load_acquire(vacancy_bits(segment, list, index))) /* A:vacancy. */
                        return true;
        return false;
}

void sb_vacancy_clear(const struct sb_segment *segment, uint32_t list, uint32_t unit)
{
        uint32_t index = unit / 64;
        uint64_t bit = UINT64_C(1) << (unit % 64), part = UINT64_C(1)
                                                          << (index / vacancy_span(segment));

        if (!sb_vacancy_has(segment, list, unit))
                return;
        /* R:vacancy. The caller's next look at the unit comes behind it. */
        sb_and_full(vacancy_bits(segment, list, index), ~bit);
        if (vacancy_part_has_any(segment, list, index))
                return;
        /* R:vacancy. The next look at the part comes behind it. */
        sb_and_full(vacancy_sum(segment, list), ~part);
        if (!SB_FAULT(VACANCY_SUM_LOST) && vacancy_part_has_any(segment, list, index))
                sb_or_full(vacancy_sum(segment, list), part); /* R:vacancy. A bit came meanwhile. */
}
