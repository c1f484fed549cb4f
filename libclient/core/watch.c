/*
 * Watches and waits. A watch gives one change after the other, each held in place; a wait sleeps on
 * the client's bell until a watch has one.
 *
 * How a call waits: it takes the dirty bits and notes in each watch that it is dirty; looks at what
 * is; and sleeps only when nothing is. So a bit that comes while it looks is found before it
 * sleeps, and one that comes later ends its sleep.
 *
 * Always true: a guard that a watch filled owns one guard word or two, the second for what the
 * change replaced.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/fd.h"
#include "libclient/core/sized.h"
#include "libclient/core/prefix.h"
#include "libclient/core/backlog.h"
#include "libclient/core/use.h"
#include "libclient/core/watches.h"
#include "libclient/core/write.h"
#include "ring/op/watch.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/bell.h"

/* Whether the next look at the watch gives something, or says that something is lost. */
static bool watch_has(struct sb_watch *watch)
{
        struct sb_bus *bus = watch->bus;

        if (watch->prefix)
                return sb_prefix_fill(bus, watch->prefix, true) != SB_E_TIMED_OUT;
        if (sb_op_watch_has(&bus->handle, &watch->op))
                return true;
        sb_watches_take_back(watch, false);
        return false;
}

/* The first watch that has something; NULL: none has. Those that have nothing are not dirty any
 * more. */
static struct sb_watch *watch_any(struct sb_bus *bus)
{
        struct sb_watch *watch;

        sb_watches_take_bits(bus);
        while ((watch = TAILQ_FIRST(&bus->watches.dirty)) && !watch_has(watch))
                sb_watches_note(watch, false);
        return watch;
}

/* ---- the descriptor ---- */

/* See to it that the descriptor can be read, or something waits for the bell and no watch has
 * anything. */
static void watch_settle(struct sb_bus *bus, bool anew)
{
        if (SB_LIKELY(!bus->watches.fd) || sb_bus_detached(bus))
                return;
        if (!sb_fd_hear(bus) && (!anew || SB_FAULT(FD_OPEN_UNSEEN)))
                return;
        if ((!SB_FAULT(FD_OTHERS_UNASKED) && watch_any(bus)) || !sb_fd_wait(bus))
                sb_fd_show(bus);
}

/* Behind a call that answers @r. Return: @r. */
static int watch_settled(struct sb_bus *bus, int r)
{
        if (r == SB_E_TIMED_OUT)
                watch_settle(bus, false);
        return r;
}

int sb_fd(struct sb_bus *bus)
{
        int r;

        SB_USE(bus, sb_fd(bus));
        if (!bus)
                return -EINVAL;
        /* A caller would take a positive answer for a descriptor. */
        if (sb_bus_detached(bus))
                return -ENOTCONN;
        if (!bus->watches.fd) {
                r = sb_fd_new(bus);
                if (r != 0)
                        return r;
                watch_settle(bus, true);
        }
        return sb_fd_number(bus);
}

/* ---- waiting ---- */

static uint64_t watch_now(const struct sb_bus *bus)
{
        const struct sb_os *os = bus->handle.segment.os;

        return os->now_ns(os->context);
}

/* What @watch's spot says: for a caller that spins, and looks at the watch when it has changed. */
static const struct sb_word64 *watch_place(const struct sb_watch *watch)
{
        return watch->prefix ? sb_prefix_spot(&watch->prefix->op) : watch->op.cell;
}
static uint64_t watch_spot(const struct sb_watch *watch)
{
        return sb_load_relaxed(watch_place(watch)); /* Relaxed: compared with itself. */
}

/* Look, without a system call, until a bit is set, @watch's spot changes (NULL: of none), the wait
 * is to end, or @end. Return: whether something came. */
static bool watch_spin(
        struct sb_bus *bus, const struct sb_watch *watch, uint64_t seen, uint64_t end)
{
        const struct sb_word64 *place = watch ? watch_place(watch) : NULL;

