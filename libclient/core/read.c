/*
 * Reading: a version is found, held by a guard word, and handed out where it lies.
 *
 * The short way serves a plain get of a key that is there, with guard word 0. Whatever is rare goes
 * the long way, misuse included.
 *
 * Always true: a guard that names a bus owns one guard word of it. That word held the version
 * before anything of it was read, or before the pin under which it was found was over.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/read.h"

#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/use.h"
#include "libclient/core/write-set.h"
#include "ring/op/get.h"
#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/find-plain.h"

#define BATCH_MAX 32u /* keys of which the memory is fetched together */

/* A get, the long way. Return: as sb_get(). */
static __attribute__((noinline)) int read_get_long(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        struct sb_version *version;
        int r;

        SB_USE_AS(bus, "sb_get", false, read_get_long(bus, key, ret_guard));
        if (!bus || !ret_guard)
                return -EINVAL;
        r = sb_bus_key_check(bus, key);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_bus_guards_prepare(bus, 1);
        if (r != 0)
                return r;
        r = sb_op_get(&bus->handle, key.data, (uint32_t)key.len, sb_bus_guard_first(bus), &version);
        if (r != 0)
                return sb_bus_result(bus, r);
        return sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), version, key.len,
                sb_version_shape(&bus->handle.segment, version), ret_guard);
}

/* A get, the short way, of a key with data. Its bucket is fetched before the bus is asked anything.
 * Return: as sb_get(). */
static inline __attribute__((always_inline)) int read_get_short(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        struct sb_handle *handle = &bus->handle;
        uint64_t hash = sb_find_hash(handle, key.data, key.len);
        struct sb_found found;
        uint64_t ticket;

        sb_find_fetch_bucket(handle, hash);
        if (SB_UNLIKELY(!sb_bus_usable(bus)))
                return read_get_long(bus, key, ret_guard);
        ticket = bus->quick + 1;
        if (SB_UNLIKELY(!(ticket & 1)))
                return read_get_long(bus, key, ret_guard);
        if (SB_UNLIKELY(!sb_find_hold(handle, key.data, key.len, hash, 0, &found)))
                return read_get_long(bus, key, ret_guard);
        bus->quick = ticket;
        return sb_bus_guard_fill(bus, ticket, found.version, key.len, found.shape, ret_guard);
}

/* The same for the lengths that sb_get() does not serve in line. These are functions of their own,
 * so that each needs as few registers as its lengths take. */
static __attribute__((noinline)) SB_FIND_FLAT int read_get_other(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(!sb_find_takes(&bus->handle, key.len)))
                return read_get_long(bus, key, ret_guard);
        return read_get_short(bus, key, ret_guard);
}
static __attribute__((noinline)) SB_FIND_FLAT int read_get_eight_words(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(!sb_find_eight_words(key.len)))
                return read_get_other(bus, key, ret_guard);
        return read_get_short(bus, key, ret_guard);
}
static __attribute__((noinline)) SB_FIND_FLAT int read_get_one_word(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(!sb_find_one_word(key.len)))
                return read_get_eight_words(bus, key, ret_guard);
        return read_get_short(bus, key, ret_guard);
}
static __attribute__((noinline)) SB_FIND_FLAT int read_get_four_words(
        struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(!sb_find_four_words(key.len)))
                return read_get_one_word(bus, key, ret_guard);
        return read_get_short(bus, key, ret_guard);
}

SB_FIND_FLAT int sb_get(struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(!bus))
                return read_get_long(bus, key, ret_guard);
        /* Without the barriers the compiler makes arithmetic of these tests, which takes longer. */
        sb_compiler_barrier();
        if (SB_UNLIKELY(!ret_guard))
                return read_get_long(bus, key, ret_guard);
        sb_compiler_barrier();
        if (SB_UNLIKELY(!key.data))
                return read_get_long(bus, key, ret_guard);
        if (SB_UNLIKELY(!sb_find_two_words(key.len)))
                return read_get_four_words(bus, key, ret_guard);
        return read_get_short(bus, key, ret_guard);
}

