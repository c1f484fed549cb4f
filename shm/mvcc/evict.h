/*
 * Evicting snapshots: the engine takes a cut away from its owner, because an operator asked for it
 * or because the cut is older than a limit allows; so what the cut kept can be used again.
 *
 *      cut --CAS--> cut | EVICTING     a noted commit at this cut comes to its end
 *          --CAS--> EVICTED --> 0      the owner ends the snapshot
 *
 * Always true: the engine alone does this. While the word says EVICTING, pruners keep what the cut
 * needs. So a process that reads at the cut and finds the word unchanged afterwards has read what
 * was there; one that finds it changed throws away what it read (SB_E_LAPPED). Guards are no part
 * of a snapshot: what they hold stays. A snapshot that is just being opened is passed over.
 */
#ifndef SB_MVCC_EVICT_H
#define SB_MVCC_EVICT_H

#include "shm/layout/handle.h"

/* Take away the snapshots of the client in record @slot that have cuts not above @cut_max. Return:
 * how many. */
uint32_t sb_evict_client(struct sb_handle *handle, uint32_t slot, uint64_t cut_max);
/* The same for all clients but the engine. */
uint32_t sb_evict_all(struct sb_handle *handle, uint64_t cut_max);
/* For a new engine: finish what the one before it had begun. */
void sb_evict_finish(struct sb_handle *handle);

#endif
