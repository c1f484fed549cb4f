/*
 * Blocks have space for the low bits of an era alone. These tests set the segment's era forward by
 * hand, sweep as the daemon does, and look whether what is old is still protected and what is free
 * still becomes free, beside clients that are stopped for as long as that.
 */
#include "ring/op/get.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
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
        struct sb_word64 *era = &writer.segment.super->era;

        sb_store_relaxed(era, sb_era_whole(sb_load_relaxed(era) + count));
}

static void test_old_version_is_protected_by_a_new_pin_however_many_eras_have_passed(void)
{
        uint32_t step;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "old", "value", 5), 0);
        for (step = 0; step < 100;
                step++) { /* 25 times 2^30: the low bits come again twelve times */
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

/* Blocks that are taken. */
static uint32_t in_use(void)
{
        struct sb_check_report report;

        sb_slab_release_all(&writer);
        return sb_check(&writer, false, &report) ? 0 : (uint32_t)report.blocks_used;
}

static void test_a_client_that_is_stopped_for_ages_holds_what_was_alive_then_and_nothing_else(void)
{
        static const uint32_t leaps[] = {SB_ERA_OLD, SB_ERA_ASK, SB_ERA_STOP - 5000,
                SB_ERA_OLD + 12345, 1u << 20, SB_ERA_STOP - 5000, SB_ERA_STOP - 5000};
        struct sb_version *version;
        uint32_t used;
        char key[16];

        for (uint32_t back = 0; back < 3; back++) {
                CHECK(make_bus(1 << 20));
                CHECK_EQ(put(&writer, "old", "value", 5), 0);
                for (uint32_t i = 0; i < 40; i++) {
                        snprintf(key, sizeof(key), "k%u", i);
                        CHECK_EQ(put(&writer, key, "x", 1), 0);
                }
                sb_pin(&reader);
                let_eras_pass(
                        back == 2 ? 70000 : back); /* then the pin grows, and its owner stops */
                version = find("old");
                sb_era_advance(&writer); /* what is made from here on, it cannot know */
                CHECK_EQ(put(&writer, "old", "newer", 5), 0);
                for (uint32_t i = 0; i < 40; i++) {
                        snprintf(key, sizeof(key), "k%u", i);
                        CHECK_EQ(put(&writer, key, "x", 1), 0);
                }
                sb_work_all(&writer, true);
                sb_magazine_release_all(&writer);
                used = in_use();
                /* In all 2^33 eras, in leaps, and everything is written anew after each. */
                for (uint32_t step = 0; step < 28; step++) {
                        uint64_t before;

                        let_eras_pass(leaps[step % 7]);
                        sweep();
                        before = sb_load_relaxed(&writer.segment.super->era);
                        for (uint32_t i = 0; i < 400; i++) {
                                snprintf(key, sizeof(key), "k%u", i % 40);
                                CHECK_EQ(put(&writer, key, "x", 1), 0);
                        }
                        for (uint32_t i = 0; i < 4; i++)
                                sb_work_all(&writer, true);
                        sb_magazine_release_all(&writer);
                        for (uint32_t i = 0; i < 2; i++)
                                sb_work_all(&writer, true);
                        CHECK(sb_load_relaxed(&writer.segment.super->era) > before);
                        CHECK(sb_unit_is_block(&writer.segment,
                                sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
                        CHECK(!memcmp(version->bytes, "oldvalue", 8));
                        if (in_use() > used + 2)
                                TEST_NOTE("step %u: %u in use, %u were", step, in_use(), used);
                        CHECK(in_use() <= used + 2);
                        CHECK_EQ(problems(), 0);
                }
                /* It goes on: what it holds it still holds, as far as it reads. */
                CHECK(!sb_pin_covers(&reader) && sb_pin_covers(&reader));
                sb_work_all(&writer, true);
                CHECK(!memcmp(version->bytes, "oldvalue", 8));
                CHECK(sb_unit_is_block(&writer.segment, sb_offset_of(&writer.segment, version),
                        SB_UNIT_VERSIONS, NULL));
                sb_unpin(&reader);
                sb_work_all(&writer, true);
                sb_work_all(&writer, true);
                CHECK(in_use() < used - 30);
                CHECK_EQ(problems(), 0);
                unmake_bus();
        }
}

static void test_the_era_waits_for_a_sweep_and_for_no_client(void)
{
        uint64_t era;

        CHECK(make_bus(1 << 20));
        sb_pin(&reader);
        let_eras_pass(SB_ERA_STOP);
        sb_era_advance(&writer);
        era = sb_load_relaxed(&writer.segment.super->era);
        sb_era_advance(&writer);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->era), era);
        sweep();
        sb_era_advance(&writer);
        CHECK(sb_load_relaxed(&writer.segment.super->era) > era);
        sb_unpin(&reader);
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
        RUN(test_a_client_that_is_stopped_for_ages_holds_what_was_alive_then_and_nothing_else);
        RUN(test_the_era_waits_for_a_sweep_and_for_no_client);
        RUN(test_guarded_version_stays_and_is_sound_however_long_ago_it_was_deleted);
        RUN(test_what_was_in_idle_hands_for_ages_is_sound_when_they_let_go);
        return test_end();
}
