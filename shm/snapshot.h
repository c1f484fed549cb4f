/*
 * Cuts, snapshots, `safe`, and pruning what no cut needs (models: stamps, prune).
 */
#ifndef SB_SNAPSHOT_H
#define SB_SNAPSHOT_H

#include "peer.h"

/* What a pruner knows: versions whose successor's stamp is <= bound are needed only by the open cuts. */
struct sb_view {
        uint64_t bound;
        uint32_t cut_count;
        uint64_t cuts[SB_VIEW_CUTS_MAX]; /* open snapshots, ascending; more than fit: the last stands for all above */
        bool cuts_overflow;
};

/* Stamp a version that is committed, if nobody has yet; returns its stamp. */
uint64_t sb_stamp(struct sb_peer *peer, struct sb_version *version);
/* Take a cut: everything stamped so far, nothing installed later. */
uint64_t sb_cut_take(struct sb_peer *peer);
/* Take a cut, resolve what the operation slots show, raise `safe` to it. */
void sb_safe_raise(struct sb_peer *peer);
/* Announce a snapshot, then take its cut. Return: 0, SB_E_FULL (snapshot_count are open). */
int sb_snapshot_open(struct sb_peer *peer, uint32_t *ret_index, uint64_t *ret_cut);
void sb_snapshot_close(struct sb_peer *peer, uint32_t index);
/* Read `safe`, flush everybody's stores, read the announcements. */
void sb_view_take(struct sb_peer *peer, struct sb_view *ret);
/* Under a pin: take out of a chain what @view says nobody needs. Return: whether something that is superseded was kept. */
bool sb_prune_cell(struct sb_peer *peer, uint64_t cell_number, const struct sb_view *view);

/* Under a pin: the same for the one version behind @version, which this peer has just installed and stamped, when no cut at all can
 * tell the two apart: the usual case of a key that is written often. True: nothing of the kind is left. */
bool sb_prune_behind(struct sb_peer *peer, struct sb_version *version);

#endif
