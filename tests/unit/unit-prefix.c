/*
 * Which prefixes are watched (shm/notify/prefix.h): writers look for exactly the lengths that
 * watches have; the engine takes lengths and attention back at the end of a sweep that met no
 * watch, and from no watch that joined meanwhile, at whichever point it or another engine stopped.
 * And a watched prefix's ring (shm/notify/hint.h): each hint is read once, by its number, until it
 * is overwritten, which is seen; a tail that a dead process left is moved; laps count on when their
 * bits begin anew; and what is given up follows half a ring behind.
 */
#include "shm/notify/prefix.h"
#include "ring/op/overwrite.h"
#include "ring/op/prefix.h"
#include "shm/base/hash.h"
#include "shm/keys/index.h"
#include "shm/layout/damage.h"
#include "shm/layout/reserved.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/hint.h"
#include "shm/notify/turn.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

static struct sb_handle engine;
static struct sb_op_prefix watch;

static bool begin(void)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(1 << 20, 40) ||
                sb_roster_claim_below(&writer.segment, 0, 1, &identity, &slot, &generation))
                return false;
        make_handle(&engine, &writer.segment, slot, generation);
        return true;
}

static int open_watch(const char *prefix, struct sb_op_prefix *ret)
{
        return sb_op_prefix_begin(
                &reader, prefix, (uint32_t)strlen(prefix), 3, SB_PREFIX_DEPTH, ret);
}

static uint64_t attention(void)
{
        return sb_load_relaxed(&writer.segment.super->attention); /* Relaxed: one thread. */
}

/* Whether exactly the lengths below 64 that @bits says are looked up. */
static bool lengths_are(uint64_t bits)
{
        const struct sb_word64 *lengths = writer.segment.super->prefix_lengths;

        for (uint32_t i = 2; i < SB_PREFIX_LENGTHS; i++)
                if ((uint32_t)sb_load_relaxed(&lengths[i]))
                        return false;
        return (uint32_t)sb_load_relaxed(&lengths[0]) == (uint32_t)bits &&
               (uint32_t)sb_load_relaxed(&lengths[1]) == bits >> 32;
}

/* A whole sweep, as the engine's tick makes it. */
static void sweep_once(struct sb_handle *handle)
{
        uint64_t chunks = sb_sweep_chunks(&handle->segment);

        sb_sweep_begin(handle);
        sb_sweep_slice_begin(handle, true);
        for (uint64_t i = 0; i < chunks; i++)
                sb_sweep_chunk(handle, i);
        sb_sweep_slice_end(handle);
        sb_sweep_end(handle);
}

/* How many hints a write of this key left in the watch's ring. */
static uint64_t hints_of(const struct sb_op_prefix *on, const char *key)
{
        uint64_t before = sb_hint_tail(&on->watch.ring);

        if (put(&writer, key, "v", 1))
                return UINT64_MAX;
        return sb_hint_tail(&on->watch.ring) - before;
}

static void test_writers_look_for_the_lengths_that_are_watched(void)
{
        static const char *prefixes[] = {"", "a", "a/2345678901234567890123456789",
                "a/23456789012345678901234567890", "a/234567890123456789012345678901",
                "a/2345678901234567890123456789012"};
        struct sb_op_prefix watches[6];
        char key[64];

        CHECK(begin());
        CHECK(!attention() && lengths_are(0));
        for (uint32_t i = 0; i < 6; i++) {
                uint64_t bits = 0;

                CHECK_EQ(open_watch(prefixes[i], &watches[i]), 0);
                for (uint32_t k = 0; k <= i; k++)
                        bits |= UINT64_C(1) << strlen(prefixes[k]);
                CHECK(attention() && lengths_are(bits));
                for (uint32_t k = 0; k < 6; k++) {
                        snprintf(key, sizeof(key), "%s%s", prefixes[k], k ? "" : "b");
                        for (uint32_t m = 0; m <= i; m++)
                                CHECK_EQ(hints_of(&watches[m], key),
                                        !strncmp(key, prefixes[m], strlen(prefixes[m])));
                }
        }
        for (uint32_t i = 0; i < 6; i++)
                sb_op_prefix_end(&reader, &watches[i]);
        unmake_bus();
}

