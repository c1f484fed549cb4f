/*
 * The contender "lmdb": LMDB, where it is installed. Each operation is one transaction, as in
 * programs that share state by LMDB.
 *
 * Always true: the file lies in shared memory and is never synchronised, so no disk is measured.
 */
#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"

struct store {
        char path[64];
        uint64_t size;
};

struct handle {
        MDB_env *env;
        MDB_txn *reader;    /* reset between reads, so that it keeps no pages from being reused */
        MDB_cursor *cursor; /* of a scan, which keeps the reader open; or NULL */
        MDB_dbi table;
};

/* LMDB's own results are negative, too, and below those of errno. */
static int result_of(int r)
{
        return r > 0 ? -r : r ? -EIO : 0;
}

static int env_open(const struct store *store, MDB_env **ret_env)
{
        int r = mdb_env_create(ret_env);

        if (!r)
                r = mdb_env_set_mapsize(*ret_env, store->size);
        if (!r)
                r = mdb_env_set_maxreaders(*ret_env, 2 * BENCH_WORKERS_MAX);
        if (!r)
                r = mdb_env_open(*ret_env, store->path,
                        MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NORDAHEAD | MDB_NOMEMINIT,
                        0600);
        return r;
}

static MDB_val key_of(const struct bench_key *key)
{
        return (MDB_val){.mv_size = key->len, .mv_data = (void *)(uintptr_t)key->bytes};
}

static int fill(MDB_env *env, const struct bench_shape *shape)
{
        unsigned char bytes[1024];
        MDB_val value = {.mv_size = shape->value_len, .mv_data = bytes};
        struct bench_key key;
        MDB_txn *txn;
        MDB_dbi table;
        int r = mdb_txn_begin(env, NULL, 0, &txn);

        if (r)
                return r;
        r = mdb_dbi_open(txn, NULL, 0, &table);
        for (uint32_t i = 0; i < shape->key_count && !r; i++) {
                MDB_val name;

                bench_key_write(i, &key);
                name = key_of(&key);
                memset(bytes, (int)i & 0xff, shape->value_len);
                r = mdb_put(txn, table, &name, &value, 0);
        }
        if (!r)
                return mdb_txn_commit(txn);
        mdb_txn_abort(txn);
        return r;
}

static int lmdb_create(const struct bench_shape *shape, void **ret_store)
{
        struct store *store = calloc(1, sizeof(*store));
        MDB_env *env = NULL;
        int r;

        if (!store)
                return -ENOMEM;
        *ret_store = store;
        snprintf(store->path, sizeof(store->path), "/dev/shm/statebus-bench-%ld", (long)getpid());
        store->size = 2 * bench_segment_size(shape->key_count, shape->value_len);
        r = env_open(store, &env);
        if (!r)
                r = fill(env, shape);
        /* Workers open the environment for themselves: it does not survive a fork(). */
        if (env)
                mdb_env_close(env);
        return result_of(r);
}

static void lmdb_destroy(void *opaque)
{
        struct store *store = opaque;
        char lock[80];

        snprintf(lock, sizeof(lock), "%s-lock", store->path);
        unlink(store->path);
        unlink(lock);
        free(store);
}

static void lmdb_detach(void *opaque)
{
        struct handle *handle = opaque;

        if (handle->cursor)
                mdb_cursor_close(handle->cursor);
        if (handle->reader)
                mdb_txn_abort(handle->reader);
        if (handle->env)
                mdb_env_close(handle->env);
        free(handle);
}

static int lmdb_attach(void *opaque, uint32_t index, void **ret_handle)
{
        struct handle *handle = calloc(1, sizeof(*handle));
        int r;

        (void)index;
        if (!handle)
                return -ENOMEM;
        r = env_open(opaque, &handle->env);
        if (!r)
                r = mdb_txn_begin(handle->env, NULL, MDB_RDONLY, &handle->reader);
        if (!r)
                r = mdb_dbi_open(handle->reader, NULL, 0, &handle->table);
        if (r) {
                lmdb_detach(handle);
                return result_of(r);
        }
        /* The handle of the table stays open after the commit. */
        r = mdb_txn_commit(handle->reader);
        if (!r)
                r = mdb_txn_begin(handle->env, NULL, MDB_RDONLY, &handle->reader);
        mdb_txn_reset(handle->reader);
        *ret_handle = handle;
        return result_of(r);
}

static uint32_t get_one(
        struct handle *handle, const struct bench_key *key, uint32_t value_len, uint64_t *sum)
{
        MDB_val name = key_of(key), value;
        uint32_t done = 0;

        if (mdb_txn_renew(handle->reader))
                return 0;
        if (!mdb_get(handle->reader, handle->table, &name, &value)) {
                *sum += bench_consume(value.mv_data, value_len);
                done = 1;
        }
        mdb_txn_reset(handle->reader);
        return done;
}

