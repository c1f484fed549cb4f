/* Vacancies (shm/memory/vacancy.h): the lists against a model of them, and what a search costs. */
#include <string.h>

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/upkeep/sweep.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"

#define UNITS_MAX 20000u

static bool model[UNITS_MAX];

static bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 2,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        draw_state = size + unit_size;
        return make_bus_of(&wish) && units() <= UNITS_MAX;
}

static uint32_t model_next(uint32_t first, uint32_t end)
{
        for (; first < end; first++)
                if (model[first])
                        return first;
        return SB_VACANCY_NONE;
}

static uint32_t model_run(uint32_t count, uint32_t end)
{
        uint32_t run = 0;

        while (end--) {
                run = model[end] ? run + 1 : 0;
                if (run == count)
                        return end;
        }
        return SB_VACANCY_NONE;
}

/* More than 64 * 64 units, so that a bit of the sum stands for several words; and a few. */
static void test_a_list_answers_as_a_plain_array_does(void)
{
        static const struct {
                uint64_t size;
                uint32_t unit_size;
        } shapes[] = {{4 << 20, 256}, {1 << 20, 256}, {1 << 20, 4096}, {256 << 10, 4096}};

        for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
                uint32_t list;

                CHECK(begin(shapes[s].size, shapes[s].unit_size));
                list = SB_VACANCY_SLABS + draw(2 * writer.segment.class_count);
                memset(model, 0, sizeof(model));
                for (uint32_t i = 0; i < 20000; i++) {
                        uint32_t unit = draw(units()), end = draw(units()) + 1, count = draw(9) + 1;
                        /* Times of few bits and times of many. */
                        bool set = draw(16) < (i / 4000 % 2 ? 15u : 2u);

                        model[unit] = set;
                        if (set)
                                sb_vacancy_set(&writer.segment, list, unit);
                        else
                                sb_vacancy_clear(&writer.segment, list, unit);
                        CHECK_EQ(sb_vacancy_has(&writer.segment, list, unit), set);
                        CHECK_EQ(sb_vacancy_any(&writer.segment, list),
                                model_next(0, units()) != SB_VACANCY_NONE);
                        CHECK_EQ(sb_vacancy_next(&writer.segment, list, unit, end),
                                model_next(unit, end));
                        CHECK_EQ(sb_vacancy_run(&writer.segment, list, count, end),
                                model_run(count, end));
                }
                unmake_bus();
        }
}

static bool all_hinted(void)
{
        for (uint32_t i = 0; i < units(); i++)
                if (!sb_unit_is_hinted(&writer.segment, i))
                        return false;
        return true;
}

/* Set and delete keys of all sizes, by both clients, until long after the bus is full. */
static void churn(uint32_t count)
{
        static char value[20000];
        char key[16];

        for (uint32_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "k%04u", draw(1500));
                if (draw(3))
                        (void)put(draw(2) ? &writer : &reader, key, value, draw(1u << draw(14)));
                else
                        (void)delete (draw(2) ? &writer : &reader, key);
        }
}

static void test_no_unit_lacks_a_hint_after_any_churn(void)
{
        CHECK(begin(1 << 20, 0));
        for (uint32_t i = 0; i < 40; i++) {
                churn(1000);
                CHECK(all_hinted());
        }
        unmake_bus();
}

static void test_a_sweep_sets_the_hints_that_kills_lost(void)
{
        const struct sb_segment *segment = &writer.segment;
        uint32_t cursor = 0;

        CHECK(begin(1 << 20, 0));
        churn(5000);
        memset(segment->vacancies, 0, sb_geometry_vacancies_size(&segment->geometry));
        CHECK(!all_hinted());
        sb_sweep(&reader, &cursor, units());
        CHECK(all_hinted());
        unmake_bus();
}

/* Every taker of a block would look at it again and again. */
static void test_a_unit_without_a_free_block_has_no_hint(void)
{
        const struct sb_segment *segment = &writer.segment;
        uint32_t list, unit, last;
        uint64_t first, offset;

        CHECK(begin(1 << 20, 0));
        list = sb_vacancy_list(segment, SB_UNIT_VERSIONS, sb_unit_class(segment, 1000));
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 1000, 0, &first));
        unit = sb_unit_of(segment, first);
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, 1000, 0, &offset))
                ;
        sb_slab_release_all(&writer);
        last = sb_unit_of(segment, offset);
        CHECK(!SB_UNIT_OWNER(sb_unit_word(segment, unit)) && unit != last);
        CHECK(!sb_vacancy_has(segment, list, unit));
        sb_unit_hint(segment, unit);
        CHECK(!sb_vacancy_has(segment, list, unit));
        CHECK(!sb_vacancy_any(segment, list));
        /* The last one of the blocks that it is asked for. */
        sb_unit_clear(&reader, first);
        CHECK(sb_vacancy_has(segment, list, unit));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 1000, 0, &offset), 0);
        CHECK_EQ(offset, first);
        unmake_bus();
        /* And of one that a client owns. */
        CHECK(begin(1 << 20, 0));
        CHECK(!sb_slab_take(&writer, SB_UNIT_VERSIONS, 1000, 0, &first));
        unit = sb_unit_of(segment, first);
        CHECK(!sb_vacancy_has(segment, list, unit));
        sb_slab_release_all(&writer);
        CHECK(sb_vacancy_has(segment, list, unit));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 1000, 0, &offset), 0);
        CHECK_EQ(sb_unit_of(segment, offset), unit);
        CHECK(!sb_vacancy_has(segment, list, unit));
        unmake_bus();
}

static void test_wrong_hints_lead_to_no_block_that_is_in_use(void)
{
        const struct sb_segment *segment = &writer.segment;
        uint64_t offset;

        CHECK(begin(1 << 20, 0));
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, 1000, 0, &offset))
                ;
        sb_slab_settle(&writer);
        memset(segment->vacancies, 0xff, sb_geometry_vacancies_size(&segment->geometry));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 1000, SB_SLAB_LARGER, &offset), SB_E_FULL);
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_NODES, 100, SB_SLAB_LARGER, &offset), SB_E_FULL);
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 30000, 0, &offset), SB_E_FULL);
        sb_unit_clear(&writer, sb_unit_offset(segment, 7));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 1000, 0, &offset), 0);
        CHECK_EQ(offset, sb_unit_offset(segment, 7));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_list_answers_as_a_plain_array_does);
        RUN(test_no_unit_lacks_a_hint_after_any_churn);
        RUN(test_a_sweep_sets_the_hints_that_kills_lost);
        RUN(test_a_unit_without_a_free_block_has_no_hint);
        RUN(test_wrong_hints_lead_to_no_block_that_is_in_use);
        return test_end();
}
