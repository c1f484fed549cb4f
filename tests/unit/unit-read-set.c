/*
 * A transaction's read set (libclient/core/read-set.h), against a plain list of what was read.
 *
 * Each round notes keys and ranges at random, and has them put in order twice, as for two commits.
 * Keys are so few and short that the test can ask for each of them whether it is in the set.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/core/read-set.h"
#include "ring/op/commit.h"
#include "shm/base/bytes.h"
#include "shm/layout/block.h"
#include "tests/harness/test.h"

#define KEY_LEN_MAX 3u
#define LETTERS     4u  /* 0, 1, 0xfe and 0xff */
#define KEYS        85u /* keys of up to three letters, the empty key first */
#define ROUNDS      3000u

struct key {
        unsigned char bytes[KEY_LEN_MAX];
        uint32_t len;
};
static struct key keys[KEYS]; /* ascending; keys[0] is empty and no key */

static uint64_t state;
static uint32_t draw(uint32_t below)
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(state >> 33) % below;
}

static int compare(const void *a, const void *b)
{
        const struct key *x = a, *y = b;

        return sb_bytes_compare(x->bytes, x->len, y->bytes, y->len);
}

static void make_keys(void)
{
        static const unsigned char letters[LETTERS] = {0, 1, 0xfe, 0xff};
        uint32_t count = 0;

        keys[count++].len = 0;
        for (uint32_t from = 0; from < count && keys[from].len < KEY_LEN_MAX; from++)
                for (uint32_t i = 0; i < LETTERS; i++) {
                        keys[count] = keys[from];
                        keys[count].bytes[keys[count].len++] = letters[i];
                        count++;
                }
        qsort(keys, KEYS, sizeof(keys[0]), compare);
}

static bool holds(const struct sb_commit_range *range, const struct key *key)
{
        int low = sb_bytes_compare(range->low, range->low_len, key->bytes, key->len);

        if (range->flags & SB_RANGE_POINT)
                return low == 0;
        return low <= 0 &&
               (range->flags & SB_RANGE_NO_END ||
                       sb_bytes_compare(key->bytes, key->len, range->high, range->high_len) < 0);
}

/* Note a key, or what lies between two edges, in the set and in @read. */
static void read_some(struct sb_read_set *reads, bool read[KEYS])
{
        uint32_t a = draw(KEYS), b = draw(KEYS);
        struct sb_read_set_edge from = {keys[a].bytes, keys[a].len, draw(2)},
                                to = {keys[b].bytes, keys[b].len, draw(2)};

        if (draw(2)) {
                a = a ? a : 1;
                sb_read_set_add_key(reads, keys[a].bytes, keys[a].len);
                read[a] = true;
                return;
        }
        sb_read_set_add_range(reads, &from, &to);
        for (uint32_t i = a + from.behind; i < b + to.behind; i++)
                read[i] = true;
}

/* Note ranges as a scan does: each step begins where the last one ended, and goes on or back. */
static void scan_some(struct sb_read_set *reads, const struct sb_write_set *writes, bool read[KEYS])
{
        uint32_t at = draw(KEYS), steps = draw(5);
        bool back = draw(2), behind = draw(2);

        while (steps-- > 0 && (back ? at > 2 : at + 3 < KEYS)) {
                uint32_t next = back ? at - 1 - draw(2) : at + 1 + draw(2);
                struct sb_read_set_edge here = {keys[at].bytes, keys[at].len, behind},
                                        there = {keys[next].bytes, keys[next].len, !back};

                if (sb_read_set_prepare(reads, writes) != 0)
                        return;
                sb_read_set_add_range(reads, back ? &there : &here, back ? &here : &there);
                for (uint32_t i = back ? next : at + behind; i < (back ? at + behind : next + 1);
                        i++)
                        read[i] = true;
                at = next;
                behind = !back;
        }
}

/* Whether the ranges are ascending and disjoint, and have in them all that was read and not
 * written; and nothing else, if they are @exact. */
static bool right(const struct sb_commit_range *ordered, uint32_t count, const bool read[KEYS],
        const bool written[KEYS], bool exact)
{
        for (uint32_t i = 1; i < KEYS; i++) {
                uint32_t in = 0;

                for (uint32_t j = 0; j < count; j++)
                        in += holds(&ordered[j], &keys[i]);
                if (in > 1 || (read[i] && !written[i] && in == 0) || (exact && !read[i] && in > 0))
                        return false;
        }
        for (uint32_t j = 1; j < count; j++)
                if (sb_bytes_compare(ordered[j - 1].low, ordered[j - 1].low_len, ordered[j].low,
                            ordered[j].low_len) >= 0)
                        return false;
        return true;
}

/* The bytes that the ranges take in a descriptor. */
static uint64_t packed(const struct sb_commit_range *ordered, uint32_t count)
{
        uint64_t len = 0;

        for (uint32_t i = 0; i < count; i++)
                len += SB_RANGE_HEAD + ordered[i].low_len + ordered[i].high_len;
        return len;
}

/* Make one transaction, with two commits, and reads before each of them. */
static bool one_round(
        struct sb_read_set *reads, struct sb_write_set *writes, uint64_t len_max, bool exact)
{
        bool read[KEYS] = {0}, written[KEYS] = {0};
        const struct sb_commit_range *ordered;
        uint32_t count, amount = 1 + draw(60);

