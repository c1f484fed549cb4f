/* What must hold at the end of an execution; see world.h. */
#include <stdio.h>
#include <string.h>

#include "ring/op/get.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

struct fact {
        uint64_t rev, cut;
        bool value;
};

/* All finished writes of a key in the order of their revisions; the start state comes first. */
static uint32_t facts_of(enum world_key key, struct fact facts[MODEL_THREADS * WORLD_OPS + 1])
{
        uint32_t count = 0, t, i, k;

        facts[count++] = (struct fact){
                world.start_rev[key], world.start_cut[key], world.start_seen[key] != 0};
        for (t = 0; t < MODEL_THREADS; t++) {
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];
                        const struct world_op *op = &spec()->ops[t][i];

                        if (!outcome->finished || op->key != key || !is_write(op->kind) ||
                                outcome->r)
                                continue;
                        for (k = count++; k && facts[k - 1].rev > outcome->rev; k--)
                                facts[k] = facts[k - 1];
                        facts[k] = (struct fact){outcome->rev, outcome->cut, op->kind != OP_DELETE};
                }
        }
        return count;
}

/* Writes that were under way when their thread was killed; *ret_deletes: those that delete. */
static uint32_t unknown_writes_of(enum world_key key, uint32_t *ret_deletes)
{
        uint32_t count = 0, t, i;

        *ret_deletes = 0;
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        enum world_op_kind kind = spec()->ops[t][i].kind;

                        if (!world.outcomes[t][i].ran || world.outcomes[t][i].finished ||
                                spec()->ops[t][i].key != key || !is_write(kind))
                                continue;
                        count++;
                        *ret_deletes += kind == OP_DELETE;
                }
        return count;
}

static uint32_t unknown_writes(enum world_key key)
{
        uint32_t deletes;

        return unknown_writes_of(key, &deletes);
}

static uint32_t unknown_deletes(enum world_key key)
{
        uint32_t deletes;

        unknown_writes_of(key, &deletes);
        return deletes;
}

/* Only a key that is alone in its bucket has no gaps: all keys of a bucket share its floor. */
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
                        model_fail("revision %lu of %s was given twice",
                                (unsigned long)facts[i].rev, world_key(key));
                if (alone && gap > 1 + unknown)
                        model_fail("revision %lu of %s was never given",
                                (unsigned long)facts[i].rev - 1, world_key(key));
                if (facts[i].cut < facts[i - 1].cut)
                        model_fail("stamps of %s do not follow its revisions", world_key(key));
        }
}

/* Whether the answer "the key is not there" holds at some time after @done was finished. */
static bool absence_possible(enum world_key key, uint64_t done)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(key, facts), i;

        if (unknown_deletes(key))
                return true;
        for (i = 0; i < count; i++)
                if (!facts[i].value && facts[i].rev >= done)
                        return true;
        return false;
}

/* Whether this revision, or nothing, may be there at a cut. A killed write may have been done: then
 * it is above the last one of the others. *ret_expected: what is there without it. */
static bool may_be_there(enum world_key key, uint64_t cut, uint64_t seen, uint64_t *ret_expected)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(key, facts), last = 0, i;

        for (i = 0; i < count; i++)
                if (facts[i].cut <= cut)
                        last = i;
        *ret_expected = facts[last].value ? facts[last].rev : 0;
        if (seen == *ret_expected)
                return true;
        if (!seen)
                return unknown_deletes(key);
        for (i = 0; i < count; i++)
                if (facts[i].rev == seen)
                        return false;
        return unknown_writes(key) && seen > facts[last].rev;
}

static bool is_past(enum world_op_kind kind)
{
        return kind == OP_MARK || kind == OP_AT || kind == OP_KEEP;
}

/* A revision has the stamp that its writer was told. */
static void check_stamp(const struct world_op *op, const struct outcome *outcome)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t count = facts_of(op->key, facts), i;

        for (i = 0; i < count && !outcome->r && outcome->cut; i++)
                if (facts[i].rev == outcome->rev && facts[i].cut != outcome->cut)
                        model_fail("revision %lu of %s was seen with stamp %lu, and has %lu",
                                (unsigned long)outcome->rev, world_key(op->key),
                                (unsigned long)outcome->cut, (unsigned long)facts[i].cut);
}

