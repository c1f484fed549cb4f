/* Random numbers of the storms: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, OOPSLA 2014). Any state will do, so a number can be a seed. */
#ifndef SB_TESTS_RANDOM_H
#define SB_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t storm_random(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

#endif
