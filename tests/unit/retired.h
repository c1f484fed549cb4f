/*
 * Blocks that were taken out of all links in some era, and wait until no process can be reading
 * them. The records of other clients are written by the test.
 */
#ifndef SB_TEST_UNIT_RETIRED_H
#define SB_TEST_UNIT_RETIRED_H

#include <string.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/grace.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define CLIENTS 40u
#define BLOCKS  300u

static uint64_t blocks[BLOCKS];
static uint32_t block_count;

static inline bool begin(uint64_t era)
{
        block_count = 0;
        draw_state = era;
        if (!make_bus_for(4 << 20, CLIENTS))
                return false;
        sb_store_relaxed(&writer.segment.super->era, era);
        sb_store_relaxed(&writer.segment.super->birth_floor, era > 5000 ? era - 5000 : 0);
        writer.era.floor = reader.era.floor = era > 5000 ? era - 5000 : 0;
        list_records(0, CLIENTS + 1);
        return true;
}

static inline uint64_t era_now(void)
{
        return sb_load_relaxed(&writer.segment.super->era);
}

static inline void set_pin(uint32_t slot, uint64_t lo, uint64_t hi)
{
        sb_store_relaxed(&sb_record_at(&writer.segment, slot)->pin, SB_PIN(hi, hi - lo));
}

/* A block that was born and taken out of all links in these eras. */
static inline struct sb_block *retired(uint64_t birth, uint64_t era)
{
        struct sb_block *block;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset))
                return NULL;
        block = sb_block_at(&writer.segment, offset);
        sb_store_relaxed(&block->birth, sb_era_low(birth));
        sb_store_relaxed(&block->retire, sb_era_low(era));
        return block;
}

static inline bool wait_for(uint64_t birth, uint64_t era)
{
        struct sb_block *block = retired(birth, era);

        if (!block)
                return false;
        blocks[block_count++] = sb_offset_of(&writer.segment, block);
        sb_limbo_wait(&writer, blocks[block_count - 1], era, false);
        return true;
}

/* One look; which of blocks[] came free. */
static inline uint32_t look(bool free[BLOCKS])
{
        struct sb_limbo_entry entry;
        struct sb_grace grace;
        uint32_t count = 0;

        memset(free, 0, BLOCKS * sizeof(free[0]));
        sb_grace_look(&writer, &grace);
        while (sb_grace_next(&writer, &grace, &entry)) {
                for (uint32_t i = 0; i < block_count; i++)
                        free[i] |= blocks[i] == (entry.offset & ~SB_LIMBO_FIRST_GRACE);
                count++;
        }
        sb_unpin(&writer);
        sb_grace_end(&writer);
        return count;
}

#endif
