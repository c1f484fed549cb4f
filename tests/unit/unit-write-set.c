/*
 * A transaction's write set (libclient/core/write-set.h), against a plain table of what each of a
 * few keys has; and what is left of it when an allocation fails.
 *
 * The program is linked so that the write set's allocations come here first (see meson.build).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/core/write-set.h"
#include "shm/base/bytes.h"
#include "tests/harness/test.h"

#define KEYS   64u
#define ROUNDS 300u
#define STEPS  400u
#define MANY   50000u
#define TAKEN  20000u

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static uint32_t allocations_left = UINT32_MAX;
void *__wrap_malloc(size_t size)
{
        if (allocations_left == 0)
                return NULL;
        if (allocations_left != UINT32_MAX)
                allocations_left--;
        return __real_malloc(size);
}

static uint64_t state;
static uint32_t draw(uint32_t below)
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(state >> 33) % below;
}

/* Short keys, some of which begin with others, with bytes on both sides of 0x80. */
struct key {
        unsigned char bytes[3];
        uint32_t len;
};
static struct key keys[KEYS];

static int compare(const void *a, const void *b)
{
        const struct key *x = a, *y = b;

        return sb_bytes_compare(x->bytes, x->len, y->bytes, y->len);
}

static void make_keys(void)
{
        static const unsigned char letters[] = {0, 0x7f, 0x80, 0xff};

        for (uint32_t i = 0; i < KEYS; i++) {
                struct key *key = &keys[i];

                key->len = 1 + i % 3;
                key->bytes[0] = (unsigned char)(i / 3 * 12);
                key->bytes[1] = letters[i % 4];
                key->bytes[2] = letters[i / 4 % 4];
        }
        qsort(keys, KEYS, sizeof(keys[0]), compare);
}

static struct sb_bytes key_of(uint32_t i)
{
        return (struct sb_bytes){keys[i].bytes, keys[i].len};
}

static struct sb_bytes text(const char *bytes)
{
        return (struct sb_bytes){bytes, strlen(bytes)};
}

#define NOTHING 0

/* What the set should have: of each key, nothing, or a kind and a number as its value. */
struct model {
        enum sb_write_set_kind kind[KEYS];
        uint32_t number[KEYS];
};

/* Whether @entry is what @model has at @i; both may be nothing. */
static bool is_entry(const struct sb_write_set_entry *entry, const struct model *model, uint32_t i)
{
        const struct sb_write_set_value *value;
        uint64_t len;

        if (i >= KEYS || !entry)
                return i >= KEYS && !entry;
        value = entry->value;
        len = model->kind[i] == SB_WRITE_SET_VALUE ? sizeof(model->number[i]) : 0;
        return entry->kind == model->kind[i] && value->key_len == keys[i].len &&
               memcmp(value->bytes, keys[i].bytes, keys[i].len) == 0 && value->value_len == len &&
               memcmp(value->bytes + value->key_len, &model->number[i], len) == 0;
}

/* The first key of @model from @i on that is written; KEYS: there is none. */
static uint32_t first_from(const struct model *model, uint32_t i)
{
        while (i < KEYS && model->kind[i] == NOTHING)
                i++;
        return i;
}

/* The last key of @model below @i that is written; KEYS: there is none. */
static uint32_t last_below(const struct model *model, uint32_t i)
{
        while (i > 0 && model->kind[i - 1] == NOTHING)
                i--;
        return i > 0 ? i - 1 : KEYS;
}

