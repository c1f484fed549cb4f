/*
 * Keys that are the bus's own: marks and rules of history are stored values like any other, under a
 * prefix that scans of the whole bus pass over. Nothing stops a peer from writing there: a peer may
 * write anywhere.
 */
#ifndef SB_LAYOUT_RESERVED_H
#define SB_LAYOUT_RESERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SB_RESERVED     "\0sb\0"
#define SB_RESERVED_LEN 4u
/* The first key above all reserved ones. */
#define SB_RESERVED_END  "\0sb\1"
#define SB_RESERVED_MARK "\0sb\0mark\0" /* then the mark's name */
#define SB_MARK_PREFIX   9u
#define SB_RESERVED_KEEP "\0sb\0keep\0" /* then P or K, then the prefix or key */
#define SB_KEEP_PREFIX   10u

static inline bool sb_is_reserved(const void *key, uint64_t key_len)
{
        return key_len >= SB_RESERVED_LEN && memcmp(key, SB_RESERVED, SB_RESERVED_LEN) == 0;
}

/* What a mark's key holds. */
struct sb_mark_value {
        uint64_t cut;
        uint64_t owner; /* of the mark in the table; another one there: the mark was dropped */
        uint32_t index;
        uint32_t zero;
};

#endif
