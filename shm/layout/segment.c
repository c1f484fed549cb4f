/*
 * Writing an empty bus, and opening one; see segment.h.
 *
 * Always true: sb_segment_open() recomputes what the geometry must be. So it refuses a segment of
 * which the superblock was written over, and believes nothing in it.
 */

#include "shm/layout/segment.h"

#include <errno.h>
#include <string.h>

#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/superblock.h"

#define SB_KEY_WORDS    32u /* bytes that a short way compares, whatever keys the segment takes */
#define VALUE_LEN_FIELD ((UINT64_C(1) << 36) - 1) /* the most that a shape can say */

/* List 0 of the vacancies has all units, which are FREE: a bit for each, and one in the list's
 * word for each 1/64 of the words with bits. */
static void segment_format_vacancies(unsigned char *base, const struct sb_geometry *geometry)
{
        struct sb_word64 *sums = (struct sb_word64 *)(base + sb_geometry_vacancies_at(geometry)),
                         *bits = sums +
                                 SB_GEOMETRY_LISTS(sb_geometry_class_count(geometry->unit_size));
        uint32_t words = (geometry->unit_count + 63) / 64, span = (words + 63) / 64, parts = 0, i;

        /* Relaxed, both: no other process maps the segment yet. */
        for (i = 0; i < words; i++)
                sb_store_relaxed(
                        &bits[i], i + 1 < words || geometry->unit_count % 64 == 0
                                          ? UINT64_MAX
                                          : (UINT64_C(1) << geometry->unit_count % 64) - 1);
        parts = (words + span - 1) / span;
        sb_store_relaxed(&sums[0], parts == 64 ? UINT64_MAX : (UINT64_C(1) << parts) - 1);
}

/* No unit was born yet. A process that is killed between the claim of one and its birth leaves what
 * is here, and the next owner may go on with it: 0 would read as an era to come. */
static void segment_format_births(unsigned char *base, const struct sb_geometry *geometry)
{
        struct sb_word32 *births = (struct sb_word32 *)(base + geometry->unit_words_at +
                                                        8 * (uint64_t)geometry->unit_count);
        uint32_t i;

        /* Relaxed: no other process maps the segment yet. */
        for (i = 0; i < geometry->unit_count; i++)
                sb_store_relaxed(&births[i], SB_BIRTH_FIRST);
}

void sb_segment_format(void *base, const struct sb_geometry *geometry, uint64_t seed,
        const uint64_t id[2], uint64_t now_ns)
{
        struct sb_superblock *super = base;

        super->layout_version = SB_LAYOUT_VERSION;
        super->features = 0;
        super->seed = seed;
        super->id[0] = id[0];
        super->id[1] = id[1];
        super->log_id[0] = id[0];
        super->log_id[1] = id[1];
        super->created_ns = now_ns;
        super->geometry = *geometry;
        /* Relaxed: no other process maps the segment yet. */
        sb_store_relaxed(&super->era, SB_ERA_MIN);
        sb_store_relaxed(&super->birth_floor, SB_ERA_MIN);
        sb_store_relaxed(&super->state, SB_SEGMENT_SERVING);
        sb_store_relaxed(&super->clock, 2);
        sb_store_relaxed(&super->stable, 1);
        segment_format_vacancies(base, geometry);
        segment_format_births(base, geometry);
        super->magic = SB_MAGIC;
}

static void segment_make_classes(struct sb_segment *segment)
{
        uint32_t size = SB_BLOCK_MIN, count = 0;

        segment->class_count = sb_geometry_class_count(segment->geometry.unit_size);
        for (; count < segment->class_count; size = sb_geometry_next_class(size)) {
                segment->class_inverse[count] =
                        (uint32_t)((UINT64_C(1) << 32) / size + ((UINT64_C(1) << 32) % size != 0));
                segment->class_fetch[count] =
                        (uint16_t)((size < SB_FETCH_MAX ? size : SB_FETCH_MAX) - 1);
                segment->class_size[count++] = size;
        }
        for (size = 0, count = 0; size < SB_CLASS_TABLE; size++) {
                while (count < segment->class_count && segment->class_size[count] < size * 16)
                        count++;
                segment->class_of[size] = (uint8_t)count;
        }
}

/* How long keys and values may be, and which class serves tombstones. */
static void segment_set_limits(struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint64_t space = (uint64_t)(g->unit_count - g->reserve_count) * g->unit_size;
        uint32_t key_space =
                segment->class_size[segment->class_count - 1] - (uint32_t)sizeof(struct sb_node);

        segment->key_len_max = key_space < SB_KEY_LEN_MAX ? key_space : SB_KEY_LEN_MAX;
        segment->value_len_max = g->size / 4 < space / 2 ? g->size / 4 : space / 2;
        if (segment->value_len_max > VALUE_LEN_FIELD)
                segment->value_len_max = VALUE_LEN_FIELD;
        while (segment->class_size[segment->reserve_class] <
                sizeof(struct sb_version) + segment->key_len_max)
                segment->reserve_class++;
}

/* Where the bits for the log lie, by level. */
static void segment_find_unlogged(struct sb_segment *segment)
{
        uint64_t words = segment->geometry.bucket_count;
        struct sb_word64 *next =
                (struct sb_word64 *)(segment->base + segment->geometry.unlogged_at);

        do {
                words = (words + 63) / 64;
                segment->unlogged[segment->unlogged_levels++] = next;
                next += words;
        } while (words > 1);
}

int sb_segment_open(void *base, uint64_t size, const struct sb_os *os, struct sb_segment *ret)
{
        struct sb_superblock *super = base;
        struct sb_segment segment = {.base = base, .super = super, .os = os};

        if (size < sizeof(*super) || super->magic != SB_MAGIC)
                return -EBADMSG;
        if (super->layout_version != SB_LAYOUT_VERSION || super->features)
                return -EPROTONOSUPPORT;
        segment.geometry = super->geometry;
        if (!sb_geometry_sound(&segment.geometry, size))
                return -EBADMSG;
        segment.seed = super->seed;
        segment.times = (struct sb_times *)(segment.base + segment.geometry.times_at);
        segment.marks = (struct sb_named_cut *)(segment.base + segment.geometry.marks_at);
        segment.buckets = (struct sb_bucket *)(segment.base + segment.geometry.buckets_at);
        segment.floors = (struct sb_word64 *)(segment.base + segment.geometry.floors_at);
        segment.unit_words = (struct sb_word64 *)(segment.base + segment.geometry.unit_words_at);
        segment.unit_births =
                (struct sb_word32 *)(segment.unit_words + segment.geometry.unit_count);
        segment.vacancies =
                (struct sb_word64 *)(segment.base + sb_geometry_vacancies_at(&segment.geometry));
        segment.unit_shift = (uint32_t)__builtin_ctz(segment.geometry.unit_size);
        segment_make_classes(&segment);
        segment_set_limits(&segment);
        segment.bucket_count = segment.geometry.bucket_count;
        segment_find_unlogged(&segment);
        segment.blocks_span =
                ((uint64_t)segment.geometry.unit_count << segment.unit_shift) - SB_BLOCK_MIN;
        segment.values_end =
                segment.geometry.size - sizeof(struct sb_version) - SB_TRAILER_TXN -
                (segment.key_len_max < SB_KEY_WORDS ? SB_KEY_WORDS : segment.key_len_max);
        *ret = segment;
        return 0;
}
