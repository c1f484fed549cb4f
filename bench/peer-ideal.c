/*
 * The contender "ideal": hash, bucket, record, nothing else. It does what the memory allows, and no
 * more than that: no concurrent writers, no reclamation, no order, one size of value. No program
 * could use it; all contenders are measured against it.
 *
 *      buckets of seven cells {tag : 16, record's offset : 48}
 *              and a word that says that the keys go on in the next bucket
 *      records {key, value}
 *
 * GET of many prefetches in three steps: all buckets, all records, all values. CAS is one
 * compare-and-swap on one word.
 *
 * Always true: no worker writes to the table, so no worker has to wait or to check anything.
 */
#include <emmintrin.h>
#include <errno.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"

#define CELLS       7u
#define OFFSET_MASK ((UINT64_C(1) << 48) - 1)

struct bucket {
        uint64_t cell[CELLS];
        uint64_t spilled;
};

struct store {
        unsigned char *base;
        struct bucket *buckets;
        uint64_t size;
        uint64_t bucket_mask;
        uint32_t value_len;
        uint32_t record_size;
        uint64_t key_space;
        struct sb_word64 *word; /* for CAS; on a line of its own */
};

static int insert(struct store *store, const struct bench_key *key, uint64_t offset)
{
        uint64_t hash = sb_hash_key(key->bytes, key->len, BENCH_SEED);
        uint64_t index = hash & store->bucket_mask;

        for (uint64_t i = 0; i <= store->bucket_mask;
                i++, index = (index + 1) & store->bucket_mask) {
                struct bucket *bucket = &store->buckets[index];

                for (uint32_t place = 0; place < CELLS; place++)
                        if (!bucket->cell[place]) {
                                bucket->cell[place] = hash >> 48 << 48 | offset;
                                return 0;
                        }
                bucket->spilled = 1;
        }
        return -ENOSPC;
}

static int ideal_create(const struct bench_shape *shape, void **ret_store)
{
        struct store *store = calloc(1, sizeof(*store));
        uint64_t bucket_count = 64, records_at;
        struct bench_key key;

        if (!store)
                return -ENOMEM;
        while (bucket_count * 4 < shape->key_count)
                bucket_count *= 2;
        store->bucket_mask = bucket_count - 1;
        store->value_len = shape->value_len;
        store->key_space = bench_key_space();
        store->record_size = (uint32_t)store->key_space + shape->value_len;
        records_at = bucket_count * sizeof(struct bucket) + 128;
        store->size = records_at + (uint64_t)shape->key_count * store->record_size;
        store->base = bench_memory_map(store->size, shape->pages);
        if (!store->base) {
                free(store);
                return -ENOMEM;
        }
        store->buckets = (struct bucket *)store->base;
        store->word = (struct sb_word64 *)(store->base + bucket_count * sizeof(struct bucket));
        for (uint32_t i = 0; i < shape->key_count; i++) {
                uint64_t offset = records_at + (uint64_t)i * store->record_size;
                int r;

                bench_key_write(i, &key);
                memcpy(store->base + offset, key.bytes, key.len);
                memset(store->base + offset + store->key_space, (int)i & 0xff, shape->value_len);
                r = insert(store, &key, offset);
                if (r < 0)
                        return r;
        }
        *ret_store = store;
        return 0;
}

static int ideal_attach(void *opaque, uint32_t index, void **ret_handle)
{
        struct store *store = opaque;

        (void)index;
        bench_memory_touch(store->base, store->size);
        *ret_handle = store;
        return 0;
}

static void ideal_detach(void *handle)
{
        (void)handle;
}

static void ideal_destroy(void *opaque)
{
        struct store *store = opaque;

        bench_memory_unmap(store->base, store->size);
        free(store);
}

/* Compare the tags of two cells: all ones in the low half of a cell's lane where the tag is the
 * same. */
static inline __m128i match_two(const uint64_t *cells, __m128i tag)
{
        return _mm_cmpeq_epi32(_mm_srli_epi64(_mm_load_si128((const __m128i *)cells), 48), tag);
}

/* Return: one bit for each cell with the hash's tag, two bits apart, so that no branch depends on
 * which cell it is. */
