/*
 * What a struct sb_txn is inside, for the files that read in it (scan.c, scan-step.c) or end it
 * with its bus (bus.c).
 *
 * Always true: a transaction is in its bus's list from sb_txn_begin() to sb_txn_end(), or until the
 * bus is closed.
 */
#ifndef SB_CLIENT_TXN_H
#define SB_CLIENT_TXN_H

#include "libclient/core/bus.h"
#include "libclient/core/read-set.h"
#include "libclient/core/write-set.h"

enum sb_bus_txn_state { SB_BUS_TXN_ENDED, SB_BUS_TXN_OPEN, SB_BUS_TXN_DECIDED };

/* What reads in a transaction, a scan, and has to learn that the transaction has ended. */
struct sb_bus_reader {
        struct sb_txn *txn; /* NULL: none, or it has ended */
        struct sb_bus_reader *next, **link;
};

struct sb_txn {
        struct sb_bus *bus;          /* NULL: it was closed under this transaction */
        struct sb_txn *next, **link; /* in the bus's list */
        enum sb_bus_txn_state state;
        bool serializable;
        uint32_t snapshot; /* index of the cut's announcement, while SB_BUS_TXN_OPEN */
        struct sb_bus_reader *readers;
        uint64_t cut;
        uint64_t value_len_max; /* of a write in a transaction */
        struct sb_write_set write_set;
        struct sb_read_set read_set;    /* empty unless serializable */
        struct sb_commit_write *writes; /* the write set as commit takes it; of @writes_capacity */
        uint32_t writes_capacity;
        bool conflicted; /* over the key in @conflict */
        uint32_t conflict_len;
        unsigned char conflict[SB_KEY_LEN_MAX];
};

/* Enter @reader into @txn, and take it out again. */
static inline void sb_bus_reader_enter(struct sb_bus_reader *reader, struct sb_txn *txn)
{
        reader->txn = txn;
        reader->next = txn->readers;
        reader->link = &txn->readers;
        if (reader->next)
                reader->next->link = &reader->next;
        txn->readers = reader;
}
static inline void sb_bus_reader_leave(struct sb_bus_reader *reader)
{
        if (!reader->txn)
                return;
        *reader->link = reader->next;
        if (reader->next)
                reader->next->link = reader->link;
        reader->txn = NULL;
}

/* Whether a transaction can be used now. Return: 0; -EINVAL: it is decided or has ended;
 * SB_E_DETACHED. */
static inline int sb_bus_check_txn(const struct sb_txn *txn)
{
        if (txn->state != SB_BUS_TXN_OPEN)
                return -EINVAL;
        return !txn->bus || sb_bus_detached(txn->bus) ? SB_E_DETACHED : 0;
}

/* Take a key's value away, which a scan of the transaction has just shown. Return: as
 * sb_txn_delete(); -EIO: the segment is damaged. */
int sb_bus_txn_delete_shown(struct sb_txn *txn, const struct sb_guard *guard);

/* The bus is being closed: its transactions answer SB_E_DETACHED from now on. Their write sets are
 * cleared, and the spare transaction is freed. */
void sb_bus_orphan_txns(struct sb_bus *bus);

#endif
