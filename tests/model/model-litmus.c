/*
 * The model checker checked: what small programs may do, and what it must find in broken ones.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "tests/harness/model/model.h"
#include "tests/harness/test.h"

enum { WORD_A, WORD_B, WORD_C, WORD_LOCK };

static struct world {
        uint64_t seen[MODEL_THREADS];
} world;

static struct sb_word64 *word(uint32_t index)
{
        return (struct sb_word64 *)model_region(4096) + index;
}

static void setup_empty(void)
{
        model_region(4096);
}

static struct model_report report;

/* An execution that goes on from where one was saved is the one that began at the start. */
static void check_same(const struct model_report *as, const struct model_report *anew)
{
        CHECK_EQ(as->executions, anew->executions);
        CHECK_EQ(as->merged, anew->merged);
        CHECK_EQ(as->states, anew->states);
        CHECK_EQ(as->finals, anew->finals);
        CHECK_EQ(as->steps, anew->steps);
        CHECK(as->failed == anew->failed && !strcmp(as->message, anew->message) &&
                !strcmp(as->replay, anew->replay));
}

static bool walk(struct model_scenario *scenario)
{
        struct model_report anew;
        bool good;

        scenario->world = &world;
        scenario->world_size = sizeof world;
        if (!scenario->setup)
                scenario->setup = setup_empty;
        scenario->anew = true;
        model_explore(scenario, &anew);
        scenario->anew = false;
        good = model_explore(scenario, &report);
        check_same(&report, &anew);
        printf("  %s: %lu executions, %lu states, %lu ends%s%s\n", scenario->name,
                (unsigned long)report.executions, (unsigned long)report.states,
                (unsigned long)report.finals, good ? "" : ": ", report.message);
        return good;
}

/* ---- store buffering: x = 1; r = y | y = 1; r = x ---- */

static void buffering(uint32_t me)
{
        sb_store_relaxed(word(me), 1);
        world.seen[me] = sb_load_relaxed(word(!me));
}

static void buffering_fenced(uint32_t me)
{
        sb_store_relaxed(word(me), 1);
        sb_fence_full();
        world.seen[me] = sb_load_relaxed(word(!me));
}

static void buffering_one_sided(uint32_t me)
{
        sb_store_relaxed(word(me), 1);
        if (me)
                model_os.membarrier(NULL);
        else
                sb_compiler_barrier();
        world.seen[me] = sb_load_relaxed(word(!me));
}

static void check_buffering(void)
{
        MODEL_CHECK(world.seen[0] || world.seen[1]);
}

static void test_store_buffering_is_seen_under_tso_alone(void)
{
        struct model_scenario scenario = {.name = "store buffering",
                .thread = buffering,
                .thread_count = 2,
                .check = check_buffering,
                .preemptions = 3};

        CHECK(walk(&scenario));
        CHECK(report.finals == 3);
        scenario.delays = 2;
        CHECK(!walk(&scenario));
}

static void test_a_fence_or_a_membarrier_forbids_it(void)
{
        struct model_scenario scenario = {.name = "with fences",
                .thread = buffering_fenced,
                .thread_count = 2,
                .check = check_buffering,
                .preemptions = 4,
                .delays = 3};

        CHECK(walk(&scenario));
        CHECK(report.finals == 3);
        scenario.name = "with a membarrier";
        scenario.thread = buffering_one_sided;
        CHECK(walk(&scenario));
        CHECK(report.finals == 3);
}

/* ---- message passing ---- */

static void passing(uint32_t me)
{
        if (!me) {
                sb_store_relaxed(word(WORD_A), 7);
                sb_store_release(word(WORD_B), 1);
                return;
        }
        if (sb_load_acquire(word(WORD_B)))
                MODEL_CHECK(sb_load_relaxed(word(WORD_A)) == 7);
}

static void passing_backwards(uint32_t me)
{
        if (!me) {
                sb_store_release(word(WORD_B), 1);
                sb_store_relaxed(word(WORD_A), 7);
                return;
        }
        if (sb_load_acquire(word(WORD_B)))
                MODEL_CHECK(sb_load_relaxed(word(WORD_A)) == 7);
}

