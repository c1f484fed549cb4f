/*
 * Snapshots: cuts that a client has announced, so that pruners keep what they need (models: prune).
 */
#ifndef SB_MVCC_SNAPSHOT_H
#define SB_MVCC_SNAPSHOT_H

#include "shm/layout/handle.h"

/* Announce a snapshot, then take its cut. Return: 0, SB_E_FULL (snapshot_count are open). */
int sb_snapshot_open(struct sb_peer *peer, uint32_t *ret_index, uint64_t *ret_cut);
/* Announce a cut that was taken long ago: from the next view on pruners keep what it needs, and is
 * left.
 * Return: 0, SB_E_FULL. */
int sb_snapshot_open_at(struct sb_peer *peer, uint64_t cut, uint32_t *ret_index);
/* Whether the caller's announcement @index still is of @cut: asked after a read at it. */
bool sb_snapshot_holds(const struct sb_peer *peer, uint32_t index, uint64_t cut);
void sb_snapshot_close(struct sb_peer *peer, uint32_t index);

#endif
