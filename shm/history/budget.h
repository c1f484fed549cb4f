/*
 * The budget of history: how many bytes the rules of history keep, and what goes when they keep
 * more than the bus allows (agentd's --history-memory).
 *
 * How it works: a whole sweep adds up each version that a rule alone keeps, in SB_BUDGET_STEPS
 * steps by the cut at which it was superseded; and each deleted key that would be removed without
 * its rule, tombstone and node, by the cut of its tombstone. At its end the floor of history rises
 * over as many of the lowest steps as are too much; the next sweep takes out what they counted.
 *
 * Always true: the floor only rises. What marks and open cuts need is not counted here, and no
 * floor touches it.
 */
#ifndef SB_HISTORY_BUDGET_H
#define SB_HISTORY_BUDGET_H

#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Around a whole sweep: begin a sum; publish it, and raise the floor if it is too much. Return:
 * whether the floor rose, so that the next sweep will find what to free. */
void sb_budget_begin(struct sb_handle *handle);
bool sb_budget_end(struct sb_handle *handle);
/* Around each slice of a sweep: pruners look through a long past, too, and in a whole sweep what
 * they meet is counted. */
void sb_budget_look(struct sb_handle *handle, bool looks);
/* Whether there are rules, and a limit for what they keep. */
bool sb_budget_limits(const struct sb_segment *segment);
/* For a pruner that met a version that a rule alone keeps, superseded at @successor.
 * Return: whether to look further down the chain: where the past is long, only a sweep does. */
bool sb_budget_count(struct sb_handle *handle, const struct sb_keeping *keeping,
        const struct sb_version *version, uint64_t successor);
/* Whether a whole sweep is going on that counts. */
static inline bool sb_budget_counts(const struct sb_handle *handle)
{
        return handle->budget.counts;
}
/* For a whole sweep that met a deleted key which no cut needs, and which its rule keeps. */
void sb_budget_count_dead(struct sb_handle *handle, const struct sb_version *tombstone,
        uint64_t stamp, const struct sb_node *node);

#endif
