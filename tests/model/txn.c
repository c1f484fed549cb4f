/*
 * Transactions in scenarios; see world.h. A transaction reads by key and in order; the commit
 * validates what it read as a client library asks for it: points, one range.
 */
#include <string.h>

#include "ring/op/commit.h"
#include "ring/op/get.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/window.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

#define GUARD_INDEX 0u

static bool writes_any(const struct world_txn *txn)
{
        return txn->writes || txn->deletes;
}

bool world_does(enum world_op_kind kind)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        if (spec()->ops[t][i].kind == kind)
                                return true;
        return false;
}

bool world_has_queue(void)
{
        for (uint32_t t = 0; t < MODEL_THREADS; t++)
                for (uint32_t i = 0; i < WORLD_OPS; i++)
                        if (spec()->ops[t][i].kind == OP_WATCH && spec()->ops[t][i].way == WAY_BACK)
                                return true;
        return spec()->watched & spec()->drops;
}

bool world_evicts(void)
{
        return world_does(OP_EVICT);
}

bool world_drops(void)
{
        return world_does(OP_DROP);
}

static void read_key(struct sb_handle *handle, enum world_key key, uint32_t index, uint64_t cut,
        struct outcome *outcome)
{
        struct sb_version *version = NULL;
        int r = sb_op_get_at(
                handle, world_key(key), world_key_len(key), index, cut, GUARD_INDEX, &version);

        if (r == SB_E_LAPPED) {
                if (!world_evicts())
                        model_fail("an open cut was lapped");
                outcome->r = r;
                return;
        }
        /* A tombstone is no value. */
        MODEL_CHECK(r == 0 || r == SB_E_NOT_FOUND);
        world_see(outcome, key, r ? NULL : version);
        MODEL_CHECK(r || outcome->seen[key]);
        if (!r)
                sb_guard_set(handle, GUARD_INDEX, 0);
}

static void do_reads(struct sb_handle *handle, const struct world_txn *txn, uint32_t index,
        struct outcome *outcome)
{
        uint32_t keys = txn->reads | txn->deletes, key;
        struct outcome again = {0};

        for (key = 0; key < WORLD_KEYS; key++)
                if (keys >> key & 1)
                        read_key(handle, key, index, outcome->read_cut, outcome);
        if (txn->scan)
                world_scan(handle, outcome->read_cut, txn->scan, outcome);
        /* As in sb_scan_next(): what it found counts only while the cut is there. */
        if (world_evicts() && !sb_snapshot_holds(handle, index, outcome->read_cut))
                outcome->r = SB_E_LAPPED;
        if (writes_any(txn) || outcome->r)
                return;
        for (key = 0; key < WORLD_KEYS; key++)
                if (keys >> key & 1)
                        break;
        if (key == WORLD_KEYS)
                return;
        read_key(handle, key, index, outcome->read_cut, &again);
        if (again.r) {
                outcome->r = again.r;
                return;
        }
        if (again.seen[key] != outcome->seen[key] || again.tags[key] != outcome->tags[key])
                model_fail("at cut %lu %s was revision %lu, then %lu",
                        (unsigned long)outcome->read_cut, world_key(key),
                        (unsigned long)outcome->seen[key], (unsigned long)again.seen[key]);
}

struct wish {
        struct sb_commit_wish wish;
        struct sb_commit_write writes[WORLD_KEYS];
        struct sb_commit_range ranges[WORLD_KEYS];
        unsigned char values[WORLD_KEYS][VALUE_UNIT];
        uint32_t value_len;
};

static void add_write(struct wish *wish, enum world_key key, bool deletes, uint32_t tag)
{
        world_fill_value(wish->values[key], wish->value_len, key, tag);
        wish->writes[wish->wish.write_count++] = (struct sb_commit_write){
                .key = world_key(key),
                .key_len = world_key_len(key),
                .kind = deletes ? SB_VERSION_DELETED : SB_VERSION_VALUE,
                .value = wish->values[key],
                .value_len = deletes ? 0 : wish->value_len,
        };
}