static void check_outcome(const struct world_op *op, const struct outcome *outcome)
{
        uint32_t key;

        switch (op->kind) {
        case OP_SET:
        case OP_PUT:
        case OP_LARGE:
        case OP_ATTACH:
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
                        MODEL_CHECK(
                                outcome->rev || absence_possible(op->key, outcome->done_before));
                        if (op->kind == OP_CAS)
                                MODEL_CHECK(outcome->rev != world.start_seen[op->key]);
                        else
                                MODEL_CHECK(outcome->rev);
                } else if (outcome->r == SB_E_NOT_FOUND) {
                        MODEL_CHECK(op->kind == OP_DELETE &&
                                    absence_possible(op->key, outcome->done_before));
                } else {
                        /* Alone, a large value finds its units. */
                        MODEL_CHECK(spec()->start != START_APART || spec()->ops[1][0].kind);
                        MODEL_CHECK(outcome->r == SB_E_FULL &&
                                    (spec()->unit_count || op->kind == OP_ATTACH));
                }
                break;
        case OP_GET:
        case OP_HOLD:
        case OP_HISTORY:
        case OP_GET_FAR:
        case OP_HOLD_FAR:
                if (outcome->r)
                        MODEL_CHECK(absence_possible(op->key, outcome->done_before));
                else
                        MODEL_CHECK(outcome->rev >= outcome->done_before);
                check_stamp(op, outcome);
                break;
        case OP_MANY:
                for (key = 0; key < WORLD_KEYS; key++)
                        if (outcome->seen[key])
                                MODEL_CHECK(outcome->seen[key] >= outcome->done_all[key]);
                        else
                                MODEL_CHECK(absence_possible(key, outcome->done_all[key]));
                break;
        case OP_TOLD:
        case OP_MARK:
        case OP_AT:
        case OP_KEEP:
        case OP_SCAN:
        case OP_LOG:
        case OP_SNAPSHOT:
                if (outcome->r == SB_E_LAPPED)
                        break;
                for (key = 0; key < WORLD_KEYS; key++) {
                        uint64_t expected;

                        if (op->kind != OP_SCAN && op->kind != OP_LOG && key != op->key)
                                continue;
                        if (!may_be_there(key, outcome->cut, outcome->seen[key], &expected))
                                model_fail("at cut %lu %s is revision %lu, but %lu was read",
                                        (unsigned long)outcome->cut, world_key(key),
                                        (unsigned long)expected, (unsigned long)outcome->seen[key]);
                }
                break;
        case OP_MOVE:
                /* Alone, it moves something. */
                MODEL_CHECK(outcome->rev || spec()->ops[1][0].kind);
                break;
        default:
                break;
        }
}

/* A snapshot contains what was finished before it was opened; and a thread's stamps and cuts follow
 * the order of its calls. */
static void check_order(void)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t t, i, k, key, count;

        for (t = 0; t < MODEL_THREADS; t++) {
                uint64_t last = 0, last_of[WORLD_KEYS] = {0}, least;

                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];
                        enum world_op_kind kind = spec()->ops[t][i].kind;
                        bool counts = is_write(kind) || kind == OP_GET || kind == OP_HOLD ||
                                      kind == OP_SCAN || kind == OP_LOG || kind == OP_SNAPSHOT ||
                                      is_past(kind);

                        if (!outcome->finished || outcome->r || !counts)
                                continue;
                        /* A get gives what may have been there for long, but nothing older than
                         * this thread knows of that key. */
                        key = spec()->ops[t][i].key;
                        least = kind == OP_GET || kind == OP_HOLD ? last_of[key] : last;
                        if (outcome->cut < least)
                                model_fail("T%u was in cut %lu before, and now is in %lu", t,
                                        (unsigned long)least, (unsigned long)outcome->cut);
                        last_of[key] = outcome->cut;
                        last = outcome->cut > last ? outcome->cut : last;
                        if (kind != OP_SCAN && kind != OP_LOG && kind != OP_SNAPSHOT &&
                                !is_past(kind))
                                continue;
                        for (key = 0; key < WORLD_KEYS; key++)
                                for (k = 0, count = facts_of(key, facts); k < count; k++)
                                        if (facts[k].rev <= outcome->done_all[key] &&
                                                facts[k].cut > outcome->cut)
                                                model_fail("cut %lu of T%u lacks revision %lu of "
                                                           "%s, which was finished",
                                                        (unsigned long)outcome->cut, t,
                                                        (unsigned long)facts[k].rev,
                                                        world_key(key));
                }
        }
}

