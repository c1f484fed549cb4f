/*
 * Moving (shm/upkeep/move.h): what a copy is, what moves and what stays, and that a large value
 * finds room where versions lie scattered.
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/copy.h"
#include "tests/unit/draw.h"

#define KEYS_MAX 4000u
#define TINY     8u /* bytes of a value that lies with its like, low down */

static uint32_t limit; /* the units from here on are a reserve */
static struct {
        uint64_t rev;
        uint32_t len; /* of the value */
} keys[KEYS_MAX];
static uint32_t key_count;
static unsigned char bytes[4 << 20];

static bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 3,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        draw_state = size ^ unit_size;
        key_count = 0;
        if (!make_bus_of(&wish))
                return false;
        limit = writer.segment.geometry.unit_count - writer.segment.geometry.reserve_count;
        return true;
}

static const char *key_of(uint32_t i)
{
        static char text[16];

        snprintf(text, sizeof(text), "k%05u", i);
        return text;
}

/* Key @i gets a value of @len bytes, which are all the same. */
static int set(uint32_t i, uint32_t len)
{
        struct sb_op_write write = {.key = key_of(i),
                .key_len = 6,
                .value = bytes,
                .value_len = len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;
        int r;

        memset(bytes, 'a' + (int)(i % 26), len);
        r = sb_op_write(&writer, &write, &result);
        if (!r) {
                keys[i].rev = result.rev;
                keys[i].len = len;
        }
        return r;
}

static bool is_sound(void)
{
        struct sb_check_report report;

        sb_work_all(&writer, true);
        sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        if (sb_check(&writer, true, &report))
                return false;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return !report.problem_count;
}

/* A key's newest version; no other process works. */
static struct sb_version *look(const char *key)
{
        struct sb_version *version;

        sb_pin(&reader);
        version = find(key);
        sb_unpin(&reader);
        return version;
}

/* Whether all keys are what they were set to. */
static bool all_there(void)
{
        bool right = true;

        for (uint32_t i = 0; i < key_count && right; i++) {
                struct sb_version *version = look(key_of(i));

                right = version && version->rev == keys[i].rev &&
                        SB_SHAPE_VALUE_LEN(version->shape) == keys[i].len &&
                        (!keys[i].len ||
                                (version->bytes[6] == 'a' + i % 26 &&
                                        version->bytes[6 + keys[i].len - 1] == 'a' + i % 26));
        }
        return right;
}

/* Keys are made, with tiny values; then they get values of @len bytes, until the bus is full; then
 * all but each @apart-th get tiny ones again. So nodes lie low down, and single versions all over
 * the rest. */
static bool scatter(uint32_t len, uint32_t apart)
{
        uint32_t unit_size = writer.segment.geometry.unit_size, grown = 0;
        uint32_t room = len < unit_size ? limit * (unit_size / (len + 64)) : limit / 2 + 1;

        for (key_count = 0; key_count < KEYS_MAX && key_count < room; key_count++)
                if (set(key_count, TINY))
                        break;
        while (grown < key_count && !set(grown, len))
                grown++;
        if (grown == key_count || grown < 40)
                return false;
        for (uint32_t i = 0; i < grown; i++)
                if (i % apart && set(i, TINY))
                        return false;
        for (uint32_t i = 0; i < 3; i++)
                sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        return true;
}

static uint32_t owned_by(const struct sb_handle *handle)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < writer.segment.geometry.unit_count; i++) {
                uint64_t word = sb_unit_word(&writer.segment, i);

                count += word && SB_UNIT_KIND(word) < SB_UNIT_PART &&
                         SB_UNIT_OWNER(word) == sb_unit_owner(handle);
        }
        return count;
}

/* Wait for a block, as a write does. Return: where it begins, or 0. */
static uint64_t wait_for_block(enum sb_unit_kind kind, uint64_t size)
{
        uint64_t offset = 0;

        sb_window_begin(&writer);
        for (uint32_t rest = 0; rest < 200; rest += !sb_work_slice(&writer))
                if (!sb_slab_take(&writer, kind, size, 0, &offset))
                        break;
        sb_window_end(&writer);
        return offset;
}

/* The same for a run of @count units. */
static uint64_t wait_for(uint32_t count)
{
        return wait_for_block(
                SB_UNIT_VERSIONS, (uint64_t)count * writer.segment.geometry.unit_size);
}

