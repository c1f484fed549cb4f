/*
 * The log as the process that writes it has it: batches of what changed (ring/log/batch.h) onto the
 * disk (wal-writer.h), and a copy of the bus now and then.
 *
 * One batch: begin -> read into the stage -> cut released -> into the writer -> words of the bus ->
 * on the disk -> noted -> `durable` -> clients told -> old files let go. Before it, where a copy
 * goes on, a batch of its pieces, of the cut that is durable: what they say earlier batches say,
 * too, so its loss costs the copy alone (ring/wal/wal-cursor.h).
 *
 * A copy of the bus goes into the log, a piece with each batch: first all keys, then, behind the
 * last look at a key, the floors of all buckets. So a key that is taken out meanwhile is in the one
 * or in the other. It is begun when the log has grown by --checkpoint-bytes; when
 * --checkpoint-every has passed, and it has grown at all; when a client waits for one
 * (`copies_wanted`); and when a log begins on too many files (wal-bound.h), then with its first
 * batch where the bus is small. Each batch takes something of the writers, so the pieces of a copy
 * come with batches that are due anyway, several at once; singly where clients wait for batches.
 *
 * The last two copies stay, with the batches from the first piece of the older one on: damage in
 * pieces of the younger one costs nothing, nor does damage before it.
 *
 * Always true: `durable` is raised behind the disk's answer, and behind the note of which batch has
 * it; `copies_ended` behind the `durable` of a copy's last piece. So a log that is killed between
 * any two of these leaves no more said than is so, and the next one begins the copy anew. No file
 * is written under a pin; under a cut, what of a batch does not fit into the stage.
 *
 * Threads: one.
 */
#ifndef SB_WAL_LOG_H
#define SB_WAL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-state.h"

/* Begin: no copy goes on. The caller has set config, directory_fd, handle, batch and stage. */
void sb_wal_log_begin(struct sb_wal_log *log);
/* Close files and the back end. */
void sb_wal_log_end(struct sb_wal_log *log);

/* When the next batch is due, if something has changed. */
uint64_t sb_wal_log_due_ns(const struct sb_wal_log *log);
/* When it is due for a copy; UINT64_MAX: none goes on, or is to begin. */
uint64_t sb_wal_log_copy_due_ns(const struct sb_wal_log *log);
/* Whether about as much has changed as --flush-bytes, by what a marked bucket had in the last
 * batch. Cost: a look at each word of marks. */
bool sb_wal_log_is_full(const struct sb_wal_log *log);

/* Write one batch. Return: 0: it is durable, and clients that wait were told; -EAGAIN, -EBUSY: the
 * bus had no cut for it; another -errno: the disk. */
int sb_wal_log_batch(struct sb_wal_log *log);
/* Between two batches: whether the files have their names (wal-named.h). Return: 0; -ENOENT: the
 * log has failed, and the next batch has the whole bus. */
int sb_wal_log_look(struct sb_wal_log *log);
/* Whether something was written that no durable batch has. Cost: as a batch, without the disk. */
bool sb_wal_log_has_more(struct sb_wal_log *log);

#endif
