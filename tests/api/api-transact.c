/*
 * sb_transact() runs a transaction as one call and tries again when other clients were faster.
 * Several writers at once use it, and their sums must come out exactly.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/base/word.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

/* The number that a transaction reads; a key without a value counts as 0. */
static int number_of(struct sb_txn *txn, const char *key, int64_t *ret)
{
        struct sb_guard guard = {0};
        char text[32] = "0";
        int r = sb_txn_get(txn, b(key), &guard);

        if (r == 0 && guard.value.len < sizeof(text)) {
                memcpy(text, guard.value.data, guard.value.len);
                text[guard.value.len] = '\0';
        }
        sb_guard_release(&guard);
        *ret = strtoll(text, NULL, 10);
        return r == SB_E_NOT_FOUND ? 0 : r;
}

static int set_number(struct sb_txn *txn, const char *key, int64_t number)
{
        char text[32];

        snprintf(text, sizeof(text), "%lld", (long long)number);
        return sb_txn_set(txn, b(key), b(text));
}

/* A function's argument: what the function is to do, and what it has seen. */
struct asked {
        unsigned calls, interferences; /* how often another client writes "k" in between */
        int answer;
        struct sb_bus *other;
        uint64_t last_cut;
        bool cuts_grow;
};

static int ask(void *argument, struct sb_txn *txn)
{
        struct asked *asked = argument;

        asked->cuts_grow =
                asked->calls == 0 || (asked->cuts_grow && sb_txn_cut(txn) > asked->last_cut);
        asked->last_cut = sb_txn_cut(txn);
        asked->calls++;
        if (sb_txn_set(txn, b("k"), b("mine")) != 0 || sb_txn_set(txn, b("l"), b("mine")) != 0)
                return -EIO;
        if (asked->interferences > 0) {
                asked->interferences--;
                if (sb_set(asked->other, b("k"), b("another's"), NULL, NULL) != 0)
                        return -EIO;
        }
        return asked->answer;
}

static void test_transact_commits_what_the_function_wrote(void)
{
        struct asked asked = {.calls = 0};
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), 0);
        CHECK(asked.calls == 1 && has(bus, "k", "mine") && has(bus, "l", "mine"));
        CHECK_EQ(sb_get(bus, b("k"), &guard), 0);
        CHECK(guard.cut == cut && guard.rev == 1);
        sb_guard_release(&guard);
        END();
}

static void test_transact_calls_again_with_a_fresh_cut_when_others_were_faster(void)
{
        struct asked asked = {.interferences = 13};

        BEGIN();
        asked.other = world_bus(&world);
        CHECK(asked.other);
        CHECK_EQ(sb_transact(bus, SB_SERIALIZABLE, ask, &asked, NULL), 0);
        CHECK(asked.calls == 14 && asked.cuts_grow);
        CHECK(has(bus, "k", "mine") && has(bus, "l", "mine"));
        CHECK(!sb_close(asked.other));
        END();
}

static void test_transact_gives_up_after_100_attempts_and_says_conflict(void)
{
        struct asked asked = {.interferences = UINT32_MAX};
        struct sb_guard guard = {0};

        BEGIN();
        asked.other = world_bus(&world);
        CHECK(asked.other);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, NULL), SB_E_CONFLICT);
        CHECK_EQ(asked.calls, 100);
        CHECK_EQ(sb_get(bus, b("k"), &guard), 0);
        CHECK_EQ(guard.rev, 100);
        sb_guard_release(&guard);
        CHECK_EQ(sb_get(bus, b("l"), &guard), SB_E_NOT_FOUND);
        CHECK(!sb_close(asked.other));
        END();
}

static void test_transact_gives_up_at_the_deadline_but_tries_once(void)
{
        struct asked asked = {.interferences = UINT32_MAX};
        struct sb_write how = {.size = sizeof(how), .deadline_ns = 1};

        BEGIN();
        asked.other = world_bus(&world);
        CHECK(asked.other);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), SB_E_CONFLICT);
        CHECK_EQ(asked.calls, 1);
        asked.interferences = 0;
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), 0);
        CHECK_EQ(asked.calls, 2);
        CHECK(!sb_close(asked.other));
        END();
}

