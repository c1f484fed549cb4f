/*
 * A transaction's write set: what it will write, by key, in byte order, in private memory.
 *
 * The set is a skip list. Reads look keys up, and scans go on from one key to the next or the one
 * before while writes come in between. Both take O(log n) steps, in whatever order the keys come.
 * (A sorted array would move all that lies behind an insertion, a hash table has no order, and a
 * balanced tree is more to get right.) A commit finds the writes in the order that it needs.
 *
 * A key and its value lie together in one counted block, which the list and guards hold. So a guard
 * on a written value outlives another write of that key, and the transaction.
 *
 * Always true: entries are in ascending order of their keys, one for each key. A write that was
 * taken back has no entry: a search would go by all of them, at each step of a scan.
 */
#ifndef SB_WRITE_SET_H
#define SB_WRITE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define SB_WRITE_SET_HEIGHT_MAX 12u /* one in four is one higher: enough for some ten million */

/* A key and a value. It is freed when its last holder lets go of it. */
struct sb_write_set_value {
        struct sb_write_set_value *next, **link; /* in the list of what a bus's guards hold; link
                                                    NULL: no guard has held it */
        uint64_t value_len;
        uint32_t key_len;
        uint32_t holders;      /* the list, and each guard */
        unsigned char bytes[]; /* key, value */
};

enum sb_write_set_kind { SB_WRITE_SET_VALUE = 1, SB_WRITE_SET_DELETED };

struct sb_write_set_entry {
        struct sb_write_set_value *value; /* of SB_WRITE_SET_DELETED: the key alone */
        enum sb_write_set_kind kind;
        uint32_t height;
        struct sb_write_set_entry *next[]; /* height links */
};

struct sb_write_set_chunk;
struct sb_write_set {
        struct sb_write_set_entry *head[SB_WRITE_SET_HEIGHT_MAX];
        struct sb_write_set_entry
                *spare[SB_WRITE_SET_HEIGHT_MAX]; /* that were taken out, by height */
        struct sb_write_set_chunk *chunks;       /* of memory for entries; the newest first */
        size_t chunk_used;                       /* of the first chunk */
        uint32_t height; /* of the highest entry since the set was cleared */
        uint32_t count;  /* of entries */
        uint64_t random;
};

/* A write set is all zero before its first use. */

/* Note a write: a value, or SB_WRITE_SET_DELETED without one. It replaces the key's entry, if there
 * is one. Key and value are copied. Return: 0, -ENOMEM (nothing changed). Cost: O(log n), a copy
 * and an allocation. */
int sb_write_set_put(struct sb_write_set *writes, enum sb_write_set_kind kind, struct sb_bytes key,
        struct sb_bytes value);
/* Take a write back. The memory of its entry serves another one. Cost: O(log n). */
void sb_write_set_drop(struct sb_write_set *writes, struct sb_write_set_entry *entry);
/* Find the write of a key. Return: NULL: there is none. Cost of this and the next two: O(log n). */
struct sb_write_set_entry *sb_write_set_find(
        const struct sb_write_set *writes, const void *key, size_t key_len);
/* Find the first write with a key >= @key (> with @after). Return: NULL: there is none. */
struct sb_write_set_entry *sb_write_set_above(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool after);
/* Find the last write with a key < @key (<= with @inclusive). Return: NULL: there is none. */
struct sb_write_set_entry *sb_write_set_below(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool inclusive);
/* Go through the writes in ascending order: after NULL comes the first. Return: NULL: the end. */
struct sb_write_set_entry *sb_write_set_next(
        const struct sb_write_set *writes, const struct sb_write_set_entry *entry);
/* Forget all writes. Memory for a few entries stays, for the next transaction. */
void sb_write_set_clear(struct sb_write_set *writes);
/* Forget all writes, and give that memory back, too. */
void sb_write_set_fini(struct sb_write_set *writes);

/* A guard holds @value from now on. @held: the bus's list of such values. */
void sb_write_set_value_hold(struct sb_write_set_value *value, struct sb_write_set_value **held);
/* Let go of a value. The last holder frees it, and takes it out of the list. */
void sb_write_set_value_drop(struct sb_write_set_value *value);

#endif
