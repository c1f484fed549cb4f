/*
 * The hash index (shm/keys/index.h): tags, homes, ways and signs, floors, and which cell is a
 * key's. The hashes are the test's own, so that any keys meet in a bucket.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

/* The word of a cell; and a hash with a tag and a home. */
#define WORD(tag, offset) ((uint64_t)(tag) << 48 | (offset))
#define HASH(tag, home)   (WORD(tag, 0) | low_half(home))

static bool begin(uint32_t bucket_count)
{
        struct sb_geometry_wish wish = {
                .size = 1 << 20, .clients = 2, .bucket_count = bucket_count};

        draw_state = bucket_count;
        if (!make_bus_of(&wish))
                return false;
        sb_pin(&writer);
        return true;
}

/* The least lower half of a hash with this home. */
static uint64_t low_half(uint64_t home)
{
        uint64_t count = writer.segment.geometry.bucket_count;

        return ((home << 32) + count - 1) / count;
}

static struct sb_bucket *bucket_at(uint32_t number)
{
        return &writer.segment.buckets[number];
}

static struct sb_node *make_node(uint64_t hash)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(1), 0, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        sb_store_relaxed(&node->rule, 0);
        node->key_len = 1;
        node->hash = hash;
        return node;
}

/* A placeholder of @node, in no cell yet. */
static struct sb_version *make_placeholder(const struct sb_node *node)
{
        struct sb_version *version;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(*version) + 1, 0, &offset))
                return NULL;
        version = sb_version_at(&writer.segment, offset);
        version->rev = 0;
        version->node = sb_offset_of(&writer.segment, node);
        version->shape = SB_SHAPE(0, 1, SB_VERSION_PLACEHOLDER, writer.slot);
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, 0);
        return version;
}

static uint64_t place(uint64_t hash, const struct sb_version *version)
{
        uint64_t number;

        return sb_index_insert(&writer, hash, sb_offset_of(&writer.segment, version), &number)
                       ? 0
                       : number;
}

static uint64_t word_at(uint64_t number)
{
        return sb_load_relaxed(sb_cell_at(&writer.segment, number));
}

static void test_match_finds_exactly_the_cells_with_the_tag(void)
{
        struct sb_bucket *bucket;

        CHECK(begin(64));
        bucket = bucket_at(5);
        for (uint32_t step = 0; step < 20000; step++) {
                uint64_t hash = draw_word(), words[SB_BUCKET_CELLS];
                uint32_t wanted = 0, mask, first = SB_BUCKET_CELLS;

                if (!(step % 16))
                        hash &= ~SB_TAG_MASK;
                if (step % 16 == 1)
                        hash |= SB_TAG_MASK;
                for (uint32_t i = 0; i < SB_BUCKET_CELLS; i++) {
                        /* The tag; one bit off; the tag in the wrong place; none. */
                        words[i] = hash ^ (draw_word() & ~SB_TAG_MASK);
                        switch (draw(4)) {
                        case 0:
                                words[i] ^= UINT64_C(1) << (48 + draw(16));
                                break;
                        case 1:
                                words[i] = ~hash << 48 | hash >> 48 << 32;
                                break;
                        case 2:
                                words[i] = 0;
                                break;
                        default:
                                break;
                        }
                        sb_store_relaxed(&bucket->cell[i], words[i]);
                        if (words[i] >> 48 == hash >> 48)
                                wanted |= 2u << 2 * i;
                        if (wanted && first == SB_BUCKET_CELLS)
                                first = i;
                }
                sb_store_relaxed(&bucket->sign, hash); /* the eighth word is no cell */
                mask = sb_bucket_match(bucket, hash);
                CHECK_EQ(mask, wanted);
                if (!mask)
                        continue;
                CHECK_EQ(sb_bucket_index(mask), first);
                CHECK(sb_bucket_first(bucket, mask) == &bucket->cell[first]);
        }
        unmake_bus();
}

/* The other buckets on the way of the hash's home, in turn. Return: how many. */
static uint32_t list_way(uint64_t hash, uint32_t ret[SB_WAY_MAX])
{
        struct sb_path path = sb_path_first(&writer.segment, hash);
        uint32_t count = 0;

        while (count < SB_WAY_MAX && sb_path_next_of_all(&writer.segment, hash, &path))
                ret[count++] = path.bucket;
        return sb_path_next_of_all(&writer.segment, hash, &path) ? 0 : count;
}

