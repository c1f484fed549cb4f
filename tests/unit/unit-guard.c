/*
 * Guard words (shm/memory/guard.h): each index has a word of its own, however many lie in the
 * record and however large the chunks can be; growth, limits, and hostile chunks.
 */
#include <stdlib.h>

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/memory/guard.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

static bool begin(uint32_t guard_inline, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = 8 << 20,
                .clients = 2,
                .guard_inline = guard_inline,
                .unit_size = unit_size};

        return make_bus_of(&wish);
}

static uint32_t chunks_made(void)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < SB_GUARD_CHUNKS; i++)
                count += sb_load_relaxed(&reader.record->guard_chunk[i]) != 0;
        return count;
}

static int compare_words(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void test_every_index_has_a_word_of_its_own_up_to_the_limit(void)
{
        static const struct {
                uint32_t guard_inline, unit_size;
        } shapes[] = {{1, 0}, {5, 256}, {64, 512}, {100, 4096}, {4096, 65536}};
        static uint64_t places[SB_GUARDS_MAX];

        for (uint32_t s = 0; s < 5; s++) {
                uint32_t count = 0, chunks = 0;

                CHECK(begin(shapes[s].guard_inline, shapes[s].unit_size));
                /* Whatever lay there before. */
                memset(writer.segment.base + writer.segment.geometry.units_at, 0xff,
                        (uint64_t)writer.segment.geometry.unit_count *
                                writer.segment.geometry.unit_size);
                for (; count < SB_GUARDS_MAX && !sb_guard_grow(&reader, count); count++) {
                        struct sb_word64 *word =
                                sb_guard_word(&writer.segment, reader.record, count);

                        CHECK(word);
                        CHECK_EQ(sb_load_relaxed(word), 0);
                        /* Reclaimers need not read a chunk until there is a guard in it. */
                        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high),
                                count + (count < shapes[s].guard_inline));
                        places[count] = sb_offset_of(&writer.segment, word);
                        CHECK(count >= shapes[s].guard_inline ||
                                word == &reader.guards.words[count]);
                        sb_guard_set(&reader, count, 3 * (uint64_t)count + 1);
                        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), count + 1);
                }
                chunks = chunks_made();
                /* All there may be, or as many as there are words in a record for chunks. */
                CHECK(count == SB_GUARDS_MAX || chunks == SB_GUARD_CHUNKS - 1);
                CHECK_EQ(sb_guard_grow(&reader, count), SB_E_FULL);
                CHECK_EQ(sb_guard_grow(&reader, SB_GUARDS_MAX), SB_E_FULL);
                CHECK_EQ(sb_guard_grow(&reader, UINT32_MAX), SB_E_FULL);
                CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), count);
                for (uint32_t i = 0; i < count; i++)
                        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, i),
                                3 * (uint64_t)i + 1);
                qsort(places, count, sizeof(places[0]), compare_words);
                for (uint32_t i = 1; i < count; i++)
                        CHECK(places[i - 1] + 8 <= places[i]);
                unmake_bus();
        }
}

static void test_words_come_in_chunks_that_double_and_only_as_they_are_asked_for(void)
{
        uint64_t size;

        CHECK(begin(10, 65536));
        CHECK_EQ(sb_guard_grow(&reader, 9), 0);
        CHECK_EQ(chunks_made(), 0);
        CHECK_EQ(sb_guard_grow(&reader, 35), 0); /* 10 in the record, 10, 20, then 40 */
        CHECK_EQ(chunks_made(), 1);
        CHECK(sb_guard_word(&writer.segment, reader.record, 20) &&
                sb_guard_word(&writer.segment, reader.record, 39));
        CHECK(!sb_guard_word(&writer.segment, reader.record, 19));
        CHECK(!sb_guard_word(&writer.segment, reader.record, 40));
        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, 15), 0);
        CHECK_EQ(sb_guard_grow(&reader, 20), 0); /* is there already */
        CHECK_EQ(chunks_made(), 1);
        CHECK_EQ(sb_guard_grow(&reader, 12), 0);
        CHECK_EQ(chunks_made(), 2);
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 10);
        sb_guard_set(&reader, 35, 64);
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 36);
        unmake_bus();
        /* They still do where one word is in the record, and units are largest: the last one. */
        CHECK(begin(1, 1 << 20));
        CHECK_EQ(sb_guard_grow(&reader, SB_GUARDS_MAX / 2), 0);
        CHECK(sb_unit_is_block(&writer.segment, sb_load_relaxed(&reader.record->guard_chunk[16]),
                SB_UNIT_GUARDS, &size));
        CHECK(size > 8 * SB_GUARDS_MAX / 2 && size < 8 * SB_GUARDS_MAX / 2 * 3 / 2);
        CHECK_EQ(sb_guard_grow(&reader, SB_GUARDS_MAX - 1), 0);
        CHECK_EQ(chunks_made(), 1);
        unmake_bus();
}

