/*
 * RocksDB, as it is by default. Where it waits, each write syncs the write-ahead log; else the
 * kernel writes that when it likes.
 */
#include "bench/disk.h"

#ifdef BENCH_ROCKSDB
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

struct access {
        rocksdb_t *database;
        rocksdb_options_t *options;
        rocksdb_readoptions_t *read;
        rocksdb_writeoptions_t *write;
};

static void *rocks_begin(const char *directory, const struct disk_way *way)
{
        char *path = malloc(400);

        if (path)
                snprintf(path, 400, "%s/rocksdb-%s", directory, way->waits ? "sync" : "lazy");
        return path;
}

static void rocks_close_access(void *opened)
{
        struct access *access = opened;

        if (access->database)
                rocksdb_close(access->database);
        rocksdb_writeoptions_destroy(access->write);
        rocksdb_readoptions_destroy(access->read);
        rocksdb_options_destroy(access->options);
        free(access);
}

static void *rocks_open_access(void *store, const struct disk_way *way)
{
        struct access *access = calloc(1, sizeof(*access));
        char *error = NULL;

        if (!access)
                return NULL;
        access->options = rocksdb_options_create();
        access->write = rocksdb_writeoptions_create();
        access->read = rocksdb_readoptions_create();
        rocksdb_options_set_create_if_missing(access->options, 1);
        rocksdb_writeoptions_set_sync(access->write, way->waits);
        access->database = rocksdb_open(access->options, store, &error);
        if (!error)
                return access;
        fprintf(stderr, "bench-log: RocksDB: %s\n", error);
        free(error);
        rocks_close_access(access);
        return NULL;
}

static int64_t rocks_set(
        void *opened, const char *key, size_t key_len, const void *value, size_t value_len)
{
        struct access *access = opened;
        char *error = NULL;

        rocksdb_put(access->database, access->write, key, key_len, value, value_len, &error);
        if (!error)
                return 1;
        free(error);
        return -1;
}

static int64_t rocks_get(void *opened, const char *key, size_t key_len)
{
        struct access *access = opened;
        rocksdb_pinnableslice_t *slice;
        const char *value;
        char *error = NULL;
        size_t len;

        slice = rocksdb_get_pinned(access->database, access->read, key, key_len, &error);
        free(error);
        value = slice ? rocksdb_pinnableslice_value(slice, &len) : NULL;
        if (value)
                bench_use(bench_consume((const unsigned char *)value, (uint32_t)len));
        if (slice)
                rocksdb_pinnableslice_destroy(slice);
        return value ? (int64_t)len : -1;
}

static int64_t rocks_scan(void *opened, const char *key, size_t key_len, uint32_t count)
{
        struct access *access = opened;
        rocksdb_iterator_t *at = rocksdb_create_iterator(access->database, access->read);
        int64_t done = 0;

        rocksdb_iter_seek(at, key, key_len);
        for (; done < count && rocksdb_iter_valid(at); rocksdb_iter_next(at), done++) {
                size_t len;
                const char *value = rocksdb_iter_value(at, &len);

                bench_use(bench_consume((const unsigned char *)value, (uint32_t)len));
        }
        rocksdb_iter_destroy(at);
        return done;
}

const struct disk_peer *const disk_rocksdb = &(const struct disk_peer){rocks_begin,
        rocks_open_access, rocks_set, rocks_close_access, free, rocks_get, rocks_scan, true};
#else
const struct disk_peer *const disk_rocksdb = NULL;
#endif
