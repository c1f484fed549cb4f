/*
 * Segments and the roster (shm/layout/segment.h, roster.h): what is opened and what is refused,
 * what hostile offsets and lengths lead to, and which process has which record.
 */
#include <errno.h>
#include <stdlib.h>

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

static int open_again(struct sb_segment *ret)
{
        return sb_segment_open(
                writer.segment.base, writer.segment.geometry.size, &sb_os_linux, ret);
}

static void test_a_new_segment_opens_and_is_empty(void)
{
        static const uint64_t id[2] = {77, UINT64_MAX};
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 3, .unit_size = 512};
        struct sb_geometry geometry;
        struct sb_segment segment;
        unsigned char *base;
        uint64_t births;

        CHECK_EQ(sb_geometry_fit(&wish, &geometry), 0);
        base = aligned_alloc(4096, geometry.size);
        CHECK(base);
        memset(base, 0, geometry.size);
        sb_segment_format(base, &geometry, 0x1234567890abcdef, id, 99);
        CHECK_EQ(sb_segment_open(base, geometry.size, &sb_os_linux, &segment), 0);
        CHECK_EQ(segment.seed, 0x1234567890abcdef);
        CHECK(!memcmp(&segment.geometry, &geometry, sizeof(geometry)));
        CHECK(segment.super->id[1] == UINT64_MAX && segment.super->created_ns == 99);
        CHECK(sb_load_relaxed(&segment.super->clock) > sb_load_relaxed(&segment.super->stable));
        CHECK_EQ(sb_load_relaxed(&segment.super->era), SB_ERA_MIN);
        CHECK(sb_segment_serving(&segment));
        /* All is 0 but the vacancies, which have each unit in the list of those that are FREE, and
         * the births, by which no unit was born later than the beginning. */
        births = sb_offset_of(&segment, segment.unit_births);
        for (uint64_t at = geometry.records_at; at < geometry.size; at++)
                CHECK(!base[at] || at - births < 4 * (uint64_t)geometry.unit_count ||
                        at - sb_geometry_vacancies_at(&geometry) <
                                sb_geometry_vacancies_size(&geometry));
        for (uint32_t i = 0; i < geometry.unit_count; i++) {
                CHECK(sb_unit_is_hinted(&segment, i));
                /* 0 would be an era to come. */
                CHECK_EQ(sb_load_relaxed(&segment.unit_births[i]), SB_BIRTH_FIRST);
                CHECK_EQ(sb_era_of_label(&segment, SB_BIRTH_FIRST), 0);
        }
        CHECK_EQ(sb_vacancy_next(&segment, SB_VACANCY_FREE, geometry.unit_count,
                         (geometry.unit_count + 63) / 64 * 64),
                SB_VACANCY_NONE);
        free(base);
}

/* Of the list of units that are FREE: the word that leads to the words with bits is what they say,
 * and they have a bit for each unit and no more. */
static void test_a_new_segment_lists_all_its_units_whatever_its_size(void)
{
        struct sb_geometry_wish wish = {.clients = 1, .unit_size = 512};
        static const uint64_t id[2] = {1, 2};
        struct sb_geometry geometry;
        uint32_t spans = 0;

        for (wish.size = 1 << 18; wish.size < 11 << 20; wish.size += wish.size / 16 / 4096 * 4096) {
                struct sb_segment segment;
                unsigned char *base;
                uint64_t sum = 0;
                uint32_t words, span;

                CHECK_EQ(sb_geometry_fit(&wish, &geometry), 0);
                base = aligned_alloc(4096, geometry.size);
                CHECK(base);
                memset(base, 0, geometry.size);
                sb_segment_format(base, &geometry, 1, id, 1);
                CHECK_EQ(sb_segment_open(base, geometry.size, &sb_os_linux, &segment), 0);
                words = (geometry.unit_count + 63) / 64;
                span = (words + 63) / 64;
                for (uint32_t unit = 0; unit < words * 64; unit++) {
                        CHECK_EQ(sb_vacancy_has(&segment, SB_VACANCY_FREE, unit),
                                unit < geometry.unit_count);
                        if (unit < geometry.unit_count)
                                sum |= UINT64_C(1) << (unit / 64 / span);
                }
                CHECK_EQ(sb_load_relaxed(&segment.vacancies[SB_VACANCY_FREE]), sum);
                spans |= 1u << span;
                free(base);
        }
        CHECK_EQ(spans, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5);
}

