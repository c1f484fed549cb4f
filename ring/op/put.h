/*
 * The write path, for clients and the daemon alike.
 *
 *      allocate -> pin -> find the cell, or make the key -> fill the version -> note the operation
 * -> CAS the cell -> stamp
 *      -> (feed, wake: later) -> clear the note -> unpin -> remember what may be pruned
 *
 * A kill between any two of these leaves: blocks that only the dead one's slabs know (the reaper
 * frees them), or an installed version that anybody stamps.
 */
#ifndef SB_RING_OP_PUT_H
#define SB_RING_OP_PUT_H

#include "ring/op/write.h"
#include "shm/layout/handle.h"

/* One attempt with all memory work that this peer can do. Lengths were checked by the caller.
 * Return: 0, SB_E_CONFLICT, SB_E_NOT_FOUND (delete), SB_E_FULL (nothing could be reclaimed just
 * now; nothing happened). */
int sb_op_write(struct sb_peer *peer, const struct sb_op_write *write, struct sb_op_result *ret);

/* A whole value of the bus's own (shm/reserved.h), or its delete with @value NULL. *ret_rev as in
 * the result of a write. */
int sb_op_write_own(struct sb_peer *peer, const void *key, uint32_t key_len, const void *value,
        uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev);

#endif
