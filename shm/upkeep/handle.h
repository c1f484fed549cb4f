/*
 * A handle's beginning and end (layout/handle.h has the struct, and what a handle is).
 *
 * Always true: between the two the handle is the only one of its record, and one thread at a time
 * uses it. A handle that is not ended, because its process died, costs nothing but a reaping.
 */
#ifndef SB_UPKEEP_HANDLE_H
#define SB_UPKEEP_HANDLE_H

#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* Bytes of the space of a handle: memory, aligned to 8, that its owner provides until the handle is
 * ended. How much of it is ever touched depends on what is open in the bus. */
uint64_t sb_handle_space(const struct sb_geometry *geometry);
/* Begin to use a claimed record (state ATTACHED): all lists empty. @space may hold any bytes. No
 * store to the segment. */
void sb_handle_init(struct sb_handle *handle, const struct sb_segment *segment, uint32_t slot,
        uint32_t generation, void *space);
/* Do what can be done of the private work, leave the rest to a sweep, give up slabs, magazine and
 * guards, clear announcements, free the record; not under a pin. */
void sb_handle_fini(struct sb_handle *handle);

#endif
