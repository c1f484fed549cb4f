/*
 * A look at a unit that the pin does not cover is no look: whatever the unit holds by then may go
 * and become something else behind it, although the process that looked is pinned.
 *
 * A process is stopped three times in one call: before its pin, so that the unit ends a life and
 * the pin is of an era before the next one; behind its pin, where that life begins; and at each
 * instruction from there on, where it ends, and the same memory becomes a large value. The value
 * holds what the process takes for a block of the life before, ready to be freed.
 *
 * And a process that was stopped for ages: what it found before it may be said of a later life. And
 * a sweep beside another one, which has made a base where this one was about to; and a repair of
 * the table of marks beside another one, behind which a mark is made anew.
 */
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/sweep.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/bus.h"

#define SMALL     64u   /* bytes of the blocks that are looked at */
#define LARGE     2048u /* of the value that comes there */
#define OWN_CHUNK 3u    /* a chunk of guards that the dead client's record names */

/* What looks: a sweep, the reaper at a chunk of guards, a client at a spare of its own. */
enum look { SWEEP, CHUNK, SPARE, LOOKS };

struct play {
        enum look look;
        enum sb_unit_kind kind; /* of the small blocks */
        uint32_t date;          /* which the block that is looked for had */
        uint32_t unit;
        uint64_t first, second;    /* the small blocks of now */
        uint64_t value;            /* 0: nothing could be taken */
        uint64_t pinned_at;        /* the first point with a pin; in a first run it is found */
        uint64_t ends_at;          /* so many points behind it the second life ends */
        bool ended;                /* there was such a point */
        uint32_t dead, generation; /* the record that is reaped */
        bool broken;
        unsigned char bytes[LARGE];
};
static struct play play;

static uint64_t take(enum sb_unit_kind kind, uint64_t size)
{
        uint64_t offset = 0;

        if (sb_slab_take(&writer, kind, size, 0, &offset))
                return 0;
        sb_slab_release_all(&writer);
        if (sb_unit_of(&writer.segment, offset) == play.unit)
                return offset;
        play.broken = true;
        return 0;
}

static void pass(uint32_t eras)
{
        sb_add_full(&writer.segment.super->era, eras);
}

/* Two small blocks, alone in the unit. */
static void begin_life(void)
{
        play.first = take(play.kind, SMALL);
        play.second = take(play.kind, SMALL);
        play.broken |= play.second != play.first + SMALL;
        /* What its new owner says, which is not the one that is looked for. */
        if (play.kind == SB_UNIT_GUARDS)
                ((struct sb_guard_chunk *)(writer.segment.base + play.second))->owner = 1;
}

static void end_life(void)
{
        sb_unit_clear(&writer, play.first);
        sb_unit_clear(&writer, play.second);
        pass(2);
}

/* The bytes of a block that a sweep frees, dated in the first of all eras; of the chunk that the
 * dead client's record names; or of the spare. */
static void become_a_value(void)
{
        struct sb_version *value;
        struct sb_block *forged;

        end_life();
        /* The one at the unit's beginning, where the small ones were. */
        do
                play.value = take(SB_UNIT_VERSIONS, LARGE);
        while (play.value && play.value != sb_unit_offset(&writer.segment, play.unit));
        if (!play.value)
                return;
        value = (struct sb_version *)(writer.segment.base + play.value);
        memset((char *)value + sizeof(value->block), 0, LARGE - sizeof(value->block));
        forged = (struct sb_block *)(writer.segment.base + play.second);
        sb_store_relaxed(&forged->birth, SB_ERA_MIN);
        sb_store_relaxed(&forged->retire, play.date);
        if (play.look == CHUNK)
                ((struct sb_guard_chunk *)forged)->owner =
                        (uint64_t)play.generation << 32 | (uint64_t)play.dead << 16 | OWN_CHUNK;
        memcpy(play.bytes, value, LARGE);
}

/* The process that looks has the second block as a spare. */
static bool have_spare(void)
{
        struct sb_limbo_entry entry = {.offset = play.second,
                .era = sb_era_looked(&reader) - 1,
                .unit_kind = sb_unit_kind_of(&reader.segment, play.second),
                .spare = true};

        play.date = sb_era_low(entry.era);
        return sb_spare_add(&reader, &entry);
}

/* A bus of which one unit alone is free, with two small blocks in it. */
static bool begin(enum look look)
{
        struct sb_roster_identity identity = {.pid = 1};
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 3, .unit_size = 4096};
        uint64_t offset = 0, last;

        play = (struct play){.look = look,
                .kind = look == CHUNK ? SB_UNIT_GUARDS : SB_UNIT_VERSIONS,
                .date = look == CHUNK ? 0 : SB_ERA_MIN,
                .pinned_at = play.pinned_at,
                .ends_at = play.ends_at,
                .unit = UINT32_MAX};
        if (!make_bus_of(&wish) ||
                sb_roster_claim(&writer.segment, 1, &identity, &play.dead, &play.generation))
                return false;
        do
                last = offset;
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, LARGE, 0, &offset));
        sb_slab_release_all(&writer);
        play.unit = sb_unit_of(&writer.segment, last);
        play.first = sb_unit_offset(&writer.segment, play.unit);
        play.second = play.first + LARGE;
        end_life();
        begin_life();
        sb_store_relaxed(
                &sb_record_at(&writer.segment, play.dead)->guard_chunk[OWN_CHUNK], play.second);
        sb_sweep_begin(&reader);
        return !play.broken && (look != SPARE || have_spare());
}

