/* The model of a bus, and what is drawn; see any.h. */
#define _GNU_SOURCE
#include "tests/api/any.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/layout/reserved.h"
#include "shm/layout/superblock.h"
#include "tests/storm/random.h"

struct any any;
const char *any_test;
uint64_t any_written;

static struct held {
        struct sb_guard guard;
        struct sb_bytes key, value; /* copies */
        bool used;
} held[ANY_GUARDS];

/* ---- what goes wrong ---- */

void any_fail(const char *file, int line, const char *format, ...)
{
        const char *slash = strrchr(file, '/');
        va_list arguments;

        va_start(arguments, format);
        printf("FAIL %s: seed %llu, step %llu: %s:%d ", any_test, (unsigned long long)any.seed,
                (unsigned long long)any.step, slash ? slash + 1 : file, line);
        vprintf(format, arguments);
        printf("\n");
        va_end(arguments);
        exit(1);
}

bool any_is_full(int r)
{
        any.full += r == SB_E_FULL;
        return r == SB_E_FULL;
}

/* ---- what is drawn ---- */

uint64_t any_below(uint64_t bound)
{
        return bound == 0 ? 0 : storm_random(&any.random) % bound;
}

bool any_one_in(uint64_t count)
{
        return any_below(count) == 0;
}

uint32_t any_bus(void)
{
        uint32_t bus = (uint32_t)any_below(ANY_BUSES);

        return bus + 1 == any.asleep ? (bus + 1) % ANY_BUSES : bus;
}

uint32_t any_key(void)
{
        return (uint32_t)any_below(any.key_count);
}

static uint64_t any_value_len(void)
{
        switch (any_below(24)) {
        case 0:
                return 0;
        case 1:
                return any.value_len_max > 60000 ? 4000 + any_below(20000)
                                                 : any_below(any.value_len_max / 3 + 1);
        case 2:
                return any_below(4000) % (any.value_len_max + 1);
        case 3:
                return any_below(600);
        case 4: /* the largest, or nearly; some units, or nearly */
                return any_one_in(8) ? any.value_len_max - any_below(12) : 8 * any_below(16);
        default:
                return any_below(90);
        }
}

struct sb_bytes any_value(void)
{
        static unsigned char space[UINT64_C(1) << 22];
        uint64_t len = any_value_len(), x = storm_random(&any.random);

        len = len < sizeof(space) ? len : sizeof(space);
        for (uint64_t i = 0; i < len; i++) {
                space[i] = (unsigned char)(x >> 56);
                x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        }
        return (struct sb_bytes){len > 0 || any_one_in(2) ? space : NULL, len};
}

struct sb_bytes any_near_key(void)
{
        static unsigned char spaces[2][ANY_KEY_LEN + 1];
        static unsigned turn;
        unsigned char *space = spaces[turn++ % 2];
        const struct any_key *key = &any.key[any_key()];
        uint32_t len = key->len;

        memcpy(space, key->bytes, len);
        switch (any_below(8)) {
        case 0:
                len = 0;
                break;
        case 1:
        case 2:
                len = (uint32_t)any_below(len + 1);
                break;
        case 3:
                space[len - 1]++;
                break;
        case 4:
                space[len - 1]--;
                break;
        case 5:
                if (len < any.key_len_max)
                        space[len++] = any_one_in(2) ? 0 : 0xff;
                break;
        case 6:
                if (any_one_in(4))
                        memset(space, 0xff, len = any.key_len_max);
                break;
        default:
                break;
        }
        return (struct sb_bytes){len > 0 || any_one_in(2) ? space : NULL, len};
}

uint64_t any_cut(void)
{
        const struct any_mark *mark = &any.mark[any_below(ANY_MARKS)];

        if (mark->there && any_one_in(3))
                return mark->cut;
        return any.cut_count > 0 ? any.cut[any_below(any.cut_count)].cut : 0;
}

