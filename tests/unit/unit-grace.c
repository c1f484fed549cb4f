/*
 * Eras, pins and grace periods (shm/memory/era.h, pin.h, grace.h): which blocks no process can be
 * reading any more, against the plain definition, also where the era wraps. The list in which they
 * wait is unit-limbo's matter.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/reclaim.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/flush.h"
#include "tests/unit/retired.h"

static void test_low_bits_of_an_era_say_which_it_is_from_a_floor_on(void)
{
        draw_state = 1;
        for (uint32_t step = 0; step < 10000; step++) {
                uint64_t floor = draw_word() >> (18 + draw(40)),
                         era = floor + (draw_bits() & SB_ERA_LOW);

                CHECK_EQ(sb_era_from(floor, sb_era_low(era)), era);
                /* By an earlier floor it is taken for an earlier one, or the same. */
                CHECK(sb_era_from(floor / 2, sb_era_low(era)) <= era);
                CHECK(sb_era_low(sb_era_whole(era)) >= SB_ERA_MIN);
                CHECK(sb_era_whole(era) >= era && sb_era_whole(era) < era + SB_ERA_MIN + 1);
        }
}

static void test_the_low_bits_of_eras_leave_out_what_means_something_else(void)
{
        CHECK(begin(SB_ERA_LOW - 3));
        for (uint32_t i = 1; i <= 3; i++) {
                sb_era_advance(&writer);
                CHECK_EQ(era_now(), SB_ERA_LOW - 3 + i);
        }
        sb_era_advance(&reader);
        CHECK_EQ(era_now(), UINT64_C(0x80000000) + SB_ERA_MIN);
        sb_era_advance(&writer);
        CHECK_EQ(era_now(), UINT64_C(0x80000000) + SB_ERA_MIN + 1);
        unmake_bus();
}

static void test_an_era_far_ahead_of_the_floor_asks_for_a_sweep_and_then_stands_still(void)
{
        static const uint64_t eras[] = {5000 * 4096u, 0x7ffff000u, UINT64_C(0xfedcba987000)};

        for (uint32_t i = 1; i < 3; i++) {
                struct sb_superblock *super;

                CHECK(begin(eras[i]));
                super = writer.segment.super;
                sb_store_relaxed(&super->birth_floor, eras[i] - SB_ERA_ASK);
                sb_era_advance(&writer);
                CHECK_EQ(sb_load_relaxed(&super->sweep_wanted), 0);
                sb_store_relaxed(&super->era, eras[i]);
                sb_store_relaxed(&super->birth_floor, eras[i] - SB_ERA_ASK - 1);
                sb_era_advance(&writer);
                CHECK_EQ(sb_load_relaxed(&super->sweep_wanted), 1);
                sb_era_advance(&writer); /* not each time */
                CHECK_EQ(sb_load_relaxed(&super->sweep_wanted), 1);
                CHECK_EQ(era_now(), eras[i] + 2);
                sb_store_relaxed(&super->birth_floor, era_now() - SB_ERA_STOP);
                sb_era_advance(&writer);
                CHECK_EQ(era_now(), eras[i] + 3);
                sb_era_advance(&writer);
                CHECK_EQ(era_now(), eras[i] + 3);
                /* A floor ahead of the era, as in a damaged segment, does not hold it up. */
                sb_store_relaxed(&super->birth_floor, era_now() + 100);
                sb_era_advance(&writer);
                CHECK_EQ(era_now(), eras[i] + 4);
                unmake_bus();
        }
}

/* The definition: no pin that was published in @era or before is of a process that can know what
 * was born in @birth. */
static bool is_clear(uint64_t era, uint64_t birth)
{
        for (uint32_t slot = 0; slot <= CLIENTS; slot++) {
                uint64_t pin = sb_load_relaxed(&sb_record_at(&writer.segment, slot)->pin);

                if (pin && slot != writer.slot && era >= sb_record_pin_lo(pin) &&
                        SB_PIN_HI(pin) >= birth)
                        return false;
        }
        return true;
}