static void test_what_is_no_segment_of_this_layout_is_refused(void)
{
        struct sb_superblock *super;
        struct sb_segment segment;

        CHECK(make_bus(1 << 20));
        super = writer.segment.super;
        CHECK_EQ(sb_segment_open(super, sizeof(*super) - 1, &sb_os_linux, &segment), -EBADMSG);
        CHECK_EQ(sb_segment_open(super, (1 << 20) - 4096, &sb_os_linux, &segment), -EBADMSG);
        super->magic ^= 1;
        CHECK_EQ(open_again(&segment), -EBADMSG);
        super->magic ^= 1;
        super->layout_version++;
        CHECK_EQ(open_again(&segment), -EPROTONOSUPPORT);
        super->layout_version -= 2;
        CHECK_EQ(open_again(&segment), -EPROTONOSUPPORT);
        super->layout_version++;
        super->features = 1u << 31;
        CHECK_EQ(open_again(&segment), -EPROTONOSUPPORT);
        super->features = 0;
        super->geometry.buckets_at += 64;
        CHECK_EQ(open_again(&segment), -EBADMSG);
        super->geometry.buckets_at -= 64;
        CHECK_EQ(open_again(&segment), 0);
        unmake_bus();
}

/* The largest block has half a unit. */
static void test_the_smallest_units_hold_a_key_however_many_there_are(void)
{
        static const uint64_t id[2];
        static const uint64_t sizes[] = {
                UINT64_C(16) << 20, UINT64_C(64) << 20, UINT64_C(256) << 20};

        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct sb_geometry_wish wish = {.size = sizes[i], .clients = 3, .unit_size = 256};
                struct sb_geometry geometry;
                struct sb_segment segment;
                void *base = calloc(1, sizes[i]);

                CHECK(base);
                CHECK_EQ(sb_geometry_fit(&wish, &geometry), 0);
                sb_segment_format(base, &geometry, 1, id, 1);
                CHECK_EQ(sb_segment_open(base, sizes[i], &sb_os_linux, &segment), 0);
                CHECK_EQ(segment.key_len_max, 128 - sizeof(struct sb_node));
                free(base);
        }
}

static void test_what_changes_in_the_superblock_later_is_not_believed(void)
{
        struct sb_segment segment;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(open_again(&segment), 0);
        memset(&writer.segment.super->geometry, 0xff, sizeof(struct sb_geometry));
        CHECK(!memcmp(&segment.geometry, &writer.segment.geometry, sizeof(segment.geometry)));
        CHECK_EQ(open_again(&segment), -EBADMSG);
        unmake_bus();
}

static void test_limits_follow_from_the_size_of_a_unit(void)
{
        static const struct {
                uint64_t size;
                uint32_t unit_size, key_len_max;
        } shapes[] = {{1 << 20, 256, 0}, {1 << 20, 512, 0}, {1 << 20, 1024, 0},
                {1 << 20, 4096, 1024}, {64 << 20, 1 << 16, 1024}, {16 << 20, 256, 0}};

        for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                struct sb_geometry_wish wish = {
                        .size = shapes[i].size, .clients = 2, .unit_size = shapes[i].unit_size};
                const struct sb_segment *s = &writer.segment;
                uint64_t largest, all;

                CHECK(make_bus_of(&wish));
                largest = s->class_size[s->class_count - 1];
                all = (uint64_t)(s->geometry.unit_count - s->geometry.reserve_count) *
                      s->geometry.unit_size;
                /* The longest key has a node, and its tombstone a block of the reserve's class. */
                CHECK(s->key_len_max >= 1 && s->key_len_max <= SB_KEY_LEN_MAX);
                CHECK(sb_node_size(s->key_len_max) <= largest);
                CHECK(!shapes[i].key_len_max || s->key_len_max == shapes[i].key_len_max);
                CHECK(s->key_len_max == SB_KEY_LEN_MAX ||
                        sb_node_size(s->key_len_max + 1) > largest);
                CHECK(s->class_size[s->reserve_class] >=
                        sizeof(struct sb_version) + s->key_len_max);
                CHECK(s->value_len_max <= all / 2 && s->value_len_max <= s->geometry.size / 4);
                CHECK_EQ(1u << s->unit_shift, s->geometry.unit_size);
                CHECK_EQ(s->bucket_count, s->geometry.bucket_count);
                unmake_bus();
        }
}