static void test_message_passing_holds_in_order_alone(void)
{
        struct model_scenario scenario = {.name = "message passing",
                .thread = passing,
                .thread_count = 2,
                .preemptions = 4,
                .delays = 2};

        CHECK(walk(&scenario));
        scenario.thread = passing_backwards;
        CHECK(!walk(&scenario));
}

/* ---- a Peterson lock, which needs a fence ---- */

static bool peterson_fence;

static void peterson(uint32_t me)
{
        uint32_t turns;

        sb_store_relaxed(word(me), 1);
        sb_store_relaxed(word(WORD_LOCK), !me);
        if (peterson_fence)
                sb_fence_full();
        for (turns = 0; sb_load_acquire(word(!me)) && sb_load_acquire(word(WORD_LOCK)) == !me;
                turns++) {
                if (turns == 3)
                        return;
        }
        sb_store_relaxed(word(WORD_C), sb_load_relaxed(word(WORD_C)) + 1);
        world.seen[me] = 1;
        sb_store_release(word(me), 0);
}

static void check_peterson(void)
{
        MODEL_CHECK(sb_load_relaxed(word(WORD_C)) == world.seen[0] + world.seen[1]);
}

static void test_peterson_breaks_under_tso_without_its_fence(void)
{
        struct model_scenario scenario = {.name = "Peterson",
                .thread = peterson,
                .thread_count = 2,
                .check = check_peterson,
                .preemptions = 4};
        uint64_t finals;

        peterson_fence = false;
        CHECK(walk(&scenario));
        scenario.delays = 3;
        CHECK(!walk(&scenario));
        peterson_fence = true;
        CHECK(walk(&scenario));
        finals = report.finals;
        scenario.unmerged = true;
        CHECK(walk(&scenario));
        CHECK(report.finals == finals);
}

/* ---- a stack with ABA: words 8 + i are the next links ---- */

static uint64_t stack_pop(void)
{
        uint64_t top, next;

        do {
                top = sb_load_acquire(word(WORD_A));
                if (!top)
                        return 0;
                next = sb_load_relaxed(word(8 + (uint32_t)top));
        } while (!sb_cas64_full(word(WORD_A), top, next));
        return top;
}

static void stack_push(uint64_t node)
{
        uint64_t top;

        do {
                top = sb_load_acquire(word(WORD_A));
                sb_store_relaxed(word(8 + (uint32_t)node), top);
        } while (!sb_cas64_full(word(WORD_A), top, node));
}

static void setup_stack(void)
{
        model_region(4096);
        stack_push(1);
        stack_push(2);
        stack_push(3);
}

static void aba(uint32_t me)
{
        uint64_t first;

        if (!me) {
                world.seen[0] = stack_pop();
                return;
        }
        first = stack_pop();
        world.seen[1] = stack_pop();
        stack_push(first);
}

static void check_stack(void)
{
        uint64_t at, times[4] = {0};
        uint32_t n = 0;

        for (at = sb_load_relaxed(word(WORD_A)); at && n < 8;
                n++, at = sb_load_relaxed(word(8 + (uint32_t)at)))
                times[at]++;
        MODEL_CHECK(n < 8);
        times[world.seen[0]]++;
        times[world.seen[1]]++;
        MODEL_CHECK(times[1] == 1 && times[2] == 1 && times[3] == 1);
}

static void test_an_aba_is_found_shrunk_and_replayed(void)
{
        struct model_scenario scenario = {.name = "ABA",
                .setup = setup_stack,
                .thread = aba,
                .thread_count = 2,
                .check = check_stack,
                .preemptions = 3};
        char replay[sizeof report.replay], message[sizeof report.message];

        CHECK(!walk(&scenario));
        memcpy(replay, report.replay, sizeof replay);
        memcpy(message, report.message, sizeof message);
        printf("  schedule %s\n", replay);
        CHECK(strcmp(replay, "-"));
        CHECK(!strchr(replay, ',')); /* one switch is enough for it */
        CHECK(!model_replay(&scenario, replay));
        CHECK(model_replay(&scenario, "-"));
        scenario.preemptions = 0;
        CHECK(walk(&scenario));
}

