/*
 * Reachability (shm/keys/reach.h): for every block of a bus that the test fills at random, what is
 * said of it is what a search through all cells, chains and levels finds.
 */
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define KEYS       150u
#define BLOCKS_MAX 4096u

static char names[KEYS][8];

static bool begin_of(uint32_t bucket_count)
{
        struct sb_geometry_wish wish = {
                .size = 1 << 20, .clients = 2, .bucket_count = bucket_count};

        if (!make_bus_of(&wish))
                return false;
        sb_pin(&writer);
        sb_pin(&reader);
        for (uint32_t i = 0; i < KEYS; i++)
                snprintf(names[i], sizeof(names[i]), "n%u", i * 7);
        return true;
}

static uint64_t at(const void *block)
{
        return sb_offset_of(&writer.segment, block);
}

/* All blocks of one kind that are taken, the handles' own among them. */
static uint64_t blocks[BLOCKS_MAX];
static uint32_t block_count;

static bool list_blocks(enum sb_unit_kind kind)
{
        const struct sb_segment *segment = &writer.segment;

        block_count = 0;
        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(segment, unit);
                uint32_t count = sb_unit_block_count(segment, word);

                if (SB_UNIT_KIND(word) != kind)
                        continue;
                for (uint32_t i = 0; i < count; i++) {
                        if (!(sb_load_relaxed(&sb_unit_bitmap(segment, unit)[i / 64]) >> (i % 64) &
                                    1))
                                continue;
                        if (block_count == BLOCKS_MAX)
                                return false;
                        blocks[block_count++] =
                                sb_unit_offset(segment, unit) +
                                (uint64_t)i * segment->class_size[SB_UNIT_CLASS(word)];
                }
        }
        return block_count > 0;
}

/* Whether any chain of any cell leads to the block: by a search through all. */
static bool is_in_a_chain(uint64_t offset)
{
        const struct sb_segment *segment = &writer.segment;
        uint32_t count = segment->geometry.bucket_count;

        for (uint32_t i = 0; i < count * SB_BUCKET_CELLS; i++) {
                uint64_t link = sb_load_relaxed(
                        &segment->buckets[i / SB_BUCKET_CELLS].cell[i % SB_BUCKET_CELLS]);

                while (link & SB_OFFSET_MASK) {
                        if ((link & SB_OFFSET_MASK) == offset)
                                return true;
                        link = sb_load_relaxed(
                                &sb_version_at(segment, link & SB_OFFSET_MASK)->prev);
                }
        }
        return false;
}

/* Whether the ordered index leads to the block, from @word on. */
static bool is_below(uint64_t word, uint64_t offset)
{
        struct sb_branch_view view;
        uint32_t i;

        if (!(word & SB_OFFSET_MASK) || (word & SB_OFFSET_MASK) == offset)
                return word & SB_OFFSET_MASK;
        if ((word & SB_SLOT_LEAF) || !sb_branch_view(&writer.segment, word, 0, &view))
                return false;
        for (i = 0; i < view.slots; i++)
                if (is_below(sb_load_relaxed(&view.branch->slot[i]), offset))
                        return true;
        return false;
}

static bool is_in_the_index(uint64_t offset)
{
        return is_below(sb_load_relaxed(&writer.segment.super->order), offset);
}

static bool push_some(uint32_t keys)
{
        const char *key = names[draw(keys)];

        for (uint32_t i = 1 + draw(7); i; i--)
                if (!push(key, draw(4) ? SB_VERSION_VALUE : SB_VERSION_DELETED, 30))
                        return false;
        return true;
}

/* Takes one out of a chain, by hand. */
static void unlink_one(uint32_t keys)
{
        struct sb_version *holder, *version;
        struct sb_spot spot;

        if (!spot_of(names[draw(keys)], &spot))
                return;
        holder = spot.head;
        for (uint32_t i = draw(6); holder && i; i--)
                holder = sb_version_at(
                        &writer.segment, sb_load_relaxed(&holder->prev) & SB_OFFSET_MASK);
        version = holder ? sb_version_at(
                                   &writer.segment, sb_load_relaxed(&holder->prev) & SB_OFFSET_MASK)
                         : NULL;
        if (version)
                sb_store_relaxed(&holder->prev,
                        (sb_load_relaxed(&version->prev) & SB_OFFSET_MASK) | draw(8));
}

