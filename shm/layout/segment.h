/*
 * A segment: making its geometry, writing an empty one, and looking at one that somebody else
 * wrote.
 *
 * struct sb_segment is a process's private view: addresses and a copy of the geometry, taken once
 * and checked, so that nothing that changes in the segment later can lead an access out of it.
 */
#ifndef SB_LAYOUT_SEGMENT_H
#define SB_LAYOUT_SEGMENT_H

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"

#define SB_CLASS_TABLE 129 /* sizes up to 2 KiB; larger ones are searched for */

struct sb_segment {
        unsigned char *base;
        struct sb_superblock *super;
        struct sb_times *times;
        struct sb_mark *marks;
        struct sb_bucket *buckets;
        struct sb_cell64 *unit_words;
        struct sb_cell32 *unit_births;
        const struct sb_os *os;
        struct sb_geometry geometry;
        uint64_t seed;
        uint64_t bucket_mask;
        /* a block's header lies within [units_at, units_at + blocks_span] */
        uint64_t blocks_span;
        /* what begins with a header here, has the longest key and ends here is inside */
        uint64_t values_end;
        uint32_t unit_shift;
        uint32_t class_count;
        uint32_t class_size[SB_CLASS_MAX];
        /* 2^32 / size, rounded up: multiplies instead of dividing a block's distance */
        uint32_t class_inverse[SB_CLASS_MAX];
        uint8_t class_of[SB_CLASS_TABLE]; /* class of a size in units of 16 bytes, rounded up */
        /* the one class of the slabs for tombstones when the segment is full */
        uint32_t reserve_class;
        uint32_t key_len_max;
        uint32_t height_max; /* of a node's tower */
        uint64_t value_len_max;
};

/* Write an empty bus into @base, @geometry->size bytes, all zero before. */
void sb_segment_format(void *base, const struct sb_geometry *geometry, uint64_t seed,
        const uint64_t id[2], uint64_t now_ns);

/* Look at a segment. Return: 0; -EPROTONOSUPPORT (another layout version or unknown feature);
 * -EBADMSG (not a segment, or a geometry that does not fit @size). */
int sb_segment_open(void *base, uint64_t size, const struct sb_os *os, struct sb_segment *ret);

static inline struct sb_client *sb_client_at(const struct sb_segment *segment, uint32_t slot)
{
        sb_assert(slot < segment->geometry.client_count);
        return (struct sb_client *)(segment->base + segment->geometry.clients_at +
                                    (uint64_t)slot * segment->geometry.client_stride);
}
static inline struct sb_cell64 *sb_client_snapshots(struct sb_client *client)
{
        return client->words;
}
static inline struct sb_cell64 *sb_client_guards(
        const struct sb_segment *segment, struct sb_client *client)
{
        return client->words + segment->geometry.snapshot_count;
}

static inline struct sb_cell64 *sb_client_stock(
        const struct sb_segment *segment, struct sb_client *client)
{
        return sb_client_guards(segment, client) + segment->geometry.guard_inline;
}

/* Whether somebody keeps the segment: false when it was replaced, and when keeper and engine are
 * both dead; the latter may be for a moment only, while an engine that was just started has not
 * said so yet (sb_attach_lost() knows). */
static inline bool sb_segment_serving(const struct sb_segment *segment)
{
        const struct sb_superblock *super = segment->super;

        /* Relaxed: the values alone matter; nothing is read because of them. */
        return sb_load_relaxed(&super->state) == SB_SEGMENT_SERVING &&
               !(sb_load_relaxed(&super->keeper_life) & sb_load_relaxed(&super->engine_life) &
                       SB_LIFE_DIED);
}

/* Number of the unit that holds an offset, or UINT32_MAX when it lies in none. */
static inline uint32_t sb_unit_of(const struct sb_segment *segment, uint64_t offset)
{
        uint64_t within = offset - segment->geometry.units_at;

        if (offset < segment->geometry.units_at ||
                within >> segment->unit_shift >= segment->geometry.unit_count)
                return UINT32_MAX;
        return (uint32_t)(within >> segment->unit_shift);
}
static inline uint64_t sb_unit_offset(const struct sb_segment *segment, uint32_t unit)
{
        return segment->geometry.units_at + ((uint64_t)unit << segment->unit_shift);
}

/* Follow an offset that came out of the segment: NULL unless a whole header lies there, in the
 * units, aligned. The bytes behind are checked where they are read (sb_version_fits, sb_node_fits).
 */
static inline void *sb_block_at(const struct sb_segment *segment, uint64_t offset)
{
        if (SB_UNLIKELY(offset - segment->geometry.units_at >
                                segment->geometry.size - segment->geometry.units_at - 64 ||
                        (offset & 15)))
                return NULL;
        return segment->base + offset;
}
static inline struct sb_version *sb_version_at(const struct sb_segment *segment, uint64_t offset)
{
        return sb_block_at(segment, offset);
}
static inline struct sb_node *sb_node_at(const struct sb_segment *segment, uint64_t offset)
{
        /* With the tallest tower there can be, so that its links may be read before its height is.
         */
        if (SB_UNLIKELY(
                    offset > segment->geometry.size - sizeof(struct sb_node) - 8 * SB_HEIGHT_MAX))
                return NULL;
        return sb_block_at(segment, offset);
}
static inline uint64_t sb_offset_of(const struct sb_segment *segment, const void *pointer)
{
        return (uint64_t)((const unsigned char *)pointer - segment->base);
}
/* The number of a cell in a bucket, which is eight words: see SB_CELL_NUMBER. */
static inline uint64_t sb_cell_number(
        const struct sb_segment *segment, const struct sb_cell64 *cell)
{
        return (uint64_t)(cell - segment->buckets->cell) + 8;
}
/* The cell with this number, or NULL. */
static inline struct sb_cell64 *sb_cell_at(const struct sb_segment *segment, uint64_t number)
{
        uint64_t bucket = (number >> 3) - 1;

        if (number < 8 || (number & 7) >= SB_BUCKET_CELLS ||
                bucket >= (uint64_t)segment->geometry.bucket_count + segment->geometry.spill_count)
                return NULL;
        return &segment->buckets[bucket].cell[number & 7];
}

/* The key of a version lies behind its header; false when its lengths do not fit the segment. */
static inline bool sb_version_fits(
        const struct sb_segment *segment, const struct sb_version *version)
{
        uint64_t at = sb_offset_of(segment, version);

        return at + sb_version_size(version->shape) <= segment->geometry.size;
}
static inline bool sb_version_is(const struct sb_segment *segment, const struct sb_version *version,
        const void *key, uint32_t key_len)
{
        return SB_SHAPE_KEY_LEN(version->shape) == key_len && sb_version_fits(segment, version) &&
               sb_bytes_same(version->bytes, key, key_len);
}

#endif
