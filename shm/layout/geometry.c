/* Computing a geometry from a wish, and checking one; see geometry.h. */

#include "shm/layout/geometry.h"

#include <errno.h>
#include <string.h>

#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"

#define TIMES_MAX   1024u
#define MARKS_MAX   64u
#define UNITS_MIN   4u
#define BUCKETS_MAX (1u << 30)
#define LINE_PAIR   (2u * SB_LINE)

static uint64_t geometry_round_up(uint64_t value, uint64_t alignment)
{
        return (value + alignment - 1) / alignment * alignment;
}

static bool geometry_is_power_of_two(uint64_t value)
{
        return value && !(value & (value - 1));
}

/* A 4096th of the segment, within 4 KiB and 1 MiB. */
static uint32_t geometry_unit_size(uint64_t size)
{
        uint32_t unit = 4096;

        while (unit < (1u << 20) && (uint64_t)unit * 4096 < size)
                unit *= 2;
        return unit;
}

static bool geometry_is_prime(uint32_t value)
{
        uint32_t divisor;

        for (divisor = 2; (uint64_t)divisor * divisor <= value; divisor++)
                if (value % divisor == 0)
                        return false;
        return value > 1;
}

/* A power of two, or four times a prime: then the way of a home through the other buckets
 * (keys/index.h) comes to all of them. */
static bool geometry_buckets_sound(uint32_t count)
{
        return count <= BUCKETS_MAX && (geometry_is_power_of_two(count) ||
                                               (count % 4 == 0 && geometry_is_prime(count / 4)));
}

/* One bucket for each 800 bytes, a few more: with the floors that is 9 % of the segment. Memory
 * that is full of the smallest keys, at 131 bytes, fills 80 % of the cells at most. */
static uint32_t geometry_bucket_count(uint64_t size)
{
        uint64_t groups = size / 3200;

        if (groups < 2)
                groups = 2;
        if (groups > BUCKETS_MAX / 4 - 1024)
                return BUCKETS_MAX;
        while (!geometry_is_prime((uint32_t)groups))
                groups++;
        return (uint32_t)groups * 4;
}

static uint32_t geometry_bitmap_stride(uint32_t unit_size)
{
        uint32_t bytes = unit_size / SB_BLOCK_MIN / 8;

        return bytes < 8 ? 8 : bytes;
}

uint32_t sb_geometry_next_class(uint32_t size)
{
        uint32_t step = size < 128 ? 16 : 64;

        while (size >= 512 && step * 8 <= size)
                step *= 2;
        return size + step;
}

uint32_t sb_geometry_class_count(uint32_t unit_size)
{
        uint32_t size = SB_BLOCK_MIN, count = 0;

        for (; size <= unit_size / 2 && count < SB_CLASS_MAX; size = sb_geometry_next_class(size))
                count++;
        return count;
}

uint64_t sb_geometry_unlogged_words(uint64_t bucket_count)
{
        uint64_t words = bucket_count, all = 0;

        do {
                words = (words + 63) / 64;
                all += words;
        } while (words > 1);
        return all;
}

static uint64_t geometry_lists(const struct sb_geometry *g)
{
        return SB_GEOMETRY_LISTS(sb_geometry_class_count(g->unit_size));
}

uint64_t sb_geometry_vacancies_size(const struct sb_geometry *g)
{
        return geometry_lists(g) * 8 * (1 + ((uint64_t)g->unit_count + 63) / 64);
}

uint64_t sb_geometry_vacancies_at(const struct sb_geometry *g)
{
        return g->bitmaps_at + (uint64_t)g->unit_count * g->bitmap_stride;
}

/* Two at least, where that is not much: a process that is stopped may own one. */
static uint32_t geometry_reserve_count(uint32_t unit_count)
{
        return unit_count < 32 ? 1 : unit_count < 192 ? 2 : unit_count / 64;
}

/* What lies between the client records and the units' words; records_at is there. */
static void geometry_lay_out_head(struct sb_geometry *g)
{
        g->times_at = g->records_at + (uint64_t)g->record_count * g->record_stride;
        g->marks_at = g->times_at + sizeof(struct sb_times) +
                      SB_TIME_LEVELS * sizeof(struct sb_time) * (uint64_t)g->times_count;
        g->buckets_at = geometry_round_up(
                g->marks_at + sizeof(struct sb_named_cut) * (uint64_t)g->mark_count, SB_LINE);
}

/* What goes by the number of buckets, and lies behind buckets_at. The bits for the log begin with a
 * line of their own. */
