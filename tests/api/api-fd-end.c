/*
 * The descriptor of a bus when agentd ends: an event loop hears of it, and of nothing else.
 * $STATEBUS_FD says what waits behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define LONG_MS 20000

static struct daemon agentd;
static struct sb_bus *bus;
static struct sb_watch *watch;
static int fd;

/* @strange: agentd knows this process by another number, as beyond a pid namespace. */
static bool begin(bool strange)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER};

        if (!daemon_start(&agentd))
                return false;
        options.bus = agentd.place.directory;
        if (sb_open(&options, &bus) != 0 ||
                sb_watch_open(bus, (struct sb_bytes){"key", 3}, 0, SB_ANY_REV, &watch) != 0)
                return false;
        bus->handle.record->pid += strange;
        fd = sb_fd(bus);
        return fd >= 0;
}

static pid_t engine(void)
{
        /* Relaxed: the value alone matters. */
        return (pid_t)sb_load_relaxed(&bus->handle.segment.super->engine);
}

static bool readable(int wait_ms)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        return poll(&look, 1, wait_ms) == 1;
}

/* Turns of a loop, until the bus says something else than that there is nothing. */
static int turns(unsigned *ret_count)
{
        struct sb_guard change = {0};
        int r = SB_E_TIMED_OUT;

        for (*ret_count = 0; r == SB_E_TIMED_OUT && readable(LONG_MS); (*ret_count)++)
                r = sb_watch_next(watch, 0, &change);
        sb_guard_release(&change);
        return r;
}

static bool is_over(void)
{
        return readable(0) && sb_fd(bus) == -ENOTCONN && !sb_watch_close(watch) && !sb_close(bus);
}

static void test_the_end_of_agentd_shows_at_once(void)
{
        uint64_t begun;
        unsigned count;

        CHECK(begin(false));
        CHECK(!readable(300)); /* nothing to hear for longer than a sleep lasts */
        begun = daemon_now_ns();
        kill(agentd.pid, SIGSTOP); /* so that no other engine begins in between */
        kill(engine(), SIGKILL);
        kill(agentd.pid, SIGKILL);
        CHECK_EQ(turns(&count), SB_E_DETACHED);
        printf("# heard after %.1f ms, in %u turns\n", (double)(daemon_now_ns() - begun) / 1e6,
                count);
        CHECK(count <= 4 && is_over());
        (void)daemon_ended(&agentd);
}

static void test_an_agentd_that_stops_shows(void)
{
        unsigned count;

        CHECK(begin(false));
        CHECK_EQ(kill(agentd.pid, SIGTERM), 0);
        CHECK_EQ(turns(&count), SB_E_DETACHED);
        CHECK(count <= 4 && is_over());
        CHECK_EQ(daemon_ended(&agentd), 0);
}

static void test_where_the_engine_cannot_be_watched_its_end_shows_all_the_same(void)
{
        struct sb_guard change = {0};
        unsigned count;

        CHECK(begin(true));
        if (sb_fd_kind(bus) == SB_FD_IO_URING)
                for (unsigned i = 0; i < 2; i++) {
                        CHECK(!readable(20) && readable(LONG_MS));
                        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_TIMED_OUT);
                }
        CHECK_EQ(kill(agentd.pid, SIGTERM), 0);
        CHECK_EQ(turns(&count), SB_E_DETACHED);
        CHECK(is_over());
        CHECK_EQ(daemon_ended(&agentd), 0);
}

static void test_another_engine_costs_a_turn_or_two(void)
{
        struct sb_bytes key = {"key", 3};
        struct sb_guard change = {0};
        unsigned count;
        pid_t before;

        CHECK(begin(false));
        before = engine();
        kill(before, SIGKILL);
        CHECK(WAIT(engine() != before));
        for (count = 0; readable(300); count++)
                CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_TIMED_OUT);
        CHECK(count <= 4);
        CHECK_EQ(sb_set(bus, key, key, NULL, NULL), 0);
        CHECK_EQ(turns(&count), 0);
        CHECK_EQ(sb_wait(bus, 0), SB_E_TIMED_OUT);
        CHECK(!sb_watch_close(watch) && !sb_close(bus));
        CHECK_EQ(daemon_stop(&agentd), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_the_end_of_agentd_shows_at_once);
        RUN(test_an_agentd_that_stops_shows);
        RUN(test_where_the_engine_cannot_be_watched_its_end_shows_all_the_same);
        RUN(test_another_engine_costs_a_turn_or_two);
        return daemon_end(test_end());
}
