/*
 * The end of a transaction; see finish.h.
 *
 * Each step can be done twice: a reaper that dies in here is followed by the next one.
 */

#include "shm/mvcc/finish.h"

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/notify/unlogged.h"

/* What the descriptor lists; in a damaged segment perhaps nothing, which is noted. */
static void finish_read(struct sb_handle *handle, const struct sb_descriptor *descriptor,
        struct sb_descriptor_lists *ret)
{
        if (!sb_descriptor_read(&handle->segment, descriptor, ret))
                sb_damage_note(handle);
}

/* A version that the descriptor lists, by the offset that was checked. The fault LISTED_READ_AGAIN
 * loads it once more. */
static struct sb_version *finish_listed(
        const struct sb_segment *segment, const struct sb_descriptor_lists *lists, uint32_t i)
{
        struct sb_version *version = sb_version_at(segment, lists->write[i]);

        if (version && SB_FAULT(LISTED_READ_AGAIN))
                version = (struct sb_version *)(segment->base + sb_again(lists->write[i]));
        return version;
}

/* Copy the outcome into all versions of the list. */
static void finish_copy_all(struct sb_handle *handle, struct sb_descriptor *descriptor,
        const struct sb_descriptor_lists *lists, uint64_t status)
{
        uint64_t intent = SB_STAMP_INTENT | sb_offset_of(&handle->segment, descriptor);
        uint32_t i;

        for (i = 0; i < lists->write_count; i++) {
                struct sb_version *version = finish_listed(&handle->segment, lists, i);

                /* R:stamp > A:stamp. Failed: a process that met the version has copied it. */
                if (version)
                        sb_cas64_full(&version->stamp, intent, sb_descriptor_outcome(status));
        }
}

/* Tell the log, and the watchers of the version's key. @slot: its slot, too: only while the version
 * is held, because later another one may lie there. Faults COMMIT_UNTOLD, COMMIT_UNLOGGED: left
 * out, or the log is. */
static inline void finish_tell(
        struct sb_handle *handle, const struct sb_version *version, uint64_t stamp, bool slot)
{
        struct sb_node *node = sb_node_at(&handle->segment, version->node);

        if (!node || SB_FAULT(COMMIT_UNTOLD))
                return;
        if (!SB_FAULT(COMMIT_UNLOGGED))
                sb_unlogged_tell_node(handle, node);
        sb_ring_tell(handle, node, slot ? version : NULL);
        sb_prefix_tell_node(handle, node, stamp);
}

void sb_finish_each(struct sb_handle *handle, const struct sb_descriptor *descriptor,
        sb_finish_visit *visit, void *context)
{
        struct sb_descriptor_lists lists;
        uint32_t i;

        if (SB_STATUS_STATE(sb_descriptor_status(descriptor)) != SB_STATUS_COMMITTED)
                return;
        finish_read(handle, descriptor, &lists);
        for (i = 0; i < lists.write_count; i++) {
                struct sb_version *version = finish_listed(&handle->segment, &lists, i);
                struct sb_node *node = version ? sb_node_at(&handle->segment, version->node) : NULL;

                if (node && !SB_FAULT(COMMIT_UNTOLD))
                        visit(handle, node, SB_STATUS_VALUE(sb_descriptor_status(descriptor)),
                                context);
        }
}

/* Tell of what is committed, and hold it no longer. @own: the transaction is this client's. Aborted
 * versions are held until sb_finish_dispose(). */
static void finish_let_go(struct sb_handle *handle, struct sb_descriptor *descriptor,
        const struct sb_descriptor_lists *lists, uint64_t status, bool own)
{
        uint32_t i;

        for (i = 0; i < lists->write_count && SB_STATUS_STATE(status) == SB_STATUS_COMMITTED; i++) {
                struct sb_version *version = finish_listed(&handle->segment, lists, i);

                if (!version)
                        continue;
                finish_tell(handle, version, SB_STATUS_VALUE(status), own);
                /* R:retire > A:retire. Behind the outcome: what can be unlinked names no
                 * descriptor. */
                sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, 0);
        }
        if (SB_FAULT(TXN_RELEASE_EARLY))
                sb_finish_dispose(handle, descriptor);
}