/* Whether all ways to look at the set show what @model has. */
static bool is_model(const struct sb_write_set *writes, const struct model *model)
{
        const struct sb_write_set_entry *entry = NULL;
        uint32_t count = 0;

        for (uint32_t i = first_from(model, 0); i < KEYS; i = first_from(model, i + 1)) {
                entry = sb_write_set_next(writes, entry);
                if (!is_entry(entry, model, i))
                        return false;
                count++;
        }
        if (sb_write_set_next(writes, entry) || writes->count != count)
                return false;
        for (uint32_t i = 0; i < KEYS; i++) {
                const unsigned char *key = keys[i].bytes;
                uint32_t len = keys[i].len, found = first_from(model, i) == i ? i : KEYS;

                if (!is_entry(sb_write_set_find(writes, key, len), model, found) ||
                        !is_entry(sb_write_set_above(writes, key, len, false), model,
                                first_from(model, i)) ||
                        !is_entry(sb_write_set_above(writes, key, len, true), model,
                                first_from(model, i + 1)) ||
                        !is_entry(sb_write_set_below(writes, key, len, false), model,
                                last_below(model, i)) ||
                        !is_entry(sb_write_set_below(writes, key, len, true), model,
                                last_below(model, i + 1)))
                        return false;
        }
        return true;
}

static int put(struct sb_write_set *writes, uint32_t i, enum sb_write_set_kind kind,
        uint32_t number, struct model *model)
{
        struct sb_bytes value = {&number, kind == SB_WRITE_SET_VALUE ? sizeof(number) : 0};
        int r = sb_write_set_put(writes, kind, key_of(i), value);

        if (r == 0) {
                model->kind[i] = kind;
                model->number[i] = number;
        }
        return r;
}

/* Put, delete or take back a key at random. Return: 0, -ENOMEM. */
static int step(struct sb_write_set *writes, struct model *model)
{
        uint32_t i = draw(KEYS), what = draw(8);

        if (what > 1)
                return put(writes, i, SB_WRITE_SET_VALUE, draw(1000000), model);
        if (what == 1)
                return put(writes, i, SB_WRITE_SET_DELETED, 0, model);
        if (model->kind[i] == NOTHING)
                return 0;
        sb_write_set_drop(writes, sb_write_set_find(writes, keys[i].bytes, keys[i].len));
        model->kind[i] = NOTHING;
        return 0;
}

static void test_it_shows_what_was_written_last_and_in_byte_order(void)
{
        struct sb_write_set writes = {0};

        for (uint32_t round = 0; round < ROUNDS; round++) {
                struct model model = {0};

                state = round;
                for (uint32_t i = 0, steps = draw(STEPS); i < steps; i++)
                        CHECK(step(&writes, &model) == 0);
                if (!is_model(&writes, &model))
                        TEST_FAIL("round %u", round);
                sb_write_set_clear(&writes);
        }
        sb_write_set_fini(&writes);
}

static void test_an_empty_set_gives_nothing(void)
{
        struct sb_write_set writes = {0};
        struct model model = {0};

        CHECK(is_model(&writes, &model));
        sb_write_set_clear(&writes);
        CHECK(is_model(&writes, &model));
        sb_write_set_fini(&writes);
}

static void test_a_write_that_was_taken_back_can_be_made_again(void)
{
        struct sb_write_set writes = {0};
        struct model model = {0};

        for (uint32_t i = 0; i < KEYS; i++)
                CHECK(put(&writes, i, SB_WRITE_SET_VALUE, i, &model) == 0);
        for (uint32_t i = 0; i < KEYS; i++) {
                sb_write_set_drop(&writes, sb_write_set_find(&writes, keys[i].bytes, keys[i].len));
                model.kind[i] = NOTHING;
                CHECK(is_model(&writes, &model));
        }
        CHECK_EQ(writes.count, 0);
        CHECK(put(&writes, KEYS / 2, SB_WRITE_SET_DELETED, 0, &model) == 0);
        CHECK(is_model(&writes, &model));
        CHECK_EQ(writes.count, 1);
        sb_write_set_fini(&writes);
}

/* The shortest time of many searches for the last key below @key. */
static uint64_t time_search(const struct sb_write_set *writes, struct sb_bytes key)
{
        uint64_t least_ns = UINT64_MAX;

        for (uint32_t i = 0; i < 20; i++) {
                struct timespec began, ended;
                uint64_t took_ns;

                clock_gettime(CLOCK_MONOTONIC, &began);
                if (!sb_write_set_below(writes, key.data, key.len, false))
                        return UINT64_MAX;
                clock_gettime(CLOCK_MONOTONIC, &ended);
                took_ns = (uint64_t)(ended.tv_sec - began.tv_sec) * 1000000000 +
                          (uint64_t)ended.tv_nsec - (uint64_t)began.tv_nsec;
                least_ns = took_ns < least_ns ? took_ns : least_ns;
        }
        return least_ns;
}

