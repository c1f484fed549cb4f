/* A transaction's descriptor: where one can be, and the life of its status; see descriptor.h. */

#include "shm/mvcc/descriptor.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* Whether a block says that it is a descriptor. One that is none may be shorter than that. */
static bool descriptor_is_one(uint64_t shape)
{
        return SB_LIKELY(
                (shape & SB_SHAPE(0, 0x7ff, 31, 0)) == SB_SHAPE(0, 0, SB_VERSION_DESCRIPTOR, 0));
}

/* The faults WRITES_READ_AGAIN and RANGES_READ_AGAIN load again what was checked. */
static void descriptor_read_again(
        const struct sb_descriptor *descriptor, struct sb_descriptor_lists *lists)
{
        if (SB_FAULT(WRITES_READ_AGAIN))
                lists->write_count = sb_again(descriptor->write_count);
        if (SB_FAULT(RANGES_READ_AGAIN))
                lists->ranges_len = sb_again(descriptor->ranges_len);
}

bool sb_descriptor_read(const struct sb_segment *segment, const struct sb_descriptor *descriptor,
        struct sb_descriptor_lists *ret)
{
        uint64_t offset = sb_offset_of(segment, descriptor), shape = sb_once(descriptor->shape),
                 size = SB_SHAPE_VALUE_LEN(shape) + sizeof(struct sb_version), ranges_len = 0;
        bool is_one = descriptor_is_one(shape);
        uint32_t write_count = 0;

        if (is_one) {
                ranges_len = sb_once(descriptor->ranges_len);
                write_count = sb_once(descriptor->write_count);
        }
        /* Each length by itself: damaged ones could add up to anything. */
        if (SB_UNLIKELY(!is_one) || SB_UNLIKELY(offset + size > segment->geometry.size) ||
                SB_UNLIKELY(ranges_len > size) ||
                SB_UNLIKELY(sizeof(*descriptor) + 8 * (uint64_t)write_count + ranges_len != size)) {
                *ret = (struct sb_descriptor_lists){.write = descriptor->write};
                return false;
        }
        ret->write = descriptor->write;
        ret->ranges = (const unsigned char *)(descriptor->write + write_count);
        ret->ranges_len = ranges_len;
        ret->write_count = write_count;
        /* Of the ranges, only so many are read as fit. */
        ret->range_count = sb_once(descriptor->range_count);
        descriptor_read_again(descriptor, ret);
        return true;
}

struct sb_descriptor *sb_descriptor_at(const struct sb_segment *segment, uint64_t offset)
{
        struct sb_descriptor *descriptor;
        struct sb_descriptor_lists lists;

        offset &= SB_OFFSET_MASK;
        descriptor = sb_block_at(segment, offset);
        return descriptor && offset + sizeof(*descriptor) <= segment->geometry.size &&
                               sb_descriptor_read(segment, descriptor, &lists)
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
