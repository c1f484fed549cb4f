/*
 * The stepper executes copies of instructions. Each operation here is stepped twice, once by copies
 * and once at its own address by the processor's trap flag alone: at every point both show the same
 * next instruction, registers, flags, stack and memory, to the bit. A run that wants some of the
 * points alone shows the same at those, and counts all.
 *
 * SB_TEST_LONG=1: all scenarios except those on a full segment. SB_SCENARIO=name: only that one.
 * SB_FIRST=n: a quick run takes other scenarios.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/base/hash.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/step/stepper.h"
#include "tests/harness/step/trial.h"
#include "tests/harness/test.h"

#define POINT_LIMIT     4000000u
#define SCENARIOS_QUICK 24
#define TOUCHING_QUICK  6
#define TOYS            24u
#define BYTES_MAX       5000u

static uint64_t first;

#define WANTED_COUNT (STEP_TOUCHING + 1)

/* What two runs compare. */
struct look {
        uint64_t sums[WANTED_COUNT]; /* hashes of all that was seen at such points */
        const void *memory;
        size_t size;
        uint64_t memory_sum;
        uint64_t unannounced; /* changes of memory at points that announced none */
        struct step_run run;
};

static enum step_verdict look_at_point(void *context, uint64_t number, uintptr_t address)
{
        struct look *look = context;
        uint64_t seen[4 + STEP_REGISTERS] = {0, number, address};
        uint64_t memory_sum = XXH3_64bits(look->memory, look->size);
        bool is_such[] = {true, look->run.changed, look->run.touches};

        look->unannounced +=
                memory_sum != look->memory_sum && (!look->run.stored || !look->run.changed);
        look->memory_sum = seen[3] = memory_sum;
        memcpy(seen + 4, step_registers(), STEP_REGISTERS * sizeof(*seen));
        for (uint32_t i = 0; i < WANTED_COUNT; i++)
                if (is_such[i]) {
                        seen[0] = look->sums[i];
                        look->sums[i] = XXH3_64bits(seen, sizeof(seen));
                }
        return STEP_ON;
}

/* The operation gets the same argument each time: it is in its registers. */
static enum step_end look_at(
        struct look *ret, void (*operation)(void *), enum step_wanted wanted, bool by_traps)
{
        static struct look look;
        enum step_end end;

        look = *ret;
        look.run = (struct step_run){.operation = operation,
                .point = look_at_point,
                .context = &look,
                .shared = {(void *)(uintptr_t)look.memory, look.size},
                .wanted = wanted,
                .point_limit = POINT_LIMIT,
                .by_traps = by_traps};
        step_forget();
        end = step_run(&look.run);
        *ret = look;
        return end;
}

static bool is_same(const struct look *all, const struct look *some, enum step_wanted wanted)
{
        return some->run.points == all->run.points && some->sums[wanted] == all->sums[wanted];
}

/* ---- toys: instructions of all kinds ---- */

static struct toys {
        uint64_t words[64];
        unsigned char from[BYTES_MAX], to[BYTES_MAX];
        double number;
        uint64_t (*steps[4])(uint64_t);
        unsigned char text[64];
} toys;
static volatile size_t lengths[] = {0, 1, 7, 16, 33, 64, 100, 200, 300, 1000, 3000};

static uint64_t by_switch(uint64_t word)
{
        switch (word % 8) {
        case 0:
                return word / 3;
        case 1:
                return word * 5 + 1;
        case 2:
                return word << 3 ^ word >> 5;
        case 3:
                return (uint64_t)__builtin_popcountll(word) + (uint64_t)__builtin_ctzll(word | 8);
        case 4:
                return __builtin_bswap64(word);
        case 5:
                return word % 1000003;
        case 6:
                return ~word;
        default:
                return -word;
        }
}

static uint64_t by_recursion(uint64_t word)
{
        return word < 2 ? word : by_recursion((word - 1) % 9) + by_recursion((word - 2) % 7);
}

