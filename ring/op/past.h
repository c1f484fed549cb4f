/*
 * The value of a key at a cut that the caller does not announce: a read of the past. What is known
 * of such a cut, and for how long, is in shm/history/past.h.
 *
 * Always true: an answer is the truth about that cut or SB_E_LAPPED, never a guess.
 */
#ifndef SB_RING_OP_PAST_H
#define SB_RING_OP_PAST_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Finds the value of a key at @cut. The caller holds no pin, is the only thread that uses @handle,
 * and
 * has grown its guard words so that they include @guard_index. Return: 0: the guard word holds
 * *ret_version; SB_E_NOT_FOUND: the key had no value then; SB_E_LAPPED: that is not known any more,
 * and *ret_version is the oldest version that is left, held by the guard word, or NULL. */
int sb_past_get(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t cut,
        uint32_t guard_index, struct sb_version **ret_version);

#endif
