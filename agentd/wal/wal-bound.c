/* How much of the disk the log's files may take; see wal-bound.h. */
#include "agentd/wal/wal-bound.h"

#include "ring/wal/wal-entry.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* A copy that is made with one batch: what a start has to write as zeros anyway takes longer. */
#define ONCE_BYTES (UINT64_C(8) << 20)
#define ONCE_MORE  (UINT64_C(256) << 10) /* for heads of frames, their ends in blocks, and words */

uint64_t sb_wal_bound_used_bytes(const struct sb_wal_log *log)
{
        const struct sb_segment *segment = &log->handle.segment;
        uint64_t used = 0;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++)
                /* Relaxed: an estimate. */
                used += SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit])) != SB_UNIT_FREE;
        return used * segment->geometry.unit_size;
}

bool sb_wal_bound_is_passed(const struct sb_wal_log *log, uint64_t used)
{
        return sb_wal_writer_bytes(log->writer) / 2 >
               used + log->config->checkpoint_bytes + SB_WAL_FILE_SIZE;
}

/* What a copy with one batch writes at most: a version takes no more of a file than of a unit. */
static uint64_t wal_bound_once_bytes(const struct sb_wal_log *log, uint64_t used)
{
        const struct sb_segment *segment = &log->handle.segment;
        uint64_t entries = (uint64_t)segment->geometry.times_count * SB_TIME_LEVELS;

        for (uint64_t bucket = 0; bucket < segment->bucket_count; bucket++)
                entries += !!sb_load_relaxed(&segment->floors[bucket]); /* an estimate */
        return used + entries * SB_WAL_ENTRY_HEAD + ONCE_MORE;
}

/* Fault FILES_UNCOUNTED: none is called for. */
enum sb_wal_call sb_wal_bound_call(const struct sb_wal_log *log)
{
        bool many = sb_wal_writer_bytes(log->writer) > log->config->checkpoint_bytes;
        uint64_t used, once;

        if (!sb_wal_writer_old(log->writer) || SB_FAULT(FILES_UNCOUNTED))
                return SB_WAL_CALL_NONE;
        if (!many && !sb_wal_writer_is_tight(log->writer))
                return SB_WAL_CALL_NONE;
        used = sb_wal_bound_used_bytes(log);
        once = wal_bound_once_bytes(log, used);
        if (once <= ONCE_BYTES && once <= sb_wal_writer_room(log->writer))
                return SB_WAL_CALL_ONCE;
        return sb_wal_bound_is_passed(log, used) ? SB_WAL_CALL_SOON : SB_WAL_CALL_NONE;
}
