/*
 * A watch of one key (ring/op/watch.h, shm/notify/ring.h): it gives each revision once and in
 * order, with what it replaced, by the ring or by the chain; it says how many are lost when some
 * are; any number of watches of a key stand beside each other; and behind the last one nothing is
 * left of them.
 */
#include "ring/op/keep.h"
#include "ring/op/watch.h"
#include "shm/history/rules.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/bell.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/stable.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define DEPTH 8u

static struct sb_handle engine;
static struct sb_op_watch watch;

static bool begin(uint64_t size)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(size, 40) ||
                sb_roster_claim_below(&writer.segment, 0, 1, &identity, &slot, &generation))
                return false;
        make_handle(&engine, &writer.segment, slot, generation);
        return true;
}

/* All that the engine does in a while: a whole sweep, some times, for the grace periods. */
static void sweep(void)
{
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&engine, true);
}

static bool sound(void)
{
        struct sb_check_report report;

        return sb_check(&engine, true, &report) == 0 && report.problem_count == 0 &&
               report.blocks_lost == 0;
}

static int watch_key(struct sb_handle *handle, const char *key, uint32_t bit, uint32_t depth,
        struct sb_op_watch *ret)
{
        return sb_op_watch_begin(
                handle, key, (uint32_t)strlen(key), bit, depth, SB_WATCH_VERSIONS, ret);
}

/* Whether the next change is this revision, and replaced this value (NULL: none). Guards 0 and 1
 * hold it. */
static bool next_is(struct sb_op_watch *on, uint64_t rev, const char *value, const char *old)
{
        struct sb_op_change change;
        uint64_t shape;

        if (sb_op_watch_look(&reader, on, 0, 1, &change) != SB_WATCHED_CHANGE ||
                change.version->rev != rev || change.missed)
                return false;
        shape = change.version->shape;
        if (value ? SB_SHAPE_VALUE_LEN(shape) != strlen(value) ||
                                memcmp(change.version->bytes + SB_SHAPE_KEY_LEN(shape), value,
                                        strlen(value)) != 0
                  : sb_version_has_value(change.version))
                return false;
        if (!old)
                return !change.old;
        return change.old && change.old->rev == rev - 1 &&
               memcmp(change.old->bytes + SB_SHAPE_KEY_LEN(change.old->shape), old, strlen(old)) ==
                       0;
}

static bool nothing(struct sb_op_watch *on)
{
        struct sb_op_change change;

        return sb_op_watch_look(&reader, on, 0, 1, &change) == SB_WATCHED_NOTHING;
}

static void test_each_change_comes_once_with_what_it_replaced(void)
{
        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&reader, "absent", 3, DEPTH, &watch), 0);
        CHECK(nothing(&watch));
        CHECK_EQ(put(&writer, "absent", "one", 3), 0);
        CHECK(sb_bell_is_dirty(&reader));
        CHECK(next_is(&watch, watch.start + 1, "one", NULL));
        CHECK(nothing(&watch));
        for (uint32_t i = 0; i < 100; i++) {
                CHECK_EQ(put(&writer, "absent", "two", 3), 0);
                CHECK(next_is(&watch, watch.start + 2 + i, "two", i ? "two" : "one"));
                CHECK(nothing(&watch));
        }
        CHECK_EQ(delete (&writer, "absent"), 0);
        CHECK(next_is(&watch, watch.start + 102, NULL, "two"));
        CHECK_EQ(put(&writer, "absent", "three", 5), 0);
        CHECK(next_is(&watch, watch.start + 103, "three", NULL));
        CHECK(sound());
        unmake_bus();
}

/* The reader is behind by all numbers up to what the ring holds; and by more. */
static void test_up_to_the_depth_none_is_lost_and_then_they_are_counted(void)
{
        struct sb_op_change change;
        uint64_t rev;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        rev = watch.start;
        for (uint32_t behind = 1; behind <= DEPTH; behind++) {
                for (uint32_t i = 0; i < behind; i++)
                        CHECK_EQ(put(&writer, "key", "v", 1), 0);
                sweep();
                for (uint32_t i = 0; i < behind; i++) {
                        /* Of what the oldest of the whole depth replaced nothing is left. */
                        bool gone = i == 0 && behind == DEPTH;

                        rev++;
                        CHECK(next_is(&watch, rev, "v", gone ? NULL : rev == 2 ? "0" : "v"));
                }
                CHECK(nothing(&watch));
        }
        for (uint32_t over = 1; over < 3 * DEPTH; over++) {
                for (uint32_t i = 0; i < DEPTH + over; i++)
                        CHECK_EQ(put(&writer, "key", "v", 1), 0);
                sweep();
                CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
                CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
                CHECK_EQ(change.missed, over);
                CHECK_EQ(change.version->rev, rev + over + 1);
                CHECK(!change.old);
                rev += over + 1;
                for (uint32_t i = 1; i < DEPTH; i++)
                        CHECK(next_is(&watch, ++rev, "v", "v"));
                CHECK(nothing(&watch));
        }
        CHECK(sound());
        unmake_bus();
}

