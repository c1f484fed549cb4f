/*
 * Marks: a cut under a name, kept for everybody until it is dropped. The name is a key of its own
 * (shm/reserved.h), which names an entry of a table that pruners read (shm/mark.h).
 */
#ifndef SB_RING_OP_MARK_H
#define SB_RING_OP_MARK_H

#include "shm/layout/handle.h"

/* Mark a cut that is taken now. Lengths were checked by the caller, sb_mark_name_max() at most.
 * Return: 0; SB_E_CONFLICT: the name is taken; SB_E_FULL: no mark or no memory is left, or too many
 * snapshots are open; SB_E_LAPPED: the cut was taken away meanwhile. */
int sb_mark_make(struct sb_peer *peer, const void *name, uint32_t name_len, uint64_t *ret_cut);
/* The cut of a mark. Return: 0, SB_E_NOT_FOUND. */
int sb_mark_look_up(struct sb_peer *peer, const void *name, uint32_t name_len, uint64_t *ret_cut);
/* Return: 0, SB_E_NOT_FOUND, SB_E_FULL (no memory even for that). */
int sb_mark_forget(struct sb_peer *peer, const void *name, uint32_t name_len);
/* Bytes of the longest name. */
uint32_t sb_mark_name_max(const struct sb_peer *peer);

#endif
