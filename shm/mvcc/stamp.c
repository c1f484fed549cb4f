/* Stamps: setting them, and what is effective below a head; see stamp.h. */

#include "shm/mvcc/stamp.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"

/* The status of an intent's transaction, with the one stamp that all its versions have. */
static uint64_t stamp_status(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        uint64_t status = sb_descriptor_stamped(handle, descriptor);

        if (SB_FAULT(TXN_STAMP_EACH) && SB_STATUS_STATE(status) == SB_STATUS_COMMITTED)
                status = SB_STATUS_OF(SB_STATUS_COMMITTED,
                        sb_load_acquire(&handle->segment.super->clock)); /* A:clock. */
        return status;
}

/* An intent, by its stamp word: what became of its transaction. */
static struct sb_settled stamp_settle_intent(
        struct sb_handle *handle, struct sb_version *version, uint64_t word)
{
        struct sb_descriptor *descriptor =
                sb_descriptor_at(&handle->segment, word & SB_OFFSET_MASK);
        uint64_t status;

        if (!descriptor) /* damaged */
                return (struct sb_settled){.outcome = SB_OUTCOME_ABORTED};
        status = stamp_status(handle, descriptor);
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED)
                return (struct sb_settled){
                        .outcome = SB_OUTCOME_UNDECIDED, .stamp = SB_STATUS_VALUE(status)};
        /* R:stamp > A:stamp. Failed: another process has copied the same outcome. */
        sb_cas64_full(&version->stamp, word, sb_descriptor_outcome(status));
        if (SB_STATUS_STATE(status) == SB_STATUS_ABORTED)
                return (struct sb_settled){.outcome = SB_OUTCOME_ABORTED};
        return (struct sb_settled){
                .outcome = SB_OUTCOME_COMMITTED, .stamp = SB_STATUS_VALUE(status)};
}

struct sb_settled sb_stamp_settle(struct sb_handle *handle, struct sb_version *version)
{
        uint64_t word = sb_pin_load(handle, &version->stamp);

        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                return (struct sb_settled){
                        .outcome = SB_OUTCOME_COMMITTED, .stamp = SB_STAMP_PLACEHOLDER};
        if (!word) {
                /* A:clock. R:stamp > A:stamp. As in sb_stamp(). */
                sb_cas64_full(&version->stamp, 0, sb_load_acquire(&handle->segment.super->clock));
                word = sb_load_acquire(&version->stamp); /* A:stamp. No intent's. */
        }
        if (SB_LIKELY(!(word & SB_STAMP_INTENT)))
                return (struct sb_settled){.outcome = SB_OUTCOME_COMMITTED, .stamp = word};
        if (!(word & SB_OFFSET_MASK))
                return (struct sb_settled){.outcome = SB_OUTCOME_ABORTED};
        return stamp_settle_intent(handle, version, word);
}

uint64_t sb_stamp(struct sb_handle *handle, struct sb_version *version)
{
        /* A:stamp. Pairs with the CAS below, of another process. */
        uint64_t stamp = sb_load_acquire(&version->stamp);

        if (SB_LIKELY((int64_t)stamp > 0))
                return stamp;
        if (stamp) {
                struct sb_settled settled = sb_stamp_settle(handle, version);

                return settled.outcome == SB_OUTCOME_COMMITTED ? settled.stamp : SB_STAMP_ABORTED;
        }
        /* A:clock. Read after the install, which this process has done or seen: no cut that was
         * taken before can contain the version. R:stamp > A:stamp. Failed: another process was
         * first. */
        sb_cas64_full(&version->stamp, 0, sb_load_acquire(&handle->segment.super->clock));
        return sb_load_acquire(&version->stamp); /* A:stamp. */
}

struct sb_version *sb_stamp_effective(
        struct sb_handle *handle, struct sb_version *head, struct sb_settled *ret_head)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t left = sb_damage_bound(segment);
        struct sb_version *version = head;
        struct sb_settled settled = *ret_head = sb_stamp_settle(handle, head);

        /* Bound: damage. A chain that goes round. */
        while (settled.outcome != SB_OUTCOME_COMMITTED) {
                version = sb_version_at(
                        segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
                if (!version || !sb_damage_step(handle, &left) ||
                        !sb_version_fits(segment, version))
                        return NULL;
                settled = sb_stamp_settle(handle, version);
        }
        return version;
}

static bool stamp_lasts(struct sb_handle *handle, const struct sb_word64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled)
{
        /* The outcome first: while it is undecided, the cell is what it was. */
        if (settled.outcome == SB_OUTCOME_UNDECIDED &&
                sb_stamp_settle(handle, head).outcome != SB_OUTCOME_UNDECIDED)
                return false;
        return sb_load_acquire(cell) == word; /* A:publish. */
}

bool sb_stamp_lasts(struct sb_handle *handle, const struct sb_word64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled)
{
        return SB_FAULT(TXN_OLD_BELOW) || stamp_lasts(handle, cell, word, head, settled);
}