/* Of a segment that is opened, its superblock alone is read. */
static void test_a_value_may_have_a_quarter_of_the_segment_and_no_more_than_its_length_can_say(void)
{
        static const uint64_t lens[] = {UINT64_C(1) << 35, (UINT64_C(1) << 36) - 1,
                (UINT64_C(1) << 36) - 1, (UINT64_C(1) << 36) - 1};

        for (uint32_t i = 0; i < 4; i++) {
                struct sb_geometry_wish wish = {.size = UINT64_C(1) << (37 + i), .clients = 2};
                static struct sb_superblock super;
                struct sb_segment segment;

                super.magic = SB_MAGIC;
                super.layout_version = SB_LAYOUT_VERSION;
                CHECK_EQ(sb_geometry_fit(&wish, &super.geometry), 0);
                CHECK_EQ(sb_segment_open(&super, wish.size, &sb_os_linux, &segment), 0);
                CHECK_EQ(segment.value_len_max, lens[i]);
                CHECK_EQ(SB_SHAPE_VALUE_LEN(SB_SHAPE(lens[i], 0, SB_VERSION_VALUE, 0)), lens[i]);
        }
}

/* Every offset near the ends, each eighth one between. */
static uint64_t step_of(uint64_t at, uint64_t low, uint64_t size)
{
        return at > low && at + 4096 < size ? 8 : 1;
}

static void test_only_a_whole_header_in_the_units_is_at_an_offset(void)
{
        const struct sb_segment *s = &writer.segment;
        uint64_t size, low, end;

        CHECK(make_bus(1 << 20));
        size = s->geometry.size;
        low = s->geometry.units_at;
        end = low + (uint64_t)s->geometry.unit_count * s->geometry.unit_size;
        CHECK(end < size); /* behind the last unit there is some more */
        for (uint64_t at = 0; at < size + 200; at += step_of(at, low, end)) {
                bool block = at >= low && at <= end - 64 && !(at % 16);

                CHECK_EQ(sb_block_at(s, at) == s->base + at, block);
                CHECK_EQ(!!sb_block_at(s, at), block);
                CHECK_EQ(!!sb_version_at(s, at), block);
                CHECK_EQ(!!sb_node_at(s, at), block);
        }
        draw_state = 1;
        for (uint32_t i = 0; i < 100000; i++) {
                uint64_t at = draw_word() >> draw(24) | size;

                CHECK(!sb_block_at(s, at) && !sb_version_at(s, at) && !sb_node_at(s, at));
                CHECK(!sb_block_at(s, 0 - at) || 0 - at < size);
        }
        CHECK_EQ(sb_offset_of(s, sb_block_at(s, low + 32)), low + 32);
        unmake_bus();
}

static void test_a_cell_has_one_number_and_no_other_number_a_cell(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 16};
        const struct sb_segment *s = &writer.segment;
        uint32_t buckets, cells = 0;

        CHECK(make_bus_of(&wish));
        buckets = s->geometry.bucket_count;
        CHECK_EQ(buckets, 16);
        for (uint64_t number = 0; number < 8 * 40; number++) {
                struct sb_word64 *cell = sb_cell_at(s, number);

                CHECK_EQ(!!cell, number >= 8 && number < 8 * (1 + buckets) && number % 8 != 7);
                if (!cell)
                        continue;
                cells++;
                CHECK_EQ(sb_cell_number(s, cell), number);
                CHECK_EQ(SB_CELL_NUMBER(number / 8 - 1, number % 8), number);
                CHECK(cell == &s->buckets[number / 8 - 1].cell[number % 8]);
        }
        CHECK_EQ(cells, buckets * SB_BUCKET_CELLS);
        CHECK(!sb_cell_at(s, SB_NODE_GONE) && !sb_cell_at(s, UINT64_MAX - 7));
        CHECK(!sb_cell_at(s, UINT64_C(1) << 35 | 8) && !sb_cell_at(s, UINT64_C(1) << 63));
        unmake_bus();
}

