/*
 * Eras are 32 bits and wrap. These tests set the segment's era forward by hand, sweep as the daemon
 * does, and look whether what is old is still protected and what is free still becomes free.
 */
#include "ring/op/get.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/report.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"

static void sweep_by(struct sb_handle *handle)
{
        uint32_t cursor = 0;

        sb_sweep_begin(handle);
        sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
        sb_sweep_end(handle);
}

static void sweep(void)
{
        sweep_by(&writer);
}

static uint32_t problems(void)
{
        struct sb_check_report report;

        if (sb_check(&writer, false, &report))
                return UINT32_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count;
}

/* Let as many eras pass as if other clients had freed that many blocks. */
static void let_eras_pass(uint32_t count)
{
        struct sb_word32 *era = &writer.segment.super->era;
        uint32_t now = sb_load_relaxed(era) + count;

        sb_store_relaxed(era, now < SB_ERA_MIN || now > SB_ERA_MAX ? SB_ERA_MIN : now);
}

static void test_old_version_is_protected_by_a_new_pin_however_many_eras_have_passed(void)
{
        uint32_t step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        for (step = 0; step < 100; step++) { /* 25 times 2^30: the eras wrap more than six times */
                struct sb_version *version;
                char key[32];

                let_eras_pass(SB_ERA_OLD + 12345);
                sweep();
                snprintf(key, sizeof(key), "key%u", step % 7);
                CHECK_EQ(put(&writer, key, "x", 1), 0);
                sb_pin(&reader);
                version = find("old");
                CHECK(version && !memcmp(version->bytes, "oldvalue", 8));
                CHECK_EQ(put(&writer, "old", "value", 5), 0);
                sb_work_all(&writer, true);
                CHECK(sb_unit_is_block(&writer.segment, sb_offset_of(&writer.segment, version),
                        SB_UNIT_VERSIONS, NULL));
                CHECK(!memcmp(version->bytes, "oldvalue", 8));
                sb_unpin(&reader);
                sb_work_all(&writer, true);
                CHECK(!sb_unit_is_block(&writer.segment, sb_offset_of(&writer.segment, version),
                              SB_UNIT_VERSIONS, NULL) ||
                        sb_load_relaxed(&version->block.retire) == 0);
        }
        unmake_bus();
}

static void test_untouched_version_is_protected_after_all_eras_have_passed(void)
{
        struct sb_version *version;
        uint32_t step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        for (step = 0; step < 10; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep();
        }
        sb_pin(&reader);
        version = find("old");
        CHECK_EQ(put(&writer, "old", "newer", 5), 0);
        sb_work_all(&writer, true);
        CHECK(version && !memcmp(version->bytes, "oldvalue", 8));
        CHECK(sb_unit_is_block(
                &writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        sb_unpin(&reader);
        unmake_bus();
}

static void test_era_stands_still_rather_than_leave_a_stopped_reader_behind(void)
{
        struct sb_version *version;
        uint32_t era, step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        sb_pin(&reader);
        version = find("old");
        CHECK_EQ(put(&writer, "old", "newer", 5), 0);
        for (step = 0; step < 5; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep();
        }
        era = sb_load_relaxed(&writer.segment.super->era);
        sb_era_advance(&writer);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->era), era);
        CHECK_EQ(put(&writer, "old", "newest", 6), 0);
        sb_work_all(&writer, true);
        CHECK(sb_unit_is_block(
                &writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        CHECK(!memcmp(version->bytes, "oldvalue", 8));
        sb_unpin(&reader);
        sweep();
        sweep();
        sb_era_advance(&writer);
        CHECK(sb_era_before(era, sb_load_relaxed(&writer.segment.super->era)));
        unmake_bus();
}

static void test_guarded_version_stays_and_is_sound_however_long_ago_it_was_deleted(void)
{
        struct sb_version *version = NULL;
        uint32_t step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        CHECK_EQ(sb_guard_grow(&reader, 0), 0);
        CHECK_EQ(sb_op_get(&reader, "old", 3, 0, &version), 0);
        CHECK_EQ(delete (&writer, "old"), 0);
        for (step = 0; step < 20; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep();
                CHECK(!memcmp(version->bytes, "oldvalue", 8));
                CHECK_EQ(problems(), 0);
        }
        sb_guard_set(&reader, 0, 0);
        sweep();
        sweep();
        CHECK(!sb_unit_is_block(
                &writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        unmake_bus();
}

static void test_what_was_in_idle_hands_for_ages_is_sound_when_they_let_go(void)
{
        struct sb_version *version = NULL;
        uint32_t step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        CHECK_EQ(sb_guard_grow(&reader, 0), 0);
        CHECK_EQ(sb_op_get(&reader, "old", 3, 0, &version), 0);
        sb_horizon_renew(&writer);
        CHECK_EQ(put(&writer, "old", "newer", 5), 0);
        CHECK_EQ(sb_load_relaxed(&version->block.retire), SB_RETIRE_FREEING | writer.slot);
        for (step = 0; step < 9; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep_by(&reader);
        }
        sb_magazine_release_all(&writer);
        CHECK_EQ(problems(), 0);
        sb_guard_set(&reader, 0, 0);
        sweep_by(&reader);
        sweep_by(&reader);
        CHECK(!sb_unit_is_block(
                &writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_old_version_is_protected_by_a_new_pin_however_many_eras_have_passed);
        RUN(test_untouched_version_is_protected_after_all_eras_have_passed);
        RUN(test_era_stands_still_rather_than_leave_a_stopped_reader_behind);
        RUN(test_guarded_version_stays_and_is_sound_however_long_ago_it_was_deleted);
        RUN(test_what_was_in_idle_hands_for_ages_is_sound_when_they_let_go);
        return test_end();
}
