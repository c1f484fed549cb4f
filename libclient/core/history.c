/*
 * The past: cuts by time, a key's value in a cut, and all versions of a key that are kept.
 *
 * A walk through a key's versions (struct sb_history) goes by batches. It finds up to 32 versions
 * under one pin, holds each with a guard word, and then hands them out one after the other. The
 * next batch begins behind the last version of this one, which the walk holds with a guard word of
 * its own. When a pruner took that version out of its chain meanwhile, the next batch begins at its
 * revision.
 *
 * Always true: the versions batch[at .. count-1] are held by guard words that no caller knows of
 * yet; sb_history_close() gives these back.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/history.h"

#include <stdlib.h>

#include "libclient/core/bus.h"
#include "libclient/core/read.h"
#include "libclient/core/use.h"
#include "ring/op/get.h"
#include "ring/op/past.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/history/times.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"

#ifndef SB_HISTORY_BATCH_MAX
#define SB_HISTORY_BATCH_MAX 32u
#endif

struct entry {
        struct sb_version *version;
        uint64_t ticket; /* of the guard word that holds it */
};

struct sb_history {
        struct sb_bus *bus;              /* NULL: it was closed under this walk */
        struct sb_history *next, **link; /* in the bus's list */
        bool reverse, begun, ended;
        bool trimmed;       /* older ones are missing; reversed: and the caller does not know yet */
        uint32_t at, count; /* of the batch: what is from `at` on was not handed out yet */
        uint64_t rev;       /* of the last one that was handed out; 0: none */
        struct entry batch[SB_HISTORY_BATCH_MAX];
        struct sb_version *last; /* of the batch before, held by guard word `guard`; NULL: none */
        uint32_t guard, key_len;
        unsigned char key[SB_KEY_LEN_MAX];
};

int sb_cut_at(struct sb_bus *bus, uint64_t realtime_ns, uint64_t *ret_cut)
{
        const struct sb_segment *segment;
        struct sb_moment moment;
        uint64_t cut;

        SB_USE(bus, sb_cut_at(bus, realtime_ns, ret_cut));
        if (!bus || !ret_cut)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        segment = &bus->handle.segment;
        if (segment->os->realtime_ns(segment->os->context) <= realtime_ns) {
                cut = sb_clock_take_cut(&bus->handle);
                /* A second look at the clock shows that the cut was taken before that time. */
                if (segment->os->realtime_ns(segment->os->context) <= realtime_ns) {
                        *ret_cut = cut;
                        return 0;
                }
        }
        /* A bus that was new then had no cut yet that can be read at. */
        if (!sb_times_at(segment, realtime_ns, &moment) || moment.cut <= SB_STAMP_PLACEHOLDER)
                return SB_E_LAPPED;
        *ret_cut = moment.cut;
        return 0;
}

/* Describe a version, which may be a delete, and which the guard word of @ticket holds. */
static void history_fill_guard(
        struct sb_bus *bus, uint64_t ticket, struct sb_version *version, struct sb_guard *ret_guard)
{
        uint64_t shape = sb_version_shape(&bus->handle.segment, version);

