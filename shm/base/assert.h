/*
 * Assertions about programmers' mistakes, evaluated in every build. Never about what a segment, a
 * file or a peer contains: that is input.
 */
#ifndef SB_BASE_ASSERT_H
#define SB_BASE_ASSERT_H

#define sb_assert(condition)                                                                       \
        do {                                                                                       \
                if (__builtin_expect(!(condition), 0))                                             \
                        __builtin_trap();                                                          \
        } while (0)

#define SB_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define SB_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
