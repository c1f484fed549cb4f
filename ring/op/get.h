/*
 * The read path of one key, and of many: the newest value, or the value at a cut that the caller
 * announces.
 *
 *      the short way:  a guard word names what the cell names -> the cell names it still
 *      the long way:   pin -> find the version -> a guard word names it -> unpin
 *
 * A read tries the short way first (shm/mvcc/find-plain.h), inline and without a call; the long way
 * (shm/mvcc/find.h) takes what the short one leaves: placeholders, intents, unstamped versions.
 *
 * Always true: from the first look at a version on, a pin or a guard keeps it from being freed. No
 * read waits for another process, and none allocates.
 *
 * The caller of each of these holds no pin, is the only thread that uses the handle, and has grown
 * its guard words so that they include the index that it gives (sb_guard_grow()).
 */
#ifndef SB_RING_OP_GET_H
#define SB_RING_OP_GET_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Finds the newest value of a key. On 0 guard word @guard_index holds *ret_version. Return: 0,
 * SB_E_NOT_FOUND. */
int sb_op_get(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t guard_index,
        struct sb_version **ret_version);

/* Finds the value at @cut, which the caller's word @snapshot announces. On 0 guard word
 * @guard_index holds *ret_version. Return: 0; SB_E_NOT_FOUND; SB_E_LAPPED: the announcement was
 * taken away. */
int sb_op_get_at(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t snapshot,
        uint64_t cut, uint32_t guard_index, struct sb_version **ret_version);

/* Laid out as struct sb_bytes, an array of which callers may give. */
struct sb_op_key {
        const void *data;
        size_t len;
} __attribute__((may_alias));
/* sb_op_get() for @count keys, the memory of 32 of which is fetched together. guard_indexes[i] is
 * for key i; ret_versions[i] is NULL for a key without a value, else ret_shapes[i] is its shape,
 * checked, and perhaps with a key length of 0. Each key is read for itself: the values together are
 * not of one cut. */
void sb_op_get_many(struct sb_handle *handle, const struct sb_op_key *keys, uint32_t count,
        const uint32_t *guard_indexes, struct sb_version **ret_versions, uint64_t *ret_shapes);
/* The same at @cut, which the caller's word @snapshot announces. Return: 0; SB_E_LAPPED: the
 * announcement was taken away, and no guard word holds anything. */
int sb_op_get_many_at(struct sb_handle *handle, const struct sb_op_key *keys, uint32_t count,
        uint32_t snapshot, uint64_t cut, const uint32_t *guard_indexes,
        struct sb_version **ret_versions, uint64_t *ret_shapes);
/* Has the memory of @count keys come, some tens at once. */
void sb_op_fetch(struct sb_handle *handle, const struct sb_op_key *keys, uint32_t count);

#endif
