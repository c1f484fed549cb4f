/* What the units of a bus have: how many there are of a kind, which ones a client owns, and their
 * bits. */
#ifndef SB_TEST_UNIT_UNITS_H
#define SB_TEST_UNIT_UNITS_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/memory/unit.h"
#include "tests/unit/bus.h"

static inline uint32_t units(void)
{
        return writer.segment.geometry.unit_count;
}

static inline uint32_t owned_by(const struct sb_handle *handle)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < units(); i++) {
                uint64_t word = sb_unit_word(&writer.segment, i);

                count += word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                         SB_UNIT_OWNER(word) == sb_unit_owner(handle);
        }
        return count;
}

static inline uint32_t count_kind(enum sb_unit_kind kind)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < units(); i++)
                count += SB_UNIT_KIND(sb_unit_word(&writer.segment, i)) == kind;
        return count;
}

/* Bits that are set, in all bitmaps. */
static inline uint64_t count_bits_set(void)
{
        const struct sb_geometry *g = &writer.segment.geometry;
        uint64_t count = 0;

        for (uint32_t i = 0; i < units(); i++)
                for (uint32_t j = 0; j < g->bitmap_stride / 8; j++)
                        count += (uint64_t)__builtin_popcountll(
                                sb_load_relaxed(&sb_unit_bitmap(&writer.segment, i)[j]));
        return count;
}

#endif
