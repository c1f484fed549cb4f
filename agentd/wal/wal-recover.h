/*
 * Recovery: the segment of a bus that has a log is made, and filled with what the log has.
 *
 *      the log's files -> where they end -> where to begin, and which words count -> a segment
 *      with the stored seed -> rules and marks, if there are any -> all keys (ring/log/load.h) ->
 *      the keys in order -> the clock above the last cut
 *
 * Always true: no process maps the segment before it is whole. The files are read and never
 * changed: so a recovery that is killed at any point, or done twice, gives the same.
 */
#ifndef SB_WAL_RECOVER_H
#define SB_WAL_RECOVER_H

#include "agentd/config.h"
#include "agentd/memory.h"

/* Behind the end of a log that wrote there before (wal-lock.h), make the segment of a bus: an empty
 * one, or with what its log has. Return: 0; -1: the reason was logged. Cost: reads the files of the
 * log three times, four times if the bus had rules or marks; 16 bytes of private memory for each
 * key (shm/keys/sorted.h). */
int sb_wal_recover(const struct sb_config *config, int directory_fd, struct sb_memory *ret);

#endif
