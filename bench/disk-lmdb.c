/*
 * LMDB. Each set is a transaction. Where it waits, the commit syncs; else the environment is synced
 * every 100 ms by its writer, as often as statebus flushes.
 */
#include "bench/disk.h"

#ifdef BENCH_LMDB
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

#define MAP_SIZE (UINT64_C(4) << 30)
#define EVERY_NS UINT64_C(100000000)

struct access {
        MDB_env *env;
        MDB_dbi table;
        bool waits;
        uint64_t synced_ns;
};

static void *lmdb_begin(const char *directory, const struct disk_way *way)
{
        char *path = malloc(400);

        if (path)
                snprintf(path, 400, "%s/lmdb-%s", directory, way->waits ? "sync" : "lazy");
        return path;
}

static void lmdb_close_access(void *opened)
{
        struct access *access = opened;

        mdb_env_close(access->env);
        free(access);
}

static void *lmdb_open_access(void *store, const struct disk_way *way)
{
        struct access *access = calloc(1, sizeof(*access));
        MDB_txn *txn = NULL;

        if (!access || mdb_env_create(&access->env)) {
                free(access);
                return NULL;
        }
        access->waits = way->waits;
        access->synced_ns = bench_now_ns();
        if (!mdb_env_set_mapsize(access->env, MAP_SIZE) &&
                !mdb_env_open(
                        access->env, store, MDB_NOSUBDIR | (way->waits ? 0 : MDB_NOSYNC), 0600) &&
                !mdb_txn_begin(access->env, NULL, 0, &txn) &&
                !mdb_dbi_open(txn, NULL, 0, &access->table) && !mdb_txn_commit(txn))
                return access;
        lmdb_close_access(access);
        return NULL;
}

static int64_t lmdb_set(
        void *opened, const char *key, size_t key_len, const void *value, size_t value_len)
{
        struct access *access = opened;
        MDB_val name = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
        MDB_val bytes = {.mv_size = value_len, .mv_data = (void *)(uintptr_t)value};
        MDB_txn *txn;

        if (mdb_txn_begin(access->env, NULL, 0, &txn))
                return -1;
        if (mdb_put(txn, access->table, &name, &bytes, 0)) {
                mdb_txn_abort(txn);
                return -1;
        }
        if (mdb_txn_commit(txn))
                return -1;
        if (!access->waits && bench_now_ns() - access->synced_ns > EVERY_NS) {
                if (mdb_env_sync(access->env, 1))
                        return -1;
                access->synced_ns = bench_now_ns();
        }
        return 1;
}

const struct disk_peer *const disk_lmdb =
        &(const struct disk_peer){lmdb_begin, lmdb_open_access, lmdb_set, lmdb_close_access, free};
#else
const struct disk_peer *const disk_lmdb = NULL;
#endif
