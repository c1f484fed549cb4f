/*
 * What a mover leaves that is stopped before it takes the original out (shm/upkeep/move.h): a copy
 * of a version, right above it in its chain.
 */
#ifndef SB_TEST_UNIT_COPY_H
#define SB_TEST_UNIT_COPY_H

#include <string.h>

#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/key.h"

/* Under a pin: put a copy above the version that @link leads to. Return: the copy, or NULL. */
static inline struct sb_version *copy_above(struct sb_handle *handle, struct sb_word64 *link)
{
        uint64_t word = sb_load_relaxed(link), offset;
        struct sb_version *version = sb_version_at(&handle->segment, word & SB_OFFSET_MASK), *copy;
        uint64_t size = version ? sb_version_size(version->shape) : 0;

        if (!version || sb_slab_take(handle, SB_UNIT_VERSIONS, size, SB_SLAB_LARGER, &offset))
                return NULL;
        copy = (struct sb_version *)(handle->segment.base + offset);
        sb_pin_give_birth(handle, &copy->block);
        copy->rev = version->rev;
        sb_store_relaxed(&copy->stamp, sb_load_relaxed(&version->stamp));
        sb_store_relaxed(&copy->prev, sb_offset_of(&handle->segment, version));
        copy->node = version->node;
        copy->shape = version->shape;
        memcpy(copy->bytes, version->bytes, size - sizeof(*version));
        return sb_cas64_full(link, word, (word & ~SB_OFFSET_MASK) | offset) ? copy : NULL;
}

/* Put one above each version of a key. Return: how many there are, or UINT32_MAX. */
__attribute__((noipa, unused)) static uint32_t copy_above_all(
        struct sb_handle *handle, const void *key, uint32_t key_len)
{
        uint64_t hash = sb_hash_key(key, key_len, handle->segment.seed);
        struct sb_version *version;
        struct sb_word64 *link;
        struct sb_spot spot;
        uint32_t count = 0;

        sb_pin(handle);
        link = sb_key_find(handle, key, key_len, hash, &spot) ? spot.cell : NULL;
        while (link && count != UINT32_MAX) {
                version = sb_version_at(&handle->segment, sb_load_relaxed(link) & SB_OFFSET_MASK);
                if (!version || SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                        break;
                count = copy_above(handle, link) ? count + 1 : UINT32_MAX;
                link = &version->prev;
        }
        sb_unpin(handle);
        sb_slab_settle(handle);
        return count;
}

#endif
