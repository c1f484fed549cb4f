/*
 * The stepper itself, on toy structures: it must find the broken ones, and the right ones must
 * pass.
 */
#include <stdlib.h>

#include "tests/harness/step/images.h"
#include "tests/harness/step/stepper.h"
#include "tests/harness/test.h"

/* Two words that must always be equal, and a lock bit that some toys take. */
struct toy {
        volatile uint64_t lock, first, second;
        volatile uint64_t pair[2][2];
        volatile uint64_t current;
};

enum { TOY_LOCKED = 1, TOY_TWO_STORES, TOY_RIGHT };

struct play {
        struct toy toy, image;
        int kind;
        uint64_t seen_old, seen_new, torn, resumed, resumed_wrong;
        uintptr_t where;
        enum step_end end;
};

static void toy_write(struct toy *toy, int kind, uint64_t value)
{
        if (kind == TOY_LOCKED) {
                while (__sync_lock_test_and_set(&toy->lock, 1))
                        __builtin_ia32_pause();
                toy->first = value;
                toy->second = value;
                __sync_lock_release(&toy->lock);
        } else if (kind == TOY_TWO_STORES) {
                toy->first = value;
                toy->second = value;
        } else {
                uint64_t next = !toy->current;

                toy->pair[next][0] = value;
                toy->pair[next][1] = value;
                toy->current = next;
        }
}

static void toy_read(struct toy *toy, int kind, uint64_t ret[2])
{
        if (kind == TOY_RIGHT) {
                ret[0] = toy->pair[toy->current][0];
                ret[1] = toy->pair[toy->current][1];
                return;
        }
        while (kind == TOY_LOCKED && __sync_lock_test_and_set(&toy->lock, 1))
                __builtin_ia32_pause();
        ret[0] = toy->first;
        ret[1] = toy->second;
        if (kind == TOY_LOCKED)
                __sync_lock_release(&toy->lock);
}

static void operation(void *context)
{
        struct play *play = context;

        toy_write(&play->toy, play->kind, 7);
}

static void others(void *context)
{
        struct play *play = context;
        uint64_t got[2];

        toy_read(&play->image, play->kind, got);
        if (got[0] != got[1])
                play->torn++;
        else if (got[0] == 7)
                play->seen_new++;
        else
                play->seen_old++;
}

static enum step_verdict point(void *context, uint64_t number, uintptr_t address)
{
        struct play *play = context;
        uint64_t torn = play->torn;

        (void)number;
        play->image = play->toy;
        play->end = step_play(others, play);
        if (play->end != STEP_DONE || (play->torn > torn && !play->where)) {
                play->where = address;
                if (play->end != STEP_DONE)
                        return STEP_STOP;
        }
        return STEP_ON;
}

static void kill_at_each(struct play *play, int kind, struct step_run *run)
{
        memset(play, 0, sizeof(*play));
        play->kind = kind;
        *run = (struct step_run){
                .operation = operation, .point = point, .context = play, .point_limit = 1000};
}

static void test_a_lock_bit_whose_holder_dies_is_found_to_hang(void)
{
        struct play play;
        struct step_run run;

        kill_at_each(&play, TOY_LOCKED, &run);
        CHECK(step_run(&run) == STEP_DONE);
        CHECK(play.end == STEP_HANGS);
        CHECK(strstr(step_where(play.where), "toy_write"));
        CHECK(play.toy.first == 7 && play.toy.second == 7);
}

static void test_two_stores_are_found_to_be_torn(void)
{
        struct play play;
        struct step_run run;

        kill_at_each(&play, TOY_TWO_STORES, &run);
        CHECK(step_run(&run) == STEP_DONE);
        CHECK(play.end == STEP_DONE);
        CHECK(play.torn > 0);
        CHECK(play.seen_old > 0 && play.seen_new > 0);
}

static void test_one_publishing_store_passes(void)
{
        struct play play;
        struct step_run run;

        kill_at_each(&play, TOY_RIGHT, &run);
        CHECK(step_run(&run) == STEP_DONE);
        CHECK(play.end == STEP_DONE);
        CHECK(play.torn == 0);
        CHECK(play.seen_old > 0 && play.seen_new > 0);
        CHECK(run.points == play.seen_old + play.seen_new);
}

/* A counter by load, add and store loses what others did in between; a counter by one locked
 * instruction does not. */
struct counter {
        uint64_t value;
        bool atomic;
        double weight;  /* lives in a vector register across points */
        uint64_t *lost; /* outside of what a branch puts back */
};

static void count(void *context)
{
        struct counter *counter = context;
        double weight = counter->weight * 2;

        if (counter->atomic)
                __atomic_fetch_add(&counter->value, 1, __ATOMIC_SEQ_CST);
        else
                __atomic_store_n(&counter->value,
                        __atomic_load_n(&counter->value, __ATOMIC_SEQ_CST) + 1, __ATOMIC_SEQ_CST);
        counter->weight = weight;
}