static void test_every_version_is_reached_that_a_search_through_all_chains_finds(void)
{
        static const uint32_t bucket_counts[] = {64, 8}, keys[] = {KEYS, 45};
        uint32_t counts[2] = {0};

        for (uint32_t round = 0; round < 2; round++) {
                draw_state = round;
                CHECK(begin_of(bucket_counts[round])); /* with few buckets, many spill */
                for (uint32_t i = 0; i < 130; i++)
                        CHECK(push_some(keys[round]));
                for (uint32_t i = 0; i < 140; i++)
                        unlink_one(keys[round]);
                CHECK(list_blocks(SB_UNIT_VERSIONS));
                for (uint32_t i = 0; i < block_count; i++) {
                        struct sb_version *version = sb_version_at(&writer.segment, blocks[i]);
                        bool linked = is_in_a_chain(blocks[i]);

                        CHECK_EQ(sb_reach_version(&reader, version), linked);
                        CHECK_EQ(sb_reach_published(&reader, blocks[i], SB_UNIT_VERSIONS), linked);
                        counts[linked]++;
                }
                unmake_bus();
        }
        CHECK(counts[0] > 100 && counts[1] > 500);
}

static void test_every_node_is_reached_that_the_lowest_level_leads_to(void)
{
        uint32_t counts[2] = {0};

        CHECK(begin_of(64));
        draw_state = 3;
        for (uint32_t i = 0; i < KEYS; i++) {
                struct sb_spot spot;
                struct sb_node *node;

                CHECK(spot_of(names[i], &spot));
                node = sb_node_at(&writer.segment, spot.head->node);
                if (!draw(3))
                        sb_order_remove(&writer, node);
                /* With a cell it was published, linked or not. */
                CHECK(sb_reach_published(&reader, at(node), SB_UNIT_NODES));
                sb_store_relaxed(&node->cell, draw(5) ? 0 : SB_NODE_GONE);
        }
        CHECK(list_blocks(SB_UNIT_NODES));
        for (uint32_t i = 0; i < block_count; i++) {
                struct sb_node *node = sb_node_at(&writer.segment, blocks[i]);
                bool linked = is_in_the_index(blocks[i]);

                CHECK_EQ(sb_reach_node(&reader, node), linked);
                CHECK_EQ(sb_reach_published(&reader, blocks[i], SB_UNIT_NODES),
                        linked || sb_load_relaxed(&node->cell));
                counts[linked]++;
        }
        CHECK(counts[0] > 30 && counts[1] > 60);
        unmake_bus();
}

static void test_a_second_node_of_a_key_is_not_the_one_that_is_linked(void)
{
        struct sb_node *node, *twin;
        struct sb_spot spot;
        uint64_t offset;

        CHECK(begin_of(64));
        CHECK(spot_of("key", &spot));
        node = sb_node_at(&writer.segment, spot.head->node);
        CHECK(!sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(3), 0, &offset));
        twin = sb_node_at(&writer.segment, offset);
        twin->hash = node->hash;
        twin->key_len = 3;
        memcpy(twin->key, "key", 3);
        CHECK(sb_reach_node(&reader, node) && !sb_reach_node(&reader, twin));
        CHECK(!sb_reach_published(&reader, offset, SB_UNIT_NODES));
        twin->key_len = 2; /* a key that no node has */
        CHECK(!sb_reach_node(&reader, twin));
        /* A length that cannot be. */
        twin->key_len = UINT16_MAX;
        CHECK(!sb_reach_node(&reader, twin));
        unmake_bus();
}

/* A second placeholder of a key that is there, in an empty cell of its buckets. */
static struct sb_version *second_placeholder(const char *key, uint64_t *ret_cell)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_version *placeholder;
        struct sb_spot spot;
        uint64_t offset;

        if (!spot_of(key, &spot) ||
                sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(*placeholder) + len, 0, &offset))
                return NULL;
        placeholder = sb_version_at(&writer.segment, offset);
        placeholder->rev = 0;
        placeholder->node = spot.head->node;
        placeholder->shape = SB_SHAPE(0, len, SB_VERSION_PLACEHOLDER, 0);
        sb_store_relaxed(&placeholder->stamp, 0);
        sb_store_relaxed(&placeholder->prev, 0);
        memcpy(placeholder->bytes, key, len);
        return sb_index_insert(&writer, hash_of(key, len), offset, ret_cell) ? NULL : placeholder;
}

