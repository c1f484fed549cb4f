/*
 * Looking at a bus as a whole, and asking its agentd for something; see admin.h.
 *
 * Numbers are read word by word while others write: each is right by itself, and no two of them
 * need belong to the same moment. Walks over buckets pin for a few hundred buckets at a time, so
 * that they hold up no reclaimer for long.
 *
 * Always true: nothing here writes to the segment but the pin of its own record.
 */
#include "libclient/core/admin.h"

#include <stdio.h>
#include <stdlib.h>

#include "libclient/core/attach.h"
#include "libclient/core/bus.h"
#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/hash.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
#include "shm/keys/index.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/reserved.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/check.h"

#define BATCH_MAX 32u /* guards that one call takes at once, as a history does */

#define BUCKETS_A_PIN 256u

static uint64_t admin_age_ns(const struct sb_bus *bus, uint64_t since_ns)
{
        const struct sb_os *os = bus->handle.segment.os;
        uint64_t now = os->now_ns(os->context);

        return now > since_ns ? now - since_ns : 0;
}

/* Whether a key has its cell in another bucket than its home. */
static bool admin_is_away(
        const struct sb_segment *segment, const struct sb_version *version, uint64_t bucket)
{
        uint32_t key_len = SB_SHAPE_KEY_LEN(sb_version_shape(segment, version));

        return key_len && sb_index_home(segment,
                                  sb_hash_key(version->bytes, key_len, segment->seed)) != bucket;
}

/* Count the cells of one bucket that are in use, and the keys. Call it under a pin. */
static void admin_count_bucket(struct sb_bus *bus, uint64_t bucket, struct sb_admin_stat *stat)
{
        struct sb_handle *handle = &bus->handle;

        for (uint32_t index = 0; index < SB_BUCKET_CELLS; index++) {
                uint64_t word = sb_pin_load(handle, &handle->segment.buckets[bucket].cell[index]);
                struct sb_version *version = sb_version_at(&handle->segment, word & SB_OFFSET_MASK);
                uint64_t shape = version ? sb_version_shape(&handle->segment, version) : 0;
                uint32_t kind;

                stat->cells_used += word != 0;
                if (version)
                        stat->cells_away += admin_is_away(&handle->segment, version, bucket);
                if (!version || sb_reserved_is(version->bytes, SB_SHAPE_KEY_LEN(shape)))
                        continue;
                kind = SB_SHAPE_KIND(shape) & SB_VERSION_KIND;
                if (kind == SB_VERSION_VALUE)
                        stat->keys++;
                else if (kind != SB_VERSION_PLACEHOLDER)
                        stat->keys_deleted++;
        }
}

static void admin_count_units(const struct sb_segment *segment, struct sb_admin_stat *stat)
{
        const struct sb_geometry *geometry = &segment->geometry;

        stat->unit_size = geometry->unit_size;
        stat->data_bytes = (uint64_t)geometry->unit_count * geometry->unit_size;
        stat->reserve_bytes = (uint64_t)geometry->reserve_count * geometry->unit_size;
        stat->held_bytes = segment->super->held_units * geometry->unit_size;
        for (uint32_t unit = 0; unit < geometry->unit_count; unit++)
                /* Relaxed: a number for display. */
                if (SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit])) == SB_UNIT_FREE)
                        stat->data_free_bytes += geometry->unit_size;
}

static void admin_count_clients(const struct sb_segment *segment, struct sb_admin_stat *stat)
{
        /* Relaxed: a number for display. */
        uint64_t clients_max = sb_load_relaxed(&segment->super->clients_max);

        stat->clients_max = segment->geometry.record_count - 1;
        if (clients_max && clients_max < stat->clients_max)
                stat->clients_max = (uint32_t)clients_max;
        for (uint32_t slot = 1; slot <= stat->clients_max; slot++)
                if (sb_roster_state(segment, slot, NULL) == SB_RECORD_ATTACHED)
                        stat->clients++;
}

int sb_admin_open(const char *bus, struct sb_bus **ret_bus)
{
        struct sb_options options = {.size = sizeof(options), .bus = bus, .access = SB_PEER};

        return sb_bus_open_as(&options, SB_HELLO_ATTACH_OPERATOR, ret_bus);
}

enum sb_admin_full sb_admin_full(const struct sb_bus *bus)
{
        const struct sb_word64 *cuts = sb_record_snapshots(bus->handle.record);
        uint32_t count = bus->handle.segment.geometry.snapshot_count, open = 0;

