/*
 * Finding a unit that serves as a slab: one of its kind and class that has a free block, else one
 * that serves any.
 *
 * Units are found by hints (vacancy.h), so a search costs the same however full the bus is: the
 * lowest ones for versions, the highest ones for nodes and guards.
 *
 * Where many units are FREE, a slab of versions waits until a quarter of it is free, and a FREE
 * unit is broken into instead: so a search finds a quarter of a slab, not the one or two blocks
 * that became free in it since its last turn. In a fuller bus the lowest slab that has a free block
 * serves before a unit is broken into: so the higher ones become empty.
 */
#ifndef SB_MEMORY_SLAB_SEARCH_H
#define SB_MEMORY_SLAB_SEARCH_H

#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

#define SB_SLAB_NO_UNIT UINT32_MAX

/* What a search may take besides slabs of the kind and class that have a free block. */
enum sb_slab_effort {
        SB_SLABS_ALONE,
        SB_SLABS_FRESH,     /* units that serve any */
        SB_SLABS_FRESH_LAST /* these, and nothing else is left */
};

/* Become the owner of a unit for this kind and class, as @effort says: in all units but the
 * reserve, or in the @reserve. Of that, nodes and branches may have a part where there is nothing
 * else: a bus full of values that are deleted, or become smaller, had else no place for the
 * branches of other keys. Return: the unit, or SB_SLAB_NO_UNIT. */
uint32_t sb_slab_search(struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_,
        enum sb_slab_effort effort, bool reserve);

/* How many units below the reserve are FREE or EMPTY. Cost: a look at each unit's word. */
uint32_t sb_slab_search_count_free(const struct sb_segment *segment);
/* Whether the bus holds back (`held_units`) what is free, so that @count units cannot be taken now.
 * Two clients that ask at once may both be told that they can. Cost: where it holds back some, as
 * of a count. */
bool sb_slab_search_holds(const struct sb_handle *handle, uint32_t count);

/* How many blocks of each slab of this class may be taken now, the first ones; @reserve: of one in
 * the reserve. */
uint32_t sb_slab_search_block_count(const struct sb_handle *handle, uint32_t class_, bool reserve);

#endif
