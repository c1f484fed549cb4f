/*
 * The work on memory as a whole (shm/upkeep/work.h): how far a slice goes and where a lap ends, how
 * long a sweeper rests after sweeps that free nothing, and that a client beside an observer frees
 * what it replaces without an engine.
 */
#include "ring/op/keep.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/window.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define SLICE 64u /* chunks, where they have no blocks */

static uint64_t swept_next(void)
{
        return sb_load_relaxed(&writer.segment.super->sweep_next);
}

/* Nothing is in the bus, so a slice ends by its chunks. */
static void test_a_lap_without_blocks_is_so_many_slices_and_goes_round_once(void)
{
        uint64_t chunks, slices;

        CHECK(make_bus(8 << 20));
        chunks = sb_sweep_chunks(&writer.segment);
        CHECK(chunks > 4 * SLICE && chunks % SLICE);
        for (uint64_t lap = 1; lap <= 2; lap++) {
                /* The rest after a lap that freed nothing. */
                for (uint32_t rest = 1; lap > 1 && rest; rest--)
                        CHECK(!sb_work_slice(&writer));
                for (slices = 0; !slices || writer.work.lap_end; slices++) {
                        uint64_t before = swept_next();

                        CHECK(sb_work_slice(&writer));
                        CHECK_EQ(swept_next() - before,
                                writer.work.lap_end ? SLICE : chunks % SLICE);
                }
                CHECK_EQ(slices, chunks / SLICE + 1);
                CHECK_EQ(swept_next(), lap * chunks);
        }
        CHECK_EQ(writer.counters.slices, 2 * (chunks / SLICE + 1));
        unmake_bus();
}

/* A lap of one client takes what another one does, too. */
static void test_clients_share_the_chunks_of_their_laps(void)
{
        uint64_t chunks, slices = 0;

        CHECK(make_bus(8 << 20));
        chunks = sb_sweep_chunks(&writer.segment);
        while (swept_next() < chunks) {
                CHECK(sb_work_slice(slices % 2 ? &reader : &writer));
                slices++;
        }
        CHECK(slices <= chunks / SLICE + 2);
        unmake_bus();
}

/* Short memory waits for a grace period that a stopped reader keeps open. When that goes on, the
 * writer's laps have long rests by now. */
static void test_between_laps_a_client_frees_what_it_retired_itself(void)
{
        uint64_t freed;

        CHECK(make_bus(8 << 20) && !put(&writer, "k", "1", 1));
        sb_pin(&reader);
        CHECK(!delete (&writer, "k"));
        for (uint32_t i = 0; writer.work.rest_left < 7 && i < 10000; i++)
                (void)sb_work_slice(&writer);
        CHECK(writer.work.rest_left >= 7 && !sb_limbo_is_empty(&writer));
        sb_unpin(&reader);
        freed = writer.counters.freed;
        CHECK(sb_work_slice(&writer) && writer.work.rest_left >= 6);
        CHECK(writer.counters.freed > freed);
        unmake_bus();
}

/* A commit takes blocks for its list and its keys, finds none for a value, and gives them back; and
 * does so at each try. */
static void test_what_a_try_takes_and_gives_back_is_no_reason_for_another_lap(void)
{
        static char value[100000];
        uint64_t offset;
        char key[16];
        int r = 0;

        CHECK(make_bus(4 << 20));
        for (uint32_t i = 0; r == 0; i++) {
                snprintf(key, sizeof(key), "%u", i);
                r = put(&writer, key, value, sizeof(value));
        }
        CHECK_EQ(r, SB_E_FULL);
        sb_window_begin(&writer);
        for (uint32_t i = 0; writer.work.rest < 64 && i < 20000; i++) {
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 64, 0, &offset), 0);
                sb_slab_give_back(&writer, offset);
                CHECK_EQ(put(&writer, "one more", value, sizeof(value)), SB_E_FULL);
                (void)sb_work_slice(&writer);
        }
        sb_window_end(&writer);
        CHECK_EQ(writer.work.rest, 64);
        unmake_bus();
}

/* Return: how many calls rest before the next lap begins. */
static uint32_t rest_of_laps(void)
{
        uint32_t rest = 0;

        while (!sb_work_slice(&writer) && rest < 1000)
                rest++;
        while (writer.work.lap_end)
                sb_work_slice(&writer);
        return rest;
}

/* What a client that was killed leaves, for a sweep to free. */
static bool leave_a_block(void)
{
        if (put(&writer, "k", "1", 1) || delete (&writer, "k"))
                return false;
        writer.limbo.count = 0;
        writer.limbo.pending_head = writer.limbo.pending_tail;
        return true;
}