static void test_lengths_and_attention_go_with_the_sweep_behind_the_last_watch(void)
{
        struct sb_op_prefix other, same;

        CHECK(begin());
        for (uint32_t round = 0; round < 6; round++) {
                CHECK_EQ(open_watch("abc", &watch), 0);
                CHECK_EQ(open_watch("ab", &other), 0);
                CHECK_EQ(open_watch("ab", &same), 0);
                sweep_once(&engine);
                CHECK(attention() && lengths_are(1 << 3 | 1 << 2));
                CHECK(hints_of(&watch, "abcd") == 1 && hints_of(&other, "abcd") == 1);
                sb_op_prefix_end(&reader, &watch);
                sb_op_prefix_end(&reader, &other);
                /* Another client's sweep takes nothing back. */
                sweep_once(&writer);
                CHECK(lengths_are(1 << 3 | 1 << 2));
                sweep_once(&engine);
                CHECK(attention() && lengths_are(1 << 2));
                CHECK_EQ(hints_of(&same, "abcd"), 1);
                sb_op_prefix_end(&reader, &same);
                sweep_once(&engine);
                CHECK(!attention() && lengths_are(0));
        }
        unmake_bus();
}

/* A join at each point of a sweep that had met no watch before. */
static void test_a_watch_that_joins_in_a_sweep_keeps_its_length_and_attention(void)
{
        for (uint32_t point = 0; point < 3; point++)
                for (uint32_t round = 0; round < 2; round++) {
                        uint64_t chunks;

                        CHECK(begin());
                        CHECK_EQ(open_watch("old", &watch), 0);
                        sb_op_prefix_end(&reader, &watch);
                        chunks = sb_sweep_chunks(&engine.segment);
                        sb_sweep_begin(&engine);
                        if (point == 0)
                                CHECK_EQ(open_watch(round ? "old" : "a", &watch), 0);
                        sb_sweep_slice_begin(&engine, true);
                        for (uint64_t i = 0; i < chunks; i++) {
                                if (point == 1 && i == chunks / 2)
                                        CHECK_EQ(open_watch(round ? "old" : "a", &watch), 0);
                                sb_sweep_chunk(&engine, i);
                        }
                        sb_sweep_slice_end(&engine);
                        if (point == 2)
                                CHECK_EQ(open_watch(round ? "old" : "a", &watch), 0);
                        sb_sweep_end(&engine);
                        CHECK(attention());
                        CHECK_EQ(hints_of(&watch, round ? "old/1" : "a/1"), 1);
                        sweep_once(&engine);
                        CHECK(attention() && lengths_are(round ? 1 << 3 : 1 << 1));
                        CHECK_EQ(hints_of(&watch, round ? "old/1" : "a/1"), 1);
                        sb_op_prefix_end(&reader, &watch);
                        sweep_once(&engine);
                        CHECK(!attention() && lengths_are(0));
                        unmake_bus();
                }
}

/* The engine was killed between its CAS and the turn, before or behind the bit; a watch joins. */
static void test_an_engine_that_died_while_it_cleared_takes_no_attention_away(void)
{
        for (uint32_t second = 0; second < 2; second++)
                for (uint32_t step = 0; step < 3; step++) {
                        struct sb_superblock *super;
                        uint64_t bit;

                        CHECK(begin());
                        super = engine.segment.super;
                        for (uint32_t i = 0; i < second; i++) { /* so that the other bit is next */
                                CHECK_EQ(open_watch("x", &watch), 0);
                                sb_op_prefix_end(&reader, &watch);
                                sweep_once(&engine);
                        }
                        CHECK_EQ(open_watch("a", &watch), 0);
                        sb_op_prefix_end(&reader, &watch);
                        bit = sb_turn_of(sb_load_relaxed(&super->prefixes))
                                      ? SB_ATTENTION_PREFIXES_1
                                      : SB_ATTENTION_PREFIXES_0;
                        CHECK(attention() & bit);
                        CHECK(sb_turn_begin(&super->prefixes, sb_load_relaxed(&super->prefixes)));
                        if (step == 1)
                                sb_and_full(&super->attention, ~bit);
                        if (step != 2)
                                CHECK_EQ(open_watch("a", &watch), 0);
                        /* The next engine. Step 2: no watch has joined. */
                        sweep_once(&engine);
                        if (step != 2) {
                                CHECK(attention() && lengths_are(1 << 1));
                                CHECK_EQ(hints_of(&watch, "a1"), 1);
                                sb_op_prefix_end(&reader, &watch);
                        }
                        sweep_once(&engine);
                        sweep_once(&engine);
                        CHECK(!attention() && lengths_are(0));
                        CHECK(!(sb_load_relaxed(&super->prefixes) & SB_TURN_CLEARING));
                        unmake_bus();
                }
}

