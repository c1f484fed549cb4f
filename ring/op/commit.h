/*
 * The commit of a transaction: many keys change together, or none does. This is the owner's way;
 * what any process does that meets a transaction under way is in shm/mvcc/help.h.
 * docs/transactions.md has the whole protocol.
 *
 *      make missing keys -> take all blocks -> pin -> look at every key, build every version
 *          -> fill the descriptor, note it -> run it (shm/mvcc/help.h): install all versions,
 *          decide, stamp -> let go -> unpin
 *
 * Always true: the note comes when the descriptor is complete and all versions are held. A client
 * that is killed before the note leaves blocks that only its slabs know, which its reaper frees;
 * one that is killed behind it leaves a transaction that any process can bring to its end.
 */
#ifndef SB_RING_OP_COMMIT_H
#define SB_RING_OP_COMMIT_H

#include "shm/layout/handle.h"

struct sb_commit_write {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE or SB_VERSION_DELETED */
        uint64_t value_len;
        uint64_t hash; /* sb_commit_run() fills it in */
};
/* A part of the read set: the key low (SB_RANGE_POINT), or all keys k with low <= k < high; with
 * SB_RANGE_NO_END all from low on. */
struct sb_commit_range {
        const void *low, *high;
        uint32_t low_len, high_len;
        uint32_t flags; /* SB_RANGE_* */
};
struct sb_commit_wish {
        struct sb_commit_write
                *writes; /* the write set, ascending by key, each key once; at least one */
        uint32_t write_count;
        uint32_t range_count;
        const struct sb_commit_range
                *ranges; /* the read set, ascending, disjoint; none: snapshot isolation */
        bool serializable;
        uint32_t snapshot; /* the caller's announcement word */
        uint64_t cut;      /* at which the transaction read */
};
#define SB_COMMIT_CAUSE_NONE UINT32_MAX
struct sb_commit_result {
        uint64_t cut;    /* on 0: the first cut that contains the writes */
        uint64_t number; /* on 0: the transaction's, as guards have it */
        /* on SB_E_CONFLICT: the index of the write that was not first, or write_count + the index
         * of the range in which something changed, or SB_COMMIT_CAUSE_NONE: this transaction gave
         * way to another one */
        uint32_t cause;
};

/* Commits. The caller has checked the lengths, holds no pin, and is the only thread that uses
 * @handle; each key that is deleted had a value at the cut. Return: 0; SB_E_CONFLICT; SB_E_FULL
 * (nothing could be reclaimed; the commit may be tried again); -EMSGSIZE (it never fits this bus);
 * SB_E_LAPPED (the announcement was taken away). Except for 0, nothing happened. */
int sb_commit_run(
        struct sb_handle *handle, const struct sb_commit_wish *wish, struct sb_commit_result *ret);

#endif
