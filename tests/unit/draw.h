/*
 * Numbers at random, the same in every run: a linear congruential generator (Knuth's constants).
 */
#ifndef SB_TEST_UNIT_DRAW_H
#define SB_TEST_UNIT_DRAW_H

#include <stdint.h>

static uint64_t draw_state;

/* 32 bits. */
static inline uint32_t draw_bits(void)
{
        draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(draw_state >> 32);
}
/* 0 .. @below - 1. */
static inline uint32_t draw(uint32_t below)
{
        return (uint32_t)((uint64_t)draw_bits() * below >> 32);
}
static inline uint64_t draw_word(void)
{
        uint64_t high = draw_bits();

        return high << 32 | draw_bits();
}

#endif