static void test_a_watch_of_a_dead_client_goes_with_a_sweep(void)
{
        struct sb_check_report report;

        CHECK(begin());
        CHECK_EQ(open_watch("a", &watch), 0);
        CHECK_EQ(put(&writer, "a1", "v", 1), 0);
        sb_reap_record(&engine, reader.slot, reader.generation);
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&engine, true);
        CHECK(!attention() && lengths_are(0));
        CHECK(sb_check(&engine, true, &report) == 0 && report.problem_count == 0);
        CHECK_EQ(report.blocks_lost, 0);
        unmake_bus();
}

/* ---- the ring of a watched prefix ---- */

#define DEPTH 8u
#define SLOTS 22u

static const struct sb_ring_view *const ring = &watch.watch.ring;
static uint64_t cell; /* of a key, for hints */

static bool begin_ring(void)
{
        const struct sb_version *version;

        if (!begin() || put(&writer, "x", "1", 1))
                return false;
        sb_pin(&writer);
        version = sb_find_newest(&writer, "x", 1, sb_hash_key("x", 1, writer.segment.seed));
        cell = version ? sb_pin_load(&writer, &sb_node_at(&writer.segment, version->node)->cell)
                       : 0;
        sb_unpin(&writer);
        return cell && !sb_op_prefix_begin(&reader, "p", 1, 7, DEPTH, &watch) &&
               ring->slot_count == SLOTS && sb_hint_slots(DEPTH) == SLOTS;
}

/* Return: what it overwrote. */
static uint64_t push(uint64_t cell_number)
{
        uint64_t over;

        sb_pin(&writer);
        over = sb_hint_push(&writer, ring, cell_number);
        sb_unpin(&writer);
        return over;
}

static void test_a_hint_is_read_by_its_number_until_it_is_overwritten(void)
{
        CHECK(begin_ring());
        CHECK_EQ(sb_hint_tail(ring), 0);
        for (uint64_t n = 0; n < 5 * SLOTS; n++) {
                CHECK_EQ(sb_hint_read(ring, n), 0);
                CHECK_EQ(push(n + 1), n < SLOTS ? 0 : n + 1 - SLOTS);
                CHECK_EQ(sb_hint_tail(ring), n + 1);
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
                if (n >= SLOTS - 1)
                        CHECK_EQ(sb_hint_read(ring, n + 1 - SLOTS), n + 2 - SLOTS);
                if (n >= SLOTS)
                        CHECK_EQ(sb_hint_read(ring, n - SLOTS), 0);
        }
        unmake_bus();
}

static void test_the_tail_of_a_process_that_stopped_is_moved(void)
{
        CHECK(begin_ring());
        for (uint64_t n = 0; n < 3 * SLOTS; n++) {
                push(n + 1);
                /* As if it had stopped between slot and tail. */
                sb_store_relaxed(&ring->ring->tail, n); /* Relaxed, all here: one thread. */
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
                if (n % 2)
                        sb_store_relaxed(&ring->ring->tail, n + 1);
        }
        CHECK_EQ(sb_hint_tail(ring), 3 * SLOTS);
        for (uint64_t n = 2 * SLOTS; n < 3 * SLOTS; n++)
                CHECK_EQ(sb_hint_read(ring, n), n + 1);
        unmake_bus();
}

