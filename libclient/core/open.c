/*
 * Opening and closing a bus. sb_open() checks the options, asks the daemon (attach.h), and makes a
 * bus around what the daemon grants. sb_close() tells all that came from the bus, and gives the
 * record back. Guards, which lie with the program, learn of it when they are released.
 *
 * Always true: when sb_open() fails, nothing of it is left: no map, no record, no memory.
 *
 * The public calls are described in statebus.h.
 */
#include <stdlib.h>

#include "libclient/core/attach.h"
#include "libclient/core/bus.h"
#include "libclient/core/fd.h"
#include "libclient/core/history.h"
#include "libclient/core/scan.h"
#include "libclient/core/sized.h"
#include "libclient/core/txn.h"
#include "libclient/core/use.h"
#include "libclient/core/watch.h"
#include "libclient/core/write-set.h"
#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/roster.h"
#include "shm/upkeep/handle.h"

/* Without spin_ns. */
static const size_t open_earlier[] = {offsetof(struct sb_options, spin_ns), 0};

/* Whether the options can be meant. */
static int open_check_options(const struct sb_options *options)
{
        if (!sb_sized_is(options->size, sizeof(*options), open_earlier))
                return -EINVAL;
        return options->access > SB_PEER || (options->flags & ~SB_START) != 0 ? -EINVAL : 0;
}

/* Make a bus of what the daemon granted, or give it back. */
static int open_attached(struct sb_bus_home *home, struct sb_bus **ret_bus)
{
        struct sb_attachment *attachment = &home->attachment;
        int r;

        r = sb_os_register();
        if (r == 0)
                r = sb_bus_new(&attachment->segment, attachment->slot, attachment->generation,
                        (enum sb_access)attachment->access, home, ret_bus);
        if (r != 0) {
                sb_roster_release(&attachment->segment, attachment->slot, attachment->generation);
                sb_attach_unmap(attachment);
        }
        return r;
}

int sb_open(const struct sb_options *options, struct sb_bus **ret_bus)
{
        return sb_bus_open_as(options, SB_HELLO_ATTACH, ret_bus);
}

int sb_bus_open_as(const struct sb_options *options, uint32_t verb, struct sb_bus **ret_bus)
{
        struct sb_bus_home *home;
        int r;

        if (!options || !ret_bus)
                return -EINVAL;
        r = open_check_options(options);
        if (r != 0)
                return r;
        home = calloc(1, sizeof(*home));
        if (!home)
                return -ENOMEM;
        r = sb_place_resolve(options->bus, &home->place);
        if (r == 0 && options->access != SB_PEER)
                r = -ENOTSUP;
        if (r == 0)
                r = sb_attach_as(&home->place, verb, options->access, &home->attachment);
        if (r == -ECONNREFUSED && (options->flags & SB_START) != 0) {
                r = sb_attach_start(&home->place, NULL, NULL);
                /* Refused: another agentd may have come first, and serve the bus. */
                if (r == 0 || r == -ECONNREFUSED)
                        r = sb_attach_as(&home->place, verb, options->access, &home->attachment);
        }
        if (r == 0)
                r = open_attached(home, ret_bus);
        if (r == 0 && options->size >= sizeof(*options))
                (*ret_bus)->watches.spin_ns = options->spin_ns;
        if (r != 0)
                free(home);
        return r;
}

struct sb_bus *sb_close(struct sb_bus *bus)
{
        SB_USE_END(bus, sb_close(bus));
        if (!bus || bus->closed)
                return NULL;
        sb_fd_end(bus, sb_load_relaxed(bus->alive) == 0);
        sb_bus_orphan_watches(bus, sb_load_relaxed(bus->alive) == 0 || sb_bus_detached(bus));
        sb_bus_orphan_scans(bus->scans);
        sb_bus_orphan_histories(bus->histories);
        sb_bus_orphan_txns(bus);
        /* Values that guards alone still hold; sb_guard_release() knows. */
        while (bus->held) {
                bus->held->holders = 1;
                sb_write_set_value_drop(bus->held);
        }
        if (sb_load_relaxed(bus->alive) != 0) {
                /* A segment may have been replaced because it is damaged; and no process needs a
                 * record of it any more. */
                if (!sb_bus_detached(bus))
                        sb_handle_fini(&bus->handle);
                if (bus->home)
                        sb_attach_unmap(&bus->home->attachment);
        }
        sb_bus_free(bus);
        return NULL;
}