static void test_what_was_taken_back_is_in_the_way_of_no_search_and_keeps_no_memory(void)
{
        struct sb_write_set writes = {0};
        uint64_t with_ns;
        char name[16];

        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, text("a"), text("")) == 0);
        /* One for each value, and a few chunks of entries: of each height there is one. */
        allocations_left = 2 * TAKEN + SB_WRITE_SET_HEIGHT_MAX;
        for (uint32_t i = 0; i < 2 * TAKEN; i++) {
                snprintf(name, sizeof(name), "m%05u", i % TAKEN);
                CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, text(name), text("")) == 0);
                sb_write_set_drop(&writes, sb_write_set_find(&writes, name, strlen(name)));
        }
        allocations_left = UINT32_MAX;
        for (uint32_t i = 0; i < TAKEN; i++) {
                snprintf(name, sizeof(name), "m%05u", i);
                CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, text(name), text("")) == 0);
        }
        with_ns = time_search(&writes, text("z"));
        for (uint32_t i = 0; i < TAKEN; i++) {
                snprintf(name, sizeof(name), "m%05u", i);
                sb_write_set_drop(&writes, sb_write_set_find(&writes, name, strlen(name)));
        }
        CHECK_EQ(writes.count, 1);
        /* It goes by fewer entries than before. */
        CHECK(time_search(&writes, text("z")) < 10 * with_ns + 1000);
        sb_write_set_fini(&writes);
}

/* Each call fails at its first allocation, or at its second, which a chunk of entries needs. */
static void test_without_memory_a_write_changes_nothing(void)
{
        struct sb_write_set writes = {0};
        uint32_t failures = 0;

        for (uint32_t round = 0; round < ROUNDS; round++) {
                struct model model = {0};

                state = round;
                for (uint32_t i = 0, steps = draw(STEPS); i < steps; i++) {
                        int r;

                        allocations_left = draw(4) == 0 ? draw(2) : UINT32_MAX;
                        r = step(&writes, &model);
                        allocations_left = UINT32_MAX;
                        CHECK(r == 0 || r == -ENOMEM);
                        failures += r != 0;
                        if (r != 0 && i % 16 == 0 && !is_model(&writes, &model))
                                TEST_FAIL("round %u, step %u", round, i);
                }
                if (!is_model(&writes, &model))
                        TEST_FAIL("round %u", round);
                sb_write_set_fini(&writes);
        }
        CHECK(failures > ROUNDS);
}

static void test_the_first_write_fails_at_either_allocation(void)
{
        for (uint32_t left = 0; left < 2; left++) {
                struct sb_write_set writes = {0};
                struct model model = {0};
                int r;

                allocations_left = left;
                r = put(&writes, 0, SB_WRITE_SET_VALUE, 1, &model);
                allocations_left = UINT32_MAX;
                CHECK_EQ(r, -ENOMEM);
                CHECK(is_model(&writes, &model));
                CHECK(put(&writes, 0, SB_WRITE_SET_VALUE, 2, &model) == 0);
                CHECK(is_model(&writes, &model));
                sb_write_set_fini(&writes);
        }
}

static void test_a_held_value_outlives_another_write_of_its_key_and_the_set(void)
{
        struct sb_write_set writes = {0};
        struct sb_write_set_value *held = NULL, *first, *second;

        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, text("key"), text("first")) == 0);
        first = sb_write_set_find(&writes, "key", 3)->value;
        sb_write_set_value_hold(first, &held);
        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, text("key"), text("second")) == 0);
        second = sb_write_set_find(&writes, "key", 3)->value;
        sb_write_set_value_hold(second, &held);
        sb_write_set_value_hold(second, &held);
        CHECK(held == second && second->next == first && !first->next);
        CHECK(memcmp(first->bytes, "keyfirst", 8) == 0);
        sb_write_set_fini(&writes);
        CHECK(memcmp(second->bytes, "keysecond", 9) == 0);
        sb_write_set_value_drop(second);
        CHECK(held == second && memcmp(second->bytes, "keysecond", 9) == 0);
        sb_write_set_value_drop(second);
        CHECK(held == first && memcmp(first->bytes, "keyfirst", 8) == 0);
        sb_write_set_value_drop(first);
        CHECK(!held);
}

