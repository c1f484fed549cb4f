/* A watch of a prefix, and what it has listed and not given yet; see prefix.h. */

#include "libclient/core/prefix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/backlog.h"
#include "libclient/core/bus.h"
#include "libclient/core/reading.h"
#include "ring/op/prefix.h"
#include "shm/base/result.h"

/* ---- reading and giving ---- */

int sb_prefix_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told)
{
        struct sb_op_prefix before;
        int r;

        if (watch->backlog)
                return sb_backlog_fill(bus, watch, told);
        if (watch->lapped || watch->next < watch->listed_count)
                return 0;
        /* A reading takes a cut, which all clients notice: not for each look in vain. */
        if (!told && watch->cell_count == 0 && !sb_prefix_is_hinted(&watch->op))
                return SB_E_TIMED_OUT;
        /* All of the last reading was given. */
        if (watch->cut > watch->op.cut)
                watch->op.cut = watch->cut;
        before = watch->op;
        sb_reading_collect(bus, watch);
        r = sb_reading_list(bus, watch, &before);
        if (r != 0)
                return r;
        return watch->lapped || watch->listed_count > 0 ? 0 : SB_E_TIMED_OUT;
}

/* Begin anew, behind a loss; in a damaged segment with the next call again. */
static int prefix_begin_again(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        watch->lapped = !sb_op_prefix_again(&bus->handle, &watch->op);
        watch->earlier = false;
        watch->cell_count = watch->next = watch->listed_count = 0;
        watch->cut = watch->begun = watch->op.cut;
        return SB_E_LAPPED;
}

int sb_prefix_give(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t guard,
        uint32_t old_guard, struct sb_op_change *ret)
{
        if (watch->backlog)
                return sb_backlog_give(bus, watch, guard, old_guard, ret);
        if (!watch->lapped && sb_op_prefix_take(&bus->handle, &watch->op,
                                      &watch->listed[watch->next], guard, old_guard, ret)) {
                watch->next++;
                return 0;
        }
        return prefix_begin_again(bus, watch);
}

/* ---- opening and closing ---- */

/* Begin at a cut that was taken before. Return: 0, -ENOMEM, -EIO. */
static int prefix_begin_after(struct sb_bus *bus, struct sb_prefix_watch *watch, uint64_t after)
{
        int r = sb_op_prefix_after(&bus->handle, &watch->op, after, sb_reading_visit, watch) ? 0
                                                                                             : -EIO;

        return watch->failed != 0 ? watch->failed : r;
}

/* Return: 0, -ENOMEM, SB_E_FULL, -EIO. */
static int prefix_begin(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t prefix_len,
        uint32_t bit, const struct sb_prefix_how *how)
{
        int r;

        if (!how->drops)
                return sb_op_prefix_begin(
                        &bus->handle, watch->prefix, prefix_len, bit, how->depth, &watch->op);
        watch->backlog = sb_backlog_new(how->depth);
        if (!watch->backlog)
                return -ENOMEM;
        r = sb_op_prefix_begin_dropping(
                &bus->handle, watch->prefix, prefix_len, bit, how->depth, how->after, &watch->op);
        if (r == 0)
                sb_backlog_begin(watch);
        return r;
}

int sb_prefix_open(struct sb_bus *bus, struct sb_bytes prefix, uint32_t bit,
        const struct sb_prefix_how *how, struct sb_prefix_watch **ret_watch)
{
        struct sb_prefix_watch *watch = calloc(1, sizeof(*watch) + prefix.len);
        int r;

        if (!watch)
                return -ENOMEM;
        if (prefix.len > 0)
                memcpy(watch->prefix, prefix.data, prefix.len);
        r = prefix_begin(bus, watch, (uint32_t)prefix.len, bit, how);
        if (r != 0) {
                sb_prefix_close(bus, watch, true);
                return r;
        }
        r = how->after != 0 ? prefix_begin_after(bus, watch, how->after) : 0;
        watch->cut = watch->begun = watch->op.cut;
        watch->earlier = how->after != 0;
        /* What has come since is in the queue, or dropped, from here on. */
        if (r == 0 && watch->backlog && watch->earlier)
                r = sb_backlog_read(bus, watch);
        if (r != 0) {
                sb_prefix_close(bus, watch, false);
                return r;
        }
        *ret_watch = watch;
        return 0;
}

void sb_prefix_close(struct sb_bus *bus, struct sb_prefix_watch *watch, bool gone)
{
        if (!watch)
                return;
        if (!gone)
                sb_op_prefix_end(&bus->handle, &watch->op);
        sb_backlog_free(watch->backlog);
        free(watch->cells);
        free(watch->listed);
        free(watch);
}
