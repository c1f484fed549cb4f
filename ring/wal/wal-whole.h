/*
 * From which batch on a log has the whole bus. A batch with the word WHOLE has all of it; and the
 * word SINCE, which ends a copy of the bus, says that all batches from the one on with which the
 * copy began have it together. What was logged before counts no more.
 *
 * A log of which the first files are gone has the whole bus only behind such a word. agentd asks
 * that before it brings a bus back, and before it names a cut to go back to; `agentctl verify` asks
 * the same, by the same functions.
 */
#ifndef SB_WAL_WHOLE_H
#define SB_WAL_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/wal/wal-reader.h"

/* What the batches say that were read so far. Zeros at first. */
struct sb_wal_whole {
        uint64_t first;           /* the first of them; 0: none was read */
        uint64_t sequence, entry; /* the last one, and how many of its entries were read */
        uint64_t passed;          /* the last batch that was passed over; 0: none was */
        uint64_t said; /* by the last entry: that batches from this one on have it; 0: nothing */
        /* Entries before this one count no more; 0: no batch says that. */
        uint64_t since, since_entry;
};

/* A batch begins: each one that a visit hands out, also where its entries are not wanted. */
void sb_wal_whole_begin(struct sb_wal_whole *whole, const struct sb_wal_batch *batch);
/* Its next entry. Return: 0; -EBADMSG: it says what no log says. */
int sb_wal_whole_take(struct sb_wal_whole *whole, const struct sb_wal_entry *entry);
/* Whether nothing is missing before what the log has, of which @end is the end: it begins with the
 * first batch of all, or has the whole bus later; or it is new, so that no batch was ever in it. */
bool sb_wal_whole_begins(const struct sb_wal_whole *whole, const struct sb_wal_end *end);

/* Reads all batches that the reader has. Return: 0: *ret is what they say; -ENODATA: there is none,
 * or one has what agentd would not take; -errno. Cost: as a visit. */
int sb_wal_whole_look(struct sb_wal_reader *reader, struct sb_wal_whole *ret);

#endif
