/*
 * Acts of a scene: which file does an act, and what the functions of ring/op and shm/upkeep do of
 * them; see scene.h. With TRIAL_USERS clients go by the public calls where there are some
 * (scene-users.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ring/op/get.h"
#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/result.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/layout/reserved.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/evict.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/harness/step/scene.h"

#define GUARD_GET  0u /* the guard word for gets */
#define GUARD_HOLD 1u /* for what is held */
#define GUARD_MANY 2u /* for get_many, from here on */
#define SCAN_BOUND 1000u

static void do_write(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        struct sb_bytes key = scene_key(act->key);
        struct sb_op_write write = {.key = key.data,
                .key_len = (uint32_t)key.len,
                .value = scene_value(act->tag),
                .value_len = act->len,
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result got = {0};

        sb_assert(act->len <= SCENE_VALUE_MAX);
        if (act->expect == NOTHING)
                write.expected_rev = 0;
        else if (act->expect == THEN)
                write.expected_rev = scene->then[act->key];
        else if (act->expect == STALE)
                write.expected_rev = scene->then[act->key] - 1;
        if (act->kind == DELETE) {
                write.kind = SB_VERSION_DELETED;
                write.value = NULL;
                write.value_len = 0;
        }
        ret->code = sb_op_write(handle, &write, &got);
        /* As sb_set() does with time for so much. */
        for (uint32_t slices = 0; ret->code == SB_E_FULL && slices < 2; slices++) {
                sb_work_slice(handle);
                ret->code = sb_op_write(handle, &write, &got);
        }
        ret->rev = ret->code == 0 || ret->code == SB_E_CONFLICT ? got.rev : 0;
}

static void do_get(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        struct sb_bytes key = scene_key(act->key);
        struct sb_version *version = NULL;
        uint32_t guard = act->kind == HOLD ? GUARD_HOLD : GUARD_GET;

        ret->code = sb_op_get(handle, key.data, (uint32_t)key.len, guard, &version);
        if (ret->code)
                return;
        ret->seen[act->key] = scene_fact_of(scene, version, act->key);
        if (act->kind == HOLD)
                scene->held[act->actor] = version;
        else
                sb_guard_set(handle, guard, 0);
}

static void do_let_go(struct scene *scene, const struct act *act, struct result *ret)
{
        if (!scene->held[act->actor])
                return;
        ret->seen[act->key] = scene_fact_of(scene, scene->held[act->actor], act->key);
        scene->held[act->actor] = NULL;
        sb_guard_set(scene_handle(scene, act->actor), GUARD_HOLD, 0);
}

static void do_get_many(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        struct sb_op_key keys[SCENE_KEYS];
        struct sb_version *versions[SCENE_KEYS];
        uint64_t shapes[SCENE_KEYS];
        uint32_t guards[SCENE_KEYS];

        for (uint32_t i = 0; i < act->len; i++) {
                keys[i].data = scene_key(act->key + i).data;
                keys[i].len = scene_key(act->key + i).len;
                guards[i] = GUARD_MANY + i;
        }
        sb_op_get_many(handle, keys, act->len, guards, versions, shapes);
        for (uint32_t i = 0; i < act->len; i++) {
                ret->seen[act->key + i] = scene_fact_of(scene, versions[i], act->key + i);
                if (versions[i])
                        sb_guard_set(handle, guards[i], 0);
        }
}

/* Walks the same keys again, from the last to the first: each value must be the one that was seen.
 * code: -4 a value differs, -5 one is missing. */
static void walk_back(struct scene *scene, enum scene_actor actor, uint64_t cut, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, actor);
        unsigned char bound[64];
        uint32_t len = sizeof(bound), missing = 0;
        bool inclusive = true;
        struct sb_node *node;

        for (uint32_t key = 0; key < SCENE_KEYS; key++)
                missing += ret->seen[key].state == FACT_VALUE;
        memset(bound, 0xff, sizeof(bound));
        sb_pin(handle);
        for (uint32_t count = 0; count < SCAN_BOUND && !ret->code; count++) {
                struct fact fact;
                uint32_t number;

                node = sb_order_below(handle, bound, len, inclusive);
                if (!node)
                        break;
                len = node->key_len;
                memcpy(bound, node->key, len);
                inclusive = false;
                number = scene_key_number(bound, len);
                if (sb_reserved_is(bound, len))
                        continue;
                if (number == SCENE_KEYS) {
                        ret->code = -2;
                        break;
                }
                fact = scene_fact_of(scene, sb_find_in_node(handle, node, cut), number);
                if (!scene_fact_equal(&fact, &ret->seen[number], true))
                        ret->code = -4;
                missing -= fact.state == FACT_VALUE;
        }
        sb_unpin(handle);
        if (!ret->code && missing)
                ret->code = -5;
}

