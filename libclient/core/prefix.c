/* What a watch of a prefix has listed, and its order; see prefix.h. */

#define _GNU_SOURCE /* qsort_r() */

#include "libclient/core/prefix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "ring/op/prefix.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/pin.h"
#include "shm/upkeep/stable.h"

/* ---- lists that grow ---- */

/* Make room for one more entry of @size bytes in @list. Return: false: there is no memory. */
static bool prefix_grow(void **list, size_t count, size_t *room, size_t size)
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

static void prefix_add_cell(struct sb_prefix_watch *watch, uint64_t cell_number)
{
        void *cells = watch->cells;

        if (!prefix_grow(&cells, watch->cell_count, &watch->cell_room, sizeof(*watch->cells))) {
                watch->failed = -ENOMEM;
                return;
        }
        watch->cells = cells;
        watch->cells[watch->cell_count++] = cell_number;
}

static void prefix_add_listed(const struct sb_op_listed *listed, void *context)
{
        struct sb_prefix_watch *watch = context;
        void *list = watch->listed;

        if (!prefix_grow(&list, watch->listed_count, &watch->listed_room, sizeof(*watch->listed))) {
                watch->failed = -ENOMEM;
                return;
        }
        watch->listed = list;
        watch->listed[watch->listed_count++] = *listed;
}

/* ---- the order of what has one stamp ---- */

