/*
 * What threads do in the scenarios of the write path: which file has an operation, clients that
 * come and go, work on memory and cuts, the reaper; see world.h. How keys are written and read is
 * in keys.c.
 */
#include "ring/op/get.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

struct world_state world;

uint32_t sb_model_branch_few(void)
{
        return spec()->slots ? spec()->slots : 2;
}

uint32_t sb_model_scan_first(void)
{
        return spec()->ahead ? spec()->ahead : 1;
}

uint32_t sb_model_slab_takes(void)
{
        return spec()->takes ? spec()->takes : 1;
}

enum sb_fault world_fault;

const char *const world_fault_names[SB_FAULT_COUNT] = {[SB_FAULT_NONE] = "NONE",
#define NAME(name, text) [SB_FAULT_##name] = #name,
        SB_FAULT_TABLE(NAME)
#undef NAME
};

/* What a guest has in its record stays there. */
static void be_there(struct sb_handle *guest, enum world_key key)
{
        struct sb_version *version = NULL;
        uint32_t index;
        uint64_t cut;
        int r;

        if (sb_guard_grow(guest, 0) || sb_snapshot_open(guest, &index, &cut))
                model_fail("a new record has no free words");
        r = sb_op_get(guest, world_key(key), world_key_len(key), 0, &version);
        if (!r)
                world_check_version(version, key);
        MODEL_CHECK(sb_load_relaxed(&sb_record_snapshots(guest->record)[index]) == cut);
        MODEL_CHECK(r || sb_load_relaxed(&guest->guards.words[0]) ==
                                 sb_offset_of(&guest->segment, version));
        sb_guard_set(guest, 0, 0);
        sb_snapshot_close(guest, index);
}

void *world_space(const struct sb_segment *segment, uint32_t number)
{
        if (sb_handle_space(&segment->geometry) > WORLD_SPACE)
                model_fail("the space of a handle is larger");
        return world.spaces[number];
}

/* The engine claims a record; a newcomer reads, writes and leaves. */
static void do_attach(uint32_t me, struct sb_handle *engine, const struct world_op *op,
        uint32_t tag, struct outcome *outcome)
{
        struct sb_roster_identity identity = {.pid = 3};
        struct sb_handle *guest = &world.guests[me];
        uint32_t slot, generation;

        outcome->r = sb_roster_claim(&engine->segment, 1, &identity, &slot, &generation);
        if (outcome->r)
                return;
        sb_handle_init(guest, &engine->segment, slot, generation,
                world_space(&engine->segment, PEERS + me));
        world.here[me] = true;
        be_there(guest, op->key);
        world_write_run(guest, op, tag, outcome);
        world.here[me] = false;
        sb_handle_fini(guest);
}

static void do_check(struct sb_handle *handle)
{
        struct sb_check_report report;
        int r = sb_check(handle, false, &report);

        if (r)
                model_fail("check: %d", r);
        if (report.problem_count)
                model_fail("check, among others: %s", report.problems[0]);
}

/* What sweeps have labelled stays labelled: their floor never goes back. */
static void do_memory(struct sb_handle *handle)
{
        uint64_t floor;

        sb_work_all(handle, true);
        floor = sb_load_acquire(&handle->segment.super->birth_floor);
        MODEL_CHECK(floor >= model_noted(NOTE_FLOOR));
        model_note(NOTE_FLOOR, floor);
}

/* What the limit of history takes away stays away: its floor never goes back. */
static void do_budget(struct sb_handle *handle, const struct world_op *op)
{
        const struct sb_keeping keeping = {.word = SB_RULE_WORD(SB_RULE_ALL, 0)};
        const struct sb_version version = {.shape = SB_SHAPE(VALUE_LEN, 1, SB_VERSION_VALUE, 0)};
        struct sb_superblock *super = handle->segment.super;
        uint64_t floor;

        sb_store_release(&super->rule_count, 1);
        sb_store_release(&super->history_limit, 1);
        sb_budget_begin(handle);
        sb_budget_count(handle, &keeping, &version, 1 + op->key);
        sb_budget_end(handle);
        floor = sb_load_acquire(&super->history_floor);
        MODEL_CHECK(floor > op->key && floor >= model_noted(NOTE_LIMIT));
        model_note(NOTE_LIMIT, floor);
}

/* The stable cut is no lower behind a raise than the clock was before, and never goes back. */
static void do_stable(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t before = sb_load_acquire(&super->clock), stable;

        sb_stable_raise(handle);
        stable = sb_load_acquire(&super->stable);
        MODEL_CHECK(stable >= before && stable >= model_noted(NOTE_STABLE));
        model_note(NOTE_STABLE, stable);
}

