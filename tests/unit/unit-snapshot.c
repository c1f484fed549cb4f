/*
 * Snapshots, taking them away, and finding what is current in a cut (shm/mvcc/snapshot.h,
 * evict.h, find.h).
 */
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/evict.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define MANY_CLIENTS 200u

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}
static struct sb_word64 *announcement(uint32_t slot, uint32_t index)
{
        return &sb_record_snapshots(sb_record_at(&writer.segment, slot))[index];
}

/* How often it was announced. */
static struct sb_word64 *opening(uint32_t slot, uint32_t index)
{
        return &sb_record_opened(&writer.segment, sb_record_at(&writer.segment, slot))[index];
}
static bool make_client(struct sb_handle *handle)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation))
                return false;
        make_handle(handle, &writer.segment, slot, generation);
        return true;
}
static bool begin(uint32_t snapshot_count)
{
        struct sb_geometry_wish wish = {
                .size = 1 << 20, .clients = 4, .snapshot_count = snapshot_count};

        draw_state = snapshot_count;
        return make_bus_of(&wish);
}

/* ---- many open cuts ---- */

/* @clients have a cut each, between sets of one key; then that key is set @sets times, while the
 * clock stands still or, with @moving, cuts come and go. Once each cut keeps what it needs, nothing
 * asks for a sweep any more: what the others need is gone with the next look. */
static bool overwrite_beside_cuts(uint32_t clients, uint32_t sets, bool moving)
{
        static struct sb_handle idle[MANY_CLIENTS];
        uint64_t value[8] = {0}, cut, wanted = 0;
        uint32_t index;

        for (uint32_t i = 0; i < clients; i++) {
                if (put(&writer, "hot", value, sizeof(value)) ||
                        put(&writer, "hot", value, sizeof(value)) || !make_client(&idle[i]) ||
                        sb_snapshot_open(&idle[i], &index, &cut))
                        return false;
        }
        for (uint32_t i = 0; i < sets; i++) {
                value[0] = i;
                if (put(&writer, "hot", value, sizeof(value)))
                        return false;
                if (i == 1000)
                        wanted = sb_load_relaxed(&super()->sweep_wanted);
                if (moving && i % 3 == 1 && sb_snapshot_open(&reader, &index, &cut))
                        return false;
                if (moving && i && i % 3 == 0)
                        sb_snapshot_close(&reader, index);
        }
        if (sb_load_relaxed(&super()->sweep_wanted) != wanted)
                return false;
        sb_work_all(&writer, true);
        return true;
}

/* Both with the clock standing still and moving: what is kept is what each of the cuts reads, and
 * the newest. When they are closed, that one alone is left. */
static void test_an_overwritten_key_keeps_what_open_cuts_read_however_many_they_are(void)
{
        static const uint32_t counts[] = {1, 127, 129, MANY_CLIENTS};

        for (uint32_t c = 0; c < 8; c++) {
                uint32_t clients = counts[c / 2];

                CHECK(make_bus_for(4 << 20, MANY_CLIENTS + 2));
                CHECK(overwrite_beside_cuts(clients, c == 7 ? 100000 : 21001, c % 2));
                CHECK_EQ(chain_len("hot"), clients + 1);
                for (uint32_t i = 0; i < clients; i++)
                        sb_store_relaxed(announcement(writer.slot + 2 + i, 0), 0);
                sb_store_relaxed(&super()->clock, sb_load_relaxed(&super()->clock) + 1);
                sb_work_all(&writer, true);
                CHECK_EQ(chain_len("hot"), 1);
                unmake_bus();
        }
}

