/*
 * A bus that a test sweeps from end to end, with blocks that no list names; what is taken is
 * counted by the bitmaps of all units.
 */
#ifndef SB_TEST_UNIT_SWEPT_H
#define SB_TEST_UNIT_SWEPT_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/superblock.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/sweep.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"

static inline struct sb_superblock *super(void)
{
        return writer.segment.super;
}

/* Blocks that are taken in a unit, but for chunks of guard words. */
static inline uint64_t taken_in(uint32_t unit)
{
        const struct sb_segment *segment = &writer.segment;
        uint64_t word = sb_unit_word(segment, unit);
        uint32_t kind = SB_UNIT_KIND(word), count = sb_unit_block_count(segment, word);

        if (kind != SB_UNIT_VERSIONS && kind != SB_UNIT_NODES && kind != SB_UNIT_LARGE)
                return 0;
        return count - sb_unit_count_free(segment, unit, count);
}

static inline uint64_t taken(void)
{
        uint64_t sum = 0;

        for (uint32_t unit = 0; unit < units(); unit++)
                sum += taken_in(unit);
        return sum;
}

static inline uint64_t sweep_whole(struct sb_handle *handle)
{
        uint32_t cursor = 0;
        uint64_t freed;

        sb_sweep_begin(handle);
        freed = sb_sweep(handle, &cursor, units());
        sb_sweep_end(handle);
        return freed;
}

/* What a kill or an overflow does to the lists. */
static inline void lose_lists(struct sb_handle *handle)
{
        handle->limbo.count = 0;
        handle->limbo.pending_head = handle->limbo.pending_tail;
}

/* A block that no list names, as it would be with this retire word. */
static inline struct sb_version *take(uint64_t size, uint32_t retire)
{
        struct sb_version *version;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &offset))
                return NULL;
        version = sb_version_at(&writer.segment, offset);
        memset((unsigned char *)version + sizeof(struct sb_block), 0,
                sizeof(*version) - sizeof(struct sb_block));
        sb_store_relaxed(&version->block.birth, sb_load_relaxed(&super()->era));
        sb_store_relaxed(&version->block.retire, retire);
        return version;
}

static inline bool begin(uint64_t size)
{
        draw_state = size;
        if (!make_bus(size))
                return false;
        sb_store_relaxed(&super()->clock, 100);
        return true;
}

#endif
