/*
 * RocksDB, as it is by default. Where it waits, each write syncs the write-ahead log; else the
 * kernel writes that when it likes.
 */
#include "bench/disk.h"

#ifdef BENCH_ROCKSDB
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>

struct access {
        rocksdb_t *database;
        rocksdb_options_t *options;
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

const struct disk_peer *const disk_rocksdb = &(const struct disk_peer){
        rocks_begin, rocks_open_access, rocks_set, rocks_close_access, free};
#else
const struct disk_peer *const disk_rocksdb = NULL;
#endif
