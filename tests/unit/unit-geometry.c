/*
 * Geometry (shm/layout/geometry.h): areas that are laid out for any wish lie apart from each other
 * and inside the segment; and no geometry is believed of which that is not so.
 */
#include <errno.h>
#include <stddef.h>

#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

typedef unsigned __int128 wide;

static bool is_power(uint64_t value)
{
        return value && !(value & (value - 1));
}

/* A power of two, or four times a prime. */
static bool comes_round(uint32_t buckets)
{
        uint32_t groups = buckets / 4;

        if (is_power(buckets))
                return buckets <= 1u << 30;
        for (uint32_t i = 2; (uint64_t)i * i <= groups; i++)
                if (groups % i == 0)
                        return false;
        return buckets % 4 == 0 && groups > 1 && buckets <= 1u << 30;
}

/* Bytes: a bit for each bucket, then one for each word of the level before. */
static wide bits_for_the_log(uint64_t count)
{
        wide bytes = 0;

        while (count > 1) {
                count = count / 64 + (count % 64 != 0);
                bytes += (wide)8 * count;
        }
        return bytes;
}

/* Every area lies behind the one before, is large enough and aligned, and the last ends inside. */
static bool is_safe(const struct sb_geometry *g, uint64_t size)
{
        wide record = sizeof(struct sb_record) +
                      (wide)8 * (2 * (wide)g->snapshot_count + g->guard_inline + g->magazine_count);

        return g->size == size && is_power(g->unit_size) && comes_round(g->bucket_count) &&
               g->record_count && g->times_count && g->mark_count &&
               g->records_at >= sizeof(struct sb_superblock) && !(g->records_at % SB_LINE) &&
               !(g->record_stride % SB_LINE) && record <= g->record_stride &&
               g->times_at >= g->records_at + (wide)g->record_count * g->record_stride &&
               !(g->times_at % 8) &&
               g->marks_at >=
                       g->times_at + sizeof(struct sb_times) +
                               (wide)SB_TIME_LEVELS * sizeof(struct sb_time) * g->times_count &&
               g->buckets_at >= g->marks_at + (wide)sizeof(struct sb_named_cut) * g->mark_count &&
               !(g->buckets_at % SB_LINE) &&
               g->floors_at >= g->buckets_at + (wide)sizeof(struct sb_bucket) * g->bucket_count &&
               !(g->floors_at % 8) && g->unlogged_at >= g->floors_at + (wide)8 * g->bucket_count &&
               !(g->unlogged_at % SB_LINE) &&
               g->unit_words_at >= g->unlogged_at + bits_for_the_log(g->bucket_count) &&
               !(g->unit_words_at % 8) &&
               g->bitmaps_at >= g->unit_words_at + (wide)12 * g->unit_count &&
               !(g->bitmaps_at % 8) && (wide)g->bitmap_stride * 8 * SB_BLOCK_MIN >= g->unit_size &&
               !(g->bitmap_stride % 8) &&
               g->units_at >= g->bitmaps_at + (wide)g->unit_count * g->bitmap_stride &&
               !(g->units_at % g->unit_size) &&
               g->units_at + (wide)g->unit_count * g->unit_size <= size && g->reserve_count &&
               g->reserve_count < g->unit_count;
}

/* Mostly one that can be. */
static struct sb_geometry_wish draw_wish(void)
{
        struct sb_geometry_wish wish = {
                .size = draw_word() >> (34 + draw(20)), .clients = 1 + draw(40)};

        if (!draw(10))
                wish.clients = 1 + draw(4000);
        if (!draw(3))
                wish.record_stride = 64u << draw(8);
        if (!draw(3))
                wish.unit_size = 256u << draw(14);
        if (!draw(3))
                wish.bucket_count = 1u << draw(14);
        if (!draw(4))
                wish.guard_inline = 1 + draw(draw(2) ? 8 : 4096);
        if (!draw(4))
                wish.snapshot_count = 1 + draw(draw(2) ? 8 : 4096);
        if (!draw(3))
                wish.magazine_count = draw(3) ? draw(SB_MAGAZINE_MAX + 1) : SB_MAGAZINE_NONE;
        if (!draw(4))
                wish.times_count = 1 + draw(1024);
        if (!draw(4))
                wish.mark_count = 1 + draw(64);
        return wish;
}