/* A thread that was told that a key is not there sees nothing older of the key in a cut that it
 * takes after that. */
static void check_absence_in_cuts(void)
{
        struct fact facts[MODEL_THREADS * WORLD_OPS + 1];
        uint32_t t, i, k, f, count;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        for (k = i + 1; k < WORLD_OPS; k++) {
                                const struct outcome *told = &world.outcomes[t][i],
                                                     *cut = &world.outcomes[t][k];
                                enum world_key key = spec()->ops[t][i].key;
                                enum world_op_kind kind = spec()->ops[t][k].kind;
                                uint64_t seen = cut->seen[key];

                                if (!told->finished || told->r != SB_E_NOT_FOUND ||
                                        !cut->finished ||
                                        (kind != OP_SCAN && kind != OP_SNAPSHOT) || !seen ||
                                        unknown_writes(key))
                                        continue;
                                count = facts_of(key, facts);
                                for (f = 0; f < count; f++)
                                        if (!facts[f].value && facts[f].rev >= told->done_before &&
                                                facts[f].rev < seen)
                                                break;
                                if (f == count)
                                        model_fail(
                                                "T%u was told that %s is not there, and then sees "
                                                "revision %lu in cut %lu",
                                                t, world_key(key), (unsigned long)seen,
                                                (unsigned long)cut->cut);
                        }
}

static void check_cas_winners(void)
{
        uint32_t t, i, winners[2] = {0};

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (world.outcomes[t][i].finished && !world.outcomes[t][i].r) {
                                winners[0] += spec()->ops[t][i].kind == OP_CAS &&
                                              spec()->ops[t][i].key == KEY_A;
                                winners[1] += spec()->ops[t][i].kind == OP_CAS &&
                                              spec()->ops[t][i].key == KEY_B;
                        }
        MODEL_CHECK(winners[0] <= 1 && winners[1] <= 1);
}

static void check_sound(bool quiescent, struct sb_check_report *ret)
{
        int r = sb_check(world_peer(0), quiescent, ret);

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
                uint64_t expected;
                struct sb_version *version = NULL;
                int r = sb_op_get(world_peer(0), world_key(key), world_key_len(key), 0, &version);

                if (!r) {
                        world_check_version(version, key);
                        sb_guard_set(world_peer(0), 0, 0);
                }
                if (!may_be_there(key, UINT64_MAX, r ? 0 : version->rev, &expected))
                        model_fail("%s ends as revision %lu, not %lu", world_key(key),
                                r ? 0 : (unsigned long)version->rev, (unsigned long)expected);
        }
}

/* Return: how many keys have an aborted version on top, which stays until the next write. */
static uint32_t see_end(void)
{
        struct sb_segment *segment = &world_peer(0)->segment;
        struct sb_version *version;
        uint32_t key, aborted = 0;

        for (key = 0; key < WORLD_KEYS; key++) {
                struct outcome outcome = {0};
                int r = sb_op_get(world_peer(0), world_key(key), world_key_len(key), 0, &version);

                world_see(&outcome, key, r ? NULL : version);
                sb_guard_set(world_peer(0), 0, 0);
                world.end_seen[key] = outcome.seen[key];
                world.end_tag[key] = outcome.tags[key];
        }
        for (key = 0; key < segment->geometry.bucket_count * SB_BUCKET_CELLS; key++) {
                const struct sb_bucket *bucket = &segment->buckets[key / SB_BUCKET_CELLS];

                version = sb_version_at(segment,
                        sb_load_relaxed(&bucket->cell[key % SB_BUCKET_CELLS]) & SB_OFFSET_MASK);
                aborted += version && sb_load_relaxed(&version->stamp) == SB_STAMP_ABORTED;
        }
        return aborted;
}

