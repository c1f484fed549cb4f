/*
 * Contenders on the disk, for bench-log and bench-ycsb: stores that other projects make, each as
 * its users make writes durable in it.
 *
 * Always true: a set that has returned from a store opened with @waits is durable as that store
 * promises it; one that was queued by @pipeline is counted when the store has answered it.
 */
#ifndef SB_BENCH_DISK_H
#define SB_BENCH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_way {
        bool waits;        /* for the disk, with each write */
        uint32_t pipeline; /* so many sets go out together; 1: each waits for its answer */
        bool small;        /* it will hold a few thousand keys: no gigabytes of memory for them */
};

struct disk_peer {
        /* Make the store in a folder, or start its server. Return: NULL: it cannot be had. */
        void *(*begin)(const char *directory, const struct disk_way *way);
        /* A process's own access to it. */
        void *(*open)(void *store, const struct disk_way *way);
        /* Return: how many sets were answered, this one or queued ones included; -1: it failed. */
        int64_t (*set)(
                void *access, const char *key, size_t key_len, const void *value, size_t value_len);
        void (*close)(void *access);
        void (*end)(void *store);
        /* Read all of a key's value. Return: its length; -1: it is not there, or that failed. */
        int64_t (*get)(void *access, const char *key, size_t key_len);
        /* Read the values of up to @count keys, from @key on in byte order. Return: how many;
         * -1: it failed. NULL: the store has no order. */
        int64_t (*scan)(void *access, const char *key, size_t key_len, uint32_t count);
        /* One process at a time has it open; its threads share the access. */
        bool one_process;
};

/* NULL: not built in, for its library was not there. */
extern const struct disk_peer *const disk_lmdb,
        *const disk_redis, *const disk_rocksdb, *const disk_statebus, *const disk_sqlite;

#endif
