/*
 * What a struct sb_bus is inside: a handle on an attached client's record, and what the public
 * calls need around it.
 *
 * All of it is private heap memory. Two things say whether the bus may still be used: `alive`, in a
 * page of its own that fork() wipes in the child; and a line of the superblock, which has the
 * segment's state and tells whether supervisor and engine live.
 *
 * Guard words: a guard that holds something in the segment has a guard word of the client's record,
 * which the sb_bus_guard_ functions hand out by its index. The free indices are a stack; the one
 * that was given back last is on top, so that a get uses a warm one. A guard word's ticket is
 * {times it was given back, index}. A guard carries the ticket, so that a second release, through a
 * copy of the guard, lets go of nothing that the word has held since. Guard word 0 stands apart. It
 * serves a caller that gets, reads and releases before it gets again, with a third of the
 * instructions. `quick` counts how often it was taken and given back: it is odd while the word is
 * held, or is not made yet, or has joined the others; and it is the ticket of the guard that has
 * the word.
 *
 * A program may release guards after sb_close(). So the struct outlives its close until the last
 * guard is released. What the guards held has gone by then: `alive` names a word that is always 0,
 * and a release gives its guard word back and touches nothing else.
 *
 * Always true: each index below `guard_count` is on the stack, or is taken by one guard, scan,
 * history or watch, or is 0 and quick. A closed bus has guards that are held, or it is freed.
 */
#ifndef SB_BUS_H
#define SB_BUS_H

#ifdef __SSE2__
#include <emmintrin.h>

#endif
#include <errno.h>
#include <string.h>
#include <sys/queue.h>

#include "libclient/core/attach.h"
#include "libclient/statebus.h"
#include "ring/attach/place.h"
#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* Where a bus came from. sb_close() unmaps and frees it. */
struct sb_bus_home {
        struct sb_place place;
        struct sb_attachment attachment;
};

#define SB_BUS_ALIVE   1u
#define SB_BUS_CHECKED 2u /* alive, and its calls are checked (libclient/core/use.h) */
#define SB_BUS_QUICK   (UINT64_C(1) << 63)
/* In a ticket: the guard holds private memory instead of a version (libclient/core/write-set.h),
 * which its reserved[1] names; its guard word holds nothing. */
#define SB_BUS_PRIVATE (UINT64_C(1) << 31)
/* In the ticket of a guard that a watch filled: a second guard word holds what the change replaced;
 * reserved[2] is its ticket. */
#define SB_BUS_PAIR (UINT64_C(1) << 30)

/* A sleep lasts no longer than this, because nothing rings the bell when agentd is gone: both its
 * processes killed at once. A change ends it at once. */
#define SB_SLEEP_MAX_NS UINT64_C(250000000)

/* The watches of a bus (libclient/core/watches.h). */
struct sb_watches {
        struct sb_watch **table; /* by place; NULL: free */
        uint32_t capacity;
        uint32_t taken;                            /* places below this one are taken */
        TAILQ_HEAD(sb_watch_list, sb_watch) dirty; /* those that are to be looked at */
        struct sb_fd *fd;             /* libclient/core/fd.h; NULL: none was asked for */
        struct sb_word32 interrupted; /* sb_interrupt() was called; any thread sets it */
        uint64_t spin_ns;             /* how long a wait looks before it sleeps */
        uint64_t sleep_max_ns; /* how long it sleeps before it asks whether agentd is there; less
                                  than 2^62 */
};

struct sb_bus {
        const struct sb_word32 *alive; /* SB_BUS_ALIVE, SB_BUS_CHECKED; 0 in a forked child, and
                                          once the bus is closed */
        uint64_t quick;                /* SB_BUS_QUICK | count */
        uint64_t *tickets;             /* of each guard word: count of givings back << 32 | index */
        uint32_t *guards_free;         /* indices; a stack, as long as @tickets */
        uint32_t guard_free_count;
        uint32_t guard_count;    /* guard words 0 .. guard_count-1 are made */
        uint32_t guard_capacity; /* of the array */
        enum sb_access access;
        bool plain;               /* a write without wishes may be made, and waits for nothing */
        struct sb_bus_home *home; /* NULL: the segment belongs to the caller */
        bool lost;                /* no agentd will ever serve the segment again */
        bool closed;              /* guards alone are left of the bus */
        struct sb_use *use;       /* of a bus that is checked, or NULL */
        struct sb_scan *scans;    /* the open ones */
        struct sb_history *histories;
        struct sb_txn *txns;             /* those that have not ended */
        struct sb_txn *txn_spare;        /* one that ended, kept for the next; or NULL */
        struct sb_write_set_value *held; /* by guards with SB_BUS_PRIVATE */
        struct sb_watches watches;
        struct sb_handle handle;
        void *space;                     /* the handle's */
        struct sb_word64 waits_since_ns; /* of a write that waits for the disk; 0: none does. Any
                                            thread may look */
};

