/*
 * Snapshots: cuts that a client has announced in its record, so that pruners keep what a read at
 * them needs (models: prune).
 *
 *      0 -> PENDING -> cut -> 0        opened: by the owner, or given its cut by a pruner that met
 *                                      the announcement; closed: by the owner
 *
 * A snapshot is announced before its cut is taken: a pruner that does not see the announcement read
 * the stable cut before that, so what it takes out is superseded in the snapshot's cut, too. The
 * engine may take a snapshot away (evict.h); its owner learns of that by a look at the announcement
 * after each read (sb_snapshot_holds()).
 *
 * Always true: an announcement that holds after a read held all through it. Only the owner's own
 * threads call these functions, one at a time.
 */
#ifndef SB_MVCC_SNAPSHOT_H
#define SB_MVCC_SNAPSHOT_H

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"

/* Announce a snapshot, then take its cut. Return: 0, SB_E_FULL (snapshot_count are open). */
int sb_snapshot_open(struct sb_handle *handle, uint32_t *ret_index, uint64_t *ret_cut);
/* The same for a caller that can do without: it leaves half of the announcements for others.
 * Return: 0, SB_E_FULL. */
int sb_snapshot_open_spare(struct sb_handle *handle, uint32_t *ret_index, uint64_t *ret_cut);
/* Announce a cut that was taken long ago. A pruner that looks at the announcements from now on
 * keeps what is left of what the cut needs. Return: 0, SB_E_FULL. */
int sb_snapshot_open_at(struct sb_handle *handle, uint64_t cut, uint32_t *ret_index);
/* Whether the caller's announcement @index still is of @cut: asked after a read at the cut. False:
 * it was taken away, and what was read does not count. */
static inline bool sb_snapshot_holds(const struct sb_handle *handle, uint32_t index, uint64_t cut)
{
        /* A:announce. The engine changes the word before any pruner goes without the cut: what was
         * read before this look was whole. */
        return sb_load_acquire(&sb_record_snapshots(handle->record)[index]) == cut ||
               SB_FAULT(EVICT_NO_LOOK);
}
/* End a snapshot. If the clock moved on meanwhile, this asks for a sweep, because pruners may have
 * kept versions for this snapshot alone. */
void sb_snapshot_close(struct sb_handle *handle, uint32_t index);

#endif
