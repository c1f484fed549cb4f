/*
 * The contender "statebus": statebus as programs use it, with a daemon of its own and the library.
 *
 * Always true: this file includes nothing of statebus but statebus.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "libclient/statebus.h"

struct handle {
        struct sb_bus *bus;
        struct sb_scan *scan; /* a scan that is under way, or NULL */
};

struct store {
        char directory[64];
        pid_t daemon;
};

/* Start the daemon, and return when it says that it is ready. */
static int daemon_start(struct store *store, const struct bench_shape *shape)
{
        char size[32], line[256];
        int ends[2], r = -ECONNREFUSED;
        FILE *messages;

        snprintf(size, sizeof(size), "%lluM",
                (unsigned long long)(bench_segment_size(shape->key_count, shape->value_len) >> 20));
        if (pipe(ends) < 0)
                return -errno;
        store->daemon = fork();
        if (store->daemon < 0)
                return -errno;
        if (store->daemon == 0) {
                prctl(PR_SET_PDEATHSIG, SIGTERM);
                dup2(ends[1], STDERR_FILENO);
                close(ends[0]);
                close(ends[1]);
                execl(shape->agentd, shape->agentd, "-b", store->directory, "--size", size,
                        "--hugepages", shape->pages == BENCH_PAGES_HUGE ? "require" : "off",
                        "--durability", "volatile", "--clients", "72", (char *)NULL);
                fprintf(stderr, "bench-keys: cannot run %s\n", shape->agentd);
                _exit(127);
        }
        close(ends[1]);
        messages = fdopen(ends[0], "r");
        while (r && messages && fgets(line, sizeof(line), messages)) {
                if (strstr(line, "ready"))
                        r = 0;
                else
                        fputs(line, stderr);
        }
        /* The pipe stays open, because a daemon that logs must not get SIGPIPE. */
        return r;
}

static int store_open(const struct store *store, struct sb_bus **ret_bus)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = store->directory, .access = SB_PEER};

        return sb_open(&options, ret_bus);
}

static struct sb_bytes key_bytes(const struct bench_key *key)
{
        return (struct sb_bytes){key->bytes, key->len};
}

static int statebus_create(const struct bench_shape *shape, void **ret_store)
{
        struct store *store = calloc(1, sizeof(*store));
        unsigned char value[1024];
        struct bench_key key;
        struct sb_bus *bus;
        int r;

        if (!store)
                return -ENOMEM;
        *ret_store = store;
        strcpy(store->directory, "/tmp/statebus-bench-XXXXXX");
        if (!mkdtemp(store->directory))
                return -errno;
        r = daemon_start(store, shape);
        if (!r)
                r = store_open(store, &bus);
        if (r)
                return r;
        for (uint32_t i = 0; i < shape->key_count && !r; i++) {
                bench_key_write(i, &key);
                memset(value, (int)i & 0xff, shape->value_len);
                r = sb_set(bus, key_bytes(&key), (struct sb_bytes){value, shape->value_len}, NULL,
                        NULL);
        }
        sb_close(bus);
        return r;
}

static void statebus_destroy(void *opaque)
{
        struct store *store = opaque;
        char command[128];

        if (store->daemon > 0) {
                kill(store->daemon, SIGTERM);
                waitpid(store->daemon, NULL, 0);
        }
        snprintf(command, sizeof(command), "rm -rf '%s'", store->directory);
        if (system(command) != 0)
                fprintf(stderr, "bench-keys: %s is left behind\n", store->directory);
        free(store);
}

static int statebus_attach(void *opaque, uint32_t index, void **ret_handle)
{
        struct handle *handle = calloc(1, sizeof(*handle));
        int r = handle ? store_open(opaque, &handle->bus) : -ENOMEM;

        (void)index;
        if (!r)
                *ret_handle = handle;
        else
                free(handle);
        return r;
}

struct sb_bus *bench_statebus_bus(void *handle)
{
        return ((struct handle *)handle)->bus;
}