/* A cut that is announced; NULL: now, each key at some moment. */
struct read_cut {
        uint32_t snapshot;
        uint64_t cut;
};

/* Get one batch of at least one key. @count guard words are free. Return: 0; SB_E_LAPPED: none of
 * these is held. */
static inline __attribute__((always_inline)) int read_get_batch(struct sb_bus *bus,
        const struct sb_bytes *keys, uint32_t count, const struct read_cut *at,
        struct sb_guard *ret_guards)
{
        /* The guard words are used where they lie on top of the stack. A key without a value leaves
         * its word over, which goes back to where one was read before. */
        uint32_t first = bus->guard_free_count - count;
        const uint32_t *indices = bus->guards_free + first;
        const struct sb_op_key *names = (const struct sb_op_key *)(const void *)keys;
        struct sb_version *versions[BATCH_MAX];
        uint64_t shapes[BATCH_MAX];

        static_assert(sizeof(struct sb_op_key) == sizeof(*keys) &&
                              offsetof(struct sb_op_key, len) == offsetof(struct sb_bytes, len),
                "the same layout");
        if (!at)
                sb_op_get_many(&bus->handle, names, count, indices, versions, shapes);
        else if (sb_op_get_many_at(&bus->handle, names, count, at->snapshot, at->cut, indices,
                         versions, shapes) != 0)
                return SB_E_LAPPED;
        bus->guard_free_count = first;
        for (uint32_t i = 0; i < count; i++) {
                uint32_t index = indices[i];

                if (SB_LIKELY(versions[i])) {
                        sb_bus_guard_fill(bus, bus->tickets[index], versions[i], keys[i].len,
                                shapes[i], &ret_guards[i]);
                        continue;
                }
                ret_guards[i].bus = NULL;
                bus->guards_free[bus->guard_free_count++] = index;
        }
        return 0;
}

/* Get all keys. Return: as sb_read_many_at(). */
static inline __attribute__((always_inline)) int read_get_all(struct sb_bus *bus,
        const struct sb_bytes *keys, size_t count, const struct read_cut *at,
        struct sb_guard *ret_guards)
{
        size_t done = 0;
        int r;

        if (count > SB_GUARDS_MAX)
                return SB_E_FULL;
        r = sb_bus_guards_prepare(bus, (uint32_t)count);
        while (SB_LIKELY(r == 0) && done < count) {
                uint32_t batch = (uint32_t)(count - done < BATCH_MAX ? count - done : BATCH_MAX);

                r = read_get_batch(bus, keys + done, batch, at, ret_guards + done);
                done += r == 0 ? batch : 0;
        }
        if (SB_LIKELY(r == 0))
                r = sb_bus_result(bus, SB_E_NOT_FOUND) == -EIO ? -EIO : 0;
        for (size_t i = 0; SB_UNLIKELY(r != 0) && i < done; i++)
                sb_guard_release(&ret_guards[i]);
        return r;
}

int sb_read_many_check(size_t key_len_max, const struct sb_bytes *keys, size_t count,
        const struct sb_guard *guards)
{
        if (count > 0 && (!keys || !guards))
                return -EINVAL;
        for (size_t i = 0; i < count; i++) {
                int r = sb_bus_key_check_len(key_len_max, keys[i]);

                if (SB_UNLIKELY(r != 0))
                        return r;
        }
        return 0;
}

int sb_get_many(
        struct sb_bus *bus, const struct sb_bytes *keys, size_t count, struct sb_guard *ret_guards)
{
        int r;

        SB_USE(bus, sb_get_many(bus, keys, count, ret_guards));
        r = !bus ? -EINVAL
                 : sb_read_many_check(bus->handle.segment.key_len_max, keys, count, ret_guards);
        if (SB_UNLIKELY(r != 0))
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        return read_get_all(bus, keys, count, NULL, ret_guards);
}