/* The ring says where each of its changes lies. */
static void test_a_watch_that_is_behind_by_the_depth_goes_down_no_chain(void)
{
        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        for (uint32_t i = 0; i < DEPTH; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        for (uint64_t rev = 1; rev <= DEPTH; rev++) {
                CHECK(next_is(&watch, rev, "v", rev > 1 ? "v" : NULL));
                CHECK_EQ(watch.walked, 0);
        }
        unmake_bus();
}

/* Versions that were replaced before the watch are not kept for it; it says so. */
static void test_a_watch_after_a_revision_gives_what_is_left(void)
{
        struct sb_op_change change;

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 5; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sweep();
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        CHECK_EQ(watch.start, 5);
        watch.last = 4;
        CHECK(next_is(&watch, 5, "v", NULL));
        CHECK(nothing(&watch));
        watch.last = 1;
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
        CHECK(change.missed == 3 && change.version->rev == 5);
        watch.last = 9; /* of another life, or of a durable cut that was fallen back from */
        CHECK(nothing(&watch));
        unmake_bus();
}

/* What no slot of the ring tells of, because it came before the watch. */
static void test_a_watch_after_a_revision_gives_each_that_a_rule_keeps(void)
{
        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "v", 1), 0);
        CHECK_EQ(sb_keep_write(&writer, "key", 3, false, SB_RULE_WORD(SB_RULE_ALL, 0)), 0);
        for (uint32_t i = 0; i < 5; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sweep();
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        watch.last = 1;
        for (uint64_t rev = 2; rev <= 6; rev++)
                CHECK(next_is(&watch, rev, "v", "v"));
        CHECK(nothing(&watch));
        unmake_bus();
}

static void test_a_jump_to_another_life_misses_nothing_and_that_one_ended_is_said(void)
{
        struct sb_op_change change;

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 5; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        CHECK_EQ(delete (&writer, "key"), 0);
        sb_work_all(&writer, true);
        sweep();
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        CHECK_EQ(watch.start, 6); /* the floor */
        watch.last = 2;           /* of the life before */
        CHECK(sb_op_watch_has(&reader, &watch));
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
        CHECK(!sb_op_watch_has(&reader, &watch) && nothing(&watch));
        CHECK_EQ(put(&writer, "key", "w", 1), 0);
        CHECK(next_is(&watch, 7, "w", NULL));
        unmake_bus();
}

/* Not even where some of the later life is out by now: nothing is missing below its first one. */
static void test_the_first_of_another_life_misses_nothing_where_later_ones_are_out(void)
{
        struct sb_op_change change;
        uint32_t snapshot;
        uint64_t cut;

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < 5; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        CHECK_EQ(delete (&writer, "key"), 0);
        sb_work_all(&writer, true);
        sweep();
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        watch.last = 2; /* of the life before */
        CHECK_EQ(put(&writer, "key", "w", 1), 0);
        CHECK_EQ(sb_snapshot_open(&engine, &snapshot, &cut), 0);
        for (uint32_t i = 0; i < 3 * DEPTH; i++)
                CHECK_EQ(put(&writer, "key", "x", 1), 0);
        sweep();
        /* That the key was forgotten, and what it has missed since. */
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
        CHECK(next_is(&watch, 7, "w", NULL));
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
        CHECK_EQ(change.missed, 2 * DEPTH);
        sb_snapshot_close(&engine, snapshot);
        unmake_bus();
}

/* What the slots say of before, and what memory has become since. */
static void test_a_ring_of_an_earlier_watch_is_not_followed(void)
{
        struct sb_op_watch first, second;

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &first), 0);
        for (uint32_t i = 0; i < DEPTH; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sb_op_watch_end(&reader, &first);
        sweep(); /* the engine takes the ring away */
        for (uint32_t i = 0; i < 5 * DEPTH; i++)
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sweep();
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &second), 0);
        CHECK(second.ring.ring != first.ring.ring || second.start == 6 * DEPTH);
        second.last = second.start - 1;
        CHECK(next_is(&second, second.start, "v", NULL));
        sb_op_watch_end(&reader, &second);
        sweep();
        CHECK(sound());
        unmake_bus();
}