static uint32_t set_one(struct handle *handle, const struct bench_batch *batch, uint32_t i)
{
        MDB_val name = key_of(&batch->keys[i]);
        MDB_val value = {.mv_size = batch->value_len, .mv_data = (void *)(uintptr_t)batch->value};
        MDB_txn *txn;

        if (mdb_txn_begin(handle->env, NULL, 0, &txn))
                return 0;
        if (mdb_put(txn, handle->table, &name, &value, 0)) {
                mdb_txn_abort(txn);
                return 0;
        }
        return mdb_txn_commit(txn) == 0;
}

/* Move 1 from the first word of one value to that of the other. */
static uint32_t transfer_one(struct handle *handle, const struct bench_batch *batch, uint32_t i)
{
        MDB_txn *txn;

        if (mdb_txn_begin(handle->env, NULL, 0, &txn))
                return 0;
        for (uint32_t k = 0; k < 2; k++) {
                MDB_val name = key_of(&batch->keys[2 * i + k]), value;
                unsigned char bytes[1024];
                uint64_t balance;

                if (mdb_get(txn, handle->table, &name, &value) || value.mv_size > sizeof(bytes))
                        break;
                memcpy(bytes, value.mv_data, value.mv_size);
                memcpy(&balance, bytes, sizeof(balance));
                balance += k ? 1 : UINT64_MAX;
                memcpy(bytes, &balance, sizeof(balance));
                value.mv_data = bytes;
                if (mdb_put(txn, handle->table, &name, &value, 0))
                        break;
                if (k)
                        return mdb_txn_commit(txn) == 0;
        }
        mdb_txn_abort(txn);
        return 0;
}

static void scan_end(struct handle *handle)
{
        if (handle->cursor) {
                mdb_cursor_close(handle->cursor);
                mdb_txn_reset(handle->reader);
        }
        handle->cursor = NULL;
}

static uint32_t scan_on(struct handle *handle, uint32_t count, uint32_t value_len, uint64_t *sum)
{
        MDB_val name, value;

        for (uint32_t done = 0; done < count; done++) {
                MDB_cursor_op step = handle->cursor ? MDB_NEXT : MDB_FIRST;
                int r = 0;

                if (!handle->cursor &&
                        (mdb_txn_renew(handle->reader) ||
                                mdb_cursor_open(handle->reader, handle->table, &handle->cursor)))
                        return done;
                r = mdb_cursor_get(handle->cursor, &name, &value, step);
                if (r == MDB_NOTFOUND) { /* the end: start again, at a newer cut */
                        scan_end(handle);
                        done--;
                        continue;
                }
                if (r)
                        return done;
                *sum += bench_consume(value.mv_data, value_len);
        }
        return count;
}

static uint32_t pages(struct handle *handle, const struct bench_batch *batch, uint64_t *sum)
{
        MDB_cursor *cursor;
        uint32_t done = 0;

        if (mdb_txn_renew(handle->reader) ||
                mdb_cursor_open(handle->reader, handle->table, &cursor))
                return 0;
        for (; done < batch->count; done++) {
                MDB_val value, key = {batch->keys[done].len - (batch->op == BENCH_AFTER),
                                       (void *)batch->keys[done].bytes};
                int r = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);

                for (uint32_t i = 1; r == 0; i++) {
                        *sum += bench_consume(value.mv_data, batch->value_len);
                        if (i == BENCH_PAGE_KEYS)
                                break;
                        r = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
                }
                if (r && r != MDB_NOTFOUND)
                        break;
        }
        mdb_cursor_close(cursor);
        mdb_txn_reset(handle->reader);
        return done;
}

static uint32_t lmdb_run(void *opaque, const struct bench_batch *batch)
{
        struct handle *handle = opaque;
        uint64_t sum = 0;
        uint32_t done = 0;

        if (batch->op == BENCH_SCAN) {
                done = scan_on(handle, batch->count, batch->value_len, &sum);
                bench_use(sum);
                return done;
        }
        scan_end(handle);
        if (batch->op == BENCH_PAGE || batch->op == BENCH_AFTER) {
                done = pages(handle, batch, &sum);
                bench_use(sum);
                return done;
        }
        for (uint32_t i = 0; i < batch->count; i++)
                if (batch->op == BENCH_TRANSFER)
                        done += transfer_one(handle, batch, i);
                else
                        done += batch->op == BENCH_MIX && batch->is_write[i]
                                        ? set_one(handle, batch, i)
                                        : get_one(handle, &batch->keys[i], batch->value_len, &sum);
        bench_use(sum);
        return done;
}

const struct bench_peer bench_lmdb = {
        .name = "lmdb",
        .ops = 1u << BENCH_GET | 1u << BENCH_MIX | 1u << BENCH_TRANSFER | 1u << BENCH_SCAN |
               1u << BENCH_PAGE | 1u << BENCH_AFTER,
        .create = lmdb_create,
        .attach = lmdb_attach,
        .run = lmdb_run,
        .detach = lmdb_detach,
        .destroy = lmdb_destroy,
};
