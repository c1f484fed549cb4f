/*
 * Reading: a version is found under a pin, held by a guard word, and handed out in place.
 *
 * Always true: a guard that names a bus owns one place of it; the place's guard word holds the version from before the pin
 * under which it was found was over.
 */
#include <string.h>

#include "libclient/core/bus.h"
#include "ring/op.h"

#define BATCH_MAX 32u /* keys whose memory is fetched together */

/* Documented in statebus.h. */
int sb_get(struct sb_bus *bus, struct sb_bytes key, struct sb_guard *ret_guard)
{
        struct sb_version *version;
        uint32_t place;
        int r;

        if (SB_UNLIKELY(bus == NULL || ret_guard == NULL))
                return -EINVAL;
        r = sb_bus_key_check(bus, key);
        if (SB_UNLIKELY(r != 0))
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_bus_place_reserve(bus, 1);
        if (SB_UNLIKELY(r != 0))
                return r;
        place = sb_bus_place_first(bus);
        r = sb_op_get(&bus->peer, key.data, (uint32_t)key.len, place, &version);
        if (r != 0)
                return r;
        sb_bus_guard_fill(bus, sb_bus_place_take(bus), version, ret_guard);
        return 0;
}

/* One batch; its places were reserved. */
static void get_batch(struct sb_bus *bus, const struct sb_bytes *keys, uint32_t count, struct sb_guard *ret_guards)
{
        struct sb_op_write wanted[BATCH_MAX];
        struct sb_version *versions[BATCH_MAX];
        uint32_t places[BATCH_MAX];

        sb_assert(count > 0 && count <= BATCH_MAX);
        for (uint32_t i = 0; i < count; i++) {
                wanted[i].key = keys[i].data;
                wanted[i].key_len = (uint32_t)keys[i].len;
                places[i] = sb_bus_place_take(bus);
        }
        sb_op_get_many(&bus->peer, wanted, count, places, versions);
        for (uint32_t i = 0; i < count; i++) {
                if (versions[i] != NULL) {
                        sb_bus_guard_fill(bus, places[i], versions[i], &ret_guards[i]);
                } else {
                        ret_guards[i] = (struct sb_guard){0};
                        sb_bus_place_give(bus, places[i]);
                }
        }
}

/**
 * sb_get_many() - hold the newest committed version of each of several keys
 * @bus:        bus with any access
 * @keys:       @count keys; a key may stand there twice
 * @count:      0 is fine
 * @ret_guards: @count guards; that of a key without a value is not held (bus NULL)
 *
 * Each key is read at some moment during the call: this is not a cut.
 *
 * Return:   0; SB_E_DETACHED; SB_E_FULL (more than 65,536 guards would be held) and -ENOMEM: none is held.
 * Threads:  the bus's own.
 * Progress: as sb_get().
 * Cost:     the misses of up to 32 keys overlap: less than half of a get for each key.
 */
int sb_get_many(struct sb_bus *bus, const struct sb_bytes *keys, size_t count, struct sb_guard *ret_guards)
{
        int r;

        if (bus == NULL || (count > 0 && (keys == NULL || ret_guards == NULL)))
                return -EINVAL;
        for (size_t i = 0; i < count; i++) {
                r = sb_bus_key_check(bus, keys[i]);
                if (SB_UNLIKELY(r != 0))
                        return r;
        }
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (count > SB_GUARDS_MAX)
                return SB_E_FULL;
        r = sb_bus_place_reserve(bus, (uint32_t)count);
        if (SB_UNLIKELY(r != 0))
                return r;
        for (size_t done = 0; done < count; done += BATCH_MAX) {
                uint32_t batch = (uint32_t)(count - done < BATCH_MAX ? count - done : BATCH_MAX);

                get_batch(bus, keys + done, batch, ret_guards + done);
        }
        return 0;
}

/**
 * sb_guard_release() - let go of a version
 * @guard:      a guard, held or not, or NULL
 *
 * Afterwards its key, value and old_value must not be read; its numbers may. A second release does nothing, nor does that of a
 * copy of a guard that was released.
 *
 * Threads:  the bus's own.
 * Progress: wait-free.
 * Cost:     one store to a private line.
 */
void sb_guard_release(struct sb_guard *guard)
{
        struct sb_bus *bus;
        uint32_t place, serial;

        if (SB_UNLIKELY(guard == NULL || guard->bus == NULL))
                return;
        bus = guard->bus;
        place = (uint32_t)guard->reserved[0];
        serial = (uint32_t)(guard->reserved[0] >> 32);
        guard->bus = NULL;
        if (SB_UNLIKELY(place >= bus->place_count || bus->places[place].serial != serial))
                return;
        /* In a forked child the guard word is the parent's. */
        if (SB_LIKELY(sb_load_relaxed(bus->alive) != 0))
                sb_guard_set(&bus->peer, place, 0);
        sb_bus_place_give(bus, place);
}
