/*
 * Calls that read a value, change it and set it if it is still the same: sb_update(), sb_incr(),
 * sb_max(), sb_append().
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

/* Begin a test with a bus of 16 MiB; ends it with END(). */
#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static void test_incr_begins_at_nothing_and_adds(void)
{
        int64_t sum = -1;
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_incr(bus, b("n"), 5, NULL, &sum, &rev), 0);
        CHECK(sum == 5 && rev == 1 && has(bus, "n", "5"));
        CHECK_EQ(sb_incr(bus, b("n"), -7, NULL, &sum, &rev), 0);
        CHECK(sum == -2 && rev == 2 && has(bus, "n", "-2"));
        CHECK_EQ(sb_incr(bus, b("n"), 0, NULL, NULL, NULL), 0);
        CHECK(has(bus, "n", "-2"));
        END();
}

static void test_incr_refuses_what_is_no_integer_and_sums_that_do_not_fit(void)
{
        static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "01", "-0", "1x",
                "9223372036854775808", "-9223372036854775809", "99999999999999999999999"};
        int64_t sum = 77;
        uint64_t rev = 77;

        BEGIN();
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                CHECK_EQ(sb_set(bus, b("n"), b(bad[i]), NULL, NULL), 0);
                CHECK_EQ(sb_incr(bus, b("n"), 1, NULL, &sum, &rev), -EBADMSG);
                CHECK_EQ(sb_max(bus, b("n"), 1, NULL, &sum, &rev), -EBADMSG);
                CHECK(sum == 77 && rev == 77 && has(bus, "n", bad[i]));
        }
        CHECK_EQ(sb_set(bus, b("n"), b("9223372036854775807"), NULL, NULL), 0);
        CHECK_EQ(sb_incr(bus, b("n"), 1, NULL, &sum, &rev), -ERANGE);
        CHECK_EQ(sb_incr(bus, b("n"), INT64_MIN, NULL, &sum, NULL), 0);
        CHECK_EQ(sum, -1);
        CHECK_EQ(sb_set(bus, b("n"), b("-9223372036854775808"), NULL, NULL), 0);
        CHECK_EQ(sb_incr(bus, b("n"), -1, NULL, &sum, &rev), -ERANGE);
        CHECK(has(bus, "n", "-9223372036854775808"));
        END();
}

static void test_max_only_raises(void)
{
        int64_t most = 0;
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_max(bus, b("m"), -3, NULL, &most, &rev), 0);
        CHECK(most == -3 && rev == 1);
        CHECK_EQ(sb_max(bus, b("m"), 10, NULL, &most, &rev), 0);
        CHECK(most == 10 && rev == 2);
        rev = 77;
        CHECK_EQ(sb_max(bus, b("m"), 9, NULL, &most, &rev), 0);
        CHECK_EQ(sb_max(bus, b("m"), 10, NULL, NULL, &rev), 0);
        CHECK(most == 10 && rev == 77 && has(bus, "m", "10"));
        END();
}

/* The system of a bus, with a spin that counts. */
static struct {
        struct sb_os os;
        uint32_t spins, turns;
} counted;

static void counted_spin(void *context, uint32_t turns)
{
        (void)context;
        counted.spins++;
        counted.turns += turns;
}

struct rival {
        struct sb_bus *bus;
        uint32_t left; /* times that it comes first */
};

static int lose_to(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        struct rival *rival = argument;

        (void)old;
        *ret_value = b("mine");
        return rival->left-- ? sb_set(rival->bus, b("k"), b("the rival's"), NULL, NULL) : 0;
}