static enum step_verdict count_others(void *context, uint64_t number, uintptr_t address)
{
        struct counter *counter = context;

        (void)number;
        (void)address;
        step_branch();
        counter->value += 10;
        counter->weight += 1000;
        return STEP_ON;
}

static void count_ended(void *context, uint64_t number)
{
        struct counter *counter = context;

        (void)number;
        *counter->lost += counter->value != 11;
}

static uint64_t lost_counts(bool atomic, struct step_run *run, struct counter *counter)
{
        uint64_t lost = 0;

        *counter = (struct counter){.atomic = atomic, .weight = 1.5, .lost = &lost};
        *run = (struct step_run){.operation = count,
                .point = count_others,
                .ended = count_ended,
                .context = counter,
                .memory = {{counter, sizeof(*counter)}},
                .point_limit = 1000};
        if (step_run(run) != STEP_DONE)
                return UINT64_MAX;
        return lost;
}

static void test_resumed_read_modify_write_is_found_to_lose_an_update(void)
{
        struct counter counter;
        struct step_run run;

        CHECK(lost_counts(false, &run, &counter) > 0);
        CHECK(run.branches == run.points);
        /* The stepper has put all branches back. */
        CHECK(counter.value == 1 && counter.weight == 3.0);
}

static void test_resumed_atomic_add_loses_none(void)
{
        struct counter counter;
        struct step_run run;

        CHECK(lost_counts(true, &run, &counter) == 0);
        CHECK(run.branches == run.points && run.points > 5);
        CHECK(counter.value == 1 && counter.weight == 3.0);
}

static void crash(void *context)
{
        *(volatile int *)context = 1;
}

static void test_a_crash_is_reported_and_survived(void)
{
        CHECK(step_play(crash, NULL) == STEP_CRASHES);
        CHECK(step_play(crash, &(int){0}) == STEP_DONE);
}

static void spin(void *context)
{
        while (!*(volatile int *)context)
                ;
}

static enum step_verdict go_on(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        (void)number;
        (void)address;
        return STEP_ON;
}

static void test_an_operation_without_end_is_reported(void)
{
        struct step_run run = {
                .operation = spin, .point = go_on, .context = &(int){0}, .point_limit = 5000};

        CHECK(step_run(&run) == STEP_TOO_LONG);
        CHECK(run.points == 5000);
}

static enum step_verdict count_touches(void *context, uint64_t number, uintptr_t address)
{
        struct step_run *run = context;

        (void)number;
        (void)address;
        run->branches += run->touches;
        return STEP_ON;
}

static struct play touched;

static void write_touched(void *context)
{
        (void)context;
        toy_write(&touched.toy, touched.kind, 7);
}

static void test_each_access_to_shared_memory_is_a_stop(void)
{
        static const struct {
                int kind;
                uint64_t stops;
        } toys[] = {{TOY_LOCKED, 4}, {TOY_TWO_STORES, 2}, {TOY_RIGHT, 4}};

        for (unsigned i = 0; i < sizeof(toys) / sizeof(toys[0]); i++) {
                struct step_run run = {.operation = write_touched,
                        .point = count_touches,
                        .shared = {&touched.toy, sizeof(touched.toy)},
                        .point_limit = 1000};

                memset(&touched, 0, sizeof(touched));
                touched.kind = toys[i].kind;
                run.context = &run;
                CHECK(step_run(&run) == STEP_DONE);
                CHECK_EQ(run.branches, toys[i].stops);
                run.shared.at = &touched.image;
                CHECK(step_run(&run) == STEP_DONE);
                CHECK_EQ(run.branches, 0);
        }
}

static void test_every_image_of_a_long_run_is_new_once(void)
{
        const uint64_t count = 100000, spread = UINT64_C(0x9e3779b97f4a7c15);

        for (int round = 0; round < 2; round++) {
                images_forget();
                for (uint64_t i = 0; i < count; i++)
                        CHECK(images_new(i * spread));
                for (uint64_t i = 0; i < count; i++)
                        CHECK(!images_new(i * spread));
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_lock_bit_whose_holder_dies_is_found_to_hang);
        RUN(test_two_stores_are_found_to_be_torn);
        RUN(test_one_publishing_store_passes);
        RUN(test_resumed_read_modify_write_is_found_to_lose_an_update);
        RUN(test_resumed_atomic_add_loses_none);
        RUN(test_a_crash_is_reported_and_survived);
        RUN(test_an_operation_without_end_is_reported);
        RUN(test_each_access_to_shared_memory_is_a_stop);
        RUN(test_every_image_of_a_long_run_is_new_once);
        return test_end();
}
