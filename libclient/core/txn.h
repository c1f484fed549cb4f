/*
 * What a struct sb_txn is inside, for those who read with it (scan.c) or end with it (bus.c).
 */
#ifndef SB_CLIENT_TXN_H
#define SB_CLIENT_TXN_H

#include "libclient/core/bus.h"
#include "libclient/core/write-set.h"
#include "libclient/core/read-set.h"

enum sb_txn_state { SB_TXN_ENDED, SB_TXN_OPEN, SB_TXN_DECIDED };

struct sb_txn {
        struct sb_bus *bus;          /* NULL: closed under it */
        struct sb_txn *next, **link; /* in the bus's list */
        enum sb_txn_state state;
        bool serializable;
        uint32_t snapshot; /* its announcement, while it is open */
        uint32_t scan_count;
        uint64_t cut;
        uint64_t value_len_max; /* of a write in a transaction */
        struct sb_write_set write_set;
        struct sb_read_set read_set;    /* what was read; unless serializable, nothing */
        struct sb_commit_write *writes; /* for a commit; of @writes_capacity */
        uint32_t writes_capacity;
        bool conflicted; /* at the key in @conflict */
        uint32_t conflict_len;
        unsigned char conflict[SB_KEY_LEN_MAX];
};

/* Whether it can be used now. Return: 0, -EINVAL (decided, or ended), SB_E_DETACHED. */
static inline int sb_txn_check(const struct sb_txn *txn)
{
        if (txn->state != SB_TXN_OPEN)
                return -EINVAL;
        return txn->bus == NULL || sb_bus_detached(txn->bus) ? SB_E_DETACHED : 0;
}

/* Describe an own write in a guard, which holds a copy. A place was reserved. */
void sb_txn_guard_fill(
        struct sb_bus *bus, struct sb_write_set_value *value, struct sb_guard *ret_guard);

/* The bus is going away: its transactions answer SB_E_DETACHED from now on. */
void sb_txn_orphan(struct sb_bus *bus);

#endif
