/*
 * What a struct sb_bus is inside: an attached peer, and what the public calls need around it.
 *
 * All of it is private heap memory. Whether the bus may still be used is said by `alive`, in a page of its own that a fork() wipes
 * in the child, and by a line of the superblock: its state, and whether keeper and engine live.
 *
 * Guard places: place i is guard word i of the client's record. Free ones are linked through `next_free`, the last one given
 * back first, so that a get uses a warm one. A place's serial counts how often it was given back: a guard names place and
 * serial, so that a copy of a guard that was released lets go of nothing that is held since.
 */
#ifndef SB_BUS_H
#define SB_BUS_H

#include <errno.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "shm/epoch.h"
#include "shm/peer.h"

struct sb_bus_place {
        uint32_t next_free; /* number + 1 of the next free place, 0: none */
        uint32_t serial;
};

/* Where a bus came from: unmapped and freed by sb_close(). */
struct sb_bus_home {
        struct sb_place place;
        struct sb_attachment attachment;
};

struct sb_bus {
        const struct sb_cell32 *alive; /* 1; 0 in a forked child */
        struct sb_bus_place *places;
        uint32_t place_free;           /* number + 1 of the first free place, 0: none */
        uint32_t place_free_count;
        uint32_t place_count;          /* places 0 .. place_count-1 have a guard word */
        uint32_t place_capacity;       /* of the array */
        enum sb_access access;
        struct sb_bus_home *home;      /* NULL: the segment is somebody else's */
        bool lost;                     /* nobody will ever serve the segment again */
        struct sb_scan *scans;         /* the open ones */
        struct sb_peer peer;
};

/* A bus around what attaching gave. @home, on mimalloc's heap, is taken over on success alone; NULL: the segment stays mapped as
 * long as the bus lives, without its help. Return: 0, -ENOMEM, -errno of mmap or madvise. */
int sb_bus_new(const struct sb_segment *segment, uint32_t slot, uint32_t generation, enum sb_access access,
        struct sb_bus_home *home, struct sb_bus **ret_bus);

/* For tests and benchmarks: a bus on a segment of this process, whose client record was claimed by sb_slot_claim(). The
 * segment outlives the bus. */
int sb_bus_open_segment(const struct sb_segment *segment, uint32_t slot, uint32_t generation, struct sb_bus **ret_bus);

/* Make at least @count places free. Return: 0, SB_E_FULL, -ENOMEM. */
int sb_bus_places_grow(struct sb_bus *bus, uint32_t count);

/* The slow half of sb_bus_detached(): keeper and engine seem dead. */
bool sb_bus_lost(struct sb_bus *bus);

/* Whether the bus can still be used: one load of a private word, a few of a line that every pin reads anyway. */
static inline bool sb_bus_detached(struct sb_bus *bus)
{
        /* Relaxed: the value alone matters, and what is read in the segment is checked by itself. */
        if (SB_UNLIKELY(sb_load_relaxed(bus->alive) == 0))
                return true;
        return SB_UNLIKELY(!sb_segment_serving(&bus->peer.segment)) && sb_bus_lost(bus);
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
