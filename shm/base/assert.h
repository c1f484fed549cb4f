/*
 * Assertions about programmers' mistakes, evaluated in every build; and hints for the compiler
 * about which way a branch goes.
 *
 * Always true: no assertion is about what a segment, a file or another process says. That is input,
 * which is checked and answered.
 */
#ifndef SB_BASE_ASSERT_H
#define SB_BASE_ASSERT_H

#define sb_assert(condition)                                                                       \
        do {                                                                                       \
                if (__builtin_expect(!(condition), 0))                                             \
                        __builtin_trap();                                                          \
        } while (0)

/* The rare way of a hot function is SB_UNLIKELY, so that the common way is straight code. */
#define SB_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define SB_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
