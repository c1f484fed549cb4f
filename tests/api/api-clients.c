/* Clients: which place on the bus a bus has, and whether a client is still there. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB         (UINT64_C(1) << 20)
#define PATIENCE_NS UINT64_C(20000000000)

static struct world world;
static struct sb_bus *bus;

struct place {
        uint32_t number, generation;
};

static int place_of(struct sb_bus *of, struct place *ret)
{
        return sb_client(of, &ret->number, &ret->generation);
}

static int alive(struct place place)
{
        return sb_alive(bus, place.number, place.generation);
}

static void test_a_client_is_the_writer_of_what_it_writes(void)
{
        struct sb_guard guard = {0};
        struct place mine, others;
        struct sb_bus *other;

        WORLD_BEGIN(4 * MIB);
        other = world_bus(&world);
        CHECK(other);
        CHECK(place_of(bus, &mine) == 0 && place_of(other, &others) == 0);
        CHECK(mine.number != others.number);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQ(sb_set(i ? other : bus, b("key"), b("value"), NULL, NULL), 0);
                CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
                CHECK_EQ(guard.writer, i ? others.number : mine.number);
                sb_guard_release(&guard);
        }
        CHECK(alive(mine) == 0 && alive(others) == 0);
        CHECK(sb_alive(other, mine.number, mine.generation) == 0);
        CHECK(!sb_close(other));
        WORLD_END();
}

static void test_a_client_that_closed_is_gone_and_so_it_stays_when_its_number_is_taken(void)
{
        struct place before[20], now;
        struct sb_bus *other;

        WORLD_BEGIN(4 * MIB);
        for (unsigned i = 0; i < 20; i++) {
                other = world_bus(&world);
                CHECK(other);
                CHECK_EQ(place_of(other, &before[i]), 0);
                CHECK_EQ(alive(before[i]), 0);
                CHECK(!sb_close(other));
                CHECK_EQ(alive(before[i]), SB_E_NOT_FOUND);
        }
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(place_of(other, &now), 0);
        for (unsigned i = 0; i < 20; i++) {
                CHECK_EQ(alive(before[i]), SB_E_NOT_FOUND);
                CHECK(before[i].number != now.number || before[i].generation != now.generation);
        }
        CHECK_EQ(alive(now), 0);
        CHECK(!sb_close(other));
        WORLD_END();
}

static void test_a_place_that_no_client_has_is_not_found(void)
{
        static const uint32_t far[] = {1000, 65535, 65536, INT32_MAX, UINT32_MAX};
        struct place mine;

        WORLD_BEGIN(4 * MIB);
        CHECK_EQ(place_of(bus, &mine), 0);
        CHECK_EQ(sb_alive(bus, mine.number, mine.generation + 1), SB_E_NOT_FOUND);
        CHECK_EQ(sb_alive(bus, mine.number, mine.generation - 1), SB_E_NOT_FOUND);
        for (uint32_t number = 0; number < 20; number++)
                CHECK_EQ(sb_alive(bus, number, mine.generation + 1000), SB_E_NOT_FOUND);
        for (unsigned i = 0; i < sizeof(far) / sizeof(far[0]); i++)
                CHECK_EQ(sb_alive(bus, far[i], mine.generation), SB_E_NOT_FOUND);
        WORLD_END();
}

static void test_misuse_of_places_has_a_name(void)
{
        struct place mine = {7, 7};

        WORLD_BEGIN(4 * MIB);
        CHECK_EQ(sb_client(NULL, &mine.number, &mine.generation), -EINVAL);
        CHECK_EQ(sb_client(bus, NULL, &mine.generation), -EINVAL);
        CHECK_EQ(sb_client(bus, &mine.number, NULL), -EINVAL);
        CHECK_EQ(sb_alive(NULL, 1, 1), -EINVAL);
        CHECK(mine.number == 7 && mine.generation == 7);
        WORLD_END();
}

/* A process with a bus of its own, which says its place and a last word, and stays. */
static _Noreturn void be_a_client(int to)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = world.directory, .access = SB_PEER};
        struct sb_bus *own = NULL;
        struct place place;

        if (sb_open(&options, &own) != 0 || place_of(own, &place) != 0 ||
                sb_set(own, b("last"), b("word"), NULL, NULL) != 0 ||
                write(to, &place, sizeof(place)) != sizeof(place))
                _exit(1);
        for (;;)
                pause();
}

/* Wait until a place is left. Return: how long, in nanoseconds. */
static uint64_t wait_until_gone(struct place place)
{
        uint64_t begun = now_ns();

        while (alive(place) == 0 && now_ns() - begun < PATIENCE_NS)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        return now_ns() - begun;
}

static void test_a_process_that_stands_still_is_alive_and_a_dead_one_is_gone(void)
{
        uint64_t least = UINT64_MAX;

        WORLD_BEGIN(4 * MIB);
        if (!world.remote) {
                WORLD_END();
                TEST_SKIP("without an engine no process hears of a death");
        }
        for (unsigned i = 0; i < 5; i++) {
                struct place place;
                uint64_t took;
                int ends[2];
                pid_t pid;

                CHECK_EQ(pipe(ends), 0);
                pid = fork();
                if (pid == 0)
                        be_a_client(ends[1]);
                CHECK(read(ends[0], &place, sizeof(place)) == sizeof(place));
                CHECK_EQ(alive(place), 0);
                kill(pid, SIGSTOP);
                CHECK(waitpid(pid, NULL, WUNTRACED) == pid);
                nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
                CHECK_EQ(alive(place), 0);
                kill(pid, SIGKILL);
                took = wait_until_gone(place);
                least = took < least ? took : least;
                CHECK_EQ(alive(place), SB_E_NOT_FOUND);
                /* What it wrote is there. */
                CHECK(has(bus, "last", "word"));
                CHECK(waitpid(pid, NULL, 0) == pid);
                close(ends[0]);
                close(ends[1]);
        }
        printf("# a dead client was gone after %.1f ms at best\n", (double)least / 1e6);
        WORLD_END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_client_is_the_writer_of_what_it_writes);
        RUN(test_a_client_that_closed_is_gone_and_so_it_stays_when_its_number_is_taken);
        RUN(test_a_place_that_no_client_has_is_not_found);
        RUN(test_misuse_of_places_has_a_name);
        RUN(test_a_process_that_stands_still_is_alive_and_a_dead_one_is_gone);
        return test_end();
}