/* ---- a lock that its dead holder keeps ---- */

static void lock_and_count(uint32_t me)
{
        while (!sb_cas64_full(word(WORD_LOCK), 0, me + 1)) {
        }
        sb_store_relaxed(word(WORD_A), sb_load_relaxed(word(WORD_A)) + 1);
        sb_store_release(word(WORD_LOCK), 0);
}

static void break_lock(uint32_t dead)
{
        sb_cas64_full(word(WORD_LOCK), dead + 1, 0);
}

static void lock_politely(uint32_t me)
{
        while (!sb_cas64_full(word(WORD_LOCK), 0, me + 1))
                model_os.pause(NULL, 1);
        sb_store_relaxed(word(WORD_A), sb_load_relaxed(word(WORD_A)) + 1);
        sb_store_release(word(WORD_LOCK), 0);
}

static void check_counted(void)
{
        uint64_t counted = sb_load_relaxed(word(WORD_A));

        MODEL_CHECK(counted >= (uint64_t)model_finished(0) + model_finished(1) && counted <= 2);
}

static void test_a_lock_is_no_progress(void)
{
        struct model_scenario scenario = {.name = "spin lock",
                .thread = lock_and_count,
                .thread_count = 2,
                .check = check_counted,
                .preemptions = 1};

        CHECK(!walk(&scenario));
        CHECK(strstr(report.message, "no progress"));
        scenario.name = "polite lock";
        scenario.thread = lock_politely;
        scenario.preemptions = 3;
        CHECK(walk(&scenario));
}

static void test_a_crash_is_no_progress_for_a_lock_unless_reaped(void)
{
        struct model_scenario scenario = {.name = "dead holder",
                .thread = lock_politely,
                .thread_count = 2,
                .check = check_counted,
                .preemptions = 2,
                .crashes = 1,
                .crash_mask = 3};

        CHECK(!walk(&scenario));
        CHECK(strstr(report.message, "no progress"));
        CHECK(strchr(report.replay, 'x'));
        scenario.name = "reaped holder";
        scenario.reaper = break_lock;
        CHECK(walk(&scenario));
}

/* ---- ghost state, traps ---- */

#define BLOCK 1024u

static void setup_block(void)
{
        model_region(4096);
        model_ghost_area(BLOCK, 1024);
        sb_model_block(BLOCK, 64, 1);
        sb_store_relaxed(word(WORD_A), BLOCK);
}

static void use_or_free(uint32_t me)
{
        uint64_t at;

        if (me) {
                sb_exchange_full(word(WORD_A), 0);
                sb_model_block(BLOCK, 64, 0);
                return;
        }
        at = sb_load_acquire(word(WORD_A));
        if (at)
                sb_load_acquire(word((uint32_t)at / 8));
}

static void free_twice(uint32_t me)
{
        (void)me;
        if (sb_load_acquire(word(WORD_A)) == BLOCK) {
                sb_store_relaxed(word(WORD_A), 0);
                sb_model_block(BLOCK, 64, 0);
        }
}

static void trap_if_first(uint32_t me)
{
        if (sb_exchange_full(word(WORD_A), me + 1) == 2)
                __builtin_trap();
}

static void test_misuse_of_blocks_is_found(void)
{
        struct model_scenario scenario = {.name = "use after free",
                .setup = setup_block,
                .thread = use_or_free,
                .thread_count = 2,
                .preemptions = 1};

        CHECK(!walk(&scenario));
        CHECK(strstr(report.message, "use after free"));
        scenario.name = "double free";
        scenario.thread = free_twice;
        CHECK(!walk(&scenario));
        CHECK(strstr(report.message, "double free"));
}

static void test_a_trap_in_the_code_is_a_violation(void)
{
        struct model_scenario scenario = {
                .name = "trap", .thread = trap_if_first, .thread_count = 2};

        CHECK(!walk(&scenario));
        CHECK(strstr(report.message, "signal"));
}

