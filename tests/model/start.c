/*
 * The states in which scenarios start (world.h): what the keys are, what is kept of their past,
 * which transactions and watches there were.
 */
#include "tests/model/start.h"

#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/write.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/spare.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

struct sb_handle *setup_handle(void)
{
        return spec()->setup_by == MODEL_THREADS ? world_peer(0) : handle_of(spec()->setup_by);
}

void setup_write_by(struct sb_handle *handle, enum world_key key, uint32_t value_len)
{
        struct sb_op_result result;
        uint32_t tag = TAG_SETUP + world.setup_writes++;
        int r = world_write(handle, key, value_len, SB_OP_ANY_REV, tag, &result);

        if (r)
                model_fail("a write at the start: %d", r);
        world.start_rev[key] = result.rev;
        world.start_seen[key] = value_len == TOMBSTONE ? 0 : result.rev;
        world.start_cut[key] = result.cut;
        world.start_tag[key] = tag;
        model_note(NOTE_DONE + key, result.rev);
        world_prefix_note(key, result.rev, result.cut, value_len == TOMBSTONE ? NO_TAG : tag);
}

void setup_write(enum world_key key, uint32_t value_len)
{
        setup_write_by(setup_handle(), key, value_len);
}

/* A client that was killed right before it installed: it is pinned, and its note says which key. */
static void setup_dead(void)
{
        struct sb_handle *handle = world_peer(DEAD_PEER);
        struct sb_node *node;

        sb_pin(handle);
        node = sb_order_seek(handle, world_key(KEY_A), world_key_len(KEY_A), false);
        if (!node)
                model_fail("A is not there at the start");
        sb_store_release(&handle->record->operation, sb_offset_of(&handle->segment, node));
}

static void setup_placeholders(struct sb_handle *handle)
{
        if (spec()->start == START_PLACEHOLDERS) {
                world_txn_start_placeholder(handle, KEY_A);
                world_txn_start_placeholder(handle, KEY_B);
                return;
        }
        setup_write(KEY_B, VALUE_LEN);
        world_txn_start_aborted(handle, KEY_A, KEY_B);
}

static void setup_aborted(struct sb_handle *handle)
{
        setup_write(KEY_B, VALUE_LEN);
        if (spec()->start == START_ABORTED_OVER)
                setup_write(KEY_C, VALUE_LEN);
        if (spec()->start == START_ABORTED_DELETED)
                setup_write(KEY_A, TOMBSTONE);
        sb_stable_raise(handle);
        if (spec()->start != START_ABORTED_OVER) {
                world_txn_start_aborted(handle, KEY_A, KEY_B);
                return;
        }
        world_txn_start_aborted(handle, KEY_B, KEY_C);
        while (sb_reclaim_free(handle))
                ;
}

/* The block in the client's magazine lies in another client's slab, so that a reaper that looks
 * only at the client's own slabs does not find it there when the client is killed. */
