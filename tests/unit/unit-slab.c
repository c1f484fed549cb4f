/*
 * Memory (shm/memory/slab.h, unit.h): size classes, taking and giving back, large blocks, the units
 * in reserve, what is a block, and what becomes of a unit that is empty. Which client owns a slab,
 * unit-slab-owner shows.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab-search.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/upkeep/sweep.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/flush.h"
#include "tests/unit/taken.h"
#include "tests/unit/units.h"

static uint64_t largest(void)
{
        return writer.segment.class_size[writer.segment.class_count - 1];
}

static uint64_t in_caches(const struct sb_handle *handle)
{
        uint64_t count = handle->slabs.tombstones.count + handle->slabs.guards.count;

        for (uint32_t i = 0; i < SB_CLASS_MAX; i++)
                count += handle->slabs.versions[i].count + handle->slabs.nodes[i].count;
        return count;
}

static void clear_all(struct sb_handle *handle)
{
        while (taken_count)
                clear_one(handle, taken_count - 1);
}

static void test_the_class_of_a_size_is_the_least_that_holds_it(void)
{
        static const struct {
                uint64_t size;
                uint32_t unit_size;
        } shapes[] = {{1 << 20, 256}, {1 << 20, 512}, {1 << 20, 0}, {8 << 20, 65536},
                {64 << 20, 1 << 20}, {256 << 20, 1 << 24}};

        for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                const struct sb_segment *segment = &writer.segment;
                uint32_t class_ = 0;

                CHECK(begin(shapes[i].size, shapes[i].unit_size));
                CHECK_EQ(segment->class_size[0], SB_BLOCK_MIN);
                CHECK(largest() <= segment->geometry.unit_size / 2);
                for (uint32_t j = 0; j < segment->class_count; j++) {
                        CHECK_EQ(segment->class_size[j] % 16, 0);
                        CHECK(!j || segment->class_size[j - 1] < segment->class_size[j]);
                        /* No more than a quarter of a block is wasted, but for the smallest. */
                        CHECK(!j || segment->class_size[j] <= 512 ||
                                segment->class_size[j] - segment->class_size[j - 1] <=
                                        segment->class_size[j] / 4);
                }
                for (uint64_t size = 1; size <= largest(); size += size < 70000 ? 1 : 997) {
                        while (segment->class_size[class_] < size)
                                class_++;
                        CHECK_EQ(sb_unit_class(segment, size), class_);
                }
                CHECK_EQ(sb_unit_class(segment, largest()), segment->class_count - 1);
                CHECK_EQ(sb_unit_class(segment, largest() + 1), segment->class_count);
                CHECK_EQ(sb_unit_class(segment, UINT64_MAX / 2), segment->class_count);
                unmake_bus();
        }
}

static void test_blocks_never_overlap_whatever_is_taken_and_freed(void)
{
        static const uint32_t unit_sizes[] = {256, 1024, 4096, 65536};
        uint32_t full = 0;

        for (uint32_t u = 0; u < 4; u++) {
                CHECK(begin(1 << 20, unit_sizes[u]));
                for (uint32_t step = 0; step < 6000; step++) {
                        struct sb_handle *handle = draw(2) ? &writer : &reader;
                        uint64_t most = draw(50) ? draw(5) ? 200 : largest() : 5 * unit_sizes[u];
                        int r = take(handle,
                                draw(3) && most <= largest() ? SB_UNIT_NODES : SB_UNIT_VERSIONS,
                                1 + draw((uint32_t)most), draw(2) * SB_SLAB_LARGER);

                        CHECK(!r || r == SB_E_FULL);
                        full += r != 0;
                        if (r || !draw(40))
                                for (uint32_t i = taken_count / (r ? 2 : 8); i; i--)
                                        clear_one(draw(2) ? &writer : &reader, draw(taken_count));
                        if (draw(4))
                                sb_slab_settle(handle);
                        if (step % 256)
                                continue;
                        CHECK(blocks_are_sound());
                        CHECK_EQ(count_bits_set(),
                                taken_count + in_caches(&writer) + in_caches(&reader));
                }
                clear_all(&reader);
                sb_slab_release_all(&writer);
                sb_slab_release_all(&reader);
                CHECK_EQ(count_bits_set(), 0);
                CHECK_EQ(owned_by(&writer) + owned_by(&reader), 0);
                /* All of it is one piece again. */
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, (uint64_t)units_for_all() * unit_sizes[u],
                                 0),
                        0);
                CHECK_EQ(count_kind(SB_UNIT_PART), units_for_all() - 1);
                unmake_bus();
        }
        CHECK(full > 10);
}

