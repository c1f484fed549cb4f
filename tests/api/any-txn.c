/*
 * Transactions, by chance, and what is one: sb_delete_range(), sb_restore(). See any.h.
 *
 * The model knows what a transaction has read and what it is to write, so it knows whether the
 * commit is in conflict. It may be in conflict, or not, over a key that came and went since the cut
 * (such a key may be forgotten), and where so much was read that ranges are joined.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/any.h"

#define MANY     40u
#define READ_LEN 2080u /* of one range that was read, at most */

bool any_txn_sees(const struct any_txn *txn, uint32_t key)
{
        if (txn->write[key].kind != ANY_NOTHING)
                return txn->write[key].kind == ANY_VALUE;
        return any_at(key, txn->cut);
}

void any_txn_read(struct any_txn *txn, uint32_t key)
{
        txn->read[key] = true;
        txn->reads_len += READ_LEN;
}

struct any_txn *any_open_txn(void)
{
        struct any_txn *txn = &any.txn[any_below(ANY_TXNS)];

        return txn->txn && !txn->decided && !txn->lost && txn->bus + 1 != any.asleep ? txn : NULL;
}

static void forget(struct any_txn *txn)
{
        for (uint32_t i = 0; i < ANY_KEYS; i++)
                free(txn->write[i].value);
        *txn = (struct any_txn){0};
}

static void end(struct any_txn *txn)
{
        if (!txn->txn)
                return;
        sb_txn_end(txn->txn);
        any_scans_of_txn_end(txn);
        forget(txn);
}

void any_txns_end(uint32_t bus, enum any_end how)
{
        for (uint32_t i = 0; i < ANY_TXNS; i++) {
                struct any_txn *txn = &any.txn[i];

                if (!txn->txn || txn->bus != bus)
                        continue;
                ANY_CHECK(how != ANY_CLOSED || txn->decided ||
                                  sb_txn_commit(txn->txn, NULL) == SB_E_DETACHED,
                        "a transaction goes on behind its bus");
                sb_txn_end(txn->txn);
                forget(txn);
        }
}

void any_txn_begin(void)
{
        struct any_txn *txn = &any.txn[any_below(ANY_TXNS)];
        int r;

        end(txn);
        txn->bus = any_bus();
        txn->serializable = any_one_in(2);
        r = sb_txn_begin(
                any.bus[txn->bus], txn->serializable ? SB_SERIALIZABLE : SB_SNAPSHOT, &txn->txn);
        ANY_CHECK(r == 0, "a transaction: %d", r);
        txn->cut = sb_txn_cut(txn->txn);
        any_saw_cut(txn->cut);
}

/* The transaction is to write this; ANY_NOTHING: nothing any more. */
static void put(struct any_txn *txn, uint32_t key, enum any_kind kind, struct sb_bytes value)
{
        struct any_write *write = &txn->write[key];

        free(write->value);
        *write = (struct any_write){
                .kind = kind, .value = malloc(value.len + 1), .len = (uint32_t)value.len};
        if (value.len > 0)
                memcpy(write->value, value.data, value.len);
}

/* A delete in the transaction has succeeded. */
static void put_delete(struct any_txn *txn, uint32_t key)
{
        put(txn, key, any_at(key, txn->cut) ? ANY_DELETE : ANY_NOTHING, (struct sb_bytes){NULL, 0});
}

void any_txn_set(void)
{
        struct any_txn *txn = any_open_txn();
        struct sb_bytes value = any_value();
        uint32_t key = any_key();
        int r;

        if (!txn)
                return;
        r = sb_txn_set(txn->txn, any_bytes(key), value);
        if (value.len > any.value_len_max - 8) {
                ANY_CHECK(r == -EMSGSIZE, "a set of too much: %d", r);
                return;
        }
        ANY_CHECK(r == 0, "a set in a transaction: %d", r);
        put(txn, key, ANY_VALUE, value);
}

