/*
 * mimalloc's names over the C library's heap, for the sanitizer builds: there, the sanitizer must
 * see each allocation. Only what statebus calls is here.
 */
#ifndef SB_SANITIZED_MIMALLOC_H
#define SB_SANITIZED_MIMALLOC_H

#include <stdlib.h>
#include <string.h>

static inline void *mi_malloc(size_t size)
{
        return malloc(size);
}

/* @size is a multiple of @alignment. */
static inline void *mi_malloc_aligned(size_t size, size_t alignment)
{
        return aligned_alloc(alignment, size);
}

static inline void *mi_calloc(size_t count, size_t size)
{
        return calloc(count, size);
}

static inline void *mi_zalloc(size_t size)
{
        return calloc(1, size);
}

static inline void *mi_realloc(void *block, size_t size)
{
        return realloc(block, size);
}

static inline char *mi_strdup(const char *text)
{
        return strdup(text);
}

static inline void mi_free(void *block)
{
        free(block);
}

#endif