/* What the transaction writes needs no range: it has changed only if another writer was first. */
static void add_ranges(struct wish *wish, const struct world_txn *txn, uint32_t written)
{
        uint32_t key;

        if (txn->scan) {
                bool all = txn->scan == WORLD_KEYS;

                wish->ranges[wish->wish.range_count++] = (struct sb_commit_range){.low = "A",
                        .low_len = 1,
                        .high = all ? "" : world_key(txn->scan),
                        .high_len = all ? 0 : 1,
                        .flags = all ? SB_RANGE_NO_END : 0};
        }
        for (key = txn->scan; key < WORLD_KEYS; key++)
                if ((txn->reads & ~written) >> key & 1)
                        wish->ranges[wish->wish.range_count++] =
                                (struct sb_commit_range){.low = world_key(key),
                                        .low_len = world_key_len(key),
                                        .flags = SB_RANGE_POINT};
}

/* The last part of a commit, by itself. */
static void run_prepared(
        struct sb_handle *handle, struct sb_descriptor *commit, struct outcome *outcome)
{
        enum sb_outcome r;
        uint64_t value;

        r = sb_finish_run(handle, commit, &value);
        sb_unpin(handle);
        sb_slab_settle(handle);
        outcome->r = r == SB_OUTCOME_COMMITTED ? 0 : SB_E_CONFLICT;
        outcome->cut = value;
        outcome->cause = value ? (uint32_t)value - 1 : SB_COMMIT_CAUSE_NONE;
}

/* Of work, until it gives up. Values of a unit each need a window each. */
static uint32_t commit_slices(const struct world_txn *txn)
{
        return txn->large ? 2 * SLICES_MOVING : SLICES;
}

static void do_commit(struct sb_handle *handle, const struct world_txn *txn, uint32_t index,
        struct sb_descriptor *commit, uint32_t tag, struct outcome *outcome)
{
        struct sb_commit_result result = {.cause = SB_COMMIT_CAUSE_NONE};
        struct wish wish = {.wish = {.writes = wish.writes,
                                    .ranges = wish.ranges,
                                    .serializable = txn->serializable,
                                    .snapshot = index,
                                    .cut = outcome->read_cut},
                .value_len = txn->large ? VALUE_UNIT : VALUE_LEN};
        uint32_t key, slices, deletes = 0;

        for (key = 0; key < WORLD_KEYS; key++)
                if ((txn->deletes >> key & 1) && outcome->seen[key])
                        deletes |= 1u << key;
        for (key = 0; key < WORLD_KEYS; key++)
                if ((txn->writes | deletes) >> key & 1)
                        add_write(&wish, key, deletes >> key & 1, tag);
        if (txn->serializable)
                add_ranges(&wish, txn, txn->writes | deletes);
        if (!wish.wish.write_count)
                return;
        outcome->wrote = txn->writes;
        outcome->deleted = (uint8_t)deletes;
        if (txn->prepared) {
                run_prepared(handle, commit, outcome);
                return;
        }
        outcome->r = sb_commit_run(handle, &wish.wish, &result);
        /* As sb_txn_commit() does with time for so much. */
        sb_window_begin(handle);
        for (slices = 0; outcome->r == SB_E_FULL && slices < commit_slices(txn); slices++) {
                sb_work_slice(handle);
                outcome->r = sb_commit_run(handle, &wish.wish, &result);
        }
        sb_window_end(handle);
        outcome->cut = result.cut;
        outcome->cause = result.cause;
        MODEL_CHECK(outcome->r || outcome->cut >= outcome->read_cut);
}

void world_txn_run(uint32_t me, struct sb_handle *handle, const struct world_op *op, uint32_t tag,
        struct outcome *outcome)
{
        const struct world_txn *txn = &op->txn;
        uint32_t index = world.early_index[me];

        outcome->read_cut = world.early_cut[me];
        if (!txn->early) {
                outcome->r = sb_snapshot_open(handle, &index, &outcome->read_cut);
                MODEL_CHECK(!outcome->r);
        }
        outcome->begun = true;
        if (!txn->prepared)
                do_reads(handle, txn, index, outcome);
        if (writes_any(txn) && !outcome->r)
                do_commit(handle, txn, index, world.prepared[me], tag, outcome);
        sb_snapshot_close(handle, index);
}

/* ---- intents at the start ---- */