/* A slot has 20 bits of the lap. */
static void test_laps_count_on_when_their_bits_begin_anew(void)
{
        const uint64_t around = (UINT64_C(1) << 20) * SLOTS;

        CHECK(begin_ring());
        for (uint64_t begins = around / 2 - 2 * SLOTS; begins < 3 * around; begins += around / 2) {
                sb_store_relaxed(&ring->ring->tail, begins);
                for (uint64_t n = begins - SLOTS; n < begins; n++)
                        sb_store_relaxed(&ring->slots[n % SLOTS],
                                ((n / SLOTS) << 44) | 5); /* of the lap before */
                for (uint64_t n = begins; n < begins + 4 * SLOTS; n++) {
                        CHECK_EQ(push(n % 97 + 1), n < begins + SLOTS ? 5 : (n - SLOTS) % 97 + 1);
                        CHECK_EQ(sb_hint_tail(ring), n + 1);
                        CHECK_EQ(sb_hint_read(ring, n), n % 97 + 1);
                        CHECK_EQ(sb_hint_read(ring, n + 1 - SLOTS),
                                n + 1 < begins + SLOTS ? 5 : (n + 1 - SLOTS) % 97 + 1);
                        CHECK_EQ(sb_hint_read(ring, n - SLOTS), 0);
                }
        }
        unmake_bus();
}

/* Where the half before the last began. */
static void test_what_is_given_up_is_half_a_ring_behind(void)
{
        uint64_t cuts[8 * SLOTS], first;

        CHECK(begin_ring());
        first = sb_hint_gone(ring);
        CHECK(first > 0 && first <= watch.cut);
        for (uint64_t n = 0; n < 8 * SLOTS; n++) {
                uint64_t half = n - n % (SLOTS / 2), gone = sb_hint_gone(ring);

                cuts[n] = sb_clock_take_cut(&writer);
                push(cell);
                CHECK(sb_hint_gone(ring) >= gone);
                /* All of a half that is overwritten next is given up, and of the ring's newer half
                 * nothing is. */
                if (half >= SLOTS / 2)
                        CHECK(sb_hint_gone(ring) >= cuts[half - SLOTS / 2] &&
                                sb_hint_gone(ring) <= cuts[half - SLOTS / 2] + 1);
                else
                        CHECK(sb_hint_gone(ring) <= cuts[0] + 1);
        }
        first = sb_hint_gone(ring);
        sb_hint_raise_gone(ring, first - 1);
        CHECK_EQ(sb_hint_gone(ring), first);
        sb_hint_raise_gone(ring, first + 1);
        CHECK_EQ(sb_hint_gone(ring), first + 1);
        unmake_bus();
}

/* What the bus writes for itself is told to no watch, not even to one of all keys. */
static void test_no_watch_is_told_of_the_buss_own_keys(void)
{
        static const char own[] = SB_RESERVED_MARK "m";
        uint64_t tail;

        CHECK(begin());
        CHECK_EQ(open_watch("", &watch), 0);
        tail = sb_hint_tail(&watch.watch.ring);
        sb_pin(&writer);
        CHECK_EQ(sb_prefix_tell(&writer, own, sizeof(own) - 1, 1, watch.cut + 1), SB_PREFIX_GOES);
        CHECK_EQ(sb_hint_tail(&watch.watch.ring), tail);
        CHECK_EQ(sb_prefix_tell(&writer, "k", 1, 1, watch.cut + 1), SB_PREFIX_STAYS);
        CHECK_EQ(sb_hint_tail(&watch.watch.ring), tail + 1);
        /* What it began at, or before, no watch waits for. */
        CHECK_EQ(sb_prefix_tell(&writer, "k", 1, 1, watch.cut), SB_PREFIX_GOES);
        sb_unpin(&writer);
        sb_op_prefix_end(&reader, &watch);
        unmake_bus();
}

/* Of few keys a half of the ring names much more than limbo takes. All of it goes with a look or
 * two at each key, none of which asks for a sweep; and nothing goes before that. */
static void test_what_a_ring_keeps_of_a_busy_key_goes_by_halves(void)
{
        enum { KEPT = 2 * SB_LIMBO_MAX, HALVES = 10 };
        const uint32_t half = sb_hint_slots(KEPT) / 2;
        char key[16];

        for (uint32_t keys = 1; keys <= 16; keys *= 4) {
                uint64_t asked, looks, cut = 0;

                CHECK(make_bus(16 << 20));
                CHECK_EQ(sb_op_prefix_begin(&reader, "k", 1, 3, KEPT, &watch), 0);
                sb_op_prefix_let_go(&reader, &watch);
                sb_work_all(&writer, true);
                asked = sb_load_relaxed(&writer.segment.super->sweep_wanted);
                looks = writer.limbo.pending_tail;
                for (uint32_t n = 0; n < HALVES * half; n++) {
                        snprintf(key, sizeof(key), "k%u", n % keys);
                        CHECK_EQ(put(&writer, key, "v", 1), 0);
                        cut = sb_clock_take_cut(&reader);
                        if (n % half)
                                continue;
                        /* Whole halves, and what came since one began until the next batch. */
                        CHECK(chain_len(key) * keys <= 3 * half + keys);
                        CHECK(n < 2 * half || chain_len(key) * keys >= half);
                }
                CHECK(chain_len(key) * keys <= 2 * half + 2 * SB_PENDING_BATCH + keys);
                CHECK(sb_hint_gone(&watch.row) < cut && sb_hint_gone(&watch.row) > cut - 3 * half);
                /* Relaxed: one thread. */
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), asked);
                CHECK(writer.limbo.pending_tail - looks <= 4 * keys * HALVES);
                unmake_bus();
        }
}