static void sweep(void *context)
{
        (void)context;
        sb_sweep(&reader, &(uint32_t){play.unit}, 1);
}

static void free_chunk(void *context)
{
        (void)context;
        sb_pin(&reader);
        sb_guard_chunk_free(&reader, play.dead, play.generation, OWN_CHUNK);
        sb_unpin(&reader);
}

static void draw_own(void *context)
{
        (void)context;
        sb_spare_draw(&reader, sb_unit_class(&reader.segment, SMALL));
}

static enum step_verdict find_pin(void *context, uint64_t number, uintptr_t address)
{
        (void)context, (void)address;
        if (!sb_load_relaxed(&reader.record->pin))
                return STEP_ON;
        play.pinned_at = number;
        return STEP_STOP;
}

static enum step_verdict interfere(void *context, uint64_t number, uintptr_t address)
{
        uint64_t node;

        (void)context, (void)address;
        if (number + 1 == play.pinned_at) {
                end_life();
                node = take(SB_UNIT_NODES, SMALL);
                play.broken |= !node;
                sb_unit_clear(&writer, node);
                pass(2);
        }
        if (number == play.pinned_at) {
                play.broken |= !sb_load_relaxed(&reader.record->pin);
                pass(1);
                begin_life();
        }
        if (number < play.pinned_at + play.ends_at)
                return STEP_ON;
        play.ended = true;
        become_a_value();
        return STEP_STOP;
}

/* Return: whether the value came, and is as it was. */
static bool value_is_whole(void)
{
        return !memcmp(writer.segment.base + play.value, play.bytes, LARGE) &&
               sb_unit_is_block(&writer.segment, play.value, SB_UNIT_VERSIONS, NULL);
}

static void test_what_a_look_met_before_its_pin_covered_it_is_not_freed(void)
{
        static void (*const operations[LOOKS])(void *) = {sweep, free_chunk, draw_own};
        struct step_run run = {.point_limit = 1000000};

        for (enum look look = 0; look < LOOKS; look++) {
                uint32_t came = 0, kept_out = 0;

                run.operation = operations[look];
                run.point = find_pin;
                CHECK(begin(look));
                CHECK_EQ(step_run(&run), STEP_DONE);
                CHECK(play.pinned_at > 1);
                unmake_bus();
                run.point = interfere;
                for (play.ends_at = 0, play.ended = true; play.ended; play.ends_at++) {
                        CHECK(begin(look));
                        CHECK_EQ(step_run(&run), STEP_DONE);
                        CHECK(!play.broken);
                        sb_reclaim_free(&reader);
                        came += play.value != 0;
                        kept_out += play.ended && !play.value;
                        if (play.value && !value_is_whole())
                                TEST_FAIL("look %u: written over, when it came %lu instructions "
                                          "behind the pin",
                                        look, (unsigned long)play.ends_at);
                        unmake_bus();
                }
                /* Before the look, and not behind it. */
                CHECK(came > 0 && kept_out > 0);
        }
}

/* ---- a stop of ages ---- */

static uint32_t spare_class;

static void draw_spare(void *context)
{
        *(uint32_t *)context = sb_spare_draw(&writer, spare_class);
}

static enum step_verdict let_ages_pass(void *context, uint64_t number, uintptr_t address)
{
        (void)context, (void)address;
        if (number <= play.ends_at)
                return STEP_ON;
        play.ended = true;
        pass(SB_ERA_OLD + 1);
        return STEP_STOP;
}

/* A client that was stopped while it won a spare: the date may be one of a later life, so the block
 * begins its grace period again, and is no client's until that is over. */
static void test_a_spare_that_was_won_ages_later_begins_its_grace_period_again(void)
{
        uint32_t drawn = 0, left = 0, entry;
        struct sb_check_report report;
        struct step_run run = {.operation = draw_spare,
                .point = let_ages_pass,
                .context = &entry,
                .point_limit = 1000000};

        for (play.ends_at = 0, play.ended = true; play.ended; play.ends_at++) {
                struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2};
                struct sb_block *block;
                uint64_t offset;

                play.ended = false;
                CHECK(make_bus_of(&wish));
                pass(10);
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, SMALL, 0, &offset), 0);
                spare_class = sb_unit_class(&writer.segment, SMALL);
                CHECK(sb_spare_keep(&writer, offset));
                CHECK_EQ(step_run(&run), STEP_DONE);
                drawn += entry != 0;
                left += entry == 0;
                CHECK(!entry || sb_magazine_offset(&writer, entry) == offset);
                block = sb_block_at(&writer.segment, offset);
                CHECK_EQ(sb_load_relaxed(&block->retire) == (SB_RETIRE_FREEING | writer.slot),
                        entry != 0);
                CHECK_EQ(sb_check(&reader, false, &report), 0);
                if (report.problem_count)
                        TEST_FAIL("at point %lu: %s", (unsigned long)play.ends_at,
                                report.problems[0]);
                unmake_bus();
        }
        CHECK(drawn > 0 && left > 0);
}

