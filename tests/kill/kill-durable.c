/*
 * Waiting for the durable cut (shm/notify/durable.h) at every instruction: the log is killed while
 * it tells, and another one takes over, or is killed while it does and a third one comes; a client
 * is stopped while it waits, and the log tells meanwhile, or is killed and another one does. No
 * client sleeps on. And a client is killed while it asks the log for a copy or for a cut, and
 * another one asks for the same: the log wakes and finds it.
 *
 * The system is the test's: a client that sleeps does so in wait_for(), and a wake that comes
 * before the sleep wakes no client.
 */
#include <errno.h>

#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/bell.h"
#include "shm/notify/durable.h"
#include "tests/harness/faults.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/chain.h"

#define CUT 7

static struct sb_os os;
static uint64_t wakes, slept_on; /* slept_on: sleeps that nothing would have ended */
static void (*in_sleep)(void);   /* what happens while the client sleeps */
static bool sleeping;            /* it does, and others are at work */

static uint64_t stand_still(void *context)
{
        (void)context;
        return 1;
}

static int wait_for(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        const uint64_t before = wakes;

        (void)context, (void)deadline_ns;
        if (sb_load_acquire(word) != expected)
                return 0;
        sleeping = true;
        if (in_sleep)
                in_sleep();
        sleeping = false;
        slept_on += wakes == before;
        return wakes == before ? -EINTR : 0;
}

static void wake(void *context, struct sb_word32 *word)
{
        (void)context, (void)word;
        wakes++;
}

static bool begin(void)
{
        if (!make_bus(1 << 20))
                return false;
        os = sb_os_linux;
        os.now_ns = stand_still;
        os.wait = wait_for;
        os.wake = wake;
        reader.segment.os = &os;
        wakes = slept_on = 0;
        in_sleep = NULL;
        sleeping = false;
        return true;
}

/* ---- what a log does ---- */

static void tell(void *context)
{
        (void)context;
        sb_store_release(&reader.segment.super->durable, CUT); /* R:durable. */
        sb_durable_tell(&reader.segment, 0);
}

static void tell_alone(void)
{
        tell(NULL);
}

/* Another log: the one before it may have been killed anywhere. */
static void take_over(void)
{
        sb_durable_take_over(&reader.segment);
        tell(NULL);
}

/* ---- the log is killed ---- */

struct play {
        uint64_t points, asleep, first; /* asleep: points behind which the client sleeps on */
        uintptr_t where;
};

/* What a killed log leaves of the words by which it tells. */
struct left {
        uint64_t durable, wakes;
        uint32_t count, waits;
};

static struct left left_now(void)
{
        const struct sb_superblock *super = reader.segment.super;

        /* Relaxed, all: one thread. */
        return (struct left){sb_load_relaxed(&super->durable), wakes,
                sb_load_relaxed(&super->durable_count), sb_load_relaxed(&super->durable_waits)};
}

static void put_back(const struct left *left)
{
        struct sb_superblock *super = reader.segment.super;

        /* Relaxed, all: one thread. */
        sb_store_relaxed(&super->durable, left->durable);
        sb_store_relaxed(&super->durable_count, left->count);
        sb_store_relaxed(&super->durable_waits, left->waits);
        wakes = left->wakes;
}

static enum step_verdict kill_log(void *context, uint64_t number, uintptr_t address)
{
        const struct left left = left_now();
        struct play *play = context;

        play->points++;
        take_over();
        if (!wakes && !play->asleep++) {
                play->first = number;
                play->where = address;
        }
        put_back(&left);
        return STEP_ON;
}

static void test_behind_a_log_that_was_killed_while_it_told_the_next_one_wakes_who_waits(void)
{
        struct play play = {0};
        struct step_run run = {
                .operation = tell, .point = kill_log, .context = &play, .point_limit = 100000};

        CHECK(begin());
        /* A client sleeps. */
        sb_store_relaxed(&reader.segment.super->durable_waits, 1);
        CHECK_EQ(step_run(&run), STEP_DONE);
        CHECK(play.points > 10);
        if (play.asleep)
                TEST_FAIL("a client sleeps on behind %lu of %lu points, first %lu, %s",
                        (unsigned long)play.asleep, (unsigned long)play.points,
                        (unsigned long)play.first, step_where(play.where));
        TEST_NOTE("%lu points", (unsigned long)play.points);
        unmake_bus();
}