static uint64_t by_atomics(uint64_t word)
{
        uint64_t old = __atomic_fetch_add(&toys.words[1], word, __ATOMIC_SEQ_CST);
        __int128 pair = 0;

        __atomic_compare_exchange_n(
                &toys.words[2], &old, word, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        __atomic_fetch_or(&toys.words[3], 1ull << (word & 63), __ATOMIC_SEQ_CST);
        pair = __sync_val_compare_and_swap((__int128 *)&toys.words[4], pair, (__int128)word);
        return __atomic_exchange_n(&toys.words[6], word, __ATOMIC_SEQ_CST) + (uint64_t)pair;
}

static uint64_t by_numbers(uint64_t word)
{
        long double wide = (long double)word / 7;

        toys.number = toys.number * 1.5 + (double)(word % 100);
        return (uint64_t)toys.number + (uint64_t)wide;
}

/* What compilers seldom write: rounds of string instructions, and jumps by rcx, which have no copy.
 */
static void by_hand(uint64_t count)
{
        unsigned char *to = toys.to, *from = toys.from;
        uint64_t left = count % 5, rounds = count % 3 + 1, text = sizeof(toys.text);
        const unsigned char *found = toys.text;

        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left)::"memory");
        left = count % 4;
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(left) : "a"(count) : "memory");
        __asm__ volatile("std\n rep movsw\n cld" : "+D"(to), "+S"(from), "+c"(left)::"memory");
        __asm__ volatile("repne scasb" : "+D"(found), "+c"(text) : "a"(0) : "cc", "memory");
        __asm__ volatile("1: add %1, %2\n loop 1b\n jrcxz 2f\n nop\n 2:"
                         : "+c"(rounds), "+r"(count), "+m"(toys.words[8])::"cc");
        __asm__ volatile("push %0\n lea 3f(%%rip), %0\n xchg %0, (%%rsp)\n ret\n 3:"
                         : "+r"(count)::"memory");
}

static void toy_operation(void *context)
{
        (void)context;
        for (uint64_t i = 0; i < TOYS; i++) {
                uint64_t word = toys.words[0] * UINT64_C(6364136223846793005) + i;
                size_t length = lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];

                toys.words[0] = word;
                toys.words[10 + i] = toys.steps[i % 4](word);
                memcpy(toys.to + i, toys.from, length);
                memmove(toys.to + 3, toys.to, length);
                memset(toys.to + length, (int)i, length / 2);
                toys.words[7] += (uint64_t)memcmp(toys.from, toys.to, length);
                toys.words[9] += strlen((const char *)toys.text) + sizeof(long[i + 1]);
                by_hand(i);
        }
}

static void toys_begin(void)
{
        memset(&toys, 0, sizeof(toys));
        for (uint32_t i = 0; i < BYTES_MAX; i++)
                toys.from[i] = (unsigned char)(i * 31 + 1);
        memset(toys.text, 'x', 40);
        toys.steps[0] = by_switch;
        toys.steps[1] = by_recursion;
        toys.steps[2] = by_atomics;
        toys.steps[3] = by_numbers;
}

static void test_copied_instructions_of_all_kinds_do_what_trapped_ones_do(void)
{
        struct look copied = {.memory = &toys, .size = sizeof(toys)}, trapped = copied;
        struct toys plainly;

        toys_begin();
        toy_operation(NULL);
        plainly = toys;
        toys_begin();
        CHECK(look_at(&copied, toy_operation, STEP_EACH, false) == STEP_DONE);
        CHECK(memcmp(&toys, &plainly, sizeof(toys)) == 0);
        toys_begin();
        CHECK(look_at(&trapped, toy_operation, STEP_EACH, true) == STEP_DONE);
        CHECK(memcmp(&toys, &plainly, sizeof(toys)) == 0);
        CHECK(is_same(&copied, &trapped, STEP_EACH));
        CHECK_EQ(copied.unannounced, 0);
        for (enum step_wanted wanted = STEP_STORED; wanted <= STEP_TOUCHING; wanted++) {
                struct look some = {.memory = &toys, .size = sizeof(toys)};

                toys_begin();
                CHECK(look_at(&some, toy_operation, wanted, false) == STEP_DONE);
                CHECK(memcmp(&toys, &plainly, sizeof(toys)) == 0);
                CHECK(is_same(&copied, &some, wanted));
        }
}

/* ---- the operations ---- */