static void test_transact_returns_what_the_function_says_and_writes_nothing(void)
{
        static const int answers[] = {-EIO, 4711, SB_E_NOT_FOUND, SB_E_FULL, SB_E_LAPPED};
        struct asked asked = {.calls = 0};
        struct sb_guard guard = {0};

        BEGIN();
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                asked.answer = answers[i];
                asked.calls = 0;
                CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, NULL), answers[i]);
                CHECK_EQ(asked.calls, 1);
        }
        /* A conflict that the function itself reports is one. */
        asked.answer = SB_E_CONFLICT;
        asked.calls = 0;
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, NULL), SB_E_CONFLICT);
        CHECK_EQ(asked.calls, 100);
        CHECK_EQ(sb_get(bus, b("k"), &guard), SB_E_NOT_FOUND);
        END();
}

static void test_transact_in_a_function_of_transact_is_one_of_its_own(void)
{
        struct asked asked = {.calls = 0};
        struct sb_txn *txn = NULL;

        BEGIN();
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("outer"), b("outer")), 0);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, NULL), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK(has(bus, "k", "mine") && has(bus, "outer", "outer"));
        END();
}

static void test_misuse_is_named_and_calls_nothing(void)
{
        struct asked asked = {.calls = 0};
        struct sb_write how = {.size = sizeof(how), .ttl_ns = 1};

        WORLD_WITHOUT_LOG();
        BEGIN();
        CHECK_EQ(sb_transact(NULL, SB_SNAPSHOT, ask, &asked, NULL), -EINVAL);
        CHECK_EQ(sb_transact(bus, SB_SERIALIZABLE + 1, ask, &asked, NULL), -EINVAL);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, NULL, &asked, NULL), -EINVAL);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), -ENOTSUP);
        how.ttl_ns = 0;
        how.durability = SB_STRICT;
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), SB_E_NOT_DURABLE);
        how.size = 0;
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, ask, &asked, &how), -EINVAL);
        CHECK_EQ(asked.calls, 0);
        END();
}

/* ---- several at once ---- */

#define WRITERS  4u
#define ACCOUNTS 5u
#define ADDED    3000u
#define SUMS     3000u

struct mover {
        struct sb_bus *bus;
        uint32_t isolation;
        unsigned number, calls; /* calls of its function */
        uint64_t random;
        bool bad, moves; /* moves: the last call of its function wrote */
};

static unsigned draw(struct mover *mover, unsigned below)
{
        mover->random = mover->random * 6364136223846793005u + 1442695040888963407u;
        return (unsigned)(mover->random >> 33) % below;
}

/* Move money from one account to another; an account without money has no key. */
static int move(void *argument, struct sb_txn *txn)
{
        struct mover *mover = argument;
        char from[] = "account-0", to[] = "account-0";
        int64_t have, there;
        int r;

        mover->moves = false;
        from[8] = (char)('0' + draw(mover, ACCOUNTS));
        to[8] = (char)('0' + draw(mover, ACCOUNTS));
        r = number_of(txn, from, &have);
        if (r == 0)
                r = number_of(txn, to, &there);
        if (r != 0 || have == 0 || from[8] == to[8])
                return r;
        mover->moves = true;
        r = have > 1 ? set_number(txn, from, have - 1) : sb_txn_delete(txn, b(from));
        return r != 0 ? r : set_number(txn, to, there + 1);
}

static struct sb_word32 enough, moved;

static void *move_all(void *argument)
{
        struct mover *mover = argument;

        while (!sb_load_acquire(&enough) && !mover->bad) {
                int r = sb_transact(mover->bus, mover->isolation, move, mover, NULL);

                /* With as many movers as accounts, 100 attempts may all be lost. */
                mover->bad = r != 0 && r != SB_E_CONFLICT;
                sb_add_full(&moved, r == 0 && mover->moves);
        }
        return NULL;
}

