/* The order in which a watch of a prefix gives what it has listed; see sequence.h. */

#define _GNU_SOURCE /* qsort_r() */

#include "libclient/core/sequence.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ring/op/prefix.h"

/* By stamp, then by key, then by revision. */
static int sequence_compare(const void *a, const void *b)
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
static int sequence_compare_members(const void *a, const void *b, void *context)
{
        const struct sb_op_listed *from = context;
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        if (from[x].txn != from[y].txn)
                return from[x].txn > from[y].txn ? 1 : -1;
        return (x > y) - (x < y);
}

/* Whether change @i has the change before it to wait for: that of the same key. */
static bool sequence_follows(const struct sorting *sorting, uint32_t i)
{
        return i > 0 && i < sorting->count &&
               sorting->from[i].cell_number == sorting->from[i - 1].cell_number;
}

/* Put together what belongs together. */
static void sequence_put_together(struct sorting *sorting)
{
        struct together *together = NULL;
        uint32_t i, number = 0;

        for (i = 0; i < sorting->count; i++)
                sorting->member[i] = i;
        qsort_r(sorting->member, sorting->count, sizeof(*sorting->member), sequence_compare_members,
                (void *)(uintptr_t)sorting->from);
        for (i = 0; i < sorting->count; i++) {
                uint32_t change = sorting->member[i];
                uint64_t txn = sorting->from[change].txn;

                if (!together || txn == 0 || txn != sorting->from[sorting->member[i - 1]].txn) {
                        together = &sorting->together[number++];
                        *together = (struct together){.first = i};
                }
                together->count++;
                together->waits_for += sequence_follows(sorting, change);
                sorting->of[change] = number - 1;
        }
        for (i = 0; i < number; i++)
                if (sorting->together[i].waits_for == 0)
                        sorting->ready[sorting->ready_count++] = i;
}

/* Write the changes to @to in an order in which none comes before what it waits for. Transactions
 * have such an order, because they have one in time; in a damaged segment the rest comes last. */
static void sequence_order(struct sorting *sorting, struct sb_op_listed *to)
{
        uint32_t done = 0, next, i;

        sequence_put_together(sorting);
        for (next = 0; next < sorting->ready_count; next++) {
                const struct together *together = &sorting->together[sorting->ready[next]];

                for (i = together->first; i < together->first + together->count; i++) {
                        uint32_t change = sorting->member[i];

                        to[done++] = sorting->from[change];
                        sorting->member[i] = UINT32_MAX;
                        if (sequence_follows(sorting, change + 1) &&
                                --sorting->together[sorting->of[change + 1]].waits_for == 0)
                                sorting->ready[sorting->ready_count++] = sorting->of[change + 1];
                }
        }
        for (i = 0; i < sorting->count && done < sorting->count; i++)
                if (sorting->member[i] != UINT32_MAX)
                        to[done++] = sorting->from[sorting->member[i]];
}

/* Order @count changes of one stamp, sorted by key and revision. Return: 0, -ENOMEM. */
static int sequence_sort_one(struct sb_op_listed *list, uint32_t count)
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
                sequence_order(&sorting, to);
                memcpy(list, to, count * sizeof(*to));
        }
        free(sorting.together);
        free(words);
        free(to);
        return room ? 0 : -ENOMEM;
}

/* Whether it takes more than the sorting by key: a transaction, and something else. */
static bool sequence_is_mixed(const struct sb_op_listed *list, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (list[i].txn != list[0].txn)
                        return true;
        return false;
}

int sb_sequence_order(struct sb_op_listed *list, size_t count)
{
        size_t first = 0, end;

        if (count < 2)
                return 0; /* and perhaps no list yet */
        qsort(list, count, sizeof(*list), sequence_compare);
        for (; first < count; first = end) {
                for (end = first + 1; end < count && list[end].stamp == list[first].stamp;)
                        end++;
                if (sequence_is_mixed(list + first, end - first) &&
                        sequence_sort_one(list + first, (uint32_t)(end - first)) != 0)
                        return -ENOMEM;
        }
        return 0;
}
