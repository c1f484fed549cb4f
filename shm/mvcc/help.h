/*
 * A transaction that is under way: what everybody does who meets one (models: commit, txn, abort,
 * prev, reap, desc; Harris, Fraser and Pratt, DISC 2002, for the descriptor that anybody can
 * finish). docs/transactions.md has the whole protocol.
 *
 * A version whose stamp word names a descriptor is an intent. The descriptor's status word is the
 * truth about all its intents at once: they are committed in the instant in which it says so. From
 * then on everybody who meets one copies the outcome into that version; the owner, or his reaper,
 * into all.
 *
 * Always true, each a rule that a model breaks once:
 *
 * - An undecided intent is never replaced: who wants to write first brings its transaction to an
 *   end. So below a head no stamp word names a descriptor.
 * - Only the owner, or his reaper, goes through the list to copy and to let go; a helper's list may
 *   be old.
 * - An intent's block is HELD until its transaction is over for all who may be at work on it: what
 *   was aborted is not even unlinked before.
 * - A commit clock read is no stamp before all intents are in.
 *
 * All under the caller's pin.
 */
#ifndef SB_MVCC_HELP_H
#define SB_MVCC_HELP_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/stamp.h"

/* Bring the undecided transaction that @version belongs to to its end. */
void sb_txn_help(struct sb_peer *peer, struct sb_version *version);
/* For the owner, whose `operation` names the descriptor: bring it to its end, copy the outcome, let
 * go of what is committed, take back the note, date the descriptor. Return: the outcome;
 * *ret_value: the stamp, or the cause of the abort. */
enum sb_outcome sb_txn_run(struct sb_peer *peer, struct sb_commit *commit, uint64_t *ret_value);
/* The same for a dead owner's; @operation: his word. */
void sb_txn_finish(struct sb_peer *peer, struct sb_commit *commit, struct sb_cell64 *operation);
/* Bring to its end the transaction that somebody has noted: for who takes its cut away. */
void sb_txn_decide(struct sb_peer *peer, struct sb_commit *commit);
/* For `safe`: what is committed and not stamped, or will have a stamp that is known, is resolved.
 */
void sb_txn_resolve(struct sb_peer *peer, struct sb_commit *commit);
/* The grace period of an aborted one is over, and its block in the caller's hand: its versions are
 * let go, or dated where they never were in. */
void sb_txn_dispose(struct sb_peer *peer, struct sb_commit *commit);

#endif