static void test_a_version_is_a_keys_only_if_all_of_it_lies_inside(void)
{
        const struct sb_segment *s = &writer.segment;
        struct sb_version *version;
        uint64_t left, last;

        CHECK(make_bus(1 << 20));
        last = s->geometry.units_at + s->blocks_span;
        left = s->geometry.size - last;
        version = sb_version_at(s, last);
        CHECK(version);
        memcpy(version->bytes, "key", 3);
        left -= sizeof(*version) + 3;
        version->shape = SB_SHAPE(left, 3, SB_VERSION_VALUE, 1);
        CHECK(sb_version_is(s, version, "key", 3));
        CHECK(!sb_version_is(s, version, "kez", 3) && !sb_version_is(s, version, "ke", 2));
        CHECK(!sb_version_is(s, version, "keyx", 4));
        version->shape = SB_SHAPE(left + 1, 3, SB_VERSION_VALUE, 1);
        CHECK(!sb_version_is(s, version, "key", 3));
        version->shape = SB_SHAPE(left - 8, 3, SB_VERSION_VALUE | SB_VERSION_HAS_TXN, 1);
        CHECK(sb_version_is(s, version, "key", 3));
        version->shape = SB_SHAPE(left - 7, 3, SB_VERSION_VALUE | SB_VERSION_HAS_TXN, 1);
        CHECK(!sb_version_is(s, version, "key", 3));
        version->shape = SB_SHAPE(left, 2047, SB_VERSION_VALUE, 1);
        CHECK(!sb_version_fits(s, version));
        version->shape = UINT64_MAX;
        CHECK(!sb_version_fits(s, version));
        unmake_bus();
}

static void test_a_segment_is_served_until_it_is_replaced_or_both_its_processes_died(void)
{
        struct sb_superblock *super;

        CHECK(make_bus(1 << 20));
        super = writer.segment.super;
        sb_store_relaxed(&super->supervisor_life, SB_LIFE_DIED);
        CHECK(sb_segment_serving(&writer.segment));
        sb_store_relaxed(&super->engine_life, SB_LIFE_DIED | 12);
        CHECK(!sb_segment_serving(&writer.segment));
        sb_store_relaxed(&super->supervisor_life, 11);
        CHECK(sb_segment_serving(&writer.segment));
        sb_store_relaxed(&super->state, SB_SEGMENT_REPLACED);
        CHECK(!sb_segment_serving(&writer.segment));
        unmake_bus();
}

/* ---- the roster ---- */

static int claim(uint32_t first, uint32_t *ret_slot, uint32_t *ret_generation)
{
        struct sb_roster_identity identity = {.pid = 11 + first,
                .uid = 12,
                .access = 1,
                .pid_start = 13,
                .attached_ns = 14,
                .ticket = 15};

        return sb_roster_claim(&writer.segment, first, &identity, ret_slot, ret_generation);
}

static void test_the_first_free_record_is_claimed_until_none_is_left(void)
{
        const struct sb_segment *s = &writer.segment;
        uint32_t slot, generation;

        CHECK(make_bus_for(1 << 20, 6));
        CHECK_EQ(sb_roster_count(s), 3);
        for (uint32_t i = 3; i <= 6; i++) {
                CHECK_EQ(claim(1, &slot, &generation), 0);
                CHECK(slot == i && generation == 0);
                CHECK(sb_roster_lists(s, i));
                CHECK_EQ(sb_roster_count(s), i + 1);
        }
        CHECK_EQ(claim(1, &slot, &generation), SB_E_FULL);
        CHECK_EQ(claim(0, &slot, &generation), 0); /* the engine's own is another matter */
        CHECK_EQ(slot, 0);
        sb_roster_release(&writer.segment, 4, 0);
        CHECK_EQ(claim(0, &slot, &generation), SB_E_FULL); /* for an engine no other will do */
        CHECK_EQ(claim(5, &slot, &generation), SB_E_FULL); /* that lies before */
        CHECK_EQ(claim(1, &slot, &generation), 0);
        CHECK(slot == 4 && generation == 1);
        CHECK_EQ(sb_roster_count(s), 7);
        unmake_bus();
}

