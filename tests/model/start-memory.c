/*
 * The segment in which scenarios start, and its memory there: which keys meet in one bucket, how
 * much is free, and in which client's units it lies (start.h).
 */
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/work.h"
#include "tests/model/start.h"
#include "tests/model/world-core.h"

/* Whether a key's home is one of the first half of the buckets, and its number says which key. */
static bool is_apart(uint64_t hash, uint32_t key)
{
        uint64_t home = ((hash & UINT32_MAX) * spec()->buckets) >> 32;

        return home < spec()->buckets / 2 && home % WORLD_KEYS == key;
}

/* A seed with which the first of two buckets is the home of all keys. */
static uint64_t choose_seed(void)
{
        uint64_t seed;
        uint32_t key;

        for (seed = 1;; seed++) {
                for (key = 0; key < WORLD_KEYS; key++) {
                        uint64_t hash = sb_hash_key(world_key(key), world_key_len(key), seed);

                        if ((spec()->away && (hash >> 31 & 1)) ||
                                (spec()->buckets && !is_apart(hash, key)))
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
                        if (spec()->ops[t][i].kind == OP_OBSERVE ||
                                spec()->ops[t][i].kind == OP_LOOK)
                                return true;
        return false;
}

/* Few, so that keys meet; where memory is to be full, no fewer than leave cells empty. */
static uint32_t setup_bucket_count(void)
{
        bool full = spec()->start == START_FULL || spec()->start == START_HINTED ||
                    spec()->start == START_SHORT || spec()->start == START_APART;

        return spec()->buckets ? spec()->buckets : spec()->away || full ? 2 : 1;
}

void setup_segment(void)
{
        static const struct sb_word32 alive = {1};
        static const uint64_t id[2] = {1, 2};
        struct sb_geometry_wish wish = {
                .size = 4096,
                .clients = PEERS - 1,
                .record_stride = 64,
                .unit_size = spec()->away ? 512 : 256, /* a branch of all symbols fits */
                .bucket_count = setup_bucket_count(),
                .guard_inline = spec()->guards      ? spec()->guards + 1
                                : world_has_queue() ? 2 + SB_ANCHORS
                                                    : 2,
                .snapshot_count = 2,
                .magazine_count = spec()->magazine ? spec()->magazine : SB_MAGAZINE_NONE,
        };
        struct sb_roster_identity identity = {.pid = 1};
        struct sb_geometry geometry;
        struct sb_segment segment;
        uint32_t units = spec()->unit_count ? spec()->unit_count : spec()->away ? 28 : 16, i;
        unsigned char *base;
        int r;

        for (; (r = sb_geometry_fit(&wish, &geometry)) || geometry.unit_count < units;
                wish.size += 64)
                if (wish.size > MODEL_REGION_MAX)
                        model_fail("no geometry: %d", r);
        base = model_region((uint32_t)wish.size);
        sb_segment_format(base, &geometry, choose_seed(), id, 1);
        r = sb_segment_open(base, wish.size, world_os(), &segment);
        if (r)
                model_fail("open: %d", r);
        if (has_observer())
                sb_store_relaxed(&segment.super->observers, 1);
        model_ghost_area(geometry.units_at, (uint64_t)geometry.unit_count * geometry.unit_size);
        for (i = PEERS - spec()->free_records; i < PEERS; i++)
                world.left[i] = true;
        for (i = 0; i < PEERS - spec()->free_records; i++) {
                uint32_t slot, generation;

                r = sb_roster_claim(&segment, i, &identity, &slot, &generation);
                if (r || slot != i)
                        model_fail("claim: %d", r);
                sb_bus_init(&world.peers[i], &alive, &segment, slot, generation,
                        world_space(&segment, i));
                if (spec()->users && i)
                        r = sb_bus_guards_grow(
                                &world.peers[i], spec()->guards ? spec()->guards : 1);
                else
                        r = sb_guard_grow(world_peer(i), 0);
                if (r)
                        model_fail("guard: %d", r);
        }
}

/* Fill the keys' home with others. */
void setup_away(void)
{
        struct sb_segment *segment = &setup_handle()->segment;
        char key[] = "a0";
        struct sb_op_result result;
        struct sb_op_write write = {.key = key,
                .key_len = 2,
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV,
                .value = "0",
                .value_len = 1};
        uint32_t count;

        for (count = 0; count < SB_BUCKET_CELLS; key[1]++) {
                if (sb_index_home(segment, sb_hash_key(key, 2, segment->seed)))
                        continue;
                if (sb_op_write(setup_handle(), &write, &result))
                        model_fail("a key that fills the home");
                count++;
        }
        for (count = 0; count < 3; count++) {
                sb_stable_raise(setup_handle());
                sb_work_all(setup_handle(), true);
        }
}

/* Blocks of all kinds were in use and are free. */
void setup_freed(void)
{
        struct sb_handle *handle = setup_handle();
        uint32_t i;

        setup_write(KEY_C, VALUE_LEN);
        setup_write(KEY_C, TOMBSTONE);
        setup_write(KEY_A, VALUE_LEN);
        for (i = 0; i < 4; i++)
                sb_work_all(handle, true);
        setup_write(KEY_A, VALUE_LEN);
        for (i = 0; i < 3; i++)
                sb_work_all(handle, true);
}

/* Hints at all units, as kills may leave them: at those of the lists that slabs are in. */
static void setup_hint(void)
{
        const struct sb_segment *segment = &setup_handle()->segment;
        uint32_t unit;

        for (unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(segment, unit);

                if (SB_UNIT_KIND(word) == SB_UNIT_VERSIONS || SB_UNIT_KIND(word) == SB_UNIT_NODES)
                        sb_vacancy_set(segment,
                                sb_vacancy_list(segment, SB_UNIT_KIND(word), SB_UNIT_CLASS(word)),
                                unit);
                sb_vacancy_set(segment, SB_VACANCY_FREE, unit);
        }
}

/* Makes keys that no thread uses until a write finds no memory. */
static void setup_fill(struct sb_op_write *write, char *key)
{
        struct sb_op_result result;
        uint32_t idle;

        for (idle = 0; idle < 8; idle++) {
                for (; !sb_op_write(setup_handle(), write, &result); idle = 0)
                        key[0]++;
                sb_work_slice(setup_handle());
        }
}

/* Makes a key that no thread uses, of which the node takes the other block in the unit of a node at
 * @at: a longer one of the same class of blocks. */
static void setup_neighbour(struct sb_handle *handle, uint64_t at)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t class_ = sb_unit_kind_of(segment, at) & 63;
        struct sb_op_result result;
        char key[] = "a key that is longer than those of threads ?";
        struct sb_op_write write = {.key = key,
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV,
                .value = "0",
                .value_len = 1};
        uint32_t len;

        for (len = sizeof key - 1; len; len--)
                if (sb_unit_class(segment, sb_node_size(len)) == class_)
                        break;
        write.key_len = len;
        if (!len || sb_op_write(handle, &write, &result))
                model_fail("no key for the other block");
}

/* What is kept free is taken meanwhile. Large values first: so memory ends before empty cells do.
 */
void setup_short(void)
{
        unsigned char value[VALUE_LARGE] = {0};
        struct sb_handle *maker = handle_of(0);
        uint32_t key_len = world_key_len(KEY_B), i;
        uint64_t kept[3];
        char key[] = "a key of none";
        struct sb_op_write write = {.key = key,
                .key_len = world_key_len(KEY_A),
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV,
                .value = value,
                .value_len = VALUE_LARGE};

        if (sb_slab_take(maker, SB_UNIT_NODES, sb_node_size(key_len), 0, &kept[0]) ||
                sb_slab_take(maker, SB_UNIT_VERSIONS, sizeof(struct sb_version) + key_len, 0,
                        &kept[1]) ||
                sb_slab_take(maker, SB_UNIT_VERSIONS,
                        sizeof(struct sb_version) + key_len + VALUE_LEN, 0, &kept[2]))
                model_fail("no block to keep free");
        setup_neighbour(maker, kept[0]);
        setup_fill(&write, key);
        write.value_len = VALUE_LEN;
        setup_fill(&write, key);
        for (i = 0; i < 3; i++)
                sb_slab_give_back(maker, kept[i]);
        sb_slab_settle(maker);
}

/* A client that will write starts with a block in its slab cache: without one a first write cannot
 * go the short way. */
static void setup_reserve(struct sb_handle *handle)
{
        uint64_t size = sizeof(struct sb_version) + world_key_len(KEY_A) + VALUE_LEN, offset;
        struct sb_slab_cache *reserve =
                &handle->slabs.versions[sb_unit_class(&handle->segment, size)];

        if (!reserve->count && !sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, &offset))
                reserve->offset[reserve->count++] = offset;
        sb_slab_settle(handle);
}

