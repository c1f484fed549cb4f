/*
 * Which clients and marks hold which cuts, and how much memory is kept for them; see admin.h.
 *
 * A version that was superseded is kept for a cut c when its own stamp is not above c and the stamp
 * of its successor is. The walk goes once through the versions of every key, and charges each such
 * version once to every holder that has a cut in between.
 *
 * Always true: the walk takes no cut, and reads a chain under a pin alone. So it keeps no memory
 * from being freed for longer than a few buckets take, and the sums are those of no single moment:
 * each chain counts as it was when the walk met it.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"

#define BUCKETS_A_PIN 64u

/* The state of one walk: all cuts, ascending, each with its holder, and what was charged. */
struct held_cut {
        uint64_t cut;
        uint32_t holder; /* index */
};
struct tally {
        struct held_cut *cuts;
        uint32_t cut_count;
        uint64_t *charged; /* of each holder: the number of the version that it was charged last */
        uint64_t version_number;
};

static int admin_holders_compare_cuts(const void *a, const void *b)
{
        uint64_t left = ((const struct held_cut *)a)->cut,
                 right = ((const struct held_cut *)b)->cut;

        return (left > right) - (left < right);
}

/* The bytes that the block of a version takes: a block of its class, or whole units. Call it under
 * the pin under which the version was found. */
static uint64_t admin_holders_block_bytes(
        const struct sb_segment *segment, const struct sb_version *version)
{
        uint64_t shape = sb_once(version->shape),
                 bytes = sizeof(*version) + SB_SHAPE_KEY_LEN(shape) + SB_SHAPE_VALUE_LEN(shape);
        uint32_t class_ = sb_unit_class(segment, bytes);

        if (class_ < segment->class_count)
                return segment->class_size[class_];
        return (bytes + segment->geometry.unit_size - 1) / segment->geometry.unit_size *
               segment->geometry.unit_size;
}

/* Charge a version that was current from @stamp until @successor to each holder once. It looks for
 * the first cut from @stamp on by halving. */
static void admin_holders_charge(struct tally *tally, struct sb_admin_holders *holders,
        uint64_t stamp, uint64_t successor, uint64_t bytes)
{
        uint32_t low = 0, high = tally->cut_count;

        tally->version_number++;
        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (tally->cuts[middle].cut < stamp)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < tally->cut_count && tally->cuts[low].cut < successor; low++) {
                uint32_t holder = tally->cuts[low].holder;

                if (tally->charged[holder] == tally->version_number)
                        continue;
                tally->charged[holder] = tally->version_number;
                holders->holders[holder].held_bytes += bytes;
        }
}

/* Charge what is superseded in one chain. Call it under a pin. */
static void admin_holders_walk_chain(struct sb_handle *handle, const struct sb_word64 *cell,
        struct tally *tally, struct sb_admin_holders *holders)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t left = sb_damage_bound(segment), newer = 0;
        struct sb_version *version =
                sb_version_at(segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK);

        /* A version that is not stamped yet, or never will be, was never current: it counts for
         * nothing and ends no other. */
        /* Bound: damage. A chain that goes round. */
        while (version && sb_damage_step(handle, &left)) {
                uint64_t stamp = sb_load_acquire(&version->stamp); /* A:stamp. */

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                        return;
                if (stamp > SB_STAMP_PLACEHOLDER && !(stamp & SB_STAMP_INTENT)) {
                        if (newer != 0)
                                admin_holders_charge(tally, holders, stamp, newer,
                                        admin_holders_block_bytes(segment, version));
                        newer = stamp;
                }
                version = sb_version_at(
                        segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
        }
}

static void admin_holders_walk_all(
        struct sb_bus *bus, struct tally *tally, struct sb_admin_holders *holders)
{
        struct sb_handle *handle = &bus->handle;
        const struct sb_geometry *geometry = &handle->segment.geometry;
        uint64_t count = geometry->bucket_count;

        for (uint64_t bucket = 0; bucket < count;) {
                sb_pin(handle);
                for (uint32_t i = 0; i < BUCKETS_A_PIN && bucket < count; i++, bucket++)
                        for (uint32_t index = 0; index < SB_BUCKET_CELLS; index++)
                                admin_holders_walk_chain(handle,
                                        &handle->segment.buckets[bucket].cell[index], tally,
                                        holders);
                sb_unpin(handle);
        }
}

/* Gather all cuts that are held just now, holder by holder. @cuts is as long as there are words
 * that may name one. Return: the count of cuts. */
static uint32_t admin_holders_gather(
        const struct sb_segment *segment, struct held_cut *cuts, struct sb_admin_holders *holders)
{
        const struct sb_geometry *geometry = &segment->geometry;
        uint32_t count = 0;
        uint64_t cut;

        for (uint32_t slot = 0; slot <= geometry->record_count; slot++) {
                bool marks = slot == geometry->record_count;
                uint32_t words = marks ? geometry->mark_count : geometry->snapshot_count,
                         before = count;

                for (uint32_t i = 0; i < words; i++) {
                        if (marks) {
                                if (!sb_named_read(segment, i, &cut))
                                        continue;
                        } else {
                                /* A:announce. */
                                cut = sb_load_acquire(&sb_record_snapshots(
                                              sb_record_at(segment, slot))[i]) &
                                      ~SB_SNAPSHOT_EVICTING;
                                if (cut <= SB_SNAPSHOT_EVICTED || (cut & SB_SNAPSHOT_PENDING))
                                        continue;
                        }
                        cuts[count++] = (struct held_cut){cut, holders->count};
                }
                if (count == before)
                        continue;
                qsort(cuts + before, count - before, sizeof(*cuts), admin_holders_compare_cuts);
                holders->holders[holders->count++] = (struct sb_admin_holder){
                        .client = marks ? SB_ADMIN_MARKS : slot,
                        .cut_count = count - before,
                };
        }
        return count;
}

int sb_admin_holders(struct sb_bus *bus, struct sb_admin_holders *ret)
{
        const struct sb_segment *segment = &bus->handle.segment;
        const struct sb_geometry *geometry = &segment->geometry;
        size_t room =
                (size_t)geometry->record_count * geometry->snapshot_count + geometry->mark_count;
        struct sb_admin_holders holders = {0};
        struct tally tally = {0};
        int r = -ENOMEM;

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        holders.holders = calloc(geometry->record_count + 1, sizeof(*holders.holders));
        holders.cuts_ = calloc(room, sizeof(*holders.cuts_));
        tally.cuts = calloc(room, sizeof(*tally.cuts));
        tally.charged = calloc(geometry->record_count + 1, sizeof(*tally.charged));
        if (holders.holders && holders.cuts_ && tally.cuts && tally.charged) {
                uint32_t done = 0;

                tally.cut_count = admin_holders_gather(segment, tally.cuts, &holders);
                for (uint32_t i = 0; i < tally.cut_count; i++)
                        holders.cuts_[i] = tally.cuts[i].cut;
                for (uint32_t i = 0; i < holders.count; i++) {
                        holders.holders[i].cuts = holders.cuts_ + done;
                        done += holders.holders[i].cut_count;
                }
                qsort(tally.cuts, tally.cut_count, sizeof(*tally.cuts), admin_holders_compare_cuts);
                admin_holders_walk_all(bus, &tally, &holders);
                r = 0;
        }
        free(tally.cuts);
        free(tally.charged);
        if (r == 0)
                *ret = holders;
        else
                sb_admin_holders_free(&holders);
        return r;
}

void sb_admin_holders_free(struct sb_admin_holders *holders)
{
        free(holders->holders);
        free(holders->cuts_);
        *holders = (struct sb_admin_holders){0};
}
