/*
 * Eras, pins, limbo and grace periods (shm/memory/era.h, pin.h, limbo.h, grace.h): which blocks no
 * process can be reading any more, against the plain definition, also where the era wraps. The
 * records of other clients are written by the test.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/grace.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/reclaim.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/flush.h"

#define CLIENTS 40u
#define BLOCKS  300u

static uint64_t blocks[BLOCKS];
static uint32_t block_count;

static bool begin(uint64_t era)
{
        block_count = 0;
        draw_state = era;
        if (!make_bus_for(4 << 20, CLIENTS))
                return false;
        sb_store_relaxed(&writer.segment.super->era, era);
        sb_store_relaxed(&writer.segment.super->birth_floor, era > 5000 ? era - 5000 : 0);
        writer.era.floor = reader.era.floor = era > 5000 ? era - 5000 : 0;
        list_records(0, CLIENTS + 1);
        return true;
}

static uint64_t era_now(void)
{
        return sb_load_relaxed(&writer.segment.super->era);
}

static void set_pin(uint32_t slot, uint64_t lo, uint64_t hi)
{
        sb_store_relaxed(&sb_record_at(&writer.segment, slot)->pin, SB_PIN(hi, hi - lo));
}

/* A block that was born and taken out of all links in these eras. */
static struct sb_block *retired(uint64_t birth, uint64_t era)
{
        struct sb_block *block;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, 100, 0, &offset))
                return NULL;
        block = sb_block_at(&writer.segment, offset);
        sb_store_relaxed(&block->birth, sb_era_low(birth));
        sb_store_relaxed(&block->retire, sb_era_low(era));
        return block;
}

static bool wait_for(uint64_t birth, uint64_t era)
{
        struct sb_block *block = retired(birth, era);

        if (!block)
                return false;
        blocks[block_count++] = sb_offset_of(&writer.segment, block);
        sb_limbo_wait(&writer, blocks[block_count - 1], era, false);
        return true;
}

/* One look; which of blocks[] came free. */
static uint32_t look(bool free[BLOCKS])
{
        struct sb_limbo_entry entry;
        struct sb_grace grace;
        uint32_t count = 0;

        memset(free, 0, BLOCKS * sizeof(free[0]));
        sb_grace_look(&writer, &grace);
        while (sb_grace_next(&writer, &grace, &entry)) {
                for (uint32_t i = 0; i < block_count; i++)
                        free[i] |= blocks[i] == (entry.offset & ~SB_LIMBO_FIRST_GRACE);
                count++;
        }
        sb_unpin(&writer);
        sb_grace_end(&writer);
        return count;
}

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

static void test_a_block_begins_to_go_once_and_is_dated_once(void)
{
        struct sb_block *block;

        CHECK(begin(700));
        block = retired(650, 0);
        sb_store_relaxed(&writer.segment.super->era, 700);
        CHECK(block && sb_limbo_begin(&writer, block));
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_DYING);
        CHECK(!sb_limbo_begin(&reader, block));
        CHECK(sb_limbo_is_empty(&writer));
        sb_limbo_date(&writer, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), 700);
        CHECK_EQ(writer.limbo.count, 1);
        CHECK_EQ(writer.limbo.entries[0].era, 700);
        CHECK_EQ(writer.limbo.entries[0].birth, 650);
        sb_store_relaxed(&writer.segment.super->era, 701);
        sb_limbo_date(&reader, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), 700);
        CHECK(sb_limbo_is_empty(&reader));
        sb_store_relaxed(&block->retire, SB_RETIRE_HELD);
        CHECK(!sb_limbo_begin(&writer, block));
        sb_limbo_date(&writer, block);
        CHECK_EQ(sb_load_relaxed(&block->retire), SB_RETIRE_HELD);
        unmake_bus();
}

static void test_what_finds_no_space_is_left_to_a_sweep(void)
{
        struct sb_block *block;
        uint64_t offset;

        CHECK(begin(700));
        block = retired(650, 660);
        offset = sb_offset_of(&writer.segment, block);
        for (uint32_t i = 0; i < SB_LIMBO_MAX; i++)
                sb_limbo_wait(&writer, offset, 660, i % 2);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX);
        CHECK(sb_limbo_half_full(&writer) && sb_limbo_due(&writer));
        CHECK_EQ(writer.limbo.left_behind, 0);
        CHECK_EQ(writer.limbo.entries[5].offset, offset | SB_LIMBO_FIRST_GRACE);
        sb_limbo_wait(&writer, offset, 660, false);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX);
        CHECK_EQ(writer.limbo.left_behind, 1);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 1);
        unmake_bus();
}