        do {
                for (int turn = 0; turn < 32; turn++) {
                        /* Relaxed: compared with itself. */
                        if (sb_bell_is_dirty(&bus->handle) ||
                                (place && sb_load_relaxed(place) != seen))
                                return true;
                        sb_stall();
                }
                /* Relaxed: the call looks again before it sleeps. */
        } while (watch_now(bus) < end && !sb_load_relaxed(&bus->watches.interrupted));
        return false;
}

/* What ends a wait before anything came. Return: 0: nothing does. */
static int watch_must_end(struct sb_bus *bus, uint64_t now, uint64_t deadline_ns)
{
        /* A locked instruction, only where the flag is set. Relaxed: the exchange decides. */
        if (sb_load_relaxed(&bus->watches.interrupted) &&
                sb_exchange_full(&bus->watches.interrupted, 0) != 0) /* A:stop. */
                return -EINTR;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        return now >= deadline_ns ? SB_E_TIMED_OUT : 0;
}

/* Wait until @watch (NULL: any) may have something: @seen is what its spot said before it was
 * looked at. Return: 0; SB_E_TIMED_OUT; SB_E_DETACHED; -EINTR. */
static int watch_await(
        struct sb_bus *bus, const struct sb_watch *watch, uint64_t seen, uint64_t deadline_ns)
{
        uint64_t now = deadline_ns ? watch_now(bus) : 0, spin_end;
        int r = watch_must_end(bus, now, deadline_ns);

        if (r != 0)
                return r;
        spin_end =
                bus->watches.spin_ns < deadline_ns - now ? now + bus->watches.spin_ns : deadline_ns;
        if (bus->watches.spin_ns != 0 && watch_spin(bus, watch, seen, spin_end))
                return 0;
        if (sb_bell_is_dirty(&bus->handle))
                return 0;
        now = watch_now(bus);
        if (now >= deadline_ns) /* the caller looked until then, and need not say that it sleeps */
                return SB_E_TIMED_OUT;
        now += bus->watches.sleep_max_ns;
        r = sb_bell_sleep(
                &bus->handle, &bus->watches.interrupted, deadline_ns < now ? deadline_ns : now);
        /* A handler of this signal may have called sb_interrupt(): that ends this wait alone. */
        if (r == -EINTR)
                sb_exchange_full(&bus->watches.interrupted, 0); /* A:stop. */
        return r;
}

/* ---- opening ---- */

/* A watch that has its place, to begin with it; by sb_write_wait() several times. */
struct opening {
        struct sb_bus *bus;
        struct sb_watch *watch;
        struct sb_bytes key;
        const struct sb_watch_options *how;
};

/* Return: 0, SB_E_FULL, -E2BIG, -EIO, -ENOMEM. */
static int watch_begin(void *argument)
{
        const struct opening *opening = argument;
        const struct sb_watch_options *how = opening->how;
        struct sb_watch *watch = opening->watch;
        struct sb_bus *bus = opening->bus;
        uint32_t depth = how->depth != 0 ? how->depth : SB_WATCH_DEPTH;
        int r;

        if ((how->flags & SB_PREFIX) != 0) {
                const struct sb_prefix_how of = {
                        .depth = how->depth != 0 ? how->depth : SB_PREFIX_DEPTH,
                        .drops = (how->flags & SB_BUFFERED) != 0,
                        .after = how->after != SB_ANY_REV ? how->after : 0};

                if (how->depth > UINT32_MAX / 4) /* the number of slots would wrap round */
                        return -E2BIG;
                r = sb_prefix_open(bus, opening->key, watch->place, &of, &watch->prefix);
                return r;
        }
        if ((how->flags & SB_BUFFERED) != 0)
                r = sb_op_watch_begin_dropping(&bus->handle, opening->key.data,
                        (uint32_t)opening->key.len, watch->place, SB_WATCH_DEPTH, depth, how->after,
                        &watch->op);
        else
                r = sb_op_watch_begin(&bus->handle, opening->key.data, (uint32_t)opening->key.len,
                        watch->place, depth, SB_WATCH_VERSIONS, &watch->op);
        if (r == 0 && !(how->flags & SB_BUFFERED) && how->after != SB_ANY_REV)
                watch->op.last = how->after;
        return r;
}

