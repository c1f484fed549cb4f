/*
 * Which slabs a client owns (shm/memory/slab.h): it alone takes blocks of them, until they run out,
 * or until it owns more than its share of the units, which falls when more clients come. Then they
 * are any client's.
 */
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/taken.h"
#include "tests/unit/units.h"

static void test_a_slab_has_one_owner_and_is_any_clients_when_it_ran_out(void)
{
        uint32_t per_unit, unit;
        uint64_t offset;

        CHECK(begin(1 << 20, 0));
        per_unit = 4096 / 128;
        for (uint32_t i = 0; i < per_unit; i++)
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 128, 0), 0);
        unit = sb_unit_of(&writer.segment, taken[0].offset);
        CHECK_EQ(sb_unit_of(&writer.segment, taken[per_unit - 1].offset), unit);
        CHECK_EQ(sb_unit_word(&writer.segment, unit),
                SB_UNIT_WORD(SB_UNIT_VERSIONS, sb_unit_class(&writer.segment, 128), writer.slot + 1,
                        writer.generation));
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 128, 0, &offset), 0);
        CHECK(sb_unit_of(&writer.segment, offset) != unit);
        sb_slab_give_back(&reader, offset);
        sb_slab_release_all(&reader);
        /* Empty, and nothing asked for yet: it stays the owner's. */
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 1);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 128, 0), 0);
        CHECK_EQ(owned_by(&writer), 2);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 1);
        CHECK_EQ(SB_UNIT_OWNER(sb_unit_word(&writer.segment, unit)), 0);
        CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)), SB_UNIT_VERSIONS);
        /* Three quarters of it become free: another client goes on in it before it breaks a unit.
         */
        for (uint32_t i = per_unit; i-- > per_unit / 4;)
                sb_unit_clear(&reader, taken[i].offset);
        CHECK_EQ(sb_slab_take(&reader, SB_UNIT_VERSIONS, 128, 0, &offset), 0);
        CHECK_EQ(sb_unit_of(&writer.segment, offset), unit);
        CHECK_EQ(SB_UNIT_OWNER(sb_unit_word(&writer.segment, unit)), sb_unit_owner(&reader));
        unmake_bus();
}

static void test_more_slabs_than_the_list_holds_are_given_up_when_the_operation_ends(void)
{
        enum { SLABS = sizeof(writer.slabs.exhausted) / sizeof(writer.slabs.exhausted[0]) + 2 };

        CHECK(begin(8 << 20, 0));
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 64, 0), 0);
        for (uint32_t i = 0; i < SLABS * 64; i++)
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, 0), 0);
        CHECK(writer.slabs.exhausted_many);
        CHECK_EQ(owned_by(&writer), SLABS + 1);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 2); /* that of the nodes, and the last one, which is full */
        CHECK(!writer.slabs.exhausted_many && !writer.slabs.exhausted_count);
        CHECK(blocks_are_sound());
        unmake_bus();
}

/* Slabs that it uses little. */
static void test_a_client_that_owns_too_many_slabs_gives_all_of_them_up(void)
{
        uint32_t clients, most;

        CHECK(begin(1 << 20, 0));
        clients = sb_roster_count(&writer.segment);
        CHECK_EQ(clients, 3);
        most = units() / 16 / clients;
        CHECK(most > 2 && most + 1 < writer.segment.class_count);
        for (uint32_t i = 0; i < most; i++) {
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, writer.segment.class_size[i], 0), 0);
                sb_slab_settle(&writer);
        }
        CHECK_EQ(owned_by(&writer), most);
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 64, 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(count_bits_set(), taken_count);
        unmake_bus();
}

