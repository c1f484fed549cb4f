/*
 * What a struct sb_bus is inside: an attached peer, and what the public calls need around it.
 *
 * All of it is private heap memory. The words that say whether the bus may still be used are two: `alive`, in a page of its
 * own that a fork() wipes in the child, and the superblock's state.
 *
 * Guard places: place i is guard word i of the client's record. Free ones are linked through `next_free`, the last one given
 * back first, so that a get uses a warm one. A place's serial counts how often it was given back: a guard names place and
 * serial, so that a copy of a guard that was released lets go of nothing that is held since.
 */
#ifndef SB_BUS_H
#define SB_BUS_H

#include <errno.h>

#include "libclient/statebus.h"
#include "shm/epoch.h"
#include "shm/peer.h"

struct sb_attachment;

struct sb_bus_place {
        uint32_t next_free; /* number + 1 of the next free place, 0: none */
        uint32_t serial;
};

struct sb_bus {
        const struct sb_cell32 *alive; /* 1; 0 in a forked child */
        struct sb_bus_place *places;
        uint32_t place_free;           /* number + 1 of the first free place, 0: none */
        uint32_t place_free_count;
        uint32_t place_count;          /* places 0 .. place_count-1 have a guard word */
        uint32_t place_capacity;       /* of the array */
        enum sb_access access;
        struct sb_attachment *attachment; /* what sb_close() unmaps and frees; NULL: the segment is somebody else's */
        struct sb_scan *scans;         /* the open ones */
        struct sb_peer peer;
};

/* A bus around what attaching gave. @attachment, on mimalloc's heap, is taken over on success alone; NULL: the segment stays
 * mapped as long as the bus lives, without its help. Return: 0, -ENOMEM, -errno of mmap or madvise. */
int sb_bus_new(const struct sb_segment *segment, uint32_t slot, uint32_t generation, enum sb_access access,
        struct sb_attachment *attachment, struct sb_bus **ret_bus);

/* For tests and benchmarks: a bus on a segment of this process, whose client record was claimed by sb_slot_claim(). The
 * segment outlives the bus. */
int sb_bus_open_segment(const struct sb_segment *segment, uint32_t slot, uint32_t generation, struct sb_bus **ret_bus);

/* Make at least @count places free. Return: 0, SB_E_FULL, -ENOMEM. */
int sb_bus_places_grow(struct sb_bus *bus, uint32_t count);

/* Whether the bus can still be used: one load of a private word, one of a line that every pin reads anyway. */
static inline bool sb_bus_detached(const struct sb_bus *bus)
{
        /* Relaxed: both words only ever leave their first value, and what is read after them is checked by itself. */
        return SB_UNLIKELY(sb_load_relaxed(bus->alive) == 0) ||
               SB_UNLIKELY(sb_load_relaxed(&bus->peer.segment.super->state) != SB_SEGMENT_SERVING);
}

static inline int sb_bus_key_check(const struct sb_bus *bus, struct sb_bytes key)
{
        if (SB_UNLIKELY(key.data == NULL || key.len == 0))
                return -EINVAL;
        if (SB_UNLIKELY(key.len > bus->peer.segment.key_len_max))
                return -ENAMETOOLONG;
        return 0;
}

static inline int sb_bus_place_reserve(struct sb_bus *bus, uint32_t count)
{
        return SB_LIKELY(bus->place_free_count >= count) ? 0 : sb_bus_places_grow(bus, count);
}

/* The place that the next sb_bus_place_take() takes; there is one. */
static inline uint32_t sb_bus_place_first(const struct sb_bus *bus)
{
        return bus->place_free - 1;
}

static inline uint32_t sb_bus_place_take(struct sb_bus *bus)
{
        uint32_t place = bus->place_free - 1;

        bus->place_free = bus->places[place].next_free;
        bus->place_free_count--;
        return place;
}

static inline void sb_bus_place_give(struct sb_bus *bus, uint32_t place)
{
        bus->places[place].serial++;
        bus->places[place].next_free = bus->place_free;
        bus->place_free = place + 1;
        bus->place_free_count++;
}

/* Describe @version, which guard word @place holds, and which is stamped. */
static inline void sb_bus_guard_fill(struct sb_bus *bus, uint32_t place, struct sb_version *version,
        struct sb_guard *ret_guard)
{
        uint64_t shape = version->shape;
        uint32_t key_len = SB_SHAPE_KEY_LEN(shape);

        *ret_guard = (struct sb_guard){
                .key = {version->bytes, key_len},
                .value = {version->bytes + key_len, SB_SHAPE_VALUE_LEN(shape)},
                .rev = version->rev,
                /* Relaxed: stamped before it was handed out, and never changed again. */
                .cut = sb_load_relaxed(&version->stamp),
                .kind = SB_SHAPE_KIND(shape) & SB_VERSION_KIND,
                .writer = SB_SHAPE_WRITER(shape),
                .bus = bus,
                .reserved = {(uint64_t)bus->places[place].serial << 32 | place},
        };
}

#endif