static void test_snapshots_take_ascending_cuts_and_the_first_free_words(void)
{
        static const uint32_t counts[] = {1, 2, 7, 300};

        for (uint32_t c = 0; c < 4; c++) {
                uint64_t cut, before = 0;
                uint32_t index;

                CHECK(begin(counts[c]));
                for (uint32_t i = 0; i < counts[c]; i++) {
                        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
                        CHECK_EQ(index, i);
                        CHECK(cut > before && cut < sb_load_relaxed(&super()->clock));
                        CHECK_EQ(sb_load_relaxed(announcement(writer.slot, index)), cut);
                        CHECK(sb_snapshot_holds(&writer, index, cut));
                        before = cut;
                }
                CHECK_EQ(sb_load_relaxed(&writer.record->opens), counts[c]);
                CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), SB_E_FULL);
                CHECK_EQ(sb_snapshot_open_at(&writer, 5, &index), SB_E_FULL);
                CHECK_EQ(sb_load_relaxed(&writer.record->opens), counts[c]);
                CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0); /* each has its own */
                sb_snapshot_close(&writer, counts[c] / 2);
                CHECK_EQ(sb_load_relaxed(announcement(writer.slot, counts[c] / 2)), 0);
                CHECK_EQ(sb_snapshot_open_at(&writer, 3, &index), 0);
                CHECK_EQ(index, counts[c] / 2);
                CHECK_EQ(sb_load_relaxed(announcement(writer.slot, index)), 3);
                unmake_bus();
        }
}

static void test_a_snapshot_that_can_be_done_without_leaves_half_of_the_words(void)
{
        for (uint32_t count = 1; count < 6; count++)
                for (uint32_t used = 0; used < 1u << count; used++) {
                        bool spare = 2 * (uint32_t)__builtin_popcount(used) < count;
                        uint32_t index;
                        uint64_t cut;

                        CHECK(begin(count));
                        for (uint32_t i = 0; i < count; i++)
                                sb_store_relaxed(
                                        announcement(writer.slot, i), used >> i & 1 ? 5 : 0);
                        CHECK_EQ(sb_snapshot_open_spare(&writer, &index, &cut),
                                spare ? 0 : SB_E_FULL);
                        CHECK(!spare || index == (uint32_t)__builtin_ctz(~used));
                        unmake_bus();
                }
}

static void test_a_snapshot_holds_its_cut_until_it_is_taken_away(void)
{
        uint32_t index;
        uint64_t cut;

        CHECK(begin(3));
        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
        CHECK(!sb_snapshot_holds(&writer, index, cut + 1));
        sb_or_full(announcement(writer.slot, index), SB_SNAPSHOT_EVICTING);
        CHECK(!sb_snapshot_holds(&writer, index, cut));
        sb_store_relaxed(announcement(writer.slot, index), SB_SNAPSHOT_EVICTED);
        CHECK(!sb_snapshot_holds(&writer, index, cut));
        sb_store_relaxed(announcement(writer.slot, index), cut);
        CHECK(sb_snapshot_holds(&writer, index, cut));
        sb_snapshot_close(&writer, index);
        CHECK(!sb_snapshot_holds(&writer, index, cut));
        unmake_bus();
}

static void test_a_sweep_is_asked_for_when_later_cuts_were_taken_meanwhile(void)
{
        uint32_t index;
        uint64_t cut;

        CHECK(begin(3));
        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
        sb_snapshot_close(&writer, index);
        CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), 0);
        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
        sb_store_relaxed(&super()->clock, cut + 2);
        sb_snapshot_close(&writer, index);
        CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), 1);
        CHECK_EQ(sb_snapshot_open(&writer, &index, &cut), 0);
        sb_or_full(announcement(writer.slot, index), SB_SNAPSHOT_EVICTING);
        sb_store_relaxed(&super()->clock, cut + 2);
        sb_snapshot_close(&writer, index); /* the flag is no part of the cut */
        CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), 2);
        unmake_bus();
}

