/*
 * The log, read: which batches it has, how it ends, and what the batches say.
 *
 * Opening walks over all files once and finds the last whole batch and how the log ends; a visit
 * walks once more and hands out what the batches up to that one say. So no entry is handed out of
 * a batch that turns out to be torn, and no batch needs to fit into memory.
 *
 * The log ends
 *      CLEAN    behind its last batch;
 *      TORN     in a batch that is not whole: what a power failure leaves. It was never
 *               acknowledged, and it does not count;
 *      DAMAGED  at a place where whole frames must be and are not. A writer begins a batch only
 *               when the one before is on the disk, and a file only when the ones before it are. So
 *               a bad frame with the header of a later batch behind it, or with a file behind it
 *               that says what must be before it, is nothing that a power failure leaves. A file
 *               that is shorter than its header says, a closed one that is longer, a missing file
 *               and a gap in the sequence are neither. Batches before the damage are handed out.
 * Where a name of the log's is no file but a FIFO, a link or the like, nothing is read: NO_FILE.
 * A damaged batch that has no change is passed over, and is no end (wal-cursor.h): the one behind
 * it goes on from the cut of the one before. A visit hands out nothing of it, so sequences are
 * missing where pieces of a copy are. What cannot be told apart: the last batch of all that rots
 * looks like one that was torn, but not in a closed file (wal-file.h), which says how many batches
 * it has. Frames of one batch have no order between them on their way to the disk, so a bad one
 * with good ones of the same batch behind it is TORN.
 *
 * Always true: what is handed out is a run of whole batches, without a gap but for what is passed
 * over. Files are input: each
 * length is checked. Memory: a frame (1 MiB), 100 bytes for each file, and the largest entry
 * that does not lie in one frame; that never takes more than twice the bytes that the files have.
 */
#ifndef SB_WAL_READER_H
#define SB_WAL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/wal/wal-end.h"
#include "ring/wal/wal-entry.h"
#include "ring/wal/wal-frame.h"
#include "ring/wal/wal-gather.h"

/* What a visit calls. A negative result ends the visit, which returns it. */
struct sb_wal_visitor {
        /* A batch begins; *ret_skip: its entries are not wanted. NULL: all are wanted. */
        int (*begin)(void *context, const struct sb_wal_batch *batch, bool *ret_skip);
        /* Its next entry. Key and value stay until the call returns. */
        int (*entry)(void *context, const struct sb_wal_entry *entry);
        /* The batch is over. NULL: nothing is to be done. */
        int (*end)(void *context, const struct sb_wal_batch *batch);
        /* NULL, or instead of entries: its next frame, which is whole, and of which the payload
         * stays until the call returns. What the entries are is not looked at. */
        int (*frame)(void *context, const struct sb_wal_frame *frame, const unsigned char *payload);
        /* An entry that comes SB_WAL_AHEAD later, so that its memory can be fetched: of most
         * entries, each once, in their order. NULL: nothing is to be done. */
        void (*ahead)(void *context, const struct sb_wal_entry *entry);
};

struct sb_wal_reader;

/* Opens the log in a directory, and finds its end. @id: of the bus that the log must be of, or
 * NULL.
 * Return: 0: sb_wal_reader_end() says what was found, be it damage; -errno: the files cannot be
 * read. Threads: the reader belongs to one thread. Cost: reads all files once. */
int sb_wal_reader_open(int directory_fd, const unsigned char *id, struct sb_wal_reader **ret);
/* The same for a log that is one file, whatever its name is. @fd stays the caller's, and open as
 * long as the reader is. */
int sb_wal_reader_open_file(int fd, struct sb_wal_reader **ret);
const struct sb_wal_end *sb_wal_reader_end(const struct sb_wal_reader *reader);
/* Reads the log anew, as if it began behind that damage: with the next batch that begins in the
 * file, or with the next file. Return: 0: sb_wal_reader_end() says what was found there; -ENODATA:
 * nothing comes behind; -errno. Cost: as opening; no file before is read. */
int sb_wal_reader_go_behind(struct sb_wal_reader *reader, const struct sb_wal_end *damage);
/* The number of its first file; 0: there is none. */
uint64_t sb_wal_reader_first_file(const struct sb_wal_reader *reader);
/* Hands out the batches from first_sequence to sequence. Return: 0; what the visitor returned;
 * -ESTALE: the files are not any more what they were when they were opened; -EPROTONOSUPPORT: a
 * kind of entry that this reader does not know; -EBADMSG: entries that no writer writes, in frames
 * that are whole; another -errno: the files cannot be read. Cost: reads all files once; of batches
 * that are not wanted too. */
int sb_wal_reader_visit(
        struct sb_wal_reader *reader, const struct sb_wal_visitor *visitor, void *context);
/* Return: NULL. */
struct sb_wal_reader *sb_wal_reader_close(struct sb_wal_reader *reader);

#endif
