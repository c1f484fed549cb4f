/* A tiny bus with several clients in one process; see scene.h. */
#include "tests/harness/step/scene.h"

#include <stdio.h>
#include <string.h>

#include "ring/op/get.h"
#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/hash.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/reserved.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
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

#define SCENE_SEED   UINT64_C(0x5eed5eed5eed)
#define GUARD_GET    0u /* the guard word for gets */
#define GUARD_HOLD   1u /* for what is held */
#define GUARD_MANY   2u /* for get_many, from here on */
#define SCAN_BOUND   1000u
#define VALUE_MAX    8192u
#define POISON       0xdb
#define INVERSE_OF_7 183u /* modulo 256 */
#define SLICE_NS     1000000u

uint64_t scene_time(const struct scene *scene)
{
        return 1000 + scene->slept_ns;
}

/* A write that waits for memory asks between slices of work, which take time. */
static uint64_t scene_now(void *context)
{
        struct scene *scene = context;

        if (!scene)
                return 1000;
        if (scene_handle(scene, scene->running)->window.waits)
                scene->slept_ns += SLICE_NS;
        return scene_time(scene);
}
/* All clients run in one thread, and the stores of a stopped one are all in memory: there is
 * nothing to flush, and no client to wait for. */
static void scene_membarrier(void *context)
{
        (void)context;
}
static void scene_pause(void *context, uint64_t ns)
{
        (void)context;
        (void)ns;
}
/* No other client goes on meanwhile, so it is only counted. */
static void scene_spin(void *context, uint32_t turns)
{
        struct scene *scene = context;

        (void)turns;
        if (scene)
                scene->ways_given++;
}
static struct sb_os scene_os = {.now_ns = scene_now,
        .realtime_ns = scene_now,
        .membarrier = scene_membarrier,
        .pause = scene_pause,
        .spin = scene_spin,
        .wait = scene_wait,
        .wake = scene_wake};

static const struct sb_word32 living = {1};
static bool long_keys, calls;

void scene_use_calls(bool use)
{
        calls = use;
}

void scene_use_long_keys(bool use)
{
        long_keys = use;
}

/* In both sets: key 1 < key 2 < key 0. */
struct sb_bytes scene_key(uint32_t key)
{
        static const struct sb_bytes short_ones[SCENE_KEYS] = {{"b", 1}, {"a", 1}, {"ab", 2},
                {"\0\xff", 2}, {"c/long/key/of/thirty/three/bytes!", 33}, {"d", 1}, {"e", 1},
                {"f", 1}, {"g", 1}, {"h", 1}};
        static const struct sb_bytes long_ones[SCENE_KEYS] = {{"b/twelve/b", 10}, {"a/eight.", 8},
                {"a/sixteen/sixten", 16}, {"\0\xff-------", 9},
                {"c/just/thirty/two/bytes/long/key", 32}, {"d/twelve/dd", 11}, {"e/twelve/eee", 12},
                {"f/twelve/ffff", 13}, {"g/twelve/g", 10}, {"h/twelve/h", 10}};

        return long_keys ? long_ones[key] : short_ones[key];
}

/* All values are parts of one sequence, 7 i modulo 256, and the first byte is the tag: so a value
 * costs the stepped operation nothing. */
const unsigned char *scene_value(uint32_t tag)
{
        static unsigned char sequence[VALUE_MAX + 256];

        if (!sequence[1])
                for (uint32_t i = 0; i < sizeof(sequence); i++)
                        sequence[i] = (unsigned char)(i * 7);
        return sequence + (tag * INVERSE_OF_7 & 255);
}

struct fact scene_fact_of(struct scene *scene, struct sb_version *version, uint32_t key)
{
        struct sb_bytes name = scene_key(key);
        struct fact fact = {.state = FACT_BROKEN};
        const unsigned char *value;
        uint64_t len, room;