const struct sb_write *any_how(bool with_cut)
{
        static struct sb_write how;

        any_written = 0;
        how = (struct sb_write){
                .size = sizeof(how), .deadline_ns = 1, .ret_cut = with_cut ? &any_written : NULL};
        return &how;
}

/* ---- keys and what they were ---- */

int any_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
        size_t len = a_len < b_len ? a_len : b_len;
        int order = len > 0 ? memcmp(a, b, len) : 0;

        return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

bool any_begins(const struct any_key *key, const void *prefix, size_t len)
{
        return key->len >= len && (len == 0 || memcmp(key->bytes, prefix, len) == 0);
}

bool any_is_own(struct sb_bytes key)
{
        return key.len >= SB_RESERVED_LEN && memcmp(key.data, SB_RESERVED, SB_RESERVED_LEN) == 0;
}

struct sb_bytes any_bytes(uint32_t key)
{
        return (struct sb_bytes){any.key[key].bytes, any.key[key].len};
}

/* Draw a key, which may begin as one that is there: of few letters, the least and the largest byte
 * among them, and of lengths beside those at which something changes. */
static void draw_key(struct any_key *ret, uint32_t letters, uint32_t lengths)
{
        static const unsigned char alphabet[] = {0, 'a', 'b', 0xff, 's', 1};
        static const uint32_t lens[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65,
                127, 128, 129, 255, 256, 500, 1023, 1024};
        static const struct sb_bytes beside_own[] = {
                {"\0sa\377\377", 5}, {"\0sb\1", 4}, {"\0sb", 3}, {"\0s", 2}, {"\0sc", 3}};
        uint32_t from = 0, len = lens[any_below(lengths)];

        *ret = (struct any_key){0};
        if (any_one_in(16)) {
                const struct sb_bytes *key = &beside_own[any_below(5)];

                memcpy(ret->bytes, key->data, key->len);
                ret->len = (uint32_t)key->len;
                return;
        }
        if (any_one_in(8))
                len = any.key_len_max - (uint32_t)any_below(2);
        len = len < any.key_len_max ? len : any.key_len_max;
        if (any.key_count > 0 && !any_one_in(4)) {
                const struct any_key *other = &any.key[any_key()];

                from = any_one_in(3) ? other->len : (uint32_t)any_below(other->len + 1);
                len = len > from ? len : from;
                memcpy(ret->bytes, other->bytes, from);
        }
        for (uint32_t i = from; i < len; i++)
                ret->bytes[i] = any_one_in(6) ? (unsigned char)any_below(256)
                                              : alphabet[any_below(letters)];
        ret->len = len;
}

static int compare_keys(const void *a, const void *b)
{
        const struct any_key *x = a, *y = b;

        return any_compare(x->bytes, x->len, y->bytes, y->len);
}

static bool is_new_key(const struct any_key *key)
{
        if (any_is_own((struct sb_bytes){key->bytes, key->len}))
                return false;
        for (uint32_t i = 0; i < any.key_count; i++)
                if (compare_keys(key, &any.key[i]) == 0)
                        return false;
        return true;
}

void any_make_keys(void)
{
        uint32_t tries = 1 + (uint32_t)any_below(ANY_KEYS), letters = 2 + (uint32_t)any_below(5),
                 lengths = any_one_in(2) ? 24 : 1 + (uint32_t)any_below(24);

        while (any.key_count == 0 || tries-- > 0) {
                draw_key(&any.key[any.key_count], letters, lengths);
                any.key_count += is_new_key(&any.key[any.key_count]);
        }
        qsort(any.key, any.key_count, sizeof(any.key[0]), compare_keys);
}

void any_forget(void)
{
        for (uint32_t i = 0; i < any.key_count; i++) {
                for (uint32_t j = 0; j < any.key[i].count; j++)
                        free(any.key[i].change[j].value);
                free(any.key[i].change);
        }
        any.key_count = 0;
}

struct any_change *any_last(uint32_t key)
{
        struct any_key *of = &any.key[key];

        return of->count > 0 ? &of->change[of->count - 1] : NULL;
}