static void test_a_placeholder_is_reached_in_any_cell_of_its_buckets_a_value_in_its_nodes_alone(
        void)
{
        uint32_t away = 0;

        for (uint32_t fill = 0; fill < 27; fill++) {
                struct sb_version *placeholder;
                uint64_t cell, word;

                CHECK(begin_of(4)); /* 28 cells */
                for (uint32_t i = 0; i < fill; i++)
                        CHECK(push(names[i], SB_VERSION_VALUE, 20));
                CHECK((placeholder = second_placeholder("key", &cell)));
                away += cell / 8 - 1 != sb_index_home(&writer.segment, hash_of("key", 3));
                CHECK(sb_reach_version(&reader, placeholder));
                CHECK(sb_reach_published(&reader, at(placeholder), SB_UNIT_VERSIONS));
                /* Whatever flags are beside it. */
                sb_or_full(sb_cell_at(&writer.segment, cell), SB_CELL_FLAGS);
                CHECK(sb_reach_version(&reader, placeholder));
                placeholder->shape = SB_SHAPE(0, 3, SB_VERSION_DELETED, 0);
                CHECK(!sb_reach_version(&reader, placeholder));
                placeholder->shape = SB_SHAPE(0, 3, SB_VERSION_PLACEHOLDER, 0);
                word = sb_exchange_full(sb_cell_at(&writer.segment, cell), 0);
                CHECK(word && !sb_reach_version(&reader, placeholder));
                CHECK(!sb_reach_published(&reader, at(placeholder), SB_UNIT_VERSIONS));
                unmake_bus();
        }
        CHECK(away >= 3 && away < 24);
}

static void test_whatever_a_block_says_that_was_not_filled_it_is_not_reached(void)
{
        struct sb_version *version, *other;
        struct sb_node *node;
        uint64_t offset, nodes[8];

        CHECK(begin_of(64));
        draw_state = 11;
        CHECK((other = push("k", SB_VERSION_VALUE, 20)) && push("k", SB_VERSION_VALUE, 30));
        node = sb_node_at(&writer.segment, other->node);
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 90, 0, &offset));
        version = sb_version_at(&writer.segment, offset);
        nodes[0] = 0;
        nodes[1] = UINT64_MAX;
        nodes[2] = at(node) + 16;
        nodes[3] = at(other);
        nodes[4] = at(version);
        nodes[5] = writer.segment.geometry.size - 64;
        nodes[6] = at(node);
        nodes[7] = writer.segment.geometry.units_at - 16;
        for (uint32_t step = 0; step < 5000; step++) {
                version->rev = draw_word();
                version->node = draw(9) ? nodes[draw(8)] : draw_word() >> draw(64);
                version->shape = draw(2) ? SB_SHAPE(0, 1, SB_VERSION_PLACEHOLDER, 1) : draw_word();
                sb_store_relaxed(&version->stamp, draw_word() & ~SB_STAMP_INTENT);
                sb_store_relaxed(&version->prev, draw(2) ? at(other) : draw_word());
                CHECK(!sb_reach_version(&reader, version));
                CHECK(!sb_reach_published(&reader, offset, SB_UNIT_VERSIONS));
        }
        /* A cell number that is none, or another key's. */
        version->node = at(node);
        for (uint32_t step = 0; step < 2000; step++) {
                sb_store_relaxed(&node->cell, draw(2) ? draw(2000) : draw_word());
                CHECK(!sb_reach_version(&reader, version));
        }
        unmake_bus();
}

static void test_only_a_node_that_is_taken_leads_to_a_chain(void)
{
        struct sb_version *version, *fake;
        struct sb_node *node;
        uint64_t offset;

        CHECK(begin_of(64));
        CHECK((version = push("k", SB_VERSION_VALUE, 20)) && push("k", SB_VERSION_VALUE, 30));
        node = sb_node_at(&writer.segment, version->node);
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset));
        fake = sb_version_at(&writer.segment, offset);
        memcpy(fake, node, sb_node_size(1)); /* all that a node has, but the place */
        version->node = offset;
        CHECK(!sb_reach_version(&reader, version));
        version->node = at(node);
        CHECK(sb_reach_version(&reader, version));
        sb_unit_clear(&writer, at(node));
        CHECK(!sb_reach_version(&reader, version));
        unmake_bus();
}

