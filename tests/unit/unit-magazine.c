/*
 * The magazine of a client (shm/memory/magazine.h) when memory is short: what an idle client's
 * magazine keeps from other clients, and that a client's own magazine never stands in its own way.
 */
#include "ring/op/keep.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/reclaim.h"
#include "tests/unit/bus.h"

static char value[100000];

/* Set keys @first to @end - 1. Return: how many were set before the segment was full. */
static uint32_t put_some(struct sb_handle *handle, const char *prefix, uint32_t first, uint32_t end,
        uint64_t value_len)
{
        uint32_t i;
        char key[32];

        for (i = first; i < end; i++) {
                snprintf(key, sizeof(key), "%s%08u", prefix, i);
                if (put_patiently(handle, key, value, value_len))
                        break;
        }
        return i - first;
}

static uint32_t fill(struct sb_handle *handle, const char *prefix, uint64_t value_len)
{
        return put_some(handle, prefix, 0, UINT32_MAX, value_len);
}

static int delete_some(struct sb_handle *handle, const char *prefix, uint32_t first, uint32_t end)
{
        char key[32];
        int r = 0;

        for (; first < end && !r; first++) {
                snprintf(key, sizeof(key), "%s%08u", prefix, first);
                r = delete (handle, key);
        }
        return r;
}

/* How many blocks the record names. */
static uint32_t in_hand(const struct sb_handle *handle)
{
        uint32_t i, count = 0;

        for (i = 0; i < handle->segment.geometry.magazine_count; i++)
                count += sb_load_relaxed(
                                 &sb_record_magazine(&handle->segment, handle->record)[i]) != 0;
        return count;
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

static void test_what_an_idle_process_deleted_serves_others(void)
{
        enum { DELETED = 60 };
        uint32_t count;

        CHECK(make_bus(1 << 20));
        count = fill(&writer, "k", 150);
        CHECK(count > 1000);
        CHECK_EQ(fill(&reader, "n", 150), 0);
        sb_horizon_renew(&writer); /* as memory work does: the magazine takes what it can */
        CHECK_EQ(delete_some(&writer, "k", 0, DELETED), 0);
        CHECK_EQ(in_hand(&writer), 0);
        /* Each new key takes a second block for its placeholder, and the deleter keeps some in its
         * slab cache. */
        CHECK(fill(&reader, "m", 150) > DELETED / 3);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* How many keys fit beside a reader that has replaced as many values as its magazine takes and then
 * does nothing more, or (not @replaces) that has replaced none. */
static uint32_t room_beside_idle(uint64_t size, bool replaces, uint32_t *ret_in_hand)
{
        enum { KEYS = 2000 };
        uint32_t count, i;

        if (!make_bus(size) || put_some(&reader, "r", 0, KEYS, 150) != KEYS)
                return 0;
        sb_horizon_renew(&reader);
        for (i = 0; replaces && i < 3; i++)
                if (put_some(&reader, "r", 0, SB_MAGAZINE_MAX, 150) != SB_MAGAZINE_MAX)
                        return 0;
        *ret_in_hand = in_hand(&reader);
        count = fill(&writer, "w", 150);
        if (problems())
                return 0;
        unmake_bus();
        return count;
}

static void test_an_idle_process_keeps_no_more_than_its_share_from_others(void)
{
        static const uint64_t sizes[] = {2 << 20, 4 << 20, 16 << 20};
        uint32_t i, without, with, held, share;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                without = room_beside_idle(sizes[i], false, &held);
                CHECK_EQ(held, 0);
                with = room_beside_idle(sizes[i], true, &held);
                share = writer.segment.geometry.unit_count / 2 / 2;
                share = share < SB_MAGAZINE_MAX ? share : SB_MAGAZINE_MAX;
                CHECK(without > 0);
                CHECK(held <= share && held > share / 2);
                TEST_NOTE("%u MiB: %u keys alone, %u beside an idle process with %u blocks",
                        (unsigned)(sizes[i] >> 20), without, with, held);
                CHECK(without - with <= share + 16);
        }
}

/* As many keys fit as if the magazine had always been empty. */
static void test_no_clients_own_magazine_makes_its_write_fail(void)
{
        static const uint64_t sizes[] = {10, 150, 1000, 100000};
        uint32_t i, replaces, room[2];

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                for (replaces = 0; replaces < 2; replaces++) {
                        CHECK(make_bus(4 << 20));
                        CHECK_EQ(put_some(&writer, "r", 0, 500, 150), 500);
                        sb_horizon_renew(&writer);
                        if (replaces) {
                                CHECK_EQ(put_some(&writer, "r", 0, 500, 150), 500);
                                CHECK(in_hand(&writer) > 80);
                        }
                        room[replaces] = fill(&writer, "w", sizes[i]);
                        CHECK_EQ(problems(), 0);
                        unmake_bus();
                }
                TEST_NOTE("values of %u bytes: memory for %u, after overwrites for %u",
                        (unsigned)sizes[i], room[0], room[1]);
                CHECK(room[0] > 0);
                CHECK((room[1] + 1) * 50 >= room[0] * 49);
        }
}

