/*
 * Keys as bytes: whether two are the same, and which comes first. The callers have checked that the
 * bytes are there.
 */
#ifndef SB_BASE_BYTES_H
#define SB_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether @len bytes are equal. Keys are short, and mostly equal where they are compared, since
 * their tags are: so eight bytes at a time are faster than a call. */
static inline bool sb_bytes_same(const unsigned char *a, const void *key, uint32_t len)
{
        const unsigned char *b = key;
        uint64_t x, y;

        for (; len >= 8; len -= 8, a += 8, b += 8) {
                memcpy(&x, a, 8);
                memcpy(&y, b, 8);
                if (x != y)
                        return false;
        }
        for (; len; len--)
                if (*a++ != *b++)
                        return false;
        return true;
}

/* The order of two keys, by their bytes, then by their lengths. Return: < 0, 0, > 0. */
static inline int sb_bytes_compare(const void *a, uint32_t a_len, const void *b, uint32_t b_len)
{
        int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

        return order ? order : a_len < b_len ? -1 : a_len > b_len;
}

#endif
