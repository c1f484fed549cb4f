/*
 * A copy of the bus at a clean end of its log, where that is less to write than a start would have
 * to read otherwise: the changes since the last copy are more bytes than the bus has. Also where
 * the log has more files than two copies of the bus have to keep: only a copy lets them go, and
 * where agentd is stopped right behind each start, no other one comes to its end.
 *
 * It is a copy as any other (wal-log.h), in large pieces, for no writer is there any more. Between
 * two of them it can be left: what was written of it counts for nothing, and the log is as good as
 * without it.
 */
#ifndef SB_WAL_FINISH_H
#define SB_WAL_FINISH_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-log.h"

/* Whether it is to be made. Then each next batch has a piece of it. */
bool sb_wal_finish_begin(struct sb_wal_log *log);
/* Whether it has not come to its end; *ret_percent: how far it is. */
bool sb_wal_finish_goes_on(const struct sb_wal_log *log, uint32_t *ret_percent);

#endif
