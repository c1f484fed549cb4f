/*
 * How many of a key's versions stay by their number, for a rule of history or for watches, and that
 * what a write costs does not depend on it (shm/upkeep/prune.h, shm/notify/ring.h): a write takes
 * out the one that it pushes over the edge; a watch goes on by the slots, however far behind.
 */
#include <errno.h>

#include "ring/op/keep.h"
#include "ring/op/watch.h"
#include "shm/history/rules.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

static struct sb_handle engine;

static bool begin(uint64_t size)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_for(size, 4) ||
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

static int keep_last(const char *key, uint64_t last)
{
        return sb_keep_write(&writer, key, (uint32_t)strlen(key), false,
                last ? SB_RULE_WORD(SB_RULE_LAST, last) : SB_RULE_WORD(SB_RULE_NEWEST, 0));
}

static int watch_key(const char *key, uint32_t depth, struct sb_op_watch *ret)
{
        return sb_op_watch_begin(
                &reader, key, (uint32_t)strlen(key), 0, depth, SB_WATCH_VERSIONS, ret);
}

/* Whether the latest @count revisions are all there. */
static bool has_latest(const char *key, uint64_t count)
{
        struct sb_version *version;
        uint64_t rev;

        sb_pin(&reader);
        version = find(key);
        for (rev = version->rev; version && version->rev == rev && --count; rev--)
                version = sb_version_at(
                        &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK);
        sb_unpin(&reader);
        return !count && version && version->rev == rev;
}

static uint64_t newest_rev(const char *key)
{
        uint64_t rev;

        sb_pin(&reader);
        rev = find(key)->rev;
        sb_unpin(&reader);
        return rev;
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

/* Whether the watch's next change is said by a slot: what costs the same however far behind. */
static bool slot_says_next(struct sb_op_watch *watch)
{
        bool says;

        sb_pin(&reader);
        says = sb_ring_find(&reader, &watch->ring, watch->last + 1);
        sb_unpin(&reader);
        return says;
}

static bool next_is(struct sb_op_watch *watch, uint64_t rev)
{
        struct sb_op_change change;

        return sb_op_watch_look(&reader, watch, 0, 1, &change) == SB_WATCHED_CHANGE &&
               change.version->rev == rev && !change.missed;
}

static bool nothing(struct sb_op_watch *watch)
{
        struct sb_op_change change;

        return sb_op_watch_look(&reader, watch, 0, 1, &change) == SB_WATCHED_NOTHING;
}

static bool put_many(struct sb_handle *handle, const char *key, uint32_t count)
{
        while (count--)
                if (put(handle, key, "v", 1))
                        return false;
        return true;
}

static void test_a_deep_watch_has_all_changes_up_to_its_depth_at_hand(void)
{
        static const uint32_t depths[] = {1, 8, 9, 100, 5000, 40000};

        for (uint32_t i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
                uint32_t depth = depths[i];
                struct sb_op_change change;
                struct sb_op_watch watch;

                CHECK(begin(16 << 20));
                CHECK_EQ(watch_key("key", depth, &watch), 0);
                for (uint32_t more = 0; more < 3; more++) {
                        CHECK(put_many(&writer, "key", depth));
                        sweep();
                        for (uint32_t n = 0; n < depth; n++) {
                                CHECK(slot_says_next(&watch));
                                CHECK(next_is(&watch, watch.last + 1));
                        }
                        CHECK(nothing(&watch));
                }
                CHECK(put_many(&writer, "key", 2 * depth + 70));
                sweep();
                CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_LAPPED);
                CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
                CHECK_EQ(change.missed, depth + 70);
                for (uint32_t n = 1; n < depth; n++) {
                        CHECK(slot_says_next(&watch));
                        CHECK(next_is(&watch, watch.last + 1));
                }
                CHECK(nothing(&watch));
                sb_op_watch_end(&reader, &watch);
                sweep();
                CHECK_EQ(chain_len("key"), 1);
                CHECK_EQ(ring_of("key"), 0);
                CHECK(sound());
                unmake_bus();
        }
}

/* The first watch gets the depth of the second one, from then on; what was told before is found
 * where it was told. */
