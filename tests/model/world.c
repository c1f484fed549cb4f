/* Scenarios of the write path; see world.h. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/check.h"
#include "shm/epoch.h"
#include "shm/reap.h"
#include "shm/slot.h"
#include "shm/snapshot.h"
#include "shm/walk.h"

#define PEERS       (MODEL_THREADS + 1)
#define NOTE_DONE   0u  /* + key: the highest finished revision */
#define DEAD_PEER   (PEERS - 1) /* of START_DEAD */
#define NO_REV      UINT64_MAX

enum sb_fault world_fault;

const char *const world_fault_names[SB_FAULT_COUNT] = {
        [SB_FAULT_NONE] = "NONE",
#define NAME(name, text) [SB_FAULT_##name] = #name,
        SB_FAULT_TABLE(NAME)
#undef NAME
};

static const char *const key_names[WORLD_KEYS] = {"A", "B", "C"};

/* What one operation answered. */
struct outcome {
        bool ran, finished;
        int r;
        uint64_t rev, cut, done_before;
        uint64_t done_all[WORLD_KEYS]; /* before a snapshot */
        uint64_t seen[WORLD_KEYS]; /* revisions with a value, 0 for none */
};

static struct world {
        struct sb_peer peers[PEERS]; /* 0: the engine's */
        struct outcome outcomes[MODEL_THREADS][WORLD_OPS];
        uint64_t start_rev[WORLD_KEYS];  /* highest ever given */
        uint64_t start_seen[WORLD_KEYS]; /* with a value; 0 none */
        uint64_t start_cut[WORLD_KEYS];  /* stamp of start_rev */
        uint32_t engine_snapshot;
        uint64_t engine_cut, past_seen;
        bool left[PEERS];
        bool adopted, reaped;
} world;

static const struct world_spec *spec(void)
{
        return model_spec();
}

static struct sb_peer *peer_of(uint32_t thread)
{
        return spec()->engine && !thread ? &world.peers[0] : &world.peers[thread + 1];
}

/* ---- one operation ---- */

/* A value says who wrote it: thread and number of the operation, 9 for setup. */
static int write_key(struct sb_peer *peer, enum world_key key, uint32_t kind, uint64_t expected, uint32_t tag,
        struct sb_op_result *ret)
{
        unsigned char value[2] = {(unsigned char)('0' + tag), (unsigned char)('a' + key)};
        struct sb_op_write write = {
                .key = key_names[key], .key_len = 1, .kind = kind, .expected_rev = expected,
                .value = value, .value_len = kind == SB_VERSION_VALUE ? sizeof value : 0,
        };

        return sb_op_write(peer, &write, ret);
}

static void do_write(struct sb_peer *peer, const struct world_op *op, uint32_t tag, struct outcome *outcome)
{
        uint64_t expected = op->kind == OP_CAS ? world.start_seen[op->key] : op->kind == OP_CREATE ? 0 : SB_OP_ANY_REV;
        struct sb_op_result result = {0};

        outcome->r = write_key(peer, op->key, op->kind == OP_DELETE ? SB_VERSION_DELETED : SB_VERSION_VALUE, expected,
                tag, &result);
        outcome->rev = result.rev;
        outcome->cut = result.cut;
        if (!outcome->r && result.rev > model_noted(NOTE_DONE + op->key))
                model_note(NOTE_DONE + op->key, result.rev);
}