/* Make @bus, which is all zero, one around a record, with peer access and no guard words yet.
 * @alive: a word that is SB_BUS_ALIVE as long as this process may use the record. @space: the
 * handle's (sb_handle_space()). */
void sb_bus_init(struct sb_bus *bus, const struct sb_word32 *alive,
        const struct sb_segment *segment, uint32_t slot, uint32_t generation, void *space);

/* Make a bus around what attaching gave. The bus takes @home over, on the heap, when the
 * call succeeds, and only then. NULL: the caller keeps the segment mapped as long as the bus lives.
 * Return: 0, -ENOMEM, -errno of mmap or madvise. */
int sb_bus_new(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        enum sb_access access, struct sb_bus_home *home, struct sb_bus **ret_bus);

/* sb_open(), which asks for a record with @verb: SB_HELLO_ATTACH, SB_HELLO_ATTACH_OPERATOR. */
int sb_bus_open_as(const struct sb_options *options, uint32_t verb, struct sb_bus **ret_bus);

/* The reverse, when the record was given back and all that came from the bus but guards has given
 * back its guard words: unmap and free what sb_bus_new() made, now or with the last guard. */
void sb_bus_free(struct sb_bus *bus);

/* A guard of a bus that is not alive was released: of a closed one, or in a forked child. */
void sb_bus_guard_gone(struct sb_bus *bus);

/* For tests and benchmarks: make a bus on a segment of this process, around a record that
 * sb_roster_claim() gave. The segment outlives the bus. Return: as sb_bus_new(). */
int sb_bus_open_segment(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        struct sb_bus **ret_bus);

/* Make more guard words, until @count are free. Return: 0; SB_E_FULL: 65,536 are in use, or the
 * segment has no block for more; -ENOMEM. */
int sb_bus_guards_grow(struct sb_bus *bus, uint32_t count);

/* The slow half of sb_bus_detached(), when supervisor and engine seem dead. Return: true: for good.
 * Cost: a connection. */
bool sb_bus_lost(struct sb_bus *bus);

/* Whether the bus cannot be used any more. Cost: one load of a private word, and a few loads of a
 * line that changes with the era. */
static inline bool sb_bus_detached(struct sb_bus *bus)
{
        /* Relaxed: the value alone matters; what this thread reads in the segment later is checked
         * by itself. */
        if (SB_UNLIKELY(sb_load_relaxed(bus->alive) == 0))
                return true;
        return SB_UNLIKELY(!sb_segment_serving(&bus->handle.segment)) && sb_bus_lost(bus);
}

/* The quick half. False: sb_bus_detached() has to tell, or the call is to be checked. */
static inline bool sb_bus_usable(const struct sb_bus *bus)
{
        /* Relaxed: as in sb_bus_detached(). */
        return SB_LIKELY(sb_load_relaxed(bus->alive) == SB_BUS_ALIVE) &&
               SB_LIKELY(sb_segment_serving(&bus->handle.segment));
}

/* The same for a write: a bus that is read-only is not. */
static inline bool sb_bus_writable(const struct sb_bus *bus)
{
        /* Relaxed: as in sb_bus_detached(). */
        return SB_LIKELY(sb_load_relaxed(bus->alive) == SB_BUS_ALIVE) &&
               SB_LIKELY(sb_segment_writable(&bus->handle.segment));
}

/* Whether @key can be a key. Return: 0, -EINVAL, -ENAMETOOLONG. */
static inline int sb_bus_key_check_len(size_t key_len_max, struct sb_bytes key)
{
        /* One comparison for both ends: 0 - 1 is more than any. */
        if (SB_LIKELY(key.data) && SB_LIKELY(key.len - 1 < key_len_max))
                return 0;
        return !key.data || key.len == 0 ? -EINVAL : -ENAMETOOLONG;
}
static inline int sb_bus_key_check(const struct sb_bus *bus, struct sb_bytes key)
{
        return sb_bus_key_check_len(bus->handle.segment.key_len_max, key);
}

/* What a call answers that was to answer @r. When it met damage on its way (shm/layout/damage.h),
 * then what it did not find may be there all the same: -EIO. What it found is there, and a write
 * that happened has happened: 0 stays. */
