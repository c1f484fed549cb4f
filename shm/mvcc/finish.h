/*
 * The end of a transaction, by its owner or by the reaper of a dead owner: the outcome is copied
 * into all its versions, what is committed is let go, and the descriptor is dated (models: txn,
 * abort, reap, desc).
 *
 *      end it (help.h) -> copy the outcome -> committed: watchers are told, HELD -> 0
 *              -> descriptor DYING -> the note goes -> descriptor dated
 *              -> after its grace period, aborted: HELD -> 0, or dated
 *
 * Always true:
 *
 * - Only the owner, or its reaper, goes through the descriptor's list to copy the outcome and to
 * let versions go; a helper's list may be old.
 * - An intent's block is HELD until its transaction is over for every process that may be at work
 * on it: what was aborted is not even unlinked before.
 *
 * Every function here is called under a pin.
 */
#ifndef SB_MVCC_FINISH_H
#define SB_MVCC_FINISH_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/stamp.h"

/* For the owner, with an `operation` word that names @descriptor: bring the transaction to its end,
 * copy the outcome into all its versions, let go of what is committed, take back the note, and date
 * the descriptor. Return: the outcome; *ret_value: the stamp, or the cause of the abort. */
enum sb_outcome sb_finish_run(
        struct sb_handle *handle, struct sb_descriptor *descriptor, uint64_t *ret_value);
/* The same for the reaper; @operation: the word of the dead owner's record. */
void sb_finish_noted(
        struct sb_handle *handle, struct sb_descriptor *descriptor, struct sb_word64 *operation);
/* Each key that a transaction wrote, if it is committed, with its stamp: for a process that finds
 * its note (upkeep/stable.h). */
typedef void sb_finish_visit(
        struct sb_handle *handle, struct sb_node *node, uint64_t stamp, void *context);
void sb_finish_each(struct sb_handle *handle, const struct sb_descriptor *descriptor,
        sb_finish_visit *visit, void *context);
/* For a process that frees the descriptor: its grace period is over. The versions of an aborted
 * transaction that lie in a chain are let go, and those that were never installed are dated. To do
 * this twice does no harm. */
void sb_finish_dispose(struct sb_handle *handle, struct sb_descriptor *descriptor);

#endif
