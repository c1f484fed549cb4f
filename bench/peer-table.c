/*
 * The contender "table": what a careful programmer would write in an afternoon. It is a table of
 * fixed records in shared memory, under 64 robust pthread locks, each on a line of its own. Readers
 * read in place while they hold the lock (a copy would cost more); writers copy the value in and
 * count the record's revision.
 *
 *      locks
 *      buckets of seven cells {tag : 16, record's offset : 48}
 *      records {revision, key, value}
 *
 * Always true: a lock is taken over when its owner died.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "shm/base/hash.h"

#define CELLS       7u
#define LOCKS       64u
#define OFFSET_MASK ((UINT64_C(1) << 48) - 1)

struct lock {
        pthread_mutex_t mutex;
        unsigned char pad[64 - sizeof(pthread_mutex_t)];
};

struct bucket {
        uint64_t cell[CELLS];
        uint64_t spilled;
};

struct record {
        uint64_t rev;
        unsigned char bytes[]; /* key, in space for the longest; value */
};

struct store {
        unsigned char *base;
        struct lock *locks;
        struct bucket *buckets;
        uint64_t size;
        uint64_t bucket_mask, key_space;
        uint32_t value_len;
};

static int locks_init(struct lock *locks)
{
        pthread_mutexattr_t attributes;
        int r = pthread_mutexattr_init(&attributes);

        if (!r)
                r = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        if (!r)
                r = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        for (uint32_t i = 0; i < LOCKS && !r; i++)
                r = pthread_mutex_init(&locks[i].mutex, &attributes);
        return -r;
}

static struct lock *lock_of(struct store *store, uint64_t hash)
{
        struct lock *lock = &store->locks[hash >> 40 & (LOCKS - 1)];

        if (pthread_mutex_lock(&lock->mutex) == EOWNERDEAD)
                pthread_mutex_consistent(&lock->mutex);
        return lock;
}

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

static int table_create(const struct bench_shape *shape, void **ret_store)
{
        struct store *store = calloc(1, sizeof(*store));
        uint64_t bucket_count = 64,
                 record_size = sizeof(struct record) + bench_key_space() + shape->value_len,
                 records_at;
        struct bench_key key;
        int r;

        if (!store)
                return -ENOMEM;
        while (bucket_count * 4 < shape->key_count)
                bucket_count *= 2;
        store->bucket_mask = bucket_count - 1;
        store->value_len = shape->value_len;
        store->key_space = bench_key_space();
        records_at = LOCKS * sizeof(struct lock) + bucket_count * sizeof(struct bucket);
        store->size = records_at + shape->key_count * record_size;
        store->base = bench_memory_map(store->size, shape->pages);
        if (!store->base) {
                free(store);
                return -ENOMEM;
        }
        store->locks = (struct lock *)store->base;
        store->buckets = (struct bucket *)(store->base + LOCKS * sizeof(struct lock));
        r = locks_init(store->locks);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < shape->key_count; i++) {
                uint64_t offset = records_at + i * record_size;
                struct record *record = (struct record *)(store->base + offset);

                bench_key_write(i, &key);
                memcpy(record->bytes, key.bytes, key.len);
                record->rev = 1;
                memset(record->bytes + store->key_space, (int)i & 0xff, shape->value_len);
                r = insert(store, &key, offset);
                if (r < 0)
                        return r;
        }
        *ret_store = store;
        return 0;
}

static int table_attach(void *opaque, uint32_t index, void **ret_handle)
{
        struct store *store = opaque;

        (void)index;
        bench_memory_touch(store->base, store->size);
        *ret_handle = store;
        return 0;
}

static void table_detach(void *handle)
{
        (void)handle;
}

static void table_destroy(void *opaque)
{
        struct store *store = opaque;

        bench_memory_unmap(store->base, store->size);
        free(store);
}

/* The caller holds the key's lock. */
static inline struct record *find(
        const struct store *store, const struct bench_key *key, uint64_t hash)
{
        const struct bucket *bucket = &store->buckets[hash & store->bucket_mask];

        for (;;) {
                for (uint32_t place = 0; place < CELLS; place++) {
                        uint64_t cell = bucket->cell[place];
                        struct record *record =
                                (struct record *)(store->base + (cell & OFFSET_MASK));

                        if (cell >> 48 == hash >> 48 && cell && bench_key_equal(record->bytes, key))
                                return record;
                }
                if (!bucket->spilled)
                        return NULL;
                bucket =
                        bucket == &store->buckets[store->bucket_mask] ? store->buckets : bucket + 1;
        }
}

static uint32_t get_one(struct store *store, const struct bench_key *key, uint64_t *sum)
{
        uint64_t hash = sb_hash_key(key->bytes, key->len, BENCH_SEED);
        struct lock *lock = lock_of(store, hash);
        const struct record *record = find(store, key, hash);

        if (record)
                *sum += bench_consume(record->bytes + store->key_space, store->value_len);
        pthread_mutex_unlock(&lock->mutex);
        return record ? 1 : 0;
}

static uint32_t set_one(
        struct store *store, const struct bench_key *key, const unsigned char *value)
{
        uint64_t hash = sb_hash_key(key->bytes, key->len, BENCH_SEED);
        struct lock *lock = lock_of(store, hash);
        struct record *record = find(store, key, hash);

        if (record) {
                memcpy(record->bytes + store->key_space, value, store->value_len);
                record->rev++;
        }
        pthread_mutex_unlock(&lock->mutex);
        return record ? 1 : 0;
}

/* When another worker was first, *expected_rev becomes the current revision. */
static uint32_t cas_one(struct store *store, const struct bench_key *key,
        const unsigned char *value, uint64_t *expected_rev)
{
        uint64_t hash = sb_hash_key(key->bytes, key->len, BENCH_SEED);
        struct lock *lock = lock_of(store, hash);
        struct record *record = find(store, key, hash);
        uint32_t won = record && record->rev == *expected_rev;

        if (won) {
                memcpy(record->bytes + store->key_space, value, store->value_len);
                record->rev++;
        }
        if (record)
                *expected_rev = record->rev;
        pthread_mutex_unlock(&lock->mutex);
        return won;
}

static uint32_t table_run(void *handle, const struct bench_batch *batch)
{
        struct store *store = handle;
        uint64_t sum = 0, rev = 0;
        uint32_t done = 0;

        switch (batch->op) {
        case BENCH_GET:
        case BENCH_GET_MANY: /* one lock at a time: there is nothing to prefetch together */
                for (uint32_t i = 0; i < batch->count; i++)
                        done += get_one(store, &batch->keys[i], &sum);
                break;
        case BENCH_MIX:
                for (uint32_t i = 0; i < batch->count; i++)
                        done += batch->is_write[i] ? set_one(store, &batch->keys[i], batch->value)
                                                   : get_one(store, &batch->keys[i], &sum);
                break;
        case BENCH_CAS:
                for (uint32_t i = 0; i < batch->count; i++)
                        done += cas_one(store, &batch->keys[0], batch->value, &rev);
                break;
        default:
                break;
        }
        bench_use(sum);
        return done;
}

const struct bench_peer bench_table = {
        .name = "table",
        .ops = 1u << BENCH_GET | 1u << BENCH_GET_MANY | 1u << BENCH_MIX | 1u << BENCH_CAS,
        .create = table_create,
        .attach = table_attach,
        .run = table_run,
        .detach = table_detach,
        .destroy = table_destroy,
};