/* Ascending, descending, and mixed (31 has no factor in common with MANY). */
static void test_many_writes_come_in_order_however_they_were_made(void)
{
        for (uint32_t way = 0; way < 3; way++) {
                struct sb_write_set writes = {0};
                const struct sb_write_set_entry *entry = NULL;
                unsigned char bytes[4];

                for (uint32_t i = 0; i < MANY; i++) {
                        uint32_t n = way == 0 ? i : way == 1 ? MANY - 1 - i : i * 31u % MANY;

                        n = __builtin_bswap32(n);
                        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE,
                                      (struct sb_bytes){&n, sizeof(n)},
                                      (struct sb_bytes){NULL, 0}) == 0);
                }
                CHECK_EQ(writes.count, MANY);
                for (uint32_t i = 0; i < MANY; i++) {
                        uint32_t n = __builtin_bswap32(i);

                        entry = sb_write_set_next(&writes, entry);
                        memcpy(bytes, &n, sizeof(n));
                        CHECK(entry && memcmp(entry->value->bytes, bytes, 4) == 0);
                        CHECK(sb_write_set_find(&writes, bytes, 4) == entry);
                }
                CHECK(!sb_write_set_next(&writes, entry));
                sb_write_set_fini(&writes);
        }
}

static void test_a_set_that_was_cleared_begins_in_the_memory_that_it_has(void)
{
        struct sb_write_set writes = {0};
        const struct sb_write_set_entry *first;

        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, (struct sb_bytes){"key", 3},
                      (struct sb_bytes){NULL, 0}) == 0);
        first = writes.head[0];
        sb_write_set_clear(&writes);
        allocations_left = 1; /* for the value */
        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, (struct sb_bytes){"kex", 3},
                      (struct sb_bytes){NULL, 0}) == 0);
        allocations_left = UINT32_MAX;
        CHECK(writes.head[0] == first && writes.count == 1);
        sb_write_set_fini(&writes);
}

/* One write in sixteen million draws more than there are levels. */
static void test_no_write_is_higher_than_the_list(void)
{
        struct sb_write_set writes = {.random = 2439439523}; /* the next draw: 30 zeros */
        static const char key[] = "key";

        CHECK(sb_write_set_put(&writes, SB_WRITE_SET_VALUE, (struct sb_bytes){key, 3},
                      (struct sb_bytes){NULL, 0}) == 0);
        CHECK_EQ(writes.height, SB_WRITE_SET_HEIGHT_MAX);
        CHECK_EQ(writes.head[0]->height, SB_WRITE_SET_HEIGHT_MAX);
        CHECK(sb_write_set_find(&writes, key, 3) == writes.head[0]);
        sb_write_set_fini(&writes);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        make_keys();
        RUN(test_it_shows_what_was_written_last_and_in_byte_order);
        RUN(test_an_empty_set_gives_nothing);
        RUN(test_a_write_that_was_taken_back_can_be_made_again);
        RUN(test_what_was_taken_back_is_in_the_way_of_no_search_and_keeps_no_memory);
        RUN(test_without_memory_a_write_changes_nothing);
        RUN(test_the_first_write_fails_at_either_allocation);
        RUN(test_a_held_value_outlives_another_write_of_its_key_and_the_set);
        RUN(test_a_set_that_was_cleared_begins_in_the_memory_that_it_has);
        RUN(test_no_write_is_higher_than_the_list);
        RUN(test_many_writes_come_in_order_however_they_were_made);
        return test_end();
}