struct any_change *any_at(uint32_t key, uint64_t cut)
{
        struct any_key *of = &any.key[key];

        for (uint32_t i = of->count; i-- > 0;)
                if (of->change[i].cut <= cut)
                        return of->change[i].gone ? NULL : &of->change[i];
        return NULL;
}

struct any_change *any_now(uint32_t key)
{
        return any_at(key, UINT64_MAX);
}

void any_saw_cut(uint64_t cut)
{
        uint32_t at;

        for (uint32_t i = 0; i < any.key_count; i++)
                ANY_CHECK(!any_last(i) || any_last(i)->cut <= cut,
                        "a cut that was taken now has not all that was written: key %u", i);
        at = any.cut_count < ANY_CUTS ? any.cut_count++ : (uint32_t)any_below(ANY_CUTS);
        any.cut[at].cut = cut;
        any.cut[at].time_ns = any.time_ns;
}

struct any_change *any_add(uint32_t key, const struct any_change *change)
{
        struct any_key *to = &any.key[key];
        struct any_change *added;

        ANY_CHECK(change->cut > 0 && (!any_last(key) || any_last(key)->cut <= change->cut),
                "key %u: a write has an earlier cut than the one before", key);
        if (to->count == to->capacity) {
                to->capacity = 2 * to->capacity + 8;
                to->change = realloc(to->change, to->capacity * sizeof(*to->change));
        }
        added = &to->change[to->count++];
        *added = *change;
        added->time_ns = any.time_ns;
        added->value = malloc(change->len + 1);
        if (change->len > 0)
                memcpy(added->value, change->value, change->len);
        return added;
}

bool any_rev_is_next(uint32_t key, uint64_t rev)
{
        const struct any_key *of = &any.key[key];
        uint64_t least = 1;

        if (any_now(key))
                return rev == any_now(key)->rev + 1;
        /* A new life may begin higher. A delete of unknown revision counts one. */
        for (uint32_t i = of->count; i-- > 0; least++)
                if (of->change[i].rev != 0) {
                        least += of->change[i].rev;
                        break;
                }
        return rev >= least;
}

bool any_is_marked(uint64_t cut)
{
        for (uint32_t i = 0; i < ANY_MARKS; i++)
                if (any.mark[i].there && any.mark[i].cut == cut)
                        return true;
        return false;
}

const struct any_rule *any_rule_of(uint32_t key)
{
        const struct any_key *of = &any.key[key];
        const struct any_rule *longest = NULL;

        for (uint32_t i = 0; i < ANY_RULES; i++) {
                const struct any_rule *rule = &any.rule[i];

                if (!rule->there || !any_begins(of, rule->bytes, rule->len))
                        continue;
                if (!rule->prefix && rule->len == of->len)
                        return rule;
                if (rule->prefix && (!longest || rule->len > longest->len))
                        longest = rule;
        }
        return longest;
}

uint64_t any_since(const struct any_rule *rule, uint32_t key)
{
        const struct any_key *of = &any.key[key];
        uint64_t since = rule->since;

        for (uint32_t i = 0; i < any.gone_count; i++) {
                const struct any_rule *gone = &any.gone[i];

                if (any_begins(of, gone->bytes, gone->len) &&
                        (gone->prefix || gone->len == of->len) && gone->since > since)
                        since = gone->since;
        }
        return since;
}

uint64_t any_floor(void)
{
        return sb_load_acquire(&any.bus[0]->handle.segment.super->history_floor);
}

/* When a cut was taken; 0: not known. */
static uint64_t time_of(uint64_t cut)
{
        for (uint32_t i = 0; i < any.cut_count; i++)
                if (any.cut[i].cut == cut)
                        return any.cut[i].time_ns;
        return 0;
}

