/*
 * Private heaps for the client library in the model build and in the stepper's: included before
 * everything else in its files, so that its allocations come to model/heap.c or step/heap.c
 * instead of the C library.
 */
#ifndef SB_TEST_HEAP_H
#define SB_TEST_HEAP_H

#include <stddef.h>
#include <stdlib.h>

void *heap_malloc(size_t size);
void *heap_calloc(size_t count, size_t size);
void *heap_realloc(void *block, size_t size);
void heap_free(void *block);

#define malloc(size)                     heap_malloc(size)
#define calloc(count, size)              heap_calloc(count, size)
#define realloc(block, size)             heap_realloc(block, size)
#define free(block)                      heap_free(block)
#define reallocarray(block, count, size) heap_realloc(block, (count) * (size))

#endif
