/* A bus on paper; see paper-bus.h. */
#include "tests/fuzz/paper-bus.h"

#include <string.h>

#include "libclient/core/admin.h"
#include "shm/base/bytes.h"
#include "shm/layout/reserved.h"
#include "tests/fuzz/fuzz.h"

struct paper *paper_open;

/* A transaction's keys, until it is committed. */
static struct paper in_txn;
static bool txn_is_open;

/* ---- the lists ---- */

void paper_clear(struct paper *paper)
{
        paper->key_count = paper->rule_count = paper->bytes_used = 0;
}

static uint32_t paper_add_bytes(struct paper *paper, struct sb_bytes bytes)
{
        uint32_t at = paper->bytes_used;

        FUZZ_CHECK(bytes.len <= PAPER_BYTES_MAX - at);
        if (bytes.len)
                memcpy(paper->bytes + at, bytes.data, bytes.len);
        paper->bytes_used += (uint32_t)bytes.len;
        return at;
}

void paper_set(struct paper *paper, struct sb_bytes key, struct sb_bytes value)
{
        struct paper_key *added = &paper->keys[paper->key_count];

        FUZZ_CHECK(paper->key_count < PAPER_KEYS_MAX);
        FUZZ_CHECK(key.len > 0 && key.len <= PAPER_KEY_LEN_MAX);
        FUZZ_CHECK(value.len <= PAPER_VALUE_LEN_MAX && !sb_reserved_is(key.data, key.len));
        if (paper->key_count > 0)
                FUZZ_CHECK(sb_bytes_compare(paper->bytes + added[-1].key_at, added[-1].key_len,
                                   key.data, key.len) < 0);
        added->key_len = (uint32_t)key.len;
        added->value_len = (uint32_t)value.len;
        added->key_at = paper_add_bytes(paper, key);
        added->value_at = paper_add_bytes(paper, value);
        paper->key_count++;
}

static struct paper_rule *paper_find_rule(struct paper *paper, struct sb_bytes key, bool prefix)
{
        for (uint32_t i = 0; i < paper->rule_count; i++) {
                struct paper_rule *rule = &paper->rules[i];

                if (rule->prefix == prefix && rule->key_len == key.len &&
                        !memcmp(paper->bytes + rule->key_at, key.data, key.len))
                        return rule;
        }
        return NULL;
}

void paper_keep(struct paper *paper, struct sb_bytes key, bool prefix, const struct sb_rule *rule)
{
        struct paper_rule *kept = paper_find_rule(paper, key, prefix);

        FUZZ_CHECK(rule->size == sizeof(*rule) && !rule->zero);
        FUZZ_CHECK(key.len <= PAPER_KEY_LEN_MAX - SB_KEEP_PREFIX && (prefix || key.len > 0));
        FUZZ_CHECK(rule->kind > SB_KEEP_NEWEST && rule->kind <= SB_KEEP_ALL);
        FUZZ_CHECK((rule->kind == SB_KEEP_ALL) == (rule->value == 0));
        if (!kept) {
                FUZZ_CHECK(paper->rule_count < PAPER_RULES_MAX);
                kept = &paper->rules[paper->rule_count++];
                *kept = (struct paper_rule){.key_at = paper_add_bytes(paper, key),
                        .key_len = (uint32_t)key.len,
                        .prefix = prefix};
        }
        kept->kind = rule->kind;
        kept->value = rule->value;
}

bool paper_kept(struct paper *paper, struct sb_bytes key, bool prefix, struct sb_rule *ret_rule)
{
        const struct paper_rule *kept = paper_find_rule(paper, key, prefix);

        if (!kept)
                return false;
        *ret_rule = (struct sb_rule){
                .size = sizeof(*ret_rule), .kind = kept->kind, .value = kept->value};
        return true;
}

static bool paper_same(const struct paper *a, uint32_t a_at, uint32_t a_len, const struct paper *b,
        uint32_t b_at, uint32_t b_len)
{
        return a_len == b_len && !memcmp(a->bytes + a_at, b->bytes + b_at, a_len);
}

bool paper_is_part(const struct paper *part, const struct paper *whole)
{
        if (part->key_count > whole->key_count || part->rule_count > whole->rule_count)
                return false;
        for (uint32_t i = 0; i < part->key_count; i++) {
                const struct paper_key *a = &part->keys[i], *b = &whole->keys[i];

                if (!paper_same(part, a->key_at, a->key_len, whole, b->key_at, b->key_len) ||
                        !paper_same(
                                part, a->value_at, a->value_len, whole, b->value_at, b->value_len))
                        return false;
        }
        for (uint32_t i = 0; i < part->rule_count; i++) {
                const struct paper_rule *a = &part->rules[i], *b = &whole->rules[i];

                if (a->prefix != b->prefix || a->kind != b->kind || a->value != b->value ||
                        !paper_same(part, a->key_at, a->key_len, whole, b->key_at, b->key_len))
                        return false;
        }
        return true;
}

