/*
 * Geometry: how the areas of layout.h share a segment; writing an empty bus; opening one.
 *
 * Always true: sb_segment_open() recomputes what the geometry must be, so a segment whose
 * superblock was scribbled over is refused instead of believed.
 */
#include "segment.h"

#include <errno.h>
#include <string.h>

#define SMALLEST_KEY    128u /* a node and a version of the least class */
#define TIMES_MAX       1024u
#define MARKS_MAX       64u
#define UNITS_MIN       4u
#define VALUE_LEN_FIELD ((UINT64_C(1) << 36) - 1)

static uint64_t round_up(uint64_t value, uint64_t alignment)
{
        return (value + alignment - 1) / alignment * alignment;
}

static bool power_of_two(uint64_t value)
{
        return value && !(value & (value - 1));
}

static uint32_t unit_size_for(uint64_t size)
{
        uint32_t unit = 4096;

        while (unit < (1u << 20) && (uint64_t)unit * 4096 < size)
                unit *= 2;
        return unit;
}

/* The power of two nearest to one bucket for each 800 bytes: about seven of the smallest keys share
 * a bucket when nothing else is stored, four of ordinary ones. */
static uint32_t bucket_count_for(uint64_t size)
{
        uint64_t wanted = size / 800, count = 1;

        while (count * 3 / 2 < wanted && count < (1u << 30))
                count *= 2;
        return (uint32_t)count;
}

static uint32_t bitmap_stride_for(uint32_t unit_size)
{
        uint32_t bytes = unit_size / SB_BLOCK_MIN / 8;

        return bytes < 8 ? 8 : bytes;
}

/* Two at least, where that is not much: one may be in the hands of a process that is stopped. */
static uint32_t reserve_for(uint32_t unit_count)
{
        return unit_count < 32 ? 1 : unit_count < 192 ? 2 : unit_count / 64;
}

/* What lies between the client records and the units' words; clients_at is there. */
static void lay_out_head(struct sb_geometry *g)
{
        g->times_at = g->clients_at + (uint64_t)g->client_count * g->client_stride;
        g->marks_at = g->times_at + sizeof(struct sb_times) +
                      SB_TIME_LEVELS * sizeof(struct sb_time) * (uint64_t)g->times_count;
        g->buckets_at =
                round_up(g->marks_at + sizeof(struct sb_mark) * (uint64_t)g->mark_count, SB_LINE);
}

/* Lay the areas out; false when too few units are left. */
static bool lay_out(struct sb_geometry *g)
{
        uint64_t head, each, room;

        g->clients_at = round_up(sizeof(struct sb_superblock), g->client_stride);
        lay_out_head(g);
        head = g->buckets_at +
               ((uint64_t)g->bucket_count + g->spill_count) * sizeof(struct sb_bucket);
        g->unit_words_at = head;
        each = 8 + 4 + g->bitmap_stride + (uint64_t)g->unit_size;
        /* Two alignments in between cost less than a line and a unit. */
        if (head + SB_LINE + g->unit_size >= g->size)
                return false;
        room = (g->size - head - SB_LINE - g->unit_size) / each;
        if (room > UINT32_MAX / 2)
                room = UINT32_MAX / 2;
        g->unit_count = (uint32_t)room;
        g->bitmaps_at = round_up(head + room * (8 + 4), SB_LINE);
        g->units_at = round_up(g->bitmaps_at + room * g->bitmap_stride, g->unit_size);
        g->reserve_count = reserve_for(g->unit_count);
        return g->unit_count >= UNITS_MIN;
}

/* Blocks that each client may hoard: all clients together a sixteenth of the segment. */
static uint32_t stock_for(uint64_t size, uint32_t client_count)
{
        uint64_t share = size / 16 / client_count / SB_STOCK_BLOCK;

        if (share < SB_STOCK_BATCH_MIN)
                return 0;
        return (uint32_t)(share < SB_STOCK_MAX ? share : SB_STOCK_MAX);
}

/* One for each 64 KiB, within bounds: a thousandth of the segment at most. */
static uint32_t history_count_for(uint64_t size, uint32_t most)
{
        uint64_t count = size / 65536;

        return count < 4 ? 4 : count < most ? (uint32_t)count : most;
}

