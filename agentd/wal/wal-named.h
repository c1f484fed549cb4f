/*
 * Whether the files of the log have their names still.
 *
 * A file that was removed can be written and synced as before, and nothing of it is found again. So
 * the writer looks behind the sync of each batch, before that counts as durable:
 *
 *      the file that is written    its name leads to it
 *      all files before it         their names are there: asked when the directory has changed
 *
 * Both are asked of the directory that is open: one that was renamed or moved is the same one, and
 * of one that was removed no name leads anywhere. What cannot be told (a directory that may not be
 * entered any more) is no loss.
 *
 * Always true: where the answer is 0, what the disk has acknowledged was under its names then.
 * Cost: two system calls; one more for each file behind a change of the directory.
 */
#ifndef SB_WAL_NAMED_H
#define SB_WAL_NAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-files.h"

/* @written: the last file is open, and is written. Return: 0; -ENOENT: files have lost their names,
 * and are out of the list. */
int sb_wal_named_look(struct sb_wal_files *files, bool written);
/* Whether files are missing that the batches above the cut @above are in, or were in: in front, or
 * between two others, or from the file @last on. The last file may lack what no header says. */
bool sb_wal_named_lacks(const struct sb_wal_files *files, uint64_t above, uint64_t last);

#endif