/* Walks all keys at a cut, as the client library does. code: 0; -1 not in order, -2 a key twice or
 * unknown, -3 no end. */
static void walk(struct scene *scene, enum scene_actor actor, uint64_t cut, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, actor);
        unsigned char last[64];
        size_t last_len = 0;
        struct sb_order_cursor cursor;
        struct sb_node *node;

        sb_pin(handle);
        node = sb_order_first(handle, "", 0, false, &cursor);
        for (uint32_t count = 0; node; count++) {
                const unsigned char *key = node->key;
                size_t len = node->key_len, shorter = len < last_len ? len : last_len;
                uint32_t number = scene_key_number(key, len);
                int order = memcmp(last, key, shorter);
                bool own = sb_reserved_is(key, len); /* the bus's own: a mark */

                if (count == SCAN_BOUND || (number == SCENE_KEYS && !own) || order > 0 ||
                        (order == 0 && last_len >= len)) {
                        ret->code = count == SCAN_BOUND ? -3 : number == SCENE_KEYS ? -2 : -1;
                        break;
                }
                memcpy(last, key, len);
                last_len = len;
                if (!own)
                        ret->seen[number] =
                                scene_fact_of(scene, sb_find_in_node(handle, node, cut), number);
                node = sb_order_next(handle, &cursor);
        }
        sb_unpin(handle);
        if (!ret->code)
                walk_back(scene, actor, cut, ret);
}

static void do_snapshot(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        uint32_t index = scene->snapshot[act->actor];
        uint64_t cut = scene->snapshot_cut[act->actor];

        if (act->kind == SCAN || act->kind == SNAPSHOT) {
                ret->code = sb_snapshot_open(handle, &index, &cut);
                if (ret->code)
                        return;
        }
        if (act->kind == SCAN || act->kind == SNAPSHOT_READ) {
                walk(scene, act->actor, cut, ret);
                if (!sb_snapshot_holds(handle, index, cut))
                        *ret = (struct result){.code = SB_E_LAPPED};
        }
        if (act->kind == SCAN || act->kind == SNAPSHOT_END)
                sb_snapshot_close(handle, index);
        if (act->kind == SNAPSHOT_READ && !ret->code)
                scene->snapshot_read[act->actor] = *ret;
        if (act->kind == SNAPSHOT) {
                scene->snapshot[act->actor] = index;
                scene->snapshot_cut[act->actor] = cut;
        }
        if (act->kind != SCAN)
                scene->snapshot_was_read[act->actor] =
                        act->kind == SNAPSHOT_READ &&
                        (!ret->code || scene->snapshot_was_read[act->actor]);
}

static void do_reap(struct scene *scene, const struct act *act)
{
        struct sb_handle *dead = scene_handle(scene, act->key);

        sb_reap_record(scene_handle(scene, act->actor), dead->slot, dead->generation);
        sb_named_repair(scene_handle(scene, act->actor));
        sb_keep_repair(scene_handle(scene, act->actor));
        scene->attached[act->key] = false;
}

static void do_mark(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        uint64_t cut;

        if (act->kind == MARK) {
                ret->code = sb_op_mark(handle, "m", 1, &cut);
        } else if (act->kind == MARK_DROP) {
                ret->code = sb_op_mark_drop(handle, "m", 1);
        } else {
                ret->code = sb_op_mark_find(handle, "m", 1, &cut);
                ret->seen[0].rev = !ret->code;
        }
}

static void do_lap(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);
        static struct sb_check_report report;

        while (sb_work_slice(handle) && handle->work.lap_end)
                ;
        if (act->len)
                ret->code = sb_check(handle, false, &report) ? -1
                            : report.keys_deleted > 1        ? (int)report.keys_deleted - 1
                                                             : 0;
}

static void do_validate(struct scene *scene, const struct act *act, struct result *ret)
{
        static struct sb_check_report report;

        ret->code = sb_check(scene_handle(scene, act->actor), false, &report);
        if (!ret->code)
                ret->code = (int)report.problem_count;
}

