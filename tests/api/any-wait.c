/*
 * Waits, by chance: calls that sleep until another client's change, an interrupt or a signal comes;
 * predicates over keys; and the descriptors of buses, in turns of an event loop. See any.h.
 *
 * One thread does it all. So what is to come while a call sleeps is done by the system's wait
 * itself, which is the test's own: other buses write there; and before that, when the call looks at
 * the clock. A call that sleeps though it has something, and a change that does not wake it, are
 * seen at once. Where there is an agentd the clock is a real one: calls sleep a moment, and nothing
 * comes.
 *
 * A descriptor can be read while a watch has something, or an interrupt is to come; and it rests
 * when a loop has found nothing. LONG_MS only ends a test that waits in vain.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "tests/api/any.h"

#define MS       UINT64_C(1000000)
#define LONG_MS  20000 /* for what comes, where nothing is broken on purpose */
#define QUIET_MS 3     /* for what does not */
#define UNTIL    8u    /* keys of a predicate, at most */
#define TURNS    100000u

/* The predicate that a call has. */
struct until {
        uint32_t count, key[UNTIL], seen[UNTIL]; /* the changes of each that it has seen */
        uint32_t wanted;                         /* it is true when the first has so many changes */
        uint64_t asked, begun;                   /* how many changes all had when the call began */
        int answer;
        bool answered, writes, wrote;
};

/* The call that goes on, and may sleep. */
static struct {
        bool goes_on, signalled, raced; /* raced: a change may have come with an interrupt */
        uint32_t bus, changes;          /* that are to come while it sleeps */
        uint64_t deadline_ns;
        struct any_watch *watch;   /* for which it waits; NULL: for any */
        const struct until *until; /* or for a predicate */
} call;
static unsigned rings_ended; /* each may interrupt this thread once, as a signal does */

/* ---- calls that sleep ---- */

static uint64_t now_of_bus(void)
{
        return any.time_ns != 0 ? any.time_ns : now_ns();
}

static uint64_t draw_deadline(void)
{
        if (any.time_ns == 0)
                return any_one_in(60) ? now_ns() + MS : 0;
        switch (any_below(6)) {
        case 0:
                return SB_FOREVER;
        case 1:
                return any.time_ns + any_below(1000 * MS);
        default:
                return 0;
        }
}

uint64_t any_may_sleep(uint32_t bus, struct any_watch *watch)
{
        call.bus = bus;
        call.watch = watch;
        call.until = NULL;
        call.goes_on = true;
        call.signalled = call.raced = false;
        call.deadline_ns = draw_deadline();
        call.changes = (uint32_t)any_below(4);
        if (call.deadline_ns != 0 && any_one_in(6)) {
                any.bus[bus]->watches.spin_ns = any_below(100000);
                any.hurries = true; /* or it would look for ever */
        }
        return call.deadline_ns;
}

int any_has_slept(int r)
{
        bool *interrupted = &any.wait[call.bus].interrupted;

        call.goes_on = false;
        any.hurries = false;
        any.bus[call.bus]->watches.spin_ns = 0;
        if (r == SB_E_TIMED_OUT) {
                ANY_CHECK(!*interrupted, "an interrupt ends no call");
                ANY_CHECK(now_of_bus() >= call.deadline_ns, "a call ends before its deadline");
        }
        if (r != -EINTR)
                return r;
        if (call.signalled || (any.time_ns == 0 && !*interrupted && rings_ended > 0)) {
                rings_ended -= !call.signalled;
                *interrupted = false;
                return -EINTR;
        }
        ANY_CHECK(*interrupted, "a call was interrupted by nothing");
        *interrupted = false;
        return call.raced ? -EINTR : SB_E_TIMED_OUT;
}

/* Whether a key of the predicate has changed since it was asked. */
static bool is_stale(const struct until *until)
{
        for (uint32_t i = 0; i < until->count; i++)
                if (until->asked == 0 || until->seen[i] != any.key[until->key[i]].count)
                        return true;
        return false;
}

static uint64_t changes_of(const struct until *until)
{
        uint64_t count = 0;

        for (uint32_t i = 0; i < until->count; i++)
                count += any.key[until->key[i]].count;
        return count;
}

