/*
 * Large values on a bus of which a peak has left single small values in all units: what a writer
 * that waits finds in its way besides the versions that move.
 */
#include <stdlib.h>

#include "ring/op/commit.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"

#define SIZE     (4u << 20)
#define UNIT     4096u
#define KEYS     6000u /* of a bus of SIZE */
#define LEN      500u  /* bytes of a value at the peak */
#define STAY     20u   /* one in so many stays as long as it was */
#define TRIES    4000u
#define PENDINGS 8u

static unsigned char bytes[1 << 20];
static char text[64];

static const char *key(uint32_t number)
{
        snprintf(text, sizeof(text), "key-%06u", number);
        return text;
}

/* What was replaced goes, and each client lets go of what it keeps for later. */
static void settle(void)
{
        for (uint32_t i = 0; i < PENDINGS; i++) {
                sb_work_all(&writer, true);
                sb_magazine_release_all(&writer);
        }
        sb_slab_release_all(&writer);
}

/* A bus of @times SIZE on which a peak has passed: the nodes come first, then values up to the last
 * unit, and then
 * all but one in STAY become short again. Return: how many keys had a long value, or 0. */
static uint32_t pass_a_peak(uint32_t times)
{
        bool good = make_bus(times * SIZE);
        uint32_t keys = times * KEYS, end = 0;

        for (uint32_t i = 0; good && i < keys; i++)
                good = put(&writer, key(i), bytes, 1) == 0;
        settle();
        while (good && end < keys && put_patiently(&writer, key(end), bytes, LEN) == 0)
                end++;
        for (uint32_t i = 0; good && i < end; i++)
                good = i % STAY == 0 || put_patiently(&writer, key(i), bytes, 1) == 0;
        settle();
        return good ? end : 0;
}

/* Writes a value as a call that waits does. Return: the tries behind the first one, or TRIES. */
static uint32_t put_waiting(const char *name, uint64_t len)
{
        uint32_t tries = 0;

        if (put(&writer, name, bytes, len) == 0)
                return 0;
        sb_window_begin(&writer);
        while (tries++ < TRIES) {
                sb_work_slice(&writer);
                if (put(&writer, name, bytes, len) == 0)
                        break;
        }
        sb_window_end(&writer);
        return tries;
}

static uint32_t owned_by(const struct sb_handle *handle)
{
        const struct sb_segment *segment = &reader.segment;
        uint32_t count = 0;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(segment, unit);
                enum sb_unit_kind kind = SB_UNIT_KIND(word);

                count += kind != SB_UNIT_FREE && kind < SB_UNIT_PART &&
                         SB_UNIT_OWNER(word) == sb_unit_owner(handle);
        }
        return count;
}

/* Commits @count values of these lengths, as a call that waits does. Return: as put_waiting(). */
static uint32_t commit_waiting(const uint64_t *lens, uint32_t count)
{
        static const char *const keys[] = {"large-a", "large-b", "large-c"};
        struct sb_commit_write writes[3] = {{0}};
        struct sb_commit_wish wish = {.writes = writes, .write_count = count};
        struct sb_commit_result result;
        uint32_t tries = 0;
        uint64_t cut;

        for (uint32_t i = 0; i < count; i++)
                writes[i] = (struct sb_commit_write){.key = keys[i],
                        .key_len = 7,
                        .value = bytes,
                        .value_len = lens[i],
                        .kind = SB_VERSION_VALUE};
        if (sb_snapshot_open(&writer, &wish.snapshot, &cut))
                return TRIES;
        wish.cut = cut;
        sb_window_begin(&writer);
        while (tries < TRIES && sb_commit_run(&writer, &wish, &result) == SB_E_FULL) {
                sb_work_slice(&writer);
                tries++;
        }
        sb_window_end(&writer);
        sb_snapshot_close(&writer, wish.snapshot);
        return tries;
}

static void test_a_transaction_finds_room_for_several_large_values(void)
{
        static const struct {
                uint64_t lens[3];
                uint32_t count;
        } rows[] = {{{60000}, 1}, {{60000, 60000}, 2}, {{60000, 40000}, 2}, {{40000, 60000}, 2},
                {{30000, 30000, 30000}, 3}};

        for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                CHECK(pass_a_peak(1) > 0);
                CHECK(commit_waiting(rows[i].lens, rows[i].count) <= 16);
                sb_pin(&reader);
                CHECK(find("large-a") && sb_version_has_value(find("large-a")));
                sb_unpin(&reader);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                unmake_bus();
        }
}

/* An idle client keeps them on its lists, and frees none. */
static void test_what_an_idle_neighbour_deleted_is_not_in_the_way(void)
{
        uint32_t end = pass_a_peak(1), deleted = 0;

        CHECK(end > 0);
        for (uint32_t i = 0; i < end && deleted < 100; i += 2 * STAY, deleted++)
                CHECK_EQ(delete (&reader, key(i)), 0);
        CHECK_EQ(deleted, 100);
        CHECK(put_waiting("large", 30 * UNIT - 100) <= 16);
        unmake_bus();
}

