/*
 * The model checker under C11's orders (tests/harness/model/views.c) checked: small programs, each
 * with the outcomes that it may have and those that it may not, weakly ordered, by acquire and
 * release, and with full barriers.
 */
#include <stdio.h>
#include <string.h>

#include "shm/base/word.h"
#include "tests/harness/model/model.h"
#include "tests/harness/test.h"

enum { X, Y, Z, PLAIN };

/* What is read, and the words X and Y at the end: six digits below 4. */
#define DIGITS 6u

static struct world {
        uint64_t seen[4];
} world;

/* How the program under test orders. */
static struct {
        bool release, acquire;
        void (*between)(uint32_t me); /* what stands between two accesses of a thread */
} how;

static bool met[1u << 2 * DIGITS];
static struct model_report report;

static struct sb_word64 *word(uint32_t index)
{
        return (struct sb_word64 *)model_region(4096) + index;
}

static uint64_t *plain(void)
{
        return (uint64_t *)model_region(4096) + PLAIN;
}

static void setup(void)
{
        model_region(4096);
}

static void store(uint32_t index, uint64_t value)
{
        if (how.release)
                sb_store_release(word(index), value);
        else
                sb_store_relaxed(word(index), value);
}

static uint64_t load(uint32_t index)
{
        return how.acquire ? sb_load_acquire(word(index)) : sb_load_relaxed(word(index));
}

static void between(uint32_t me)
{
        if (how.between)
                how.between(me);
}

static void fence(uint32_t me)
{
        (void)me;
        sb_fence_full();
}

static void fence_in_0(uint32_t me)
{
        if (!me)
                sb_fence_full();
}

static void membarrier_in_1(uint32_t me)
{
        if (me == 1)
                model_os.membarrier(NULL);
        else
                sb_compiler_barrier();
}

static void lost_cas(uint32_t me)
{
        (void)me;
        sb_cas64_full(word(Z), 7, 8);
}

static void locked(uint32_t me)
{
        sb_exchange_full(word(Z), me);
}

static void note_outcome(void)
{
        uint32_t outcome = 0, i;

        for (i = 0; i < 4; i++)
                outcome = outcome << 2 | (uint32_t)(world.seen[i] & 3);
        for (i = X; i <= Y; i++)
                outcome = outcome << 2 | (uint32_t)(sb_load_relaxed(word(i)) & 3);
        met[outcome] = true;
}

/* Walks, with executions that begin anew and with some that go on from one that was saved: these
 * are the same ones. Return: no violation. */
static bool walk(const char *name, void (*thread)(uint32_t me), uint32_t threads)
{
        struct model_scenario scenario = {.name = name,
                .setup = setup,
                .thread = thread,
                .thread_count = threads,
                .check = note_outcome,
                .world = &world,
                .world_size = sizeof world,
                .preemptions = 4,
                .weak = true,
                .older = 3,
                .anew = true};
        struct model_report anew;

        memset(met, 0, sizeof met);
        model_explore(&scenario, &anew);
        scenario.anew = false;
        model_explore(&scenario, &report);
        printf("  %s: %lu executions, %lu states, %lu ends%s%s\n", name,
                (unsigned long)report.executions, (unsigned long)report.states,
                (unsigned long)report.finals, report.failed ? ": " : "", report.message);
        return report.executions == anew.executions && report.states == anew.states &&
               report.finals == anew.finals && report.failed == anew.failed && !report.failed;
}

/* Whether the walk met an outcome: "10....": the first two reads were 1 and 0. */
static bool may(const char *outcome)
{
        uint32_t at, i;

        for (at = 0; at < sizeof met; at++) {
                for (i = 0; i < DIGITS && outcome[i]; i++)
                        if (outcome[i] != '.' &&
                                outcome[i] - '0' != (int)(at >> 2 * (DIGITS - 1 - i) & 3))
                                break;
                if ((i == DIGITS || !outcome[i]) && met[at])
                        return true;
        }
        return false;
}

static void order(bool release, bool acquire, void (*what)(uint32_t me))
{
        how.release = release;
        how.acquire = acquire;
        how.between = what;
}

/* ---- a message: X = 1, then Y = 1 | Y, then X ---- */

static void message(uint32_t me)
{
        if (!me) {
                sb_store_relaxed(word(X), 1);
                between(me);
                store(Y, 1);
                return;
        }
        world.seen[0] = load(Y);
        between(me);
        world.seen[1] = sb_load_relaxed(word(X));
}

static void test_a_message_needs_release_and_acquire(void)
{
        uint32_t i;

        for (i = 0; i < 4; i++) {
                order(i & 1, i & 2, NULL);
                CHECK(walk("message", message, 2));
                CHECK(may("00") && may("01") && may("11"));
                CHECK(may("10") == (i != 3));
        }
}