static void test_a_deeper_watch_stands_beside_others(void)
{
        struct sb_op_watch first, second, third;

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key("key", 12, &first), 0);
        CHECK(put_many(&writer, "key", 10));
        CHECK_EQ(watch_key("key", 200, &second), 0);
        CHECK(put_many(&writer, "key", 150));
        CHECK_EQ(watch_key("key", 100, &third), 0);
        CHECK(put_many(&writer, "key", 40));
        sweep();
        for (uint64_t rev = first.start + 1; rev <= first.start + 200; rev++) {
                CHECK(slot_says_next(&first));
                CHECK(next_is(&first, rev));
                if (rev > second.start) {
                        CHECK(slot_says_next(&second));
                        CHECK(next_is(&second, rev));
                }
                if (rev > third.start)
                        CHECK(next_is(&third, rev));
        }
        CHECK(nothing(&first) && nothing(&second) && nothing(&third));
        sb_op_watch_end(&reader, &second);
        sweep();
        /* The depth stays until the last watch has ended. */
        CHECK(put_many(&writer, "key", 200));
        sweep();
        CHECK(next_is(&third, third.last + 1));
        sb_op_watch_end(&reader, &first);
        sb_op_watch_end(&reader, &third);
        sweep();
        CHECK_EQ(ring_of("key"), 0);
        CHECK(sound());
        unmake_bus();
}

/* However long the chain is: that each write takes one out is that it costs the same. */
static void test_a_write_takes_out_the_one_that_it_pushes_over_the_edge(void)
{
        static const uint32_t lasts[] = {1, 2, 8, 9, 64, 65, 300, 2000};

        for (uint32_t i = 0; i < sizeof(lasts) / sizeof(*lasts); i++) {
                uint32_t last = lasts[i];

                CHECK(begin(4 << 20));
                CHECK_EQ(put(&writer, "key", "0", 1), 0);
                CHECK_EQ(keep_last("key", last), 0);
                CHECK(put_many(&writer, "key", last - 1));
                CHECK(chain_len("key") >= last);
                /* A ring comes, and what lies below its first slot goes. */
                CHECK(put_many(&writer, "key", 3 * last + 200));
                sweep();
                CHECK_EQ(chain_len("key"), last);
                for (uint32_t n = 0; n < 400; n++) {
                        CHECK_EQ(put(n % 3 ? &writer : &reader, "key", "v", 1), 0);
                        /* One more where the clock moved: that one waits for a new horizon. */
                        CHECK(has_latest("key", last) && chain_len("key") <= last + 1);
                }
                CHECK_EQ(!ring_of("key"), last <= 8);
                sweep();
                CHECK_EQ(chain_len("key"), last);
                CHECK(sound());
                /* Another rule, and none. */
                CHECK_EQ(keep_last("key", last + 10), 0);
                CHECK(put_many(&writer, "key", 3 * last + 200));
                sweep();
                CHECK_EQ(chain_len("key"), last + 10);
                CHECK_EQ(keep_last("key", 1), 0);
                CHECK(put_many(&writer, "key", 100));
                sweep();
                CHECK_EQ(chain_len("key"), 1);
                CHECK_EQ(keep_last("key", 0), 0);
                sweep();
                CHECK_EQ(ring_of("key"), 0);
                CHECK(sound());
                unmake_bus();
        }
}

static void test_what_a_cut_needs_stays_and_goes_when_the_cut_is_closed(void)
{
        uint32_t snapshot;
        struct sb_version *version;
        uint64_t cut, rev;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        CHECK_EQ(keep_last("key", 20), 0);
        CHECK(put_many(&writer, "key", 300));
        rev = newest_rev("key");
        CHECK_EQ(sb_snapshot_open(&reader, &snapshot, &cut), 0);
        CHECK(put_many(&writer, "key", 300));
        sb_pin(&reader);
        version = find("key");
        for (uint32_t n = 1; n < 20; n++)
                version = sb_version_at(
                        &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK);
        version = sb_version_at(
                &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK);
        CHECK(version && version->rev == rev);
        sb_unpin(&reader);
        CHECK_EQ(chain_len("key"), 21);
        sb_snapshot_close(&reader, snapshot);
        sweep();
        CHECK_EQ(chain_len("key"), 20);
        CHECK(sound());
        unmake_bus();
}