static void geometry_lay_out_buckets(struct sb_geometry *g)
{
        g->floors_at = g->buckets_at + (uint64_t)g->bucket_count * sizeof(struct sb_bucket);
        g->unlogged_at = geometry_round_up(
                g->floors_at + (uint64_t)g->bucket_count * sizeof(struct sb_word64), SB_LINE);
        g->unit_words_at = g->unlogged_at +
                           sb_geometry_unlogged_words(g->bucket_count) * sizeof(struct sb_word64);
}

/* Lay out all areas. False: too few units are left. */
static bool geometry_lay_out(struct sb_geometry *g)
{
        uint64_t head, each, count, lists, spare;

        g->records_at = geometry_round_up(sizeof(struct sb_superblock), g->record_stride);
        geometry_lay_out_head(g);
        geometry_lay_out_buckets(g);
        head = g->unit_words_at;
        each = 8 + 4 + g->bitmap_stride + (uint64_t)g->unit_size;
        lists = geometry_lists(g);
        /* Two alignments in between cost less than a line and a unit; of each list of vacancies,
         * all bits of which are not a whole word, the last word and the first. */
        spare = SB_LINE + g->unit_size + lists * 16;
        if (head + spare >= g->size)
                return false;
        count = (g->size - head - spare) * 8 / (each * 8 + lists);
        if (count > UINT32_MAX / 2)
                count = UINT32_MAX / 2;
        g->unit_count = (uint32_t)count;
        g->bitmaps_at = geometry_round_up(head + count * (8 + 4), SB_LINE);
        g->units_at = geometry_round_up(
                sb_geometry_vacancies_at(g) + sb_geometry_vacancies_size(g), g->unit_size);
        g->reserve_count = geometry_reserve_count(g->unit_count);
        return g->unit_count >= UNITS_MIN;
}

/* Entries of a client's magazine: all clients together may hoard a sixteenth of the segment. Where
 * that is too little to be worth it, clients have spares (memory/spare.h), and a few in hand. */
static uint32_t geometry_magazine_count(uint64_t size, uint32_t record_count)
{
        uint64_t share = size / 16 / record_count / SB_MAGAZINE_BLOCK;

        if (share < SB_MAGAZINE_BATCH_MIN)
                return SB_MAGAZINE_HANDS;
        return (uint32_t)(share < SB_MAGAZINE_MAX ? share : SB_MAGAZINE_MAX);
}

/* Entries of times or marks: one for each 64 KiB, within bounds; at most a thousandth of all. */
static uint32_t geometry_history_count(uint64_t size, uint32_t most)
{
        uint64_t count = size / 65536;

        return count < 4 ? 4 : count < most ? (uint32_t)count : most;
}

/* A look at all clients loads one line of each record, and two of many: at a distance of a power of
 * two they would share a few sets of a cache, and push each other out of it. At odd multiples of
 * the pair of lines that a processor fetches together they are spread over all. */
static uint32_t geometry_record_stride(uint64_t size)
{
        return (uint32_t)geometry_round_up(size, LINE_PAIR) | LINE_PAIR;
}

/* The geometry of a segment of @size bytes. Return: 0, -ENOSPC. */
static int geometry_fit_size(
        const struct sb_geometry_wish *wish, uint64_t size, struct sb_geometry *ret)
{
        struct sb_geometry g = {.size = size};
        uint64_t record;

        g.record_count = wish->clients + 1;
        g.guard_inline = wish->guard_inline ? wish->guard_inline : 64;
        g.snapshot_count = wish->snapshot_count ? wish->snapshot_count : 32;
        record = sizeof(struct sb_record) +
                 8 * ((uint64_t)g.guard_inline + 2 * (uint64_t)g.snapshot_count);
        g.magazine_count = wish->magazine_count == SB_MAGAZINE_NONE ? 0
                           : wish->magazine_count                   ? wish->magazine_count
                                                  : geometry_magazine_count(size, g.record_count);
        g.times_count =
                wish->times_count ? wish->times_count : geometry_history_count(size, TIMES_MAX);
        g.mark_count =
                wish->mark_count ? wish->mark_count : geometry_history_count(size, MARKS_MAX);
        record += 8 * (uint64_t)g.magazine_count;
        g.record_stride = wish->record_stride
                                  ? (uint32_t)geometry_round_up(record, wish->record_stride)
                                  : geometry_record_stride(record);
        g.unit_size = wish->unit_size ? wish->unit_size : geometry_unit_size(size);
        g.bucket_count = wish->bucket_count ? wish->bucket_count : geometry_bucket_count(size);
        g.bitmap_stride = geometry_bitmap_stride(g.unit_size);
        *ret = g;
        return geometry_lay_out(ret) && ret->unit_count >= wish->units_min ? 0 : -ENOSPC;
}

