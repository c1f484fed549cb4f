/*
 * Operations by the public calls, as a user of the library makes them: in scenarios with `users`
 * the threads that have a bus do what their operations say in this way; see world.h.
 *
 * A guard is a promise: until it is released, what it shows lies where it is, in a block that no
 * process takes, with the bytes that were read first. So each guard here is read again after more
 * calls, and before it is released; a guard that was set too late is one that another thread's
 * reclaiming did not see.
 *
 * Always true: what these operations note is judged as if the functions below the calls had been
 * called (judge.c, serial.c).
 */
#include "tests/model/users.h"

#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "ring/op/commit.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/memory/guard.h"
#include "tests/model/world-core.h"

struct sb_bytes user_key(enum world_key key)
{
        return (struct sb_bytes){world_key(key), world_key_len(key)};
}

uint32_t user_guard_tag(const struct sb_guard *guard)
{
        return (uint32_t) * (const unsigned char *)guard->value.data - '0';
}

/* Reads all that a guard shows: the key, and a value that an operation wrote. */
void user_read_guard(const struct sb_guard *guard, enum world_key key)
{
        unsigned char value[VALUE_MAX];

        MODEL_CHECK(guard->bus && guard->kind == SB_VALUE);
        model_touch(guard->key.data, guard->key.len + guard->value.len);
        MODEL_CHECK(guard->key.len == world_key_len(key) &&
                    !memcmp(guard->key.data, world_key(key), guard->key.len));
        MODEL_CHECK(guard->value.len == VALUE_LEN || guard->value.len == VALUE_TINY ||
                    guard->value.len == VALUE_LARGE);
        world_fill_value(value, guard->value.len, key, user_guard_tag(guard));
        MODEL_CHECK(!memcmp(guard->value.data, value, guard->value.len));
}

/* Notes what is seen of a key; @guard NULL: no value. */
void user_see(struct outcome *outcome, enum world_key key, const struct sb_guard *guard)
{
        if (guard)
                user_read_guard(guard, key);
        outcome->seen[key] = guard ? guard->rev : 0;
        outcome->tags[key] = guard ? user_guard_tag(guard) : 0;
        outcome->looked |= (uint8_t)(1u << key);
}

/* A guard that shows what was seen shows it still. */
void user_read_again(
        const struct sb_guard *guard, enum world_key key, const struct outcome *outcome)
{
        user_read_guard(guard, key);
        if (guard->rev != outcome->seen[key] || user_guard_tag(guard) != outcome->tags[key])
                model_fail("a guard on %s showed %lu by %u, and then %lu by %u", world_key(key),
                        (unsigned long)outcome->seen[key], outcome->tags[key],
                        (unsigned long)guard->rev, user_guard_tag(guard));
}

void user_note_done(struct outcome *outcome)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                outcome->done_all[key] = model_noted(NOTE_DONE + key);
}

/* ---- single keys ---- */

static void do_write(const struct user *user)
{
        enum world_op_kind kind = user->op->kind;
        enum world_key key = user->op->key;
        struct outcome *outcome = user->outcome;
        unsigned char bytes[VALUE_MAX];
        struct sb_bytes value = {bytes, kind == OP_PUT     ? VALUE_TINY
                                        : kind == OP_LARGE ? VALUE_LARGE
                                                           : VALUE_LEN};
        struct sb_write how = {.size = sizeof how, .ret_cut = &outcome->cut};
        uint64_t rev = 0;

        world_fill_value(bytes, value.len, key, user->tag);
        if (kind == OP_DELETE)
                outcome->r = sb_delete(user->bus, user_key(key), SB_ANY_REV, &how, &rev);
        else if (kind == OP_CAS || kind == OP_CREATE)
                outcome->r = sb_cas(user->bus, user_key(key),
                        kind == OP_CAS ? world.start_seen[key] : 0, value, &how, &rev);
        else if (world.serial && user->op->key == KEY_A)
                /* Without wishes, by the quick way: only the judge of orders can do without the
                 * cut. */
                outcome->r = sb_set(user->bus, user_key(key), value, NULL, &rev);
        else
                outcome->r = sb_set(user->bus, user_key(key), value, &how, &rev);
        outcome->rev = rev;
        if (!outcome->r && rev > model_noted(NOTE_DONE + key))
                model_note(NOTE_DONE + key, rev);
        if (!outcome->r && world_does(OP_TOLD))
                model_note(NOTE_TOLD, outcome->cut);
}