static inline uint32_t match(const struct bucket *bucket, uint64_t hash)
{
        __m128i tag = _mm_set1_epi64x((long long)(hash >> 48));
        __m128i low =
                _mm_packs_epi32(match_two(bucket->cell, tag), match_two(bucket->cell + 2, tag));
        __m128i high =
                _mm_packs_epi32(match_two(bucket->cell + 4, tag), match_two(bucket->cell + 6, tag));

        return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0x1555u;
}

static inline const unsigned char *find(
        const struct store *store, const struct bench_key *key, uint64_t hash)
{
        const struct bucket *bucket = &store->buckets[hash & store->bucket_mask];

        for (;;) {
                for (uint32_t found = match(bucket, hash); found; found &= found - 1) {
                        uint64_t cell = bucket->cell[__builtin_ctz(found) / 2];
                        const unsigned char *record = store->base + (cell & OFFSET_MASK);

                        if (cell && bench_key_equal(record, key))
                                return record + store->key_space;
                }
                if (!bucket->spilled)
                        return NULL;
                bucket =
                        bucket == &store->buckets[store->bucket_mask] ? store->buckets : bucket + 1;
        }
}

static uint32_t get_each(const struct store *store, const struct bench_batch *batch)
{
        uint64_t sum = 0;
        uint32_t done = 0;

        for (uint32_t i = 0; i < batch->count; i++) {
                const struct bench_key *key = &batch->keys[i];
                const unsigned char *value =
                        find(store, key, sb_hash_key(key->bytes, key->len, BENCH_SEED));

                if (value) {
                        sum += bench_consume(value, store->value_len);
                        done++;
                }
        }
        bench_use(sum);
        return done;
}

static uint32_t get_many(const struct store *store, const struct bench_batch *batch)
{
        const unsigned char *records[BENCH_MANY];
        uint64_t hashes[BENCH_MANY], sum = 0;
        uint32_t done = 0;

        for (uint32_t from = 0; from < batch->count; from += BENCH_MANY) {
                const struct bench_key *keys = batch->keys + from;

                for (uint32_t i = 0; i < BENCH_MANY; i++) {
                        hashes[i] = sb_hash_key(keys[i].bytes, keys[i].len, BENCH_SEED);
                        __builtin_prefetch(&store->buckets[hashes[i] & store->bucket_mask]);
                }
                for (uint32_t i = 0; i < BENCH_MANY; i++) {
                        const struct bucket *bucket =
                                &store->buckets[hashes[i] & store->bucket_mask];
                        uint32_t found = match(bucket, hashes[i]);

                        records[i] = found ? store->base + (bucket->cell[__builtin_ctz(found) / 2] &
                                                                   OFFSET_MASK)
                                           : NULL;
                        bench_prefetch(records[i], store->record_size);
                }
                for (uint32_t i = 0; i < BENCH_MANY; i++) {
                        const unsigned char *value =
                                records[i] && bench_key_equal(records[i], &keys[i])
                                        ? records[i] + store->key_space
                                        : find(store, &keys[i], hashes[i]);

                        if (value) {
                                sum += bench_consume(value, store->value_len);
                                done++;
                        }
                }
        }
        bench_use(sum);
        return done;
}

static uint32_t cas_word(struct store *store, const struct bench_batch *batch)
{
        /* Relaxed: only this word's value counts. */
        uint64_t seen = sb_load_relaxed(store->word);
        uint32_t done = 0;

        for (uint32_t i = 0; i < batch->count; i++) {
                if (sb_cas64_full(store->word, seen, seen + 1)) {
                        done++;
                        seen++;
                } else {
                        seen = sb_load_relaxed(store->word);
                }
        }
        return done;
}

static uint32_t ideal_run(void *handle, const struct bench_batch *batch)
{
        struct store *store = handle;

        switch (batch->op) {
        case BENCH_GET:
                return get_each(store, batch);
        case BENCH_GET_MANY:
                return get_many(store, batch);
        case BENCH_CAS:
                return cas_word(store, batch);
        default:
                return 0;
        }
}

const struct bench_peer bench_ideal = {
        .name = "ideal",
        .ops = 1u << BENCH_GET | 1u << BENCH_GET_MANY | 1u << BENCH_CAS,
        .create = ideal_create,
        .attach = ideal_attach,
        .run = ideal_run,
        .detach = ideal_detach,
        .destroy = ideal_destroy,
};
