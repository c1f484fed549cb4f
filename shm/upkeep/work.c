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

void sb_work_due(struct sb_peer *peer)
{
        if (sb_limbo_pending_due(peer))
                sb_reclaim_pending(peer);
        if (sb_limbo_due(peer))
                sb_reclaim_free(peer);
}

void sb_work_all(struct sb_peer *peer, bool whole_sweep)
{
        uint32_t cursor = 0;

        sb_safe_raise(peer);
        sb_reclaim_pending(peer);
        sb_reclaim_free(peer);
        if (whole_sweep) {
                sb_sweep_begin(peer);
                sb_sweep(peer, &cursor, peer->segment.geometry.unit_count);
                sb_sweep_end(peer);
                sb_stock_empty(peer); /* of use to other classes, perhaps */
        }
        /* Twice: a removed node has a second grace period. */
        sb_reclaim_pending(peer);
        sb_reclaim_free(peer);
        sb_reclaim_free(peer);
}

/* Begin a sweep when some process left work behind, unless the rest after the last one is not over.
 * Return: whether a sweep is under way. */
static bool work_begin_sweep(struct sb_peer *peer, uint32_t *cursor)
{
        struct sb_superblock *super = peer->segment.super;
        uint64_t wanted = sb_load_acquire(&super->sweep_wanted); /* A:sweep. */

        if (wanted == sb_load_acquire(&super->swept)) /* A:sweep. */
                return false;
        if (peer->work.rest_left) {
                peer->work.rest_left--;
                return false;
        }
        peer->work.goal = wanted;
        peer->work.left = peer->segment.geometry.unit_count;
        peer->work.freed = 0;
        sb_sweep_begin(peer);
        *cursor = 0;
        return true;
}

static void work_end_sweep(struct sb_peer *peer)
{
        sb_sweep_end(peer);
        /* R:sweep > A:sweep. What was left behind before this sweep began has been looked at. */
        sb_store_release(&peer->segment.super->swept, peer->work.goal);
        if (peer->work.freed)
                peer->work.rest = 0;
        else
                peer->work.rest = peer->work.rest < SWEEP_REST_MAX / 2 ? peer->work.rest * 2 + 1
                                                                       : SWEEP_REST_MAX;
        /* Among busy writers a sweep always finds something: sweeps have a fifth of the time. */
        peer->work.rest_left = peer->segment.geometry.unit_count / SWEEP_SLICE * 4;
        if (peer->work.rest_left < peer->work.rest)
                peer->work.rest_left = peer->work.rest;
}

bool sb_work_tick(struct sb_peer *peer, uint32_t *cursor)
{
        uint32_t count;

        sb_safe_raise(peer);
        sb_reclaim_pending(peer);
        sb_reclaim_free(peer);
        if (!peer->work.left && !work_begin_sweep(peer, cursor))
                return false;
        count = peer->work.left < SWEEP_SLICE ? peer->work.left : SWEEP_SLICE;
        peer->work.left -= count;
        peer->work.freed += sb_sweep(peer, cursor, count);
        if (!peer->work.left)
                work_end_sweep(peer);
        return true;
}

bool sb_work_sweeping(const struct sb_peer *peer)
{
        return peer->work.left;
}

void sb_work_ask(struct sb_peer *peer)
{
        peer->work.rest_left = 0;
        sb_limbo_leave(peer);
}
