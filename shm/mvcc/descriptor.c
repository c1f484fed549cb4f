/* A transaction's descriptor; see descriptor.h. */

#include "shm/mvcc/descriptor.h"

#include <string.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

struct sb_commit *sb_commit_at(const struct sb_segment *segment, uint64_t offset)
{
        struct sb_commit *commit;
        uint64_t room;

        offset &= SB_OFFSET_MASK;
        commit = sb_block_at(segment, offset);
        if (!commit || offset + sizeof(*commit) > segment->geometry.size)
                return NULL;
        room = SB_SHAPE_VALUE_LEN(commit->shape) + sizeof(struct sb_version);
        /* Each length by itself: damaged ones could add up to anything. */
        if (SB_SHAPE_KIND(commit->shape) != SB_VERSION_COMMIT || SB_SHAPE_KEY_LEN(commit->shape) ||
                offset + room > segment->geometry.size || commit->ranges_len > room ||
                sizeof(*commit) + 8 * (uint64_t)commit->write_count + commit->ranges_len != room)
                return NULL;
        return commit;
}

void sb_commit_decide(struct sb_commit *commit, enum sb_status state, uint64_t value)
{
        for (;;) {
                uint64_t status = sb_commit_status(commit);

                /* R:status > A:status. */
                if (SB_STATUS_STATE(status) != SB_STATUS_UNDECIDED ||
                        sb_cas64_full(&commit->status, status,
                                SB_STATUS_OF(state, value) | (status & SB_STATUS_SERIALIZABLE)))
                        return;
        }
}

uint64_t sb_commit_stamped(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = sb_commit_status(commit);

        if (SB_STATUS_STATE(status) != SB_STATUS_COMMITTED || SB_STATUS_VALUE(status))
                return status;
        /* A:clock. R:status > A:status. */
        sb_cas64_full(&commit->status, status,
                status | sb_load_acquire(&peer->segment.super->clock) << 3);
        return sb_commit_status(commit);
}

void sb_commit_cancel(struct sb_commit *commit)
{
        sb_commit_decide(commit, SB_STATUS_ABORTED, SB_CAUSE_GONE);
}
