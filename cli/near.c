/*
 * "Did you mean": the distance of two words is the least number of letters that are put in, left
 * out, replaced, or swapped with their neighbour, to make one from the other. (The "optimal string
 * alignment": no letter is touched twice.)
 *
 * Always true: what is suggested is near, so that a word which means nothing gets no suggestion.
 */
#include "cli/near.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WORD_MAX   31 /* letters; a longer word is near to nothing */
#define PREFIX_MIN 3  /* letters that say what was meant */
#define LONG_WORD  6  /* letters; from here on two may be wrong */

static size_t near_least(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* The number of changes between two words of WORD_MAX letters at most. */
static size_t near_changes(const char *a, size_t a_len, const char *b, size_t b_len)
{
        size_t row[WORD_MAX + 1], before[WORD_MAX + 1] = {0}, two_before[WORD_MAX + 1] = {0};

        for (size_t j = 0; j <= b_len; j++)
                row[j] = j;
        for (size_t i = 1; i <= a_len; i++) {
                memcpy(two_before, before, sizeof(before));
                memcpy(before, row, sizeof(row));
                row[0] = i;
                for (size_t j = 1; j <= b_len; j++) {
                        row[j] = near_least(before[j], row[j - 1]) + 1;
                        row[j] = near_least(row[j], before[j - 1] + (a[i - 1] != b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                row[j] = near_least(row[j], two_before[j - 2] + 1);
                }
        }
        return row[b_len];
}

size_t cli_distance(const char *typed, size_t len, const char *name)
{
        size_t name_len = strlen(name), shorter = near_least(len, name_len), changes, allowed;

        if (len > WORD_MAX || name_len > WORD_MAX)
                return SIZE_MAX;
        changes = near_changes(typed, len, name, name_len);
        allowed = len >= LONG_WORD ? 2 : len > 1 ? 1 : 0;
        if (changes <= allowed)
                return changes;
        return shorter >= PREFIX_MIN && memcmp(typed, name, shorter) == 0 ? changes : SIZE_MAX;
}