static uint64_t ring_of(const char *key)
{
        struct sb_node *node;
        uint64_t at;

        sb_pin(&reader);
        node = sb_node_at(&reader.segment, find(key)->node);
        at = sb_load_acquire(&node->ring);
        sb_unpin(&reader);
        return at;
}

static uint64_t cell_of(const struct sb_op_watch *on)
{
        return sb_load_acquire(on->cell);
}

static void test_behind_the_last_watch_nothing_is_left_of_it(void)
{
        struct sb_check_report before, after;
        struct sb_op_watch other;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sweep();
        CHECK_EQ(sb_check(&engine, true, &before), 0);
        for (uint32_t turn = 0; turn < 100; turn++) {
                CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
                CHECK_EQ(watch_key(&writer, "key", 1, DEPTH, &other), 0);
                CHECK(ring_of("key") && (cell_of(&watch) & SB_CELL_WATCHED));
                for (uint32_t i = 0; i < 3; i++)
                        CHECK_EQ(put(&writer, "key", "v", 1), 0);
                sb_op_watch_end(&reader, &watch);
                sweep();
                CHECK(ring_of("key") && (cell_of(&watch) & SB_CELL_WATCHED));
                sb_op_watch_end(&writer, &other);
                sweep();
                CHECK(!ring_of("key") && !(cell_of(&watch) & SB_CELL_WATCHED));
        }
        CHECK_EQ(sb_check(&engine, true, &after), 0);
        CHECK_EQ(after.problem_count, 0);
        CHECK_EQ(after.versions, before.versions);
        /* Two clients have some blocks in their hands, now more and now less; a block that each
         * turn left would be a hundred. */
        CHECK(after.blocks_used < before.blocks_used + 32);
        unmake_bus();
}

static void test_a_new_ring_says_nothing_of_what_lay_there(void)
{
        const struct sb_ring_form form = {.slot_count = 4, .watcher_count = 3, .want_count = 2};
        struct sb_ring_view view;
        struct sb_ring *ring;
        uint64_t at;

        CHECK(begin(1 << 20));
        CHECK_EQ(sb_slab_take(&writer, SB_UNIT_VERSIONS, sb_ring_size(form), 0, &at), 0);
        ring = (struct sb_ring *)(writer.segment.base + at);
        memset(&ring->block + 1, 0x5a, sb_ring_size(form) - sizeof(ring->block));
        sb_pin(&writer);
        sb_ring_fill(&writer, at, 64, &form);
        CHECK(sb_ring_view(&writer, at, &view));
        CHECK_EQ(sb_ring_gone(&view), SB_RING_UNOPENED); /* whatever slots say */
        /* Relaxed, all: one thread. */
        CHECK(!sb_load_relaxed(&ring->state) && !sb_load_relaxed(&ring->zero));
        CHECK(!sb_load_relaxed(&ring->more) && !sb_load_relaxed(&ring->tail));
        CHECK(!sb_load_relaxed(&ring->mark) && !sb_load_relaxed(&ring->given));
        for (uint32_t i = 0; i < 4 + 3 + 2; i++)
                CHECK_EQ(sb_load_relaxed(&ring->words[i]), 0);
        sb_unpin(&writer);
        unmake_bus();
}

/* The ring and its further blocks, without another sweep. */
static void test_a_ring_that_is_taken_away_waits_for_its_grace_period(void)
{
        static struct sb_op_watch watches[SB_WATCH_ENTRIES + 1];
        struct sb_node *node;
        uint32_t before;

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i <= SB_WATCH_ENTRIES; i++)
                CHECK_EQ(watch_key(&reader, "key", i, DEPTH, &watches[i]), 0);
        for (uint32_t i = 0; i <= SB_WATCH_ENTRIES; i++)
                sb_op_watch_end(&reader, &watches[i]);
        before = sb_limbo_waiting(&engine);
        sb_pin(&engine);
        node = sb_node_at(&engine.segment, watches[0].node);
        CHECK(sb_ring_clear(&engine, node, watches[0].cell));
        /* An engine died here: the next one is told the same. */
        CHECK(sb_ring_clear(&engine, node, watches[0].cell));
        sb_ring_retire(&engine, node);
        sb_unpin(&engine);
        CHECK_EQ(sb_limbo_waiting(&engine), before + 2);
        sweep();
        CHECK(sound());
        unmake_bus();
}

