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
 * SB_OWN_NOTHING, which no search gives.
 */
#ifndef SB_OWN_H
#define SB_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define SB_OWN_HEIGHT_MAX 12u /* one in four is one higher: enough for some ten million */

/* A key and a value, counted. */
struct sb_own_value {
        struct sb_own_value *next,
                **link; /* among those that a bus's guards hold; link NULL: none does */
        uint64_t value_len;
        uint32_t key_len;
        uint32_t holders;
        unsigned char bytes[]; /* key, value */
};

enum sb_own_kind { SB_OWN_NOTHING, SB_OWN_VALUE, SB_OWN_DELETED };

struct sb_own_write {
        struct sb_own_value *value; /* of SB_OWN_DELETED: the key alone */
        enum sb_own_kind kind;
        uint32_t height;
        struct sb_own_write *next[]; /* height links */
};

struct sb_own_chunk;
struct sb_own {
        struct sb_own_write *head[SB_OWN_HEIGHT_MAX];
        struct sb_own_chunk
                *chunks; /* with the list's entries in them; the last one filled first */
        size_t chunk_used;
        uint32_t height;
        uint32_t count; /* of writes that are not SB_OWN_NOTHING */
        uint64_t random;
};

/* @own is all zero before its first use. */

/* Write: a value, or SB_OWN_DELETED with none. Replaces what the key had. Return: 0, -ENOMEM
 * (nothing changed). */
int sb_own_put(
        struct sb_own *own, enum sb_own_kind kind, struct sb_bytes key, struct sb_bytes value);
/* Take a write back. */
void sb_own_drop(struct sb_own *own, struct sb_own_write *write);
/* The write of this key, or NULL. */
struct sb_own_write *sb_own_find(const struct sb_own *own, const void *key, size_t key_len);
/* The first write with a key >= @key (> with @after), or NULL. */
struct sb_own_write *sb_own_above(
        const struct sb_own *own, const void *key, size_t key_len, bool after);
/* The last write with a key < @key (<= with @inclusive), or NULL. */
struct sb_own_write *sb_own_below(
        const struct sb_own *own, const void *key, size_t key_len, bool inclusive);
/* In order: NULL gives the first; NULL at the end. */
struct sb_own_write *sb_own_next(const struct sb_own *own, const struct sb_own_write *write);
/* Forget all; the memory for a few entries stays, for the next transaction. */
void sb_own_clear(struct sb_own *own);
/* And give that back. */
void sb_own_fini(struct sb_own *own);

/* A guard holds @value, too; @held: the list of the bus's. */
void sb_own_value_hold(struct sb_own_value *value, struct sb_own_value **held);
/* Let go of it; with the last holder it is gone. */
void sb_own_value_drop(struct sb_own_value *value);

#endif
