/*
 * Keys as bytes: whether two are the same, and which comes first. The callers have checked that the
 * bytes are there.
 */
#ifndef SB_BASE_BYTES_H
#define SB_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* All ones where two times 16 bytes are the same. */
static inline __m128i sb_bytes_match_pair(const unsigned char *a, const unsigned char *b)
{
        return _mm_cmpeq_epi8(
                _mm_loadu_si128((const __m128i *)a), _mm_loadu_si128((const __m128i *)b));
}
/* Whether @len bytes, 16 to 32, are equal: as pairs of words that overlap. */
static inline bool sb_bytes_same_four_words(
        const unsigned char *a, const unsigned char *b, uint64_t len)
{
        return _mm_movemask_epi8(_mm_and_si128(sb_bytes_match_pair(a, b),
                       sb_bytes_match_pair(a + len - 16, b + len - 16))) == 0xffff;
}
#else
/* Whether @len bytes, 16 to 32, are equal: as words that overlap. */
static inline bool sb_bytes_same_four_words(
        const unsigned char *a, const unsigned char *b, uint64_t len)
{
        uint64_t words[8];

        memcpy(words, a, 16);
        memcpy(words + 2, b, 16);
        memcpy(words + 4, a + len - 16, 16);
        memcpy(words + 6, b + len - 16, 16);
        return ((words[0] ^ words[2]) | (words[1] ^ words[3]) | (words[4] ^ words[6]) |
                       (words[5] ^ words[7])) == 0;
}
#endif

/* The same for 8 to 16 bytes. */
static inline bool sb_bytes_same_two_words(
        const unsigned char *a, const unsigned char *b, uint64_t len)
{
        uint64_t words[4];

        memcpy(words, a, 8);
        memcpy(words + 1, b, 8);
        memcpy(words + 2, a + len - 8, 8);
        memcpy(words + 3, b + len - 8, 8);
        return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
}

/* The same for fewer than 8. */
static inline bool sb_bytes_same_few(const unsigned char *a, const unsigned char *b, uint64_t len)
{
        uint32_t halves[4];

        if (len >= 4) {
                memcpy(halves, a, 4);
                memcpy(halves + 1, b, 4);
                memcpy(halves + 2, a + len - 4, 4);
                memcpy(halves + 3, b + len - 4, 4);
                return ((halves[0] ^ halves[1]) | (halves[2] ^ halves[3])) == 0;
        }
        /* Of three bytes or fewer these are all. */
        return !len || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}

/* Whether @len bytes are equal. Keys are short, and mostly equal where they are compared, since
 * their tags are: so words that overlap are faster than a call, and no length costs a step. */
static inline bool sb_bytes_same(const unsigned char *a, const void *key, uint64_t len)
{
        const unsigned char *b = key;
        uint64_t left;

        if (len < 8)
                return sb_bytes_same_few(a, b, len);
        if (len <= 16)
                return sb_bytes_same_two_words(a, b, len);
        for (; len > 32; a += left, b += left, len -= left) {
                if (!sb_bytes_same_four_words(a, b, 32))
                        return false;
                /* What comes last begins with bytes that were compared, if it is short. */
                left = len < 64 ? len - 32 : 32;
        }
        return sb_bytes_same_four_words(a, b, len);
}

/* The order of two keys, by their bytes, then by their lengths. Return: < 0, 0, > 0. */
static inline int sb_bytes_compare(const void *a, uint32_t a_len, const void *b, uint32_t b_len)
{
        int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

        return order ? order : a_len < b_len ? -1 : a_len > b_len;
}

#endif
