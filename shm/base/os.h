/*
 * The system, as a table of functions: clocks, membarrier, pauses, and waiting for a word.
 *
 * Always true: shm and ring/op call nothing else of the system, so that tests can put a table of
 * their own in its place and drive them.
 */
#ifndef SB_BASE_OS_H
#define SB_BASE_OS_H

#include <stdint.h>

struct sb_word32;

struct sb_os {
        uint64_t (*now_ns)(void *context);      /* CLOCK_MONOTONIC */
        uint64_t (*realtime_ns)(void *context); /* CLOCK_REALTIME */
        /* When it returns, every other thread of the segment has passed a full barrier. */
        void (*membarrier)(void *context);
        void (*pause)(void *context, uint64_t ns);   /* give way for about that long */
        void (*spin)(void *context, uint32_t turns); /* pause instructions, some 50 ns each */
        /* Sleep while @word is @expected, until a wake, a signal (-EINTR) or the deadline on the
         * monotonic clock (UINT64_MAX: none); it may return 0 without any of them. */
        int (*wait)(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns);
        void (*wake)(void *context, struct sb_word32 *word); /* all that sleep on the word */
        void *context;
};

/* The real table. Its context is not used. */
extern const struct sb_os sb_os_linux;
/* Gives way behind a lost race for a word: spins for less than 2^@bits turns, another number for
 * each @seed and thread. Two processes that write one word in turns move its cache line to and fro
 * with each write; while the loser stays away, the winner writes on with the line at hand. It
 * waits for no other process. Source: Dice, Hendler, Mirsky, Lightweight Contention Management for
 * Efficient Compare-and-Swap Operations, Euro-Par 2013. */
void sb_os_give_way(const struct sb_os *os, uint64_t seed, uint32_t bits);
/* Let other processes' membarriers reach this one: called once per process, before it pins. Return:
 * 0, or -errno where the kernel lacks MEMBARRIER_CMD_GLOBAL_EXPEDITED. */
int sb_os_register(void);

#endif