/* ---- the library's calls ---- */

static int paper_sb_stat(struct sb_bus *bus, struct sb_admin_stat *ret)
{
        (void)bus;
        *ret = (struct sb_admin_stat){.data_bytes = UINT32_MAX,
                .value_len_max = PAPER_VALUE_LEN_MAX,
                .key_len_max = PAPER_KEY_LEN_MAX};
        return 0;
}

static bool paper_has_key(const struct paper *paper, struct sb_bytes key)
{
        for (uint32_t i = 0; i < paper->key_count; i++)
                if (paper->keys[i].key_len == key.len &&
                        !memcmp(paper->bytes + paper->keys[i].key_at, key.data, key.len))
                        return true;
        return false;
}

static int paper_sb_set(struct sb_bus *bus, struct sb_bytes key, struct sb_bytes value,
        const struct sb_write *how, uint64_t *ret_rev)
{
        (void)bus, (void)how, (void)ret_rev;
        paper_set(paper_open, key, value);
        return 0;
}

static int paper_sb_cas(struct sb_bus *bus, struct sb_bytes key, uint64_t expected_rev,
        struct sb_bytes value, const struct sb_write *how, uint64_t *ret_rev)
{
        FUZZ_CHECK(!expected_rev);
        if (paper_has_key(paper_open, key))
                return SB_E_CONFLICT;
        return paper_sb_set(bus, key, value, how, ret_rev);
}

static int paper_sb_keep(
        struct sb_bus *bus, struct sb_bytes key, uint32_t flags, const struct sb_rule *rule)
{
        (void)bus;
        paper_keep(paper_open, key, flags & SB_PREFIX, rule);
        return 0;
}

static int paper_sb_kept(
        struct sb_bus *bus, struct sb_bytes key, uint32_t flags, struct sb_rule *ret_rule)
{
        (void)bus;
        return paper_kept(paper_open, key, flags & SB_PREFIX, ret_rule) ? 0 : SB_E_NOT_FOUND;
}

static int paper_sb_txn_begin(struct sb_bus *bus, uint32_t isolation, struct sb_txn **ret_txn)
{
        (void)bus, (void)isolation;
        paper_clear(&in_txn);
        txn_is_open = true;
        *ret_txn = (struct sb_txn *)&in_txn;
        return 0;
}

static int paper_sb_txn_get(struct sb_txn *txn, struct sb_bytes key, struct sb_guard *ret_guard)
{
        (void)txn, (void)ret_guard;
        return paper_has_key(paper_open, key) ? 0 : SB_E_NOT_FOUND;
}

static int paper_sb_txn_set(struct sb_txn *txn, struct sb_bytes key, struct sb_bytes value)
{
        FUZZ_CHECK(txn_is_open && txn == (struct sb_txn *)&in_txn);
        paper_set(&in_txn, key, value);
        return 0;
}

static int paper_sb_txn_commit(struct sb_txn *txn, uint64_t *ret_cut)
{
        (void)ret_cut;
        FUZZ_CHECK(txn_is_open && txn == (struct sb_txn *)&in_txn);
        for (uint32_t i = 0; i < in_txn.key_count; i++) {
                const struct paper_key *key = &in_txn.keys[i];

                paper_set(paper_open, (struct sb_bytes){in_txn.bytes + key->key_at, key->key_len},
                        (struct sb_bytes){in_txn.bytes + key->value_at, key->value_len});
        }
        txn_is_open = false;
        return 0;
}

static struct sb_txn *paper_sb_txn_end(struct sb_txn *txn)
{
        (void)txn;
        txn_is_open = false;
        return NULL;
}

/* ---- scans ---- */

/* At most one of each kind is open. */
static struct paper_scan {
        uint32_t next;
        unsigned char key[SB_KEEP_PREFIX + PAPER_KEY_LEN_MAX]; /* of a rule */
} key_scan, rule_scan;

static int paper_sb_scan_open(
        struct sb_bus *bus, struct sb_txn *txn, struct sb_bytes prefix, struct sb_scan **ret_scan)
{
        (void)bus, (void)txn;
        FUZZ_CHECK(sb_reserved_is(prefix.data, prefix.len));
        rule_scan.next = 0;
        *ret_scan = (struct sb_scan *)&rule_scan;
        return 0;
}

static int paper_sb_scan_open_at(struct sb_bus *bus, struct sb_bytes prefix,
        const struct sb_scan_options *how, struct sb_scan **ret_scan)
{
        (void)bus;
        FUZZ_CHECK(!prefix.len && how->size == sizeof(*how));
        key_scan.next = 0;
        *ret_scan = (struct sb_scan *)&key_scan;
        return 0;
}

