/*
 * The short way to a key's newest value: what nearly every get meets, and nothing else.
 *
 * A core overlaps the cache misses of as many gets as fit into its window of some three hundred
 * instructions, so their number is what a get costs. There is no call and no second attempt in
 * here: whatever is not as it nearly always is (a placeholder, a frozen cell, an unstamped version,
 * a trailer, a tag that two keys share; for a writer, which is pinned, an era that moved on) is
 * left to sb_find_newest(). A get has no pin here: a guard protects what it looks at
 * (memory/guard.h).
 *
 * Always true: what the short way returns, sb_find_newest() could have returned under a pin of
 * then.
 */
#ifndef SB_MVCC_FIND_PLAIN_H
#define SB_MVCC_FIND_PLAIN_H

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/find.h"

/* The least length of a key that may go the short ways. Where both ways are tested, shorter keys
 * have to go the long ones. */
#ifndef SB_FIND_KEY_MIN
#define SB_FIND_KEY_MIN 1u
#endif

/* Everything in a function with a short way is inlined, the hash above all: a call would cost it
 * its registers. */
#define SB_FIND_FLAT __attribute__((flatten))

/* Whether a key of this length can be one, so that its bytes may be compared with a version's. */
static inline bool sb_find_takes(const struct sb_handle *handle, uint64_t key_len)
{
        return key_len - SB_FIND_KEY_MIN < handle->segment.key_len_max + 1 - SB_FIND_KEY_MIN;
}

/* Lengths differ in the steps of hash, comparison and copy. So a function with a short way asks for
 * a length at its beginning, once, and has a short way for each answer: the compiler leaves the
 * steps that such lengths take. */
static inline bool sb_find_two_words(uint64_t key_len)
{
        return key_len - 9 <= 16 - 9;
}
static inline bool sb_find_four_words(uint64_t key_len)
{
        return key_len - 17 <= 32 - 17;
}
static inline bool sb_find_eight_words(uint64_t key_len)
{
        return key_len - 33 <= 64 - 33;
}
static inline bool sb_find_one_word(uint64_t key_len)
{
        return key_len - SB_FIND_KEY_MIN <= 8 - SB_FIND_KEY_MIN;
}

/* The same hash as sb_hash_key(), in line. What is known of the length leaves one of these, and of
 * that the steps that such a length takes. */
static inline uint64_t sb_find_hash(
        const struct sb_handle *handle, const void *key, uint64_t key_len)
{
        uint64_t seed = handle->segment.seed;

        if (SB_LIKELY(sb_find_two_words(key_len)))
                return sb_hash_key(key, key_len, seed);
        if (SB_LIKELY(sb_find_four_words(key_len)))
                return sb_hash_key(key, key_len, seed);
        if (SB_LIKELY(sb_find_one_word(key_len)))
                return sb_hash_key(key, key_len, seed);
        if (SB_LIKELY(sb_find_eight_words(key_len)))
                return sb_hash_key(key, key_len, seed);
        return sb_find_hash_any(handle, key, key_len);
}

/* The first cell that has the key's tag; NULL: none. That says little about the key: it is a cell
 * to look at, then or later, and the one that looks compares the key. */
static inline __attribute__((always_inline)) struct sb_word64 *sb_find_cell(
        const struct sb_handle *handle, uint64_t hash)
{
        struct sb_bucket *bucket = &handle->segment.buckets[sb_index_home(&handle->segment, hash)];
        uint32_t found = sb_bucket_match(bucket, hash);

        return SB_LIKELY(found) ? sb_bucket_first(bucket, found) : NULL;
}

/* Two steps by which the memory of many keys is fetched at once: first all buckets, then all
 * versions. No pin is needed: nothing is followed. The first step serves a single key, too: before
 * all else in a call, so that the bucket of the next call comes while the version of this one
 * does (docs/benchmarks.md). */
static inline void sb_find_fetch_bucket(const struct sb_handle *handle, uint64_t hash)
{
        sb_prefetch(&handle->segment.buckets[sb_index_home(&handle->segment, hash)]);
}
/* The same for a write, which is about to take the cell's line for itself: where another processor
 * reads it, that begins here, and not behind the search. */