static void statebus_detach(void *opaque)
{
        struct handle *handle = opaque;

        sb_scan_close(handle->scan);
        sb_close(handle->bus);
        free(handle);
}

/* @guard holds nothing, before and after. */
static inline uint32_t get_one(
        struct sb_bus *bus, const struct bench_key *key, struct sb_guard *guard, uint64_t *sum)
{
        if (sb_get(bus, key_bytes(key), guard))
                return 0;
        *sum += bench_consume(guard->value.data, (uint32_t)guard->value.len);
        sb_guard_release(guard);
        return 1;
}

static uint32_t get_many(struct sb_bus *bus, const struct bench_batch *batch, uint64_t *sum)
{
        struct sb_guard guards[BENCH_MANY] = {0};
        struct sb_bytes keys[BENCH_MANY];
        uint32_t done = 0;

        for (uint32_t from = 0; from < batch->count; from += BENCH_MANY) {
                for (uint32_t i = 0; i < BENCH_MANY; i++)
                        keys[i] = key_bytes(&batch->keys[from + i]);
                if (sb_get_many(bus, keys, BENCH_MANY, guards))
                        return done;
                for (uint32_t i = 0; i < BENCH_MANY; i++) {
                        if (!guards[i].bus)
                                continue;
                        *sum += bench_consume(guards[i].value.data, (uint32_t)guards[i].value.len);
                        sb_guard_release(&guards[i]);
                        done++;
                }
        }
        return done;
}

static uint32_t set_one(struct sb_bus *bus, const struct bench_batch *batch, uint32_t i)
{
        return sb_set(bus, key_bytes(&batch->keys[i]),
                       (struct sb_bytes){batch->value, batch->value_len}, NULL, NULL) == 0;
}

struct transfer {
        const struct bench_key *keys;
        uint32_t attempts;
};

/* Move 1 from the first word of one value to that of the other. */
static int transfer_once(void *argument, struct sb_txn *txn)
{
        struct transfer *transfer = argument;
        unsigned char bytes[1024];

        transfer->attempts++;
        for (uint32_t k = 0; k < 2; k++) {
                struct sb_guard guard = {0};
                struct sb_bytes value;
                uint64_t balance;
                int r = sb_txn_get(txn, key_bytes(&transfer->keys[k]), &guard);

                if (r)
                        return r;
                value = (struct sb_bytes){bytes, guard.value.len};
                memcpy(bytes, guard.value.data, guard.value.len);
                sb_guard_release(&guard);
                memcpy(&balance, bytes, sizeof(balance));
                balance += k ? 1 : UINT64_MAX;
                memcpy(bytes, &balance, sizeof(balance));
                r = sb_txn_set(txn, key_bytes(&transfer->keys[k]), value);
                if (r)
                        return r;
        }
        return 0;
}

static uint32_t transfer_all(struct sb_bus *bus, const struct bench_batch *batch)
{
        uint32_t done = 0;

        while (done < batch->count) {
                struct transfer transfer = {.keys = &batch->keys[2 * done]};
                int r = sb_transact(bus, SB_SNAPSHOT, transfer_once, &transfer, NULL);

                if (r && r != SB_E_CONFLICT)
                        break;
                done += !r;
                *batch->conflicts += transfer.attempts - !r;
        }
        return done;
}

static uint32_t scan_on(struct handle *handle, uint32_t count, uint64_t *sum)
{
        struct sb_guard guard = {0};

        for (uint32_t done = 0; done < count; done++) {
                int r = handle->scan ? 0
                                     : sb_scan_open(handle->bus, NULL,
                                               (struct sb_bytes){"state:", 6}, &handle->scan);

                if (!r)
                        r = sb_scan_next(handle->scan, &guard);
                if (r == SB_E_NOT_FOUND) { /* the end: start again, at a newer cut */
                        handle->scan = sb_scan_close(handle->scan);
                        done--;
                        continue;
                }
                if (r)
                        return done;
                *sum += bench_consume(guard.value.data, (uint32_t)guard.value.len);
                sb_guard_release(&guard);
        }
        return count;
}

