/*
 * Which watches a bus has, and which of them have perhaps something to see.
 *
 * A watch has a place in the bus's table, and the dirty bit of that place; beyond 4,096 places two
 * or more share one. Those that are dirty are in a list, the one that waits for longest first: so a
 * wait, and a caller that asks which watch is ready, go by no other.
 *
 * Always true: a watch that is not dirty was looked at, and has nothing, or a process will set its
 * bit.
 */
#ifndef SB_CORE_WATCHES_H
#define SB_CORE_WATCHES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "libclient/core/bus.h"
#include "libclient/core/prefix.h"
#include "ring/op/anchor.h"
#include "ring/op/watch.h"
#include "shm/base/word.h"

struct sb_watch {
        struct sb_bus *bus; /* NULL: the bus was closed */
        uint32_t place;     /* in the bus's table */
        bool dirty;         /* it is to be looked at, and in the list of such */
        TAILQ_ENTRY(sb_watch) entry;
        void *data; /* the caller's */
        struct sb_op_watch op;
        struct sb_anchors anchors;      /* lent to op while it is far behind */
        struct sb_prefix_watch *prefix; /* NULL: a watch of one key, which is op */
};

/* Take a free place for @watch, and say in it that it is this bus's. Return: 0, -ENOMEM. */
int sb_watches_enter(struct sb_bus *bus, struct sb_watch *watch);
/* The watch is not dirty: its place is free from now on. */
void sb_watches_leave(struct sb_bus *bus, const struct sb_watch *watch);
/* Note whether the watch is to be looked at. One that is anew goes behind the others. */
void sb_watches_note(struct sb_watch *watch, bool dirty);
/* Lend the watch of a key guard words for its anchors (ring/op/anchor.h), if it is worth them and
 * the bus has them; and take them back. @gone: the segment is not this process's any more. */
void sb_watches_lend(struct sb_watch *watch);
void sb_watches_take_back(struct sb_watch *watch, bool gone);
/* Take all dirty bits, and say so in the watches that they stand for. Cost: of the bits; where
 * watches share them, of all that do. */
void sb_watches_take_bits(struct sb_bus *bus);

/* Whether a watch of a prefix holds the cut that it began at, until its first next. */
bool sb_bus_holds_cut(const struct sb_bus *bus, uint64_t cut);
/* Whether a watch of this prefix, or of a shorter one, began at the cut, and nothing above that was
 * given up so far: then all keys with the prefix are what they were, as far as it was read. */
bool sb_bus_keeps_cut(
        const struct sb_bus *bus, uint64_t cut, const unsigned char *prefix, uint32_t prefix_len);

#endif