static inline void sb_find_fetch_bucket_to_write(const struct sb_handle *handle, uint64_t hash)
{
        sb_prefetch_write(&handle->segment.buckets[sb_index_home(&handle->segment, hash)]);
}
/* Return: as sb_find_cell(). */
static inline struct sb_word64 *sb_find_fetch_version(const struct sb_handle *handle, uint64_t hash)
{
        struct sb_word64 *cell = sb_find_cell(handle, hash);

        if (SB_UNLIKELY(!cell))
                return NULL;
        /* Relaxed: only a hint of what to fetch. */
        sb_unit_fetch_block(&handle->segment, sb_load_relaxed(cell) & SB_OFFSET_MASK);
        return cell;
}

/* Publish a pin of the present era, and return that. The caller keeps it: sb_pin_era() stays what
 * the long way made it. */
static inline uint64_t sb_find_pin(struct sb_handle *handle)
{
        /* A:era. As in sb_pin(). */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        if (!SB_FAULT(PIN_LATE))
                sb_pin_publish(handle, era, 0);
        return era;
}
/* Fault PIN_LATE. */
static inline void sb_find_pin_late(struct sb_handle *handle, uint64_t era)
{
        if (SB_FAULT(PIN_LATE))
                sb_pin_publish(handle, era, 0);
}

static inline void sb_find_unpin(struct sb_handle *handle)
{
        /* R:unpin > A:pins. All that was read under the pin was read before it is gone. */
        sb_store_release(&handle->record->pin, 0);
}
/* Whether the keys are the same, both of @len bytes. */
static inline bool sb_find_same(const unsigned char *a, const unsigned char *b, uint64_t len)
{
        if (SB_LIKELY(sb_find_two_words(len)))
                return sb_bytes_same_two_words(a, b, len);
        if (SB_LIKELY(sb_find_four_words(len)))
                return sb_bytes_same_four_words(a, b, len);
        if (SB_LIKELY(sb_find_eight_words(len)))
                return sb_bytes_same_four_words(a, b, 32) &&
                       sb_bytes_same_four_words(a + len - 32, b + len - 32, 32);
        return sb_bytes_same(a, b, len);
}

/* A value that the short way found. */
struct sb_found {
        struct sb_word64 *cell;
        uint64_t word; /* what was in the cell */
        struct sb_version *version;
        uint64_t offset;
        uint64_t stamp;
        uint64_t shape; /* with a key length of 0 */
};

/* Whether the pin of @era covers what was loaded before. */
static inline bool sb_find_covers(const struct sb_segment *segment, uint64_t era)
{
        /* A:era. As in sb_pin_covers(). */
        return SB_LIKELY(sb_load_acquire(&segment->super->era) == era) || SB_FAULT(PIN_NO_RECHECK);
}

/* Neither 0 nor a placeholder's, nor an intent's, which is negative. */
static inline bool sb_find_is_stamp(uint64_t stamp)
{
        return SB_LIKELY((int64_t)stamp > (int64_t)SB_STAMP_PLACEHOLDER) ||
               ((SB_FAULT(GET_NO_STAMP) || SB_FAULT(SUPERSEDE_UNSTAMPED)) && !stamp);
}

/* The newest value of a key, by the word that was in a cell that may be its own. What the word
 * names is protected. False says nothing about the key. */
static inline __attribute__((always_inline)) bool sb_find_by_word(struct sb_handle *handle,
        struct sb_word64 *cell, uint64_t word, const void *key, uint64_t key_len,
        struct sb_found *ret)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version;
        uint64_t offset, shape, stamp;

        offset = word & SB_OFFSET_MASK;
        if (SB_UNLIKELY(offset - segment->geometry.units_at > segment->blocks_span) ||
                SB_UNLIKELY(word & SB_CELL_FROZEN))
                return false;
        version = (struct sb_version *)(segment->base + offset);
        /* A value of a key of this length: no placeholder, no tombstone, no expiry. A transaction's
         * number behind the value does no harm. */
        shape = version->shape ^ key_len << 17;
        if (SB_UNLIKELY(shape & UINT64_C(0x0ffef000)))
                return false;
        /* A:stamp. Only what is committed counts, and its stamp goes with it. */
        stamp = sb_load_acquire(&version->stamp);
        if (!sb_find_is_stamp(stamp))
                return false;
        if (SB_UNLIKELY(offset + SB_SHAPE_VALUE_LEN(shape) > segment->values_end))
                return false;
        if (SB_UNLIKELY(!sb_find_same(version->bytes, key, key_len)))
                return false;
        *ret = (struct sb_found){.cell = cell,
                .word = word,
                .version = version,
                .offset = offset,
                .stamp = stamp,
                .shape = shape};
        return true;
}

