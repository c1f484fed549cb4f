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
 * into each version that it meets; the owner, or its reaper, copies it into all of them
 * (finish.h).
 *
 * Always true, each a rule that a model breaks once:
 *
 * - An undecided intent is never replaced: a writer first brings its transaction to an end. So
 *   below a head no stamp word names a descriptor.
 * - A value of the clock that was read before all intents are in is no transaction's stamp.
 *
 * Every function here is called under a pin. Each further round of a loop means that another
 * transaction came to its end, or that another process changed a word.
 */
#ifndef SB_MVCC_HELP_H
#define SB_MVCC_HELP_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Bring the undecided transaction of @version to its end, and copy the outcome into @version alone.
 * Nothing happens when @version is no intent any more. */
void sb_help_version(struct sb_handle *handle, struct sb_version *version);
/* Bring a transaction to its end that another client has noted: for the engine, before it takes
 * away the cut of that transaction. Nothing is copied. */
void sb_help_decide(struct sb_handle *handle, struct sb_descriptor *descriptor);
/* For a process that raises the stable cut and found @descriptor noted. Afterwards the transaction
 * is decided and has its stamp, or its stamp will be read from a later clock. */
void sb_help_resolve(struct sb_handle *handle, struct sb_descriptor *descriptor);

#endif