static uint64_t take(struct sb_handle *handle, uint64_t size)
{
        uint64_t offset;

        if (sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, &offset))
                model_fail("no block at the start");
        return offset;
}

static struct sb_spot find_spot(struct sb_handle *handle, enum world_key key)
{
        uint64_t hash = sb_find_hash_any(handle, world_key(key), world_key_len(key));
        struct sb_spot spot;

        if (!sb_key_find(handle, world_key(key), world_key_len(key), hash, &spot))
                model_fail("%s is not there at the start", world_key(key));
        return spot;
}

void world_txn_start_placeholder(struct sb_handle *handle, enum world_key key)
{
        uint32_t len = world_key_len(key);
        uint64_t hash = sb_find_hash_any(handle, world_key(key), len);
        struct sb_key_supplies supplies = {0};

        if (sb_key_take_supplies(handle, len, 0, &supplies))
                model_fail("no block at the start");
        sb_pin(handle);
        if (sb_key_make(handle, world_key(key), len, hash, &supplies))
                model_fail("a placeholder at the start");
        /* No other client can have made the key already. */
        sb_unpin(handle);
        if (supplies.node || supplies.placeholder)
                model_fail("a key at the start is there already");
}

/* Makes an intent for @key, which @commit lists, over what is there. */
static void add_intent(struct sb_handle *handle, struct sb_descriptor *commit, enum world_key key,
        uint64_t rev_more, uint32_t tag)
{
        uint64_t offset = commit->write[commit->write_count++];
        struct sb_version *version = sb_version_at(&handle->segment, offset);
        struct sb_spot spot = find_spot(handle, key);
        uint32_t len = world_key_len(key);

        sb_store_relaxed(&version->block.birth, handle->pin.hi);
        version->rev = spot.head->rev + 1 + rev_more;
        sb_store_relaxed(&version->stamp, SB_STAMP_INTENT | sb_offset_of(&handle->segment, commit));
        sb_store_relaxed(&version->prev, spot.word & SB_OFFSET_MASK);
        version->node = spot.head->node;
        version->shape =
                SB_SHAPE(VALUE_LEN, len, SB_VERSION_VALUE | SB_VERSION_HAS_TXN, handle->slot);
        memcpy(version->bytes, world_key(key), len);
        world_fill_value(version->bytes + len, VALUE_LEN, key, tag);
        memcpy(version->bytes + len + VALUE_LEN, &commit->number, sizeof commit->number);
        sb_store_release(&version->block.retire, SB_RETIRE_HELD);
}

static uint32_t pack_range(const struct sb_commit_range *range, unsigned char *at)
{
        const uint16_t head[3] = {
                (uint16_t)range->low_len, (uint16_t)range->high_len, (uint16_t)range->flags};

        memcpy(at, head, sizeof head);
        memcpy(at + sizeof head, range->low, range->low_len);
        memcpy(at + sizeof head + range->low_len, range->high, range->high_len);
        return (uint32_t)sizeof head + range->low_len + range->high_len;
}

#define RANGES_LEN_MAX 64u

/* Makes a descriptor for @count keys and what @txn reads, with all blocks, noted; under a pin. */
static struct sb_descriptor *begin_commit(
        struct sb_handle *handle, uint64_t cut, uint32_t count, const struct world_txn *txn)
{
        struct wish wish = {.wish = {0}};
        unsigned char ranges[RANGES_LEN_MAX];
        uint64_t size = sizeof(struct sb_descriptor) + count * sizeof(uint64_t);
        struct sb_descriptor *commit;
        uint32_t i, ranges_len = 0;

