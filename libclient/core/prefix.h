/*
 * What a watch of a prefix has listed and not given yet, and in which order it gives it.
 *
 * A reading (ring/op/prefix.h) lists all that happened between two cuts. It is given by cut; of one
 * stamp each transaction without anything in between, and the changes of each key in their order.
 */
#ifndef SB_CORE_PREFIX_H
#define SB_CORE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/core/bus.h"
#include "ring/op/prefix.h"

struct sb_prefix_watch {
        struct sb_op_prefix op;
        uint64_t cut;    /* of the reading: where the watch is once all of it was given */
        uint64_t begun;  /* the cut that the watch began at, at first or again */
        bool earlier;    /* that was taken before the watch was opened */
        bool lapped;     /* something was lost, and the caller knows; the watch begins anew */
        int failed;      /* a reading ended early: -ENOMEM */
        uint64_t *cells; /* to be looked at, some twice */
        size_t cell_count, cell_room;
        struct sb_op_listed *listed;
        size_t next, listed_count, listed_room;
        unsigned char prefix[];
};

/* Begin. @after: a cut; 0: from now on. Return: 0, -ENOMEM, SB_E_FULL, -EIO. */
int sb_prefix_open(struct sb_bus *bus, struct sb_bytes prefix, uint32_t bit, uint32_t depth,
        uint64_t after, struct sb_prefix_watch **ret_watch);
/* @gone: the segment is not this process's any more. NULL is fine. */
void sb_prefix_close(struct sb_bus *bus, struct sb_prefix_watch *watch, bool gone);

/* Read on where nothing is left to be given. @told: a process has said that there may be something;
 * else the hints alone say so. Return: 0: there is something, or something was lost;
 * SB_E_TIMED_OUT: there is nothing; -ENOMEM. */
int sb_prefix_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told);
/* Give the next change, held by these two guard words, or say that some are lost. Behind
 * sb_prefix_fill(). Return: 0; SB_E_LAPPED: the watch has begun anew. */
int sb_prefix_give(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t guard,
        uint32_t old_guard, struct sb_op_change *ret);

#endif