int sb_read_many_at(struct sb_bus *bus, const struct sb_bytes *keys, size_t count,
        uint32_t snapshot, uint64_t cut, struct sb_guard *ret_guards)
{
        return read_get_all(bus, keys, count, &(struct read_cut){snapshot, cut}, ret_guards);
}

static inline void read_release_guard(struct sb_bus *bus, const struct sb_guard *guard);

/* Release both guard words of a change. */
static void read_release_pair(struct sb_bus *bus, const struct sb_guard *guard)
{
        const struct sb_guard old = {.reserved[0] = guard->reserved[2]},
                              change = {.reserved[0] = guard->reserved[0] & ~SB_BUS_PAIR};

        read_release_guard(bus, &old);
        read_release_guard(bus, &change);
}

/* Release a guard on a value of a write set, one of a change, or a copy of one that was released.
 */
static __attribute__((noinline)) void read_release_private(
        struct sb_bus *bus, const struct sb_guard *guard)
{
        uint64_t ticket = guard->reserved[0];
        uint32_t index = (uint32_t)(ticket & ~SB_BUS_PRIVATE);

        if (ticket & SB_BUS_PAIR) {
                read_release_pair(bus, guard);
                return;
        }
        if (index >= bus->guard_count || bus->tickets[index] != ticket) {
                sb_use_stale(bus->use);
                return;
        }
        bus->tickets[index] &= ~SB_BUS_PRIVATE;
        sb_bus_guard_give(bus, index);
        /* sb_close() has freed the value. */
        if (!bus->closed)
                sb_write_set_value_drop((struct sb_write_set_value *)(uintptr_t)guard->reserved[1]);
        sb_bus_guard_gone(bus);
}

/* Empty a guard word that was given back, of a bus that is not just alive. */
static __attribute__((noinline)) void read_release_apart(struct sb_bus *bus, uint32_t index)
{
        bool alive = sb_load_relaxed(bus->alive) != 0; /* Relaxed: as in sb_bus_detached(). */
        struct sb_use *use =
                bus->closed ? NULL : sb_use_enter(bus->use, !alive, "sb_guard_release", true);

        /* In a forked child the guard word is the parent's. */
        if (alive)
                sb_guard_set(&bus->handle, index, 0);
        sb_use_leave(use);
        sb_bus_guard_gone(bus);
}

/* Release any guard but the quick one, or a copy of one that was released. */
static inline void read_release_guard(struct sb_bus *bus, const struct sb_guard *guard)
{
        uint64_t ticket = guard->reserved[0];
        uint32_t index = (uint32_t)ticket;

        /* With SB_BUS_PRIVATE or SB_BUS_PAIR it is larger than any index. */
        if (SB_UNLIKELY(index >= bus->guard_count)) {
                read_release_private(bus, guard);
                return;
        }
        if (SB_UNLIKELY(bus->tickets[index] != ticket)) {
                sb_use_stale(bus->use);
                return;
        }
        sb_bus_guard_give(bus, index);
        /* Relaxed: as in sb_bus_detached(). */
        if (SB_LIKELY(sb_load_relaxed(bus->alive) == SB_BUS_ALIVE))
                sb_guard_set(&bus->handle, index, 0);
        else
                read_release_apart(bus, index);
}

void sb_guard_release(struct sb_guard *guard)
{
        struct sb_bus *bus;
        uint64_t ticket;

        if (SB_UNLIKELY(!guard) || SB_UNLIKELY(!(bus = guard->bus)))
                return;
        ticket = guard->reserved[0];
        guard->bus = NULL;
        if (SB_UNLIKELY(ticket != bus->quick)) {
                read_release_guard(bus, guard);
                return;
        }
        bus->quick = ticket + 1;
        /* Relaxed: as in sb_bus_detached(). */
        if (SB_LIKELY(sb_load_relaxed(bus->alive) == SB_BUS_ALIVE))
                sb_guard_set(&bus->handle, 0, 0);
        else
                read_release_apart(bus, 0);
}
