/* heap_calloc() of both private heaps (model/heap.c, step/heap.c); see heap.h. */
#include "tests/harness/heap.h"

#include <string.h>

void *heap_calloc(size_t count, size_t size)
{
        void *block = heap_malloc(count * size);

        return block ? memset(block, 0, count * size) : NULL;
}
