/*
 * The keys of the scenarios: what their values are, how threads write and read them one by one, all
 * together, in order or in a cut, and what each reading checks at once; see world.h.
 */
#include <string.h>

#include "ring/op/get.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/window.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

const char *world_key(enum world_key key)
{
        static const char *const names[3][WORLD_KEYS] = {{"A-long-key", "B-long-key", "C"},
                {"A", "B", "C"}, {"A-long-key", "B-long-key", "S"}};

        return names[spec()->short_keys ? 1 : spec()->forked ? 2 : 0][key];
}

/* Byte @at of a large value, where it lies in what could be a block's retire word. Return: whether
 * it does. */
static bool mimic_byte(enum world_key key, uint64_t at, unsigned char *ret)
{
        uint64_t within = (sizeof(struct sb_version) + world_key_len(key) + at) % 16;

        if (!world.mimic_word || at < VALUE_LEN || within < 4 || within >= 8)
                return false;
        *ret = (unsigned char)(world.mimic_word >> (8 * (within - 4)));
        return true;
}

/* Byte @at of a value. */
static unsigned char value_byte(uint32_t tag, enum world_key key, uint64_t at)
{
        unsigned char mimic;

        if (mimic_byte(key, at, &mimic))
                return mimic;
        return (unsigned char)(at % 2 ? 'a' + key : '0' + tag);
}

void world_fill_value(unsigned char *value, uint64_t len, enum world_key key, uint32_t tag)
{
        uint64_t at;

        for (at = 0; at < len; at++)
                value[at] = value_byte(tag, key, at);
}

/* A window takes a few: it is found, it is emptied, and it waits for a grace period. */
static uint32_t slices_of_write(void)
{
        return spec()->start == START_APART ? SLICES_MOVING : SLICES;
}

int world_write(struct sb_handle *handle, enum world_key key, uint32_t value_len, uint64_t expected,
        uint32_t tag, struct sb_op_result *ret)
{
        bool deletes = value_len == TOMBSTONE;
        uint32_t slices;
        int r;
        unsigned char value[VALUE_MAX];
        struct sb_op_write write = {
                .key = world_key(key),
                .key_len = world_key_len(key),
                .kind = deletes ? SB_VERSION_DELETED : SB_VERSION_VALUE,
                .expected_rev = expected,
                .value = value,
                .value_len = deletes ? 0 : value_len,
        };

        world_fill_value(value, write.value_len, key, tag);
        r = sb_op_write(handle, &write, ret);
        if (r != SB_E_FULL || spec()->hasty)
                return r;
        /* As sb_set() does with time for so much. */
        sb_window_begin(handle);
        for (slices = 0; r == SB_E_FULL && slices < slices_of_write(); slices++) {
                sb_work_slice(handle);
                r = sb_op_write(handle, &write, ret);
        }
        sb_window_end(handle);
        return r;
}

static uint32_t value_len_of(enum world_op_kind kind)
{
        return kind == OP_DELETE  ? TOMBSTONE
               : kind == OP_PUT   ? VALUE_TINY
               : kind == OP_LARGE ? VALUE_LARGE
                                  : VALUE_LEN;
}

void world_write_run(
        struct sb_handle *handle, const struct world_op *op, uint32_t tag, struct outcome *outcome)
{
        uint64_t expected = op->kind == OP_CAS      ? world.start_seen[op->key]
                            : op->kind == OP_CREATE ? 0
                                                    : SB_OP_ANY_REV;
        struct sb_op_result result = {0};

        outcome->r = world_write(handle, op->key, value_len_of(op->kind), expected, tag, &result);
        outcome->rev = result.rev;
        outcome->cut = result.cut;
        if (!outcome->r && result.rev > model_noted(NOTE_DONE + op->key))
                model_note(NOTE_DONE + op->key, result.rev);
}

