/*
 * Spares (shm/memory/spare.h): a client beside a thousand others that are idle or stopped writes as
 * it would alone, by counts of looks and of blocks that went back to their slabs; and what it keeps
 * for that keeps nothing from others.
 */
#include <inttypes.h>
#include <string.h>

#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/reclaim.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define KEYS 1000u

static char value[1000];

/* ---- looks are counted by their membarriers ---- */

static struct sb_os counting_os;
static uint64_t looks;

static void count_membarrier(void *context)
{
        looks++;
        sb_os_linux.membarrier(context);
}

/* Clients that do nothing, until so many are attached. */
static bool attach(uint32_t attached)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t count = sb_roster_count(&writer.segment), slot, generation;

        for (; count < attached; count++)
                if (sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                        return false;
        return true;
}

static bool make_crowd(uint64_t size, uint32_t clients, uint32_t attached)
{
        if (!make_bus_for(size, clients))
                return false;
        counting_os = sb_os_linux;
        counting_os.membarrier = count_membarrier;
        writer.segment.os = &counting_os;
        return attach(attached);
}

static uint32_t problems(void)
{
        struct sb_check_report report;

        if (sb_check(&reader, false, &report))
                return UINT32_MAX;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return report.problem_count;
}

/* Sets @count keys by turns, to values of the sizes @len and @other_len, by turns of @turn. */
static bool overwrite(
        struct sb_handle *handle, uint32_t count, uint32_t turn, uint64_t len, uint64_t other_len)
{
        char key[32];

        for (uint32_t i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "key/%08u", i % KEYS);
                if (put_patiently(handle, key, value, i / turn % 2 ? other_len : len))
                        return false;
        }
        return true;
}

/* ---- what a set costs ---- */

struct cost {
        uint64_t looks, freed; /* in a thousand sets */
};

static struct cost cost_beside(uint32_t attached, uint32_t turn, bool stopped)
{
        enum { SETS = 100000 };
        struct cost cost = {UINT64_MAX, UINT64_MAX};
        uint64_t freed;

        if (!make_crowd(64 << 20, 3999, attached))
                return cost;
        if (!overwrite(&writer, KEYS, 1, 64, 64))
                return cost;
        for (uint32_t slot = 3; stopped && slot < attached; slot++)
                sb_store_relaxed(&sb_record_at(&writer.segment, slot)->pin,
                        SB_PIN(sb_load_relaxed(&writer.segment.super->era), 0));
        if (!overwrite(&writer, 4000, turn, 64, 200))
                return cost;
        looks = 0;
        freed = writer.counters.freed;
        if (!overwrite(&writer, SETS, turn, 64, 200))
                return cost;
        cost.looks = looks * 1000 / SETS;
        cost.freed = (writer.counters.freed - freed) * 1000 / SETS;
        if (!writer.magazine.passes || problems())
                cost.looks = UINT64_MAX;
        unmake_bus();
        return cost;
}

static void test_a_set_beside_a_thousand_goes_the_short_way(void)
{
        static const uint32_t attached[] = {3, 100, 1000, 3900};

        for (uint32_t i = 0; i < sizeof(attached) / sizeof(attached[0]); i++) {
                struct cost idle = cost_beside(attached[i], 1u << 30, false);
                struct cost stopped = cost_beside(attached[i], 1u << 30, true);

                TEST_NOTE("%u attached: %" PRIu64 " looks and %" PRIu64
                          " blocks freed in 1,000 sets; stopped: %" PRIu64 " and %" PRIu64,
                        attached[i], idle.looks, idle.freed, stopped.looks, stopped.freed);
                CHECK(idle.looks <= 2 && stopped.looks <= 4);
                CHECK(idle.freed <= 10 && stopped.freed <= 10);
        }
}

/* So many sets that each key is replaced by another size once in each turn: then as many blocks go
 * back as come, and they go by the batch. */