/* Own a unit as a window of one. */
static bool own(uint32_t unit)
{
        uint64_t word = sb_unit_word(&writer.segment, unit);

        sb_window_begin(&writer);
        sb_window_take(&writer, 1, limit);
        if (SB_UNIT_KIND(word) != SB_UNIT_VERSIONS || SB_UNIT_OWNER(word) ||
                !sb_cas64_full(
                        &writer.segment.unit_words[unit], word, word | sb_unit_owner(&writer)))
                return false;
        writer.window.first = unit;
        writer.window.count = 1;
        return true;
}

static uint32_t unit_of(const struct sb_version *version)
{
        return sb_unit_of(&writer.segment, sb_offset_of(&writer.segment, version));
}

/* ---- room ---- */

static void test_a_large_value_finds_room_where_versions_lie_scattered(void)
{
        static const uint32_t counts[] = {2, 3, 64, 65, 0};
        static const struct {
                uint64_t size;
                uint32_t unit_size, len;
        } shapes[] = {{1 << 20, 1024, 400}, {1 << 20, 4096, 1200}};

        for (uint32_t s = 0; s < 2; s++)
                for (uint32_t i = 0; i < 5; i++) {
                        uint32_t count = counts[i];
                        uint64_t offset;

                        CHECK(begin(shapes[s].size, shapes[s].unit_size));
                        CHECK(scatter(shapes[s].len, s ? 3 : 2));
                        count = count ? count : limit / 3;
                        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS,
                                         (uint64_t)count * shapes[s].unit_size, 0, &offset),
                                SB_E_FULL);
                        offset = wait_for(count);
                        if (!offset)
                                TEST_FAIL("%u of %u units of %u bytes: no room", count, limit,
                                        shapes[s].unit_size);
                        CHECK(writer.counters.moved > 0);
                        CHECK(all_there());
                        /* As a block that was never published. */
                        sb_slab_give_back(&writer, offset);
                        sb_slab_release_all(&writer);
                        CHECK_EQ(owned_by(&writer), 0);
                        CHECK(is_sound());
                        CHECK(all_there());
                        unmake_bus();
                }
}

/* Runs that are there without moving anything. */
static uint64_t runs[512];
static uint32_t run_count;

static void take_runs(uint32_t count)
{
        uint64_t size = (uint64_t)count * writer.segment.geometry.unit_size;

        for (run_count = 0; run_count < 512; run_count++)
                if (sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &runs[run_count]))
                        break;
}

static void give_runs_back(void)
{
        while (run_count)
                sb_slab_give_back(&writer, runs[--run_count]);
}

static void test_values_of_one_unit_or_several_move_for_a_larger_one(void)
{
        static const uint32_t counts[] = {4, 5, 20, 100}, lens[] = {900, 1900, 3000};

        for (uint32_t i = 0; i < 12; i++) {
                uint32_t count = counts[i % 4];
                uint64_t offset;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(lens[i / 4], 2));
                take_runs(count);
                writer.counters.moved = 0;
                offset = wait_for(count);
                if (!offset)
                        TEST_FAIL("values of %u bytes, %u units: no room", lens[i / 4], count);
                CHECK(writer.counters.moved > 0);
                CHECK(all_there());
                sb_slab_give_back(&writer, offset);
                give_runs_back();
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
}

/* No unit is free, and none is a slab of this size. */
static void test_where_all_units_have_blocks_of_another_size_one_is_emptied(void)
{
        static const struct {
                enum sb_unit_kind kind;
                uint64_t size;
        } wishes[] = {{SB_UNIT_VERSIONS, 200}, {SB_UNIT_NODES, 200}, {SB_UNIT_NODES, 500}};

        for (uint32_t i = 0; i < 3; i++) {
                uint64_t offset, size, taken[64];
                uint32_t count = 0;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(400, 2));
                /* Nodes have a part of the reserve. */
                while (count < 64 &&
                        !sb_slab_take(&writer, wishes[i].kind, wishes[i].size, 0, &taken[count]))
                        count++;
                CHECK(wishes[i].kind == SB_UNIT_NODES ? count > 0 && count < 64 : !count);
                sb_slab_settle(&writer);
                offset = wait_for_block(wishes[i].kind, wishes[i].size);
                CHECK(offset);
                CHECK(writer.counters.moved > 0);
                CHECK(sb_unit_is_block(&writer.segment, offset, wishes[i].kind, &size));
                CHECK(size >= wishes[i].size && size < 1024);
                CHECK(all_there());
                sb_slab_give_back(&writer, offset);
                while (count)
                        sb_slab_give_back(&writer, taken[--count]);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
}