void world_check_version(const struct sb_version *version, enum world_key key)
{
        uint64_t shape = version->shape, len = SB_SHAPE_VALUE_LEN(shape), at;
        const unsigned char *value = version->bytes + world_key_len(key);

        /* Its plain bytes: the words in front of them are no business of a reader's. */
        model_touch(
                &version->node, sizeof version->node + sizeof version->shape + world_key_len(key));
        MODEL_CHECK(SB_SHAPE_KEY_LEN(shape) == world_key_len(key) &&
                    !memcmp(version->bytes, world_key(key), world_key_len(key)));
        MODEL_CHECK(version->rev > 0);
        if ((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                MODEL_CHECK(len == VALUE_LEN || len == VALUE_TINY || len == VALUE_UNIT ||
                            len == VALUE_LARGE);
                for (at = 0; at < len; at++)
                        MODEL_CHECK(value[at] == value_byte(value[0] - '0', key, at));
        }
}

void world_see(struct outcome *outcome, enum world_key key, const struct sb_version *version)
{
        uint64_t rev = 0;
        uint32_t tag = 0;

        if (version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                world_check_version(version, key);
                rev = version->rev;
                tag = (uint32_t)version->bytes[world_key_len(key)] - '0';
        }
        /* Note it at once: this thread may be killed at any access. */
        outcome->seen[key] = rev;
        outcome->tags[key] = tag;
        outcome->looked |= (uint8_t)(1u << key);
}

static void do_get(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        bool far = op->kind == OP_GET_FAR || op->kind == OP_HOLD_FAR;
        uint32_t index = far ? handle->segment.geometry.guard_inline : 0;
        struct sb_version *version = NULL;

        /* Once: what was grown may be set again after the bound has fallen. */
        outcome->r = sb_guard_word(&handle->segment, handle->record, index)
                             ? 0
                             : sb_guard_grow(handle, index);
        if (outcome->r)
                model_fail("guard: %d", outcome->r);
        outcome->r = sb_op_get(handle, world_key(op->key), world_key_len(op->key), index, &version);
        if (outcome->r) {
                world_see(outcome, op->key, NULL);
                return;
        }
        world_see(outcome, op->key, version);
        outcome->rev = version->rev;
        outcome->cut = sb_load_acquire(&version->stamp);
        MODEL_CHECK(outcome->cut != 0 && !(outcome->cut & SB_STAMP_INTENT));
        world_check_version(version, op->key);
        if (op->kind == OP_GET || op->kind == OP_GET_FAR) {
                sb_guard_set(handle, index, 0);
        } else {
                world.held[me] = version;
                world.held_key[me] = op->key;
        }
}

static void do_get_all(struct sb_handle *handle, struct outcome *outcome)
{
        struct sb_op_key keys[WORLD_KEYS];
        struct sb_version *versions[WORLD_KEYS];
        uint64_t shapes[WORLD_KEYS];
        uint32_t guards[WORLD_KEYS], key;

        for (key = 0; key < WORLD_KEYS; key++) {
                outcome->done_all[key] = model_noted(NOTE_DONE + key);
                keys[key].data = world_key(key);
                keys[key].len = world_key_len(key);
                guards[key] = key;
                if (sb_guard_grow(handle, key))
                        model_fail("no guard");
        }
        sb_op_get_many(handle, keys, WORLD_KEYS, guards, versions, shapes);
        for (key = 0; key < WORLD_KEYS; key++) {
                world_see(outcome, key, versions[key]);
                if (versions[key]) {
                        uint64_t stamp = sb_load_acquire(&versions[key]->stamp);

                        MODEL_CHECK(stamp != 0 && !(stamp & SB_STAMP_INTENT));
                        MODEL_CHECK(SB_SHAPE_VALUE_LEN(shapes[key]) ==
                                            SB_SHAPE_VALUE_LEN(versions[key]->shape) &&
                                    SB_SHAPE_WRITER(shapes[key]) ==
                                            SB_SHAPE_WRITER(versions[key]->shape));
                }
        }
        for (key = 0; key < WORLD_KEYS; key++)
                sb_guard_set(handle, key, 0);
}

/* Which of the keys a node stands for. */
static enum world_key key_of(const struct sb_node *node)
{
        enum world_key key = KEY_A;

        while (key < WORLD_KEYS && world_key(key)[0] != (char)node->key[0])
                key++;
        MODEL_CHECK(key < WORLD_KEYS && node->key_len == world_key_len(key) &&
                    !memcmp(node->key, world_key(key), node->key_len));
        return key;
}

/* The first @keys keys. */
void world_scan(struct sb_handle *handle, uint64_t cut, uint32_t keys, struct outcome *ret)
{
        struct outcome seen = *ret, *outcome = &seen;
        struct sb_order_cursor cursor;
        struct sb_node *node;
        uint32_t count = 0, key;

        for (key = 0; key < keys; key++)
                world_see(outcome, key, NULL);
        sb_pin(handle);
        for (node = sb_order_first(handle, "A", 1, false, &cursor); node;
                node = sb_order_next(handle, &cursor)) {
                struct sb_version *version;

                key = key_of(node);
                if (key >= keys)
                        break;
                MODEL_CHECK(++count < 100);
                version = sb_find_in_node(handle, node, cut);
                if (version &&
                        (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                        MODEL_CHECK(!outcome->seen[key]);
                        world_see(outcome, key, version);
                }
        }
        sb_unpin(handle);
        *ret = seen;
}

static void read_at(
        struct sb_handle *handle, enum world_key key, uint64_t cut, struct outcome *outcome)
{
        struct sb_version *version = NULL;
        struct sb_node *node;

        sb_pin(handle);
        node = sb_order_seek(handle, world_key(key), world_key_len(key), false);
        if (node && key_of(node) == key)
                version = sb_find_in_node(handle, node, cut);
        world_see(outcome, key, version);
        sb_unpin(handle);
}

static void do_past(struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        outcome->cut = world.engine_cut;
        read_at(handle, op->key, outcome->cut, outcome);
        if (outcome->seen[op->key] != world.past_seen)
                model_fail("an open snapshot reads revision %lu, not %lu",
                        (unsigned long)outcome->seen[op->key], (unsigned long)world.past_seen);
}

static bool is_evicted(struct sb_handle *handle, const struct world_op *op, uint32_t index,
        const struct outcome *outcome)
{
        return op->kind != OP_MARK && !sb_snapshot_holds(handle, index, outcome->cut);
}

/* The mark is this client's and keeps its cut; pruners look as far as any mark that was made. */
static void check_mark(const struct sb_handle *handle, const struct sb_named_value *mark)
{
        uint64_t end = sb_load_acquire(&handle->segment.super->mark_high), cut;

        MODEL_CHECK(end > mark->index && end >= model_noted(NOTE_MARKS));
        model_note(NOTE_MARKS, end);
        MODEL_CHECK(sb_named_stands(&handle->segment, mark) &&
                    sb_named_read(&handle->segment, mark->index, &cut) && cut == mark->cut);
}

static void do_snapshot(
        struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        struct outcome again = {0};
        struct sb_named_value mark;
        uint32_t index, key;

        for (key = 0; key < WORLD_KEYS; key++)
                outcome->done_all[key] = model_noted(NOTE_DONE + key);

        outcome->r = sb_snapshot_open(handle, &index, &outcome->cut);
        if (outcome->r)
                return;
        outcome->read_cut = outcome->cut;
        outcome->begun = true;
        if (op->kind == OP_MARK) {
                outcome->r = sb_named_take(handle, index, outcome->cut, &mark);
                sb_snapshot_close(handle, index);
                /* Its cut was evicted before. */
                if (outcome->r == SB_E_LAPPED)
                        return;
                MODEL_CHECK(!outcome->r);
                check_mark(handle, &mark);
        }
        if (op->kind == OP_SCAN) {
                world_scan(handle, outcome->cut, WORLD_KEYS, outcome);
        } else {
                read_at(handle, op->key, outcome->cut, outcome);
                read_at(handle, op->key, outcome->cut, &again);
                if (!is_evicted(handle, op, index, outcome))
                        MODEL_CHECK(outcome->seen[op->key] == again.seen[op->key]);
        }
        if (is_evicted(handle, op, index, outcome))
                outcome->r = SB_E_LAPPED;
        if (op->kind == OP_MARK)
                sb_named_let_go(handle, &mark);
        else
                sb_snapshot_close(handle, index);
}

bool world_keys_run(uint32_t me, struct sb_handle *handle, const struct world_op *op, uint32_t tag,
        struct outcome *outcome)
{
        switch (op->kind) {
        case OP_SET:
        case OP_PUT:
        case OP_LARGE:
        case OP_CAS:
        case OP_CREATE:
        case OP_DELETE:
                world_write_run(handle, op, tag, outcome);
                return true;
        case OP_GET:
        case OP_HOLD:
        case OP_GET_FAR:
        case OP_HOLD_FAR:
                do_get(me, handle, op, outcome);
                return true;
        case OP_READ:
                if (world.held[me])
                        world_check_version(world.held[me], world.held_key[me]);
                return true;
        case OP_MANY:
                do_get_all(handle, outcome);
                return true;
        case OP_MARK:
        case OP_SCAN:
        case OP_SNAPSHOT:
                do_snapshot(handle, op, outcome);
                return true;
        case OP_PAST:
                do_past(handle, op, outcome);
                return true;
        default:
                return false;
        }
}
