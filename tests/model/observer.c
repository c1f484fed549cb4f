/*
 * Observers in scenarios; see world.h. An observer reads at the stable cut and stamps nothing.
 */
#include <string.h>

#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/upkeep/stable.h"
#include "tests/model/world-core.h"

/* The stamp of a version as an observer knows it, which changes nothing. For an intent the status
 * of the transaction says it. That status counts if a second look finds the same stamp: then the
 * stamp named the descriptor all the while. */
static uint64_t observe_stamp(struct sb_handle *handle, struct sb_version *version)
{
        for (;;) {
                uint64_t stamp = sb_pin_load(handle, &version->stamp), status;
                struct sb_descriptor *commit;

                if (!sb_stamp_is_intent(stamp))
                        return stamp;
                commit = sb_descriptor_at(&handle->segment, stamp & SB_OFFSET_MASK);
                MODEL_CHECK(commit);
                status = sb_load_acquire(&commit->status);
                if (sb_load_acquire(&version->stamp) == stamp)
                        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED
                                       ? SB_STATUS_VALUE(status)
                                       : 0;
        }
}

/* What an observer sees: the newest version with a stamp up to @cut. A version without a stamp does
 * not count. */
static struct sb_version *observe(struct sb_handle *handle, enum world_key key, uint64_t cut)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version = NULL;
        struct sb_node *node;
        struct sb_word64 *cell;
        uint64_t stamp;

        node = sb_order_seek(handle, world_key(key), world_key_len(key), false);
        cell = node ? sb_cell_at(segment, sb_pin_load(handle, &node->cell)) : NULL;
        if (cell)
                version = sb_version_at(segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK);
        if (version && version->node != sb_offset_of(segment, node))
                version = NULL;
        for (; version; version = sb_version_at(
                                segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK)) {
                model_touch(&version->node, sizeof version->node + sizeof version->shape);
                stamp = observe_stamp(handle, version);
                if (stamp > SB_STAMP_PLACEHOLDER && stamp <= cut)
                        return version;
        }
        return NULL;
}

static uint64_t observe_at(struct sb_handle *handle, enum world_key key, uint64_t cut)
{
        struct sb_version *version;
        uint64_t rev;

        sb_pin(handle);
        version = observe(handle, key, cut);
        rev = version ? version->rev : 0;
        sb_unpin(handle);
        return rev;
}

void world_look(struct sb_handle *handle, struct outcome *outcome)
{
        struct sb_word64 *stable = &handle->segment.super->stable;
        struct outcome first, second;
        uint32_t key;

        do {
                outcome->read_cut = sb_load_acquire(stable);
                first = second = *outcome;
                sb_pin(handle);
                for (key = 0; key < WORLD_KEYS; key++)
                        world_see(&first, key, observe(handle, key, outcome->read_cut));
                for (key = 0; key < WORLD_KEYS; key++)
                        world_see(&second, key, observe(handle, key, outcome->read_cut));
                sb_unpin(handle);
        } while (sb_load_acquire(stable) != outcome->read_cut);
        MODEL_CHECK(!memcmp(first.seen, second.seen, sizeof first.seen) &&
                    !memcmp(first.tags, second.tags, sizeof first.tags));
        first.begun = true;
        *outcome = first;
}

void world_observe(struct sb_handle *handle, const struct world_op *op)
{
        uint64_t cut = sb_load_acquire(&handle->segment.super->stable);
        uint64_t rev = observe_at(handle, op->key, cut), again = observe_at(handle, op->key, cut);

        /* The observer's cut holds as long as it is the stable cut; after that the observer reads
         * anew. */
        if (rev != again && sb_load_acquire(&handle->segment.super->stable) == cut)
                model_fail("an observer at cut %lu read revision %lu, then %lu", (unsigned long)cut,
                        (unsigned long)rev, (unsigned long)again);
}

/* From now on pruners keep what is seen at the stable cut. What they looked at before covers no cut
 * below the clock of that time; so the observer first raises the stable cut itself. */
void world_arrive(struct sb_handle *handle, const struct world_op *op)
{
        struct sb_superblock *super = handle->segment.super;

        sb_add_full(&super->observers, 1);
        sb_stable_raise(handle);
        world_observe(handle, op);
        world_observe(handle, op);
        sb_add_full(&super->observers, UINT64_MAX);
}