static void do_get(const struct user *user)
{
        struct outcome *outcome = user->outcome;
        enum world_key key = user->op->key;
        struct world_guard *held;
        struct sb_guard guard;

        outcome->r = sb_get(user->bus, user_key(key), &guard);
        if (outcome->r) {
                MODEL_CHECK(outcome->r == SB_E_NOT_FOUND);
                user_see(outcome, key, NULL);
                return;
        }
        user_see(outcome, key, &guard);
        outcome->rev = guard.rev;
        outcome->cut = guard.cut;
        MODEL_CHECK(guard.cut > SB_STAMP_PLACEHOLDER && !(guard.cut & SB_STAMP_INTENT));
        user_read_again(&guard, key, outcome);
        if (user->op->kind == OP_GET) {
                sb_guard_release(&guard);
                MODEL_CHECK(!guard.bus);
                return;
        }
        held = &world.guards[user->me][key];
        sb_guard_release(&held->guard);
        *held = (struct world_guard){guard, outcome->tags[key], guard.rev};
}

static void read_held(uint32_t me)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++) {
                struct world_guard *held = &world.guards[me][key];

                if (!held->guard.bus)
                        continue;
                user_read_guard(&held->guard, key);
                MODEL_CHECK(
                        user_guard_tag(&held->guard) == held->tag && held->guard.rev == held->rev);
        }
}

/* What a bus holds is what its user holds: each guard word below `guard_count` is empty and on the
 * stack once, or is the word of one guard. */
void user_check_idle(uint32_t me)
{
        const struct sb_bus *bus = bus_of(me);
        uint64_t free = 0, held = 0, bit;
        uint32_t i;

        /* Relaxed: the thread is over. */
        MODEL_CHECK(!sb_load_relaxed(&bus->handle.record->pin));
        MODEL_CHECK(!bus->scans && !bus->histories && !bus->txns && !bus->held);
        /* Its last call waits for no memory any more, and keeps no window. */
        MODEL_CHECK(!bus->handle.window.waits && !bus->handle.window.count);
        for (i = 0; i < WORLD_KEYS; i++) {
                const struct sb_guard *guard = &world.guards[me][i].guard;

                if (!guard->bus)
                        continue;
                bit = UINT64_C(1) << (guard->reserved[0] & SB_BUS_QUICK ? 0
                                                                        : guard->reserved[0] & 63);
                MODEL_CHECK(!(held & bit));
                held |= bit;
        }
        held |= user_watch_holds(me);
        for (i = 0; i < bus->guard_free_count; i++) {
                bit = UINT64_C(1) << bus->guards_free[i];
                MODEL_CHECK(!((held | free) & bit));
                free |= bit;
        }
        if (!(bus->quick & 1))
                free |= 1;
        MODEL_CHECK((held | free) == (UINT64_C(1) << bus->guard_count) - 1);
        for (i = 0; i < bus->guard_count; i++)
                if (!sb_guard_read(&bus->handle.segment, bus->handle.record, i) != !(held >> i & 1))
                        model_fail("T%u: guard word %u is %s", me, i,
                                held >> i & 1 ? "empty, and a guard has it" : "not empty");
        for (i = 0; i < bus->handle.segment.geometry.snapshot_count; i++)
                MODEL_CHECK(!sb_load_relaxed(&sb_record_snapshots(bus->handle.record)[i]));
}