/* A rule and a watch: the larger of both counts, and each goes for itself. */
static void test_a_rule_and_a_watch_share_a_ring(void)
{
        struct sb_op_watch watch;

        for (uint32_t depth = 10; depth <= 100; depth += 90) {
                CHECK(begin(1 << 20));
                CHECK_EQ(put(&writer, "key", "0", 1), 0);
                CHECK_EQ(keep_last("key", 40), 0);
                CHECK(put_many(&writer, "key", 300));
                CHECK_EQ(watch_key("key", depth, &watch), 0);
                CHECK(put_many(&writer, "key", 300));
                sweep();
                CHECK(chain_len("key") >= (depth < 40 ? 40 : depth));
                sb_op_watch_end(&reader, &watch);
                sweep();
                CHECK(put_many(&writer, "key", 300));
                sweep();
                CHECK_EQ(chain_len("key"), 40);
                CHECK_EQ(watch_key("key", depth, &watch), 0);
                CHECK_EQ(keep_last("key", 0), 0);
                CHECK(put_many(&writer, "key", 50));
                for (uint32_t n = 50 - (depth < 50 ? depth : 50); n < 50; n++)
                        CHECK(depth < 50 || next_is(&watch, watch.last + 1));
                sb_op_watch_end(&reader, &watch);
                sweep();
                CHECK_EQ(chain_len("key"), 1);
                CHECK_EQ(ring_of("key"), 0);
                CHECK(sound());
                unmake_bus();
        }
}

/* A ring comes to a key that has flags already. A writer that began before it tells late, and a
 * pruner that had found no ring has taken its version out without a word. */
static void test_what_is_told_late_of_before_a_ring_came_is_not_followed(void)
{
        struct sb_version *late;
        struct sb_op_watch watch;
        struct sb_node *node;
        uint64_t rev;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        CHECK_EQ(keep_last("key", 3), 0);
        CHECK(put_many(&writer, "key", 10));
        late = find("key");
        rev = late->rev;
        CHECK(put_many(&writer, "key", 2));
        CHECK_EQ(watch_key("key", 12, &watch), 0);
        CHECK(sb_ring_gone(&watch.ring) == rev + 2);
        sb_pin(&writer);
        node = sb_node_at(&writer.segment, late->node);
        sb_ring_tell(&writer, node, late);
        CHECK(!sb_ring_find(&writer, &watch.ring, rev));
        sb_unpin(&writer);
        /* The chain has it still, and that is where it is found. */
        watch.last = rev - 1;
        CHECK(next_is(&watch, rev));
        CHECK(sound());
        unmake_bus();
}

static void test_a_depth_that_memory_does_not_allow_changes_nothing(void)
{
        struct sb_check_report before, after;
        struct sb_op_watch watch;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        sweep();
        CHECK_EQ(sb_check(&engine, true, &before), 0);
        CHECK_EQ(watch_key("key", 1 << 20, &watch), -E2BIG);
        CHECK_EQ(watch_key("key", UINT32_MAX, &watch), -E2BIG);
        sweep();
        CHECK_EQ(sb_check(&engine, true, &after), 0);
        CHECK_EQ(after.blocks_used, before.blocks_used);
        CHECK_EQ(watch_key("key", 12, &watch), 0);
        CHECK_EQ(put(&writer, "key", "1", 1), 0);
        /* It stands beside one that is refused. */
        CHECK_EQ(watch_key("key", UINT32_MAX, &(struct sb_op_watch){0}), -E2BIG);
        CHECK(next_is(&watch, watch.start + 1));
        CHECK(sound());
        unmake_bus();
}

static int watch_dropping(const char *key, uint32_t count, struct sb_op_watch *ret)
{
        int r = sb_op_watch_begin_dropping(
                &reader, key, (uint32_t)strlen(key), 0, 8, count, UINT64_MAX, ret);

        return is_pinned() ? -EDEADLK : r;
}

/* A queue that takes the first changes, and drops what comes while it is full. */
#define QUEUE_MAX 300u
struct queue {
        uint64_t rev[QUEUE_MAX], dropped, all;
        uint32_t count, room;
};

static void queue_write(struct queue *queue, uint64_t rev)
{
        queue->all++;
        if (queue->count == queue->room)
                queue->dropped++;
        else
                queue->rev[queue->count++] = rev;
}

static uint64_t queue_read(struct queue *queue)
{
        uint64_t rev = queue->rev[0];

        memmove(queue->rev, queue->rev + 1, --queue->count * sizeof(*queue->rev));
        return rev;
}

static uint64_t draw_state;
static uint32_t draw(uint32_t below)
{
        draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(draw_state >> 33) % below;
}