        if (!version || (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                return (struct fact){0};
        len = SB_SHAPE_VALUE_LEN(version->shape);
        room = scene->image_size - (size_t)(version->bytes - scene->image);
        if (SB_SHAPE_KEY_LEN(version->shape) != name.len || name.len + len > room ||
                memcmp(version->bytes, name.data, name.len) != 0)
                return fact;
        value = version->bytes + name.len;
        if (len > VALUE_MAX || (len && memcmp(value, scene_value(value[0]), len) != 0))
                return fact;
        return (struct fact){.state = FACT_VALUE,
                .tag = len ? value[0] : 0,
                .len = (uint32_t)len,
                .rev = version->rev};
}

static void begin(struct scene *scene, uint32_t actor, const struct sb_segment *segment,
        uint32_t slot, uint32_t generation)
{
        sb_assert(sb_handle_space(&segment->geometry) <= sizeof(scene->space[actor]));
        scene->guard[actor] = (struct sb_guard){0};
        scene->txn[actor] = NULL;
        memset(scene->watch[actor], 0, sizeof(scene->watch[actor]));
        memset(scene->prefix[actor], 0, sizeof(scene->prefix[actor]));
        memset(&scene->log[actor], 0, sizeof(scene->log[actor]));
        scene->asleep[actor] = false;
        scene->bus[actor] = (struct sb_bus){0};
        sb_bus_init(&scene->bus[actor], &living, segment, slot, generation, scene->space[actor]);
}

static int attach(struct scene *scene, uint32_t actor, uint32_t first)
{
        struct sb_roster_identity identity = {
                .pid = 100 + actor, .pid_start = 7, .access = SB_PEER, .attached_ns = 1};
        struct sb_segment segment;
        uint32_t slot, generation;
        int r;

        r = sb_segment_open(scene->image, scene->image_size, &scene_os, &segment);
        if (r)
                return r;
        r = sb_roster_claim(&segment, first, &identity, &slot, &generation);
        if (r)
                return r;
        begin(scene, actor, &segment, slot, generation);
        scene->attached[actor] = true;
        if (scene->users && actor != ENGINE) {
                scene_heap_begin(scene, actor);
                scene->running = actor;
                return sb_bus_guards_grow(&scene->bus[actor], segment.geometry.guard_inline - 1);
        }
        /* All guards fit into the record, so this takes no block. */
        return sb_guard_grow(scene_handle(scene, actor), segment.geometry.guard_inline - 1);
}

/* A seed with which the first of two buckets is the home of all keys. */
static uint64_t scene_one_home_seed(uint32_t key_count)
{
        for (uint64_t seed = SCENE_SEED;; seed++) {
                uint32_t key = 0;

                while (key < key_count) {
                        struct sb_bytes name = scene_key(key);

                        if (sb_hash_key(name.data, name.len, seed) >> 31 & 1)
                                break;
                        key++;
                }
                if (key == key_count)
                        return seed;
        }
}

int scene_make(
        struct scene *scene, const struct sb_geometry_wish *wish, uint32_t key_count, bool one_home)
{
        static const uint64_t id[2] = {1, 2};
        struct sb_geometry geometry;
        int r;

        memset(scene, 0, sizeof(*scene));
        scene->key_count = key_count;
        r = sb_geometry_fit(wish, &geometry);
        if (r)
                return r;
        if (geometry.size > SCENE_IMAGE_MAX)
                return -1;
        scene->image_size = geometry.size;
        scene->users = calls;
        sb_segment_format(scene->image, &geometry,
                one_home ? scene_one_home_seed(key_count) : SCENE_SEED, id, 1);
        scene_os.context = scene;
        r = sb_segment_open(scene->image, scene->image_size, &scene_os, &scene->segment);
        if (!r)
                r = attach(scene, ENGINE, 0);
        if (!r)
                r = attach(scene, SUBJECT, 1);
        if (!r)
                r = attach(scene, OTHER, 1);
        return r;
}

void scene_set_up(struct scene *scene)
{
        struct fact facts[SCENE_KEYS];

        /* A client that sleeps is left asleep. */
        scene_facts(scene, scene->asleep[OTHER] ? ENGINE : OTHER, facts);
        for (uint32_t key = 0; key < scene->key_count; key++)
                scene->then[key] = facts[key].rev;
        scene_observe(scene, scene->marked_cut, scene->marked);
        scene->is_set_up = true;
}

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

        sb_assert(act->len <= VALUE_MAX);
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
        uint32_t guards[SCENE_KEYS];

        for (uint32_t i = 0; i < act->len; i++) {
                keys[i].data = scene_key(act->key + i).data;
                keys[i].len = scene_key(act->key + i).len;
                guards[i] = GUARD_MANY + i;
        }
        sb_op_get_many(handle, keys, act->len, guards, versions);
        for (uint32_t i = 0; i < act->len; i++) {
                ret->seen[act->key + i] = scene_fact_of(scene, versions[i], act->key + i);
                if (versions[i])
                        sb_guard_set(handle, guards[i], 0);
        }
}

/* Number of the key with these bytes, or SCENE_KEYS. */
static uint32_t key_number(const void *data, size_t len)
{
        for (uint32_t key = 0; key < SCENE_KEYS; key++)
                if (scene_key(key).len == len && memcmp(scene_key(key).data, data, len) == 0)
                        return key;
        return SCENE_KEYS;
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
                number = key_number(bound, len);
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
                uint32_t number = key_number(key, len);
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

static bool alive(struct scene *scene, uint32_t slot, uint32_t generation)
{
        for (uint32_t actor = SUBJECT; actor < SCENE_PEERS; actor++)
                if (scene->attached[actor] && scene_handle(scene, actor)->slot == slot &&
                        scene_handle(scene, actor)->generation == generation)
                        return true;
        return false;
}

/* Does what a new engine does: it reaps its predecessor from the predecessor's own record, takes
 * the record, and reaps all clients that are not alive. */
static void do_adopt(struct scene *scene, struct result *ret)
{
        struct sb_handle *engine = scene_handle(scene, ENGINE);
        struct sb_segment segment;
        uint32_t slot, generation;

        ret->code = sb_segment_open(scene->image, scene->image_size, &scene_os, &segment);
        if (ret->code)
                return;
        if (sb_roster_state(&segment, 0, &generation) != SB_RECORD_FREE) {
                begin(scene, ENGINE, &segment, 0, generation);
                sb_reap_record(engine, 0, generation);
        }
        ret->code = attach(scene, ENGINE, 0);
        for (slot = 1; !ret->code && slot < segment.geometry.record_count; slot++)
                if (sb_roster_state(&segment, slot, &generation) != SB_RECORD_FREE &&
                        !alive(scene, slot, generation))
                        sb_reap_record(engine, slot, generation);
        if (ret->code)
                return;
        sb_evict_finish(engine);
        sb_named_repair(engine);
        sb_keep_repair(engine);
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
                ret->code = attach(scene, act->key, 1);
                break;
        case DETACH:
                sb_handle_fini(handle);
                scene->attached[act->actor] = false;
                break;
        case REAP:
                do_reap(scene, act);
                break;
        case ADOPT:
                do_adopt(scene, ret);
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
        scene->running = before;
}

void scene_facts(struct scene *scene, enum scene_actor actor, struct fact ret[SCENE_KEYS])
{
        struct result result;

        memset(ret, 0, SCENE_KEYS * sizeof(*ret));
        for (uint32_t key = 0; key < scene->key_count; key++) {
                struct act get = {.actor = (uint8_t)actor, .kind = GET, .key = (uint8_t)key};

                scene_do(scene, &get, &result);
                ret[key] = result.seen[key];
        }
}

static void poison_unit(
        struct scene *scene, struct sb_segment *segment, uint32_t unit, uint64_t word)
{
        unsigned char *base = scene->image + sb_unit_offset(segment, unit);
        uint32_t kind = SB_UNIT_KIND(word), count, size;

        if (kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY) {
                memset(base, POISON, segment->geometry.unit_size);
                return;
        }
        count = sb_unit_block_count(segment, word);
        size = segment->class_size[SB_UNIT_CLASS(word)];
        for (uint32_t i = 0; i < count; i++)
                if (!(sb_load_acquire(&sb_unit_bitmap(segment, unit)[i / 64]) >> (i % 64) & 1))
                        memset(base + (size_t)i * size, POISON, size);
}

void scene_poison(struct scene *scene, enum scene_actor stopped)
{
        struct sb_segment *segment = &scene->segment;
        uint64_t owner = (uint64_t)(scene_handle(scene, stopped)->slot + 1) << 32 |
                         scene_handle(scene, stopped)->generation;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_load_acquire(&segment->unit_words[unit]);
                uint32_t kind = SB_UNIT_KIND(word);

                if (kind == SB_UNIT_LARGE || kind == SB_UNIT_PART ||
                        (kind != SB_UNIT_EMPTY && SB_UNIT_OWNER(word) == owner))
                        continue;
                poison_unit(scene, segment, unit, word);
        }
}

uint32_t scene_unstamped(struct scene *scene)
{
        struct sb_segment *segment = &scene->segment;
        uint32_t buckets = segment->geometry.bucket_count, count = 0;

        for (uint32_t i = 0; i < buckets * SB_BUCKET_CELLS; i++) {
                uint64_t word = sb_load_acquire(
                        &segment->buckets[i / SB_BUCKET_CELLS].cell[i % SB_BUCKET_CELLS]);
                struct sb_version *version =
                        word ? sb_version_at(segment, word & SB_OFFSET_MASK) : NULL;

                if (version && SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER)
                        count += !sb_load_acquire(&version->stamp) ||
                                 sb_stamp_is_intent(sb_load_acquire(&version->stamp));
        }
        return count;
}

/* The stamp of an intent is in its descriptor, once that is committed. */
static uint64_t observed_stamp(struct scene *scene, struct sb_version *version)
{
        uint64_t stamp = sb_load_acquire(&version->stamp), status;
        struct sb_descriptor *commit;

        if (!sb_stamp_is_intent(stamp))
                return stamp;
        commit = sb_descriptor_at(&scene->segment, stamp & SB_OFFSET_MASK);
        status = commit ? sb_load_acquire(&commit->status) : 0;
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_STATUS_VALUE(status) : 0;
}

void scene_observe(struct scene *scene, uint64_t cut, struct fact ret[SCENE_KEYS])
{
        struct sb_segment *segment = &scene->segment;
        uint32_t buckets = segment->geometry.bucket_count;

        memset(ret, 0, SCENE_KEYS * sizeof(*ret));
        for (uint32_t i = 0; i < buckets * SB_BUCKET_CELLS; i++) {
                uint64_t word = sb_load_acquire(
                        &segment->buckets[i / SB_BUCKET_CELLS].cell[i % SB_BUCKET_CELLS]);
                struct sb_version *version =
                        word ? sb_version_at(segment, word & SB_OFFSET_MASK) : NULL;
                uint32_t key =
                        version ? key_number(version->bytes, SB_SHAPE_KEY_LEN(version->shape))
                                : SCENE_KEYS;

                for (uint32_t steps = 0; version && key < SCENE_KEYS && steps < 1000; steps++) {
                        uint64_t stamp = observed_stamp(scene, version);

                        if (stamp && stamp <= cut) {
                                if (SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER)
                                        ret[key] = scene_fact_of(scene, version, key);
                                break;
                        }
                        word = sb_load_acquire(&version->prev) & SB_OFFSET_MASK;
                        version = word ? sb_version_at(segment, word) : NULL;
                }
        }
}

size_t scene_size(const struct scene *scene)
{
        return offsetof(struct scene, image) + scene->image_size +
               (scene->users ? SCENE_PEERS * SCENE_HEAP : 0);
}

bool scene_fact_equal(const struct fact *a, const struct fact *b, bool revisions)
{
        return a->state == b->state && a->tag == b->tag && a->len == b->len &&
               (!revisions || a->rev == b->rev);
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