static void test_the_engine_takes_away_what_is_old_enough_and_nothing_else(void)
{
        for (uint32_t round = 0; round < 300; round++) {
                uint64_t before[5][9], most = draw(4) ? 10 + draw(90) : UINT64_MAX;
                static const struct sb_evict_seen none[5 * 9];
                struct sb_evict_seen seen[5 * 9];
                uint32_t count = 0, all = round % 2, wanted;

                CHECK(begin(9));
                draw_state = round;
                list_records(0, 5);
                sb_store_relaxed(&super()->clock, 200);
                for (uint32_t slot = 0; slot < 5; slot++)
                        for (uint32_t i = 0; i < 9; i++) {
                                uint64_t cut = 2 + draw(100);

                                cut = draw(3) ? cut : draw(2) ? 0 : SB_SNAPSHOT_EVICTED;
                                if (cut > 1 && !draw(4))
                                        cut |= draw(2) ? SB_SNAPSHOT_PENDING : SB_SNAPSHOT_EVICTING;
                                before[slot][i] = cut;
                                sb_store_relaxed(announcement(slot, i), cut);
                        }
                if (all) {
                        memcpy(seen, none, sizeof(seen));
                        for (uint32_t i = 0; i < 5 * 9; i++)
                                sb_store_relaxed(opening(i / 9, i % 9), 1 + draw(3));
                        CHECK_EQ(sb_evict_held(&writer, seen, 1000, 10), 0);
                        CHECK_EQ(sb_evict_held(&writer, seen, 1010, 10), 0);
                        most = UINT64_MAX;
                }
                wanted = all ? sb_evict_held(&writer, seen, 1011, 10)
                             : sb_evict_client(&writer, 3, most);
                for (uint32_t slot = 0; slot < 5; slot++)
                        for (uint32_t i = 0; i < 9; i++) {
                                uint64_t cut = before[slot][i] & ~SB_SNAPSHOT_EVICTING;
                                bool away = cut > 1 && cut <= most &&
                                            !(cut & SB_SNAPSHOT_PENDING) &&
                                            (all ? slot > 0 : slot == 3);

                                count += away;
                                CHECK_EQ(sb_load_relaxed(announcement(slot, i)),
                                        away ? SB_SNAPSHOT_EVICTED : before[slot][i]);
                        }
                CHECK_EQ(wanted, count);
                CHECK_EQ(sb_load_relaxed(&super()->sweep_wanted), count > 0);
                unmake_bus();
        }
}

/* An engine looks every ten nanoseconds, and lets a cut be held for a hundred. */
static void test_a_cut_is_taken_away_when_it_was_held_for_too_long_however_old_it_is(void)
{
        static struct sb_evict_seen seen[5 * 3];
        uint64_t cut, now = 1000000;
        uint32_t index, old;

        CHECK(begin(3));
        memset(seen, 0, sizeof(seen));
        sb_store_relaxed(&super()->clock, 5000);
        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
        /* A cut of long ago, opened again and again, each time for a short while. */
        for (uint32_t i = 0; i < 30; i++) {
                CHECK_EQ(sb_snapshot_open_at(&writer, 7, &old), 0);
                CHECK_EQ(sb_evict_held(&reader, seen, now += 10, 100), i == 11);
                CHECK_EQ(sb_load_relaxed(announcement(reader.slot, index)),
                        i < 11 ? cut : SB_SNAPSHOT_EVICTED);
                CHECK(sb_snapshot_holds(&writer, old, 7));
                /* Mostly the engine looks between two of them, too. */
                if (i % 3) {
                        sb_snapshot_close(&writer, old);
                        CHECK_EQ(sb_evict_held(&reader, seen, now, 100), 0);
                } else {
                        sb_snapshot_close(&writer, old);
                }
        }
        /* Held, it goes as well. */
        CHECK_EQ(sb_snapshot_open_at(&writer, 7, &old), 0);
        for (uint32_t i = 0; i < 12; i++)
                CHECK_EQ(sb_evict_held(&reader, seen, now += 10, 100), i == 11);
        CHECK(!sb_snapshot_holds(&writer, old, 7));
        sb_snapshot_close(&writer, old);
        /* The next engine has seen nothing yet. */
        CHECK_EQ(sb_snapshot_open_at(&writer, 7, &old), 0);
        CHECK_EQ(sb_evict_held(&reader, seen, now, 100), 0);
        memset(seen, 0, sizeof(seen));
        CHECK_EQ(sb_evict_held(&reader, seen, now += 99, 100), 0);
        CHECK_EQ(sb_evict_held(&reader, seen, now += 99, 100), 0);
        CHECK_EQ(sb_evict_held(&reader, seen, now += 2, 100), 1);
        unmake_bus();
}

