/*
 * Evicting snapshots: the engine takes a cut away from its owner, because an operator asked for it
 * or because the owner has held it for longer than a limit allows; so what the cut kept can be used
 * again.
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

/* What an engine remembers of an announcement: which one it saw, and since when. */
struct sb_evict_seen {
        uint64_t opened; /* the word's count of announcements; 0: it saw none */
        uint64_t since_ns;
};
/* Take away the snapshots that clients have held for longer than @age_ns, by what this engine has
 * seen: how old the cut is says nothing, for a snapshot may be opened at any cut of the past.
 * @seen: an entry for each announcement of each record, all 0 at first. A new engine sees all anew,
 * so that a snapshot may be held for up to twice @age_ns. Return: how many. Cost: a load for each
 * announcement of each client. */
uint32_t sb_evict_held(
        struct sb_handle *handle, struct sb_evict_seen *seen, uint64_t now_ns, uint64_t age_ns);
/* For a new engine: finish what the one before it had begun. */
void sb_evict_finish(struct sb_handle *handle);

#endif
