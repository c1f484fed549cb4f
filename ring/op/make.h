/*
 * Making a key that has no value yet: for a transaction, which needs the key's cell before it
 * installs anything, and for a watch of a key that is absent.
 *
 * Always true: a key that was made and is not used stays bare, and a sweep takes it out.
 */
#ifndef SB_RING_OP_MAKE_H
#define SB_RING_OP_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout/handle.h"

/* Whether the key is there, with a value or bare. Not under a pin. */
bool sb_make_is_there(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash);
/* Make the key, unless it is there. @also: SB_SLAB_* bits. Not under a pin.
 * Return: 0; SB_E_FULL: perhaps with a node without a cell, for which the caller asks for a sweep
 * (sb_limbo_leave()); -EIO: the index is damaged. */
int sb_make_key(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash, uint32_t also);

#endif