/* The stretch of the way that has position @at, the first being 1. */
static uint32_t stretch_of(uint32_t at)
{
        return at < 4 ? at - 1 : at < 6 ? 3 : at < 8 ? 4 : at < 16 ? 5 : at < 64 ? 6 : 7;
}

static uint64_t sign_of(uint32_t bucket)
{
        return sb_load_relaxed(&bucket_at(bucket)->sign);
}

static void test_a_way_has_each_other_bucket_once_and_the_nearest_first(void)
{
        /* Besides powers of two what comes of these sizes: four times a prime. */
        static const uint32_t sizes[] = {100 << 10, 200 << 10, 1 << 20, 3000000};
        static uint32_t way[SB_WAY_MAX];
        static uint8_t seen[4096];

        for (uint32_t c = 0; c < 13 + sizeof(sizes) / sizeof(sizes[0]); c++) {
                struct sb_geometry_wish wish = {.size = c < 13 ? 1 << 20 : sizes[c - 13],
                        .clients = 2,
                        .bucket_count = c < 13 ? 1u << c : 0};
                uint32_t buckets, length;

                CHECK(make_bus_of(&wish));
                buckets = writer.segment.geometry.bucket_count;
                length = buckets - 1 < SB_WAY_MAX ? buckets - 1 : SB_WAY_MAX;
                for (uint32_t i = 0; i < (buckets < 64 ? buckets : 64); i++) {
                        uint32_t home = buckets < 64 ? i : draw(buckets);

                        memset(seen, 0, sizeof(seen));
                        seen[home] = 1;
                        CHECK_EQ(sb_index_home(&writer.segment, HASH(9, home)), home);
                        CHECK_EQ(list_way(HASH(9, home), way), length);
                        for (uint32_t j = 0; j < length; j++) {
                                CHECK(way[j] < buckets && !seen[way[j]]);
                                seen[way[j]] = 1;
                                CHECK(j >= 3 || way[j] / 4 == home / 4);
                        }
                }
                unmake_bus();
        }
}

static void test_cells_fill_up_along_the_way_until_all_of_it_is_full(void)
{
        static const uint32_t counts[] = {1, 2, 4, 8, 64, 2048};
        static uint32_t way[SB_WAY_MAX];

        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                uint32_t home = counts[c] - 1, others;
                uint64_t number, hash;

                CHECK(begin(counts[c]));
                hash = HASH(0xbeef, home) | UINT64_C(12) << 32; /* other bits count not */
                others = list_way(hash, way);
                for (uint32_t i = 0; i < SB_BUCKET_CELLS * (1 + others); i++) {
                        uint32_t nth = i / SB_BUCKET_CELLS, here = nth ? way[nth - 1] : home;

                        CHECK_EQ(sb_index_insert(&writer, hash, 16 * (i + 1), &number), 0);
                        CHECK_EQ(number, SB_CELL_NUMBER(here, i % SB_BUCKET_CELLS));
                        CHECK_EQ(word_at(number), WORD(0xbeef, 16 * (i + 1)));
                }
                CHECK_EQ(sb_index_insert(&writer, hash, 16, &number), SB_E_FULL);
                CHECK_EQ(sign_of(home), 0); /* that is for the confirmation */
                /* Of what becomes empty the first is taken, the key's own bucket before others. */
                if (others)
                        sb_store_relaxed(&bucket_at(way[others - 1])->cell[3], 0);
                sb_store_relaxed(&bucket_at(home)->cell[4], 0);
                CHECK_EQ(sb_index_insert(&writer, hash, 32, &number), 0);
                CHECK_EQ(number, SB_CELL_NUMBER(home, 4));
                CHECK_EQ(sb_index_insert(&writer, hash, 32, &number), others ? 0 : SB_E_FULL);
                CHECK(!others || number == SB_CELL_NUMBER(way[others - 1], 3));
                unmake_bus();
        }
}