static void test_an_era_is_clear_as_the_pins_of_the_others_say(void)
{
        uint32_t clear = 0, held = 0;

        for (uint32_t round = 0; round < 400; round++) {
                uint64_t base = round % 2 ? 100000 : SB_ERA_LOW - 20;
                uint32_t pins = draw(CLIENTS - 2);

                CHECK(begin(base + 40));
                set_pin(writer.slot, base, base + 60); /* its own pin holds nothing up */
                for (uint32_t i = 0; i < pins; i++) {
                        uint64_t lo = base + draw(40);

                        set_pin(i ? 2 + i : 0, lo, lo + draw(20));
                }
                sb_era_look(&writer);
                for (uint32_t i = 0; i < 100; i++) {
                        uint64_t era = base + draw(50), birth = era - draw(30);
                        bool old = era < writer.era.looked;

                        CHECK_EQ(sb_era_clear(&writer, era, birth), old && is_clear(era, birth));
                        *(old && is_clear(era, birth) ? &clear : &held) += 1;
                }
                unmake_bus();
        }
        CHECK(clear > 1000 && held > 1000);
}

/* Client 5 has been reading since era 900, and its pin has lain in its store buffer until now. */
static void pin_comes_out(void)
{
        set_pin(5, 900, era_now());
        sb_store_relaxed(&writer.segment.super->era, era_now() + 7);
}

/* The same client holds a block by a guard, and is not pinned any more. */
static void guard_comes_out(void)
{
        struct sb_record *record = sb_record_at(&writer.segment, 5);

        sb_store_relaxed(&record->guard_high, 1);
        sb_store_relaxed(&sb_record_guards(&writer.segment, record)[0], blocks[0]);
}

static void test_a_look_flushes_first_and_goes_by_the_era_of_before(void)
{
        static void (*const outs[])(void) = {pin_comes_out, guard_comes_out, NULL};
        bool free[BLOCKS];

        CHECK(begin(1000));
        flush_begin(&writer, pin_comes_out);
        sb_era_look(&writer);
        CHECK_EQ(flush_count, 1);
        CHECK_EQ(sb_era_looked(&writer), 1001); /* what was dated since may not be over */
        CHECK(!sb_era_clear(&writer, 950, 940));
        CHECK(sb_era_clear(&writer, 899, 890));
        unmake_bus();
        for (uint32_t i = 0; i < 3; i++) {
                CHECK(begin(1000) && wait_for(940, 950));
                flush_begin(&writer, outs[i]);
                CHECK_EQ(look(free), !outs[i]);
                CHECK_EQ(flush_count, 1);
                unmake_bus();
        }
}

/* Another client pinned in the very era in which the block went, and before that: this era is not
 * over, and the look does not move it on, because a ripe batch did before. */
static void test_what_went_in_the_era_of_the_look_is_held_by_pins_of_that_era(void)
{
        bool free[BLOCKS];

        CHECK(begin(1000) && wait_for(940, 1000));
        sb_store_relaxed(&writer.segment.super->era, 1000);
        writer.limbo.ripened = true;
        set_pin(5, 1000, 1000);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(era_now(), 1000);
        set_pin(5, 1001, 1001);
        CHECK_EQ(look(free), 1);
        unmake_bus();
}

static void test_the_sum_of_pins_tells_of_all_that_were_begun_before_and_how_far_they_reach(void)
{
        uint64_t sum;

        CHECK(begin(1000));
        CHECK_EQ(sb_era_sum_pins(&writer, 900), 0);
        set_pin(writer.slot, 800, 850);
        set_pin(5, 900, 950);
        CHECK_EQ(sb_era_sum_pins(&writer, 900), 0); /* its own, and one that was begun then */
        set_pin(5, 899, 950);
        sum = sb_era_sum_pins(&writer, 900);
        CHECK(sum);
        set_pin(5, 899, 951);
        CHECK(sb_era_sum_pins(&writer, 900) && sb_era_sum_pins(&writer, 900) != sum);
        set_pin(5, 899, 950);
        set_pin(6, 899, 950);
        CHECK(sb_era_sum_pins(&writer, 900) && sb_era_sum_pins(&writer, 900) != sum);
        set_pin(5, 0, 0);
        set_pin(6, 0, 0);
        CHECK_EQ(sb_era_sum_pins(&writer, 900), 0);
        unmake_bus();
}