bool any_must_know(uint32_t key, uint64_t cut)
{
        const struct any_rule *rule = any_rule_of(key);

        if (any_is_marked(cut))
                return true;
        if (!rule || any_since(rule, key) > cut || any_floor() > cut)
                return false;
        /* What was current in the cut was replaced since then. */
        if (rule->kind == SB_KEEP_SPAN)
                return time_of(cut) != 0 && any.time_ns - time_of(cut) < rule->value;
        return rule->kind == SB_KEEP_ALL;
}

/* ---- guards ---- */

static bool is_same(struct sb_bytes bytes, const void *data, size_t len)
{
        return bytes.len == len && (len == 0 || memcmp(bytes.data, data, len) == 0);
}

void any_compare_guard(const struct sb_guard *guard, uint32_t key, const struct any_change *change)
{
        ANY_CHECK(is_same(guard->key, any.key[key].bytes, any.key[key].len),
                "the guard of key %u has another key", key);
        ANY_CHECK(is_same(guard->value, change->value, change->len),
                "key %u: another value, of %zu bytes instead of %u", key, guard->value.len,
                change->len);
        ANY_CHECK(guard->kind == (change->gone ? SB_DELETED : SB_VALUE), "key %u: kind %u", key,
                guard->kind);
        ANY_CHECK((change->rev == 0 || guard->rev == change->rev) && guard->cut == change->cut,
                "key %u: revision %llu, cut %llu instead of %llu, %llu", key,
                (unsigned long long)guard->rev, (unsigned long long)guard->cut,
                (unsigned long long)change->rev, (unsigned long long)change->cut);
        ANY_CHECK(change->txn_unknown || guard->txn == change->txn,
                "key %u: transaction %llx instead of %llx", key, (unsigned long long)guard->txn,
                (unsigned long long)change->txn);
}

void any_compare_seen(
        const struct sb_guard *guard, const struct any_txn *txn, uint64_t cut, uint32_t key)
{
        const struct any_write *own = txn ? &txn->write[key] : NULL;

        if (!own || own->kind == ANY_NOTHING) {
                any_compare_guard(guard, key, any_at(key, cut));
                return;
        }
        ANY_CHECK(guard->rev == 0 && guard->cut == 0 && guard->txn == 0 &&
                          is_same(guard->key, any.key[key].bytes, any.key[key].len) &&
                          is_same(guard->value, own->value, own->len),
                "key %u: a transaction sees another write than its own", key);
}

static struct sb_bytes copy_of(struct sb_bytes bytes)
{
        void *copy = malloc(bytes.len + 1);

        if (bytes.len > 0)
                memcpy(copy, bytes.data, bytes.len);
        return (struct sb_bytes){copy, bytes.len};
}

static void release(struct held *guard, bool look)
{
        if (!guard->used)
                return;
        ANY_CHECK(
                !look || (is_same(guard->guard.key, guard->key.data, guard->key.len) &&
                                 is_same(guard->guard.value, guard->value.data, guard->value.len)),
                "what a guard shows has changed");
        sb_guard_release(&guard->guard);
        free((void *)guard->key.data);
        free((void *)guard->value.data);
        guard->used = false;
}

/* Whether it is of a bus that is in a call. */
static bool is_asleep(const struct held *guard)
{
        return guard->used && any.asleep != 0 && guard->guard.bus == any.bus[any.asleep - 1];
}

void any_let_go(struct sb_guard *guard)
{
        struct held *place = &held[any_below(ANY_GUARDS)];

        if (!any_one_in(3) || is_asleep(place)) {
                sb_guard_release(guard);
                sb_guard_release(guard);
                return;
        }
        release(place, true);
        *place = (struct held){.guard = *guard,
                .key = copy_of(guard->key),
                .value = copy_of(guard->value),
                .used = true};
}

void any_release_all(void)
{
        for (uint32_t i = 0; i < ANY_GUARDS; i++)
                if (!is_asleep(&held[i]))
                        release(&held[i], true);
}

void any_guards_end(struct sb_bus *bus)
{
        for (uint32_t i = 0; i < ANY_GUARDS; i++) {
                if (!held[i].used || held[i].guard.bus != bus)
                        continue;
                release(&held[i], false);
        }
}