/* ---- two sweeps make a base for one record ---- */

#define EARLIER 50u /* the eras in which its client was pinned */
#define LATER   60u

static uint64_t other_base; /* which the other sweep has made; 0: none */

static void begin_sweep(void *context)
{
        (void)context;
        sb_sweep_begin(&reader);
}

static enum step_verdict sweep_beside(void *context, uint64_t number, uintptr_t address)
{
        struct sb_record *record = sb_record_at(&writer.segment, play.dead);

        (void)context, (void)address;
        if (number <= play.ends_at)
                return STEP_ON;
        play.ended = true;
        sb_store_relaxed(&record->pin, SB_PIN(LATER, 0));
        sb_sweep_begin(&writer);
        for (uint32_t i = 0; i < SB_RECORD_BASES; i++)
                if (SB_BASE_ERA(sb_load_relaxed(&record->base[i])) == LATER + 1)
                        other_base = sb_load_relaxed(&record->base[i]);
        return STEP_STOP;
}

/* By then it has labelled births with it. */
static void test_a_base_that_another_sweep_has_made_stays(void)
{
        struct step_run run = {
                .operation = begin_sweep, .point = sweep_beside, .point_limit = 1000000};
        uint32_t both = 0;

        for (play.ends_at = 0, play.ended = true; play.ended; play.ends_at++) {
                struct sb_roster_identity identity = {.pid = 1};
                struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 3};
                struct sb_record *record;
                uint32_t count = 0, eras = 0;

                play.ended = false;
                other_base = 0;
                CHECK(make_bus_of(&wish));
                CHECK_EQ(sb_roster_claim(
                                 &writer.segment, 1, &identity, &play.dead, &play.generation),
                        0);
                record = sb_record_at(&writer.segment, play.dead);
                sb_store_relaxed(&record->pin, SB_PIN(EARLIER, 0));
                pass(2 * SB_ERA_OLD);
                CHECK_EQ(step_run(&run), STEP_DONE);
                for (uint32_t i = 0; i < SB_RECORD_BASES; i++) {
                        uint64_t word = sb_load_relaxed(&record->base[i]);

                        count += other_base && word == other_base;
                        eras += SB_BASE_ERA(word) != 0;
                }
                CHECK(!play.ended || other_base);
                if (other_base && !count)
                        TEST_FAIL("it has gone, when it was made at point %lu",
                                (unsigned long)play.ends_at);
                both += eras == 2;
                unmake_bus();
        }
        CHECK(both > 0);
}

/* ---- two repair the table of marks, and one makes a mark ---- */

static struct sb_named_value made; /* beside the other one's repair */

/* A mark of the writer's, announced until @snapshot is closed, and without a key. */
static bool make_mark(struct sb_named_value *ret, uint32_t *ret_snapshot)
{
        uint64_t cut;

        return !sb_snapshot_open(&writer, ret_snapshot, &cut) &&
               !sb_named_take(&writer, *ret_snapshot, cut, ret);
}

static void repair_marks(void *context)
{
        (void)context;
        sb_named_repair(&reader);
}

static enum step_verdict repair_and_make(void *context, uint64_t number, uintptr_t address)
{
        uint32_t snapshot;

        (void)context, (void)address;
        if (number <= play.ends_at)
                return STEP_ON;
        play.ended = true;
        sb_named_repair(&writer);
        play.broken |= !make_mark(&made, &snapshot);
        return STEP_STOP;
}

static void test_a_mark_that_is_made_anew_beside_a_repair_stands(void)
{
        struct step_run run = {
                .operation = repair_marks, .point = repair_and_make, .point_limit = 1000000};

        for (play.ends_at = 0, play.ended = true; play.ended; play.ends_at++) {
                struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .mark_count = 1};
                struct sb_named_value left;
                uint32_t snapshot;

                play.ended = play.broken = false;
                CHECK(make_bus_of(&wish));
                CHECK(make_mark(&left, &snapshot));
                sb_snapshot_close(&writer, snapshot);
                CHECK_EQ(step_run(&run), STEP_DONE);
                CHECK(!play.broken && !sb_named_stands(&writer.segment, &left));
                if (play.ended && !sb_named_stands(&writer.segment, &made))
                        TEST_FAIL("it is gone, when it was made at point %lu",
                                (unsigned long)play.ends_at);
                unmake_bus();
        }
        CHECK(play.ends_at > 20);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_a_look_met_before_its_pin_covered_it_is_not_freed);
        RUN(test_a_base_that_another_sweep_has_made_stays);
        RUN(test_a_mark_that_is_made_anew_beside_a_repair_stands);
        RUN(test_a_spare_that_was_won_ages_later_begins_its_grace_period_again);
        return test_end();
}
