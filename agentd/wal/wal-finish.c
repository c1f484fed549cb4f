/* A copy of the bus at a clean end; see wal-finish.h. */
#include "agentd/wal/wal-finish.h"

#include "agentd/wal/wal-bound.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"

#define LEAST_BYTES (1u << 20) /* which are read in milliseconds */

bool sb_wal_finish_begin(struct sb_wal_log *log)
{
        uint64_t used = sb_wal_bound_used_bytes(log);
        bool saves = log->grown >= LEAST_BYTES && log->grown > used;
        /* Copies did not come to their end, for each log was stopped soon. */
        bool passed = log->writer && sb_wal_bound_is_passed(log, used);

        log->last = !log->nameless && log->sequence && (saves || passed) &&
                    !SB_FAULT(LAST_COPY_LEFT_OUT);
        return log->last;
}

bool sb_wal_finish_goes_on(const struct sb_wal_log *log, uint32_t *ret_percent)
{
        const struct sb_superblock *super = log->handle.segment.super;
        uint64_t all = sb_load_relaxed(&super->copy_all); /* the log's own words, both */

        *ret_percent = all ? (uint32_t)(100 * sb_load_relaxed(&super->copy_done) / all) : 0;
        return log->copy.since;
}