static void test_a_new_engine_finishes_what_was_begun(void)
{
        static const uint64_t before[] = {0, 1, 50, 50 | SB_SNAPSHOT_EVICTING,
                SB_SNAPSHOT_PENDING | 3, SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING | 3};
        static const uint64_t after[] = {0, 1, 50, 1, SB_SNAPSHOT_PENDING | 3,
                SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING | 3};

        CHECK(begin(6));
        for (uint32_t slot = 1; slot < 5; slot++)
                for (uint32_t i = 0; i < 6; i++)
                        sb_store_relaxed(announcement(slot, i), before[i]);
        sb_evict_finish(&writer);
        for (uint32_t slot = 1; slot < 5; slot++)
                for (uint32_t i = 0; i < 6; i++)
                        CHECK_EQ(sb_load_relaxed(announcement(slot, i)), after[i]);
        unmake_bus();
}

static void test_a_commit_at_the_cut_comes_to_its_end_before_that_is_taken_away(void)
{
        struct sb_descriptor *commit, *other;

        CHECK(begin(4));
        sb_store_relaxed(&super()->clock, 90);
        sb_pin(&writer);
        commit = make_descriptor(40, 0, 0);
        other = make_descriptor(41, 0, 0);
        sb_unpin(&writer);
        CHECK(commit && other);
        sb_store_relaxed(&writer.record->operation,
                sb_offset_of(&writer.segment, commit) | SB_OPERATION_DESCRIPTOR);
        sb_store_relaxed(&reader.record->operation,
                sb_offset_of(&writer.segment, other) | SB_OPERATION_DESCRIPTOR);
        sb_store_relaxed(announcement(writer.slot, 2), 40);
        sb_store_relaxed(announcement(reader.slot, 0), 40); /* a read of the other client's */
        CHECK_EQ(sb_evict_client(&reader, writer.slot, 40), 1);
        CHECK_EQ(sb_evict_client(&reader, reader.slot, 40), 1);
        CHECK(sb_descriptor_decided(commit) && !sb_descriptor_decided(other));
        unmake_bus();
}

static void test_the_newest_version_at_any_cut_is_found_in_any_chain_and_bucket(void)
{
        enum { KEYS = 45 };
        static uint64_t stamps[KEYS][8];
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .bucket_count = 8};
        static char names[KEYS][16];

        CHECK(make_bus_of(&wish)); /* far more keys than cells in a bucket */
        draw_state = 3;
        sb_pin(&writer);
        sb_pin(&reader);
        for (uint32_t i = 0; i < KEYS; i++) {
                uint64_t stamp = 1;

                snprintf(names[i], sizeof(names[i]), "%.*s%u", (int)(i % 12), "kkkkkkkkkkkk", i);
                for (uint32_t j = 0; j < 8; j++) {
                        stamp += 1 + draw(20);
                        stamps[i][j] = stamp;
                        CHECK(push(names[i], SB_VERSION_VALUE, stamp));
                }
        }
        for (uint32_t step = 0; step < 5000; step++) {
                uint32_t i = draw(KEYS), len = (uint32_t)strlen(names[i]), j = 8;
                uint64_t cut = draw(190), hash = hash_of(names[i], len);
                struct sb_version *version = sb_find_at(&reader, names[i], len, hash, cut);

                while (j && stamps[i][j - 1] > cut)
                        j--;
                CHECK_EQ(version ? version->rev : 0, j);
                version = sb_find_newest(&reader, names[i], len, hash);
                CHECK(version && version->rev == 8);
        }
        CHECK(!sb_find_newest(&reader, "no", 2, hash_of("no", 2)));
        CHECK(!sb_find_at(&reader, "no", 2, hash_of("no", 2), 100));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_snapshots_take_ascending_cuts_and_the_first_free_words);
        RUN(test_a_snapshot_that_can_be_done_without_leaves_half_of_the_words);
        RUN(test_a_snapshot_holds_its_cut_until_it_is_taken_away);
        RUN(test_a_sweep_is_asked_for_when_later_cuts_were_taken_meanwhile);
        RUN(test_the_engine_takes_away_what_is_old_enough_and_nothing_else);
        RUN(test_a_cut_is_taken_away_when_it_was_held_for_too_long_however_old_it_is);
        RUN(test_a_new_engine_finishes_what_was_begun);
        RUN(test_a_commit_at_the_cut_comes_to_its_end_before_that_is_taken_away);
        RUN(test_the_newest_version_at_any_cut_is_found_in_any_chain_and_bucket);
        RUN(test_an_overwritten_key_keeps_what_open_cuts_read_however_many_they_are);
        return test_end();
}