static void test_laps_that_free_nothing_are_ever_further_apart(void)
{
        static const uint32_t rests[] = {0, 1, 3, 7, 15, 31, 63, 64, 64};

        CHECK(make_bus(1 << 20));
        for (uint32_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++)
                CHECK_EQ(rest_of_laps(), rests[i]);
        /* Another client leaves work behind: that is worth a lap at once. */
        sb_limbo_leave(&reader);
        CHECK_EQ(rest_of_laps(), 0);
        CHECK_EQ(rest_of_laps(), 64);
        /* One that frees something is followed by the next one, until that frees nothing. */
        CHECK(leave_a_block());
        sb_limbo_leave(&reader);
        CHECK_EQ(rest_of_laps(), 0);
        CHECK_EQ(writer.work.rest, 0);
        for (uint32_t i = 0; !writer.work.rest && i < 4; i++)
                CHECK_EQ(rest_of_laps(), 0);
        CHECK_EQ(writer.work.rest, 1);
        CHECK_EQ(rest_of_laps(), 1);
        CHECK_EQ(writer.work.rest, 3);
        unmake_bus();
}

/* Ticks of the engine, here the reader, until it has swept once more, and something is left behind
 * the whole time. Return: how many of them rested. */
static uint32_t rest_of_sweeps(uint32_t *cursor)
{
        uint32_t rest = 0;

        sb_limbo_leave(&writer);
        while (!sb_work_tick(&reader, cursor) && rest < 1000)
                rest++;
        while (sb_work_sweeping(&reader))
                sb_work_tick(&reader, cursor);
        return rest;
}

static void test_sweeps_that_free_nothing_are_ever_further_apart(void)
{
        static const uint32_t rests[] = {0, 1, 3, 7, 15, 31, 63, 64, 64};
        uint32_t cursor = 0, least;

        CHECK(make_bus(1 << 20));
        least = writer.segment.geometry.unit_count / 16;
        CHECK(least > 7 && least < 31);
        for (uint32_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++)
                CHECK_EQ(rest_of_sweeps(&cursor), !i ? 0 : rests[i] < least ? least : rests[i]);
        /* One that frees something is followed by the next one as soon as any. */
        CHECK(leave_a_block());
        CHECK_EQ(rest_of_sweeps(&cursor), 64);
        for (uint32_t i = 0; reader.work.rest == 0 && i < 4; i++)
                CHECK_EQ(rest_of_sweeps(&cursor), least);
        /* And behind that they free nothing again. */
        CHECK_EQ(reader.work.rest, 1);
        CHECK_EQ(rest_of_sweeps(&cursor), least);
        CHECK_EQ(reader.work.rest, 3);
        sb_work_ask(&reader);
        CHECK_EQ(rest_of_sweeps(&cursor), 0);
        unmake_bus();
}

/* A rest is a time: the ticks that an idle engine leaves out are part of it, and so are those in
 * which no process asks for the next sweep. */
static void test_a_rest_between_sweeps_goes_on_while_the_engine_is_idle(void)
{
        uint32_t cursor = 0, least;

        CHECK(make_bus(1 << 20));
        least = writer.segment.geometry.unit_count / 16;
        CHECK_EQ(rest_of_sweeps(&cursor), 0);
        CHECK_EQ(reader.work.rest_left, least);
        sb_work_pass(&reader, least - 3);
        CHECK(!sb_work_tick(&reader, &cursor)); /* not asked */
        CHECK_EQ(rest_of_sweeps(&cursor), 2);
        sb_work_pass(&reader, UINT64_MAX);
        CHECK_EQ(rest_of_sweeps(&cursor), 0);
        unmake_bus();
}

/* The engine's, too, raise the floor of births, and that of history where more is kept than may be:
 * and what lies below that is there for the next sweep to free. */
static void test_a_sweep_of_the_engines_raises_floors_and_is_followed_by_the_next_one(void)
{
        struct sb_superblock *super;
        uint64_t history, births;
        uint32_t cursor = 0;

        CHECK(make_bus(1 << 20));
        super = writer.segment.super;
        CHECK(!sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        for (uint32_t i = 0; i < 100; i++) {
                CHECK(!put(&writer, "k", "1", 1));
                sb_clock_take_cut(&writer);
        }
        sb_work_all(&writer, false);
        while (reader.work.rest == 0)
                rest_of_sweeps(&cursor);
        history = sb_load_relaxed(&super->history_floor);
        births = sb_load_relaxed(&super->birth_floor);
        sb_store_relaxed(&super->history_limit, 1);
        sb_add_full(&super->era, 3 * SB_ERA_OLD);
        rest_of_sweeps(&cursor);
        CHECK(sb_load_relaxed(&super->history_floor) > history);
        CHECK(sb_load_relaxed(&super->birth_floor) > births);
        CHECK_EQ(reader.work.rest, 0);
        unmake_bus();
}

static void test_a_sweep_without_blocks_is_so_many_ticks(void)
{
        uint32_t cursor = 5, ticks = 0;
        uint64_t chunks;

        CHECK(make_bus(8 << 20));
        chunks = sb_sweep_chunks(&writer.segment);
        sb_work_ask(&reader);
        do {
                CHECK(sb_work_tick(&reader, &cursor));
                ticks++;
                CHECK_EQ(cursor, ticks * SLICE < chunks ? ticks * SLICE : chunks);
        } while (sb_work_sweeping(&reader));
        CHECK_EQ(ticks, chunks / SLICE + 1);
        unmake_bus();
}

static void test_an_engine_with_nothing_to_do_sweeps_nothing(void)
{
        uint32_t cursor = 0;
        uint64_t swept;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "k", "1", 1), 0);
        rest_of_sweeps(&cursor);
        swept = reader.counters.swept;
        for (uint32_t i = 0; i < 500; i++)
                CHECK(!sb_work_tick(&reader, &cursor));
        CHECK_EQ(reader.counters.swept, swept);
        unmake_bus();
}