/* How many of the blocks in hand are of this class. */
static uint32_t in_hand_of(const struct sb_handle *handle, uint32_t class_)
{
        uint32_t i, count = 0;

        for (i = 0; i < handle->segment.geometry.magazine_count; i++) {
                uint64_t offset =
                        sb_load_relaxed(&sb_record_magazine(&handle->segment, handle->record)[i]);

                count += offset && SB_UNIT_CLASS(sb_unit_word(&handle->segment,
                                           sb_unit_of(&handle->segment, offset))) == class_;
        }
        return count;
}

/* A client that has its magazine full of blocks of one size, and from then on writes another. */
static void test_a_magazine_follows_the_size_that_its_client_writes(void)
{
        enum { KEYS = 2000 };
        static const uint64_t lens[] = {20, 150};
        uint32_t classes[2], i, k;

        CHECK(make_bus(16 << 20));
        for (i = 0; i < 2; i++) {
                classes[i] =
                        sb_unit_class(&writer.segment, sizeof(struct sb_version) + 9 + lens[i]);
                CHECK_EQ(put_some(&writer, i ? "b" : "a", 0, KEYS, lens[i]), KEYS);
        }
        CHECK(classes[0] != classes[1]);
        sb_horizon_renew(&writer);
        for (k = 0; k < 3; k++)
                for (i = 0; i < 2; i++) {
                        CHECK_EQ(put_some(&writer, i ? "b" : "a", 0, KEYS, lens[i]), KEYS);
                        CHECK(in_hand_of(&writer, classes[i]) > 100);
                        CHECK(in_hand_of(&writer, classes[!i]) < 20);
                }
        /* What is ready stays for the next writes of that size. */
        for (i = 0; i < 20; i++) {
                sb_reclaim_free(&writer);
                CHECK(in_hand_of(&writer, classes[1]) > 100);
                CHECK_EQ(put_some(&writer, "b", 0, 100, lens[1]), 100);
        }
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* What is ready and of the wrong size goes back, so that a spare of the right one can be noted. */
static void test_a_full_magazine_makes_space_by_what_is_ready(void)
{
        enum { KEYS = 2000 };

        CHECK(make_bus(16 << 20));
        CHECK_EQ(put_some(&writer, "k", 0, KEYS, 20), KEYS);
        sb_horizon_renew(&writer);
        CHECK_EQ(put_some(&writer, "k", 0, KEYS, 20), KEYS);
        sb_era_advance(&writer);
        sb_reclaim_free(&writer);
        CHECK(in_hand(&writer) > 100);
        writer.magazine.limit = in_hand(&writer);
        CHECK(sb_magazine_make_space(&writer));
        CHECK(in_hand(&writer) < writer.magazine.limit);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* A pruner that removes the key of a tombstone must not meet a version that is in a client's hands:
 * the entry would note a block that is free. And what a write has taken in hand itself is in no
 * list to be looked for. */
static void test_a_tombstone_is_built_in_no_block_in_hand_and_a_value_in_hand_is_not_listed(void)
{
        enum { KEYS = 100 };
        uint32_t class_, held;

        CHECK(make_bus(16 << 20));
        class_ = sb_unit_class(&writer.segment, sizeof(struct sb_version) + 9);
        CHECK_EQ(sb_unit_class(&writer.segment, sizeof(struct sb_version) + 9 + 1), class_);
        CHECK_EQ(put_some(&writer, "k", 0, KEYS, 1), KEYS);
        sb_horizon_renew(&writer);
        for (uint32_t i = 0; i < 3; i++) {
                sb_reclaim_pending(&writer);
                sb_reclaim_free(&writer);
                CHECK_EQ(put_some(&writer, "k", 0, KEYS, 1), KEYS);
                CHECK_EQ(sb_limbo_pending(&writer), 0);
        }
        sb_era_advance(&writer);
        sb_reclaim_free(&writer);
        CHECK(sb_magazine_first(&writer, class_) != 0);
        held = in_hand_of(&writer, class_);
        CHECK_EQ(delete_some(&writer, "k", 0, 1), 0);
        CHECK_EQ(in_hand_of(&writer, class_), held);
        CHECK(sb_magazine_first(&writer, class_) != 0);
        CHECK_EQ(put_some(&writer, "k", 1, 2, 1), 1);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* A date is the low bits of an era: one of ages ago would be taken for another. */
static void test_what_was_in_hand_for_ages_is_dated_anew_when_it_goes_back(void)
{
        static const uint32_t ages[] = {0, SB_ERA_OLD / 2, SB_ERA_OLD + 1, SB_ERA_OLD + (1u << 20)};
        struct sb_limbo_entry *waiting;
        struct sb_block *block;
        uint64_t era, dated;

        for (uint32_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
                CHECK(make_bus(16 << 20));
                CHECK_EQ(put_some(&writer, "k", 0, 50, 20), 50);
                sb_horizon_renew(&writer);
                CHECK_EQ(put_some(&writer, "k", 0, 50, 20), 50);
                sb_reclaim_pending(&writer);
                waiting = writer.limbo.entries;
                for (uint32_t k = 0; k < writer.limbo.count && !waiting->held; k++)
                        waiting++;
                CHECK(waiting < writer.limbo.entries + writer.limbo.count);
                sb_add_full(&writer.segment.super->era, ages[i]);
                era = sb_load_acquire(&writer.segment.super->era);
                dated = ages[i] > SB_ERA_OLD ? era : waiting->era;
                block = sb_block_at(&writer.segment, waiting->offset);
                sb_magazine_release(&writer, waiting);
                CHECK_EQ(waiting->era, dated);
                CHECK_EQ(sb_load_acquire(&block->retire), sb_era_low(dated));
                unmake_bus();
        }
}

/* The entry notes it no more: else its client's reaper would have it freed. */
static void test_a_value_that_replaces_what_is_kept_is_in_hand_no_more(void)
{
        enum { KEYS = 100 };
        uint32_t class_, held, kept = 0;
        struct sb_version *version;

        CHECK(make_bus(16 << 20));
        class_ = sb_unit_class(&writer.segment, sizeof(struct sb_version) + 9 + 1);
        CHECK_EQ(put_some(&writer, "k", 0, KEYS, 1), KEYS);
        sb_horizon_renew(&writer);
        CHECK_EQ(put_some(&writer, "k", 0, KEYS, 1), KEYS);
        sb_era_advance(&writer);
        sb_reclaim_free(&writer);
        CHECK_EQ(sb_keep_write(&reader, "k00000007", 9, false, SB_RULE_WORD(SB_RULE_LAST, 2)), 0);
        for (uint32_t i = 0; i < 3; i++) {
                /* Over a value it goes the short way, over a tombstone the long one. */
                CHECK_EQ(i ? delete_some(&writer, "k", 7, 8) : 0, 0);
                CHECK(sb_magazine_first(&writer, class_));
                held = in_hand_of(&writer, class_);
                CHECK_EQ(put_some(&writer, "k", 7, 8, 1), 1);
                CHECK_EQ(in_hand_of(&writer, class_), held - 1);
                CHECK_EQ(in_hand(&writer), writer.magazine.held);
                sb_pin(&reader);
                version = find("k00000007");
                CHECK(version && !sb_load_relaxed(&version->block.retire));
                CHECK(!sb_magazine_noted(
                        &writer.segment, writer.slot, sb_offset_of(&writer.segment, version)));
                sb_unpin(&reader);
        }
        /* All entries are there: as many as there are can be taken. */
        sb_magazine_empty(&writer);
        for (uint32_t entry = writer.magazine.free; entry; entry = writer.magazine.next[entry])
                kept++;
        CHECK_EQ(kept + in_hand(&writer), writer.segment.geometry.magazine_count);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* Many clients overwrite keys all over the segment and do nothing more; then all keys go, and
 * values of another size come. The blocks in the magazines of idle clients keep the units that they
 * are in from other sizes. */
static void test_what_many_idle_ones_have_in_hand_leaves_memory_for_other_sizes(void)
{
        enum { CLIENTS = 16, KEYS = 40000, EACH = 2000 };
        static struct sb_handle idle[CLIENTS];
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t i, k, slot, generation, fresh, room, held = 0;
        char key[32];

        CHECK(make_bus_for(16 << 20, CLIENTS + 2));
        fresh = fill(&writer, "w", 1000);
        unmake_bus();
        CHECK(make_bus_for(16 << 20, CLIENTS + 2));
        for (i = 0; i < CLIENTS; i++) {
                CHECK_EQ(sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation), 0);
                make_handle(&idle[i], &writer.segment, slot, generation);
        }
        CHECK_EQ(put_some(&writer, "r", 0, KEYS, 150), KEYS);
        for (i = 0; i < CLIENTS; i++) {
                sb_horizon_renew(&idle[i]);
                for (k = 0; k < EACH; k++) {
                        snprintf(key, sizeof(key), "r%08u", (i * EACH + k) * 7919 % KEYS);
                        CHECK_EQ(put(&idle[i], key, value, 150), 0);
                }
                held += in_hand(&idle[i]);
        }
        CHECK_EQ(delete_some(&writer, "r", 0, KEYS), 0);
        room = fill(&writer, "w", 1000);
        TEST_NOTE("%u blocks in hand of %u idle ones, in %u units: memory for %u values, of %u",
                held, CLIENTS, writer.segment.geometry.unit_count, room, fresh);
        CHECK(held <= writer.segment.geometry.unit_count / 2 && room * 5 >= fresh * 2);
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* What is kept below it is nothing that the writer gets back, so the entry is free for another. */
static void test_a_block_in_hand_that_goes_over_a_kept_version_is_in_hand_no_more(void)
{
        char kept[101] = "";
        uint32_t before;

        memset(kept, 'k', 100); /* too long for the short way */

        CHECK(make_bus(64 << 20));
        CHECK_EQ(put(&writer, kept, value, 9), 0);
        CHECK(!sb_keep_write(&writer, kept, 100, false, SB_RULE_WORD(SB_RULE_ALL, 0)));
        for (uint32_t i = 0; i < 3; i++)
                CHECK_EQ(put_some(&writer, "other", 0, 2000, 100), 2000);
        sb_reclaim_free(&writer);
        CHECK_EQ(sb_load_relaxed(&writer.record->freeing), 0);
        for (uint32_t i = 0; i < 10; i++) {
                before = in_hand(&writer);
                CHECK(before);
                CHECK_EQ(put(&writer, kept, value, 9), 0);
                CHECK_EQ(in_hand(&writer), before - 1);
        }
        CHECK_EQ(problems(), 0);
        unmake_bus();
}

/* A magazine of few entries is what was asked for, and is not shared out. */
static void test_a_magazine_is_shared_out_where_that_is_worth_it(void)
{
        static const struct {
                uint32_t count, limit;
                bool passes;
        } cases[] = {{SB_MAGAZINE_BATCH_MIN - 1, SB_MAGAZINE_BATCH_MIN - 1, false},
                {SB_MAGAZINE_BATCH_MIN, SB_MAGAZINE_HANDS, true},
                {SB_MAGAZINE_HANDS, SB_MAGAZINE_HANDS, true}};

        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sb_geometry_wish wish = {.size = 1 << 20,
                        .clients = 2,
                        .unit_size = 4096,
                        .magazine_count = cases[i].count};

                CHECK(make_bus_of(&wish));
                list_records(0, writer.segment.geometry.record_count);
                writer.segment.geometry.unit_count = 64;
                sb_magazine_limit(&writer);
                CHECK_EQ(writer.magazine.limit, cases[i].limit);
                CHECK_EQ(writer.magazine.passes, cases[i].passes);
                CHECK(writer.magazine.pass_end <= writer.segment.class_count);
                unmake_bus();
        }
}

static void test_a_larger_share_is_for_larger_blocks(void)
{
        static const struct sb_geometry_wish wishes[] = {
                {.size = 1 << 20, .clients = 2}, {.size = 64 << 20, .clients = 2}};
        uint64_t shares[2];

        for (uint32_t i = 0; i < 2; i++) {
                const struct sb_geometry *g = &writer.segment.geometry;
                const uint32_t *sizes = writer.segment.class_size;
                uint32_t end;

                CHECK(make_bus_of(&wishes[i]));
                shares[i] = (uint64_t)g->unit_count * g->unit_size / 16 / g->record_count /
                            g->magazine_count;
                if (shares[i] < SB_MAGAZINE_BLOCK)
                        shares[i] = SB_MAGAZINE_BLOCK;
                end = writer.magazine.class_end;
                CHECK(end && sizes[end - 1] <= shares[i]);
                CHECK(end == writer.segment.class_count || sizes[end] > shares[i]);
                unmake_bus();
        }
        CHECK(shares[0] == SB_MAGAZINE_BLOCK && shares[1] > SB_MAGAZINE_BLOCK);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_an_idle_process_deleted_serves_others);
        RUN(test_an_idle_process_keeps_no_more_than_its_share_from_others);
        RUN(test_no_clients_own_magazine_makes_its_write_fail);
        RUN(test_a_magazine_follows_the_size_that_its_client_writes);
        RUN(test_a_full_magazine_makes_space_by_what_is_ready);
        RUN(test_a_tombstone_is_built_in_no_block_in_hand_and_a_value_in_hand_is_not_listed);
        RUN(test_what_was_in_hand_for_ages_is_dated_anew_when_it_goes_back);
        RUN(test_a_value_that_replaces_what_is_kept_is_in_hand_no_more);
        RUN(test_what_many_idle_ones_have_in_hand_leaves_memory_for_other_sizes);
        RUN(test_a_block_in_hand_that_goes_over_a_kept_version_is_in_hand_no_more);
        RUN(test_a_magazine_is_shared_out_where_that_is_worth_it);
        RUN(test_a_larger_share_is_for_larger_blocks);
        return test_end();
}
