/*
 * Reserved keys: the bus keeps the names of marks and the rules of history as values like any
 * other, under a prefix that scans of the whole bus pass over. The library's writes refuse these
 * keys (libclient/core/write.h); marks and rules write them below it. Nothing stops a client that
 * goes around the library, since a client may write anywhere: what a reserved key holds is checked
 * like other input.
 */
#ifndef SB_LAYOUT_RESERVED_H
#define SB_LAYOUT_RESERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The prefix of all reserved keys. */
#define SB_RESERVED     "\0sb\0"
#define SB_RESERVED_LEN 4u
/* The first key above all reserved ones. */
#define SB_RESERVED_END   "\0sb\1"
#define SB_RESERVED_MARK  "\0sb\0mark\0" /* then the mark's name */
#define SB_MARK_PREFIX    9u
#define SB_RESERVED_KEEP  "\0sb\0keep\0" /* then P or K, then the prefix or key */
#define SB_KEEP_PREFIX    10u
#define SB_RESERVED_WATCH "\0sb\0watch\0" /* then a prefix that is watched; never a value */
#define SB_WATCH_PREFIX   10u

static inline bool sb_reserved_is(const void *key, uint64_t key_len)
{
        return key_len >= SB_RESERVED_LEN && memcmp(key, SB_RESERVED, SB_RESERVED_LEN) == 0;
}

/* The value of a mark's key. */
struct sb_named_value {
        uint64_t cut;
        uint64_t owner; /* of the mark in the table; when another one is there, it was dropped */
        uint32_t index;
        uint32_t zero;
};

#endif
