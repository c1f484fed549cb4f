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
#ifndef SB_OP_H
#define SB_OP_H

#include "shm/peer.h"

#define SB_OP_ANY_REV UINT64_MAX

struct sb_op_write {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE or SB_VERSION_DELETED */
        uint64_t value_len;
        uint64_t expected_rev; /* SB_OP_ANY_REV: whatever there is; 0: create; deletes: never 0 */
};
struct sb_op_result {
        /* on 0: the new revision; on SB_E_CONFLICT: the current one, 0 without a value */
        uint64_t rev;
        uint64_t cut; /* on 0: the first cut that contains the write */
};

/* One attempt with all memory work that this peer can do. Lengths were checked by the caller.
 * Return: 0, SB_E_CONFLICT, SB_E_NOT_FOUND (delete), SB_E_FULL (nothing could be reclaimed just
 * now; nothing happened). */
int sb_op_write(struct sb_peer *peer, const struct sb_op_write *write, struct sb_op_result *ret);

/* A whole value of the bus's own (shm/reserved.h), or its delete with @value NULL. *ret_rev as in
 * the result of a write. */
int sb_op_write_own(struct sb_peer *peer, const void *key, uint32_t key_len, const void *value,
        uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev);

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

/* The work on memory that is due by now; not under a pin. */
void sb_op_work(struct sb_peer *peer);
/* A bus's work on memory, all that can be done without waiting; called when room is short, and by
 * close. */
void sb_op_memory_work(struct sb_peer *peer, bool whole_sweep);

#endif