static bool both_ways(const struct step_scenario *scenario, struct trial_report *report)
{
        struct look copied = {.memory = &scene}, trapped = copied, some;

        if ((scenario->flags & TRIAL_FULL) && !getenv("SB_SCENARIO"))
                return true;
        if (!story_prepare(scenario, NULL, report))
                return false;
        copied.size = trapped.size = scene_size(&scene);
        some = copied;
        if (look_at(&copied, trial_operation, STEP_EACH, false) != STEP_DONE)
                trial_fail("%s: the copied operation does not end", scenario->name);
        trial_restore(&scene_start);
        if (look_at(&some, trial_operation, STEP_STORED, false) != STEP_DONE ||
                !is_same(&copied, &some, STEP_STORED))
                trial_fail("%s: of the points after a store, others are seen than of all points",
                        scenario->name);
        trial_restore(&scene_start);
        if (look_at(&trapped, trial_operation, STEP_EACH, true) != STEP_DONE)
                trial_fail("%s: the trapped operation does not end", scenario->name);
        if (!is_same(&copied, &trapped, STEP_EACH))
                trial_fail("%s: copied %llu points, trapped %llu, not the same ones",
                        scenario->name, (unsigned long long)copied.run.points,
                        (unsigned long long)trapped.run.points);
        if (copied.unannounced)
                trial_fail("%s: %llu times memory changes unannounced", scenario->name,
                        (unsigned long long)copied.unannounced);
        report->points += copied.run.points;
        return !trial_failed();
}

/* A quick run takes one scenario in @every; which ones, SB_FIRST says. */
static bool is_taken(const struct step_scenario *scenario, uint32_t every)
{
        uint32_t i = 0;

        while (scenario_at(i) != scenario)
                i++;
        return getenv("SB_TEST_LONG") || getenv("SB_SCENARIO") || (i + first) % every == 0;
}

static bool some_both_ways(const struct step_scenario *scenario, struct trial_report *report)
{
        return !is_taken(scenario, SCENARIOS_QUICK) || both_ways(scenario, report);
}

static void test_copied_operations_have_the_points_that_trapped_ones_have(void)
{
        CHECK_EQ(runs_all(some_both_ways, "copied and trapped", first / SCENARIOS_QUICK, 1, 1), 0);
        CHECK(runs_total.points > 0);
        TEST_NOTE(
                "pieces: %llu points of operations, the same by the trap flag; of the scenarios %s "
                "(SB_FIRST=%llu)",
                (unsigned long long)runs_total.points,
                getenv("SB_TEST_LONG") ? "all that are not full" : "one in 24",
                (unsigned long long)first);
}

/* ---- which instructions touch the segment ---- */

static struct step_run guarded;
static bool is_closed;

/* The segment's whole pages. What follows it, the clients' heaps, may begin in its last page. */
static void close_segment(bool close)
{
        if (close == is_closed)
                return;
        is_closed = close;
        if (mprotect(scene.image, scene.image_size & ~(size_t)4095,
                    close ? PROT_NONE : PROT_READ | PROT_WRITE))
                abort();
}

static enum step_verdict close_before_what_does_not_touch(
        void *context, uint64_t number, uintptr_t address)
{
        uint64_t *stops = context;

        (void)number;
        (void)address;
        *stops += guarded.touches;
        close_segment(!guarded.touches);
        return STEP_ON;
}

/* Only instructions that are said to touch the segment find it open. */
static bool touches_are_known(const struct step_scenario *scenario, struct trial_report *report)
{
        uint64_t stops = 0;
        enum step_end end;

        if (!is_taken(scenario, TOUCHING_QUICK))
                return true;
        if (!story_prepare(scenario, NULL, report))
                return false;
        guarded = (struct step_run){.operation = trial_operation,
                .point = close_before_what_does_not_touch,
                .context = &stops,
                .shared = {scene.image, scene.image_size},
                .point_limit = POINT_LIMIT};
        end = step_run(&guarded);
        close_segment(false);
        /* A client works on a full bus until its deadline: what it does meanwhile is enough. */
        if (end != STEP_DONE && (end != STEP_TOO_LONG || !(scenario->flags & TRIAL_FULL)))
                trial_fail("%s: %s at %s, which was said not to touch the segment", scenario->name,
                        step_end_text(end), step_where(guarded.address));
        if (stops == 0 || stops > guarded.points / 2)
                trial_fail("%s: %llu of %llu instructions touch the segment", scenario->name,
                        (unsigned long long)stops, (unsigned long long)guarded.points);
        report->points += guarded.points;
        report->branches += stops;
        return !trial_failed();
}

static void test_an_instruction_that_touches_the_segment_is_known(void)
{
        uint64_t before = runs_total.points;

        CHECK_EQ(runs_all(touches_are_known, "touching", 0, 2, 2), 0);
        TEST_NOTE("touching: %llu of %llu instructions access the segment",
                (unsigned long long)runs_total.branches,
                (unsigned long long)(runs_total.points - before));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10) : 0;
        RUN(test_copied_instructions_of_all_kinds_do_what_trapped_ones_do);
        RUN(test_copied_operations_have_the_points_that_trapped_ones_have);
        RUN(test_an_instruction_that_touches_the_segment_is_known);
        return test_end();
}
