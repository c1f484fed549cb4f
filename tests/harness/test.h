/*
 * The harness of all C tests: one function per sentence, one line of output per function.
 *
 *      static void test_set_on_full_segment_changes_nothing(void) { ... CHECK(rev == 3); ... }
 *      int main(int argc, char **argv)
 *      {
 *              test_begin(argc, argv);
 *              RUN(test_set_on_full_segment_changes_nothing);
 *              return test_end();
 *      }
 *
 * PROGRAM NAME runs that one function. Each function gives one line: `ok NAME`, `FAIL NAME:
 * file:line what` or `skip NAME: why`. A program prints what belongs in the summary (points, seeds)
 * on lines that begin with `# `: see TEST_NOTE.
 *
 * Always true: a program that ran no function fails; a program of which all functions skipped ends
 * with 77. A CHECK in a function that a test calls returns from that function only; so helpers
 * return a value, and the test checks it.
 */
#ifndef SB_TEST_H
#define SB_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
        const char *only;    /* the one test to run, or NULL */
        const char *name;    /* of the function that runs */
        const char *skipped; /* why the function that runs cannot do its work here */
        unsigned failed_here, ran, failed, skips;
} test_state;

static inline void test_begin(int argc, char **argv)
{
        /* With whole lines written at once, a crash loses no finished line and a fork() repeats
         * none. */
        setvbuf(stdout, NULL, _IOLBF, 0);
        test_state.only = argc > 1 ? argv[1] : NULL;
}

static inline void test_run(void (*function)(void), const char *name)
{
        if (test_state.only && strcmp(test_state.only, name) != 0)
                return;
        test_state.name = name;
        test_state.failed_here = 0;
        test_state.skipped = NULL;
        test_state.ran++;
        function();
        if (test_state.failed_here > 0) {
                test_state.failed++;
        } else if (test_state.skipped) {
                test_state.skips++;
                printf("skip %s: %s\n", name, test_state.skipped);
        } else {
                printf("ok %s\n", name);
        }
}

/* For main's return: 1 when a function failed or none ran, 77 when all that ran skipped, else 0. */
static inline int test_end(void)
{
        if (test_state.ran == 0) {
                printf("FAIL %s: no such test\n", test_state.only ? test_state.only : "(none)");
                return 1;
        }
        if (test_state.failed > 0)
                return 1;
        return test_state.skips == test_state.ran ? 77 : 0;
}

/* Each function prints one FAIL line: its first failure is the one that matters. */
static inline void test_fail_begin(const char *file, int line)
{
        const char *slash = strrchr(file, '/');

        test_state.failed_here++;
        printf("FAIL %s: %s:%d ", test_state.name, slash ? slash + 1 : file, line);
}

#define RUN(function) test_run((function), #function)

/* Ends the test function when the condition does not hold. */
#define CHECK(...)                                                                                 \
        do {                                                                                       \
                if (!(__VA_ARGS__)) {                                                              \
                        test_fail_begin(__FILE__, __LINE__);                                       \
                        printf("%s\n", #__VA_ARGS__);                                              \
                        return;                                                                    \
                }                                                                                  \
        } while (0)

/* The same for two integers, with both in the output. */
#define CHECK_EQ(a, b)                                                                             \
        do {                                                                                       \
                intmax_t check_a_ = (intmax_t)(a), check_b_ = (intmax_t)(b);                       \
                if (check_a_ != check_b_) {                                                        \
                        test_fail_begin(__FILE__, __LINE__);                                       \
                        printf("%s == %s: %jd and %jd\n", #a, #b, check_a_, check_b_);             \
                        return;                                                                    \
                }                                                                                  \
        } while (0)

/* Fails with a message of the test's own, printf-like. */
#define TEST_FAIL(...)                                                                             \
        do {                                                                                       \
                test_fail_begin(__FILE__, __LINE__);                                               \
                printf(__VA_ARGS__);                                                               \
                printf("\n");                                                                      \
                return;                                                                            \
        } while (0)

/* This machine lacks what the test needs; @why is static text that names it. */
#define TEST_SKIP(why)                                                                             \
        do {                                                                                       \
                test_state.skipped = (why);                                                        \
                return;                                                                            \
        } while (0)

/* A line for the summary of the whole run, printf-like. */
#define TEST_NOTE(...)                                                                             \
        do {                                                                                       \
                printf("# ");                                                                      \
                printf(__VA_ARGS__);                                                               \
                printf("\n");                                                                      \
        } while (0)

#endif
