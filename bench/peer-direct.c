/*
 * The contender "direct": statebus without its library and its daemon. It calls ring/op on a
 * segment that the benchmark made. It is not one of the reported contenders: the difference to
 * "statebus" is what the public interface costs, and a profile of this one shows the protocol
 * alone.
 *
 * Always true: the parent does the engine's part: it raises the stable cut every tick.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "ring/op/get.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/stable.h"

struct store {
        unsigned char *base;
        uint64_t size;
        struct sb_segment segment;
        struct sb_handle *engine;
        uint32_t slots[BENCH_WORKERS_MAX], generations[BENCH_WORKERS_MAX];
};

static int claim(
        struct sb_segment *segment, uint32_t first, uint32_t *ret_slot, uint32_t *ret_generation)
{
        struct sb_roster_identity identity = {
                .pid = 1, .access = SB_PEER, .pid_start = 1, .attached_ns = 1};

        return sb_roster_claim(segment, first, &identity, ret_slot, ret_generation);
}

static int fill(struct store *store, const struct bench_shape *shape)
{
        unsigned char value[1024];
        struct bench_key key;
        int r = 0;

        for (uint32_t i = 0; i < shape->key_count && !r; i++) {
                struct sb_op_write write = {.key = key.bytes,
                        .value = value,
                        .value_len = shape->value_len,
                        .expected_rev = SB_OP_ANY_REV};
                struct sb_op_result result;

                bench_key_write(i, &key);
                write.key_len = (uint32_t)key.len;
                memset(value, (int)i & 0xff, shape->value_len);
                r = sb_op_write(store->engine, &write, &result);
                if (i % 100000 == 0)
                        sb_stable_raise(store->engine);
        }
        return r;
}

/* A handle, with its space behind it; NULL: no memory. */
static struct sb_handle *direct_handle(
        const struct sb_segment *segment, uint32_t slot, uint32_t generation)
{
        struct sb_handle *handle = calloc(1, sizeof(*handle) + sb_handle_space(&segment->geometry));

        if (handle)
                sb_handle_init(handle, segment, slot, generation, handle + 1);
        return handle;
}

static int direct_create(const struct bench_shape *shape, void **ret_store)
{
        struct sb_geometry_wish wish = {
                .size = bench_segment_size(shape->key_count, shape->value_len),
                .clients = BENCH_WORKERS_MAX};
        uint64_t id[2] = {1, 2};
        struct store *store = calloc(1, sizeof(*store));
        struct sb_geometry geometry;
        uint32_t slot, generation;
        int r;

        if (!store)
                return -ENOMEM;
        *ret_store = store; /* also on failure: direct_destroy() frees what there is */
        store->size = wish.size;
        store->base = bench_memory_map(store->size, shape->pages);
        if (!store->base)
                return -ENOMEM;
        r = sb_geometry_fit(&wish, &geometry);
        if (r)
                return r;
        sb_os_register();
        sb_segment_format(store->base, &geometry, BENCH_SEED, id, bench_now_ns());
        r = sb_segment_open(store->base, store->size, &sb_os_linux, &store->segment);
        if (!r)
                r = claim(&store->segment, 0, &slot, &generation);
        if (r)
                return r;
        store->engine = direct_handle(&store->segment, slot, generation);
        if (!store->engine)
                return -ENOMEM;
        for (uint32_t i = 0; i < BENCH_WORKERS_MAX && i < sysconf(_SC_NPROCESSORS_ONLN) && !r; i++)
                r = claim(&store->segment, 1, &store->slots[i], &store->generations[i]);
        if (!r)
                r = fill(store, shape);
        return r;
}

static void direct_tick(void *opaque)
{
        struct store *store = opaque;

        sb_stable_raise(store->engine);
}

static void direct_destroy(void *opaque)
{
        struct store *store = opaque;

        if (store->base)
                bench_memory_unmap(store->base, store->size);
        free(store->engine);
        free(store);
}