static int prefix_compare_cells(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* By stamp, then by key, then by revision. */
static int prefix_compare(const void *a, const void *b)
{
        const struct sb_op_listed *x = a, *y = b;

        if (x->stamp != y->stamp)
                return x->stamp > y->stamp ? 1 : -1;
        if (x->cell_number != y->cell_number)
                return x->cell_number > y->cell_number ? 1 : -1;
        return (x->rev > y->rev) - (x->rev < y->rev);
}

/* Changes of one stamp that are given together: those of a transaction, or one plain write. Each
 * waits for the changes before its own, of the same keys. */
struct together {
        uint32_t first; /* of its members in the list of members */
        uint32_t count, waits_for;
};
struct sorting {
        const struct sb_op_listed *from;
        uint32_t count;
        uint32_t *member, *of; /* changes by what they belong to; of each change that */
        struct together *together;
        uint32_t *ready;
        uint32_t ready_count;
};

/* By transaction; plain writes, each by itself, first. */
static int prefix_compare_members(const void *a, const void *b, void *context)
{
        const struct sb_op_listed *from = context;
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        if (from[x].txn != from[y].txn)
                return from[x].txn > from[y].txn ? 1 : -1;
        return (x > y) - (x < y);
}

/* Whether change @i has the change before it to wait for: that of the same key. */
static bool prefix_follows(const struct sorting *sorting, uint32_t i)
{
        return i > 0 && i < sorting->count &&
               sorting->from[i].cell_number == sorting->from[i - 1].cell_number;
}

/* Put together what belongs together. */
static void prefix_put_together(struct sorting *sorting)
{
        struct together *together = NULL;
        uint32_t i, number = 0;

        for (i = 0; i < sorting->count; i++)
                sorting->member[i] = i;
        qsort_r(sorting->member, sorting->count, sizeof(*sorting->member), prefix_compare_members,
                (void *)(uintptr_t)sorting->from);
        for (i = 0; i < sorting->count; i++) {
                uint32_t change = sorting->member[i];
                uint64_t txn = sorting->from[change].txn;

                if (!together || txn == 0 || txn != sorting->from[sorting->member[i - 1]].txn) {
                        together = &sorting->together[number++];
                        *together = (struct together){.first = i};
                }
                together->count++;
                together->waits_for += prefix_follows(sorting, change);
                sorting->of[change] = number - 1;
        }
        for (i = 0; i < number; i++)
                if (sorting->together[i].waits_for == 0)
                        sorting->ready[sorting->ready_count++] = i;
}

/* Write the changes to @to in an order in which none comes before what it waits for. Transactions
 * have such an order, because they have one in time; in a damaged segment the rest comes last. */
static void prefix_order(struct sorting *sorting, struct sb_op_listed *to)
{
        uint32_t done = 0, next, i;

        prefix_put_together(sorting);
        for (next = 0; next < sorting->ready_count; next++) {
                const struct together *together = &sorting->together[sorting->ready[next]];

                for (i = together->first; i < together->first + together->count; i++) {
                        uint32_t change = sorting->member[i];

                        to[done++] = sorting->from[change];
                        sorting->member[i] = UINT32_MAX;
                        if (prefix_follows(sorting, change + 1) &&
                                --sorting->together[sorting->of[change + 1]].waits_for == 0)
                                sorting->ready[sorting->ready_count++] = sorting->of[change + 1];
                }
        }
        for (i = 0; i < sorting->count && done < sorting->count; i++)
                if (sorting->member[i] != UINT32_MAX)
                        to[done++] = sorting->from[sorting->member[i]];
}

/* Order @count changes of one stamp, sorted by key and revision. Return: 0, -ENOMEM. */
static int prefix_sort_one(struct sb_op_listed *list, uint32_t count)
{
        struct sorting sorting = {.from = list, .count = count};
        struct sb_op_listed *to = malloc(count * sizeof(*to));
        uint32_t *words = malloc(3 * count * sizeof(*words));
        bool room;

        sorting.together = malloc(count * sizeof(*sorting.together));
        room = to && words && sorting.together;
        if (room) {
                sorting.member = words;
                sorting.of = words + count;
                sorting.ready = words + 2 * (size_t)count;
                prefix_order(&sorting, to);
                memcpy(list, to, count * sizeof(*to));
        }
        free(sorting.together);
        free(words);
        free(to);
        return room ? 0 : -ENOMEM;
}

/* Whether it takes more than the sorting by key: a transaction, and something else. */
static bool prefix_is_mixed(const struct sb_op_listed *list, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (list[i].txn != list[0].txn)
                        return true;
        return false;
}

/* Return: 0, -ENOMEM. */
static int prefix_sort(struct sb_op_listed *list, size_t count)
{
        size_t first = 0, end;

        if (count == 0)
                return 0; /* and no list yet */
        qsort(list, count, sizeof(*list), prefix_compare);
        for (; first < count; first = end) {
                for (end = first + 1; end < count && list[end].stamp == list[first].stamp;)
                        end++;
                if (prefix_is_mixed(list + first, end - first) &&
                        prefix_sort_one(list + first, (uint32_t)(end - first)) != 0)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- a reading ---- */

static void prefix_visit(struct sb_handle *handle, struct sb_node *node, void *context)
{
        prefix_add_cell(context, sb_pin_load(handle, &node->cell));
}

/* Take all hints. Return: false: some were overwritten. */
static bool prefix_take_hints(struct sb_prefix_watch *watch)
{
        uint64_t cell_number;
        int r;

        while ((r = sb_op_prefix_hint(&watch->op, &cell_number)) > 0)
                prefix_add_cell(watch, cell_number);
        return r == 0;
}

/* Fault READ_HINTS_EARLY: they are taken before the cut. */
static bool prefix_fault_hints(struct sb_prefix_watch *watch)
{
        return SB_FAULT(READ_HINTS_EARLY) && !prefix_take_hints(watch);
}

/* Sort the cells that are to be looked at, and leave each once. */
static void prefix_sort_cells(struct sb_prefix_watch *watch)
{
        size_t i, count = 0;

        if (watch->cell_count == 0)
                return; /* and no list yet */
        qsort(watch->cells, watch->cell_count, sizeof(*watch->cells), prefix_compare_cells);
        for (i = 0; i < watch->cell_count; i++)
                if (count == 0 || watch->cells[i] != watch->cells[count - 1])
                        watch->cells[count++] = watch->cells[i];
        watch->cell_count = count;
}

/* List what happened in all of them. Return: how many have something later: these come first. */
static size_t prefix_list(struct sb_bus *bus, struct sb_prefix_watch *watch)
{
        size_t i, left = 0;

        prefix_sort_cells(watch);
        for (i = 0; i < watch->cell_count; i++) {
                uint64_t cell_number = watch->cells[i];

                if (sb_op_prefix_list(&bus->handle, &watch->op, cell_number, watch->cut,
                            prefix_add_listed, watch)) {
                        watch->cells[i] = watch->cells[left];
                        watch->cells[left++] = cell_number;
                }
        }
        return left;
}

/* Undo a reading that had no memory: the next one looks at the same cells, and takes the same
 * hints. What a note showed has been hinted since, or is noted still. Return: -ENOMEM. */
static int prefix_undo(struct sb_prefix_watch *watch, const struct sb_op_prefix *before)
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

int sb_prefix_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told)
{
        struct sb_op_prefix before;
        size_t left;

        if (watch->lapped || watch->next < watch->listed_count)
                return 0;
        /* A reading takes a cut, which all clients notice: not for each look in vain. */
        if (!told && watch->cell_count == 0 && !sb_prefix_is_hinted(&watch->op))
                return SB_E_TIMED_OUT;
        /* All of the last reading was given. */
        if (watch->cut > watch->op.cut)
                watch->op.cut = watch->cut;
        watch->next = watch->listed_count = 0;
        before = watch->op;
        watch->lapped = prefix_fault_hints(watch);
        watch->cut = sb_stable_look(&bus->handle, prefix_visit, watch);
        watch->lapped |= !SB_FAULT(READ_HINTS_EARLY) && !prefix_take_hints(watch);
        left = prefix_list(bus, watch);
        watch->lapped |= !sb_op_prefix_was_whole(&bus->handle, &watch->op);
        if (watch->failed == 0)
                watch->failed = prefix_sort(watch->listed, watch->listed_count);
        if (watch->failed != 0)
                return prefix_undo(watch, &before);
        watch->cell_count = left;
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
        int r = sb_op_prefix_after(&bus->handle, &watch->op, after, prefix_visit, watch) ? 0 : -EIO;

        return watch->failed != 0 ? watch->failed : r;
}

int sb_prefix_open(struct sb_bus *bus, struct sb_bytes prefix, uint32_t bit, uint32_t depth,
        uint64_t after, struct sb_prefix_watch **ret_watch)
{
        struct sb_prefix_watch *watch = calloc(1, sizeof(*watch) + prefix.len);
        int r;

        if (!watch)
                return -ENOMEM;
        if (prefix.len > 0)
                memcpy(watch->prefix, prefix.data, prefix.len);
        r = sb_op_prefix_begin(
                &bus->handle, watch->prefix, (uint32_t)prefix.len, bit, depth, &watch->op);
        if (r != 0) {
                free(watch);
                return r;
        }
        r = after != 0 ? prefix_begin_after(bus, watch, after) : 0;
        if (r != 0) {
                sb_prefix_close(bus, watch, false);
                return r;
        }
        watch->cut = watch->begun = watch->op.cut;
        watch->earlier = after != 0;
        *ret_watch = watch;
        return 0;
}

void sb_prefix_close(struct sb_bus *bus, struct sb_prefix_watch *watch, bool gone)
{
        if (!watch)
                return;
        if (!gone)
                sb_op_prefix_end(&bus->handle, &watch->op);
        free(watch->cells);
        free(watch->listed);
        free(watch);
}