/* For a size that @g did not fit: no size below this fits either. All that lies in a segment grows
 * with its size, so a larger one needs what this one needs, but for the gap in front of the records
 * and that in front of the buckets. */
static uint64_t geometry_least(const struct sb_geometry *g)
{
        uint64_t head = g->unit_words_at - g->records_at + sizeof(struct sb_superblock) - SB_LINE;
        uint64_t each = 8 + 4 + g->bitmap_stride + (uint64_t)g->unit_size;

        return head + UNITS_MIN * each;
}

int sb_geometry_fit(const struct sb_geometry_wish *wish, struct sb_geometry *ret)
{
        uint64_t size = wish->size;
        struct sb_geometry g;
        int r;

        if (!wish->clients || wish->clients > SB_CLIENTS_MAX || wish->size > UINT64_C(1) << 46)
                return -EINVAL;
        if (wish->unit_size && (!geometry_is_power_of_two(wish->unit_size) ||
                                       wish->unit_size < 256 || wish->unit_size > 1u << 24))
                return -EINVAL;
        if (wish->bucket_count && !geometry_is_power_of_two(wish->bucket_count))
                return -EINVAL;
        if (wish->record_stride &&
                (!geometry_is_power_of_two(wish->record_stride) || wish->record_stride < SB_LINE))
                return -EINVAL;
        if (wish->guard_inline > 4096 || wish->snapshot_count > 4096 ||
                wish->times_count > TIMES_MAX || wish->mark_count > MARKS_MAX ||
                (wish->magazine_count > SB_MAGAZINE_MAX &&
                        wish->magazine_count != SB_MAGAZINE_NONE))
                return -EINVAL;
        r = geometry_fit_size(wish, size, &g);
        if (!r) {
                *ret = g;
                return 0;
        }
        while (r) {
                uint64_t least = geometry_least(&g);

                size = geometry_round_up(least > size ? least : size + 1, 4096);
                r = geometry_fit_size(wish, size, &g);
        }
        ret->size = size;
        return -ENOSPC;
}

bool sb_geometry_sound(const struct sb_geometry *g, uint64_t size)
{
        struct sb_geometry again = *g;

        if (g->size != size || !geometry_is_power_of_two(g->unit_size) || g->unit_size < 256 ||
                g->unit_size > 1u << 24 || !geometry_buckets_sound(g->bucket_count) ||
                !g->record_count || g->record_count > SB_CLIENTS_MAX + 1 ||
                g->record_stride < sizeof(struct sb_record) || g->record_stride > 1u << 30 ||
                g->record_stride % SB_LINE)
                return false;
        if (g->guard_inline > 4096 || g->snapshot_count > 4096 || !g->guard_inline ||
                !g->snapshot_count || g->bitmap_stride != geometry_bitmap_stride(g->unit_size))
                return false;
        if (g->magazine_count > SB_MAGAZINE_MAX || !g->times_count || g->times_count > TIMES_MAX ||
                !g->mark_count || g->mark_count > MARKS_MAX ||
                sizeof(struct sb_record) +
                                8 * ((uint64_t)g->guard_inline + 2 * (uint64_t)g->snapshot_count +
                                            g->magazine_count) >
                        g->record_stride)
                return false;
        /* records_at depends on the alignment that was wished for, which is not kept: any offset
         * behind the superblock will do. */
        if (!geometry_lay_out(&again) || again.unit_count < g->unit_count ||
                g->records_at < sizeof(struct sb_superblock) || g->records_at % SB_LINE ||
                g->records_at > size)
                return false;
        again.records_at = g->records_at;
        geometry_lay_out_head(&again);
        geometry_lay_out_buckets(&again);
        if (g->times_at != again.times_at || g->marks_at != again.marks_at ||
                g->buckets_at != again.buckets_at || g->floors_at != again.floors_at ||
                g->unlogged_at != again.unlogged_at || g->unit_words_at != again.unit_words_at)
                return false;
        return g->bitmaps_at ==
                       geometry_round_up(
                               g->unit_words_at + (uint64_t)g->unit_count * (8 + 4), SB_LINE) &&
               g->units_at >= sb_geometry_vacancies_at(g) + sb_geometry_vacancies_size(g) &&
               !(g->units_at % g->unit_size) &&
               g->units_at + (uint64_t)g->unit_count * g->unit_size <= size &&
               g->unit_count >= UNITS_MIN &&
               g->reserve_count == geometry_reserve_count(g->unit_count);
}
