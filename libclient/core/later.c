/*
 * What this version of the library declares but does not do yet: watches and waits. Each call
 * answers misuse first, then SB_E_DETACHED, then -ENOTSUP, and writes nothing.
 *
 * Always true: no caller ever got a struct sb_watch from here. So any that comes in is misuse, and
 * the closer has nothing to free.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"
#include "libclient/core/use.h"

static int later_answer(struct sb_bus *bus)
{
        return sb_bus_detached(bus) ? SB_E_DETACHED : -ENOTSUP;
}

int sb_watch_open(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, uint64_t after_rev,
        struct sb_watch **ret_watch)
{
        SB_USE(bus, sb_watch_open(bus, key, flags, after_rev, ret_watch));
        (void)after_rev;
        if (!bus || !ret_watch || (flags & ~(SB_PREFIX | SB_AFTER_CUT)) != 0 ||
                (flags & (SB_PREFIX | SB_AFTER_CUT)) == SB_AFTER_CUT || (!key.data && key.len > 0))
                return -EINVAL;
        if (!(flags & SB_PREFIX) && key.len == 0)
                return -EINVAL;
        if (key.len > bus->handle.segment.key_len_max)
                return -ENAMETOOLONG;
        return later_answer(bus);
}

int sb_watch_next(struct sb_watch *watch, uint64_t deadline_ns, struct sb_guard *ret_guard)
{
        (void)watch;
        (void)deadline_ns;
        (void)ret_guard;
        return -EINVAL;
}

struct sb_watch *sb_watch_close(struct sb_watch *watch)
{
        (void)watch;
        return NULL;
}

int sb_wait(struct sb_bus *bus, uint64_t deadline_ns)
{
        SB_USE(bus, sb_wait(bus, deadline_ns));
        (void)deadline_ns;
        return !bus ? -EINVAL : later_answer(bus);
}

int sb_fd(struct sb_bus *bus)
{
        SB_USE(bus, sb_fd(bus));
        /* A caller would take a positive answer for a descriptor. */
        if (!bus)
                return -EINVAL;
        return sb_bus_detached(bus) ? -ENOTCONN : -ENOTSUP;
}