/* A version in hand is whole: its own key, a revision, a value that somebody wrote. */
static void check_version(const struct sb_version *version, enum world_key key)
{
        uint64_t shape = version->shape;

        model_touch(version, sizeof *version + 1);
        MODEL_CHECK(SB_SHAPE_KEY_LEN(shape) == 1 && version->bytes[0] == (unsigned char)*key_names[key]);
        MODEL_CHECK(version->rev > 0);
        if ((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                MODEL_CHECK(SB_SHAPE_VALUE_LEN(shape) == 2 && version->bytes[2] == 'a' + key);
        }
}

static void do_get(struct sb_peer *peer, const struct world_op *op, struct outcome *outcome)
{
        struct sb_version *version = NULL;

        outcome->r = sb_op_get(peer, key_names[op->key], 1, 0, &version);
        if (outcome->r)
                return;
        check_version(version, op->key);
        outcome->rev = version->rev;
        outcome->cut = sb_load_acquire(&version->stamp);
        MODEL_CHECK(outcome->cut != 0);
        check_version(version, op->key);
        if (op->kind == OP_GET)
                sb_guard_set(peer, 0, 0);
}

static void scan_once(struct sb_peer *peer, uint64_t cut, uint64_t seen[WORLD_KEYS])
{
        struct sb_node *node;
        uint32_t count = 0, key;

        memset(seen, 0, WORLD_KEYS * sizeof *seen);
        sb_pin(peer);
        node = sb_walk_seek(peer, "A", 1, false);
        while (node) {
                struct sb_version *version = sb_walk_at(peer, node, cut);
                bool gone = false;
                char at[1];

                MODEL_CHECK(++count < 100);
                memcpy(at, (const char *)node + sizeof *node + 8 * node->height, 1);
                if (version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                        key = version->bytes[0] - 'A';
                        MODEL_CHECK(key < WORLD_KEYS && !seen[key]);
                        check_version(version, key);
                        seen[key] = version->rev;
                }
                node = sb_walk_next(peer, node, &gone);
                if (gone) {
                        sb_unpin(peer);
                        sb_pin(peer);
                        node = sb_walk_seek(peer, at, 1, true);
                }
        }
        sb_unpin(peer);
}

static void read_at(struct sb_peer *peer, enum world_key key, uint64_t cut, uint64_t *ret_rev)
{
        struct sb_version *version = NULL;
        struct sb_node *node;

        sb_pin(peer);
        node = sb_walk_seek(peer, key_names[key], 1, false);
        if (node && *((const char *)node + sizeof *node + 8 * node->height) == *key_names[key])
                version = sb_walk_at(peer, node, cut);
        *ret_rev = 0;
        if (version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                check_version(version, key);
                *ret_rev = version->rev;
        }
        sb_unpin(peer);
}

/* What an observer sees: the newest version with a stamp up to @cut; what has no stamp does not count. */
static uint64_t observe_at(struct sb_peer *peer, enum world_key key, uint64_t cut)
{
        const struct sb_segment *segment = &peer->segment;
        struct sb_version *version = NULL;
        struct sb_node *node;
        struct sb_cell64 *cell;
        uint64_t rev = 0, stamp;

        sb_pin(peer);
        node = sb_walk_seek(peer, key_names[key], 1, false);
        cell = node ? sb_cell_at(segment, sb_load_pinned(peer, &node->cell)) : NULL;
        if (cell)
                version = sb_version_at(segment, sb_load_pinned(peer, cell) & SB_OFFSET_MASK);
        if (version && version->node != sb_offset_of(segment, node))
                version = NULL;
        for (; version && !rev; version = sb_version_at(segment, sb_load_pinned(peer, &version->prev) & SB_OFFSET_MASK)) {
                model_touch(version, sizeof *version);
                stamp = sb_load_acquire(&version->stamp);
                if (stamp > SB_STAMP_BIRTH && stamp <= cut)
                        rev = version->rev;
        }
        sb_unpin(peer);
        return rev;
}

static void do_observe(struct sb_peer *peer, const struct world_op *op)
{
        uint64_t cut = sb_load_acquire(&peer->segment.super->safe);
        uint64_t rev = observe_at(peer, op->key, cut), again = observe_at(peer, op->key, cut);

        /* Its cut holds as long as `safe` says so; then it would read anew. */
        if (rev != again && sb_load_acquire(&peer->segment.super->safe) == cut)
                model_fail("an observer at cut %lu read revision %lu, then %lu", (unsigned long)cut, (unsigned long)rev,
                        (unsigned long)again);
}

static void do_past(struct sb_peer *peer, const struct world_op *op, struct outcome *outcome)
{
        outcome->cut = world.engine_cut;
        read_at(peer, op->key, outcome->cut, &outcome->seen[op->key]);
        if (outcome->seen[op->key] != world.past_seen)
                model_fail("an open snapshot reads revision %lu, not %lu", (unsigned long)outcome->seen[op->key],
                        (unsigned long)world.past_seen);
}

static void do_snapshot(struct sb_peer *peer, const struct world_op *op, struct outcome *outcome)
{
        uint64_t again[WORLD_KEYS] = {0};
        uint32_t index, key;

        for (key = 0; key < WORLD_KEYS; key++)
                outcome->done_all[key] = model_noted(NOTE_DONE + key);

        outcome->r = sb_snapshot_open(peer, &index, &outcome->cut);
        if (outcome->r)
                return;
        if (op->kind == OP_SCAN) {
                scan_once(peer, outcome->cut, outcome->seen);
        } else {
                read_at(peer, op->key, outcome->cut, &outcome->seen[op->key]);
                read_at(peer, op->key, outcome->cut, &again[op->key]);
                MODEL_CHECK(outcome->seen[op->key] == again[op->key]);
        }
        sb_snapshot_close(peer, index);
}

static void run_op(struct sb_peer *peer, const struct world_op *op, uint32_t tag, struct outcome *outcome)
{
        uint32_t cursor = 0;

        outcome->ran = true;
        outcome->done_before = model_noted(NOTE_DONE + op->key);
        switch (op->kind) {
        case OP_NONE: break;
        case OP_SET:
        case OP_CAS:
        case OP_CREATE:
        case OP_DELETE: do_write(peer, op, tag, outcome); break;
        case OP_GET:
        case OP_HOLD: do_get(peer, op, outcome); break;
        case OP_SCAN:
        case OP_SNAPSHOT: do_snapshot(peer, op, outcome); break;
        case OP_MEMORY: sb_op_memory_work(peer, true); break;
        case OP_WORK: sb_op_memory_work(peer, false); break;
        case OP_SAFE: sb_safe_raise(peer); break;
        case OP_SWEEP: sb_sweep(peer, &cursor, peer->segment.geometry.unit_count); break;
        case OP_TICK: sb_reap_tick(peer, &cursor); break;
        case OP_FINI:
                world.left[peer - world.peers] = true;
                sb_peer_fini(peer);
                break;
        case OP_OBSERVE: do_observe(peer, op); break;
        case OP_REAP: sb_reap_slot(peer, DEAD_PEER, world.peers[DEAD_PEER].generation); break;
        case OP_PAST: do_past(peer, op, outcome); break;
        }
        outcome->finished = true;
}

static void run_thread(uint32_t me)
{
        uint32_t i;

        for (i = 0; i < WORLD_OPS; i++)
                if (spec()->ops[me][i].kind)
                        run_op(peer_of(me), &spec()->ops[me][i], me * WORLD_OPS + i, &world.outcomes[me][i]);
}

/* What a new engine does with the record of the one before it. */
static void adopt_engine(void)
{
        struct sb_segment segment = world.peers[0].segment;
        struct sb_slot_identity identity = {.pid = 2};
        uint32_t slot, generation;

        if (sb_slot_state(&segment, 0, &generation) != SB_CLIENT_FREE) {
                sb_peer_init(&world.peers[0], &segment, 0, generation);
                sb_reap_slot(&world.peers[0], 0, generation);
        }
        if (sb_slot_claim(&segment, 0, &identity, &slot, &generation))
                model_fail("the engine's record cannot be had");
        sb_peer_init(&world.peers[0], &segment, slot, generation);
        sb_guard_grow(&world.peers[0], 0);
        world.adopted = true;
}

static void run_reaper(uint32_t dead)
{
        struct sb_peer *peer = peer_of(dead);

        if (peer == &world.peers[0])
                adopt_engine();
        else
                sb_reap_slot(&world.peers[0], peer->slot, peer->generation);
        world.reaped = true;
}

/* ---- the end ---- */

struct fact {
        uint64_t rev, cut;
        bool value;
};

static bool is_write(enum world_op_kind kind)
{
        return kind == OP_SET || kind == OP_CAS || kind == OP_CREATE || kind == OP_DELETE;
}

/* All finished writes of a key in the order of their revisions, its start first. */
static uint32_t facts_of(enum world_key key, struct fact facts[MODEL_THREADS * WORLD_OPS + 1])
{
        uint32_t count = 0, t, i, k;

        facts[count++] = (struct fact){world.start_rev[key], world.start_cut[key], world.start_seen[key] != 0};
        for (t = 0; t < MODEL_THREADS; t++) {
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];
                        const struct world_op *op = &spec()->ops[t][i];

                        if (!outcome->finished || op->key != key || !is_write(op->kind) || outcome->r)
                                continue;
                        for (k = count++; k && facts[k - 1].rev > outcome->rev; k--)
                                facts[k] = facts[k - 1];
                        facts[k] = (struct fact){outcome->rev, outcome->cut, op->kind != OP_DELETE};
                }
        }
        return count;
}

