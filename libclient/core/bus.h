/*
 * What a struct sb_bus is inside: an attached peer, and what the public calls need around it.
 *
 * All of it is private heap memory. Whether the bus may still be used is said by `alive`, in a page
 * of its own that a fork() wipes in the child, and by a line of the superblock: its state, and
 * whether keeper and engine live.
 *
 * Guard places: place i is guard word i of the client's record. The free ones are a stack, the last
 * one given back on top, so that a get uses a warm one. A place's ticket is {place, times it was
 * given back}: a guard carries it, so that a copy of a guard that was released lets go of nothing
 * that is held since. Place 0 stands apart: it is for who gets, reads and releases before the next
 * get, which it serves with a third of the instructions. `quick` counts its takings and givings:
 * odd while it is held (or not made yet, or joined the others), and a guard's ticket while it holds
 * it.
 */
#ifndef SB_BUS_H
#define SB_BUS_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <errno.h>
#include <string.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "ring/attach/place.h"
#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* Where a bus came from: unmapped and freed by sb_close(). */
struct sb_bus_home {
        struct sb_place place;
        struct sb_attachment attachment;
};

#define SB_BUS_QUICK (UINT64_C(1) << 63)
/* In a ticket: the guard holds private memory instead of a version (libclient/core/write-set.h),
 * which its reserved[1] names; the place's guard word holds nothing. */
#define SB_BUS_PRIVATE (UINT64_C(1) << 31)

struct sb_bus {
        const struct sb_cell32 *alive; /* 1; 0 in a forked child */
        uint64_t quick;                /* SB_BUS_QUICK | count */
        uint64_t *tickets;             /* of each place: times it was given back << 32 | place */
        uint32_t *places_free;         /* a stack, as long as @tickets */
        uint32_t place_free_count;
        uint32_t place_count;    /* places 0 .. place_count-1 have a guard word */
        uint32_t place_capacity; /* of the array */
        enum sb_access access;
        struct sb_bus_home *home; /* NULL: the segment is somebody else's */
        bool lost;                /* nobody will ever serve the segment again */
        struct sb_scan *scans;    /* the open ones */
        struct sb_history *histories;
        struct sb_txn *txns;             /* that have not ended */
        struct sb_txn *txn_spare;        /* one that ended: for the next */
        struct sb_write_set_value *held; /* by guards with SB_BUS_PRIVATE */
        struct sb_peer peer;
};

/* A bus around what attaching gave. @home, on mimalloc's heap, is taken over on success alone;
 * NULL: the segment stays mapped as long as the bus lives, without its help. Return: 0, -ENOMEM,
 * -errno of mmap or madvise. */
int sb_bus_new(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        enum sb_access access, struct sb_bus_home *home, struct sb_bus **ret_bus);

/* For tests and benchmarks: a bus on a segment of this process, whose client record was claimed by
 * sb_slot_claim(). The segment outlives the bus. */
int sb_bus_open_segment(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        struct sb_bus **ret_bus);

/* Make at least @count places free. Return: 0, SB_E_FULL, -ENOMEM. */
int sb_bus_places_grow(struct sb_bus *bus, uint32_t count);

/* The slow half of sb_bus_detached(): keeper and engine seem dead. */
bool sb_bus_lost(struct sb_bus *bus);

/* Whether the bus can still be used: one load of a private word, a few of a line that every pin
 * reads anyway. */
static inline bool sb_bus_detached(struct sb_bus *bus)
{
        /* Relaxed: the value alone matters, and what is read in the segment is checked by itself.
         */
        if (SB_UNLIKELY(sb_load_relaxed(bus->alive) == 0))
                return true;
        return SB_UNLIKELY(!sb_segment_serving(&bus->peer.segment)) && sb_bus_lost(bus);
}

/* The quick half: true when there is no doubt. */
static inline bool sb_bus_usable(const struct sb_bus *bus)
{
        /* Relaxed: as below. */
        return SB_LIKELY(sb_load_relaxed(bus->alive) != 0) &&
               SB_LIKELY(sb_segment_serving(&bus->peer.segment));
}

