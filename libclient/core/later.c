/*
 * What this version of the library declares but does not do yet: a descriptor to wait with. It
 * answers misuse first, then -ENOTCONN, then -ENOTSUP, and does nothing.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"
#include "libclient/core/use.h"

int sb_fd(struct sb_bus *bus)
{
        SB_USE(bus, sb_fd(bus));
        /* A caller would take a positive answer for a descriptor. */
        if (!bus)
                return -EINVAL;
        return sb_bus_detached(bus) ? -ENOTCONN : -ENOTSUP;
}
