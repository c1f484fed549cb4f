/*
 * The life of a bus: it is made around an attached client's record, checked on each call, and
 * closed once.
 *
 * Always true: a process that finds `alive` 0 is a forked child. The segment is not mapped there
 * (MADV_DONTFORK), and the record is the parent's. So the child touches nothing of either, and
 * gives back private memory alone.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "libclient/core/use.h"
#include "libclient/core/write-set.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/work.h"

static const struct sb_word32 bus_closed = {0};

#define ALIVE_SIZE   4096u
#define GUARDS_FIRST 64u

/* Relaxed: the mode is written before the segment is served. */
static bool bus_is_plain(const struct sb_segment *segment, enum sb_access access)
{
        return access == SB_PEER && sb_load_relaxed(&segment->super->log_mode) != SB_LOG_STRICT;
}

void sb_bus_init(struct sb_bus *bus, const struct sb_word32 *alive,
        const struct sb_segment *segment, uint32_t slot, uint32_t generation, void *space)
{
        bus->alive = alive;
        bus->access = SB_PEER;
        bus->plain = bus_is_plain(segment, SB_PEER);
        bus->watches.sleep_max_ns = SB_SLEEP_MAX_NS;
        TAILQ_INIT(&bus->watches.dirty);
        bus->quick = SB_BUS_QUICK | 1;
        bus->space = space;
        sb_handle_init(&bus->handle, segment, slot, generation, space);
}

