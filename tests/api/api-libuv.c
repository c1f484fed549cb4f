/*
 * The descriptor of a bus in libuv's loop: uv_poll_t beside timers, several buses in one loop, what
 * is closed in a callback, and agentd's engines that come and go. $STATEBUS_FD says what waits
 * behind it.
 *
 * Always true: each change that a test waits for has to come by the descriptor. A timer only ends a
 * loop that waits in vain.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define LATE_MS   20000 /* for what comes */
#define QUIET_MS  30    /* for what does not */
#define BUSES     3u
#define TAKEN_MAX 64u /* changes of one turn */

/* A bus that a loop polls, with a watch of a key and one of a prefix. */
struct polled {
        uv_poll_t poll;
        struct sb_bus *bus;
        struct sb_watch *watches[2];
        unsigned got[2]; /* changes of each, with those that were lost */
        unsigned turns, idle, interrupts;
        unsigned wanted; /* changes of both; with them the loop is stopped */
        int r;           /* what ended it; SB_E_TIMED_OUT: nothing did */
        void (*behind)(struct polled *polled);
};

static struct daemon agentd;
static uv_loop_t loop;
static uv_timer_t late;
static struct polled polled[BUSES];
static struct sb_bus *other;
static bool was_late;

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static bool set(const char *key, const char *value)
{
        return sb_set(other, b(key), b(value), NULL, NULL) == 0;
}

static struct sb_bus *open_bus(void)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = agentd.place.directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;

        return sb_open(&options, &bus) == 0 ? bus : NULL;
}

/* ---- a loop ---- */

/* Take a change of @watch. Return: 0, and what sb_watch_next() says of trouble. */
static int take(struct polled *self, struct sb_watch *watch)
{
        struct sb_guard change = {0};
        int r = sb_watch_next(watch, 0, &change);

        if (r == SB_E_LAPPED || r == SB_E_TIMED_OUT)
                return 0;
        if (r == 0)
                self->got[watch == self->watches[1]] += 1 + (unsigned)change.missed;
        sb_guard_release(&change);
        return r;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
        struct polled *self = poll->data;
        unsigned before = self->got[0] + self->got[1];
        struct sb_watch *watch;
        int r = status == 0 && events == UV_READABLE ? 0 : -EPROTO;

        self->turns++;
        for (unsigned i = 0; i < TAKEN_MAX && r == 0 && (watch = sb_watch_ready(self->bus)); i++)
                r = take(self, watch);
        self->idle += self->got[0] + self->got[1] == before;
        if (self->behind)
                self->behind(self);
        if (r == 0 && self->bus)
                r = sb_wait(self->bus, 0);
        self->interrupts += r == -EINTR;
        if (r != 0 && r != SB_E_TIMED_OUT && r != -EINTR) {
                self->r = r;
                uv_poll_stop(poll);
                uv_stop(poll->loop);
        }
        if (self->wanted != 0 && self->got[0] + self->got[1] >= self->wanted)
                uv_stop(poll->loop);
}

static void on_late(uv_timer_t *timer)
{
        was_late = true;
        uv_stop(timer->loop);
}

/* Run the loop until it is stopped. Return: whether that came before @ms were over. */
static bool run_for(uint64_t ms)
{
        was_late = false;
        /* Else it counts from when the loop waited last. */
        uv_update_time(&loop);
        if (uv_timer_start(&late, on_late, ms, 0) != 0)
                return false;
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_timer_stop(&late);
        return !was_late;
}

/* Run the loop until the first bus has so many changes of both of its watches. */
static bool run_until(unsigned count)
{
        polled[0].wanted = count;
        return polled[0].got[0] + polled[0].got[1] >= count || run_for(LATE_MS);
}

/* Whether a loop with nothing to hear waits: a thread that was about to write costs a turn. */
static bool rests(void)
{
        unsigned before = polled[0].turns;

        for (unsigned i = 0; i < BUSES; i++)
                polled[i].wanted = 0; /* that turn does not end the loop */
        return !run_for(QUIET_MS) && polled[0].turns - before <= 1;
}

static bool poll_bus(struct polled *self)
{
        int fd;

        memset(self, 0, sizeof(*self));
        self->r = SB_E_TIMED_OUT;
        self->bus = open_bus();
        if (!self->bus ||
                sb_watch_open(self->bus, b("key"), 0, SB_ANY_REV, &self->watches[0]) != 0 ||
                sb_watch_open(self->bus, b("all/"), SB_PREFIX, SB_ANY_REV, &self->watches[1]) != 0)
                return false;
        fd = sb_fd(self->bus);
        self->poll.data = self;
        return fd >= 0 && uv_poll_init(&loop, &self->poll, fd) == 0 &&
               uv_poll_start(&self->poll, UV_READABLE, on_readable) == 0;
}

