/*
 * What a log has behind damage. The log keeps two copies of the bus (agentd/wal/wal-log.h), and the
 * younger one, with the batches behind it, says all that there is. So damage before its first batch
 * costs nothing, and damage behind that leaves the older one, with the batches up to the damage.
 */
#ifndef SB_WAL_BEHIND_H
#define SB_WAL_BEHIND_H

#include "ring/wal/wal-reader.h"

/* Of a log that is DAMAGED: reads what comes behind it, if that is the whole bus: it is not
 * damaged,
 * and a copy of the bus begins in it and ends in it. Return: 0: the reader has that, and no more of
 * what was before; -ENODATA: there is nothing of that kind, and the reader has nothing of use;
 * -errno. Cost: reads what is behind twice. */
int sb_wal_behind(struct sb_wal_reader *reader);

#endif
