/*
 * What a struct sb_txn is inside, for those who read with it (scan.c) or end with it (bus.c).
 */
#ifndef SB_CLIENT_TXN_H
#define SB_CLIENT_TXN_H

#include "libclient/core/bus.h"
#include "libclient/core/write-set.h"
#include "libclient/core/read-set.h"

enum sb_bus_txn_state { SB_BUS_TXN_ENDED, SB_BUS_TXN_OPEN, SB_BUS_TXN_DECIDED };

struct sb_txn {
        struct sb_bus *bus;          /* NULL: closed under it */
        struct sb_txn *next, **link; /* in the bus's list */
        enum sb_bus_txn_state state;
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
static inline int sb_bus_check_txn(const struct sb_txn *txn)
{
        if (txn->state != SB_BUS_TXN_OPEN)
                return -EINVAL;
        return txn->bus == NULL || sb_bus_detached(txn->bus) ? SB_E_DETACHED : 0;
}

/* The bus is going away: its transactions answer SB_E_DETACHED from now on. */
void sb_bus_orphan_txns(struct sb_bus *bus);

#endif
