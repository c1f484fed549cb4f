/*
 * The durable cut, and waiting for it.
 *
 *      durable          the last cut that survives power loss; the log raises it
 *      durable_count    counts what clients wait for: that `durable` rises, or that nothing becomes
 *                       durable now. The word of a futex
 *      durable_waits    some client sleeps on that count
 *      log_error        why nothing becomes durable now; 0: it does
 *      wanted           the highest cut that a client waits for
 *
 * A client that waits raises `wanted` and rings the log. It looks for a while, then loads the
 * count, says that it waits, looks once more, and sleeps on the count. The log raises `durable`,
 * counts on, takes back that clients wait, and wakes all of them, if any did. So one of the two
 * sees the other. A client that is killed leaves one wake that was not needed.
 *
 * Always true: `durable` only rises; what a client is answered was on the disk before. No client
 * waits for another one.
 */
#ifndef SB_NOTIFY_DURABLE_H
#define SB_NOTIFY_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* What a bus promises of a write, in `log_mode`; as enum sb_durability of statebus.h. */
enum sb_log_mode { SB_LOG_UNKNOWN, SB_LOG_NONE, SB_LOG_BATCHED, SB_LOG_STRICT };

/* The record of the log, on a bus that has one: the last. */
static inline uint32_t sb_durable_slot(const struct sb_segment *segment)
{
        return segment->geometry.record_count - 1;
}
static inline bool sb_durable_is_logged(const struct sb_segment *segment)
{
        /* Relaxed: written before the segment is served. */
        return sb_load_relaxed(&segment->super->log_mode) > SB_LOG_NONE;
}
static inline uint64_t sb_durable_cut(const struct sb_segment *segment)
{
        return sb_load_acquire(&segment->super->durable); /* A:durable. */
}

/* Have the log go on to @cut. Cost: some loads where another client wants as much. */
void sb_durable_want(const struct sb_segment *segment, uint64_t cut);
/* Have the log make a copy of the bus that begins after this call. Return: its number, which ends
 * when `copies_ended` has come so far. */
uint64_t sb_durable_want_copy(const struct sb_segment *segment);
/* Wait until @cut is durable. It looks for @spin_ns before it sleeps; @deadline_ns as in struct
 * sb_os. Return: 0; SB_E_TIMED_OUT; SB_E_NOT_DURABLE: the log has met trouble, and has not come out
 * of it; -EINTR. */
int sb_durable_wait(
        const struct sb_segment *segment, uint64_t cut, uint64_t spin_ns, uint64_t deadline_ns);
/* How often the log has told its clients something. */
uint32_t sb_durable_count(const struct sb_segment *segment);
/* Sleep until it tells more than @count: for what it says before it tells. Return: 0: perhaps;
 * SB_E_TIMED_OUT; -EINTR. */
int sb_durable_sleep(const struct sb_segment *segment, uint32_t count, uint64_t deadline_ns);

/* ---- for the log ---- */

/* A log begins: the one before it may have been killed behind its taking back that clients wait,
 * and before its wake. */
void sb_durable_take_over(const struct sb_segment *segment);
/* Behind the raised `durable`, and where nothing becomes durable because of @error (errno): tell
 * the clients that wait. */
void sb_durable_tell(const struct sb_segment *segment, uint32_t error);

#endif
