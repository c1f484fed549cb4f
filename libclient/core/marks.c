/*
 * Marks: cuts under a name. ring/op/mark.h does the work; here the arguments are checked.
 *
 * Always true: what goes further has a name of a legal length, and a bus that is attached.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"
#include "ring/op/mark.h"

/* Whether bus and name can be used. Return: 0, -EINVAL, -ENAMETOOLONG, SB_E_DETACHED. */
static int marks_check(struct sb_bus *bus, struct sb_bytes name)
{
        if (!bus || !name.data || name.len == 0)
                return -EINVAL;
        if (name.len > sb_op_mark_name_max(&bus->handle))
                return -ENAMETOOLONG;
        return sb_bus_detached(bus) ? SB_E_DETACHED : 0;
}

int sb_mark(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = !ret_cut ? -EINVAL : marks_check(bus, name);

        return r != 0 ? r : sb_op_mark(&bus->handle, name.data, (uint32_t)name.len, ret_cut);
}

int sb_mark_find(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = !ret_cut ? -EINVAL : marks_check(bus, name);

        return r != 0 ? r : sb_op_mark_find(&bus->handle, name.data, (uint32_t)name.len, ret_cut);
}

int sb_mark_drop(struct sb_bus *bus, struct sb_bytes name)
{
        int r = marks_check(bus, name);

        return r != 0 ? r : sb_op_mark_drop(&bus->handle, name.data, (uint32_t)name.len);
}
