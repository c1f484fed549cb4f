/*
 * Which keys are watched, by which clients, and whether those have looked at what came; and what
 * kinds of blocks the memory is used for; see admin.h.
 *
 * A watched key has a bit in its cell, so the walk follows no link of a key that is not watched.
 *
 * Always true: nothing here writes to the segment but the pin of its own record, and a pin covers
 * no more than a few hundred buckets.
 */
#include <string.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/notify/ring.h"

#define BUCKETS_A_PIN 256u

static bool admin_watches_bit(const struct sb_record *record, uint32_t bit)
{
        /* Relaxed: for display. */
        return sb_load_relaxed(&record->dirty[bit / 64 % SB_DIRTY_WORDS]) >> bit % 64 & 1;
}

bool sb_admin_watch_is_behind(struct sb_bus *bus, uint32_t client, uint32_t bit)
{
        const struct sb_segment *segment = &bus->handle.segment;

        return !sb_bus_detached(bus) && client < segment->geometry.record_count &&
               admin_watches_bit(sb_record_at(segment, client), bit);
}

/* Describe the watch of an entry, if its client is there. */
static bool admin_watches_read(
        const struct sb_segment *segment, uint64_t word, struct sb_admin_watch *watch)
{
        uint32_t slot = SB_WATCHER_SLOT(word), bit = SB_WATCHER_BIT(word), generation;
        struct sb_record *record;

        if (!word || slot >= segment->geometry.record_count ||
                sb_roster_state(segment, slot, &generation) != SB_RECORD_ATTACHED ||
                generation != SB_WATCHER_GENERATION(word))
                return false;
        record = sb_record_at(segment, slot);
        watch->client = slot;
        watch->bit = bit;
        watch->behind = admin_watches_bit(record, bit);
        /* Relaxed: for display. */
        watch->wakes = sb_load_relaxed(&record->bell);
        return true;
}

/* All watchers of one key. Call it under a pin. */
static void admin_watches_walk_key(struct sb_handle *handle, const struct sb_version *version,
        sb_admin_watch_seen *seen, void *argument)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t left = sb_damage_bound(segment), shape = sb_version_shape(segment, version), at;
        struct sb_node *node = sb_node_at(segment, sb_once(version->node));
        struct sb_ring_view view;
        struct sb_admin_watch watch = {
                .key = {version->bytes, SB_SHAPE_KEY_LEN(shape)},
                .rev = sb_once(version->rev),
        };

        if (!node || !watch.key.len)
                return;
        if (watch.key.len >= SB_WATCH_PREFIX &&
                memcmp(watch.key.data, SB_RESERVED_WATCH, SB_WATCH_PREFIX) == 0) {
                watch.prefix = true;
                watch.key.data = version->bytes + SB_WATCH_PREFIX;
                watch.key.len -= SB_WATCH_PREFIX;
        }
        /* Bound: damage. Blocks that go round. */
        for (at = sb_pin_load(handle, &node->ring);
                at && sb_damage_step(handle, &left) && sb_ring_view(handle, at, &view);
                at = sb_pin_load(handle, &view.ring->more))
                for (uint32_t i = 0; i < view.watcher_count; i++) {
                        /* Relaxed: for display. Only the first block has slots. */
                        if (watch.prefix && view.slot_count)
                                watch.rev = sb_load_relaxed(&view.ring->tail);
                        watch.place = sb_offset_of(segment, &view.watchers[i]);
                        /* Relaxed: for display. */
                        if (admin_watches_read(segment, sb_load_relaxed(&view.watchers[i]), &watch))
                                seen(argument, &watch);
                }
}

int sb_admin_watches(struct sb_bus *bus, sb_admin_watch_seen *seen, void *argument)
{
        struct sb_handle *handle = &bus->handle;
        const struct sb_segment *segment = &handle->segment;
        uint64_t count = segment->geometry.bucket_count;

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        for (uint64_t bucket = 0; bucket < count;) {
                sb_pin(handle);
                for (uint32_t i = 0; i < BUCKETS_A_PIN && bucket < count; i++, bucket++)
                        for (uint32_t index = 0; index < SB_BUCKET_CELLS; index++) {
                                struct sb_word64 *cell = &segment->buckets[bucket].cell[index];
                                struct sb_version *version;

                                /* Relaxed: it is loaded again before it is followed. */
                                if (!(sb_load_relaxed(cell) & SB_CELL_WATCHED))
                                        continue;
                                version = sb_version_at(
                                        segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK);
                                if (version)
                                        admin_watches_walk_key(handle, version, seen, argument);
                        }
                sb_unpin(handle);
        }
        return 0;
}

int sb_admin_memory(struct sb_bus *bus, struct sb_admin_memory *ret)
{
        const struct sb_segment *segment = &bus->handle.segment;
        const struct sb_geometry *geometry = &segment->geometry;
        struct sb_admin_memory memory = {0};
        uint64_t *const kinds[] = {
                [SB_UNIT_FREE] = &memory.free_bytes,
                [SB_UNIT_VERSIONS] = &memory.values_bytes,
                [SB_UNIT_NODES] = &memory.keys_bytes,
                [SB_UNIT_GUARDS] = &memory.guards_bytes,
                [SB_UNIT_LARGE] = &memory.large_bytes,
                [SB_UNIT_PART] = &memory.large_bytes,
                [SB_UNIT_EMPTY] = &memory.emptied_bytes,
        };

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        memory.all_bytes = (uint64_t)geometry->unit_count * geometry->unit_size;
        for (uint32_t unit = 0; unit < geometry->unit_count; unit++) {
                /* Relaxed: a number for display. */
                uint32_t kind = SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit]));

                if (kind < sizeof(kinds) / sizeof(kinds[0]))
                        *kinds[kind] += geometry->unit_size;
        }
        /* Relaxed: a number for display. */
        memory.history_bytes = sb_load_relaxed(&segment->super->history_bytes);
        *ret = memory;
        return 0;
}
