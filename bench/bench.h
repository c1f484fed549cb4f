/*
 * The frame of the benchmarks: what a contender is, what a case is, and how both meet.
 *
 * A contender (peer-<name>.c) makes a store of @key_count keys in shared memory, and worker
 * processes attach to it. A worker gets its work in batches of keys that were written out before
 * the clock starts; so what is timed is the access alone: no random numbers, no formatting, no call
 * for each operation. Each contender has its own loops; the frame calls it once for each batch.
 *
 * Always true: all contenders of a run use the same keys, the same hash, the same order of accesses
 * and the same kind of pages. Workers read every cache line of the values that they find.
 */
#ifndef SB_BENCH_H
#define SB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BENCH_KEY_LEN     16u /* bytes of a key; of mixed ones at least */
#define BENCH_KEY_MAX     32u
#define BENCH_BATCH       256u /* keys; a multiple of BENCH_MANY */
#define BENCH_MANY        16u  /* keys of one get_many */
#define BENCH_KEYS_MAX    (1u << 24)
#define BENCH_PAGE_KEYS   10u
#define BENCH_ORDER_LEN   (1u << 21) /* accesses before the order repeats; a power of two */
#define BENCH_WORKERS_MAX 64u
#define BENCH_TICK_NS     UINT64_C(10000000)
#define BENCH_SEED        UINT64_C(0x5eed0f57a7eb0500)

enum bench_op {
        BENCH_GET,
        BENCH_GET_MANY,
        BENCH_MIX,
        BENCH_CAS,
        BENCH_TRANSFER, /* one transaction each: move 1 from one key's first word to another's */
        BENCH_SCAN,  /* the next keys in order, in one snapshot; again from the first at the end */
        BENCH_PAGE,  /* BENCH_PAGE_KEYS keys from each key on, those of a batch in one snapshot */
        BENCH_AFTER, /* the same from a key on that is not there: @keys[i] without its last byte */
        BENCH_OP_COUNT
};
enum bench_spread { BENCH_UNIFORM, BENCH_ZIPF, BENCH_SPREAD_COUNT };
enum bench_pages { BENCH_PAGES_PLAIN, BENCH_PAGES_HUGE };

struct bench_key {
        unsigned char bytes[BENCH_KEY_MAX];
        uint64_t len;
};
/* Whether keys have BENCH_KEY_LEN to BENCH_KEY_MAX bytes; set before the stores are made. */
extern bool bench_keys_mixed;
/* Bytes for a key in a store of records of one size. */
static inline uint64_t bench_key_space(void)
{
        return bench_keys_mixed ? BENCH_KEY_MAX : BENCH_KEY_LEN;
}

struct bench_batch {
        enum bench_op op;
        uint32_t count;
        uint32_t value_len;
        /* what the writes write; its first word changes with every batch */
        const unsigned char *value;
        const unsigned char *is_write; /* BENCH_MIX: one byte for each key */
        /* BENCH_CAS: keys[0] alone, @count times; BENCH_TRANSFER: keys[2i] to keys[2i + 1] */
        const struct bench_key *keys;
        uint64_t *conflicts; /* BENCH_TRANSFER: failed attempts are added */
};

struct bench_shape {
        uint32_t key_count;
        uint32_t value_len;
        enum bench_pages pages;
        const char *agentd; /* path of the daemon */
};

struct bench_peer {
        const char *name;
        uint32_t ops; /* bit 1 << enum bench_op: the operations that it supports */
        /* Workers send their requests to a process of this contender's own. They map nothing. When
         * a worker loses its core, then mostly to that process, so the time is the contender's. */
        bool is_server;
        /* Parent, before it forks the workers: make the memory and fill it with every key. Return:
         * 0, -errno. */
        int (*create)(const struct bench_shape *shape, void **ret_store);
        /* Worker @index, 0 .. BENCH_WORKERS_MAX-1. Return: 0, -errno. */
        int (*attach)(void *store, uint32_t index, void **ret_handle);
        /* Worker: do all of @batch. Return: how many operations did what they should; for
         * BENCH_CAS, how many succeeded. */
        uint32_t (*run)(void *handle, const struct bench_batch *batch);
        void (*detach)(void *handle);
        void (*destroy)(void *store);
        /* Parent: NULL, or what is to be done every BENCH_TICK_NS while workers run. */
        void (*tick)(void *store);
};