static void test_an_absent_key_that_was_watched_goes(void)
{
        struct sb_check_report report;

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&reader, "absent", 0, DEPTH, &watch), 0);
        sweep();
        CHECK_EQ(put(&writer, "absent", "v", 1), 0);
        CHECK(next_is(&watch, 1, "v", NULL));
        CHECK_EQ(delete (&writer, "absent"), 0);
        sweep(); /* watched, the key stays */
        CHECK(next_is(&watch, 2, NULL, "v"));
        sb_guard_set(&reader, 0, 0);
        sb_guard_set(&reader, 1, 0);
        sb_op_watch_end(&reader, &watch);
        sb_work_all(&writer, true);
        sweep();
        sweep();
        CHECK_EQ(sb_check(&engine, true, &report), 0);
        CHECK_EQ(report.problem_count + report.nodes + report.versions + report.blocks_lost, 0);
        unmake_bus();
}

#define MANY 100u
static void test_any_number_of_watches_of_a_key_are_told(void)
{
        static struct sb_op_watch watches[MANY];
        uint64_t bits, told = 0;
        uint32_t word;

        CHECK(begin(1 << 20));
        for (uint32_t i = 0; i < MANY; i++)
                CHECK_EQ(watch_key(&reader, "key", i, DEPTH, &watches[i]), 0);
        CHECK_EQ(put(&writer, "key", "v", 1), 0);
        while (sb_bell_take(&reader, &word, &bits))
                told += (uint64_t)__builtin_popcountll(bits);
        CHECK_EQ(told, MANY);
        for (uint32_t i = 0; i < MANY; i++)
                CHECK(next_is(&watches[i], 1, "v", NULL) && nothing(&watches[i]));
        /* Every other one goes; the places serve again. */
        for (uint32_t i = 0; i < MANY; i += 2)
                sb_op_watch_end(&reader, &watches[i]);
        for (uint32_t i = 0; i < MANY; i += 2) {
                CHECK_EQ(watch_key(&writer, "key", i, DEPTH, &watches[i]), 0);
                CHECK(i || watches[i].entry == watches[0].entry);
        }
        CHECK_EQ(put(&writer, "key", "w", 1), 0);
        for (told = 0; sb_bell_take(&reader, &word, &bits);)
                told += (uint64_t)__builtin_popcountll(bits);
        CHECK_EQ(told, MANY / 2);
        for (told = 0; sb_bell_take(&writer, &word, &bits);)
                told += (uint64_t)__builtin_popcountll(bits);
        CHECK_EQ(told, MANY / 2);
        for (uint32_t i = 0; i < MANY; i++)
                sb_op_watch_end(i % 2 ? &reader : &writer, &watches[i]);
        sb_guard_set(&reader, 0, 0);
        sb_guard_set(&reader, 1, 0);
        sweep();
        CHECK_EQ(ring_of("key"), 0);
        CHECK(sound());
        unmake_bus();
}

/* A client that is gone is told nothing that counts, and keeps neither key nor ring. */
static void test_a_watch_of_a_dead_client_goes_with_a_sweep(void)
{
        struct sb_op_watch other;

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&writer, "key", 0, DEPTH, &other), 0);
        CHECK_EQ(watch_key(&reader, "key", 0, DEPTH, &watch), 0);
        sb_op_watch_end(&writer, &other);
        sb_reap_record(&engine, reader.slot, reader.generation);
        CHECK_EQ(put(&writer, "key", "v", 1), 0);
        sweep();
        CHECK(!(sb_load_acquire(other.cell) & SB_CELL_WATCHED));
        CHECK(sound());
        unmake_bus();
}

/* A writer that died, or stands still, behind its write and before it told. */
static void test_what_a_dead_or_stopped_writer_wrote_is_told(void)
{
        struct sb_roster_identity identity = {.pid = 2};
        struct sb_handle third;
        uint32_t slot, generation, word;
        uint64_t bits, node;

        CHECK(begin(1 << 20));
        CHECK_EQ(sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation), 0);
        make_handle(&third, &writer.segment, slot, generation);
        CHECK_EQ(watch_key(&reader, "key", 7, DEPTH, &watch), 0);
        CHECK_EQ(put(&third, "key", "v", 1), 0);
        while (sb_bell_take(&reader, &word, &bits))
                ;
        node = watch.node;
        sb_pin(&third);
        sb_store_release(&third.record->operation, node);
        sb_stable_raise(&engine);
        CHECK(sb_bell_take(&reader, &word, &bits) && word == 0 && bits == 1 << 7);
        CHECK(!sb_bell_take(&reader, &word, &bits));
        /* It stands still for long: no look at its note tells of the same change again. */
        for (uint32_t i = 0; i < 3; i++) {
                sb_stable_raise(&engine);
                CHECK(!sb_bell_take(&reader, &word, &bits));
        }
        sb_reap_record(&engine, slot, generation);
        CHECK(sb_bell_take(&reader, &word, &bits) && word == 0 && bits == 1 << 7);
        CHECK(next_is(&watch, 1, "v", NULL));
        unmake_bus();
}

