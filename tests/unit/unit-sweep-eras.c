/*
 * What a sweep does by eras (shm/upkeep/sweep.h): what is dying waits for each process that may
 * hold it; births of long ago become labels, and dates of long ago, or ages too late, are renewed.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/upkeep/sweep.h"
#include "tests/unit/draw.h"
#include "tests/unit/swept.h"
#include "tests/unit/units.h"

static void test_what_is_dying_waits_for_each_process_that_may_be_about_to_date_it(void)
{
        for (uint32_t born = 38; born < 44; born++) {
                struct sb_version *version;
                uint64_t wanted;

                CHECK(begin(1 << 20));
                CHECK((version = take(70, SB_RETIRE_DYING)));
                sb_slab_release_all(&writer);
                sb_store_relaxed(&version->block.birth, born);
                sb_store_relaxed(&super()->era, 40);
                sb_pin(&reader);
                sb_store_relaxed(&super()->era, 42); /* others have retired much */
                wanted = sb_load_relaxed(&super()->sweep_wanted);
                sweep_whole(&writer);
                /* The other process knows what was born in its era or before. */
                CHECK_EQ(sb_load_relaxed(&version->block.retire) == SB_RETIRE_DYING, born <= 40);
                /* Until that one goes on, another sweep would find the same. */
                CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), wanted);
                CHECK(!sb_sweep_is_due(&writer));
                sb_unpin(&reader);
                CHECK_EQ(sb_sweep_is_due(&writer), born <= 40);
                sweep_whole(&writer);
                CHECK_EQ(taken(), 0);
                unmake_bus();
        }
}

static void test_a_process_that_was_pinned_no_sooner_than_the_sweeper_is_not_waited_for(void)
{
        for (uint32_t era = 41; era < 45; era++) {
                struct sb_version *version;

                CHECK(begin(1 << 20));
                CHECK((version = take(70, SB_RETIRE_DYING)));
                sb_slab_release_all(&writer);
                sb_store_relaxed(&version->block.birth, 40);
                sb_store_relaxed(&super()->era, 42); /* the sweeper makes 43 of it */
                sb_store_relaxed(&reader.record->pin, SB_PIN(era, 0));
                sweep_whole(&writer);
                CHECK_EQ(sb_load_relaxed(&version->block.retire) == SB_RETIRE_DYING, era < 43);
                unmake_bus();
        }
}

/* What a sweep leaves where it is, because a process that is pinned since before the sweep holds
 * it, the next sweep finds: which is due when that process goes on. */
static void test_what_a_sweep_lets_lie_is_looked_for_when_its_holder_goes_on(void)
{
        uint32_t lay = 0, waited = 0;

        for (uint32_t era = 38; era < 43; era++) {
                struct sb_version *version;
                bool lies;

                CHECK(begin(1 << 20));
                CHECK((version = take(70, 42)));
                sb_slab_release_all(&writer);
                sb_store_relaxed(&version->block.birth, 38);
                sb_store_relaxed(&super()->era, 42);
                sb_store_relaxed(&reader.record->pin, SB_PIN(era, 0));
                sweep_whole(&writer);
                CHECK_EQ(taken(), 1);
                lies = !writer.limbo.count;
                lay += lies;
                waited += !lies;
                sb_unpin(&reader);
                CHECK_EQ(sb_sweep_is_due(&writer), lies);
                sweep_whole(&writer);
                CHECK_EQ(taken(), 0);
                unmake_bus();
        }
        CHECK(lay > 0 && waited > 0);
}

/* The era in which a block was born, as far as its word says. */
static uint64_t born(uint32_t birth)
{
        return sb_era_of_birth(&writer, birth);
}

/* Clients are stopped in some eras. Every birth keeps its place between their pins, and what is
 * older than the floor is a label. */