/* As in rules_flag(): what came before may be gone. */
static bool flags_begin(struct sb_handle *handle, const struct sb_spot *spot)
{
        struct sb_node *node = sb_node_at(&handle->segment, spot->head->node);

        if (node && !(spot->word & (SB_CELL_KEPT | SB_CELL_WATCHED)))
                sb_ring_say_gone(handle, node, spot->head->rev);
        return true;
}

/* A history rule comes and goes, as far as the cell shows it. */
static void do_flags(struct sb_handle *handle, const struct world_op *op)
{
        uint64_t hash = sb_find_hash_any(handle, world_key(op->key), world_key_len(op->key));
        struct sb_spot spot;

        sb_pin(handle);
        if (sb_key_find(handle, world_key(op->key), world_key_len(op->key), hash, &spot) &&
                flags_begin(handle, &spot) &&
                sb_cas64_full(spot.cell, spot.word, spot.word | SB_CELL_KEPT))
                while (spot.word = sb_load_acquire(spot.cell),
                        !sb_cas64_full(spot.cell, spot.word, spot.word & ~SB_CELL_KEPT))
                        ;
        sb_unpin(handle);
}

/* Others have retired that much. The era does not pass what it would wait at. */
static void do_ages(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        uint64_t era = sb_load_acquire(&super->era), leap = SB_ERA_OLD + 2;

        if (era + leap - sb_load_acquire(&super->birth_floor) < SB_ERA_STOP)
                sb_cas64_full(&super->era, era, sb_era_whole(era + leap));
}

uint64_t world_passing_size(const struct sb_segment *segment)
{
        uint64_t size = sizeof(struct sb_version) + world_key_len(KEY_A) + VALUE_LEN;

        return segment->class_size[sb_unit_class(segment, size)] + 1;
}

/* In a unit of their own, if one is FREE. */
static void do_pass(struct sb_handle *handle)
{
        uint64_t offset[2], size = world_passing_size(&handle->segment);
        uint32_t count = 0;

        while (count < 2 && sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, &offset[count]) == 0)
                count++;
        while (count)
                sb_slab_give_back(handle, offset[--count]);
        sb_slab_release_all(handle);
}

/* A block of the size of all values is taken and not used. Where none is left, nothing happens. */
static void do_spare(struct sb_handle *handle)
{
        uint64_t size = sizeof(struct sb_version) + world_key_len(KEY_A) + VALUE_LEN, offset;

        if (sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, &offset) == 0 &&
                !sb_spare_keep(handle, offset))
                sb_slab_give_back(handle, offset);
        sb_slab_release_all(handle);
}

/* Operations without an answer. */
static void run_work(struct sb_handle *handle, const struct world_op *op)
{
        uint32_t cursor = 0;

        switch (op->kind) {
        case OP_MEMORY:
                do_memory(handle);
                break;
        case OP_WORK:
                sb_work_all(handle, false);
                break;
        case OP_STABLE:
                do_stable(handle);
                break;
        case OP_SWEEP:
                sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
                break;
        case OP_TICK:
                sb_work_tick(handle, &cursor);
                break;
        case OP_FINI:
                world.left[world_number(handle)] = true;
                sb_handle_fini(handle);
                break;
        case OP_REAP:
                sb_reap_record(handle, DEAD_PEER, world_peer(DEAD_PEER)->generation);
                break;
        case OP_CHECK:
                do_check(handle);
                break;
        case OP_FREE:
                while (sb_reclaim_free(handle))
                        ;
                break;
        case OP_PASS:
                do_pass(handle);
                break;
        case OP_SPARE:
                do_spare(handle);
                break;
        case OP_DUE:
                sb_reclaim_due(handle);
                break;
        case OP_AGES:
                do_ages(handle);
                break;
        case OP_BUDGET:
                do_budget(handle, op);
                break;
        case OP_FLAGS:
                do_flags(handle, op);
                break;
        default:
                break;
        }
}

static bool is_user(uint32_t thread)
{
        return spec()->users && !(spec()->engine && !thread);
}