static void test_a_set_of_changing_sizes_takes_its_blocks_by_the_batch(void)
{
        struct cost alone = cost_beside(3, KEYS, false), many = cost_beside(1000, KEYS, false);

        TEST_NOTE("%" PRIu64 " looks and %" PRIu64 " blocks freed in 1,000 sets", alone.looks,
                alone.freed);
        TEST_NOTE("beside 1,000: %" PRIu64 " and %" PRIu64, many.looks, many.freed);
        CHECK(many.looks <= alone.looks + 2);
        CHECK(many.freed <= alone.freed + 500);
}

/* One slab may be kept here: that of the placeholder and the tombstone. The node takes another one,
 * given up behind the operation, and now and then so does a large branch; the value's block is a
 * spare of before, whatever spares of other sizes there are. */
static void test_a_new_key_beside_a_thousand_takes_its_value_from_spares(void)
{
        enum { PAIRS = 1000 };
        uint32_t acquired = 0;
        char key[32];

        CHECK(make_crowd(64 << 20, 3999, 1000) && overwrite(&writer, KEYS, 1, 64, 64));
        CHECK(overwrite(&writer, 4000, 1, 64, 64)); /* looks, after which it knows the others */
        for (uint32_t i = 0; i < 2 * PAIRS; i++) {
                if (i == PAIRS)
                        acquired = writer.slabs.acquired;
                snprintf(key, sizeof(key), "new/%08u", i);
                CHECK_EQ(put_patiently(&writer, key, value, 100), 0);
                CHECK_EQ(delete (&writer, key), 0);
        }
        acquired = writer.slabs.acquired - acquired;
        TEST_NOTE("%u slabs for %u new keys, set and deleted", acquired, PAIRS);
        CHECK(acquired <= PAIRS + PAIRS / 4);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* ---- what it keeps from others ---- */

static uint32_t fill(struct sb_handle *handle)
{
        char key[32];
        uint32_t i;

        for (i = 0;; i++) {
                snprintf(key, sizeof(key), "new/%08u", i);
                if (put_patiently(handle, key, value, 1000))
                        return i;
        }
}

/* Clients that overwrote what they could and do nothing more. All those keys go. Return: how many
 * values of another size fit then. */
static uint32_t room_beside_idle(uint32_t idle_count)
{
        static struct sb_handle idle[100];
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation, room;
        char key[32];

        if (!make_crowd(16 << 20, 600, 3))
                return 0;
        for (uint32_t i = 0; i < idle_count; i++) {
                if (sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                        return 0;
                make_handle(&idle[i], &writer.segment, slot, generation);
        }
        if (!attach(600) || !overwrite(&writer, KEYS, 1, 64, 64))
                return 0;
        for (uint32_t i = 0; i < idle_count; i++)
                if (!overwrite(&idle[i], 3000, 100, 64, 200))
                        return 0;
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "key/%08u", i);
                if (delete (&writer, key))
                        return 0;
        }
        room = fill(&writer);
        if (problems())
                return 0;
        unmake_bus();
        return room;
}

