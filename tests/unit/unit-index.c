/*
 * The hash index (shm/keys/index.h): tags, buckets and spill buckets, floors, and which cell is a
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

#define HASH(tag, bucket) ((uint64_t)(tag) << 48 | (bucket))

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

static struct sb_bucket *bucket_at(uint32_t number)
{
        return &writer.segment.buckets[number];
}

static struct sb_node *make_node(void)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(1, 1), 0, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        sb_store_relaxed(&node->rule, 0);
        node->height = node->key_len = 1;
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
                sb_store_relaxed(&bucket->floor, hash); /* the eighth word is no cell */
                mask = sb_bucket_match(bucket, hash);
                CHECK_EQ(mask, wanted);
                if (!mask)
                        continue;
                CHECK_EQ(sb_bucket_index(mask), first);
                CHECK(sb_bucket_first(bucket, mask) == &bucket->cell[first]);
        }
        unmake_bus();
}

static void test_cells_fill_up_bucket_by_bucket_until_all_spill_buckets_are_full(void)
{
        static const uint32_t counts[] = {1, 2, 4, 8, 64};

        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                uint32_t spills, bucket = counts[c] - 1, in_all;
                uint64_t number, hash = HASH(0xbeef, bucket | 0x5000), floor;

                CHECK(begin(counts[c]));
                hash = HASH(0xbeef, bucket) | (uint64_t)counts[c] * 12; /* other bits count not */
                spills = writer.segment.geometry.spill_count;
                in_all = SB_BUCKET_CELLS * (1 + spills);
                for (uint32_t i = 0; i < in_all; i++) {
                        uint32_t nth = i / SB_BUCKET_CELLS,
                                 here = !nth ? bucket : counts[c] + (bucket / 8 + nth - 1) % spills;

                        CHECK_EQ(sb_index_insert(&writer, hash, 16 * (i + 1), &number), 0);
                        CHECK_EQ(number, SB_CELL_NUMBER(here, i % SB_BUCKET_CELLS));
                        CHECK_EQ(word_at(number), HASH(0xbeef, 16 * (i + 1)));
                        floor = sb_load_relaxed(&bucket_at(here)->floor);
                        CHECK_EQ(floor, 0); /* says SPILLED no sooner than it must */
                }
                CHECK_EQ(sb_index_insert(&writer, hash, 16, &number), SB_E_FULL);
                for (uint32_t i = 0; i < spills; i++)
                        CHECK_EQ(sb_load_relaxed(&bucket_at(counts[c] + i)->floor),
                                i == (bucket / 8 + spills - 1) % spills ? 0 : SB_BUCKET_SPILLED);
                CHECK_EQ(sb_load_relaxed(&bucket_at(bucket)->floor), SB_BUCKET_SPILLED);
                CHECK_EQ(sb_index_insert(&writer, hash, 16, &number), SB_E_FULL);
                /* Of what becomes empty the first is taken, the key's own bucket before others. */
                sb_store_relaxed(
                        sb_cell_at(&writer.segment, SB_CELL_NUMBER(counts[c] + spills - 1, 3)), 0);
                sb_store_relaxed(&bucket_at(bucket)->cell[4], 0);
                CHECK_EQ(sb_index_insert(&writer, hash, 32, &number), 0);
                CHECK_EQ(number, SB_CELL_NUMBER(bucket, 4));
                CHECK_EQ(sb_index_insert(&writer, hash, 32, &number), 0);
                CHECK_EQ(number, SB_CELL_NUMBER(counts[c] + spills - 1, 3));
                unmake_bus();
        }
}

static void test_a_probe_gives_every_cell_with_the_tag_once_and_ends(void)
{
        enum { BUCKETS = 32, SPILLS = 8 };
        struct sb_word64 *cell;
        struct sb_probe probe;
        struct sb_path path;

        CHECK(begin(BUCKETS));
        CHECK_EQ(writer.segment.geometry.spill_count, SPILLS);
        for (uint32_t step = 0; step < 2000; step++) {
                uint32_t bucket = draw(BUCKETS), passed = 0, end = draw(SPILLS + 2);
                uint64_t hash = HASH(draw(4), bucket) | (uint64_t)draw_bits() << 8;

                hash = (hash & ~(uint64_t)(BUCKETS - 1)) | bucket;
                for (uint32_t i = 0; i < BUCKETS + SPILLS; i++) {
                        for (uint32_t j = 0; j < SB_BUCKET_CELLS; j++)
                                sb_store_relaxed(&bucket_at(i)->cell[j],
                                        draw(3) ? HASH(draw(4), 16 * (draw(99) + 1)) : 0);
                        sb_store_relaxed(&bucket_at(i)->floor, 2 * draw(9) + SB_BUCKET_SPILLED);
                }
                /* The way ends behind @end spill buckets, or when it is once around. */
                if (end <= SPILLS)
                        sb_and_full(&bucket_at(!end ? bucket
                                                    : BUCKETS + (bucket / 8 + end - 1) % SPILLS)
                                             ->floor,
                                ~SB_BUCKET_SPILLED);
                probe = sb_probe_first(&writer.segment, hash);
                path = sb_path_first(&writer.segment, hash);
                CHECK_EQ(path.bucket, bucket);
                for (;;) {
                        uint32_t here =
                                !passed ? bucket : BUCKETS + (bucket / 8 + passed - 1) % SPILLS;

                        CHECK_EQ(path.bucket, here);
                        for (uint32_t j = 0; j < SB_BUCKET_CELLS; j++) {
                                if ((sb_load_relaxed(&bucket_at(here)->cell[j]) ^ hash) >> 48)
                                        continue;
                                cell = sb_probe_next(&writer.segment, &probe);
                                CHECK(cell == &bucket_at(here)->cell[j]);
                        }
                        if (!sb_path_next(&writer.segment, hash, &path))
                                break;
                        passed++;
                        CHECK(passed <= SPILLS);
                }
                CHECK_EQ(passed, end < SPILLS ? end : SPILLS);
                CHECK(!sb_probe_next(&writer.segment, &probe));
        }
        unmake_bus();
}