static void run_op(uint32_t me, struct sb_handle *handle, const struct world_op *op, uint32_t tag,
        struct outcome *outcome)
{
        outcome->ran = true;
        outcome->done_before = model_noted(NOTE_DONE + op->key);
        if (world.serial)
                outcome->over_before = model_noted(NOTE_OVER);
        switch (is_user(me) && user_run(me, op, tag, outcome) ? OP_NONE : op->kind) {
        case OP_NONE:
                break;
        case OP_ATTACH:
                do_attach(me, handle, op, tag, outcome);
                break;
        case OP_ARRIVE:
                world_arrive(handle, op);
                break;
        case OP_EVICT:
        case OP_AT:
        case OP_KEEP:
                world_past_run(handle, op, outcome);
                break;
        case OP_OBSERVE:
                world_observe(handle, op);
                break;
        case OP_TXN:
                world_txn_run(me, handle, op, tag, outcome);
                break;
        case OP_LOOK:
                world_look(handle, outcome);
                break;
        case OP_MOVE:
                world_move(handle, op, outcome);
                break;
        case OP_WATCH:
        case OP_NEXT:
        case OP_SLEEP:
        case OP_UNWATCH:
        case OP_PRESS:
        case OP_PREFIX:
        case OP_VIEW:
        case OP_LOG:
                if (!world_prefix_run(me, op, outcome) && !world_log_run(me, handle, op, outcome))
                        world_watch_run(me, handle, op, outcome);
                break;
        default:
                if (!world_keys_run(me, handle, op, tag, outcome))
                        run_work(handle, op);
        }
        outcome->finished = true;
        if (world.serial)
                model_note(NOTE_OVER, model_noted(NOTE_OVER) + (UINT64_C(1) << 8 * me));
}

static void run_thread(uint32_t me)
{
        uint32_t i;

        for (i = 0; i < WORLD_OPS; i++)
                if (spec()->ops[me][i].kind)
                        run_op(me, handle_of(me), &spec()->ops[me][i], world_tag(me, i),
                                &world.outcomes[me][i]);
}

void world_reap_strangers(void)
{
        struct sb_handle *engine = world_peer(0);
        uint32_t slot, generation, i;

        for (slot = 1; slot < PEERS; slot++) {
                bool known = false;

                if (sb_roster_state(&engine->segment, slot, &generation) == SB_RECORD_FREE)
                        continue;
                for (i = 1; i < PEERS; i++)
                        known = known || (!world.left[i] && world_peer(i)->slot == slot &&
                                                 world_peer(i)->generation == generation);
                for (i = 0; i < MODEL_THREADS; i++)
                        known = known || (world.here[i] && world.guests[i].slot == slot &&
                                                 world.guests[i].generation == generation);
                if (!known)
                        sb_reap_record(engine, slot, generation);
        }
}

void world_adopt(void)
{
        struct sb_segment segment = world_peer(0)->segment;
        struct sb_roster_identity identity = {.pid = 2};
        uint32_t slot, generation;

        if (sb_roster_state(&segment, 0, &generation) != SB_RECORD_FREE) {
                sb_handle_init(world_peer(0), &segment, 0, generation, world_space(&segment, 0));
                sb_reap_record(world_peer(0), 0, generation);
        }
        if (sb_roster_claim(&segment, 0, &identity, &slot, &generation))
                model_fail("the engine's record cannot be had");
        sb_handle_init(world_peer(0), &segment, slot, generation, world_space(&segment, 0));
        sb_guard_grow(world_peer(0), 0);
        world.adopted = true;
}

static void run_reaper(uint32_t dead)
{
        struct sb_handle *handle = handle_of(dead);

        if (handle == world_peer(0))
                world_adopt();
        else if (world.here[dead])
                sb_reap_record(
                        world_peer(0), world.guests[dead].slot, world.guests[dead].generation);
        else
                sb_reap_record(world_peer(0), handle->slot, handle->generation);
        world_log_reaped(world_peer(0), dead);
        world.reaped = true;
}

static void where(uint64_t offset, char ret_text[64])
{
        world_where(&world_peer(0)->segment, offset, ret_text);
}

static bool focused(uint64_t offset)
{
        return world_focused(&world_peer(0)->segment, spec()->focus, offset);
}

struct model_scenario world_scenario(const struct world_case *the_case)
{
        return (struct model_scenario){
                .name = the_case->name,
                .spec = &the_case->spec,
                .setup = world_start,
                .thread = run_thread,
                .reaper = the_case->reaper ? run_reaper : NULL,
                .check = world_judge,
                .focus = the_case->spec.focus ? focused : NULL,
                .where = where,
                .world = &world,
                .world_size = sizeof world,
                .thread_count = the_case->threads,
                .preemptions = the_case->preemptions,
                .costly = the_case->costly,
                .whole = the_case->whole,
                .crashes = the_case->crashes,
                .delays = the_case->delays,
                .crash_mask = the_case->crash_mask ? the_case->crash_mask : 15,
                .step_max = 20000,
        };
}