/* The magazine has no share of classes as large as these. */
static void test_large_values_on_a_small_bus_are_built_in_spares_up_to_a_share(void)
{
        enum { TURNS = 20 };
        uint64_t freed, most = 0;

        CHECK(make_crowd(16 << 20, 8, 3));
        CHECK(!writer.magazine.passes && overwrite(&writer, 4000, 1, 1000, 1000));
        freed = writer.counters.freed;
        for (uint32_t i = 0; i < TURNS; i++) {
                CHECK(overwrite(&writer, KEYS, 1, 1000, 1000));
                CHECK(writer.spares.kept <= writer.magazine.keeps);
                most = writer.spares.kept > most ? writer.spares.kept : most;
        }
        freed = writer.counters.freed - freed;
        TEST_NOTE("%" PRIu64 " blocks freed in 1,000 sets; at most %" PRIu64
                  " bytes in spares, of %" PRIu64,
                freed / TURNS, most, writer.magazine.keeps);
        CHECK(most > 0 && freed / TURNS <= 10);
        /* With more clients a part is smaller, and what is beyond it goes back to its slab. */
        CHECK(attach(8));
        CHECK(overwrite(&writer, 4000, 1, 1000, 1000));
        for (uint32_t i = 0; i < TURNS; i++) {
                CHECK(overwrite(&writer, KEYS, 1, 1000, 1000));
                CHECK(writer.spares.kept <= writer.magazine.keeps);
        }
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_what_idle_clients_keep_is_there_for_others(void)
{
        uint32_t alone = room_beside_idle(0), beside = room_beside_idle(100);

        TEST_NOTE("%u values fit, %u beside 100 idle clients", alone, beside);
        CHECK(alone > 5000);
        CHECK(beside * 10 >= alone * 9); /* but for two slabs of each */
}

/* ---- one spare ---- */

/* A writer with spares of the versions of its keys. */
static bool make_spares(void)
{
        if (!make_crowd(64 << 20, 3999, 1000) || !overwrite(&writer, KEYS, 1, 64, 64))
                return false;
        sb_horizon_renew(&writer);
        sb_reclaim_free(&writer); /* branches that were replaced, so no look comes in between */
        if (!overwrite(&writer, 300, 1, 64, 64))
                return false;
        sb_reclaim_due(&writer);
        return sb_spare_count(&writer) >= 300;
}

static void test_what_a_sweep_has_freed_is_no_spare_any_more(void)
{
        CHECK(make_spares());
        sb_work_all(&reader, true);
        CHECK(reader.counters.freed >= 300);
        CHECK(overwrite(&reader, 50, 1, 64, 64));
        CHECK(overwrite(&writer, 1, 1, 64, 64));
        CHECK(sb_spare_count(&writer) < SB_SLAB_CACHE_MAX); /* out of a slab, since */
        CHECK(overwrite(&writer, KEYS, 1, 64, 64));
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_the_value_of_a_new_key_is_built_in_a_spare(void)
{
        uint32_t count;

        CHECK(make_spares());
        count = sb_spare_count(&writer);
        for (uint32_t i = 1; i <= 8; i++) {
                char key[32];

                snprintf(key, sizeof(key), "new/%08u", i);
                CHECK_EQ(put(&writer, key, value, 64), 0);
                CHECK_EQ(sb_spare_count(&writer), count - i);
        }
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_a_client_that_ends_leaves_no_spares(void)
{
        CHECK(make_spares());
        sb_handle_fini(&writer);
        CHECK_EQ(sb_spare_count(&writer), 0);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

static void test_what_was_dated_in_the_era_of_the_look_is_no_spare(void)
{
        struct sb_limbo_entry entry = {.spare = true};

        CHECK(make_spares());
        entry.offset = writer.segment.geometry.units_at;
        entry.era = sb_era_looked(&writer);
        CHECK(!sb_spare_add(&writer, &entry));
        entry.era--;
        CHECK(sb_spare_add(&writer, &entry));
        entry.spare = false;
        CHECK(!sb_spare_add(&writer, &entry));
        unmake_bus();
}

static void test_a_spare_of_ages_ago_is_not_built_in(void)
{
        uint32_t class_, entry;

        CHECK(make_spares());
        class_ = sb_unit_class(&writer.segment, sizeof(struct sb_version) + 12 + 64);
        entry = sb_spare_draw(&writer, class_);
        CHECK(entry != 0);
        sb_add_full(&writer.segment.super->era, SB_ERA_OLD + 1);
        CHECK_EQ(sb_spare_draw(&writer, class_), 0);
        CHECK_EQ(sb_spare_count(&writer), 0);
        unmake_bus();
        CHECK(make_spares());
        sb_add_full(&writer.segment.super->era, SB_ERA_OLD + 1);
        CHECK_EQ(sb_reclaim_free(&writer), 0); /* nor freed */
        CHECK(writer.limbo.left_behind > 0);
        unmake_bus();
}

/* It wants blocks of a class out of slabs when it found no spare of that class, until it has one:
 * else each operation that gives up a slab fills the list further. */
static void test_a_class_that_has_a_spare_wants_none_out_of_a_slab(void)
{
        struct sb_limbo_entry entry = {.spare = true};
        uint32_t class_;
        uint64_t offset;

        CHECK(make_spares());
        class_ = sb_unit_class(&writer.segment, 200);
        CHECK_EQ(sb_spare_wants(&writer, class_), 0);
        CHECK_EQ(sb_spare_draw(&writer, class_), 0);
        CHECK(sb_spare_wants(&writer, class_) > 2);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), 0);
        CHECK(sb_spare_keep(&writer, offset));
        CHECK_EQ(sb_spare_wants(&writer, class_), 0);
        /* The same where it comes out of limbo. */
        CHECK(sb_spare_draw(&writer, class_) != 0 && !sb_spare_draw(&writer, class_));
        CHECK(sb_spare_wants(&writer, class_) > 2);
        entry.offset = offset;
        entry.era = sb_era_looked(&writer) - 1;
        entry.unit_kind = sb_unit_kind_of(&writer.segment, offset);
        CHECK(sb_spare_add(&writer, &entry));
        CHECK_EQ(sb_spare_wants(&writer, class_), 0);
        unmake_bus();
}

/* What it says that it does not keep goes back to the slab: nothing else knows of the block. */
static void test_a_block_that_is_not_kept_stays_its_takers(void)
{
        uint64_t offset;
        uint32_t count;

        CHECK(make_spares());
        count = sb_spare_count(&writer);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), 0);
        /* No era lies before the first one. */
        sb_store_relaxed(&writer.segment.super->era, SB_ERA_MIN);
        CHECK(!sb_spare_keep(&writer, offset));
        CHECK_EQ(sb_spare_count(&writer), count);
        sb_store_relaxed(&writer.segment.super->era, SB_ERA_MIN + 1);
        CHECK(sb_spare_keep(&writer, offset));
        CHECK_EQ(sb_spare_count(&writer), count + 1);
        while (sb_spare_count(&writer) < SB_LIMBO_MAX) {
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), 0);
                CHECK(sb_spare_keep(&writer, offset));
        }
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), 0);
        CHECK(!sb_spare_keep(&writer, offset));
        CHECK_EQ(sb_spare_count(&writer), SB_LIMBO_MAX);
        unmake_bus();
}

