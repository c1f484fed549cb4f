/*
 * mimalloc's names that need nothing but mi_malloc() and mi_free(), for the private heaps of the
 * model checker (model/heap.c) and of the stepper (step/heap.c).
 */
#include <mimalloc.h>
#include <string.h>

void *mi_zalloc(size_t size)
{
        void *block = mi_malloc(size);

        return block ? memset(block, 0, size) : NULL;
}

void *mi_calloc(size_t count, size_t size)
{
        return mi_zalloc(count * size);
}

char *mi_strdup(const char *text)
{
        char *copy = mi_malloc(strlen(text) + 1);

        return copy ? strcpy(copy, text) : NULL;
}
