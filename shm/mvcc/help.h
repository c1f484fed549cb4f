/*
 * Helping: what a process does when it meets a transaction that is under way (models: commit, txn,
 * abort, prev, reap, desc; Harris, Fraser and Pratt, DISC 2002). docs/transactions.md has the whole
 * protocol.
 *
 * A version with a stamp word that names a descriptor is an intent. The descriptor's status word is
 * the truth about all its intents at once: they are committed in the instant in which it says so. A
 * process that meets an undecided one brings that transaction to its end itself: it installs the
 * intents that are missing, validates what a serializable transaction has read (validate.h), and
 * decides. So no process waits for another one. After the decision a process copies the outcome
 * into each version that it meets; the owner, or its reaper, copies it into all of them.
 *
 * Always true, each a rule that a model breaks once:
 *
 * - An undecided intent is never replaced: a writer first brings its transaction to an end. So
 *   below a head no stamp word names a descriptor.
 * - Only the owner, or its reaper, goes through the descriptor's list to copy the outcome and to
 *   let versions go; a helper's list may be old.
 * - An intent's block is HELD until its transaction is over for every process that may be at work
 *   on it: what was aborted is not even unlinked before.
 * - A value of the clock that was read before all intents are in is no transaction's stamp.
 *
 * Every function here is called under a pin. Each further round of a loop means that another
 * transaction came to its end, or that another process changed a word.
 */
#ifndef SB_MVCC_HELP_H
#define SB_MVCC_HELP_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/stamp.h"

/* Bring the undecided transaction of @version to its end, and copy the outcome into @version alone.
 * Nothing happens when @version is no intent any more. */
void sb_txn_help(struct sb_peer *peer, struct sb_version *version);
/* For the owner, with an `operation` word that names @descriptor: bring the transaction to its end,
 * copy the outcome into all its versions, let go of what is committed, take back the note, and date
 * the descriptor. Return: the outcome; *ret_value: the stamp, or the cause of the abort. */
enum sb_outcome sb_txn_run(struct sb_peer *peer, struct sb_commit *descriptor, uint64_t *ret_value);
/* The same for the reaper; @operation: the word of the dead owner's record. */
void sb_txn_finish(struct sb_peer *peer, struct sb_commit *descriptor, struct sb_cell64 *operation);
/* Bring a transaction to its end that another client has noted: for the engine, before it takes
 * away the cut of that transaction. Nothing is copied. */
void sb_txn_decide(struct sb_peer *peer, struct sb_commit *descriptor);
/* For a process that raises the stable cut and found @descriptor noted. Afterwards the transaction
 * is decided and has its stamp, or its stamp will be read from a later clock. */
void sb_txn_resolve(struct sb_peer *peer, struct sb_commit *descriptor);
/* For a process that frees the descriptor: its grace period is over. The versions of an aborted
 * transaction that lie in a chain are let go, and those that were never installed are dated. To do
 * this twice does no harm. */
void sb_txn_dispose(struct sb_peer *peer, struct sb_commit *descriptor);

#endif