/* Add up all accounts in one transaction, by gets or by a scan; -1: a read failed. */
static int64_t sum(struct sb_txn *txn, bool by_scan)
{
        char key[] = "account-0", text[32];
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        int64_t total = 0, one;

        for (; !by_scan && key[8] < (char)('0' + ACCOUNTS); key[8]++) {
                if (number_of(txn, key, &one) != 0)
                        return -1;
                total += one;
        }
        if (!by_scan)
                return total;
        if (sb_scan_open(bus, txn, b("account-"), &scan) != 0)
                return -1;
        while (sb_scan_next(scan, &guard) == 0) {
                snprintf(text, sizeof(text), "%.*s", (int)guard.value.len,
                        (const char *)guard.value.data);
                total += strtoll(text, NULL, 10);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        return total;
}

/* Add up while movers are at work. Return: false when a sum was wrong, or they move nothing. */
static bool watch(uint32_t isolation)
{
        uint64_t end = now_ns() + UINT64_C(20000000000);

        for (unsigned i = 0; i < SUMS || sb_load_acquire(&moved) < SUMS; i++) {
                struct sb_txn *txn = NULL;
                bool right = sb_txn_begin(bus, isolation, &txn) == 0 && sum(txn, false) == 100 &&
                             sum(txn, true) == 100 && sum(txn, false) == 100 &&
                             sb_txn_commit(txn, NULL) == 0;

                sb_txn_end(txn);
                if (!right || now_ns() > end)
                        return false;
        }
        return true;
}

static void test_sums_of_all_accounts_are_the_same_in_every_snapshot(void)
{
        struct mover movers[WRITERS];
        pthread_t threads[WRITERS];
        unsigned moves = 0;
        bool right;

        for (uint32_t isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                BEGIN();
                CHECK_EQ(sb_set(bus, b("account-0"), b("100"), NULL, NULL), 0);
                sb_store_release(&enough, 0);
                sb_store_release(&moved, 0);
                for (unsigned i = 0; i < WRITERS; i++) {
                        movers[i] = (struct mover){.isolation = isolation, .random = i + 1};
                        movers[i].bus = world_bus(&world);
                        CHECK(movers[i].bus);
                }
                for (unsigned i = 0; i < WRITERS; i++)
                        CHECK_EQ(pthread_create(&threads[i], NULL, move_all, &movers[i]), 0);
                right = watch(isolation);
                sb_store_release(&enough, 1);
                for (unsigned i = 0; i < WRITERS; i++) {
                        CHECK_EQ(pthread_join(threads[i], NULL), 0);
                        CHECK(!movers[i].bad && !sb_close(movers[i].bus));
                }
                CHECK(right);
                moves += sb_load_acquire(&moved);
                END();
        }
        TEST_NOTE("at least %u sums while %u transfers were made", 2 * SUMS, moves);
}

static struct sb_word64 added_once; /* transactions that committed */
static struct sb_word64 adding;     /* threads that add still */
static struct sb_word64 lets;       /* 1: a thread lets another one commit */

/* However the processors are shared out. One thread waits at a time, so that the others go on: they
 * give way to one another once. */
static void let_another_commit(void)
{
        uint64_t before = sb_load_acquire(&added_once);
        bool waits = sb_cas64_full(&lets, 0, 1);

        do
                sched_yield();
        while (waits && sb_load_acquire(&added_once) == before && sb_load_acquire(&adding) > 1);
        if (waits)
                sb_store_release(&lets, 0);
}

/* Add one to each of two keys and read both: the commits are counted. */
static int add_to_both(void *argument, struct sb_txn *txn)
{
        struct mover *mover = argument;
        int64_t one, two;
        int r = number_of(txn, "one", &one);

        /* Between the reads and the writes of some another thread commits. */
        if (++mover->calls % 4 == 0)
                let_another_commit();
        if (r == 0)
                r = number_of(txn, "two", &two);
        if (r == 0)
                r = set_number(txn, "one", one + 1);
        return r != 0 ? r : set_number(txn, "two", two + 1);
}

static pthread_barrier_t all_there;

static void *add_all(void *argument)
{
        struct mover *mover = argument;

        pthread_barrier_wait(&all_there);
        /* The number in each key is how many transactions committed. */
        for (unsigned i = 0; i < ADDED && !mover->bad; i++) {
                int r = sb_transact(mover->bus, mover->isolation, add_to_both, mover, NULL);

                mover->number += r == 0;
                mover->bad = r != 0 && r != SB_E_CONFLICT;
                if (r == 0)
                        sb_add_full(&added_once, 1);
        }
        sb_add_full(&adding, UINT64_MAX);
        return NULL;
}

static void test_no_update_is_lost_nor_made_twice(void)
{
        struct mover movers[WRITERS];
        pthread_t threads[WRITERS];
        unsigned added = 0, calls = 0;
        char text[16];

        BEGIN();
        CHECK_EQ(pthread_barrier_init(&all_there, NULL, WRITERS), 0);
        sb_store_release(&adding, WRITERS);
        for (unsigned i = 0; i < WRITERS; i++) {
                movers[i] = (struct mover){.isolation = i % 2};
                movers[i].bus = world_bus(&world);
                CHECK(movers[i].bus);
        }
        for (unsigned i = 0; i < WRITERS; i++)
                CHECK_EQ(pthread_create(&threads[i], NULL, add_all, &movers[i]), 0);
        for (unsigned i = 0; i < WRITERS; i++) {
                CHECK_EQ(pthread_join(threads[i], NULL), 0);
                CHECK(!movers[i].bad && !sb_close(movers[i].bus));
                added += movers[i].number;
                calls += movers[i].calls;
        }
        snprintf(text, sizeof(text), "%u", added);
        CHECK(has(bus, "one", text) && has(bus, "two", text));
        TEST_NOTE("%u attempts for %u updates of two keys", calls, added);
        CHECK(added > ADDED);
        CHECK(calls > added); /* how many more, the machine decides: a third, mostly */
        pthread_barrier_destroy(&all_there);
        END();
}

/* Doctors on call: at least one of two stays. Each looks whether the other is on call, and
 * leaves. */
struct doctor {
        struct sb_bus *bus;
        const char *own, *other;
        pthread_barrier_t *together;
        uint32_t isolation;
        int result;
};

static void *leave(void *argument)
{
        struct doctor *doctor = argument;
        struct sb_txn *txn = NULL;
        int64_t there = 0;

        doctor->result = sb_txn_begin(doctor->bus, doctor->isolation, &txn);
        pthread_barrier_wait(doctor->together);
        if (doctor->result == 0)
                doctor->result = number_of(txn, doctor->other, &there);
        if (doctor->result == 0 && there == 1)
                doctor->result = sb_txn_delete(txn, b(doctor->own));
        pthread_barrier_wait(doctor->together);
        if (doctor->result == 0)
                doctor->result = sb_txn_commit(txn, NULL);
        sb_txn_end(txn);
        return NULL;
}

static void test_at_least_one_of_two_that_conflict_commits_and_serializable_lets_no_more(void)
{
        struct doctor doctors[2] = {{.own = "ann", .other = "bob"}, {.own = "bob", .other = "ann"}};
        pthread_barrier_t together;
        unsigned both = 0;
        pthread_t thread;

        BEGIN();
        CHECK_EQ(pthread_barrier_init(&together, NULL, 2), 0);
        for (unsigned i = 0; i < 2; i++) {
                doctors[i].together = &together;
                doctors[i].bus = world_bus(&world);
                CHECK(doctors[i].bus);
        }
        for (unsigned i = 0; i < 2000; i++) {
                unsigned left;

                doctors[0].isolation = doctors[1].isolation = i % 2;
                CHECK_EQ(sb_set(bus, b("ann"), b("1"), NULL, NULL), 0);
                CHECK_EQ(sb_set(bus, b("bob"), b("1"), NULL, NULL), 0);
                CHECK_EQ(pthread_create(&thread, NULL, leave, &doctors[0]), 0);
                leave(&doctors[1]);
                CHECK_EQ(pthread_join(thread, NULL), 0);
                left = (doctors[0].result == 0) + (doctors[1].result == 0);
                for (unsigned j = 0; j < 2; j++)
                        CHECK(doctors[j].result == 0 || doctors[j].result == SB_E_CONFLICT);
                CHECK(left >= 1);
                CHECK(i % 2 == SB_SNAPSHOT || left == 1);
                CHECK_EQ(has(bus, "ann", "1"), doctors[0].result != 0);
                CHECK_EQ(has(bus, "bob", "1"), doctors[1].result != 0);
                both += left == 2;
        }
        /* Nothing prevents it in snapshot isolation: both had read before either wrote. */
        CHECK_EQ(both, 1000);
        for (unsigned i = 0; i < 2; i++)
                CHECK(!sb_close(doctors[i].bus));
        pthread_barrier_destroy(&together);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_transact_commits_what_the_function_wrote);
        RUN(test_transact_calls_again_with_a_fresh_cut_when_others_were_faster);
        RUN(test_transact_gives_up_after_100_attempts_and_says_conflict);
        RUN(test_transact_gives_up_at_the_deadline_but_tries_once);
        RUN(test_transact_returns_what_the_function_says_and_writes_nothing);
        RUN(test_transact_in_a_function_of_transact_is_one_of_its_own);
        RUN(test_misuse_is_named_and_calls_nothing);
        RUN(test_sums_of_all_accounts_are_the_same_in_every_snapshot);
        RUN(test_no_update_is_lost_nor_made_twice);
        RUN(test_at_least_one_of_two_that_conflict_commits_and_serializable_lets_no_more);
        return test_end();
}
