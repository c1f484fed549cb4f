/*
 * A copy of the bus in its log: when one begins, how much of it comes with a batch and how soon
 * with the next, when it has ended, and which old files go behind it. What is read of it, and
 * written, is wal-log.h's, as all of a batch is.
 *
 * Always true: `copies_begun` is raised before the first piece is read and `copies_ended` behind
 * the `durable` of the last one; a file goes only behind a durable copy, never while a backup reads
 * the log, and never one that the copy before that has a part in.
 *
 * Threads: the log's.
 */
#ifndef SB_WAL_COPY_H
#define SB_WAL_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-state.h"

/* The copy that clients ask for, by its number. */
uint64_t sb_wal_copy_asked(const struct sb_wal_log *log);
/* Whether it is time for one, or a client asks. */
bool sb_wal_copy_is_wanted(const struct sb_wal_log *log);
/* Begin one when it is time; between two batches. */
void sb_wal_copy_begin(struct sb_wal_log *log);
/* The open batch has the next pieces of it, where they are due. */
void sb_wal_copy_some(struct sb_wal_log *log);

/* Whether it is over with the batch that was written. */
bool sb_wal_copy_is_over(const struct sb_wal_log *log);
/* Such a batch is durable, or one of the whole bus: clients that asked are answered. */
void sb_wal_copy_count_ended(struct sb_wal_log *log);
/* A batch with pieces of it is durable, of @bytes in all: when the next ones are due. */
void sb_wal_copy_count(struct sb_wal_log *log, uint64_t bytes);
/* One is durable that began behind the cut @above: it and the one before it stay. */
void sb_wal_copy_keep_two(struct sb_wal_log *log, uint64_t above);
/* Old files go, unless a backup reads them. */
void sb_wal_copy_release(struct sb_wal_log *log);

#endif
