/*
 * The heap of the daemon, counted: for programs that are linked with --wrap for mi_malloc,
 * mi_zalloc, mi_realloc and mi_free. A sanitizer has a heap of its own, and counts itself.
 */
#ifndef TESTS_UNIT_BLOCKS_H
#define TESTS_UNIT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

static int blocks;                               /* that are not given back */
static bool memory_ends __attribute__((unused)); /* no block can be had */

#ifndef TEST_SANITIZED
void *__real_mi_malloc(size_t size);
void *__wrap_mi_malloc(size_t size);
void *__wrap_mi_malloc(size_t size)
{
        void *made = memory_ends ? NULL : __real_mi_malloc(size);

        blocks += !!made;
        return made;
}

void *__real_mi_zalloc(size_t size);
void *__wrap_mi_zalloc(size_t size);
void *__wrap_mi_zalloc(size_t size)
{
        void *made = memory_ends ? NULL : __real_mi_zalloc(size);

        blocks += !!made;
        return made;
}

void *__real_mi_realloc(void *block, size_t size);
void *__wrap_mi_realloc(void *block, size_t size);
void *__wrap_mi_realloc(void *block, size_t size)
{
        void *made = memory_ends ? NULL : __real_mi_realloc(block, size);

        blocks += made && !block;
        return made;
}

void __real_mi_free(void *block);
void __wrap_mi_free(void *block);
void __wrap_mi_free(void *block)
{
        blocks -= !!block;
        __real_mi_free(block);
}
#endif

#endif