/* A client that wants a large block gets the units of large blocks that are gone. */
static void check_large(struct sb_handle *engine)
{
        const struct sb_segment *segment = &engine->segment;
        const struct sb_geometry *g = &segment->geometry;
        uint64_t offset;
        uint32_t unit;

        if (!sb_slab_take(engine, SB_UNIT_VERSIONS,
                    (uint64_t)g->unit_size * (g->unit_count - g->reserve_count), 0, &offset))
                sb_slab_give_back(engine, offset);
        sb_slab_settle(engine);
        for (unit = 0; unit < g->unit_count; unit++)
                if (SB_UNIT_KIND(sb_load_relaxed(&segment->unit_words[unit])) == SB_UNIT_LARGE &&
                        !sb_load_relaxed(sb_unit_bitmap(segment, unit)))
                        model_fail("unit %u stays a large block's, which is gone", unit);
}

/* What no cell needs is in no sign: a sweep has healed what a kill left. */
static void check_signs(struct sb_handle *engine)
{
        const struct sb_segment *segment = &engine->segment;
        uint32_t bucket;

        for (bucket = 0; bucket < segment->geometry.bucket_count; bucket++) {
                uint64_t sign = sb_load_relaxed(&segment->buckets[bucket].sign);

                sb_pin(engine);
                sb_index_heal(engine, bucket);
                sb_unpin(engine);
                if (sb_load_relaxed(&segment->buckets[bucket].sign) != sign)
                        model_fail("the sign of bucket %u says more than is there", bucket);
        }
}

/* What a client announced it has ended, or it was taken away before it was ended. */
static void check_announced(const struct sb_handle *handle)
{
        uint32_t i;

        for (i = 0; i < handle->segment.geometry.snapshot_count; i++)
                if (sb_load_relaxed(&sb_record_snapshots(handle->record)[i]))
                        model_fail("client %u has ended all snapshots, and one is announced",
                                handle->slot);
}

static bool is_alive(uint32_t thread)
{
        return model_finished(thread) || model_asleep(thread);
}

/* All clients leave, the engine reaps the dead ones and cleans up: then only what the keys need is
 * there. */
static void check_cleaned_up(void)
{
        struct sb_handle *engine = world_peer(0);
        struct sb_check_report report;
        uint32_t i, cursor = 0, aborted = 0;

        /* The engine comes first: its thread may be dead, or it died while it reaped. */
        if (spec()->engine ? !model_finished(0) && !world.adopted : model_reaper_died())
                world_adopt();
        world_log_go_on(engine);
        world_watch_judge(engine);
        world_prefix_judge(engine);
        for (i = 1; i < PEERS; i++) {
                struct sb_handle *handle = world_peer(i);
                bool mine = !spec()->engine || i > 1; /* the thread's own, not the engine's */
                uint32_t generation;

                if (world.left[i] ||
                        sb_roster_state(&engine->segment, handle->slot, &generation) ==
                                SB_RECORD_FREE ||
                        generation != handle->generation)
                        continue;
                if (spec()->start == START_DEAD && i == DEAD_PEER)
                        sb_reap_record(engine, handle->slot, handle->generation);
                else if (is_alive(i - 1) || !mine || !spec()->ops[i - 1][0].kind) {
                        check_announced(handle);
                        sb_handle_fini(handle);
                } else
                        sb_reap_record(engine, handle->slot, handle->generation);
        }
        for (i = 0; i < MODEL_THREADS; i++)
                if (world.here[i])
                        sb_reap_record(engine, world.guests[i].slot, world.guests[i].generation);
        for (i = 0; i < MODEL_THREADS; i++)
                world.here[i] = false;
        world_reap_strangers();
        world_move_judge(engine);
        world_past_clean_up(engine);
        world_log_end(engine);
        if ((spec()->start == START_SNAPSHOT || spec()->start == START_KEPT ||
                    spec()->start == START_SEEN) &&
                sb_load_relaxed(&sb_record_snapshots(engine->record)[world.engine_snapshot]))
                sb_snapshot_close(engine, world.engine_snapshot);
        for (i = 0; i < 4; i++) {
                sb_stable_raise(engine);
                sb_sweep(engine, &cursor, engine->segment.geometry.unit_count);
                sb_work_all(engine, true);
        }
        sb_slab_release_all(engine); /* what the copy of a branch did not need */
        if (world.serial)
                aborted = see_end();
        else
                check_newest();
        check_sound(true, &report);
        if (report.guards_stale)
                model_fail("%lu guards hold no block", (unsigned long)report.guards_stale);
        if (report.units_unhinted)
                model_fail(
                        "%lu units lack a hint after sweeps", (unsigned long)report.units_unhinted);
        check_signs(engine);
        check_large(engine);
        /* Each branch has two leaves or branches at least. */
        if (report.blocks_waiting ||
                report.blocks_used != report.keys * 2 + report.branches + aborted ||
                (report.branches && report.branches >= report.keys))
                model_fail("%lu blocks used and %lu waiting for %lu keys and %lu branches",
                        (unsigned long)report.blocks_used, (unsigned long)report.blocks_waiting,
                        (unsigned long)report.keys, (unsigned long)report.branches);
}

