/*
 * SQLite, with a write-ahead log. Each set is a transaction. Where it waits, synchronous is FULL:
 * each commit syncs the log; else NORMAL: checkpoints alone do.
 */
#include "bench/disk.h"

#ifdef BENCH_SQLITE
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

struct access {
        sqlite3 *database;
        sqlite3_stmt *set, *get, *scan;
};

static void *sqlite_begin(const char *directory, const struct disk_way *way)
{
        char *path = malloc(400);

        (void)way;
        if (path)
                snprintf(path, 400, "%s/sqlite.db", directory);
        return path;
}

static void sqlite_close_access(void *opened)
{
        struct access *access = opened;

        sqlite3_finalize(access->set);
        sqlite3_finalize(access->get);
        sqlite3_finalize(access->scan);
        sqlite3_close(access->database);
        free(access);
}

static void *sqlite_open_access(void *store, const struct disk_way *way)
{
        struct access *access = calloc(1, sizeof(*access));

        if (!access)
                return NULL;
        if (!sqlite3_open(store, &access->database) &&
                !sqlite3_busy_timeout(access->database, 60000) &&
                !sqlite3_exec(access->database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) &&
                !sqlite3_exec(access->database,
                        way->waits ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                        NULL, NULL, NULL) &&
                !sqlite3_exec(access->database,
                        "CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID",
                        NULL, NULL, NULL) &&
                !sqlite3_prepare_v2(access->database, "INSERT OR REPLACE INTO kv VALUES (?, ?)", -1,
                        &access->set, NULL) &&
                !sqlite3_prepare_v2(
                        access->database, "SELECT v FROM kv WHERE k = ?", -1, &access->get, NULL) &&
                !sqlite3_prepare_v2(access->database,
                        "SELECT v FROM kv WHERE k >= ? ORDER BY k LIMIT ?", -1, &access->scan,
                        NULL))
                return access;
        sqlite_close_access(access);
        return NULL;
}

static int64_t sqlite_set(
        void *opened, const char *key, size_t key_len, const void *value, size_t value_len)
{
        struct access *access = opened;
        int r;

        sqlite3_bind_blob(access->set, 1, key, (int)key_len, SQLITE_STATIC);
        sqlite3_bind_blob(access->set, 2, value, (int)value_len, SQLITE_STATIC);
        r = sqlite3_step(access->set);
        sqlite3_reset(access->set);
        return r == SQLITE_DONE ? 1 : -1;
}

static int64_t sqlite_get(void *opened, const char *key, size_t key_len)
{
        struct access *access = opened;
        int64_t len = -1;

        sqlite3_bind_blob(access->get, 1, key, (int)key_len, SQLITE_STATIC);
        if (sqlite3_step(access->get) == SQLITE_ROW) {
                len = sqlite3_column_bytes(access->get, 0);
                bench_use(bench_consume(sqlite3_column_blob(access->get, 0), (uint32_t)len));
        }
        sqlite3_reset(access->get);
        return len;
}

static int64_t sqlite_scan(void *opened, const char *key, size_t key_len, uint32_t count)
{
        struct access *access = opened;
        int64_t done = 0;

        sqlite3_bind_blob(access->scan, 1, key, (int)key_len, SQLITE_STATIC);
        sqlite3_bind_int64(access->scan, 2, count);
        for (; sqlite3_step(access->scan) == SQLITE_ROW; done++)
                bench_use(bench_consume(sqlite3_column_blob(access->scan, 0),
                        (uint32_t)sqlite3_column_bytes(access->scan, 0)));
        sqlite3_reset(access->scan);
        return done;
}

const struct disk_peer *const disk_sqlite = &(const struct disk_peer){sqlite_begin,
        sqlite_open_access, sqlite_set, sqlite_close_access, free, sqlite_get, sqlite_scan, false};
#else
const struct disk_peer *const disk_sqlite = NULL;
#endif
