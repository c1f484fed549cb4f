/* Ranges: the end of a scan, places to stand at, and batches. */
#include <errno.h>
#include <stdlib.h>

#include "libclient/core/bus.h"
#include "tests/api/txns.h"

/* A plain write of another client. */
static int give(const char *key)
{
        return put(key, key);
}

static struct sb_scan *scan_to(const char *prefix, const char *end, uint32_t flags)
{
        struct sb_scan_options how = {.size = sizeof(how), .flags = flags};
        struct sb_scan *scan = NULL;

        if (end)
                how.end = b(end);
        return sb_scan_open_at(bus, b(prefix), &how, &scan) == 0 ? scan : NULL;
}

/* As gives(), by batches of @count. */
static bool gives_many(struct sb_scan *scan, size_t count, const char *expected)
{
        struct sb_guard guards[16] = {0};
        char got[1024] = "";
        size_t given = 0;
        int r;

        while ((r = sb_scan_next_many(scan, guards, count, &given)) == 0) {
                if (given == 0 || given > count)
                        return false;
                for (size_t i = 0; i < given; i++) {
                        size_t len = strlen(got);

                        snprintf(got + len, sizeof(got) - len, guards[i].rev ? "%.*s " : "[%.*s] ",
                                (int)guards[i].key.len, (const char *)guards[i].key.data);
                        sb_guard_release(&guards[i]);
                }
        }
        if (r != SB_E_NOT_FOUND || strcmp(got, expected) != 0)
                printf("%d, got '%s', expected '%s'\n", r, got, expected);
        return r == SB_E_NOT_FOUND && strcmp(got, expected) == 0;
}

/* ---- the end ---- */

static void test_a_scan_with_an_end_gives_the_keys_below_it_both_ways(void)
{
        struct sb_scan *scan;

        BEGIN();
        CHECK(!give("a") && !give("b") && !give("b1") && !give("b2") && !give("b3") && !give("c"));
        scan = scan_to("", "b2", 0);
        CHECK(gives(scan, false, "a b b1 ") && gives(scan, false, "") &&
                gives(scan, true, "b1 b a "));
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives(scan, true, "b1 b a "));
        CHECK_EQ(sb_scan_seek(scan, b("zz")), 0);
        CHECK(gives(scan, true, "b1 b a "));
        CHECK_EQ(sb_scan_seek(scan, b("b2")), 0);
        CHECK(gives(scan, false, "") && gives(scan, true, "b1 b a "));
        CHECK_EQ(sb_scan_seek_last(scan, b("b2")), 0);
        CHECK(gives(scan, false, "") && gives(scan, true, "b1 b a "));
        CHECK(!sb_scan_close(scan));
        scan = scan_to("b", "b2", SB_REVERSE);
        CHECK(gives(scan, false, "b1 b ") && gives(scan, true, "b b1 "));
        CHECK(!sb_scan_close(scan));
        /* The end need not be a key, nor begin with the prefix. */
        scan = scan_to("b", "b25", SB_REVERSE);
        CHECK(gives(scan, false, "b2 b1 b "));
        CHECK(!sb_scan_close(scan));
        scan = scan_to("b", "x", SB_REVERSE);
        CHECK(gives(scan, false, "b3 b2 b1 b ") && gives(scan, true, "b b1 b2 b3 "));
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_nothing_is_below_an_end_at_or_below_the_prefix(void)
{
        static const char *const ends[] = {"", "a", "b"};
        struct sb_scan *scan;

        BEGIN();
        CHECK(!give("a") && !give("b") && !give("b1"));
        for (unsigned i = 0; i < 3; i++)
                for (unsigned reverse = 0; reverse < 2; reverse++) {
                        scan = scan_to("b", ends[i], reverse ? SB_REVERSE : 0);
                        CHECK(gives(scan, false, "") && gives(scan, true, ""));
                        CHECK_EQ(sb_scan_seek(scan, b("b1")), 0);
                        CHECK(gives(scan, false, "") && gives(scan, true, ""));
                        CHECK_EQ(sb_scan_seek_end(scan), 0);
                        CHECK(gives(scan, true, "") && gives(scan, false, ""));
                        CHECK(!sb_scan_close(scan));
                }
        END();
}

