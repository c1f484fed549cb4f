/* Single keys, by chance: written, and read now or in a cut of before. See any.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/any.h"

#define MANY      200u
#define SECOND_NS UINT64_C(1000000000)

/* A get that finds room for its guard. */
static int get(uint32_t bus, uint32_t key, struct sb_guard *ret_guard)
{
        int r = sb_get(any.bus[bus], any_bytes(key), ret_guard);

        if (r != SB_E_FULL)
                return r;
        any_release_all();
        return sb_get(any.bus[bus], any_bytes(key), ret_guard);
}

/* A key was given @value; what was not said of the write, its guard says. */
static void wrote(uint32_t bus, uint32_t key, struct sb_bytes value, uint64_t rev)
{
        struct sb_guard guard = {0};
        struct any_change change = {.value = (char *)value.data, .len = (uint32_t)value.len};
        int r = get(bus, key, &guard);

        ANY_CHECK(r == 0, "key %u is written, and a get says %d", key, r);
        ANY_CHECK(any_rev_is_next(key, rev), "key %u: revision %llu", key, (unsigned long long)rev);
        change.rev = rev;
        change.cut = any_written != 0 ? any_written : guard.cut;
        any_compare_guard(&guard, key, any_add(key, &change));
        any_let_go(&guard);
}

void any_set(void)
{
        uint32_t bus = any_bus(), key = any_key();
        struct sb_bytes value = any_value();
        uint64_t rev = 0;
        int r = sb_set(any.bus[bus], any_bytes(key), value, any_how(any_one_in(2)), &rev);

        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "set: %d", r);
        wrote(bus, key, value, rev);
}

void any_cas(void)
{
        uint32_t bus = any_bus(), key = any_key();
        struct sb_bytes value = any_value();
        uint64_t present = any_now(key) ? any_now(key)->rev : 0, rev = 0,
                 expected = any_one_in(3) ? present + any_below(3) : present;
        int r = sb_cas(any.bus[bus], any_bytes(key), expected, value, any_how(any_one_in(2)), &rev);

        if (any_is_full(r))
                return;
        ANY_CHECK(r == (expected == present ? 0 : SB_E_CONFLICT), "cas: %d", r);
        if (r == 0)
                wrote(bus, key, value, rev);
        else
                ANY_CHECK(rev == present, "cas: a conflict with %llu", (unsigned long long)rev);
}

void any_delete(void)
{
        uint32_t bus = any_bus(), key = any_key();
        uint64_t present = any_now(key) ? any_now(key)->rev : 0, rev = 0,
                 expected = any_one_in(3) ? 1 + present : SB_ANY_REV;
        int r = sb_delete(any.bus[bus], any_bytes(key), expected, any_how(true), &rev);

        if (any_is_full(r))
                return;
        if (present == 0) {
                ANY_CHECK(r == SB_E_NOT_FOUND, "delete of what has no value: %d", r);
                return;
        }
        if (expected != SB_ANY_REV) {
                ANY_CHECK(r == SB_E_CONFLICT && rev == present, "delete: %d", r);
                return;
        }
        ANY_CHECK(r == 0 && rev == present + 1, "delete: %d", r);
        any_add(key, &(struct any_change){.rev = rev, .cut = any_written, .gone = true});
}

/* Read a number as sb_incr() does. Return: false: it is none. */
static bool number_of(const struct any_change *change, int64_t *ret)
{
        char text[32] = "", again[32];

        *ret = 0;
        if (!change)
                return true;
        if (change->len == 0 || change->len > 20)
                return false;
        memcpy(text, change->value, change->len);
        errno = 0;
        *ret = strtoll(text, NULL, 10);
        snprintf(again, sizeof(again), "%lld", (long long)*ret);
        return errno == 0 && strlen(again) == change->len && strcmp(text, again) == 0;
}

void any_number(void)
{
        static const int64_t numbers[] = {0, 1, -1, 7, INT64_MAX, INT64_MIN, INT64_C(1000000007)};
        uint32_t bus = any_bus(), key = any_key();
        int64_t number = numbers[any_below(7)], have, got = 77, sum = number;
        bool raise = any_one_in(2), is_number = number_of(any_now(key), &have);
        const struct sb_write *how = any_how(any_one_in(2));
        uint64_t rev = 0;
        char text[32];
        int r = raise ? sb_max(any.bus[bus], any_bytes(key), number, how, &got, &rev)
                      : sb_incr(any.bus[bus], any_bytes(key), number, how, &got, &rev);

        if (any_is_full(r))
                return;
        if (!is_number) {
                ANY_CHECK(r == -EBADMSG && got == 77, "a number of what is none: %d", r);
                return;
        }
        if (raise && any_now(key) && have >= number) {
                ANY_CHECK(r == 0 && got == have && rev == 0, "max of as much: %d", r);
                return;
        }
        if (!raise && __builtin_add_overflow(have, number, &sum)) {
                ANY_CHECK(r == -ERANGE && got == 77, "a sum that does not fit: %d", r);
                return;
        }
        ANY_CHECK(r == 0 && got == sum, "a number: %d", r);
        snprintf(text, sizeof(text), "%lld", (long long)sum);
        wrote(bus, key, b(text), rev);
}