static void test_an_update_that_loses_gives_way_each_time(void)
{
        struct rival rival = {.left = 7};
        uint64_t rev = 0;

        BEGIN();
        counted.os = *bus->handle.segment.os;
        counted.os.spin = counted_spin;
        bus->handle.segment.os = &counted.os;
        counted.spins = counted.turns = 0;
        rival.bus = world_bus(&world);
        CHECK_EQ(sb_incr(bus, b("n"), 1, NULL, NULL, NULL), 0);
        CHECK_EQ(counted.spins, 0);
        CHECK_EQ(sb_update(bus, b("k"), lose_to, &rival, NULL, &rev), 0);
        CHECK(rev == 8 && has(bus, "k", "mine"));
        CHECK_EQ(counted.spins, 7);
        CHECK(counted.turns > 7 && counted.turns < 7 * 1024);
        sb_close(rival.bus);
        bus->handle.segment.os = &sb_os_linux;
        END();
}

static void test_append_makes_and_lengthens(void)
{
        char many[3000], *whole;
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_append(bus, b("log"), b(""), NULL, &rev), 0);
        CHECK(rev == 1 && has(bus, "log", ""));
        CHECK_EQ(sb_append(bus, b("log"), b("one,"), NULL, NULL), 0);
        CHECK_EQ(sb_append(bus, b("log"), b("two"), NULL, &rev), 0);
        CHECK(rev == 3 && has(bus, "log", "one,two"));
        /* The value grows through all classes of blocks. */
        memset(many, 'x', sizeof(many));
        CHECK_EQ(sb_set(bus, b("long"), (struct sb_bytes){many, 0}, NULL, NULL), 0);
        for (unsigned i = 0; i < 60; i++)
                CHECK_EQ(sb_append(bus, b("long"), (struct sb_bytes){many, 50 * i}, NULL, NULL), 0);
        whole = calloc(1, 50 * 59 * 60 / 2 + 1);
        memset(whole, 'x', 50 * 59 * 60 / 2);
        CHECK(has(bus, "long", whole));
        free(whole);
        END();
}

