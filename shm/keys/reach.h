/*
 * Reachability: whether anything links a block, asked of the chains, of the index and of the
 * records, never of a list. The reaper decides by it whether a block that a dead client took was
 * ever published, and `agentctl check` asks the same of every block.
 *
 * Always true: a block's retire word leaves 0 before the last link to it goes. So a block that was
 * not found, and has a retire word of 0 after that, was never published.
 */
#ifndef SB_KEYS_REACH_H
#define SB_KEYS_REACH_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Under a pin: whether the version is in the chain of the cell that its node names; a placeholder:
 * whether it is in any cell of the buckets where that may be. */
bool sb_reach_version(struct sb_handle *handle, const struct sb_version *version);
/* Under a pin: whether the node is in the ordered index. */
bool sb_reach_node(struct sb_handle *handle, const struct sb_node *node);
/* Under a pin: whether the block at @offset, which is taken in a unit of @kind, was ever published.
 * True also where no block can be. */
bool sb_reach_published(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind);

#endif