        if (txn->serializable)
                add_ranges(&wish, txn, txn->writes);
        for (i = 0; i < wish.wish.range_count; i++)
                ranges_len += pack_range(&wish.ranges[i], ranges + ranges_len);
        commit = sb_block_at(&handle->segment, take(handle, size + ranges_len));
        for (i = 0; i < count; i++)
                commit->write[i] = take(handle, sizeof(struct sb_version) + world_key_len(KEY_A) +
                                                        VALUE_LEN + SB_TRAILER_TXN);
        memcpy(&commit->write[count], ranges, ranges_len);
        sb_pin(handle);
        sb_store_relaxed(&commit->block.birth, handle->pin.hi);
        sb_store_relaxed(&handle->record->commits, 1);
        commit->number = (uint64_t)(handle->slot + 1) << 48 | 1;
        sb_store_relaxed(&commit->status, txn->serializable ? SB_STATUS_SERIALIZABLE : 0);
        sb_store_relaxed(&commit->zero, 0);
        commit->node = 0;
        commit->shape = SB_SHAPE(size + ranges_len - sizeof(struct sb_version), 0,
                SB_VERSION_DESCRIPTOR, handle->slot);
        commit->cut = cut;
        commit->write_count = 0;
        commit->range_count = wish.wish.range_count;
        commit->ranges_len = ranges_len;
        sb_exchange_full(&handle->record->operation,
                sb_offset_of(&handle->segment, commit) | SB_OPERATION_DESCRIPTOR);
        return commit;
}

/* A transaction that installs a key, and finds another key changed. */
void world_txn_start_aborted(struct sb_handle *handle, enum world_key in, enum world_key changed)
{
        static const struct world_txn nothing;
        struct sb_descriptor *commit;
        uint64_t value;

        if (spec()->start == START_ABORTED_PLACEHOLDER)
                world_txn_start_placeholder(handle, in);
        commit = begin_commit(handle, sb_clock_take_cut(handle), 2, &nothing);
        add_intent(handle, commit, in, 0, TAG_SETUP - 1);
        add_intent(handle, commit, changed, 1, TAG_SETUP - 1);
        if (sb_finish_run(handle, commit, &value) != SB_OUTCOME_ABORTED || value != 2)
                model_fail("a transaction of the start is not aborted");
        sb_unpin(handle);
        sb_slab_settle(handle);
}

static void prepare(uint32_t thread, uint32_t op)
{
        const struct world_txn *txn = &spec()->ops[thread][op].txn;
        struct outcome *outcome = &world.outcomes[thread][op];
        struct sb_descriptor *commit;
        uint32_t key;

        outcome->read_cut = world.early_cut[thread];
        do_reads(handle_of(thread), txn, world.early_index[thread], outcome);
        commit = begin_commit(handle_of(thread), outcome->read_cut,
                (uint32_t)__builtin_popcount(txn->writes), txn);

        for (key = 0; key < WORLD_KEYS; key++)
                if (txn->writes >> key & 1)
                        add_intent(handle_of(thread), commit, key, 0, world_tag(thread, op));
        world.prepared[thread] = commit;
}

/* A transaction with intents in place installed them before another client was in its way. */
static void install_prepared(uint32_t thread, uint32_t op)
{
        const struct world_txn *txn = &spec()->ops[thread][op].txn;
        struct sb_descriptor *commit = world.prepared[thread];
        uint32_t key, i = 0;

        for (key = 0; key < WORLD_KEYS; key++) {
                struct sb_spot spot;

                if (!(txn->writes >> key & 1))
                        continue;
                spot = find_spot(handle_of(thread), key);
                if (txn->in >> key & 1)
                        sb_store_relaxed(
                                spot.cell, (spot.word & ~SB_OFFSET_MASK) | commit->write[i]);
                i++;
        }
}

void world_txn_start_early(void)
{
        uint32_t t, i;

        if (spec()->start == START_ABORTED || spec()->start == START_ABORTED_OVER ||
                spec()->start == START_ABORTED_PLACEHOLDER ||
                spec()->start == START_ABORTED_DELETED)
                world.serial = true;
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct world_op *op = &spec()->ops[t][i];

                        if (op->kind != OP_TXN && op->kind != OP_LOOK && op->kind != OP_CLEAR &&
                                op->kind != OP_RESTORE &&
                                (op->kind != OP_MANY || op->way != WAY_MANY))
                                continue;
                        world.serial = true;
                        if (op->txn.early && spec()->users)
                                world.early_txn[t] = user_begin(bus_of(t), &op->txn);
                        else if (op->txn.early &&
                                 sb_snapshot_open(
                                         handle_of(t), &world.early_index[t], &world.early_cut[t]))
                                model_fail("a transaction at the start");
                        if (op->txn.prepared)
                                prepare(t, i);
                }
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        if (spec()->ops[t][i].txn.in)
                                install_prepared(t, i);
                }
}