/* The next change of the watch is what the queue has, with what it replaced. */
static bool queue_agrees(struct queue *queue, struct sb_op_watch *watch)
{
        struct sb_op_change change;
        uint64_t last = watch->last;
        enum sb_watched watched = sb_op_watch_look(&reader, watch, 0, 1, &change);

        if (!queue->count)
                return watched == SB_WATCHED_NOTHING;
        return watched == SB_WATCHED_CHANGE && change.version->rev == queue_read(queue) &&
               change.missed == change.version->rev - last - 1 && change.old &&
               change.old->rev + 1 == change.version->rev;
}

/* As for a watch of a program that is far behind. */
static void lend_anchors(struct sb_op_watch *watch)
{
        static struct sb_anchors anchors;

        anchors = (struct sb_anchors){0};
        for (uint32_t level = 0; level < SB_ANCHORS; level++) {
                anchors.guards[level] = 2 + level;
                if (sb_guard_grow(&reader, 2 + level))
                        abort();
        }
        watch->anchors = &anchors;
}

static void test_a_watch_that_drops_is_a_queue_that_takes_the_first(void)
{
        for (uint32_t round = 0; round < 60; round++) {
                static const uint32_t rooms[] = {1, 2, 16, 100};
                struct queue queue = {.room = rooms[round % 4]};
                struct sb_op_watch watch;
                uint32_t pace = 1 + round % 7;

                draw_state = 70000 + round;
                CHECK(begin(1 << 20));
                CHECK_EQ(put(&writer, "key", "0", 1), 0);
                CHECK_EQ(watch_dropping("key", queue.room, &watch), 0);
                if (round % 8 >= 4)
                        lend_anchors(&watch);
                for (uint32_t step = 0; step < 400; step++) {
                        uint32_t what = draw(10);

                        for (uint32_t n = what < pace ? draw(3 * queue.room) : 0; n; n--) {
                                CHECK_EQ(put(&writer, "key", "v", 1), 0);
                                queue_write(&queue, newest_rev("key"));
                        }
                        for (uint32_t n = what >= pace ? draw(2 * queue.room) : 0; n; n--)
                                CHECK(queue_agrees(&queue, &watch));
                        if (step % 50 == 49)
                                sweep();
                        CHECK_EQ(sb_op_watch_dropped(&reader, &watch), queue.dropped);
                        CHECK(!is_pinned());
                        CHECK_EQ(sb_op_watch_has(&reader, &watch), queue.count > 0);
                        /* The depth, two for each place, and what waits for a look. */
                        CHECK(chain_len("key") <= 8 + 3 * queue.room + 2 * SB_PENDING_BATCH);
                }
                sb_op_watch_end(&reader, &watch);
                if (watch.anchors)
                        sb_anchor_drop(&reader, watch.anchors);
                sweep();
                CHECK_EQ(chain_len("key"), 1);
                CHECK_EQ(ring_of("key"), 0);
                CHECK(sound());
                unmake_bus();
        }
}

/* A pruner looks at its chain now and then, and when all was read. */
static void test_what_a_deep_watch_has_read_goes_soon(void)
{
        const uint32_t depth = 600;
        struct queue queue = {.room = 0};
        struct sb_op_change change;
        struct sb_op_watch watch;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        CHECK_EQ(watch_dropping("key", depth, &watch), 0);
        CHECK(put_many(&writer, "key", 3 * depth));
        for (uint32_t i = 0; i < depth; i++) {
                CHECK_EQ(sb_op_watch_look(&reader, &watch, 0, 1, &change), SB_WATCHED_CHANGE);
                CHECK_EQ(change.version->rev, watch.start + 1 + i);
                CHECK(chain_len("key") <= 2 * depth - i + depth / 4 + 2 * SB_PENDING_BATCH);
        }
        CHECK(queue_agrees(&queue, &watch));
        CHECK(chain_len("key") <= depth + SB_PENDING_BATCH / 2);
        sb_op_watch_end(&reader, &watch);
        unmake_bus();
}