static void test_the_movers_own_slabs_are_not_in_the_way(void)
{
        uint32_t unit, end = 0, count;
        uint64_t word, offset;

        CHECK(begin(1 << 20, 1024));
        CHECK(scatter(400, 4));
        /* In the middle of the units below all nodes. */
        while (end < limit && SB_UNIT_KIND(sb_unit_word(&writer.segment, end)) != SB_UNIT_NODES)
                end++;
        for (unit = end / 2;; unit--) {
                word = sb_unit_word(&writer.segment, unit);
                if (SB_UNIT_KIND(word) == SB_UNIT_VERSIONS)
                        break;
                CHECK(unit);
        }
        CHECK(sb_cas64_full(&writer.segment.unit_words[unit], word, word | sb_unit_owner(&writer)));
        writer.slabs.versions[SB_UNIT_CLASS(word)].unit = unit;
        writer.slabs.owned[0] |= UINT64_C(1) << SB_UNIT_CLASS(word);
        count = end / 2 + 1;
        offset = wait_for(count);
        CHECK(offset);
        sb_slab_give_back(&writer, offset);
        sb_slab_release_all(&writer);
        CHECK(is_sound());
        CHECK(all_there());
        unmake_bus();
}

/* A copy is as old as its original, so that client would hold each copy as well, without end. */
static void test_what_a_stopped_client_knows_does_not_move(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(scatter(400, 4));
        sb_pin(&reader);
        for (uint32_t i = 0; i < 8; i++)
                sb_era_advance(&writer);
        writer.counters.moved = 0;
        CHECK_EQ(wait_for(limit / 4), 0);
        CHECK_EQ(writer.counters.moved, 0);
        sb_unpin(&reader);
        CHECK(wait_for(limit / 4) > 0);
        CHECK(writer.counters.moved > 0);
        sb_slab_release_all(&writer);
        unmake_bus();
}

/* One that reads just now lets go soon. */
static void test_what_a_client_reads_just_now_moves(void)
{
        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "k", "1", 1));
        sb_slab_release_all(&writer);
        CHECK(own(unit_of(look("k"))));
        sb_pin(&reader);
        CHECK(sb_move(&writer));
        sb_unpin(&reader);
        CHECK_EQ(writer.counters.moved, 1);
        sb_window_end(&writer);
        unmake_bus();
}

static void test_where_nothing_can_move_it_is_full_and_nothing_is_lost(void)
{
        for (uint32_t round = 0; round < 2; round++) {
                uint32_t held = 0;

                CHECK(begin(1 << 20, 4096));
                CHECK(scatter(1200, 3));
                /* All versions are in a hand; or there is no block for a copy. */
                sb_pin(&writer);
                for (uint32_t i = 0; i < key_count && !round; i++) {
                        struct sb_version *version = look(key_of(i));

                        if (version && keys[i].len > TINY) {
                                sb_store_relaxed(&version->block.retire, SB_RETIRE_FREEING);
                                held++;
                        }
                }
                sb_unpin(&writer);
                if (round) {
                        uint64_t offset;

                        for (uint32_t class_ = writer.segment.class_count; class_--;)
                                while (!sb_slab_take(&reader, SB_UNIT_VERSIONS,
                                        writer.segment.class_size[class_], 0, &offset))
                                        ;
                        sb_slab_release_all(&reader);
                }
                CHECK_EQ(wait_for(20), 0);
                sb_slab_release_all(&writer);
                CHECK_EQ(owned_by(&writer), 0);
                CHECK(all_there());
                sb_pin(&writer);
                for (uint32_t i = 0; i < key_count && held; i++) {
                        struct sb_version *version = look(key_of(i));

                        if (sb_load_relaxed(&version->block.retire))
                                sb_store_relaxed(&version->block.retire, 0);
                }
                sb_unpin(&writer);
                if (!round) {
                        uint64_t offset = wait_for(20);

                        CHECK(offset);
                        sb_slab_give_back(&writer, offset);
                        sb_slab_release_all(&writer);
                        CHECK(is_sound());
                        CHECK(all_there());
                }
                unmake_bus();
        }
}

/* ---- a copy ---- */

/* Move what lies in the unit. Return: whether it is empty by then. */
static bool drain(uint32_t unit)
{
        bool empty;

        sb_slab_release_all(&writer);
        if (!own(unit))
                return false;
        for (uint32_t i = 0; i < 8 && sb_window_count(&writer); i++)
                sb_move(&writer);
        empty = sb_unit_is_empty(&writer.segment, unit);
        sb_window_end(&writer);
        sb_slab_release_all(&writer);
        return empty && !owned_by(&writer);
}