void setup_reserves(void)
{
        uint32_t t, i;

        for (t = 0;
                t < MODEL_THREADS && spec()->start != START_FULL && spec()->start != START_HINTED &&
                spec()->start != START_SHORT && !spec()->short_keys;
                t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (spec()->ops[t][i].kind == OP_SET || spec()->ops[t][i].kind == OP_CAS ||
                                spec()->ops[t][i].kind == OP_MOVE)
                                setup_reserve(handle_of(t));
}

/* The thread that sets a large value, or several in one transaction. */
static struct sb_handle *setup_mover(void)
{
        uint32_t thread = 0;

        while (spec()->ops[thread][0].kind != OP_LARGE && !spec()->ops[thread][0].txn.large)
                if (++thread == MODEL_THREADS)
                        model_fail("no thread sets a large value");
        return handle_of(thread);
}

/* Single units are left, of placeholders: the last keys that setup_fill() made take one each. */
static void setup_fill_units(struct sb_op_write *write, char *key)
{
        struct sb_op_result result;
        uint32_t round;

        write->value_len = VALUE_UNIT;
        for (round = 0; round < 4; round++) {
                for (key[0]--; !sb_op_write(setup_handle(), write, &result); key[0]--)
                        ;
                key[0]++;
                sb_work_all(setup_handle(), true);
                sb_slab_release_all(setup_handle());
        }
}

/* Two keys that no thread uses, of the sizes of A and of a transaction that writes two keys: so
 * their slabs are no EMPTY units when blocks beside them are free. */
static void setup_beside(struct sb_handle *handle, struct sb_op_write *write, char *key)
{
        uint64_t len = write->value_len;
        struct sb_op_result result;

        for (key[0] = '1'; key[0] <= '2'; key[0]++) {
                write->value_len = VALUE_LEN;
                if (key[0] == '2')
                        write->value_len = sizeof(struct sb_descriptor) + 2 * sizeof(uint64_t) -
                                           sizeof(struct sb_version) - write->key_len;
                if (sb_op_write(handle, write, &result))
                        model_fail("no key beside what is kept free");
        }
        key[0] = 'a';
        write->value_len = len;
}

/* A and B lie in the first two units, for the clients that make them take blocks there first. */
void setup_apart(void)
{
        struct sb_handle *makers[] = {world_peer(DEAD_PEER), world_peer(DEAD_PEER - 1)};
        unsigned char value[VALUE_LARGE] = {0};
        struct sb_handle *mover = setup_mover();
        uint64_t kept[3], size = sizeof(struct sb_version) + world_key_len(KEY_A) + VALUE_LEN;
        char key[] = "a key of none";
        struct sb_op_write write = {.key = key,
                .key_len = world_key_len(KEY_A),
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV,
                .value = value,
                .value_len = VALUE_LARGE};
        uint32_t count = world_does(OP_TXN) ? 3 : 2, i;

        setup_reserve(makers[0]);
        setup_reserve(makers[1]);
        setup_reserve(setup_handle()); /* its unit gets full, and parts theirs from the mover's */
        if (count > 2)
                setup_beside(mover, &write, key);
        for (i = 0; i < count; i++)
                if (sb_slab_take(mover, SB_UNIT_VERSIONS,
                            i < 2 ? size : sizeof(struct sb_descriptor) + 2 * sizeof(uint64_t), 0,
                            &kept[i]))
                        model_fail("no block to keep free");
        setup_reserves();
        setup_write_by(makers[0], KEY_A, VALUE_LEN);
        setup_write_by(makers[1], KEY_B, VALUE_LEN);
        for (i = 0; i < 4; i++)
                sb_work_all(makers[i % 2], true);
        setup_fill(&write, key);
        write.value_len = VALUE_LEN;
        setup_fill(&write, key);
        for (i = 0; i < 2; i++) /* eras go on after that */
                sb_work_all(setup_handle(), true);
        sb_slab_release_all(setup_handle());
        for (i = 0; i < count; i++)
                sb_slab_give_back(mover, kept[i]);
        for (i = 0; i < 2; i++)
                sb_slab_release_all(makers[i]);
        sb_slab_settle(mover);
        if (count > 2) {
                sb_work_all(mover, true);
                sb_slab_release_all(mover);
                setup_fill_units(&write, key);
        }
}

/* Takes blocks for keys that no thread uses until none is left, and gives back those of the last
 * key. */
void setup_full(void)
{
        struct sb_op_result result;
        uint32_t idle;
        char key[] = "a key of none";
        struct sb_op_write write = {.key = key,
                .key_len = world_key_len(KEY_A),
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV,
                .value = "0?0?0?0?",
                .value_len = VALUE_LEN};

        setup_fill(&write, key);
        if (spec()->start == START_HINTED) {
                setup_hint();
                return;
        }
        key[0]--;
        write.kind = SB_VERSION_DELETED;
        write.value_len = 0;
        if (sb_op_write(setup_handle(), &write, &result))
                model_fail("nothing was there to delete");
        for (idle = 0; idle < 4; idle++)
                sb_work_all(setup_handle(), true);
}

/* The second of the blocks that OP_PASS takes, in the first FREE unit. */
void setup_noted(void)
{
        struct sb_segment *segment = &world_peer(0)->segment;
        struct sb_record *record = world_peer(DEAD_PEER)->record;
        uint64_t size = segment->class_size[sb_unit_class(segment, world_passing_size(segment))];
        uint32_t unit = 0;

        while (SB_UNIT_KIND(sb_unit_word(segment, unit)) != SB_UNIT_FREE)
                if (++unit == segment->geometry.unit_count)
                        model_fail("no unit is free at the start");
        sb_store_release(&record->freeing, sb_unit_offset(segment, unit) + size);
}
