/* The work on memory as a whole: in which order the modules of this folder are used; see work.h. */

#include "shm/upkeep/work.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/layout/handle.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/spare.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"

#define SLICE_CHUNKS   64u   /* at most */
#define SLICE_BLOCKS   1024u /* so many looked at end a slice */
#define SWEEP_REST_MAX 64u   /* ticks, or looks, between sweeps that free nothing */
#define REST_UNITS     16u   /* a tick of rest at least for so many units */
#define LISTS_WORTH    64u   /* entries: so many more in the lists are worth the work */

void sb_work_due(struct sb_handle *handle)
{
        if (sb_limbo_pending_due(handle))
                sb_reclaim_pending(handle);
        if (sb_limbo_due(handle))
                sb_reclaim_due(handle);
}

/* Entries of this handle's lists. */
static uint64_t work_listed(const struct sb_handle *handle)
{
        return (uint64_t)sb_limbo_waiting(handle) + sb_limbo_pending(handle) +
               sb_spare_count(handle);
}

bool sb_work_lists_worth(const struct sb_handle *handle)
{
        return work_listed(handle) >= handle->work.stuck + LISTS_WORTH;
}

bool sb_work_lists(struct sb_handle *handle)
{
        if (!work_listed(handle))
                return false;
        sb_work_all(handle, false);
        handle->work.stuck = work_listed(handle);
        return true;
}

bool sb_work_all(struct sb_handle *handle, bool whole_sweep)
{
        uint32_t cursor = 0;
        bool rose = false;

        (void)sb_stable_raise(handle);
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        if (whole_sweep) {
                sb_sweep_begin(handle);
                sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
                rose = sb_sweep_end(handle);
                sb_magazine_empty(handle); /* of use to other classes, perhaps */
        }
        /* Twice: a removed node has a second grace period. */
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        sb_reclaim_free(handle);
        return rose;
}

/* The rest after a sweep: it grows while sweeps free nothing. */
static uint32_t work_next_rest(const struct sb_handle *handle)
{
        if (handle->work.freed)
                return 0;
        return handle->work.rest < SWEEP_REST_MAX / 2 ? handle->work.rest * 2 + 1 : SWEEP_REST_MAX;
}

/* ---- slices for short memory, which all clients share ---- */

/* What others left behind, ever. */
static uint64_t work_left_by_others(const struct sb_handle *handle)
{
        /* A:sweep. What was left behind before is visible to the sweep that begins now. */
        return sb_load_acquire(&handle->segment.super->sweep_wanted) - sb_limbo_left_behind(handle);
}

/* Also where the clock stands still, because nothing is written: since the last horizon a cut may
 * have been closed. */
static void work_take_horizon(struct sb_handle *handle)
{
        if (!SB_FAULT(LAP_KEEPS_HORIZON))
                sb_horizon_take(handle, &handle->horizon);
}

/* Begin a lap over all chunks, unless the last one freed nothing, its rest is not over, and nothing
 * was left behind since. Return: whether a lap is under way. */
static bool work_begin_lap(struct sb_handle *handle)
{
        struct sb_work *work = &handle->work;
        uint64_t left = work_left_by_others(handle);

        if (work->lap_end)
                return true;
        if (work->rest_left && left == work->goal) {
                work->rest_left--;
                return false;
        }
        work->goal = left;
        work->freed = 0;
        /* Where the era stands, what this lap finds would not be free before a floor is made: it
         * does not wait for an engine, which may be stopped. */
        work->whole = sb_budget_limits(&handle->segment) || sb_era_stands(&handle->segment);
        if (work->whole)
                sb_sweep_begin(handle);
        work_take_horizon(handle);
        /* Relaxed: where laps begin does not matter, as long as they go round. */
        work->lap = work->whole ? 0 : sb_load_relaxed(&handle->segment.super->sweep_next);
        work->lap_end = work->lap + sb_sweep_chunks(&handle->segment);
        sb_magazine_empty(handle); /* of use to other classes, perhaps */
        return true;
}

/* The next chunk of the lap: all clients share the turns, but each does its whole sweeps alone. */
static uint64_t work_next_chunk(struct sb_handle *handle)
{
        if (handle->work.whole)
                return handle->work.lap++;
        /* R:sweep. It publishes nothing: the step gives each chunk to one process. One that is
         * killed leaves its chunk to the next lap. */
        return sb_add_full(&handle->segment.super->sweep_next, 1);
}

/* Fault SLICE_SKIPS_CHUNK: the first chunk of each slice is taken and not swept. */
static void work_sweep_chunk(struct sb_handle *handle, uint64_t chunk, bool first)
{
        if (!SB_FAULT(SLICE_SKIPS_CHUNK) || !first)
                sb_sweep_chunk(handle, chunk);
}

