/*
 * Transactions: reads at one cut, and writes that appear together or not at all.
 *
 *      begin: announce a cut
 *      -> read: the write set first, then at the cut; write: into the write set
 *      -> commit: hand all to ring/op/commit.h, which decides
 *      -> end
 *
 * Before its commit a transaction has nothing in the segment but the announcement of its cut, which
 * keeps what the cut needs. So ending a transaction, or dying with one open, undoes nothing.
 *
 * Always true: while a transaction is SB_BUS_TXN_OPEN, its announcement word is in use; from its
 * decision on it is not. A serializable transaction has noted what it read before its caller sees
 * it.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/txn.h"

#include <stdlib.h>
#include <string.h>

#include "libclient/core/read.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "ring/op/commit.h"
#include "ring/op/get.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

/* A commit spends one part in so many of the largest value's length on the read set. */
#define RANGES_PART 4u
/* Keys to look at under one pin. */
#define STEPS_MAX 256u

/* ---- begin and end ---- */

/* Take the spare transaction, or make one. Return: NULL: there is no memory. */
static struct sb_txn *txn_new(struct sb_bus *bus)
{
        const struct sb_segment *segment = &bus->handle.segment;
        struct sb_txn *txn = bus->txn_spare;

        if (txn) {
                bus->txn_spare = NULL;
                return txn;
        }
        txn = calloc(1, sizeof(*txn));
        if (!txn)
                return NULL;
        txn->value_len_max = segment->value_len_max - SB_TRAILER_TXN;
        txn->read_set.key_len_max = segment->key_len_max;
        txn->read_set.len_max = segment->value_len_max / RANGES_PART;
        return txn;
}

static void txn_free(struct sb_txn *txn)
{
        sb_write_set_fini(&txn->write_set);
        sb_read_set_fini(&txn->read_set);
        free(txn->writes);
        free(txn);
}

int sb_txn_begin(struct sb_bus *bus, uint32_t isolation, struct sb_txn **ret_txn)
{
        struct sb_txn *txn;
        int r;

        SB_USE(bus, sb_txn_begin(bus, isolation, ret_txn));
        if (!bus || !ret_txn || isolation > SB_SERIALIZABLE)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        txn = txn_new(bus);
        if (!txn)
                return -ENOMEM;
        r = sb_snapshot_open(&bus->handle, &txn->snapshot, &txn->cut);
        if (r != 0) {
                if (!bus->txn_spare)
                        bus->txn_spare = txn;
                else
                        txn_free(txn);
                return r;
        }
        txn->bus = bus;
        txn->state = SB_BUS_TXN_OPEN;
        txn->serializable = isolation == SB_SERIALIZABLE;
        txn->readers = NULL;
        txn->conflicted = false;
        txn->next = bus->txns;
        txn->link = &bus->txns;
        if (txn->next)
                txn->next->link = &txn->next;
        bus->txns = txn;
        *ret_txn = txn;
        return 0;
}

/* Let go of the cut, which is not needed any more. */
static void txn_let_go(struct sb_txn *txn, enum sb_bus_txn_state state)
{
        /* In a forked child the announcement is the parent's. */
        if (txn->state == SB_BUS_TXN_OPEN && txn->bus && sb_load_relaxed(txn->bus->alive) != 0)
                sb_snapshot_close(&txn->bus->handle, txn->snapshot);
        txn->state = state;
}

struct sb_txn *sb_txn_end(struct sb_txn *txn)
{
        struct sb_bus *bus;

        SB_USE_END(txn ? txn->bus : NULL, sb_txn_end(txn));
        /* A transaction that is ended twice may be the spare one, which still knows. */
        if (!txn || txn->state == SB_BUS_TXN_ENDED)
                return NULL;
        bus = txn->bus;
        txn_let_go(txn, SB_BUS_TXN_ENDED);
        if (!bus) {
                txn_free(txn);
                return NULL;
        }
        while (txn->readers)
                sb_bus_reader_leave(txn->readers);
        *txn->link = txn->next;
        if (txn->next)
                txn->next->link = txn->link;
        sb_write_set_clear(&txn->write_set);
        sb_read_set_clear(&txn->read_set);
        if (!bus->txn_spare)
                bus->txn_spare = txn;
        else
                txn_free(txn);
        return NULL;
}