static void test_cells_to_look_at_again_come_in_order_however_often_the_list_goes_round(void)
{
        uint64_t in = 0, out = 0;

        CHECK(begin(700));
        for (uint32_t step = 0; step < 20; step++) {
                while (sb_limbo_pending(&writer) < SB_PENDING_MAX)
                        in++, sb_limbo_later(&writer, in, in * 3);
                CHECK(sb_limbo_pending_due(&writer));
                CHECK_EQ(writer.limbo.left_behind, step);
                sb_limbo_later(&writer, UINT64_MAX, 9); /* one too many */
                CHECK_EQ(writer.limbo.left_behind, step + 1);
                for (uint32_t i = 1 + draw(SB_PENDING_MAX); i; i--) {
                        struct sb_pending pending;

                        out++;
                        CHECK_EQ(sb_limbo_first_pending(&writer)->cell_number, out);
                        pending = sb_limbo_take_pending(&writer);
                        CHECK(pending.cell_number == out && pending.since == out * 3 &&
                                pending.due == out * 3 && pending.last == out * 3);
                }
        }
        unmake_bus();
}

static void test_a_cell_that_is_written_again_is_in_the_list_once(void)
{
        static const uint64_t stamps[] = {10, 12, 8, 11};
        struct sb_pending pending;

        CHECK(begin(700));
        for (uint32_t i = 0; i < 4; i++)
                sb_limbo_later(&writer, 77, stamps[i]);
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        pending = sb_limbo_take_pending(&writer);
        CHECK(pending.since == 8 && pending.due == 8 && pending.last == 12);
        sb_limbo_later(&writer, 77, 20); /* what was taken is looked at */
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        for (uint32_t i = 5; i < SB_PENDING_BATCH; i++) {
                CHECK(!sb_limbo_pending_due(&writer));
                sb_limbo_later(&writer, 77, 20);
        }
        CHECK(sb_limbo_pending_due(&writer));
        sb_limbo_look(&writer, 10000);
        for (uint32_t i = 0; i < SB_PENDING_BATCH + 10000 / 32; i++) {
                CHECK(!sb_limbo_pending_due(&writer));
                sb_limbo_later(&writer, 77, 20);
        }
        CHECK(sb_limbo_pending_due(&writer));
        sb_limbo_look(&writer, 4000000); /* never more than there is space for */
        for (uint32_t i = 0; i < SB_PENDING_MAX / 2; i++)
                sb_limbo_later(&writer, i, 20);
        CHECK(sb_limbo_pending_due(&writer));
        CHECK_EQ(writer.limbo.left_behind, 0);
        unmake_bus();
}

/* Cells that are written in turn, of which many have the same hash, whatever it is: each has one
 * entry, of all that was noted, also behind others that were put back meanwhile. */
static void test_each_cell_waits_once_however_many_are_written_in_turn(void)
{
        const uint32_t cells = SB_PENDING_MAX - 1;

        CHECK(begin(700));
        for (uint64_t turn = 1; turn <= 5; turn++) {
                for (uint64_t i = 1; i <= cells; i++)
                        sb_limbo_later(&writer, 8 * i, 1000 * turn + i);
                CHECK_EQ(sb_limbo_pending(&writer), cells);
                for (uint32_t i = 0; i < cells / 3; i++) {
                        struct sb_pending pending = sb_limbo_take_pending(&writer);

                        sb_limbo_again(&writer, &pending);
                }
                CHECK_EQ(sb_limbo_pending(&writer), cells);
        }
        CHECK_EQ(sb_limbo_left_behind(&writer), 0);
        while (sb_limbo_pending(&writer)) {
                struct sb_pending pending = sb_limbo_take_pending(&writer);
                uint64_t i = pending.cell_number / 8;

                CHECK_EQ(pending.since, 1000 + i);
                CHECK_EQ(pending.due, 1000 + i);
                CHECK_EQ(pending.last, 5000 + i);
        }
        unmake_bus();
}

/* Numbers of entries go round behind four billion; one that was left from before may name itself.
 */
static void test_a_way_through_old_entries_ends(void)
{
        CHECK(begin(700));
        writer.limbo.pending_head = writer.limbo.pending_tail = 1000;
        for (uint32_t i = 0; i < SB_PENDING_LATEST; i++)
                writer.limbo.latest[i] = 1001;
        sb_limbo_later(&writer, 8, 1);
        sb_limbo_later(&writer, 16, 2);
        writer.limbo.pending[1001 % SB_PENDING_MAX].older = 1001;
        for (uint32_t i = 3; i < 30; i++)
                sb_limbo_later(&writer, 8 * i, i);
        CHECK_EQ(sb_limbo_pending(&writer), 29);
        unmake_bus();
}

static void test_a_ripe_batch_moves_the_era_on_before_it_is_looked_at(void)
{
        struct sb_block *block, *last;
        uint32_t ripe;

        CHECK(begin(700));
        ripe = writer.limbo.ripe;
        CHECK(ripe && ripe <= writer.limbo.wake);
        block = retired(690, 700);
        last = retired(690, 701);
        sb_store_relaxed(&writer.segment.super->era, 700);
        for (uint32_t i = 0; i < ripe; i++) {
                CHECK_EQ(era_now(), 700);
                sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 700, false);
        }
        CHECK_EQ(era_now(), 701);
        CHECK(writer.limbo.ripened);
        /* And what comes behind that: the writer's own pin, of the same era, does not hold it. */
        sb_limbo_wait(&writer, sb_offset_of(&writer.segment, last), 701, false);
        CHECK_EQ(look((bool[BLOCKS]){0}), ripe + 1);
        CHECK_EQ(era_now(), 701); /* and not once more */
        CHECK(!writer.limbo.ripened);
        unmake_bus();
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