static void test_or_barriers_on_both_sides(void)
{
        order(false, false, fence);
        CHECK(walk("message, fences", message, 2));
        CHECK(may("00") && may("01") && may("11") && !may("10"));
        order(false, true, fence_in_0);
        CHECK(walk("message, a fence and an acquire", message, 2));
        CHECK(!may("10"));
        order(false, false, fence_in_0);
        CHECK(walk("message, one fence", message, 2));
        CHECK(may("10"));
        order(false, false, locked);
        CHECK(walk("message, locked instructions", message, 2));
        CHECK(!may("10"));
        order(false, false, membarrier_in_1);
        CHECK(walk("message, membarrier", message, 2));
        CHECK(may("00") && may("01") && may("11") && !may("10"));
        order(false, false, lost_cas);
        CHECK(walk("message, lost CAS", message, 2));
        CHECK(may("10"));
}

/* Through a locked instruction of a third thread: Y goes from 1 to 2. */
static void message_chain(uint32_t me)
{
        switch (me) {
        case 0:
                sb_store_relaxed(word(X), 1);
                store(Y, 1);
                return;
        case 1:
                world.seen[2] = sb_cas64_full(word(Y), 1, 2);
                return;
        default:
                world.seen[0] = load(Y);
                world.seen[1] = sb_load_relaxed(word(X));
        }
}

static void test_a_locked_instruction_passes_a_message_on(void)
{
        order(true, true, NULL);
        CHECK(walk("message, passed on", message_chain, 3));
        CHECK(may("211") && !may("20") && !may("10"));
        order(true, false, NULL);
        CHECK(walk("message, passed on, relaxed load", message_chain, 3));
        CHECK(may("20") && may("10"));
        /* the CAS itself is a barrier: it reads 1 and what was known before is not more */
        order(false, true, NULL);
        CHECK(walk("message, passed on, relaxed store", message_chain, 3));
        CHECK(may("10") && may("20"));
}

/* A cause that goes through a third thread: X = 1 | X, then Y = 1 | Y, then X. */
static void causes(uint32_t me)
{
        switch (me) {
        case 0:
                store(X, 1);
                return;
        case 1:
                world.seen[0] = load(X);
                if (world.seen[0])
                        store(Y, 1);
                return;
        default:
                world.seen[1] = load(Y);
                world.seen[2] = sb_load_relaxed(word(X));
        }
}

static void test_causes_go_through_others(void)
{
        order(true, true, NULL);
        CHECK(walk("causes", causes, 3));
        CHECK(may("111") && !may("110"));
        order(true, false, NULL);
        CHECK(walk("causes, relaxed loads", causes, 3));
        CHECK(may("110"));
}

/* ---- store buffering: X = 1, then Y | Y = 1, then X ---- */

static void buffering(uint32_t me)
{
        store(me, 1);
        between(me);
        world.seen[me] = load(!me);
}

static void test_stores_pass_later_loads_unless_there_is_a_barrier(void)
{
        order(true, true, NULL);
        CHECK(walk("store buffering", buffering, 2));
        CHECK(may("00") && may("01") && may("10") && may("11"));
        order(true, true, lost_cas);
        CHECK(walk("store buffering, lost CAS", buffering, 2));
        CHECK(may("00"));
        order(true, true, fence_in_0);
        CHECK(walk("store buffering, one fence", buffering, 2));
        CHECK(may("00"));
        order(false, false, fence);
        CHECK(walk("store buffering, fences", buffering, 2));
        CHECK(!may("00") && may("01") && may("10") && may("11"));
        order(false, false, membarrier_in_1);
        CHECK(walk("store buffering, membarrier", buffering, 2));
        CHECK(!may("00") && may("01") && may("10") && may("11"));
}

/* ---- two writers and two readers ---- */

static void witnesses(uint32_t me)
{
        uint32_t first = me & 1;

        if (me < 2) {
                store(me, 1);
                return;
        }
        world.seen[me * 2 - 4] = load(first);
        between(me);
        world.seen[me * 2 - 3] = load(!first);
}

static void test_two_readers_may_disagree_unless_there_is_a_barrier(void)
{
        order(true, true, NULL);
        CHECK(walk("witnesses", witnesses, 4));
        CHECK(may("1010") && may("1111"));
        order(true, true, fence);
        CHECK(walk("witnesses, fences", witnesses, 4));
        CHECK(!may("1010") && may("1111") && may("1110"));
}

/* ---- the order of stores to one word ---- */

static void two_stores(uint32_t me)
{
        store(me, 1);
        between(me);
        store(!me, 2);
}

static void test_stores_to_two_words_have_no_common_order_without_a_barrier(void)
{
        order(true, true, NULL);
        CHECK(walk("two stores each", two_stores, 2));
        CHECK(may("....11") && may("....22") && may("....12") && may("....21"));
        order(false, false, fence);
        CHECK(walk("two stores each, fences", two_stores, 2));
        CHECK(!may("....11") && may("....22") && may("....12") && may("....21"));
}

/* X = 2, then Y = 1 | Y, then X = 1 */
static void store_behind(uint32_t me)
{
        if (!me) {
                sb_store_relaxed(word(X), 2);
                store(Y, 1);
                return;
        }
        world.seen[0] = load(Y);
        sb_store_relaxed(word(X), 1);
}

