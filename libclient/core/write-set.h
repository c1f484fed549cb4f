/*
 * A transaction's own writes: by key, in byte order, in private memory.
 *
 * How it works: a skip list. Reads look keys up, and scans go on from one key to the next or the
 * one before while writes come in between; both take O(log n) steps, whatever order the keys come
 * in. (A sorted array would move all behind each insertion, a hash table has no order, and a
 * balanced tree is more to get right.) Commit finds the writes in the order that it needs.
 *
 * Key and value lie in one block each, which guards hold together with the list: so a guard on an
 * own write outlives another write of that key, and the transaction.
 *
 * Always true: nothing is taken out before the end. A write that was taken back stays as
 * SB_WRITE_SET_NOTHING, which no search gives.
 */
#ifndef SB_WRITE_SET_H
#define SB_WRITE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define SB_WRITE_SET_HEIGHT_MAX 12u /* one in four is one higher: enough for some ten million */

/* A key and a value, counted. */
struct sb_write_set_value {
        struct sb_write_set_value *next,
                **link; /* among those that a bus's guards hold; link NULL: none does */
        uint64_t value_len;
        uint32_t key_len;
        uint32_t holders;
        unsigned char bytes[]; /* key, value */
};

enum sb_write_set_kind { SB_WRITE_SET_NOTHING, SB_WRITE_SET_VALUE, SB_WRITE_SET_DELETED };

struct sb_write_set_entry {
        struct sb_write_set_value *value; /* of SB_WRITE_SET_DELETED: the key alone */
        enum sb_write_set_kind kind;
        uint32_t height;
        struct sb_write_set_entry *next[]; /* height links */
};

struct sb_write_set_chunk;
struct sb_write_set {
        struct sb_write_set_entry *head[SB_WRITE_SET_HEIGHT_MAX];
        struct sb_write_set_chunk
                *chunks; /* with the list's entries in them; the last one filled first */
        size_t chunk_used;
        uint32_t height;
        uint32_t count; /* of writes that are not SB_WRITE_SET_NOTHING */
        uint64_t random;
};

/* @writes is all zero before its first use. */

/* Write: a value, or SB_WRITE_SET_DELETED with none. Replaces what the key had. Return: 0, -ENOMEM
 * (nothing changed). */
int sb_write_set_put(struct sb_write_set *writes, enum sb_write_set_kind kind, struct sb_bytes key,
        struct sb_bytes value);
/* Take a write back. */
void sb_write_set_drop(struct sb_write_set *writes, struct sb_write_set_entry *entry);
/* The write of this key, or NULL. */
struct sb_write_set_entry *sb_write_set_find(
        const struct sb_write_set *writes, const void *key, size_t key_len);
/* The first write with a key >= @key (> with @after), or NULL. */
struct sb_write_set_entry *sb_write_set_above(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool after);
/* The last write with a key < @key (<= with @inclusive), or NULL. */
struct sb_write_set_entry *sb_write_set_below(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool inclusive);
/* In order: NULL gives the first; NULL at the end. */
struct sb_write_set_entry *sb_write_set_next(
        const struct sb_write_set *writes, const struct sb_write_set_entry *entry);
/* Forget all; the memory for a few entries stays, for the next transaction. */
void sb_write_set_clear(struct sb_write_set *writes);
/* And give that back. */
void sb_write_set_fini(struct sb_write_set *writes);

/* A guard holds @value, too; @held: the list of the bus's. */
void sb_write_set_value_hold(struct sb_write_set_value *value, struct sb_write_set_value **held);
/* Let go of it; with the last holder it is gone. */
void sb_write_set_value_drop(struct sb_write_set_value *value);

#endif
