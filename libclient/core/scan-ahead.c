/* What a scan takes ahead of its steps; see scan-ahead.h. */

#include "libclient/core/scan-ahead.h"

#include <string.h>

#include "shm/base/result.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"

/* How many nodes to take at once: at first few, or as many as the caller asks for; then twice as
 * many each time, so that a scan takes no more in vain than it gave. Where rules alone keep the cut
 * few, always, since no key has to stay for the next step. */
static uint32_t scan_ahead_most(struct sb_scan *scan)
{
        uint32_t most = SB_SCAN_FIRST_RUN;

        if (!scan->past && scan->runs)
                most = 2 * scan->run_most;
        else if (!scan->past && scan->wished > SB_SCAN_FIRST_RUN - 2)
                most = scan->wished + 2;
        scan->run_most = most < SB_SCAN_RUN ? most : SB_SCAN_RUN;
        return scan->left < scan->run_most ? (uint32_t)scan->left + 1 : scan->run_most;
}

/* The last node that was taken, or 0. The guard word holds it; or, where rules alone keep the cut,
 * this pin. */
static uint64_t scan_ahead_last(const struct sb_scan *scan)
{
        if (!scan->past)
                return scan->last;
        return scan->run_count ? scan->run[scan->run_count - 1] : 0;
}

/* From where on more nodes are taken: behind @last, or where the scan stands. Return: whether
 * behind that key. */
static bool scan_ahead_frontier(const struct sb_scan *scan, uint64_t last, struct sb_node_key *ret)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;
        const struct sb_node *node;

        if (!last)
                return sb_scan_position(scan, ret);
        /* A key never changes. */
        node = sb_node_at(segment, last);
        *ret = node ? sb_node_key(segment, node) : (struct sb_node_key){0};
        return true;
}

static uint32_t scan_ahead_least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

/* Add the nodes of @run to those that come next, and fetch what steps would have fetched already.
 */
static void scan_ahead_add_run(struct sb_scan *scan, const struct sb_order_run *run)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;
        uint32_t rest = scan->run_count - scan->run_at, count = rest + run->count, i;

        memmove(scan->run, scan->run + scan->run_at, rest * sizeof(*scan->run));
        for (i = rest; i < count; i++)
                scan->run[i] = sb_offset_of(segment, run->node[i - rest]);
        scan->before += scan->run_at;
        scan->run_at = 0;
        scan->run_count = count;
        for (i = rest; i < scan_ahead_least(count, SB_SCAN_NODES_AHEAD); i++)
                sb_scan_ahead_node(scan, i);
        for (i = rest; i < scan_ahead_least(count, SB_SCAN_CELLS_AHEAD); i++)
                sb_scan_ahead_fetch_cell(scan, i);
        for (i = rest; i < scan_ahead_least(count, SB_SCAN_VERSIONS_AHEAD); i++)
                sb_scan_ahead_version(scan, i);
}

int sb_scan_end_in_damage(struct sb_scan *scan)
{
        sb_damage_note(&scan->bus->handle);
        sb_scan_stand_at_end(scan);
        return SB_E_NOT_FOUND;
}

int sb_scan_ahead_take(struct sb_scan *scan)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_order_run run;
        struct sb_node_key at;
        uint64_t last = scan_ahead_last(scan);
        bool after = scan_ahead_frontier(scan, last, &at);

        if (!at.bytes || (last && !sb_scan_is_ahead((struct sb_node_key){.bytes = scan->from.key,
                                                            .len = scan->from.len},
                                          scan->from.inclusive, at.bytes, at.len)))
                return sb_scan_end_in_damage(scan);
        /* What it comes to next is not its own. */
        if (last && !sb_scan_place_in_range(scan, at.bytes, at.len)) {
                scan->run_ends = true;
                return 0;
        }
        /* Some of the bus's own keys never have a value: all of them are passed over together. */
        if (last && !scan->reserved && sb_reserved_is(at.bytes, at.len)) {
                at = (struct sb_node_key){
                        .bytes = (const unsigned char *)SB_RESERVED_END, .len = SB_RESERVED_LEN};
                after = false;
        }
        sb_scan_bound_set(&scan->from, at.bytes, at.len, after);
        sb_order_take_run(handle, at.bytes, at.len, !after, false, scan_ahead_most(scan), &run);
        scan->runs++;
        scan->run_ends = !run.more || !run.count;
        if (run.count && !scan->past)
                sb_scan_place_hold_last(
                        scan, sb_offset_of(&handle->segment, run.node[run.count - 1]));
        scan_ahead_add_run(scan, &run);
        return 0;
}

/* The first run is gone through to its end: a short scan takes no other. Where rules alone keep the
 * cut, each is. */
uint32_t sb_scan_ahead_low(const struct sb_scan *scan)
{
        if (scan->run_ends || scan->runs < 2 || scan->past)
                return 0;
        return scan->run_most < SB_SCAN_RUN ? scan->run_most * 3 / 8 : SB_SCAN_RUN_LOW;
}

void sb_scan_ahead_set_short(struct sb_scan *scan)
{
        uint64_t left = scan->run_count - scan->run_at;
        uint32_t low = sb_scan_ahead_low(scan);

        if (!scan->plain)
                return;
        left = left > low ? left - low : 0;
        /* The limit has not counted this step yet. */
        scan->short_to = scan->run_at + (uint32_t)(left < scan->left - 1 ? left : scan->left - 1);
}