static int direct_attach(void *opaque, uint32_t index, void **ret_handle)
{
        struct store *store = opaque;
        struct sb_handle *attached;

        sb_os_register();
        bench_memory_touch(store->base, store->size);
        attached = direct_handle(&store->segment, store->slots[index], store->generations[index]);
        if (!attached)
                return -ENOMEM;
        *ret_handle = attached;
        return sb_guard_grow(attached, BENCH_MANY - 1);
}

static void direct_detach(void *handle)
{
        struct sb_handle *attached = handle;

        sb_handle_fini(attached);
        free(attached);
}

static uint32_t get_one(
        struct sb_handle *attached, const struct bench_key *key, uint32_t value_len, uint64_t *sum)
{
        struct sb_version *version;

        if (sb_op_get(attached, key->bytes, (uint32_t)key->len, 0, &version))
                return 0;
        *sum += bench_consume(version->bytes + key->len, value_len);
        sb_guard_set(attached, 0, 0);
        return 1;
}

static uint32_t get_many(struct sb_handle *attached, const struct bench_batch *batch, uint64_t *sum)
{
        struct sb_op_key keys[BENCH_MANY];
        struct sb_version *versions[BENCH_MANY];
        uint64_t shapes[BENCH_MANY];
        uint32_t guards[BENCH_MANY], done = 0;

        for (uint32_t i = 0; i < BENCH_MANY; i++)
                guards[i] = i;
        for (uint32_t from = 0; from < batch->count; from += BENCH_MANY) {
                for (uint32_t i = 0; i < BENCH_MANY; i++)
                        keys[i] = (struct sb_op_key){
                                batch->keys[from + i].bytes, batch->keys[from + i].len};
                sb_op_get_many(attached, keys, BENCH_MANY, guards, versions, shapes);
                for (uint32_t i = 0; i < BENCH_MANY; i++) {
                        if (!versions[i])
                                continue;
                        *sum += bench_consume(versions[i]->bytes + keys[i].len, batch->value_len);
                        sb_guard_set(attached, i, 0);
                        done++;
                }
        }
        return done;
}

static uint32_t write_one(struct sb_handle *attached, const struct bench_batch *batch, uint32_t i,
        uint64_t *expected_rev)
{
        struct sb_op_write write = {.key = batch->keys[i].bytes,
                .key_len = (uint32_t)batch->keys[i].len,
                .value = batch->value,
                .value_len = batch->value_len,
                .expected_rev = *expected_rev};
        struct sb_op_result result;
        int r = sb_op_write(attached, &write, &result);

        if (r == 0 || r == SB_E_CONFLICT)
                *expected_rev = result.rev;
        return r == 0;
}

static uint32_t direct_run(void *handle, const struct bench_batch *batch)
{
        struct sb_handle *attached = handle;
        uint64_t sum = 0, rev = 0;
        uint32_t done = 0;

        switch (batch->op) {
        case BENCH_GET:
                for (uint32_t i = 0; i < batch->count; i++)
                        done += get_one(attached, &batch->keys[i], batch->value_len, &sum);
                break;
        case BENCH_GET_MANY:
                done = get_many(attached, batch, &sum);
                break;
        case BENCH_MIX:
                for (uint32_t i = 0; i < batch->count; i++) {
                        rev = SB_OP_ANY_REV;
                        done += batch->is_write[i] ? write_one(attached, batch, i, &rev)
                                                   : get_one(attached, &batch->keys[i],
                                                             batch->value_len, &sum);
                }
                break;
        case BENCH_CAS:
                for (uint32_t i = 0; i < batch->count; i++)
                        done += write_one(attached, batch, 0, &rev);
                break;
        default:
                break;
        }
        bench_use(sum);
        return done;
}

const struct bench_peer bench_direct = {
        .name = "direct",
        .ops = (1u << BENCH_TRANSFER) - 1, /* all operations before it in the enum */
        .create = direct_create,
        .attach = direct_attach,
        .run = direct_run,
        .detach = direct_detach,
        .destroy = direct_destroy,
        .tick = direct_tick,
};