static void test_a_record_says_which_process_has_it(void)
{
        struct sb_record *record;
        uint32_t slot, generation, seen;

        CHECK(make_bus_for(1 << 20, 3));
        CHECK_EQ(claim(3, &slot, &generation), 0);
        CHECK_EQ(slot, 3);
        record = sb_record_at(&writer.segment, slot);
        CHECK(record->pid == 14 && record->uid == 12 && record->access == 1);
        CHECK(record->pid_start == 13 && record->attached_ns == 14 && record->ticket == 15);
        CHECK_EQ(sb_roster_state(&writer.segment, slot, &seen), SB_RECORD_ATTACHED);
        CHECK_EQ(seen, generation);
        sb_store_relaxed(&record->tag, SB_RECORD_TAG(0xfedcba98, SB_RECORD_DEAD));
        CHECK_EQ(sb_roster_state(&writer.segment, slot, &seen), SB_RECORD_DEAD);
        CHECK_EQ(seen, 0xfedcba98);
        CHECK_EQ(claim(3, &slot, &generation), SB_E_FULL);
        sb_store_relaxed(&record->tag, SB_RECORD_TAG(5, SB_RECORD_CLAIMED));
        CHECK_EQ(claim(3, &slot, &generation), SB_E_FULL);
        sb_store_relaxed(&record->tag, SB_RECORD_TAG(UINT32_MAX, SB_RECORD_FREE));
        CHECK_EQ(claim(3, &slot, &generation), 0);
        CHECK_EQ(generation, UINT32_MAX);
        sb_roster_release(&writer.segment, 3, generation);
        CHECK_EQ(sb_roster_state(&writer.segment, 3, &seen), SB_RECORD_FREE);
        CHECK_EQ(seen, 0);
        unmake_bus();
}

static void test_only_the_generation_that_has_a_record_frees_it(void)
{
        uint32_t slot = 0, generation = 0, seen;

        CHECK(make_bus_for(1 << 20, 3));
        for (uint32_t i = 0; i < 5; i++) {
                CHECK_EQ(claim(3, &slot, &generation), 0);
                CHECK_EQ(generation, i);
                sb_roster_release(&writer.segment, slot, generation - 1);
                sb_store_relaxed(&sb_record_at(&writer.segment, slot)->pin, 77);
                sb_roster_release(&writer.segment, slot, generation + 1);
                CHECK_EQ(sb_load_relaxed(&sb_record_at(&writer.segment, slot)->pin), 77);
                CHECK(sb_roster_lists(&writer.segment, slot));
                CHECK_EQ(sb_roster_state(&writer.segment, slot, &seen), SB_RECORD_ATTACHED);
                sb_roster_release(&writer.segment, slot, generation);
                sb_roster_release(&writer.segment, slot, generation);
                CHECK_EQ(sb_roster_state(&writer.segment, slot, &seen), SB_RECORD_FREE);
                CHECK_EQ(seen, generation + 1);
        }
        unmake_bus();
}

/* All that a walk meets, in order. */
static uint32_t walk(uint32_t ret_slots[SB_RECORDS_MAX])
{
        struct sb_roster_walk walk = {.segment = &writer.segment};
        uint32_t count = 0;

        while (sb_roster_next(&walk))
                ret_slots[count++] = sb_roster_met(&walk);
        return count;
}

/* A bus costs what its clients of now cost, not those of its busiest day: also while the last one
 * that came then stays. */