static void test_births_of_long_ago_become_labels_by_which_each_stopped_client_is_told(void)
{
        enum { COUNT = 300 };
        static struct sb_version *versions[COUNT];
        static uint32_t births[COUNT];
        static const uint32_t stopped[] = {1u << 27, 1u << 28, 5u << 26, (1u << 29) + 1};
        uint32_t era = 3u << 28, labelled = 0;

        for (uint32_t round = 0; round < 6; round++) {
                uint32_t pins = round < 5 ? round : 2, floor = era + 1 - SB_ERA_OLD;

                CHECK(make_bus_for(1 << 20, 8));
                draw_state = round;
                list_records(3, 8);
                for (uint32_t i = 0; i < COUNT; i++) {
                        births[i] = SB_ERA_MIN + draw(era - SB_ERA_MIN);
                        if (pins && i < 20)
                                births[i] = stopped[i % pins] + i / 4 % 3 - 1;
                        CHECK((versions[i] = take(70, i % 4 ? 0 : SB_RETIRE_FREEING | 1)));
                        sb_store_relaxed(&versions[i]->block.birth, births[i]);
                }
                for (uint32_t unit = 0; unit < units(); unit++)
                        sb_store_relaxed(&writer.segment.unit_births[unit],
                                unit % 2 ? era : SB_ERA_MIN + unit);
                sb_store_relaxed(&super()->era, era);
                for (uint32_t i = 0; i < pins; i++)
                        sb_store_relaxed(
                                &sb_record_at(&writer.segment, 3 + i)->pin, SB_PIN(stopped[i], i));
                for (uint32_t again = 0; again < 3; again++) {
                        sweep_whole(&writer);
                        CHECK_EQ(sb_load_relaxed(&super()->birth_floor), floor + again);
                        for (uint32_t i = 0; i < COUNT; i++) {
                                uint32_t birth = sb_load_relaxed(&versions[i]->block.birth);

                                CHECK_EQ((birth & SB_BIRTH_LABEL) != 0, births[i] < floor + again);
                                CHECK(born(birth) <= births[i]);
                                for (uint32_t j = 0; j < pins; j++)
                                        CHECK_EQ(
                                                born(birth) <= stopped[j], births[i] <= stopped[j]);
                                labelled += (birth & SB_BIRTH_LABEL) != 0;
                        }
                        for (uint32_t unit = 0; unit < units(); unit++)
                                CHECK_EQ(born(sb_load_relaxed(&writer.segment.unit_births[unit])),
                                        unit % 2 ? era : 0);
                }
                /* One goes on, and is stopped again in a later era: the others are told as before,
                 * and its bases come back. */
                for (uint32_t turn = 1; turn < 8 && pins; turn++) {
                        struct sb_record *record = sb_record_at(&writer.segment, 3);
                        uint64_t now = era + turn * 16 + ((uint64_t)turn << 28) + 99;

                        sb_store_relaxed(&record->pin, SB_PIN(era + turn * 16, 0));
                        sb_store_relaxed(&super()->era, now);
                        sweep_whole(&writer);
                        CHECK_EQ(sb_load_relaxed(&super()->birth_floor), now + 1 - SB_ERA_OLD);
                        for (uint32_t i = 0; i < COUNT; i++) {
                                uint32_t birth = sb_load_relaxed(&versions[i]->block.birth);

                                CHECK(born(birth) <= births[i]);
                                for (uint32_t j = 1; j < pins; j++)
                                        CHECK_EQ(
                                                born(birth) <= stopped[j], births[i] <= stopped[j]);
                        }
                }
                unmake_bus();
        }
        CHECK(labelled > 300);
}

/* Nothing is older than what a birth can say: it stays as it is. */
static void test_a_sweep_of_a_young_bus_labels_nothing_and_makes_no_floor(void)
{
        static const uint32_t eras[] = {SB_ERA_MIN + 1, SB_ERA_OLD / 2, SB_ERA_OLD - 1, SB_ERA_OLD,
                SB_ERA_OLD + SB_ERA_MIN - 1};

        for (uint32_t i = 0; i < sizeof(eras) / sizeof(eras[0]); i++) {
                struct sb_version *version;

                CHECK(begin(1 << 20));
                CHECK((version = take(70, 0)));
                sb_store_relaxed(&version->block.birth, SB_ERA_MIN);
                sb_store_relaxed(&super()->era, eras[i]);
                sweep_whole(&reader);
                CHECK_EQ(sb_load_relaxed(&super()->birth_floor), SB_ERA_MIN);
                CHECK_EQ(sb_load_relaxed(&version->block.birth), SB_ERA_MIN);
                unmake_bus();
        }
}

