/*
 * The watches of a bus end with it. Which there are: libclient/core/watches.h.
 */
#ifndef SB_CORE_WATCH_H
#define SB_CORE_WATCH_H

#include <stdbool.h>

#include "libclient/core/bus.h"

/* For sb_close(): the watches end, and answer SB_E_DETACHED from now on. @gone: the segment is not
 * this process's any more. */
void sb_bus_orphan_watches(struct sb_bus *bus, bool gone);

#endif