/* Drain each slab of versions there is, once. */
static bool drain_all(void)
{
        bool drained = true;

        sb_slab_release_all(&writer);
        for (uint32_t unit = 0; unit < limit; unit++)
                if (SB_UNIT_KIND(sb_unit_word(&writer.segment, unit)) == SB_UNIT_VERSIONS)
                        drained = drain(unit) && drained;
        return drained;
}

/* What is told of a version apart from where it lies. */
struct link {
        struct sb_version *version;
        uint64_t rev, stamp, node, shape;
        uint32_t birth;
        unsigned char bytes[64];
};

static uint32_t list_chain(const char *key, struct link *links, uint32_t most)
{
        struct sb_version *version = look(key);
        uint32_t count = 0;

        for (; version && count < most; count++) {
                struct link *link = &links[count];
                uint64_t size = sb_version_size(version->shape) - sizeof(*version);

                memset(link, 0, sizeof(*link));
                link->version = version;
                link->rev = version->rev;
                link->stamp = sb_load_relaxed(&version->stamp);
                link->node = version->node;
                link->shape = version->shape;
                link->birth = sb_load_relaxed(&version->block.birth);
                memcpy(link->bytes, version->bytes,
                        size < sizeof(link->bytes) ? size : sizeof(link->bytes));
                version = sb_version_at(
                        &writer.segment, sb_load_relaxed(&version->prev) & SB_OFFSET_MASK);
        }
        return count;
}

