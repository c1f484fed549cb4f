/* The states in which scenarios start; see world.h. */
#include <stdio.h>
#include <string.h>

#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

static struct sb_handle *setup_handle(void)
{
        return spec()->setup_by == MODEL_THREADS ? world_peer(0) : handle_of(spec()->setup_by);
}

static void setup_write_by(struct sb_handle *handle, enum world_key key, uint32_t value_len)
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

static void setup_write(enum world_key key, uint32_t value_len)
{
        setup_write_by(setup_handle(), key, value_len);
}

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

static void setup_segment(void)
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
static void setup_away(void)
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
static void setup_freed(void)
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
static void setup_short(void)
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

static void setup_reserves(void)
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
static void setup_apart(void)
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
static void setup_full(void)
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

/* The second of the blocks that OP_PASS takes, in the first FREE unit. */
static void setup_noted(void)
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
