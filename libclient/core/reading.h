/*
 * A reading of a watch of a prefix, in steps (ring/op/prefix.h): a cut is taken; the cells where
 * something came are collected; what came in them between two cuts is listed, in the order in which
 * it is given (sequence.h).
 */
#ifndef SB_CORE_READING_H
#define SB_CORE_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/core/bus.h"
#include "ring/op/prefix.h"

struct sb_backlog;

struct sb_prefix_watch {
        struct sb_op_prefix op;
        struct sb_backlog *backlog; /* NULL: it drops nothing */
        uint64_t cut;    /* of the reading: where the watch is once all of it was given */
        uint64_t begun;  /* the cut that the watch began at, at first or again */
        bool earlier;    /* that was taken before the watch was opened */
        bool lapped;     /* something was lost, and the caller knows; the watch begins anew */
        bool noted;      /* the last reading met something that was being written */
        int failed;      /* a reading ended early: -ENOMEM */
        uint64_t *cells; /* to be looked at, some twice */
        size_t cell_count, cell_room;
        struct sb_op_listed *listed;
        size_t next, listed_count, listed_room;
        unsigned char prefix[];
};

/* Collect the cell of a key. @context: the watch. */
void sb_reading_visit(struct sb_handle *handle, struct sb_node *node, void *context);
/* Take a cut, watch->cut, and collect the cells where something came up to it. watch->lapped: hints
 * were overwritten. */
void sb_reading_collect(struct sb_bus *bus, struct sb_prefix_watch *watch);
/* Collect the cells of all keys. Return: false: the segment is damaged. */
bool sb_reading_collect_all(struct sb_bus *bus, struct sb_prefix_watch *watch);
/* Undo a reading that had no memory: the next one looks at the same cells, and takes the same
 * hints. What a note showed has been hinted since, or is noted still. Return: -ENOMEM. */
int sb_reading_undo(struct sb_prefix_watch *watch, const struct sb_op_prefix *before);
/* List what came in them up to watch->cut, in order. @before: what the watch was before it
 * collected them. Return: 0; -ENOMEM: nothing has happened. */
int sb_reading_list(
        struct sb_bus *bus, struct sb_prefix_watch *watch, const struct sb_op_prefix *before);

#endif
