/* Finding a size for a bus that comes back; see wal-room.h. */
#include "agentd/wal/wal-room.h"

#include <errno.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/superblock.h"
#include "shm/memory/unit.h"

/* A step is this part of --size; of a tiny bus it is eight units, for a large value takes units in
 * a row. */
#define STEP_PART  16u
#define STEP_LEAST 32768u
#define STEPS      2u  /* for what another order costs */
#define STEPS_MOST 16u /* for large values that lie between others */

static uint64_t wal_room_step(const struct sb_wal_room *room)
{
        uint64_t part = room->config->size / STEP_PART;

        return part > STEP_LEAST ? part : STEP_LEAST;
}

/* Bytes of the units that values may have. */
static uint64_t wal_room_of(const struct sb_geometry *g)
{
        return (uint64_t)(g->unit_count - g->reserve_count) * g->unit_size;
}

void sb_wal_room_see_empty(struct sb_wal_room *room, const struct sb_segment *segment)
{
        if (!room->asked) /* the first one is of --size */
                room->asked = wal_room_of(&segment->geometry);
}

/* Bytes that are taken of a unit. */
static uint64_t wal_room_taken(const struct sb_segment *segment, uint32_t unit)
{
        uint64_t word = sb_unit_word(segment, unit);
        uint32_t count;

        switch (SB_UNIT_KIND(word)) {
        case SB_UNIT_FREE:
        case SB_UNIT_EMPTY:
                return 0;
        case SB_UNIT_LARGE:
        case SB_UNIT_PART:
                return segment->geometry.unit_size;
        default:
                count = sb_unit_block_count(segment, word);
                return (uint64_t)(count - sb_unit_count_free(segment, unit, count)) *
                       segment->class_size[SB_UNIT_CLASS(word)];
        }
}

void sb_wal_room_see_loaded(struct sb_wal_room *room, struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint64_t all = wal_room_of(g);

        segment->super->held_units = all > room->asked ? (all - room->asked) / g->unit_size : 0;
        room->taken = 0;
        for (uint32_t unit = 0; unit < g->unit_count; unit++)
                room->taken += wal_room_taken(segment, unit);
}

void sb_wal_room_see_full(struct sb_wal_room *room, const struct sb_segment *segment)
{
        /* Relaxed: no other process runs. */
        room->history = sb_load_relaxed(&segment->super->history_bytes);
}

static int wal_room_try(
        struct sb_wal_room *room, uint32_t steps, bool forward, struct sb_memory *ret)
{
        struct sb_config config = *room->config;

        config.size += steps * wal_room_step(room);
        room->size = config.size;
        return room->make(room->context, &config, forward, ret);
}

/* A bus that was full comes back in another order. */
static int wal_room_try_some(struct sb_wal_room *room, bool forward, struct sb_memory *ret)
{
        uint32_t steps, most = SB_FAULT(RECOVER_AS_LARGE) ? 0 : STEPS;
        int r = -ENOSPC;

        /* Bound: result. There are more tries. */
        for (steps = 0; r == -ENOSPC && steps <= most; steps++)
                r = wal_room_try(room, steps, forward, ret);
        return r;
}

/* Large values may lie between others. But what takes too much was never meant to have room. */
static int wal_room_try_most(struct sb_wal_room *room, struct sb_memory *ret)
{
        uint32_t steps, most = SB_FAULT(RECOVER_AS_LARGE) ? 0 : STEPS_MOST;
        int r = -ENOSPC;

        /* Bound: result. --size is said to be too small. */
        for (steps = 2 * STEPS; r == -ENOSPC && steps <= most; steps *= 2)
                r = wal_room_try(room, steps, room->has_rules, ret);
        if (r)
                return r == -1 ? -ENOSPC : r;
        if (room->taken <= room->asked + STEPS * wal_room_step(room))
                return 0;
        sb_memory_drop(ret);
        room->does = true;
        return -ENOSPC;
}

int sb_wal_room_find(struct sb_wal_room *room, struct sb_memory *ret)
{
        int r = wal_room_try_some(room, false, ret);

        if (r == -ENOSPC && room->has_rules)
                r = wal_room_try_some(room, true, ret);
        return r == -ENOSPC ? wal_room_try_most(room, ret) : r;
}