/* Writes that were under way when their thread was killed. */
static uint32_t unknown_writes(enum world_key key)
{
        uint32_t count = 0, t, i;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        count += world.outcomes[t][i].ran && !world.outcomes[t][i].finished &&
                                spec()->ops[t][i].key == key && is_write(spec()->ops[t][i].kind);
        return count;
}

/* Only then has a key no gaps: all share one bucket's floor. */
static bool alone_in_bucket(enum world_key key)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (spec()->ops[t][i].key != key && is_write(spec()->ops[t][i].kind))
                                return false;
        for (i = 0; i < WORLD_KEYS; i++)
                if (i != key && world.start_rev[i])
                        return false;
        return true;
}

static void check_revisions(enum world_key key)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(key, facts), unknown = unknown_writes(key), i;
        bool alone = alone_in_bucket(key);

        for (i = 1; i < count; i++) {
                uint64_t gap = facts[i].rev - facts[i - 1].rev;

                if (!gap || facts[i].rev < facts[i - 1].rev)
                        model_fail("revision %lu of %s was given twice", (unsigned long)facts[i].rev, key_names[key]);
                if (alone && gap > 1 + unknown)
                        model_fail("revision %lu of %s was never given", (unsigned long)facts[i].rev - 1, key_names[key]);
                if (facts[i].cut < facts[i - 1].cut)
                        model_fail("stamps of %s do not follow its revisions", key_names[key]);
        }
}