void any_txn_delete(void)
{
        struct any_txn *txn = any_open_txn();
        uint32_t key = any_key();
        int r;

        if (!txn)
                return;
        r = sb_txn_delete(txn->txn, any_bytes(key));
        if (any_is_full(r))
                return;
        ANY_CHECK(r == (any_txn_sees(txn, key) ? 0 : SB_E_NOT_FOUND),
                "a delete in a transaction: %d", r);
        if (txn->write[key].kind != ANY_DELETE)
                any_txn_read(txn, key);
        if (r == 0)
                put_delete(txn, key);
}

static void get_many(struct any_txn *txn)
{
        struct sb_guard guards[MANY] = {0};
        struct sb_bytes keys[MANY];
        uint32_t drawn[MANY], count = (uint32_t)any_below(MANY);
        int r;

        for (uint32_t i = 0; i < count; i++) {
                drawn[i] = any_key();
                keys[i] = any_bytes(drawn[i]);
        }
        r = sb_txn_get_many(txn->txn, keys, count, guards);
        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "a get of many in a transaction: %d", r);
        for (uint32_t i = 0; i < count; i++) {
                any_txn_read(txn, drawn[i]);
                ANY_CHECK(any_txn_sees(txn, drawn[i]) == (guards[i].bus ? true : false),
                        "key %u of many in a transaction", drawn[i]);
                if (!guards[i].bus)
                        continue;
                any_compare_seen(&guards[i], txn, txn->cut, drawn[i]);
                any_let_go(&guards[i]);
        }
}

void any_txn_get(void)
{
        struct any_txn *txn = any_open_txn();
        struct sb_guard guard = {0};
        uint32_t key = any_key();
        int r;

        if (!txn)
                return;
        if (any_one_in(3)) {
                get_many(txn);
                return;
        }
        r = sb_txn_get(txn->txn, any_bytes(key), &guard);
        if (any_is_full(r))
                return;
        ANY_CHECK(r == (any_txn_sees(txn, key) ? 0 : SB_E_NOT_FOUND), "a get in a transaction: %d",
                r);
        if (txn->write[key].kind == ANY_NOTHING)
                any_txn_read(txn, key);
        if (r != 0)
                return;
        any_compare_seen(&guard, txn, txn->cut, key);
        any_let_go(&guard);
}

/* All that @writes says was committed at any_written. */
static void committed(uint32_t bus, const struct any_write writes[ANY_KEYS])
{
        uint64_t number = 0;

        for (uint32_t key = 0; key < any.key_count; key++) {
                const struct any_write *write = &writes[key];
                struct any_change change = {.cut = any_written,
                        .gone = write->kind == ANY_DELETE,
                        .txn_unknown = write->kind == ANY_DELETE,
                        .value = write->value,
                        .len = write->len};
                struct sb_guard guard = {0};
                int r;

                if (write->kind == ANY_NOTHING)
                        continue;
                r = sb_get(any.bus[bus], any_bytes(key), &guard);
                if (r == SB_E_FULL) {
                        any_release_all();
                        r = sb_get(any.bus[bus], any_bytes(key), &guard);
                }
                ANY_CHECK(r == (change.gone ? SB_E_NOT_FOUND : 0), "key %u behind a commit: %d",
                        key, r);
                if (r == 0) {
                        number = number == 0 ? guard.txn : number;
                        ANY_CHECK(guard.txn != 0 && guard.txn == number &&
                                          any_rev_is_next(key, guard.rev),
                                "key %u was not written in the same commit", key);
                }
                change.txn = guard.txn;
                change.rev =
                        change.gone && any_now(key)->rev != 0 ? any_now(key)->rev + 1 : guard.rev;
                any_add(key, &change);
                if (r == 0) {
                        any_compare_guard(&guard, key, any_last(key));
                        any_let_go(&guard);
                }
        }
}

static bool has_changed(const struct any_txn *txn, uint32_t key)
{
        return any_last(key) && any_last(key)->cut > txn->cut;
}