/* Whatever lay in the block: a sweep that frees it must not take it for what it was. */
static void test_a_block_out_of_a_slab_is_a_plain_version_of_before(void)
{
        struct sb_version *version;
        uint64_t offset;

        CHECK(make_spares());
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 200, 0, &offset), 0);
        version = sb_version_at(&writer.segment, offset);
        version->shape = SB_SHAPE(1, 0, SB_VERSION_DESCRIPTOR, 0);
        /* A birth that another life left: of an era to come, it would be free at once. */
        sb_store_relaxed(&version->block.birth, SB_ERA_MIN + 1000000);
        CHECK(sb_spare_keep(&writer, offset));
        CHECK_EQ(SB_SHAPE_KIND(version->shape), SB_VERSION_VALUE);
        CHECK_EQ(sb_load_relaxed(&version->block.birth), sb_load_relaxed(&version->block.retire));
        CHECK_EQ(sb_load_relaxed(&version->block.retire),
                sb_era_low(sb_load_relaxed(&writer.segment.super->era) - 1));
        CHECK_EQ(problems(), 0);
        sb_work_all(&reader, true);
        CHECK(!sb_unit_is_block(&writer.segment, offset, SB_UNIT_VERSIONS, NULL));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_set_beside_a_thousand_goes_the_short_way);
        RUN(test_a_set_of_changing_sizes_takes_its_blocks_by_the_batch);
        RUN(test_a_new_key_beside_a_thousand_takes_its_value_from_spares);
        RUN(test_large_values_on_a_small_bus_are_built_in_spares_up_to_a_share);
        RUN(test_what_idle_clients_keep_is_there_for_others);
        RUN(test_what_a_sweep_has_freed_is_no_spare_any_more);
        RUN(test_the_value_of_a_new_key_is_built_in_a_spare);
        RUN(test_a_client_that_ends_leaves_no_spares);
        RUN(test_what_was_dated_in_the_era_of_the_look_is_no_spare);
        RUN(test_a_spare_of_ages_ago_is_not_built_in);
        RUN(test_a_class_that_has_a_spare_wants_none_out_of_a_slab);
        RUN(test_a_block_that_is_not_kept_stays_its_takers);
        RUN(test_a_block_out_of_a_slab_is_a_plain_version_of_before);
        return test_end();
}
