/* A hash table of hashes; see images.h. */
#include "tests/harness/step/images.h"

#include <stdlib.h>
#include <string.h>

#define IMAGES_FIRST 1024u /* places at first; a power of two, as all later sizes */

static struct {
        uint64_t *hashes; /* 0: empty */
        uint64_t size, count;
} images;

void images_forget(void)
{
        if (images.hashes)
                memset(images.hashes, 0, images.size * sizeof(*images.hashes));
        images.count = 0;
}

/* The place of @hash, or the empty one where it belongs. */
static uint64_t *images_place(uint64_t hash)
{
        uint64_t at = hash & (images.size - 1);

        while (images.hashes[at] && images.hashes[at] != hash)
                at = (at + 1) & (images.size - 1);
        return &images.hashes[at];
}

static void images_grow(void)
{
        uint64_t *old = images.hashes, old_size = images.size;

        images.size = old_size ? 4 * old_size : IMAGES_FIRST;
        images.hashes = calloc(images.size, sizeof(*images.hashes));
        if (!images.hashes)
                abort();
        for (uint64_t i = 0; i < old_size; i++)
                if (old[i])
                        *images_place(old[i]) = old[i];
        free(old);
}

bool images_new(uint64_t hash)
{
        uint64_t *place;

        if (images.count * 2 >= images.size)
                images_grow();
        place = images_place(hash ? hash : 1);
        if (*place)
                return false;
        *place = hash ? hash : 1;
        images.count++;
        return true;
}