/* All keys, from the operation's on. */
static void do_get_many(const struct user *user)
{
        struct sb_guard guards[WORLD_KEYS];
        struct sb_bytes keys[WORLD_KEYS];
        uint32_t i;

        user_note_done(user->outcome);
        for (i = 0; i < WORLD_KEYS; i++)
                keys[i] = user_key((user->op->key + i) % WORLD_KEYS);
        user->outcome->begun = user->op->way == WAY_MANY;
        if (user->outcome->begun)
                user->outcome->r = sb_get_many_at(user->bus, keys, WORLD_KEYS, 0, guards);
        else
                user->outcome->r = sb_get_many(user->bus, keys, WORLD_KEYS, guards);
        if (user->outcome->r == SB_E_LAPPED && user->outcome->begun && world_evicts())
                return;
        MODEL_CHECK(!user->outcome->r);
        for (i = 0; i < WORLD_KEYS; i++)
                user_see(user->outcome, (user->op->key + i) % WORLD_KEYS,
                        guards[i].bus ? &guards[i] : NULL);
        for (i = 0; i < WORLD_KEYS; i++) {
                if (guards[i].bus)
                        user_read_again(
                                &guards[i], (user->op->key + i) % WORLD_KEYS, user->outcome);
                sb_guard_release(&guards[i]);
        }
}

/* ---- transactions ---- */

struct reads {
        struct sb_guard guards[WORLD_KEYS];
        struct user_walk walk;
};

static void reads_release(struct reads *reads)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                sb_guard_release(&reads->guards[key]);
        user_walk_release(&reads->walk);
}

/* What was read is held still. */
static void reads_again(const struct reads *reads, const struct outcome *outcome)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if (reads->guards[key].bus)
                        user_read_again(&reads->guards[key], key, outcome);
        user_read_walk(&reads->walk, outcome);
}

static int txn_read(
        struct sb_txn *txn, enum world_key key, struct outcome *outcome, struct sb_guard *guard)
{
        int r = sb_txn_get(txn, user_key(key), guard);

        if (r == SB_E_LAPPED && world_evicts())
                return r;
        MODEL_CHECK(r == 0 || r == SB_E_NOT_FOUND);
        user_see(outcome, key, r ? NULL : guard);
        return 0;
}

/* The first keys, up to the end of the scan. */
static int txn_scan_to_end(
        struct user *user, struct sb_txn *txn, struct outcome *outcome, struct user_walk *walk)
{
        uint32_t count = user->op->txn.scan, key;
        struct sb_scan_options how = {.size = sizeof how, .txn = txn};
        struct sb_scan *scan;
        int r;

        if (count < WORLD_KEYS)
                how.end = user_key(count);
        r = sb_scan_open_at(user->bus, (struct sb_bytes){NULL, 0}, &how, &scan);
        if (r)
                model_fail("a scan in a transaction: %d", r);
        r = user_walk_many(scan, false, outcome, walk);
        MODEL_CHECK(!(walk->keys >> count));
        for (key = 0; key < count && !r; key++)
                if (!(walk->keys >> key & 1))
                        user_see(outcome, key, NULL);
        sb_scan_close(scan);
        return r;
}

/* The first keys, or all. */
static int txn_scan(
        struct user *user, struct sb_txn *txn, struct outcome *outcome, struct user_walk *walk)
{
        uint32_t count = user->op->txn.scan;
        struct sb_scan *scan;
        int r = sb_scan_open(user->bus, txn, (struct sb_bytes){NULL, 0}, &scan);

        if (r)
                model_fail("a scan in a transaction: %d", r);
        r = user_walk(scan, false, false, count, outcome, walk);
        if (!r)
                user_see_absent(outcome, walk, count);
        sb_scan_close(scan);
        return r;
}

/* Keys, a bit for each, with one call. Return: 0, SB_E_LAPPED. */
static int txn_read_many(
        struct sb_txn *txn, uint32_t keys, struct outcome *outcome, struct reads *reads)
{
        struct sb_guard guards[WORLD_KEYS];
        struct sb_bytes names[WORLD_KEYS];
        uint32_t key, count = 0;
        int r;

        for (key = 0; key < WORLD_KEYS; key++)
                if (keys >> key & 1)
                        names[count++] = user_key(key);
        r = sb_txn_get_many(txn, names, count, guards);
        if (r == SB_E_LAPPED && world_evicts())
                return r;
        MODEL_CHECK(!r);
        for (key = count = 0; key < WORLD_KEYS; key++)
                if (keys >> key & 1) {
                        reads->guards[key] = guards[count++];
                        user_see(outcome, key, reads->guards[key].bus ? &reads->guards[key] : NULL);
                }
        return 0;
}