/* Its block serves the next one, which wants something else. */
static void test_a_watch_that_drops_leaves_nothing_behind(void)
{
        struct sb_op_watch plain, first, second;
        struct queue queue = {.room = 3};
        uint64_t blocks;

        CHECK(begin(1 << 20));
        CHECK_EQ(watch_key("key", 8, &plain), 0);
        CHECK_EQ(watch_dropping("key", 20, &first), 0);
        CHECK(put_many(&writer, "key", 300));
        CHECK(chain_len("key") >= 20 + 8);
        blocks = ring_of("key");
        sb_op_watch_end(&reader, &first);
        CHECK_EQ(watch_dropping("key", 3, &second), 0);
        CHECK(second.wants.ring == first.wants.ring);
        CHECK_EQ(ring_of("key"), blocks);
        for (uint32_t n = 0; n < 300; n++) {
                CHECK_EQ(put(&writer, "key", "v", 1), 0);
                queue_write(&queue, newest_rev("key"));
        }
        sweep();
        CHECK(chain_len("key") <= 20 + 4);
        for (uint32_t n = 0; n < 4; n++)
                CHECK(queue_agrees(&queue, &second));
        /* Its client dies. */
        CHECK(put_many(&writer, "key", 300));
        sb_reap_record(&engine, reader.slot, reader.generation);
        sweep();
        CHECK_EQ(chain_len("key"), 1);
        unmake_bus();
}

static uint64_t read_some(struct sb_op_watch *watch, uint64_t most)
{
        struct sb_op_change change;
        uint64_t count = 0;

        while (count < most && sb_op_watch_look(&reader, watch, 0, 1, &change) == SB_WATCHED_CHANGE)
                count++;
        return count;
}

/* None, or more than its block has words for: it wants nothing. */
static void test_a_pruner_follows_no_count_of_wishes_that_is_damaged(void)
{
        const struct sb_ring_view *wants;
        struct sb_op_watch watch;

        CHECK(begin(1 << 20));
        CHECK_EQ(put(&writer, "key", "0", 1), 0);
        CHECK_EQ(watch_dropping("key", 2, &watch), 0);
        wants = &watch.wants;
        sb_pin(&reader);
        CHECK(sb_ring_wants(&reader, &watch.ring, watch.start + 1));
        sb_store_relaxed(&wants->ring->room, 0); /* Relaxed, both: one thread. */
        CHECK(!sb_ring_wants(&reader, &watch.ring, watch.start + 1));
        sb_store_relaxed(&wants->ring->room, UINT64_MAX);
        CHECK(!sb_ring_wants(&reader, &watch.ring, watch.start + 1));
        sb_unpin(&reader);
        unmake_bus();
}

/* Each change is given or counted, also where some were given before memory was short. */
static void test_where_memory_is_short_a_watch_that_drops_counts_what_gave_way(void)
{
        static const uint64_t before[] = {0, 1, 20, 63, 64};
        static unsigned char value[3000];
        struct sb_op_watch watch;
        uint64_t given;
        uint32_t i;
        char key[16];

        for (uint32_t round = 0; round < sizeof(before) / sizeof(*before); round++) {
                CHECK(begin(1 << 20));
                CHECK_EQ(watch_dropping("key", 64, &watch), 0);
                for (i = 0; i < 200; i++)
                        CHECK_EQ(put_patiently(&writer, "key", value, sizeof(value)), 0);
                given = read_some(&watch, before[round]);
                CHECK_EQ(given, before[round]);
                for (i = 0; i < 1000; i++) {
                        snprintf(key, sizeof(key), "fill%u", i);
                        if (put_patiently(&writer, key, value, sizeof(value)))
                                break;
                }
                CHECK(i > 150);
                given += read_some(&watch, 200);
                CHECK(given < 64 || before[round] == 64); /* something gave way */
                CHECK_EQ(given + sb_op_watch_dropped(&reader, &watch), 200);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_deep_watch_has_all_changes_up_to_its_depth_at_hand);
        RUN(test_a_deeper_watch_stands_beside_others);
        RUN(test_a_write_takes_out_the_one_that_it_pushes_over_the_edge);
        RUN(test_what_a_cut_needs_stays_and_goes_when_the_cut_is_closed);
        RUN(test_a_rule_and_a_watch_share_a_ring);
        RUN(test_what_is_told_late_of_before_a_ring_came_is_not_followed);
        RUN(test_a_watch_that_drops_is_a_queue_that_takes_the_first);
        RUN(test_what_a_deep_watch_has_read_goes_soon);
        RUN(test_a_watch_that_drops_leaves_nothing_behind);
        RUN(test_a_pruner_follows_no_count_of_wishes_that_is_damaged);
        RUN(test_where_memory_is_short_a_watch_that_drops_counts_what_gave_way);
        RUN(test_a_depth_that_memory_does_not_allow_changes_nothing);
        return test_end();
}