        for (unsigned commits = 0; commits < 2; commits++) {
                for (uint32_t i = 0; i < amount; i++) {
                        uint32_t key = 1 + draw(KEYS - 1);

                        if (sb_read_set_prepare(reads, writes) != 0)
                                return false;
                        if (draw(3))
                                read_some(reads, read);
                        else
                                scan_some(reads, writes, read);
                        if (draw(8))
                                continue;
                        if (sb_write_set_put(writes, SB_WRITE_SET_VALUE,
                                    (struct sb_bytes){keys[key].bytes, keys[key].len},
                                    (struct sb_bytes){NULL, 0}) != 0)
                                return false;
                        written[key] = true;
                }
                if (sb_read_set_order(reads, writes, len_max, &ordered, &count) != 0 ||
                        !right(ordered, count, read, written, exact) ||
                        (packed(ordered, count) > len_max && count > 1))
                        return false;
        }
        sb_read_set_clear(reads);
        sb_write_set_clear(writes);
        return true;
}

static bool all_rounds(uint64_t len_max, bool exact)
{
        struct sb_read_set reads = {.key_len_max = KEY_LEN_MAX, .len_max = len_max};
        struct sb_write_set writes = {0};
        bool good = true;

        make_keys();
        for (uint32_t round = 0; good && round < ROUNDS; round++) {
                state = (uint64_t)round << 32 | len_max;
                good = one_round(&reads, &writes, len_max, exact);
                if (!good)
                        printf("round %u, at most %ju bytes\n", round, (uintmax_t)len_max);
        }
        sb_read_set_fini(&reads);
        sb_write_set_fini(&writes);
        return good;
}

static void test_what_was_read_is_in_exactly_one_range_and_nothing_else_is(void)
{
        CHECK(all_rounds(1 << 20, true));
}

static void test_with_less_space_it_gets_coarser_and_forgets_nothing(void)
{
        for (uint64_t len_max = 8; len_max < 500; len_max *= 2)
                CHECK(all_rounds(len_max, false));
}

/* What lies behind keys[@from] up to keys[@to] with it, or, backwards, from keys[@to] on up to
 * keys[@from]. */
static void add_step(struct sb_read_set *reads, uint32_t from, uint32_t to, bool back)
{
        struct sb_read_set_edge low = {keys[from].bytes, keys[from].len, !back},
                                high = {keys[to].bytes, keys[to].len, !back};

        sb_read_set_add_range(reads, &low, &high);
}

static void test_a_scan_is_one_range_however_many_steps_it_takes(void)
{
        struct sb_read_set reads = {.key_len_max = KEY_LEN_MAX, .len_max = 1 << 20};
        struct sb_write_set writes = {0};

        make_keys();
        CHECK_EQ(sb_read_set_prepare(&reads, &writes), 0);
        add_step(&reads, 10, 10, false); /* nothing */
        CHECK_EQ(reads.count, 0);
        for (uint32_t i = 10; i < 40; i++) {
                CHECK_EQ(sb_read_set_prepare(&reads, &writes), 0);
                add_step(&reads, i, i + 1, false);
                CHECK_EQ(reads.count, 1);
        }
        for (uint32_t i = 80; i > 50; i--) {
                CHECK_EQ(sb_read_set_prepare(&reads, &writes), 0);
                add_step(&reads, i - 1, i, true);
                CHECK_EQ(reads.count, 2);
        }
        sb_read_set_fini(&reads);
}

static void test_commits_that_are_tried_again_take_no_more_memory(void)
{
        struct sb_read_set reads = {.key_len_max = KEY_LEN_MAX, .len_max = 1 << 20};
        struct sb_write_set writes = {0};
        const struct sb_commit_range *ordered;
        uint64_t used = 0;
        uint32_t count;

        make_keys();
        for (uint32_t i = 10; i < 70; i += 3) {
                CHECK_EQ(sb_read_set_prepare(&reads, &writes), 0);
                add_step(&reads, i, i + 1, false);
        }
        for (uint32_t i = 0; i < 20; i++) {
                CHECK_EQ(sb_read_set_order(&reads, &writes, 1 << 20, &ordered, &count), 0);
                CHECK_EQ(count, 20);
                CHECK(!i || reads.used == used);
                used = reads.used;
        }
        sb_read_set_fini(&reads);
}

/* The next transaction has arrays at hand, but a few long keys keep no memory for ever. */
static void test_a_large_set_leaves_its_memory_and_a_small_one_its_arrays(void)
{
        static unsigned char key[SB_KEY_LEN_MAX];

        for (uint32_t count = 1; count <= 100; count += 99) {
                struct sb_read_set reads = {.key_len_max = SB_KEY_LEN_MAX, .len_max = 1 << 20};
                struct sb_write_set writes = {0};

                for (uint32_t i = 0; i < count; i++) {
                        memcpy(key, &i, sizeof(i));
                        CHECK_EQ(sb_read_set_prepare(&reads, &writes), 0);
                        sb_read_set_add_key(&reads, key, SB_KEY_LEN_MAX);
                }
                CHECK_EQ(reads.used, (uint64_t)count * SB_KEY_LEN_MAX);
                sb_read_set_clear(&reads);
                CHECK_EQ(reads.size > 0, count == 1);
                CHECK(!reads.count && !reads.used);
                sb_read_set_fini(&reads);
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_was_read_is_in_exactly_one_range_and_nothing_else_is);
        RUN(test_with_less_space_it_gets_coarser_and_forgets_nothing);
        RUN(test_a_scan_is_one_range_however_many_steps_it_takes);
        RUN(test_commits_that_are_tried_again_take_no_more_memory);
        RUN(test_a_large_set_leaves_its_memory_and_a_small_one_its_arrays);
        return test_end();
}
