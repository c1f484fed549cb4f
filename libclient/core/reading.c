/* A reading of a watch of a prefix, in steps; see reading.h. */

#include "libclient/core/reading.h"

#include <errno.h>
#include <stdlib.h>

#include "libclient/core/bus.h"
#include "libclient/core/sequence.h"
#include "ring/op/prefix.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/upkeep/stable.h"

/* ---- lists that grow ---- */

/* Make room for one more entry of @size bytes in @list. Return: false: there is no memory. */
static bool reading_grow(void **list, size_t count, size_t *room, size_t size)
{
        size_t more = *room != 0 ? 2 * *room : 64;
        void *grown;

        if (count < *room)
                return true;
        grown = realloc(*list, more * size);
        if (!grown)
                return false;
        *list = grown;
        *room = more;
        return true;
}

static void reading_add_cell(struct sb_prefix_watch *watch, uint64_t cell_number)
{
        void *cells = watch->cells;

        if (!reading_grow(&cells, watch->cell_count, &watch->cell_room, sizeof(*watch->cells))) {
                watch->failed = -ENOMEM;
                return;
        }
        watch->cells = cells;
        watch->cells[watch->cell_count++] = cell_number;
}

static void reading_add_listed(const struct sb_op_listed *listed, void *context)
{
        struct sb_prefix_watch *watch = context;
        void *list = watch->listed;

        if (!reading_grow(
                    &list, watch->listed_count, &watch->listed_room, sizeof(*watch->listed))) {
                watch->failed = -ENOMEM;
                return;
        }
        watch->listed = list;
        watch->listed[watch->listed_count++] = *listed;
}

/* ---- a reading ---- */

void sb_reading_visit(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sb_prefix_watch *watch = context;

        watch->noted = true;
        reading_add_cell(watch, sb_pin_load(handle, &node->cell));
}

/* Take all hints. Return: false: some were overwritten. */
static bool reading_take_hints(struct sb_prefix_watch *watch)
{
        uint64_t cell_number;
        int r;

        while ((r = sb_op_prefix_hint(&watch->op, &cell_number)) > 0)
                reading_add_cell(watch, cell_number);
        return r == 0;
}

/* Fault READ_HINTS_EARLY: they are taken before the cut. */
static bool reading_fault_hints(struct sb_prefix_watch *watch)
{
        return SB_FAULT(READ_HINTS_EARLY) && !reading_take_hints(watch);
}

static int reading_compare_cells(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* Sort the cells that are to be looked at, and leave each once. */
static void reading_sort_cells(struct sb_prefix_watch *watch)
{
        size_t i, count = 0;

        if (watch->cell_count < 2)
                return; /* and perhaps no list yet */
        qsort(watch->cells, watch->cell_count, sizeof(*watch->cells), reading_compare_cells);
        for (i = 0; i < watch->cell_count; i++)
                if (count == 0 || watch->cells[i] != watch->cells[count - 1])
                        watch->cells[count++] = watch->cells[i];
        watch->cell_count = count;
}

/* List what happened in all of them. Return: how many have something later: these come first. */
static size_t reading_list(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        size_t i, left = 0;

        reading_sort_cells(watch);
        for (i = 0; i < watch->cell_count; i++) {
                uint64_t cell_number = watch->cells[i];

                if (sb_op_prefix_list(&bus->handle, &watch->op, cell_number, watch->cut,
                            reading_add_listed, watch)) {
                        watch->cells[i] = watch->cells[left];
                        watch->cells[left++] = cell_number;
                }
        }
        return left;
}

int sb_reading_undo(struct sb_prefix_watch *watch, const struct sb_op_prefix *before)
{
        int r = watch->failed;

        watch->op.hint = before->hint;
        watch->op.asks = before->asks;
        watch->op.trimmed = before->trimmed;
        watch->cut = watch->op.cut;
        watch->listed_count = 0;
        watch->lapped = false;
        watch->failed = 0;
        return r;
}

void sb_reading_collect(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        watch->noted = false;
        watch->next = watch->listed_count = 0;
        watch->lapped = reading_fault_hints(watch);
        sb_op_prefix_fetch_cell(&bus->handle, &watch->op);
        watch->cut = sb_clock_take_cut(&bus->handle);
        sb_op_prefix_fetch_version(&bus->handle, &watch->op);
        sb_stable_look(&bus->handle, sb_reading_visit, watch);
        watch->lapped |= !SB_FAULT(READ_HINTS_EARLY) && !reading_take_hints(watch);
}

bool sb_reading_collect_all(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        return sb_order_walk(
                &bus->handle, watch->op.prefix, watch->op.prefix_len, sb_reading_visit, watch);
}

int sb_reading_list(
        struct sb_bus *bus, struct sb_prefix_watch *watch, const struct sb_op_prefix *before)
{
        size_t left = reading_list(bus, watch);

        watch->lapped |= !sb_op_prefix_was_whole(&bus->handle, &watch->op);
        if (watch->failed == 0)
                watch->failed = sb_sequence_order(watch->listed, watch->listed_count);
        if (watch->failed != 0)
                return sb_reading_undo(watch, before);
        watch->cell_count = left;
        return 0;
}
