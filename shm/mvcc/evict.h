/*
 * Taking snapshots away: an operator's wish, or a limit to their age, against what a cut that is
 * held for too long keeps from being reused.
 *
 *      cut --CAS--> cut | EVICTING --> the commit at this cut, if one is under way, comes to its
 * end
 *          --CAS--> EVICTED --> 0 when the owner ends it
 *
 * Always true: the engine alone does this. While the word says EVICTING, pruners keep what the cut
 * needs; so who reads at the cut and finds the word unchanged afterwards has read what was there,
 * and who finds it changed throws away what he read (SB_E_LAPPED). Guards are no part of a
 * snapshot: what they hold stays. A snapshot that is just being opened is passed over.
 */
#ifndef SB_MVCC_EVICT_H
#define SB_MVCC_EVICT_H

#include "shm/layout/handle.h"

/* Take away the snapshots of client @slot whose cuts are not above @cut_max. Return: how many. */
uint32_t sb_evict_client(struct sb_peer *peer, uint32_t slot, uint64_t cut_max);
/* The same for all clients but the engine. */
uint32_t sb_evict_all(struct sb_peer *peer, uint64_t cut_max);
/* For a new engine: what the one before it had begun. */
void sb_evict_finish(struct sb_peer *peer);

#endif