/* A sweep has gone by the chain when a cut is closed that it was kept for. A value that is longer
 * than the short way takes, @len, is written the long way. */
static void look_for_a_sweep(uint64_t len)
{
        static char long_value[SB_OVERWRITE_MAX];
        uint32_t snapshot, cursor = 0;
        uint64_t since, cut;

        CHECK(begin());
        CHECK_EQ(put(&writer, "k", "0", 1), 0);
        CHECK_EQ(sb_snapshot_open(&reader, &snapshot, &cut), 0);
        CHECK_EQ(put(&writer, "k", "1", 1), 0);
        CHECK_EQ(open_watch("k", &watch), 0);
        sb_op_prefix_let_go(&reader, &watch);
        for (uint32_t i = 0; i < 3; i++)
                sb_work_all(&writer, false);
        for (uint32_t i = 0; i < 200; i++)
                (void)sb_work_tick(&engine, &cursor);
        CHECK_EQ(chain_len("k"), 2);
        CHECK(!sb_limbo_pending(&writer) && !sb_limbo_asked(&writer));
        since = writer.limbo.pending_tail;
        CHECK_EQ(put(&writer, "k", long_value, len), 0);
        CHECK_EQ(writer.limbo.pending_tail, since);
        sb_snapshot_close(&reader, snapshot);
        CHECK_EQ(put(&writer, "k", long_value, len), 0);
        sb_work_all(&writer, false);
        /* What the watch keeps, and no more. */
        CHECK_EQ(chain_len("k"), 3);
        unmake_bus();
}

static void test_a_write_below_a_watched_prefix_looks_for_a_sweep_that_may_miss_it(void)
{
        look_for_a_sweep(64);
        look_for_a_sweep(SB_OVERWRITE_MAX);
}

/* A node with a ring and such a key is damaged. */
static void test_a_sweep_takes_no_short_key_for_a_watch(void)
{
        struct sb_version *version;

        CHECK(begin());
        CHECK_EQ(put(&writer, "short", "v", 1), 0);
        sb_prefix_sweep_begin(&engine);
        sb_pin(&reader);
        CHECK((version = find("short")));
        sb_prefix_sweep_saw(&engine, sb_node_at(&writer.segment, version->node));
        sb_unpin(&reader);
        CHECK(!engine.prefixes.any);
        unmake_bus();
}

/* No cut can ever be behind it: the watch would begin for ever. */
static void test_what_is_given_up_ahead_of_the_clock_is_damage(void)
{
        CHECK(begin_ring());
        CHECK(sb_op_prefix_again(&reader, &watch));
        CHECK(!sb_damage_met(&reader));
        sb_hint_raise_gone(ring, sb_load_acquire(&writer.segment.super->clock) + 1);
        CHECK(!sb_op_prefix_again(&reader, &watch));
        CHECK(sb_damage_met(&reader));
        unmake_bus();
}

/* A reader that is behind by any number either has every hint, or learns that it has not. */
static void test_a_reader_has_every_hint_or_learns_that_it_has_not(void)
{
        for (uint64_t behind = 0; behind < 3 * SLOTS; behind++) {
                uint64_t number, begins;
                int r;

                CHECK(begin_ring());
                for (uint64_t n = 0; n < 5; n++)
                        push(99);
                sb_op_prefix_again(&reader, &watch);
                begins = sb_hint_tail(ring);
                for (uint64_t n = 0; n < behind; n++)
                        push(n + 1);
                for (uint64_t n = 0; n < behind && behind <= SLOTS; n++)
                        CHECK(sb_op_prefix_hint(&watch, &number) == 1 && number == n + 1);
                r = sb_op_prefix_hint(&watch, &number);
                CHECK_EQ(r, behind > SLOTS ? -1 : 0);
                CHECK_EQ(watch.hint, behind > SLOTS ? begins : begins + behind);
                unmake_bus();
        }
}