static void test_a_block_that_another_brought_further_is_dropped(void)
{
        bool free[BLOCKS];
        uint32_t unit;

        CHECK(begin(900));
        for (uint32_t i = 0; i < 40; i++)
                CHECK(wait_for(800, 880));
        sb_slab_release_all(&writer);
        sb_store_relaxed(&((struct sb_block *)sb_block_at(&writer.segment, blocks[0]))->retire, 0);
        sb_store_relaxed(
                &((struct sb_block *)sb_block_at(&writer.segment, blocks[1]))->retire, 881);
        sb_store_relaxed(&((struct sb_block *)sb_block_at(&writer.segment, blocks[2]))->retire,
                SB_RETIRE_FREEING | reader.slot);
        CHECK_EQ(look(free), 37);
        CHECK(!free[0] && !free[1] && !free[2] && free[3] && free[39]);
        CHECK(sb_limbo_is_empty(&writer));
        /* Its unit serves another class by now, or another kind. */
        unit = sb_unit_of(&writer.segment, blocks[10]);
        for (uint32_t i = 0; i < 3; i++) {
                uint64_t word = sb_unit_word(&writer.segment, unit);

                sb_limbo_wait(&writer, blocks[10], 880, false);
                sb_store_relaxed(&writer.segment.unit_words[unit],
                        word ^ (i == 0          ? UINT64_C(1) << 54
                                       : i == 1 ? UINT64_C(3) << 60
                                                : UINT64_C(5) << 32));
                CHECK_EQ(look(free), i == 2); /* but another owner counts not */
                CHECK(sb_limbo_is_empty(&writer));
                sb_store_relaxed(&writer.segment.unit_words[unit], word);
        }
        unmake_bus();
}

static void test_a_node_waits_for_the_first_time_while_it_is_gone_and_not_on_its_way(void)
{
        bool free[BLOCKS];
        struct sb_node *node;

        CHECK(begin(900));
        for (uint32_t i = 0; i < 5; i++) {
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_NODES, 100, 0, &blocks[i]), 0);
                node = sb_node_at(&writer.segment, blocks[i]);
                sb_store_relaxed(&node->block.birth, 850);
                sb_store_relaxed(&node->cell, i == 1 ? 8 : SB_NODE_GONE);
                sb_store_relaxed(&node->unhooked, i == 2 ? 881 : 880);
                sb_store_relaxed(&node->block.retire, i == 3 ? SB_RETIRE_DYING : 0);
                sb_limbo_wait(&writer, blocks[i], 880, true);
                block_count++;
        }
        sb_limbo_wait(&writer, blocks[4], 880, false); /* that would be the second time */
        set_pin(4, 870, 870);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, 2);
        CHECK_EQ(writer.limbo.entries[0].offset, blocks[0] | SB_LIMBO_FIRST_GRACE);
        set_pin(4, 0, 0);
        CHECK_EQ(look(free), 2);
        CHECK(free[0] && free[4]);
        unmake_bus();
}

static void test_a_list_full_of_what_is_pinned_is_left_to_a_sweep_but_for_a_quarter(void)
{
        struct sb_block *block;
        bool free[BLOCKS];

        CHECK(begin(900));
        block = retired(850, 880);
        set_pin(4, 870, 890);
        for (uint32_t i = 0; i < SB_LIMBO_MAX / 2; i++)
                sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 880, false);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX / 2);
        CHECK(writer.limbo.wake > SB_LIMBO_MAX / 2); /* not at once again */
        sb_limbo_wait(&writer, sb_offset_of(&writer.segment, block), 880, false);
        CHECK_EQ(look(free), 0);
        CHECK_EQ(writer.limbo.count, SB_LIMBO_MAX / 4);
        CHECK_EQ(writer.limbo.left_behind, 1);
        unmake_bus();
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
        RUN(test_a_block_begins_to_go_once_and_is_dated_once);
        RUN(test_what_finds_no_space_is_left_to_a_sweep);
        RUN(test_cells_to_look_at_again_come_in_order_however_often_the_list_goes_round);
        RUN(test_a_cell_that_is_written_again_is_in_the_list_once);
        RUN(test_each_cell_waits_once_however_many_are_written_in_turn);
        RUN(test_a_way_through_old_entries_ends);
        RUN(test_a_ripe_batch_moves_the_era_on_before_it_is_looked_at);
        RUN(test_a_block_is_free_when_no_pin_and_no_guard_is_left_that_can_be_of_it);
        RUN(test_a_block_that_another_brought_further_is_dropped);
        RUN(test_a_node_waits_for_the_first_time_while_it_is_gone_and_not_on_its_way);
        RUN(test_a_list_full_of_what_is_pinned_is_left_to_a_sweep_but_for_a_quarter);
        return test_end();
}