static inline int sb_bus_result(struct sb_bus *bus, int r)
{
        return SB_UNLIKELY(r != 0) && sb_damage_take(&bus->handle) ? -EIO : r;
}

/* See to it that @count guard words are free. Return: 0, or as sb_bus_guards_grow(). */
static inline int sb_bus_guards_prepare(struct sb_bus *bus, uint32_t count)
{
        return SB_LIKELY(bus->guard_free_count >= count) ? 0 : sb_bus_guards_grow(bus, count);
}

/* The index that the next sb_bus_guard_take() takes. At least one guard word is free. */
static inline uint32_t sb_bus_guard_first(const struct sb_bus *bus)
{
        return bus->guards_free[bus->guard_free_count - 1];
}

/* Take a free guard word. Return: its index. At least one is free. */
static inline uint32_t sb_bus_guard_take(struct sb_bus *bus)
{
        return bus->guards_free[--bus->guard_free_count];
}
/* Take a free guard word for a guard. Return: its ticket. At least one is free. */
static inline uint64_t sb_bus_ticket_take(struct sb_bus *bus)
{
        return bus->tickets[sb_bus_guard_take(bus)];
}

/* Give a guard word back, which the caller has emptied or empties next. Guards with its ticket are
 * copies of a released one from now on. */
static inline void sb_bus_guard_give(struct sb_bus *bus, uint32_t index)
{
        /* The count wraps in its own half. */
        bus->tickets[index] = (bus->tickets[index] + (UINT64_C(1) << 32)) & ~SB_BUS_QUICK;
        bus->guards_free[bus->guard_free_count++] = index;
}

/* Clear two words in one store. */
static inline __attribute__((always_inline)) void sb_bus_clear_pair(void *at)
{
#ifdef __SSE2__
        _mm_storeu_si128(at, _mm_setzero_si128());
#else
        memset(at, 0, 16);
#endif
}

/* Copy revision and cut, which lie side by side in a version, too. A version's revision never
 * changes, and nor does its stamp once it has one. */
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

/* Kind and writer, in one store: stores are what a core has fewest of. */
static inline __attribute__((always_inline)) void sb_bus_put_kind(
        struct sb_guard *guard, uint32_t kind, uint32_t writer)
{
        const uint32_t words[2] = {kind, writer};

        static_assert(offsetof(struct sb_guard, writer) == offsetof(struct sb_guard, kind) + 4,
                "side by side");
        memcpy(&guard->kind, words, sizeof(words));
}

/* Read the transaction's number, which lies behind the value that @guard holds. Return: 0. */
int sb_bus_guard_txn(struct sb_guard *guard);

/* Describe a value of a transaction's write set in a guard, which holds it from now on. The caller
 * has made sure that the bus has a free guard word, which the guard takes and leaves empty. */
void sb_bus_guard_fill_private(
        struct sb_bus *bus, struct sb_write_set_value *value, struct sb_guard *ret_guard);

/* Describe @version in a guard. The guard word of @ticket holds it, and it is a stamped value. The
 * function writes field by field: the compiler makes one assignment a string instruction, which
 * ends the overlapping of misses.
 *
 * What is known early and what comes with the version's memory must not share a store. Otherwise a
 * caller that reads the address of the value, or releases the guard, would wait for the length and
 * the writer, which is a whole cache miss.
 *
 * @shape: the version's, as it was loaded and checked (sb_version_shape(), sb_find_by_word()).
 *
 * Return: 0, so that the rare case is a jump: as a call it would cost others their registers. */
static inline __attribute__((always_inline)) int sb_bus_guard_fill(struct sb_bus *bus,
        uint64_t ticket, struct sb_version *version, uint64_t key_len, uint64_t shape,
        struct sb_guard *ret_guard)
{
        ret_guard->key.data = version->bytes;
        ret_guard->key.len = key_len;
        ret_guard->value.data = version->bytes + key_len;
        sb_bus_clear_pair(&ret_guard->old_value);
        sb_bus_clear_pair(&ret_guard->txn);
        ret_guard->bus = bus;
        ret_guard->reserved[0] = ticket;
        sb_compiler_barrier();
        ret_guard->value.len = SB_SHAPE_VALUE_LEN(shape);
        sb_bus_put_kind(ret_guard, SB_VALUE, SB_SHAPE_WRITER(shape));
        sb_bus_put_rev(ret_guard, version);
        if (SB_UNLIKELY(shape & (uint64_t)SB_VERSION_HAS_TXN << 12))
                return sb_bus_guard_txn(ret_guard);
        return 0;
}

#endif