void sb_bus_orphan_txns(struct sb_bus *bus)
{
        for (struct sb_txn *txn = bus->txns; txn; txn = txn->next) {
                sb_write_set_clear(&txn->write_set);
                txn->bus = NULL;
        }
        if (bus->txn_spare)
                txn_free(bus->txn_spare);
}

/* ---- reads ---- */

/* Whether the transaction can be used now, for this key. Return: 0, -EINVAL, -ENAMETOOLONG,
 * SB_E_DETACHED. */
static int txn_check_key(const struct sb_txn *txn, struct sb_bytes key)
{
        if (!key.data || key.len == 0 || txn->state != SB_BUS_TXN_OPEN)
                return -EINVAL;
        if (key.len > txn->read_set.key_len_max)
                return -ENAMETOOLONG;
        return sb_bus_check_txn(txn);
}

/* Whether the transaction can write this key. Return: as txn_check_key(); -EPERM. */
static int txn_check_write(const struct sb_txn *txn, struct sb_bytes key)
{
        int r = txn_check_key(txn, key);

        /* The key is wrong on any bus, also on one that is detached. */
        return (r == 0 || r == SB_E_DETACHED) && sb_write_key(key) != 0 ? -EPERM : r;
}

/* Find the version of a key at the cut, and hold it by the guard word that sb_bus_guard_first()
 * names, which stays on the stack. A serializable transaction notes the key. Return: 0,
 * SB_E_NOT_FOUND, SB_E_LAPPED, SB_E_FULL, -ENOMEM. */
static int txn_read_at_cut(struct sb_txn *txn, struct sb_bytes key, struct sb_version **ret_version)
{
        struct sb_bus *bus = txn->bus;
        int r = sb_bus_guards_prepare(bus, 1);

        if (r == 0 && txn->serializable)
                r = sb_read_set_prepare(&txn->read_set, &txn->write_set);
        if (r != 0)
                return r;
        r = sb_op_get_at(&bus->handle, key.data, (uint32_t)key.len, txn->snapshot, txn->cut,
                sb_bus_guard_first(bus), ret_version);
        r = sb_bus_result(bus, r);
        if (txn->serializable && (r == 0 || r == SB_E_NOT_FOUND))
                sb_read_set_add_key(&txn->read_set, key.data, (uint32_t)key.len);
        return r;
}

int sb_txn_get(struct sb_txn *txn, struct sb_bytes key, struct sb_guard *ret_guard)
{
        const struct sb_write_set_entry *entry = NULL;
        struct sb_version *version;
        struct sb_bus *bus;
        int r;

        SB_USE(txn ? txn->bus : NULL, sb_txn_get(txn, key, ret_guard));
        if (!txn || !ret_guard)
                return -EINVAL;
        r = txn_check_key(txn, key);
        if (r != 0)
                return r;
        bus = txn->bus;
        if (txn->write_set.count > 0)
                entry = sb_write_set_find(&txn->write_set, key.data, key.len);
        if (entry && entry->kind == SB_WRITE_SET_DELETED)
                return SB_E_NOT_FOUND;
        if (entry) {
                r = sb_bus_guards_prepare(bus, 1);
                if (r == 0)
                        sb_bus_guard_fill_private(bus, entry->value, ret_guard);
                return r;
        }
        r = txn_read_at_cut(txn, key, &version);
        if (r == 0)
                sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), version, key.len,
                        sb_version_shape(&bus->handle.segment, version), ret_guard);
        return r;
}

/* Put what the transaction itself wrote in the place of what was there at the cut. */
static void txn_merge_own(struct sb_txn *txn, struct sb_bytes key, struct sb_guard *guard)
{
        const struct sb_write_set_entry *entry =
                sb_write_set_find(&txn->write_set, key.data, key.len);

        if (!entry)
                return;
        /* Where the key had no value at the cut, the word that was meant for it is free. */
        sb_guard_release(guard);
        if (entry->kind != SB_WRITE_SET_DELETED)
                sb_bus_guard_fill_private(txn->bus, entry->value, guard);
}

