/*
 * Memory of the indexes that a pass over all keys reads soon, fetched ahead: else the validator
 * would wait for a miss at nearly each step in a large bus.
 *
 * Always true: nothing that is read here is believed, and nothing is changed. What a link leads to
 * may be free memory by now, or damaged: an offset is checked before anything is loaded from there
 * (a prefetch of no matter what does no harm), and each loop ends after a number of steps.
 */
#ifndef SB_KEYS_AHEAD_H
#define SB_KEYS_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* Nodes that are looked at next, one after the other: their cells, and what is in these. @bits: and
 * the bits of the blocks, for a pass that asks whether each is one. */
void sb_ahead_nodes(
        const struct sb_segment *segment, struct sb_node *const *nodes, uint32_t count, bool bits);
/* The pass over the buckets has come to @bucket: what the cells of later ones lead to,
 * and the bits of that. */
void sb_ahead_bucket(const struct sb_segment *segment, uint32_t bucket);
/* Versions that are looked at next, in blocks of @size bytes; a bit of @bits for each: their nodes,
 * and the cells that these name. */
void sb_ahead_versions(const struct sb_segment *segment, const unsigned char *blocks, uint64_t size,
        uint64_t bits);

#endif