/* Does an answer "nothing is there" hold at some time after @done was finished? */
static bool absence_possible(enum world_key key, uint64_t done)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(key, facts), i;

        if (unknown_writes(key))
                return true;
        for (i = 0; i < count; i++)
                if (!facts[i].value && facts[i].rev >= done)
                        return true;
        return false;
}

/* What is there at a cut; NO_REV: a killed write makes it open. */
static uint64_t value_at(enum world_key key, uint64_t cut)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(key, facts), i;
        uint64_t rev = 0;

        if (unknown_writes(key))
                return NO_REV;
        for (i = 0; i < count; i++)
                if (facts[i].cut <= cut)
                        rev = facts[i].value ? facts[i].rev : 0;
        return rev;
}

static void check_outcome(const struct world_op *op, const struct outcome *outcome)
{
        uint32_t key;

        switch (op->kind) {
        case OP_SET:
        case OP_DELETE:
        case OP_CREATE:
        case OP_CAS:
                if (!outcome->r) {
                        MODEL_CHECK(outcome->rev > outcome->done_before);
                        if (op->kind == OP_CAS && world.start_seen[op->key])
                                MODEL_CHECK(outcome->rev == world.start_seen[op->key] + 1);
                } else if (outcome->r == SB_E_CONFLICT) {
                        MODEL_CHECK(op->kind == OP_CAS || op->kind == OP_CREATE);
                        MODEL_CHECK(!outcome->rev || outcome->rev >= outcome->done_before);
                        MODEL_CHECK(outcome->rev || absence_possible(op->key, outcome->done_before));
                        if (op->kind == OP_CAS)
                                MODEL_CHECK(outcome->rev != world.start_seen[op->key]);
                        else
                                MODEL_CHECK(outcome->rev);
                } else if (outcome->r == SB_E_NOT_FOUND) {
                        MODEL_CHECK(op->kind == OP_DELETE && absence_possible(op->key, outcome->done_before));
                } else {
                        MODEL_CHECK(outcome->r == SB_E_FULL && spec()->unit_count);
                }
                break;
        case OP_GET:
        case OP_HOLD:
                if (outcome->r)
                        MODEL_CHECK(absence_possible(op->key, outcome->done_before));
                else
                        MODEL_CHECK(outcome->rev >= outcome->done_before);
                break;
        case OP_SCAN:
        case OP_SNAPSHOT:
                for (key = 0; key < WORLD_KEYS; key++) {
                        uint64_t expected = value_at(key, outcome->cut);

                        if (op->kind == OP_SNAPSHOT && key != op->key)
                                continue;
                        if (expected != NO_REV && expected != outcome->seen[key])
                                model_fail("at cut %lu %s is revision %lu, but %lu was read", (unsigned long)outcome->cut,
                                        key_names[key], (unsigned long)expected, (unsigned long)outcome->seen[key]);
                }
                break;
        default: break;
        }
}