int sb_bus_new(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        enum sb_access access, struct sb_bus_home *home, struct sb_bus **ret_bus)
{
        struct sb_use *use = NULL;
        struct sb_bus *bus;
        struct sb_word32 *alive;
        bool checked = sb_use_wanted();
        void *space;
        int r;

        alive = mmap(NULL, ALIVE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (alive == MAP_FAILED)
                return -errno;
        if (madvise(alive, ALIVE_SIZE, MADV_WIPEONFORK) < 0) {
                r = -errno;
                munmap(alive, ALIVE_SIZE);
                return r;
        }
        bus = calloc(1, sizeof(*bus));
        space = malloc(sb_handle_space(&segment->geometry));
        if (bus && space && checked)
                use = sb_use_new();
        if (!bus || !space || checked != !!use) {
                free(bus);
                free(space);
                munmap(alive, ALIVE_SIZE);
                return -ENOMEM;
        }
        /* Relaxed: private memory, read by this thread alone. */
        sb_store_relaxed(alive, checked ? SB_BUS_CHECKED : SB_BUS_ALIVE);
        sb_bus_init(bus, alive, segment, slot, generation, space);
        bus->access = access;
        bus->plain = bus_is_plain(segment, access);
        bus->home = home;
        bus->use = use;
        *ret_bus = bus;
        return 0;
}

int sb_bus_open_segment(const struct sb_segment *segment, uint32_t slot, uint32_t generation,
        struct sb_bus **ret_bus)
{
        return sb_bus_new(segment, slot, generation, SB_PEER, NULL, ret_bus);
}

enum sb_access sb_granted(const struct sb_bus *bus)
{
        return !bus ? SB_OBSERVER : bus->access;
}

int sb_client(struct sb_bus *bus, uint32_t *ret_number, uint32_t *ret_generation)
{
        SB_USE(bus, sb_client(bus, ret_number, ret_generation));
        if (!bus || !ret_number || !ret_generation)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (bus->access == SB_OBSERVER)
                return SB_E_DENIED;
        *ret_number = bus->handle.slot;
        *ret_generation = bus->handle.generation;
        return 0;
}

int sb_alive(struct sb_bus *bus, uint32_t number, uint32_t generation)
{
        const struct sb_segment *segment;
        enum sb_record_state state;
        uint32_t current;

        SB_USE(bus, sb_alive(bus, number, generation));
        if (!bus)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        segment = &bus->handle.segment;
        if (number >= segment->geometry.record_count)
                return SB_E_NOT_FOUND;
        /* A dead one is here until it is reaped: until then a process may finish what it began. */
        state = sb_roster_state(segment, number, &current);
        return state != SB_RECORD_FREE && current == generation ? 0 : SB_E_NOT_FOUND;
}

bool sb_bus_lost(struct sb_bus *bus)
{
        const struct sb_segment *segment = &bus->handle.segment;

        if (bus->home)
                bus->lost = bus->lost || sb_attach_lost(&bus->home->place, segment);
        else
                /* Relaxed: the value alone matters. */
                bus->lost = !(sb_load_relaxed(&segment->super->state) & SB_SEGMENT_SERVING);
        return bus->lost;
}

int sb_bus_guard_txn(struct sb_guard *guard)
{
        const struct sb_segment *segment = &guard->bus->handle.segment;
        const unsigned char *behind = (const unsigned char *)guard->value.data + guard->value.len;

        /* In a sound segment the number is there; in a damaged one it may lie beyond the end. */
        if (sb_offset_of(segment, behind) + SB_TRAILER_TXN <= segment->geometry.size)
                memcpy(&guard->txn, behind, sizeof(guard->txn));
        return 0;
}

void sb_bus_guard_fill_private(
        struct sb_bus *bus, struct sb_write_set_value *value, struct sb_guard *ret_guard)
{
        uint32_t index = sb_bus_guard_take(bus);

        bus->tickets[index] |= SB_BUS_PRIVATE;
        if (!SB_FAULT(TXN_OWN_NOT_HELD))
                sb_write_set_value_hold(value, &bus->held);
        *ret_guard = (struct sb_guard){.key = {value->bytes, value->key_len},
                .value = {value->bytes + value->key_len, value->value_len},
                .kind = SB_VALUE,
                .writer = bus->handle.slot,
                .bus = bus,
                .reserved = {bus->tickets[index], (uint64_t)(uintptr_t)value}};
}

int sb_bus_guards_grow(struct sb_bus *bus, uint32_t count)
{
        int r;

        while (bus->guard_free_count < count) {
                if (bus->guard_count == SB_GUARDS_MAX) {
                        if (bus->quick & 1)
                                return SB_E_FULL;
                        /* The quick guard word is the last one left: it joins the others. */
                        bus->quick++;
                        sb_bus_guard_give(bus, 0);
                        continue;
                }
                if (bus->guard_count == bus->guard_capacity) {
                        uint32_t capacity =
                                bus->guard_capacity == 0 ? GUARDS_FIRST : 2 * bus->guard_capacity;
                        uint64_t *tickets = realloc(bus->tickets, capacity * sizeof(*tickets));
                        uint32_t *guards_free;

                        if (!tickets)
                                return -ENOMEM;
                        bus->tickets = tickets;
                        guards_free = realloc(bus->guards_free, capacity * sizeof(*guards_free));
                        if (!guards_free)
                                return -ENOMEM;
                        bus->guards_free = guards_free;
                        bus->guard_capacity = capacity;
                }
                r = sb_guard_grow(&bus->handle, bus->guard_count);
                if (r == SB_E_FULL) {
                        /* There is no block for more guard words, unless this reclaims one. A read
                         * has no deadline, so it does not wait for more. */
                        (void)sb_work_lists(&bus->handle);
                        (void)sb_work_slice(&bus->handle);
                        r = sb_guard_grow(&bus->handle, bus->guard_count);
                }
                if (r != 0)
                        return r;
                bus->tickets[bus->guard_count] = bus->guard_count;
                if (bus->guard_count == 0)
                        bus->quick++;
                else
                        sb_bus_guard_give(bus, bus->guard_count);
                bus->guard_count++;
        }
        return 0;
}

/* Whether the program holds a guard, when nothing else has a guard word any more. */
static bool bus_has_guards(const struct sb_bus *bus)
{
        uint32_t quick_is_free = bus->guard_count > 0 && !(bus->quick & 1);

        return bus->guard_free_count + quick_is_free < bus->guard_count;
}

/* Free what the guards of a closed bus need, unless there are any, or calls are checked. */
static void bus_free_closed(struct sb_bus *bus)
{
        if (bus_has_guards(bus))
                return;
        if (bus->use) {
                sb_use_end(bus->use);
                return;
        }
        free(bus->tickets);
        free(bus->guards_free);
        free(bus);
}

void sb_bus_free(struct sb_bus *bus)
{
        free(bus->home);
        free(bus->space);
        munmap((void *)bus->alive, ALIVE_SIZE);
        bus->alive = &bus_closed;
        bus->closed = true;
        if (bus->use)
                sb_use_close(bus->use);
        bus_free_closed(bus);
}

void sb_bus_guard_gone(struct sb_bus *bus)
{
        if (bus->closed)
                bus_free_closed(bus);
}
