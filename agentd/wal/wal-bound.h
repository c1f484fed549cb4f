/*
 * How much of the disk the log's files may take, and what is done where they take more.
 *
 * Only a copy of the bus lets files go (wal-copy.h), and each log begins a file, whatever it writes
 * into it. So where a log ends soon behind its beginning, again and again, nearly empty files would
 * come, no copy would come to its end, and no file would go. Where a log begins on files that are
 * more than --checkpoint-bytes, or on a disk that has room for one more alone, it copies a small
 * bus with its first batch, before that batch counts; and a larger one in large pieces, one behind
 * the other, where the files are more than two copies and what may come between them.
 *
 * Threads: the log's.
 */
#ifndef SB_WAL_BOUND_H
#define SB_WAL_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-state.h"

/* What a copy writes at most, nearly: all units that something is in. Cost: a look at each unit. */
uint64_t sb_wal_bound_used_bytes(const struct sb_wal_log *log);
/* Whether the files, of which there is a writer, have more than two copies of the bus, of which it
 * has @used bytes, what --checkpoint-bytes lets come behind each, and a file that is begun behind
 * each of them. */
bool sb_wal_bound_is_passed(const struct sb_wal_log *log, uint64_t used);
/* The log has a writer, and no copy goes on: which copy its files call for. Cost: a call that asks
 * for the room on the disk; where a copy is likely, a look at each unit and each floor. */
enum sb_wal_call sb_wal_bound_call(const struct sb_wal_log *log);

#endif