static void work_end_lap(struct sb_handle *handle)
{
        /* A floor that rose is something for the next lap to free. */
        if (handle->work.whole && sb_sweep_end(handle))
                handle->work.freed++;
        handle->work.lap_end = 0;
        handle->work.rest = handle->work.rest_left = work_next_rest(handle);
}

/* It is the laps that rest. What this client itself has retired may be past its grace period
 * meanwhile, and no other process frees it. Fault REST_KEEPS_LIMBO: that rests, too. Return:
 * whether some of it was freed. */
static bool work_free_own(struct sb_handle *handle)
{
        return !sb_limbo_is_empty(handle) && !SB_FAULT(REST_KEEPS_LIMBO) && sb_reclaim_free(handle);
}

bool sb_work_slice(struct sb_handle *handle)
{
        struct sb_work *work = &handle->work;
        uint64_t looked = handle->counters.swept, freed, chunk;
        bool moved = sb_move(handle);
        uint32_t chunks = 0;

        /* Counted behind the move, which gives back what this client's own last try took. Else a
         * try that fails each time would be a reason for one lap after the other, without a rest.
         */
        freed = handle->counters.freed;
        if (work->left || !work_begin_lap(handle))
                return work_free_own(handle) || moved;
        sb_sweep_slice_begin(handle, work->whole);
        work->pressed = true;
        do {
                chunk = work_next_chunk(handle);
                work_sweep_chunk(handle, chunk, !chunks);
        } while (chunk + 1 < work->lap_end && ++chunks < SLICE_CHUNKS &&
                 handle->counters.swept - looked < SLICE_BLOCKS);
        work->pressed = false;
        sb_sweep_slice_end(handle);
        handle->counters.slices++;
        work->freed += handle->counters.freed - freed;
        if (chunk + 1 >= work->lap_end)
                work_end_lap(handle);
        return true;
}

/* ---- the engine's whole sweeps ---- */

void sb_work_pass(struct sb_handle *handle, uint64_t ticks)
{
        struct sb_work *work = &handle->work;

        work->rest_left -= ticks < work->rest_left ? (uint32_t)ticks : work->rest_left;
}

/* Begin a sweep when some process left work behind, unless the rest after the last one is not over.
 * Return: whether a sweep is under way. */
static bool work_begin_sweep(struct sb_handle *handle, uint32_t *cursor)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t wanted = sb_load_acquire(&super->sweep_wanted); /* A:sweep. */
        bool rests = handle->work.rest_left;

        sb_work_pass(handle, 1);
        if (wanted == sb_load_acquire(&super->swept) /* A:sweep. */ && !sb_sweep_is_due(handle))
                return false;
        if (rests)
                return false;
        handle->work.goal = wanted;
        handle->work.left = (uint32_t)sb_sweep_chunks(&handle->segment);
        handle->work.freed = 0;
        sb_sweep_begin(handle);
        *cursor = 0;
        return true;
}

static void work_end_sweep(struct sb_handle *handle)
{
        if (sb_sweep_end(handle))
                handle->work.freed++;
        /* R:sweep > A:sweep. What was left behind before this sweep began has been looked at. */
        sb_store_release(&handle->segment.super->swept, handle->work.goal);
        handle->work.rest = work_next_rest(handle);
        /* Among busy writers a sweep always finds something: between sweeps is a time without. */
        handle->work.rest_left = handle->segment.geometry.unit_count / REST_UNITS;
        if (handle->work.rest_left < handle->work.rest)
                handle->work.rest_left = handle->work.rest;
}

/* One slice of this handle's own sweep. Return: blocks freed. */
static uint64_t work_own_slice(struct sb_handle *handle, uint32_t *cursor)
{
        uint64_t looked = handle->counters.swept, freed = handle->counters.freed;
        uint32_t chunks = 0;

        sb_sweep_slice_begin(handle, true);
        do {
                sb_sweep_chunk(handle, (*cursor)++);
                handle->work.left--;
        } while (handle->work.left && ++chunks < SLICE_CHUNKS &&
                 handle->counters.swept - looked < SLICE_BLOCKS);
        sb_sweep_slice_end(handle);
        return handle->counters.freed - freed;
}

bool sb_work_tick(struct sb_handle *handle, uint32_t *cursor)
{
        handle->work.noted = sb_stable_raise(handle);
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        if (!handle->work.left && !work_begin_sweep(handle, cursor))
                return false;
        handle->work.freed += work_own_slice(handle, cursor);
        if (!handle->work.left)
                work_end_sweep(handle);
        return true;
}

bool sb_work_sweeping(const struct sb_handle *handle)
{
        return handle->work.left;
}

bool sb_work_is_noted(const struct sb_handle *handle)
{
        return handle->work.noted;
}

void sb_work_ask(struct sb_handle *handle)
{
        handle->work.rest_left = 0;
        sb_limbo_leave(handle);
}
