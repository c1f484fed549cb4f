/*
 * The frame of a test program: RUN(test_x) prints "ok test_x", or "FAIL test_x: file:line what" and goes on with the next.
 */
#ifndef SB_TESTS_TEST_H
#define SB_TESTS_TEST_H

#include <stdio.h>
#include <string.h>

static int test_failures_;
static int test_failed_;
static const char *test_name_, *test_only_;

#define CHECK(cond)                                                                                         \
        do {                                                                                                \
                if (!(cond) && !test_failed_) {                                                             \
                        test_failed_ = 1;                                                                   \
                        printf("FAIL %s: %s:%d %s\n", test_name_, __FILE__, __LINE__, #cond);               \
                        return;                                                                             \
                }                                                                                           \
        } while (0)

#define RUN(function)                                                                                       \
        do {                                                                                                \
                test_name_ = #function;                                                                     \
                test_failed_ = 0;                                                                           \
                if (test_only_ && strcmp(test_only_, test_name_) != 0)                                      \
                        break;                                                                              \
                function();                                                                                 \
                if (test_failed_)                                                                           \
                        test_failures_++;                                                                   \
                else                                                                                        \
                        printf("ok %s\n", test_name_);                                                      \
                fflush(stdout);                                                                             \
        } while (0)

static inline void test_begin(int argc, char **argv)
{
        test_only_ = argc > 1 ? argv[1] : NULL;
}
static inline int test_end(void)
{
        return test_failures_ != 0;
}
#endif
