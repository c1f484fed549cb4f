/*
 * Recovery: the segment of a bus that has a log is made, and filled with what the log has.
 *
 *      the log's files -> where they end -> a segment with the stored seed -> all entries, twice
 *      (ring/log/load.h) -> the clock above the last cut
 *
 * Always true: no process maps the segment before it is whole. The files are read and never
 * changed: so a recovery that is killed at any point, or done twice, gives the same.
 */
#ifndef SB_WAL_RECOVER_H
#define SB_WAL_RECOVER_H

#include "agentd/config.h"
#include "agentd/memory.h"

/* Make the segment of a bus: an empty one, or with what its log has. Return: 0; -1: the reason was
 * logged. Cost: reads the files of the log four times. */
int sb_wal_recover(const struct sb_config *config, int directory_fd, struct sb_memory *ret);

#endif