static void test_what_the_writer_itself_keeps_for_later_is_not_in_the_way(void)
{
        uint32_t end = pass_a_peak(4);

        CHECK(end > 0);
        for (uint32_t i = 0; i < end; i += STAY * (end / STAY / 300 + 1))
                CHECK_EQ(put_patiently(&writer, key(i), bytes, LEN), 0);
        CHECK(writer.magazine.held > 100);
        CHECK(put_waiting("large", 60 * UNIT - 100) <= 16);
        unmake_bus();
}

/* A thread that is cancelled in its wait does not come to the wait's end. */
static void test_a_client_that_ends_in_a_wait_gives_its_window_up(void)
{
        struct sb_check_report report = {0};

        CHECK(pass_a_peak(1) > 0);
        sb_window_begin(&writer);
        for (uint32_t i = 0; i < TRIES && sb_window_count(&writer) == 0; i++) {
                CHECK_EQ(put(&writer, "large", bytes, 500 * UNIT), SB_E_FULL);
                sb_work_slice(&writer);
        }
        CHECK(owned_by(&writer) > 0);
        sb_handle_fini(&writer);
        CHECK_EQ(owned_by(&writer), 0);
        sb_check(&reader, true, &report);
        CHECK_EQ(report.problem_count, 0);
        unmake_bus();
}

/* ---- a sweep beside a mover ---- */

/* A key's newest version; no other process works. */
static struct sb_version *look(const char *name)
{
        struct sb_version *version;

        sb_pin(&reader);
        version = find(name);
        sb_unpin(&reader);
        return version;
}

static uint32_t unit_of(const char *name)
{
        return sb_unit_of(&writer.segment, sb_offset_of(&writer.segment, look(name)));
}

/* One sweep of the engine's that is asked for now, up to chunk @end. */
static void sweep_to(uint32_t *cursor, uint32_t end)
{
        do
                sb_work_tick(&reader, cursor);
        while (sb_work_sweeping(&reader) && *cursor < end);
}

/* Has the head of this chain move, out of a window of half of the bus. */
static void move_away(const char *name)
{
        uint32_t from = unit_of(name);
        uint64_t at;

        sb_window_begin(&writer);
        for (uint32_t i = 0; i < TRIES && unit_of(name) == from; i++) {
                CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, 450 * UNIT, 0, &at), SB_E_FULL);
                sb_move(&writer);
        }
        sb_window_end(&writer);
        CHECK(unit_of(name) < from);
}

/* The sweep looks at a chain where its newest version lies, and has not come there yet. */
static void test_a_sweep_does_not_miss_what_moves_to_where_it_was(void)
{
        uint32_t snapshots[2], cursor = 0, end = 0;
        uint64_t cut;

        CHECK(make_bus(SIZE));
        for (uint32_t i = 0; i < KEYS; i++)
                CHECK_EQ(put(&writer, key(i), bytes, 1), 0);
        for (uint32_t i = 0; i < 2; i++) {
                CHECK_EQ(put(&writer, "chain", bytes, 1), 0);
                CHECK_EQ(sb_snapshot_open(&reader, &snapshots[i], &cut), 0);
        }
        settle();
        while (end < KEYS && put_patiently(&writer, key(end), bytes, LEN) == 0)
                end++;
        CHECK_EQ(put_patiently(&writer, key(end - 1), bytes, 1), 0);
        CHECK_EQ(put_patiently(&writer, "chain", bytes, LEN - 20), 0);
        for (uint32_t i = 0; i < end; i++)
                if (i % STAY != 0)
                        CHECK_EQ(put_patiently(&writer, key(i), bytes, 1), 0);
        settle();
        sb_work_ask(&reader);
        sweep_to(&cursor, UINT32_MAX);
        CHECK_EQ(chain_len("chain"), 3);
        sb_snapshot_close(&reader, snapshots[0]);
        sb_work_ask(&reader);
        sweep_to(&cursor, unit_of("chain") * 3 / 4);
        CHECK(sb_work_sweeping(&reader));
        CHECK_EQ(chain_len("chain"), 3);
        move_away("chain");
        sweep_to(&cursor, UINT32_MAX);
        sb_reclaim_pending(&writer);
        CHECK_EQ(chain_len("chain"), 2);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_transaction_finds_room_for_several_large_values);
        RUN(test_what_an_idle_neighbour_deleted_is_not_in_the_way);
        RUN(test_what_the_writer_itself_keeps_for_later_is_not_in_the_way);
        RUN(test_a_client_that_ends_in_a_wait_gives_its_window_up);
        RUN(test_a_sweep_does_not_miss_what_moves_to_where_it_was);
        return test_end();
}