static void test_a_store_behind_an_acquire_is_later(void)
{
        order(true, true, NULL);
        CHECK(walk("store behind a load", store_behind, 2));
        CHECK(may("1...11") && !may("1...21") && may("0...21"));
        order(true, false, NULL);
        CHECK(walk("store behind a relaxed load", store_behind, 2));
        CHECK(may("1...21"));
}

static void coherence(uint32_t me)
{
        if (!me) {
                sb_store_relaxed(word(X), 1);
                sb_store_relaxed(word(X), 2);
                return;
        }
        world.seen[2 * me - 2] = sb_load_relaxed(word(X));
        world.seen[2 * me - 1] = sb_load_relaxed(word(X));
}

static void coherence_own(uint32_t me)
{
        sb_store_relaxed(word(X), me + 1);
        world.seen[me] = sb_load_relaxed(word(X));
}

static void test_one_word_is_coherent(void)
{
        order(false, false, NULL);
        CHECK(walk("coherence", coherence, 3));
        CHECK(!may("21") && !may("20") && !may("10") && !may("..21") && !may("..20"));
        CHECK(may("1202") && may("0000") && may("0012"));
        CHECK(walk("coherence of own stores", coherence_own, 2));
        CHECK(!may("0") && !may(".0") && may("12..1") && may("12..2"));
        CHECK(!may("22..1") && !may("11..2") && may("22..2"));
}

static void counting(uint32_t me)
{
        world.seen[me] = sb_add_full(word(X), 1);
}

static void one_cas(uint32_t me)
{
        world.seen[me] = sb_cas64_full(word(X), 0, me + 1);
}

static void test_locked_instructions_follow_each_other(void)
{
        order(false, false, NULL);
        CHECK(walk("three count", counting, 3));
        CHECK(may("012.3") && may("210.3") && !may("....0") && !may("....1") && !may("....2"));
        CHECK(!may("00") && !may("11"));
        CHECK(walk("one CAS of three", one_cas, 3));
        CHECK(may("100.1") && may("010.2") && may("001.3") && !may("000") && !may("11"));
}

/* ---- plain bytes ---- */

static void plain_message(uint32_t me)
{
        if (!me) {
                *plain() = 1;
                store(Y, 1);
                return;
        }
        if (load(Y))
                world.seen[0] = *plain();
}

static void plain_reuse(uint32_t me)
{
        if (!me) {
                world.seen[0] = *plain();
                store(Y, 1);
                return;
        }
        if (load(Y))
                *plain() = 1;
}

static void test_plain_bytes_are_read_and_used_again_in_order(void)
{
        uint32_t i;

        for (i = 0; i < 4; i++) {
                order(i & 1, i & 2, NULL);
                CHECK(walk("plain message", plain_message, 2) == (i == 3));
                CHECK((i == 3 && may("1")) || strstr(report.message, "data race"));
                CHECK(walk("plain bytes used again", plain_reuse, 2) == (i == 3));
                CHECK(i == 3 || strstr(report.message, "data race"));
        }
}

/* ---- what is left out ---- */

static void load_buffering(uint32_t me)
{
        world.seen[me] = sb_load_relaxed(word(me));
        sb_store_relaxed(word(!me), 1);
}

static void test_load_buffering_is_left_out(void)
{
        order(false, false, NULL);
        CHECK(walk("load buffering", load_buffering, 2));
        CHECK(may("00") && may("10") && may("01") && !may("11"));
}

/* ---- a schedule ---- */

static void message_checked(uint32_t me)
{
        if (!me) {
                sb_store_relaxed(word(X), 1);
                sb_store_release(word(Y), 1);
                return;
        }
        if (sb_load_relaxed(word(Y)))
                MODEL_CHECK(sb_load_relaxed(word(X)) == 1);
}

static void test_an_older_value_is_part_of_the_schedule(void)
{
        struct model_scenario scenario = {.name = "message",
                .setup = setup,
                .thread = message_checked,
                .thread_count = 2,
                .weak = true};

        CHECK(model_explore(&scenario, &report));
        scenario.older = 1;
        CHECK(!model_explore(&scenario, &report));
        CHECK(strchr(report.replay, 'o'));
        CHECK(!model_replay(&scenario, report.replay));
        CHECK(model_replay(&scenario, "-"));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_message_needs_release_and_acquire);
        RUN(test_or_barriers_on_both_sides);
        RUN(test_a_locked_instruction_passes_a_message_on);
        RUN(test_causes_go_through_others);
        RUN(test_stores_pass_later_loads_unless_there_is_a_barrier);
        RUN(test_two_readers_may_disagree_unless_there_is_a_barrier);
        RUN(test_stores_to_two_words_have_no_common_order_without_a_barrier);
        RUN(test_a_store_behind_an_acquire_is_later);
        RUN(test_one_word_is_coherent);
        RUN(test_locked_instructions_follow_each_other);
        RUN(test_plain_bytes_are_read_and_used_again_in_order);
        RUN(test_load_buffering_is_left_out);
        RUN(test_an_older_value_is_part_of_the_schedule);
        return test_end();
}