/* Under the pin of sb_find_pin(), with the era that it returned: the newest value of a key. False
 * says nothing about the key. */
static inline __attribute__((always_inline)) bool sb_find_plain(struct sb_handle *handle,
        const void *key, uint64_t key_len, uint64_t hash, uint64_t era, struct sb_found *ret)
{
        struct sb_word64 *cell = sb_find_cell(handle, hash);
        uint64_t word;

        if (SB_UNLIKELY(!cell))
                return false;
        /* A:publish, then A:era, as in sb_pin_load(): the version is complete, and the pin
         * covers it. */
        word = sb_load_acquire(cell);
        if (!sb_find_covers(&handle->segment, era) ||
                !sb_find_by_word(handle, cell, word, key, key_len, ret))
                return false;
        sb_find_pin_late(handle, era);
        return true;
}

/* Let guard word @index hold what @cell names, by its @word. Return: whether the cell names it
 * still. Faults HOLD_LATE: the look comes before the guard; HOLD_UNASKED: it is not asked. */
static inline __attribute__((always_inline)) bool sb_find_hold_cell(
        struct sb_handle *handle, const struct sb_word64 *cell, uint64_t word, uint32_t index)
{
        bool same;

        if (!SB_FAULT(HOLD_LATE))
                sb_guard_publish(handle, index, word & SB_OFFSET_MASK);
        /* A:publish. The version is complete. It was linked when the guard was there: so a client
         * that frees it has unlinked it later, and sees the guard behind its membarrier. If the
         * block was free in between, and is linked here once more, it is this key's newest. */
        same = sb_load_acquire(cell) == word || SB_FAULT(HOLD_UNASKED);
        if (SB_FAULT(HOLD_LATE))
                sb_guard_publish(handle, index, word & SB_OFFSET_MASK);
        return same;
}

/* The newest value of a key with a cell that may be @cell, without a pin: guard word @index, which
 * is free, holds it. False says nothing about the key; then the word holds nothing. */
static inline __attribute__((always_inline)) bool sb_find_hold_in(struct sb_handle *handle,
        struct sb_word64 *cell, const void *key, uint64_t key_len, uint32_t index,
        struct sb_found *ret)
{
        uint64_t word;

        if (SB_UNLIKELY(!cell) || (SB_FIND_KEY_MIN > 1 && key_len < SB_FIND_KEY_MIN))
                return false;
        word = sb_load_relaxed(cell); /* Relaxed: it is loaded once more before it is followed. */
        if (SB_LIKELY(sb_find_hold_cell(handle, cell, word, index)) &&
                SB_LIKELY(sb_find_by_word(handle, cell, word, key, key_len, ret)))
                return true;
        sb_guard_set(handle, index, 0);
        return false;
}

/* The same, by the key's hash. */
static inline __attribute__((always_inline)) bool sb_find_hold(struct sb_handle *handle,
        const void *key, uint64_t key_len, uint64_t hash, uint32_t index, struct sb_found *ret)
{
        return sb_find_hold_in(handle, sb_find_cell(handle, hash), key, key_len, index, ret);
}

/* As sb_find_in_cell(), if the version is the newest one, and is stamped. NULL says nothing about
 * the key. *ret_shape: the version's, checked. */
static inline __attribute__((always_inline)) struct sb_version *sb_find_plain_in_cell(
        struct sb_handle *handle, const struct sb_word64 *cell, uint64_t node, uint64_t cut,
        uint64_t *ret_shape)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version;
        uint64_t word, shape;

        if (SB_UNLIKELY(!cell))
                return NULL;
        word = sb_pin_load(handle, cell);
        version = sb_version_at(segment, word & SB_OFFSET_MASK);
        if (SB_UNLIKELY(!version) || SB_UNLIKELY(word & SB_CELL_FROZEN) ||
                SB_UNLIKELY(version->node != node && !SB_FAULT(FIND_NODE_UNASKED)))
                return NULL;
        shape = sb_version_shape(segment, version);
        /* A:stamp. Without one, or with an intent's, it counts as above each cut. */
        if (SB_UNLIKELY(sb_load_acquire(&version->stamp) - 1 >= cut) ||
                SB_UNLIKELY((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) != SB_VERSION_VALUE) ||
                SB_UNLIKELY(!SB_SHAPE_KEY_LEN(shape)))
                return NULL;
        *ret_shape = shape;
        return version;
}

#endif
