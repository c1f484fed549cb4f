/*
 * Stamps (commit timestamps): when a version was committed, and what became of an intent.
 */
#ifndef SB_MVCC_STAMP_H
#define SB_MVCC_STAMP_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

enum sb_outcome { SB_TXN_UNDECIDED, SB_TXN_COMMITTED, SB_TXN_ABORTED };
struct sb_settled {
        enum sb_outcome outcome;
        uint64_t stamp; /* COMMITTED: its stamp; UNDECIDED: a serializable one's stamp if it
                           commits, 0: none yet, and
                           it will be from a later clock */
};

/* What became of a version: stamps what is committed and not stamped; copies a final outcome into
 * this version. Never helps. A birth is COMMITTED. */
struct sb_settled sb_txn_settle(struct sb_peer *peer, struct sb_version *version);

/* Stamp a version that is committed, if nobody has yet; returns its stamp, or one above every clock
 * for what is aborted or not decided. */
uint64_t sb_stamp(struct sb_peer *peer, struct sb_version *version);

/* The first version from @head down that is committed (a birth counts), stamped; NULL: none, the
 * segment is damaged, or the chain is changing: look again. ret_head says what the head is;
 * undecided, it is looked through. */
struct sb_version *sb_txn_effective(
        struct sb_peer *peer, struct sb_version *head, struct sb_settled *ret_head);
/* Whether that was the newest at some moment since: @cell still is @word, which leads to @head, and
 * @head is not decided meanwhile. Else the way down may have led past what was superseded since
 * and taken out, to what had been superseded long before: look again. */
bool sb_txn_lasts(struct sb_peer *peer, const struct sb_cell64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled);

#endif