static void test_a_block_taken_is_live_and_of_no_cell_whatever_its_last_life_left(void)
{
        struct sb_node *node;
        uint64_t offset;

        CHECK(begin(1 << 20, 0));
        for (uint32_t i = 0; i < 64; i++)
                CHECK_EQ(take(&writer, SB_UNIT_NODES, 100, 0), 0);
        for (uint32_t i = 0; i < taken_count; i++)
                memset(sb_block_at(&writer.segment, taken[i].offset), 0xff, 100);
        clear_all(&writer);
        sb_slab_release_all(&writer);
        for (uint32_t i = 0; i < 64; i++) {
                CHECK_EQ(sb_slab_take(&reader, SB_UNIT_NODES, 100, 0, &offset), 0);
                node = sb_node_at(&reader.segment, offset);
                CHECK_EQ(sb_load_relaxed(&node->block.retire), 0);
                CHECK_EQ(sb_load_relaxed(&node->cell), 0);
                CHECK_EQ(sb_load_relaxed(&node->unhooked), 0);
        }
        unmake_bus();
}

static void test_what_is_given_back_is_taken_next_and_is_live_again(void)
{
        uint64_t first, second, third;
        struct sb_block *block;

        CHECK(begin(1 << 20, 0));
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 300, 0, &first), 0);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 300, 0, &second), 0);
        CHECK(first != second);
        block = sb_block_at(&writer.segment, first);
        sb_store_relaxed(&block->retire, SB_RETIRE_HELD);
        sb_slab_give_back(&writer, first);
        CHECK_EQ(sb_load_relaxed(&block->retire), 0);
        CHECK(sb_slab_peek(&writer, sb_unit_class(&writer.segment, 300), &third) && third == first);
        CHECK(sb_slab_take_ready(&writer, 300, &third) && third == first);
        /* What lies in a slab that is another client's, or none's, is free at once. */
        sb_slab_give_back(&reader, second);
        CHECK(!sb_unit_is_block(&writer.segment, second, SB_UNIT_VERSIONS, NULL));
        CHECK(!sb_slab_take_ready(&reader, 300, &third));
        unmake_bus();
}

static void test_a_refill_takes_as_many_blocks_as_the_cache_holds_and_the_slab_has(void)
{
        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, 0), 0);
        CHECK_EQ(count_bits_set(), SB_SLAB_CACHE_MAX);
        CHECK_EQ(in_caches(&writer), SB_SLAB_CACHE_MAX - 1);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 1500, 0), 0); /* two of which fit a unit */
        CHECK_EQ(count_bits_set(), SB_SLAB_CACHE_MAX + 2);
        CHECK(!sb_slab_take_ready(&writer, (SB_CLASS_TABLE - 1) * 16 + 1, &taken[5].offset));
        unmake_bus();
}