/* Note that keys were read. Return: 0, -ENOMEM. */
static int txn_note_keys(struct sb_txn *txn, const struct sb_bytes *keys, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int r = sb_read_set_prepare(&txn->read_set, &txn->write_set);

                if (r != 0)
                        return r;
                sb_read_set_add_key(&txn->read_set, keys[i].data, (uint32_t)keys[i].len);
        }
        return 0;
}

int sb_txn_get_many(
        struct sb_txn *txn, const struct sb_bytes *keys, size_t count, struct sb_guard *ret_guards)
{
        int r;

        SB_USE(txn ? txn->bus : NULL, sb_txn_get_many(txn, keys, count, ret_guards));
        r = !txn || txn->state != SB_BUS_TXN_OPEN
                    ? -EINVAL
                    : sb_read_many_check(txn->read_set.key_len_max, keys, count, ret_guards);
        if (r == 0)
                r = sb_bus_check_txn(txn);
        if (r == 0)
                r = sb_read_many_at(txn->bus, keys, count, txn->snapshot, txn->cut, ret_guards);
        if (r != 0)
                return r;
        if (txn->serializable && !SB_FAULT(TXN_MANY_NOT_NOTED))
                r = txn_note_keys(txn, keys, count);
        for (size_t i = 0; i < count; i++) {
                if (r != 0)
                        sb_guard_release(&ret_guards[i]);
                else if (txn->write_set.count > 0)
                        txn_merge_own(txn, keys[i], &ret_guards[i]);
        }
        return r;
}

/* ---- writes ---- */

int sb_txn_set(struct sb_txn *txn, struct sb_bytes key, struct sb_bytes value)
{
        int r;

        SB_USE(txn ? txn->bus : NULL, sb_txn_set(txn, key, value));
        if (!txn || (!value.data && value.len > 0))
                return -EINVAL;
        r = txn_check_write(txn, key);
        if (r == 0 && value.len > txn->value_len_max)
                r = -EMSGSIZE;
        if (r == 0)
                r = sb_write_able(txn->bus, NULL);
        if (r != 0)
                return r;
        return sb_write_set_put(&txn->write_set, SB_WRITE_SET_VALUE, key, value);
}

int sb_txn_delete(struct sb_txn *txn, struct sb_bytes key)
{
        struct sb_write_set_entry *entry;
        struct sb_version *version;
        int r;

        SB_USE(txn ? txn->bus : NULL, sb_txn_delete(txn, key));
        if (!txn)
                return -EINVAL;
        r = txn_check_write(txn, key);
        if (r == 0)
                r = sb_write_able(txn->bus, NULL);
        if (r != 0)
                return r;
        entry = sb_write_set_find(&txn->write_set, key.data, key.len);
        if (entry && entry->kind == SB_WRITE_SET_DELETED)
                return SB_E_NOT_FOUND;
        r = txn_read_at_cut(txn, key, &version);
        if (r == 0) {
                /* Only that there is a version matters: it is not held. */
                sb_guard_set(&txn->bus->handle, sb_bus_guard_first(txn->bus), 0);
                return sb_write_set_put(
                        &txn->write_set, SB_WRITE_SET_DELETED, key, (struct sb_bytes){NULL, 0});
        }
        if (r != SB_E_NOT_FOUND || !entry)
                return r;
        sb_write_set_drop(&txn->write_set, entry);
        return 0;
}

int sb_bus_txn_delete_shown(struct sb_txn *txn, const struct sb_guard *guard)
{
        /* The length is what the version's shape says, and in a damaged segment that may be more
         * than a key has. */
        if (guard->key.len - 1 >= txn->bus->handle.segment.key_len_max &&
                !SB_FAULT(SHOWN_KEY_UNASKED))
                return -EIO; /* not noted as well: the next call would answer that, too */
        /* A version has a revision: the key has a value at the cut, the scan has noted it, and the
         * write set does not have it. */
        if (guard->rev != 0)
                return sb_write_set_put(&txn->write_set, SB_WRITE_SET_DELETED, guard->key,
                        (struct sb_bytes){NULL, 0});
        return sb_txn_delete(txn, guard->key);
}