static bool is_same(const struct link *a, const struct link *b)
{
        return a->rev == b->rev && a->stamp == b->stamp && a->node == b->node &&
               a->shape == b->shape && a->birth == b->birth &&
               !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Chains of values, deletes and transactions' versions, at stamps 10, 20, ...; a cut is open at
 * each. */
static void test_a_version_that_moved_is_the_same_write(void)
{
        static const uint32_t kinds[] = {SB_VERSION_VALUE, SB_VERSION_DELETED,
                SB_VERSION_VALUE | SB_VERSION_HAS_TXN, SB_VERSION_DELETED | SB_VERSION_HAS_TXN};
        uint64_t moved = 0;

        for (uint32_t round = 0; round < 40; round++) {
                struct link before[4][8], after[4][8];
                uint32_t counts[4], cuts = 0;

                CHECK(begin(1 << 18, round % 2 ? 256 : 1024));
                draw_state = 900 + round;
                for (uint32_t stamp = 10; stamp <= 60; stamp += 10) {
                        sb_store_relaxed(sb_record_snapshots(reader.record) + cuts++, stamp);
                        sb_pin(&writer);
                        for (uint32_t i = 0; i < 4; i++)
                                if (stamp == 10 || draw(3)) {
                                        CHECK(push(key_of(i), kinds[draw(4)], stamp));
                                }
                        sb_unpin(&writer);
                        sb_store_relaxed(&writer.segment.super->clock, stamp + 5);
                }
                sb_store_relaxed(&writer.segment.super->clock, 100);
                sb_store_relaxed(&writer.segment.super->stable, 90);
                sb_work_all(&writer, true); /* placeholders go */
                for (uint32_t i = 0; i < 4; i++)
                        counts[i] = list_chain(key_of(i), before[i], 8);
                writer.counters.moved = 0;
                sb_era_advance(&writer);
                CHECK(drain_all());
                moved += writer.counters.moved;
                for (uint32_t i = 0; i < 4; i++) {
                        bool txn_above = false;

                        CHECK_EQ(list_chain(key_of(i), after[i], 8), counts[i]);
                        for (uint32_t j = 0; j < counts[i]; j++) {
                                uint64_t link = sb_load_relaxed(&after[i][j].version->prev);

                                CHECK(is_same(&before[i][j], &after[i][j]));
                                CHECK(!(link & (SB_PREV_TRIMMED | SB_PREV_MARKED)));
                                txn_above = SB_SHAPE_KIND(after[i][j].shape) & SB_VERSION_HAS_TXN;
                                CHECK(txn_above || !(link & SB_PREV_SETTLED));
                                CHECK(!txn_above || (link & SB_PREV_SETTLED));
                        }
                        /* What was read in each cut is read there still. (A key of which
                         * nothing but a delete was there is gone.) */
                        for (uint64_t cut = 12; counts[i] && cut < 70; cut += 10) {
                                struct sb_version *version;
                                uint32_t j = 0;

                                sb_pin(&reader);
                                version = sb_find_at(
                                        &reader, key_of(i), 6, hash_of(key_of(i), 6), cut);
                                sb_unpin(&reader);
                                while (before[i][j].stamp > cut)
                                        j++;
                                if (SB_SHAPE_KIND(before[i][j].shape) & SB_VERSION_DELETED)
                                        CHECK(!version || version->rev == before[i][j].rev);
                                else
                                        CHECK(version && version->rev == before[i][j].rev);
                        }
                }
                unmake_bus();
        }
        CHECK(moved > 300);
}

/* A birth that a sweep may be about to label is not passed on, for the sweep may have been where
 * the copy lies. */
static void test_a_copy_is_as_old_as_its_original_unless_that_is_too_old_to_say(void)
{
        static const struct {
                uint64_t age;
                bool labelled, same;
        } rows[] = {{1000, false, true}, {SB_ERA_OLD / 8 * 3, false, true},
                {SB_ERA_OLD / 8 * 5, false, false}, {SB_ERA_OLD / 8 * 7, false, false},
                {SB_ERA_OLD / 8 * 7, true, true}};

        for (uint32_t i = 0; i < 5; i++) {
                struct sb_version *version;
                uint64_t era;
                uint32_t birth;

                CHECK(begin(1 << 20, 1024));
                CHECK(!put(&writer, "k", "1", 1));
                sb_slab_release_all(&writer);
                version = look("k");
                era = sb_load_relaxed(&writer.segment.super->era);
                if (rows[i].labelled) {
                        sb_store_relaxed(&reader.record->base[0], SB_BASE(era, 5));
                        sb_store_relaxed(&version->block.birth,
                                SB_BIRTH_OF(reader.slot * SB_RECORD_BASES, 5));
                }
                birth = sb_load_relaxed(&version->block.birth);
                sb_store_relaxed(&writer.segment.super->era, sb_era_whole(era + rows[i].age));
                CHECK(drain(unit_of(version)));
                CHECK(look("k") != version);
                CHECK_EQ(sb_load_relaxed(&look("k")->block.birth),
                        rows[i].same ? birth : SB_BIRTH_FIRST);
                unmake_bus();
        }
}

/* ---- how much one call does ---- */

static void test_one_call_moves_so_many_versions_or_bytes_and_the_next_one_goes_on(void)
{
        static const struct {
                uint64_t size;
                uint32_t unit_size, count, len, most; /* most: versions in one call */
        } rows[] = {{8 << 20, 64 << 10, 300, 60, 64}, {32 << 20, 1 << 20, 16, 60000, 5}};

        for (uint32_t i = 0; i < 2; i++) {
                uint32_t unit;
                uint64_t moved;

                CHECK(begin(rows[i].size, rows[i].unit_size));
                while (key_count < rows[i].count)
                        CHECK(!set(key_count++, rows[i].len));
                sb_slab_release_all(&writer);
                unit = unit_of(look(key_of(0)));
                CHECK_EQ(unit_of(look(key_of(key_count - 1))), unit);
                CHECK(own(unit));
                do {
                        moved = writer.counters.moved;
                        CHECK(sb_move(&writer));
                        moved = writer.counters.moved - moved;
                        CHECK(moved > 0 && moved <= rows[i].most);
                        /* A call that moved something has not waited in vain. */
                        CHECK_EQ(sb_window_waited(&writer), 0);
                } while (writer.counters.moved < key_count);
                CHECK_EQ(sb_window_count(&writer), 1);
                sb_window_end(&writer);
                CHECK(all_there());
                CHECK(is_sound());
                unmake_bus();
        }
}

/* Of a slice of work, too: a write that waits pauses when there is nothing to do. */
static void test_as_long_as_it_searches_or_moves_there_is_something_to_do(void)
{
        CHECK(begin(8 << 20, 1024));
        CHECK(limit > 4096);
        sb_window_begin(&writer);
        CHECK_EQ(sb_window_take(&writer, limit, limit), SB_VACANCY_NONE);
        CHECK(sb_move(&writer));
        CHECK(!sb_window_count(&writer));
        sb_window_end(&writer);
        CHECK(!put(&writer, "k", "1", 1));
        sb_slab_release_all(&writer);
        while (sb_work_slice(&writer) || !writer.work.rest_left)
                ;
        CHECK(own(unit_of(look("k"))));
        CHECK(sb_work_slice(&writer));
        CHECK_EQ(writer.counters.moved, 1);
        sb_window_end(&writer);
        unmake_bus();
}

/* The cut that needed the older version has ended since the mover asked last. */
static void test_what_no_cut_needs_goes_and_is_not_copied(void)
{
        struct sb_version *old;
        uint32_t snapshot;
        uint64_t cut;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "k", "1", 1));
        old = look("k");
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(!put(&writer, "k", "2", 1));
        sb_work_all(&writer, true);
        CHECK(look("k") != old && !sb_load_relaxed(&old->block.retire));
        sb_snapshot_close(&reader, snapshot);
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(drain(unit_of(old)));
        CHECK_EQ(writer.counters.moved, 1);
        sb_snapshot_close(&reader, snapshot);
        CHECK(is_sound());
        unmake_bus();
}

