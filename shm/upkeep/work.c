/* The work on memory as a whole: in which order the modules of this folder are used; see work.h. */

#include "shm/upkeep/work.h"

#include <string.h>

#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"

#define SWEEP_SLICE    64u /* units a tick */
#define SWEEP_REST_MAX 64u /* ticks between sweeps that free nothing */

void sb_work_due(struct sb_handle *handle)
{
        if (sb_limbo_pending_due(handle))
                sb_reclaim_pending(handle);
        if (sb_limbo_due(handle))
                sb_reclaim_free(handle);
}

void sb_work_all(struct sb_handle *handle, bool whole_sweep)
{
        uint32_t cursor = 0;

        sb_stable_raise(handle);
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        if (whole_sweep) {
                sb_sweep_begin(handle);
                sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
                sb_sweep_end(handle);
                sb_magazine_empty(handle); /* of use to other classes, perhaps */
        }
        /* Twice: a removed node has a second grace period. */
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        sb_reclaim_free(handle);
}

/* Begin a sweep when some process left work behind, unless the rest after the last one is not over.
 * Return: whether a sweep is under way. */
static bool work_begin_sweep(struct sb_handle *handle, uint32_t *cursor)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t wanted = sb_load_acquire(&super->sweep_wanted); /* A:sweep. */

        if (wanted == sb_load_acquire(&super->swept)) /* A:sweep. */
                return false;
        if (handle->work.rest_left) {
                handle->work.rest_left--;
                return false;
        }
        handle->work.goal = wanted;
        handle->work.left = handle->segment.geometry.unit_count;
        handle->work.freed = 0;
        sb_sweep_begin(handle);
        *cursor = 0;
        return true;
}

static void work_end_sweep(struct sb_handle *handle)
{
        sb_sweep_end(handle);
        /* R:sweep > A:sweep. What was left behind before this sweep began has been looked at. */
        sb_store_release(&handle->segment.super->swept, handle->work.goal);
        if (handle->work.freed)
                handle->work.rest = 0;
        else
                handle->work.rest = handle->work.rest < SWEEP_REST_MAX / 2
                                            ? handle->work.rest * 2 + 1
                                            : SWEEP_REST_MAX;
        /* Among busy writers a sweep always finds something: sweeps have a fifth of the time. */
        handle->work.rest_left = handle->segment.geometry.unit_count / SWEEP_SLICE * 4;
        if (handle->work.rest_left < handle->work.rest)
                handle->work.rest_left = handle->work.rest;
}

bool sb_work_tick(struct sb_handle *handle, uint32_t *cursor)
{
        uint32_t count;

        sb_stable_raise(handle);
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        if (!handle->work.left && !work_begin_sweep(handle, cursor))
                return false;
        count = handle->work.left < SWEEP_SLICE ? handle->work.left : SWEEP_SLICE;
        handle->work.left -= count;
        handle->work.freed += sb_sweep(handle, cursor, count);
        if (!handle->work.left)
                work_end_sweep(handle);
        return true;
}

bool sb_work_sweeping(const struct sb_handle *handle)
{
        return handle->work.left;
}

void sb_work_ask(struct sb_handle *handle)
{
        handle->work.rest_left = 0;
        sb_limbo_leave(handle);
}