static void test_a_look_reads_births_by_the_floor_of_now(void)
{
        uint64_t floor = UINT64_C(3) << 31;

        CHECK(begin(1000));
        sb_store_relaxed(&writer.segment.super->birth_floor, floor);
        sb_store_relaxed(&writer.segment.super->era, floor + 100);
        sb_era_look(&writer);
        CHECK_EQ(sb_era_of_birth(&writer, sb_era_low(floor + 50)), floor + 50);
        unmake_bus();
}

/* As many clients as there are, each stopped under another pin: what was born after it stopped,
 * none of them holds. */
static void test_any_number_of_stopped_clients_is_told_apart(void)
{
        static const uint32_t counts[] = {1, 16, 17, 100, 1000};

        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                uint64_t base = SB_ERA_LOW - 1500;
                uint32_t pin;

                CHECK(make_bus_for(64 << 20, 1002));
                sb_store_relaxed(&writer.segment.super->era, base);
                sb_store_relaxed(&writer.segment.super->birth_floor, base - 5000);
                list_records(0, 1003);
                /* In eras base + 1, base + 3, ...: not in the order of the records. */
                for (pin = 0; pin < counts[i]; pin++)
                        set_pin(3 + pin, base + 1 + 2 * (pin * 7 % counts[i]),
                                base + 1 + 2 * (pin * 7 % counts[i]));
                sb_store_relaxed(&writer.segment.super->era, base + 3000);
                sb_era_look(&writer);
                CHECK_EQ(writer.era.pin_count, counts[i]);
                for (pin = 0; pin < counts[i]; pin++) {
                        uint64_t era = base + 1 + 2 * pin;

                        CHECK(sb_era_clear(&writer, era - 1, era - 1));
                        CHECK(!sb_era_clear(&writer, era, era));
                        CHECK(!sb_era_clear(&writer, era, era - 1));
                        CHECK(sb_era_clear(&writer, era + 1, era + 1));
                        CHECK(!sb_era_clear(&writer, era + 1, era));
                }
                /* Since then: all that any of them can know, and nothing else. */
                CHECK(sb_era_clear(&writer, base + 2900, base + 2 * counts[i]));
                CHECK(!sb_era_clear(&writer, base + 2900, base + 2 * counts[i] - 1));
                unmake_bus();
        }
}

static void test_a_handle_that_has_not_looked_yet_takes_no_date_for_old(void)
{
        CHECK(begin(77));
        CHECK(!sb_era_clear(&reader, era_now() - 1, era_now() - 1));
        CHECK(!sb_era_clear(&reader, 0, 16));
        unmake_bus();
}

