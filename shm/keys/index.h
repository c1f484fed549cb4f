/*
 * The hash index: buckets of seven cells; a cell names the head of one key's chain (models: keys).
 *
 * A key's home is the bucket that its hash names. If all cells there are taken when the key is
 * made, its cell is in another bucket: the first with an empty cell on the home's *way*, a fixed
 * order of other buckets, the nearest first. The home's *sign* says which stretches of its way have
 * keys of this home, and of which classes (by their tags), so that a lookup of another key passes
 * few buckets. A cell carries sixteen bits of the hash (the tag), so that a lookup compares few
 * keys. A new key's cell gets a placeholder first; when two processes make the same key at once and
 * place two of them, the key's node decides which one stays (sb_index_confirm()).
 *
 * The sign is exact at rest, and heals:
 *   - A maker places its placeholder in a cell of the way, and only then signs: it sets the bits
 *     and raises the count, in one CAS. Only then the placeholder may be confirmed. So a lookup
 *     that saw no sign missed nothing that was a key by then.
 *   - Another process that meets the placeholder signs as well, before it confirms: the maker may
 *     have been killed in between. Both raise the count, whatever the bits say: so a process that
 *     looked before the cell was filled cannot clear them.
 *   - A process that emptied a cell of the way, and a sweep for each bucket in its turn, loads the
 *     sign, looks through the stretches that it names, and clears by CAS the bits that no cell
 *     there needs. What counts is what a cell holds: unconfirmed placeholders and frozen cells are
 *     needed, too. The CAS fails when the sign has changed since.
 *
 * What a kill leaves: a placeholder without a sign, which is no key yet and of which the operation
 * of the dead process names the node: its reaper looks through the whole way and finishes it. Or a
 * sign without a cell, which costs lookups a few looks until a sweep has come by.
 *
 * Always true: one cell at most is a key's, the one that its node names, from the key's making to
 * its removal. A confirmed key outside its home is signed there. A bucket's floor is not below the
 * revision of any key of this home that was removed. All functions that follow what is in a cell
 * are called under a pin.
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

/* A way has so many buckets, or all but the home, where there are fewer. */
#define SB_WAY_MAX 1023u

/* The buckets in which a key's cell may be, in turn: its home, then what the home's sign names. */
struct sb_path {
        uint32_t bucket;   /* number of the current one */
        uint32_t position; /* of the current one on the way; 0: the home */
        uint64_t sign;     /* loaded behind the home */
};

/* The number of a key's home: the part of all buckets that the hash's lower half is of 2^32. */
static inline uint64_t sb_index_home(const struct sb_segment *segment, uint64_t hash)
{
        return ((hash & UINT32_MAX) * segment->bucket_count) >> 32;
}
static inline struct sb_path sb_path_first(const struct sb_segment *segment, uint64_t hash)
{
        return (struct sb_path){.bucket = (uint32_t)sb_index_home(segment, hash)};
}
/* Go on to the next bucket that the home's sign names for this key. False: there is none. */
bool sb_path_next(const struct sb_segment *segment, uint64_t hash, struct sb_path *path);
/* The same along the whole way, whatever the sign says: for what a dead maker may have placed and
 * not signed. */
bool sb_path_next_of_all(const struct sb_segment *segment, uint64_t hash, struct sb_path *path);

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

/* Put a placeholder into the first empty cell of the key's home and its way. Outside the home it is
 * not signed yet. Return: 0, SB_E_FULL. */
int sb_index_insert(
        struct sb_handle *handle, uint64_t hash, uint64_t placeholder, uint64_t *ret_cell_number);
/* Ask the node of the placeholder in a cell, which has @word, whether this is its cell; a node
 * without a cell takes this one, behind its sign. True: it is, and the placeholder is stamped.
 * False: it is not, and the placeholder was taken out. */
bool sb_index_confirm(struct sb_handle *handle, uint64_t cell_number, uint64_t word);
/* Ask for each placeholder in the buckets of @hash that names @node; @all: on the whole way.
 * Return: how many were confirmed. */
uint32_t sb_index_confirm_all(struct sb_handle *handle, uint64_t hash, uint64_t node, bool all);
/* Clear what no cell needs any more in the sign of the home with this number. */
void sb_index_heal(struct sb_handle *handle, uint32_t home);
/* The same, after a key of @hash left the cell with this number. */
void sb_index_heal_behind(struct sb_handle *handle, uint64_t hash, uint64_t cell_number);
/* The highest revision of all keys of the same home that were ever removed. */
uint64_t sb_index_floor(const struct sb_segment *segment, uint64_t hash);
/* Raise that to @rev, unless it is higher: before a key that is removed is gone. */
void sb_index_raise_floor(const struct sb_segment *segment, uint64_t hash, uint64_t rev);
/* Raise to @rev the floors that have hashes in common with the bucket @which of a bus with @count
 * buckets and the same seed; @which is below @count. Cost: a look at each of them. */
void sb_index_inherit_floor(
        const struct sb_segment *segment, uint32_t which, uint32_t count, uint64_t rev);

#endif