/* Whether the call must not sleep, or not sleep on. */
static bool has_come(void)
{
        if (any.wait[call.bus].interrupted)
                return true;
        if (call.until)
                return is_stale(call.until);
        return call.watch ? any_must_give(call.watch) : !!any_must_have(call.bus);
}

/* What comes while a call goes on. An interrupt may be for the next call, where this one is at its
 * deadline; and so time must not pass, either, but in its sleep. */
static void change(bool sleeps)
{
        static void (*const changes[])(void) = {any_set, any_set, any_cas, any_delete, any_number,
                any_txn_commit, any_delete_range, any_restore, any_tick};
        const uint64_t count = sizeof(changes) / sizeof(changes[0]);

        call.changes--;
        if (sleeps && any_one_in(12)) {
                sb_interrupt(any.bus[call.bus]);
                any.wait[call.bus].interrupted = true;
                return;
        }
        changes[any_below(count - !sleeps)]();
}

void any_look(void)
{
        bool hurries = any.hurries;

        if (!call.goes_on || any.asleep != 0 || call.changes == 0 ||
                any.time_ns >= call.deadline_ns || !any_one_in(6))
                return;
        if (call.watch)
                any_found_nothing(call.watch);
        any.hurries = false;
        any.asleep = call.bus + 1;
        call.raced = true;
        change(false);
        any.asleep = 0;
        any.hurries = hurries;
}

int any_sleep(struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        bool hurries = any.hurries;

        ANY_CHECK(call.goes_on && word == &any.bus[call.bus]->handle.record->bell,
                "a call sleeps that must not");
        ANY_CHECK(!has_come(), "a call sleeps though it has something");
        if (call.watch)
                any_found_nothing(call.watch);
        any.slept++;
        any.hurries = false;
        any.asleep = call.bus + 1;
        /* Relaxed, all: no other thread writes it. */
        while (call.changes > 0 && sb_load_relaxed(word) == expected)
                change(true);
        any.asleep = 0;
        any.hurries = hurries;
        if (any_one_in(16)) {
                call.signalled = true;
                return -EINTR;
        }
        if (sb_load_relaxed(word) != expected)
                return 0;
        ANY_CHECK(!has_come(), "what comes does not wake a call");
        if (call.deadline_ns == SB_FOREVER) {
                sb_interrupt(any.bus[call.bus]);
                any.wait[call.bus].interrupted = true;
                ANY_CHECK(sb_load_relaxed(word) != expected, "an interrupt does not wake a call");
        } else if (any.time_ns < deadline_ns) {
                any.time_ns = deadline_ns;
        }
        return 0;
}

void any_interrupt(void)
{
        uint32_t bus = any_bus();

        sb_interrupt(any.bus[bus]);
        any.wait[bus].interrupted = true;
        any_must_show(bus, "it was interrupted");
}

/* ---- any watch ---- */

void any_wait(void)
{
        uint32_t bus = any_bus();
        bool has = any_must_have(bus);
        struct sb_watch *ready;
        uint64_t deadline_ns;
        int r;

        if (has)
                any_must_show(bus, "a watch has something");
        deadline_ns = any_may_sleep(bus, NULL);
        r = any_has_slept(sb_wait(any.bus[bus], deadline_ns));
        ANY_CHECK(r == 0 || (r == -EINTR && !has) || (r == SB_E_TIMED_OUT && !any_must_have(bus)),
                "a wait says %d", r);
        if (r != 0)
                return;
        any_must_show(bus, "a wait said so");
        if (any_one_in(3))
                return;
        ready = sb_watch_ready(any.bus[bus]);
        ANY_CHECK(ready, "a wait ends, and no watch is ready");
        if (any_one_in(2))
                (void)any_ask(sb_watch_data(ready), true);
}

/* ---- a predicate ---- */

