/*
 * Stamps: a version's stamp is its commit timestamp, a value of the commit clock (clock.h). A cut
 * contains the versions with stamps that are not above it (models: stamps, txn).
 *
 * A plain version is installed without a stamp. Its writer, or any process that meets it first,
 * reads the clock after the install and sets the stamp by CAS. The stamp word of an intent names
 * the transaction's descriptor; once that is decided, any process that meets the version copies the
 * outcome into it: the transaction's stamp, or SB_STAMP_ABORTED.
 *
 * Always true: a version that a process goes by has its stamp by then. Below a version that counts,
 * stamps never rise. All functions are called under a pin; none of them helps or waits.
 */
#ifndef SB_MVCC_STAMP_H
#define SB_MVCC_STAMP_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

enum sb_outcome { SB_OUTCOME_UNDECIDED, SB_OUTCOME_COMMITTED, SB_OUTCOME_ABORTED };
struct sb_settled {
        enum sb_outcome outcome;
        /* COMMITTED: the stamp. UNDECIDED: what the stamp of a serializable transaction is if it
         * commits, or SB_STATUS_STAMPING; 0: none yet, it will be read from a later clock. */
        uint64_t stamp;
};

/* What became of a version. If it is committed, it has its stamp afterwards; if it was aborted, it
 * says so. A placeholder counts as COMMITTED. */
struct sb_settled sb_stamp_settle(struct sb_handle *handle, struct sb_version *version);

/* Stamp a version that is committed, unless it has a stamp. Return: its stamp; for one that was
 * aborted or is not decided a value above every clock, which is negative as an int64_t. */
uint64_t sb_stamp(struct sb_handle *handle, struct sb_version *version);

/* The effective version: the first one from @head down that is committed (a placeholder counts),
 * stamped. *ret_head says what the head is; a head that is not decided is looked through. NULL:
 * none, because the segment is damaged or the chain changes: look again. */
struct sb_version *sb_stamp_effective(
        struct sb_handle *handle, struct sb_version *head, struct sb_settled *ret_head);
/* Asked after sb_stamp_effective(): whether its answer was the newest at some moment since @cell
 * was loaded as @word, which leads to @head. True: @cell still is @word, and a head that was
 * undecided is so still. Else the way down may have led past a version that was superseded and
 * taken out since, to one that had been superseded long before: look again. */
bool sb_stamp_lasts(struct sb_handle *handle, const struct sb_word64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled);

#endif