static void test_a_pin_grows_with_what_is_loaded_and_keeps_its_beginning(void)
{
        struct sb_word64 *pin, *clock;

        CHECK(begin(500));
        pin = &reader.record->pin;
        clock = &writer.segment.super->clock;
        CHECK_EQ(sb_load_relaxed(pin), 0);
        sb_pin(&reader);
        CHECK_EQ(sb_load_relaxed(pin), SB_PIN(500, 0));
        CHECK_EQ(sb_pin_era(&reader), 500);
        CHECK(sb_pin_covers(&reader));
        sb_era_advance(&writer);
        sb_era_advance(&writer);
        CHECK(!sb_pin_covers(&reader));
        CHECK(sb_pin_covers(&reader));
        CHECK_EQ(sb_load_relaxed(pin), SB_PIN(502, 2));
        sb_era_advance(&writer);
        CHECK_EQ(sb_pin_load(&reader, clock), sb_load_relaxed(clock));
        CHECK_EQ(sb_load_relaxed(pin), SB_PIN(503, 3));
        sb_unpin(&reader);
        CHECK(!sb_load_relaxed(pin) && !sb_pin_era(&reader));
        /* The reaper goes on under the pin of the dead. */
        sb_store_relaxed(pin, SB_PIN(410, 10));
        sb_pin_resume(&reader);
        CHECK_EQ(sb_load_relaxed(pin), SB_PIN(503, 103));
        CHECK_EQ(sb_pin_era(&reader), 503);
        sb_store_relaxed(pin, 0);
        sb_pin_resume(&reader);
        CHECK_EQ(sb_load_relaxed(pin), SB_PIN(503, 0));
        /* The longest step back that it can say; any longer one leads to the beginning. */
        for (uint32_t back = SB_PIN_BACK_MAX - 2; back < SB_PIN_BACK_MAX + 2; back++) {
                sb_store_relaxed(pin, SB_PIN(503, 3));
                sb_store_relaxed(&writer.segment.super->era, 500 + back);
                CHECK(!sb_pin_covers(&reader) && sb_pin_covers(&reader));
                CHECK_EQ(SB_PIN_HI(sb_load_relaxed(pin)), 500 + back);
                CHECK_EQ(sb_record_pin_lo(sb_load_relaxed(pin)), back < SB_PIN_BACK_MAX ? 500 : 0);
                sb_store_relaxed(&writer.segment.super->era, 600 + back);
                CHECK(!sb_pin_covers(&reader));
                CHECK_EQ(sb_record_pin_lo(sb_load_relaxed(pin)),
                        back + 100 < SB_PIN_BACK_MAX ? 500 : 0);
        }
        unmake_bus();
}

/* Its maker was stopped between its pin and the store of the birth. */
static void test_a_birth_that_is_stored_ages_too_late_becomes_one_of_now(void)
{
        static const uint64_t leaps[] = {0, 1, SB_ERA_OLD, SB_ERA_OLD + 1, UINT64_C(1) << 31,
                UINT64_C(3) << 32, (UINT64_C(1) << 40) + 77};

        for (uint32_t i = 0; i < sizeof(leaps) / sizeof(leaps[0]); i++) {
                bool late = leaps[i] > SB_ERA_OLD;
                struct sb_block *block;
                uint64_t now;

                CHECK(begin(500));
                block = retired(300, 0);
                sb_store_relaxed(&writer.segment.super->era, 500);
                sb_pin(&reader);
                now = sb_era_whole(500 + leaps[i]);
                sb_store_relaxed(&writer.segment.super->era, now);
                sb_pin_give_birth(&reader, block);
                CHECK_EQ(sb_load_relaxed(&block->birth), sb_era_low(late ? now : 500));
                /* Its pin reaches that far, and back to its beginning. */
                CHECK_EQ(SB_PIN_HI(sb_load_relaxed(&reader.record->pin)), late ? now : 500);
                CHECK(sb_record_pin_lo(sb_load_relaxed(&reader.record->pin)) <= 500);
                unmake_bus();
        }
}

static uint64_t ages; /* how far the era moves on during the flush */

static void ages_pass(void)
{
        sb_store_relaxed(&writer.segment.super->era, era_now() + ages);
}

/* This process was stopped in the middle of a look. By then a date may be one of a later life. */
static void test_what_a_look_of_ages_ago_let_go_begins_its_grace_period_again(void)
{
        for (uint32_t late = 0; late < 2; late++) {
                struct sb_block *block;

                CHECK(begin(10000) && wait_for(9940, 9950));
                block = sb_block_at(&writer.segment, blocks[0]);
                ages = SB_ERA_OLD + late;
                flush_begin(&writer, ages_pass);
                CHECK_EQ(sb_reclaim_free(&writer), !late);
                CHECK(sb_limbo_is_empty(&writer));
                CHECK_EQ(sb_limbo_left_behind(&writer), late);
                CHECK_EQ(
                        sb_unit_is_block(&writer.segment, blocks[0], SB_UNIT_VERSIONS, NULL), late);
                CHECK(!late || sb_load_relaxed(&block->retire) == sb_era_low(era_now()));
                CHECK_EQ(sb_load_relaxed(&writer.record->freeing), 0);
                unmake_bus();
        }
}

