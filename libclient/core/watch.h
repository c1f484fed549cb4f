/*
 * The watches of a bus: which there are, which have something to see, and sleeping until one has.
 *
 * All watches of a bus share the client's bell (shm/notify/bell.h). A watch has the dirty bit of
 * its place in the table; beyond 4,096 places two or more share one.
 *
 * Always true: a watch that is not dirty was looked at, and has nothing, or a process will set its
 * bit.
 */
#ifndef SB_CORE_WATCH_H
#define SB_CORE_WATCH_H

#include <stdbool.h>

#include "libclient/core/bus.h"

/* For sb_close(): the watches end, and answer SB_E_DETACHED from now on. @gone: the segment is not
 * this process's any more. */
void sb_bus_orphan_watches(struct sb_bus *bus, bool gone);
/* Whether a watch of a prefix holds the cut that it began at, until its first next. */
bool sb_bus_holds_cut(const struct sb_bus *bus, uint64_t cut);
/* Whether a watch of this prefix, or of a shorter one, began at the cut, and nothing above that was
 * given up so far: then all keys with the prefix are what they were, as far as it was read. */
bool sb_bus_keeps_cut(
        const struct sb_bus *bus, uint64_t cut, const unsigned char *prefix, uint32_t prefix_len);

#endif
