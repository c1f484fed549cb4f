/*
 * Entries, out of the payloads of a batch's frames, which cut the stream of entries anywhere.
 *
 * Always true: an entry that lies in one payload is handed out where it lies; of one that does not,
 * no more is kept than the bytes that came, so that a length alone takes no memory.
 */
#ifndef SB_WAL_GATHER_H
#define SB_WAL_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/wal/wal-entry.h"

#define SB_WAL_AHEAD 16u /* entries between an entry's announcement and itself */

/* What takes the entries. */
struct sb_wal_taker {
        int (*entry)(void *context, const struct sb_wal_entry *entry);
        void (*ahead)(
                void *context, const struct sb_wal_entry *entry); /* NULL: none is announced */
        void *context;
};

/* Zeros at first. */
struct sb_wal_gather {
        unsigned char *bytes; /* of an entry that does not lie in one payload, as far as it came */
        uint64_t size, have, room;
};

/* A batch begins. */
void sb_wal_gather_begin(struct sb_wal_gather *gather);
void sb_wal_gather_end(struct sb_wal_gather *gather);
/* Hands out the entries that end in this payload. Return: 0, -errno, what the taker returns. */
int sb_wal_gather_payload(struct sb_wal_gather *gather, const unsigned char *bytes, uint64_t len,
        const struct sb_wal_taker *taker);
/* Whether an entry has begun and not ended. */
bool sb_wal_gather_is_amid(const struct sb_wal_gather *gather);

#endif