static bool is_as_wished(const struct sb_geometry_wish *wish, const struct sb_geometry *g)
{
        uint32_t stock = wish->magazine_count == SB_MAGAZINE_NONE ? 0 : wish->magazine_count;

        return g->size == wish->size && g->record_count == wish->clients + 1 &&
               (!wish->unit_size || g->unit_size == wish->unit_size) &&
               (!wish->bucket_count || g->bucket_count == wish->bucket_count) &&
               g->guard_inline == (wish->guard_inline ? wish->guard_inline : 64) &&
               g->snapshot_count == (wish->snapshot_count ? wish->snapshot_count : 32) &&
               (!wish->magazine_count || g->magazine_count == stock) &&
               (!wish->times_count || g->times_count == wish->times_count) &&
               (!wish->mark_count || g->mark_count == wish->mark_count) &&
               (wish->record_stride ? !(g->record_stride % wish->record_stride)
                                    : g->record_stride % (4 * SB_LINE) == 2 * SB_LINE) &&
               !(g->records_at % (wish->record_stride ? wish->record_stride : 64));
}

static void test_what_is_laid_out_for_any_wish_is_safe_sound_and_as_wished(void)
{
        uint32_t fitted = 0;

        draw_state = 1;
        for (uint32_t step = 0; step < 20000; step++) {
                struct sb_geometry_wish wish = draw_wish();
                struct sb_geometry g;
                int r = sb_geometry_fit(&wish, &g);

                CHECK(!r || r == -ENOSPC);
                if (r)
                        continue;
                fitted++;
                CHECK(is_as_wished(&wish, &g));
                CHECK(is_safe(&g, wish.size));
                CHECK(sb_geometry_sound(&g, wish.size));
                CHECK(!sb_geometry_sound(&g, wish.size + 1));
                CHECK(!sb_geometry_sound(&g, wish.size - 1));
                /* The index is less than a tenth of the bus, and large enough for memory full of
                 * the smallest keys. */
                if (!wish.bucket_count && wish.size >= 1 << 20) {
                        CHECK(g.bucket_count * (wide)72 < wish.size / 10 &&
                                g.bucket_count * (wide)SB_BUCKET_CELLS * 131 * 4 / 5 >
                                        (wide)g.unit_count * g.unit_size);
                }
                /* Nearly all of what is left for units is units. */
                CHECK(wish.size - (g.units_at + (uint64_t)g.unit_count * g.unit_size) <
                        2 * (uint64_t)g.unit_size + g.unit_count / 4 + 4096);
        }
        CHECK(fitted > 5000);
}

/* Up to the largest that a wish may be: as many buckets and units as their numbers can say. */
static void test_the_largest_sizes_are_laid_out_as_far_as_numbers_reach(void)
{
        static const uint32_t unit_sizes[] = {0, 256, 4096, 1 << 24};

        for (uint32_t bits = 31; bits <= 47; bits++) {
                for (uint32_t i = 0; i < 4; i++) {
                        /* The last one: the next number of buckets that would do is too large. */
                        uint64_t size = bits < 47 ? UINT64_C(1) << bits
                                                  : 3200 * ((UINT64_C(1) << 28) + 512);
                        struct sb_geometry_wish wish = {
                                .size = size, .clients = 64, .unit_size = unit_sizes[i]};
                        uint64_t groups = size / 3200, units;
                        struct sb_geometry g;

                        CHECK_EQ(sb_geometry_fit(&wish, &g), 0);
                        CHECK(is_as_wished(&wish, &g) && is_safe(&g, size));
                        CHECK(sb_geometry_sound(&g, size));
                        CHECK(g.bucket_count == 1u << 30 ||
                                (g.bucket_count / 4 >= groups &&
                                        g.bucket_count / 4 < groups + 1000));
                        CHECK(g.bucket_count < 1u << 30 || groups > (1u << 28) - 2048);
                        /* All of the rest is units, or there are as many as a number can say. */
                        units = (size - g.floors_at - 8 * (uint64_t)g.bucket_count) / g.unit_size;
                        CHECK(g.unit_count == UINT32_MAX / 2 ||
                                g.unit_count > units - units / 8 - 4);
                        CHECK(g.unit_count < UINT32_MAX / 2 || units > UINT32_MAX / 2);
                }
        }
}

/* All magazines together are a sixteenth of the bus; where that is too little for each client, it
 * has as many entries as it takes blocks in hand. */
