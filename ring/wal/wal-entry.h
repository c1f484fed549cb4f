/*
 * Entries: what a batch says: one change of a key each, a floor, or a word of the bus.
 *
 *      0   kind 8 | flags 8 | writer 16 | key_len 32
 *      8   value_len 64
 *      16  rev 64
 *      24  stamp 64            of a floor or a word: which
 *      32  transaction 64
 *      40  expiry_ns 64
 *      48  key, value, zeros up to a multiple of 8
 *
 * Always true: a file is input that may be hostile. Nothing is believed of an entry before its
 * lengths were checked. A kind, a flag or a word that this reader does not know is refused, never
 * passed over: what it stands for may change what the other entries mean.
 */
#ifndef SB_WAL_ENTRY_H
#define SB_WAL_ENTRY_H

#include <stdint.h>

#define SB_WAL_ENTRY_HEAD      48u /* bytes of an entry's header */
#define SB_WAL_ENTRY_KEY_MAX   1024u
#define SB_WAL_ENTRY_VALUE_MAX ((UINT64_C(1) << 36) - 1)

enum sb_wal_kind {
        SB_WAL_VALUE = 1,
        SB_WAL_TOMBSTONE = 2,
        SB_WAL_EXPIRED = 3, /* a tombstone that no client wrote */
        SB_WAL_FLOOR = 4,   /* no key of this bucket begins at a revision up to rev */
        SB_WAL_WORD = 5,    /* a word of the bus (enum sb_wal_word), which is rev */
        SB_WAL_TIME = 6,    /* the cut rev was taken at this real time, in ns; cuts rise */
};

enum {
        SB_WAL_BORN = 1, /* the key was made with this version: nothing was before it */
};

/* Words of the bus that count for what is brought back. Of several entries the last one counts, but
 * for BUCKETS. */
enum sb_wal_word {
        SB_WAL_WORD_WHOLE = 1,         /* what was logged before this entry counts no more */
        SB_WAL_WORD_HISTORY_FLOOR = 2, /* as in the superblock */
        SB_WAL_WORD_FORGOTTEN = 3,     /* the same */
        SB_WAL_WORD_BUCKETS = 4,       /* how many there are in the bus of the floors behind it */
        SB_WAL_WORD_SINCE =
                5, /* what was logged before the batch of this sequence counts no more */
};

struct sb_wal_entry {
        enum sb_wal_kind kind;
        uint8_t flags;
        uint16_t writer; /* the slot of the client that wrote */
        const void *key, *value;
        uint32_t key_len;
        uint64_t value_len;
        uint64_t rev;
        uint64_t stamp; /* of a version */
        uint64_t which; /* of a floor: the bucket; of a word: enum sb_wal_word; of a time: it */
        uint64_t transaction; /* a number that a transaction's entries share; 0: none */
        uint64_t expiry_ns;   /* boottime; 0: never */
};

/* Bytes that an entry takes in the stream. */
static inline uint64_t sb_wal_entry_size(uint64_t key_len, uint64_t value_len)
{
        return (SB_WAL_ENTRY_HEAD + key_len + value_len + 7) & ~UINT64_C(7);
}

/* Writes the header of @entry; key and value follow. Return: 0; -EINVAL: no reader would take it:
 * an unknown kind or flag, a key of no or of too many bytes, a floor or a tombstone with a value.
 */
int sb_wal_entry_encode(const struct sb_wal_entry *entry, unsigned char *ret_head);
/* The size of the entry that begins with the @head, of SB_WAL_ENTRY_HEAD bytes. Return: 0;
 * -EPROTONOSUPPORT: a kind, a flag or a word that this reader does not know; -EBADMSG: lengths
 * that no entry has. */
int sb_wal_entry_measure(const unsigned char *head, uint64_t *ret_size);
/* The entry in @bytes, which sb_wal_entry_measure() has measured and of which all bytes are there.
 * *ret points into them. */
void sb_wal_entry_decode(const unsigned char *bytes, struct sb_wal_entry *ret);

#endif
