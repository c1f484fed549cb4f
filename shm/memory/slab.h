/*
 * Taking memory and giving it back: blocks of one size class out of slabs, and large blocks of
 * several units in a row.
 *
 * The rule of memory: a unit serves blocks of one kind and size until it is empty; slabs that have
 * a free block are filled before a unit that has none is broken into (but see slab-search.h, where
 * many units are free); where no block of the size is left, the next larger one of the kind
 * serves.
 *
 * A block is taken when its bit in its unit's bitmap is set (unit.h): there is no list that a crash
 * can tear. A client owns a slab while it takes blocks from it, and takes up to SB_SLAB_CACHE_MAX
 * of them at once into its slab cache: so most takes touch no shared word. The last units are the
 * reserve: only tombstones may have them, so that a full bus can still delete. Its last quarter is
 * for tombstones of the bus's own keys alone: so a mark, which may be what keeps all memory, can
 * still be dropped where deletes have used up the rest. It is a quarter of the units; where there
 * are one or two, a quarter of the blocks in each; two at least, for a rule goes in two steps.
 *
 * Always true: an owner gives a slab up no sooner than at the end of the operation in which it ran
 * out. So a block that was taken and not published always lies in a slab that its taker owns, and
 * that is where the reaper of a dead client looks for it.
 */
#ifndef SB_MEMORY_SLAB_H
#define SB_MEMORY_SLAB_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* What else may serve where no block of the size's class is left: blocks of larger classes (so that
 * what a delete freed serves what is smaller), the reserve, and the part of it that is for the
 * bus's own keys (with SB_SLAB_RESERVE). */
enum { SB_SLAB_LARGER = 1, SB_SLAB_RESERVE = 2, SB_SLAB_OWN = 4 };

/* Take a block of @size bytes for @kind (SB_UNIT_VERSIONS, _NODES, _GUARDS); @also: SB_SLAB_* bits.
 * The block's retire word is 0 and, in a node, so are cell and unhooked. Return: 0, SB_E_FULL.
 * Cost: a few instructions; every 16th a locked one. */
int sb_slab_take(struct sb_handle *handle, enum sb_unit_kind kind, uint64_t size, uint32_t also,
        uint64_t *ret_offset);
/* The same for a version, out of the slab cache alone. False: it has none; see sb_slab_take(). */
static inline bool sb_slab_take_ready(struct sb_handle *handle, uint64_t size, uint64_t *ret_offset)
{
        struct sb_slab_cache *cache;

        if (size > (SB_CLASS_TABLE - 1) * 16)
                return false;
        cache = &handle->slabs.versions[handle->segment.class_of[(size + 15) / 16]];
        if (!cache->count)
                return false;
        *ret_offset = cache->offset[--cache->count];
        return true;
}
/* The same in two steps, for the short way of a write: the block stays in the slab cache until the
 * write has happened. */
static inline bool sb_slab_peek(
        const struct sb_handle *handle, uint32_t class_, uint64_t *ret_offset)
{
        const struct sb_slab_cache *cache = &handle->slabs.versions[class_];

        if (SB_UNLIKELY(!cache->count))
                return false;
        *ret_offset = cache->offset[cache->count - 1];
        return true;
}
static inline void sb_slab_take_peeked(struct sb_handle *handle, uint32_t class_)
{
        handle->slabs.versions[class_].count--;
}
/* Give back a block that was taken in this operation and never published. */
void sb_slab_give_back(struct sb_handle *handle, uint64_t offset);
/* sb_slab_settle() when there is something to do. */
void sb_slab_settle_some(struct sb_handle *handle);
/* End an operation, all blocks of which are published or given back: give up the slabs that ran
 * out, and those that an idle client may not keep. */
static inline void sb_slab_settle(struct sb_handle *handle)
{
        if (SB_UNLIKELY(handle->slabs.exhausted_count || handle->slabs.many ||
                        handle->slabs.tombstones.unit != UINT32_MAX))
                sb_slab_settle_some(handle);
}
/* Behind a chunk of guard words that is named: other clients' chunks may come out of its slab. */
void sb_slab_leave_guards(struct sb_handle *handle);
/* Give up all slabs, and the blocks in the slab cache. */
void sb_slab_release_all(struct sb_handle *handle);
/* For a handle that begins. */
void sb_slab_init(struct sb_handle *handle);

#endif