static uint32_t pages(struct sb_bus *bus, const struct bench_batch *batch, uint64_t *sum)
{
        struct sb_guard guards[BENCH_PAGE_KEYS];
        struct sb_scan *scan;
        uint32_t done = 0;
        size_t count = 0;

        if (sb_scan_open(bus, NULL, (struct sb_bytes){"state:", 6}, &scan))
                return 0;
        for (; done < batch->count; done++) {
                struct sb_bytes key = key_bytes(&batch->keys[done]);
                int r;

                key.len -= batch->op == BENCH_AFTER;
                r = sb_scan_seek(scan, key);
                if (!r)
                        r = sb_scan_next_many(scan, guards, BENCH_PAGE_KEYS, &count);
                if (r && r != SB_E_NOT_FOUND)
                        break;
                for (size_t i = 0; !r && i < count; i++) {
                        *sum += bench_consume(guards[i].value.data, (uint32_t)guards[i].value.len);
                        sb_guard_release(&guards[i]);
                }
        }
        sb_scan_close(scan);
        return done;
}

/* The loops that are timed most are functions of their own. In one function with all the other
 * loops the compiler keeps variables of those in memory around each call, and one get less overlaps
 * with a get. */
static __attribute__((noinline)) uint32_t get_all(
        struct sb_bus *bus, const struct bench_batch *batch, uint64_t *sum)
{
        struct sb_guard guard = {0};
        uint64_t own_sum = 0;
        uint32_t done = 0;

        for (uint32_t i = 0; i < batch->count; i++)
                done += get_one(bus, &batch->keys[i], &guard, &own_sum);
        *sum += own_sum;
        return done;
}

static __attribute__((noinline)) uint32_t mix_all(
        struct sb_bus *bus, const struct bench_batch *batch, uint64_t *sum)
{
        struct sb_guard guard = {0};
        uint64_t own_sum = 0;
        uint32_t done = 0;

        for (uint32_t i = 0; i < batch->count; i++)
                done += batch->is_write[i] ? set_one(bus, batch, i)
                                           : get_one(bus, &batch->keys[i], &guard, &own_sum);
        *sum += own_sum;
        return done;
}

static uint32_t statebus_run(void *opaque, const struct bench_batch *batch)
{
        struct handle *handle = opaque;
        struct sb_bus *bus = handle->bus;
        struct sb_bytes value = {batch->value, batch->value_len};
        uint64_t sum = 0, rev = 0;
        uint32_t done = 0;

        if (batch->op != BENCH_SCAN && handle->scan)
                handle->scan = sb_scan_close(handle->scan);
        switch (batch->op) {
        case BENCH_GET:
                done = get_all(bus, batch, &sum);
                break;
        case BENCH_GET_MANY:
                done = get_many(bus, batch, &sum);
                break;
        case BENCH_MIX:
                done = mix_all(bus, batch, &sum);
                break;
        case BENCH_CAS:
                for (uint32_t i = 0; i < batch->count; i++)
                        done += sb_cas(bus, key_bytes(&batch->keys[0]), rev, value, NULL, &rev) ==
                                0;
                break;
        case BENCH_TRANSFER:
                done = transfer_all(bus, batch);
                break;
        case BENCH_SCAN:
                done = scan_on(handle, batch->count, &sum);
                break;
        case BENCH_PAGE:
        case BENCH_AFTER:
                done = pages(bus, batch, &sum);
                break;
        default:
                break;
        }
        bench_use(sum);
        return done;
}

const struct bench_peer bench_statebus = {
        .name = "statebus",
        .ops = (1u << BENCH_OP_COUNT) - 1,
        .create = statebus_create,
        .attach = statebus_attach,
        .run = statebus_run,
        .detach = statebus_detach,
        .destroy = statebus_destroy,
};