static void test_a_probe_gives_every_cell_with_the_tag_where_the_sign_leads_once_and_ends(void)
{
        enum { BUCKETS = 64 };
        static uint32_t way[SB_WAY_MAX];
        uint32_t unsigned_ones = 0;

        CHECK(begin(BUCKETS));
        for (uint32_t step = 0; step < 2000; step++) {
                uint32_t home = draw(BUCKETS), passed = 0;
                uint64_t hash = HASH(draw(4), home) | (uint64_t)draw(1 << 16) << 32, sign;
                struct sb_word64 *cell;
                struct sb_probe probe;

                for (uint32_t i = 0; i < BUCKETS; i++) {
                        for (uint32_t j = 0; j < SB_BUCKET_CELLS; j++)
                                sb_store_relaxed(&bucket_at(i)->cell[j],
                                        draw(3) ? WORD(draw(4), 16 * (draw(99) + 1)) : 0);
                        sb_store_relaxed(&bucket_at(i)->sign, draw_word());
                }
                sign = sign_of(home);
                unsigned_ones += !(sign & SB_SIGN_CLASS(hash));
                probe = sb_probe_first(&writer.segment, hash);
                CHECK_EQ(list_way(hash, way), BUCKETS - 1);
                for (uint32_t at = 0; at < BUCKETS; at++) {
                        uint32_t here = at ? way[at - 1] : home;

                        if (at && (!(sign & SB_SIGN_CLASS(hash)) ||
                                          !(sign & SB_SIGN_STRETCH(stretch_of(at)))))
                                continue;
                        passed++;
                        for (uint32_t j = 0; j < SB_BUCKET_CELLS; j++) {
                                if ((sb_load_relaxed(&bucket_at(here)->cell[j]) ^ hash) >> 48)
                                        continue;
                                cell = sb_probe_next(&writer.segment, &probe);
                                CHECK(cell == &bucket_at(here)->cell[j]);
                        }
                }
                CHECK(!sb_probe_next(&writer.segment, &probe));
                CHECK(passed == 1 || (sign & SB_SIGN_CLASS(hash)));
        }
        CHECK(unsigned_ones > 500 && unsigned_ones < 1500);
        unmake_bus();
}

static void test_a_floor_only_rises_and_is_its_homes_alone(void)
{
        CHECK(begin(16));
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), 0);
        sb_index_raise_floor(&writer.segment, HASH(7, 3), 41);
        CHECK_EQ(sb_index_floor(&reader.segment, HASH(7, 3)), 41);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(0xffff, 4) - 1), 41); /* the home's */
        sb_index_raise_floor(&writer.segment, HASH(1, 3), 40);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), 41);
        sb_index_raise_floor(&writer.segment, HASH(7, 3), UINT64_MAX);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), UINT64_MAX);
        for (uint32_t i = 0; i < 16; i++)
                CHECK(i == 3 || !sb_index_floor(&writer.segment, HASH(7, i)));
        unmake_bus();
}

/* A node, and a placeholder of it in a cell, not confirmed. Return: the cell's number, or 0. */
static uint64_t place_new(uint64_t hash)
{
        struct sb_node *node = make_node(hash);
        struct sb_version *placeholder = node ? make_placeholder(node) : NULL;

        return placeholder ? place(hash, placeholder) : 0;
}

static void test_a_key_outside_its_home_is_signed_and_counted_before_it_is_confirmed(void)
{
        uint64_t hash = WORD(0xabc5, 0), number, bits = SB_SIGN_CLASS(hash) | SB_SIGN_STRETCH(0);
        struct sb_version *placeholder;

        CHECK(begin(8));
        hash = HASH(0xabc5, 6);
        for (uint32_t i = 0; i < SB_BUCKET_CELLS; i++) {
                CHECK((number = place_new(hash)));
                CHECK(sb_index_confirm(&writer, number, word_at(number)));
        }
        CHECK_EQ(sign_of(6), 0); /* they are at home */
        CHECK((number = place_new(hash)));
        CHECK_EQ(number, SB_CELL_NUMBER(7, 0));
        CHECK_EQ(sign_of(6), 0);
        CHECK(sb_index_confirm(&reader, number, word_at(number)));
        CHECK_EQ(sign_of(6), SB_SIGN_ONE | bits);
        CHECK(sb_index_confirm(&reader, number, word_at(number))); /* nothing is left to do */
        CHECK_EQ(sign_of(6), SB_SIGN_ONE | bits);
        CHECK((number = place_new(hash))); /* the bits are set: it counts */
        CHECK(sb_index_confirm(&writer, number, word_at(number)));
        CHECK_EQ(sign_of(6), 2 * SB_SIGN_ONE | bits);
        /* A placeholder that goes leaves nothing but the count. */
        CHECK((number = place_new(HASH(1, 6))));
        placeholder = sb_version_at(&writer.segment, word_at(number) & SB_OFFSET_MASK);
        sb_store_relaxed(&sb_node_at(&writer.segment, placeholder->node)->cell, SB_NODE_GONE);
        CHECK(!sb_index_confirm(&reader, number, word_at(number)));
        CHECK_EQ(sign_of(6), 3 * SB_SIGN_ONE | bits);
        CHECK_EQ(sign_of(7), 0);
        unmake_bus();
}