static void test_an_end_bounds_what_a_transaction_wrote_itself(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .end = b("b2")};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        CHECK(!give("a") && !give("b1") && !give("b3"));
        txn = begin(SB_SNAPSHOT);
        CHECK(!set(txn, "b", "mine") && !set(txn, "b2", "mine") && !set(txn, "b9", "mine"));
        how.txn = txn;
        CHECK_EQ(sb_scan_open_at(bus, none, &how, &scan), 0);
        CHECK(gives(scan, false, "a [b] b1 ") && gives(scan, true, "b1 [b] a "));
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(!set(txn, "b1x", "mine"));
        CHECK_EQ(sb_txn_delete(txn, b("a")), 0);
        CHECK(gives(scan, true, "[b1x] b1 [b] "));
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_txn_end(txn));
        END();
}

/* What lies at or behind the end was not read; what lies between the last key and the end was. */
static void test_a_serializable_transaction_has_read_up_to_the_end_and_no_further(void)
{
        static const struct {
                const char *key;
                bool conflicts;
        } cases[] = {{"a", false}, {"b", true}, {"b15", true}, {"b2", false}, {"c", false}};
        struct sb_scan_options how = {.size = sizeof(how), .end = b("b2")};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (unsigned reverse = 0; reverse < 2; reverse++) {
                        CHECK(!give("b1"));
                        txn = begin(SB_SERIALIZABLE);
                        how.txn = txn;
                        how.flags = reverse ? SB_REVERSE : 0;
                        CHECK_EQ(sb_scan_open_at(bus, b("b"), &how, &scan), 0);
                        CHECK(gives(scan, false, "b1 "));
                        CHECK(!sb_scan_close(scan));
                        CHECK(!give(cases[i].key));
                        CHECK(!set(txn, "result", "1"));
                        CHECK_EQ(sb_txn_commit(txn, NULL), cases[i].conflicts ? SB_E_CONFLICT : 0);
                        CHECK(!cases[i].conflicts || conflict_is(txn, cases[i].key));
                        CHECK(!sb_txn_end(txn));
                        CHECK(!take(cases[i].key));
                }
        END();
}

static void test_an_end_holds_in_the_past_and_with_a_limit(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .limit = 2, .end = b("k4")};
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK(!give("k1") && !give("k2") && !give("k3") && !give("k4"));
        CHECK_EQ(sb_mark(bus, b("then"), &how.cut), 0);
        CHECK(!take("k2") && !give("k25"));
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK(gives(scan, false, "k1 k2 ") && gives(scan, true, "k2 k1 "));
        CHECK(!sb_scan_close(scan));
        how.limit = 0;
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK(gives(scan, false, "k1 k2 k3 "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_mark_drop(bus, b("then")), 0);
        END();
}

/* ---- places to stand at ---- */

