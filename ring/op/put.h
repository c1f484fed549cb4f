/*
 * The write path of one key, for clients and the daemon alike: set, compare-and-set, delete.
 *
 *      take a block -> pin -> find the cell, or make the key -> build the version -> note the
 *      operation -> CAS the cell: this is the write -> stamp the version -> hand the replaced one
 *      on -> clear the note -> unpin -> remember what can be pruned later
 *
 * A write tries the short way first (overwrite.h): those steps for the usual case, inline. The long
 * way does the rest: it makes keys, deletes, brings transactions that it meets to their end, and
 * does memory work when the bus has no free block at hand.
 *
 * Always true: no write waits for another process; a CAS that fails says that another writer's
 * succeeded, and the write looks again. A client that is killed between any two steps leaves either
 * blocks that only its own record or slabs name, which its reaper frees, or an installed version,
 * which any process that meets it stamps.
 */
#ifndef SB_RING_OP_PUT_H
#define SB_RING_OP_PUT_H

#include "ring/op/write.h"
#include "shm/layout/handle.h"

/* Writes one key, after all the memory work that this handle can do, if that is needed. The caller
 * has checked the lengths, holds no pin, and is the only thread that uses @handle. Return: 0;
 * SB_E_CONFLICT; SB_E_NOT_FOUND (a delete); SB_E_FULL (nothing could be reclaimed just now). Except
 * for 0, nothing happened. */
int sb_op_write(
        struct sb_handle *handle, const struct sb_op_write *write, struct sb_op_result *ret);

/* Writes a whole value of a key that is the bus's own (shm/layout/reserved.h), or deletes it, with
 * @value NULL. *ret_rev and Return: as for sb_op_write(). */
int sb_op_write_reserved(struct sb_handle *handle, const void *key, uint32_t key_len,
        const void *value, uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev);
/* The same for a value that its writer deletes next: it may have the memory that is reserved for
 * deletes. */
int sb_op_write_passing(struct sb_handle *handle, const void *key, uint32_t key_len,
        const void *value, uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev);

#endif