static void test_a_magazine_is_a_clients_share_or_the_few_entries_that_it_needs(void)
{
        uint32_t few = 0, some = 0, most = 0;

        draw_state = 3;
        for (uint32_t step = 0; step < 3000; step++) {
                struct sb_geometry_wish wish = {.size = (UINT64_C(1) << 18) + (draw_word() >> 38),
                        .clients = 1 + draw(300)};
                uint64_t share = wish.size / 16 / (wish.clients + 1) / SB_MAGAZINE_BLOCK;
                struct sb_geometry g;

                if (sb_geometry_fit(&wish, &g))
                        continue;
                CHECK_EQ(g.magazine_count, share < SB_MAGAZINE_BATCH_MIN ? SB_MAGAZINE_HANDS
                                           : share < SB_MAGAZINE_MAX     ? share
                                                                         : SB_MAGAZINE_MAX);
                few += g.magazine_count == SB_MAGAZINE_HANDS;
                some += g.magazine_count >= SB_MAGAZINE_BATCH_MIN &&
                        g.magazine_count < SB_MAGAZINE_MAX;
                most += g.magazine_count == SB_MAGAZINE_MAX;
        }
        CHECK(few > 100 && some > 100 && most > 100);
}

/* A look at all clients loads the same line of each record. */
static void test_the_pins_of_many_clients_share_no_few_sets_of_a_cache(void)
{
        enum { SETS = 64, CLIENTS = 1024 }; /* of the smallest caches */
        struct sb_geometry_wish wish = {.clients = CLIENTS};
        struct sb_geometry g;

        for (wish.size = 16 << 20; wish.size <= UINT64_C(4) << 30; wish.size *= 2) {
                uint32_t pins[SETS] = {0};

                CHECK_EQ(sb_geometry_fit(&wish, &g), 0);
                for (uint32_t slot = 0; slot < CLIENTS; slot++) {
                        uint64_t at = g.records_at + (uint64_t)slot * g.record_stride +
                                      offsetof(struct sb_record, pin);

                        pins[at / SB_LINE % SETS]++;
                }
                for (uint32_t i = 0; i < SETS; i++)
                        CHECK(pins[i] <= 2 * CLIENTS / SETS);
        }
}

static void test_for_a_size_too_small_the_least_that_serves_is_said(void)
{
        uint32_t refused = 0;

        draw_state = 2;
        for (uint32_t step = 0; step < 1500; step++) {
                struct sb_geometry_wish wish = draw_wish();
                struct sb_geometry g;
                uint64_t least, wished;

                wish.size = wished = draw(3) ? draw(200000) : 0;
                if (sb_geometry_fit(&wish, &g) != -ENOSPC)
                        continue;
                refused++;
                least = g.size;
                CHECK(least > wish.size && !(least % 4096));
                wish.size = least - 4096;
                if (wish.size > wished) {
                        CHECK_EQ(sb_geometry_fit(&wish, &g), -ENOSPC);
                        CHECK_EQ(g.size, least);
                }
                wish.size = least;
                CHECK_EQ(sb_geometry_fit(&wish, &g), 0);
                CHECK(g.unit_count >= 4);
        }
        CHECK(refused > 500);
}

static void test_a_wish_that_cannot_be_is_refused(void)
{
        static const struct sb_geometry_wish wishes[] = {{.clients = 0}, {.clients = 4003},
                {.clients = 1, .size = (UINT64_C(1) << 46) + 1}, {.clients = 1, .unit_size = 128},
                {.clients = 1, .unit_size = 4095}, {.clients = 1, .unit_size = 1u << 25},
                {.clients = 1, .bucket_count = 3}, {.clients = 1, .record_stride = 32},
                {.clients = 1, .record_stride = 4160}, {.clients = 1, .guard_inline = 4097},
                {.clients = 1, .snapshot_count = 4097},
                {.clients = 1, .magazine_count = SB_MAGAZINE_MAX + 1},
                {.clients = 1, .times_count = 1025}, {.clients = 1, .mark_count = 65}};
        struct sb_geometry g;

        for (uint32_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
                struct sb_geometry_wish wish = wishes[i];

                wish.size = wish.size ? wish.size : 1 << 24;
                if (sb_geometry_fit(&wish, &g) != -EINVAL)
                        TEST_FAIL("wish %u is not refused", i);
        }
}

/* Fields of which any other value moves what lies behind, or says what is not so. */
#define WORDS(X)                                                                                   \
        X(size)                                                                                    \
        X(records_at)                                                                              \
        X(times_at)                                                                                \
        X(marks_at)                                                                                \
        X(buckets_at)                                                                              \
        X(floors_at)                                                                               \
        X(unlogged_at)                                                                             \
        X(unit_words_at)                                                                           \
        X(bitmaps_at)                                                                              \
        X(record_count)                                                                            \
        X(record_stride)                                                                           \
        X(bucket_count)                                                                            \
        X(reserve_count)                                                                           \
        X(bitmap_stride)                                                                           \
        X(times_count)