/* What was finished before a snapshot was opened is in it; and a thread's stamps and cuts follow the order of its calls. */
static void check_order(void)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t t, i, k, key, count;

        for (t = 0; t < MODEL_THREADS; t++) {
                uint64_t last = 0;

                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];
                        enum world_op_kind kind = spec()->ops[t][i].kind;
                        bool counts = is_write(kind) || kind == OP_GET || kind == OP_HOLD || kind == OP_SCAN || kind == OP_SNAPSHOT;

                        if (!outcome->finished || outcome->r || !counts)
                                continue;
                        if (outcome->cut < last)
                                model_fail("T%u was in cut %lu before, and now is in %lu", t, (unsigned long)last,
                                        (unsigned long)outcome->cut);
                        last = outcome->cut;
                        if (kind != OP_SCAN && kind != OP_SNAPSHOT)
                                continue;
                        for (key = 0; key < WORLD_KEYS; key++)
                                for (k = 0, count = facts_of(key, facts); k < count; k++)
                                        if (facts[k].rev <= outcome->done_all[key] && facts[k].cut > outcome->cut)
                                                model_fail("cut %lu of T%u lacks revision %lu of %s, which was finished",
                                                        (unsigned long)outcome->cut, t, (unsigned long)facts[k].rev,
                                                        key_names[key]);
                }
        }
}

static void check_cas_winners(void)
{
        uint32_t t, i, winners[2] = {0};

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (world.outcomes[t][i].finished && !world.outcomes[t][i].r) {
                                winners[0] += spec()->ops[t][i].kind == OP_CAS && spec()->ops[t][i].key == KEY_A;
                                winners[1] += spec()->ops[t][i].kind == OP_CAS && spec()->ops[t][i].key == KEY_B;
                        }
        MODEL_CHECK(winners[0] <= 1 && winners[1] <= 1);
}

static void check_sound(bool quiescent, struct sb_check_report *ret)
{
        int r = sb_check(&world.peers[0], quiescent, ret);

        if (r)
                model_fail("check: %d", r);
        if (ret->problem_count)
                model_fail("check: %s", ret->problems[0]);
}

/* What is there now is what the revisions say. */
static void check_newest(void)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++) {
                uint64_t expected = value_at(key, UINT64_MAX);
                struct sb_version *version = NULL;
                int r = sb_op_get(&world.peers[0], key_names[key], 1, 0, &version);

                if (!r) {
                        check_version(version, key);
                        sb_guard_set(&world.peers[0], 0, 0);
                }
                if (expected != NO_REV && expected != (r ? 0 : version->rev))
                        model_fail("%s ends as revision %lu, not %lu", key_names[key],
                                r ? 0 : (unsigned long)version->rev, (unsigned long)expected);
        }
}

/* Everybody leaves, the dead are reaped, the engine cleans up: then only what the keys need is there. */
static void check_cleaned_up(void)
{
        struct sb_peer *engine = &world.peers[0];
        struct sb_check_report report;
        uint32_t i, cursor = 0;

        /* The engine first: its own thread may be dead, or it died while it reaped. */
        if (spec()->engine ? !model_finished(0) && !world.adopted : model_reaper_died())
                adopt_engine();
        for (i = 1; i < PEERS; i++) {
                struct sb_peer *peer = &world.peers[i];
                bool mine = !spec()->engine || i > 1; /* the thread's own, not the engine's */
                uint32_t generation;

                if (world.left[i] || sb_slot_state(&engine->segment, peer->slot, &generation) == SB_CLIENT_FREE ||
                        generation != peer->generation)
                        continue;
                if (spec()->start == START_DEAD && i == DEAD_PEER)
                        sb_reap_slot(engine, peer->slot, peer->generation);
                else if (model_finished(i - 1) || !mine || !spec()->ops[i - 1][0].kind)
                        sb_peer_fini(peer);
                else
                        sb_reap_slot(engine, peer->slot, peer->generation);
        }
        if (spec()->start == START_SNAPSHOT && sb_load_relaxed(&sb_client_snapshots(engine->client)[world.engine_snapshot]))
                sb_snapshot_close(engine, world.engine_snapshot);
        for (i = 0; i < 4; i++) {
                sb_safe_raise(engine);
                sb_sweep(engine, &cursor, engine->segment.geometry.unit_count);
                sb_op_memory_work(engine, true);
        }
        check_newest();
        check_sound(true, &report);
        if (report.blocks_waiting || report.blocks_used != report.keys * 2)
                model_fail("%lu blocks used and %lu waiting for %lu keys", (unsigned long)report.blocks_used,
                        (unsigned long)report.blocks_waiting, (unsigned long)report.keys);
}

