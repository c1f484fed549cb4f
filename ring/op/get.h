/*
 * The read path of one key, and of many: what is found is held by a guard before the pin goes.
 */
#ifndef SB_RING_OP_GET_H
#define SB_RING_OP_GET_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The newest value under a guard. On 0, *ret_version is held by guard word @guard_index (room was
 * made before). Return: 0, SB_E_NOT_FOUND. */
int sb_op_get(struct sb_peer *peer, const void *key, uint32_t key_len, uint32_t guard_index,
        struct sb_version **ret_version);

/* The value at @cut, announced in the caller's word @snapshot, under a guard. Return: 0,
 * SB_E_NOT_FOUND, SB_E_LAPPED (the announcement was taken away). */
int sb_op_get_at(struct sb_peer *peer, const void *key, uint32_t key_len, uint32_t snapshot,
        uint64_t cut, uint32_t guard_index, struct sb_version **ret_version);

/* As struct sb_bytes, which callers may give. */
struct sb_op_key {
        const void *data;
        size_t len;
} __attribute__((may_alias));
/* The same for @count keys, the memory of 32 fetched together; ret_versions[i] NULL: no value.
 * guard_indexes[i] for each. Each key for itself: this is not a cut. */
void sb_op_get_many(struct sb_peer *peer, const struct sb_op_key *keys, uint32_t count,
        const uint32_t *guard_indexes, struct sb_version **ret_versions);

#endif