/* Return: 0, SB_E_FULL, SB_E_DETACHED, -EIO, -ENOMEM. */
static int watch_begin_with_room(struct sb_bus *bus, struct sb_watch *watch, struct sb_bytes key,
        const struct sb_watch_options *how)
{
        struct opening opening = {bus, watch, key, how};
        int r = watch_begin(&opening);

        if (r == SB_E_FULL)
                r = sb_write_wait(bus, NULL, watch_begin, &opening);
        /* A signal has ended the wait for room; or no wait would help. */
        return r == -EINTR || r == -E2BIG ? SB_E_FULL : r;
}

/* Whether the key can be watched. Return: 0, -EINVAL, -ENAMETOOLONG; -EPERM: at the bus's own keys
 * stand the rings of prefixes. */
static int watch_check_key(const struct sb_bus *bus, struct sb_bytes key)
{
        int r = sb_bus_key_check(bus, key);

        return r == 0 && sb_reserved_is(key.data, key.len) ? -EPERM : r;
}

static int watch_open_checked(struct sb_bus *bus, struct sb_bytes key,
        const struct sb_watch_options *how, struct sb_watch **ret_watch)
{
        struct sb_watch *watch = calloc(1, sizeof(*watch));
        int r;

        if (!watch)
                return -ENOMEM;
        r = sb_watches_enter(bus, watch);
        if (r != 0) {
                free(watch);
                return r;
        }
        r = watch_begin_with_room(bus, watch, key, how);
        if (r != 0) {
                sb_watches_note(watch, false);
                sb_watches_leave(bus, watch);
                free(watch);
                return sb_bus_result(bus, r);
        }
        watch->data = how->data;
        sb_watches_note(watch, true);
        *ret_watch = watch;
        watch_settle(bus, true);
        return 0;
}

/* Whether these flags, and what they say of `after`, make sense. */
static bool watch_options_fit(const struct sb_watch_options *how)
{
        uint32_t flags = how->flags;

        if ((flags & ~(SB_PREFIX | SB_AFTER_CUT | SB_BUFFERED)) != 0)
                return false;
        if (!(flags & SB_PREFIX))
                return !(flags & SB_AFTER_CUT);
        return (flags & SB_AFTER_CUT) != 0 ? how->after > SB_STAMP_PLACEHOLDER
                                           : how->after == SB_ANY_REV;
}

/* Open a watch as @how says, which is of this header's size. */
static int watch_open(struct sb_bus *bus, struct sb_bytes key, const struct sb_watch_options *how,
        struct sb_watch **ret_watch)
{
        int r;

        if (!bus || !ret_watch || !watch_options_fit(how) || (!key.data && key.len > 0))
                return -EINVAL;
        if (!(how->flags & SB_PREFIX)) {
                r = watch_check_key(bus, key);
                if (r != 0)
                        return r;
        } else if (key.len > bus->handle.segment.key_len_max - SB_WATCH_PREFIX) {
                return -ENAMETOOLONG;
        }
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        /* A cut that was not taken yet has no past. */
        if ((how->flags & SB_AFTER_CUT) != 0 && !sb_clock_reaches(&bus->handle, how->after))
                return -EINVAL;
        return watch_open_checked(bus, key, how, ret_watch);
}

int sb_watch_open(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, uint64_t after_rev,
        struct sb_watch **ret_watch)
{
        struct sb_watch_options how = {.size = sizeof(how), .flags = flags, .after = after_rev};

        SB_USE(bus, sb_watch_open(bus, key, flags, after_rev, ret_watch));
        if ((flags & SB_BUFFERED) != 0) /* of sb_watch_open_at() alone */
                return -EINVAL;
        return watch_open(bus, key, &how, ret_watch);
}