static void check_end(void)
{
        struct sb_check_report report;
        uint64_t hash = model_region_hash();
        uint32_t t, i, key;

        for (key = 0; key < WORLD_KEYS; key++)
                check_revisions(key);
        for (t = 0; t < MODEL_THREADS; t++) {
                hash = hash * 31 + model_finished(t);
                for (i = 0; i < WORLD_OPS; i++) {
                        hash = hash * 31 + world.outcomes[t][i].ran * 2 + world.outcomes[t][i].finished;
                        if (world.outcomes[t][i].finished)
                                check_outcome(&spec()->ops[t][i], &world.outcomes[t][i]);
                }
        }
        check_cas_winners();
        check_order();
        if (!model_first_time(hash * UINT64_C(0x9e3779b97f4a7c15)))
                return;
        check_sound(true, &report);
        check_newest();
        check_cleaned_up();
}

/* ---- the start ---- */

static struct sb_peer *setup_peer(void)
{
        return spec()->setup_by == MODEL_THREADS ? &world.peers[0] : peer_of(spec()->setup_by);
}

static void setup_write(enum world_key key, uint32_t kind)
{
        struct sb_op_result result;
        int r = write_key(setup_peer(), key, kind, SB_OP_ANY_REV, 9, &result);

        if (r)
                model_fail("a write at the start: %d", r);
        world.start_rev[key] = result.rev;
        world.start_seen[key] = kind == SB_VERSION_VALUE ? result.rev : 0;
        world.start_cut[key] = result.cut;
        model_note(NOTE_DONE + key, result.rev);
}

/* A seed with which the keys' nodes have the height that is asked for. */
static uint64_t choose_seed(bool tall)
{
        uint64_t seed;
        uint32_t key;

        for (seed = 1;; seed++) {
                for (key = 0; key < WORLD_KEYS; key++) {
                        uint64_t hash = sb_hash_key(key_names[key], 1, seed);
                        bool is_tall = !(hash >> 16 & 3);

                        if (is_tall != tall)
                                break;
                }
                if (key == WORLD_KEYS)
                        return seed;
        }
}

static bool has_observer(void)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (spec()->ops[t][i].kind == OP_OBSERVE)
                                return true;
        return false;
}

static void setup_segment(void)
{
        static const uint64_t id[2] = {1, 2};
        struct sb_geometry_wish wish = {
                .size = 4096, .clients = PEERS - 1, .client_stride = 64, .unit_size = 256, .bucket_count = 1,
                .guard_inline = 2, .snapshot_count = 2,
        };
        struct sb_slot_identity identity = {.pid = 1};
        struct sb_geometry geometry;
        struct sb_segment segment;
        uint32_t units = spec()->unit_count ? spec()->unit_count : 16, i;
        unsigned char *base;
        int r;

        for (; (r = sb_geometry_fit(&wish, &geometry)) || geometry.unit_count < units; wish.size += 64)
                if (wish.size > MODEL_REGION_MAX)
                        model_fail("no geometry: %d", r);
        base = model_region((uint32_t)wish.size);
        sb_segment_format(base, &geometry, choose_seed(spec()->tall), id, 1);
        r = sb_segment_open(base, wish.size, &model_os, &segment);
        if (r)
                model_fail("open: %d", r);
        if (has_observer())
                sb_store_relaxed(&segment.super->observers, 1);
        model_ghost_area(geometry.units_at, (uint64_t)geometry.unit_count * geometry.unit_size);
        for (i = 0; i < PEERS; i++) {
                uint32_t slot, generation;

                r = sb_slot_claim(&segment, i, &identity, &slot, &generation);
                if (r || slot != i)
                        model_fail("claim: %d", r);
                sb_peer_init(&world.peers[i], &segment, slot, generation);
                r = sb_guard_grow(&world.peers[i], 0);
                if (r)
                        model_fail("guard: %d", r);
        }
}

