/*
 * Damage that a process meets on its way. A walk over shared data has a bound that no sound segment
 * reaches: as many steps as there are blocks. Behind the bound the walk ends, and the handle notes
 * that it did; the walk's own answer is then a guess. What the process was asked for, it answers
 * with -EIO, unless it has happened (libclient/core/bus.h); the engine writes a line in its log.
 *
 * Always true: a walk that ended at its bound is noted before its caller can act on what it found.
 *
 * All of it is private to the process. Another process meets the damage itself; `agentctl check`
 * names the place.
 */
#ifndef SB_LAYOUT_DAMAGE_H
#define SB_LAYOUT_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/assert.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* The steps of a walk that may pass each block of the segment once. */
static inline uint64_t sb_damage_bound(const struct sb_segment *segment)
{
        return segment->geometry.size / SB_BLOCK_MIN;
}

/* Notes damage. */
static inline void sb_damage_note(struct sb_handle *handle)
{
        handle->damage.met++;
}

/* Counts a step of a walk; @left begins as sb_damage_bound(). Return: false: no sound segment has
 * so many; it is noted. */
static inline bool sb_damage_step(struct sb_handle *handle, uint64_t *left)
{
        if (SB_LIKELY((*left)--))
                return true;
        *left = 0;
        sb_damage_note(handle);
        return false;
}

/* Whether damage was noted since the last call of this function. */
static inline bool sb_damage_take(struct sb_handle *handle)
{
        bool met = SB_UNLIKELY(handle->damage.met);

        handle->damage.met = 0;
        return met;
}

/* Whether damage is noted that no sb_damage_take() has asked for. */
static inline bool sb_damage_met(const struct sb_handle *handle)
{
        return SB_UNLIKELY(handle->damage.met);
}

#endif
