/*
 * Whether a block is linked by anything: asked of the chains and of the index, never of a list.
 *
 * What makes the answer final: a block's retire word leaves 0 before the last link to it goes. So a
 * block whose word is still 0 after it was not found was never published.
 */
#ifndef SB_KEYS_REACH_H
#define SB_KEYS_REACH_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Under a pin: the version is in the chain of the cell that its node names. */
bool sb_reach_version(struct sb_peer *peer, const struct sb_version *version);
/* Under a pin: the node is in the ordered index. */
bool sb_reach_node(struct sb_peer *peer, const struct sb_node *node);
/* Under a pin: a block with its bit set, of a unit of @kind: whether it was ever published. */
bool sb_reach_published(struct sb_peer *peer, uint64_t offset, enum sb_unit_kind kind);

#endif
