/*
 * A tiny bus with several clients in one process: how it is made, how its clients come and go,
 * which keys and values there are, and what its memory shows from outside; see scene.h. What the
 * clients do is in scene-acts.c and its neighbours.
 */
#include "tests/harness/step/scene.h"

#include <string.h>

#include "ring/op/keep.h"
#include "shm/base/assert.h"
#include "shm/base/hash.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/evict.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"

#define SCENE_SEED   UINT64_C(0x5eed5eed5eed)
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

uint32_t scene_key_number(const void *data, size_t len)
{
        for (uint32_t key = 0; key < SCENE_KEYS; key++)
                if (scene_key(key).len == len && memcmp(scene_key(key).data, data, len) == 0)
                        return key;
        return SCENE_KEYS;
}

/* All values are parts of one sequence, 7 i modulo 256, and the first byte is the tag: so a value
 * costs the stepped operation nothing. */
const unsigned char *scene_value(uint32_t tag)
{
        static unsigned char sequence[SCENE_VALUE_MAX + 256];

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
        if (len > SCENE_VALUE_MAX || (len && memcmp(value, scene_value(value[0]), len) != 0))
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

int scene_attach(struct scene *scene, uint32_t actor, uint32_t first)
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
                r = scene_attach(scene, ENGINE, 0);
        if (!r)
                r = scene_attach(scene, SUBJECT, 1);
        if (!r)
                r = scene_attach(scene, OTHER, 1);
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

static bool alive(struct scene *scene, uint32_t slot, uint32_t generation)
{
        for (uint32_t actor = SUBJECT; actor < SCENE_PEERS; actor++)
                if (scene->attached[actor] && scene_handle(scene, actor)->slot == slot &&
                        scene_handle(scene, actor)->generation == generation)
                        return true;
        return false;
}

int scene_adopt(struct scene *scene)
{
        struct sb_handle *engine = scene_handle(scene, ENGINE);
        struct sb_segment segment;
        uint32_t slot, generation;
        int r;

        r = sb_segment_open(scene->image, scene->image_size, &scene_os, &segment);
        if (r)
                return r;
        if (sb_roster_state(&segment, 0, &generation) != SB_RECORD_FREE) {
                begin(scene, ENGINE, &segment, 0, generation);
                sb_reap_record(engine, 0, generation);
        }
        r = scene_attach(scene, ENGINE, 0);
        for (slot = 1; !r && slot < segment.geometry.record_count; slot++)
                if (sb_roster_state(&segment, slot, &generation) != SB_RECORD_FREE &&
                        !alive(scene, slot, generation))
                        sb_reap_record(engine, slot, generation);
        if (r)
                return r;
        sb_evict_finish(engine);
        sb_named_repair(engine);
        sb_keep_repair(engine);
        return 0;
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
                        version ? scene_key_number(version->bytes, SB_SHAPE_KEY_LEN(version->shape))
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