/* ---- what stays ---- */

/* Under the writer's pin: a rule keeps the key's last versions. */
static void keep_last(const char *key, uint32_t count)
{
        struct sb_spot spot;

        if (!spot_of(key, &spot))
                abort();
        sb_or_full(spot.cell, SB_CELL_KEPT);
        sb_store_relaxed(&((struct sb_node *)sb_node_at(&writer.segment, spot.head->node))->rule,
                SB_RULE_WORD(SB_RULE_LAST, count));
}

static void test_what_is_in_a_hand_or_undecided_stays_and_another_window_is_found(void)
{
        enum { HELD, FREEING, INTENT, UNHELD, STATES }; /* UNHELD: an intent, as if damaged */

        for (uint32_t state = 0; state < STATES; state++) {
                struct sb_version *version;
                struct sb_descriptor *commit;
                uint64_t word, stamp, offset;
                uint32_t unit, number = 0;

                CHECK(begin(1 << 20, 4096));
                sb_pin(&writer);
                commit = make_descriptor(50, 1, 0);
                sb_unpin(&writer);
                CHECK(commit && scatter(1200, 3));
                /* In the highest slab, at which a search begins. */
                version = NULL;
                for (uint32_t i = 0; i < key_count; i++) {
                        struct sb_version *other = look(key_of(i));

                        if (keys[i].len > TINY && (!version || unit_of(other) > unit_of(version))) {
                                version = other;
                                number = i;
                        }
                }
                CHECK(version);
                unit = unit_of(version);
                word = sb_load_relaxed(&version->block.retire);
                stamp = sb_load_relaxed(&version->stamp);
                if (state == HELD || state == INTENT)
                        sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
                if (state == FREEING)
                        sb_store_relaxed(&version->block.retire, SB_RETIRE_FREEING);
                if (state == INTENT || state == UNHELD)
                        sb_store_relaxed(&version->stamp, intent_of(commit));
                /* What is in a hand gives the window up, and there is more to do. */
                sb_slab_release_all(&writer);
                CHECK(own(unit));
                CHECK_EQ(sb_move(&writer), state != UNHELD);
                CHECK_EQ(sb_window_count(&writer) == 0, state != UNHELD);
                sb_window_end(&writer);
                CHECK(!drain(unit));
                CHECK(state >= INTENT || look(key_of(number)) == version);
                CHECK(!owned_by(&writer));
                offset = wait_for(6);
                CHECK(offset);
                CHECK(unit < sb_unit_of(&writer.segment, offset) ||
                        unit >= sb_unit_of(&writer.segment, offset) + 6);
                CHECK_EQ(unit_of(version), unit);
                CHECK(sb_unit_is_block(&writer.segment, sb_offset_of(&writer.segment, version),
                        SB_UNIT_VERSIONS, NULL));
                sb_store_relaxed(&version->stamp, stamp);
                sb_store_relaxed(&version->block.retire, (uint32_t)word);
                CHECK(all_there());
                unmake_bus();
        }
}

static void test_a_placeholder_and_a_descriptor_stay(void)
{
        struct sb_descriptor *commit;
        struct sb_spot spot;

        CHECK(begin(1 << 20, 1024));
        sb_pin(&writer);
        CHECK(spot_of("bare", &spot));
        sb_unpin(&writer);
        CHECK(!drain(unit_of(spot.head)));
        sb_pin(&writer);
        commit = make_descriptor(50, 20, 0);
        CHECK(commit);
        sb_unpin(&writer);
        CHECK(!drain(unit_of((struct sb_version *)commit)));
        CHECK_EQ(writer.counters.moved, 0);
        CHECK_EQ(sb_load_relaxed(spot.cell), spot.word);
        unmake_bus();
}