        if (bus->guard_count == SB_GUARDS_MAX && bus->guard_free_count < BATCH_MAX)
                return SB_ADMIN_FULL_GUARDS;
        /* Relaxed: the bus's own words. */
        while (open < count && sb_load_relaxed(&cuts[open]) != 0)
                open++;
        return open == count ? SB_ADMIN_FULL_CUTS : SB_ADMIN_FULL_MEMORY;
}

int sb_admin_stat(struct sb_bus *bus, struct sb_admin_stat *ret)
{
        const struct sb_segment *segment = &bus->handle.segment;
        const struct sb_superblock *super = segment->super;
        struct sb_admin_stat stat = {0};

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        stat.segment_bytes = segment->geometry.size;
        stat.huge_bytes = super->huge_bytes;
        stat.value_len_max = segment->value_len_max;
        stat.key_len_max = segment->key_len_max;
        stat.buckets = segment->geometry.bucket_count;
        stat.cells = stat.buckets * SB_BUCKET_CELLS;
        /* Relaxed, all of these: numbers for display, each right by itself. */
        stat.clock = sb_load_relaxed(&super->clock);
        stat.stable = sb_load_relaxed(&super->stable);
        stat.marks_max = segment->geometry.mark_count;
        stat.era = sb_load_relaxed(&super->era);
        stat.engine_generation = sb_load_relaxed(&super->engine_generation);
        stat.supervisor_pid = (uint32_t)sb_load_relaxed(&super->supervisor);
        stat.engine_pid = (uint32_t)sb_load_relaxed(&super->engine);
        stat.age_ns = admin_age_ns(bus, super->created_ns);
        stat.id[0] = super->id[0];
        stat.id[1] = super->id[1];
        stat.history_bytes = sb_load_relaxed(&super->history_bytes);
        stat.history_limit = sb_load_relaxed(&super->history_limit);
        for (uint32_t i = 0; i < segment->geometry.mark_count; i++)
                stat.marks += sb_load_relaxed(&segment->marks[i].owner) != 0;
        sb_admin_log_read(segment, &stat);
        admin_count_units(segment, &stat);
        admin_count_clients(segment, &stat);
        for (uint64_t bucket = 0; bucket < stat.buckets;) {
                sb_pin(&bus->handle);
                for (uint32_t i = 0; i < BUCKETS_A_PIN && bucket < stat.buckets; i++)
                        admin_count_bucket(bus, bucket++, &stat);
                sb_unpin(&bus->handle);
        }
        *ret = stat;
        return 0;
}

/* The bytes of the block at @offset. It reads words of units alone, and never the block, which may
 * be freed at any moment. */
static uint64_t admin_block_bytes(const struct sb_segment *segment, uint64_t offset)
{
        uint32_t unit = sb_unit_of(segment, offset), class_;
        uint64_t word, bytes;

        if (unit == UINT32_MAX)
                return 0;
        word = sb_load_relaxed(&segment->unit_words[unit]);
        if (SB_UNIT_KIND(word) == SB_UNIT_LARGE) {
                bytes = segment->geometry.unit_size;
                for (uint32_t part = unit + 1; part < segment->geometry.unit_count; part++) {
                        word = sb_load_relaxed(&segment->unit_words[part]);
                        if (SB_UNIT_KIND(word) != SB_UNIT_PART || (uint32_t)word != unit)
                                break;
                        bytes += segment->geometry.unit_size;
                }
                return bytes;
        }
        class_ = SB_UNIT_CLASS(word);
        return class_ < segment->class_count ? segment->class_size[class_] : 0;
}

/* Count one snapshot word of a record: an open cut, or one that was taken away. */
static void admin_count_snapshot(uint64_t word, struct sb_admin_client *found)
{
        uint64_t cut = word & ~SB_SNAPSHOT_EVICTING;

        if (word == SB_SNAPSHOT_EVICTED ||
                (word & (SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING)) == SB_SNAPSHOT_EVICTING)
                found->evicted++;
        else if (word != 0)
                found->snapshots++;
        if (cut > SB_SNAPSHOT_EVICTED && !(cut & SB_SNAPSHOT_PENDING) &&
                (found->cut == 0 || cut < found->cut))
                found->cut = cut;
}