static void test_seek_last_stands_behind_a_key(void)
{
        struct sb_scan *scan;

        BEGIN();
        CHECK(!give("a") && !give("b1") && !give("b3") && !give("b5") && !give("c"));
        scan = scan_to("b", NULL, 0);
        CHECK_EQ(sb_scan_seek_last(scan, b("b3")), 0);
        CHECK(gives(scan, false, "b5 ") && gives(scan, true, "b5 b3 b1 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("b3")), 0);
        CHECK(gives(scan, true, "b3 b1 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("b4")), 0);
        CHECK(gives(scan, true, "b3 b1 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("b30")), 0);
        CHECK(gives(scan, false, "b5 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("a")), 0); /* below all keys of the scan */
        CHECK(gives(scan, true, "") && gives(scan, false, "b1 b3 b5 "));
        CHECK_EQ(sb_scan_seek_last(scan, none), 0);
        CHECK(gives(scan, true, "") && gives(scan, false, "b1 b3 b5 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("zzz")), 0); /* above all of them */
        CHECK(gives(scan, false, "") && gives(scan, true, "b5 b3 b1 "));
        CHECK(!sb_scan_close(scan));
        scan = scan_to("b", NULL, SB_REVERSE);
        CHECK_EQ(sb_scan_seek_last(scan, b("b3")), 0);
        CHECK(gives(scan, false, "b3 b1 "));
        CHECK_EQ(sb_scan_seek_last(scan, b("b3")), 0);
        CHECK(gives(scan, true, "b5 "));
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_misuse_of_ends_and_places_has_a_name(void)
{
        static const struct sb_bytes no_data = {NULL, 3};
        struct sb_scan_options how = {.size = sizeof(how), .end = no_data};
        struct sb_guard guards[2] = {{.rev = 7}, {.rev = 7}};
        static char large[1025];
        struct sb_scan *scan = NULL;
        size_t count = 9;

        BEGIN();
        CHECK(!give("a"));
        CHECK_EQ(sb_scan_open_at(bus, none, &how, &scan), -EINVAL);
        how.end = (struct sb_bytes){large, 1025};
        CHECK_EQ(sb_scan_open_at(bus, none, &how, &scan), -ENAMETOOLONG);
        CHECK(!scan);
        how.end.len = 1024;
        CHECK_EQ(sb_scan_open_at(bus, none, &how, &scan), 0);
        CHECK_EQ(sb_scan_seek_last(NULL, b("a")), -EINVAL);
        CHECK_EQ(sb_scan_seek_last(scan, no_data), -EINVAL);
        CHECK_EQ(sb_scan_seek_last(scan, (struct sb_bytes){large, 1025}), -ENAMETOOLONG);
        CHECK_EQ(sb_scan_next_many(NULL, guards, 2, &count), -EINVAL);
        CHECK_EQ(sb_scan_next_many(scan, NULL, 2, &count), -EINVAL);
        CHECK_EQ(sb_scan_next_many(scan, guards, 0, &count), -EINVAL);
        CHECK_EQ(sb_scan_next_many(scan, guards, 2, NULL), -EINVAL);
        CHECK(count == 9 && guards[0].rev == 7 && !guards[0].bus);
        CHECK(!sb_close(other));
        bus = sb_close(bus);
        CHECK_EQ(sb_scan_seek_last(scan, b("a")), SB_E_DETACHED);
        CHECK_EQ(sb_scan_next_many(scan, guards, 2, &count), SB_E_DETACHED);
        CHECK(count == 9);
        CHECK(!sb_scan_close(scan));
        bus = world_bus(&world);
        other = world_bus(&world);
        CHECK(bus && other);
        END();
}

/* ---- against a list of keys ---- */

#define KEYS 40u

/* What a scan over @there has to do: keys in order, a gap to stand in. */
struct expected {
        bool there[KEYS];
        int low, high; /* its keys lie between these numbers, high excluded */
        int gap;       /* it stands before this number */
};

static const char *name_of(unsigned number)
{
        static char text[8];

        snprintf(text, sizeof(text), "k%02u", number);
        return text;
}

/* The next number of a key, up or down, or -1; and the scan stands behind it. */
static int expected_step(struct expected *e, bool down)
{
        int gap = e->gap < e->low ? e->low : e->gap > e->high ? e->high : e->gap;

        if (down) {
                while (gap > e->low && !e->there[gap - 1])
                        gap--;
                e->gap = gap > e->low ? gap - 1 : e->low;
                return gap > e->low ? gap - 1 : -1;
        }
        while (gap < e->high && !e->there[gap])
                gap++;
        e->gap = gap < e->high ? gap + 1 : e->high;
        return gap < e->high ? gap : -1;
}

/* Steps of all kinds, each compared. Return: false: one was wrong. */
static bool wander(struct sb_scan *scan, struct expected *e, bool reverse, unsigned *seed)
{
        struct sb_guard guards[4] = {0};
        size_t count, i;
        int number, r;

        for (unsigned step = 0; step < 30; step++) {
                unsigned key = (unsigned)rand_r(seed) % KEYS, what = (unsigned)rand_r(seed) % 7;

                if (what == 0 && (sb_scan_seek(scan, b(name_of(key))) != 0))
                        return false;
                if (what == 1 && (sb_scan_seek_last(scan, b(name_of(key))) != 0))
                        return false;
                if (what == 2 && sb_scan_seek_end(scan) != 0)
                        return false;
                if (what <= 2) {
                        e->gap = what == 2 ? (int)KEYS : (int)(key + (what == 1));
                        continue;
                }
                count = 1;
                if (what == 3)
                        r = sb_scan_next_many(scan, guards, 1 + key % 4, &count);
                else
                        r = what == 4 ? sb_scan_prev(scan, guards) : sb_scan_next(scan, guards);
                for (i = 0; i < (r == 0 ? count : 1); i++) {
                        number = expected_step(e, reverse != (what == 4));
                        if (r != (number < 0 ? SB_E_NOT_FOUND : 0))
                                return false;
                        if (r == 0 && memcmp(guards[i].key.data, name_of((unsigned)number), 3) != 0)
                                return false;
                        sb_guard_release(&guards[i]);
                }
        }
        return true;
}

static void test_scans_with_ends_do_what_a_list_does(void)
{
        unsigned seed = getenv("SB_SEED") ? (unsigned)atoi(getenv("SB_SEED")) : 17, begun = seed;
        struct sb_txn *txn;

        BEGIN();
        for (unsigned round = 0; round < 300; round++) {
                struct sb_scan_options how = {.size = sizeof(how)};
                struct expected e = {.high = KEYS};
                bool in_txn = rand_r(&seed) % 2, reverse = rand_r(&seed) % 2;
                struct sb_scan *scan = NULL;
                char end[8], prefix[8] = "k";

                for (unsigned i = 0; i < KEYS; i++) {
                        bool there = rand_r(&seed) % 2;

                        if (there)
                                CHECK(!give(name_of(i)));
                        else if (!lacks(name_of(i)))
                                CHECK(!take(name_of(i)));
                        e.there[i] = there;
                }
                txn = begin(round % 2 ? SB_SNAPSHOT : SB_SERIALIZABLE);
                for (unsigned i = 0; in_txn && i < 10; i++) {
                        unsigned key = (unsigned)rand_r(&seed) % KEYS;

                        if (rand_r(&seed) % 2) {
                                CHECK(!set(txn, name_of(key), "mine"));
                                e.there[key] = true;
                        } else {
                                int r = sb_txn_delete(txn, b(name_of(key)));

                                CHECK_EQ(r, e.there[key] ? 0 : SB_E_NOT_FOUND);
                                e.there[key] = false;
                        }
                }
                how.flags = reverse ? SB_REVERSE : 0;
                how.txn = in_txn ? txn : NULL;
                if (rand_r(&seed) % 3) {
                        e.high = rand_r(&seed) % (int)KEYS;
                        snprintf(end, sizeof(end), "%s", name_of((unsigned)e.high));
                        how.end = b(end);
                }
                if (rand_r(&seed) % 3 == 0) {
                        int ten = rand_r(&seed) % 4;

                        snprintf(prefix, sizeof(prefix), "k%d", ten);
                        e.low = 10 * ten;
                        e.high = e.high < e.low            ? e.low
                                 : e.high > 10 * (ten + 1) ? 10 * (ten + 1)
                                                           : e.high;
                }
                e.gap = reverse ? (int)KEYS : 0;
                CHECK_EQ(sb_scan_open_at(bus, b(prefix), &how, &scan), 0);
                if (!wander(scan, &e, reverse, &seed)) {
                        printf("round %u with SB_SEED=%u\n", round, begun);
                        CHECK(!"a step that is as it should be");
                }
                CHECK(!sb_scan_close(scan));
                CHECK(!sb_txn_end(txn));
        }
        END();
}

/* ---- batches ---- */

static void test_batches_of_any_size_give_what_single_steps_give(void)
{
        struct sb_scan *scan;

        BEGIN();
        CHECK(!give("a") && !give("b") && !give("c") && !give("d") && !give("e"));
        for (size_t count = 1; count <= 7; count++) {
                scan = scan_to("", NULL, 0);
                CHECK(gives_many(scan, count, "a b c d e "));
                CHECK(gives(scan, true, "e d c b a "));
                CHECK(!sb_scan_close(scan));
                scan = scan_to("", "d", SB_REVERSE);
                CHECK(gives_many(scan, count, "c b a "));
                CHECK(!sb_scan_close(scan));
        }
        END();
}

static void test_a_batch_ends_at_the_limit_and_shows_own_writes(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .limit = 3};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn;

        BEGIN();
        CHECK(!give("a") && !give("c") && !give("d"));
        txn = begin(SB_SERIALIZABLE);
        CHECK(!set(txn, "b", "mine"));
        how.txn = txn;
        CHECK_EQ(sb_scan_open_at(bus, none, &how, &scan), 0);
        CHECK(gives_many(scan, 16, "a [b] c "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        END();
}

/* A rule keeps too little of one key in the middle: the batch ends before it, the next call says
 * so, and the one behind that goes on. */
static void test_a_key_of_which_too_little_is_left_ends_a_batch_and_begins_the_next(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 2};
        struct sb_guard guards[4] = {0};

        BEGIN();
        CHECK_EQ(sb_keep(bus, none, SB_PREFIX, &rule), 0);
        CHECK(!give("k1") && !give("k2") && !give("k3"));
        for (unsigned reverse = 0; reverse < 2; reverse++) {
                struct sb_scan_options how = {
                        .size = sizeof(how), .flags = reverse ? SB_REVERSE : 0, .limit = 3};
                struct sb_scan *scan = NULL;
                size_t count = 9;

                CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &how.cut), 0);
                for (unsigned i = 0; i < 5; i++) {
                        uint64_t between;

                        CHECK(!give("k2"));
                        CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &between), 0);
                }
                world_prune(&world, other);
                CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
                CHECK_EQ(sb_scan_next_many(scan, guards, 4, &count), 0);
                CHECK(count == 1 && memcmp(guards[0].key.data, reverse ? "k3" : "k1", 2) == 0);
                sb_guard_release(&guards[0]);
                CHECK(!guards[1].bus);
                CHECK_EQ(sb_scan_next_many(scan, guards, 4, &count), SB_E_LAPPED);
                CHECK(guards[0].bus && memcmp(guards[0].key.data, "k2", 2) == 0);
                sb_guard_release(&guards[0]);
                CHECK_EQ(sb_scan_next_many(scan, guards, 4, &count), 0);
                CHECK(count == 1 && memcmp(guards[0].key.data, reverse ? "k1" : "k3", 2) == 0);
                sb_guard_release(&guards[0]);
                CHECK_EQ(sb_scan_next_many(scan, guards, 4, &count), SB_E_NOT_FOUND);
                CHECK(!sb_scan_close(scan));
        }
        END();
}

static void test_a_batch_ends_where_guards_end_and_goes_on_behind_it(void)
{
        static struct sb_guard held[65536], guards[100];
        struct sb_scan *scan;
        size_t count = 0, free;
        unsigned taken = 0;

        BEGIN();
        for (unsigned i = 0; i < KEYS; i++)
                CHECK(!give(name_of(i)));
        scan = scan_to("k", NULL, 0);
        while (taken < 65536 && sb_get(bus, b("k00"), &held[taken]) == 0)
                taken++;
        CHECK(taken >= 65000);
        CHECK_EQ(sb_scan_next_many(scan, guards, 100, &count), SB_E_FULL);
        for (free = 1; free <= 7; free++)
                sb_guard_release(&held[--taken]);
        CHECK_EQ(sb_scan_next_many(scan, guards, 100, &count), 0);
        CHECK_EQ(count, 7);
        CHECK_EQ(sb_scan_next_many(scan, guards + 7, 93, &count), SB_E_FULL);
        while (taken > 0)
                sb_guard_release(&held[--taken]);
        CHECK_EQ(sb_scan_next_many(scan, guards + 7, 93, &count), 0);
        CHECK_EQ(count, KEYS - 7);
        for (unsigned i = 0; i < KEYS; i++) {
                CHECK(memcmp(guards[i].key.data, name_of(i), 3) == 0);
                sb_guard_release(&guards[i]);
        }
        CHECK(!sb_scan_close(scan));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_scan_with_an_end_gives_the_keys_below_it_both_ways);
        RUN(test_nothing_is_below_an_end_at_or_below_the_prefix);
        RUN(test_an_end_bounds_what_a_transaction_wrote_itself);
        RUN(test_a_serializable_transaction_has_read_up_to_the_end_and_no_further);
        RUN(test_an_end_holds_in_the_past_and_with_a_limit);
        RUN(test_seek_last_stands_behind_a_key);
        RUN(test_misuse_of_ends_and_places_has_a_name);
        RUN(test_scans_with_ends_do_what_a_list_does);
        RUN(test_batches_of_any_size_give_what_single_steps_give);
        RUN(test_a_batch_ends_at_the_limit_and_shows_own_writes);
        RUN(test_a_key_of_which_too_little_is_left_ends_a_batch_and_begins_the_next);
        RUN(test_a_batch_ends_where_guards_end_and_goes_on_behind_it);
        return test_end();
}