/* ---- the log that takes over is killed, too ---- */

#define STATES_MAX 64u

struct lefts {
        struct left state[STATES_MAX];
        uint32_t count;
};

/* At each point of the first log: what it leaves, once each. */
static enum step_verdict collect(void *context, uint64_t number, uintptr_t address)
{
        struct left now = left_now();
        struct lefts *lefts = context;

        (void)number, (void)address;
        for (uint32_t i = 0; i < lefts->count; i++)
                if (!memcmp(&lefts->state[i], &now, sizeof(now)))
                        return STEP_ON;
        if (lefts->count < STATES_MAX)
                lefts->state[lefts->count++] = now;
        return STEP_ON;
}

static void take_over_stepped(void *context)
{
        (void)context;
        take_over();
}

static void test_behind_one_that_was_killed_while_it_took_over_the_third_one_does(void)
{
        struct step_run run = {.operation = tell, .point = collect, .point_limit = 100000};
        struct lefts lefts = {0};
        struct play play = {0};

        CHECK(begin());
        sb_store_relaxed(&reader.segment.super->durable_waits, 1);
        run.context = &lefts;
        CHECK_EQ(step_run(&run), STEP_DONE);
        CHECK(lefts.count > 3 && lefts.count < STATES_MAX);
        for (uint32_t i = 0; i < lefts.count; i++) {
                run = (struct step_run){.operation = take_over_stepped,
                        .point = kill_log,
                        .context = &play,
                        .point_limit = 100000};
                put_back(&lefts.state[i]);
                CHECK_EQ(step_run(&run), STEP_DONE);
        }
        if (play.asleep)
                TEST_FAIL("a client sleeps on behind %lu of %lu points, first %lu, %s",
                        (unsigned long)play.asleep, (unsigned long)play.points,
                        (unsigned long)play.first, step_where(play.where));
        TEST_NOTE("%u states that a log leaves, %lu points of the next one", lefts.count,
                (unsigned long)play.points);
        unmake_bus();
}

/* ---- a client is stopped ---- */

struct stop {
        uint64_t at;
        void (*others)(void);
        bool came;
        int result;
};

static void wait_until_durable(void *context)
{
        struct stop *stop = context;

        stop->result = sb_durable_wait(&reader.segment, CUT, 0, UINT64_MAX);
}

static enum step_verdict stop_client(void *context, uint64_t number, uintptr_t address)
{
        struct stop *stop = context;

        (void)address;
        if (number < stop->at || stop->came || sleeping)
                return STEP_ON;
        stop->others();
        stop->came = true;
        /* What was told once is not told again. */
        if (stop->others == tell_alone)
                in_sleep = NULL;
        return STEP_ON;
}

/* It dies behind its taking back that clients wait. */
static void tell_and_die(void)
{
        struct sb_superblock *super = reader.segment.super;

        sb_store_release(&super->durable, CUT); /* R:durable. */
        sb_add_full(&super->durable_count, 1);
        sb_exchange_full(&super->durable_waits, 0);
}

/* A client waits, and at each of its points the others come; asleep, another log takes over. */
static void stop_everywhere(void (*others)(void))
{
        uint64_t at = 0, points = 0;

        for (bool came = true; came; at++) {
                struct stop stop = {.at = at, .others = others, .result = -1};
                struct step_run run = {.operation = wait_until_durable,
                        .point = stop_client,
                        .context = &stop,
                        .point_limit = 100000};

                CHECK(begin());
                in_sleep = take_over;
                CHECK_EQ(step_run(&run), STEP_DONE);
                came = stop.came;
                points += came;
                if (slept_on || stop.result)
                        TEST_FAIL("stopped at point %lu, a client gets %d, and slept on %lu times",
                                (unsigned long)at, stop.result, (unsigned long)slept_on);
                unmake_bus();
        }
        CHECK(points > 10);
        TEST_NOTE("%lu points", (unsigned long)points);
}

static void test_a_client_that_is_stopped_while_it_waits_sees_what_is_told_meanwhile(void)
{
        stop_everywhere(tell_alone);
}

static void test_the_same_where_the_log_is_killed_as_it_tells(void)
{
        stop_everywhere(tell_and_die);
}

/* ---- a client that asks is killed ---- */