        (void)sb_bus_guard_fill(bus, ticket, version, SB_SHAPE_KEY_LEN(shape), shape, ret_guard);
        if ((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                ret_guard->kind = SB_DELETED;
}

int sb_get_at(struct sb_bus *bus, struct sb_bytes key, uint64_t cut, struct sb_guard *ret_guard)
{
        struct sb_version *version = NULL;
        int r;

        SB_USE(bus, sb_get_at(bus, key, cut, ret_guard));
        if (!bus || !ret_guard || cut <= SB_STAMP_PLACEHOLDER)
                return -EINVAL;
        r = sb_bus_key_check(bus, key);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (!sb_clock_reaches(&bus->handle, cut))
                return -EINVAL;
        r = sb_bus_guards_prepare(bus, 1);
        if (r != 0)
                return r;
        r = sb_past_get(
                &bus->handle, key.data, (uint32_t)key.len, cut, sb_bus_guard_first(bus), &version);
        if (version)
                history_fill_guard(bus, sb_bus_ticket_take(bus), version, ret_guard);
        else if (r == SB_E_LAPPED)
                ret_guard->bus = NULL;
        return version ? r : sb_bus_result(bus, r);
}

/* Hold the values of keys now, at one moment. Return: as sb_get_many_at(). */
static int history_get_many_now(
        struct sb_bus *bus, const struct sb_bytes *keys, size_t count, struct sb_guard *ret_guards)
{
        uint32_t snapshot;
        uint64_t cut;
        int r = sb_snapshot_open(&bus->handle, &snapshot, &cut);

        if (r != 0)
                return r;
        r = sb_read_many_at(bus, keys, count, snapshot, cut, ret_guards);
        sb_snapshot_close(&bus->handle, snapshot);
        return r;
}

/* Hold the value of a key in an earlier cut. Return: 0: also without a value; as sb_past_get(). */
static int history_get_one(
        struct sb_bus *bus, struct sb_bytes key, uint64_t cut, struct sb_guard *ret_guard)
{
        uint32_t guard = sb_bus_guard_first(bus);
        struct sb_version *version = NULL;
        int r = sb_past_get(&bus->handle, key.data, (uint32_t)key.len, cut, guard, &version);

        ret_guard->bus = NULL;
        if (r == 0)
                history_fill_guard(bus, sb_bus_ticket_take(bus), version, ret_guard);
        else if (version)
                sb_guard_set(&bus->handle, guard, 0); /* the oldest that is left */
        return r == SB_E_NOT_FOUND ? 0 : r;
}

/* Hold the values of keys in an earlier cut. Each answer is the truth about that cut, so that all
 * together are of one moment. Return: as sb_get_many_at(). */
static int history_get_many(struct sb_bus *bus, const struct sb_bytes *keys, size_t count,
        uint64_t cut, struct sb_guard *ret_guards)
{
        size_t done = 0;
        int r = count > SB_GUARDS_MAX ? SB_E_FULL : sb_bus_guards_prepare(bus, (uint32_t)count);

        if (r != 0)
                return r;
        sb_op_fetch(&bus->handle, (const struct sb_op_key *)(const void *)keys, (uint32_t)count);
        while (r == 0 && done < count) {
                r = history_get_one(bus, keys[done], cut, &ret_guards[done]);
                done += r == 0;
        }
        if (r == 0)
                r = sb_bus_result(bus, SB_E_NOT_FOUND) == -EIO ? -EIO : 0;
        while (r != 0 && done > 0)
                sb_guard_release(&ret_guards[--done]);
        return r;
}

int sb_get_many_at(struct sb_bus *bus, const struct sb_bytes *keys, size_t count, uint64_t cut,
        struct sb_guard *ret_guards)
{
        int r;

        SB_USE(bus, sb_get_many_at(bus, keys, count, cut, ret_guards));
        r = !bus || (cut != 0 && cut <= SB_STAMP_PLACEHOLDER)
                    ? -EINVAL
                    : sb_read_many_check(bus->handle.segment.key_len_max, keys, count, ret_guards);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (cut != 0 && !sb_clock_reaches(&bus->handle, cut))
                return -EINVAL;
        if (cut == 0)
                return history_get_many_now(bus, keys, count, ret_guards);
        return history_get_many(bus, keys, count, cut, ret_guards);
}

/* ---- all versions ---- */

int sb_history_open(
        struct sb_bus *bus, struct sb_bytes key, uint32_t flags, struct sb_history **ret_history)
{
        struct sb_history *history;
        int r;

        SB_USE(bus, sb_history_open(bus, key, flags, ret_history));
        if (!bus || !ret_history || (flags & ~SB_REVERSE) != 0)
                return -EINVAL;
        r = sb_bus_key_check(bus, key);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_bus_guards_prepare(bus, 1);
        if (r != 0)
                return r;
        history = calloc(1, sizeof(*history));
        if (!history)
                return -ENOMEM;
        history->bus = bus;
        history->reverse = (flags & SB_REVERSE) != 0;
        history->guard = sb_bus_guard_take(bus);
        history->key_len = (uint32_t)key.len;
        memcpy(history->key, key.data, key.len);
        history->next = bus->histories;
        history->link = &bus->histories;
        if (history->next)
                history->next->link = &history->next;
        bus->histories = history;
        *ret_history = history;
        return 0;
}

/* Put one more version into the batch, as a ring of @size entries. Call it under a pin. */
static void history_add(struct sb_history *history, struct sb_version *version, uint32_t size)
{
        history->batch[history->count++ % size].version = version;
}

/* Fill the batch downwards, from the newest version, or from behind the last one of the batch
 * before. Call it under a pin. */
static void history_find_older(struct sb_history *history, struct sb_version *head)
{
        struct sb_handle *handle = &history->bus->handle;
        bool going =
                history->last && (sb_pin_load(handle, &history->last->prev) & SB_PREV_MARKED) != 0;
        struct sb_version *version = history->last && !going ? history->last : head;
        bool below = version == history->last;

        while (history->count < SB_HISTORY_BATCH_MAX) {
                bool trimmed = false;

                version = sb_past_next(handle, version, below, &trimmed);
                if (!version) {
                        history->ended = true;
                        history->trimmed = trimmed;
                        return;
                }
                if (history->rev == 0 || version->rev < history->rev)
                        history_add(history, version, SB_HISTORY_BATCH_MAX);
                below = true;
        }
}

/* Go down from the newest version to the last one that was handed out, and keep the batch that lies
 * right above it. Call it under a pin. */
static void history_find_newer(struct sb_history *history, struct sb_version *head)
{
        struct sb_version *version = head;
        bool below = false, trimmed;

        for (;; below = true) {
                trimmed = false;
                version = sb_past_next(&history->bus->handle, version, below, &trimmed);
                if (!version || version->rev <= history->rev)
                        break;
                history_add(history, version, SB_HISTORY_BATCH_MAX);
        }
        if (!history->begun)
                history->trimmed = trimmed;
        history->ended = history->count <= SB_HISTORY_BATCH_MAX;
}

/* Put the batch of history_find_newer() into the order in which it is handed out, oldest first. */
static void history_turn_round(struct sb_history *history)
{
        struct entry ring[SB_HISTORY_BATCH_MAX];
        uint32_t count =
                history->count < SB_HISTORY_BATCH_MAX ? history->count : SB_HISTORY_BATCH_MAX;

        memcpy(ring, history->batch, sizeof(ring));
        for (uint32_t i = 0; i < count; i++)
                history->batch[i] = ring[(history->count - 1 - i) % SB_HISTORY_BATCH_MAX];
        history->count = count;
}

/* Hold the batch, and where the next one begins, before the pin is over. */
static void history_hold_batch(struct sb_history *history)
{
        struct sb_bus *bus = history->bus;
        struct sb_handle *handle = &bus->handle;

        for (uint32_t i = 0; i < history->count; i++) {
                struct entry *entry = &history->batch[i];

                entry->ticket = sb_bus_ticket_take(bus);
                sb_guard_set(handle, (uint32_t)entry->ticket,
                        sb_offset_of(&handle->segment, entry->version));
        }
        if (history->count == 0)
                return;
        history->last = history->batch[history->count - 1].version;
        if (!SB_FAULT(HISTORY_LAST_NOT_HELD))
                sb_guard_set(handle, history->guard, sb_offset_of(&handle->segment, history->last));
}

/* Find and hold the next versions. Return: 0, also when there are none; SB_E_FULL, -ENOMEM. */
static int history_next_batch(struct sb_history *history)
{
        struct sb_bus *bus = history->bus;
        struct sb_handle *handle = &bus->handle;
        uint64_t hash = sb_hash_key(history->key, history->key_len, handle->segment.seed);
        int r = sb_bus_guards_prepare(bus, SB_HISTORY_BATCH_MAX);
        struct sb_version *head;

        if (r != 0)
                return r;
        history->at = history->count = 0;
        sb_pin(handle);
        head = sb_past_head(handle, history->key, history->key_len, hash);
        if (history->reverse) {
                history_find_newer(history, head);
                history_turn_round(history);
        } else {
                history_find_older(history, head);
        }
        if (!SB_FAULT(HISTORY_GUARD_LATE))
                history_hold_batch(history);
        sb_unpin(handle);
        if (SB_FAULT(HISTORY_GUARD_LATE))
                history_hold_batch(history);
        history->begun = true;
        return 0;
}

int sb_history_next(struct sb_history *history, struct sb_guard *ret_guard, uint64_t *ret_time_ns)
{
        struct sb_moment moment = {0};
        struct sb_version *version;
        struct sb_bus *bus;
        uint64_t gap;
        int r;

        SB_USE(history ? history->bus : NULL, sb_history_next(history, ret_guard, ret_time_ns));
        if (!history || !ret_guard)
                return -EINVAL;
        bus = history->bus;
        if (!bus || sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (history->at == history->count && !history->ended) {
                r = history_next_batch(history);
                if (r != 0)
                        return r;
        }
        if (history->reverse && history->trimmed) {
                history->trimmed = false;
                return SB_E_LAPPED;
        }
        if (history->at == history->count)
                return sb_bus_result(bus, history->trimmed ? SB_E_LAPPED : SB_E_NOT_FOUND);
        version = history->batch[history->at].version;
        history_fill_guard(bus, history->batch[history->at++].ticket, version, ret_guard);
        gap = history->reverse ? version->rev - history->rev : history->rev - version->rev;
        ret_guard->missed = history->rev != 0 ? gap - 1 : 0;
        history->rev = version->rev;
        if (ret_time_ns) {
                (void)sb_times_before(&bus->handle.segment, ret_guard->cut, &moment);
                *ret_time_ns = moment.realtime_ns;
        }
        return 0;
}

/* Give back the guard words that no caller knows of. */
static void history_give_guards(struct sb_history *history)
{
        for (; history->at < history->count; history->at++)
                sb_bus_guard_give(history->bus, (uint32_t)history->batch[history->at].ticket);
        sb_bus_guard_give(history->bus, history->guard);
}

struct sb_history *sb_history_close(struct sb_history *history)
{
        struct sb_bus *bus;

        SB_USE_END(history ? history->bus : NULL, sb_history_close(history));
        if (!history)
                return NULL;
        bus = history->bus;
        if (bus) {
                /* In a forked child the guard words are the parent's. */
                bool own = sb_load_relaxed(bus->alive) != 0;

                if (own) {
                        for (uint32_t i = history->at; i < history->count; i++)
                                sb_guard_set(&bus->handle, (uint32_t)history->batch[i].ticket, 0);
                        sb_guard_set(&bus->handle, history->guard, 0);
                }
                history_give_guards(history);
                *history->link = history->next;
                if (history->next)
                        history->next->link = history->link;
        }
        free(history);
        return NULL;
}

void sb_bus_orphan_histories(struct sb_history *histories)
{
        for (struct sb_history *history = histories; history; history = history->next) {
                history_give_guards(history);
                history->bus = NULL;
        }
}
