/*
 * The private heap of fibres: the client library allocates here in the model build; see
 * tests/harness/heap.h.
 *
 * Each fibre has a heap of its own, which is empty when an execution begins, and setup has another
 * one, which each execution finds as setup left it. So what a fibre finds in its private memory
 * follows from what it read, as the checker assumes. Memory that was freed is filled with a pattern
 * and is not used again.
 *
 * Always true: a block begins with its size.
 */
#include <string.h>

#include "tests/harness/heap.h"
#include "tests/harness/model/core.h"

#define HEAP_SIZE  (96u << 10)
#define SETUP_SIZE (48u << 10)
#define SETUP      FIBRE_COUNT
#define HEAD       16u
#define FREED      0xdd

static unsigned char heap_bytes[FIBRE_COUNT][HEAP_SIZE] __attribute__((aligned(16)));
static unsigned char heap_setup[SETUP_SIZE] __attribute__((aligned(16)));
static unsigned char heap_setup_image[SETUP_SIZE];
static size_t heap_used[FIBRE_COUNT + 1];

void model_heap_begin(void)
{
        memset(heap_used, 0, sizeof heap_used);
}

void model_heap_snapshot(void)
{
        memcpy(heap_setup_image, heap_setup, heap_used[SETUP]);
}

void model_heap_restore(void)
{
        memset(heap_used, 0, sizeof heap_used - sizeof heap_used[SETUP]);
        memcpy(heap_setup, heap_setup_image, heap_used[SETUP]);
}

void model_heap_move(struct model_saved *saved)
{
        uint32_t i;

        model_saved_move(saved, heap_used, sizeof heap_used);
        model_saved_move(saved, heap_setup, heap_used[SETUP]);
        for (i = 0; i < FIBRE_COUNT; i++)
                model_saved_move(saved, heap_bytes[i], heap_used[i]);
}

static size_t *size_of(void *block)
{
        return (size_t *)(void *)((unsigned char *)block - HEAD);
}

void *heap_malloc(size_t size)
{
        uint32_t which = run.current < FIBRE_COUNT ? run.current : SETUP;
        unsigned char *heap = which == SETUP ? heap_setup : heap_bytes[which], *block;
        size_t rounded = (size + HEAD - 1) / HEAD * HEAD + HEAD;

        if (heap_used[which] + rounded > (which == SETUP ? SETUP_SIZE : HEAP_SIZE))
                return NULL;
        block = heap + heap_used[which] + HEAD;
        heap_used[which] += rounded;
        *size_of(block) = size;
        return block;
}

void heap_free(void *block)
{
        if (block)
                memset(block, FREED, *size_of(block));
}

void *heap_realloc(void *block, size_t size)
{
        void *new = heap_malloc(size);

        if (new &&block)
                memcpy(new, block, *size_of(block) < size ? *size_of(block) : size);
        if (new)
                heap_free(block);
        return new;
}
