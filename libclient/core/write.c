/*
 * Writing: what the caller asks for is checked, and then tried. While the segment is full, the call
 * takes part in a sweep, a slice at a time, and tries again, until the caller's deadline: memory
 * also comes back without this process's help. A deadline that is over allows one try alone.
 *
 * The quick way serves a write without wishes (how NULL) over a value. Whatever is rare goes the
 * long way, misuse included.
 *
 * A strict write then waits until what it wrote survives power loss.
 *
 * Always true: a call that answers anything but 0 has written nothing; but a strict write that
 * waited in vain has, and says so by its revision.
 *
 * The public calls are described in statebus.h.
 */
#define _GNU_SOURCE
#include "libclient/core/write.h"

#include <string.h>
#include <time.h>

#include "libclient/core/sized.h"
#include "libclient/core/use.h"
#include "ring/op/overwrite.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/memory/window.h"
#include "shm/mvcc/find-plain.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/work.h"

#define ROOM_WAIT_NS   1000000000u /* for memory, when the caller names no deadline */
#define PAUSE_FIRST_NS 20000u
#define PAUSE_MAX_NS   5000000u

int sb_write_check(const struct sb_write *how)
{
        if (!how)
                return 0;
        if (!sb_sized_is(how->size, sizeof(*how), NULL))
                return -EINVAL;
        return how->durability > SB_STRICT || how->flags != 0 ? -EINVAL : 0;
}

int sb_write_key(struct sb_bytes key)
{
        return sb_reserved_is(key.data, key.len) ? -EPERM : 0;
}

int sb_write_able(const struct sb_bus *bus, const struct sb_write *how)
{
        if (bus->access == SB_OBSERVER)
                return SB_E_DENIED;
        if (bus->access != SB_PEER)
                return -ENOTSUP;
        if (!how)
                return 0;
        if (how->durability >= SB_BATCHED && !sb_durable_is_logged(&bus->handle.segment))
                return SB_E_NOT_DURABLE;
        return how->ttl_ns != 0 ? -ENOTSUP : 0;
}

int sb_write_open(const struct sb_bus *bus)
{
        /* Relaxed: the value alone matters. A write that is past this when the bus turns read-only
         * happens. Fault WRITES_UNREFUSED: not asked. */
        return sb_load_relaxed(&bus->handle.segment.super->state) == SB_SEGMENT_READ_ONLY &&
                               !SB_FAULT(WRITES_UNREFUSED)
                       ? -EROFS
                       : 0;
}

static uint64_t write_now_ns(const struct sb_bus *bus)
{
        const struct sb_os *os = bus->handle.segment.os;

        return os->now_ns(os->context);
}

/* What a write waits for: enum sb_durability, but the default. */
static uint32_t write_durability(const struct sb_bus *bus, const struct sb_write *how)
{
        if (how && how->durability != SB_DEFAULT)
                return how->durability;
        /* Relaxed: written before the segment is served. */
        return sb_load_relaxed(&bus->handle.segment.super->log_mode) == SB_LOG_STRICT ? SB_STRICT
                                                                                      : SB_BATCHED;
}

/* Behind a write: whether the bus is served still. Where it is not, the log may have taken its last
 * cut before the write's stamp, and a stop that loses nothing must not lose a write that answered
 * 0.
 * Return: 0, SB_E_DETACHED. */
static inline __attribute__((always_inline)) int write_served(const struct sb_bus *bus)
{
        const struct sb_superblock *super = bus->handle.segment.super;

        /* Relaxed: a stamp above the last cut is of a clock that was loaded behind that cut, and
         * the state was stored before it. Fault STOP_UNSEEN: not asked. */
        return SB_LIKELY(sb_load_relaxed(&super->state) & SB_SEGMENT_SERVING) ||
                               SB_FAULT(STOP_UNSEEN)
                       ? 0
                       : SB_E_DETACHED;
}

int sb_write_last(struct sb_bus *bus, const struct sb_write *how, uint64_t cut)
{
        if (SB_LIKELY(write_durability(bus, how) != SB_STRICT))
                return write_served(bus);
        return sb_write_wait_durable(
                bus, cut, how && how->deadline_ns ? how->deadline_ns : SB_FOREVER);
}

/* The newest cut that a write may be in. A:clock. No stamp is above the clock. */
static uint64_t write_newest(const struct sb_bus *bus)
{
        return sb_load_acquire(&bus->handle.segment.super->clock);
}

int sb_write_last_own(struct sb_bus *bus)
{
        return sb_write_last(bus, NULL, write_newest(bus));
}

static int write_wait_durable(struct sb_bus *bus, uint64_t cut, uint64_t deadline_ns)
{
        const struct sb_segment *segment = &bus->handle.segment;
        uint64_t until;
        int r;

        for (;;) {
                if (sb_durable_cut(segment) >= cut)
                        return 0;
                if (sb_bus_detached(bus))
                        return SB_E_DETACHED;
                sb_durable_want(segment, cut);
                /* Nothing wakes the client when agentd is gone. */
                until = write_now_ns(bus) + bus->watches.sleep_max_ns;
                if (until > deadline_ns)
                        until = deadline_ns;
                r = sb_durable_wait(segment, cut, bus->watches.spin_ns, until);
                if (r != SB_E_TIMED_OUT || until == deadline_ns)
                        return r;
        }
}