static int txn_reads(
        struct user *user, struct sb_txn *txn, struct outcome *outcome, struct reads *reads)
{
        uint32_t keys = user->op->txn.reads | user->op->txn.deletes, key;
        int r = 0;

        if (user->op->txn.many) {
                r = txn_read_many(txn, keys, outcome, reads);
                keys = 0;
        }
        for (key = 0; key < WORLD_KEYS && !r; key++)
                if (keys >> key & 1)
                        r = txn_read(txn, key, outcome, &reads->guards[key]);
        if (user->op->txn.scan && !r)
                r = user->op->txn.ends ? txn_scan_to_end(user, txn, outcome, &reads->walk)
                                       : txn_scan(user, txn, outcome, &reads->walk);
        return r;
}

/* Return: 0, SB_E_LAPPED. */
static int txn_writes(struct user *user, struct sb_txn *txn, struct outcome *outcome)
{
        unsigned char value[VALUE_LEN];
        uint32_t key;
        int r;

        for (key = 0; key < WORLD_KEYS; key++) {
                if (user->op->txn.writes >> key & 1) {
                        world_fill_value(value, VALUE_LEN, key, user->tag);
                        r = sb_txn_set(txn, user_key(key), (struct sb_bytes){value, VALUE_LEN});
                        MODEL_CHECK(!r);
                        outcome->wrote |= (uint8_t)(1u << key);
                } else if (user->op->txn.deletes >> key & 1) {
                        r = sb_txn_delete(txn, user_key(key));
                        if (r == SB_E_LAPPED && world_evicts())
                                return r;
                        MODEL_CHECK(r == (outcome->seen[key] ? 0 : SB_E_NOT_FOUND));
                        if (!r)
                                outcome->deleted |= (uint8_t)(1u << key);
                }
        }
        return 0;
}

/* The transaction sees what it wrote, and the rest as before. */
static int txn_own(struct user *user, struct sb_txn *txn, const struct outcome *outcome)
{
        struct outcome expected = *outcome, again = *outcome;
        uint32_t keys = outcome->looked | outcome->wrote, key;
        struct reads reads = {0};
        int r = 0;

        for (key = 0; key < WORLD_KEYS; key++) {
                if (outcome->wrote >> key & 1)
                        expected.tags[key] = user->tag;
                if ((outcome->wrote | outcome->deleted) >> key & 1)
                        expected.seen[key] = 0;
                if (outcome->deleted >> key & 1)
                        expected.tags[key] = 0;
        }
        if (user->op->txn.many)
                r = txn_read_many(txn, keys, &again, &reads);
        for (key = 0; key < WORLD_KEYS && !r && !user->op->txn.many; key++)
                if (keys >> key & 1)
                        r = txn_read(txn, key, &again, &reads.guards[key]);
        if (!r)
                user_expect_same(&expected, &again, keys);
        if (user->op->txn.scan && !r)
                r = user->op->txn.ends ? txn_scan_to_end(user, txn, &again, &reads.walk)
                                       : txn_scan(user, txn, &again, &reads.walk);
        if (!r) {
                user_expect_same(&expected, &again, keys);
                reads_again(&reads, &again);
        }
        reads_release(&reads);
        return r;
}

/* Over which key the transaction lost, as ring/op/commit.h counts: its writes first, then all that
 * it read. One that gave way in a cycle names a key that it wrote. */
static uint32_t conflict_cause(
        const struct world_txn *what, struct sb_txn *txn, const struct outcome *outcome)
{
        struct sb_bytes name = sb_txn_conflict(txn);
        uint32_t written = outcome->wrote | outcome->deleted, count = 0, key;

        for (key = 0; key < WORLD_KEYS; key++) {
                if (!(written >> key & 1))
                        continue;
                if (name.len == world_key_len(key) && !memcmp(name.data, world_key(key), name.len))
                        return what->serializable ? SB_COMMIT_CAUSE_NONE : count;
                count++;
        }
        MODEL_CHECK(what->serializable);
        return count;
}

