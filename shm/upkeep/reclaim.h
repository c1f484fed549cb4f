/*
 * Reclaiming: working off what a handle has yet to see to (memory/limbo.h).
 *
 * How it works: sb_reclaim_pending() looks again at the cells in the pending list, with a new prune
 * horizon: it prunes their chains, and removes keys that no cut needs. sb_reclaim_free() looks once
 * at the pins and guards of all clients (memory/grace.h), then frees each block in limbo that no
 * process can be reading: the CAS that writes FREEING into its retire word decides which process
 * clears its bit.
 *
 * Always true: the record's word `freeing` names a block before its retire word says FREEING, and
 * until its bit is cleared. So a reaper finishes what a dead client was freeing.
 */
#ifndef SB_UPKEEP_RECLAIM_H
#define SB_UPKEEP_RECLAIM_H

#include "shm/layout/handle.h"

/* Before a block of which the caller has won the retire word (FREEING) is free: if it is a
 * transaction's descriptor, its aborted versions are let go. */
void sb_reclaim_dispose(struct sb_handle *handle, uint64_t offset);
/* Prune and remove what is due; not under a pin. A cell that is not due yet stays in the list. */
void sb_reclaim_pending(struct sb_handle *handle);
/* Free what no process can be reading; not under a pin. Return: blocks freed.
 * Cost: one membarrier, unless limbo is empty. */
uint64_t sb_reclaim_free(struct sb_handle *handle);
/* The same for a client that writes on: what it replaced may become its spares (memory/spare.h). */
void sb_reclaim_due(struct sb_handle *handle);

#endif