static void test_a_large_block_has_a_head_and_parts_and_goes_whole(void)
{
        uint32_t head;
        uint64_t size;

        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, largest() + 1, 0), 0); /* less than a unit */
        CHECK_EQ(sb_unit_of(&writer.segment, taken[0].offset), units_for_all() - 1);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 4 * 4096 + 1, 0), 0);
        head = sb_unit_of(&writer.segment, taken[1].offset);
        CHECK_EQ(head, units_for_all() - 6); /* from the top, side by side */
        CHECK_EQ(taken[1].offset, sb_unit_offset(&writer.segment, head));
        CHECK_EQ(sb_unit_word(&writer.segment, head),
                SB_UNIT_WORD(SB_UNIT_LARGE, 0, writer.slot + 1, writer.generation));
        for (uint32_t i = 1; i < 5; i++)
                CHECK_EQ(sb_unit_word(&writer.segment, head + i),
                        SB_UNIT_WORD(SB_UNIT_PART, 0, 0, head));
        CHECK_EQ(sb_unit_large_count(&writer.segment, head), 5);
        CHECK(sb_unit_is_block(&writer.segment, taken[1].offset, SB_UNIT_VERSIONS, &size));
        CHECK_EQ(size, 5 * 4096);
        CHECK(!sb_unit_is_block(&writer.segment, taken[1].offset, SB_UNIT_NODES, NULL));
        CHECK(!sb_unit_is_block(&writer.segment, taken[1].offset + 64, SB_UNIT_VERSIONS, NULL));
        CHECK(!sb_unit_is_block(&writer.segment, taken[1].offset + 4096, SB_UNIT_VERSIONS, NULL));
        sb_slab_settle(&writer);
        CHECK_EQ(sb_unit_word(&writer.segment, head), SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0));
        sb_unit_clear(&reader, taken[1].offset);
        CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, head)), SB_UNIT_EMPTY);
        for (uint32_t i = 1; i < 5; i++)
                CHECK_EQ(sb_unit_word(&writer.segment, head + i), 0);
        /* One that is given back in the operation in which it was taken goes at its end. */
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 9 * 4096, 0), 0);
        sb_slab_give_back(&reader, taken[2].offset);
        CHECK_EQ(owned_by(&reader), 1);
        sb_slab_settle(&reader);
        CHECK_EQ(owned_by(&reader), 0);
        CHECK_EQ(count_kind(SB_UNIT_LARGE), 1);
        unmake_bus();
}

static void test_a_large_block_can_be_all_units_but_the_reserve_and_no_more(void)
{
        CHECK(begin(3 << 20, 1024));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, (uint64_t)units_for_all() * 1024 + 1, 3),
                SB_E_FULL);
        CHECK_EQ(count_kind(SB_UNIT_FREE), units());
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, (uint64_t)units_for_all() * 1024, 0), 0);
        CHECK_EQ(count_kind(SB_UNIT_FREE), writer.segment.geometry.reserve_count);
        sb_slab_settle(&writer);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 513, 0), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_LARGER), SB_E_FULL);
        unmake_bus();
}

static void test_a_large_block_that_died_half_freed_or_half_claimed_serves_again(void)
{
        uint32_t head, cursor = 0;

        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 20 * 4096, 0), 0);
        head = sb_unit_of(&writer.segment, taken[0].offset);
        sb_slab_settle(&writer);
        /* Its reclaimer cleared the bit and died. */
        sb_and_full(&sb_unit_bitmap(&writer.segment, head)[0], ~UINT64_C(1));
        /* And a taker died that had claimed a head and two parts. */
        for (uint32_t i = 0; i < 3; i++)
                sb_store_relaxed(
                        &writer.segment.unit_words[i], i ? SB_UNIT_WORD(SB_UNIT_PART, 0, 0, 0)
                                                         : SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0));
        sb_sweep(&reader, &cursor, units());
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, (uint64_t)units_for_all() * 4096, 0), 0);
        unmake_bus();
}

/* A hint at a unit is older than the unit's word: of the run that it promises, any unit may be
 * taken by now. What was claimed of the run goes back. */
static void test_a_run_of_which_one_unit_is_taken_is_given_back_as_a_whole(void)
{
        enum { RUN_UNITS = 5 };

        for (uint32_t taken_one = 0; taken_one < RUN_UNITS; taken_one++) {
                uint32_t first, unit;

                CHECK(begin(1 << 20, 0));
                first = units_for_all() - RUN_UNITS;
                unit = first + taken_one;
                sb_store_relaxed(&writer.segment.unit_words[unit],
                        SB_UNIT_WORD(SB_UNIT_NODES, 0, reader.slot + 1, reader.generation));
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, RUN_UNITS * 4096, 0), 0);
                CHECK(sb_unit_of(&writer.segment, taken[0].offset) + RUN_UNITS <= unit);
                CHECK_EQ(owned_by(&writer), 1);
                CHECK_EQ(count_kind(SB_UNIT_LARGE), 1);
                CHECK_EQ(count_kind(SB_UNIT_PART), RUN_UNITS - 1);
                CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)), SB_UNIT_NODES);
                CHECK_EQ(count_bits_set(), 1);
                unmake_bus();
        }
}