extern const struct bench_peer bench_ideal, bench_table, bench_statebus, bench_direct, bench_lmdb,
        bench_redis, bench_faster;

/* bench.c: memory and work */

/* The bus behind a handle of bench_statebus. */
struct sb_bus *bench_statebus_bus(void *handle);

/* The size of a bus with so many keys, each of which may be rewritten at any rate. A worker that
 * loses its core while it pins an era holds up the freeing of replaced versions for as long, while
 * other workers replace more. */
static inline uint64_t bench_segment_size(uint32_t key_count, uint32_t value_len)
{
        /* A mixed key's bytes, in its node and in two versions. */
        uint64_t longer = bench_keys_mixed ? 3 * (BENCH_KEY_MAX - BENCH_KEY_LEN) : 0;

        return (key_count * (UINT64_C(272) + longer + 2 * (value_len + value_len / 4)) +
                       (UINT64_C(64) << 20)) &
               ~((UINT64_C(2) << 20) - 1);
}

/* Map memory that is shared with workers forked later. Return: its address, or NULL. */
void *bench_memory_map(uint64_t size, enum bench_pages pages);
void bench_memory_unmap(void *address, uint64_t size);
/* Touch every page, so that no worker faults while it is timed. */
void bench_memory_touch(void *address, uint64_t size);
/* Reserve @bytes in free huge pages. Return: whether they are there. bench_pages_restore() gives
 * back what this call reserved. */
bool bench_pages_reserve(uint64_t bytes);
void bench_pages_restore(void);
/* Make an order of access: BENCH_ORDER_LEN words {choice : 8, key number : 24}. Return: NULL
 * without memory. */
uint32_t *bench_order_new(enum bench_spread spread, uint32_t key_count, uint64_t seed);
uint64_t bench_now_ns(void);

/* Use @value, so that the compiler cannot leave out the read. */
static inline void bench_use(uint64_t value)
{
        __asm__ __volatile__("" : : "r"(value));
}

/* Write the text of key @number: "state:k/" and eight letters, and more where keys are mixed. */
static inline void bench_key_write(uint32_t number, struct bench_key *ret)
{
        uint64_t letters = number;

        letters = (letters | letters << 16) & UINT64_C(0x0000ffff0000ffff);
        letters = (letters | letters << 8) & UINT64_C(0x00ff00ff00ff00ff);
        letters = (letters | letters << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        letters += UINT64_C(0x6161616161616161);
        memcpy(ret->bytes, "state:k/", 8);
        memcpy(ret->bytes + 8, &letters, 8);
        ret->len = BENCH_KEY_LEN;
        if (!bench_keys_mixed)
                return;
        memcpy(ret->bytes + BENCH_KEY_LEN, "/of-some-length!", BENCH_KEY_MAX - BENCH_KEY_LEN);
        ret->len += (number * 0x9e3779b1u >> 16) % (BENCH_KEY_MAX - BENCH_KEY_LEN + 1);
}

/* Whether these are the bytes of @key. The first 16 bytes differ from key to key. */
static inline bool bench_key_equal(const unsigned char *bytes, const struct bench_key *key)
{
        uint64_t words[4];
        bool same;

        memcpy(words, bytes, 16);
        memcpy(words + 2, key->bytes, 16);
        same = ((words[0] ^ words[2]) | (words[1] ^ words[3])) == 0;
        if (key->len == BENCH_KEY_LEN)
                return same;
        memcpy(words, bytes + key->len - 16, 16);
        memcpy(words + 2, key->bytes + key->len - 16, 16);
        return same & (((words[0] ^ words[2]) | (words[1] ^ words[3])) == 0);
}

/* Read a value: a word of each 64 bytes, and the last word. */
static inline uint64_t bench_consume(const unsigned char *value, uint32_t len)
{
        uint64_t word, sum = 0;

        for (uint32_t at = 0; at + 8 <= len; at += 64) {
                memcpy(&word, value + at, 8);
                sum += word;
        }
        memcpy(&word, value + len - 8, 8);
        return sum + word;
}

/* Prefetch every line of @len bytes. */
static inline void bench_prefetch(const void *data, uint64_t len)
{
        const unsigned char *at = (const unsigned char *)data;

        for (uint64_t i = 0; i < len; i += 64)
                __builtin_prefetch(at + i);
        __builtin_prefetch(at + len - 1);
}

#endif
