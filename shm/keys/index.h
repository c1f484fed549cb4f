/*
 * The hash index: buckets of seven cells; a cell names the head of one key's chain (models: keys).
 *
 * A key may have its cell anywhere in the bucket that its hash names, or in the spill buckets
 * behind it, which are looked at while the bucket before says SPILLED. A cell carries sixteen bits
 * of the hash (the tag), so that a lookup compares few keys. A new key's cell gets a placeholder
 * first; when two processes make the same key at once and place two of them, the key's node decides
 * which one stays (sb_index_confirm()).
 *
 * Always true: one cell at most is a key's, the one that its node names. A bucket's floor is not
 * below the revision of any key that was removed from it, and SPILLED is never taken back. All
 * functions that follow what is in a cell are called under a pin.
 */
#ifndef SB_KEYS_INDEX_H
#define SB_KEYS_INDEX_H

#include <string.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(SB_MODEL)
#include <emmintrin.h>
#endif

/* What a lookup found of a key: its cell, the word that was in it, the newest version. */
struct sb_spot {
        uint64_t cell_number;
        struct sb_word64 *cell;
        uint64_t word;
        struct sb_version *head;
};

/* The buckets in which a key's cell may be, in turn. */
struct sb_path {
        uint32_t bucket;  /* number of the current one */
        uint32_t spilled; /* spill buckets passed */
};

static inline struct sb_path sb_path_first(const struct sb_segment *segment, uint64_t hash)
{
        return (struct sb_path){.bucket = (uint32_t)hash & (segment->geometry.bucket_count - 1)};
}
/* Go on to the next bucket if the current one says SPILLED. False: this was the last one. */
bool sb_path_next(const struct sb_segment *segment, uint64_t hash, struct sb_path *path);

static inline uint64_t sb_tag_of(uint64_t hash)
{
        return hash & SB_TAG_MASK;
}

/* Which cells of a bucket have this tag: bit 2 * index + 1. Without branches: where a key lies in
 * its bucket cannot be predicted, and a wrong guess here would hold up the misses of the operations
 * behind it. The mask is only a hint of where to look; what is followed is loaded again, as a cell.
 */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(SB_MODEL)
/* The tags of four cells against the hash's: sixteen bits of ones where they are the same. The tags
 * are the upper halves of the cells' upper halves. */
static inline __m128i sb_bucket_compare(const struct sb_word64 *four, __m128i hash)
{
        const __m128 *pairs = (const __m128 *)(const void *)four;
        __m128i halves = _mm_castps_si128(_mm_shuffle_ps(pairs[0], pairs[1], 0xdd));

        return _mm_cmpeq_epi16(halves, hash);
}
static inline uint32_t sb_bucket_match(const struct sb_bucket *bucket, uint64_t hash)
{
        __m128i halves = _mm_shuffle_epi32(_mm_cvtsi64_si128((long long)hash), 0x55),
                same = _mm_packs_epi16(sb_bucket_compare(bucket->cell, halves),
                        sb_bucket_compare(bucket->cell + 4, halves));

        return (uint32_t)_mm_movemask_epi8(same) & 0x2aaau;
}
#else
static inline uint32_t sb_bucket_match(const struct sb_bucket *bucket, uint64_t hash)
{
        uint32_t index, mask = 0;

#pragma GCC unroll 7
        for (index = 0; index < SB_BUCKET_CELLS; index++)
                /* Relaxed: a hint. */
                mask |= (uint32_t)((sb_load_relaxed(&bucket->cell[index]) ^ hash) >> 48 == 0)
                        << (2 * index + 1);
        return mask;
}
#endif

/* Index of the first cell in such a mask, which is not 0; and the cell. */
static inline uint32_t sb_bucket_index(uint32_t mask)
{
        return (uint32_t)__builtin_ctz(mask) / 2;
}
static inline struct sb_word64 *sb_bucket_first(struct sb_bucket *bucket, uint32_t mask)
{
        /* Bit 2 * index + 1 stands for byte 8 * index. */
        return (struct sb_word64 *)((unsigned char *)bucket->cell +
                                    4 * (uint64_t)(uint32_t)__builtin_ctz(mask) - 4);
}

/* The cells that have a key's tag, in turn. */
struct sb_probe {
        struct sb_path path;
        uint64_t hash;
        uint32_t mask; /* in the current bucket, not given yet */
};
static inline struct sb_probe sb_probe_first(const struct sb_segment *segment, uint64_t hash)
{
        struct sb_probe probe = {.path = sb_path_first(segment, hash), .hash = hash};

        probe.mask = sb_bucket_match(&segment->buckets[probe.path.bucket], hash);
        return probe;
}
/* NULL: there is no further one. */
static inline struct sb_word64 *sb_probe_next(
        const struct sb_segment *segment, struct sb_probe *probe)
{
        struct sb_word64 *cell;

        while (!probe->mask) {
                if (!sb_path_next(segment, probe->hash, &probe->path))
                        return NULL;
                probe->mask = sb_bucket_match(&segment->buckets[probe->path.bucket], probe->hash);
        }
        cell = sb_bucket_first(&segment->buckets[probe->path.bucket], probe->mask);
        probe->mask &= probe->mask - 1;
        return cell;
}

/* Put a placeholder into any empty cell of the key's buckets. Return: 0, SB_E_FULL. */
int sb_index_insert(
        struct sb_handle *handle, uint64_t hash, uint64_t placeholder, uint64_t *ret_cell_number);
/* Ask the node of the placeholder in a cell, which has @word, whether this is its cell; a node
 * without a cell takes this one. True: it is, and the placeholder is stamped. False: it is not, and
 * the placeholder was taken out. */
bool sb_index_confirm(struct sb_handle *handle, uint64_t cell_number, uint64_t word);
/* Ask for each placeholder in the buckets of @hash that names @node. Return: how many were
 * confirmed. */
uint32_t sb_index_confirm_all(struct sb_handle *handle, uint64_t hash, uint64_t node);
/* The highest revision of all keys that were ever removed from the key's bucket. */
uint64_t sb_index_floor(const struct sb_segment *segment, uint64_t hash);
/* Raise that to @rev, unless it is higher: before a key that is removed is gone. */
void sb_index_raise_floor(const struct sb_segment *segment, uint64_t hash, uint64_t rev);

#endif