static void test_what_lies_too_deep_stays_and_what_lies_above_moves(void)
{
        static struct link before[600], after[600];
        uint32_t same = 0, count;

        CHECK(begin(1 << 20, 1024));
        sb_store_relaxed(&writer.segment.super->clock, 5000);
        sb_pin(&writer);
        for (uint32_t i = 0; i < 500; i++)
                CHECK(push("deep", SB_VERSION_VALUE, 10 + i));
        keep_last("deep", 1000);
        sb_unpin(&writer);
        sb_work_all(&writer, true);
        count = list_chain("deep", before, 600);
        drain_all();
        CHECK_EQ(list_chain("deep", after, 600), count);
        for (uint32_t i = 0; i < count; i++) {
                CHECK(is_same(&before[i], &after[i]));
                same += before[i].version == after[i].version;
        }
        TEST_NOTE("%u of %u versions stayed", same, count);
        CHECK(same > 200 && same < 300);
        /* No wait would help. */
        CHECK(own(unit_of(after[count - 1].version)));
        CHECK(sb_move(&writer));
        CHECK_EQ(sb_window_count(&writer), 0);
        sb_window_end(&writer);
        unmake_bus();
}

static void test_what_is_on_its_way_out_is_not_copied(void)
{
        struct sb_version *old;

        CHECK(begin(1 << 20, 1024));
        sb_pin(&writer);
        sb_store_relaxed(&writer.segment.super->clock, 50);
        CHECK((old = push("k", SB_VERSION_VALUE, 10)) && push("k", SB_VERSION_VALUE, 20));
        CHECK(sb_limbo_begin(&writer, &old->block));
        sb_unpin(&writer);
        sb_slab_release_all(&writer);
        CHECK(own(unit_of(old)));
        for (uint32_t i = 0; i < 4; i++)
                sb_move(&writer);
        CHECK(writer.counters.moved <= 1); /* the newest */
        sb_window_end(&writer);
        unmake_bus();
}

/* ---- what goes by it ---- */

/* Copies lie above the versions of a key under a rule, and some originals are in a client's hand.
 */
static void test_a_rule_counts_a_version_that_is_there_twice_once(void)
{
        for (uint32_t round = 0; round < 40; round++) {
                struct sb_horizon horizon = {.bound = 1000};
                uint32_t last = 1 + round % 4, revs = 0, hands = 0;
                struct link links[40];
                struct sb_spot spot;

                CHECK(begin(1 << 18, 1024));
                draw_state = round;
                sb_store_relaxed(&writer.segment.super->clock, 1000);
                sb_store_relaxed(&writer.segment.super->stable, 1000);
                sb_pin(&writer);
                for (uint32_t i = 0; i < 8; i++)
                        CHECK(push("k", SB_VERSION_VALUE, 10 + 10 * i));
                CHECK(spot_of("k", &spot));
                keep_last("k", last);
                sb_unpin(&writer);
                CHECK_EQ(copy_above_all(&writer, "k", 1), 8);
                sb_pin(&writer);
                for (uint32_t i = 1, count = list_chain("k", links, 40); i < count; i++)
                        if (links[i].rev == links[i - 1].rev && draw(3) == 0) {
                                sb_store_relaxed(
                                        &links[i].version->block.retire, SB_RETIRE_FREEING);
                                hands++;
                        }
                sb_prune_cell(&writer, spot.cell_number, &horizon);
                for (uint32_t i = 0, count = list_chain("k", links, 40); i < count; i++) {
                        bool in_hand = sb_load_relaxed(&links[i].version->block.retire);

                        revs += !i || links[i].rev != links[i - 1].rev;
                        CHECK(revs <= last || in_hand || i + 1 == count);
                        /* The past of what the rule keeps is whole. */
                        CHECK(revs >= last || i + 1 == count ||
                                !(sb_load_relaxed(&links[i].version->prev) & SB_PREV_TRIMMED));
                }
                CHECK(revs >= last);
                for (uint32_t i = 0; i < last; i++) {
                        struct sb_version *version = NULL;

                        CHECK_EQ(sb_past_find(
                                         &writer, "k", 1, hash_of("k", 1), 85 - 10 * i, &version),
                                SB_PAST_FOUND);
                        CHECK_EQ(version->rev, 8 - i);
                }
                sb_unpin(&writer);
                unmake_bus();
        }
}

