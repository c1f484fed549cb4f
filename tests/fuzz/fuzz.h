/*
 * Fuzzing: what reads bytes from outside is given any bytes, and must keep what it promises.
 *
 * A target is a program of this folder with LLVMFuzzerTestOneInput(), the entry that libFuzzer and
 * its like know. It looks at one input, and ends the process where the input shows a defect. It is
 * linked with replay.c, which gives it the files of its corpus and changes them at random (make
 * test), or with libFuzzer, which looks for inputs that reach new code (make fuzz).
 *
 * Always true: what a target does with an input depends on the input alone, not on those before it.
 */
#ifndef SB_TESTS_FUZZ_H
#define SB_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Look at one input. Return: 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the process as a crash does, unless the condition holds. */
#define FUZZ_CHECK(...)                                                                            \
        do {                                                                                       \
                if (!(__VA_ARGS__))                                                                \
                        fuzz_fail(__FILE__, __LINE__, #__VA_ARGS__);                               \
        } while (0)

__attribute__((noreturn, unused)) static void fuzz_fail(
        const char *file, int line, const char *what)
{
        dprintf(STDERR_FILENO, "%s:%d: %s\n", file, line, what);
        abort();
}

/* ---- an input, byte by byte ---- */

struct fuzz_input {
        const uint8_t *at;
        size_t left;
};

/* The next @len bytes as a number, little-endian; what is missing at the end is 0. */
static inline uint64_t fuzz_take(struct fuzz_input *input, size_t len)
{
        uint64_t word = 0;

        for (size_t i = 0; i < len && input->left > 0; i++, input->left--)
                word |= (uint64_t)*input->at++ << 8 * i;
        return word;
}

#endif
