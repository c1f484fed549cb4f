/*
 * A segment as one process sees it: struct sb_segment, and the functions that lead from an offset
 * or a number to what lies there. segment.c writes an empty bus, and opens a segment that another
 * process wrote; geometry.h makes the geometry of a new one.
 *
 * Always true: struct sb_segment is private memory, made once by sb_segment_open(): addresses, and
 * a copy of the geometry that was checked. So nothing that changes in the segment later can lead an
 * access out of it. An offset that was read in the segment is input: only the sb_<noun>_at()
 * functions follow one, and they say NULL where it points out of the units.
 */
#ifndef SB_LAYOUT_SEGMENT_H
#define SB_LAYOUT_SEGMENT_H

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"

#define SB_CLASS_TABLE 129 /* sizes up to 2 KiB; larger ones are searched for */
/* Bytes of a block that are fetched ahead: a core notices by itself that a longer value is read. */
#define SB_FETCH_MAX (6 * SB_LINE)

struct sb_segment {
        /* Where the areas lie in this process. */
        unsigned char *base;
        struct sb_superblock *super;
        struct sb_times *times;
        struct sb_named_cut *marks;
        struct sb_bucket *buckets;
        struct sb_word64 *floors;
        struct sb_word64 *unlogged[SB_UNLOGGED_LEVELS]; /* by level; a bit for each bucket: 0 */
        struct sb_word64 *unit_words;
        struct sb_word32 *unit_births;
        struct sb_word64 *vacancies; /* a word for each list, then the bits of each */
        const struct sb_os *os;
        /* Copies, and what follows from them. */
        struct sb_geometry geometry;
        uint64_t seed;
        uint64_t bucket_count;
        uint32_t unlogged_levels;
        uint64_t blocks_span; /* a block begins within [units_at, units_at + blocks_span]; behind
                                 the last unit there may be bytes that are in none */
        uint64_t values_end;  /* a version is inside, whatever its key, if its offset and its
                                 value's length together are this or less */
        uint32_t unit_shift;
        /* Size classes: sizes in ascending order, the inverse of each, and a table of the class of
         * a size in units of 16 bytes, rounded up. An inverse is 2^32 / size, rounded up: by it a
         * block's distance is multiplied instead of divided. */
        uint32_t class_count;
        uint32_t class_size[SB_CLASS_MAX];
        uint32_t class_inverse[SB_CLASS_MAX];
        uint8_t class_of[SB_CLASS_TABLE];
        uint16_t class_fetch[64]; /* by what a unit's word says, even in a damaged segment: how far
                                     from a block's beginning the last byte lies that is fetched
                                     before the block is read */
        uint32_t reserve_class;   /* of all slabs in the reserve: fits any tombstone */
        uint32_t key_len_max;
        uint64_t value_len_max;
};

/* Write an empty bus into the @geometry->size bytes at @base, which are all zero. */
void sb_segment_format(void *base, const struct sb_geometry *geometry, uint64_t seed,
        const uint64_t id[2], uint64_t now_ns);

/* Check the segment of @size bytes at @base, and make this process's side of it. Return: 0;
 * -EPROTONOSUPPORT (another layout version or unknown feature); -EBADMSG (not a segment, or a
 * geometry that does not fit @size). */
int sb_segment_open(void *base, uint64_t size, const struct sb_os *os, struct sb_segment *ret);

/* ---- client records ---- */

static inline struct sb_record *sb_record_at(const struct sb_segment *segment, uint32_t slot)
{
        sb_assert(slot < segment->geometry.record_count);
        return (struct sb_record *)(segment->base + segment->geometry.records_at +
                                    (uint64_t)slot * segment->geometry.record_stride);
}
/* The arrays behind a record's fixed part; see record.h. */
static inline struct sb_word64 *sb_record_snapshots(struct sb_record *record)
{
        return record->words;
}
static inline struct sb_word64 *sb_record_guards(
        const struct sb_segment *segment, struct sb_record *record)
{
        return record->words + segment->geometry.snapshot_count;
}
static inline struct sb_word64 *sb_record_magazine(
        const struct sb_segment *segment, struct sb_record *record)
{
        return sb_record_guards(segment, record) + segment->geometry.guard_inline;
}
static inline struct sb_word64 *sb_record_opened(
        const struct sb_segment *segment, struct sb_record *record)
{
        return sb_record_magazine(segment, record) + segment->geometry.magazine_count;
}

/* Whether supervisor or engine live. That neither does may be so for a moment only, while an engine
 * that was just started has not said so yet (sb_attach_lost() knows). */