static void test_a_chain_that_goes_round_or_out_of_the_segment_comes_to_an_end(void)
{
        static const uint64_t nowhere[] = {16, SB_OFFSET_MASK, UINT64_C(1) << 46};
        struct sb_version *versions[5], *apart;
        uint64_t offset;

        CHECK(begin_of(64));
        for (uint32_t i = 0; i < 5; i++)
                CHECK((versions[i] = push("k", SB_VERSION_VALUE, 20)));
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 90, 0, &offset));
        apart = sb_version_at(&writer.segment, offset);
        memcpy(apart, versions[0], 60);
        for (uint32_t i = 0; i < 5; i++) {
                uint64_t link = sb_load_relaxed(&versions[i]->prev);

                sb_store_relaxed(&versions[i]->prev, at(versions[4]));
                /* A round does not tell what it leads to: all counts as linked, and is not freed.
                 */
                CHECK(sb_reach_version(&reader, apart));
                for (uint32_t j = 0; j < 5; j++) {
                        (void)sb_damage_take(&reader);
                        CHECK(sb_reach_version(&reader, versions[j]));
                        CHECK_EQ(sb_damage_take(&reader), j < i);
                }
                for (uint32_t j = 0; j < 3; j++) {
                        sb_store_relaxed(&versions[i]->prev, nowhere[j]);
                        CHECK(!sb_reach_version(&reader, apart));
                }
                sb_store_relaxed(&versions[i]->prev, link);
        }
        unmake_bus();
}

static void test_a_retire_word_tells_but_for_an_intent_that_is_held(void)
{
        static const uint32_t retires[] = {0, SB_RETIRE_HELD, SB_RETIRE_DYING, SB_ERA_MIN,
                SB_ERA_LOW, SB_RETIRE_FREEING, SB_RETIRE_FREEING | 77};
        static const uint64_t stamps[] = {0, SB_STAMP_PLACEHOLDER, 500, SB_STAMP_ABORTED};
        uint32_t by_link = 0;

        CHECK(begin_of(64));
        for (uint32_t i = 0; i < 7 * 5 * 2; i++) {
                uint32_t retire = retires[i % 7], kind = i / 7 % 5;
                struct sb_descriptor *commit = make_descriptor(10, 0, 0);
                bool linked = i / 35, asks = !retire || (retire == SB_RETIRE_HELD && kind == 4);
                struct sb_version *version = push(names[i], SB_VERSION_VALUE, 20);
                struct sb_spot spot;

                CHECK(commit && version && spot_of(names[i], &spot));
                sb_store_relaxed(&version->stamp, kind == 4 ? intent_of(commit) : stamps[kind]);
                sb_store_relaxed(&version->block.retire, retire);
                if (!linked)
                        sb_store_relaxed(spot.cell, sb_load_relaxed(&version->prev));
                CHECK_EQ(sb_reach_published(&reader, at(version), SB_UNIT_VERSIONS),
                        linked || !asks);
                by_link += asks;
        }
        CHECK_EQ(by_link, 12);
        unmake_bus();
}

static void test_a_chunk_of_guard_words_is_reached_by_the_record_that_names_it(void)
{
        struct sb_guard_chunk *chunk;
        uint64_t offset;

        CHECK(begin_of(64));
        CHECK(!sb_slab_take(&writer, SB_UNIT_GUARDS, 128, 0, &offset));
        chunk = sb_block_at(&writer.segment, offset);
        for (uint32_t i = 0; i < 6 * (SB_GUARD_CHUNKS + 30); i++) {
                uint32_t slot = i % 6, number = i / 6;
                struct sb_record *record;

                chunk->owner = UINT64_C(9) << 32 | slot << 16 | number;
                CHECK(!sb_reach_published(&reader, offset, SB_UNIT_GUARDS));
                if (slot >= writer.segment.geometry.record_count)
                        continue;
                record = sb_record_at(&writer.segment, slot);
                if (number >= SB_GUARD_CHUNKS) { /* other words of the record begin there */
                        sb_store_relaxed(&record->words[number - SB_GUARD_CHUNKS], offset);
                        CHECK(!sb_reach_published(&reader, offset, SB_UNIT_GUARDS));
                        continue;
                }
                sb_store_relaxed(&record->guard_chunk[number], offset);
                CHECK(sb_reach_published(&reader, offset, SB_UNIT_GUARDS));
                sb_store_relaxed(&record->guard_chunk[number], offset + 16);
                CHECK(!sb_reach_published(&reader, offset, SB_UNIT_GUARDS));
                sb_store_relaxed(&record->guard_chunk[number], 0);
        }
        chunk->owner = UINT64_MAX;
        CHECK(!sb_reach_published(&reader, offset, SB_UNIT_GUARDS));
        unmake_bus();
}

