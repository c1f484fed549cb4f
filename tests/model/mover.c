/* Movers in scenarios; see world.h. */
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/mvcc/find.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

/* The unit of the newest committed version. */
static uint32_t mover_unit_of(struct sb_handle *handle, enum world_key key)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t hash = sb_find_hash_any(handle, world_key(key), world_key_len(key)), link;
        struct sb_version *version = NULL;
        struct sb_spot spot;

        sb_pin(handle);
        link = sb_key_find(handle, world_key(key), world_key_len(key), hash, &spot) ? spot.word : 0;
        for (; (version = sb_version_at(segment, link & SB_OFFSET_MASK));
                link = sb_load_relaxed(&version->prev))
                if ((int64_t)sb_load_relaxed(&version->stamp) > 0)
                        break;
        sb_unpin(handle);
        return version ? sb_unit_of(segment, sb_offset_of(segment, version)) : 0;
}

/* As in a segment where no unit below the scenario's can be emptied: the search comes to that one,
 * and to no other. */
static void mover_choose(struct sb_handle *handle, uint32_t unit)
{
        struct sb_window *window = &handle->window;

        window->best = unit;
        window->best_cost = 0;
        window->cursor = 0;
}

/* What a write of a large value does that waits for memory, but that the window is one unit, of
 * which the scenario says which. When it is a run, it is taken and freed again at once. */
void world_move(struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        uint32_t unit_count = handle->segment.geometry.unit_count, from, unit;
        uint64_t before = handle->counters.moved;

        if (op->way == WAY_TURN)
                sb_slab_release_all(handle);
        from = op->way == WAY_TURN ? mover_unit_of(handle, op->key) : world.move_unit[op->key];
        sb_window_begin(handle);
        unit = sb_window_take(handle, 1, unit_count);
        MODEL_CHECK(unit == SB_VACANCY_NONE);
        mover_choose(handle, from);
        while (sb_move(handle) && sb_window_count(handle))
                ;
        unit = sb_window_take(handle, 1, unit_count);
        if (unit != SB_VACANCY_NONE) {
                MODEL_CHECK(unit == from);
                sb_unit_free_large(handle, unit);
        }
        sb_window_end(handle);
        outcome->rev = handle->counters.moved - before;
}

void world_move_start(struct sb_handle *handle)
{
        uint32_t key, i;

        sb_slab_release_all(handle);
        /* As in setup_magazine(). */
        for (i = 0; spec()->magazine && i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
        for (key = 0; key < WORLD_KEYS; key++)
                world.move_unit[key] = mover_unit_of(handle, key);
}

/* Whether a copy lies above its original still. */
static bool mover_left_two(struct sb_handle *handle, enum world_key key)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t hash = sb_find_hash_any(handle, world_key(key), world_key_len(key));
        struct sb_version *version = NULL, *below;
        struct sb_spot spot;

        sb_pin(handle);
        if (sb_key_find(handle, world_key(key), world_key_len(key), hash, &spot))
                version = spot.head;
        for (; version; version = below) {
                below = sb_version_at(segment, sb_load_relaxed(&version->prev) & SB_OFFSET_MASK);
                if (below && below->rev == version->rev &&
                        (int64_t)sb_load_relaxed(&version->stamp) > 0 &&
                        sb_load_relaxed(&below->stamp) == sb_load_relaxed(&version->stamp))
                        break;
        }
        sb_unpin(handle);
        return version;
}

void world_move_judge(struct sb_handle *engine)
{
        uint32_t key;

        if (!world_does(OP_MOVE))
                return;
        sb_work_all(engine, true);
        for (key = 0; key < WORLD_KEYS; key++)
                if (mover_left_two(engine, key))
                        model_fail("%s has one write twice, and a sweep left it", world_key(key));
}
