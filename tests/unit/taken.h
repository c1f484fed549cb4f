/* Blocks that a test takes from slabs without writing anything into them: each is noted, and goes
 * back by a number. */
#ifndef SB_TEST_UNIT_TAKEN_H
#define SB_TEST_UNIT_TAKEN_H

#include <stdlib.h>

#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"

#define TAKEN_MAX 40000u

struct taken {
        uint64_t offset, size;
        enum sb_unit_kind kind;
};
static struct taken taken[TAKEN_MAX];
static uint32_t taken_count;

static inline bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 2,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        taken_count = 0;
        draw_state = size ^ unit_size;
        return make_bus_of(&wish);
}

static inline uint32_t units_for_all(void)
{
        return units() - writer.segment.geometry.reserve_count;
}

static inline uint64_t word_of(uint64_t offset)
{
        return sb_unit_word(&writer.segment, sb_unit_of(&writer.segment, offset));
}

static inline int take(
        struct sb_handle *handle, enum sb_unit_kind kind, uint64_t size, uint32_t also)
{
        struct taken *last = &taken[taken_count];
        int r = sb_slab_take(handle, kind, size, also, &last->offset);

        if (r)
                return r;
        last->size = size;
        last->kind = kind;
        taken_count++;
        return 0;
}

static inline void clear_one(struct sb_handle *handle, uint32_t i)
{
        sb_unit_clear(handle, taken[i].offset);
        taken[i] = taken[--taken_count];
}

/* What is taken lies in the units, is of its kind, large enough, aligned, and no two overlap. */
static inline bool blocks_are_sound(void)
{
        const struct sb_segment *segment = &writer.segment;
        unsigned char *map = calloc(segment->geometry.size / 16, 1);
        bool sound = map;

        for (uint32_t i = 0; sound && i < taken_count; i++) {
                uint64_t size = 0, at = taken[i].offset;

                sound = !(at % 16) && sb_unit_is_block(segment, at, taken[i].kind, &size) &&
                        size >= taken[i].size && at + size <= segment->geometry.size;
                for (uint64_t j = 0; sound && j < size; j += 16)
                        sound = !map[(at + j) / 16]++;
        }
        free(map);
        return sound;
}

#endif
