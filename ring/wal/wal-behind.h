/*
 * What a log has behind damage. The log keeps two copies of the bus (agentd/wal/wal-log.h), and the
 * younger one, with the batches behind it, says all that there is. So damage before its first batch
 * costs nothing, and damage behind that leaves the older one, with the batches up to the damage.
 */
#ifndef SB_WAL_BEHIND_H
#define SB_WAL_BEHIND_H

#include "ring/wal/wal-reader.h"

/* Of a log that is DAMAGED: reads the last part of it that has the whole bus: a copy of the bus
 * begins and ends in it, and it is behind damage, and up to more damage or the log's end without
 * any. Where a file was renamed to a lower number, nothing is read behind it, for it is missing
 * there. Return: 0: the reader has that, and no more of what was before; -ENODATA: there is nothing
 * of that kind, and the reader has nothing of use; -errno. Cost: reads what is behind three times
 * at most. */
int sb_wal_behind(struct sb_wal_reader *reader);

#endif
