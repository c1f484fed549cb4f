/*
 * SQLite, with a write-ahead log. Each set is a transaction. Where it waits, synchronous is FULL:
 * each commit syncs the log; else NORMAL: checkpoints alone do.
 */
#include "bench/disk.h"

#ifdef BENCH_SQLITE
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct access {
        sqlite3 *database;
        sqlite3_stmt *set;
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
                        &access->set, NULL))
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

const struct disk_peer *const disk_sqlite = &(const struct disk_peer){
        sqlite_begin, sqlite_open_access, sqlite_set, sqlite_close_access, free};
#else
const struct disk_peer *const disk_sqlite = NULL;
#endif
