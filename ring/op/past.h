/* The value of a key at a cut that the caller does not announce: see shm/past.h. */
#ifndef SB_RING_OP_PAST_H
#define SB_RING_OP_PAST_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Under a guard word, room for which was made. Return: 0; SB_E_NOT_FOUND: it had no value then;
 * SB_E_LAPPED: that is not known any more; then *ret_version is the oldest that is left, held, or
 * NULL. */
int sb_past_get(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t cut,
        uint32_t guard_index, struct sb_version **ret_version);

#endif