/* Whether a commit must be in conflict; *ret_may: whether it may be. */
static bool must_conflict(const struct any_txn *txn, bool *ret_may)
{
        bool must = false, writes = false, any_changed = false;

        *ret_may = false;
        for (uint32_t key = 0; key < any.key_count; key++) {
                bool wrote = txn->write[key].kind != ANY_NOTHING;

                writes = writes || wrote;
                any_changed = any_changed || has_changed(txn, key);
                if (!has_changed(txn, key) || !(wrote || (txn->serializable && txn->read[key])))
                        continue;
                *ret_may = true;
                must = must || any_now(key) || any_at(key, txn->cut);
        }
        if (txn->serializable && txn->reads_len > any.value_len_max / 8)
                *ret_may = any_changed;
        *ret_may = *ret_may && writes;
        return must && writes;
}

/* The key that a conflict names has changed; @unsure: it may be another one. */
static void compare_conflict(const struct any_txn *txn, bool unsure)
{
        struct sb_bytes named = sb_txn_conflict(txn->txn);
        bool good = unsure;

        for (uint32_t key = 0; key < any.key_count; key++) {
                if (!has_changed(txn, key))
                        continue;
                good = good || any_compare(named.data, named.len, any.key[key].bytes,
                                       any.key[key].len) == 0;
                /* Such a key may be gone. */
                good = good || (!any_now(key) && !any_at(key, txn->cut));
        }
        ANY_CHECK(named.data && good, "a conflict names a key that has not changed");
}

static void compare_decided(struct any_txn *txn)
{
        const struct sb_bytes none = {"", 0};

        ANY_CHECK(sb_txn_commit(txn->txn, NULL) == -EINVAL &&
                          sb_txn_set(txn->txn, any_bytes(0), none) == -EINVAL &&
                          sb_txn_delete(txn->txn, any_bytes(0)) == -EINVAL,
                "a transaction goes on behind its commit");
}

void any_txn_commit(void)
{
        struct any_txn *txn = any_open_txn();
        bool must, may;
        int r;

        if (!txn)
                return;
        must = must_conflict(txn, &may);
        r = sb_txn_commit(txn->txn, any_how(true));
        if (any_is_full(r) || (r == -EMSGSIZE && txn->reads_len > any.value_len_max / 8)) {
                if (any_one_in(3))
                        end(txn);
                return;
        }
        ANY_CHECK(
                r == 0 ? !must : r == SB_E_CONFLICT && may, "a commit: %d (%d, %d)", r, must, may);
        if (r == 0) {
                committed(txn->bus, txn->write);
        } else {
                any.conflicts++;
                compare_conflict(txn, !must || txn->reads_len > any.value_len_max / 8);
        }
        txn->decided = true;
        compare_decided(txn);
        if (any_one_in(2))
                end(txn);
}

void any_txns_lose(uint32_t bus)
{
        for (uint32_t i = 0; i < ANY_TXNS; i++)
                if (any.txn[i].txn && any.txn[i].bus == bus && !any.txn[i].decided)
                        any.txn[i].lost = true;
}

/* A transaction that has lost its cut reads its own writes alone, and comes to nothing. */
void any_txn_lost(void)
{
        struct any_txn *txn = &any.txn[any_below(ANY_TXNS)];
        struct sb_guard guard = {0};
        uint32_t key = any_key();
        bool may;
        int r;

        if (!txn->txn || !txn->lost)
                return;
        r = sb_txn_get(txn->txn, any_bytes(key), &guard);
        if (txn->write[key].kind == ANY_NOTHING)
                ANY_CHECK(r == SB_E_LAPPED || r == SB_E_FULL, "a get without a cut: %d", r);
        else
                ANY_CHECK(r == (txn->write[key].kind == ANY_VALUE ? 0 : SB_E_NOT_FOUND) ||
                                  r == SB_E_FULL,
                        "a get of an own write without a cut: %d", r);
        if (r == 0)
                any_compare_seen(&guard, txn, txn->cut, key);
        sb_guard_release(&guard);
        (void)must_conflict(txn, &may);
        r = sb_txn_commit(txn->txn, any_how(true));
        ANY_CHECK(
                r == SB_E_LAPPED || (r == SB_E_CONFLICT && may) || any_is_full(r) || r == -EMSGSIZE,
                "a commit without a cut: %d", r);
        end(txn);
}

/* ---- what is a transaction ---- */

