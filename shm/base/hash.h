/*
 * The hash of a key: XXH3 (xxHash, Y. Collet) with the segment's secret seed.
 *
 * The low bits choose the bucket, the high sixteen are the tag in the bucket's cell, and bits in
 * between choose the height of the key's node in the ordered index.
 */
#ifndef SB_BASE_HASH_H
#define SB_BASE_HASH_H

#define XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

static inline uint64_t sb_hash_key(const void *key, size_t len, uint64_t seed)
{
        return XXH3_64bits_withSeed(key, len, seed);
}

#endif