/* And others, of which some values are as safe: less units, units as small with the same bitmaps.
 */
#define LOOSE_WORDS(X)                                                                             \
        X(units_at)                                                                                \
        X(unit_count)                                                                              \
        X(guard_inline) X(snapshot_count) X(magazine_count) X(mark_count)

static uint64_t other_value(uint64_t value)
{
        uint64_t other = value;

        while (other == value)
                switch (draw(6)) {
                case 0:
                        other = value + draw(130) - 65;
                        break;
                case 1:
                        other = value ^ UINT64_C(1) << draw(64);
                        break;
                case 2:
                        other = value << draw(4);
                        break;
                case 3:
                        other = value >> draw(4);
                        break;
                case 4:
                        other = draw(2) ? UINT64_MAX : 0;
                        break;
                default:
                        other = draw_word() >> draw(64);
                }
        return other;
}

static void test_a_geometry_with_a_field_that_was_changed_is_refused(void)
{
        draw_state = 3;
        for (uint32_t step = 0; step < 3000; step++) {
                struct sb_geometry_wish wish = draw_wish();
                struct sb_geometry g, other;

                if (sb_geometry_fit(&wish, &g))
                        continue;
#define CHANGE(field)                                                                              \
        other = g;                                                                                 \
        other.field = (__typeof__(g.field))other_value(g.field);                                   \
        if (other.field != g.field && sb_geometry_sound(&other, wish.size))                        \
                TEST_FAIL(#field ": %ju instead of %ju", (uintmax_t)other.field,                   \
                        (uintmax_t)g.field);
                WORDS(CHANGE)
#undef CHANGE
        }
}

/* Some areas that follow each other lie elsewhere, all by the same distance. */
static void shift(struct sb_geometry *g)
{
        uint64_t *areas[] = {&g->records_at, &g->times_at, &g->marks_at, &g->buckets_at,
                &g->floors_at, &g->unlogged_at, &g->unit_words_at, &g->bitmaps_at, &g->units_at};
        uint64_t distance = 1 + draw(draw(2) ? 64 : 5000);

        distance = draw(2) ? distance : 0 - distance;
        for (uint32_t i = draw(3), end = 1 + draw(9); i < end; i++)
                *areas[i] += distance;
}

static void test_whatever_was_changed_what_is_believed_is_safe(void)
{
        uint32_t believed = 0;

        draw_state = 4;
        for (uint32_t step = 0; step < 20000; step++) {
                struct sb_geometry_wish wish = draw_wish();
                struct sb_geometry g, other;
                uint32_t changes = 1 + draw(3);

                if (sb_geometry_fit(&wish, &g))
                        continue;
                other = g;
#define CHANGE(field)                                                                              \
        if (changes && !draw(5)) {                                                                 \
                other.field = (__typeof__(g.field))other_value(g.field);                           \
                changes--;                                                                         \
        }
                LOOSE_WORDS(CHANGE)
                WORDS(CHANGE)
#undef CHANGE
                if (!draw(4))
                        shift(&other);
                if (!sb_geometry_sound(&other, wish.size))
                        continue;
                believed++;
                CHECK(is_safe(&other, wish.size));
        }
        CHECK(believed > 100);
}

static void test_random_bytes_are_no_geometry(void)
{
        struct sb_geometry g;

        draw_state = 5;
        for (uint32_t step = 0; step < 100000; step++) {
                unsigned char *bytes = (unsigned char *)&g;

                for (uint32_t i = 0; i < sizeof(g); i++)
                        bytes[i] = (unsigned char)draw(draw(2) ? 2 : 256);
                CHECK(!sb_geometry_sound(&g, g.size));
        }
        memset(&g, 0, sizeof(g));
        CHECK(!sb_geometry_sound(&g, 0));
        memset(&g, 0xff, sizeof(g));
        CHECK(!sb_geometry_sound(&g, UINT64_MAX));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_is_laid_out_for_any_wish_is_safe_sound_and_as_wished);
        RUN(test_the_largest_sizes_are_laid_out_as_far_as_numbers_reach);
        RUN(test_a_magazine_is_a_clients_share_or_the_few_entries_that_it_needs);
        RUN(test_the_pins_of_many_clients_share_no_few_sets_of_a_cache);
        RUN(test_for_a_size_too_small_the_least_that_serves_is_said);
        RUN(test_a_wish_that_cannot_be_is_refused);
        RUN(test_a_geometry_with_a_field_that_was_changed_is_refused);
        RUN(test_whatever_was_changed_what_is_believed_is_safe);
        RUN(test_random_bytes_are_no_geometry);
        return test_end();
}