/* ---- conflicts ---- */

/* Remember the key that a conflict was over. */
static void txn_name_conflict(struct sb_txn *txn, const void *key, uint32_t key_len)
{
        if (key_len > 0)
                memcpy(txn->conflict, key, key_len);
        txn->conflict_len = key_len;
        txn->conflicted = true;
}

/* Look in @range, from the key that is named on (@after: behind it), for the first key with a
 * newest version later than the cut, and name it; when there is none, name the beginning of the
 * range. Call it under a pin. Return: false: there are more keys to look at, and the last one that
 * was looked at is named. */
static bool txn_name_changed(struct sb_txn *txn, const struct sb_commit_range *range, bool after)
{
        struct sb_handle *handle = &txn->bus->handle;
        struct sb_order_cursor cursor;
        struct sb_node *node =
                sb_order_first(handle, txn->conflict, txn->conflict_len, after, &cursor);

        for (uint32_t steps = 0; node; steps++) {
                struct sb_node_key key = sb_node_key(&handle->segment, node);
                struct sb_version *version;

                /* Keys ascend; in a damaged segment the walk could go round for ever. */
                if (key.bytes && (after || steps) &&
                        sb_bytes_compare(key.bytes, key.len, txn->conflict, txn->conflict_len) <=
                                0) {
                        sb_damage_note(handle);
                        break;
                }

                if (!key.bytes || (!(range->flags & SB_RANGE_NO_END) &&
                                          sb_bytes_compare(key.bytes, key.len, range->high,
                                                  range->high_len) >= 0))
                        break;
                version = sb_find_newest(handle, key.bytes, key.len, node->hash);
                if (version && sb_load_acquire(&version->stamp) > txn->cut) {
                        txn_name_conflict(txn, key.bytes, key.len);
                        return true;
                }
                node = sb_order_next(handle, &cursor);
                /* Bound: slice. The caller goes on behind this key under another pin. */
                if (steps == STEPS_MAX) {
                        txn_name_conflict(txn, key.bytes, key.len);
                        return false;
                }
        }
        txn_name_conflict(txn, range->low, range->low_len);
        return true;
}

/* The same, under a pin of its own; fault TXN_CONFLICT_UNPINNED: under none. */
static bool txn_look_for_changed(
        struct sb_txn *txn, const struct sb_commit_range *range, bool after)
{
        struct sb_handle *handle = &txn->bus->handle;
        bool done;

        if (!SB_FAULT(TXN_CONFLICT_UNPINNED))
                sb_pin(handle);
        done = txn_name_changed(txn, range, after);
        if (!SB_FAULT(TXN_CONFLICT_UNPINNED))
                sb_unpin(handle);
        return done;
}

/* Name the key that made the commit fail. @cause: the number of a write, or behind the writes of a
 * range. */
static void txn_find_conflict(struct sb_txn *txn, const struct sb_commit_wish *wish, uint32_t cause)
{
        const struct sb_commit_range *range;
        bool after = false, done = false;

        if (cause < wish->write_count || cause - wish->write_count >= wish->range_count) {
                cause = cause < wish->write_count ? cause : 0;
                txn_name_conflict(txn, wish->writes[cause].key, wish->writes[cause].key_len);
                return;
        }
        range = &wish->ranges[cause - wish->write_count];
        txn_name_conflict(txn, range->low, range->low_len);
        for (; !done && !(range->flags & SB_RANGE_POINT); after = true)
                done = txn_look_for_changed(txn, range, after);
}

struct sb_bytes sb_txn_conflict(const struct sb_txn *txn)
{
        if (!txn || txn->state == SB_BUS_TXN_ENDED || !txn->conflicted)
                return (struct sb_bytes){NULL, 0};
        return (struct sb_bytes){txn->conflict, txn->conflict_len};
}

uint64_t sb_txn_cut(const struct sb_txn *txn)
{
        return !txn ? 0 : txn->cut;
}

