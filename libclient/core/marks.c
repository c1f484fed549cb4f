/*
 * Marks: cuts under a name. ring/op/mark.h does the work; here the arguments are checked.
 *
 * Always true: what goes further has a name of a legal length, and a bus that is attached; a mark
 * that is made has a name that agentctl can say.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"
#include "libclient/core/moment-text.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
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

/* Whether a mark may be called so. A name that means another moment on agentctl's command line
 * could
 * not be said there. Return: 0, -EINVAL, -EPERM. */
static int marks_check_new(struct sb_bytes name)
{
        struct sb_moment_text moment;

        if (sb_moment_text_read(name, &moment) != SB_MOMENT_TEXT_NAME)
                return -EINVAL;
        return sb_write_key(name);
}

int sb_mark(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = !ret_cut ? -EINVAL : marks_check(bus, name), refused = 0;

        SB_USE(bus, sb_mark(bus, name, ret_cut));
        if (r == 0 || r == SB_E_DETACHED)
                refused = marks_check_new(name);
        if (r == 0 && refused == 0)
                refused = sb_write_open(bus);
        if (r == 0 && refused == 0)
                r = sb_bus_result(
                        bus, sb_op_mark(&bus->handle, name.data, (uint32_t)name.len, ret_cut));
        if (r == 0 && refused == 0)
                r = sb_write_last_own(bus);
        return refused != 0 ? refused : r;
}

int sb_mark_find(struct sb_bus *bus, struct sb_bytes name, uint64_t *ret_cut)
{
        int r = !ret_cut ? -EINVAL : marks_check(bus, name);

        SB_USE(bus, sb_mark_find(bus, name, ret_cut));
        return r != 0 ? r
                      : sb_bus_result(bus, sb_op_mark_find(&bus->handle, name.data,
                                                   (uint32_t)name.len, ret_cut));
}

int sb_mark_drop(struct sb_bus *bus, struct sb_bytes name)
{
        int r = marks_check(bus, name);

        SB_USE(bus, sb_mark_drop(bus, name));
        r = r != 0 ? r : sb_write_open(bus);
        r = r != 0 ? r
                   : sb_bus_result(
                             bus, sb_op_mark_drop(&bus->handle, name.data, (uint32_t)name.len));
        return r != 0 ? r : sb_write_last_own(bus);
}