/* Sizes of an earlier header's options: without `data`. */
static const size_t watch_options_earlier[] = {offsetof(struct sb_watch_options, data), 0};

int sb_watch_open_at(struct sb_bus *bus, struct sb_bytes key, const struct sb_watch_options *how,
        struct sb_watch **ret_watch)
{
        struct sb_watch_options given;

        SB_USE(bus, sb_watch_open_at(bus, key, how, ret_watch));
        if (!how || !sb_sized_take(&given, sizeof(given), how, watch_options_earlier))
                return -EINVAL;
        return watch_open(bus, key, &given, ret_watch);
}

uint64_t sb_watch_dropped(const struct sb_watch *watch)
{
        SB_USE(watch ? watch->bus : NULL, sb_watch_dropped(watch));
        if (!watch)
                return 0;
        if (!watch->bus)
                return watch->op.dropped;
        if (watch->prefix)
                return sb_backlog_dropped(
                        sb_bus_detached(watch->bus) ? NULL : watch->bus, watch->prefix);
        if (sb_bus_detached(watch->bus))
                return watch->op.dropped;
        return sb_op_watch_dropped(&watch->bus->handle, &watch->op);
}

/* ---- the next change ---- */

/* Describe a change, of which guard words hold the versions. */
static void watch_fill_guard(
        struct sb_bus *bus, const struct sb_op_change *change, struct sb_guard *ret_guard)
{
        uint64_t shape = sb_version_shape(&bus->handle.segment, change->version), old_shape;

