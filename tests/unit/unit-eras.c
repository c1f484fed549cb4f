/*
 * Eras are 32 bits and wrap. These tests set the segment's era forward by hand, sweep as the daemon does, and look whether what is old is
 * still protected and what is free still becomes free.
 */
#include <string.h>
#include <sys/mman.h>

#include "ring/op.h"
#include "shm/check.h"
#include "shm/epoch.h"
#include "shm/reap.h"
#include "shm/retire.h"
#include "shm/slab.h"
#include "shm/slot.h"
#include "shm/walk.h"
#include "shm/base/hash.h"
#include "tests/harness/test.h"

static struct sb_peer writer, reader;

static bool make_bus(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2};
        struct sb_slot_identity identity = {.pid = 1};
        uint64_t id[2] = {1, 2};
        struct sb_geometry geometry;
        struct sb_segment segment;
        uint32_t slot, generation;
        void *base;

        if (sb_geometry_fit(&wish, &geometry))
                return false;
        base = mmap(NULL, geometry.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED || sb_os_register())
                return false;
        sb_segment_format(base, &geometry, 7, id, 1);
        if (sb_segment_open(base, geometry.size, &sb_os_linux, &segment) ||
                sb_slot_claim(&segment, 1, &identity, &slot, &generation))
                return false;
        sb_peer_init(&writer, &segment, slot, generation);
        if (sb_slot_claim(&segment, 1, &identity, &slot, &generation))
                return false;
        sb_peer_init(&reader, &segment, slot, generation);
        return true;
}

static void unmake_bus(void)
{
        munmap(writer.segment.base, writer.segment.geometry.size);
}

static int put(const char *key, const char *value)
{
        struct sb_op_write write = {.key = key, .key_len = (uint32_t)strlen(key), .value = value, .value_len = strlen(value),
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(&writer, &write, &result);
}

/* Not inlined: with a constant key the compiler warns of what xxHash would do with longer ones. */
__attribute__((noipa)) static struct sb_version *find(const char *key)
{
        uint32_t len = (uint32_t)strlen(key);

        return sb_find_newest(&reader, key, len, sb_hash_key(key, len, reader.segment.seed));
}

static void sweep(void)
{
        uint32_t cursor = 0;

        sb_sweep_begin(&writer);
        sb_sweep(&writer, &cursor, writer.segment.geometry.unit_count);
        sb_sweep_end(&writer);
}

/* As if that many blocks had been freed by others. */
static void let_eras_pass(uint32_t count)
{
        struct sb_cell32 *era = &writer.segment.super->era;
        uint32_t now = sb_load_relaxed(era) + count;

        sb_store_relaxed(era, now < SB_ERA_MIN || now > SB_ERA_MAX ? SB_ERA_MIN : now);
}

static void test_old_version_is_protected_by_a_new_pin_however_many_eras_have_passed(void)
{
        uint32_t step;

        CHECK(make_bus());
        CHECK_EQ(put("old", "value"), 0);
        for (step = 0; step < 100; step++) { /* 25 times 2^30: around more than six times */
                struct sb_version *version;
                char key[32];

                let_eras_pass(SB_ERA_OLD + 12345);
                sweep();
                snprintf(key, sizeof(key), "key%u", step % 7);
                CHECK_EQ(put(key, "x"), 0);
                sb_pin(&reader);
                version = find("old");
                CHECK(version && !memcmp(version->bytes, "oldvalue", 8));
                CHECK_EQ(put("old", "value"), 0);
                sb_op_memory_work(&writer, true);
                CHECK(sb_slab_is_block(&writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
                CHECK(!memcmp(version->bytes, "oldvalue", 8));
                sb_unpin(&reader);
                sb_op_memory_work(&writer, true);
                CHECK(!sb_slab_is_block(&writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL) ||
                        sb_load_relaxed(&version->block.retire) == 0);
        }
        unmake_bus();
}

static void test_untouched_version_is_protected_after_all_eras_have_passed(void)
{
        struct sb_version *version;
        uint32_t step;

        CHECK(make_bus());
        CHECK_EQ(put("old", "value"), 0);
        for (step = 0; step < 10; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep();
        }
        sb_pin(&reader);
        version = find("old");
        CHECK_EQ(put("old", "newer"), 0);
        sb_op_memory_work(&writer, true);
        CHECK(version && !memcmp(version->bytes, "oldvalue", 8));
        CHECK(sb_slab_is_block(&writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        sb_unpin(&reader);
        unmake_bus();
}

static void test_era_stands_still_rather_than_leave_a_stopped_reader_behind(void)
{
        struct sb_version *version;
        uint32_t era, step;

        CHECK(make_bus());
        CHECK_EQ(put("old", "value"), 0);
        sb_pin(&reader);
        version = find("old");
        CHECK_EQ(put("old", "newer"), 0);
        for (step = 0; step < 5; step++) {
                let_eras_pass(SB_ERA_OLD);
                sweep();
        }
        era = sb_load_relaxed(&writer.segment.super->era);
        sb_era_advance(&writer);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->era), era);
        CHECK_EQ(put("old", "newest"), 0);
        sb_op_memory_work(&writer, true);
        CHECK(sb_slab_is_block(&writer.segment, sb_offset_of(&writer.segment, version), SB_UNIT_VERSIONS, NULL));
        CHECK(!memcmp(version->bytes, "oldvalue", 8));
        sb_unpin(&reader);
        sweep();
        sweep();
        sb_era_advance(&writer);
        CHECK(sb_era_before(era, sb_load_relaxed(&writer.segment.super->era)));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_old_version_is_protected_by_a_new_pin_however_many_eras_have_passed);
        RUN(test_untouched_version_is_protected_after_all_eras_have_passed);
        RUN(test_era_stands_still_rather_than_leave_a_stopped_reader_behind);
        return test_end();
}