static void test_a_tombstone_that_moved_lets_its_key_be_removed(void)
{
        struct sb_version *tombstone;
        uint64_t offset, cut;
        struct sb_node *node;
        uint32_t snapshot;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "goes", "1", 1) && !put(&writer, "stays", "1", 1));
        CHECK(!sb_snapshot_open(&reader, &snapshot, &cut));
        CHECK(!delete (&writer, "goes"));
        sb_work_all(&writer, true);
        tombstone = look("goes");
        CHECK(tombstone);
        offset = tombstone->node;
        node = sb_node_at(&writer.segment, offset);
        CHECK(drain_all());
        CHECK(look("goes") != tombstone && look("goes")->node == offset);
        CHECK(!sb_load_relaxed(&node->block.retire));
        sb_snapshot_close(&reader, snapshot);
        for (uint32_t i = 0; i < 3; i++)
                sb_work_all(&writer, true);
        CHECK(!look("goes") && look("stays"));
        CHECK(!sb_unit_is_block(&writer.segment, offset, SB_UNIT_NODES, NULL));
        unmake_bus();
}

/* The client that deleted it is idle, and no process sweeps. */
static void test_a_mover_sees_to_the_key_of_a_tombstone_that_it_moved(void)
{
        struct sb_version *tombstone;

        CHECK(begin(1 << 20, 1024));
        CHECK(!put(&writer, "goes", "1", 1) && !put(&writer, "stays", "1", 1));
        sb_work_all(&writer, true);
        CHECK(!delete (&reader, "goes"));
        sb_slab_release_all(&reader);
        sb_work_all(&writer, false);
        tombstone = look("goes");
        CHECK(tombstone);
        writer.counters.moved = 0;
        CHECK(drain(unit_of(tombstone)));
        CHECK(writer.counters.moved > 0);
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, false);
        CHECK(!look("goes") && look("stays"));
        unmake_bus();
}

/* ---- a dead mover ---- */

static void test_a_dead_mover_loses_nothing(void)
{
        static struct sb_handle third;
        uint64_t moved = 0;

        for (uint32_t rounds = 0; rounds < 12; rounds++) {
                struct sb_roster_identity identity = {.pid = 1};
                uint32_t slot, generation, i;
                uint64_t offset;

                CHECK(begin(1 << 20, 1024));
                CHECK(scatter(400, 2));
                CHECK(!sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation));
                make_handle(&third, &writer.segment, slot, generation);
                sb_window_begin(&third);
                for (i = 0; i < rounds; i++) {
                        sb_work_slice(&third);
                        if (!sb_slab_take(&third, SB_UNIT_VERSIONS, 100 * 1024, 0, &offset))
                                break;
                }
                moved += third.counters.moved;
                sb_reap_record(&writer, slot, generation);
                CHECK_EQ(owned_by(&third), 0);
                CHECK(all_there());
                CHECK(is_sound());
                CHECK(all_there());
                unmake_bus();
        }
        CHECK(moved > 300);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_large_value_finds_room_where_versions_lie_scattered);
        RUN(test_values_of_one_unit_or_several_move_for_a_larger_one);
        RUN(test_where_all_units_have_blocks_of_another_size_one_is_emptied);
        RUN(test_the_movers_own_slabs_are_not_in_the_way);
        RUN(test_what_a_stopped_client_knows_does_not_move);
        RUN(test_what_a_client_reads_just_now_moves);
        RUN(test_where_nothing_can_move_it_is_full_and_nothing_is_lost);
        RUN(test_a_version_that_moved_is_the_same_write);
        RUN(test_a_copy_is_as_old_as_its_original_unless_that_is_too_old_to_say);
        RUN(test_one_call_moves_so_many_versions_or_bytes_and_the_next_one_goes_on);
        RUN(test_as_long_as_it_searches_or_moves_there_is_something_to_do);
        RUN(test_what_no_cut_needs_goes_and_is_not_copied);
        RUN(test_what_is_in_a_hand_or_undecided_stays_and_another_window_is_found);
        RUN(test_a_placeholder_and_a_descriptor_stay);
        RUN(test_what_lies_too_deep_stays_and_what_lies_above_moves);
        RUN(test_what_is_on_its_way_out_is_not_copied);
        RUN(test_a_rule_counts_a_version_that_is_there_twice_once);
        RUN(test_a_tombstone_that_moved_lets_its_key_be_removed);
        RUN(test_a_mover_sees_to_the_key_of_a_tombstone_that_it_moved);
        RUN(test_a_dead_mover_loses_nothing);
        return test_end();
}