/* A unit that a pinned client may know is not made free, and the search goes on behind it. */
static void test_a_large_block_is_found_behind_empty_units_that_a_reader_may_know(void)
{
        uint64_t old, count;

        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 1000, 0), 0);
        old = taken[0].offset;
        sb_slab_release_all(&writer);
        sb_pin(&reader);
        clear_one(&writer, 0);
        CHECK_EQ(SB_UNIT_KIND(word_of(old)), SB_UNIT_EMPTY);
        count = units_for_all() - sb_unit_of(&writer.segment, old) - 1;
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, (count + 1) * 4096, 0), SB_E_FULL);
        CHECK_EQ(SB_UNIT_KIND(word_of(old)), SB_UNIT_EMPTY);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, count * 4096, 0), 0);
        sb_unpin(&reader);
        unmake_bus();
}

static void test_larger_classes_serve_only_those_that_ask(void)
{
        uint32_t many;
        uint64_t size;

        CHECK(begin(1 << 20, 0));
        while (!take(&writer, SB_UNIT_VERSIONS, 64, 0))
                sb_slab_settle(&writer);
        /* One slab of a larger class has a free block. */
        many = taken_count;
        for (uint32_t i = 0; i < many; i++)
                if (sb_unit_of(&writer.segment, taken[i].offset) == 7)
                        sb_unit_clear(&writer, taken[i].offset);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 1000, 0), 0);
        sb_slab_release_all(&writer);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 70, 0), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_NODES, 70, SB_SLAB_LARGER), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 2000, SB_SLAB_LARGER), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 70, SB_SLAB_LARGER), 0);
        CHECK(sb_unit_is_block(
                &writer.segment, taken[taken_count - 1].offset, SB_UNIT_VERSIONS, &size));
        CHECK_EQ(size, writer.segment.class_size[sb_unit_class(&writer.segment, 1000)]);
        unmake_bus();
}

/* Behind the largest class of versions comes the list of the smallest nodes. A search that clears a
 * hint there has looked at it, and hides a slab from other clients when it is killed then. */
static void test_a_search_for_larger_classes_ends_with_the_largest(void)
{
        uint32_t nodes, unit;

        CHECK(begin(1 << 20, 0));
        nodes = sb_vacancy_list(&writer.segment, SB_UNIT_NODES, 0);
        while (!take(&writer, SB_UNIT_VERSIONS, largest(), 0))
                ;
        sb_slab_release_all(&writer);
        /* A hint at a unit that is not fit for the list: the first look takes it away. */
        unit = sb_unit_of(&writer.segment, taken[0].offset);
        sb_vacancy_set(&writer.segment, nodes, unit);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_LARGER), SB_E_FULL);
        CHECK(sb_vacancy_has(&writer.segment, nodes, unit));
        CHECK_EQ(take(&reader, SB_UNIT_NODES, writer.segment.class_size[0], 0), SB_E_FULL);
        CHECK(!sb_vacancy_has(&writer.segment, nodes, unit));
        unmake_bus();
}

static void test_units_in_reserve_serve_tombstones_of_a_full_bus_alone(void)
{
        uint32_t first, class_;
        uint64_t reserve_size;

        CHECK(begin(1 << 20, 0));
        first = units_for_all();
        class_ = writer.segment.reserve_class;
        reserve_size = writer.segment.class_size[class_];
        CHECK(reserve_size >= sizeof(struct sb_version) + writer.segment.key_len_max);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE), 0);
        CHECK(sb_unit_of(&writer.segment, taken[0].offset) < first); /* there is other memory */
        while (!take(&writer, SB_UNIT_VERSIONS, 64, 0))
                ;
        while (!take(&writer, SB_UNIT_VERSIONS, reserve_size, 0))
                ;
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, reserve_size + 1, 3), SB_E_FULL);
        taken_count = 0;
        while (!take(&writer, SB_UNIT_VERSIONS, 1 + draw((uint32_t)reserve_size), SB_SLAB_RESERVE))
                CHECK(sb_unit_of(&writer.segment, taken[taken_count - 1].offset) >= first);
        /* Its last quarter, here a unit, is for the bus's own keys. */
        CHECK_EQ(writer.segment.geometry.reserve_count, 3);
        CHECK_EQ(taken_count, 2 * (4096 / reserve_size));
        CHECK(blocks_are_sound());
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_OWN), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE | SB_SLAB_OWN), 0);
        CHECK(sb_unit_of(&reader.segment, taken[taken_count - 1].offset) >= first + 2);
        sb_slab_settle(&reader);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE), SB_E_FULL);
        while (!take(&writer, SB_UNIT_VERSIONS, reserve_size, SB_SLAB_RESERVE | SB_SLAB_OWN))
                ;
        CHECK_EQ(taken_count, 3 * (4096 / reserve_size));
        sb_slab_settle(&writer);
        clear_one(&reader, 0);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, 0), SB_E_FULL);
        CHECK_EQ(take(&reader, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE), 0);
        sb_slab_settle(&reader);
        CHECK_EQ(owned_by(&reader), 0); /* kept for no next time */
        unmake_bus();
}

