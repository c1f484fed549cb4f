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

/* Begin to use a claimed record (state ATTACHED): all lists empty. No store to the segment. */
void sb_handle_init(struct sb_handle *handle, const struct sb_segment *segment, uint32_t slot,
        uint32_t generation);
/* Do what can be done of the private work, leave the rest to a sweep, give up slabs, magazine and
 * guards, clear announcements, free the record; not under a pin. */
void sb_handle_fini(struct sb_handle *handle);

#endif