static void test_a_floor_only_rises_and_leaves_the_flag_and_other_buckets_alone(void)
{
        uint64_t most = (UINT64_C(1) << 63) - 1;

        CHECK(begin(16));
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), 0);
        sb_index_raise_floor(&writer.segment, HASH(7, 3), 41);
        CHECK_EQ(sb_index_floor(&reader.segment, HASH(7, 3)), 41);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(0xffff, 3) | 0x7770), 41); /* the bucket's */
        sb_index_raise_floor(&writer.segment, HASH(1, 3), 40);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), 41);
        CHECK_EQ(sb_load_relaxed(&bucket_at(3)->floor), 82);
        sb_or_full(&bucket_at(3)->floor, SB_BUCKET_SPILLED);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), 41);
        sb_index_raise_floor(&writer.segment, HASH(7, 3), most);
        CHECK_EQ(sb_index_floor(&writer.segment, HASH(7, 3)), most);
        CHECK(sb_load_relaxed(&bucket_at(3)->floor) & SB_BUCKET_SPILLED);
        for (uint32_t i = 0; i < 16; i++)
                CHECK(i == 3 || !sb_load_relaxed(&bucket_at(i)->floor));
        unmake_bus();
}

static void test_of_two_placeholders_of_a_node_the_first_that_is_asked_for_stays(void)
{
        uint64_t hash = HASH(0x1234, 9), first, second;
        struct sb_version *a, *b;
        struct sb_node *node;

        CHECK(begin(16));
        node = make_node();
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
        CHECK_EQ(word_at(second), HASH(0x1234, sb_offset_of(&writer.segment, b)));
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
        node = make_node();
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
        node = make_node();
        CHECK(node && (version = make_placeholder(node)));
        sb_store_relaxed(&node->rule, SB_RULE_WORD(SB_RULE_LAST, 3));
        number = place(HASH(0x8000, 15), version);
        CHECK(sb_index_confirm(&writer, number, word_at(number)));
        CHECK_EQ(word_at(number),
                HASH(0x8000, sb_offset_of(&writer.segment, version) | SB_CELL_KEPT));
        CHECK_EQ(sb_load_relaxed(&version->stamp), SB_STAMP_PLACEHOLDER);
        unmake_bus();
}

static void test_all_placeholders_of_a_node_are_asked_for_and_no_others(void)
{
        enum { COPIES = 12 }; /* some of them in a spill bucket */
        uint64_t hash = HASH(0x00ff, 2), numbers[COPIES], other, frozen;
        struct sb_version *copies[COPIES], *strange, *cold;
        struct sb_node *node, *neighbour;
        uint32_t left = 0;

        CHECK(begin(16));
        node = make_node();
        neighbour = make_node();
        CHECK(node && neighbour && (strange = make_placeholder(neighbour)) &&
                (cold = make_placeholder(node)));
        for (uint32_t i = 0; i < COPIES; i++) {
                CHECK((copies[i] = make_placeholder(node)));
                numbers[i] = place(hash, copies[i]);
                CHECK(numbers[i] != 0);
        }
        other = place(hash, strange);
        frozen = place(hash, cold);
        CHECK(other && frozen);
        sb_or_full(sb_cell_at(&writer.segment, frozen), SB_CELL_FROZEN);
        CHECK_EQ(sb_index_confirm_all(&writer, hash, sb_offset_of(&writer.segment, node)), 1);
        for (uint32_t i = 0; i < COPIES; i++)
                left += word_at(numbers[i]) != 0;
        CHECK_EQ(left, 1);
        CHECK(word_at(numbers[0]) && sb_load_relaxed(&node->cell) == numbers[0]);
        CHECK(word_at(frozen) & SB_CELL_FROZEN);
        CHECK_EQ(sb_load_relaxed(&strange->stamp), 0);
        CHECK_EQ(sb_load_relaxed(&neighbour->cell), 0);
        CHECK_EQ(sb_index_confirm_all(&writer, hash, sb_offset_of(&writer.segment, node)), 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_match_finds_exactly_the_cells_with_the_tag);
        RUN(test_cells_fill_up_bucket_by_bucket_until_all_spill_buckets_are_full);
        RUN(test_a_probe_gives_every_cell_with_the_tag_once_and_ends);
        RUN(test_a_floor_only_rises_and_leaves_the_flag_and_other_buckets_alone);
        RUN(test_of_two_placeholders_of_a_node_the_first_that_is_asked_for_stays);
        RUN(test_the_placeholder_of_a_node_that_is_gone_goes_too);
        RUN(test_the_cell_says_that_a_rule_applies_before_its_placeholder_is_stamped);
        RUN(test_all_placeholders_of_a_node_are_asked_for_and_no_others);
        return test_end();
}