static void test_an_empty_unit_serves_its_class_at_once_and_others_when_no_pin_is_left(void)
{
        uint32_t unit, birth;

        CHECK(begin(1 << 20, 0));
        while (!take(&writer, SB_UNIT_VERSIONS, 64, 0))
                ;
        sb_slab_release_all(&writer);
        unit = sb_unit_of(&writer.segment, taken[taken_count / 2].offset);
        birth = sb_load_relaxed(&writer.segment.unit_births[unit]);
        sb_pin(&reader);
        for (uint32_t i = taken_count; i-- > 0;)
                if (sb_unit_of(&writer.segment, taken[i].offset) == unit)
                        clear_one(&writer, i);
        sb_era_advance(&writer);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 200, 0), SB_E_FULL);
        CHECK_EQ(sb_unit_word(&writer.segment, unit),
                SB_UNIT_WORD(SB_UNIT_EMPTY, 0, SB_UNIT_VERSIONS,
                        (uint32_t)sb_unit_word(&writer.segment, unit)));
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 64, 0), SB_E_FULL);
        CHECK(!sb_unit_past_grace(&writer, unit, sb_unit_word(&writer.segment, unit)));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 60, 0), 0);
        CHECK_EQ(sb_unit_of(&writer.segment, taken[taken_count - 1].offset), unit);
        CHECK_EQ(sb_load_relaxed(&writer.segment.unit_births[unit]), birth);
        clear_one(&writer, taken_count - 1);
        sb_slab_release_all(&writer);
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 64, 0), SB_E_FULL);
        sb_unpin(&reader);
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 300, 0), 0);
        CHECK_EQ(sb_unit_of(&writer.segment, taken[taken_count - 1].offset), unit);
        CHECK(birth < sb_load_relaxed(&writer.segment.unit_births[unit]));
        unmake_bus();
}

/* A look at all pins costs all processes: those in vain are ever further apart, and when one found
 * a unit, the next search looks again. */
static void test_looks_at_all_pins_in_vain_are_ever_further_apart(void)
{
        uint32_t unit;

        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 300, 0), 0); /* its slab serves in the meantime */
        while (!take(&writer, SB_UNIT_VERSIONS, 64, 0))
                ;
        sb_slab_release_all(&writer);
        unit = sb_unit_of(&writer.segment, taken[taken_count / 2].offset);
        sb_pin(&reader);
        for (uint32_t i = taken_count; i-- > 0;)
                if (sb_unit_of(&writer.segment, taken[i].offset) == unit)
                        clear_one(&writer, i);
        sb_era_advance(&writer);
        flush_begin(&writer, NULL);
        for (uint32_t i = 0; i < 64; i++) {
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 200, SB_SLAB_LARGER), 0);
                clear_one(&writer, taken_count - 1);
                sb_slab_release_all(&writer);
        }
        CHECK(flush_count > 1 && flush_count < 20);
        sb_unpin(&reader);
        unmake_bus();
}

static void test_chunks_of_guards_take_a_slab_each(void)
{
        CHECK(begin(1 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_GUARDS, 500, 0), 0);
        CHECK_EQ(take(&writer, SB_UNIT_GUARDS, 500, 0), 0);
        CHECK_EQ(take(&writer, SB_UNIT_GUARDS, 64, 0), 0);
        CHECK_EQ(count_kind(SB_UNIT_GUARDS), 3);
        sb_slab_release_all(&writer);
        CHECK_EQ(count_bits_set(), 3);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK(blocks_are_sound());
        unmake_bus();
}