/* Blocks of all kinds were in use and are free. */
static void setup_freed(void)
{
        struct sb_peer *peer = setup_peer();
        uint32_t i;

        setup_write(KEY_C, SB_VERSION_VALUE);
        setup_write(KEY_C, SB_VERSION_DELETED);
        for (i = 0; i < 4; i++)
                sb_op_memory_work(peer, true);
        setup_write(KEY_A, SB_VERSION_VALUE);
        for (i = 0; i < 3; i++)
                sb_op_memory_work(peer, true);
}

/* Take blocks for a key that nobody uses until only one or two are left. */
static void setup_full(void)
{
        struct sb_op_result result;
        char key[2] = "a";
        struct sb_op_write write = {.key = key, .key_len = 1, .kind = SB_VERSION_VALUE, .expected_rev = SB_OP_ANY_REV,
                .value = "0?", .value_len = 2};

        while (!sb_op_write(setup_peer(), &write, &result))
                key[0]++;
}

/* A peer that was killed right before it installed: pinned, its note says which key. */
static void setup_dead(void)
{
        struct sb_peer *peer = &world.peers[DEAD_PEER];
        struct sb_node *node;

        sb_pin(peer);
        node = sb_walk_seek(peer, key_names[KEY_A], 1, false);
        if (!node)
                model_fail("A is not there at the start");
        sb_store_release(&peer->client->operation, sb_offset_of(&peer->segment, node));
}

static void setup_made(void)
{
        struct sb_peer *peer = setup_peer();

        if (spec()->start == START_EMPTY)
                return;
        setup_write(KEY_A, SB_VERSION_VALUE);
        switch (spec()->start) {
        case START_OLD:
                sb_safe_raise(peer);
                setup_write(KEY_A, SB_VERSION_VALUE);
                sb_safe_raise(peer);
                break;
        case START_RETIRED:
                setup_write(KEY_A, SB_VERSION_VALUE);
                break;
        case START_DELETED:
        case START_DEAD:
        case START_PAIR_DELETED:
                if (spec()->start != START_DELETED)
                        setup_write(KEY_B, SB_VERSION_VALUE);
                sb_safe_raise(peer);
                setup_write(KEY_A, SB_VERSION_DELETED);
                sb_safe_raise(peer);
                if (spec()->start == START_DEAD)
                        setup_dead();
                break;
        case START_PAIR:
                setup_write(KEY_B, SB_VERSION_VALUE);
                sb_safe_raise(peer);
                break;
        case START_SNAPSHOT:
                if (sb_snapshot_open(&world.peers[0], &world.engine_snapshot, &world.engine_cut))
                        model_fail("a snapshot at the start");
                world.past_seen = world.start_seen[KEY_A];
                setup_write(KEY_A, SB_VERSION_DELETED);
                sb_safe_raise(peer);
                break;
        case START_CHAIN:
                sb_safe_raise(peer);
                setup_write(KEY_A, SB_VERSION_VALUE);
                sb_safe_raise(peer);
                setup_write(KEY_A, SB_VERSION_VALUE);
                break;
        case START_FREED: setup_freed(); break;
        case START_FULL: setup_full(); break;
        default: break;
        }
}

/* The start state is made by sound code, whatever fault is looked for. */
static void setup_start(void)
{
        sb_fault_chosen = SB_FAULT_NONE;
        setup_segment();
        setup_made();
        sb_fault_chosen = world_fault;
}

static void where(uint64_t offset, char ret_text[64])
{
        world_where(&world.peers[0].segment, offset, ret_text);
}

struct model_scenario world_scenario(const struct world_case *the_case)
{
        return (struct model_scenario){
                .name = the_case->name, .spec = &the_case->spec, .setup = setup_start, .thread = run_thread,
                .reaper = the_case->reaper ? run_reaper : NULL, .check = check_end, .where = where, .world = &world,
                .world_size = sizeof world, .thread_count = the_case->threads, .preemptions = the_case->preemptions,
                .crashes = the_case->crashes, .delays = the_case->delays,
                .crash_mask = the_case->crash_mask ? the_case->crash_mask : 15,
                .step_max = 8000,
        };
}