static void setup_magazine(struct sb_handle *handle)
{
        uint32_t i;

        setup_write_by(world_peer(DEAD_PEER), KEY_A, VALUE_LEN);
        setup_write(KEY_A, VALUE_LEN);
        sb_work_all(handle, false);
        /* That moved the clock. A client that knows of nothing newer puts no block into its
         * magazine. */
        for (i = 0; i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
}

/* As setup_magazine(), for a client of which the magazine passes on what it has in hand. */
static void setup_spare(struct sb_handle *handle)
{
        uint32_t i;

        setup_write_by(world_peer(DEAD_PEER), KEY_A, VALUE_LEN);
        sb_work_all(handle, false);
        for (i = 0; i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
        setup_write(KEY_A, VALUE_LEN);
        sb_reclaim_due(handle);
        if (sb_spare_count(handle) != 1)
                model_fail("no spare at the start");
}

static void setup_trimmed(struct sb_handle *handle)
{
        uint32_t i;

        if (sb_keep_write(handle, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 1)))
                model_fail("a rule at the start");
        setup_write(KEY_A, VALUE_LEN);
        world.engine_cut = sb_clock_take_cut(handle);
        setup_write(KEY_A, VALUE_LEN);
        setup_write(KEY_A, VALUE_LEN);
        for (i = 0; i < 4; i++)
                sb_work_all(handle, true);
}

static void setup_marked(struct sb_handle *handle)
{
        uint32_t i;

        if (sb_op_mark(handle, WORLD_MARK, sizeof WORLD_MARK - 1, &world.engine_cut))
                model_fail("a mark at the start");
        world.past_seen = world.start_seen[KEY_A];
        world.mark_tag[KEY_A] = world.start_tag[KEY_A];
        world.mark_tag[KEY_B] = world.mark_tag[KEY_C] = NO_TAG;
        setup_write(KEY_A, VALUE_LEN);
        if (spec()->start == START_MARKED_MADE)
                setup_write(KEY_B, VALUE_LEN);
        for (i = 0; i < PEERS && spec()->start == START_MARKED_BELOW; i++)
                sb_horizon_renew(world_peer(i));
}

static void setup_ruled(struct sb_handle *handle)
{
        uint32_t i;

        if (sb_keep_write(handle, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 2)))
                model_fail("a rule at the start");
        setup_write(KEY_A, VALUE_LEN);
        world.engine_cut = sb_clock_take_cut(handle);
        world.past_seen = world.start_seen[KEY_A];
        setup_write(KEY_A, VALUE_LEN);
        for (i = 0; i < 4; i++)
                sb_work_all(handle, true);
        for (i = 0; i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
}

/* A mark, and then a transaction that writes A and B. */
static void setup_txn(struct sb_handle *handle)
{
        static const struct world_op txn = {
                .kind = OP_TXN, .txn = {.writes = 1u << KEY_A | 1u << KEY_B}};
        struct outcome outcome = {0};
        uint32_t tag, key;

        setup_write(KEY_B, VALUE_LEN);
        sb_stable_raise(handle);
        if (sb_op_mark(handle, WORLD_MARK, sizeof WORLD_MARK - 1, &world.engine_cut))
                model_fail("a mark at the start");
        world.past_seen = world.start_seen[KEY_A];
        tag = TAG_SETUP + world.setup_writes++;
        world_txn_run(spec()->setup_by, handle, &txn, tag, &outcome);
        if (outcome.r)
                model_fail("a transaction at the start: %d", outcome.r);
        for (key = KEY_A; key <= KEY_B; key++) {
                world.start_seen[key] = ++world.start_rev[key];
                world.start_cut[key] = outcome.cut;
                world.start_tag[key] = tag;
                model_note(NOTE_DONE + key, world.start_rev[key]);
        }
}

static void setup_snapshot(struct sb_handle *handle)
{
        uint32_t i;

        if (sb_snapshot_open(world_peer(0), &world.engine_snapshot, &world.engine_cut))
                model_fail("a snapshot at the start");
        world.past_seen = world.start_seen[KEY_A];
        if (spec()->start == START_SEEN)
                return;
        setup_write(KEY_A, spec()->start == START_KEPT ? VALUE_LEN : TOMBSTONE);
        if (spec()->start == START_SNAPSHOT)
                sb_stable_raise(handle);
        for (i = 0; spec()->start == START_KEPT && i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
}

/* All keys have values, and then two of them, or none. */
static void setup_deleted(struct sb_handle *handle)
{
        setup_write(KEY_B, VALUE_LEN);
        setup_write(KEY_C, VALUE_LEN);
        sb_stable_raise(handle);
        setup_write(KEY_A, TOMBSTONE);
        setup_write(KEY_B, TOMBSTONE);
        if (spec()->start == START_ALL_DELETED)
                setup_write(KEY_C, TOMBSTONE);
        sb_stable_raise(handle);
}

/* Start states that movers need. */
static void setup_for_movers(struct sb_handle *handle)
{
        switch (spec()->start) {
        case START_APART:
                setup_apart();
                break;
        case START_RULED:
                setup_ruled(handle);
                break;
        case START_TXN:
                setup_txn(handle);
                break;
        default:
                break;
        }
}

/* A's first value. */
static uint32_t setup_value_len(void)
{
        return spec()->start == START_LARGE    ? VALUE_LARGE
               : spec()->start == START_SINGLE ? VALUE_UNIT
                                               : VALUE_LEN;
}

static void setup_made(void)
{
        struct sb_handle *handle = setup_handle();

        if (spec()->start == START_EMPTY)
                return;
        if (spec()->start == START_PLACEHOLDERS || spec()->start == START_ABORTED_PLACEHOLDER) {
                setup_placeholders(handle);
                return;
        }
        if (spec()->start != START_APART)
                setup_write(KEY_A, setup_value_len());
        switch (spec()->start) {
        case START_OLD:
                sb_stable_raise(handle);
                setup_write(KEY_A, VALUE_LEN);
                sb_stable_raise(handle);
                break;
        case START_SPARE:
                setup_spare(handle);
                break;
        case START_MAGAZINE:
                setup_magazine(handle);
                break;
        case START_TRIMMED:
                setup_trimmed(handle);
                break;
        case START_BOTH_DELETED:
        case START_ALL_DELETED:
                setup_deleted(handle);
                break;
        case START_MARKED:
        case START_MARKED_BELOW:
        case START_MARKED_MADE:
                setup_marked(handle);
                break;
        case START_RETIRED:
                setup_write(KEY_A, VALUE_LEN);
                break;
        case START_DELETED:
        case START_DEAD:
        case START_PAIR_DELETED:
                if (spec()->start != START_DELETED)
                        setup_write(KEY_B, VALUE_LEN);
                sb_stable_raise(handle);
                setup_write(KEY_A, TOMBSTONE);
                sb_stable_raise(handle);
                if (spec()->start == START_DEAD)
                        setup_dead();
                break;
        case START_PAIR:
                setup_write(KEY_B, VALUE_LEN);
                sb_stable_raise(handle);
                break;
        case START_ALL:
        case START_ABORTED_MEANWHILE:
                setup_write(KEY_B, VALUE_LEN);
                setup_write(KEY_C, VALUE_LEN);
                sb_stable_raise(handle);
                break;
        case START_ABORTED:
        case START_ABORTED_OVER:
        case START_ABORTED_DELETED:
                setup_aborted(handle);
                break;
        case START_SNAPSHOT:
        case START_KEPT:
        case START_SEEN:
                setup_snapshot(handle);
                break;
        case START_CHAIN:
                sb_stable_raise(handle);
                setup_write(KEY_A, VALUE_LEN);
                sb_stable_raise(handle);
                setup_write(KEY_A, VALUE_LEN);
                break;
        case START_FREED:
                setup_freed();
                break;
        case START_SHORT:
                setup_short();
                break;
        case START_FULL:
        case START_HINTED:
                setup_full();
                break;
        default:
                setup_for_movers(handle);
        }
}

/* A rule came, then as many writes as it keeps versions. All clients know the cuts of now. */
static void setup_rule_ring(struct sb_handle *handle)
{
        struct sb_spot spot;
        uint32_t i;

        if (sb_keep_write(handle, "", 0, true, SB_RULE_WORD(SB_RULE_LAST, 2)))
                model_fail("a rule at the start");
        setup_write(KEY_A, VALUE_LEN);
        sb_pin(handle);
        if (!sb_key_find(handle, world_key(KEY_A), world_key_len(KEY_A),
                    sb_find_hash_any(handle, world_key(KEY_A), world_key_len(KEY_A)), &spot))
                model_fail("a key with a rule at the start");
        sb_prune_give_ring(handle, spot.cell_number);
        if (!sb_ring_depth(handle, sb_node_at(&handle->segment, spot.head->node)))
                model_fail("a rule's ring at the start");
        sb_unpin(handle);
        for (i = 0; i < 3; i++)
                setup_write(KEY_A, VALUE_LEN);
        for (i = 0; i < 4; i++)
                sb_work_all(handle, true);
        for (i = 0; i < PEERS - spec()->free_records; i++)
                sb_horizon_renew(world_peer(i));
}

/* A watch of A was there and saw a write. */
static void setup_ring(void)
{
        struct sb_op_watch watch;
        uint32_t cursor = 0;

        if (spec()->ring == RING_RULE) {
                setup_rule_ring(setup_handle());
                return;
        }
        world.watch_after = world.start_rev[KEY_A];
        if (sb_op_watch_begin(setup_handle(), world_key(KEY_A), world_key_len(KEY_A), WATCH_BIT,
                    WATCH_DEPTH, SB_WATCH_VERSIONS, &watch))
                model_fail("a watch at the start");
        setup_write(KEY_A, VALUE_LEN);
        sb_op_watch_end(setup_handle(), &watch);
        if (spec()->ring == RING_BARE) {
                sb_or_full(&watch.ring.ring->state, SB_TURN_CLEARING);
                sb_sweep(world_peer(0), &cursor, world_peer(0)->segment.geometry.unit_count);
        }
}

static void setup_past(void)
{
        const char *step = spec()->past ? spec()->past : "";

        world_log_start(true);
        world_prefix_start();
        for (; *step; step++)
                switch (*step) {
                case 'A':
                        setup_write(KEY_A, TOMBSTONE);
                        break;
                case 's':
                        sb_stable_raise(setup_handle());
                        break;
                case 'w':
                        sb_work_all(setup_handle(), true);
                        break;
                case 'k':
                        sb_limbo_leave(setup_handle());
                        break;
                case 'r':
                        world_prefix_start_read();
                        break;
                case 'l':
                case 'f':
                        world_log_start(*step == 'l');
                        break;
                case 'x':
                        world.prefix_after = sb_clock_take_cut(setup_handle());
                        break;
                case 'j':
                        sb_prefix_join(setup_handle(), 1);
                        break;
                case 'u':
                        world_prefix_start_end();
                        break;
                default:
                        setup_write((enum world_key)(*step - 'a'), VALUE_LEN);
                }
}

/* Sound code makes the start state, whatever fault the test looks for. */
void world_start(void)
{
        uint32_t i;

        sb_fault_chosen = SB_FAULT_NONE;
        setup_segment();
        if (spec()->mimic)
                world.mimic_word = SB_RETIRE_FREEING | DEAD_PEER;
        if (spec()->away)
                setup_away();
        setup_made();
        if (spec()->start != START_APART)
                setup_reserves();
        if (spec()->start == START_NOTED)
                setup_noted();
        world_txn_start_early();
        if (spec()->start == START_ABORTED_MEANWHILE) {
                world_txn_start_aborted(setup_handle(), KEY_B, KEY_C);
                sb_era_advance(setup_handle());
        }
        if (spec()->ring)
                setup_ring();
        world_watch_start();
        setup_past();
        for (i = 0; i < spec()->behind; i++)
                setup_write(KEY_A, VALUE_LEN);
        if (world_does(OP_MOVE))
                world_move_start(setup_handle());
        if (spec()->mimic_eras)
                world.mimic_word = sb_era_low(sb_era_whole(
                        sb_load_relaxed(&world_peer(0)->segment.super->era) + spec()->mimic_eras));
        sb_fault_chosen = world_fault;
}