static void test_append_refuses_what_is_too_large(void)
{
        size_t most = 4 * MIB; /* a quarter of the segment */
        char *large = calloc(1, most + 1);

        BEGIN();
        CHECK_EQ(sb_set(bus, b("k"), (struct sb_bytes){large, most + 1}, NULL, NULL), -EMSGSIZE);
        CHECK_EQ(sb_set(bus, b("k"), (struct sb_bytes){large, most}, NULL, NULL), 0);
        CHECK_EQ(sb_append(bus, b("k"), b("a"), NULL, NULL), -EMSGSIZE);
        CHECK_EQ(sb_delete(bus, b("k"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_append(bus, b("k"), (struct sb_bytes){large, most - 1}, NULL, NULL), 0);
        CHECK_EQ(sb_append(bus, b("k"), b("ab"), NULL, NULL), -EMSGSIZE);
        CHECK_EQ(sb_append(bus, b("k"), (struct sb_bytes){large, most + 1}, NULL, NULL), -EMSGSIZE);
        CHECK_EQ(sb_delete(bus, b("k"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_append(bus, b("k"), (struct sb_bytes){large, most}, NULL, NULL), 0);
        free(large);
        END();
}

struct asked {
        unsigned calls, interferences;
        int answer;
        struct sb_bytes value;
        uint64_t seen_rev;
        bool seen;
};

static int ask(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        struct asked *asked = argument;

        asked->calls++;
        asked->seen = old->bus;
        asked->seen_rev = old->rev;
        if (asked->interferences) {
                asked->interferences--;
                if (sb_set(bus, b("k"), b("another's"), NULL, NULL) != 0)
                        return -EIO;
        }
        *ret_value = asked->value;
        return asked->answer;
}

static void test_update_calls_again_when_another_write_comes_in_between(void)
{
        struct asked asked = {.interferences = 3, .value = b("mine")};
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_update(bus, b("k"), ask, &asked, NULL, &rev), 0);
        CHECK(asked.calls == 4 && asked.seen && asked.seen_rev == 3 && rev == 4);
        CHECK(has(bus, "k", "mine"));
        END();
}

static void test_update_gives_up_in_the_end_and_says_conflict(void)
{
        struct asked asked = {.interferences = UINT32_MAX, .value = b("mine")};
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_update(bus, b("k"), ask, &asked, NULL, &rev), SB_E_CONFLICT);
        CHECK(asked.calls == 1000 && rev == 1000 && has(bus, "k", "another's"));
        END();
}

static void test_update_returns_what_the_function_says_and_writes_nothing(void)
{
        static const int answers[] = {-EIO, 1, 4711, SB_E_NOT_FOUND, SB_E_FULL};
        struct asked asked = {.value = b("mine")};
        struct sb_guard guard = {0};

        BEGIN();
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                asked.answer = answers[i];
                asked.calls = 0;
                CHECK_EQ(sb_update(bus, b("k"), ask, &asked, NULL, NULL), answers[i]);
                CHECK(asked.calls == 1 && !asked.seen);
        }
        /* When the function itself reports a conflict, it is not called again. */
        asked.answer = SB_E_CONFLICT;
        asked.calls = 0;
        CHECK_EQ(sb_update(bus, b("k"), ask, &asked, NULL, NULL), -ECANCELED);
        CHECK_EQ(asked.calls, 1);
        CHECK_EQ(sb_get(bus, b("k"), &guard), SB_E_NOT_FOUND);
        END();
}

static void test_misuse_is_named(void)
{
        struct asked asked = {.value = {NULL, 3}};

        BEGIN();
        CHECK_EQ(sb_update(NULL, b("k"), ask, &asked, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_update(bus, b("k"), NULL, &asked, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_update(bus, b(""), ask, &asked, NULL, NULL), -EINVAL);
        CHECK_EQ(asked.calls, 0);
        CHECK_EQ(sb_update(bus, b("k"), ask, &asked, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_incr(NULL, b("k"), 1, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_incr(bus, b(""), 1, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_max(NULL, b("k"), 1, NULL, NULL, NULL), -EINVAL);
        CHECK_EQ(sb_append(NULL, b("k"), b("x"), NULL, NULL), -EINVAL);
        CHECK_EQ(sb_append(bus, b("k"), (struct sb_bytes){NULL, 3}, NULL, NULL), -EINVAL);
        END();
}

#define WRITERS 4u
#define ADDED   20000u

static void *add_all(void *argument)
{
        for (unsigned i = 0; i < ADDED; i++)
                if (sb_incr(argument, b("sum"), 1, NULL, NULL, NULL) != 0 ||
                        sb_max(argument, b("most"), i, NULL, NULL, NULL) != 0)
                        return argument;
        return NULL;
}

static void test_sums_are_exact_with_several_writers(void)
{
        struct sb_bus *buses[WRITERS];
        pthread_t threads[WRITERS];
        void *bad = NULL, *result;

        BEGIN();
        for (unsigned i = 0; i < WRITERS; i++) {
                buses[i] = world_bus(&world);
                CHECK(buses[i]);
        }
        for (unsigned i = 0; i < WRITERS; i++)
                CHECK_EQ(pthread_create(&threads[i], NULL, add_all, buses[i]), 0);
        for (unsigned i = 0; i < WRITERS; i++) {
                CHECK_EQ(pthread_join(threads[i], &result), 0);
                bad = result ? result : bad;
        }
        CHECK(!bad);
        CHECK(has(bus, "sum", "80000"));
        CHECK(has(bus, "most", "19999"));
        for (unsigned i = 0; i < WRITERS; i++)
                CHECK(!sb_close(buses[i]));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_incr_begins_at_nothing_and_adds);
        RUN(test_incr_refuses_what_is_no_integer_and_sums_that_do_not_fit);
        RUN(test_max_only_raises);
        RUN(test_an_update_that_loses_gives_way_each_time);
        RUN(test_append_makes_and_lengthens);
        RUN(test_append_refuses_what_is_too_large);
        RUN(test_update_calls_again_when_another_write_comes_in_between);
        RUN(test_update_gives_up_in_the_end_and_says_conflict);
        RUN(test_update_returns_what_the_function_says_and_writes_nothing);
        RUN(test_misuse_is_named);
        RUN(test_sums_are_exact_with_several_writers);
        return test_end();
}