/* Guards are set and let go at random; then all are let go, and reclaimers read no chunk. */
static void test_reclaimers_read_to_the_last_guard_of_now(void)
{
        enum { WORDS = 3000 };
        static bool set[WORDS];

        CHECK(begin(8, 4096));
        memset(set, 0, sizeof(set));
        for (uint32_t i = 0; i < WORDS; i++)
                CHECK_EQ(sb_guard_grow(&reader, i), 0);
        /* Keys that were asked for and not there needed words, and no guard. */
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 8);
        draw_state = 3;
        for (uint32_t step = 0; step < 60000; step++) {
                /* Now few, now many of them, in rounds. */
                uint32_t index = draw(2) ? draw(WORDS) : draw(40), last = 0, i;

                set[index] = draw(step / 6000 % 2 ? 9 : 2) == 0;
                sb_guard_set(&reader, index, set[index] ? 64 : 0);
                if (step % 61)
                        continue;
                for (i = 0; i < WORDS; i++)
                        if (set[i])
                                last = i;
                i = (uint32_t)sb_load_relaxed(&reader.record->guard_high);
                /* A chunk is as large as all before it, or as the largest class allows. */
                CHECK(i > last && (last < 8 || i <= last + 1 + (last < 500 ? last : 500)));
        }
        for (uint32_t i = WORDS; i; i--)
                sb_guard_set(&reader, i - 1, 0);
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 8);
        sb_guard_set(&reader, 2000, 64);
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 2001);
        unmake_bus();
}

static void test_a_chunk_is_no_chunk_unless_it_is_a_block_of_guards_and_large_enough(void)
{
        uint64_t offset, version, small;
        struct sb_word64 *chunk;

        CHECK(begin(64, 4096));
        CHECK_EQ(sb_guard_grow(&reader, 64), 0);
        chunk = &reader.record->guard_chunk[1];
        offset = sb_load_relaxed(chunk);
        sb_guard_set(&reader, 64, 4711);
        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, 64), 4711);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 600, 0, &version), 0);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_GUARDS, 64, 0, &small), 0);
        const uint64_t hostile[] = {0, 8, 16, version, offset + 16, offset + 1, UINT64_MAX,
                writer.segment.geometry.size, writer.segment.geometry.size - 64};
        for (uint32_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
                sb_store_relaxed(chunk, hostile[i]);
                CHECK(!sb_guard_word(&writer.segment, reader.record, 64));
                CHECK_EQ(sb_guard_read(&writer.segment, reader.record, 64), 0);
        }
        sb_store_relaxed(chunk, small);
        CHECK(sb_guard_word(&writer.segment, reader.record, 64 + 5));
        CHECK(!sb_guard_word(&writer.segment, reader.record, 64 + 6)); /* ends before */
        sb_store_relaxed(chunk, offset);
        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, 64), 4711);
        unmake_bus();
}

/* Whatever the words behind the last chunk's say: a doorbell that was rung often. */
static void test_an_index_behind_the_last_chunk_has_no_word(void)
{
        uint64_t offset;

        CHECK(begin(64, 4096));
        CHECK_EQ(sb_guard_grow(&reader, 64), 0);
        offset = sb_load_relaxed(&reader.record->guard_chunk[1]);
        sb_store_relaxed(&reader.record->bell, (uint32_t)offset);
        sb_store_relaxed(&reader.record->rung, 0);
        for (uint32_t i = 0; i < 5000; i++)
                CHECK(!sb_guard_word(&writer.segment, reader.record, UINT32_MAX - i));
        unmake_bus();
}

