/*
 * Marks by name: a mark keeps a cut, for all keys and all processes, until it is dropped. The name
 * is a key of its own (shm/layout/reserved.h), the value of which names an entry of the table that
 * pruners read (shm/history/named.h).
 *
 *      announce a cut -> take an entry of the table for it -> write the key -> end the announcement
 *      drop: delete the key -> free the entry
 *
 * Always true: while a mark is being made, its maker announces the cut; so an entry without a key
 * that no live process announces is a dead maker's, and sb_named_repair() frees it. A key of which
 * the entry is free, or another mark's by now, names no mark, and its name may be taken again.
 *
 * The caller of each of these holds no pin, and is the only thread that uses the handle.
 */
#ifndef SB_RING_OP_MARK_H
#define SB_RING_OP_MARK_H

#include "shm/layout/handle.h"

/* Marks a cut that is taken now. The caller has checked the length, sb_op_mark_name_max() at most.
 * Return: 0; SB_E_CONFLICT: the name is taken; SB_E_FULL: no entry or no memory is left, or too
 * many snapshots are open; SB_E_LAPPED: the cut was taken away meanwhile. */
int sb_op_mark(struct sb_handle *handle, const void *name, uint32_t name_len, uint64_t *ret_cut);
/* Looks up the cut of a mark. Return: 0, SB_E_NOT_FOUND. */
int sb_op_mark_find(
        struct sb_handle *handle, const void *name, uint32_t name_len, uint64_t *ret_cut);
/* Drops a mark. Return: 0; SB_E_NOT_FOUND; SB_E_FULL: no memory even for that. */
int sb_op_mark_drop(struct sb_handle *handle, const void *name, uint32_t name_len);
/* Return: bytes of the longest name. */
uint32_t sb_op_mark_name_max(const struct sb_handle *handle);

#endif
