/* The past in scenarios: cuts that no client announces, and rules that say what is kept; see
 * world.h. */
#include <string.h>

#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/past.h"
#include "shm/base/result.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/evict.h"
#include "tests/model/world-core.h"

#define GUARD_INDEX 0u

/* Reads the key at an earlier cut, into what was seen. Return: as sb_past_get(). */
static int read_past(
        struct sb_handle *handle, enum world_key key, uint64_t cut, struct outcome *outcome)
{
        struct sb_version *version = NULL;
        int r = sb_past_get(handle, world_key(key), world_key_len(key), cut, GUARD_INDEX, &version);

        if (version)
                world_check_version(version, key);
        if (r != SB_E_LAPPED)
                world_see(outcome, key, r ? NULL : version);
        if (version)
                sb_guard_set(handle, GUARD_INDEX, 0);
        return r;
}

/* Reads twice at one cut: each gives the value, or that it is lost; once lost, it stays lost. With
 * a rule it is never lost. */
static void read_twice(
        struct sb_handle *handle, const struct world_op *op, bool kept, struct outcome *outcome)
{
        struct outcome again = {0};
        uint32_t key;
        int r;

        for (key = 0; key < WORLD_KEYS; key++)
                outcome->done_all[key] = model_noted(NOTE_DONE + key);
        outcome->cut = outcome->read_cut =
                op->way == WAY_PAST ? world.engine_cut : sb_clock_take_cut(handle);
        outcome->r = read_past(handle, op->key, outcome->cut, outcome);
        r = read_past(handle, op->key, outcome->cut, &again);
        if (kept && (outcome->r == SB_E_LAPPED || r == SB_E_LAPPED))
                model_fail("%s is kept, and what it was at cut %lu is lost", world_key(op->key),
                        (unsigned long)outcome->cut);
        MODEL_CHECK(outcome->r != SB_E_LAPPED || r == SB_E_LAPPED);
        if (r != SB_E_LAPPED)
                MODEL_CHECK(again.seen[op->key] == outcome->seen[op->key]);
        if (outcome->r == SB_E_NOT_FOUND)
                outcome->r = 0;
}

void world_past_run(struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        uint32_t slot;

        switch (op->kind) {
        case OP_EVICT:
                for (slot = 1; slot < handle->segment.geometry.record_count; slot++)
                        sb_evict_client(
                                handle, slot, op->way == WAY_PAST ? world.engine_cut : UINT64_MAX);
                break;
        case OP_AT:
                read_twice(handle, op, op->way == WAY_PAST, outcome);
                if (op->way == WAY_PAST && outcome->seen[op->key] != world.past_seen)
                        model_fail("a rule keeps revision %lu, and %lu was read",
                                (unsigned long)world.past_seen,
                                (unsigned long)outcome->seen[op->key]);
                outcome->r = op->way == WAY_PAST ? SB_E_LAPPED : outcome->r; /* judged */
                break;
        default: /* OP_KEEP */
                if (sb_keep_write(handle, world_key(op->key), world_key_len(op->key), false,
                            SB_RULE_WORD(SB_RULE_ALL, 0)))
                        model_fail("no block for a rule");
                read_twice(handle, op, true, outcome);
                break;
        }
}

void world_past_clean_up(struct sb_handle *engine)
{
        static const char *const marks[] = {WORLD_MARK, "m0", "m1", "m2", "m3"};
        uint32_t key, i;

        sb_named_repair(engine);
        /* A mark outlives its maker. */
        for (i = 0; i < sizeof marks / sizeof *marks; i++)
                (void)sb_op_mark_drop(engine, marks[i], (uint32_t)strlen(marks[i]));
        sb_keep_repair(engine);
        for (key = 0; key < WORLD_KEYS; key++)
                if (sb_keep_write(engine, world_key(key), world_key_len(key), false, 0))
                        model_fail("a rule cannot be taken away");
        if (sb_keep_write(engine, "", 0, true, 0))
                model_fail("the rule for all cannot be taken away");
}