static uint64_t paper_sb_scan_cut(const struct sb_scan *scan)
{
        (void)scan;
        return 7;
}

static int paper_next_rule(struct sb_guard *ret_guard)
{
        const struct paper_rule *rule = &paper_open->rules[rule_scan.next];

        if (rule_scan.next == paper_open->rule_count)
                return SB_E_NOT_FOUND;
        memcpy(rule_scan.key, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1);
        rule_scan.key[SB_KEEP_PREFIX - 1] = rule->prefix ? 'P' : 'K';
        memcpy(rule_scan.key + SB_KEEP_PREFIX, paper_open->bytes + rule->key_at, rule->key_len);
        *ret_guard =
                (struct sb_guard){.key = {rule_scan.key, SB_KEEP_PREFIX + rule->key_len}, .rev = 1};
        rule_scan.next++;
        return 0;
}

static int paper_sb_scan_next(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        const struct paper_key *key = &paper_open->keys[key_scan.next];

        if (scan == (struct sb_scan *)&rule_scan)
                return paper_next_rule(ret_guard);
        if (key_scan.next == paper_open->key_count)
                return SB_E_NOT_FOUND;
        *ret_guard = (struct sb_guard){.key = {paper_open->bytes + key->key_at, key->key_len},
                .value = {paper_open->bytes + key->value_at, key->value_len},
                .rev = 1};
        key_scan.next++;
        return 0;
}

static int paper_sb_scan_next_many(
        struct sb_scan *scan, struct sb_guard *ret_guards, size_t max, size_t *ret_count)
{
        size_t count = 0;

        while (count < max && paper_sb_scan_next(scan, &ret_guards[count]) == 0)
                count++;
        *ret_count = count;
        return count > 0 ? 0 : SB_E_NOT_FOUND;
}

static struct sb_scan *paper_sb_scan_close(struct sb_scan *scan)
{
        (void)scan;
        return NULL;
}

static void paper_sb_guard_release(struct sb_guard *guard)
{
        (void)guard;
}

/* The linker has calls of NAME come to __wrap_NAME. */
#define WRAPPED(type, name, function, ...)                                                         \
        type __wrap_##name(__VA_ARGS__) __attribute__((alias(#function)));
WRAPPED(int, sb_admin_stat, paper_sb_stat, struct sb_bus *, struct sb_admin_stat *)
WRAPPED(int, sb_set, paper_sb_set, struct sb_bus *, struct sb_bytes, struct sb_bytes,
        const struct sb_write *, uint64_t *)
WRAPPED(int, sb_cas, paper_sb_cas, struct sb_bus *, struct sb_bytes, uint64_t, struct sb_bytes,
        const struct sb_write *, uint64_t *)
WRAPPED(int, sb_keep, paper_sb_keep, struct sb_bus *, struct sb_bytes, uint32_t,
        const struct sb_rule *)
WRAPPED(int, sb_kept, paper_sb_kept, struct sb_bus *, struct sb_bytes, uint32_t, struct sb_rule *)
WRAPPED(int, sb_txn_begin, paper_sb_txn_begin, struct sb_bus *, uint32_t, struct sb_txn **)
WRAPPED(int, sb_txn_get, paper_sb_txn_get, struct sb_txn *, struct sb_bytes, struct sb_guard *)
WRAPPED(int, sb_txn_set, paper_sb_txn_set, struct sb_txn *, struct sb_bytes, struct sb_bytes)
WRAPPED(int, sb_txn_commit, paper_sb_txn_commit, struct sb_txn *, uint64_t *)
WRAPPED(struct sb_txn *, sb_txn_end, paper_sb_txn_end, struct sb_txn *)
WRAPPED(int, sb_scan_open, paper_sb_scan_open, struct sb_bus *, struct sb_txn *, struct sb_bytes,
        struct sb_scan **)
WRAPPED(int, sb_scan_open_at, paper_sb_scan_open_at, struct sb_bus *, struct sb_bytes,
        const struct sb_scan_options *, struct sb_scan **)
WRAPPED(uint64_t, sb_scan_cut, paper_sb_scan_cut, const struct sb_scan *)
WRAPPED(int, sb_scan_next, paper_sb_scan_next, struct sb_scan *, struct sb_guard *)
WRAPPED(int, sb_scan_next_many, paper_sb_scan_next_many, struct sb_scan *, struct sb_guard *,
        size_t, size_t *)
WRAPPED(struct sb_scan *, sb_scan_close, paper_sb_scan_close, struct sb_scan *)
WRAPPED(void, sb_guard_release, paper_sb_guard_release, struct sb_guard *)