static inline bool sb_segment_has_daemon(const struct sb_segment *segment)
{
        const struct sb_superblock *super = segment->super;

        /* Relaxed: the values alone matter; nothing is read because of them. */
        return !(sb_load_relaxed(&super->supervisor_life) & sb_load_relaxed(&super->engine_life) &
                 SB_LIFE_DIED);
}
/* Whether a daemon serves the segment: false also when it was replaced. */
static inline bool sb_segment_serving(const struct sb_segment *segment)
{
        /* Relaxed: as above. */
        return (sb_load_relaxed(&segment->super->state) & SB_SEGMENT_SERVING) &&
               sb_segment_has_daemon(segment);
}
/* The same, and clients may write. */
static inline bool sb_segment_writable(const struct sb_segment *segment)
{
        /* Relaxed: as above. */
        return sb_load_relaxed(&segment->super->state) == SB_SEGMENT_SERVING &&
               sb_segment_has_daemon(segment);
}

/* ---- units and blocks ---- */

/* Number of the unit that an offset lies in, or UINT32_MAX when it lies in none. */
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

/* The block at an offset that was read in the segment: NULL unless a whole header lies there, in
 * the units, aligned. The bytes behind are checked where they are read (sb_version_fits(),
 * sb_node_key()). The offset may be an expression that lies in the segment: it is loaded once. */
static inline void *sb_block_at(const struct sb_segment *segment, uint64_t offset)
{
        offset = sb_once(offset);
        if (SB_UNLIKELY(
                    offset - segment->geometry.units_at > segment->blocks_span || (offset & 15)))
                return NULL;
        return segment->base + offset;
}
static inline struct sb_version *sb_version_at(const struct sb_segment *segment, uint64_t offset)
{
        return sb_block_at(segment, offset);
}
static inline struct sb_node *sb_node_at(const struct sb_segment *segment, uint64_t offset)
{
        return sb_block_at(segment, offset);
}
static inline uint64_t sb_offset_of(const struct sb_segment *segment, const void *pointer)
{
        return (uint64_t)((const unsigned char *)pointer - segment->base);
}

/* ---- cells ---- */

/* The number of a cell; a bucket is eight words: see SB_CELL_NUMBER. */
static inline uint64_t sb_cell_number(
        const struct sb_segment *segment, const struct sb_word64 *cell)
{
        return (uint64_t)(cell - segment->buckets->cell) + 8;
}
/* The cell with this number, or NULL. */
static inline struct sb_word64 *sb_cell_at(const struct sb_segment *segment, uint64_t number)
{
        uint64_t bucket = (number >> 3) - 1;

        if (number < 8 || (number & 7) >= SB_BUCKET_CELLS ||
                bucket >= segment->geometry.bucket_count)
                return NULL;
        return &segment->buckets[bucket].cell[number & 7];
}

/* ---- versions ---- */

/* Whether all of a version lies in the segment, by the lengths that its shape says. */
static inline bool sb_version_fits(
        const struct sb_segment *segment, const struct sb_version *version)
{
        uint64_t at = sb_offset_of(segment, version);

        return at + sb_version_size(sb_once(version->shape)) <= segment->geometry.size;
}
/* The shape that was checked. The fault SHAPE_READ_AGAIN loads it once more. */
static inline uint64_t sb_version_checked(const struct sb_version *version, uint64_t shape)
{
        return SB_FAULT(SHAPE_READ_AGAIN) ? sb_again(version->shape) : shape;
}
/* A version's shape, loaded once and checked: all of the version lies in the segment, by the
 * lengths in it. Where it does not, they are 0. */
static inline uint64_t sb_version_shape(
        const struct sb_segment *segment, const struct sb_version *version)
{
        uint64_t shape = sb_once(version->shape);

        return SB_LIKELY(sb_offset_of(segment, version) + sb_version_size(shape) <=
                         segment->geometry.size)
                       ? sb_version_checked(version, shape)
                       : shape & SB_SHAPE(0, 0, SB_VERSION_KIND, 0xfff);
}
/* Copy a value of exactly @size bytes, behind a key of @key_len. False: it has another size. */
static inline bool sb_version_copy(const struct sb_segment *segment,
        const struct sb_version *version, uint32_t key_len, void *ret, uint64_t size)
{
        uint64_t shape = sb_version_shape(segment, version);

        if (SB_SHAPE_KEY_LEN(shape) != key_len || SB_SHAPE_VALUE_LEN(shape) != size)
                return false;
        if (SB_FAULT(STORED_READ_AGAIN))
                size = SB_SHAPE_VALUE_LEN(sb_again(version->shape)); /* that is the fault */
        memcpy(ret, version->bytes + key_len, size);
        return true;
}
/* Whether a version is of this key. */
static inline bool sb_version_is(const struct sb_segment *segment, const struct sb_version *version,
        const void *key, uint32_t key_len)
{
        uint64_t shape = sb_once(version->shape);

        return SB_SHAPE_KEY_LEN(shape) == key_len &&
               sb_offset_of(segment, version) + sb_version_size(shape) <= segment->geometry.size &&
               sb_bytes_same(version->bytes, key, key_len);
}

#endif
