/*
 * Ways of telling other processes that something has changed: a word that they look at, a futex, a
 * condition variable, and a key of a bus.
 *
 * One process tells, the others wait; what it tells is 64 bits, its clock as a rule, and
 * WAKE_END ends the waiting. Each has an end of its own in each way, made behind fork().
 *
 * Always true: what one telling costs is the call of tell() alone, and a waiting process has what
 * was told when wait() returns.
 */
#ifndef SB_BENCH_WAKE_H
#define SB_BENCH_WAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"

#define WAKE_WAITERS_MAX 64u
#define WAKE_END         UINT64_C(0)
#define WAKE_LINE        64

struct wake_waiter {
        uint64_t took;          /* ticks from telling to having */
        uint64_t switches;      /* how often it lost its core */
        struct sb_word32 waits; /* 1: its end is made */
} __attribute__((aligned(WAKE_LINE)));

/* Shared by all of them. Waiting processes write plain words before they count themselves. */
struct wake_shared {
        struct sb_word64 there __attribute__((aligned(WAKE_LINE)));
        struct sb_word64 back __attribute__((aligned(WAKE_LINE)));
        struct sb_word32 count __attribute__((aligned(WAKE_LINE))); /* of a futex: tellings */
        struct sb_word64 told;
        pthread_mutex_t mutex __attribute__((aligned(WAKE_LINE)));
        pthread_cond_t condition;
        uint64_t condition_told;
        struct sb_word32 had __attribute__((aligned(WAKE_LINE))); /* what was told, by each */
        struct wake_waiter waiters[WAKE_WAITERS_MAX];
};

struct wake_end {
        struct wake_shared *shared;
        struct sb_bus *bus;
        struct sb_watch *watch;
        uint64_t last;
        uint32_t count;
};

/* How an end is to be made. */
struct wake_how {
        const char *directory; /* of a bus */
        uint64_t spin_ns;      /* that a watch looks before it sleeps */
        bool prefix;           /* it watches all keys with the prefix of the one that is set */
};

struct wake_way {
        const char *name;
        bool uses_bus;
        int (*open)(struct wake_end *end, const struct wake_how *how, bool waits);
        int (*tell)(struct wake_end *end, uint64_t what);
        int (*wait)(struct wake_end *end, uint64_t *ret_what);
};
extern const struct wake_way wake_word, wake_futex, wake_condition, wake_bus;

/* The ways as they are before any telling. Return: 0, -errno. */
int wake_init(struct wake_shared *shared);
/* Close what open() has made. */
void wake_close(struct wake_end *end);

#endif
