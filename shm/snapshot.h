/*
 * Cuts, snapshots, `safe`, and pruning what no cut needs (models: stamps, prune).
 */
#ifndef SB_SNAPSHOT_H
#define SB_SNAPSHOT_H

#include "peer.h"

/* Stamp a version that is committed, if nobody has yet; returns its stamp, or one above every clock
 * for what is aborted or not decided. */
uint64_t sb_stamp(struct sb_peer *peer, struct sb_version *version);
/* Take a cut: everything stamped so far, nothing installed later. */
uint64_t sb_cut_take(struct sb_peer *peer);
/* Take a cut, resolve what the operation slots show, raise `safe` to it. */
void sb_safe_raise(struct sb_peer *peer);
/* Announce a snapshot, then take its cut. Return: 0, SB_E_FULL (snapshot_count are open). */
int sb_snapshot_open(struct sb_peer *peer, uint32_t *ret_index, uint64_t *ret_cut);
/* Announce a cut that was taken long ago: from the next view on pruners keep what it needs, and is
 * left.
 * Return: 0, SB_E_FULL. */
int sb_snapshot_open_at(struct sb_peer *peer, uint64_t cut, uint32_t *ret_index);
/* Whether the caller's announcement @index still is of @cut: asked after a read at it. */
bool sb_snapshot_holds(const struct sb_peer *peer, uint32_t index, uint64_t cut);
void sb_snapshot_close(struct sb_peer *peer, uint32_t index);
/* Read the bound, flush everybody's stores, read the announcements. */
void sb_view_take(struct sb_peer *peer, struct sb_view *ret);
/* Bring the peer's own view up to date if a cut was taken since. */
void sb_view_renew(struct sb_peer *peer);
/* By @view: whether some cut, open or to come, reads a version that was current from @stamp until
 * @successor. */
bool sb_view_needs(const struct sb_view *view, uint64_t stamp, uint64_t successor);
/* Under a pin: take out of a chain what @view says nobody needs. Return: whether something that is
 * superseded was kept. */
bool sb_prune_cell(struct sb_peer *peer, uint64_t cell_number, const struct sb_view *view);

/* Under a pin, where no rule applies: the same for @old, which this peer has just replaced with
 * @version, stamped, when by the peer's own view no cut needs it: the usual case. True: nothing of
 * the kind is left. */
bool sb_prune_behind(struct sb_peer *peer, struct sb_version *version, struct sb_version *old);

#endif