static bool is_in_range(uint32_t key, struct sb_bytes from, struct sb_bytes to)
{
        const struct any_key *of = &any.key[key];

        if (!to.data)
                return any_begins(of, from.data, from.len);
        return any_compare(of->bytes, of->len, from.data, from.len) >= 0 &&
               any_compare(of->bytes, of->len, to.data, to.len) < 0;
}

static void delete_range_in(struct any_txn *txn, struct sb_bytes from, struct sb_bytes to)
{
        uint64_t count = 0, expected = 0;
        int r = sb_delete_range(
                any.bus[txn->bus], txn->txn, from, to, to.data ? 0 : SB_PREFIX, NULL, &count);

        if (any_is_full(r)) {
                end(txn);
                return;
        }
        ANY_CHECK(r == 0, "a range in a transaction: %d", r);
        for (uint32_t key = 0; key < any.key_count; key++) {
                if (!is_in_range(key, from, to))
                        continue;
                any_txn_read(txn, key);
                if (!any_txn_sees(txn, key))
                        continue;
                expected++;
                put_delete(txn, key);
        }
        ANY_CHECK(count == expected, "a range of %llu keys in a transaction, not of %llu",
                (unsigned long long)count, (unsigned long long)expected);
}

void any_delete_range(void)
{
        struct any_write writes[ANY_KEYS] = {0};
        struct any_txn *txn = any_one_in(2) ? any_open_txn() : NULL;
        struct sb_bytes from = any_near_key(), to = {NULL, 0};
        uint64_t count = 0, expected = 0;
        uint32_t bus = any_bus();
        int r;

        if (any_one_in(2)) {
                to = any_near_key();
                to.data = to.data ? to.data : "";
        }
        if (any_is_own(from) || (from.len == 0 && !any_one_in(4)))
                return;
        if (txn) {
                delete_range_in(txn, from, to);
                return;
        }
        for (uint32_t key = 0; key < any.key_count; key++)
                if (is_in_range(key, from, to) && any_now(key)) {
                        writes[key].kind = ANY_DELETE;
                        expected++;
                }
        r = sb_delete_range(
                any.bus[bus], NULL, from, to, to.data ? 0 : SB_PREFIX, any_how(true), &count);
        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0 && count == expected, "a range: %d, of %llu keys, not of %llu", r,
                (unsigned long long)count, (unsigned long long)expected);
        committed(bus, writes);
}

/* What a restore of a key to @cut is to write. */
static struct any_write restored(uint32_t key, uint64_t cut)
{
        const struct any_change *then = any_at(key, cut), *now = any_now(key);

        if (!then)
                return (struct any_write){.kind = now ? ANY_DELETE : ANY_NOTHING};
        if (now && now->len == then->len &&
                (then->len == 0 || memcmp(now->value, then->value, then->len) == 0))
                return (struct any_write){0};
        return (struct any_write){.kind = ANY_VALUE, .value = then->value, .len = then->len};
}

void any_restore(void)
{
        struct any_write writes[ANY_KEYS] = {0};
        bool prefix = any_one_in(2), too_large = false;
        struct sb_bytes key = prefix || any_one_in(3) ? any_near_key() : any_bytes(any_key());
        uint64_t cut = any_cut();
        uint32_t bus = any_bus();
        int r;

        if (cut == 0 || any_is_own(key) || (key.len == 0 && !prefix))
                return;
        for (uint32_t i = 0; i < any.key_count; i++) {
                if (!any_begins(&any.key[i], key.data, key.len) ||
                        (!prefix && any.key[i].len != key.len))
                        continue;
                writes[i] = restored(i, cut);
                too_large = too_large || writes[i].len > any.value_len_max - 8;
        }
        r = sb_restore(any.bus[bus], key, prefix ? SB_PREFIX : 0, cut, any_how(true));
        if (any_is_full(r))
                return;
        if (r == SB_E_LAPPED) {
                ANY_CHECK(!any_is_marked(cut), "a marked cut cannot be restored");
                any.lapped++;
                return;
        }
        ANY_CHECK(r == (too_large ? -EMSGSIZE : 0), "a restore: %d", r);
        if (r == 0)
                committed(bus, writes);
}