/* Beside an observer, pruners go by the stable cut. There is no engine here that raises it. */
static void test_a_client_beside_an_observer_needs_no_engine_to_free_what_it_replaced(void)
{
        struct sb_check_report report;
        uint64_t stable, cut;
        uint32_t index;

        CHECK(make_bus(1 << 20));
        sb_store_relaxed(&writer.segment.super->observers, 1);
        stable = sb_load_relaxed(&writer.segment.super->stable);
        for (uint32_t i = 0; i < 20; i++) {
                CHECK_EQ(put(&writer, "k", "1", 1), 0);
                CHECK(!sb_snapshot_open(&reader, &index, &cut)); /* a cut between any two */
                sb_snapshot_close(&reader, index);
                sb_reclaim_pending(&writer);
        }
        CHECK(sb_load_relaxed(&writer.segment.super->stable) > stable);
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK(!report.problem_count && report.versions <= 3);
        sb_reclaim_pending(&writer);
        sb_reclaim_pending(&writer);
        CHECK_EQ(sb_limbo_pending(&writer), 0);
        unmake_bus();
}

/* The reader is stopped at the end of its snapshot: it has seen that no later cut was taken, so it
 * asks for no sweep, and its announcement still stands when the writer looks. */
static void test_what_was_kept_for_a_cut_that_ends_is_found_by_a_sweep(void)
{
        struct sb_check_report report;
        uint32_t cursor = 0, index, other;
        uint64_t cut, later, wanted;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "k", "1", 1), 0);
        CHECK(!sb_snapshot_open(&reader, &index, &cut));
        CHECK_EQ(put(&writer, "k", "2", 1), 0);
        wanted = sb_load_relaxed(&writer.segment.super->sweep_wanted);
        /* A cut that is young may be short: the first look behind it is not the last. */
        for (uint32_t looks = 0; sb_limbo_pending(&writer) && looks < 3; looks++) {
                CHECK(!sb_snapshot_open(&writer, &other, &later));
                sb_store_relaxed(&sb_record_snapshots(writer.record)[other], 0);
                sb_reclaim_pending(&writer);
        }
        CHECK_EQ(sb_limbo_pending(&writer), 0);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), wanted + 1);
        sb_store_relaxed(&sb_record_snapshots(reader.record)[index], 0);
        for (uint32_t i = 0; i < 100 || sb_work_sweeping(&reader); i++)
                sb_work_tick(&reader, &cursor);
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK(!report.problem_count && report.versions == 1);
        unmake_bus();
}

/* It writes, too: it finishes rules that others left half way. */
static void test_a_tick_works_off_what_the_engine_itself_has_left(void)
{
        uint32_t cursor = 0, index;
        uint64_t cut;

        CHECK(make_bus(1 << 20));
        CHECK_EQ(put(&writer, "k", "1", 1), 0);
        CHECK(!sb_snapshot_open(&reader, &index, &cut));
        CHECK_EQ(put(&writer, "k", "2", 1), 0);
        sb_snapshot_close(&reader, index);
        CHECK(sb_limbo_pending(&writer) > 0);
        sb_work_tick(&writer, &cursor);
        sb_work_tick(&writer, &cursor);
        CHECK_EQ(sb_limbo_pending(&writer), 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_a_lap_without_blocks_is_so_many_slices_and_goes_round_once);
        RUN(test_clients_share_the_chunks_of_their_laps);
        RUN(test_between_laps_a_client_frees_what_it_retired_itself);
        RUN(test_what_a_try_takes_and_gives_back_is_no_reason_for_another_lap);
        RUN(test_laps_that_free_nothing_are_ever_further_apart);
        RUN(test_sweeps_that_free_nothing_are_ever_further_apart);
        RUN(test_a_rest_between_sweeps_goes_on_while_the_engine_is_idle);
        RUN(test_a_sweep_of_the_engines_raises_floors_and_is_followed_by_the_next_one);
        RUN(test_a_sweep_without_blocks_is_so_many_ticks);
        RUN(test_an_engine_with_nothing_to_do_sweeps_nothing);
        RUN(test_what_was_kept_for_a_cut_that_ends_is_found_by_a_sweep);
        RUN(test_a_tick_works_off_what_the_engine_itself_has_left);
        RUN(test_a_client_beside_an_observer_needs_no_engine_to_free_what_it_replaced);
        return test_end();
}