/* The bits of a home's sign that a cell on its way needs, by a look at all of them: a confirmed
 * key's must be there. What a killed maker placed and did not sign counts where it is named. */
static uint64_t exact_sign(uint32_t home, uint64_t sign, uint32_t *hidden)
{
        static uint32_t way[SB_WAY_MAX];
        uint32_t others = list_way(HASH(0, home), way);
        uint64_t bits = 0;

        for (uint32_t at = 1; at <= others; at++)
                for (uint32_t j = 0; j < SB_BUCKET_CELLS; j++) {
                        uint64_t word = sb_load_relaxed(&bucket_at(way[at - 1])->cell[j]);
                        struct sb_version *version =
                                sb_version_at(&writer.segment, word & SB_OFFSET_MASK);

                        uint64_t own = SB_SIGN_CLASS(word) | SB_SIGN_STRETCH(stretch_of(at));

                        if (!version ||
                                sb_index_home(&writer.segment,
                                        sb_node_at(&writer.segment, version->node)->hash) != home)
                                continue;
                        *hidden += sb_load_relaxed(&version->stamp) && (sign & own) != own;
                        if ((sign & own) == own)
                                bits |= own;
                }
        return bits;
}

static void test_healed_signs_say_what_the_cells_need_and_nothing_else(void)
{
        enum { BUCKETS = 32, CELLS = BUCKETS * SB_BUCKET_CELLS };
        uint64_t cells[CELLS], stale = 0;
        uint32_t count = 0, hidden = 0;

        CHECK(begin(BUCKETS));
        for (uint32_t step = 0; step < 4000; step++) {
                uint32_t home = draw(BUCKETS);

                if (count < CELLS * 9 / 10) {
                        uint64_t number = place_new(HASH(draw(1 << 16), home));

                        CHECK(number);
                        if (draw(4)) /* else it stays unconfirmed: the maker was killed */
                                sb_index_confirm(
                                        draw(2) ? &writer : &reader, number, word_at(number));
                        cells[count++] = number;
                } else {
                        for (uint32_t i = draw(20); i; i--) {
                                uint32_t nth = draw(count);

                                sb_store_relaxed(sb_cell_at(&writer.segment, cells[nth]), 0);
                                cells[nth] = cells[--count];
                        }
                }
                if (step % 8)
                        continue;
                for (home = 0; home < BUCKETS; home++) {
                        uint64_t before = sign_of(home),
                                 exact = exact_sign(home, sign_of(home), &hidden);

                        sb_index_heal(draw(2) ? &writer : &reader, home);
                        stale += (before & SB_SIGN_BITS & ~exact) != 0;
                        CHECK_EQ(sign_of(home) & SB_SIGN_BITS, exact);
                        CHECK_EQ(sign_of(home) / SB_SIGN_ONE, before / SB_SIGN_ONE);
                }
        }
        CHECK(stale > 100 && !hidden);
        unmake_bus();
}