static int fit(const struct sb_geometry_wish *wish, uint64_t size, struct sb_geometry *ret)
{
        struct sb_geometry g = {.size = size};
        uint64_t record;

        g.client_count = wish->clients + 1;
        g.guard_inline = wish->guard_inline ? wish->guard_inline : 64;
        g.snapshot_count = wish->snapshot_count ? wish->snapshot_count : 32;
        g.feed_count = wish->feed_count;
        record = sizeof(struct sb_client) + 8 * ((uint64_t)g.guard_inline + g.snapshot_count) +
                 sizeof(struct sb_feed_entry) * (uint64_t)g.feed_count;
        g.stock_count = wish->stock_count == SB_STOCK_NONE ? 0
                        : wish->stock_count                ? wish->stock_count
                                                           : stock_for(size, g.client_count);
        g.times_count = wish->times_count ? wish->times_count : history_count_for(size, TIMES_MAX);
        g.mark_count = wish->mark_count ? wish->mark_count : history_count_for(size, MARKS_MAX);
        record = round_up(record + 8 * (uint64_t)g.stock_count,
                wish->client_stride ? wish->client_stride : 4096);
        g.client_stride = (uint32_t)record;
        g.unit_size = wish->unit_size ? wish->unit_size : unit_size_for(size);
        g.bucket_count = wish->bucket_count ? wish->bucket_count : bucket_count_for(size);
        g.spill_count = g.bucket_count / 4 ? g.bucket_count / 4 : 1;
        g.bitmap_stride = bitmap_stride_for(g.unit_size);
        *ret = g;
        return lay_out(ret) ? 0 : -ENOSPC;
}

int sb_geometry_fit(const struct sb_geometry_wish *wish, struct sb_geometry *ret)
{
        uint64_t size = wish->size;
        struct sb_geometry g;
        int r;

        if (!wish->clients || wish->clients > 4000 || wish->size > UINT64_C(1) << 46)
                return -EINVAL;
        if (wish->unit_size && (!power_of_two(wish->unit_size) || wish->unit_size < 256 ||
                                       wish->unit_size > 1u << 24))
                return -EINVAL;
        if (wish->bucket_count && !power_of_two(wish->bucket_count))
                return -EINVAL;
        if (wish->client_stride &&
                (!power_of_two(wish->client_stride) || wish->client_stride < SB_LINE))
                return -EINVAL;
        if (wish->guard_inline > 4096 || wish->snapshot_count > 4096 ||
                wish->feed_count > 1u << 20 || wish->times_count > TIMES_MAX ||
                wish->mark_count > MARKS_MAX ||
                (wish->stock_count > SB_STOCK_MAX && wish->stock_count != SB_STOCK_NONE))
                return -EINVAL;
        r = fit(wish, size, &g);
        if (!r) {
                *ret = g;
                return 0;
        }
        while (r) {
                size = round_up(size + 1, 4096);
                r = fit(wish, size, &g);
        }
        ret->size = size;
        return -ENOSPC;
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
        super->created_ns = now_ns;
        super->geometry = *geometry;
        /* Relaxed: nobody else maps the segment yet. */
        sb_store_relaxed(&super->era, SB_ERA_MIN);
        sb_store_relaxed(&super->birth_floor, SB_ERA_MIN);
        sb_store_relaxed(&super->state, SB_SEGMENT_SERVING);
        sb_store_relaxed(&super->clock, 2);
        sb_store_relaxed(&super->safe, 1);
        super->magic = SB_MAGIC;
}

static void make_classes(struct sb_segment *segment)
{
        uint32_t size = SB_BLOCK_MIN, step = 16, count = 0;
        uint32_t largest = segment->geometry.unit_size / 2;

        while (size <= largest && count < SB_CLASS_MAX) {
                segment->class_inverse[count] =
                        (uint32_t)((UINT64_C(1) << 32) / size + ((UINT64_C(1) << 32) % size != 0));
                segment->class_size[count++] = size;
                step = size < 128 ? 16 : size < 512 ? 64 : size;
                if (size >= 512) {
                        for (step = 64; step * 8 <= size; step *= 2)
                                ;
                }
                size += step;
        }
        segment->class_count = count;
        for (size = 0, count = 0; size < SB_CLASS_TABLE; size++) {
                while (count < segment->class_count && segment->class_size[count] < size * 16)
                        count++;
                segment->class_of[size] = (uint8_t)count;
        }
}