static void test_a_floor_that_another_sweep_made_is_not_taken_back(void)
{
        uint32_t era = 3u << 28;

        CHECK(begin(1 << 20));
        sb_store_relaxed(&super()->era, era);
        /* Another process has come further: the next sweep goes on from there. */
        sb_store_relaxed(&super()->birth_floor, era - 5);
        sweep_whole(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->birth_floor), era - 5);
        /* While this one was under way. */
        sb_sweep_begin(&writer);
        sb_store_relaxed(&super()->birth_floor, era - 3);
        sb_sweep_end(&writer);
        CHECK_EQ(sb_load_relaxed(&super()->birth_floor), era - 3);
        unmake_bus();
}

static void test_a_date_of_long_ago_is_renewed_while_a_guard_keeps_the_block(void)
{
        struct sb_version *version;
        uint32_t era = 3u << 28;

        for (uint32_t date = SB_ERA_MIN; date < era; date += era / 9) {
                uint32_t floor = era + 1 - SB_ERA_OLD;

                CHECK(begin(1 << 20) && !sb_guard_grow(&reader, 0));
                CHECK((version = take(70, date)));
                sb_store_relaxed(&version->block.birth, SB_ERA_MIN);
                sb_slab_release_all(&writer);
                sb_store_relaxed(&super()->era, era);
                sb_pin(&reader);
                sb_guard_set(&reader, 0, sb_offset_of(&reader.segment, version));
                sb_unpin(&reader);
                CHECK_EQ(sweep_whole(&writer), 0);
                CHECK_EQ(sb_load_relaxed(&version->block.retire), date < floor ? floor : date);
                sb_pin(&reader);
                sb_guard_set(&reader, 0, 0);
                sb_unpin(&reader);
                lose_lists(&writer);
                CHECK_EQ(sweep_whole(&writer), 1);
                unmake_bus();
        }
}

/* A process was stopped between its look at the era and the store of the date: ages later the date
 * seems to lie ahead. It is legal, and a sweep brings it down to now. */
static void test_a_date_that_was_stored_ages_too_late_is_renewed(void)
{
        uint64_t era = 5 * (uint64_t)SB_ERA_STOP;

        for (uint32_t ahead = 1; ahead < SB_ERA_STOP; ahead = ahead * 5 + 1) {
                struct sb_version *version;

                CHECK(begin(1 << 20) && !sb_guard_grow(&reader, 0));
                sb_store_relaxed(&super()->birth_floor, era - SB_ERA_OLD);
                sb_store_relaxed(&super()->era, era);
                CHECK((version = take(70, sb_era_low(sb_era_whole(era + 5 + ahead)))));
                sb_store_relaxed(&version->block.birth, sb_era_low(era - 7));
                sb_slab_release_all(&writer);
                sb_pin(&reader);
                sb_guard_set(&reader, 0, sb_offset_of(&reader.segment, version));
                sb_unpin(&reader);
                CHECK_EQ(sweep_whole(&writer), 0);
                CHECK(sb_era_of_date(&writer.segment, sb_load_relaxed(&version->block.retire)) <=
                        sb_load_relaxed(&super()->era));
                sb_guard_set(&reader, 0, 0);
                lose_lists(&writer);
                CHECK_EQ(sweep_whole(&writer), 1);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_is_dying_waits_for_each_process_that_may_be_about_to_date_it);
        RUN(test_a_process_that_was_pinned_no_sooner_than_the_sweeper_is_not_waited_for);
        RUN(test_what_a_sweep_lets_lie_is_looked_for_when_its_holder_goes_on);
        RUN(test_births_of_long_ago_become_labels_by_which_each_stopped_client_is_told);
        RUN(test_a_sweep_of_a_young_bus_labels_nothing_and_makes_no_floor);
        RUN(test_a_floor_that_another_sweep_made_is_not_taken_back);
        RUN(test_a_date_of_long_ago_is_renewed_while_a_guard_keeps_the_block);
        RUN(test_a_date_that_was_stored_ages_too_late_is_renewed);
        return test_end();
}