/* The handle first, then what it polls. */
static void drop_bus(struct polled *self)
{
        if (!uv_is_closing((uv_handle_t *)&self->poll))
                uv_close((uv_handle_t *)&self->poll, NULL);
        uv_run(&loop, UV_RUN_NOWAIT);
        for (unsigned i = 0; i < 2; i++)
                self->watches[i] = sb_watch_close(self->watches[i]);
        self->bus = sb_close(self->bus);
}

static bool begin(unsigned buses)
{
        if (!daemon_start(&agentd) || uv_loop_init(&loop) != 0 || uv_timer_init(&loop, &late) != 0)
                return false;
        other = open_bus();
        for (unsigned i = 0; i < buses; i++)
                if (!poll_bus(&polled[i]))
                        return false;
        return other;
}

/* Return: whether nothing is left in the loop. */
static bool end(unsigned buses)
{
        for (unsigned i = 0; i < buses; i++)
                drop_bus(&polled[i]);
        uv_close((uv_handle_t *)&late, NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
        other = sb_close(other);
        return uv_loop_close(&loop) == 0;
}

/* ---- what it hears ---- */

#define CHANGES 2000u

/* Changes, some in bursts and some each by itself. */
static void *change_often(void *argument)
{
        uint64_t random = 0x9e3779b97f4a7c15u;

        for (unsigned i = 0; i < CHANGES; i++) {
                if (!set(i % 2 == 0 ? "key" : "all/1", "value"))
                        return argument;
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                if (random % 4 == 0)
                        usleep((unsigned)(random >> 8) % 200u);
        }
        return NULL;
}

static void on_tick(uv_timer_t *timer)
{
        ++*(unsigned *)timer->data;
}

static void test_a_key_and_a_prefix_are_heard_beside_timers_and_then_it_rests(void)
{
        unsigned ticks = 0;
        uv_timer_t ticking = {.data = &ticks};
        pthread_t thread;
        void *failed;

        CHECK(begin(1));
        CHECK(rests());
        CHECK_EQ(uv_timer_init(&loop, &ticking), 0);
        CHECK_EQ(uv_timer_start(&ticking, on_tick, 1, 1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, change_often, &agentd), 0);
        CHECK(run_until(CHANGES));
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed && ticks > 0);
        CHECK_EQ(polled[0].got[0], CHANGES / 2);
        CHECK_EQ(polled[0].got[1], CHANGES / 2);
        printf("# %u changes in %u turns, %u of them with nothing, beside %u ticks\n", CHANGES,
                polled[0].turns, polled[0].idle, ticks);
        uv_close((uv_handle_t *)&ticking, NULL);
        CHECK(rests());
        CHECK(end(1));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

static void test_each_of_several_buses_in_one_loop_is_heard(void)
{
        pthread_t thread;
        void *failed;

        CHECK(begin(BUSES));
        CHECK_EQ(pthread_create(&thread, NULL, change_often, &agentd), 0);
        for (unsigned i = 0; i < BUSES; i++)
                polled[i].wanted = CHANGES;
        for (unsigned i = 0; i < BUSES; i++)
                while (polled[i].got[0] + polled[i].got[1] < CHANGES)
                        CHECK(run_for(LATE_MS));
        CHECK_EQ(pthread_join(thread, &failed), 0);
        CHECK(!failed);
        for (unsigned i = 0; i < BUSES; i++)
                CHECK_EQ(polled[i].got[0], CHANGES / 2);
        /* One that goes leaves the others as they are; the next one may get its descriptor. */
        drop_bus(&polled[1]);
        CHECK(poll_bus(&polled[1]));
        CHECK(set("key", "last"));
        for (unsigned i = 0; i < BUSES; i++)
                polled[i].wanted = 1 + (i != 1 ? CHANGES : 0);
        for (unsigned i = 0; i < BUSES; i++)
                while (polled[i].got[0] + polled[i].got[1] < polled[i].wanted)
                        CHECK(run_for(LATE_MS));
        CHECK(end(BUSES));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* Behind the last sb_watch_ready() of a turn, from another bus and from the same one. */
static void change_by_other(struct polled *self)
{
        if (self->got[0] < 6 && !set("key", "again"))
                self->r = -EPROTO;
}
static void change_by_itself(struct polled *self)
{
        if (self->got[0] < 6 && sb_set(self->bus, b("key"), b("again"), NULL, NULL) != 0)
                self->r = -EPROTO;
}

static void test_a_change_behind_the_last_look_comes_with_another_turn(void)
{
        void (*const ways[])(struct polled *) = {change_by_other, change_by_itself};

        CHECK(begin(1));
        for (unsigned i = 0; i < 2; i++) {
                polled[0].behind = ways[i];
                polled[0].got[0] = 0;
                CHECK(set("key", "first"));
                CHECK(run_until(6));
                CHECK_EQ(polled[0].got[0], 6);
                CHECK_EQ(polled[0].r, SB_E_TIMED_OUT);
                CHECK(rests());
        }
        CHECK(end(1));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* ---- what is closed ---- */

static void close_watch(struct polled *self)
{
        self->watches[0] = sb_watch_close(self->watches[0]);
}

static void test_a_watch_may_be_closed_in_the_callback(void)
{
        CHECK(begin(1));
        polled[0].behind = close_watch;
        CHECK(set("key", "1") && set("all/1", "1"));
        CHECK(run_until(2));
        CHECK(!polled[0].watches[0]);
        CHECK(set("key", "2"));
        CHECK(rests());
        CHECK(set("all/1", "2"));
        CHECK(run_until(3));
        CHECK_EQ(polled[0].got[1], 2);
        CHECK(end(1));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* In its own callback: the handle is stopped, and then the bus closed. */
static void close_all(struct polled *self)
{
        uv_poll_stop(&self->poll);
        self->bus = sb_close(self->bus);
}

static void test_a_bus_may_be_closed_in_the_callback_once_its_handle_is_stopped(void)
{
        CHECK(begin(2));
        polled[1].behind = close_all;
        CHECK(set("key", "1"));
        CHECK(run_until(1));
        while (polled[1].bus)
                CHECK(!run_for(QUIET_MS));
        CHECK_EQ(polled[1].got[0], 1);
        CHECK(set("key", "2"));
        CHECK(run_until(2));
        CHECK(rests());
        CHECK_EQ(polled[1].turns, 1);
        CHECK(end(2));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

static void test_what_came_while_the_handle_was_stopped_comes_when_it_is_started(void)
{
        CHECK(begin(1));
        CHECK_EQ(uv_poll_stop(&polled[0].poll), 0);
        CHECK(set("key", "1") && set("all/1", "1"));
        CHECK(rests());
        CHECK_EQ(polled[0].turns, 0);
        CHECK_EQ(uv_poll_start(&polled[0].poll, UV_READABLE, on_readable), 0);
        CHECK(run_until(2));
        CHECK(rests());
        CHECK(end(1));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

/* ---- what comes from elsewhere ---- */

static void *interrupt(void *argument)
{
        for (unsigned i = 0; i < 3; i++) {
                usleep(2000);
                sb_interrupt(argument);
        }
        return NULL;
}

static void test_an_interrupt_by_another_thread_is_heard(void)
{
        pthread_t thread;

        CHECK(begin(1));
        CHECK_EQ(pthread_create(&thread, NULL, interrupt, polled[0].bus), 0);
        CHECK(!run_for(QUIET_MS));
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK(!run_for(QUIET_MS)); /* a thread that had no processor interrupts late */
        CHECK(rests());
        CHECK(polled[0].interrupts > 0 && polled[0].interrupts <= 3);
        CHECK(polled[0].turns <= 8);
        CHECK(set("key", "1"));
        CHECK(run_until(1));
        CHECK(end(1));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

static pid_t engine(void)
{
        /* Relaxed: the value alone matters. */
        return (pid_t)sb_load_relaxed(&other->handle.segment.super->engine);
}

static void test_engines_are_replaced_and_then_agentd_ends(void)
{
        CHECK(begin(2));
        for (unsigned i = 0; i < 3; i++) {
                pid_t before = engine();

                CHECK_EQ(kill(before, SIGKILL), 0);
                CHECK(set("key", "1")); /* beside no engine */
                CHECK(run_until(2 * i + 1));
                CHECK(WAIT(engine() != before));
                CHECK(set("all/1", "1"));
                CHECK(run_until(2 * i + 2));
        }
        CHECK(!run_for(300) || polled[0].r == SB_E_TIMED_OUT);
        CHECK(polled[0].turns <= 6 + 3 * 4);
        CHECK_EQ(kill(agentd.pid, SIGTERM), 0);
        for (unsigned i = 0; i < 2; i++)
                while (polled[i].r == SB_E_TIMED_OUT)
                        CHECK(run_for(LATE_MS));
        for (unsigned i = 0; i < 2; i++)
                CHECK_EQ(polled[i].r, SB_E_DETACHED);
        CHECK(end(2));
        CHECK_EQ(daemon_ended(&agentd), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_a_key_and_a_prefix_are_heard_beside_timers_and_then_it_rests);
        RUN(test_each_of_several_buses_in_one_loop_is_heard);
        RUN(test_a_change_behind_the_last_look_comes_with_another_turn);
        RUN(test_a_watch_may_be_closed_in_the_callback);
        RUN(test_a_bus_may_be_closed_in_the_callback_once_its_handle_is_stopped);
        RUN(test_what_came_while_the_handle_was_stopped_comes_when_it_is_started);
        RUN(test_an_interrupt_by_another_thread_is_heard);
        RUN(test_engines_are_replaced_and_then_agentd_ends);
        return daemon_end(test_end());
}