static void test_only_its_owners_life_frees_a_chunk(void)
{
        uint64_t offset;

        CHECK(begin(64, 4096));
        CHECK_EQ(sb_guard_grow(&reader, 64), 0);
        offset = sb_load_relaxed(&reader.record->guard_chunk[1]);
        /* Of another generation, or named in another place: let go of, and left. */
        CHECK(!sb_guard_chunk_free(&writer, reader.slot, reader.generation + 1, 1));
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_chunk[1]), 0);
        CHECK(sb_unit_is_block(&writer.segment, offset, SB_UNIT_GUARDS, NULL));
        sb_store_relaxed(&reader.record->guard_chunk[2], offset);
        CHECK(!sb_guard_chunk_free(&writer, reader.slot, reader.generation, 2));
        CHECK(sb_unit_is_block(&writer.segment, offset, SB_UNIT_GUARDS, NULL));
        sb_store_relaxed(&reader.record->guard_chunk[1], offset);
        CHECK(sb_guard_chunk_free(&writer, reader.slot, reader.generation, 1));
        CHECK(!sb_unit_is_block(&writer.segment, offset, SB_UNIT_GUARDS, NULL));
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_chunk[1]), 0);
        CHECK_EQ(sb_load_relaxed(&writer.record->freeing), 0);
        CHECK(!sb_guard_chunk_free(&writer, reader.slot, reader.generation, 1));
        unmake_bus();
}

/* What another process has won, its reaper finishes, by the note of what it was freeing. */
static void test_a_chunk_that_another_process_is_freeing_is_left_to_it(void)
{
        struct sb_block *block;
        uint64_t offset;

        CHECK(begin(64, 4096));
        CHECK_EQ(sb_guard_grow(&reader, 64), 0);
        offset = sb_load_relaxed(&reader.record->guard_chunk[1]);
        block = sb_block_at(&writer.segment, offset);
        sb_store_relaxed(&block->retire, SB_RETIRE_FREEING | reader.slot);
        CHECK(!sb_guard_chunk_free(&writer, reader.slot, reader.generation, 1));
        CHECK(sb_unit_is_block(&writer.segment, offset, SB_UNIT_GUARDS, NULL));
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_FREEING | reader.slot);
        CHECK_EQ(sb_load_relaxed(&writer.record->freeing), 0);
        unmake_bus();
}

/* What a kill leaves between the bit of a chunk and the word that names it: the word. */
static void test_a_chunk_that_was_freed_and_is_being_made_by_another_stays(void)
{
        uint64_t offset, again;
        uint32_t slot, generation;
        struct sb_handle reaper;
        struct sb_roster_identity identity = {.pid = 1};

        CHECK(begin(64, 4096));
        CHECK(!sb_roster_claim(&writer.segment, 0, &identity, &slot, &generation));
        make_handle(&reaper, &writer.segment, slot, generation);
        CHECK_EQ(sb_guard_grow(&reader, 64), 0);
        offset = sb_load_relaxed(&reader.record->guard_chunk[1]);
        CHECK(sb_guard_chunk_free(&reaper, reader.slot, reader.generation, 1));
        sb_store_relaxed(&reader.record->guard_chunk[1], offset);
        sb_slab_release_all(&reader);
        /* Another client has taken the block and not written yet which chunk it is. */
        do {
                CHECK(!sb_slab_take(&writer, SB_UNIT_GUARDS, sizeof(struct sb_guard_chunk) + 8 * 64,
                        0, &again));
                sb_slab_settle(&writer);
        } while (again != offset);
        CHECK(!sb_guard_chunk_free(&reaper, reader.slot, reader.generation, 1));
        CHECK(sb_unit_is_block(&writer.segment, offset, SB_UNIT_GUARDS, NULL));
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_chunk[1]), 0);
        unmake_bus();
}