static bool any_killed(void)
{
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++)
                if (spec()->ops[t][0].kind && !is_alive(t))
                        return true;
        return false;
}

static void judge_each(void)
{
        struct sb_check_report report;
        uint64_t hash = model_region_hash();
        uint32_t t, i, key;

        for (key = 0; key < WORLD_KEYS; key++)
                check_revisions(key);
        for (t = 0; t < MODEL_THREADS; t++) {
                hash = hash * 31 + model_finished(t);
                for (i = 0; i < WORLD_OPS; i++) {
                        hash = hash * 31 + world.outcomes[t][i].ran * 2 +
                               world.outcomes[t][i].finished;
                        if (world.outcomes[t][i].finished)
                                check_outcome(&spec()->ops[t][i], &world.outcomes[t][i]);
                }
        }
        hash = world_log_hash(world_prefix_hash(world_watch_hash(hash)));
        check_cas_winners();
        check_order();
        check_absence_in_cuts();
        if (!model_first_time(hash * UINT64_C(0x9e3779b97f4a7c15)))
                return;
        check_sound(true, &report);
        if (report.units_unhinted && !any_killed())
                model_fail("%lu units lack a hint, and no thread was killed",
                        (unsigned long)report.units_unhinted);
        if (report.guards_stale && !any_killed())
                model_fail("%lu guards hold no block, and no thread was killed",
                        (unsigned long)report.guards_stale);
        check_newest();
        check_cleaned_up();
}

/* A client that is stopped beside a mover may know what the mover needs. */
static bool others_hold_rows(void)
{
        return spec()->start == START_APART && spec()->ops[1][0].kind;
}

static void check_answers(void)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];
                        enum world_op_kind kind = spec()->ops[t][i].kind;

                        if (!outcome->finished || !outcome->r)
                                continue;
                        MODEL_CHECK(outcome->r != SB_E_FULL || spec()->start == START_FULL ||
                                    spec()->start == START_HINTED || others_hold_rows());
                        MODEL_CHECK(
                                outcome->r == SB_E_FULL ||
                                (outcome->r == SB_E_LAPPED && (kind == OP_TXN || kind == OP_MANY ||
                                                                      kind == OP_RESTORE)) ||
                                (outcome->r == SB_E_CONFLICT &&
                                        (kind == OP_TXN || kind == OP_CAS || kind == OP_CREATE)) ||
                                (outcome->r == SB_E_NOT_FOUND &&
                                        (kind == OP_GET || kind == OP_DELETE)));
                }
}

/* The same for scenarios with transactions. */
static void judge_serial(void)
{
        const unsigned char *bytes = (const unsigned char *)world.outcomes;
        struct sb_check_report report;
        uint64_t hash = model_region_hash(), word;
        uint32_t t, at;

        for (t = 0; t < MODEL_THREADS; t++)
                hash = hash * 31 + model_finished(t);
        for (at = 0; at + 8 <= sizeof world.outcomes; at += 8) {
                memcpy(&word, bytes + at, 8);
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        }
        hash = world_log_hash(world_prefix_hash(world_watch_hash(hash)));
        if (!model_first_time(hash))
                return;
        check_answers();
        check_sound(true, &report);
        check_cleaned_up();
        world_serial_judge();
}

void world_judge(void)
{
        uint32_t t;

        for (t = spec()->engine; t < MODEL_THREADS && spec()->users; t++)
                if (model_finished(t) && !world.left[world_number(handle_of(t))])
                        user_check_idle(t);
        world_log_judge();
        if (world.serial)
                judge_serial();
        else
                judge_each();
}
