/*
 * A segment in which all units are full of bare blocks of one size and have no owner, and a client,
 * the writer, that waits for units in a row.
 */
#ifndef SB_TEST_UNIT_WINDOWS_H
#define SB_TEST_UNIT_WINDOWS_H

#include <stdlib.h>

#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"

#define NONE SB_VACANCY_NONE

static uint32_t limit; /* the units from here on are a reserve */

static inline bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 2,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        draw_state = size ^ unit_size;
        if (!make_bus_of(&wish))
                return false;
        limit = writer.segment.geometry.unit_count - writer.segment.geometry.reserve_count;
        return true;
}

static inline uint64_t word_of(uint32_t unit)
{
        return sb_unit_word(&writer.segment, unit);
}

/* Blocks of this size in all units that are left, without an owner. */
static inline bool fill(uint64_t size)
{
        uint64_t offset;
        int r;

        do
                r = sb_slab_take(&reader, SB_UNIT_VERSIONS, size, 0, &offset);
        while (!r);
        sb_slab_release_all(&reader);
        return r == SB_E_FULL;
}

/* Leave the unit so many of its blocks; a unit with none becomes EMPTY. */
static inline void leave_blocks(uint32_t unit, uint32_t count)
{
        uint64_t word = word_of(unit), size = writer.segment.class_size[SB_UNIT_CLASS(word)];

        for (uint32_t i = count; i < sb_unit_block_count(&writer.segment, word); i++)
                sb_unit_clear(&reader, sb_unit_offset(&writer.segment, unit) + i * size);
}

/* The same for a row of units. */
static inline void leave_rows(uint32_t first, uint32_t end, uint32_t count)
{
        for (; first < end; first++)
                leave_blocks(first, count);
}

static inline void begin_wait(uint32_t count)
{
        sb_window_begin(&writer);
        if (sb_window_take(&writer, count, limit) != NONE)
                abort();
}

/* Look until there is a window or there is nothing to look at. Return: its first unit. */
static inline uint32_t find_window(void)
{
        while (!sb_window_find(&writer) && sb_window_searches(&writer))
                ;
        return sb_window_count(&writer) ? sb_window_first(&writer) : NONE;
}

#endif
