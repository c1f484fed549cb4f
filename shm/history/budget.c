/* The budget of history: one sum for each whole sweep; see budget.h. */

#include "shm/history/budget.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/unit.h"

#define SHORT_PAST 64u /* versions: so many a write looks through */

void sb_budget_begin(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t clock = sb_load_acquire(&super->clock); /* A:clock. */
        uint32_t i;

        handle->budget.counts = handle->budget.looks = sb_rules_any(&handle->segment);
        if (!handle->budget.counts)
                return;
        handle->budget.from = sb_load_acquire(&super->history_floor); /* A:history-floor. */
        handle->budget.width = (clock - handle->budget.from) / SB_BUDGET_STEPS + 1;
        for (i = 0; i < SB_BUDGET_STEPS; i++)
                handle->budget.bytes[i] = 0;
}

void sb_budget_look(struct sb_handle *handle, bool looks)
{
        handle->budget.looks = looks;
}

bool sb_budget_limits(const struct sb_segment *segment)
{
        /* A:history-floor. The limit, which the engine stores. */
        return sb_rules_any(segment) && sb_load_acquire(&segment->super->history_limit);
}

/* The bytes of the block that @bytes lie in. */
static uint64_t budget_block(const struct sb_segment *segment, uint64_t bytes)
{
        uint32_t class_ = sb_unit_class(segment, bytes);

        return class_ < segment->class_count ? segment->class_size[class_]
                                             : (bytes + segment->geometry.unit_size - 1) &
                                                       ~((uint64_t)segment->geometry.unit_size - 1);
}

/* Add bytes that the rules keep of a past that ended at @cut. What the floor lets go is not kept.
 */
static void budget_add(struct sb_handle *handle, uint64_t cut, uint64_t bytes)
{
        uint64_t step;

        if (!handle->budget.counts || cut <= handle->budget.from)
                return;
        step = (cut - handle->budget.from - 1) / handle->budget.width;
        handle->budget.bytes[step < SB_BUDGET_STEPS ? step : SB_BUDGET_STEPS - 1] += bytes;
}

bool sb_budget_count(struct sb_handle *handle, const struct sb_keeping *keeping,
        const struct sb_version *version, uint64_t successor)
{
        if (!handle->budget.looks)
                return SB_RULE_KIND(keeping->word) == SB_RULE_LAST &&
                       SB_RULE_VALUE(keeping->word) <= SHORT_PAST;
        budget_add(handle, successor,
                budget_block(&handle->segment, sb_version_size(sb_once(version->shape))));
        return true;
}

void sb_budget_count_dead(struct sb_handle *handle, const struct sb_version *tombstone,
        uint64_t stamp, const struct sb_node *node)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_node_key key = sb_node_key(segment, node);

        if (!SB_FAULT(BUDGET_IGNORES_DEAD))
                budget_add(handle, stamp,
                        budget_block(segment, sb_version_size(sb_once(tombstone->shape))) +
                                budget_block(segment, sb_node_size(key.len)));
}

bool sb_budget_end(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        /* A:history-floor. The limit, which the engine stores. */
        uint64_t limit = sb_load_acquire(&super->history_limit), total = 0, old;
        uint64_t floor = handle->budget.from;
        uint32_t i;

        if (!handle->budget.counts)
                return false;
        handle->budget.counts = handle->budget.looks = false;
        for (i = 0; i < SB_BUDGET_STEPS; i++)
                total += handle->budget.bytes[i];
        sb_store_relaxed(&super->history_bytes, total); /* Relaxed: for people, no decision. */
        for (i = 0; limit && total > limit && i < SB_BUDGET_STEPS; i++) {
                total -= handle->budget.bytes[i];
                floor += handle->budget.width;
        }
        if (floor == handle->budget.from)
                return false;
        for (old = sb_load_acquire(&super->history_floor); old < floor; /* A:history-floor. */
                old = sb_load_acquire(&super->history_floor))           /* A:history-floor. */
                /* R:history-floor > A:history-floor. Before anything below it is taken out. */
                sb_cas64_full(&super->history_floor, old, floor);
        /* What was superseded below it goes with the next sweep. */
        sb_limbo_leave(handle);
        return true;
}
