/*
 * Pruning: taking versions out of a chain that no cut needs, and no rule keeps.
 */
#ifndef SB_UPKEEP_PRUNE_H
#define SB_UPKEEP_PRUNE_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Under a pin: take out of a chain what @view says nobody needs. Return: whether something that is
 * superseded was kept. */
bool sb_prune_cell(struct sb_peer *peer, uint64_t cell_number, const struct sb_horizon *view);

/* Under a pin, where no rule applies: the same for @old, which this peer has just replaced with
 * @version, stamped, when by the peer's own view no cut needs it: the usual case. True: nothing of
 * the kind is left. */
bool sb_prune_behind(struct sb_peer *peer, struct sb_version *version, struct sb_version *old);

#endif
