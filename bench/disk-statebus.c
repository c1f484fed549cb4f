/*
 * statebus itself, as its users have it: an agentd of the benchmark's own, with a log in the folder
 * that is written every 100 ms; or, where it waits, with each write.
 *
 * Always true: only this one agentd is ever signalled.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/disk.h"
#include "libclient/core/admin.h"
#include "libclient/statebus.h"

#define HELD_MAX 32u /* values of a scan that are held at a time */

struct access {
        struct sb_bus *bus;
        struct sb_write how;
        struct sb_guard guard;
};

static void *statebus_begin(const char *directory, const struct disk_way *way)
{
        const char *options[] = {"--size", way->small ? "64M" : "3G", "--clients", "64", NULL};
        char *bus = malloc(400);

        if (!bus)
                return NULL;
        snprintf(bus, 400, "%s/statebus", directory);
        if (!sb_admin_start(bus, options, NULL))
                return bus;
        free(bus);
        return NULL;
}

static void *statebus_open(void *store, const struct disk_way *way)
{
        struct sb_options options = {.size = sizeof(options), .bus = store, .access = SB_PEER};
        struct access *access = calloc(1, sizeof(*access));

        if (!access)
                return NULL;
        access->how = (struct sb_write){
                .size = sizeof(access->how), .durability = way->waits ? SB_STRICT : SB_DEFAULT};
        if (!sb_open(&options, &access->bus))
                return access;
        free(access);
        return NULL;
}

static int64_t statebus_set(
        void *opened, const char *key, size_t key_len, const void *value, size_t value_len)
{
        struct access *access = opened;
        int r = sb_set(access->bus, (struct sb_bytes){key, key_len},
                (struct sb_bytes){value, value_len}, &access->how, NULL);

        return r ? -1 : 1;
}

static int64_t statebus_get(void *opened, const char *key, size_t key_len)
{
        struct access *access = opened;
        int64_t len;

        if (sb_get(access->bus, (struct sb_bytes){key, key_len}, &access->guard))
                return -1;
        len = (int64_t)access->guard.value.len;
        bench_use(bench_consume(access->guard.value.data, (uint32_t)len));
        sb_guard_release(&access->guard);
        return len;
}

static int64_t statebus_scan(void *opened, const char *key, size_t key_len, uint32_t count)
{
        struct access *access = opened;
        struct sb_guard held[HELD_MAX];
        struct sb_scan *scan;
        int64_t done = 0;
        size_t got = 1;

        if (sb_scan_open(access->bus, NULL, (struct sb_bytes){NULL, 0}, &scan))
                return -1;
        if (sb_scan_seek(scan, (struct sb_bytes){key, key_len}))
                got = 0;
        while (got && done < count) {
                size_t most = count - (uint32_t)done < HELD_MAX ? count - (uint32_t)done : HELD_MAX;

                if (sb_scan_next_many(scan, held, most, &got))
                        break;
                for (size_t i = 0; i < got; i++) {
                        bench_use(bench_consume(held[i].value.data, (uint32_t)held[i].value.len));
                        sb_guard_release(&held[i]);
                }
                done += (int64_t)got;
        }
        sb_scan_close(scan);
        return done;
}

static void statebus_close(void *opened)
{
        struct access *access = opened;

        sb_close(access->bus);
        free(access);
}

static void statebus_end(void *store)
{
        pid_t pid;

        if (!sb_admin_supervisor(store, &pid))
                kill(pid, SIGTERM);
        while (!sb_admin_supervisor(store, &pid))
                usleep(1000);
        free(store);
}

const struct disk_peer *const disk_statebus =
        &(const struct disk_peer){statebus_begin, statebus_open, statebus_set, statebus_close,
                statebus_end, statebus_get, statebus_scan, false};