/* In a damaged segment, or of what another process is just making: it may be the home's. */
static void test_a_cell_that_makes_no_sense_keeps_its_bits_in_the_sign(void)
{
        struct sb_version *version;
        uint64_t hash, number;
        struct sb_node *node;

        for (uint32_t lost = 0; lost < 2; lost++) {
                CHECK(begin(2));
                hash = HASH(0x5a5a, 0);
                for (uint32_t i = 0; i < SB_BUCKET_CELLS; i++)
                        CHECK(place_new(hash));
                CHECK((node = make_node(hash)) && (version = make_placeholder(node)));
                CHECK((number = place(hash, version)) / 8 - 1 == 1);
                CHECK(sb_index_confirm(&writer, number, word_at(number)));
                CHECK(sign_of(0) & SB_SIGN_BITS);
                if (lost) /* the cell names no version, or the version no node */
                        sb_store_relaxed(sb_cell_at(&writer.segment, number), WORD(0x5a5a, 0x10));
                else
                        version->node = 0;
                sb_index_heal(&writer, 0);
                CHECK(sign_of(0) & SB_SIGN_CLASS(hash));
                sb_store_relaxed(sb_cell_at(&writer.segment, number), 0);
                sb_index_heal(&writer, 0);
                CHECK(!(sign_of(0) & SB_SIGN_BITS));
                unmake_bus();
        }
}

static void test_behind_a_key_outside_its_home_the_sign_is_healed_wherever_it_was(void)
{
        for (uint32_t buckets = 2; buckets <= 8; buckets *= 2)
                for (uint32_t home = 0; home < buckets; home++) {
                        uint64_t hash, number = 0;

                        CHECK(begin(buckets));
                        hash = HASH(0xabc5, home);
                        /* One is left outside, in each bucket in turn. */
                        for (uint32_t i = 0; i <= (buckets - 1) * SB_BUCKET_CELLS; i++) {
                                CHECK((number = place_new(hash)));
                                if (number / 8 - 1 == home)
                                        continue;
                                CHECK(sb_index_confirm(&writer, number, word_at(number)));
                                CHECK(sign_of(home) & SB_SIGN_BITS);
                                sb_store_relaxed(sb_cell_at(&writer.segment, number), 0);
                                sb_index_heal_behind(&writer, hash, number);
                                CHECK(!(sign_of(home) & SB_SIGN_BITS));
                                CHECK((number = place_new(HASH(1, number / 8 - 1))));
                        }
                        unmake_bus();
                }
}

static void test_of_two_placeholders_of_a_node_the_first_that_is_asked_for_stays(void)
{
        uint64_t hash, first, second;
        struct sb_version *a, *b;
        struct sb_node *node;

        CHECK(begin(16));
        hash = HASH(0x1234, 9);
        node = make_node(hash);
        CHECK(node);
        a = make_placeholder(node);
        b = make_placeholder(node);
        CHECK(a && b);
        first = place(hash, a);
        second = place(hash, b);
        CHECK(first && second && first != second);
        CHECK(sb_index_confirm(&reader, second, word_at(second)));
        CHECK_EQ(sb_load_relaxed(&node->cell), second);
        CHECK_EQ(sb_load_relaxed(&b->stamp), SB_STAMP_PLACEHOLDER);
        CHECK_EQ(word_at(second), WORD(0x1234, sb_offset_of(&writer.segment, b)));
        CHECK(!sb_index_confirm(&reader, first, word_at(first)));
        CHECK_EQ(word_at(first), 0);
        CHECK_EQ(sb_load_relaxed(&a->stamp), 0);
        CHECK_EQ(sb_load_relaxed(&a->block.retire), sb_load_relaxed(&writer.segment.super->era));
        CHECK_EQ(sb_load_relaxed(&node->cell), second);
        CHECK(sb_index_confirm(&writer, second, word_at(second))); /* and says so again */
        CHECK_EQ(sb_load_relaxed(&b->block.retire), 0);
        unmake_bus();
}

static void test_the_placeholder_of_a_node_that_is_gone_goes_too(void)
{
        struct sb_version *version;
        struct sb_node *node;
        uint64_t number;

        CHECK(begin(16));
        node = make_node(HASH(0, 0));
        CHECK(node && (version = make_placeholder(node)));
        number = place(HASH(0, 0), version);
        CHECK_EQ(number, SB_CELL_NUMBER(0, 0));
        sb_store_relaxed(&node->cell, SB_NODE_GONE);
        CHECK(!sb_index_confirm(&writer, number, word_at(number)));
        CHECK_EQ(word_at(number), 0);
        CHECK(sb_load_relaxed(&version->block.retire) >= SB_ERA_MIN);
        CHECK_EQ(writer.limbo.count, 1);
        CHECK_EQ(writer.limbo.entries[0].offset, sb_offset_of(&writer.segment, version));
        unmake_bus();
}