/* ---- how fast ---- */

static void count_to_five(uint32_t me)
{
        uint32_t i;

        for (i = 0; i < 5; i++)
                sb_add_full(word(WORD_A), me + 1);
        world.seen[me] = sb_load_relaxed(word(WORD_A));
}

static void test_known_states_are_walked_once(void)
{
        struct model_scenario scenario = {.name = "three counters",
                .thread = count_to_five,
                .thread_count = 3,
                .preemptions = 3};
        uint64_t finals;

        CHECK(walk(&scenario));
        CHECK(report.merged > 0);
        finals = report.finals;
        scenario.unmerged = true;
        CHECK(walk(&scenario));
        CHECK(report.merged == 0 && report.finals == finals);
        scenario.unmerged = false;
        scenario.preemptions = 4;
        CHECK(walk(&scenario));
        CHECK(report.finals > finals);
}

/* Calls model_main() for one scenario. Return: its exit status, and what it printed. */
static int main_said(const struct model_scenario *scenario, char *ret_text, size_t size)
{
        static char name[] = "model-litmus", *arguments[] = {name, NULL};
        FILE *file = tmpfile();
        int status = -1, out = dup(STDOUT_FILENO);

        if (file && out >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0) {
                status = model_main(1, arguments, scenario, 1);
                fflush(stdout);
                dup2(out, STDOUT_FILENO);
                rewind(file);
                ret_text[fread(ret_text, 1, size - 1, file)] = '\0';
        }
        if (file)
                fclose(file);
        close(out);
        return status;
}

static void test_a_walk_that_is_cut_short_is_a_failure(void)
{
        struct model_scenario scenario = {.name = "two counters",
                .setup = setup_empty,
                .thread = count_to_five,
                .world = &world,
                .world_size = sizeof world,
                .thread_count = 2,
                .preemptions = 2};
        char said[512] = "";

        CHECK_EQ(main_said(&scenario, said, sizeof said), 0);
        CHECK(strstr(said, "ok two counters: ") == said && !strstr(said, "CUT"));
        scenario.execution_max = 3;
        CHECK_EQ(main_said(&scenario, said, sizeof said), 1);
        CHECK(strstr(said, "FAIL two counters: ") == said && strstr(said, "CUT"));
}

/* A costly scenario of which a quick run leaves nothing but the threads' turns is counted. */
static void test_a_walk_without_a_preemption_is_said(void)
{
        static const struct {
                bool costly;
                uint32_t preemptions, crashes;
                bool is_said;
        } cases[] = {{true, 1, 0, true}, {true, 2, 0, true}, {true, 3, 0, false},
                {true, 1, 1, false}, {false, 1, 0, false}};
        struct model_scenario scenario = {.name = "two counters",
                .setup = setup_empty,
                .thread = count_to_five,
                .world = &world,
                .world_size = sizeof world,
                .thread_count = 2};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char said[512] = "";

                scenario.costly = cases[i].costly;
                scenario.preemptions = cases[i].preemptions;
                scenario.crashes = cases[i].crashes;
                CHECK_EQ(main_said(&scenario, said, sizeof said), 0);
                CHECK_EQ(!!strstr(said, "; 1 costly ones only in turns"),
                        cases[i].is_said && !getenv("SB_TEST_LONG"));
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_store_buffering_is_seen_under_tso_alone);
        RUN(test_a_fence_or_a_membarrier_forbids_it);
        RUN(test_message_passing_holds_in_order_alone);
        RUN(test_peterson_breaks_under_tso_without_its_fence);
        RUN(test_an_aba_is_found_shrunk_and_replayed);
        RUN(test_a_lock_is_no_progress);
        RUN(test_a_crash_is_no_progress_for_a_lock_unless_reaped);
        RUN(test_misuse_of_blocks_is_found);
        RUN(test_a_trap_in_the_code_is_a_violation);
        RUN(test_known_states_are_walked_once);
        RUN(test_a_walk_that_is_cut_short_is_a_failure);
        RUN(test_a_walk_without_a_preemption_is_said);
        return test_end();
}