void sb_finish_noted(
        struct sb_handle *handle, struct sb_descriptor *descriptor, struct sb_word64 *operation)
{
        struct sb_descriptor_lists lists;
        uint64_t status;

        sb_help_decide(handle, descriptor);
        status = sb_descriptor_stamped(handle, descriptor);
        finish_read(handle, descriptor, &lists);
        finish_copy_all(handle, descriptor, &lists, status);
        finish_let_go(handle, descriptor, &lists, status, operation == &handle->record->operation);
        sb_note_retire(handle, &descriptor->block, operation, 0);
}

enum sb_outcome sb_finish_run(
        struct sb_handle *handle, struct sb_descriptor *descriptor, uint64_t *ret_value)
{
        uint64_t status;

        sb_finish_noted(handle, descriptor, &handle->record->operation);
        status = sb_descriptor_status(descriptor);
        *ret_value = SB_STATUS_VALUE(status);
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_OUTCOME_COMMITTED
                                                              : SB_OUTCOME_ABORTED;
}

/* ---- the aborted, after the grace period ---- */

/* Fault TXN_DISPOSE_HEAD_ONLY: a look at the cell alone. The node may be another key's by now, as
 * in finish_is_linked(): the model checker need not judge the load of its cell. */
static bool finish_is_head(struct sb_handle *handle, const struct sb_version *version)
{
        const struct sb_node *node = sb_node_at(&handle->segment, version->node);
        struct sb_word64 *cell;

        sb_model_unchecked_begin();
        cell = node ? sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell)) : NULL;
        sb_model_unchecked_end();
        return cell && (sb_pin_load(handle, cell) & SB_OFFSET_MASK) ==
                               sb_offset_of(&handle->segment, version);
}

/* Whether an aborted version lies in a chain. Its node may be another key's by now: then the
 * version was never installed. The model checker need not judge these loads. */
static bool finish_is_linked(struct sb_handle *handle, const struct sb_version *version)
{
        bool linked;

        sb_model_unchecked_begin();
        linked = sb_reach_version(handle, version);
        sb_model_unchecked_end();
        return SB_FAULT(TXN_DISPOSE_HEAD_ONLY) ? finish_is_head(handle, version) : linked;
}

/* It lies in a chain: a pruner may take it from here on. */
static void finish_dispose_linked(struct sb_handle *handle, struct sb_version *version)
{
        struct sb_node *node = sb_node_at(&handle->segment, version->node);
        uint64_t cell_number = node ? sb_pin_load(handle, &node->cell) : 0;

        /* R:retire > A:retire. What a pruner sees before it unlinks the version. */
        sb_store_release(&version->block.retire, 0);
        if (node)
                sb_limbo_later(handle, cell_number, SB_STAMP_PLACEHOLDER);
}

/* It was never installed, and no process is left that could install it: any process may free it
 * after one more grace period. */
static void finish_dispose_unlinked(struct sb_handle *handle, struct sb_version *version)
{
        /* A:era. Read after the look that found no link. */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        /* R:retire > A:retire. */
        sb_store_release(&version->block.retire, sb_era_low(era));
        sb_limbo_wait(handle, sb_offset_of(&handle->segment, version), era, false);
}

void sb_finish_dispose(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        struct sb_descriptor_lists lists;
        uint32_t i;

        if (SB_STATUS_STATE(sb_descriptor_status(descriptor)) != SB_STATUS_ABORTED)
                return;
        finish_read(handle, descriptor, &lists);
        for (i = 0; i < lists.write_count; i++) {
                struct sb_version *version = finish_listed(&handle->segment, &lists, i);

                /* A:retire. Not HELD: a process that was killed then has disposed of it already.
                 * There is one at a time, so that plain stores take it from there: it that has won
                 * the descriptor's retire word, and its reaper. */
                if (!version || sb_load_acquire(&version->block.retire) != SB_RETIRE_HELD)
                        continue;
                if (finish_is_linked(handle, version))
                        finish_dispose_linked(handle, version);
                else
                        finish_dispose_unlinked(handle, version);
        }
}
