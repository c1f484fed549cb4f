/*
 * The memory that rules of history keep: summed up by every whole sweep, by the cuts at which it
 * was superseded, and trimmed to the bus's limit, the oldest first.
 *
 * Always true: the floor only rises. What marks and open cuts need is no rule's: it is not counted
 * here, and no floor touches it.
 */
#ifndef SB_HISTORY_BUDGET_H
#define SB_HISTORY_BUDGET_H

#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Around a whole sweep. */
void sb_history_begin(struct sb_peer *peer);
void sb_history_end(struct sb_peer *peer);
/* For a pruner: a version that a rule alone keeps; it was superseded at @successor. Return: whether
 * to look further down: only a sweep does, where the past is long. */
bool sb_history_count(struct sb_peer *peer, const struct sb_keeping *keeping,
        const struct sb_version *version, uint64_t successor);

#endif
