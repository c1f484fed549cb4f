/*
 * A write that waits for memory, killed behind each of its stores while it empties a window
 * (shm/memory/window.h): other processes find all keys as they were, its own with its value or
 * without, and behind the reaper no unit belongs to the dead client and no block is lost.
 */
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/faults.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/bus.h"

#define SIZE     (UINT64_C(1) << 18)
#define UNIT     1024u
#define KEYS_MAX 2000u

static struct sb_handle other; /* on a copy of the segment */
static unsigned char space[16 << 20] __attribute__((aligned(64)));
static unsigned char *copy;
static unsigned char value[16 * UNIT];
static uint32_t key_count;
static uint32_t len, wanted_len; /* of the values that are there, and of the one that waits */
static int result;               /* of the write */

static const char *key_of(uint32_t i)
{
        static char text[16];

        snprintf(text, sizeof(text), "key%05u", i);
        return text;
}

/* Full, and then every second value is gone; and no room for one that waits without moving. */
static bool begin(uint32_t value_len)
{
        struct sb_geometry_wish wish = {.size = SIZE, .clients = 2, .unit_size = UNIT};

        len = value_len;
        if (!make_bus_of(&wish))
                return false;
        for (key_count = 0; key_count < KEYS_MAX; key_count++)
                if (put_patiently(&writer, key_of(key_count), value, len))
                        break;
        for (uint32_t i = 0; i < key_count; i += 2)
                if (delete (&writer, key_of(i)))
                        return false;
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, true);
        /* What fits without that. */
        sb_slab_release_all(&writer);
        for (uint32_t i = KEYS_MAX; !put(&reader, key_of(i), value, wanted_len); i++)
                ;
        return key_count > 40;
}

/* As sb_write_wait() does it. */
static void wait_and_write(void *context)
{
        (void)context;
        sb_window_begin(&reader);
        for (uint32_t rest = 0; rest < 64; rest += !sb_work_slice(&reader)) {
                result = put(&reader, "waits", value, wanted_len);
                if (result != SB_E_FULL)
                        break;
        }
        sb_window_end(&reader);
}

/* Not inlined: see tests/unit/bus.h. */
__attribute__((noipa)) static bool has(const char *key, uint64_t value_len)
{
        uint64_t hash = sb_hash_key(key, (uint32_t)strlen(key), other.segment.seed);
        struct sb_spot spot;

        return sb_key_find(&other, key, (uint32_t)strlen(key), hash, &spot) &&
               sb_version_has_value(spot.head) && SB_SHAPE_VALUE_LEN(spot.head->shape) == value_len;
}

static bool all_there(void)
{
        bool right = true;

        sb_pin(&other);
        for (uint32_t i = 1; i < key_count && right; i += 2)
                right = has(key_of(i), len);
        sb_unpin(&other);
        return right;
}

static uint32_t owned_by(uint32_t slot, uint32_t generation)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < other.segment.geometry.unit_count; i++) {
                uint64_t word = sb_unit_word(&other.segment, i);

                count += word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                         SB_UNIT_OWNER(word) ==
                                 SB_UNIT_OWNER(SB_UNIT_WORD(0, 0, slot + 1, generation));
        }
        return count;
}

/* What is wrong with what the killed write leaves; NULL: nothing. */
static const char *judge(void)
{
        static struct sb_check_report report;
        struct sb_segment segment;

        memcpy(copy, reader.segment.base, reader.segment.geometry.size);
        if (sb_segment_open(copy, reader.segment.geometry.size, reader.segment.os, &segment))
                return "it cannot be opened";
        memset(space, 0, sb_handle_space(&segment.geometry));
        sb_handle_init(&other, &segment, writer.slot, writer.generation, space);
        if (!all_there())
                return "a key is not as it was";
        sb_reap_record(&other, reader.slot, reader.generation);
        if (owned_by(reader.slot, reader.generation))
                return "a unit belongs to the dead client";
        for (uint32_t i = 0; i < 2; i++)
                sb_work_all(&other, true);
        if (!all_there())
                return "a key is not as it was, behind the reaper";
        if (sb_check(&other, true, &report))
                return "it cannot be checked";
        if (report.problem_count)
                return report.problems[0];
        return report.blocks_lost ? "a block is lost" : NULL;
}

static const char *wrong;
static uint64_t points;
static uintptr_t wrong_where;

static enum step_verdict kill_here(void *context, uint64_t number, uintptr_t address)
{
        (void)context, (void)number;
        points++;
        wrong = judge();
        if (!wrong)
                return STEP_ON;
        wrong_where = address;
        return STEP_STOP;
}

static void kill_all(uint32_t value_len, uint32_t waits_len)
{
        struct step_run run = {.operation = wait_and_write,
                .point = kill_here,
                .wanted = STEP_STORED,
                .point_limit = 100000000};

        wanted_len = waits_len;
        CHECK(begin(value_len));
        CHECK(sb_handle_space(&reader.segment.geometry) <= sizeof(space));
        copy = aligned_alloc(UNIT_PAGE, 2 * SIZE);
        CHECK(copy && reader.segment.geometry.size <= 2 * SIZE);
        CHECK_EQ(put(&reader, "waits", value, wanted_len), SB_E_FULL);
        points = 0;
        run.shared = (struct step_memory){reader.segment.base, reader.segment.geometry.size};
        CHECK_EQ(step_run(&run), STEP_DONE);
        if (wrong)
                TEST_FAIL("killed before %s: %s", step_where(wrong_where), wrong);
        CHECK_EQ(result, 0);
        CHECK(reader.counters.moved > 0);
        TEST_NOTE("values of %u, one of %u waits: %lu stores, %lu versions moved", value_len,
                waits_len, (unsigned long)points, (unsigned long)reader.counters.moved);
        free(copy);
        unmake_bus();
}

static void test_versions_in_slabs_move_for_a_large_value(void)
{
        kill_all(400, 3 * UNIT);
}

static void test_values_of_a_unit_move_for_a_larger_one(void)
{
        kill_all(900, 3 * UNIT);
}

static void test_values_of_several_units_move_for_a_larger_one(void)
{
        kill_all(2 * UNIT - 100, 5 * UNIT);
}

static void test_a_slab_of_another_size_is_emptied(void)
{
        kill_all(150, 400);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_versions_in_slabs_move_for_a_large_value);
        RUN(test_values_of_a_unit_move_for_a_larger_one);
        RUN(test_values_of_several_units_move_for_a_larger_one);
        RUN(test_a_slab_of_another_size_is_emptied);
        return test_end();
}