/* A writer stands still before it replaces what a transaction left that was aborted. */
static void test_beside_a_stopped_writer_what_was_aborted_is_told_to_no_watcher(void)
{
        struct sb_roster_identity identity = {.pid = 2};
        struct sb_version *head;
        struct sb_handle third;
        uint32_t slot, generation, word;
        uint64_t bits;

        CHECK(begin(1 << 20));
        CHECK_EQ(sb_roster_claim(&writer.segment, 1, &identity, &slot, &generation), 0);
        make_handle(&third, &writer.segment, slot, generation);
        CHECK_EQ(watch_key(&reader, "key", 7, DEPTH, &watch), 0);
        CHECK_EQ(put(&third, "key", "v", 1), 0);
        sb_stable_raise(&engine);
        while (sb_bell_take(&reader, &word, &bits))
                ;
        sb_pin(&third);
        head = sb_version_at(&third.segment, sb_load_acquire(watch.cell) & SB_OFFSET_MASK);
        sb_store_release(&head->stamp, SB_STAMP_ABORTED);
        sb_store_release(&third.record->operation, watch.node);
        for (uint32_t i = 0; i < 3; i++) {
                sb_stable_raise(&engine);
                CHECK(!sb_bell_take(&reader, &word, &bits));
        }
        unmake_bus();
}

/* A full bus: what watches want gives way, and a writer finds room. */
static void test_where_memory_is_short_a_ring_gives_way(void)
{
        static unsigned char value[3000];
        struct sb_op_change change;
        uint32_t i;
        char key[16];

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key(&reader, "key", 0, 64, &watch), 0);
        for (i = 0; i < 200; i++)
                CHECK_EQ(put_patiently(&writer, "key", value, sizeof(value)), 0);
        /* The rest of the memory, and then as much as the ring kept. */
        for (i = 0; i < 1000; i++) {
                snprintf(key, sizeof(key), "fill%u", i);
                if (put_patiently(&writer, key, value, sizeof(value)))
                        break;
        }
        printf("# 64 versions of 3,000 bytes wanted, %u other values fit into 1 MiB\n", i);
        CHECK(i > 150); /* of some 230 that fit without the watch */
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
        CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
        CHECK_EQ(change.version->rev - change.missed, 1);
        /* What left its chain was said to be gone, though slots name it. */
        CHECK(sb_ring_gone(&watch.ring) >= change.missed);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_each_change_comes_once_with_what_it_replaced);
        RUN(test_up_to_the_depth_none_is_lost_and_then_they_are_counted);
        RUN(test_a_watch_that_is_behind_by_the_depth_goes_down_no_chain);
        RUN(test_a_watch_after_a_revision_gives_what_is_left);
        RUN(test_a_watch_after_a_revision_gives_each_that_a_rule_keeps);
        RUN(test_a_jump_to_another_life_misses_nothing_and_that_one_ended_is_said);
        RUN(test_the_first_of_another_life_misses_nothing_where_later_ones_are_out);
        RUN(test_a_ring_of_an_earlier_watch_is_not_followed);
        RUN(test_behind_the_last_watch_nothing_is_left_of_it);
        RUN(test_a_new_ring_says_nothing_of_what_lay_there);
        RUN(test_a_ring_that_is_taken_away_waits_for_its_grace_period);
        RUN(test_an_absent_key_that_was_watched_goes);
        RUN(test_any_number_of_watches_of_a_key_are_told);
        RUN(test_a_watch_of_a_dead_client_goes_with_a_sweep);
        RUN(test_what_a_dead_or_stopped_writer_wrote_is_told);
        RUN(test_beside_a_stopped_writer_what_was_aborted_is_told_to_no_watcher);
        RUN(test_where_memory_is_short_a_ring_gives_way);
        return test_end();
}