int sb_write_wait_durable(struct sb_bus *bus, uint64_t cut, uint64_t deadline_ns)
{
        int r;

        /* Relaxed, both: of this process, and for people. */
        sb_store_relaxed(&bus->waits_since_ns, write_now_ns(bus));
        r = write_wait_durable(bus, cut, deadline_ns);
        sb_store_relaxed(&bus->waits_since_ns, 0);
        return r;
}

/* Pause, for no longer than until the deadline. Return: 0, -EINTR: a signal came. */
static int write_pause(uint64_t *pause, uint64_t left_ns)
{
        if (*pause > left_ns)
                *pause = left_ns;
        /* Not os->pause(): a signal ends a wait, and that function does not tell of one. */
        if (nanosleep(&(struct timespec){.tv_nsec = (long)*pause}, NULL) < 0 && errno == EINTR)
                return -EINTR;
        if (*pause < PAUSE_MAX_NS)
                *pause *= 2;
        return 0;
}

/* Work and try again until @deadline_ns. */
static int write_wait(
        struct sb_bus *bus, uint64_t deadline_ns, sb_write_attempt *attempt, void *argument)
{
        uint64_t now = write_now_ns(bus), pause = PAUSE_FIRST_NS;

        while (now < deadline_ns) {
                bool worked = sb_work_slice(&bus->handle);
                int r = attempt(argument);

                if (r != SB_E_FULL)
                        return r;
                if (sb_bus_detached(bus))
                        return SB_E_DETACHED;
                now = write_now_ns(bus);
                if (!worked && now < deadline_ns) {
                        r = write_pause(&pause, deadline_ns - now);
                        if (r != 0)
                                return r;
                        now = write_now_ns(bus);
                }
        }
        return SB_E_FULL;
}

int sb_write_wait(
        struct sb_bus *bus, const struct sb_write *how, sb_write_attempt *attempt, void *argument)
{
        uint64_t now = write_now_ns(bus), deadline_ns = !how ? 0 : how->deadline_ns;
        int r;

        if (deadline_ns == 0)
                deadline_ns = now + ROOM_WAIT_NS;
        if (now >= deadline_ns)
                return SB_E_FULL;
        sb_window_begin(&bus->handle);
        r = write_wait(bus, deadline_ns, attempt, argument);
        sb_window_end(&bus->handle);
        return r;
}

/* One write, as sb_write_wait() needs it: to be tried several times. */
struct single {
        struct sb_handle *handle;
        const struct sb_op_write *write;
        struct sb_op_result *result;
};

static int write_attempt_single(void *argument)
{
        struct single *single = argument;

        return sb_op_write(single->handle, single->write, single->result);
}

/* sb_write_key() in one comparison. */
static inline __attribute__((always_inline)) bool write_quick_reserved(
        const void *key, uint64_t key_len)
{
        static_assert(SB_RESERVED_LEN == sizeof(uint32_t), "one word");
        uint32_t reserved, beginning;

        if (SB_UNLIKELY(key_len < SB_RESERVED_LEN))
                return false;
        memcpy(&reserved, SB_RESERVED, sizeof(reserved));
        memcpy(&beginning, key, sizeof(beginning));
        return beginning == reserved;
}

/* Write without wishes, on a bus that serves, over a value, of a key of any length that can be one.
 * The key's bucket is fetched before the bus and the wishes are asked. Return: as sb_overwrite(),
 * with *ret_rev set unless it is SB_OVERWRITE_LEFT. */
static inline __attribute__((always_inline)) enum sb_overwritten write_quick(struct sb_bus *bus,
        uint64_t expected_rev, struct sb_bytes key, struct sb_bytes value,
        const struct sb_write *how, uint64_t *ret_rev)
{
        uint64_t hash = sb_find_hash(&bus->handle, key.data, key.len);
        enum sb_overwritten done;
        struct sb_op_result result;

        /* A compare-and-set that loses takes the line from no other process. */
        if (expected_rev == SB_OP_ANY_REV)
                sb_find_fetch_bucket_to_write(&bus->handle, hash);
        else
                sb_find_fetch_bucket(&bus->handle, hash);
        if (SB_UNLIKELY(how) || SB_UNLIKELY(!sb_bus_writable(bus)) || SB_UNLIKELY(!bus->plain) ||
                SB_UNLIKELY(!value.data))
                return SB_OVERWRITE_LEFT;
        if (SB_UNLIKELY(write_quick_reserved(key.data, key.len)))
                return SB_OVERWRITE_LEFT;
        done = sb_overwrite(&bus->handle, key.data, key.len, hash, value.data, value.len,
                expected_rev, &result);
        if (SB_LIKELY(done != SB_OVERWRITE_LEFT) && ret_rev)
                *ret_rev = result.rev;
        return done;
}