static void test_where_no_block_can_be_nothing_is_missing(void)
{
        static const enum sb_unit_kind kinds[] = {
                SB_UNIT_VERSIONS, SB_UNIT_NODES, SB_UNIT_GUARDS, SB_UNIT_LARGE};
        uint64_t offsets[6];

        CHECK(begin_of(64));
        offsets[0] = 0;
        offsets[1] = 8;
        offsets[2] = writer.segment.geometry.units_at - 16;
        offsets[3] = writer.segment.geometry.units_at + 8;
        offsets[4] = writer.segment.geometry.size - 48;
        offsets[5] = UINT64_MAX - 15;
        for (uint32_t i = 0; i < 24; i++)
                CHECK(sb_reach_published(&reader, offsets[i % 6], kinds[i / 6]));
        unmake_bus();
}

static void test_what_a_retire_word_says_is_covered_by_the_pin_of_the_process_that_asks(void)
{
        struct sb_version *version;
        uint32_t era;

        CHECK(begin_of(64));
        CHECK((version = push("k", SB_VERSION_VALUE, 20)));
        for (uint32_t i = 0; i < 40; i++) {
                /* Linked or not: a word that is not 0 leads to no further look. */
                sb_store_relaxed(&version->block.retire, i % 2 ? SB_RETIRE_DYING : SB_ERA_MIN);
                era = sb_load_relaxed(&writer.segment.super->era) + 1 + i % 3;
                sb_store_relaxed(&writer.segment.super->era, era);
                CHECK(sb_reach_published(&reader, at(version), SB_UNIT_VERSIONS));
                CHECK_EQ(sb_pin_era(&reader), era);
                CHECK_EQ(SB_PIN_HI(sb_load_relaxed(&reader.record->pin)), era);
        }
        unmake_bus();
}

/* ---- many looks ---- */

#define LONG_CHAIN 20000u
#define APART      8u
/* Bytes: a block of another class behind 31 of 32 versions, so that every 32nd unit has versions,
 * and parts are alike. */
#define SPACER 1800u

static struct sb_reach reach;

/* Two long chains in several parts of a bus, version by version in turn; and blocks that name the
 * node of one of them, and are in none. */
static bool begin_long(struct sb_version *ret_apart[APART])
{
        struct sb_geometry_wish wish = {.size = 80 << 20, .clients = 2};
        uint64_t offset, spacer;

        if (!make_bus_of(&wish))
                return false;
        sb_pin(&writer);
        sb_pin(&reader);
        sb_reach_begin(&reader, &reach);
        for (uint32_t i = 0; i < LONG_CHAIN; i++) {
                struct sb_version *version = push(draw(2) ? "kurz" : "lang", SB_VERSION_VALUE, 20);

                if (!version ||
                        (i % 32 && sb_slab_take(&writer, SB_UNIT_VERSIONS, SPACER, 0, &spacer)))
                        return false;
                if (i % (LONG_CHAIN / APART))
                        continue;
                if (sb_slab_take(
                            &writer, SB_UNIT_VERSIONS, sb_version_size(version->shape), 0, &offset))
                        return false;
                ret_apart[i / (LONG_CHAIN / APART)] = sb_version_at(&writer.segment, offset);
                memcpy(sb_version_at(&writer.segment, offset), version, sizeof(*version));
        }
        return true;
}

/* Look at all blocks of the chains' class, as they lie. Return: how many were not published. */
static uint32_t look_at_all(uint32_t *ret_looks, uint64_t *ret_parts)
{
        const struct sb_segment *segment = &writer.segment;
        uint32_t missed = 0, class_ = sb_unit_class(segment, sizeof(struct sb_version) + 12);
        uint64_t size = segment->class_size[class_], part = 0;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(segment, unit);

                if (SB_UNIT_KIND(word) != SB_UNIT_VERSIONS || SB_UNIT_CLASS(word) != class_)
                        continue;
                for (uint32_t i = 0; i < sb_unit_block_count(segment, word); i++) {
                        uint64_t offset = sb_unit_offset(segment, unit) + i * size;

                        /* Without a node: of the writer's stock. */
                        if (!sb_unit_is_block(segment, offset, SB_UNIT_VERSIONS, NULL) ||
                                !sb_version_at(segment, offset)->node)
                                continue;
                        ++*ret_looks;
                        missed += !sb_reach_published_of_many(
                                &reader, offset, SB_UNIT_VERSIONS, &reach);
                        *ret_parts += reach.part != part;
                        part = reach.part;
                }
        }
        return missed;
}