static int ask_until(void *argument, const struct sb_guard *guards, size_t count)
{
        struct until *until = argument;

        ANY_CHECK(call.until == until && count == until->count, "a predicate of other keys");
        ANY_CHECK(!until->answered, "a predicate that is true is asked again");
        ANY_CHECK(until->asked++ <= changes_of(until) - until->begun,
                "a predicate is asked more often than its keys have changed");
        for (uint32_t i = 0; i < count; i++) {
                uint32_t key = until->key[i];
                const struct any_change *now = any_now(key);

                ANY_CHECK(!now == !guards[i].bus, "key %u of a predicate", key);
                if (now)
                        any_compare_guard(&guards[i], key, now);
                until->seen[i] = any.key[key].count;
        }
        until->answered = until->seen[0] >= until->wanted;
        until->wrote = until->writes && any_one_in(3);
        /* Nothing comes meanwhile: what is drawn for one write is not for another inside it. */
        call.goes_on = false;
        if (until->wrote)
                (any_one_in(2) ? any_get : any_set)();
        call.goes_on = true;
        return until->answered ? until->answer : 0;
}

static void draw_until(struct until *until, struct sb_bytes *keys)
{
        static const int answers[] = {1, -1, -EINTR, SB_E_TIMED_OUT, SB_E_FULL, -EPROTO, 4711};

        *until = (struct until){.count = 1 + (uint32_t)any_below(any_one_in(3) ? UNTIL : 2)};
        for (uint32_t i = 0; i < until->count; i++) {
                until->key[i] = any_key();
                keys[i] = any_bytes(until->key[i]);
        }
        until->answer = answers[any_below(sizeof(answers) / sizeof(answers[0]))];
        /* At once; when so many changes have come; never. */
        until->wanted = any.key[until->key[0]].count + (uint32_t)any_below(3);
        if (any_one_in(4))
                until->wanted = UINT32_MAX;
        until->writes = any_one_in(4);
        until->begun = changes_of(until);
}

void any_wait_until(void)
{
        uint32_t bus = any_bus();
        struct sb_bytes keys[UNTIL];
        struct until until;
        uint64_t deadline_ns;
        int r;

        draw_until(&until, keys);
        deadline_ns = any_may_sleep(bus, NULL);
        call.until = &until;
        any.hurries = true; /* it has no deadline for memory */
        r = sb_wait_until(any.bus[bus], keys, until.count, ask_until, &until, deadline_ns);
        if (until.answered) {
                ANY_CHECK(r == until.answer, "a predicate answers %d, and a wait says %d",
                        until.answer, r);
                (void)any_has_slept(0);
                return;
        }
        r = any_has_slept(r);
        if (any_is_full(r)) {
                any_release_all();
                return;
        }
        ANY_CHECK(r == -EINTR || r == SB_E_TIMED_OUT, "a wait for a predicate says %d", r);
        /* What it wrote itself behind its look it may see, or not, where the deadline has passed.
         */
        ANY_CHECK(r == -EINTR || !is_stale(&until) || until.wrote,
                "a predicate was not asked for the last time");
        ANY_CHECK(until.asked > 0, "a predicate was not asked");
}

/* ---- the descriptor ---- */

static bool is_readable(uint32_t bus, int wait_ms)
{
        struct pollfd look = {.fd = any.wait[bus].fd, .events = POLLIN};
        int r;

        do
                r = poll(&look, 1, wait_ms);
        while (r < 0 && errno == EINTR);
        return r == 1 && look.revents == POLLIN;
}

void any_must_show(uint32_t bus, const char *why)
{
        const char *patience = getenv("SB_API_PATIENCE_MS");
        int wait_ms = patience ? atoi(patience) : LONG_MS;

        if (!any.wait[bus].has_fd)
                return;
        any.shown++;
        ANY_CHECK(is_readable(bus, wait_ms), "WAIT(%d) for the descriptor of bus %u: %s", wait_ms,
                bus, why);
}