/* Nearly every write is such a one. Return: as write_quick(). */
static inline __attribute__((always_inline)) enum sb_overwritten write_short(struct sb_bus *bus,
        uint64_t expected_rev, struct sb_bytes key, struct sb_bytes value,
        const struct sb_write *how, uint64_t *ret_rev)
{
        if (SB_UNLIKELY(!key.data))
                return SB_OVERWRITE_LEFT;
        if (SB_LIKELY(sb_find_two_words(key.len)))
                return write_quick(bus, expected_rev, key, value, how, ret_rev);
        if (SB_LIKELY(sb_find_four_words(key.len)))
                return write_quick(bus, expected_rev, key, value, how, ret_rev);
        if (SB_UNLIKELY(!sb_find_takes(&bus->handle, key.len)))
                return SB_OVERWRITE_LEFT;
        return write_quick(bus, expected_rev, key, value, how, ret_rev);
}

/* Write the long way. It checks lengths and @how; the caller has checked the expected revision.
 * Return: as sb_cas() and sb_delete(). */
static __attribute__((noinline)) int write_apply(struct sb_bus *bus, struct sb_op_write *write,
        struct sb_bytes key, struct sb_bytes value, const struct sb_write *how, uint64_t *ret_rev)
{
        struct sb_op_result result = {0};
        int r;

        r = sb_bus_key_check(bus, key);
        if (r != 0)
                return r;
        if (!value.data && value.len > 0)
                return -EINVAL;
        if (value.len > bus->handle.segment.value_len_max)
                return -EMSGSIZE;
        r = sb_write_check(how);
        if (r == 0)
                r = sb_write_key(key);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_write_able(bus, how);
        r = r != 0 ? r : sb_write_open(bus);
        if (r != 0)
                return r;
        write->key = key.data;
        write->key_len = (uint32_t)key.len;
        write->value = value.data;
        write->value_len = value.len;
        r = sb_op_write(&bus->handle, write, &result);
        if (SB_UNLIKELY(r == SB_E_FULL))
                r = sb_write_wait(bus, how, write_attempt_single,
                        &(struct single){&bus->handle, write, &result});
        r = sb_bus_result(bus, r);
        if (ret_rev && (r == 0 || r == SB_E_CONFLICT))
                *ret_rev = result.rev;
        if (r == 0 && how && how->ret_cut)
                *how->ret_cut = result.cut;
        return r == 0 ? sb_write_last(bus, how, result.cut) : r;
}

SB_FIND_FLAT int sb_set(struct sb_bus *bus, struct sb_bytes key, struct sb_bytes value,
        const struct sb_write *how, uint64_t *ret_rev)
{
        struct sb_op_write write;

        if (!bus)
                return -EINVAL;
        if (SB_LIKELY(
                    write_short(bus, SB_OP_ANY_REV, key, value, how, ret_rev) == SB_OVERWRITE_DONE))
                return write_served(bus);
        SB_USE(bus, sb_set(bus, key, value, how, ret_rev));
        write = (struct sb_op_write){.kind = SB_VERSION_VALUE, .expected_rev = SB_OP_ANY_REV};
        return write_apply(bus, &write, key, value, how, ret_rev);
}

SB_FIND_FLAT int sb_cas(struct sb_bus *bus, struct sb_bytes key, uint64_t expected_rev,
        struct sb_bytes value, const struct sb_write *how, uint64_t *ret_rev)
{
        struct sb_op_write write;
        enum sb_overwritten done;

        if (!bus || expected_rev == SB_ANY_REV)
                return -EINVAL;
        done = write_short(bus, expected_rev, key, value, how, ret_rev);
        if (SB_LIKELY(done == SB_OVERWRITE_DONE))
                return write_served(bus);
        if (done == SB_OVERWRITE_CONFLICT)
                return SB_E_CONFLICT;
        SB_USE(bus, sb_cas(bus, key, expected_rev, value, how, ret_rev));
        write = (struct sb_op_write){.kind = SB_VERSION_VALUE, .expected_rev = expected_rev};
        return write_apply(bus, &write, key, value, how, ret_rev);
}

int sb_delete(struct sb_bus *bus, struct sb_bytes key, uint64_t expected_rev,
        const struct sb_write *how, uint64_t *ret_rev)
{
        struct sb_op_write write = {.kind = SB_VERSION_DELETED, .expected_rev = expected_rev};

        SB_USE(bus, sb_delete(bus, key, expected_rev, how, ret_rev));
        if (!bus || expected_rev == 0)
                return -EINVAL;
        return write_apply(bus, &write, key, (struct sb_bytes){0}, how, ret_rev);
}

int sb_flush(struct sb_bus *bus, uint64_t deadline_ns)
{
        SB_USE(bus, sb_flush(bus, deadline_ns));
        if (!bus)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (!sb_durable_is_logged(&bus->handle.segment))
                return SB_E_NOT_DURABLE;
        return sb_write_wait_durable(bus, write_newest(bus), deadline_ns);
}

uint64_t sb_durable(const struct sb_bus *bus)
{
        /* Relaxed: as in sb_bus_detached(). */
        return !bus || sb_load_relaxed(bus->alive) == 0 ? 0 : sb_durable_cut(&bus->handle.segment);
}