struct asking {
        uint64_t points, asleep, unwanted; /* points behind which the second one's asking is lost */
        uintptr_t where;
        bool copy; /* it asks for one; else for a cut */
};

static void ask(void *context)
{
        const struct asking *asking = context;

        if (asking->copy)
                sb_durable_want_copy(&reader.segment);
        else
                sb_durable_want(&reader.segment, CUT);
}

static bool is_wanted(const struct asking *asking)
{
        const struct sb_superblock *super = reader.segment.super;

        /* Relaxed, both: one thread. */
        return asking->copy ? sb_load_relaxed(&super->copies_wanted) == 1
                            : sb_load_relaxed(&super->wanted) == CUT;
}

static struct sb_record *log_record(void)
{
        return sb_record_at(&reader.segment, sb_durable_slot(&reader.segment));
}

/* The words that a client writes which asks. */
struct asked {
        uint64_t wanted, copies, bits, any, rung, wakes;
        uint32_t bell;
};

static struct asked asked_now(void)
{
        const struct sb_superblock *super = reader.segment.super;
        const struct sb_record *log = log_record();

        /* Relaxed, all: one thread. */
        return (struct asked){sb_load_relaxed(&super->wanted),
                sb_load_relaxed(&super->copies_wanted), sb_load_relaxed(&log->dirty[0]),
                sb_load_relaxed(&log->dirty_any), sb_load_relaxed(&log->rung), wakes,
                sb_load_relaxed(&log->bell)};
}

static void put_asked_back(const struct asked *asked)
{
        struct sb_superblock *super = reader.segment.super;
        struct sb_record *log = log_record();

        /* Relaxed, all: one thread. */
        sb_store_relaxed(&super->wanted, asked->wanted);
        sb_store_relaxed(&super->copies_wanted, asked->copies);
        sb_store_relaxed(&log->dirty[0], asked->bits);
        sb_store_relaxed(&log->dirty_any, asked->any);
        sb_store_relaxed(&log->rung, asked->rung);
        sb_store_relaxed(&log->bell, asked->bell);
        wakes = asked->wakes;
}

static enum step_verdict kill_client(void *context, uint64_t number, uintptr_t address)
{
        const struct asked asked = asked_now();
        struct asking *asking = context;

        (void)number;
        asking->points++;
        ask(asking);
        asking->asleep += !wakes;
        asking->unwanted += !is_wanted(asking);
        if ((!wakes || !is_wanted(asking)) && !asking->where)
                asking->where = address;
        put_asked_back(&asked);
        return STEP_ON;
}

static void ask_everywhere(bool copy)
{
        struct asking asking = {.copy = copy};
        struct step_run run = {
                .operation = ask, .point = kill_client, .context = &asking, .point_limit = 100000};

        CHECK(begin());
        /* The log sleeps. */
        sb_store_relaxed(&log_record()->sleeps, SB_BELL_SLEEPS);
        CHECK_EQ(step_run(&run), STEP_DONE);
        CHECK(asking.points > 10 && wakes);
        if (asking.where)
                TEST_FAIL(
                        "behind %lu of %lu points the log sleeps on, behind %lu it finds nothing, "
                        "first %s",
                        (unsigned long)asking.asleep, (unsigned long)asking.points,
                        (unsigned long)asking.unwanted, step_where(asking.where));
        TEST_NOTE("%lu points", (unsigned long)asking.points);
        unmake_bus();
}

static void test_behind_a_client_killed_while_it_asked_for_a_copy_the_next_one_gets_its(void)
{
        ask_everywhere(true);
}

static void test_behind_one_killed_while_it_asked_for_a_cut_the_next_one_gets_its(void)
{
        ask_everywhere(false);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_behind_a_log_that_was_killed_while_it_told_the_next_one_wakes_who_waits);
        RUN(test_behind_one_that_was_killed_while_it_took_over_the_third_one_does);
        RUN(test_a_client_that_is_stopped_while_it_waits_sees_what_is_told_meanwhile);
        RUN(test_the_same_where_the_log_is_killed_as_it_tells);
        RUN(test_behind_a_client_killed_while_it_asked_for_a_copy_the_next_one_gets_its);
        RUN(test_behind_one_killed_while_it_asked_for_a_cut_the_next_one_gets_its);
        return test_end();
}