        (void)sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), change->version,
                SB_SHAPE_KEY_LEN(shape), shape, ret_guard);
        ret_guard->missed = change->missed;
        if ((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                ret_guard->kind = SB_DELETED;
        if (!change->old)
                return;
        old_shape = sb_version_shape(&bus->handle.segment, change->old);
        ret_guard->old_value.data = change->old->bytes + SB_SHAPE_KEY_LEN(old_shape);
        ret_guard->old_value.len = SB_SHAPE_VALUE_LEN(old_shape);
        ret_guard->reserved[0] |= SB_BUS_PAIR;
        ret_guard->reserved[2] = sb_bus_ticket_take(bus);
}

/* Take a change for the two guard words. Return: 0; SB_E_LAPPED; SB_E_TIMED_OUT: there is nothing;
 * -ENOMEM. */
static int watch_take(
        struct sb_watch *watch, uint32_t first, uint32_t second, struct sb_op_change *ret)
{
        struct sb_bus *bus = watch->bus;
        int r;

        if (watch->prefix) {
                sb_op_prefix_let_go(&bus->handle, &watch->prefix->op);
                if (!sb_prefix_is_hinted(&watch->prefix->op) && sb_bell_is_dirty(&bus->handle))
                        sb_watches_take_bits(bus);
                r = sb_prefix_fill(bus, watch->prefix, watch->dirty);
                return r == 0 ? sb_prefix_give(bus, watch->prefix, first, second, ret) : r;
        }
        switch (sb_op_watch_look(&bus->handle, &watch->op, first, second, ret)) {
        case SB_WATCHED_CHANGE:
                return 0;
        case SB_WATCHED_LAPPED:
                return SB_E_LAPPED;
        case SB_WATCHED_NOTHING:
                sb_watches_take_back(watch, false);
                break;
        }
        return SB_E_TIMED_OUT;
}

/* One look. Return: 0: a change; SB_E_LAPPED; SB_E_TIMED_OUT: there is nothing; SB_E_FULL, -ENOMEM.
 */
static int watch_look(struct sb_watch *watch, struct sb_guard *ret_guard)
{
        struct sb_bus *bus = watch->bus;
        struct sb_op_change change;
        uint32_t first, second;
        int r;

        if (SB_UNLIKELY(watch->op.walked >= SB_ANCHOR_WORTH))
                sb_watches_lend(watch);
        r = sb_bus_guards_prepare(bus, 2);
        if (r != 0)
                return r;
        /* The two that watch_fill_guard() will take. */
        first = bus->guards_free[bus->guard_free_count - 1];
        second = bus->guards_free[bus->guard_free_count - 2];
        r = watch_take(watch, first, second, &change);
        if (r == 0)
                watch_fill_guard(bus, &change, ret_guard);
        return r;
}

int sb_watch_next(struct sb_watch *watch, uint64_t deadline_ns, struct sb_guard *ret_guard)
{
        struct sb_bus *bus;
        uint64_t seen;
        int r;

        SB_USE(watch ? watch->bus : NULL, sb_watch_next(watch, deadline_ns, ret_guard));
        if (!watch || !ret_guard)
                return -EINVAL;
        bus = watch->bus;
        if (!bus || sb_bus_detached(bus))
                return SB_E_DETACHED;
        for (;;) {
                seen = watch_spot(watch);
                r = watch_look(watch, ret_guard);
                if (r != SB_E_TIMED_OUT) {
                        sb_watches_note(watch, true); /* there may be more */
                        return sb_bus_result(bus, r);
                }
                if (sb_bus_result(bus, SB_E_TIMED_OUT) == -EIO)
                        return -EIO;
                sb_watches_note(watch, false);
                r = watch_await(bus, watch, seen, deadline_ns);
                if (r != 0)
                        return watch_settled(bus, r);
                /* One that spins and sees the spot move leaves the bits for the next turn: their
                 * lines are just being written by the process that tells. */
                if (bus->watches.spin_ns == 0 || watch_spot(watch) == seen)
                        sb_watches_take_bits(bus);
        }
}

/* ---- any watch ---- */

int sb_wait(struct sb_bus *bus, uint64_t deadline_ns)
{
        SB_USE(bus, sb_wait(bus, deadline_ns));
        if (!bus)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        for (;;) {
                int r;

                if (watch_any(bus))
                        return 0;
                r = watch_await(bus, NULL, 0, deadline_ns);
                if (r != 0)
                        return watch_settled(bus, r);
        }
}

struct sb_watch *sb_watch_ready(struct sb_bus *bus)
{
        struct sb_watch *watch;

        SB_USE(bus, sb_watch_ready(bus));
        if (!bus || sb_bus_detached(bus))
                return NULL;
        watch = watch_any(bus);
        if (watch) {
                /* The next call gives another one, if there is one. */
                sb_watches_note(watch, false);
                sb_watches_note(watch, true);
        } else {
                watch_settle(bus, false);
        }
        return watch;
}

void *sb_watch_data(const struct sb_watch *watch)
{
        return watch ? watch->data : NULL;
}

void sb_interrupt(struct sb_bus *bus)
{
        /* No SB_USE(): any thread may be in a call of the bus. */
        if (!bus || sb_load_relaxed(bus->alive) == 0) /* Relaxed: as in sb_bus_detached(). */
                return;
        /* R:stop > A:stop. Before the wake: a call that is about to sleep sees it. */
        sb_exchange_full(&bus->watches.interrupted, 1);
        sb_bell_wake(&bus->handle.segment, bus->handle.slot);
}

/* ---- a predicate ---- */

/* What the predicate says of the keys as they are now. */
static int watch_ask(struct sb_bus *bus, const struct sb_bytes *keys, size_t count,
        struct sb_guard *guards, sb_predicate *predicate, void *argument)
{
        int r = sb_get_many(bus, keys, count, guards);

        if (r != 0)
                return r;
        r = predicate(argument, guards, count);
        for (size_t i = 0; i < count; i++)
                sb_guard_release(&guards[i]);
        return r;
}

/* The watches of sb_wait_until(), which another exception than an error may leave, too. */
struct until {
        struct sb_watch **watches;
        struct sb_guard *guards;
        size_t count;
};

static void watch_end_until(struct until *until)
{
        for (size_t i = 0; i < until->count; i++)
                sb_watch_close(until->watches[i]);
        for (size_t i = 0; until->guards && i < until->count; i++)
                sb_guard_release(&until->guards[i]);
        free(until->watches);
        free(until->guards);
}

/* Sleep until one of the watches has something, and go on behind it in each. */
static int watch_await_any(struct sb_bus *bus, struct until *until, uint64_t deadline_ns)
{
        bool came = false;

        for (;;) {
                int r;

                for (size_t i = 0; i < until->count; i++)
                        if (until->watches[i]->dirty)
                                came |= sb_op_watch_skip(&bus->handle, &until->watches[i]->op);
                if (came)
                        return 0;
                for (size_t i = 0; i < until->count; i++)
                        sb_watches_note(until->watches[i], false);
                r = watch_await(bus, NULL, 0, deadline_ns);
                if (r != 0)
                        return r;
                sb_watches_take_bits(bus);
        }
}

int sb_wait_until(struct sb_bus *bus, const struct sb_bytes *keys, size_t count,
        sb_predicate *predicate, void *argument, uint64_t deadline_ns)
{
        static const struct sb_watch_options from_now = {.after = SB_ANY_REV};
        sb_auto(watch_end_until) struct until until = {0};
        int r;

        SB_USE(bus, sb_wait_until(bus, keys, count, predicate, argument, deadline_ns));
        if (!bus || !predicate || !keys || count == 0)
                return -EINVAL;
        for (size_t i = 0; i < count; i++) {
                r = watch_check_key(bus, keys[i]);
                if (r != 0)
                        return r;
        }
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        until.watches = calloc(count, sizeof(*until.watches));
        until.guards = calloc(count, sizeof(*until.guards));
        if (!until.watches || !until.guards)
                return -ENOMEM;
        for (; until.count < count; until.count++) {
                r = watch_open_checked(
                        bus, keys[until.count], &from_now, &until.watches[until.count]);
                if (r != 0)
                        return r;
        }
        for (;;) {
                r = watch_ask(bus, keys, count, until.guards, predicate, argument);
                if (r != 0)
                        return r;
                r = watch_await_any(bus, &until, deadline_ns);
                if (r != 0)
                        return r;
        }
}

/* ---- ending ---- */

/* @gone: the segment is not this process's any more. */
static void watch_end(struct sb_bus *bus, struct sb_watch *watch, bool gone)
{
        if (watch->prefix) {
                watch->op.dropped = sb_backlog_dropped(NULL, watch->prefix);
                sb_prefix_close(bus, watch->prefix, gone);
        } else if (!gone)
                sb_op_watch_end(&bus->handle, &watch->op);
        sb_watches_take_back(watch, gone);
        watch->prefix = NULL;
}

uint64_t sb_watch_cut(const struct sb_watch *watch)
{
        return watch && watch->prefix ? watch->prefix->begun : 0;
}

struct sb_watch *sb_watch_close(struct sb_watch *watch)
{
        struct sb_bus *bus;

        SB_USE_END(watch ? watch->bus : NULL, sb_watch_close(watch));
        if (!watch)
                return NULL;
        bus = watch->bus;
        if (bus) {
                /* In a forked child the entry is the parent's. */
                watch_end(bus, watch, sb_bus_detached(bus));
                sb_watches_note(watch, false);
                sb_watches_leave(bus, watch);
                watch_settle(bus, true);
        }
        free(watch);
        return NULL;
}

void sb_bus_orphan_watches(struct sb_bus *bus, bool gone)
{
        for (uint32_t place = 0; place < bus->watches.capacity; place++) {
                struct sb_watch *watch = bus->watches.table[place];

                if (!watch)
                        continue;
                watch_end(bus, watch, gone);
                watch->bus = NULL;
        }
        free(bus->watches.table);
        bus->watches.table = NULL;
        bus->watches.capacity = 0;
}