static void test_only_a_blocks_start_is_a_block(void)
{
        uint64_t size, base;
        uint32_t unit, count;

        CHECK(begin(1 << 20, 0));
        for (uint32_t i = 0; i < 5; i++)
                CHECK_EQ(take(&writer, SB_UNIT_NODES, 700, 0), 0); /* of 768: five in a unit */
        unit = sb_unit_of(&writer.segment, taken[0].offset);
        base = sb_unit_offset(&writer.segment, unit);
        CHECK_EQ(sb_unit_block_count(&writer.segment, word_of(base)), 5);
        /* Also where no block is, at the end of the unit, a bit is set. */
        sb_store_relaxed(&sb_unit_bitmap(&writer.segment, unit)[0], UINT64_MAX);
        for (uint64_t at = 0; at < 4096; at++) {
                bool is = sb_unit_is_block(&writer.segment, base + at, SB_UNIT_NODES, &size);

                CHECK_EQ(is, at % 768 == 0 && at < 5 * 768);
                CHECK(!is || size == 768);
                CHECK(!sb_unit_is_block(&writer.segment, base + at, SB_UNIT_VERSIONS, NULL));
        }
        sb_and_full(&sb_unit_bitmap(&writer.segment, unit)[0], ~UINT64_C(4));
        CHECK(!sb_unit_is_block(&writer.segment, base + 2 * 768, SB_UNIT_NODES, NULL));
        CHECK(sb_unit_is_block(&writer.segment, base + 3 * 768, SB_UNIT_NODES, NULL));
        count = sb_unit_count_free(&writer.segment, unit, 5);
        CHECK_EQ(count, 1);
        unmake_bus();
}