/* A maker of the prefix's key in an earlier life of it was stopped for long: it places what stands
 * for that life before the watch's cell, and is stopped again before it asks whether it counts. */
static void test_what_a_slow_maker_placed_hides_no_watch(void)
{
        unsigned char key[SB_KEY_LEN_MAX];
        char filler[16] = "";
        struct sb_version *placeholder;
        struct sb_op_result result;
        uint64_t hash, number, at;
        uint32_t len;

        CHECK(begin());
        len = sb_prefix_key("k/", 2, key);
        hash = sb_hash_key(key, len, writer.segment.seed);
        for (uint32_t i = 0; !*filler; i++) {
                snprintf(filler, sizeof(filler), "f%u", i);
                if (sb_index_home(&writer.segment,
                            sb_hash_key(filler, strlen(filler), writer.segment.seed)) !=
                        sb_index_home(&writer.segment, hash))
                        *filler = 0;
        }
        CHECK_EQ(put(&writer, filler, "v", 1), 0);
        CHECK_EQ(open_watch("k/", &watch), 0);
        CHECK_EQ(hints_of(&watch, "k/1"), 1);
        sb_op_prefix_let_go(&reader, &watch);
        /* The cell before the watch's is empty again. */
        CHECK_EQ(sb_op_write(&writer,
                         &(struct sb_op_write){.key = filler,
                                 .key_len = (uint32_t)strlen(filler),
                                 .kind = SB_VERSION_DELETED,
                                 .expected_rev = SB_OP_ANY_REV},
                         &result),
                0);
        for (uint32_t i = 0; i < 3; i++) {
                sb_work_all(&writer, true);
                sb_work_all(&engine, true);
        }
        sb_pin(&writer);
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(*placeholder) + len, SB_SLAB_LARGER,
                         &at),
                0);
        placeholder = sb_version_at(&writer.segment, at);
        sb_pin_give_birth(&writer, &placeholder->block);
        placeholder->rev = 0;
        placeholder->node = 0; /* of the life that is over */
        placeholder->shape = SB_SHAPE(0, len, SB_VERSION_PLACEHOLDER, writer.slot);
        sb_store_relaxed(&placeholder->stamp, 0); /* Relaxed, all here: one thread. */
        sb_store_relaxed(&placeholder->prev, 0);
        memcpy(placeholder->bytes, key, len);
        CHECK_EQ(sb_index_insert(&writer, hash, at, &number), 0);
        sb_unpin(&writer);
        CHECK(sb_cell_at(&writer.segment, number) < watch.watch.cell);
        CHECK_EQ(hints_of(&watch, "k/1"), 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_writers_look_for_the_lengths_that_are_watched);
        RUN(test_lengths_and_attention_go_with_the_sweep_behind_the_last_watch);
        RUN(test_a_watch_that_joins_in_a_sweep_keeps_its_length_and_attention);
        RUN(test_an_engine_that_died_while_it_cleared_takes_no_attention_away);
        RUN(test_a_watch_of_a_dead_client_goes_with_a_sweep);
        RUN(test_a_hint_is_read_by_its_number_until_it_is_overwritten);
        RUN(test_the_tail_of_a_process_that_stopped_is_moved);
        RUN(test_laps_count_on_when_their_bits_begin_anew);
        RUN(test_what_is_given_up_is_half_a_ring_behind);
        RUN(test_no_watch_is_told_of_the_buss_own_keys);
        RUN(test_what_a_ring_keeps_of_a_busy_key_goes_by_halves);
        RUN(test_a_write_below_a_watched_prefix_looks_for_a_sweep_that_may_miss_it);
        RUN(test_a_sweep_takes_no_short_key_for_a_watch);
        RUN(test_what_is_given_up_ahead_of_the_clock_is_damage);
        RUN(test_a_reader_has_every_hint_or_learns_that_it_has_not);
        RUN(test_what_a_slow_maker_placed_hides_no_watch);
        return test_end();
}
