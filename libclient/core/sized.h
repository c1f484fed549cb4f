/*
 * Structs that a program gives with their size, so that later headers can add fields at their end.
 *
 * A program gives the size that the struct has in its own header. A call takes the size of this
 * header and of each earlier one, and refuses any other: a larger struct comes from a later header,
 * and asks for something that this version does not know. What an earlier header's struct lacks
 * counts as 0, and the call reads no byte behind it.
 *
 * Always true: a field that an earlier header lacks is read in a copy of the struct alone.
 */
#ifndef SB_SIZED_H
#define SB_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether @size is this header's, or one of an earlier header. @earlier: these, a 0 behind them;
 * NULL: there are none. */
static inline bool sb_sized_is(size_t size, size_t this_size, const size_t *earlier)
{
        if (size == this_size)
                return true;
        for (; earlier && *earlier != 0; earlier++)
                if (size == *earlier)
                        return true;
        return false;
}

/* Copy @given, which begins with its size, into @ret, which has @size bytes and is all zero behind
 * what @given has. Return: false: no header has this size. */
static inline bool sb_sized_take(void *ret, size_t size, const void *given, const size_t *earlier)
{
        size_t given_size;

        memcpy(&given_size, given, sizeof(given_size));
        if (!sb_sized_is(given_size, size, earlier))
                return false;
        memcpy(ret, given, given_size);
        memset((unsigned char *)ret + given_size, 0, size - given_size);
        return true;
}

#endif
