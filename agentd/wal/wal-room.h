/*
 * How large a segment is to be in which a bus comes back: as large as --size says, and where all of
 * it has no room in that, larger.
 *
 *      --size, a sixteenth more, an eighth more; the same, without the past that rules of before
 *      kept; a quarter, a half, as much again: if it takes no more than a bus with an eighth more
 *      can have
 *
 * Always true: what a segment has more than --size is held back (`held_units`), so that it is not
 * filled. Else a bus that is full would ask for more with each start. So what it has is at each
 * start what fitted into --size, or fewer keys than the last start brought back and what fits
 * between them.
 */
#ifndef SB_WAL_ROOM_H
#define SB_WAL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/config.h"
#include "agentd/memory.h"
#include "shm/layout/segment.h"

/* Makes a segment of the size that @config says, and brings the bus back into it; with @forward
 * without what was replaced before the rules that apply now began. Return: 0; -ENOSPC: there is no
 * room; -errno; -1, and it has said why. */
typedef int sb_wal_room_make(
        void *context, const struct sb_config *config, bool forward, struct sb_memory *ret);

struct sb_wal_room {
        const struct sb_config *config;
        bool has_rules; /* there may be such a past */
        sb_wal_room_make *make;
        void *context;
        /* The rest is zero at first. */
        uint64_t asked;     /* bytes of units that a segment of --size has for values */
        uint64_t size;      /* of the segment that was tried last */
        uint64_t taken;     /* bytes of blocks that are taken in it, if all of it fits */
        uint64_t history;   /* bytes that rules kept in it, as far as was known */
        uint64_t value_len; /* of a value that is too long for it; 0 */
        bool does;          /* all fits into that size, and --size is too small by far */
};

/* Finds a size. Return: 0; -1: make() has said why; -ENOSPC: --size is too small; -errno. Cost: at
 * worst nine makes, of twice the size at most, or 512 KiB more. */
int sb_wal_room_find(struct sb_wal_room *room, struct sb_memory *ret);

/* For make(): the segment is empty, or all is in it, or what had room; no handle has a part of it
 * in hand. */
void sb_wal_room_see_empty(struct sb_wal_room *room, const struct sb_segment *segment);
void sb_wal_room_see_loaded(struct sb_wal_room *room, struct sb_segment *segment);
void sb_wal_room_see_full(struct sb_wal_room *room, const struct sb_segment *segment);

#endif
