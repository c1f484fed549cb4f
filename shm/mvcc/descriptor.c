/* A transaction's descriptor: where one can be, and the life of its status; see descriptor.h. */

#include "shm/mvcc/descriptor.h"

#include <string.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

struct sb_descriptor *sb_descriptor_at(const struct sb_segment *segment, uint64_t offset)
{
        struct sb_descriptor *descriptor;
        uint64_t size;

        offset &= SB_OFFSET_MASK;
        descriptor = sb_block_at(segment, offset);
        if (!descriptor || offset + sizeof(*descriptor) > segment->geometry.size)
                return NULL;
        size = SB_SHAPE_VALUE_LEN(descriptor->shape) + sizeof(struct sb_version);
        /* Each length by itself: damaged ones could add up to anything. */
        if (SB_SHAPE_KIND(descriptor->shape) != SB_VERSION_DESCRIPTOR ||
                SB_SHAPE_KEY_LEN(descriptor->shape) || offset + size > segment->geometry.size ||
                descriptor->ranges_len > size)
                return NULL;
        return sizeof(*descriptor) + 8 * (uint64_t)descriptor->write_count +
                                       descriptor->ranges_len ==
                               size
                       ? descriptor
                       : NULL;
}

void sb_descriptor_decide(struct sb_descriptor *descriptor, enum sb_status state, uint64_t value)
{
        for (;;) {
                uint64_t status = sb_descriptor_status(descriptor);

                /* R:status > A:status. All that was done towards the decision. */
                if (SB_STATUS_STATE(status) != SB_STATUS_UNDECIDED ||
                        sb_cas64_full(&descriptor->status, status,
                                SB_STATUS_OF(state, value) | (status & SB_STATUS_SERIALIZABLE)))
                        return;
        }
}

uint64_t sb_descriptor_stamped(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        uint64_t status = sb_descriptor_status(descriptor);

        if (SB_STATUS_STATE(status) != SB_STATUS_COMMITTED || SB_STATUS_VALUE(status))
                return status;
        /* A:clock, read after the decision: no cut that was taken before contains this transaction.
         * R:status > A:status. Failed: another process has stamped it. */
        sb_cas64_full(&descriptor->status, status,
                status | sb_load_acquire(&handle->segment.super->clock) << 3);
        return sb_descriptor_status(descriptor);
}

void sb_descriptor_cancel(struct sb_descriptor *descriptor)
{
        sb_descriptor_decide(descriptor, SB_STATUS_ABORTED, SB_CAUSE_GONE);
}
