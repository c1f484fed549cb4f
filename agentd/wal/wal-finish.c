/* A copy of the bus at a clean end; see wal-finish.h. */
#include "agentd/wal/wal-finish.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define LEAST_BYTES (1u << 20) /* which are read in milliseconds */

/* What a copy writes at most, nearly: all units that something is in. */
static uint64_t wal_finish_used_bytes(const struct sb_wal_log *log)
{
        const struct sb_segment *segment = &log->handle.segment;
        uint64_t used = 0;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++)
                /* Relaxed: an estimate. */
                used += SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit])) != SB_UNIT_FREE;
        return used * segment->geometry.unit_size;
}

/* Whether the files have more than two copies of the bus, what --checkpoint-bytes lets come behind
 * each, and a file that is begun behind each of them. Then copies did not come to their end: each
 * log begins a file, and was stopped soon. */
static bool wal_finish_is_long(const struct sb_wal_log *log, uint64_t used)
{
        return log->writer && sb_wal_writer_bytes(log->writer) / 2 >
                                      used + log->config->checkpoint_bytes + SB_WAL_FILE_SIZE;
}

bool sb_wal_finish_begin(struct sb_wal_log *log)
{
        uint64_t used = wal_finish_used_bytes(log);
        bool saves = log->grown >= LEAST_BYTES && log->grown > used;

        log->last = !log->nameless && log->sequence && (saves || wal_finish_is_long(log, used)) &&
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