/* What waits behind it is drawn, where the environment does not say it. */
void any_fd(void)
{
        static const char *const name = "STATEBUS_FD";
        uint32_t bus = any_bus();
        bool thread = !getenv(name) && any_one_in(2), had = any.wait[bus].has_fd;
        enum sb_fd_kind kind = sb_fd_kind(any.bus[bus]);
        int fd;

        ANY_CHECK(had == (kind != SB_FD_NONE), "a descriptor of kind %d", (int)kind);
        if (thread)
                setenv(name, "thread", 1);
        fd = sb_fd(any.bus[bus]);
        if (thread)
                unsetenv(name);
        ANY_CHECK(fd >= 0 && (!had || fd == any.wait[bus].fd), "a descriptor: %d", fd);
        any.wait[bus].fd = fd;
        any.wait[bus].has_fd = true;
        any.wait[bus].has_ring = sb_fd_kind(any.bus[bus]) == SB_FD_IO_URING;
        kind = sb_fd_kind(any.bus[bus]);
        ANY_CHECK(kind == SB_FD_THREAD || (kind == SB_FD_IO_URING && (had || !thread)),
                "a descriptor is of kind %d", (int)kind);
}

void any_fd_look(void)
{
        uint32_t bus = any_bus();

        if (any_must_have(bus))
                any_must_show(bus, "a watch has something");
        if (any.wait[bus].interrupted)
                any_must_show(bus, "it was interrupted");
}

/*
 * Nothing is there, so it cannot be read. A thread that was just about to write it costs a turn;
 * and so does the end of an engine, and the time until there is another one.
 */
static void check_rests(uint32_t bus)
{
        bool thread = sb_fd_kind(any.bus[bus]) == SB_FD_THREAD;
        uint32_t turns = any.time_ns == 0 ? 10 : thread ? 4 : 0;
        int wait_ms = any_one_in(16) ? QUIET_MS : 0; /* drawn once, however many turns it takes */

        if (!any.wait[bus].has_fd)
                return;
        any.rested++;
        while (is_readable(bus, wait_ms)) {
                int r = sb_wait(any.bus[bus], 0);

                ANY_CHECK(turns-- > 0, "the descriptor of bus %u can be read for nothing", bus);
                ANY_CHECK(r == SB_E_TIMED_OUT, "a wait for nothing says %d", r);
        }
}

/* Take what there is, @left times at most. Return: whether there is nothing more. */
static bool take(uint32_t bus, uint32_t left)
{
        uint64_t full = any.full;
        struct sb_watch *ready;

        for (; left > 0; left--) {
                ready = sb_watch_ready(any.bus[bus]);
                if (!ready)
                        return true;
                any_must_show(bus, "a watch is ready");
                if (any_ask(sb_watch_data(ready), true))
                        any_must_show(bus, "a watch gave something, and may have more");
                else if (any.full > full + 1)
                        return false; /* of guards, though all were released */
        }
        return false;
}

/* A turn of an event loop; without a descriptor, of a loop that polls. */
void any_fd_turn(void)
{
        uint32_t bus = any_bus();
        bool few = any_one_in(2);
        const struct any_watch *has;
        int r;

        if (!take(bus, few ? (uint32_t)any_below(4) : TURNS)) {
                ANY_CHECK(few || any.full > 0, "a loop over all watches does not end");
                return;
        }
        has = any_must_have(bus);
        ANY_CHECK(!has, "no watch is ready, and that of key %u has %llu changes",
                has ? has->key : 0, has ? (unsigned long long)any_left_of(has) : 0);
        if (any.wait[bus].interrupted) {
                any_must_show(bus, "it was interrupted");
                r = sb_wait(any.bus[bus], 0);
                ANY_CHECK(r == -EINTR, "an interrupt is to come, and a wait says %d", r);
                any.wait[bus].interrupted = false;
                any_must_show(bus, "no call has found nothing");
                r = sb_wait(any.bus[bus], 0);
                ANY_CHECK(r == SB_E_TIMED_OUT, "a wait for nothing says %d", r);
        }
        check_rests(bus);
}

/* ---- the end ---- */

void any_fd_end(uint32_t bus)
{
        /* Nothing else was opened since then. */
        ANY_CHECK(!any.wait[bus].has_fd || fcntl(any.wait[bus].fd, F_GETFD) < 0,
                "a bus is closed, and its descriptor is not");
        rings_ended += any.wait[bus].has_ring;
        any.wait[bus].has_fd = any.wait[bus].has_ring = any.wait[bus].interrupted = false;
}
