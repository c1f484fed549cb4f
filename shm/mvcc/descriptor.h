/*
 * A transaction's descriptor: its status word is the truth about all its intents at once (models:
 * desc, commit; Harris, Fraser and Pratt, DISC 2002). They are committed in the instant in which it
 * says so. Every change of the status is a CAS, and what is decided stays decided.
 */
#ifndef SB_MVCC_DESCRIPTOR_H
#define SB_MVCC_DESCRIPTOR_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* The descriptor at @offset, or NULL where none can be. */
struct sb_commit *sb_commit_at(const struct sb_segment *segment, uint64_t offset);

static inline uint64_t sb_commit_status(const struct sb_commit *commit)
{
        return sb_load_acquire(&commit->status); /* A:status. */
}
static inline bool sb_commit_decided(const struct sb_commit *commit)
{
        return SB_STATUS_STATE(sb_commit_status(commit)) != SB_STATUS_UNDECIDED;
}
/* What a version's stamp becomes when the status of its transaction is @status, which is final. */
static inline uint64_t sb_commit_outcome(uint64_t status)
{
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_STATUS_VALUE(status)
                                                              : SB_STAMP_ABORTED;
}
/* Decide the transaction, unless it is decided. */
void sb_commit_decide(struct sb_commit *commit, enum sb_status state, uint64_t value);
/* Abort it, unless it is decided: no announcement keeps its cut any more. */
void sb_commit_cancel(struct sb_commit *commit);
/* The status with its stamp, when that can be known: a transaction that was committed by snapshot
 * isolation takes the clock, which any process reads for it once the decision is there. */
uint64_t sb_commit_stamped(struct sb_peer *peer, struct sb_commit *commit);

#endif
