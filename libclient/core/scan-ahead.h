/*
 * Nodes that a scan upwards takes ahead of its steps, and their memory, which comes meanwhile.
 *
 * No pin holds these nodes. One of a key with a value in the cut stays. Any other one may leave the
 * index, and its block may serve anything; but no cell leads to a version in the cut that names it.
 * So a step reads a number there, and believes the cell's version alone.
 */
#ifndef SB_SCAN_AHEAD_H
#define SB_SCAN_AHEAD_H

#include "libclient/core/scan-place.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"

#ifndef SB_SCAN_FIRST_RUN
#define SB_SCAN_FIRST_RUN 12u /* nodes that a scan takes at first */
#endif
/* So many keys before its own step a key's memory is fetched. With about SB_SCAN_NODES_AHEAD left a
 * scan takes more. */
#define SB_SCAN_NODES_AHEAD 44u
#ifndef SB_SCAN_CELLS_AHEAD
#define SB_SCAN_CELLS_AHEAD    24u
#define SB_SCAN_VERSIONS_AHEAD 12u
#endif

/* Three steps by which the memory of a key comes, each when that of the one before is there: of its
 * node, of its cell, of its version. The node may have left the index, and be free memory: then its
 * cell is any. */
static inline void sb_scan_ahead_node(const struct sb_scan *scan, uint32_t at)
{
        sb_prefetch_later(scan->bus->handle.segment.base + scan->run[at]);
}
static inline struct sb_word64 **sb_scan_ahead_cell(struct sb_scan *scan, uint32_t at)
{
        return &scan->cell[(scan->before + at) % SB_SCAN_CELLS];
}
static inline void sb_scan_ahead_fetch_cell(struct sb_scan *scan, uint32_t at)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;
        const struct sb_node *node = (const void *)(segment->base + scan->run[at]);

        sb_model_unchecked_begin();
        /* A:publish. */
        *sb_scan_ahead_cell(scan, at) = sb_cell_at(segment, sb_load_acquire(&node->cell));
        sb_model_unchecked_end();
        sb_prefetch_later(*sb_scan_ahead_cell(scan, at));
}
static inline void sb_scan_ahead_version(struct sb_scan *scan, uint32_t at)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;
        const struct sb_word64 *cell = *sb_scan_ahead_cell(scan, at);
        /* Relaxed: a hint. */
        uint64_t offset = cell ? sb_load_relaxed(cell) & SB_OFFSET_MASK : 0;

        sb_prefetch_later(segment->base + offset);
        sb_prefetch_later(segment->base + offset + SB_LINE);
}

/* Before the step to the next key: what later steps read. */
static inline __attribute__((always_inline)) void sb_scan_ahead_fetch(struct sb_scan *scan)
{
        uint32_t at = scan->run_at, left = scan->run_count - at;

        if (SB_LIKELY(left > SB_SCAN_NODES_AHEAD))
                sb_scan_ahead_node(scan, at + SB_SCAN_NODES_AHEAD);
        if (SB_LIKELY(left > SB_SCAN_CELLS_AHEAD))
                sb_scan_ahead_fetch_cell(scan, at + SB_SCAN_CELLS_AHEAD);
        if (SB_LIKELY(left > SB_SCAN_VERSIONS_AHEAD))
                sb_scan_ahead_version(scan, at + SB_SCAN_VERSIONS_AHEAD);
}

/* Take nodes behind those that were taken. Under a pin. Return: 0; SB_E_NOT_FOUND: the index is
 * damaged. */
int sb_scan_ahead_take(struct sb_scan *scan);
/* With how many nodes left it is time for that; if there are no others, with none. */
uint32_t sb_scan_ahead_low(const struct sb_scan *scan);
/* Behind a step: say how far others may go the short way, up to where more nodes have to be taken,
 * or the limit. */
void sb_scan_ahead_set_short(struct sb_scan *scan);
/* A key does not come behind the one before: in a damaged segment the scan could go round for ever.
 * Return: SB_E_NOT_FOUND. */
int sb_scan_end_in_damage(struct sb_scan *scan);

#endif
