/*
 * Reclaiming: working off what a handle has yet to see to (memory/limbo.h): chains that can be
 * shortened by now, and blocks of which the grace period may be over.
 */
#ifndef SB_UPKEEP_RECLAIM_H
#define SB_UPKEEP_RECLAIM_H

#include "shm/layout/handle.h"

/* Before a block that is in the caller's hand is freed: if it is a transaction's descriptor, its
 * aborted versions are let go. */
void sb_reclaim_dispose(struct sb_peer *peer, uint64_t offset);
/* Prune and remove what is due; not under a pin. */
void sb_reclaim_pending(struct sb_peer *peer);
/* Free what nobody can be reading; not under a pin. Return: blocks freed. */
uint64_t sb_reclaim_free(struct sb_peer *peer);

#endif