/* ---- commit ---- */

/* One commit, as sb_write_wait() needs it: to be tried several times. */
struct commit {
        struct sb_handle *handle;
        struct sb_commit_wish wish;
        struct sb_commit_result result;
};

static int txn_attempt(void *argument)
{
        struct commit *commit = argument;

        return sb_commit_run(commit->handle, &commit->wish, &commit->result);
}

/* Describe what is to be committed. Return: 0, -ENOMEM. */
static int txn_fill_wish(struct sb_txn *txn, struct sb_commit_wish *ret)
{
        uint64_t value_len_max = txn->bus->handle.segment.value_len_max, rest;
        const struct sb_write_set_entry *entry = NULL;
        uint32_t count = txn->write_set.count;

        if (count > txn->writes_capacity) {
                struct sb_commit_write *writes = realloc(txn->writes, count * sizeof(*writes));

                if (!writes)
                        return -ENOMEM;
                txn->writes = writes;
                txn->writes_capacity = count;
        }
        for (uint32_t i = 0; i < count; i++) {
                entry = sb_write_set_next(&txn->write_set, entry);
                txn->writes[i] = (struct sb_commit_write){.key = entry->value->bytes,
                        .key_len = entry->value->key_len,
                        .value = entry->value->bytes + entry->value->key_len,
                        .value_len = entry->value->value_len,
                        .kind = entry->kind == SB_WRITE_SET_DELETED ? SB_VERSION_DELETED
                                                                    : SB_VERSION_VALUE};
        }
        *ret = (struct sb_commit_wish){.writes = txn->writes,
                .write_count = count,
                .serializable = txn->serializable,
                .snapshot = txn->snapshot,
                .cut = txn->cut};
        if (!txn->serializable)
                return 0;
        /* A descriptor is as long as a value at most, and its list of writes lies in it, too. */
        rest = 8 * (uint64_t)count + sizeof(struct sb_descriptor);
        rest = rest < value_len_max ? value_len_max - rest : 0;
        return sb_read_set_order(&txn->read_set, &txn->write_set,
                rest < txn->read_set.len_max ? rest : txn->read_set.len_max, &ret->ranges,
                &ret->range_count);
}

/* Commit a write set that is not empty. Return: as sb_txn_commit(). */
static int txn_commit_writes(struct sb_txn *txn, const struct sb_write *how, uint64_t *ret_cut)
{
        struct commit commit = {.handle = &txn->bus->handle};
        int r = txn_fill_wish(txn, &commit.wish);

        if (r == 0)
                r = txn_attempt(&commit);
        if (r == SB_E_FULL)
                r = sb_write_wait(txn->bus, how, txn_attempt, &commit);
        r = sb_bus_result(txn->bus, r);
        if (r == SB_E_CONFLICT)
                txn_find_conflict(txn, &commit.wish, commit.result.cause);
        *ret_cut = commit.result.cut;
        return r;
}

int sb_txn_commit(struct sb_txn *txn, const struct sb_write *how)
{
        uint64_t cut;
        int r;

        SB_USE(txn ? txn->bus : NULL, sb_txn_commit(txn, how));
        if (!txn || txn->state != SB_BUS_TXN_OPEN)
                return -EINVAL;
        r = sb_write_check(how);
        if (r == 0)
                r = sb_bus_check_txn(txn);
        if (r == 0)
                r = sb_write_able(txn->bus, how);
        if (r == 0 && txn->write_set.count > 0)
                r = sb_write_open(txn->bus);
        if (r != 0)
                return r;
        cut = txn->cut;
        if (txn->write_set.count > 0)
                r = txn_commit_writes(txn, how, &cut);
        else if (!sb_snapshot_holds(&txn->bus->handle, txn->snapshot, cut))
                r = SB_E_LAPPED;
        if (r == 0 || r == SB_E_CONFLICT)
                txn_let_go(txn, SB_BUS_TXN_DECIDED);
        if (r == 0 && how && how->ret_cut)
                *how->ret_cut = cut;
        return r == 0 && txn->write_set.count > 0 ? sb_write_last(txn->bus, how, cut) : r;
}