static void test_on_a_full_bus_no_more_words_are_promised(void)
{
        uint64_t offset;

        CHECK(begin(16, 4096));
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, 2000, 0, &offset))
                ;
        CHECK_EQ(sb_guard_grow(&reader, 15), 0);
        CHECK_EQ(sb_guard_grow(&reader, 16), SB_E_FULL);
        CHECK_EQ(sb_load_relaxed(&reader.record->guard_high), 16);
        CHECK_EQ(chunks_made(), 0);
        unmake_bus();
}

static uint32_t count_slabs_of_guards(void)
{
        uint32_t count = 0;

        for (uint32_t unit = 0; unit < writer.segment.geometry.unit_count; unit++)
                count += SB_UNIT_KIND(sb_load_relaxed(&writer.segment.unit_words[unit])) ==
                         SB_UNIT_GUARDS;
        return count;
}

/* Each of many clients needed one word more than its record has. */
static void test_chunks_of_many_clients_lie_in_few_slabs(void)
{
        enum { CLIENTS = 60 };
        static struct sb_handle clients[CLIENTS];
        struct sb_geometry_wish wish = {
                .size = 8 << 20, .clients = CLIENTS + 2, .guard_inline = 64, .unit_size = 4096};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation, slabs = 0, each;

        CHECK(make_bus_of(&wish));
        each = 4096 / writer.segment.class_size[sb_unit_class(
                              &writer.segment, sizeof(struct sb_guard_chunk) + 8 * 64)];
        for (uint32_t i = 0; i < CLIENTS; i++) {
                CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
                make_handle(&clients[i], &writer.segment, slot, generation);
                CHECK_EQ(sb_guard_grow(&clients[i], 64), 0);
        }
        slabs = count_slabs_of_guards();
        CHECK(each > 3);
        CHECK_EQ(slabs, (CLIENTS + each - 1) / each);
        for (uint32_t i = 0; i < CLIENTS; i++)
                sb_handle_fini(&clients[i]);
        CHECK_EQ(count_slabs_of_guards(), 0);
        unmake_bus();
}

/* Slabs of larger chunks, each with a place that is free, lie before that of the smaller ones. */
static void test_chunks_find_a_slab_of_their_size_behind_any_number_of_others(void)
{
        enum { LARGE = 48, SMALL = 12 };
        static struct sb_handle large[LARGE], small[SMALL];
        struct sb_geometry_wish wish = {.size = 8 << 20,
                .clients = LARGE + SMALL + 2,
                .guard_inline = 64,
                .unit_size = 4096};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation, slabs;

        CHECK(make_bus_of(&wish));
        for (uint32_t i = 0; i < LARGE; i++) {
                CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
                make_handle(&large[i], &writer.segment, slot, generation);
                CHECK_EQ(sb_guard_grow(&large[i], 128), 0); /* the second chunk, of 128 words */
        }
        slabs = count_slabs_of_guards();
        CHECK(slabs >= 16);
        for (uint32_t i = 0; i < LARGE; i += 3)
                sb_handle_fini(&large[i]);
        CHECK_EQ(count_slabs_of_guards(), slabs);
        for (uint32_t i = 0; i < SMALL; i++) {
                CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
                make_handle(&small[i], &writer.segment, slot, generation);
                CHECK_EQ(sb_guard_grow(&small[i], 64), 0);
        }
        CHECK(count_slabs_of_guards() <= slabs + 2);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_every_index_has_a_word_of_its_own_up_to_the_limit);
        RUN(test_words_come_in_chunks_that_double_and_only_as_they_are_asked_for);
        RUN(test_reclaimers_read_to_the_last_guard_of_now);
        RUN(test_a_chunk_is_no_chunk_unless_it_is_a_block_of_guards_and_large_enough);
        RUN(test_an_index_behind_the_last_chunk_has_no_word);
        RUN(test_only_its_owners_life_frees_a_chunk);
        RUN(test_a_chunk_that_another_process_is_freeing_is_left_to_it);
        RUN(test_a_chunk_that_was_freed_and_is_being_made_by_another_stays);
        RUN(test_on_a_full_bus_no_more_words_are_promised);
        RUN(test_chunks_of_many_clients_lie_in_few_slabs);
        RUN(test_chunks_find_a_slab_of_their_size_behind_any_number_of_others);
        return test_end();
}
