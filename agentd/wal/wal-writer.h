/*
 * The log's writer: batches go into files, and are acknowledged when they are on the disk.
 *
 * The caller begins a batch, adds its entries, and ends it. Entries are copied into a buffer; a
 * full one is written while the next one is filled. The end writes the last frame and syncs the
 * file, and returns when both are done.
 *
 * Always true:
 * - A batch's first write is issued when the batch before it is synced. So what a power failure
 *   leaves is a run of whole batches, and parts of one more.
 * - A batch that goes on in the next file has the file before synced first.
 * - After a failed or short write or a failed sync the writer says so, and never writes or syncs
 *   that file again: what such a sync has dropped, no later one reports. sb_wal_writer_resume()
 *   begins another file; the batch is the caller's to add once more, and any other one may take
 *   its place. The new file's header says what counts of the files before.
 *
 * Threads: one.
 */
#ifndef SB_WAL_WRITER_H
#define SB_WAL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-io.h"
#include "ring/wal/wal-entry.h"
#include "ring/wal/wal-frame.h"

#define SB_WAL_FILE_SIZE (16u << 20) /* bytes of a file, unless the caller wants others */

struct sb_wal_writer_options {
        int directory_fd;           /* stays open until the writer is closed; @io has its own */
        const struct sb_wal_io *io; /* stays until the writer is closed */
        struct sb_wal_strangers *strangers; /* too; or NULL */
        unsigned char id[16];               /* of the bus */
        uint64_t hash_seed;                 /* of its keys */
        uint64_t sequence, cut;             /* of the last batch that counts; 0, 0: none */
        uint64_t file_size;                 /* bytes; 0: SB_WAL_FILE_SIZE */
        uint32_t payload_max;               /* bytes of a frame's payload; 0: SB_WAL_PAYLOAD_MAX */
        uint32_t spares_wanted;             /* files kept ready, up to SB_WAL_SPARES_MAX */
};

struct sb_wal_writer;

/* Opens the log in a directory, to go on behind the batch `sequence`: what the reader found last,
 * or what this bus knows to be durable. It goes on in a new file, which is made when the first
 * batch comes, smaller where the disk has no room for a whole one; what stands behind `sequence` in
 * the
 * files counts no more from then on. Return: 0;
 * -EINVAL: sizes that are no multiples of a block (payloads: of 8) or too small, or a sequence
 * before what the files say; -EBADMSG: a file of the log has no good header; -errno. */
int sb_wal_writer_open(const struct sb_wal_writer_options *options, struct sb_wal_writer **ret);
/* Return: NULL. A batch that has not ended does not count. */
struct sb_wal_writer *sb_wal_writer_close(struct sb_wal_writer *writer);

/* Begins the batch behind the last one. The cuts of batches rise. Return: 0; after a failure, that
 * one. */
int sb_wal_writer_begin(
        struct sb_wal_writer *writer, uint64_t cut, uint64_t realtime_ns, uint64_t boottime_ns);
/* Adds an entry. Key and value are copied before it returns. Return: 0; -EINVAL: no reader would
 * take it, nothing was added; another -errno: the writer has failed. Cost: a copy and a checksum;
 * it may wait for a frame before. */
int sb_wal_writer_add(struct sb_wal_writer *writer, const struct sb_wal_entry *entry);
/* Ends the batch. Return: 0: it is durable; -errno: whether it is, is not known, and the writer has
 * failed. Cost: a write and an fdatasync, and what sb_wal_writer_look() costs. */
int sb_wal_writer_end(struct sb_wal_writer *writer);
/* Whether all files of the log have their names (wal-named.h). Return: 0; -ENOENT: one has lost it,
 * so what was durable in it is no more, and the writer has failed: it is resumed with a batch that
 * has everything. Cost: two system calls. */
int sb_wal_writer_look(struct sb_wal_writer *writer);
/* Whether that is how it has failed, since it was opened or resumed; or files with batches above
 * the cut @above, or those up to the file @last, were missing when it was opened. */
bool sb_wal_writer_lacks(const struct sb_wal_writer *writer, uint64_t above, uint64_t last);
/* The number of the last file; 0: there is none. */
uint64_t sb_wal_writer_file(const struct sb_wal_writer *writer);
/* The last batch that is durable. */
void sb_wal_writer_durable(
        const struct sb_wal_writer *writer, uint64_t *ret_sequence, uint64_t *ret_cut);

/* Bytes that were written into files, ever. */
uint64_t sb_wal_writer_written(const struct sb_wal_writer *writer);
/* Bytes of all files of the log, with what is not written in them yet. */
uint64_t sb_wal_writer_bytes(const struct sb_wal_writer *writer);
/* Bytes that the present file has room for; 0: there is none. */
uint64_t sb_wal_writer_left(const struct sb_wal_writer *writer);
/* The same; where there is none, of the file that would be made now. */
uint64_t sb_wal_writer_room(const struct sb_wal_writer *writer);
/* How many files there are that are written no more. */
uint64_t sb_wal_writer_old(const struct sb_wal_writer *writer);
/* Whether the disk has no room for the file behind the present one, or behind the one that is to be
 * made. */
bool sb_wal_writer_is_tight(const struct sb_wal_writer *writer);

/* Goes on after a failure, or drops a batch that was begun: makes a new file, of which the first
 * batch is the one behind the last durable one. Return: 0; -errno: the writer has failed as before.
 */
int sb_wal_writer_resume(struct sb_wal_writer *writer);
/* Has a file ready for when the present one is full, unless there are enough. To be called when
 * there is time: it writes a whole file. Return: 0, -errno: the writer goes on as before. */
int sb_wal_writer_prepare(struct sb_wal_writer *writer);
/* A checkpoint has all changes up to @cut: lets go of the files that hold nothing above. Return: 0,
 * -errno: the writer goes on as before, see sb_wal_files_release(). Cost: a sync of the directory
 * for each file. */
int sb_wal_writer_release(struct sb_wal_writer *writer, uint64_t cut);

#endif