static void test_a_block_is_free_when_no_pin_and_no_guard_is_left_that_can_be_of_it(void)
{
        uint32_t freed = 0, held = 0;

        for (uint32_t round = 0; round < 60; round++) {
                uint64_t base = round % 2 ? 100000 : SB_ERA_LOW - 30;
                uint32_t pins = draw(10);
                bool free[BLOCKS], guarded[BLOCKS] = {0};

                CHECK(begin(base + 60));
                for (uint32_t i = 0; i < BLOCKS; i++) {
                        uint64_t birth = base + draw(50);

                        CHECK(wait_for(birth, birth + draw(10)));
                }
                set_pin(writer.slot, base, base + 99);
                for (uint32_t i = 0; i < pins; i++) {
                        uint64_t lo = base + draw(60);

                        set_pin(2 + draw(CLIENTS - 1), lo, lo + draw(6));
                }
                for (uint32_t i = 0; i < 30; i++) {
                        struct sb_record *record = sb_record_at(&writer.segment, draw(CLIENTS + 1));
                        uint32_t block = draw(BLOCKS), word = draw(12);

                        sb_store_relaxed(&record->guard_high, 12);
                        if (sb_load_relaxed(&sb_record_guards(&writer.segment, record)[word]))
                                continue;
                        sb_store_relaxed(
                                &sb_record_guards(&writer.segment, record)[word], blocks[block]);
                        guarded[block] = true;
                }
                /* What a client of before left above its bound is no guard. */
                sb_store_relaxed(&sb_record_guards(&writer.segment, reader.record)[12], blocks[0]);
                for (uint32_t again = 0; again < 2; again++) {
                        uint32_t count = look(free), expected = 0;

                        for (uint32_t i = 0; i < BLOCKS; i++) {
                                struct sb_block *block = sb_block_at(&writer.segment, blocks[i]);
                                bool is =
                                        !guarded[i] &&
                                        is_clear(sb_era_from(base, sb_load_relaxed(&block->retire)),
                                                sb_era_from(base, sb_load_relaxed(&block->birth)));

                                CHECK_EQ(free[i], is && !again);
                                expected += is && !again;
                        }
                        CHECK_EQ(count, expected);
                        freed += count;
                        held += writer.limbo.count;
                }
                unmake_bus();
        }
        CHECK(freed > 1000 && held > 1000);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_low_bits_of_an_era_say_which_it_is_from_a_floor_on);
        RUN(test_the_low_bits_of_eras_leave_out_what_means_something_else);
        RUN(test_an_era_far_ahead_of_the_floor_asks_for_a_sweep_and_then_stands_still);
        RUN(test_an_era_is_clear_as_the_pins_of_the_others_say);
        RUN(test_a_look_flushes_first_and_goes_by_the_era_of_before);
        RUN(test_what_went_in_the_era_of_the_look_is_held_by_pins_of_that_era);
        RUN(test_the_sum_of_pins_tells_of_all_that_were_begun_before_and_how_far_they_reach);
        RUN(test_a_look_reads_births_by_the_floor_of_now);
        RUN(test_any_number_of_stopped_clients_is_told_apart);
        RUN(test_a_handle_that_has_not_looked_yet_takes_no_date_for_old);
        RUN(test_a_pin_grows_with_what_is_loaded_and_keeps_its_beginning);
        RUN(test_a_birth_that_is_stored_ages_too_late_becomes_one_of_now);
        RUN(test_what_a_look_of_ages_ago_let_go_begins_its_grace_period_again);
        RUN(test_a_block_is_free_when_no_pin_and_no_guard_is_left_that_can_be_of_it);
        return test_end();
}