static void test_it_keeps_the_one_that_it_uses_most(void)
{
        enum { MOST = 2 }; /* the class that is used most */
        uint32_t most, last = 0;

        CHECK(begin(1 << 20, 0));
        most = units() / 16 / sb_roster_count(&writer.segment);
        CHECK(most > MOST + 1);
        for (uint32_t i = 0; i < most; i++) {
                for (uint32_t k = 0; k < (i == MOST ? 33 : i ? 17 : 32); k++)
                        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, writer.segment.class_size[i], 0),
                                0);
                last = i == MOST ? taken_count - 1 : last;
                sb_slab_settle(&writer);
        }
        CHECK_EQ(owned_by(&writer), most);
        CHECK_EQ(take(&writer, SB_UNIT_NODES, 64, 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 1);
        CHECK_EQ(SB_UNIT_OWNER(word_of(taken[last].offset)), sb_unit_owner(&writer));
        sb_slab_release_all(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(count_bits_set(), taken_count);
        unmake_bus();
}

/* Takes all that is left, but for the reserve, as one block. */
static int take_the_rest(struct sb_handle *handle)
{
        uint32_t run = 0, most = 0;

        for (uint32_t i = 0; i < units_for_all(); i++) {
                run = SB_UNIT_KIND(sb_unit_word(&writer.segment, i)) == SB_UNIT_FREE ? run + 1 : 0;
                most = run > most ? run : most;
        }
        return take(handle, SB_UNIT_VERSIONS, (uint64_t)most * 4096, 0);
}

/* What counts is what it owns now: a slab that ran out on a full bus is not its slab any more. */
static void test_slabs_that_ran_out_on_a_full_bus_do_not_count_as_owned(void)
{
        uint32_t most, last;

        CHECK(begin(1 << 20, 0));
        most = units() / 16 / sb_roster_count(&writer.segment);
        CHECK(most > 2 && most < writer.segment.class_count);
        for (uint32_t i = 0; i < most; i++)
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, writer.segment.class_size[i], 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), most);
        CHECK_EQ(take_the_rest(&reader), 0);
        last = taken_count - 1;
        for (uint32_t i = 0; i < most; i++) {
                int r;

                while (!(r = take(&writer, SB_UNIT_VERSIONS, writer.segment.class_size[i], 0)))
                        ;
                CHECK_EQ(r, SB_E_FULL);
        }
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        sb_slab_settle(&reader);
        clear_one(&reader, last);
        for (uint32_t i = most; i < most + 2; i++)
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, writer.segment.class_size[i], 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 2);
        unmake_bus();
}

/* Beside so many that each may keep one slab. */
static bool begin_crowd(uint32_t clients)
{
        struct sb_geometry_wish wish = {
                .size = 1 << 20, .clients = clients, .magazine_count = SB_MAGAZINE_NONE};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        taken_count = 0;
        if (!make_bus_of(&wish))
                return false;
        while (sb_roster_count(&writer.segment) < clients)
                if (sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                        return false;
        return true;
}

/* A write of versions of one size and nodes of one size, so that two slabs are needed. */
static bool write_one(uint64_t size)
{
        bool taken_both = !take(&writer, SB_UNIT_VERSIONS, size, 0) &&
                          !take(&writer, SB_UNIT_VERSIONS, size, 0) &&
                          !take(&writer, SB_UNIT_NODES, 64, 0);

        sb_slab_settle(&writer);
        if (taken_both)
                while (taken_count)
                        clear_one(&writer, 0);
        return taken_both;
}

static void test_the_slab_that_a_client_may_keep_is_one_that_it_uses_now(void)
{
        enum { CLIENTS = 60, SOON = 200 }; /* writes */

        CHECK(begin_crowd(CLIENTS));
        CHECK(CLIENTS > units() / 4 && CLIENTS <= units() / 2);
        for (uint32_t i = 0; i < 2; i++) {
                uint32_t acquired, class_ = i ? 2 : 0;
                uint64_t size = writer.segment.class_size[class_];

                for (uint32_t k = 0; k < SOON; k++)
                        CHECK(write_one(size));
                CHECK(writer.slabs.versions[class_].unit != UINT32_MAX);
                acquired = writer.slabs.acquired;
                for (uint32_t k = 0; k < 10; k++) {
                        CHECK(write_one(size));
                        CHECK_EQ(owned_by(&writer), 1);
                }
                /* The nodes' slab, each time. */
                CHECK_EQ(writer.slabs.acquired - acquired, 10);
        }
        unmake_bus();
}

static void test_more_clients_than_half_of_the_units_keep_no_slabs(void)
{
        enum { CLIENTS = 100 };

        CHECK(begin_crowd(CLIENTS));
        CHECK(CLIENTS > units() / 2);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        unmake_bus();
}

/* A client that took its first slab when it was nearly alone. */
static void test_the_share_of_slabs_falls_when_more_clients_come(void)
{
        enum { CLIENTS = 100, SOON = 16 }; /* slabs */
        struct sb_geometry_wish wish = {
                .size = 1 << 20, .clients = CLIENTS, .magazine_count = SB_MAGAZINE_NONE};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        CHECK(make_bus_of(&wish));
        taken_count = 0;
        CHECK(units() >= 64 && CLIENTS > units() / 4);
        CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, 0), 0);
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 1);
        while (sb_roster_count(&writer.segment) < CLIENTS)
                CHECK_EQ(sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation), 0);
        for (uint32_t i = 0; i < SOON; i++) {
                sb_slab_release_all(&writer);
                CHECK_EQ(take(&writer, SB_UNIT_VERSIONS, 64, 0), 0);
        }
        /* No slab is left for a client that is idle. */
        sb_slab_settle(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        CHECK_EQ(count_bits_set(), taken_count);
        unmake_bus();
}

