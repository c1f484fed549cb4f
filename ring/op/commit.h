/*
 * Transactions' commits: many keys change together, or none does. docs/transactions.md has the
 * protocol; shm/txn.h what anybody does who meets one that is under way.
 *
 *      make missing keys -> take all blocks -> pin -> look at every key, fill every version -> fill
 * the descriptor, note it -> run it (shm/txn.h): install all, decide, stamp -> let go -> unpin
 *
 * A kill before the note leaves blocks that only the dead one's slabs know; behind it a transaction
 * that anybody can bring to its end.
 */
#ifndef SB_RING_OP_COMMIT_H
#define SB_RING_OP_COMMIT_H

#include "shm/layout/handle.h"

struct sb_commit_write {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE or SB_VERSION_DELETED */
        uint64_t value_len;
};
/* What was read: the key low (SB_RANGE_POINT), or all k with low <= k < high, all from low on with
 * SB_RANGE_NO_END. */
struct sb_commit_range {
        const void *low, *high;
        uint32_t low_len, high_len;
        uint32_t flags; /* SB_RANGE_* */
};
struct sb_commit_wish {
        const struct sb_commit_write *writes; /* ascending by key, each key once; at least one */
        uint32_t write_count;
        uint32_t range_count;
        const struct sb_commit_range *ranges; /* ascending, disjoint; none: snapshot isolation */
        bool serializable;
        uint32_t snapshot; /* the caller's announcement word */
        uint64_t cut;      /* that was read at */
};
#define SB_COMMIT_CAUSE_NONE UINT32_MAX
struct sb_commit_result {
        uint64_t cut;    /* on 0: the first cut that contains the writes */
        uint64_t number; /* on 0: the transaction's, as in guards */
        /* on SB_E_CONFLICT: the write that was not first, or write_count + the range in which
         * something changed, or SB_COMMIT_CAUSE_NONE: gave way to another one */
        uint32_t cause;
};

/* Commit. Lengths were checked by the caller; what is deleted had a value at the cut. Not under a
 * pin. Return: 0; SB_E_CONFLICT, nothing happened; SB_E_FULL (nothing could be reclaimed, nothing
 * happened: may be tried again); -EMSGSIZE (never fits this bus); SB_E_LAPPED (the announcement was
 * taken away; nothing happened). */
int sb_commit_run(
        struct sb_peer *peer, const struct sb_commit_wish *wish, struct sb_commit_result *ret);

#endif