static void test_a_walk_meets_the_clients_of_now_and_no_others(void)
{
        enum { CLIENTS = 4000 };
        static uint32_t slots[SB_RECORDS_MAX], generations[CLIENTS + 1];
        struct sb_geometry_wish wish = {.size = 64 << 20, .clients = CLIENTS};
        uint32_t slot, generation;

        CHECK(make_bus_of(&wish));
        for (uint32_t i = 3; i <= CLIENTS; i++) {
                CHECK_EQ(claim(1, &slot, &generations[i]), 0);
                CHECK_EQ(slot, i);
        }
        CHECK_EQ(claim(1, &slot, &generation), SB_E_FULL);
        CHECK_EQ(walk(slots), CLIENTS);
        for (uint32_t i = 0; i < CLIENTS; i++)
                CHECK_EQ(slots[i], i + 1);
        for (uint32_t i = 3; i < CLIENTS; i++)
                if (i != 64 && i != 127)
                        sb_roster_release(&writer.segment, i, generations[i]);
        CHECK_EQ(walk(slots), 5);
        CHECK(slots[0] == 1 && slots[1] == 2 && slots[2] == 64 && slots[3] == 127);
        CHECK_EQ(slots[4], CLIENTS);
        CHECK_EQ(sb_roster_count(&writer.segment), 6);
        /* Bits beyond the records are input. */
        sb_store_relaxed(&writer.segment.super->roster[CLIENTS / 64], UINT64_MAX);
        CHECK_EQ(walk(slots), 4 + CLIENTS % 64 + 1);
        unmake_bus();
}

static void test_a_record_that_is_freed_announces_guards_and_notes_nothing(void)
{
        struct sb_geometry_wish wish = {.size = 2 << 20,
                .clients = 3,
                .guard_inline = 5,
                .snapshot_count = 7,
                .magazine_count = 90};
        struct sb_segment *s = &writer.segment;
        struct sb_record *record, *next;
        uint32_t slot, generation;

        CHECK(make_bus_of(&wish));
        CHECK_EQ(claim(1, &slot, &generation), 0);
        record = sb_record_at(s, slot);
        next = sb_record_at(s, reader.slot);
        for (uint32_t i = 0; i < 5 + 7 + 90; i++) {
                sb_store_relaxed(&record->words[i], 1000 + i);
                sb_store_relaxed(&next->words[i], 1000 + i);
        }
        CHECK(sb_record_snapshots(record) == record->words);
        CHECK(sb_record_guards(s, record) == record->words + 7);
        CHECK(sb_record_magazine(s, record) == record->words + 12);
        sb_store_relaxed(&record->guard_high, 5);
        sb_store_relaxed(&record->pin, 1);
        sb_store_relaxed(&record->operation, 2);
        sb_store_relaxed(&record->freeing, 3);
        sb_store_relaxed(&record->commits, 8);
        sb_roster_release(s, slot, generation);
        for (uint32_t i = 0; i < 5 + 7 + 90; i++)
                CHECK(!sb_load_relaxed(&record->words[i]) &&
                        sb_load_relaxed(&next->words[i]) == 1000 + i);
        CHECK(!sb_load_relaxed(&record->guard_high) && !sb_load_relaxed(&record->pin));
        CHECK(!sb_load_relaxed(&record->operation) && !sb_load_relaxed(&record->freeing));
        CHECK_EQ(sb_load_relaxed(&record->commits), 8); /* counts on for the next one */
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_new_segment_opens_and_is_empty);
        RUN(test_a_new_segment_lists_all_its_units_whatever_its_size);
        RUN(test_what_is_no_segment_of_this_layout_is_refused);
        RUN(test_the_smallest_units_hold_a_key_however_many_there_are);
        RUN(test_what_changes_in_the_superblock_later_is_not_believed);
        RUN(test_limits_follow_from_the_size_of_a_unit);
        RUN(test_a_value_may_have_a_quarter_of_the_segment_and_no_more_than_its_length_can_say);
        RUN(test_only_a_whole_header_in_the_units_is_at_an_offset);
        RUN(test_a_cell_has_one_number_and_no_other_number_a_cell);
        RUN(test_a_version_is_a_keys_only_if_all_of_it_lies_inside);
        RUN(test_a_segment_is_served_until_it_is_replaced_or_both_its_processes_died);
        RUN(test_the_first_free_record_is_claimed_until_none_is_left);
        RUN(test_a_record_says_which_process_has_it);
        RUN(test_only_the_generation_that_has_a_record_frees_it);
        RUN(test_a_walk_meets_the_clients_of_now_and_no_others);
        RUN(test_a_record_that_is_freed_announces_guards_and_notes_nothing);
        return test_end();
}
