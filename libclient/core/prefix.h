/*
 * What a watch of a prefix has listed and not given yet.
 *
 * A reading (ring/op/prefix.h) lists all that happened between two cuts, which is given in an order
 * of its own (sequence.h). A watch that drops keeps of it what it has room for (backlog.h).
 */
#ifndef SB_CORE_PREFIX_H
#define SB_CORE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/core/bus.h"
#include "libclient/core/reading.h"
#include "ring/op/prefix.h"

struct sb_prefix_how {
        uint32_t depth; /* changes that are kept; of a watch that drops, the room that it has */
        bool drops;
        uint64_t after; /* a cut; 0: from now on */
};

/* Begin. Return: 0, -ENOMEM, SB_E_FULL, -EIO. */
int sb_prefix_open(struct sb_bus *bus, struct sb_bytes prefix, uint32_t bit,
        const struct sb_prefix_how *how, struct sb_prefix_watch **ret_watch);
/* @gone: the segment is not this process's any more. NULL is fine. */
void sb_prefix_close(struct sb_bus *bus, struct sb_prefix_watch *watch, bool gone);

/* Read on where nothing is left to be given. @told: a process has said that there may be something;
 * else the hints alone say so. Return: 0: there is something, or something was lost;
 * SB_E_TIMED_OUT: there is nothing; -ENOMEM. */
int sb_prefix_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told);
/* Give the next change, held by these two guard words, or say that some are lost. Behind
 * sb_prefix_fill(). Return: 0; SB_E_LAPPED: the watch has begun anew; SB_E_TIMED_OUT: what a watch
 * that drops had is gone, and nothing came since. */
int sb_prefix_give(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t guard,
        uint32_t old_guard, struct sb_op_change *ret);

#endif
