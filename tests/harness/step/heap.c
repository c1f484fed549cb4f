/*
 * The private heaps of the clients of a scene: the client library allocates here in the stepper's
 * build; see tests/harness/heap.h.
 *
 * A heap lies behind the segment's image, so that a copy of the scene has it, too. It is a row of
 * blocks; an allocation takes the first free one that is large enough.
 *
 * Always true: a client's act takes memory from its own heap alone, so it may be stopped anywhere
 * in these functions while other clients go on.
 */
#include <string.h>

#include "tests/harness/heap.h"
#include "tests/harness/step/story.h"

struct head {
        uint32_t size, used; /* bytes behind the head */
        uint64_t zero;
};

static unsigned char *heap_of(struct scene *of, uint32_t actor)
{
        return of->image + of->image_size + actor * SCENE_HEAP;
}

static struct head *head_at(unsigned char *heap, uint32_t at)
{
        return (struct head *)(void *)(heap + at);
}

void scene_heap_begin(struct scene *of, uint32_t actor)
{
        *head_at(heap_of(of, actor), 0) = (struct head){SCENE_HEAP - sizeof(struct head), 0, 0};
}

void *heap_malloc(size_t size)
{
        unsigned char *heap = heap_of(&scene, scene.running);
        uint32_t wanted = (uint32_t)(size + 15) & ~15u, at = 0;

        while (at < SCENE_HEAP) {
                struct head *head = head_at(heap, at);
                uint32_t end = at + (uint32_t)sizeof(*head) + head->size;

                /* Free neighbours become one. */
                while (!head->used && end < SCENE_HEAP && !head_at(heap, end)->used) {
                        head->size += (uint32_t)sizeof(*head) + head_at(heap, end)->size;
                        end = at + (uint32_t)sizeof(*head) + head->size;
                }
                if (head->used || head->size < wanted) {
                        at = end;
                        continue;
                }
                if (head->size >= wanted + 2 * sizeof(*head)) {
                        *head_at(heap, at + (uint32_t)sizeof(*head) + wanted) =
                                (struct head){head->size - wanted - (uint32_t)sizeof(*head), 0, 0};
                        head->size = wanted;
                }
                head->used = 1;
                return head + 1;
        }
        return NULL;
}

void heap_free(void *block)
{
        if (block)
                ((struct head *)block - 1)->used = 0;
}

void *heap_realloc(void *block, size_t size)
{
        uint32_t old = block ? ((struct head *)block - 1)->size : 0;
        void *new = heap_malloc(size);

        if (new &&old)
                memcpy(new, block, old < size ? old : size);
        if (new)
                heap_free(block);
        return new;
}