static void test_hostile_offsets_and_unit_words_name_no_block(void)
{
        static const uint64_t offsets[] = {0, 1, 64, UINT64_MAX, UINT64_MAX - 15, UINT64_C(1) << 63,
                UINT64_C(1) << 47, UINT64_C(1) << 32};
        static const enum sb_unit_kind kinds[] = {
                SB_UNIT_VERSIONS, SB_UNIT_NODES, SB_UNIT_GUARDS, SB_UNIT_LARGE, SB_UNIT_PART};
        const struct sb_segment *segment = &writer.segment;
        uint64_t before;

        CHECK(begin(1 << 20, 0));
        memset(segment->base + segment->geometry.bitmaps_at, 0xff,
                (uint64_t)units() * segment->geometry.bitmap_stride);
        before = count_bits_set();
        for (uint32_t k = 0; k < 5; k++) {
                for (uint32_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
                        CHECK(!sb_unit_is_block(segment, offsets[i], kinds[k], NULL));
                CHECK(!sb_unit_is_block(segment, segment->geometry.units_at - 64, kinds[k], NULL));
                CHECK(!sb_unit_is_block(segment, sb_unit_offset(segment, units()), kinds[k], NULL));
        }
        CHECK_EQ(sb_unit_of(segment, sb_unit_offset(segment, units()) - 1), units() - 1);
        CHECK_EQ(sb_unit_of(segment, sb_unit_offset(segment, units())), UINT32_MAX);
        CHECK_EQ(sb_unit_of(segment, segment->geometry.units_at - 1), UINT32_MAX);
        /* A class that there is not. */
        for (uint32_t class_ = segment->class_count; class_ < 64; class_++) {
                uint64_t word = SB_UNIT_WORD(SB_UNIT_NODES, class_, 0, 0);

                sb_store_relaxed(&segment->unit_words[0], word);
                CHECK_EQ(sb_unit_block_count(segment, word), 0);
                CHECK(!sb_unit_is_block(segment, segment->geometry.units_at, SB_UNIT_NODES, NULL));
                sb_unit_clear(&writer, segment->geometry.units_at);
        }
        sb_unit_clear(&writer, 0);
        sb_unit_clear(&writer, UINT64_MAX);
        CHECK_EQ(count_bits_set(), before);
        unmake_bus();
}

/* A block is cleared by a multiplication instead of a division: right for each of each class. */
static void test_the_bit_that_is_cleared_is_the_blocks_own(void)
{
        static const uint32_t unit_sizes[] = {256, 4096, 1 << 20};

        for (uint32_t u = 0; u < 3; u++) {
                const struct sb_segment *segment = &writer.segment;

                CHECK(begin(16 << 20, unit_sizes[u]));
                for (uint32_t class_ = 0; class_ < segment->class_count; class_++) {
                        uint64_t word = SB_UNIT_WORD(SB_UNIT_VERSIONS, class_, 0, 0),
                                 size = segment->class_size[class_];
                        uint32_t count = sb_unit_block_count(segment, word);

                        sb_store_relaxed(&segment->unit_words[3], word);
                        for (uint32_t i = 0; i < count; i++) {
                                uint64_t *bits = (uint64_t *)sb_unit_bitmap(segment, 3);

                                bits[i / 64] = UINT64_MAX;
                                sb_unit_clear(&writer, sb_unit_offset(segment, 3) + i * size);
                                CHECK(bits[i / 64] == ~(UINT64_C(1) << i % 64));
                        }
                }
                unmake_bus();
        }
}

/* A bus that came back in more than its --size: values and keys have no more units by that. */
static void test_what_a_bus_holds_back_serves_no_value(void)
{
        const uint32_t held = 20;
        uint32_t all, row = 0;
        uint64_t offset, first;

        CHECK(begin(1 << 20, 0));
        all = sb_slab_search_count_free(&writer.segment);
        writer.segment.super->held_units = held;
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &first));
        /* Units one by one and in a row, until there are as many as it holds back; blocks in them
         * serve still, and so does the reserve. */
        for (; sb_slab_search_count_free(&writer.segment) > held + 8; row++)
                CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS,
                        row % 2 ? largest() : 3 * writer.segment.geometry.unit_size, 0, &offset));
        CHECK(row > 20 && all > 2 * held);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 9 * writer.segment.geometry.unit_size, 0,
                         &offset),
                SB_E_FULL);
        while (!sb_slab_take(&writer, SB_UNIT_NODES, largest(), 0, &offset))
                row++;
        CHECK_EQ(sb_slab_search_count_free(&writer.segment), held);
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset));
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), SB_E_FULL);
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, SB_SLAB_RESERVE, &offset));
        CHECK(!sb_slab_take(&writer, SB_UNIT_GUARDS, 100, 0, &offset));
        /* More than that is taken already: no keys, also where there is a slab of them. */
        writer.segment.super->held_units = held + 1;
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_NODES, 100, 0, &offset), SB_E_FULL);
        writer.segment.super->held_units = 0;
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_the_class_of_a_size_is_the_least_that_holds_it);
        RUN(test_blocks_never_overlap_whatever_is_taken_and_freed);
        RUN(test_a_block_taken_is_live_and_of_no_cell_whatever_its_last_life_left);
        RUN(test_what_is_given_back_is_taken_next_and_is_live_again);
        RUN(test_a_refill_takes_as_many_blocks_as_the_cache_holds_and_the_slab_has);
        RUN(test_a_large_block_has_a_head_and_parts_and_goes_whole);
        RUN(test_a_large_block_can_be_all_units_but_the_reserve_and_no_more);
        RUN(test_a_large_block_that_died_half_freed_or_half_claimed_serves_again);
        RUN(test_a_run_of_which_one_unit_is_taken_is_given_back_as_a_whole);
        RUN(test_a_large_block_is_found_behind_empty_units_that_a_reader_may_know);
        RUN(test_larger_classes_serve_only_those_that_ask);
        RUN(test_a_search_for_larger_classes_ends_with_the_largest);
        RUN(test_units_in_reserve_serve_tombstones_of_a_full_bus_alone);
        RUN(test_an_empty_unit_serves_its_class_at_once_and_others_when_no_pin_is_left);
        RUN(test_looks_at_all_pins_in_vain_are_ever_further_apart);
        RUN(test_chunks_of_guards_take_a_slab_each);
        RUN(test_only_a_blocks_start_is_a_block);
        RUN(test_hostile_offsets_and_unit_words_name_no_block);
        RUN(test_the_bit_that_is_cleared_is_the_blocks_own);
        RUN(test_what_a_bus_holds_back_serves_no_value);
        return test_end();
}