/* Neither a slab of guards nor one of the reserve counts among a client's slabs of that class: what
 * it owns of versions is given up all the same when none of the others is found. */
static void test_guards_and_the_reserve_are_not_counted_as_slabs_of_versions(void)
{
        for (uint32_t reserve = 0; reserve < 2; reserve++) {
                uint64_t size, offset;

                CHECK(begin(1 << 20, 0));
                size = writer.segment.class_size[writer.segment.reserve_class];
                while (!take(&reader, SB_UNIT_VERSIONS, size, reserve ? SB_SLAB_RESERVE : 0))
                        sb_slab_settle(&reader);
                sb_slab_release_all(&reader);
                /* One block of a slab is free again, and the writer owns that slab. */
                clear_one(&reader, 0);
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &offset), 0);
                CHECK_EQ(owned_by(&writer), 1);
                if (reserve)
                        CHECK_EQ(sb_slab_take(
                                         &writer, SB_UNIT_VERSIONS, 64, SB_SLAB_RESERVE, &offset),
                                SB_E_FULL);
                else
                        CHECK_EQ(
                                sb_slab_take(&writer, SB_UNIT_GUARDS, size, 0, &offset), SB_E_FULL);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                unmake_bus();
        }
}

/* Keys that go take smaller branches of the ordered index, for which the client that sees to them
 * breaks into slabs: the engine, where others left them behind. */
static void test_a_client_that_does_nothing_but_memory_work_keeps_no_slabs_that_ran_out(void)
{
        uint32_t snapshot, cursor = 0, most = 0;
        uint64_t cut;
        char key[24];

        CHECK(make_bus(8 << 20));
        for (uint32_t round = 0; round < 12; round++) {
                for (uint32_t i = 0; i < 4000; i++) {
                        snprintf(key, sizeof(key), "%u/%u", i * 7919 % 4001, round);
                        CHECK_EQ(put(&writer, key, "value", 5), 0);
                }
                CHECK_EQ(sb_snapshot_open(&writer, &snapshot, &cut), 0);
                for (uint32_t i = 0; i < 4000; i++) {
                        snprintf(key, sizeof(key), "%u/%u", i, round);
                        (void)delete (&writer, key);
                }
                sb_snapshot_close(&writer, snapshot);
                for (uint32_t tick = 0; tick < 3000; tick++)
                        (void)sb_work_tick(&reader, &cursor);
                most = owned_by(&reader) > most ? owned_by(&reader) : most;
        }
        TEST_NOTE("slab-owner: it owned %u units at most", most);
        CHECK(reader.counters.freed > 10000 && most < 10);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_slab_has_one_owner_and_is_any_clients_when_it_ran_out);
        RUN(test_more_slabs_than_the_list_holds_are_given_up_when_the_operation_ends);
        RUN(test_a_client_that_owns_too_many_slabs_gives_all_of_them_up);
        RUN(test_it_keeps_the_one_that_it_uses_most);
        RUN(test_the_slab_that_a_client_may_keep_is_one_that_it_uses_now);
        RUN(test_more_clients_than_half_of_the_units_keep_no_slabs);
        RUN(test_slabs_that_ran_out_on_a_full_bus_do_not_count_as_owned);
        RUN(test_the_share_of_slabs_falls_when_more_clients_come);
        RUN(test_guards_and_the_reserve_are_not_counted_as_slabs_of_versions);
        RUN(test_a_client_that_does_nothing_but_memory_work_keeps_no_slabs_that_ran_out);
        return test_end();
}