static void test_the_cell_says_that_a_rule_applies_before_its_placeholder_is_stamped(void)
{
        struct sb_version *version;
        struct sb_node *node;
        uint64_t number;

        CHECK(begin(16));
        node = make_node(HASH(0x8000, 15));
        CHECK(node && (version = make_placeholder(node)));
        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_LAST, 3));
        number = place(HASH(0x8000, 15), version);
        CHECK(sb_index_confirm(&writer, number, word_at(number)));
        CHECK_EQ(word_at(number),
                WORD(0x8000, sb_offset_of(&writer.segment, version) | SB_CELL_KEPT));
        CHECK_EQ(sb_load_relaxed(&version->stamp), SB_STAMP_PLACEHOLDER);
        unmake_bus();
}

static void test_all_placeholders_of_a_node_are_asked_for_and_no_others(void)
{
        enum { COPIES = 12 }; /* some of them outside their home, not signed */
        uint64_t hash, numbers[COPIES], other, frozen, at;
        struct sb_version *copies[COPIES], *strange, *cold;
        struct sb_node *node, *neighbour;
        uint32_t left = 0;

        CHECK(begin(16));
        hash = HASH(0x00ff, 2);
        node = make_node(hash);
        neighbour = make_node(hash);
        CHECK(node && neighbour && (strange = make_placeholder(neighbour)) &&
                (cold = make_placeholder(node)));
        at = sb_offset_of(&writer.segment, node);
        for (uint32_t i = 0; i < COPIES; i++) {
                CHECK((copies[i] = make_placeholder(node)));
                numbers[i] = place(hash, copies[i]);
                CHECK(numbers[i] != 0);
        }
        other = place(hash, strange);
        frozen = place(hash, cold);
        CHECK(other && frozen);
        sb_or_full(sb_cell_at(&writer.segment, frozen), SB_CELL_FROZEN);
        /* Those where no sign leads are found on the whole way alone. */
        CHECK_EQ(sb_index_confirm_all(&writer, hash, at, false), 1);
        for (uint32_t i = 0; i < COPIES; i++)
                left += word_at(numbers[i]) != 0;
        CHECK_EQ(left, 1 + COPIES - SB_BUCKET_CELLS);
        CHECK_EQ(sb_index_confirm_all(&writer, hash, at, true), 1);
        for (uint32_t i = left = 0; i < COPIES; i++)
                left += word_at(numbers[i]) != 0;
        CHECK_EQ(left, 1);
        CHECK(word_at(numbers[0]) && sb_load_relaxed(&node->cell) == numbers[0]);
        CHECK(word_at(frozen) & SB_CELL_FROZEN);
        CHECK_EQ(sb_load_relaxed(&strange->stamp), 0);
        CHECK_EQ(sb_load_relaxed(&neighbour->cell), 0);
        CHECK_EQ(sb_index_confirm_all(&writer, hash, at, true), 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_match_finds_exactly_the_cells_with_the_tag);
        RUN(test_a_way_has_each_other_bucket_once_and_the_nearest_first);
        RUN(test_cells_fill_up_along_the_way_until_all_of_it_is_full);
        RUN(test_a_probe_gives_every_cell_with_the_tag_where_the_sign_leads_once_and_ends);
        RUN(test_a_floor_only_rises_and_is_its_homes_alone);
        RUN(test_a_key_outside_its_home_is_signed_and_counted_before_it_is_confirmed);
        RUN(test_healed_signs_say_what_the_cells_need_and_nothing_else);
        RUN(test_a_cell_that_makes_no_sense_keeps_its_bits_in_the_sign);
        RUN(test_behind_a_key_outside_its_home_the_sign_is_healed_wherever_it_was);
        RUN(test_of_two_placeholders_of_a_node_the_first_that_is_asked_for_stays);
        RUN(test_the_placeholder_of_a_node_that_is_gone_goes_too);
        RUN(test_the_cell_says_that_a_rule_applies_before_its_placeholder_is_stamped);
        RUN(test_all_placeholders_of_a_node_are_asked_for_and_no_others);
        return test_end();
}