static void test_many_looks_at_long_chains_take_a_few_steps_each(void)
{
        struct sb_version *apart[APART];
        uint64_t begun, parts = 0;
        uint32_t looks = 0;

        CHECK(begin_long(apart));
        begun = reader.counters.walked;
        CHECK_EQ(look_at_all(&looks, &parts), APART);
        CHECK(looks >= LONG_CHAIN && parts > 1);
        /* Those that lie apart are missed after a walk to the end of their chain. */
        CHECK(reader.counters.walked - begun <= (4 * parts + APART) * LONG_CHAIN);
        unmake_bus();
}

static void test_with_room_for_notes_of_the_whole_segment_parts_cost_nothing(void)
{
        struct sb_version *apart[APART];
        uint64_t begun, parts = 0, *words;
        uint32_t looks = 0;

        CHECK(begin_long(apart));
        words = malloc(8 * sb_reach_words(&reader.segment));
        CHECK(words);
        sb_reach_lend(&reader, words, sb_reach_words(&reader.segment));
        sb_reach_begin(&reader, &reach);
        begun = reader.counters.walked;
        CHECK_EQ(look_at_all(&looks, &parts), APART);
        CHECK(looks >= LONG_CHAIN);
        CHECK_EQ(parts, 1);
        CHECK(reader.counters.walked - begun <= (4 + APART) * LONG_CHAIN);
        free(words);
        unmake_bus();
}

/* Takes a version out of a chain, of which another lies as deep in the part before as it in its
 * own:
 * @ret: the two. */
static bool take_one_of_two(const char *key, uint64_t ret[2])
{
        const uint64_t part = SB_REACH_WORDS * 64 * (uint64_t)SB_BLOCK_MIN;
        struct sb_version *holder, *version;
        struct sb_spot spot;

        if (!spot_of(key, &spot))
                return false;
        for (holder = spot.head; holder; holder = version) {
                version = sb_version_at(
                        &writer.segment, sb_load_relaxed(&holder->prev) & SB_OFFSET_MASK);
                if (!version)
                        return false;
                ret[0] = at(version);
                ret[1] = ret[0] - part; /* older, so behind it in its chain */
                if (sb_unit_is_block(&writer.segment, ret[1], SB_UNIT_VERSIONS, NULL) &&
                        sb_reach_version(&reader, sb_version_at(&writer.segment, ret[1])))
                        break;
        }
        if (!holder)
                return false;
        sb_store_relaxed(&holder->prev, sb_load_relaxed(&version->prev));
        return true;
}

static void test_what_was_met_in_one_part_says_nothing_of_another(void)
{
        struct sb_version *apart[APART];
        uint64_t two[2];

        CHECK(begin_long(apart));
        CHECK(take_one_of_two("lang", two));
        for (uint32_t i = 0; i < 3; i++) {
                CHECK(sb_reach_published_of_many(&reader, two[1], SB_UNIT_VERSIONS, &reach));
                CHECK_EQ(reach.part, two[1] / (SB_REACH_WORDS * 64 * (uint64_t)SB_BLOCK_MIN) + 1);
                CHECK(!sb_reach_published_of_many(&reader, two[0], SB_UNIT_VERSIONS, &reach));
                /* Again, now that the notes are of its part. */
                CHECK(!sb_reach_published_of_many(&reader, two[0], SB_UNIT_VERSIONS, &reach));
        }
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_every_version_is_reached_that_a_search_through_all_chains_finds);
        RUN(test_every_node_is_reached_that_the_lowest_level_leads_to);
        RUN(test_a_second_node_of_a_key_is_not_the_one_that_is_linked);
        RUN(test_a_placeholder_is_reached_in_any_cell_of_its_buckets_a_value_in_its_nodes_alone);
        RUN(test_whatever_a_block_says_that_was_not_filled_it_is_not_reached);
        RUN(test_only_a_node_that_is_taken_leads_to_a_chain);
        RUN(test_a_chain_that_goes_round_or_out_of_the_segment_comes_to_an_end);
        RUN(test_a_retire_word_tells_but_for_an_intent_that_is_held);
        RUN(test_a_chunk_of_guard_words_is_reached_by_the_record_that_names_it);
        RUN(test_many_looks_at_long_chains_take_a_few_steps_each);
        RUN(test_with_room_for_notes_of_the_whole_segment_parts_cost_nothing);
        RUN(test_what_was_met_in_one_part_says_nothing_of_another);
        RUN(test_where_no_block_can_be_nothing_is_missing);
        RUN(test_what_a_retire_word_says_is_covered_by_the_pin_of_the_process_that_asks);
        return test_end();
}