static inline int sb_bus_key_check(const struct sb_bus *bus, struct sb_bytes key)
{
        /* One comparison for both ends: 0 - 1 is more than any. */
        if (SB_LIKELY(key.data != NULL) && SB_LIKELY(key.len - 1 < bus->peer.segment.key_len_max))
                return 0;
        return key.data == NULL || key.len == 0 ? -EINVAL : -ENAMETOOLONG;
}

static inline int sb_bus_place_reserve(struct sb_bus *bus, uint32_t count)
{
        return SB_LIKELY(bus->place_free_count >= count) ? 0 : sb_bus_places_grow(bus, count);
}

/* The place that the next sb_bus_place_take() takes; there is one. */
static inline uint32_t sb_bus_place_first(const struct sb_bus *bus)
{
        return bus->places_free[bus->place_free_count - 1];
}

static inline uint32_t sb_bus_place_take(struct sb_bus *bus)
{
        return bus->places_free[--bus->place_free_count];
}
/* The same for a guard: its ticket. */
static inline uint64_t sb_bus_ticket_take(struct sb_bus *bus)
{
        return bus->tickets[sb_bus_place_take(bus)];
}

static inline void sb_bus_place_give(struct sb_bus *bus, uint32_t place)
{
        /* The count wraps in its own half. */
        bus->tickets[place] = (bus->tickets[place] + (UINT64_C(1) << 32)) & ~SB_BUS_QUICK;
        bus->places_free[bus->place_free_count++] = place;
}

/* Two words in one store. */
static inline __attribute__((always_inline)) void sb_bus_clear_pair(void *at)
{
#ifdef __SSE2__
        _mm_storeu_si128(at, _mm_setzero_si128());
#else
        memset(at, 0, 16);
#endif
}

/* Revision and cut, which lie side by side in a version, too. The revision never changes, and a
 * stamp that is there neither. */
static inline __attribute__((always_inline)) void sb_bus_put_rev(
        struct sb_guard *guard, const struct sb_version *version)
{
        static_assert(offsetof(struct sb_version, stamp) == offsetof(struct sb_version, rev) + 8 &&
                              offsetof(struct sb_guard, cut) == offsetof(struct sb_guard, rev) + 8,
                "side by side");
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(SB_MODEL)
        _mm_storeu_si128((__m128i *)&guard->rev, _mm_loadu_si128((const __m128i *)&version->rev));
#else
        guard->rev = version->rev;
        guard->cut = sb_load_relaxed(&version->stamp); /* Relaxed: it was seen before. */
#endif
}

/* The number behind the value that @guard holds, which a transaction wrote. Return: 0. */
int sb_bus_guard_txn(struct sb_guard *guard);

/* Describe a value of a transaction's write set in a guard, which holds it from now on. The caller
 * has made sure that the bus has a free guard word, which the guard takes and leaves empty. */
void sb_bus_guard_fill_private(
        struct sb_bus *bus, struct sb_write_set_value *value, struct sb_guard *ret_guard);

/* Describe @version, which the place of @ticket holds, and which is a stamped value. Field by
 * field: as one assignment it would be a string instruction, which ends the overlapping of misses.
 *
 * What is known early and what comes with the version's memory must not share a store: who reads
 * the address of the value, or who releases, would wait for the length and the writer, a whole
 * cache miss.
 *
 * Return: 0, so that the rare case is a jump: as a call it would cost others their registers. */
static inline __attribute__((always_inline)) int sb_bus_guard_fill(struct sb_bus *bus,
        uint64_t ticket, struct sb_version *version, uint64_t key_len, struct sb_guard *ret_guard)
{
        uint64_t shape;

        ret_guard->key.data = version->bytes;
        ret_guard->key.len = key_len;
        ret_guard->value.data = version->bytes + key_len;
        sb_bus_clear_pair(&ret_guard->old_value);
        sb_bus_clear_pair(&ret_guard->txn);
        ret_guard->kind = SB_VALUE;
        ret_guard->bus = bus;
        ret_guard->reserved[0] = ticket;
        sb_compiler_barrier();
        shape = version->shape;
        ret_guard->value.len = SB_SHAPE_VALUE_LEN(shape);
        ret_guard->writer = SB_SHAPE_WRITER(shape);
        sb_bus_put_rev(ret_guard, version);
        if (SB_UNLIKELY(shape & (uint64_t)SB_VERSION_HAS_TXN << 12))
                return sb_bus_guard_txn(ret_guard);
        return 0;
}

#endif