void any_append(void)
{
        uint32_t bus = any_bus(), key = any_key();
        const struct any_change *old = any_now(key);
        struct sb_bytes tail = any_value();
        size_t head = old ? old->len : 0;
        uint64_t rev = 0;
        char *whole;
        int r = sb_append(any.bus[bus], any_bytes(key), tail, any_how(any_one_in(2)), &rev);

        if (head + tail.len > any.value_len_max) {
                ANY_CHECK(r == -EMSGSIZE, "append of too much: %d", r);
                return;
        }
        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "append: %d", r);
        whole = malloc(head + tail.len + 1);
        if (head > 0)
                memcpy(whole, old->value, head);
        if (tail.len > 0)
                memcpy(whole + head, tail.data, tail.len);
        wrote(bus, key, (struct sb_bytes){whole, head + tail.len}, rev);
        free(whole);
}

void any_get(void)
{
        uint32_t key = any_key();
        const struct any_change *now = any_now(key);
        struct sb_guard guard = {0};
        int r = sb_get(any.bus[any_bus()], any_bytes(key), &guard);

        if (any_is_full(r))
                return;
        ANY_CHECK(r == (now ? 0 : SB_E_NOT_FOUND), "get of key %u: %d", key, r);
        if (!now)
                return;
        any_compare_guard(&guard, key, now);
        any_let_go(&guard);
}

/* The oldest version that is left of a key was once there. */
static void compare_oldest(struct sb_guard *guard, uint32_t key)
{
        const struct any_key *of = &any.key[key];

        for (uint32_t i = 0; i < of->count; i++)
                if (of->change[i].cut == guard->cut &&
                        (of->change[i].rev == 0 || of->change[i].rev == guard->rev)) {
                        any_compare_guard(guard, key, &of->change[i]);
                        any_let_go(guard);
                        return;
                }
        any_fail(__FILE__, __LINE__, "the oldest version of key %u was never there", key);
}

void any_get_at(void)
{
        uint32_t key = any_key();
        uint64_t cut = any_cut();
        bool known = any_must_know(key, cut);
        const struct any_change *then = any_at(key, cut);
        struct sb_bus *bus = any.bus[any_bus()];
        struct sb_guard guard = {.bus = bus};
        int r;

        if (cut == 0)
                return;
        r = sb_get_at(bus, any_bytes(key), cut, &guard);
        if (any_is_full(r))
                return;
        if (r == SB_E_LAPPED) {
                ANY_CHECK(!known || !any_must_know(key, cut), "key %u at %llu is kept, not known",
                        key, (unsigned long long)cut);
                any.lapped++;
                if (guard.bus)
                        compare_oldest(&guard, key);
                return;
        }
        any.known += known;
        ANY_CHECK(r == (then ? 0 : SB_E_NOT_FOUND), "key %u at %llu: %d", key,
                (unsigned long long)cut, r);
        if (!then)
                return;
        any_compare_guard(&guard, key, then);
        any_let_go(&guard);
}

void any_get_many(void)
{
        static struct sb_guard guards[MANY];
        struct sb_bytes keys[MANY];
        uint32_t drawn[MANY], count = (uint32_t)any_below(any_one_in(8) ? MANY : 12);
        uint64_t cut = any_one_in(3) ? any_cut() : 0;
        bool known = cut != 0;
        struct sb_bus *bus = any.bus[any_bus()];
        int r;

        for (uint32_t i = 0; i < count; i++) {
                guards[i] = (struct sb_guard){.bus = bus};
                drawn[i] = any_key();
                keys[i] = any_bytes(drawn[i]);
                known = known && any_must_know(drawn[i], cut);
        }
        r = cut == 0 && any_one_in(2) ? sb_get_many(bus, keys, count, guards)
                                      : sb_get_many_at(bus, keys, count, cut, guards);
        if (any_is_full(r))
                return;
        if (r == SB_E_LAPPED && cut != 0) {
                ANY_CHECK(!known || count == 0, "keys that are kept are not known");
                any.lapped++;
                return;
        }
        ANY_CHECK(r == 0, "get of many: %d", r);
        for (uint32_t i = 0; i < count; i++) {
                struct any_change *change = any_at(drawn[i], cut == 0 ? UINT64_MAX : cut);

                ANY_CHECK(!change == !guards[i].bus, "key %u of many", drawn[i]);
                if (!change)
                        continue;
                any_compare_guard(&guards[i], drawn[i], change);
                any_let_go(&guards[i]);
        }
}

/* The cut that a time of the test's own clock names has nothing that was written later. */
void any_cut_at(void)
{
        uint64_t back_ns = any_one_in(2) ? any_below(SECOND_NS) : any_below(7200 * SECOND_NS),
                 cut = 0;
        int r;

        if (any.time_ns == 0)
                return;
        r = sb_cut_at(any.bus[any_bus()], any.time_ns - back_ns, &cut);
        ANY_CHECK(r == 0 || r == SB_E_LAPPED, "a cut of before: %d", r);
        for (uint32_t key = 0; r == 0 && key < any.key_count; key++)
                for (uint32_t i = any.key[key].count; i-- > 0;) {
                        const struct any_change *change = &any.key[key].change[i];

                        ANY_CHECK(change->cut > cut || change->time_ns <= any.time_ns - back_ns,
                                "key %u was written later, and is in cut %llu", key,
                                (unsigned long long)cut);
                }
}

void any_take_cut(void)
{
        uint64_t cut = 0;
        int r = sb_cut_at(any.bus[any_bus()], UINT64_MAX, &cut);

        ANY_CHECK(r == 0, "a cut: %d", r);
        any_saw_cut(cut);
}