static bool geometry_sound(const struct sb_geometry *g, uint64_t size)
{
        struct sb_geometry again = *g;

        if (g->size != size || !power_of_two(g->unit_size) || g->unit_size < 256 ||
                g->unit_size > 1u << 24 || !power_of_two(g->bucket_count) ||
                g->bucket_count > 1u << 30 || !g->client_count || g->client_count > 4001 ||
                g->client_stride < sizeof(struct sb_client) || g->client_stride > 1u << 30 ||
                g->client_stride % SB_LINE)
                return false;
        if (g->guard_inline > 4096 || g->snapshot_count > 4096 || g->feed_count > 1u << 20 ||
                !g->guard_inline || !g->snapshot_count ||
                g->bitmap_stride != bitmap_stride_for(g->unit_size) ||
                g->spill_count != (g->bucket_count / 4 ? g->bucket_count / 4 : 1))
                return false;
        if (g->stock_count > SB_STOCK_MAX || !g->times_count || g->times_count > TIMES_MAX ||
                !g->mark_count || g->mark_count > MARKS_MAX ||
                sizeof(struct sb_client) +
                                8 * ((uint64_t)g->guard_inline + g->snapshot_count +
                                            g->stock_count) +
                                sizeof(struct sb_feed_entry) * (uint64_t)g->feed_count >
                        g->client_stride)
                return false;
        /* clients_at depends on the wished alignment, which is not kept: any place behind the
         * superblock will do. */
        if (!lay_out(&again) || again.unit_count < g->unit_count ||
                g->clients_at < sizeof(struct sb_superblock) || g->clients_at % SB_LINE ||
                g->clients_at > size)
                return false;
        again.clients_at = g->clients_at;
        lay_out_head(&again);
        if (g->times_at != again.times_at || g->marks_at != again.marks_at ||
                g->buckets_at != again.buckets_at ||
                g->unit_words_at != g->buckets_at + ((uint64_t)g->bucket_count + g->spill_count) *
                                                            sizeof(struct sb_bucket))
                return false;
        return g->bitmaps_at ==
                       round_up(g->unit_words_at + (uint64_t)g->unit_count * (8 + 4), SB_LINE) &&
               g->units_at >= g->bitmaps_at + (uint64_t)g->unit_count * g->bitmap_stride &&
               !(g->units_at % g->unit_size) &&
               g->units_at + (uint64_t)g->unit_count * g->unit_size <= size &&
               g->unit_count >= UNITS_MIN && g->reserve_count == reserve_for(g->unit_count);
}

static void set_limits(struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint64_t room = (uint64_t)(g->unit_count - g->reserve_count) * g->unit_size,
                 keys = room / SMALLEST_KEY;
        uint32_t key_room;

        segment->height_max = 2;
        while (segment->height_max < SB_HEIGHT_MAX && keys >> (2 * segment->height_max))
                segment->height_max++;
        key_room = segment->class_size[segment->class_count - 1] -
                   (uint32_t)sizeof(struct sb_node) - 8 * segment->height_max;
        segment->key_len_max = key_room < SB_KEY_LEN_MAX ? key_room : SB_KEY_LEN_MAX;
        segment->value_len_max = g->size / 4 < room / 2 ? g->size / 4 : room / 2;
        if (segment->value_len_max > VALUE_LEN_FIELD)
                segment->value_len_max = VALUE_LEN_FIELD;
        segment->reserve_class = 0;
        while (segment->class_size[segment->reserve_class] <
                sizeof(struct sb_version) + segment->key_len_max)
                segment->reserve_class++;
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
        if (!geometry_sound(&segment.geometry, size))
                return -EBADMSG;
        segment.seed = super->seed;
        segment.times = (struct sb_times *)(segment.base + segment.geometry.times_at);
        segment.marks = (struct sb_mark *)(segment.base + segment.geometry.marks_at);
        segment.buckets = (struct sb_bucket *)(segment.base + segment.geometry.buckets_at);
        segment.unit_words = (struct sb_cell64 *)(segment.base + segment.geometry.unit_words_at);
        segment.unit_births =
                (struct sb_cell32 *)(segment.unit_words + segment.geometry.unit_count);
        segment.unit_shift = (uint32_t)__builtin_ctz(segment.geometry.unit_size);
        make_classes(&segment);
        set_limits(&segment);
        segment.bucket_mask = segment.geometry.bucket_count - 1;
        segment.blocks_span = segment.geometry.size - segment.geometry.units_at - SB_BLOCK_MIN;
        segment.values_end = segment.geometry.size - sizeof(struct sb_version) -
                             segment.key_len_max - SB_TRAILER_TXN;
        *ret = segment;
        return 0;
}