int sb_admin_client_next(struct sb_bus *bus, uint32_t *number, struct sb_admin_client *ret)
{
        const struct sb_segment *segment = &bus->handle.segment;
        struct sb_admin_client found = {0};
        struct sb_moment moment;
        struct sb_record *record;
        uint64_t high;

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        while (*number < segment->geometry.record_count &&
                sb_roster_state(segment, *number, NULL) != SB_RECORD_ATTACHED)
                ++*number;
        if (*number >= segment->geometry.record_count)
                return SB_E_NOT_FOUND;
        record = sb_record_at(segment, *number);
        found.is_log = sb_durable_is_logged(segment) && *number == sb_durable_slot(segment);
        found.number = (*number)++;
        found.pid = record->pid;
        found.uid = record->uid;
        found.access = record->access;
        found.age_ns = admin_age_ns(bus, record->attached_ns);
        /* Relaxed, all of these: numbers for display. */
        found.reading = sb_load_relaxed(&record->pin) != 0;
        found.sleeps = (sb_load_relaxed(&record->sleeps) & SB_BELL_SLEEPS) != 0;
        for (uint32_t i = 0; i < segment->geometry.snapshot_count; i++)
                admin_count_snapshot(sb_load_relaxed(&sb_record_snapshots(record)[i]), &found);
        if (found.cut != 0 && sb_times_behind(segment, found.cut, &moment))
                found.cut_age_ns = admin_age_ns(bus, moment.monotonic_ns);
        high = sb_load_relaxed(&record->guard_high);
        /* The pin keeps chunks of guard words from being reused under the walk. */
        sb_pin(&bus->handle);
        for (uint32_t i = 0; i < high && i < SB_GUARDS_MAX; i++) {
                uint64_t offset = sb_guard_read(segment, record, i);

                if (offset != 0) {
                        found.guards++;
                        found.pinned_bytes += admin_block_bytes(segment, offset);
                }
        }
        sb_unpin(&bus->handle);
        *ret = found;
        return 0;
}

int sb_admin_check(struct sb_bus *bus, struct sb_check_report *ret)
{
        uint64_t count, *words;
        int r;

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        /* Without memory the validator goes on with the few notes that it has. */
        count = sb_reach_words(&bus->handle.segment);
        words = malloc(8 * count);
        sb_reach_lend(&bus->handle, words, count);
        r = sb_check(&bus->handle, false, ret);
        sb_reach_lend(&bus->handle, NULL, 0);
        free(words);
        return r;
}

int sb_admin_directory(const char *bus, char *ret_directory, size_t size)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        if (r == 0)
                snprintf(ret_directory, size, "%s", place.directory);
        return r;
}

int sb_admin_supervisor(const char *bus, pid_t *ret_pid)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_place_supervisor(&place, ret_pid);
}

bool sb_admin_held(const char *bus)
{
        struct sb_place place;

        return sb_place_resolve(bus, &place) == 0 && sb_place_held(&place);
}

int sb_admin_listener(const char *bus, pid_t *ret_pid)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_attach_listener(&place, ret_pid);
}

int sb_admin_homeless(const char *bus, pid_t *ret_pid)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_place_homeless(&place, ret_pid);
}

int sb_admin_homeless_open(const char *bus, pid_t *ret_pid, int *ret_fd)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_place_homeless_open(&place, ret_pid, ret_fd);
}

bool sb_admin_homeless_lost(const char *bus)
{
        struct sb_place place;

        return sb_place_resolve(bus, &place) == 0 && sb_place_homeless_lost(&place);
}

int sb_admin_served(const char *bus)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_attach_served(&place);
}

int sb_admin_layout(const char *bus, uint32_t *ret_layout)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_attach_layout(&place, ret_layout);
}

int sb_admin_evict(const char *bus, uint32_t number, uint32_t pid, bool kill, uint32_t *ret_count)
{
        struct sb_place place;
        int r;

        if (number == 0)
                return SB_E_NOT_FOUND; /* the engine has none */
        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_attach_evict(&place, SB_HELLO_TARGET(pid, number), kill, ret_count);
}

int sb_admin_start(const char *bus, const char *const *options, struct sb_attach_end *ret_end)
{
        struct sb_place place;
        int r;

        r = sb_place_resolve(bus, &place);
        return r != 0 ? r : sb_attach_start(&place, options, ret_end);
}
