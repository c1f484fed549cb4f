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
        MDB_txn *reading; /* reset between two reads, as LMDB's users do; NULL: none yet */
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

        if (access->reading)
                mdb_txn_abort(access->reading);
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

/* Return: 0, or LMDB's error. */
static int lmdb_begin_reading(struct access *access)
{
        return access->reading ? mdb_txn_renew(access->reading)
                               : mdb_txn_begin(access->env, NULL, MDB_RDONLY, &access->reading);
}

static int64_t lmdb_get(void *opened, const char *key, size_t key_len)
{
        struct access *access = opened;
        MDB_val name = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key}, bytes;
        int64_t len = -1;

        if (lmdb_begin_reading(access))
                return -1;
        if (!mdb_get(access->reading, access->table, &name, &bytes)) {
                bench_use(bench_consume(bytes.mv_data, (uint32_t)bytes.mv_size));
                len = (int64_t)bytes.mv_size;
        }
        mdb_txn_reset(access->reading);
        return len;
}

static int64_t lmdb_scan(void *opened, const char *key, size_t key_len, uint32_t count)
{
        struct access *access = opened;
        MDB_val name = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key}, bytes;
        MDB_cursor_op way = MDB_SET_RANGE;
        MDB_cursor *cursor;
        int64_t done = 0;

        if (lmdb_begin_reading(access))
                return -1;
        if (mdb_cursor_open(access->reading, access->table, &cursor))
                return -1;
        for (; done < count && !mdb_cursor_get(cursor, &name, &bytes, way); done++) {
                bench_use(bench_consume(bytes.mv_data, (uint32_t)bytes.mv_size));
                way = MDB_NEXT;
        }
        mdb_cursor_close(cursor);
        mdb_txn_reset(access->reading);
        return done;
}

const struct disk_peer *const disk_lmdb = &(const struct disk_peer){lmdb_begin, lmdb_open_access,
        lmdb_set, lmdb_close_access, free, lmdb_get, lmdb_scan, false};
#else
const struct disk_peer *const disk_lmdb = NULL;
#endif
