/*
 * Marks: cuts under a name. ring/op/mark.h does the work; here the arguments are checked.
 *
 * Always true: what goes further has a name of a legal length, and a bus that is attached.
 */
#include "libclient/core/bus.h"
#include "ring/op/mark.h"

/* Whether bus and name can be used. Return: 0, -EINVAL, -ENAMETOOLONG, SB_E_DETACHED. */
static int check(struct sb_bus *bus, struct sb_bytes name)
{
        if (bus == NULL || name.data == NULL || name.len == 0)
                return -EINVAL;
        if (name.len > sb_mark_name_max(&bus->peer))
                return -ENAMETOOLONG;
        return sb_bus_detached(bus) ? SB_E_DETACHED : 0;
}

/**
 * sb_mark() - keep the bus as it is now, under a name
 * @bus:        bus with any access
 * @name:       bytes; not kept after the call
 * @ret_cut:    the cut that is marked
 *
 * A mark keeps every version that is current now, until it is dropped, whatever limits history has.
 *
 * Return:   0; SB_E_CONFLICT: the name is taken; SB_E_FULL: all marks are in use, or there is no
 *           memory, or this bus has as many scans and transactions open as it may; SB_E_LAPPED: the
 *           cut was taken away before it was marked; SB_E_DETACHED; -EINVAL; -ENAMETOOLONG.
 * Threads:  the bus's own.
 * Progress: lock-free. A process that is killed in the middle leaves nothing behind.
 * Cost:     a snapshot and a write.
 */
int sb_mark(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = ret_cut == NULL ? -EINVAL : check(bus, name);

        return r != 0 ? r : sb_mark_make(&bus->peer, name.data, (uint32_t)name.len, ret_cut);
}

/**
 * sb_mark_find() - the cut that has a name
 * @bus:        bus with any access
 * @name:       bytes
 * @ret_cut:    its cut; readable as long as no process drops the mark
 *
 * Return:   0; SB_E_NOT_FOUND; SB_E_DETACHED; -EINVAL; -ENAMETOOLONG.
 * Threads:  the bus's own.
 * Progress: lock-free.
 * Cost:     a get.
 */
int sb_mark_find(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = ret_cut == NULL ? -EINVAL : check(bus, name);

        return r != 0 ? r : sb_mark_look_up(&bus->peer, name.data, (uint32_t)name.len, ret_cut);
}

/**
 * sb_mark_drop() - let go of a marked cut
 * @bus:        bus with any access
 * @name:       bytes
 *
 * Return:   0; SB_E_NOT_FOUND; SB_E_FULL (not even memory for a delete); SB_E_DETACHED;
 *           -EINVAL; -ENAMETOOLONG.
 * Threads:  the bus's own.
 * Progress: lock-free.
 * Cost:     a delete.
 */
int sb_mark_drop(struct sb_bus *bus, struct sb_bytes name)
{
        int r = check(bus, name);

        return r != 0 ? r : sb_mark_forget(&bus->peer, name.data, (uint32_t)name.len);
}