static void do_fill(struct scene *scene, const struct act *act, struct result *ret)
{
        static const uint16_t lens[] = {1500, 600, 200, 100, 60, 30, 10};

        for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
                for (uint32_t key = act->key; key < scene->key_count; key++) {
                        struct act set = {.actor = act->actor,
                                .kind = SET,
                                .key = (uint8_t)key,
                                .tag = 9,
                                .len = lens[i]};
                        struct act get = {.actor = act->actor, .kind = GET, .key = (uint8_t)key};

                        scene_do(scene, &get, ret);
                        if (ret->code == SB_E_NOT_FOUND)
                                scene_do(scene, &set, ret);
                }
        }
}

static void do_act(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);

        switch (act->kind) {
        case SET:
        case CAS:
        case DELETE:
                do_write(scene, act, ret);
                break;
        case GET:
        case HOLD:
                do_get(scene, act, ret);
                break;
        case LET_GO:
                do_let_go(scene, act, ret);
                break;
        case GET_MANY:
                do_get_many(scene, act, ret);
                break;
        case TXN:
        case TXN_COMMIT:
        case RESTORE:
                scene_txn(scene, act, ret);
                break;
        case SCAN:
        case SNAPSHOT:
        case SNAPSHOT_READ:
        case SNAPSHOT_END:
                do_snapshot(scene, act, ret);
                break;
        case GROW_GUARDS:
                ret->code = sb_guard_grow(handle, act->len);
                break;
        case WORK:
                sb_work_all(handle, act->len);
                break;
        case DUE:
                sb_reclaim_due(handle);
                break;
        case SWEEP:
                sb_sweep(handle, &scene->cursor[act->actor], handle->segment.geometry.unit_count);
                break;
        case LAP:
                do_lap(scene, act, ret);
                break;
        case STABLE:
                sb_stable_raise(handle);
                break;
        case TICK:
                sb_work_tick(handle, &scene->cursor[act->actor]);
                break;
        case ATTACH:
                ret->code = scene_attach(scene, act->key, 1);
                break;
        case DETACH:
                sb_handle_fini(handle);
                scene->attached[act->actor] = false;
                break;
        case REAP:
                do_reap(scene, act);
                break;
        case ADOPT:
                ret->code = scene_adopt(scene);
                break;
        case FILL:
                do_fill(scene, act, ret);
                break;
        case MARK:
        case MARK_DROP:
        case MARK_FIND:
                do_mark(scene, act, ret);
                break;
        case KEEP:
                ret->code = sb_keep_write(
                        handle, "", 0, true, act->len ? SB_RULE_WORD(SB_RULE_LAST, act->len) : 0);
                break;
        case EVICT:
                sb_evict_client(handle, scene_handle(scene, act->key)->slot, UINT64_MAX);
                break;
        case VALIDATE:
                do_validate(scene, act, ret);
                break;
        default:
                __builtin_trap();
        }
}

void scene_do(struct scene *scene, const struct act *act, struct result *ret)
{
        uint32_t before = scene->running;

        memset(ret, 0, sizeof(*ret));
        scene->running = act->actor;
        scene_wake_up(scene, act->actor);
        if (!scene_rows(scene, act, ret) && !scene_watch(scene, act, ret) &&
                !scene_log(scene, act, ret) &&
                (!scene->users || act->actor == ENGINE || !scene_call(scene, act, ret)))
                do_act(scene, act, ret);
        /* No model has this answer: a client that stays pinned keeps all memory that goes. */
        if (sb_load_relaxed(&scene_handle(scene, act->actor)->record->pin))
                ret->code = -EDEADLK;
        scene->running = before;
}

const char *scene_act_text(const struct act *act)
{
        static const char *const names[] = {"end", "set", "cas", "delete", "get", "get_many",
                "hold", "let_go", "scan", "snapshot", "snapshot_read", "snapshot_end",
                "grow_guards", "work", "due", "sweep", "lap", "stable", "tick", "attach", "detach",
                "reap", "adopt", "fill", "mark", "mark_drop", "mark_find", "keep", "evict",
                "validate", "txn", "txn_commit", "restore", "past", "history", "get_many_at",
                "scan_many", "scan_seek", "clear", "update", "apart", "thin", "large", "watch",
                "watch_next", "watch_close", "wait", "sleep", "stand", "prefix", "log", "pressed"};
        static const char *const actors[] = {"engine", "subject", "other", "newcomer"};
        static char text[96];

        snprintf(text, sizeof(text), "%s: %s key %u tag %u len %u", actors[act->actor],
                names[act->kind], act->key, act->tag, act->len);
        return text;
}