struct sb_txn *user_begin(struct sb_bus *bus, const struct world_txn *what)
{
        struct sb_txn *txn;
        int r = sb_txn_begin(bus, what->serializable ? SB_SERIALIZABLE : SB_SNAPSHOT, &txn);

        if (r)
                model_fail("a transaction cannot begin: %d", r);
        return txn;
}

static void do_txn(struct user *user)
{
        const struct world_txn *what = &user->op->txn;
        struct outcome *outcome = user->outcome;
        struct reads reads = {0};
        struct sb_txn *txn;
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof how, .ret_cut = &cut};

        txn = what->early ? world.early_txn[user->me] : user_begin(user->bus, what);
        outcome->read_cut = sb_txn_cut(txn);
        outcome->begun = true;
        outcome->cause = SB_COMMIT_CAUSE_NONE;
        outcome->r = txn_reads(user, txn, outcome, &reads);
        if (!outcome->r)
                outcome->r = txn_writes(user, txn, outcome);
        if (!outcome->r && what->own)
                outcome->r = txn_own(user, txn, outcome);
        if (!outcome->r) {
                outcome->r = sb_txn_commit(txn, &how);
                outcome->cut = outcome->r ? 0 : cut;
                MODEL_CHECK(outcome->r != SB_E_LAPPED || world_evicts());
                MODEL_CHECK(outcome->r || cut >= outcome->read_cut);
        }
        if (outcome->r == SB_E_CONFLICT)
                outcome->cause = conflict_cause(what, txn, outcome);
        reads_again(&reads, outcome);
        sb_txn_end(txn);
        reads_again(&reads, outcome);
        reads_release(&reads);
}

/* All keys go at one moment. */
static void do_clear(const struct user *user)
{
        struct sb_bytes all = {NULL, 0};
        struct sb_write how = {.size = sizeof how, .ret_cut = &user->outcome->cut};

        user->outcome->r =
                sb_delete_range(user->bus, NULL, all, all, SB_PREFIX, &how, &user->outcome->rev);
        MODEL_CHECK(!user->outcome->r);
}

/* A cut that lasts for two reads. */
static void do_snapshot(const struct user *user)
{
        struct world_txn what = {.reads = (uint8_t)(1u << user->op->key)};
        struct outcome seen = *user->outcome, again;
        struct sb_guard first = {0}, second = {0};
        struct sb_txn *txn;

        user_note_done(&seen);
        txn = user_begin(user->bus, &what);
        seen.cut = seen.read_cut = sb_txn_cut(txn);
        seen.begun = true;
        again = seen;
        seen.r = txn_read(txn, user->op->key, &seen, &first);
        if (!seen.r)
                seen.r = txn_read(txn, user->op->key, &again, &second);
        if (!seen.r)
                user_expect_same(&seen, &again, what.reads);
        sb_txn_end(txn);
        if (first.bus)
                user_read_again(&first, user->op->key, &seen);
        sb_guard_release(&first);
        sb_guard_release(&second);
        *user->outcome = seen;
}

bool user_run(uint32_t me, const struct world_op *op, uint32_t tag, struct outcome *outcome)
{
        struct user user = {me, bus_of(me), op, tag, outcome};

        switch (op->kind) {
        case OP_SET:
        case OP_PUT:
        case OP_LARGE:
        case OP_CAS:
        case OP_CREATE:
        case OP_DELETE:
                do_write(&user);
                return true;
        case OP_GET:
        case OP_HOLD:
                do_get(&user);
                return true;
        case OP_READ:
                read_held(me);
                return true;
        case OP_MANY:
                do_get_many(&user);
                return true;
        case OP_SCAN:
                if (op->way == WAY_PAST)
                        return user_run_past(&user);
                user_scan(&user);
                return true;
        case OP_SNAPSHOT:
                do_snapshot(&user);
                return true;
        case OP_TXN:
                do_txn(&user);
                return true;
        case OP_CLEAR:
                do_clear(&user);
                return true;
        case OP_WATCH:
        case OP_NEXT:
        case OP_SLEEP:
        case OP_UNWATCH:
        case OP_VIEW:
                return user_run_watch(&user);
        default:
                return user_run_past(&user);
        }
}
